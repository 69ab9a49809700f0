"""The variant of a kernel that a call runs: its vector width, what it multiplies in one
instruction, and whether it has functions for matrices of one row. It follows from the call and the
processor, never from a measurement on the user's machine."""

from __future__ import annotations

from contraflow import config
from contraflow.compiler.kernel import Contraction, Kernel, KernelCall
from contraflow.devices.cpu import jit, tiles
from contraflow.dtypes import bfloat16, float32
from contraflow.render.llvm.identity import Factors

# Processors that do 64 bytes in two halves, so that products gain nothing by them. Panels that are
# packed from windows lose: the wider one is, the less of it images of few columns fill. Zen 4, the
# gradients of a convolution over images of 4 x 4: 18 ms with 64 bytes, 11 with 32; over larger
# ones 0 to 6 % more. Matrices keep 64 bytes, which read whole cache lines: with few columns of long
# k that takes half the time, and square ones differ by 5 % either way.
HALVED = frozenset(("znver4",))


# Processors that multiply pairs of bfloat16 as fast as single floats. Zen 4: 190 to 205 GFLOP/s,
# and 100 with elements that are converted. Intel's that have the instruction take four times as
# long for it.
PAIRED = frozenset(("znver4", "znver5"))


def bytes_for(kernel: Kernel) -> int:
    """The size of the vectors of a kernel on this machine."""
    return config.vector_bytes or suited(kernel, jit.processor(), jit.vector_bytes())


def suited(kernel: Kernel, processor: str, widest: int) -> int:
    """The bytes of a vector that suit a kernel on a processor whose vectors have up to `widest`.

    Windows of half precision keep wide ones too: converting elements takes half as many steps.
    """
    if processor in HALVED and isinstance(kernel, Contraction) and kernel.digits:
        return min(widest, 32) if kernel.dtype is kernel.accumulate else widest
    return widest


def factors_of(kernel: Kernel) -> Factors:
    """The factors of a product that one instruction takes in a kernel on this machine."""
    if not isinstance(kernel, Contraction) or kernel.digits:
        return "elements"
    if (kernel.dtype, kernel.accumulate) != (bfloat16, float32):
        return "elements"
    if bytes_for(kernel) == 64 and tiles.permitted():
        return "tiles"
    paired = jit.processor() in PAIRED and jit.has_feature("avx512bf16")
    return "pairs" if paired and bytes_for(kernel) >= 32 else "elements"


def has_several_rows(call: KernelCall) -> bool:
    """Whether a call multiplies matrices of several rows, so that its kernel needs no functions for
    those of one. A column is computed as a row."""
    kernel = call.kernel
    if not isinstance(kernel, Contraction) or kernel.dtype is not kernel.accumulate:
        return False
    rows, columns = call.sizes[2], 2 if kernel.digits else call.sizes[3]
    return rows != 1 and columns != 1
