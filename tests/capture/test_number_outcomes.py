"""Comparisons of numbers in compiled functions: each outcome is recorded once."""

from __future__ import annotations

import bisect
import math
import operator
import random
import types
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import pytest

import contraflow as cf
from contraflow import nn, optim, thresholds
from contraflow.testing import assert_close

F = nn.functional


pytestmark = pytest.mark.usefixtures("mode")


def _chain(x: Any, n: Any) -> Any:
    if n == 0:
        return x
    if n == 1:
        return x * 2
    return x * n if n < 5 else -x


def _counted_down(x: Any, n: Any) -> Any:
    while n > 0:
        x, n = x + n, n - 2
    return x


def _refused(x: Any, n: Any) -> Any:
    if n < 3:
        raise ValueError("too small")
    return x * n


def _caught(x: Any, n: Any) -> Any:
    try:
        return _refused(x, n)
    except ValueError:
        return x - n


WHOLE = range(12)
# What a function does with a number, the numbers, and how many recordings that takes.
USES: dict[str, tuple[Callable[..., Any], Sequence[Any], int]] = {
    "if": (lambda x, n: x * n if n > 4 else x, WHOLE, 2),
    "a remainder": (lambda x, n: x * n if n % 4 == 0 else x, WHOLE, 2),
    "truth": (lambda x, n: x if n else x * 2, WHOLE, 2),
    "not": (lambda x, n: x * (not n - 2), WHOLE, 2),
    "and, or": (lambda x, n: x * (n or 5) + (n - 3 and 7), WHOLE, 3),
    "min": (lambda x, n: x * min(1.0, n / 5), WHOLE, 2),
    "max of several": (lambda x, n: x * max(n, 6, 2 * n - 8), WHOLE, 3),
    "sorted": (lambda x, n: x * sorted([5, n, 8])[1], WHOLE, 3),
    "bounds": (lambda x, n: x * (2 <= n < 7), WHOLE, 3),
    "between numbers": (lambda x, n: x * n if n * n > 3 * n + 1 else x, WHOLE, 2),
    "in a tuple": (lambda x, n: x if n in (2, 3) else x * n, WHOLE, 3),
    "in a range": (lambda x, n: x if n in range(4, 7) else x * n, WHOLE, 4),
    "bisect": (lambda x, n: x * bisect.bisect([3, 6], n), WHOLE, 3),
    "truth values": (lambda x, n: x * (n > 3) + n * (n > 3) - (n != 5) / (n + 1), WHOLE, 3),
    "compared with one": (lambda x, n: x if n == True else x * n, WHOLE, 2),  # noqa: E712
    "neither None nor a text": (
        lambda x, n: x if n == None or n == "auto" else x * n, WHOLE, 1,  # noqa: E711
    ),
    "a chain": (_chain, WHOLE, 4),
    "a loop": (_counted_down, (1, 2, 3, 4, 3, 2, 1), 2),
    "an error": (_refused, (5, 2, 6, 1, 7), 1),
    "an error that is caught": (_caught, (5, 2, 6, 1, 7), 2),
    "NaN": (
        lambda x, n: x if n < 0 else x * 2 if n == n else x * 3,
        (1.0, math.nan, -1.0, math.inf, math.nan, -math.inf, -0.0), 3,
    ),
    "of any size": (
        lambda x, n: x * 2 if n < 2.0**53 else x * 3 if n == 2.0**53 else x,
        (2**53, 2**53 + 1, 2**53 - 1, 10**400, -(10**400)), 3,
    ),
    "of both kinds": (lambda x, n: x * n if n < 2.5 else x, (1, 3, 2.0, 2.75, 2, 5), 4),
}  # fmt: skip


def outcome(function: Callable[..., Any], *given: Any) -> Any:
    try:
        return function(*given).tolist()
    except Exception as error:
        return type(error), str(error)


@pytest.mark.parametrize("name", USES)
def test_each_outcome_is_recorded_once(name: str) -> None:
    function, numbers, recordings = USES[name]
    f, x = cf.compile(function), cf.tensor([1.0, -2.0])
    for n in (*numbers, *numbers):
        assert outcome(f, x, n) == outcome(function, x, n), n
    assert f.captures == recordings, f.changes


