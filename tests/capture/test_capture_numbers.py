"""Random numbers and numbers of optimizers in compiled functions are those of eager."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests.helpers.side_by_side import Setting, both, leaf

import contraflow as cf

F = cf.nn.functional


pytestmark = pytest.mark.usefixtures("mode")


# --- optimizers --------------------------------------------------------------------------------


def test_a_learning_rate_changes_without_recording_again() -> None:
    def build() -> Setting:
        w = leaf(3)
        optimizer = cf.optim.Adam([w], lr=0.1)
        scheduler = cf.optim.lr_scheduler.StepLR(optimizer, 1, 0.5)
        moments = [optimizer.state[w]["exp_avg"], optimizer.state[w]["exp_avg_sq"]]

        def step(x: Any) -> Any:
            optimizer.zero_grad()
            loss = (w * x).tanh().sum()
            loss.backward()
            optimizer.step()
            return loss.detach()

        def arguments(call: int) -> Any:
            if call == 3:
                optimizer.param_groups[0]["lr"] = 0.3
            elif call:
                scheduler.step()
            return (cf.randn(3),)

        return Setting(step, arguments, [w, *moments])

    assert both(build, 6).captures == 1


def test_numbers_of_a_step_counter_are_those_of_python() -> None:
    optimizer = cf.optim.Adam([cf.zeros(1, dtype=cf.float64, requires_grad=True)])
    (state,) = optimizer.state.values()
    one = cf.ones((), dtype=cf.float64)

    def powers(x: cf.Tensor) -> list[cf.Tensor]:
        t = state["step"].get()
        return [x * t**0.5, x * 0.9**t, x / (t / 7), x * (1 / t), x * (t * 0.1), x * (t // 2)]

    compiled = cf.compile(powers)
    for count in (3, 7, 1001):
        state["step"].set(count)
        expected = [
            count**0.5, 0.9**count, 1 / (count / 7), 1 / count, count * 0.1, count // 2
        ]  # fmt: skip
        for results in (powers(one), compiled(one)):
            assert all(x.dtype is cf.float64 for x in results)
            np.testing.assert_allclose([x.item() for x in results], expected, rtol=4e-16)
    assert compiled.captures == 1


def test_host_scalars_are_set_by_every_replay() -> None:
    w = leaf(2)
    optimizer = cf.optim.Adam([w])

    @cf.compile
    def step() -> None:
        optimizer.zero_grad()
        w.sum().backward()
        optimizer.step()

    for call in range(1, 4):
        step()
        assert optimizer.state[w]["step"].value == call
        assert isinstance(optimizer.state[w]["step"].value, int)


# --- random numbers ----------------------------------------------------------------------------


def test_random_numbers_advance_as_in_eager() -> None:
    def build() -> Setting:
        w = leaf(4, 3)

        def step(x: Any) -> Any:
            h = F.dropout(x * w, 0.4)
            noise = cf.randn(4, 3, dtype=cf.float64)
            h.sum().backward()
            return h.detach(), noise, cf.rand(5), F.dropout(x, 0.5)

        return Setting(step, lambda _: (cf.randn(4, 3),), [w])

    assert both(build, 4).captures <= 2


@pytest.mark.parametrize("seed", [0, 5])
def test_seeding_inside_repeats_and_leaves_the_state_as_eager_does(seed: int) -> None:
    def build() -> Setting:
        def step() -> Any:
            before = cf.rand(3)
            cf.manual_seed(seed)
            return before, cf.rand(2), cf.rand(2)

        return Setting(step, lambda _: (), [])

    both(build)
    cf.manual_seed(0)
    both(build)


def test_a_state_that_the_call_has_asked_for_is_put_back() -> None:
    def build() -> Setting:
        def step() -> Any:
            saved = cf.get_rng_state()
            first = cf.rand(3)
            cf.set_rng_state(saved)
            return first, cf.rand(3), cf.rand(2)

        return Setting(step, lambda _: (), [])

    assert both(build).captures == 1


def test_seeding_first_and_drawing_later() -> None:
    def build() -> Setting:
        def step() -> Any:
            cf.manual_seed(3)
            return cf.rand(2)

        return Setting(step, lambda _: (), [])

    assert both(build).captures == 1


def test_seeding_outside_is_seen() -> None:
    step = cf.compile(lambda: cf.rand(3))
    cf.manual_seed(4)
    first, second = step(), step()
    cf.manual_seed(4)
    assert step().tolist() == first.tolist()
    assert step().tolist() == second.tolist()
    cf.manual_seed(4)
    assert cf.rand(3).tolist() == first.tolist()
    assert step.captures == 1


def test_states_saved_and_restored_inside() -> None:
    def build() -> Setting:
        def step() -> Any:
            saved = cf.get_rng_state()
            first = cf.rand(3)
            cf.set_rng_state(saved)
            return first, cf.rand(3), cf.rand(3)

        return Setting(step, lambda _: (), [])

    assert both(build).captures == 1


def test_generators_of_one_s_own() -> None:
    def build() -> Setting:
        kept = cf.Generator(3)

        def step() -> Any:
            inner = cf.Generator(8)
            return cf.rand(3, generator=kept), cf.rand(3, generator=inner)

        return Setting(step, lambda _: (), [])

    both(build)


def test_a_host_scalar_cannot_be_set_from_the_elements_of_a_tensor() -> None:
    w = cf.ones(2, requires_grad=True)
    optimizer = cf.optim.SGD([w], lr=0.5)

    @cf.compile
    def step(x: cf.Tensor) -> None:
        optimizer.param_groups[0]["lr"] = x.sum()

    with pytest.raises(cf.CaptureError, match="a host scalar such as a learning rate is set from"):
        step(cf.ones(3))
    assert optimizer.param_groups[0]["lr"] == 0.5


@pytest.mark.parametrize("optimizer", [cf.optim.Adam, cf.optim.AdamW, cf.optim.NAdam])
@pytest.mark.parametrize("shape", [(), (3,)])
def test_optimizers_give_the_same_bits_compiled(optimizer: Any, shape: Any) -> None:
    def trained(wrap: Any) -> cf.Tensor:
        p = cf.full(shape, 0.3, requires_grad=True)
        optim = optimizer([p], lr=0.013)

        def step(x: cf.Tensor) -> None:
            optim.zero_grad()
            ((p * x) * p).sum().backward()
            optim.step()

        step = wrap(step)
        for x in np.random.default_rng(0).standard_normal(60):
            step(cf.tensor(x, dtype=cf.float32))
        return p

    assert trained(cf.compile).tolist() == trained(lambda f: f).tolist()
