"""The base of the writers of bodies: statements, and scalar expressions as text.

The names that a body uses are those of `source.py`.
"""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import NamedTuple

import numpy as np

from contraflow.compiler.kernel import BLOCK, Attention, Box, Contraction, Store
from contraflow.dtypes import DType, bool_
from contraflow.expressions import expression as s
from contraflow.expressions import special_functions, trigonometry  # noqa: F401 (rows get decompositions)
from contraflow.expressions.evaluate import evaluate
from contraflow.expressions.expression import Expr
from contraflow.expressions.intrinsics import INTRINSICS, category
from contraflow.render.clike.source import GroupArray, Syntax

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


class ExprText(NamedTuple):
    """A rendered expression: its text, and the index checks that it depends on."""

    text: str
    checks: tuple[str, ...] = ()


class Writer:
    """Statements with their indentation, and the values that are in scope."""

    def __init__(self, kernel: Box | Contraction | Attention, syntax: Syntax) -> None:
        self.operands = kernel.operands
        self.syntax = syntax
        self.lines: list[str] = []
        self.shared: list[GroupArray] = []
        self.values: ChainMap[Expr, ExprText] = ChainMap()
        self.depth = 1
        self.defined = 0

    def write_points(self) -> None:
        """Write everything."""
        raise NotImplementedError

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
        self.line(f"{header} {{".lstrip())
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
        """Write the load of an element."""
        raise NotImplementedError

    def check(self, e: Expr, args: Sequence[str], checks: tuple[str, ...]) -> ExprText:
        """Write an index check."""
        raise NotImplementedError

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


class BoxWriter(Writer):
    """Writes the expressions of a kernel that visits a box of points."""

    carried: frozenset[str] = frozenset()  # leaves that change from point to point of a loop
    conditions: tuple[str, ...] = ()  # of every store
    cut: int | None = None  # the axis of which only the points from `start` to `stop` are visited

    def __init__(self, kernel: Box, syntax: Syntax) -> None:
        super().__init__(kernel, syntax)
        self.box = kernel

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

    def address(self, number: int, axes: Sequence[int] | None = None) -> str:
        """The address of an operand's element at the current coordinates (of some axes)."""
        axes = range(len(self.operands[number].strides)) if axes is None else axes
        return " + ".join([f"offset{number}", *self.moves(number, axes)])

    def moves(self, number: int, axes: Sequence[int]) -> list[str]:
        """How far the current coordinates of axes lie from the first element of an operand."""
        strides = self.operands[number].strides
        return [
            f"i{k}" if strides[k] == 1 else f"i{k} * stride{number}_{k}" for k in axes if strides[k]
        ]

    def hoist(self, roots: Sequence[Expr]) -> None:
        """Compute before a loop what every turn would repeat.

        Not what memory holds: where the loop has no turns there may be nothing to read.
        """
        fixed: dict[Expr, bool] = {}
        for e in s.walk(roots):
            moves = e.fn in self.carried or (e.fn == "axis" and e.data >= self.box.outer)
            reads = e.fn == "load" and self.operands[e.data].mode != "scalar"
            own = not (moves or reads or e.fn == "checked")
            fixed[e] = own and all(fixed[a] for a in e.args)
        self.compute([e for e, is_fixed in fixed.items() if is_fixed])

    def find_part(self, axis: int) -> None:
        """Declare which points of a cut axis this outer point is about."""
        blocks = f"size{self.box.outer - 1} * {BLOCK}"
        self.index("length", f"(size{axis} + {blocks} - 1) / ({blocks}) * {BLOCK}")
        self.index("start", f"min(i{self.box.outer - 1} * length, size{axis})")
        self.index("stop", f"min(start + length, size{axis})")

    def size(self, axis: int) -> str:
        """The number of points along an axis, of a cut one in this part."""
        return "(stop - start)" if axis == self.cut else f"size{axis}"

    def extent(self, axes: Sequence[int]) -> str:
        """The number of points of a box of axes."""
        return " * ".join(map(self.size, axes)) or "1"

    def split(self, position: str, axes: Sequence[int]) -> None:
        """Declare the coordinates of a position, the lane's moving fastest."""
        ordered = sorted(axes, key=lambda k: k == self.box.lane)
        for k in reversed(ordered):
            here = position if k == ordered[0] else f"{position} % {self.size(k)}"
            self.index(f"i{k}", f"start + {here}" if k == self.cut else here)
            position = f"{position} / {self.size(k)}"

    @contextmanager
    def elsewhere(self, coordinates: Mapping[int, str]) -> Iterator[None]:
        """Write a block in which some axes have other coordinates: nothing is known there yet."""
        kept, self.values = self.values, ChainMap()
        with self.block(""):
            for axis, text in coordinates.items():
                self.index(f"i{axis}", text)
            yield
        self.values = kept

    def store(self, stores: Sequence[Store]) -> None:
        """Write stores: all values first, for an operand may be read and written."""
        for store, value in zip(stores, self.compute([store.value for store in stores])):
            dtype = self.operands[store.operand].dtype
            address = self.address(store.operand)
            text = self.syntax.store(store.operand, dtype, address, value.text)
            condition = " && ".join([*value.checks, *self.conditions])
            self.line(f"if ({condition}) {{ {text} }}" if condition else text)


def fold_name(reduction: int, component: int) -> str:
    """The variable of one component of a reduction."""
    return f"fold{reduction}_{component}"
