"""Questions about tensors, dtypes and shapes as functions, and small functions that are not ops."""

from __future__ import annotations

import math
import sys
from typing import Any, NamedTuple

from contraflow import shapes
from contraflow.dtypes import DType, bool_, finfo, int32, of_number, promote
from contraflow.errors import counted, describe
from contraflow.operation.public import public
from contraflow.ops.creation.create import full_like, ones_like, zeros_like
from contraflow.ops.elementwise.basic import where
from contraflow.ops.elementwise.integers import floor
from contraflow.ops.elementwise.mathematics import ldexp, log2
from contraflow.ops.linalg import decompositions
from contraflow.ops.linalg.matrices import pinv
from contraflow.ops.linalg.norms import matrix_norm, vector_norm
from contraflow.ops.linalg.solve import solve_triangular
from contraflow.ops.shape.joining import cat
from contraflow.shapes import Sizes
from contraflow.tensors.methods import method
from contraflow.tensors.storage import Storage
from contraflow.tensors.tensor import Tensor


def is_tensor(obj: object) -> bool:
    """Whether something is a tensor.

    >>> import contraflow as cf
    >>> cf.is_tensor(cf.ones(2)), cf.is_tensor([1.0])
    (True, False)
    """
    return isinstance(obj, Tensor)


def is_storage(obj: object) -> bool:
    """Whether something is the memory behind tensors.

    >>> import contraflow as cf
    >>> cf.is_storage(cf.ones(2))
    False
    """
    return isinstance(obj, Storage)


def _question(name: str, doc: str, argument: str = "cf.ones(2)", answer: str = "False") -> Any:
    def ask(input: Tensor) -> Any:
        return getattr(input, name)()

    ask.__name__ = ask.__qualname__ = name
    ask.__doc__ = _with_example(doc, name, argument, answer)
    return public(ask)


def _with_example(doc: str, name: str, argument: str, answer: str) -> str:
    """A docstring with one call and what it gives."""
    return f"{doc}\n\n>>> import contraflow as cf\n>>> cf.{name}({argument})\n{answer}\n"


is_floating_point = _question(
    "is_floating_point", "Whether a tensor has a floating-point dtype.", "cf.ones(2)", "True"
)
is_complex = _question("is_complex", "Whether a tensor has a complex dtype: none has.")
is_signed = _question(
    "is_signed", "Whether the dtype of a tensor holds negative numbers.", "cf.ones(2)", "True"
)
is_nonzero = _question(
    "is_nonzero", "Whether the one element of a tensor is not zero.", "cf.tensor([2.0])", "True"
)
is_conj = _question("is_conj", "Whether elements are conjugated when they are read: never.")
is_neg = _question("is_neg", "Whether elements are negated when they are read: never.")
is_inference = _question("is_inference", "Whether a tensor was made in inference mode.")
get_device = _question(
    "get_device", "The index of a tensor's device, -1 for the cpu.", "cf.ones(2)", "-1"
)
numel = _question("numel", "The number of elements of a tensor.", "cf.ones(2, 3)", "6")
detach = _question(
    "detach",
    "The elements of a tensor outside of the graph.",
    "cf.ones(2, requires_grad=True)",
    "tensor([1., 1.])",
)
detach_ = _question(
    "detach_",
    "Detach a tensor from the graph, in place.",
    "cf.ones(2, requires_grad=True)",
    "tensor([1., 1.])",
)


@public
def is_same_size(input: Tensor, other: Tensor) -> bool:
    """Whether two tensors have the same shape.

    >>> import contraflow as cf
    >>> cf.is_same_size(cf.ones(2, 3), cf.zeros(2, 3))
    True
    """
    return input.is_same_size(other)


@public
def result_type(tensor1: Any, tensor2: Any) -> DType:
    """The dtype of the sum of two tensors or numbers.

    >>> import contraflow as cf
    >>> result_type(cf.ones(2, dtype=cf.int64), 1.5)
    contraflow.float32
    """
    ranks: tuple[list[DType], ...] = ([], [], [])
    for x in (tensor1, tensor2):
        if isinstance(x, Tensor):
            ranks[0 if x.ndim else 1].append(x.dtype)
        elif isinstance(x, (bool, int, float)):
            ranks[2].append(of_number(x))
        else:
            raise TypeError(f"result_type: {describe(x)} is neither a tensor nor a number.")
    return promote(*map(tuple, ranks))


