"""One case for each distribution: how it is made of tensors, and what is true of its values.

Every test over distributions reads `CASES`. Parameters are float64 and stand for points inside of
their domains, where derivatives exist.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

import contraflow as cf
from contraflow import distributions as D


class Case(NamedTuple):
    """A distribution, by the parameters that it is made of."""

    make: Callable[..., Any]
    parameters: dict[str, Any]
    # Where its mass lies, up to 1e-9 of it: an interval to integrate over, or the values to sum.
    low: float | None = None
    high: float | None = None
    has_entropy: bool = True
    has_mean: bool = True
    has_variance: bool = True

    def tensors(self, dtype: Any = cf.float64) -> dict[str, Any]:
        return {name: cf.tensor(value, dtype=dtype) for name, value in self.parameters.items()}

    def distribution(self, dtype: Any = cf.float64) -> Any:
        return self.make(**self.tensors(dtype))


CASES = {
    "Normal": Case(D.Normal, {"loc": [0.5, -1.0], "scale": [1.5, 0.5]}, -15.0, 15.0),
    "Uniform": Case(D.Uniform, {"low": [0.0, -1.0], "high": [1.0, 3.0]}, -1.5, 3.5),
    "Bernoulli": Case(D.Bernoulli, {"probs": [0.3, 0.8]}, 0, 1),
    "Bernoulli of logits": Case(D.Bernoulli, {"logits": [-1.0, 2.0]}, 0, 1),
    "Categorical": Case(
        D.Categorical, {"probs": [[0.2, 0.5, 0.3], [0.1, 0.1, 0.8]]}, 0, 2,
        has_mean=False, has_variance=False,
    ),
    "Categorical of logits": Case(
        D.Categorical, {"logits": [[0.1, -1.0, 0.4], [2.0, 0.0, 1.0]]}, 0, 2,
        has_mean=False, has_variance=False,
    ),
}  # fmt: skip


def points(case: Case, d: Any, count: int = 40001) -> tuple[np.ndarray, np.ndarray]:
    """Values of one dim over the support, and their weights in an integral or a sum."""
    assert case.low is not None
    assert case.high is not None
    if d.support.is_discrete:
        values = np.arange(case.low, case.high + 1)
        return values, np.ones_like(values)
    # The trapezoidal rule, over a width that the ends of the interval do not fall on.
    values = np.linspace(case.low, case.high, count) + 1e-7
    return values, np.full(count, (case.high - case.low) / (count - 1))
