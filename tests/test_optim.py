"""Optimizers against their update rules written in NumPy, parameter groups, and schedules."""

from __future__ import annotations

import copy
import json
import math

import numpy as np
import pytest

import contraflow as cf
from contraflow.hooks import Structure
from contraflow.hostscalar import HostScalar
from contraflow.op import Context, changed, state
from contraflow.optim import SGD, Adam, AdamW, Optimizer, ParamGroup, lr_scheduler

STEPS = 50


class Symbolic(Context):
    """Host scalars as 0-d tensors, as a recording hands them out, but with values."""

    def __init__(self):
        self.below = state().context
        self.seen = []

    def read_scalar(self, cell):
        dtype = cf.int64 if isinstance(cell.value, int) else cf.float64
        return cf.tensor(cell.value, dtype=dtype)

    def write_scalar(self, cell, value):
        assert isinstance(value, cf.Tensor)
        assert value.dtype is (cf.int64 if isinstance(cell.value, int) else cf.float64)
        cell.value = value.item()

    def visit_module(self, module):
        self.seen.append(module)


# --- reference ---------------------------------------------------------------------------------


def sgd(lr=1e-3, momentum=0, dampening=0, weight_decay=0, nesterov=False, maximize=False):
    velocity = None

    def update(p, g):
        nonlocal velocity
        g = -g if maximize else g
        g = g + weight_decay * p
        if momentum:
            velocity = g if velocity is None else momentum * velocity + (1 - dampening) * g
            g = g + momentum * velocity if nesterov else velocity
        return p - lr * g

    return update


def adam(
    lr=1e-3, betas=(0.9, 0.999), eps=1e-8, weight_decay=0, amsgrad=False, maximize=False,
    decoupled=False,
):  # fmt: skip
    t, mean, square, largest = 0, 0.0, 0.0, 0.0

    def update(p, g):
        nonlocal t, mean, square, largest
        t += 1
        g = -g if maximize else g
        if decoupled:
            p = p * (1 - lr * weight_decay)
        else:
            g = g + weight_decay * p
        mean = betas[0] * mean + (1 - betas[0]) * g
        square = betas[1] * square + (1 - betas[1]) * g * g
        largest = np.maximum(largest, square)
        scale = largest if amsgrad else square
        denominator = np.sqrt(scale) / math.sqrt(1 - betas[1] ** t) + eps
        return p - lr / (1 - betas[0] ** t) * mean / denominator

    return update


def adamw(weight_decay=1e-2, **options):
    return adam(weight_decay=weight_decay, decoupled=True, **options)


REFERENCES = {SGD: sgd, Adam: adam, AdamW: adamw}

CASES = [
    (SGD, {"lr": 0.05}),
    (SGD, {"lr": 0.05, "weight_decay": 0.1}),
    (SGD, {"lr": 0.02, "momentum": 0.9}),
    (SGD, {"lr": 0.02, "momentum": 0.9, "dampening": 0.5}),
    (SGD, {"lr": 0.02, "momentum": 0.9, "nesterov": True, "weight_decay": 0.01}),
    (SGD, {"lr": 0.001, "momentum": 0.5, "maximize": True}),
    (Adam, {}),
    (Adam, {"lr": 0.02, "betas": (0.8, 0.95), "weight_decay": 0.1}),
    (Adam, {"lr": 0.02, "amsgrad": True, "eps": 1e-3}),
    (Adam, {"lr": 0.01, "maximize": True}),
    (AdamW, {"lr": 0.02}),
    (AdamW, {"lr": 0.02, "weight_decay": 0.3, "amsgrad": True}),
]
NAMES = [f"{kind.__name__} {options}" for kind, options in CASES]

CURVATURE = np.random.default_rng(1).uniform(0.5, 2.0, (3, 4))
START = np.random.default_rng(2).standard_normal((3, 4))


def loss_of(p):
    """Differently curved in every direction, and with gradients that change sign."""
    return (cf.tensor(CURVATURE.astype(np.float32)) * (p - 0.3) * (p - 0.3)).sum()


