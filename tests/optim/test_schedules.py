"""Learning-rate schedules against their formulas and against PyTorch's."""

from __future__ import annotations

import copy
import math

import pytest

import contraflow as cf
from contraflow.optim import SGD, Adam, lr_scheduler


def parameter():
    return cf.ones(2, requires_grad=True)


def half_cosine(epoch, length, low=0.0):
    return low + (1 - low) * (1 + math.cos(math.pi * epoch / length)) / 2


def restarts(epoch, length, factor):
    while epoch >= length:
        epoch, length = epoch - length, length * factor
    return half_cosine(epoch, length, 0.1)


def triangle(epoch, up, down, low=0.2, high=1.0):
    x = epoch % (up + down)
    return low + (high - low) * (x / up if x <= up else (up + down - x) / down)


def one_cycle(epoch, total=20, rise=0.3):
    top = rise * total - 1
    if epoch <= top:
        return 2.0 + (2.0 / 25 - 2.0) * half_cosine(epoch, top)
    return 2.0 / 25e4 + (2.0 - 2.0 / 25e4) * half_cosine(epoch - top, total - 1 - top)


def in_sequence(o):
    return lr_scheduler.SequentialLR(
        o,
        [
            lr_scheduler.LinearLR(o, 0.25, total_iters=3),
            lr_scheduler.CosineAnnealingLR(o, 5, 0.1),
            lr_scheduler.ExponentialLR(o, 0.5),
        ],
        [3, 8],
    )


def sequence(epoch):
    if epoch < 3:
        return 0.25 + 0.75 * epoch / 3
    return half_cosine(epoch - 3, 5, 0.1) if epoch < 8 else 0.5 ** (epoch - 8)


def chained(o):
    return lr_scheduler.ChainedScheduler(
        [lr_scheduler.ConstantLR(o, 0.5, 4), lr_scheduler.ExponentialLR(o, 0.9)]
    )


