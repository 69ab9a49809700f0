"""How a plan becomes a CUDA graph: the order of nodes, products with a bias, and numbers that the
host sees early. No GPU is needed."""

from __future__ import annotations

import struct
from typing import Any

import numpy as np
import pytest
from tests.devices.test_cuda_driver import recorded

import contraflow as cf
from contraflow.devices.cuda.graph import GraphNode, Region, dependencies, postponed, schedule
from contraflow.devices.cuda.launches import ProductStep, late_products, with_products
from contraflow.devices.segments import kernel_steps

pytest.importorskip("cuda.bindings.nvrtc", reason="cuda-bindings is not installed")


# --- order ---------------------------------------------------------------------------------------


def node(reads: list[int], writes: list[int], **options: Any) -> GraphNode:
    """A node that touches some slots."""
    regions = [[Region(0, 0, slot) for slot in slots] for slots in (reads, writes)]
    return GraphNode(lambda: 0, *regions, **options)


def chain_with_gradients() -> list[GraphNode]:
    """A way of six, of which the first four have a late product each, and an update of all."""
    nodes = []
    for i in range(6):
        nodes.append(node([i], [i + 1]))
        if i < 4:
            nodes.append(node([i + 1], [10 + i], is_late=True))
    return [*nodes, node([10, 11, 12, 13], [20])]


def test_late_products_come_behind_the_longest_way_and_wait_for_its_end():
    nodes = chain_with_gradients()
    ordered, needs = postponed(nodes, dependencies(nodes))
    assert [x.is_late for x in ordered] == [False] * 6 + [True] * 4 + [False]
    end = 5
    assert all(end in needs[i] for i in range(6, 10))
    assert sorted(needs[10]) == [6, 7, 8, 9]
    # Every node comes behind what it waits for, in the order of launches too.
    assert all(j < i for i, waited in enumerate(needs) for j in waited)
    launched = [i for group in schedule(ordered, needs) for i in group]
    place = {i: n for n, i in enumerate(launched)}
    assert all(place[j] < place[i] for i, waited in enumerate(needs) for j in waited)


def test_without_late_nodes_the_order_stays():
    nodes = [x._replace(is_late=False) for x in chain_with_gradients()]
    needs = dependencies(nodes)
    assert postponed(nodes, needs) == (nodes, needs)


def test_a_late_product_that_needs_another_follows_it():
    nodes = [node([0], [1]), node([1], [2], is_late=True), node([1], [3]), node([3], [4])]
    nodes.append(node([2], [5], is_late=True))
    ordered, needs = postponed(nodes, dependencies(nodes))
    assert [x.writes[0].slot for x in ordered] == [1, 3, 4, 2, 5]
    assert needs[4] == [3]


def test_a_node_waits_for_those_that_it_is_behind():
    nodes = [node([0], [1]), node([2], [3]), node([1], [], behind=frozenset({1}), is_urgent=True)]
    assert sorted(dependencies(nodes)[2]) == [0, 1]
    # The host waits for it, so that it comes as soon as it may.
    nodes += [node([3], [4]), node([4], [5])]
    assert schedule(nodes, dependencies(nodes)).index([2]) == 2


# --- products ------------------------------------------------------------------------------------


class Anything:
    """A library that can do every product."""

    def find(self, form: Any, aligned: bool) -> object:
        return form


def planned(function: Any, *inputs: cf.Tensor) -> tuple[list[Any], list[Any]]:
    """The steps of a compiled function, as they are and with products by a library."""
    with recorded() as (device, _):
        run = cf.compile(function)
        run(*[x.to("recorded") for x in inputs])
        plan = run.programs[-1].executable.plan
        device.products = Anything()
        steps = kernel_steps(plan)
        return steps, with_products(device, steps, plan.slots)


def arrays(*shapes: tuple[int, ...], dtype: cf.DType = cf.float32) -> list[cf.Tensor]:
    return [cf.ones(*shape, dtype=dtype) for shape in shapes]


