"""Conventions of the C-like renderers: names, the order of arguments, and launch sizes.

`cuda.py` and `wgsl.py` each give a `Syntax` and the text around a kernel's body; `bodies.py` writes
the body. A body uses these names, which the text around it declares:

    thread, threads, group, groups    the place in the launch, counted from zero
    size0, size1, ...                 the extent of each axis; of a contraction: g, b, m, n, k,
                                      of one with digits: g, b, m, o and those of k and n,
                                      of an attention: g, b, l, s, e, v
    offset0, ...                      per operand that is not a scalar: its first element's address
    stride0_1, ...                    per operand and axis whose stride class is STRIDED
    operand0, ...                     per operand in memory: its elements
    scalar0, ...                      per scalar operand: its value, already cast
    line                              the tape line blamed for a failed index check

The integers among them are passed in that order, sizes before offsets before strides before
`line`, which only kernels that check indices have: `integer_names` lists them and
`integer_values` gives their values for one call.

The work of a launch is counted in groups (`count_groups`), and bodies take any number of groups,
each as often as it must, so a device may launch fewer:

    map            a thread per outer point
    column         the same, each thread sweeping the inner axes alone
    scan, scatter  the same; of a scatter in the order of targets, a thread per point
    row            a group per outer point: its threads share the sweep, then fold their results
                   in a tree, whose order depends on the number of threads alone
    sort           a group per outer point, in memory that its threads share
    merge          a thread per point
    contraction    a group per tile of the result
    attention      a group per tile of the result, which goes along all rows that it averages

A failed index check is recorded in two words, which the host clears: the tape line plus 1, and the
index. Only the first failure is kept. Accesses that depend on that index are skipped.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple, Protocol

from contraflow.compiler.kernel import (
    STRIDED,
    Attention,
    Contraction,
    Kernel,
    KernelCall,
    Loops,
    Merge,
    Scatter,
    Sort,
    part_length,
    strided_arguments,
)
from contraflow.dtypes import DType
from contraflow.expressions.expression import Number

# The kinds of kernels, of those that not every device has, for which there are bodies.
KERNELS = frozenset(("attention", "scatter", "scan", "sort"))

# Reductions of one kernel: those of pairs, with a result per thread in memory that a group shares,
# take 2 KiB each on WebGPU and up to 4 KiB elsewhere.
FOLDS = 8

# The most points that a group sorts: with their positions they take 8 KiB, keys of int64 12.
SORTED = 1024

# A multiple of every vendor's wave or warp, and the most that WebGPU guarantees.
THREADS = 256

# A contraction's tile of the result, how much of k is staged at once, and each thread's share:
# 16 x 16 threads hold 4 x 4 sums. Two staged tiles of float32 take 8 KiB.
TILE, DEPTH, SHARE = 64, 16, 4
SPREAD = TILE // SHARE
PANEL = 256  # products that are added up from zero, as on the CPU; a multiple of DEPTH
# Threads that store one column of A's tile would meet in one bank of memory without the extra 1.
A_PITCH = TILE + 1
# The rows of attention's tile of the result, and of its weights: half of those of a contraction,
# since the weights for TILE rows of the other side lie in shared memory too.
ATTENTION_ROWS = 32


class Syntax(Protocol):
    """How a language spells what bodies are made of. Declarations come without a semicolon."""

    column: str  # of the INTRINSICS table
    index: str  # the type of coordinates and addresses
    barrier: str
    # The value that another thread of the same warp has, by how far it is away; "" without any.
    shuffle: str
    staged: int  # how much of a product's depth attention has in shared memory at a time
    # Columns, or rows, that the threads of a group share; 0: a thread walks along each column
    # alone, and all threads of a group along each row.
    tile: int
    turns: int  # elements of a row that each thread has; 0: any number
    unrolled: str  # what says that the turns of a loop are to be written out

    def type_of(self, dtype: DType) -> str:
        """The type of a variable that holds a value of `dtype`."""

    def literal(self, value: Number, dtype: DType) -> str:
        """A constant, as text that can stand beside any operator."""

    def apply(self, template: str, args: Sequence[str], dtype: DType) -> str:
        """Fill in a template of the INTRINSICS table; `dtype` is that of the last argument."""

    def convert(self, text: str, source: DType, target: DType) -> str:
        """A value cast to another dtype: to integers saturating, with zero for NaN."""

    def reinterpret(self, text: str, source: DType, target: DType) -> str:
        """The bits of a value read as another dtype."""

    def load(self, operand: int, dtype: DType, address: str) -> str:
        """An element of memory as a value."""

    def store(self, operand: int, dtype: DType, address: str, value: str) -> str:
        """The statement that writes an element of memory."""

    def constant(self, name: str, type_name: str, value: str) -> str:
        """The declaration of a name for a value."""

    def variable(self, name: str, type_name: str, value: str) -> str:
        """The declaration of a variable that is assigned again."""

    def guarded(
        self, name: str, type_name: str, condition: str, value: str, otherwise: str
    ) -> list[str]:
        """Statements that declare a name; `value` is evaluated only where the condition holds."""

    def fail(self, index: str) -> str:
        """The statement that records a failed index check."""


class GroupArray(NamedTuple):
    """An array that the threads of a group share."""

    name: str
    dtype: DType
    length: int
    vector: str = ""  # the type of its elements, where they are vectors of four


class Body(NamedTuple):
    """A kernel's statements, indented once, and the shared arrays that they use."""

    lines: list[str]
    shared: list[GroupArray]


