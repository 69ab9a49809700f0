"""Decompositions of matrices and linear systems by cuSOLVER, NVIDIA's library, through `ctypes`.

The library has matrices column by column, and ours lie row by row: what it is given is the
transpose, which is the same for a symmetric matrix, is asked for where the library takes a flag,
and is made by a kernel elsewhere. Matrices of a stack are done one after the other.

Whether a matrix has an inverse or a decomposition is asked before the op returns, which waits for
the GPU.
"""

from __future__ import annotations

import ctypes
import math
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from contraflow.devices.cuda.compiler import KernelText
from contraflow.devices.cuda.driver import nvidia_library
from contraflow.devices.cuda.launches import ArgumentBlock
from contraflow.devices.cuda.memory import CudaBuffer
from contraflow.dtypes import DType, float32, float64, int32
from contraflow.errors import DeviceError
from contraflow.render.clike import cuda
from contraflow.shapes import Shape
from contraflow.spec import Params

if TYPE_CHECKING:
    from contraflow.devices.cuda.device import CudaDevice

# As cublas_api.h and cusolver_common.h number them.
_LOWER, _UPPER = 0, 1
_PLAIN, _TRANSPOSED = 0, 1
_WITH_VECTORS = 1

OPS = (
    "cholesky", "solve_triangular", "solve", "inv", "det", "slogdet", "cofactor", "qr", "eigh",
    "svd",
)  # fmt: skip

_THREADS = 256
# The parts of a matrix that `shape` keeps: the upper triangle, the lower one; and ones on the
# diagonal.
_KEEP_UPPER, _KEEP_LOWER, _ONES = 1, 2, 4

# Matrices are `rows` x `columns` row by row, one behind the other; a thread takes an element, or a
# matrix where their number is all that is given.
_TEXT = """
typedef long long I;
#define EACH(count) for (I i = blockIdx.x * (I)blockDim.x + threadIdx.x; i < (count); \\
                         i += (I)gridDim.x * blockDim.x)
extern "C" __global__ void turn(const REAL* from, REAL* to, I batch, I rows, I columns) {
    EACH(batch * rows * columns) {
        I at = i % (rows * columns), row = at / columns, column = at % columns;
        to[i - at + column * rows + row] = from[i];
    }
}
extern "C" __global__ void shape(REAL* x, I batch, I rows, I columns, I keep) {
    EACH(batch * rows * columns) {
        I row = i / columns % rows, column = i % columns;
        if (row == column && (keep & 4)) x[i] = 1;
        else if (!(row <= column && (keep & 1)) && !(row >= column && (keep & 2))) x[i] = 0;
    }
}
extern "C" __global__ void first(const REAL* from, REAL* to, I batch, I rows, I columns, I all) {
    EACH(batch * rows * columns) {
        I matrix = i / (rows * columns);
        to[i] = from[matrix * all * columns + i % (rows * columns)];
    }
}
extern "C" __global__ void counted(int* x, I batch, I n) {
    EACH(batch * n) x[i] = i % n + 1;
}
extern "C" __global__ void determinant(
    const REAL* lu, const int* pivots, REAL* product, REAL* sign, REAL* logarithm, I batch, I n) {
    EACH(batch) {
        REAL whole = 1, side = 1, sum = 0;
        for (I k = 0; k < n; k++) {
            REAL x = lu[(i * n + k) * n + k];
            if (pivots[i * n + k] != k + 1) { whole = -whole; side = -side; }
            whole *= x;
            side *= x > 0 ? 1 : x < 0 ? -1 : x;
            sum += LOG(x < 0 ? -x : x);
        }
        if (product) product[i] = whole;
        if (sign) { sign[i] = side; logarithm[i] = sum; }
    }
}
extern "C" __global__ void cofactor(
    const REAL* u, const REAL* s, const REAL* vh, const REAL* of_u, const REAL* of_vh, REAL* to,
    I batch, I n) {
    EACH(batch * n * n) {
        I matrix = i / (n * n), row = i / n % n, column = i % n;
        const REAL* values = s + matrix * n;
        REAL sum = 0;
        for (I k = 0; k < n; k++) {
            REAL others = 1;
            for (I l = 0; l < n; l++) if (l != k) others *= values[l];
            sum += u[(matrix * n + row) * n + k] * others * vh[(matrix * n + k) * n + column];
        }
        to[i] = of_u[matrix] * of_vh[matrix] * sum;
    }
}
"""
_TYPES = {float32: ("S", "float", "logf"), float64: ("D", "double", "log")}


