"""Dispatch: the context on top of the thread's stack decides what applying an op does.

`apply(op, inputs, params)` is how an op is used inside the library.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from contextvars import ContextVar
from functools import partial
from io import IOBase
from typing import TYPE_CHECKING, Any

from contraflow.dtypes import DType, bfloat16, float16, float32
from contraflow.errors import CaptureError, DeviceError, describe_there
from contraflow.spec import NO_PARAMS, Params

if TYPE_CHECKING:
    from contraflow.operation.op import Op


class Context:
    """Decides what applying an op does: run it, record it, push tangents, batch it.

    A context handles what concerns it and passes the rest on to the context `below`. Only the
    bottom of a stack is made without one.
    """

    below: Context
    first_node = 0  # backward may not reach nodes with lower numbers; see `refuse_node`
    is_recording = False  # tensors have no values here
    replays = False  # a compiled function may replay its program here, since nothing else listens
    hits = False  # a compiled call may use its generated function, which reports no reads
    immediate = False  # ops have values at once, and nothing else listens
    symbols: Any = None  # of the numbers of the recording that hears of ops here, if one does
    cotangents: Any = None  # how backward deals in cotangents; None: as tensors, by ops
    timeline: Any = None  # where programs note how long each of their kernels takes, if anywhere

    def __init__(self, below: Context | None = None) -> None:
        """Stand over a context, and take over what is true over it too.

        The other attributes are promises about who listens, which each context makes for itself:
        `replays` and `hits` where it need not hear of ops that run inside of a program,
        `immediate` and `cotangents` where it need not hear of ops and gradient rules at all,
        `symbols` where each op is recorded as it is.
        """
        if below is not None:
            self.below = below
            self.first_node, self.is_recording = below.first_node, below.is_recording
            self.timeline = below.timeline

    def apply(self, op: Op, inputs: tuple[Any, ...], params: Params) -> Any:
        """Apply `op`."""
        return self.below.apply(op, inputs, params)

    def write(self, target: Any, value: Any, op: str, line: Any) -> None:
        """Put the elements of `value` into the memory of `target` and count the write.

        Where ops have values at once (`immediate`) it may be a float, on the cpu.
        """
        self.below.write(target, value, op, line)

    def snapshot(self, tensor: Any) -> Any:
        """A tensor of the elements that `tensor` has now, whatever is written to it later."""
        return self.below.snapshot(tensor)

    def derive(self, node: Any, named: list[Any]) -> list[Any]:
        """Run the rules of an op's node on what they name: the gradient of each input.

        Not by the context below, so that this one hears of their ops. Rules make tensors where
        those that they are given lie.
        """
        bound, given = node.bound, (node.op, named, node.params, node.input_specs)
        gradients: list[Any]
        current = state()
        device = (device_of(named) if other_devices else None) or current.device
        deriving = node if self.is_recording else current.deriving
        if device == current.device and deriving is current.deriving:
            gradients = bound.run(*given)
        else:
            with changed(device=device, deriving=deriving):
                gradients = bound.run(*given)
        return gradients

    def leave(self, tensor: Any, what: str) -> None:
        """Data of `tensor` is about to become Python's; a recording refuses."""
        self.below.leave(tensor, what)

    def copied(self, tensor: Any) -> Any:
        """A storage with a copy of the memory of `tensor`."""
        return self.below.copied(tensor)

    def stand_in(self, copy: Any, whole: Any, symbols: tuple[Any, ...], key: Any) -> None:
        """A copy of a part of a tensor was made where eager mode has a view (`symbols`)."""
        self.below.stand_in(copy, whole, symbols, key)

    def putting_back(self, whole: Any, key: Any, value: Any) -> AbstractContextManager[Any]:
        """Where a value is written to a part of a tensor, as the end of `whole[key] += x` is."""
        return self.below.putting_back(whole, key, value)

    def detached(self, tensor: Any, origin: Any) -> Any:
        """A tensor that was taken out of the graph here, as it is for those outside as well."""
        return self.below.detached(tensor, origin)

    def placed(self, base: Any, value: Any, region: Any) -> Any:
        """`base` where it stands in the graph once `value` was written to a region of it."""
        return self.below.placed(base, value, region)

    def touch_grad(self, tensor: Any, reading: bool) -> None:
        """The `.grad` of `tensor` is about to be read or set."""
        self.below.touch_grad(tensor, reading)

    def touch_needs(self, tensor: Any) -> None:
        """The `requires_grad` of `tensor` is about to be set."""
        self.below.touch_needs(tensor)

    def touch_store(self, store: Any) -> None:
        """A store of gradients is about to be changed."""
        self.below.touch_store(store)

    def touch_place(self, tensor: Any, method: str) -> None:
        """A method is about to change the place of `tensor` in the graph, or what is kept there.

        The name is empty for a view that follows its base.
        """
        self.below.touch_place(tensor, method)

    def touch_hooks(self, owner: Any, hooks: dict[int, Any]) -> None:
        """A hook is about to be put on a leaf or a node, in one of its tables."""
        self.below.touch_hooks(owner, hooks)

    def remove_hook(self, key: int, hooks: dict[int, Any]) -> None:
        """A hook is about to be removed from its table."""
        self.below.remove_hook(key, hooks)

    def read_hooks(self, leaf: Any) -> None:
        """The hooks on a leaf are about to be read: backward has come to it."""
        self.below.read_hooks(leaf)

    def read_places(self, roots: Any, targets: Any) -> None:
        """Backward is about to look from some tensors for others, wherever these are in the graph.

        Only a context that records is told.
        """
        self.below.read_places(roots, targets)

    def draw(self, generator: Any, blocks: int) -> tuple[Any, Any]:
        """Take `blocks` counters of a random generator: its (seed, offset) before, as op inputs."""
        return self.below.draw(generator, blocks)

    def replay(self, read: Iterable[Any], written: Iterable[Any], random: Iterable[Any]) -> None:
        """A program is about to run that reads tensors, writes to some and draws random numbers."""
        self.below.replay(read, written, random)

    def read_generator(self, generator: Any) -> None:
        """The state of a random generator is about to be read."""
        self.below.read_generator(generator)

    def write_generator(self, generator: Any, saved: tuple[int, int]) -> None:
        """The state of a random generator is about to be set."""
        self.below.write_generator(generator, saved)

    def refusal(self, problem: str, remedy: str = "", line: Any = None) -> CaptureError:
        """The error for something that cannot be recorded, at a line or the one that is running."""
        return self.below.refusal(problem, remedy, line)

    def refuse_node(self, node: Any) -> None:
        """Backward has reached a node that is older than `first_node`."""
        self.below.refuse_node(node)

    def read_scalar(self, cell: Any) -> Any:
        """The value of a host scalar."""
        return self.below.read_scalar(cell)

    def write_scalar(self, cell: Any, value: Any) -> None:
        """Set a host scalar."""
        self.below.write_scalar(cell, value)

    def watches(self, tensor: Any) -> bool:
        """Whether forward mode pushes a tangent of `tensor`."""
        return self.below.watches(tensor)

    def push(self, node: Any, inputs: Sequence[Any], outs: Sequence[Any]) -> None:
        """A node of no op was made: forward mode derives its derivative from its backward."""
        self.below.push(node, inputs, outs)

    def enter_function(self, name: str, inputs: Sequence[Any]) -> None:
        """A custom function with a backward of its own is about to run."""
        self.below.enter_function(name, inputs)

    def shared_array(self, array: Any) -> Any:
        """A tensor over an array from outside that a recording reads at every call, else None."""
        return self.below.shared_array(array)

    def visit_module(self, module: Any) -> None:
        """A module is being called: a recording depends on its structure from now on."""
        self.below.visit_module(module)

    def use_once(self) -> None:
        """The recording holds for this call only; the next call is recorded again."""
        self.below.use_once()


