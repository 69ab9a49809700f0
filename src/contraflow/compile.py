"""`compile`: record a function once per key, then replay its program.

A call is keyed by the structure of its arguments, the shapes, strides, dtypes and aliasing of the
tensors in them, other values by equality, and the modes. A program is valid while the structure
epoch stands still, or as long as its guards still hold after it moved: the modules it called, the
tensors it found, the `.grad` slots it read, and the globals and closure cells its code names.
"""

from __future__ import annotations

import dataclasses
import dis
import functools
import gc
import threading
import types
import warnings
import weakref
from collections import OrderedDict, defaultdict
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np

from contraflow import config
from contraflow.dtypes import DType, from_numpy, get_default_dtype
from contraflow.errors import CaptureError, describe
from contraflow.executable import Executable, load
from contraflow.hooks import Structure
from contraflow.node import Node
from contraflow.op import changed, state
from contraflow.passes import host_values
from contraflow.record import Recorder, Recording, Source
from contraflow.shapes import View
from contraflow.storage import Storage
from contraflow.tape import Tape, Value
from contraflow.tensor import Tensor

MANY_CAPTURES = 8


def is_compiling() -> bool:
    """Whether the running function is being recorded."""
    return state().context.recording


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
        return type(x), tuple((k, flatten(v, leaves)) for k, v in x.items())
    if dataclasses.is_dataclass(x) and not isinstance(x, type):
        fields = tuple((f.name, flatten(getattr(x, f.name), leaves)) for f in dataclasses.fields(x))
        return "dataclass", type(x), fields
    if type(x) is float:
        return "float", x.hex()  # 0.0 is not -0.0, and NaN is NaN
    try:
        hash(x)
    except TypeError:
        raise CaptureError(
            f"compile: an argument or result of type {type(x).__name__} is neither a tensor, an "
            f"array, a container of them, nor hashable. Pass what is needed of it."
        ) from None
    # 1, 1.0 and True are equal as keys but not the same argument.
    return "value", type(x), x


def rebuild(structure: Any, leaves: Any) -> Any:
    """The containers of a structure around new leaves, taken from an iterator."""
    if isinstance(structure, str):
        return next(leaves)
    kind, *rest = structure
    if kind == "float":
        return float.fromhex(rest[0])
    if kind == "value":
        return rest[1]
    if kind == "dataclass":
        made = object.__new__(rest[0])
        for name, part in rest[1]:
            object.__setattr__(made, name, rebuild(part, leaves))
        return made
    if issubclass(kind, dict):
        pairs = ((k, rebuild(part, leaves)) for k, part in rest[0])
        return dict(pairs) if issubclass(kind, defaultdict) else kind(pairs)
    items = [rebuild(part, leaves) for part in rest[0]]
    return kind(*items) if hasattr(kind, "_fields") else kind(items)  # named tuples


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

    def over(self, storage: Storage) -> Tensor:
        """The tensor, over the storage that the input has in this call."""
        t = self.tensor()
        if t is not None and t.storage is storage and t.layout == self.view:
            return t
        return Tensor.of_storage(storage, self.view, self.dtype)


class Argument(NamedTuple):
    """One of the arguments itself."""

    number: int


Result = Fresh | Shared | Argument


class Held(NamedTuple):
    """A tensor that an effect or a guard is about: an argument by its number, or one of state."""

    number: int
    tensor: weakref.ref[Tensor]

    def get(self, arguments: Sequence[Tensor]) -> Tensor | None:
        """The tensor in this call."""
        return self.tensor() if self.number < 0 else arguments[self.number]


class Watched(NamedTuple):
    """A tensor from outside as the recording found it."""

    tensor: weakref.ref[Tensor]
    storage: weakref.ref[Storage]
    needs: bool
    hooks: tuple[Any, ...]

    @staticmethod
    def of(t: Tensor) -> Watched:
        """What is to be found again."""
        return Watched(weakref.ref(t), weakref.ref(t.storage), t._needs, _hooks(t))

    def holds(self) -> bool:
        """Whether it is found again; a tensor that is gone may have left its storage to others."""
        storage, t = self.storage(), self.tensor()
        if storage is None or t is None:
            return storage is not None
        return t.storage is storage and t._needs is self.needs and _hooks(t) == self.hooks


