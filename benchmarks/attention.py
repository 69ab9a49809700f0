"""Attention beside PyTorch: `python -m benchmarks.attention [--threads N] [NAME ...]`.

Forward and backward of float32 queries, keys and values [8, 6, 256, 64], ours compiled. Each line
has the time of one call in milliseconds, and the ratio, PyTorch's / ours: above 1 ours is faster.
Both libraries run in one process, in turns, and the best of the rounds counts.
"""

from __future__ import annotations

import argparse
import importlib
import math
import time
from collections.abc import Callable
from typing import Any

import numpy as np

SHAPE = (8, 6, 256, 64)
ROUNDS, CALLS = 7, 5

Attention = Callable[[Any, Any, Any, Any], Any]  # (library, q, k, v) -> averages


def causal(library: Any, q: Any, k: Any, v: Any) -> Any:
    """By the function, which does not compute the masked half."""
    return library.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)


def full(library: Any, q: Any, k: Any, v: Any) -> Any:
    """By the function, without a mask."""
    return library.nn.functional.scaled_dot_product_attention(q, k, v)


def masked(library: Any, q: Any, k: Any, v: Any) -> Any:
    """By the function, with a mask that says which keys are seen."""
    mask = library.ones(SHAPE[2], SHAPE[2], dtype=library.bool).tril()
    return library.nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=mask)


def by_hand(library: Any, q: Any, k: Any, v: Any) -> Any:
    """By its parts, as models write it out."""
    scores = q @ k.transpose(-2, -1) / math.sqrt(SHAPE[-1])
    seen = library.ones(SHAPE[2], SHAPE[2], dtype=library.bool).tril()
    weights = library.nn.functional.softmax(scores.masked_fill(~seen, -math.inf), -1)
    return weights @ v


KINDS: dict[str, Attention] = {
    "causal": causal, "full": full, "masked": masked, "by hand": by_hand,
}  # fmt: skip


def step(library: Any, attend: Attention, arrays: list[np.ndarray]) -> Callable[[], Any]:
    """A function that computes averages, and the gradients of queries, keys and values."""
    given = [library.tensor(x).requires_grad_() for x in arrays[:3]]
    g = library.tensor(arrays[3])

    def run(q: Any, k: Any, v: Any) -> Any:
        out = attend(library, q, k, v)
        return library.autograd.grad((out * g).sum(), [q, k, v])

    ours = library.__name__ == "contraflow"
    called = library.compile(run) if ours else run
    return lambda: called(*given)


def seconds(function: Callable[[], Any]) -> float:
    """Seconds of one call among a few."""
    start = time.perf_counter()
    for _ in range(CALLS):
        function()
    return (time.perf_counter() - start) / CALLS


def main() -> None:
    """Print a line for each kind, or for those that are named."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("names", nargs="*", metavar="NAME")
    arguments = parser.parse_args()
    torch, contraflow = map(importlib.import_module, ("torch", "contraflow"))
    torch.set_num_threads(arguments.threads)
    contraflow.set_num_threads(arguments.threads)
    random = np.random.default_rng(0)
    arrays = [random.standard_normal(SHAPE, np.float32) for _ in range(4)]
    print(f"{'ms':12}{'torch':>10}{'ours':>10}{'ratio':>8}")
    for name in arguments.names or KINDS:
        ours, theirs = (step(x, KINDS[name], arrays) for x in (contraflow, torch))
        for a, b in zip(ours(), theirs()):
            np.testing.assert_allclose(a.numpy(), b.numpy(), rtol=2e-4, atol=2e-5)
        rounds = [(seconds(ours), seconds(theirs)) for _ in range(ROUNDS)]
        mine, other = (min(times) for times in zip(*rounds))
        print(f"{name:12}{other * 1e3:10.2f}{mine * 1e3:10.2f}{other / mine:8.2f}", flush=True)


if __name__ == "__main__":
    main()
