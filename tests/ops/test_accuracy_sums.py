"""Every op that adds up many numbers, on hard data: terms of one sign, so that a running sum fails.

Each is called in float32, eagerly and compiled, and compared with itself in float64. The cases are
PyTorch's calls too, so that its error can be put beside ours. Products, scans and scatters are in
`test_accuracy_products.py`, variances of hard data in `test_accuracy_statistics.py`. The tables of
cases are those of docs/accuracy.md, which says how large the errors are at most.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
import pytest
from tests.helpers.accuracy import allowed, promised
from tests.helpers.op_checks import samples_of, to_tensor
from tests.ops.test_accuracy_products import PRODUCTS, SCANS, SCATTERS

import contraflow as cf
from contraflow import config
from contraflow.operation.context import apply
from contraflow.operation.op import REGISTRY, Op
from contraflow.testing import make_inputs

ALLOWED = 3e-6  # of the largest element of a result
SMALL, LARGE = 1 << 20, 1 << 26
LONG_SUMS = "Sums of very many numbers"  # of docs/accuracy.md

# A case is a function of a library, its functional part, a tensor and a dim: (rows, 4) and dim 0,
# or (4, columns) and dim 1. Those in WHOLE reduce everything, whatever the dim.
Case = Callable[[Any, Any, Any, int], Any]
ALONG: dict[str, Case] = {
    "sum": lambda m, F, x, d: x.sum(d),
    "mean": lambda m, F, x, d: x.mean(d),
    "nansum": lambda m, F, x, d: x.nansum(d),
    "nanmean": lambda m, F, x, d: x.nanmean(d),
    "logsumexp": lambda m, F, x, d: x.logsumexp(d),
    "vector_norm": lambda m, F, x, d: m.linalg.vector_norm(x, 2, d),
    "vector_norm 1": lambda m, F, x, d: m.linalg.vector_norm(x, 1, d),
    "vector_norm 3": lambda m, F, x, d: m.linalg.vector_norm(x, 3, d),
    "norm": lambda m, F, x, d: x.norm(dim=d),
    "var": lambda m, F, x, d: x.var(d),
    "std": lambda m, F, x, d: x.std(d),
    "var_mean": lambda m, F, x, d: m.var_mean(x, d)[1],
    "std_mean": lambda m, F, x, d: m.std_mean(x, d)[0],
    "softmax": lambda m, F, x, d: F.softmax(x, d),
    "softmin": lambda m, F, x, d: F.softmin(x, d),
    "log_softmax": lambda m, F, x, d: F.log_softmax(x, d),
    "normalize": lambda m, F, x, d: F.normalize(x, dim=d),
    "cosine_similarity": lambda m, F, x, d: F.cosine_similarity(x, x * x, dim=d),
    "count_nonzero": lambda m, F, x, d: m.count_nonzero(x, d).to(x.dtype),
    "trapezoid": lambda m, F, x, d: m.trapezoid(x, dim=d),
    "gradient of expand": lambda m, F, x, d: _gradient(m, x, d),
}
WHOLE: dict[str, Case] = {
    "sum": lambda m, F, x, d: x.sum(),
    "mean": lambda m, F, x, d: x.mean(),
    "norm": lambda m, F, x, d: x.norm(),
    "matrix_norm": lambda m, F, x, d: m.linalg.matrix_norm(x),
    "linalg_norm": lambda m, F, x, d: m.linalg.norm(x),
    "dist": lambda m, F, x, d: m.dist(x, x * 0.5),
    "sum_to_size": lambda m, F, x, d: x.sum_to_size(1, 1),
    "pairwise_distance": lambda m, F, x, d: F.pairwise_distance(x.view(1, -1), x.view(1, -1) * 3.0),
    "pdist": lambda m, F, x, d: F.pdist(m.stack([x.flatten(), x.flatten() * 3.0])),
    "cdist": lambda m, F, x, d: m.cdist(x.view(1, -1), x.view(1, -1) * 3.0),
    "renorm": lambda m, F, x, d: m.renorm(x.view(1, -1), 2, 0, 1.0),
    "trace": lambda m, F, x, d: m.trace(x.view(1, -1)[:, :1500].expand(1500, 1500)),
    "cov": lambda m, F, x, d: m.cov(m.stack([x.flatten(), x.flatten() ** 2])),
    "corrcoef": lambda m, F, x, d: m.corrcoef(m.stack([x.flatten(), x.flatten() ** 2])),
    "mse_loss": lambda m, F, x, d: F.mse_loss(x, x * 3.0, reduction="sum"),
    "l1_loss": lambda m, F, x, d: F.l1_loss(x, x * 3.0),
    "smooth_l1_loss": lambda m, F, x, d: F.smooth_l1_loss(x, x * 3.0),
    "huber_loss": lambda m, F, x, d: F.huber_loss(x, x * 3.0),
    "poisson_nll_loss": lambda m, F, x, d: F.poisson_nll_loss(x, x * 3.0),
    "gaussian_nll_loss": lambda m, F, x, d: F.gaussian_nll_loss(x, x * 3.0, x * 7.0),
    "margin_ranking_loss": lambda m, F, x, d: F.margin_ranking_loss(x, x * 3.0, x / x),
    "hinge_embedding_loss": lambda m, F, x, d: F.hinge_embedding_loss(x, x / x),
    "soft_margin_loss": lambda m, F, x, d: F.soft_margin_loss(x, x / x),
    "triplet_margin_loss": lambda m, F, x, d: F.triplet_margin_loss(
        x.view(1, -1) * 3.0, x.view(1, -1), x.view(1, -1) * 2.5
    ),
    "cosine_embedding_loss": lambda m, F, x, d: F.cosine_embedding_loss(
        x.view(1, -1), x.view(1, -1) ** 2, -m.ones(1, dtype=x.dtype)
    ),
    "binary_cross_entropy": lambda m, F, x, d: F.binary_cross_entropy(x, x),
    "binary_cross_entropy_with_logits": lambda m, F, x, d: F.binary_cross_entropy_with_logits(x, x),
    "kl_div": lambda m, F, x, d: F.kl_div(x, x * 3.0, reduction="sum"),
    "nll_loss": lambda m, F, x, d: F.nll_loss(x.view(-1, 2), m.ones(x.numel() // 2).long()),
    "cross_entropy": lambda m, F, x, d: F.cross_entropy(
        x.view(-1, 2), m.ones(x.numel() // 2).long()
    ),
    "one row of cross_entropy": lambda m, F, x, d: F.cross_entropy(x.view(1, -1), m.ones(1).long()),
    "multi_margin_loss": lambda m, F, x, d: F.multi_margin_loss(x.view(1, -1), m.ones(1).long()),
    "multilabel_soft_margin_loss": lambda m, F, x, d: F.multilabel_soft_margin_loss(
        x.view(-1, 4), x.view(-1, 4)
    ),
    "layer_norm": lambda m, F, x, d: F.layer_norm(x, x.shape),
    "rms_norm": lambda m, F, x, d: F.rms_norm(x, x.shape, eps=1e-6),
    "group_norm": lambda m, F, x, d: F.group_norm(x.view(1, 4, -1), 2),
    "instance_norm": lambda m, F, x, d: F.instance_norm(x.view(1, 4, -1)),
    "batch_norm": lambda m, F, x, d: F.batch_norm(x.view(-1, 4), None, None, training=True),
    "local_response_norm": lambda m, F, x, d: F.local_response_norm(
        x.view(1, -1, 2)[:, :4000], 1000, 100.0
    ),
    "avg_pool1d": lambda m, F, x, d: F.avg_pool1d(x.view(1, 1, -1)[..., : 1 << 18], 1 << 16),
    "avg_pool2d": lambda m, F, x, d: F.avg_pool2d(x.view(1, 1, 512, -1)[..., :512], 256),
    "avg_pool3d": lambda m, F, x, d: F.avg_pool3d(x.view(1, 1, 64, 64, -1)[..., :64], 32),
    "lp_pool1d": lambda m, F, x, d: F.lp_pool1d(x.view(1, 1, -1)[..., : 1 << 18], 2.0, 1 << 16),
    "lp_pool2d": lambda m, F, x, d: F.lp_pool2d(x.view(1, 1, 512, -1)[..., :512], 2.0, 256),
    "lp_pool3d": lambda m, F, x, d: F.lp_pool3d(x.view(1, 1, 64, 64, -1)[..., :64], 2.0, 32),
    "adaptive_avg_pool1d": lambda m, F, x, d: F.adaptive_avg_pool1d(x.view(1, 1, -1), 3),
    "adaptive_avg_pool2d": lambda m, F, x, d: F.adaptive_avg_pool2d(x.view(1, 1, 512, -1), 3),
    "adaptive_avg_pool3d": lambda m, F, x, d: F.adaptive_avg_pool3d(x.view(1, 1, 64, 64, -1), 1),
    "interpolate": lambda m, F, x, d: F.interpolate(x.view(1, 1, -1), size=1, mode="area"),
    "clip_grad_norm_": lambda m, F, x, d: _clipped(m, x),
    "Adafactor": lambda m, F, x, d: _adafactor(m, x),
}
# Ops whose results are not float sums of many elements of one input, or that are tested elsewhere.
ELSEWHERE = {
    "index_reduce": "scatters: test_accuracy_products.py",
    "multilabel_margin_loss": "a sum over pairs of classes",
    "scaled_dot_product_attention": "products: test_accuracy_products.py",
    "tensordot": "products: test_accuracy_products.py",
    "vecdot": "products: test_accuracy_products.py",
    "cond": "a decomposition comes first",
    "lstsq": "a decomposition comes first",
    "igamma": "a sum over the points of a rule",
    "igammac": "a sum over the points of a rule",
    "mvlgamma": "as many terms as its parameter says",
    "embedding_bag": "scatters: test_accuracy_products.py",
}


class Long(NamedTuple):
    """A sum of very many numbers: its data, what is computed of them, and what that is."""

    data: Callable[[], np.ndarray]
    run: Callable[[Any, Any], Any]
    exact: Callable[[np.ndarray], Any]


def about(mean: float, deviation: float) -> np.ndarray:
    noise = np.random.default_rng(0).standard_normal((1_000_000, 4))
    return (mean + deviation * noise).astype(np.float32)


def tenths(*shape: int) -> np.ndarray:
    return np.full(shape, 0.1, np.float32)


def whole(x: np.ndarray) -> np.ndarray:
    """The sum of rows that are all the same."""
    return np.asarray(x[0] * len(x))


LONG: dict[str, Long] = {
    **{
        f"{name} of 1,000,000 rows about {mean:,}": Long(
            lambda mean=mean, deviation=deviation: about(mean, deviation),
            lambda m, x, name=name: getattr(x, name)(0),
            lambda x, name=name: x.mean(0) if name == "mean" else x.std(0, ddof=1),
        )
        for name in ("mean", "std")
        for mean, deviation in ((1000, 1), (100_000, 10))
    },
    "ones(2**25, 2).sum(0)": Long(
        lambda: np.ones((1 << 25, 2), np.float32), lambda m, x: x.sum(0), whole
    ),
    "full((4_000_000, 8), .1).sum(0)": Long(
        lambda: tenths(4_000_000, 8), lambda m, x: x.sum(0), whole
    ),
    "last of cumsum of 10,000,000": Long(
        lambda: tenths(10_000_000), lambda m, x: x.cumsum(0)[-1], whole
    ),
    "sum of 50,000,000": Long(lambda: tenths(50_000_000), lambda m, x: x.sum(), whole),
    "gradient of a bias over 1,000,000 rows": Long(
        lambda: hard(8_000_000).reshape(-1, 8), lambda m, x: _bias(m, x), lambda x: x.sum(0)
    ),
}


def _bias(m: Any, cotangent: Any) -> Any:
    weight, bias = m.zeros(8, 2), m.zeros(8).requires_grad_()
    y = m.nn.functional.linear(m.zeros(len(cotangent), 2), weight, bias)
    return m.autograd.grad(y, [bias], cotangent)[0]


def _gradient(m: Any, x: Any, d: int) -> Any:
    b = x.narrow(d, 0, 1).detach().clone().requires_grad_()
    (found,) = m.autograd.grad(b.expand(x.shape), [b], x)
    return found


def _clipped(m: Any, x: Any) -> Any:
    w = m.zeros_like(x).requires_grad_()
    w.grad = x
    return m.nn.utils.clip_grad_norm_([w], 1e9)


def _adafactor(m: Any, x: Any) -> Any:
    """A step by means of squares: of rows, of columns, of the parameter and of the step."""
    w = x.clone().requires_grad_()
    w.grad = -x
    m.optim.Adafactor([w], lr=1.0).step()
    return w.detach()


def hard(n: int) -> np.ndarray:
    """Numbers about a tenth: sums of them round in one direction for long stretches."""
    return (0.1 + 0.01 * np.random.default_rng(n).random(n)).astype(np.float32)


def relative(result: np.ndarray, exact: np.ndarray) -> float:
    """The largest error, as a part of the largest element."""
    assert result.dtype == np.float32
    assert result.size == exact.size
    return float(np.max(np.abs(result.astype(np.float64) - exact)) / np.max(np.abs(exact)))


def cases() -> Iterator[Any]:
    for name in ALONG:
        yield pytest.param(name, 0, id=f"{name} of columns")
        yield pytest.param(name, 1, id=f"{name} of rows")
    for name in WHOLE:
        yield pytest.param(name, None, id=f"{name} of all")


def given(n: int, dim: int | None) -> np.ndarray:
    return hard(n).reshape((4, -1) if dim == 1 else (-1, 4))


def added(x: np.ndarray, dim: int | None) -> Any:
    return np.sum(x, dim, dtype=np.longdouble)


def spread(x: np.ndarray, dim: int | None) -> Any:
    """The variance, in two passes."""
    count = x.size if dim is None else x.shape[dim]
    centre = (added(x, dim) / count).astype(np.float64)
    return added((x - (centre if dim is None else np.expand_dims(centre, dim))) ** 2, dim) / (
        count - 1
    )


# What NumPy makes of float64, adding up in long doubles. Other cases are judged by themselves.
NUMPY: dict[str, Callable[[np.ndarray, int | None], Any]] = {
    "sum": added,
    "nansum": added,
    "sum_to_size": added,
    "mean": lambda x, d: added(x, d) / (x.size if d is None else x.shape[d]),
    "nanmean": lambda x, d: added(x, d) / x.shape[d],
    "var_mean": lambda x, d: added(x, d) / x.shape[d],
    "norm": lambda x, d: np.sqrt(added(x * x, d)),
    "vector_norm": lambda x, d: np.sqrt(added(x * x, d)),
    "vector_norm 1": lambda x, d: added(np.abs(x), d),
    "vector_norm 3": lambda x, d: np.cbrt(added(np.abs(x) ** 3, d)),
    "matrix_norm": lambda x, d: np.sqrt(added(x * x, d)),
    "linalg_norm": lambda x, d: np.sqrt(added(x * x, d)),
    "clip_grad_norm_": lambda x, d: np.sqrt(added(x * x, d)),
    "var": spread,
    "std": lambda x, d: np.sqrt(spread(x, d)),
    "std_mean": lambda x, d: np.sqrt(spread(x, d)),
    "count_nonzero": lambda x, d: np.count_nonzero(x, d),
    "gradient of expand": lambda x, d: np.expand_dims(added(x, d), d),
}


def called(m: Any, name: str, dim: int | None, x: Any) -> Any:
    """A case of a library."""
    return (WHOLE if dim is None else ALONG)[name](m, m.nn.functional, x, dim or 0)


def exactly(name: str, x: np.ndarray, dim: int | None) -> np.ndarray:
    wide = x.astype(np.float64)
    if name in NUMPY:
        return np.asarray(NUMPY[name](wide, dim), np.float64)
    result = called(cf, name, dim, cf.tensor(wide)).numpy()
    assert result.dtype == np.float64
    return result


def errors(name: str, n: int, dim: int | None, torch: Any = None) -> Iterator[float]:
    """Of so many terms: eager, compiled, and PyTorch's."""
    x = given(n, dim)
    exact = exactly(name, x, dim)
    compiled = cf.compile(lambda t: called(cf, name, dim, t))
    yield relative(called(cf, name, dim, cf.tensor(x)).numpy(), exact)
    yield relative(compiled(cf.tensor(x)).numpy(), exact)
    if torch is not None:
        yield relative(called(torch, name, dim, torch.tensor(x)).numpy(), exact)