def _hooks(t: Tensor) -> tuple[Any, ...]:
    return (*(t._hooks or {}).values(), None, *(t._accumulated_hooks or {}).values())


def _layout(gradient: Tensor | None) -> Any:
    """What a program that reads a gradient depends on, beside its elements."""
    return (
        None if gradient is None else (gradient.layout, gradient.dtype, gradient.storage.data.size)
    )


Inputs = tuple[dict[Value, Storage], list[int | float]]


class Program:
    """One recorded call: its tape, where inputs come from, and what to do with what comes out."""

    def __init__(self, recording: Recording, owner: Compiled) -> None:
        self.recording = recording
        self.tape = recording.tape
        self.owner = owner
        self.results: list[Result] = []
        self.structure: Any = None
        self.slot_outputs: list[tuple[Held, Fresh | Shared | None]] = []
        self.cell_outputs: list[tuple[weakref.ref[Any], int]] = []
        self.escapes: list[tuple[Storage, int]] = []
        self.epoch = Structure.epoch
        self.executable: Executable | None = None
        self.read_slots: list[tuple[Held, Any]] = []  # with the layout of the gradient found
        self.watched: list[Watched] = []
        self.state: set[int] = set()  # ids of the storages that are not arguments
        self.pins: dict[int, weakref.ref[Storage]] = {}  # of arguments that are also state
        self.surroundings: list[Any] = []
        self.kept: list[Any] = []  # what cannot be referred to weakly

    # --- guards ---------------------------------------------------------------------------

    def is_current(self) -> bool:
        """Whether modules, tensors and surroundings are as they were; if not, they never will."""
        for ref in self.surroundings:
            if ref() is None:  # another object has its address now
                return False
        if self.epoch == Structure.epoch:
            return True
        for module, structure in self.recording.modules:
            found = module()
            if found is None or found._structure != structure:
                return False
        if not all(watched.holds() for watched in self.watched):
            return False
        self.epoch = Structure.epoch
        return True

    def fits(self, arguments: Sequence[Tensor]) -> bool:
        """Whether the `.grad` slots and the aliasing of arguments and state are as recorded."""
        for number, t in enumerate(arguments):
            pin = self.pins.get(number)
            if (id(t.storage) in self.state) if pin is None else (pin() is not t.storage):
                return False
        for held, layout in self.read_slots:
            owner = held.get(arguments)
            if owner is None or _layout(owner._grad) != layout:
                return False
        return True

    def watch(self, tensors: Iterable[Tensor], arguments: Sequence[Tensor]) -> None:
        """Guard on tensors that the function knows, and on which arguments are among them."""
        self.watched = [Watched.of(t) for t in tensors]
        known = {id(t.storage): w.storage for t, w in zip(tensors, self.watched)}
        own = {id(t.storage) for t in arguments}
        self.state = set(known) - own
        for number, t in enumerate(arguments):
            if id(t.storage) in known:
                self.pins[number] = known[id(t.storage)]

    def surround(self, values: Iterable[Any]) -> None:
        """See to it that the ids of globals and closure cells in the key stay meaningful."""
        for value in values:
            try:
                self.surroundings.append(weakref.ref(value))
            except TypeError:
                self.kept.append(value)

    # --- running --------------------------------------------------------------------------

    def find_inputs(self, arguments: list[Tensor]) -> Inputs | None:
        """The storages and host scalars the program reads, None if one of them is gone."""
        storages: dict[Value, Storage] = {}
        scalars: list[int | float] = []
        for value, source in self.recording.sources.items():
            if source.role == "scalar":
                number = _number(source)
                if number is None:
                    return None
                scalars.append(number)
            else:
                storage = _find(source, arguments)
                if storage is None:
                    return None
                storages[value] = storage
        return storages, scalars

    def replay(self, arguments: list[Tensor], inputs: Inputs) -> Any:
        """Run the program, repeat the effects, and build the results."""
        assert self.executable is not None
        storages, scalars = inputs
        arrays = [storage.data for storage in storages.values()]
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
        for storage, position in self.escapes:
            storage.data = outputs[position].reshape(-1)
            made[position] = storage

        def fetch(result: Fresh | Shared) -> Tensor:
            if isinstance(result, Shared):
                return result.over(storages[result.source])
            position, view, dtype = result
            if position not in made:  # results that were views of one storage stay so
                made[position] = Storage(outputs[position].reshape(-1))
                if state().inference:
                    made[position].inference = True
            return Tensor.of_storage(made[position], view, dtype)

        for held, gradient in self.slot_outputs:
            owner = held.get(arguments)
            if owner is not None:
                owner._grad = None if gradient is None else fetch(gradient)
        leaves = (
            arguments[result.number] if isinstance(result, Argument) else fetch(result)
            for result in self.results
        )
        return rebuild(self.structure, leaves)


