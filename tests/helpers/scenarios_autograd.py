"""Scenarios of gradients: how they flow, and hooks."""

from __future__ import annotations

from typing import Any

import numpy as np
from tests.autograd import test_autograd, test_autograd_hooks, test_autograd_rules
from tests.helpers.engine_common import temporary
from tests.helpers.scenario import EagerFile, among, leaf, parameters, plain, positive

import contraflow as cf
from contraflow.autograd import backward, grad
from contraflow.operation.kinds import elementwise
from contraflow.operation.op import REGISTRY

Tensor = cf.Tensor
f32 = cf.float32
autograd = EagerFile("test_autograd")


# --- accumulation and order --------------------------------------------------------------------


@autograd("gradients_add_up_over_every_use", leaf(3))
def every_use(x: Tensor) -> None:
    (x * x + x * 2.0 + x).sum().backward()


@autograd("gradients_add_up_over_several_backwards", leaf(1))
def several_backwards(x: Tensor) -> Tensor:
    for _ in range(3):
        (x * x).backward()
    summed, x.grad = x.grad, None
    (x * x).backward()
    return summed


@autograd("seed_1_a_diamond_of_depth_60_takes_linear_work", leaf(1))
def diamond(x: Tensor) -> list[int]:
    y, calls = x, []
    for _ in range(60):
        y = y + y
        y.register_hook(lambda g: calls.append(1))
    y.backward()
    return calls


@autograd("seed_2_a_chain_of_100_000_ops", "seed_2_a_chain_of_1_000_000_ops", leaf(1))
def chain_of_300(x: Tensor) -> Any:
    y = x
    for _ in range(300):
        y = y + 0.5
    y.backward()
    return grad(y, x)


for number, (function, shapes) in enumerate(
    parameters(test_autograd.test_seed_3_a_broadcast_operand_has_a_gradient_of_its_own_shape)
):
    autograd.pure(
        f"broadcast operands {number}",
        "seed_3_a_broadcast_operand_has_a_gradient_of_its_own_shape",
        *(positive(*shape) for shape in shapes),
    )(function)


@autograd("cotangents_are_summed_newest_consumer_first", leaf(1))
def newest_first(x: Tensor) -> None:
    z = x * 1.0
    first, second, third = z * 1e16, z * 1.0, z * -1e16
    (first + second + third).backward()


@autograd("bits_repeat", leaf(8, 8, dtype=f32), plain(4, 8, dtype=f32))
def residual_layers(w: Tensor, h: Tensor) -> Tensor:
    for _ in range(10):
        h = (h @ w * 0.1).tanh() + h
    h.sum().backward()
    return h.detach()


# --- roots -------------------------------------------------------------------------------------


@autograd("seed_10_a_root_that_is_no_scalar_needs_a_gradient", leaf(2, 3), plain(2, 3))
def root_that_is_no_scalar(x: Tensor, g: Tensor) -> None:
    (x * x).backward(g)


@autograd("seed_10_the_root_may_be_a_leaf", leaf(1), plain(1))
def root_that_is_a_leaf(x: Tensor, g: Tensor) -> Any:
    x.backward(g)
    x.backward()
    return grad(x, x)


@autograd("one_element_of_any_rank_is_a_scalar", leaf(1, 1))
def root_of_rank_2(x: Tensor) -> None:
    (x * 3.0).backward()


@autograd("several_roots", leaf(1), plain(1))
def several_roots(x: Tensor, g: Tensor) -> None:
    backward([x * 2.0, x * x], [g, g * 10.0])


for name, function in {
    "a_root_that_needs_no_gradient": lambda x: cf.ones(2).backward(cf.ones(2)),
    "seed_10_a_root_that_is_no_scalar_needs_a_gradient": lambda x: (x * 2.0).backward(cf.ones(3)),
    "grad_of_an_unused_input": lambda x: grad((x * 2.0).sum(), cf.ones(2).requires_grad_()),
    "grad_of_an_input_that_needs_none": lambda x: grad(x.sum(), cf.ones(2)),
    "hooks_are_refused_where_no_gradient_comes": lambda x: cf.ones(2).register_hook(print),
    "retain_grad_keeps_what_leaves_the_last_hook": lambda x: cf.ones(1).retain_grad(),
    "requires_grad_and_its_refusals": lambda x: (x * 2.0).requires_grad_(False),
    "a_second_backward_needs_retain_graph": lambda x: [y.backward() for y in [x.exp().sum()] * 2],
}.items():
    autograd.named(f"refused, {name}", name, leaf(2), raises=cf.GradientError)(function)


