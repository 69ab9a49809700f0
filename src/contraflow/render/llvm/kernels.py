"""Kernels as LLVM IR text with explicit vectors: a function of the kernel and the width alone.

Every kernel becomes one function
`void NAME(ptr bases, ptr arguments, i64 first, i64 last, i64 parts)` that does the work from part
`first` up to `last` of `parts`. `bases` is a table of pointers; `arguments` is i64 words:

    per operand     its index in bases, and its element offset (a scalar: its word number)
    if it checks    the error record's index in bases, the tape line, 0
    sizes           one per axis, as in the call
    strides         the strided ones in `strided_arguments` order (a contraction: all)

The error record has two words per part: line + 1 and the index that was out of range.
"""

from __future__ import annotations

from contraflow.compiler.kernel import Attention, Contraction, Kernel, Loops, Scan, Scatter, Sort
from contraflow.render.llvm.attention import AttentionRenderer
from contraflow.render.llvm.contraction import ContractionRenderer
from contraflow.render.llvm.identity import STANDARD_SIZES, BlockSizes, Factors, entry_name
from contraflow.render.llvm.kept import keep_values
from contraflow.render.llvm.loops import LoopsRenderer
from contraflow.render.llvm.pairs import PairsRenderer
from contraflow.render.llvm.scan import ScanRenderer
from contraflow.render.llvm.scatter import ScatterRenderer
from contraflow.render.llvm.sort import SortRenderer
from contraflow.render.llvm.text import write_apart
from contraflow.render.llvm.tiles import TilesRenderer
from contraflow.render.llvm.window import WindowRenderer

# The renderer of contractions by the factors that one of their instructions takes.
FACTORS: dict[Factors, type[ContractionRenderer]] = {
    "elements": ContractionRenderer,
    "pairs": PairsRenderer,
    "tiles": TilesRenderer,
}


def render(
    kernel: Kernel, *, vector_bytes: int, factors: Factors = "elements", several_rows: bool = False,
    sizes: BlockSizes = STANDARD_SIZES,
) -> str:  # fmt: skip
    """The LLVM IR of a kernel for vectors of `vector_bytes`, and of a contraction that multiplies
    such factors. One for matrices of several rows has no functions for those of a single one, which
    would take LLVM a fifth of its time; it computes these as well, but slowly."""
    name = entry_name(kernel, vector_bytes=vector_bytes, factors=factors, several_rows=several_rows)
    if isinstance(kernel, Loops):
        body = LoopsRenderer(keep_values(kernel), name, vector_bytes).text()
    elif isinstance(kernel, Scatter):
        body = ScatterRenderer(kernel, name, vector_bytes).text()
    elif isinstance(kernel, Scan):
        body = ScanRenderer(kernel, name, vector_bytes).text()
    elif isinstance(kernel, Sort):
        body = SortRenderer(kernel, name, vector_bytes).text()
    elif isinstance(kernel, Attention):
        body = AttentionRenderer(kernel, name, vector_bytes).text()
    else:
        assert isinstance(kernel, Contraction), "rows are sorted whole, so none are merged"
        renderer = WindowRenderer if kernel.digits else FACTORS[factors]
        body = renderer(kernel, name, vector_bytes, several_rows, sizes).text()
    attributes = f'nounwind "prefer-vector-width"="{8 * vector_bytes}"'
    return f"{body}{write_apart(body)}\nattributes #0 = {{ {attributes} }}\n"
