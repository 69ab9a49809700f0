"""The autograd engine: how gradients flow, in which order, and who may see them.

The lines of shared/seeds.md "Engine behaviour" that concern the engine have a test here or in
test_inplace.py and test_saved.py, numbered. Whether an op's rule is right is for test_ops.py.
"""

from __future__ import annotations

import inspect
import sys
import threading
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from tests.helpers import engine_common
from tests.helpers.engine_common import fields_of, leaf, nodes_below, place, refused

import contraflow as cf
from contraflow.autograd import grad
from contraflow.graph.op_node import OpNode
from contraflow.operation.context import state
from contraflow.operation.op import REGISTRY
from contraflow.spec import Spec
from contraflow.tensors.tensor import Tensor
from contraflow.testing import assert_close, check_gradients

without_collector = pytest.fixture(engine_common.without_collector)


# --- accumulation and order --------------------------------------------------------------------


def test_gradients_add_up_over_every_use() -> None:
    x = leaf(3.0)
    (x * x + x * 2.0 + x).sum().backward()
    assert_close(x.grad, np.array([9.0]))


def test_gradients_add_up_over_several_backwards() -> None:
    x = leaf(3.0)
    for _ in range(3):
        (x * x).backward()
    assert_close(x.grad, np.array([18.0]))
    x.grad = None
    (x * x).backward()
    assert_close(x.grad, np.array([6.0]))


def test_seed_1_a_diamond_of_depth_60_takes_linear_work() -> None:
    x = leaf(1.0)
    y = x
    calls = []
    for _ in range(60):
        y = y + y
        y.register_hook(lambda g: calls.append(1))
    y.backward()
    assert_close(x.grad, np.array([2.0**60]))
    assert len(calls) == 60


def chain(n: int) -> None:
    x = leaf(1.0)
    y = x
    for _ in range(n):
        y = y + 0.5
    y.backward()
    assert_close(x.grad, np.array([1.0]))
    (g,) = grad(y, x)
    assert_close(g, np.array([1.0]))
    del y  # freeing the chain must not recurse either


def test_seed_2_a_chain_of_100_000_ops() -> None:
    chain(100_000)


@pytest.mark.slow
def test_seed_2_a_chain_of_1_000_000_ops() -> None:
    chain(1_000_000)


def test_a_chain_that_saves_values_is_freed_without_recursion(without_collector: None) -> None:
    x = leaf(0.5)
    y = x
    for _ in range(50_000):
        y = y.sin()
    node = weakref.ref(y.grad_fn)
    del y
    assert node() is None


@pytest.mark.parametrize(
    ("function", "shapes"),
    [
        (lambda a, b: a**b, [(2, 3), (3,)]),
        (lambda a, b: a**b, [(1, 3), (2, 1)]),
        (lambda a, b: cf.where(a > 1.0, a, b), [(2, 3), (1,)]),
        (lambda a, b: cf.where(a > 1.0, b, a), [(2, 3), ()]),
        (lambda a, b: a @ b, [(4, 1, 2, 3), (5, 3, 2)]),
        (lambda a, b: a @ b, [(3,), (4, 3, 2)]),
        (lambda a, b: (a * b).mean(1), [(2, 1, 3), (2, 4, 3)]),
    ],
)
def test_seed_3_a_broadcast_operand_has_a_gradient_of_its_own_shape(
    function: Callable[..., Tensor], shapes: list[tuple[int, ...]]
) -> None:
    rng = np.random.default_rng(0)
    arrays = [np.asarray(rng.uniform(0.5, 2.0, shape)) for shape in shapes]
    tensors = [cf.tensor(a, requires_grad=True) for a in arrays]
    function(*tensors).sum().backward()
    assert [t.grad.shape for t in tensors] == shapes
    check_gradients(function, arrays)


def test_cotangents_are_summed_newest_consumer_first() -> None:
    # The sum 1e16 + 1 - 1e16 depends on its order, so the bits show it.
    x = leaf(1.0)
    z = x * 1.0
    first, second, third = z * 1e16, z * 1.0, z * -1e16
    (first + second + third).backward()
    assert x.grad.item() == (-1e16 + 1.0) + 1e16


