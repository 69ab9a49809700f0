"""Densities against integrals of their own, and samples against what densities say of them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests.helpers.distribution_cases import CASES, Case, points

import contraflow as cf
from contraflow.autograd import gradcheck

ONE_DIM = {name: case for name, case in CASES.items() if case.low is not None}


def densities(case: Case, d: Any) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Values [n, 1], their weights, and the density at them, 0 outside of the support."""
    values, weights = points(case, d)
    given = cf.tensor(values, dtype=cf.float64).unsqueeze(-1)
    given = given.expand(len(values), *d.batch_shape)
    free = case.make(**case.tensors(), validate_args=False)
    inside = d.support.check(given)
    log_prob = cf.where(inside, free.log_prob(cf.where(inside, given, d.sample())), -float("inf"))
    return values[:, None], weights[:, None], np.exp(log_prob.numpy())


@pytest.mark.parametrize("name", ONE_DIM)
def test_densities_integrate_to_what_is_said_of_them(name: str) -> None:
    case = CASES[name]
    d = case.distribution()
    values, weights, density = densities(case, d)
    tolerance = {"rtol": 1e-4, "atol": 1e-4}
    np.testing.assert_allclose((weights * density).sum(0), 1.0, **tolerance)
    mean = (weights * density * values).sum(0)
    if case.has_mean:
        np.testing.assert_allclose(d.mean.numpy(), mean, **tolerance)
    if case.has_variance:
        square = (weights * density * (values - mean) ** 2).sum(0)
        np.testing.assert_allclose(d.variance.numpy(), square, **tolerance)
        np.testing.assert_allclose(d.stddev.numpy() ** 2, d.variance.numpy(), rtol=1e-12)
    if case.has_entropy:
        logs = np.log(np.where(density == 0, 1, density))
        np.testing.assert_allclose(
            d.entropy().numpy(), -(weights * density * logs).sum(0), **tolerance
        )


@pytest.mark.parametrize("name", CASES)
def test_gradients_of_log_prob(name: str) -> None:
    case = CASES[name]
    value = case.distribution().sample((2,))
    names, given = zip(*case.tensors().items())

    def log_prob(*parameters: Any) -> Any:
        return case.make(**dict(zip(names, parameters))).log_prob(value)

    gradcheck(log_prob, tuple(t.requires_grad_() for t in given))
