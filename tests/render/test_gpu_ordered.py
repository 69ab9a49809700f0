"""Scans, scatters and sorts on GPUs: every length and layout, and the parts that long rows have."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pytest
from tests.helpers.gpu_case import GUARD, normal
from tests.helpers.gpu_ordered import places
from tests.helpers.gpu_programs import KernelRun, check_op, compare, compare_bits, tape_of
from tests.helpers.ordered_calls import ROUNDED, Drawing

from contraflow import thresholds
from contraflow.compiler.interpret import run_call
from contraflow.compiler.kernel import KernelCall, part_length
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


# --- scatters ----------------------------------------------------------------------------------


def test_rows_that_meet_are_added_in_order(machine: Any) -> None:
    """The gradient of an embedding: targets are those of all columns, so they are sorted once."""
    g, index = normal(10, 90, 5) * 1e3, places(11, 7, 90)
    calls = check_op("segment_sum", [g, index], {"size": 7}, *machine, compare_bits)
    sizes = {call.kernel.name.split("_")[0]: call.sizes for call in calls}
    assert sizes["sort"] == (1, 1, 90)
    assert sizes["scatter"] == (5, 90)


@pytest.mark.parametrize("length", [64, 65, 1024, 1025, 3000])
def test_scatters_of_every_length(length: int, machine: Any) -> None:
    arrays = [normal(12, 50), places(13, 50, length), normal(14, length)]
    calls = check_op("scatter_add", arrays, {"dim": 0}, *machine, compare_bits)
    assert kinds(calls).get("sort", 0) == (length > 64)
    check_op("scatter", arrays, {"dim": 0}, *machine, compare_bits)


@pytest.mark.parametrize("dim", [0, 1, 2])
def test_every_row_has_an_order_of_its_own(dim: int, machine: Any) -> None:
    shape = [3, 4, 5]
    shape[dim] = 100
    arrays = [normal(15, 3, 4, 5), places(16, [3, 4, 5][dim], *shape), normal(17, *shape)]
    check_op("scatter_add", arrays, {"dim": dim}, *machine, compare_bits)


@pytest.mark.parametrize("include_self", [True, False])
@pytest.mark.parametrize("reduce", ["prod", "amax", "amin"])
def test_folds_in_several_sweeps_share_an_order(
    reduce: str, include_self: bool, machine: Any
) -> None:
    x, index, src = normal(18, 6, 4), places(19, 6, 200, 4), normal(20, 200, 4)
    src[:3, 0] = np.nan, -np.inf, -0.0
    how = {"dim": 0, "reduce": reduce, "include_self": include_self}
    calls = check_op("scatter_fold", [x, index, src], how, *machine, compare_bits)
    assert kinds(calls)["sort"] == 1


@pytest.mark.parametrize("accumulate", [True, False])
def test_points_at_several_coordinates(accumulate: bool, machine: Any) -> None:
    x, at = normal(21, 4, 5, 3), places(22, 4, 2, 300) - 3
    how = {"accumulate": accumulate, "wrap": True}
    check_op("put_at", [x, at, normal(23, 300, 3)], {"dims": (0, 1), **how}, *machine, compare_bits)
    flat = normal(24, 4, 5)
    check_op("put_at", [flat, at, normal(25, 300)], {"dims": (0, 1), **how}, *machine, compare_bits)
    inner = places(26, 3, 2, 300) - 1
    values = normal(27, 300, 5)
    check_op("put_at", [x, inner, values], {"dims": (0, 2), **how}, *machine, compare_bits)


def test_all_in_one_element(machine: Any) -> None:
    arrays = [normal(28, 500, 3), np.full((1, 500), 2)]
    how = {"dims": (0,), "shape": (4, 3), "wrap": False}
    check_op("sum_at", arrays, how, *machine, compare_bits)


def test_values_of_wrong_indices_go_nowhere(webgpu: Any) -> None:
    """Every kernel records a wrong index, and none writes outside of its result."""
    index = places(29, 7, 90)
    index[[3, 50]] = 7, -1
    tape, given = tape_of("segment_sum", [normal(30, 90, 5), index], {"size": 7})
    program: Any = KernelRun(tape, given, wgsl.LIMITS)
    failures = []
    for use in program.uses:
        bound, scalars = program.bind(use)
        found = webgpu.run_call(use.call, bound, scalars, line=41)
        failures.append(None if found is None else found.tolist())
    failed = [words for words in failures if words is not None]
    assert len(failed) == 2
    for mark, wrong in failed:
        assert mark == 42
        assert wrong in (7, -1)
    for array in program.held.values():
        assert not np.isin(array[:GUARD], (0, 99), invert=True).any()


def test_no_kernel_walks_over_a_long_scatter_alone() -> None:
    rows, columns = 1 << 14, 768
    g = np.zeros((rows, columns), np.float32)
    tape, given = tape_of("segment_sum", [g, np.zeros(rows, np.int64)], {"size": 50304})
    uses: Any = KernelRun(tape, given, wgsl.LIMITS).uses
    groups = {use.call.kernel.name.split("_")[0]: wgsl.launch(use.call) for use in uses}
    assert groups["scatter"][0] * groups["scatter"][1] >= rows * columns // 256


# --- products ----------------------------------------------------------------------------------


@pytest.mark.parametrize("runner", ["webgpu", "gpu"])
def test_errors_of_long_products_do_not_grow_with_their_length(runner: str, request: Any) -> None:
    run = request.getfixturevalue(runner).run_call
    depth = 30_000
    a, b = (np.random.default_rng(i).random((3, depth)).astype(np.float32) for i in (40, 41))
    tape, given = tape_of("contract", [a, b], {"spec": "mk,nk->mn"})
    program: Any = KernelRun(tape, given, wgsl.LIMITS)
    (use,) = program.uses
    bound, scalars = program.bind(use)
    run(use.call, bound, scalars)
    exact = a.astype(np.float64) @ b.astype(np.float64).T
    error = np.abs(program.result(tape.outputs[0]) - exact).max() / exact.max()
    running = np.cumsum(a[:, None] * b, axis=-1, dtype=np.float32)[..., -1]
    assert error < 2e-6 < np.abs(running - exact).max() / exact.max()


# --- scans -------------------------------------------------------------------------------------


SCANS = {
    "cumsum": {"reverse": False},
    "cumprod": {},
    "logcumsumexp": {},
    "cummax": {},
    "cummin": {},
}


@pytest.mark.parametrize("length", [0, 1, 256, 257, 1000, 5000])
@pytest.mark.parametrize("name", SCANS)
def test_scans_of_every_length(name: str, length: int, machine: Any) -> None:
    x = ties(31, length) if name in ("cummax", "cummin") else 1 + 0.01 * normal(32, length)
    calls = check_op(name, [x], {"dim": 0, **SCANS[name]}, *machine)
    cuts = 0 if length <= 256 else 1
    assert kinds(calls).get("scan") == 1 + cuts


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("dim", [0, 1, 2])
def test_long_scans_along_every_dim(dim: int, reverse: bool, machine: Any) -> None:
    shape = [2, 3, 4]
    shape[dim] = 700
    check_op("cumsum", [normal(33, *shape)], {"dim": dim, "reverse": reverse}, *machine)
    check_op("cummax", [ties(34, *shape)], {"dim": dim}, *machine, compare_bits)


def test_states_of_many_parts_are_scanned_in_parts(machine: Any) -> None:
    with thresholds.using(scan_part=64):
        calls = check_op("cumsum", [normal(35, 9000)], {"dim": 0, "reverse": False}, *machine)
        assert kinds(calls) == {"row": 2, "scan": 3}
        check_op("cummin", [ties(36, 2, 9000)], {"dim": 1}, *machine, compare_bits)


def test_a_long_scan_is_shared_by_the_device() -> None:
    tape, given = tape_of("cumsum", [np.zeros(1 << 22, np.float32)], {"dim": 0, "reverse": False})
    uses: Any = KernelRun(tape, given, wgsl.LIMITS).uses
    walked = [
        part_length(use.call.sizes[-1], use.call.sizes[-2])
        if use.call.kernel.cut is not None
        else use.call.sizes[-1]
        for use in uses
    ]
    assert max(walked) == 256


def test_a_scan_without_a_way_to_combine_states_is_not_cut(machine: Any) -> None:
    arrays = [0.5 * normal(37, 2, 900), normal(38, 2, 900)]
    calls = check_op("recurrence", arrays, {"dim": 1, "reverse": False}, *machine)
    assert kinds(calls) == {"scan": 1}


# --- random calls ------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(8))
def test_random_calls(seed: int, machine: Any) -> None:
    """Short parts, so that rows are cut, merged and walked in many ways."""
    run, limits = machine
    drawing = Drawing(seed)
    for _ in range(12):
        name, arrays, params = drawing.call()
        few = drawing.random.choice((64, 128, 1024))
        walked, part = drawing.random.choice((2, 64)), drawing.random.choice((64, 256))
        same = compare if name in ROUNDED else compare_bits
        with thresholds.using(walked_points=walked, scan_part=part):
            check_op(name, arrays, params, run, limits._replace(sorted_points=few), same)


# --- integers and bools ------------------------------------------------------------------------


@pytest.mark.parametrize("length", [50, 3000])
@pytest.mark.parametrize("dtype", [np.int32, np.int64, np.bool_])
def test_integers_and_bools(dtype: Any, length: int, machine: Any) -> None:
    x, base = (places(seed, 2, n).astype(dtype) for seed, n in ((50, length), (51, 7)))
    index, along = places(52, 7, length), {"dim": 0}
    calls = [
        ("argsort", [x], {**along, "descending": True, "stable": True}),
        ("cummin", [x], along),
        ("scatter", [base, index, x], along),
        ("scatter_fold", [base, index, x], {**along, "reduce": "amax", "include_self": False}),
    ]
    if dtype is not np.bool_:
        calls += [
            ("cumsum", [x], {**along, "reverse": True}),
            ("cumprod", [x], along),
            ("scatter_add", [base, index, x], along),
        ]
    for name, arrays, params in calls:
        check_op(name, arrays, params, *machine, compare_bits)
