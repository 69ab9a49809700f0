"""Devices beside the cpu, by the walled one: creation, transfers, refusals, gradients, programs."""

from __future__ import annotations

import copy
import pickle
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from tests.helpers.walled import WalledDevice, opened

import contraflow as cf
import contraflow.nn.functional as F
from contraflow import devices
from contraflow.compiler.tape import Tape
from contraflow.devices import names
from contraflow.operation.context import other_devices
from contraflow.testing import assert_close


@pytest.fixture(autouse=True)
def device():
    with opened() as found:
        yield found


def there(*shape: int, requires_grad: bool = False) -> cf.Tensor:
    return cf.randn(*shape, device="walled", requires_grad=requires_grad)


# --- creation ------------------------------------------------------------------------------------


def test_tensors_are_made_where_they_are_asked_for():
    for make in (
        lambda **kw: cf.zeros(2, **kw),
        lambda **kw: cf.full((2,), 3.0, **kw),
        lambda **kw: cf.arange(3, **kw),
        lambda **kw: cf.eye(2, **kw),
        lambda **kw: cf.tril_indices(3, 2, **kw),
        lambda **kw: cf.triu_indices(2, 3, 1, **kw),
        lambda **kw: cf.linspace(0, 1, 5, **kw),
        lambda **kw: cf.logspace(0, 1, 5, **kw),
        lambda **kw: cf.rand(3, **kw),
        lambda **kw: cf.randn(3, **kw),
        lambda **kw: cf.randint(5, (3,), **kw),
        lambda **kw: cf.randperm(4, **kw),
        lambda **kw: cf.normal(0.0, 1.0, (3,), **kw),
        lambda **kw: cf.tensor([1.0, 2.0], **kw),
        lambda **kw: cf.as_tensor([1.0, 2.0], **kw),
    ):
        cf.manual_seed(0)
        found = make(device="walled")
        cf.manual_seed(0)
        expected = make()
        assert str(found.device) == "walled"
        assert str(expected.device) == "cpu"
        assert found.spec == expected.spec
        assert_close(found, expected)


def test_tensors_like_others_are_made_where_those_lie():
    x = there(2, 3)
    made = [
        cf.zeros_like(x), cf.ones_like(x), cf.full_like(x, 2.0), cf.empty_like(x),
        cf.rand_like(x), cf.randn_like(x), cf.randint_like(x, 5),
        x.new_zeros(2), x.new_ones(2), x.new_full((2,), 1.0), x.new_empty(2), x.new_tensor([1.0]),
    ]  # fmt: skip
    assert {str(t.device) for t in made} == {"walled"}
    assert str(cf.zeros_like(x, device="cpu").device) == "cpu"


def test_the_default_device():
    cf.set_default_device("walled")
    try:
        assert str(cf.zeros(2).device) == "walled"
        assert str(cf.nn.Linear(2, 3).weight.device) == "walled"
        assert str(cf.zeros(2, device="cpu").device) == "cpu"
        # What the library makes for tensors of the cpu lies there all the same.
        x = cf.randn(2, 3, device="cpu", requires_grad=True)
        F.dropout(x.tril(), 0.5).sum().backward()
        assert str(x.grad.device) == "cpu"
    finally:
        cf.set_default_device(None)
    assert str(cf.zeros(2).device) == "cpu"


# --- transfers -----------------------------------------------------------------------------------


def test_to_moves_there_and_back(device):
    x = cf.randn(2, 3)
    y = x.to("walled")
    assert str(y.device) == "walled"
    assert y.to("walled") is y
    assert y.to(device="walled", dtype=cf.float64).dtype is cf.float64
    assert y.to(x).device == x.device
    assert x.to(y).device == y.device
    assert (y.cpu().numpy() == x.numpy()).all()
    assert (y.t()[1:].cpu().numpy() == x.t()[1:].numpy()).all()
    assert str(y.to("walled", copy=True).device) == "walled"


def test_gradients_go_back_through_transfers():
    x = cf.randn(3, requires_grad=True)
    y = x.to("walled").exp().cpu()
    (g,) = cf.autograd.grad(y.square().sum(), x, create_graph=True)
    assert str(g.device) == "cpu"
    assert_close(g, 2 * (2 * x).exp())
    (h,) = cf.autograd.grad(g.sum(), x)
    assert_close(h, 4 * (2 * x).exp())


def test_elements_leave_when_they_are_asked_for():
    x = cf.tensor([1.0, 2.0], device="walled")
    assert x.sum().item() == 3.0
    assert x.tolist() == [1.0, 2.0]
    assert float(x[1]) == 2.0
    assert bool((x > 0).all())
    assert repr(x) == "tensor([1., 2.], device='walled')"
    assert x.equal(x.clone())
    assert x.allclose(x)
    with pytest.raises(cf.DeviceError, match=r"numpy: float32\[2\] on walled does not lie in"):
        x.numpy()
    with pytest.raises(cf.DeviceError, match=r"Use x.cpu\(\)"):
        np.asarray(x)
    assert (x.numpy(force=True) == [1.0, 2.0]).all()
    for export in (x.__dlpack__, x.__dlpack_device__):
        with pytest.raises(BufferError, match="on walled"):
            export()


