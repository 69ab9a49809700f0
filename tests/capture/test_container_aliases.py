"""Containers that two arguments, an argument and state, or two places of state hold together."""

from __future__ import annotations

import types
from collections import OrderedDict, deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pytest

import contraflow as cf
from contraflow import config

Compile = Callable[[Any], Any]
Scene = Callable[[Compile], Iterator[Any]]
SCENES: dict[str, Scene] = {}


def scene(function: Scene) -> Scene:
    """Declare a generator of what is seen of a function, compiled or not, call by call."""
    SCENES[function.__name__] = function
    return function


@pytest.fixture(params=["interpret", "native"], autouse=True)
def mode(request: pytest.FixtureRequest) -> Iterator[None]:
    before = config.compile_mode
    config.compile_mode = request.param
    yield
    config.compile_mode = before


def one(value: float = 1.0) -> Any:
    return cf.full((1,), value)


@dataclass
class Count:
    n: float = 0.0


# --- two arguments -------------------------------------------------------------------------------


@scene
def a_dict_is_two_arguments(compiled: Compile) -> Iterator[Any]:
    def f(x: Any, a: Any, b: Any) -> Any:
        a["k"] = a["k"] + 1
        return x * b["k"]

    f, d = compiled(f), {"k": 1.0}
    for a, b in ((d, d), (d, d), ({"k": 1.0}, {"k": 1.0}), (d, d), (d, {"k": 5.0})):
        yield f(one(), a, b).item(), a, b


@scene
def identity_of_arguments(compiled: Compile) -> Iterator[Any]:
    f, d = compiled(lambda x, a, b: x * 2 if a is b else x * 3), {"k": 1.0}
    for a, b in ((d, d), ({"k": 1.0}, {"k": 1.0}), (d, d)):
        yield f(one(), a, b).item()


@scene
def a_row_twice_in_a_list(compiled: Compile) -> Iterator[Any]:
    def f(x: Any, grid: Any) -> Any:
        grid[0][0] = 5.0
        return x * grid[1][0]

    f = compiled(f)
    for grid in ([[0.0]] * 2, [[0.0], [1.0]], [[0.0]] * 2):
        yield f(one(), grid).item(), grid


@scene
def a_dataclass_is_two_arguments(compiled: Compile) -> Iterator[Any]:
    def f(x: Any, a: Any, b: Any) -> Any:
        a.n += 1
        b.n += 1
        return x * a.n

    f, s = compiled(f), Count()
    for a, b in ((s, s), (s, s), (Count(), Count()), (s, Count())):
        yield f(one(), a, b).item(), a.n, b.n


@scene
def a_list_of_tensors_is_two_arguments(compiled: Compile) -> Iterator[Any]:
    def f(x: Any, a: Any, b: Any) -> Any:
        a.append(x * 2)
        return b[-1] * len(b)

    f, t = compiled(f), one(3.0)
    for twice in (False, True, False, True):
        a = [t]
        yield f(one(), a, a if twice else [t]).item(), len(a)


@scene
def a_list_at_two_depths_of_an_argument(compiled: Compile) -> Iterator[Any]:
    def f(x: Any, model: Any) -> Any:
        model["a"]["row"][0] += 1
        return x * model["b"][0] + sum(model["b"])

    f, row = compiled(f), [1.0, 2.0]
    for a, b in ((row, row), (row, row), ([1.0, 2.0], [1.0, 2.0])):
        yield f(one(), {"a": {"row": a}, "b": b}).item(), a


@scene
def a_list_twice_in_a_tuple(compiled: Compile) -> Iterator[Any]:
    def f(x: Any, pair: Any) -> Any:
        pair[0].append(3.0)
        return x * len(pair[1])

    f, row = compiled(f), [1.0, 2.0]
    for pair in ((row, row), (row, row), ([1.0], [1.0])):
        yield f(one(), pair).item()


# --- an argument and state -----------------------------------------------------------------------


