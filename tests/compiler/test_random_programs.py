"""Random training steps: eager against the interpreter, the plan over NumPy, and native code.

The interpreter must agree bit for bit with eager over NumPy, so a difference there is one of
capture. The plan run by NumPy has fusion and memory planning but no generated code, and again with
arithmetic that is not exact (`Limits.exact`); a difference in
native alone is one of code generation, and in eager alone one of when it takes which kernel. A
failure prints the seed and the program, which runs as it stands.
"""

from __future__ import annotations

import pytest
from tests.helpers.program_runs import differences, nudged, run
from tests.helpers.random_programs import generate

SEEDS_EACH = 10


def check(seed: int, *modes: str) -> None:
    program = generate(seed)
    expected = run(program, "numpy")
    for mode in modes:
        try:
            problems = differences(program, run(program, mode), expected, mode == "interpret")
        except Exception as error:
            raise AssertionError(f"seed {seed}, {mode}:\n\n{program.source}\n") from error
        if problems and mode != "interpret":
            # A step that magnifies the last bit of a parameter so far tells nothing of a mode.
            chaotic = differences(program, run(nudged(program), "numpy"), expected)
            named = {problem.split(": off")[0] for problem in chaotic}
            problems = [problem for problem in problems if problem.split(": off")[0] not in named]
        if problems:
            listed = "\n".join(problems)
            raise AssertionError(f"seed {seed}, {mode}:\n{listed}\n\n{program.source}\n")


@pytest.mark.parametrize("first", range(0, 200, SEEDS_EACH))
def test_interpreted_and_planned(first: int) -> None:
    for seed in range(first, first + SEEDS_EACH):
        check(seed, "eager", "interpret", "plan")


@pytest.mark.parametrize("first", range(0, 200, SEEDS_EACH))
def test_inexact(first: int) -> None:
    for seed in range(first, first + SEEDS_EACH):
        check(seed, "inexact")


@pytest.mark.parametrize("first", range(0, 60, SEEDS_EACH))
def test_native(first: int) -> None:
    for seed in range(first, first + SEEDS_EACH):
        check(seed, "threads" if seed % 2 else "native")


@pytest.mark.slow
@pytest.mark.parametrize("first", range(300, 4000, 100))
def test_many(first: int) -> None:
    for seed in range(first, first + 100):
        check(seed, "eager", "interpret", "plan", "inexact")


@pytest.mark.slow
@pytest.mark.parametrize("first", range(0, 10_000, 50))
def test_many_native(first: int) -> None:
    for seed in range(first, first + 50):
        check(seed, "threads" if seed % 2 else "native")