def in_memory(kernel: Kernel) -> list[int]:
    """The numbers of the operands that are memory, so that a pointer or a buffer is bound."""
    return [i for i, o in enumerate(kernel.operands) if o.mode in ("in", "out", "inout")]


def scalars(kernel: Kernel) -> list[int]:
    """The numbers of the operands that are host scalars."""
    return [i for i, o in enumerate(kernel.operands) if o.mode == "scalar"]


def checks_indices(kernel: Kernel) -> bool:
    """Whether the kernel can fail, and so takes a tape line and the words of a failure."""
    return kernel.checks_indices


def is_cooperative(kernel: Kernel) -> bool:
    """Whether the threads of a group work on one outer point together."""
    if isinstance(kernel, Contraction | Attention):
        return True
    if not isinstance(kernel, Loops):
        return isinstance(kernel, Sort)
    return kernel.inner > 0 and (kernel.lane is None or kernel.lane >= kernel.outer)


def integer_names(kernel: Kernel) -> list[str]:
    """The integer arguments of a kernel, in the order in which they are passed."""
    if isinstance(kernel, Contraction):
        axes = 4 + sum(kernel.digits or (1,))
    elif isinstance(kernel, Attention):
        axes = 6
    else:
        axes = kernel.outer + kernel.inner
    sizes = [f"size{k}" for k in range(axes)]
    offsets = [f"offset{i}" for i, o in enumerate(kernel.operands) if o.mode != "scalar"]
    strides = [
        f"stride{i}_{k}"
        for i, o in enumerate(kernel.operands)
        for k, kind in enumerate(o.strides)
        if kind == STRIDED
    ]
    return [*sizes, *offsets, *strides, *(["line"] if checks_indices(kernel) else [])]


def integer_values(call: KernelCall, offsets: Sequence[int], line: int = 0) -> list[int]:
    """The values of `integer_names`; `offsets` has one entry per operand, scalars' ignored."""
    kernel = call.kernel
    own = [at for at, o in zip(offsets, kernel.operands, strict=True) if o.mode != "scalar"]
    lines = [line] if checks_indices(kernel) else []
    return [*call.sizes, *own, *strided_arguments(call), *lines]


def product_sizes(kernel: Contraction, sizes: Sequence[int]) -> tuple[int, int, int, int, int]:
    """The extents of g, b, m, n and k; those of a contraction with digits multiplied out."""
    if kernel.digits is None:
        g, b, m, n, k = sizes
        return g, b, m, n, k
    g, b, m, o = sizes[:4]
    split = 4 + kernel.digits[0]
    return g, b, m, math.prod(sizes[split:]), o * math.prod(sizes[4:split])


def attention_extents(kernel: Attention, sizes: Sequence[int]) -> list[tuple[int, int, int, int]]:
    """The extents of g, b and of the rows and columns that are shared out in tiles, of one result
    after the other."""
    g, b, queries, keys, e, v = sizes
    of_query, of_key = (g, b, queries, e), (g, b, keys, max(e, v))
    return {
        "out": [(g, b, queries, v)],
        "query": [of_query],
        "key": [of_key],
        "all": [of_query, of_key],
    }[kernel.part]


def visits_points_alone(kernel: Kernel) -> bool:
    """Whether every point, inner ones too, has a thread of its own."""
    return isinstance(kernel, Merge) or (isinstance(kernel, Scatter) and kernel.order is not None)


def swept_points(call: KernelCall) -> int:
    """The number of inner points that a group of a cooperative kernel visits, at most."""
    assert not isinstance(call.kernel, Contraction | Attention)
    if isinstance(call.kernel, Sort) and call.kernel.cut is not None:
        return part_length(call.sizes[-1], call.sizes[-2])
    return math.prod(call.sizes[call.kernel.outer :])


def count_groups(call: KernelCall) -> int:
    """How many groups the call has work for; with none it need not be launched."""
    if isinstance(call.kernel, Contraction):
        g, b, m, n, _ = product_sizes(call.kernel, call.sizes)
        return g * b * math.ceil(m / TILE) * math.ceil(n / TILE)
    if isinstance(call.kernel, Attention):
        return sum(
            g * b * math.ceil(rows / ATTENTION_ROWS) * math.ceil(columns / TILE)
            for g, b, rows, columns in attention_extents(call.kernel, call.sizes)
        )
    points = math.prod(call.sizes[: call.kernel.outer])
    if visits_points_alone(call.kernel):
        points = math.prod(call.sizes)
    if isinstance(call.kernel, Sort):
        assert swept_points(call) <= SORTED, "longer rows are sorted in parts"
    return points if is_cooperative(call.kernel) else math.ceil(points / THREADS)
