"""Matrix products: matmul, labelled contractions of two operands, and ops composed of them.

Products of more operands, and with labels that are summed or repeated, are in `einsum.py`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from contraflow.dtypes import bool_
from contraflow.errors import MismatchError, describe
from contraflow.operation.context import apply
from contraflow.operation.kinds import composite, contraction
from contraflow.operation.promotion import DTYPE_RULES
from contraflow.operation.reference import product
from contraflow.operation.samples import Array, Failure, Sample
from contraflow.ops.elementwise.basic import clone
from contraflow.ops.reduction.reduce import sum_
from contraflow.ops.shape.arrange import roll
from contraflow.ops.shape.view import reshape
from contraflow.shapes import LETTERS, broadcast_shapes, normalize_dim, numel
from contraflow.tensors.tensor import Tensor

_BATCH = "".join(c for c in LETTERS if c not in "kmn")


def _of_numbers(name: str) -> Any:
    """The promoted dtype; truth values have no products."""

    def rule(inputs: Any, params: Any) -> Any:
        types = DTYPE_RULES["promote"](inputs, params)
        if types[1][0] is bool_:
            a, b = inputs
            raise TypeError(f"{name}: {a} and {b} are bool. Use x.long() or x.float().")
        return types

    return rule


def _inner_size(b: Any) -> int:
    """The size of the dim of a right operand that the product sums over."""
    size: int = b.shape[-2] if len(b.shape) > 1 else b.shape[-1]
    return size


def _unfit(a: str, inner: int, b: str, other: int) -> MismatchError:
    return MismatchError(
        f"matmul: cannot multiply {a} by {b}: inner sizes {inner} and {other} differ."
    )


def _matmul_labels(a: Any, b: Any) -> tuple[str, str, str]:
    """Batch dims get letters, those of size one that broadcast get `_`."""
    if len(a.shape) < 2 or len(b.shape) < 2 or a.shape[-1] != b.shape[-2]:
        raise _unfit(str(a), a.shape[-1], str(b), _inner_size(b))
    batch = broadcast_shapes("matmul", (a.shape[:-2], b.shape[:-2]))
    letters = _BATCH[: len(batch)]

    def label(shape: Any) -> str:
        own = shape[:-2]
        lead = len(batch) - len(own)
        return "".join(
            "_" if n == 1 and batch[lead + i] != 1 else letters[lead + i] for i, n in enumerate(own)
        )

    return label(a.shape) + "mk", label(b.shape) + "kn", letters + "mn"


@contraction(
    ref=lambda a, b: product(a, b, a.shape[-1], np.matmul),
    dtype=_of_numbers("matmul"),
    labels=_matmul_labels,
    vjp={"a": lambda g, b: g @ b.mT, "b": lambda g, a: a.mT @ g},
    samples=lambda: (
        Sample((Array((3, 4)), Array((4, 2)))),
        Sample((Array((2, 3, 4)), Array((4, 5)))),
        Sample((Array((2, 1, 3, 4)), Array((5, 4, 2)))),
        Sample((Array((0, 4)), Array((4, 2)))),
        Sample((Array((3, 0)), Array((0, 2)))),
    ),
    failures=lambda: (
        Failure(
            (Array((32, 128)), Array((64, 10))), {}, ValueError,
            "matmul: cannot multiply float64[32, 128] by float64[64, 10]: inner sizes 128 and 64 "
            "differ.",
        ),
        Failure((np.eye(2) > 0,) * 2, {}, TypeError, "matmul: bool[2, 2] and bool[2, 2] are bool"),
    ),
    operators=("__matmul__", "__rmatmul__"),
    autocast="low",
)  # fmt: skip
def matmul(a, b):
    """Matrix product over the last two dims; the others broadcast."""


@matmul.signature
def _matmul(a: Tensor, b: Tensor) -> Tensor:
    for x in (a, b):
        if not isinstance(x, Tensor):
            raise TypeError(f"matmul: expected a tensor, not {type(x).__name__}.")
    if a.ndim > 1 and b.ndim > 1:
        out: Tensor = apply(matmul, (a, b))
        return out
    if a.ndim == 0 or b.ndim == 0:
        raise MismatchError("matmul: both tensors need at least one dim.")
    if a.shape[-1] != _inner_size(b):
        raise _unfit(describe(a), a.shape[-1], describe(b), _inner_size(b))
    left = reshape(a, (1, a.shape[0])) if a.ndim == 1 else a
    right = reshape(b, (b.shape[0], 1)) if b.ndim == 1 else b
    out = apply(matmul, (left, right))
    shape = out.shape[:-2]
    shape += (out.shape[-2],) if a.ndim > 1 else ()
    shape += (out.shape[-1],) if b.ndim > 1 else ()
    return reshape(out, shape)


def _contract_ref(a: np.ndarray, b: np.ndarray, spec: str) -> np.ndarray:
    left, _, out = _contract_labels(a, b, spec)
    depth = math.prod(n for n, label in zip(a.shape, left) if label not in out)
    return product(a, b, depth, lambda a, b: np.einsum(spec, a, b, optimize=True))


def _contract_labels(a: Any, b: Any, spec: str) -> tuple[str, str, str]:
    left, rest = spec.split(",")
    right, out = rest.split("->")
    if len(left) != len(a.shape) or len(right) != len(b.shape):
        raise ValueError(f"contract: {spec!r} does not label the dims of {a} and {b}.")
    return left, right, out


# With labels a,b->c, the gradient of a is the contraction c,b->a. Every label of a must then
# appear in b or c, which all users here see to.
@contraction(
    ref=_contract_ref,
    dtype=_of_numbers("contract"),
    labels=_contract_labels,
    vjp={
        "a": lambda g, b, spec: contract(g, b, spec="{2},{1}->{0}".format(*_split(spec))),
        "b": lambda g, a, spec: contract(g, a, spec="{2},{0}->{1}".format(*_split(spec))),
    },
    samples=lambda: (
        Sample((Array((3, 4)), Array((2, 4))), {"spec": "mk,nk->mn"}),
        Sample((Array((2, 3, 4)), Array((5, 3))), {"spec": "ncx,oc->nox"}),
        Sample((Array((2, 3, 2, 4)), Array((5, 3, 2))), {"spec": "ncix,oci->nox"}),
    ),
    failures=lambda: (
        Failure((Array((3, 4)), Array((2, 5))), {"spec": "mk,nk->mn"}, ValueError, "k is 4 and 5"),
    ),
    method=False,
    internal=True,
    autocast="low",
)  # fmt: skip
def contract(a, b, *, spec):
    """A product of two tensors summed over shared labels, as in einsum."""


def _split(spec: str) -> tuple[str, str, str]:
    left, rest = spec.split(",")
    right, out = rest.split("->")
    return left, right, out


def _linear_ref(x: Any, weight: Any, bias: Any = None) -> Any:
    out = x @ weight.T
    return out if bias is None else out + bias


def _linear_x(g, weight):
    return g @ weight if weight.ndim == 2 else g.unsqueeze(-1) * weight


def _linear_weight(g, x, weight_spec):
    rows = x.reshape(numel(x.shape[:-1]), x.shape[-1])
    if len(weight_spec.shape) == 1:
        return g.reshape(-1) @ rows
    return g.reshape(rows.shape[0], g.shape[-1]).mT @ rows


def _linear_bias(g, bias_spec):
    lead = g.ndim - len(bias_spec.shape)
    return g.sum(tuple(range(lead))) if lead else g


@composite(
    ref=_linear_ref,
    vjp={"x": _linear_x, "weight": _linear_weight, "bias": _linear_bias},
    samples=lambda: (
        Sample((Array((3, 4)), Array((5, 4)), Array((5,)))),
        Sample((Array((2, 3, 4)), Array((5, 4)), None)),
        Sample((Array((3, 4)), Array((4,)), Array(()))),
        Sample((Array((3, 0)), Array((2, 0)), Array((2,)))),
    ),
    failures=lambda: (
        Failure((Array((3, 4)), Array((5, 3)), None), {}, ValueError,
                "linear: float64[3, 4] does not fit the weight float64[5, 3]: it must be [..., 3]"),
    ),
    method=False,
    autocast="low",
)  # fmt: skip
def linear(x, weight, bias=None):
    """x @ weight.T + bias."""
    if not x.ndim or weight.ndim not in (1, 2) or x.shape[-1] != weight.shape[-1]:
        raise MismatchError(
            f"linear: {describe(x)} does not fit the weight {describe(weight)}: it must be "
            f"[..., {weight.shape[-1] if weight.ndim else ''}]."
        )
    out = x @ (weight.mT if weight.ndim == 2 else weight)
    return out if bias is None else out + bias


# --- products of given ranks ---------------------------------------------------------------------


def _require_ranks(name: str, ranks: tuple[int, ...], *tensors: Tensor) -> None:
    for x, rank in zip(tensors, ranks):
        if x.ndim != rank:
            listed = " and ".join(map(describe, tensors))
            wanted = " and ".join(f"{r}-d" for r in ranks)
            raise MismatchError(f"{name}: got {listed}; it takes {wanted} tensors. Use matmul.")


@composite(
    ref=np.matmul,
    samples=lambda: (
        Sample((Array((3, 4)), Array((4, 2)))),
        Sample((Array((3, 0)), Array((0, 2)))),
    ),
    failures=lambda: (
        Failure((Array((3,)), Array((3, 2))), {}, ValueError, "mm: got float64[3] and float64[3,"),
    ),
    autocast="low",
)
def mm(x, mat2):
    """The product of two matrices."""
    _require_ranks("mm", (2, 2), x, mat2)
    return matmul(x, mat2)


@composite(
    ref=np.matmul,
    samples=lambda: (Sample((Array((2, 3, 4)), Array((2, 4, 5)))),),
    failures=lambda: (
        Failure(
            (Array((2, 3, 4)), Array((3, 4, 5))), {}, ValueError,
            "bmm: float64[2, 3, 4] and float64[3, 4, 5] hold 2 and 3 matrices; they",
        ),
    ),
    autocast="low",
)  # fmt: skip
def bmm(x, mat2):
    """The matrix products of two batches, [b, n, m] and [b, m, p]; batches do not broadcast."""
    _require_ranks("bmm", (3, 3), x, mat2)
    if x.shape[0] != mat2.shape[0]:
        raise MismatchError(
            f"bmm: {describe(x)} and {describe(mat2)} hold {x.shape[0]} and {mat2.shape[0]} "
            f"matrices; they must hold equally many."
        )
    return matmul(x, mat2)


@composite(
    ref=np.matmul,
    samples=lambda: (Sample((Array((3, 4)), Array((4,)))),),
    failures=lambda: (
        Failure((Array((3, 4)), Array((4, 1))), {}, ValueError, "takes 2-d and 1-d"),
    ),
    autocast="low",
)
def mv(x, vec):
    """The product of a matrix and a vector."""
    _require_ranks("mv", (2, 1), x, vec)
    return matmul(x, vec)


@composite(
    ref=np.dot,
    samples=lambda: (Sample((Array((4,)), Array((4,)))), Sample((Array((0,)), Array((0,))))),
    failures=lambda: (
        Failure((Array((2,)), Array((3,))), {}, ValueError, "have different lengths"),
        Failure((Array((2, 2)), Array((2,))), {}, ValueError, "takes 1-d and 1-d"),
    ),
    aliases=("vdot",),
)
def dot(x, tensor):
    """The inner product of two vectors."""
    _require_ranks("dot", (1, 1), x, tensor)
    if x.shape != tensor.shape:
        raise MismatchError(f"dot: {describe(x)} and {describe(tensor)} have different lengths.")
    return matmul(x, tensor)


@composite(
    ref=lambda x, y, dim: np.sum(x * y, axis=dim),
    samples=lambda: (
        Sample((Array((3, 4)), Array((4,))), {"dim": -1}),
        Sample((Array((3, 4)), Array((3, 1))), {"dim": 0}),
    ),
    method=False,
    autocast="low",
)
def vecdot(x, y, *, dim=-1):
    """Inner products along one dim; the others broadcast."""
    return sum_(x * y, dim=dim)


@composite(
    ref=np.outer,
    samples=lambda: (Sample((Array((3,)), Array((4,)))),),
    failures=lambda: (Failure((Array((3, 1)), Array((4,))), {}, ValueError, "takes 1-d and 1-d"),),
    aliases=("ger",),
)
def outer(x, vec2):
    """The products of all pairs of elements of two vectors."""
    _require_ranks("outer", (1, 1), x, vec2)
    return reshape(x, (x.shape[0], 1)) * vec2


# --- beta * x + alpha * product ------------------------------------------------------------------


def _blend(name: str, x: Tensor, product: Tensor, beta: Any, alpha: Any) -> Tensor:
    """With beta 0 the values of x do not matter, NaN included; factors take the tensors' dtype."""
    if not product.dtype.is_floating_point:
        number = bool if product.dtype is bool_ else int
        beta, alpha = number(beta), number(alpha)
    if broadcast_shapes(name, (x.shape, product.shape)) != product.shape:
        raise MismatchError(f"{name}: {describe(x)} does not expand to {list(product.shape)}.")
    scaled = product if alpha == 1 else product * alpha
    if beta == 0:
        return scaled
    return (x if beta == 1 else x * beta) + scaled


