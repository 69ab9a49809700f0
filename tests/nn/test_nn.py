"""Modules: parameters, registration, hooks, state and texts."""

from __future__ import annotations

import copy

import pytest
from tests.helpers.modules import Block, close, random

import contraflow as cf
from contraflow import nn
from contraflow.operation.context import Context, changed, state
from contraflow.tensors.epoch import Structure

pytestmark = pytest.mark.usefixtures("seeded")


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


def test_a_deep_copy_of_a_parameter_has_no_gradient():
    layer = nn.Linear(2, 1)
    layer(cf.ones(3, 2)).sum().backward()
    twin = copy.deepcopy(layer)
    assert [p.grad for p in twin.parameters()] == [None, None]
    twin(cf.ones(3, 2)).sum().backward()
    assert twin.weight.grad.tolist() == layer.weight.grad.tolist() == [[3.0, 3.0]]


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
    after = block._structure
    assert after > before
    handle.remove()
    assert block._structure == after


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
            super().__init__(state().context)
            self.seen = []

        def visit_module(self, module):
            self.seen.append(module)

    block, watch = Block(), Watch()
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
