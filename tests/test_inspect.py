"""Looking at a graph: what it says of values that were packed away, of ops and of nodes."""

from __future__ import annotations

import doctest
import re
from pathlib import Path

import contraflow as cf
from contraflow.autograd.graph import Graph, saved_tensors_hooks
from contraflow.tensor import Tensor


def listing(*roots: Tensor) -> list[str]:
    """The lines of a graph without the user's lines."""
    text = re.sub(r"at \S+:\d+", "", str(Graph(*roots)))
    return [re.sub(r" {2,}", "  ", row).rstrip() for row in text.split("\n")]


# --- values that were packed away ------------------------------------------------------------


def test_a_graph_with_a_checkpoint() -> None:
    x = cf.ones(4, requires_grad=True)
    y = cf.checkpoint(lambda v: (v * v).sin(), x).sum()
    assert Graph(y).saved_bytes == 0
    assert listing(y) == [
        "graph of float32[]: 3 nodes, 1 leaves, 0 bytes saved",
        "leaf0 = leaf : float32[4]",
        "%1  = mul(leaf0, leaf0) : float32[4]  saves a packed, b packed",
        "%2  = sin(%1) : float32[4]  saves x packed",
        "%3  = sum(%2) : float32[]",
    ]
    assert "mul" in cf.draw(y)
    y.backward()


def test_a_graph_with_hooks_on_saved_values() -> None:
    x = cf.ones(4, requires_grad=True)
    with saved_tensors_hooks(lambda t: t.half(), lambda t: t.float()):
        y = x.sin()
    with saved_tensors_hooks(lambda t: t.numpy(), cf.tensor):
        y = y.exp()
    with saved_tensors_hooks(lambda t: "away", lambda t: x.detach()):
        y = y.sin()
    y = (y * x).sum()
    assert Graph(y).saved_bytes == 8 + 16 + 16 + 16
    rows = listing(y)
    assert rows[0] == "graph of float32[]: 5 nodes, 1 leaves, 56 bytes saved"
    assert [row.split("saves ")[1] for row in rows[2:-1]] == [
        "x packed 8 bytes", "out packed 16 bytes", "x packed", "a 16 bytes, b 16 bytes",
    ]  # fmt: skip
    assert "saves 8 bytes" in cf.draw(y)


# --- the page about it -----------------------------------------------------------------------


def test_the_examples_of_the_page() -> None:
    page = Path(__file__).parent.parent / "docs" / "autograd.md"
    text = page.read_text(encoding="utf-8").replace("```", "")
    test = doctest.DocTestParser().get_doctest(text, {}, page.name, str(page), 0)
    flags = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
    found = doctest.DocTestRunner(optionflags=flags).run(test)
    assert found.attempted > 8
    assert found.failed == 0
