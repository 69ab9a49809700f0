"""Large eager ops as programs: the same values, gradients and errors as over NumPy.

Thresholds are set to 0 here, so that every tensor is large.
"""

from __future__ import annotations

import gc
import threading
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from tests.helpers.op_checks import differentiable, to_tensor
from tests.ops.test_compiled_ops import cases, program

import contraflow as cf
from contraflow import config, thresholds
from contraflow.operation.op import Op
from contraflow.operation.samples import Sample
from contraflow.runtime import eager_programs
from contraflow.runtime.routine import Routine
from contraflow.tensors.tensor import Tensor
from contraflow.testing import assert_close, make_inputs


@pytest.fixture(autouse=True)
def everything_is_large() -> Iterator[None]:
    with thresholds.using(eager_kernel=0, eager_composite=0, eager_join=0, eager_arithmetic=0):
        yield
    eager_programs._routines.clear()


def over_numpy(function: Callable[[], Any], monkeypatch: pytest.MonkeyPatch) -> Any:
    with monkeypatch.context() as patch:
        patch.setattr(config, "eager_kernels", False)
        return function()


def routines() -> list[Routine]:
    return [r for r in eager_programs._routines.values() if isinstance(r, Routine)]


def test_gradients_that_meet_are_added_by_a_program(monkeypatch: pytest.MonkeyPatch) -> None:
    x = cf.arange(12, dtype=cf.float32).reshape(3, 4).requires_grad_()
    factor = cf.arange(3, dtype=cf.float32)

    def gradient() -> Any:
        seen: list[Tensor] = []
        y = x * 1.0
        y.register_hook(seen.append)
        # One cotangent of y is a view of another's elements, the others are the engine's own.
        ((y.T * factor).sum() + (y * 2.0).sum() + y.sum()).backward()
        (whole,) = seen
        found, x.grad = x.grad, None
        assert found is not None
        assert (found == whole).all()
        return found.numpy()

    by_program = gradient()
    assert any("add" in key[:1] for key in eager_programs._routines)
    assert (by_program == np.arange(3, dtype=np.float32)[:, None] + 3.0).all()
    assert (by_program == over_numpy(gradient, monkeypatch)).all()


@pytest.mark.parametrize(("op", "sample"), list(cases()))
def test_an_op_as_a_program_equals_numpy(
    op: Op, sample: Sample, monkeypatch: pytest.MonkeyPatch
) -> None:
    inputs = make_inputs(sample)
    wrt = differentiable(op, inputs)
    given = [to_tensor(x) for x in inputs]
    for i in wrt:
        given[i].requires_grad_()
    run = program(op, sample.params, wrt, np.random.default_rng(3))

    def seeded() -> Any:
        cf.manual_seed(5)
        return run(*given)

    expected, found = over_numpy(seeded, monkeypatch), seeded()
    assert len(found) == len(expected)
    for a, b in zip(found, expected):
        assert_close(a, b)


def test_most_of_what_a_network_does_is_a_program() -> None:
    x = cf.randn(4, 8, requires_grad=True)
    w, b = cf.randn(16, 8, requires_grad=True), cf.randn(16, requires_grad=True)
    h = cf.nn.functional.gelu(cf.nn.functional.layer_norm(cf.linear(x, w, b), (16,)))
    cf.nn.functional.cross_entropy(h.softmax(-1), cf.tensor([0, 3, 5, 15])).backward()
    made = {(key[0], "backward" in str(key[1])[:12]) for key, r in eager_programs._routines.items()
            if isinstance(r, Routine)}  # fmt: skip
    for name in ("linear", "layer_norm", "gelu", "softmax"):
        assert (name, False) in made
        assert (name, True) in made


def test_backward_sums_gradients_to_the_shapes_of_inputs_in_its_program() -> None:
    x, w = cf.randn(4, 8, requires_grad=True), cf.randn(8, requires_grad=True)
    y = cf.nn.functional.rms_norm(x, (8,), w)
    g = cf.randn(4, 8)
    eager_programs._routines.clear()
    y.backward(g)
    assert [key[0] for key in eager_programs._routines] == ["rms_norm"]
    assert w.grad is not None
    assert w.grad.shape == (8,)


def test_attention_and_convolution_are_a_program_each_way() -> None:
    q, k, v = (cf.randn(2, 4, 8, requires_grad=True) for _ in range(3))
    cf.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True).backward(q.detach())
    assert [key[0] for key in eager_programs._routines] == ["attend", "attend"]
    eager_programs._routines.clear()
    x, w = cf.randn(2, 3, 6, 6, requires_grad=True), cf.randn(4, 3, 3, 3, requires_grad=True)
    bias = cf.randn(4, requires_grad=True)
    out = cf.conv2d(x, w, bias)
    out.backward(out.detach())
    assert [key[0] for key in eager_programs._routines] == ["correlate", "correlate"]