@pytest.mark.parametrize(("name", "dim"), list(cases()))
def test_a_million_terms(name: str, dim: int | None, request: pytest.FixtureRequest) -> None:
    eager, compiled = errors(name, SMALL, dim)
    row = request.node.callspec.id
    assert eager <= min(allowed("Reducing ops", row, "eager"), ALLOWED)
    assert compiled <= min(allowed("Reducing ops", row, "compiled"), ALLOWED)


@pytest.mark.slow
@pytest.mark.parametrize("n", [LARGE >> 3, LARGE])
@pytest.mark.parametrize(("name", "dim"), list(cases()))
def test_many_terms(name: str, dim: int | None, n: int) -> None:
    eager, compiled = errors(name, n, dim)
    assert eager <= ALLOWED
    assert compiled <= ALLOWED


@pytest.mark.peers
@pytest.mark.parametrize(("name", "dim"), list(cases()))
def test_beside_pytorch(name: str, dim: int | None) -> None:
    torch = pytest.importorskip("torch", reason="PyTorch is not installed")
    eager, compiled, theirs = errors(name, SMALL, dim, torch)
    assert max(eager, compiled) <= max(ALLOWED, 10 * theirs)


def long_errors(name: str, torch: Any = None) -> Iterator[float]:
    """Those of `LONG`: eager, compiled, and PyTorch's."""
    case = LONG[name]
    x = case.data()
    exact = case.exact(x.astype(np.float64))
    for function in (case.run, cf.compile(lambda m, x: case.run(m, x))):
        yield relative(function(cf, cf.tensor(x)).numpy(), exact)
    if torch is not None:
        yield relative(case.run(torch, torch.from_numpy(x)).numpy(), exact)


