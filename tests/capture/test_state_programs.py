"""Random programs that keep Python state everywhere: eager against compiled, and PyTorch beside."""

from __future__ import annotations

import collections
import contextvars
from collections.abc import Iterator
from typing import Any

import pytest
from tests.helpers.state_programs import Program, program
from tests.helpers.state_verdicts import Failure, calls, check
from tests.helpers.state_worlds import Notes, difference

import contraflow as cf
from contraflow import config

try:
    import torch
except ImportError:
    torch = None


@pytest.fixture(autouse=True)
def mode(request: pytest.FixtureRequest) -> Iterator[None]:
    before = config.compile_mode
    config.compile_mode = getattr(request, "param", "interpret")
    yield
    config.compile_mode = before


@pytest.mark.parametrize("first", range(0, 200, 20))
def test_programs(first: int) -> None:
    ends = collections.Counter(check(seed) for seed in range(first, first + 20))
    assert ends["agrees"] >= 10


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["interpret", "native"], indirect=True)
@pytest.mark.parametrize("first", range(200, 5200, 100))
def test_many_programs(first: int) -> None:
    for seed in range(first, first + 100):
        check(seed)


# --- beside PyTorch ------------------------------------------------------------------------------


def results(made: Program, compiler: Any, library: Any) -> list[Notes]:
    """The results of every call of a program."""

    def run() -> list[Notes]:
        found = calls(made, compiler, library)
        return [[note for note in seen if note[0].startswith("result")] for _, seen, _ in found]

    return contextvars.copy_context().run(run)


def stays(found: list[Notes], expected: list[Notes]) -> bool:
    return all(difference(a, b) is None for a, b in zip(found, expected))


@pytest.mark.peers
@pytest.mark.skipif(torch is None, reason="needs PyTorch, which `make peers` installs")
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("first", range(0, 300, 30))
def test_beside_torch_compile(first: int, record_property: Any) -> None:
    """The same text with PyTorch: its eager results are ours; torch.compile is counted beside."""
    made = (program(seed) for seed in range(first * 2, 10**6))
    common = (one for one in made if one.common and not one.refused)
    followed = 0
    for _, one in zip(range(30), common):
        expected = results(one, None, torch)
        if not stays(results(one, cf.compile, cf), expected):
            raise Failure(f"program {one.seed} is not what PyTorch computes eagerly\n{one.source}")
        torch._dynamo.reset()
        try:
            followed += stays(
                results(one, lambda f: torch.compile(f, backend="eager"), torch), expected
            )
        except Exception:  # an error of torch.compile is not a result either
            continue
    record_property("followed by torch.compile", f"{followed} of 30")
    assert followed >= 15
