"""Random programs that keep Python state everywhere: eager against compiled, and PyTorch beside."""

from __future__ import annotations

import collections
import contextvars
import functools
import itertools
from collections.abc import Iterator
from typing import Any

import pytest
from tests.helpers.state_programs import Program, program
from tests.helpers.state_verdicts import Failure, calls, check, in_float64
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
def test_many_programs(first: int, record_property: Any) -> None:
    ends = collections.Counter(check(seed) for seed in range(first, first + 100))
    record_property("programs", dict(ends))
    assert ends["agrees"] + ends["refused"] == 100
    assert ends["agrees"] >= 80, "of the 5,000 from here on 4,691 agree, and 309 are to be refused"


# --- beside PyTorch ------------------------------------------------------------------------------


def results(made: Program, compiler: Any, library: Any) -> list[Notes]:
    """The results of every call of a program."""

    def run() -> list[Notes]:
        found = calls(made, compiler, library)
        return [[note for note in seen if note[0].startswith("result")] for _, seen, _ in found]

    return contextvars.copy_context().run(run)


def stays(found: list[Notes], expected: list[Notes]) -> bool:
    return all(difference(a, b) is None for a, b in zip(found, expected))


@functools.cache
def common_seeds() -> list[int]:
    """The seeds of the first programs that PyTorch runs too."""
    made = (program(seed) for seed in itertools.count())
    common = (one.seed for one in made if one.common and not one.refused)
    return [*itertools.islice(common, 300)]


def test_three_hundred_programs_run_with_pytorch_too() -> None:
    seeds = common_seeds()
    assert len(seeds) == len(set(seeds)) == 300
    assert len({program(seed).source for seed in seeds}) == 300


@pytest.fixture
def in_both() -> Iterator[None]:
    """Programs compute in float64 in both libraries."""
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    with in_float64():
        yield
    torch.set_default_dtype(before)


@pytest.mark.peers
@pytest.mark.skipif(torch is None, reason="needs PyTorch, which `make peers` installs")
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("first", range(0, 300, 30))
def test_beside_torch_compile(first: int, in_both: None, record_property: Any) -> None:
    """The same text with PyTorch: its eager results are ours; torch.compile is counted beside."""
    followed = 0
    for one in map(program, common_seeds()[first : first + 30]):
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
