"""Scenarios of what is saved for backward, checkpoints, custom functions and modes."""

from __future__ import annotations

import contextlib
import math
from typing import Any

import numpy as np
from tests.autograd import test_function, test_modes, test_saved
from tests.autograd.test_function import Double, Exp, Product, Scale, returning
from tests.helpers.scenario import EagerFile, leaf, parameters, plain, positive
from tests.helpers.scenarios_inplace import part_made_under_no_grad

import contraflow as cf
from contraflow.autograd import (
    Function,
    detect_anomaly,
    grad,
    once_differentiable,
    saved_tensors_hooks,
)

Tensor = cf.Tensor
f32 = cf.float32

# --- what is saved -------------------------------------------------------------------------------

saved = EagerFile("test_saved")


@saved("everything_is_freed_when_the_loss_is_dropped", leaf(4))
def a_bit_of_everything(x: Tensor) -> Tensor:
    loss = test_saved.a_bit_of_everything(x)
    loss.backward()
    return loss.detach()


@saved("a_write_makes_no_cycle_of_what_its_op_saved", leaf(2), plain(2))
def an_op_that_saved_its_target(z: Tensor, ones: Tensor) -> Any:
    y = ones.clone()
    y.mul_(z)
    v = z * 2.0
    v[:1] = v[1:].clone().sin()
    return grad((y * v).sum(), z)


@saved("a_result_may_be_overwritten", leaf(24))
def overwritten_results(x: Tensor) -> None:
    for i, (function, shape) in enumerate(test_saved.WRITABLE_RESULTS.values()):
        y = function(x[: math.prod(shape)].reshape(shape) * 1.0)
        (y.mul_(2.0).relu_() * float(i + 1)).sin().sum().backward()


@saved("an_input_may_be_overwritten", leaf(24))
def overwritten_inputs(x: Tensor) -> None:
    for i, (function, shape) in enumerate(test_saved.WRITABLE_INPUTS.values()):
        given = x[: math.prod(shape)].reshape(shape) * 1.0
        y = function(given)
        given.mul_(2.0)
        (y * float(i + 1)).sin().sum().backward()


@saved("create_graph_makes_no_cycle", leaf(2))
def two_orders(x: Tensor) -> Any:
    (g,) = grad(x.exp().sum(), x, create_graph=True)
    return g.detach(), grad(g.sum(), x)


@saved("saved_values_are_freed_as_their_nodes_run", leaf(2))
def chain_that_saves(x: Tensor) -> Any:
    y, seen = x, []
    for _ in range(10):
        y = y.exp() * 0.1
        y.register_hook(lambda g: seen.append(g))
    y.sum().backward()
    return seen


@saved("seed_14_a_weight_used_often_holds_a_few_copies", leaf(10, dtype=f32), plain(10, dtype=f32))
def a_weight_used_often(w: Tensor, x: Tensor) -> Tensor:
    loss = cf.zeros(10)
    for _ in range(200):
        loss = loss + w * x
    loss.sum().backward()
    return loss.detach()


@saved("saved_values_pass_through_the_hooks", leaf(2))
def packed_values(x: Tensor) -> Any:
    with saved_tensors_hooks(lambda t: (t.clone(), 2.0), lambda kept: kept[0] * kept[1]):
        y = (x * x).sin().sum()
    y.backward()


for number, (keep,) in enumerate(parameters(test_saved.test_packed_values_stay_in_the_graph)):

    def cube(x: Tensor, keep: Any = keep) -> Tensor:
        with saved_tensors_hooks(keep, cf.as_tensor):
            return x * x * x + (x * 2.0).sin() + x.exp()

    if number == 0:
        saved.pure("packed values", "packed_values_stay_in_the_graph", leaf(3), order=3)(cube)
    else:
        saved.named(
            "values packed by NumPy", "packed_values_stay_in_the_graph", leaf(3),
            refuses="nothing is computed while a function is being recorded",
        )(cube)  # fmt: skip


@saved("the_innermost_hooks_count", leaf(1))
def innermost_hooks(x: Tensor) -> Any:
    outer = saved_tensors_hooks(lambda t: t * 2.0, lambda t: t)
    inner = saved_tensors_hooks(lambda t: t * 3.0, lambda t: t)
    with outer:
        with inner:
            a = x.sin()
        b = x.sin()
    return [grad(t, x) for t in (a, b, x.sin())]


