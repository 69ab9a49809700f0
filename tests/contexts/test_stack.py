"""A stack of contexts: what one does not handle reaches those below, and what it says holds."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import pytest

import contraflow as cf
from contraflow.autograd import gradients
from contraflow.contexts.applying import OpContext
from contraflow.contexts.batch import Batch
from contraflow.contexts.bottom import BottomContext
from contraflow.contexts.forward import Forward
from contraflow.contexts.record import Recorder
from contraflow.func import grad, jvp, vmap
from contraflow.operation.context import Context, state
from contraflow.tensors.tensor import Tensor
from contraflow.testing import assert_close


def alone(function: Callable[..., Any]) -> Callable[..., Any]:
    return function


def batched(function: Callable[..., Any]) -> Callable[..., Any]:
    return vmap(function)


def twice_batched(function: Callable[..., Any]) -> Callable[..., Any]:
    return lambda x: vmap(vmap(function))(x[None])[0]


ways = pytest.mark.parametrize("way", [alone, batched, twice_batched])
Way = Callable[[Callable[..., Any]], Callable[..., Any]]


@ways
def test_a_hook_left_on_a_tensor_from_outside_is_refused(way: Way):
    w = cf.ones(2, requires_grad=True)

    def function(x: Tensor) -> Tensor:
        w.register_hook(lambda g: g)
        return x * 2

    with pytest.raises(cf.CaptureError, match="the function leaves a hook on"):
        cf.compile(lambda x: way(function)(x))(cf.ones(3, 2))
    assert not w._hooks


@ways
def test_requires_grad_of_a_tensor_from_outside_is_an_effect_of_every_call(way: Way):
    w = cf.ones(2)

    def function(x: Tensor) -> Tensor:
        w.requires_grad_()
        return x * 2

    step = cf.compile(lambda x: way(function)(x))
    for _ in range(4):
        w.requires_grad_(False)
        step(cf.ones(3, 2))
        assert w.requires_grad
    assert step.captures == 1


def test_requires_grad_of_an_argument_that_examples_share():
    def function(x: Tensor, w: Tensor) -> Tensor:
        w.requires_grad_()
        return x * 2

    step = cf.compile(lambda x, w: vmap(function, in_dims=(0, None))(x, w))
    for _ in range(3):
        w = cf.ones(2)
        step(cf.ones(3, 2), w)
        assert w.requires_grad
    assert step.captures == 1


@ways
def test_a_function_knows_that_it_is_recorded(way: Way):
    def function(x: Tensor) -> Tensor:
        return x * (2.0 if cf.is_compiling() else 1.0)

    x = cf.ones(3, 2)
    assert_close(way(function)(x), x)
    assert_close(cf.compile(lambda x: way(function)(x))(x), 2 * x)


@ways
def test_backward_into_a_node_from_before_the_call_is_refused(way: Way):
    w = cf.ones(2, requires_grad=True)
    y = (w * 2).sum()

    def function(x: Tensor) -> Tensor:
        y.backward(retain_graph=True)
        return x * 2

    with pytest.raises(cf.CaptureError, match="backward reached sum, which was applied at"):
        cf.compile(lambda x: way(function)(x))(cf.ones(3, 2))
    assert w.grad is None


@ways
def test_a_store_of_gradients_from_outside_is_not_changed(way: Way):
    w = cf.ones(2, requires_grad=True)
    store = gradients((w * 3).sum())

    def function(x: Tensor) -> Tensor:
        kept = store
        kept += gradients((w * 2).sum())
        return x * 2

    with pytest.raises(cf.CaptureError, match="a store of gradients from outside is changed"):
        cf.compile(lambda x: way(function)(x))(cf.ones(3, 2))


def test_a_leaf_over_memory_that_examples_share_is_none_outside():
    w = cf.arange(2.0)

    def function(x: Tensor) -> Tensor:
        leaf = w.detach().requires_grad_()
        (x * leaf * leaf[:]).sum().backward()
        assert leaf.grad is not None
        return leaf.grad

    x = cf.ones(3, 2)
    expected = (2 * w).expand(3, 2)
    step = cf.compile(lambda x: vmap(function)(x))
    for result in (vmap(function)(x), step(x), step(x)):
        assert_close(result, expected)
        assert not result.requires_grad
    assert step.captures == 1
    assert not w.requires_grad


def test_detach_of_what_belongs_to_the_outer_batch():
    def function(row: Tensor) -> Tensor:
        return vmap(lambda y: (row.detach() * y).sum())(row)

    x = cf.arange(6.0).reshape(2, 3)
    expected = x.sum(1, keepdim=True).expand(2, 3)
    assert_close(grad(lambda x: vmap(function)(x).sum())(x), expected)


def test_only_the_bottom_answers_for_itself():
    methods = {name for name, _ in inspect.getmembers(Context, inspect.isfunction)}
    applying = {"apply", "snapshot", "placed"}
    assert methods & OpContext.__dict__.keys() == applying
    # A write and a refusal need to know what a result is: eager mode and recordings say.
    left = {"__init__", "derive", "write", "refuse_node", "refusal"} | applying
    assert methods & BottomContext.__dict__.keys() == methods - left
    assert issubclass(Recorder, BottomContext)
    assert not issubclass(Batch, BottomContext)


def test_a_context_takes_over_what_stays_true():
    recorder = Recorder("f", [])
    recorder.timeline = object()
    over = Forward(recorder)
    assert over.first_node == recorder.first_node > 0
    assert over.is_recording
    assert over.timeline is recorder.timeline
    eager = state().context
    over = Forward(eager)
    for promise in ("replays", "hits", "immediate", "cotangents"):
        assert getattr(eager, promise)
        assert not getattr(over, promise)


@pytest.mark.parametrize("way", [vmap, lambda f: lambda x: jvp(f, (x,), (x,))[0]])
def test_a_profile_hears_of_ranges_under_other_contexts(way: Way):
    def function(x: Tensor) -> Tensor:
        with cf.profiler.record_function("named"):
            return x * 2

    with cf.profiler.profile() as p:
        way(function)(cf.ones(3, 2))
    assert [event.name for event in p.events if event.kind == "user"] == ["named"]
