"""Losses as modules: the functions of nn.functional with their arguments kept."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from contraflow.nn import functional as F
from contraflow.nn.module import Module
from contraflow.tensor import Tensor


class _Loss(Module):
    """A loss function and its keyword arguments; tensors among them are buffers."""

    function: Callable[..., Any]

    def __init__(self, **arguments: Any) -> None:
        super().__init__()
        self._names = tuple(arguments)
        for name, value in arguments.items():
            if name in ("weight", "pos_weight"):
                self.register_buffer(name, value)
            else:
                setattr(self, name, value)

    def forward(self, *tensors: Tensor) -> Tensor:
        kept = {name: getattr(self, name) for name in self._names}
        out: Tensor = type(self).function(*tensors, **kept)
        return out


class CrossEntropyLoss(_Loss):
    """-log softmax(input)[target]: logits [n, classes, ...], class indices [n, ...].

    >>> import contraflow as cf
    >>> cf.nn.CrossEntropyLoss()(cf.zeros(2, 4), cf.tensor([0, 3]))
    tensor(1.3863)
    """

    function = F.cross_entropy

    def __init__(
        self,
        weight: Tensor | None = None,
        ignore_index: int = -100,
        reduction: str = "mean",
        label_smoothing: float = 0.0,
    ) -> None:
        super().__init__(
            weight=weight, ignore_index=ignore_index, reduction=reduction,
            label_smoothing=label_smoothing,
        )  # fmt: skip


class NLLLoss(_Loss):
    """-input[target]: log probabilities [n, classes, ...], class indices [n, ...]."""

    function = F.nll_loss

    def __init__(
        self, weight: Tensor | None = None, ignore_index: int = -100, reduction: str = "mean"
    ) -> None:
        super().__init__(weight=weight, ignore_index=ignore_index, reduction=reduction)


class _Plain(_Loss):
    def __init__(self, reduction: str = "mean") -> None:
        super().__init__(reduction=reduction)


class MSELoss(_Plain):
    """The mean of the squared differences."""

    function = F.mse_loss


class L1Loss(_Plain):
    """The mean of the absolute differences."""

    function = F.l1_loss


class SoftMarginLoss(_Plain):
    """The mean of log(1 + exp(-target input)), for targets of -1 and 1."""

    function = F.soft_margin_loss


class SmoothL1Loss(_Loss):
    """Squared differences (halved, by beta) below beta, absolute ones above."""

    function = F.smooth_l1_loss

    def __init__(self, reduction: str = "mean", beta: float = 1.0) -> None:
        super().__init__(reduction=reduction, beta=beta)


class HuberLoss(_Loss):
    """Half the squared difference up to delta, and a line with its slope beyond."""

    function = F.huber_loss

    def __init__(self, reduction: str = "mean", delta: float = 1.0) -> None:
        super().__init__(reduction=reduction, delta=delta)


class BCELoss(_Loss):
    """Binary cross entropy of probabilities."""

    function = F.binary_cross_entropy

    def __init__(self, weight: Tensor | None = None, reduction: str = "mean") -> None:
        super().__init__(weight=weight, reduction=reduction)


class BCEWithLogitsLoss(_Loss):
    """Binary cross entropy of sigmoid(input), without overflow."""

    function = F.binary_cross_entropy_with_logits

    def __init__(
        self,
        weight: Tensor | None = None,
        reduction: str = "mean",
        pos_weight: Tensor | None = None,
    ) -> None:
        super().__init__(weight=weight, reduction=reduction, pos_weight=pos_weight)


class KLDivLoss(_Loss):
    """The mean of target (log(target) - input), for log probabilities."""

    function = F.kl_div

    def __init__(self, reduction: str = "mean", log_target: bool = False) -> None:
        super().__init__(reduction=reduction, log_target=log_target)


class PoissonNLLLoss(_Loss):
    """The mean of rate - target log(rate)."""

    function = F.poisson_nll_loss

    def __init__(
        self,
        log_input: bool = True,
        full: bool = False,
        eps: float = 1e-8,
        reduction: str = "mean",
    ) -> None:
        super().__init__(log_input=log_input, full=full, eps=eps, reduction=reduction)


class GaussianNLLLoss(_Loss):
    """The mean of half of log(var) + (input - target) ** 2 / var."""

    function = F.gaussian_nll_loss

    def __init__(self, *, full: bool = False, eps: float = 1e-6, reduction: str = "mean") -> None:
        super().__init__(full=full, eps=eps, reduction=reduction)


class MarginRankingLoss(_Loss):
    """The mean of max(0, margin - target (input1 - input2))."""

    function = F.margin_ranking_loss

    def __init__(self, margin: float = 0.0, reduction: str = "mean") -> None:
        super().__init__(margin=margin, reduction=reduction)


class HingeEmbeddingLoss(_Loss):
    """The mean of input where the target is 1, of max(0, margin - input) where it is -1."""

    function = F.hinge_embedding_loss

    def __init__(self, margin: float = 1.0, reduction: str = "mean") -> None:
        super().__init__(margin=margin, reduction=reduction)


class CosineEmbeddingLoss(_Loss):
    """1 - cos where the target is 1, max(0, cos - margin) where it is -1."""

    function = F.cosine_embedding_loss

    def __init__(self, margin: float = 0.0, reduction: str = "mean") -> None:
        super().__init__(margin=margin, reduction=reduction)


class TripletMarginLoss(_Loss):
    """The mean of max(0, margin + |anchor - positive| - |anchor - negative|)."""

    function = F.triplet_margin_loss

    def __init__(
        self,
        margin: float = 1.0,
        p: float = 2.0,
        eps: float = 1e-6,
        swap: bool = False,
        reduction: str = "mean",
    ) -> None:
        super().__init__(margin=margin, p=p, eps=eps, swap=swap, reduction=reduction)
