"""What guards cost in a call that hits, counted as work: `benchmarks/guards.py` has the times."""

from __future__ import annotations

import dis
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from benchmarks import guards
from tests.helpers.hits import python_calls, warmed

import contraflow as cf

X = cf.ones(3)


def reading(read: Callable[[Any], None], state: Any) -> Any:
    """A compiled function that reads some state, after calls enough for a hit."""

    def add(x: cf.Tensor) -> cf.Tensor:
        read(state)
        return x + 1

    return warmed(add, X)


def instructions(compiled: Any) -> int:
    """How many instructions of bytecode the function of a hit has."""
    return len(list(dis.get_instructions(compiled._hit)))


def read_to(count: int) -> Callable[[Any], None]:
    def read(items: dict[int, float]) -> None:
        for i in range(count):
            items[i]

    return read


def test_each_item_of_a_dict_is_a_few_instructions() -> None:
    items = {i: i * 0.5 for i in range(guards.READS)}
    ten, twenty, many = (instructions(reading(read_to(n), items)) for n in (10, 20, guards.READS))
    assert twenty - ten <= 10 * 20
    # The thousandth costs as much as the first: names of a long function need one prefix more.
    assert many - twenty <= (guards.READS - 20) * 28


STATE = {
    "items": (guards.items_by_number, lambda: {i: i * 0.5 for i in range(guards.READS)}),
    "items and keys": (guards.items_by_key, lambda: {i: i * 0.5 for i in range(guards.READS)}),
    "objects": (guards.attributes, lambda: [guards.Item(i * 0.5) for i in range(guards.READS)]),
    "texts": (guards.items_by_number, lambda: {i: f"text {i}" for i in range(guards.READS)}),
    "a whole list": (sum, lambda: [i * 0.5 for i in range(guards.READS)]),
}


@pytest.mark.parametrize("what", STATE)
def test_no_read_calls_python(what: str) -> None:
    """A thousand of them enter the functions of Python that a few for the container do."""
    read, make = STATE[what]
    compiled, bare = reading(read, make()), reading(guards.nothing, make())
    entered, other = (python_calls(lambda f=f: f(X)) for f in (compiled, bare))
    assert len(entered) <= len(other) + 12, entered
    assert compiled.captures == 1


@pytest.mark.slow
@pytest.mark.parametrize("what", ["items", "objects"])
def test_a_thousand_reads_take_less_than_100_us(what: str) -> None:
    """The best of many calls, which other processes do not disturb."""
    read, make = STATE[what]
    compiled, bare = reading(read, make()), reading(guards.nothing, make())

    def best(f: Any) -> float:
        found = []
        for _ in range(3000):
            start = time.perf_counter()
            f(X)
            found.append(time.perf_counter() - start)
        return min(found)

    assert best(compiled) - best(bare) < 100e-6


@pytest.mark.slow
def test_ten_items_of_a_dict_are_less_than_3_percent_of_a_small_step() -> None:
    """The best of many calls in turns, which other processes do not disturb."""
    functions = [
        guards.training("small", "Adam", read) for read in (guards.no_items, guards.ten_items)
    ]
    best = [1.0, 1.0]
    for turn in range(20_000):
        number = turn // 10 % 2
        start = time.perf_counter()
        functions[number]()
        if turn % 10:
            best[number] = min(best[number], time.perf_counter() - start)
    assert best[1] < 1.03 * best[0], best


# --- what is compared by address first -----------------------------------------------------------


class Scale:
    def __init__(self, value: float) -> None:
        self.value = value

    def get(self) -> float:
        return self.value


def record(value: float) -> Any:
    return np.array([(value,)], dtype=[("scale", "f8")])[0]


SCALES = [Scale(2.0), Scale(3.0)]
Case = tuple[Any, Callable[[Any], Any], Callable[[Any], Any]]
ELEMENTS: dict[str, Case] = {  # state, what changes it, and a number that is computed of it
    "a number of the same value": ([1e9, 2.0], lambda x: x.insert(0, x.pop(0) * 1.0), sum),
    "a number of another value": ([1e9, 2.0], lambda x: x.insert(0, x.pop(0) * 0.5), sum),
    "a zero of another sign": ([0.0], lambda x: x.insert(0, -x.pop()), lambda x: len(str(x))),
    "another object": (list(SCALES), lambda x: x.reverse(), lambda x: x.index(SCALES[0]) + 1),
    "a bound method": (
        [SCALES[0].get, SCALES[1].get],
        lambda x: x.insert(0, SCALES[1].get),
        lambda x: sum(get() for get in x),
    ),
    "a record": (
        [record(2.0)],
        lambda x: x[0].__setitem__("scale", 3.0),
        lambda x: len(str(x)) + max(x, key=str)["scale"],
    ),
    "a record in a tuple": (
        [(record(2.0),)],
        lambda x: x[0][0].__setitem__("scale", 3.0),
        lambda x: max(x, key=str)[0]["scale"],
    ),
    "a list": ([[2.0]], lambda x: x[0].append(3.0), lambda x: sum(map(sum, x))),
    "a key": ({"a": 2, "b": 1}, lambda x: x.update(c=x.pop("a")), lambda x: list(x).index("b")),
}


@pytest.mark.parametrize("what", ELEMENTS)
def test_what_has_changed_is_noticed(what: str) -> None:
    state, change, value = ELEMENTS[what]

    @cf.compile
    def f(x: cf.Tensor) -> cf.Tensor:
        return x * value(state)

    for _ in range(3):
        assert f(X).tolist() == f.eager(X).tolist()
    change(state)
    for _ in range(3):
        assert f(X).tolist() == f.eager(X).tolist()