def trajectory(kind, options, steps=STEPS):
    p = cf.tensor(START.astype(np.float32), requires_grad=True)
    optimizer = kind([p], **options)
    path = []
    for _ in range(steps):
        optimizer.zero_grad()
        loss_of(p).backward()
        optimizer.step()
        path.append(p.detach().numpy().copy())
    return np.array(path)


def reference(kind, options, steps=STEPS):
    p, update = START.astype(np.float32).astype(np.float64), REFERENCES[kind](**options)
    path = []
    for _ in range(steps):
        p = update(p, 2 * CURVATURE * (p - 0.3))
        path.append(p)
    return np.array(path)


def assert_same(actual, expected):
    scale = max(1.0, np.abs(expected).max())
    np.testing.assert_allclose(actual, expected, rtol=0, atol=1e-6 * scale)


@pytest.mark.parametrize(("kind", "options"), CASES, ids=NAMES)
def test_trajectory(kind, options):
    assert_same(trajectory(kind, options), reference(kind, options))


@pytest.mark.parametrize(("kind", "options"), CASES, ids=NAMES)
def test_trajectory_with_symbolic_scalars(kind, options):
    p = cf.tensor(START.astype(np.float32), requires_grad=True)
    optimizer = kind([p], **options)
    symbolic = Symbolic()
    with changed(context=symbolic):
        for _ in range(10):
            optimizer.zero_grad()
            loss_of(p).backward()
            optimizer.step()
    assert p.dtype is cf.float32
    assert symbolic.seen == [optimizer] * 10
    assert_same(p.detach().numpy(), reference(kind, options, 10)[-1])


@pytest.mark.peers
@pytest.mark.parametrize(("kind", "options"), CASES, ids=NAMES)
def test_trajectory_agrees_with_pytorch(kind, options):
    torch = pytest.importorskip(
        "torch", reason="compares with PyTorch, which `make peers` installs"
    )
    p = torch.tensor(START.astype(np.float32), requires_grad=True)
    optimizer = getattr(torch.optim, kind.__name__)([p], **options)
    curvature, path = torch.tensor(CURVATURE.astype(np.float32)), []
    for _ in range(STEPS):
        optimizer.zero_grad()
        (curvature * (p - 0.3) * (p - 0.3)).sum().backward()
        optimizer.step()
        path.append(p.detach().numpy().copy())
    assert_same(trajectory(kind, options), np.array(path))


@pytest.mark.parametrize("kind", [SGD, Adam, AdamW])
def test_zero_dimensional_and_half_parameters(kind):
    for dtype, shape in ((cf.float32, ()), (cf.bfloat16, (3,)), (cf.float64, (2,))):
        p = cf.ones(shape, dtype=dtype, requires_grad=True)
        optimizer = kind([p], lr=0.125)
        for context in (state().context, Symbolic()):
            optimizer.zero_grad()
            (p * p).sum().backward()
            with changed(context=context):
                optimizer.step()
        assert p.dtype is dtype
        assert (p.detach().to(cf.float64).numpy() < 0.9).all()


# --- steps -------------------------------------------------------------------------------------


def test_parameters_without_gradient_are_skipped():
    p, q = (cf.ones(2, requires_grad=True) for _ in range(2))
    optimizer = Adam([p, q], lr=0.1, weight_decay=0.1)
    p.sum().backward()
    optimizer.step()
    assert q.tolist() == [1.0, 1.0]
    assert [optimizer.state[t]["step"].value for t in (p, q)] == [1, 0]
    assert p.is_leaf
    assert p.requires_grad


def test_closure_runs_with_gradients():
    p = cf.ones(2, requires_grad=True)
    optimizer = SGD([p], lr=0.5)

    def closure():
        optimizer.zero_grad()
        loss = (p * p).sum()
        loss.backward()
        return loss

    with cf.no_grad():
        loss = optimizer.step(closure)
    assert loss.item() == 2.0
    assert p.tolist() == [0.0, 0.0]


