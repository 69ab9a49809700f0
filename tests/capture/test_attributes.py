"""Attributes that a compiled function reads: a change of one is noticed, as eager would."""

from __future__ import annotations

import queue
import types
from typing import Any

import numpy as np
import pytest

import contraflow as cf
from contraflow import nn
from contraflow.capture.observing import attributes, changes
from contraflow.capture.state.places import own_attributes
from contraflow.capture.state.writes import refills
from contraflow.tensors.epoch import names_attribute
from contraflow.testing import assert_close

pytestmark = pytest.mark.usefixtures("mode")


class Inner:
    default = 5.0

    def __init__(self, value: float) -> None:
        self.value = value


class Slotted:
    __slots__ = ("value",)

    def __init__(self, value: float) -> None:
        self.value = value


class Scale:
    def __init__(self, alpha: float) -> None:
        self.alpha = alpha
        self.inner = Inner(1.0)
        self.slotted = Slotted(1.0)
        self.bias = cf.zeros(1)

    def direct(self, x: Any) -> Any:
        return x * self.alpha

    def indirect(self, x: Any) -> Any:
        return self.shifted(x) * self.alpha

    def shifted(self, x: Any) -> Any:
        return x + self.inner.value + helper(self)

    @cf.compile
    def decorated(self, x: Any) -> Any:
        return x * self.alpha * self.inner.default * self.slotted.value + self.bias


def helper(scale: Scale) -> float:
    return settings.offset


settings = types.SimpleNamespace(offset=0.0)
one = cf.ones(1)


def test_numbers_of_self() -> None:
    scale = Scale(2.0)
    f = cf.compile(scale.direct)
    for alpha in (2.0, 3.0, 2.0, 3.0):
        scale.alpha = alpha
        assert f(one).item() == alpha
    assert f.captures == 2


def test_methods_and_functions_that_are_called() -> None:
    scale = Scale(2.0)
    f = cf.compile(scale.indirect)
    assert f(one).item() == 4.0
    scale.inner.value = 3.0
    assert f(one).item() == 8.0
    scale.inner = Inner(5.0)
    assert f(one).item() == 12.0
    settings.offset = 1.0
    try:
        assert f(one).item() == 14.0
    finally:
        settings.offset = 0.0
    assert f(one).item() == 12.0
    assert f.captures == 4


def test_decorated_methods_classes_and_slots() -> None:
    first, second = Scale(1.0), Scale(2.0)
    Scale.decorated.clear()
    assert first.decorated(one).item() == 5.0
    assert second.decorated(one).item() == 10.0
    Inner.default = 7.0
    try:
        assert first.decorated(one).item() == 7.0
        first.slotted.value = 3.0
        assert first.decorated(one).item() == 21.0
        first.bias = cf.ones(1)
        assert first.decorated(one).item() == 22.0
        first.bias.add_(1)
        captures = Scale.decorated.captures
        assert first.decorated(one).item() == 23.0
        assert Scale.decorated.captures == captures
    finally:
        Inner.default = 5.0


def test_objects_in_closures_and_lambdas_within() -> None:
    scale = Scale(2.0)

    @cf.compile
    def f(x: Any) -> Any:
        return sum((lambda t: t * scale.alpha)(t) for t in [x, x])

    assert f(one).item() == 4.0
    scale.alpha = 3.0
    assert f(one).item() == 6.0


def test_a_replaced_optimizer() -> None:
    class Trainer:
        def __init__(self) -> None:
            self.w = cf.ones(2, requires_grad=True)
            self.opt: Any = cf.optim.SGD([self.w], lr=1.0)

        def step(self, x: Any) -> None:
            self.opt.zero_grad()
            (self.w * x).sum().backward()
            self.opt.step()

    trainer = Trainer()
    step = cf.compile(trainer.step)
    step(cf.ones(2))
    assert_close(trainer.w.detach(), np.zeros(2, np.float32))
    old = trainer.opt
    trainer.opt = cf.optim.SGD([trainer.w], lr=5.0)
    step(cf.ones(2))
    assert_close(trainer.w.detach(), np.full(2, -5.0, np.float32))
    trainer.opt = old
    step(cf.ones(2))
    assert_close(trainer.w.detach(), np.full(2, -6.0, np.float32))
    assert step.captures == 2


