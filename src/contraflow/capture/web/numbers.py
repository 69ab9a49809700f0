"""Arithmetic among host scalars as data: the host prologue of a program, for a bundle.

It is a list of rows, of which each is a number that may refer to rows before it:

    ["cell", 2]         a host scalar, by its position among those of the bundle
    ["float", 0.5]      a float; "inf", "-inf" and "nan" are texts
    ["int", "7"]        an integer of 64 bits
    ["bool", true]
    ["add", 0, 3]       a function of other rows, one of `FUNCTIONS`

`contraflow.js` computes them. Functions take floats and integers as Python does: both of a kind
give one of that kind, others a float.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from contraflow.compiler.host_numbers import host_values
from contraflow.compiler.tape import Tape, TapeOperand, Value
from contraflow.dtypes import DType, bool_, float32, int64
from contraflow.errors import CaptureError
from contraflow.expressions import expression as s
from contraflow.expressions.expression import Expr
from contraflow.render import python

# The functions of `expressions/intrinsics.py` that `contraflow.js` has, and its conversions.
FUNCTIONS = frozenset((
    "add", "sub", "mul", "div", "floordiv", "mod", "fmod", "neg", "abs", "max", "min", "muladd",
    "pow", "sqrt", "exp", "log", "sin", "cos", "tanh", "floor", "ceil", "trunc", "rint", "isnan",
    "lt", "le", "gt", "ge", "eq", "ne", "and", "or", "xor", "not", "select",
    "to_float", "to_float32", "to_int", "to_bool",
))  # fmt: skip


class NumberRows:
    """The rows of one program."""

    def __init__(self, name: str, tape: Tape, cells: Sequence[int]) -> None:
        """Of a function; `cells` has the positions of the host scalars that are its inputs."""
        self.rows: list[list[Any]] = []
        self._name, self._tape = name, tape
        self._known: dict[str, int] = {}  # by the row as text: none is there twice
        inputs = [v for v, role in tape.inputs.items() if role == "scalar"]
        self._values = {v: self._row("cell", cell) for v, cell in zip(inputs, cells, strict=True)}
        host = host_values(tape)
        lines = [line for line in tape.lines if host.issuperset(line.outs)]
        read = {x for line in lines for x in line.inputs if isinstance(x, Value)}
        for line, outs in python.bodies(tape, lines, self._operand):
            for v, e in zip(line.outs, outs):
                row, dtype = self._expression(e), tape.specs[v].dtype
                rounds = v in read and python.is_narrow(dtype)
                self._values[v] = self._rounded(row, dtype) if rounds else row

    def of(self, x: TapeOperand) -> int:
        """The row of a value of the tape, or of a number."""
        return self._values[x] if isinstance(x, Value) else self._number(x)

    def cell(self, position: int) -> int:
        """The row of a host scalar."""
        return self._row("cell", position)

    def plus(self, row: int, number: int) -> int:
        """The row of a sum."""
        return self._row("add", row, self._number(number))

    def _row(self, *row: Any) -> int:
        key = repr(row)
        if key not in self._known:
            self._known[key] = len(self.rows)
            self.rows.append(list(row))
        return self._known[key]

    def _number(self, x: bool | int | float) -> int:
        if isinstance(x, bool):
            return self._row("bool", x)
        if isinstance(x, int):
            return self._row("int", str(x))
        return self._row("float", json_number(x))

    def _rounded(self, row: int, dtype: DType) -> int:
        if dtype is not float32:
            raise self._lacking(f"numbers of {dtype}")
        return self._row("to_float32", row)

    def _operand(self, x: TapeOperand, dtype: DType | None) -> int:
        """The row of an operand as an op reads it that computes in a dtype."""
        narrow = python.rounding(self._tape, x, dtype)
        if not isinstance(x, Value):
            if dtype is not None and dtype.is_floating_point:
                x = float(x)
            return self._number(x if narrow is None else python.rounded(narrow, x))
        return self.of(x) if narrow is None else self._rounded(self.of(x), narrow)

    def _expression(self, root: Expr) -> int:
        rows: dict[Expr, int] = {}
        for e in s.walk([root]):
            given = [rows[a] for a in e.args]
            if e.fn == "input":
                rows[e] = e.data
            elif e.fn == "const":
                kind = bool if e.dtype is bool_ else int if e.dtype is int64 else float
                rows[e] = self._number(kind(e.data))
            elif e.fn == "cast":
                name = {bool_: "to_bool", int64: "to_int"}.get(e.dtype, "to_float")
                rows[e] = self._row(name, *given)
            elif e.fn in FUNCTIONS:
                rows[e] = self._row(e.fn, *given)
            else:
                raise self._lacking(f"{e.fn} of numbers")
        return rows[root]

    def _lacking(self, what: str) -> CaptureError:
        return CaptureError(
            f"export_web({self._name}): the function computes {what} on the host, which bundles do "
            "not have. Compute it outside, and pass it as an argument."
        )


def json_number(x: float) -> float | str:
    """A float as JSON has it: those that are not finite are texts."""
    return float(x) if math.isfinite(x) else str(float(x))
