"""The sizes that decide how something is run, or into how many parts it is cut.

They were found by measuring. Results are right whatever they are; how sums are cut decides about
their last bits. Code reads them as attributes of this module (`thresholds.eager_kernel`), so a test
can set them for a while:

    with thresholds.using(eager_kernel=0, long_fold=64):
        ...

Constants that decide the text of one kernel (vectors, blocks, panels) are not here but in `render/`
and `compiler/kernel.py`: the text is cached under a name that follows from those modules. Nor are
limits, which are the same for every run: of formats, of drivers, of arguments, of memory that is
kept. `tests/house/test_thresholds.py` lists those with their reasons.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

# --- eager mode: NumPy is done with few elements before a program has started ------------------

eager_kernel = 1 << 13  # elements from which on an op runs as a program
eager_composite = 1 << 8  # the same for composites, which are several ops
eager_arithmetic = 1 << 16  # the same for arithmetic, which NumPy does as fast as one thread can
eager_join = 1 << 16  # the same for parts of a gradient, which NumPy copies side by side
# Calls of one kind on few elements from which on they are a routine over arrays.
eager_repeats = 2
kept_programs = 2048  # programs of single ops that are kept
eager_pieces = 16  # pieces of a tensor beyond which they are made as one node
# Elements up to which gradient rules of arithmetic run over bare arrays, not one by one as ops.
bare_arrays = 1 << 13
# Elements, over the inputs of all nodes, from which on backward uses threads that it was given.
parallel_backward = 1 << 18
waiting_pieces = 8  # parts of a gradient that wait for each other; more are stored one by one
formed_outputs = 8  # outputs of a node for which forms of what is applied to them are kept
many_view_ops = 8  # views of views from which on one op stands for all of them
few_random_words = 1024  # words that Python's integers compute sooner than arrays
random_chunk = 1 << 13  # blocks that NumPy handles at a time: temporaries then stay in the cache
written_signature = 50  # uses of an op from which on a function is written for its signature
kept_file_names = 10_000  # files known to be the user's or not; generated code may have many names
unvisited_objects = 200_000  # objects that were made old before all are visited once

# --- capture -----------------------------------------------------------------------------------

many_captures = 8  # the recordings of one function at which a warning is given
long_tape = 20_000  # lines of a recording from which on a warning names what makes so many
paired_storages = 8  # storages that a hit compares pair by pair
written_guards = 16  # calls after which the guards of a program that has no hits become a function
number_questions = 32  # about one number; code that asks more, such as a loop, needs its value
seen_changes = 2  # a number or tensor that guards have found changed so often is carried
filled_caches = 3  # a cache that lacks results more often than this in one call drops them again
learned_recordings = 32  # a call that is recorded more often, to carry more places, is refused
kept_structures = 256  # the structures of arguments whose fixed numbers are remembered
kept_rewrites = 4096  # code objects whose observed form is kept

# --- tapes -------------------------------------------------------------------------------------

long_product = 1 << 15  # products, a hundred panels of a kernel; a longer sum of them is cut
padded_pieces = 4  # pieces among zeros that one kernel sums as fast as several store them in place
recomputed_lines = 16  # lines that a backward program computes again rather than keep their value
# Tensors that one line joins; more are joined in groups. A kernel asks of each element which of its
# operands it comes from, which is quadratic in their number.
joined_inputs = 16
written_terms = 64  # the sum over covering windows is unrolled up to this many
gathered_terms = 16  # elements that one kernel reads for each of its results
# Values that may be folded into one element of a scatter, one after the other, in float32.
meeting_values = 128

# --- kernels -----------------------------------------------------------------------------------

long_fold = 8192  # points; a fold of more is cut
fold_part = 4096  # points of a part of it, about
# A kernel that goes over a row more than once is not cut: the row is still in a cache when it is
# needed again. Longer rows are folded by one kernel and used by the next.
long_row = 1 << 17
few_long_rows = 32  # fewer long rows than this leave threads idle
long_inner_sum = 64  # products that a contraction must add up inside a batch of such sums
narrow_rows = 16  # rows from which on a narrow value is worth storing column by column
sort_areas = 64  # shares of a sort that have memory of their own
# Points that one thread of a device with thousands of them walks along sooner than several kernels
# let all threads share them.
walked_points = 64
scan_part = 256  # points of a part of a scan there; shorter rows are not cut
many_scans = 1 << 13  # rows from which on the threads there have enough to do
# Temporaries up to which each is compared with all others, which takes the least memory. More are
# laid out in the order of steps: in a time that grows as they do, with gaps between them.
best_fit_values = 2048
followed_meetings = 32  # values that one is followed back to; the first of them are left out

# --- the CPU -----------------------------------------------------------------------------------

# Element operations that take as long as synchronizing two threads: less than that for each barrier
# of a program is faster on one thread.
cpu_shared_work = 12_500
cpu_fixed_barriers = 3  # per program, beside one per kernel: what waking its threads costs
cpu_free_steps = 8  # steps of an expression that take as long as reading and writing an element
cpu_long_loop = 100_000  # points of a kernel that are worth dealing out
cpu_long_result = 1 << 16  # elements of a contraction's result; less is not worth packing twice
cpu_long_text = 100_000  # characters of LLVM's text that one thread compiles; a longer one is cut

# --- CUDA --------------------------------------------------------------------------------------

cuda_graph_steps = 3  # of a program that becomes a graph; fewer are launched as fast
cuda_graph_runs = 5  # of a program before it becomes a graph
cuda_graphs = 6  # that a program records; then its launches stay as they are
cuda_branches = 2000  # steps of a graph; in longer programs each waits for the one before it
cuda_bytes_apart = 1 << 29  # of temporaries up to which none of them takes the place of another
cuda_grouped_blocks = 1024  # of each call among those of one launch
cuda_fitting_addresses = 64  # sets of addresses that a graph is known to fit
cuda_late_products = 3  # products that come behind the longest way; fewer are not worth it
cuda_late_height = 3  # the most steps to the end of a late product's way
cuda_late_slack = 6  # the least steps by which that is shorter than the longest way
# Sums up to this length are not cut into parts: the second kernel that adds these takes longer than
# it spares, though the library prefers it for small results. Nor are longer ones, the second
# number, where other products fill the GPU.
cuda_short_sums = 255
cuda_short_sums_beside = 1024
# Where TF32 is allowed, products of sums and results up to these sizes are done in float32: by the
# library's kernels for that they take 2.2 to 2.4 us, and 2.6 to 2.9 with TF32 (H200).
cuda_exact_sums = 32
cuda_exact_results = 64 * 64
cuda_shown_numbers = 4  # outputs of one element that a graph shows to the host
cuda_waiting_runs = 64  # whose outcomes are not known; then the host waits for the older half
cuda_staged_download = 1 << 16  # bytes that come by way of pinned memory; more go by the driver

# --- WebGPU ------------------------------------------------------------------------------------

# Kernels that wait before they are submitted: the GPU begins while others are being encoded. Few
# after it was waited for, then more.
webgpu_first_kernels = 12
webgpu_waiting_kernels = 96
webgpu_waiting_work = 1 << 24  # operations of these, likewise: a GPU is busy with them for a while
webgpu_bindings = 16  # sets of addresses that a program is kept bound to


_NAMES = frozenset(name for name, value in globals().items() if type(value) is int)
_caches: list[Callable[[], None]] = []


def on_change(clear: Callable[[], None]) -> None:
    """Register a function that clears a cache which depends on thresholds."""
    _caches.append(clear)


@contextmanager
def using(**values: int) -> Iterator[None]:
    """Set thresholds while the block runs, in all threads; for tests.

    Programs and compiled functions that exist already stay as they are.
    """
    for name in values:
        if name not in _NAMES:
            known = ", ".join(sorted(_NAMES))
            raise ValueError(f"thresholds: there is no {name!r}. Known: {known}.")
    before = {name: globals()[name] for name in values}
    try:
        globals().update(values)
        for clear in _caches:
            clear()
        yield
    finally:
        globals().update(before)
        for clear in _caches:
            clear()
