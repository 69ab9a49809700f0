"""Each pass as text in and text out, and on random programs: nothing that is asked for changes."""

from __future__ import annotations

import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.helpers.program_runs import mode as compiled_as
from tests.helpers.random_programs import generate

import contraflow as cf
from contraflow.compiler import host_numbers, passes
from contraflow.compiler.interpret import run_tape
from contraflow.compiler.tape import Tape, Value
from contraflow.runtime.executable import load

PAGE = Path(cf.__file__).parents[2] / "docs" / "architecture.md"
X = "input %0 : float32[2, 3]  arg"


def table() -> str:
    """The passes as docs/architecture.md shows them, in order, by their docstrings."""
    rows = ["| pass | what it does | where |", "| --- | --- | --- |"]
    for run in passes.PASSES:
        assert run.__doc__ is not None
        first = run.__doc__.split("\n\n")[0]
        module = run.__module__.removeprefix("contraflow.").replace(".", "/")
        rows.append(f"| `{run.__name__}` | {first} | `{module}.py` |")
    return "\n".join(rows)


def test_table_stands_in_the_docs() -> None:
    page = PAGE.read_text(encoding="utf-8")
    assert table() in page, f"docs/architecture.md needs this table:\n{table()}"


def tape(rows: str) -> Tape:
    body = textwrap.indent(textwrap.dedent(rows).strip(), "  ")
    return Tape.parse(f"tape t\n{body}").verify()


def becomes(run: Callable[[Tape], Tape], before: str, after: str) -> None:
    given = tape(before)
    text = given.text()
    result = run(given)
    assert result.verify().text() == tape(after).text()
    assert given.text() == text, "the pass changed the tape it was given"


# --- dead code -----------------------------------------------------------------------------------


def test_dead_lines_go_and_what_they_alone_used() -> None:
    becomes(
        passes.eliminate_dead,
        f"""
        {X}
        %1 = exp(%0) : float32[2, 3]
        %2 = sin(%1) : float32[2, 3]
        %3 = cos(%0) : float32[2, 3]
        return %3
        """,
        f"""
        {X}
        %3 = cos(%0) : float32[2, 3]
        return %3
        """,
    )


def test_what_is_written_is_alive() -> None:
    becomes(
        passes.eliminate_dead,
        f"""
        {X}
        %1 = exp(%0) : float32[2, 3]
        %2 = sin(%1) : float32[2, 3]
        write %0 = %1
        return
        """,
        f"""
        {X}
        %1 = exp(%0) : float32[2, 3]
        write %0 = %1
        return
        """,
    )


def test_a_line_with_one_result_alive_stays_whole() -> None:
    text = f"""
        {X}
        %1, %2 = max(%0, dim=(1,), keepdim=False) : float32[2], int64[2]
        return %2
        """
    becomes(passes.eliminate_dead, text, text)


# --- common subexpressions -----------------------------------------------------------------------


def test_equal_lines_are_computed_once_and_so_are_their_users() -> None:
    becomes(
        passes.merge_common,
        f"""
        {X}
        %1 = exp(%0) : float32[2, 3]
        %2 = exp(%0) : float32[2, 3]
        %3 = mul(%1, %2) : float32[2, 3]
        %4 = mul(%2, %1) : float32[2, 3]
        write %0 = %4
        return %2, %3
        """,
        f"""
        {X}
        %1 = exp(%0) : float32[2, 3]
        %3 = mul(%1, %1) : float32[2, 3]
        write %0 = %3
        return %1, %3
        """,
    )


def test_nothing_is_merged_across_regions() -> None:
    becomes(
        passes.merge_common,
        f"""
        {X}
        %1 = exp(%0) : float32[2, 3]
        %2 = exp(%0) : float32[2, 3]  region 1
        %3 = exp(%0) : float32[2, 3]  region 1
        %4 = exp(%0) : float32[2, 3]  region 2
        return %1, %2, %3, %4
        """,
        f"""
        {X}
        %1 = exp(%0) : float32[2, 3]
        %2 = exp(%0) : float32[2, 3]  region 1
        %4 = exp(%0) : float32[2, 3]  region 2
        return %1, %2, %2, %4
        """,
    )