_DEVICE = {"device"}


class ThreadState:
    """Everything that is per thread: the contexts and the modes. Never changed, only replaced."""

    __slots__ = (
        "context", "grad", "stopped", "inference", "anomaly", "task", "region", "line",
        "deriving", "saved_hooks", "autocast", "device", "nearby",
    )  # fmt: skip

    def __init__(
        self,
        context: Context,
        grad: bool = True,
        stopped: bool = False,  # the user has turned `grad` off: for contexts below as well
        inference: bool = False,
        anomaly: bool = False,  # look for values that are not finite
        task: Any = None,  # the backward pass that is running
        region: int = 0,  # the checkpointed recomputation that is running, 0 outside
        line: Any = None,  # the user's line, once an outer library call has taken it
        deriving: Any = None,  # the node whose gradient rules are being recorded
        saved_hooks: tuple[Any, ...] = (),
        autocast: DType | None = None,  # what ops declared for it compute in
        device: str | None = None,  # where tensors are made; None: on the default device
    ) -> None:
        self.context = context
        self.grad, self.stopped, self.inference, self.anomaly = grad, stopped, inference, anomaly
        self.task, self.region, self.line, self.deriving = task, region, line, deriving
        self.saved_hooks, self.autocast, self.device = saved_hooks, autocast, device
        self.nearby: dict[str | None, ThreadState] | None = None  # copies for other devices

    def __eq__(self, other: object) -> bool:
        """Whether another state has the same fields, whatever copies for devices each has made."""
        fields = [name for name in self.__slots__ if name != "nearby"]
        return isinstance(other, ThreadState) and all(
            getattr(self, name) == getattr(other, name) for name in fields
        )

    __hash__ = None  # type: ignore[assignment]

    def replaced(self, fields: Mapping[str, Any]) -> ThreadState:
        """A copy with other values for some fields; one for a device is made once, since ops on
        devices need it all the time."""
        if fields.keys() == _DEVICE:
            if self.nearby is None:
                self.nearby = {}
            found = self.nearby.get(fields["device"])
            if found is not None:
                return found
        new = ThreadState(
            self.context, self.grad, self.stopped, self.inference, self.anomaly, self.task,
            self.region, self.line, self.deriving, self.saved_hooks, self.autocast, self.device,
        )  # fmt: skip
        for name, value in fields.items():
            setattr(new, name, value)
        if fields.keys() == _DEVICE and self.nearby is not None:
            self.nearby[fields["device"]] = new
        return new


