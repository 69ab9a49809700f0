"""Optimizers against their update rules written in NumPy, parameter groups, and schedules."""

from __future__ import annotations

import copy
import json
import math

import numpy as np
import pytest

import contraflow as cf
from contraflow import devices
from contraflow.operation.context import Context, changed, state
from contraflow.optim import (
    ASGD,
    LBFGS,
    SGD,
    Adadelta,
    Adagrad,
    Adam,
    Adamax,
    AdamW,
    Lion,
    Muon,
    NAdam,
    Optimizer,
    ParamGroup,
    RAdam,
    RMSprop,
    Rprop,
    lr_scheduler,
)
from contraflow.tensors.epoch import Structure
from contraflow.tensors.host_scalar import HostScalar

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

# An update rule is a function of the options that gives a function (p, g) -> p with a memory.


def plain(g, p, weight_decay=0, maximize=False):
    return (-g if maximize else g) + weight_decay * p


def sgd(lr=1e-3, momentum=0, dampening=0, nesterov=False, **options):
    velocity = None

    def update(p, g):
        nonlocal velocity
        g = plain(g, p, **options)
        if momentum:
            velocity = g if velocity is None else momentum * velocity + (1 - dampening) * g
            g = g + momentum * velocity if nesterov else velocity
        return p - lr * g

    return update


def asgd(lr=1e-2, lambd=1e-4, alpha=0.75, t0=1e6, **options):
    t, eta = 0, lr

    def update(p, g):
        nonlocal t, eta
        t += 1
        p = p - eta * (lambd * p + plain(g, p, **options))
        eta = lr / (1 + lambd * lr * t) ** alpha
        return p

    return update


def means(betas, g, kept):
    kept["t"] = kept.get("t", 0) + 1
    kept["mean"] = betas[0] * kept.get("mean", 0.0) + (1 - betas[0]) * g
    kept["square"] = betas[1] * kept.get("square", 0.0) + (1 - betas[1]) * g * g
    mean, square = kept["mean"], kept["square"]
    return kept["t"], mean / (1 - betas[0] ** kept["t"]), square / (1 - betas[1] ** kept["t"])


def adam(
    lr=1e-3, betas=(0.9, 0.999), eps=1e-8, weight_decay=0, amsgrad=False, maximize=False,
    decoupled_weight_decay=False,
):  # fmt: skip
    kept, largest = {}, 0.0

    def update(p, g):
        nonlocal largest
        if decoupled_weight_decay:
            p, g = p * (1 - lr * weight_decay), plain(g, p, maximize=maximize)
        else:
            g = plain(g, p, weight_decay, maximize)
        t, mean, square = means(betas, g, kept)
        largest = np.maximum(largest, kept["square"])
        if amsgrad:
            square = largest / (1 - betas[1] ** t)
        return p - lr * mean / (np.sqrt(square) + eps)

    return update


def adamw(weight_decay=1e-2, **options):
    return adam(weight_decay=weight_decay, decoupled_weight_decay=True, **options)


def nadam(
    lr=2e-3, betas=(0.9, 0.999), eps=1e-8, weight_decay=0, momentum_decay=4e-3, maximize=False,
    decoupled_weight_decay=False,
):  # fmt: skip
    kept, product = {}, 1.0

    def update(p, g):
        nonlocal product
        if decoupled_weight_decay:
            p, g = p * (1 - lr * weight_decay), plain(g, p, maximize=maximize)
        else:
            g = plain(g, p, weight_decay, maximize)
        t, _, square = means(betas, g, kept)
        now, then = (betas[0] * (1 - 0.5 * 0.96 ** (n * momentum_decay)) for n in (t, t + 1))
        product *= now
        mean = kept["mean"] * then / (1 - product * then) + g * (1 - now) / (1 - product)
        return p - lr * mean / (np.sqrt(square) + eps)

    return update


def radam(
    lr=1e-3, betas=(0.9, 0.999), eps=1e-8, weight_decay=0, maximize=False,
    decoupled_weight_decay=False,
):  # fmt: skip
    kept = {}

    def update(p, g):
        if decoupled_weight_decay:
            p, g = p * (1 - lr * weight_decay), plain(g, p, maximize=maximize)
        else:
            g = plain(g, p, weight_decay, maximize)
        t, mean, _ = means(betas, g, kept)
        last = 2 / (1 - betas[1]) - 1
        rho = last - 2 * t * betas[1] ** t / (1 - betas[1] ** t)
        if rho <= 5:
            return p - lr * mean
        root = math.sqrt((rho - 4) * (rho - 2) * last / ((last - 4) * (last - 2) * rho))
        scale = math.sqrt(1 - betas[1] ** t) / (np.sqrt(kept["square"]) + eps)
        return p - lr * mean * root * scale

    return update