def test_numbers_of_other_types_or_signs_are_other_operands() -> None:
    text = """
        input %0 : int64[2]  arg
        %1 = mul(%0, 1) : int64[2]
        %2 = mul(%0, 1.0) : float32[2]
        %3 = mul(%0, True) : int64[2]
        %4 = mul(%0, 0.0) : float32[2]
        %5 = mul(%0, -0.0) : float32[2]
        return %1, %2, %3, %4, %5
        """
    becomes(passes.merge_common, text, text)


def test_nan_is_one_operand() -> None:
    becomes(
        passes.merge_common,
        f"{X}\n%1 = mul(%0, nan) : float32[2, 3]\n%2 = mul(%0, nan) : float32[2, 3]\nreturn %1, %2",
        f"{X}\n%1 = mul(%0, nan) : float32[2, 3]\nreturn %1, %1",
    )


def test_other_parameters_are_other_lines() -> None:
    text = f"""
        {X}
        %1 = sum(%0, dim=(0,), keepdim=False) : float32[3]
        %2 = sum(%0, dim=(1,), keepdim=False) : float32[2]
        %3 = sum(%0, dim=(0,), keepdim=True) : float32[1, 3]
        return %1, %2, %3
        """
    becomes(passes.merge_common, text, text)


def test_several_results_are_merged_together() -> None:
    line = "max(%0, dim=(1,), keepdim=False) : float32[2], int64[2]"
    becomes(
        passes.merge_common,
        f"{X}\n%1, %2 = {line}\n%3, %4 = {line}\nreturn %3, %4",
        f"{X}\n%1, %2 = {line}\nreturn %1, %2",
    )


# --- results with memory of their own ------------------------------------------------------------


def test_results_that_are_inputs_views_or_other_results_are_copied() -> None:
    becomes(
        passes.own_results,
        f"""
        {X}
        %1 = exp(%0) : float32[2, 3]
        %2 = strided(%1, shape=(3, 2), strides=(1, 3), offset=0) : float32[3, 2]
        return %0, %1, %1, %2
        """,
        f"""
        {X}
        %1 = exp(%0) : float32[2, 3]
        %2 = strided(%1, shape=(3, 2), strides=(1, 3), offset=0) : float32[3, 2]
        %3 = clone(%0) : float32[2, 3]
        %4 = clone(%1) : float32[2, 3]
        %5 = clone(%2) : float32[3, 2]
        return %3, %1, %4, %5
        """,
    )


def test_two_inputs_that_change_places() -> None:
    becomes(
        passes.own_results,
        """
        input %0 : float32[2]  state
        input %1 : float32[2]  state
        write %0 = %1
        write %1 = %0
        return
        """,
        """
        input %0 : float32[2]  state
        input %1 : float32[2]  state
        %2 = clone(%1) : float32[2]
        %3 = clone(%0) : float32[2]
        write %0 = %2
        write %1 = %3
        return
        """,
    )


def test_an_input_written_with_itself_is_not_written() -> None:
    becomes(passes.own_results, f"{X}\nwrite %0 = %0\nreturn", f"{X}\nreturn")


# --- host values ---------------------------------------------------------------------------------


def test_what_host_scalars_alone_decide_is_known_before_a_replay() -> None:
    given = tape(
        """
        input %0 : float64[]  scalar
        input %1 : float32[2]  arg
        input %2 : float32[]  state
        %3 = mul(%0, 2.0) : float64[]
        %4 = add(%3, %0) : float64[]
        %5 = mul(%1, %4) : float32[2]
        %6 = mul(%2, %4) : float64[]
        %7 = full(1.0, shape=(), dtype=float32) : float32[]
        %8 = full(%4, shape=(2,), dtype=float32) : float32[2]
        %9 = sum(%5, dim=(0,), keepdim=False) : float32[]
        return %5, %6, %7, %8, %9
        """
    )
    assert host_numbers.host_values(given) == {Value(n) for n in (0, 3, 4, 7)}


# --- all of them ---------------------------------------------------------------------------------


# --- pieces --------------------------------------------------------------------------------------


