"""What is kept for backward, for how long, and the two ways to keep less of it."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from tests.helpers import engine_common
from tests.helpers.engine_common import Counter, leaf, nodes_below, place, refused

import contraflow as cf
from contraflow import thresholds
from contraflow.autograd import grad, saved_tensors_hooks
from contraflow.nn import functional as F
from contraflow.operation.context import state
from contraflow.tensors.tensor import Tensor
from contraflow.testing import assert_close, check_gradients

storages = pytest.fixture(engine_common.storages)
without_collector = pytest.fixture(engine_common.without_collector)

# --- what is saved, and for how long -------------------------------------------------------------


def saved_by(t: Tensor) -> dict[str, Any]:
    return t.grad_fn.saved


def test_each_op_saves_what_its_bound_rules_name() -> None:
    x, plain = leaf(1.0, 2.0), cf.ones(2, dtype=cf.float64)
    assert set(saved_by(x.exp())) == {"out"}
    assert set(saved_by(x.sin())) == {"x"}
    assert saved_by(x + x) == {}
    assert saved_by(x.sum()) == {}
    assert saved_by(x[:1]) == {}
    assert saved_by(x * 3.0) == {"b": 3.0}
    assert set(saved_by(x * plain)) == {"b"}
    assert set(saved_by(plain * x)) == {"a"}
    assert set(saved_by(x * x)) == {"a", "b"}
    assert set(saved_by(cf.softmax(x, 0))) == {"out"}
    assert saved_by(x.sin())["x"].storage is x.storage
    y = x.exp()
    assert saved_by(y)["out"].storage is y.storage
    assert saved_by(y)["out"].nbytes == 16


def test_a_first_linear_layer_keeps_its_input_only() -> None:
    x = cf.ones(3, 4)
    weight, bias = cf.ones(5, 4, requires_grad=True), cf.ones(5, requires_grad=True)
    out = cf.linear(x, weight, bias)
    kept = {(n.name, name): value for n in nodes_below(out) for name, value in n.saved.items()}
    assert set(kept) == {("linear", "x")}
    assert kept["linear", "x"].storage is x.storage


def test_intermediates_nobody_saved_are_freed_at_once(without_collector: None) -> None:
    x = cf.ones(10, requires_grad=True)
    a = x * 2.0
    b = a + 1.0
    storage, node = weakref.ref(a.storage), weakref.ref(a.grad_fn)
    del a
    assert storage() is None
    assert node() is not None
    del b
    assert node() is None


def a_bit_of_everything(x: Tensor) -> Tensor:
    w = (x * 2.0).sin()
    w.retain_grad()
    w.register_hook(lambda g: g * 1.0)
    y = cf.softmax(w.reshape(2, 2), 1) @ w.reshape(2, 2).T
    y[0] = y[1].exp()
    part = y[:, 0]
    part.mul_(2.0)
    z = cf.checkpoint(lambda v: (v * v).tanh(), y)
    z = cf.layer_norm(z, (2,))
    return cf.dropout(z, 0.5).sum() + w.amax()


@pytest.mark.parametrize("run_backward", [False, True])
def test_everything_is_freed_when_the_loss_is_dropped(
    without_collector: None, storages: Counter, run_backward: bool
) -> None:
    x = cf.tensor([0.1, 0.2, 0.3, 0.4], requires_grad=True)
    before = len(storages.live)
    loss = a_bit_of_everything(x)
    nodes = weakref.WeakSet(nodes_below(loss))
    if run_backward:
        loss.backward()
        x.grad = None
    assert len(nodes) > 15
    del loss
    assert len(nodes) == 0
    assert len(storages.live) == before


def test_a_write_makes_no_cycle_of_what_its_op_saved(
    without_collector: None, storages: Counter
) -> None:
    z = leaf(1.0, 2.0)
    before = len(storages.live)
    y = cf.ones(2, dtype=cf.float64)
    y.mul_(z)  # mul saved y, and y is now mul's output
    v = z * 2.0
    v[:1] = v[1:].sin()
    del y, v
    assert len(storages.live) == before


def test_create_graph_makes_no_cycle(without_collector: None, storages: Counter) -> None:
    x = leaf(1.0, 2.0)
    before = len(storages.live)
    y = x.exp().sum()
    (g,) = grad(y, x, create_graph=True)
    (h,) = grad(g.sum(), x)
    del y, g, h
    assert len(storages.live) == before


def test_saved_values_are_freed_as_their_nodes_run(storages: Counter) -> None:
    x = leaf(0.5, 0.6)
    y = x
    alive = []
    for _ in range(10):
        y = y.exp() * 0.1
        y.register_hook(lambda g: alive.append(len(storages.live)))
    y = y.sum()
    storages.restart()
    y.backward()
    assert alive[1:] == sorted(alive[1:], reverse=True)
    assert alive[1] - alive[-1] >= 8


def test_seed_14_a_weight_used_often_holds_a_few_copies(storages: Counter) -> None:
    w = cf.ones(100, requires_grad=True)
    x = cf.ones(100)
    loss = cf.zeros(100)
    for _ in range(200):
        loss = loss + w * x
    loss = loss.sum()
    before = storages.restart()
    loss.backward()
    assert storages.peak - before <= 5
    assert_close(w.grad, np.full(100, 200.0))


# --- saved_tensors_hooks -------------------------------------------------------------------------


def test_saved_values_pass_through_the_hooks() -> None:
    x = leaf(1.0, 2.0)
    packed, unpacked = [], []

    def pack(t: Tensor) -> np.ndarray:
        packed.append(t.shape)
        assert not cf.is_grad_enabled()
        return t.numpy().copy()  # it needs no gradient here, so numpy() is allowed

    def unpack(array: np.ndarray) -> Tensor:
        unpacked.append(array.shape)
        return cf.tensor(array)

    with saved_tensors_hooks(pack, unpack):
        y = (x * x).sin().sum()
    assert len(packed) == 3
    assert unpacked == []
    assert y.grad_fn.next_functions[0][0].saved["x"].nbytes == 16  # what pack made of it
    y.backward()
    assert len(unpacked) == 3
    assert_close(x.grad, 2 * x.array * np.cos(x.array**2))


@pytest.mark.parametrize("keep", [lambda t: t, lambda t: t.numpy().copy()])
def test_packed_values_stay_in_the_graph(keep: Callable[[Tensor], Any]) -> None:
    def cube(x: Tensor) -> Tensor:
        with saved_tensors_hooks(keep, cf.as_tensor):
            return x * x * x + (x * 2.0).sin() + x.exp()

    check_gradients(cube, [np.linspace(-1.0, 1.0, 3)], order=3)


def test_the_innermost_hooks_count() -> None:
    x = leaf(1.0)
    calls = []
    outer = saved_tensors_hooks(lambda t: calls.append("outer") or t, lambda t: t)
    inner = saved_tensors_hooks(lambda t: calls.append("inner") or t, lambda t: t)
    with outer:
        with inner:
            x.sin()
        x.sin()
    x.sin()
    assert calls == ["inner", "outer"]


def test_a_pack_hook_that_writes() -> None:
    with (
        saved_tensors_hooks(lambda t: t.add_(1.0), lambda t: t),
        refused(
            cf.GradientError,
            "saved_tensors_hooks: pack wrote to float64[1] in place; it must not.",
        ),
    ):
        (leaf(1.0) * 1.0).sin()


def test_an_unpack_hook_that_returns_no_tensor() -> None:
    with saved_tensors_hooks(lambda t: t, lambda t: 3.0):
        y = leaf(1.0).sin()
    with refused(
        TypeError, "saved_tensors_hooks: unpack returned 3.0 for sin; it must return a Tensor."
    ):
        y.backward()


# --- checkpoint ----------------------------------------------------------------------------------


def block(x: Tensor, w: Tensor, *, scale: float = 1.0) -> Tensor:
    h = cf.dropout((x @ w).tanh() * scale, 0.5)
    return (h @ w).sigmoid()


def gradients_with(run: Callable[..., Tensor]) -> list[np.ndarray]:
    cf.manual_seed(3)
    rng = np.random.default_rng(0)
    x = cf.tensor(rng.standard_normal((4, 8)).astype(np.float32), requires_grad=True)
    w = cf.tensor(rng.standard_normal((8, 8)).astype(np.float32), requires_grad=True)
    loss = run(x, w).sum()
    after = cf.rand(3).array.copy()
    loss.backward()
    return [loss.array, x.grad.array, w.grad.array, after, cf.rand(3).array]


def test_seed_9_a_checkpoint_changes_no_bit() -> None:
    plain = gradients_with(lambda x, w: block(block(x, w, scale=0.7), w))
    checked = gradients_with(lambda x, w: block(cf.checkpoint(block, x, w, scale=0.7), w))
    nested = gradients_with(
        lambda x, w: cf.checkpoint(lambda v: block(cf.checkpoint(block, v, w, scale=0.7), w), x)
    )
    for a, b, c in zip(plain, checked, nested, strict=True):
        assert a.tobytes() == b.tobytes() == c.tobytes()


def test_seed_9_is_recomputing() -> None:
    seen = []

    def function(x: Tensor) -> Tensor:
        seen.append(cf.is_recomputing())
        return x.sin()

    x = leaf(1.0)
    y = cf.checkpoint(function, x)
    assert seen == [False]
    y.backward()
    assert seen == [False, True]
    assert not cf.is_recomputing()


def test_seed_9_the_flag_and_the_state_are_restored_when_the_function_raises() -> None:
    def function(x: Tensor) -> Tensor:
        if cf.is_recomputing():
            cf.rand(5)
            raise KeyError("again")
        return x.sin()

    y = cf.checkpoint(function, leaf(1.0))
    before = cf.get_rng_state()
    with pytest.raises(KeyError, match="again"):
        y.backward()
    assert not cf.is_recomputing()
    assert cf.is_grad_enabled()
    assert cf.get_rng_state() == before
    assert state().saved_hooks == ()
    with pytest.raises(ZeroDivisionError):
        cf.checkpoint(lambda x: 1 / 0, leaf(1.0))
    assert state().saved_hooks == ()


def test_seed_9_activations_are_dropped(storages: Counter) -> None:
    def layer(x: Tensor) -> Tensor:
        return (x * x).tanh().sin().exp() * 0.3

    def peak(run: Callable[[Tensor], Tensor]) -> int:
        x = cf.tensor([0.1, 0.2], requires_grad=True)
        before = storages.restart()
        run(x).sum().backward()
        return storages.peak - before

    def plain(x: Tensor) -> Tensor:
        for _ in range(64):
            x = layer(x)
        return x

    whole = peak(plain)
    cut = peak(lambda x: cf.checkpoint_sequential([layer] * 64, 8, x))
    assert whole >= 64 * 3
    assert cut < whole / 4


def test_seed_9_each_block_runs_twice() -> None:
    calls = []

    def layer(x: Tensor) -> Tensor:
        calls.append(1)
        return (x * x).sin() * x.exp()

    cf.checkpoint_sequential([layer] * 4, 2, leaf(0.1)).backward()
    assert len(calls) == 8


def test_a_checkpoint_keeps_nothing_but_its_arguments(
    without_collector: None, storages: Counter
) -> None:
    x = cf.tensor([0.1, 0.2], requires_grad=True)
    before = len(storages.live)
    y = cf.checkpoint(lambda v: (v * v).sin().exp().tanh(), x)
    assert len(storages.live) - before == 1
    y.sum().backward()
    del y
    assert len(storages.live) - before == 1  # x.grad


def test_checkpoint_is_differentiable_twice() -> None:
    def function(x: Tensor) -> Tensor:
        return cf.checkpoint(lambda v: (v * v).sin() * v.exp(), x * 2.0)

    check_gradients(function, [np.linspace(-1.0, 1.0, 3)], order=3)


def test_checkpoint_under_retain_graph_runs_again() -> None:
    x = leaf(0.5)
    y = cf.checkpoint(lambda v: (v * v).sin(), x)
    y.backward(retain_graph=True)
    y.backward()
    assert_close(x.grad, 2 * np.cos([0.25]))


def test_checkpoint_takes_any_structure() -> None:
    def function(pair: tuple[Tensor, Tensor], *, extra: dict[str, Tensor]) -> dict[str, Any]:
        a, b = pair
        return {"out": [a * b, (a * extra["c"]).sin()], "none": None}

    a, b, c = leaf(2.0), leaf(3.0), leaf(5.0)
    out = cf.checkpoint(function, (a, b), extra={"c": c})
    (out["out"][0] + out["out"][1]).backward()
    assert_close(a.grad, 3.0 + 5.0 * np.cos([10.0]))
    assert_close(c.grad, 2.0 * np.cos([10.0]))


def test_checkpoint_without_grad_just_runs() -> None:
    with cf.no_grad():
        y = cf.checkpoint(lambda v: v.sin(), leaf(1.0))
    assert not y.requires_grad


def test_a_recomputation_that_differs() -> None:
    def more(x: Tensor) -> Tensor:
        return x.sin().sin() if cf.is_recomputing() else x.sin()

    def other(x: Tensor) -> Tensor:
        return (x[:1] if cf.is_recomputing() else x).sin()

    with refused(
        cf.GradientError,
        "checkpoint: the recomputation saved 2 values, the first run 1. The function must do the ",
        "same each time.",
    ):
        cf.checkpoint(more, leaf(1.0)).backward()
    with refused(
        cf.GradientError,
        "checkpoint: saved value 0 was float64[2] in the first run and is float64[1] in the ",
        "recomputation. The function must do the same each time.",
    ):
        cf.checkpoint(other, leaf(1.0, 2.0)).sum().backward()
    cf.checkpoint(more, leaf(1.0), determinism_check="none").backward()
    with refused(
        ValueError,
        "checkpoint: determinism_check is 'maybe'; it must be 'default' or 'none'.",
    ):
        cf.checkpoint(more, leaf(1.0), determinism_check="maybe")


def test_an_argument_overwritten_before_the_recomputation() -> None:
    x = leaf(0.5) * 1.0
    y = cf.checkpoint(lambda v: (v * v).sin(), x)  # ran here
    x.add_(1.0)  # wrote here
    with refused(
        cf.GradientError,
        f"checkpoint saved float64[1] at {place('ran here')} for its backward, but add_ overwrote "
        f"it at {place('wrote here')}. Use the out-of-place form, or clone it before.",
    ):
        y.backward()


def test_a_nested_checkpoint_keeps_no_inner_arguments(
    without_collector: None, storages: Counter
) -> None:
    def inner(v: Tensor) -> Tensor:
        return (v * v).sin().exp()

    def outer(v: Tensor) -> Tensor:
        for _ in range(5):
            v = cf.checkpoint(inner, v * 0.5)
        return v

    x = cf.tensor([0.1, 0.2], requires_grad=True)
    before = len(storages.live)
    y = cf.checkpoint(outer, x)
    assert len(storages.live) - before == 1
    y.sum().backward()
    plain = cf.tensor([0.1, 0.2], requires_grad=True)
    v = plain
    for _ in range(5):
        v = inner(v * 0.5)
    v.sum().backward()
    assert x.grad.array.tobytes() == plain.grad.array.tobytes()


# --- what may be overwritten: where PyTorch allows it -------------------------------------------

WRITABLE_RESULTS: dict[str, tuple[Callable[..., Any], tuple[int, ...]]] = {
    "instance_norm": (lambda x: F.instance_norm(x), (2, 3, 4)),
    "instance_norm with weights": (
        lambda x: F.instance_norm(x, weight=cf.ones(3, dtype=cf.float64)), (2, 3, 4),
    ),
    "group_norm": (lambda x: F.group_norm(x, 1), (2, 3, 4)),
    "batch_norm": (lambda x: F.batch_norm(x, None, None, training=True), (4, 3)),
    "layer_norm": (lambda x: F.layer_norm(x, (4,)), (2, 3, 4)),
    "div": (lambda x: x[0] / x[1], (2, 3)),
    "kron": (lambda x: cf.kron(x, x), (2, 2)),
    "normalize": (lambda x: F.normalize(x), (3, 4)),
    "tanhshrink": (lambda x: F.tanhshrink(x), (3,)),
    "erfinv": (lambda x: cf.erfinv(x * 0.1), (3,)),
    "ldexp": (lambda x: cf.ldexp(x, cf.tensor([1, 2, 3])), (3,)),
    "interpolate": (lambda x: F.interpolate(x, scale_factor=2, mode="bilinear"), (1, 1, 3, 3)),
    "slice_scatter": (lambda x: cf.slice_scatter(x, x[:1] * 2.0, 0, 1, 2), (3, 2)),
    "hsplit": (lambda x: cf.hsplit(x, 2)[0], (2, 4)),
    "vsplit": (lambda x: cf.vsplit(x, 2)[1], (4, 2)),
    "dsplit": (lambda x: cf.dsplit(x, 2)[0], (2, 2, 4)),
    "tensor_split": (lambda x: cf.tensor_split(x, (1, 2))[1], (4, 2)),
}  # fmt: skip


@pytest.fixture(params=[1, 1 << 40], ids=["as one program", "by parts"])
def composites(request: pytest.FixtureRequest) -> Iterator[None]:
    with thresholds.using(eager_composite=request.param):
        yield


@pytest.mark.usefixtures("composites")
@pytest.mark.parametrize("name", WRITABLE_RESULTS)
def test_a_result_may_be_overwritten(name: str) -> None:
    function, shape = WRITABLE_RESULTS[name]

    def doubled(x: Tensor) -> Tensor:
        y = function(x * 1.0)
        return y.mul_(2.0).relu_()

    x = np.random.default_rng(0).standard_normal(shape)
    given = cf.tensor(x, requires_grad=True), cf.tensor(x, requires_grad=True)
    for step, point in zip((doubled, lambda x: (function(x * 1.0) * 2.0).relu()), given):
        out = step(point)
        (out * cf.arange(float(out.numel()), dtype=out.dtype).reshape(out.shape)).sum().backward()
    assert_close(given[0].grad, given[1].grad)


WRITABLE_INPUTS: dict[str, tuple[Callable[..., Any], tuple[int, ...]]] = {
    "interpolate": (lambda x: F.interpolate(x, scale_factor=2, mode="bilinear"), (1, 1, 3, 3)),
    "kron": (lambda x: cf.kron(x, x), (2, 2)),
    "tanhshrink": (lambda x: F.tanhshrink(x), (3,)),
    "slice_scatter": (lambda x: cf.slice_scatter(x, cf.ones(1, 2, dtype=x.dtype), 0, 1, 2), (3, 2)),
    "stack": (lambda x: cf.stack([x, x]), (3, 2)),
    "pad": (lambda x: F.pad(x, (1, 1)), (3, 2)),
    "channel_shuffle": (lambda x: F.channel_shuffle(x, 1), (1, 4, 2)),
    "softmin": (lambda x: F.softmin(x, 0), (3,)),
    "cross_entropy": (lambda x: F.cross_entropy(x, cf.tensor([0, 1])), (2, 3)),
    "l1_loss": (lambda x: F.l1_loss(x, cf.zeros(3, dtype=x.dtype)), (3,)),
}


@pytest.mark.usefixtures("composites")
@pytest.mark.parametrize("name", WRITABLE_INPUTS)
def test_an_input_may_be_overwritten(name: str) -> None:
    function, shape = WRITABLE_INPUTS[name]
    x = np.random.default_rng(0).standard_normal(shape)
    grads = []
    for writes in (True, False):
        point = cf.tensor(x, requires_grad=True)
        given = point * 1.0
        out = function(given)
        if writes:
            given.mul_(2.0)
            given.zero_()
        (out * out.detach().sin()).sum().backward()
        grads.append(point.grad)
    assert_close(*grads)


@thresholds.using(eager_composite=1)
def test_a_composite_keeps_no_input_that_its_gradient_does_not_read() -> None:
    x = cf.ones(3, 4, requires_grad=True)
    y = cf.hstack([x * 1.0, x * 2.0])
    assert y.node.name == "hstack"
    assert not y.node.saved
    (g,) = cf.autograd.grad((y * y).sum(), x, create_graph=True)  # and of higher order
    assert_close(cf.autograd.grad(g.sum(), x)[0], np.full((3, 4), 10.0))
