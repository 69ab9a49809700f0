"""Modules, layers, containers and initial values."""

from __future__ import annotations

import copy
import inspect
import math

import numpy as np
import pytest

import contraflow as cf
from contraflow import config, nn
from contraflow.nn import functional as F
from contraflow.nn.utils.clip_grad import _norm, _program
from contraflow.operation.context import Context, changed, state
from contraflow.tensors.epoch import Structure


@pytest.fixture(autouse=True)
def _seeded():
    cf.manual_seed(0)


def random(*shape, seed=0):
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def close(actual, expected, tolerance=1e-5):
    actual = actual.detach().numpy() if isinstance(actual, cf.Tensor) else actual
    np.testing.assert_allclose(actual, expected, rtol=tolerance, atol=tolerance)


class Block(nn.Module):
    """A parameter, a buffer, and two children of which one is used twice."""

    def __init__(self):
        super().__init__()
        self.scale = nn.Parameter(cf.ones(3))
        self.register_buffer("offset", cf.zeros(3))
        self.inner = nn.Linear(3, 3)
        self.again = self.inner
        self.last = nn.Linear(3, 1)

    def forward(self, x):
        return self.last(self.inner(x * self.scale + self.offset))


# --- parameters --------------------------------------------------------------------------------


def test_parameter_is_a_leaf_that_shares_memory():
    data = cf.zeros(2)
    p = nn.Parameter(data)
    assert p.is_leaf
    assert p.requires_grad
    assert isinstance(p, cf.Tensor)
    with cf.no_grad():
        p.add_(1.0)
    assert data.tolist() == [1.0, 1.0]
    assert type(p.detach()) is cf.Tensor
    assert type(copy.deepcopy(p)) is nn.Parameter
    assert not nn.Parameter(data, requires_grad=False).requires_grad


def test_parameter_errors():
    with pytest.raises(TypeError, match=r"Parameter: expected a tensor, not list\."):
        nn.Parameter([1.0])
    with pytest.raises(cf.GradientError, match=r"Parameter: int64\[1\] is not floating-point"):
        nn.Parameter(cf.tensor([1]))


# --- registration ------------------------------------------------------------------------------


def test_attributes_register_themselves():
    block = Block()
    names = ["scale", "inner.weight", "inner.bias", "last.weight", "last.bias"]
    assert [name for name, _ in block.named_parameters()] == names
    assert len(list(block.parameters())) == 5
    assert [name for name, _ in block.named_parameters(recurse=False)] == ["scale"]
    everything = [name for name, _ in block.named_parameters(remove_duplicate=False)]
    assert "again.weight" in everything
    assert [name for name, _ in block.named_buffers()] == ["offset"]
    assert [name for name, _ in block.named_modules()] == ["", "inner", "last"]
    assert [name for name, _ in block.named_modules("net")] == ["net", "net.inner", "net.last"]
    assert list(block.children()) == [block.inner, block.last]
    assert list(block.modules()) == [block, block.inner, block.last]
    assert {"scale", "offset", "inner", "forward"} <= set(dir(block))


def test_assigning_moves_an_attribute_between_kinds():
    block = Block()
    block.offset = nn.Parameter(cf.zeros(3))
    assert list(block.buffers()) == []
    assert block.offset.requires_grad
    block.offset = None
    assert block.offset is None
    del block.inner
    assert not hasattr(block, "inner")
    with pytest.raises(AttributeError, match="'Block' object has no attribute 'inner'"):
        _ = block.inner
    with pytest.raises(AttributeError):
        del block.inner


def test_registration_errors():
    block = Block()
    with pytest.raises(
        TypeError, match=r"Block\.scale: is a Parameter, so it cannot become float3"
    ):
        block.scale = cf.ones(3)
    with pytest.raises(TypeError, match=r"Block\.inner: is a Module, so it cannot become 3\."):
        block.inner = 3
    with pytest.raises(ValueError, match="register_buffer: Block has an attribute 'forward' alr"):
        block.register_buffer("forward", cf.ones(1))
    with pytest.raises(
        ValueError, match=r"add_module: 'a\.b' is not a name; it must be a string wit"
    ):
        block.add_module("a.b", nn.Identity())
    with pytest.raises(
        TypeError, match=r"register_parameter: 'w' is float32\[1\], not a Parameter"
    ):
        block.register_parameter("w", cf.ones(1))

    class Hasty(nn.Module):
        def __init__(self):
            self.weight = nn.Parameter(cf.ones(1))

    with pytest.raises(TypeError, match=r"Hasty\.weight: call super\(\)\.__init__\(\) before ass"):
        Hasty()
    with pytest.raises(NotImplementedError, match="Module: forward is not implemented"):
        nn.Module()(1)


# --- structure ---------------------------------------------------------------------------------


CHANGES = {
    "plain attribute": lambda m: setattr(m, "note", "x"),
    "parameter": lambda m: setattr(m, "scale", nn.Parameter(cf.ones(3))),
    "parameter to None": lambda m: setattr(m, "scale", None),
    "buffer": lambda m: setattr(m, "offset", cf.ones(3)),
    "module": lambda m: setattr(m, "inner", nn.Identity()),
    "deletion": lambda m: delattr(m, "scale"),
    "register_parameter": lambda m: m.register_parameter("more", None),
    "register_buffer": lambda m: m.register_buffer("more", cf.ones(1)),
    "add_module": lambda m: m.add_module("more", nn.Identity()),
    "forward hook": lambda m: m.register_forward_hook(lambda module, args, out: None),
    "forward pre-hook": lambda m: m.register_forward_pre_hook(lambda module, args: None),
    "eval": lambda m: m.eval(),
    "to": lambda m: m.to(cf.float64),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES.keys())
def test_structure_is_raised_by(change):
    block = Block()
    before, epoch = block._structure, Structure.epoch
    change(block)
    assert block._structure > before
    assert Structure.epoch > epoch


def test_structure_is_raised_by_removing_a_hook_once():
    block = Block()
    handle = block.register_forward_hook(lambda module, args, out: None)
    before = block._structure
    handle.remove()
    handle.remove()
    assert block._structure == before + 1


def test_structure_is_raised_for_children_by_eval():
    block = Block()
    before = block.last._structure
    block.eval()
    assert block.last._structure > before
    assert not block.last.training


def test_structure_is_kept_by_training():
    model = nn.Sequential(nn.Conv2d(1, 2, 3), nn.BatchNorm2d(2), nn.Flatten(), nn.Linear(8, 1))
    optimizer = cf.optim.Adam(model.parameters())
    x = cf.tensor(random(3, 1, 4, 4))
    before = [m._structure for m in model.modules()], Structure.epoch, optimizer._structure
    for _ in range(2):
        optimizer.zero_grad()
        model(x).sum().backward()
        optimizer.step()
        model.train()
        model.load_state_dict(model.state_dict())
    after = [m._structure for m in model.modules()], Structure.epoch, optimizer._structure
    assert after == before


