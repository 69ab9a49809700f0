"""Samples: inputs that stand beside the declaration of an op, for tests."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from contraflow.dtypes import DType, bool_, float64
from contraflow.shapes import Shape
from contraflow.spec import NO_PARAMS, Params


class Sample(NamedTuple):
    """Inputs for tests of an op: arrays (or shapes, filled at random) and static parameters."""

    inputs: tuple[Any, ...]
    params: Params = NO_PARAMS


class Array(NamedTuple):
    """A random array for a sample: uniform in [low, high), away from `avoid` by 0.05."""

    shape: Shape
    low: float = -2.0
    high: float = 2.0
    dtype: DType = float64
    avoid: tuple[float, ...] = ()

    def make(self, rng: np.random.Generator) -> np.ndarray:
        """Draw it."""
        if self.dtype is bool_:
            return np.asarray(rng.random(self.shape) < 0.5)
        if not self.dtype.is_floating_point:
            drawn = rng.integers(int(self.low), int(self.high), self.shape)
            return np.asarray(drawn, self.dtype.numpy)
        values = rng.uniform(self.low, self.high, self.shape)
        for point in self.avoid:
            near = np.abs(values - point) < 0.05
            values = np.where(near, point + np.where(values < point, -0.1, 0.1), values)
        return np.asarray(values, self.dtype.numpy)


class Failure(NamedTuple):
    """A sample that must fail, with the error's type and a part of its text."""

    inputs: tuple[Any, ...]
    params: Params
    error: type[Exception]
    text: str
