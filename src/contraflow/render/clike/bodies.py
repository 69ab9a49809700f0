"""The bodies of kernels in a C-like language: the order of statements, addresses, loops and tiles.

`write` is all that a renderer needs. The names that a body uses are those of `source.py`.
"""

from __future__ import annotations

from collections import ChainMap, Counter
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from contraflow.compiler.kernel import BLOCK, Contraction, Kernel, KernelFold, Loops
from contraflow.dtypes import DType, bool_
from contraflow.expressions import expression as s
from contraflow.expressions import trigonometry  # noqa: F401 (its import gives rows their decompositions)
from contraflow.expressions.evaluate import evaluate
from contraflow.expressions.expression import Expr
from contraflow.expressions.intrinsics import INTRINSICS, category
from contraflow.render.clike.source import (
    A_PITCH,
    DEPTH,
    SHARE,
    SPREAD,
    THREADS,
    TILE,
    Body,
    GroupArray,
    Syntax,
    is_cooperative,
)


def write(kernel: Kernel, syntax: Syntax) -> Body:
    """The body of a kernel."""
    if isinstance(kernel, Contraction):
        contraction = ContractionWriter(kernel, syntax)
        contraction.write_tiles()
        return Body(contraction.lines, contraction.shared)
    assert isinstance(kernel, Loops), "the limits of these devices name no other kernels"
    loops = LoopsWriter(prepare(kernel, syntax.column), syntax)
    loops.write_points()
    return Body(loops.lines, loops.shared)


# Rows without a template: a cast depends on two dtypes, and a check is a statement.
_SPECIAL = frozenset(("cast", "bitcast", "checked"))


def template(fn: str, dtype: DType, column: str) -> str | None:
    """The text of a row for arguments of `dtype`, or None where it must be decomposed."""
    found: str | dict[str, str] | None = getattr(INTRINSICS[fn], column)
    return found.get(category(dtype)) if isinstance(found, dict) else found


def simplified(roots: list[Expr], column: str) -> list[Expr]:
    """Expressions in rows that the backend has: the others decomposed, constants folded.

    Constants are folded here because WGSL rejects a text whose constants overflow.
    """

    def simplify(e: Expr) -> Expr | None:
        if e.fn in s.LEAVES or e.fn == "checked":
            return None
        if all(a.fn == "const" for a in e.args):
            with np.errstate(all="ignore"):
                (value,) = evaluate([e], lambda leaf, args: None)
            return s.const(np.asarray(value).item(), e.dtype)
        if e.fn in _SPECIAL or template(e.fn, e.args[-1].dtype, column) is not None:
            return None
        if INTRINSICS[e.fn].apart:
            return None
        decomposition = INTRINSICS[e.fn].decomposition
        if decomposition is None:
            raise NotImplementedError(f"{e.fn}: {column} has no text for {e.args[-1].dtype}.")
        return decomposition(*e.args)

    while (simpler := s.rewrite(roots, simplify)) != roots:
        roots = simpler
    return roots


def prepare(kernel: Loops, column: str) -> Loops:
    """The kernel in rows that the backend has."""
    groups = [g for r in kernel.reductions for g in (r.values, r.combine, r.identity)]
    roots = [e for g in groups for e in g] + [store.value for store in kernel.stores]
    rest = iter(simplified(roots, column))
    reductions = tuple(
        KernelFold(*(tuple(next(rest) for _ in group) for group in r)) for r in kernel.reductions
    )
    stores = tuple(store._replace(value=next(rest)) for store in kernel.stores)
    return replace(kernel, reductions=reductions, stores=stores)


class ExprText(NamedTuple):
    """A rendered expression: its text, and the index checks that it depends on."""

    text: str
    checks: tuple[str, ...] = ()


