"""Tensors: what users hold. Storage, view, dtype, and the node that made it.

Methods that are ops are attached from the registry, so none is written here. What is here is
what a tensor is: its data, its place in the graph, and writing to it.
"""

from __future__ import annotations

import itertools
import weakref
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from contraflow import dtypes, engine
from contraflow.dtypes import DType
from contraflow.errors import DeviceError, GradientError, describe
from contraflow.node import Edge, Node
from contraflow.op import REGISTRY, Op, Spec, apply, changed, state
from contraflow.shapes import Shape, View, contiguous, numel
from contraflow.storage import Storage, user_line

if TYPE_CHECKING:
    from contraflow._methods import Methods
else:

    class Methods:
        """The op methods of Tensor; typed by _methods.pyi, attached from the registry."""


Number = bool | int | float


class Structure:
    """Counts changes that a compiled function must notice: parameters, hooks, modules."""

    epoch = 0

    @classmethod
    def changed(cls) -> None:
        """Raise the epoch."""
        cls.epoch += 1


class Tensor(Methods):
    """A multi-dimensional array that remembers how it was computed."""

    storage: Storage
    view: View
    dtype: DType

    # Defaults of rare fields live on the class, which keeps construction cheap.
    _array: np.ndarray | None = None  # the cpu data under this view, made when first needed
    _needs = False  # requires_grad
    _node: Node | None = None
    _index = 0  # which output of _node this is
    _grad: Tensor | None = None
    _base: Tensor | None = None  # for a view: the tensor it is a view of
    _moves: tuple[tuple[Op, Any], ...] = ()  # for a view: how it came from its base
    _edits = 0  # writes that changed the base's node; a view compares its own with its base's
    _writable = True  # False for views that may not be written under grad, see `write`
    _hooks: dict[int, Any] | None = None
    _accumulated_hooks: dict[int, Any] | None = None
    _retains = False

    __array_priority__ = 1000  # numpy_array * tensor calls the tensor's method

    def __init__(self, *args: Any) -> None:
        raise TypeError("Tensor: use contraflow.tensor(data), zeros, from_numpy and their like.")

    # --- making ---------------------------------------------------------------------------

    @staticmethod
    def of_array(array: np.ndarray) -> Tensor:
        """A tensor over a C-contiguous array, without copying."""
        t = _new(Tensor)
        t.storage = Storage(array.reshape(-1))
        t.view = contiguous(array.shape)
        t.dtype = dtypes._BY_NUMPY[array.dtype]
        t._array = array
        return t

    @staticmethod
    def of_storage(storage: Storage, view: View, dtype: DType) -> Tensor:
        """A tensor over a view of a storage."""
        t = _new(Tensor)
        t.storage, t.view, t.dtype = storage, view, dtype
        return t

    def alias(self) -> Tensor:
        """Another tensor over the same elements, outside any graph."""
        t = _new(Tensor)
        t.storage, t.view, t.dtype, t._array = self.storage, self.view, self.dtype, self._array
        return t

    def attached(self, node: Node, index: int) -> Tensor:
        """An alias that is output `index` of a node."""
        t = self.alias()
        t._node, t._index, t._needs = node, index, True
        return t

    # --- data -----------------------------------------------------------------------------

    @property
    def array(self) -> np.ndarray:
        """The NumPy array of the elements, sharing memory. For the library's own use."""
        array = self._array
        if array is None:
            data = self.storage.data
            if data is None:
                state().context.leave(self, "reading its elements")
            size = self.dtype.itemsize
            shape, strides, offset = self.view
            if 0 in shape:  # such a view may start beyond the end of its storage
                array = self._array = np.empty(shape, self.dtype.numpy)
                return array
            array = self._array = np.ndarray(
                shape, self.dtype.numpy, data, offset * size, tuple(st * size for st in strides)
            )
        return array

    def numpy(self) -> np.ndarray:
        """The elements as a NumPy array that shares memory with this tensor."""
        state().context.leave(self, "numpy()")
        if self._needs:
            raise GradientError(
                f"numpy: {describe(self)} requires grad, and NumPy would lose that. "
                f"Use x.detach().numpy()."
            )
        return self.array

    def item(self) -> bool | int | float:
        """The one element as a Python number."""
        state().context.leave(self, "item()")
        if numel(self.view.shape) != 1:
            raise ValueError(f"item: {describe(self)} does not have exactly one element.")
        value = self.array.item()
        return float(value) if isinstance(value, np.generic) else value

    def tolist(self) -> Any:
        """The elements as nested Python lists."""
        state().context.leave(self, "tolist()")
        array = self.array
        if self.dtype is dtypes.bfloat16:
            array = array.astype(np.float32)
        return array.tolist()

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        array = self.numpy()
        return np.array(array, dtype=dtype, copy=copy)

    def __bool__(self) -> bool:
        if numel(self.view.shape) != 1:
            raise ValueError(
                f"bool: the truth value of {describe(self)} is ambiguous; use .any() or .all()."
            )
        return bool(self.item())

    def __float__(self) -> float:
        return float(self.item())

    def __int__(self) -> int:
        return int(self.item())

    def __index__(self) -> int:
        if self.dtype.is_floating_point:
            raise TypeError(f"index: {describe(self)} is not an integer.")
        return int(self.item())

    def __len__(self) -> int:
        if not self.view.shape:
            raise TypeError("len: a 0-d tensor has no length.")
        return self.view.shape[0]

    def __iter__(self) -> Iterator[Tensor]:
        if not self.view.shape:
            raise TypeError("iter: a 0-d tensor cannot be iterated over.")
        return (self[i] for i in range(self.view.shape[0]))

    # --- description ----------------------------------------------------------------------

    @property
    def shape(self) -> Shape:
        """The size of each dim."""
        return self.view.shape

    @property
    def ndim(self) -> int:
        """The number of dims."""
        return len(self.view.shape)

    @property
    def device(self) -> str:
        """Where the data lies."""
        return self.storage.device

    @property
    def spec(self) -> Spec:
        """Shape and dtype."""
        return Spec(self.view.shape, self.dtype)

    def size(self, dim: int | None = None) -> Any:
        """The shape, or the size of one dim."""
        return self.view.shape if dim is None else self.view.shape[dim]

    def dim(self) -> int:
        """The number of dims."""
        return len(self.view.shape)

    def numel(self) -> int:
        """The number of elements."""
        return numel(self.view.shape)

    def stride(self) -> Shape:
        """Steps between neighbours along each dim, in elements."""
        return self.view.strides

    def storage_offset(self) -> int:
        """Where the first element lies in the storage."""
        return self.view.offset

    def is_contiguous(self) -> bool:
        """Whether the elements lie in row-major order without gaps."""
        return self.view.is_contiguous

    def element_size(self) -> int:
        """Bytes of one element."""
        return self.dtype.itemsize

    @property
    def nbytes(self) -> int:
        """Bytes of all elements."""
        return numel(self.view.shape) * self.dtype.itemsize

    def data_ptr(self) -> int:
        """The address of the first element."""
        return int(self.array.ctypes.data)

    def is_floating_point(self) -> bool:
        """Whether the dtype is a floating-point one."""
        return self.dtype.is_floating_point

    @property
    def mT(self) -> Tensor:
        """The last two dims exchanged."""
        if self.ndim < 2:
            raise ValueError(f"mT: {describe(self)} has fewer than two dims.")
        transposed: Tensor = REGISTRY["transpose"](self, -2, -1)
        return transposed

    @property
    def T(self) -> Tensor:
        """The dims in reverse order."""
        reverse: Tensor = REGISTRY["permute"](self, tuple(reversed(range(self.ndim))))
        return reverse

    def view_as(self, other: Tensor) -> Tensor:
        """The elements under the shape of another tensor."""
        reshaped: Tensor = REGISTRY["reshape"](self, other.shape)
        return reshaped

    def to(self, target: DType | str) -> Tensor:
        """The values in another dtype, or on another device."""
        if isinstance(target, DType):
            return self if target is self.dtype else REGISTRY["to_dtype"](self, dtype=target)
        if str(target) != self.device:
            raise DeviceError(f"to: device {target!r} is not available; there is cpu.")
        return self

    def float(self) -> Tensor:
        """The values as float32."""
        return self.to(dtypes.float32)

    def double(self) -> Tensor:
        """The values as float64."""
        return self.to(dtypes.float64)

    def long(self) -> Tensor:
        """The values as int64."""
        return self.to(dtypes.int64)

    def cpu(self) -> Tensor:
        """The tensor on the cpu."""
        return self.to("cpu")

    def __getitem__(self, key: Any) -> Tensor:
        """Basic indexing gives a view; an integer tensor selects along the first dim."""
        if isinstance(key, (list, np.ndarray)):
            key = _of_numpy(np.asarray(key))
        out: Tensor = REGISTRY["getitem"](self, key=key)
        return out

    def __setitem__(self, key: Any, value: Any) -> None:
        region = self[key]
        if region.storage is not self.storage:
            raise NotImplementedError(
                "setitem: only basic indices (integers, slices, None, ...) can be written to yet."
            )
        check_write(region, "setitem")
        if isinstance(value, np.ndarray):
            value = _of_numpy(value)
        write(region, value, "setitem")

    def copy_(self, source: Tensor) -> Tensor:
        """Write the elements of `source`, broadcast and cast, into this tensor."""
        check_write(self, "copy_")
        return write(self, source, "copy_")

    def fill_(self, value: Number) -> Tensor:
        """Write one value into every element."""
        check_write(self, "fill_")
        return write(self, value, "fill_")

    def zero_(self) -> Tensor:
        """Write zeros."""
        return self.fill_(0)

    @property
    def _version(self) -> int:
        return self.storage.version

    def __repr__(self) -> str:
        if self.storage.is_recorded:
            return f"<recorded {describe(self)}>"
        array = self.array
        if self.dtype is dtypes.bfloat16:
            array = array.astype(np.float32)
        text = np.array2string(
            array, separator=", ", precision=4, suppress_small=False, prefix="tensor("
        )
        extra = "" if self.dtype in _PLAIN else f", dtype={self.dtype!r}"
        if self.node is not None:
            extra += f", grad_fn=<{self.node.name}>"
        elif self._needs:
            extra += ", requires_grad=True"
        return f"tensor({text}{extra})"

    def __hash__(self) -> int:
        return id(self)

    # --- the graph ------------------------------------------------------------------------

    @property
    def node(self) -> Node | None:
        """The node that made this tensor. A view whose base was written is followed up first."""
        base = self._base
        if base is not None and base._edits != self._edits:
            self._rebuild(base)
        return self._node

    def _rebuild(self, base: Tensor) -> None:
        with changed(grad=True):
            t = base
            for op, params in self._moves:
                t = apply(op, (t,), params)
        self._node, self._index, self._needs = t._node, t._index, t._needs
        self._edits = base._edits

    grad_fn = node

    @property
    def is_leaf(self) -> bool:
        """Whether no recorded op made this tensor."""
        return self.node is None

    @property
    def requires_grad(self) -> bool:
        """Whether gradients flow to or through this tensor."""
        base = self._base
        if base is not None and base._edits != self._edits:
            self._rebuild(base)
        return self._needs

    @requires_grad.setter
    def requires_grad(self, value: bool) -> None:
        self.requires_grad_(value)

    def requires_grad_(self, value: bool = True) -> Tensor:
        """Ask for gradients of a leaf, or stop asking; returns the tensor."""
        if self.node is not None:
            if not value:
                raise GradientError(
                    f"requires_grad_: {describe(self)} was made by {self.node.name}; only a leaf "
                    f"can stop requiring grad. Use x.detach()."
                )
            return self
        if value and not self.dtype.is_floating_point:
            raise GradientError(
                f"requires_grad_: {describe(self)} is not floating-point and has no gradient."
            )
        if value != self._needs:
            self._needs = value
            Structure.changed()
        return self

    @property
    def edge(self) -> Edge | None:
        """Where this tensor's gradient goes."""
        node = self.node
        if node is not None:
            return node, self._index
        return (self, 0) if self._needs else None

    @property
    def grad(self) -> Tensor | None:
        """The gradient that backward has accumulated here."""
        state().context.touch_grad(self, reading=True)
        return self._grad

    @grad.setter
    def grad(self, value: Tensor | None) -> None:
        if value is not None:
            if not isinstance(value, Tensor):
                raise TypeError(f"grad: must be a Tensor or None, not {type(value).__name__}.")
            if value.view.shape != self.view.shape or value.dtype is not self.dtype:
                raise ValueError(
                    f"grad: {describe(value)} does not fit {describe(self)}; shape and dtype "
                    f"must be the same."
                )
        state().context.touch_grad(self, reading=False)
        self._grad = value

    def retain_grad(self) -> None:
        """Keep the gradient of a tensor that is not a leaf, in `.grad`."""
        if not self.requires_grad:
            raise GradientError(f"retain_grad: {describe(self)} does not require grad.")
        node = self.node
        if node is not None:
            self._retains = True
            if node.retainers is None:
                node.retainers = {}
            # Weakly, or this tensor and its node would be a cycle.
            node.retainers[self._index] = weakref.ref(self)

    def detach(self) -> Tensor:
        """The same elements outside the graph; memory and version counter are shared."""
        t = self.alias()
        t._base = None
        return t

    @property
    def data(self) -> Tensor:
        """The same elements outside the graph."""
        return self.detach()

    @data.setter
    def data(self, value: Tensor) -> None:
        if not isinstance(value, Tensor):
            raise TypeError(f"data: must be a Tensor, not {type(value).__name__}.")
        self.storage, self.view, self.dtype = value.storage, value.view, value.dtype
        self._array = value._array
        Structure.changed()

    def backward(
        self,
        gradient: Tensor | None = None,
        retain_graph: bool | None = None,
        create_graph: bool = False,
        inputs: Sequence[Tensor] | None = None,
    ) -> None:
        """Accumulate the gradients of this tensor into the `.grad` of its leaves."""
        engine.backward((self,), (gradient,), retain_graph, create_graph, inputs)

    def register_hook(self, hook: Callable[[Tensor], Tensor | None]) -> Handle:
        """Call `hook(grad)` when this tensor's gradient is ready; it may return another."""
        if not self.requires_grad:
            raise GradientError(f"register_hook: {describe(self)} does not require grad.")
        node = self.node
        if node is None:
            Structure.changed()
            if self._hooks is None:
                self._hooks = {}
            return Handle(self._hooks, hook)
        if node.tensor_hooks is None:
            node.tensor_hooks = {}
        return Handle(node.tensor_hooks.setdefault(self._index, {}), hook)

    def register_post_accumulate_grad_hook(self, hook: Callable[[Tensor], None]) -> Handle:
        """Call `hook(tensor)` after `.grad` of this leaf was updated."""
        if self.node is not None or not self._needs:
            raise GradientError(
                f"register_post_accumulate_grad_hook: {describe(self)} is not a leaf that "
                f"requires grad."
            )
        Structure.changed()
        if self._accumulated_hooks is None:
            self._accumulated_hooks = {}
        return Handle(self._accumulated_hooks, hook)

    def __deepcopy__(self, memo: dict[int, Any]) -> Tensor:
        if self.node is not None:
            raise GradientError(
                f"deepcopy: {describe(self)} was made by {self.node.name}; only leaves can be "
                f"copied deeply. Use x.detach().clone()."
            )
        t = _new(type(self))
        t.storage = Storage(np.array(self.array, order="C", copy=True).reshape(-1))
        t.view, t.dtype, t._needs = contiguous(self.view.shape), self.dtype, self._needs
        memo[id(self)] = t
        if self._grad is not None:
            t._grad = self._grad.__deepcopy__(memo)
        return t


