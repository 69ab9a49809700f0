"""The sizes that decide how something is run, or into how many parts it is cut.

They were found by measuring. Results are right whatever they are; how sums are cut decides about
their last bits. Code reads them as attributes of this module (`thresholds.eager_kernel`), so a test
can set them for a while:

    with thresholds.using(eager_kernel=0, long_fold=64):
        ...

Constants that decide the text of one kernel (vectors, blocks, panels) are not here but in `render/`
and `compiler/kernel.py`: the text is cached under a name that follows from those modules.
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

# --- the CPU -----------------------------------------------------------------------------------

cpu_shared_work = 12_500  # element operations that one thread does sooner than it meets another
cpu_long_loop = 100_000  # points of a kernel that are worth dealing out
cpu_long_result = 1 << 16  # elements of a contraction's result; less is not worth packing twice


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
