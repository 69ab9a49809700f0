"""Linear algebra: what the matrix of test_ops.py cannot see.

The namespace, refusals word for word, degenerate matrices, and identities between decompositions.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests.helpers.engine_common import refused

import contraflow as cf
from contraflow.autograd import grad
from contraflow.linalg import LinAlgError
from contraflow.testing import assert_close, check_gradients

RNG = np.random.default_rng(4)
A = RNG.uniform(-1.0, 1.0, (2, 3, 3)) + 2.0 * np.eye(3)


def test_every_public_name_is_there() -> None:
    for name in cf.linalg.__all__:
        assert callable(getattr(cf.linalg, name)), name


# --- refusals ----------------------------------------------------------------------------------


def test_singular_and_indefinite_matrices() -> None:
    assert issubclass(LinAlgError, RuntimeError)
    flat = cf.ones(2, 2)
    with refused(LinAlgError, "inv: float32[2, 2] is singular."):
        cf.linalg.inv(flat)
    with refused(LinAlgError, "solve: float32[2, 2] is singular."):
        cf.linalg.solve(flat, cf.ones(2))
    with refused(LinAlgError, "cholesky: float32[2, 2] is not positive definite."):
        cf.linalg.cholesky(-flat)


def test_a_singular_matrix_is_noticed_inside_a_program() -> None:
    compiled = cf.compile(lambda x: cf.linalg.inv(x))
    assert compiled(cf.tensor([[2.0]])).tolist() == [[0.5]]
    with pytest.raises(LinAlgError, match="is singular"):
        compiled(cf.tensor([[0.0]]))


@pytest.mark.parametrize("dtype", [cf.float16, cf.bfloat16, cf.int64])
@pytest.mark.parametrize("name", ["inv", "det", "qr", "svd", "eigh", "cholesky", "pinv"])
def test_only_real_numbers_of_full_precision(name: str, dtype: Any) -> None:
    x = cf.ones(2, 2, dtype=dtype)
    with refused(TypeError, f"{name}: {dtype}[2, 2] is not supported. Use float32 or float64."):
        getattr(cf.linalg, name)(x)


def test_complex_eigenvalues_are_absent() -> None:
    with pytest.raises(NotImplementedError, match=r"Use linalg\.eigh for"):
        cf.linalg.eig(cf.tensor(A))
    assert not hasattr(cf.linalg, "eigvals")


def test_free_vectors_have_no_gradient() -> None:
    x = cf.tensor(A[0, :, :2], requires_grad=True)
    q, _ = cf.linalg.qr(x, mode="complete")
    with pytest.raises(cf.GradientError, match=r"float64\[3, 2\] is not differentiable"):
        q.sum().backward()


# --- solving -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("shape", "b"), [((3, 3), (3,)), ((2, 3, 3), (2, 3)), ((2, 3, 3), (3,)), ((3, 3), (4, 3, 2))]
)
def test_right_hand_sides(shape: tuple[int, ...], b: tuple[int, ...]) -> None:
    a = A if len(shape) == 3 else A[0]
    right = RNG.standard_normal(b)
    x = cf.linalg.solve(cf.tensor(a), cf.tensor(right))
    vector = len(b) == 1 or b == shape[:-1]
    product = (a @ x.numpy()[..., None])[..., 0] if vector else a @ x.numpy()
    assert_close(product, np.broadcast_to(right, product.shape))


def test_the_other_triangle_is_not_read() -> None:
    b = cf.tensor(RNG.standard_normal((2, 3, 2)))
    wrong = cf.tensor(A + np.triu(np.full((3, 3), np.nan), 1))
    lower = cf.linalg.solve_triangular(wrong, b, upper=False)
    assert_close(np.tril(A) @ lower.numpy(), b)
    unit = cf.linalg.solve_triangular(wrong, b, upper=False, unitriangular=True)
    assert_close((np.tril(A, -1) + np.eye(3)) @ unit.numpy(), b)


def test_a_zero_on_a_triangle_divides() -> None:
    found = cf.linalg.solve_triangular(cf.zeros(1, 1), cf.ones(1, 1), upper=True)
    assert found.item() == float("inf")


def test_cholesky_reads_and_writes_one_triangle() -> None:
    p = A[0] @ A[0].T
    lower, upper = (cf.linalg.cholesky(cf.tensor(p), upper=u).numpy() for u in (False, True))
    assert_close(lower @ lower.T, p)
    assert_close(upper, lower.T)


# --- determinants ------------------------------------------------------------------------------

SINGULAR = {
    "rank 2 of 3": np.array([[1.0, 2.0, 0.0], [2.0, 4.0, 0.0], [1.0, 1.0, 1.0]]),
    "rank 1 of 2": np.ones((2, 2)),
    "rank 0 of 2": np.zeros((2, 2)),
}


@pytest.mark.parametrize("name", SINGULAR)
def test_det_of_singular_matrices_has_both_gradients(name: str) -> None:
    check_gradients(cf.linalg.det, [SINGULAR[name]], order=2)


def test_signs_of_determinants() -> None:
    sign, logarithm = cf.linalg.slogdet(cf.tensor(-A))
    assert_close(sign.numpy() * np.exp(logarithm.numpy()), np.linalg.det(-A))
    assert np.isnan(cf.logdet(cf.tensor(-A[0])).item())
    assert cf.linalg.slogdet(cf.zeros(2, 2)).logabsdet.item() == -float("inf")


# --- decompositions ----------------------------------------------------------------------------


@pytest.mark.parametrize("shape", [(4, 3), (3, 4), (2, 3, 3), (0, 3), (3, 0)])
def test_factors_multiply_to_the_matrix(shape: tuple[int, ...]) -> None:
    x = RNG.standard_normal(shape)
    u, s, vh = cf.linalg.svd(cf.tensor(x), full_matrices=False)
    assert_close((u * s.unsqueeze(-2)) @ vh, x)
    assert cf.linalg.svd(cf.tensor(x)).U.shape == (*shape[:-1], shape[-2])
    q, r = cf.linalg.qr(cf.tensor(x))
    assert_close(q @ r, x)
    assert cf.linalg.qr(cf.tensor(x), mode="r").R.shape == r.shape


@pytest.mark.parametrize("shape", [(4, 3), (3, 3), (2, 2, 4)])
@pytest.mark.parametrize("some", [True, False])
def test_svd_outside_of_linalg_gives_right_vectors_as_columns(
    shape: tuple[int, ...], some: bool
) -> None:
    x = cf.tensor(np.random.default_rng(0).normal(size=shape), dtype=cf.float64)
    u, s, v = cf.svd(x, some=some)
    k = min(shape[-2:])
    assert_close(u[..., :k] @ cf.diag_embed(s) @ v[..., :k].mT, x, atol=1e-12)
    assert u.shape[-1] == (k if some else shape[-2])
    assert v.shape[-2:] == (shape[-1], k if some else shape[-1])
    empty = x.svd(compute_uv=False)
    assert_close(empty.S, s, atol=1e-12)
    assert empty.U.shape == (*shape[:-1], shape[-2])
    assert empty.V.shape == (*shape[:-2], shape[-1], shape[-1])
    assert not empty.U.any()
    assert not empty.V.any()


def test_singular_values_need_no_distinct_ones() -> None:
    """Repeated singular values spoil only the gradient of the vectors."""
    x = cf.tensor(np.eye(3), requires_grad=True)
    (g,) = grad(cf.linalg.svdvals(x).sum(), x)
    assert_close(g, np.eye(3))
    (g,) = grad(cf.linalg.eigvalsh(x).sum(), x)
    assert_close(g, np.eye(3))


@pytest.mark.parametrize("shape", [(4, 3), (3, 4), (3, 3)])
def test_pseudo_inverse(shape: tuple[int, int]) -> None:
    x = RNG.standard_normal(shape)
    x[:, 0] = x[:, 1]  # not of full rank
    p = cf.linalg.pinv(cf.tensor(x)).numpy()
    for left, right in ((x @ p @ x, x), (p @ x @ p, p), ((x @ p).T, x @ p), ((p @ x).T, p @ x)):
        assert_close(left, right)
    assert cf.linalg.matrix_rank(cf.tensor(x)).item() == np.linalg.matrix_rank(x)


def test_powers_and_exponentials() -> None:
    x = cf.tensor(A)
    assert_close(cf.linalg.matrix_power(x, 0), np.broadcast_to(np.eye(3), (2, 3, 3)))
    assert_close(cf.linalg.matrix_power(x, -1) @ x, np.broadcast_to(np.eye(3), (2, 3, 3)))
    w, v = np.linalg.eigh(A[0] + A[0].T)
    assert_close(cf.matrix_exp(cf.tensor(5.0 * (A[0] + A[0].T))), (v * np.exp(5.0 * w)) @ v.T)


# --- norms -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("ord", "expected"),
    [
        (0, [[0.0, 0.0], [0.0, 0.0]]),
        (0.5, [[0.0, 0.0], [0.0, 1.0]]),
        (1, [[0.0, 0.0], [0.0, 1.0]]),
        (2, [[0.0, 0.0], [0.0, 1.0]]),
        (3, [[0.0, 0.0], [0.0, 1.0]]),
        (float("inf"), [[0.0, 0.0], [0.0, 1.0]]),
        (-1, [[0.0, 0.0], [0.0, 0.0]]),
    ],
)
def test_gradients_of_norms_at_zero(ord: float, expected: list[list[float]]) -> None:
    x = cf.tensor([[0.0, 0.0], [0.0, 2.0]], requires_grad=True)
    (g,) = grad(cf.linalg.vector_norm(x, ord, dim=1).sum(), x)
    assert g.tolist() == expected


@pytest.mark.parametrize("ord", ["fro", "nuc", 1, -1, 2, -2, float("inf"), -float("inf")])
def test_matrix_norms_along_any_dims(ord: Any) -> None:
    x = RNG.standard_normal((3, 2, 4))
    for dim in ((-2, -1), (0, 2), (2, 0)):
        expected = np.linalg.norm(x, ord, dim, keepdims=True)
        assert_close(cf.linalg.matrix_norm(cf.tensor(x), ord, dim, True), expected)
        assert_close(cf.linalg.norm(cf.tensor(x), ord, dim, keepdim=True), expected)


def test_norm_chooses_between_vectors_and_matrices() -> None:
    x = cf.tensor(A)
    assert_close(cf.linalg.norm(x), np.sqrt((A**2).sum()))
    assert_close(cf.linalg.norm(x[0], 1), np.abs(A[0]).sum(0).max())
    assert_close(cf.linalg.norm(x, 1, 2), np.abs(A).sum(2))
    assert_close(cf.norm(x[0], 1), np.abs(A[0]).sum())  # the older function has only vectors
    assert_close(cf.norm(x[0], "nuc"), np.linalg.norm(A[0], "nuc"))
    with pytest.raises(ValueError, match="needs dim: it is neither a vector nor a matrix"):
        cf.linalg.norm(x, 2)


def test_distance_to_itself_has_gradient_zero() -> None:
    x = cf.tensor([[1.0, 2.0]], requires_grad=True)
    (g,) = grad(cf.cdist(x, x.detach()).sum(), x)
    assert g.tolist() == [[0.0, 0.0]]


def test_the_zeroth_power_has_a_graph() -> None:
    x = cf.tensor([[1.0, np.nan], [0.0, 2.0]], requires_grad=True)
    power = cf.linalg.matrix_power(x, 0)
    assert power.tolist() == [[1.0, 0.0], [0.0, 1.0]]
    (g,) = grad(power.sum(), x)
    assert g.tolist() == [[0.0, 0.0], [0.0, 0.0]]
