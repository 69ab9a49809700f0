"""Routines over arrays: the bits, graphs and errors of the ops that they stand for."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from tests.helpers.op_checks import as_tuple, differentiable, to_tensor
from tests.ops.test_compiled_ops import cases

import contraflow as cf
import contraflow.nn.functional as F
from contraflow import thresholds
from contraflow.operation.context import apply
from contraflow.operation.op import Op
from contraflow.operation.samples import Sample
from contraflow.runtime.array_routines import ArrayRoutine
from contraflow.tensors.node import nodes_below
from contraflow.tensors.tensor import Tensor
from contraflow.testing import make_inputs

NEVER = sys.maxsize


def bits(found: Any) -> Any:
    if isinstance(found, Tensor):
        return found.dtype, found.shape, found.detach().numpy().tobytes()
    return found


def listed(outs: list[Tensor]) -> list[Any]:
    """The graph of some results: each node with what it keeps, and where gradients go."""
    nodes = nodes_below([x.edge for x in outs if x.edge is not None])
    numbers = {id(node): i for i, node in enumerate(nodes)}
    return [
        (node.label, [numbers.get(id(t), t is not None) for t in node.targets],
         [(name, bits(x)) for name, x in node.saved_values.items()])
        for node in nodes
    ]  # fmt: skip


def step(op: Op, inputs: list[Any], params: Any, wrt: list[int]) -> Any:
    """Results, graph and gradients of an op."""
    cf.manual_seed(0)
    points = [inputs[i] for i in wrt]
    for x in points:
        x.grad = None
    outs = as_tuple(apply(op, tuple(inputs), params))
    kept = [bits(x) for x in outs]
    graph = listed([x for x in outs if isinstance(x, Tensor)])
    floats = [o for o in outs if o.dtype.is_floating_point and o.requires_grad]
    if floats:
        cf.autograd.backward(floats, [cf.full_like(o, 0.7) for o in floats])
    return kept, graph, [None if x.grad is None else bits(x.grad) for x in points]


@pytest.mark.parametrize(("op", "sample"), list(cases()))
def test_an_op_that_is_called_again_and_again_gives_the_same(op: Op, sample: Sample):
    inputs = [to_tensor(x) for x in make_inputs(sample, dtype=cf.float32)]
    wrt = differentiable(op, make_inputs(sample))
    for i in wrt:
        inputs[i].requires_grad_()
    with thresholds.using(eager_repeats=NEVER):
        expected = step(op, inputs, sample.params, wrt)
    with thresholds.using(eager_repeats=0):
        step(op, inputs, sample.params, wrt)
        assert step(op, inputs, sample.params, wrt) == expected
        with cf.no_grad():
            step(op, inputs, sample.params, [])
            assert step(op, inputs, sample.params, [])[0] == expected[0]


@pytest.fixture
def at_once() -> Iterator[None]:
    """Routines are made at the first call."""
    with thresholds.using(eager_repeats=0):
        yield


@pytest.fixture
def used(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of the functions of which a routine was made."""
    found: list[str] = []
    made = ArrayRoutine.__init__

    def init(self: ArrayRoutine, name: str, *args: Any) -> None:
        made(self, name, *args)
        found.append(name)

    monkeypatch.setattr(ArrayRoutine, "__init__", init)
    return found


def loss_of(x: Tensor, w: Tensor, target: Tensor) -> Tensor:
    return F.cross_entropy(x @ w, target)


def operands() -> tuple[Tensor, Tensor, Tensor]:
    x, w = (cf.arange(12.0).reshape(4, 3) / 12, (cf.arange(15.0).reshape(3, 5) / 15).sin())
    return x, w.requires_grad_(), cf.tensor([0, 4, 2, 1])


def test_a_routine_is_made_of_what_is_called_several_times(used: list[str]):
    x, w, target = operands()
    with thresholds.using(eager_repeats=3):  # with empty tables
        for times in range(3):
            loss_of(x, w, target).backward()
            assert not used, times
        loss_of(x, w, target).backward()
        assert {"cross_entropy", "matmul", "gather"} <= set(used)
        count = len(used)
        loss_of(x, w, target).backward()
        assert len(used) == count


