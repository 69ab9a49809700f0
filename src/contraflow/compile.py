"""`compile`: record a function once per key, then replay its program.

A call is keyed by the structure of its arguments, the shapes, strides, dtypes and aliasing of the
tensors in them, other values by equality, and the modes. A program is valid while the structure
epoch stands still, or as long as its guards still hold after it moved: the modules it called, the
tensors it found, the `.grad` slots it read, and the globals and closure cells its code names.
"""

from __future__ import annotations

import dataclasses
import functools
import gc
import threading
import types
import warnings
import weakref
from collections import OrderedDict
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from contraflow import config
from contraflow.dtypes import DType
from contraflow.errors import CaptureError, describe
from contraflow.executable import Executable, load
from contraflow.node import Node
from contraflow.op import changed, state
from contraflow.record import Recorder, Recording, Source
from contraflow.shapes import View
from contraflow.storage import Storage
from contraflow.tape import Tape, Value
from contraflow.tensor import Structure, Tensor

MANY_CAPTURES = 8


def is_compiling() -> bool:
    """Whether the running function is being recorded."""
    return isinstance(state().context, Recorder)


# --- structures of arguments and results -------------------------------------------------------


def flatten(x: Any, leaves: list[Any]) -> Any:
    """The structure of nested containers as a hashable key; tensors and arrays go to `leaves`."""
    if isinstance(x, Tensor):
        leaves.append(x)
        return "tensor"
    if isinstance(x, np.ndarray):
        leaves.append(x)
        return "array"
    if isinstance(x, (tuple, list)):
        return type(x), tuple(flatten(item, leaves) for item in x)
    if isinstance(x, dict):
        return dict, tuple((k, flatten(v, leaves)) for k, v in x.items())
    if dataclasses.is_dataclass(x) and not isinstance(x, type):
        fields = tuple((f.name, flatten(getattr(x, f.name), leaves)) for f in dataclasses.fields(x))
        return "dataclass", type(x), fields
    try:
        hash(x)
    except TypeError:
        raise CaptureError(
            f"compile: an argument of type {type(x).__name__} is neither a tensor, an array, a "
            f"container of them, nor hashable. Pass what the function needs of it."
        ) from None
    # 1, 1.0 and True are equal as keys but not the same argument.
    return "value", type(x), x


def rebuild(structure: Any, leaves: Any) -> Any:
    """The containers of a structure around new leaves, taken from an iterator."""
    if isinstance(structure, str):
        return next(leaves)
    kind, *rest = structure
    if kind == "value":
        return rest[1]
    if kind == "dataclass":
        made = object.__new__(rest[0])
        for name, part in rest[1]:
            object.__setattr__(made, name, rebuild(part, leaves))
        return made
    if kind is dict:
        return {k: rebuild(part, leaves) for k, part in rest[0]}
    items = [rebuild(part, leaves) for part in rest[0]]
    if kind in (tuple, list):
        return kind(items)
    return kind(*items)  # a named tuple


# --- programs ----------------------------------------------------------------------------------


class Fresh(NamedTuple):
    """A tensor over one of the program's outputs."""

    position: int
    view: View
    dtype: DType


class Shared(NamedTuple):
    """A view of the storage of an input: a new one, or the tensor itself if it lives on."""

    source: Value
    view: View
    dtype: DType
    tensor: weakref.ref[Tensor]


class Argument(NamedTuple):
    """One of the arguments itself."""

    number: int


Result = Fresh | Shared | Argument