@saved("a_pack_hook_that_writes", leaf(1), raises=cf.GradientError)
def a_pack_hook_that_writes(x: Tensor) -> None:
    with saved_tensors_hooks(lambda t: t.add_(1.0), lambda t: t):
        (x * 1.0).sin()


@saved("an_unpack_hook_that_returns_no_tensor", leaf(1), raises=TypeError)
def an_unpack_hook_that_returns_no_tensor(x: Tensor) -> None:
    with saved_tensors_hooks(lambda t: t, lambda t: 3.0):
        y = x.sin()
    y.backward()


# --- checkpoint ----------------------------------------------------------------------------------

block = test_saved.block
for name, function in {
    "plain": lambda x, w: block(block(x, w, scale=0.7), w),
    "checkpoint": lambda x, w: block(cf.checkpoint(block, x, w, scale=0.7), w),
    "nested checkpoint": lambda x, w: cf.checkpoint(
        lambda v: block(cf.checkpoint(block, v, w, scale=0.7), w), x
    ),
}.items():

    def with_dropout(x: Tensor, w: Tensor, function: Any = function) -> Any:
        loss = function(x, w).sum()
        after = cf.rand(3)
        loss.backward()
        return loss.detach(), after, cf.rand(3)

    saved.named(
        name, "seed_9_a_checkpoint_changes_no_bit", leaf(4, 8, dtype=f32), leaf(8, 8, dtype=f32)
    )(with_dropout)


@saved("seed_9_is_recomputing", leaf(1))
def is_recomputing(x: Tensor) -> list[bool]:
    seen: list[bool] = []
    cf.checkpoint(lambda v: seen.append(cf.is_recomputing()) or v.sin(), x).backward()
    return [*seen, cf.is_recomputing()]


@saved("seed_9_the_flag_and_the_state_are_restored_when_the_function_raises", leaf(1))
def a_recomputation_that_raises(x: Tensor) -> Any:
    def function(v: Tensor) -> Tensor:
        if cf.is_recomputing():
            cf.rand(5)
            raise KeyError
        return v.sin()

    y = cf.checkpoint(function, x)
    with contextlib.suppress(KeyError):
        y.backward()
    return cf.is_recomputing(), cf.is_grad_enabled(), cf.rand(2)


def layer(x: Tensor) -> Tensor:
    return (x * x).tanh().sin().exp() * 0.3


@saved("seed_9_activations_are_dropped", "seed_9_each_block_runs_twice", leaf(2, dtype=f32))
def sequential_checkpoints(x: Tensor) -> Any:
    calls: list[int] = []
    layers = [lambda v: calls.append(1) or layer(v)] * 8
    cf.checkpoint_sequential(layers, 4, x).sum().backward()
    return len(calls)


saved.pure("a checkpoint", "checkpoint_is_differentiable_twice", leaf(3), order=3)(
    lambda x: cf.checkpoint(lambda v: (v * v).sin() * v.exp(), x * 2.0)
)


@saved(
    "checkpoint_under_retain_graph_runs_again", "a_checkpoint_keeps_nothing_but_its_arguments",
    leaf(1),
)  # fmt: skip
def checkpoint_twice(x: Tensor) -> None:
    y = cf.checkpoint(lambda v: (v * v).sin().exp(), x)
    y.backward(retain_graph=True)
    y.backward()


@saved("checkpoint_takes_any_structure", leaf(1), leaf(1), leaf(1))
def checkpoint_of_a_structure(a: Tensor, b: Tensor, c: Tensor) -> Any:
    def function(pair: tuple[Tensor, Tensor], *, extra: dict[str, Tensor]) -> dict[str, Any]:
        return {"out": [pair[0] * pair[1], (pair[0] * extra["c"]).sin()], "none": None}

    out = cf.checkpoint(function, (a, b), extra={"c": c})
    (out["out"][0] + out["out"][1]).backward()
    return out["none"]


@saved("checkpoint_without_grad_just_runs", leaf(1))
def checkpoint_without_grad(x: Tensor) -> Any:
    with cf.no_grad():
        y = cf.checkpoint(lambda v: v.sin(), x)
    return y, y.requires_grad


