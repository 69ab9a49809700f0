"""Whole steps on an NVIDIA GPU, ours beside those of PyTorch and JAX at their best.

`python -m benchmarks.cuda small mlp gpt ewise --json FILE` runs the contenders of a step in turns
and prints the medians in microseconds. Batches lie on the GPU, another one at every step. The loss
is read at every step, or at every hundredth.

Each contender has a process of its own, and waits while another one runs. In one process they
disturb each other: threads of one library take time from the host's part of another's step (JAX
and contraflow take up to 1.7 times as long beside PyTorch's compiler), and PyTorch 2.11 with two
captured steps, one of them compiled, ends in an assertion of a kernel of its own.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np

import contraflow as cf
from benchmarks import models
from benchmarks.channel import Child, ChildError, serve
from benchmarks.models import STEPS, Step

ROUNDS = 7
TIMEOUT = 300.0  # seconds for an answer of a contender's process
EVERY = (100, 1)  # steps between two reads of the loss
ON_CUDA = {**STEPS, "ewise": partial(models.ewise, size=1 << 26)}


@dataclass
class CudaContender:
    """A library's way to run a step: a batch is chosen by its number, the loss is returned."""

    run: Callable[[int], Any]
    read: Callable[[Any], float]
    wait: Callable[[], None] = lambda: None  # for what comes behind the loss
    first_call: float = 0.0  # seconds
    losses: list[float] = field(default_factory=list)

    def begin(self, steps: int) -> None:
        """The first steps, whose losses are kept."""
        started = time.perf_counter()
        self.losses = [self.read(self.run(0))]
        self.first_call = time.perf_counter() - started
        self.losses += [self.read(self.run(k)) for k in range(1, steps)]

    def measure(self, every: int, steps: int) -> float:
        """Microseconds of a step in one round."""
        self.read(self.run(0))
        self.wait()
        started = time.perf_counter()
        for k in range(steps):
            loss = self.run(k)
            if k % every == every - 1:
                self.read(loss)
        self.read(loss)
        self.wait()
        return (time.perf_counter() - started) / steps * 1e6


def chosen(batches: list[Any], run: Callable[..., Any]) -> Callable[[int], Any]:
    """A function of the number of a batch."""
    return lambda k: run(*batches[k % len(batches)])


# --- contenders --------------------------------------------------------------------------------


def ours(step: Step, mode: str) -> CudaContender:
    """Contraflow, eager or compiled."""
    from benchmarks.with_contraflow import functions

    device = "cuda"
    trains = step.learning_rate is not None
    batches = [
        tuple(cf.tensor(x, device=device, requires_grad=not trains) for x in batch)
        for batch in step.batches
    ]
    weights = {k: cf.tensor(v, device=device, requires_grad=True) for k, v in step.weights.items()}
    optimizer = cf.optim.Adam(list(weights.values()), lr=step.learning_rate) if trains else None

    def run(*batch: cf.Tensor) -> Any:
        if optimizer is None:
            loss = step.loss(functions, {}, *batch)
            (gradient,) = cf.autograd.grad(loss, list(batch))
            return loss.detach(), gradient
        optimizer.zero_grad()
        loss = step.loss(functions, weights, *batch)
        loss.backward()
        optimizer.step()
        return loss.detach(), None

    if mode == "compiled":
        run = cf.compile(run)
    return CudaContender(chosen(batches, run), lambda result: result[0].item(), cf.cuda.synchronize)


def torchs(step: Step, mode: str) -> CudaContender:
    """PyTorch: eager, compiled, or a whole step captured by hand in a graph."""
    import torch

    from benchmarks.with_torch import functions

    trains = step.learning_rate is not None
    batches = [
        tuple(torch.tensor(x, device="cuda").requires_grad_(not trains) for x in batch)
        for batch in step.batches
    ]
    weights = {
        k: torch.tensor(v, device="cuda", requires_grad=True) for k, v in step.weights.items()
    }
    captured = mode.startswith("captured")
    optimizer = None
    if trains:
        optimizer = torch.optim.Adam(
            list(weights.values()), lr=step.learning_rate, fused=True, capturable=captured
        )
    forward = step.loss
    if mode.endswith("compiled"):
        forward = torch.compile(step.loss)

    def run(*batch: Any) -> Any:
        if optimizer is None:
            loss = forward(functions, {}, *batch)
            (gradient,) = torch.autograd.grad(loss, list(batch))
            return loss.detach(), gradient
        optimizer.zero_grad(set_to_none=not captured)
        loss = forward(functions, weights, *batch)
        loss.backward()
        optimizer.step()
        return loss.detach(), None

    if captured:
        run = _captured(torch, run, batches[0], list(weights.values()))
    return CudaContender(chosen(batches, run), lambda result: result[0].item())