def adamax(lr=2e-3, betas=(0.9, 0.999), eps=1e-8, **options):
    kept, largest = {}, 0.0

    def update(p, g):
        nonlocal largest
        g = plain(g, p, **options)
        _, mean, _ = means(betas, g, kept)
        largest = np.maximum(betas[1] * largest, np.abs(g) + eps)
        return p - lr * mean / largest

    return update


def adagrad(lr=1e-2, lr_decay=0, initial_accumulator_value=0, eps=1e-10, **options):
    t, total = 0, initial_accumulator_value

    def update(p, g):
        nonlocal t, total
        g = plain(g, p, **options)
        total = total + g * g
        p = p - lr / (1 + t * lr_decay) * g / (np.sqrt(total) + eps)
        t += 1
        return p

    return update


def adadelta(lr=1.0, rho=0.9, eps=1e-6, **options):
    square = moved = 0.0

    def update(p, g):
        nonlocal square, moved
        g = plain(g, p, **options)
        square = rho * square + (1 - rho) * g * g
        step = g * np.sqrt((moved + eps) / (square + eps))
        moved = rho * moved + (1 - rho) * step * step
        return p - lr * step

    return update


def rmsprop(lr=1e-2, alpha=0.99, eps=1e-8, momentum=0, centered=False, **options):
    square = mean = velocity = 0.0

    def update(p, g):
        nonlocal square, mean, velocity
        g = plain(g, p, **options)
        square = alpha * square + (1 - alpha) * g * g
        mean = alpha * mean + (1 - alpha) * g
        step = g / (np.sqrt(square - mean * mean if centered else square) + eps)
        velocity = momentum * velocity + step
        return p - lr * velocity

    return update


def lion(lr=1e-4, betas=(0.9, 0.99), weight_decay=0, maximize=False):
    mean = 0.0

    def update(p, g):
        nonlocal mean
        g = -g if maximize else g
        p = p * (1 - lr * weight_decay) - lr * np.sign(betas[0] * mean + (1 - betas[0]) * g)
        mean = betas[1] * mean + (1 - betas[1]) * g
        return p

    return update


def rprop(lr=1e-2, etas=(0.5, 1.2), step_sizes=(1e-6, 50), maximize=False):
    size, before = lr, 0.0

    def update(p, g):
        nonlocal size, before
        g = -g if maximize else g
        turn = np.sign(g * before)
        size = np.clip(size * np.choose(turn.astype(int) + 1, (etas[0], 1, etas[1])), *step_sizes)
        before = np.where(turn < 0, 0, g)
        return p - np.sign(before) * size

    return update


REFERENCES = {
    SGD: sgd, ASGD: asgd, Adam: adam, AdamW: adamw, NAdam: nadam, RAdam: radam, Adamax: adamax,
    Adagrad: adagrad, Adadelta: adadelta, RMSprop: rmsprop, Lion: lion, Rprop: rprop,
}  # fmt: skip

