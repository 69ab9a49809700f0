"""Pictures of graphs. Loaded when one is first asked for."""

from __future__ import annotations

import html
import shutil
import subprocess
from collections.abc import Mapping

from contraflow.autograd.graph import Graph
from contraflow.errors import DeviceError, public
from contraflow.tensor import Tensor


class Drawing(str):
    """A graph in graphviz's language, which a notebook shows as a picture."""

    __slots__ = ()

    def svg(self) -> str:
        """The picture as SVG text; needs graphviz's `dot` program."""
        program = shutil.which("dot")
        if program is None:
            raise DeviceError(
                "draw: graphviz's program `dot` is not installed, so there is no SVG."
            )
        done = subprocess.run(
            [program, "-Tsvg"], input=self, capture_output=True, text=True, check=True
        )
        return done.stdout

    def _repr_html_(self) -> str:
        if shutil.which("dot") is None:
            return f"<pre>{html.escape(self)}</pre>"
        return self.svg()


@public
def draw(*roots: Tensor, names: Mapping[str, Tensor] | None = None) -> Drawing:
    """The graph of tensors as DOT text; `.svg()` makes a picture where graphviz is installed.

    >>> import contraflow as cf
    >>> x = cf.ones(2, requires_grad=True)
    >>> print(cf.draw(x.exp().sum(), names={"x": x}))
    digraph contraflow {
      node [shape=box, fontname="monospace"];
      "x" [label="x\\nfloat32[2]", style=filled];
      "%1" [label="exp\\nfloat32[2]...
      "x" -> "%1";
      "%2" [label="sum\\nfloat32[]...
      "%1" -> "%2";
    }
    """
    return Drawing(Graph(*roots, names=names).dot())
