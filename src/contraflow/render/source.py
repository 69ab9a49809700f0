"""What the C-like renderers share: the order of statements, addresses, loops and tiles.

`cuda.py` and `wgsl.py` each give a `Syntax` and the text around a kernel's body; `write` gives the
body. A body uses these names, which the text around it declares:

    thread, threads, group, groups    the place in the launch, counted from zero
    size0, size1, ...                 the extent of each axis; of a contraction: b, m, n, k
    offset0, ...                      per operand that is no scalar: its first element's address
    stride0_1, ...                    per operand and axis whose stride class is STRIDED
    operand0, ...                     per operand in memory: its elements
    scalar0, ...                      per scalar operand: its value, already cast
    line                              the tape line blamed for a failed index check

The integers among them are passed in that order, sizes before offsets before strides before
`line`, which only kernels that check indices have: `integer_names` lists them and
`integer_values` gives their values for one call.

The work of a launch is counted in groups (`count_groups`), and bodies take any number of groups,
each as often as it must, so a device may launch fewer:

    map       a thread per outer point
    column    the same, each thread sweeping the inner axes alone
    row       a group per outer point; threads share the sweep and fold their results in a tree
    contraction   a group per tile of the result

A failed index check is recorded in two words, which the host clears: the tape line plus 1, and the
index. Only the first failure is kept. What depends on that index neither reads nor writes memory.
"""

from __future__ import annotations

import math
from collections import ChainMap, Counter
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import replace
from typing import NamedTuple, Protocol

import numpy as np

from contraflow import mathematics  # noqa: F401 (its import gives rows their decompositions)
from contraflow import scalar as s
from contraflow.dtypes import DType, bool_
from contraflow.kernel import STRIDED, Call, Contraction, Kernel, Loops, strided_arguments
from contraflow.scalar import Expr, Number

# A multiple of every vendor's wave or warp, and the most that WebGPU guarantees.
THREADS = 256

# A contraction's tile of the result, how much of k is staged at once, and each thread's share:
# 16 x 16 threads hold 4 x 4 sums. Two staged tiles of float32 take 8 KiB.
TILE, DEPTH, SHARE = 64, 16, 4
SPREAD = TILE // SHARE
# Threads that store one column of A's tile would meet in one bank of memory without the extra 1.
A_PITCH = TILE + 1


class Syntax(Protocol):
    """How a language spells what bodies are made of. Declarations come without a semicolon."""

    column: str  # of the INTRINSICS table
    index: str  # the type of coordinates and addresses
    barrier: str

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


class Shared(NamedTuple):
    """An array that the threads of a group share."""

    name: str
    dtype: DType
    length: int


class Body(NamedTuple):
    """A kernel's statements, indented once, and the shared arrays that they use."""

    lines: list[str]
    shared: list[Shared]


def in_memory(kernel: Kernel) -> list[int]:
    """The numbers of the operands that are memory, so that a pointer or a buffer is bound."""
    return [i for i, o in enumerate(kernel.operands) if o.mode in ("in", "out", "inout")]


def scalars(kernel: Kernel) -> list[int]:
    """The numbers of the operands that are host scalars."""
    return [i for i, o in enumerate(kernel.operands) if o.mode == "scalar"]


def checks_indices(kernel: Kernel) -> bool:
    """Whether the kernel can fail, and so takes a tape line and the words of a failure."""
    return isinstance(kernel, Loops) and kernel.checks_indices


def is_cooperative(kernel: Kernel) -> bool:
    """Whether the threads of a group work on one outer point together."""
    if isinstance(kernel, Contraction):
        return True
    return kernel.inner > 0 and (kernel.lane is None or kernel.lane >= kernel.outer)


def integer_names(kernel: Kernel) -> list[str]:
    """The integer arguments of a kernel, in the order in which they are passed."""
    axes = 4 if isinstance(kernel, Contraction) else kernel.outer + kernel.inner
    sizes = [f"size{k}" for k in range(axes)]
    offsets = [f"offset{i}" for i, o in enumerate(kernel.operands) if o.mode != "scalar"]
    strides = [
        f"stride{i}_{k}"
        for i, o in enumerate(kernel.operands)
        for k, kind in enumerate(o.strides)
        if kind == STRIDED
    ]
    return [*sizes, *offsets, *strides, *(["line"] if checks_indices(kernel) else [])]