def test_writing_a_buffer_with_an_operator_is_no_change_of_structure():
    block = Block()
    before, offset = block._structure, block.offset
    block.offset += 1.0
    assert block.offset is offset
    assert block._structure == before


def test_call_shows_the_module_to_the_context():
    class Watch(Context):
        def __init__(self):
            self.seen = []

        def visit_module(self, module):
            self.seen.append(module)

    block, watch = Block(), Watch()
    watch.below = state().context
    with changed(context=watch):
        block(cf.ones(2, 3))
    assert [x for x in watch.seen if isinstance(x, nn.Module)] == [block, block.inner, block.last]


# --- hooks -------------------------------------------------------------------------------------


def test_hooks_see_and_replace():
    calls = []
    layer = nn.Identity()

    def before(module, args):
        calls.append(("before", module, args))
        return args[0] + 1

    def after(module, args, out):
        calls.append(("after", module, args))
        return out * 2

    first = layer.register_forward_pre_hook(before)
    second = layer.register_forward_hook(after)
    assert layer(1) == 4
    assert calls == [("before", layer, (1,)), ("after", layer, (2,))]
    first.remove()
    assert layer(1) == 2
    second.remove()
    assert layer(1) == 1
    layer.register_forward_pre_hook(lambda module, args: (5,))
    first.remove()  # a stale handle leaves later hooks alone
    layer.register_forward_hook(lambda module, args, out: None)
    assert layer(1) == 5


def test_hooks_with_keywords_and_order():
    calls = []
    layer = nn.Identity()
    layer.register_forward_hook(lambda m, args, out: calls.append("later"))
    layer.register_forward_hook(lambda m, args, out: calls.append("first"), prepend=True)
    layer.register_forward_pre_hook(
        lambda m, args, kwargs: (args, {"input": kwargs["input"] + 1}), with_kwargs=True
    )
    layer.register_forward_hook(
        lambda m, args, kwargs, out: calls.append(kwargs) or out * 2, with_kwargs=True
    )
    assert layer(input=1) == 4
    assert calls == ["first", "later", {"input": 2}]


def test_deepcopy_keeps_hooks_apart():
    calls = []
    layer = nn.Linear(2, 2)
    handle = layer.register_forward_hook(lambda m, args, out: calls.append(m))
    twin = copy.deepcopy(layer)
    twin(cf.ones(1, 2))
    assert calls == [twin]
    handle.remove()
    layer(cf.ones(1, 2))
    twin(cf.ones(1, 2))
    assert calls == [twin, twin]


# --- changing all at once ----------------------------------------------------------------------


def test_train_eval_and_apply():
    block = Block()
    seen = []
    assert block.apply(seen.append) is block
    assert seen == [block.inner, block.last, block]
    assert block.eval() is block
    assert not any(m.training for m in block.modules())
    block.train()
    assert all(m.training for m in block.modules())
    with pytest.raises(TypeError, match=r"train: mode is 1; it must be True or False\."):
        block.train(1)


def test_requires_grad_and_zero_grad():
    block = Block()
    block(cf.ones(2, 3)).sum().backward()
    grad = block.scale.grad
    block.zero_grad(set_to_none=False)
    assert block.scale.grad is grad
    assert grad.tolist() == [0.0, 0.0, 0.0]
    block.zero_grad()
    assert all(p.grad is None for p in block.parameters())
    block.requires_grad_(False)
    assert not block(cf.ones(2, 3)).requires_grad


def test_zero_grad_lets_go_of_the_graph():
    p = nn.Parameter(cf.ones(2))
    (p * p * p).sum().backward(create_graph=True)
    assert p.grad.requires_grad
    layer = nn.Module()
    layer.p = p
    layer.zero_grad(set_to_none=False)
    assert not p.grad.requires_grad
    assert p.grad.tolist() == [0.0, 0.0]


def test_to_converts_in_place():
    model = nn.Sequential(nn.Conv2d(1, 2, 3), nn.BatchNorm2d(2))
    weight = model[0].weight
    model(cf.ones(2, 1, 4, 4)).sum().backward()
    assert model.to(cf.float64) is model
    assert model[0].weight is weight
    assert weight.dtype is cf.float64
    assert weight.grad.dtype is cf.float64
    assert weight.is_leaf
    assert model[1].running_mean.dtype is cf.float64
    assert model[1].num_batches_tracked.dtype is cf.int64
    assert model(cf.ones(2, 1, 4, 4, dtype=cf.float64)).dtype is cf.float64
    with pytest.raises(TypeError, match=r"Sequential\.to: int64 is not a floating-point dtype"):
        model.to(cf.int64)


def test_to_in_all_its_forms():
    layer = nn.Linear(2, 2)
    layer.register_buffer("steps", cf.tensor([1]))
    assert layer.to("cpu", cf.float64).weight.dtype is cf.float64
    assert layer.to(cf.ones(1)).weight.dtype is cf.float32
    assert layer.to(dtype=cf.float16).weight.dtype is cf.float16
    assert layer.double().weight.dtype is cf.float64
    assert layer.half().bfloat16().weight.dtype is cf.bfloat16
    assert layer.float().cpu().weight.dtype is cf.float32
    assert layer.steps.dtype is cf.int64
    with pytest.raises(TypeError, match="to: expected a dtype, a device or a tensor, not int"):
        layer.to(3)


def test_load_after_to_and_shared_parameters():
    first = nn.Linear(3, 3)
    second = nn.Linear(3, 3)
    second.weight = first.weight
    model = nn.Sequential(first, second).to(cf.float64)
    assert model[0].weight is model[1].weight
    assert len(list(model.parameters())) == 3
    state = {name: cf.ones(t.shape) for name, t in model.state_dict().items()}
    model.load_state_dict(state)
    assert model[1].weight.dtype is cf.float64
    assert model[1].weight.tolist() == [[1.0] * 3] * 3
    twin = copy.deepcopy(model)
    assert twin[0].weight is twin[1].weight


def test_load_by_assignment():
    layer = nn.BatchNorm1d(2)
    state = {name: t.to(cf.float64) * 3 for name, t in layer.state_dict().items()}
    layer.load_state_dict(state, assign=True)
    assert layer.weight.storage is state["weight"].storage
    assert layer.weight.dtype is cf.float64
    assert isinstance(layer.weight, nn.Parameter)
    assert layer.running_var.tolist() == [3.0, 3.0]
    with pytest.raises(TypeError, match="load_state_dict: expected a dict of tensors, not list"):
        layer.load_state_dict([])


