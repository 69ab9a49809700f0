"""Losses as modules: functions of nn.functional with stored arguments."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import KW_ONLY
from typing import Any

from contraflow.devices.names import Device
from contraflow.dtypes import DType
from contraflow.errors import describe
from contraflow.nn import functional as F
from contraflow.nn.applied import Applied
from contraflow.nn.layers import Linear, PairwiseDistance
from contraflow.nn.module import Module
from contraflow.nn.projection import LinearCrossEntropyOptions
from contraflow.tensors.tensor import Tensor


class _Loss(Applied, hidden=()):
    """A loss function; tensors among its arguments are buffers.

    Classes that programs derive from it, or from `_WeightedLoss`, apply no function of this
    package: their constructor takes what PyTorch's does.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        if hasattr(type(self), "function"):
            super().__init__(*args, **kwargs)
        else:
            Module.__init__(self)
            self._begin(*args, **kwargs)

    def _begin(self, size_average: Any = None, reduce: Any = None, reduction: str = "mean") -> None:
        """Store the reduction, which the first two, deprecated in PyTorch, may also say."""
        if size_average is not None or reduce is not None:
            reduction = "none" if reduce is False else "sum" if size_average is False else "mean"
        self.reduction = reduction

    def _keep(self, name: str, value: Any) -> None:
        if name in ("weight", "pos_weight"):
            self.register_buffer(name, value)
        else:
            setattr(self, name, value)

    def extra_repr(self) -> str:
        return ""


class _WeightedLoss(_Loss, hidden=()):
    """A loss whose classes, or elements, have weights."""

    def _begin(self, *args: Any, weight: Tensor | None = None, **kwargs: Any) -> None:
        if args:
            weight, *args = args  # type: ignore[assignment]
        self._keep("weight", weight)
        super()._begin(*args, **kwargs)


# --- of classes --------------------------------------------------------------------------------


class CrossEntropyLoss(_WeightedLoss, function=F.cross_entropy):
    """-log softmax(input)[target]: logits [n, classes, ...], class indices [n, ...].

    >>> import contraflow as cf
    >>> cf.nn.CrossEntropyLoss()(cf.zeros(2, 4), cf.tensor([0, 3]))
    tensor(1.3863)
    """

    weight: Tensor | None = None
    ignore_index: int = -100
    reduction: str = "mean"
    label_smoothing: float = 0.0


class LinearCrossEntropyLoss(Module):
    """The cross entropy of a linear layer's outputs: inputs [n, in_features], class indices [n].

    `out_features` are further dims of the logits [n, num_classes, ...] and of the targets. With
    `options` the logits are computed chunk by chunk rather than kept.

    >>> import contraflow as cf
    >>> cf.nn.LinearCrossEntropyLoss(8, 4)(cf.zeros(2, 8), cf.tensor([0, 3])).detach()
    tensor(1.3863)
    """

    weight: Tensor | None

    def __init__(
        self,
        in_features: int,
        num_classes: int,
        *,
        out_features: tuple[int, ...] = (),
        bias: bool = False,
        device: Device | str | None = None,
        dtype: DType | None = None,
        reduction: str = "mean",
        weight: Tensor | None = None,
        ignore_index: int | None = None,
        label_smoothing: float = 0.0,
        options: LinearCrossEntropyOptions | None = None,
    ) -> None:
        super().__init__()
        if weight is not None and weight.shape != (num_classes,):
            raise ValueError(
                f"LinearCrossEntropyLoss: weight is {describe(weight)}; {num_classes} classes need "
                f"shape [{num_classes}]."
            )
        if not 0.0 <= label_smoothing <= 1.0:
            raise ValueError(
                f"LinearCrossEntropyLoss: label_smoothing is {label_smoothing}; it must be between "
                f"0 and 1."
            )
        self.register_buffer("weight", weight)
        self.num_classes, self.out_features = num_classes, out_features
        self.reduction, self.ignore_index = reduction, ignore_index
        self.label_smoothing, self.options = label_smoothing, options
        width = num_classes * math.prod(out_features)
        self.linear = Linear(in_features, width, bias, device, dtype)

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        shape, bias = (self.num_classes, *self.out_features), self.linear.bias
        loss: Tensor = F.linear_cross_entropy(
            input,
            self.linear.weight.reshape(*shape, self.linear.in_features),
            target,
            linear_bias=None if bias is None else bias.reshape(*shape),
            weight=self.weight,
            reduction=self.reduction,
            ignore_index=self.ignore_index,
            label_smoothing=self.label_smoothing,
            options=self.options,
        )
        return loss

    def extra_repr(self) -> str:
        return (
            f"in_features={self.linear.in_features}, num_classes={self.num_classes}, "
            f"out_features={self.out_features}, bias={self.linear.bias is not None}, "
            f"reduction={self.reduction}, ignore_index={self.ignore_index}, "
            f"label_smoothing={self.label_smoothing}, options={self.options}"
        )