def integer_values(call: Call, offsets: Sequence[int], line: int = 0) -> list[int]:
    """The values of `integer_names`; `offsets` has one entry per operand, scalars' ignored."""
    kernel = call.kernel
    own = [at for at, o in zip(offsets, kernel.operands, strict=True) if o.mode != "scalar"]
    lines = [line] if checks_indices(kernel) else []
    return [*call.sizes, *own, *strided_arguments(call), *lines]


def count_groups(call: Call) -> int:
    """How many groups the call has work for; with none it need not be launched."""
    if isinstance(call.kernel, Contraction):
        b, m, n, _ = call.sizes
        return b * math.ceil(m / TILE) * math.ceil(n / TILE)
    points = math.prod(call.sizes[: call.kernel.outer])
    return points if is_cooperative(call.kernel) else math.ceil(points / THREADS)


def write(kernel: Kernel, syntax: Syntax) -> Body:
    """The body of a kernel."""
    if isinstance(kernel, Contraction):
        contraction = ContractionWriter(kernel, syntax)
        contraction.write_tiles()
        return Body(contraction.lines, contraction.shared)
    loops = LoopsWriter(prepare(kernel, syntax.column), syntax)
    loops.write_points()
    return Body(loops.lines, loops.shared)


# --- expressions -------------------------------------------------------------------------------

# Rows without a template: a cast depends on two dtypes, and a check is a statement.
_SPECIAL = frozenset(("cast", "bitcast", "checked"))


def template(fn: str, dtype: DType, column: str) -> str | None:
    """The text of a row for arguments of `dtype`, or None where it must be decomposed."""
    found: str | dict[str, str] | None = getattr(s.INTRINSICS[fn], column)
    return found.get(s.category(dtype)) if isinstance(found, dict) else found


def prepare(kernel: Loops, column: str) -> Loops:
    """The kernel in rows that the backend has: the others decomposed, constants folded.

    Constants are folded here because WGSL rejects a text whose constants overflow.
    """

    def simplify(e: Expr) -> Expr | None:
        if e.fn in s.LEAVES or e.fn == "checked":
            return None
        if all(a.fn == "const" for a in e.args):
            with np.errstate(all="ignore"):
                (value,) = s.evaluate([e], lambda leaf, args: None)
            return s.const(np.asarray(value).item(), e.dtype)
        if e.fn in _SPECIAL or template(e.fn, e.args[-1].dtype, column) is not None:
            return None
        decomposition = s.INTRINSICS[e.fn].decomposition
        if decomposition is None:
            raise NotImplementedError(f"{e.fn}: {column} has no text for {e.args[-1].dtype}.")
        return decomposition(*e.args)

    groups = [g for r in kernel.reductions for g in (r.values, r.combine, r.identity)]
    roots = [e for g in groups for e in g] + [store.value for store in kernel.stores]
    while (simpler := s.rewrite(roots, simplify)) != roots:
        roots = simpler
    rest = iter(roots)
    reductions = tuple(
        replace(
            r,
            values=tuple(next(rest) for _ in r.values),
            combine=tuple(next(rest) for _ in r.combine),
            identity=tuple(next(rest) for _ in r.identity),
        )
        for r in kernel.reductions
    )
    stores = tuple(replace(store, value=next(rest)) for store in kernel.stores)
    return replace(kernel, reductions=reductions, stores=stores)


class Value(NamedTuple):
    """What an expression became: its text, and the index checks that it depends on."""

    text: str
    checks: tuple[str, ...] = ()


