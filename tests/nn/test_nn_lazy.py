"""Layers that learn the size of their inputs from the first of them."""

from __future__ import annotations

import copy
import inspect
import pickle
import re

import pytest

import contraflow as cf
from contraflow import nn
from contraflow.nn.modules.lazy import LazyModuleMixin
from contraflow.nn.parameter import is_lazy

# What a lazy layer is made with, the layer it becomes, and an input.
LAYERS = {
    "Linear": ((5,), nn.Linear(3, 5), (2, 3)),
    "Conv1d": ((4, 3), nn.Conv1d(6, 4, 3, groups=2), (2, 6, 7)),
    "Conv2d": ((4, 3), nn.Conv2d(6, 4, 3, groups=2), (2, 6, 7, 5)),
    "Conv3d": ((4, 3), nn.Conv3d(6, 4, 3, groups=2), (6, 4, 5, 3)),
    "ConvTranspose1d": ((4, 3), nn.ConvTranspose1d(6, 4, 3, groups=2), (2, 6, 7)),
    "ConvTranspose2d": ((4, 3), nn.ConvTranspose2d(6, 4, 3, groups=2), (6, 7, 5)),
    "ConvTranspose3d": ((4, 3), nn.ConvTranspose3d(6, 4, 3, groups=2), (2, 6, 4, 5, 3)),
    "BatchNorm1d": ((), nn.BatchNorm1d(6), (2, 6)),
    "BatchNorm2d": ((), nn.BatchNorm2d(6), (2, 6, 4, 4)),
    "BatchNorm3d": ((), nn.BatchNorm3d(6), (2, 6, 2, 3, 4)),
    "InstanceNorm1d": ((), nn.InstanceNorm1d(6, 1e-5, 0.1, True, True), (2, 6, 4)),
    "InstanceNorm2d": ((), nn.InstanceNorm2d(6, 1e-5, 0.1, True, True), (6, 4, 4)),
    "InstanceNorm3d": ((), nn.InstanceNorm3d(6, 1e-5, 0.1, True, True), (2, 6, 2, 3, 4)),
}


def lazy(name):
    return getattr(nn, f"Lazy{name}")(*LAYERS[name][0], **{"groups": 2} if "Conv" in name else {})


@pytest.mark.parametrize("compiled", [False, True], ids=["eager", "compiled"])
@pytest.mark.parametrize("name", LAYERS)
def test_lazy_layer_becomes_the_layer(name, compiled):
    _, plain, shape = LAYERS[name]
    layer = lazy(name)
    assert all(map(is_lazy, layer.parameters()))
    assert type(layer) is getattr(nn, f"Lazy{name}")
    parameters = list(layer.parameters())
    call = cf.compile(lambda x: layer(x)) if compiled else layer
    out = call(cf.randn(shape))
    assert type(layer) is type(plain)
    assert repr(layer) == repr(plain)
    assert all(a is b for a, b in zip(parameters, layer.parameters(), strict=True))
    assert out.shape == plain(cf.zeros(shape)).shape
    assert [x.shape for x in layer.state_dict().values()] == [
        x.shape for x in plain.state_dict().values()
    ]
    assert layer.__dict__.keys() == plain.__dict__.keys()
    fixed = layer.weight.tolist()
    call(cf.randn(shape))
    call(cf.randn(shape))
    assert layer.weight.tolist() == fixed


def test_lazy_model_trains_alike_eager_and_compiled():
    def run(compiled):
        cf.manual_seed(0)
        model = nn.Sequential(
            nn.LazyConv2d(4, 3), nn.LazyBatchNorm2d(), nn.ReLU(), nn.Flatten(), nn.LazyLinear(3)
        )
        x, target = cf.randn(4, 2, 5, 5), cf.tensor([0, 1, 2, 0])

        def loss_of(x):
            loss = nn.functional.cross_entropy(model(x), target)
            loss.backward()
            return loss

        loss_of = cf.compile(loss_of) if compiled else loss_of
        losses = [loss_of(x).item()]
        optimizer = cf.optim.Adam(model.parameters(), lr=0.01)
        for _ in range(3):
            optimizer.step()
            optimizer.zero_grad()
            losses.append(loss_of(x).item())
        return losses

    assert run(True) == pytest.approx(run(False), rel=1e-5)


def test_lazy_layer_is_converted_copied_and_pickled_before_it_is_used():
    layer = nn.LazyLinear(2).double()
    for made in (copy.deepcopy(layer), pickle.loads(pickle.dumps(layer)), layer):
        assert made(cf.zeros(1, 3, dtype=cf.float64)).dtype is cf.float64
        assert made.weight.shape == (2, 3)


