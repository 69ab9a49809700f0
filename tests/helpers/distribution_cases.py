"""One case for each distribution: how it is made of tensors, and what is true of its values.

Every test over distributions reads `CASES`. Parameters are float64 and stand for points inside of
their domains, where derivatives exist. `name` is PyTorch's too, and so are the parameters.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

import contraflow as cf
from contraflow import distributions as D


class Case(NamedTuple):
    """A distribution, by the parameters that it is made of."""

    name: str
    parameters: dict[str, Any]  # that have gradients
    options: dict[str, Any] = {}  # noqa: RUF012 (never changed)
    # Where its mass lies, up to 1e-9 of it: an interval to integrate over, or the values to sum.
    low: Any = None
    high: Any = None

    def tensors(self, dtype: Any = cf.float64) -> dict[str, Any]:
        return {name: cf.tensor(value, dtype=dtype) for name, value in self.parameters.items()}

    def make(self, **parameters: Any) -> Any:
        return getattr(D, self.name)(**{**self.options, **parameters})

    def distribution(self, dtype: Any = cf.float64) -> Any:
        return self.make(**self.tensors(dtype))


_FACTOR = [[[1.0, 0.0], [0.3, 0.8]], [[0.5, 0.0], [-0.2, 1.2]]]
_COVARIANCE = (np.array(_FACTOR) @ np.swapaxes(_FACTOR, -1, -2)).tolist()
_LOCS = {"loc": [[0.5, -1.0], [0.0, 2.0]]}
_LOC_SCALE = {"loc": [0.5, -1.0], "scale": [1.5, 0.5]}
_CLASSES = {"probs": [[0.2, 0.5, 0.3], [0.1, 0.1, 0.8]]}
_LOGITS = {"logits": [[0.1, -1.0, 0.4], [2.0, 0.0, 1.0]]}

_NUMBERS = [
    Case("Bernoulli", {"probs": [0.3, 0.8]}, {}, 0, 1),
    Case("Bernoulli", {"logits": [-1.0, 2.0]}, {}, 0, 1),
    Case("Beta", {"concentration1": [2.0, 3.5], "concentration0": [4.0, 2.5]}, {}, 0.0, 1.0),
    Case("Binomial", {"probs": [0.3, 0.8]}, {"total_count": 7}, 0, 7),
    Case("Binomial", {"logits": [-0.3, 0.8]}, {"total_count": 3}, 0, 3),
    Case("Categorical", _CLASSES, {}, 0, 2),
    Case("Categorical", _LOGITS, {}, 0, 2),
    Case("Cauchy", _LOC_SCALE, {}, -3e4, 3e4),
    Case("Chi2", {"df": [3.0, 5.0]}, {}, 0.0, 60.0),
    Case("ContinuousBernoulli", {"probs": [0.2, 0.5004]}, {}, 0.0, 1.0),
    Case("ContinuousBernoulli", {"logits": [3.0, -0.5]}, {}, 0.0, 1.0),
    Case("Exponential", {"rate": [0.7, 2.0]}, {}, 0.0, 30.0),
    Case("FisherSnedecor", {"df1": [4.0, 6.0], "df2": [15.0, 30.0]}, {}, 0.0, 400.0),
    Case("Gamma", {"concentration": [2.0, 12.5], "rate": [1.5, 2.0]}, {}, 0.0, 40.0),
    Case("GeneralizedPareto", {"loc": [0.0, 1.0], "scale": [1.0, 2.0],
                               "concentration": [0.1, -0.25]}, {}, [0.0, 1.0], [500.0, 9.0]),
    Case("Geometric", {"probs": [0.4, 0.7]}, {}, 0, 60),
    Case("Geometric", {"logits": [0.4, -0.7]}, {}, 0, 80),
    Case("Gumbel", _LOC_SCALE, {}, -12.0, 40.0),
    Case("HalfCauchy", {"scale": [1.5, 0.5]}, {}, 0.0, 3e4),
    Case("HalfNormal", {"scale": [1.5, 0.5]}, {}, 0.0, 12.0),
    Case("InverseGamma", {"concentration": [6.0, 8.0], "rate": [1.5, 2.0]}, {}, 0.0, 20.0),
    Case("Kumaraswamy", {"concentration1": [2.0, 3.5], "concentration0": [4.0, 2.5]}, {}, 0.0, 1.0),
    Case("Laplace", _LOC_SCALE, {}, -35.0, 35.0),
    Case("LogNormal", {"loc": [0.5, -1.0], "scale": [0.4, 0.3]}, {}, 0.0, 40.0),
    Case("NegativeBinomial", {"probs": [0.3, 0.6]}, {"total_count": 4.0}, 0, 90),
    Case("NegativeBinomial", {"logits": [-0.3, 0.6], "total_count": [2.5, 4.0]}, {}, 0, 160),
    Case("Normal", _LOC_SCALE, {}, -15.0, 15.0),
    Case("Pareto", {"scale": [1.0, 0.5], "alpha": [4.5, 6.0]}, {}, [1.0, 0.5], [3e3, 3e3]),
    Case("Poisson", {"rate": [0.7, 14.0]}, {}, 0, 60),
    Case("RelaxedBernoulli", {"probs": [0.3, 0.8]}, {"temperature": 1.7}, 0.0, 1.0),
    Case("RelaxedBernoulli", {"logits": [0.3, -0.8], "temperature": [1.5, 2.0]}, {}, 0.0, 1.0),
    Case("StudentT", {"df": [6.0, 9.0], **_LOC_SCALE}, {}, -300.0, 300.0),
    Case("Uniform", {"low": [0.0, -1.0], "high": [1.0, 3.0]}, {}, [0.0, -1.0], [1.0, 3.0]),
    Case("VonMises", {"loc": [0.5, -1.0], "concentration": [1.5, 30.0]}, {}, -math.pi, math.pi),
    Case("Weibull", {"scale": [1.5, 0.5], "concentration": [2.0, 1.5]}, {}, 0.0, 15.0),
]  # fmt: skip

_EVENTS = [
    Case("Dirichlet", {"concentration": [[2.0, 3.0, 1.5], [0.8, 4.0, 2.5]]}),
    Case("LKJCholesky", {"concentration": [0.7, 2.5]}, {"dim": 3}),
    Case("LogisticNormal", _LOC_SCALE),
    Case("LowRankMultivariateNormal", {
        "loc": [[0.5, -1.0, 0.2], [0.1, 0.2, 0.3]],
        "cov_factor": [[[1.0, 0.2], [0.3, -0.4], [0.2, 0.6]], [[0.5, 0.1], [0.7, -0.2], [1, 0.3]]],
        "cov_diag": [[1.0, 0.5, 0.7], [0.9, 1.1, 0.4]]}),
    Case("Multinomial", _CLASSES, {"total_count": 6}),
    Case("Multinomial", _LOGITS, {"total_count": 3}),
    Case("MultivariateNormal", {**_LOCS, "scale_tril": _FACTOR}),
    Case("MultivariateNormal", {**_LOCS, "covariance_matrix": _COVARIANCE}),
    Case("MultivariateNormal", {**_LOCS, "precision_matrix": _COVARIANCE}),
    Case("OneHotCategorical", _CLASSES),
    Case("OneHotCategorical", _LOGITS),
    Case("OneHotCategoricalStraightThrough", _CLASSES),
    Case("RelaxedOneHotCategorical", _CLASSES, {"temperature": 1.5}),
    Case("RelaxedOneHotCategorical", {**_LOGITS, "temperature": 0.8}),
    Case("Wishart", {"df": [3.5, 5.0], "scale_tril": _FACTOR}),
    Case("Wishart", {"df": [3.5, 5.0], "covariance_matrix": _COVARIANCE}),
]  # fmt: skip


def _named(cases: list[Case]) -> dict[str, Case]:
    return {f"{case.name} of {', '.join(case.parameters)}": case for case in cases}


NUMBERS = _named(_NUMBERS)
CASES = {**NUMBERS, **_named(_EVENTS)}


def turned(case: Case) -> Any:
    """The distribution with the parameters of its batch in the other order."""
    given = {
        name: cf.tensor(np.array(value, float)[::-1].copy() if np.ndim(value) else value)
        for name, value in case.parameters.items()
    }
    return case.make(**{name: x.double() for name, x in given.items()})


def points(case: Case, d: Any) -> tuple[np.ndarray, np.ndarray]:
    """Values [n, batch] over the support, and their weights in an integral or a sum."""
    low, high = (
        np.broadcast_to(np.asarray(x, float), d.batch_shape) for x in (case.low, case.high)
    )
    if d.support.is_discrete:
        values = np.arange(case.low, case.high + 1.0)[:, None] + 0 * low
        return values, np.ones_like(values)
    # Closer together towards the ends of the interval, and towards 0 inside of one (tanh-sinh).
    t = np.linspace(-3.0, 3.0, 4001)[:, None]
    share = 0.5 * (1 + np.tanh(0.5 * math.pi * np.sinh(t)))
    slope = 0.25 * math.pi * np.cosh(t) / np.cosh(0.5 * math.pi * np.sinh(t)) ** 2
    middle = np.where((low < 0) & (high > 0), 0.0, low)
    halves = [(middle, low), (middle, high)]
    values = np.concatenate([a + (b - a) * share for a, b in halves])
    weights = np.concatenate([abs(b - a) * slope * (t[1] - t[0]) for a, b in halves])
    return values, weights