autograd.named(
    "refused, too many gradients", "gradients_that_are_none", leaf(1), raises=ValueError
)(lambda x: backward([x * 2.0], [None, None]))
autograd.named("refused, an array", "gradients_that_are_none", leaf(1), raises=TypeError)(
    lambda x: (x * 2.0).backward(np.ones(1))
)
autograd.named(
    "refused, no inputs", "backward_to_no_inputs_is_refused", leaf(1), raises=ValueError
)(lambda x: x.sum().backward(inputs=[]))


# --- grad and backward(inputs) -----------------------------------------------------------------


@autograd("grad_touches_no_slot", leaf(1), leaf(1))
def grad_touches_no_slot(x: Tensor, y: Tensor) -> Any:
    z = x * y
    return grad(z, [x, y, z])


@autograd("grad_of_an_unused_input", leaf(1), leaf(1))
def unused_input(x: Tensor, y: Tensor) -> Any:
    return grad(x * 2.0, [x, y], allow_unused=True)


@autograd("grad_runs_only_what_leads_to_the_inputs", leaf(1), leaf(1))
def only_what_leads_to_the_inputs(x: Tensor, y: Tensor) -> Any:
    calls: list[str] = []
    handle = y.register_hook(lambda g: calls.append("leaf"))
    w = y * y
    w.register_hook(lambda g: calls.append("node"))
    loss = x * w
    first = grad(loss, x, retain_graph=True)
    assert calls == []
    second = grad(loss, [x, y])
    handle.remove()
    return first, second, calls


@autograd("grad_of_a_tensor_in_the_middle", leaf(1))
def tensor_in_the_middle(x: Tensor) -> Any:
    y = x * x
    return grad(y * y, [y, x])


@autograd("backward_into_some_inputs_only", leaf(1), leaf(1))
def some_inputs_only(x: Tensor, y: Tensor) -> Any:
    middle, seen = x * y, []
    handle = x.register_post_accumulate_grad_hook(lambda t: seen.append(t.grad.clone()))
    (middle * 2.0).backward(inputs=[x, middle, x])
    (x * 1.0).backward(inputs=[x])
    handle.remove()
    return middle.grad, seen


# --- retain_graph and create_graph -------------------------------------------------------------


@autograd("a_second_backward_needs_retain_graph", leaf(1))
def retained_graph(x: Tensor) -> None:
    z = x.exp()
    z.backward(retain_graph=True)
    z.backward()


@autograd("a_node_that_saved_nothing_runs_again", leaf(1))
def nothing_saved(x: Tensor) -> None:
    y = x + 1.0
    y.backward()
    y.backward()


@autograd("derivatives_up_to_the_third_order", positive(1))
def four_orders(x: Tensor) -> list[Tensor]:
    found = [x**4.0]
    for _ in range(4):
        found += grad(found[-1], x, create_graph=len(found) < 4)
    return [t.detach() for t in found]


for (name,) in parameters(test_autograd.test_third_order_against_differences):
    autograd.pure(f"third order of {name}", "third_order_against_differences", leaf(4), order=3)(
        REGISTRY[name]
    )


@autograd("backward_with_create_graph_gives_gradients_with_a_graph", leaf(1))
def gradients_with_a_graph(x: Tensor) -> Any:
    (x * x * x).backward(create_graph=True)
    second = grad(x.grad, x)
    x.grad = x.grad.detach()
    return second


autograd.pure(
    "layer norm", "layer_norm_is_differentiable_twice_through_its_residuals",
    leaf(3, 5), leaf(5), leaf(5),
)(lambda x, w, b: cf.layer_norm(x, (5,), w, b))  # fmt: skip


# --- hooks -------------------------------------------------------------------------------------


@autograd("seed_12_tensor_hooks_run_in_order_and_may_replace_the_gradient", leaf(2))
def hooks_in_order(x: Tensor) -> list[Tensor]:
    y, seen = x * 3.0, []
    y.register_hook(lambda g: seen.append(g.clone()) or g * 10.0)
    y.register_hook(lambda g: seen.append(g.clone()))
    handle = x.register_hook(lambda g: g + 1.0)
    (y * 1.0).sum().backward()
    handle.remove()
    return seen


