"""What a recording holds for: each change that it does not hold for is noticed."""

from __future__ import annotations

import gc
import threading
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from tests.helpers.programs_beside import beside
from tests.helpers.side_by_side import Setting, both, leaf

import contraflow as cf
from contraflow import thresholds
from contraflow.testing import assert_close

pytestmark = pytest.mark.usefixtures("mode")


def test_replacing_data_is_noticed() -> None:
    layer = cf.nn.Linear(2, 2)
    step = cf.compile(cf.no_grad()(lambda x: layer(x)))
    x = cf.randn(3, 2)
    old = layer.weight.data
    for new in (old, cf.randn(2, 2), old):
        layer.weight.data = new
        with cf.no_grad():
            assert_close(step(x), layer(x))


def test_a_tensor_read_through_detach_is_guarded() -> None:
    w = cf.randn(3)
    step = cf.compile(lambda x: x * w.detach())
    step(cf.ones(3))
    old = w.data
    w.data = cf.zeros(3)
    assert_close(step(cf.ones(3)), np.zeros(3, np.float32))
    assert old is not None


def test_a_new_parameter_is_noticed() -> None:
    layer = cf.nn.Linear(2, 2)
    step = cf.compile(cf.no_grad()(lambda x: layer(x)))
    step(cf.ones(1, 2))
    layer.weight = cf.nn.Parameter(cf.zeros(2, 2))
    with cf.no_grad():
        assert_close(step(cf.ones(1, 2)), layer(cf.ones(1, 2)))
    assert step.captures == 2


def test_requires_grad_is_noticed() -> None:
    a, b = leaf(3), leaf(3)
    step = cf.compile(lambda: (a * b).sum().backward())
    step()
    b.requires_grad_(False)
    a.grad = b.grad = None
    step()
    assert b.grad is None
    assert_close(a.grad, b.detach())


@pytest.mark.parametrize("cycle", [False, True])
def test_a_leaf_made_of_captured_state_is_recorded_once(cycle: bool) -> None:
    """Its slot is gone with it, so that nothing of a later call depends on it."""
    w = cf.tensor([1.0, 2.0])

    @cf.compile
    def step(x: cf.Tensor) -> tuple[cf.Tensor, cf.Tensor]:
        leaf = w.detach().requires_grad_()
        other = x.detach().requires_grad_()
        if cycle:
            leaf.register_hook(lambda g: g + 0.0 * leaf.detach())
        assert leaf.grad is None
        (leaf * other * leaf).sum().backward()
        return leaf.grad, other.grad

    for k in range(5):
        x = cf.tensor([1.0 + k, 2.0])
        of_w, of_x = step(x)
        assert of_w.tolist() == [2.0 + 2.0 * k, 8.0]
        assert of_x.tolist() == [1.0, 4.0]
        gc.collect()
        with cf.no_grad():
            w.add_(0.0)
    assert step.captures == 1
    assert not w.requires_grad
    assert w.grad is None


def test_a_leaf_made_of_captured_state_is_returned_as_one() -> None:
    w = cf.tensor([1.0, 2.0])

    @cf.compile
    def f(x: cf.Tensor) -> tuple[cf.Tensor, cf.Tensor]:
        return w.detach().requires_grad_(), x * 1.0

    for _ in range(3):
        leaf, _ = f(cf.ones(2))
        assert leaf.requires_grad
        assert leaf.is_leaf
        assert leaf.storage is w.storage
        (leaf * 3.0).sum().backward()
        assert leaf.grad.tolist() == [3.0, 3.0]
    assert not w.requires_grad
    assert f.captures == 1


def test_requires_grad_inside_a_step() -> None:
    def build() -> Setting:
        w, frozen = cf.randn(3), leaf(3)

        def step(x: Any) -> Any:
            w.requires_grad_()
            frozen.requires_grad_(False)
            x.requires_grad_()
            (w * x * frozen).sum().backward()
            return w.requires_grad, x.grad

        return Setting(step, lambda _: (cf.randn(3),), [w, frozen])

    compiled = both(build)
    assert compiled.captures == 2, "w required no grad at first"
    arguments = [cf.randn(3) for _ in range(2)]
    step = cf.compile(lambda x: x.requires_grad_() * 2)
    for x in arguments:
        out = step(x)
        assert x.requires_grad
        out.sum().backward()
        assert_close(x.grad, np.full(3, 2.0, np.float32))
    assert step.captures == 1


