"""Eager calls as programs: large ops, composites and gradients run as generated kernels.

A pure function of tensors (an op, the body of a composite, the gradient rules of a node) is
recorded once for each set of shapes, strides and dtypes, and from then on runs as one program: a
composite is one fused kernel, and so is its gradient. Small tensors are not worth the start of a
program; for them NumPy is faster.

The recorder and the compiler are imported when the first large op needs them.
"""

from __future__ import annotations

import contextlib
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from contraflow import config, devices, threads, thresholds
from contraflow.devices.cpu import memory
from contraflow.devices.failures import LateFailure, fits, overflow
from contraflow.dtypes import DType, get_default_dtype, int64
from contraflow.errors import CaptureError, DeviceError, host_only
from contraflow.graph.op_node import OpNode
from contraflow.graph.recompute import recomputation
from contraflow.operation import core
from contraflow.operation.context import apply, changed, device_of, other_devices, state
from contraflow.operation.op import Op
from contraflow.shapes import View, contiguous, numel
from contraflow.spec import Params, Spec
from contraflow.tensors.host_scalar import HostScalar
from contraflow.tensors.node import Form
from contraflow.tensors.source_line import OWNERS, UserLine, at, user_line
from contraflow.tensors.storage import Storage
from contraflow.tensors.tensor import Tensor
from contraflow.tensors.tree import exact

if TYPE_CHECKING:
    from contraflow.compiler.tape import Tape
    from contraflow.contexts.record import Recorder
    from contraflow.contexts.recording import Recording
    from contraflow.runtime.array_routines import ArrayRoutine
    from contraflow.runtime.executable import Native

EXACT = 1 << 24  # whole numbers up to here are floats of either size


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


_routines: OrderedDict[Any, Routine | str] = OrderedDict()  # or why there is none
# How ops were applied, by op and inputs (`Application`): False where `Eager.at_once` leaves it to
# `apply`, and a number of calls where that is not decided yet.
applied: dict[Any, Any] = {}
# Routines for the rules of nodes, by their form, and then by what they name: see `rules_key_of`.
_rules: dict[Form, dict[Any, Routine | PassedOn]] = {}
programs_of = _rules.get
_lock = threads.lock()


def forget() -> None:
    """Let go of all programs, which are made again when they are needed."""
    with _lock:
        _routines.clear()
        _rules.clear()
        applied.clear()


def call(
    name: str, key: Any, function: Callable[..., Any], inputs: Sequence[Any]
) -> list[Any] | None:
    """The results of a pure function of tensors and numbers, or None where NumPy does as well.

    `key` says which function it is, with everything static that it depends on.
    """
    device = place(inputs)
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


def of_op(op: Op, params: Params, inputs: Sequence[Any]) -> Routine | str | None:
    """The routine of an op, if there is one by now, or why there is none."""
    device = place(inputs)
    if device != "cpu" and not op.is_composite:
        return known(op.name, params, inputs, device)
    return _routines.get(_composite_key(op.name, exactly(params), inputs, device))


def rules_key_of(params: Params, named: Sequence[Tensor | None]) -> tuple[Any, ...]:
    """The key of the routine for rules that name some tensors, among those of nodes of a form."""
    threads = config.num_threads if config.eager_kernels else 0
    key: list[Any] = [exactly(params), get_default_dtype(), threads]
    for x in named:
        if x is None:
            key.append(None)
        else:
            key += (x.layout.shape, x.layout.strides, x.dtype, x.storage.device)
    return tuple(key)


def _learn_rules(node: OpNode, named: Sequence[Any], routine: Routine | PassedOn) -> None:
    """Have backward find a routine for rules that name these again."""
    if not all(x is None or isinstance(x, Tensor) for x in named):
        return
    if len(_rules) >= thresholds.kept_programs:
        _rules.clear()
    with contextlib.suppress(TypeError):  # a parameter that is not hashable
        _rules.setdefault(node.form, {})[rules_key_of(node.params, named)] = routine


class PassedOn(NamedTuple):
    """Rules that give the cotangent of the first output to some inputs, as it is."""

    inputs: tuple[bool, ...]

    def run(self, named: Sequence[Any]) -> list[Any]:
        """The gradients of the inputs."""
        return [named[0] if passed else None for passed in self.inputs]


def learn_passing(node: OpNode, named: Sequence[Any], results: Sequence[Any]) -> None:
    """Note rules that do nothing: these are not a program."""
    passed = [x is named[0] for x in results]
    fitting = [
        x is None or spec is None or (x is named[0] and x.layout.shape == spec[0])
        for x, spec in zip(results, node.input_specs)
    ]
    if any(passed) and all(fitting) and not node.op.from_user:
        _learn_rules(node, named, PassedOn(tuple(passed)))