@pytest.mark.parametrize(
    "function",
    [
        lambda x, n: x if n in {2, 3} else x * 2,
        lambda x, n: x * {0: 1, 1: 2}.get(n, 3),
        lambda x, n: x if n + 100 in range(10**6) else x * 2,  # too many questions
        lambda x, n: _counted_down(x, n + 2 * thresholds.number_questions),
    ],
)
def test_a_value_that_is_needed_is_part_of_the_key(function: Callable[..., Any]) -> None:
    f, x = cf.compile(function), cf.tensor([1.0, -2.0])
    for n in (1, 2, 3, 2, 1):
        assert f(x, n).tolist() == function(x, n).tolist()
    assert f.captures == 3
    assert f.changes[-1] == "n was 2 and is 3"


# --- trainers ------------------------------------------------------------------------------------


class Trainer:
    """A model, an optimizer and numbers that are counted; what a step does is up to `step`."""

    def __init__(self, step: Callable[..., Any]) -> None:
        cf.manual_seed(0)
        self.model = nn.Linear(3, 2)
        self.optimizer = optim.SGD(self.model.parameters(), lr=0.1, momentum=0.9)
        self.slow = [p.detach().clone() for p in self.model.parameters()]
        self.i, self.best, self.bad, self.stopped = 0, math.inf, 0, False
        self.step = types.MethodType(step, self)

    def descend(self, x: Any) -> Any:
        loss = self.model(x).square().mean()
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        return loss.detach()

    def seen(self) -> list[Any]:
        """All that a step may change."""
        rate = self.optimizer.param_groups[0]["lr"]
        return [
            *self.model.parameters(),
            *self.slow,
            self.i,
            self.best,
            self.bad,
            self.stopped,
            rate,
        ]


def accumulates(self: Any, x: Any, _: float) -> Any:
    (self.model(x).square().mean() / 4).backward()
    self.i += 1
    if self.i % 4 == 0:
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=False)


def warms_up(self: Any, x: Any, _: float) -> Any:
    for group in self.optimizer.param_groups:
        group["lr"] = 0.1 * min(1.0, (self.i + 1) / 5)
    self.i += 1
    return self.descend(x)


def decays(self: Any, x: Any, _: float) -> Any:
    self.i += 1
    if self.i % 5 == 0:
        self.optimizer.param_groups[0]["lr"] *= 0.5
    return self.descend(x)


def averages(self: Any, x: Any, _: float) -> Any:
    loss = self.descend(x)
    self.i += 1
    with cf.no_grad():
        for slow, p in zip(self.slow, self.model.parameters()):
            decay = min(0.9, (1 + self.i) / (10 + self.i))
            slow.mul_(decay).add_(p * (1 - decay))
    return loss


def freezes(self: Any, x: Any, _: float) -> Any:
    for p in self.model.parameters():
        p.requires_grad_(self.i >= 3 or p.dim() == 1)
    self.i += 1
    return self.descend(x)


def stops_early(self: Any, x: Any, score: float) -> Any:
    if score < self.best:
        self.best, self.bad = score, 0
    else:
        self.bad += 1
        if self.bad >= 3:
            self.stopped = True
    return None if self.stopped else self.descend(x)


TRAINERS = {accumulates: 3, warms_up: 2, decays: 2, averages: 2, freezes: 5, stops_early: 5}


@pytest.mark.parametrize("step", TRAINERS)
@pytest.mark.parametrize("verify", [0, 40])
def test_trainers(step: Callable[..., Any], verify: int) -> None:
    compiled, eager = Trainer(step), Trainer(step)
    function = cf.compile(compiled.step, verify=verify)
    for k in range(40):
        x, score = cf.ones(2, 3) * (k % 3 - 1), abs(10.0 - k) + k % 2 + (k > 30)
        got, want = function(x, score), eager.step(x, score)
        assert (got is None) == (want is None)
        for a, b in zip(compiled.seen(), eager.seen(), strict=True):
            if isinstance(a, cf.Tensor):
                assert_close(a.detach(), b.detach())
            else:
                assert a == b  # numbers are Python's, to the last digit
    assert function.captures <= TRAINERS[step], function.changes


# --- everything else ------------------------------------------------------------------------------


