"""Every op that adds up many numbers, on hard data: terms of one sign, so that a running sum fails.

Each is called in float32, eagerly and compiled, and compared with itself in float64. The cases are
PyTorch's calls too, so that its error can be put beside ours. Products, scans and scatters are in
`test_accuracy_products.py`, variances of hard data in `test_accuracy_statistics.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from tests.helpers.op_checks import samples_of, to_tensor

import contraflow as cf
from contraflow import config
from contraflow.operation.context import apply
from contraflow.operation.op import REGISTRY, Op
from contraflow.testing import make_inputs

ALLOWED = 3e-6  # of the largest element of a result
SMALL, LARGE = 1 << 20, 1 << 26

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


def _gradient(m: Any, x: Any, d: int) -> Any:
    b = x.narrow(d, 0, 1).detach().clone().requires_grad_()
    (found,) = m.autograd.grad(b.expand(x.shape), [b], x)
    return found


def _clipped(m: Any, x: Any) -> Any:
    w = m.zeros_like(x).requires_grad_()
    w.grad = x
    return m.nn.utils.clip_grad_norm_([w], 1e9)


def hard(n: int) -> np.ndarray:
    """Numbers about a tenth: sums of them round in one direction for long stretches."""
    return (0.1 + 0.01 * np.random.default_rng(n).random(n)).astype(np.float32)


def relative(result: np.ndarray, exact: np.ndarray) -> float:
    """The largest error, as a part of the largest element."""
    return float(np.max(np.abs(result.astype(np.float64) - exact)) / np.max(np.abs(exact)))


def cases() -> Iterator[Any]:
    for name, function in ALONG.items():
        yield pytest.param(function, 0, id=f"{name} of columns")
        yield pytest.param(function, 1, id=f"{name} of rows")
    for name, function in WHOLE.items():
        yield pytest.param(function, None, id=f"{name} of all")


def given(n: int, dim: int | None) -> np.ndarray:
    return hard(n).reshape((4, -1) if dim == 1 else (-1, 4))


def error(case: Case, x: np.ndarray, dim: int | None, exact: np.ndarray, compiled: bool) -> float:
    def function(t: Any) -> Any:
        return case(cf, cf.nn.functional, t, dim or 0)

    result = (cf.compile(function) if compiled else function)(cf.tensor(x))
    return relative(result.numpy(), exact)


@pytest.mark.parametrize(("case", "dim"), list(cases()))
def test_a_million_terms(case: Case, dim: int | None) -> None:
    x = given(SMALL, dim)
    exact = case(cf, cf.nn.functional, cf.tensor(x.astype(np.float64)), dim or 0).numpy()
    assert exact.dtype == np.float64
    assert error(case, x, dim, exact, compiled=False) <= ALLOWED
    assert error(case, x, dim, exact, compiled=True) <= ALLOWED


@pytest.mark.slow
@pytest.mark.parametrize("n", [LARGE >> 3, LARGE])
@pytest.mark.parametrize(("case", "dim"), list(cases()))
def test_many_terms(case: Case, dim: int | None, n: int) -> None:
    x = given(n, dim)
    exact = case(cf, cf.nn.functional, cf.tensor(x.astype(np.float64)), dim or 0).numpy()
    assert error(case, x, dim, exact, compiled=False) <= ALLOWED


@pytest.mark.peers
@pytest.mark.parametrize(("case", "dim"), list(cases()))
def test_beside_pytorch(case: Case, dim: int | None) -> None:
    torch = pytest.importorskip("torch", reason="PyTorch is not installed")
    x = given(SMALL, dim)
    wide = torch.tensor(x.astype(np.float64))
    exact = case(torch, torch.nn.functional, wide, dim or 0).numpy()
    theirs = relative(case(torch, torch.nn.functional, torch.tensor(x), dim or 0).numpy(), exact)
    for compiled in (False, True):
        ours = error(case, x, dim, exact, compiled)
        print(f"PyTorch {theirs:.1e}, here {ours:.1e}")
        assert ours <= max(ALLOWED, 10 * theirs)


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
