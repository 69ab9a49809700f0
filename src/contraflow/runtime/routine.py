"""Routines: pure functions of tensors, recorded once and run as programs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from contraflow.compiler.plan import HostStep
from contraflow.compiler.tape import Value
from contraflow.contexts.record import Recorder
from contraflow.devices.cpu import memory
from contraflow.errors import CaptureError
from contraflow.graph.recompute import retraced
from contraflow.operation.context import changed
from contraflow.operation.op import REGISTRY, Op
from contraflow.runtime.executable import Native
from contraflow.shapes import contiguous, numel
from contraflow.spec import Params, Spec
from contraflow.tensors.storage import Storage
from contraflow.tensors.tensor import Tensor

_MUCH_WORK = ("contract", "scatter", "scan", "sort", "opaque")


class Routine:
    """A recorded function, ready to run on tensors like those it was recorded with."""

    def __init__(
        self, name: str, function: Callable[..., Any], inputs: Sequence[Any], repeats: bool = False
    ) -> None:
        """Record a function; one whose backward `repeats` it must not be much work."""
        standins = [_standin(x) if isinstance(x, Tensor) else x for x in inputs]
        numbers = [i for i, x in enumerate(standins) if isinstance(x, Tensor)]
        recorder = Recorder(name, [standins[i] for i in numbers])
        try:
            with changed(context=recorder, grad=False, saved_hooks=(), region=0, line=None):
                found = function(*standins)
                results = found if isinstance(found, (tuple, list)) else (found,)
                self._results = [_describe(recorder, r, standins) for r in results]
                recording = recorder.finish()
        finally:
            try:
                recorder.restore()
            except KeyboardInterrupt:  # it must be done all the same
                recorder.restore()
                raise
        if recording.advances or recording.reseeds or recording.written:
            raise CaptureError(f"{name} has effects")
        if not recorder.tape.outputs:
            raise CaptureError(f"{name} computes nothing")
        lines = recorder.tape.lines
        if repeats and any(line.op.kind.lowering in _MUCH_WORK for line in lines):
            raise CaptureError(f"{name} is too much work to do it twice")
        executable = self.executable = Native(recorder.tape, "cpu")
        if executable.numbers or any(isinstance(s, HostStep) for s in executable.plan.steps):
            raise CaptureError(f"{name} runs on the host in part")
        assert executable.fixed is not None, "it has no host scalars"
        self._run, self._words = executable.program.run, executable.fixed[1]
        self._locate = executable.locate
        # Per input of the tape: the number of an argument, or a storage that the function made.
        self._sources = [
            numbers[source.argument] if source.constant is None else source.constant
            for source in recording.sources.values()
        ]

    def run(self, inputs: Sequence[Any]) -> list[Any]:
        """The results as tensors; those that are inputs are the inputs themselves."""
        addresses: list[int] = []
        for source in self._sources:
            if isinstance(source, Storage):
                storage, start = source, 0
            else:
                x: Tensor = inputs[source]
                storage, start = x.storage, x.layout.offset * x.dtype.itemsize
            addresses.append((storage.address or self._locate(storage)) + start)
        results: list[Any] = []
        for result in self._results:
            if isinstance(result, Spec):
                array, address = memory.room(result.shape, result.dtype.numpy)
                out = Tensor.of_array(array)
                out.storage.address = address or self._locate(out.storage)
                addresses.append(out.storage.address)
                results.append(out)
            else:  # the number of an input, or None
                results.append(None if result is None else inputs[result])
        self._run(addresses, self._words)
        return results


def read_back(
    op: Op, params: Params, specs: Sequence[Spec | None], needs: tuple[bool, ...]
) -> tuple[int, ...]:
    """The inputs of a composite whose elements its gradients depend on: recorded, never run."""
    recorder = Recorder(op.name, [])
    given = [None if spec is None else recorder.placeholder(spec) for spec in specs]
    values = [None if x is None else recorder.value_at_end(x) for x in given]
    try:
        with changed(context=recorder, grad=False, saved_hooks=(), region=0, line=None):
            made = op.body(*given, **params)
            outs = made if isinstance(made, tuple) else (made,)
            cotangents = [recorder.placeholder(out.spec) for out in outs]
            plan = retraced(needs, tuple(range(len(specs))))
            grads = plan.run(op, [*cotangents, *given], params, specs)
            read = {recorder.value_at_end(g) for g in grads if g is not None}
    finally:
        recorder.restore()
    for line in reversed(recorder.tape.lines):
        if not read.isdisjoint(line.outs):
            read.update(x for x in line.inputs if isinstance(x, Value))
    return tuple(i for i, value in enumerate(values) if value in read)


def _standin(x: Tensor) -> Tensor:
    """A tensor like `x` at the start of a storage of its own, whose elements nobody reads."""
    shape = x.layout.shape
    layout = contiguous(shape) if x.layout.is_contiguous else x.layout._replace(offset=0)
    flat = np.broadcast_to(np.zeros((), x.dtype.numpy), (layout.extent()[1],))
    return Tensor.of_storage(Storage(flat), layout, x.dtype)


def _describe(recorder: Recorder, result: Any, standins: Sequence[Any]) -> Spec | int | None:
    """What a result is: the next of the program's outputs, an input by its number, or nothing."""
    if result is None:
        return None
    for i, x in enumerate(standins):
        if x is result:
            return i
    if not result.storage.is_recorded:
        raise CaptureError("a view of an input costs nothing as it is")
    tape = recorder.tape
    shape = result.layout.shape
    value = recorder.value_at_end(result)
    whole = numel(tape.specs[value].shape) == numel(shape) and result.layout == contiguous(shape)
    if not whole or value in tape.outputs or value in tape.inputs:
        value = recorder.value_at_end(REGISTRY["clone"](result))
    tape.outputs.append(value)
    return Spec(shape, result.dtype)
