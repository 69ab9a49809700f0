"""Adaptive softmax for many classes, few of them frequent (Grave et al., 2017)."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

from contraflow.devices.names import Device
from contraflow.dtypes import DType
from contraflow.errors import describe
from contraflow.nn import functional as F
from contraflow.nn.containers import ModuleList, Sequential
from contraflow.nn.layers import Linear
from contraflow.nn.module import Module
from contraflow.ops.creation.create import arange
from contraflow.ops.elementwise.arithmetic import clamp
from contraflow.ops.elementwise.basic import where
from contraflow.ops.index.gather import gather
from contraflow.ops.reduction.reduce import argmax, mean
from contraflow.ops.shape.joining import cat
from contraflow.tensors.tensor import Tensor


class AdaptiveOutput(NamedTuple):
    """The log probabilities of the targets, and minus their mean."""

    output: Tensor
    loss: Tensor


class AdaptiveLogSoftmaxWithLoss(Module):
    """Log probabilities of targets [n] given inputs [n, in_features], and the loss.

    The classes are ordered by how frequent they are. Those below the first of `cutoffs` have logits
    of their own; those from one cutoff to the next share one, and are told apart by a narrower
    layer, `div_value` times at each cutoff.

    >>> import contraflow as cf
    >>> softmax = cf.nn.AdaptiveLogSoftmaxWithLoss(8, 20, cutoffs=[4, 10])
    >>> output, loss = softmax(cf.randn(3, 8), cf.tensor([0, 5, 19]))
    >>> output.shape, softmax.log_prob(cf.randn(3, 8)).shape
    ((3,), (3, 20))
    """

    def __init__(
        self,
        in_features: int,
        n_classes: int,
        cutoffs: Sequence[int],
        div_value: float = 4.0,
        head_bias: bool = False,
        device: Device | str | None = None,
        dtype: DType | None = None,
    ) -> None:
        super().__init__()
        ends = [0, *cutoffs, n_classes]
        whole = all(isinstance(c, int) and not isinstance(c, bool) for c in ends)
        if not cutoffs or not whole or any(low >= high for low, high in pairwise(ends)):
            raise ValueError(
                f"AdaptiveLogSoftmaxWithLoss: cutoffs are {list(cutoffs)}; they must be whole "
                f"numbers that rise, from 1 to {n_classes - 1}, at least one."
            )
        self.in_features, self.n_classes = in_features, n_classes
        self.cutoffs = ends[1:]
        self.div_value, self.head_bias = div_value, head_bias
        self.shortlist_size, self.n_clusters = self.cutoffs[0], len(self.cutoffs) - 1
        self.head_size = self.shortlist_size + self.n_clusters
        self.head = Linear(in_features, self.head_size, head_bias, device, dtype)
        self.tail = ModuleList()
        for i, (low, high) in enumerate(pairwise(self.cutoffs), 1):
            width = int(in_features // div_value**i)
            self.tail.append(
                Sequential(
                    Linear(in_features, width, False, device, dtype),
                    Linear(width, high - low, False, device, dtype),
                )
            )

    def reset_parameters(self) -> None:
        """Draw the initial values anew."""
        for layer in self.modules():
            if isinstance(layer, Linear):
                layer.reset_parameters()

    def forward(self, input_: Tensor, target_: Tensor) -> AdaptiveOutput:
        # All rows go through all layers: which of them need one is not known before there are
        # values, and the layers are narrow.
        fits = target_.ndim <= 1 and input_.shape == (*target_.shape, self.in_features)
        if not fits:
            raise ValueError(
                f"AdaptiveLogSoftmaxWithLoss: input {describe(input_)} and target "
                f"{describe(target_)} must be [n, {self.in_features}] and [n], or without n."
            )
        x, target = (input_, target_) if target_.ndim else (input_[None], target_[None])
        clusters = list(pairwise(self.cutoffs))
        # The columns of the head by class; looking them up refuses anything that is not a class.
        columns = cat([
            arange(self.shortlist_size, device=x.device),
            *(arange(high - low, device=x.device) * 0 + (self.shortlist_size + i)
              for i, (low, high) in enumerate(clusters)),
        ])  # fmt: skip
        head = F.log_softmax(self.head(x), 1)
        output = gather(head, 1, gather(columns, 0, target)[:, None])[:, 0]
        for layer, (low, high) in zip(self.tail, clusters):
            own = (target >= low) & (target < high)
            place = clamp(target - low, 0, high - low - 1)
            local = gather(F.log_softmax(layer(x), 1), 1, place[:, None])[:, 0]
            output = output + where(own, local, 0.0)
        loss = -mean(output)
        return AdaptiveOutput(output if target_.ndim else output[0], loss)

    def log_prob(self, input: Tensor) -> Tensor:
        """The log probabilities of all classes, [n, n_classes]."""
        head = F.log_softmax(self.head(input), 1)
        shared = head[:, self.shortlist_size :]
        parts = [
            F.log_softmax(layer(input), 1) + shared[:, i : i + 1]
            for i, layer in enumerate(self.tail)
        ]
        out: Tensor = cat([head[:, : self.shortlist_size], *parts], 1)
        return out

    def predict(self, input: Tensor) -> Tensor:
        """The most probable class of each row."""
        found: Tensor = argmax(self.log_prob(input), 1)
        return found