def test_bits_repeat() -> None:
    def run() -> np.ndarray:
        rng = np.random.default_rng(0)
        w = cf.tensor(rng.standard_normal((8, 8)).astype(np.float32), requires_grad=True)
        h = cf.tensor(rng.standard_normal((4, 8)).astype(np.float32))
        for _ in range(10):
            h = (h @ w).tanh() + h
        h.sum().backward()
        return w.grad.array.copy()

    assert run().tobytes() == run().tobytes()


# --- roots -------------------------------------------------------------------------------------


def test_seed_10_a_root_that_is_no_scalar_needs_a_gradient() -> None:
    x = cf.ones(2, 3, requires_grad=True)
    with refused(
        cf.GradientError,
        "backward: float32[2, 3] is not a scalar, so it needs a gradient. Call ",
        "out.sum().backward(), or out.backward(g) with g of shape (2, 3).",
    ):
        (x * 2.0).backward()
    with refused(
        cf.GradientError,
        "backward: the gradient has shape (3,), but the tensor float32[2, 3] has shape (2, 3).",
    ):
        (x * 2.0).backward(cf.ones(3))
    assert x.grad is None
    (x * 2.0).backward(cf.ones(2, 3))
    assert_close(x.grad, np.full((2, 3), 2.0))


def test_seed_10_the_root_may_be_a_leaf() -> None:
    x = leaf(3.0)
    g = cf.tensor([2.0], dtype=cf.float64)
    x.backward(g)
    x.backward()
    assert_close(x.grad, np.array([3.0]))
    assert_close(g, np.array([2.0]))
    assert_close(grad(x, x)[0], np.array([1.0]))


def test_one_element_of_any_rank_is_a_scalar() -> None:
    x = cf.ones(1, 1, requires_grad=True)
    (x * 3.0).backward()
    assert x.grad.shape == (1, 1)


def test_a_root_that_needs_no_gradient() -> None:
    with refused(
        cf.GradientError,
        "backward: float32[2] does not require grad and was not computed from a tensor that does. ",
        "Call x.requires_grad_() on an input first.",
    ):
        cf.ones(2).sum(0, keepdim=True).expand(2).backward(cf.ones(2))


def test_gradients_that_are_none() -> None:
    x = leaf(2.0)
    with refused(TypeError, "backward: the gradient must be a Tensor, not ndarray."):
        (x * 2.0).backward(np.ones(1))
    with refused(ValueError, "backward: 2 gradients for 1 tensors."):
        cf.autograd.backward([x * 2.0], [None, None])


def test_several_roots() -> None:
    x = leaf(2.0)
    cf.autograd.backward([x * 2.0, x * x], [cf.tensor([1.0]), cf.tensor([10.0])])
    assert_close(x.grad, np.array([42.0]))


# --- grad and backward(inputs) -----------------------------------------------------------------


def test_grad_touches_no_slot() -> None:
    x, y = leaf(2.0), leaf(5.0)
    z = x * y
    found = grad(z, [x, y, z])
    assert [g.item() for g in found] == [5.0, 2.0, 1.0]
    assert x.grad is None
    assert y.grad is None


def test_grad_of_an_unused_input() -> None:
    x, y = leaf(2.0), leaf(5.0)
    with refused(
        cf.GradientError,
        "grad: float64[1] was not used to compute the output. Pass allow_unused=True to get None ",
        "for it.",
    ):
        grad(x * 2.0, [x, y])
    used, unused = grad(x * 2.0, [x, y], allow_unused=True)
    assert used.item() == 2.0
    assert unused is None


def test_grad_of_an_input_that_needs_none() -> None:
    with refused(
        cf.GradientError, "grad: float32[2] does not require grad, so it has no gradient."
    ):
        grad(leaf(1.0), cf.ones(2))


def test_grad_runs_only_what_leads_to_the_inputs() -> None:
    x, y = leaf(2.0), leaf(5.0)
    calls = []
    y.register_hook(lambda g: calls.append("leaf"))
    w = y * y
    w.register_hook(lambda g: calls.append("node"))
    loss = x * w
    grad(loss, x, retain_graph=True)
    assert calls == []
    w.grad_fn.backward([cf.ones(1)])  # it was not run, so nothing of it was freed
    grad(loss, [x, y])
    assert calls == ["node", "leaf"]


