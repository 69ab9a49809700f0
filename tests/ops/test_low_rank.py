"""Singular values and principal components from few random vectors, beside NumPy's whole ones."""

from __future__ import annotations

import numpy as np
import pytest

import contraflow as cf
from contraflow.testing import assert_close


@pytest.mark.parametrize("shape", [(9, 5), (5, 9), (2, 7, 6)])
def test_matrices_of_low_rank_are_decomposed_exactly(shape: tuple[int, ...]) -> None:
    cf.manual_seed(0)
    *batch, m, n = shape
    x = cf.randn(*batch, m, 3, dtype=cf.float64) @ cf.randn(*batch, 3, n, dtype=cf.float64)
    U, S, V = cf.svd_lowrank(x, q=4)
    assert (U.shape, S.shape, V.shape) == ((*batch, m, 4), (*batch, 4), (*batch, n, 4))
    assert_close(U * S.unsqueeze(-2) @ V.mT, x, atol=1e-10)
    assert_close(S, np.linalg.svd(x.numpy(), compute_uv=False)[..., :4], atol=1e-10)
    assert_close(U.mT @ U, cf.eye(4, dtype=cf.float64).expand(*batch, 4, 4), atol=1e-10)
    assert_close(cf.svd_lowrank(x + 1, q=3, M=cf.ones_like(x)).S, S[..., :3], atol=1e-10)


def test_more_rounds_come_nearer() -> None:
    cf.manual_seed(0)
    x = cf.randn(60, 40, dtype=cf.float64) * 0.5 ** cf.arange(40.0, dtype=cf.float64)
    largest = np.linalg.svd(x.numpy(), compute_uv=False)[:6]
    errors = [np.abs(cf.svd_lowrank(x, niter=k).S.numpy() - largest).max() for k in (0, 2, 10)]
    assert errors[0] > errors[1] > errors[2]
    assert errors[2] < 1e-8


def test_principal_components_are_of_the_centred_rows() -> None:
    cf.manual_seed(0)
    x = cf.randn(50, 3, dtype=cf.float64) * cf.tensor([5.0, 1.0, 0.1]) + 100
    _, S, V = cf.pca_lowrank(x)
    values, vectors = np.linalg.eigh(np.cov(x.numpy().T))
    assert_close(S**2 / 49, values[::-1].copy())
    assert_close(V.abs(), np.abs(vectors[:, ::-1]))
    assert cf.pca_lowrank(x, q=1, center=False).S.item() > 500  # the mean is the largest part


def test_it_has_gradients_and_compiles() -> None:
    x = cf.randn(6, 4, dtype=cf.float64, requires_grad=True)
    cf.svd_lowrank(x, q=4).S.sum().backward()
    u, _, vt = np.linalg.svd(x.detach().numpy(), full_matrices=False)
    assert_close(x.grad, u @ vt)  # of the sum of all singular values
    compiled = cf.compile(lambda x: cf.svd_lowrank(x, q=4).S)
    assert_close(compiled(x.detach()), np.linalg.svd(x.detach().numpy(), compute_uv=False))


def test_what_is_refused() -> None:
    with pytest.raises(ValueError, match=r"svd_lowrank: q=6 of float32\[3, 4\]; .* has 3 singular"):
        cf.svd_lowrank(cf.ones(3, 4))
    with pytest.raises(ValueError, match=r"svd_lowrank: float32\[3\] is not a matrix of floats"):
        cf.svd_lowrank(cf.ones(3))
    with pytest.raises(ValueError, match=r"pca_lowrank: niter=-1 is negative"):
        cf.pca_lowrank(cf.ones(3, 3), niter=-1)
