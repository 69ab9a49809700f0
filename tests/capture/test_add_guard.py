"""A new guard is a class with both faces and the method of the observer that adds it."""

from __future__ import annotations

from typing import Any

import pytest
from tests.compiler.test_add_rule import modules_naming

import contraflow as cf
from contraflow.capture.hit import MISS, misses
from contraflow.capture.observing.containers import Containers
from contraflow.capture.state import reads
from contraflow.capture.state.places import ConditionWriter, Place
from contraflow.capture.state.reads import Read

asked: list[str] = []  # which face was asked


class Parity(Read):
    """Whether the length of a container is even, for functions that depend on nothing else."""

    __slots__ = ("odd",)

    def __init__(self, place: Place, length: int) -> None:
        super().__init__(place)
        self.odd = length % 2

    def fits(self, value: Any) -> bool:
        asked.append("the long way")
        return len(value) % 2 == self.odd

    def source(self, writer: ConditionWriter) -> str:
        note = writer.name(asked.append)
        return f"({note}('a hit') or len({writer.place(self.place)}) % 2 == {self.odd})"

    def was(self) -> str:
        return ("even", "odd")[self.odd]

    def now(self, value: Any) -> str:
        return ("even", "odd")[len(value) % 2]


sizes = [1, 2]


@cf.compile
def scaled(x: cf.Tensor) -> cf.Tensor:
    return x * (2.0 if len(sizes) % 2 == 0 else 3.0)


@pytest.mark.filterwarnings("ignore:.*was not observed")  # the method that is put in its place
def test_a_guard_is_added_at_run_time(monkeypatch: pytest.MonkeyPatch) -> None:
    def length(self: Any, x: Any) -> None:
        if x is sizes:
            self._add(("length", id(x)), Parity(self.place_of(x), len(x)))

    monkeypatch.setattr(Containers, "length", length)
    x = cf.ones(2)
    assert scaled(x).tolist() == [2.0, 2.0]
    assert "sizes" in next(row for row in scaled.explain().splitlines() if "guards" in row)

    asked.clear()
    scaled(x)
    assert set(asked) == {"the long way"}
    assert scaled._hit is not misses
    asked.clear()
    scaled(x)
    assert asked == ["a hit"]

    sizes.extend((3, 4))  # another length, as even as before
    asked.clear()
    assert scaled(x).tolist() == [2.0, 2.0]
    assert (asked, scaled.captures) == (["a hit"], 1)

    sizes.append(5)
    assert scaled._hit((x,)) is MISS
    assert scaled(x).tolist() == [3.0, 3.0]
    assert scaled.captures == 2
    assert scaled.changes == ["sizes was even and is odd"]
    assert "recorded again: sizes was even and is odd" in scaled.explain()


# Conditions that several sorts of reads come to, so that more than one link of the observer adds
# them. `Equal` and `Same` are those of plain values; what stays a number may become an input.
OBSERVING = "capture/observing/"
ADDED_BY_SEVERAL = {
    "Equal": ["capture/findings.py", f"{OBSERVING}sight.py", "capture/state/guards.py"],
    "Same": [
        "capture/findings.py", f"{OBSERVING}showing.py", f"{OBSERVING}sight.py",
        "capture/state/guards.py",
    ],
    "Names": [f"{OBSERVING}{link}.py" for link in ("attributes", "changes", "containers")],
    "Lacks": [f"{OBSERVING}{link}.py" for link in ("attributes", "containers", "sight")],
    "Sized": [f"{OBSERVING}{link}.py" for link in ("containers", "observer", "showing")],
    "Member": [f"{OBSERVING}{link}.py" for link in ("containers", "stores")],
    "Together": [f"{OBSERVING}{link}.py" for link in ("containers", "sight")],
}  # fmt: skip
GUARDS = {
    kind.__name__: kind
    for kind in vars(reads).values()
    if isinstance(kind, type)
    and issubclass(kind, Read)
    and not any(derived.__module__ == reads.__name__ for derived in kind.__subclasses__())
}


@pytest.mark.parametrize("name", sorted({*GUARDS, "Same"}))
def test_a_guard_touches_two_modules(name: str) -> None:
    """The one that has the class, and the link of the observer that adds it."""
    modules = modules_naming(name)
    found = [m for m in modules if m.startswith("capture/") and m != "capture/state/reads.py"]
    if name in ADDED_BY_SEVERAL:
        assert found == ADDED_BY_SEVERAL[name]
    else:
        assert len(found) == 1
        assert found[0].startswith(OBSERVING)
    assert set(modules) - set(found) <= {"capture/state/reads.py", "data/samplers.py"}
