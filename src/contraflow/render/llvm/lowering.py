"""Expressions in functions that LLVM has: the others are decomposed."""

from __future__ import annotations

from collections.abc import Sequence

from contraflow.dtypes import float16, float32, float64, int32, int64, uint32
from contraflow.expressions import expression as s
from contraflow.expressions import special_functions  # noqa: F401 (rows get decompositions)
from contraflow.expressions.expression import Expr
from contraflow.expressions.intrinsics import INTRINSICS, category


def template_of(e: Expr) -> str | None:
    """The text of the function of `e` for its dtype, or None where it has to be decomposed."""
    column = INTRINSICS[e.fn].llvm
    return column.get(category(e.args[-1].dtype)) if isinstance(column, dict) else column


def _round_to_odd(x: Expr) -> Expr:
    """A float64 as float32, rounded so that rounding once more, to float16, is exact."""
    near = s.cast(x, float32)
    back = s.cast(near, float64)
    bits = s.bitcast(near, int32)
    truncated = s.select(s.abs_(back) > s.abs_(x), bits - 1, bits)
    inexact = s.ne(back, x) & ~s.isnan(x)
    return s.bitcast(s.select(inexact, truncated | 1, bits), float32)


def _wide_product(a: Expr, b: Expr) -> Expr:
    product = s.cast(a, int64) * s.cast(b, int64)
    return s.cast(product >> 32, uint32)


def lower(roots: Sequence[Expr]) -> list[Expr]:
    """Rewrite expressions until every function has an LLVM column."""
    done: dict[Expr, Expr] = {}

    def replace(e: Expr) -> Expr | None:
        if e.fn in s.LEAVES or e.fn in ("checked", "bitcast"):
            return None
        if e not in done:
            done[e] = lower_one(e)
        return done[e]

    def lower_one(e: Expr) -> Expr:
        if e.fn == "cast":
            if e.args[0].dtype is not float64 or e.dtype is not float16:
                return e
            expanded = s.cast(_round_to_odd(e.args[0]), e.dtype)
        elif e.fn == "mulhi":
            expanded = _wide_product(*e.args)
        elif INTRINSICS[e.fn].apart or template_of(e) is not None:
            return e
        else:
            row = INTRINSICS[e.fn]
            assert row.decomposition is not None, f"{e.fn} of {e.args[-1].dtype} is unknown"
            args = [s.cast(a, float64) for a in e.args] if row.wide else e.args
            expanded = s.cast(row.decomposition(*args), e.dtype)
        return s.rewrite([expanded], replace)[0]

    return s.rewrite(roots, replace)