class Writer:
    """Statements with their indentation, and the values that are in scope."""

    def __init__(self, kernel: Kernel, syntax: Syntax) -> None:
        self.operands = kernel.operands
        self.syntax = syntax
        self.lines: list[str] = []
        self.shared: list[Shared] = []
        self.values: ChainMap[Expr, Value] = ChainMap()
        self.depth = 1
        self.defined = 0

    def line(self, text: str) -> None:
        """Write one line."""
        self.lines.append("    " * self.depth + text)

    @contextmanager
    def scope(self) -> Iterator[None]:
        """Forget at the end what was computed inside."""
        self.values = self.values.new_child()
        yield
        self.values = self.values.parents

    @contextmanager
    def block(self, header: str) -> Iterator[None]:
        """Write `header { ... }` around what is written inside."""
        self.line(header + " {")
        self.depth += 1
        with self.scope():
            yield
        self.depth -= 1
        self.line("}")

    @contextmanager
    def loop(self, name: str, start: str, stop: str, step: str) -> Iterator[None]:
        """Write a loop over `name` from `start` to below `stop`."""
        first = self.syntax.variable(name, self.syntax.index, start)
        with self.block(f"for ({first}; {name} < {stop}; {name} += {step})"):
            yield

    def index(self, name: str, value: str) -> str:
        """Declare a constant of the index type."""
        self.line(self.syntax.constant(name, self.syntax.index, value) + ";")
        return name

    def define(self, dtype: DType, text: str) -> str:
        """Give a value the next free name."""
        name = self.next_name()
        self.line(self.syntax.constant(name, self.syntax.type_of(dtype), text) + ";")
        return name

    def next_name(self) -> str:
        """The next free name for a value."""
        self.defined += 1
        return f"v{self.defined - 1}"

    def element(
        self, number: int, address: str, conditions: Sequence[str], memory: bool = True
    ) -> str:
        """Name an element of an operand, which is zero where a condition fails."""
        syntax, dtype = self.syntax, self.operands[number].dtype
        text = syntax.load(number, dtype, address) if memory else address
        if not conditions:
            return self.define(dtype, text)
        name = self.next_name()
        zero = syntax.literal(0, dtype)
        condition = " && ".join(conditions)
        for line in syntax.guarded(name, syntax.type_of(dtype), condition, text, zero):
            self.line(line)
        return name


