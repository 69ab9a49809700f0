"""Products of matrices by cuBLASLt, NVIDIA's library, called through `ctypes`.

A contraction is given to it where its operands are matrices, or evenly strided batches of them,
with a stride of 1 along one axis. Other contractions, and all of them where the library is not
installed, are done by generated kernels.

The algorithm is one of those that the library's heuristic names first, by a rule that nothing but
the shape decides, and no algorithm adds by atomic operations: the same product has the same bits in
every process.

A bias that is added to every row of a result is added by the library, which spares a pass over it.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

from contraflow import config, thresholds
from contraflow.compiler.kernel import Contraction, Kernel, KernelCall
from contraflow.devices.cuda.driver import nvidia_library
from contraflow.dtypes import DType, bfloat16, float16, float32, float64
from contraflow.errors import DeviceError

WORKSPACE = 32 << 20  # bytes, as NVIDIA advises for Hopper
CANDIDATES = 8  # algorithms that the heuristic is asked for
ALIGNED = 16  # bytes: operands that begin at multiples of it have the faster algorithms

# As cublasLt.h, cublas_api.h and library_types.h number them.
_COMPUTE_32F, _COMPUTE_TF32, _COMPUTE_64F = 68, 77, 70
_CUDA_TYPES = {float32: 0, float64: 1, float16: 2, bfloat16: 14}
_TRANSPOSE_A, _TRANSPOSE_B, _EPILOGUE, _BIAS_POINTER = 3, 4, 7, 8  # of a product
_ADD_BIAS = 4  # an epilogue
_PARTS = 2  # of an algorithm: into how many parts it cuts the sums
_BATCH_COUNT, _BATCH_STRIDE = 5, 6  # of a layout
_MOST_WORKSPACE, _REDUCTIONS, _ALIGNMENTS = 1, 3, (5, 6, 7, 8)  # of a preference
_REDUCE_IN_WORKSPACE = 2  # not in place, which takes atomic operations


class _Heuristic(ctypes.Structure):
    """cublasLtMatmulHeuristicResult_t."""

    _fields_ = (
        ("algorithm", ctypes.c_uint64 * 8),
        ("workspace", ctypes.c_size_t),
        ("state", ctypes.c_int),
        ("waves", ctypes.c_float),
        ("reserved", ctypes.c_int * 4),
    )


def library() -> ctypes.CDLL | None:
    """The library, or None where it is not installed."""
    return nvidia_library("cublasLt")


def _call(name: str, *args: Any) -> None:
    status = getattr(library(), f"cublasLt{name}")(*args)
    if status:
        raise DeviceError(f"cuda: cublasLt{name} failed with status {status}.")


class MatrixLayout(NamedTuple):
    """A matrix as cuBLASLt has it: columns side by side, of a matrix or of its transpose."""

    transposed: bool
    rows: int  # in memory
    columns: int
    leading: int  # how far columns lie apart


def layout_of(rows: int, columns: int, down: int, across: int) -> MatrixLayout | None:
    """The layout of a matrix, by its strides down a column and across a row; None without one."""
    if (down == 1 or rows == 1) and (across >= rows or columns == 1):
        return MatrixLayout(False, rows, columns, across if columns > 1 else rows)
    if (across == 1 or columns == 1) and (down >= columns or rows == 1):
        return MatrixLayout(True, columns, rows, down if rows > 1 else columns)
    return None


class ProductForm(NamedTuple):
    """A product of which only the addresses are open: result = left right, column by column."""

    dtype: DType
    batch: int
    left: MatrixLayout
    right: MatrixLayout
    result: MatrixLayout
    batch_strides: tuple[int, int, int]  # of left, right and result
    swapped: bool  # left is operand B of the contraction: its rows lie side by side
    biased: bool = False  # a number for each row of `result` is added
    beside: bool = False  # other products are done at the same time

    @property
    def depth(self) -> int:
        """The length of the sums."""
        return self.left.rows if self.left.transposed else self.left.columns

    @property
    def gains_by_tf32(self) -> bool:
        """Whether TF32, if it is allowed, makes it faster."""
        results = self.batch * self.result.rows * self.result.columns
        return self.dtype is float32 and (
            self.depth > thresholds.cuda_exact_sums or results > thresholds.cuda_exact_results
        )


_ACCUMULATED = {bfloat16: float32, float16: float32, float32: float32, float64: float64}


def form_of(call: KernelCall) -> ProductForm | None:
    """The product that a call is, or None if the library cannot do it."""
    kernel: Kernel = call.kernel
    if not isinstance(kernel, Contraction) or kernel.digits is not None:
        return None
    if _ACCUMULATED.get(kernel.dtype) is not kernel.accumulate or 0 in call.sizes:
        return None
    g, b, m, n, k = call.sizes
    batches = []
    for outer, inner, *_ in call.strides:
        if g > 1 and b > 1 and outer != b * inner:
            return None  # no one stride walks over all matrices
        batches.append(inner if b > 1 else outer)
    (_, _, am, ak), (_, _, bk, bn), (_, _, cm, cn) = call.strides
    a, right = layout_of(m, k, am, ak), layout_of(k, n, bk, bn)
    result, swapped = layout_of(m, n, cm, cn), False
    if result is None:
        return None
    if result.transposed:  # the transpose of the result is the product of the transposes, swapped
        a, right = layout_of(n, k, bn, bk), layout_of(k, m, ak, am)
        result, swapped = MatrixLayout(False, n, m, result.leading), True
        batches[:2] = batches[1::-1]
    if a is None or right is None:
        return None
    if g * b > 1 and batches[2] == 0:
        return None
    strides = (batches[0], batches[1], batches[2])
    return ProductForm(kernel.dtype, g * b, a, right, result, strides, swapped)


class BlasProduct:
    """A product that is ready to be called, at any addresses of one alignment."""

    def __init__(
        self, handle: ctypes.c_void_p, form: ProductForm, aligned: bool, fast: bool
    ) -> None:
        self._handle, self._description = handle, ctypes.c_void_p()
        compute = _COMPUTE_64F if form.dtype is float64 else _COMPUTE_32F
        if fast:
            compute = _COMPUTE_TF32
        wide = form.dtype is float64
        scale, number = (float64, ctypes.c_double) if wide else (float32, ctypes.c_float)
        self._one, self._zero = number(1), number(0)
        description = ctypes.byref(self._description)
        _call("MatmulDescCreate", description, compute, _CUDA_TYPES[scale])
        for which, layout in ((_TRANSPOSE_A, form.left), (_TRANSPOSE_B, form.right)):
            self._set("MatmulDesc", self._description, which, ctypes.c_int(layout.transposed))
        self._biased = form.biased
        if form.biased:
            self._set("MatmulDesc", self._description, _EPILOGUE, ctypes.c_int(_ADD_BIAS))
        self._layouts = [
            self._layout(layout, form.dtype, form.batch, stride)
            for layout, stride in zip((form.left, form.right, form.result), form.batch_strides)
        ]
        self._found = self._algorithm(form, aligned)

    @staticmethod
    def _set(kind: str, target: ctypes.c_void_p, which: int, value: Any) -> None:
        size = ctypes.c_size_t(ctypes.sizeof(value))
        _call(f"{kind}SetAttribute", target, which, ctypes.byref(value), size)

    def _layout(
        self, layout: MatrixLayout, dtype: DType, batch: int, stride: int
    ) -> ctypes.c_void_p:
        made = ctypes.c_void_p()
        extents = ctypes.c_uint64(layout.rows), ctypes.c_uint64(layout.columns)
        leading = ctypes.c_int64(layout.leading)
        _call("MatrixLayoutCreate", ctypes.byref(made), _CUDA_TYPES[dtype], *extents, leading)
        if batch > 1:
            self._set("MatrixLayout", made, _BATCH_COUNT, ctypes.c_int32(batch))
            self._set("MatrixLayout", made, _BATCH_STRIDE, ctypes.c_int64(stride))
        return made

    def _algorithm(self, form: ProductForm, aligned: bool) -> _Heuristic | None:
        """The first algorithm of the heuristic; for short sums the first that does not cut them."""
        preference = ctypes.c_void_p()
        _call("MatmulPreferenceCreate", ctypes.byref(preference))
        least = ctypes.c_uint32(ALIGNED if aligned else form.dtype.itemsize)
        kind = "MatmulPreference"
        self._set(kind, preference, _MOST_WORKSPACE, ctypes.c_uint64(WORKSPACE))
        self._set(kind, preference, _REDUCTIONS, ctypes.c_uint32(_REDUCE_IN_WORKSPACE))
        for which in _ALIGNMENTS:
            self._set(kind, preference, which, least)
        found, count = (_Heuristic * CANDIDATES)(), ctypes.c_int(0)
        left, right, result = self._layouts
        status = getattr(library(), "cublasLtMatmulAlgoGetHeuristic")(  # noqa: B009
            self._handle, self._description, left, right, result, result, preference, CANDIDATES,
            found, ctypes.byref(count),
        )  # fmt: skip
        _call("MatmulPreferenceDestroy", preference)
        usable = [x for x in found[: count.value] if x.state == 0] if status == 0 else []
        short = form.depth <= (
            thresholds.cuda_short_sums_beside if form.beside else thresholds.cuda_short_sums
        )
        whole = [x for x in usable if self._parts(x) == 1] if short else []
        return next(iter(whole or usable), None)

    @staticmethod
    def _parts(algorithm: _Heuristic) -> int:
        """Into how many parts an algorithm cuts sums."""
        parts, written = ctypes.c_int32(1), ctypes.c_size_t(0)
        size = ctypes.c_size_t(ctypes.sizeof(parts))
        getattr(library(), "cublasLtMatmulAlgoConfigGetAttribute")(  # noqa: B009
            ctypes.byref(algorithm), _PARTS, ctypes.byref(parts), size, ctypes.byref(written)
        )
        return parts.value

    @property
    def works(self) -> bool:
        """Whether the library has an algorithm for it."""
        return self._found is not None

    @property
    def workspace(self) -> int:
        """Bytes that it needs."""
        assert self._found is not None
        return int(self._found.workspace)

    def calls(
        self, addresses: Sequence[Any], workspace: Any, stream: Any
    ) -> list[Callable[[], int]]:
        """The functions of C that do it on a stream, each of which gives a status: of left, right,
        result and bias at addresses that are read when they are called, objects of ctypes."""
        assert self._found is not None
        left, right, result, bias = addresses
        of_left, of_right, of_result = self._layouts
        found: list[Callable[[], int]] = []
        if self._biased:
            set_bias = getattr(library(), "cublasLtMatmulDescSetAttribute")  # noqa: B009
            size = ctypes.c_size_t(ctypes.sizeof(bias))
            found.append(
                partial(set_bias, self._description, _BIAS_POINTER, ctypes.byref(bias), size)
            )
        multiply = getattr(library(), "cublasLtMatmul")  # noqa: B009
        found.append(partial(
            multiply, self._handle, self._description, ctypes.byref(self._one), left, of_left,
            right, of_right, ctypes.byref(self._zero), result, of_result, result, of_result,
            ctypes.byref(self._found), workspace, ctypes.c_size_t(self._found.workspace), stream,
        ))  # fmt: skip
        return found


class Products:
    """The products of one device."""

    def __init__(self, exist: bool) -> None:
        self._exist = exist and library() is not None
        self._handle = ctypes.c_void_p()
        self._products: dict[tuple[ProductForm, bool, bool], BlasProduct] = {}

    def find(self, form: ProductForm, aligned: bool) -> BlasProduct | None:
        """The product of a form, None where the library has none."""
        if not self._exist:
            return None
        if not self._handle:
            _call("Create", ctypes.byref(self._handle))
        fast = config.float32_matmul_precision != "highest" and form.gains_by_tf32
        key = (form, aligned, fast)
        product = self._products.get(key)
        if product is None:
            product = self._products[key] = BlasProduct(self._handle, form, aligned, fast)
        return product if product.works else None
