"""The Python array API standard (2024.12) over contraflow's tensors: `x.__array_namespace__()`.

The standard's names, parameters and results, where they differ from PyTorch's: reductions take
`axis` and give one array, variances are not corrected, sorts give values alone. Functions that
agree are the ops themselves. There are no complex numbers, no unsigned
integers of more than 8 bits and no Fourier transforms. `size` stays PyTorch's method, and operators
promote as PyTorch's do: an array without axes gives way to one that has some.

>>> import contraflow as cf
>>> x = cf.tensor([[3.0, 1.0], [2.0, 5.0]])
>>> xp = x.__array_namespace__()
>>> xp.max(xp.sort(x, axis=0, descending=True), axis=1)
tensor([5., 2.])
"""

from __future__ import annotations

import builtins
import math
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any, NamedTuple

from contraflow import dtypes
from contraflow.devices import get_default_device
from contraflow.dtypes import (
    DType,
    finfo,
    float32,
    float64,
    iinfo,
    int8,
    int16,
    int32,
    int64,
    uint8,
)
from contraflow.dtypes import bool_ as bool
from contraflow.operation.op import REGISTRY
from contraflow.ops.creation.arrays import asarray as _asarray
from contraflow.ops.creation.create import empty_like, full_like, ones_like, zeros_like
from contraflow.ops.creation.create import linspace as _linspace
from contraflow.ops.creation.create import zeros as _zeros
from contraflow.ops.creation.data import from_dlpack
from contraflow.ops.queries import broadcast_shapes
from contraflow.ops.queries import result_type as _result_type
from contraflow.tensors.tensor import Tensor

# Functions of other modules that the standard has too.
__all__ = [
    "broadcast_shapes",
    "empty_like",
    "finfo",
    "from_dlpack",
    "full_like",
    "iinfo",
    "ones_like",
    "zeros_like",
]

VERSION = "2024.12"
ops = SimpleNamespace(**REGISTRY)
e, inf, nan, newaxis, pi = math.e, math.inf, math.nan, None, math.pi

# Functions that take and give what the standard says, under its names.
_SAME = (
    "abs acos acosh asin asinh atan atanh broadcast_to cos cosh exp expm1 "
    "isfinite isinf isnan log log10 log1p log2 logical_and logical_not logical_or "
    "logical_xor matmul reciprocal signbit sin sinh sqrt square tan tanh tile"
)
_OTHER = {"bitwise_invert": "bitwise_not", "moveaxis": "movedim", "negative": "neg"}
# Functions of two arrays whose dtypes may differ.
_OF_TWO = {
    "add": "add", "atan2": "atan2", "bitwise_and": "bitwise_and",
    "bitwise_left_shift": "bitwise_left_shift", "bitwise_or": "bitwise_or",
    "bitwise_right_shift": "bitwise_right_shift", "bitwise_xor": "bitwise_xor",
    "copysign": "copysign", "divide": "div", "equal": "eq", "floor_divide": "floor_divide",
    "greater": "gt", "greater_equal": "ge", "hypot": "hypot", "less": "lt", "less_equal": "le",
    "logaddexp": "logaddexp", "maximum": "maximum", "minimum": "minimum", "multiply": "mul",
    "nextafter": "nextafter", "not_equal": "ne", "pow": "pow", "remainder": "remainder",
    "subtract": "sub",
}  # fmt: skip
for _name in _SAME.split():
    globals()[_name] = getattr(ops, _name)
for _name, _own in _OTHER.items():
    globals()[_name] = getattr(ops, _own)


# --- dtypes ------------------------------------------------------------------------------------

_KINDS = {
    "bool": (bool,),
    "signed integer": (int8, int16, int32, int64),
    "unsigned integer": (uint8,),
    "integral": (int8, int16, int32, int64, uint8),
    "real floating": (float32, float64),
    "complex floating": (),
    "numeric": (int8, int16, int32, int64, uint8, float32, float64),
}


