"""Compiled functions take and give objects and dicts of every kind as eager ones do."""

from __future__ import annotations

import collections
import dataclasses
import enum
import gc
import types
import weakref
from typing import Any

import pytest

import contraflow as cf
from contraflow.testing import assert_close


class Slots:
    __slots__ = ("value", "unset")


class Both(Slots):
    pass


class Equal:
    """An object that cannot be hashed."""

    def __init__(self, n: float) -> None:
        self.n = n

    def __eq__(self, other: object) -> bool:
        return True

    def apply(self, x: Any) -> Any:
        return x * self.n


class Level(enum.IntEnum):
    LOW = 1


def slots(x: Any) -> Any:
    made = Slots()
    made.value = x * 2
    return made


def both(x: Any) -> Any:
    made: Any = Both()
    made.value, made.other = x * 2, x * 3
    return made


def seen(x: Any) -> Any:
    """What can be seen of a result, in which tensors are lists."""
    if isinstance(x, cf.Tensor):
        return x.tolist()
    if isinstance(x, enum.Enum):
        return x
    if isinstance(x, (dict, collections.UserDict)):
        return type(x), [(type(k), seen(k), seen(v)) for k, v in x.items()]
    if isinstance(x, (list, tuple, collections.UserList)):
        return type(x), [seen(item) for item in x]
    names = [*getattr(x, "__dict__", ()), *(n for n in ("value", "unset") if hasattr(x, n))]
    return (type(x), [(n, seen(getattr(x, n))) for n in names]) if names else x


RESULTS = {
    "slots": slots,
    "slots and a dict": both,
    "namespace": lambda x: types.SimpleNamespace(a=x * 2, n=3),
    "UserDict": lambda x: collections.UserDict(a=x * 2, n=3),
    "UserList": lambda x: collections.UserList([x * 2, 3]),
    "argument as a key": lambda x: {x: 1, "a": x * 2},
    "new tensor as a key": lambda x: {x * 2: x * 3},
    "tensor in a tuple that is a key": lambda x: {(x, 1): 2},
    "keys of many kinds": lambda x: ({1: x}, {True: x}, {1.5: x}, {None: x}, {(1, 2): x}),
    "key of an enumeration": lambda x: {Level.LOW: x * 2},
    "keys of other dicts": lambda x: (
        collections.OrderedDict({2.5: x * 2}),
        collections.defaultdict(list, {True: x}),
    ),
}


@pytest.mark.parametrize("name", RESULTS)
def test_results(name: str) -> None:
    function = RESULTS[name]
    compiled = cf.compile(function)
    for k in range(4):
        x = cf.tensor([1.0, k])
        assert seen(compiled(x)) == seen(function(x))
    assert compiled.captures == 1


def test_an_argument_that_is_returned_as_a_key_is_itself() -> None:
    function = cf.compile(lambda x: {x: 1})
    for _ in range(3):
        x = cf.ones(2)
        (key,) = function(x)
        assert key is x


def test_tensors_as_keys_of_an_argument_are_arguments() -> None:
    @cf.compile
    def f(table: dict[Any, cf.Tensor]) -> Any:
        total = sum(key * value for key, value in table.items() if isinstance(key, cf.Tensor))
        total += sum(key[0] * value for key, value in table.items() if isinstance(key, tuple))
        return total, {key: value * 2 for key, value in table.items()}

    for k in range(4):  # each time with other tensors
        first, second = cf.ones(2) * k, cf.ones(2) * 3
        table = {first: cf.ones(2) * 5, (second, "b"): cf.ones(2) * k}
        total, doubled = f(table)
        assert total.tolist() == [8.0 * k] * 2
        assert list(doubled) == list(table)
        assert doubled[first].tolist() == [10.0, 10.0]
    assert f.captures == 1


@pytest.mark.parametrize("how", ["pop", "del", "set"])
def test_items_under_tensors_of_the_call_are_not_changed(how: str) -> None:
    @cf.compile
    def f(table: dict[cf.Tensor, cf.Tensor]) -> None:
        for key in list(table):
            if how == "pop":
                table.pop(key)
            elif how == "del":
                del table[key]
            else:
                table[key] = table[key] * 2

    table = {cf.ones(2): cf.ones(2)}
    with pytest.raises(cf.CaptureError, match=r"a tensor of this call is the key of an item that"):
        f(table)
    assert [value.tolist() for value in table.values()] == [[1.0, 1.0]]