class Program:
    """One recorded call: its tape, where inputs come from, and what to do with what comes out."""

    def __init__(self, recording: Recording, owner: Compiled) -> None:
        self.recording = recording
        self.tape = recording.tape
        self.owner = owner
        self.results: list[Result] = []
        self.structure: Any = None
        self.slot_outputs: list[tuple[weakref.ref[Tensor], Fresh | None]] = []
        self.cell_outputs: list[tuple[weakref.ref[Any], int]] = []
        self.escapes: list[tuple[Storage, int]] = []
        self.epoch = Structure.epoch
        self.executable: Executable | None = None
        self.read_slots: list[tuple[weakref.ref[Tensor], bool]] = []
        self.needs: list[tuple[weakref.ref[Tensor], weakref.ref[Storage], bool]] = []

    # --- guards ---------------------------------------------------------------------------

    def is_valid(self) -> bool:
        """Whether what was found while recording is still so."""
        for ref, was_none in self.read_slots:
            tensor = ref()
            if tensor is None or (tensor._grad is None) is not was_none:
                return False
        if self.epoch == Structure.epoch:
            return True
        for module, structure in self.recording.modules:
            found = module()
            if found is None or found._structure != structure:
                return False
        for tensor_ref, storage, needs in self.needs:
            if storage() is None:
                return False
            tensor = tensor_ref()
            if tensor is not None and (tensor.storage is not storage() or tensor._needs != needs):
                return False
        self.epoch = Structure.epoch
        return True

    # --- running --------------------------------------------------------------------------

    def replay(self, arguments: list[Tensor]) -> Any:
        """Run the program, repeat the effects, and build the results."""
        assert self.executable is not None
        storages: dict[Value, Storage] = {}
        arrays: list[Any] = []
        scalars: list[int | float] = []
        for value, source in self.recording.sources.items():
            if source.role == "scalar":
                scalars.append(_number(source))
            else:
                storage = _find(source, arguments)
                storages[value] = storage
                arrays.append(storage.data)
        outputs = self.executable.run(arrays, scalars)
        for value, (op, line) in self.recording.written.items():
            storages[value].wrote(op, line)
        for generator, blocks in self.recording.advances.items():
            generator.take(blocks)
        for generator, saved in self.recording.reseeds.items():
            generator.set_state(saved)
        for cell_ref, position in self.cell_outputs:
            cell = cell_ref()
            if cell is not None:
                cell.value = type(cell.value)(outputs[position])
        made: dict[int, Storage] = {}

        def fresh(result: Fresh) -> Tensor:
            position, view, dtype = result
            if position not in made:  # results that were views of one storage stay so
                made[position] = Storage(outputs[position].reshape(-1))
            return Tensor.of_storage(made[position], view, dtype)

        for tensor_ref, gradient in self.slot_outputs:
            tensor = tensor_ref()
            if tensor is not None:
                tensor._grad = None if gradient is None else fresh(gradient)
        for storage, position in self.escapes:
            storage.data = outputs[position].reshape(-1)
        leaves: list[Tensor] = []
        for result in self.results:
            if isinstance(result, Fresh):
                leaves.append(fresh(result))
            elif isinstance(result, Shared):
                alive = result.tensor()
                shared = Tensor.of_storage(storages[result.source], result.view, result.dtype)
                leaves.append(shared if alive is None else alive)
            else:
                leaves.append(arguments[result.number])
        return rebuild(self.structure, iter(leaves))


def _number(source: Source) -> int | float:
    if source.generator is not None:
        number: int = getattr(source.generator, source.field)
        return number
    assert source.cell is not None
    cell = source.cell()
    assert cell is not None, "a host scalar of a valid program is alive"
    return cell.value


def _find(source: Source, arguments: list[Tensor]) -> Storage:
    if source.role == "arg":
        return arguments[source.argument].storage
    if source.constant is not None:
        return source.constant
    if source.role == "grad":
        owner = source.owner() if source.owner is not None else None
        assert owner is not None
        assert owner._grad is not None
        return owner._grad.storage
    assert source.storage is not None
    storage = source.storage()
    assert storage is not None, "the state of a valid program is alive"
    return storage


# --- capture -----------------------------------------------------------------------------------


def capture(owner: Compiled, structure: Any, leaves: list[Any], arguments: list[Tensor]) -> Program:
    """Record one call and load its program. Nothing real is changed by it."""
    recorder = Recorder(owner.name, arguments)
    args, kwargs = rebuild(structure, iter(arguments))
    try:
        with changed(context=recorder):
            result = owner.eager(*args, **kwargs)
            del args, kwargs
            program = Program(recorder.finish(result), owner)
            _describe_results(program, recorder, result, arguments)
            del result
            program.recording.result = None
            _describe_effects(program, recorder)
    finally:
        recorder.restore()
    _describe_escapes(program, recorder)
    program.tape.verify()
    program.executable = load(program.tape)
    return program


def _output(program: Program, value: Value) -> int:
    program.tape.outputs.append(value)
    return len(program.tape.outputs) - 1