class NLLLoss(_WeightedLoss, function=F.nll_loss):
    """-input[target]: log probabilities [n, classes, ...], class indices [n, ...].

    >>> import contraflow as cf
    >>> layer = cf.nn.NLLLoss()
    >>> out = layer(cf.tensor([[1.0, 2.0, 0.5], [0.1, 0.2, 3.0]]).log_softmax(1), cf.tensor([1, 2]))
    >>> out
    tensor(0.2870)
    """

    weight: Tensor | None = None
    ignore_index: int = -100
    reduction: str = "mean"


class BCELoss(_WeightedLoss, function=F.binary_cross_entropy):
    """Binary cross entropy of probabilities.

    >>> import contraflow as cf
    >>> layer = cf.nn.BCELoss()
    >>> layer(cf.tensor([0.9, 0.2]), cf.tensor([1.0, 0.0]))
    tensor(0.1643)
    """

    weight: Tensor | None = None
    reduction: str = "mean"


class BCEWithLogitsLoss(_Loss, function=F.binary_cross_entropy_with_logits):
    """Binary cross entropy of sigmoid(input), without overflow.

    >>> import contraflow as cf
    >>> layer = cf.nn.BCEWithLogitsLoss()
    >>> layer(cf.tensor([2.0, -1.0]), cf.tensor([1.0, 0.0]))
    tensor(0.2201)
    """

    weight: Tensor | None = None
    reduction: str = "mean"
    pos_weight: Tensor | None = None


class MultiMarginLoss(_WeightedLoss, function=F.multi_margin_loss):
    """The mean of max(0, margin - input[target] + input[i]) ** p over the other classes i.

    >>> import contraflow as cf
    >>> layer = cf.nn.MultiMarginLoss()
    >>> layer(cf.tensor([[1.0, 2.0, 0.5], [0.1, 0.2, 3.0]]), cf.tensor([1, 2]))
    tensor(0.)
    """

    p: int = 1
    margin: float = 1.0
    weight: Tensor | None = None
    reduction: str = "mean"


class MultiLabelMarginLoss(_Loss, function=F.multilabel_margin_loss):
    """MultiMarginLoss for several targets per sample: [n, classes], listed up to the first -1.

    >>> import contraflow as cf
    >>> layer = cf.nn.MultiLabelMarginLoss()
    >>> out = layer(
    ...     cf.tensor([[1.0, 2.0, 0.5], [0.1, 0.2, 3.0]]), cf.tensor([[1, -1, 0], [2, 0, -1]])
    ... )
    >>> out
    tensor(0.1833)
    """

    reduction: str = "mean"


