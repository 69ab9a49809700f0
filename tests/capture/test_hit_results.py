"""Calls that hit: how many Python calls they take, and the containers around their results."""

from __future__ import annotations

import dataclasses
import functools
import types
from collections import OrderedDict, defaultdict, deque
from collections.abc import Callable
from typing import Any, NamedTuple

import pytest
from tests.helpers.hits import python_calls, warmed
from tests.helpers.state_worlds import Look, difference

import contraflow as cf
from contraflow.capture.hit import MISS
from contraflow.capture.state.trees import flatten

X = cf.tensor([1.0, -2.0])


class Both(NamedTuple):
    """Two results."""

    first: Any
    second: Any


@dataclasses.dataclass
class Kept:
    """A result in a field."""

    value: Any


CONTAINERS: dict[str, Callable[[Any, Any], Any]] = {
    "dict": lambda a, b: {"a": a, 2: [b]}, "named": Both, "dataclass": lambda a, b: [Kept(a), b],
    "ordered": lambda a, b: OrderedDict(b=b, a=(a, "text")), "deque": lambda a, b: deque([a, b], 2),
    "default": lambda a, b: defaultdict(list, a=a, b=b),
}  # fmt: skip


@pytest.mark.parametrize("kind", CONTAINERS)
def test_results_in_containers(kind: str) -> None:
    around = CONTAINERS[kind]
    compiled = warmed(lambda x: around(x + 1, x * 2), X)
    for n in (1.0, 2.0):
        x = X * n
        found = compiled._hit((x,))
        assert type(found) is type(around(x, x))
        leaves: list[Any] = []
        expected: list[Any] = []
        assert flatten(found, leaves) == flatten(compiled.eager(x), expected)
        assert [leaf.tolist() for leaf in leaves] == [leaf.tolist() for leaf in expected]


class Box:
    """An object with attributes."""

    def __init__(self, **attributes: Any) -> None:
        self.__dict__.update(attributes)


STATE, LOG, TABLE = cf.tensor([3.0, 4.0]), [1.0], {}  # type: ignore[var-annotated]
OTHERS: dict[str, Callable[[Any], Any]] = {
    "number": lambda x: (x * 2, 3, 2.5, True, "text"), "only a number": lambda x: 7,
    "dataclass": lambda x: Kept([x * 2, 3]), "object": lambda x: Box(value=x * 2, n=3, name="box"),
    "namespace": lambda x: types.SimpleNamespace(value=x * 2, n=1.5),
    "twice": lambda x: (lambda y: [y, {"again": y}, (y, 2)])(x * 2),
    "argument": lambda x: (x, x * 2), "state": lambda x: (STATE, x * 2, STATE[1:]),
    "container from before": lambda x: (x * 2, LOG, {"a": LOG}),
    "partial": lambda x: functools.partial(Both, x * 2, second=3),
    "stored": lambda x: (TABLE.update(n=3, y=x * 3), x * 2)[1],
}  # fmt: skip


@pytest.mark.parametrize("kind", OTHERS)
def test_results_that_are_not_new_tensors(kind: str) -> None:
    """What a replay makes or finds is made by the call that hits, too: each time anew."""

    def seen(call: Callable[[], Any]) -> list[Any]:
        given = X, STATE, LOG, TABLE
        return list(Look(__name__).at("all", [given, call(), call()]))

    compiled = warmed(OTHERS[kind], X)
    assert difference(seen(lambda: compiled._hit((X,))), seen(lambda: compiled.eager(X))) is None


def test_a_learning_rate_that_is_returned() -> None:
    def life(compiler: Callable[..., Any]) -> list[Any]:
        p = cf.nn.Parameter(cf.ones(2))
        optimizer = cf.optim.SGD([p], lr=0.5)

        def step(x: cf.Tensor) -> Any:
            optimizer.zero_grad()
            (p * x).sum().backward()
            optimizer.step()
            group = optimizer.param_groups[0]
            group["lr"] = group["lr"] * 0.5
            return group["lr"], p

        call, found = compiler(step), []
        for _ in range(5):
            rate, kept = call(X)
            assert kept is p
            found.append((rate, p.tolist(), optimizer.param_groups[0]["lr"]))
        assert compiler is not cf.compile or call._hit((X,)) is not MISS
        return found

    assert life(cf.compile) == life(lambda f: f)


@pytest.mark.parametrize("dropout", [0.0, 0.3])
def test_a_training_step_that_hits_is_ten_python_calls_at_most(dropout: float) -> None:
    net = cf.nn.Sequential(
        cf.nn.Linear(4, 8), cf.nn.Tanh(), cf.nn.Dropout(dropout), cf.nn.Linear(8, 2)
    )
    optimizer = cf.optim.Adam(net.parameters(), lr=0.01)

    def step(x: cf.Tensor, y: cf.Tensor) -> cf.Tensor:
        optimizer.zero_grad()
        loss = ((net(x) - y) ** 2).mean()
        loss.backward()
        optimizer.step()
        return loss

    x, y = cf.ones(3, 4), cf.ones(3, 2)
    compiled = warmed(step, x, y)
    compiled(x, y)
    entered = python_calls(lambda: compiled(x, y))
    assert "hit" in entered
    assert ("Generator.take" in entered) is bool(dropout)
    assert len(entered) <= 1 + 10, entered  # the lambda, and the call


def _seeded(x: cf.Tensor) -> tuple[cf.Tensor, cf.Tensor]:
    drawn = x + cf.rand(2)
    cf.manual_seed(7)
    return drawn, cf.randn(2)


own = cf.Generator()
DRAWING: dict[str, Any] = {
    "one draw": lambda x: x + cf.rand(2),
    "several draws": lambda x: x - cf.rand(2) + cf.randint(5, (2,)),
    "a generator of its own": lambda x: x + cf.rand(2, generator=own),
    "two generators": lambda x: cf.rand(2) + cf.rand(2, generator=own),
    "a seed that is set inside": _seeded,
    "numbers in place": lambda x: x.clone().uniform_(-1.0, 1.0),
}


@pytest.mark.parametrize("kind", DRAWING)
def test_calls_that_draw_random_numbers_hit(kind: str) -> None:
    def life(call: Any) -> list[Any]:
        cf.manual_seed(3)
        own.manual_seed(4)
        found = []
        for number in range(6):
            if number == 4:
                cf.manual_seed(5)
                own.manual_seed(6)
            found.append([x.tolist() for x in tree(call(X))])
            found.append([cf.get_rng_state(), own.get_state()])
        return found

    compiled = cf.compile(DRAWING[kind])
    assert life(compiled) == life(DRAWING[kind])
    assert compiled.captures == 1
    assert compiled._hit((X,)) is not MISS


def tree(x: Any) -> list[cf.Tensor]:
    return [x] if isinstance(x, cf.Tensor) else list(x)