def _blend_samples(x: Array, a: Array, b: Array) -> Any:
    yield Sample((x, a, b), {"beta": 1, "alpha": 1})
    yield Sample((Array(x.shape[1:]), a, b), {"beta": 1, "alpha": 3})
    yield Sample((Array(()), a, b), {"beta": 2, "alpha": -1})


def _too_large(a: Array, b: Array) -> Any:
    params = {"beta": 1, "alpha": 1}
    yield Failure((Array((9, 9, 9, 9)), a, b), params, ValueError, "[9, 9, 9, 9]")


_M, _N = Array((3, 4)), Array((4, 2))
_MS, _NS = Array((2, 3, 4)), Array((2, 4, 5))


@composite(
    ref=lambda x, mat1, mat2, beta, alpha: beta * x + alpha * (mat1 @ mat2),
    samples=lambda: _blend_samples(Array((3, 2)), _M, _N),
    failures=lambda: _too_large(_M, _N),
    inplace=True,
    autocast="low",
)
def addmm(x, mat1, mat2, *, beta=1, alpha=1):
    """beta * x + alpha * mat1 @ mat2, for matrices."""
    return _blend("addmm", x, mm(mat1, mat2), beta, alpha)


@composite(
    ref=lambda x, mat, vec, beta, alpha: beta * x + alpha * (mat @ vec),
    samples=lambda: _blend_samples(Array((3,)), _M, Array((4,))),
    failures=lambda: _too_large(_M, Array((4,))),
    inplace=True,
    autocast="low",
)
def addmv(x, mat, vec, *, beta=1, alpha=1):
    """beta * x + alpha * mat @ vec."""
    return _blend("addmv", x, mv(mat, vec), beta, alpha)


