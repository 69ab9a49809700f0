"""Element types (dtypes) and how they combine.

A `DType` names a type once for every backend: NumPy reads `.numpy`, renderers read `.name`.
Promotion is PyTorch's: the category (bool < int < float) decides first, tensors with dimensions
outrank 0-d tensors, and those outrank Python numbers of the same category.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable
from functools import lru_cache
from typing import Any

import numpy as np

from contraflow import threads

BOOL, INT, FLOAT = 0, 1, 2
_INSIDE = os.path.dirname(__file__) + os.sep


class DType:
    """An element type such as `contraflow.float32`. There is one object per type.

    >>> import contraflow as cf
    >>> cf.float32.itemsize, cf.float32.is_floating_point, cf.ones(2, dtype=cf.int64).dtype
    (4, True, contraflow.int64)
    """

    __slots__ = ("name", "numpy", "category", "itemsize", "is_floating_point")
    prefix = ""  # of `str`: PyTorch's programs, run by `as_torch`, find "torch." there
    numpy: np.dtype

    def __init__(self, name: str, scalar: type | None, category: int, itemsize: int) -> None:
        self.name = name
        if scalar is not None:
            self.numpy = np.dtype(scalar)
        self.category = category
        self.itemsize = itemsize
        self.is_floating_point = category == FLOAT

    def __getattr__(self, name: str) -> Any:
        """NumPy's type of bfloat16, which another package has: few programs need it."""
        if name != "numpy":
            raise AttributeError(f"{self!r} has no attribute {name!r}.", name=name, obj=self)
        self.numpy = np.dtype(threads.imported("ml_dtypes").bfloat16)
        _BY_NUMPY[self.numpy] = self
        return self.numpy

    @property
    def is_signed(self) -> bool:
        """Whether this type holds negative numbers."""
        return self.numpy.kind not in "bu"

    @property
    def is_complex(self) -> bool:
        """Whether this type holds complex numbers: none does."""
        return False

    def to_real(self) -> DType:
        """The type of the real part: itself."""
        return self

    @property
    def compute(self) -> DType:
        """The type arithmetic is done in: float32 for the half-precision types, else itself."""
        return float32 if self in HALVES else self

    def __str__(self) -> str:
        return self.prefix + self.name

    def __format__(self, spec: str) -> str:
        inside = not self.prefix or sys._getframe(1).f_code.co_filename.startswith(_INSIDE)
        return format(self.name if inside else str(self), spec)  # messages have no prefix

    def __repr__(self) -> str:
        return f"{self.prefix or 'contraflow.'}{self.name}"

    def __reduce__(self) -> tuple[object, tuple[str]]:
        return by_name, (self.name,)


bool_ = DType("bool", np.bool_, BOOL, 1)
uint8 = DType("uint8", np.uint8, INT, 1)
int8 = DType("int8", np.int8, INT, 1)
int16 = DType("int16", np.int16, INT, 2)
int32 = DType("int32", np.int32, INT, 4)
int64 = DType("int64", np.int64, INT, 8)
float16 = DType("float16", np.float16, FLOAT, 2)
bfloat16 = DType("bfloat16", None, FLOAT, 2)
float32 = DType("float32", np.float32, FLOAT, 4)
float64 = DType("float64", np.float64, FLOAT, 8)

# uint32 exists inside kernels only: the words of the random generator and the bits of floats.
uint32 = DType("uint32", np.uint32, INT, 4)

ALL = (bool_, uint8, int8, int16, int32, int64, float16, bfloat16, float32, float64)
HALVES = frozenset((float16, bfloat16))
_BY_NAME = {d.name: d for d in (*ALL, uint32)}
_BY_NUMPY = {d.numpy: d for d in (*ALL, uint32) if d is not bfloat16}
_ORDER = {d: i for i, d in enumerate(ALL)}
_default = float32


# PyTorch's names for types are C's too, of types and of conversions.
C_NAMES = {
    "float": float32, "double": float64, "half": float16, "short": int16, "int": int32,
    "long": int64,
}  # fmt: skip
# And these, of types of tensors: FloatTensor.
TENSOR_NAMES = {
    "Float": float32, "Double": float64, "Half": float16, "BFloat16": bfloat16, "Byte": uint8,
    "Char": int8, "Short": int16, "Int": int32, "Long": int64, "Bool": bool_,
}  # fmt: skip


def by_name(name: str) -> DType:
    """The dtype called `name`."""
    return _BY_NAME[name]


def from_numpy(dtype: np.dtype) -> DType:
    """The dtype of a NumPy array, or a TypeError that lists what is supported."""
    found = _BY_NUMPY.get(dtype)
    if found is None and dtype == bfloat16.numpy:
        found = bfloat16
    if found is None or found is uint32:
        names = ", ".join(d.name for d in ALL)
        raise TypeError(f"dtype: {dtype} is not supported. Supported: {names}.")
    return found


# How far results may be from exact ones, (relative, absolute). Whole numbers and truth values must
# be equal.
TOLERANCES: dict[DType, tuple[float, float]] = {
    float64: (1e-7, 1e-9),
    float32: (2e-6, 1e-5),
    float16: (2e-3, 2e-3),
    bfloat16: (1.6e-2, 1.6e-2),
}