def _number(source: Source) -> int | float | None:
    if source.generator is not None:
        number: int = getattr(source.generator, source.field)
        return number
    assert source.cell is not None
    cell = source.cell()
    return None if cell is None else cell.value


def _find(source: Source, arguments: list[Tensor]) -> Storage | None:
    if source.role == "arg":
        return arguments[source.argument].storage
    if source.constant is not None:
        return source.constant
    if source.role == "grad":
        assert source.owner is not None
        owner = Held(source.argument, source.owner).get(arguments)
        assert owner is not None
        assert owner._grad is not None
        return owner._grad.storage
    assert source.storage is not None
    return source.storage()


# --- capture -----------------------------------------------------------------------------------


def capture(
    owner: Compiled, args: Sequence[Any], kwargs: dict[str, Any], arguments: list[Tensor]
) -> Program:
    """Record one call and load its program. Nothing real is changed by it."""
    recorder = Recorder(owner.name, arguments)
    positions: dict[int, int] = {}  # of outputs, by id of the storage: what is shared stays so
    try:
        # Hooks on saved values from around the call are not part of what is recorded.
        with changed(context=recorder, saved_hooks=(), region=0, line=None):
            result = owner.eager(*args, **kwargs)
            program = Program(recorder.finish(result), owner)
            _describe_results(program, recorder, result, arguments, positions)
            del result
            program.recording.result = None
            _describe_effects(program, recorder, positions)
            program.watch(_known_tensors(program, recorder, owner), arguments)
            program.surround(owner.surroundings())
    finally:
        recorder.restore()
    _describe_escapes(program, recorder, positions)
    program.tape.verify()
    program.executable = load(program.tape)
    return program


def _known_tensors(program: Program, recorder: Recorder, owner: Compiled) -> list[Tensor]:
    """The tensors from outside that the function read, or that its modules and names hold."""
    found = [x for x in owner.surroundings() if isinstance(x, Tensor)]
    for source in program.recording.sources.values():
        t = source.owner() if source.role == "state" and source.owner is not None else None
        if t is not None:
            found.append(t)
    for module in recorder.modules:
        for name in ("_parameters", "_buffers"):
            found += [t for t in getattr(module, name, {}).values() if t is not None]
    return [t for t in {id(t): t for t in found}.values() if not t.storage.is_recorded]


def _output(program: Program, value: Value) -> int:
    program.tape.outputs.append(value)
    return len(program.tape.outputs) - 1


def _describe_results(
    program: Program,
    recorder: Recorder,
    result: Any,
    arguments: list[Tensor],
    positions: dict[int, int],
) -> None:
    found: list[Any] = []
    program.structure = flatten(result, found)
    for t in found:
        if not isinstance(t, Tensor):
            raise CaptureError(
                f"compile({recorder.name}): the function returned a NumPy array; it would never "
                f"change. Return tensors."
            )
        same = next((i for i, a in enumerate(arguments) if a is t), None)
        if same is not None:
            program.results.append(Argument(same))
        else:
            _refuse_graph(recorder, t)
            program.results.append(_describe_tensor(program, recorder, t, positions))


