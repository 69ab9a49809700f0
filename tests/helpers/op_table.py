"""Writes docs/ops.md: every op, and how each device runs it.

python -m tests.helpers.op_table            rewrite the page
python -m tests.helpers.op_table --print    print it instead
"""

from __future__ import annotations

import sys
import textwrap
from collections import defaultdict
from functools import lru_cache
from pathlib import Path

from tests.helpers import documented
from tests.helpers.registry_tapes import recorded

from contraflow.compiler.kernel import Limits
from contraflow.compiler.tape import Tape
from contraflow.devices import lookup
from contraflow.devices.cuda import matrices
from contraflow.dtypes import ALL
from contraflow.operation.op import REGISTRY, Op
from contraflow.render.clike import cuda, wgsl

PAGE = Path(__file__).resolve().parents[2] / "docs" / "ops.md"
LIMITS: dict[str, Limits] = {
    "cpu": lookup("cpu").limits,
    "cuda": cuda.LIMITS._replace(host=False),
    "webgpu": wgsl.LIMITS._replace(host=False),
}
# The library of a device that does some ops in eager mode, and those ops.
LIBRARIES = {"cuda": ("cuSOLVER", frozenset(matrices.OPS))}


@lru_cache(maxsize=1)
def tapes() -> dict[tuple[str, bool], Tape]:
    """The tapes of the registry's first samples, by op and whether they are backward."""
    return {
        (name, backward): tape
        for backward in (False, True)
        for name, (tape, _) in recorded(backward=backward)
    }


@lru_cache(maxsize=1)
def users() -> dict[str, set[str]]:
    """For each op without a kernel the public ops whose tapes, forward or backward, have it."""
    found = defaultdict(set)
    for (name, _), tape in tapes().items():
        if not REGISTRY[name].internal:
            for op in _host_ops(tape):
                found[op].add(name)
    return dict(found)


def _host_ops(tape: Tape) -> set[str]:
    return {line.op.name for line in tape.lines if line.op.kind.lowering == "opaque"}


def cell(op: Op, device: str) -> str:
    """How a device runs an op, and its gradient where that is another way."""
    forward, backward = (tapes().get((op.name, which)) for which in (False, True))
    way = _way(forward, device)
    back = way if backward is None else _way(backward, device)
    return way if back == way else f"{way}; gradient {back}"


def _way(tape: Tape | None, device: str) -> str:
    limits = LIMITS[device]
    library, done = LIBRARIES.get(device, ("", frozenset()))
    if tape is not None and _host_ops(tape) and _host_ops(tape) <= done:
        return library
    # What cannot be recorded has shapes that depend on values, and runs in eager mode on the host.
    if tape is None or _host_ops(tape):
        given = tape is None or bool(tape.inputs)  # tensors, which may lie elsewhere
        return "refused" if given and not limits.host else "NumPy"
    computed = {tape.specs[v].dtype.name for line in tape.lines for v in line.outs}
    lacking = sorted(limits.lacks & computed)
    return f"refused: {', '.join(lacking)}" if lacking else "kernel"


def page() -> str:
    """The page as markdown."""
    rows = [
        "# Ops and devices",
        "",
        "How each device runs every public op. `make ops` writes this page from the registry, and",
        "`tests/compiler/test_op_table.py` holds it. A cell is about the program of the op's first",
        "sample; where that of its gradient is run in another way, it says so.",
        "",
        *textwrap.wrap(f"{documented.counted()} `tests/house/test_docstrings.py` holds that.", 96),
        "",
        "| cell | what it means |",
        "| --- | --- |",
        "| kernel | generated code of the device |",
        "| NumPy | the op's reference, on the host |",
        "| cuSOLVER | a library of the device, between the launches of kernels |",
        "| refused | a DeviceError that names the op and says what to do |",
        "| refused: float64 | it computes in that dtype, which the device does not have |",
        "",
        "| device | dtypes |",
        "| --- | --- |",
    ]
    for device, limits in LIMITS.items():
        names = [dtype.name for dtype in ALL if dtype.name not in limits.lacks]
        bits = limits.int64_bits
        narrow = f"; int64 has {bits} bits, and results that do not fit are an OverflowError"
        rows.append(f"| {device} | {', '.join(names)}{narrow if bits < 64 else ''} |")
    rows += ["", f"| op | kind | {' | '.join(LIMITS)} |", f"| --- | --- |{' --- |' * len(LIMITS)}"]
    for name, op in sorted(REGISTRY.items()):
        if not op.internal:
            cells = " | ".join(cell(op, device) for device in LIMITS)
            rows.append(f"| `{name}` | {op.kind.name} | {cells} |")
    return "\n".join(rows) + "\n"


def main(arguments: list[str]) -> int:
    """Write the page."""
    if "--print" in arguments:
        print(page())
    else:
        PAGE.write_text(page())
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