def test_dotted_names():
    block = Block()
    assert block.get_submodule("") is block
    assert block.get_submodule("last") is block.last
    assert block.get_parameter("last.weight") is block.last.weight
    assert block.get_buffer("offset") is block.offset
    block.set_submodule("last", nn.Identity())
    assert isinstance(block.last, nn.Identity)
    with pytest.raises(
        AttributeError, match=r"get_submodule: Block has no module 'inner\.x': Line"
    ):
        block.get_submodule("inner.x")
    with pytest.raises(AttributeError, match=r"get_parameter: Block has no parameter 'inner.x'\."):
        block.get_parameter("inner.x")
    assert "scale" in block.state_dict(keep_vars=True)
    assert block.state_dict(keep_vars=True, prefix="a.")["a.scale"] is block.scale


def test_buffers_by_assignment():
    module = nn.Module()
    module.steps = nn.Buffer(cf.zeros(1))
    module.cache = nn.Buffer(cf.zeros(1), persistent=False)
    assert [name for name, _ in module.named_buffers()] == ["steps", "cache"]
    assert list(module.state_dict()) == ["steps"]


def test_summary():
    model = nn.Sequential(nn.Linear(3, 2), nn.BatchNorm1d(2), nn.LSTM(2, 4))
    model[0].bias.requires_grad_(False)
    before = model[1].num_batches_tracked.item()
    assert model.summary(cf.zeros(5, 3)).splitlines() == [
        "module              output                                       parameters",
        "Sequential          float32[5, 4], float32[1, 4], float32[1, 4]           0",
        "  (0): Linear       float32[5, 2]                                         8",
        "  (1): BatchNorm1d  float32[5, 2]                                         4",
        "  (2): LSTM         float32[5, 4], float32[1, 4], float32[1, 4]         128",
        "140 parameters of 560 bytes, 138 of them trained",
    ]
    assert model[1].num_batches_tracked.item() == before
    assert all(m.training for m in model.modules())
    assert not model._forward_hooks
    assert model.summary().splitlines()[1].split() == ["Sequential", "0"]


def test_deepcopy_is_independent_and_keeps_sharing():
    block = Block()
    twin = copy.deepcopy(block)
    assert twin.inner is twin.again
    assert type(twin.scale) is nn.Parameter
    x = cf.tensor(random(2, 3))
    close(twin(x), block(x).detach().numpy())
    with cf.no_grad():
        twin.scale.fill_(0.0)
        twin.offset.fill_(7.0)
    assert block.scale.tolist() == [1.0] * 3
    assert block.offset.tolist() == [0.0] * 3
    twin.eval()
    assert block.training


# --- state -------------------------------------------------------------------------------------


def test_state_dict_round_trip():
    first, second = Block(), Block()
    saved = first.state_dict()
    assert list(saved) == [
        "scale", "offset", "inner.weight", "inner.bias", "again.weight", "again.bias",
        "last.weight", "last.bias",
    ]  # fmt: skip
    assert not any(t.requires_grad for t in saved.values())
    assert saved["scale"].storage is first.scale.storage
    x = cf.tensor(random(2, 3))
    assert second(x).tolist() != first(x).tolist()
    kept = second.scale
    assert second.load_state_dict(saved) == ([], [])
    assert second(x).tolist() == first(x).tolist()
    assert second.scale is kept


def test_state_dict_leaves_out_transient_buffers():
    module = nn.Module()
    module.register_buffer("kept", cf.ones(1))
    module.register_buffer("cache", cf.ones(1), persistent=False)
    assert list(module.state_dict()) == ["kept"]
    assert [name for name, _ in module.named_buffers()] == ["kept", "cache"]


def test_load_state_dict_names_every_problem_and_writes_nothing():
    layer = nn.Linear(2, 1)
    before = layer.weight.tolist()
    wrong = {"weight": cf.ones(1, 3), "offset": cf.ones(1)}
    with pytest.raises(ValueError, match="load_state_dict") as caught:
        layer.load_state_dict(wrong)
    assert str(caught.value) == (
        "load_state_dict: the state does not fit Linear: weight is float32[1, 3] and should be "
        "float32[1, 2]; bias is missing; offset is unexpected."
    )
    assert layer.weight.tolist() == before
    keys = layer.load_state_dict({"weight": cf.ones(1, 2), "offset": cf.ones(1)}, strict=False)
    assert keys.missing_keys == ["bias"]
    assert keys.unexpected_keys == ["offset"]
    assert layer.weight.tolist() == [[1.0, 1.0]]


# --- text --------------------------------------------------------------------------------------


REPRS = {
    "Linear(in_features=2, out_features=3, bias=False)": lambda: nn.Linear(2, 3, bias=False),
    "Conv2d(1, 4, kernel_size=(3, 3), stride=(1, 1), padding=(1, 1))": lambda: nn.Conv2d(
        1, 4, 3, padding=1
    ),
    "Conv2d(4, 4, kernel_size=(3, 2), stride=(2, 2), dilation=(2, 2), groups=2, bias=False)": (
        lambda: nn.Conv2d(4, 4, (3, 2), 2, 0, 2, 2, False)
    ),
    "LayerNorm((4,), eps=1e-05, elementwise_affine=True)": lambda: nn.LayerNorm(4),
    "BatchNorm2d(2, eps=1e-05, momentum=0.1, affine=True, track_running_stats=True)": (
        lambda: nn.BatchNorm2d(2)
    ),
    "Embedding(5, 3)": lambda: nn.Embedding(5, 3),
    "Dropout(p=0.2, inplace=False)": lambda: nn.Dropout(0.2),
    "ReLU()": nn.ReLU,
    "ReLU(inplace=True)": lambda: nn.ReLU(True),
    "SiLU()": nn.SiLU,
    "Tanh()": nn.Tanh,
    "Sigmoid()": nn.Sigmoid,
    "GELU(approximate='none')": nn.GELU,
    "Softmax(dim=1)": lambda: nn.Softmax(1),
    "Flatten(start_dim=1, end_dim=-1)": nn.Flatten,
    "MaxPool2d(kernel_size=2, stride=2, padding=0, dilation=1, ceil_mode=False)": (
        lambda: nn.MaxPool2d(2)
    ),
    "Identity()": lambda: nn.Identity(3, unused=True),
    "CrossEntropyLoss()": nn.CrossEntropyLoss,
    "MSELoss()": nn.MSELoss,
    "Sequential()": nn.Sequential,
    "Parameter containing:\ntensor([1.], requires_grad=True)": lambda: nn.Parameter(cf.ones(1)),
}


