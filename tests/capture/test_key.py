"""The key of a compiled call: each part is noticed, with and without a hit, and named to people."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import contraflow as cf
from contraflow import config
from contraflow.capture.hit import MISS, misses
from contraflow.capture.key import PARTS, ModesKey, SettingsKey, TensorKey

X = cf.tensor([[1.0, 2.0], [3.0, 4.0]])
WIDE = cf.tensor([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]])


class Marked(cf.Tensor):
    """A tensor of a class of its own."""

    @staticmethod
    def of(x: cf.Tensor) -> cf.Tensor:
        t = x.clone()
        t.__class__ = Marked
        return t


def read_only() -> cf.Tensor:
    array = np.ones((2, 2), np.float32)
    array.setflags(write=False)
    return cf.from_dlpack(array)


def uncut(part: cf.Tensor) -> cf.Tensor:
    """A part of a larger tensor that is not given as memory of its own: it has an attribute."""
    part.name = "part"
    return part


# A part, arguments for which it differs, and what people are told.
TENSORS: dict[str, list[tuple[Callable[[], tuple[cf.Tensor, ...]], str]]] = {
    "kind": [(lambda: (X, Marked.of(X)), "the class of y was Tensor and is Marked")],
    "layout": [
        (lambda: (WIDE, X), "the shape of x was (2, 2) and is (2, 3)"),
        (lambda: (X.T, X.clone()), "the stride of x was (2, 1) and is (1, 2)"),
        (
            lambda: (X, uncut(cf.arange(6.0).as_strided((2, 2), (2, 1), 2))),
            "the offset of y was 0 and is 2",
        ),
    ],
    "dtype": [(lambda: (X, X.double()), "the dtype of y was float32 and is float64")],
    "requires_grad": [
        (lambda: (X.clone().requires_grad_(), X), "requires_grad of x was False and is True")
    ],
    "alias": [(lambda: (X, X), "which arguments share memory has changed")],
    "size": [
        (
            lambda: (uncut(cf.arange(5.0).as_strided((2, 2), (2, 1))), X),
            "the size of the memory of x was 4 and is 5",
        )
    ],
    "frozen": [
        (lambda: (read_only(), X), "the protection of x against writes was False and is True")
    ],
}


def warmed() -> Any:
    """A compiled function that hits for two tensors."""

    @cf.compile
    def f(x: cf.Tensor, y: cf.Tensor) -> cf.Tensor:
        return x + y.sum()

    for _ in range(3):
        f(X, X.clone())
    assert f._hit is not misses
    assert f._hit((X, X.clone())) is not MISS
    return f


@pytest.mark.parametrize(
    ("arguments", "text"), [case for cases in TENSORS.values() for case in cases]
)
def test_parts_of_tensors(arguments: Callable[[], tuple[cf.Tensor, ...]], text: str) -> None:
    f, given = warmed(), arguments()
    assert f._hit(given) is MISS
    assert f(*given).tolist() == f.eager(*given).tolist()
    assert f.changes == [text]
    assert f"recorded again: {text}" in f.explain()


MODES: dict[str, tuple[Callable[[], Any], str]] = {
    "grad": (cf.no_grad, "grad mode was True and is False"),
    "inference": (cf.inference_mode, "inference mode was False and is True"),
    "autocast": (lambda: cf.amp.autocast("cpu"), "autocast was None and is bfloat16"),
}


@pytest.mark.parametrize("mode", MODES)
def test_modes(mode: str) -> None:
    enter, text = MODES[mode]
    f = warmed()
    with enter():
        assert f._hit((X, X.clone())) is MISS
        f(X, X.clone())
    assert f.changes == [text]


SETTINGS: dict[str, tuple[Any, str, Any, str]] = {
    "num_threads": (config, "num_threads", 3, "the number of threads was {} and is 3"),
    "compile_mode": (
        config, "compile_mode", "interpret", "config.compile_mode was native and is interpret",
    ),
    "default_dtype": (
        cf.dtypes, "_default", cf.float64, "the default dtype was float32 and is float64",
    ),
}  # fmt: skip


@pytest.mark.parametrize("setting", SETTINGS)
def test_settings(setting: str, monkeypatch: pytest.MonkeyPatch) -> None:
    where, name, value, text = SETTINGS[setting]
    f, before = warmed(), getattr(where, name)
    monkeypatch.setattr(where, name, value)
    assert f._hit((X, X.clone())) is MISS
    f(X, X.clone())
    assert f.changes == [text.format(before)]


def test_one_tensor_is_told_from_two_that_share_memory() -> None:
    f = cf.compile(lambda x, y: x * (2 if x is y else 3))
    for given in ((X, X.detach()), (X, X)) * 2:
        assert f(*given).tolist() == f.eager(*given).tolist()
    assert f.changes == ["which arguments are one tensor has changed"]


def test_every_part_is_tested() -> None:
    device = {"device"}  # by tests/devices/test_walled.py
    assert set(TENSORS) == set(TensorKey._fields) - device - {"twin"}
    assert set(MODES) == set(ModesKey._fields) - device
    assert set(SETTINGS) == set(SettingsKey._fields) - {"default_device"}
    assert set(PARTS) == {TensorKey, ModesKey, SettingsKey}


def test_names_of_nested_arguments() -> None:
    @cf.compile
    def f(batch: dict[str, Any], *rest: cf.Tensor) -> cf.Tensor:
        return batch["x"][0] + rest[0]

    f({"x": [X], "n": 1}, X.clone())
    f({"x": [X.double()], "n": 1}, X.clone())
    f({"x": [X], "n": 1}, X.clone().requires_grad_())
    f({"x": [X], "n": 1}, X.clone(), X.clone())
    assert f.changes == [
        "the dtype of batch['x'][0] was float32 and is float64",
        "the dtype of batch['x'][0] was float64 and is float32",
        "an argument that is not a tensor has changed",
    ]
