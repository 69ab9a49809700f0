"""How far products, scans and scatters of many elements are from exact ones, on data that is hard.

Each case is a function of a library (contraflow or PyTorch) and tensors, and of NumPy over float64.
Errors are relative to the largest element of the result. docs/accuracy.md has the tables of cases.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import pytest
from tests.helpers.accuracy import allowed

import contraflow as cf
from contraflow import config, thresholds
from contraflow.compiler.fuse import fuse
from contraflow.compiler.kernel import Box, Limits
from contraflow.compiler.lower import KernelUse
from contraflow.compiler.passes import optimize
from contraflow.compiler.tape import Tape
from contraflow.dtypes import bfloat16, float16, float64
from contraflow.expressions import expression as s

SPAN = thresholds.long_product
QUICK, LONG = 1 << 20, 1 << 26  # elements that are added up
MOST = 3e-6  # of the result, in float32; or ten times PyTorch's
THREADS = (1, 2, 3, 7)


class Case(NamedTuple):
    """The shapes of inputs for so many sums, what is computed of them, and what that is."""

    shapes: Callable[[int], Sequence[tuple[int, ...]]]
    run: Callable[..., Any]
    exact: Callable[..., np.ndarray]


def weight_gradient(lib: Any, x: Any, g: Any) -> Any:
    """That of a convolution with windows of three: a sum over images and places."""
    rank = x.ndim - 2
    weight = lib.zeros((g.shape[1], x.shape[1], *(3,) * rank), dtype=x.dtype, requires_grad=True)
    convolution = getattr(lib.nn.functional, f"conv{rank}d")
    return lib.autograd.grad((convolution(x, weight) * g).sum(), weight)[0]


def exact_weight_gradient(x: np.ndarray, g: np.ndarray) -> np.ndarray:
    axes = tuple(range(2, x.ndim))
    windows = np.lib.stride_tricks.sliding_window_view(x, (3,) * len(axes), axes)
    places = "xy"[: len(axes)]
    taps = "ij"[: len(axes)]
    return np.einsum(f"no{places},nc{places}{taps}->oc{taps}", g, windows, optimize=True)


def linear_gradient(lib: Any, x: Any, g: Any) -> Any:
    weight = lib.zeros((g.shape[1], x.shape[1]), dtype=x.dtype, requires_grad=True)
    return lib.autograd.grad(lib.nn.functional.linear(x, weight), weight, g)[0]


PRODUCTS = {
    "dot": Case(lambda k: ((k,), (k,)), lambda lib, a, b: a @ b, np.dot),
    "row times column": Case(lambda k: ((1, k), (k, 1)), lambda lib, a, b: a @ b, np.matmul),
    "matrix times vector": Case(lambda k: ((3, k), (k,)), lambda lib, a, b: a @ b, np.matmul),
    "vector times matrix": Case(lambda k: ((k,), (k, 5)), lambda lib, a, b: a @ b, np.matmul),
    "inner": Case(lambda k: ((4, k), (k, 6)), lambda lib, a, b: a @ b, np.matmul),
    "outer": Case(lambda k: ((k, 7), (k, 7)), lambda lib, a, b: a.T @ b, lambda a, b: a.T @ b),
    "batch": Case(lambda k: ((2, 3, k), (2, k, 2)), lambda lib, a, b: lib.bmm(a, b), np.matmul),
    "two labels": Case(
        lambda k: ((2, 512, k // 512), (512, k // 512)),
        lambda lib, a, b: lib.einsum("mij,ij->m", a, b),
        lambda a, b: np.einsum("mij,ij->m", a, b),
    ),
    "linear weight": Case(lambda k: ((k, 5), (k, 3)), linear_gradient, lambda x, g: g.T @ x),
    "conv1d weight": Case(
        lambda k: ((4, 2, k // 4 + 2), (4, 3, k // 4)), weight_gradient, exact_weight_gradient
    ),
    "conv2d weight": Case(
        lambda k: ((k // 4096, 2, 66, 66), (k // 4096, 2, 64, 64)),
        weight_gradient,
        exact_weight_gradient,
    ),
}

DATA: dict[str, Callable[[np.random.Generator, tuple[int, ...]], np.ndarray]] = {
    "tenths": lambda rng, shape: np.full(shape, 0.1),
    "uniform": lambda rng, shape: rng.random(shape),
    "far from zero": lambda rng, shape: 1000 + rng.standard_normal(shape),
}


def arrays(shapes: Sequence[tuple[int, ...]], data: str, dtype: Any) -> list[np.ndarray]:
    rng = np.random.default_rng(7)
    return [DATA[data](rng, shape).astype(dtype) for shape in shapes]


def error(result: Any, exact: np.ndarray) -> float:
    """Relative to the largest element."""
    found = np.asarray(result.detach().numpy(), np.float64)
    return float(np.abs(found - exact).max() / np.abs(exact).max())


@pytest.fixture
def torch() -> Any:
    """PyTorch, imported only where it is compared with."""
    return pytest.importorskip("torch", reason="compares with PyTorch: `make peers` installs it")


@pytest.fixture
def threads() -> Iterator[Callable[[int], None]]:
    before = config.num_threads
    yield cf.set_num_threads
    cf.set_num_threads(before)


# --- products ------------------------------------------------------------------------------------


@pytest.mark.parametrize("data", DATA)
@pytest.mark.parametrize("name", PRODUCTS)
def test_products_of_many_elements(name: str, data: str) -> None:
    case = PRODUCTS[name]
    given = arrays(case.shapes(QUICK), data, np.float32)
    exact = case.exact(*(x.astype(np.float64) for x in given))
    assert error(case.run(cf, *map(cf.tensor, given)), exact) < MOST


@pytest.mark.parametrize("dtype", [float16, bfloat16, float64], ids=str)
def test_products_of_other_types(dtype: cf.DType) -> None:
    k = 3 * SPAN + 1
    a, b = (cf.full((k, n), 0.01).to(dtype) for n in (3, 2))
    exact = k * float(a[0, 0]) * float(b[0, 0])
    result = a.T @ b
    assert result.dtype is dtype
    # Half precision is rounded once, at the end.
    most = {float16: 2**-11, bfloat16: 2**-8, float64: 1e-13}[dtype]
    assert error(result.double(), np.full((3, 2), exact)) < most


def check_threads(functions: Iterable[Callable[..., Any]], x: Any, threads: Any) -> None:
    """Each function has the same bits for any number of threads."""
    for function in functions:
        found = set()
        for n in THREADS:
            threads(n)
            found.add(function(cf, x).detach().numpy().tobytes())
        assert len(found) == 1


@pytest.mark.parametrize("name", [*PRODUCTS, "square"])
def test_products_have_the_same_bits_for_any_number_of_threads(name: str, threads: Any) -> None:
    square = Case(lambda k: ((150, 600), (600, 130)), lambda lib, a, b: a @ b, np.matmul)
    case = PRODUCTS.get(name, square)
    tensors = [cf.tensor(x) for x in arrays(case.shapes(1 << 17), "uniform", np.float32)]
    found = set()
    for n in THREADS:
        threads(n)
        compiled = cf.compile(lambda *xs: case.run(cf, *xs))
        found |= {f(*tensors).detach().numpy().tobytes() for f in (compiled, compiled)}
        found.add(case.run(cf, *tensors).detach().numpy().tobytes())
    assert len(found) == 1


def very_many(name: str, data: str) -> tuple[list[np.ndarray], np.ndarray]:
    case = PRODUCTS[name]
    given = arrays(case.shapes(LONG if name == "dot" else LONG >> 3), data, np.float32)
    return given, case.exact(*(x.astype(np.float64) for x in given))


@pytest.mark.slow
@pytest.mark.parametrize("data", ["tenths", "uniform"])
@pytest.mark.parametrize("name", ["dot", "conv1d weight", "outer"])
def test_products_of_very_many_elements(name: str, data: str) -> None:
    given, exact = very_many(name, data)
    run = PRODUCTS[name].run
    for function in (run, cf.compile(lambda lib, *xs: run(lib, *xs))):
        assert error(function(cf, *map(cf.tensor, given)), exact) <= MOST


@pytest.mark.slow
@pytest.mark.peers
@pytest.mark.parametrize("data", ["tenths", "uniform"])
@pytest.mark.parametrize("name", ["dot", "conv1d weight", "outer"])
def test_very_many_elements_beside_pytorch(name: str, data: str, torch: Any) -> None:
    given, exact = very_many(name, data)
    run = PRODUCTS[name].run
    ours = error(run(cf, *map(cf.tensor, given)), exact)
    theirs = error(run(torch, *map(torch.from_numpy, given)), exact)
    print(f"ours {ours:.1e}, PyTorch's {theirs:.1e}")
    assert ours <= max(10 * theirs, MOST)


@pytest.mark.peers
@pytest.mark.parametrize("data", DATA)
@pytest.mark.parametrize("name", PRODUCTS)
def test_products_are_no_further_off_than_those_of_pytorch(
    name: str, data: str, torch: Any
) -> None:
    case = PRODUCTS[name]
    given = arrays(case.shapes(QUICK), data, np.float32)
    exact = case.exact(*(x.astype(np.float64) for x in given))
    ours = error(case.run(cf, *map(cf.tensor, given)), exact)
    theirs = error(case.run(torch, *map(torch.tensor, given)), exact)
    assert ours <= max(10 * theirs, MOST), f"ours {ours:.1e}, PyTorch's {theirs:.1e}"


def test_long_products_are_cut_by_their_length() -> None:
    def text(k: int, dtype: str = "float32") -> str:
        rows = f"""tape t
          input %0 : {dtype}[2, {k}]  arg
          input %1 : {dtype}[{k}, 3]  arg
          %2 = matmul(%0, %1) : {dtype}[2, 3]
          return %2"""
        return optimize(Tape.parse(rows).verify()).verify().text()

    assert "matmul" in text(SPAN)
    assert "matmul" in text(4 * SPAN, "int64")  # exact as it is
    assert "contract(%3, %4, spec='mak,akn->amn') : float32[2, 2, 3]" in text(2 * SPAN)
    # A prime number of products leaves some over.
    rest = text(65537)
    assert rest.count("contract") == 2
    assert "strided(%0, shape=(2, 3, 21845), strides=(65537, 21845, 1), offset=0)" in rest
    assert "strided(%0, shape=(2, 1, 2), strides=(65537, 2, 1), offset=65535)" in rest
    half = text(2 * SPAN, "bfloat16")
    assert "float32[2, 2, 3]" in half
    assert "bfloat16[2, 2, 3]" not in half


# --- scans ---------------------------------------------------------------------------------------


def near_one(x: Any) -> Any:
    """Factors whose product stays within range, and rounds at every step."""
    return 1 + (x - 0.5) * 1e-5


def exact_logcumsumexp(x: np.ndarray) -> np.ndarray:
    return np.log(np.cumsum(np.exp(x)))


SCANS = {
    "cumsum": Case(lambda k: ((k,),), lambda lib, x: x.cumsum(0), np.cumsum),
    "cumsum of columns": Case(
        lambda k: ((k // 8, 8),), lambda lib, x: x.cumsum(0), lambda x: np.cumsum(x, 0)
    ),
    "cumsum of rows": Case(
        lambda k: ((4, k // 4),), lambda lib, x: x.cumsum(1), lambda x: np.cumsum(x, 1)
    ),
    "gradient of cumsum": Case(
        lambda k: ((k,),),
        lambda lib, x: lib.autograd.grad(x.requires_grad_().cumsum(0).sum(), x)[0],
        lambda x: np.arange(len(x), 0.0, -1),
    ),
    "cumprod": Case(
        lambda k: ((k,),),
        lambda lib, x: near_one(x).cumprod(0),
        lambda x: np.cumprod(near_one(x.astype(np.float32)).astype(np.float64)),
    ),
    "logcumsumexp": Case(lambda k: ((k,),), lambda lib, x: x.logcumsumexp(0), exact_logcumsumexp),
}


def scan_arrays(name: str, count: int, data: str) -> tuple[list[np.ndarray], np.ndarray]:
    given = arrays(SCANS[name].shapes(count), data, np.float32)
    return given, SCANS[name].exact(*(x.astype(np.float64) for x in given))


@pytest.mark.parametrize("data", ["tenths", "uniform"])
@pytest.mark.parametrize("name", SCANS)
def test_scans_of_many_elements(name: str, data: str) -> None:
    given, exact = scan_arrays(name, QUICK, data)
    run = SCANS[name].run
    for function in (run, cf.compile(lambda lib, *xs: run(lib, *xs))):
        assert error(function(cf, *map(cf.tensor, given)), exact) < 1e-7


@pytest.mark.parametrize("mode", ["native", "numpy"])
@pytest.mark.parametrize("name", SCANS)
def test_short_scans_carry_float64_too(
    name: str, mode: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(config, "eager_kernels", mode == "native")
    given, exact = scan_arrays(name, 2000, "uniform")
    assert error(SCANS[name].run(cf, *map(cf.tensor, given)), exact) < 6e-8


@pytest.mark.parametrize("dtype", [float16, bfloat16], ids=str)
def test_scans_of_half_precision_are_rounded_once(dtype: cf.DType) -> None:
    x = np.full(2000, 0.1).astype(dtype.numpy)
    expected = np.cumsum(x.astype(np.float64)).astype(dtype.numpy)
    for f in (lambda x: x.cumsum(0), cf.compile(lambda x: x.cumsum(0))):
        np.testing.assert_array_equal(f(cf.tensor(x)).numpy(), expected)


def test_the_last_of_a_long_scan() -> None:
    """PyTorch's is 1e-8 off; one running sum in float32 was 8.8e-2."""
    last = float(cf.full((10_000_000,), 0.1).cumsum(0)[-1])
    assert abs(last / (1e7 * float(np.float32(0.1))) - 1) < 6e-8


