"""A step of the sum over all alignments of labels, which `ctc_loss` makes for each time step."""

from __future__ import annotations

from typing import Any

import numpy as np

from contraflow.dtypes import bool_
from contraflow.operation.kinds import composite
from contraflow.operation.samples import Array, Sample
from contraflow.ops.elementwise.basic import where
from contraflow.ops.elementwise.mathematics import logaddexp
from contraflow.ops.shape.arrange import pad

IMPOSSIBLE = -1e30  # a logarithm of 0: sums and gradients of it stay finite


def _shifted(alpha: np.ndarray, by: int) -> np.ndarray:
    out = np.full_like(alpha, IMPOSSIBLE)
    out[:, by:] = alpha[:, : alpha.shape[1] - by]
    return out


def _step_ref(
    alpha: np.ndarray, emission: np.ndarray, skips: np.ndarray, running: np.ndarray
) -> np.ndarray:
    two = np.where(skips, _shifted(alpha, 2), IMPOSSIBLE)
    paths = np.logaddexp(np.logaddexp(alpha, _shifted(alpha, 1)), two)
    return np.where(running[:, None], paths + emission, alpha)


def _samples() -> Any:
    yield Sample((
        Array((3, 5)), Array((3, 5)), Array((3, 5), dtype=bool_), Array((3,), dtype=bool_),
    ))  # fmt: skip


@composite(ref=_step_ref, samples=_samples, method=False, internal=True, floating=True)
def alignment_step(alpha, emission, skips, running):
    """The log probabilities [n, s] of all paths to each place, a time step later.

    A path stays, goes on by one place, or by two where it `skips` a blank; rows that are not
    `running` stay as they are.
    """
    one = pad(alpha, (1, -1), "constant", IMPOSSIBLE)
    two = pad(alpha, (2, -2), "constant", IMPOSSIBLE) if alpha.shape[1] > 2 else alpha
    paths = logaddexp(logaddexp(alpha, one), where(skips, two, IMPOSSIBLE))
    return where(running[:, None], paths + emission, alpha)