def test_keys_of_an_argument_are_told_apart() -> None:
    def function(table: Any) -> Any:
        (key,) = table
        return table[key] * len(repr(key))

    compiled = cf.compile(function)
    for key in (1, 1.0, True, Level.LOW, 1, None, (1, True), (1, 1)):
        table = {key: cf.ones(2)}
        assert compiled(table).tolist() == function(table).tolist()


def test_tensors_as_keys_of_an_argument() -> None:
    compiled = cf.compile(lambda table: sum(k * v for k, v in table.items()))
    for k in range(4):
        assert compiled({cf.ones(2) * k: 3.0}).tolist() == [3.0 * k] * 2


def test_the_attributes_of_an_argument_by_vars() -> None:
    def f(x: Any, n: Any) -> Any:
        for value in vars(n).values():
            x = x * value
        vars(n)["kept"] = x * 2
        return x + vars(n)["scale"]

    compiled = cf.compile(f)
    for scale in (2.0, 3.0, 4.0, 5.0):
        ours, theirs = (
            types.SimpleNamespace(scale=scale, w=cf.full((2,), scale + 1)) for _ in range(2)
        )
        assert_close(compiled(cf.ones(2), ours), f(cf.ones(2), theirs))
        assert_close(ours.kept, theirs.kept)
    assert compiled.captures <= 2


def test_a_namespace_as_an_argument() -> None:
    def function(o: Any) -> Any:
        o.h = o.inner.x * o.n
        o.n += 1
        return o.h * 2

    compiled = cf.compile(function)
    for f in (function, compiled):
        o = types.SimpleNamespace(inner=types.SimpleNamespace(x=cf.ones(2)), n=1)
        found = [(f(o).tolist(), o.h.tolist(), o.n) for _ in range(4)]
        assert found == [([2.0 * n] * 2, [1.0 * n] * 2, n + 1) for n in range(1, 5)]
    assert compiled.captures <= 2


def test_containers_of_the_standard_library_as_arguments() -> None:
    def function(table: Any, items: Any) -> Any:
        return table["x"] * table["n"] * len(items) + items[0]

    compiled = cf.compile(function)
    table, items = collections.UserDict(x=cf.ones(2), n=1), collections.UserList([1.0])

    def same() -> None:
        for _ in range(3):
            assert compiled(table, items).tolist() == function(table, items).tolist()

    same()
    table["n"] = 2
    same()
    table["x"] = cf.zeros(2)
    same()
    items.append(2.0)
    same()
    items[0] = 3.0
    same()


def test_a_method_of_an_object_that_cannot_be_hashed() -> None:
    class Own(Equal):
        apply = cf.compile(Equal.apply)

    a, b, x = Own(2.0), Own(3.0), cf.ones(2)
    for _ in range(2):
        assert (a.apply(x).tolist(), b.apply(x).tolist()) == ([2.0] * 2, [3.0] * 2)
    a.n = 5.0
    assert a.apply(x).tolist() == [5.0] * 2


def test_an_argument_that_cannot_be_hashed_is_not_kept() -> None:
    function = cf.compile(lambda o, x: x * o.n)
    a, b, x = Equal(2.0), Equal(3.0), cf.ones(2)
    assert function(a, x).tolist() == [2.0] * 2
    assert function(b, x).tolist() == [3.0] * 2
    gone = weakref.ref(a)
    del a
    gc.collect()
    assert gone() is None
    assert function(Equal(4.0), x).tolist() == [4.0] * 2


@dataclasses.dataclass(slots=True)
class Batch:
    x: cf.Tensor
    scale: float = 1.0


@dataclasses.dataclass
class OpenBatch:
    x: cf.Tensor
    scale: float = 1.0


@pytest.mark.parametrize("kind", [Batch, OpenBatch])
def test_dataclasses_as_arguments_are_recorded_once(kind: Any) -> None:
    @cf.compile
    def f(batch: Any) -> Any:
        return dataclasses.replace(batch, x=batch.x * batch.scale, scale=batch.scale + 1)

    for k in (2.0, 3.0, 4.0):
        found = f(kind(cf.ones(1), k))
        assert (type(found), found.x.item(), found.scale) == (kind, k, k + 1)
    assert f.captures == 1