def tolerance(*given: DType) -> tuple[float, float]:
    """The loosest (relative, absolute) tolerance among some dtypes."""
    rows = [TOLERANCES.get(dtype, (0.0, 0.0)) for dtype in given]
    return max(r for r, _ in rows), max(a for _, a in rows)


def set_default_dtype(dtype: DType) -> None:
    """Set the floating dtype that Python floats become. float32 unless changed.

    >>> import contraflow as cf
    >>> cf.set_default_dtype(cf.float64)
    >>> cf.ones(1).dtype
    contraflow.float64
    >>> cf.set_default_dtype(cf.float32)
    """
    global _default
    if not (isinstance(dtype, DType) and dtype.is_floating_point):
        raise TypeError(f"set_default_dtype: {dtype} is not a floating-point dtype.")
    _default = dtype
    promote.cache_clear()


def get_default_dtype() -> DType:
    """The floating dtype that Python floats become.

    >>> import contraflow as cf
    >>> cf.get_default_dtype()
    contraflow.float32
    """
    return _default


def of_number(value: bool | int | float) -> DType:
    """The dtype a Python number has when nothing else decides."""
    if isinstance(value, bool):
        return bool_
    return int64 if isinstance(value, int) else _default


def _pair(a: DType, b: DType) -> DType:
    if a is b:
        return a
    if a.category != b.category:
        return a if a.category > b.category else b
    if a.category == FLOAT and a.itemsize == b.itemsize:  # float16 with bfloat16
        return float32
    if uint8 in (a, b):  # unsigned with signed needs one size more
        other = b if a is uint8 else a
        return int16 if other is int8 else other
    return a if _ORDER[a] > _ORDER[b] else b


@lru_cache(maxsize=4096)
def promote(
    full: tuple[DType, ...], zero_dim: tuple[DType, ...], numbers: tuple[DType, ...]
) -> DType:
    """The common dtype of tensors with dimensions, 0-d tensors and Python numbers."""
    result: DType | None = None
    for rank in (full, zero_dim, numbers):
        if not rank:
            continue
        here = fold(rank)
        if result is None or here.category > result.category:
            result = here
    assert result is not None
    return result


def fold(dtypes: Iterable[DType]) -> DType:
    """The smallest dtype that all of `dtypes` promote to, all ranks equal."""
    iterator = iter(dtypes)
    result = next(iterator)
    for dtype in iterator:
        result = _pair(result, dtype)
    return result


def promote_types(type1: DType, type2: DType) -> DType:
    """The dtype of the sum of two tensors with dims.

    >>> promote_types(int64, float16)
    contraflow.float16
    """
    for given in (type1, type2):
        _check_dtype("promote_types", given)
    return _pair(type1, type2)


def can_cast(from_: DType, to: DType) -> bool:
    """Whether the result of a computation in one dtype may be written into another.

    >>> can_cast(float64, float32), can_cast(float32, int64)
    (True, False)
    """
    for given in (from_, to):
        _check_dtype("can_cast", given)
    return from_.category <= to.category


def of_python(given: Any) -> Any:
    """The dtype that Python's float, int or bool stands for, as in PyTorch; others as they are."""
    if given is float:
        return float64
    return int64 if given is int else bool_ if given is bool else given


def _check_dtype(op: str, given: object) -> None:
    if not isinstance(given, DType):
        raise TypeError(f"{op}: {given!r} is not a dtype. Use one such as contraflow.float32.")


class finfo:
    """The limits of a floating-point dtype, the default one unless given.

    >>> finfo(float16).max
    65504.0
    """

    def __init__(self, type: DType | None = None) -> None:
        given = get_default_dtype() if type is None else type
        _check_dtype("finfo", given)
        if not given.is_floating_point:
            raise TypeError(f"finfo: {given} is not floating-point. Use iinfo.")
        self._read(given.name, given.numpy)

    def _read(self, name: str, numpy: np.dtype) -> None:
        found: Any = threads.imported("ml_dtypes").finfo(numpy)
        self.dtype, self.bits = name, int(found.bits)
        self.eps, self.max, self.min = float(found.eps), float(found.max), float(found.min)
        self.tiny = self.smallest_normal = float(found.smallest_normal)
        self.resolution = 10.0**-found.precision  # exactly so: its own is rounded to the dtype

    def __repr__(self) -> str:
        fields = ("resolution", "min", "max", "eps", "smallest_normal", "tiny")
        numbers = ", ".join(f"{name}={getattr(self, name):g}" for name in fields)
        return f"finfo({numbers}, dtype={self.dtype})"


class iinfo:
    """The limits of an integer dtype.

    >>> iinfo(int8)
    iinfo(min=-128, max=127, dtype=int8)
    """

    def __init__(self, type: DType) -> None:
        _check_dtype("iinfo", type)
        if type.category != INT:
            raise TypeError(f"iinfo: {type} is not an integer dtype.")
        found: Any = np.iinfo(type.name)
        self.dtype, self.bits = type.name, found.bits
        self.max, self.min = found.max, found.min

    def __repr__(self) -> str:
        return f"iinfo(min={self.min}, max={self.max}, dtype={self.dtype})"
