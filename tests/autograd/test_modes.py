"""Modes: grad by a flag, inference mode, anomaly detection; and the graph under writes."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
import pytest
from tests.helpers.engine_common import leaf, place, refused

import contraflow as cf
from contraflow.autograd import detect_anomaly, grad, is_anomaly_enabled, set_detect_anomaly
from contraflow.operation.context import state
from contraflow.tensors.tensor import Tensor
from contraflow.testing import assert_close

# --- set_grad_enabled ----------------------------------------------------------------------------


def test_a_plain_call_takes_effect_at_once() -> None:
    before = state()
    cf.set_grad_enabled(False)
    try:
        assert not (leaf(1.0) * 2.0).requires_grad
    finally:
        cf.set_grad_enabled(True)
    assert state() == before
    with cf.no_grad():
        cf.set_grad_enabled(True)
        assert cf.is_grad_enabled()
    assert state() == before


def test_as_a_block_and_as_a_decorator_it_is_restored() -> None:
    with cf.set_grad_enabled(False):
        assert not cf.is_grad_enabled()
    assert cf.is_grad_enabled()
    with pytest.raises(KeyError), cf.set_grad_enabled(False):
        raise KeyError
    assert cf.is_grad_enabled()

    @cf.set_grad_enabled(False)
    def quiet() -> bool:
        return cf.is_grad_enabled()

    assert cf.is_grad_enabled()
    assert not quiet()
    assert cf.is_grad_enabled()


# --- generators and threads ----------------------------------------------------------------------


def test_a_generator_runs_in_its_mode_and_its_caller_does_not() -> None:
    ended: list[bool] = []

    @cf.no_grad()
    def steps(first: int) -> Any:
        assert not cf.is_grad_enabled()
        try:
            sent = yield first
            assert not cf.is_grad_enabled()
            try:
                yield sent * 2
            except KeyError:
                assert not cf.is_grad_enabled()
                yield "caught"
            return "end"
        finally:
            ended.append(cf.is_grad_enabled())

    running = steps(1)
    assert next(running) == 1
    assert cf.is_grad_enabled()
    assert running.send(5) == 10
    assert running.throw(KeyError) == "caught"
    assert cf.is_grad_enabled()
    with pytest.raises(StopIteration) as stopped:
        next(running)
    assert stopped.value.value == "end"
    abandoned = steps(2)
    next(abandoned)
    abandoned.close()
    assert ended == [False, False]
    assert cf.is_grad_enabled()


def test_threads_may_share_a_mode() -> None:
    mode, inside, leave = cf.no_grad(), threading.Barrier(2), threading.Event()
    found: list[bool] = []

    def enter(last: bool) -> None:
        with mode:
            inside.wait()
            if last:
                leave.wait()
            found.append(cf.is_grad_enabled())
        found.append(cf.is_grad_enabled())
        leave.set()

    threads = [threading.Thread(target=enter, args=(last,)) for last in (False, True)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [False, True, False, True]


# --- inference mode ------------------------------------------------------------------------------


def test_what_inference_mode_made_cannot_be_differentiated() -> None:
    x = leaf(1.0)
    with cf.inference_mode():
        assert cf.is_inference_mode_enabled()
        made, view = x * 2.0, x[:]
        made.add_(1.0)
        with cf.inference_mode(False):
            assert not (x * 2.0).is_inference()
    assert made.is_inference()
    assert made[0].is_inference()
    assert not view.is_inference()
    with refused(
        cf.GradientError,
        "inference_mode: float64[1] was made there and cannot be saved for backward. Clone it ",
        "outside, or use no_grad instead.",
    ):
        made * x
    assert (made + x).requires_grad  # add saves nothing
    with refused(
        cf.GradientError,
        "add_: float64[1] was made in inference_mode and cannot be written in place outside of it. "
        "Clone it first.",
    ):
        made.add_(1.0)
    with refused(
        cf.GradientError,
        "requires_grad_: float64[1] was made in inference_mode and cannot be differentiated. ",
        "Clone it first.",
    ):
        made.requires_grad_()
    (made.clone() * x).backward()
    assert x.grad.item() == 3.0


# --- anomalies -----------------------------------------------------------------------------------


def test_the_first_op_that_makes_no_number_is_named() -> None:
    x = cf.tensor([1.0, 0.0])
    with detect_anomaly():
        with refused(
            cf.GradientError,
            f"log: made an infinity out of finite values (float32[2]) at {place('logged')}.",
        ):
            (x.log() * 0.0).sum()  # logged
        with refused(
            cf.GradientError,
            f"div: made a NaN out of finite values (float32[2], float32[2]) at {place('nan')}.",
        ):
            (x * 0.0) / (x * 0.0)  # nan
        # What is not finite to begin with, or was asked for, is not an anomaly.
        assert (cf.full((2,), float("inf")) + x).isinf().all()
        assert x.masked_fill(x > 0.5, float("-inf"))[0].item() == -np.inf
        assert_close(cf.softmax(x, 0).sum(), 1.0)
    x.log()


def test_composites_are_looked_into() -> None:
    with detect_anomaly(), pytest.raises(cf.GradientError, match="made an infinity"):
        cf.gelu(cf.tensor([1e30], requires_grad=True) * 1e30)


def test_a_rule_that_makes_a_nan_is_named_with_its_forward_line() -> None:
    x = leaf(0.0)
    with detect_anomaly():
        y = x.sqrt() * 0.0  # rooted
        with refused(
            cf.GradientError,
            f"backward: sqrt at {place('rooted')} made a NaN in the gradient of its input 0.",
        ):
            y.backward()
    assert x.grad is None
    (x.sqrt() * 0.0).backward()
    assert np.isnan(x.grad.item())


def test_a_nan_from_elsewhere_is_not_blamed_on_an_op() -> None:
    x = leaf(1.0)
    with detect_anomaly():
        (x * 2.0).backward(cf.tensor([np.nan], dtype=cf.float64))
    assert np.isnan(x.grad.item())


def test_a_checkpoint_in_anomaly_mode() -> None:
    x = cf.tensor([0.5, 1.0], requires_grad=True)
    with detect_anomaly():
        cf.checkpoint(lambda v: cf.gelu(cf.softmax(v, 0)).sum(), x).backward()
    checked, x.grad = x.grad, None
    cf.gelu(cf.softmax(x, 0)).sum().backward()
    assert_close(checked, x.grad)


def test_anomaly_mode_is_per_thread_and_restored() -> None:
    before = state()
    seen = []
    with detect_anomaly():
        assert is_anomaly_enabled()
        thread = threading.Thread(target=lambda: seen.append(is_anomaly_enabled()))
        thread.start()
        thread.join()
    assert seen == [False]
    with pytest.raises(KeyError), detect_anomaly():
        raise KeyError
    assert state() == before
    set_detect_anomaly(True)
    try:
        assert is_anomaly_enabled()
        with pytest.raises(cf.GradientError, match="made a NaN"):
            cf.tensor(-1.0).log()
    finally:
        set_detect_anomaly(False)
    assert state() == before
    with set_detect_anomaly(True), set_detect_anomaly(False):
        cf.tensor(0.0).log()
    with detect_anomaly(check_nan=False):
        cf.tensor(0.0).log()
    assert not is_anomaly_enabled()


def test_compiled_functions_run_op_by_op_in_anomaly_mode() -> None:
    @cf.compile
    def logarithm(x: Tensor) -> Tensor:
        return x.log()

    x = cf.zeros(2)
    assert logarithm(x).isinf().all()
    with detect_anomaly(), pytest.raises(cf.GradientError, match="log: made an infinity"):
        logarithm(x)


# --- writes --------------------------------------------------------------------------------------


@pytest.mark.parametrize("write", ["zero_", "fill_", "copy_"])
def test_a_tensor_overwritten_with_constants_still_requires_grad(write: str) -> None:
    x = leaf(1.0, 2.0)
    y = x * 3.0
    arguments: dict[str, tuple[Any, ...]] = {
        "zero_": (),
        "fill_": (4.0,),
        "copy_": (cf.tensor([5.0, 6.0]),),
    }
    getattr(y, write)(*arguments[write])
    assert y.requires_grad
    assert not y.is_leaf
    y.sum().backward()
    assert_close(x.grad, np.zeros(2))


def test_a_view_made_under_no_grad_whose_base_is_written() -> None:
    y = leaf(1.0, 2.0) * 1.0
    with cf.no_grad():
        view = y[:1]
    assert not (view * 2.0).requires_grad
    y.mul_(2.0)
    assert view.detach().item() == 2.0
    with refused(
        cf.GradientError,
        "float64[1] is a view made under no_grad, or one of several made together by split, chunk "
        "or unbind; its base was written since, so it has no place in the graph. Make the view "
        "after the write, or clone it before.",
    ):
        view * 2.0


@pytest.mark.parametrize("mode", [cf.no_grad, cf.inference_mode])
def test_a_view_without_a_graph_requires_no_grad(mode: Any) -> None:
    x = leaf(1.0, 2.0)
    for base in (x, x * 2.0):
        with mode():
            views = [base[1], base.view(-1), base.unbind()[0], base.detach()]
        assert [v.requires_grad for v in views] == [False] * 4


def test_detach_in_place() -> None:
    x = leaf(1.0, 2.0)
    y = x * 2.0
    with refused(
        cf.GradientError,
        "detach_: float64[] is a view, whose place in the graph is its base's. Use x.detach().",
    ):
        y[0].detach_()
    assert y.detach_() is y
    assert y.is_leaf
    assert not y.requires_grad
    z = y.requires_grad_() * 3.0
    assert_close(grad(z.sum(), y)[0], np.array([3.0, 3.0]))


def test_modes_decorate_without_parentheses_too() -> None:
    x = cf.ones(2, requires_grad=True)

    @cf.no_grad
    def quiet(x):
        """Twice."""
        return x * 2

    @cf.enable_grad
    def recorded(x):
        return x * 2

    @cf.inference_mode
    def inferred(x):
        return x * 2

    @cf.no_grad
    def steps(x):
        yield x * 2

    assert quiet.__doc__ == "Twice."
    assert not quiet(x).requires_grad
    assert not next(steps(x)).requires_grad
    assert inferred(x).is_inference()
    with cf.no_grad():
        assert recorded(x).requires_grad
    assert cf.is_grad_enabled()
    assert (x * 2).requires_grad
