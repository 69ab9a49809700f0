"""Run one kernel call as machine code, part by part, and compare it with its meaning."""

from __future__ import annotations

import ctypes
import itertools
import mmap
from collections.abc import Sequence
from typing import Any

import llvmlite.binding as llvm
import numpy as np

from contraflow.compiler.interpret import run_call
from contraflow.compiler.kernel import Contraction, KernelCall, strided_arguments
from contraflow.devices.cpu import jit
from contraflow.devices.cpu.vectors import has_several_rows
from contraflow.render.llvm.identity import STANDARD_SIZES, Factors, entry_name
from contraflow.render.llvm.kernels import render

HAS_AVX512 = jit.vector_bytes() == 64 or bool(llvm.get_host_cpu_features().get("avx512f"))
WIDTHS = (16, 32, 64) if HAS_AVX512 else (16, 32)
KERNEL = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * 2, *[ctypes.c_int64] * 3)
Bound = tuple[Any, int]
SIZES = STANDARD_SIZES  # of the blocks of contractions, which tests replace


def run_native(
    call: KernelCall,
    arrays: Sequence[Bound],
    scalars: Sequence[float | int] = (),
    *,
    width: int = 32,
    edges: Sequence[int] = (0, 1),
    line: int = 0,
    factors: Factors = "elements",
) -> list[tuple[int, int]]:
    """Run a call over arrays bound as for `run_call`; give the (line + 1, index) records.

    `edges` are those of the pieces in which the work is done: each begins with a part.
    """
    kernel = call.kernel
    block = np.zeros(max(1, len(scalars)), np.int64)
    for i, value in enumerate(scalars):
        block[i : i + 1].view(np.float64 if isinstance(value, float) else np.int64)[0] = value
    errors = np.zeros(2 * edges[-1], np.int64)
    memory = [array for array, _ in arrays if array is not None]
    bases = np.array([a.ctypes.data for a in (block, errors, *memory)], np.uint64)
    words, index = [], 2
    for array, offset in arrays:
        words += [0 if array is None else index, offset]
        index += array is not None
    if not isinstance(kernel, Contraction) and kernel.checks_indices:
        words += [1, line, 0]
    words += call.sizes
    if isinstance(kernel, Contraction):
        words += [stride for strides in call.strides for stride in strides]
    else:
        words += strided_arguments(call)
    arguments = np.array(words, np.int64)
    variant: dict[str, Any] = {"factors": factors, "several_rows": has_several_rows(call)}
    if isinstance(kernel, Contraction):
        variant["sizes"] = SIZES
    name = entry_name(kernel, vector_bytes=width, **variant)
    function = KERNEL(jit.function(name, render(kernel, vector_bytes=width, **variant)))
    for first, last in itertools.pairwise(edges):
        function(bases.ctypes.data, arguments.ctypes.data, first, last, edges[-1])
    return [(int(a), int(b)) for a, b in errors.reshape(-1, 2)]


def fenced(array: np.ndarray, at_end: bool) -> np.ndarray:
    """A copy before whose first or behind whose last byte lies a page that nobody may touch."""
    page = mmap.PAGESIZE
    room = -(-array.nbytes // page) * page
    memory = mmap.mmap(-1, room + page)
    address = ctypes.addressof(ctypes.c_char.from_buffer(memory))
    start = room - array.nbytes if at_end else page
    copy = np.frombuffer(memory, array.dtype, array.size, start)
    copy[:] = array
    fence = address + room if at_end else address
    if ctypes.CDLL(None).mprotect(ctypes.c_void_p(fence), ctypes.c_size_t(page), 0):
        raise OSError("mprotect failed")
    return copy


def check(
    call: KernelCall,
    arrays: Sequence[Bound],
    scalars: Sequence[float | int] = (),
    *,
    widths: Sequence[int] = WIDTHS,
    ulps: float = 0,
    factors: Factors = "elements",
) -> None:
    """Assert that machine code at all widths, and cut in any way, does what `run_call` does.

    Outputs may differ by `ulps` units in the last place of their largest element; guard elements
    that nothing may write are part of the arrays and so are compared as well. A kernel that reads
    beyond an array ends the process.
    """

    def copies(at_end: bool = False) -> list[Bound]:
        # Operands that are one array must stay one array.
        made = {id(a): fenced(a, at_end) for a, _ in arrays if a is not None}
        return [(None if a is None else made[id(a)], offset) for a, offset in arrays]

    results = [
        i
        for i, (operand, (array, _)) in enumerate(zip(call.kernel.operands, arrays))
        if array is not None and operand.mode != "scratch"
    ]
    expected = copies()
    run_call(call, expected, scalars)
    for width in widths:
        first = copies(at_end=True)
        run_native(call, first, scalars, width=width, factors=factors)
        for i in results:
            assert_close(first[i][0], expected[i][0], ulps)
        for edges in (range(3), range(4), range(8), (0, 4, 6, 7)):
            again = copies()
            run_native(call, again, scalars, width=width, edges=edges, factors=factors)
            for i in results:
                np.testing.assert_array_equal(bits(again[i][0]), bits(first[i][0]))


def bits(array: np.ndarray) -> np.ndarray:
    """The array's bytes."""
    return np.ascontiguousarray(array).view(np.uint8)


def assert_close(got: np.ndarray, want: np.ndarray, ulps: float) -> None:
    """Assert equality, NaN included, up to `ulps` of the largest finite element."""
    if not ulps or want.dtype.kind in "biu":
        same = (got == want) | ((got != got) & (want != want))
        assert same.all(), f"{np.flatnonzero(~same)[:8]}: {got[~same][:8]} != {want[~same][:8]}"
        return
    wide, target = got.astype(np.float64), want.astype(np.float64)
    finite = np.isfinite(target)
    np.testing.assert_array_equal(wide[~finite], target[~finite])
    scale = np.abs(target[finite]).max(initial=1.0)
    epsilon = float(np.finfo(np.float64 if want.dtype == np.float64 else np.float32).eps)
    if want.dtype.itemsize == 2:
        epsilon = 2.0**-8 if want.dtype.kind == "V" else 2.0**-11
    error = np.abs(wide[finite] - target[finite]).max(initial=0.0)
    assert error <= ulps * epsilon * scale, f"error {error / epsilon / scale} ulp"
