"""Scenarios of the engine: gradients, hooks, writes, what is saved, custom functions, modes."""

from __future__ import annotations

from typing import Any

import numpy as np
import test_autograd
import test_function
import test_inplace
import test_modes
import test_saved
from scenario import MODES, EagerFile, among, leaf, parameters, plain, positive
from test_function import Double, Exp, Product, Scale, returning

import contraflow as cf
from contraflow.autograd import Function, backward, detect_anomaly, grad, saved_tensors_hooks
from contraflow.autograd import once_differentiable
from contraflow.op import REGISTRY, elementwise
from tests.engine_common import temporary

Tensor = cf.Tensor
f32 = cf.float32
autograd = EagerFile("test_autograd")

# --- accumulation and order ----------------------------------------------------------------------


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


# --- roots ---------------------------------------------------------------------------------------


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


autograd.named("refused, too many gradients", "gradients_that_are_none", leaf(1), raises=ValueError)(
    lambda x: backward([x * 2.0], [None, None])
)
autograd.named("refused, an array", "gradients_that_are_none", leaf(1), raises=TypeError)(
    lambda x: (x * 2.0).backward(np.ones(1))
)
autograd.named("refused, no inputs", "backward_to_no_inputs_is_refused", leaf(1), raises=ValueError)(
    lambda x: x.sum().backward(inputs=[])
)


# --- grad and backward(inputs) -------------------------------------------------------------------


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


# --- retain_graph and create_graph ---------------------------------------------------------------


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


# --- hooks ---------------------------------------------------------------------------------------


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


def _leave_hooks(*tensors: Tensor) -> None:
    for t in tensors:
        t.register_hook(lambda g: g * 2.0)


autograd.named(
    "a hook that stays on an argument", "seed_12_handles_remove_hooks", leaf(2),
    differs=dict.fromkeys(MODES, "a replay leaves no hook on its own argument"),
)(_leave_hooks)  # fmt: skip


@autograd(
    "seed_12_handles_remove_hooks", plain(2), state=True,
    differs=dict.fromkeys(MODES, "a replay adds no second hook to a tensor from outside"),
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
    parameters(test_autograd.test_a_hook_that_returns_a_number_or_another_dtype)
):
    autograd.named(
        f"refused, a hook that returns {number}",
        "a_hook_that_returns_a_number_or_another_dtype", "a_hook_that_returns_another_shape",
        leaf(3), raises=cf.GradientError,
    )(lambda x, wrong=wrong: [x.register_hook(lambda g: wrong), x.sum().backward()])  # fmt: skip


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


@autograd("a_copy_and_its_source_have_hooks_and_gradients_of_their_own", leaf(1))
def copy_and_source(x: Tensor) -> Any:
    source, target = x * 2.0, cf.zeros(1, dtype=cf.float64)
    target.copy_(source)
    target.register_hook(lambda g: g * 10.0)
    found = grad(target + source, [source, target], retain_graph=True)
    (target + source).backward()
    return found


# --- who may see a buffer ------------------------------------------------------------------------


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


for (dtype,) in parameters(test_autograd.test_seed_14_gradients_keep_the_dtype_of_their_tensor):
    autograd.named(
        f"gradients in {dtype}", "seed_14_gradients_keep_the_dtype_of_their_tensor",
        leaf(3, dtype=dtype),
    )(lambda x: (x * cf.full((3,), 2.0, dtype=cf.float64) + x.float()).sum().backward())  # fmt: skip


@autograd("the_slot_takes_only_what_fits", leaf(1), raises=ValueError)
def a_gradient_that_does_not_fit(x: Tensor) -> None:
    x.grad = cf.ones(1)


# --- modes and rules -----------------------------------------------------------------------------


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
    with temporary(elementwise, test_autograd.product, ref=np.multiply, vjp=both) as op:
        op(x, y).backward()
        op(x, 2.0).backward()


@autograd(
    "seed_11_a_rule_that_returns_too_few", leaf(1), leaf(1), raises=cf.GradientError
)
def a_rule_that_returns_too_few(x: Tensor, y: Tensor) -> None:
    wrong = {"a, b": lambda g, a: (g * a,)}
    with temporary(elementwise, test_autograd.product, ref=np.multiply, vjp=wrong) as op:
        op(x, y).backward()


@autograd("seed_11_a_rule_that_returns_the_wrong_shape", leaf(2), raises=cf.GradientError)
def a_rule_of_the_wrong_shape(x: Tensor) -> None:
    wrong = {"x": lambda g, x: (g * x)[:1]}
    with temporary(elementwise, test_autograd.squaring, ref=np.square, vjp=wrong) as op:
        op(x).sum().backward()


# --- conventions ---------------------------------------------------------------------------------


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


# --- in place ------------------------------------------------------------------------------------

inplace = EagerFile("test_inplace")


@inplace("in_place_on_a_tensor_that_is_no_leaf", leaf(2))
def writes_to_a_result(x: Tensor) -> Tensor:
    y = x * 2.0
    y += 1.0
    y.mul_(3.0)
    y.sum().backward()
    return y.detach()


@inplace("in_place_makes_a_plain_tensor_part_of_the_graph", leaf(2))
def writes_to_a_plain_tensor(x: Tensor) -> bool:
    y = cf.zeros(2, dtype=cf.float64)
    y.add_(x * 3.0)
    y.sum().backward()
    return y.is_leaf