@autograd("seed_12_handles_remove_hooks", leaf(2))
def removed_hooks(x: Tensor) -> list[int]:
    calls: list[int] = []
    handles = [x.register_hook(lambda g, i=i: calls.append(i) or g * (i + 2)) for i in range(3)]
    handles[1].remove()
    x.sum().backward()
    handles.append(x.register_hook(lambda g: calls.append(3)))
    handles[1].remove()
    (x * 1.0).sum().backward()
    for handle in handles:
        handle.remove()
    return calls


@autograd("seed_12_post_accumulate_hooks_see_the_updated_slot", leaf(1))
def post_accumulate_hooks(x: Tensor) -> list[Tensor]:
    seen: list[Tensor] = []
    handle = x.register_post_accumulate_grad_hook(lambda t: seen.append(t.grad.clone()))
    (x * 3.0 + x * 4.0).backward()
    (x * 1.0).backward()
    handle.remove()
    (x * 1.0).backward()
    return seen


@autograd("a_post_accumulate_hook_may_step_and_clear", leaf(2))
def a_hook_that_steps(x: Tensor) -> None:
    def step(t: Tensor) -> None:
        with cf.no_grad():
            t.sub_(t.grad * 0.1)
        t.grad = None

    handle = x.register_post_accumulate_grad_hook(step)
    (x * x).sum().backward()
    handle.remove()


@autograd("a_hook_that_removes_itself", leaf(1))
def a_hook_that_removes_itself(x: Tensor) -> None:
    def once(g: Tensor) -> Tensor:
        handle.remove()
        return g * 5.0

    handle = x.register_hook(once)
    (x * 1.0).backward()
    (x * 1.0).backward()


@autograd("a_hook_on_a_leaf_runs_once_per_backward_on_the_sum", leaf(1))
def a_hook_sees_the_sum(x: Tensor) -> list[Tensor]:
    seen: list[Tensor] = []
    handle = x.register_hook(lambda g: seen.append(g.clone()))
    (x * 3.0 + x * 4.0).backward()
    handle.remove()
    return seen


def _hooked(x: Tensor, replacement: Any) -> Tensor:
    x.register_hook(lambda g: replacement)
    return x


def _leave_hooks(*tensors: Tensor) -> None:
    for t in tensors:
        t.register_hook(lambda g: g * 2.0)


autograd.named(
    "a hook that stays on an argument", "seed_12_handles_remove_hooks", leaf(2),
    refuses="the function leaves a hook on",
)(_leave_hooks)  # fmt: skip


@autograd(
    "seed_12_handles_remove_hooks", plain(2), state=True,
    refuses="the function leaves a hook on",
)  # fmt: skip
def a_hook_that_stays_on_state() -> Any:
    w = cf.ones(2, dtype=cf.float64, requires_grad=True)

    def step(x: Tensor) -> None:
        _leave_hooks(w)
        (w * x).sum().backward()

    return step, [w]


@autograd("seed_12_handles_remove_hooks", plain(2), state=True)
def hooks_put_on_state_before() -> Any:
    w = cf.ones(2, dtype=cf.float64, requires_grad=True)
    _leave_hooks(w, w)
    w.register_post_accumulate_grad_hook(lambda t: t.grad.mul_(3.0))
    return lambda x: (w * x).sum().backward(), [w]


for number, (wrong,) in enumerate(
    parameters(test_autograd_hooks.test_a_hook_that_returns_a_number_or_another_dtype)
):
    autograd.named(
        f"refused, a hook that returns {number}",
        "a_hook_that_returns_a_number_or_another_dtype", "a_hook_that_returns_another_shape",
        leaf(3), raises=cf.GradientError,
    )(lambda x, wrong=wrong: _hooked(x * 1.0, wrong).sum().backward())  # fmt: skip


@autograd("retain_grad_keeps_what_leaves_the_last_hook", leaf(1), plain(1))
def retained_gradient(x: Tensor, g: Tensor) -> Any:
    y = x * 3.0
    y.retain_grad()
    y.retain_grad()
    y.register_hook(lambda g: g * 5.0)
    y.backward(g, retain_graph=True)
    first = y.grad.clone()
    y.backward(g)
    return first, y.grad


