"""Values that ops refuse are refused by compiled functions too, with the error of the op."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest

import contraflow as cf
from contraflow import config

pytestmark = pytest.mark.usefixtures("mode")

GOOD = cf.tensor([0.1, 0.9, 0.5])
WRONG: list[tuple[Callable[[Any], Any], list[float], str]] = [
    (lambda p: p.bernoulli(), [0.1, 2.0, 0.5], "a probability lies between 0 and 1"),
    (lambda p: cf.bernoulli(p), [0.1, math.nan, 0.5], "a probability lies between 0 and 1"),
    (lambda p: cf.zeros(3).bernoulli_(p), [0.1, -0.1, 0.5], "a probability lies between 0 and 1"),
    (lambda p: p.half().bernoulli(), [0.1, 2.0, 0.5], "a probability lies between 0 and 1"),
    (lambda p: cf.multinomial(p, 2), [0.1, -1.0, 0.5], "weights are finite, positive or 0"),
    (lambda p: cf.multinomial(p, 2, True), [1.0, math.inf, 0.0], "weights are finite, positive"),
    (lambda p: cf.multinomial(p, 2), [0.0, 0.0, 0.0], "and not all 0 in a row"),
    (lambda p: cf.multinomial(p, 2, True), [0.0, 0.0, 0.0], "and not all 0 in a row"),
]


@pytest.mark.parametrize(("draw", "wrong", "text"), WRONG)
def test_probabilities_and_weights(draw: Any, wrong: list[float], text: str) -> None:
    state = cf.zeros(3)

    def function(p: Any) -> Any:
        state.add_(1)
        return draw(p)

    compiled = cf.compile(function)
    for bad in (False, False, True, False):
        given = cf.tensor(wrong) if bad else GOOD
        before, random = state.tolist(), cf.get_rng_state()
        if bad:
            with pytest.raises(ValueError, match=text) as raised:
                compiled(given)
            native = config.compile_mode == "native"
            assert not native or " at test_value_checks.py:" in str(raised.value)
            assert state.tolist() == before
            assert cf.get_rng_state() == random
            with pytest.raises(ValueError, match="has invalid elements"):
                function(given)
            state.sub_(1)
        else:
            found = compiled(given)
            after = cf.get_rng_state()
            cf.set_rng_state(random)
            assert found.tolist() == function(given).tolist()
            assert cf.get_rng_state() == after
    assert compiled.captures == 1


def test_a_check_behind_another_op_of_its_kernel() -> None:
    divide = cf.compile(lambda x: (x.to(cf.int32) // cf.tensor([1, 0, 2])).float())
    with pytest.raises(ZeroDivisionError, match="floor_divide: integers cannot be divided by zero"):
        divide(cf.tensor([1, 2, 3]))
