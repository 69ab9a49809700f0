"""Random calls of the ops that visit points in order: shapes, layouts, ties and indices."""

from __future__ import annotations

from random import Random
from typing import Any, NamedTuple

import numpy as np

from contraflow.shapes import Shape, View, contiguous_strides

SIZES = (1, 2, 3, 5, 17, 70, 130, 300)
SCANS = ("cumsum", "cumprod", "logcumsumexp", "cummax", "cummin", "recurrence")
SCATTERS = ("scatter", "scatter_add", "scatter_fold", "scatter_sum", "segment_sum")
POINTS = ("put_at", "sum_at")
ROUNDED = ("cumsum", "cumprod", "logcumsumexp", "recurrence")  # by other parts on a GPU


class OrderedCall(NamedTuple):
    """An op, its arrays, which may come with a view, and its parameters."""

    name: str
    arrays: list[Any]
    params: dict[str, Any]


class Drawing:
    """Draws one call after the other."""

    def __init__(self, seed: int) -> None:
        self.random, self.numbers = Random(seed), np.random.default_rng(seed)

    def call(self) -> OrderedCall:
        """The next call."""
        name = self.random.choice(("argsort", "leading", *SCANS, *SCATTERS, *POINTS))
        if name in POINTS:
            return self._points(name)
        shape = self._shape()
        dim = self.random.randrange(len(shape))
        if name in SCATTERS:
            return self._scatter(name, shape, dim)
        params: dict[str, Any] = {"dim": dim}
        arrays = [self._laid_out(self._values(shape))]
        if name in ("argsort", "leading"):
            params["descending"] = self._flag()
        if name == "argsort":
            params["stable"] = True
        if name == "leading":
            params["count"] = self.random.randrange(shape[dim] + 1)
        if name in ("cumsum", "recurrence"):
            params["reverse"] = self._flag()
        if name == "cumprod":
            arrays = [self._laid_out(1 + self._values(shape) / 100)]
        if name == "recurrence":
            arrays.insert(0, self._laid_out(self._values(shape) / 4))
        return OrderedCall(name, arrays, params)

    def _scatter(self, name: str, shape: Shape, dim: int) -> OrderedCall:
        size = self.random.choice((1, 3, 40))
        whole = tuple(size if d == dim else n for d, n in enumerate(shape))
        values = self._laid_out(self._values(shape))
        if name == "segment_sum":
            rows = self._laid_out(self.numbers.integers(0, size, shape[:-1]))
            return OrderedCall(name, [values, rows], {"size": size})
        index = self._laid_out(self.numbers.integers(0, size, shape))
        if name == "scatter_sum":
            return OrderedCall(name, [values, index], {"dim": dim, "shape": whole})
        params: dict[str, Any] = {"dim": dim}
        if name == "scatter_fold":
            params["reduce"] = self.random.choice(("prod", "amax", "amin"))
            params["include_self"] = self._flag()
        return OrderedCall(name, [self._laid_out(self._values(whole)), index, values], params)

    def _points(self, name: str) -> OrderedCall:
        """Points at one or two coordinates; their dim takes the place of neighbouring dims."""
        shape = tuple(self.random.choice((2, 3, 5)) for _ in range(3))
        dims = tuple(sorted(self.random.sample(range(3), self.random.choice((1, 2)))))
        count = self.random.choice((1, 5, 66, 300, 1100))
        at = np.stack([self.numbers.integers(-shape[d], shape[d], count) for d in dims])
        others = [n for d, n in enumerate(shape) if d not in dims]
        first = dims[0] if dims[-1] - dims[0] == len(dims) - 1 else 0
        values = self._values((*others[:first], count, *others[first:]))
        arrays = [self._laid_out(at), self._laid_out(values)]
        if name == "sum_at":
            return OrderedCall(name, arrays[::-1], {"dims": dims, "shape": shape, "wrap": True})
        params = {"dims": dims, "accumulate": self._flag(), "wrap": True}
        return OrderedCall(name, [self._laid_out(self._values(shape)), *arrays], params)

    def _flag(self) -> bool:
        return self.random.random() < 0.5

    def _shape(self) -> Shape:
        """Up to three dims, not too large together."""
        while True:
            shape = tuple(self.random.choice(SIZES) for _ in range(self.random.choice((1, 2, 3))))
            if np.prod(shape) <= 20_000:
                return shape

    def _values(self, shape: Shape) -> np.ndarray:
        """Random numbers, or few different ones."""
        x = self.numbers.standard_normal(shape)
        return (np.round(3 * x) if self._flag() else x).astype(np.float32)

    def _laid_out(self, x: np.ndarray) -> Any:
        """An array as it is, in another order of its dims, or among other elements."""
        way = self.random.randrange(3)
        if way == 0:
            return x
        if way == 1:
            order = self.random.sample(range(x.ndim), x.ndim)
            steps = dict(zip(order, contiguous_strides(tuple(x.shape[d] for d in order))))
            strides = tuple(steps[d] for d in range(x.ndim))
            return np.ascontiguousarray(x.transpose(order)), View(x.shape, strides, 0)
        room = np.zeros(tuple(2 * n + 1 for n in x.shape), x.dtype)
        room[tuple(slice(1, None, 2) for _ in x.shape)] = x
        steps_there = contiguous_strides(room.shape)
        return room, View(x.shape, tuple(2 * n for n in steps_there), sum(steps_there))
