"""Parts that distributions share: parameters of one shape, probabilities and logits, triangles."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from contraflow.dtypes import bfloat16, float16, float32, float64, get_default_dtype
from contraflow.errors import describe
from contraflow.operation.public import public
from contraflow.ops.creation.create import full, zeros
from contraflow.ops.creation.data import tensor
from contraflow.ops.creation.random import draw, randn
from contraflow.ops.creation.random import normal as _normal
from contraflow.ops.creation.random import uniform as _uniform
from contraflow.ops.elementwise.activation import logsigmoid
from contraflow.ops.elementwise.basic import log
from contraflow.ops.elementwise.mathematics import log1p
from contraflow.ops.index.slices import index_select
from contraflow.ops.nn.norm import softmax
from contraflow.ops.shape.joining import cat
from contraflow.ops.shape.view import broadcast_tensors
from contraflow.shapes import Shape
from contraflow.tensors.tensor import Tensor

EULER = 0.57721566490153286  # the Euler-Mascheroni constant

# The distance from 1 to the next number, and the smallest normal number, of each dtype.
EPSILON = {float64: 2.0**-52, float32: 2.0**-23, float16: 2.0**-10, bfloat16: 2.0**-7}
SMALLEST = {float64: 2.0**-1022, float32: 2.0**-126, float16: 2.0**-14, bfloat16: 2.0**-126}


@public
def broadcast_all(*values: Any) -> tuple[Tensor, ...]:
    """Numbers and tensors as tensors of one shape; numbers have the dtype of the first tensor.

    >>> import contraflow as cf
    >>> loc, scale = cf.distributions.utils.broadcast_all(cf.zeros(3), 2.0)
    >>> scale
    tensor([2., 2., 2.])
    """
    tensors = [value for value in values if isinstance(value, Tensor)]
    dtype = tensors[0].dtype if tensors else get_default_dtype()
    device = tensors[0].device if tensors else None
    for value in values:
        if not isinstance(value, (Tensor, bool, int, float)):
            raise TypeError(
                f"broadcast_all: a parameter is a number or a tensor, not {describe(value)}."
            )
    given = [
        value if isinstance(value, Tensor) else full((), value, dtype=dtype, device=device)
        for value in values
    ]
    if all(value.shape == given[0].shape for value in given):
        return tuple(given)
    return tuple(broadcast_tensors(*given))


def _standard_normal(shape: Any, dtype: Any, device: Any) -> Tensor:
    """Numbers of the standard normal distribution, by PyTorch's name that is not public there."""
    return randn(*shape, dtype=dtype, device=device)


class lazy_property:
    """A property computed from others unless the object has an attribute of that name.

    It is computed each time it is asked for, and not kept: a distribution from outside of a
    compiled function stays as it is.
    """

    def __init__(self, function: Callable[[Any], Tensor]) -> None:
        self.function = function
        functools.update_wrapper(self, function)  # type: ignore[arg-type]

    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        return self if instance is None else self.function(instance)


def sum_rightmost(value: Any, dims: int) -> Any:
    """The sum over the last `dims` dims."""
    return value.flatten(-dims).sum(-1) if dims else value


# --- random numbers ----------------------------------------------------------------------------


def standard_normal(shape: Shape, like: Tensor) -> Tensor:
    """Standard normal numbers of a shape, with the dtype and device of a parameter."""
    return draw(_normal, shape, like.dtype, None, device=like.device)


def standard_uniform(shape: Shape, like: Tensor) -> Tensor:
    """Numbers in [0, 1) of a shape, with the dtype and device of a parameter."""
    return draw(_uniform, shape, like.dtype, None, device=like.device)


def open_uniform(shape: Shape, like: Tensor) -> Tensor:
    """Numbers in (0, 1), away from both ends by half of the distance between neighbours."""
    return clamp_probs(standard_uniform(shape, like))


# --- probabilities and logits ------------------------------------------------------------------


def clamp_probs(probs: Tensor) -> Tensor:
    """Probabilities between the machine epsilon and 1 less it, so that their logits are finite."""
    eps = EPSILON[probs.dtype]
    return probs.clamp(min=eps, max=1 - eps)


def logits_to_probs(logits: Tensor, is_binary: bool = False) -> Tensor:
    """Probabilities [..., classes] of logits [..., classes], or of each alone if `is_binary`.

    >>> import contraflow as cf
    >>> cf.distributions.utils.logits_to_probs(cf.zeros(4))
    tensor([0.2500, 0.2500, 0.2500, 0.2500])
    """
    return logits.sigmoid() if is_binary else softmax(logits, -1)


def probs_to_logits(probs: Tensor, is_binary: bool = False) -> Tensor:
    """The logarithms of probabilities; log(p / (1 - p)) if `is_binary`.

    >>> import contraflow as cf
    >>> cf.distributions.utils.probs_to_logits(cf.tensor([0.5]), is_binary=True)
    tensor([0.])
    """
    clamped = clamp_probs(probs)
    out: Tensor = log(clamped)
    return out - log1p(-clamped) if is_binary else out


def binary_entropy(logits: Tensor) -> Tensor:
    """-p log(p) - (1 - p) log(1 - p) of logits: exact where p is rounded to 0 or 1."""
    # It is even in the logits a, and where they are positive no terms cancel.
    a = logits.abs()
    return a * (-a).sigmoid() - logsigmoid(a)


def binary_log_prob(logits: Tensor, value: Tensor) -> Tensor:
    """value log(p) + (1 - value) log(1 - p) of logits: log(1 - p) is log(p) less the logits."""
    return logsigmoid(logits) - (1 - value) * logits


# --- triangles ---------------------------------------------------------------------------------


def vec_to_tril_matrix(vec: Tensor, diag: int = 0) -> Tensor:
    """The lower triangular matrix [..., n, n] whose rows, up to a diagonal, are a vector [..., k].

    >>> import contraflow as cf
    >>> cf.distributions.utils.vec_to_tril_matrix(cf.tensor([1.0, 2.0, 3.0]))
    tensor([[1., 0.],
            [2., 3.]])
    """
    count, n = vec.shape[-1], 0
    while len(_triangle(n, diag)) < count:
        n += 1
    positions = {at: k for k, at in enumerate(_triangle(n, diag))}
    if len(positions) != count:
        raise ValueError(
            f"vec_to_tril_matrix: the {count} elements of {describe(vec)} do not fill a triangle "
            f"up to diagonal {diag}; {len(positions)} would."
        )
    # Behind the vector there is a zero, for the other triangle.
    zero = zeros(*vec.shape[:-1], 1, dtype=vec.dtype, device=vec.device)
    at = [positions.get((i, j), count) for i in range(n) for j in range(n)]
    picked: Tensor = index_select(cat([vec, zero], -1), -1, tensor(at, device=vec.device))
    return picked.reshape(*vec.shape[:-1], n, n)


def tril_matrix_to_vec(mat: Tensor, diag: int = 0) -> Tensor:
    """The elements of matrices [..., n, n] up to a diagonal, row by row.

    >>> import contraflow as cf
    >>> cf.distributions.utils.tril_matrix_to_vec(cf.tensor([[1.0, 0.0], [2.0, 3.0]]))
    tensor([1., 2., 3.])
    """
    n = mat.shape[-1]
    at = [i * n + j for i, j in _triangle(n, diag)]
    return index_select(mat.flatten(-2), -1, tensor(at, device=mat.device))


def _triangle(n: int, diag: int) -> list[tuple[int, int]]:
    """The positions of an n by n matrix up to a diagonal, row by row."""
    return [(i, j) for i in range(n) for j in range(min(n, i + diag + 1))]