def test_copies_stay_on_the_device():
    x = there(2, 3)
    twin = copy.deepcopy([x, x[0]])
    assert str(twin[0].device) == "walled"
    assert twin[1].storage is twin[0].storage
    twin[1].zero_()
    assert_close(twin[0][0], cf.zeros(3))
    assert x[0].abs().sum().item() > 0
    again = pickle.loads(pickle.dumps(x))
    assert str(again.device) == "walled"
    assert_close(again, x)


# --- mixed devices -------------------------------------------------------------------------------


def test_mixed_devices_are_refused_by_name_and_line():
    x, y = there(2, 3), cf.ones(2, 3)
    with pytest.raises(cf.DeviceError) as found:
        x + y
    assert str(found.value).startswith(
        "add: a is float32[2, 3] on walled and b is float32[2, 3] on cpu at test_walled.py:"
    )
    for wrong in (lambda: cf.cat([x, y]), lambda: F.linear(x, y), lambda: cf.where(y > 0, x, x)):
        with pytest.raises(cf.DeviceError, match="must lie on one device"):
            wrong()


def test_tensors_of_the_cpu_without_dims_pass():
    x, s = there(2, 3), cf.tensor(2.0, requires_grad=True)
    y = x * s
    assert str(y.device) == "walled"
    y.sum().backward()
    assert str(s.grad.device) == "cpu"
    assert_close(s.grad, x.sum())


def test_indices_of_the_cpu_pass():
    x = there(4, 3)
    at = cf.tensor([2, 0])
    assert_close(x[at], x.cpu()[at])
    assert_close(x[:, at], x.cpu()[:, at])
    x[at] = 0.0
    assert_close(x.cpu()[at], cf.zeros(2, 3))
    x[1] = cf.ones(3)  # a copy crosses devices
    assert_close(x[1], cf.ones(3))


def test_ops_of_the_host_are_refused_by_name():
    x = there(3, 3)
    for op in ("svd", "inv", "cholesky", "qr", "det"):
        with pytest.raises(cf.DeviceError, match=f"{op}: it runs on the host only"):
            getattr(cf.linalg, op)(x)
    with pytest.raises(cf.DeviceError, match="nonzero: it runs on the host only"):
        (x > 0).nonzero()


def test_a_wrong_index_is_an_error_and_changes_nothing():
    x = there(4, 3)
    before = x.cpu()
    with pytest.raises(IndexError, match="index 7 is out of range"):
        x[cf.tensor([0, 7], device="walled")]
    with pytest.raises(IndexError, match="index 9 is out of range"):
        x[cf.tensor([9], device="walled")] = 1.0
    assert_close(x, before)


# --- training ------------------------------------------------------------------------------------


def trained(device: str, compiled: bool) -> tuple[list[float], list[cf.Tensor]]:
    cf.manual_seed(0)
    model = cf.nn.Sequential(
        cf.nn.Conv2d(1, 4, 3, bias=False), cf.nn.BatchNorm2d(4), cf.nn.ReLU(), cf.nn.MaxPool2d(2),
        cf.nn.Flatten(), cf.nn.Dropout(0.2), cf.nn.Linear(36, 3),
    ).to(device)  # fmt: skip
    optimizer = cf.optim.AdamW(model.parameters(), lr=1e-2)
    schedule = cf.optim.lr_scheduler.StepLR(optimizer, 2, 0.5)
    x, y = cf.randn(4, 1, 8, 8).to(device), cf.randint(3, (4,)).to(device)

    def step(x, y):
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        cf.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        return loss

    run = cf.compile(step) if compiled else step
    losses = []
    for _ in range(4):
        losses.append(run(x, y).item())
        schedule.step()
    assert not compiled or run.captures == 1
    return losses, [*model.parameters(), *model.buffers()]


@pytest.mark.parametrize("compiled", [False, True])
def test_a_model_trains_as_on_the_cpu(compiled):
    losses, state = trained("walled", compiled)
    expected, expected_state = trained("cpu", compiled)
    np.testing.assert_allclose(losses, expected, rtol=1e-4)
    assert {str(t.device) for t in state} == {"walled"}
    for t, other in zip(state, expected_state):
        assert_close(t, other, 1e-3, 1e-4)


