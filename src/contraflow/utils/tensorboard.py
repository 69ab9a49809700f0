"""TensorBoard's writer, which is tensorboardX's and takes tensors: `pip install tensorboardX`."""

from __future__ import annotations

import functools
from collections.abc import Callable
from importlib import import_module
from typing import Any

from contraflow.tensors.tensor import Tensor

# Methods that may be given tensors.
_METHODS = (
    "add_audio", "add_embedding", "add_histogram", "add_image", "add_image_with_boxes",
    "add_images", "add_mesh", "add_pr_curve", "add_scalar", "add_scalars", "add_video",
)  # fmt: skip


def _as_arrays(x: Any) -> Any:
    """Arrays for tensors, which may stand in lists and dicts."""
    if isinstance(x, Tensor):
        return x.detach().cpu().numpy()
    if isinstance(x, (list, tuple)):
        return type(x)(map(_as_arrays, x))
    return {key: _as_arrays(value) for key, value in x.items()} if isinstance(x, dict) else x


def _taking_tensors(method: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(method)
    def call(self: Any, *args: Any, **kwargs: Any) -> Any:
        return method(self, *map(_as_arrays, args), **_as_arrays(kwargs))

    return call


@functools.cache
def _writer() -> type:
    base = import_module("tensorboardX").SummaryWriter
    methods = {n: _taking_tensors(getattr(base, n)) for n in _METHODS if hasattr(base, n)}
    return type("SummaryWriter", (base,), {"__doc__": base.__doc__, **methods})


def __getattr__(name: str) -> Any:
    """The writer, made when it is first asked for."""
    if name == "SummaryWriter":
        return _writer()
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
