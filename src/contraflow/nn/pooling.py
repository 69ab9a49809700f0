"""Pooling layers over one, two and three spatial dims, and layers that change spatial sizes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, ClassVar

from contraflow.nn import functional as F
from contraflow.nn.applied import Applied
from contraflow.nn.fractional import check_sizes
from contraflow.nn.module import Module
from contraflow.ops.nn.window import numbers
from contraflow.shapes import Lengths
from contraflow.tensors.tensor import Tensor


class _Windows(Applied, hidden=()):
    """Windows that do not overlap, unless a stride is given."""

    kernel_size: Lengths
    stride: Lengths | None = None
    padding: Lengths = 0

    def __post_init__(self) -> None:
        if self.stride is None:
            self.stride = self.kernel_size

    def _spread(self, dims: int) -> None:
        """Keep one number per spatial dim."""
        for name in ("kernel_size", "stride", "padding"):
            setattr(self, name, numbers(type(self).__name__, name, getattr(self, name), dims))


# --- the largest -------------------------------------------------------------------------------


class _MaxPool(_Windows, hidden=("return_indices",)):
    dilation: Lengths = 1
    return_indices: bool = False
    ceil_mode: bool = False


class MaxPool1d(_MaxPool, function=F.max_pool1d):
    """The largest element of each window of signals [n, c, l].

    >>> import contraflow as cf
    >>> layer = cf.nn.MaxPool1d(2)
    >>> layer(cf.ones(2, 4, 8)).shape
    (2, 4, 4)
    """


class MaxPool2d(_MaxPool, function=F.max_pool2d):
    """The largest element of each window of images [n, c, h, w].

    >>> import contraflow as cf
    >>> cf.nn.MaxPool2d(2)(cf.zeros(1, 3, 6, 8)).shape
    (1, 3, 3, 4)
    """


class MaxPool3d(_MaxPool, function=F.max_pool3d):
    """The largest element of each window of volumes [n, c, d, h, w].

    >>> import contraflow as cf
    >>> layer = cf.nn.MaxPool3d(2)
    >>> layer(cf.ones(2, 4, 8, 8, 8)).shape
    (2, 4, 4, 4, 4)
    """


class _MaxUnpool(_Windows, hidden=()):
    dims: ClassVar[int]

    def __post_init__(self) -> None:
        super().__post_init__()
        self._spread(self.dims)

    def forward(self, input: Tensor, indices: Tensor, output_size: Any = None) -> Tensor:
        out: Tensor = self.function(
            input, indices, self.kernel_size, self.stride, self.padding, output_size
        )
        return out


class MaxUnpool1d(_MaxUnpool, function=F.max_unpool1d):
    """Largest elements [n, c, l] put back where MaxPool1d found them, zeros elsewhere.

    >>> import contraflow as cf
    >>> layer = cf.nn.MaxUnpool1d(2)
    >>> layer(*cf.nn.MaxPool1d(2, return_indices=True)(cf.ones(2, 4, 8))).shape
    (2, 4, 8)
    """

    dims = 1


class MaxUnpool2d(_MaxUnpool, function=F.max_unpool2d):
    """Largest elements [n, c, h, w] put back where MaxPool2d found them, zeros elsewhere.

    >>> import contraflow as cf
    >>> layer = cf.nn.MaxUnpool2d(2)
    >>> layer(*cf.nn.MaxPool2d(2, return_indices=True)(cf.ones(2, 4, 8, 8))).shape
    (2, 4, 8, 8)
    """

    dims = 2


class MaxUnpool3d(_MaxUnpool, function=F.max_unpool3d):
    """Largest elements [n, c, d, h, w] put back where MaxPool3d found them, zeros elsewhere.

    >>> import contraflow as cf
    >>> layer = cf.nn.MaxUnpool3d(2)
    >>> layer(*cf.nn.MaxPool3d(2, return_indices=True)(cf.ones(2, 4, 8, 8, 8))).shape
    (2, 4, 8, 8, 8)
    """

    dims = 3


class _AdaptiveMaxPool(Applied, hidden=("return_indices",)):
    output_size: Any
    return_indices: bool = False


class AdaptiveMaxPool1d(_AdaptiveMaxPool, function=F.adaptive_max_pool1d):
    """Max pooling of signals [n, c, l] to a given size.

    >>> import contraflow as cf
    >>> layer = cf.nn.AdaptiveMaxPool1d(3)
    >>> layer(cf.ones(2, 4, 8)).shape
    (2, 4, 3)
    """


class AdaptiveMaxPool2d(_AdaptiveMaxPool, function=F.adaptive_max_pool2d):
    """Max pooling of images [n, c, h, w] to given sizes; None keeps a size.

    >>> import contraflow as cf
    >>> layer = cf.nn.AdaptiveMaxPool2d(3)
    >>> layer(cf.ones(2, 4, 8, 8)).shape
    (2, 4, 3, 3)
    """


class AdaptiveMaxPool3d(_AdaptiveMaxPool, function=F.adaptive_max_pool3d):
    """Max pooling of volumes [n, c, d, h, w] to given sizes; None keeps a size.

    >>> import contraflow as cf
    >>> layer = cf.nn.AdaptiveMaxPool3d(3)
    >>> layer(cf.ones(2, 4, 8, 8, 8)).shape
    (2, 4, 3, 3, 3)
    """


class _FractionalMaxPool(Module):
    """Max pooling at random distances; text, arguments and buffers are PyTorch's."""

    dims: ClassVar[int]
    function: ClassVar[Callable[..., Any]]

    def __init__(
        self,
        kernel_size: Lengths,
        output_size: Lengths | None = None,
        output_ratio: float | Sequence[float] | None = None,
        return_indices: bool = False,
        _random_samples: Tensor | None = None,
    ) -> None:
        super().__init__()
        name, n = type(self).__name__, self.dims
        self.kernel_size = numbers(name, "kernel_size", kernel_size, n, 1)
        checked = check_sizes(name, n, output_size, output_ratio)
        self.output_size = None if output_size is None else checked
        self.output_ratio = None if output_ratio is None else checked
        self.return_indices = return_indices
        self.register_buffer("_random_samples", _random_samples)

    def forward(self, input: Tensor) -> Any:
        return type(self).function(
            input, self.kernel_size, self.output_size, self.output_ratio, self.return_indices,
            self._random_samples,
        )  # fmt: skip


