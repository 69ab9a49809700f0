"""Transforms: inverses, log-determinants against Jacobians, caches, shapes, and the registry."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import numpy as np
import pytest

import contraflow as cf
from contraflow import distributions as D
from contraflow.distributions import constraints as c
from contraflow.distributions import transforms as t

X = [[0.3, -1.2], [0.8, 0.1]]
TRANSFORMS: dict[str, tuple[t.Transform, Any]] = {
    "exp": (t.ExpTransform(), X),
    "power": (t.PowerTransform(cf.tensor([2.0, -0.5]).double()), [[0.3, 1.2], [0.8, 2.0]]),
    "sigmoid": (t.SigmoidTransform(), X),
    "softplus": (t.SoftplusTransform(), X),
    "tanh": (t.TanhTransform(), X),
    "affine": (t.AffineTransform(cf.tensor([1.0, 2.0]).double(), -0.5), X),
    "affine of vectors": (t.AffineTransform(1.0, cf.tensor([3.0, -2.0]).double(), event_dim=1), X),
    "affine of numbers": (t.AffineTransform(1.0, 3.0, event_dim=1), X),
    "inverse": (t.ExpTransform().inv, [[0.3, 1.2], [0.8, 2.0]]),
    "composed": (t.ComposeTransform([t.AffineTransform(0.0, 2.0), t.TanhTransform()]), X),
    "composed of vectors": (t.ComposeTransform([t.ExpTransform(), t.AffineTransform(0.0, 2.0, 1)]),
                            X),
    "independent": (t.IndependentTransform(t.ExpTransform(), 1), X),
    "reshape": (t.ReshapeTransform((2,), (2, 1)), X),
    "stick breaking": (t.StickBreakingTransform(), X),
    "correlations": (t.CorrCholeskyTransform(), [[0.3, -1.2, 0.4], [0.8, 0.1, -0.3]]),
    "cdf": (t.CumulativeDistributionTransform(D.Normal(cf.tensor(0.5).double(), 2.0)), X),
    "cat": (t.CatTransform([t.ExpTransform(), t.TanhTransform()], dim=-1, lengths=[1, 1]), X),
    "stack": (t.StackTransform([t.ExpTransform(), t.TanhTransform()], dim=-1), X),
}  # fmt: skip


@pytest.mark.parametrize("name", TRANSFORMS)
def test_inverses_and_determinants(name: str) -> None:
    transform, values = TRANSFORMS[name]
    x = cf.tensor(values, dtype=cf.float64)
    y = transform(x)
    assert transform.bijective
    assert y.shape == transform.forward_shape(x.shape)
    assert x.shape == transform.inverse_shape(y.shape)
    np.testing.assert_allclose(transform.inv(y).numpy(), x.numpy(), rtol=1e-9, atol=1e-9)
    if name not in ("cat", "stack"):
        assert transform.domain.check(x).all()
        assert transform.codomain.check(y).all()
    found = transform.log_abs_det_jacobian(x, y)
    dims = 0 if name == "stack" else transform.domain.event_dim
    for i in range(2):
        event = x[i]
        if dims:
            jacobian = cf.func.jacrev(transform)(event).reshape(-1, event.numel()).numpy()
            if name == "correlations":  # of the elements below the diagonal, which are free
                rows = [3, 6, 7]
                jacobian = jacobian[rows]
            square = jacobian[: jacobian.shape[1]]
            expected = np.log(abs(np.linalg.det(square)))
            np.testing.assert_allclose(found[i].item(), expected, rtol=1e-9, atol=1e-9)
        else:
            jacobian = cf.func.jacrev(transform)(event).numpy()
            slopes = np.log(np.abs(np.diagonal(jacobian)))
            np.testing.assert_allclose(found[i].numpy(), slopes, rtol=1e-9, atol=1e-9)
    back = transform.inv.log_abs_det_jacobian(y, x)
    np.testing.assert_allclose(back.numpy(), -found.numpy(), rtol=1e-12)


def test_transforms_that_are_not_one_to_one() -> None:
    x = cf.tensor(X, dtype=cf.float64)
    assert t.AbsTransform()(x).tolist() == np.abs(X).tolist()
    shares = t.SoftmaxTransform()
    assert not shares.bijective
    np.testing.assert_allclose(shares(shares.inv(shares(x))).numpy(), shares(x).numpy(), rtol=1e-12)
    for transform in (t.LowerCholeskyTransform(), t.PositiveDefiniteTransform()):
        y = transform(x)
        assert transform.codomain.check(y)
        np.testing.assert_allclose(transform(transform.inv(y)).numpy(), y.numpy(), rtol=1e-12)


def test_caches_keep_what_rounding_loses() -> None:
    x = cf.tensor([20.0, -30.0])
    plain, cached = t.TanhTransform(), t.TanhTransform(cache_size=1)
    assert plain.inv(plain(x)).tolist() == [np.inf, -np.inf]
    y = cached(x)
    assert cached.inv(y) is x
    assert cached(x) is y
    assert cached.inv.inv is cached
    del y
    assert cached._forward[0] == {}  # nothing is held for a result that is gone
    assert cached.with_cache(1) is cached
    assert cached.with_cache(0)._cache_size == 0
    for twin in (copy.deepcopy(cached), pickle.loads(pickle.dumps(cached))):
        assert twin == cached
        assert twin.inv(twin(x)) is x
    policy = D.TransformedDistribution(D.Normal(cf.zeros(2), 10.0), t.TanhTransform(cache_size=1))
    cf.manual_seed(0)
    assert policy.log_prob(policy.rsample()).isfinite().all()


@pytest.mark.usefixtures("mode")
def test_caches_of_transforms_outside_and_inside_of_compiled_functions() -> None:
    outside = t.TanhTransform(cache_size=1)

    def surprise(loc: Any, make: Any) -> Any:
        d = D.TransformedDistribution(D.Normal(loc, 10.0), make())
        action = d.rsample()
        return action, d.log_prob(action)

    for make in (lambda: outside, lambda: t.TanhTransform(cache_size=1)):
        compiled = cf.compile(lambda loc, make=make: surprise(loc, make))
        for seed in range(3):
            cf.manual_seed(seed)
            action, found = compiled(cf.zeros(4))
            cf.manual_seed(seed)
            expected = surprise(cf.zeros(4), make)
            np.testing.assert_allclose(action.numpy(), expected[0].numpy(), rtol=1e-6)
            np.testing.assert_allclose(found.numpy(), expected[1].numpy(), rtol=1e-5)
        assert compiled.captures == 1


def test_equal_transforms() -> None:
    assert t.ExpTransform() == t.ExpTransform()
    assert t.ExpTransform().inv == t.ExpTransform().inv
    assert t.AffineTransform(0.0, 1.0) == t.AffineTransform(0.0, 1.0)
    assert t.AffineTransform(0.0, 1.0) != t.AffineTransform(0.0, 2.0)
    assert t.PowerTransform(cf.ones(2)) == t.PowerTransform(cf.ones(2))
    one = t.ComposeTransform([t.ExpTransform()])
    assert one == t.ComposeTransform([t.ExpTransform()])
    assert one != t.ExpTransform()
    assert repr(one.inv) == "ComposeTransform([Inverse(ExpTransform())])"


def test_shapes_of_transformed_distributions() -> None:
    base = D.Normal(cf.zeros(4, 3), 1.0)
    d = D.TransformedDistribution(base, t.StickBreakingTransform())
    assert (d.batch_shape, d.event_shape) == ((4,), (4,))
    assert d.log_prob(d.sample((2,))).shape == (2, 4)
    d = D.TransformedDistribution(D.Normal(0.0, 1.0), t.AffineTransform(cf.zeros(3), 1.0))
    assert (d.batch_shape, d.sample((2,)).shape) == ((3,), (2, 3))
    assert d.expand((5, 3)).log_prob(cf.zeros(3)).shape == (5, 3)
    d = D.TransformedDistribution(base, t.ReshapeTransform((3,), (3, 1)))
    assert (d.batch_shape, d.event_shape) == ((4,), (3, 1))
    decreasing = D.TransformedDistribution(D.Normal(0.0, 1.0), t.AffineTransform(0.0, -2.0))
    x = cf.tensor([-1.0, 0.0, 3.0])
    expected = D.Normal(0.0, 2.0)
    np.testing.assert_allclose(decreasing.cdf(x).numpy(), expected.cdf(x).numpy(), rtol=1e-5)
    u = expected.cdf(x)
    np.testing.assert_allclose(decreasing.icdf(u).numpy(), x.numpy(), rtol=1e-4, atol=1e-5)


CONSTRAINTS: dict[str, tuple[c.Constraint, tuple[int, ...]]] = {
    "real": (c.real, (3,)),
    "real_vector": (c.real_vector, (3,)),
    "positive": (c.positive, (3,)),
    "nonnegative": (c.nonnegative, (3,)),
    "greater_than": (c.greater_than(2.0), (3,)),
    "greater_than a tensor": (c.greater_than(cf.tensor([1.0, 2.0, 3.0])), (3,)),
    "less_than": (c.less_than(-1.0), (3,)),
    "unit_interval": (c.unit_interval, (3,)),
    "interval": (c.interval(-1.0, 4.0), (3,)),
    "half_open_interval": (c.half_open_interval(-1.0, 4.0), (3,)),
    "simplex": (c.simplex, (2, 3)),
    "independent": (c.independent(c.positive, 1), (2, 3)),
    "lower_cholesky": (c.lower_cholesky, (3, 3)),
    "positive_definite": (c.positive_definite, (3, 3)),
    "corr_cholesky": (c.corr_cholesky, (3,)),
    "cat": (c.cat([c.positive, c.real], -1, [2, 1]), (2, 3)),
    "stack": (c.stack([c.positive, c.real], -1), (3, 2)),
}


@pytest.mark.parametrize("name", CONSTRAINTS)
def test_the_registry_leads_into_every_set(name: str) -> None:
    constraint, shape = CONSTRAINTS[name]
    cf.manual_seed(0)
    x = cf.randn(*shape)
    for registry in (D.biject_to, D.transform_to):
        transform = registry(constraint)
        y = transform(x)
        assert constraint.check(y).all()
        again = transform(transform.inv(y))
        np.testing.assert_allclose(again.numpy(), y.numpy(), rtol=1e-4, atol=1e-5)
    assert repr(constraint)


def test_sets_without_a_transform() -> None:
    with pytest.raises(NotImplementedError, match="Boolean: there is no transform to this"):
        D.biject_to(c.boolean)
    with pytest.raises(TypeError, match="register: 3 is neither a Constraint nor a class of them"):
        D.transform_to.register(3, lambda _: t.ExpTransform())


INSIDE: list[tuple[c.Constraint, Any, Any]] = [
    (c.boolean, [0.0, 1.0, 0.5], [True, True, False]),
    (c.integer_interval(0, 2), [0.0, 2.0, 3.0, 0.5], [True, True, False, False]),
    (c.nonnegative_integer, [0.0, -1.0, 1.5], [True, False, False]),
    (c.positive_integer, [0.0, 1.0], [False, True]),
    (c.real, [0.0, np.nan, np.inf], [True, False, True]),
    (c.interval(0.0, 1.0), [0.0, 1.0, 1.1], [True, True, False]),
    (c.half_open_interval(0.0, 1.0), [0.0, 1.0], [True, False]),
    (c.one_hot, [[0.0, 1.0], [1.0, 1.0], [0.5, 0.5]], [True, False, False]),
    (c.simplex, [[0.5, 0.5], [0.7, 0.5], [-0.5, 1.5]], [True, False, False]),
    (c.multinomial(3), [[1.0, 2.0], [1.0, 1.0], [1.5, 1.5]], [True, False, False]),
    (c.lower_triangular, [[[1.0, 0.0], [2.0, -1.0]], [[1.0, 1.0], [0.0, 1.0]]], [True, False]),
    (c.lower_cholesky, [[[1.0, 0.0], [2.0, 1.0]], [[1.0, 0.0], [2.0, -1.0]]], [True, False]),
    (c.corr_cholesky, [[[1.0, 0.0], [0.6, 0.8]], [[1.0, 0.0], [0.6, 0.9]]], [True, False]),
    (c.square, [[1.0, 2.0]], False),
    (c.symmetric, [[[1.0, 2.0], [2.0, 1.0]], [[1.0, 2.0], [3.0, 1.0]]], [True, False]),
    (c.positive_definite, [[[2.0, 1.0], [1.0, 2.0]], [[1.0, 2.0], [2.0, 1.0]]], [True, False]),
    (c.positive_semidefinite, [[[2.0, 1.0], [1.0, 2.0]], [[1.0, 2.0], [2.0, 1.0]]], [True, False]),
    (c.independent(c.positive, 1), [[1.0, 2.0], [1.0, -2.0]], [True, False]),
]  # fmt: skip


@pytest.mark.parametrize(("constraint", "values", "expected"), INSIDE, ids=lambda x: repr(x)[:30])
def test_what_is_inside_of_a_set(constraint: c.Constraint, values: Any, expected: Any) -> None:
    assert constraint.check(cf.tensor(values)).tolist() == expected


WRONG: list[tuple[Any, type[Exception], str]] = [
    (lambda: t.ExpTransform(cache_size=2), ValueError, "ExpTransform: cache_size is 2; it is 0 or"),
    (lambda: t.ReshapeTransform((2,), (3,)), ValueError, "have different numbers of elements"),
    (lambda: t.ReshapeTransform((2,), (2, 1))(cf.zeros(3)), ValueError, "does not end in (2,)"),
    (lambda: t.CatTransform([t.ExpTransform()], lengths=[1, 2]), ValueError, "1 transforms and 2"),
    (lambda: t.CatTransform([t.ExpTransform()])(cf.zeros(2)), ValueError, "has not the size 1"),
    (lambda: t.StackTransform([t.ExpTransform()])(cf.zeros(2)), ValueError, "has not the size 1"),
    (lambda: t.StickBreakingTransform().sign, NotImplementedError, "it has no sign"),
    (lambda: t.ReshapeTransform((2,), (2, 1)).event_dim, ValueError, "it has no event_dim"),
    (lambda: t.AbsTransform().log_abs_det_jacobian(1, 1), NotImplementedError, "it has no log_abs"),
    (lambda: t.CorrCholeskyTransform().forward_shape((2,)), ValueError, "do not fill a triangle"),
    (lambda: D.utils.vec_to_tril_matrix(cf.zeros(4)), ValueError, "do not fill a triangle"),
    (lambda: D.TransformedDistribution(D.Normal(0.0, 1.0), [3]), TypeError, "int is not a Trans"),
    (lambda: D.TransformedDistribution(D.Normal(0.0, 1.0), t.SoftmaxTransform()), ValueError,
     "the transforms need events of 1 dims"),
    (lambda: c.dependent.check(cf.zeros(1)), ValueError, "depends on other values"),
    (lambda: c.independent(c.real, 2).check(cf.zeros(1)), ValueError, "at least 2 dims"),
]  # fmt: skip


@pytest.mark.parametrize(("make", "error", "text"), WRONG, ids=[text for *_, text in WRONG])
def test_messages(make: Any, error: type[Exception], text: str) -> None:
    with pytest.raises(error) as raised:
        make()
    assert text in str(raised.value)
