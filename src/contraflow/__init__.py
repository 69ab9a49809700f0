"""contraflow: tensors that remember how they were computed, and a compiler for whole steps."""

import math
import sys
from importlib import import_module
from typing import TYPE_CHECKING

import contraflow.gil  # isort: skip  # first: it refuses Python without its lock
import contraflow.runtime.eager  # isort: skip  # then: it installs the base context
import contraflow.ops.declared  # noqa: F401  # isort: skip  # and this declares the ops
from contraflow import autograd, ops
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
    C_NAMES as _C_NAMES,
)
from contraflow.dtypes import (
    TENSOR_NAMES as _TENSOR_NAMES,
)
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
from contraflow.errors import (
    CaptureError,
    DeviceError,
    GradientError,
    GradientShapeError,
    MismatchError,
    NotScalarError,
    OutOfMemoryError,
    OverwrittenError,
)
from contraflow.names import missing as _missing
from contraflow.operation.op import REGISTRY as _REGISTRY
from contraflow.ops.creation.create import (
    empty,
    empty_like,
    eye,
    full_like,
    linspace,
    logspace,
    ones,
    ones_like,
    zeros,
    zeros_like,
)
from contraflow.ops.creation.data import as_tensor, from_dlpack, from_numpy, tensor
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
    from contraflow import amp, data, distributions, func, linalg, nn, optim, profiler, special
    from contraflow.about import show_config
    from contraflow.amp.autocast import autocast
    from contraflow.autograd.checkpoint import checkpoint, checkpoint_sequential, is_recomputing
    from contraflow.autograd.drawing import draw
    from contraflow.serialize import load, save

__version__ = "0.1.0"

# Names that few programs use and that take a while to import, or that stand for others: the modules
# that have them. `new=old` gives a thing of the module another name.
_LATER_FROM = {
    "about": "show_config",
    "accelerator": "get_device_module",
    "amp.autocast": "autocast get_autocast_dtype is_autocast_enabled",
    "amp.grad_scaler": "GradScaler",
    "autograd.anomaly": "is_anomaly_enabled",
    "autograd.checkpoint": "checkpoint checkpoint_sequential is_recomputing",
    "autograd.drawing": "draw",
    "dtypes": "can_cast finfo iinfo promote_types",
    "cuda": "Event Stream",
    "func": "vmap",
    "futures": "Future",
    "fx": "SymBool SymFloat SymInt sym_float sym_int sym_max sym_min sym_not",
    "nn.functional": (
        "adaptive_avg_pool1d adaptive_max_pool1d alpha_dropout batch_norm bilinear ctc_loss "
        "embedding embedding_bag feature_alpha_dropout instance_norm max_pool1d_with_indices"
    ),
    "ops.creation.arrays": (
        "asarray empty_permuted empty_strided frombuffer range=range_ scalar_tensor"
    ),
    "ops.creation.counts": "binomial poisson",
    "ops.linalg.low_rank": "pca_lowrank svd_lowrank",
    "ops.queries": (
        "adjoint broadcast_shapes conj conj_physical detach detach_ fill frexp frobenius_norm "
        "get_device gradient is_complex is_conj "
        "is_floating_point is_inference is_neg is_nonzero is_same_size is_signed is_storage "
        "is_tensor isreal norm_except_dim nuclear_norm numel pinverse real "
        "resolve_conj resolve_neg result_type svd triangular_solve typename unravel_index"
    ),
    "serialize": "load save",
    "settings": (
        "are_deterministic_algorithms_enabled get_deterministic_debug_mode "
        "get_num_interop_threads "
        "is_deterministic_algorithms_warn_only_enabled is_warn_always_enabled "
        "set_default_tensor_type set_deterministic_debug_mode "
        "set_flush_denormal set_num_interop_threads set_warn_always use_deterministic_algorithms"
    ),
    "shapes": (
        "Size=Sizes channels_last channels_last_3d contiguous_format memory_format=MemoryFormat "
        "layout=MemoryFormat legacy_contiguous_format=contiguous_format preserve_format "
        "sparse_bsc sparse_bsr sparse_coo sparse_csc sparse_csr strided"
    ),
    "signal.windows": ("bartlett_window blackman_window hamming_window hann_window kaiser_window"),
    "tensors.generator": "default_generator initial_seed seed",
    "utils.dlpack": "to_dlpack",
}
_LATER: dict[str, tuple[str, str]] = {}
for _module, _names in _LATER_FROM.items():
    for _name in _names.split():
        _public, _, _own = _name.partition("=")
        _LATER[_public] = (_module, _own or _public)
_LATER_MODULES = {
    "accelerator", "amp", "ao", "array_api", "backends", "compiler", "cpu", "cuda", "data",
    "distributed", "distributions", "fft", "func", "futures", "fx", "hub", "jit", "library",
    "linalg", "masked", "mps", "multiprocessing", "nn", "onnx", "optim", "overrides", "profiler",
    "random", "serialization", "signal", "special", "testing", "types", "utils", "version",
    "webgpu", "xpu",
}  # fmt: skip
_METHODS = ("as_strided_", "fill_", "resize_as_", "zero_")  # functions as well
_CONSTANTS: dict[str, object] = {
    "e": math.e, "inf": math.inf, "nan": math.nan, "newaxis": None, "pi": math.pi, **_C_NAMES
}  # fmt: skip


def __getattr__(name: str) -> object:
    """Ops are public under their own names: `contraflow.tanh` is the op tanh."""
    if name in _LATER:
        module, own = _LATER[name]
        found: object = getattr(import_module(f"contraflow.{module}"), own)
        return found
    if name in _LATER_MODULES:
        return import_module(f"contraflow.{name}")
    if name in _CONSTANTS:
        return _CONSTANTS[name]
    if name == "torch":  # programs write torch.torch.Tensor, and that is torch.Tensor
        return sys.modules[__name__]
    if name.endswith("Tensor") and name.removesuffix("Tensor") in _TENSOR_NAMES:
        return import_module("contraflow.tensors.typed").TENSOR_TYPES[name]
    op = _REGISTRY.find(name)
    if op is not None and not op.internal:
        return op
    in_place = _REGISTRY.find(name.removesuffix("_"))
    if (in_place is not None and in_place.inplace) or name in _METHODS:
        return getattr(Tensor, name)
    raise _missing("contraflow", name)


# Python finds what is in a module itself without a call of `__getattr__`, which is left with the
# ops that users declare, and with what is imported later.
_elsewhere = {*globals(), *_LATER, *_LATER_MODULES, *_CONSTANTS}
globals().update({
    _name: _op
    for _op in _REGISTRY.values()
    if not _op.internal
    for _name in (_op.name, *_op.aliases)
    if _name not in _elsewhere
})  # fmt: skip


def __dir__() -> list[str]:
    """Every public name: what is here, and what `__getattr__` finds."""
    ops_there = {n for op in _REGISTRY.values() if not op.internal for n in (op.name, *op.aliases)}
    inplace = {f"{op.name}_" for op in _REGISTRY.values() if op.inplace}
    types = {f"{title}Tensor" for title in _TENSOR_NAMES}
    here = {name for name in globals() if not name.startswith("_")} - {"TYPE_CHECKING"}
    named = {*_LATER, *_LATER_MODULES, *_CONSTANTS, *types, *ops_there, *inplace}
    return sorted({*here, *named, "__version__"} - {"import_module", "math", "sys"})


__all__ = [
    "CaptureError",
    "DeviceError",
    "Generator",
    "GradientError",
    "GradientShapeError",
    "MismatchError",
    "NotScalarError",
    "OutOfMemoryError",
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
    "distributions",
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
