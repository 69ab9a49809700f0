"""Lazy layers, which take the size of their inputs from the first one.

A lazy layer takes the arguments of its layer less the first. Its parameters have no shape before
the first call, or before a state dict with shapes is loaded; then it is that layer.
"""

from __future__ import annotations

import inspect
from typing import Any, ClassVar

from contraflow.devices.names import Device
from contraflow.dtypes import DType
from contraflow.errors import describe
from contraflow.nn.conv import (
    Conv1d,
    Conv2d,
    Conv3d,
    ConvTranspose1d,
    ConvTranspose2d,
    ConvTranspose3d,
)
from contraflow.nn.layers import Linear
from contraflow.nn.modules.lazy import LazyModuleMixin
from contraflow.nn.norm import (
    BatchNorm1d,
    BatchNorm2d,
    BatchNorm3d,
    InstanceNorm1d,
    InstanceNorm2d,
    InstanceNorm3d,
)
from contraflow.nn.parameter import (
    UninitializedBuffer,
    UninitializedParameter,
    UninitializedTensorMixin,
)
from contraflow.tensors.tensor import Tensor


class _LessTheSize:
    """The signature of the layer without its first argument, made when somebody asks for it."""

    def __get__(self, layer: Any, kind: Any) -> inspect.Signature:
        if kind.__init__ is not _Lazy.__init__:
            raise AttributeError("__signature__")  # that of __init__ is right
        return inspect.Signature([*inspect.signature(kind.cls_to_become).parameters.values()][1:])


class _Lazy(LazyModuleMixin):
    """A layer made for inputs of size 0, whose parameters get their shapes later."""

    cls_to_become: ClassVar[Any]
    size_name: ClassVar[str]  # the attribute that holds the size
    __signature__ = _LessTheSize()

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(0, *args, **kwargs)  # type: ignore[call-arg]
        self._shapes = {name: x.shape for name, x in self.own_state() if x.ndim}
        for name in self._shapes:
            x = getattr(self, name)
            kind = UninitializedParameter if name in self._parameters else UninitializedBuffer
            setattr(self, name, kind(x.requires_grad, x.device, x.dtype))

    def reset_parameters(self) -> None:
        """Draw the initial values anew, where there are any."""
        if not self.has_uninitialized_params():
            super().reset_parameters()  # type: ignore[misc]

    def initialize_parameters(self, input: Tensor, *others: Any) -> None:
        """Give the parameters their shapes and initial values, unless they were loaded."""
        size = self.size_of(input)
        unknown = self.has_uninitialized_params()
        for name, pattern in self._shapes.items():
            shape = tuple(n or self.share_of(size) for n in pattern)
            tensor = getattr(self, name)
            if isinstance(tensor, UninitializedTensorMixin):
                tensor.materialize(shape)
            elif tensor.shape != shape:
                raise ValueError(
                    f"{type(self).__name__}: {describe(input)} needs a {name} {[*shape]}, but "
                    f"{describe(tensor)} was loaded."
                )
        setattr(self, self.size_name, size)
        del self._shapes
        if unknown:
            self.reset_parameters()

    def size_of(self, input: Tensor) -> int:
        """The size that an input shows."""
        raise NotImplementedError

    def share_of(self, size: int) -> int:
        """The size of a parameter along the learned dim, from the size that an input shows."""
        return size

    def _wrong(self, input: Tensor, wanted: str) -> ValueError:
        return ValueError(f"{type(self).__name__}: expected {wanted}, got {describe(input)}.")


class LazyLinear(_Lazy, Linear):
    """A Linear that learns `in_features` from its first input.

    >>> import contraflow as cf
    >>> layer = cf.nn.LazyLinear(2)
    >>> layer(cf.zeros(3, 4)).shape
    (3, 2)
    >>> layer
    Linear(in_features=4, out_features=2, bias=True)
    """

    cls_to_become, size_name = Linear, "in_features"

    def size_of(self, input: Tensor) -> int:
        """The last dim."""
        if not input.ndim:
            raise self._wrong(input, "[..., in_features]")
        return input.shape[-1]


# --- convolutions ------------------------------------------------------------------------------


class _LazyConvolution(_Lazy):
    size_name = "in_channels"
    dims: int
    groups: int

    def size_of(self, input: Tensor) -> int:
        """The dim before the spatial ones."""
        if input.ndim not in (self.dims + 1, self.dims + 2):
            spatial = ", ".join("dhw"[3 - self.dims :])
            raise self._wrong(input, f"[n, channels, {spatial}] or [channels, {spatial}]")
        size = input.shape[-self.dims - 1]
        if size % self.groups:
            raise ValueError(
                f"{type(self).__name__}: the {size} channels of {describe(input)} do not divide "
                f"into {self.groups} groups."
            )
        return size


class _LazyConv(_LazyConvolution):
    def share_of(self, size: int) -> int:
        """The channels of one group."""
        return size // self.groups


class LazyConv1d(_LazyConv, Conv1d):
    """A Conv1d that learns `in_channels` from its first input.

    >>> import contraflow as cf
    >>> layer = cf.nn.LazyConv1d(6, kernel_size=3)
    >>> layer(cf.ones(2, 4, 8)).shape
    (2, 6, 6)
    """

    cls_to_become = Conv1d


