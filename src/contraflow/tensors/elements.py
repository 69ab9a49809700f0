"""The elements of a tensor and how they lie: what can be asked without the graph.

Elements leave for Python, NumPy and DLPack here, and the context is told so (`Context.leave`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from contraflow import devices, dtypes
from contraflow.devices.names import Device
from contraflow.dtypes import DType
from contraflow.errors import DeviceError, GradientError, MismatchError, describe
from contraflow.names import OF_TENSORS, AbsentMethod
from contraflow.operation import core
from contraflow.operation.context import changed, state
from contraflow.shapes import Sizes, View, normalize_dim, numel
from contraflow.spec import Spec
from contraflow.tensors import dlpack
from contraflow.tensors.storage import Storage

if TYPE_CHECKING:
    from contraflow._methods import Methods as Methods
else:

    class Methods:
        """The op methods of Tensor; typed by _methods.pyi, attached from the registry."""


for _name in OF_TENSORS:  # where an op of a user's may take its place
    setattr(Methods, _name, AbsentMethod(_name))


class TensorElements(Methods):
    """A view of a storage, with a dtype: the part of a tensor that is not in the graph."""

    storage: Storage
    layout: View
    dtype: DType

    # Defaults of rare fields live on the class, which keeps construction cheap.
    _array: np.ndarray | None = None  # the cpu data under this view, made when first needed
    _needs = False  # requires_grad: NumPy and others are refused the elements of such a tensor

    # --- elements -------------------------------------------------------------------------

    @property
    def array(self) -> np.ndarray:
        """The NumPy array of the elements, sharing memory. For the library's own use."""
        array = self._array
        if array is None:
            storage = self.storage
            data = storage.data
            if data is None:
                state().context.leave(self, "reading its elements")
            if storage.device != "cpu":
                raise DeviceError(
                    f"array: {describe(self)} does not lie in the memory of the host. Use x.cpu()."
                )
            size = self.dtype.itemsize
            shape, strides, offset = self.layout
            if 0 in shape:  # such a view may start beyond the end of its storage
                array = self._array = np.empty(shape, self.dtype.numpy)
                return array
            array = self._array = np.ndarray(
                shape, self.dtype.numpy, data, offset * size, tuple([st * size for st in strides])
            )
        return array

    def fetched(self) -> np.ndarray:
        """The elements on the host: on the cpu the array itself, from elsewhere a copy. For the
        library's own use."""
        storage, layout = self.storage, self.layout
        if storage.device == "cpu" or storage.is_recorded:
            return self.array
        if 0 in layout.shape:
            return np.empty(layout.shape, self.dtype.numpy)
        whole = storage
        if not storage.shows(layout):
            with changed(grad=False):
                whole = core.clone(self).storage
        found: np.ndarray = devices.lookup(storage.device).download(whole.data)
        return found.reshape(layout.shape)

    def numpy(self, *, force: bool = False) -> np.ndarray:
        """The elements as a NumPy array that shares memory with this tensor.

        A tensor that requires grad is refused, unless by `force`: NumPy would lose the graph. One
        of another device is refused, and copied to the host by `force`.

        >>> import contraflow as cf
        >>> cf.tensor([1.0, 2.0]).numpy().tolist()
        [1.0, 2.0]
        """
        state().context.leave(self, "numpy()")
        if self._needs and not force:
            raise GradientError(
                f"numpy: {describe(self)} requires grad, and NumPy would lose that. "
                f"Use x.detach().numpy()."
            )
        if self.storage.device != "cpu" and not force:
            raise DeviceError(
                f"numpy: {describe(self)} does not lie in the memory of the host. Use "
                f"x.cpu().numpy()."
            )
        return self.fetched()

    def item(self) -> bool | int | float:
        """The one element as a Python number.

        >>> import contraflow as cf
        >>> cf.tensor([2.5]).item()
        2.5
        """
        return self._element("item()")

    def _element(self, asked: str) -> bool | int | float:
        state().context.leave(self, asked)
        array = self.array if self.storage.device == "cpu" else self.fetched()
        if array.size != 1:
            raise MismatchError(f"item: {describe(self)} does not have exactly one element.")
        value = array.item()
        return float(value) if isinstance(value, np.generic) else value

    def tolist(self) -> Any:
        """The elements as nested Python lists.

        >>> import contraflow as cf
        >>> cf.ones(2, 2).tolist()
        [[1.0, 1.0], [1.0, 1.0]]
        """
        state().context.leave(self, "tolist()")
        array = self.fetched()
        if self.dtype is dtypes.bfloat16:
            array = array.astype(np.float32)
        return array.tolist()

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        return np.array(self.numpy(), dtype=dtype, copy=copy)

    def __dlpack__(
        self,
        *,
        stream: Any = None,
        max_version: tuple[int, int] | None = None,
        dl_device: tuple[int, int] | None = None,
        copy: bool | None = None,
    ) -> Any:
        """A DLPack capsule over the memory of this tensor."""
        state().context.leave(self, "__dlpack__()")
        if self._needs:
            raise GradientError(
                f"dlpack: {describe(self)} requires grad, which another library would lose. "
                f"Use x.detach()."
            )
        here = self.__dlpack_device__()
        there = here if dl_device is None else (int(dl_device[0]), int(dl_device[1]))
        if there != here:
            if there != dlpack.ON_CPU:
                raise BufferError(f"dlpack: cannot export {describe(self)} to device {there}.")
            if copy is False:
                raise BufferError(f"dlpack: {describe(self)} must be copied to the cpu.")
            return dlpack.to_dlpack(self.fetched(), max_version)
        if here == dlpack.ON_CPU:
            if stream is not None:
                raise ValueError(f"dlpack: stream is {stream!r}, but the cpu has none. Pass None.")
            return dlpack.to_dlpack(self.array, max_version, copy)
        device = devices.lookup(self.storage.device)
        assert device.exchange is not None
        with changed(grad=False):
            shown = core.clone(self) if copy else self
        device.exchange.hand_over(stream)
        storage, layout, dtype = shown.storage, shown.layout, shown.dtype
        start = storage.address or device.address(storage.data)
        return dlpack.to_dlpack_there(
            here, start + layout.offset * dtype.itemsize, layout, dtype, storage, max_version
        )

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        """The memory of a tensor on an NVIDIA GPU, for libraries that do not know DLPack."""
        if not self.is_cuda:
            raise AttributeError(f"__cuda_array_interface__: {describe(self)} is not on a GPU.")
        if self.dtype is dtypes.bfloat16:
            raise AttributeError("__cuda_array_interface__: it has no bfloat16. Use DLPack.")
        state().context.leave(self, "__cuda_array_interface__")
        if self._needs:
            raise GradientError(
                f"__cuda_array_interface__: {describe(self)} requires grad, which another library "
                f"would lose. Use x.detach()."
            )
        exchange = devices.lookup(self.storage.device).exchange
        assert exchange is not None
        exchange.hand_over(-1)  # what it is given waits for the stream itself
        size, layout = self.dtype.itemsize, self.layout
        return {
            "version": 3,
            "shape": tuple(layout.shape),  # CuPy takes a tuple itself alone
            "typestr": self.dtype.numpy.str,
            "data": (self.data_ptr() if numel(layout.shape) else 0, False),
            "strides": None if layout.is_contiguous else tuple(s * size for s in layout.strides),
            "stream": exchange.stream,
        }

    def __dlpack_device__(self) -> tuple[int, int]:
        if self.storage.device == "cpu":
            return dlpack.ON_CPU
        exchange = devices.lookup(self.storage.device).exchange
        if exchange is None:
            raise BufferError(
                f"dlpack: {describe(self)} cannot be exported from its device. Use x.cpu()."
            )
        return exchange.kind

    def __bool__(self) -> bool:
        if numel(self.layout.shape) != 1:
            raise MismatchError(
                f"bool: the truth value of {describe(self)} is ambiguous; use .any() or .all()."
            )
        return bool(self._element("bool(x), or `if x`,"))

    def __float__(self) -> float:
        return float(self._element("float(x)"))

    def __int__(self) -> int:
        return int(self._element("int(x)"))

    def __index__(self) -> int:
        if self.dtype.is_floating_point:
            raise TypeError(f"index: {describe(self)} is not an integer.")
        return int(self._element("an index or a size"))

    def __len__(self) -> int:
        if not self.layout.shape:
            raise TypeError("len: a 0-d tensor has no length.")
        return self.layout.shape[0]

    def __dir__(self) -> list[str]:
        return sorted({*super().__dir__()}.difference(OF_TENSORS))

    # --- description ----------------------------------------------------------------------

    @property
    def shape(self) -> Sizes:
        """The size of each dim.

        >>> import contraflow as cf
        >>> cf.ones(2, 3).shape
        (2, 3)
        """
        shape = self.layout.shape
        return shape if type(shape) is Sizes else Sizes(shape)

    @property
    def ndim(self) -> int:
        """The number of dims.

        >>> import contraflow as cf
        >>> cf.ones(2, 3).ndim
        2
        """
        return len(self.layout.shape)

    @property
    def device(self) -> Device:
        """The device that holds the data.

        >>> import contraflow as cf
        >>> cf.ones(2).device.type
        'cpu'
        """
        return devices.find("device", self.storage.device)

    @property
    def spec(self) -> Spec:
        """Shape and dtype."""
        return Spec(self.layout.shape, self.dtype)

    def size(self, dim: int | None = None) -> Any:
        """The shape, or the size of one dim.

        >>> import contraflow as cf
        >>> cf.ones(2, 3).size(), cf.ones(2, 3).size(-1)
        ((2, 3), 3)
        """
        shape = self.layout.shape
        return self.shape if dim is None else shape[normalize_dim("size", dim, len(shape))]

    def dim(self) -> int:
        """The number of dims.

        >>> import contraflow as cf
        >>> cf.ones(2, 3).dim()
        2
        """
        return len(self.layout.shape)

    def numel(self) -> int:
        """The number of elements.

        >>> import contraflow as cf
        >>> cf.ones(2, 3).numel()
        6
        """
        return numel(self.layout.shape)

    def stride(self, dim: int | None = None) -> Any:
        """The distance in elements between neighbours along each dim, or along one.

        >>> import contraflow as cf
        >>> cf.ones(2, 3).stride(), cf.ones(2, 3).T.stride()
        ((3, 1), (1, 3))
        """
        strides = self.layout.strides
        return strides if dim is None else strides[normalize_dim("stride", dim, len(strides))]

    def storage_offset(self) -> int:
        """The index of the first element in the storage.

        >>> import contraflow as cf
        >>> cf.ones(2, 3)[1].storage_offset()
        3
        """
        self.storage.look_around()
        return self.layout.offset

    def is_contiguous(self, memory_format: object = None) -> bool:
        """Whether the elements lie in row-major order without gaps.

        `memory_format` has no effect: results always lie in that order.

        >>> import contraflow as cf
        >>> cf.ones(2, 3).is_contiguous(), cf.ones(2, 3).T.is_contiguous()
        (True, False)
        """
        return self.layout.is_contiguous

    def nelement(self) -> int:
        """The number of elements, under PyTorch's other name.

        >>> import contraflow as cf
        >>> cf.ones(2, 3).nelement()
        6
        """
        return numel(self.layout.shape)

    def ndimension(self) -> int:
        """The number of dims, under PyTorch's other name.

        >>> import contraflow as cf
        >>> cf.ones(2, 3).ndimension()
        2
        """
        return len(self.layout.shape)

    @property
    def itemsize(self) -> int:
        """Bytes of one element.

        >>> import contraflow as cf
        >>> cf.ones(2).itemsize
        4
        """
        return self.dtype.itemsize

    def get_device(self) -> int:
        """The index of the device among those of its type, -1 for the cpu.

        >>> import contraflow as cf
        >>> cf.ones(2).get_device()
        -1
        """
        device = self.device
        return -1 if device.type == "cpu" else device.index or 0

    @property
    def is_cpu(self) -> bool:
        """Whether the elements lie in the memory of the host.

        >>> import contraflow as cf
        >>> cf.ones(2).is_cpu
        True
        """
        return self.storage.device == "cpu"

    @property
    def is_cuda(self) -> bool:
        """Whether the elements lie in the memory of a CUDA device.

        >>> import contraflow as cf
        >>> cf.ones(2).is_cuda
        False
        """
        return self.device.type == "cuda"

    def is_complex(self) -> bool:
        """Whether the dtype is a complex one: none is.

        >>> import contraflow as cf
        >>> cf.ones(2).is_complex()
        False
        """
        return False

    def is_signed(self) -> bool:
        """Whether the dtype holds negative numbers.

        >>> import contraflow as cf
        >>> cf.ones(2).is_signed()
        True
        """
        return self.dtype.is_signed

    def is_nonzero(self) -> bool:
        """Whether the one element is not zero.

        >>> import contraflow as cf
        >>> cf.tensor(2.0).is_nonzero()
        True
        """
        return bool(self._element("is_nonzero()"))

    def is_same_size(self, other: TensorElements) -> bool:
        """Whether another tensor has the same shape.

        >>> import contraflow as cf
        >>> cf.ones(2).is_same_size(cf.zeros(2))
        True
        """
        return self.layout.shape == other.layout.shape

    def is_set_to(self, other: TensorElements) -> bool:
        """Whether another tensor shows the same elements of the same memory.

        >>> import contraflow as cf
        >>> x = cf.ones(2)
        >>> x.is_set_to(x.detach()), x.is_set_to(x.clone())
        (True, False)
        """
        return self.storage is other.storage and self.layout == other.layout

    def untyped_storage(self) -> Storage:
        """The memory that this tensor and its views share.

        >>> import contraflow as cf
        >>> cf.ones(2, 3).untyped_storage().nbytes()
        24
        """
        return self.storage

    def element_size(self) -> int:
        """Bytes of one element.

        >>> import contraflow as cf
        >>> cf.ones(2).element_size()
        4
        """
        return self.dtype.itemsize

    @property
    def nbytes(self) -> int:
        """Bytes of all elements.

        >>> import contraflow as cf
        >>> cf.ones(2, 3).nbytes
        24
        """
        return numel(self.layout.shape) * self.dtype.itemsize

    def data_ptr(self) -> int:
        """The address of the first element.

        >>> import contraflow as cf
        >>> x = cf.ones(2, 3)
        >>> x[1].data_ptr() - x.data_ptr()
        12
        """
        if self.storage.device == "cpu":
            return int(self.array.ctypes.data)
        start: int = devices.lookup(self.storage.device).address(self.storage.data)
        return start + self.layout.offset * self.dtype.itemsize

    def is_floating_point(self) -> bool:
        """Whether the dtype is a floating-point one.

        >>> import contraflow as cf
        >>> cf.ones(2).is_floating_point()
        True
        """
        return self.dtype.is_floating_point

    @property
    def _version(self) -> int:
        return self.storage.version