def isdtype(dtype: DType, kind: DType | str | tuple[DType | str, ...]) -> builtins.bool:
    """Whether a dtype is of a kind: a dtype, the name of a kind, or one of several."""
    if isinstance(kind, tuple):
        return builtins.any(isdtype(dtype, each) for each in kind)
    if isinstance(kind, DType):
        return dtype == kind
    if kind not in _KINDS:
        raise ValueError(f"isdtype: {kind!r} is not one of {', '.join(_KINDS)}.")
    return dtype in _KINDS[kind]


def astype(x: Tensor, dtype: DType, /, *, copy: builtins.bool = True, device: Any = None) -> Tensor:
    """The elements as another dtype, in memory of their own unless `copy` is False."""
    return x.to(device=device or x.device, dtype=dtype, copy=copy)


def result_type(*arrays_and_dtypes: Any) -> DType:
    """The dtype that arrays, dtypes and Python numbers combine to."""
    given = [_zeros((1,), dtype=x) if isinstance(x, DType) else x for x in arrays_and_dtypes]
    tensors = [x.reshape(-1)[:1] if isinstance(x, Tensor) and x.numel() else x for x in given]
    tensors = [_zeros((1,), dtype=x.dtype) if isinstance(x, Tensor) else x for x in tensors]
    found = tensors[0]
    for other in tensors[1:]:
        found = _zeros((1,), dtype=_result_type(found, other))
    dtype: DType = found.dtype if isinstance(found, Tensor) else dtypes.of_number(found)
    return dtype


def can_cast(from_: DType | Tensor, to: DType, /) -> builtins.bool:
    """Whether every number of a dtype is one of another: promotion of both gives the other."""
    return result_type(from_, to) == to


def broadcast_arrays(*arrays: Tensor) -> list[Tensor]:
    """Arrays of the shape that all of them fit."""
    return list(ops.broadcast_tensors(*arrays))


class NamespaceInfo:
    """The description of the namespace: `__array_namespace_info__()`."""

    def capabilities(self) -> dict[str, Any]:
        """Which optional parts of the standard are there."""
        return {"boolean indexing": True, "data-dependent shapes": True, "max dimensions": 64}

    def default_device(self) -> str:
        """Where arrays are made."""
        return str(get_default_device())

    def default_dtypes(self, *, device: Any = None) -> dict[str, DType]:
        """The dtypes of arrays made of Python numbers."""
        return {"real floating": dtypes.get_default_dtype(), "integral": int64, "indexing": int64}

    def dtypes(self, *, device: Any = None, kind: Any = None) -> dict[str, DType]:
        """The dtypes of a kind by name."""
        named = {"bool": bool, "int8": int8, "int16": int16, "int32": int32, "int64": int64,
                 "uint8": uint8, "float32": float32, "float64": float64}  # fmt: skip
        return {n: d for n, d in named.items() if kind is None or isdtype(d, kind)}

    def devices(self) -> list[str]:
        """The devices that are there on any machine."""
        return ["cpu"]


def __array_namespace_info__() -> NamespaceInfo:
    """The description of this namespace."""
    return NamespaceInfo()


# --- creation ----------------------------------------------------------------------------------

_ShapeLike = int | tuple[int, ...]


def full(
    shape: _ShapeLike, fill_value: Any, *, dtype: DType | None = None, device: Any = None
) -> Tensor:
    """An array of one number."""
    sizes = (shape,) if isinstance(shape, int) else tuple(shape)
    made: Tensor = ops.full(sizes, fill_value, dtype=dtype, device=device)
    return made


def zeros(shape: _ShapeLike, *, dtype: DType | None = None, device: Any = None) -> Tensor:
    """An array of zeros."""
    return _zeros(shape, dtype=dtype, device=device)


def ones(shape: _ShapeLike, *, dtype: DType | None = None, device: Any = None) -> Tensor:
    """An array of ones."""
    return full(shape, 1, dtype=dtype or dtypes.get_default_dtype(), device=device)


