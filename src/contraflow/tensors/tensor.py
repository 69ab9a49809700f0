"""Tensors: the handles that users hold, with storage, view, dtype and node.

Methods that are ops are attached from the registry (`methods.py`), so none is written here. This
module has the tensor itself: how one is made, and its place in the graph. Its elements are in
`elements.py`, writing to it in `writing.py`.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterator
from copy import deepcopy
from typing import Any

import numpy as np

from contraflow import devices, dtypes, thresholds
from contraflow.devices.cpu import memory
from contraflow.devices.names import Device
from contraflow.dtypes import DType
from contraflow.errors import DeviceError, GradientError, describe
from contraflow.expressions.expression import Number
from contraflow.operation import core
from contraflow.operation.context import apply, changed, mixed, other_devices, state
from contraflow.operation.op import Op
from contraflow.operation.public import public
from contraflow.shapes import Sizes, View, contiguous, contiguous_strides, numel
from contraflow.tensors import convert, grad_slot
from contraflow.tensors.elements import TensorElements
from contraflow.tensors.epoch import Structure
from contraflow.tensors.grad_slot import Block
from contraflow.tensors.hooks import Handle
from contraflow.tensors.node import Edge, Node
from contraflow.tensors.printing import tensor_text
from contraflow.tensors.storage import Storage, serials
from contraflow.tensors.tree import map_leaves


class Tensor(TensorElements):
    """A multi-dimensional array that remembers how it was computed.

    `contraflow.tensor` makes one of numbers, and every op makes others.

    >>> import contraflow as cf
    >>> x = cf.tensor([[1.0, 2.0], [3.0, 4.0]], requires_grad=True)
    >>> (x * x).sum().backward()
    >>> x.grad
    tensor([[2., 4.],
            [6., 8.]])
    """

    # Defaults of rare fields live on the class, which keeps construction cheap.
    _node: Node | None = None
    _index = 0  # which output of _node this is
    _slot: Tensor | Block | None = None  # what `.grad` holds, see `grad_slot`
    _base: Tensor | None = None  # for a view: the tensor it is a view of
    _view_ops: Any = ()  # for a view: how it came from its base, see `view_ops`
    _edits = 0  # writes that changed the base's node; a view compares its own with its base's
    _writable = True  # False for views that may not be written under grad, see `write`
    _tangents: dict[Any, Tensor] | None = None  # forward mode's, by the context that pushes them
    _hooks: dict[int, Any] | None = None
    _accumulated_hooks: dict[int, Any] | None = None
    _retains = False

    __array_priority__ = 1000  # numpy_array * tensor calls the tensor's method

    def __new__(cls, *args: Any, device: Any = None, **kwargs: Any) -> Any:
        """PyTorch's old constructor: `Tensor(2, 3)` has a shape, `Tensor([2, 3])` these elements.

        It starts with zeros, in the default dtype. `contraflow.tensor` says what it does more
        clearly.
        """
        if cls is not Tensor:
            return _new(cls)  # whose own __init__ makes it
        if kwargs:
            raise TypeError(
                f"Tensor: takes sizes or data, not {', '.join(kwargs)}. Use contraflow.tensor."
            )
        return Tensor.of_sizes_or_data("Tensor", args, dtypes.get_default_dtype(), device)

    # --- making ---------------------------------------------------------------------------

    @staticmethod
    def of_array(array: np.ndarray) -> Tensor:
        """A tensor over a C-contiguous array, without copying."""
        t = _new(Tensor)
        # As `Storage(array)`, without a call: there is one of these per op.
        storage = t.storage = _new(Storage)
        storage._data, storage.serial = array, next(serials)
        storage.version, storage.inference = 0, False
        t.layout = contiguous(array.shape)
        t.dtype = dtypes._BY_NUMPY[array.dtype]
        t._array = array
        t._needs, t._node, t._index, t._base, t._tangents = False, None, 0, None, None
        return t

    @staticmethod
    def of_storage(storage: Storage, view: View, dtype: DType) -> Tensor:
        """A tensor over a view of a storage."""
        t = _new(Tensor)
        t.storage, t.layout, t.dtype = storage, view, dtype
        return t

    @staticmethod
    def of_buffer(buffer: Any, device: str) -> Tensor:
        """A tensor over a whole buffer of a device, without copying."""
        if device == "cpu":
            return Tensor.of_array(buffer)
        t = _new(Tensor)
        # As `Storage(buffer, device)`, without a call: there is one of these per op.
        storage = t.storage = _new(Storage)
        storage._data, storage.device, storage.serial = buffer, device, next(serials)
        t.layout, t.dtype = contiguous(buffer.shape), buffer.dtype
        return t

    @staticmethod
    def of_data(
        op: str, data: Any, dtype: DType | None, device: Any = None, requires_grad: bool = False
    ) -> Tensor:
        """A tensor with a copy of numbers, nested sequences, NumPy arrays or tensors."""
        name = str(devices.find(op, device))
        if isinstance(dtype, type):
            dtype = dtypes.of_python(dtype)
        if not state().context.hits and isinstance(data, (Tensor, list, tuple)):
            found: set[DType] = set()
            if convert.holds_tensors(op, data, found):  # whose values are not known while recording
                copied = _copied(op, data, dtype or convert.dtype_of(found)).to(name)
                return copied.requires_grad_() if requires_grad else copied
        elif isinstance(data, np.ndarray):
            shared = state().context.shared_array(data)
            if shared is not None:  # read at every call
                dtype = dtype or shared.dtype
                copies = shared.dtype is dtype and name == "cpu"
                made: Tensor = shared.clone() if copies else shared.to(name, dtype)
                return made.requires_grad_() if requires_grad else made
        array = convert.array_of(op, data, dtype)
        if name != "cpu":
            array = devices.lookup(name).upload(array)
        t = Tensor.of_buffer(array, name)
        if state().inference:
            t.storage.inference = True
        return t.requires_grad_() if requires_grad else t

    @staticmethod
    def of_sizes_or_data(op: str, args: tuple[Any, ...], dtype: DType, device: Any) -> Tensor:
        """A tensor by PyTorch's old constructors: of zeros for sizes, else a copy of data."""
        sized = len(args) != 1 or isinstance(args[0], (int, Sizes))
        if not sized:
            if isinstance(args[0], Tensor) and args[0].dtype is dtype and device is None:
                return args[0].detach()
            return Tensor.of_data(op, args[0], dtype, device)
        sizes = args[0] if len(args) == 1 and isinstance(args[0], Sizes) else args or (0,)
        if not all(isinstance(n, int) and n >= 0 for n in sizes):
            raise TypeError(f"{op}: takes sizes, or one sequence or array of elements.")
        zeros: Tensor = core.full(tuple(sizes), 0, dtype=dtype, device=device)
        return zeros

    def alias(self) -> Tensor:
        """Another tensor over the same elements, outside any graph."""
        t = _new(Tensor)
        t.storage, t.layout, t.dtype, t._array = self.storage, self.layout, self.dtype, self._array
        if self._tangents is not None:
            t._tangents = self._tangents
        return t

    def attached(self, node: Node, index: int) -> Tensor:
        """An alias that is output `index` of a node."""
        t = _new(Tensor)
        t.storage, t.layout, t.dtype, t._array = self.storage, self.layout, self.dtype, self._array
        t._node, t._index, t._needs = node, index, True
        if self._tangents is not None:
            t._tangents = self._tangents
        return t

    # --- NumPy ----------------------------------------------------------------------------

    def __array_wrap__(
        self, array: np.ndarray, context: Any = None, return_scalar: bool = False
    ) -> Tensor:
        """The result of a NumPy ufunc on tensors is a tensor."""
        return of_numpy(array)

    def __array_function__(self, function: Any, types: Any, args: Any, kwargs: Any) -> Any:
        """NumPy's other functions get arrays, and give what they give for those."""
        force = function in (np.shape, np.ndim, np.size)  # these read no elements

        def plain(x: Any) -> Any:
            return x.numpy(force=force) if isinstance(x, Tensor) else x

        return function(*map_leaves(plain, tuple(args)), **map_leaves(plain, dict(kwargs)))

    def __iter__(self) -> Iterator[Tensor]:
        if not self.layout.shape:
            raise TypeError("iter: a 0-d tensor cannot be iterated over.")
        return (self[i] for i in range(self.layout.shape[0]))

    # --- other tensors of the elements ----------------------------------------------------

    @property
    def mT(self) -> Tensor:
        """The last two dims exchanged.

        >>> import contraflow as cf
        >>> cf.ones(5, 2, 3).mT.shape
        (5, 3, 2)
        """
        if self.ndim < 2:
            raise ValueError(f"mT: {describe(self)} has fewer than two dims.")
        transposed: Tensor = core.transpose(self, -2, -1)
        return transposed

    @property
    def mH(self) -> Tensor:
        """The last two dims exchanged, and conjugated, which real numbers are.

        >>> import contraflow as cf
        >>> cf.ones(5, 2, 3).mH.shape
        (5, 3, 2)
        """
        return self.mT

    def adjoint(self) -> Tensor:
        """The last two dims exchanged, and conjugated, which real numbers are.

        >>> import contraflow as cf
        >>> cf.ones(5, 2, 3).adjoint().shape
        (5, 3, 2)
        """
        return self.mT

    @property
    def real(self) -> Tensor:
        """The tensor itself: numbers are real.

        >>> import contraflow as cf
        >>> cf.tensor([1.0, 2.0]).real
        tensor([1., 2.])
        """
        return self

    @property
    def H(self) -> Tensor:
        """A matrix transposed, and conjugated, which real numbers are.

        >>> import contraflow as cf
        >>> cf.tensor([[1.0, 2.0]]).H
        tensor([[1.],
                [2.]])
        """
        if self.ndim not in (0, 2):
            raise ValueError(f"H: {describe(self)} is not a matrix. Use x.mH.")
        return self.T

    @property
    def T(self) -> Tensor:
        """The dims in reverse order.

        >>> import contraflow as cf
        >>> cf.ones(2, 3).T.shape
        (3, 2)
        """
        dims = tuple(range(len(self.layout.shape)))[::-1]
        reverse: Tensor = apply(core.permute, (self,), {"dims": dims})
        return reverse

    def view_as(self, other: Tensor) -> Tensor:
        """The elements under the shape of another tensor.

        >>> import contraflow as cf
        >>> cf.ones(6).view_as(cf.ones(2, 3)).shape
        (2, 3)
        """
        reshaped: Tensor = core.view(self, other.shape)
        return reshaped

    def to(self, *args: Any, **kwargs: Any) -> Tensor:
        """The values in another dtype or on another device; the tensor itself if nothing changes.

        `x.to(dtype)`, `x.to(device, dtype)` or `x.to(other)`, and by name `dtype=`, `device=`;
        `copy=True` makes a copy always. With `non_blocking` a device may still read the elements of
        a tensor in pinned memory (`pin_memory`) when this has returned: do not change them before
        something waits for the device. Otherwise it changes nothing.

        >>> import contraflow as cf
        >>> cf.tensor([1.5, -2.5]).to(cf.int64)
        tensor([ 1, -2])
        """
        device, dtype, copy, non_blocking = _destination(args, kwargs)
        here = self.storage.device
        there = here if device is None else str(devices.find("to", device))
        moved = self
        # The cpu casts, since another device may lack the dtype; in a recording the other one does,
        # which computes there.
        late = (here == "cpu") != state().context.is_recording
        where = {"device": there, "source": here, "non_blocking": non_blocking}
        if here != there and not late:
            moved = core.to_device(moved, **where)
        if dtype is not None and dtype is not self.dtype:
            moved = core.to_dtype(moved, dtype=dtype)
        if here != there and late:
            moved = core.to_device(moved, **where)
        return core.clone(self) if copy and moved is self else moved

    def type(self, dtype: Any = None, non_blocking: bool = False) -> Any:
        """PyTorch's name of the type of this tensor, or the values as another type.

        A dtype keeps the device; a type such as `cuda.FloatTensor`, or its name, has one.

        >>> import contraflow as cf
        >>> cf.ones(2).type(), cf.ones(2).type(cf.int64).type()
        ('torch.FloatTensor', 'torch.LongTensor')
        """
        if dtype is None:
            title = next(k for k, d in dtypes.TENSOR_NAMES.items() if d is self.dtype)
            where = "" if self.storage.device == "cpu" else f"{self.device.type}."
            return f"torch.{where}{title}Tensor"
        place = getattr(dtype, "place", None)
        if isinstance(dtype, str):
            module, _, name = dtype.rpartition(".")
            dtype = dtypes.TENSOR_NAMES.get(name.removesuffix("Tensor"), dtype)
            place = "cuda" if module.endswith("cuda") else "cpu"
        dtype = getattr(dtype, "dtype", dtype)
        if not isinstance(dtype, DType):
            raise TypeError(f"type: {dtype!r} is not a dtype. Use one such as contraflow.float32.")
        if place is None or place == self.device.type:
            return self.to(dtype)
        return self.to(place, dtype, non_blocking=non_blocking)

    def type_as(self, other: Tensor) -> Tensor:
        """The values in the dtype of another tensor, on its device.

        >>> import contraflow as cf
        >>> cf.tensor([1, 2]).type_as(cf.ones(1))
        tensor([1., 2.])
        """
        return self.to(other)

    def cpu(self) -> Tensor:
        """The tensor on the cpu.

        >>> import contraflow as cf
        >>> cf.ones(2).cpu().device
        device(type='cpu')
        """
        return self.to("cpu")

    def cuda(
        self, device: Device | str | int | None = None, non_blocking: bool = False,
        memory_format: object = None,
    ) -> Tensor:  # fmt: skip
        """The tensor on a CUDA device.

        >>> import contraflow as cf
        >>> cf.ones(2).cuda().device  # doctest: +SKIP
        device(type='cuda', index=0)
        """
        if isinstance(device, int):
            device = f"cuda:{device}"
        return self.to("cuda" if device is None else device, non_blocking=non_blocking)

    def pin_memory(self, device: Device | str | None = None) -> Tensor:
        """A copy in memory of the host that a device copies from by itself, for
        `to(device, non_blocking=True)`.

        Without a name it is for the first device that is open. Where none of them has use for it,
        this is the tensor itself.

        >>> import contraflow as cf
        >>> cf.ones(2).pin_memory().is_pinned()  # doctest: +SKIP
        True
        """
        state().context.leave(self, "pin_memory()")
        if self.storage.device != "cpu":
            raise DeviceError(f"pin_memory: {describe(self)} does not lie on the cpu.")
        if self._needs:
            raise GradientError(
                f"pin_memory: {describe(self)} requires grad, which its copy would lose. Use "
                f"x.detach()."
            )
        named = list(other_devices) if device is None else [str(devices.find("pin_memory", device))]
        for name in named:
            if self.storage.pinned == name:
                return self
            array = devices.lookup(name).pinned(self.layout.shape, self.dtype)
            if array is not None:
                np.copyto(array, self.array)
                copy = Tensor.of_array(array)
                copy.storage.pinned = name
                return copy
        return self

    def is_pinned(self, device: Device | str | None = None) -> bool:
        """Whether `pin_memory` made it, for this device or for any.

        >>> import contraflow as cf
        >>> cf.ones(2).is_pinned()
        False
        """
        pinned = self.storage.pinned
        return pinned == str(Device(device)) if device is not None else bool(pinned)

    def new(self, *args: Any, device: Any = None) -> Tensor:
        """PyTorch's old constructor, in the dtype of this tensor, and on its device.

        >>> import contraflow as cf
        >>> cf.ones(2).new([3, 4])
        tensor([3., 4.])
        """
        where = self.storage.device if device is None else device
        return Tensor.of_sizes_or_data("new", args, self.dtype, where)

    def share_memory_(self) -> Tensor:
        """The tensor itself: processes do not share tensors, and `is_shared` says so.

        >>> import contraflow as cf
        >>> cf.ones(2).share_memory_().is_shared()
        False
        """
        return self

    def record_stream(self, stream: Any) -> None:
        """Nothing: memory is given back when no program needs it.

        >>> import contraflow as cf
        >>> cf.ones(2).record_stream(None)
        """

    def resize_(self, *sizes: Any, memory_format: object = None) -> Tensor:
        """Change the shape in place; elements that are new are zeros.

        >>> import contraflow as cf
        >>> cf.arange(3).resize_(2, 2)
        tensor([[0, 1],
                [2, 0]])
        """
        given = sizes[0] if len(sizes) == 1 and isinstance(sizes[0], (tuple, list)) else sizes
        shape = tuple(int(n) for n in given)
        if min(shape, default=0) < 0:
            raise ValueError(f"resize_: {shape} has a negative size.")
        if self.requires_grad:
            raise GradientError(
                f"resize_: {describe(self)} requires grad. Use x.reshape, or x.detach() before."
            )
        if shape == self.layout.shape:
            return self
        flat, count = core.reshape(self.detach(), (-1,)), numel(shape)
        if count <= flat.shape[0]:
            kept = flat[:count]
        else:
            kept = core.full((count,), 0, dtype=self.dtype, device=self.device)
            kept[: flat.shape[0]].copy_(flat)
        self.data = core.reshape(kept, shape)
        return self

    def resize_as_(self, other: Tensor, memory_format: object = None) -> Tensor:
        """Take the shape of another tensor, in place; elements that are new are zeros.

        >>> import contraflow as cf
        >>> cf.ones(2).resize_as_(cf.ones(3))
        tensor([1., 1., 0.])
        """
        return self.resize_(*other.shape)

    def set_(self, source: Tensor) -> Tensor:
        """Show the elements of another tensor from now on, in its memory.

        >>> import contraflow as cf
        >>> x = cf.zeros(2)
        >>> x.set_(cf.ones(3))
        tensor([1., 1., 1.])
        """
        self.data = source
        return self

    def apply_(self, callable: Callable[[Any], Any]) -> Tensor:
        """Write what a Python function gives for each element. It is slow: prefer ops.

        >>> import contraflow as cf
        >>> cf.tensor([1.0, 2.0]).apply_(lambda number: number * 10)
        tensor([10., 20.])
        """
        flat = [callable(value) for value in self.detach().flatten().tolist()]
        new = Tensor.of_data("apply_", flat, self.dtype).reshape(self.shape)
        return self.copy_(new)

    def map_(self, tensor: Tensor, callable: Callable[[Any, Any], Any]) -> Tensor:
        """Write what a Python function gives for each element and another tensor's. It is slow.

        >>> import contraflow as cf
        >>> cf.tensor([1.0, 2.0]).map_(cf.tensor([3.0, 4.0]), lambda a, b: a * b)
        tensor([3., 8.])
        """
        pairs = zip(self.detach().flatten().tolist(), tensor.expand(self.shape).flatten().tolist())
        new = Tensor.of_data("map_", [callable(a, b) for a, b in pairs], self.dtype)
        return self.copy_(new.reshape(self.shape))

    def where(self, condition: Tensor, other: Tensor | Number) -> Tensor:
        """The elements where the condition holds, those of `other` elsewhere.

        >>> import contraflow as cf
        >>> x = cf.tensor([-1.0, 2.0])
        >>> x.where(x > 0, 0.0)
        tensor([0., 2.])
        """
        chosen: Tensor = core.where(condition, self, other)
        return chosen

    @public
    def equal(self, other: Tensor) -> bool:
        """Whether another tensor has the same shape and the same elements.

        >>> import contraflow as cf
        >>> cf.equal(cf.ones(2), cf.ones(2))
        True
        """
        return self.shape == other.shape and bool(core.eq(self, other).all())

    @public
    def allclose(
        self, other: Tensor, rtol: float = 1e-5, atol: float = 1e-8,
        equal_nan: bool = False,
    ) -> bool:  # fmt: skip
        """Whether every element differs from the other's by at most atol + rtol |other|.

        >>> import contraflow as cf
        >>> cf.allclose(cf.tensor([1.0, 2.0]), cf.tensor([1.0, 2.0000001]))
        True
        """
        return bool(core.isclose(self, other, rtol, atol, equal_nan).all())

    def __contains__(self, value: Any) -> bool:
        """Whether some element equals a number, or one of a tensor's."""
        if not isinstance(value, (Tensor, float, int)):
            raise TypeError(f"in: cannot look for {type(value).__name__} in a tensor.")
        return bool((self == value).any())

    def __repr__(self) -> str:
        if self.storage.is_recorded:
            return f"<recorded {describe(self)}>"
        node, shape = self.node, self.layout.shape
        # An empty tensor has no elements that tell its dtype, and no brackets for its shape.
        plain = (dtypes.get_default_dtype(),) if 0 in shape else _plain_dtypes()
        suffixes = [f"size={tuple(shape)}"] if 0 in shape and len(shape) != 1 else []
        if self.dtype not in plain:
            suffixes.append(f"dtype={self.dtype!r}")
        if self.storage.device != "cpu":
            suffixes.insert(0, f"device='{self.device}'")
        if node is not None:
            suffixes.append(f"grad_fn=<{node.name}>")
        elif self._needs:
            suffixes.append("requires_grad=True")
        array = self.fetched()
        half = self.dtype in dtypes.HALVES
        return tensor_text(array.astype(np.float32) if half else array, suffixes)

    def __format__(self, form: str) -> str:
        if self.layout.shape:
            return _format(self, form)
        # While recording the number is not known, or would become a constant of the program.
        recording = self.storage.is_recorded or state().context.is_recording
        if not form and (recording or type(self) is not Tensor):
            return str(self)
        return format(self.item(), form)

    __hash__ = object.__hash__  # by identity, though == compares elements

    # --- the graph ------------------------------------------------------------------------

    @property
    def node(self) -> Node | None:
        """The node that made this tensor; a view whose base was written is updated first.

        >>> import contraflow as cf
        >>> x = cf.ones(2, requires_grad=True)
        >>> (x * 2).grad_fn
        <mul ...>
        """
        base = self._base
        if base is not None and base._edits != self._edits:
            self._rebuild(base)
        return self._node

    def _rebuild(self, base: Tensor) -> None:
        if not self._writable and (base._needs or self._needs):
            raise GradientError(
                f"{describe(self)} is a view made under no_grad, or one of several made together "
                f"by split, chunk or unbind; its base was written since, so it has no place in "
                f"the graph. Make the view after the write, or clone it before."
            )
        state().context.touch_place(self, "")
        with changed(grad=True):
            t = base
            for op, params in self.view_ops:
                t = apply(op, (t,), params)
        if t.layout.shape != self.layout.shape or t.layout.strides != self.layout.strides:
            raise GradientError(
                f"{describe(self)} is a view of a tensor whose shape was changed in place, and "
                f"which was written since. Make the view after that, or clone it before."
            )
        self._stand_at(t)
        self._edits = base._edits

    def _stand_at(self, place: Tensor) -> None:
        """Have the place of another tensor in the graph; the gradient there is retained."""
        if self._retains and self._node is not None:
            self._node.watched().retainers.pop(self._index, None)
        self._node, self._index, self._needs = place.node, place._index, place._needs
        if self._retains and self._node is not None:
            self._retain()

    @property
    def view_ops(self) -> tuple[tuple[Op, Any], ...]:
        """How a view came from its base: the ops, or one that does what many of them did."""
        if type(self._view_ops) is not tuple:  # of one of many pieces, which share this
            self._view_ops = self._view_ops.of(self.layout)
        if len(self._view_ops) >= thresholds.many_view_ops and self._base is not None:
            region = lies_in(self, self._base)
            if region is not None:
                self._view_ops = (_strided(region),)
        return self._view_ops

    grad_fn = node

    @property
    def is_leaf(self) -> bool:
        """Whether no recorded op made this tensor.

        >>> import contraflow as cf
        >>> x = cf.ones(2, requires_grad=True)
        >>> x.is_leaf, (x * 2).is_leaf
        (True, False)
        """
        return self.node is None

    @property
    def requires_grad(self) -> bool:
        """Whether gradients flow to or through this tensor.

        >>> import contraflow as cf
        >>> x = cf.ones(2, requires_grad=True)
        >>> (x * 2).requires_grad, x.detach().requires_grad
        (True, False)
        """
        base = self._base
        if base is not None and base._edits != self._edits:
            self._rebuild(base)
        return self._needs

    @requires_grad.setter
    def requires_grad(self, value: bool) -> None:
        self.requires_grad_(value)

    def requires_grad_(self, value: bool = True) -> Tensor:
        """Ask for gradients of a leaf, or stop asking; returns the tensor.

        >>> import contraflow as cf
        >>> cf.ones(2).requires_grad_()
        tensor([1., 1.], requires_grad=True)
        """
        if not isinstance(value, (bool, np.bool_)):
            raise TypeError(f"requires_grad_: {value!r} is not a bool.")
        value = bool(value)
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
        if value and self.storage.inference and not state().inference:
            raise GradientError(
                f"requires_grad_: {describe(self)} was made in inference_mode and cannot be "
                f"differentiated. Clone it first."
            )
        if value != self._needs:
            state().context.touch_needs(self)
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
        """The gradient that backward has accumulated here.

        >>> import contraflow as cf
        >>> x = cf.tensor([1.0, 2.0], requires_grad=True)
        >>> (x * x).sum().backward()
        >>> x.grad
        tensor([2., 4.])
        """
        context = state().context
        if not context.immediate:
            context.touch_grad(self, reading=True)
        found: Tensor | None = self._grad
        return found

    @grad.setter
    def grad(self, value: Tensor | None) -> None:
        if value is not None:
            if not isinstance(value, Tensor):
                raise TypeError(f"grad: must be a Tensor or None, not {type(value).__name__}.")
            alike = value.layout.shape == self.layout.shape and value.dtype is self.dtype
            if not alike:
                raise ValueError(
                    f"grad: {describe(value)} does not fit {describe(self)}; shape, dtype and "
                    f"device must be the same."
                )
            if value.storage.device != self.storage.device:
                raise mixed("grad", {"tensor": self, "gradient": value}, move="gradient")
        context = state().context
        if not context.immediate:
            context.touch_grad(self, reading=False)
        self._grad = value

    _grad: Any = property(grad_slot.look, grad_slot.put)  # without telling the context

    @property
    def retains_grad(self) -> bool:
        """Whether `retain_grad` was asked of a tensor that is not a leaf.

        >>> import contraflow as cf
        >>> y = cf.ones(2, requires_grad=True) * 2
        >>> y.retain_grad()
        >>> y.retains_grad
        True
        """
        return self._retains

    @property
    def output_nr(self) -> int:
        """Which of the outputs of its `grad_fn` this is.

        >>> import contraflow as cf
        >>> values, places = cf.ones(2, requires_grad=True).max(dim=0)
        >>> values.output_nr
        0
        """
        return self._index

    def retain_grad(self) -> None:
        """Keep the gradient of a tensor that is not a leaf, in `.grad`.

        >>> import contraflow as cf
        >>> x = cf.tensor([1.0, 2.0], requires_grad=True)
        >>> y = x * 2
        >>> y.retain_grad()
        >>> (y * y).sum().backward()
        >>> y.grad
        tensor([4., 8.])
        """
        if not self.requires_grad:
            raise GradientError(f"retain_grad: {describe(self)} does not require grad.")
        state().context.touch_place(self, "retain_grad")
        if self._node is not None:
            self._retains = True
            self._retain()

    def _retain(self) -> None:
        assert self._node is not None
        # Weakly, or this tensor and its node would be a cycle.
        self._node.watched().retainers[self._index] = weakref.ref(self)

    def detach(self) -> Tensor:
        """The same elements outside the graph; memory and version counter are shared.

        >>> import contraflow as cf
        >>> x = cf.ones(2, requires_grad=True)
        >>> x.detach().requires_grad
        False
        """
        t = self.alias()
        t._base = t._tangents = None
        detached: Tensor = state().context.detached(t, self)
        return detached

    def detach_(self) -> Tensor:
        """Detach this tensor from the graph, in place: it becomes a leaf.

        >>> import contraflow as cf
        >>> y = cf.ones(2, requires_grad=True) * 2
        >>> y.detach_().is_leaf
        True
        """
        if self._base is not None:
            raise GradientError(
                f"detach_: {describe(self)} is a view, whose place in the graph is its base's. "
                f"Use x.detach()."
            )
        state().context.touch_place(self, "detach_")
        needed = self._needs
        self._node, self._index, self._needs, self._tangents = None, 0, False, None
        self._needs_changed(needed)
        return self

    def _needs_changed(self, before: bool) -> None:
        """Raise the epoch if a tensor requires grad where it did not, or the other way round.

        Compiled functions refer weakly to the storages that they watch.
        """
        if self._needs is not before and weakref.getweakrefcount(self.storage):
            Structure.changed()

    def is_inference(self) -> bool:
        """Whether this was made in inference mode.

        >>> import contraflow as cf
        >>> with cf.inference_mode():
        ...     x = cf.ones(2)
        >>> x.is_inference()
        True
        """
        return self.storage.inference

    @property
    def data(self) -> Tensor:
        """The same elements outside the graph.

        >>> import contraflow as cf
        >>> x = cf.ones(2, requires_grad=True)
        >>> x.data.requires_grad
        False
        """
        return self.detach()

    @data.setter
    def data(self, value: Tensor) -> None:
        if not isinstance(value, Tensor):
            raise TypeError(f"data: must be a Tensor, not {type(value).__name__}.")
        if state().context.is_recording and not self.storage.is_recorded:
            raise state().context.refusal(
                f"data of {describe(self)} from outside is set, and a replay would not give it "
                f"other memory",
                "Write x.copy_(value) under contraflow.no_grad().",
            )
        self.storage, self.layout, self.dtype = value.storage, value.layout, value.dtype
        self._array = value._array
        Structure.changed()

    def register_hook(self, hook: Callable[[Tensor], Tensor | None]) -> Handle:
        """Call `hook(grad)` when this tensor's gradient is ready; it may return another.

        >>> import contraflow as cf
        >>> x = cf.ones(2, requires_grad=True)
        >>> handle = x.register_hook(lambda grad: grad * 10)
        >>> (x * 2).sum().backward()
        >>> x.grad
        tensor([20., 20.])
        """
        if not self.requires_grad:
            raise GradientError(f"register_hook: {describe(self)} does not require grad.")
        node = self.node
        if node is None:
            if self._hooks is None:
                self._hooks = {}
            state().context.touch_hooks(self, self._hooks)
            handle = Handle(self._hooks, hook)
            Structure.changed()
            return handle
        return node._hooked(node.watched().tensor_hooks.setdefault(self._index, {}), hook)

    def register_post_accumulate_grad_hook(self, hook: Callable[[Tensor], None]) -> Handle:
        """Call `hook(tensor)` after `.grad` of this leaf was updated.

        >>> import contraflow as cf
        >>> x = cf.ones(2, requires_grad=True)
        >>> handle = x.register_post_accumulate_grad_hook(lambda leaf: print(leaf.grad))
        >>> (x * 2).sum().backward()
        tensor([2., 2.])
        """
        if self.node is not None or not self._needs:
            raise GradientError(
                f"register_post_accumulate_grad_hook: {describe(self)} is not a leaf that "
                f"requires grad."
            )
        if self._accumulated_hooks is None:
            self._accumulated_hooks = {}
        state().context.touch_hooks(self, self._accumulated_hooks)
        handle = Handle(self._accumulated_hooks, hook)
        Structure.changed()
        return handle

    def __deepcopy__(self, memo: dict[int, Any]) -> Tensor:
        """A leaf over a copy of the storage, with a copy of its gradient; hooks stay behind."""
        t = self._leaf_over_copy(memo)
        grad = self.grad if self._base is None else self._grad  # a view is new in every call
        if grad is not None:
            t._grad = deepcopy(grad, memo)
        return t

    def _leaf_over_copy(self, memo: dict[int, Any]) -> Tensor:
        """A leaf over a copy of the storage, shared as the storage is; for `deepcopy`."""
        if self.node is not None:
            raise GradientError(
                f"deepcopy: {describe(self)} was made by {self.node.name}; only leaves can be "
                f"copied deeply. Use x.detach().clone()."
            )
        if id(self.storage) not in memo:
            memo[id(self.storage)] = state().context.copied(self)
        storage = memo[id(self.storage)]
        t = _from_parts(type(self), storage, self.layout, self.dtype, self._needs)
        memo[id(self)] = t
        return t

    def __copy__(self) -> Tensor:
        """A leaf over the same storage."""
        t = _from_parts(type(self), self.storage, self.layout, self.dtype, self.requires_grad)
        return state().context.detached(t, self)  # type: ignore[no-any-return]

    def __reduce_ex__(self, protocol: Any) -> tuple[Any, ...]:
        """The state for pickle, as in PyTorch: storage, view and requires_grad."""
        state().context.leave(self, "pickle")
        return _from_parts, (type(self), self.storage, self.layout, self.dtype, self.requires_grad)


