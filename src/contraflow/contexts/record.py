"""Recording: the context that turns a run of the eager engine into a tape.

Under this context ops compute nothing. A tensor made here has a storage without data; the
recorder maps each storage to the tape value it holds at the moment. Reading a tensor emits its
view of that value; writing one gives its storage another value. So aliasing, in-place updates,
`backward()`, hooks and optimizers are captured because they ran.

Nothing real is changed: versions, `.grad` slots, random state and host scalars are put back when
the recording ends, and what the function did to them is kept as effects for each replay.
"""

from __future__ import annotations

import linecache
import weakref
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import replace
from typing import Any

import numpy as np

from contraflow import devices, dtypes
from contraflow.compiler.host_numbers import is_wide
from contraflow.compiler.tape import Tape, TapeOperand, Value
from contraflow.contexts.applying import specs_of
from contraflow.contexts.bottom import BottomContext
from contraflow.contexts.graph_changes import GraphChanges
from contraflow.contexts.part_copies import PartCopies, PartCopy
from contraflow.contexts.recording import (
    GradSlot,
    InputSource,
    RecordedEffects,
    Recording,
    TouchedGenerator,
)
from contraflow.dtypes import DType, bool_, float64, int64
from contraflow.errors import CaptureError, describe
from contraflow.operation import core
from contraflow.operation.context import apply, changed, other_devices, state
from contraflow.operation.op import Op
from contraflow.shapes import Shape, contiguous, numel
from contraflow.spec import Params, Spec
from contraflow.tensors.generator import Generator
from contraflow.tensors.generator import serials as generator_serials
from contraflow.tensors.host_scalar import HostScalar
from contraflow.tensors.node import Node, sequence_numbers
from contraflow.tensors.source_line import OWNERS, UserLine, at, user_call, user_line
from contraflow.tensors.storage import Storage, serials
from contraflow.tensors.symbol import (
    INT64,
    Known,
    Symbol,
    Symbols,
    ValueNeeded,
    is_symbol,
    symbols_in,
)
from contraflow.tensors.tensor import Tensor