_new = object.__new__
_handle_keys = itertools.count()
_PLAIN = (dtypes.float32, dtypes.int64, dtypes.bool_)


class Handle:
    """Removes the hook that was registered with it."""

    def __init__(self, hooks: dict[int, Any], hook: Any) -> None:
        self._hooks = hooks
        self._key = next(_handle_keys)  # never used again: a stale handle removes nothing
        hooks[self._key] = hook

    def remove(self) -> None:
        """Remove the hook; doing so twice is harmless."""
        if self._hooks.pop(self._key, None) is not None:
            Structure.changed()


# --- writing -----------------------------------------------------------------------------------


def check_write(target: Tensor, op: str) -> None:
    """Refuse, before anything changes, a write that would break the graph or overlap itself."""
    if target.view.overlaps_itself():
        raise GradientError(
            f"{op}: {describe(target)} has elements that share memory (it was expanded or cut "
            f"into windows). Use .clone() before writing to it."
        )
    if not state().grad:
        return
    if target.requires_grad and target.is_leaf:
        raise GradientError(
            f"{op}: {describe(target)} is a leaf that requires grad and cannot be written in "
            f"place. Write under contraflow.no_grad(), or to a copy."
        )
    base = target._base
    if base is None:
        return
    if base._needs and base._node is None:
        raise GradientError(
            f"{op}: {describe(target)} is a view of a leaf that requires grad and cannot be "
            f"written in place. Write under contraflow.no_grad(), or to a copy."
        )
    if not target._writable and (base._needs or target._needs):
        raise GradientError(
            f"{op}: {describe(target)} is a view made under no_grad, or one of several made "
            f"together by split, chunk or unbind; writing to it under grad is refused. "
            f"Clone it before."
        )


