"""Scans and sorts along one dim."""

from __future__ import annotations

from typing import Any

import numpy as np

from contraflow.dtypes import int64
from contraflow.op import Array, Failure, Sample, scan, sort
from contraflow.shapes import normalize_dim


def _same_shape(name: str) -> Any:
    def shape(x: Any, dim: int, **_: Any) -> Any:
        normalize_dim(name, dim, len(x.shape))
        return x.shape

    return shape


def _bad_dim(name: str, **params: Any) -> Any:
    return lambda: (
        Failure((Array((2,)),), {"dim": 1, **params}, IndexError, f"{name}: dim 1 is out of range"),
    )


def _cumsum_ref(x: np.ndarray, dim: int, reverse: bool) -> np.ndarray:
    if not x.ndim:
        return x.copy()
    if reverse:
        return np.flip(np.cumsum(np.flip(x, dim), axis=dim), dim)
    return np.cumsum(x, axis=dim)


@scan(
    ref=_cumsum_ref,
    dtype="sum",
    shape=_same_shape("cumsum"),
    vjp={"x": lambda g, dim, reverse: cumsum(g, dim, not reverse)},
    samples=lambda: (
        Sample((Array((3, 4)),), {"dim": 1, "reverse": False}),
        Sample((Array((3, 4)),), {"dim": 0, "reverse": True}),
        Sample((Array((0,)),), {"dim": 0, "reverse": False}),
        Sample((Array(()),), {"dim": 0, "reverse": False}),
    ),
    failures=_bad_dim("cumsum", reverse=False),
    normalize=lambda x, dim, reverse: {"dim": normalize_dim("cumsum", dim, x.ndim)},
    linear=True,
)
def cumsum(x, *, dim, reverse=False):
    """Running sum along a dim, from its end if `reverse`."""


def _argsort_ref(x: np.ndarray, dim: int, descending: bool) -> np.ndarray:
    if not x.ndim:
        return np.zeros((), np.int64)
    if not descending:
        return np.argsort(x, axis=dim, kind="stable")
    # Stable and descending: sort the reversed array, then count from the other end.
    flipped = np.flip(np.argsort(np.flip(x, dim), axis=dim, kind="stable"), dim)
    return x.shape[dim] - 1 - flipped


@sort(
    ref=_argsort_ref,
    dtype="index",
    shape=_same_shape("argsort"),
    samples=lambda: (
        Sample((Array((3, 4)),), {"dim": 1, "descending": False}),
        Sample((Array((6,), 0, 3, int64),), {"dim": 0, "descending": True}),
    ),
    failures=_bad_dim("argsort", descending=False),
    normalize=lambda x, dim, descending: {"dim": normalize_dim("argsort", dim, x.ndim)},
)
def argsort(x, *, dim=-1, descending=False):
    """The indices that sort a dim; equal elements keep their order."""
