"""Python text of a program's host prologue: arithmetic among host scalars, in float64.

Every line there is an elementwise op on single numbers, so its scalar body is rendered like a
kernel's, by the `python` column of the scalar table; rows without one go through NumPy's. Results
of lines of fewer bits are rounded before another line reads them; kernels round their arguments.
"""

from __future__ import annotations

import builtins
import math
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache, partial
from types import CodeType
from typing import Any

import numpy as np

from contraflow.compiler.tape import Tape, TapeLine, TapeOperand, Value
from contraflow.dtypes import HALVES, DType, bool_, float32, float64, int64
from contraflow.expressions import expression as s
from contraflow.expressions.evaluate import saturating_cast
from contraflow.expressions.expression import Expr, Number
from contraflow.expressions.intrinsics import INTRINSICS, category
from contraflow.operation.reference import quiet

Prologue = Callable[[Sequence[Number]], tuple[Number, ...]]


def prologue(tape: Tape, lines: Sequence[TapeLine], wanted: Sequence[TapeOperand]) -> Prologue:
    """The function of the host scalars that gives the wanted values and numbers as a tuple.

    Numbers of the tape are variables of its text, so that it is compiled once for all sizes.
    """
    scope = dict(_SCOPE)
    exec(_code(_text(tape, lines, wanted, scope)), scope)
    found: Prologue = scope["prologue"]
    return found


def _text(
    tape: Tape, lines: Sequence[TapeLine], wanted: Sequence[TapeOperand], scope: dict[str, Any]
) -> str:
    """The text of a prologue; the scope gets the numbers by the names that they have there."""

    def number(x: Number) -> str:
        name = f"n{len(scope)}"
        scope[name] = x.item() if isinstance(x, np.generic) else x  # which computes in its dtype
        return name

    def operand(x: TapeOperand, dtype: DType | None) -> str:
        """The text of an operand as an op reads it that computes in a dtype."""
        narrow = rounding(tape, x, dtype)
        if not isinstance(x, Value):
            return number(x if narrow is None else rounded(narrow, x))
        return _name(x) if narrow is None else f"to_{narrow}({_name(x)})"

    inputs = [v for v, role in tape.inputs.items() if role == "scalar"]
    rows = ["def prologue(scalars):"]
    if inputs:
        rows.append(f"    {', '.join(map(_name, inputs))}, = scalars")
    read = {x for line in lines for x in line.inputs if isinstance(x, Value)}
    for line, outs in bodies(tape, lines, operand):
        body, texts = _render(tuple(outs))
        rows += [f"    {row}" for row in body]
        for v, text in zip(line.outs, texts):
            dtype = tape.specs[v].dtype
            rounds = v in read and is_narrow(dtype)
            rows.append(f"    {_name(v)} = {f'to_{dtype}({text})' if rounds else text}")
    results = (_name(x) if isinstance(x, Value) else number(x) for x in wanted)
    rows.append(f"    return ({''.join(result + ', ' for result in results)})")
    return "\n".join(rows) + "\n"


@lru_cache(maxsize=1024)
def _code(text: str) -> CodeType:
    return builtins.compile(text, "<host prologue>", "exec")


def bodies(
    tape: Tape, lines: Sequence[TapeLine], read: Callable[[TapeOperand, DType | None], Any]
) -> Iterator[tuple[TapeLine, Sequence[Expr]]]:
    """The scalar body of each line; `read` gives what stands there for an operand, as an op reads
    it that computes in a dtype."""
    for line in lines:
        given = tape.given(line.inputs)
        casts, _ = line.op.types(given, line.params)
        # Host scalars are float64 or int64 whatever the tape says.
        sources = [
            s.leaf("input", _wide(cast.category if cast else _category(x)), read(x, cast))
            for x, cast in zip(line.inputs, casts)
        ]
        yield line, line.op.kind.expression(line.op, given, _widened(line.params), sources)


def rounding(tape: Tape, x: TapeOperand, dtype: DType | None) -> DType | None:
    """The dtype to which an operand is rounded as an op reads it that computes in `dtype`."""
    if dtype is None or not is_narrow(dtype):
        return None
    if isinstance(x, Value) and tape.specs[x].dtype is dtype:
        return None
    return dtype.compute


def rounded(dtype: DType, x: float) -> float:
    """A number of a dtype, in the steps in which eager mode comes to it."""
    for kind in (dtype.compute, dtype):
        x = float(quiet.run(kind.numpy.type, x))
    return x


def is_narrow(dtype: DType) -> bool:
    """Whether a dtype is a floating one of fewer bits than the host computes with."""
    return dtype.is_floating_point and dtype is not float64


def _name(v: Value) -> str:
    return f"v{v.number}"


def _wide(category: int) -> Any:
    return (bool_, int64, float64)[category]


def _category(x: TapeOperand) -> int:
    return 1 if isinstance(x, int) and not isinstance(x, bool) else 2


def _widened(params: Any) -> Any:
    """A dtype among the parameters becomes the host's of the same category."""
    return {k: _wide(p.category) if hasattr(p, "category") else p for k, p in params.items()}


@lru_cache(maxsize=1024)  # at another size the same lines come again
def _render(roots: tuple[Expr, ...]) -> tuple[list[str], list[str]]:
    """Statements, and the text of each root. Values needed twice are computed once, by name."""
    templates = {e: _template(e) for e in s.walk(roots)}
    mentions: Counter[Expr] = Counter()
    for e, template in templates.items():
        for i, a in enumerate(e.args):
            mentions[a] += template.count(f"{{{i}}}")
    rows: list[str] = []
    texts: dict[Expr, str] = {}
    for e, template in templates.items():
        texts[e] = template.format(*(texts[a] for a in e.args))
        if e.args and mentions[e] > 1:
            rows.append(f"t{len(rows)} = {texts[e]}")
            texts[e] = f"t{len(rows) - 1}"
    return rows, [texts[e] for e in roots]


def _template(e: Expr) -> str:
    """The text of an expression, with a field for each argument."""
    if e.fn == "input":
        return str(e.data)
    if e.fn == "const":
        return f"({e.data!r})" if math.isfinite(e.data) else f'float("{e.data}")'
    if e.fn == "cast":
        return {bool_: "bool", int64: "whole"}.get(e.dtype, "float") + "({0})"
    column = INTRINSICS[e.fn].python
    if isinstance(column, dict):
        column = column.get(category(e.args[-1].dtype))
    if column is not None:
        return f"({column})"
    fields = ", ".join(f"{{{i}}}" for i in range(len(e.args)))
    return f'table("{e.fn}", {fields})'


def _table(fn: str, *args: Any) -> Any:
    """A row of the table on numbers, by its NumPy column."""
    return quiet.run(INTRINSICS[fn].numpy, *map(_array, args)).item()


def _array(x: bool | int | float) -> np.ndarray:
    kind = bool_ if isinstance(x, bool) else int64 if isinstance(x, int) else float64
    return np.asarray(x, kind.numpy)


def _whole(x: float) -> int:
    return int(saturating_cast(x, int64))


# The functions that a prologue calls.
_SCOPE: dict[str, Any] = {
    "table": _table, "divide": partial(_table, "div"), "power": partial(_table, "pow"),
    "root": math.sqrt, "nan": math.nan, "whole": _whole,
    **{f"to_{dtype}": partial(rounded, dtype) for dtype in (float32, *HALVES)},
}  # fmt: skip