CASES = [
    (SGD, {"lr": 0.05}),
    (SGD, {"lr": 0.05, "weight_decay": 0.1}),
    (SGD, {"lr": 0.02, "momentum": 0.9}),
    (SGD, {"lr": 0.02, "momentum": 0.9, "dampening": 0.5}),
    (SGD, {"lr": 0.02, "momentum": 0.9, "nesterov": True, "weight_decay": 0.01}),
    (SGD, {"lr": 0.001, "momentum": 0.5, "maximize": True}),
    (ASGD, {"lr": 0.05, "lambd": 0.1, "weight_decay": 0.1}),
    (ASGD, {"lr": 0.01, "alpha": 0.5, "t0": 10, "maximize": True}),
    (Adam, {}),
    (Adam, {"lr": 0.02, "betas": (0.8, 0.95), "weight_decay": 0.1}),
    (Adam, {"lr": 0.02, "amsgrad": True, "eps": 1e-3}),
    (Adam, {"lr": 0.01, "maximize": True}),
    (AdamW, {"lr": 0.02}),
    (AdamW, {"lr": 0.02, "weight_decay": 0.3, "amsgrad": True}),
    (NAdam, {"lr": 0.02}),
    (NAdam, {"lr": 0.02, "weight_decay": 0.1, "momentum_decay": 0.1, "betas": (0.8, 0.9)}),
    (NAdam, {"weight_decay": 0.1, "decoupled_weight_decay": True, "maximize": True}),
    (RAdam, {"lr": 0.02}),
    (RAdam, {"lr": 0.02, "weight_decay": 0.1, "betas": (0.8, 0.9), "eps": 1e-3}),
    (RAdam, {"weight_decay": 0.1, "decoupled_weight_decay": True, "maximize": True}),
    (Adamax, {"lr": 0.02}),
    (Adamax, {"lr": 0.02, "weight_decay": 0.1, "betas": (0.8, 0.9), "maximize": True}),
    (Adagrad, {"lr": 0.1}),
    (Adagrad, {"lr": 0.1, "lr_decay": 0.1, "weight_decay": 0.1, "initial_accumulator_value": 0.5}),
    (Adagrad, {"lr": 0.1, "eps": 1e-3, "maximize": True}),
    (Adadelta, {}),
    (Adadelta, {"lr": 0.5, "rho": 0.8, "eps": 1e-3, "weight_decay": 0.1, "maximize": True}),
    (RMSprop, {}),
    (RMSprop, {"lr": 0.02, "alpha": 0.9, "weight_decay": 0.1, "momentum": 0.9}),
    (RMSprop, {"centered": True, "eps": 1e-2, "momentum": 0.5, "maximize": True}),
    (Lion, {"lr": 0.03}),
    (Lion, {"lr": 0.03, "betas": (0.8, 0.9), "weight_decay": 0.1, "maximize": True}),
    (Rprop, {}),
    (Rprop, {"lr": 0.1, "etas": (0.4, 1.5), "step_sizes": (1e-3, 0.2)}),
    (Rprop, {"maximize": True}),
]
NAMES = [f"{kind.__name__} {options}" for kind, options in CASES]
PEERS = [case for case in CASES if case[0] is not Lion]  # PyTorch has none
PEER_NAMES = [f"{kind.__name__} {options}" for kind, options in PEERS]

CURVATURE = np.random.default_rng(1).uniform(0.5, 2.0, (3, 4))
START = np.random.default_rng(2).standard_normal((3, 4))
START[2, 0] = 0.9  # at 0.302 first gradients would be tiny, and rounding grow by what they scale


TOLERANCE = {cf.float32: 1e-5, cf.float64: 1e-10}


def loss_of(p):
    """Differently curved in every direction, and with gradients that change sign."""
    return (cf.tensor(CURVATURE, dtype=p.dtype) * (p - 0.3) * (p - 0.3)).sum()


def trajectory(kind, options, steps=STEPS, dtype=cf.float32):
    p = cf.tensor(START, dtype=dtype, requires_grad=True)
    optimizer = kind([p], **options)
    path = []
    for _ in range(steps):
        optimizer.zero_grad()
        loss_of(p).backward()
        optimizer.step()
        path.append(p.detach().numpy().copy())
    return np.array(path)


def reference(kind, options, steps=STEPS, dtype=cf.float32):
    p, update = START.astype(dtype.numpy).astype(np.float64), REFERENCES[kind](**options)
    path = []
    for _ in range(steps):
        p = update(p, 2 * CURVATURE * (p - 0.3))
        path.append(p)
    return np.array(path)


def assert_same(actual, expected, tolerance=1e-5):
    scale = max(1.0, np.abs(expected).max())
    np.testing.assert_allclose(actual, expected, rtol=0, atol=tolerance * scale)


@pytest.mark.parametrize("dtype", [cf.float32, cf.float64], ids=str)
@pytest.mark.parametrize(("kind", "options"), CASES, ids=NAMES)
def test_trajectory(kind, options, dtype):
    expected = reference(kind, options, dtype=dtype)
    assert_same(trajectory(kind, options, dtype=dtype), expected, TOLERANCE[dtype])


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
    assert [x for x in symbolic.seen if isinstance(x, Optimizer)] == [optimizer] * 10
    assert_same(p.detach().numpy(), reference(kind, options, 10)[-1])


def counters(optimizer):
    states = optimizer.state.values()
    return [v.value for state in states for v in state.values() if isinstance(v, HostScalar)]