def empty(shape: _ShapeLike, *, dtype: DType | None = None, device: Any = None) -> Tensor:
    """An array whose elements do not matter; they are zeros."""
    return zeros(shape, dtype=dtype, device=device)


def asarray(
    obj: Any, /, *, dtype: DType | None = None, device: Any = None, copy: Any = None
) -> Tensor:
    """An array of numbers, lists, or anything with a buffer or DLPack."""
    made: Tensor = _asarray(obj, dtype=dtype, device=device, copy=copy)
    return made


def arange(
    start: Any, /, stop: Any = None, step: Any = 1, *, dtype: Any = None, device: Any = None
) -> Tensor:
    """Numbers from `start` (0 if it is alone) to before `stop`."""
    first, last = (0, start) if stop is None else (start, stop)
    if (last - first) * step < 0:
        last = first  # none
    made: Tensor = ops.arange(first, last, step, dtype=dtype, device=device)
    return made


def eye(
    n_rows: int, n_cols: int | None = None, /, *, k: int = 0, dtype: Any = None, device: Any = None
) -> Tensor:
    """Ones on diagonal number `k`, zeros elsewhere."""
    columns = n_rows if n_cols is None else n_cols
    made: Tensor = _zeros(n_rows, columns, dtype=dtype, device=device)
    if -n_rows < k < columns:
        made.diagonal(k).fill_(1)
    return made


def linspace(
    start: Any, stop: Any, /, num: int, *, dtype: Any = None, device: Any = None,
    endpoint: builtins.bool = True,
) -> Tensor:  # fmt: skip
    """`num` numbers at equal distances; without `endpoint` the last is left out."""
    if endpoint:
        return _linspace(start, stop, num, dtype=dtype, device=device)
    return _linspace(start, stop, num + 1, dtype=dtype, device=device)[:-1]


def meshgrid(*arrays: Tensor, indexing: str = "xy") -> list[Tensor]:
    """The coordinates of a grid."""
    return list(ops.meshgrid(*arrays, indexing=indexing))


def tril(x: Tensor, /, *, k: int = 0) -> Tensor:
    """The elements on and below diagonal number `k`."""
    return x.tril(k)


def triu(x: Tensor, /, *, k: int = 0) -> Tensor:
    """The elements on and above diagonal number `k`."""
    return x.triu(k)


# --- elementwise functions that differ -----------------------------------------------------------


def _promoted(x1: Any, x2: Any) -> tuple[Any, Any]:
    """Arrays of the dtype that both combine to: in PyTorch one without axes gives way."""
    if isinstance(x1, Tensor) and isinstance(x2, Tensor) and x1.dtype is not x2.dtype:
        dtype = result_type(x1, x2)
        return x1.to(dtype), x2.to(dtype)
    return x1, x2


def _of_two(name: str, op: Any) -> Any:
    def function(x1: Tensor | float, x2: Tensor | float, /) -> Tensor:
        out: Tensor = op(*_promoted(x1, x2))
        return out

    function.__name__, function.__doc__ = name, op.summary
    return function


for _name, _own in _OF_TWO.items():
    globals()[_name] = _of_two(_name, getattr(ops, _own))


def where(condition: Tensor, x1: Tensor | float, x2: Tensor | float, /) -> Tensor:
    """The elements of x1 where the condition holds, those of x2 elsewhere."""
    out: Tensor = ops.where(condition, *_promoted(x1, x2))
    return out


def positive(x: Tensor, /) -> Tensor:
    """+x."""
    return x.clone()


def conj(x: Tensor, /) -> Tensor:
    """x: numbers are real."""
    return x.clone()


def real(x: Tensor, /) -> Tensor:
    """x: numbers are real."""
    return x.clone()


def clip(x: Tensor, /, min: Any = None, max: Any = None) -> Tensor:
    """Elements limited to [min, max], in the dtype of x."""
    if min is None and max is None:
        return x.clone()
    return x.clamp(min, max).to(x.dtype)


