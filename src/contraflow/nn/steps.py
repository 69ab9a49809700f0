"""Time steps of recurrent layers: the rows of a tensor, one after the other."""

from __future__ import annotations

from collections.abc import Sequence

from contraflow.tensors.tensor import Tensor


def time_steps(rows: Tensor, sizes: Sequence[int]) -> list[Tensor]:
    """The rows of each step, which are `sizes` many.

    Halves of halves: the gradient of a part is embedded in that of log(steps) larger ones, where
    parts of the whole would make as many gradients of its size as there are steps.
    """
    if len(sizes) == 1:
        return [rows]
    half = len(sizes) // 2
    middle = sum(sizes[:half])
    return [*time_steps(rows[:middle], sizes[:half]), *time_steps(rows[middle:], sizes[half:])]
