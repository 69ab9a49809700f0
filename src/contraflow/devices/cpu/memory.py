"""An allocator for large arrays that reuses the memory of arrays that are gone.

The system gives memory page by page as it is first written to, which takes longer than what most
kernels do with a page. So memory whose last array is gone waits here for the next of its size.
"""

from __future__ import annotations

import math
import weakref
from collections import deque
from typing import Any

import numpy as np

from contraflow import threads
from contraflow.shapes import Shape

LEAST = 1 << 17  # bytes of an array; the system has less than that at hand
ALIGNMENT = 64  # bytes: a vector that a kernel reads lies in one cache line
GRAIN = 1 << 16  # bytes of which a piece of memory is a multiple
LIMIT = 1 << 28  # maximum idle bytes; also bounds each size class of returned pieces


class _Piece(np.ndarray):
    """Memory as bytes, and where its first cache line starts.

    It is not a plain array, so NumPy makes it the base of an array, which is the base of its views.
    """

    start = 0
    address = 0  # of the start, which is asked for once
    # The receipt of its current loan. A loan cannot keep its receipt alive until the end: what an
    # array or its base refers to may be freed before callbacks of weak references run. So piece
    # and receipt refer to each other until the piece is taken back.
    receipt: _Receipt | None = None


class _Loan(np.ndarray):
    """A piece in use: the base of the array over it, and so of all views of that array.

    It is freed with the last of them, and its receipt reports that.
    """


class _Receipt(weakref.ref[_Loan]):
    """A weak reference to a loan, which knows the piece and reports its end."""

    __slots__ = ("piece",)
    piece: _Piece


class _Idle:
    """Idle pieces by size; when they become too many all are freed."""

    def __init__(self) -> None:
        self._pieces: dict[int, list[_Piece]] = {}
        self._total = 0
        # Recursive: a user's finalizer may ask for memory while this thread holds it.
        self._lock = threads.recursive_lock()
        # Pieces that came back since one was last taken, by powers of two of sizes. They are put
        # there without Python code, in which an interrupt would be lost; the oldest make room.
        self._back: list[deque[_Receipt]] = [
            deque(maxlen=LIMIT >> power)
            for power in range(LEAST.bit_length(), LIMIT.bit_length() + 1)
        ]

    def lend(self, size: int) -> tuple[_Loan, _Piece]:
        """An idle piece of a size, or a new one; it comes back when the loan is freed."""
        with self._lock:
            for back in self._back:
                while back:
                    piece = back.popleft().piece
                    piece.receipt = None
                    self._give(piece)
            waiting = self._pieces.get(size)
            found = waiting.pop() if waiting else None
            if found is not None:
                self._total -= size
        lent = _new_piece(size) if found is None else found
        loan = _Loan(size, np.uint8, lent)
        power = min(size.bit_length() - LEAST.bit_length(), len(self._back) - 1)
        lent.receipt = receipt = _Receipt(loan, self._back[power].append)
        receipt.piece = lent
        return loan, lent

    def _give(self, piece: _Piece) -> None:
        """Keep a piece idle for its next use."""
        self._total += piece.size
        if self._total > LIMIT:
            self._pieces, self._total = {}, 0
        else:
            self._pieces.setdefault(piece.size, []).append(piece)


def _new_piece(size: int) -> _Piece:
    piece = _Piece(size, np.uint8)
    address: int = piece.ctypes.data
    piece.start = -address % ALIGNMENT
    piece.address = address + piece.start
    return piece


_idle = _Idle()


def empty(shape: Shape, dtype: np.dtype) -> np.ndarray:
    """An uninitialised, cache-line-aligned array meant to live long."""
    size = math.prod(shape) * dtype.itemsize
    if size < ALIGNMENT:
        return np.empty(shape, dtype)
    if size >= LEAST:
        return room(shape, dtype)[0]
    piece = _new_piece(size + ALIGNMENT)
    return np.ndarray(shape, dtype, piece, piece.start)


def full(shape: Shape, dtype: np.dtype, value: Any) -> np.ndarray:
    """A cache-line-aligned array of one value, meant to live long."""
    made = empty(shape, dtype)
    made.fill(value)
    return made


def copy(array: np.ndarray) -> np.ndarray:
    """A C-contiguous, cache-line-aligned copy, meant to live long."""
    made = empty(array.shape, array.dtype)
    np.copyto(made, array)
    return made


def room(shape: Shape, dtype: np.dtype) -> tuple[np.ndarray, int]:
    """An uninitialised array, and its address if that is known already, else 0."""
    size = math.prod(shape) * dtype.itemsize
    if size < LEAST:
        return np.empty(shape, dtype), 0
    loan, piece = _idle.lend(-(-size // GRAIN) * GRAIN + ALIGNMENT)
    return np.ndarray(shape, dtype, loan, piece.start), piece.address
