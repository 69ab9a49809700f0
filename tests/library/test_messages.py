"""Messages that say where in a model, and what was probably meant."""

from __future__ import annotations

import inspect
import json
import operator
import traceback
from collections.abc import Callable
from typing import Any

import pytest

import contraflow as cf
from contraflow import nn
from contraflow.operation.context import other_devices


def notes(model: nn.Module, *args: cf.Tensor) -> list[str]:
    with pytest.raises(ValueError) as caught:  # noqa: PT011 (its notes are what counts)
        model(*args)
    return caught.value.__notes__


def test_an_error_of_shapes_names_the_module() -> None:
    model = nn.Sequential(nn.ReLU(), nn.Linear(3, 2))
    assert notes(model, cf.ones(4, 5)) == ["in Sequential.1 (Linear)"]
    deep = nn.Sequential(nn.Sequential(nn.Identity(), model))
    assert notes(deep, cf.ones(4, 5)) == ["in Sequential.0.1.1 (Linear)"]
    assert notes(nn.Linear(3, 2), cf.ones(4, 5)) == ["in Linear"]


def test_a_module_that_is_called_and_not_held_ends_the_way() -> None:
    inner = nn.Linear(3, 2)

    class Outer(nn.Module):
        def forward(self, x: cf.Tensor) -> cf.Tensor:
            return inner(x)

    assert notes(Outer(), cf.ones(4, 5)) == ["in Linear"]


def test_an_error_in_a_compiled_model_names_the_module() -> None:
    model = cf.compile(nn.Sequential(nn.ReLU(), nn.Linear(3, 2)))
    with pytest.raises(ValueError, match="linear") as caught:
        model(cf.ones(4, 5))
    assert "in Sequential.1 (Linear)" in caught.value.__notes__


@pytest.mark.parametrize("name", ["mse_loss", "l1_loss", "smooth_l1_loss", "huber_loss"])
def test_a_target_of_another_shape_is_warned_of(name: str) -> None:
    loss = getattr(nn.functional, name)
    with pytest.warns(
        UserWarning, match=rf"{name}: the target float32\[8\] has another shape"
    ) as seen:
        loss(cf.ones(8, 1), cf.zeros(8))
    assert seen[0].filename == __file__
    loss(cf.ones(8), cf.zeros(8))  # and these are not
    loss(cf.ones(8, 2), cf.zeros(8, 1))
    loss(cf.ones(8), cf.tensor(0.5))


def test_an_optimizer_without_parameters_says_why() -> None:
    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layers = [nn.Linear(1, 1)]

    with pytest.raises(ValueError, match="layers that a module keeps in a plain list"):
        cf.optim.SGD(Model().parameters())


def test_a_summary_names_layers_in_plain_containers() -> None:
    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layers, self.sizes = [nn.Linear(1, 1)], [1, 2]
            self.inner = nn.Linear(1, 1)
            self.inner.heads = {"a": nn.Linear(1, 1)}

    *_, total, first, second = Model().summary().splitlines()
    assert total.startswith("2 parameters")
    ending = "they are neither counted nor trained. Use Module"
    assert first == f"layers keeps layers in a plain list: {ending}List."
    assert second == f"inner.heads keeps layers in a plain dict: {ending}Dict."


def test_signatures_are_those_of_the_call() -> None:
    assert str(inspect.signature(cf.tanh)) == "(x)"
    assert list(inspect.signature(cf.matmul).parameters)[:2] == ["a", "b"]
    assert "dim" in inspect.signature(cf.softmax).parameters
    assert "dim" in inspect.signature(cf.sum).parameters
    for op in cf.ops.REGISTRY.values():
        inspect.signature(op)


def test_a_traceback_has_the_users_frames_alone() -> None:
    class Block(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layers = nn.Sequential(nn.Linear(2, 3), nn.Linear(4, 1))

        def forward(self, x: cf.Tensor) -> cf.Tensor:
            return self.layers(x)

    with pytest.raises(ValueError, match="linear: ") as caught:
        nn.Sequential(Block())(cf.ones(1, 2))
    frames = traceback.extract_tb(caught.value.__traceback__)
    assert [frame.name for frame in frames] == [
        "test_a_traceback_has_the_users_frames_alone", "forward",
    ]  # fmt: skip
    assert {frame.filename for frame in frames} == {__file__}


@pytest.mark.parametrize(
    "wrong",
    [
        lambda x: cf.softmax(x, dim=3),
        lambda x: x.view(5),
        lambda x: x.long().mean(),
        lambda x: x + cf.ones(5),
        lambda x: x @ cf.ones(5),
        lambda x: cf.nn.functional.linear(x, cf.ones(4, 5)),
        lambda x: cf.multinomial(cf.zeros(3), 1),
        lambda x: cf.zeros("a"),
        lambda x: x[5],
        lambda x: operator.setitem(x, 5, 0.0),
        lambda x: cf.nn.functional.cross_entropy(x, cf.tensor([7, 0])),
    ],
)
@pytest.mark.parametrize("beside", ["the cpu alone", "another device"])
def test_the_traceback_of_an_op_has_the_users_frames_alone(
    wrong: Callable[..., Any], beside: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if beside == "another device":
        monkeypatch.setitem(other_devices, "another", None)
    with pytest.raises((ValueError, TypeError, IndexError)) as caught:
        wrong(cf.ones(2, 3))
    frames = traceback.extract_tb(caught.value.__traceback__)
    assert {frame.filename for frame in frames} == {__file__}


def test_a_fault_of_ours_keeps_its_frames() -> None:
    class Faulty(nn.Module):
        def forward(self, x: cf.Tensor) -> cf.Tensor:
            return json.loads("{")

    with pytest.raises(ValueError, match="Expecting property name") as caught:
        nn.Sequential(Faulty())(cf.ones(1))
    names = [frame.name for frame in traceback.extract_tb(caught.value.__traceback__)]
    assert names.count("__call__") == 2


def test_a_misspelt_name_is_corrected_once() -> None:
    """Python adds a suggestion of its own to an AttributeError that knows its object."""
    try:
        cf.nn.Linaer  # noqa: B018
    except AttributeError as error:
        shown = "".join(traceback.format_exception(error))
    assert shown.count("Did you mean") == 1
    assert shown.endswith("has no attribute 'Linaer'. Did you mean 'Linear'?\n")


def test_an_optimizer_says_how_the_learning_rate_is_called() -> None:
    with pytest.raises(TypeError, match=r"'learning_rate' is unknown. Did you mean lr\?"):
        cf.optim.Adam([cf.ones(2, requires_grad=True)], learning_rate=0.1)
