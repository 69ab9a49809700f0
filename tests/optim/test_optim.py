"""Optimizers against their update rules written in NumPy, eagerly and compiled."""

from __future__ import annotations

import copy
import math

import numpy as np
import pytest
from tests.helpers.update_rules import (
    CASES,
    CURVATURE,
    NAMES,
    REFERENCES,
    START,
    STEPS,
    Symbolic,
    assert_same,
    loss_of,
    parameter,
    reference,
    trajectory,
)

import contraflow as cf
from contraflow.operation.context import changed, state
from contraflow.optim import (
    LBFGS,
    SGD,
    Adadelta,
    Adafactor,
    Adam,
    AdamW,
    Lion,
    Muon,
    NAdam,
    Optimizer,
    lr_scheduler,
)
from contraflow.tensors.host_scalar import HostScalar

# --- reference ---------------------------------------------------------------------------------


PEERS = [case for case in CASES if case[0] is not Lion]  # PyTorch has none
PEER_NAMES = [f"{kind.__name__} {options}" for kind, options in PEERS]


TOLERANCE = {cf.float32: 1e-5, cf.float64: 1e-10}


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


@pytest.mark.parametrize("kind", [kind for kind in REFERENCES if kind is not Adafactor])
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


# --- Adafactor ---------------------------------------------------------------------------------


@pytest.mark.peers
@pytest.mark.parametrize("shape", [(5,), (), (3, 4), (2, 3, 4), (4, 1)])
@pytest.mark.parametrize("options", [{}, {"lr": 0.3, "weight_decay": 0.1, "d": 1.5}])
def test_adafactor_of_any_shape_agrees_with_pytorch(shape, options):
    torch = pytest.importorskip(
        "torch", reason="compares with PyTorch, which `make peers` installs"
    )
    start, *targets = np.random.default_rng(4).standard_normal((6, *shape))
    p, q = cf.tensor(start, requires_grad=True), torch.tensor(start, requires_grad=True)
    ours, theirs = Adafactor([p], **options), torch.optim.Adafactor([q], **options)
    for target in targets:
        for x, goal, optimizer in ((p, cf.tensor(target), ours), (q, torch.tensor(target), theirs)):
            optimizer.zero_grad()
            ((x - goal) ** 2).sum().backward()
            optimizer.step()
        np.testing.assert_allclose(p.detach().numpy(), q.detach().numpy(), rtol=1e-12)
    assert set(ours.state[p]) == set(theirs.state[q])


def test_adafactor_keeps_a_row_and_a_column_of_a_matrix():
    p, v = parameter(3, 4), parameter(3)
    optimizer = Adafactor([p, v], lr=0.1)
    ((p * p).sum() + (v * v).sum()).backward()
    optimizer.step()
    kept = {k: tuple(x.shape) for k, x in optimizer.state[p].items() if k != "step"}
    assert kept == {"row_var": (3, 1), "col_var": (1, 4)}
    assert optimizer.state[v]["variance"].shape == (3,)
    # Equal elements move by a tenth of their size.
    np.testing.assert_allclose(p.detach().numpy(), np.full((3, 4), 0.9), rtol=1e-6)
    np.testing.assert_allclose(v.detach().numpy(), np.full(3, 0.9), rtol=1e-6)


# --- names that choose nothing -----------------------------------------------------------------


@pytest.mark.parametrize("choice", ["capturable", "foreach", "fused"])
def test_choices_among_implementations_change_nothing(choice):
    chosen = trajectory(AdamW, {"lr": 0.1, choice: True}, 5)
    np.testing.assert_array_equal(chosen, trajectory(AdamW, {"lr": 0.1}, 5))


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

    with pytest.raises(cf.CaptureError, match=r"at .*: LBFGS\.step decides by the values"):
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