@pytest.mark.parametrize(("text", "make"), REPRS.items(), ids=REPRS.keys())
def test_repr(text, make):
    assert repr(make()) == text


def test_repr_of_a_tree():
    layers = nn.ModuleList([nn.ReLU(), nn.Linear(1, 1), nn.Linear(1, 1), nn.Tanh()])
    model = nn.Sequential({"layers": layers, "named": nn.ModuleDict({"a": nn.Tanh()})})
    assert repr(model) == (
        "Sequential(\n"
        "  (layers): ModuleList(\n"
        "    (0): ReLU()\n"
        "    (1-2): 2 x Linear(in_features=1, out_features=1, bias=True)\n"
        "    (3): Tanh()\n"
        "  )\n"
        "  (named): ModuleDict(\n"
        "    (a): Tanh()\n"
        "  )\n"
        ")"
    )


# --- containers --------------------------------------------------------------------------------


def test_sequential():
    model = nn.Sequential(nn.Linear(2, 2), nn.ReLU(), nn.Linear(2, 1))
    assert len(model) == 3
    assert isinstance(model[-1], nn.Linear)
    assert isinstance(model[1:], nn.Sequential)
    assert [name for name, _ in model[1:].named_children()] == ["1", "2"]
    assert model[1:][1] is model[2]
    x = cf.tensor(random(3, 2))
    close(model(x), model[2](model[1](model[0](x))).detach().numpy())
    model.append(nn.Tanh())
    model[1] = nn.Sigmoid()
    assert [type(m).__name__ for m in model] == ["Linear", "Sigmoid", "Linear", "Tanh"]
    del model[0]
    assert list(model._modules) == ["0", "1", "2"]
    named = nn.Sequential({"a": nn.Tanh(), "b": nn.ReLU()})
    assert named.a is named[0]
    with pytest.raises(IndexError, match=r"Sequential: index 3 is out of range for 3 modules\."):
        model[3]
    with pytest.raises(TypeError, match=r"Sequential: child 1 is function, not a Module\."):
        nn.Sequential(nn.Tanh(), lambda x: x)


def test_module_list():
    layers = nn.ModuleList([nn.Tanh()])
    layers += [nn.ReLU(), nn.Linear(1, 1)]
    layers.insert(0, nn.Sigmoid())
    assert [type(m).__name__ for m in layers] == ["Sigmoid", "Tanh", "ReLU", "Linear"]
    assert list(layers.state_dict()) == ["3.weight", "3.bias"]
    before = layers._structure
    del layers[1:3]
    assert layers._structure > before
    assert list(layers.state_dict()) == ["1.weight", "1.bias"]
    assert len(layers) == 2
    model = nn.Sequential(nn.Tanh(), nn.ReLU(), nn.Linear(1, 1))
    assert type(model.pop(0)) is nn.Tanh
    assert len(model.pop(slice(0, 1))) == 1
    assert list(model.state_dict()) == ["0.weight", "0.bias"]
    with pytest.raises(TypeError, match=r"ModuleList: child 2 is NoneType, not a Module\."):
        layers.append(None)


def test_module_dict():
    branches = nn.ModuleDict({"a": nn.Linear(1, 1)})
    branches["b"] = nn.Tanh()
    assert list(branches) == list(branches.keys()) == ["a", "b"]
    assert "a" in branches
    assert len(branches) == 2
    assert list(branches.values()) == [branches["a"], branches["b"]]
    assert dict(branches.items()) == {"a": branches["a"], "b": branches["b"]}
    before = branches._structure
    del branches["a"]
    assert branches._structure > before
    assert list(branches.parameters()) == []
    branches.clear()
    assert len(branches) == 0


def test_parameter_list_and_dict():
    weights = nn.ParameterList([cf.ones(2), nn.Parameter(cf.zeros(3))])
    weights += [cf.ones(1)]
    assert [tuple(p.shape) for p in weights] == [(2,), (3,), (1,)]
    assert all(isinstance(p, nn.Parameter) for p in weights)
    assert list(weights.state_dict()) == ["0", "1", "2"]
    assert len(weights[1:]) == 2
    before = weights._structure
    weights[-1] = cf.ones(4)
    assert weights._structure > before
    assert weights[2].shape == (4,)
    with pytest.raises(IndexError, match=r"ParameterList: index 3 is out of range for 3 para"):
        weights[3]
    with pytest.raises(TypeError, match="ParameterList: 3 is int, not a tensor"):
        weights.append(5)
    named = nn.ParameterDict({"a": cf.ones(2)})
    named["b"] = nn.Parameter(cf.ones(1))
    assert list(named) == list(named.keys()) == ["a", "b"]
    assert named.a is named["a"]
    assert list(named.state_dict()) == ["a", "b"]
    del named["a"]
    assert "a" not in named
    assert [tuple(p.shape) for p in named.parameters()] == [(1,)]


# --- layers ------------------------------------------------------------------------------------


def test_declared_modules_take_what_their_class_says():
    assert str(inspect.signature(nn.ELU)) == "(alpha=1.0, inplace=False)"
    assert nn.Hardtanh(-2.0, max_val=3.0)(cf.tensor([-4.0, 5.0])).tolist() == [-2.0, 3.0]
    with pytest.raises(TypeError, match=r"ELU: got an unexpected keyword argument 'a'\. It takes"):
        nn.ELU(a=1)
    with pytest.raises(TypeError, match="GaussianNLLLoss: too many positional arguments"):
        nn.GaussianNLLLoss(True)
    with pytest.raises(ValueError, match=r"Hardtanh: min_val 1 must be less than max_val 0\."):
        nn.Hardtanh(1, 0)
    loss = nn.CrossEntropyLoss(cf.ones(3))
    assert list(loss.state_dict()) == ["weight"]
    close(loss(input=cf.zeros(2, 3), target=cf.tensor([0, 1])), np.log(3.0))

    class Doubled(nn.ReLU):
        factor: float = 2.0  # no argument: the class does not declare itself anew

        def forward(self, input):
            return super().forward(input) * self.factor

    assert Doubled()(cf.ones(1)).tolist() == [2.0]
    layer = nn.Threshold(0.5, -1.0)
    layer.value = 7.0
    assert layer(cf.tensor([0.0, 1.0])).tolist() == [7.0, 1.0]


