"""Kernels: loops, scalar expressions, and where they read and write. No device is named here.

A `Loops` kernel visits every point of a box of axes. The first `outer` axes are independent and
may run in any order or in parallel; the others are `inner` and are swept in passes:

    for each point of the outer axes:
        pass 0:  for each point of the inner axes: the reductions and stores of level 0
        pass 1:  the same for level 1, which may use the results of level 0
        ...
        then the stores that lie at the outer level

A sum rounds at every step, so that of many points is one of blocks: backends fold at most
`BLOCK` points, or vectors of points, from the identity on, and then the results of such blocks. A
kernel whose `cut` names an inner axis folds a part of that axis only, at each point of its last
outer axis, which counts the parts: partial results, for another kernel to fold. Their lengths
follow from the sizes (`part_length`), so bits do not depend on the number of threads. Scans and
sorts are cut in the same way.

A kernel without inner axes is a *map*; with inner axes and reductions it is a *row* kernel
(softmax, norms, losses) or a column sum, according to `lane`, the axis along which neighbouring
elements are neighbours in memory.

A `Scatter` folds values into elements chosen by indices. A `Scan` keeps what it folds, point by
point. A `Sort` gives positions in the order of keys, and a `Merge` those of two sorted runs.

A `Contraction` is C[g, b, m, n] = sum over k of A[g, b, m, k] * B[g, b, k, n]. An `Attention` is
two contractions with a softmax between them, none of whose weights are stored.

Kernels hold no sizes: a kernel's text depends on the kernel alone. Equal ones are one object, which
is never changed (`loops` and its neighbours make them). Sizes, strides and offsets come with each
`KernelCall`. Operand modes:

    in, out, inout   an element at  offset + sum(coordinate * stride)
    scalar           one float64 or int64 (by the category of `dtype`), cast on entry
    position         no memory: the element is the address itself (int64), for counters
    scratch          memory to use in any way
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property, lru_cache
from operator import attrgetter
from typing import NamedTuple

from contraflow.dtypes import DType
from contraflow.expressions import expression as s
from contraflow.expressions.expression import Expr

READS, WRITES = ("in", "inout"), ("out", "inout", "scratch")  # modes of operands
BLOCK = 64  # points of a fold that begin with the identity; the results of blocks are folded next
STRIDED = 2  # a stride class: neither 0 nor 1, so an argument of the call


class LaneCosts(NamedTuple):
    """The costs by which the axis of a kernel's vectors is chosen, in times of a load, about."""

    vector: int = 8  # elements that are loaded or computed at once, where they lie side by side
    body: int = 4  # the time of a kernel's body
    fold: int = 16  # that of adding up the lanes of a vector at the end of a fold


