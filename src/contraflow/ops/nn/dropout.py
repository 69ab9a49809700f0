"""Dropout of whole channels, and dropout that keeps mean and variance (for selu networks)."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from contraflow.errors import describe
from contraflow.expressions import philox
from contraflow.operation.context import apply
from contraflow.operation.kinds import composite
from contraflow.operation.op import Op
from contraflow.operation.samples import Failure, Sample
from contraflow.ops.creation.random import check_tensor, keep_mask
from contraflow.ops.elementwise.basic import where
from contraflow.shapes import Shape, numel
from contraflow.tensors.generator import default_generator
from contraflow.tensors.tensor import Tensor

_LOW = -1.7580993408473766  # what selu gives for -inf


def _kept(p: float, shape: Shape) -> Tensor:
    """Which elements survive."""
    seed, offset = default_generator.draw(numel(shape))
    mask: Tensor = apply(keep_mask, (seed, offset, philox.threshold(p)), {"shape": shape})
    return mask


def _scaled(x: Tensor, p: float, shape: Shape) -> Tensor:
    """Dropped elements become 0, the others grow, so that the mean stays."""
    grown = x * (1.0 / (1.0 - p) if p < 1 else 0.0)
    return where(_kept(p, shape), grown, 0.0)


def _standard(x: Tensor, p: float, shape: Shape) -> Tensor:
    """Dropped elements become the lowest value of selu, then all are scaled and shifted back."""
    if p == 1:
        return x * 0.0
    scale = 1.0 / math.sqrt((_LOW * _LOW * p + 1.0) * (1.0 - p))
    scaled = x * scale
    return where(_kept(p, shape), scaled, scale * _LOW) - scale * _LOW * p


def _dropout(name: str, drop: Any, channels: bool, doc: str) -> Op:
    def body(x, *, p=0.5, training=False):
        check_tensor(name, x)
        philox.threshold(p)  # refuses anything but a probability
        if not training or p == 0:
            return x
        if channels and x.ndim < 2:
            raise ValueError(f"{name}: {describe(x)} has no channels: it needs [n, channels, ...].")
        shape = (*x.shape[:2], *(1,) * (x.ndim - 2)) if channels else x.shape
        return drop(x, p, shape)

    x = np.linspace(-1.0, 1.0, 6).reshape(2, 3)
    body.__name__, body.__doc__ = name, doc
    return composite(
        ref=lambda x, p, training: x * 0.0 if training else x,
        samples=lambda: (
            Sample((x,), {"p": 0.5, "training": False}),
            Sample((x,), {"p": 1.0, "training": True}),
        ),
        failures=lambda: (
            Failure((x,), {"p": -0.5}, ValueError, "dropout: p is -0.5; a probability"),
            *((Failure((x[0],), {"training": True}, ValueError, "float64[3] has no"),) * channels),
        ),
        method=False,
    )(body)


feature_dropout = _dropout(
    "feature_dropout", _scaled, True,
    "Zero whole channels [n, c, ...] with probability p, and scale the others by 1 / (1 - p).",
)  # fmt: skip
alpha_dropout = _dropout(
    "alpha_dropout", _standard, False,
    "Drop elements with probability p, keeping zero mean and unit variance.",
)  # fmt: skip
feature_alpha_dropout = _dropout(
    "feature_alpha_dropout", _standard, True,
    "Drop whole channels [n, c, ...] with probability p, keeping zero mean and unit variance.",
)  # fmt: skip