def _whole(name: str) -> Any:
    op = getattr(ops, name)

    def rounded(x: Tensor, /) -> Tensor:
        out: Tensor = op(x) if x.is_floating_point() else x.clone()
        return out

    rounded.__name__, rounded.__doc__ = name, f"{op.summary} Integers stay as they are."
    return rounded


ceil, floor, round, trunc = (_whole(_name) for _name in ("ceil", "floor", "round", "trunc"))


# --- reductions --------------------------------------------------------------------------------

Axes = int | tuple[int, ...] | None


def _dims(x: Tensor, axis: Axes) -> tuple[int, ...]:
    if axis is None:
        return tuple(range(x.ndim))
    return axis if isinstance(axis, tuple) else (axis,)


def max(x: Tensor, /, *, axis: Axes = None, keepdims: builtins.bool = False) -> Tensor:
    """The largest elements over axes."""
    return x.amax(_dims(x, axis), keepdims) if x.ndim and _dims(x, axis) else x.clone()


def min(x: Tensor, /, *, axis: Axes = None, keepdims: builtins.bool = False) -> Tensor:
    """The smallest elements over axes."""
    return x.amin(_dims(x, axis), keepdims) if x.ndim and _dims(x, axis) else x.clone()


def _summed(dtype: DType | None, x: Tensor) -> Tensor:
    if dtype is not None:
        return x.to(dtype)
    return x if x.is_floating_point() else x.to(int64)


def sum(
    x: Tensor, /, *, axis: Axes = None, dtype: DType | None = None, keepdims: builtins.bool = False
) -> Tensor:
    """Sums over axes."""
    given = _summed(dtype, x)
    dims = _dims(x, axis)
    return given.sum(dims, keepdims, dtype=given.dtype) if dims else given.clone()


def prod(
    x: Tensor, /, *, axis: Axes = None, dtype: DType | None = None, keepdims: builtins.bool = False
) -> Tensor:
    """Products over axes."""
    out = _summed(dtype, x).clone()
    dims = [d % x.ndim for d in _dims(x, axis)]
    for dim in sorted(dims, reverse=True):
        out = out.prod(dim, keepdims, dtype=out.dtype)
    return out


def mean(x: Tensor, /, *, axis: Axes = None, keepdims: builtins.bool = False) -> Tensor:
    """Means over axes."""
    dims = _dims(x, axis)
    return x.mean(dims, keepdims) if dims else x.clone()


def var(
    x: Tensor, /, *, axis: Axes = None, correction: float = 0.0, keepdims: builtins.bool = False
) -> Tensor:
    """Variances over axes, divided by the count less `correction`."""
    dims = _dims(x, axis)
    if not dims:  # one element each, whose distance from itself is nan for infinities
        return (x - x) / builtins.max(1.0 - correction, 0.0)
    return x.var(dims, correction=correction, keepdim=keepdims)


def sign(x: Tensor, /) -> Tensor:
    """-1, 0 or 1; nan for nan, where PyTorch's is 0."""
    signs: Tensor = ops.sign(x)
    if x.is_floating_point():
        signs = ops.where(ops.isnan(x), x, signs)
    return signs


def std(
    x: Tensor, /, *, axis: Axes = None, correction: float = 0.0, keepdims: builtins.bool = False
) -> Tensor:
    """Standard deviations over axes."""
    return var(x, axis=axis, correction=correction, keepdims=keepdims).sqrt()


def all(x: Tensor, /, *, axis: Axes = None, keepdims: builtins.bool = False) -> Tensor:
    """Whether all elements over axes are true."""
    dims = _dims(x, axis)
    return x.to(bool).all(dims, keepdims) if dims else x.to(bool, copy=True)


def any(x: Tensor, /, *, axis: Axes = None, keepdims: builtins.bool = False) -> Tensor:
    """Whether some element over axes is true."""
    dims = _dims(x, axis)
    return x.to(bool).any(dims, keepdims) if dims else x.to(bool, copy=True)