class Limits(NamedTuple):
    """The capabilities of a device that fusion and planning need to know."""

    bindings: int = 1 << 16  # operands in memory that one kernel may have
    # Lines one kernel may have: more would not hide memory traffic any better, and the time to
    # compile a kernel grows faster than its length.
    lines: int = 48
    folds: int = 1 << 16  # reductions one kernel may have
    costs: LaneCosts = LaneCosts()  # of lanes and folds
    alignment: int = 64  # bytes at which values in the arena begin
    # Whether one operand of a kernel may write the memory that another one reads.
    aliasing: bool = True
    # Whether kernels may read and write different parts of one piece of memory, so that temporaries
    # lie in one arena. Else each has a piece for itself, and one of a later time may take it over.
    arena: bool = True
    # The bits that int64 is computed in; results that do not fit fail, as a wrong index does.
    int64_bits: int = 64
    element_bytes: Callable[[DType], int] = attrgetter("itemsize")  # those that it takes there
    windows: bool = False  # whether a contraction may have digits
    # Matrices with at most this many columns are stored column-major: their rows are shorter than
    # a vector.
    narrow: int = 0
    # The kinds that not every device has: scatter, scan, sort, which run on the host where they are
    # not named, and attention, which is done by its parts there.
    kernels: frozenset[str] = frozenset()
    # The fewest queries, and keys, of attention that is one kernel there, with a causal mask and
    # without one; with fewer its parts are as fast. And the most elements of a query or a value.
    attention_rows: tuple[int, int] = (0, 0)
    attention_columns: int = 1 << 62
    host: bool = True  # whether programs may have steps that run on the host, in its memory
    # Names of ops without a kernel that a library of the device does: steps as on the host, whose
    # inputs are whole values of the dtypes that the op computes in. They are names, not ops, since
    # devices lie below the modules that declare ops.
    library: frozenset[str] = frozenset()
    lacks: frozenset[str] = frozenset()  # names of dtypes that values cannot have there
    doubles: bool = False  # whether sums may be carried in float64, where an op asks for it
    # The most points of a row that one Sort can order, a multiple of BLOCK; longer rows are sorted
    # in parts, which are merged. 0: any number, in scratch memory.
    sorted_points: int = 0
    # Whether thousands of threads work at the same time, so that what one of them would visit in
    # order is shared out where it is long: scans in parts, scatters by their targets.
    many_threads: bool = False
    # Whether a product and a sum are rounded one after the other, so that a value has the same bits
    # in every kernel that computes it. Where they may be contracted into one operation, values that
    # are compared for equality are read from memory (`comparisons.py`).
    exact: bool = True

    def has_call(self, name: str) -> bool:
        """Whether a library of the device does the op of that name."""
        return name in self.library


class Operand(NamedTuple):
    """One argument of a kernel; `strides` has a class (0, 1 or STRIDED) per axis."""

    dtype: DType
    mode: str
    strides: tuple[int, ...] = ()


class KernelFold(NamedTuple):
    """A fold over the inner axes of `values`, a tuple so that (value, index) pairs can be folded.

    `combine` is over `left` and `right` leaves; it must be associative and commutative, and
    `identity` neutral to it.
    """

    values: tuple[Expr, ...]
    combine: tuple[Expr, ...]
    identity: tuple[Expr, ...]

    @property
    def rounds(self) -> bool:
        """Whether folding has rounding errors: those of a sum or a product grow with its length."""
        return s.rounds(self.combine)