class Recorder(BottomContext):
    """The recording context. `capture.trace` uses it, and puts everything back."""

    is_recording = True

    def __init__(
        self, name: str, arguments: list[Tensor], leaves: int = 0,
        fixed_cells: Iterable[HostScalar] = (),
    ) -> None:  # fmt: skip
        self.name = name
        self.tape = Tape(name)
        self._device: str | None = None  # of the tape, once it is known
        self._settled = ""  # by which op, and at which line
        self.sources: dict[Value, InputSource] = {}
        self.start = next(serials)
        self._around = state().context
        self._default_dtype = dtypes.get_default_dtype()
        self.looks_around = False  # whether it matters that an argument is a part of a tensor
        self.default_set_at: UserLine | None = None  # where the function set another one
        self.first_node = next(sequence_numbers)
        self._first_generator = next(generator_serials)
        self._once = False
        self._values: dict[int, Value] = {}  # by id of the storage
        self._held: dict[int, Storage] = {}  # keeps those ids meaningful
        self._inputs: dict[Value, Storage] = {}
        # Inputs that lie on another device, by the id of the storage, which is kept, and the dtype.
        self._moved_inputs: dict[tuple[int, DType], tuple[Value, Storage]] = {}
        self._views: set[Value] = set()
        self._numbers: set[Value] = set()  # computed from host scalars as Python computes
        self._hosted: set[Value] = set()  # numbers of the host, and what is computed from them only
        # Integers that the function makes on the cpu of nothing, and what is computed of them.
        self._made_integers: set[Value] = set()
        self._single: set[Value] = set()  # inputs on the cpu without dims, which other devices take
        self._regions = {0: 0}
        self._roles: dict[int, InputSource] = {}
        self._arguments: dict[int, int] = {}  # by id of the tensor
        for number, tensor in enumerate(arguments):
            self._arguments.setdefault(id(tensor), number)
            self._roles.setdefault(id(tensor.storage), InputSource("arg", argument=number))
        self._written: dict[int, tuple[Storage, Any]] = {}  # with the writes to it before
        self._cells: dict[HostScalar, tuple[Tensor, Tensor]] = {}  # as it is now, as it was
        self._fixed_cells = frozenset(fixed_cells)  # whose numbers are constants
        self.fixed_numbers: dict[HostScalar, int | float] = {}  # of those that were read
        self.cells_needed: set[HostScalar] = set()  # those that have to be among them
        self._streams: dict[Generator, TouchedGenerator] = {}
        self.graph = GraphChanges(self.first_node)  # of what is from outside
        self._slots: dict[int, GradSlot] = {}
        self._modules: dict[int, tuple[Any, int]] = {}
        self.modules: list[Any] = []  # and optimizers, that the function used
        self._made: list[tuple[weakref.ref[Storage], Spec, UserLine | None]] = []
        self._last_write: dict[int, tuple[str, UserLine | None]] = {}
        self._graded: dict[int, Tensor] = {}  # from outside, requiring grad
        self._hooks_read: dict[int, tuple[Any, ...]] = {}  # of arguments, by their numbers
        # Tensors of the function's own over real storages, and where they came from.
        self._detached: dict[int, tuple[Tensor, Tensor]] = {}
        self.symbols = Symbols(leaves, self._enter)
        self._copies = PartCopies(self._values.get, self._tell_apart)
        self.has_copies = False  # of parts, at places that are not known
        self.has_symbols = False  # for numbers among the arguments
        self.arrays: dict[int, Any] = {}  # of NumPy, from outside, that become tensors
        self.array_arguments: dict[int, Tensor] = {}  # what stands for those among the arguments
        self.show: Callable[[Any], object] = id  # tells the observer of a function that will run

    # --- ops ------------------------------------------------------------------------------

    def apply(self, op: Op, inputs: tuple[Any, ...], params: Params) -> Any:
        for x in inputs:
            if isinstance(x, Tensor) and x._needs and not x.storage.is_recorded:
                self._graded[id(x)] = x
        if op.is_view and other_devices and self._device is None:
            self._lie_near(inputs[0])
        if not op.is_composite:
            if Symbol in map(type, inputs):
                inputs = tuple(self._entered(op, x, inputs) if is_symbol(x) else x for x in inputs)
            if self._numbers:
                inputs = self._with_numbers(op, inputs, params)
            for name, value in params.items():
                if symbols_in(value):
                    params = {**params, name: self.symbols.values_in(value)}
        return super().apply(op, inputs, params)

    def symbol(self, number: int | float, leaf: int) -> Symbol:
        """The symbol that stands for a number among the arguments."""
        self.has_symbols = True
        return Symbol(number, Known(leaf), frozenset([leaf]), self.symbols)

    def _enter(self, symbol: Symbol) -> Tensor:
        """The tensor that stands for a symbol: an input of the tape."""
        spec = Spec((), int64 if type(symbol._number) is int else float64)
        value = self.tape.add_input(spec, "scalar")
        self.sources[value] = InputSource("scalar", argument=symbol._known.position)
        return self._number(value)

    def _entered(self, op: Op, symbol: Symbol, inputs: tuple[Any, ...]) -> Any:
        """A symbol as an operand: a 0-d tensor that promotes as the Python number would."""
        if type(symbol._number) is int and symbol._number not in INT64:
            return symbol._number  # which the op refuses
        if op.is_create:
            return symbol._tensor  # with all its digits, since the op is told its dtype
        others = [x for x in inputs if isinstance(x, Tensor)]
        entered = _among(symbol._tensor, others)
        if entered.dtype in dtypes.HALVES:  # which compute with numbers that are not rounded
            self.symbols.need(symbol)
        return entered

    def _with_numbers(self, op: Op, inputs: tuple[Any, ...], params: Params) -> tuple[Any, ...]:
        """Inputs in which what is computed from host scalars promotes beside others as a number."""
        held = [self._values.get(id(x.storage)) for x in inputs if isinstance(x, Tensor)]
        if self._numbers.isdisjoint(held):
            return inputs
        if self._numbers.issuperset(held):
            return _as_python(op, inputs, params)
        others = [x for x in inputs if isinstance(x, Tensor) and not self.is_number(x)]
        return tuple([
            _among(x, others) if isinstance(x, Tensor) and self.is_number(x) else x for x in inputs
        ])  # fmt: skip

    def is_number(self, x: Tensor) -> bool:
        """Whether a tensor stands for a number that is computed from host scalars."""
        return self._values.get(id(x.storage)) in self._numbers

    def execute(self, op: Op, inputs: tuple[Any, ...], params: Params) -> tuple[Tensor, ...]:
        if op.dynamic:
            called = user_call()[2] or op.name
            name = OWNERS.get(called, op.name)
            raise self.refusal(f"{name} has a result whose shape depends on values")
        if op.is_transfer and params["device"] != params["source"]:
            return (self._moved(inputs[0], params["source"], params["device"]),)
        if not _OPERANDS.issuperset(map(type, inputs)):
            specs_of(op, inputs)  # the error for an input that is neither a tensor nor a number
        if dtypes.get_default_dtype() is not self._default_dtype:
            # The tape has another default.
            inputs = _cast(inputs, op.types(specs_of(op, inputs), params)[0])
        hosted = bool(other_devices) and not op.is_create and self._is_hosted(inputs)
        if op.is_opaque and devices.current() != "cpu" and not _tensors(inputs):
            return self._made_by_host(op, inputs, params)
        passes = bool(other_devices) and self._passes(op, inputs, params)
        free = bool(other_devices) and devices.current() == "cpu" and self._are_made(op, inputs)
        if other_devices and not hosted and not passes and not free:
            self._settle_device(op, inputs)
        current = state()
        line = current.line or user_line(_LIBRARY_FRAMES)
        if current.deriving is not None:
            line = current.deriving.gradient_line or line
        operands = tuple([self.read(x, line) for x in inputs])
        region = self._region() if current.region else 0
        values = self.tape.add(op, operands, params, line, region)
        if self._numbers and is_wide(self.tape, self.tape.lines[-1], self._numbers):
            self._numbers.update(values)
        if hosted:
            self._hosted.update(values)
        specs = [self.tape.specs[v] for v in values]
        if free and not any(spec.dtype.is_floating_point for spec in specs):
            self._made_integers.update(values)
        elif (free and not hosted and not passes) or (
            passes and not op.is_copy and any(spec.shape for spec in specs)
        ):
            self._settle_device(op, inputs)
        return tuple([self._tensor(v, line) for v in values])

    def for_parts(self, device: str | None) -> changed:
        """The same. Its parts have the user's line from the composite: it is looked for once."""
        return changed(grad=False, device=device, line=self.user_line())

    def _is_hosted(self, inputs: tuple[Any, ...]) -> bool:
        """Whether an op computes with numbers of the host only, which any device's tape may."""
        tensors = [x for x in inputs if isinstance(x, Tensor)]
        return bool(tensors) and all(
            self._values.get(id(x.storage)) in self._hosted for x in tensors
        )

    def _are_made(self, op: Op, inputs: tuple[Any, ...]) -> bool:
        """Whether an op has no tensors but those made of numbers, so that any device may run it
        where the results are integers: they are the same on each."""
        values = [self._values.get(id(x.storage)) for x in inputs if isinstance(x, Tensor)]
        made = all(v in self._made_integers or v in self._hosted for v in values)
        return made and (op.is_create or bool(values))

    def _made_by_host(self, op: Op, inputs: tuple[Any, ...], params: Params) -> tuple[Tensor, ...]:
        """The results of an op without a kernel that is given nothing but numbers: constants."""
        with changed(context=self._around, device="cpu"):
            made = apply(op, inputs, params)
        device = devices.current()
        return tuple(x.to(device) for x in (made if isinstance(made, tuple) else (made,)))

    def _passes(self, op: Op, inputs: tuple[Any, ...], params: Params) -> bool:
        """Whether an op may be part of the tape of any device: one on tensors of the cpu without
        dims, or that makes one, or a copy of a value that the tape has and that moves away."""
        if op.is_create:
            return params.get("shape") == () and devices.current() == "cpu"
        return _are_single(inputs) or (op.is_copy and inputs[0].storage.is_recorded)

    def _adds_before_leaving(self, op: Op, inputs: tuple[Any, ...]) -> bool:
        """Whether gradients on their way to another device are added up: here, before they leave,
        which is so where a tensor of that device was moved here twice."""
        return (
            op.is_sum
            and state().task is not None
            and self._device is not None
            and all(isinstance(x, Tensor) and x.storage.is_recorded for x in inputs)
            and all(x.storage.device != self._device for x in inputs)
        )

    def _settle_device(self, op: Op, inputs: tuple[Any, ...]) -> None:
        """A tape has one device: that of the first op, beside those that compute numbers only."""
        numbers = all(self.is_number(x) for x in inputs if isinstance(x, Tensor))
        if self._numbers and numbers and not op.is_create:
            return
        if self._adds_before_leaving(op, inputs):
            return
        device = devices.current()
        if self._device is None:
            self._device = self.tape.device = device
            self._settled = f"{self._called(op)}{at(self.user_line())}"
        elif device != self._device:
            for x in inputs:
                source = self._roles.get(id(x.storage)) if isinstance(x, Tensor) else None
                if source is not None and source.role == "grad":  # which is added to
                    raise self._refuse_write(describe(x), x.storage, self._device)
            other = self._device if device == "cpu" else device
            remedy = (
                f"make it there: device={other!r}."
                if op.is_create
                else f"move tensors to {other} before it is called, or before they are computed "
                f"with."
            )
            raise self.refusal(
                f"{self._called(op)} computes on {device}, and "
                f"{self._settled or 'another part of the function'} on {self._device}",
                f"A compiled function computes on one device, but for tensors without dims: "
                f"{remedy}",
            )

    def _called(self, op: Op) -> str:
        """The name of what the user called, of which an op is a part."""
        line = self.user_line()
        return (line and line.op) or op.name

    def _moved(self, x: Tensor, source: str, device: str) -> Tensor:
        """A tensor on another device, as one side of a program sees it.

        A tensor from another device is an input that each replay copies. One that goes to another
        device keeps its value: a result is copied there when the program has run, and nothing can
        be computed with it here.
        """
        if self._device is None:  # the one that is not the cpu computes
            self._device = self.tape.device = source if device == "cpu" else device
        if x.storage.is_recorded or source == self._device:
            value = self.read(x)
            assert isinstance(value, Value)
        elif device == self._device and id(x.storage) not in self._values:
            value = self._input_from_elsewhere(x, device)
        elif device == self._device and _are_single((x,)):
            value = self._value_of(x)
        else:
            raise self.refusal(
                f"a tensor moves from {source} to {device}, and the function computes on "
                f"{self._device}",
                "Move it before the compiled function is called, or what it returns afterwards.",
            )
        with changed(device=device):
            return self._tensor(value, self.user_line())

    def _input_from_elsewhere(self, x: Tensor, device: str) -> Value:
        """A copy of a tensor of another device: each replay moves its storage once."""
        storage = x.storage
        known = self._moved_inputs.get((id(storage), x.dtype))
        if known is None:
            whole = self._add_moved_input(x, device)
            self._moved_inputs[id(storage), x.dtype] = whole, storage
        else:
            whole = known[0]
        line, region = self.user_line(), self._region()
        (value,) = self.tape.add(core.strided, (whole,), x.layout._asdict(), line, region)
        (copied,) = self.tape.add(core.clone, (value,), {}, line, region)
        return copied

    def _add_moved_input(self, x: Tensor, device: str) -> Value:
        storage = x.storage
        if storage.serial > self.start:  # by the function itself, out of Python's data
            source = self._constant_on(storage, device)
        else:
            found = self._roles.get(id(storage))
            if found is None:
                owner = weakref.ref(self._shown_by(x))
                found = InputSource("state", storage=weakref.ref(storage), owner=owner)
            source = replace(found, moved=device)
        whole = self.tape.add_input(Spec((storage.data.size,), x.dtype), source.role)
        self.sources[whole] = source
        return whole

    def _constant_on(self, storage: Storage, device: str) -> InputSource:
        """A constant on another device: copied once, but by each replay if its memory is that of an
        array from outside, whose elements may change."""
        if any(np.may_share_memory(storage.fetched(), array) for array in self.arrays.values()):
            return InputSource("constant", constant=storage, moved=device)
        copy = devices.lookup(device).upload(storage.fetched())
        return InputSource("constant", constant=Storage(copy, device))

    def _region(self) -> int:
        """The checkpoint region that is running, numbered from 1 within this recording."""
        region = state().region
        return self._regions.setdefault(region, len(self._regions)) if region else 0

    def _tensor(
        self, value: Value, line: UserLine | None = None, device: str | None = None
    ) -> Tensor:
        """A tensor with a new recorded storage that holds `value`."""
        spec = self.tape.specs[value]
        storage = Storage(None, device or (devices.current() if other_devices else "cpu"))
        key = id(storage)
        self._values[key], self._held[key] = value, storage
        self._made.append((weakref.ref(storage), spec, line))
        return Tensor.of_storage(storage, contiguous(spec.shape), spec.dtype)

    def _number(self, value: Value) -> Tensor:
        """A tensor that holds a number of the host: it passes, whatever device it meets."""
        self._hosted.add(value)
        return self._tensor(value, device="cpu")

    def read(self, x: Any, line: UserLine | None = None) -> TapeOperand:
        """The tape value of a tensor as it is now, read at a line; numbers are literals."""
        if not isinstance(x, Tensor):
            return _literal(x)
        if self.has_copies:
            self._copies.use(x.storage)
        value = self._values.get(id(x.storage)) or self._value_of(x)
        if x.layout == contiguous(self.tape.specs[value].shape):
            return value
        shape, strides, offset = x.layout
        params = {"shape": shape, "strides": strides, "offset": offset}
        line = line or self.user_line()
        (view,) = self.tape.add(core.strided, (value,), params, line, self._region())
        self._views.add(view)
        return view

    def _value_of(self, x: Tensor) -> Value:
        """The value its storage holds; a real storage becomes an input when first met."""
        storage = x.storage
        found = self._values.get(id(storage))
        if found is not None:
            return found
        if storage.is_recorded:
            raise self.refusal(
                f"{describe(x)} was recorded by another compiled call and never had a value"
            )
        source = self._roles.get(id(storage))
        if source is None:
            if storage.serial > self.start:
                source = InputSource("constant", constant=storage)
            else:
                owner = weakref.ref(self._shown_by(x))
                source = InputSource("state", storage=weakref.ref(storage), owner=owner)
        # The shape of whoever shows the whole storage in order; flat where only parts are seen.
        shape: Shape = (storage.data.size,)
        for t in (x, x._base):
            in_order = t is not None and t.layout == contiguous(t.layout.shape)
            if t is not None and in_order and numel(t.layout.shape) == storage.data.size:
                shape = t.layout.shape
                break
        value = self.tape.add_input(Spec(shape, x.dtype), source.role)
        self.sources[value] = source
        self._inputs[value] = storage
        self._values[id(storage)], self._held[id(storage)] = value, storage
        self._lie_near(x)
        if other_devices and _are_single((x,)) and storage.data.size == 1:
            self._single.add(value)
        return value

    def _lie_near(self, x: Tensor) -> None:
        """A tape of views and copies alone has the device of one that does not lie on the cpu."""
        if self._device is None and isinstance(x, Tensor) and x.storage.device != "cpu":
            self.tape.device = x.storage.device

    # --- effects --------------------------------------------------------------------------

    def write(self, target: Tensor, value: Tensor, op: str, line: UserLine | None) -> None:
        storage = target.storage
        if other_devices and storage.device != (self._device or storage.device):
            raise self._refuse_write(describe(target), storage, self._device)
        if self.has_copies:
            self._copies.write(storage)
        old, new = self._value_of(target), self.read(value, line)
        assert isinstance(new, Value)
        if not storage.is_recorded:
            for t in (target, target._base):
                if t is not None:
                    self.graph.keep_place(t)
            if id(storage) not in self._written:
                self._written[id(storage)] = storage, storage.written()
        self._last_write[id(storage)] = (op, line)
        if target.layout == contiguous(self.tape.specs[old].shape):
            # A storage never holds a view, so that views are always of whole values.
            if new in self._views:
                (new,) = self.tape.add(core.clone, (new,), {}, line, self._region())
            self._values[id(storage)] = new
        else:
            shape, strides, offset = target.layout
            params = {"shape": shape, "strides": strides, "offset": offset}
            (self._values[id(storage)],) = self.tape.add(
                core.assign, (old, new), params, line, self._region()
            )
        storage.wrote(op, line)

    def snapshot(self, tensor: Tensor) -> Tensor:
        """The value that it holds, which no write changes."""
        value = self.read(tensor)
        assert isinstance(value, Value)
        return self._tensor(value, device=tensor.storage.device)

    def leave(self, tensor: Tensor, what: str) -> None:
        storage = tensor.storage
        untouched = id(storage) not in self._values or self._values[id(storage)] in self.tape.inputs
        if not storage.is_recorded and storage.serial > self.start and untouched:
            return  # a constant the function itself has just made from Python data
        self.cells_needed.update(self._cells_behind(tensor))
        if self.cells_needed:
            raise ValueNeeded
        if what.startswith("bool"):
            raise self.refusal(f"{what} needs the value of {describe(tensor)}")
        raise self.refusal(
            f"{what} needs the value of {describe(tensor)}{_NOT_COMPUTED}",
            "Return the tensor and do this outside the compiled function, or compute with tensors.",
        )

    def stand_in(self, copy: Tensor, whole: Tensor, symbols: tuple[Symbol, ...], key: Any) -> None:
        value = self._values.get(id(whole.storage))
        place = whole.layout, key
        self._copies.add(PartCopy(copy.storage, whole.storage, place, value, symbols))
        self.has_copies = True

    def putting_back(self, whole: Tensor, key: Any, value: Any) -> AbstractContextManager[Any]:
        if not self.has_copies or not isinstance(value, Tensor):
            return nullcontext()
        return self._copies.putting_back(value.storage, whole.storage, (whole.layout, key))

    def _tell_apart(self, part: PartCopy) -> None:
        """A copy of a part stands for a view, which the function would tell from it."""
        if part.symbols:
            self.symbols.need(part.symbols)
        raise self.refusal(
            "a part of a tensor at a place that only a call knows is a copy here, and one of both "
            "is written to before the other is used",
            "Write x[i] = ... in place of a part, and take the part again after a write.",
        )

    def copied(self, tensor: Tensor) -> Storage:
        line = self.user_line()
        self._copies.use(tensor.storage)
        value = self._value_of(tensor)
        device = tensor.storage.device
        if other_devices and not tensor.storage.is_recorded and not _are_single((tensor,)):
            with changed(device=device):
                self._settle_device(core.clone, (tensor,))
        (copy,) = self.tape.add(core.clone, (value,), {}, line, self._region())
        return self._tensor(copy, line, device).storage

    def refusal(self, problem: str, remedy: str = "", line: UserLine | None = None) -> CaptureError:
        """The error for something that cannot be recorded, with the user's line."""
        if not remedy:
            problem += _NOT_COMPUTED
            remedy = "Use contraflow.where, or move this out of the compiled function."
        return refusal(self.name, problem, remedy, line)

    def detached(self, tensor: Tensor, origin: Tensor) -> Tensor:
        if not tensor.storage.is_recorded:
            self._detached[id(tensor)] = tensor, self._shown_by(origin)
        return tensor

    def _shown_by(self, tensor: Tensor) -> Tensor:
        """The tensor from outside that a tensor over a real storage came from."""
        base = tensor if tensor._base is None else tensor._base
        return self._detached[id(base)][1] if id(base) in self._detached else base

    def is_from_outside(self, tensor: Tensor) -> bool:
        """Whether a tensor may be known to others than the function that is recorded."""
        return not tensor.storage.is_recorded and id(tensor) not in self._detached

    def is_from_before(self, storage: Storage) -> bool:
        """Whether a storage was there before the recording."""
        return not storage.is_recorded and storage.serial < self.start

    def is_of_argument(self, storage: Storage) -> bool:
        """Whether a storage is that of an argument."""
        source = self._roles.get(id(storage))
        return source is not None and source.is_argument

    def argument_of(self, tensor: Any) -> int | None:
        """The number of a tensor among the arguments, None if it is not one of them."""
        return self._arguments.get(id(tensor))

    def touch_grad(self, tensor: Tensor, reading: bool) -> None:
        if not self.is_from_outside(tensor) or id(tensor) in self._slots:
            return
        number = self._arguments.get(id(tensor), -1)
        self._slots[id(tensor)] = GradSlot(tensor, tensor._grad, reading, number)
        if reading and tensor._grad is not None:
            source = InputSource("grad", argument=number, owner=weakref.ref(tensor))
            self._roles.setdefault(id(tensor._grad.storage), source)

    def touch_needs(self, tensor: Tensor) -> None:
        if self.is_from_outside(tensor):
            self.graph.set_needs(tensor)

    def touch_place(self, tensor: Tensor, method: str) -> None:
        node = tensor._node
        inside = node is not None and node.sequence_nr > self.first_node
        if not inside and self.is_from_outside(tensor) and tensor.storage.serial < self.start:
            self.graph.call(tensor, method)

    def bring_up_to_date(self, tensor: Tensor) -> None:
        """Find the place of a view in the graph, whose base was written before the recording."""
        with changed(context=self._around):
            tensor.node  # noqa: B018

    @contextmanager
    def outside(self) -> Iterator[None]:
        """Compute what outlives the recording, whatever becomes of it, for the next recording.

        Random numbers are those that come before all that are drawn here.
        """
        drawn = [(g, stream, (g.seed, g.offset)) for g, stream in self._streams.items()]
        for generator, stream, _ in drawn:
            generator.seed, generator.offset = stream.original
        try:
            with changed(context=self._around):
                yield
        finally:
            for generator, stream, now in drawn:
                stream.original = generator.seed, generator.offset
                generator.seed, generator.offset = now

    def touch_store(self, store: Any) -> None:
        if store.serial < self.start:
            raise self.refusal(
                "a store of gradients from outside is changed, and a replay would not change it",
                "Return what is to be added to it: store + gradients(loss).",
            )

    def touch_hooks(self, owner: Any, hooks: dict[int, Any]) -> None:
        if isinstance(owner, Node):
            if owner.sequence_nr < self.first_node:
                self.graph.keep_hooks(f"the result of {owner.name}", hooks, self.user_line())
        elif self.is_from_outside(owner) and owner.storage.serial < self.start:
            self.graph.keep_hooks(describe(owner), hooks, self.user_line())

    def remove_hook(self, key: int, hooks: dict[int, Any]) -> None:
        if key < self.graph.first_hook and type(hooks) is dict:  # those of modules are observed
            self.graph.keep_hooks("a tensor", hooks, self.user_line())

    def read_hooks(self, leaf: Tensor) -> None:
        if leaf._node is not None and leaf._node.sequence_nr < self.first_node:
            raise self.refusal(
                f"the hooks on {describe(leaf)} are read, which was made before the call",
                "Read them outside the compiled function.",
            )
        number = self._arguments.get(id(leaf))
        if number is not None:  # those of state are part of what is watched
            self._hooks_read.setdefault(number, self.graph.hooks_before(leaf))

    def read_places(self, roots: Sequence[Tensor], targets: Sequence[Tensor]) -> None:
        outside = [t for t in targets if self._stands_outside(t)]
        if not outside:
            return  # nothing from outside leads to what the function has made
        known = [t for t in (*roots, *self.graded) if not t.storage.is_recorded]
        node = self.graph.search(roots, outside, known)
        for result in self.graph.reached.values():
            for hook in filter(None, result.hooks):
                self.show(hook)
        if node is not None:
            raise self.refusal(
                f"backward looks for {describe(outside[0])} and meets {node.name} from before the "
                f"call, through a tensor that is neither an argument nor named by the function",
                "Pass it as an argument.",
            )

    def _stands_outside(self, t: Tensor) -> bool:
        """Whether a tensor is at a place in the graph that the function has not made."""
        node = t.node
        if node is not None:
            return node.sequence_nr < self.first_node
        return self.is_from_outside(t) and t.storage.serial < self.start

    def _cells_behind(self, tensor: Tensor) -> set[HostScalar]:
        """The host scalars that a number is computed from, if it is from nothing else."""
        makers = {out: line for line in self.tape.lines for out in line.outs}
        waiting: list[Any] = [self._values.get(id(tensor.storage))]
        found = set()
        while waiting:
            value = waiting.pop()
            if value in makers:
                waiting += [x for x in makers[value].inputs if isinstance(x, Value)]
                continue
            source = self.sources.get(value)
            cell = None if source is None or source.cell is None else source.cell()
            if cell is None:
                return set()
            found.add(cell)
        return found

    def read_scalar(self, cell: HostScalar) -> Any:
        if cell in self._fixed_cells:
            return self.fixed_numbers.setdefault(cell, cell.value)
        if cell not in self._cells:
            dtype = int64 if isinstance(cell.value, int) else float64
            if cell.serial > self.start:  # the function's own, which every call makes anew
                symbol = self._known_number(cell.value, dtype)
            else:
                value = self.tape.add_input(Spec((), dtype), "scalar")
                self.sources[value] = InputSource("scalar", cell=weakref.ref(cell))
                self._numbers.add(value)
                symbol = self._number(value)
            self._cells[cell] = (symbol, symbol)
        return self.snapshot(self._cells[cell][0])  # which may be written to in place

    def write_scalar(self, cell: HostScalar, value: Any) -> None:
        if cell in self._fixed_cells:
            raise self.refusal(
                "a number of an optimizer is set, whose value the function asks for",
                "Set it, or ask for it, outside the compiled function.",
            )
        self.read_scalar(cell)
        if isinstance(value, (int, float)):
            value = self._known_number(value, float64)
        self._cells[cell] = (value, self._cells[cell][1])

    def _known_number(self, number: int | float, dtype: DType) -> Tensor:
        """A tensor that stands for a number of the host that every call knows."""
        with changed(device="cpu"):
            found: Tensor = core.full((), number, dtype=dtype)
        self._numbers.add(self._value_of(found))
        return found

    def _stream(self, generator: Generator) -> TouchedGenerator:
        if generator not in self._streams:
            # One that the function itself has made starts from its seed at every replay.
            fixed = generator.serial > self._first_generator
            self._streams[generator] = TouchedGenerator((generator.seed, generator.offset), fixed)
        return self._streams[generator]

    def draw(self, generator: Generator, blocks: int) -> tuple[Any, Any]:
        stream = self._stream(generator)
        seed, offset = generator.take(blocks)
        if stream.fixed:
            return seed, offset
        if stream.values is None:
            names = ("seed", "offset")
            values = [self.tape.add_input(Spec((), int64), "scalar") for _ in names]
            for value, name in zip(values, names):
                self.sources[value] = InputSource("scalar", generator=generator, field=name)
            stream.values = values[0], values[1]
        # Tensors of the device on which numbers are drawn, which is another one at the next call.
        first_seed, first_offset = map(self._tensor, stream.values)
        return first_seed, first_offset + (offset - stream.original[1])

    def read_generator(self, generator: Generator) -> None:
        stream = self._stream(generator)
        stream.known[generator.seed, generator.offset] = stream.fixed

    def write_generator(self, generator: Generator, saved: tuple[int, int]) -> None:
        # Going back to a state from within this call (a checkpoint does) is relative to its start.
        stream = self._stream(generator)
        stream.fixed = stream.known.get(tuple(saved), True)  # type: ignore[arg-type]

    def refuse_node(self, node: Node) -> None:
        made = "" if node.line is None else f" at {node.line}"
        raise self.refusal(
            f"backward reached {node.name}, which was applied{made}, before the call; the "
            f"next call would not repeat it",
            "Apply it in the compiled function too, or detach its result.",
        )

    def visit_module(self, module: Any) -> None:
        # As it is before the function changes it, which is undone.
        if id(module) not in self._modules:
            self._modules[id(module)] = module, module._structure
            self.modules.append(module)

    def shared_array(self, array: Any) -> Tensor | None:
        if id(array) in self.array_arguments:
            return self.array_arguments[id(array)]
        known = id(array) in self.arrays and array.flags.c_contiguous
        return Tensor.of_array(array) if known else None

    def user_line(self) -> UserLine | None:
        """The user's line that is running."""
        return state().line or user_line()

    def made_at(self, tensor: Tensor) -> UserLine | None:
        """The user's line that made the storage of a tensor, if the function did."""
        found = (line for ref, _, line in self._made if ref() is tensor.storage)
        return next(found, None)

    def made_here(self, module: Any) -> bool:
        """Whether the function itself has made a module or an optimizer."""
        return bool(module.__dict__.get("_born", self.start) >= self.start)

    def use_once(self) -> None:
        self._once = True

    # --- the end --------------------------------------------------------------------------

    def finish(self) -> Recording:
        """Collect the effects. Called while the function's results are still referenced."""
        tape = self.tape
        self._copies.end()
        if tape.device != "cpu":
            for value in self._single:
                self._take_along(value)
        recording = Recording(tape, self.sources, once=self._once)
        recording.leaves, recording.steps = self.symbols.leaves, self.symbols.steps
        for value, storage in self._inputs.items():
            # A constant is made anew by every call, so writing to it is not an effect.
            if self._values[id(storage)] != value and self.sources[value].role != "constant":
                tape.writes[value] = self._values[id(storage)]
                recording.writers[value] = self._last_write[id(storage)]
        recording.slots = self._slots
        recording.final_grads = {k: slot.tensor._grad for k, slot in self._slots.items()}
        for cell, (now, then) in self._cells.items():
            if cell.serial > self.start:
                recording.own_cells.append(weakref.ref(cell))
            if now is not then:
                recording.cells[cell] = self.read(now)
        for generator, stream in self._streams.items():
            if stream.fixed:
                recording.reseeds[generator] = (generator.seed, generator.offset)
            else:
                recording.advances[generator] = generator.offset - stream.original[1]
        for t, node, *_ in self.graph.places.values():
            if t.storage.serial > self.start:
                continue  # a constant, which every call makes anew
            if t._needs and t._node not in (None, node) and not t._node.done:
                raise self.refusal(
                    f"{describe(t)} is given a value that requires grad, without running backward "
                    f"on it",
                    "Compile the whole step, backward included, or write x.detach().",
                    self._last_write[id(t.storage)][1]
                    if id(t.storage) in self._last_write
                    else None,
                )
        for owner, hooks, before, line in self.graph.hooks.values():
            if hooks.keys() - before.keys():
                raise self.refusal(
                    f"the function leaves a hook on {owner}, which is from outside, and a replay "
                    f"would not",
                    "Register it before, or remove it in the function.",
                    line,
                )
            if hooks.keys() != before.keys():
                raise self.refusal(
                    f"the function removes a hook from {owner}, which is from outside, and a "
                    f"replay would not",
                    "Remove it outside the compiled function.",
                    line,
                )
        if dtypes.get_default_dtype() is not self._default_dtype:
            raise self.refusal(
                "the default dtype that is set stays when the function returns, and a replay would "
                "not set it",
                "Set it outside, or put back the one that was there.",
                self.default_set_at,
            )
        number = self._arguments.get
        for t in self.graph.needs.values():
            if t._needs is not self.graph.places[id(t)].needs:
                recording.needs.append((number(id(t), -1), t, t._needs))
        repeated = self.graph.repeated()
        recording.placed = [(number(id(t), -1), t, method) for t, method in repeated]
        recording.hooks, recording.looks_around = self._hooks_read, self.looks_around
        recording.modules = [(weakref.ref(m), number) for m, number in self._modules.values()]
        return recording

    def _take_along(self, value: Value) -> None:
        """Have each replay copy an input that lies on the cpu to the device of the tape."""
        storage, source, device = self._inputs[value], self.sources[value], self.tape.device
        if self._values[id(storage)] != value and source.constant is None:
            raise self._refuse_write(f"{self.tape.specs[value]}", storage, device)
        if source.constant is not None:
            self.sources[value] = self._constant_on(storage, device)
        else:
            self.sources[value] = replace(source, moved=device)

    def _refuse_write(self, what: str, storage: Storage, device: str | None) -> CaptureError:
        """The error for a write to a tensor of another device than the tape's."""
        written, source = self._last_write.get(id(storage)), self._roles.get(id(storage))
        remedy = "Return what is to be written, and write it outside."
        if source is not None and source.role == "grad":
            what = f"the gradient {what}"
            remedy = "Set .grad to None before backward, or call backward outside."
        return self.refusal(
            f"{what}, which lies on {storage.device}, is written to, and the function computes on "
            f"{device}",
            remedy,
            written and written[1],
        )

    def placeholder(self, spec: Spec, device: str | None = None) -> Tensor:
        """A tensor that only a later caller can give, on the device of new tensors or another."""
        with changed(device=device or state().device):
            return self._tensor(self.tape.add_input(spec, "arg"))

    def effects(self) -> RecordedEffects:
        """The effects so far on storages, gradients, host scalars and random state."""
        written = {v: self._values[id(s)] for v, s in self._inputs.items()}
        return RecordedEffects(
            {v: now for v, now in written.items() if v != now},
            {key: id(slot.tensor._grad) for key, slot in self._slots.items()},
            {cell: id(now) for cell, (now, then) in self._cells.items() if now is not then},
            {g: (g.seed, g.offset) for g in self._streams},
        )

    def written_at(self, value: Value) -> UserLine | None:
        """The user's line that has written to an input last."""
        return self._last_write[id(self._inputs[value])][1]

    @property
    def graded(self) -> list[Tensor]:
        """The tensors from outside that require grad and that ops were applied to."""
        return [t for t in self._graded.values() if not t.storage.is_recorded]

    def input_of(self, tensor: Tensor) -> Value:
        """The input that stands for the storage of a tensor from outside."""
        self._value_of(tensor)
        return next(v for v, storage in self._inputs.items() if storage is tensor.storage)

    def value_at_end(self, tensor: Tensor) -> Value:
        """The value the tensor's storage holds, as an output of the tape."""
        self._copies.leave(tensor.storage)
        return self._value_of(tensor)

    def restore(self) -> None:
        """Put back everything real that the function changed, and let go of what it made."""
        self._modules.clear()
        self.modules.clear()
        dtypes.set_default_dtype(self._default_dtype)
        for slot in self._slots.values():
            slot.tensor._grad = slot.original
        for storage, before in self._written.values():
            storage.forget_since(before)
        self.graph.restore()
        for generator, stream in self._streams.items():
            generator.seed, generator.offset = stream.original
        # Let go of tensors, so that `alive` finds only those that others hold.
        self._slots, self._cells, self._streams, self._held, self.show = {}, {}, {}, {}, id
        self._graded, self._detached = {}, {}
        self._copies.clear()
        self.symbols.close()

    def alive(self) -> list[tuple[Storage, Value, Spec, UserLine | None]]:
        """The storages made here that still exist: value at the end, spec, user's line."""
        found = ((ref(), spec, line) for ref, spec, line in self._made)
        return [
            (storage, self._values[id(storage)], spec, line)
            for storage, spec, line in found
            if storage is not None
        ]