@autograd("retain_grad_follows_a_tensor_through_a_write", leaf(1))
def retained_gradient_after_a_write(x: Tensor) -> Any:
    y = x * 3.0
    y.retain_grad()
    y.mul_(5.0)
    (y * 7.0).backward()
    return y.grad


@autograd("retain_grad_follows_a_view_through_writes", leaf(3))
def retained_gradients_of_views(x: Tensor) -> Any:
    y = x * 3.0
    base_written, written = y[1:], y[2:]
    for view in (base_written, written):
        view.retain_grad()
    written.mul_(5.0)
    ((base_written**2.0).sum() + written.sum()).backward()
    return base_written.grad, written.grad


@autograd("what_a_copy_overwrites_has_a_gradient_of_zeros", leaf(2), leaf(2))
def overwritten_by_a_copy(x: Tensor, source: Tensor) -> Any:
    y = x * 2.0
    y.copy_(source)
    return grad((y * y).sum(), [x, source])


@autograd("a_copy_and_its_source_have_hooks_and_gradients_of_their_own", leaf(1))
def copy_and_source(x: Tensor) -> Any:
    source, target = x * 2.0, cf.zeros(1, dtype=cf.float64)
    target.copy_(source)
    target.register_hook(lambda g: g * 10.0)
    found = grad(target + source, [source, target], retain_graph=True)
    (target + source).backward()
    return found


# --- who may see a buffer ----------------------------------------------------------------------


@autograd("seed_14_a_gradient_a_hook_has_seen_is_not_changed_later", leaf(2))
def seen_gradients_stay(x: Tensor) -> list[Tensor]:
    seen: list[Tensor] = []
    y = x * 1.0
    z = y * 1.0
    handles = [t.register_hook(lambda g: seen.append(g)) for t in (y, z, x)]
    (z * 2.0 + y * 3.0 + x * x + x).sum().backward()
    (x * 7.0).sum().backward()
    handles[-1].remove()
    return seen


@autograd("seed_14_a_gradient_from_grad_is_not_changed_later", leaf(1), leaf(1))
def found_gradients_stay(x: Tensor, y: Tensor) -> Any:
    z = x + y
    found = grad(z, [x, y, z], retain_graph=True)
    found[0].add_(5.0)
    z.backward()
    (x + y).backward()
    return found


for create_graph in (False, True):
    for some in (False, True):

        def two_slots(
            x: Tensor, y: Tensor, g: Tensor, create_graph: bool = create_graph, some: bool = some
        ) -> None:
            (x + y).backward(g, create_graph=create_graph, inputs=[x, y] if some else None)
            with cf.no_grad():
                x.grad.add_(1.0)

        autograd.named(
            f"two slots, {create_graph=}, {some=}", "seed_14_no_two_slots_share_a_buffer",
            leaf(1), leaf(1), plain(1),
        )(two_slots)  # fmt: skip


@autograd("the_slot_accumulates_in_place", leaf(1))
def one_slot(x: Tensor) -> Any:
    (x * 2.0).backward()
    slot = x.grad
    (x * 2.0).backward()
    assert x.grad is slot
    return slot


for (dtype,) in parameters(
    test_autograd_hooks.test_seed_14_gradients_keep_the_dtype_of_their_tensor
):
    autograd.named(
        f"gradients in {dtype}", "seed_14_gradients_keep_the_dtype_of_their_tensor",
        leaf(3, dtype=dtype),
    )(lambda x: (x * cf.ones(3, dtype=cf.float64) + x.float()).sum().backward())  # fmt: skip


@autograd("the_slot_takes_only_what_fits", leaf(1), raises=ValueError)
def a_gradient_that_does_not_fit(x: Tensor) -> None:
    x.grad = cf.ones(1)


# --- modes and rules ---------------------------------------------------------------------------


@autograd("modes_nest_and_decorate", leaf(1))
def nested_modes(x: Tensor) -> Any:
    with cf.no_grad():
        a = x * 2.0
        with cf.enable_grad():
            b = x * 3.0
    with cf.set_grad_enabled(False), cf.set_grad_enabled(True):
        c = x * 4.0
    d = cf.no_grad()(lambda t: t * 5.0)(x)
    with cf.inference_mode():
        e = (x * 6.0).clone()
    needs = [t.requires_grad for t in (a, b, c, d, e)]
    (a * b + c * d).backward()
    return needs, a, d


