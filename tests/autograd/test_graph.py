"""The graph as data: the store of gradients, hooks on nodes and modules, reading and drawing."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from typing import Any

import numpy as np
import pytest
from tests.helpers.engine_common import leaf, place, refused

import contraflow as cf
from contraflow.autograd import grad, gradients
from contraflow.autograd.graph import Graph, register_multi_grad_hook
from contraflow.tensors.tensor import Tensor
from contraflow.testing import assert_close

# --- gradients as values -------------------------------------------------------------------------


def test_seed_18_a_store_of_gradients() -> None:
    x, y, unused = leaf(2.0), leaf(5.0), leaf(1.0)
    x.register_hook(lambda g: g * 10.0)
    x.register_post_accumulate_grad_hook(lambda t: pytest.fail("nothing was accumulated"))
    loss = x * y
    found = gradients(loss)
    assert found[x].item() == 50.0
    assert found[y].item() == 2.0
    assert [t is s for t, s in zip(found, (x, y), strict=True)] == [True, True]
    assert x in found
    assert unused not in found
    assert leaf(2.0) not in found  # by identity, not by value
    assert found.get(unused) is None
    assert repr(found) == "Gradients(float64[1], float64[1])"
    assert x.grad is None
    with pytest.raises(KeyError, match="is not a leaf that the loss was computed from"):
        found[loss]
    again = gradients([x * y, x * 1.0], [leaf(1.0), leaf(2.0)], create_graph=True)
    assert again[x].requires_grad


def test_materialize_grads() -> None:
    x, y = leaf(2.0), leaf(5.0)
    _, zero = grad(x * 3.0, [x, y], materialize_grads=True)
    assert zero.item() == 0.0
    with refused(ValueError, "grad: allow_unused cannot be False where materialize_grads is True."):
        grad(x * 3.0, [x, y], allow_unused=False, materialize_grads=True)


# --- hooks ---------------------------------------------------------------------------------------


def test_hooks_on_nodes() -> None:
    x, b = leaf(2.0, 3.0), leaf(1.0)
    y = x * b
    seen: list[Any] = []

    def before(grads: tuple[Tensor, ...]) -> Any:
        seen.append([g.array.tolist() for g in grads])
        return (grads[0] * 10.0,)

    def after(inputs: tuple[Tensor, ...], outputs: tuple[Tensor, ...]) -> Any:
        seen.append(([g.shape for g in inputs], outputs[0].array.tolist()))
        return (inputs[0] + 1.0, inputs[1])

    handles = [y.grad_fn.register_prehook(before), y.grad_fn.register_hook(after)]
    y.backward(cf.ones(2, dtype=cf.float64), retain_graph=True)
    assert seen == [[[1.0, 1.0]], ([(2,), (1,)], [10.0, 10.0])]
    assert_close(x.grad, np.array([11.0, 11.0]))
    assert_close(b.grad, np.array([50.0]))
    for handle in handles:
        handle.remove()
    y.backward(cf.ones(2, dtype=cf.float64))
    assert_close(x.grad, np.array([12.0, 12.0]))
    assert len(seen) == 2
    y.grad_fn.metadata["mine"] = 1
    assert y.grad_fn.metadata == {"mine": 1}


def test_hooks_on_nodes_that_return_too_much() -> None:
    y = leaf(1.0).exp()
    y.grad_fn.register_hook(lambda inputs, outputs: (*inputs, *inputs))
    with refused(cf.GradientError, "hook: returned 2 gradients for the 1 of exp."):
        y.backward()
    y = leaf(1.0).exp()
    y.grad_fn.register_prehook(lambda outputs: ())
    with refused(cf.GradientError, "prehook: returned 0 gradients for the 1 of exp."):
        y.backward()


def test_a_hook_on_several_tensors() -> None:
    a, b, c = leaf(1.0), leaf(2.0), leaf(3.0)
    middle = a * b
    seen: list[Any] = []

    def listen(grads: list[Tensor | None]) -> None:
        seen.append([None if g is None else g.item() for g in grads])

    handle = register_multi_grad_hook([a, middle, c], listen)
    (middle * 10.0).backward(retain_graph=True)
    (middle * c).backward(retain_graph=True)
    grad(middle * 1.0, middle, retain_graph=True)
    assert seen == [[20.0, 10.0, None], [6.0, 3.0, 2.0], [None, 1.0, None]]
    handle.remove()
    middle.backward(retain_graph=True)
    assert len(seen) == 3
    first: list[float] = []
    register_multi_grad_hook([a, middle], lambda g: first.append(g.item()), mode="any")
    middle.backward(retain_graph=True)
    middle.backward()
    assert first == [1.0, 1.0]
    with refused(
        ValueError, "register_multi_grad_hook: mode is 'some'; it must be 'all' or 'any'."
    ):
        register_multi_grad_hook([a], listen, mode="some")
    with refused(cf.GradientError, "register_multi_grad_hook: float32[1] does not require grad."):
        register_multi_grad_hook([cf.ones(1)], listen)


class Scaled(cf.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weight = cf.nn.Parameter(cf.tensor([3.0]))

    def forward(self, x: Tensor, n: int) -> tuple[Tensor, Tensor]:
        return x * self.weight, x * 2.0


def test_backward_hooks_on_modules() -> None:
    module, seen = Scaled(), []

    def before(m: Any, grad_output: tuple[Any, ...]) -> Any:
        seen.append(("before", m is module, [g and g.item() for g in grad_output]))
        return tuple(g and g * 10.0 for g in grad_output)

    def after(m: Any, grad_input: tuple[Any, ...], grad_output: tuple[Any, ...]) -> Any:
        seen.append(([g and g.item() for g in grad_input], [g and g.item() for g in grad_output]))
        return (grad_input[0] + 0.5, None) if grad_input[0] is not None else None

    handles = [
        module.register_full_backward_pre_hook(before),
        module.register_full_backward_hook(after),
    ]
    x = cf.tensor([5.0], requires_grad=True)
    out, _ = module(x, 1)
    out.backward()
    assert seen == [("before", True, [1.0, None]), ([30.0, None], [10.0, None])]
    assert x.grad.item() == 30.5
    assert module.weight.grad.item() == 50.0
    seen.clear()
    module(cf.tensor([5.0]), 1)[0].backward()  # no argument requires grad
    assert seen[1] == ([None], [10.0, None])
    for handle in handles:
        handle.remove()
    module(x, 1)[0].backward()
    assert len(seen) == 2


# --- reading and drawing -------------------------------------------------------------------------


def test_seed_17_a_graph_can_be_read() -> None:
    w, x = cf.ones(3, 4, requires_grad=True), cf.ones(2, 3)
    values, _ = (x @ w).tanh().max(1)  # read here
    loss = (values * 2.0).sum() + w.sum()
    at = place("read here").split(":")[1]
    after = int(at) + 1
    graph = Graph(loss, names={"w": w})
    assert [node.name for node in graph] == ["matmul", "tanh", "max", "mul", "sum", "sum", "add"]
    assert len(graph) == 7
    text = str(graph)
    assert "leaf : float32[3, 4]" in text
    assert re.search(rf"%2 = tanh\(%1\) : float32\[2, 4\] +at test_graph.py:{at}", text)
    assert re.search(
        r"matmul\(float32\[2, 3\], w\) : float32\[2, 4\] +at \S+ +saves a 24 bytes", text
    )
    assert f"at test_graph.py:{after}" in text
    with refused(
        cf.GradientError, "graph: float32[2, 3] does not require grad, so it has no graph."
    ):
        Graph(x)


def test_saved_bytes_count_a_storage_once() -> None:
    x = cf.ones(1000, requires_grad=True)
    y = x.sin() + x.cos()
    assert Graph(y).saved_bytes == 4000
    y.sum().backward()
    assert Graph(y).saved_bytes == 0


def test_seed_17_a_graph_can_be_drawn() -> None:
    x = cf.ones(2, requires_grad=True)
    text = cf.draw((x * x).exp(), names={"x": x})
    assert text.startswith("digraph contraflow {")
    assert text.count("->") == 3
    assert '"x" -> "%1";' in text
    if shutil.which("dot") is None:
        assert text._repr_html_().startswith("<pre>digraph")
        with refused(
            cf.DeviceError,
            "draw: graphviz's program `dot` is not installed, so there is no SVG.",
        ):
            text.svg()
    else:
        assert "<svg" in text.svg()


def test_show_config() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "contraflow"], capture_output=True, text=True, check=True
    )
    for word in (f"contraflow {cf.__version__}", "numpy", "llvmlite", "cpu:", "threads:", "cache:"):
        assert word in done.stdout
    assert done.stdout.strip() == cf.show_config()
