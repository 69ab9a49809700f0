"""Elementwise ops: a scalar meaning, a NumPy reference and a gradient rule each.

Gradient conventions are PyTorch's: maximum and minimum halve the gradient at ties, relu and abs
have gradient 0 at 0, pow has none where its factor vanishes.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from contraflow import dtypes
from contraflow import scalar as s
from contraflow.dtypes import DType
from contraflow.op import Array, Failure, Sample, elementwise

_MISMATCH = (
    Failure((Array((2, 3)), Array((4,))), {}, ValueError, "shapes [2, 3] and [4] do not broadcast"),
)


def _mismatch() -> Any:
    return _MISMATCH


@elementwise(
    ref=np.add,
    vjp={"a": lambda g: g, "b": lambda g: g},
    failures=_mismatch,
    inplace=True,
    operators=("__add__", "__radd__"),
)
def add(a, b):
    """Sum of two tensors."""
    return a + b if a.dtype is not dtypes.bool_ else a | b


@elementwise(
    ref=np.subtract,
    vjp={"a": lambda g: g, "b": lambda g: -g},
    failures=_mismatch,
    inplace=True,
    operators=("__sub__", "__rsub__"),
)
def sub(a, b):
    """Difference of two tensors."""
    return a - b


@elementwise(
    ref=np.multiply,
    vjp={"a": lambda g, b: g * b, "b": lambda g, a: g * a},
    failures=_mismatch,
    inplace=True,
    operators=("__mul__", "__rmul__"),
)
def mul(a, b):
    """Product of two tensors."""
    return a * b if a.dtype is not dtypes.bool_ else a & b


@elementwise(
    ref=np.divide,
    dtype="float",
    vjp={"a": lambda g, b: g / b, "b": lambda g, b, out: -g * out / b},
    domain=(0.5, 3.0),
    failures=_mismatch,
    inplace=True,
    operators=("__truediv__", "__rtruediv__"),
)
def div(a, b):
    """Quotient of two tensors."""
    return a / b


# Where the base is 0 the gradient of the exponent is 0 (for negative exponents too), and where the
# exponent is 0 that of the base is: the other factor is infinite or NaN and must not leak out.
@elementwise(
    ref=np.power,
    vjp={
        "a": lambda g, a, b: where(b == 0, 0.0, g * b * a ** (b - 1)),
        "b": lambda g, a, out: where(a == 0, 0.0, g * out * log(where(a == 0, 1.0, a))),
    },
    domain=(0.5, 2.0),
    failures=_mismatch,
    inplace=True,
    operators=("__pow__", "__rpow__"),
)
def pow_(a, b):
    """a to the power b."""
    return s.pow_(a, b)


@elementwise(ref=np.negative, vjp={"x": lambda g: -g}, operators=("__neg__",), inplace=True)
def neg(x):
    """The negative."""
    return -x


@elementwise(ref=np.abs, vjp={"x": lambda g, x: g * sign(x)}, avoid=(0.0,), operators=("__abs__",))
def abs_(x):
    """The absolute value; its gradient at 0 is 0."""
    return s.abs_(x)


@elementwise(ref=np.sign, vjp={"x": lambda g: g * 0.0}, avoid=(0.0,))
def sign(x):
    """-1, 0 or 1; NaN stays NaN."""
    flat = s.select(x > 0, s.const(1, x.dtype), 0)
    if x.dtype.is_signed:
        flat = s.select(x < 0, s.const(-1, x.dtype), flat)
    return s.select(s.isnan(x), x, flat) if x.dtype.is_floating_point else flat


@elementwise(ref=np.exp, dtype="float", vjp={"x": lambda g, out: g * out}, inplace=True)
def exp(x):
    """e to the power x."""
    return s.exp(x)


@elementwise(ref=np.log, dtype="float", vjp={"x": lambda g, x: g / x}, domain=(0.2, 3.0))
def log(x):
    """Natural logarithm."""
    return s.log(x)


@elementwise(
    ref=np.sqrt, dtype="float", vjp={"x": lambda g, out: g / (2.0 * out)}, domain=(0.2, 3.0)
)
def sqrt(x):
    """Square root."""
    return s.sqrt(x)


@elementwise(ref=np.sin, dtype="float", vjp={"x": lambda g, x: g * cos(x)})
def sin(x):
    """Sine."""
    return s.sin(x)


@elementwise(ref=np.cos, dtype="float", vjp={"x": lambda g, x: -g * sin(x)})
def cos(x):
    """Cosine."""
    return s.cos(x)


@elementwise(ref=np.tanh, dtype="float", vjp={"x": lambda g, out: g * (1.0 - out * out)})
def tanh(x):
    """Hyperbolic tangent."""
    return s.tanh(x)


@elementwise(
    ref=s.INTRINSICS["erf"].numpy,
    dtype="float",
    vjp={"x": lambda g, x: g * exp(-x * x) * 1.1283791670955126},  # 2 / sqrt(pi)
)
def erf(x):
    """The error function."""
    return s.erf(x)


def _sigmoid(x: Any) -> Any:
    return 1.0 / (1.0 + np.exp(-x))


@elementwise(ref=_sigmoid, dtype="float", vjp={"x": lambda g, out: g * (out * (1.0 - out))})
def sigmoid(x):
    """1 / (1 + exp(-x))."""
    return 1.0 / (1.0 + s.exp(-x))


# np.maximum(x, 0) keeps NaN, as PyTorch does.
@elementwise(
    ref=lambda x: np.maximum(x, np.zeros((), x.dtype)),
    vjp={"x": lambda g, out: where(out > 0, g, 0.0)},
    avoid=(0.0,),
    inplace=True,
)
def relu(x):
    """max(x, 0); its gradient at 0 is 0."""
    return s.maximum(x, 0)


@elementwise(
    ref=np.maximum,
    vjp={
        "a": lambda g, a, b: where(a == b, g * 0.5, where(a > b, g, 0.0)),
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
        "a": lambda g, a, b: where(a == b, g * 0.5, where(a < b, g, 0.0)),
        "b": lambda g, a, b: where(a == b, g * 0.5, where(a < b, 0.0, g)),
    },
    failures=_mismatch,
)
def minimum(a, b):
    """The smaller of two; NaN if either is. The gradient is halved at ties."""
    return s.minimum(a, b)


def _where_samples() -> Any:
    mask = Array((3, 4), dtype=dtypes.bool_)
    yield Sample((mask, Array((3, 4)), Array((3, 4))))
    yield Sample((mask, Array((4,)), Array(())))
    yield Sample((Array((), dtype=dtypes.bool_), Array((2,)), Array((2,))))


@elementwise(
    ref=np.where,
    dtype="where",
    vjp={
        "a": lambda g, condition: where(condition, g, 0.0),
        "b": lambda g, condition: where(condition, 0.0, g),
    },
    samples=_where_samples,
    method=False,
)
def where(condition, a, b):
    """a where the condition holds, else b."""
    return s.select(condition, a, b)


def _to_dtype_samples() -> Any:
    yield Sample((Array((3, 4)),), {"dtype": dtypes.float64})
    yield Sample((Array((3, 4), -5, 5, dtypes.int32),), {"dtype": dtypes.float32})
    yield Sample((Array((5,), -5, 5, dtypes.int64),), {"dtype": dtypes.bool_})
    yield Sample((Array((5,), -300.0, 300.0, dtypes.float32),), {"dtype": dtypes.int8})


def _converted(x: np.ndarray, dtype: DType) -> np.ndarray:
    cast: np.ndarray = s.saturating_cast(x, dtype.compute)
    return cast.copy() if cast is x else cast


@elementwise(
    ref=_converted,
    dtype="param",
    vjp={"x": lambda g: g},
    samples=_to_dtype_samples,
    method=False,
)
def to_dtype(x, *, dtype):
    """The values converted to another dtype; floats to integers truncate and saturate."""
    return s.cast(x, dtype.compute)


@elementwise(ref=np.copy, vjp={"x": lambda g: g})
def clone(x):
    """A copy with memory of its own."""
    return x


def _comparison(name: str, numpy: Any, build: Any, operator: str) -> Any:
    def body(a: Any, b: Any) -> Any:
        return build(a, b)

    body.__name__ = name
    body.__doc__ = f"Whether a is {name} b, element by element."
    return elementwise(ref=numpy, dtype="bool", failures=_mismatch, operators=(operator,))(body)


eq = _comparison("eq", np.equal, s.eq, "__eq__")
ne = _comparison("ne", np.not_equal, s.ne, "__ne__")
lt = _comparison("lt", np.less, lambda a, b: a < b, "__lt__")
le = _comparison("le", np.less_equal, lambda a, b: a <= b, "__le__")
gt = _comparison("gt", np.greater, lambda a, b: a > b, "__gt__")
ge = _comparison("ge", np.greater_equal, lambda a, b: a >= b, "__ge__")


def _logical(inputs: Any, params: Any) -> Any:
    return (dtypes.bool_,) * len(inputs), (dtypes.bool_,)


def _masks() -> Any:
    mask = Array((3, 4), dtype=dtypes.bool_)
    yield Sample((mask, mask))
    yield Sample((mask, Array((4,), dtype=dtypes.bool_)))
    yield Sample((Array((3, 4), -1, 2, dtypes.int32), Array((4,), 0, 2, dtypes.uint8)))
    yield Sample((Array((3,)), mask._replace(shape=(3,))))


@elementwise(
    ref=np.logical_and, dtype=_logical, samples=_masks, failures=_mismatch, operators=("__and__",)
)
def logical_and(a, b):
    """Whether both are true."""
    return a & b


@elementwise(
    ref=np.logical_or, dtype=_logical, samples=_masks, failures=_mismatch, operators=("__or__",)
)
def logical_or(a, b):
    """Whether one is true."""
    return a | b


@elementwise(
    ref=np.logical_not,
    dtype=_logical,
    samples=lambda: (
        Sample((Array((3, 4), dtype=dtypes.bool_),)),
        Sample((Array((5,), -1, 2, dtypes.int64),)),
    ),
    operators=("__invert__",),
)
def logical_not(x):
    """Whether it is false."""
    return ~x
