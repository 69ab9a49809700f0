"""Eager calls on small tensors beside PyTorch: `python -m benchmarks.small [NAME ...]`.

Each line is the time of one call in microseconds and the ratio, ours / PyTorch's. Both libraries
run in one process and on one thread, in turns, and the best of the rounds counts: what is left is
what Python, dispatch and checks take.
"""

from __future__ import annotations

import importlib
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks import loops

ROUNDS = 12
SECONDS = 0.002  # of one round, about

Calls = dict[str, Callable[[], Any]]


def calls(library: Any) -> Calls:
    """The calls by name, in a library with PyTorch's names."""
    random = np.random.default_rng(0)

    def numbers(*shape: int) -> Any:
        return library.tensor(random.standard_normal(shape, np.float32))

    functional = library.nn.functional
    x, y, v = numbers(4, 5), numbers(4, 5), numbers(8)
    weights, condition = library.arange(1.0, 11.0), x > 0
    index = library.tensor([[0, 1, 2], [1, 2, 3], [0, 0, 0], [4, 4, 4]])
    rows, mask = library.tensor([0, 2]), library.tensor([True, False, True, False])
    parts, vector = [numbers(4) for _ in range(64)], library.zeros(100)
    return {
        **_networks(library, numbers),
        "x + y": lambda: x + y,
        "x > 0": lambda: x > 0,
        "x == y": lambda: x == y,
        "exp": lambda: x.exp(),
        "sum": lambda: x.sum(),
        "max": lambda: x.max(),
        "argmax": lambda: x.argmax(-1),
        "softmax": lambda: functional.softmax(x, -1),
        "layer_norm": lambda: functional.layer_norm(x, (5,)),
        "where": lambda: library.where(condition, x, y),
        "gather": lambda: library.gather(x, 1, index),
        "topk": lambda: library.topk(x, 2),
        "sort": lambda: library.sort(v),
        "cumsum": lambda: x.cumsum(0),
        "multinomial": lambda: library.multinomial(weights, 1),
        "dropout": lambda: functional.dropout(x, 0.1),
        "cat of 64": lambda: library.cat(parts),
        "stack of 16": lambda: library.stack(parts[:16]),
        "unbind of 8": lambda: v.unbind(),
        "x[0]": lambda: x[0],
        "x[:, 1:3]": lambda: x[:, 1:3],
        "x[rows]": lambda: x[rows],
        "x[mask]": lambda: x[mask],
        "x[i, j].item()": lambda: x[1, 2].item(),
        "x[i] = 1.": lambda: vector.__setitem__(3, 1.0),
        "unsqueeze": lambda: x.unsqueeze(0),
        "reshape": lambda: x.reshape(5, 4),
        "matmul": lambda: x @ y.T,
        "zeros(4)": lambda: library.zeros(4),
        "randn(4)": lambda: library.randn(4),
        "a token with a KV cache": loops.token(library, compiled=False),
        "the same, ours compiled": loops.token(library, library.__name__ == "contraflow"),
        "ten steps of REINFORCE": loops.episode(library, compiled=False),
    }


def _networks(library: Any, numbers: Callable[..., Any]) -> Calls:
    """A step of a classifier of two layers, and what a policy does with one state."""
    functional = library.nn.functional
    shapes = ((16, 8), (16,), (2, 16), (2,))
    parameters = [numbers(*shape).requires_grad_() for shape in shapes]
    batch, target = numbers(32, 8), library.tensor([0, 1] * 16)

    def scores(state: Any) -> Any:
        first, first_bias, second, second_bias = parameters
        hidden = functional.relu(functional.linear(state, first, first_bias))
        return functional.linear(hidden, second, second_bias)

    def step() -> None:
        for parameter in parameters:
            parameter.grad = None
        functional.cross_entropy(scores(batch), target).backward()

    return {
        "MLP, forward and backward": step,
        "a row through an MLP and softmax": lambda: functional.softmax(scores(batch[:1]), -1),
    }


def seconds(function: Callable[[], Any], count: int) -> float:
    """Seconds of one call among so many."""
    start = time.perf_counter()
    for _ in range(count):
        function()
    return (time.perf_counter() - start) / count


def compare(ours: Callable[[], Any], theirs: Callable[[], Any]) -> tuple[float, float]:
    """The best seconds of one call of each, in turns."""
    for _ in range(8):  # what only the first calls do
        ours(), theirs()
    count = max(3, int(SECONDS / seconds(ours, 5)))
    rounds = [(seconds(ours, count), seconds(theirs, count)) for _ in range(ROUNDS)]
    return min(a for a, _ in rounds), min(b for _, b in rounds)


def main() -> None:
    """Print a line for each call, or for those that are named."""
    torch, contraflow = map(importlib.import_module, ("torch", "contraflow"))
    torch.set_num_threads(1)
    theirs, ours = calls(torch), calls(contraflow)
    print(f"{'us':34}{'torch':>10}{'ours':>10}{'ratio':>8}")
    for name in sys.argv[1:] or ours:
        mine, other = compare(ours[name], theirs[name])
        print(f"{name:34}{other * 1e6:10.2f}{mine * 1e6:10.2f}{mine / other:8.2f}", flush=True)


if __name__ == "__main__":
    main()
