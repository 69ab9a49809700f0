"""Losses of differences, distributions and margins; `entropy.py` has those of probabilities.

They have PyTorch's reductions: the mean, the sum, or every element's loss. Both sides of a loss
have gradients, and so have weights.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import numpy as np

from contraflow.errors import describe
from contraflow.operation.kinds import composite
from contraflow.operation.public import public
from contraflow.operation.samples import Array, Failure, Sample
from contraflow.ops.elementwise.activation import logsigmoid
from contraflow.ops.elementwise.arithmetic import clamp_min
from contraflow.ops.elementwise.basic import abs_, digits_beside, exp, log, minimum, sqrt, where
from contraflow.ops.linalg.distance import at_least, pairwise_distance
from contraflow.ops.nn.norm import rounded, wide
from contraflow.ops.reduction.reduce import mean, require_floating, sum_
from contraflow.ops.shape.view import reshape
from contraflow.shapes import broadcast_shapes
from contraflow.tensors.source_line import stacklevel
from contraflow.tensors.tensor import Tensor

NP_REDUCED: dict[str, Any] = {"mean": np.mean, "sum": np.sum, "none": lambda v: v}


def reduced(name: str, losses: Tensor, reduction: str) -> Tensor:
    """The mean or the sum of losses, or the losses themselves."""
    if reduction == "mean":
        return mean(losses)
    if reduction == "sum":
        return sum_(losses)
    if reduction == "none":
        return losses
    raise ValueError(f"{name}: reduction is {reduction!r}; it must be 'mean', 'sum' or 'none'.")


def _shapes_of(name: str) -> Any:
    """A `normalize=` that warns where there are more losses than elements of the input.

    [8, 1] and [8] are broadcast to [8, 8], which is seldom meant.
    """

    def normalize(x: Any, target: Any, *rest: Any, **params: Any) -> dict[str, Any]:
        shape, other = getattr(x, "shape", ()), getattr(target, "shape", ())
        if shape and other and shape != other:
            with suppress(ValueError):  # which the difference of the two raises
                if broadcast_shapes(name, (shape, other)) != shape:
                    warnings.warn(
                        f"{name}: the target {describe(target)} has another shape than the input "
                        f"{describe(x)}, so that each is compared with several of the other. Use "
                        f"target.reshape(...) if that is not meant.",
                        stacklevel=stacklevel(),
                    )
        return {}

    return normalize


# --- pointwise ---------------------------------------------------------------------------------


def _reductions(*inputs: Any, **params: Any) -> Any:
    """A sample for each reduction, of one input shape each."""
    for reduction in ("mean", "sum", "none"):
        yield Sample(inputs, {"reduction": reduction, **params})


def unknown_reduction(name: str, count: int = 2) -> Any:
    """The failure of an unknown `reduction`, for an op of `count` inputs."""
    return lambda: (
        Failure(
            (Array((2,)),) * count, {"reduction": "all"}, ValueError,
            f"{name}: reduction is 'all'; it must be 'mean', 'sum' or 'none'.",
        ),
    )  # fmt: skip


def _weighed(name: str, losses: Tensor, weight: Tensor | None, x: Tensor) -> Tensor:
    if weight is None:
        return losses
    if weight.shape != x.shape:
        raise ValueError(
            f"{name}: the weight is {describe(weight)}; it needs the shape of {describe(x)}."
        )
    return losses * wide(weight)


def _mean_by_weight(
    name: str, losses: Tensor, weight: Tensor | None, x: Tensor, how: str
) -> Tensor:
    """Reduce weighed losses; their mean is by the sum of the weights."""
    losses = _weighed(name, losses, weight, x)
    if weight is not None and how == "mean":
        return sum_(losses) / sum_(wide(weight))
    return reduced(name, losses, how)


def _np_weighed(losses: Any, weight: Any, reduction: str) -> Any:
    if weight is None:
        return NP_REDUCED[reduction](losses)
    total = NP_REDUCED["sum" if reduction == "mean" else reduction](losses * weight)
    return total / weight.sum() if reduction == "mean" else total


@composite(
    ref=lambda x, target, weight=None, reduction="mean": _np_weighed(
        (x - target) ** 2, weight, reduction
    ),
    samples=lambda: (
        Sample((Array((4, 5)), Array((4, 5)), None), {"reduction": "mean"}),
        Sample((Array((4, 5)), Array((5,)), None), {"reduction": "sum"}),
        Sample((Array((3,)), Array((3,)), Array((3,), 0.5, 2.0)), {"reduction": "mean"}),
    ),
    failures=unknown_reduction("mse_loss"),
    normalize=_shapes_of("mse_loss"),
    method=False,
    floating=True,
    autocast="float32",
)
def mse_loss(x, target, weight=None, *, reduction="mean"):
    """The mean of the squared differences."""
    require_floating("mse_loss", x)
    difference = wide(x) - wide(target)
    losses = difference * difference
    return rounded(_mean_by_weight("mse_loss", losses, weight, x, reduction), x, target, weight)


def _apart(*shape: int) -> tuple[Array, Array]:
    """Two arrays whose differences are away from 0 and 1, where losses have kinks."""
    return Array(shape, -0.4, 0.4, avoid=(0.0,)), Array(shape, 2.0, 3.0)


@composite(
    ref=lambda x, target, weight=None, reduction="mean": _np_weighed(
        np.abs(x - target), weight, reduction
    ),
    samples=lambda: (
        Sample((*_apart(4, 5), None), {"reduction": "mean"}),
        Sample((*_apart(3), Array((3,), 0.5, 2.0)), {"reduction": "mean"}),
        Sample((*_apart(3), None), {"reduction": "none"}),
    ),
    failures=unknown_reduction("l1_loss"),
    normalize=_shapes_of("l1_loss"),
    method=False,
    floating=True,
    autocast="float32",
)
def l1_loss(x, target, weight=None, *, reduction="mean"):
    """The mean of the absolute differences."""
    require_floating("l1_loss", x)
    losses = abs_(wide(x) - wide(target))
    return rounded(_mean_by_weight("l1_loss", losses, weight, x, reduction), x, target, weight)


def _np_smooth_l1(x: Any, target: Any, reduction: str = "mean", beta: float = 1.0) -> Any:
    size = np.abs(x - target)
    near = 0.5 * size**2 / beta if beta else size
    return NP_REDUCED[reduction](np.where(size < beta, near, size - 0.5 * beta))


@composite(
    ref=_np_smooth_l1,
    samples=lambda: (
        Sample((Array((4, 5), -0.4, 0.4), Array((4, 5), -0.4, 0.4)), {"reduction": "mean"}),
        Sample(_apart(3), {"reduction": "sum", "beta": 0.5}),
        Sample(_apart(3), {"reduction": "none", "beta": 0.0}),
    ),
    failures=lambda: (
        *unknown_reduction("smooth_l1_loss")(),
        Failure((Array((2,)), Array((2,))), {"beta": -1.0}, ValueError,
                "smooth_l1_loss: beta is -1.0; it must not be negative."),
    ),
    normalize=_shapes_of("smooth_l1_loss"),
    method=False,
    floating=True,
    autocast="float32",
)  # fmt: skip
def smooth_l1_loss(x, target, *, reduction="mean", beta=1.0):
    """The mean of d ** 2 / (2 beta) where d = |x - target| < beta, of d - beta / 2 elsewhere."""
    require_floating("smooth_l1_loss", x)
    if beta < 0:
        raise ValueError(f"smooth_l1_loss: beta is {beta}; it must not be negative.")
    difference = wide(x) - wide(target)
    size = abs_(difference)
    if beta:
        near = difference * difference * (0.5 / beta)
        size = where(size < beta, near, size - 0.5 * beta)
    return rounded(reduced("smooth_l1_loss", size, reduction), x, target)


def _np_huber(
    x: Any, target: Any, weight: Any = None, reduction: str = "mean", delta: float = 1.0
) -> Any:
    size = np.abs(x - target)
    losses = np.where(size <= delta, 0.5 * size**2, delta * (size - 0.5 * delta))
    return NP_REDUCED[reduction](losses if weight is None else losses * weight)


@composite(
    ref=_np_huber,
    samples=lambda: (
        Sample((Array((4, 5), -0.4, 0.4), Array((4, 5), -0.4, 0.4), None), {"reduction": "mean"}),
        Sample((*_apart(3), Array((3,))), {"reduction": "mean", "delta": 0.5}),
    ),
    failures=lambda: (
        *unknown_reduction("huber_loss")(),
        Failure((Array((2,)), Array((2,))), {"delta": 0.0}, ValueError,
                "huber_loss: delta is 0.0; it must be positive."),
    ),
    normalize=_shapes_of("huber_loss"),
    method=False,
    floating=True,
    autocast="float32",
)  # fmt: skip
def huber_loss(x, target, weight=None, *, reduction="mean", delta=1.0):
    """The mean of d ** 2 / 2 for d = |x - target| <= delta, of delta (d - delta / 2) elsewhere."""
    require_floating("huber_loss", x)
    if delta <= 0:
        raise ValueError(f"huber_loss: delta is {delta}; it must be positive.")
    difference = wide(x) - wide(target)
    size = abs_(difference)
    losses = where(size <= delta, 0.5 * (difference * difference), delta * (size - 0.5 * delta))
    losses = _weighed("huber_loss", losses, weight, x)
    return rounded(reduced("huber_loss", losses, reduction), x, target, weight)


# --- distributions -----------------------------------------------------------------------------


def _np_poisson(
    x: Any, target: Any, log_input: bool = True, full: bool = False, eps: float = 1e-8,
    reduction: str = "mean",
) -> Any:  # fmt: skip
    losses = np.exp(x) - target * x if log_input else x - target * np.log(x + eps)
    if full:
        t = np.where(target > 1, target, 1.0)
        stirling = t * np.log(t) - t + 0.5 * np.log(2 * np.pi * t)
        losses = losses + np.where(target > 1, stirling, 0.0)
    return NP_REDUCED[reduction](losses)


@composite(
    ref=_np_poisson,
    samples=lambda: (
        Sample((Array((3, 4)), Array((3, 4), 0.0, 3.0, avoid=(1.0,))), {"full": True}),
        Sample((Array((3,), 0.5, 2.0), Array((3,), 0.0, 3.0)),
               {"log_input": False, "reduction": "none"}),
    ),
    failures=unknown_reduction("poisson_nll_loss"),
    method=False,
    floating=True,
    autocast="float32",
)  # fmt: skip
def poisson_nll_loss(x, target, *, log_input=True, full=False, eps=1e-8, reduction="mean"):
    """The mean of rate - target log(rate), with Stirling's term for log(target!) in `full`."""
    require_floating("poisson_nll_loss", x)
    given, (x, target) = (x, target), (wide(x), digits_beside(wide(target), x))
    losses = exp(x) - target * x if log_input else x - target * log(x + eps)
    if full:
        t = where(target > 1, target, 1.0)
        stirling = t * log(t) - t + 0.5 * log(2 * math.pi * t)
        losses = losses + where(target > 1, stirling, 0.0)
    return rounded(reduced("poisson_nll_loss", losses, reduction), *given)


