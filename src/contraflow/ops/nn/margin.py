"""Margin losses between the scores of classes."""

from __future__ import annotations

from typing import Any

import numpy as np

from contraflow.dtypes import int64
from contraflow.errors import describe
from contraflow.operation.context import apply, state
from contraflow.operation.kinds import composite
from contraflow.operation.samples import Array, Failure, Sample
from contraflow.ops.creation.create import arange
from contraflow.ops.elementwise.activation import logsigmoid
from contraflow.ops.elementwise.arithmetic import clamp_min
from contraflow.ops.elementwise.basic import where
from contraflow.ops.index.gather import check_integers, gather
from contraflow.ops.nn.loss import NP_REDUCED, reduced, unknown_reduction
from contraflow.ops.nn.norm import rounded, wide
from contraflow.ops.reduction.reduce import amin, any_, mean, require_floating, sum_
from contraflow.ops.shape.parts import narrow
from contraflow.ops.shape.view import expand, reshape
from contraflow.tensors.tensor import Tensor


def _rows(name: str, x: Tensor, target: Tensor, target_shape: Any) -> Tensor:
    """The scores as [n, classes]; `target_shape` is the one their target must have."""
    require_floating(name, x)
    if x.ndim > 2 or 0 in x.shape[-1:]:
        raise ValueError(f"{name}: {describe(x)} must be [classes] or [n, classes].")
    check_integers(name, target.spec)
    if target.shape != target_shape and (target.shape, target_shape) != ((1,), ()):
        raise ValueError(
            f"{name}: the target is {describe(target)}; for {describe(x)} it must be "
            f"{list(target_shape)}."
        )
    return reshape(x, (1, 1, *x.shape)[-2:])


# --- one class of several ------------------------------------------------------------------------


def _np_multi_margin(
    x: Any, target: Any, weight: Any, p: int, margin: float, reduction: str
) -> Any:
    rows, at = np.atleast_2d(x), np.atleast_1d(target)
    each = np.arange(len(at))
    gaps = np.maximum(margin - rows[each, at][:, None] + rows, 0) ** p
    gaps = gaps if weight is None else gaps * weight[at][:, None]
    gaps[each, at] = 0
    return NP_REDUCED[reduction](gaps.mean(1).reshape(np.shape(target)))


def _multi_margin_params(p: int, reduction: str) -> dict[str, Any]:
    return {"p": p, "margin": 0.9, "reduction": reduction}


@composite(
    ref=_np_multi_margin,
    samples=lambda: (
        Sample((Array((3, 4)), np.array([1, 3, 0]), None), _multi_margin_params(1, "mean")),
        Sample((Array((3, 4)), np.array([1, 3, 0]), Array((4,), 0.5, 1.5)),
               _multi_margin_params(2, "none")),
        Sample((Array((4,)), np.array(2), None), _multi_margin_params(2, "sum")),
        Sample((Array(()), np.array(0), None), _multi_margin_params(1, "mean")),
    ),
    failures=lambda: (
        Failure(
            (Array((3, 4)), np.array([1, 3]), None), {"p": 1, "margin": 1.0, "reduction": "mean"},
            ValueError, "multi_margin_loss: the target is int64[2]; for float64[3, 4] it must be",
        ),
        Failure(
            (Array((2,)), np.array(1), None), {"p": 3, "margin": 1.0, "reduction": "mean"},
            ValueError, "multi_margin_loss: p is 3; it must be 1 or 2.",
        ),
    ),
    method=False,
    floating=True,
    autocast="float32",
)  # fmt: skip
def multi_margin_loss(x, target, weight=None, *, p=1, margin=1.0, reduction="mean"):
    """The mean over classes of max(0, margin - x[target] + x[i])**p, the target itself left out."""
    if p not in (1, 2):
        raise ValueError(f"multi_margin_loss: p is {p}; it must be 1 or 2.")
    rows = wide(_rows("multi_margin_loss", x, target, x.shape[:-1]))
    at = reshape(target, (rows.shape[0], 1))
    gaps = clamp_min(margin - gather(rows, 1, at) + rows, 0.0)
    gaps = gaps * gaps if p == 2 else gaps
    if weight is not None:
        gaps = gaps * wide(gather(expand(weight, rows.shape), 1, at))
    others = where(arange(rows.shape[1]) == at, 0.0, gaps)
    losses = reshape(mean(others, dim=1), target.shape)
    return rounded(reduced("multi_margin_loss", losses, reduction), x, weight)


# PyTorch puts the weight last.
@multi_margin_loss.signature
def _multi_margin_loss(
    x: Tensor,
    target: Tensor,
    p: int = 1,
    margin: float = 1.0,
    weight: Tensor | None = None,
    *,
    reduction: str = "mean",
) -> Tensor:
    params = {"p": p, "margin": margin, "reduction": reduction}
    return apply(multi_margin_loss, (x, target, weight), params)


# --- several classes of many ---------------------------------------------------------------------


