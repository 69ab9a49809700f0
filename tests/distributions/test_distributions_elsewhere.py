"""Distributions on the walled device: what they make lies where their parameters do."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests.helpers.distribution_cases import CASES
from tests.helpers.walled import opened

import contraflow as cf
from contraflow import distributions as D

# Their densities solve or factorise on the host, which other devices refuse by name.
ON_THE_HOST = {"LowRankMultivariateNormal", "MultivariateNormal", "Wishart"}
HERE = [name for name, case in CASES.items() if case.name not in ON_THE_HOST]


@pytest.fixture(autouse=True, scope="module")
def device() -> Any:
    with opened() as found:
        yield found


def asked(d: Any) -> list[Any]:
    """A sample, and what the distribution says of itself and of the sample."""
    value = d.sample((2,))
    found = [value, d.log_prob(value)]
    for method in ("entropy", "rsample"):
        try:
            found.append(getattr(d, method)())
        except NotImplementedError:
            continue
    return found


@pytest.mark.parametrize("name", HERE)
def test_results_lie_where_parameters_do(name: str) -> None:
    case = CASES[name]
    given = case.tensors(cf.float32)
    away = {key: x.to("walled") for key, x in given.items()}
    cf.manual_seed(0)
    there = asked(case.make(**away))
    cf.manual_seed(0)
    here = asked(case.make(**given))
    assert {str(x.device) for x in there} == {"walled"}
    for x, y in zip(there, here, strict=True):
        np.testing.assert_allclose(x.cpu().numpy(), y.numpy(), rtol=2e-4, atol=2e-4)


def test_gradients_and_divergences() -> None:
    a = cf.tensor([0.7, 3.0]).to("walled").requires_grad_()
    D.Gamma(a, 1.0).rsample().sum().backward()
    assert str(a.grad.device) == "walled"
    found = D.kl_divergence(D.Gamma(a, 1.0), D.Gamma(2.0, 1.0))
    assert str(found.device) == "walled"
    assert str(D.transforms.StickBreakingTransform()(a).device) == "walled"


def test_wrong_parameters() -> None:
    with pytest.raises(ValueError, match=r"Normal: scale is float32.* and must be greater than 0"):
        D.Normal(0.0, cf.tensor([1.0, -1.0]).to("walled"))
