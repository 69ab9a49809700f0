"""Optimizer updates as ops: one line of a tape where arithmetic would take a dozen.

A network has many parameters, so the lines of their updates are most of those of a training step.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from contraflow.expressions import expression as s
from contraflow.operation.kinds import elementwise
from contraflow.operation.promotion import Types
from contraflow.operation.samples import Array, Sample
from contraflow.spec import Given, Params, Spec


def _all_as_first(count: int) -> Any:
    """The dtype rule by which everything is computed, and `count` results are given, in the dtype
    of the first input; numbers that are known when a step runs are 0-d tensors of float64."""

    def types(inputs: Sequence[Given], params: Params) -> Types:
        assert isinstance(inputs[0], Spec)
        dtype = inputs[0].dtype
        return (dtype,) * len(inputs), (dtype,) * count

    return types


def _averages(mean: Any, square: Any, g: Any, rate: Any, kept: Any, rest: Any) -> tuple[Any, Any]:
    return mean + (g - mean) * rate, square * kept + g * g * rest


@elementwise(
    ref=_averages,
    outs=("mean", "square"),
    dtype=_all_as_first(2),
    method=False,
    internal=True,
    samples=lambda: (
        Sample((*(Array(shape) for _ in range(3)), 0.1, 0.999, 0.001)) for shape in ((3, 4), ())
    ),
)
def running_averages(mean, square, g, rate, kept, rest):
    """Running means of a gradient and of its square, brought up to date."""
    return _averages(mean, square, g, rate, kept, rest)


@elementwise(
    ref=lambda p, mean, square, small, size: p - mean / (np.sqrt(square) + small) * size,
    dtype=_all_as_first(1),
    method=False,
    internal=True,
    samples=lambda: (
        Sample((Array(shape), Array(shape), Array(shape, 0.1), 0.01, 0.5)) for shape in ((3, 4), ())
    ),
)
def scaled_step(p, mean, square, small, size):
    """A parameter moved against a mean, by `size` in units of the root of a mean of squares."""
    return p - mean / (s.sqrt(square) + small) * size