def part_length(size: int, parts: int) -> int:
    """How many points of a cut axis each part has (the last fewer), a multiple of BLOCK."""
    return -(-size // (parts * BLOCK)) * BLOCK


class Store(NamedTuple):
    """Write `value` to an operand, at every inner point or once per outer point."""

    operand: int
    value: Expr
    inner: bool


@dataclass(eq=False, repr=False)
class Box:
    """The base of kernels that visit a box of points."""

    outer: int
    inner: int
    lane: int | None
    operands: tuple[Operand, ...]

    @property
    def roots(self) -> tuple[Expr, ...]:
        """The expressions that are computed."""
        raise NotImplementedError

    def describe(self, number: Callable[[Expr], int]) -> Iterator[str]:
        """Everything else about the kernel, given a way to number expressions."""
        raise NotImplementedError

    @cached_property
    def checks_indices(self) -> bool:
        """Whether some index is loaded, so that the kernel needs an error word."""
        return any(e.fn == "checked" for e in s.walk(self.roots))

    @cached_property
    def gathered(self) -> frozenset[int]:
        """The operands that are read at computed addresses."""
        return frozenset(e.data for e in s.walk(self.roots) if e.fn == "load" and e.args)

    @cached_property
    def identity(self) -> str:
        """A digest of everything: kernels that share it are equal."""
        return _digest(self)

    @property
    def kind(self) -> str:
        """The name of the kind of kernel."""
        return type(self).__name__.lower()

    @cached_property
    def name(self) -> str:
        """A stable name: the kind and a short form of the identity."""
        return f"{self.kind}_{self.identity[:12]}"


@dataclass(eq=False, repr=False)
class Loops(Box):
    """A map or row kernel; see the module's text."""

    reductions: tuple[KernelFold, ...]
    stores: tuple[Store, ...]
    cut: int | None = None  # the inner axis whose parts the last outer axis counts

    @property
    def roots(self) -> tuple[Expr, ...]:
        """The folded and the stored expressions."""
        folded = (v for r in self.reductions for v in r.values)
        return (*folded, *(st.value for st in self.stores))

    def describe(self, number: Callable[[Expr], int]) -> Iterator[str]:
        """Reductions and stores."""
        for r in self.reductions:
            groups = ([number(e) for e in g] for g in (r.values, r.combine, r.identity))
            yield f"reduce {list(groups)}"
        for st in self.stores:
            yield f"store {st.operand} {number(st.value)} {st.inner}"
        if self.cut is not None:
            yield f"cut {self.cut}"

    @property
    def kind(self) -> str:
        """By the shape of the loops."""
        across = self.lane is not None and self.lane < self.outer
        return "map" if not self.inner else "column" if across else "row"

    @cached_property
    def passes(self) -> tuple[tuple[tuple[int, ...], tuple[int, ...]], ...]:
        """(reductions, inner stores) of each pass, by number."""
        levels: dict[Expr, int] = {}
        of_reduction: dict[int, int] = {}

        def level(e: Expr) -> int:
            for x in s.walk([e]):
                if x not in levels:
                    own = of_reduction[x.data[0]] + 1 if x.fn == "reduced" else 0
                    levels[x] = max([own, *(levels[a] for a in x.args)])
            return levels[e]

        for i, r in enumerate(self.reductions):
            of_reduction[i] = max(level(v) for v in r.values)
        of_store = {i: level(st.value) for i, st in enumerate(self.stores) if st.inner}
        count = max([-1, *of_reduction.values(), *of_store.values()]) + 1
        return tuple(
            (
                tuple(i for i, n in of_reduction.items() if n == p),
                tuple(i for i, n in of_store.items() if n == p),
            )
            for p in range(count)
        )


@dataclass(eq=False, repr=False)
class Scatter(Box):
    """Values folded into elements of an operand, some of them chosen by loaded indices.

        for each point: element = target[at]; target[at] = combine(element, value)

    Points of different outer axes go to different elements. Those of the inner axes may meet, and
    are visited in row-major order, whatever the number of threads. `combine` is over a `left` leaf,
    what the element holds, and a `right` one, the value. `at` comes on top of the target's strides;
    `value` has the target's dtype.

    `order` is an operand that holds the row-major numbers of the inner points in the order of the
    elements that they go to, row by row of the outer points: those that meet lie side by side
    there, so the points of one element may be folded by one thread, and others by others.
    """

    target: int
    at: Expr
    value: Expr
    combine: Expr
    order: int | None = None

    @property
    def roots(self) -> tuple[Expr, ...]:
        """Where the value goes, and what it is."""
        return self.at, self.value

    @cached_property
    def checks_indices(self) -> bool:
        """Whether some index is loaded, or a sum is checked."""
        return any(e.fn == "checked" for e in s.walk((*self.roots, self.combine)))

    def describe(self, number: Callable[[Expr], int]) -> Iterator[str]:
        """The fold."""
        yield f"scatter {self.target} {[number(e) for e in (*self.roots, self.combine)]}"
        if self.order is not None:
            yield f"order {self.order}"


@dataclass(eq=False, repr=False)
class Scan(Box):
    """A state that is carried along the one inner axis, and stored at each of its points.

        state = start; for each inner point: state = step(state); store

    `step` is over `left` leaves, the state before a point; the stores are over `reduced` leaves,
    the state after it. A scan that is `cut` begins anew with every part, at the start of that part.
    """

    start: tuple[Expr, ...]
    step: tuple[Expr, ...]
    stores: tuple[Store, ...]
    cut: int | None = None

    @property
    def roots(self) -> tuple[Expr, ...]:
        """The state, and what is stored."""
        return (*self.start, *self.step, *(st.value for st in self.stores))

    def describe(self, number: Callable[[Expr], int]) -> Iterator[str]:
        """States and stores."""
        yield f"scan {[[number(e) for e in group] for group in (self.start, self.step)]}"
        for st in self.stores:
            yield f"store {st.operand} {number(st.value)}"
        if self.cut is not None:
            yield f"cut {self.cut}"


@dataclass(eq=False, repr=False)
class Sort(Box):
    """The positions along the one inner axis in the order of their keys; equal ones keep theirs.

    `key` is an integer expression. The first `wanted` positions are stored. A share may use one of
    the `areas` of the scratch operand, each of which has room for two keys and two positions, as
    large as keys, per inner point; without scratch rows are short (`Limits.sorted_points`). A sort
    that is `cut` sorts each part of a row by itself; positions count from the start of the row.
    """

    target: int
    scratch: int | None
    key: Expr
    areas: Expr
    wanted: Expr
    keys: int | None = None  # the operand that the keys go to, in the order of the positions
    cut: int | None = None

    @property
    def roots(self) -> tuple[Expr, ...]:
        """The key, and the numbers of areas and of positions."""
        return self.key, self.areas, self.wanted

    def describe(self, number: Callable[[Expr], int]) -> Iterator[str]:
        """The key, and where positions go."""
        yield f"sort {self.target} {self.scratch} {[number(e) for e in self.roots]}"
        if self.keys is not None:
            yield f"keys {self.keys}"
        if self.cut is not None:
            yield f"cut {self.cut}"


@dataclass(eq=False, repr=False)
class Merge(Box):
    """The positions along the one inner axis, merged: runs of `length` points, each in the order of
    its keys, become runs of twice the length. Of equal keys those of the earlier run come first.

    `key` and `position` are those of a point. The first `wanted` positions of a row are stored.
    """

    target: int
    keys: int | None  # the operand that the keys go to, in the order of the positions
    key: Expr
    position: Expr
    length: Expr
    wanted: Expr

    @property
    def roots(self) -> tuple[Expr, ...]:
        """The key and position of a point, and the numbers of points of a run and of positions."""
        return self.key, self.position, self.length, self.wanted

    def describe(self, number: Callable[[Expr], int]) -> Iterator[str]:
        """The key and the position, and where they go."""
        yield f"merge {self.target} {self.keys} {[number(e) for e in self.roots]}"


# Kernels are interned, so that properties computed of one are kept with it.
loops = lru_cache(maxsize=8192)(Loops)
scatter = lru_cache(maxsize=1024)(Scatter)
scan = lru_cache(maxsize=1024)(Scan)
sort = lru_cache(maxsize=1024)(Sort)
merge = lru_cache(maxsize=1024)(Merge)


@dataclass(eq=False, repr=False)
class Contraction:
    """C[g, b, m, n] = sum over k of A[g, b, m, k] * B[g, b, k, n], accumulated in `accumulate`.

    Operands 0, 1, 2 are A, B and C with axes (g, b, m, k), (g, b, k, n) and (g, b, m, n), any
    strides. The batch has two axes because that of attention has: the heads of an example lie
    within its rows, so that no one stride walks over the heads of all examples.

    With `digits` (p, q) B is read through more strides, as windows are: there k has p axes and n
    has q, which A and C see as one each, and a sum over one more axis, o, lies around that over k.
    The sizes of a call are (g, b, m, o, *k, *n), the axes of A (g, b, m, o, k), of B
    (g, b, o, *k, *n).
    """

    dtype: DType
    accumulate: DType
    digits: tuple[int, int] | None = None

    checks_indices = False

    @cached_property
    def operands(self) -> tuple[Operand, ...]:
        """A, B and C, as a Loops kernel has them."""
        ranks = (5, 3 + sum(self.digits), 4) if self.digits else (4, 4, 4)
        modes = ("in", "in", "out")
        return tuple(Operand(self.dtype, mode, (STRIDED,) * n) for mode, n in zip(modes, ranks))

    @cached_property
    def name(self) -> str:
        """A stable name."""
        kind = "windows_{}_{}".format(*self.digits) if self.digits else "contraction"
        return f"{kind}_{self.dtype}_{self.accumulate}"

    @property
    def identity(self) -> str:
        """The name says everything."""
        return self.name


contraction = lru_cache(maxsize=256)(Contraction)


@dataclass(eq=False, repr=False)
class Attention:
    """Averages of values by a softmax of scores, or their gradients; no weight is stored.

        S[l, s] = scale * sum over e of Q[l, e] * K[s, e]     if `causal`, for s <= l only
        W[l, s] = exp(S[l, s] - N[l]),  where N[l] is the logarithm of the sum over s of exp(S)

    for each point (g, b) of a batch. `part` says what is stored, of W and, for gradients,
    D[l, s] = scale * W[l, s] * (sum over v of G[l, v] * V[s, v] - M[l]):

        out      O[l, v] = sum over s of W V, and N
        query    sum over s of D[l, s] * K[s, e]
        key      sum over l of D[l, s] * Q[l, e], and sum over l of W[l, s] * G[l, v]
        all      the results of query and of key

    G is the cotangent of O, and M[l] the sum over v of G * O. The sizes of a call are
    (g, b, l, s, e, v). Operands are Q, K, V, for gradients G, N and M, then the results, and the
    scale. N and M have the dtype `accumulate`.
    """

    dtype: DType
    accumulate: DType
    part: str
    causal: bool

    checks_indices = False

    @cached_property
    def operands(self) -> tuple[Operand, ...]:
        """Q, K, V and so on, as a Loops kernel has them."""
        matrix, vector = (STRIDED,) * 4, (STRIDED,) * 3
        rows = Operand(self.accumulate, "in", vector)
        result, given = Operand(self.dtype, "out", matrix), Operand(self.dtype, "in", matrix)
        of_part = {
            "out": (result, rows._replace(mode="out")),
            "query": (given, rows, rows, result),
            "key": (given, rows, rows, result, result),
            "all": (given, rows, rows, result, result, result),
        }
        scale = Operand(self.accumulate, "scalar")
        return (given, given, given, *of_part[self.part], scale)

    @cached_property
    def name(self) -> str:
        """A stable name."""
        causal = "_causal" if self.causal else ""
        return f"attention_{self.part}{causal}_{self.dtype}_{self.accumulate}"

    @property
    def identity(self) -> str:
        """The name says everything."""
        return self.name


attention = lru_cache(maxsize=256)(Attention)

Kernel = Loops | Scatter | Scan | Sort | Merge | Contraction | Attention


class KernelCall(NamedTuple):
    """A kernel with its sizes, one per axis: those of a contraction are (g, b, m, n, k), those of
    an attention (g, b, l, s, e, v).

    `strides` has a tuple of element strides per operand, one per axis (empty for scalars).
    The plan binds each operand to memory, at an element offset.
    """

    kernel: Kernel
    sizes: tuple[int, ...]
    strides: tuple[tuple[int, ...], ...]


def strided_arguments(call: KernelCall) -> list[int]:
    """The strides a Loops kernel takes as arguments, in operand and axis order."""
    return [
        stride
        for operand, strides in zip(call.kernel.operands, call.strides)
        for kind, stride in zip(operand.strides, strides)
        if kind == STRIDED
    ]


def _digest(kernel: Box) -> str:
    numbers: dict[Expr, int] = {}
    lines: list[str] = []

    def number(e: Expr) -> int:
        for x in s.walk([e]):
            if x not in numbers:
                numbers[x] = len(numbers)
                args = [numbers[a] for a in x.args]
                lines.append(f"{x.fn} {args} {x.dtype} {x.data!r}")
        return numbers[e]

    for o in kernel.operands:
        lines.append(f"{o.dtype} {o.mode} {o.strides}")
    for line in kernel.describe(number):
        lines.append(line)  # after the expressions it numbers
    lines.append(f"{kernel.outer} {kernel.inner} {kernel.lane}")
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()