class LazyConv2d(_LazyConv, Conv2d):
    """A Conv2d that learns `in_channels` from its first input.

    >>> import contraflow as cf
    >>> layer = cf.nn.LazyConv2d(6, kernel_size=3)
    >>> layer(cf.ones(2, 4, 8, 8)).shape
    (2, 6, 6, 6)
    """

    cls_to_become = Conv2d


class LazyConv3d(_LazyConv, Conv3d):
    """A Conv3d that learns `in_channels` from its first input.

    >>> import contraflow as cf
    >>> layer = cf.nn.LazyConv3d(6, kernel_size=3)
    >>> layer(cf.ones(2, 4, 8, 8, 8)).shape
    (2, 6, 6, 6, 6)
    """

    cls_to_become = Conv3d


class LazyConvTranspose1d(_LazyConvolution, ConvTranspose1d):
    """A ConvTranspose1d that learns `in_channels` from its first input.

    >>> import contraflow as cf
    >>> layer = cf.nn.LazyConvTranspose1d(6, kernel_size=3)
    >>> layer(cf.ones(2, 4, 8)).shape
    (2, 6, 10)
    """

    cls_to_become = ConvTranspose1d


class LazyConvTranspose2d(_LazyConvolution, ConvTranspose2d):
    """A ConvTranspose2d that learns `in_channels` from its first input.

    >>> import contraflow as cf
    >>> layer = cf.nn.LazyConvTranspose2d(6, kernel_size=3)
    >>> layer(cf.ones(2, 4, 8, 8)).shape
    (2, 6, 10, 10)
    """

    cls_to_become = ConvTranspose2d


class LazyConvTranspose3d(_LazyConvolution, ConvTranspose3d):
    """A ConvTranspose3d that learns `in_channels` from its first input.

    >>> import contraflow as cf
    >>> layer = cf.nn.LazyConvTranspose3d(6, kernel_size=3)
    >>> layer(cf.ones(2, 4, 8, 8, 8)).shape
    (2, 6, 10, 10, 10)
    """

    cls_to_become = ConvTranspose3d


# --- norms -------------------------------------------------------------------------------------


class _LazyNorm(_Lazy):
    size_name = "num_features"
    inputs: Any  # the dims that the norm takes

    def size_of(self, input: Tensor) -> int:
        """The dim of the channels."""
        for dims in self.inputs:
            if len(dims.split(", ")) == input.ndim:
                size: int = input.shape[dims.split(", ").index("c")]
                return size
        raise self._wrong(input, " or ".join(f"[{dims}]" for dims in self.inputs))


class LazyBatchNorm1d(_LazyNorm, BatchNorm1d):
    """A BatchNorm1d that learns `num_features` from its first input.

    >>> import contraflow as cf
    >>> layer = cf.nn.LazyBatchNorm1d()
    >>> layer(cf.ones(2, 4, 8)).shape
    (2, 4, 8)
    """

    cls_to_become = BatchNorm1d


class LazyBatchNorm2d(_LazyNorm, BatchNorm2d):
    """A BatchNorm2d that learns `num_features` from its first input.

    >>> import contraflow as cf
    >>> layer = cf.nn.LazyBatchNorm2d()
    >>> layer(cf.ones(2, 4, 8, 8)).shape
    (2, 4, 8, 8)
    """

    cls_to_become = BatchNorm2d


class LazyBatchNorm3d(_LazyNorm, BatchNorm3d):
    """A BatchNorm3d that learns `num_features` from its first input.

    >>> import contraflow as cf
    >>> layer = cf.nn.LazyBatchNorm3d()
    >>> layer(cf.ones(2, 4, 8, 8, 8)).shape
    (2, 4, 8, 8, 8)
    """

    cls_to_become = BatchNorm3d


class _LazyInstanceNorm(_LazyNorm):
    """As in PyTorch, what is off by default for the norm is on for the lazy one."""

    def __init__(
        self,
        eps: float = 1e-5,
        momentum: float = 0.1,
        affine: bool = True,
        track_running_stats: bool = True,
        device: Device | str | None = None,
        dtype: DType | None = None,
        *,
        bias: bool = True,
    ) -> None:
        super().__init__(eps, momentum, affine, track_running_stats, device, dtype, bias=bias)


class LazyInstanceNorm1d(_LazyInstanceNorm, InstanceNorm1d):
    """An InstanceNorm1d that learns `num_features` from its first input.

    >>> import contraflow as cf
    >>> layer = cf.nn.LazyInstanceNorm1d()
    >>> layer(cf.ones(2, 4, 8)).shape
    (2, 4, 8)
    """

    cls_to_become = InstanceNorm1d


class LazyInstanceNorm2d(_LazyInstanceNorm, InstanceNorm2d):
    """An InstanceNorm2d that learns `num_features` from its first input.

    >>> import contraflow as cf
    >>> layer = cf.nn.LazyInstanceNorm2d()
    >>> layer(cf.ones(2, 4, 8, 8)).shape
    (2, 4, 8, 8)
    """

    cls_to_become = InstanceNorm2d


class LazyInstanceNorm3d(_LazyInstanceNorm, InstanceNorm3d):
    """An InstanceNorm3d that learns `num_features` from its first input.

    >>> import contraflow as cf
    >>> layer = cf.nn.LazyInstanceNorm3d()
    >>> layer(cf.ones(2, 4, 8, 8, 8)).shape
    (2, 4, 8, 8, 8)
    """

    cls_to_become = InstanceNorm3d
