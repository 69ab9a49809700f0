"""Losses of probabilities: cross entropies, and the divergence of two distributions."""

from __future__ import annotations

from typing import Any

import numpy as np

from contraflow import dtypes
from contraflow.dtypes import int64
from contraflow.errors import describe
from contraflow.operation.kinds import composite
from contraflow.operation.samples import Array, Failure, Sample
from contraflow.ops.elementwise.activation import logsigmoid
from contraflow.ops.elementwise.arithmetic import clamp_min
from contraflow.ops.elementwise.basic import digits_beside, exp, log, to_dtype, where
from contraflow.ops.elementwise.mathematics import xlogy
from contraflow.ops.index.gather import check_range, gather
from contraflow.ops.nn.loss import NP_REDUCED, reduced, unknown_reduction
from contraflow.ops.nn.norm import log_softmax, np_softmax, rounded, wide
from contraflow.ops.reduction.reduce import require_floating, sum_
from contraflow.ops.shape.view import reshape
from contraflow.shapes import whole
from contraflow.tensors.tensor import Tensor

# --- two classes -------------------------------------------------------------------------------


def _same_shape(name: str, x: Tensor, target: Tensor) -> None:
    if target.shape != x.shape:
        raise ValueError(
            f"{name}: the target {describe(target)} needs the shape of the input {describe(x)}."
        )


def _np_bce(x: Any, target: Any) -> Any:
    with np.errstate(divide="ignore"):
        logs = np.maximum(np.log(x), -100.0), np.maximum(np.log(1 - x), -100.0)
    return -(target * logs[0] + (1 - target) * logs[1])


# The logarithms are bounded, so that a loss is finite; the gradients are of the unbounded ones.
@composite(
    ref=_np_bce,
    vjp={
        "x": lambda g, x, target: g * (x - target) / clamp_min(x * (1.0 - x), 1e-12),
        "target": lambda g, x: g * (log(1.0 - x) - log(x)),
    },
    samples=lambda: (Sample((Array((3, 4), 0.1, 0.9), Array((3, 4), 0.1, 0.9))),),
    method=False,
    internal=True,
    floating=True,
)
def binary_surprise(x, target):
    """-(target log(x) + (1 - target) log(1 - x)), with logarithms of -100 at least."""
    require_floating("binary_cross_entropy", x)
    return -(target * _bounded_log(x) + (1.0 - target) * _bounded_log(1.0 - x))


def _bounded_log(x: Tensor) -> Tensor:
    return clamp_min(log(x), -100.0)


@composite(
    ref=lambda x, target, weight=None, reduction="mean": NP_REDUCED[reduction](
        _np_bce(x, target) * (1 if weight is None else weight)
    ),
    samples=lambda: (
        Sample((Array((3, 4), 0.1, 0.9), Array((3, 4), 0.1, 0.9), Array((4,))), {}),
        Sample((Array((3,), 0.1, 0.9), Array((3,), 0.0, 1.0), None), {"reduction": "sum"}),
        Sample((Array((2,), 0.1, 0.9), Array((2,), 0.0, 1.0), None), {"reduction": "none"}),
    ),
    failures=lambda: (
        *unknown_reduction("binary_cross_entropy")(),
        Failure((Array((2,)), Array((3,))), {}, ValueError,
                "binary_cross_entropy: the target float64[3] needs the shape of the input"),
    ),
    method=False,
    floating=True,
    autocast="float32",
)  # fmt: skip
def binary_cross_entropy(x, target, weight=None, *, reduction="mean"):
    """The mean of -(target log(x) + (1 - target) log(1 - x)) of probabilities x."""
    _same_shape("binary_cross_entropy", x, target)
    losses = binary_surprise(wide(x), wide(target))
    losses = losses if weight is None else losses * wide(weight)
    return rounded(reduced("binary_cross_entropy", losses, reduction), x, target, weight)


def _np_bce_logits(
    x: Any, target: Any, weight: Any = None, pos_weight: Any = None, reduction: str = "mean"
) -> Any:
    log_yes, log_no = -np.log1p(np.exp(-x)), -np.log1p(np.exp(x))
    yes = target if pos_weight is None else target * pos_weight
    losses = -(yes * log_yes + (1 - target) * log_no)
    return NP_REDUCED[reduction](losses if weight is None else losses * weight)


