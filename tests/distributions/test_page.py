"""docs/distributions.md: its table is what the classes say, and its example runs."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from tests.helpers.distribution_cases import CASES

import contraflow as cf
from contraflow import distributions as D
from contraflow.distributions.distribution import Distribution

PAGE = Path(__file__).resolve().parents[2] / "docs" / "distributions.md"
OF_OTHERS = {"Independent", "MixtureSameFamily", "TransformedDistribution"}


def answers(d: Any, method: str) -> str:
    u = cf.full(d.batch_shape, 0.5, dtype=cf.float64)
    given = {"cdf": lambda: d.cdf(d.sample()), "icdf": lambda: d.icdf(u), "entropy": d.entropy}
    try:
        given[method]()
    except NotImplementedError:
        return ""
    return "yes"


def table() -> str:
    """A row for each distribution."""
    rows = []
    for name in sorted(n for n in D.__all__ if isinstance(getattr(D, n), type)):
        kind = getattr(D, name)
        if not issubclass(kind, Distribution) or name in ("Distribution", "ExponentialFamily"):
            continue
        first = (kind.__doc__ or "").split("\n")[0]
        if name in OF_OTHERS:
            cells = ["of its base" if name != "MixtureSameFamily" else "", "of its base", "", ""]
            cells[3] = "of its base" if name == "Independent" else ""
            cells[1] = "" if name == "Independent" else cells[1]
            cells[2] = "of its base" if name == "TransformedDistribution" else ""
        else:
            d = next(case for case in CASES.values() if case.name == name).distribution()
            cells = ["yes" if d.has_rsample else ""]
            cells += [answers(d, method) for method in ("cdf", "icdf", "entropy")]
        rows.append(f"| `{name}` | {first} | {' | '.join(cells)} |")
    return "\n".join(rows)


def test_the_table_is_what_the_classes_say() -> None:
    assert table() in PAGE.read_text(encoding="utf-8"), f"docs/distributions.md needs:\n{table()}"


def test_the_example_runs() -> None:
    (code,) = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    given = {"reward": cf.ones(8), "mu": cf.zeros(3), "sigma": cf.ones(3)}
    exec(code, given)
    assert given["loss"].shape == ()
    assert given["divergence"].shape == (3,)