@pytest.mark.parametrize("name", LONG)
def test_long_sums(name: str) -> None:
    eager, compiled = long_errors(name)
    assert eager <= min(allowed(LONG_SUMS, name, "eager"), ALLOWED)
    assert compiled <= min(allowed(LONG_SUMS, name, "compiled"), ALLOWED)


@pytest.mark.peers
@pytest.mark.parametrize("name", LONG)
def test_long_sums_beside_pytorch(name: str) -> None:
    torch = pytest.importorskip("torch", reason="PyTorch is not installed")
    eager, compiled, theirs = long_errors(name, torch)
    assert max(eager, compiled) <= max(ALLOWED, 10 * theirs)


# --- optimizers whose steps depend on sums ------------------------------------------------------


def lbfgs(m: Any, x: Any) -> Any:
    """Three iterations on a parabola, whose steps are made of dot products."""
    w, size = m.zeros_like(x).requires_grad_(), x.numel()
    optimizer = m.optim.LBFGS(
        [w], size / 16, max_iter=3, max_eval=9, tolerance_grad=0.0, tolerance_change=0.0
    )

    def closure() -> Any:
        w.grad = (w.detach() - x) * (8 / size)
        return (w.grad * w.grad).sum()

    optimizer.step(closure)
    return w.detach()