def test_shapes_that_are_met_once_are_not_recorded(used: list[str]):
    for n in range(1, 12):
        cf.softmax(cf.ones(n), 0)
    assert not used


@pytest.mark.usefixtures("at_once")
def test_errors_are_those_of_the_parts():
    x, w, target = operands()
    loss_of(x, w, target).backward()
    wrong = cf.tensor([0, 5, 2, 1])
    for _ in range(3):
        with pytest.raises(IndexError, match="cross_entropy: index 5 is out of range for size 5"):
            loss_of(x, w, wrong)


@pytest.mark.usefixtures("at_once")
def test_a_value_that_was_overwritten_is_noticed():
    def overwritten() -> Tensor:
        x = cf.ones(3, requires_grad=True)
        y = x.exp()
        z = y.softmax(0)
        y.mul_(2.0)
        return z.sum() + (y @ y)

    x = cf.ones(3, requires_grad=True)
    for _ in range(3):
        y = x * 2.0
        z = (y @ y) + y.softmax(0).sum()
        with cf.no_grad():
            y.add_(1.0)
        with pytest.raises(cf.OverwrittenError, match="add_ overwrote it"):
            z.backward()
    overwritten()


@pytest.mark.usefixtures("at_once")
def test_hooks_see_every_gradient():
    x, w, target = operands()
    for _ in range(3):
        seen: list[Tensor] = []
        y = x @ w
        y.register_hook(seen.append)
        F.cross_entropy(y, target).backward()
        assert [g.shape for g in seen] == [(4, 5)]


@pytest.mark.usefixtures("at_once")
def test_a_result_that_is_an_input_is_that_tensor():
    x = cf.ones(2, 3)
    for _ in range(3):
        assert F.dropout(x, 0.5, training=False) is not None
        assert F.pad(x, (0, 0)).shape == (2, 3)


@pytest.mark.usefixtures("at_once")
@pytest.mark.parametrize(
    "view", [lambda x: x.T, lambda x: x[:, ::2], lambda x: x[1:], lambda x: x.expand(2, 4, 4)]
)
def test_inputs_may_lie_in_any_way(view: Callable[[Tensor], Tensor]):
    rng = np.random.default_rng(0)
    x = cf.tensor(rng.standard_normal((4, 4)).astype(np.float32), requires_grad=True)

    def run() -> Any:
        x.grad = None
        y = F.layer_norm(view(x), view(x).shape[-1:])
        (y * y.softmax(-1)).mean().backward()
        return bits(y), bits(x.grad)

    with thresholds.using(eager_repeats=NEVER):
        expected = run()
    for _ in range(3):
        assert run() == expected


@pytest.mark.usefixtures("at_once")
def test_numbers_among_the_inputs_are_told_apart():
    x = cf.tensor([2.0, 3.0], requires_grad=True)
    for power in (2.0, 3.0, 2, 2.0, True):
        x.grad = None
        (x**power).sum().backward()
        expected = np.float32(power) * x.detach().numpy() ** (power - 1)
        assert x.grad is not None
        np.testing.assert_allclose(x.grad.numpy(), expected, rtol=1e-6)


def test_gradients_that_are_views_lie_as_they_did():
    rng = np.random.default_rng(0)
    x = cf.tensor(rng.standard_normal((3, 4)), requires_grad=True)
    w = cf.tensor(rng.standard_normal((4, 5)), requires_grad=True)

    def run() -> Any:
        x.grad = w.grad = None
        y = x @ w
        z = cf.cat([y, y * 2], 0)  # whose gradient is cut
        ((z.T.sum(0) * z.mean(1)).sum() + y.sum(0).sum()).backward()
        return bits(x.grad), bits(w.grad)

    with thresholds.using(eager_repeats=NEVER):
        expected = run()
    with thresholds.using(eager_repeats=0):
        for _ in range(4):
            assert run() == expected


@pytest.mark.usefixtures("at_once")
def test_inference_mode_marks_results():
    x = cf.ones(2, 3)
    for _ in range(3):
        with cf.inference_mode():
            y = x.softmax(-1)
        assert y.is_inference()
