"""Cotangents on their way: tensors, arrays that are the engine's own, and parts of a tensor's."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from contraflow.devices.cpu import memory
from contraflow.operation.reference import quiet, strided
from contraflow.shapes import Shape, View

Cotangent = Any  # a Tensor, an array or scalar that is the engine's own, or Parts
BARE = frozenset((np.ndarray, np.float32, np.float64))


class Parts:
    """The cotangent of a tensor by its parts: what views of it show, none an element twice.

    Parts lie side by side in one buffer in the end, where each by itself would be as large as that.
    """

    __slots__ = ("shape", "pieces")

    def __init__(self, shape: Shape, g: Cotangent, region: View) -> None:
        """Of a tensor of a shape, the cotangent of what lies in a region of it."""
        self.shape = shape
        self.pieces = [(g, region)]

    def joined(self) -> np.ndarray:
        """All of the tensor, as an array of its own."""
        (first, region), *others = self.pieces
        array = array_of(first)
        whole = memory.empty(self.shape, array.dtype)
        if _lie_apart(self.pieces):
            whole.fill(0)
            return _with_pieces(whole, self.pieces)
        if array.size < whole.size:
            whole.fill(0)
        strided(whole, region)[...] = array
        return _with_pieces(whole, others)


def array_of(g: Cotangent) -> Any:
    """The elements of a cotangent that has no parts."""
    return g if type(g) in BARE else g.array


def added(held: Cotangent, g: Cotangent) -> Any:
    """The sum of two cotangents, in place where one of them is ours."""
    into = held if type(held) is np.ndarray else g if type(g) is np.ndarray else ...
    return quiet.call(np.add, array_of(held), array_of(g), out=into, order="C")


def _lie_apart(pieces: Sequence[tuple[Cotangent, View]]) -> bool:
    """Whether pieces lie in several regions, so that each is zero where another is not.

    Zeros that are added make -0 into 0, as they do where every piece is as large as the whole.
    """
    return any(region != pieces[0][1] for _, region in pieces)


def _with_pieces(whole: np.ndarray, pieces: Iterable[tuple[Cotangent, View]]) -> np.ndarray:
    """An array to which pieces are added, each where it lies."""
    for g, region in pieces:
        shown = strided(whole, region)
        quiet.call(np.add, shown, array_of(g), out=shown)
    return whole


def with_padded(whole: np.ndarray, pieces: Sequence[tuple[Cotangent, View]]) -> np.ndarray:
    """The same, with pieces that are zero outside of where they lie."""
    zero, shown = whole.dtype.type(0), strided(whole, pieces[0][1])
    inside = None if _lie_apart(pieces) else shown.copy()
    np.add(whole, zero, out=whole)
    if inside is not None:
        shown[...] = inside
    return _with_pieces(whole, pieces)


OURS = BARE | {Parts}