def test_initial_values_are_those_of_the_layer():
    layer = nn.LazyLinear(1000)
    layer.reset_parameters()
    layer(cf.zeros(1, 16))
    assert 0.24 < layer.weight.abs().max().item() <= 0.25
    assert 0.2 < layer.bias.abs().max().item() <= 0.25
    norm = nn.LazyBatchNorm1d()
    norm.eval()(cf.zeros(2, 3))
    assert norm.weight.tolist() == norm.running_var.tolist() == [1, 1, 1]
    assert norm.running_mean.tolist() == [0, 0, 0]


def test_state_of_a_lazy_layer():
    plain = nn.Linear(3, 2)
    layer = nn.LazyLinear(2)
    unknown = nn.LazyLinear(2).state_dict()
    assert layer.load_state_dict(unknown) == ([], [])
    assert is_lazy(layer.weight)
    layer.load_state_dict(plain.state_dict())
    assert layer.weight.tolist() == plain.weight.tolist()
    with pytest.raises(
        ValueError, match=re.escape("LazyLinear: float32[1, 4] needs a weight [2, 4], but float32[")
    ):
        layer(cf.zeros(1, 4))
    assert layer(cf.ones(1, 3)).tolist() == plain(cf.ones(1, 3)).tolist()
    assert type(layer) is nn.Linear
    assert layer.in_features == 3
    with pytest.raises(ValueError, match="it has no shape until its module is first called"):
        layer.load_state_dict(unknown)
    assigned = nn.LazyLinear(2)
    assigned.load_state_dict(plain.state_dict(), assign=True)
    assert assigned.weight.requires_grad
    assert assigned(cf.ones(1, 3)).tolist() == plain(cf.ones(1, 3)).tolist()


def test_what_has_no_shape_is_refused(tmp_path):
    layer = nn.LazyLinear(2)
    message = "UninitializedParameter: it has no shape until its module is first called. Call"
    for use in (
        lambda: layer.weight.shape,
        lambda: layer.weight + 1,
        lambda: layer.weight.numpy(),
        lambda: cf.optim.Adam(layer.parameters()),
        lambda: cf.save(layer.state_dict(), tmp_path / "state"),
        lambda: layer.summary(),
    ):
        with pytest.raises(ValueError, match=message):
            use()
    assert repr(layer.weight) == "<UninitializedParameter>"
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("make", "shape", "message"),
    [
        (lambda: nn.LazyLinear(2), (), "LazyLinear: expected [..., in_features], got float32[]."),
        (
            lambda: nn.LazyConv2d(4, 3),
            (2, 3),
            "LazyConv2d: expected [n, channels, h, w] or [channels, h, w], got float32[2, 3].",
        ),
        (
            lambda: nn.LazyConv1d(4, 3, groups=2),
            (3, 9),
            "LazyConv1d: the 3 channels of float32[3, 9] do not divide into 2 groups.",
        ),
        (lambda: nn.LazyBatchNorm2d(), (2, 3), "LazyBatchNorm2d: expected [n, c, h, w], got"),
    ],
)
def test_inputs_that_do_not_fit(make, shape, message):
    layer = make()
    with pytest.raises(ValueError, match=re.escape(message)):
        layer(cf.zeros(shape))
    assert layer.has_uninitialized_params()


def test_signature_lacks_the_size():
    assert list(inspect.signature(nn.LazyLinear).parameters) == [
        "out_features", "bias", "device", "dtype",
    ]  # fmt: skip
    assert next(iter(inspect.signature(nn.LazyInstanceNorm1d).parameters)) == "eps"


def test_lazy_module_of_a_user():
    class Scale(LazyModuleMixin):
        def __init__(self):
            super().__init__()
            self.factor = nn.UninitializedParameter()
            self.calls = 0

        def initialize_parameters(self, x):
            self.calls += 1
            self.factor.materialize(x.shape[1:], dtype=cf.float64)
            nn.init.ones_(self.factor)

        def forward(self, x):
            return x * self.factor

    scale = Scale()
    assert scale(cf.ones(2, 3)).tolist() == [[1, 1, 1]] * 2
    assert scale.factor.dtype is cf.float64
    scale(cf.ones(1, 3))
    assert scale.calls == 1

    class Forgetful(Scale):
        def initialize_parameters(self, x):
            pass

    with pytest.raises(RuntimeError, match="Forgetful: initialize_parameters left a parameter or"):
        Forgetful()(cf.ones(1))


def test_compiled_lazy_module():
    model = cf.compile(nn.Sequential(nn.LazyLinear(3), nn.Tanh()))
    layer = cf.compile(nn.LazyLinear(2))
    x = cf.randn(4, 5)
    for compiled, plain in ((model, model.module), (layer, layer.module)):
        outs = [compiled(x).tolist() for _ in range(3)]
        assert outs[0] == outs[1] == outs[2]
        assert compiled.captures == 2
        assert repr(compiled) == repr(plain)
        assert "Lazy" not in repr(plain)
