"""Norm layers: over the last dims, over groups of channels, and with running statistics."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from contraflow import dtypes
from contraflow.devices.names import Device
from contraflow.dtypes import DType
from contraflow.errors import describe
from contraflow.nn import functional as F
from contraflow.nn import init
from contraflow.nn.applied import Applied
from contraflow.nn.module import Module
from contraflow.nn.parameter import Parameter
from contraflow.ops.creation.create import ones, zeros
from contraflow.tensors.tensor import Tensor


class _Affine(Module):
    """A weight that starts as ones and a bias that starts as zeros, or none."""

    def _set_affine(
        self, shape: int | tuple[int, ...], weight: bool, bias: bool,
        device: Device | str | None, dtype: DType | None,
    ) -> None:  # fmt: skip
        self.weight = Parameter(ones(shape, device=device, dtype=dtype)) if weight else None
        self.bias = Parameter(zeros(shape, device=device, dtype=dtype)) if bias else None

    def reset_parameters(self) -> None:
        """Back to ones and zeros."""
        if self.weight is not None:
            init.ones_(self.weight)
        if self.bias is not None:
            init.zeros_(self.bias)


class _OverLastDims(_Affine):
    """The base of norms over the last dims."""

    def __init__(
        self, normalized_shape: int | Sequence[int], eps: float | None, elementwise_affine: bool
    ) -> None:
        super().__init__()
        shape = normalized_shape
        self.normalized_shape = (shape,) if isinstance(shape, int) else tuple(shape)
        self.eps, self.elementwise_affine = eps, elementwise_affine

    def extra_repr(self) -> str:
        return (
            f"{self.normalized_shape}, eps={self.eps}, elementwise_affine={self.elementwise_affine}"
        )


class LayerNorm(_OverLastDims):
    """(x - mean) / sqrt(var + eps) over the last dims, then scaled and shifted.

    >>> import contraflow as cf
    >>> layer = cf.nn.LayerNorm(4)
    >>> layer(cf.tensor([[1.0, 2.0, 3.0, 4.0]]))
    tensor([[-1.3416, -0.4472,  0.4472,  1.3416]], grad_fn=<layer_norm>)
    """

    def __init__(
        self,
        normalized_shape: int | Sequence[int],
        eps: float = 1e-5,
        elementwise_affine: bool = True,
        bias: bool = True,
        device: Device | str | None = None,
        dtype: DType | None = None,
    ) -> None:
        super().__init__(normalized_shape, eps, elementwise_affine)
        self._set_affine(
            self.normalized_shape, elementwise_affine, elementwise_affine and bias, device, dtype
        )

    def forward(self, input: Tensor) -> Tensor:
        out: Tensor = F.layer_norm(input, self.normalized_shape, self.weight, self.bias, self.eps)
        return out


class RMSNorm(_OverLastDims):
    """x / sqrt(mean(x * x) + eps) over the last dims, then scaled.

    >>> import contraflow as cf
    >>> layer = cf.nn.RMSNorm(4)
    >>> layer(cf.tensor([[1.0, 2.0, 3.0, 4.0]]))
    tensor([[0.3651, 0.7303, 1.0954, 1.4606]], grad_fn=<rms_norm>)
    """

    def __init__(
        self,
        normalized_shape: int | Sequence[int],
        eps: float | None = None,
        elementwise_affine: bool = True,
        device: Device | str | None = None,
        dtype: DType | None = None,
    ) -> None:
        super().__init__(normalized_shape, eps, elementwise_affine)
        self._set_affine(self.normalized_shape, elementwise_affine, False, device, dtype)

    def forward(self, input: Tensor) -> Tensor:
        out: Tensor = F.rms_norm(input, self.normalized_shape, self.weight, self.eps)
        return out


class GroupNorm(_Affine):
    """(x - mean) / sqrt(var + eps) over groups of channels and all spatial dims of a sample.

    >>> import contraflow as cf
    >>> layer = cf.nn.GroupNorm(2, 4)
    >>> layer(cf.ones(2, 4, 8, 8)).shape
    (2, 4, 8, 8)
    """

    def __init__(
        self,
        num_groups: int,
        num_channels: int,
        eps: float = 1e-5,
        affine: bool = True,
        device: Device | str | None = None,
        dtype: DType | None = None,
        *,
        bias: bool = True,
    ) -> None:
        super().__init__()
        if num_groups < 1 or num_channels % num_groups:
            raise ValueError(
                f"GroupNorm: {num_channels} channels do not divide into {num_groups} groups."
            )
        self.num_groups, self.num_channels, self.eps = num_groups, num_channels, eps
        self.affine = affine
        self._set_affine(num_channels, affine, affine and bias, device, dtype)

    def forward(self, input: Tensor) -> Tensor:
        out: Tensor = F.group_norm(input, self.num_groups, self.weight, self.bias, self.eps)
        return out

    def extra_repr(self) -> str:
        return f"{self.num_groups}, {self.num_channels}, eps={self.eps}, affine={self.affine}"


class LocalResponseNorm(Applied, function=F.local_response_norm):
    """x / (k + alpha * mean of the squares of `size` neighbouring channels) ** beta.

    >>> import contraflow as cf
    >>> layer = cf.nn.LocalResponseNorm(3)
    >>> layer(cf.ones(2, 4, 8, 8)).shape
    (2, 4, 8, 8)
    """

    size: int
    alpha: float = 1e-4
    beta: float = 0.75
    k: float = 1.0

    def extra_repr(self) -> str:
        return f"{self.size}, alpha={self.alpha}, beta={self.beta}, k={self.k}"


# --- running statistics ------------------------------------------------------------------------


class _Running(_Affine):
    """A norm per channel that may remember the statistics of the batches it has seen."""

    running_mean: Tensor | None
    running_var: Tensor | None
    num_batches_tracked: Tensor | None
    inputs: tuple[str, ...]  # the dims it takes

    def __init__(
        self,
        num_features: int,
        eps: float = 1e-5,
        momentum: float | None = 0.1,
        affine: bool = True,
        track_running_stats: bool = True,
        device: Device | str | None = None,
        dtype: DType | None = None,
        *,
        bias: bool = True,
    ) -> None:
        super().__init__()
        self.num_features, self.eps, self.momentum = num_features, eps, momentum
        self.affine, self.track_running_stats = affine, track_running_stats
        self._set_affine(num_features, affine, affine and bias, device, dtype)
        tracked = track_running_stats
        factory: dict[str, Any] = {"device": device, "dtype": dtype}
        self.register_buffer("running_mean", zeros(num_features, **factory) if tracked else None)
        self.register_buffer("running_var", ones(num_features, **factory) if tracked else None)
        self.register_buffer(
            "num_batches_tracked", zeros((), device=device, dtype=dtypes.int64) if tracked else None
        )

    def reset_running_stats(self) -> None:
        """Forget the batches seen."""
        if self.running_mean is not None:
            init.zeros_(self.running_mean)
        if self.running_var is not None:
            init.ones_(self.running_var)
        if self.num_batches_tracked is not None:
            init.zeros_(self.num_batches_tracked)

    def reset_parameters(self) -> None:
        """Back to ones and zeros, without history."""
        self.reset_running_stats()
        super().reset_parameters()

    def _check(self, input: Tensor, channels: int) -> None:
        ranks = [len(dims.split()) for dims in self.inputs]
        if input.ndim not in ranks or input.shape[channels] != self.num_features:
            names = (dims.replace("c", str(self.num_features)) for dims in self.inputs)
            wanted = " or ".join(f"[{dims}]" for dims in names)
            raise ValueError(f"{type(self).__name__}: expected {wanted}, got {describe(input)}.")

    def extra_repr(self) -> str:
        return (
            f"{self.num_features}, eps={self.eps}, momentum={self.momentum}, "
            f"affine={self.affine}, track_running_stats={self.track_running_stats}"
        )


class _BatchNorm(_Running):
    def _check_input_dim(self, input: Tensor) -> None:
        """PyTorch's name of the check of shapes, which classes of programs call or replace."""
        self._check(input, 1)

    def forward(self, input: Tensor) -> Tensor:
        self._check_input_dim(input)
        momentum: float | Tensor = 0.0 if self.momentum is None else self.momentum
        tracked = self.training and self.track_running_stats
        if tracked and self.num_batches_tracked is not None:
            self.num_batches_tracked.add_(1)
            if self.momentum is None:
                average = self.running_mean
                # With the digits of the averages, which are not those of the default dtype.
                digits = dtypes.float32 if average is None else average.dtype.compute
                momentum = 1.0 / self.num_batches_tracked.to(digits)
        history = (self.running_mean, self.running_var)
        if self.training and not tracked:
            history = (None, None)
        return F.batch_norm(
            input, *history, self.weight, self.bias,
            self.training or self.running_mean is None, momentum, self.eps,
        )  # fmt: skip


