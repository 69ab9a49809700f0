"""Memory of large arrays, used again when no array shows it any more.

The system gives memory page by page as it is first written to, which takes longer than what most
kernels do with a page. So memory whose last array is gone waits here for the next of its size.
"""

from __future__ import annotations

import threading
from typing import Any

import numpy as np

from contraflow.shapes import Shape, numel

LEAST = 1 << 17  # bytes of an array; the system has less than that at hand
ALIGNMENT = 64  # bytes: a vector that a kernel reads lies on one line of a cache
GRAIN = 1 << 16  # bytes of which a piece of memory is a multiple
LIMIT = 1 << 28  # bytes that wait, at most


class _Piece(np.ndarray):
    """Memory, as bytes, and from where on a line of a cache begins in it.

    It is no plain array, so NumPy has it as the base of an array, which is the base of its views.
    """

    start = 0
    address = 0  # of the start, which is asked for once


class _Loan(np.ndarray):
    """A piece that is in use: the base of the array that shows it, which is the base of its views.

    So it goes when the last of them does.
    """

    def __del__(self) -> None:
        if isinstance(self.base, _Piece):  # else it is a view of a loan, which somebody made of it
            _idle.give(self.base)


class _Idle:
    """Pieces that wait, by their sizes; when they become too many all are let go."""

    def __init__(self) -> None:
        self._pieces: dict[int, list[_Piece]] = {}
        self._total = 0
        # Taken by one thread twice if an array dies while it is held.
        self._lock = threading.RLock()

    def give(self, piece: _Piece) -> None:
        """Let a piece wait for its next use."""
        with self._lock:
            self._total += piece.size
            if self._total > LIMIT:
                self._pieces, self._total = {}, 0
            else:
                self._pieces.setdefault(piece.size, []).append(piece)

    def take(self, size: int) -> _Piece:
        """A piece of a size, a new one if none waits."""
        with self._lock:
            waiting = self._pieces.get(size)
            if waiting:
                self._total -= size
                return waiting.pop()
        return _new_piece(size)


def _new_piece(size: int) -> _Piece:
    piece = _Piece(size, np.uint8)
    address: int = piece.ctypes.data
    piece.start = -address % ALIGNMENT
    piece.address = address + piece.start
    return piece


_idle = _Idle()


def empty(shape: Shape, dtype: np.dtype) -> np.ndarray:
    """An array whose elements are anything, and which stays: it begins with a line of a cache."""
    size = numel(shape) * dtype.itemsize
    if size >= LEAST or size < ALIGNMENT:
        return room(shape, dtype)[0]
    piece = _new_piece(size + ALIGNMENT)
    return np.ndarray(shape, dtype, piece, piece.start)


def full(shape: Shape, dtype: np.dtype, value: Any) -> np.ndarray:
    """An array of one value, which stays."""
    made = empty(shape, dtype)
    made.fill(value)
    return made


def copy(array: np.ndarray) -> np.ndarray:
    """An array of the same elements, in order, and which stays."""
    made = empty(array.shape, array.dtype)
    np.copyto(made, array)
    return made


def room(shape: Shape, dtype: np.dtype) -> tuple[np.ndarray, int]:
    """An array whose elements are anything, and its address if that is known already, else 0."""
    size = numel(shape) * dtype.itemsize
    if size < LEAST:
        return np.empty(shape, dtype), 0
    piece = _idle.take(-(-size // GRAIN) * GRAIN + ALIGNMENT)
    loan = _Loan(piece.size, np.uint8, piece)
    return np.ndarray(shape, dtype, loan, piece.start), piece.address