def test_grad_of_a_tensor_in_the_middle() -> None:
    x = leaf(2.0)
    y = x * x
    z = y * y
    gy, gx = grad(z, [y, x])
    assert (gy.item(), gx.item()) == (8.0, 32.0)


def test_backward_into_some_inputs_only() -> None:
    x, y = leaf(2.0), leaf(5.0)
    middle = x * y
    seen = []
    x.register_post_accumulate_grad_hook(lambda t: seen.append(t.grad.item()))
    (middle * 2.0).backward(inputs=[x, middle, x])
    assert x.grad.item() == 10.0
    assert middle.grad.item() == 2.0
    assert y.grad is None
    assert seen == [10.0]
    (x * 1.0).backward(inputs=[x])
    assert x.grad.item() == 11.0


# --- retain_graph and create_graph -------------------------------------------------------------


def test_a_second_backward_needs_retain_graph() -> None:
    x = leaf(2.0)
    y = x.exp()  # made once
    y.backward()
    with refused(
        cf.GradientError,
        f"backward: exp at {place('made once')} has run already and its saved values ",
        "were freed. Pass retain_graph=True to the first backward.",
    ):
        y.backward()
    z = x.exp()
    z.backward(retain_graph=True)
    z.backward()
    assert_close(x.grad, 3 * np.exp([2.0]))


def test_a_node_that_saved_nothing_runs_again() -> None:
    x = leaf(2.0)
    y = x + 1.0
    y.backward()
    y.backward()
    assert x.grad.item() == 2.0


def test_derivatives_up_to_the_third_order() -> None:
    x = leaf(3.0)
    (first,) = grad(x**4.0, x, create_graph=True)
    (second,) = grad(first, x, create_graph=True)
    (third,) = grad(second, x, create_graph=True)
    (fourth,) = grad(third, x)
    assert_close(cf.tensor([first.item(), second.item(), third.item(), fourth.item()]),
                 np.array([108.0, 108.0, 72.0, 24.0]))  # fmt: skip
    assert not fourth.requires_grad


@pytest.mark.parametrize("name", ["exp", "tanh", "sin", "sigmoid", "erf"])
def test_third_order_against_differences(name: str) -> None:
    check_gradients(REGISTRY[name], [np.linspace(-1.0, 1.0, 4)], order=3)


def test_backward_with_create_graph_gives_gradients_with_a_graph() -> None:
    x = leaf(3.0)
    (x * x * x).backward(create_graph=True)
    assert x.grad.item() == 27.0
    (second,) = grad(x.grad, x)
    assert second.item() == 18.0


def test_layer_norm_is_differentiable_twice_through_its_residuals() -> None:
    rng = np.random.default_rng(0)
    arrays = [rng.standard_normal((3, 5)), rng.standard_normal(5), rng.standard_normal(5)]
    check_gradients(lambda x, w, b: cf.layer_norm(x, (5,), w, b), arrays, order=3)


# --- modes -------------------------------------------------------------------------------------


def test_modes_nest_and_decorate() -> None:
    x = leaf(1.0)
    with cf.no_grad():
        assert not (x * 2.0).requires_grad
        with cf.enable_grad():
            assert (x * 2.0).requires_grad
        assert not cf.is_grad_enabled()
    assert cf.is_grad_enabled()

    @cf.no_grad()
    def quiet(t: Tensor) -> Tensor:
        """Kept."""
        return t * 2.0

    assert not quiet(x).requires_grad
    assert quiet.__doc__ == "Kept."
    with cf.set_grad_enabled(False), cf.set_grad_enabled(True):
        assert cf.is_grad_enabled()
    with cf.inference_mode():
        assert not (x * 2.0).requires_grad


@pytest.mark.parametrize("mode", [cf.no_grad, cf.enable_grad, cf.inference_mode])
def test_modes_are_restored_after_exceptions(mode: Callable[[], Any]) -> None:
    before = state()
    with pytest.raises(KeyError), mode():
        raise KeyError
    assert state() == before
    again = mode()
    with again, again:  # one object may be entered twice
        pass
    assert state() == before