@scene
def an_argument_is_an_attribute(compiled: Compile) -> Iterator[Any]:
    def f(x: Any, d: Any) -> Any:
        d["k"] = d["k"] * 2
        return x * state.buffer["k"]

    f, state = compiled(f), types.SimpleNamespace(buffer={"k": 1.0})
    for given in (state.buffer, state.buffer, state.buffer, {"k": 7.0}, state.buffer, {"k": 7.0}):
        yield f(one(), given).item(), given, state.buffer


@scene
def a_named_argument_is_a_variable(compiled: Compile) -> Iterator[Any]:
    config = {"k": 1.0}

    def f(x: Any, *, given: Any) -> Any:
        config["k"] += 1
        return x * given["k"]

    f = compiled(f)
    for given in (config, config, config, {"k": 9.0}, config):
        yield f(one(), given=given).item(), config


@scene
def a_list_of_tensors_is_an_argument_and_a_variable(compiled: Compile) -> Iterator[Any]:
    kept = [one(2.0)]

    def f(x: Any, values: Any) -> Any:
        values.append(x)
        return x * len(kept) + kept[0]

    f = compiled(f)
    for values in (kept, kept, kept, [one()], kept):
        yield f(one(), values).item(), len(kept)


@scene
def a_dict_of_tensors_is_an_argument_and_an_attribute(compiled: Compile) -> Iterator[Any]:
    state = types.SimpleNamespace(cache={"w": one(3.0)})

    def f(x: Any, d: Any) -> Any:
        d["w"] = x * 5
        return state.cache["w"] * 2

    f = compiled(f)
    for given in (state.cache, state.cache, {"w": one()}):
        yield f(one(), given).item(), state.cache["w"].item()


@scene
def a_namespace_is_an_argument_and_an_attribute(compiled: Compile) -> Iterator[Any]:
    inner = types.SimpleNamespace(n=1.0)
    state = types.SimpleNamespace(inner=inner)

    def f(x: Any, a: Any) -> Any:
        a.n += 1
        return x * state.inner.n

    f = compiled(f)
    for given in (types.SimpleNamespace(n=1.0), inner, inner, types.SimpleNamespace(n=1.0)):
        yield f(one(), given).item(), inner.n


@scene
def a_deque_is_an_argument_and_an_item(compiled: Compile) -> Iterator[Any]:
    state = OrderedDict(q=deque([1.0, 2.0]))

    def f(x: Any, a: Any) -> Any:
        a.append(3.0)
        return x * len(state["q"]) * state["q"][-1]

    f = compiled(f)
    for given in (deque([1.0]), deque([1.0]), state["q"], state["q"], deque([1.0])):
        yield f(one(), given).item(), list(state["q"])


@scene
def an_argument_is_found_in_state_by_code_of_c(compiled: Compile) -> Iterator[Any]:
    state = [{"k": 1.0}, {"k": 2.0}]

    def f(x: Any, d: Any) -> Any:
        d["k"] += 1.0
        return x * sum(each["k"] for each in list(state))

    f = compiled(f)
    for given in ({"k": 1.0}, state[0], state[0], state[1]):
        yield f(one(), given).item(), state


@scene
def batches_in_a_list_that_is_state_at_last(compiled: Compile) -> Iterator[Any]:
    data = cf.arange(12.0).view(6, 2)
    kept = [data[0:2]]

    def f(x: Any, batch: Any) -> Any:
        kept.append(x)
        return batch[0].sum() * len(batch)

    f = compiled(f)
    for given in ([data[0:2]], [data[1:3]], kept, kept, [data[2:4]]):
        yield f(one(), given).item(), len(kept)


@scene
def batches_in_a_list_that_is_compared_with_state(compiled: Compile) -> Iterator[Any]:
    data = cf.arange(12.0).view(6, 2)
    kept = [data[0:2]]
    f = compiled(lambda batch: batch[0].sum() * (2 if batch is kept else 3))
    for given in ([data[0:2]], [data[1:3]], kept, kept, [data[2:4]]):
        yield f(given).item()


