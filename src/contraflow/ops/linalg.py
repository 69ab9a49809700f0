"""Contractions, and the decompositions that run on the host."""

from __future__ import annotations

from typing import Any

import numpy as np

from contraflow.op import Array, Failure, Sample, apply, composite, contraction, host
from contraflow.ops.create import arange
from contraflow.ops.elementwise import where
from contraflow.ops.view import reshape
from contraflow.shapes import broadcast_shapes
from contraflow.tensor import Tensor

_BATCH = "abcdefgh"


def _matmul_labels(a: Any, b: Any) -> tuple[str, str, str]:
    """Batch dims get letters, those of size one that broadcast get `_`."""
    if len(a.shape) < 2 or len(b.shape) < 2 or a.shape[-1] != b.shape[-2]:
        raise ValueError(
            f"matmul: cannot multiply {a} by {b}: inner sizes {a.shape[-1]} and "
            f"{b.shape[-2] if len(b.shape) > 1 else b.shape[-1]} differ."
        )
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
    ref=np.matmul,
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
        raise ValueError("matmul: both tensors need at least one dim.")
    left = reshape(a, (1, a.shape[0])) if a.ndim == 1 else a
    right = reshape(b, (b.shape[0], 1)) if b.ndim == 1 else b
    out = apply(matmul, (left, right))
    shape = out.shape[:-2]
    shape += (out.shape[-2],) if a.ndim > 1 else ()
    shape += (out.shape[-1],) if b.ndim > 1 else ()
    return reshape(out, shape)


def _contract_ref(a: np.ndarray, b: np.ndarray, spec: str) -> np.ndarray:
    return np.einsum(spec, a, b, optimize=True)


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


@composite(
    ref=_linear_ref,
    samples=lambda: (
        Sample((Array((3, 4)), Array((5, 4)), Array((5,)))),
        Sample((Array((2, 3, 4)), Array((5, 4)), None)),
    ),
    method=False,
)
def linear(x, weight, bias=None):
    """x @ weight.T + bias."""
    out = x @ weight.mT
    return out if bias is None else out + bias


def _lower(x: Tensor) -> Tensor:
    """The lower triangle, zeros above."""
    n = x.shape[-1]
    rows, columns = reshape(arange(n), (n, 1)), arange(n)
    return where(rows >= columns, x, 0.0)


def _cholesky_vjp(g: Tensor, out: Tensor) -> Tensor:
    # With P the lower triangle with halved diagonal: S = P(L' G), and the gradient is
    # sym(inv(L)' S inv(L)).
    n = out.shape[-1]
    rows, columns = reshape(arange(n), (n, 1)), arange(n)
    inverse = triangular_inverse(out)
    product = _lower(out.mT @ g)
    middle = where(rows == columns, product * 0.5, product)
    full = inverse.mT @ middle @ inverse
    return (full + full.mT) * 0.5


def _positive_definite() -> Any:
    rng = np.random.default_rng(7)
    a = rng.standard_normal((3, 3))
    yield Sample((a @ a.T + 3 * np.eye(3),))
    b = rng.standard_normal((2, 4, 4))
    yield Sample((b @ np.swapaxes(b, -1, -2) + 4 * np.eye(4),))


@host(
    ref=np.linalg.cholesky,
    dtype="float",
    shape=lambda x: x.shape,
    vjp={"x": _cholesky_vjp},
    samples=_positive_definite,
    method=False,
    symmetric=True,
)
def cholesky(x):
    """The lower-triangular L with x = L L'. Only x's symmetric part has a gradient."""


def _triangular() -> Any:
    rng = np.random.default_rng(8)
    yield Sample((np.tril(rng.standard_normal((3, 3))) + 3 * np.eye(3),))


@host(
    ref=np.linalg.inv,
    dtype="float",
    shape=lambda x: x.shape,
    vjp={"x": lambda g, out: -_lower(out.mT @ g @ out.mT)},
    samples=_triangular,
    method=False,
    triangular=True,
)
def triangular_inverse(x):
    """The inverse of a lower-triangular matrix."""
