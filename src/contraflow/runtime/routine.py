"""Recorded functions that are compiled, and run on tensors like those that they were recorded with.

The compiler is imported when the first of them is compiled.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from contraflow import threads
from contraflow.devices.cpu import memory
from contraflow.devices.failures import LateFailure, fits, overflow
from contraflow.dtypes import DType, int64
from contraflow.errors import CaptureError
from contraflow.operation.context import state
from contraflow.runtime.recorded import recorded
from contraflow.spec import Spec
from contraflow.tensors.host_scalar import HostScalar
from contraflow.tensors.source_line import OWNERS, UserLine, at, user_line
from contraflow.tensors.storage import Storage
from contraflow.tensors.tensor import Tensor

if TYPE_CHECKING:
    from contraflow.compiler.tape import Tape
    from contraflow.runtime.executable import Native


class Routine:
    """A recorded function, ready to run on tensors like those it was recorded with."""

    def __init__(
        self, name: str, function: Callable[..., Any], inputs: Sequence[Any], repeats: bool = False,
        device: str = "cpu", is_open: bool = False,
    ) -> None:  # fmt: skip
        """Record a function. If its backward `repeats` it, one that is much work is refused. If it
        `is_open`, numbers among the inputs may differ from run to run."""
        self.device = device
        self._numbers: list[int] = []
        if is_open:
            self._numbers = [i for i, x in enumerate(inputs) if type(x) in (int, float)]
        cells = [HostScalar(inputs[i]) for i in self._numbers]
        numbers = dict(zip(self._numbers, cells))
        recording, _, self._results, *_ = recorded(name, function, inputs, device, numbers)
        self.makes_all = all(isinstance(result, Spec) for result in self._results)
        self.count = len(self._results)
        positions = [i for i, x in enumerate(inputs) if isinstance(x, Tensor)]
        writes = bool(recording.writers)
        if not recording.tape.outputs and not writes:
            raise CaptureError(f"{name} computes nothing")
        if repeats and any(line.op.is_costly for line in recording.tape.lines):
            raise CaptureError(f"{name} is too much work to do it twice")
        executable = self.executable = _native(recording.tape)
        hosted = executable.scalar_outputs and device == "cpu"
        if hosted or executable.has_host_steps:
            raise CaptureError(f"{name} runs on the host in part")
        self._run, self._locate = executable.program.run, executable.locate
        self._words = (executable.constant_prologue or ((), ()))[1]
        self._has_prologue = executable.constant_prologue is None or executable.scalar_outputs
        self._fails_late = executable.is_asynchronous and executable.may_fail
        # Per input of the tape: the index of an argument, or a storage that the function made.
        found_in = [recording.sources[v] for v in executable.inputs.arrays]
        self._sources = [
            positions[source.argument] if source.constant is None else source.constant
            for source in found_in
        ]
        # Per host scalar of the tape: the index of the argument that it is.
        order = {id(cell): i for cell, i in zip(cells, self._numbers)}
        read = [recording.sources[v].cell for v in executable.inputs.scalars]
        self._scalars = [order[id(cell())] for cell in read if cell is not None]

    def run(self, inputs: Sequence[Any]) -> list[Any]:
        """The results as tensors; those that are inputs are the inputs themselves."""
        addresses: list[int] = []
        for source in self._sources:
            if isinstance(source, Storage):
                storage, start = source, 0
            else:
                x: Tensor = inputs[source]
                storage, start = x.storage, x.layout.offset
                if start:
                    start *= x.dtype.itemsize
            addresses.append((storage.address or self._locate(storage)) + start)
        if self.device != "cpu":
            return self._run_there(inputs, addresses)
        results: list[Any] = []
        for result in self._results:
            if isinstance(result, Spec):
                array, address = memory.room(result.shape, result.dtype.numpy)
                out = Tensor.of_array(array)
                out.storage.address = address or self._locate(out.storage)
                addresses.append(out.storage.address)
                results.append(out)
            else:  # the index of an input, or None
                results.append(inputs[result] if isinstance(result, int) else None)
        self._run(addresses, self._words)
        return results

    def _run_there(self, inputs: Sequence[Any], addresses: list[int]) -> list[Any]:
        """The same on another device than the cpu, with inputs at these addresses."""
        words = self._words
        numbers: dict[int, Any] = {}  # outputs of the tape that the host computes
        if self._has_prologue:
            numbers, words = self._host_numbers(inputs)
        device, name = self.executable.device, self.device
        allocate, address_of = device.allocate, device.address
        results: list[Any] = []
        made = 0  # outputs of the tape so far
        for result in self._results:
            if not isinstance(result, Spec):
                results.append(inputs[result] if isinstance(result, int) else None)
                continue
            if made in numbers:
                buffer = self._uploaded(numbers[made], result.dtype)
                out = Tensor.of_buffer(buffer, name)
            else:
                buffer = allocate(result.shape, result.dtype)
                out = Tensor.of_buffer(buffer, name)
                address = out.storage.address = address_of(buffer)
                addresses.append(address)
            results.append(out)
            made += 1
        late = None
        if self._fails_late:
            for out, result in zip(results, self._results):
                if isinstance(result, Spec):
                    out.storage.unchecked = True
            late = LateFailure(partial(self.executable.with_line, called=self._called()))
        try:
            self._run(addresses, words, late)
        except IndexError as error:  # of a number among the words too, which does not fit
            raise self.executable.problem(error, self._called()) from None
        return results

    def _called(self) -> UserLine | None:
        """The user's line, and what it called: the op that this is, and no part of it."""
        called = state().line or user_line()
        whole = self.executable.tape.name
        if called is not None and called.called is None and whole in OWNERS:
            called = called._replace(called=whole)
        return called

    def _uploaded(self, number: int | float, dtype: DType) -> Any:
        """A buffer with a number of the host, which is refused as kernels refuse it."""
        device = self.executable.device
        bits = device.limits.int64_bits
        if dtype is int64 and not fits(int(number), bits):
            called = self._called()
            name = (called and called.op) or self.executable.tape.name
            raise OverflowError(f"{name}: {overflow(device.name, bits)},{at(called)}.")
        return device.upload(np.array(number, dtype.numpy))

    def _host_numbers(
        self, inputs: Sequence[Any]
    ) -> tuple[dict[int, Any], tuple[int | float, ...]]:
        """The outputs of the tape that are computed from numbers among the inputs, by position, and
        words for kernels."""
        executable = self.executable
        found = executable.constant_prologue
        known, words = found or executable.prepare([inputs[i] for i in self._scalars])
        return dict(zip(sorted(executable.scalar_outputs), known)), words


def _native(tape: Tape) -> Native:
    made: Native = threads.imported("contraflow.runtime.executable").Native(tape)
    return made
