"""Lists that keep nothing alive."""

from __future__ import annotations

from contraflow.collector import WeakList


class Thing:
    """Something that can be referred to weakly."""


def test_a_list_has_what_is_alive_in_the_order_of_its_coming() -> None:
    things, known = [Thing() for _ in range(3)], WeakList[Thing]()
    for thing in things:
        known.add(thing)
    assert known.alive() == things
    del things[1], thing
    assert known.alive() == things


def test_what_is_gone_is_left_out_before_it_is_much() -> None:
    kept, known = [Thing() for _ in range(10)], WeakList[Thing]()
    for thing in kept:
        known.add(thing)
    for _ in range(1000):
        known.add(Thing())  # one that is alive while it is added
        assert len(known) <= 64 + 2 * (len(kept) + 1)
    assert known.alive() == kept