def test_gradients_of_both_orders_and_nested_functions() -> None:
    inner = cf.compile(lambda x, n: x.exp() * n if n > 2 else x.square() * n)
    outer = cf.compile(lambda x, n: inner(x, n + 1))
    for f, recordings in ((inner, 4), (outer, 3)):  # two kinds of numbers, two outcomes
        x = cf.tensor([0.5, -1.0], dtype=cf.float64, requires_grad=True)
        calls = [(n, f(x, n)) for n in (1, 5, 1.5, 4.5, 3, 0)]
        for n, out in calls:
            m = n if f is inner else n + 1
            (first,) = cf.autograd.grad(out.sum(), x, create_graph=True)
            (second,) = cf.autograd.grad(first.sum(), x)
            with cf.no_grad():
                assert_close(first.detach(), x.exp() * m if m > 2 else 2 * x * m)
                assert_close(second, x.exp() * m if m > 2 else 0 * x + 2 * m)
        assert f.captures == recordings


def test_nothing_is_changed_before_the_outcome_is_known() -> None:
    w = cf.zeros(2)

    @cf.compile
    def step(x: Any, n: float) -> Any:
        w.add_(x)
        if n < 0:
            raise ValueError("negative")
        return w * n

    for n in (1.0, 2.0, -1.0, 3.0, -2.0):
        if n < 0:
            with pytest.raises(ValueError, match="negative"):
                step(cf.ones(2), n)
        else:
            step(cf.ones(2), n)
    assert w.tolist() == [3.0, 3.0]
    assert step.captures == 1


def test_the_program_used_last_is_kept() -> None:
    f = cf.compile(lambda x, n: x if n == 0 else x + 1 if n == 1 else x + 2, cache_size=2)
    for n in (0, 1, 0, 2, 0):
        f(cf.ones(2), n)
    assert f.captures == 3


def test_a_warning_says_which_number_and_which_comparison() -> None:
    def chained(x: Any, n: int) -> Any:
        return x * next(k for k in range(20) if n == k)

    def keyed(x: Any, scale: float, n: int) -> Any:
        return x * scale * float(n)

    f, g, x = cf.compile(chained), cf.compile(keyed), cf.ones(2)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for n in range(8):
            f(x, n)
            g(x, n / 2, n)
    assert [str(w.message) for w in caught] == [
        "compile(chained): recorded 8 times, the last time because n == 6 was True and is False. "
        "Each change records again.",
        "compile(keyed): recorded 8 times, the last time because n was 6 and is 7. Each change "
        "records again.",
    ]


def test_changes_of_numbers_that_python_does_not_write_out() -> None:
    f = cf.compile(lambda x, n: x if n < 10**5000 else x * 2)
    g = cf.compile(lambda x, n: x if n in {1} else x * 2)
    for n in (1, 10**5000):
        f(cf.ones(2), n)
        g(cf.ones(2), n)
    assert f.changes == ["n < an int of 16610 bits was True and is False"]
    assert g.changes == ["n was 1 and is an int of 16610 bits"]


def test_changes_name_arguments_and_what_is_carried() -> None:
    state = types.SimpleNamespace(i=0, h=None)

    @cf.compile
    def step(x: Any, sizes: dict[str, Any], mode: str = "sum") -> Any:
        state.i += 1
        if abs(state.i - 3) > 1.5 and sizes["n"][0]:
            x = x + 1
        return x * float(sizes["m"])

    x = cf.ones(2)
    for sizes, mode in ((1, 2.0), "sum"), ((1, 2.0), "sum"), ((1, 3.5), "sum"), ((1, 3.5), "mean"):
        step(x, {"n": [sizes[0]], "m": sizes[1]}, mode=mode)
    assert step.changes == [
        "abs((state.i + 1) - 3) > 1.5 was True and is False",
        "sizes['m'] was 2.0 and is 3.5",
        "mode was 'sum' and is 'mean'",
    ]


def test_a_rate_in_place_is_set_and_read_apart() -> None:
    """`rate *= 2` makes another number in eager mode; the group has it once it is set."""
    w = nn.Parameter(cf.ones(2))
    optimizer = optim.SGD([w], lr=0.5)

    @cf.compile
    def step(x: Any) -> Any:
        group = optimizer.param_groups[0]
        rate = group["lr"]
        rate *= 3.0
        before = group["lr"] * x
        group["lr"] *= 0.5
        return rate * x, before, group["lr"] * x

    for lr in (0.5, 0.25, 0.125):
        found = [t.tolist() for t in step(cf.ones(1))]
        assert found == [[lr * 3], [lr], [lr / 2]]
        assert optimizer.param_groups[0]["lr"] == lr / 2
    assert step.captures == 1