@pytest.mark.parametrize("shape", [(1 << 17,), (40_000, 5), (5, 40_000)], ids=str)
@pytest.mark.parametrize("name", ["cumsum", "cumprod", "logcumsumexp", "gradient of cumsum"])
def test_scans_have_the_same_bits_for_any_number_of_threads(
    name: str, shape: tuple[int, ...], threads: Any
) -> None:
    def run(lib: Any, x: Any) -> Any:  # along what is long
        return SCANS[name].run(lib, x.mT if shape[0] == 5 else x)

    (x,) = arrays([shape], "uniform", np.float32)
    check_threads((run, cf.compile(run)), cf.tensor(x), threads)


@pytest.mark.slow
def test_scans_of_very_many_elements() -> None:
    given, exact = scan_arrays("cumsum", LONG, "tenths")
    assert error(SCANS["cumsum"].run(cf, *map(cf.tensor, given)), exact) < 1e-7


@pytest.mark.peers
@pytest.mark.parametrize("name", SCANS)
def test_scans_are_no_further_off_than_those_of_pytorch(name: str, torch: Any) -> None:
    given, exact = scan_arrays(name, QUICK, "uniform")
    ours = error(SCANS[name].run(cf, *map(cf.tensor, given)), exact)
    theirs = error(SCANS[name].run(torch, *map(torch.tensor, given)), exact)
    assert ours <= max(1.01 * theirs, 6e-8), f"ours {ours:.1e}, PyTorch's {theirs:.1e}"