def test_padding_layers():
    x = cf.tensor([[[1.0, 2.0, 3.0]]])
    assert nn.ConstantPad1d((1, 0), 9.0)(x).tolist() == [[[9.0, 1.0, 2.0, 3.0]]]
    assert nn.ZeroPad1d(1)(x).tolist() == [[[0.0, 1.0, 2.0, 3.0, 0.0]]]
    assert nn.ReflectionPad1d(2)(x).tolist() == [[[3.0, 2.0, 1.0, 2.0, 3.0, 2.0, 1.0]]]
    assert nn.CircularPad1d((0, 1))(x).tolist() == [[[1.0, 2.0, 3.0, 1.0]]]
    assert nn.ZeroPad1d((-1, 0))(x).tolist() == [[[2.0, 3.0]]]
    with pytest.raises(TypeError, match=r"ZeroPad2d: padding is \(1, 2\); it must be an integer o"):
        nn.ZeroPad2d((1, 2))


def test_embedding_of_a_table():
    rows = cf.tensor([[1.0, 2.0], [3.0, 4.0]])
    table = nn.Embedding.from_pretrained(rows)
    assert not table.weight.requires_grad
    assert table(cf.tensor([1])).tolist() == [[3.0, 4.0]]
    bag = nn.EmbeddingBag.from_pretrained(rows, freeze=False, mode="sum")
    assert bag(cf.tensor([[0, 1]])).tolist() == [[4.0, 6.0]]
    assert bag.weight.requires_grad


# --- recurrent layers and attention ------------------------------------------------------------


@pytest.mark.parametrize("name", ["RNN", "LSTM", "GRU"])
def test_recurrent_layer_is_its_cell_step_by_step(name):
    layer = getattr(nn, name)(3, 4)
    cell = getattr(nn, f"{name}Cell")(3, 4)
    cell.load_state_dict({key[:-3]: value for key, value in layer.state_dict().items()})
    x = cf.tensor(random(5, 2, 3))
    out, last = layer(x)
    state = None
    for step in range(5):
        state = cell(x[step], state)
        h = state[0] if name == "LSTM" else state
        close(out[step], h.detach().numpy())
    close(last[0] if name == "LSTM" else last, h.detach().numpy()[None])


def test_recurrent_dropout_and_directions():
    layer = nn.GRU(3, 4, 2, dropout=1.0, bidirectional=True)
    x = cf.tensor(random(5, 2, 3))
    dropped, other = layer(x)[0], layer(x + 1.0)[0]
    assert dropped.tolist() == other.tolist()  # the second layer saw zeros
    layer.eval()
    whole = layer(x)[0]
    changed = x.clone()
    changed[-1] = 9.0
    differs = (layer(changed)[0] != whole).any(dim=1).numpy()
    assert differs.all(), "backwards, the last step reaches all"


def test_recurrent_errors():
    layer = nn.LSTM(3, 4, 2)
    with pytest.raises(
        ValueError, match=r"LSTM: expected \[t, n, 3\] or \[t, 3\], got float32\[5,"
    ):
        layer(cf.zeros(5, 2, 4))
    with pytest.raises(
        ValueError, match=r"the initial state of float32\[5, 2, 3\] must be \[2, 2, 4"
    ):
        layer(cf.zeros(5, 2, 3), (cf.zeros(1, 2, 4), cf.zeros(2, 2, 4)))
    with pytest.raises(ValueError, match="GRU: proj_size is 2; only an LSTM has one"):
        nn.RNNBase.__init__(object.__new__(nn.GRU), "GRU", 3, 4, proj_size=2)
    with pytest.raises(ValueError, match="RNN: nonlinearity is 'elu'; it must be 'tanh' or 'relu'"):
        nn.RNN(3, 4, nonlinearity="elu")
    with pytest.raises(ValueError, match=r"GRUCell: expected \[n, 3\] or \[3\], got float32\[2\]"):
        nn.GRUCell(3, 4)(cf.zeros(2))
    with pytest.raises(ValueError, match=r"lengths \[1, 2\] are not sorted, longest first"):
        nn.utils.rnn.pack_padded_sequence(cf.zeros(2, 2, 1), [1, 2])


def test_packed_sequences_come_back():
    rnn = nn.utils.rnn
    sequences = [cf.tensor(random(n, 2, seed=n)) for n in (2, 4, 1)]
    packed = rnn.pack_sequence(sequences, enforce_sorted=False)
    assert packed.batch_sizes == (3, 2, 1, 1)
    for a, b in zip(rnn.unpack_sequence(packed), sequences, strict=True):
        assert a.tolist() == b.tolist()
    padded, lengths = rnn.pad_packed_sequence(packed, padding_value=-1.0, total_length=6)
    assert padded.shape == (6, 3, 2)
    assert lengths.tolist() == [2, 4, 1]
    assert padded[4:].tolist() == [[[-1.0] * 2] * 3] * 2


def test_compiled_packed_sequence():
    layer = nn.GRU(2, 3)
    sequences = [cf.tensor(random(n, 2, seed=n)) for n in (2, 1)]
    packed = nn.utils.rnn.pack_sequence(sequences)

    def run(packed):
        layer.zero_grad()
        out, h = layer(packed)
        (out.data.sum() + h.sum()).backward()
        return out.data

    expected, grad = run(packed), layer.weight_hh_l0.grad
    close(cf.compile(run)(packed), expected.detach().numpy())
    close(layer.weight_hh_l0.grad, grad.numpy())


def test_attention_masks_and_errors():
    layer = nn.MultiheadAttention(4, 2, batch_first=True)
    x = cf.tensor(random(2, 3, 4))
    causal = nn.Transformer.generate_square_subsequent_mask(3)
    _, weights = layer(x, x, x, attn_mask=causal)
    assert (weights.triu(1) == 0).all()
    padding = cf.tensor([[False, False, True], [False, False, False]])
    out, weights = layer(x, x, x, key_padding_mask=padding, average_attn_weights=False)
    assert weights.shape == (2, 2, 3, 3)
    assert (weights[0, :, :, 2] == 0).all()
    fast, nothing = layer(x, x, x, key_padding_mask=padding, need_weights=False)
    assert nothing is None
    close(fast, out.detach().numpy())
    with pytest.raises(ValueError, match="embed_dim 5 does not divide into 2 heads"):
        nn.MultiheadAttention(5, 2)
    with pytest.raises(
        ValueError, match=r"attn_mask float32\[2, 2\] must be \[3, 3\] or \[4, 3, 3\]"
    ):
        layer(x, x, x, attn_mask=cf.zeros(2, 2))
    with pytest.raises(ValueError, match="is_causal only describes attn_mask"):
        layer(x, x, x, is_causal=True)
    with pytest.raises(
        ValueError, match=r"query float32\[2, 3, 4\], key float32\[1, 3, 4\] and value"
    ):
        layer(x, x[:1], x[:1])
    with pytest.raises(
        ValueError, match="TransformerEncoderLayer: activation is 'elu'; it must be"
    ):
        nn.TransformerEncoderLayer(4, 2, activation="elu")