def test_zero_grad():
    p = cf.ones(2, requires_grad=True)
    optimizer = SGD([p])
    p.sum().backward()
    grad = p.grad
    optimizer.zero_grad(set_to_none=False)
    assert p.grad is grad
    assert grad.tolist() == [0.0, 0.0]
    optimizer.zero_grad()
    assert p.grad is None


def test_all_state_exists_before_the_first_step():
    p = cf.ones(2, requires_grad=True)
    assert set(Adam([p], amsgrad=True).state[p]) == {
        "step", "exp_avg", "exp_avg_sq", "max_exp_avg_sq",
    }  # fmt: skip
    assert set(SGD([p], momentum=0.9).state[p]) == {"momentum_buffer"}
    assert SGD([p]).state_dict()["state"] == {}


def test_momentum_switched_on_later():
    p = cf.ones(1, requires_grad=True)
    optimizer = SGD([p], lr=1.0)
    structure = optimizer._structure
    optimizer.param_groups[0]["momentum"] = 0.5
    assert optimizer._structure > structure
    assert optimizer.state[p]["momentum_buffer"].tolist() == [0.0]
    for _ in range(2):
        p.grad = cf.ones(1)
        optimizer.step()
    assert p.tolist() == [1.0 - 1.0 - 1.5]


def test_parameter_put_into_the_list():
    p, q = parameter(), parameter()
    optimizer = Adam([p], lr=0.5)
    optimizer.param_groups[0]["params"].append(q)
    q.sum().backward()
    optimizer.step()
    assert q.tolist() == pytest.approx([0.5, 0.5])


def test_own_optimizer():
    class Sign(Optimizer):
        """Steps of a fixed size."""

        def __init__(self, params, lr):
            super().__init__(params, {"lr": lr})

        def update(self, group, updated):
            for p, g, _ in updated:
                p.sub_(g.sign() * group["lr"])

    p = cf.tensor([1.0, -1.0], requires_grad=True)
    optimizer = Sign([p], 0.25)
    (p * p).sum().backward()
    optimizer.step()
    assert p.tolist() == [0.75, -0.75]
    with pytest.raises(NotImplementedError, match="Optimizer: update is not written"):
        Optimizer([p], {}).step()


def test_small_network_learns():
    cf.manual_seed(1)
    x = np.random.default_rng(0).uniform(-1, 1, (64, 2)).astype(np.float32)
    y = x[:, :1] * x[:, 1:]
    for kind, lr in ((SGD, 0.2), (Adam, 0.02), (AdamW, 0.02)):
        model = cf.nn.Sequential(cf.nn.Linear(2, 16), cf.nn.Tanh(), cf.nn.Linear(16, 1))
        optimizer = kind(model.parameters(), lr=lr, **({"momentum": 0.9} if kind is SGD else {}))
        losses = []
        for _ in range(150):
            optimizer.zero_grad()
            loss = cf.nn.functional.mse_loss(model(cf.tensor(x)), cf.tensor(y))
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
        assert losses[-1] < 0.3 * losses[0], kind


# --- parameter groups --------------------------------------------------------------------------


def test_group_behaves_like_a_dict_of_numbers():
    plain = {"lr": 0.1, "betas": (0.9, 0.99), "nesterov": False, "count": 3, "name": "head"}
    group = ParamGroup(plain)
    assert isinstance(group, dict)
    assert group == plain
    assert dict(group) == {**group} == group.copy() == dict(group.items()) == plain
    assert repr(group) == repr(plain)
    assert json.dumps(group) == json.dumps(plain)
    assert list(group) == list(group.keys()) == list(plain)
    assert group.values() == list(plain.values())
    assert (group.get("lr"), group.get("gone"), group.get("gone", 5)) == (0.1, None, 5)
    assert isinstance(group["count"], int)
    assert group.setdefault("lr", 7.0) == 0.1
    assert group.setdefault("extra", 7.0) == 7.0
    assert group.pop("extra") == 7.0
    assert group.pop("extra", None) is None
    assert group | {"lr": 1.0} == {**plain, "lr": 1.0}
    assert {"lr": 1.0} | group == plain
    group |= {"lr": 0.5}
    assert group["lr"] == 0.5
    assert group.popitem() == ("name", "head")
    del group["betas"]
    assert "betas" not in group
    group.clear()
    assert not group