def test_a_failed_capture_puts_requires_grad_back() -> None:
    w = cf.ones(3)

    @cf.compile
    def step() -> None:
        w.requires_grad_()
        raise LookupError

    with pytest.raises(LookupError):
        step()
    assert not w.requires_grad


def test_hooks_added_and_removed_are_noticed() -> None:
    w = leaf(3)

    @cf.compile
    def step() -> None:
        w.grad = None
        (w * 1).sum().backward()

    def check(expected: float, captures: int) -> None:
        step()
        assert_close(w.grad, np.full(3, expected, np.float32))
        assert step.captures == captures

    check(1.0, 1)
    first = w.register_hook(lambda g: g * 2)
    check(2.0, 2)
    check(2.0, 2)
    first.remove()
    second = w.register_hook(lambda g: g * 3)
    check(3.0, 3)
    second.remove()
    third = w.register_post_accumulate_grad_hook(lambda t: t.grad.mul_(5))
    check(5.0, 4)
    third.remove()
    check(1.0, 4)  # as before the first hook, so the first program fits again


def test_module_hooks_and_modes_are_noticed() -> None:
    model = cf.nn.Sequential(cf.nn.Linear(3, 3), cf.nn.Dropout(0.5))
    step = cf.compile(cf.no_grad()(lambda x: model(x)))
    x = cf.ones(2, 3)

    def check(captures: int) -> None:
        state = cf.get_rng_state()
        got = step(x)
        cf.set_rng_state(state)
        with cf.no_grad():
            assert_close(got, model(x))
        assert step.captures == captures

    check(1)
    model.eval()
    check(2)
    check(2)
    handle = model.register_forward_hook(lambda m, args, out: out * 2)
    check(3)
    handle.remove()
    check(4)
    model.train()
    check(5)


@pytest.mark.filterwarnings("ignore:compile:UserWarning")
def test_globals_and_closure_variables_are_noticed() -> None:
    factor = 2.0
    values = []

    @cf.compile
    def step(x: Any) -> Any:
        return sum(factor * t for t in [x, x])  # named by the code of the generator within

    for _ in range(20):
        factor = factor + 1.5
        values.append(step(cf.ones(1)).item() / 2)
    assert values == [2 + 1.5 * (i + 1) for i in range(20)]


@pytest.mark.filterwarnings("ignore:compile:UserWarning")
def test_the_address_of_a_dead_object_is_not_taken_for_another() -> None:
    class Scale:
        def __init__(self, value: float) -> None:
            self.value = value

    scale = Scale(0.0)
    step = cf.compile(lambda x: x * scale.value)
    for i in range(50):
        del scale  # the next one may get its address
        scale = Scale(float(i))
        assert step(cf.ones(1)).item() == i


def test_other_arguments_are_part_of_the_key() -> None:
    @cf.compile
    def step(x: Any, flag: Any, *, name: str = "a") -> Any:
        return x / flag if name == "a" else x * 10

    one = cf.ones(1)
    assert step(one, 0.0).item() == np.inf
    assert step(one, -0.0).item() == -np.inf
    assert step(one, 1).item() == 1
    assert step(one, 1.0).item() == 1
    assert step(one, True).item() == 1
    assert step(one, 1, name="b").item() == 10
    assert step.captures == 4, "for a float, an int, True and another name"
    assert np.isnan(step(one, float("nan")).item())
    assert step.captures == 4


def test_shapes_dtypes_strides_and_modes_are_part_of_the_key() -> None:
    step = cf.compile(lambda x: (x * 2).detach())
    step(cf.ones(3))
    step(cf.ones(4))
    step(cf.ones(3, dtype=cf.float64))
    step(cf.ones(3, 2))
    step(cf.ones(2, 3).permute(1, 0))
    with cf.no_grad():
        step(cf.ones(3))
    step(leaf(3))
    assert step.captures == 7
    step(cf.ones(3))
    assert step.captures == 7


def test_the_cache_is_bounded() -> None:
    @cf.compile(cache_size=3)
    def step(x: Any) -> Any:
        return x + 1

    for n in range(1, 6):
        step(cf.ones(n))
    assert len(step.programs) == 3
    step(cf.ones(5))
    step(cf.ones(3))
    assert step.captures == 5
    step(cf.ones(1))
    assert step.captures == 6