def scheduled(kind, options, compiled):
    """The values of two parameters in 20 steps with a schedule, and the optimizer."""
    p = cf.tensor(START.astype(np.float32), requires_grad=True)
    q = cf.tensor(START[:2, :2].astype(np.float32), requires_grad=True)
    optimizer = kind([p, q], **options)
    scheduler = lr_scheduler.CosineAnnealingLR(optimizer, 7, 1e-4)
    scales = cf.tensor(CURVATURE.astype(np.float32))

    def step(x):
        optimizer.zero_grad()
        loss = (scales * (p - x) * (p - x)).sum() + (q * q).sum()
        loss.backward()
        optimizer.step()
        return loss.detach()

    run = cf.compile(step) if compiled else step
    path = []
    for i in range(20):
        run(cf.tensor(0.1 * (i % 3)))
        scheduler.step()
        path += [p.detach().numpy().ravel().copy(), q.detach().numpy().ravel().copy()]
    if compiled:
        assert run.captures == 1
    return np.concatenate(path), optimizer


@pytest.mark.parametrize(
    ("kind", "options"),
    [*CASES, (Muon, {"lr": 0.02}), (Muon, {"nesterov": False, "adjust_lr_fn": "match_rms_adamw"})],
    ids=[*NAMES, "Muon", "Muon as AdamW"],
)
def test_compiled_steps_follow_a_schedule(kind, options, mode):
    (expected, plain), (actual, compiled) = (scheduled(kind, options, c) for c in (False, True))
    # bfloat16 keeps eight bits, and where a product is rounded differs.
    assert_same(actual, expected, 2e-2 if kind is Muon else 1e-5)
    assert counters(compiled) == pytest.approx(counters(plain))


def in_pytorch(name, options, dtype, steps=STEPS):
    torch = pytest.importorskip(
        "torch", reason="compares with PyTorch, which `make peers` installs"
    )
    p = torch.tensor(START.astype(dtype.numpy), requires_grad=True)
    optimizer = getattr(torch.optim, name)([p], **options)
    curvature, path = torch.tensor(CURVATURE.astype(dtype.numpy)), []

    def closure():
        optimizer.zero_grad()
        loss = (curvature * (p - 0.3) * (p - 0.3)).sum()
        loss.backward()
        return loss

    torch.set_default_dtype(p.dtype)  # in which it keeps counters and products
    try:
        for _ in range(steps):
            optimizer.step(closure)
            path.append(p.detach().numpy().copy())
    finally:
        torch.set_default_dtype(torch.float32)
    return np.array(path), optimizer


@pytest.mark.peers
@pytest.mark.parametrize("dtype", [cf.float32, cf.float64], ids=str)
@pytest.mark.parametrize(("kind", "options"), PEERS, ids=PEER_NAMES)
def test_trajectory_agrees_with_pytorch(kind, options, dtype):
    expected, _ = in_pytorch(kind.__name__, options, dtype)
    assert_same(trajectory(kind, options, dtype=dtype), expected, TOLERANCE[dtype])


@pytest.mark.peers
@pytest.mark.parametrize(("kind", "options"), PEERS, ids=PEER_NAMES)
def test_state_has_the_layout_of_pytorch(kind, options):
    _, theirs = in_pytorch(kind.__name__, options, cf.float32, 2)
    p = cf.tensor(START.astype(np.float32), requires_grad=True)
    optimizer = kind([p], **options)
    for _ in range(2):
        optimizer.zero_grad()
        loss_of(p).backward()
        optimizer.step()
    saved, expected = optimizer.state_dict(), theirs.state_dict()
    absent = {"foreach", "capturable", "differentiable", "fused"}
    (group,), (their_group,) = saved["param_groups"], expected["param_groups"]
    assert set(group) == set(their_group) - absent
    assert {k: v for k, v in their_group.items() if k not in absent} == group
    # SGD counts its steps only where the first differs.
    names = set(saved["state"].get(0, {})) - ({"step"} if kind is SGD else set())
    assert names == set(expected["state"].get(0, {})) - {"momentum_buffer"} | (
        {"momentum_buffer"} if "momentum" in options else set()
    )
    if expected["state"]:
        converted = {
            k: v if v is None else cf.tensor(v.numpy()) for k, v in expected["state"][0].items()
        }
        twin = kind([p], **options)
        twin.load_state_dict({"state": {0: converted}, "param_groups": [their_group]})
        for name in names:
            value = twin.state_dict()["state"][0][name]
            assert_same(np.asarray(value), np.asarray(saved["state"][0][name]))


@pytest.mark.parametrize("kind", REFERENCES)
def test_large_parameters_are_updated_by_one_program(kind):
    values = np.resize(START, (100, 100)).astype(np.float32)
    p, q = cf.tensor(values, requires_grad=True), cf.tensor(values[:3, :4], requires_grad=True)
    optimizers = kind([p], lr=0.01), kind([q], lr=0.01)
    for step in range(1, 4):
        for t, optimizer in zip((p, q), optimizers):
            t.grad = (t.detach() * step).sin()
            optimizer.step()
        assert_same(p.detach().numpy()[:3, :4], q.detach().numpy())
    assert counters(optimizers[0]) == pytest.approx(counters(optimizers[1]))