class LoopsWriter(Writer):
    """Writes the body of a map, row or column kernel."""

    def __init__(self, kernel: Loops, syntax: Syntax) -> None:
        super().__init__(kernel, syntax)
        self.kernel = kernel
        self.cooperative = is_cooperative(kernel)

    # Expressions.

    def compute(self, roots: Sequence[Expr]) -> list[Value]:
        """Write the statements that give expressions their values, each once per scope."""
        for e in s.walk(roots):
            if e not in self.values:
                self.values[e] = self.value(e)
        return [self.values[e] for e in roots]

    def value(self, e: Expr) -> Value:
        """Write the statements of one expression whose arguments have values."""
        syntax = self.syntax
        args = [self.values[a].text for a in e.args]
        # A dict as an ordered set: the text must not depend on the hashes of strings.
        checks = tuple(dict.fromkeys(c for a in e.args for c in self.values[a].checks))
        if e.fn == "const":
            return Value(syntax.literal(e.data, e.dtype))
        if e.fn == "axis":
            return Value(f"i{e.data}")
        if e.fn == "reduced":
            return Value(fold_name(*e.data))
        if e.fn == "load":
            return self.load(e, args, checks)
        if e.fn == "checked":
            return self.check(e, args, checks)
        if e.fn == "cast":
            text = syntax.convert(args[0], e.args[0].dtype, e.dtype)
        elif e.fn == "bitcast":
            text = syntax.reinterpret(args[0], e.args[0].dtype, e.dtype)
        else:
            dtype = e.args[-1].dtype
            text = syntax.apply(template(e.fn, dtype, syntax.column) or "", args, dtype)
            if e.dtype.compute is not e.dtype:  # computed in float32, rounded once
                text = syntax.convert(f"({text})", e.dtype.compute, e.dtype)
        return Value(text if text in args else self.define(e.dtype, text), checks)

    def load(self, e: Expr, args: Sequence[str], checks: tuple[str, ...]) -> Value:
        """Write the load of an element: of memory, a host scalar, or an address itself."""
        mode = self.operands[e.data].mode
        if mode == "scalar":
            return Value(f"scalar{e.data}")
        address = " + ".join([self.address(e.data), *args[:1]])
        conditions = [*checks, *args[1:]]
        return Value(self.element(e.data, address, conditions, mode != "position"), checks)

    def check(self, e: Expr, args: Sequence[str], checks: tuple[str, ...]) -> Value:
        """Write an index check, which everything that uses the index will depend on."""
        index, size = args
        zero = self.syntax.literal(0, e.dtype)
        inside = self.define(bool_, f"{index} >= {zero} && {index} < {size}")
        self.line(f"if (!{inside}) {{ {self.syntax.fail(index)} }}")
        return Value(index, (*checks, inside))

    def address(self, number: int) -> str:
        """The address of an operand's element at the current coordinates."""
        terms = [f"offset{number}"]
        for k, kind in enumerate(self.operands[number].strides):
            if kind:
                terms.append(f"i{k}" if kind == 1 else f"i{k} * stride{number}_{k}")
        return " + ".join(terms)

    def hoist(self, roots: Sequence[Expr]) -> None:
        """Compute before a loop what every turn would repeat.

        Not what memory holds: where the loop has no turns there may be nothing to read.
        """
        fixed: dict[Expr, bool] = {}
        for e in s.walk(roots):
            moves = e.fn == "axis" and e.data >= self.kernel.outer
            reads = e.fn == "load" and self.operands[e.data].mode != "scalar"
            own = not (moves or reads or e.fn == "checked")
            fixed[e] = own and all(fixed[a] for a in e.args)
        self.compute([e for e, is_fixed in fixed.items() if is_fixed])

    # Loops.

    def write_points(self) -> None:
        """Write the loop over the outer axes: everything."""
        kernel = self.kernel
        outer = range(kernel.outer)
        self.index("points", self.extent(outer))
        start, step = "group * threads + thread", "groups * threads"
        if self.cooperative:
            start, step = "group", "groups"
            self.index("elements", self.extent(range(kernel.outer, kernel.outer + kernel.inner)))
        with self.loop("point", start, "points", step):
            self.split("point", outer)
            for reductions, stores in kernel.passes:
                self.write_pass(reductions, stores)
            last = [i for i, store in enumerate(kernel.stores) if not store.inner]
            if last:
                alone = self.block("if (thread == 0)") if self.cooperative else nullcontext()
                with alone:
                    self.store(last)

    def extent(self, axes: Sequence[int]) -> str:
        """The number of points of a box of axes."""
        return " * ".join(f"size{k}" for k in axes) or "1"

    def split(self, position: str, axes: Sequence[int]) -> None:
        """Declare the coordinates of a position, the lane's moving fastest."""
        ordered = sorted(axes, key=lambda k: k == self.kernel.lane)
        for k in reversed(ordered[1:]):
            self.index(f"i{k}", f"{position} % size{k}")
            position = f"{position} / size{k}"
        if ordered:
            self.index(f"i{ordered[0]}", position)

    def write_pass(self, reductions: Sequence[int], stores: Sequence[int]) -> None:
        """Write one sweep of the inner axes, and the end of its reductions."""
        kernel, syntax = self.kernel, self.syntax
        values = [v for r in reductions for v in kernel.reductions[r].values]
        self.hoist([*values, *(kernel.stores[i].value for i in stores)])
        for r in reductions:
            identity = kernel.reductions[r].identity
            for component, start in enumerate(self.compute(identity)):
                type_name = syntax.type_of(identity[component].dtype)
                name = fold_name(r, component)
                self.line(syntax.variable(name, type_name, start.text) + ";")
        with ExitStack() as stack:
            self.sweep(stack)
            # Every value is read before anything is written: an operand may be both.
            self.compute([*values, *(kernel.stores[i].value for i in stores)])
            for r in reductions:
                names = fold_names(kernel, r)
                found = [value.text for value in self.compute(kernel.reductions[r].values)]
                for name, text in zip(names, self.combine(r, names, found)):
                    self.line(f"{name} = {text};")
            self.store(stores)
        if self.cooperative and reductions:
            self.fold_threads(reductions)

    def sweep(self, stack: ExitStack) -> None:
        """Open the loops over the inner axes: each thread's share, or all of them."""
        inner = range(self.kernel.outer, self.kernel.outer + self.kernel.inner)
        if self.cooperative:
            stack.enter_context(self.loop("element", "thread", "elements", "threads"))
            self.split("element", inner)
            return
        stack.enter_context(self.scope())
        for k in inner:
            stack.enter_context(self.loop(f"i{k}", "0", f"size{k}", "1"))

    def combine(self, number: int, left: Sequence[str], right: Sequence[str]) -> list[str]:
        """Write a reduction's combiner for two sides, and give the text of each component."""
        combine = self.kernel.reductions[number].combine
        with self.scope():
            for component, (a, b) in enumerate(zip(left, right, strict=True)):
                dtype = combine[component].dtype
                self.values[s.leaf("left", dtype, component)] = Value(a)
                self.values[s.leaf("right", dtype, component)] = Value(b)
            return [value.text for value in self.compute(combine)]

    def fold_threads(self, reductions: Sequence[int]) -> None:
        """Write the tree that folds the threads' results: always in the same order."""
        lanes = self.lanes(reductions)
        for r in reductions:
            for lane, name in zip(lanes[r], fold_names(self.kernel, r)):
                self.line(f"{lane}[thread] = {name};")
        self.line(self.syntax.barrier)
        first = self.syntax.variable("reach", self.syntax.index, "threads / 2")
        with self.block(f"for ({first}; reach > 0; reach = reach / 2)"):
            with self.block("if (thread < reach)"):
                for r in reductions:
                    dtypes = [e.dtype for e in self.kernel.reductions[r].combine]
                    pairs = list(zip(lanes[r], dtypes))
                    left = [self.define(dtype, f"{lane}[thread]") for lane, dtype in pairs]
                    right = [self.define(dtype, f"{lane}[thread + reach]") for lane, dtype in pairs]
                    for lane, text in zip(lanes[r], self.combine(r, left, right)):
                        self.line(f"{lane}[thread] = {text};")
            self.line(self.syntax.barrier)
        for r in reductions:
            for lane, name in zip(lanes[r], fold_names(self.kernel, r)):
                self.line(f"{name} = {lane}[0];")
        # The next pass or point writes the lanes again.
        self.line(self.syntax.barrier)

    def lanes(self, reductions: Sequence[int]) -> dict[int, list[str]]:
        """Shared arrays for the components of reductions; passes use the same ones in turn."""
        used: Counter[str] = Counter()
        names: dict[int, list[str]] = {}
        for r in reductions:
            names[r] = []
            for e in self.kernel.reductions[r].combine:
                name = f"lanes_{e.dtype}_{used[e.dtype.name]}"
                used[e.dtype.name] += 1
                names[r].append(name)
                array = Shared(name, e.dtype, THREADS)
                if array not in self.shared:
                    self.shared.append(array)
        return names

    def store(self, numbers: Sequence[int]) -> None:
        """Write stores: all values first, for an operand may be read and written."""
        stores = [self.kernel.stores[i] for i in numbers]
        for store, value in zip(stores, self.compute([store.value for store in stores])):
            dtype = self.operands[store.operand].dtype
            address = self.address(store.operand)
            text = self.syntax.store(store.operand, dtype, address, value.text)
            condition = " && ".join(value.checks)
            self.line(f"if ({condition}) {{ {text} }}" if condition else text)