for (function,) in parameters(test_inplace.test_writes_through_views_have_right_gradients):
    inplace.pure(
        function.__name__, "writes_through_views_have_right_gradients", leaf(3, 3), leaf(3)
    )(function)


@inplace("a_write_under_no_grad_changes_data_only", leaf(2))
def writes_under_no_grad(x: Tensor) -> Tensor:
    y = x * 3.0
    with cf.no_grad():
        y[0] = 100.0
        x.mul_(2.0)
    y.sum().backward()
    return y.detach()


@inplace("a_write_through_detach_changes_data_and_version", leaf(2))
def writes_through_detach(x: Tensor) -> None:
    x.detach().mul_(2.0)


@inplace("the_value_of_a_write_may_overlap_its_target", plain(4), leaf(3))
def overlapping_writes(x: Tensor, z: Tensor) -> Tensor:
    x[1:] = x[:-1]
    y = z * 1.0
    y[:2] = y[1:]
    (y * y).sum().backward()
    return y.detach()


for write, name in parameters(test_inplace.test_refused_a_leaf_that_requires_grad):
    inplace.named(f"{name} of a leaf", "refused_a_leaf_that_requires_grad", leaf(2))(
        cf.no_grad()(lambda x, write=write: [write(x), None][1])
    )
    inplace.named(
        f"refused, {name} of a leaf", "refused_a_leaf_that_requires_grad", leaf(2),
        raises=cf.GradientError,
    )(write)  # fmt: skip


@inplace("refused_a_view_of_a_leaf_that_requires_grad", leaf(2))
def a_view_of_a_leaf(x: Tensor) -> None:
    with cf.no_grad():
        x[0] = 5.0


@inplace("refused_a_view_made_under_no_grad", leaf(2))
def a_view_made_under_no_grad(x: Tensor) -> Any:
    y = x * 2.0
    with cf.no_grad():
        part = y[:1]
        part.add_(1.0)
    return y.detach(), part.detach()


def _part_made_under_no_grad(y: Tensor) -> Tensor:
    with cf.no_grad():
        return y[:1]


for name, function in {
    "refused_a_view_that_is_itself_a_leaf": lambda x: cf.ones(4)[:2].requires_grad_().add_(1.0),
    "refused_a_view_of_a_leaf_that_requires_grad": lambda x: x[0].add_(1.0),
    "refused_a_view_made_under_no_grad": lambda x: _part_made_under_no_grad(x * 2.0).add_(1.0),
    "refused_one_of_several_views_made_together": lambda x: (x * 2.0).chunk(2)[0].add_(1.0),
    "refused_a_destination_that_overlaps_itself": lambda x: cf.ones(2).expand(3, 2).fill_(1.0),
}.items():
    inplace.named(name.replace("_", " "), name, leaf(2), raises=cf.GradientError)(function)


@inplace("an_in_place_result_must_fit", plain(3), raises=ValueError)
def a_result_that_does_not_fit(x: Tensor) -> None:
    x.mul_(2.0)  # a compiled call that raises has done nothing
    x.add_(cf.ones(2, 3))


for name, write in {
    "the tensor": lambda y: y.add_(1.0),
    "a part": lambda y: y[:1].mul_(2.0),
    "detached": lambda y: y.detach().zero_(),
    "by index": lambda y: y.__setitem__(0, 1.0),
    "data": lambda y: y.data.copy_(cf.ones(2)),
}.items():

    def overwrite_what_was_saved(x: Tensor, write: Any = write) -> None:
        y = x * 2.0
        z = y.exp().sum() + (y * y).sum()
        write(y)
        z.backward()

    inplace.named(
        f"refused, overwriting {name}", "seed_15_every_way_of_writing_counts",
        "seed_15_a_saved_value_that_was_overwritten_names_both_lines", leaf(2),
        raises=cf.GradientError,
    )(overwrite_what_was_saved)  # fmt: skip


@inplace(
    "a_strided_base_whose_view_is_irregular", leaf(2),
    lambda rng: cf.from_numpy(np.asfortranarray(rng.standard_normal((2, 3)))),
    raises=cf.GradientError,
)  # fmt: skip
def write_to_an_irregular_part(x: Tensor, base: Tensor) -> None:
    base.T.reshape(6)[:2] = x


@inplace(
    "a_saved_leaf_whose_data_was_replaced", leaf(2),
    refuses="which a replay would not do again. Write x.copy_(value)",
)  # fmt: skip
def replaced_data(x: Tensor) -> None:
    x.data = x.detach() * 2.0


@inplace("seed_15_an_output_that_was_overwritten", leaf(1), raises=cf.GradientError)
def overwrite_an_output(x: Tensor) -> None:
    x.exp().mul_(2.0).backward()


@inplace("seed_15_what_saved_nothing_does_not_complain", leaf(2))
def overwrite_what_nobody_saved(x: Tensor) -> None:
    y = x * 2.0
    z = y + 1.0
    y.mul_(5.0)
    z.sum().backward()


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
    try:
        y.backward()
    except KeyError:
        pass
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
    view = _part_made_under_no_grad(y)
    y.mul_(2.0)
    return view.detach()


@modes("a_view_made_under_no_grad_whose_base_is_written", leaf(2), raises=cf.GradientError)
def a_view_without_a_place(x: Tensor) -> None:
    y = x * 1.0
    view = _part_made_under_no_grad(y)
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