@saved("a_recomputation_that_differs", leaf(1), raises=cf.GradientError)
def another_recomputation(x: Tensor) -> None:
    cf.checkpoint(lambda v: v.sin().sin() if cf.is_recomputing() else v.sin(), x).backward()


@saved("an_argument_overwritten_before_the_recomputation", leaf(1), raises=cf.GradientError)
def an_overwritten_argument(x: Tensor) -> None:
    v = x * 1.0
    y = cf.checkpoint(lambda v: (v * v).sin(), v)
    v.add_(1.0)
    y.backward()


@saved("a_nested_checkpoint_keeps_no_inner_arguments", leaf(2, dtype=f32))
def checkpoints_in_a_checkpoint(x: Tensor) -> None:
    def outer(v: Tensor) -> Tensor:
        for _ in range(5):
            v = cf.checkpoint(lambda u: (u * u).sin().exp(), v * 0.5)
        return v

    cf.checkpoint(outer, x).sum().backward()


# --- custom functions ----------------------------------------------------------------------------

custom = EagerFile("test_function")


class InOrder(Function):
    """Twice the elements, and their order, which has no gradient."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, materialize: bool) -> Any:
        ctx.set_materialize_grads(materialize)
        order = x.argsort()
        ctx.mark_non_differentiable(order)
        return x * 2.0, order

    @staticmethod
    def backward(ctx: Any, grad: Tensor, of_order: Any) -> Any:
        return grad * 2.0 if of_order is None else grad * 2.0 + of_order, None


@custom(
    "outputs_without_a_gradient_have_zeros_in_backward_unless_that_is_switched_off",
    leaf(3),
    leaf(3),
)
def an_output_without_a_gradient(x: Tensor, y: Tensor) -> Any:
    results = [InOrder.apply(x, True), InOrder.apply(y, False)]
    (results[0][0] * results[1][0]).sum().backward()
    return [order for _, order in results]


@custom("both_styles_and_several_outputs", "under_capture", leaf(2), leaf(2))
def both_styles(x: Tensor, y: Tensor) -> Any:
    Exp.apply(x).sum().backward()
    Scale.apply(x, 3.0, {"shift": 1.0}).sum().backward()
    product, total, order, text = Product.apply(x, y)
    (product * 10.0 + total).sum().backward()
    return product.detach(), total.detach(), order, text


for number, (function, count) in enumerate(
    parameters(test_function.test_backward_written_with_ops_is_differentiable_again)
):
    custom.pure(
        f"custom function {number}", "backward_written_with_ops_is_differentiable_again",
        *[positive(3)] * count,
    )(function)  # fmt: skip


@custom("forward_mode_is_the_transpose_of_backward", plain(2), plain(2))
def forward_mode_of_a_function(x: Tensor, t: Tensor) -> Any:
    return cf.func.jvp(Exp.apply, (x,), (t,)), cf.func.jacfwd(cf.func.jacrev(Exp.apply))(x)


@custom("needs_input_grad_and_no_grad", leaf(1), plain(1))
def needs_input_grad(x: Tensor, y: Tensor) -> Any:
    seen: list[Any] = []

    class Look(Function):
        @staticmethod
        def forward(ctx: Any, a: Tensor, n: int, b: Tensor) -> Tensor:
            seen.append((ctx.needs_input_grad, cf.is_grad_enabled()))
            return a * b

        @staticmethod
        def backward(ctx: Any, g: Tensor) -> tuple[Any, ...]:
            return g, None, None

    Look.apply(x, 2, y).backward()
    with cf.no_grad():
        quiet = Look.apply(x, 2, x)
    return seen, quiet


@custom("gradients_are_materialized_unless_asked_not_to", leaf(2))
def materialized_gradients(x: Tensor) -> Any:
    seen: list[Any] = []

    class Two(Function):
        @staticmethod
        def forward(ctx: Any, x: Tensor, wanted: bool) -> tuple[Tensor, Tensor]:
            ctx.set_materialize_grads(wanted)
            return x * 1.0, x * 2.0

        @staticmethod
        def backward(ctx: Any, g: Any, h: Any) -> Any:
            seen.append(h)
            return g, None

    Two.apply(x, True)[0].sum().backward()
    Two.apply(x, False)[0].sum().backward()
    return seen


@custom("mark_dirty", leaf(1))
def dirty_argument(x: Tensor) -> Any:
    y = x * 1.0
    z = Double.apply(y)
    assert z is y
    (z * 5.0).backward()
    return z.detach()


@custom("mark_dirty", leaf(1), raises=cf.GradientError)
def dirty_and_saved(x: Tensor) -> None:
    w = x * 1.0
    saved = w.sin()
    Double.apply(w)
    saved.backward()


for name, function in {
    "mark_dirty_refused": lambda x: Double.apply(x),
    "saved_values_are_freed_and_checked": lambda x: Exp.apply(x).mul_(2.0).sum().backward(),
}.items():
    custom.named(f"refused, {name}", name, leaf(2), raises=cf.GradientError)(function)

for number, (values, _) in enumerate(
    parameters(test_function.test_seed_11_wrong_gradients_name_the_function_and_the_line)
):
    custom.named(
        f"refused, wrong gradients {number}",
        "seed_11_wrong_gradients_name_the_function_and_the_line", leaf(2),
        raises=cf.GradientError,
    )(lambda x, values=values: returning(*values).apply(x, 7).sum().backward())  # fmt: skip


@custom("trailing_nones_and_broadcast_gradients_are_taken", leaf(2))
def broadcast_gradients(x: Tensor) -> None:
    returning(cf.ones(3, 2), None, None).apply(x, 7).sum().backward()


@custom("an_error_in_backward_names_where_it_was_applied", leaf(1), raises=KeyError)
def a_backward_that_raises(x: Tensor) -> None:
    class Broken(Exp):
        @staticmethod
        def backward(ctx: Any, g: Tensor) -> Tensor:
            raise KeyError("mine")

    Broken.apply(x).backward()


@custom("a_returned_view_may_not_be_written", leaf(2), raises=cf.GradientError)
def writes_to_a_returned_view(x: Tensor) -> None:
    class First(Function):
        @staticmethod
        def forward(ctx: Any, x: Tensor) -> Tensor:
            return x[:1]

        @staticmethod
        def backward(ctx: Any, g: Tensor) -> Tensor:
            return g.expand(2)

    First.apply(x * 1.0).mul_(2.0)


@custom("an_input_returned_as_it_is", leaf(1))
def an_input_returned(x: Tensor) -> None:
    class Same(Function):
        @staticmethod
        def forward(ctx: Any, x: Tensor) -> Tensor:
            return x

        @staticmethod
        def backward(ctx: Any, g: Tensor) -> Tensor:
            return g * 7.0

    Same.apply(x).backward()


class Cube(Function):
    """With a backward that is not differentiated."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        ctx.save_for_backward(x)
        return x * x * x

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, g: Tensor) -> Tensor:
        (x,) = ctx.saved_tensors
        return 3.0 * x * x * g