class BatchNorm1d(_BatchNorm):
    """Rows [n, c] or signals [n, c, l] normalized per channel; see BatchNorm2d.

    >>> import contraflow as cf
    >>> layer = cf.nn.BatchNorm1d(4)
    >>> layer(cf.ones(2, 4, 8)).shape
    (2, 4, 8)
    """

    inputs = ("n, c", "n, c, l")


class BatchNorm2d(_BatchNorm):
    """Images [n, c, h, w] normalized per channel: by the batch in training, else by its history.

    `momentum` None keeps the plain mean of all batches seen.

    >>> import contraflow as cf
    >>> layer = cf.nn.BatchNorm2d(4)
    >>> layer(cf.ones(2, 4, 8, 8)).shape
    (2, 4, 8, 8)
    """

    inputs = ("n, c, h, w",)


class BatchNorm3d(_BatchNorm):
    """Volumes [n, c, d, h, w] normalized per channel; see BatchNorm2d.

    >>> import contraflow as cf
    >>> layer = cf.nn.BatchNorm3d(4)
    >>> layer(cf.ones(2, 4, 8, 8, 8)).shape
    (2, 4, 8, 8, 8)
    """

    inputs = ("n, c, d, h, w",)


class SyncBatchNorm(_BatchNorm):
    """A batch norm [n, c, ...] whose batch is that of all processes. There is one process here.

    >>> import contraflow as cf
    >>> cf.nn.SyncBatchNorm.convert_sync_batchnorm(cf.nn.BatchNorm1d(2))(cf.ones(3, 2)).shape
    (3, 2)
    """

    inputs = ("n, c", "n, c, l", "n, c, h, w", "n, c, d, h, w")

    def __init__(
        self,
        num_features: int,
        eps: float = 1e-5,
        momentum: float | None = 0.1,
        affine: bool = True,
        track_running_stats: bool = True,
        process_group: Any = None,
        device: Device | str | None = None,
        dtype: DType | None = None,
    ) -> None:
        if process_group is not None:
            raise NotImplementedError(
                "SyncBatchNorm: there is one process, so process_group must be None."
            )
        super().__init__(num_features, eps, momentum, affine, track_running_stats, device, dtype)

    @classmethod
    def convert_sync_batchnorm(cls, module: Module, process_group: Any = None) -> Module:
        """A module with its batch norms replaced by these, which share their tensors."""
        made = module
        if isinstance(module, _BatchNorm) and not isinstance(module, cls):
            made = cls(
                module.num_features, module.eps, module.momentum, module.affine,
                module.track_running_stats, process_group,
            )  # fmt: skip
            for kind in ("_parameters", "_buffers"):
                for name, value in module.__dict__[kind].items():
                    setattr(made, name, value)
            made.train(module.training)
        for name, child in list(module.named_children()):
            made.add_module(name, cls.convert_sync_batchnorm(child, process_group))
        return made