def test_backward_restores_modes_when_a_rule_raises() -> None:
    x = leaf(1.0)
    x.register_hook(lambda g: 1 / 0)
    before = state()
    with pytest.raises(ZeroDivisionError):
        x.sin().backward()
    assert state() == before


def test_modes_are_per_thread() -> None:
    seen = []

    def other() -> None:
        seen.append(cf.is_grad_enabled())
        with cf.no_grad():
            entered.set()
            left.wait(10)

    entered, left = threading.Event(), threading.Event()
    with cf.no_grad():
        thread = threading.Thread(target=other)
        thread.start()
        entered.wait(10)
    assert cf.is_grad_enabled()  # the other thread is still inside its no_grad
    left.set()
    thread.join()
    assert seen == [True]


def test_requires_grad_and_its_refusals() -> None:
    x = cf.ones(2)
    assert x.requires_grad_() is x
    assert x.is_leaf
    y = x * 2.0
    assert y.requires_grad_() is y
    with refused(
        cf.GradientError,
        "requires_grad_: float32[2] was made by mul; only a leaf can stop requiring grad. Use ",
        "x.detach().",
    ):
        y.requires_grad_(False)
    with refused(
        cf.GradientError, "requires_grad_: int64[1] is not floating-point and has no gradient."
    ):
        cf.tensor([1]).requires_grad_()
    with refused(
        cf.GradientError,
        "numpy: float32[2] requires grad, and NumPy would lose that. Use x.detach().numpy().",
    ):
        y.numpy()


# --- the graph is data -------------------------------------------------------------------------


def test_seed_17_the_graph_can_be_walked_and_printed() -> None:
    x, w = leaf(1.0), leaf(2.0)
    y = (x * w).tanh()  # walked here
    node = y.grad_fn
    assert isinstance(node, OpNode)
    assert node.name == "tanh"
    assert node.op is REGISTRY["tanh"]
    assert node.input_specs[0] == Spec((1,), cf.float64)
    assert repr(node) == f"<tanh #{node.sequence_nr} at {place('walked here')}>"
    ((product_node, index),) = node.next_functions
    assert (product_node.name, index) == ("mul", 0)
    assert product_node.sequence_nr < node.sequence_nr
    assert product_node.next_functions == ((x, 0), (w, 0))
    assert product_node.next_functions[0][0] is x
    assert (x * 2.0).grad_fn.next_functions == ((x, 0), (None, 0))
    for n in (node, product_node):
        assert not any(map(inspect.isfunction, fields_of(n)))


def test_seed_17_one_line_for_all_ops_of_a_call() -> None:
    x = cf.ones(2, 3, requires_grad=True)
    out = cf.cross_entropy(x, cf.tensor([0, 1]))  # called here
    lines = {str(node.line) for node in nodes_below(out)}
    assert lines == {f"{place('called here')}"}


def test_backwards_in_several_threads_share_leaves() -> None:
    def work() -> None:
        for _ in range(rounds):
            y = (x * 1.0).sum()
            together.wait(10)
            y.backward()

    rounds, interval = 100, sys.getswitchinterval()
    x = cf.zeros(500, requires_grad=True)
    together = threading.Barrier(4)
    threads = [threading.Thread(target=work) for _ in range(4)]
    sys.setswitchinterval(1e-6)
    try:
        for t in threads:
            t.start()
        for t in threads:
            t.join()
    finally:
        sys.setswitchinterval(interval)
    assert_close(x.grad, np.full(500, 4.0 * rounds))


def test_seed_17_a_graph_may_be_used_by_two_threads() -> None:
    x = leaf(*np.linspace(-1.0, 1.0, 50))
    y = (x * x).sin().exp().sum()
    (expected,) = grad(y, x, retain_graph=True)
    found: list[np.ndarray] = []

    def work() -> None:
        for _ in range(20):
            (g,) = grad(y, x, retain_graph=True)
            found.append(g.array)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert len(found) == 80
    assert all(g.tobytes() == expected.array.tobytes() for g in found)