# How each is made, and the rate in an epoch if the initial one is 1.
SCHEDULES = {
    "StepLR": (
        lambda o: lr_scheduler.StepLR(o, 3, gamma=0.5), lambda epoch: 0.5 ** (epoch // 3),
    ),
    "MultiStepLR": (
        lambda o: lr_scheduler.MultiStepLR(o, [2, 5, 5, 9], gamma=0.5),
        lambda epoch: 0.5 ** sum(epoch >= m for m in (2, 5, 5, 9)),
    ),
    "ConstantLR": (
        lambda o: lr_scheduler.ConstantLR(o, 0.5, 4), lambda epoch: 0.5 if epoch < 4 else 1.0,
    ),
    "ExponentialLR": (lambda o: lr_scheduler.ExponentialLR(o, 0.9), lambda epoch: 0.9**epoch),
    "LinearLR": (
        lambda o: lr_scheduler.LinearLR(o, 0.25, total_iters=4),
        lambda epoch: min(1.0, 0.25 + 0.75 * epoch / 4),
    ),
    "LinearLR downward": (
        lambda o: lr_scheduler.LinearLR(o, 1.0, 0.0, 5), lambda epoch: max(0.0, 1 - epoch / 5),
    ),
    "PolynomialLR": (
        lambda o: lr_scheduler.PolynomialLR(o, 6, 2.0),
        lambda epoch: max(0.0, 1 - epoch / 6) ** 2,
    ),
    "CosineAnnealingLR": (
        lambda o: lr_scheduler.CosineAnnealingLR(o, 5, 0.1),
        lambda epoch: half_cosine(epoch, 5, 0.1),
    ),
    "CosineAnnealingWarmRestarts": (
        lambda o: lr_scheduler.CosineAnnealingWarmRestarts(o, 3, 2, 0.1),
        lambda epoch: restarts(epoch, 3, 2),
    ),
    "CyclicLR": (
        lambda o: lr_scheduler.CyclicLR(o, 0.2, 1.0, 3, 2), lambda epoch: triangle(epoch, 3, 2),
    ),
    "CyclicLR by a function": (
        lambda o: lr_scheduler.CyclicLR(o, 0.2, 1.0, 4, scale_fn=lambda n: 1 / n),
        lambda epoch: 0.2 + (triangle(epoch, 4, 4) - 0.2) / (1 + epoch // 8),
    ),
    "OneCycleLR": (lambda o: lr_scheduler.OneCycleLR(o, 2.0, total_steps=20), one_cycle),
    "LambdaLR": (
        lambda o: lr_scheduler.LambdaLR(o, lambda epoch: 1 / (1 + epoch)),
        lambda epoch: 1 / (1 + epoch),
    ),
    "MultiplicativeLR": (
        lambda o: lr_scheduler.MultiplicativeLR(o, lambda epoch: epoch / (1 + epoch)),
        lambda epoch: 1 / (1 + epoch),
    ),
    "SequentialLR": (in_sequence, sequence),
    "ChainedScheduler": (
        chained, lambda epoch: 0.9**epoch * (0.5 if epoch < 4 else 1.0),
    ),
}  # fmt: skip


@pytest.mark.parametrize(("make", "expected"), SCHEDULES.values(), ids=SCHEDULES.keys())
def test_schedule(make, expected):
    optimizer = SGD([parameter()], lr=1.0, momentum=0.9)
    scheduler = make(optimizer)
    structure = optimizer._structure
    for epoch in range(17):
        assert optimizer.param_groups[0]["lr"] == pytest.approx(expected(epoch), abs=1e-12)
        assert scheduler.get_last_lr() == [optimizer.param_groups[0]["lr"]]
        scheduler.step()
    assert optimizer._structure == structure


@pytest.mark.parametrize(("make", "expected"), SCHEDULES.values(), ids=SCHEDULES.keys())
def test_schedule_continues_from_its_state(make, expected):
    optimizer = SGD([parameter()], lr=1.0, momentum=0.9)
    scheduler = make(optimizer)
    for _ in range(9):
        scheduler.step()
    saved = copy.deepcopy((optimizer.state_dict(), scheduler.state_dict()))
    optimizer = SGD([parameter()], lr=1.0, momentum=0.9)
    scheduler = make(optimizer)
    optimizer.load_state_dict(saved[0])
    scheduler.load_state_dict(saved[1])
    for epoch in (10, 11, 12):
        scheduler.step()
        assert optimizer.param_groups[0]["lr"] == pytest.approx(expected(epoch))


@pytest.mark.parametrize("kind", [SGD, Adam])
@pytest.mark.parametrize("name", ["CyclicLR", "OneCycleLR"])
def test_momentum_goes_the_other_way(name, kind):
    optimizer = kind([parameter()], lr=1.0)
    group = optimizer.param_groups[0]
    scheduler = (
        lr_scheduler.CyclicLR(optimizer, 0.1, 1.0, 4) if name == "CyclicLR"
        else lr_scheduler.OneCycleLR(optimizer, 1.0, 20, pct_start=0.25)
    )  # fmt: skip
    momenta = []
    for _ in range(5):
        momenta.append(group["momentum"] if kind is SGD else group["betas"][0])
        scheduler.step()
    bounds = (0.9, 0.8) if name == "CyclicLR" else (0.95, 0.85)
    assert (momenta[0], momenta[4]) == pytest.approx(bounds)
    assert momenta == sorted(momenta, reverse=True)


def test_restarts_at_a_given_epoch():
    optimizer = SGD([parameter()], lr=1.0)
    scheduler = lr_scheduler.CosineAnnealingWarmRestarts(optimizer, 3, 2, 0.1)
    for epoch in (0.5, 2.75, 3.0, 8.5, 9.0, 1.0):
        scheduler.step(epoch)
        assert optimizer.param_groups[0]["lr"] == pytest.approx(restarts(epoch, 3, 2))
    scheduler.step()
    assert optimizer.param_groups[0]["lr"] == pytest.approx(restarts(2, 3, 2))


def test_plateau():
    optimizer = SGD([{"params": parameter()}, {"params": parameter(), "lr": 0.3}], lr=1.0)
    scheduler = lr_scheduler.ReduceLROnPlateau(
        optimizer, factor=0.5, patience=1, cooldown=2, min_lr=[0.4, 0.1]
    )
    seen = []
    for loss in (5.0, 5.0, 4.9999, 5.0, 5.0, 5.0, 5.0, 5.0, 1.0):
        scheduler.step(cf.tensor(loss))
        seen.append(scheduler.get_last_lr())
    assert [a for a, _ in seen] == [1.0, 1.0, 0.5, 0.5, 0.5, 0.5, 0.4, 0.4, 0.4]
    assert [b for _, b in seen][-1] == pytest.approx(0.1)
    assert scheduler.best == 1.0


def test_schedule_resumes_by_last_epoch():
    optimizer = SGD([parameter()], lr=0.3)
    with pytest.raises(ValueError, match="CosineAnnealingLR: last_epoch is 3, but group 0 has no"):
        lr_scheduler.CosineAnnealingLR(optimizer, 10, last_epoch=3)
    optimizer.param_groups[0].update(initial_lr=1.0, lr=half_cosine(4, 10))
    scheduler = lr_scheduler.CosineAnnealingLR(optimizer, 10, last_epoch=3)
    assert optimizer.param_groups[0]["lr"] == half_cosine(4, 10)  # what the optimizer was left with
    scheduler.step()
    assert optimizer.param_groups[0]["lr"] == pytest.approx(half_cosine(5, 10))


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


def test_state_of_functions_that_are_objects():
    class Decay:
        rate = 0.5

        def __call__(self, epoch):
            return self.rate**epoch

    optimizer = SGD([parameter()], lr=1.0)
    function = Decay()
    function.rate = 0.25
    saved = lr_scheduler.LambdaLR(optimizer, function).state_dict()
    assert saved["lr_lambdas"] == [{"rate": 0.25}]
    scheduler = lr_scheduler.LambdaLR(SGD([parameter()], lr=1.0), Decay())
    scheduler.load_state_dict(saved)
    scheduler.step()
    assert scheduler.get_last_lr() == [0.25]


def optimizer_of(**options):
    return SGD([parameter()], **{"lr": 1.0, **options})


ERRORS = {
    "no optimizer": (
        lambda: lr_scheduler.StepLR([], 3), TypeError, "StepLR: list is not an Optimizer.",
    ),
    "functions": (
        lambda: lr_scheduler.LambdaLR(optimizer_of(), [float, float]), ValueError,
        "LambdaLR: 2 functions for 1 parameter groups.",
    ),
    "no function": (
        lambda: lr_scheduler.MultiplicativeLR(optimizer_of(), [0.5]), TypeError,
        "MultiplicativeLR: float is not a function.",
    ),
    "linear": (
        lambda: lr_scheduler.LinearLR(optimizer_of(), 0), ValueError,
        "LinearLR: the factors are 0 and 1.0; the first must be above 0, and both at most 1.",
    ),
    "constant": (
        lambda: lr_scheduler.ConstantLR(optimizer_of(), 2.0), ValueError,
        "ConstantLR: factor is 2.0; it must be from 0 to 1.",
    ),
    "restarts": (
        lambda: lr_scheduler.CosineAnnealingWarmRestarts(optimizer_of(), 0), ValueError,
        "CosineAnnealingWarmRestarts: T_0 is 0; it must be an integer, at least 1.",
    ),
    "backward": (
        lambda: lr_scheduler.CosineAnnealingWarmRestarts(optimizer_of(), 2).step(-1), ValueError,
        "CosineAnnealingWarmRestarts.step: epoch is -1; it must not be negative.",
    ),
    "no length": (
        lambda: lr_scheduler.OneCycleLR(optimizer_of(), 1.0, epochs=3), ValueError,
        "OneCycleLR: total_steps is None; pass a positive integer, or epochs and steps_per_epoch.",
    ),
    "share": (
        lambda: lr_scheduler.OneCycleLR(optimizer_of(), 1.0, 9, pct_start=2.0), ValueError,
        "OneCycleLR: pct_start is 2.0; it must be from 0 to 1.",
    ),
    "strategy": (
        lambda: lr_scheduler.OneCycleLR(optimizer_of(), 1.0, 9, anneal_strategy="sin"), ValueError,
        "OneCycleLR: anneal_strategy is 'sin'; it must be 'cos' or 'linear'.",
    ),
    "no momentum": (
        lambda: lr_scheduler.OneCycleLR(cf.optim.Adagrad([parameter()]), 1.0, 9), ValueError,
        "OneCycleLR: cycle_momentum needs an optimizer with momentum or betas, not Adagrad. Pass "
        "cycle_momentum=False.",
    ),
    "groups": (
        lambda: lr_scheduler.CyclicLR(optimizer_of(), [0.1, 0.2], 1.0), ValueError,
        "CyclicLR: 2 values of base_lr for 1 parameter groups.",
    ),
    "mode": (
        lambda: lr_scheduler.CyclicLR(optimizer_of(), 0.1, 1.0, mode="square"), ValueError,
        "CyclicLR: mode is 'square'; it must be 'triangular', 'triangular2' or 'exp_range', or "
        "pass a scale_fn.",
    ),
    "factor": (
        lambda: lr_scheduler.ReduceLROnPlateau(optimizer_of(), factor=1.0), ValueError,
        "ReduceLROnPlateau: factor is 1.0; it must be below 1.",
    ),
    "plateau mode": (
        lambda: lr_scheduler.ReduceLROnPlateau(optimizer_of(), "low"), ValueError,
        "ReduceLROnPlateau: mode is 'low'; it must be 'min' or 'max'.",
    ),
    "threshold": (
        lambda: lr_scheduler.ReduceLROnPlateau(optimizer_of(), threshold_mode="x"), ValueError,
        "ReduceLROnPlateau: threshold_mode is 'x'; it must be 'rel' or 'abs'.",
    ),
    "milestones": (
        lambda: lr_scheduler.SequentialLR(
            o := optimizer_of(), [lr_scheduler.StepLR(o, 3)], [5]
        ), ValueError,
        "SequentialLR: 1 milestones for 1 schedulers; there must be one fewer.",
    ),
    "no schedules": (
        lambda: lr_scheduler.ChainedScheduler([]), ValueError,
        "ChainedScheduler: the list of schedulers is empty.",
    ),
    "no schedule": (
        lambda: lr_scheduler.ChainedScheduler([3]), TypeError,
        "ChainedScheduler: scheduler 0 is int, not a scheduler.",
    ),
    "a measure": (
        lambda: lr_scheduler.ChainedScheduler([lr_scheduler.ReduceLROnPlateau(optimizer_of())]),
        ValueError,
        "ChainedScheduler: scheduler 0 is ReduceLROnPlateau, whose step takes a metric. Step it "
        "separately.",
    ),
    "another optimizer": (
        lambda: lr_scheduler.ChainedScheduler(
            [lr_scheduler.StepLR(optimizer_of(), 3), lr_scheduler.StepLR(optimizer_of(), 3)]
        ), ValueError,
        "ChainedScheduler: scheduler 1, StepLR, belongs to another optimizer.",
    ),
}  # fmt: skip


@pytest.mark.parametrize(("make", "error", "text"), ERRORS.values(), ids=ERRORS.keys())
def test_errors(make, error, text):
    with pytest.raises(error) as caught:
        make()
    assert str(caught.value) == text


def test_a_cycle_ends():
    scheduler = lr_scheduler.OneCycleLR(optimizer_of(momentum=0.9), 1.0, 3)
    for _ in range(3):
        scheduler.step()
    with pytest.raises(ValueError, match="this is step 4 of a schedule of 3 steps"):
        scheduler.step()


def test_a_schedule_is_stepped_outside_a_compiled_function():
    optimizer = optimizer_of()
    schedulers = [make(optimizer_of(momentum=0.9)) for make, _ in SCHEDULES.values()]
    schedulers.append(lr_scheduler.ReduceLROnPlateau(optimizer))
    for scheduler in schedulers:
        arguments = (1.0,) if scheduler is schedulers[-1] else ()
        before = copy.deepcopy(scheduler.state_dict())
        with pytest.raises(cf.CaptureError, match="Call it outside the compiled function"):
            cf.compile(scheduler.step)(*arguments)
        assert scheduler.state_dict() == before


# --- PyTorch -----------------------------------------------------------------------------------

PEERS = [
    ("StepLR", {"step_size": 3}),
    ("MultiStepLR", {"milestones": [2, 5, 5], "gamma": 0.5}),
    ("ConstantLR", {"factor": 0.25, "total_iters": 4}),
    ("LinearLR", {"total_iters": 4}),
    ("ExponentialLR", {"gamma": 0.9}),
    ("PolynomialLR", {"total_iters": 6, "power": 1.5}),
    ("CosineAnnealingLR", {"T_max": 5, "eta_min": 0.1}),
    ("CosineAnnealingWarmRestarts", {"T_0": 3, "T_mult": 2, "eta_min": 0.1}),
    ("CosineAnnealingWarmRestarts", {"T_0": 4}),
    ("OneCycleLR", {"max_lr": 2.0, "total_steps": 17}),
    ("OneCycleLR", {"max_lr": [1.0, 3.0], "epochs": 4, "steps_per_epoch": 5, "three_phase": True}),
    ("OneCycleLR", {"max_lr": 2.0, "total_steps": 20, "anneal_strategy": "linear"}),
    ("OneCycleLR", {"max_lr": 2.0, "total_steps": 20, "pct_start": 0.5, "cycle_momentum": False}),
    ("CyclicLR", {"base_lr": 0.1, "max_lr": 1.0, "step_size_up": 4}),
    ("CyclicLR", {"base_lr": 0.1, "max_lr": 1.0, "step_size_up": 2, "mode": "triangular2"}),
    (
        "CyclicLR",
        {"base_lr": [0.1, 0.2], "max_lr": 1.0, "step_size_up": 3, "step_size_down": 2,
         "mode": "exp_range", "gamma": 0.9},
    ),
    ("LambdaLR", {"lr_lambda": lambda epoch: 1 / (1 + epoch)}),
    ("MultiplicativeLR", {"lr_lambda": lambda epoch: 0.9**epoch}),
]  # fmt: skip


def both(name, options, kind="SGD"):
    torch = pytest.importorskip(
        "torch", reason="compares with PyTorch, which `make peers` installs"
    )
    made = []
    for lib in (cf, torch):
        groups = [{"params": [lib.ones(2, requires_grad=True)], "lr": lr} for lr in (1.0, 0.5)]
        optimizer = getattr(lib.optim, kind)(groups)
        made.append((optimizer, getattr(lib.optim.lr_scheduler, name)(optimizer, **options)))
    return made


def momentum(optimizer):
    return [g["betas"][0] if "betas" in g else g["momentum"] for g in optimizer.param_groups]


@pytest.mark.peers
@pytest.mark.filterwarnings("ignore:Detected call of")
@pytest.mark.parametrize("kind", ["SGD", "Adam"])
@pytest.mark.parametrize(("name", "options"), PEERS)
def test_schedule_agrees_with_pytorch(name, options, kind):
    (ours, mine), (theirs, other) = both(name, options, kind)
    for _ in range(17):
        assert mine.get_last_lr() == pytest.approx(other.get_last_lr(), abs=1e-12)
        assert momentum(ours) == pytest.approx(momentum(theirs), abs=1e-12)
        mine.step()
        other.step()


@pytest.mark.peers
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(("name", "options"), PEERS[:8])
def test_resuming_agrees_with_pytorch(name, options):
    torch = pytest.importorskip("torch", reason="compares with PyTorch")
    rates = []
    for lib in (cf, torch):
        p = lib.ones(2, requires_grad=True)
        optimizer = lib.optim.SGD([{"params": [p], "initial_lr": 1.0, "lr": 0.7}])
        scheduler = getattr(lib.optim.lr_scheduler, name)(optimizer, **options, last_epoch=2)
        for _ in range(6):
            rates.append(scheduler.get_last_lr())
            scheduler.step()
    assert rates[:6] == [pytest.approx(r, abs=1e-12) for r in rates[6:]]


@pytest.mark.peers
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    ("name", "options"), [*PEERS[:9], *PEERS[-2:]], ids=lambda x: x if isinstance(x, str) else ""
)
def test_sequences_agree_with_pytorch(name, options):
    torch = pytest.importorskip("torch", reason="compares with PyTorch")
    rates = []
    for lib in (cf, torch):
        optimizer = lib.optim.SGD([lib.ones(2, requires_grad=True)], lr=1.0)
        make = lib.optim.lr_scheduler
        parts = [
            make.LinearLR(optimizer, 0.5, total_iters=3),
            getattr(make, name)(optimizer, **options),
            make.ExponentialLR(optimizer, 0.5),
        ]
        scheduler = make.SequentialLR(optimizer, parts, [3, 9])
        for _ in range(14):
            rates.append(optimizer.param_groups[0]["lr"])
            scheduler.step()
    assert rates[:14] == pytest.approx(rates[14:], abs=1e-12)


@pytest.mark.peers
@pytest.mark.parametrize("options", [
    {}, {"mode": "max", "patience": 2}, {"threshold_mode": "abs", "threshold": 0.1, "patience": 0},
    {"mode": "max", "threshold_mode": "abs", "threshold": 0.1, "cooldown": 2, "patience": 1},
])  # fmt: skip
def test_plateau_agrees_with_pytorch(options):
    (_, mine), (_, other) = both("ReduceLROnPlateau", options)
    for i in range(40):
        loss = 1.0 + math.sin(i / 3) / (1 + i)
        mine.step(loss)
        other.step(loss)
        assert mine.get_last_lr() == pytest.approx(other.get_last_lr())
        assert (mine.num_bad_epochs, mine.best) == (other.num_bad_epochs, other.best)