class MultiLabelSoftMarginLoss(_WeightedLoss, function=F.multilabel_soft_margin_loss):
    """Binary cross entropy of sigmoid(input), the mean over the classes.

    >>> import contraflow as cf
    >>> layer = cf.nn.MultiLabelSoftMarginLoss()
    >>> out = layer(
    ...     cf.tensor([[1.0, 2.0, 0.5], [0.1, 0.2, 3.0]]),
    ...     cf.tensor([[1.0, 0.0, 0.0], [0.0, 1.0, 1.0]]),
    ... )
    >>> out
    tensor(0.8009)
    """

    weight: Tensor | None = None
    reduction: str = "mean"


class CTCLoss(_Loss, function=F.ctc_loss):
    """-log of the probability of all alignments of a labelling: log probabilities [t, n, classes].

    It takes labels [n, s], and the lengths of inputs and of targets.

    >>> import contraflow as cf
    >>> layer = cf.nn.CTCLoss()
    >>> out = layer(
    ...     cf.zeros(5, 1, 3).log_softmax(2), cf.tensor([[1, 2]]), cf.tensor([5]), cf.tensor([2])
    ... )
    >>> out
    tensor(0.9689)
    """

    blank: int = 0
    reduction: str = "mean"
    zero_infinity: bool = False


# --- of numbers --------------------------------------------------------------------------------


class MSELoss(_Loss, function=F.mse_loss):
    """The mean of the squared differences.

    >>> import contraflow as cf
    >>> layer = cf.nn.MSELoss()
    >>> layer(cf.tensor([0.5, 2.0, -1.0]), cf.tensor([1.0, 2.0, 1.0]))
    tensor(1.4167)
    """

    reduction: str = "mean"


class L1Loss(_Loss, function=F.l1_loss):
    """The mean of the absolute differences.

    >>> import contraflow as cf
    >>> layer = cf.nn.L1Loss()
    >>> layer(cf.tensor([0.5, 2.0, -1.0]), cf.tensor([1.0, 2.0, 1.0]))
    tensor(0.8333)
    """

    reduction: str = "mean"


class SoftMarginLoss(_Loss, function=F.soft_margin_loss):
    """The mean of log(1 + exp(-target input)), for targets of -1 and 1.

    >>> import contraflow as cf
    >>> layer = cf.nn.SoftMarginLoss()
    >>> layer(cf.tensor([2.0, -1.0]), cf.tensor([1.0, -1.0]))
    tensor(0.2201)
    """

    reduction: str = "mean"


class SmoothL1Loss(_Loss, function=F.smooth_l1_loss):
    """The mean of d ** 2 / (2 beta) where d = |x - target| < beta, of d - beta / 2 elsewhere.

    >>> import contraflow as cf
    >>> layer = cf.nn.SmoothL1Loss()
    >>> layer(cf.tensor([0.5, 2.0, -1.0]), cf.tensor([1.0, 2.0, 1.0]))
    tensor(0.5417)
    """

    reduction: str = "mean"
    beta: float = 1.0


class HuberLoss(_Loss, function=F.huber_loss):
    """The mean of d ** 2 / 2 for d = |x - target| <= delta, of delta (d - delta / 2) elsewhere.

    >>> import contraflow as cf
    >>> layer = cf.nn.HuberLoss()
    >>> layer(cf.tensor([0.5, 2.0, -1.0]), cf.tensor([1.0, 2.0, 1.0]))
    tensor(0.5417)
    """

    reduction: str = "mean"
    delta: float = 1.0


# --- of distributions --------------------------------------------------------------------------


class KLDivLoss(_Loss, function=F.kl_div):
    """The mean of target (log(target) - input), for log probabilities.

    >>> import contraflow as cf
    >>> layer = cf.nn.KLDivLoss(reduction="batchmean")
    >>> out = layer(
    ...     cf.tensor([[1.0, 2.0, 0.5], [0.1, 0.2, 3.0]]).log_softmax(1), cf.full((2, 3), 1 / 3)
    ... )
    >>> out
    tensor(0.5550)
    """

    reduction: str = "mean"
    log_target: bool = False