# --- scatters ------------------------------------------------------------------------------------

PLACES = 50  # elements that values meet in


def places(lib: Any, count: int) -> Any:
    """Where each value goes: half of them to one element, as a frequent word does."""
    number = lib.arange(count)
    return lib.where(number % 2 == 0, 7, number % PLACES)


def summed(x: np.ndarray) -> np.ndarray:
    number = np.arange(len(x))
    out = np.zeros((PLACES, *x.shape[1:]))
    np.add.at(out, np.where(number % 2 == 0, 7, number % PLACES), x)
    return out


def embedding_gradient(lib: Any, g: Any) -> Any:
    weight = lib.zeros((PLACES, g.shape[1]), requires_grad=True)
    rows = lib.nn.functional.embedding(places(lib, len(g)), weight)
    return lib.autograd.grad(rows, weight, g)[0]


def put_at_places(lib: Any, x: Any) -> Any:
    return lib.zeros(PLACES).index_put((places(lib, len(x)),), x, accumulate=True)


SCATTERS = {
    "index_add": Case(
        lambda k: ((k,),),
        lambda lib, x: lib.zeros(PLACES).index_add(0, places(lib, len(x)), x),
        summed,
    ),
    "index_add of rows": Case(
        lambda k: ((k // 4, 4),),
        lambda lib, x: lib.zeros(PLACES, 4).index_add(0, places(lib, len(x)), x),
        summed,
    ),
    "scatter_add": Case(
        lambda k: ((k,),),
        lambda lib, x: lib.zeros(PLACES).scatter_add(0, places(lib, len(x)), x),
        summed,
    ),
    "scatter_reduce": Case(
        lambda k: ((k,),),
        lambda lib, x: lib.zeros(PLACES).scatter_reduce(0, places(lib, len(x)), x, "sum"),
        summed,
    ),
    "index_put": Case(lambda k: ((k,),), put_at_places, summed),
    "embedding": Case(lambda k: ((k // 4, 4),), embedding_gradient, summed),
    "bincount": Case(
        lambda k: ((k,),),
        lambda lib, x: lib.bincount(places(lib, len(x)), x, minlength=PLACES),
        summed,
    ),
}


@pytest.mark.parametrize("data", DATA)
@pytest.mark.parametrize("name", SCATTERS)
def test_scatters_of_many_elements(name: str, data: str) -> None:
    case = SCATTERS[name]
    given = arrays(case.shapes(QUICK), data, np.float32)
    exact = case.exact(*(x.astype(np.float64) for x in given))
    assert error(case.run(cf, *map(cf.tensor, given)), exact) < 1e-7


@pytest.mark.parametrize("mode", ["native", "numpy"])
@pytest.mark.parametrize("name", SCATTERS)
def test_short_scatters(name: str, mode: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(config, "eager_kernels", mode == "native")
    case = SCATTERS[name]
    given = arrays(case.shapes(2000), "tenths", np.float32)
    exact = case.exact(*(x.astype(np.float64) for x in given))
    assert error(case.run(cf, *map(cf.tensor, given)), exact) < 6e-8


@pytest.mark.parametrize("name", SCATTERS)
def test_scatters_have_the_same_bits_for_any_number_of_threads(name: str, threads: Any) -> None:
    case = SCATTERS[name]
    functions = {case.run, cf.compile(lambda lib, x: case.run(lib, x))}
    if name == "bincount":  # compiled functions refuse a length that depends on values
        functions = {case.run}
    check_threads(
        functions, cf.tensor(*arrays(case.shapes(1 << 17), "uniform", np.float32)), threads
    )


@pytest.mark.slow
@pytest.mark.parametrize("name", ["index_add", "embedding"])
def test_scatters_of_very_many_elements(name: str) -> None:
    case = SCATTERS[name]
    given = arrays(case.shapes(LONG >> 1), "tenths", np.float32)
    exact = case.exact(*(x.astype(np.float64) for x in given))
    assert error(case.run(cf, *map(cf.tensor, given)), exact) < 1e-7


@pytest.mark.peers
@pytest.mark.parametrize("name", SCATTERS)
def test_scatters_are_no_further_off_than_those_of_pytorch(name: str, torch: Any) -> None:
    case = SCATTERS[name]
    given = arrays(case.shapes(QUICK), "tenths", np.float32)
    exact = case.exact(*(x.astype(np.float64) for x in given))
    ours = error(case.run(cf, *map(cf.tensor, given)), exact)
    theirs = error(case.run(torch, *map(torch.tensor, given)), exact)
    assert ours <= max(theirs, 6e-8), f"ours {ours:.1e}, PyTorch's {theirs:.1e}"


# --- all of them --------------------------------------------------------------------------------


def errors(name: str, torch: Any = None) -> Iterator[float | None]:
    """Over a million tenths: eager, compiled, and PyTorch's."""
    case = (PRODUCTS | SCANS | SCATTERS)[name]
    given = arrays(case.shapes(QUICK), "tenths", np.float32)
    exact = case.exact(*(x.astype(np.float64) for x in given))
    yield error(case.run(cf, *map(cf.tensor, given)), exact)
    compiled = cf.compile(lambda *xs: case.run(cf, *xs))
    # A length that depends on values is no compiled function's.
    yield None if name == "bincount" else error(compiled(*map(cf.tensor, given)), exact)
    if torch is not None:
        yield error(case.run(torch, *map(torch.tensor, given)), exact)


@pytest.mark.parametrize("name", [*PRODUCTS, *SCANS, *SCATTERS])
def test_errors_are_those_of_the_page(name: str) -> None:
    eager, compiled = errors(name)
    most = MOST if name in PRODUCTS else 1e-7
    assert eager is not None
    assert eager <= min(allowed("Reducing ops", name, "eager"), most)
    if compiled is not None:
        assert compiled <= min(allowed("Reducing ops", name, "compiled"), most)


@pytest.mark.parametrize(
    ("line", "carried"),
    [
        ("cumsum(%0, dim=0, reverse=False) : float32[200, 3]", True),
        ("cummax(%0, dim=0) : float32[200, 3], int64[200, 3]", False),
        ("scatter_add(%2, %1, %0, dim=0) : float32[4, 3]", True),
        ("scatter_add(%3, %1, %0, dim=0) : float32[900, 3]", False),  # hardly any meet
        ("scatter(%2, %1, %0, dim=0) : float32[4, 3]", False),
        ("scatter_fold(%2, %1, %0, dim=0, reduce='prod', {}) : float32[4, 3]", True),
        ("scatter_fold(%2, %1, %0, dim=0, reduce='amax', {}) : float32[4, 3]", False),
    ],
)
def test_what_is_carried_in_float64_and_where(line: str, carried: bool) -> None:
    outs = "%4, %5" if "cummax" in line else "%4"
    tape = f"""tape t
      input %0 : float32[200, 3]  arg
      input %1 : int64[200, 3]  arg
      input %2 : float32[4, 3]  arg
      input %3 : float32[900, 3]  arg
      {outs} = {line.format("include_self=True")}
      return %4"""
    kernels = frozenset(("scan", "scatter"))
    for doubles in (True, False):
        limits = Limits(kernels=kernels, doubles=doubles)
        uses = fuse(Tape.parse(tape).verify(), set(), limits)
        boxes = [use.call.kernel for use in uses if isinstance(use, KernelUse)]
        used = {e.dtype for box in boxes if isinstance(box, Box) for e in s.walk(box.roots)}
        assert (float64 in used) is (carried and doubles)