@composite(
    ref=_np_bce_logits,
    samples=lambda: (
        Sample((Array((3, 4)), Array((3, 4), 0.0, 1.0), Array((4,)), Array((4,), 0.5, 2.0)),
               {"reduction": "mean"}),
        Sample((Array((3,)), Array((3,), 0.0, 1.0), None, None), {"reduction": "sum"}),
        Sample((Array((2,)), Array((2,), 0.0, 1.0), Array((2,)), None), {"reduction": "none"}),
    ),
    failures=lambda: (
        *unknown_reduction("binary_cross_entropy_with_logits")(),
        Failure((Array((2,)), Array((3,))), {}, ValueError,
                "binary_cross_entropy_with_logits: the target float64[3] needs the shape of the"),
    ),
    method=False,
    autocast="float32",
    floating=True,
)  # fmt: skip
def binary_cross_entropy_with_logits(x, target, weight=None, pos_weight=None, *, reduction="mean"):
    """Binary cross entropy of sigmoid(x), without overflow; `pos_weight` weighs the positives."""
    require_floating("binary_cross_entropy_with_logits", x)
    _same_shape("binary_cross_entropy_with_logits", x, target)
    given, (x, target) = (x, target, weight, pos_weight), (wide(x), wide(target))
    # log(1 - sigmoid(x)) is logsigmoid(x) - x.
    yes = logsigmoid(x)
    if pos_weight is not None:
        yes = yes * (1.0 + (wide(pos_weight) - 1.0) * target)
    losses = (1.0 - target) * x - yes
    losses = losses if weight is None else losses * wide(weight)
    return rounded(reduced("binary_cross_entropy_with_logits", losses, reduction), *given)


@binary_cross_entropy_with_logits.signature
def _bce_with_logits(
    x: Tensor, target: Tensor, weight: Any = None, reduction: str = "mean", pos_weight: Any = None
) -> Tensor:
    op = binary_cross_entropy_with_logits
    return op.bind(x, target, weight, pos_weight, reduction=reduction)


# --- several classes ---------------------------------------------------------------------------


def _target(shape: Any) -> Array:
    return Array(shape, 0, 5, int64)


def _np_by_class(
    rows: Any, target: Any, weight: Any, ignore_index: int, reduction: str, smoothing: float
) -> Any:
    """-rows at the target's class, by loops over the elements."""
    if rows.ndim == 1:
        out = _np_by_class(
            rows[None], np.asarray(target)[None], weight, ignore_index, reduction, smoothing
        )
        return out[0] if reduction == "none" else out
    classes = rows.shape[1]
    weight = np.ones(classes) if weight is None else weight
    losses, shares = np.zeros(target.shape), np.zeros(target.shape)
    for at in np.ndindex(target.shape):
        chosen = target[at]
        if chosen != ignore_index:
            row = rows[(at[0], slice(None), *at[1:])]
            shares[at] = weight[chosen]
            losses[at] = -(1 - smoothing) * weight[chosen] * row[chosen]
            losses[at] -= smoothing / classes * (weight * row).sum()
    return losses.sum() / shares.sum() if reduction == "mean" else NP_REDUCED[reduction](losses)


def _classes(name: str, x: Tensor, target: Tensor, weight: Tensor | None) -> int:
    """Check that a target of class indices fits, and give the dim of the classes."""
    if target.dtype.category != dtypes.INT:
        raise TypeError(f"{name}: the target is {describe(target)}; class indices are integers.")
    dim = 0 if x.ndim == 1 else 1
    wanted = (*x.shape[:dim], *x.shape[dim + 1 :])
    if not x.ndim or target.shape != wanted:
        raise ValueError(
            f"{name}: target {describe(target)} does not fit the logits {describe(x)}; it needs "
            f"shape {list(wanted)}."
        )
    _check_class_weight(name, x, weight, dim)
    return dim


def _check_class_weight(name: str, x: Tensor, weight: Tensor | None, dim: int) -> None:
    if weight is not None and weight.shape != (x.shape[dim],):
        raise ValueError(
            f"{name}: the weight is {describe(weight)}; it needs shape [{x.shape[dim]}], one "
            f"number per class."
        )


def _by_class(
    name: str, rows: Tensor, target: Tensor, weight: Tensor | None, ignore_index: int,
    reduction: str, smoothing: float = 0.0,
) -> Tensor:  # fmt: skip
    """-rows at the target's class: weighed, without those ignored, the rest of rows by a share.

    Of half precision that is computed in float32, and rounded once.
    """
    dim = _classes(name, rows, target, weight)
    counted = target != whole(name, "ignore_index", ignore_index)
    # An ignored target is often no class at all: look up class 0 in its place.
    at = to_dtype(where(counted, target, 0), dtype=int64)
    if at.storage.on_host:  # elsewhere gather finds it
        check_range(name, at.array, rows.shape[dim])
    slot = (*at.shape[:dim], 1, *at.shape[dim:])
    losses = -wide(reshape(gather(rows, dim, reshape(at, slot)), at.shape))
    shares = to_dtype(counted, dtype=losses.dtype)
    if weight is not None:
        shares = shares * wide(gather(weight, 0, reshape(at, (at.numel(),)))).reshape(at.shape)
        losses = losses * shares
    losses = where(counted, losses, 0.0)
    if smoothing:
        even = wide(rows) if weight is None else wide(rows) * _along(wide(weight), rows, dim)
        spread = where(counted, -sum_(even, dim=dim), 0.0)
        losses = (1.0 - smoothing) * losses + (smoothing / rows.shape[dim]) * spread
    found = sum_(losses) / sum_(shares) if reduction == "mean" else reduced(name, losses, reduction)
    return rounded(found, rows, weight)