def test_the_eighth_capture_warns_once_and_says_what_changes() -> None:
    @cf.compile
    def step(x: Any) -> Any:
        return x + 1

    for n in range(1, 8):
        step(cf.ones(n))
    with pytest.warns(UserWarning, match="recorded 8 times") as caught:
        step(cf.ones(8))
    assert [str(w.message) for w in caught] == [
        "compile(step): recorded 8 times, the last time because the shape of x was (7,) and is "
        "(8,). Each change records again."
    ]
    assert caught[0].filename == __file__
    step(cf.ones(9))


def test_clear_forgets_everything() -> None:
    step = cf.compile(lambda x: x + 1)
    step(cf.ones(1))
    step.clear()
    assert step.captures == 0
    assert step.programs == []
    with pytest.raises(cf.CaptureError, match="no program is kept, since no call"):
        _ = step.tape
    step(cf.ones(1))
    assert step.captures == 1


def test_the_default_dtype_is_part_of_the_key() -> None:
    make = cf.compile(lambda: cf.zeros(2))
    assert make().dtype is cf.float32
    cf.set_default_dtype(cf.float64)
    try:
        assert make().dtype is cf.float64
    finally:
        cf.set_default_dtype(cf.float32)
    assert make().dtype is cf.float32


def test_state_that_is_gone_is_recorded_again() -> None:
    holder = {"w": cf.full((2,), 1.0)}
    f = cf.compile(lambda x: x + holder["w"])
    assert_close(f(cf.zeros(2)), cf.full((2,), 1.0))
    holder["w"] = cf.full((2,), 5.0)
    assert_close(f(cf.zeros(2)), cf.full((2,), 5.0))


def test_the_thread_that_asks_is_noticed() -> None:
    main = threading.get_ident()

    def program(compile: Any) -> Iterator[Any]:
        @compile
        def function(x: Any) -> Any:
            scale = 2 if threading.get_ident() == main else 3
            return x * scale, threading.current_thread().name

        seen: list[Any] = []

        def call() -> None:
            seen.append(function(cf.ones(2)))

        for _ in range(3):
            call()
            other = threading.Thread(target=call, name="other")
            other.start()
            other.join()
            yield seen[-2:]

    beside(program)


def test_an_argument_may_have_the_address_of_state_that_is_gone() -> None:
    held = {"a": cf.ones(2, 3), "b": cf.ones(2, 3)}

    @cf.compile
    def function(x: Any) -> Any:
        held["a"] = x * 2
        return sum(held.values())

    function(cf.ones(2, 3))
    ((program,),) = function._programs.values()
    state = program.guards.state
    (gone,) = [storage for storage in state.values() if storage() is None]
    for _ in range(3):
        x = cf.ones(2, 3)
        state[id(x.storage)] = gone  # where it may well come to lie
        assert function(x).tolist() == [[3.0] * 3] * 2
        assert id(x.storage) not in state
    assert function.captures == 1


class Settings:
    def __init__(self) -> None:
        self.rates, self.shift, self.names = [2.0, 3.0], 1.0, {"a": 1}

    def twice(self, x: cf.Tensor) -> cf.Tensor:
        return 2 * x


def changes(settings: Settings) -> Iterator[None]:
    """Change one thing after the other that `run` below reads."""
    settings.rates[1] = 5.0
    yield
    settings.rates.append(7.0)
    yield
    settings.shift = -1.0
    yield
    settings.names["b"] = 2
    yield
    del settings.names["a"]
    yield
    settings.twice = lambda x: 3 * x  # type: ignore[method-assign]
    yield
    settings.rates = [0.5]
    yield


@pytest.mark.parametrize("by_name", [False, True])
@pytest.mark.parametrize("calls", [0, 2])
def test_guards_that_became_a_function_notice_changes(calls: int, by_name: bool) -> None:
    """The results have a graph, so that no call is a hit."""
    settings, w, x = Settings(), leaf(3), cf.ones(3)

    def run(x: cf.Tensor) -> cf.Tensor:
        y = settings.twice(x * w) + settings.shift
        for rate in settings.rates:
            y = y * rate
        return y + (1.0 if "a" in settings.names else 2.0) + len(settings.names)

    with thresholds.using(written_guards=calls):
        compiled = cf.compile(run)
        for number, _ in enumerate(changes(settings), 1):
            for _ in range(5):
                y = compiled(x=x) if by_name else compiled(x)
                assert_close(y, run(x))
                assert y.requires_grad
            assert compiled.captures <= number
