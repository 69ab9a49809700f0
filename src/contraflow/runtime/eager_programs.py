"""Eager calls as programs: large ops, composites and gradients run as generated kernels.

A pure function of tensors (an op, the body of a composite, the gradient rules of a node) is
recorded once for each set of shapes, strides and dtypes, and from then on runs as one program: a
composite is one fused kernel, and so is its gradient. Small tensors are not worth the start of a
program; for them NumPy is faster.

Here is what is kept, under which keys; `recorded.py` records such a function, and `routine.py`
compiles and runs it. The recorder and the compiler are imported when the first large op needs them.
"""

from __future__ import annotations

import contextlib
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from contraflow import config, devices, threads, thresholds
from contraflow.dtypes import get_default_dtype
from contraflow.errors import CaptureError, DeviceError, host_only
from contraflow.graph.op_node import OpNode
from contraflow.operation import core
from contraflow.operation.context import apply, state
from contraflow.operation.op import Op
from contraflow.runtime.recorded import place
from contraflow.runtime.routine import Routine
from contraflow.spec import Params
from contraflow.tensors.node import Form
from contraflow.tensors.source_line import user_line
from contraflow.tensors.tensor import Tensor
from contraflow.tensors.tree import exact

if TYPE_CHECKING:
    from contraflow.runtime.array_routines import ArrayRoutine

EXACT = 1 << 24  # whole numbers up to here are floats of either size


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