def _along(weight: Tensor, rows: Tensor, dim: int) -> Tensor:
    """A number per class laid against the dim of the classes."""
    return reshape(weight, (weight.shape[0], *(1,) * (rows.ndim - dim - 1)))


def _np_nll(
    x: Any, target: Any, weight: Any = None, ignore_index: int = -100, reduction: str = "mean"
) -> Any:
    return _np_by_class(x, target, weight, ignore_index, reduction, 0.0)


@composite(
    ref=_np_nll,
    samples=lambda: (
        Sample((Array((4, 5)), _target((4,)), None), {"reduction": "mean"}),
        Sample((Array((2, 5, 3)), _target((2, 3)), Array((5,), 0.5, 2.0)),
               {"reduction": "mean", "ignore_index": 2}),
        Sample((Array((5,)), _target(()), None), {"reduction": "none"}),
    ),
    failures=lambda: (
        Failure((Array((4, 5)), _target((4,)), Array((4,))), {}, ValueError,
                "nll_loss: the weight is float64[4]; it needs shape [5], one number per class."),
        Failure((Array((4, 5)), _target((4,)), None), {"reduction": "max"}, ValueError,
                "nll_loss: reduction is 'max'; it must be 'mean', 'sum' or 'none'."),
        Failure((Array((2, 3)), np.array([0, 3]), None), {}, IndexError, "index 3 is out of range"),
        Failure((Array((2, 3)), np.array([0, 1]), None), {"ignore_index": 1.5}, TypeError,
                "nll_loss: ignore_index must be an int, not 1.5."),
    ),
    method=False,
    floating=True,
    autocast="float32",
)  # fmt: skip
def nll_loss(x, target, weight=None, *, ignore_index=-100, reduction="mean"):
    """The mean of -x[target]: log probabilities [n, classes, ...], class indices [n, ...]."""
    require_floating("nll_loss", x)
    return _by_class("nll_loss", x, target, weight, ignore_index, reduction)


def _np_cross_entropy(
    x: Any, target: Any, weight: Any = None, ignore_index: int = -100, reduction: str = "mean",
    label_smoothing: float = 0.0,
) -> Any:  # fmt: skip
    dim = 0 if x.ndim == 1 else 1
    rows = np.log(np_softmax(x, dim))
    if target.dtype.kind in "iu":
        return _np_by_class(rows, target, weight, ignore_index, reduction, label_smoothing)
    target = target * (1 - label_smoothing) + label_smoothing / x.shape[dim]
    if weight is not None:
        target = target * weight.reshape(-1, *(1,) * (x.ndim - dim - 1))
    losses = -(rows * target).sum(dim)
    return NP_REDUCED[reduction](losses)


_CLASS_WEIGHT = Array((5,), 0.5, 2.0)


