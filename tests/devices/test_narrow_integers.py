"""Where int64 has 32 bits what does not fit is an error, and what fits is exact.

On webgpu, and on the walled device within its limits, whose interpreter wraps around as it does.
"""

from __future__ import annotations

import functools
import operator
import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from tests.helpers.walled import WEBGPU, WalledDevice, opened

import contraflow as cf

MOST, LEAST = 2**31 - 1, -(2**31)
TEXT = (
    r"a result, or a number given, does not fit the 32 bits that int64 has on (webgpu|walled); "
    r"compute it in float32"
)

PLACES = ("walled", "webgpu")


@pytest.fixture(scope="module", params=PLACES)
def found(request):
    """A device whose int64 has 32 bits."""
    if request.param == "webgpu":
        yield request.getfixturevalue("webgpu")
        return
    with opened(functools.partial(WalledDevice, limits=WEBGPU)) as device:
        yield device


@pytest.fixture(autouse=True)
def place(found):
    """Its name; it is the default device."""
    with cf.device(found.name):
        yield found.name


def there(*numbers: int) -> cf.Tensor:
    return cf.tensor(list(numbers), dtype=cf.int64)


def squared(x: cf.Tensor) -> cf.Tensor:
    """Two matrices, each times its transpose."""
    pair = x.reshape(2, 3, 4)
    return (pair @ pair.transpose(1, 2)).reshape(-1)


