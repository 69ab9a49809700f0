"""Objects that will stay are made old; what others have frozen stays frozen, and garbage is found.

Each runs in a process of its own: the tests' own process has frozen what it imported.
"""

from __future__ import annotations

from tests.helpers.scripts import script

RECORDING = """
import gc, weakref
import contraflow as cf
from contraflow import collector, thresholds

class Knot:
    def __init__(self):
        self.itself = self

def record(times):
    for n in range(times):
        cf.compile(lambda x: x * 2 + n)(cf.ones(3))
"""


def _printed(program: str) -> str:
    done = script(RECORDING + program)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_what_a_recording_made_is_old() -> None:
    program = """
record(2)
kept = [[n] for n in range(300)]
collector.keep_young()
print(sum(each is kept[7] for each in gc.get_objects(generation=2)), gc.get_freeze_count() < 5000)
"""
    assert _printed(program) == "1 True"


def test_what_others_have_frozen_stays_frozen_and_is_counted_once() -> None:
    program = """
record(1)
kept = [[n] for n in range(10_000)]
gc.freeze()
frozen = gc.get_freeze_count()
count = gc.get_freeze_count
counted = []
gc.get_freeze_count = lambda: counted.append(1) or count()
record(3)
print(frozen > 10_000, count() > 10_000, len(counted))
"""
    assert _printed(program) == "True True 1"


def test_garbage_among_the_old_is_found() -> None:
    program = """
record(1)
thresholds.unvisited_objects = 2000
knot = weakref.ref(Knot())
collector.make_old()
print(gc.collect(0) == 0 and knot() is not None)
record(20)
print(knot() is None)
"""
    assert _printed(program) == "True\nTrue"


def test_what_an_import_made_is_old() -> None:
    program = """
print(sum(each is cf.ops.__dict__ for each in gc.get_objects(generation=2)), gc.isenabled())
"""
    assert _printed(program) == "1 True"
