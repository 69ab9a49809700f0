"""Tensors that belong to modules: parameters, buffers, and those whose shape is not known yet."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, NoReturn

import numpy as np

from contraflow import devices
from contraflow.devices.names import Device
from contraflow.dtypes import DType
from contraflow.errors import GradientError, describe
from contraflow.operation.context import state
from contraflow.ops.creation.create import zeros
from contraflow.shapes import contiguous
from contraflow.tensors.epoch import Structure
from contraflow.tensors.tensor import Tensor


class Parameter(Tensor):
    """A leaf tensor that a module owns and an optimizer updates; it shares the memory of `data`.

    >>> import contraflow as cf
    >>> cf.nn.Parameter(cf.ones(2))
    Parameter containing:
    tensor([1., 1.], requires_grad=True)
    """

    def __init__(self, data: Tensor, requires_grad: bool = True) -> None:
        if not isinstance(data, Tensor):
            raise TypeError(
                f"Parameter: expected a tensor, not {type(data).__name__}. "
                f"Use contraflow.tensor(x)."
            )
        if requires_grad and not data.dtype.is_floating_point:
            raise GradientError(
                f"Parameter: {describe(data)} is not floating-point and has no gradient. "
                f"Pass requires_grad=False, or register it as a buffer."
            )
        self.storage, self.layout, self.dtype = data.storage, data.layout, data.dtype
        self._array = data._array
        self._needs = requires_grad
        state().context.detached(self, data)

    def __deepcopy__(self, memo: dict[int, Any]) -> Tensor:
        """A parameter over a copy of the storage; the gradient stays behind, as in PyTorch."""
        return self._leaf_over_copy(memo)

    def __repr__(self) -> str:
        return f"Parameter containing:\n{super().__repr__()}"


class Buffer(Tensor):
    """A tensor of state, not a parameter: assigning it to a module registers it as a buffer.

    >>> import contraflow as cf
    >>> module = cf.nn.Module()
    >>> module.steps = cf.nn.Buffer(cf.zeros(1))
    >>> list(module.state_dict())
    ['steps']
    """

    persistent = True

    def __init__(self, data: Tensor, *, persistent: bool = True) -> None:
        if not isinstance(data, Tensor):
            raise TypeError(f"Buffer: expected a tensor, not {type(data).__name__}.")
        self.storage, self.layout, self.dtype = data.storage, data.layout, data.dtype
        self._array = data._array
        self.persistent = persistent


# --- of unknown shape --------------------------------------------------------------------------


class UninitializedTensorMixin(Tensor):
    """A tensor with a dtype and a device, whose shape `materialize` gives it.

    Till then it can be kept in a module, converted, copied and saved nowhere.
    """

    cls_to_become: ClassVar[type[Tensor]]

    def __init__(
        self,
        requires_grad: bool = False,
        device: Device | str | None = None,
        dtype: DType | None = None,
    ) -> None:
        self.data = zeros(0, device=device, dtype=dtype)
        self._needs = requires_grad

    def materialize(
        self, shape: Sequence[int], device: Device | str | None = None, dtype: DType | None = None
    ) -> None:
        """Become a tensor of zeros of that shape, the same object as before."""
        if device is not None or dtype is not None:
            self.data = self.data.to(device=device or self.device, dtype=dtype or self.dtype)
        # The same storage, which has memory now: for a function that is being recorded it has
        # been there before, so that what is written to it stays.
        zeroed = np.zeros(tuple(shape), self.dtype.numpy)
        self.storage.receive(devices.lookup(self.storage.device).upload(zeroed))
        self.__class__ = self.cls_to_become  # type: ignore[assignment]
        self.layout = contiguous(tuple(shape))
        Structure.changed()

    def _refuse(self) -> NoReturn:
        raise ValueError(
            f"{type(self).__name__}: it has no shape until its module is first called. Call "
            f"the module once, with inputs like those that it will get."
        )

    layout = property(_refuse)
    _array = property(_refuse)

    def detach(self) -> Tensor:
        """A tensor without elements, of the same dtype and device."""
        return Tensor.of_storage(self.storage, contiguous((0,)), self.dtype)

    @property
    def data(self) -> Tensor:
        """A tensor without elements, of the dtype and on the device that this will have."""
        return self.detach()

    @data.setter
    def data(self, value: Tensor) -> None:
        self.storage, self.dtype = value.storage, value.dtype

    def __deepcopy__(self, memo: dict[int, Any]) -> Tensor:
        copied = memo[id(self)] = type(self)(self._needs, self.storage.device, self.dtype)
        return copied

    def __reduce_ex__(self, protocol: Any) -> tuple[Any, ...]:
        return type(self), (self._needs, self.storage.device, self.dtype)

    def __repr__(self) -> str:
        return f"<{type(self).__name__}>"


class UninitializedParameter(UninitializedTensorMixin, Parameter):
    """A parameter whose shape is not known yet, as those of LazyLinear.

    >>> parameter = UninitializedParameter()
    >>> parameter.materialize((2,))
    >>> parameter
    Parameter containing:
    tensor([0., 0.], requires_grad=True)
    """

    cls_to_become = Parameter

    def __init__(
        self,
        requires_grad: bool = True,
        device: Device | str | None = None,
        dtype: DType | None = None,
    ) -> None:
        super().__init__(requires_grad, device, dtype)


class UninitializedBuffer(UninitializedTensorMixin, Buffer):
    """A buffer whose shape is not known yet, as those of LazyBatchNorm2d.

    >>> buffer = UninitializedBuffer()
    >>> buffer.materialize((2,))
    >>> buffer.shape
    (2,)
    """

    cls_to_become = Buffer


def is_lazy(tensor: object) -> bool:
    """Whether a parameter or a buffer has no shape yet."""
    return isinstance(tensor, UninitializedTensorMixin)