def test_a_compiled_function_has_one_device_which_its_tape_names():
    f = cf.compile(lambda x: (x * 2).sum())
    assert f(there(3)).device.type == "walled"
    text = str(f.tape)
    assert text.splitlines()[0].endswith(" on walled")
    assert str(Tape.parse(text)) == text
    assert str(f(cf.ones(3)).device) == "cpu"  # another device is another program
    assert f.captures == 2
    rows = [row for row in f.explain().splitlines() if row.startswith("program")]
    assert sorted(rows) == ["program 1 on walled: 2 lines", "program 2: 2 lines"]
    with pytest.raises(
        cf.CaptureError, match=r"on cpu, and mul at test_walled.py:.* on walled.*: device='walled'"
    ):
        cf.compile(lambda x: (x * 2, cf.zeros(2) + 1))(there(3))
    with pytest.raises(cf.DeviceError, match=r"svd: it runs on the host only.* at test_walled"):
        cf.compile(lambda x: cf.linalg.svd(x)[1])(there(3, 3))


def test_arguments_and_state_move_at_the_edge_of_a_compiled_function(device):
    weight, scale = cf.randn(3, 2, device="walled"), cf.tensor(2.0)

    def f(x):
        return (x[1:].to("walled") @ weight).tanh() * scale

    compiled = cf.compile(f)
    for i in range(3):
        x = cf.randn(4, 3)
        scale.fill_(i + 1.0)
        assert_close(compiled(x), f(x))
    assert compiled.captures == 1


def test_results_move_at_the_edge_of_a_compiled_function():
    @cf.compile
    def f(x):
        y = x * 2
        return y.sum().cpu(), y, y.cpu()

    for _ in range(3):
        x = there(3)
        total, y, moved = f(x)
        assert [str(t.device) for t in (total, y, moved)] == ["cpu", "walled", "cpu"]
        assert_close(y, x * 2)
        assert_close(moved, (x * 2).cpu())
        assert_close(total, (x * 2).sum())
        moved.zero_()
        assert_close(y, x * 2)
    assert f.captures == 1


def test_gradients_of_a_compiled_function_move_at_its_edges():
    def f(x, w):
        return (x.to("walled") @ w).exp().sum().cpu()

    w = cf.randn(3, 2, device="walled", requires_grad=True)
    x = cf.randn(4, 3, requires_grad=True)
    compiled = cf.compile(f)
    for _ in range(2):
        expected = cf.autograd.grad(f(x, w), [x, w])
        found = cf.autograd.grad(compiled(x, w), [x, w])
        assert [str(g.device) for g in found] == ["cpu", "walled"]
        for g, h in zip(found, expected):
            assert_close(g, h)
    loss = compiled(x, w)
    (g,) = cf.autograd.grad(loss, x, create_graph=True)
    (again,) = cf.autograd.grad(f(x, w), x, create_graph=True)
    for a, b in zip(cf.autograd.grad(g.sum(), [x, w]), cf.autograd.grad(again.sum(), [x, w])):
        assert_close(a, b)


def test_gradients_of_a_tensor_that_moves_twice_are_added_before_they_leave():
    def f(w, x):
        return ((x * w.to("walled")).sin() * w.to("walled")).sum()

    w, x = cf.randn(3, requires_grad=True), there(3)
    compiled = cf.compile(f)

    @cf.compile
    def step(x):
        w.grad = None
        f(w, x).backward()

    for _ in range(3):
        (expected,) = cf.autograd.grad(f(w, x), w)
        (found,) = cf.autograd.grad(compiled(w, x), w)
        step(x)
        for g in (found, w.grad):
            assert str(g.device) == "cpu"
            assert_close(g, expected)
    assert (compiled.captures, step.captures) == (1, 1)


def test_a_tensor_that_has_moved_is_not_computed_with():
    with pytest.raises(cf.CaptureError, match="add computes on cpu, and mul at test_walled"):
        cf.compile(lambda x: (x * 2).cpu() + 1)(there(3))

    with pytest.raises(cf.DeviceError, match="must lie on one device"):
        cf.compile(lambda x, y: x.to("walled") * (y * 2).cpu())(cf.ones(3), there(3))


def test_devices_are_parts_of_a_key():
    f = cf.compile(lambda x: x * 2)
    f(cf.ones(3))
    f(there(3))
    assert f.changes == ["the device of x was cpu and is walled"]
    g = cf.compile(lambda: cf.zeros(2) + 1)
    assert str(g().device) == "cpu"
    cf.set_default_device("walled")
    try:
        assert str(g().device) == "walled"
    finally:
        cf.set_default_device(None)
    assert g.changes == ["the default device was cpu and is walled"]
    assert str(g().device) == "cpu"


def test_a_compiled_function_does_not_write_to_another_device():
    kept = cf.zeros(3)
    with pytest.raises(cf.CaptureError, match=r"float32\[3\], which lies on cpu, is written to"):
        cf.compile(lambda x: kept.copy_(x * 2))(there(3))
    assert kept.tolist() == [0.0] * 3


