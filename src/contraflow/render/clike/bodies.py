"""The bodies of kernels in a C-like language: the order of statements, addresses, loops and tiles.

`write` is all that a renderer needs. The names that a body uses are those of `source.py`.
"""

from __future__ import annotations

from contraflow.compiler.kernel import Attention, Contraction, Kernel, Merge, Scan, Scatter, Sort
from contraflow.render.clike.attention import AttentionWriter
from contraflow.render.clike.contraction import ContractionWriter, WindowWriter
from contraflow.render.clike.loops import LoopsWriter, prepare
from contraflow.render.clike.ordered import ScanWriter, ScatterWriter
from contraflow.render.clike.sort import MergeWriter, SortWriter
from contraflow.render.clike.source import Body, Syntax
from contraflow.render.clike.writer import Writer


def write(kernel: Kernel, syntax: Syntax) -> Body:
    """The body of a kernel."""
    writer = _writer(kernel, syntax)
    writer.write_points()
    return Body(writer.lines, writer.shared)


def _writer(kernel: Kernel, syntax: Syntax) -> Writer:
    if isinstance(kernel, Contraction):
        return (WindowWriter if kernel.digits else ContractionWriter)(kernel, syntax)
    if isinstance(kernel, Attention):
        return AttentionWriter(kernel, syntax)
    if isinstance(kernel, Scan):
        return ScanWriter(kernel, syntax)
    if isinstance(kernel, Scatter):
        return ScatterWriter(kernel, syntax)
    if isinstance(kernel, Sort):
        return SortWriter(kernel, syntax)
    if isinstance(kernel, Merge):
        return MergeWriter(kernel, syntax)
    return LoopsWriter(prepare(kernel, syntax.column), syntax)
