"""Compiled functions as objects: what they tell, as methods and modules too, copies and pickles."""

from __future__ import annotations

import copy
import inspect
import pickle
import queue
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import contraflow as cf
from contraflow.capture.compile import ANSWERS
from contraflow.testing import assert_close

pytestmark = pytest.mark.usefixtures("mode")


@cf.compile
def plus_one(x: Any) -> Any:
    """Add one."""
    return x + 1


def _doubled(x: Any) -> Any:
    return x * 2


doubled = cf.compile(_doubled, cache_size=3)


class Scale:
    def __init__(self, factor: float) -> None:
        self.factor = factor
        self.run = cf.compile(self.step)
        self.function = plus_one

    def step(self, x: Any) -> Any:
        return x * self.factor

    @cf.compile
    def method(self, x: Any) -> Any:
        """Multiply."""
        return x * self.factor

    def __repr__(self) -> str:
        return f"Scale({self.factor})"


class Net(cf.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = cf.nn.Linear(2, 2)
        self.run = cf.compile(self.go)
        self.function = plus_one

    def go(self, x: Any) -> Any:
        return self.layer(x)

    def forward(self, x: Any) -> Any:
        return self.function(self.run(x))


def test_functions_methods_and_modules_answer_alike() -> None:
    plus_one.clear()
    Scale.method.clear()
    scale, x = Scale(2.0), cf.ones(2)
    compiled = (plus_one, scale.run, scale.method, cf.compile(cf.nn.Linear(2, 2)))
    for f in compiled:
        for name in ("tape", "kernels", "memory"):
            with pytest.raises(cf.CaptureError) as raised:
                getattr(f, name)
            assert str(raised.value).endswith(
                "): no program is kept, since no call has been recorded. Call it first."
            )
        f(x)
        assert f.captures == len(f.programs) == 1
        assert f.explain().partition("): ")[2].startswith("1 program, 1 capture\nprogram 1: ")
        assert f.memory.results == 8
        assert len(f.tape.lines) >= 1
        assert len(f.kernels) >= (cf.config.compile_mode == "native")
        assert f.unobserved == []
        assert_close(f.eager(x), f(x))
        for name in ANSWERS:
            getattr(f, name)


def test_a_compiled_method_is_a_method() -> None:
    scale = Scale(2.0)
    assert scale.method == scale.method
    assert scale.method != Scale(2.0).method
    assert len({scale.method, scale.method, Scale(2.0).method}) == 2
    assert scale.method.__doc__ == "Multiply."
    assert scale.method.__name__ == "method"
    assert list(inspect.signature(scale.method).parameters) == ["x"]
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        scale.method.nothing  # noqa: B018


def test_texts() -> None:
    plus_one.clear()
    assert repr(plus_one) == "<compiled function plus_one with 0 programs>"
    plus_one(cf.ones(2))
    assert repr(plus_one) == "<compiled function plus_one with 1 program>"
    assert repr(Scale(2.0).method) == "<compiled method Scale.method of Scale(2.0)>"


def test_a_method_inside_another_function_is_a_part_of_it() -> None:
    scale = Scale(2.0)
    outer = cf.compile(lambda x: scale.method(x) + 1)
    for factor in (2.0, 3.0, 4.0, 5.0):
        scale.factor = factor
        assert_close(outer(cf.ones(2)), np.full(2, factor + 1, np.float32))


def test_a_method_can_be_returned() -> None:
    scale = Scale(2.0)
    get = cf.compile(lambda x: (scale.method, x + 1))
    for _ in range(3):
        assert get(cf.ones(2))[0] == scale.method


def test_a_function_is_copied_by_reference() -> None:
    assert copy.copy(plus_one) is copy.deepcopy(plus_one) is plus_one
    assert copy.deepcopy([plus_one, {"a": doubled}]) == [plus_one, {"a": doubled}]


@pytest.mark.parametrize(
    "copied", [copy.deepcopy, lambda x: pickle.loads(pickle.dumps(x))], ids=["deepcopy", "pickle"]
)
def test_an_object_with_compiled_functions_is_copied(copied: Any) -> None:
    scale = Scale(2.0)
    scale.run(cf.ones(2))
    Scale.method.clear()
    other = copied(scale)
    assert other.function is plus_one
    other.factor = 5.0
    for method in (other.run, other.method, copied(other.method)):
        assert_close(method(cf.ones(2)), np.full(2, 5.0, np.float32))
    assert_close(scale.run(cf.ones(2)), np.full(2, 2.0, np.float32))
    assert other.run.captures == 1

    net = Net()
    want = net(cf.ones(1, 2)).detach()
    for module in (net, cf.compile(net)):
        twin = copied(module)
        assert type(twin) is type(module)
        with cf.no_grad():
            net.layer.weight.add_(1)
        assert_close(twin(cf.ones(1, 2)).detach(), want)
        with cf.no_grad():
            net.layer.weight.sub_(1)


def test_pickles() -> None:
    assert pickle.loads(pickle.dumps(plus_one)) is plus_one
    other = pickle.loads(pickle.dumps(doubled))
    assert other is not doubled
    assert other.options == doubled.options
    assert_close(other(cf.ones(2)), np.full(2, 2.0, np.float32))

    def local(x: Any) -> Any:
        return x

    with pytest.raises((AttributeError, pickle.PicklingError), match="local object"):
        pickle.dumps(cf.compile(local))


def test_a_program_that_is_not_kept_cannot_be_looked_at() -> None:
    queued: queue.SimpleQueue[Any] = queue.SimpleQueue()
    f = cf.compile(lambda x: queued.put(x * 2), name="f")
    f(cf.ones(2))
    with pytest.raises(cf.CaptureError) as raised:
        _ = f.memory
    assert str(raised.value) == (
        "compile(f): no program is kept, since the last one serves one call only."
    )


def test_explain_names_ops_and_the_users_lines(mode):
    if mode != "native":
        pytest.skip("the interpreter runs no kernels")

    @cf.compile
    def step(x):
        y = cf.softmax(x, 1)
        return (y @ x.T).sum()

    step(cf.ones(4, 4))
    first = step.__wrapped__.__code__.co_firstlineno
    rows = [row.strip() for row in step.explain().splitlines()]
    kernels = [row for row in rows if row.startswith("kernel  ")]
    place = f"at {Path(__file__).name}"
    assert kernels[0].endswith(f": softmax {place}:{first + 2}")
    assert kernels[1].endswith(f": matmul {place}:{first + 3}")
    assert kernels[2].endswith(f": sum {place}:{first + 3}")
    assert kernels[0].startswith("kernel  column over [4, 4]: ")
    assert not re.search(r"_[0-9a-f]{12}\b", step.explain())  # digests are for `.kernels`
    assert all(re.fullmatch(r"\w+_[0-9a-f]{12}|contraction_\w+", name) for name in step.kernels)