def _literal(number: bool | int | float) -> TapeOperand:
    """A number as a tape has it: one of a class made of int or float is written in its own way."""
    if type(number) in (int, float, bool):
        return number
    return float(number) if isinstance(number, float) else int(number)


# Frames from `user_line` to the user's on the shortest way: `user_line`, `execute`, `apply` of
# `OpContext` and of the recorder, and an operator of the tensor or `context.apply`.
_LIBRARY_FRAMES = 5
_OPERANDS = frozenset([Tensor, bool, float])  # classes of inputs that need no check
_NOT_COMPUTED = ", but nothing is computed while a function is being recorded"


def refusal(name: str, problem: str, remedy: str, line: UserLine | None = None) -> CaptureError:
    """The error for what cannot be recorded of a function, at a line or the one that is running."""
    line = line or state().line or user_line()
    where = ""
    if line is not None:
        source = linecache.getline(line.code.co_filename, line.number).strip()
        where = f"`{source}` at {line}: " if source else f"at {line}: "
    return CaptureError(f"compile({name}): {where}{problem}. {remedy}")


def _as_python(op: Op, inputs: tuple[Any, ...], params: Params) -> tuple[Any, ...]:
    """Numbers of the host alone, of which Python makes float64 where tensors would be float32:
    `step ** 0.5`."""
    if not op.is_elementwise or all(x.dtype is not int64 for x in _tensors(inputs)):
        return inputs
    made = op.infer(specs_of(op, inputs), params)
    if all(spec.dtype in (bool_, int64, float64) for spec in made):
        return inputs
    return tuple([
        x.to(float64) if isinstance(x, Tensor) and x.dtype is int64 else x for x in inputs
    ])  # fmt: skip