# --- Muon --------------------------------------------------------------------------------------


def newton_schulz(x, steps=5, a=3.4445, b=-4.7750, c=2.0315):
    x = x / np.linalg.norm(x)
    for _ in range(steps):
        gram = x @ x.T
        x = a * x + (b * gram + c * gram @ gram) @ x
    return x


@pytest.mark.parametrize("shape", [(3, 5), (5, 3), (4, 4)])
def test_muon(shape):
    rng = np.random.default_rng(3)
    start, g = rng.standard_normal((2, *shape))
    p = cf.tensor(start.astype(np.float32), requires_grad=True)
    p.grad = cf.tensor(g.astype(np.float32))
    Muon([p], lr=0.5, weight_decay=0.1).step()
    size = 0.5 * math.sqrt(max(1, shape[0] / shape[1]))
    tall = shape[0] > shape[1]
    step = newton_schulz(g.T).T if tall else newton_schulz(g)
    np.testing.assert_allclose(p.detach(), start * 0.95 - size * step, atol=0.05)
    # The singular values of a step are near 1, whatever those of the gradient are.
    singular = np.linalg.svd((start * 0.95 - p.detach().numpy()) / size, compute_uv=False)
    assert (singular > 0.4).all()
    assert (singular < 1.4).all()


@pytest.mark.peers
@pytest.mark.parametrize("shape", [(8, 4), (4, 8), (6, 6)])
@pytest.mark.parametrize(
    "options",
    [{"lr": 0.02}, {"nesterov": False, "adjust_lr_fn": "match_rms_adamw"}, {"ns_steps": 3}],
)
def test_muon_agrees_with_pytorch(shape, options):
    torch = pytest.importorskip(
        "torch", reason="compares with PyTorch, which `make peers` installs"
    )
    start, target = np.random.default_rng(0).standard_normal((2, *shape)).astype(np.float32)
    p, q = cf.tensor(start, requires_grad=True), torch.tensor(start, requires_grad=True)
    ours, theirs = Muon([p], **options), torch.optim.Muon([q], **options)
    differences = []
    for _ in range(STEPS):
        # From the same place each time: a last bit of float32 turns one of bfloat16 now and then.
        with cf.no_grad():
            p.copy_(cf.tensor(q.detach().numpy()))
        for t, other, optimizer in (
            (p, cf.tensor(target), ours),
            (q, torch.tensor(target), theirs),
        ):
            optimizer.zero_grad()
            ((t - other) ** 2).sum().backward()
            optimizer.step()
        differences.append(np.abs(p.detach().numpy() - q.detach().numpy()).max())
    assert np.median(differences) < 1e-6
    assert max(differences) < 0.02 * 2**-6


# --- LBFGS -------------------------------------------------------------------------------------


def rosenbrock(lib, options, dtype, steps=8):
    p = lib.tensor(np.array([-1.2, 1.0, 0.5, 2.0], dtype), requires_grad=True)
    q = lib.tensor(np.array([[0.3]], dtype), requires_grad=True)
    optimizer = lib.optim.LBFGS([p, q], **options)

    def closure():
        optimizer.zero_grad()
        valley = ((p[1:] - p[:-1] ** 2) ** 2).sum()
        loss = ((1 - p[:-1]) ** 2).sum() + 5 * valley + (q**2).sum()
        loss.backward()
        return loss

    path, losses = [], []
    for _ in range(steps):
        losses.append(optimizer.step(closure).item())
        path.append([*p.tolist(), *q.flatten().tolist()])
    return np.array(path), losses, optimizer


SEARCH = {"line_search_fn": "strong_wolfe"}


def test_lbfgs_finds_the_minimum():
    path, losses, optimizer = rosenbrock(cf, {**SEARCH, "max_iter": 10}, np.float64)
    np.testing.assert_allclose(path[-1], [1, 1, 1, 1, 0], atol=1e-5)
    assert losses == sorted(losses, reverse=True)
    state = optimizer.state_dict()["state"][0]
    assert state["func_evals"] >= state["n_iter"] > 8
    saved = copy.deepcopy(optimizer.state_dict())
    optimizer.load_state_dict(saved)
    assert optimizer.state_dict()["state"][0]["n_iter"] == state["n_iter"]


