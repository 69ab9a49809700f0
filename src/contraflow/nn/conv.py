"""Convolution layers over one, two and three spatial dims, and their transposes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from contraflow.devices.names import Device
from contraflow.dtypes import DType
from contraflow.errors import describe
from contraflow.nn import functional as F
from contraflow.nn import init
from contraflow.nn.module import Module
from contraflow.nn.parameter import Parameter
from contraflow.ops.creation.create import zeros
from contraflow.ops.nn.conv import given_pads
from contraflow.ops.nn.window import numbers
from contraflow.shapes import Lengths
from contraflow.tensors.tensor import Tensor

_MODES = ("zeros", "reflect", "replicate", "circular")


class _Convolution(Module):
    """The base of convolutions and their transposes; `dims` is the number of spatial dims."""

    dims: int
    function: Callable[..., Any]

    def _set(
        self, channels: tuple[int, int], shape: tuple[int, int], kernel_size: Lengths,
        stride: Lengths, padding: Lengths | str, dilation: Lengths, groups: int, bias: bool,
        padding_mode: str, device: Device | str | None, dtype: DType | None,
    ) -> None:  # fmt: skip
        name, n = type(self).__name__, self.dims
        self.in_channels, self.out_channels = channels
        if groups < 1 or channels[0] % groups or channels[1] % groups:
            raise ValueError(
                f"{name}: {channels[0]} input and {channels[1]} output channels do not divide into "
                f"{groups} groups."
            )
        if padding_mode not in _MODES:
            raise ValueError(
                f"{name}: padding_mode is {padding_mode!r}; it must be one of {', '.join(_MODES)}."
            )
        self.groups, self.padding_mode = groups, padding_mode
        self.kernel_size = numbers(name, "kernel_size", kernel_size, n, 1)
        self.stride = numbers(name, "stride", stride, n, 1)
        self.dilation = numbers(name, "dilation", dilation, n, 1)
        self.padding: Any = padding
        if not isinstance(padding, str):
            self.padding = numbers(name, "padding", padding, n)
        given_pads(name, padding, self.kernel_size, self.stride, self.dilation)  # it refuses others
        self.weight = Parameter(zeros((*shape, *self.kernel_size), device=device, dtype=dtype))
        self.bias = Parameter(zeros(channels[1], device=device, dtype=dtype)) if bias else None
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw the initial values anew."""
        init.affine_(self.weight, self.bias)

    def extra_repr(self) -> str:
        n = self.dims
        text = (
            f"{self.in_channels}, {self.out_channels}, kernel_size={self.kernel_size}, "
            f"stride={self.stride}"
        )
        for name, plain in (("padding", (0,) * n), ("dilation", (1,) * n)):
            value = getattr(self, name)
            text += "" if value == plain else f", {name}={value}"
        extra = getattr(self, "output_padding", (0,) * n)
        text += "" if extra == (0,) * n else f", output_padding={extra}"
        text += "" if self.groups == 1 else f", groups={self.groups}"
        text += "" if self.bias is not None else ", bias=False"
        return text if self.padding_mode == "zeros" else f"{text}, padding_mode={self.padding_mode}"