def broadcast_shapes(*shapes_: Any) -> Sizes:
    """The shape that tensors of several shapes are broadcast to; a number is one size.

    >>> broadcast_shapes((2, 1), (3,))
    (2, 3)
    """
    given = [(s,) if isinstance(s, int) else tuple(s) for s in shapes_]
    return Sizes(shapes.broadcast_shapes("broadcast_shapes", given)) if given else Sizes()


def typename(obj: object) -> str:
    """The name of the type of something: of a tensor PyTorch's name for it.

    >>> import contraflow as cf
    >>> typename(cf.ones(2))
    'torch.FloatTensor'
    """
    if isinstance(obj, Tensor):
        return str(obj.type())
    kind = obj if isinstance(obj, type) else type(obj)
    return f"{kind.__module__}.{kind.__qualname__}".removeprefix("builtins.")


def _real(name: str, doc: str) -> Any:
    def same(input: Tensor) -> Tensor:
        if not isinstance(input, Tensor):
            raise TypeError(f"{name}: expected a tensor, not {type(input).__name__}.")
        return input

    same.__name__ = same.__qualname__ = name
    same.__doc__ = _with_example(doc, name, "cf.ones(2)", "tensor([1., 1.])")
    return same


@public
def isreal(input: Tensor) -> Tensor:
    """Whether each element is a real number: all are.

    >>> import contraflow as cf
    >>> isreal(cf.ones(2))
    tensor([True, True])
    """
    return ones_like(input, dtype=bool_)


@public
def adjoint(input: Tensor) -> Tensor:
    """The last two dims exchanged.

    >>> import contraflow as cf
    >>> cf.adjoint(cf.tensor([[1, 2], [3, 4]]))
    tensor([[1, 3],
            [2, 4]])
    """
    return input.mT


@public
def fill(input: Tensor, value: Any) -> Tensor:
    """A tensor like this one with one value throughout.

    >>> import contraflow as cf
    >>> fill(cf.ones(2), 3)
    tensor([3., 3.])
    """
    return input.clone().copy_(value) if isinstance(value, Tensor) else full_like(input, value)


@public
def unravel_index(indices: Tensor, shape: Any) -> tuple[Tensor, ...]:
    """The coordinates of elements that were counted row-major.

    >>> import contraflow as cf
    >>> unravel_index(cf.tensor([4]), (2, 3))
    (tensor([1]), tensor([1]))
    """
    sizes = (shape,) if isinstance(shape, int) else tuple(shape)
    found = []
    for size in reversed(sizes):
        found.append(indices % size)
        indices = indices // size
    return tuple(reversed(found))


@public
def gradient(
    input: Tensor, *, spacing: Any = 1, dim: Any = None, edge_order: int = 1
) -> tuple[Tensor, ...]:
    """Estimates of the derivative along dims, by central differences.

    `spacing` is the distance of neighbours, or has for each dim a distance or a vector of points.

    >>> import contraflow as cf
    >>> gradient(cf.tensor([1.0, 4.0, 9.0, 16.0]))
    (tensor([3., 4., 6., 7.]),)
    >>> points = cf.tensor([0.0, 1.0, 3.0])
    >>> gradient(points * points, spacing=(points,), edge_order=2)
    (tensor([0., 2., 6.]),)
    """
    dims = range(input.ndim) if dim is None else [dim] if isinstance(dim, int) else list(dim)
    steps = list(spacing) if isinstance(spacing, (tuple, list)) else [spacing] * len(dims)
    if len(steps) != len(dims):
        raise ValueError(
            f"gradient: spacing has {len(steps)} entries for {counted(len(dims), 'dim')}; it must "
            f"be a number, or have an entry for each dim."
        )
    if edge_order not in (1, 2):
        raise ValueError(f"gradient: edge_order is {edge_order}; it must be 1 or 2.")
    return tuple(_derivative(input, d, step, edge_order) for d, step in zip(dims, steps))


