"""Eager calls on small tensors beside PyTorch: `python -m benchmarks.small [NAME ...]`.

A few larger calls come last: those whose time once grew faster than their data.
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
SLOW = 0.05  # seconds of a call: fewer are made of those that take longer

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
    parts, vector, scalar = [numbers(4) for _ in range(64)], library.zeros(100), numbers()
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
        ".item()": lambda: scalar.item(),
        "x[i] = 1.": lambda: vector.__setitem__(3, 1.0),
        "unsqueeze": lambda: x.unsqueeze(0),
        "reshape": lambda: x.reshape(5, 4),
        "matmul": lambda: x @ y.T,
        "zeros(4)": lambda: library.zeros(4),
        "randn(4)": lambda: library.randn(4),
        "a token with a KV cache": loops.token(library, compiled=False),
        "the same, ours compiled": loops.token(library, library.__name__ == "contraflow"),
        "ten steps of REINFORCE": loops.episode(library, compiled=False),
        **_larger(library, numbers),
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


def _larger(library: Any, numbers: Callable[..., Any]) -> Calls:
    """Long chains and loops, and ops of a few milliseconds."""
    functional = library.nn.functional
    random = np.random.default_rng(1)

    def integers(low: int, high: int, *shape: int) -> Any:
        return library.tensor(random.integers(low, high, shape))

    matrix, rows = numbers(3, 4), numbers(100, 16).requires_grad_()

    def views() -> Any:
        view = matrix
        for _ in range(40_000):
            view = view.t()
        return view

    def writes() -> None:
        rows.grad = None
        buffer = library.zeros(100, 16)
        for i in range(100):
            buffer[i] = rows[i]
        buffer.sum().backward()

    table, indices = numbers(5000, 64), integers(0, 5000, 20_000)
    offsets = library.arange(0, 20_000, 20)
    time, batch, classes, longest = 200, 32, 50, 30
    log_probabilities = numbers(time, batch, classes).log_softmax(-1)
    labels = integers(1, classes, batch, longest)
    lengths, label_lengths = integers(time, time + 1, batch), integers(10, longest + 1, batch)
    points, others = numbers(2000, 64), numbers(2000, 64)
    examples, chosen = numbers(200, 50), integers(0, 50, 200)
    return {
        "40,000 views x.t() in a chain": views,
        "100 times buffer[i] = row, backward": writes,
        "embedding_bag of 1000 bags": lambda: functional.embedding_bag(indices, table, offsets),
        "ctc_loss (200, 32, 50)": lambda: functional.ctc_loss(
            log_probabilities, labels, lengths, label_lengths
        ),
        "cdist 2000 x 2000 x 64": lambda: library.cdist(points, others),
        "pdist 2000 x 64": lambda: functional.pdist(points),
        "vmap of x[i] over 200": lambda: library.vmap(lambda x, i: x[i])(examples, chosen),
    }


def seconds(function: Callable[[], Any], count: int) -> float:
    """Seconds of one call among so many."""
    start = time.perf_counter()
    for _ in range(count):
        function()
    return (time.perf_counter() - start) / count


def compare(ours: Callable[[], Any], theirs: Callable[[], Any]) -> tuple[float, float]:
    """The best seconds of one call of each, in turns."""
    ours(), theirs()
    slow = min(seconds(ours, 1) for _ in range(2)) > SLOW
    for _ in range(1 if slow else 8):  # what only the first calls do
        ours(), theirs()
    count = 1 if slow else max(3, int(SECONDS / seconds(ours, 5)))
    rounds = [(seconds(ours, count), seconds(theirs, count)) for _ in range(3 if slow else ROUNDS)]
    return min(a for a, _ in rounds), min(b for _, b in rounds)


def main() -> None:
    """Print a line for each call, or for those that are named."""
    torch, contraflow = map(importlib.import_module, ("torch", "contraflow"))
    torch.set_num_threads(1)
    contraflow.set_num_threads(1)
    theirs, ours = calls(torch), calls(contraflow)
    print(f"{'us':38}{'torch':>13}{'ours':>13}{'ratio':>8}")
    for name in sys.argv[1:] or ours:
        mine, other = compare(ours[name], theirs[name])
        print(f"{name:38}{other * 1e6:13.2f}{mine * 1e6:13.2f}{mine / other:8.2f}", flush=True)


if __name__ == "__main__":
    main()
