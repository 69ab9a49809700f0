"""Ops and gradient rules that are run again on a device, by what was learned the first time."""

from __future__ import annotations

import inspect

import pytest
from tests.helpers.walled import WalledDevice, opened

import contraflow as cf
from contraflow.contexts.applying import OpContext
from contraflow.errors import GradientError
from contraflow.graph.op_node import OpNode
from contraflow.testing import assert_close

ROUNDS = 4  # more than are needed until everything is known


@pytest.fixture(autouse=True)
def device():
    with opened(WalledDevice) as found:
        yield found


def leaf(*values: float) -> cf.Tensor:
    return cf.tensor(values, device="walled", requires_grad=True)


def test_gradients_that_are_passed_on_do_not_share_memory():
    for _ in range(ROUNDS):
        x, y = leaf(1.0, 2.0), leaf(3.0, 4.0)
        (x + y).backward(cf.tensor([1.0, 2.0], device="walled"))
        x.grad.mul_(10.0)
        assert x.grad.tolist() == [10.0, 20.0]
        assert y.grad.tolist() == [1.0, 2.0]


def test_the_gradient_that_was_given_is_not_taken_over():
    for _ in range(ROUNDS):
        x = leaf(1.0, 2.0)
        g = cf.tensor([1.0, 2.0], device="walled")
        (x + 1.0).backward(g)
        x.grad.mul_(10.0)
        assert g.tolist() == [1.0, 2.0]


def test_values_overwritten_before_backward_are_noticed():
    for k in range(ROUNDS):
        x = leaf(1.0, 2.0)
        y = x * 1.0
        z = (y * y).sum()
        if k == ROUNDS - 1:
            y.add_(1.0)
            with pytest.raises(GradientError, match="mul saved"):
                z.backward()
        else:
            z.backward()
            assert x.grad.tolist() == [2.0, 4.0]


def test_backward_runs_once_unless_the_graph_is_retained():
    for _ in range(ROUNDS):
        x = leaf(1.0, 2.0)
        y = x.tanh().sum()
        y.backward(retain_graph=True)
        y.backward()
        with pytest.raises(GradientError, match="has run already"):
            y.backward()


def test_numbers_are_those_of_each_call():
    for k in range(ROUNDS):
        x = leaf(1.0, 2.0)
        y = x * float(k)
        assert y.tolist() == [k, 2.0 * k]
        y.sum().backward()
        assert x.grad.tolist() == [k, k]


def test_hooks_see_every_pass():
    seen = []
    for _ in range(ROUNDS):
        x = leaf(1.0, 2.0)
        y = x * 2.0
        y.register_hook(lambda g: seen.append(g.tolist()))
        z = y.tanh()
        z.retain_grad()
        z.sum().backward()
        assert z.grad.tolist() == [1.0, 1.0]
    assert len(seen) == ROUNDS


def test_gradients_of_values_between():
    for _ in range(ROUNDS):
        x = leaf(1.0, 2.0)
        y = x * 2.0
        z = (y * y).sum()
        found = cf.autograd.grad(z, [y, x])
        assert [g.tolist() for g in found] == [[4.0, 8.0], [8.0, 16.0]]


def test_modes_are_those_of_each_call():
    x = leaf(1.0, 2.0)
    for _ in range(ROUNDS):
        assert x.tanh().requires_grad
        with cf.no_grad():
            assert not x.tanh().requires_grad
        with cf.inference_mode():
            assert x.tanh().is_inference()
        assert not x.tanh().is_inference()
        assert not x.detach().tanh().requires_grad


def test_views_of_what_was_written_since():
    def gradient(place: str) -> cf.Tensor:
        x = cf.tensor([1.0, 2.0], device=place, requires_grad=True)
        base = x * 1.0
        view = base[:1]
        base.mul_(3.0)
        view.tanh().sum().backward()
        return x.grad.cpu()

    for _ in range(ROUNDS):
        assert_close(gradient("walled"), gradient("cpu"))


def test_what_is_known_is_used(monkeypatch):
    run, attached = [], []
    backward, attach = OpNode.backward, OpContext._attach
    monkeypatch.setattr(OpNode, "backward", lambda *args: run.append(args[0]) or backward(*args))
    monkeypatch.setattr(OpContext, "_attach", lambda *args: attached.append(1) or attach(*args))
    for _ in range(ROUNDS):
        run.clear()
        attached.clear()
        x, w = leaf(1.0, 2.0), leaf(0.5, 0.25)
        (cf.tanh(x * w) + x).backward(cf.ones(2, device="walled"))
    assert run == []
    assert attached == []


def test_nodes_know_the_line_of_each_call():
    def here(x: cf.Tensor) -> cf.Tensor:
        return x.tanh()

    def there(x: cf.Tensor) -> cf.Tensor:
        return x.tanh()

    for _ in range(ROUNDS):
        for function in (here, there):
            number = inspect.getsourcelines(function)[1] + 1
            assert function(leaf(1.0)).grad_fn.line.number == number


def test_shapes_of_the_same_size_are_told_apart():
    for _ in range(ROUNDS):
        for shape in ((2, 3), (3, 2), (6,)):
            x = cf.ones(shape, device="walled", requires_grad=True)
            y = x.tanh()
            assert y.shape == shape
            y.sum().backward()
            assert x.grad.shape == shape
        turned = cf.ones(2, 3, device="walled", requires_grad=True)
        assert turned.T.tanh().shape == (3, 2)
