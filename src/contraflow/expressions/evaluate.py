"""Evaluation of scalar expressions over NumPy arrays."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from contraflow.dtypes import DType, int32, int64
from contraflow.expressions import expression as s
from contraflow.expressions.expression import LEAVES, Expr, walk
from contraflow.expressions.intrinsics import INTRINSICS


def saturating_cast(x: Any, dtype: DType) -> Any:
    """Convert an array as generated code does: floats to integers saturate, NaN becomes zero."""
    x = np.asarray(x)
    target = dtype.numpy
    if x.dtype == target:
        return x
    if target.kind in "iu" and x.dtype.kind not in "biu":
        info: Any = np.iinfo(target)
        wide = np.trunc(np.nan_to_num(x.astype(np.float64), nan=0.0))
        # float64 has no exact 2**63 - 1: compare instead of clipping.
        inside = (wide >= float(info.min)) & (wide < float(info.max) + 1.0)
        clipped = np.where(wide < 0, info.min, info.max)
        return np.where(inside, np.where(inside, wide, 0.0).astype(target), clipped).astype(target)
    return x.astype(target)


def evaluate(roots: Sequence[Expr], leaves: Callable[[Expr, list[Any]], Any]) -> list[Any]:
    """Compute expressions over NumPy arrays; `leaves(expr, args)` supplies the leaves."""
    values: dict[Expr, Any] = {}
    for e in walk(roots):
        args = [values[a] for a in e.args]
        if e.fn == "const":
            values[e] = np.asarray(e.data, e.dtype.numpy)
        elif e.fn in LEAVES:
            values[e] = leaves(e, args)
        elif e.fn == "cast":
            values[e] = saturating_cast(args[0], e.dtype)
        elif e.fn == "bitcast":
            values[e] = np.asarray(args[0], order="C").view(e.dtype.numpy)
        else:
            values[e] = INTRINSICS[e.fn].numpy(*args)
    return [values[e] for e in roots]


@lru_cache(maxsize=1024)
def contracted(roots: tuple[Expr, ...], last: bool = False) -> tuple[Expr, ...]:
    """The same expressions as a compiler may make them: a product and a sum of it become one
    operation, which rounds once. Of two products in a sum it is the first, or the `last`."""

    def contract(e: Expr) -> Expr | None:
        if e.fn == "muladd":
            return s.fma(*e.args)
        if e.fn not in ("add", "sub") or not e.dtype.is_floating_point:
            return None
        products = [i for i, x in enumerate(e.args) if x.fn == "mul"]
        if not products:
            return None
        i = products[-1 if last else 0]
        (a, b), c = e.args[i].args, e.args[1 - i]
        if e.fn == "add":
            return s.fma(a, b, c)
        return s.fma(-a, b, c) if i else s.fma(a, b, -c)

    return tuple(s.rewrite(roots, contract))


def narrow_constant(value: int) -> int:
    """A constant of int64 on a device where that has 32 bits: the ends of int64, which are the
    identities of max and min, become those of int32."""
    return _NARROW_ENDS.get(value, value)


_NARROW_ENDS = {
    int(wide): int(narrow)
    for wide, narrow in zip(
        (np.iinfo(np.int64).min, np.iinfo(np.int64).max),
        (np.iinfo(np.int32).min, np.iinfo(np.int32).max),
    )
}


@lru_cache(maxsize=1024)
def wrapped(roots: tuple[Expr, ...]) -> tuple[Expr, ...]:
    """The same expressions as a device computes them whose int64 has 32 bits: each result wraps
    around there. Numbers of the host keep their 64 bits, of which a kernel may take both halves."""

    def wrap(e: Expr) -> Expr | None:
        if e.dtype is not int64:
            return None
        if e.fn == "const":
            return s.const(narrow_constant(e.data), int64)
        return None if e.fn in LEAVES else s.cast(s.cast(e, int32), int64)

    return tuple(s.rewrite(roots, wrap))


def read_array(array: Any, args: list[Any], guarded: bool) -> Any:
    """The value of a `read` leaf over NumPy: the elements at integer coordinates."""
    if not guarded:
        return array[tuple(args)] if args else array
    *at, valid = np.broadcast_arrays(*args)
    inside = tuple(np.where(valid, c, 0) for c in at)
    if array.size == 0:
        return np.zeros(valid.shape, array.dtype)
    return np.where(valid, array[inside] if inside else array, np.zeros((), array.dtype))