def _describe_tensor(
    program: Program, recorder: Recorder, t: Tensor, positions: dict[int, int]
) -> Fresh | Shared:
    """How a tensor that the function leaves behind is made of what the program gives."""
    if not t.storage.is_recorded and t.storage.serial < recorder.start:
        return Shared(recorder.input_of(t), t.layout, t.dtype, weakref.ref(t))
    key = id(t.storage)
    if key not in positions:
        positions[key] = _output(program, recorder.value_at_end(t))
    return Fresh(positions[key], t.layout, t.dtype)


def _refuse_graph(recorder: Recorder, t: Tensor) -> None:
    node: Node | None = t.node
    outside = not t.storage.is_recorded and (node is None or node.sequence_nr < recorder.first_node)
    if t._needs and not outside and (node is None or not node.done):
        raise CaptureError(
            f"compile({recorder.name}): the function returned {describe(t)}, which requires grad, "
            f"without running backward on it. Compile the whole step, backward included, or "
            f"return x.detach()."
        )


def _describe_effects(program: Program, recorder: Recorder, positions: dict[int, int]) -> None:
    recording = program.recording
    for key, slot in recording.slots.items():
        final = recording.final_grads[key]
        held = Held(slot.argument, weakref.ref(slot.tensor))
        if slot.read_first:
            program.read_slots.append((held, _layout(slot.original)))
        if final is not slot.original:
            gradient = (
                None if final is None else _describe_tensor(program, recorder, final, positions)
            )
            program.slot_outputs.append((held, gradient))
    recording.slots, recording.final_grads = {}, {}
    host = host_values(recording.tape) if recording.cells else set()
    for cell, operand in recording.cells.items():
        assert isinstance(operand, Value)
        if operand not in host:
            raise CaptureError(
                f"compile({recorder.name}): a host scalar such as a learning rate was set from "
                f"the elements of a tensor, which are not known before a replay. Set it outside "
                f"the compiled function."
            )
        program.cell_outputs.append((weakref.ref(cell), _output(program, operand)))
    recording.cells = {}