class Writer:
    """Statements with their indentation, and the values that are in scope."""

    def __init__(self, kernel: Kernel, syntax: Syntax) -> None:
        self.operands = kernel.operands
        self.syntax = syntax
        self.lines: list[str] = []
        self.shared: list[GroupArray] = []
        self.values: ChainMap[Expr, ExprText] = ChainMap()
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

    def index(self, name: str, value: str) -> None:
        """Declare a constant of the index type."""
        self.line(self.syntax.constant(name, self.syntax.index, value) + ";")

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

    def compute(self, roots: Sequence[Expr]) -> list[ExprText]:
        """Write the statements that give expressions their values, each once per scope."""
        for e in s.walk(roots):
            if e not in self.values:
                self.values[e] = self.value(e)
        return [self.values[e] for e in roots]

    def value(self, e: Expr) -> ExprText:
        """Write the statements of one expression whose arguments have values."""
        syntax = self.syntax
        args = [self.values[a].text for a in e.args]
        # A dict as an ordered set: the text must not depend on the hashes of strings.
        checks = tuple(dict.fromkeys(c for a in e.args for c in self.values[a].checks))
        if e.fn == "const":
            return ExprText(syntax.literal(e.data, e.dtype))
        if e.fn == "axis":
            return ExprText(f"i{e.data}")
        if e.fn == "reduced":
            return ExprText(fold_name(*e.data))
        if e.fn == "load":
            return self.load(e, args, checks)
        if e.fn == "checked":
            return self.check(e, args, checks)
        if INTRINSICS[e.fn].apart:
            return self.branch(e, args, checks)
        if e.fn == "cast":
            text = syntax.convert(args[0], e.args[0].dtype, e.dtype)
        elif e.fn == "bitcast":
            text = syntax.reinterpret(args[0], e.args[0].dtype, e.dtype)
        else:
            dtype = e.args[-1].dtype
            text = syntax.apply(template(e.fn, dtype, syntax.column) or "", args, dtype)
            if e.dtype.compute is not e.dtype:  # computed in float32, rounded once
                text = syntax.convert(f"({text})", e.dtype.compute, e.dtype)
        return ExprText(text if text in args else self.define(e.dtype, text), checks)

    def load(self, e: Expr, args: Sequence[str], checks: tuple[str, ...]) -> ExprText:
        """Write the load of an element: of memory, a host scalar, or an address itself."""
        mode = self.operands[e.data].mode
        if mode == "scalar":
            return ExprText(f"scalar{e.data}")
        address = " + ".join([self.address(e.data), *args[:1]])
        conditions = [*checks, *args[1:]]
        return ExprText(self.element(e.data, address, conditions, mode != "position"), checks)

    def check(self, e: Expr, args: Sequence[str], checks: tuple[str, ...]) -> ExprText:
        """Write an index check, which everything that uses the index will depend on."""
        index, size = args
        zero = self.syntax.literal(0, e.dtype)
        inside = self.define(bool_, f"{index} >= {zero} && {index} < {size}")
        self.line(f"if (!{inside}) {{ {self.syntax.fail(index)} }}")
        return ExprText(index, (*checks, inside))

    def branch(self, e: Expr, args: Sequence[str], checks: tuple[str, ...]) -> ExprText:
        """Write what a row apart does inside a branch that is seldom taken."""
        decomposition = INTRINSICS[e.fn].decomposition
        assert decomposition is not None
        _, value, _ = decomposition(*e.args).args  # select(condition, value, otherwise)
        name = self.next_name()
        self.line(self.syntax.variable(name, self.syntax.type_of(e.dtype), args[-1]) + ";")
        with self.block(f"if ({args[0]})"):
            (found,) = self.compute(simplified([value], self.syntax.column))
            self.line(f"{name} = {found.text};")
        return ExprText(name, checks)

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
        elements = self.extent(range(kernel.outer, kernel.outer + kernel.inner))
        if self.cooperative:
            start, step = "group", "groups"
            if kernel.cut is None:
                self.index("elements", elements)
        with self.loop("point", start, "points", step):
            self.split("point", outer)
            if kernel.cut is not None:
                self.find_part(kernel.cut)
                if self.cooperative:
                    self.index("elements", elements)
            for reductions, stores in kernel.passes:
                self.write_pass(reductions, stores)
            last = [i for i, store in enumerate(kernel.stores) if not store.inner]
            if last:
                alone = self.block("if (thread == 0)") if self.cooperative else nullcontext()
                with alone:
                    self.store(last)

    def find_part(self, axis: int) -> None:
        """Declare which points of a cut axis this outer point is about."""
        blocks = f"size{self.kernel.outer - 1} * {BLOCK}"
        self.index("length", f"(size{axis} + {blocks} - 1) / ({blocks}) * {BLOCK}")
        self.index("start", f"min(i{self.kernel.outer - 1} * length, size{axis})")
        self.index("stop", f"min(start + length, size{axis})")

    def size(self, axis: int) -> str:
        """The number of points along an axis, of a cut one in this part."""
        return "(stop - start)" if axis == self.kernel.cut else f"size{axis}"

    def extent(self, axes: Sequence[int]) -> str:
        """The number of points of a box of axes."""
        return " * ".join(map(self.size, axes)) or "1"

    def split(self, position: str, axes: Sequence[int]) -> None:
        """Declare the coordinates of a position, the lane's moving fastest."""
        ordered = sorted(axes, key=lambda k: k == self.kernel.lane)
        for k in reversed(ordered):
            here = position if k == ordered[0] else f"{position} % {self.size(k)}"
            self.index(f"i{k}", f"start + {here}" if k == self.kernel.cut else here)
            position = f"{position} / {self.size(k)}"

    def write_pass(self, reductions: Sequence[int], stores: Sequence[int]) -> None:
        """Write one sweep of the inner axes, and the end of its reductions."""
        kernel, syntax = self.kernel, self.syntax
        values = [v for r in reductions for v in kernel.reductions[r].values]
        rounds = any(kernel.reductions[r].rounds for r in reductions)
        turns = f"turns{reductions[0]}" if rounds else ""
        self.hoist([*values, *(kernel.stores[i].value for i in stores)])
        for r in reductions:
            identity = kernel.reductions[r].identity
            for component, start in enumerate(self.compute(identity)):
                type_name = syntax.type_of(identity[component].dtype)
                name = fold_name(r, component)
                self.line(syntax.variable(name, type_name, start.text) + ";")
                if rounds:
                    self.line(syntax.variable(f"{name}_block", type_name, start.text) + ";")
        if rounds:
            self.line(syntax.variable(turns, syntax.index, "0") + ";")
        with ExitStack() as stack:
            self.sweep(stack)
            # Every value is read before anything is written: an operand may be both.
            self.compute([*values, *(kernel.stores[i].value for i in stores)])
            for r in reductions:
                names = [f"{name}_block" if rounds else name for name in fold_names(kernel, r)]
                found = [value.text for value in self.compute(kernel.reductions[r].values)]
                for name, text in zip(names, self.combine(r, names, found)):
                    self.line(f"{name} = {text};")
            self.store(stores)
            if rounds:
                self.line(f"{turns} += 1;")
                with self.block(f"if ({turns} == {BLOCK})"):
                    self.end_block(reductions)
                    self.begin_block(reductions)
                    self.line(f"{turns} = 0;")
        if rounds:
            self.end_block(reductions)
        if self.cooperative and reductions:
            self.fold_threads(reductions)

    def end_block(self, reductions: Sequence[int]) -> None:
        """Fold the result of a block into that of all blocks."""
        for r in reductions:
            names = fold_names(self.kernel, r)
            blocks = [f"{name}_block" for name in names]
            for name, text in zip(names, self.combine(r, names, blocks)):
                self.line(f"{name} = {text};")

    def begin_block(self, reductions: Sequence[int]) -> None:
        """Start anew."""
        for r in reductions:
            starts = self.compute(self.kernel.reductions[r].identity)
            for name, start in zip(fold_names(self.kernel, r), starts):
                self.line(f"{name}_block = {start.text};")

    def sweep(self, stack: ExitStack) -> None:
        """Open the loops over the inner axes: each thread's share, or all of them."""
        inner = range(self.kernel.outer, self.kernel.outer + self.kernel.inner)
        if self.cooperative:
            stack.enter_context(self.loop("element", "thread", "elements", "threads"))
            self.split("element", inner)
            return
        stack.enter_context(self.scope())
        for k in inner:
            first, stop = ("start", "stop") if k == self.kernel.cut else ("0", f"size{k}")
            stack.enter_context(self.loop(f"i{k}", first, stop, "1"))

    def combine(self, number: int, left: Sequence[str], right: Sequence[str]) -> list[str]:
        """Write a reduction's combiner for two sides, and give the text of each component."""
        combine = self.kernel.reductions[number].combine
        with self.scope():
            for component, (a, b) in enumerate(zip(left, right, strict=True)):
                dtype = combine[component].dtype
                self.values[s.leaf("left", dtype, component)] = ExprText(a)
                self.values[s.leaf("right", dtype, component)] = ExprText(b)
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
                array = GroupArray(name, e.dtype, THREADS)
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
            GroupArray("a_tile", kernel.accumulate, DEPTH * A_PITCH),
            GroupArray("b_tile", kernel.accumulate, DEPTH * TILE),
        ]

    def write_tiles(self) -> None:
        """Write the loop over the tiles of the result: everything."""
        for name, value in (
            ("row_tiles", f"(size2 + {TILE - 1}) / {TILE}"),
            ("column_tiles", f"(size3 + {TILE - 1}) / {TILE}"),
            ("tiles", "size0 * size1 * row_tiles * column_tiles"),
            ("row", f"thread / {SPREAD}"),
            ("column", f"thread % {SPREAD}"),
        ):
            self.index(name, value)
        share = range(SHARE)
        cells = [(i, j) for i in share for j in share]
        accumulate = self.kernel.accumulate
        zero = self.syntax.literal(0, accumulate)
        with self.loop("tile", "group", "tiles", "groups"):
            self.index("batch", "tile / (row_tiles * column_tiles)")
            self.index("batch0", "batch / size1")
            self.index("batch1", "batch % size1")
            self.index("first_row", f"tile / column_tiles % row_tiles * {TILE}")
            self.index("first_column", f"tile % column_tiles * {TILE}")
            for i, j in cells:
                type_name = self.syntax.type_of(accumulate)
                self.line(self.syntax.variable(f"sum{i}_{j}", type_name, zero) + ";")
            with self.loop("start", "0", "size4", str(DEPTH)):
                self.stage(0)
                self.stage(1)
                self.line(self.syntax.barrier)
                with self.loop("k", "0", str(DEPTH), "1"):
                    self.multiply(cells)
                self.line(self.syntax.barrier)
            for i in share:
                self.index(f"row{i}", f"first_row + row{_beyond(i)}")
                self.index(f"column{i}", f"first_column + column{_beyond(i)}")
            for i, j in cells:
                self.finish(i, j)

    def stage(self, number: int) -> None:
        """Write the copy of a tile of A or B to shared memory, padded with zeros."""
        # Threads go along k first in A and along n in B: neighbours in memory unless transposed.
        if number == 0:
            place, free, deep = f"a_tile[deep * {A_PITCH} + free]", f"/ {DEPTH}", f"% {DEPTH}"
            first, size, free_axis, deep_axis = "first_row", "size2", 2, 3
        else:
            place, free, deep = f"b_tile[deep * {TILE} + free]", f"% {TILE}", f"/ {TILE}"
            first, size, free_axis, deep_axis = "first_column", "size3", 3, 2
        with self.loop("at", "thread", str(TILE * DEPTH), "threads"):
            self.index("free", f"at {free}")
            self.index("deep", f"at {deep}")
            address = (
                f"{self.matrix(number)}"
                f" + ({first} + free) * stride{number}_{free_axis}"
                f" + (start + deep) * stride{number}_{deep_axis}"
            )
            inside = [f"{first} + free < {size}", "start + deep < size4"]
            value = self.element(number, address, inside)
            kernel = self.kernel
            self.line(f"{place} = {self.syntax.convert(value, kernel.dtype, kernel.accumulate)};")

    def matrix(self, number: int) -> str:
        """Where the matrix of an operand begins that the tile belongs to."""
        return f"offset{number} + batch0 * stride{number}_0 + batch1 * stride{number}_1"

    def multiply(self, cells: Sequence[tuple[int, int]]) -> None:
        """Write the products of one k for a thread's cells."""
        accumulate = self.kernel.accumulate
        type_name = self.syntax.type_of(accumulate)
        for i in range(SHARE):
            for name, tile in (
                (f"a{i}", f"a_tile[k * {A_PITCH} + row{_beyond(i)}]"),
                (f"b{i}", f"b_tile[k * {TILE} + column{_beyond(i)}]"),
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
        address = f"{self.matrix(2)} + row{i} * stride2_2 + column{j} * stride2_3"
        value = self.syntax.convert(f"sum{i}_{j}", kernel.accumulate, kernel.dtype)
        with self.block(f"if (row{i} < size2 && column{j} < size3)"):
            self.line(self.syntax.store(2, kernel.dtype, address, value))


def _beyond(i: int) -> str:
    """How far a thread's cell number `i` lies from its first one, as the end of a sum."""
    return f" + {i * SPREAD}" if i else ""