def test_a_value_that_replaces_all_of_another_is_a_view() -> None:
    becomes(
        passes.fold_whole_assignments,
        f"""
        {X}
        %1 = exp(%0) : float32[2, 3]
        %2 = full(0, shape=(1, 6), dtype=float32) : float32[1, 6]
        %3 = assign(%2, %1, shape=(2, 3), strides=(3, 1), offset=0) : float32[1, 6]
        %4 = assign(%3, %1, shape=(3, 2), strides=(1, 3), offset=0) : float32[1, 6]
        %5 = strided(%1, shape=(6,), strides=(1,), offset=0) : float32[6]
        %6 = assign(%4, %5, shape=(6,), strides=(1,), offset=0) : float32[1, 6]
        return %6
        """,
        f"""
        {X}
        %1 = exp(%0) : float32[2, 3]
        %2 = full(0, shape=(1, 6), dtype=float32) : float32[1, 6]
        %3 = strided(%1, shape=(1, 6), strides=(6, 1), offset=0) : float32[1, 6]
        %4 = assign(%3, %1, shape=(3, 2), strides=(1, 3), offset=0) : float32[1, 6]
        %5 = strided(%1, shape=(6,), strides=(1,), offset=0) : float32[6]
        %6 = assign(%4, %5, shape=(6,), strides=(1,), offset=0) : float32[1, 6]
        return %6
        """,
    )


def summed_pieces(starts: list[int], value: str = "0") -> str:
    """Rows of two padded to ten and summed, in this order, and a whole one."""
    rows = ["input %0 : float32[2, 2]  arg", "input %1 : float32[10, 2]  arg"]
    total = 1
    for n, start in enumerate(starts):
        piece, added = 2 + 2 * n, 3 + 2 * n
        pads = f"(({start}, {8 - start}), (0, 0))"
        rows.append(f"%{piece} = constant_pad(%0, {value}, pads={pads}) : float32[10, 2]")
        rows.append(f"%{added} = add(%{total}, %{piece}) : float32[10, 2]")
        total = added
    return "\n".join([*rows, f"return %{total}"])


def test_padded_pieces_that_are_summed_are_put_side_by_side() -> None:
    becomes(
        passes.join_pieces,
        summed_pieces([6, 2, 8, 4, 0]),
        """
        input %0 : float32[2, 2]  arg
        input %1 : float32[10, 2]  arg
        %2 = constant_pad(%0, 0, pads=((6, 2), (0, 0))) : float32[10, 2]
        %4 = assign(%2, %0, shape=(2, 2), strides=(2, 1), offset=4) : float32[10, 2]
        %6 = assign(%4, %0, shape=(2, 2), strides=(2, 1), offset=16) : float32[10, 2]
        %8 = assign(%6, %0, shape=(2, 2), strides=(2, 1), offset=8) : float32[10, 2]
        %10 = assign(%8, %0, shape=(2, 2), strides=(2, 1), offset=0) : float32[10, 2]
        %11 = add(%1, %10) : float32[10, 2]
        return %11
        """,
    )


@pytest.mark.parametrize(
    ("starts", "value"), [([6, 2, 8, 4], "0"), ([6, 2, 8, 4, 0], "1"), ([6, 5, 5, 6, 7, 7], "0")]
)
def test_few_pieces_are_summed_and_so_are_others(starts: list[int], value: str) -> None:
    given = summed_pieces(starts, value)
    becomes(passes.join_pieces, given, given)


def test_pieces_that_overlap_are_put_into_rows() -> None:
    found = passes.join_pieces(tape(summed_pieces([0, 1, 2, 3, 4, 5, 6, 7, 8, 8]))).verify()
    names = [line.op.name for line in found.lines]
    # A row of five; one of four, which stay as they are, and the second of the last.
    assert [names.count(name) for name in ("assign", "constant_pad", "add")] == [4, 1 + 4 + 1, 6]
    given = dict(zip(found.inputs, (np.ones((2, 2)), np.zeros((10, 2)))))
    (total,) = (run_tape(found, given)[v] for v in found.outputs)
    np.testing.assert_array_equal(total[:, 0], [1, 2, 2, 2, 2, 2, 2, 2, 3, 2])


def test_pieces_stored_among_zeros_are_stored_side_by_side() -> None:
    head = """
        input %0 : float32[2, 4]  arg
        %1 = full(0, shape=(2, 3, 4), dtype=float32) : float32[2, 3, 4]
        %2 = full(1, shape=(2, 3, 4), dtype=float32) : float32[2, 3, 4]
    """

    def stored(base: int, offset: int, out: int) -> str:
        region = f"shape=(2, 4), strides=(12, 1), offset={offset}"
        return f"%{out} = assign(%{base}, %0, {region}) : float32[2, 3, 4]"

    def added(a: int, b: int, out: int) -> str:
        return f"%{out} = add(%{a}, %{b}) : float32[2, 3, 4]"

    def text(*rows: str) -> str:
        return "\n".join([head, *rows])

    becomes(
        passes.join_pieces,
        text(stored(1, 8, 3), stored(1, 0, 4), added(3, 4, 5), stored(1, 4, 6), added(5, 6, 7),
             "return %7"),
        text(stored(1, 8, 3), stored(3, 0, 4), stored(4, 4, 6), "return %6"),
    )  # fmt: skip
    # Pieces that overlap, lie across rows, or lie among ones.
    for base, offset in ((1, 8), (1, 6), (2, 0)):
        given = text(stored(1, 8, 3), stored(base, offset, 4), added(3, 4, 5), "return %5")
        becomes(passes.join_pieces, given, given)


