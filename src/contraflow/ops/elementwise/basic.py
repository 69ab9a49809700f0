"""Elementwise ops: a scalar meaning, a NumPy reference and a gradient rule each.

The basics stand here; the rest is in `mathematics.py` (exponentials, angles, erf, gamma),
`integers.py` (rounding, division, bits), `arithmetic.py` (limits, signs, combinations) and
`activation.py`.

Gradient conventions are PyTorch's: maximum and minimum halve the gradient at ties, relu and abs
have gradient 0 at 0, pow has none where its factor vanishes.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from contraflow import dtypes
from contraflow.dtypes import FLOAT, INT, DType
from contraflow.errors import plain_number
from contraflow.expressions import expression as s
from contraflow.expressions.evaluate import saturating_cast
from contraflow.expressions.intrinsics import INTRINSICS, power
from contraflow.operation.context import apply
from contraflow.operation.kinds import elementwise
from contraflow.operation.op import REGISTRY
from contraflow.operation.samples import Array, Failure, Sample
from contraflow.tensors.symbol import is_symbol
from contraflow.tensors.tensor import Tensor

_MISMATCH = (
    Failure((Array((2, 3)), Array((4,))), {}, ValueError, "shapes [2, 3] and [4] do not broadcast"),
)


_MASK = Array((3, 4), dtype=dtypes.bool_)


def _mismatch() -> Any:
    return _MISMATCH


@elementwise(
    ref=np.add,
    vjp={"a": lambda g: g, "b": lambda g: g},
    failures=_mismatch,
    inplace=True,
    operators=("__add__", "__radd__"),
    zero_if=("a, b",),
    is_sum=True,
)
def add(a, b):
    """Sum of two tensors."""
    return a + b if a.dtype is not dtypes.bool_ else a | b


@add.signature
def _add(a: Any, b: Any, *, alpha: Any = 1) -> Tensor:
    out: Tensor = apply(add, (a, scaled("add", a, b, alpha)))
    return out


def scaled(name: str, a: Any, b: Any, alpha: Any) -> Any:
    """alpha * b, where PyTorch lets alpha be a float only beside floats."""
    if isinstance(alpha, int) and alpha == 1:
        return b
    floats = any(
        x.is_floating_point() if isinstance(x, Tensor) else type(x) is float for x in (a, b)
    )
    if isinstance(alpha, float) and not floats:
        raise TypeError(f"{name}: alpha is {alpha}, but no operand is a float; use an integer.")
    if isinstance(a, Tensor) and isinstance(b, Tensor) and b.dtype is dtypes.bool_:
        # A mask counts in the dtype of the other operand: alpha alone would make it int64.
        if a.dtype is dtypes.bool_:
            return b & bool(alpha)
        b = b.to(a.dtype)
    number, factor = plain_number(b), plain_number(alpha)
    if all(isinstance(x, (int, float)) or is_symbol(x) for x in (number, factor)):
        return number * factor  # in Python: a tensor of both would be rounded to float32
    return mul(b, alpha)


@elementwise(
    ref=np.subtract,
    vjp={"a": lambda g: g, "b": lambda g: -g},
    failures=lambda: (
        *_MISMATCH,
        Failure((_MASK, 1), {}, TypeError, "sub: bool[3, 4] is bool; it takes integer and"),
    ),
    takes=(INT, FLOAT),
    each=True,  # PyTorch refuses a mask beside numbers here, and nowhere else
    inplace=True,
    aliases=("subtract",),
    operators=("__sub__", "__rsub__"),
    zero_if=("a, b",),
)
def sub(a, b):
    """Difference of two tensors."""
    return a - b


@sub.signature
def _sub(a: Any, b: Any, *, alpha: Any = 1) -> Tensor:
    out: Tensor = apply(sub, (a, scaled("sub", a, b, alpha)))
    return out


@elementwise(
    ref=np.multiply,
    vjp={"a": lambda g, b: g * b, "b": lambda g, a: g * a},
    failures=_mismatch,
    inplace=True,
    aliases=("multiply",),
    operators=("__mul__", "__rmul__"),
    zero_if=("a", "b"),
)
def mul(a, b):
    """Product of two tensors."""
    return a * b if a.dtype is not dtypes.bool_ else a & b


@elementwise(
    ref=np.divide,
    dtype="float",
    vjp={"a": lambda g, b: g / b, "b": lambda g, a, b: -g * ((a / b) / b)},
    domain=(0.5, 3.0),
    failures=_mismatch,
    inplace=True,
    aliases=("divide", "true_divide"),
    operators=("__truediv__", "__rtruediv__"),
    zero_if=("a",),
)
def div(a, b):
    """Quotient of two tensors; `rounding_mode` 'floor' or 'trunc' makes it whole."""
    return a / b


# Integers stay integers under a rounding mode, so those are ops of their own.
@div.signature
def _div(a: Any, b: Any, *, rounding_mode: str | None = None) -> Tensor:
    if rounding_mode is None:
        quotient: Tensor = apply(div, (a, b))
    elif rounding_mode in ("floor", "trunc"):
        quotient = apply(
            REGISTRY["floor_divide" if rounding_mode == "floor" else "div_trunc"], (a, b)
        )
    else:
        raise ValueError(
            f"div: rounding_mode is {rounding_mode!r}; it must be None, 'floor' or 'trunc'."
        )
    return quotient


def digits_beside(x: Any, other: Tensor) -> Tensor:
    """x for functions of it alone in a rule, which would round it where the op does not.

    A number becomes a 0-d tensor with the digits of the other tensor's dtype, not of the default
    one; tensors of fewer digits are cast to float64 where the other is float64.
    """
    if not isinstance(x, Tensor):
        made: Tensor = other.new_full((), x, dtype=other.dtype.compute)
        return made
    double = other.dtype is dtypes.float64 and x.dtype is not dtypes.float64
    return apply(to_dtype, (x,), {"dtype": dtypes.float64}) if double else x


def _exponent_gradient(g: Tensor, a: Any, out: Tensor) -> Tensor:
    a = digits_beside(a, out)
    grad: Tensor = where(a == 0, 0.0, g * out * log(where(a == 0, 1.0, a)))
    return grad


# Where the base is 0 the gradient of the exponent is 0 (for negative exponents too), and where the
# exponent is 0 that of the base is: the other factor is infinite or NaN and must not leak out.
@elementwise(
    ref=power,
    vjp={
        "a": lambda g, a, exponent: where(exponent == 0, 0.0, g * exponent * a ** (exponent - 1)),
        "exponent": _exponent_gradient,
    },
    domain=(0.5, 2.0),
    failures=_mismatch,
    inplace=True,
    operators=("__pow__", "__rpow__"),
)
def pow_(a, exponent):
    """a to the power of the exponent."""
    if a.dtype is dtypes.bool_:
        return a | s.eq(exponent, False)
    return s.pow_(a, exponent)


@pow_.signature
def _pow(a: Any, exponent: Any) -> Tensor:
    whole = isinstance(exponent, int)
    # A float that may be another one at every call goes the general way.
    known = whole or (isinstance(exponent, float) and not is_symbol(exponent))
    if isinstance(a, Tensor) and known:
        if whole and exponent < 0 and not a.is_floating_point():
            raise ValueError(
                f"pow: integers to the negative power {exponent} are not integers. "
                f"Use x.to(contraflow.float32)."
            )
        if exponent in _POWERS and (a.is_floating_point() or whole):
            return _POWERS[exponent](a)
    out: Tensor = apply(pow_, (a, exponent))
    return out


# A general power costs as much as twenty multiplications.
_POWERS: dict[float, Any] = {
    2: lambda x: square(x),
    3: lambda x: square(x) * x,
    0.5: lambda x: sqrt(x),
    -0.5: lambda x: rsqrt(x),
    -1: lambda x: reciprocal(x),
}


@elementwise(ref=np.square, vjp={"x": lambda g, x: g * (2.0 * x)}, inplace=True)
def square(x):
    """x times x."""
    return x * x


@square.signature
def _square(x: Tensor) -> Tensor:
    return apply(square, (x.long() if x.dtype is dtypes.bool_ else x,))


@elementwise(
    ref=lambda x: 1.0 / x,
    dtype="float",
    vjp={"x": lambda g, out: -g * (out * out)},
    domain=(0.4, 3.0),
    inplace=True,
)
def reciprocal(x):
    """1 / x."""
    return 1.0 / x


@elementwise(
    ref=np.negative,
    vjp={"x": lambda g: -g},
    takes=(INT, FLOAT),
    failures=lambda: (Failure((_MASK,), {}, TypeError, "neg: bool[3, 4] is bool"),),
    operators=("__neg__",),
    inplace=True,
    aliases=("negative",),
)
def neg(x):
    """The negative."""
    return -x


@elementwise(
    ref=np.abs,
    vjp={"x": lambda g, x: g * sign(x)},
    avoid=(0.0,),
    takes=(INT, FLOAT),
    failures=lambda: (Failure((_MASK,), {}, TypeError, "abs: bool[3, 4] is bool"),),
    operators=("__abs__",),
    inplace=True,
    aliases=("absolute",),
)
def abs_(x):
    """The absolute value; its gradient at 0 is 0."""
    return s.abs_(x)


def flat(g: Tensor) -> Tensor:
    """The gradient of a step function: zero, and zero for infinite cotangents too."""
    zero: Tensor = where(False, g, 0.0)
    return zero


def _sign(x: Any) -> Any:
    return np.where(x > 0, x.dtype.type(1), np.where(x < 0, -1, 0).astype(x.dtype))


@elementwise(ref=_sign, vjp={"x": flat}, avoid=(0.0,), inplace=True, aliases=("sgn",))
def sign(x):
    """-1, 0 or 1; that of NaN is 0."""
    positive = s.select(x > 0, s.const(1, x.dtype), 0)
    return s.select(x < 0, s.const(-1, x.dtype), positive) if x.dtype.is_signed else positive


@elementwise(ref=np.exp, dtype="float", vjp={"x": lambda g, out: g * out}, inplace=True)
def exp(x):
    """e to the power x."""
    return s.exp(x)


@elementwise(
    ref=np.log, dtype="float", vjp={"x": lambda g, x: g / x}, domain=(0.2, 3.0), inplace=True
)
def log(x):
    """Natural logarithm."""
    return s.log(x)


@elementwise(
    ref=np.sqrt,
    dtype="float",
    vjp={"x": lambda g, out: g / (2.0 * out)},
    domain=(0.2, 3.0),
    inplace=True,
)
def sqrt(x):
    """Square root."""
    return s.sqrt(x)


@elementwise(
    ref=lambda x: 1.0 / np.sqrt(x),
    dtype="float",
    vjp={"x": lambda g, out: -0.5 * g * (out * out * out)},
    domain=(0.2, 3.0),
    inplace=True,
)
def rsqrt(x):
    """1 / sqrt(x)."""
    return 1.0 / s.sqrt(x)


@elementwise(ref=np.sin, dtype="float", vjp={"x": lambda g, x: g * cos(x)}, inplace=True)
def sin(x):
    """Sine."""
    return s.sin(x)


@elementwise(ref=np.cos, dtype="float", vjp={"x": lambda g, x: -g * sin(x)}, inplace=True)
def cos(x):
    """Cosine."""
    return s.cos(x)


@elementwise(
    ref=np.tanh, dtype="float", vjp={"x": lambda g, out: g * (1.0 - out * out)}, inplace=True
)
def tanh(x):
    """Hyperbolic tangent."""
    return s.tanh(x)


@elementwise(
    ref=INTRINSICS["erf"].numpy,
    dtype="float",
    vjp={"x": lambda g, x: g * exp(-x * x) * 1.1283791670955126},  # 2 / sqrt(pi)
    inplace=True,
)
def erf(x):
    """The error function."""
    return s.erf(x)


def np_sigmoid(x: Any) -> Any:
    """The reference of sigmoid."""
    e = np.exp(-np.abs(x))
    return np.where(x < 0, e, 1.0) / (1.0 + e)


# exp(-|x|) cannot overflow, and keeps the digits of results down to the smallest number.
@elementwise(
    ref=np_sigmoid, dtype="float", vjp={"x": lambda g, out: g * (out * (1.0 - out))}, inplace=True
)
def sigmoid(x):
    """1 / (1 + exp(-x))."""
    e = s.exp(-s.abs_(x))
    return s.select(x < 0, e, 1.0) / (1.0 + e)


# np.maximum(x, 0) keeps NaN, as PyTorch does.
@elementwise(
    ref=lambda x: np.maximum(x, np.zeros((), x.dtype)),
    vjp={"x": lambda g, out: where(out <= 0, 0.0, g)},
    avoid=(0.0,),
    takes=(INT, FLOAT),
    inplace=True,
)
def relu(x):
    """max(x, 0); its gradient at 0 is 0."""
    return s.maximum(x, 0)


@elementwise(
    ref=np.maximum,
    vjp={
        "a": lambda g, a, b: where(a == b, g * 0.5, where(a < b, 0.0, g)),
        "b": lambda g, a, b: where(a == b, g * 0.5, where(a > b, 0.0, g)),
    },
    failures=_mismatch,
)
def maximum(a, b):
    """The larger of two; NaN if either is. The gradient is halved at ties."""
    return s.maximum(a, b)


@elementwise(
    ref=np.minimum,
    vjp={
        "a": lambda g, a, b: where(a == b, g * 0.5, where(a > b, 0.0, g)),
        "b": lambda g, a, b: where(a == b, g * 0.5, where(a < b, 0.0, g)),
    },
    failures=_mismatch,
)
def minimum(a, b):
    """The smaller of two; NaN if either is. The gradient is halved at ties."""
    return s.minimum(a, b)


def _where_samples() -> Any:
    yield Sample((_MASK, Array((3, 4)), Array((3, 4))))
    yield Sample((_MASK, Array((4,)), Array(())))
    yield Sample((Array((), dtype=dtypes.bool_), Array((2,)), Array((2,))))


@elementwise(
    ref=np.where,
    dtype="where",
    vjp={
        "input": lambda g, condition: where(condition, g, 0.0),
        "other": lambda g, condition: where(condition, 0.0, g),
    },
    samples=_where_samples,
    method=False,
    silent=True,
    zero_if=("input, other",),
)
def where(condition, input, other):
    """`input` where the condition is true, else `other`; the condition alone gives its indices."""
    return s.select(condition, input, other)


def _to_dtype_samples() -> Any:
    yield Sample((Array((3, 4)),), {"dtype": dtypes.float64})
    yield Sample((Array((3, 4), -5, 5, dtypes.int32),), {"dtype": dtypes.float32})
    yield Sample((Array((5,), -5, 5, dtypes.int64),), {"dtype": dtypes.bool_})
    yield Sample((Array((5,), -300.0, 300.0, dtypes.float32),), {"dtype": dtypes.int8})


def _converted(x: np.ndarray, dtype: DType) -> np.ndarray:
    cast: np.ndarray = saturating_cast(x, dtype.compute)
    return cast.copy() if cast is x else cast


@elementwise(
    ref=_converted,
    dtype="param",
    vjp={"x": lambda g: g},
    samples=_to_dtype_samples,
    method=False,
    internal=True,
    zero_if=("x",),
)
def to_dtype(x, *, dtype):
    """The values converted to another dtype; floats to integers truncate and saturate."""
    # A cast is a rounding: half-precision results are rounded here, whatever they are fused with.
    return s.cast(s.cast(x, dtype), dtype.compute)


@elementwise(
    ref=lambda x, device, source, non_blocking: np.copy(x),
    vjp={"x": lambda g, device, source: to_device(g, device=source, source=device)},
    samples=lambda: (
        Sample((Array((3, 4)),), {"device": "cpu", "source": "cpu", "non_blocking": False}),
    ),
    method=False,
    internal=True,
    zero_if=("x",),
    is_transfer=True,
)
def to_device(x, *, device, source, non_blocking=False):
    """The values on another device than that of `source`."""
    return x


@elementwise(ref=np.copy, vjp={"x": lambda g: g}, zero_if=("x",), is_copy=True)
def clone(x):
    """A copy with memory of its own."""
    return x


_SIGNS = {"eq": "==", "ne": "!=", "lt": "<", "le": "<=", "gt": ">", "ge": ">="}


def _comparison(name: str, other: str, numpy: Any, build: Any) -> Any:
    def body(a: Any, b: Any) -> Any:
        return build(a, b)

    body.__name__ = name
    body.__doc__ = f"Whether a {_SIGNS[name]} b, element by element."
    return elementwise(
        ref=numpy,
        dtype="bool",
        failures=_mismatch,
        inplace=True,
        operators=(f"__{name}__",),
        aliases=(other,) if other else (),
    )(body)


eq = _comparison("eq", "", np.equal, s.eq)
ne = _comparison("ne", "not_equal", np.not_equal, s.ne)
lt = _comparison("lt", "less", np.less, lambda a, b: a < b)
le = _comparison("le", "less_equal", np.less_equal, lambda a, b: a <= b)
gt = _comparison("gt", "greater", np.greater, lambda a, b: a > b)
ge = _comparison("ge", "greater_equal", np.greater_equal, lambda a, b: a >= b)


def _logical(inputs: Any, params: Any) -> Any:
    return (dtypes.bool_,) * len(inputs), (dtypes.bool_,)


def _masks() -> Any:
    yield Sample((_MASK, _MASK))
    yield Sample((_MASK, Array((4,), dtype=dtypes.bool_)))
    yield Sample((Array((3, 4), -1, 2, dtypes.int32), Array((4,), 0, 2, dtypes.uint8)))
    yield Sample((Array((3,)), _MASK._replace(shape=(3,))))


@elementwise(ref=np.logical_and, dtype=_logical, samples=_masks, failures=_mismatch, inplace=True)
def logical_and(a, b):
    """Whether both elements are true."""
    return a & b


@elementwise(ref=np.logical_or, dtype=_logical, samples=_masks, failures=_mismatch, inplace=True)
def logical_or(a, b):
    """Whether at least one of two elements is true."""
    return a | b


@elementwise(ref=np.logical_xor, dtype=_logical, samples=_masks, failures=_mismatch, inplace=True)
def logical_xor(a, b):
    """Whether exactly one of two elements is true."""
    return a ^ b


@elementwise(
    ref=np.logical_not,
    dtype=_logical,
    samples=lambda: (
        Sample((Array((3, 4), dtype=dtypes.bool_),)),
        Sample((Array((5,), -1, 2, dtypes.int64),)),
    ),
    inplace=True,
)
def logical_not(x):
    """Whether an element is false, or zero."""
    return ~x
