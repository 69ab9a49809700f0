"""Draws on the webgpu device that the cpu makes in float64: the numbers are the same."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import contraflow as cf

pytestmark = pytest.mark.usefixtures("webgpu")


def drawn(draw: Callable[[Any], cf.Tensor], place: str) -> tuple[np.ndarray, Any]:
    cf.manual_seed(4)
    weights = np.random.default_rng(0).random((50, 40)).astype(np.float32)
    return draw(cf.tensor(weights, device=place)).numpy(force=True), cf.get_rng_state()


@pytest.mark.parametrize(
    "draw",
    [
        lambda x: cf.multinomial(x, 30, replacement=True),
        lambda x: cf.multinomial(x, 30),
        lambda x: cf.distributions.Categorical(x).sample((20,)),
        lambda x: cf.empty_like(x).geometric_(0.2),
        cf.compile(lambda x: cf.multinomial(x, 3)),
    ],
    ids=["replacement", "without", "categorical", "geometric", "compiled"],
)
def test_draws_of_float64_are_those_of_the_cpu(draw: Callable[[Any], cf.Tensor]) -> None:
    here, state = drawn(draw, "cpu")
    there, state_there = drawn(draw, "webgpu")
    np.testing.assert_array_equal(there, here)  # of 24 bits none lies at the edge of a column
    assert state_there == state


def test_a_weight_of_zero_is_never_drawn() -> None:
    weights = cf.tensor([0.0, 1.0, 0.0, 2.0, 0.0], device="webgpu")
    found = cf.multinomial(weights, 2000, replacement=True).tolist()
    assert set(found) == {1, 3}
    assert {tuple(sorted(cf.multinomial(weights, 2).tolist())) for _ in range(20)} == {(1, 3)}


def test_integers_of_up_to_31_bits_are_those_of_the_cpu() -> None:
    for low in (0, -(2**30), -(2**31)):
        cf.manual_seed(1)
        here = cf.randint(low, low + 2**31 - 1, (100,))
        cf.manual_seed(1)
        there = cf.randint(low, low + 2**31 - 1, (100,), device="webgpu")
        np.testing.assert_array_equal(there.numpy(force=True), here.numpy())
        with pytest.raises(OverflowError, match="a number given, does not fit the 32 bits"):
            cf.randint(low, low + 2**31, (100,), device="webgpu")
    x = cf.ones(3, dtype=cf.int32, device="webgpu")
    with pytest.raises(OverflowError, match="a number given, does not fit the 32 bits"):
        x.random_()
    assert x.tolist() == [1, 1, 1]