class FractionalMaxPool2d(_FractionalMaxPool):
    """Max pooling of images [n, c, h, w] to given sizes, over windows at random distances.

    >>> import contraflow as cf
    >>> layer = cf.nn.FractionalMaxPool2d(2, output_size=3)
    >>> layer(cf.ones(2, 4, 8, 8)).shape
    (2, 4, 3, 3)
    """

    dims, function = 2, F.fractional_max_pool2d


class FractionalMaxPool3d(_FractionalMaxPool):
    """Max pooling of volumes [n, c, d, h, w] to given sizes, over windows at random distances.

    >>> import contraflow as cf
    >>> layer = cf.nn.FractionalMaxPool3d(2, output_size=3)
    >>> layer(cf.ones(2, 4, 8, 8, 8)).shape
    (2, 4, 3, 3, 3)
    """

    dims, function = 3, F.fractional_max_pool3d


# --- the mean ----------------------------------------------------------------------------------


class _AvgPool(_Windows, hidden=("ceil_mode", "count_include_pad", "divisor_override")):
    ceil_mode: bool = False
    count_include_pad: bool = True


class AvgPool1d(_AvgPool, function=F.avg_pool1d):
    """The mean of each window of signals [n, c, l].

    >>> import contraflow as cf
    >>> layer = cf.nn.AvgPool1d(2)
    >>> layer(cf.ones(2, 4, 8)).shape
    (2, 4, 4)
    """

    def __post_init__(self) -> None:
        super().__post_init__()
        self._spread(1)


class AvgPool2d(_AvgPool, function=F.avg_pool2d):
    """The mean of each window of images [n, c, h, w].

    >>> import contraflow as cf
    >>> layer = cf.nn.AvgPool2d(2)
    >>> layer(cf.ones(2, 4, 8, 8)).shape
    (2, 4, 4, 4)
    """

    divisor_override: int | None = None


class AvgPool3d(_AvgPool, function=F.avg_pool3d):
    """The mean of each window of volumes [n, c, d, h, w].

    >>> import contraflow as cf
    >>> layer = cf.nn.AvgPool3d(2)
    >>> layer(cf.ones(2, 4, 8, 8, 8)).shape
    (2, 4, 4, 4, 4)
    """

    divisor_override: int | None = None


class _LPPool(Applied, hidden=()):
    norm_type: float
    kernel_size: Lengths
    stride: Lengths | None = None
    ceil_mode: bool = False


class LPPool1d(_LPPool, function=F.lp_pool1d):
    """(sum of x**p)**(1/p) over each window of signals [n, c, l].

    >>> import contraflow as cf
    >>> layer = cf.nn.LPPool1d(2, kernel_size=2)
    >>> layer(cf.ones(2, 4, 8)).shape
    (2, 4, 4)
    """


class LPPool2d(_LPPool, function=F.lp_pool2d):
    """(sum of x**p)**(1/p) over each window of images [n, c, h, w].

    >>> import contraflow as cf
    >>> layer = cf.nn.LPPool2d(2, kernel_size=2)
    >>> layer(cf.ones(2, 4, 8, 8)).shape
    (2, 4, 4, 4)
    """


class LPPool3d(_LPPool, function=F.lp_pool3d):
    """(sum of x**p)**(1/p) over each window of volumes [n, c, d, h, w].

    >>> import contraflow as cf
    >>> layer = cf.nn.LPPool3d(2, kernel_size=2)
    >>> layer(cf.ones(2, 4, 8, 8, 8)).shape
    (2, 4, 4, 4, 4)
    """


class _AdaptiveAvgPool(Applied, hidden=()):
    output_size: Any


class AdaptiveAvgPool1d(_AdaptiveAvgPool, function=F.adaptive_avg_pool1d):
    """Average pooling of signals [n, c, l] to a given size.

    >>> import contraflow as cf
    >>> layer = cf.nn.AdaptiveAvgPool1d(3)
    >>> layer(cf.ones(2, 4, 8)).shape
    (2, 4, 3)
    """