@custom("once_differentiable", leaf(1))
def once(x: Tensor) -> Any:
    return grad(Cube.apply(x), x)


@custom("once_differentiable", leaf(1), raises=cf.GradientError)
def once_but_twice(x: Tensor) -> Any:
    return grad(grad(Cube.apply(x), x, create_graph=True)[0], x)


@custom("wrong_use", leaf(1), raises=TypeError)
def saves_a_number(x: Tensor) -> None:
    class Saves(Exp):
        @staticmethod
        def forward(ctx: Any, x: Tensor) -> Tensor:
            ctx.save_for_backward(3.0)
            return x

    Saves.apply(x)


@custom("a_gradient_that_backward_kept_is_not_changed_later", leaf(1))
def kept_gradients(x: Tensor) -> list[Tensor]:
    kept: list[Tensor] = []

    class Keeps(Function):
        @staticmethod
        def forward(ctx: Any, x: Tensor) -> Tensor:
            return x * 1.0

        @staticmethod
        def backward(ctx: Any, g: Tensor) -> Tensor:
            kept.append(g * 2.0)
            return kept[-1]

    y = x * 1.0
    (y * 5.0 + Keeps.apply(y) + y * 7.0).backward()
    Keeps.apply(x).backward()
    (x * 3.0).backward()
    return kept


# --- modes ---------------------------------------------------------------------------------------

modes = EagerFile("test_modes")


@modes("a_plain_call_takes_effect_at_once", leaf(1))
def grad_switched_off_and_on(x: Tensor) -> Tensor:
    cf.set_grad_enabled(False)
    quiet = x * 2.0
    cf.set_grad_enabled(True)
    (x * quiet).backward()
    return quiet