def test_a_bias_is_added_by_the_library():
    steps, found = planned(lambda x, w, b: x @ w + b, *arrays((8, 4), (4, 6), (6,)))
    assert len(steps) == 2
    assert found[0] is None
    product = found[1]
    assert isinstance(product, ProductStep)
    assert product.form.biased
    assert product.bias == steps[1].bindings[1]
    assert product.step.bindings[2] == steps[1].bindings[2]
    # Left, right, result and bias, by the addresses of slots.
    bases = [1000 * (i + 1) for i in range(10)]
    assert len(set(product.addresses(bases))) == 4


@pytest.mark.parametrize(
    ("function", "shape"),
    [
        (lambda x, w, b: (x @ w + b).tanh(), (6,)),
        (lambda x, w, b: (x @ w) * b, (6,)),
        (lambda x, w, b: ((y := x @ w) + b, y), (6,)),
        (lambda x, w, b: x @ w + b, (8, 1)),
        (lambda x, w, b: x @ w + b, (8, 6)),
        (lambda x, w, b: (x @ w).to(cf.float64) + b, (6,)),
    ],
    ids=["more", "product", "used twice", "down the rows", "whole", "another dtype"],
)
def test_what_is_no_bias_stays_a_step(function, shape):
    _, found = planned(function, *arrays((8, 4), (4, 6), shape))
    products = [x for x in found if isinstance(x, ProductStep)]
    assert not any(x.form.biased for x in products)
    assert None not in found


@pytest.mark.parametrize(
    ("left", "right", "dtype", "gains"),
    [
        ((32, 10), (10, 64), cf.float32, False),
        ((64, 32), (32, 64), cf.float32, False),
        ((32, 64), (64, 64), cf.float32, True),
        ((65, 32), (32, 64), cf.float32, True),
        ((4, 64, 16), (4, 16, 64), cf.float32, True),
        ((32, 64), (64, 64), cf.float64, False),
    ],
)
def test_small_products_of_short_sums_are_faster_without_tf32(left, right, dtype, gains):
    _, (product,) = planned(lambda a, b: a @ b, *arrays(left, right, dtype=dtype))
    assert product.form.gains_by_tf32 is gains


def test_the_library_rounds_sums_of_half_precision_once_so_that_it_adds_no_bias():
    given = arrays((8, 4), (4, 6), (6,), dtype=cf.bfloat16)
    _, found = planned(lambda x, w, b: x @ w + b, *given)
    assert None not in found


def deep_step(layers: int) -> tuple[Any, list[cf.Tensor]]:
    """Value and gradients of a network of linear layers."""
    weights = [cf.ones(4, 4) for _ in range(layers)]

    def run(x: cf.Tensor, *weights: cf.Tensor) -> Any:
        given = [w.detach().requires_grad_() for w in weights]
        for w in given:
            x = (x @ w).tanh()
        return cf.autograd.grad(x.sum(), given)

    return run, [cf.ones(8, 4), *weights]


def test_gradients_of_weights_are_late_but_for_the_last_ones():
    function, inputs = deep_step(8)
    steps, found = planned(function, *inputs)
    late = [x for x in found if isinstance(x, ProductStep) and x.is_late]
    products = [x for x in found if isinstance(x, ProductStep)]
    assert 3 <= len(late) <= 8
    assert len(products) == 8 + 7 + 8
    assert all(x.form.beside for x in late)
    assert len(late_products(steps)) == len(late)


def test_few_products_are_not_late():
    function, inputs = deep_step(2)
    steps, _ = planned(function, *inputs)
    assert not late_products(steps)


# --- numbers that the host sees early ------------------------------------------------------------


def train(device: Any) -> tuple[Any, Any]:
    """A compiled step that has become a graph, and its last loss."""
    w = cf.ones(3, 4, device="recorded", requires_grad=True)
    optimizer = cf.optim.AdamW([w])
    x = cf.ones(2, 3, device="recorded")

    @cf.compile
    def step(x: cf.Tensor) -> cf.Tensor:
        optimizer.zero_grad()
        loss = (x @ w).square().mean()
        loss.backward()
        optimizer.step()
        return loss.detach()

    for _ in range(10):
        loss = step(x)
    return (lambda: step(x)), loss