def test_the_gradient_of_parts_takes_one_pass(mode: str) -> None:
    def loss_and_gradient(x: cf.Tensor) -> tuple[cf.Tensor, cf.Tensor]:
        loss = x.sum() * 0.5
        for n, part in enumerate((*x.unbind(0), *x.split(2, dim=1))):
            loss = loss + (part * part * n).sum()
        (gradient,) = cf.autograd.grad(loss, [x])
        return loss.detach(), gradient

    x = cf.randn(7, 12, requires_grad=True)
    compiled = cf.compile(loss_and_gradient)
    for got, want in zip(compiled(x), loss_and_gradient(x)):
        np.testing.assert_allclose(got.numpy(), want.numpy(), rtol=1e-5)
    names = [line.op.name for line in passes.optimize(compiled.tape).lines]
    assert names.count("constant_pad") == 2
    assert names.count("assign") == 7 + 6 - 2


def recorded(seed: int) -> tuple[Tape, dict[Value, Any]]:
    """The tape of a random program, and inputs for it."""
    scope: dict[str, Any] = {}
    exec(generate(seed).source, scope)
    step = cf.compile(scope["step"])
    with compiled_as("interpret"):
        step(*scope["arguments"]())
    found: Tape = step.tape
    rng, given = np.random.default_rng(seed), {}
    for v, role in found.inputs.items():
        spec = found.specs[v]
        if role == "scalar":
            given[v] = int(rng.integers(0, 50))
        elif spec.dtype.is_floating_point:
            given[v] = rng.normal(size=spec.shape).astype(spec.dtype.numpy)
        else:
            given[v] = rng.integers(0, 2, spec.shape).astype(spec.dtype.numpy)
    return found, given


RUNS: dict[str, Callable[[Tape], Tape]] = {
    "eliminate_dead": passes.eliminate_dead,
    "merge_common": passes.merge_common,
    "fold_whole_assignments": passes.fold_whole_assignments,
    "join_pieces": passes.join_pieces,
    "own_results": passes.own_results,
    "optimize": passes.optimize,
}


@pytest.mark.parametrize("name", RUNS)
def test_results_of_random_programs_stay_the_same(name: str) -> None:
    for seed in range(40):
        before, given = recorded(seed)
        want = run_tape(before, given)
        after = RUNS[name](before).verify()
        got = run_tape(after, given)
        pairs = [(after.writes.get(k, k), v) for k, v in before.writes.items()]
        pairs += zip(after.outputs, before.outputs, strict=True)
        for a, b in pairs:
            found = got[a] if a in got else given[a]
            np.testing.assert_array_equal(np.asarray(found), np.asarray(want[b]))


def test_text_of_random_programs_is_read_back() -> None:
    for seed in range(40):
        found, _ = recorded(seed)
        assert Tape.parse(found.text()).verify().text() == found.text()


def test_optimized_programs_run(mode: str) -> None:
    given = tape(
        f"""
        {X}
        %1 = exp(%0) : float32[2, 3]
        %2 = exp(%0) : float32[2, 3]
        %3 = sub(%1, %2) : float32[2, 3]
        %4 = strided(%0, shape=(3, 2), strides=(1, 3), offset=0) : float32[3, 2]
        write %0 = %3
        return %0, %4, %1, %2
        """
    )
    x = np.arange(6, dtype=np.float32)
    old = x.reshape(2, 3).copy()
    same, turned, first, second = load(given).run([x], [])
    np.testing.assert_array_equal(x, 0)
    np.testing.assert_array_equal(same, old)
    np.testing.assert_array_equal(turned, old.T)
    np.testing.assert_allclose(first, np.exp(old), rtol=1e-6)
    np.testing.assert_array_equal(first, second)
    assert not np.shares_memory(first, second)