@composite(
    ref=lambda x, vec1, vec2, beta, alpha: beta * x + alpha * np.outer(vec1, vec2),
    samples=lambda: _blend_samples(Array((3, 4)), Array((3,)), Array((4,))),
    failures=lambda: _too_large(Array((3,)), Array((4,))),
    inplace=True,
)
def addr(x, vec1, vec2, *, beta=1, alpha=1):
    """beta * x + alpha * outer(vec1, vec2)."""
    return _blend("addr", x, outer(vec1, vec2), beta, alpha)


@composite(
    ref=lambda x, batch1, batch2, beta, alpha: beta * x + alpha * (batch1 @ batch2),
    samples=lambda: _blend_samples(Array((2, 3, 5)), _MS, _NS),
    failures=lambda: _too_large(_MS, _NS),
    inplace=True,
    autocast="low",
)
def baddbmm(x, batch1, batch2, *, beta=1, alpha=1):
    """beta * x + alpha * bmm(batch1, batch2)."""
    return _blend("baddbmm", x, bmm(batch1, batch2), beta, alpha)


@composite(
    ref=lambda x, batch1, batch2, beta, alpha: beta * x + alpha * (batch1 @ batch2).sum(0),
    samples=lambda: _blend_samples(Array((3, 5)), _MS, _NS),
    failures=lambda: _too_large(_MS, _NS),
    inplace=True,
    autocast="low",
)
def addbmm(x, batch1, batch2, *, beta=1, alpha=1):
    """beta * x + alpha * the sum of bmm(batch1, batch2) over the batch."""
    _require_ranks("addbmm", (3, 3), batch1, batch2)
    return _blend("addbmm", x, contract(batch1, batch2, spec="bmk,bkn->mn"), beta, alpha)