def _describe_results(
    program: Program, recorder: Recorder, result: Any, arguments: list[Tensor]
) -> None:
    found: list[Any] = []
    program.structure = flatten(result, found)
    positions: dict[int, int] = {}
    for t in found:
        if not isinstance(t, Tensor):
            raise CaptureError(
                f"compile({recorder.name}): the function returned a NumPy array; it would never "
                f"change. Return tensors."
            )
        same = next((i for i, a in enumerate(arguments) if a is t), None)
        if same is not None:
            program.results.append(Argument(same))
        elif not t.storage.is_recorded and t.storage.serial < recorder.start:
            source = recorder.input_of(t)
            program.results.append(Shared(source, t.view, t.dtype, weakref.ref(t)))
        else:
            _refuse_graph(recorder, t)
            key = id(t.storage)
            if key not in positions:
                positions[key] = _output(program, recorder.value_at_end(t))
            program.results.append(Fresh(positions[key], t.view, t.dtype))


def _refuse_graph(recorder: Recorder, t: Tensor) -> None:
    node: Node | None = t.node
    if t._needs and (node is None or not node.done):
        raise CaptureError(
            f"compile({recorder.name}): the function returned {describe(t)}, which requires grad, "
            f"without running backward on it. Compile the whole step, backward included, or "
            f"return x.detach()."
        )


def _describe_effects(program: Program, recorder: Recorder) -> None:
    recording = program.recording
    for key, slot in recording.slots.items():
        final = recording.final_grads[key]
        ref = weakref.ref(slot.tensor)
        if slot.read_first:
            program.read_slots.append((ref, slot.original is None))
        if final is slot.original:
            continue
        if final is None:
            program.slot_outputs.append((ref, None))
        elif final.storage.is_recorded:
            position = _output(program, recorder.value_at_end(final))
            program.slot_outputs.append((ref, Fresh(position, final.view, final.dtype)))
        else:
            raise CaptureError(
                f"compile({recorder.name}): .grad of {describe(slot.tensor)} was set to a tensor "
                f"from outside. Set it before the call."
            )
    recording.slots, recording.final_grads = {}, {}
    for cell, operand in recording.cells.items():
        assert isinstance(operand, Value)
        program.cell_outputs.append((weakref.ref(cell), _output(program, operand)))
    recording.cells = {}
    for source in recording.sources.values():
        if source.role == "state" and source.owner is not None and source.storage is not None:
            tensor = source.owner()
            if tensor is not None:
                program.needs.append((source.owner, source.storage, tensor._needs))


def _describe_escapes(program: Program, recorder: Recorder) -> None:
    """Tensors that outlive the function without being returned get this call's values."""
    escaped = recorder.alive()
    if escaped:
        gc.collect()  # a cycle in the user's code is not an escape
        escaped = recorder.alive()
    positions: dict[int, int] = {}
    makers = {v: line.line for line in program.tape.lines for v in line.outs}
    for t in escaped:
        if id(t.storage) in positions:
            continue
        value = recorder.value_at_end(t)
        line = makers.get(value)
        place = str(line)
        if place in program.owner.escape_lines:
            raise CaptureError(
                f"compile({recorder.name}): {describe(t)} made at {place} outlives the call for "
                f"the second time without being returned. Return it, or do not keep it."
            )
        program.owner.escape_lines.add(place)
        positions[id(t.storage)] = _output(program, value)
        program.escapes.append((t.storage, positions[id(t.storage)]))


# --- the decorator -----------------------------------------------------------------------------


