"""Custom functions: both styles of context, what they save, and what is refused."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from tests.helpers import engine_common
from tests.helpers.engine_common import leaf, place, refused

import contraflow as cf
from contraflow.autograd import Function, grad, once_differentiable
from contraflow.tensors.tensor import Tensor
from contraflow.testing import assert_close, check_gradients

without_collector = pytest.fixture(engine_common.without_collector)


class Exp(Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        out = x.exp()
        ctx.save_for_backward(out)
        return out

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> Tensor:
        (out,) = ctx.saved_tensors
        return g * out


class Scale(Function):
    """The newer style: forward without a context, and arguments that are not tensors."""

    @staticmethod
    def forward(x: Tensor, factor: float, options: dict[str, Any]) -> Tensor:
        return x * factor + options["shift"]

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        _, ctx.factor, _ = inputs

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> tuple[Any, ...]:
        return g * ctx.factor, None, None


class Product(Function):
    @staticmethod
    def forward(ctx: Any, a: Tensor, b: Tensor) -> tuple[Tensor, Tensor, Tensor, str]:
        ctx.save_for_backward(a, b, None)
        order = (a > b).long()
        ctx.mark_non_differentiable(order)
        return a * b, a + b, order, "text"

    @staticmethod
    def backward(ctx: Any, g: Tensor, h: Tensor, *rest: Any) -> tuple[Tensor, Tensor]:
        a, b, nothing = ctx.saved_tensors
        assert nothing is None
        return g * b + h, g * a + h


def test_both_styles_and_several_outputs() -> None:
    x = leaf(0.5, 1.0)
    y = Exp.apply(x)
    assert y.grad_fn.name == "Exp"
    y.sum().backward()
    assert_close(x.grad, np.exp([0.5, 1.0]))
    x.grad = None
    Scale.apply(x, 3.0, {"shift": 1.0}).sum().backward()
    assert_close(x.grad, np.array([3.0, 3.0]))
    a, b = leaf(2.0), leaf(5.0)
    product, total, order, text = Product.apply(a, b)
    assert (product.item(), total.item(), order.item(), text) == (10.0, 7.0, 0, "text")
    assert not order.requires_grad
    (product * 10.0 + total).backward()
    assert (a.grad.item(), b.grad.item()) == (51.0, 21.0)


@pytest.mark.parametrize(
    ("function", "count"),
    [
        (Exp.apply, 1),
        (lambda x: Scale.apply(x, 3.0, {"shift": 1.0}), 1),
        (lambda a, b: Product.apply(a, b)[:2], 2),
    ],
)
def test_backward_written_with_ops_is_differentiable_again(
    function: Callable[..., Any], count: int
) -> None:
    rng = np.random.default_rng(0)
    check_gradients(function, [rng.uniform(0.5, 1.5, 3) for _ in range(count)])


def test_forward_mode_is_the_transpose_of_backward() -> None:
    x, t = cf.tensor([0.5, 1.0]), cf.tensor([1.0, 10.0])
    assert_close(cf.func.jvp(Exp.apply, (x,), (t,))[1], np.exp([0.5, 1.0]) * [1.0, 10.0], 1e-6)
    assert_close(cf.func.jacfwd(cf.func.jacrev(Exp.apply))(x)[1, 1, 1], np.exp(1.0), 1e-6)


def test_needs_input_grad_and_no_grad() -> None:
    seen = []

    class Look(Function):
        @staticmethod
        def forward(ctx: Any, a: Tensor, n: int, b: Tensor) -> Tensor:
            seen.append((ctx.needs_input_grad, cf.is_grad_enabled()))
            return a * b

        @staticmethod
        def backward(ctx: Any, g: Tensor) -> tuple[Any, ...]:
            return g, None, None

    x = leaf(1.0)
    assert Look.apply(x, 2, cf.ones(1)).requires_grad
    with cf.no_grad():
        assert not Look.apply(x, 2, x).requires_grad
    assert seen == [((True, False, False), False), ((False, False, False), False)]


def test_gradients_are_materialized_unless_asked_not_to() -> None:
    seen: list[Any] = []

    class Two(Function):
        wanted = True

        @staticmethod
        def forward(ctx: Any, x: Tensor) -> tuple[Tensor, Tensor]:
            ctx.set_materialize_grads(Two.wanted)
            return x * 1.0, x * 2.0

        @staticmethod
        def backward(ctx: Any, g: Any, h: Any) -> Any:
            seen.append(h)
            return g

    x = leaf(1.0, 2.0)
    Two.apply(x)[0].sum().backward()
    Two.wanted = False
    Two.apply(x)[0].sum().backward()
    assert_close(seen[0], np.zeros(2))
    assert seen[1] is None


class Double(Function):
    """Writes to its argument."""

    returns = True

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        ctx.mark_dirty(x)
        x.mul_(2.0)  # written there
        return x if Double.returns else x * 1.0

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> Tensor:
        return g * 2.0


def test_mark_dirty() -> None:
    x = leaf(3.0)
    y = x * 1.0
    z = Double.apply(y)
    assert z is y
    assert z.grad_fn.name == "Double"
    (z * 5.0).backward()
    assert (z.item(), x.grad.item()) == (6.0, 10.0)
    saved = (w := x * 1.0).exp()
    w2 = w.sin()  # saved here
    Double.apply(w)
    with refused(
        cf.GradientError,
        f"sin saved float64[1] at {place('saved here')} for its backward, but mul_ overwrote it ",
        f"at {place('written there')}. Use the out-of-place form, or clone it before.",
    ):
        (saved + w2).backward()


def test_mark_dirty_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    with refused(
        cf.GradientError,
        "Double.forward: float64[1] is a leaf that requires grad and cannot be written in place. ",
        "Write to a copy.",
    ):
        Double.apply(leaf(1.0))
    with refused(
        cf.GradientError,
        "Double.forward: float64[1] is a view and cannot be written in place. Write to a copy.",
    ):
        Double.apply((leaf(1.0, 2.0) * 1.0)[:1])
    monkeypatch.setattr(Double, "returns", False)
    with refused(
        cf.GradientError, "Double.forward: float64[1] was marked as dirty but not returned."
    ):
        Double.apply(leaf(1.0) * 1.0)


def returning(*values: Any) -> type[Function]:
    class Odd(Function):
        @staticmethod
        def forward(ctx: Any, x: Tensor, y: Any) -> Tensor:
            return x * 1.0

        @staticmethod
        def backward(ctx: Any, g: Tensor) -> Any:
            return values

    return Odd


@pytest.mark.parametrize(
    ("values", "message"),
    [
        (
            (1.0,),
            "returned 1 gradients for the 2 arguments of Odd.apply at {}. Return one for each, "
            "None where there is none.",
        ),
        (
            (None, None, cf.ones(1)),
            "returned 3 gradients for the 2 arguments of Odd.apply at {}. Return one for each, "
            "None where there is none.",
        ),
        (
            (cf.ones(3), None),
            "returned float32[3] for argument 0 of Odd.apply at {}, which is float64[2].",
        ),
        (
            ("nonsense", None),
            "returned str as the gradient of argument 0 of Odd.apply at {}. Return a tensor or "
            "None.",
        ),
        (
            (None, cf.ones(2)),
            "returned float32[2] for argument 1 of Odd.apply at {}, which is not a tensor with a "
            "gradient. Return None.",
        ),
    ],
)
def test_seed_11_wrong_gradients_name_the_function_and_the_line(
    values: tuple[Any, ...], message: str
) -> None:
    y = returning(*values).apply(leaf(1.0, 2.0), 7)  # applied here
    with refused(cf.GradientError, "Odd.backward: ", message.format(place("applied here"))):
        y.sum().backward()


def test_trailing_nones_and_broadcast_gradients_are_taken() -> None:
    x = leaf(1.0, 2.0)
    returning(cf.ones(3, 2), None, None).apply(x, 7).sum().backward()
    assert_close(x.grad, np.array([3.0, 3.0]))


def test_an_error_in_backward_names_where_it_was_applied() -> None:
    class Broken(Function):
        @staticmethod
        def forward(ctx: Any, x: Tensor) -> Tensor:
            return x * 1.0

        @staticmethod
        def backward(ctx: Any, g: Tensor) -> Tensor:
            raise KeyError("mine")

    y = Broken.apply(leaf(1.0))  # broken here
    with pytest.raises(KeyError) as caught:
        y.backward()
    assert caught.value.__notes__ == [
        f"In the backward of Broken, applied at {place('broken here')}."
    ]


def test_a_returned_view_may_not_be_written() -> None:
    class First(Function):
        @staticmethod
        def forward(ctx: Any, x: Tensor) -> Tensor:
            return x[:1]

        @staticmethod
        def backward(ctx: Any, g: Tensor) -> Tensor:
            return g.expand(2)

    view = First.apply(leaf(1.0, 2.0) * 1.0)
    with refused(
        cf.GradientError,
        "mul_: float64[1] is a view that a custom Function, or a module with backward hooks, gave; "
        "writing to it under grad is refused. Clone it before.",
    ):
        view.mul_(2.0)


def test_an_input_returned_as_it_is() -> None:
    class Same(Function):
        @staticmethod
        def forward(ctx: Any, x: Tensor) -> Tensor:
            return x

        @staticmethod
        def backward(ctx: Any, g: Tensor) -> Tensor:
            return g * 7.0

    x = leaf(2.0)
    y = Same.apply(x)
    assert y is not x
    assert x.is_leaf
    y.backward()
    assert x.grad.item() == 7.0


def test_saved_values_are_freed_and_checked() -> None:
    x = leaf(1.0)
    y = Exp.apply(x)  # once
    y.backward()
    with refused(
        cf.GradientError,
        f"backward: Exp at {place('once')} has run already and its saved values were freed. Pass ",
        "retain_graph=True to the first backward.",
    ):
        y.backward()
    z = Exp.apply(x)
    z.mul_(2.0)
    with pytest.raises(cf.GradientError, match=r"Exp saved .* but mul_ overwrote it"):
        z.backward()


def test_once_differentiable() -> None:
    class Cube(Function):
        @staticmethod
        def forward(ctx: Any, x: Tensor) -> Tensor:
            ctx.save_for_backward(x)
            return x * x * x

        @staticmethod
        @once_differentiable
        def backward(ctx: Any, g: Tensor) -> Tensor:
            (x,) = ctx.saved_tensors
            return cf.tensor(3.0 * np.square(x.detach().numpy())) * g.detach()

    x = leaf(2.0)
    (g,) = grad(Cube.apply(x), x, create_graph=True)  # cubed here
    assert g.item() == 12.0
    with refused(
        cf.GradientError,
        f"Cube.backward at {place('cubed here')} is marked once_differentiable, so its result ",
        "cannot be differentiated.",
    ):
        grad(g, x)
    assert not grad(Cube.apply(x), x)[0].requires_grad


def test_under_capture() -> None:
    w = leaf(0.5, 0.25)

    def step(x: Tensor) -> Tensor:
        w.grad = None
        loss = (Exp.apply(w * x) * Scale.apply(w, 2.0, {"shift": 0.0})).sum()
        loss.backward()
        return loss.detach()

    compiled = cf.compile(step)
    for k in (1.0, 2.0):
        x = cf.tensor([k, -k], dtype=cf.float64)
        loss = step(x)
        expected = w.grad
        assert_close(compiled(x), loss)
        assert_close(w.grad, expected)
    assert compiled.captures == 1


def test_wrong_use() -> None:
    with refused(TypeError, "Exp: a Function cannot be instantiated; call Exp.apply(...)."):
        Exp()

    class Saves(Function):
        @staticmethod
        def forward(ctx: Any, x: Tensor) -> Tensor:
            ctx.save_for_backward(3.0)
            return x

    with refused(
        TypeError,
        "save_for_backward: takes tensors and None, not float. Set an attribute instead: ",
        "ctx.x = x.",
    ):
        Saves.apply(leaf(1.0))


def test_a_gradient_that_backward_kept_is_not_changed_later() -> None:
    kept = []

    class Keeps(Function):
        @staticmethod
        def forward(ctx: Any, x: Tensor) -> Tensor:
            return x * 1.0

        @staticmethod
        def backward(ctx: Any, g: Tensor) -> Tensor:
            kept.append(g * 2.0)
            return kept[-1]

    x = leaf(1.0)
    y = x * 1.0
    (y * 5.0 + Keeps.apply(y) + y * 7.0).backward()
    assert kept[0].item() == 2.0
    Keeps.apply(x).backward()
    (x * 3.0).backward()
    assert kept[1].item() == 2.0


@pytest.mark.parametrize("function", [Exp, Double, Product])
def test_what_a_function_keeps_is_freed_by_reference_counts(
    without_collector: None, function: type[Function]
) -> None:
    x = leaf(1.0) * 1.0
    out = function.apply(x, x) if function is Product else function.apply(x)
    node = weakref.ref((out[0] if isinstance(out, tuple) else out).grad_fn)
    del out, x
    assert node() is None


def test_outputs_without_a_gradient_have_zeros_in_backward_unless_that_is_switched_off():
    seen = []

    class Sorted(Function):
        @staticmethod
        def forward(ctx, x, materialize):
            ctx.set_materialize_grads(materialize)
            order = x.argsort()
            ctx.mark_non_differentiable(order)
            return x * 2.0, order

        @staticmethod
        def backward(ctx, grad, of_order):
            seen.append(of_order)
            return grad * 2.0, None

    for materialize in (True, False):
        x = cf.tensor([3.0, 1.0], requires_grad=True)
        Sorted.apply(x, materialize)[0].sum().backward()
        assert x.grad.tolist() == [2.0, 2.0]
    assert seen[0].tolist() == [0, 0]
    assert seen[0].dtype is cf.int64
    assert seen[1] is None