def test_backward_of_pooling_does_not_pool_again() -> None:
    x = cf.randn(2, 6, 6, requires_grad=True)
    out = cf.nn.functional.max_pool2d(x, 2)
    eager_programs._routines.clear()
    out.backward(out.detach())
    (routine,) = routines()
    assert len(routine.executable.kernels) == 1


@pytest.mark.parametrize(
    "view",
    [
        lambda x: x,
        lambda x: x.mT,
        lambda x: x[1:, ::2],
        lambda x: x[2:3].expand(6, 8),
        lambda x: x.reshape(2, 3, 8).permute(2, 0, 1),
    ],
)
def test_strides_and_offsets_are_seen(
    view: Callable[[Tensor], Tensor], monkeypatch: pytest.MonkeyPatch
) -> None:
    x = cf.randn(6, 8)

    def run() -> Any:
        leaf = x.clone().requires_grad_()
        part = view(leaf)
        (cf.nn.functional.gelu(part).softmax(-1) * part.sum()).sum().backward()
        return leaf.grad

    expected = over_numpy(run, monkeypatch)
    assert_close(run(), expected)
    assert routines()


def test_views_stay_views() -> None:
    x = cf.zeros(4, 6)
    for view in (x.reshape(2, 12), x.flatten(), x[1:], x.contiguous(), x.unsqueeze(0)):
        assert view.storage is x.storage


def test_numbers_that_are_equal_but_not_the_same_do_not_share_a_routine() -> None:
    x = cf.tensor([[1.0, -2.0], [3.0, 4.0]])
    pad = cf.nn.functional.pad
    assert np.signbit(pad(x, (1, 0), value=-0.0).numpy()[0, 0])
    assert not np.signbit(pad(x, (1, 0), value=0.0).numpy()[0, 0])
    assert eager_programs.exactly({"n": 1}) != eager_programs.exactly({"n": True})
    assert eager_programs.exactly({"n": 1}) != eager_programs.exactly({"n": 1.0})
    assert eager_programs.exactly({"p": 0.0}) != eager_programs.exactly({"p": -0.0})


def test_another_default_dtype_is_another_routine() -> None:
    x = cf.ones(4, dtype=cf.int64)
    assert x.sin().dtype is cf.float32
    cf.set_default_dtype(cf.float64)
    try:
        assert x.sin().dtype is cf.float64
    finally:
        cf.set_default_dtype(cf.float32)
    assert x.sin().dtype is cf.float32


def test_random_numbers_are_drawn_anew() -> None:
    x = cf.ones(64)
    a, b = (cf.nn.functional.dropout(x, 0.5, True) for _ in range(2))
    assert not cf.equal(a, b)


def test_an_index_out_of_range_is_told_as_over_numpy(monkeypatch: pytest.MonkeyPatch) -> None:
    table, at = cf.randn(4, 3), cf.tensor([0, 4])

    def message() -> str:
        with pytest.raises(IndexError) as caught:
            cf.nn.functional.embedding(at, table)
        return str(caught.value)

    assert message() == over_numpy(message, monkeypatch)


def test_gradients_have_buffers_of_their_own() -> None:
    a, b = cf.randn(4, 4, requires_grad=True), cf.randn(4, 4, requires_grad=True)
    (a + b).sum().backward()
    assert a.grad is not None
    assert b.grad is not None
    assert a.grad.storage is not b.grad.storage
    a.grad.zero_()
    assert (b.grad == 1).all()


def test_threads_share_routines() -> None:
    x = cf.randn(32, 32)
    expected = (x @ x).softmax(-1)
    wrong: list[Any] = []

    def work() -> None:
        for _ in range(20):
            if not cf.equal((x @ x).softmax(-1), expected):
                wrong.append(1)

    threads = [threading.Thread(target=work) for _ in range(6)]
    for t in threads:
        t.start()
    for t in threads:
        t.join(60)
    assert not wrong
    assert not any(t.is_alive() for t in threads)


@thresholds.using(kept_programs=3)
def test_the_cache_is_bounded() -> None:
    for n in range(2, 8):
        cf.ones(n).softmax(0)
    assert len(eager_programs._routines) <= 3


# --- optimizers --------------------------------------------------------------------------------