class Refused(Exception):
    """The library found a matrix that it cannot decompose."""


def library() -> ctypes.CDLL | None:
    """The library, or None where it is not installed."""
    return nvidia_library("cusolver")


class Matrices(NamedTuple):
    """A stack of matrices, row by row."""

    buffer: CudaBuffer

    @property
    def sizes(self) -> tuple[int, int]:
        """Rows and columns."""
        rows, columns = self.buffer.shape[-2:]
        return rows, columns

    @property
    def batch(self) -> Shape:
        """The dims of the stack."""
        return self.buffer.shape[:-2]

    @property
    def number(self) -> int:
        """The number of matrices of the batch."""
        return math.prod(self.batch)

    @property
    def pointers(self) -> Iterator[int]:
        """The address of each matrix."""
        return _pieces(self.buffer, math.prod(self.sizes))


def _pieces(buffer: CudaBuffer, size: int) -> Iterator[int]:
    """Where each piece of so many elements begins."""
    step = size * buffer.dtype.itemsize
    return iter(range(buffer.pointer, buffer.pointer + buffer.nbytes, step))


class MatrixSolver:
    """The decompositions of one GPU: a method for each of `OPS`, of its inputs and parameters."""

    def __init__(self, device: CudaDevice) -> None:
        self._device = device
        self._handle = ctypes.c_void_p()
        self._status: CudaBuffer | None = None  # one number for each matrix of the running op

    def run(
        self, name: str, inputs: Sequence[CudaBuffer], params: Params
    ) -> list[CudaBuffer] | None:
        """The results of an op; None where a matrix has no inverse or decomposition."""
        device = self._device
        with device.lock:
            device.driver.enter()
            device.latest = None
            if not self._handle:
                self._call("Create", ctypes.byref(self._handle))
                self._call("SetStream", self._handle, device.stream_handle)
            batches = [x.shape[:-2] for x in inputs]
            self._batch = np.broadcast_shapes(*batches)
            self._status = self._new((max(math.prod(self._batch), 1),), int32)
            device.driver(
                "cuMemsetD8Async", self._status.pointer, 0, self._status.nbytes, device.stream
            )
            try:
                results: list[CudaBuffer] = getattr(self, f"_{name}")(
                    *map(Matrices, inputs), **params
                )
            except Refused:
                return None
            return results

    # --- the library and the kernels --------------------------------------------------------

    def _call(self, name: str, *args: Any) -> None:
        status = getattr(library(), f"cusolverDn{name}")(*args)
        if status:
            raise DeviceError(f"cuda: cusolverDn{name} failed with status {status}.")

    def _decompose(
        self, name: str, dtype: DType, sizes: Sequence[Any], *rest: Any, asked: Sequence[Any]
    ) -> None:
        """Call a function that needs a workspace, of the size that it says it needs if `asked`."""
        kind, size = _TYPES[dtype][0], ctypes.c_int(0)
        self._call(f"{kind}{name}_bufferSize", self._handle, *asked, ctypes.byref(size))
        count = max(size.value, 1)
        work = self._new((count,), dtype)
        given = (ctypes.c_void_p(work.pointer), *((count,) if name != "getrf" else ()))
        self._call(f"{kind}{name}", self._handle, *sizes, *given, *rest)

    def _new(self, shape: Sequence[int], dtype: DType) -> CudaBuffer:
        return self._device.allocate(tuple(shape), dtype)

    def _launch(self, name: str, dtype: DType, points: int, *words: int) -> None:
        _, real, log = _TYPES[dtype]
        text = f"#define REAL {real}\n#define LOG {log}\n{_TEXT}"
        (function,) = self._device.kernels.functions(
            [KernelText(name, f"{name} {text}", lambda: text)]
        )
        block = ArgumentBlock([b"".join(word.to_bytes(8, "little") for word in words)])
        grid = min(max(1, -(-points // _THREADS)), 4096)
        launch = block.launch(
            self._device, 0, function, cuda.Launch((grid, 1, 1), (_THREADS, 1, 1))
        )
        status = launch()
        if status:
            self._device.driver.fail(name, status)

    def _turned(self, x: Matrices) -> Matrices:
        """The transposes."""
        (rows, columns), buffer = x.sizes, x.buffer
        made = self._new((*x.batch, columns, rows), buffer.dtype)
        words = (buffer.pointer, made.pointer, x.number, rows, columns)
        self._launch("turn", buffer.dtype, buffer.size, *words)
        return Matrices(made)

    def _shaped(self, x: Matrices, keep: int) -> Matrices:
        """The same matrices, of which other elements than those kept are zeros now."""
        words = (x.buffer.pointer, x.number, *x.sizes, keep)
        self._launch("shape", x.buffer.dtype, x.buffer.size, *words)
        return x

    def _copied(self, x: Matrices, batch: Shape | None = None) -> Matrices:
        """Copies, one for each matrix of a larger stack."""
        batch = x.batch if batch is None else batch
        made = Matrices(self._new((*batch, *x.sizes), x.buffer.dtype))
        size = math.prod(x.sizes) * x.buffer.dtype.itemsize
        copy = self._device.driver
        if batch == x.batch:
            copy("cuMemcpyDtoDAsync", made.buffer.pointer, x.buffer.pointer, x.buffer.nbytes,
                 self._device.stream)  # fmt: skip
            return made
        numbers = np.broadcast_to(np.arange(x.number).reshape(x.batch), batch).reshape(-1)
        for target, number in zip(made.pointers, numbers.tolist()):
            source = x.buffer.pointer + number * size
            copy("cuMemcpyDtoDAsync", target, source, size, self._device.stream)
        return made

    @property
    def _statuses(self) -> Iterator[ctypes.c_void_p]:
        assert self._status is not None
        return map(ctypes.c_void_p, _pieces(self._status, 1))

    def _check(self) -> None:
        """Wait, and refuse what the library could not do."""
        assert self._status is not None
        statuses = self._device.read(self._status)
        self._device.outcomes.check()  # a wrong index before it is the reason, if there was one
        if statuses.any():
            raise Refused

    # --- factors ----------------------------------------------------------------------------

    def _lu(self, x: Matrices) -> CudaBuffer:
        """Put the factors of transposes in the place of square matrices; the pivots."""
        n, dtype = x.sizes[0], x.buffer.dtype
        pivots = self._new((*x.batch, n), int32)
        rows = zip(x.pointers, _pieces(pivots, n), self._statuses)
        for at, pivot, status in rows:
            matrix = (n, n, ctypes.c_void_p(at), n)
            self._decompose("getrf", dtype, matrix, ctypes.c_void_p(pivot), status, asked=matrix)
        return pivots

    def _substitute(
        self, factors: Matrices, pivots: CudaBuffer, right: Matrices, operation: int
    ) -> None:
        """Solve for the rows of `right`, in their place."""
        kind, (columns, n) = _TYPES[right.buffer.dtype][0], right.sizes
        rows = zip(factors.pointers, _pieces(pivots, n), right.pointers)
        ignored = self._new((1,), int32)  # which arguments of the call are wrong
        for at, pivot, target in rows:
            self._call(
                f"{kind}getrs", self._handle, operation, n, columns, ctypes.c_void_p(at), n,
                ctypes.c_void_p(pivot), ctypes.c_void_p(target), n,
                ctypes.c_void_p(ignored.pointer),
            )  # fmt: skip

    # --- ops ----------------------------------------------------------------------------------

    def _cholesky(self, x: Matrices, upper: bool) -> list[CudaBuffer]:
        # The lower triangle row by row is the upper one column by column.
        made, n = self._copied(x), x.sizes[0]
        for at, status in zip(made.pointers, self._statuses):
            matrix = (_LOWER if upper else _UPPER, n, ctypes.c_void_p(at), n)
            self._decompose("potrf", x.buffer.dtype, matrix, status, asked=matrix)
        self._check()
        return [self._shaped(made, _KEEP_UPPER if upper else _KEEP_LOWER).buffer]

    def _solve(self, a: Matrices, b: Matrices, left: bool) -> list[CudaBuffer]:
        factors = self._copied(a, self._batch)
        pivots = self._lu(factors)
        self._check()
        right = self._copied(b, self._batch)
        if not left:  # X A = B: the rows of B lie as the columns of A' X' = B'
            self._substitute(factors, pivots, right, _PLAIN)
            return [right.buffer]
        right = self._turned(right)
        self._substitute(factors, pivots, right, _TRANSPOSED)
        return [self._turned(right).buffer]

    def _inv(self, x: Matrices) -> list[CudaBuffer]:
        factors = self._copied(x)
        pivots = self._lu(factors)
        self._check()
        right = self._shaped(Matrices(self._new(x.buffer.shape, x.buffer.dtype)), _ONES)
        self._substitute(factors, pivots, right, _PLAIN)  # X A = 1
        return [right.buffer]

    def _solve_triangular(
        self, a: Matrices, b: Matrices, upper: bool, left: bool, unitriangular: bool
    ) -> list[CudaBuffer]:
        """A triangle is the factor U of itself, with L = 1 and no exchanges of rows."""
        factors = self._copied(a, self._batch)
        keep = (_KEEP_UPPER if upper else _KEEP_LOWER) | (_ONES if unitriangular else 0)
        self._shaped(factors, keep)
        # The library is to see an upper triangle: a lower one that lies row by row.
        if upper:
            factors = self._turned(factors)
        right = self._copied(b, self._batch)
        right = self._turned(right) if left else right
        n = a.sizes[0]
        pivots = self._new((*self._batch, n), int32)
        count = math.prod(self._batch)
        self._launch("counted", a.buffer.dtype, count * n, pivots.pointer, count, n)
        # The library's matrix is A' of a lower A, and A of an upper one.
        self._substitute(factors, pivots, right, _TRANSPOSED if left != upper else _PLAIN)
        return [(self._turned(right) if left else right).buffer]

    def _determinants(self, x: Matrices, logarithms: bool) -> list[CudaBuffer]:
        factors, n = self._copied(x), x.sizes[0]
        pivots = self._lu(factors)
        made = [self._new(x.batch, x.buffer.dtype) for _ in range(1 + logarithms)]
        results = (0, made[0].pointer, made[1].pointer) if logarithms else (made[0].pointer, 0, 0)
        words = (factors.buffer.pointer, pivots.pointer, *results, x.number, n)
        self._launch("determinant", x.buffer.dtype, x.number, *words)
        return made

    def _det(self, x: Matrices) -> list[CudaBuffer]:
        return self._determinants(x, logarithms=False)

    def _slogdet(self, x: Matrices) -> list[CudaBuffer]:
        return self._determinants(x, logarithms=True)

    def _cofactor(self, x: Matrices) -> list[CudaBuffer]:
        u, s, vh = self._svd(x, full_matrices=True)
        signs = [self._det(Matrices(factor))[0] for factor in (u, vh)]
        made = self._new(x.buffer.shape, x.buffer.dtype)
        read = (u, s, vh, *signs, made)
        words = (*(buffer.pointer for buffer in read), x.number, x.sizes[0])
        self._launch("cofactor", x.buffer.dtype, made.size, *words)
        return [made]

    def _qr(self, x: Matrices, mode: str) -> list[CudaBuffer]:
        (m, n), dtype = x.sizes, x.buffer.dtype
        least = min(m, n)
        k = m if mode == "complete" else least  # columns of Q
        # Row by row, the transpose of what the library has: n or k columns of m elements.
        wide = max(n, k)
        columns = Matrices(self._new((*x.batch, wide, m), dtype))
        turned = self._turned(x)
        size = m * dtype.itemsize
        for source, target in zip(turned.pointers, columns.pointers):
            self._device.driver("cuMemcpyDtoDAsync", target, source, n * size, self._device.stream)
        scales = self._new((max(x.number, 1), least), dtype)
        rows = list(zip(columns.pointers, _pieces(scales, least), self._statuses))
        for at, scale, status in rows:
            matrix, scaled = (m, n, ctypes.c_void_p(at), m), ctypes.c_void_p(scale)
            self._decompose("geqrf", dtype, (*matrix, scaled), status, asked=matrix)
        upper = Matrices(self._new((*x.batch, k, n), dtype))
        packed = Matrices(self._new((*x.batch, n, m), dtype))
        self._first_rows(columns, packed)
        self._first_rows(self._turned(packed), upper)
        self._shaped(upper, _KEEP_UPPER)
        if mode == "r":
            return [self._new((0,), dtype), upper.buffer]
        for at, scale, status in rows:
            given = (m, k, least, ctypes.c_void_p(at), m, ctypes.c_void_p(scale))
            self._decompose("orgqr", dtype, given, status, asked=given)
        q = Matrices(self._new((*x.batch, k, m), dtype))
        self._first_rows(columns, q)
        return [self._turned(q).buffer, upper.buffer]

    def _first_rows(self, x: Matrices, target: Matrices) -> None:
        """Copy the first rows of matrices to others."""
        buffer = target.buffer
        words = (x.buffer.pointer, buffer.pointer, x.number, *target.sizes, x.sizes[0])
        self._launch("first", buffer.dtype, buffer.size, *words)

    def _eigh(self, x: Matrices, UPLO: str) -> list[CudaBuffer]:
        made, (n, _), dtype = self._copied(x), x.sizes, x.buffer.dtype
        values = self._new((*x.batch, n), dtype)
        triangle = _UPPER if UPLO == "L" else _LOWER  # of the transpose
        for at, value, status in zip(made.pointers, _pieces(values, n), self._statuses):
            given = (
                _WITH_VECTORS, triangle, n, ctypes.c_void_p(at), n, ctypes.c_void_p(value),
            )  # fmt: skip
            self._decompose("syevd", dtype, given, status, asked=given)
        self._check()
        return [values, self._turned(made).buffer]

    def _svd(self, x: Matrices, full_matrices: bool) -> list[CudaBuffer]:
        (m, n), dtype = x.sizes, x.buffer.dtype
        if m > n:  # the library is given no more columns than rows, and sees the transpose
            u, s, vh = self._svd(self._turned(x), full_matrices)
            return [self._turned(Matrices(vh)).buffer, s, self._turned(Matrices(u)).buffer]
        right = n if full_matrices else m
        u, vh = self._new((*x.batch, m, m), dtype), self._new((*x.batch, right, n), dtype)
        s = self._new((*x.batch, m), dtype)
        job = ctypes.c_byte(ord("A" if full_matrices else "S"))
        copies = self._copied(x)
        rows = zip(
            copies.pointers, _pieces(s, m), _pieces(vh, right * n), _pieces(u, m * m),
            self._statuses,
        )  # fmt: skip
        for at, value, left, turned, status in rows:
            given = (
                job, job, n, m, ctypes.c_void_p(at), n, ctypes.c_void_p(value),
                ctypes.c_void_p(left), n, ctypes.c_void_p(turned), m,
            )  # fmt: skip
            self._decompose("gesvd", dtype, given, ctypes.c_void_p(0), status, asked=(n, m))
        self._check()
        return [u, s, vh]
