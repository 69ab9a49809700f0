"""Decompositions and linear systems on a GPU, by cuSOLVER, as on the cpu. Skipped without one."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests.helpers.cuda_device import opened_gpu

import contraflow as cf
from contraflow.devices.cuda import matrices
from contraflow.testing import assert_close

PLACE = "gpu"


@pytest.fixture(scope="module")
def device():
    if matrices.library() is None:
        pytest.skip("cuSOLVER is not installed")
    with opened_gpu(PLACE) as found:
        yield found


def regular(*shape: int, seed: int = 0) -> np.ndarray:
    values = np.random.default_rng(seed).standard_normal(shape)
    return values + 3.0 * np.eye(shape[-2], shape[-1])


def definite(*shape: int) -> np.ndarray:
    x = regular(*shape)
    return x @ np.swapaxes(x, -1, -2)


def absolute(x: Any) -> Any:
    """What does not depend on the signs of vectors, which are free."""
    return x.abs()


L = cf.linalg
# A function of matrices whose value is unique, and the matrices.
CASES = {
    "cholesky": (lambda x: L.cholesky(x), [definite(2, 3, 5, 5)]),
    "cholesky of one": (lambda x: L.cholesky(x), [definite(1, 1)]),
    "upper cholesky": (lambda x: L.cholesky(x, upper=True), [definite(4, 4)]),
    "solve": (L.solve, [regular(2, 5, 5), regular(2, 5, 3)]),
    "solve a stack by one": (L.solve, [regular(5, 5), regular(3, 2, 5, 4)]),
    "solve for a vector": (L.solve, [regular(6, 6), regular(6, 6)[0]]),
    "solve from the right": (
        lambda a, b: L.solve(a, b, left=False), [regular(4, 4), regular(2, 3, 4)]),
    "lower triangle": (
        lambda a, b: L.solve_triangular(a, b, upper=False), [regular(2, 4, 4), regular(2, 4, 3)]),
    "upper triangle": (
        lambda a, b: L.solve_triangular(a, b, upper=True), [regular(4, 4), regular(2, 4, 3)]),
    "upper triangle from the right": (
        lambda a, b: L.solve_triangular(a, b, upper=True, left=False),
        [regular(4, 4), regular(3, 4)]),
    "lower triangle from the right, ones": (
        lambda a, b: L.solve_triangular(a, b, upper=False, left=False, unitriangular=True),
        [regular(4, 4), regular(3, 4)]),
    "inv": (L.inv, [regular(2, 7, 7)]),
    "inv of a transpose": (lambda x: L.inv(x.mT[1:]), [regular(3, 4, 4)]),
    "det": (L.det, [regular(3, 2, 4, 4)]),
    "det of a singular matrix": (L.det, [np.ones((3, 3)) + np.diag([0.0, 0.0, 1.0])]),
    "slogdet": (lambda x: tuple(L.slogdet(x)), [regular(4, 5, 5) * [[[-1.0]]]]),
    "qr": (lambda x: tuple(L.qr(x)), [regular(2, 6, 4)]),
    "wide qr": (lambda x: tuple(L.qr(x)), [regular(2, 3, 5)]),
    "eigenvalues": (L.eigvalsh, [definite(2, 6, 6)]),
    "projectors": (lambda x: absolute(L.eigh(x)[1]), [definite(2, 4, 4)]),
    "singular values": (L.svdvals, [regular(2, 5, 3)]),
    "wide singular vectors": (
        lambda x: tuple(map(absolute, L.svd(x, full_matrices=False))), [regular(2, 3, 5)]),
    "tall singular vectors": (
        lambda x: tuple(map(absolute, L.svd(x, full_matrices=False))), [regular(5, 3)]),
}  # fmt: skip


def derived(function: Any, inputs: Any) -> tuple[Any, Any]:
    """Values, and gradients of both orders."""
    found = function(*inputs)
    outs = found if isinstance(found, tuple) else (found,)
    total = sum((out * out.detach().cos()).sum() for out in outs if out.requires_grad)
    first = cf.autograd.grad(total, inputs, create_graph=True)
    second = cf.autograd.grad(sum((g * g).sum() for g in first), inputs, allow_unused=True)
    return outs, (*first, *(g for g in second if g is not None))


def results(function: Any, arrays: list[np.ndarray], place: str, dtype: Any) -> tuple[Any, Any]:
    inputs = [cf.tensor(x, dtype=dtype, device=place, requires_grad=True) for x in arrays]
    return derived(function, inputs)


@pytest.mark.parametrize("name", CASES)
def test_values_and_gradients(name, device):
    function, arrays = CASES[name]
    here, there = (results(function, arrays, place, cf.float64) for place in ("cpu", PLACE))
    for expected, found in zip((*here[0], *here[1]), (*there[0], *there[1]), strict=True):
        assert str(found.device) == PLACE
        assert_close(found.cpu(), expected, rtol=1e-7, atol=1e-7)


@pytest.mark.parametrize("name", CASES)
def test_values_in_float32(name, device):
    function, arrays = CASES[name]
    here, there = (
        function(*(cf.tensor(x, dtype=cf.float32, device=place) for x in arrays))
        for place in ("cpu", PLACE)
    )
    pairs = zip(here, there, strict=True) if isinstance(here, tuple) else [(here, there)]
    for expected, found in pairs:
        assert found.dtype is cf.float32
        assert_close(found.cpu(), expected, rtol=2e-3, atol=2e-4)


def test_whole_factors(device):
    x = cf.tensor(regular(2, 6, 4), device=PLACE)
    u, s, vh = L.svd(x)
    assert u.shape == (2, 6, 6)
    assert_close((u[..., :4] * s[:, None] @ vh).cpu(), x.cpu())
    assert_close((u.mT @ u).cpu(), cf.eye(6, dtype=cf.float64).expand(2, 6, 6), atol=1e-12)
    q, r = L.qr(x, mode="complete")
    assert q.shape == (2, 6, 6)
    assert r.shape == (2, 6, 4)
    assert_close((q @ r).cpu(), x.cpu())
    assert_close(L.qr(x, mode="r")[1].cpu(), L.qr(x.cpu(), mode="r")[1])
    values, vectors = L.eigh(x.mT @ x, UPLO="U")
    assert_close((vectors * values[:, None] @ vectors.mT).cpu(), (x.mT @ x).cpu())


def test_empty_stacks(device):
    x = cf.zeros(0, 3, 3, dtype=cf.float64, device=PLACE)
    assert L.inv(x).shape == (0, 3, 3)
    assert str(L.inv(x).device) == PLACE
    assert L.det(cf.zeros(2, 0, 0, dtype=cf.float64, device=PLACE)).tolist() == [1.0, 1.0]


@pytest.mark.parametrize(
    ("function", "matrix", "message"),
    [
        (L.inv, np.ones((2, 2)), "inv: float64[2, 2] is singular."),
        (L.cholesky, -np.eye(3), "cholesky: float64[3, 3] is not positive definite."),
        (lambda x: L.solve(x, x), np.zeros((2, 2)), "solve: float64[2, 2] is singular."),
    ],
)
def test_what_has_no_result_says_so(function, matrix, message, device):
    with pytest.raises(L.LinAlgError) as caught:
        function(cf.tensor(matrix, device=PLACE))
    assert str(caught.value) == message


def test_other_ops_without_a_kernel_are_refused_by_name(device):
    with pytest.raises(cf.DeviceError, match="lu_factor"):
        L.lu_factor(cf.tensor(regular(3, 3), device=PLACE))


@pytest.mark.parametrize("name", CASES)
def test_compiled_values_and_gradients(name, device):
    function, arrays = CASES[name]
    compiled = cf.compile(lambda *inputs: derived(function, inputs))
    there = [cf.tensor(x, device=PLACE, requires_grad=True) for x in arrays]
    outs, gradients = results(function, arrays, "cpu", cf.float64)
    for _ in range(3):
        found = compiled(*there)
        for x, y in zip((*found[0], *found[1]), (*outs, *gradients), strict=True):
            assert_close(x.detach().cpu(), y.detach(), rtol=1e-7, atol=1e-7)
    assert compiled.captures == 1
    assert "calls of cuSOLVER are not recorded" in compiled.explain()


def test_a_step_that_decomposes_follows_the_cpu_and_a_bad_matrix_changes_nothing(device):
    found = []
    for place in ("cpu", PLACE):
        weight = cf.tensor(regular(4, 4), device=place, requires_grad=True)
        noise = cf.tensor(np.eye(4), device=place)
        optimizer = cf.optim.Adam([weight], lr=0.01)

        @cf.compile
        def step(x, noise, weight=weight, optimizer=optimizer):
            optimizer.zero_grad()
            factor = L.cholesky(x @ weight @ weight.mT @ x.mT + noise)
            loss = factor.diagonal().log().sum() + L.solve(weight, x).square().mean()
            loss.backward()
            optimizer.step()
            return loss.detach()

        given = cf.tensor(regular(4, 4), device=place)
        losses = [step(given, noise).item() for _ in range(12)]
        before = weight.detach().clone()
        with pytest.raises(L.LinAlgError, match=r"cholesky: .* is not positive definite"):
            step(given, -1e6 * noise)
        assert_close(weight.detach().cpu(), before.cpu())
        found.append([*losses, step(given, noise).item()])
    np.testing.assert_allclose(found[1], found[0], rtol=1e-9)


def test_a_wrong_index_before_a_decomposition_is_the_error(device):
    x = cf.tensor(definite(3, 3), device=PLACE)
    chosen = cf.compile(lambda x, i: L.cholesky(x[i]))
    good = cf.tensor([0, 1, 2], device=PLACE)
    assert_close(chosen(x, good).cpu(), L.cholesky(x.cpu()))
    for function in (chosen, lambda x, i: L.cholesky(x[i])):
        with pytest.raises(IndexError, match="index 7 is out of range"):
            function(x, cf.tensor([0, 7, 2], device=PLACE)).cpu()
    assert_close(chosen(x, good).cpu(), L.cholesky(x.cpu()))