MANY = [SMALL, pytest.param(LARGE >> 3, marks=pytest.mark.slow)]


@pytest.mark.parametrize("n", MANY)
def test_dot_products_of_lbfgs(n: int) -> None:
    # Compiled functions refuse its step, which depends on values.
    x = given(n, 0)
    exact = lbfgs(cf, cf.tensor(x.astype(np.float64))).numpy()
    assert relative(lbfgs(cf, cf.tensor(x)).numpy(), exact) <= ALLOWED


@pytest.mark.peers
def test_lbfgs_beside_pytorch() -> None:
    torch = pytest.importorskip("torch", reason="PyTorch is not installed")
    x = given(SMALL, 0)
    exact = lbfgs(torch, torch.tensor(x.astype(np.float64))).numpy()
    theirs = relative(lbfgs(torch, torch.tensor(x)).numpy(), exact)
    assert relative(lbfgs(cf, cf.tensor(x)).numpy(), exact) <= max(ALLOWED, 10 * theirs)


@pytest.mark.parametrize("n", MANY)
@pytest.mark.parametrize("compiled", [False, True])
def test_the_norm_of_muon(compiled: bool, n: int) -> None:
    def step(x: Any) -> Any:
        w = cf.zeros_like(x).requires_grad_()
        w.grad = -x
        cf.optim.Muon([w], lr=1.0, weight_decay=0.0, ns_steps=0).step()
        return w.detach()

    x = given(n, 0)
    wide = x.astype(np.float64)
    exact = wide * np.sqrt(len(x) / 4) / np.sqrt((wide * wide).sum())
    result = (cf.compile(step) if compiled else step)(cf.tensor(x)).numpy()
    assert relative(result, exact) <= 2**-7  # the norm and the quotient, rounded to bfloat16
    assert abs(result.mean(dtype=np.float64) / exact.mean() - 1) <= 2**-9  # the norm


def test_the_page_has_every_case() -> None:
    others = {*PRODUCTS, *SCANS, *SCATTERS}
    assert promised("Reducing ops").keys() == {str(case.id) for case in cases()} | others
    assert promised(LONG_SUMS).keys() == LONG.keys()


# --- every op that adds up is here ---------------------------------------------------------------


def adds_up(op: Op) -> bool:
    """Whether some sample of an op is recorded with a sum of floats."""
    for sample in samples_of(op):
        inputs = [to_tensor(x) for x in make_inputs(sample)]
        compiled: Any = cf.compile(lambda *xs, p=sample.params: apply(op, xs, p))
        compiled(*inputs)
        specs = compiled.tape.specs
        sums = [line for line in compiled.tape.lines if line.op.name == "sum"]
        if any(specs[line.outs[0]].dtype.is_floating_point for line in sums):
            return True
    return False


def test_every_op_that_adds_up_is_tested(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(config, "compile_mode", "interpret")
    tested = {name.split()[0] for name in (*ALONG, *WHOLE)} | ELSEWHERE.keys()
    ops = [op for op in REGISTRY.values() if not (op.dynamic or op.internal)]
    assert {op.name for op in ops if adds_up(op)} <= tested
