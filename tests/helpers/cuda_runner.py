"""Compiles CUDA texts with NVRTC and runs one kernel call: for tests of the renderer.

`python -m tests.helpers.cuda_runner`, where there is a GPU, runs every case against NumPy and
prints how they went: for machines that have no pytest. With `--shared` it runs those whose kernels
share memory between threads, which `compute-sanitizer --tool racecheck` is for.
"""

from __future__ import annotations

import ctypes
import sys
import traceback
from collections.abc import Sequence
from functools import lru_cache, partial
from itertools import product
from typing import Any

import numpy as np
from cuda.bindings import driver, nvrtc
from tests.helpers import gpu_attention, gpu_functions, gpu_kernels, gpu_ordered
from tests.helpers.gpu_case import CASES, check

from contraflow.compiler.interpret import BoundOperand
from contraflow.compiler.kernel import KernelCall, Loops
from contraflow.render.clike import cuda, fours, source

DECLARED_BY = (gpu_attention, gpu_functions, gpu_kernels, gpu_ordered)


def variant_of(call: KernelCall, index_bits: int) -> cuda.TextVariant:
    """The text that is tried with so many index bits: with 64 the plain one, and with 32 the one
    that large calls have too, with columns that threads share and points by fours."""
    if index_bits == 64:
        return cuda.PLAIN
    kernel = call.kernel
    variant = cuda.variant_of(call)._replace(index_bits=32)
    if not isinstance(kernel, Loops):
        return variant
    return variant._replace(tiled=kernel.kind == "column", fours=fours.may_have_fours(kernel))


def compile_call(call: KernelCall, index_bits: int, architecture: str = "sm_90") -> bytes:
    """The machine code of a call, or a RuntimeError with the compiler's log. Needs no GPU."""
    kernel = call.kernel
    text = cuda.render(kernel, variant_of(call, index_bits)).encode()
    status, program = nvrtc.nvrtcCreateProgram(text, kernel.name.encode(), 0, [], [])
    options = [text.encode() for text in (f"--gpu-architecture={architecture}", *cuda.OPTIONS)]
    (status,) = nvrtc.nvrtcCompileProgram(program, len(options), options)
    if status != nvrtc.nvrtcResult.NVRTC_SUCCESS:
        _, size = nvrtc.nvrtcGetProgramLogSize(program)
        log = bytes(size)
        nvrtc.nvrtcGetProgramLog(program, log)
        raise RuntimeError(f"{log.decode()}\n{text.decode()}")
    _, size = nvrtc.nvrtcGetCUBINSize(program)
    code = bytes(size)
    nvrtc.nvrtcGetCUBIN(program, code)
    return code


def must(result: tuple[Any, ...]) -> Any:
    """What a driver call gave, or a RuntimeError."""
    status, *values = result
    if status != driver.CUresult.CUDA_SUCCESS:
        raise RuntimeError(f"cuda: {status!r}")
    return values[0] if values else None


@lru_cache(maxsize=1)
def open_device() -> str | None:
    """The architecture of the first GPU, now current, or None."""
    try:
        must(driver.cuInit(0))
        device = must(driver.cuDeviceGet(0))
    except RuntimeError:
        return None
    must(driver.cuCtxSetCurrent(must(driver.cuDevicePrimaryCtxRetain(device))))
    attribute = driver.CUdevice_attribute
    major, minor = (
        must(driver.cuDeviceGetAttribute(which, device))
        for which in (
            attribute.CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR,
            attribute.CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR,
        )
    )
    return f"sm_{major}{minor}"


def upload(values: np.ndarray) -> int:
    """A device pointer to a copy of an array."""
    pointer = must(driver.cuMemAlloc(max(values.nbytes, 8)))
    if values.size:
        must(driver.cuMemcpyHtoD(pointer, values.ctypes.data, values.nbytes))
    return int(pointer)


def run_call(
    call: KernelCall,
    arrays: Sequence[BoundOperand],
    scalars: Sequence[float | int] = (),
    line: int = 0,
    index_bits: int = 64,
) -> np.ndarray | None:
    """As `interpret.run_call`; gives the two words of a failure where the kernel checks indices."""
    kernel = call.kernel
    architecture = open_device()
    assert architecture is not None
    module = must(driver.cuModuleLoadData(compile_call(call, index_bits, architecture)))
    function = must(driver.cuModuleGetFunction(module, kernel.name.encode()))
    failure = np.zeros(cuda.FAILURE_WORDS, np.int64)
    failure_pointer = upload(failure)
    pointers = [0 if array is None else upload(array) for array, _ in arrays]
    bound = [
        scalars[at] if operand.mode == "scalar" else pointer
        for operand, pointer, (_, at) in zip(kernel.operands, pointers, arrays)
    ]
    words = cuda.pack(call, bound, [at for _, at in arrays], line, failure_pointer)
    block = ctypes.create_string_buffer(words, len(words))
    places = [ctypes.addressof(block) + at for at in range(0, len(words), 8)]
    table = (ctypes.c_void_p * len(places))(*places)
    grid, threads = cuda.launch(call, variant_of(call, index_bits))
    if grid[0]:
        must(driver.cuLaunchKernel(function, *grid, *threads, 0, 0, ctypes.addressof(table), 0))
    must(driver.cuCtxSynchronize())
    for operand, pointer, (array, _) in zip(kernel.operands, pointers, arrays):
        if operand.mode in ("out", "inout") and array is not None and array.size:
            must(driver.cuMemcpyDtoH(array.ctypes.data, pointer, array.nbytes))
    must(driver.cuMemcpyDtoH(failure.ctypes.data, failure_pointer, failure.nbytes))
    for pointer in filter(None, [*pointers, failure_pointer]):
        must(driver.cuMemFree(pointer))
    must(driver.cuModuleUnload(module))
    return failure[:2] if source.checks_indices(kernel) else None


def main() -> int:
    """Run every case and print how it went; the number that failed."""
    if open_device() is None:
        print("no GPU")
        return 1
    failed = 0
    for name, index_bits in product(CASES, (64, 32)):
        call = CASES[name]().call
        text = cuda.render(call.kernel, variant_of(call, index_bits))
        if "--shared" in sys.argv and "__shared__" not in text:
            continue
        try:
            check(name, partial(run_call, index_bits=index_bits))
        except Exception:
            failed += 1
            print(f"FAILED {name} with {index_bits} index bits")
            traceback.print_exc(limit=-2, file=sys.stdout)
        else:
            print(f"passed {name} with {index_bits} index bits")
    found = gpu_kernels.gather_case([3, 11, -4])
    words = run_call(found.call, found.arrays, line=41)
    assert words is not None
    mark, index = words
    kept = bool((found.arrays[2][0][-60:] == 99).all())
    print(f"failed check: mark {mark}, index {index}, unwritten {kept}")
    return failed


if __name__ == "__main__":
    sys.exit(main())
