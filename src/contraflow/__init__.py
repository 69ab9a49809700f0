"""contraflow: tensors that remember how they were computed, and a compiler for whole steps."""

import contraflow.eager  # noqa: F401  # isort: skip  # first: it installs the base context
from contraflow import autograd, func, linalg, nn, ops, optim
from contraflow.about import show_config
from contraflow.autograd.checkpoint import checkpoint, checkpoint_sequential, is_recomputing
from contraflow.autograd.graph import draw
from contraflow.autograd.modes import (
    enable_grad,
    inference_mode,
    is_grad_enabled,
    is_inference_mode_enabled,
    no_grad,
    set_grad_enabled,
)
from contraflow.compile import compile, is_compiling
from contraflow.config import get_num_threads, set_num_threads
from contraflow.dtypes import (
    DType as dtype,
)
from contraflow.dtypes import (
    bfloat16,
    float16,
    float32,
    float64,
    get_default_dtype,
    int8,
    int16,
    int32,
    int64,
    set_default_dtype,
    uint8,
)
from contraflow.dtypes import (
    bool_ as bool,
)
from contraflow.errors import CaptureError, DeviceError, GradientError
from contraflow.op import REGISTRY as _REGISTRY
from contraflow.ops.arithmetic import allclose, equal
from contraflow.ops.create import (
    as_tensor,
    from_numpy,
    full_like,
    ones,
    ones_like,
    tensor,
    zeros,
    zeros_like,
)
from contraflow.ops.random import rand, randn
from contraflow.random import Generator, get_rng_state, manual_seed, set_rng_state
from contraflow.tensor import Tensor

__version__ = "0.1.0"


def __getattr__(name: str) -> object:
    """Ops are public under their own names: `contraflow.tanh` is the op tanh."""
    op = _REGISTRY.find(name)
    if op is None:
        raise AttributeError(f"module 'contraflow' has no attribute {name!r}")
    return op


__all__ = [
    "CaptureError",
    "DeviceError",
    "Generator",
    "GradientError",
    "Tensor",
    "__version__",
    "allclose",
    "as_tensor",
    "autograd",
    "bfloat16",
    "bool",
    "checkpoint",
    "checkpoint_sequential",
    "compile",
    "draw",
    "dtype",
    "enable_grad",
    "equal",
    "float16",
    "float32",
    "float64",
    "from_numpy",
    "full_like",
    "func",
    "get_default_dtype",
    "get_num_threads",
    "get_rng_state",
    "inference_mode",
    "int8",
    "int16",
    "int32",
    "int64",
    "is_compiling",
    "is_grad_enabled",
    "is_inference_mode_enabled",
    "is_recomputing",
    "linalg",
    "manual_seed",
    "nn",
    "no_grad",
    "ones",
    "ones_like",
    "ops",
    "optim",
    "rand",
    "randn",
    "set_default_dtype",
    "set_grad_enabled",
    "set_num_threads",
    "set_rng_state",
    "show_config",
    "tensor",
    "uint8",
    "zeros",
    "zeros_like",
]  # fmt: skip