@pytest.mark.peers
@pytest.mark.parametrize(
    ("options", "dtype"),
    [
        ({"lr": 0.1, "max_iter": 4}, np.float32),
        ({"lr": 0.05, "history_size": 2, "max_iter": 6}, np.float32),
        ({"lr": 0.1, "max_iter": 4}, np.float64),
        ({"lr": 0.05, "history_size": 2, "max_iter": 6, "max_eval": 5}, np.float64),
        ({**SEARCH, "max_iter": 3}, np.float64),
        ({**SEARCH, "max_iter": 5, "history_size": 3, "lr": 5.0}, np.float64),
    ],
)
def test_lbfgs_agrees_with_pytorch(options, dtype):
    torch = pytest.importorskip(
        "torch", reason="compares with PyTorch, which `make peers` installs"
    )
    (ours, _, mine), (theirs, _, other) = (rosenbrock(x, options, dtype) for x in (cf, torch))
    assert_same(ours, theirs, 1e-5 if dtype is np.float32 else 1e-9)
    mine, other = (x.state_dict()["state"][0] for x in (mine, other))
    assert mine["func_evals"] == other["func_evals"]
    assert set(mine) == set(other) - {"al"}  # only scratch


def test_lbfgs_refuses():
    p = parameter()
    optimizer = LBFGS([p])
    with pytest.raises(ValueError, match="LBFGS: there can be one parameter group only"):
        LBFGS([{"params": p}, {"params": parameter()}])
    with pytest.raises(ValueError, match="LBFGS: line_search_fn is 'golden'; it must be None or"):
        LBFGS([p], line_search_fn="golden")
    with pytest.raises(TypeError, match=r"LBFGS\.step: it needs a closure"):
        optimizer.step()

    @cf.compile
    def step():
        optimizer.step(lambda: (p * p).sum())

    with pytest.raises(cf.CaptureError, match=r"LBFGS\.step: its control flow depends on the loss"):
        step()


# --- counters ----------------------------------------------------------------------------------


def test_parameters_share_their_counters_until_one_stays_behind():
    p, q, r = parameter(), parameter(), parameter()
    optimizer = Adam([{"params": [p, q]}, {"params": r}], lr=0.1)
    steps = [optimizer.state[t]["step"] for t in (p, q, r)]
    assert steps[0] is steps[1] is not steps[2]
    (p + q + r).sum().backward()
    optimizer.step()
    structure = optimizer._structure
    q.grad = None
    optimizer.step()
    assert optimizer._structure > structure
    assert counters(optimizer) == [2, 1, 2]
    structure = optimizer._structure
    optimizer.step()
    q.grad = cf.ones(2)
    optimizer.step()
    assert counters(optimizer) == [4, 2, 4]
    assert optimizer._structure == structure


def test_compiled_steps_whose_parameters_part(mode):
    paths = []
    for compiled in (False, True):
        p, q = (cf.ones(2, requires_grad=True) for _ in range(2))
        optimizer = NAdam([p, q], lr=0.1)

        def both(p=p, q=q, optimizer=optimizer):
            optimizer.zero_grad()
            ((p * p).sum() + (q * q * q).sum()).backward()
            optimizer.step()

        def one(p=p, optimizer=optimizer):
            optimizer.zero_grad()
            (p * p).sum().backward()
            optimizer.step()

        def mixed(one=one, both=both):
            both()
            one()

        steps = [cf.compile(f) if compiled else f for f in (both, one, mixed)]
        for number in (0, 0, 1, 0, 2, 1, 2, 0):
            steps[number]()
        paths.append([*p.tolist(), *q.tolist(), *counters(optimizer)])
    assert paths[0] == pytest.approx(paths[1], rel=1e-5)


def test_loading_counters_that_differ():
    p, q = parameter(), parameter()
    optimizer = Adam([p, q], lr=0.1)
    saved = copy.deepcopy(optimizer.state_dict())
    saved["state"][0]["step"], saved["state"][1]["step"] = 5, cf.tensor(3.0)
    optimizer.load_state_dict(saved)
    assert counters(optimizer) == [5, 3]
    optimizer.load_state_dict(optimizer.state_dict())
    assert counters(optimizer) == [5, 3]


def test_the_prologue_of_a_compiled_step_does_not_grow_with_the_parameters():
    def scalars(count):
        params = [cf.ones(2, requires_grad=True) for _ in range(count)]
        optimizer = Adam(params, lr=0.1)

        @cf.compile
        def step():
            optimizer.zero_grad()
            sum((p * p).sum() for p in params).backward()
            optimizer.step()

        step()
        return [role for role in step.tape.inputs.values() if role == "scalar"]

    assert len(scalars(2)) == len(scalars(9))


