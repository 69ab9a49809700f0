"""What single operations cost, on data so small that the library itself is what one measures.

An operation is a name and, for each library, a function to call without arguments.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import contraflow as cf
from benchmarks import peers

Functions = dict[str, Callable[[], Any]]
CHAIN = 1000


def _chain(x: Any) -> Callable[[], Any]:
    def run() -> None:
        y = x
        for _ in range(CHAIN):
            y = y * x
        y.backward()
        x.grad = None

    return run


def _eager(library: Any) -> dict[str, Functions]:
    """The eager operations of a library with PyTorch's names, by operation."""
    name = library.__name__
    plain, other = library.tensor(1.5), library.tensor(2.5)
    tracked = library.tensor(1.5, requires_grad=True)
    one = library.tensor(1.0, requires_grad=True)  # its powers neither grow nor vanish
    square = library.tensor(np.random.default_rng(0).standard_normal((64, 64), np.float32))
    return {
        "add two scalars": {name: lambda: plain + other},
        "add two scalars, one requires grad": {name: lambda: tracked + other},
        f"{CHAIN} scalar multiplications and backward": {name: _chain(one)},
        "matmul 64x64": {name: lambda: square @ square},
    }


def _replays() -> Functions:
    """A compiled function that does almost nothing: the cost of calling one."""
    found: Functions = {}
    ours = cf.compile(lambda x: x + 1.0, name="almost_nothing")
    ours_argument = cf.tensor(1.5)
    found["contraflow"] = lambda: ours(ours_argument)
    if peers.jax is not None:
        theirs = peers.jax.jit(lambda x: x + 1.0)
        their_argument = peers.jnp.float32(1.5)
        found["jax"] = lambda: theirs(their_argument).block_until_ready()
    return found


def operations(with_peers: bool = True) -> dict[str, Functions]:
    """Every operation, with a function for each library that is there."""
    found = _eager(cf)
    if with_peers and peers.torch is not None:
        for operation, functions in _eager(peers.torch).items():
            found[operation] |= functions
    replays = _replays()
    if not with_peers:
        replays = {"contraflow": replays["contraflow"]}
    found["compiled replay of x + 1"] = replays
    return found
