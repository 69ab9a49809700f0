"""The training steps that are measured, written once for all libraries.

A step is a loss over named weights, its first weights and its batches as NumPy arrays. The loss is
written with functions that carry PyTorch's names: `f` is contraflow's or PyTorch's module of them,
or the namespace `peers.py` makes of JAX. To measure another step, write one more function that
returns a Step and put it into STEPS; functions it is the first to use are added for JAX there.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

Arrays = dict[str, np.ndarray]
BATCHES = 8  # more than one, so that no library can keep what it computed from an input


@dataclass(frozen=True)
class Step:
    """One training step: forward, backward, Adam, and reading the loss."""

    name: str
    description: str
    weights: Arrays
    batches: list[tuple[np.ndarray, ...]]
    loss: Callable[..., Any]  # (f, weights by name, *batch) -> 0-d loss
    learning_rate: float = 1e-3


def _dense_weights(random: np.random.Generator, sizes: tuple[int, ...]) -> Arrays:
    """The weights of linear layers, as PyTorch lays them out and draws them."""
    weights: Arrays = {}
    for i, (inputs, outputs) in enumerate(itertools.pairwise(sizes), 1):
        bound = 1 / math.sqrt(inputs)
        weights[f"w{i}"] = random.uniform(-bound, bound, (outputs, inputs)).astype(np.float32)
        weights[f"b{i}"] = random.uniform(-bound, bound, outputs).astype(np.float32)
    return weights


def _classified(
    random: np.random.Generator, shape: tuple[int, ...], classes: int
) -> list[tuple[np.ndarray, ...]]:
    """Batches of normal inputs, each with a class to learn by heart."""
    return [
        (random.standard_normal(shape, np.float32), random.integers(classes, size=shape[0]))
        for _ in range(BATCHES)
    ]


def small() -> Step:
    """A network so small that little but overhead is left."""

    def loss(f: Any, w: dict[str, Any], x: Any, target: Any) -> Any:
        x = f.tanh(f.linear(x, w["w1"], w["b1"]))
        x = f.tanh(f.linear(x, w["w2"], w["b2"]))
        return f.cross_entropy(f.linear(x, w["w3"], w["b3"]), target)

    random = np.random.default_rng(1)
    return Step(
        "small", "64-64-64-10 tanh, batch 32, cross-entropy, Adam",
        _dense_weights(random, (64, 64, 64, 10)), _classified(random, (32, 64), 10), loss,
    )  # fmt: skip


def mlp() -> Step:
    """A network of the size people train on digits: matmuls and Adam share the time."""

    def loss(f: Any, w: dict[str, Any], x: Any, target: Any) -> Any:
        x = f.relu(f.linear(x, w["w1"], w["b1"]))
        x = f.relu(f.linear(x, w["w2"], w["b2"]))
        return f.cross_entropy(f.linear(x, w["w3"], w["b3"]), target)

    random = np.random.default_rng(2)
    return Step(
        "mlp", "784-512-512-10 relu, batch 64, cross-entropy, Adam",
        _dense_weights(random, (784, 512, 512, 10)), _classified(random, (64, 784), 10), loss,
    )  # fmt: skip


STEPS: dict[str, Callable[[], Step]] = {"small": small, "mlp": mlp}
