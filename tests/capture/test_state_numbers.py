"""Numbers that a compiled function counts and then uses: as indices, keys, texts, bounds, sizes."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.helpers.state_worlds import CALLS, Form, World, argument, difference, remember

import contraflow as cf
from contraflow import config

# What becomes of x and of n, which is 2, 3, 4, ... in turn. Those of the first list are arithmetic:
# they need no value while recording, so counting does not record again.
ARITHMETIC = (
    "x * n",
    "x + n / 3",
    "x * -n",
    "x * (2.0 ** -n)",
    "n - x",
    "x / n",
    "x * (0.5 * n + 0.25 * n)",
    "x * sum([n, 1])",
    "x * [n, 5][0]",
    "x * {'n': n}['n']",
    "x * (lambda v: v + 1)(n)",
    "x * max([n], key=lambda _: 0)",
    "x.clamp(max=n)",
    "F.leaky_relu(x, 0.1 * n)",
    "cf.ones(2, 3) * n + x",
)
# Those of the second list compare: each outcome is recorded once.
COMPARED = {
    "x * min(n, 3)": 2,
    "x * max(n, 3)": 2,
    "x if n % 2 else x * 2": 2,
    "x if n > 3 else x * 2": 2,
    "x if n == 3 else x * 2": 2,
    "x if n in (2, 4) else x * 2": 3,
    "x if n else x * 2": 1,
    "x * (n and 3)": 1,
    "x * (n > 3)": 2,
    "x.reshape(*([3, 2] if n % 2 else [2, 3]))": 2,
    "x * sorted([3, n])[0]": 2,
    "x * bool(n - 3)": 2,
    "x * (2 < n < 4)": 3,
    "x * next(k for k in itertools.count() if k * k >= n)": 2,
    "x * (n if n < 3 else (3 if n < 4 else 0))": 3,
    "F.dropout(x, 1.0 if n % 2 else 0.0)": 2,
    "x * [2, 3].count(n)": 3,
}
NEEDED = (
    "x * (n**2 - 1)",
    "x.add(x, alpha=n)",
    "x * (n % 3)",
    "x * (n // 2)",
    "x * int(n)",
    "x * float(n)",
    "x * round(n / 3)",
    "x * abs(n)",
    "x[n % 2]",
    "x[: n % 3]",
    "x.sum(n % 2)",
    "cf.full((2, 3), n) + x",
    "cf.tensor([n, 1, 2]) + x",
    "cf.tensor(n) + x",
    "cf.zeros(n) + 1",
    "cf.arange(n).sum() + x",
    "x * [1.0, 2.0, 3.0, 4.0, 5.0, 6.0][n % 6]",
    "x * {2: 0.5, 3: 0.25}.get(n, 2.0)",
    "sum(x * k for k in range(n))",
    "x * len(range(n))",
    "x * len(str(10**n))",
    "x * len(f'{n:>{n}}')",
    "x * len('%d' % 10**n)",
    "x * float(np.float32(n))",
    "x * float(np.sqrt(n))",
    "x * math.sqrt(n)",
    "x * math.comb(n, 2)",
    "x * math.isfinite(n)",
    "x * n.bit_length()",
    "x * (n << 1)",
    "x * (n & 1)",
    "x * ~n",
    "x * divmod(n, 2)[0]",
    "x * hash(n)",
    "x * isinstance(n, int)",
    "x * (type(n) is int)",
    "x * (n is not None)",
    "x * len({n, 2, 3})",
    "x * dict.fromkeys([n, 2, 3], 1.0)[n]",
    "x * (5 - n)",
    "x * json.loads(json.dumps([n]))[0]",
    "x * int(Fraction(n, 2))",
    "x * copy.deepcopy([n])[0]",
    "x * np.array([n, 2]).max().item()",
    "functools.reduce(lambda t, _: t * 2, range(n), x)",
    "x ** n",
    "x.pow(n)",
    "x.roll(n, 1)",
    "x.mul(n).sum().reshape(1)",
)
PLACES = {
    "attribute": "class Net:\n    n = 1\nnet = Net()\nnet.n = 1\n",
    "item": "net = {'n': 1}\n",
    "global": "n = 1\n",
}
COUNTED = {"attribute": "net.n", "item": "net['n']", "global": "n"}


@pytest.fixture(autouse=True)
def mode() -> Iterator[None]:
    before, config.compile_mode = config.compile_mode, "interpret"
    yield
    config.compile_mode = before


def made(place: str, use: str) -> Form:
    """A form that counts a number somewhere and uses it so."""
    counted = COUNTED[place]
    lines = ["import copy, functools, itertools, json, math", "from fractions import Fraction"]
    lines += [PLACES[place], "def f(x):", "    global n" if place == "global" else "    pass"]
    lines += [f"    {counted} += 1", f"    n = {counted}", f"    return {use}"]
    text = "\n".join(lines) + "\n"
    path = Path(f"number in {place}: {use}"[:100].replace("/", ":"))
    remember(str(path), text)
    return Form(use, (), path, ((1, text),))


def check(place: str, use: str) -> list[int]:
    """How many recordings there were after each call; fail unless all is as in eager."""
    form = made(place, use)
    world, eager = World(form, cf.compile), World(form)
    recorded = []
    for k in range(CALLS + 1):
        x, y = argument(k), argument(k)
        expected = eager.call(y)
        actual = world.call(x)
        found = difference(
            world.seen(argument=x, result=actual), eager.seen(argument=y, result=expected)
        )
        assert found is None, f"call {k + 1} of `{use}`: {found}"
        recorded.append(world.call.captures)
    world.leave()
    eager.leave()
    return recorded


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("use", ARITHMETIC)
def test_arithmetic_is_replayed(use: str, place: str) -> None:
    recorded = check(place, use)
    assert recorded[-1] <= 2, recorded


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("use", COMPARED)
def test_each_outcome_is_recorded_once(use: str, place: str) -> None:
    recorded = check(place, use)
    assert recorded[-1] == COMPARED[use], recorded


@pytest.mark.parametrize("use", NEEDED)
def test_values_that_are_needed_are_right(use: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a value that is needed records again
        check("attribute", use)


def test_a_call_that_fails_says_nothing_about_numbers() -> None:
    class Counter:
        def __init__(self) -> None:
            self.n, self.broken = 0, False

        def __call__(self, x: cf.Tensor) -> cf.Tensor:
            if self.broken:
                raise RuntimeError(f"broken after {self.n}")  # a text needs the value
            self.n += 1
            return x * self.n

    counter = Counter()
    f = cf.compile(counter)
    for start in (0, 3):
        for k in range(1, 4):
            assert f(cf.ones(1)).item() == start + k
        counter.broken = True
        with pytest.raises(RuntimeError, match=f"broken after {start + 3}"):
            f(cf.ones(1))
        counter.broken = False
    assert f.captures == 1