class PoissonNLLLoss(_Loss, function=F.poisson_nll_loss):
    """The mean of rate - target log(rate).

    >>> import contraflow as cf
    >>> layer = cf.nn.PoissonNLLLoss()
    >>> layer(cf.tensor([0.5, 2.0, -1.0]), cf.tensor([1.0, 2.0, 1.0]))
    tensor(1.9686)
    """

    log_input: bool = True
    full: bool = False
    eps: float = 1e-8
    reduction: str = "mean"


class GaussianNLLLoss(_Loss, function=F.gaussian_nll_loss):
    """The mean of (log(var) + (input - target) ** 2 / var) / 2.

    >>> import contraflow as cf
    >>> layer = cf.nn.GaussianNLLLoss()
    >>> layer(cf.tensor([0.5, 2.0, -1.0]), cf.tensor([1.0, 2.0, 1.0]), cf.ones(3))
    tensor(0.7083)
    """

    _: KW_ONLY
    full: bool = False
    eps: float = 1e-6
    reduction: str = "mean"


# --- of pairs and triplets ---------------------------------------------------------------------


class MarginRankingLoss(_Loss, function=F.margin_ranking_loss):
    """The mean of max(0, margin - target (input1 - input2)).

    >>> import contraflow as cf
    >>> layer = cf.nn.MarginRankingLoss()
    >>> layer(cf.tensor([2.0, 0.5]), cf.tensor([1.0, 1.0]), cf.tensor([1.0, 1.0]))
    tensor(0.2500)
    """

    margin: float = 0.0
    reduction: str = "mean"


class HingeEmbeddingLoss(_Loss, function=F.hinge_embedding_loss):
    """The mean of input where the target is 1, of max(0, margin - input) where it is -1.

    >>> import contraflow as cf
    >>> layer = cf.nn.HingeEmbeddingLoss()
    >>> layer(cf.tensor([2.0, 0.5]), cf.tensor([1.0, -1.0]))
    tensor(1.2500)
    """

    margin: float = 1.0
    reduction: str = "mean"


class CosineEmbeddingLoss(_Loss, function=F.cosine_embedding_loss):
    """1 - cos where the target is 1, max(0, cos - margin) where it is -1.

    >>> import contraflow as cf
    >>> layer = cf.nn.CosineEmbeddingLoss()
    >>> layer(cf.tensor([[1.0, 0.0]]), cf.tensor([[1.0, 1.0]]), cf.tensor([1.0]))
    tensor(0.2929)
    """

    margin: float = 0.0
    reduction: str = "mean"


class TripletMarginLoss(_Loss, function=F.triplet_margin_loss):
    """The mean of max(0, margin + |anchor - positive| - |anchor - negative|).

    >>> import contraflow as cf
    >>> layer = cf.nn.TripletMarginLoss()
    >>> layer(cf.zeros(1, 2), cf.ones(1, 2), cf.full((1, 2), 1.5))
    tensor(0.2929)
    """

    margin: float = 1.0
    p: float = 2.0
    eps: float = 1e-6
    swap: bool = False
    reduction: str = "mean"


class TripletMarginWithDistanceLoss(_Loss, function=F.triplet_margin_with_distance_loss):
    """TripletMarginLoss with a given distance function; by default PairwiseDistance.

    >>> import contraflow as cf
    >>> layer = cf.nn.TripletMarginWithDistanceLoss()
    >>> layer(cf.zeros(1, 2), cf.ones(1, 2), cf.full((1, 2), 1.5))
    tensor(0.2929)
    """

    _: KW_ONLY
    distance_function: Callable[[Tensor, Tensor], Tensor] | None = None
    margin: float = 1.0
    swap: bool = False
    reduction: str = "mean"

    def __post_init__(self) -> None:
        if self.distance_function is None:
            self.distance_function = PairwiseDistance()
