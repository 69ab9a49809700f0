"""`nn.utils`: clipping, parameters as a vector, and parametrized weights."""

from __future__ import annotations

import copy
import warnings

import numpy as np
import pytest
from tests.helpers.modules import close, random

import contraflow as cf
from contraflow import config, nn
from contraflow.nn.utils import parametrize
from contraflow.nn.utils.clip_grad import _norm, _program

pytestmark = pytest.mark.usefixtures("seeded")


def gradients(*values):
    parameters = [nn.Parameter(cf.zeros(len(v))) for v in values]
    for p, v in zip(parameters, values):
        p.grad = cf.tensor(v)
    return parameters


def test_clipping():
    parameters = gradients([3.0], [4.0, 0.0])
    assert nn.utils.clip_grad_norm_(parameters, 10.0).item() == 5.0
    assert parameters[0].grad.tolist() == [3.0]
    nn.utils.clip_grad_norm_(iter(parameters), 1.0)
    close(parameters[1].grad, [0.8, 0.0])
    assert nn.utils.clip_grad_norm_(gradients([3.0, -4.0]), 1.0, float("inf")).item() == 4.0
    nn.utils.clip_grad_value_(parameters, 0.7)
    close(parameters[1].grad, [0.7, 0.0])
    assert nn.utils.clip_grad_norm_([nn.Parameter(cf.ones(1))], 1.0).item() == 0.0
    with pytest.raises(cf.GradientError, match=r"get_total_norm: the norm of order 2\.0 is inf"):
        nn.utils.clip_grad_norm_(gradients([np.inf]), 1.0, error_if_nonfinite=True)


def test_clipping_many_large_gradients_is_one_program(monkeypatch):
    """With the values and the tensors of the loop, and no word about sizes that change."""
    monkeypatch.setattr(config, "eager_kernels", True)
    monkeypatch.setattr(config, "compile_mode", "native")
    rng = np.random.default_rng(0)
    for count in range(1, 12):
        shapes = [(33, 40), (1500,), (40, 33, 1)] * count
        values = [rng.standard_normal(shape).astype(np.float32) for shape in shapes]
        values[0] = np.asfortranarray(values[0])
        parameters = [nn.Parameter(cf.zeros(shape)) for shape in shapes]
        for p, v in zip(parameters, values):
            p.grad = cf.tensor(v)
        grads, versions = [p.grad for p in parameters], [p.grad._version for p in parameters]
        total = nn.utils.clip_grad_norm_(parameters, 1.5)
        norm = np.sqrt(sum((v.astype(np.float64) ** 2).sum() for v in values))
        close(total, np.float32(norm))
        assert all(p.grad is g for p, g in zip(parameters, grads))
        assert [g._version for g in grads] == [version + 1 for version in versions]
        for g, v in zip(grads, values):
            close(g, (v * (1.5 / (norm + 1e-6))).astype(np.float32))
        nn.utils.clip_grad_value_(parameters, 0.01)
        assert max(g.abs().max().item() for g in grads) <= 0.01
    assert _program(_norm).captures >= 10  # two tensors of a kind are another program than four
    assert nn.utils.get_total_norm(grads, 1).item() == nn.utils.get_total_norm(grads, 1.0).item()
    grads[1][3] = np.nan
    with pytest.raises(cf.GradientError, match=r"get_total_norm: the norm of order 2\.0 is nan"):
        nn.utils.clip_grad_norm_(parameters, 1.0, error_if_nonfinite=True)
    assert grads[0].abs().max().item() > 0.009  # nothing was scaled


def test_parameters_as_a_vector():
    model = nn.Linear(2, 2)
    vector = nn.utils.parameters_to_vector(model.parameters())
    nn.utils.vector_to_parameters(vector.detach() * 2, model.parameters())
    close(nn.utils.parameters_to_vector(model.parameters()), vector.detach().numpy() * 2)
    with pytest.raises(ValueError, match=r"float32\[5\] does not fit the 6 elements of the para"):
        nn.utils.vector_to_parameters(cf.zeros(5), model.parameters())


