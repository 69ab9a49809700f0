"""Draws on the webgpu device that the cpu makes in float64: the numbers are the same."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import contraflow as cf
from contraflow.errors import DeviceError

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


WIDE = {
    "31 bits": lambda place: cf.randint(-(2**30), 2**30 - 1, (100,), device=place),
    "2**31 integers": lambda place: cf.randint(0, 2**31, (100,), dtype=cf.int32, device=place),
    "all of 32 bits": lambda place: cf.randint(-(2**31), 2**31, (100,), device=place),
    "random_": lambda place: cf.ones(100, dtype=cf.int32, device=place).random_(),
}


@pytest.mark.parametrize("name", WIDE)
def test_integers_of_32_bits_are_those_of_the_cpu(name: str) -> None:
    cf.manual_seed(1)
    here = WIDE[name]("cpu")
    cf.manual_seed(1)
    np.testing.assert_array_equal(WIDE[name]("webgpu").numpy(force=True), here.numpy())


REFUSED: dict[str, tuple[Callable[[], Any], type[Exception], str]] = {
    "randint": (
        lambda: cf.randint(0, 2**31 + 1, (9,), device="webgpu"),
        OverflowError, r"^randint: \[0, 2147483649\) does not fit the 32 bits that int64 has on",
    ),
    "randint of floats": (
        lambda: cf.randint(0, 2**32, (9,), dtype=cf.float32, device="webgpu"),
        OverflowError, "^randint: ",
    ),
    "random_": (
        lambda: cf.ones(9, dtype=cf.int64, device="webgpu").random_(), OverflowError, "^random_: "
    ),
    "compiled": (
        cf.compile(lambda: cf.randint(0, 2**32, (9,), device="webgpu")), OverflowError, "^randint: "
    ),
    "a dtype": (
        lambda: cf.rand(9, dtype=cf.float64, device="webgpu"),
        DeviceError, "^rand: float64 is not a dtype of webgpu",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_a_draw_that_is_refused_leaves_the_generator_as_it_was(name: str) -> None:
    draw, kind, message = REFUSED[name]
    cf.manual_seed(8)
    cf.rand(5)
    before = cf.get_rng_state()
    with pytest.raises(kind, match=message):
        draw()
    assert cf.get_rng_state() == before
