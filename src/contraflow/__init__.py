"""contraflow: tensors that remember how they were computed, and a compiler for whole steps."""

from importlib import import_module
from typing import TYPE_CHECKING

import contraflow.gil  # isort: skip  # first: it refuses Python without its lock
import contraflow.runtime.eager  # isort: skip  # then: it installs the base context
import contraflow.ops.declared  # noqa: F401  # isort: skip  # and this declares the ops
from contraflow import autograd, ops
from contraflow.autograd.checkpoint import checkpoint, checkpoint_sequential, is_recomputing
from contraflow.autograd.modes import (
    enable_grad,
    inference_mode,
    is_grad_enabled,
    is_inference_mode_enabled,
    no_grad,
    set_grad_enabled,
)
from contraflow.capture.compile import compile, is_compiling
from contraflow.config import (
    get_float32_matmul_precision,
    get_num_threads,
    set_float32_matmul_precision,
    set_num_threads,
)
from contraflow.devices import get_default_device, set_default_device
from contraflow.devices.names import Device as device
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
from contraflow.errors import AbsentByChoice as _Absent
from contraflow.errors import (
    CaptureError,
    DeviceError,
    GradientError,
    GradientShapeError,
    NotScalarError,
    OverwrittenError,
)
from contraflow.operation.op import REGISTRY as _REGISTRY
from contraflow.ops.creation.create import (
    as_tensor,
    empty,
    empty_like,
    eye,
    from_dlpack,
    from_numpy,
    full_like,
    linspace,
    logspace,
    ones,
    ones_like,
    tensor,
    zeros,
    zeros_like,
)
from contraflow.ops.creation.random import rand, randn
from contraflow.ops.creation.sampling import (
    bernoulli,
    multinomial,
    normal,
    rand_like,
    randint,
    randint_like,
    randn_like,
    randperm,
)
from contraflow.ops.custom import custom_op
from contraflow.ops.elementwise.arithmetic import allclose, equal
from contraflow.tensors.generator import Generator, get_rng_state, manual_seed, set_rng_state
from contraflow.tensors.printing import get_printoptions, printoptions, set_printoptions
from contraflow.tensors.tensor import Tensor

if TYPE_CHECKING:
    from contraflow import amp, data, func, linalg, nn, optim, profiler, special
    from contraflow.about import show_config
    from contraflow.amp.autocast import autocast
    from contraflow.autograd.drawing import draw
    from contraflow.serialize import load, save

__version__ = "0.1.0"

# Names that few programs use and that take a while to import, with their modules.
_LATER = {
    "autocast": "contraflow.amp.autocast",
    "draw": "contraflow.autograd.drawing",
    "load": "contraflow.serialize",
    "save": "contraflow.serialize",
    "show_config": "contraflow.about",
}
_LATER_MODULES = {"amp", "data", "func", "linalg", "nn", "optim", "profiler", "special", "webgpu"}


# PyTorch's names for what is absent by choice, and what that is.
_ABSENT = {
    "complex": "complex numbers",
    "complex64": "complex numbers",
    "complex128": "complex numbers",
    "view_as_complex": "complex numbers",
    "view_as_real": "complex numbers",
    "polar": "complex numbers",
    "fft": "Fourier transforms",
    "stft": "Fourier transforms",
    "istft": "Fourier transforms",
    "sparse": "sparse tensors",
    "sparse_coo_tensor": "sparse tensors",
    "sparse_csr_tensor": "sparse tensors",
    "quantize_per_tensor": "quantised tensors",
}


def __getattr__(name: str) -> object:
    """Ops are public under their own names: `contraflow.tanh` is the op tanh."""
    if name in _LATER:
        found: object = getattr(import_module(_LATER[name]), name)
        return found
    if name in _LATER_MODULES:
        return import_module(f"contraflow.{name}")
    if name in _ABSENT:
        raise _Absent(
            f"{name}: there are no {_ABSENT[name]} in contraflow; see docs/differences.md."
        )
    op = _REGISTRY.find(name)
    in_place = _REGISTRY.find(name.removesuffix("_"))
    if op is None and in_place is not None and in_place.inplace:
        return getattr(Tensor, name)
    if op is None or op.internal:
        raise AttributeError(f"module 'contraflow' has no attribute {name!r}")
    return op


__all__ = [
    "CaptureError",
    "DeviceError",
    "Generator",
    "GradientError",
    "GradientShapeError",
    "NotScalarError",
    "OverwrittenError",
    "Tensor",
    "__version__",
    "allclose",
    "amp",
    "as_tensor",
    "autocast",
    "autograd",
    "bernoulli",
    "bfloat16",
    "bool",
    "checkpoint",
    "checkpoint_sequential",
    "compile",
    "custom_op",
    "data",
    "device",
    "draw",
    "dtype",
    "empty",
    "empty_like",
    "enable_grad",
    "equal",
    "eye",
    "float16",
    "float32",
    "float64",
    "from_dlpack",
    "from_numpy",
    "full_like",
    "func",
    "get_default_device",
    "get_default_dtype",
    "get_float32_matmul_precision",
    "get_num_threads",
    "get_printoptions",
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
    "linspace",
    "load",
    "logspace",
    "manual_seed",
    "multinomial",
    "nn",
    "no_grad",
    "normal",
    "ones",
    "ones_like",
    "ops",
    "optim",
    "printoptions",
    "profiler",
    "rand",
    "rand_like",
    "randint",
    "randint_like",
    "randn",
    "randn_like",
    "randperm",
    "save",
    "set_default_device",
    "set_default_dtype",
    "set_float32_matmul_precision",
    "set_grad_enabled",
    "set_num_threads",
    "set_printoptions",
    "set_rng_state",
    "show_config",
    "special",
    "tensor",
    "uint8",
    "zeros",
    "zeros_like",
]  # fmt: skip
