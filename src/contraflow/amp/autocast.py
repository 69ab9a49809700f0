"""Autocast: ops compute in the dtype that their declarations name for it.

The state of the thread holds the low dtype, and `op.apply` casts the inputs of an op declared with
`autocast="low"` to it, and those of one declared with "float32" up to that. Casts are ops, so that
gradients arrive in the dtypes of the parameters. Backward runs in the dtypes of the forward.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from contraflow.devices.names import TYPES, Device
from contraflow.dtypes import DType, bfloat16, float16
from contraflow.errors import DeviceError
from contraflow.operation.context import changed, other_devices, state
from contraflow.operation.modes import Mode
from contraflow.tensors.tensor import Tensor
from contraflow.tensors.tree import map_leaves


class autocast(Mode):
    """Compute products in `dtype` (bfloat16 on the cpu), in a with-block or a decorated function.

    Matrix products, convolutions and attention run in the low dtype, losses, softmax and norms in
    float32, and everything else in the dtype of what it is given. float64 stays as it is. That is
    so on every device: the kind that is named decides about the dtype where none is given.

    >>> import contraflow as cf
    >>> x, w = cf.ones(2, 3), cf.ones(3, 4, requires_grad=True)
    >>> with cf.amp.autocast("cpu"):
    ...     y = x @ w
    >>> y.dtype
    contraflow.bfloat16
    >>> y.sum().backward()
    >>> w.grad.dtype
    contraflow.float32
    """

    def __init__(
        self,
        device_type: str,
        dtype: DType | None = None,
        enabled: bool = True,
        cache_enabled: bool | None = None,
    ) -> None:
        super().__init__()
        low = _default(device_type) if dtype is None else dtype
        if enabled and low not in (bfloat16, float16):
            raise ValueError(
                f"autocast: dtype is {low}; it must be contraflow.bfloat16 or contraflow.float16."
            )
        there = other_devices.get(str(Device(device_type)))
        if enabled and there is not None and low.name in there.limits.lacks:
            remedy = (
                f"Leave autocast out, or give it enabled=False: {device_type} computes in float32."
            )
            if float16.name not in there.limits.lacks:
                remedy = "Use dtype=contraflow.float16."
            raise DeviceError(f"autocast: {low} is not a dtype of {device_type}. {remedy}")
        self.device, self.fast_dtype = device_type, low
        self.fields = {"autocast": low if enabled else None}


def _default(device_type: str) -> DType:
    return bfloat16 if Device(device_type).type == "cpu" else float16


def is_autocast_enabled(device_type: str | None = None) -> bool:
    """Whether ops compute in a low dtype now.

    >>> import contraflow as cf
    >>> with cf.autocast("cpu"):
    ...     cf.is_autocast_enabled("cpu")
    True
    """
    return state().autocast is not None


def is_autocast_available(device_type: str) -> bool:
    """Whether autocast knows a kind of device.

    >>> import contraflow as cf
    >>> is_autocast_available("cpu"), is_autocast_available("abacus")
    (True, False)
    """
    return device_type in TYPES


def get_autocast_dtype(device_type: str) -> DType:
    """The low dtype of autocast, or what it would be.

    >>> import contraflow as cf
    >>> cf.get_autocast_dtype("cpu")
    contraflow.bfloat16
    """
    return state().autocast or _default(device_type)


def custom_fwd(
    fwd: Callable[..., Any] | None = None, *, device_type: str, cast_inputs: DType | None = None
) -> Any:
    """Decorator for the forward of a `Function`: its backward, by `custom_bwd`, runs like it.

    With `cast_inputs`, floating-point arguments are cast to that dtype where autocast is on, and
    the forward runs without it.

    >>> import contraflow as cf
    >>> class Double(cf.autograd.Function):
    ...     @staticmethod
    ...     @cf.amp.custom_fwd(device_type="cpu", cast_inputs=cf.float32)
    ...     def forward(ctx, x):
    ...         return x * 2
    ...
    ...     @staticmethod
    ...     @cf.amp.custom_bwd(device_type="cpu")
    ...     def backward(ctx, grad):
    ...         return grad * 2
    >>> with cf.autocast("cpu", dtype=cf.bfloat16):
    ...     Double.apply(cf.ones(2, dtype=cf.bfloat16)).dtype
    contraflow.float32
    """
    if fwd is None:
        return functools.partial(custom_fwd, device_type=device_type, cast_inputs=cast_inputs)

    @functools.wraps(fwd)
    def wrapped(ctx: Any, *args: Any, **kwargs: Any) -> Any:
        current = state().autocast
        if cast_inputs is None or current is None:
            ctx.autocast = current
            return fwd(ctx, *args, **kwargs)
        ctx.autocast = None
        with changed(autocast=None):
            args, kwargs = map_leaves(lambda x: _cast(x, cast_inputs), (args, kwargs))
            return fwd(ctx, *args, **kwargs)

    return wrapped


def custom_bwd(bwd: Callable[..., Any] | None = None, *, device_type: str) -> Any:
    """Decorator for the backward of a `Function` whose forward has `custom_fwd`.

    >>> import contraflow as cf
    >>> class Double(cf.autograd.Function):
    ...     @staticmethod
    ...     @cf.amp.custom_fwd(device_type="cpu")
    ...     def forward(ctx, x):
    ...         return x * 2
    ...
    ...     @staticmethod
    ...     @cf.amp.custom_bwd(device_type="cpu")
    ...     def backward(ctx, grad):
    ...         return grad * 2
    >>> x = cf.ones(2, requires_grad=True)
    >>> Double.apply(x).sum().backward()
    >>> x.grad
    tensor([2., 2.])
    """
    if bwd is None:
        return functools.partial(custom_bwd, device_type=device_type)

    @functools.wraps(bwd)
    def wrapped(ctx: Any, *args: Any, **kwargs: Any) -> Any:
        with changed(autocast=ctx.autocast):
            return bwd(ctx, *args, **kwargs)

    return wrapped


def _cast(x: Any, dtype: DType) -> Any:
    floats = isinstance(x, Tensor) and x.dtype.is_floating_point and x.dtype.itemsize < 8
    return x.to(dtype) if floats else x