@composite(
    ref=np.kron,
    samples=lambda: (
        Sample((Array((2, 3)), Array((2, 2)))),
        Sample((Array((2,)), Array((3, 2)))),
        Sample((Array(()), Array((2,)))),
    ),
)
def kron(x, other):
    """The Kronecker product: every element of x times all of the other."""
    rank = max(x.ndim, other.ndim)
    outside = (1,) * (rank - x.ndim) + x.shape
    inside = (1,) * (rank - other.ndim) + other.shape
    # Copies, small beside the product, so that the factors may be overwritten.
    left = reshape(clone(x), tuple(size for n in outside for size in (n, 1)))
    right = reshape(clone(other), tuple(size for n in inside for size in (1, n)))
    return reshape(left * right, tuple(n * m for n, m in zip(outside, inside)))


# --- chains --------------------------------------------------------------------------------------


def _best_order(sizes: Sequence[int]) -> dict[tuple[int, int], int]:
    """For each run of matrices where to split it, by the least number of multiplications."""
    n = len(sizes) - 1
    cost = {(i, i): 0 for i in range(n)}
    split = {}
    for length in range(1, n):
        for i in range(n - length):
            j = i + length
            cost[i, j], split[i, j] = min(
                (cost[i, k] + cost[k + 1, j] + sizes[i] * sizes[k + 1] * sizes[j + 1], k)
                for k in range(i, j)
            )
    return split


