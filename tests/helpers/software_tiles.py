"""Tiles in software: what the instructions of AMX do, for machines that have none.

`in_software` makes the text of a kernel call functions of this module in place of instructions.
They use NumPy, and notice tiles that are used without a configuration, or left behind with one.
"""

from __future__ import annotations

import ctypes
import re
from typing import Any

import llvmlite.binding as llvm
import ml_dtypes
import numpy as np

ROWS, ROW_BYTES = 16, 64


class Tiles:
    """The state of a thread: eight tiles, and whether they are configured."""

    def __init__(self) -> None:
        self.configured = False
        self.configurations = self.products = 0
        self.tiles = np.zeros((8, ROWS, ROW_BYTES), np.uint8)
        self.problems: list[str] = []

    def _lines(self, pointer: int, apart: int) -> list[np.ndarray]:
        starts = [pointer + row * apart for row in range(ROWS)]
        return [np.ctypeslib.as_array((ctypes.c_uint8 * ROW_BYTES).from_address(p)) for p in starts]

    def _need_configuration(self, what: str) -> None:
        if not self.configured:
            self.problems.append(f"{what} without a configuration")

    def ldtilecfg(self, pointer: int) -> None:
        shape = np.ctypeslib.as_array((ctypes.c_uint8 * 64).from_address(pointer))
        wanted = np.zeros(64, np.uint8)
        wanted[0], wanted[16:32:2], wanted[48:56] = 1, ROW_BYTES, ROWS
        if not np.array_equal(shape, wanted):
            self.problems.append(f"a configuration of {bytes(shape)!r}")
        self.configured = True
        self.configurations += 1
        self.tiles[:] = 0

    def tilerelease(self) -> None:
        self.configured = False

    def tileloadd64(self, tile: int, pointer: int, apart: int) -> None:
        self._need_configuration("a load")
        self.tiles[tile] = self._lines(pointer, apart)

    def tilestored64(self, tile: int, pointer: int, apart: int) -> None:
        self._need_configuration("a store")
        for line, row in zip(self._lines(pointer, apart), self.tiles[tile]):
            line[:] = row

    def tdpbf16ps(self, c: int, a: int, b: int) -> None:
        """The products of even and odd elements are added up from zero, apart, and then to c."""
        self._need_configuration("a product")
        self.products += 1
        left, right = (self.tiles[i].view(ml_dtypes.bfloat16).astype(np.float32) for i in (a, b))
        with np.errstate(all="ignore"):
            even, odd = ((left[:, i::2, None] * right[None, :, i::2]).sum(axis=1) for i in (0, 1))
            self.tiles[c].view(np.float32)[:] += even + odd


STATE = Tiles()
_byte, _pointer, _word = ctypes.c_uint8, ctypes.c_void_p, ctypes.c_int64
_FUNCTIONS: dict[str, tuple[str, Any]] = {
    "ldtilecfg": ("ptr", ctypes.CFUNCTYPE(None, _pointer)),
    "tilerelease": ("", ctypes.CFUNCTYPE(None)),
    "tileloadd64": ("i8, ptr, i64", ctypes.CFUNCTYPE(None, _byte, _pointer, _word)),
    "tilestored64": ("i8, ptr, i64", ctypes.CFUNCTYPE(None, _byte, _pointer, _word)),
    "tdpbf16ps": ("i8, i8, i8", ctypes.CFUNCTYPE(None, _byte, _byte, _byte)),
}


def _forward(name: str) -> Any:
    return _FUNCTIONS[name][1](lambda *arguments: getattr(STATE, name)(*arguments))


_CALLED = {name: _forward(name) for name in _FUNCTIONS}  # kept: machine code calls them


def in_software(text: str) -> str:
    """The text with a call of a function of ours for each instruction about tiles."""
    for name, function in _CALLED.items():
        address = ctypes.cast(function, ctypes.c_void_p).value
        llvm.add_symbol(f"software_{name}", address)
        text = re.sub(rf"@llvm\.x86\.{name}\b", f"@software_{name}", text)
    declared = [
        f"declare void @software_{name}({kinds})" for name, (kinds, _) in _FUNCTIONS.items()
    ]
    return "\n".join([*declared, text])