def _np_gaussian(
    x: Any, target: Any, var: Any, full: bool = False, eps: float = 1e-6, reduction: str = "mean"
) -> Any:
    var = var[..., None] if np.ndim(var) and var.shape == x.shape[:-1] else var
    var = np.maximum(var, eps)
    losses = 0.5 * (np.log(var) + (x - target) ** 2 / var)
    return NP_REDUCED[reduction](losses + (0.5 * np.log(2 * np.pi) if full else 0.0))


@composite(
    ref=_np_gaussian,
    samples=lambda: (
        Sample((Array((3, 4)), Array((3, 4)), Array((3, 4), 0.5, 2.0)), {"full": True}),
        Sample((Array((3, 4)), Array((3, 4)), Array((3,), 0.5, 2.0)), {"reduction": "sum"}),
    ),
    failures=lambda: (
        *unknown_reduction("gaussian_nll_loss", 3)(),
        Failure((Array((3, 4)), Array((3, 4)), Array((4, 4))), {}, ValueError,
                "gaussian_nll_loss: the variance float64[4, 4] does not fit float64[3, 4]; it"),
    ),
    method=False,
    floating=True,
    autocast="float32",
)  # fmt: skip
def gaussian_nll_loss(x, target, var, *, full=False, eps=1e-6, reduction="mean"):
    """The mean of (log(var) + (x - target) ** 2 / var) / 2, with the variance at least eps."""
    require_floating("gaussian_nll_loss", x)
    if not isinstance(var, Tensor):
        var = x.detach() * 0.0 + var
    if var.shape == x.shape[:-1] and var.shape != x.shape:
        var = reshape(var, (*var.shape, 1))
    apart = [m for n, m in zip(x.shape, var.shape) if n != m]
    if var.ndim != x.ndim or any(m != 1 for m in apart) or len(apart) > 1:
        raise ValueError(
            f"gaussian_nll_loss: the variance {describe(var)} does not fit {describe(x)}; it needs "
            f"that shape, with one dim of size 1 or without the last."
        )
    given, var = (x, target, var), at_least(wide(var), eps)
    difference = wide(x) - wide(target)
    losses = 0.5 * (log(var) + difference * difference / var)
    losses = losses + 0.5 * math.log(2 * math.pi) if full else losses
    return rounded(reduced("gaussian_nll_loss", losses, reduction), *given)


