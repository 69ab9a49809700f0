"""Binding: the default public signature of an op, as a function that is written for the op.

Tensors come first, static parameters by position or by name. Python itself binds the arguments,
which is faster than code that loops over them.
"""

from __future__ import annotations

import builtins
import inspect
import os
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from itertools import repeat
from operator import is_
from typing import TYPE_CHECKING, Any

from contraflow.operation.context import apply, state
from contraflow.shapes import normalize_dim
from contraflow.spec import NO_PARAMS, Params

if TYPE_CHECKING:
    from contraflow.operation.op import Op

REQUIRED = inspect.Parameter.empty  # in place of the default of a parameter that has none
_FILE = os.path.join(os.path.dirname(__file__), "<binding>")  # frames of it are the library's


class OneDim:
    """A `normalize=` of ops along a dim, which is counted from the front; `binding` writes it out.

    It raises the IndexError for a dim that is out of range of the first input.
    """

    def __init__(self, name: str) -> None:
        self._name = name

    def __call__(self, x: Any, *others: Any, dim: Any, **params: Any) -> dict[str, Any]:
        return {"dim": normalize_dim(self._name, dim, len(x.layout.shape))}


def binding(op: Op) -> Callable[..., Any]:
    """The function of an op's inputs and parameters that applies it, for a fixed number of inputs.

    It inlines `apply`.
    """
    defaults = op.arguments()
    scope = {f"__{i}": default for i, default in enumerate(defaults.values())}
    scope |= {
        "__op": op, "__normalize": op.normalize, "__apply": apply, "__state": state,
        "__refuse": _refuse, "__none": NO_PARAMS, "__absent": REQUIRED,
    }  # fmt: skip
    exec(_code(_text(op, defaults)), scope)
    found: Callable[..., Any] = scope["bind"]
    return found


def bind_once(
    op: Op, args: Sequence[Any], kwargs: Mapping[str, Any]
) -> tuple[tuple[Any, ...], Params] | None:
    """The inputs and parameters that the function of an op would apply it to, found without writing
    it; None where arguments do not fit, which it has the error for."""
    values = op.arguments()
    names = tuple(values)
    if len(args) > len(names) or (kwargs and not kwargs.keys() <= set(names[len(args) :])):
        return None
    values.update(zip(names, args))
    values.update(kwargs)
    if any(map(is_, values.values(), repeat(REQUIRED))):
        return None
    inputs = tuple([values[name] for name in op.inputs])
    if not op.params and op.normalize is None:
        return inputs, NO_PARAMS
    params = {name: values[name] for name in op.params}
    for name, value in params.items():
        if isinstance(value, list):
            params[name] = tuple(value)
    if op.normalize is not None:
        params.update(op.normalize(*inputs, **params))
    return inputs, params or NO_PARAMS


def _text(op: Op, defaults: Mapping[str, Any]) -> str:
    """Names of its own begin with underscores, since the others are those of the op."""
    given = [f"{name}=__{i}" for i, name in enumerate(defaults)]
    absent = [f" or {name} is __absent" for name in defaults if defaults[name] is REQUIRED]
    inputs = "".join(f"{name}, " for name in op.inputs)
    rows = [
        f"def bind({', '.join((*given, '*__more', '**__others'))}):",
        f" if __more or __others{''.join(absent)}:",
        f"  __refuse(__op, ({''.join(f'{name}, ' for name in defaults)}), __more, __others)",
    ]
    rows += [f" if isinstance({name}, list): {name} = tuple({name})" for name in op.params]
    named = ", ".join(f"{name!r}: {name}" for name in op.params)
    rows.append(f" __params = {f'{{{named}}}' if named else '__none'}")
    if isinstance(op.normalize, OneDim):
        rows += [
            f" __rank = len({op.inputs[0]}.layout.shape)",
            " if type(dim) is int and -__rank <= dim < __rank:",
            "  __params['dim'] = dim % __rank",
            " else:",
            f"  __params |= __normalize({inputs}**__params)",
        ]
    elif op.normalize is not None:
        rows.append(f" __params |= __normalize({inputs}**__params)")
    rows += [
        " __current = __state()",
        " if __current.autocast is None:",
        f"  return __current.context.apply(__op, ({inputs}), __params)",
        f" return __apply(__op, ({inputs}), __params)",
    ]
    return "\n".join(rows)


def _refuse(op: Op, values: Sequence[Any], more: Sequence[Any], others: Mapping[str, Any]) -> None:
    """Raise the error for arguments that do not fit."""
    known = (*op.inputs, *op.params)
    absent = [name for name, value in zip(known, values) if value is REQUIRED]
    inputs = [name for name in absent if name in op.inputs]
    if inputs:
        raise TypeError(f"{op.name}: missing {', '.join(inputs)}.")
    if more:
        raise TypeError(f"{op.name}: takes {len(known)} arguments, got {len(known) + len(more)}.")
    for name in others:
        raise TypeError(
            f"{op.name}: argument {name!r} is unknown. It takes {', '.join(known)}."
        )  # fmt: skip
    raise TypeError(f"{op.name}: missing {absent[0]}.")


@lru_cache(maxsize=1024)
def _code(text: str) -> Any:
    return builtins.compile(text, _FILE, "exec")
