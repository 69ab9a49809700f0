"""Tensors in calls of compiled functions, beside elements: leaves, identity, views, attributes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from tests.helpers.programs_beside import beside

import contraflow as cf

pytestmark = pytest.mark.usefixtures("mode")


def leaf(value: float) -> Any:
    return cf.full((2,), value, requires_grad=True)


# --- leaves --------------------------------------------------------------------------------------


def test_backward_into_an_argument_that_was_a_leaf_is_refused() -> None:
    step = cf.compile(lambda x: (x * x).sum().backward())
    for _ in range(3):
        x = leaf(2.0)
        step(x)
        assert x.grad.tolist() == [4.0, 4.0]
    x = leaf(2.0) * 3
    with pytest.raises(cf.CaptureError, match="backward reached mul"):
        step(x)
    assert step.changes == ["x was a leaf and is the result of an op"]
    step(leaf(2.0))
    assert step.captures == 1


def test_requires_grad_of_an_argument_with_a_graph_is_the_error_of_eager() -> None:
    def program(compile: Any) -> Iterator[Any]:
        @compile
        def function(x: Any) -> Any:
            return x.requires_grad_(False) * 2

        for call in range(6):
            w = leaf(2.0)
            x = w * 3 if call % 2 else w
            try:
                yield function(x).requires_grad, x.requires_grad
            except cf.GradientError as error:
                yield str(error)

    beside(program, records=1)


# --- the same tensor -----------------------------------------------------------------------------


def test_arguments_that_are_one_tensor_or_share_its_memory() -> None:
    def program(compile: Any) -> Iterator[Any]:
        @compile
        def step(x: Any, y: Any) -> Any:
            (x * y).sum().backward()
            return x is y

        a = leaf(2.0)
        b = a.detach().requires_grad_()
        for x, y in ((a, a), (a, b), (a, a), (b, a), (b, b)):
            a.grad = b.grad = None
            yield step(x, y), a.grad, b.grad

    beside(program, records=2)


def test_an_argument_that_is_state_or_shares_its_memory() -> None:
    def program(compile: Any) -> Iterator[Any]:
        w = leaf(2.0)

        @compile
        def step(x: Any) -> Any:
            (x * w).sum().backward()
            return x is w

        b = w.detach().requires_grad_()
        for x in (w, b, w, b, leaf(3.0)):
            w.grad = b.grad = None
            yield step(x), w.grad, b.grad

    beside(program, records=3)


# --- tensors of state ----------------------------------------------------------------------------


def test_data_of_another_layout_is_noticed() -> None:
    def program(compile: Any) -> Iterator[Any]:
        w = cf.tensor([[1.0, 2.0], [3.0, 4.0]])
        times = compile(lambda x: w * x)
        for call in range(6):
            if call == 3:
                w.data = w.data.t()
            yield times(cf.ones(2))

    beside(program, records=2)


@pytest.mark.parametrize("whole", [True, False])
def test_a_graph_that_is_written_into_state_outside_is_noticed(whole: bool) -> None:
    def program(compile: Any) -> Iterator[Any]:
        w, base = leaf(2.0), cf.zeros(2, 2)
        used = base if whole else base[0]
        times = compile(lambda x: (used * x).sum())
        for call in range(6):
            if call == 3:
                base[0] = w
            y = times(cf.ones(2))
            yield y, y.requires_grad
            if y.requires_grad:
                y.backward(retain_graph=True)
                yield w.grad

    beside(program, records=2)


def test_a_view_whose_base_was_written_before_the_first_call() -> None:
    def program(compile: Any) -> Iterator[Any]:
        w, base = leaf(2.0), cf.zeros(2, 2)
        view = base[0]
        base[0] = w
        times = compile(lambda x: (view * x).sum())
        for _ in range(3):
            times(cf.ones(2)).backward(retain_graph=True)
            yield w.grad
        (view * 3).sum().backward()
        yield w.grad

    beside(program, records=1)


def test_a_gradient_that_requires_grad_is_noticed() -> None:
    def program(compile: Any) -> Iterator[Any]:
        @compile
        def function(x: Any) -> Any:
            return x * (2 if x.grad is not None and x.grad.requires_grad else 3)

        x = leaf(1.0)
        for gradient in (None, cf.ones(2), leaf(1.0) * 2, cf.ones(2)):
            x.grad = gradient
            for _ in range(3):
                yield function(x)

    beside(program, records=3)


# --- properties ----------------------------------------------------------------------------------


class Twice(cf.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        return x * 2

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        return g * 2


def made_in_inference() -> Any:
    with cf.inference_mode():
        return cf.ones(2)


def hooked() -> Any:
    x = leaf(1.0)
    x.register_hook(lambda g: g)
    return x


BASE = cf.ones(4, 2)
PROPERTIES: dict[str, tuple[Any, Any, Any]] = {
    "is_leaf": (lambda x: x.is_leaf, lambda: leaf(1.0), lambda: leaf(1.0) * 2),
    "getattr": (lambda x: getattr(x, "is_" + "leaf"), lambda: leaf(1.0), lambda: leaf(1.0) * 2),
    "grad_fn": (lambda x: x.grad_fn is None, lambda: leaf(1.0), lambda: leaf(1.0) * 2),
    "name": (lambda x: x.grad_fn.name == "mul", lambda: leaf(1.0) + 2, lambda: leaf(1.0) * 2),
    "class of the node": (
        lambda x: "Function" in type(x.grad_fn).__name__,
        lambda: Twice.apply(leaf(1.0)),
        lambda: leaf(1.0) * 2,
    ),
    "base": (lambda x: x._base is None, lambda: cf.ones(2), lambda: BASE[1]),
    "offset": (lambda x: x.storage_offset(), lambda: cf.ones(2), lambda: BASE[1]),
    "class": (
        lambda x: isinstance(x, cf.nn.Parameter),
        lambda: leaf(1.0),
        lambda: cf.nn.Parameter(cf.ones(2)),
    ),
    "inference": (lambda x: x.is_inference(), lambda: cf.ones(2), made_in_inference),
    "hooks": (
        lambda x: not cf.autograd.graph.registered_hooks(x),
        lambda: leaf(1.0),
        hooked,
    ),
}


@pytest.mark.parametrize("name", PROPERTIES)
@pytest.mark.parametrize("first", [0, 1])
def test_properties_are_noticed(name: str, first: int) -> None:
    ask, *makers = PROPERTIES[name]

    def program(compile: Any) -> Iterator[Any]:
        function = compile(lambda x: (ask(x), x * (2 if ask(x) else 3)))
        for call in range(8):
            yield function(makers[(call // 2 + first) % 2]())

    beside(program)


def test_the_base_of_a_part() -> None:
    def program(compile: Any) -> Iterator[Any]:
        total = compile(lambda x: (x._base.sum() - x.sum(), x._base.shape))
        for call in range(6):
            base = cf.full((3, 2), float(call // 3))
            yield total(base[1])

    beside(program)


def test_properties_of_state_and_of_what_is_carried() -> None:
    def program(compile: Any) -> Iterator[Any]:
        kept, net = [leaf(1.0)], cf.nn.Linear(2, 2)

        @compile
        def function(x: Any) -> Any:
            leaves = sum(p.is_leaf for p in net.parameters())
            return x * leaves, kept[0].is_leaf, kept[0].grad_fn is None

        for call in range(12):
            kept[0] = leaf(1.0) if call % 4 < 2 else leaf(1.0) * 2
            yield function(cf.ones(2))

    beside(program)


def test_properties_of_what_the_function_makes_are_not_guarded() -> None:
    def program(compile: Any) -> Iterator[Any]:
        @compile
        def function(x: Any) -> Any:
            y, row = x * 2, x[0]
            before = y._version
            y.add_(1)
            names = y.grad_fn.name, len(y.grad_fn.next_functions), row.grad_fn.name
            return names, y._version - before, row.is_leaf, row._base is x, y._base is None

        for _ in range(4):
            yield function(cf.ones(2, 2, requires_grad=True))

    beside(program, records=1)


@pytest.mark.parametrize(
    ("ask", "text"),
    [
        (lambda x, w: x._version, "_version of float32[2] is read, which counts the writes"),
        (lambda x, w: w._version, "_version of float32[2] is read, which counts the writes"),
        (lambda x, w: x[0]._version, "_version of float32[] is read, which counts the writes"),
        (lambda x, w: x.data_ptr(), "data_ptr() of float32[2] is its address in this call alone"),
        (lambda x, w: id(x), "id() of an argument is that of this call's tensor alone"),
        (lambda x, w: hash(x), "hash() of an argument is that of this call's tensor alone"),
        (lambda x, w: x.grad_fn.next_functions, "next_functions of the node of mul is read"),
        (lambda x, w: x.grad_fn.metadata, "metadata of the node of mul is read"),
    ],
)
def test_properties_of_one_call_are_refused(ask: Any, text: str) -> None:
    w = leaf(1.0)
    function = cf.compile(lambda x: (ask(x, w), x * 2)[1])
    with pytest.raises(cf.CaptureError) as raised:
        function(w * 3)
    assert text in str(raised.value)
    assert "test_tensor_attributes.py:" in str(raised.value)
    function.eager(w * 3)


def test_addresses_of_state_are_those_of_every_call() -> None:
    def program(compile: Any) -> Iterator[Any]:
        w = leaf(1.0)

        @compile
        def function(x: Any) -> Any:
            known = {id(w)}
            return x * (2 if id(w) in known else 3) * (2 if w.data_ptr() == address else 3)

        address = w.data_ptr()
        for _ in range(3):
            yield function(cf.ones(2))

    beside(program, records=1)
