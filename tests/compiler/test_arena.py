"""Where temporaries lie: apart while they live, close together else, in little time."""

from __future__ import annotations

import random

import pytest

from contraflow import thresholds
from contraflow.compiler.arena import Temporary, lay_apart, lay_out


def drawn(count: int, seed: int) -> list[Temporary]:
    """Temporaries of many sizes, short-lived ones and such that wait for a backward pass."""
    draw = random.Random(seed)
    found = []
    for i in range(count):
        born = i // 3
        dies = draw.choice([born, born + draw.randrange(5), 2 * count // 3 - born])
        found.append(Temporary(born, max(born, dies), draw.choice([0, 4, 60, 256, 1000, 4096])))
    return found


def check(temporaries: list[Temporary]) -> int:
    """Bytes of an arena in which no two that live at the same time overlap."""
    offsets, size = lay_out(temporaries, 64)
    placed = [(at, at + t.nbytes, t) for at, t in zip(offsets, temporaries) if t.nbytes]
    assert all(at % 64 == 0 and end <= size for at, end, _ in placed)
    for i, (start, stop, a) in enumerate(placed):
        for begin, end, b in placed[:i]:
            together = a.born <= b.dies and b.born <= a.dies
            assert not (together and start < end and begin < stop), (a, b)
    return size


def needed(temporaries: list[Temporary]) -> int:
    """Bytes that are alive at once."""
    steps = {t.born for t in temporaries}
    sizes = [(t.born, t.dies, -(-t.nbytes // 64) * 64) for t in temporaries]
    return max(sum(n for born, dies, n in sizes if born <= step <= dies) for step in steps)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("many", [0, 1000], ids=["in order", "largest first"])
def test_no_two_that_live_at_the_same_time_overlap(many: int, seed: int) -> None:
    temporaries = drawn(150, seed)
    with thresholds.using(best_fit_values=many):
        size = check(temporaries)
    assert size <= needed(temporaries) * (1.05 if many else 1.4)


def test_nothing_takes_no_room() -> None:
    assert lay_out([], 64) == ([], 0)


def test_memory_that_is_free_again_is_used_again() -> None:
    chain = [Temporary(i, i + 1, 100) for i in range(50)]
    assert lay_out(chain, 64)[1] == 128 + 100
    with thresholds.using(best_fit_values=0):
        assert lay_out(chain, 64)[1] == 128 + 100


@thresholds.using(best_fit_values=0)
def test_a_gap_at_the_top_grows() -> None:
    offsets, size = lay_out([Temporary(0, 0, 64), Temporary(1, 1, 640)], 64)
    assert (offsets, size) == ([0, 0], 640)


@pytest.mark.parametrize("seed", range(4))
def test_arenas_hold_one_at_a_time(seed: int) -> None:
    temporaries = drawn(150, seed)
    numbers, sizes = lay_apart(temporaries)
    for i, (a, number) in enumerate(zip(temporaries, numbers)):
        assert a.nbytes <= sizes[number]
        for b, other in zip(temporaries[:i], numbers):
            assert number != other or a.dies < b.born or b.dies < a.born
    most = max(sum(t.born <= step <= t.dies for t in temporaries) for step in range(60))
    assert len(sizes) == most  # no more arenas than live at once
    assert sum(sizes) < sum(t.nbytes for t in temporaries) * 0.75