def test_plain_objects_behind_modules() -> None:
    class Net(cf.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.settings = Inner(2.0)

        def forward(self, x: Any) -> Any:
            return x * self.settings.value

    model = Net()
    f = cf.compile(lambda x: model(x))
    compiled = cf.compile(model)
    for value in (2.0, 4.0):
        model.settings.value = value
        assert f(one).item() == value
        assert compiled(one).item() == value


def test_a_counter_is_counted_as_in_eager() -> None:
    class Counter:
        count = 0

        def step(self, x: Any) -> Any:
            self.count += 1
            return x * self.count

    counter = Counter()
    step = cf.compile(counter.step)
    for call in range(1, 12):
        assert step(one).item() == call
    assert counter.count == 11
    assert step.captures == 2, "the class has it at first, then the object"


def test_what_an_object_computes_is_run_when_it_is_recorded() -> None:
    ran: queue.SimpleQueue[int] = queue.SimpleQueue()

    class Lazy:
        @property
        def value(self) -> float:
            ran.put(1)
            return 2.0

        def __getattr__(self, name: str) -> Any:
            raise AssertionError(name)

    lazy = Lazy()
    f = cf.compile(lambda x: x * lazy.value)
    f(one)
    f(one)
    assert ran.qsize() == 1


def test_a_function_that_an_object_keeps_is_no_method_of_it() -> None:
    holder = types.SimpleNamespace(scale=1.0)
    holder.function = lambda given, x: given.scale * x
    other = types.SimpleNamespace(scale=4.0)
    f = cf.compile(lambda x: holder.function(other, x))
    assert f(one).item() == 4.0
    holder.scale = 2.0
    assert f(one).item() == 4.0
    assert f.captures == 1


def test_arguments_that_are_objects_or_dataclasses() -> None:
    f = cf.compile(lambda x, scale: x * scale.alpha)
    scale = Scale(2.0)
    assert f(one, scale).item() == 2.0
    scale.alpha = 3.0
    assert f(one, scale).item() == 3.0
    assert f(one, scale=scale).item() == 3.0
    assert f(one, scale).item() == 3.0
    assert f.captures == 3


def test_an_attribute_that_is_deleted_is_gone_in_the_next_call() -> None:
    space = types.SimpleNamespace(y=1)

    @cf.compile
    def f(x: cf.Tensor) -> cf.Tensor:
        del space.y
        return x * 2

    f(cf.ones(1))
    assert vars(space) == {}
    with pytest.raises(AttributeError, match="has no attribute 'y'"):
        f(cf.ones(1))
    space.y = 2
    f(cf.ones(1))
    assert vars(space) == {}


# --- work while recording ------------------------------------------------------------------------


@pytest.mark.filterwarnings("ignore:.*was not observed")  # the function that counts
def test_attributes_of_parameters_take_no_walk_over_all_modules(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked = 0

    def counted(x: Any, *default: Any) -> Any:
        nonlocal asked
        asked += 1
        return own_attributes(x, *default)

    monkeypatch.setattr(attributes, "own_attributes", counted)
    counts = []
    for layers in (20, 40):
        net, asked = nn.Sequential(*(nn.Linear(2, 2) for _ in range(layers))), 0

        def f(x: cf.Tensor, net: nn.Sequential = net) -> cf.Tensor:
            for p in net.parameters():
                x = x * getattr(p, "scale", 1.5)
            return x

        cf.compile(f)(cf.ones(2))
        counts.append(asked)
    assert counts[1] < 2.5 * counts[0], counts


@pytest.mark.filterwarnings("ignore:.*was not observed")  # the function that counts
def test_a_container_is_put_back_once(monkeypatch: pytest.MonkeyPatch) -> None:
    noted = []

    def counted(container: Any, contents: Any) -> Any:
        noted.append(container)
        return refills(container, contents)

    monkeypatch.setattr(changes, "refills", counted)
    table = {f"key {i}": float(i) for i in range(50)}

    def f(x: cf.Tensor) -> cf.Tensor:
        for i in range(50):
            value = table[f"key {i}"]
            del table[f"key {i}"]
            table[f"key {i}"] = value
            x = x + value
        return x

    cf.compile(f)(cf.ones(2))
    assert sum(container is table for container in noted) == 1
    assert list(table) == [f"key {i}" for i in range(50)]


class Quiet(cf.nn.Dropout):
    """A layer of the user's, whose setting the library's code reads."""


def test_a_setting_of_a_layer_that_another_compiled_function_writes() -> None:
    drop = Quiet(1.0)

    @cf.compile
    def dropped(x: cf.Tensor) -> cf.Tensor:
        y: cf.Tensor = drop(x)
        return y

    @cf.compile
    def turn_off(x: cf.Tensor) -> cf.Tensor:
        drop.p = drop.p * 0.0
        return x * 2

    assert dropped(cf.ones(1)).item() == 0.0
    turn_off(cf.ones(1))
    assert dropped(cf.ones(1)).item() == 1.0


@pytest.mark.parametrize("name", sorted(n for n in vars(cf.nn) if n[0].isupper()))
def test_all_that_a_layer_keeps_is_named_by_its_code(name: str) -> None:
    """Else recordings would not notice that it changes."""
    kind = getattr(cf.nn, name)
    if not issubclass(kind, cf.nn.Module):
        return
    for given in ((), (4,), (4, 4), (4, 4, 1), (2,), (4, 2, 1)):
        try:
            kept = vars(kind(*given))
        except (AttributeError, TypeError, ValueError):  # of other arguments, or a base
            continue
        assert {n for n in kept if not names_attribute(kind, n)} == set()
        return


def test_an_op_that_the_package_finds_late_is_not_a_change(monkeypatch):
    monkeypatch.delitem(vars(cf), "hypot", raising=False)
    compiled = cf.compile(lambda x: cf.hypot(x, x))
    for _ in range(3):
        compiled(cf.ones(3))
    assert compiled.captures == 1


def test_a_module_that_the_package_finds_late_is_not_a_change(monkeypatch):
    monkeypatch.delitem(vars(cf), "special", raising=False)
    compiled = cf.compile(lambda x: cf.special.erf(x))
    for _ in range(3):
        compiled(cf.ones(3))
    assert compiled.captures == 1