def _captured(torch: Any, run: Any, batch: Any, weights: Any) -> Any:
    """A step as one graph, into whose inputs each batch is copied."""
    static = [x.detach().clone().requires_grad_(x.requires_grad) for x in batch]
    kept = [w.detach().clone() for w in weights]
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for _ in range(3):
            run(*static)
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        result = run(*static)
    with torch.no_grad():
        for w, k in zip(weights, kept):
            w.copy_(k)

    def replay(*new: Any) -> Any:
        with torch.no_grad():
            for target, x in zip(static, new):
                target.copy_(x)
        graph.replay()
        return result

    return replay


def jaxs(step: Step, mode: str) -> CudaContender:
    """JAX: the whole step under jit."""
    from benchmarks import with_jax

    found = with_jax.make(step, mode)
    batches = list(found.batches)
    return CudaContender(chosen(batches, found.run), lambda result: found.read(result[0]))


CONTENDERS: dict[str, Callable[[Step], CudaContender]] = {
    "contraflow": partial(ours, mode="compiled"),
    "contraflow eager": partial(ours, mode="eager"),
    "torch eager": partial(torchs, mode="eager"),
    "torch compiled": partial(torchs, mode="compiled"),
    "torch captured": partial(torchs, mode="captured"),
    "torch captured, compiled": partial(torchs, mode="captured compiled"),
    "jax": partial(jaxs, mode="jit"),
}


# --- the table ---------------------------------------------------------------------------------


class Served:
    """One contender at one step in this process, which is asked over a pipe (`channel.py`)."""

    def __init__(self, contender: str, step: str, precision: str) -> None:
        self._names = contender, step
        self._tf32 = precision == "TF32"
        self._contender: CudaContender

    def begin(self, steps: int) -> dict[str, Any]:
        """The first steps: seconds of the first one, and all losses."""
        contender, step = self._names
        set_precision(contender, self._tf32)
        self._contender = CONTENDERS[contender](ON_CUDA[step]())
        self._contender.begin(steps)
        return {"first": self._contender.first_call, "losses": self._contender.losses}

    def measure(self, every: int, steps: int) -> float:
        """Microseconds of a step in one round."""
        return self._contender.measure(every, steps)


def set_precision(contender: str, tf32: bool) -> None:
    """Allow TF32 for products of float32, or not."""
    if contender == "jax":
        import jax

        jax.config.update("jax_default_matmul_precision", "tensorfloat32" if tf32 else "highest")
        return
    library: Any = cf
    if contender.startswith("torch"):
        import torch

        library = torch
    library.set_float32_matmul_precision("high" if tf32 else "highest")


def measure(name: str, contenders: list[str], precision: str, steps: int) -> dict[str, Any]:
    """All contenders of a step, in turns."""
    rows: dict[str, Any] = {}
    times: dict[str, dict[int, list[float]]] = {}
    with ExitStack() as stack:
        children: dict[str, Child] = {}
        for key in contenders:
            if key.endswith("eager") and name != "gpt":
                continue  # what an op costs is the subject of another table
            command = ("benchmarks.cuda", "--serve", key, name, precision)
            child = stack.enter_context(Child(key, "-m", *command))
            try:
                rows[key] = child.ask("begin", 12, timeout=TIMEOUT)
            except ChildError as error:
                print(f"{name}: {error}", file=sys.stderr)
                continue
            children[key], times[key] = child, {every: [] for every in EVERY}
        for _ in range(ROUNDS):
            for every in EVERY:
                for key, child in children.items():
                    times[key][every].append(child.ask("measure", every, steps, timeout=TIMEOUT))
    for key, found in times.items():
        medians = {str(e): round(statistics.median(t), 1) for e, t in found.items()}
        least = {str(e): round(min(t), 1) for e, t in found.items()}
        losses, first_call = rows[key]["losses"], rows[key]["first"]
        rows[key] = {"median": medians, "least": least, "first": round(first_call, 2),
                     "losses": losses}  # fmt: skip
        shown = "  ".join(f"every {e}: {m:9.1f}" for e, m in medians.items())
        print(f"{name:8} {precision:8} {key:26} {shown}   first call {first_call:6.2f} s"
              f"   loss {losses[0]:.6f} -> {losses[-1]:.6f}", flush=True)  # fmt: skip
    return {"step": name, "precision": precision, "rows": rows}


def main() -> None:
    """Measure what the command line asks for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("steps", nargs="*", default=["small", "mlp", "gpt", "ewise"])
    parser.add_argument("--with", dest="contenders", nargs="*", default=list(CONTENDERS))
    parser.add_argument("--precision", nargs="*", default=["TF32", "float32"])
    parser.add_argument("--count", type=int, default=200, help="steps of a round")
    parser.add_argument("--json", help="a file for the figures")
    parser.add_argument("--serve", nargs=3, help="be the process of a contender at a step")
    given = parser.parse_args()
    np.seterr(all="ignore")
    if given.serve:
        served = Served(*given.serve)
        serve({"begin": served.begin, "measure": served.measure})
        return
    results = [
        measure(name, given.contenders, precision, given.count)
        for name in given.steps
        for precision in given.precision
    ]
    if given.json:
        with open(given.json, "w", encoding="utf-8") as file:
            json.dump(results, file, indent=1)


if __name__ == "__main__":
    main()