def _derivative(x: Tensor, dim: int, step: Any, edge_order: int) -> Tensor:
    n = x.shape[dim]
    if n <= edge_order:
        raise ValueError(f"gradient: dim {dim} of {describe(x)} has too few elements.")

    def at(i: int, count: int = 1, of: Tensor = x, d: int = dim) -> Tensor:
        part: Tensor = of.narrow(d, i, count)
        return part

    if not (isinstance(step, Tensor) and step.ndim):
        if edge_order == 1:
            first, last = at(1) - at(0), at(n - 1) - at(n - 2)
        else:
            first = at(0) * -1.5 + at(1) * 2.0 - at(2) * 0.5
            last = at(n - 1) * 1.5 - at(n - 2) * 2.0 + at(n - 3) * 0.5
        middle = (at(2, n - 2) - at(0, n - 2)) * 0.5
        return cat([first, middle, last], dim) / step
    if step.shape != (n,):
        raise ValueError(
            f"gradient: the points {describe(step)} do not fit dim {dim} of {describe(x)}; there "
            f"must be {n}."
        )
    run = (step[1:] - step[:-1]).reshape((-1,) + (1,) * (x.ndim - 1 - dim % x.ndim))
    slopes = (at(1, n - 1) - at(0, n - 1)) / run  # between neighbours
    near, far = run.narrow(0, 0, n - 2), run.narrow(0, 1, n - 2)
    # The slope of the parabola through three points. It is linear: the slope between two of them is
    # the mean of those at both.
    middle = (at(0, n - 2, slopes) * far + at(1, n - 2, slopes) * near) / (near + far)
    first, last = at(0, 1, slopes), at(n - 2, 1, slopes)
    if edge_order == 2:
        first, last = first * 2.0 - at(0, 1, middle), last * 2.0 - at(n - 3, 1, middle)
    return cat([first, middle, last], dim)


@public
def frexp(input: Tensor) -> Any:
    """The fraction, at least 1/2 and below 1, and the exponent of 2 of each element.

    >>> import contraflow as cf
    >>> frexp(cf.tensor([3.0]))
    FractionExponent(mantissa=tensor([0.7500]), exponent=tensor([2], dtype=contraflow.int32))
    """
    if not input.dtype.is_floating_point:
        raise TypeError(f"frexp: {describe(input)} is not floating-point. Use x.float().")
    limits = finfo(input.dtype)
    # The inverse of the power of two at a subnormal number may be infinite: make those larger.
    digits = 1 - round(math.log2(limits.eps))
    small = input.detach().abs() < limits.smallest_normal
    scaled = where(small, input * 2.0**digits, input)
    size = scaled.detach().abs()
    known = (size > 0) & size.isfinite()
    exponent = where(known, floor(log2(where(known, size, 1.0))) + 1.0, 0.0)
    fraction = ldexp(scaled, -exponent)
    # The logarithm of a number next to a power of two may be rounded to it.
    over, under = fraction.detach().abs() >= 1.0, known & (fraction.detach().abs() < 0.5)
    fraction = where(known & over, fraction * 0.5, where(under, fraction * 2.0, fraction))
    exponent = where(known & over, exponent + 1.0, where(under, exponent - 1.0, exponent))
    exponent = where(known & small, exponent - digits, exponent)
    return FractionExponent(fraction, exponent.to(int32))


class FractionExponent(NamedTuple):
    """Numbers taken apart by `frexp`."""

    mantissa: Tensor
    exponent: Tensor


@public
def pinverse(input: Tensor, rcond: float = 1e-15) -> Tensor:
    """The pseudo-inverse of matrices; see `linalg.pinv`.

    >>> import contraflow as cf
    >>> cf.pinverse(cf.tensor([[2.0, 0.0], [0.0, 4.0]]))
    tensor([[0.5000, 0.0000],
            [0.0000, 0.2500]])
    """
    out: Tensor = pinv(input, rtol=rcond)
    return out


class SingularValues(NamedTuple):
    """The singular values S, and the singular vectors as the columns of U and V."""

    U: Tensor
    S: Tensor
    V: Tensor


@public
def svd(input: Tensor, some: bool = True, compute_uv: bool = True) -> Any:
    """Matrices [..., m, n] as U diag(S) V'; `linalg.svd` gives V' in the place of V.

    U [..., m, k] and V [..., n, k] have k = min(m, n) columns with `some`, else m and n. Without
    `compute_uv` they are zeros, with all columns.

    >>> import contraflow as cf
    >>> x = cf.tensor([[3.0, 0.0, 0.0], [4.0, 0.0, 0.0]])
    >>> U, S, V = cf.svd(x)
    >>> cf.allclose(U @ cf.diag(S) @ V.T, x, atol=1e-6)
    True
    """
    U, S, Vh = decompositions.svd(input, full_matrices=not (some and compute_uv))
    if not compute_uv:
        return SingularValues(zeros_like(U), S, zeros_like(Vh))
    return SingularValues(U, S, Vh.mT)


