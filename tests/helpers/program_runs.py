"""The ways to run a random training step, and the differences between two of them."""

from __future__ import annotations

import ctypes
import dataclasses
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
from tests.helpers.random_programs import Program

import contraflow as cf
from contraflow import config, thresholds
from contraflow.compiler.interpret import run_call
from contraflow.compiler.plan import HostStep, Plan, Slot
from contraflow.devices.cpu.device import CpuDevice
from contraflow.runtime import executable

CALLS = 3

# Against eager, relative to the largest element: programs are a dozen ops long.
# Half-precision programs cancel what they rounded, so with them only gross errors are found.
CLOSE = {cf.float64: 1e-9, cf.float32: 3e-4, cf.bfloat16: 0.25, cf.float16: 0.05}
DEFAULT = ("zeros", "ones", "full", "arange", "tensor")  # what these make is float32
HUGE = 1e4  # trigonometric functions of what is larger magnify the errors of a call in the next


class PlanRun:
    """A plan run by NumPy, kernel by kernel: what fusion and planning mean, without a renderer."""

    def __init__(self, plan: Plan, contracts: int | None) -> None:
        self.plan, self.contracts = plan, contracts

    def replay(self, buffers: Sequence[Any], scalars: Sequence[Any]) -> None:
        # What the arena holds at first is nobody's business.
        arena = np.full(self.plan.arena_bytes + 64, 0xA5, np.uint8)
        given = iter(buffers)
        slots = [
            self._temporary(slot, arena) if slot.kind == "temp" else next(given).reshape(-1)
            for slot in self.plan.slots
        ]
        for step in self.plan.steps:
            if isinstance(step, HostStep):
                outs = step.run(*(slots[i].reshape(step.shapes[i]) for i in step.reads))
                for i, out in zip(step.writes, outs, strict=True):
                    slots[i][...] = np.asarray(out).reshape(-1)
                continue
            bound = [
                (None, b.offset) if o.mode in ("scalar", "position") else (slots[b.slot], b.offset)
                for o, b in zip(step.call.kernel.operands, step.bindings)
            ]
            run_call(step.call, bound, scalars, self.contracts)

    def run(self, addresses: Sequence[int], scalars: Sequence[Any], late: Any = None) -> None:
        self.addresses = list(addresses)
        self.rerun(scalars)

    def put(self, number: int, address: int) -> None:
        self.addresses[number] = address

    def rerun(self, scalars: Sequence[Any]) -> None:
        slots = [slot for slot in self.plan.slots if slot.kind != "temp"]
        self.replay([self._given(slot, at) for slot, at in zip(slots, self.addresses)], scalars)

    @staticmethod
    def _given(slot: Slot, address: int) -> np.ndarray:
        memory = (ctypes.c_char * slot.nbytes).from_address(address)
        return np.ndarray((slot.numel,), slot.dtype.numpy, memoryview(memory))

    @staticmethod
    def _temporary(slot: Slot, arena: np.ndarray) -> np.ndarray:
        return arena[slot.offset : slot.offset + slot.nbytes].view(slot.dtype.numpy)


class PlanDevice(CpuDevice):
    """The cpu, whose plans NumPy runs; its arithmetic may be inexact (`run_call`)."""

    def __init__(self, contracts: int | None) -> None:
        super().__init__()
        self.limits = self.limits._replace(exact=contracts is None)
        self.contracts = contracts

    def load(self, plan: Plan) -> Any:
        return PlanRun(plan, self.contracts)


@contextmanager
def mode(name: str) -> Iterator[None]:
    """Run as `name` says: eager, the same over NumPy alone, or compiled.

    Compiled is: interpret, which is over NumPy alone too; plan; inexact, a plan whose products and
    sums are contracted here and there; native; or native with threads for all.
    """
    before = config.compile_mode, config.eager_kernels
    load, sizes = executable.load, {}
    ways = {"eager": "off", "numpy": "off", "interpret": "interpret"}
    config.compile_mode = ways.get(name, "native")
    config.eager_kernels = name not in ("numpy", "interpret")
    if name in ("plan", "inexact", "threads"):
        sizes["narrow_rows"] = 2  # values are small here
    if name == "threads":
        sizes["cpu_shared_work"] = 0
    if name in ("plan", "inexact"):
        device = PlanDevice(0 if name == "inexact" else None)
        executable.load = lambda tape: executable.Native(tape, device)
    try:
        with thresholds.using(**sizes):
            yield
    finally:
        config.compile_mode, config.eager_kernels = before
        executable.load = load