def _are_single(inputs: Sequence[Any]) -> bool:
    """Whether the tensors of inputs lie on the cpu and have no dims: any device's tape computes
    with them."""
    tensors = _tensors(inputs)
    return bool(tensors) and not any(x.layout.shape or x.storage.device != "cpu" for x in tensors)


def _tensors(inputs: Sequence[Any]) -> list[Tensor]:
    return [x for x in inputs if isinstance(x, Tensor)]


def _among(number: Tensor, others: Sequence[Tensor]) -> Tensor:
    """A 0-d tensor that promotes beside others as the Python number would that it stands for."""
    category = number.dtype.category
    if category < dtypes.FLOAT and any(x.dtype.category == dtypes.FLOAT for x in others):
        # Beside floats a whole number is one: some ops take nothing else.
        number, category = number.to(float64), dtypes.FLOAT
    if any(x.layout.shape and x.dtype.category >= category for x in others):
        return number
    rivals = [x.dtype for x in others if x.dtype.category == category]
    if rivals:
        return number.to(dtypes.fold(rivals))
    if category == dtypes.FLOAT and not any(x.dtype.category > category for x in others):
        return number.to(dtypes.get_default_dtype())
    return number


def _cast(inputs: Sequence[Any], casts: Sequence[DType | None]) -> tuple[Any, ...]:
    """Tensors in the dtypes that an op computes in."""
    return tuple(
        x.to(dtype) if isinstance(x, Tensor) and dtype is not None else x
        for x, dtype in zip(inputs, casts)
    )