class TriangularSolution(NamedTuple):
    """The solution, and the matrix of the equation."""

    solution: Tensor
    cloned_coefficient: Tensor


@public
def triangular_solve(
    b: Tensor, A: Tensor, upper: bool = True, transpose: bool = False, unitriangular: bool = False
) -> TriangularSolution:
    """The solution of A X = b, or of A^T X = b, for a triangle A; see `linalg.solve_triangular`.

    >>> import contraflow as cf
    >>> cf.triangular_solve(cf.ones(2, 1), 2 * cf.eye(2)).solution
    tensor([[0.5000],
            [0.5000]])
    """
    matrix, is_upper = (A.mT, not upper) if transpose else (A, upper)
    solution = solve_triangular(matrix, b, upper=is_upper, unitriangular=unitriangular)
    return TriangularSolution(solution, A.clone())


@public
def frobenius_norm(input: Tensor, dim: Any = (), keepdim: bool = False) -> Tensor:
    """The root of the sum of squares over dims, all of them by default.

    >>> import contraflow as cf
    >>> cf.frobenius_norm(cf.tensor([[3.0, 0.0], [0.0, 4.0]]))
    tensor(5.)
    """
    dims = tuple(range(input.ndim)) if dim in ((), [], None) else dim
    out: Tensor = vector_norm(input, 2, dims, keepdim)
    return out


@public
def nuclear_norm(input: Tensor, dim: Any = (-2, -1), keepdim: bool = False) -> Tensor:
    """The sum of the singular values of matrices.

    >>> import contraflow as cf
    >>> cf.nuclear_norm(cf.tensor([[3.0, 0.0], [0.0, 4.0]]))
    tensor(7.)
    """
    out: Tensor = matrix_norm(input, "nuc", tuple(dim) or (-2, -1), keepdim)
    return out


@public
def norm_except_dim(v: Tensor, pow: int = 2, dim: int = 0) -> Tensor:
    """The norms over all dims but one, which has size 1 for the others.

    >>> import contraflow as cf
    >>> cf.norm_except_dim(cf.ones(2, 3), 2, 0).shape
    (2, 1)
    """
    if dim == -1:
        whole: Tensor = vector_norm(v, pow)
        return whole
    at = shapes.normalize_dim("norm_except_dim", dim, v.ndim)
    # With one more dim there is always another one: no dims would stand for all of them.
    others = tuple(d for d in range(v.ndim + 1) if d != at)
    out: Tensor = vector_norm(v.unsqueeze(-1), pow, others, True).squeeze(-1)
    return out


# Numbers here are real, and PyTorch gives a real tensor itself too.
real = _real("real", "The real part of a tensor: itself.")
conj = _real("conj", "The conjugate of a tensor: itself.")
conj_physical = _real("conj_physical", "The conjugate of a tensor: itself.")
resolve_conj = _real("resolve_conj", "The tensor itself: elements are never conjugated late.")
resolve_neg = _real("resolve_neg", "The tensor itself: elements are never negated late.")

for _function in (conj, conj_physical, resolve_conj, resolve_neg, isreal, frexp, pinverse, svd):
    method(_function)


@method
def __array_namespace__(self: Tensor, *, api_version: str | None = None) -> Any:
    """The functions of the Python array API standard, for tensors."""
    namespace = sys.modules["contraflow"].array_api  # which the package imports
    if api_version not in (None, namespace.VERSION):
        raise ValueError(
            f"__array_namespace__: version {api_version!r} is not there; {namespace.VERSION} is."
        )
    return namespace


@method
def to_device(self: Tensor, device: Any, /, *, stream: Any = None) -> Tensor:
    """The tensor on a device, as the array API standard has it.

    >>> import contraflow as cf
    >>> cf.ones(2).to_device("cpu").device.type
    'cpu'
    """
    if stream is not None:
        raise ValueError("to_device: stream must be None; each device has one queue.")
    return self.to(device)
