"""Custom ops: users' NumPy code as one op, eager or as a host step of compiled programs."""

from __future__ import annotations

import functools
import types
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from contraflow.dtypes import DType, from_numpy
from contraflow.errors import GradientError, describe_spec
from contraflow.operation.kinds import Opaque
from contraflow.operation.op import Op
from contraflow.operation.promotion import Types
from contraflow.spec import Given, Params, Spec


def custom_op(
    fn: Callable[..., Any] | None = None,
    *,
    shape: Callable[..., Any] | None = None,
    dtype: DType | Callable[..., Any] | None = None,
    vjp: Mapping[str, Callable[..., Any]] | None = None,
    outs: tuple[str, ...] = ("out",),
    effects: bool = False,
    name: str | None = None,
) -> Any:
    """Decorator: make a function of NumPy arrays an op on tensors.

    Positional parameters are tensors (arrays when it runs, which it must not write to),
    keyword-only ones are static. `shape` gives the shape of the result, or a tuple of one for each
    of `outs`, of what it is given: objects with `shape` and `dtype`, and the static parameters;
    without it the result has the shape of the first input. `dtype` is one, or such a function;
    without it that of the first input. `vjp` maps inputs to gradient rules, which may name `g` (or
    `g_name` for one of several results), inputs, results and parameters, and compute with tensors.
    A function that does more than its results show (it logs, it counts) has `effects`: compiled
    programs run it in every call, in the order in which it was applied, whether or not its results
    are used. Without, one whose result nobody uses is dropped, and two equal calls may be one.

    >>> import contraflow as cf
    >>> @cf.custom_op(vjp={"x": lambda g, x, k: cf.roll(g, -k)})
    ... def rotate(x, *, k=1):
    ...     return np.roll(x, k)
    >>> rotate(cf.arange(3), k=2)
    tensor([1, 2, 0])
    """
    if fn is None:
        return functools.partial(
            custom_op, shape=shape, dtype=dtype, vjp=vjp, outs=outs, effects=effects, name=name
        )
    called = name or fn.__name__
    if not isinstance(fn, types.FunctionType):
        raise TypeError(f"custom_op: expected a function, not {type(fn).__name__}.")
    inputs = fn.__code__.co_varnames[: fn.__code__.co_argcount]
    if not inputs:
        raise TypeError(f"custom_op: {called} has no positional parameter, so it takes no tensor.")

    def refuse() -> None:
        raise GradientError(
            f"{called}: has no gradient, since custom_op was given no vjp=. Pass one, or detach "
            f"the input."
        )

    def run(*arrays: Any, **params: Any) -> Any:
        shown = [_read_only(x) for x in arrays]
        results = fn(*shown, **params)
        results = results if isinstance(results, tuple) else (results,)
        given = [
            Spec(x.shape, from_numpy(x.dtype)) if isinstance(x, np.ndarray) else x for x in arrays
        ]
        specs = op.infer(given, params)
        found = tuple(_own(np.asarray(r), shown) for r in results)
        shapes = [r.shape for r in found]
        if shapes != [s.shape for s in specs]:
            got = ", ".join(describe_spec(r.dtype, r.shape) for r in found)
            raise ValueError(
                f"{called}: the function returned {got}, but its shape= gives "
                f"{', '.join(map(str, specs))}."
            )
        return found if len(found) > 1 else found[0]

    op = Op(
        Opaque("host"), _renamed(fn, called), ref=run, outs=outs,
        shape=shape or (lambda *given, **params: _first(called, given).shape),
        dtype=functools.partial(_types, called, dtype, len(outs)),
        vjp=vjp if vjp is not None else dict.fromkeys(inputs, refuse), effects=effects,
        from_user=True,
    )  # fmt: skip
    return op


def _renamed(fn: types.FunctionType, name: str) -> types.FunctionType:
    """A function by another name; an op has the name of its function."""
    made = types.FunctionType(fn.__code__, fn.__globals__, name, fn.__defaults__, fn.__closure__)
    made.__kwdefaults__, made.__doc__ = fn.__kwdefaults__, fn.__doc__
    return made


def _read_only(x: Any) -> Any:
    if not isinstance(x, np.ndarray):
        return x
    shown = x.view()
    shown.flags.writeable = False
    return shown


def _own(result: np.ndarray, given: Sequence[Any]) -> np.ndarray:
    """A result in memory of its own: a function may return its argument, or a part of it."""
    shared = any(isinstance(x, np.ndarray) and np.may_share_memory(result, x) for x in given)
    return result.copy() if shared else result


def _first(name: str, given: Sequence[Given]) -> Spec:
    for x in given:
        if isinstance(x, Spec):
            return x
    raise TypeError(f"{name}: needs a tensor among its inputs.")


def _types(
    name: str,
    dtype: DType | Callable[..., Any] | None,
    count: int,
    given: Sequence[Given],
    params: Params,
) -> Types:
    made = dtype(*given, **params) if callable(dtype) else dtype
    if made is None:
        made = _first(name, given).dtype
    results = made if isinstance(made, tuple) else (made,) * count
    return (None,) * len(given), results
