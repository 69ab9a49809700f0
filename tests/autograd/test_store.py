"""The store of gradients: every tensor on request, accumulation, addition, compiled functions."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from tests.helpers.engine_common import leaf, refused

import contraflow as cf
from contraflow.autograd import Gradients, grad, gradients
from contraflow.autograd.graph import Graph, saved_tensors_hooks
from contraflow.tensors.tensor import Tensor
from contraflow.testing import assert_close


def a_graph(x: Tensor, w: Tensor) -> tuple[Tensor, list[Tensor]]:
    """A scalar, and every tensor that it was computed from."""
    a = x * w
    b = a[:1]
    c = a.sin() + b
    values = c.max(dim=0).values
    loss = values * 2 + c.exp().sum()
    return loss, [x, w, a, b, c, values, loss]


def test_every_tensor_of_the_graph() -> None:
    x, w = leaf(0.5, 0.25, 0.125), leaf(1.0, 2.0, 3.0)
    loss, tensors = a_graph(x, w)
    want = grad(loss, tensors, retain_graph=True)
    found = gradients(loss, all=True, retain_graph=True)
    for t, g in zip(tensors, want):
        assert t in found
        assert found[t].array.tobytes() == g.array.tobytes()
    graph = Graph(loss)
    assert all((node, 0) in found for node in graph.nodes)
    assert len(found) == len(graph.nodes) + 2
    a = tensors[2]
    assert found[a.grad_fn] is found[a] is found[a.grad_fn, 0]
    assert x.grad is None
    listed = list(found)  # the newest node first, and leaves last
    assert listed[0] is loss.grad_fn
    assert {id(end) for end in listed[-2:]} == {id(x), id(w)}
    other = leaf(1.0)
    with pytest.raises(
        KeyError, match=r"float64.1. is not a tensor that the loss was computed from"
    ):
        found[other]
    with pytest.raises(
        KeyError, match=r"is not a leaf .* gradients.loss, all=True. has every tensor"
    ):
        gradients(loss)[a]


def test_hooks_have_their_say_and_small_arithmetic_too() -> None:
    x = leaf(2.0)
    h = x * 3.0
    h.register_hook(lambda g: g * 10.0)
    found = gradients((h * 2.0).sum(), all=True)
    assert found[h].item() == 20.0
    assert found[x].item() == 60.0


def test_in_place_writes_give_another_place() -> None:
    x = leaf(1.0, 2.0)
    y = x * 2.0
    before = y.grad_fn
    y.mul_(3.0)
    found = gradients((y * y).sum(), all=True)
    assert_close(found[y], 2 * y.array)
    assert_close(found[before], 6 * y.array)


@pytest.mark.parametrize("workers", [1, 2])
def test_workers(workers: int) -> None:
    rng = np.random.default_rng(0)
    x = cf.tensor(rng.standard_normal((300, 300)), requires_grad=True)
    branches = [(x * float(k)).sin().exp() for k in range(1, 6)]
    loss = sum((b.sum() for b in branches), cf.zeros((), dtype=cf.float64))
    (want,) = grad(loss, x, retain_graph=True)
    (got,) = grad(loss, x, retain_graph=True, workers=workers)
    assert got.array.tobytes() == want.array.tobytes()
    found = gradients(loss, retain_graph=True, workers=workers)
    assert found[x].array.tobytes() == want.array.tobytes()
    every = gradients(loss, all=True, workers=workers)
    assert len(every) == len(Graph(loss).nodes) + 1
    for b in branches:
        assert every[b].tolist() == np.ones((300, 300)).tolist()
    assert x.grad is None


def test_workers_are_checked() -> None:
    x = leaf(1.0)
    for name, run in (
        ("grad", lambda: grad(x * 2, x, workers=0)),
        ("gradients", lambda: gradients(x * 2, workers=0)),
    ):
        with refused(ValueError, f"{name}: workers is 0; it must be a positive whole number."):
            run()


def test_accumulating_and_adding() -> None:
    x, y = leaf(1.0, 2.0), leaf(3.0)
    store = Gradients()
    assert len(store) == 0
    first = gradients((x * 2).sum(), into=store)
    assert first is store
    held = store[x]
    gradients((x * y).sum(), into=store)
    assert store[x].tolist() == [5.0, 5.0]
    assert held.tolist() == [2.0, 2.0]  # whoever has it sees no change
    assert store[y].tolist() == [3.0]
    store.accumulate(y, cf.ones(1, dtype=cf.float64))
    assert store[y].tolist() == [4.0]
    both = store + gradients((y * y).sum())
    assert both[y].tolist() == [10.0]
    assert store[y].tolist() == [4.0]
    assert both[x].tolist() == [5.0, 5.0]
    both += {x: cf.ones(2, dtype=cf.float64)}
    assert both[x].tolist() == [6.0, 6.0]
    copied = both.copy()
    both[x] = cf.zeros(2, dtype=cf.float64)
    del both[y]
    assert y not in both
    assert copied[y].tolist() == [10.0]
    assert both[x].tolist() == [0.0, 0.0]
    both.clear()
    assert list(both) == []
    assert repr(copied) == "Gradients(float64[2], float64[1])"


def test_gradients_with_graphs_add_up_with_theirs() -> None:
    x = leaf(2.0)
    store = gradients((x**3.0).sum(), create_graph=True)
    store += gradients((x**2.0).sum(), create_graph=True)
    (second,) = grad(store[x].sum(), x)
    assert_close(second, [14.0])


def test_what_is_refused() -> None:
    x = leaf(1.0, 2.0)
    store = Gradients()
    with pytest.raises(cf.GradientShapeError) as caught:
        store[x] = cf.ones(3)
    assert str(caught.value) == "Gradients: float32[3] cannot be the gradient of float64[2]."
    assert (caught.value.shape, caught.value.expected) == ((3,), (2,))
    with refused(TypeError, "Gradients: a gradient must be a tensor, not 3.0."):
        store.accumulate(x, 3.0)  # type: ignore[arg-type]
    with refused(TypeError, "Gradients: expected a tensor or a node, not str."):
        store["x"]
    assert "x" not in store
    with refused(TypeError, "gradients: into must be a Gradients, not dict."):
        gradients(x.sum(), into={})  # type: ignore[arg-type]
    with pytest.raises(KeyError):
        del store[x]


# --- compiled functions ----------------------------------------------------------------------


def test_a_store_from_a_compiled_function() -> None:
    layer = cf.nn.Linear(3, 2)

    @cf.compile
    def step(x: Tensor, t: Tensor) -> tuple[Tensor, Gradients]:
        loss = ((layer(x) - t) ** 2.0).mean()
        return loss.detach(), gradients(loss)

    for seed in range(4):
        rng = np.random.default_rng(seed)
        x = cf.tensor(rng.standard_normal((4, 3)).astype(np.float32), requires_grad=True)
        t = cf.tensor(rng.standard_normal((4, 2)).astype(np.float32))
        _, store = step(x, t)
        want = gradients(((layer(x) - t) ** 2.0).mean())
        assert len(store) == 3
        for key in (x, layer.weight, layer.bias):
            assert_close(store[key], want[key])
        total = store + want
        assert_close(total[layer.weight], 2 * want[layer.weight].array)
    assert layer.weight.grad is None


def test_a_store_inside_a_compiled_function() -> None:
    @cf.compile
    def step(x: Tensor) -> tuple[Tensor, Tensor]:
        h = x.sin()
        store = gradients((h * h).sum(), all=True)
        store += gradients((x * 3.0).sum())
        return store[h], store[x]

    x = cf.tensor([0.5, 0.25], requires_grad=True)
    for _ in range(3):
        of_h, of_x = step(x)
        s = np.sin([0.5, 0.25])
        assert_close(of_h, (2 * s).astype(np.float32))
        assert_close(of_x, (2 * s * np.cos([0.5, 0.25]) + 3).astype(np.float32))


@pytest.mark.parametrize("retain", [False, True])
def test_a_store_of_every_tensor_from_a_compiled_function(retain: bool) -> None:
    """Results are found by the results, leaves by the leaves, the rest is listed by node."""

    def step(x: Tensor, w: Tensor) -> tuple[Gradients, list[Tensor]]:
        loss, tensors = a_graph(x, w)
        return gradients(loss, all=True, retain_graph=retain), tensors[2:]

    compiled, w = cf.compile(step), leaf(1.0, 2.0, 3.0)
    for k in range(4):
        x = leaf(0.5 + k, 0.25, 0.125)
        want, eager_results = step(x, w)
        got, results = compiled(x, w)
        assert len(got) == len(want)
        for mine, theirs in zip((x, w, *results), (x, w, *eager_results)):
            assert_close(got[mine], want[theirs])
        for (_, g), (_, expected) in zip(got.items(), want.items()):
            assert_close(g, expected)
        assert x.grad is None
    assert compiled.captures == 1


def test_tensors_that_stay_inside_are_listed_by_node() -> None:
    @cf.compile
    def step(x: Tensor) -> Gradients:
        return gradients((x.sin() * 2.0).sum(), all=True)

    x = leaf(0.5, 0.25)
    for _ in range(3):
        store = step(x)
        nodes = list(store)[:-1]
        assert [node.name for node in nodes] == ["sum", "mul", "sin"]
        assert list(store)[-1] is x
        assert store[nodes[2]].tolist() == store[nodes[2], 0].tolist() == [2.0, 2.0]
        assert str(nodes[2].line).startswith("test_store.py:")
        assert [(i.name, i.source) for i in nodes[2].inputs] == [("x", None)]
        with refused(
            cf.GradientError,
            f"backward: sin at {nodes[2].line} was applied inside a compiled function, which keeps "
            f"no graph of its parts. Call backward on its results.",
        ):
            nodes[2](cf.ones(2, dtype=cf.float64))
    both = step(x) + store  # leaves are the same tensors in both calls, what was computed is not
    assert len(both) == 7
    assert_close(both[x], 2 * store[x].array)


def test_several_outputs_of_one_op_inside_a_compiled_function() -> None:
    def step(x: Tensor) -> Gradients:
        a, b = x.split(1)
        return gradients((a * 2.0 + b * 3.0).sum(), all=True)

    compiled, x = cf.compile(step), leaf(1.0, 2.0)
    for _ in range(3):
        got, want = compiled(x), step(x)
        pairs = [key for key in got if isinstance(key, tuple)]
        assert [index for _, index in pairs] == [i for _, i in filter(_is_pair, want)]
        assert len({id(node) for node, _ in pairs}) == len(
            {id(n) for n, _ in filter(_is_pair, want)}
        )


def _is_pair(key: Any) -> bool:
    return isinstance(key, tuple)


def test_a_tensor_that_is_kept_is_found_in_the_store() -> None:
    kept: list[Tensor] = []

    @cf.compile
    def step(x: Tensor) -> Gradients:
        kept.append(x.sin())
        return gradients((kept[-1] * 2.0).sum(), all=True)

    store = step(leaf(0.5))
    assert store[kept[0]].tolist() == [2.0]


def test_a_result_that_is_returned_twice_is_one_tensor() -> None:
    @cf.compile
    def double(x: Tensor) -> tuple[Tensor, Tensor, list[Tensor]]:
        h = x * 2.0
        return h, h.sum(), [h]

    for x in (cf.ones(2), cf.ones(2, requires_grad=True)):
        for _ in range(4):
            h, _, (again,) = double(x)
            assert again is h


def test_a_leaf_made_inside_is_a_key() -> None:
    @cf.compile
    def step(x: Tensor) -> tuple[Gradients, Tensor]:
        inner = x.detach().requires_grad_()
        return gradients((inner * inner).sum()), inner

    for k in range(3):
        store, inner = step(cf.tensor([1.0 + k]))
        assert store[inner].tolist() == [2.0 + 2 * k]


def test_stores_of_every_tensor_as_arguments() -> None:
    def step(x: Tensor, store: Gradients) -> Gradients:
        return store + gradients((x * 2.0).sum())

    compiled, x = cf.compile(step), leaf(1.0)
    for k in range(3):
        h = x * float(k)
        a = x.max(dim=0).values
        store = gradients(h.sum() + a, all=True)
        got, want = compiled(x, store), step(x, store)
        assert [id(end) for end in got if not isinstance(end, tuple)] == [
            id(end) for end in want if not isinstance(end, tuple)
        ]
        assert_close(got[x], want[x])
        assert_close(got[h], want[h])
        assert_close(got[a], want[a])


def test_a_store_from_outside_is_not_changed_by_a_compiled_function() -> None:
    """It kept what the recording had made, which no call after it could use."""
    store, x = Gradients(), leaf(1.0)
    store[x] = cf.full((1,), 5.0, dtype=cf.float64)
    changes: list[Callable[[Tensor, Gradients], Any]] = [
        lambda x, given: gradients((x * 2.0).sum(), into=given),
        lambda x, given: given.update(gradients((x * 2.0).sum())),
        lambda x, given: given.clear(),
        lambda x, given: gradients((x * 2.0).sum(), into=store),
    ]
    for change in changes:
        step = cf.compile(change)
        for _ in range(2):
            with pytest.raises(
                cf.CaptureError,
                match=r"a store of gradients from outside is changed, and a replay would not "
                r"change it\. Return what is to be added to it: store \+ gradients\(loss\)\.",
            ):
                step(x, store)
            assert store[x].tolist() == [5.0]
    total = cf.compile(lambda x, given: given + gradients((x * 2.0).sum()))
    for k in range(3):
        store = total(x, store)
        assert store[x].tolist() == [7.0 + 2 * k]
    assert total.captures == 1


def test_a_tensor_that_is_kept_in_an_attribute_is_found_in_every_call() -> None:
    class Model:
        h: Any = None

    model = Model()

    @cf.compile
    def step(x: Tensor) -> Gradients:
        model.h = x.sin()
        return gradients((model.h * 2.0).sum(), all=True)

    for k in range(3):
        store = step(leaf(0.5 + k))
        assert_close(model.h.detach(), np.sin([0.5 + k]))
        assert store[model.h].tolist() == [2.0]
    assert step.captures == 1


def test_verify_compares_stores() -> None:
    def step(x: Tensor) -> tuple[Tensor, Gradients]:
        h = x.sin()
        return h, gradients((h * h).sum(), all=True)

    compiled = cf.compile(step, verify=2)
    for k in range(3):
        h, store = compiled(leaf(0.5 + k))
        assert_close(store[h], 2 * h.array)


def test_two_workers_wait_side_by_side() -> None:
    """What several workers are for: each branch waits for the other, which one alone cannot."""
    meeting = threading.Barrier(2)

    def unpack(t: Tensor) -> Tensor:
        meeting.wait(timeout=60)
        return t

    x = cf.ones(600, 600, requires_grad=True)
    with saved_tensors_hooks(lambda t: t.clone(), unpack):
        branches = [x.sin().sum(), x.cos().sum()]
    for run in (
        lambda: grad(branches, x, retain_graph=True, workers=2)[0],
        lambda: gradients(branches, retain_graph=True, workers=2)[x],
    ):
        assert_close(run(), (x.cos() - x.sin()).detach())