# --- margins -----------------------------------------------------------------------------------


_SIGNS = np.array([1, -1, 1])


@composite(
    ref=lambda input1, input2, target, margin=0.0, reduction="mean": NP_REDUCED[reduction](
        np.maximum(-target * (input1 - input2) + margin, 0)
    ),
    samples=lambda: (
        Sample((*_apart(3), _SIGNS), {"margin": 0.2}),
        Sample((*_apart(2, 3), _SIGNS), {"reduction": "none"}),
    ),
    failures=unknown_reduction("margin_ranking_loss", 3),
    method=False,
    floating=True,
    autocast="float32",
)
def margin_ranking_loss(input1, input2, target, *, margin=0.0, reduction="mean"):
    """The mean of max(0, margin - target (input1 - input2)), for targets of -1 and 1."""
    require_floating("margin_ranking_loss", input1)
    losses = clamp_min(margin - wide(target) * (wide(input1) - wide(input2)), 0.0)
    return rounded(reduced("margin_ranking_loss", losses, reduction), input1, input2, target)


@composite(
    ref=lambda x, target, margin=1.0, reduction="mean": NP_REDUCED[reduction](
        np.where(target != 1, np.maximum(margin - x, 0), 0) + np.where(target != -1, x, 0)
    ),
    samples=lambda: (
        Sample((Array((3,), avoid=(1.0,)), _SIGNS), {}),
        Sample((Array((2, 3), avoid=(0.5,)), _SIGNS), {"margin": 0.5, "reduction": "none"}),
    ),
    failures=unknown_reduction("hinge_embedding_loss"),
    method=False,
    floating=True,
    autocast="float32",
)
def hinge_embedding_loss(x, target, *, margin=1.0, reduction="mean"):
    """The mean of x where the target is 1, and of max(0, margin - x) where it is -1."""
    require_floating("hinge_embedding_loss", x)
    near = wide(x)
    apart = where(target != 1, clamp_min(margin - near, 0.0), 0.0)
    losses = apart + where(target != -1, near, 0.0)
    return rounded(reduced("hinge_embedding_loss", losses, reduction), x)


