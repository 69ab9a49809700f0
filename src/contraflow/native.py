"""Large eager ops as generated kernels.

A pure function of tensors (an op, the body of a composite, the gradient rules of a node) is
recorded once for each set of shapes, strides and dtypes, and from then on runs as one program: a
composite is one fused kernel, and so is its gradient. Small tensors are not worth the start of a
program; for them NumPy is faster.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from contraflow import config, engine
from contraflow.dispatch import changed
from contraflow.dtypes import get_default_dtype
from contraflow.errors import CaptureError
from contraflow.executable import Native
from contraflow.op import REGISTRY
from contraflow.plan import HostStep
from contraflow.record import Recorder
from contraflow.shapes import Shape, contiguous, numel
from contraflow.storage import Block, Storage
from contraflow.structure import exact
from contraflow.tensor import Tensor

SMALL = engine.SMALL  # elements; an op on fewer of them is done before a program has started
COMPOSITE = 1 << 9  # the same for composites, which are several ops
CAPACITY = 2048  # routines that are kept

Function = Callable[..., Any]

_MUCH_WORK = ("contract", "opaque")


def is_large(inputs: Sequence[Any], least: int) -> bool:
    """Whether a call on these inputs may be worth a program: on this many elements, at least."""
    total = 0
    for x in inputs:
        if isinstance(x, Tensor) and x.layout.shape:
            total += numel(x.layout.shape)
    return total >= least and config.eager_kernels


class Routine:
    """A recorded function, ready to run on tensors like those it was recorded with."""

    def __init__(
        self, name: str, function: Function, inputs: Sequence[Any], repeats: bool = False
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
            recorder.restore()
        if recording.advances or recording.reseeds or recording.written:
            raise CaptureError(f"{name} has effects")
        if not recorder.tape.outputs:
            raise CaptureError(f"{name} computes nothing")
        lines = recorder.tape.lines
        if repeats and any(line.op.kind.lowering in _MUCH_WORK for line in lines):
            raise CaptureError(f"{name} is too much work to do it twice")
        recorder.tape.verify()
        self._executable = Native(recorder.tape, "cpu", recycles=False)
        if any(isinstance(step, HostStep) for step in self._executable.plan.steps):
            raise CaptureError(f"{name} runs on the host in part")
        # Per input of the tape: the number of an argument, or a storage that the function made.
        self._sources = [
            numbers[source.argument] if source.constant is None else source.constant
            for source in recording.sources.values()
        ]

    def run(self, inputs: Sequence[Any]) -> list[Any]:
        """The results as tensors; those that are inputs are the inputs themselves."""
        locate = self._executable.locate
        addresses: list[int] = []
        for source in self._sources:
            if isinstance(source, Storage):
                storage, start = source, 0
            else:
                x: Tensor = inputs[source]
                storage, start = x.storage, x.layout.offset * x.dtype.itemsize
            addresses.append((storage.address or locate(storage)) + start)
        blocks = self._executable.compute(addresses, ())
        return [None if result is None else result.get(inputs, blocks) for result in self._results]


class Same(NamedTuple):
    """A result that is one of the inputs."""

    number: int

    def get(self, inputs: Sequence[Any], outputs: Sequence[Block]) -> Tensor:
        """The tensor in this call."""
        same: Tensor = inputs[self.number]
        return same


class Computed(NamedTuple):
    """A result that is one of the program's outputs."""

    number: int
    shape: Shape

    def get(self, inputs: Sequence[Any], outputs: Sequence[Block]) -> Tensor:
        """The tensor in this call."""
        block = outputs[self.number]
        array = block.array
        out = Tensor.of_array(array if array.shape == self.shape else array.reshape(self.shape))
        out.storage.address = block.address
        return out


def _standin(x: Tensor) -> Tensor:
    """A tensor like `x` at the start of a storage of its own, whose elements nobody reads."""
    shape = x.layout.shape
    layout = contiguous(shape) if x.layout.is_contiguous else x.layout._replace(offset=0)
    flat = np.broadcast_to(np.zeros((), x.dtype.numpy), (layout.extent()[1],))
    return Tensor.of_storage(Storage(flat), layout, x.dtype)


def _describe(recorder: Recorder, result: Any, standins: Sequence[Any]) -> Same | Computed | None:
    if result is None:
        return None
    for i, x in enumerate(standins):
        if x is result:
            return Same(i)
    if not result.storage.is_recorded:
        raise CaptureError("a view of an input costs nothing as it is")
    tape = recorder.tape
    shape = result.layout.shape
    value = recorder.value_at_end(result)
    whole = numel(tape.specs[value].shape) == numel(shape) and result.layout == contiguous(shape)
    if not whole or value in tape.outputs or value in tape.inputs:
        value = recorder.value_at_end(REGISTRY["clone"](result))
    tape.outputs.append(value)
    return Computed(len(tape.outputs) - 1, shape)


# --- finding routines --------------------------------------------------------------------------

_routines: OrderedDict[Any, Routine | str] = OrderedDict()  # or why there is none
_lock = threading.Lock()


def call(name: str, key: Any, function: Function, inputs: Sequence[Any]) -> list[Any] | None:
    """The results of a pure function of tensors and numbers, or None where NumPy does as well.

    `key` says which function it is, with everything static that it depends on.
    """
    routine = find(name, key, function, inputs)
    return None if routine is None else run(routine, inputs)


def find(
    name: str, key: Any, function: Function, inputs: Sequence[Any], repeats: bool = False
) -> Routine | None:
    """The routine of a function, made when it is first asked for; None where there is none."""
    described: list[Any] = []
    for x in inputs:
        if isinstance(x, Tensor):
            described.append((x.layout.shape, x.layout.strides, x.dtype))
        elif x is None:
            described.append(None)
        else:  # numbers may be others at every call, and NumPy takes them as they come
            return None
    full = (name, key, config.num_threads, get_default_dtype(), *described)
    try:
        routine = _routines.get(full)
    except TypeError:  # a parameter that is not hashable
        return None
    if routine is None:
        routine = _prepare(full, name, function, inputs, repeats)
    return None if isinstance(routine, str) else routine


def run(routine: Routine, inputs: Sequence[Any]) -> list[Any] | None:
    """The results of a routine; None where the op, done in another way, says what is wrong."""
    try:
        return routine.run(inputs)
    except (IndexError, ZeroDivisionError):
        return None


def _prepare(
    full: Any, name: str, function: Function, inputs: Sequence[Any], repeats: bool
) -> Routine | str:
    try:
        routine: Routine | str = Routine(name, function, inputs, repeats)
    except CaptureError as error:
        routine = str(error)
    with _lock:
        _routines[full] = routine
        if len(_routines) > CAPACITY:
            _routines.popitem(last=False)
    return routine


def exactly(params: Mapping[str, Any]) -> Any:
    """Static parameters as a key: 1, 1.0 and True differ, and so do 0.0 and -0.0."""
    return tuple([(k, type(v), exact(v)) for k, v in params.items()])