def write(target: Tensor, value: Any, op: str, fresh: bool = False) -> Tensor:
    """Give the elements of `target` new values: data, version and graph. Returns the target.

    The caller has called `check_write` before it computed `value`; `fresh` says that nobody else
    has that tensor, so that the target may take its place in the graph.
    """
    line = state().line or user_line()
    given = value
    if isinstance(value, Tensor):
        if value.view.shape != target.view.shape:
            value = REGISTRY["expand"](value, target.view.shape)
        if value.dtype is not target.dtype:
            value = REGISTRY["to_dtype"](value, dtype=target.dtype)
    else:
        value = REGISTRY["full"](target.view.shape, value, dtype=target.dtype)
    current = state()
    base = target._base
    tracked = current.grad and (
        value.requires_grad or target.requires_grad or (base is not None and base._needs)
    )
    if not tracked:
        current.context.write(target, value, op, line)
        return target
    if base is None:
        if value is given and not fresh and value.requires_grad:
            value = apply(REGISTRY["clone"], (value,))  # with its own hooks and gradient
        current.context.write(target, value, op, line)
        _move(target, value)
        return target
    region = _region(target, base, op)
    assigned = apply(
        REGISTRY["assign"],
        (base, value),
        {"shape": region.shape, "strides": region.strides, "offset": region.offset},
    )
    current.context.write(target, value, op, line)
    _move(base, assigned)
    return target