def test_numbers_are_written_into_the_same_cell():
    group = ParamGroup({"lr": 0.1, "betas": (0.9, 0.99), "flag": False})
    cells = dict.__getitem__(group, "lr"), *dict.__getitem__(group, "betas")
    assert all(isinstance(cell, HostScalar) for cell in cells)
    epoch, changed_at = Structure.epoch, group.changed_at
    group["lr"] = 1
    group["betas"] = [0.5, 0.6]
    group.update(lr=np.float32(0.25), flag=False)
    assert [cell.value for cell in cells] == [0.25, 0.5, 0.6]
    assert isinstance(cells[0].value, float)
    group["lr"] = cf.tensor(0.75)
    assert group["lr"] == 0.75
    assert (Structure.epoch, group.changed_at) == (epoch, changed_at)
    for change in ({"flag": True}, {"new": 1.0}, {"betas": (1.0, 2.0, 3.0)}, {"lr": None}):
        before = group.changed_at
        group.update(change)
        assert group.changed_at > before


def test_use_of_a_number_is_structure_once_it_was_asked_for():
    group = ParamGroup({"weight_decay": 0.0})
    before = group.changed_at
    group["weight_decay"] = 0.1
    assert group.changed_at == before
    assert group.uses("weight_decay")
    group["weight_decay"] = 0.2
    assert group.changed_at == before
    group["weight_decay"] = 0
    assert group.changed_at > before
    assert not group.uses("weight_decay")


def test_symbolic_group():
    group = ParamGroup({"lr": 0.1, "betas": (0.9, 0.99)})
    with changed(context=Symbolic()):
        lr, (beta1, _) = group["lr"], group["betas"]
    assert lr.dtype is beta1.dtype is cf.float64
    assert lr.shape == ()


def test_copies_of_a_group_have_their_own_numbers():
    group = ParamGroup({"lr": 0.1, "params": [cf.ones(1)]})
    for twin in (copy.copy(group), copy.deepcopy(group)):
        assert isinstance(twin, ParamGroup)
        twin["lr"] = 5.0
        assert group["lr"] == 0.1
    assert copy.copy(group)["params"][0] is group["params"][0]
    assert copy.deepcopy(group)["params"][0] is not group["params"][0]


def test_groups_differ_in_their_numbers():
    p, q, r = (cf.ones(1, requires_grad=True) for _ in range(3))
    optimizer = SGD([{"params": p}, {"params": [q], "lr": 0.5}], lr=0.25)
    structure = optimizer._structure
    optimizer.add_param_group({"params": r, "lr": 1.0})
    assert optimizer._structure > structure
    (p + q + r).sum().backward()
    optimizer.step()
    assert [t.item() for t in (p, q, r)] == [0.75, 0.5, 0.0]
    assert list(optimizer.param_groups[1]) == [
        "params", "lr", "momentum", "dampening", "weight_decay", "nesterov", "maximize",
    ]  # fmt: skip
    assert repr(SGD([p], lr=0.1)) == (
        "SGD (\nParameter Group 0\n    dampening: 0.0\n    lr: 0.1\n    maximize: False\n"
        "    momentum: 0.0\n    nesterov: False\n    weight_decay: 0.0\n)"
    )


# --- errors ------------------------------------------------------------------------------------


def parameter(*shape):
    return cf.ones(shape or (2,), requires_grad=True)


def twice():
    p = parameter()
    return [{"params": [p]}, {"params": [p]}]


