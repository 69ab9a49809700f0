"""Distributions of times and ratios."""

from __future__ import annotations

import statistics
from collections.abc import Sequence


def quartiles(values: Sequence[float]) -> dict[str, float]:
    """Median, quartiles and number of some values, for JSON."""
    q1, median, q3 = statistics.quantiles(values, method="inclusive")
    return {"median": median, "q1": q1, "q3": q3, "samples": len(values)}
