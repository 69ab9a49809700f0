"""Elementwise predicates, clamping, signs, and arithmetic of several tensors.

clamp passes the gradient at its bounds, fmax and fmin give ties to the first operand, as PyTorch
does.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from contraflow import dtypes
from contraflow.dtypes import FLOAT, HALVES, INT, DType, finfo, float64, iinfo, int32, int64
from contraflow.errors import describe
from contraflow.expressions import expression as s
from contraflow.expressions import special_functions
from contraflow.operation.context import apply
from contraflow.operation.kinds import composite, elementwise
from contraflow.operation.samples import Array, Failure, Sample
from contraflow.ops.elementwise.basic import (
    abs_,
    flat,
    pow_,
    scaled,
    sign,
    sqrt,
    sub,
    to_dtype,
    where,
)
from contraflow.ops.reduction.reduce import amax, sum_
from contraflow.tensors.symbol import is_symbol
from contraflow.tensors.tensor import Tensor

# --- what a number is --------------------------------------------------------------------------


def _question(name: str, numpy: Any, build: Any, doc: str) -> Any:
    def body(x: Any) -> Any:
        return build(x) if x.dtype.is_floating_point else s.const(False, dtypes.bool_)

    body.__name__, body.__doc__ = name, doc
    special_values = np.array([math.nan, math.inf, -math.inf, 0.0, -0.0, 1.5, -2.0])
    return elementwise(
        ref=lambda x: numpy(x) if x.dtype.kind == "f" else np.zeros(x.shape, bool),
        dtype="bool",
        samples=lambda: (Sample((special_values,)), Sample((Array((2, 3)),)), Sample((Array(()),))),
    )(body)


isnan = _question("isnan", np.isnan, s.isnan, "Whether it is NaN.")
isinf = _question("isinf", np.isinf, lambda x: s.eq(s.abs_(x), math.inf), "Whether it is infinite.")
isposinf = _question(
    "isposinf", np.isposinf, lambda x: s.eq(x, math.inf), "Whether it is positive infinity."
)
isneginf = _question(
    "isneginf", np.isneginf, lambda x: s.eq(x, -math.inf), "Whether it is negative infinity."
)


@elementwise(ref=np.isfinite, dtype="bool")
def isfinite(x):
    """Whether it is neither NaN nor infinite."""
    return s.abs_(x) < math.inf if x.dtype.is_floating_point else s.const(True, dtypes.bool_)


@elementwise(ref=np.signbit, dtype="bool", avoid=(0.0,))
def signbit(x):
    """Whether its sign bit is set: of negative numbers and of -0.0."""
    if x.dtype.is_floating_point:
        return special_functions.is_negative(x)
    return x < 0 if x.dtype.is_signed else s.const(False, dtypes.bool_)


def _isclose_ref(a: Any, b: Any, rtol: Any, atol: Any, equal_nan: bool) -> Any:
    distance = np.abs(np.subtract(a, b))
    near = np.isfinite(distance) & (distance <= atol + np.abs(rtol * b))
    return (a == b) | near | (equal_nan & np.isnan(a) & np.isnan(b))


@elementwise(
    ref=_isclose_ref,
    dtype="bool",
    samples=lambda: (
        Sample((np.array([1.0, 2.0, math.inf, math.nan]), np.array([1.0, 2.1, math.inf, math.nan]),
                0.01, 1e-8), {"equal_nan": True}),
        Sample((Array((3, 1)), Array((4,)), 0.5, 0.1), {"equal_nan": False}),
    ),
    failures=lambda: (
        Failure((Array((2,)), Array((2,)), -1.0, 0.0), {"equal_nan": False}, ValueError,
                "isclose: rtol is -1.0 and atol 0.0; neither may be negative"),
    ),
)  # fmt: skip
def isclose(a, b, rtol=1e-5, atol=1e-8, *, equal_nan=False):
    """Whether |a - b| <= atol + rtol |b|, element by element."""
    distance = s.abs_(a - b)
    near = (distance < math.inf) & (distance <= atol + s.abs_(rtol * b))
    both = s.isnan(a) & s.isnan(b)
    return s.eq(a, b) | near | both if equal_nan else s.eq(a, b) | near


@isclose.signature
def _isclose(
    a: Tensor, b: Tensor, rtol: float = 1e-5, atol: float = 1e-8, equal_nan: bool = False
) -> Tensor:
    if rtol < 0 or atol < 0:
        raise ValueError(f"isclose: rtol is {rtol} and atol {atol}; neither may be negative.")
    # One of them is a float even between integers, which are compared as floats.
    close: Tensor = apply(isclose, (a, b, float(rtol), float(atol)), {"equal_nan": bool(equal_nan)})
    return close


equal, allclose = Tensor.equal, Tensor.allclose


# --- limits and choices ------------------------------------------------------------------------


def _bounded(*bounds: float) -> Any:
    """Samples of a tensor with these numbers beside it."""

    def samples() -> Any:
        for shape in ((3, 4), (), (2, 0)):
            yield Sample((Array(shape, avoid=bounds), *bounds))

    return samples


def _clamp_samples() -> Any:
    yield from _bounded(-0.7, 1.1)()
    yield Sample((Array((2, 3)), Array((3,), -2.0, -1.0), Array((2, 1), 0.5, 1.0)))
    yield Sample((Array((2, 3)), Array((3,), 0.5, 1.0), Array((2, 1), -1.0, 0.0)))  # min > max


@elementwise(
    ref=lambda x, min, max: np.minimum(np.maximum(x, min), max),
    vjp={
        "x": lambda g, x, min, max: where((x >= min) & (x <= max), g, 0.0),
        "min": lambda g, x, min, max: where((x < min) & (min < max), g, 0.0),
        "max": lambda g, x, min, max: where((x > max) | (max < min), g, 0.0),
    },
    samples=_clamp_samples,
    inplace=True,
    aliases=("clip",),
)
def clamp(x, min, max):
    """x limited to [min, max], each a number, a tensor or None; at a bound x gets the gradient."""
    return s.minimum(s.maximum(x, min), max)


@clamp.signature
def _clamp(x: Tensor, min: Any = None, max: Any = None) -> Tensor:
    if min is None and max is None:
        raise ValueError("clamp: min and max are both None; give one of them.")
    if x.dtype.category == INT:
        min, max = limited("clamp", x.dtype, min, max)
    if max is None:
        return apply(clamp_min, (x, min))
    if min is None:
        return apply(clamp_max, (x, max))
    return apply(clamp, (x, min, max))


def limited(op: str, dtype: DType, min: Any, max: Any) -> tuple[Any, Any]:
    """Two bounds of integers, where a number outside of the dtype's range is the end of the range.

    Converted to the dtype it would wrap, and be another number.
    """
    least, most = (info := iinfo(dtype)).min, info.max

    def cut(bound: Any) -> Any:
        # A symbol has 64 bits: its value is asked for only where the dtype is narrower.
        is_number = isinstance(bound, int) and not (dtype is int64 and is_symbol(bound))
        return sorted((least, bound, most))[1] if is_number else bound

    low, high = cut(min), cut(max)
    if low is not min and min > most:
        raise ValueError(f"{op}: min is {min}, and {dtype.name} ends at {most}.")
    if high is not max and max < least:
        raise ValueError(f"{op}: max is {max}, and {dtype.name} begins at {least}.")
    return low, high


@elementwise(
    ref=np.maximum,
    vjp={
        "x": lambda g, x, min: where(x >= min, g, 0.0),
        "min": lambda g, x, min: where(x < min, g, 0.0),
    },
    samples=lambda: (*_bounded(0.3)(), Sample((Array((2, 3)), Array((3,))))),
    inplace=True,
)
def clamp_min(x, min):
    """The larger of x and a bound; where they are equal x gets the gradient."""
    return s.maximum(x, min)


@clamp_min.signature
def _clamp_min(x: Tensor, min: Any) -> Tensor:
    if x.dtype.category == INT:
        min, _ = limited("clamp_min", x.dtype, min, None)
    return apply(clamp_min, (x, min))


@elementwise(
    ref=np.minimum,
    vjp={
        "x": lambda g, x, max: where(x <= max, g, 0.0),
        "max": lambda g, x, max: where(x > max, g, 0.0),
    },
    samples=lambda: (*_bounded(0.3)(), Sample((Array((2, 3)), Array((3,))))),
    inplace=True,
)
def clamp_max(x, max):
    """The smaller of x and a bound; where they are equal x gets the gradient."""
    return s.minimum(x, max)


@clamp_max.signature
def _clamp_max(x: Tensor, max: Any) -> Tensor:
    if x.dtype.category == INT:
        _, max = limited("clamp_max", x.dtype, None, max)
    return apply(clamp_max, (x, max))


def _first_unless_nan(a: Any, b: Any, better: Any) -> Any:
    return s.select(better | s.isnan(b) if a.dtype.is_floating_point else better, a, b)


@elementwise(
    ref=np.fmax,
    vjp={
        "a": lambda g, a, b: where((a >= b) | isnan(b), g, 0.0),
        "b": lambda g, a, b: where((a >= b) | isnan(b), 0.0, g),
    },
)
def fmax(a, b):
    """The larger of two; where one is NaN, the other."""
    return _first_unless_nan(a, b, a >= b)


@elementwise(
    ref=np.fmin,
    vjp={
        "a": lambda g, a, b: where((a <= b) | isnan(b), g, 0.0),
        "b": lambda g, a, b: where((a <= b) | isnan(b), 0.0, g),
    },
)
def fmin(a, b):
    """The smaller of two; where one is NaN, the other."""
    return _first_unless_nan(a, b, a <= b)


def _nan_to_num_ref(x: Any, nan: Any, posinf: Any, neginf: Any) -> Any:
    if np.asarray(x).dtype.kind in "biu":
        return np.copy(x)
    finite = np.where(x == np.inf, posinf, np.where(x == -np.inf, neginf, x))
    return np.where(np.isnan(x), nan, finite)


def _keep_dtype(inputs: Any, params: Any) -> Any:
    dtype = inputs[0].dtype
    return (dtype,) * len(inputs), (dtype,)


@elementwise(
    ref=_nan_to_num_ref,
    dtype=_keep_dtype,
    vjp={"x": lambda g, x: where(isfinite(x), g, 0.0)},
    samples=lambda: (
        Sample((Array((3, 4)), 0.0, 1e4, -1e4)),
        Sample((np.array([math.nan, math.inf, -math.inf, 1.5]), 0.5, 7.0, -8.0)),
        Sample((Array((4,), -3, 3, int32), 0.0, 1.0, -1.0)),
    ),
    inplace=True,
)
def nan_to_num(x, nan, posinf, neginf):
    """NaN and the infinities replaced by numbers: 0 and the largest finite ones by default."""
    if not x.dtype.is_floating_point:
        return x
    finite = s.select(s.eq(x, math.inf), posinf, s.select(s.eq(x, -math.inf), neginf, x))
    return s.select(s.isnan(x), nan, finite)


@nan_to_num.signature
def _nan_to_num(
    x: Tensor, nan: float | None = None, posinf: float | None = None, neginf: float | None = None
) -> Tensor:
    for name, value in (("nan", nan), ("posinf", posinf), ("neginf", neginf)):
        if isinstance(value, Tensor):
            raise TypeError(f"nan_to_num: {name} is {describe(value)}; it must be a number.")
    largest = float(finfo(x.dtype).max) if x.is_floating_point() else 0.0
    numbers = (
        0.0 if nan is None else nan,
        largest if posinf is None else posinf,
        -largest if neginf is None else neginf,
    )
    return apply(nan_to_num, (x, *numbers))


# --- signs and neighbours ----------------------------------------------------------------------


@elementwise(
    ref=np.copysign,
    dtype="float",
    vjp={"a": lambda g, a, out: g * sign(a) * sign(out), "b": flat},
    avoid=(0.0,),
    inplace=True,
)
def copysign(a, b):
    """The magnitude of a with the sign of b."""
    return special_functions.copy_sign(a, b)


@elementwise(
    ref=lambda a, b: np.where(a == 0, b, np.greater(a, 0).astype(np.result_type(a, b))),
    avoid=(0.0,),
    inplace=True,
)
def heaviside(a, values):
    """0 where a is negative, 1 where it is positive, a given value where it is zero."""
    return s.select(s.eq(a, 0), values, s.select(a > 0, s.const(1, a.dtype), 0))


def _wide_only(inputs: Any, params: Any) -> Any:
    casts, outs = pow_.types(inputs, params)
    if outs[0] in HALVES or not outs[0].is_floating_point:
        raise TypeError(
            f"nextafter: {inputs[0]} and {inputs[1]} give {outs[0]}; it takes float32 and float64."
        )
    return casts, outs


_STARTS = np.array([1.0, -1.0, 0.0, -0.0, 2.0, math.inf, math.nan, -1.0], np.float32)


@elementwise(
    ref=np.nextafter,
    dtype=_wide_only,
    vjp={
        "a": lambda g, a, b: where(a == b, 0.0, g),
        "b": flat,
    },
    samples=lambda: (
        Sample((_STARTS, np.array([2.0, 2.0, 1.0, -1.0, 2.0, 0.0, 1.0, -math.inf], np.float32))),
        Sample((_STARTS[:3, None], np.array([2.0, -2.0], np.float32))),
        Sample((np.array(1.0), np.array(2.0))),
    ),
    failures=lambda: (
        Failure((np.ones(2, np.float16), np.ones(2, np.float16)), {}, TypeError,
                "nextafter: float16[2] and float16[2] give float16"),
    ),
    inplace=True,
)  # fmt: skip
def nextafter(a, b):
    """The representable number after a in the direction of b."""
    return special_functions.next_after(a, b)


@composite(
    ref=lambda x: x,
    samples=lambda: (Sample((Array((3, 4)),)), Sample((Array((3,), -3, 3, int32),))),
    failures=lambda: (
        Failure((Array((3,), dtype=dtypes.bool_),), {}, TypeError, "positive: bool[3] is bool"),
    ),
    operators=("__pos__",),
)
def positive(x):
    """The tensor itself; bool tensors are refused, since they have no sign."""
    if x.dtype is dtypes.bool_:
        raise TypeError(f"positive: {x.spec} is bool; it takes integer and floating-point tensors.")
    return x


# --- combinations ------------------------------------------------------------------------------


@composite(
    ref=lambda a, b, alpha: b - alpha * a,
    samples=lambda: (
        Sample((Array((3, 4)), Array((4,))), {"alpha": 2}),
        Sample((Array((3,)), 2.0), {"alpha": 1}),
    ),
    method=False,
)
def rsub(a, b, *, alpha=1):
    """b - alpha a."""
    return sub(b, scaled("rsub", b, a, alpha))


def _np_lerp(a: Any, b: Any, weight: Any) -> Any:
    return np.where(np.abs(weight) < 0.5, a + weight * (b - a), b - (b - a) * (1.0 - weight))


# From the nearer end, so that it is exact at both.
@elementwise(
    ref=_np_lerp,
    dtype="float",
    vjp={
        "a": lambda g, weight: g * (1.0 - weight),
        "b": lambda g, weight: g * weight,
        "weight": lambda g, a, b: g * (b - a),
    },
    samples=lambda: (
        Sample((Array((3, 4)), Array((3, 4)), 0.3)),
        Sample((Array((3, 1)), Array((4,)), Array((3, 4)))),
        Sample((Array(()), Array(()), 1.5)),
    ),
    inplace=True,
    takes=(FLOAT,),
    each=True,
)
def lerp(a, b, weight):
    """a + weight (b - a): from a, where the weight is 0, to b, where it is 1."""
    near = s.abs_(weight) < 0.5
    return s.select(near, a + weight * (b - a), b - (b - a) * (1.0 - weight))


@lerp.signature
def _lerp(a: Tensor, b: Any = None, weight: Any = None, *, end: Any = None) -> Tensor:
    return apply(lerp, (a, end if b is None else b, weight))


def _value_samples() -> Any:
    x, y = Array((3, 4), 0.5, 2.0), Array((4,), 0.5, 2.0)
    yield Sample((x, x, x, 1))
    yield Sample((x, y, Array((3, 1), 0.5, 2.0), 0.5))
    yield Sample((Array(()), Array((), 0.5, 2.0), Array((), 0.5, 2.0), -2))


@elementwise(
    ref=lambda x, a, b, value: x + value * (a * b),
    vjp={
        "x": lambda g: g,
        "a": lambda g, b, value: g * (b * value),
        "b": lambda g, a, value: g * (a * value),
    },
    samples=_value_samples,
    inplace=True,
)
def addcmul(x, a, b, value=1):
    """x + value a b."""
    return x + value * (a * b)


@elementwise(
    ref=lambda x, a, b, value: x + value * (a / b),
    dtype="float",
    vjp={
        "x": lambda g: g,
        "a": lambda g, b, value: g * (value / b),
        "b": lambda g, a, b, value: -g * (value * (a / (b * b))),
    },
    samples=_value_samples,
    inplace=True,
)
def addcdiv(x, a, b, value=1):
    """x + value a / b."""
    return x + value * (a / b)


def _addc(op: Any) -> None:
    def call(x: Tensor, a: Any = None, b: Any = None, *, value: Any = 1, **named: Any) -> Tensor:
        a, b = named.pop("tensor1", a), named.pop("tensor2", b)
        if named:
            raise TypeError(f"{op.name}: argument {next(iter(named))!r} is unknown.")
        return apply(op, (x, a, b, value))

    op.signature(call)


_addc(addcmul)
_addc(addcdiv)


@composite(
    ref=lambda a, exponent: np.asarray(a, np.float64) ** exponent,
    samples=lambda: (
        Sample((Array((3, 4), 0.5, 2.0), Array((4,)))),
        Sample((Array((3,), 1, 5, int32), -2)),
        Sample((Array((3,)), 2.0)),
    ),
    inplace=True,
)
def float_power(a, exponent):
    """a to the power of the exponent, computed in float64."""
    wide = (
        to_dtype(x, dtype=float64) if isinstance(x, Tensor) else float(x) for x in (a, exponent)
    )
    return pow_(*wide)


def _np_dist(a: Any, b: Any, p: float) -> Any:
    return np.linalg.norm(np.ravel(a - b), p)


@composite(
    ref=_np_dist,
    samples=lambda: (
        Sample((Array((3, 4)), Array((4,))), {"p": 2}),
        Sample((Array((3,)), Array((3,))), {"p": 1}),
        Sample((Array((3,)), Array((3,))), {"p": math.inf}),
        Sample((Array((3,)), Array((3,))), {"p": 3.5}),
    ),
)
def dist(a, b, *, p=2):
    """The p-norm of a - b; its gradient is 0 where the norm is 0."""
    difference = a - b
    if p == 2:
        total = sum_(difference * difference)
        return where(total == 0, 0.0, sqrt(where(total == 0, 1.0, total)))
    distance = abs_(difference)
    if p == 0:
        return sum_(to_dtype(distance != 0, dtype=distance.dtype))
    if p == 1:
        return sum_(distance)
    if p == math.inf:
        return amax(distance)
    total = sum_(where(distance == 0, 0.0, where(distance == 0, 1.0, distance) ** p))
    return where(total == 0, 0.0, where(total == 0, 1.0, total) ** (1 / p))