@pytest.mark.parametrize("apply", [nn.utils.weight_norm, nn.utils.parametrizations.weight_norm])
def test_weight_norm(apply):
    layer = nn.Linear(3, 2)
    x, weight = cf.tensor(random(4, 3)), layer.weight.detach().numpy().copy()
    expected = layer(x).detach().numpy()
    assert apply(layer) is layer
    assert isinstance(layer, nn.Linear)
    close(layer.weight, weight)
    optimizer = cf.optim.SGD(layer.parameters(), lr=0.1)

    @cf.compile
    def step(x):
        optimizer.zero_grad()
        out = layer(x)
        out.sum().backward()
        optimizer.step()
        return out

    close(step(x), expected)
    assert abs(step(x).detach().numpy() - expected).max() > 1e-3
    moved = layer.weight.detach().numpy()
    twin = copy.deepcopy(layer)
    close(twin.weight, moved)
    if apply is nn.utils.weight_norm:
        nn.utils.remove_weight_norm(layer)
    else:
        nn.utils.parametrize.remove_parametrizations(layer, "weight")
    assert type(layer) is nn.Linear
    assert isinstance(layer.weight, nn.Parameter)
    close(layer.weight, moved)


def test_parametrized_weights_can_be_assigned():
    layer = nn.utils.parametrizations.weight_norm(nn.Linear(3, 2))
    layer.weight = cf.ones(2, 3)
    close(layer.weight, np.ones((2, 3)))
    assert nn.utils.parametrize.is_parametrized(layer, "weight")
    assert not nn.utils.parametrize.is_parametrized(layer, "bias")
    with pytest.raises(ValueError, match="register_parametrization: Linear has no parameter or b"):
        nn.utils.parametrize.register_parametrization(nn.Linear(1, 1), "w", nn.Identity())
    with pytest.raises(
        ValueError, match=r"'weight' is float32\[2, 2\] and would become float32\[4\]"
    ):
        nn.utils.parametrize.register_parametrization(nn.Linear(2, 2), "weight", nn.Flatten(0))


def test_spectral_norm():
    layer = nn.utils.parametrizations.spectral_norm(nn.Linear(4, 5))
    for _ in range(30):
        layer.weight.sum().backward()
    assert np.linalg.norm(layer.weight.detach().numpy(), 2) == pytest.approx(1, abs=1e-3)


@pytest.mark.peers
@pytest.mark.parametrize("older", [True, False])
def test_spectral_norm_iterates_as_pytorchs(older):
    torch = pytest.importorskip("torch", reason="PyTorch is not installed")

    def normed(library):
        layer = library.nn.Linear(4, 5).double()
        utils = library.nn.utils if older else library.nn.utils.parametrizations
        return utils.spectral_norm(layer, n_power_iterations=2)

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the older one is deprecated
        ours, theirs = normed(cf), normed(torch)
    ours.load_state_dict(theirs.state_dict())
    x = random(3, 4)
    for _ in range(3):
        found, expected = ours(cf.tensor(x).double()), theirs(torch.tensor(x).double())
        found.pow(2).sum().backward()
        expected.pow(2).sum().backward()
        np.testing.assert_allclose(found.detach().numpy(), expected.detach().numpy(), rtol=1e-12)
    for mine, other in zip(ours.parameters(), theirs.parameters(), strict=True):
        np.testing.assert_allclose(mine.grad.numpy(), other.grad.numpy(), rtol=1e-9)


def test_a_copy_loses_its_parametrization_alone():
    class Twice(nn.Module):
        def forward(self, x):
            return 2 * x

    layer = nn.Linear(2, 2)
    weight = layer.weight.detach().clone()
    parametrize.register_parametrization(layer, "weight", Twice())
    copied = copy.deepcopy(layer)
    parametrize.register_parametrization(copied, "bias", Twice())
    assert not parametrize.is_parametrized(layer, "bias")
    assert isinstance(layer.bias, nn.Parameter)
    parametrize.remove_parametrizations(copied, "weight", leave_parametrized=False)
    assert cf.equal(copied.weight, weight)
    assert parametrize.is_parametrized(copied, "bias")
    assert cf.equal(layer.weight, 2 * weight)
    parametrize.remove_parametrizations(layer, "weight")
    assert type(layer) is nn.Linear