def _describe_escapes(program: Program, recorder: Recorder, positions: dict[int, int]) -> None:
    """Storages that outlive the function without being returned get this call's values."""
    escaped = recorder.alive()
    if escaped:
        del escaped
        gc.collect()  # a cycle in the user's code is not an escape
        escaped = recorder.alive()
    for storage, value, spec, line in escaped:
        place = str(line)
        if place in program.owner.escape_lines:
            raise CaptureError(
                f"compile({recorder.name}): {spec} made at {place} outlives the call for the "
                f"second time without being returned. Return it, or do not keep it."
            )
        if id(storage) not in positions:
            positions[id(storage)] = _output(program, value)
        program.escapes.append((storage, positions[id(storage)]))
    program.owner.escape_lines.update(str(line) for *_, line in escaped)


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
        # Several to a key: which fits depends on `.grad` slots and aliasing with state.
        self._programs: OrderedDict[Any, list[Program]] = OrderedDict()
        self._lock = threading.RLock()
        inner = getattr(function, "__func__", function)
        self._code: types.CodeType | None = getattr(inner, "__code__", None)
        self._globals: dict[str, Any] = getattr(inner, "__globals__", {})
        self._cells = getattr(inner, "__closure__", None) or ()
        self._names = () if self._code is None else tuple(_names(self._code))

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        # Values that are not finite are looked for op by op, so anomaly mode runs eagerly.
        current = state()
        replays = current.context.replays and not current.anomaly
        if not self.enabled or config.compile_mode == "off" or not replays:
            return self.eager(*args, **kwargs)
        leaves: list[Any] = []
        structure = flatten((args, kwargs), leaves)
        arguments = [x if isinstance(x, Tensor) else _as_tensor(x) for x in leaves]
        with self._lock:
            key = (structure, self._describe(arguments))
            known = self._programs.get(key, [])
            for program in known:
                if program.is_current() and program.fits(arguments):
                    inputs = program.find_inputs(arguments)
                    if inputs is not None:
                        self._programs.move_to_end(key)
                        return program.replay(arguments, inputs)
            if not all(isinstance(x, Tensor) for x in leaves):
                args, kwargs = rebuild(structure, iter(arguments))
            program = capture(self, args, kwargs, arguments)
            self.captures += 1
            if self.captures == MANY_CAPTURES:
                self._warn(key)
            if not program.escapes:
                self._keep(key, program)
            inputs = program.find_inputs(arguments)
            assert inputs is not None
            return program.replay(arguments, inputs)

    def _keep(self, key: Any, program: Program) -> None:
        """Put a program before the others of its key, and forget those used longest ago."""
        # Those that do not fit now may again: a module may go back from eval to training.
        self._programs[key] = [program, *self._programs.pop(key, [])]
        while sum(map(len, self._programs.values())) > self.cache_size:
            oldest = next(iter(self._programs))
            self._programs[oldest].pop()
            if not self._programs[oldest]:
                del self._programs[oldest]

    def surroundings(self) -> list[Any]:
        """What the function's own code names: globals, then closure cells."""
        get = self._globals.get
        return [*map(get, self._names), *map(_contents, self._cells)]

    def _describe(self, arguments: list[Tensor]) -> Any:
        """All that a program may depend on beside values: tensors, modes, surroundings."""
        storages: dict[int, int] = {}
        tensors = []
        for i, t in enumerate(arguments):
            data = t.storage.data
            if data is None:
                raise CaptureError(
                    f"compile({self.name}): argument {describe(t)} was recorded by another "
                    f"compiled call and never had a value."
                )
            same = storages.setdefault(id(t.storage), i)
            place = (t.storage.device, t.storage.frozen)
            tensors.append((t.layout, t.dtype, place, t.requires_grad, data.size, same))
        current = state()
        modes = (current.grad, current.inference, current.anomaly)
        return (
            tuple(tensors), tuple(map(id, self.surroundings())), modes, config.num_threads,
            config.compile_mode, get_default_dtype(),
        )  # fmt: skip

    def _warn(self, key: Any) -> None:
        before = next(reversed(self._programs), None)
        changing = _difference(before, key)
        warnings.warn(
            f"compile({self.name}): recorded {self.captures} times; {changing} keeps changing. "
            f"Each change records again.",
            stacklevel=3,
        )

    @property
    def programs(self) -> list[Program]:
        """The programs in the cache, oldest first."""
        return [p for known in self._programs.values() for p in reversed(known)]

    @property
    def tape(self) -> Tape:
        """The tape of the program recorded or used last."""
        if not self._programs:
            raise CaptureError(f"compile({self.name}): no program is kept, so there is no tape.")
        return self.programs[-1].tape

    def clear(self) -> None:
        """Forget all programs."""
        with self._lock:
            self._programs.clear()
            self.captures = 0
            self.escape_lines.clear()

    def explain(self) -> str:
        """What was captured and what runs, for people to read."""
        rows = [f"compile({self.name}): {len(self.programs)} programs, {self.captures} captures"]
        for program in self.programs:
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


def _as_tensor(array: np.ndarray) -> Tensor:
    from_numpy(array.dtype)  # the error for a dtype that is not ours
    return Tensor.of_array(np.asarray(array, order="C"))


def _names(code: types.CodeType) -> dict[str, None]:
    """The names that a function's code, and the functions within it, look up."""
    # co_names holds attribute names too: `optimizer.step()` does not read a global `step`.
    reads = (i for i in dis.get_instructions(code) if i.opname in ("LOAD_GLOBAL", "LOAD_NAME"))
    names = dict.fromkeys(i.argval for i in reads)
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            names |= _names(constant)
    return names


def _contents(cell: types.CellType) -> Any:
    try:
        return cell.cell_contents
    except ValueError:  # not assigned to yet
        return None


def _difference(old: Any, new: Any) -> str:
    """Which part of two keys differs."""
    if old is None or old == new:
        return "a module, a hook, a gradient or captured state"
    (old_structure, old_rest), (new_structure, new_rest) = old, new
    if old_structure != new_structure:
        return "an argument that is not a tensor"
    names = ("the shape or dtype of an argument", "a global or a closure variable", "a mode")
    for name, a, b in zip(names, old_rest, new_rest):
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
