"""A compiled module is the module: its parameters, modes, hooks and state, and its gradients."""

from __future__ import annotations

import copy
import gc
import pickle
import weakref
from typing import Any

import numpy as np
import pytest

import contraflow as cf
from contraflow.testing import assert_close

pytestmark = pytest.mark.usefixtures("mode")


class Net(cf.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first = cf.nn.Linear(3, 4)
        self.norm = cf.nn.BatchNorm1d(4)
        self.second = cf.nn.Linear(4, 2)
        self.scale = 2.0

    def forward(self, x: Any, shift: Any = None) -> Any:
        out = self.second(self.norm(self.first(x)).tanh()) * self.scale
        return out if shift is None else out + shift

    def describe(self) -> str:
        return f"scaled by {self.scale}"


def pair() -> tuple[Any, Any]:
    cf.manual_seed(5)
    eager = Net()
    return cf.compile(copy.deepcopy(eager)), eager


def check(compiled: Any, eager: Any, **named: Any) -> None:
    x = cf.randn(5, 3, dtype=next(eager.parameters()).dtype)
    compiled.zero_grad()
    eager.zero_grad()
    got, want = compiled(x, **named), eager(x, **named)
    assert_close(got.detach(), want.detach())
    if want.requires_grad:
        got.square().sum().backward()
        want.square().sum().backward()
    for (name, p), (other, q) in zip(compiled.named_parameters(), eager.named_parameters()):
        assert name == other
        assert (p.grad is None) == (q.grad is None)
        if p.grad is not None:
            assert_close(p.grad, q.grad, 1e-4, 1e-4)
    for p, q in zip(compiled.buffers(), eager.buffers()):
        assert_close(p, q)


def test_calls_and_gradients() -> None:
    compiled, eager = pair()
    for _ in range(3):
        check(compiled, eager)
    assert compiled.captures == 1
    check(compiled, eager, shift=cf.ones(2))
    assert compiled.captures == 2
    assert "Net" in compiled.explain()


def test_it_is_a_module_of_its_kind() -> None:
    compiled, eager = pair()
    assert isinstance(compiled, Net)
    assert isinstance(compiled, cf.nn.CompiledModule)
    assert list(compiled.state_dict()) == list(eager.state_dict())
    assert repr(compiled) == repr(eager)
    assert compiled.describe() == "scaled by 2.0"
    assert compiled.first.in_features == 3
    assert cf.compile(compiled) is compiled
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = compiled.nothing


def test_changes_are_noticed() -> None:
    compiled, eager = pair()
    check(compiled, eager)
    for module in (compiled, eager):
        module.eval()
    check(compiled, eager)
    for module in (compiled, eager):
        module.train()
        module.scale = 3.0
    check(compiled, eager)
    for module in (compiled, eager):
        module.register_forward_hook(lambda m, args, out: out * 2)
        module.first.register_full_backward_hook(
            lambda m, gi, go: tuple(g if g is None else g * 2 for g in gi)
        )
    check(compiled, eager)
    for module in (compiled, eager):
        module.to(cf.float64)
    check(compiled, eager)
    for module in (compiled, eager):
        module.first.requires_grad_(False)
    check(compiled, eager)
    eager.load_state_dict(compiled.state_dict())
    check(compiled, eager)


def test_the_original_is_the_same_module() -> None:
    model = Net()
    compiled = cf.compile(model)
    compiled.eval()
    assert not model.training
    model.scale = 7.0
    assert compiled.scale == 7.0
    assert compiled.first is model.first


def test_as_a_part_of_a_model() -> None:
    cf.manual_seed(1)
    inner = cf.nn.Linear(3, 3)
    model = cf.nn.Sequential(cf.compile(inner), cf.nn.ReLU())
    twin = cf.nn.Sequential(copy.deepcopy(inner), cf.nn.ReLU())
    assert list(model.state_dict()) == list(twin.state_dict())
    check(model, twin)
    optimizer = cf.optim.SGD(model.parameters(), lr=0.1)
    optimizer.step()
    assert not np.allclose(model[0].weight.detach().numpy(), twin[0].weight.detach().numpy())

    @cf.compile
    def step(x: Any) -> Any:
        model.zero_grad()
        model(x).sum().backward()

    step(cf.ones(2, 3))
    assert model[0].weight.grad is not None


def test_copies_and_pickles_are_compiled_too() -> None:
    compiled, eager = pair()
    other = copy.deepcopy(compiled)
    assert isinstance(other, cf.nn.CompiledModule)
    assert other.first.weight is not compiled.first.weight
    check(other, eager)
    layer = cf.compile(cf.nn.Linear(2, 2))
    loaded = pickle.loads(pickle.dumps(layer))
    assert isinstance(loaded, cf.nn.CompiledModule)
    assert_close(loaded(cf.ones(1, 2)).detach(), layer(cf.ones(1, 2)).detach())


def test_decorators_with_options() -> None:
    compiled = cf.compile(name="net", enabled=False)(Net())
    compiled(cf.ones(2, 3))
    assert compiled.captures == 0
    with pytest.raises(TypeError, match="compile: int is not callable"):
        cf.compile(3)


class Trainer:
    def __init__(self) -> None:
        self.w = cf.ones(3)
        self.run = cf.compile(self.step)

    def step(self, x: Any) -> Any:
        return x * self.w

    @cf.compile
    def method(self, x: Any) -> Any:
        return x + self.w


def test_a_compiled_method_does_not_keep_its_object() -> None:
    trainer = Trainer()
    ref = weakref.ref(trainer)
    gc.disable()
    try:
        assert_close(trainer.run(cf.ones(3)), np.ones(3, np.float32))
        assert_close(trainer.method(cf.ones(3)), np.full(3, 2.0, np.float32))
        run = trainer.run
        del trainer
        assert ref() is None
    finally:
        gc.enable()
    with pytest.raises(ReferenceError, match="the object this method belongs to no longer exists"):
        run(cf.ones(3))


def test_a_compiled_module_goes_with_its_last_user() -> None:
    compiled = cf.compile(cf.nn.Linear(2, 2))
    compiled(cf.ones(1, 2))
    ref = weakref.ref(compiled.weight)
    del compiled
    gc.collect()
    assert ref() is None