def test_layers_of_a_transformer_start_alike_and_apart():
    encoder = nn.TransformerEncoder(nn.TransformerEncoderLayer(4, 2, 8), 2)
    first, second = (layer.linear1.weight for layer in encoder.layers)
    assert first is not second
    assert first.tolist() == second.tolist()


def test_ctc_loss():
    certain = cf.tensor([[0.0, 1.0, 0.0], [1.0, 0.0, 0.0], [0.0, 0.0, 1.0]]).log()
    loss = F.ctc_loss(certain, cf.tensor([1, 2]), 3, 2, reduction="none")
    close(loss, 0.0)
    impossible = nn.CTCLoss(zero_infinity=True)(certain, cf.tensor([1, 1]), 2, 2)
    assert impossible.item() == 0.0
    assert nn.CTCLoss()(certain, cf.tensor([1, 1]), 2, 2).item() == np.inf
    log_probs = cf.full((3, 2, 3), 1 / 3).log().requires_grad_(True)
    of_nothing = F.ctc_loss(log_probs, cf.tensor([[1], [1]]), [0, 0], [0, 1], reduction="none")
    assert of_nothing.tolist() == [0.0, np.inf]
    of_nothing[0].backward()
    assert not log_probs.grad.any()
    with pytest.raises(
        ValueError, match=r"ctc_loss: blank 5 is not one of the classes of float32\[3, 1, 3\]"
    ):
        F.ctc_loss(certain, cf.tensor([1]), 3, 1, blank=5)


# --- utils -------------------------------------------------------------------------------------


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
    with pytest.raises(ValueError, match=r"get_total_norm: the norm of order 2\.0 is inf"):
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
    with pytest.raises(ValueError, match=r"get_total_norm: the norm of order 2\.0 is nan"):
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


# --- plain layers ------------------------------------------------------------------------------


def test_linear_and_embedding_compute():
    layer = nn.Linear(4, 2)
    x = random(3, 4)
    weight, bias = (p.detach().numpy() for p in layer.parameters())
    close(layer(cf.tensor(x)), x @ weight.T + bias)
    table = nn.Embedding(5, 3)
    index = np.array([[0, 4], [2, 2]])
    close(table(cf.tensor(index)), table.weight.detach().numpy()[index])


def test_conv_and_pool_shapes():
    images = cf.tensor(random(2, 4, 8, 8))
    assert nn.Conv2d(4, 6, 3, stride=2, padding=1, groups=2)(images).shape == (2, 6, 4, 4)
    assert nn.Conv2d(4, 6, 3, dtype=cf.float64).weight.dtype is cf.float64
    assert nn.MaxPool2d(2)(images).shape == (2, 4, 4, 4)
    assert nn.Flatten()(images).shape == (2, 256)
    with pytest.raises(ValueError, match="Conv2d: 3 input and 4 output channels do not divide"):
        nn.Conv2d(3, 4, 3, groups=2)


def test_layer_norm():
    x = random(2, 3, 4)
    layer = nn.LayerNorm((3, 4))
    close(layer(cf.tensor(x)).mean(dim=(1, 2)), np.zeros(2))
    close(layer(cf.tensor(x)).var(dim=(1, 2), correction=0), np.ones(2), 1e-3)
    assert list(nn.LayerNorm(4, elementwise_affine=False).parameters()) == []
    assert [n for n, _ in nn.LayerNorm(4, bias=False).named_parameters()] == ["weight"]


def test_activations():
    x = cf.tensor([-1.0, 0.5])
    close(nn.ReLU()(x), [0.0, 0.5])
    close(nn.Sigmoid()(x), 1 / (1 + np.exp([1.0, -0.5])))
    close(nn.SiLU()(x), np.array([-1.0, 0.5]) / (1 + np.exp([1.0, -0.5])))
    close(nn.Tanh()(x), np.tanh([-1.0, 0.5]))
    close(nn.GELU()(x), [-0.15865525, 0.34573123])
    close(nn.Softmax(0)(x).sum(), 1.0)
    y = x.clone()
    assert nn.ReLU(inplace=True)(y) is y
    assert y.tolist() == [0.0, 0.5]


def test_inplace_activation_has_gradients():
    x = cf.tensor([-1.0, 2.0], requires_grad=True)
    y = x * 3.0
    nn.ReLU(inplace=True)(y)
    y.sum().backward()
    assert x.grad.tolist() == [0.0, 3.0]


def test_dropout():
    layer = nn.Dropout(0.25)
    x = cf.ones(4000)
    out = layer(x).numpy()
    assert set(np.unique(out)) == {np.float32(0), np.float32(1 / 0.75)}
    assert abs(out.mean() - 1) < 0.05
    assert layer.eval()(x) is x
    with pytest.raises(ValueError, match=r"Dropout: p is 2; a probability is between 0 and 1\."):
        nn.Dropout(2)


def test_losses():
    logits, target = random(4, 5), np.array([0, 3, 4, 3])
    rows = logits - np.log(np.exp(logits).sum(1, keepdims=True))
    losses = -rows[np.arange(4), target]
    x, t = cf.tensor(logits), cf.tensor(target)
    close(nn.CrossEntropyLoss()(x, t), losses.mean())
    close(nn.CrossEntropyLoss(reduction="sum")(x, t), losses.sum())
    close(nn.CrossEntropyLoss(reduction="none")(x, t), losses)
    close(
        nn.CrossEntropyLoss(label_smoothing=0.1)(x, t),
        (0.9 * losses - 0.1 * rows.mean(1)).mean(),
    )
    weight = np.array([1.0, 2.0, 3.0, 4.0, 5.0], np.float32)
    shares = weight[target]
    close(nn.CrossEntropyLoss(cf.tensor(weight))(x, t), (losses * shares).sum() / shares.sum())
    close(nn.CrossEntropyLoss(ignore_index=3)(x, t), losses[[0, 2]].mean())
    close(F.cross_entropy(x, cf.tensor([0, -100, -100, 3])), losses[[0, 3]].mean())
    close(nn.MSELoss()(x, cf.zeros(4, 5)), (logits**2).mean())
    with pytest.raises(ValueError, match="cross_entropy: reduction is 'max'; it must be 'mean',"):
        F.cross_entropy(x, t, reduction="max")


def test_ignored_targets_have_no_gradient():
    x = cf.tensor(random(2, 3), requires_grad=True)
    F.cross_entropy(x, cf.tensor([1, -100])).backward()
    assert x.grad[1].tolist() == [0.0] * 3
    close(x.grad[0].sum(), 0.0)


