"""Integers of 64 bits on a device that has 32 of them: results that do not fit are failures.

`Limits.int64_bits` says so. Elementwise arithmetic, shifts, casts, sums, products and scans are
checked exactly: a result that leaves 32 bits fails as a wrong index does. Each partial sum of a
scatter must fit, and each term of a product of matrices. Where a device computes in 64 bits nothing
is changed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from contraflow.compiler.kernel import KernelFold
from contraflow.dtypes import bool_, float32, int64, uint32
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
        if b.fn == "cast" and b.args[0].dtype is uint32:  # not negative, whatever its sign here
            return e < a
        return ((a ^ e) & (b ^ e)) < 0
    if e.fn == "sub":
        a, b = e.args
        return ((a ^ b) & (a ^ e)) < 0
    if e.fn in ("neg", "abs"):
        return s.eq(e.args[0], _LEAST)
    if e.fn == "mul":
        return _product_overflows(e)
    if e.fn == "floordiv":
        a, b = e.args
        return None if b.fn == "const" and b.data != -1 else s.eq(a, _LEAST) & s.eq(b, -1)
    if e.fn == "pow":
        return _power_overflows(*e.args)
    if e.fn == "shl":
        a, b = e.args
        return s.ne(a, 0) & ((b > 31) | s.ne(e >> b, a))
    if e.fn == "cast" and e.args[0].dtype.is_floating_point:
        x = e.args[0]
        return (x >= 2.0**31) | (x < -(2.0**31))
    return None


def _product_overflows(e: Expr) -> Expr:
    """Whether a product of two factors has left 32 bits."""
    estimate = s.cast(e.args[0], float32) * s.cast(e.args[1], float32)
    size = s.abs_(estimate)
    # Where rounding leaves it open, a product that has wrapped around has the other sign.
    return (size > _LARGE) | ((size > _SMALL) & s.ne(estimate < 0.0, e < 0))


def _power_overflows(a: Expr, b: Expr) -> Expr:
    """Whether a**b has left 32 bits: by squaring, each product with a mark. From the 32nd power on
    only those of -1, 0 and 1 are that small."""
    value, square = s.const(1, int64), a
    beyond = far = s.const(False, bool_)  # marks of the power so far, and of the square
    for bit in range(5):
        used = s.ne((b >> bit) & 1, 0)
        product = value * square
        beyond = beyond | (used & (far | _product_overflows(product)))
        value = s.select(used, product, value)
        far, square = far | _product_overflows(square * square), square * square
    large = (a > 1) | (a < -1)
    return large & ((b > 31) | ((b > 0) & beyond))


class ExactFold(NamedTuple):
    """A fold of int64 as one of pairs, and the checked result that its two components are."""

    fold: KernelFold
    result: Callable[[Expr, Expr], Expr]


def exact(fold: KernelFold) -> ExactFold | None:
    """A sum or product of int64 that finds out whether its result fits, whatever the order of the
    fold; None for another fold, and for one that counts, which never leaves 32 bits."""
    left, right = (s.leaf(side, int64, 0) for side in ("left", "right"))
    if fold.combine == (left + right,):
        (value,) = fold.values
        counts = value.fn == "cast" and value.args[0].dtype is bool_
        return None if counts else ExactFold(_halves(value, left, right), _joined)
    if fold.combine == (left * right,):
        return ExactFold(_marked(fold.values[0], left, right), checked)
    return None


def _halves(value: Expr, left: Expr, right: Expr) -> KernelFold:
    """A sum as one of two numbers: the bits from the 16th on, and those below."""
    low_left, low_right = (s.leaf(side, int64, 1) for side in ("left", "right"))
    low = low_left + low_right
    zero = s.const(0, int64)
    return KernelFold(
        (value >> 16, value & 0xFFFF),
        (left + right + (low >> 16), low & 0xFFFF),
        (zero, zero),
    )


def _joined(high: Expr, low: Expr) -> Expr:
    """The sum that two halves are, checked."""
    return checked((high << 16) + low, (high > _MOST >> 16) | (high < _LEAST >> 16))


def _marked(value: Expr, left: Expr, right: Expr) -> KernelFold:
    """A product with a mark that it has left 32 bits; a factor of zero brings it back."""
    beyond = [s.leaf(side, bool_, 1) for side in ("left", "right")]
    zero = [s.eq(x, 0) & ~mark for x, mark in zip((left, right), beyond)]
    product = left * right
    mark = ~(zero[0] | zero[1]) & (beyond[0] | beyond[1] | _product_overflows(product))
    no = s.const(False, bool_)
    return KernelFold((value, no), (product, mark), (s.const(1, int64), no))


def product_sum(a: Expr, b: Expr) -> tuple[KernelFold, Expr]:
    """The sum of products of two elements as the first fold of a kernel, and its result."""
    left, right = (s.leaf(side, int64, 0) for side in ("left", "right"))
    (term,) = guarded([a * b])
    fold = _halves(term, left, right)
    return fold, _joined(*(s.leaf("reduced", int64, (0, i)) for i in range(2)))
