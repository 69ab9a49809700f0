"""Eager calls as programs: large ops, composites and gradients run as generated kernels.

A pure function of tensors (an op, the body of a composite, the gradient rules of a node) is
recorded once for each set of shapes, strides and dtypes, and from then on runs as one program: a
composite is one fused kernel, and so is its gradient. Small tensors are not worth the start of a
program; for them NumPy is faster.

The recorder and the compiler are imported when the first large op needs them.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from contraflow import config, devices, threads, thresholds
from contraflow.devices.cpu import memory
from contraflow.devices.failures import LateFailure
from contraflow.dtypes import get_default_dtype
from contraflow.errors import CaptureError, DeviceError, host_only
from contraflow.graph.recompute import recomputation
from contraflow.operation import core
from contraflow.operation.context import apply, changed, device_of, other_devices, state
from contraflow.operation.op import Op
from contraflow.shapes import contiguous, numel
from contraflow.spec import Params, Spec
from contraflow.tensors.host_scalar import HostScalar
from contraflow.tensors.source_line import user_line
from contraflow.tensors.storage import Storage
from contraflow.tensors.tensor import Tensor
from contraflow.tensors.tree import exact

if TYPE_CHECKING:
    from contraflow.compiler.tape import Tape
    from contraflow.contexts.record import Recorder
    from contraflow.runtime.executable import Native


def is_worth_a_program(inputs: Sequence[Any], least: int) -> bool:
    """Whether a call on these inputs may be worth a program: on the cpu one on this many elements
    at least, on other devices any."""
    if other_devices and _place(inputs) != "cpu":
        return True
    total = 0
    for x in inputs:
        if isinstance(x, Tensor) and x.layout.shape:
            total += numel(x.layout.shape)
            if total >= least:
                break
    return total >= least and config.eager_kernels


def _place(inputs: Sequence[Any]) -> str:
    """The device on which a function of these inputs is computed."""
    return device_of(inputs) or devices.current()


_routines: OrderedDict[Any, Routine | str] = OrderedDict()  # or why there is none
_lock = threads.lock()


def forget() -> None:
    """Let go of all programs, which are made again when they are needed."""
    with _lock:
        _routines.clear()


def call(
    name: str, key: Any, function: Callable[..., Any], inputs: Sequence[Any]
) -> list[Any] | None:
    """The results of a pure function of tensors and numbers, or None where NumPy does as well.

    `key` says which function it is, with everything static that it depends on.
    """
    device = _place(inputs) if other_devices else "cpu"
    if device != "cpu":
        try:
            return _routine_there(name, key, function, inputs, device).run(inputs)
        except CaptureError:
            return None
    routine = routine_of(name, key, function, inputs)
    return None if routine is None else run(routine, inputs)


def call_op(op: Op, inputs: Sequence[Any], params: Params) -> list[Any] | None:
    """The results of an op, or None where NumPy does as well."""
    return call(op.name, exactly(params), lambda *xs: apply(op, xs, params), inputs)


def call_there(op: Op, inputs: Sequence[Any], params: Params) -> list[Any]:
    """The results of an op on the device of new tensors, which is not the cpu."""
    try:
        routine = _routine_there(
            op.name, exactly(params), lambda *xs: apply(op, xs, params), inputs, devices.current()
        )
    except CaptureError as error:
        if op.is_opaque or op.dynamic:
            line = user_line()
            raise host_only((line and line.op) or op.name, state().line or line) from None
        raise DeviceError(str(error)) from None
    return routine.run(inputs)


def write_there(target: Tensor, value: Tensor) -> None:
    """Write elements into a tensor of another device than the cpu."""
    if value.storage.unchecked:  # nothing is written where a wrong index was found
        devices.lookup(target.storage.device).synchronize()
    if target.storage is value.storage:
        value = core.clone(value)

    def write(to: Tensor, given: Tensor) -> tuple[()]:
        state().context.write(to, given, "write", None)
        return ()

    routine = _routine_there("write", (), write, (target, value), target.storage.device)
    routine.run((target, value))


def known(name: str, params: Params, inputs: Sequence[Any], device: str) -> Routine | None:
    """The routine of an op on another device than the cpu, if there is one by now."""
    try:
        key = _key(name, exactly(params), inputs, device)
        found = _routines.get(key)
        if isinstance(found, Routine):
            _routines.move_to_end(key)  # those that are used stay
            return found
    except (KeyError, TypeError):  # it has just gone; a parameter that is not hashable
        pass
    return None


def _key(name: str, key: Any, inputs: Sequence[Any], device: str) -> tuple[Any, ...]:
    """The key of a routine: which function it is, and all of its inputs that a program depends on
    which takes numbers as they come."""
    described: list[Any] = []
    for x in inputs:
        if isinstance(x, Tensor):
            layout = x.layout
            described.append((layout.shape, layout.strides, x.dtype))
        else:
            described.append(type(x) if type(x) in (int, float) else exact(x))
    return name, key, device, config.num_threads, get_default_dtype(), *described


def _routine_there(
    name: str, key: Any, function: Callable[..., Any], inputs: Sequence[Any], device: str
) -> Routine:
    """The routine of a function on another device than the cpu, recorded if it is new.

    Numbers are arguments of the program where the function can be recorded with any number in their
    place, and else part of what it is.
    """
    whole_key = _key(name, key, inputs, device)
    numbers = tuple([exact(x) for x in inputs if type(x) in (int, float)])
    found: Routine | str | None = None
    for full_key, is_open in ((whole_key, True), ((*whole_key, numbers), False)):
        try:
            found = _routines.get(full_key)
        except TypeError:  # a parameter that is not hashable
            return Routine(name, function, inputs, False, device, is_open=False)
        if found is None:
            found = _prepare(full_key, name, function, inputs, False, device, is_open)
        if isinstance(found, Routine):
            with _lock:  # those that are used stay
                if full_key in _routines:
                    _routines.move_to_end(full_key)
            return found
    raise CaptureError(found)


def routine_of(
    name: str, key: Any, function: Callable[..., Any], inputs: Sequence[Any], repeats: bool = False
) -> Routine | None:
    """The routine of a function of tensors, made when it is first asked for; None where there is
    none. Numbers may be others at every call, and NumPy takes them as they come."""
    described: list[Any] = []
    for x in inputs:  # as `_key` does, without its call
        if isinstance(x, Tensor):
            described.append((x.layout.shape, x.layout.strides, x.dtype))
        elif x is None:
            described.append(None)
        else:
            return None
    device = _place(inputs) if other_devices else "cpu"
    whole_key = (name, key, device, config.num_threads, get_default_dtype(), *described)
    try:
        routine = _routines.get(whole_key)
    except TypeError:  # a parameter that is not hashable
        return None
    if routine is None:
        routine = _prepare(whole_key, name, function, inputs, repeats, device)
    return None if isinstance(routine, str) else routine


def run(routine: Routine, inputs: Sequence[Any]) -> list[Any] | None:
    """The results of a routine; None where the op, done in another way, says what is wrong."""
    if routine.device != "cpu":
        return routine.run(inputs)
    try:
        return routine.run(inputs)
    except (IndexError, ZeroDivisionError):
        return None


def _prepare(
    whole_key: Any, name: str, function: Callable[..., Any], inputs: Sequence[Any], repeats: bool,
    device: str = "cpu", is_open: bool = False,
) -> Routine | str:  # fmt: skip
    try:
        routine: Routine | str = Routine(name, function, inputs, repeats, device, is_open)
    except CaptureError as error:
        routine = str(error)
    except DeviceError as error:  # which names the line, another one every time
        return str(error)
    with _lock:
        _routines[whole_key] = routine
        if len(_routines) > thresholds.kept_programs:
            _routines.popitem(last=False)
    return routine


def exactly(params: Mapping[str, Any]) -> Any:
    """Static parameters as a key: 1, 1.0 and True differ, and so do 0.0 and -0.0."""
    return tuple([(k, type(v), exact(v)) for k, v in params.items()])


class Routine:
    """A recorded function, ready to run on tensors like those it was recorded with."""

    def __init__(
        self, name: str, function: Callable[..., Any], inputs: Sequence[Any], repeats: bool = False,
        device: str = "cpu", is_open: bool = False,
    ) -> None:  # fmt: skip
        """Record a function; one whose backward `repeats` it must not be much work. If it `is_open`
        numbers may be others at every run."""
        self.device = device
        standins = [_standin(x) if isinstance(x, Tensor) else x for x in inputs]
        positions = [i for i, x in enumerate(standins) if isinstance(x, Tensor)]
        self._numbers: list[int] = []
        if is_open:
            self._numbers = [i for i, x in enumerate(inputs) if type(x) in (int, float)]
        cells = [HostScalar(inputs[i]) for i in self._numbers]
        recorder = _recorder(name, [standins[i] for i in positions])
        for i, cell in zip(self._numbers, cells):
            standins[i] = recorder.read_scalar(cell)
        plain = {"context": recorder, "grad": False, "saved_hooks": (), "region": 0, "line": None}
        try:
            with changed(**plain, device=device):
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
        writes = bool(recording.writers)
        if recording.advances or recording.reseeds or (writes and device == "cpu"):
            raise CaptureError(f"{name} has effects")
        recorder.tape.device = device
        if not recorder.tape.outputs and not writes:
            raise CaptureError(f"{name} computes nothing")
        lines = recorder.tape.lines
        if repeats and any(line.op.is_costly for line in lines):
            raise CaptureError(f"{name} is too much work to do it twice")
        executable = self.executable = _native(recorder.tape)
        hosted = executable.scalar_outputs and device == "cpu"
        if hosted or executable.has_host_steps:
            raise CaptureError(f"{name} runs on the host in part")
        self._run, self._locate = executable.program.run, executable.locate
        self._words = (executable.constant_prologue or ((), ()))[1]
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
                storage, start = x.storage, x.layout.offset * x.dtype.itemsize
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
                results.append(None if result is None else inputs[result])
        self._run(addresses, self._words)
        return results

    def _run_there(self, inputs: Sequence[Any], addresses: list[int]) -> list[Any]:
        """The same on another device than the cpu, with inputs at these addresses."""
        executable, device = self.executable, devices.lookup(self.device)
        known, words = (), self._words
        if executable.constant_prologue is None:
            known, words = executable.prepare([inputs[i] for i in self._scalars])
        elif executable.scalar_outputs:
            known, words = executable.constant_prologue
        numbers: dict[int, Any] = {}
        if known:
            numbers = dict(zip(sorted(executable.scalar_outputs), known))
        may_fail = executable.is_asynchronous and executable.may_fail
        results: list[Any] = []
        made = 0  # outputs of the tape so far
        for result in self._results:
            if not isinstance(result, Spec):
                results.append(None if result is None else inputs[result])
                continue
            if made in numbers:
                buffer = device.upload(np.array(numbers[made], result.dtype.numpy))
            else:
                buffer = device.allocate(result.shape, result.dtype)
                addresses.append(device.address(buffer))
            out = Tensor.of_buffer(buffer, self.device)
            if may_fail:
                out.storage.unchecked = True
            results.append(out)
            made += 1
        late = None
        if may_fail:
            late = LateFailure(partial(executable.with_line, called=state().line or user_line()))
        try:
            self._run(addresses, words, late)
        except IndexError as error:
            raise executable.problem(error) from None
        return results


def inputs_read_by_backward(
    op: Op, params: Params, specs: Sequence[Spec | None], needs: tuple[bool, ...]
) -> tuple[int, ...]:
    """The inputs of a composite whose elements its gradients depend on: recorded, never run."""
    recorder = _recorder(op.name, [])
    given = [None if spec is None else recorder.placeholder(spec) for spec in specs]
    values = [None if x is None else recorder.value_at_end(x) for x in given]
    try:
        with changed(context=recorder, grad=False, saved_hooks=(), region=0, line=None):
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


def _native(tape: Tape) -> Native:
    made: Native = threads.imported("contraflow.runtime.executable").Native(tape)
    return made


def _standin(x: Tensor) -> Tensor:
    """A tensor like `x` at the start of a storage of its own, whose elements nobody reads."""
    shape = x.layout.shape
    layout = contiguous(shape) if x.layout.is_contiguous else x.layout._replace(offset=0)
    flat = np.broadcast_to(np.zeros((), x.dtype.numpy), (layout.extent()[1],))
    return Tensor.of_storage(Storage(flat, x.storage.device), layout, x.dtype)


def _describe(recorder: Recorder, result: Any, standins: Sequence[Any]) -> Spec | int | None:
    """The source of a result: the next output of the program, the index of an input, or nothing."""
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
        value = recorder.value_at_end(core.clone(result))
    tape.outputs.append(value)
    return Spec(shape, result.dtype)