@pytest.mark.parametrize("kind", REFERENCES)
def test_zero_dimensional_and_half_parameters(kind):
    for dtype, shape in ((cf.float32, ()), (cf.bfloat16, (3,)), (cf.float64, (2,))):
        p = cf.ones(shape, dtype=dtype, requires_grad=True)
        optimizer = kind([p], lr=100.0 if kind is Adadelta else 0.125)  # its first steps are tiny
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


def test_gradients_accumulate_until_they_are_cleared(mode):
    whole, parts = parameter(3), parameter(3)
    x = cf.tensor([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]])
    optimizers = Adam([whole], lr=0.1), Adam([parts], lr=0.1)

    @cf.compile
    def add(row):
        (parts * parts * row).sum().backward()

    @cf.compile
    def step():
        optimizers[1].step()
        optimizers[1].zero_grad()

    for _ in range(3):
        optimizers[0].zero_grad()
        (whole * whole * x).sum().backward()
        optimizers[0].step()
        for row in x:
            add(row)
        step()
    assert_same(parts.detach().numpy(), whole.detach().numpy(), 1e-6)
    assert parts.grad is None


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


def test_compiled_step_notices_what_is_put_into_the_list():
    p, q = parameter(1), parameter(1)
    optimizer = SGD([p], lr=1.0)

    @cf.compile
    def step():
        optimizer.zero_grad()
        (p.sum() + q.sum()).backward()
        optimizer.step()

    for _ in range(3):
        step()
    optimizer.param_groups[0]["params"].append(q)
    q.grad = None
    for _ in range(3):
        step()
    assert [p.item(), q.item()] == [-5.0, -2.0]
    assert len(copy.deepcopy(optimizer).param_groups[0]["params"]) == 2


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
    with pytest.raises(NotImplementedError, match="Optimizer: update is not implemented"):
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


def test_none_is_an_entry_too():
    group = ParamGroup({"adjust": None})
    assert group == {"adjust": None}
    group["adjust"] = None
    group["foreach"] = None
    assert "foreach" in group


def test_a_fixed_number_is_structure():
    group = ParamGroup({"ns_steps": 5})
    before = group.changed_at
    assert group.fixed("ns_steps") == 5
    group["ns_steps"] = 5
    assert group.changed_at == before
    group["ns_steps"] = 6
    assert group.changed_at > before
    assert group.fixed("ns_steps") == 6


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
    "not a matrix": (
        lambda: Muon([parameter(2, 2), parameter(3)]), ValueError,
        "Muon: float32[3] is not a matrix. Give it to another optimizer, AdamW for instance.",
    ),
    "adjustment": (
        lambda: Muon([parameter(2, 2)], adjust_lr_fn="none"), ValueError,
        "Muon: adjust_lr_fn is 'none'; it must be one of None, 'original', 'match_rms_adamw'.",
    ),
    "coefficients": (
        lambda: Muon([parameter(2, 2)], ns_coefficients=(1.0, 2.0)), ValueError,
        "Muon: ns_coefficients are (1.0, 2.0); they must be three numbers.",
    ),
    "rho": (
        lambda: Adadelta([parameter()], rho=1.5), ValueError,
        "Adadelta: rho is 1.5; it must be from 0 to 1.",
    ),
    "etas": (
        lambda: Rprop([parameter()], etas=(0.5, 0.9)), ValueError,
        "Rprop: etas are (0.5, 0.9); the first must be between 0 and 1, the second above 1.",
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
        "zero_grad() after changing a parameter's shape, dtype or device."
    )


def test_gradient_on_another_device(monkeypatch):
    monkeypatch.setattr(devices, "_KNOWN", ("cpu", "cuda"))
    monkeypatch.setitem(devices._loaded, "cuda", None)
    p = parameter()
    p.grad = cf.ones(2)
    p.grad.storage.device = "cuda"  # none is there yet; this is what one would look like
    with pytest.raises(ValueError, match=r"is float32\[2\], but its grad is float32\[2\] on cuda"):
        SGD([p]).step()
    assert p.tolist() == [1.0, 1.0]


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
        "maximize": False, "decoupled_weight_decay": False, "params": [1],
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


# --- groups and state that users change ----------------------------------------------------------


