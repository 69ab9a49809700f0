"""The meaning of an op over NumPy arrays: its `ref`, with dtypes cast and rounded as declared."""

from __future__ import annotations

import contextvars
import threading
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from contraflow import dtypes
from contraflow.dtypes import HALVES
from contraflow.op import Op
from contraflow.scalar import saturating_cast
from contraflow.spec import Given, Params


class _Quiet(threading.local):
    """A contextvars context per thread in which NumPy does not warn.

    NumPy keeps its error state in a context variable; running inside a context that has it set
    costs a tenth of entering `np.errstate`, and the user's own `np.seterr` stays untouched.
    """

    def __init__(self) -> None:
        context = contextvars.copy_context()
        context.run(np.seterr, all="ignore")
        # How to call, with warnings off, what does not come back here itself.
        self.call: Callable[..., Any] = context.run

    def run(self, function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        """Call `function` with warnings off; a nested call is inside already."""
        call = self.call
        self.call = _plainly
        try:
            return call(function, *args, **kwargs)
        finally:
            self.call = call


def _plainly(function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    return function(*args, **kwargs)


quiet = _Quiet()


def run_reference(
    op: Op, arrays: Sequence[Any], given: Sequence[Given], params: Params
) -> tuple[np.ndarray, ...]:
    """Cast by the dtype rule, run `ref` (halves in float32), and round to the result's dtype."""
    outs: tuple[np.ndarray, ...] = quiet.run(_run_reference, op, arrays, given, params)
    return outs


def _run_reference(
    op: Op, arrays: Sequence[Any], given: Sequence[Given], params: Params
) -> tuple[np.ndarray, ...]:
    casts, results = op.types(given, params)
    prepared = []
    for x, cast in zip(arrays, casts):
        if cast is not None:
            x = saturating_cast(x, cast.compute)
        elif isinstance(x, np.ndarray) and dtypes._BY_NUMPY[x.dtype] in HALVES:
            x = x.astype(np.float32)
        prepared.append(x)
    assert op.ref is not None
    outs = op.ref(*prepared, **params)
    outs = outs if isinstance(outs, tuple) else (outs,)
    return tuple(
        np.asarray(o).astype(r.numpy, order="C", copy=False) for o, r in zip(outs, results)
    )