def _np_cosine_embedding(
    input1: Any, input2: Any, target: Any, margin: float = 0.0, reduction: str = "mean"
) -> Any:
    squares = (input1**2).sum(-1) + 1e-12, (input2**2).sum(-1) + 1e-12
    cosine = (input1 * input2).sum(-1) / np.sqrt(squares[0] * squares[1])
    losses = np.where(target == 1, 1 - cosine, 0) + np.where(
        target == -1, np.maximum(cosine - margin, 0), 0
    )
    return NP_REDUCED[reduction](losses)


@composite(
    ref=_np_cosine_embedding,
    samples=lambda: (
        Sample((Array((3, 4)), Array((3, 4)), _SIGNS), {"margin": -1.5}),
        Sample((Array((4,)), Array((4,)), np.array(1)), {"reduction": "none"}),
    ),
    failures=lambda: (
        Failure((Array((3, 4)), Array((3, 4)), Array((2,))), {}, ValueError,
                "cosine_embedding_loss: the target is float64[2]; float64[3, 4] needs shape [3]."),
    ),
    method=False,
    floating=True,
    autocast="float32",
)  # fmt: skip
def cosine_embedding_loss(input1, input2, target, *, margin=0.0, reduction="mean"):
    """1 - cos where the target is 1, max(0, cos - margin) where it is -1, of vectors [n, d]."""
    require_floating("cosine_embedding_loss", input1)
    if target.shape != input1.shape[:-1] or not input1.ndim:
        raise ValueError(
            f"cosine_embedding_loss: the target is {describe(target)}; {describe(input1)} needs "
            f"shape {list(input1.shape[:-1])}."
        )
    given, (input1, input2) = (input1, input2), (wide(input1), wide(input2))
    squares = (sum_(x * x, dim=-1) + 1e-12 for x in (input1, input2))
    cosine = sum_(input1 * input2, dim=-1) / sqrt(next(squares) * next(squares))
    apart = where(target == -1, clamp_min(cosine - margin, 0.0), 0.0)
    losses = where(target == 1, 1.0 - cosine, 0.0) + apart
    return rounded(reduced("cosine_embedding_loss", losses, reduction), *given)