class _Conv(_Convolution):
    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: Lengths,
        stride: Lengths = 1,
        padding: Lengths | str = 0,
        dilation: Lengths = 1,
        groups: int = 1,
        bias: bool = True,
        padding_mode: str = "zeros",
        device: Device | str | None = None,
        dtype: DType | None = None,
    ) -> None:
        super().__init__()
        self._set(
            (in_channels, out_channels), (out_channels, in_channels // max(groups, 1)),
            kernel_size, stride, padding, dilation, groups, bias, padding_mode, device, dtype,
        )  # fmt: skip

    def forward(self, input: Tensor) -> Tensor:
        padding = self.padding
        if self.padding_mode != "zeros":
            input, padding = F.pad(input, self._border(), self.padding_mode), 0
        out: Tensor = type(self).function(
            input, self.weight, self.bias, self.stride, padding, self.dilation, self.groups
        )
        return out

    def _border(self) -> list[int]:
        """The padding as F.pad takes it: before and after, the last dim first."""
        if self.padding == "same":
            spans = [d * (k - 1) for k, d in zip(self.kernel_size, self.dilation)]
            pairs = [(span // 2, span - span // 2) for span in spans]
        else:
            both = (0,) * self.dims if self.padding == "valid" else self.padding
            pairs = [(width, width) for width in both]
        return [width for pair in reversed(pairs) for width in pair]


class Conv1d(_Conv):
    """Cross-correlation of signals [n, in_channels, l] with learned kernels.

    >>> import contraflow as cf
    >>> layer = cf.nn.Conv1d(4, 6, kernel_size=3, padding=1)
    >>> layer(cf.ones(2, 4, 8)).shape
    (2, 6, 8)
    """

    dims, function = 1, F.conv1d


class Conv2d(_Conv):
    """Cross-correlation of images [n, in_channels, h, w] with learned kernels.

    >>> import contraflow as cf
    >>> cf.nn.Conv2d(3, 8, 3, padding=1)(cf.zeros(2, 3, 5, 5)).shape
    (2, 8, 5, 5)
    """

    dims, function = 2, F.conv2d


class Conv3d(_Conv):
    """Cross-correlation of volumes [n, in_channels, d, h, w] with learned kernels.

    >>> import contraflow as cf
    >>> layer = cf.nn.Conv3d(4, 6, kernel_size=3, padding=1)
    >>> layer(cf.ones(2, 4, 8, 8, 8)).shape
    (2, 6, 8, 8, 8)
    """

    dims, function = 3, F.conv3d


class _ConvTranspose(_Convolution):
    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: Lengths,
        stride: Lengths = 1,
        padding: Lengths = 0,
        output_padding: Lengths = 0,
        groups: int = 1,
        bias: bool = True,
        dilation: Lengths = 1,
        padding_mode: str = "zeros",
        device: Device | str | None = None,
        dtype: DType | None = None,
    ) -> None:
        super().__init__()
        name = type(self).__name__
        if padding_mode != "zeros":
            raise ValueError(f"{name}: padding_mode is {padding_mode!r}; only 'zeros' is possible.")
        self.output_padding = numbers(name, "output_padding", output_padding, self.dims)
        self._set(
            (in_channels, out_channels), (in_channels, out_channels // max(groups, 1)),
            kernel_size, stride, padding, dilation, groups, bias, padding_mode, device, dtype,
        )  # fmt: skip

    def forward(self, input: Tensor, output_size: Sequence[int] | None = None) -> Tensor:
        extra = self.output_padding if output_size is None else self._extra(input, output_size)
        out: Tensor = type(self).function(
            input, self.weight, self.bias, self.stride, self.padding, extra, self.groups,
            self.dilation,
        )  # fmt: skip
        return out

    def _extra(self, input: Tensor, output_size: Sequence[int]) -> tuple[int, ...]:
        """The output padding that gives an output size."""
        n = self.dims
        least = [
            (m - 1) * st - 2 * p + d * (k - 1) + 1
            for m, st, p, d, k in zip(
                input.shape[-n:], self.stride, self.padding, self.dilation, self.kernel_size
            )
        ]
        extra = tuple(m - low for m, low in zip(output_size[-n:], least))
        if any(not 0 <= e < st for e, st in zip(extra, self.stride)):
            most = [low + st - 1 for low, st in zip(least, self.stride)]
            raise ValueError(
                f"{type(self).__name__}: output_size {list(output_size)} is impossible for "
                f"{describe(input)}; it must be from {least} to {most}."
            )
        return extra


class ConvTranspose1d(_ConvTranspose):
    """The transpose of Conv1d: signals [n, in_channels, l] to longer ones.

    >>> import contraflow as cf
    >>> layer = cf.nn.ConvTranspose1d(4, 6, kernel_size=2, stride=2)
    >>> layer(cf.ones(2, 4, 8)).shape
    (2, 6, 16)
    """

    dims, function = 1, F.conv_transpose1d


class ConvTranspose2d(_ConvTranspose):
    """The transpose of Conv2d: images [n, in_channels, h, w] to larger ones.

    >>> import contraflow as cf
    >>> cf.nn.ConvTranspose2d(3, 8, 2, stride=2)(cf.zeros(2, 3, 5, 5)).shape
    (2, 8, 10, 10)
    """

    dims, function = 2, F.conv_transpose2d


class ConvTranspose3d(_ConvTranspose):
    """The transpose of Conv3d: volumes [n, in_channels, d, h, w] to larger ones.

    >>> import contraflow as cf
    >>> layer = cf.nn.ConvTranspose3d(4, 6, kernel_size=2, stride=2)
    >>> layer(cf.ones(2, 4, 8, 8, 8)).shape
    (2, 6, 16, 16, 16)
    """

    dims, function = 3, F.conv_transpose3d
