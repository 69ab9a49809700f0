"""How far products, scans and scatters of many elements are from exact ones, on data that is hard.

Each case is a function of a library (contraflow or PyTorch) and tensors, and of NumPy over float64.
Errors are relative to the largest element of the result.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import pytest

import contraflow as cf
from contraflow import config, nn  # noqa: F401 - `cf.nn`, as PyTorch has it
from contraflow.dtypes import bfloat16, float16, float64
from contraflow.passes import optimize
from contraflow.spans import SPAN
from contraflow.tape import Tape

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
    tensors = [cf.tensor(x) for x in given]
    compiled = cf.compile(lambda *xs: case.run(cf, *xs))
    for result in (case.run(cf, *tensors), compiled(*tensors)):
        # A row of tenths is not added in panels: PyTorch's dot is 2.6e-5 off.
        assert error(result, exact) < (1e-5 if name in ("dot", "row times column") else MOST)


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


@pytest.mark.slow
@pytest.mark.parametrize("data", ["tenths", "uniform"])
@pytest.mark.parametrize("name", ["dot", "conv1d weight", "outer"])
def test_products_of_very_many_elements(name: str, data: str) -> None:
    case = PRODUCTS[name]
    count = LONG if name == "dot" else LONG >> 3
    given = arrays(case.shapes(count), data, np.float32)
    exact = case.exact(*(x.astype(np.float64) for x in given))
    # PyTorch's are 2e-5 to 6e-2 off.
    assert error(case.run(cf, *map(cf.tensor, given)), exact) < 1e-5


@pytest.mark.peers
@pytest.mark.parametrize("data", DATA)
@pytest.mark.parametrize("name", PRODUCTS)
def test_products_are_no_further_off_than_those_of_pytorch(name: str, data: str) -> None:
    torch = pytest.importorskip(
        "torch", reason="compares with PyTorch, which `make peers` installs"
    )
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
