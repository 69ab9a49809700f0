"""Scans, scatters and sorts on GPUs: every length and layout, and the parts that long rows have."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pytest
from tests.helpers.gpu_ordered import places
from tests.helpers.gpu_programs import KernelRun, check_op, compare_bits, tape_of

from contraflow.compiler.interpret import run_call
from contraflow.compiler.kernel import KernelCall
from contraflow.dtypes import float32, int8, int32
from contraflow.render.clike import cuda, wgsl

LENGTHS = (0, 1, 2, 3, 31, 256, 257, 1000, 1024, 1025, 2048, 2500, 5000)


def kinds(calls: list[KernelCall]) -> dict[str, int]:
    """How many kernels of each kind there are."""
    return dict(Counter(call.kernel.name.split("_")[0] for call in calls))


@pytest.fixture(params=["interpreter", "webgpu", "gpu"])
def machine(request: Any) -> Any:
    """What runs kernels, and its limits."""
    if request.param == "interpreter":
        return run_call, wgsl.LIMITS
    runner = request.getfixturevalue(request.param)
    return runner.run_call, wgsl.LIMITS if request.param == "webgpu" else cuda.LIMITS


# --- sorts -------------------------------------------------------------------------------------


def ties(seed: int, *shape: int) -> np.ndarray:
    """Few different numbers, infinities and NaN among them."""
    found = places(seed, 40, *shape).astype(np.float32)
    found[found == 7], found[found == 8], found[found == 9] = np.nan, np.inf, -0.0
    return found


@pytest.mark.parametrize("descending", [False, True])
@pytest.mark.parametrize("length", LENGTHS)
def test_sorts_of_every_length(length: int, descending: bool, machine: Any) -> None:
    how = {"dim": 0, "descending": descending, "stable": True}
    calls = check_op("argsort", [ties(1, length)], how, *machine, compare_bits)
    if length <= 1024:
        assert kinds(calls) == {"sort": 1}
    else:
        merges = (-(-length // 1024) - 1).bit_length()
        assert kinds(calls) == {"map": 1, "sort": 1, "merge": merges}


@pytest.mark.parametrize("dim", [0, 1, 2])
def test_long_rows_along_every_dim(dim: int, machine: Any) -> None:
    shape = [2, 3, 4]
    shape[dim] = 2100
    how = {"dim": dim, "descending": False, "stable": True}
    check_op("argsort", [ties(2, *shape)], how, *machine, compare_bits)


@pytest.mark.parametrize("dtype", [int8, int32, float32], ids=str)
def test_keys_of_several_dtypes(dtype: Any, machine: Any) -> None:
    if dtype is int8 and machine[1] is wgsl.LIMITS and machine[0] is not run_call:
        pytest.skip("webgpu stores no int8")
    x = places(3, 90, 3, 1500).astype(dtype.numpy)
    how = {"dim": 1, "descending": True, "stable": True}
    check_op("argsort", [x], how, *machine, compare_bits)


@pytest.mark.parametrize("count", [0, 1, 5, 1024, 1500])
def test_the_first_positions(count: int, machine: Any) -> None:
    how = {"dim": 1, "count": count, "descending": True}
    check_op("leading", [ties(4, 2, 1500)], how, *machine, compare_bits)
    if count <= 5:
        check_op("leading", [ties(4, 3, 30)], how, *machine, compare_bits)


def test_a_long_row_is_shared_by_the_device() -> None:
    """No kernel has one group for all of a row, nor does a group sort more than it has room for."""
    how = {"dim": 0, "descending": False, "stable": True}
    x = np.broadcast_to(np.float32(0), (1 << 22,))
    tape, given = tape_of("argsort", [x], how)
    uses: Any = KernelRun(tape, {v: np.zeros(1, np.float32) for v in given}, wgsl.LIMITS).uses
    groups = [wgsl.launch(use.call)[0] for use in uses]
    assert min(groups) >= 1 << 12
    assert len(groups) == 2 + 12