def _run(compiled, change, kind, size=3, **options):
    """Three steps, a change, three more: the parameters after that."""
    params = [parameter(size), parameter(2)]
    optimizer = kind(params, **options)
    gradients = [cf.linspace(-1.0, 1.0, size), cf.ones(2)]

    def step(*gradients):
        for p, g in zip(params, gradients):
            p.grad = g
        optimizer.step()

    call = cf.compile(step) if compiled else step
    for _ in range(3):
        call(*gradients)
    kept = change(optimizer, params)
    for _ in range(3):
        call(*gradients)
    return [p.tolist() for p in params], kept


def _replaced(optimizer, params):
    optimizer.param_groups[0] = {**optimizer.param_groups[0], "lr": 0.5}


def _lower(optimizer, params):
    optimizer.param_groups[0]["lr"] = 0.5


def _cut(optimizer, params):
    (group,) = optimizer.param_groups
    optimizer.param_groups = [{**group, "params": [p]} for p in params]


def _none(optimizer, params):
    pass


def _counted_anew(optimizer, params):
    for p in params:
        optimizer.state[p]["step"] = 0


def _counted_by_tensors(optimizer, params):
    for p in params:
        optimizer.state[p]["step"] = cf.tensor(0.0)


def _forgotten(optimizer, params):
    for name in list(optimizer.state[params[0]]):
        optimizer.state[params[0]][name] = None


def _emptied(optimizer, params):
    optimizer.state[params[0]] = {}


def _popped(optimizer, params):
    optimizer.state.pop(params[0])


def _all_forgotten(optimizer, params):
    optimizer.state = {}


def _all_cleared(optimizer, params):
    optimizer.state.clear()


def _first_popped(optimizer, params):
    optimizer.param_groups[0]["params"].pop(0)


def _cleared_but_one(optimizer, params):
    listed = optimizer.param_groups[0]["params"]
    listed.clear()
    listed += params[1:]


def _without_the_first(optimizer, params):
    optimizer.param_groups[0]["params"] = params[1:]


@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize(
    ("change", "same"),
    [
        (_first_popped, _without_the_first), (_cleared_but_one, _without_the_first),
        (_replaced, _lower), (_cut, _none), (_counted_anew, _counted_by_tensors),
        (_forgotten, _emptied), (_forgotten, _popped), (_all_forgotten, _all_cleared),
    ],
)  # fmt: skip
def test_what_users_put_in_place_of_groups_and_state(change, same, compiled):
    assert _run(compiled, change, Adam, lr=0.1) == _run(False, same, Adam, lr=0.1)
    if change not in (_counted_anew, _cut):
        options = {"lr": 0.1, "momentum": 0.9, "dampening": 0.5}
        assert _run(compiled, change, SGD, **options) == _run(False, same, SGD, **options)


def test_a_counter_that_begins_anew():
    p = parameter(3)
    optimizer = Adam([p, parameter(2)], lr=0.1)
    p.grad = cf.ones(3)
    optimizer.step()
    optimizer.state[p].update(step=0, exp_avg=cf.zeros(3), exp_avg_sq=cf.zeros(3))
    before = p.tolist()
    optimizer.step()
    assert optimizer.state[p]["step"].value == 1
    np.testing.assert_allclose(p.detach(), np.array(before) - 0.1, atol=1e-6)
    assert optimizer.state_dict()["state"][1]["step"] == 0


def test_momentum_that_is_none_begins_with_the_next_gradient():
    p = parameter(3)
    optimizer = SGD([p], lr=1.0, momentum=0.9, dampening=0.5)
    for _ in range(2):
        p.grad = cf.ones(3)
        optimizer.step()
    optimizer.state[p]["momentum_buffer"] = None
    before = p.tolist()
    optimizer.step()
    # The first gradient is not damped.
    np.testing.assert_allclose(p.detach(), np.array(before) - 1.0, atol=1e-6)


def test_groups_are_checked_before_they_are_taken_over():
    p = parameter(3)
    optimizer = Adam([p])
    with pytest.raises(ValueError, match=r"Adam: parameter 0 of group 1, float32\[3\], was given"):
        optimizer.param_groups.append({"params": [p]})
    with pytest.raises(TypeError, match="Adam: a parameter group is a dict with 'params', not 3"):
        optimizer.param_groups[0] = 3
    assert len(optimizer.param_groups) == 1
    optimizer.param_groups += [{"params": [parameter(2)], "lr": 0.5}]
    assert optimizer.param_groups[1]["betas"] == (0.9, 0.999)
    assert optimizer.param_groups.pop()["lr"] == 0.5
    alone = LBFGS([p])
    with pytest.raises(ValueError, match="LBFGS: there can be one parameter group only"):
        alone.param_groups.append({"params": [parameter(2)]})
