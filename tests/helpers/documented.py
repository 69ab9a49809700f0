"""What users call, with its docstring: the functions and classes of public places, and methods."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from typing import Any

import contraflow as cf
from contraflow.names import AbsentMethod

PLACES = (
    "", "nn", "nn.functional", "nn.init", "nn.utils", "nn.utils.rnn", "nn.utils.parametrize",
    "nn.utils.parametrizations", "nn.attention", "optim", "optim.lr_scheduler", "optim.swa_utils",
    "linalg", "func", "autograd", "autograd.functional", "autograd.graph", "data", "distributions",
    "amp", "special", "signal.windows", "fft", "masked", "profiler", "utils.data",
    "utils.checkpoint", "accelerator", "compiler", "random", "testing",
)  # fmt: skip

# Methods of tensors that the library itself calls.
OWN = {
    "alias", "array", "attached", "edge", "fetched", "of_array", "of_buffer", "of_data",
    "of_sizes_or_data", "of_storage", "spec", "view_ops",
}  # fmt: skip


def _is_ours(found: Any) -> bool:
    return str(getattr(found, "__module__", "contraflow")).startswith("contraflow")


def public() -> Iterator[tuple[str, Any]]:
    """Functions and classes, by their paths."""
    for place in PLACES:
        owner: Any = cf
        for part in place.split(".") if place else ():
            owner = getattr(owner, part)
        # Ops are found by `dir`. Elsewhere a module has a list of its names, or those it defines.
        has_ops = place in ("", "nn.functional")
        listed = () if has_ops else getattr(owner, "__all__", ())
        for name in listed or dir(owner):
            found = getattr(owner, name)
            its_own = has_ops or listed or getattr(found, "__module__", "") == owner.__name__
            if (
                callable(found)
                and its_own
                and not name.startswith("_")
                and not name.endswith("_")  # which does in place what the op of that name does
                and not inspect.ismodule(found)
                and name not in ("Op", "getter")  # which a module needs itself
                and _is_ours(found)
            ):
                yield f"{place}.{name}".lstrip("."), found


def methods() -> Iterator[tuple[str, Any]]:
    """Methods and attributes of tensors, as they stand in the class."""
    for name in dir(cf.Tensor):
        found = inspect.getattr_static(cf.Tensor, name)
        if not name.startswith("_") and name not in OWN and not isinstance(found, AbsentMethod):
            yield name, found


def counted() -> str:
    """How many there are, as a sentence for a page."""
    functions, attributes = dict(public()), dict(methods())
    without = [path for path, each in functions.items() if ">>>" not in (each.__doc__ or "")]
    said = f"Of {len(functions)} public functions and classes {len(functions) - len(without)} have"
    shown = sum(">>>" in (each.__doc__ or "") for each in attributes.values())
    cuda = sum("doctest: +SKIP" in (each.__doc__ or "") for each in attributes.values())
    return (
        f"{said} an example in the docstring that runs; of {len(attributes)} methods and attributes"
        f" of tensors {shown} have one ({cuda} of which need CUDA), and the others name the op that"
        " has it."
    )
