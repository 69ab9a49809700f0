"""Nested containers: what is taken apart is put together again."""

from __future__ import annotations

import dataclasses
from collections import Counter, OrderedDict, defaultdict, deque, namedtuple
from types import MappingProxyType
from typing import Any

import numpy as np
import pytest

import contraflow as cf
from contraflow.capture.state.trees import builder, flatten, leaf_names, markers, rebuild
from contraflow.tensors.tree import bare, fill, leaves_of, like, map_leaves, parts

Pair = namedtuple("Pair", "a b")


@dataclasses.dataclass
class Point:
    """With a field that `__init__` does not take."""

    x: Any
    y: Any = dataclasses.field(init=False, default_factory=int)


@dataclasses.dataclass(frozen=True)
class Fixed:
    x: Any


class Named(list[Any]):
    """A list whose `__init__` takes something else."""

    def __init__(self, name: str, *items: Any) -> None:
        super().__init__(items)
        self.name = name


class Lists(defaultdict[Any, Any]):
    """A defaultdict whose `__init__` takes nothing."""

    def __init__(self) -> None:
        super().__init__(list)


def lists(**items: Any) -> Lists:
    made = Lists()
    made.update(items)
    return made


class Loud(OrderedDict[Any, Any]):
    """A dict whose own code must not run, except for who makes it."""

    quiet = True

    def __setitem__(self, key: Any, value: Any) -> None:
        assert not Loud.quiet
        super().__setitem__(key, value)


def loud(**items: Any) -> Loud:
    Loud.quiet = False
    try:
        return Loud(items)
    finally:
        Loud.quiet = True


CONTAINERS: dict[str, Any] = {
    "tuple": (1, (2, [3])), "list": [1, {"a": 2}], "dict": {"b": 1, "a": 2}, "named": Pair(1, 2),
    "ordered": OrderedDict(b=1, a=2), "default": defaultdict(list, b=1, a=[2]),
    "lists": lists(b=[1], a=2), "dataclass": Point([1]), "frozen": Fixed(1),
    "nothing": [(), {}, []],
}  # fmt: skip
CAPTURED: dict[str, Any] = {
    **CONTAINERS, "deque": deque([1, 2], 3), "set": {1}, "slice": slice(1, None, 2),
    "subclass": Named("n", 1, 2.5), "loud": loud(b=1, a=2), "counter": Counter(a=2),
    "keys": {(1, "x"): 1, None: 2}, "text": ["text", None, 1],
}  # fmt: skip


def same(a: Any, b: Any) -> None:
    assert type(a) is type(b)
    assert getattr(a, "__dict__", None) == getattr(b, "__dict__", None)
    assert a == b
    if isinstance(a, dict):
        assert list(a) == list(b)
    if isinstance(a, defaultdict):
        assert a.default_factory is b.default_factory
    if isinstance(a, deque):
        assert a.maxlen == b.maxlen


@pytest.mark.parametrize("name", CONTAINERS)
def test_containers_are_made_again(name: str) -> None:
    x = CONTAINERS[name]
    same(map_leaves(lambda v: v, x), x)
    same(fill(x, leaves_of(x)), x)
    inside = parts(x)
    assert inside is not None
    same(like(x, [value for _, value in inside]), x)


@pytest.mark.parametrize("x", [1, "text", None, {1}, deque([1]), MappingProxyType({}), Point])
def test_everything_else_is_a_leaf(x: Any) -> None:
    assert parts(x) is None
    assert leaves_of(x) == [x]


@pytest.mark.parametrize("name", CAPTURED)
def test_a_structure_gives_what_it_was_made_of(name: str) -> None:
    x, leaves = CAPTURED[name], []
    structure = flatten(x, leaves)
    same(rebuild(structure, iter(leaves)), x)
    same(builder(structure)(leaves), x)
    assert len(markers(structure)) == len(leaves)
    assert hash(structure) == hash(flatten(x, []))
    again = flatten(x, found := [], weak=True) if name != "set" else None
    if name not in ("set", "subclass"):  # whose attributes are no part of a key
        same(rebuild(again, iter(found)), x)


def test_leaves_have_names() -> None:
    x = {"a": [1, Point(2.5)], 3: Pair(1, "text")}
    assert [*leaf_names(flatten(x, []), "x")] == [
        "x['a'][0]",
        "x['a'][1].x",
        "x['a'][1].y",
        "x[3][0]",
    ]


def test_the_order_of_a_dict_is_part_of_its_structure() -> None:
    assert flatten({"a": 1, "b": 2}, []) != flatten({"b": 2, "a": 1}, [])


def test_code_of_a_class_does_not_run() -> None:
    made = bare(Loud, [("a", 1)])
    assert type(made) is Loud
    assert list(made.items()) == [("a", 1)]
    assert bare(Named, [1, 2]) == [1, 2]


def test_results_in_containers_of_classes_keep_their_attributes() -> None:
    @cf.compile
    def f(x: cf.Tensor) -> Named:
        found = Named("double", x * 2)
        found.total = found[0].sum()  # type: ignore[attr-defined]
        found.whole = found[0]  # type: ignore[attr-defined]
        return found

    for n in range(1, 5):
        found: Any = f(cf.full((3,), float(n)))
        assert type(found) is Named
        assert found.name == "double"
        assert (found[0].tolist(), found.total.item()) == ([2.0 * n] * 3, 6.0 * n)
        assert found.whole is found[0]
    assert f.captures == 1


def test_samples_keep_their_mappings() -> None:
    samples = [defaultdict(int, a=1), defaultdict(int, a=2)]
    batch = cf.data.default_collate(samples)
    assert type(batch) is defaultdict
    assert batch.default_factory is int
    assert batch["a"].tolist() == [1, 2]
    kept = MappingProxyType({"a": np.ones(2), "b": (1, np.zeros(1))})
    converted = cf.data.default_convert(kept)
    assert type(converted) is MappingProxyType
    assert converted["a"].tolist() == [1.0, 1.0]
    assert type(converted["b"]) is list
    assert converted["b"][1].tolist() == [0.0]
    point = Point(np.ones(2))
    assert cf.data.default_convert(point) is point


def test_checkpoints_hand_over_the_same_containers() -> None:
    seen = []

    def f(given: Any) -> cf.Tensor:
        seen.append(type(given))
        return given["x"] * given["x"]

    given = defaultdict(list, x=cf.ones(2, requires_grad=True))
    cf.checkpoint(f, given).sum().backward()
    assert seen == [defaultdict, defaultdict]