def _region(target: Tensor, base: Tensor, op: str) -> View:
    """Where a view's elements stand among its base's, counted as if that were contiguous."""
    region = contiguous(base.view.shape)
    for move, params in target._moves:
        moved: View | None = move.body(region, **params)
        if moved is None:  # the base's own memory is not in order, so it was a view there
            raise GradientError(
                f"{op}: {describe(target)} is no regular part of its base {describe(base)}, whose "
                f"memory is strided. Use .contiguous() on the base before."
            )
        region = moved
    return region


def _move(target: Tensor, source: Tensor) -> None:
    """Put `target` where `source` stands in the graph; its views follow when they are used."""
    if target._retains and target._node is not None and target._node.retainers:
        target._node.retainers.pop(target._index, None)
    target._node, target._index, target._needs = source.node, source._index, source._needs
    target._edits += 1
    if target._retains and target._node is not None:
        target.retain_grad()


# --- methods from the registry -----------------------------------------------------------------


def _attach(op: Op) -> None:
    """Give Tensor the method, the operators and the in-place method of an op."""
    if op.method:

        def method(self: Tensor, *args: Any, **kwargs: Any) -> Any:
            return op(self, *args, **kwargs)

        _name(method, op.name, op)
        if op.name not in Tensor.__dict__:
            setattr(Methods, op.name, method)
    for operator in op.operators:
        setattr(Methods, operator, _operator(op, operator))
    if op.inplace:

        def inplace(self: Tensor, *args: Any, **kwargs: Any) -> Tensor:
            check_write(self, f"{op.name}_")
            value = op(self, *args, **kwargs)
            if value.view.shape != self.view.shape:
                raise ValueError(
                    f"{op.name}_: the result {describe(value)} does not fit into {describe(self)}."
                )
            if value.dtype.category > self.dtype.category:
                raise TypeError(
                    f"{op.name}_: the result is {value.dtype} and cannot be written into "
                    f"{describe(self)}."
                )
            return write(self, value, f"{op.name}_", fresh=True)

        _name(inplace, f"{op.name}_", op)
        setattr(Methods, f"{op.name}_", inplace)
        for operator in op.operators:
            if operator in INPLACE_OPERATORS:
                setattr(Methods, INPLACE_OPERATORS[operator], inplace)