def count_nonzero(x: Tensor, /, *, axis: Axes = None, keepdims: builtins.bool = False) -> Tensor:
    """The number of elements over axes that are not zero."""
    return sum((x != 0).to(int64), axis=axis, keepdims=keepdims)


def _with_first(x: Tensor, first: float, axis: int) -> Tensor:
    shape = list(x.shape)
    shape[axis] = 1
    out: Tensor = ops.cat([ops.full(shape, first, dtype=x.dtype, device=x.device), x], axis)
    return out


def cumulative_sum(
    x: Tensor, /, *, axis: int | None = None, dtype: DType | None = None,
    include_initial: builtins.bool = False,
) -> Tensor:  # fmt: skip
    """Sums of all elements up to each."""
    given = _summed(dtype, x)
    out = given.cumsum(_only_axis("cumulative_sum", x, axis), dtype=given.dtype)
    return _with_first(out, 0, axis or 0) if include_initial else out


def cumulative_prod(
    x: Tensor, /, *, axis: int | None = None, dtype: DType | None = None,
    include_initial: builtins.bool = False,
) -> Tensor:  # fmt: skip
    """Products of all elements up to each."""
    given = _summed(dtype, x)
    out = given.cumprod(_only_axis("cumulative_prod", x, axis), dtype=given.dtype)
    return _with_first(out, 1, axis or 0) if include_initial else out


def _only_axis(name: str, x: Tensor, axis: int | None) -> int:
    if axis is None and x.ndim != 1:
        raise ValueError(f"{name}: an array of {x.ndim} dims needs an axis.")
    return axis or 0


def argmax(x: Tensor, /, *, axis: int | None = None, keepdims: builtins.bool = False) -> Tensor:
    """Where the largest elements are."""
    return x.argmax(axis, keepdims)


def argmin(x: Tensor, /, *, axis: int | None = None, keepdims: builtins.bool = False) -> Tensor:
    """Where the smallest elements are."""
    return x.argmin(axis, keepdims)


def diff(
    x: Tensor, /, *, axis: int = -1, n: int = 1, prepend: Tensor | None = None,
    append: Tensor | None = None,
) -> Tensor:  # fmt: skip
    """Differences of neighbours, n times."""
    out: Tensor = ops.diff(x, n=n, dim=axis, prepend=prepend, append=append)
    return out


# --- shapes ------------------------------------------------------------------------------------


def concat(arrays: Sequence[Tensor], /, *, axis: int | None = 0) -> Tensor:
    """Arrays one after the other; axis None joins their elements."""
    given = [x.flatten() for x in arrays] if axis is None else list(arrays)
    dtype = result_type(*given)
    out: Tensor = ops.cat([x.to(dtype) for x in given], axis or 0)
    return out


def stack(arrays: Sequence[Tensor], /, *, axis: int = 0) -> Tensor:
    """Arrays of one shape along a new axis."""
    dtype = result_type(*arrays)
    out: Tensor = ops.stack([x.to(dtype) for x in arrays], axis)
    return out


def unstack(x: Tensor, /, *, axis: int = 0) -> tuple[Tensor, ...]:
    """The parts of an array along an axis."""
    return tuple(x.unbind(axis))


def expand_dims(x: Tensor, /, axis: int = 0) -> Tensor:
    """The array with a new axis of size one."""
    if not -x.ndim - 1 <= axis <= x.ndim:
        raise IndexError(f"expand_dims: axis {axis} is out of range for {x.ndim} dims.")
    return x.unsqueeze(axis)


def squeeze(x: Tensor, /, axis: int | tuple[int, ...]) -> Tensor:
    """The array without axes of size one."""
    axes = axis if isinstance(axis, tuple) else (axis,)
    for each in axes:
        if x.shape[each] != 1:
            raise ValueError(f"squeeze: axis {each} has size {x.shape[each]}, not 1.")
    return x.squeeze(axes)