@composite(
    ref=_np_cross_entropy,
    samples=lambda: (
        Sample((Array((4, 5)), _target((4,)), None), {"reduction": "mean"}),
        Sample((Array((4, 5)), _target((4,)), _CLASS_WEIGHT),
               {"reduction": "mean", "label_smoothing": 0.1, "ignore_index": 1}),
        Sample((Array((2, 5, 3)), _target((2, 3)), None), {"reduction": "none"}),
        Sample((Array((2, 5, 3)), Array((2, 5, 3), 0.0, 1.0), _CLASS_WEIGHT),
               {"reduction": "mean", "label_smoothing": 0.2}),
        Sample((Array((5,)), _target(()), None), {"reduction": "sum", "label_smoothing": 0.1}),
    ),
    failures=lambda: (
        Failure(
            (Array((4, 5)), _target((3,)), None), {}, ValueError,
            "cross_entropy: target int64[3] does not fit the logits float64[4, 5]; it needs shape "
            "[4].",
        ),
        Failure(
            (Array((4, 5)), Array((4,)), None), {}, TypeError,
            "cross_entropy: the target is float64[4]; class indices are integers",
        ),
        Failure(
            (Array((4, 5)), _target((4, 5)), None), {}, TypeError,
            "cross_entropy: the target is int64[4, 5]; class probabilities are floating-point.",
        ),
        Failure(
            (Array((4, 5)), _target((4,)), None), {"ignore_index": 1.5}, TypeError,
            "cross_entropy: ignore_index must be an int, not 1.5.",
        ),
        Failure(
            (Array((4, 5)), Array((4, 5)), None), {"ignore_index": 0}, ValueError,
            "cross_entropy: ignore_index is 0, but class probabilities have no index to ignore.",
        ),
        Failure(
            (Array((4, 5)), _target((4,)), None), {"label_smoothing": 1.5}, ValueError,
            "cross_entropy: label_smoothing is 1.5; it must be between 0 and 1.",
        ),
    ),
    method=False,
    autocast="float32",
    floating=True,
)  # fmt: skip
def cross_entropy(
    x, target, weight=None, *, ignore_index=-100, reduction="mean", label_smoothing=0.0
):
    """The mean of -log softmax(x)[target]: logits [n, classes, ...], class indices [n, ...].

    A class may weigh more than another, and the mean is weighed accordingly; elements whose target
    is `ignore_index` count for nothing. Targets of the logits' shape are class probabilities.
    """
    require_floating("cross_entropy", x)
    if not 0.0 <= label_smoothing <= 1.0:
        raise ValueError(
            f"cross_entropy: label_smoothing is {label_smoothing}; it must be between 0 and 1."
        )
    dim = 0 if x.ndim == 1 else 1
    if target.shape != x.shape:
        _classes("cross_entropy", x, target, weight)
        rows = log_softmax(x, dim=dim)
        return _by_class(
            "cross_entropy", rows, target, weight, ignore_index, reduction, label_smoothing
        )
    if not target.dtype.is_floating_point:
        raise TypeError(
            f"cross_entropy: the target is {describe(target)}; class probabilities are "
            f"floating-point."
        )
    if whole("cross_entropy", "ignore_index", ignore_index) >= 0:
        raise ValueError(
            f"cross_entropy: ignore_index is {ignore_index}, but class probabilities have no index "
            f"to ignore."
        )
    _check_class_weight("cross_entropy", x, weight, dim)
    given = x, target, weight
    if label_smoothing:
        target = wide(target) * (1.0 - label_smoothing) + label_smoothing / x.shape[dim]
    rows = log_softmax(x, dim=dim)
    weighed = wide(rows) if weight is None else wide(rows) * _along(wide(weight), rows, dim)
    losses = -sum_(weighed * wide(target), dim=dim)
    return rounded(reduced("cross_entropy", losses, reduction), *given)


def _np_kl_div(x: Any, target: Any, reduction: str = "mean", log_target: bool = False) -> Any:
    if log_target:
        losses = np.exp(target) * (target - x)
    else:
        losses = np.where(target == 0, 0, target * np.log(np.where(target == 0, 1, target)))
        losses = losses - target * x
    if reduction == "batchmean":
        return losses.sum() / x.shape[0]
    return NP_REDUCED[reduction](losses)


@composite(
    ref=_np_kl_div,
    samples=lambda: (
        Sample((Array((3, 4)), Array((3, 4), 0.2, 1.0)), {"reduction": "batchmean"}),
        Sample((Array((3, 4)), Array((4,))), {"reduction": "mean", "log_target": True}),
        Sample((Array((3,)), Array((3,), 0.2, 1.0)), {"reduction": "none"}),
    ),
    failures=lambda: (
        Failure((Array((2,)), Array((2,))), {"reduction": "all"}, ValueError,
                "kl_div: reduction is 'all'; it must be 'mean', 'sum', 'batchmean' or 'none'."),
    ),
    method=False,
    floating=True,
    autocast="float32",
)  # fmt: skip
def kl_div(x, target, *, reduction="mean", log_target=False):
    """The mean of target (log(target) - x), for log probabilities x."""
    require_floating("kl_div", x)
    if reduction not in ("mean", "sum", "batchmean", "none"):
        raise ValueError(
            f"kl_div: reduction is {reduction!r}; it must be 'mean', 'sum', 'batchmean' or 'none'."
        )
    given, (x, target) = (x, target), (wide(x), digits_beside(wide(target), x))
    losses = exp(target) * (target - x) if log_target else xlogy(target, target) - target * x
    if reduction == "batchmean":
        found = sum_(losses) / x.shape[0] if x.ndim else sum_(losses)
    else:
        found = reduced("kl_div", losses, reduction)
    return rounded(found, *given)