def fold_name(reduction: int, component: int) -> str:
    """The variable of one component of a reduction."""
    return f"fold{reduction}_{component}"


def fold_names(kernel: Loops, reduction: int) -> list[str]:
    """The variables of a reduction."""
    return [fold_name(reduction, c) for c in range(len(kernel.reductions[reduction].combine))]


class ContractionWriter(Writer):
    """Writes the body of a contraction: tiles of A and B pass through shared memory."""

    def __init__(self, kernel: Contraction, syntax: Syntax) -> None:
        super().__init__(kernel, syntax)
        self.kernel = kernel
        self.shared = [
            Shared("a_tile", kernel.accumulate, DEPTH * A_PITCH),
            Shared("b_tile", kernel.accumulate, DEPTH * TILE),
        ]

    def write_tiles(self) -> None:
        """Write the loop over the tiles of the result: everything."""
        for name, value in (
            ("row_tiles", f"(size1 + {TILE - 1}) / {TILE}"),
            ("column_tiles", f"(size2 + {TILE - 1}) / {TILE}"),
            ("tiles", "size0 * row_tiles * column_tiles"),
            ("row", f"thread / {SPREAD}"),
            ("column", f"thread % {SPREAD}"),
        ):
            self.index(name, value)
        cells = [(i, j) for i in range(SHARE) for j in range(SHARE)]
        accumulate = self.kernel.accumulate
        zero = self.syntax.literal(0, accumulate)
        with self.loop("tile", "group", "tiles", "groups"):
            self.index("batch", "tile / (row_tiles * column_tiles)")
            self.index("first_row", f"tile / column_tiles % row_tiles * {TILE}")
            self.index("first_column", f"tile % column_tiles * {TILE}")
            for i, j in cells:
                type_name = self.syntax.type_of(accumulate)
                self.line(self.syntax.variable(f"sum{i}_{j}", type_name, zero) + ";")
            with self.loop("start", "0", "size3", str(DEPTH)):
                self.stage(0)
                self.stage(1)
                self.line(self.syntax.barrier)
                with self.loop("k", "0", str(DEPTH), "1"):
                    self.multiply(cells)
                self.line(self.syntax.barrier)
            for i, j in cells:
                self.finish(i, j)

    def stage(self, number: int) -> None:
        """Write the copy of a tile of A or B to shared memory, padded with zeros."""
        # Threads go along k first in A and along n in B: neighbours in memory unless transposed.
        if number == 0:
            place, free, deep = f"a_tile[deep * {A_PITCH} + free]", f"/ {DEPTH}", f"% {DEPTH}"
            first, size, free_axis, deep_axis = "first_row", "size1", 1, 2
        else:
            place, free, deep = f"b_tile[deep * {TILE} + free]", f"% {TILE}", f"/ {TILE}"
            first, size, free_axis, deep_axis = "first_column", "size2", 2, 1
        with self.loop("at", "thread", str(TILE * DEPTH), "threads"):
            self.index("free", f"at {free}")
            self.index("deep", f"at {deep}")
            address = (
                f"offset{number} + batch * stride{number}_0"
                f" + ({first} + free) * stride{number}_{free_axis}"
                f" + (start + deep) * stride{number}_{deep_axis}"
            )
            inside = [f"{first} + free < {size}", "start + deep < size3"]
            value = self.element(number, address, inside)
            kernel = self.kernel
            self.line(f"{place} = {self.syntax.convert(value, kernel.dtype, kernel.accumulate)};")

    def multiply(self, cells: Sequence[tuple[int, int]]) -> None:
        """Write the products of one k for a thread's cells."""
        accumulate = self.kernel.accumulate
        type_name = self.syntax.type_of(accumulate)
        for i in range(SHARE):
            for name, tile in (
                (f"a{i}", f"a_tile[k * {A_PITCH} + row + {i * SPREAD}]"),
                (f"b{i}", f"b_tile[k * {TILE} + column + {i * SPREAD}]"),
            ):
                self.line(self.syntax.constant(name, type_name, tile) + ";")
        for i, j in cells:
            product = self.call("mul", f"a{i}", f"b{j}")
            self.line(f"sum{i}_{j} = {self.call('add', f'sum{i}_{j}', f'({product})')};")

    def call(self, fn: str, *args: str) -> str:
        """A row of the table in the accumulator's dtype."""
        dtype = self.kernel.accumulate
        return self.syntax.apply(template(fn, dtype, self.syntax.column) or "", args, dtype)

    def finish(self, i: int, j: int) -> None:
        """Write the store of one cell, where it lies inside the result."""
        kernel = self.kernel
        at_row = f"first_row + row + {i * SPREAD}"
        at_column = f"first_column + column + {j * SPREAD}"
        with self.block(f"if ({at_row} < size1 && {at_column} < size2)"):
            place = f"({at_row}) * stride2_1 + ({at_column}) * stride2_2"
            address = f"offset2 + batch * stride2_0 + {place}"
            value = self.syntax.convert(f"sum{i}_{j}", kernel.accumulate, kernel.dtype)
            self.line(self.syntax.store(2, kernel.dtype, address, value))