# --- batch norm --------------------------------------------------------------------------------


def batches(count):
    return [random(4, 2, 3, 3, seed=i) * (i + 1) + i for i in range(count)]


@pytest.mark.parametrize("momentum", [0.1, None])
def test_batch_norm_keeps_statistics(momentum):
    layer = nn.BatchNorm2d(2, momentum=momentum)
    mean, var = np.zeros(2), np.ones(2)
    for i, x in enumerate(batches(4)):
        out = layer(cf.tensor(x))
        centre, spread = x.mean((0, 2, 3)), x.var((0, 2, 3))
        expected = (x - centre.reshape(1, 2, 1, 1)) / np.sqrt(spread.reshape(1, 2, 1, 1) + 1e-5)
        close(out, expected, 1e-4)
        step = 1 / (i + 1) if momentum is None else momentum
        mean += step * (centre - mean)
        var += step * (spread * 36 / 35 - var)
        close(layer.running_mean, mean)
        close(layer.running_var, var)
    assert layer.num_batches_tracked.item() == 4
    assert layer.num_batches_tracked.dtype is cf.int64
    assert layer.num_batches_tracked.shape == ()
    x = random(1, 2, 1, 1)
    layer.eval()
    close(
        layer(cf.tensor(x)),
        (x - mean.reshape(1, 2, 1, 1)) / np.sqrt(var.reshape(1, 2, 1, 1) + 1e-5),
        1e-4,
    )
    assert layer.num_batches_tracked.item() == 4
    assert list(layer.state_dict()) == [
        "weight", "bias", "running_mean", "running_var", "num_batches_tracked",
    ]  # fmt: skip
    layer.reset_parameters()
    assert layer.num_batches_tracked.item() == 0
    assert layer.running_var.tolist() == [1.0, 1.0]


def test_batch_norm_gradient_goes_through_the_statistics():
    layer = nn.BatchNorm2d(2, dtype=cf.float64)
    x = cf.tensor(random(3, 2, 2, 2).astype(np.float64), requires_grad=True)
    g = cf.tensor(random(3, 2, 2, 2, seed=1).astype(np.float64))
    (layer(x) * g).sum().backward()
    direction = random(3, 2, 2, 2, seed=2).astype(np.float64)

    def value(step):
        return (layer(cf.tensor(x.detach().numpy() + step * direction)) * g).sum().item()

    slope = (value(1e-5) - value(-1e-5)) / 2e-5
    close((x.grad * cf.tensor(direction)).sum(), slope, 1e-6)
    assert not layer.running_mean.requires_grad


def test_batch_norm_without_history_and_errors():
    layer = nn.BatchNorm2d(2, affine=False, track_running_stats=False).eval()
    assert list(layer.state_dict()) == []
    close(layer(cf.tensor(batches(1)[0])).mean(), 0.0)
    with pytest.raises(ValueError, match=r"batch_norm: float32\[1, 2, 1, 1\] has 1 value per ch"):
        nn.BatchNorm2d(2)(cf.ones(1, 2, 1, 1))
    with pytest.raises(ValueError, match=r"expected \[n, 2, h, w\], got float32\[1, 3, 4, 4\]"):
        nn.BatchNorm2d(2)(cf.ones(1, 3, 4, 4))
    with pytest.raises(ValueError, match="batch_norm: outside training it needs running_mean and"):
        F.batch_norm(cf.ones(1, 2, 1, 1), None, None)


# --- initial values ----------------------------------------------------------------------------


def test_initial_values_repeat_with_the_seed():
    values = []
    for _ in range(2):
        cf.manual_seed(3)
        values.append(nn.Linear(4, 4).weight.tolist())
    assert values[0] == values[1]
    assert nn.Linear(4, 4).weight.tolist() != values[0]


@pytest.mark.parametrize(
    ("tensor", "bound"),
    [
        (lambda: nn.Linear(64, 500).weight, 1 / 8),
        (lambda: nn.Linear(64, 5000).bias, 1 / 8),
        (lambda: nn.Conv2d(16, 128, (2, 2)).weight, 1 / 8),
        (lambda: nn.Conv2d(32, 3000, (2, 2), groups=2).bias, 1 / 8),
        (lambda: nn.init.xavier_uniform_(cf.zeros(100, 200), gain=2.0), 2 * (6 / 300) ** 0.5),
        (lambda: nn.init.kaiming_uniform_(cf.zeros(100, 150)), 1 / 5),
        (lambda: nn.init.kaiming_uniform_(cf.zeros(150, 100), mode="fan_out"), 1 / 5),
        (
            lambda: nn.init.kaiming_uniform_(cf.zeros(99, 150), nonlinearity="tanh"),
            5 / 3 * (3 / 150) ** 0.5,
        ),
    ],
)
def test_uniform_distributions(tensor, bound):
    values = tensor().detach().numpy()
    assert abs(values).max() <= bound
    assert abs(values).max() > 0.99 * bound
    assert abs(values.mean()) < 0.03 * bound
    assert values.std() == pytest.approx(bound / 3**0.5, rel=0.03)


def test_other_initial_values():
    table = nn.Embedding(200, 50).weight.detach().numpy()
    assert abs(table.mean()) < 0.03
    assert table.std() == pytest.approx(1, rel=0.03)
    drawn = nn.init.normal_(cf.zeros(10000), 2.0, 0.5).numpy()
    assert drawn.mean() == pytest.approx(2, rel=0.02)
    assert drawn.std() == pytest.approx(0.5, rel=0.03)
    p = nn.Parameter(cf.zeros(2))
    assert nn.init.constant_(p, 3.0) is p
    assert p.is_leaf
    assert p.tolist() == [3.0, 3.0]
    assert nn.init.ones_(p).tolist() == [1.0, 1.0]
    assert nn.init.zeros_(p).tolist() == [0.0, 0.0]
    generator = cf.Generator(5)
    before = cf.get_rng_state()
    nn.init.uniform_(p, generator=generator)
    assert cf.get_rng_state() == before


def norm_pdf(x):
    return math.exp(-x * x / 2) / math.sqrt(2 * math.pi)


def norm_cdf(x):
    return math.erf(x / math.sqrt(2)) / 2


def test_normal_distributions():
    draws = {
        nn.init.xavier_normal_: (2 / 300) ** 0.5,
        nn.init.kaiming_normal_: (2 / 200) ** 0.5,
    }
    for draw, std in draws.items():
        values = draw(cf.zeros(100, 200)).numpy()
        assert values.std() == pytest.approx(std, rel=0.03)
    values = nn.init.trunc_normal_(cf.zeros(20000), 1.0, 2.0, 0.0, 4.0).numpy()
    assert values.min() >= 0
    assert values.max() <= 4
    density, share = norm_pdf(-0.5) - norm_pdf(1.5), norm_cdf(1.5) - norm_cdf(-0.5)
    assert values.mean() == pytest.approx(1.0 + 2.0 * density / share, rel=0.03)


