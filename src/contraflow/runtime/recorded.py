"""Pure functions of tensors, recorded on stand-ins: what eager programs and routines are made of.

The recorder is imported when the first function is recorded.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from contraflow import config, devices, threads, thresholds
from contraflow.errors import CaptureError
from contraflow.graph.recompute import recomputation
from contraflow.operation import core
from contraflow.operation.context import changed, device_of, other_devices
from contraflow.operation.op import Op
from contraflow.shapes import View, contiguous, numel
from contraflow.spec import Params, Spec
from contraflow.tensors.host_scalar import HostScalar
from contraflow.tensors.storage import Storage
from contraflow.tensors.tensor import Tensor

if TYPE_CHECKING:
    from contraflow.contexts.record import Recorder
    from contraflow.contexts.recording import Recording


def is_worth_a_program(inputs: Sequence[Any], least: int) -> bool:
    """Whether a call on these inputs may be worth a program: on the cpu one on this many elements
    at least, on other devices any."""
    if other_devices and place(inputs) != "cpu":
        return True
    total = 0
    for x in inputs:
        if isinstance(x, Tensor) and x.layout.shape:
            total += numel(x.layout.shape)
            if total >= least:
                break
    return total >= least and config.eager_kernels


def place(inputs: Sequence[Any]) -> str:
    """The device on which a function of these inputs is computed."""
    return (device_of(inputs) or devices.current()) if other_devices else "cpu"


class ResultView(NamedTuple):
    """A result that is a view: of a value of the tape, or of an input, by its index."""

    source: Any
    layout: View


class Recorded(NamedTuple):
    """A pure function that was run once on stand-ins for tensors."""

    recording: Recording
    standins: list[Any]  # in place of the inputs
    results: list[Spec | ResultView | int | None]  # the source of each: see `_describe`
    made: tuple[Any, ...]  # the results, whose graph leads to the stand-ins
    values: Callable[[Tensor], Any]  # gives the value that a tensor of the recording shows


def recorded(
    name: str, function: Callable[..., Any], inputs: Sequence[Any], device: str = "cpu",
    numbers: Mapping[int, HostScalar] = {}, needs: Sequence[int] = (), views: bool = False,
    small: bool = False,
) -> Recorded:  # fmt: skip
    """Record a pure function. Host scalars stand for `numbers`, by position; with a graph if some
    inputs are in `needs`, their positions. With `views` results may be views. If it is `small`, no
    composite in it may be a program, and other results are not copied."""
    standins = [_standin(x) if isinstance(x, Tensor) else x for x in inputs]
    for i in needs:
        standins[i]._needs = True
    recorder = _recorder(name, [x for x in standins if isinstance(x, Tensor)])
    if small:
        recorder.fused = _refuse_large  # type: ignore[method-assign]
    for i, cell in numbers.items():
        standins[i] = recorder.read_scalar(cell)
    plain = {"context": recorder, "saved_hooks": (), "region": 0, "line": None, "device": device}
    try:
        with changed(**plain, grad=bool(needs)):
            found = function(*standins)
            made = tuple(found) if isinstance(found, (tuple, list)) else (found,)
            with changed(grad=False):
                results = [_describe(recorder, r, standins, views, small) for r in made]
            recording = recorder.finish()
    finally:
        try:
            recorder.restore()
        except KeyboardInterrupt:  # it must be done all the same
            recorder.restore()
            raise
    if recording.advances or recording.reseeds or (recording.writers and device == "cpu"):
        raise CaptureError(f"{name} has effects")
    recording.tape.device = device
    return Recorded(recording, standins, results, made, recorder.value_at_end)


def _refuse_large(op: Op, inputs: tuple[Any, ...], params: Params, as_node: bool) -> None:
    """Stands for `OpContext.fused` where it must give None."""
    if is_worth_a_program(inputs, thresholds.eager_composite):
        raise CaptureError(f"{op.name} is a program of its own")


def inputs_read_by_backward(
    op: Op, params: Params, specs: Sequence[Spec | None], needs: tuple[bool, ...], device: str
) -> tuple[int, ...]:
    """The inputs of a composite whose elements its gradients depend on: recorded, never run."""
    recorder = _recorder(op.name, [])
    given = [None if spec is None else recorder.placeholder(spec, device) for spec in specs]
    values = [None if x is None else recorder.value_at_end(x) for x in given]
    try:
        plain = {"grad": False, "saved_hooks": (), "region": 0, "line": None}
        with changed(context=recorder, device=device, **plain):
            made = op.body(*given, **params)
            outs = made if isinstance(made, tuple) else (made,)
            cotangents = [recorder.placeholder(out.spec) for out in outs]
            bound = recomputation(needs, tuple(range(len(specs))))
            grads = bound.run(op, [*cotangents, *given], params, specs)
            read: set[Any] = {recorder.value_at_end(g) for g in grads if g is not None}
    except CaptureError:
        return tuple(range(len(specs)))
    finally:
        recorder.restore()
    for line in reversed(recorder.tape.lines):
        if not read.isdisjoint(line.outs):
            read.update(line.inputs)  # numbers too, which equal no value
    return tuple(i for i, value in enumerate(values) if value in read)


def _recorder(name: str, inputs: Sequence[Tensor]) -> Recorder:
    made: Recorder = threads.imported("contraflow.contexts.record").Recorder(name, inputs)
    return made


def _standin(x: Tensor) -> Tensor:
    """A tensor like `x` at the start of a storage of its own, whose elements nobody reads."""
    shape = x.layout.shape
    layout = contiguous(shape) if x.layout.is_contiguous else x.layout._replace(offset=0)
    flat = np.broadcast_to(np.zeros((), x.dtype.numpy), (layout.extent()[1],))
    return Tensor.of_storage(Storage(flat, x.storage.device), layout, x.dtype)


def _describe(
    recorder: Recorder, result: Any, standins: Sequence[Any], views: bool, small: bool
) -> Spec | ResultView | int | None:
    """The source of a result: the next output of the program, a view, the index of an input, or
    nothing."""
    if result is None:
        return None
    for i, x in enumerate(standins):
        if x is result:
            return i
    if not result.storage.is_recorded:
        for i, x in enumerate(standins):
            if views and isinstance(x, Tensor) and x.storage is result.storage:
                return ResultView(i, result.layout)
        raise CaptureError("a view of an input costs nothing as it is")
    tape = recorder.tape
    shape = result.layout.shape
    value = recorder.value_at_end(result)
    whole = numel(tape.specs[value].shape) == numel(shape) and result.layout == contiguous(shape)
    if not whole and views:
        return ResultView(value, result.layout)
    if not whole and small:
        raise CaptureError("a view is the result")
    if not whole or value in tape.outputs or value in tape.inputs:
        value = recorder.value_at_end(core.clone(result))
    tape.outputs.append(value)
    return Spec(shape, result.dtype)