@modes("as_a_block_and_as_a_decorator_it_is_restored", leaf(1))
def grad_off_in_a_block(x: Tensor) -> Tensor:
    with cf.set_grad_enabled(False):
        quiet = x * 2.0
    quiet = cf.set_grad_enabled(False)(lambda: x * quiet)()
    (x * quiet).backward()
    return quiet


@modes("modes_decorate_without_parentheses_too", leaf(1))
def decorated_without_parentheses(x: Tensor) -> Tensor:
    @cf.no_grad
    def quietly(x: Tensor) -> Tensor:
        return x * 2.0

    quiet = quietly(x)
    (x * quiet).backward()
    return quiet


@modes("a_generator_runs_in_its_mode_and_its_caller_does_not", leaf(1))
def a_generator(x: Tensor) -> list[Tensor]:
    @cf.no_grad()
    def steps() -> Any:
        for k in range(3):
            yield x * float(k)

    found = []
    for quiet in steps():
        (x * quiet).backward()
        found.append(quiet)
    return found


@modes("what_inference_mode_made_cannot_be_differentiated", leaf(1))
def inference(x: Tensor) -> Any:
    with cf.inference_mode():
        made, view = x * 2.0, x[:]
        made.add_(1.0)
    (made.clone() * x).backward()
    (made + x).backward()
    return made.is_inference(), view.is_inference(), made.clone()


for name, function in {
    "product": lambda made, x: made * x,
    "write": lambda made, x: made.add_(1.0),
    "requires_grad_": lambda made, x: made.requires_grad_(),
}.items():

    def after_inference(x: Tensor, function: Any = function) -> None:
        with cf.inference_mode():
            made = x * 2.0
        function(made, x)

    modes.named(
        f"refused, {name} after inference", "what_inference_mode_made_cannot_be_differentiated",
        leaf(1), raises=cf.GradientError,
    )(after_inference)  # fmt: skip

for (write,) in parameters(test_modes.test_a_tensor_overwritten_with_constants_still_requires_grad):

    def overwritten(x: Tensor, write: str = write) -> Any:
        y = x * 3.0
        given = {"zero_": (), "fill_": (4.0,), "copy_": (cf.tensor([5.0, 6.0]),)}
        getattr(y, write)(*given[write])
        y.sum().backward()
        return y.detach()

    modes.named(
        f"overwritten by {write}", "a_tensor_overwritten_with_constants_still_requires_grad",
        leaf(2),
    )(overwritten)  # fmt: skip


@modes("a_view_made_under_no_grad_whose_base_is_written", leaf(2))
def a_view_under_no_grad_after_a_write(x: Tensor) -> Tensor:
    y = x * 1.0
    view = part_made_under_no_grad(y)
    y.mul_(2.0)
    return view.detach()


@modes("a_view_made_under_no_grad_whose_base_is_written", leaf(2), raises=cf.GradientError)
def a_view_without_a_place(x: Tensor) -> None:
    y = x * 1.0
    view = part_made_under_no_grad(y)
    y.mul_(2.0)
    view * 2.0


@modes("detach_in_place", leaf(2))
def detached_in_place(x: Tensor) -> Any:
    y = x * 2.0
    y.detach_()
    z = y.requires_grad_() * 3.0
    return grad(z.sum(), y), y.is_leaf


@modes("detach_in_place", leaf(2), raises=cf.GradientError)
def a_view_detached_in_place(x: Tensor) -> None:
    (x * 2.0)[0].detach_()


for name, function in {
    "a_checkpoint_in_anomaly_mode": lambda x: cf.checkpoint(cf.tanh, x).sum().backward(),
    "a_nan_from_elsewhere_is_not_blamed_on_an_op": lambda x: x.backward(x.detach() * np.nan),
    "the_first_op_that_makes_no_number_is_named": lambda x: x.exp().log(),
    "composites_are_looked_into": lambda x: cf.gelu(x),
    "a_rule_that_makes_a_nan_is_named_with_its_forward_line": lambda x: x.exp().sqrt().backward(),
}.items():
    modes.named(
        name, name, leaf(1), refuses="Put it around the call of the compiled function",
    )(detect_anomaly()(function))  # fmt: skip
