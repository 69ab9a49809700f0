"""The ops that have no kernel and run on the host: a table in the docs, made of the registry.

`python -m tests.compiler.test_host_ops` prints the table.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.helpers.op_table import LIMITS, tapes, users

import contraflow
from contraflow.compiler.fuse import fuse, runs_on_host
from contraflow.compiler.host_numbers import host_values
from contraflow.compiler.kernel import Limits
from contraflow.compiler.lower import HostUse
from contraflow.operation.op import REGISTRY

PAGE = Path(contraflow.__file__).parents[2] / "docs" / "architecture.md"


def table() -> str:
    """The table of the docs."""
    head = "| op without a kernel | what it gives | other ops whose programs have it |"
    rows = [head, "| --- | --- | --- |"]
    for name, op in sorted(REGISTRY.items()):
        if op.kind.lowering == "opaque":
            says = (op.body.__doc__ or "").partition("\n")[0]
            others = sorted(users().get(name, set()) - {name})
            listed = ", ".join(f"`{other}`" for other in others)
            rows.append(f"| `{name}` | {says} | {listed} |")
    return "\n".join(rows)


def test_table_stands_in_the_docs() -> None:
    page = PAGE.read_text(encoding="utf-8")
    assert table() in page, f"docs/architecture.md needs this table:\n{table()}"


@pytest.mark.parametrize("device", LIMITS)
def test_no_other_line_runs_on_the_host(device: str) -> None:
    """Every device has a kernel for all that the table does not name."""
    limits = LIMITS[device]._replace(host=True)
    on_host = set()
    for tape in tapes().values():
        uses = fuse(tape, host_values(tape), limits)
        on_host |= {use.tape_line.op.name for use in uses if isinstance(use, HostUse)}
    assert on_host
    assert on_host <= {name for name, op in REGISTRY.items() if op.kind.lowering == "opaque"}


def test_limits_decide_what_runs_on_the_host() -> None:
    names = ("svd", "cumsum", "argsort", "scatter_add", "add", "sum")
    bare = [name for name in names if runs_on_host(REGISTRY[name], Limits())]
    assert bare == ["svd", "cumsum", "argsort", "scatter_add"]
    for limits in LIMITS.values():
        assert [name for name in names if runs_on_host(REGISTRY[name], limits)] == ["svd"]


if __name__ == "__main__":
    print(table())