class Compiled:
    """A function that is recorded once per key and replayed."""

    def __init__(
        self, function: Callable[..., Any], enabled: bool, cache_size: int, name: str | None
    ) -> None:
        functools.update_wrapper(self, function, updated=())
        self.eager = function
        self.enabled = enabled
        self.cache_size = cache_size
        self.name: str = name or str(getattr(function, "__name__", type(function).__name__))
        self.captures = 0
        self.escape_lines: set[str] = set()
        self._programs: OrderedDict[Any, Program] = OrderedDict()
        self._lock = threading.RLock()
        inner = getattr(function, "__func__", function)
        self._code: types.CodeType | None = getattr(inner, "__code__", None)
        self._globals: dict[str, Any] = getattr(inner, "__globals__", {})
        self._cells = getattr(inner, "__closure__", None) or ()
        self._names = () if self._code is None else self._code.co_names

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if not self.enabled or config.compile_mode == "off" or is_compiling():
            return self.eager(*args, **kwargs)
        leaves: list[Any] = []
        structure = flatten((args, kwargs), leaves)
        arguments = [x if isinstance(x, Tensor) else _as_tensor(x) for x in leaves]
        with self._lock:
            key = (structure, self._describe(arguments))
            program = self._programs.get(key)
            if program is not None and program.is_valid():
                self._programs.move_to_end(key)
                return program.replay(arguments)
            program = capture(self, structure, leaves, arguments)
            self.captures += 1
            if self.captures == MANY_CAPTURES:
                self._warn()
            out = program.replay(arguments)
            if not program.escapes:
                self._programs[key] = program
                while len(self._programs) > self.cache_size:
                    self._programs.popitem(last=False)
            return out

    def _describe(self, arguments: list[Tensor]) -> Any:
        """All that a program may depend on beside values: tensors, modes, surroundings."""
        storages: dict[int, int] = {}
        tensors = tuple(
            (
                t.view, t.dtype, t.device, t._needs, t.storage.data.size,
                storages.setdefault(id(t.storage), i),
            )
            for i, t in enumerate(arguments)
        )  # fmt: skip
        current = state()
        get = self._globals.get
        surroundings = tuple([id(get(n)) for n in self._names])
        cells = tuple([id(c.cell_contents) for c in self._cells])
        return tensors, surroundings, cells, current.grad, config.num_threads, config.compile_mode

    def _warn(self) -> None:
        changing = _differences(list(self._programs))
        warnings.warn(
            f"compile({self.name}): recorded {self.captures} times; {changing} keeps changing. "
            f"Each change records again.",
            stacklevel=3,
        )

    @property
    def programs(self) -> list[Program]:
        """The programs in the cache, oldest first."""
        return list(self._programs.values())

    @property
    def tape(self) -> Tape:
        """The tape of the program used last."""
        if not self._programs:
            raise CaptureError(f"compile({self.name}): not called yet, so there is no tape.")
        return next(reversed(self._programs.values())).tape

    def clear(self) -> None:
        """Forget all programs."""
        with self._lock:
            self._programs.clear()
            self.captures = 0
            self.escape_lines.clear()

    def explain(self) -> str:
        """What was captured and what runs, for people to read."""
        rows = [f"compile({self.name}): {len(self._programs)} programs, {self.captures} captures"]
        for program in self._programs.values():
            roles: dict[str, int] = {}
            for role in program.tape.inputs.values():
                roles[role] = roles.get(role, 0) + 1
            counts = ", ".join(f"{n} {role}" for role, n in roles.items())
            rows.append(f"  {len(program.tape.lines)} lines; inputs: {counts}")
            rows.append(f"  writes {len(program.tape.writes)} inputs")
            assert program.executable is not None
            rows += [f"  {row}" for row in program.executable.explain()]
        return "\n".join(rows)

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        return self if instance is None else functools.partial(self, instance)


def _as_tensor(array: Any) -> Tensor:
    return Tensor.of_array(np.ascontiguousarray(array))


def _differences(keys: list[Any]) -> str:
    """Which part of the keys differs between the last two captures."""
    if len(keys) < 2:
        return "a module, a hook or captured state"
    (old_structure, old), (new_structure, new) = keys[-2:]
    if old_structure != new_structure:
        return "an argument that is not a tensor"
    names = ("the shape or dtype of an argument", "a global", "a closure variable", "a mode")
    for name, a, b in zip(names, old, new):
        if a != b:
            return name
    return "the number of threads"


def compile(
    fn: Callable[..., Any] | None = None,
    *,
    enabled: bool = True,
    cache_size: int = 16,
    name: str | None = None,
) -> Any:
    """Record a function of tensors and replay it as one program.

    >>> import contraflow as cf
    >>> @cf.compile
    ... def double(x):
    ...     return x + x
    >>> double(cf.ones(2))
    tensor([2., 2.])
    """
    if fn is None:
        return functools.partial(compile, enabled=enabled, cache_size=cache_size, name=name)
    if not callable(fn):
        raise TypeError(f"compile: {type(fn).__name__} is not callable.")
    return Compiled(fn, enabled, cache_size, name)