ERRORS = {
    "empty": (
        lambda: SGD([]), ValueError,
        "SGD: the list of parameters is empty. A generator such as model.parameters() can be used "
        "only once.",
    ),
    "one tensor": (
        lambda: SGD(parameter()), TypeError, "SGD: params is one tensor; pass a list: [tensor].",
    ),
    "no tensor": (
        lambda: SGD([1.0]), TypeError, "SGD: parameter 0 of group 0 is float, not a tensor.",
    ),
    "no dict": (
        lambda: SGD([{"lr": 1.0}]), TypeError,
        "SGD: a parameter group is a dict with 'params', not {'lr': 1.0}.",
    ),
    "two groups": (
        lambda: Adam(twice()), ValueError,
        "Adam: parameter 0 of group 1, float32[2], was given before; a parameter belongs in one "
        "group, once.",
    ),
    "non-leaf": (
        lambda: AdamW([parameter(3) * 2.0]), ValueError,
        "AdamW: parameter 0 of group 0, float32[3], was made by mul; only leaves can be "
        "optimized. Pass the tensors it was computed from, or p.detach().clone().",
    ),
    "negative rate": (
        lambda: SGD([parameter()], lr=-1.0), ValueError,
        "SGD: lr is -1.0; it must not be negative.",
    ),
    "NaN": (
        lambda: Adam([parameter()], eps=math.nan), ValueError,
        "Adam: eps is nan; it must not be negative.",
    ),
    "betas": (
        lambda: Adam([parameter()], betas=(0.9, 1.0)), ValueError,
        "Adam: betas are (0.9, 1.0); they must be two numbers, at least 0 and below 1.",
    ),
    "nesterov": (
        lambda: SGD([parameter()], nesterov=True), ValueError,
        "SGD: nesterov needs a momentum and no dampening, not momentum=0.0 and dampening=0.0.",
    ),
}  # fmt: skip


@pytest.mark.parametrize(("make", "error", "text"), ERRORS.values(), ids=ERRORS.keys())
def test_errors(make, error, text):
    with pytest.raises(error) as caught:
        make()
    assert str(caught.value) == text


def test_gradient_that_does_not_fit():
    p = parameter()
    optimizer = SGD([p])
    p.grad = cf.ones(2)
    p.data = cf.ones(3, dtype=cf.float64)
    with pytest.raises(ValueError, match="step") as caught:
        optimizer.step()
    assert str(caught.value) == (
        "SGD.step: parameter 0 of group 0 is float64[3], but its grad is float32[2]. Call "
        "zero_grad() after changing a parameter's shape or dtype."
    )


# --- state -------------------------------------------------------------------------------------


@pytest.mark.parametrize(("kind", "options"), CASES, ids=NAMES)
def test_state_dict_round_trip(kind, options):
    expected = trajectory(kind, options, 6)[-1]
    p = cf.tensor(START.astype(np.float32), requires_grad=True)
    optimizer = kind([p], **options)
    for i in range(6):
        if i == 3:
            saved = copy.deepcopy(optimizer.state_dict())
            p = p.detach().clone().requires_grad_()
            optimizer = kind([p], **({"lr": 9.0} if "lr" in options else {}))
            optimizer.load_state_dict(saved)
        optimizer.zero_grad()
        loss_of(p).backward()
        optimizer.step()
    assert p.detach().numpy().tolist() == expected.tolist()


def test_state_dict_layout():
    p, q = parameter(), parameter(3)
    optimizer = Adam([{"params": [p]}, {"params": [q], "lr": 0.5}])
    p.sum().backward()
    optimizer.step()
    saved = optimizer.state_dict()
    assert saved["param_groups"][1] == {
        "lr": 0.5, "betas": (0.9, 0.999), "eps": 1e-8, "weight_decay": 0.0, "amsgrad": False,
        "maximize": False, "params": [1],
    }  # fmt: skip
    assert saved["state"][0]["step"] == 1
    assert type(saved["state"][0]["step"]) is int
    assert saved["state"][1]["exp_avg"].shape == (3,)


