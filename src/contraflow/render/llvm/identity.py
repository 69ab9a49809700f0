"""The names and identities of LLVM IR texts, which say whether a text has to be written at all."""

from __future__ import annotations

from typing import Literal, NamedTuple

from contraflow.compiler.kernel import Contraction, Kernel
from contraflow.render.generator import SHARED, digest

# The modules in which it is decided which text a kernel becomes.
GENERATOR = (
    *SHARED, "render.llvm.identity", "render.llvm.lowering", "render.llvm.text",
    "render.llvm.attention", "render.llvm.box", "render.llvm.contraction", "render.llvm.kept",
    "render.llvm.loops", "render.llvm.matrices", "render.llvm.pairs", "render.llvm.panels",
    "render.llvm.scan", "render.llvm.scatter", "render.llvm.single_row", "render.llvm.sort",
    "render.llvm.tiles", "render.llvm.weights", "render.llvm.window",
    "render.llvm.window_filters", "render.llvm.window_rows", "render.llvm.kernels",
)  # fmt: skip


# The factors that one instruction of a contraction takes. Pairs and tiles are of bfloat16, with
# sums of float32, for processors that have AVX512-BF16 or AMX; tiles need vectors of 64 bytes.
Factors = Literal["elements", "pairs", "tiles"]


class BlockSizes(NamedTuple):
    """The bytes of blocks of rows and columns of a contraction, which follow from the caches."""

    strip: int  # that is packed: a quarter of a second-level cache
    # The same where sums rest in C, so that they take no memory, and vectors have 64 bytes. The
    # higher a strip, the fewer times panels are packed: float64 gains 5 % by it on Emerald Rapids.
    high_strip: int
    chunk: int  # of the sums of a strip that do not rest in C


# For a second-level cache of 1 MiB, which processors with vectors of 64 bytes have at least.
STANDARD_SIZES = BlockSizes(1 << 18, 1 << 19, 1 << 19)


def entry_name(
    kernel: Kernel, *, vector_bytes: int, factors: Factors = "elements", several_rows: bool = False,
    sizes: BlockSizes = STANDARD_SIZES,
) -> str:  # fmt: skip
    """The name of the function that `render` writes, which is the same for all sizes of blocks."""
    name = f"{kernel.name}_v{vector_bytes}{'' if factors == 'elements' else f'_{factors}'}"
    return f"{name}_several" if several_rows else name


def text_identity(
    kernel: Kernel, *, vector_bytes: int, factors: Factors = "elements", several_rows: bool = False,
    sizes: BlockSizes = STANDARD_SIZES,
) -> str:  # fmt: skip
    """The identity of the text that `render` would write, without writing it."""
    found = f"{digest(GENERATOR)} {kernel.identity} {vector_bytes} {factors} {several_rows}"
    if isinstance(kernel, Contraction):  # no other text depends on them
        found += f" {' '.join(map(str, sizes))}"
    return found