INPLACE_OPERATORS = {
    "__add__": "__iadd__", "__sub__": "__isub__", "__mul__": "__imul__",
    "__truediv__": "__itruediv__",
}  # fmt: skip


def _name(function: Callable[..., Any], name: str, op: Op) -> None:
    function.__name__ = name
    function.__qualname__ = f"Tensor.{name}"
    function.__doc__ = op.__doc__


def _operator(op: Op, operator: str) -> Callable[..., Any]:
    """A dunder method; reflected ones swap their operands."""
    if len(op.inputs) == 1:

        def unary(self: Tensor) -> Any:
            return apply(op, (self,))

        return unary
    reflected = operator in _REFLECTED

    def binary(self: Tensor, other: Any) -> Any:
        if not isinstance(other, _OPERANDS):
            if not isinstance(other, (np.ndarray, np.generic)):
                return NotImplemented
            other = _of_numpy(other)
        a, b = (other, self) if reflected else (self, other)
        return apply(op, (a, b)) if op.call == op.bind else op.call(a, b)

    return binary


def _of_numpy(value: np.ndarray | np.generic) -> Tensor:
    """A tensor with a copy of a NumPy array or scalar, if its dtype is one of ours."""
    array = np.array(value, order="C")
    dtypes.from_numpy(array.dtype)
    return Tensor.of_array(array)


_OPERANDS = (Tensor, float, int)
_REFLECTED = {f"__r{n}__" for n in ("add", "sub", "mul", "truediv", "pow", "matmul")}

REGISTRY.subscribe(_attach)