OPTIMIZERS = {
    "sgd": lambda p: cf.optim.SGD(p, lr=0.1, momentum=0.9, nesterov=True, weight_decay=0.01),
    "adam": lambda p: cf.optim.Adam(p, lr=0.1, weight_decay=0.01, amsgrad=True),
    "adamw": lambda p: cf.optim.AdamW(p, lr=0.1),
}


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_a_fused_update_equals_the_plain_one(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def train() -> Any:
        cf.manual_seed(1)
        a, b = cf.randn(5, 3, requires_grad=True), cf.randn(3, requires_grad=True)
        late = cf.ones(2, requires_grad=True)
        optimizer = OPTIMIZERS[name]([a, b])
        for i in range(6):
            optimizer.zero_grad()
            loss = ((cf.ones(4, 5) @ a + b) ** 2).mean()
            if i == 3:  # one without a gradient, another rate, another group
                loss = (a**2).sum()
                optimizer.param_groups[0]["lr"] = 0.03
                optimizer.add_param_group({"params": [late], "lr": 0.5})
            if i > 3:
                loss = loss + (late**2).sum()
            loss.backward()
            optimizer.step()
        state = [v for entries in optimizer.state.values() for v in entries.values()]
        return [a.detach(), b.detach(), late.detach(), *(v for v in state if isinstance(v, Tensor))]

    expected, found = over_numpy(train, monkeypatch), train()
    for x, y in zip(found, expected, strict=True):
        assert_close(x, y)


def test_a_fused_optimizer_is_not_kept_alive() -> None:
    p = cf.randn(8, requires_grad=True)
    optimizer = cf.optim.Adam([p])
    (p * p).sum().backward()
    optimizer.step()
    alive = weakref.ref(optimizer)
    del optimizer
    gc.collect()
    assert alive() is None


def test_an_optimizer_of_the_users_own_runs_as_it_is_written() -> None:
    calls = []

    class Mine(cf.optim.SGD):
        def update(self, group: Any, updated: Any) -> None:
            calls.append(len(updated))
            super().update(group, updated)

    p = cf.randn(8, requires_grad=True)
    optimizer = Mine([p], lr=0.1)
    for _ in range(3):
        optimizer.zero_grad()
        (p * p).sum().backward()
        optimizer.step()
    assert calls == [1, 1, 1]


def test_an_element_by_its_number_is_no_program():
    """Each number would be another one: slower than a view, and useful ones would be forgotten."""
    x = cf.rand(20, 3)
    rows = cf.tensor([0, 2])
    assert [x[i].shape for i in range(20)] == [(3,)] * 20
    assert all(key[0] != "getitem" for key in eager_programs._routines)
    x[rows], x[rows + 1]
    assert len(routines()) <= 3


def test_parts_are_joined_one_after_the_other() -> None:
    parts = [cf.full((4, 4), float(i)) for i in range(200)]
    joined = cf.cat(parts)
    assert joined.shape == (800, 4)
    assert joined[::4, 0].tolist() == list(map(float, range(200)))
    assert not any(key[0] == "cat" for key in eager_programs._routines)


def test_forward_mode_sees_the_parts_of_a_composite(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(0)
    x, v = cf.tensor(rng.standard_normal((4, 3))), cf.tensor(rng.standard_normal((4, 3)))
    target = cf.tensor(rng.integers(0, 3, 4))

    def pushed() -> Any:
        return cf.func.jvp(lambda x: cf.nn.functional.cross_entropy(x, target), (x,), (v,))

    expected, found = over_numpy(pushed, monkeypatch), pushed()
    assert_close(found, expected)


def test_a_composite_without_rules_is_one_node() -> None:
    x = cf.randn(4, 3, dtype=cf.float64, requires_grad=True)
    loss = cf.nn.functional.cross_entropy(x, cf.tensor([0, 1, 2, 0]))
    assert loss.grad_fn.name == "cross_entropy"
    assert [end for end, _ in loss.grad_fn.next_functions if end is not None] == [x]
    assert loss.grad_fn.saved["x"].nbytes == x.nbytes
    assert cf.autograd.gradgradcheck(
        lambda x: cf.nn.functional.cross_entropy(x, cf.tensor([0, 1, 2, 0])), (x,)
    )


def test_inputs_of_a_composite_that_depend_on_each_other(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def gradients() -> Any:
        x = cf.tensor([[0.5, -1.0], [2.0, 0.25]], dtype=cf.float64, requires_grad=True)
        loss = cf.nn.functional.mse_loss(x, x * x)
        (g,) = cf.autograd.grad(loss, x, create_graph=True)
        return (g.detach(), *cf.autograd.grad((g * g).sum(), x))

    expected, found = over_numpy(gradients, monkeypatch), gradients()
    assert any("mse_loss" in key for key in eager_programs._routines)
    assert_close(found, expected)


def test_gradients_of_parts_are_put_side_by_side_by_one_program() -> None:
    x = cf.randn(4, 3, 5, requires_grad=True)
    parts = [x[:, j] * (j + 1.0) for j in range(3)]
    eager_programs._routines.clear()
    sum(part.sum() for part in parts).backward()
    (joined,) = [r for full, r in eager_programs._routines.items() if full[0] == "joined"]
    assert isinstance(joined, Routine)
    assert len(joined.executable.kernels) == len(parts), "a store for each, since nothing is left"
    assert_close(x.grad, np.broadcast_to(np.array([[1.0], [2.0], [3.0]], "f4"), (4, 3, 5)))