@autograd("modes_are_restored_after_exceptions", leaf(1))
def modes_after_exceptions(x: Tensor) -> list[bool]:
    found = []
    for mode in (cf.no_grad, cf.enable_grad, cf.inference_mode):
        try:
            with mode():
                raise KeyError
        except KeyError:
            found.append((x * 2.0).requires_grad)
    (x * 2.0).backward()
    return found


@autograd("backward_restores_modes_when_a_rule_raises", leaf(1))
def modes_after_a_hook_that_raises(x: Tensor) -> Any:
    handle = x.register_hook(lambda g: 1 / 0)
    try:
        x.sin().backward()
    except ZeroDivisionError:
        handle.remove()
    assert cf.is_grad_enabled()
    (x * 2.0).backward()


@autograd("requires_grad_and_its_refusals", plain(2))
def a_leaf_made_inside(x: Tensor) -> Any:
    y = x.clone().requires_grad_()
    assert y.is_leaf
    (y * y).sum().backward()
    return y.grad


@autograd("one_rule_may_serve_several_inputs", leaf(1), leaf(1))
def one_rule_for_several_inputs(x: Tensor, y: Tensor) -> None:
    both = {"a, b": lambda g, a, b: (g * b, g * a)}
    with temporary(elementwise, test_autograd_rules.product, ref=np.multiply, vjp=both) as op:
        op(x, y).backward()
        op(x, 2.0).backward()


@autograd("seed_11_a_rule_that_returns_too_few", leaf(1), leaf(1), raises=cf.GradientError)
def a_rule_that_returns_too_few(x: Tensor, y: Tensor) -> None:
    wrong = {"a, b": lambda g, a: (g * a,)}
    with temporary(elementwise, test_autograd_rules.product, ref=np.multiply, vjp=wrong) as op:
        op(x, y).backward()


@autograd("seed_11_a_rule_that_returns_the_wrong_shape", leaf(2), raises=cf.GradientError)
def a_rule_of_the_wrong_shape(x: Tensor) -> None:
    wrong = {"x": lambda g, x: (g * x)[:1]}
    with temporary(elementwise, test_autograd_rules.squaring, ref=np.square, vjp=wrong) as op:
        op(x).sum().backward()


# --- conventions -------------------------------------------------------------------------------


@autograd("seed_7_pow_leaks_no_nan", among(0.0, 0.0, 0.0, 2.0), among(0.0, 1.0, 3.0, 0.0))
def powers_of_zero(x: Tensor, y: Tensor) -> Any:
    return grad((x**y + x**2.0 + 2.0**y).sum(), [x, y])


@autograd("seed_8_conventions_at_kinks", among(0.0, 2.0, -1.0), among(2.0, 1.0, 2.0))
def kinks(x: Tensor, ties: Tensor) -> Any:
    functions = (cf.abs, cf.relu, lambda t: t.clamp(-1.0, 2.0))
    at_zero = [grad(f(x).sum(), x)[0] for f in functions]
    reduced = [grad(f, ties)[0] for f in (ties.amax(), ties.max(), ties.max(0)[0], (-ties).amin())]
    pairs = [grad(f(x, x.detach()).sum(), x) for f in (cf.maximum, cf.minimum)]
    return at_zero, reduced, pairs


@autograd("seed_16_indices_are_integers", plain(2, 300))
def integer_indices(x: Tensor) -> Any:
    return x.max(1), x.argmin(0)


@autograd("a_hook_on_a_view_that_is_written_through_gets_what_the_write_read", leaf(2, 2))
def hook_on_a_view_that_is_written_through(x: Tensor) -> Any:
    t = x * 1.5
    v = t[0]
    v.register_hook(lambda g: g * 10.0)
    v[:1].mul_(2.0)
    (t * t).sum().backward()
    return t.detach()


@autograd("a_hook_on_a_view_is_not_called_for_what_others_write", leaf(2, 2))
def hook_on_a_view_that_others_write(x: Tensor) -> Any:
    t = x * 1.5
    v = t[0]
    v.register_hook(lambda g: g * 10.0)
    t[0:1].mul_(2.0)
    (t * t).sum().backward()
    return t.detach()
