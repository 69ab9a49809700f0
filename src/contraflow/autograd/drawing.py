"""Drawings of graphs and tapes in graphviz's DOT language; loaded when first used."""

from __future__ import annotations

import html
import shutil
import subprocess
from collections.abc import Iterator, Mapping

from contraflow.autograd.graph import Graph, quoted
from contraflow.compiler.tape import Tape, Value
from contraflow.errors import DeviceError
from contraflow.operation.public import public
from contraflow.tensors.tensor import Tensor


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
def draw(*roots: Tensor | Tape, names: Mapping[str, Tensor] | None = None) -> Drawing:
    """The graph of tensors, or a tape, as DOT text; `.svg()` renders it with graphviz.

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
    >>> square = cf.compile(lambda v: v * v)
    >>> square(cf.ones(2))
    tensor([1., 1.])
    >>> print(cf.draw(square.tape))
    digraph contraflow {
      node [shape=box, fontname="monospace"];
      "%0" [label="%0 arg\\nfloat32[2]", style=filled];
      "%1" [label="mul\\nfloat32[2]...
      "%0" -> "%1";
      "%0" -> "%1";
      "return" [label="return", style=filled];
      "%1" -> "return";
    }
    """
    tapes = [root for root in roots if isinstance(root, Tape)]
    if not tapes:
        return Drawing(Graph(*roots, names=names).dot())  # type: ignore[arg-type]
    if len(roots) > 1 or names is not None:
        raise TypeError("draw: a tape is drawn by itself, and names its own values.")
    return Drawing("\n".join(_rows_of(tapes[0])))


def _rows_of(tape: Tape) -> Iterator[str]:
    """A tape in graphviz's language: a box for each input and line, an arrow for each use."""
    yield "digraph contraflow {"
    yield '  node [shape=box, fontname="monospace"];'
    box: dict[Value, str] = {}  # the box of the line that makes a value
    for value, role in tape.inputs.items():
        box[value] = f"{value}"
        yield f'  "{value}" [label="{value} {role}\\n{tape.specs[value]}", style=filled];'
    for line in tape.lines:
        name = ", ".join(map(str, line.outs))
        made = ", ".join(str(tape.specs[out]) for out in line.outs)
        place = "" if line.line is None else f"\\n{line.line}"
        label = quoted(f"{line.op.name}\\n{made}{place}")
        yield f'  "{name}" [label="{label}"];'
        for x in line.inputs:
            if isinstance(x, Value):
                yield f'  "{box[x]}" -> "{name}";'
        box.update(dict.fromkeys(line.outs, name))
    for target, value in tape.writes.items():
        yield f'  "{box[value]}" -> "{target}" [label="write", style=dashed];'
    if tape.outputs:
        yield '  "return" [label="return", style=filled];'
        for value in tape.outputs:
            yield f'  "{box[value]}" -> "return";'
    yield "}"