class _InstanceNorm(_Running):
    def __init__(
        self,
        num_features: int,
        eps: float = 1e-5,
        momentum: float = 0.1,
        affine: bool = False,
        track_running_stats: bool = False,
        device: Device | str | None = None,
        dtype: DType | None = None,
        *,
        bias: bool = True,
    ) -> None:
        super().__init__(
            num_features, eps, momentum, affine, track_running_stats, device, dtype, bias=bias
        )

    def forward(self, input: Tensor) -> Tensor:
        single = input.ndim == len(self.inputs[0].split())  # a sample without a batch
        self._check(input, 0 if single else 1)
        out = F.instance_norm(
            input[None] if single else input, self.running_mean, self.running_var, self.weight,
            self.bias, self.training or not self.track_running_stats, self.momentum or 0.0,
            self.eps,
        )  # fmt: skip
        return out[0] if single else out


class InstanceNorm1d(_InstanceNorm):
    """Signals [n, c, l] or [c, l], each channel of each sample normalized by itself.

    >>> import contraflow as cf
    >>> layer = cf.nn.InstanceNorm1d(4)
    >>> layer(cf.ones(2, 4, 8)).shape
    (2, 4, 8)
    """

    inputs = ("c, l", "n, c, l")


class InstanceNorm2d(_InstanceNorm):
    """Images [n, c, h, w] or [c, h, w], each channel of each sample normalized by itself.

    >>> import contraflow as cf
    >>> layer = cf.nn.InstanceNorm2d(4)
    >>> layer(cf.ones(2, 4, 8, 8)).shape
    (2, 4, 8, 8)
    """

    inputs = ("c, h, w", "n, c, h, w")


class InstanceNorm3d(_InstanceNorm):
    """Volumes [n, c, d, h, w] or [c, d, h, w], each channel of each normalized by itself.

    >>> import contraflow as cf
    >>> layer = cf.nn.InstanceNorm3d(4)
    >>> layer(cf.ones(2, 4, 8, 8, 8)).shape
    (2, 4, 8, 8, 8)
    """

    inputs = ("c, d, h, w", "n, c, d, h, w")