def test_load_state_dict_writes_into_what_is_there():
    p = parameter()
    optimizer = Adam([p], lr=0.1)
    before = optimizer._structure, Structure.epoch, optimizer.state[p]["exp_avg"]
    saved = copy.deepcopy(optimizer.state_dict())
    saved["state"][0].update(step=np.float32(4), exp_avg=cf.ones(2))
    saved["param_groups"][0]["lr"] = 0.5
    optimizer.load_state_dict(saved)
    assert (optimizer._structure, Structure.epoch, optimizer.state[p]["exp_avg"]) == before
    assert optimizer.state[p]["exp_avg"].tolist() == [1.0, 1.0]
    assert optimizer.state[p]["step"].value == 4
    assert optimizer.param_groups[0]["lr"] == 0.5
    optimizer.load_state_dict({**saved, "state": {}})
    assert optimizer.state[p]["exp_avg"].tolist() == [0.0, 0.0]
    assert optimizer.state[p]["step"].value == 0


def test_load_state_dict_errors():
    optimizer = Adam([parameter()])
    saved = optimizer.state_dict()
    with pytest.raises(ValueError, match=r"Adam\.load_state_dict: the state has groups of \[1\]"):
        Adam([parameter(), parameter()]).load_state_dict(saved)
    with pytest.raises(ValueError, match=r"exp_avg of parameter 0 is float32\[2\] and should be f"):
        Adam([parameter(3)]).load_state_dict(saved)


def test_deepcopy_with_its_model():
    model = cf.nn.Linear(2, 1)
    optimizer = Adam(model.parameters(), lr=0.1)
    twin, twin_optimizer = copy.deepcopy((model, optimizer))
    twin_optimizer.param_groups[0]["amsgrad"] = True
    assert "max_exp_avg_sq" in twin_optimizer.state[twin.weight]
    twin(cf.ones(1, 2)).sum().backward()
    twin_optimizer.step()
    assert twin_optimizer.state[twin.weight]["step"].value == 1
    assert optimizer.state[model.weight]["step"].value == 0
    assert model.weight.tolist() != twin.weight.tolist()


# --- schedules ---------------------------------------------------------------------------------


def half_cosine(epoch, length, low=0.0):
    return low + (1 - low) * (1 + math.cos(math.pi * epoch / length)) / 2