def _np_triplet(
    anchor: Any, positive: Any, negative: Any, margin: float = 1.0, p: float = 2.0,
    eps: float = 1e-6, swap: bool = False, reduction: str = "mean",
) -> Any:  # fmt: skip
    def distance(a: Any, b: Any) -> Any:
        return (np.abs(a - b + eps) ** p).sum(-1) ** (1 / p)

    far = distance(anchor, negative)
    far = np.minimum(far, distance(positive, negative)) if swap else far
    return NP_REDUCED[reduction](np.maximum(margin + distance(anchor, positive) - far, 0))


@composite(
    ref=_np_triplet,
    samples=lambda: (
        Sample((Array((3, 4)), Array((3, 4)), Array((3, 4))), {"margin": 5.0}),
        Sample((Array((3, 4)), Array((3, 4)), Array((3, 4))),
               {"margin": 9.0, "p": 3.0, "swap": True, "reduction": "none"}),
    ),
    failures=lambda: (
        *unknown_reduction("triplet_margin_loss", 3)(),
        Failure((Array((2,)),) * 3, {"margin": 0.0}, ValueError,
                "triplet_margin_loss: margin is 0.0; it must be positive."),
    ),
    method=False,
    floating=True,
    autocast="float32",
)  # fmt: skip
def triplet_margin_loss(
    anchor, positive, negative, *, margin=1.0, p=2.0, eps=1e-6, swap=False, reduction="mean"
):
    """The mean of max(0, margin + |anchor - positive| - |anchor - negative|), by the p-norm."""
    if margin <= 0:
        raise ValueError(f"triplet_margin_loss: margin is {margin}; it must be positive.")
    given = anchor, positive, negative
    anchor, positive, negative = wide(anchor), wide(positive), wide(negative)
    near = pairwise_distance(anchor, positive, p=p, eps=eps)
    far = pairwise_distance(anchor, negative, p=p, eps=eps)
    if swap:
        far = minimum(far, pairwise_distance(positive, negative, p=p, eps=eps))
    losses = clamp_min(margin + near - far, 0.0)
    return rounded(reduced("triplet_margin_loss", losses, reduction), *given)


@public
def triplet_margin_with_distance_loss(
    anchor: Tensor,
    positive: Tensor,
    negative: Tensor,
    *,
    distance_function: Callable[[Tensor, Tensor], Tensor] | None = None,
    margin: float = 1.0,
    swap: bool = False,
    reduction: str = "mean",
) -> Tensor:
    """`triplet_margin_loss` with a given distance function.

    >>> import contraflow as cf
    >>> x, y, z = cf.zeros(1, 2), cf.ones(1, 2), 3 * cf.ones(1, 2)
    >>> cf.nn.functional.triplet_margin_with_distance_loss(x, y, z)
    tensor(0.)
    """
    name = "triplet_margin_with_distance_loss"
    if margin <= 0:
        raise ValueError(f"{name}: margin is {margin}; it must be positive.")
    distance = pairwise_distance if distance_function is None else distance_function
    near, far = distance(anchor, positive), distance(anchor, negative)
    if swap:
        far = minimum(far, distance(positive, negative))
    return reduced(name, clamp_min(margin + near - far, 0.0), reduction)


@composite(
    ref=lambda x, target, reduction="mean": NP_REDUCED[reduction](
        np.log1p(np.exp(-target * x))
    ),
    samples=lambda: _reductions(Array((3, 4)), Array((3, 4))),
    failures=unknown_reduction("soft_margin_loss"),
    method=False,
    floating=True,
    autocast="float32",
)  # fmt: skip
def soft_margin_loss(x, target, *, reduction="mean"):
    """The mean of log(1 + exp(-target x)), for targets of -1 and 1."""
    require_floating("soft_margin_loss", x)
    losses = -logsigmoid(wide(target) * wide(x))
    return rounded(reduced("soft_margin_loss", losses, reduction), x, target)
