"""Integers of 64 bits on a device that has 32 of them: results that do not fit are failures.

`Limits.int64_bits` says so. Elementwise arithmetic, shifts, casts and sums are checked exactly: a
result that leaves 32 bits fails as a wrong index does. Where a device computes in 64 bits nothing
is changed.
"""

from __future__ import annotations

from collections.abc import Sequence

from contraflow.compiler.kernel import KernelFold
from contraflow.dtypes import bool_, float32, int64
from contraflow.expressions import expression as s
from contraflow.expressions.expression import Expr

OVERFLOW = -(2**31) + 1  # recorded in the place of an index
_LEAST, _MOST = -(2**31), 2**31 - 1
# Products whose value in float32 is beyond these fit for certain, or do not.
_SMALL, _LARGE = 2147483000.0, 2147484160.0


def guarded(roots: Sequence[Expr]) -> tuple[Expr, ...]:
    """The results of an op, with a check after each step that may leave 32 bits."""

    def guard(e: Expr) -> Expr | None:
        bad = _overflows(e) if e.dtype is int64 else None
        return None if bad is None else checked(e, bad)

    return tuple(s.rewrite(roots, guard))


def checked(e: Expr, bad: Expr) -> Expr:
    """A value that fails where a condition holds."""
    return e + s.checked(s.select(bad, s.const(OVERFLOW, int64), s.const(0, int64)), 1)


def _overflows(e: Expr) -> Expr | None:
    """Whether a step has left 32 bits; None for one that cannot."""
    if e.fn == "add":
        a, b = e.args
        return ((a ^ e) & (b ^ e)) < 0
    if e.fn == "sub":
        a, b = e.args
        return ((a ^ b) & (a ^ e)) < 0
    if e.fn in ("neg", "abs"):
        return s.eq(e.args[0], _LEAST)
    if e.fn == "mul":
        estimate = s.cast(e.args[0], float32) * s.cast(e.args[1], float32)
        size = s.abs_(estimate)
        # Where rounding leaves it open, a product that has wrapped around has the other sign.
        return (size > _LARGE) | ((size > _SMALL) & s.ne(estimate < 0.0, e < 0))
    if e.fn == "shl":
        a, b = e.args
        return s.ne(a, 0) & ((b > 31) | s.ne(e >> b, a))
    if e.fn == "cast" and e.args[0].dtype.is_floating_point:
        x = e.args[0]
        return (x >= 2.0**31) | (x < -(2.0**31))
    return None


def halves(fold: KernelFold) -> KernelFold | None:
    """A sum of int64 as one of two numbers, exact whatever its length: the bits from the 16th on,
    and those below. None for another fold, and for one that counts, which never leaves 32 bits."""
    left, right = (s.leaf(side, int64, 0) for side in ("left", "right"))
    if fold.combine != (left + right,):
        return None
    (value,) = fold.values
    if value.fn == "cast" and value.args[0].dtype is bool_:
        return None
    low_left, low_right = (s.leaf(side, int64, 1) for side in ("left", "right"))
    low = low_left + low_right
    zero = s.const(0, int64)
    return KernelFold(
        (value >> 16, value & 0xFFFF),
        (left + right + (low >> 16), low & 0xFFFF),
        (zero, zero),
    )


def joined(high: Expr, low: Expr) -> Expr:
    """The sum that two halves are, checked."""
    return checked((high << 16) + low, (high > _MOST >> 16) | (high < _LEAST >> 16))