def show(device: Any, tensor: cf.Tensor, value: float) -> None:
    """What the kernel does that shows a number: the recording driver runs none."""
    graph, _ = device.latest
    place = graph.shows(tensor.storage.data.pointer)
    assert place is not None
    device.shown._words[2 * place + 1] = struct.unpack("=Q", struct.pack("=fxxxx", value))[0]
    device.shown._words[2 * place] = device.shown._launched[place]


def test_a_loss_is_read_without_asking_the_driver():
    with recorded() as (device, library):
        _, loss = train(device)
        assert "show_number" in library.launched
        show(device, loss, 0.625)
        library.calls.clear()
        assert loss.item() == 0.625
        assert library.calls == []
        assert device.downloads == 1


def test_a_number_that_does_not_come_is_waited_for():
    with recorded() as (device, library):
        run, loss = train(device)
        show(device, loss, 0.625)
        later = run()  # whose number is not there yet
        library.calls.clear()
        later.item()
        assert "cuStreamSynchronize" in [name for name, _ in library.calls]


def test_a_number_is_not_seen_early_once_something_else_was_written():
    with recorded() as (device, _):
        run, loss = train(device)
        show(device, loss, 0.625)
        loss.add_(1.0)
        assert device.latest is None
        loss.item()
        loss = run()
        assert device.latest is not None
        show(device, loss, 0.5)
        cf.from_dlpack(loss)
        assert device.latest is None


def test_beside_memory_of_other_libraries_reading_waits_for_everything():
    with recorded() as (device, library):
        run, _ = train(device)
        guest = device.exchange.adopt(1 << 40, 3, cf.float32, object())
        loss = run()
        show(device, loss, 0.5)
        library.calls.clear()
        loss.item()
        assert "cuStreamSynchronize" in [name for name, _ in library.calls]
        del guest


def test_an_older_loss_is_read_as_any_tensor():
    with recorded() as (device, _):
        run, loss = train(device)
        older = loss
        loss = run()
        show(device, loss, 2.0)
        assert device.latest[0].shows(older.storage.data.pointer) is None
        assert loss.item() == 2.0


def test_places_are_used_again_with_counts_that_go_on():
    with recorded() as (device, _):
        first = device.shown.take(device.stream)
        device.shown.launched(first)
        device.shown.give(first)
        assert device.shown.take(device.stream) == first
        device.shown.launched(first)
        assert device.shown._launched[first] == 2


def test_a_kernel_with_a_temporary_is_launched_the_long_way():
    with recorded() as (_, library):
        q = cf.ones(2, 3, 4, device="recorded")
        found = cf.compile(lambda q: cf.nn.functional.scaled_dot_product_attention(q, q, q))(q)
        assert found.shape == (2, 3, 4)
        assert library.launched[-1].startswith("attention_out")


def test_explain_says_how_a_program_is_run():
    with recorded():
        w = cf.ones(3, 4, device="recorded", requires_grad=True)

        @cf.compile
        def step(x: cf.Tensor) -> Any:
            return cf.autograd.grad((x @ w).tanh().sum(), [w])

        step(cf.ones(2, 3, device="recorded"))
        assert "run as  launches: it becomes a CUDA graph after 5 runs" in step.explain()
        for _ in range(10):
            step(cf.ones(2, 3, device="recorded"))
        assert "run as  one CUDA graph of " in step.explain()
        few = cf.compile(lambda x: x + 1)
        few(cf.ones(2, device="recorded"))
        assert "run as  launches: it has few steps" in few.explain()


def test_numbers_of_every_size_are_shown():
    for dtype in (cf.float32, cf.float64, cf.int64, cf.bool, cf.bfloat16, cf.uint8):
        with recorded() as (device, _):
            place = device.shown.take(device.stream)
            buffer = device.allocate((), dtype)
            device.shown._words[2 * place + 1] = 1
            found = device.shown.read(place, buffer)
            assert found.dtype == dtype.numpy
            assert found.shape == ()
            assert found.tobytes() == np.array(1, np.uint64).tobytes()[: dtype.itemsize]