def derive(node: OpNode, key: Any, rules: Callable[..., Any], named: list[Any]) -> list[Any] | None:
    """The gradients of the inputs of a node, by a program that backward finds again; None where
    there is none."""
    device = place(named)
    if device == "cpu":
        found = routine_of(node.op.name, key, rules, named)
        results = None if found is None else run(found, named)
    else:
        try:
            found = _routine_there(node.op.name, key, rules, named, device)
        except CaptureError:
            return None
        results = found.run(named)
    if found is not None and results is not None:
        _learn_rules(node, named, found)
    return results


def write_there(target: Tensor, value: Tensor) -> None:
    """Write elements into a tensor of another device than the cpu."""
    if value.storage.unchecked:  # nothing is written where a wrong index was found
        devices.lookup(target.storage.device).synchronize()
    if target.storage is value.storage:
        value = core.clone(value)

    def write(to: Tensor, given: Tensor) -> tuple[()]:
        state().context.write(to, given, "write", None)
        return ()

    _routine_there("write", (), write, (target, value), target.storage.device).run((target, value))


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
    name: str, key: Any, function: Callable[..., Any], inputs: Sequence[Any], repeats: bool = False,
    device: str = "cpu",
) -> Routine | None:  # fmt: skip
    """The routine of a function of tensors, made when it is first asked for; None where there is
    none. Numbers may be others at every call, and NumPy takes them as they come."""
    whole_key = _composite_key(name, key, inputs, device)
    if whole_key is None:
        return None
    try:
        routine = _routines.get(whole_key)
    except TypeError:  # a parameter that is not hashable
        return None
    if routine is None:
        routine = _prepare(whole_key, name, function, inputs, repeats, device)
    return None if isinstance(routine, str) else routine


def _composite_key(name: str, key: Any, inputs: Sequence[Any], device: str) -> Any:
    described: list[Any] = []
    for x in inputs:
        if isinstance(x, Tensor):
            described.append((x.layout.shape, x.layout.strides, x.dtype))
        elif x is None:
            described.append(None)
        else:
            return None
    return (name, key, device, config.num_threads, get_default_dtype(), *described)


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


def over_arrays(table: Mapping[Any, Any], key: Any) -> ArrayRoutine | None:
    """The routine over arrays (`array_routines.py`) that a table has under a key, if it has one."""
    try:
        found = table.get(key)
    except TypeError:  # a parameter that is not hashable
        return None
    return None if type(found) is int else found


def learn(
    table: dict[Any, Any], key: Any, name: str, function: Callable[..., Any], inputs: Sequence[Any],
    count: int, needs: Sequence[int] = (), views: bool = False,
) -> None:  # fmt: skip
    """Count a call of a function with `count` results, and make a routine when there were several;
    with the graph of its parts, if some inputs need gradients.

    Shapes that are met once are not worth a recording. A negative count says that there is none.
    """
    try:
        times = table.get(key, 0)
    except TypeError:
        return
    if type(times) is not int or times < 0:
        return
    if len(table) >= thresholds.kept_programs:
        table.clear()
    if times < thresholds.eager_repeats:
        table[key] = times + 1
        return
    table[key] = -1
    with contextlib.suppress(CaptureError, DeviceError):
        table[key] = _array_routine(name, function, inputs, count, needs, views)


def _array_routine(*args: Any) -> ArrayRoutine:
    made: ArrayRoutine = threads.imported("contraflow.runtime.array_routines").ArrayRoutine(*args)
    return made


def rules_key(params: Params, arrays: Sequence[np.ndarray], numbers: Sequence[Any]) -> Any:
    """The key of a routine for rules: it depends on how arrays lie that are not row-major."""
    strides = [(k, array.strides) for k, array in enumerate(arrays) if not array.flags.c_contiguous]
    return exactly(params), get_default_dtype(), *numbers, *strides


def exactly(params: Mapping[str, Any]) -> Any:
    """Static parameters as a key: 1, 1.0 and True differ, and so do 0.0 and -0.0."""
    if not params:
        return ()
    values = tuple(params.values())
    types = tuple(map(type, values))
    if float in types:
        values = tuple(map(exact, values))
    return values, types


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


def _native(tape: Tape) -> Native:
    made: Native = threads.imported("contraflow.runtime.executable").Native(tape)
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