SCHEDULES = {
    "StepLR": (
        lambda o: lr_scheduler.StepLR(o, 3, gamma=0.5), lambda epoch: 0.5 ** (epoch // 3),
    ),
    "ExponentialLR": (lambda o: lr_scheduler.ExponentialLR(o, 0.9), lambda epoch: 0.9**epoch),
    "LinearLR": (
        lambda o: lr_scheduler.LinearLR(o, 0.25, total_iters=4),
        lambda epoch: min(1.0, 0.25 + 0.75 * epoch / 4),
    ),
    "LinearLR downward": (
        lambda o: lr_scheduler.LinearLR(o, 1.0, 0.0, 5), lambda epoch: max(0.0, 1 - epoch / 5),
    ),
    "CosineAnnealingLR": (
        lambda o: lr_scheduler.CosineAnnealingLR(o, 5, 0.1),
        lambda epoch: half_cosine(epoch, 5, 0.1),
    ),
    "LambdaLR": (
        lambda o: lr_scheduler.LambdaLR(o, lambda epoch: 1 / (1 + epoch)),
        lambda epoch: 1 / (1 + epoch),
    ),
}  # fmt: skip


@pytest.mark.parametrize(("make", "expected"), SCHEDULES.values(), ids=SCHEDULES.keys())
def test_schedule(make, expected):
    optimizer = SGD([parameter()], lr=1.0)
    scheduler = make(optimizer)
    structure = optimizer._structure
    for epoch in range(17):
        assert optimizer.param_groups[0]["lr"] == pytest.approx(expected(epoch), abs=1e-12)
        assert scheduler.get_last_lr() == [optimizer.param_groups[0]["lr"]]
        scheduler.step()
    assert scheduler.last_epoch == 17
    assert optimizer._structure == structure


@pytest.mark.parametrize(("make", "expected"), SCHEDULES.values(), ids=SCHEDULES.keys())
def test_schedule_continues_from_its_state(make, expected):
    optimizer = SGD([parameter()], lr=1.0)
    scheduler = make(optimizer)
    for _ in range(4):
        scheduler.step()
    saved = copy.deepcopy((optimizer.state_dict(), scheduler.state_dict()))
    optimizer = SGD([parameter()], lr=1.0)
    scheduler = make(optimizer)
    optimizer.load_state_dict(saved[0])
    scheduler.load_state_dict(saved[1])
    scheduler.step()
    assert optimizer.param_groups[0]["lr"] == pytest.approx(expected(5))


def test_schedule_resumes_by_last_epoch():
    optimizer = SGD([parameter()], lr=0.3)
    with pytest.raises(ValueError, match="CosineAnnealingLR: last_epoch is 3, but group 0 has no"):
        lr_scheduler.CosineAnnealingLR(optimizer, 10, last_epoch=3)
    optimizer.param_groups[0]["initial_lr"] = 1.0
    lr_scheduler.CosineAnnealingLR(optimizer, 10, last_epoch=3)
    assert optimizer.param_groups[0]["lr"] == pytest.approx(half_cosine(4, 10))


def test_schedules_act_together_and_on_every_group():
    optimizer = SGD([{"params": parameter()}, {"params": parameter(), "lr": 2.0}], lr=1.0)
    warmup = lr_scheduler.LinearLR(optimizer, 0.5, total_iters=2)
    decay = lr_scheduler.ExponentialLR(optimizer, 0.5)
    for _ in range(2):
        warmup.step()
        decay.step()
    assert decay.get_last_lr() == pytest.approx([0.25, 0.5])


def test_schedule_drives_a_step():
    p = cf.ones(1, requires_grad=True)
    optimizer = SGD([p], lr=0.5)
    scheduler = lr_scheduler.ExponentialLR(optimizer, 0.5)
    for _ in range(2):
        p.grad = cf.ones(1)
        optimizer.step()
        scheduler.step()
    assert p.tolist() == [0.25]


def test_schedule_errors():
    optimizer = SGD([parameter()], lr=1.0)
    with pytest.raises(TypeError, match=r"StepLR: list is not an Optimizer\."):
        lr_scheduler.StepLR([], 3)
    with pytest.raises(ValueError, match=r"LambdaLR: 2 functions for 1 parameter groups\."):
        lr_scheduler.LambdaLR(optimizer, [float, float])
    with pytest.raises(ValueError, match=r"LinearLR: the factors are 0 and 1\.0; the first must"):
        lr_scheduler.LinearLR(optimizer, 0)
    scheduler = lr_scheduler.StepLR(optimizer, 3)
    with changed(context=Symbolic()), pytest.raises(cf.CaptureError, match="Call it outside the c"):
        scheduler.step()
    assert scheduler.last_epoch == 0


@pytest.mark.peers
@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("StepLR", {"step_size": 3}),
        ("ExponentialLR", {"gamma": 0.9}),
        ("LinearLR", {"total_iters": 4}),
        ("CosineAnnealingLR", {"T_max": 5, "eta_min": 0.1}),
    ],
)
def test_schedule_agrees_with_pytorch(name, options):
    torch = pytest.importorskip(
        "torch", reason="compares with PyTorch, which `make peers` installs"
    )
    ours = SGD([parameter()], lr=1.0)
    theirs = torch.optim.SGD([torch.ones(2, requires_grad=True)], lr=1.0)
    mine = getattr(lr_scheduler, name)(ours, **options)
    other = getattr(torch.optim.lr_scheduler, name)(theirs, **options)
    for _ in range(17):
        theirs.step()
        mine.step()
        other.step()
        assert mine.get_last_lr() == pytest.approx(other.get_last_lr(), abs=1e-12)
