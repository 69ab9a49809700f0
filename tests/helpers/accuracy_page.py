"""The page docs/accuracy.md: the errors of functions and of reducing ops.

python -m tests.helpers.accuracy_page            measure large samples and rewrite docs/accuracy.md
python -m tests.helpers.accuracy_page --print    print the page instead

Functions are measured by `accuracy.py`. The cases of reducing ops are the tables of their tests,
which hold the code to what is written here. Where PyTorch is installed, its errors stand beside.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Iterator
from importlib import import_module, util
from typing import Any

import numpy as np
from tests.helpers.accuracy import CASES, DTYPES, PAGE, RUNNERS, errors
from tests.ops import test_accuracy_products as products
from tests.ops import test_accuracy_sums as sums

COUNTS = {DTYPES[0]: 1 << 20, DTYPES[1]: 1 << 17}


def rounded_up(error: float) -> str:
    """To a half above, with some room: other samples and processors may be worse."""
    if error == math.inf:
        return "wrong"
    return f"{math.ceil((1.15 * error + 0.1) * 2) / 2:.1f}" if error < 100 else f"{error:.0e}"


HEAD = """\
# Accuracy

How far results are from exact ones, beside PyTorch's ({versions}).
`make accuracy` writes this page; `tests/expressions/test_accuracy.py`,
`tests/ops/test_accuracy_sums.py` and `tests/ops/test_accuracy_products.py` hold the code to it.
"""

FUNCTIONS = """\
## Functions

The largest errors of the functions that kernels compute, in units in the last place (ulp) of the
exact result, rounded up with some room: over all finite numbers, beside zeros, poles and branch
points, and among subnormal numbers. NaN and infinities are where they belong, or the table says
"wrong". Small eager tensors go through NumPy, whose own functions differ a little from machine to
machine; everything else goes through generated code. `+ - * /`, square roots, rounding, `fmod` and
`fma` are exact up to their own rounding.
"""

LONG = """
## Sums of very many numbers

The largest errors in float32, as a part of the largest element of the result. Rounding a result to
float32 is an error of up to 6.0e-08. The tests allow twice what is written here and one rounding,
as vectors of another length add in another order.
"""

REDUCING = """
## Reducing ops

The same for every op that adds up, over 2**20 numbers about a tenth: all have one sign, so that a
running sum in float32 is far off. Columns are those of a tensor of 2**18 rows, and rows those of
one of 2**18 columns. To 2**26 numbers the error is at most 3e-6, or ten times PyTorch's in the same
case. `bincount` has a result whose length depends on values, which compiled functions refuse.
"""


def functions(torch: Any) -> Iterator[str]:
    """The lines about functions."""
    runners = dict(RUNNERS)
    if torch is not None:
        runners["PyTorch"] = lambda case, arrays: case.run(torch, arrays)
    names = [f"{dtype}, {name}" for dtype in DTYPES for name in runners]
    yield f"| function | {' | '.join(names)} | |"
    yield "| --- " * (len(names) + 2) + "|"
    for case in CASES:
        cells = []
        for dtype in DTYPES:
            found = errors(case, dtype, COUNTS[dtype], runners)
            cells += [rounded_up(found[name]) for name in runners]
        yield f"| {case.name} | {' | '.join(cells)} | {case.remark} |"


def table(first: str, rows: Iterator[tuple[str, list[float | None]]], torch: Any) -> Iterator[str]:
    """A table of relative errors; None where there is no such case."""
    names = [first, "eager", "compiled"] + ["PyTorch"] * (torch is not None)
    yield f"| {' | '.join(names)} |"
    yield "| --- " * len(names) + "|"
    for name, found in rows:
        cells = [name, *("" if error is None else f"{error:.1e}" for error in found)]
        yield f"| {' | '.join(cells)} |"


def long_sums(torch: Any) -> Iterator[tuple[str, list[float | None]]]:
    """The errors of sums of very many numbers."""
    for name in sums.LONG:
        yield name, list(sums.long_errors(name, torch))


def reductions(torch: Any) -> Iterator[tuple[str, list[float | None]]]:
    """The errors of every op that adds up."""
    for parameters in sums.cases():
        name, dim = parameters.values
        yield str(parameters.id), list(sums.errors(name, sums.SMALL, dim, torch))
    for cases in (products.PRODUCTS, products.SCANS, products.SCATTERS):
        for name in cases:
            yield name, list(products.errors(name, torch))


def page() -> Iterator[str]:
    """Line by line."""
    torch = import_module("torch") if util.find_spec("torch") else None
    versions = f"NumPy {np.__version__}"
    versions += f", PyTorch {torch.__version__}" if torch is not None else ""
    yield HEAD.format(versions=versions)
    yield FUNCTIONS
    yield from functions(torch)
    yield LONG
    yield from table("sum", long_sums(torch), torch)
    yield REDUCING
    yield from table("op", reductions(torch), torch)


def main(arguments: list[str]) -> None:
    """Write the page."""
    lines = []
    for line in page():
        print(line, file=sys.stderr, flush=True)
        lines.append(line)
    text = "\n".join(lines) + "\n"
    if "--print" in arguments:
        print(text)
    else:
        PAGE.write_text(text)


if __name__ == "__main__":
    main(sys.argv[1:])
