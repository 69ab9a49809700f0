"""Engine behaviour, lines 9, 15, 17 to 20: checkpoints, versions, the graph and the tape."""

from __future__ import annotations

import inspect
import threading
from typing import Any

import numpy as np
import pytest
from tests.helpers import engine_common
from tests.helpers.engine_common import Counter, fields_of, nodes_below, place, refused
from tests.helpers.trials import Trial, beside_the_cpu, eager_alone

import contraflow as cf
from contraflow import devices
from contraflow.autograd import Gradients, grad, gradients
from contraflow.autograd.graph import Graph
from contraflow.compiler.tape import Tape
from contraflow.tensors.tensor import Tensor
from contraflow.testing import assert_close

storages = pytest.fixture(engine_common.storages)


def layer(x: Tensor) -> Tensor:
    return (x * x).tanh().sin().exp() * 0.3


@eager_alone
def test_line_09_checkpoints_drop_activations(run: Trial, storages: Counter) -> None:
    def peak(function: Any) -> int:
        x = cf.tensor([0.1, 0.2], requires_grad=True)
        before = storages.restart()
        function(x).sum().backward()
        return storages.peak - before

    def plain(x: Tensor) -> Tensor:
        for _ in range(64):
            x = layer(x)
        return x

    assert peak(lambda x: cf.checkpoint_sequential([layer] * 64, 8, x)) < peak(plain) / 4


def test_line_09_checkpoints_change_no_bit_and_repeat_dropout(run: Trial) -> None:
    rng = np.random.default_rng(0)
    x = cf.tensor(rng.standard_normal((4, 8)).astype(np.float32), requires_grad=True)
    w = cf.tensor(rng.standard_normal((8, 8)).astype(np.float32), requires_grad=True)

    def block(v: Tensor, u: Tensor) -> Tensor:
        return (cf.dropout((v @ u).tanh(), 0.5) @ u).sigmoid()

    def gradients(function: Any) -> Any:
        cf.manual_seed(3)
        return run(lambda v, u: grad(function(v, u).sum(), [v, u]), x, w)

    plain = gradients(lambda v, u: block(block(v, u), u))
    checked = gradients(lambda v, u: block(cf.checkpoint(block, v, u), u))
    for a, b in zip(plain, checked, strict=True):
        assert a.fetched().tobytes() == b.fetched().tobytes()


def test_line_09_a_captured_tensor_that_was_overwritten_is_noticed(run: Trial) -> None:
    def step(x: Tensor) -> Tensor:
        w = x.detach() * 2.0
        y = cf.checkpoint(lambda: (x + w).sin())
        w.add_(1)
        return grad(y, x)[0]

    with pytest.raises(cf.OverwrittenError, match=rf"^checkpoint saved {run.real}.1. at "):
        run(step, run.leaf(1.0))


@eager_alone
def test_line_09_is_recomputing_is_restored(run: Trial) -> None:
    seen = []

    def function(x: Tensor) -> Tensor:
        seen.append(cf.is_recomputing())
        if len(seen) == 2:
            raise KeyError
        return x.sin()

    y = cf.checkpoint(function, run.leaf(1.0))
    with pytest.raises(KeyError):
        y.backward()
    assert seen == [False, True]
    assert not cf.is_recomputing()


def test_line_15_a_value_that_was_overwritten_names_both_lines(run: Trial) -> None:
    def step(x: Tensor) -> Any:
        y = x * 1.0
        z = y.sin()  # saved
        y.add_(1.0)  # overwritten
        return grad(z, x)

    with refused(
        cf.GradientError,
        f"sin saved {run.real}[1] at {place('saved')} for its backward, but add_ overwrote it at "
        f"{place('overwritten')}. Use the out-of-place form, or clone it before.",
    ):
        run(step, run.leaf(1.0))