FITS: dict[str, tuple[Callable[[], cf.Tensor], list[int]]] = {
    "add": (lambda: there(MOST - 1) + 1, [MOST]),
    "sub": (lambda: there(LEAST + 1) - 1, [LEAST]),
    "mul": (lambda: there(65536) * 32767, [65536 * 32767]),
    "mul to the least": (lambda: there(-65536) * 32768, [LEAST]),
    "square": (lambda: there(46340) * there(46340), [46340**2]),
    "neg": (lambda: -there(MOST), [-MOST]),
    "shift": (lambda: there(1) << 30, [1 << 30]),
    "negative shift": (lambda: there(-1) << 31, [LEAST]),
    "cast": (lambda: cf.tensor([-(2.0**31)]).long(), [LEAST]),
    "sum that comes back": (lambda: there(MOST, MOST, -MOST, 5, -6).sum(0, True), [MOST - 1]),
    "negative sum": (lambda: there(-MOST, -1).sum(0, keepdim=True), [LEAST]),
    "long sum": (lambda: cf.arange(60_000).sum(0, True), [59_999 * 30_000]),
    "prod": (lambda: there(-65536, 32768, 1).prod(0, keepdim=True), [LEAST]),
    "prod with a zero": (lambda: there(65536, 65536, 0, 7).prod(0, keepdim=True), [0]),
    "long prod": (lambda: (cf.ones(9000) * 1).long().prod(0, True), [1]),
    "cumsum": (lambda: there(MOST, -MOST, LEAST, 5).cumsum(0), [MOST, 0, LEAST, LEAST + 5]),
    "cumprod": (lambda: there(65536, 32767, 0, 9).cumprod(0), [65536, 65536 * 32767, 0, 0]),
    # The sums of later parts alone leave 32 bits.
    "long cumsum": (
        lambda: there(*[-(10**9)] * 2, *[0] * 600, *[10**9] * 4).cumsum(0)[-4:],
        [-(10**9), 0, 10**9, 2 * 10**9],
    ),
    "index_add": (
        lambda: there(MOST - 3, 0).index_add(0, there(0, 0, 1), there(1, 2, 9)),
        [MOST, 9],
    ),
    "matmul": (lambda: (there(1, -2, 3) @ there(4, 5, 7 * 10**8)).reshape(1), [21 * 10**8 - 6]),
    "pow": (
        lambda: there(-2, 46340, 3, -7, 0) ** there(31, 2, 0, 1, 99),
        [LEAST, 46340**2, 1, -7, 0],
    ),
    "floor_divide": (lambda: there(LEAST, -MOST) // there(3, -1), [LEAST // 3, MOST]),
    "div rounded towards zero": (
        lambda: cf.div(
            there(LEAST, MOST, 1, -MOST), there(3, 1, LEAST, 1000), rounding_mode="trunc"
        ),
        [LEAST // 3 + 1, MOST, 0, -2147483],
    ),
    "fmod": (
        lambda: cf.fmod(there(LEAST, LEAST, 1, MOST, -7), there(-1, 3, LEAST, LEAST, 3)),
        [0, -2, 1, MOST, -1],
    ),
    "arange": (lambda: cf.arange(MOST - 1, MOST + 1), [MOST - 1, MOST]),
    "empty arange": (lambda: cf.arange(2**40, 2**40), []),
    "matmul of batches": (
        lambda: squared(cf.arange(24)),
        squared(cf.arange(24)).tolist(),
    ),
}


@pytest.mark.parametrize("name", FITS)
def test_what_fits_is_exact(name):
    compute, expected = FITS[name]
    assert compute().tolist() == expected


FAILS: dict[str, tuple[Callable[[], Any], str]] = {
    "add": (lambda: there(MOST) + 1, "add"),
    "sub": (lambda: there(LEAST) - 1, "sub"),
    "mul": (lambda: there(65536) * 32768, "mul"),
    "square": (lambda: there(46341) * there(46341), "mul"),
    "far": (lambda: there(MOST) * there(MOST), "mul"),
    "neg": (lambda: -there(LEAST), "neg"),
    "abs": (lambda: there(LEAST).abs(), "abs"),
    "pow": (lambda: there(100_000).pow(2), "pow"),
    "general pow": (lambda: there(2, 3) ** there(31, 1), "pow"),
    "far pow": (lambda: there(3) ** 30, "pow"),
    "pow that wraps to zero": (lambda: 2 ** there(32), "pow"),
    "far negative pow": (lambda: there(-3) ** there(10**6), "pow"),
    "floor_divide": (lambda: there(LEAST) // -1, "floor_divide"),
    "div": (lambda: cf.div(there(LEAST), there(-1), rounding_mode="trunc"), "div"),
    "shift": (lambda: there(1) << 31, ""),
    "far shift": (lambda: there(3) << 40, ""),
    "cast": (lambda: cf.tensor([3e9]).long(), "to"),
    "sum": (lambda: there(MOST, 1).sum(), "sum"),
    "long sum": (lambda: cf.arange(100_000).sum(), "sum"),
    "sum of rows": (lambda: there(1, 2, MOST, 1).reshape(2, 2).sum(1), "sum"),
    "prod": (lambda: there(65536, 32768).prod(), "prod"),
    "prod that wraps to zero": (lambda: there(65536, 65536).prod(), "prod"),
    "long prod": (lambda: there(*[1] * 9000, 65536, 65536).prod(), "prod"),
    "cumsum": (lambda: there(MOST, 1, -5).cumsum(0), "cumsum"),
    "long cumsum": (lambda: there(*[10**7] * 300).cumsum(0), "cumsum"),
    "cumprod": (lambda: there(65536, 65536, 0).cumprod(0), "cumprod"),
    "index_add": (lambda: there(MOST, 0).index_add(0, there(1, 0), there(1, 1)), "index_add"),
    "long index_add": (
        lambda: there(0, 0).index_add(0, there(*[1] * 300), there(*[10**7] * 300)),
        "index_add",
    ),
    "matmul": (lambda: there(1, 2) @ there(MOST, 1), "dot|matmul"),
    "term of a matmul": (lambda: there(65536, 1) @ there(65536, 1), "dot|matmul"),
}


@pytest.mark.parametrize("name", FAILS)
def test_what_does_not_fit_is_an_error_of_the_op(name):
    compute, op = FAILS[name]
    with pytest.raises(OverflowError, match=rf"^\w*({op})\w*: {TEXT}"):
        compute()


def test_a_compiled_function_names_the_line_and_writes_nothing():
    count = there(MOST - 1)

    @cf.compile
    def step(x):
        count.add_(x)
        return count * 1

    assert step(there(1)).tolist() == [MOST]
    count.copy_(there(MOST - 1))
    step(there(0))
    with pytest.raises(OverflowError, match=rf"add_?: {TEXT}.* at test_narrow_integers.py:\d+"):
        step(there(2)).tolist()
    assert count.tolist() == [MOST - 1]


@pytest.mark.parametrize("seed", range(3))
def test_random_arithmetic_is_exact_or_an_error(seed):
    draw = random.Random(seed)
    for _ in range(25):
        f = draw.choice((operator.add, operator.sub, operator.mul))
        sizes = [draw.choice((2**31, 2**20, 2**16, 300)) for _ in range(2)]
        a, b = (draw.randrange(-size, size) for size in sizes)
        wanted = f(a, b)
        if LEAST <= wanted <= MOST:
            assert f(there(a), there(b)).item() == wanted, (f, a, b)
        else:
            with pytest.raises(OverflowError):
                f(there(a), there(b)).item()


def test_counting_needs_no_check(found, monkeypatch):
    x = cf.tensor(np.arange(100) % 3 == 0)
    monkeypatch.setattr(found, "run_checked", None, raising=False)  # of webgpu
    assert x.sum().item() == 34


def test_int32_wraps_as_on_the_cpu():
    x = cf.tensor([MOST], dtype=cf.int32)
    assert (x + 1).tolist() == (x.cpu() + 1).tolist() == [LEAST]


def test_a_range_that_does_not_fit_is_refused():
    text = (
        r"^arange: 2147483648 does not fit the 32 bits that int64 has on (webgpu|walled)\. "
        r"Use dtype=contraflow\.float32, or device='cpu'\."
    )
    with pytest.raises(OverflowError, match=text):
        cf.arange(MOST, MOST + 2)
    counted = cf.compile(lambda n: cf.arange(n, n + 3))
    assert counted(5).tolist() == [5, 6, 7]
    with pytest.raises(OverflowError, match=text):
        counted(MOST - 1)
    with pytest.raises(OverflowError, match=r"^arange: -2147483649 does not fit"):
        cf.arange(LEAST, LEAST - 2, -1)
    assert cf.arange(MOST, MOST + 2, dtype=cf.int32).tolist() == [MOST, LEAST]


@pytest.mark.parametrize("compiled", [False, True])
def test_large_integers_beside_floats(compiled):
    def compute(x, n):
        filled = cf.full_like(x, 2**40) + x.clone().fill_(2**36) + x.masked_fill(x > 1, 2**35)
        return filled + x * n + x / 2**40 + cf.where(x > 1, 2**34, x)

    x = cf.tensor([0.5, 1.5])
    there = (cf.compile(compute) if compiled else compute)(x, 2**41)
    np.testing.assert_allclose(there.tolist(), compute(x.cpu(), 2**41).tolist(), rtol=1e-6)


@pytest.mark.parametrize("value", [-1e30, 3e9, float("inf")])
def test_floats_that_become_integers_of_a_fill_are_checked(value):
    for make in (cf.full, cf.compile(lambda *args, **options: cf.full(*args, **options))):
        with pytest.raises(OverflowError, match=r"full: .* does not fit the 32 bits that int64"):
            make((2,), value, dtype=cf.int64)
    assert cf.full((2,), 1e9, dtype=cf.int64).tolist() == [1000000000] * 2


@pytest.mark.parametrize(
    ("op", "use"),
    [
        ("index_add", lambda x, at: x.index_add(0, at, x)),
        ("to", lambda x, at: (x * 1.0 * 2.0**31).long()),
        ("pow", lambda x, at: x.pow(2)),
        ("dot", lambda x, at: cf.dot(x, x)),
        ("diff", lambda x, at: cf.diff(cf.stack([x, -x]), dim=0)),
        ("where", lambda x, at: cf.where(x > 0, x, 2**40)),
        ("fill_", lambda x, at: x.clone().fill_(2**40)),
        ("masked_fill", lambda x, at: x.masked_fill(x > 0, 2**40)),
        ("index_fill", lambda x, at: x.index_fill(0, at, 2**40)),
        ("setitem", lambda x, at: x.clone().__setitem__(0, 2**40)),
        ("setitem", lambda x, at: x.clone().__setitem__(at, 2**40)),
        ("add", lambda x, at: cf.add(x, x, alpha=2**33)),
        ("full", lambda x, at: cf.full((), 2**40, dtype=cf.int64)),
    ],
)
def test_what_does_not_fit_is_told_of_the_op_that_was_called(found, op, use):
    x, at = there(MOST, MOST, MOST), there(0, 0, 1)
    text = rf"^{op}: {TEXT}, or on the cpu, at test_narrow_integers\.py:\d+\.$"
    with pytest.raises(OverflowError, match=text):
        use(x, at).tolist()
