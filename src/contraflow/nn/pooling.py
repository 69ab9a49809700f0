"""Pooling layers over one, two and three spatial dims, and layers that change spatial sizes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from contraflow.nn import functional as F
from contraflow.nn.module import Module
from contraflow.tensor import Tensor

Size = int | Sequence[int]


class _Pool(Module):
    """A function of windows; what `arguments` names is stored, printed and handed on."""

    function: Callable[..., Any]
    arguments: tuple[str, ...]
    unprinted: tuple[str, ...] = ()

    def _set(self, **given: Any) -> None:
        for name, value in given.items():
            setattr(self, name, value)

    def forward(self, input: Tensor) -> Any:
        return type(self).function(input, **{name: getattr(self, name) for name in self.arguments})

    def extra_repr(self) -> str:
        printed = (name for name in self.arguments if name not in self.unprinted)
        return ", ".join(f"{name}={getattr(self, name)!r}" for name in printed)


class _MaxPool(_Pool):
    arguments = ("kernel_size", "stride", "padding", "dilation", "ceil_mode", "return_indices")
    unprinted = ("return_indices",)

    def __init__(
        self,
        kernel_size: Size,
        stride: Size | None = None,
        padding: Size = 0,
        dilation: Size = 1,
        return_indices: bool = False,
        ceil_mode: bool = False,
    ) -> None:
        super().__init__()
        self._set(
            kernel_size=kernel_size, stride=kernel_size if stride is None else stride,
            padding=padding, dilation=dilation, return_indices=return_indices, ceil_mode=ceil_mode,
        )  # fmt: skip


class MaxPool1d(_MaxPool):
    """The largest element of each window of signals [n, c, l]."""

    function = F.max_pool1d


class MaxPool2d(_MaxPool):
    """The largest element of each window of images [n, c, h, w].

    >>> import contraflow as cf
    >>> cf.nn.MaxPool2d(2)(cf.zeros(1, 3, 6, 8)).shape
    (1, 3, 3, 4)
    """

    function = F.max_pool2d


class MaxPool3d(_MaxPool):
    """The largest element of each window of volumes [n, c, d, h, w]."""

    function = F.max_pool3d


class AvgPool1d(_Pool):
    """The mean of each window of signals [n, c, l]."""

    function = F.avg_pool1d
    arguments: tuple[str, ...] = (
        "kernel_size", "stride", "padding", "ceil_mode", "count_include_pad",
    )  # fmt: skip
    unprinted: tuple[str, ...] = ("ceil_mode", "count_include_pad")

    def __init__(
        self,
        kernel_size: Size,
        stride: Size | None = None,
        padding: Size = 0,
        ceil_mode: bool = False,
        count_include_pad: bool = True,
    ) -> None:
        super().__init__()
        self._set(
            kernel_size=kernel_size, stride=kernel_size if stride is None else stride,
            padding=padding, ceil_mode=ceil_mode, count_include_pad=count_include_pad,
        )  # fmt: skip


class AvgPool2d(AvgPool1d):
    """The mean of each window of images [n, c, h, w]."""

    function = F.avg_pool2d
    arguments = (*AvgPool1d.arguments, "divisor_override")
    unprinted = (*AvgPool1d.unprinted, "divisor_override")

    def __init__(
        self,
        kernel_size: Size,
        stride: Size | None = None,
        padding: Size = 0,
        ceil_mode: bool = False,
        count_include_pad: bool = True,
        divisor_override: int | None = None,
    ) -> None:
        super().__init__(kernel_size, stride, padding, ceil_mode, count_include_pad)
        self._set(divisor_override=divisor_override)


class AvgPool3d(AvgPool2d):
    """The mean of each window of volumes [n, c, d, h, w]."""

    function = F.avg_pool3d


class _LPPool(_Pool):
    arguments = ("norm_type", "kernel_size", "stride", "ceil_mode")

    def __init__(
        self,
        norm_type: float,
        kernel_size: Size,
        stride: Size | None = None,
        ceil_mode: bool = False,
    ) -> None:
        super().__init__()
        self._set(norm_type=norm_type, kernel_size=kernel_size, stride=stride, ceil_mode=ceil_mode)


class LPPool1d(_LPPool):
    """The root of the sum of the powers of each window of signals [n, c, l]."""

    function = F.lp_pool1d


class LPPool2d(_LPPool):
    """The root of the sum of the powers of each window of images [n, c, h, w]."""

    function = F.lp_pool2d


class LPPool3d(_LPPool):
    """The root of the sum of the powers of each window of volumes [n, c, d, h, w]."""

    function = F.lp_pool3d


class _AdaptiveAvgPool(_Pool):
    arguments = ("output_size",)

    def __init__(self, output_size: Any) -> None:
        super().__init__()
        self._set(output_size=output_size)


class AdaptiveAvgPool1d(_AdaptiveAvgPool):
    """The means of so many parts of signals [n, c, l]."""

    function = F.adaptive_avg_pool1d


class AdaptiveAvgPool2d(_AdaptiveAvgPool):
    """The means of so many parts of images [n, c, h, w]; None keeps a size."""

    function = F.adaptive_avg_pool2d


class AdaptiveAvgPool3d(_AdaptiveAvgPool):
    """The means of so many parts of volumes [n, c, d, h, w]; None keeps a size."""

    function = F.adaptive_avg_pool3d


class _AdaptiveMaxPool(_Pool):
    arguments = ("output_size", "return_indices")
    unprinted = ("return_indices",)

    def __init__(self, output_size: Any, return_indices: bool = False) -> None:
        super().__init__()
        self._set(output_size=output_size, return_indices=return_indices)


class AdaptiveMaxPool1d(_AdaptiveMaxPool):
    """The largest elements of so many parts of signals [n, c, l]."""

    function = F.adaptive_max_pool1d


class AdaptiveMaxPool2d(_AdaptiveMaxPool):
    """The largest elements of so many parts of images [n, c, h, w]; None keeps a size."""

    function = F.adaptive_max_pool2d


class AdaptiveMaxPool3d(_AdaptiveMaxPool):
    """The largest elements of so many parts of volumes [n, c, d, h, w]; None keeps a size."""

    function = F.adaptive_max_pool3d


# --- other spatial sizes -----------------------------------------------------------------------


class Unfold(_Pool):
    """The windows of images as columns: [n, c, h, w] to [n, c * taps, m]."""

    function = F.unfold
    arguments: tuple[str, ...] = ("kernel_size", "dilation", "padding", "stride")

    def __init__(
        self, kernel_size: Size, dilation: Size = 1, padding: Size = 0, stride: Size = 1
    ) -> None:
        super().__init__()
        self._set(kernel_size=kernel_size, dilation=dilation, padding=padding, stride=stride)


class Fold(Unfold):
    """Columns added up to images, the transpose of Unfold: [n, c * taps, m] to [n, c, h, w]."""

    function = F.fold
    arguments = ("output_size", *Unfold.arguments)

    def __init__(
        self,
        output_size: Size,
        kernel_size: Size,
        dilation: Size = 1,
        padding: Size = 0,
        stride: Size = 1,
    ) -> None:
        super().__init__(kernel_size, dilation, padding, stride)
        self._set(output_size=output_size)


class Upsample(_Pool):
    """Images [n, c, ...] at other spatial sizes, by `size` or `scale_factor`."""

    function = F.interpolate
    arguments = ("size", "scale_factor", "mode", "align_corners", "recompute_scale_factor")

    def __init__(
        self,
        size: Any = None,
        scale_factor: Any = None,
        mode: str = "nearest",
        align_corners: bool | None = None,
        recompute_scale_factor: bool | None = None,
    ) -> None:
        super().__init__()
        self._set(
            size=size, scale_factor=scale_factor, mode=mode, align_corners=align_corners,
            recompute_scale_factor=recompute_scale_factor,
        )  # fmt: skip

    def extra_repr(self) -> str:
        name = "size" if self.scale_factor is None else "scale_factor"
        return f"{name}={getattr(self, name)!r}, mode={self.mode!r}"


class PixelShuffle(_Pool):
    """Channels dealt out to pixels: [..., c * r * r, h, w] to [..., c, h * r, w * r]."""

    function = F.pixel_shuffle
    arguments = ("upscale_factor",)

    def __init__(self, upscale_factor: int) -> None:
        super().__init__()
        self._set(upscale_factor=upscale_factor)


class PixelUnshuffle(_Pool):
    """Pixels gathered into channels: [..., c, h * r, w * r] to [..., c * r * r, h, w]."""

    function = F.pixel_unshuffle
    arguments = ("downscale_factor",)

    def __init__(self, downscale_factor: int) -> None:
        super().__init__()
        self._set(downscale_factor=downscale_factor)