def permute_dims(x: Tensor, /, axes: tuple[int, ...]) -> Tensor:
    """The axes in another order."""
    return x.permute(axes)


def reshape(x: Tensor, /, shape: tuple[int, ...], *, copy: builtins.bool | None = None) -> Tensor:
    """The elements in another shape; `copy` True gives memory of their own, False refuses it."""
    if copy is False:
        return x.view(shape)
    return x.clone().reshape(shape) if copy else x.reshape(shape)


def flip(x: Tensor, /, *, axis: Axes = None) -> Tensor:
    """The elements in reverse order along axes."""
    return x.flip(_dims(x, axis))


def roll(
    x: Tensor, /, shift: int | tuple[int, ...], *, axis: int | tuple[int, ...] | None = None
) -> Tensor:
    """The elements moved along axes, round the end."""
    if axis is None:
        return x.flatten().roll(shift, 0).reshape(x.shape)
    if isinstance(axis, tuple) and isinstance(shift, int):
        shift = (shift,) * len(axis)
    return x.roll(shift, axis)


def repeat(x: Tensor, repeats: int | Tensor, /, *, axis: int | None = None) -> Tensor:
    """Each element several times."""
    if axis is None:
        x, axis = x.flatten(), 0
    return x.repeat_interleave(repeats, axis)


def matrix_transpose(x: Tensor, /) -> Tensor:
    """The last two axes exchanged."""
    return x.mT


def take(x: Tensor, indices: Tensor, /, *, axis: int | None = None) -> Tensor:
    """The parts at indices along an axis."""
    at = _only_axis("take", x, axis)
    return x.index_select(at, ops.where(indices < 0, indices + x.shape[at], indices))


def take_along_axis(x: Tensor, indices: Tensor, /, *, axis: int = -1) -> Tensor:
    """The elements at indices along an axis, of each row its own."""
    out: Tensor = ops.take_along_dim(
        x, ops.where(indices < 0, indices + x.shape[axis], indices), axis
    )
    return out


# --- searching, sorting, sets --------------------------------------------------------------------


def nonzero(x: Tensor, /) -> tuple[Tensor, ...]:
    """The indices of the elements that are not zero, one array for each axis."""
    if not x.ndim:
        raise ValueError("nonzero: an array without axes has no indices.")
    found: tuple[Tensor, ...] = ops.nonzero(x, as_tuple=True)
    return found


def isin(x1: Tensor | float, x2: Tensor | float, /, *, invert: builtins.bool = False) -> Tensor:
    """Whether each element of x1 is among those of x2."""
    found: Tensor = ops.isin(x1, x2)
    return ~found if invert else found


def searchsorted(
    x1: Tensor, x2: Tensor, /, *, side: str = "left", sorter: Tensor | None = None
) -> Tensor:
    """Where elements of x2 belong in the sorted array x1."""
    given = x1 if sorter is None else x1[sorter]
    dtype = result_type(x1, x2)
    found: Tensor = ops.searchsorted(given.to(dtype), x2.to(dtype), right=side == "right")
    return found


def sort(
    x: Tensor, /, *, axis: int = -1, descending: builtins.bool = False,
    stable: builtins.bool = True,
) -> Tensor:  # fmt: skip
    """The elements in order along an axis."""
    out: Tensor = ops.sort(x, dim=axis, descending=descending).values
    return out


def argsort(
    x: Tensor, /, *, axis: int = -1, descending: builtins.bool = False,
    stable: builtins.bool = True,
) -> Tensor:  # fmt: skip
    """The indices that put the elements in order along an axis."""
    out: Tensor = ops.sort(x, dim=axis, descending=descending).indices
    return out


class UniqueAll(NamedTuple):
    """The distinct elements, where each is first, which each element is, and how many there are."""

    values: Tensor
    indices: Tensor
    inverse_indices: Tensor
    counts: Tensor