def _copied(op: str, data: Any, dtype: DType) -> Tensor:
    """A new tensor of nested sequences with tensors in them, by ops."""
    if isinstance(data, (list, tuple)):
        stacked: Tensor = core.stack(tuple(_copied(op, x, dtype) for x in data), dim=0)
        return stacked
    if not isinstance(data, Tensor):
        return Tensor.of_data(op, data, dtype)
    found = data.detach()
    copy: Tensor = found.clone() if found.dtype is dtype else found.to(dtype)
    return copy


def _from_parts(
    kind: type[Tensor], storage: Storage, layout: View, dtype: DType, needs: bool
) -> Tensor:
    t: Tensor = _new(kind)
    t.storage, t.layout, t.dtype, t._needs = storage, layout, dtype, needs
    return t


def _destination(
    args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[Any, DType | None, bool, bool]:
    """The device, the dtype, and whether to copy and not to block, that `Tensor.to` was given."""
    if len(args) == 1 and isinstance(args[0], DType) and not kwargs:
        return None, args[0], False, False
    named = dict(kwargs)
    flags = [a for a in args if isinstance(a, bool)]  # non_blocking, copy
    for name, value in zip(("non_blocking", "copy"), flags):
        named.setdefault(name, value)
    for value in args[: len(args) - len(flags)]:
        if isinstance(value, Tensor):
            given = {"device": value.device, "dtype": value.dtype}
        elif isinstance(value, (DType, type)):
            given = {"dtype": value}
        elif value is None or isinstance(value, (str, Device)):
            given = {"device": value}
        else:
            raise TypeError(
                f"to: expected a dtype, a device or a tensor, not {type(value).__name__}."
            )
        if twice := given.keys() & named.keys():
            raise TypeError(f"to: {', '.join(sorted(twice))} is given twice.")
        named.update(given)
    if unknown := named.keys() - {"device", "dtype", "non_blocking", "copy", "memory_format"}:
        raise TypeError(f"to: argument {unknown.pop()!r} is unknown. It takes device, dtype, copy.")
    dtype = dtypes.of_python(named.get("dtype"))
    if dtype is not None and not isinstance(dtype, DType):
        raise TypeError(f"to: dtype {dtype!r} is not a dtype. Use one such as contraflow.float32.")
    copy, non_blocking = (bool(named.get(name, False)) for name in ("copy", "non_blocking"))
    return named.get("device"), dtype, copy, non_blocking


def _plain_dtypes() -> tuple[DType, ...]:
    """The dtypes that the way elements are written tells."""
    return dtypes.get_default_dtype(), dtypes.int64, dtypes.bool_


_new = object.__new__
_format = object.__format__


def lies_in(target: Tensor, base: Tensor) -> View | None:
    """Where a view stands in its base, None unless the memory of the base is in order."""
    shape, strides, offset = base.layout
    if target.storage is not base.storage or strides != contiguous_strides(shape):
        return None
    return target.layout._replace(offset=target.layout.offset - offset)


def ops_after(x: Tensor, view: Tensor) -> tuple[tuple[Op, Any], ...] | None:
    """The ops by which a view came from a tensor with the same base, None if it may not have."""
    count = len(x.view_ops)
    if view.view_ops[:count] == x.view_ops:
        return view.view_ops[count:]
    region = lies_in(view, x)
    return None if region is None else (_strided(region),)


def _strided(region: View) -> tuple[Op, Any]:
    shape, strides, offset = region
    return core.as_strided, {"size": shape, "stride": strides, "offset": offset}


def of_numpy(
    value: np.ndarray | np.generic, device: str = "cpu", there: DType | None = None
) -> Tensor:
    """A tensor with a copy of a NumPy array or scalar, if its dtype is one of ours.

    On a device other than the cpu it has the dtype `there`, if one is given.
    """
    dtypes.from_numpy(value.dtype)
    shared: Tensor | None = state().context.shared_array(value)
    if shared is not None:
        read: Tensor = shared.clone() if device == "cpu" else shared.to(device, dtype=there)
        return read
    t = Tensor.of_array(memory.copy(np.asarray(value)))
    return t if device == "cpu" else t.to(device, dtype=there)
