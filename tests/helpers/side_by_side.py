"""Compiled and eager calls side by side: what they leave behind must agree."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np

import contraflow as cf
from contraflow.testing import assert_close


@dataclasses.dataclass
class Setting:
    """A function, what it is called with each time, and the tensors it may change."""

    function: Callable[..., Any]
    arguments: Callable[[int], tuple[Any, ...]]
    state: list[Any]


def both(build: Callable[[], Setting], calls: int = 3) -> Any:
    """Call compiled and eager side by side; results, arguments, state and gradients must agree."""
    cf.manual_seed(7)
    expected = build()
    cf.manual_seed(7)
    actual = build()
    compiled = cf.compile(actual.function)
    random = cf.get_rng_state()
    for call in range(calls):
        cf.set_rng_state(random)
        given = expected.arguments(call)
        want = expected.function(*given)
        after = cf.get_rng_state()
        cf.set_rng_state(random)
        passed = actual.arguments(call)
        got = compiled(*passed)
        assert cf.get_rng_state() == after, f"call {call}: the random state"
        random = after
        same(got, want, f"call {call}: result")
        same(passed, given, f"call {call}: argument")
        same(actual.state, expected.state, f"call {call}: state")
    return compiled


def same(actual: Any, expected: Any, place: str) -> None:
    """Equal structures of close tensors with equal gradients."""
    if isinstance(expected, cf.Tensor):
        assert isinstance(actual, cf.Tensor), place
        assert_close(actual.detach(), expected.detach())
        same(actual.grad, expected.grad, f"{place}.grad")
    elif isinstance(expected, (tuple, list)):
        assert len(actual) == len(expected), place
        for i, (a, b) in enumerate(zip(actual, expected)):
            same(a, b, f"{place}[{i}]")
    elif isinstance(expected, dict):
        assert list(actual) == list(expected), place
        for key in expected:
            same(actual[key], expected[key], f"{place}[{key!r}]")
    elif isinstance(expected, np.ndarray):
        np.testing.assert_array_equal(actual, expected, place)
    else:
        assert actual == expected, place


def leaf(*shape: int) -> cf.Tensor:
    return cf.randn(*shape, requires_grad=True)