# Threads that never set a state see the default, whose context `set_base_context` installs.
_base = ThreadState(Context())
_state: ContextVar[ThreadState] = ContextVar("contraflow_state", default=_base)
state = _state.get  # this thread's state


def set_base_context(context: Context) -> None:
    """Install the context at the bottom of every thread's stack."""
    _base.context = context


def outermost() -> Context:
    """The context at the bottom of every thread's stack, which computes at once."""
    return _base.context


class changed(IOBase):
    """Replace fields of this thread's state in a block, and restore them however it ends.

    An interrupt may come before the first instruction of a Python function, `__exit__` too, and
    would leave the state changed. The `__exit__` of IOBase is written in C and calls `close`, which
    is in C here as well.
    """

    closed = True  # so the object itself has nothing to close
    close: Any

    def __init__(self, **fields: Any) -> None:
        self.fields = fields

    def __enter__(self) -> ThreadState:  # type: ignore[override]
        before = state()
        new = before.replaced(self.fields)
        try:
            self.close = partial(_state.reset, _state.set(new))
        except BaseException:
            _state.set(before)
            raise
        return new


def change(**fields: Any) -> None:
    """Replace fields of this thread's state from now on; a surrounding `changed` still ends."""
    _state.set(state().replaced(fields))


# --- devices ---------------------------------------------------------------------------------

# Gives the user's line that led here, for messages: `tensors.source_line`, which knows whose code
# is whose, puts its own function in this place.
user_line: Callable[[], Any] = type(None)
# The devices beside the cpu that are open, by name: while there are none, no code looks for one.
other_devices: dict[str, Any] = {}


def device_of(values: Iterable[Any]) -> str | None:
    """The device of the tensors among values, and in sequences among those; None without any.

    Where a few lie on the cpu and others do not it is the device of those.
    """
    found = None
    for value in values:
        if isinstance(value, (tuple, list)):
            device = device_of(value)
        else:
            device = getattr(getattr(value, "storage", None), "device", None)
        if device is not None:
            if device != "cpu":
                return device
            found = device
    return found


def mixed(
    op: str, operands: Mapping[str, Any], move: str | None = None, remedy: str | None = None
) -> DeviceError:
    """The error for two tensors of different devices, by the names that the user has for them.

    It says which one to `move`, by default that of the cpu, or gives the `remedy` instead. The
    function that the user called is named where it is known, otherwise `op`.
    """
    (one, a), (other, b) = operands.items()
    if move is None:
        move = other if str(b.device) == "cpu" else one
    moved, there = (b, a) if move == other else (a, b)
    what = move if move.isidentifier() else "x"  # others have no name that can be written
    remedy = remedy or f"Move the one on {moved.device}: {what}.to({str(there.device)!r})."
    line = state().line or user_line()
    where = "" if line is None else f" at {line}"
    return DeviceError(
        f"{getattr(line, 'op', None) or op}: {one} is {describe_there(a)} and {other} is "
        f"{describe_there(b)}{where}; tensors must lie on one device. {remedy}"
    )


def call_near(function: Callable[..., Any], args: Any, kwargs: Mapping[str, Any]) -> Any:
    """Call a function of the library, which makes tensors where those among its arguments lie.

    One that calls a function of the user's does not: in that, tensors are made where the user says.
    """
    device = device_of((*args, *kwargs.values()))
    if device is None or device == state().device or any(map(callable, (*args, *kwargs.values()))):
        return function(*args, **kwargs)
    with changed(device=device):
        return function(*args, **kwargs)


def apply(op: Op, inputs: tuple[Any, ...], params: Params = NO_PARAMS) -> Any:
    """Apply an op in recorded form: tensors and numbers positional, everything static by name."""
    current = state()
    if current.autocast is not None:
        return _apply_autocast(op, inputs, params, current.autocast)
    return current.context.apply(op, inputs, params)


def _apply_autocast(op: Op, inputs: tuple[Any, ...], params: Params, low: DType) -> Any:
    """Apply an op to inputs of the dtype that it declares for autocast; its parts follow it."""
    with changed(autocast=None):
        if op.autocast is not None:
            wanted = low if op.autocast == "low" else float32
            inputs = tuple(
                x.to(wanted)
                if getattr(x, "dtype", None) in _AUTOCAST and x.dtype is not wanted
                else x
                for x in inputs
            )
        return apply(op, inputs, params)


_AUTOCAST = (float32, float16, bfloat16)  # others stay what they are
