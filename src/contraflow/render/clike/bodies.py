"""The bodies of kernels in a C-like language: the order of statements, addresses, loops and tiles.

`write` is all that a renderer needs. The names that a body uses are those of `source.py`.
"""

from __future__ import annotations

from contraflow.compiler.kernel import Contraction, Kernel, Loops
from contraflow.render.clike.contraction import ContractionWriter
from contraflow.render.clike.loops import LoopsWriter, prepare
from contraflow.render.clike.source import Body, Syntax


def write(kernel: Kernel, syntax: Syntax) -> Body:
    """The body of a kernel."""
    if isinstance(kernel, Contraction):
        contraction = ContractionWriter(kernel, syntax)
        contraction.write_tiles()
        return Body(contraction.lines, contraction.shared)
    assert isinstance(kernel, Loops), "the limits of these devices name no other kernels"
    loops = LoopsWriter(prepare(kernel, syntax.column), syntax)
    loops.write_points()
    return Body(loops.lines, loops.shared)
