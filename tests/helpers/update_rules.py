"""Update rules of optimizers written in NumPy, cases of each, and steps with a known result."""

from __future__ import annotations

import math

import numpy as np

import contraflow as cf
from contraflow.operation.context import Context, state
from contraflow.optim import (
    ASGD,
    SGD,
    Adadelta,
    Adafactor,
    Adagrad,
    Adam,
    Adamax,
    AdamW,
    Lion,
    NAdam,
    RAdam,
    RMSprop,
    Rprop,
)

STEPS = 50


class Symbolic(Context):
    """Host scalars as 0-d tensors, as a recording hands them out, but with values."""

    def __init__(self):
        super().__init__(state().context)
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


def adafactor(lr=1e-2, beta2_decay=-0.8, eps=(None, 1e-3), d=1.0, weight_decay=0.0, maximize=False):
    t, rows, columns = 0, 0.0, 0.0
    tiny = np.finfo(np.float64).eps if eps[0] is None else eps[0]

    def update(p, g):
        nonlocal t, rows, columns
        t += 1
        g = -g if maximize else g
        size = max(eps[1], np.sqrt((p * p).mean())) * min(lr, t**-0.5)
        p = p * (1 - lr * weight_decay)
        share = t**beta2_decay
        rows = (1 - share) * rows + share * (g * g).mean(-1, keepdims=True)
        columns = (1 - share) * columns + share * (g * g).mean(-2, keepdims=True)
        square = rows @ columns / np.maximum(rows.mean(-2, keepdims=True), tiny)
        step = g / np.sqrt(np.maximum(square, tiny * tiny))
        return p - size * step / max(1.0, np.sqrt((step * step).mean()) / d)

    return update


REFERENCES = {
    SGD: sgd, ASGD: asgd, Adam: adam, AdamW: adamw, NAdam: nadam, RAdam: radam, Adamax: adamax,
    Adagrad: adagrad, Adadelta: adadelta, RMSprop: rmsprop, Lion: lion, Rprop: rprop,
    Adafactor: adafactor,
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
    (Adafactor, {}),
    (Adafactor, {"lr": 0.02, "weight_decay": 0.1, "d": 2.0, "beta2_decay": -0.5}),
    (Adafactor, {"lr": 0.5, "eps": (1e-6, 0.1), "maximize": True}),
]
NAMES = [f"{kind.__name__} {options}" for kind, options in CASES]

CURVATURE = np.random.default_rng(1).uniform(0.5, 2.0, (3, 4))
START = np.random.default_rng(2).standard_normal((3, 4))
START[2, 0] = 0.9  # at 0.302 first gradients would be tiny, and rounding grow by what they scale


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


def parameter(*shape):
    return cf.ones(shape or (2,), requires_grad=True)