def _never(name: str, what: str) -> property:
    said = f"Whether this is {what}: no tensor here is.{_answer(name)}"
    return property(lambda self: False, doc=said)


def _answer(asked: str) -> str:
    return f"\n\n>>> import contraflow as cf\n>>> cf.ones(2).{asked}\nFalse\n"


# Questions about kinds of tensors that do not exist here. Programs ask before they go another way.
for _name, _what in {
    "is_meta": "a tensor without elements", "is_sparse": "a sparse tensor",
    "is_sparse_csr": "a sparse tensor", "is_quantized": "a quantised tensor",
    "is_nested": "a nested tensor", "is_mkldnn": "in a format of oneDNN",
    "is_mps": "on a device of Metal's; see the device webgpu", "is_xpu": "on Intel's device",
    "is_xla": "on a device of XLA's", "is_vulkan": "on Vulkan's device; see webgpu",
}.items():  # fmt: skip
    setattr(TensorElements, _name, _never(_name, _what))


def _plainly(name: str, what: str) -> None:
    def answer(self: TensorElements) -> bool:
        return False

    answer.__name__, answer.__qualname__ = name, f"TensorElements.{name}"
    answer.__doc__ = f"Whether {what}: never here.{_answer(f'{name}()')}"
    setattr(TensorElements, name, answer)


for _name, _what in {
    "is_conj": "elements are conjugated when they are read",
    "is_neg": "elements are negated when they are read",
    "is_shared": "other processes see the memory",
    "is_coalesced": "this is a sparse tensor in order",
    "is_distributed": "elements lie in several processes",
}.items():  # fmt: skip
    _plainly(_name, _what)