def _np_multilabel_margin(x: Any, target: Any, reduction: str, most: int | None = None) -> Any:
    losses = []
    for scores, labels in zip(np.atleast_2d(x), np.atleast_2d(target)):
        ends = np.flatnonzero(labels < 0)
        named = labels[: ends[0]] if ends.size else labels
        others = np.setdiff1d(np.arange(scores.size), named)
        gaps = np.maximum(1 - scores[named][:, None] + scores[others], 0)
        losses.append(gaps.sum() / scores.size)
    return NP_REDUCED[reduction](np.reshape(losses, np.shape(x)[:-1]))


_LABELS = np.array([[2, 0, -1, 1], [3, -1, 0, 0], [-1, 1, 2, 3]])


@composite(
    ref=_np_multilabel_margin,
    samples=lambda: (
        Sample((Array((3, 4)), _LABELS), {"reduction": "mean"}),
        Sample((Array((3, 4)), _LABELS), {"reduction": "none"}),
        Sample((Array((4,)), _LABELS[0]), {"reduction": "sum"}),
    ),
    failures=lambda: (
        Failure(
            (Array((3, 4)), np.array([1, 3, 0])), {"reduction": "mean"}, ValueError,
            "multilabel_margin_loss: the target is int64[3]; for float64[3, 4] it must be [3, 4].",
        ),
    ),
    method=False,
    floating=True,
    autocast="float32",
)  # fmt: skip
def multilabel_margin_loss(x, target, *, reduction="mean", most=None):
    """The sum of max(0, 1 - x[j] + x[i]) over target classes j and others i, per class.

    A row of the target names classes up to its first -1; `most` of them, where that is known.
    """
    rows = wide(_rows("multilabel_margin_loss", x, target, x.shape))
    n, classes = rows.shape
    labels = reshape(target, rows.shape)
    most = classes if most is None else most
    labels = narrow(labels, 1, 0, most)
    # Neither a scan nor a scatter, so that it is one program, and its backward another.
    place = arange(most)
    valid = place < amin(where(labels < 0, place, most), dim=1, keepdim=True)
    at = where(valid, labels, 0).to(int64)
    chosen = reshape(valid, (n, most, 1)) & (reshape(at, (n, most, 1)) == arange(classes))
    named = reshape(any_(chosen, dim=1), (n, 1, classes))
    gaps = 1.0 - reshape(gather(rows, 1, at), (n, most, 1)) + reshape(rows, (n, 1, classes))
    counted = reshape(valid, (n, most, 1)) & ~named
    losses = sum_(where(counted, clamp_min(gaps, 0.0), 0.0), dim=(1, 2)) / classes
    losses = reshape(losses, x.shape[:-1])
    return rounded(reduced("multilabel_margin_loss", losses, reduction), x)


@multilabel_margin_loss.signature
def _multilabel_margin_loss(x: Tensor, target: Tensor, *, reduction: str = "mean") -> Tensor:
    # Pairs of all classes would be many times the pairs of those that are named with all.
    known = (
        state().context.immediate
        and isinstance(target, Tensor)
        and target.ndim
        and target.storage.on_host
    )
    most = _most_named(target.array) if known else None
    return apply(multilabel_margin_loss, (x, target), {"reduction": reduction, "most": most})


def _most_named(target: np.ndarray) -> int | None:
    """How many classes a row names at most: a power of two, so that there are few programs."""
    classes = target.shape[-1]
    absent = target < 0
    counts = np.where(absent.any(-1), absent.argmax(-1), classes) if classes else 0
    most = 1 << int(np.max(counts, initial=1) - 1).bit_length()
    return most if most < classes else None


def _np_multilabel_soft_margin(x: Any, target: Any, weight: Any, reduction: str) -> Any:
    losses = target * np.log1p(np.exp(-x)) + (1 - target) * np.log1p(np.exp(x))
    losses = losses if weight is None else losses * weight
    return NP_REDUCED[reduction](losses.mean(-1))


@composite(
    ref=_np_multilabel_soft_margin,
    samples=lambda: (
        Sample((Array((3, 4)), Array((3, 4), 0.0, 1.0), None), {"reduction": "mean"}),
        Sample((Array((3, 4)), Array((3, 4), 0.0, 1.0), Array((4,), 0.5, 1.5)),
               {"reduction": "none"}),
    ),
    failures=unknown_reduction("multilabel_soft_margin_loss"),
    method=False,
    floating=True,
    autocast="float32",
)  # fmt: skip
def multilabel_soft_margin_loss(x, target, weight=None, *, reduction="mean"):
    """The mean over classes of the binary cross entropy of sigmoid(x) with the target."""
    require_floating("multilabel_soft_margin_loss", x)
    given, (x, target) = (x, target, weight), (wide(x), wide(target))
    losses = -(target * logsigmoid(x) + (1 - target) * logsigmoid(-x))
    losses = losses if weight is None else losses * wide(weight)
    return rounded(reduced("multilabel_soft_margin_loss", mean(losses, dim=-1), reduction), *given)
