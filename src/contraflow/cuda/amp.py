"""Mixed precision under PyTorch's older path: `torch.cuda.amp.autocast` and `GradScaler`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from contraflow.amp.autocast import autocast as _autocast
from contraflow.amp.autocast import custom_bwd as _custom_bwd
from contraflow.amp.autocast import custom_fwd as _custom_fwd
from contraflow.amp.grad_scaler import GradScaler
from contraflow.cuda import is_available
from contraflow.dtypes import DType, float16
from contraflow.names import getter


class CudaAutocast(_autocast):
    """`contraflow.autocast("cuda")` where there is a GPU; elsewhere it is off, as in PyTorch."""

    def __init__(
        self, enabled: bool = True, dtype: DType = float16, cache_enabled: bool = True
    ) -> None:
        super().__init__("cuda", dtype, enabled and is_available(), cache_enabled)


autocast = CudaAutocast


def custom_fwd(fwd: Callable[..., Any] | None = None, *, cast_inputs: Any = None) -> Any:
    """`contraflow.amp.custom_fwd` for cuda."""
    return _custom_fwd(fwd, device_type="cuda", cast_inputs=cast_inputs)


def custom_bwd(bwd: Callable[..., Any]) -> Any:
    """`contraflow.amp.custom_bwd` for cuda."""
    return _custom_bwd(bwd, device_type="cuda")


__all__ = ["GradScaler", "autocast", "custom_bwd", "custom_fwd"]

globals()["__getattr__"] = getter(__name__)
