"""What the fuzzing of ops found: each of these once failed."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests.helpers.engine_common import refused

import contraflow as cf
from contraflow.tensors.tensor import Tensor
from contraflow.testing import assert_close

F = cf.nn.functional


def x() -> Tensor:
    return cf.tensor([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]])


def test_a_variance_below_its_bound_loses_no_digits() -> None:
    """x + (bound - x) rounds to ten percent of 1e-6 where x is near 1."""
    zero, one = cf.zeros(1), cf.ones(1)
    loss = F.gaussian_nll_loss(one, zero, -1.45 * one, full=False, reduction="none")
    assert_close(loss, np.array([0.5 * (np.log(1e-6) + 1e6)]), 1e-6, 0.0)


def test_a_program_names_the_op_whose_reference_refuses() -> None:
    count = cf.compile(lambda x: cf.histc(x, bins=3))
    with refused(
        ValueError,
        "histc: cannot take (float32[2], bins=3, min=0, max=0). ",
        "It takes (x, bins=100, min=0, max=0).",
    ):
        count(cf.tensor([float("nan"), 1.0]))


def test_unsigned_numbers_in_a_program() -> None:
    assert cf.compile(abs)(cf.tensor([1, 255], dtype=cf.uint8)).tolist() == [1, 255]


def test_counts_beyond_the_size_cost_nothing() -> None:
    assert cf.ones(3).diff(n=2**40).shape == (0,)
    assert cf.vander(cf.ones(2), N=5000).shape == (2, 5000)
    assert F.adaptive_max_pool1d(cf.ones(1, 1, 3), 5000).shape == (1, 1, 5000)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda: cf.zeros_like(None),
            "zeros_like: cannot take (None). It takes (input, dtype=None",
        ),
        (lambda: cf.rand(2, generator=3), "rand: cannot take (2, generator=3). It takes ("),
        (lambda: cf.equal(None, cf.ones(1)), "equal: cannot take (None, float32[1]). It takes ("),
        (
            lambda: cf.func.vjp(None, cf.ones(1)),
            "vjp: cannot take (None, float32[1]). It takes (func",
        ),
        (lambda: cf.nn.functional.relu_(3), "relu_: expected a tensor, not int."),
        (lambda: cf.linalg.tensorinv(cf.ones(2), "a"), "tensorinv: cannot take (float32[2], 'a')."),
    ],
)
def test_functions_that_are_no_ops_tell_what_they_take(call: Any, message: str) -> None:
    with pytest.raises(TypeError) as caught:
        call()
    assert str(caught.value).startswith(message)


def test_an_error_of_the_users_own_function_stays_as_it_is() -> None:
    def broken(x: Any) -> Any:
        return x.nothing_of_the_kind

    with pytest.raises(AttributeError, match="nothing_of_the_kind"):
        cf.func.vjp(broken, cf.ones(1))
