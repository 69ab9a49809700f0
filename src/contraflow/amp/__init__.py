"""Mixed precision: products in bfloat16 or float16, with parameters in float32."""

from contraflow.amp.autocast import (
    autocast,
    custom_bwd,
    custom_fwd,
    get_autocast_dtype,
    is_autocast_available,
    is_autocast_enabled,
)
from contraflow.amp.grad_scaler import GradScaler
from contraflow.names import getter

__all__ = [
    "GradScaler",
    "autocast",
    "custom_bwd",
    "custom_fwd",
    "get_autocast_dtype",
    "is_autocast_available",
    "is_autocast_enabled",
]

globals()["__getattr__"] = getter(__name__)
