"""Elementwise rounding, integer division and bitwise ops.

Step functions have gradient zero. Integers stay integers, and their division by zero is an error.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from contraflow import dtypes
from contraflow.dtypes import BOOL, FLOAT, INT, int8, int16, int32, int64, uint8
from contraflow.expressions import expression as s
from contraflow.expressions import special_functions
from contraflow.operation.context import apply
from contraflow.operation.kinds import elementwise, host
from contraflow.operation.promotion import DTYPE_RULES
from contraflow.operation.samples import Array, Failure, Sample
from contraflow.ops.elementwise.basic import flat, mul
from contraflow.shapes import broadcast_shapes
from contraflow.spec import Spec
from contraflow.tensors.tensor import Tensor

_NUMBERS, _WHOLE = (INT, FLOAT), (BOOL, INT)


# --- rounding ----------------------------------------------------------------------------------


def _rounding(name: str, numpy: Any, build: Any, doc: str, aliases: tuple[str, ...] = ()) -> Any:
    def body(x: Any) -> Any:
        return build(x) if x.dtype.is_floating_point else x

    body.__name__, body.__doc__ = name, doc
    return elementwise(
        ref=lambda x: numpy(x) if x.dtype.kind == "f" else x.copy(),
        vjp={"x": flat},
        avoid=(-1.5, -1.0, -0.5, 0.0, 0.5, 1.0, 1.5),
        takes=_NUMBERS,
        inplace=True,
        aliases=aliases,
    )(body)


floor = _rounding("floor", np.floor, s.floor, "Round down.")
ceil = _rounding("ceil", np.ceil, s.ceil, "Round up.")
trunc = _rounding("trunc", np.trunc, s.trunc, "Round towards zero.", ("fix",))
round_ = _rounding("round", np.rint, s.rint, "Round to `decimals` digits, ties to even.")


@round_.signature
def _round(x: Tensor, *, decimals: int = 0) -> Tensor:
    if decimals == 0:
        return apply(round_, (x,))
    if not x.is_floating_point():
        raise TypeError(f"round: {x.spec} has no digits after the point; decimals must be 0.")
    scale = 10.0 ** abs(decimals)
    whole: Tensor = apply(round_, (x * scale if decimals > 0 else x / scale,))
    return whole / scale if decimals > 0 else whole * scale


@elementwise(
    ref=lambda x: x - np.trunc(x),
    vjp={"x": lambda g: g},
    avoid=(-1.0, 0.0, 1.0),
    takes=(FLOAT,),
    inplace=True,
)
def frac(x):
    """The fractional part, with the sign of x."""
    return x - s.trunc(x)


# --- division that rounds ----------------------------------------------------------------------


def _divided(name: str, numpy: Any) -> Any:
    """A reference whose integers are not divided by zero."""

    def ref(a: Any, b: Any) -> Any:
        if isinstance(b, np.ndarray) and b.dtype.kind in "iu" and not b.all():
            error, text = BY_ZERO
            raise error(f"{name}: {text}.")
        return numpy(a, b)

    return ref


def _signed_samples() -> Any:
    a, b = np.array([[7.0, -7.0, 3.2], [-0.5, 5.9, -8.1]]), np.array([2.0, -3.1, 1.3])
    yield Sample((Array((3, 4), 0.5, 3.0), Array((3, 4), 0.5, 3.0)))
    yield Sample((Array((), 0.5, 3.0), Array((2, 0), 0.5, 3.0)))
    yield Sample((a, b))
    yield Sample((-a, -b))
    yield Sample((Array((3, 4), -9, 9, int32), Array((4,), 1, 5, int32)))
    yield Sample((Array((3, 4), -9, 9, int16), Array((3, 1), -5, 0, int8)))


def _by_zero(name: str) -> Any:
    def failures() -> Any:
        ones = np.array([1, 1])
        yield Failure(
            (ones, ones * 0), {}, ZeroDivisionError, f"{name}: integers cannot be divided"
        )

    return failures


def _not_zero(b: Any) -> Any:
    """A divisor that is an integer; a program raises BY_ZERO where it is 0."""
    if b.fn == "const" and b.data:
        return b
    return b + s.cast(s.checked(s.cast(s.eq(b, 0), int64), 1), b.dtype)


BY_ZERO = (ZeroDivisionError, "integers cannot be divided by zero")


def _truncated(a: Any, b: Any) -> Any:
    """The quotient of integers, rounded towards zero."""
    b = _not_zero(b)
    down = a // b
    # No step leaves the dtype where the quotient does not: some devices check each.
    return down + s.select((down < 0) & s.ne(a % b, 0), s.const(1, a.dtype), 0)


def _np_truncated(a: Any, b: Any) -> Any:
    if isinstance(b, np.ndarray) and b.dtype.kind in "iu":
        return (a - np.fmod(a, b)) // b
    return np.trunc(np.divide(a, b))


# The quotient is rounded, so a whole number can come out of just below it: the remainder, which is
# exact, decides.
@elementwise(
    ref=_divided("floor_divide", np.floor_divide),
    vjp={"a": flat, "b": flat},
    samples=_signed_samples,
    failures=_by_zero("floor_divide"),
    takes=_NUMBERS,
    fails=BY_ZERO,
    inplace=True,
    operators=("__floordiv__", "__rfloordiv__"),
)
def floor_divide(a, b):
    """The quotient rounded down."""
    if not a.dtype.is_floating_point:
        return a // _not_zero(b)
    rest = special_functions.fmod(a, b)
    quotient = (a - rest) / b
    quotient = s.select(s.ne(rest, 0.0) & ((b < 0) ^ (rest < 0)), quotient - 1.0, quotient)
    down = s.floor(quotient)
    down = s.select(quotient - down > 0.5, down + 1.0, down)
    zero = s.select(s.eq(a, 0.0), a / b, s.const(0.0, a.dtype))
    return s.select(s.eq(b, 0.0), a / b, s.select(s.eq(quotient, 0.0), zero, down))


@elementwise(
    ref=_divided("div_trunc", _np_truncated),
    vjp={"a": flat, "b": flat},
    samples=_signed_samples,
    failures=_by_zero("div_trunc"),
    takes=_NUMBERS,
    fails=BY_ZERO,
    method=False,
    internal=True,
)
def div_trunc(a, b):
    """The quotient rounded towards zero: `div` with rounding_mode 'trunc'."""
    return s.trunc(a / b) if a.dtype.is_floating_point else _truncated(a, b)


@elementwise(
    ref=_divided("fmod", np.fmod),
    vjp={"a": lambda g: g, "b": lambda g, a, b: -g * div_trunc(a, b)},
    samples=_signed_samples,
    failures=_by_zero("fmod"),
    takes=_NUMBERS,
    fails=BY_ZERO,
    inplace=True,
)
def fmod(a, b):
    """The remainder of division rounded towards zero; it has the sign of a."""
    if a.dtype.is_floating_point:
        return special_functions.fmod(a, b)
    b = _not_zero(b)
    rest = a % b
    return rest - s.select(s.ne(rest, 0) & ((a < 0) ^ (b < 0)), b, s.const(0, a.dtype))


@elementwise(
    ref=_divided("remainder", np.remainder),
    vjp={"a": lambda g: g, "b": lambda g, a, b: -g * floor_divide(a, b)},
    samples=_signed_samples,
    failures=_by_zero("remainder"),
    takes=_NUMBERS,
    fails=BY_ZERO,
    inplace=True,
    operators=("__mod__", "__rmod__"),
)
def remainder(a, b):
    """The remainder of division rounded down; it has the sign of b, a remainder of 0 too."""
    if not a.dtype.is_floating_point:
        return a % _not_zero(b)
    rest = special_functions.fmod(a, b)
    zero = s.select(b < 0, s.const(-0.0, a.dtype), s.const(0.0, a.dtype))
    nearest = s.select((b < 0) ^ (rest < 0), rest + b, rest)
    return s.select(s.eq(rest, 0.0), zero, nearest)


def _common(name: str, numpy: Any, doc: str) -> Any:
    def types(inputs: Any, params: Any) -> Any:
        given = (x.dtype if isinstance(x, Spec) else dtypes.of_number(x) for x in inputs)
        if max(dtype.category for dtype in given) != INT:
            raise TypeError(f"{name}: {inputs[0]} and {inputs[1]} must be integers.")
        return promoted(inputs, params)

    def body(a: Any, b: Any) -> None: ...

    body.__name__, body.__doc__ = name, doc
    promoted = mul.types
    small = Array((3, 4), -12, 12, int32)
    return host(
        ref=numpy,
        dtype=types,
        shape=lambda a, b: broadcast_shapes(name, [x.shape for x in (a, b) if isinstance(x, Spec)]),
        samples=lambda: (Sample((small, small)), Sample((small, small._replace(shape=(4,))))),
        failures=lambda: (
            Failure((Array((2,)), Array((2,))), {}, TypeError, f"{name}: float64[2] and float64"),
        ),
        inplace=True,
    )(body)


gcd = _common("gcd", np.gcd, "The greatest common divisor of integers.")
lcm = _common("lcm", np.lcm, "The least common multiple of integers.")


# --- bits --------------------------------------------------------------------------------------


def _bit_samples() -> Any:
    whole = Array((3, 4), -9, 9, int32)
    yield Sample((whole, whole._replace(shape=(4,))))
    yield Sample((Array((), 0, 200, uint8), Array((3,), 0, 9, int16)))
    yield Sample((Array((5,), dtype=dtypes.bool_), Array((5,), dtype=dtypes.bool_)))
    yield Sample((whole, 6))


def _bitwise(name: str, numpy: Any, build: Any, doc: str, operator: str) -> Any:
    def body(a: Any, b: Any) -> Any:
        return build(a, b)

    body.__name__, body.__doc__ = name, doc
    return elementwise(
        ref=numpy,
        samples=_bit_samples,
        failures=lambda: (
            Failure(
                (Array((2,)), 1), {}, TypeError, f"{name}: float64[2] is float64; it takes bool"
            ),
        ),
        takes=_WHOLE,
        inplace=True,
        operators=(f"__{operator}__", f"__r{operator}__"),
    )(body)


bitwise_and = _bitwise("bitwise_and", np.bitwise_and, lambda a, b: a & b, "Bitwise and.", "and")
bitwise_or = _bitwise("bitwise_or", np.bitwise_or, lambda a, b: a | b, "Bitwise or.", "or")
bitwise_xor = _bitwise(
    "bitwise_xor", np.bitwise_xor, lambda a, b: a ^ b, "Bitwise exclusive or.", "xor"
)


@elementwise(
    ref=np.bitwise_not,
    samples=lambda: (
        Sample((Array((3, 4), dtype=dtypes.bool_),)),
        Sample((Array((5,), -9, 9, int32),)),
        Sample((Array((), 0, 9, uint8),)),
    ),
    failures=lambda: (
        Failure((Array((2,)),), {}, TypeError, "bitwise_not: float64[2] is float64"),
    ),
    takes=_WHOLE,
    inplace=True,
    operators=("__invert__",),
)
def bitwise_not(x):
    """Every bit inverted."""
    if x.dtype is dtypes.bool_:
        return ~x
    return x ^ (-1 if x.dtype.is_signed else 255)


def _shift_samples() -> Any:
    yield Sample((Array((3, 4), -9, 9, int32), Array((4,), 0, 5, int32)))
    yield Sample((Array((4,), -9, 9, int32), np.array([3, 70, -1, 32], np.int32)))
    yield Sample((Array((3,), 0, 200, uint8), 3))


def _shift(name: str, numpy: Any, build: Any, doc: str, operator: str) -> Any:
    def body(a: Any, b: Any) -> Any:
        bits = 8 * a.dtype.itemsize
        inside = (b >= 0) & (b < bits)
        return build(a, s.select(inside, b, 0), inside)

    def types(inputs: Any, params: Any) -> Any:
        casts, outs = DTYPE_RULES["promote"](inputs, params)
        if outs[0] is dtypes.bool_:
            raise TypeError(f"{name}: {inputs[0]} and {inputs[1]} have no bits to shift.")
        return casts, outs

    body.__name__, body.__doc__ = name, doc
    truth = np.ones(2, bool)
    return elementwise(
        ref=numpy,
        dtype=types,
        samples=_shift_samples,
        failures=lambda: (
            Failure(
                (Array((2,)), 1), {}, TypeError, f"{name}: float64[2] is float64; it takes bool"
            ),
            Failure((truth, truth), {}, TypeError, f"{name}: bool[2] and bool[2] have no bits"),
        ),
        takes=_WHOLE,
        inplace=True,
        operators=(f"__{operator}__", f"__r{operator}__"),
    )(body)


# A shift by more bits than there are, which processors leave open, shifts everything out.
bitwise_left_shift = _shift(
    "bitwise_left_shift",
    np.left_shift,
    lambda a, b, inside: s.select(inside, a << b, 0),
    "a shifted left by b bits.",
    "lshift",
)
bitwise_right_shift = _shift(
    "bitwise_right_shift",
    np.right_shift,
    lambda a, b, inside: (
        s.select(inside, a >> b, s.select(a < 0, s.const(-1, a.dtype), 0))
        if a.dtype.is_signed
        else s.select(inside, a >> b, 0)
    ),
    "a shifted right by b bits; the sign stays.",
    "rshift",
)