class UniqueCounts(NamedTuple):
    """The distinct elements, and how many there are of each."""

    values: Tensor
    counts: Tensor


class UniqueInverse(NamedTuple):
    """The distinct elements, and which of them each element is."""

    values: Tensor
    inverse_indices: Tensor


def unique_all(x: Tensor, /) -> UniqueAll:
    """The distinct elements with all that is known of them."""
    values, inverse, counts = ops.unique(x.flatten(), return_inverse=True, return_counts=True)
    order = ops.sort(inverse, stable=True).indices
    firsts = order[counts.cumsum(0) - counts]
    return UniqueAll(values, firsts, inverse.reshape(x.shape), counts)


def unique_counts(x: Tensor, /) -> UniqueCounts:
    """The distinct elements and their counts."""
    found = unique_all(x)
    return UniqueCounts(found.values, found.counts)


def unique_inverse(x: Tensor, /) -> UniqueInverse:
    """The distinct elements, and which of them each element is."""
    found = unique_all(x)
    return UniqueInverse(found.values, found.inverse_indices)


def unique_values(x: Tensor, /) -> Tensor:
    """The distinct elements."""
    out: Tensor = ops.unique(x.flatten())
    return out


# --- products ----------------------------------------------------------------------------------


def tensordot(x1: Tensor, x2: Tensor, /, *, axes: Any = 2) -> Tensor:
    """Products summed over axes of both."""
    dtype = result_type(x1, x2)
    given = axes if isinstance(axes, int) else tuple(map(list, axes))
    out: Tensor = ops.tensordot(x1.to(dtype), x2.to(dtype), given)
    return out


def vecdot(x1: Tensor, x2: Tensor, /, *, axis: int = -1) -> Tensor:
    """Inner products along an axis."""
    dtype = result_type(x1, x2)
    return (x1.to(dtype) * x2.to(dtype)).sum(axis, dtype=dtype)


def _matrix_norm(x: Tensor, /, *, keepdims: builtins.bool = False, ord: Any = "fro") -> Tensor:
    """The norms of matrices."""
    out: Tensor = ops.matrix_norm(x, ord, keepdim=keepdims)
    return out


def _vector_norm(
    x: Tensor, /, *, axis: Axes = None, keepdims: builtins.bool = False, ord: Any = 2
) -> Tensor:
    """The norms of vectors along axes."""
    out: Tensor = ops.vector_norm(x, ord, dim=axis, keepdim=keepdims)
    return out


def _trace(x: Tensor, /, *, offset: int = 0, dtype: DType | None = None) -> Tensor:
    """The sums of diagonals."""
    return sum(x.diagonal(offset, -2, -1), axis=-1, dtype=dtype)


def _cross(x1: Tensor, x2: Tensor, /, *, axis: int = -1) -> Tensor:
    """Cross products of vectors of three."""
    out: Tensor = ops.cross(*ops.broadcast_tensors(x1, x2), dim=axis)
    return out


def _diagonal(x: Tensor, /, *, offset: int = 0) -> Tensor:
    """The diagonals of matrices."""
    return x.diagonal(offset, -2, -1)


linalg = SimpleNamespace(
    cholesky=ops.cholesky, cross=_cross, det=ops.det, diagonal=_diagonal,
    eigh=ops.eigh, eigvalsh=ops.eigvalsh, inv=ops.inv, matmul=ops.matmul,
    matrix_norm=_matrix_norm, matrix_power=ops.matrix_power,
    matrix_rank=lambda x, /, *, rtol=None: ops.matrix_rank(x, rtol=rtol),
    matrix_transpose=matrix_transpose, outer=ops.outer,
    pinv=lambda x, /, *, rtol=None: ops.pinv(x, rtol=rtol), qr=ops.qr,
    slogdet=ops.slogdet, solve=ops.solve, svd=ops.svd,
    svdvals=ops.svdvals, tensordot=tensordot, trace=_trace, vecdot=vecdot,
    vector_norm=_vector_norm,
)  # fmt: skip