class AdaptiveAvgPool2d(_AdaptiveAvgPool, function=F.adaptive_avg_pool2d):
    """Average pooling of images [n, c, h, w] to given sizes; None keeps a size.

    >>> import contraflow as cf
    >>> layer = cf.nn.AdaptiveAvgPool2d(3)
    >>> layer(cf.ones(2, 4, 8, 8)).shape
    (2, 4, 3, 3)
    """


class AdaptiveAvgPool3d(_AdaptiveAvgPool, function=F.adaptive_avg_pool3d):
    """Average pooling of volumes [n, c, d, h, w] to given sizes; None keeps a size.

    >>> import contraflow as cf
    >>> layer = cf.nn.AdaptiveAvgPool3d(3)
    >>> layer(cf.ones(2, 4, 8, 8, 8)).shape
    (2, 4, 3, 3, 3)
    """


# --- other spatial sizes -----------------------------------------------------------------------


class Unfold(Applied, function=F.unfold):
    """The windows of images as columns: [n, c, h, w] to [n, c * taps, m].

    >>> import contraflow as cf
    >>> layer = cf.nn.Unfold(kernel_size=2)
    >>> layer(cf.ones(2, 4, 8, 8)).shape
    (2, 16, 49)
    """

    kernel_size: Lengths
    dilation: Lengths = 1
    padding: Lengths = 0
    stride: Lengths = 1


class Fold(Applied, function=F.fold):
    """Columns summed into images, the transpose of Unfold: [n, c * taps, m] to [n, c, h, w].

    >>> import contraflow as cf
    >>> layer = cf.nn.Fold((4, 4), kernel_size=2)
    >>> layer(cf.ones(1, 8, 9)).shape
    (1, 2, 4, 4)
    """

    output_size: Lengths
    kernel_size: Lengths
    dilation: Lengths = 1
    padding: Lengths = 0
    stride: Lengths = 1


class Upsample(Applied, function=F.interpolate):
    """Images [n, c, ...] resized to `size`, or by `scale_factor`.

    >>> import contraflow as cf
    >>> layer = cf.nn.Upsample(scale_factor=2)
    >>> layer(cf.ones(2, 4, 8, 8)).shape
    (2, 4, 16, 16)
    """

    size: Any = None
    scale_factor: Any = None
    mode: str = "nearest"
    align_corners: bool | None = None
    recompute_scale_factor: bool | None = None

    def __post_init__(self) -> None:
        factor = self.scale_factor
        if factor is not None:
            several = isinstance(factor, (tuple, list))
            self.scale_factor = tuple(map(float, factor)) if several else float(factor)

    def extra_repr(self) -> str:
        name = "size" if self.scale_factor is None else "scale_factor"
        return f"{name}={getattr(self, name)!r}, mode={self.mode!r}"


class UpsamplingNearest2d(Upsample):
    """Images [n, c, h, w] resized by nearest neighbour.

    >>> import contraflow as cf
    >>> layer = cf.nn.UpsamplingNearest2d(scale_factor=2)
    >>> layer(cf.ones(2, 4, 8, 8)).shape
    (2, 4, 16, 16)
    """

    def __init__(self, size: Any = None, scale_factor: Any = None) -> None:
        super().__init__(size, scale_factor, mode="nearest")


class UpsamplingBilinear2d(Upsample):
    """Images [n, c, h, w] resized bilinearly, with corners aligned.

    >>> import contraflow as cf
    >>> layer = cf.nn.UpsamplingBilinear2d(scale_factor=2)
    >>> layer(cf.ones(2, 4, 8, 8)).shape
    (2, 4, 16, 16)
    """

    def __init__(self, size: Any = None, scale_factor: Any = None) -> None:
        super().__init__(size, scale_factor, mode="bilinear", align_corners=True)


class PixelShuffle(Applied, function=F.pixel_shuffle):
    """Channels rearranged into pixels: [..., c * r * r, h, w] to [..., c, h * r, w * r].

    >>> import contraflow as cf
    >>> layer = cf.nn.PixelShuffle(2)
    >>> layer(cf.ones(2, 4, 8, 8)).shape
    (2, 1, 16, 16)
    """

    upscale_factor: int


class PixelUnshuffle(Applied, function=F.pixel_unshuffle):
    """Pixels rearranged into channels: [..., c, h * r, w * r] to [..., c * r * r, h, w].

    >>> import contraflow as cf
    >>> layer = cf.nn.PixelUnshuffle(2)
    >>> layer(cf.ones(2, 4, 8, 8)).shape
    (2, 16, 4, 4)
    """

    downscale_factor: int


class ChannelShuffle(Applied, function=F.channel_shuffle):
    """Channels interleaved across groups: [n, g * c, ...] to [n, c * g, ...].

    >>> import contraflow as cf
    >>> layer = cf.nn.ChannelShuffle(2)
    >>> layer(cf.ones(2, 4, 8, 8)).shape
    (2, 4, 8, 8)
    """

    groups: int