@scene
def batches_in_a_list_that_is_given_twice(compiled: Compile) -> Iterator[Any]:
    data = cf.arange(12.0).view(6, 2)

    def f(a: Any, b: Any) -> Any:
        a[0] = a[0] * 2
        return b[0].sum()

    f = compiled(f)
    for i in (0, 1, 2):
        batch = [data[i : i + 2]]
        yield f(batch, batch).item()
        yield f([data[i : i + 2]], [data[i : i + 2]]).item()


# --- two places of state -------------------------------------------------------------------------


@scene
def two_attributes_are_one_list_then_two_and_one_again(compiled: Compile) -> Iterator[Any]:
    state = types.SimpleNamespace(log=[])
    state.view = state.log

    def f(x: Any) -> Any:
        state.log.append(x.sum())
        return x * len(state.view)

    f = compiled(f)
    for change in (lambda: None, lambda: setattr(state, "log", []),
                   lambda: setattr(state, "view", state.log)):  # fmt: skip
        change()
        for _ in range(2):
            yield f(one()).item(), len(state.log), len(state.view)


@scene
def a_variable_and_an_item_are_one_list_and_then_two(compiled: Compile) -> Iterator[Any]:
    held = [1.0]
    state = {"a": held}

    def f(x: Any) -> Any:
        state["a"].append(2.0)
        return x * len(held)

    f = compiled(f)
    for _ in range(3):
        yield f(one()).item()
    state["a"] = [5.0]
    for _ in range(3):
        yield f(one()).item(), len(held), len(state["a"])


@scene
def two_items_become_one_dict(compiled: Compile) -> Iterator[Any]:
    state = {"a": {"n": 0}, "b": {"n": 0}}

    def f(x: Any) -> Any:
        state["a"]["n"] += 1
        return x * state["b"]["n"]

    f = compiled(f)
    for a in (state["a"], state["b"], {"n": 0}, state["b"]):
        state["a"] = a
        for _ in range(3):
            yield f(one()).item(), {key: dict(held) for key, held in state.items()}


@scene
def items_of_a_list_are_one_two_and_one_again(compiled: Compile) -> Iterator[Any]:
    shared = {"n": 0}
    held = [shared, shared]

    def f(x: Any) -> Any:
        for each in held:
            each["n"] += 1
        return x * held[0]["n"]

    f = compiled(f)
    for second in (shared, {"n": 0}, shared):
        held[1] = second
        for _ in range(2):
            yield f(one()).item(), [dict(each) for each in held]


@scene
def two_attributes_become_one_list(compiled: Compile) -> Iterator[Any]:
    state = types.SimpleNamespace(a=[one()], b=[one()])

    def f(x: Any) -> Any:
        state.a.append(x * 2)
        return x * len(state.b) + state.b[-1]

    f = compiled(f)
    for joined in (False, True, False):
        state.b = state.a if joined else [one()]
        for _ in range(3):
            yield f(one()).item(), len(state.a)


@pytest.mark.parametrize("name", SCENES)
def test_a_compiled_function_sees_what_eager_sees(name: str) -> None:
    assert [*SCENES[name](cf.compile)] == [*SCENES[name](lambda f: f)]


def test_a_container_found_twice_is_one_program() -> None:
    @cf.compile
    def f(x: Any, a: Any, b: Any) -> Any:
        a["w"] = x * 2
        return b["w"] + b["n"]

    for n in range(5):
        d = {"w": one(), "n": float(n)}
        assert f(one(), d, d).item() == 2.0 + n
    assert f.captures == 1
    d["d"] = d
    with pytest.raises(cf.CaptureError, match="b is or holds a container that contains itself"):
        f(one(), {"w": one()}, d)


def test_explain_says_that_two_containers_have_become_one() -> None:
    state = {"a": [1.0], "b": [1.0]}

    @cf.compile
    def f(x: Any) -> Any:
        state["a"].append(2.0)
        return x * state["b"][0]

    f(one())
    state["b"] = state["a"]
    f(one())
    assert "state['b'] are one container has changed" in f.explain()