def test_casts_move_too_at_the_edges_of_a_compiled_function():
    x, y = cf.randn(3), there(3)
    f = cf.compile(lambda x: x.to("walled", cf.float64) * 2)
    assert_close(f(x), x.double() * 2)
    g = cf.compile(lambda x: (x * 2).to("cpu", cf.float64))
    assert_close(g(y), y.cpu().double() * 2)
    h = cf.compile(lambda x: (x.cpu(), x * 2))
    first, second = h(y)
    assert [str(t.device) for t in (first, second)] == ["cpu", "walled"]
    assert_close(first, y)


def test_slices_are_recorded_once():
    data, f = there(12, 2), cf.compile(lambda x: (x * 2).sum(0))
    for i in range(5):
        assert_close(f(data[i : i + 4]), data[i : i + 4].cpu().sum(0) * 2)
    assert f.captures == 1
    w = there(2, 2, requires_grad=True)
    g = cf.compile(lambda x: (x @ w).tanh().sum())
    for i in range(3):
        (found,) = cf.autograd.grad(g(data[i : i + 4]), w)
        x, v = data[i : i + 4].cpu(), w.detach().cpu().requires_grad_()
        assert_close(found, cf.autograd.grad((x @ v).tanh().sum(), v)[0])
    assert g.captures == 1


def test_values_of_the_cpu_are_written_by_index():
    x = there(4, 3)
    x[[0, 2]] = cf.tensor(3.0)
    assert x[0].tolist() == [3.0] * 3
    x[cf.tensor([1])] = cf.ones(1, 3)
    assert x[1].tolist() == [1.0] * 3


def test_names_of_the_first_of_a_kind():
    assert str(cf.zeros(2, device="walled:0").device) == "walled"
    assert str(there(2).to("cpu:0").device) == "cpu"
    with pytest.raises(cf.DeviceError, match="device 'walled:1' is not available"):
        cf.zeros(2, device="walled:1")


def test_a_result_of_another_device_is_not_written_in_place():
    """A number of the cpu passes beside tensors of the device, so the result lies there."""
    x, y = cf.tensor(1.0), cf.tensor(2.0, device="walled")
    message = r"add_: a is float32\[\] on cpu and b is float32\[\] on walled at test_walled.py:"
    with pytest.raises(cf.DeviceError, match=message):
        x.add_(y)
    with pytest.raises(cf.DeviceError, match=r"mul_: .* Move the one on walled: b\.to\('cpu'\)\."):
        x *= y
    assert x.item() == 1.0
    assert y.mul_(cf.tensor(3.0)).item() == 6.0


def test_mixed_devices_name_those_that_do_not_pass():
    with pytest.raises(
        cf.DeviceError, match=r"where: input is float32\[2\] on walled and other is"
    ):
        cf.where(cf.tensor(True), there(2), cf.ones(2))
    with pytest.raises(cf.DeviceError, match=r"Move the one on cpu: b\.to\('walled'\)"):
        there(2) + cf.ones(2)


def test_an_index_of_another_device_is_named():
    x, at = cf.zeros(3), cf.tensor([1], device="walled")
    message = (
        r": x is float32\[3\] on cpu and index is int64\[1\] on walled at test_walled.py:\d+; "
    )
    remedy = r"tensors must lie on one device. Move the one on walled: index.to\('cpu'\)."
    for op, use in (("getitem", lambda: x[at]), ("setitem", lambda: x.__setitem__(at, 1.0))):
        with pytest.raises(cf.DeviceError, match=f"{op}{message}{remedy}"):
            use()


def test_dims_are_limited_as_on_the_cpu():
    for place in ("cpu", "walled"):
        with pytest.raises(ValueError, match="at most 64 dims"):
            cf.zeros([1] * 65, device=place)


def test_large_gradients_of_the_cpu_stay_there():
    cf.set_default_device("walled")
    try:
        x = cf.linspace(0, 1, 400_000, device="cpu").requires_grad_()
        (x.sin() + x.cos()).sum().backward()
        assert str(x.grad.device) == "cpu"
    finally:
        cf.set_default_device(None)


def test_threads_that_open_a_device_get_one():
    made = []

    def make() -> WalledDevice:
        time.sleep(0.05)
        made.append(WalledDevice("late"))
        return made[-1]

    devices.register("late", make)
    try:
        with ThreadPoolExecutor(4) as pool:
            found = list(pool.map(lambda _: devices.lookup("late"), range(4)))
        assert len(made) == 1
        assert set(found) == set(made)
    finally:
        names.TYPES.pop("late")
        devices._openers.pop("late")
        devices._loaded.pop("late")
        other_devices.pop("late")
