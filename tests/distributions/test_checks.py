"""Parameters and values that distributions refuse, eagerly, compiled and batched."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest

import contraflow as cf
from contraflow import config
from contraflow import distributions as D

WRONG: list[tuple[Callable[[], Any], type[Exception], str]] = [
    (lambda: D.Normal(0.0, -1.0), ValueError,
     "Normal: scale is float32[] and must be greater than 0.0; -1.0 is not."),
    (lambda: D.Normal(cf.zeros(2), cf.tensor([1.0, 0.0])), ValueError,
     "Normal: scale is float32[2] and must be greater than 0.0; 0.0 is not."),
    (lambda: D.Normal(math.nan, 1.0), ValueError,
     "Normal: loc is float32[] and must be a number, not NaN; nan is not."),
    (lambda: D.Normal("x", 1.0), TypeError,
     "broadcast_all: a parameter is a number or a tensor, not str."),
    (lambda: D.Normal(cf.zeros(2), cf.ones(3)), ValueError,
     "broadcast_tensors: shapes [2] and [3] do not broadcast: sizes 2 and 3 differ at dim -1."),
    (lambda: D.Normal(cf.zeros(3), 1.0).log_prob(cf.zeros(4)), ValueError,
     "Normal: shapes [4] and [3] do not broadcast: sizes 3 and 4 differ at dim -1."),
    (lambda: D.Normal(0.0, 1.0).log_prob(1.0), TypeError,
     "Normal: a value is a tensor, not float."),
    (lambda: D.Uniform(1.0, 0.0), ValueError,
     "Uniform: high is float32[] and must be greater than 1.0; 0.0 is not."),
    (lambda: D.Uniform(0.0, 1.0).log_prob(cf.tensor(2.0)), ValueError,
     "Uniform: value is float32[] and must be between 0.0 and 1.0; 2.0 is not."),
    (lambda: D.Bernoulli(), ValueError,
     "Bernoulli: neither probs nor logits is given; give one of them."),
    (lambda: D.Bernoulli(0.5, 0.0), ValueError,
     "Bernoulli: both probs and logits are given; give one of them."),
    (lambda: D.Categorical(0.5), ValueError,
     "Categorical: probs is 0.5; it needs a dim of classes, the last."),
    (lambda: D.Categorical(cf.tensor([-1.0, 2.0])), ValueError,
     "Categorical: probs is float32[2] and must be nonnegative with the sum 1 along the last dim."),
    (lambda: D.Categorical(cf.ones(3)).log_prob(cf.tensor(3)), ValueError,
     "Categorical: value is int64[] and must be a whole number from 0 to 2; 3.0 is not."),
    (lambda: D.Categorical(cf.ones(3)).rsample(), NotImplementedError,
     "Categorical: it has no rsample."),
    (lambda: D.Distribution.set_default_validate_args(1), ValueError,
     "set_default_validate_args: 1 is neither True nor False."),
]  # fmt: skip


@pytest.mark.parametrize(("make", "error", "text"), WRONG, ids=[text for *_, text in WRONG])
def test_messages(make: Callable[[], Any], error: type[Exception], text: str) -> None:
    with pytest.raises(error) as raised:
        make()
    assert str(raised.value) == text


def test_checks_can_be_turned_off() -> None:
    assert D.Normal(0.0, -1.0, validate_args=False).scale.item() == -1.0
    D.Distribution.set_default_validate_args(False)
    try:
        assert D.Normal(0.0, -1.0).scale.item() == -1.0
    finally:
        D.Distribution.set_default_validate_args(True)
    with pytest.raises(ValueError, match="greater than 0"):
        D.Normal(0.0, -1.0)


@pytest.mark.usefixtures("mode")
def test_programs_check_too_and_name_what_is_wrong() -> None:
    @cf.compile
    def log_prob(loc: Any, scale: Any, p: Any, value: Any) -> Any:
        bits = D.Bernoulli(p)
        return D.Normal(loc, scale).log_prob(value) + bits.log_prob(cf.ones(2)), bits.probs

    def given(**changed: list[float]) -> list[Any]:
        good = {"loc": [1.0, 1.0], "scale": [1.0, 1.0], "p": [0.5, 0.5], "value": [1.0, 1.0]}
        return [cf.tensor(x) for x in {**good, **changed}.values()]

    log_prob(*given())
    wrong = {
        "Normal: scale must be greater than 0.0": given(scale=[1.0, 0.0]),
        "Normal: loc must be a number, not NaN": given(loc=[math.nan, 0.0]),
        "Normal: value must be a number, not NaN": given(value=[math.nan, 0.0]),
        "Bernoulli: probs must be between 0.0 and 1.0": given(p=[2.0, 0.5]),
    }
    for text, parameters in wrong.items():
        with pytest.raises(ValueError, match=text) as raised:
            log_prob(*parameters)
        assert config.compile_mode == "interpret" or ", at test_checks.py:" in str(raised.value)
    assert log_prob.captures == 1


def test_examples_of_a_batch_are_checked() -> None:
    def log_prob(scale: Any) -> Any:
        return D.Normal(0.0, scale).log_prob(cf.zeros(()))

    found = cf.func.vmap(log_prob)(cf.tensor([1.0, 2.0]))
    assert found.tolist() == D.Normal(0.0, cf.tensor([1.0, 2.0])).log_prob(cf.zeros(2)).tolist()
    with pytest.raises(ValueError, match="Normal: scale must be greater than 0"):
        cf.func.vmap(log_prob)(cf.tensor([1.0, -2.0]))


def test_shapes_of_distributions_count_their_elements() -> None:
    rows = D.Independent(D.Normal(cf.zeros(2, 3), 1.0), 1)
    assert (rows.batch_shape.numel(), rows.event_shape.numel()) == (2, 3)
    assert D.Normal(0.0, 1.0).expand((4, 5)).batch_shape.numel() == 20