Record = list[tuple[str, Any]]


def run(program: Program, name: str, calls: int = CALLS) -> Record:
    """Everything a program's calls leave behind, by name, call after call."""
    scope: dict[str, Any] = {}
    exec(compile(program.source, f"<program {program.seed}>", "exec"), scope)
    step: Callable[..., Any] = cf.compile(scope["step"])
    found: Record = []
    for call in range(calls):
        arguments = scope["arguments"]()  # the same numbers in every mode
        with mode(name):
            results = step(*arguments)
        found += [(f"{call}: result {i}", _data(r)) for i, r in enumerate(results)]
        found += [(f"{call}: argument {i}", _data(a)) for i, a in enumerate(arguments)]
        for n in sorted(scope):
            x = scope[n]
            if isinstance(x, cf.Tensor):
                found.append((f"{call}: {n}", _data(x)))
                found.append((f"{call}: {n}.grad", None if x.grad is None else _data(x.grad)))
        found.append((f"{call}: random", cf.get_rng_state()))
    if name not in ("eager", "numpy"):
        # One for gradients that are None at first, one for those that are there.
        assert step.captures <= 2, f"{step.captures} captures"
    return found


def nudged(program: Program) -> Program:
    """The same program with parameters that are moved by one or two units in the last place."""
    end, moved = ".requires_grad_()", f".mul_(1 + {2.0**-23}).requires_grad_()"
    return dataclasses.replace(program, state=[line.replace(end, moved) for line in program.state])


def _data(x: Any) -> np.ndarray:
    return np.array(x.detach().array)


def differences(
    program: Program, actual: Record, expected: Record, exact: bool = False
) -> list[str]:
    """What differs, as sentences."""
    # Values may have come through any dtype the program names.
    tolerance = max(t for dtype, t in CLOSE.items() if f"cf.{dtype}" in program.source)
    if any(f" = cf.{made}(" in program.source for made in DEFAULT):
        tolerance = max(tolerance, CLOSE[cf.float32])
    problems = []
    call, grown = "0:", tolerance > 0.01
    for (name, a), (_, b) in zip(actual, expected, strict=True):
        if not exact and not name.startswith(call):
            if grown:
                break  # parameters in half precision, or huge, soon differ by their own size
            call = name[:2]
        if not isinstance(a, np.ndarray) or not isinstance(b, np.ndarray):
            if isinstance(a, np.ndarray) or isinstance(b, np.ndarray) or a != b:
                problems.append(f"{name}: {a!r:.60} is not {b!r:.60}")
        elif (a.shape, a.dtype) != (b.shape, b.dtype):
            problems.append(f"{name}: {a.dtype}{a.shape} is not {b.dtype}{b.shape}")
        elif exact:
            if a.tobytes() != b.tobytes():
                problems.append(f"{name}: {a!r} is not {b!r}")
        elif a.size:
            wide, reference = a.astype(np.float64), b.astype(np.float64)
            finite = np.isfinite(reference)
            scale = 1 + np.abs(reference[finite]).max(initial=0)
            grown |= bool(scale > HUGE)
            close = max(tolerance, CLOSE.get(cf.from_numpy(b).dtype, 0.0))
            allowed = 0.0 if b.dtype.kind in "biu" else close * scale
            if not np.allclose(wide, reference, 0, allowed, equal_nan=True):
                with np.errstate(invalid="ignore"):
                    worst = np.nanmax(np.abs(wide - reference))
                problems.append(f"{name}: off by {worst:.3g}, allowed {allowed:.3g}")
    return problems