def test_structured_initial_values():
    assert nn.init.eye_(cf.ones(2, 3)).tolist() == [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0]]
    q = nn.init.orthogonal_(cf.zeros(3, 2, 4), gain=2.0).numpy().reshape(3, 8)
    close(q @ q.T, 4 * np.eye(3))
    zeros = (nn.init.sparse_(cf.ones(10, 4), 0.25).numpy() == 0).sum(0)
    assert zeros.tolist() == [3, 3, 3, 3]
    kernel = nn.init.dirac_(cf.ones(4, 2, 3), groups=2)
    x = cf.tensor(random(1, 4, 5))
    close(F.conv1d(x, kernel, padding=1, groups=2), x.numpy())


@pytest.mark.parametrize(
    ("tensor", "bound"),
    [
        (lambda: nn.LSTM(8, 64).weight_ih_l0, 1 / 8),
        (lambda: nn.GRUCell(64, 64).weight_hh, 1 / 8),
        (lambda: nn.Bilinear(64, 20, 10).weight, 1 / 8),
        (lambda: nn.MultiheadAttention(96, 2).in_proj_weight, (6 / 384) ** 0.5),
    ],
)
def test_initial_distributions_of_layers(tensor, bound):
    values = tensor().detach().numpy()
    assert 0.99 * bound < abs(values).max() <= bound
    assert values.std() == pytest.approx(bound / 3**0.5, rel=0.03)


def test_init_errors():
    with pytest.raises(ValueError, match=r"xavier_uniform_: float32\[3\] has fewer than two dims"):
        nn.init.xavier_uniform_(cf.zeros(3))
    with pytest.raises(ValueError, match="kaiming_uniform_: mode is 'fan'; it must be 'fan_in'"):
        nn.init.kaiming_uniform_(cf.zeros(3, 3), mode="fan")
    with pytest.raises(ValueError, match=r"calculate_gain: .softsign. is unknown\. Known: "):
        nn.init.kaiming_uniform_(cf.zeros(3, 3), nonlinearity="softsign")


# --- training ----------------------------------------------------------------------------------


def test_small_convolution_network_learns():
    model = nn.Sequential(
        nn.Conv2d(1, 4, 3, padding=1), nn.BatchNorm2d(4), nn.ReLU(), nn.MaxPool2d(2),
        nn.Flatten(), nn.Dropout(0.1), nn.Linear(16, 2),
    )  # fmt: skip
    x = random(32, 1, 4, 4)
    target = (x.mean((1, 2, 3)) > 0).astype(np.int64)
    optimizer = cf.optim.AdamW(model.parameters(), lr=0.02)
    criterion = nn.CrossEntropyLoss()
    losses = []
    for _ in range(40):
        optimizer.zero_grad()
        loss = criterion(model(cf.tensor(x)), cf.tensor(target))
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < 0.4 * losses[0]


# --- PyTorch -----------------------------------------------------------------------------------


@pytest.mark.peers
def test_layers_agree_with_pytorch():
    torch = pytest.importorskip(
        "torch", reason="compares with PyTorch, which `make peers` installs"
    )
    x = random(4, 3, 6, 6)
    pairs = [
        (nn.Conv2d(3, 6, 3, 2, 1), torch.nn.Conv2d(3, 6, 3, 2, 1)),
        (nn.BatchNorm2d(3), torch.nn.BatchNorm2d(3)),
        (nn.BatchNorm2d(3, momentum=None), torch.nn.BatchNorm2d(3, momentum=None)),
        (nn.LayerNorm((6, 6)), torch.nn.LayerNorm((6, 6))),
        (nn.GroupNorm(3, 3), torch.nn.GroupNorm(3, 3)),
        (nn.InstanceNorm2d(3), torch.nn.InstanceNorm2d(3)),
        (nn.ConvTranspose2d(3, 4, 3, 2, 1, 1), torch.nn.ConvTranspose2d(3, 4, 3, 2, 1, 1)),
        (nn.AvgPool2d(3, 2, 1), torch.nn.AvgPool2d(3, 2, 1)),
        (nn.AdaptiveAvgPool2d((4, 3)), torch.nn.AdaptiveAvgPool2d((4, 3))),
        (nn.AdaptiveMaxPool2d(4), torch.nn.AdaptiveMaxPool2d(4)),
        (nn.Linear(6, 2), torch.nn.Linear(6, 2)),
        (nn.MaxPool2d(3, 2, 1), torch.nn.MaxPool2d(3, 2, 1)),
        (nn.GELU("tanh"), torch.nn.GELU("tanh")),
    ]
    for ours, theirs in pairs:
        # PyTorch 2.14 prints `bias=` for norms, which earlier ones do not.
        printed = repr(theirs)
        for flag in (True, False):
            printed = printed.replace(f"affine={flag}, bias={flag}", f"affine={flag}")
        assert repr(ours) == printed
        assert list(ours.state_dict()) == list(theirs.state_dict())
        for mine, other in zip(ours.parameters(), theirs.parameters()):
            other.data = torch.tensor(mine.detach().numpy())
        for _ in range(2):
            a, b = cf.tensor(x, requires_grad=True), torch.tensor(x, requires_grad=True)
            (ours(a) ** 2).sum().backward()
            (theirs(b) ** 2).sum().backward()
            close(a.grad, b.grad.numpy(), 1e-3)
        for mine, other in zip(ours.buffers(), theirs.buffers()):
            close(mine, other.numpy())


@pytest.mark.parametrize("compiled", [False, True])
def test_tracking_may_be_turned_off_and_on(compiled):
    layer = nn.BatchNorm1d(2)
    call = cf.compile(layer) if compiled else layer
    x = cf.tensor([[0.0, 1.0], [4.0, 3.0]])
    seen = []
    for tracked in (True, False, False, True):
        layer.track_running_stats = tracked
        close(call(x), np.array([[-1.0, -1.0], [1.0, 1.0]]), 1e-4)
        seen.append(layer.num_batches_tracked.item())
        assert (layer.running_mean[0].item() != 0.0) is True
    assert seen == [1, 1, 1, 2]
    close(layer.running_mean, np.array([2.0, 2.0]) * (1 - 0.9**2))
    layer.eval()
    layer.track_running_stats = False  # outside training it reads the history that is there
    close(call(x)[0], (np.array([0.0, 1.0]) - 0.38) / np.sqrt(layer.running_var.numpy() + 1e-5))
