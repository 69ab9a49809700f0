"""Executables: a tape made ready to run, by the interpreter or as a program of a device.

Host scalars never reach a device as tensors: lines that depend on nothing else run before each
replay, in Python and float64, and kernels get their results as arguments.
"""

from __future__ import annotations

from collections.abc import Sequence
from sys import getrefcount
from time import perf_counter
from typing import Any, Protocol

import numpy as np

from contraflow import config, devices
from contraflow.fuse import fuse
from contraflow.interpret import run_tape
from contraflow.lower import Fused
from contraflow.passes import host_values, optimize
from contraflow.plan import HostStep, make_plan
from contraflow.render import python
from contraflow.spec import Spec
from contraflow.tape import Tape, Value


class Executable(Protocol):
    """A tape that can run."""

    temporary_bytes: int
    times: dict[str, float]  # milliseconds that each stage of its making took

    def run(self, arrays: Sequence[Any], scalars: Sequence[int | float]) -> list[Any]:
        """Compute the outputs; inputs that the tape writes to are overwritten.

        `arrays` holds the flat data of the inputs that are not host scalars, in tape order.
        """

    @property
    def kernels(self) -> list[str]:
        """The names of the generated kernels that run, in order."""

    def explain(self) -> list[str]:
        """What runs, line by line."""


def load(tape: Tape, device: str = "cpu") -> Executable:
    """Make a tape ready to run, as the configuration says."""
    if config.compile_mode == "interpret":
        return Interpreted(tape)
    return Native(tape, device)


class _Clock:
    """Notes how long the stages of something took, one after the other."""

    def __init__(self, times: dict[str, float]) -> None:
        self._times, self._last = times, perf_counter()

    def note(self, stage: str) -> None:
        """A stage is over."""
        now = perf_counter()
        self._times[stage] = (now - self._last) * 1e3
        self._last = now


class _Inputs:
    """The inputs of a tape, host scalars apart."""

    def __init__(self, tape: Tape) -> None:
        self.scalars = [v for v, role in tape.inputs.items() if role == "scalar"]
        self.arrays = [v for v, role in tape.inputs.items() if role != "scalar"]


class Interpreted:
    """A tape run line by line over NumPy."""

    def __init__(self, tape: Tape) -> None:
        self.tape = tape
        self.inputs = _Inputs(tape)
        self.temporary_bytes = 0
        self.times: dict[str, float] = {}

    def run(self, arrays: Sequence[Any], scalars: Sequence[int | float]) -> list[Any]:
        """Compute everything, then write."""
        given: dict[Value, Any] = dict(zip(self.inputs.scalars, scalars))
        for value, flat in zip(self.inputs.arrays, arrays):
            given[value] = flat.reshape(self.tape.specs[value].shape)
        results = run_tape(self.tape, given)
        outputs = [np.array(results[v]) for v in self.tape.outputs]
        written = {k: np.array(results[v]) for k, v in self.tape.writes.items()}
        for value, array in written.items():
            np.copyto(given[value], array)
        return outputs

    @property
    def kernels(self) -> list[str]:
        """None: nothing is generated."""
        return []

    def explain(self) -> list[str]:
        """One row."""
        return [f"interpreted: {len(self.tape.lines)} lines over NumPy"]


class _Room:
    """Arrays for one output: one of the last two, if nobody holds it any more, else a new one.

    Memory that was written before is faster to write than memory the system has yet to give.
    """

    def __init__(self, spec: Spec, recycles: bool) -> None:
        self._spec, self._recycles = (spec.shape, spec.dtype.numpy), recycles
        self._last: list[np.ndarray] = []

    def take(self) -> np.ndarray:
        """An array whose elements nobody needs."""
        for array in self._last:
            if getrefcount(array) == _UNUSED:
                return array
        array = np.empty(*self._spec)
        if self._recycles:
            self._last = [*self._last[-1:], array]
        return array


def _count_when_unused() -> int:
    for array in [np.empty(0)]:
        return getrefcount(array)
    raise AssertionError


_UNUSED = _count_when_unused()


class Native:
    """A tape as a program of generated kernels, with its host prologue.

    One that `recycles` gives out again the memory of results that were dropped.
    """

    def __init__(self, tape: Tape, device: str, recycles: bool = True) -> None:
        self.device = devices.lookup(device)
        self.times: dict[str, float] = {}
        clock = _Clock(self.times)
        self.tape = optimize(tape)
        host = host_values(self.tape)
        self.inputs = _Inputs(self.tape)
        clock.note("passes")
        self.fused: Fused = fuse(self.tape, host, self.device.limits)
        clock.note("fuse")
        self.plan, self.words = make_plan(self.tape, self.fused, host, self.device.limits)
        clock.note("plan")
        self.program = self.device.load(self.plan)
        clock.note("compile")
        self.temporary_bytes = self.plan.arena_bytes
        specs = self.tape.specs
        self.outputs = [None if v in host else _Room(specs[v], recycles) for v in self.tape.outputs]
        lines = [x for x in self.tape.lines if host.issuperset(x.outs)]
        # What the prologue gives: host values that are outputs, then those kernels take.
        self.host_outputs = [
            (i, specs[v].dtype.numpy) for i, v in enumerate(self.tape.outputs) if v in host
        ]
        self.host_words = [i for i, w in enumerate(self.words) if isinstance(w, Value)]
        wanted = [v for v in self.tape.outputs if v in host]
        wanted += [w for w in self.words if isinstance(w, Value)]
        self.prologue = python.compile_prologue(python.render(self.tape, lines, wanted))
        self.kinds = [float if d.is_floating_point else int for d in self.plan.scalar_dtypes]

    def run(self, arrays: Sequence[Any], scalars: Sequence[int | float]) -> list[Any]:
        """Prologue, then one replay."""
        known = iter(self.prologue(scalars))
        outputs: list[Any] = [None if room is None else room.take() for room in self.outputs]
        for i, dtype in self.host_outputs:
            outputs[i] = np.array(next(known), dtype)
        words: list[Any] = list(self.words)
        for i in self.host_words:
            words[i] = self.kinds[i](next(known))
        fresh = [o for o, room in zip(outputs, self.outputs) if room is not None]
        try:
            self.program.replay([*arrays, *fresh], words)
        except IndexError as error:
            raise self._located(error) from None
        return outputs

    def _located(self, error: IndexError) -> Exception:
        number = getattr(error, "line", None)
        if number is None:
            return error
        line = self.tape.lines[number]
        kind, text = line.op.extra.get("fails", (IndexError, error))
        found: Exception = kind(f"{line.op.name}: {text}, at {line.line}.")
        return found

    @property
    def kernels(self) -> list[str]:
        """The names of the kernels, in order."""
        steps = self.plan.steps
        return [step.call.kernel.name for step in steps if not isinstance(step, HostStep)]

    def explain(self) -> list[str]:
        """Kernels and host segments, in order."""
        rows = []
        for step in self.plan.steps:
            if isinstance(step, HostStep):
                rows.append(f"host    {step.name}")
            else:
                rows.append(f"kernel  {step.call.kernel.name} over {list(step.call.sizes)}")
        return rows
