"""Initial values of parameters."""

from __future__ import annotations

import math

import numpy as np
import pytest
from tests.helpers.modules import close, random

import contraflow as cf
from contraflow import nn
from contraflow.nn import functional as F

pytestmark = pytest.mark.usefixtures("seeded")


def test_initial_values_repeat_with_the_seed():
    values = []
    for _ in range(2):
        cf.manual_seed(3)
        values.append(nn.Linear(4, 4).weight.tolist())
    assert values[0] == values[1]
    assert nn.Linear(4, 4).weight.tolist() != values[0]


@pytest.mark.parametrize(
    ("tensor", "bound"),
    [
        (lambda: nn.Linear(64, 500).weight, 1 / 8),
        (lambda: nn.Linear(64, 5000).bias, 1 / 8),
        (lambda: nn.Conv2d(16, 128, (2, 2)).weight, 1 / 8),
        (lambda: nn.Conv2d(32, 3000, (2, 2), groups=2).bias, 1 / 8),
        (lambda: nn.init.xavier_uniform_(cf.zeros(100, 200), gain=2.0), 2 * (6 / 300) ** 0.5),
        (lambda: nn.init.kaiming_uniform_(cf.zeros(100, 150)), 1 / 5),
        (lambda: nn.init.kaiming_uniform_(cf.zeros(150, 100), mode="fan_out"), 1 / 5),
        (
            lambda: nn.init.kaiming_uniform_(cf.zeros(99, 150), nonlinearity="tanh"),
            5 / 3 * (3 / 150) ** 0.5,
        ),
    ],
)
def test_uniform_distributions(tensor, bound):
    values = tensor().detach().numpy()
    assert abs(values).max() <= bound
    assert abs(values).max() > 0.99 * bound
    assert abs(values.mean()) < 0.03 * bound
    assert values.std() == pytest.approx(bound / 3**0.5, rel=0.03)


def test_other_initial_values():
    table = nn.Embedding(200, 50).weight.detach().numpy()
    assert abs(table.mean()) < 0.03
    assert table.std() == pytest.approx(1, rel=0.03)
    drawn = nn.init.normal_(cf.zeros(10000), 2.0, 0.5).numpy()
    assert drawn.mean() == pytest.approx(2, rel=0.02)
    assert drawn.std() == pytest.approx(0.5, rel=0.03)
    p = nn.Parameter(cf.zeros(2))
    assert nn.init.constant_(p, 3.0) is p
    assert p.is_leaf
    assert p.tolist() == [3.0, 3.0]
    assert nn.init.ones_(p).tolist() == [1.0, 1.0]
    assert nn.init.zeros_(p).tolist() == [0.0, 0.0]
    generator = cf.Generator(5)
    before = cf.get_rng_state()
    nn.init.uniform_(p, generator=generator)
    assert cf.get_rng_state() == before


def norm_pdf(x):
    return math.exp(-x * x / 2) / math.sqrt(2 * math.pi)


def norm_cdf(x):
    return math.erf(x / math.sqrt(2)) / 2


def test_normal_distributions():
    draws = {
        nn.init.xavier_normal_: (2 / 300) ** 0.5,
        nn.init.kaiming_normal_: (2 / 200) ** 0.5,
    }
    for draw, std in draws.items():
        values = draw(cf.zeros(100, 200)).numpy()
        assert values.std() == pytest.approx(std, rel=0.03)
    values = nn.init.trunc_normal_(cf.zeros(20000), 1.0, 2.0, 0.0, 4.0).numpy()
    assert values.min() >= 0
    assert values.max() <= 4
    density, share = norm_pdf(-0.5) - norm_pdf(1.5), norm_cdf(1.5) - norm_cdf(-0.5)
    assert values.mean() == pytest.approx(1.0 + 2.0 * density / share, rel=0.03)


def test_structured_initial_values():
    assert nn.init.eye_(cf.ones(2, 3)).tolist() == [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0]]
    q = nn.init.orthogonal_(cf.zeros(3, 2, 4), gain=2.0).numpy().reshape(3, 8)
    close(q @ q.T, 4 * np.eye(3))
    zeros = (nn.init.sparse_(cf.ones(10, 4), 0.25).numpy() == 0).sum(0)
    assert zeros.tolist() == [3, 3, 3, 3]
    kernel = nn.init.dirac_(cf.ones(4, 2, 3), groups=2)
    x = cf.tensor(random(1, 4, 5))
    close(F.conv1d(x, kernel, padding=1, groups=2), x.numpy())


@pytest.mark.parametrize(
    ("tensor", "bound"),
    [
        (lambda: nn.LSTM(8, 64).weight_ih_l0, 1 / 8),
        (lambda: nn.GRUCell(64, 64).weight_hh, 1 / 8),
        (lambda: nn.Bilinear(64, 20, 10).weight, 1 / 8),
        (lambda: nn.MultiheadAttention(96, 2).in_proj_weight, (6 / 384) ** 0.5),
    ],
)
def test_initial_distributions_of_layers(tensor, bound):
    values = tensor().detach().numpy()
    assert 0.99 * bound < abs(values).max() <= bound
    assert values.std() == pytest.approx(bound / 3**0.5, rel=0.03)


def test_init_errors():
    with pytest.raises(ValueError, match=r"xavier_uniform_: float32\[3\] has fewer than two dims"):
        nn.init.xavier_uniform_(cf.zeros(3))
    with pytest.raises(ValueError, match="kaiming_uniform_: mode is 'fan'; it must be 'fan_in'"):
        nn.init.kaiming_uniform_(cf.zeros(3, 3), mode="fan")
    with pytest.raises(ValueError, match=r"calculate_gain: .softsign. is unknown\. Known: "):
        nn.init.kaiming_uniform_(cf.zeros(3, 3), nonlinearity="softsign")
