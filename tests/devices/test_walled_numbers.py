"""Tensors of the cpu without dims beside tensors of a device, in compiled functions too."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest
from tests.helpers.walled import AsynchronousDevice, WalledDevice, opened

import contraflow as cf
import contraflow.nn.functional as F
from contraflow.testing import assert_close


@pytest.fixture(autouse=True, params=[WalledDevice, AsynchronousDevice])
def device(request):
    with opened(request.param) as found:
        yield found


def same(function: Callable[..., Any], *args: cf.Tensor) -> Any:
    """What a function gives, the same in eager mode and in three calls of the compiled one."""
    compiled = cf.compile(function)
    expected = function(*args)
    for _ in range(3):
        found = compiled(*args)
        several = isinstance(found, tuple)
        for a, b in zip(found, expected) if several else ((found, expected),):
            assert a.device == b.device
            assert_close(a, b)
    assert compiled.captures == 1
    return expected


S, T = cf.tensor(2.0), cf.tensor(3.0)

ARITHMETIC = {
    "argument": lambda x, s: x * (s + 1),
    "state": lambda x, s: x * (S + T),
    "twice": lambda x, s: x * (s * 2) + (s * 2) + s,
    "function": lambda x, s: x * s.exp().sin(),
    "after": lambda x, s: x * 2 * (s - S),
    "made inside": lambda x, s: x * (cf.tensor(3.0) + cf.tensor(1.0)),
    "returned": lambda x, s: (x * 2, s + 1),
    "moved": lambda x, s: x * (s + 1).to("walled"),
    "condition": lambda x, s: cf.where(s > 1, x, -x),
    "integers": lambda x, s: x * (cf.tensor(3) // 2 + s),
    "sum of x": lambda x, s: (x.sum().cpu() + s, x * s),
    "computed of moved": lambda x, s: x.mean().cpu() * s * 2,
}


@pytest.mark.parametrize("name", ARITHMETIC)
def test_a_compiled_function_computes_with_numbers_of_the_cpu(name):
    same(ARITHMETIC[name], cf.arange(4.0).to("walled"), cf.tensor(1.5))


def test_other_numbers_are_not_another_recording():
    f = cf.compile(lambda x, s: x * (s + 1))
    x = cf.ones(2, device="walled")
    assert [f(x, cf.tensor(float(i))).tolist() for i in range(4)] == [
        [i + 1.0] * 2 for i in range(4)
    ]
    assert f.captures == 1


def test_a_function_of_the_cpu_stays_there(device):
    f = cf.compile(lambda s: s + 1)
    assert str(f(cf.tensor(1.0)).device) == "cpu"
    assert f.tape.device == "cpu"
    assert device.runs == 0


BACKWARD = {
    "leaf": lambda x, w, v: (x * w).sum(),
    "leaf in arithmetic": lambda x, w, v: (x * (w * 2 + 1)).sum() * w,
    "moved leaf": lambda x, w, v: (x * w.to("walled")).sum(),
    "moved vector": lambda x, w, v: (x * v.to("walled")).square().sum(),
    "all": lambda x, w, v: (x * v.to("walled") * w).sum() * (w + 1),
}


@pytest.mark.parametrize("name", BACKWARD)
@pytest.mark.parametrize("inside", [False, True])
def test_gradients_reach_leaves_of_the_cpu(name, inside):
    x = cf.arange(4.0).to("walled")

    def run(compiler: Callable[..., Any]) -> list[Any]:
        w, v = cf.tensor(2.0, requires_grad=True), cf.arange(4.0).requires_grad_()

        def loss(x):
            found = BACKWARD[name](x, w, v)
            if inside:
                found.backward()
            return found.detach() if inside else found

        call, grads = compiler(loss), []
        for _ in range(3):
            w.grad = v.grad = None
            found = call(x)
            if not inside:
                found.backward()
            grads += [(None if t.grad is None else t.grad.tolist()) for t in (w, v)]
            assert all(t.grad is None or str(t.grad.device) == "cpu" for t in (w, v))
        return grads

    assert run(cf.compile) == run(lambda f: f)


@pytest.mark.parametrize("shape", [(), (3,)])
def test_gradients_of_the_cpu_do_not_accumulate_inside(shape):
    w = cf.full(shape, 2.0, requires_grad=True)
    x = cf.arange(3.0).to("walled")
    step = cf.compile(lambda x: (x * w.to("walled")).sum().backward())
    step(x)
    kept = w.grad.tolist()
    with pytest.raises(
        cf.CaptureError,
        match=r"at test_walled_numbers.py:\d+: the gradient float32\[3?\], which lies on cpu, is "
        r"written to, and the function computes on walled. Set .grad to None before backward",
    ):
        step(x)
    assert w.grad.tolist() == kept
    w.grad = None
    step(x)
    assert w.grad.tolist() == kept


def test_a_number_that_is_written_is_refused_with_the_line():
    s, x = cf.tensor(1.0), cf.ones(2, device="walled")

    @cf.compile
    def f(x):
        s.add_(1)
        return x * s

    with pytest.raises(
        cf.CaptureError,
        match=r"compile\(f\): `s.add_\(1\)` at test_walled_numbers.py:\d+: float32\[\], which lies "
        r"on cpu, is written to, and the function computes on walled. Return what is to be",
    ):
        f(x)
    assert s.item() == 1.0


def test_tensors_with_dims_are_refused_with_the_device_to_move_to():
    x, y = cf.ones(2, device="walled"), cf.ones(2)

    @cf.compile
    def f(x, y):
        z = x * 2
        return z, F.softmax(y, 0)

    with pytest.raises(
        cf.CaptureError,
        match=r"softmax computes on cpu, and mul at test_walled_numbers.py:\d+ on walled. A "
        r"compiled function computes on one device, but for tensors without dims: move tensors to",
    ):
        f(x, y)


def test_truth_values_index_on_any_device():
    x = cf.arange(6.0).reshape(2, 3).to("walled")
    for key in (True, False, (True, slice(1)), (None, True), (0, True), (True, [1, 0])):
        assert x[key].tolist() == x.cpu()[key].tolist()
        same(lambda x, key=key: x[key], x)
    y = x.clone()
    y[True] = 1.0
    y[False] = 2.0
    assert y.tolist() == [[1.0] * 3] * 2


def test_messages_name_both_sides_and_what_was_called():
    x = cf.ones(2, 3, device="walled", requires_grad=True)
    here = cf.ones(2, 3)
    with pytest.raises(
        cf.DeviceError,
        match=r"^batch_norm: input is float32\[2, 3\] on walled and running_mean is float32\[3\] "
        r"on cpu at test_walled_numbers.py:\d+; tensors must lie on one device. Move "
        r"the one on cpu: running_mean.to\('walled'\).$",
    ):
        F.batch_norm(x, cf.zeros(3), cf.ones(3))
    with pytest.raises(
        cf.DeviceError, match=r"cat: input 0 is .* Move the one on cpu: x.to\('walled'"
    ):
        cf.cat([x, here])
    hooked = x * 1
    hooked.register_hook(lambda g: here)
    for op, one, other, use in (
        ("add", "a", "b", lambda: cf.compile(lambda a, b: a + b)(x, here)),
        ("allclose", "self", "other", lambda: cf.allclose(x, here)),
        ("equal", "self", "other", lambda: x.equal(here)),
        ("clamp", "x", "min", lambda: x.clamp(here)),
        ("stack", "input 0", "input 1", lambda: cf.stack([x, here])),
        ("grad", "tensor", "gradient", lambda: setattr(x, "grad", here)),
        ("backward", "tensor", "gradient", lambda: (x * 2).backward(here)),
        ("jvp", "primal", "tangent", lambda: cf.func.jvp(cf.sin, (x.detach(),), (here,))),
        ("hook", "gradient", "result", lambda: hooked.sum().backward()),
    ):
        remedy = f"{other if other.isidentifier() else 'x'}.to('walled')."
        message = (
            rf"^{op}: {one} is float32\[2, 3\] on walled and {other} is float32\[2, 3\] on cpu at "
            rf"test_walled_numbers.py:\d+; tensors must lie on one device. Move the one on cpu: "
        )
        with pytest.raises(cf.DeviceError, match=message + re.escape(remedy)):
            use()


def test_a_custom_function_must_give_gradients_on_the_device_of_its_arguments():
    class Double(cf.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, g):
            return cf.ones(2)

    x = cf.ones(2, device="walled", requires_grad=True)
    y = Double.apply(x).sum()
    with pytest.raises(
        cf.DeviceError,
        match=r"Double.backward: argument 0 of Double.apply at test_walled_numbers.py:\d+ is "
        r"float32\[2\] on walled and gradient is float32\[2\] on cpu at .*gradient.to\('walled'\)",
    ):
        y.backward()


def replace_at(x: cf.Tensor, at: Any) -> cf.Tensor:
    x = x.clone()
    x[at] = 9.0
    return x


@pytest.mark.parametrize(
    "function",
    [
        lambda x, n, at: x[n],
        lambda x, n, at: x[0, n],
        lambda x, n, at: x[:, n],
        lambda x, n, at: x[n, at],
        lambda x, n, at: x[n + 1],
        lambda x, n, at: x[:, at],
        lambda x, n, at: replace_at(x, n),
        lambda x, n, at: replace_at(x, (0, n)),
        lambda x, n, at: replace_at(x, (slice(None), at)),
        lambda x, n, at: x[:, cf.arange(2)],
        lambda x, n, at: x[:, cf.arange(3).flip(0) - 1],
        lambda x, n, at: x[cf.ones(2, dtype=cf.int64).cumsum(0) - 1],
        lambda x, n, at: x[cf.tensor(1)],
        lambda x, n, at: x[cf.tensor([1, 0]), n],
        lambda x, n, at: cf.func.vmap(lambda i: x[:, i])(at),
        lambda x, n, at: cf.func.vmap(lambda row, i: row[i])(x, at[:2]),
    ],
)
def test_indices_of_the_cpu_pass_whatever_made_them(function):
    x = cf.arange(6.0, device="walled").reshape(2, 3)
    n, at = cf.tensor(0), cf.tensor([2, 0, 1])
    assert function(x, n, at).tolist() == function(x.cpu(), n, at).tolist()
    same(function, x, n, at)


def test_integers_made_by_a_function_are_of_any_device():
    x, n = cf.arange(3.0, device="walled"), cf.tensor(1)
    same(lambda x: (x * 2, cf.arange(3) + 1), x)
    same(lambda x: (cf.arange(3) + 1, x * 2), x)
    same(lambda x: (cf.arange(3) + 1, x[:2]), x)
    same(lambda x, n: (n + 1, x[:2]), x, n)
    with pytest.raises(
        cf.CaptureError, match=r"mul computes on walled, and full at test_walled_nu"
    ):
        cf.compile(lambda x: (cf.ones(3), x * 2))(x)


def test_an_index_computed_on_the_cpu_is_refused_with_both_lines():
    x, at = cf.arange(3.0, device="walled"), cf.tensor([0, 1])

    @cf.compile
    def f(x, at):
        next_one = at + 1
        return x[next_one]

    with pytest.raises(
        cf.CaptureError,
        match=r"`return x\[next_one\]` at test_walled_numbers.py:\d+: getitem computes on walled, "
        r"and add at test_walled_numbers.py:\d+ on cpu. .* move tensors to walled before",
    ):
        f(x, at)


def test_ctc_loss_takes_labels_and_lengths_of_the_cpu(device):
    probabilities = F.log_softmax(cf.randn(6, 2, 4), 2)
    targets, lengths, labels = cf.tensor([1, 2, 3, 1, 2]), cf.tensor([6, 5]), cf.tensor([2, 3])
    expected = F.ctc_loss(probabilities, targets, lengths, labels).item()
    there = probabilities.to("walled")
    before = device.downloads
    found = [
        F.ctc_loss(there, targets, lengths, labels),
        F.ctc_loss(there, targets.to("walled"), (6, 5), (2, 3)),
        cf.compile(lambda x: F.ctc_loss(x, targets, lengths, (2, 3)))(there),
    ]
    assert device.downloads == before
    found.append(F.ctc_loss(there, *(x.to("walled") for x in (targets, lengths, labels))))
    for loss in found:
        assert loss.item() == pytest.approx(expected, rel=1e-5)
    with pytest.raises(
        cf.CaptureError,
        match=r"ctc_loss needs the longest of target_lengths, since the targets lie in one row. "
        r"Pass target_lengths as a tuple of numbers, or targets of shape \[n, s\].",
    ):
        cf.compile(lambda x, labels: F.ctc_loss(x, targets, lengths, labels))(there, labels)


def test_parts_of_a_tensor_of_the_cpu_are_read_at_every_call():
    base = cf.arange(12.0).reshape(3, 4)
    parts = {"row": base[1], "column": base[:, 2], "turned": base.t()}

    def function(x: cf.Tensor) -> cf.Tensor:
        rows = (x * parts["row"].to("walled")).sum()
        columns = (x[:3] * parts["column"].to("walled")).sum()
        return rows + columns + parts["turned"].to("walled")[3, 2]

    compiled, x = cf.compile(function), cf.arange(1.0, 5.0).to("walled")

    def replaced() -> None:
        parts["row"] = base[2]

    for change in (lambda: base.mul_(2), lambda: base[0, 2].fill_(50.0), replaced, base.zero_):
        assert compiled(x).item() == function(x).item()
        change()
        for _ in range(2):
            assert compiled(x).item() == function(x).item()
    assert compiled.captures == 2


def test_a_number_that_selects_a_place_there_records_nothing() -> None:
    def function(x: cf.Tensor, n: int) -> Any:
        x = x.clone()
        x[:, n] = x[:, 0] * 2
        x[1, n : n + 1] += 1.0
        return x * x[:, n].sum(), x.select(1, n) * 2, x.narrow(1, n, 1) * n

    compiled, x = cf.compile(function), cf.randn(2, 4, 3)
    for n in (1, 2, 0):
        for found, wanted in zip(compiled(x.to("walled"), n), function(x, n)):
            assert found.device.type == "walled"
            assert_close(found.cpu(), wanted)
    with pytest.raises(IndexError, match="index 4 is out of range for dim 1"):
        compiled(x.to("walled"), 4)
    assert compiled.captures == 1