def test_line_15_an_op_that_saves_nothing_neither_complains_nor_keeps_memory(
    run: Trial,
) -> None:
    def step(x: Tensor) -> Any:
        y = x * 2.0
        z = y + 1.0
        y.add_(1.0)
        assert not z.grad_fn.saved
        return grad(z, x)[0]

    assert_close(run(step, run.leaf(1.0)), np.array([2.0]))


@eager_alone
def test_line_17_the_graph_is_data(run: Trial) -> None:
    x, w = run.leaf(1.0), run.leaf(2.0)
    y = (x * w).tanh()
    assert [node.name for node in nodes_below(y)] == ["tanh", "mul"]
    for node in nodes_below(y):
        assert not any(map(inspect.isfunction, fields_of(node)))
    assert f"tanh(%1) : {run.real}[1]" in str(Graph(y))
    assert cf.draw(y).count("->") == 3
    found: list[float] = []

    def work() -> None:
        found.append(grad(y, x, retain_graph=True)[0].item())

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [found[0]] * 4


def test_line_18_a_store_of_gradients(run: Trial) -> None:
    w = run.leaf(3.0)

    def step(x: Tensor) -> tuple[Tensor, Tensor]:
        found = cf.autograd.gradients(x * w)
        return found[x], found[w]

    gx, gw = run(step, run.leaf(2.0))
    assert (gx.item(), gw.item()) == (3.0, 2.0)
    assert w.grad is None


def test_line_18_a_store_of_every_tensor_that_adds_up(run: Trial) -> None:
    w = run.leaf(3.0)

    def step(x: Tensor) -> tuple[Tensor, Gradients]:
        h = x * w
        every = gradients(h.exp(), all=True)
        total = Gradients()
        total += gradients(x * w)
        gradients(w * w, into=total)
        return every[h], total + gradients(x * 5.0)

    x = run.leaf(2.0)
    of_h, store = run(step, x)
    assert_close(of_h, np.exp([6.0]))
    assert (store[x].item(), store[w].item()) == (8.0, 8.0)
    assert x.grad is None


@eager_alone
def test_line_19_a_tape_can_be_read(run: Trial) -> None:
    @cf.compile
    def product(a: Tensor, b: Tensor) -> Tensor:
        return a @ b

    product(cf.ones(32, 4), cf.ones(4, 10))
    text = str(product.tape)
    assert "%2 = matmul(%0, %1) : float32[32, 10]" in text
    Tape.parse(product.tape.text()).verify()
    assert cf.draw(product.tape).count("->") == 3


@beside_the_cpu
def test_line_20_nothing_of_a_backward_goes_through_the_host(
    run: Trial, monkeypatch: pytest.MonkeyPatch
) -> None:
    """But for the number 1, which is the gradient of the loss."""
    device = devices.lookup(run.device)
    moved: dict[str, list[int]] = {"upload": [], "download": []}  # elements
    for name, sizes in moved.items():
        monkeypatch.setattr(device, name, counting(getattr(device, name), sizes))
    model = cf.nn.Sequential(cf.nn.Linear(4, 6), cf.nn.LayerNorm(6), cf.nn.Linear(6, 3))
    x, target = cf.randn(5, 4), cf.randn(5, 3)

    def step(x: Tensor) -> Tensor:
        model.zero_grad()
        loss = cf.nn.functional.mse_loss(model(x).softmax(-1), target)
        loss.backward()
        return loss

    function = cf.compile(step) if run.mode == "compiled" else step
    for _ in range(3):  # which record, and compile kernels
        function(x)
    moved["upload"].clear()
    loss = function(x)
    assert moved["download"] == []
    assert moved["upload"] == ([1] if run.mode == "eager" else [])
    assert loss.item() > 0.0
    assert moved["download"] == [1]


def counting(transfer: Any, sizes: list[int]) -> Any:
    """A transfer that notes how much it moves."""

    def counted(data: Any, *args: Any) -> Any:
        sizes.append(data.size)
        return transfer(data, *args)

    return counted