@composite(
    ref=lambda *tensors: np.linalg.multi_dot(tensors),
    samples=lambda: (
        Sample((Array((2, 5)), Array((5, 3)), Array((3, 4)), Array((4, 2)))),
        Sample((Array((3,)), Array((3, 4)), Array((4,)))),
    ),
    failures=lambda: (
        Failure((Array((2, 3)),), {}, ValueError, "multi_dot: needs at least 2 tensors, got 1."),
        Failure(
            (Array((2,)), Array((2,)), Array((2,))), {}, ValueError, "only the first and last may"
        ),
    ),
    method=False,
    aliases=("chain_matmul",),
    autocast="low",
)
def multi_dot(*tensors):
    """The product of a chain of matrices in the cheapest order; its ends may be vectors."""
    if len(tensors) < 2:
        raise ValueError(f"multi_dot: needs at least 2 tensors, got {len(tensors)}.")
    ranks = (tensors[0].ndim in (1, 2), *(x.ndim == 2 for x in tensors[1:-1]))
    if not all(ranks) or tensors[-1].ndim not in (1, 2):
        listed = ", ".join(map(describe, tensors))
        raise ValueError(
            f"multi_dot: got {listed}; all must be matrices; only the first and last may be 1-d."
        )
    first, last = tensors[0], tensors[-1]
    matrices = [
        reshape(first, (1, *first.shape)) if first.ndim == 1 else first,
        *tensors[1:-1],
        reshape(last, (*last.shape, 1)) if last.ndim == 1 else last,
    ]
    split = _best_order([matrices[0].shape[0], *(x.shape[1] for x in matrices)])

    def product(i: int, j: int) -> Tensor:
        if i == j:
            return matrices[i]
        k = split[i, j]
        out: Tensor = matmul(product(i, k), product(k + 1, j))
        return out

    shape = first.shape[:-1] + (last.shape[1:] if last.ndim == 2 else ())
    return reshape(product(0, len(matrices) - 1), shape)


@multi_dot.signature
def _multi_dot(*tensors: Any) -> Tensor:
    """A list, or, as chain_matmul takes them, one by one."""
    if len(tensors) == 1 and isinstance(tensors[0], (tuple, list)):
        tensors = tuple(tensors[0])
    out: Tensor = apply(multi_dot, tensors)
    return out


# --- cross products ------------------------------------------------------------------------------


def _cross_dim(x: Tensor, other: Tensor, dim: int | None) -> int:
    shape = broadcast_shapes("cross", (x.shape, other.shape))
    if dim is None:
        if 3 not in shape:
            raise ValueError(f"cross: {describe(x)} has no dim of size 3.")
        return shape.index(3)
    at = normalize_dim("cross", dim, len(shape))
    if not shape or x.shape[dim] != 3 or other.shape[dim] != 3:
        raise ValueError(
            f"cross: {describe(x)} and {describe(other)} do not have size 3 at dim {dim}."
        )
    return at


@composite(
    ref=lambda x, other, dim: np.cross(
        x, other, axis=next(i for i, n in enumerate(x.shape) if n == 3) if dim is None else dim
    ),
    samples=lambda: (
        Sample((Array((2, 3)), Array((2, 3))), {"dim": -1}),
        Sample((Array((3, 4)), Array((3, 4))), {"dim": None}),
        Sample((Array((2, 3)), Array((1, 3))), {"dim": 1}),
    ),
    failures=lambda: (
        Failure((Array((2, 4)), Array((2, 4))), {"dim": 1}, ValueError, "do not have size 3 at"),
        Failure((Array((2, 4)), Array((2, 4))), {"dim": None}, ValueError, "no dim of size 3"),
    ),
)
def cross(x, other, *, dim=None):
    """The cross product of vectors along a dim of size three, by default the first one."""
    dim = _cross_dim(x, other, dim) - max(x.ndim, other.ndim)
    return roll(x, -1, dim) * roll(other, -2, dim) - roll(x, -2, dim) * roll(other, -1, dim)
