"""Functions of the user's in classes of the library are found whenever they are put there."""

from __future__ import annotations

import types
from typing import Any

import pytest

from contraflow import nn
from contraflow.capture.rewriting.library import functions_of_users


def scaled(self: nn.Identity, x: Any) -> Any:
    return 2 * x


def test_a_function_is_found_in_a_class_that_was_searched_before(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert functions_of_users(nn.Identity) == []
    monkeypatch.setattr(nn.Identity, "forward", scaled)
    assert functions_of_users(nn.Identity) == [scaled]
    monkeypatch.undo()
    assert functions_of_users(nn.Identity) == []


def test_code_of_a_method_that_is_replaced_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    method: Any = nn.Identity.forward
    assert functions_of_users(nn.Identity) == []
    monkeypatch.setattr(method, "__code__", scaled.__code__)
    assert functions_of_users(nn.Identity) == [method]


def test_classes_without_a_name_in_a_module_are_not_kept() -> None:
    made = types.new_class("Identity", (nn.Identity,), {}, lambda own: own.update(forward=scaled))
    made.__module__ = nn.Identity.__module__
    for _ in range(2):
        assert functions_of_users(made) == [scaled]
    assert functions_of_users(nn.Identity) == []


class Anything:
    """It equals whatever it is compared with."""

    def __eq__(self, other: object) -> bool:
        return True

    __hash__ = None  # type: ignore[assignment]


class Nothing:
    """It cannot be compared."""

    def __eq__(self, other: object) -> bool:
        raise ArithmeticError


@pytest.mark.parametrize("kind", [Anything, Nothing])
def test_a_function_is_found_in_the_place_of_an_object_with_its_own_equality(
    kind: type, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert functions_of_users(nn.Identity) == []
    monkeypatch.setattr(nn.Identity, "forward", kind())
    for _ in range(2):
        assert functions_of_users(nn.Identity) == []
    monkeypatch.setattr(nn.Identity, "forward", scaled)
    assert functions_of_users(nn.Identity) == [scaled]