def test_a_rate_that_structure_depends_on_is_needed() -> None:
    w = nn.Parameter(cf.ones(2))
    optimizer = optim.SGD([w], lr=0.5, momentum=0.5)
    twin = nn.Parameter(cf.ones(2))
    other = optim.SGD([twin], lr=0.5, momentum=0.5)

    def step(optimizer: Any, w: Any, momentum: float) -> None:
        optimizer.param_groups[0]["momentum"] = momentum
        optimizer.zero_grad()
        w.square().sum().backward()
        optimizer.step()

    compiled = cf.compile(lambda momentum: step(optimizer, w, momentum))
    for momentum in (0.5, 0.25, 0.0, 0.75, 0.0):
        compiled(momentum)
        step(other, twin, momentum)
        assert_close(w.detach(), twin.detach())


@pytest.mark.parametrize("name", ["eq", "ne", "lt", "le", "gt", "ge"])
def test_comparisons_are_those_of_python(name: str) -> None:
    compare = getattr(operator, name)
    values = (0, 1, -3, 0.0, -0.0, 1.5, math.nan, math.inf, -math.inf, 2**53 + 1, 2.0**53, 10**400)
    f = cf.compile(
        lambda x, a, b: (x * 1, compare(a, b), compare(b, 1), compare(True, a)), cache_size=64
    )
    x = cf.ones(1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # outcomes and kinds of numbers, in all combinations
        for a in values:
            for b in values:
                want = (compare(a, b), compare(b, 1), compare(True, a))
                for _ in range(2):
                    got = f(x, a, b)[1:]
                    assert got == want, (a, b)
                    assert all(type(answer) is bool for answer in got)
    assert f.captures <= 4 * 8


# --- random expressions ---------------------------------------------------------------------------

FORMS = (
    "({} + {})", "({} - {})", "({} * {})", "({} // {})", "({} % {})", "({} / {})", "({} < {})",
    "({} >= {})", "({} == {})", "min({}, {})", "max({}, {})", "({} and {})", "({} or {})",
    "({} if {} else {})", "sorted([{}, {}])[0]", "abs({})", "(not {})", "({} in (1, 2, {}))",
)  # fmt: skip


def expression(rng: random.Random, depth: int, names: Sequence[str]) -> str:
    if depth == 0 or rng.random() < 0.2:
        return rng.choice([*names, "1", "3", "0.5"])
    form = rng.choice(FORMS)
    return form.format(*(expression(rng, depth - 1, names) for _ in range(form.count("{}"))))


@pytest.mark.filterwarnings("ignore:compile")
def test_random_expressions() -> None:
    """Values, kinds and errors of expressions of arguments and of what is kept between calls."""
    x, recordings, calls = cf.tensor([1.0, 2.0], dtype=cf.float64), 0, 0
    for seed in range(100):
        rng = random.Random(seed)
        known = ["n", "m", "s.i", "s.f"]
        text = (
            f"def f(x, n, m):\n"
            f"    s.i = s.i + 1\n"
            f"    try: a = {expression(rng, 3, known)}\n"
            f"    except ZeroDivisionError: a = -1\n"
            f"    if {expression(rng, 2, [*known, 'a'])}: s.f = {expression(rng, 2, known)}\n"
            f"    b = {expression(rng, 3, [*known, 'a'])}\n"
            f"    return x * b, a, b\n"
        )
        states = [types.SimpleNamespace(i=0, f=0.5) for _ in range(2)]
        scopes: list[dict[str, Any]] = [{"s": state} for state in states]
        for scope in scopes:
            exec(text, scope)
        compiled = cf.compile(scopes[0]["f"])
        for _ in range(10):
            given = rng.choice([0, 1, 2, 3, -1]), rng.choice([0.0, 1.0, 2.5, -1.5, math.nan])
            got, want = (seen(f, x, *given) for f in (compiled, scopes[1]["f"]))
            assert got == want, (seed, given, text)
            if got.startswith("ZeroDivisionError"):  # which leaves compiled functions as they were
                vars(states[0]).update(vars(states[1]))
            assert str(states[0]) == str(states[1]), (seed, given, text)
        recordings += compiled.captures
        calls += 10
    assert recordings < calls / 2


def seen(function: Callable[..., Any], *given: Any) -> str:
    try:
        y, *numbers = function(*given)
    except ZeroDivisionError as error:
        return repr(error)
    return str([y.tolist(), numbers])
