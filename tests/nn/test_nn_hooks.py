"""Hooks on every module, on state dicts and on optimizers, and what else a state dict keeps."""

from __future__ import annotations

import copy
import pickle

import pytest

import contraflow as cf
from contraflow import nn
from contraflow.nn.modules import module as every
from contraflow.optim.optimizer import (
    register_optimizer_step_post_hook,
    register_optimizer_step_pre_hook,
)
from contraflow.testing import assert_close


def model():
    return nn.Sequential(nn.Linear(2, 3), nn.ReLU(), nn.Linear(3, 1))


# --- on every module ---------------------------------------------------------------------------


def test_hooks_on_every_module_come_before_those_of_one():
    seen = []
    layer = nn.ReLU()
    layer.register_forward_pre_hook(lambda module, args: seen.append("own before"))
    layer.register_forward_hook(lambda module, args, out: seen.append("own after"))
    with (
        every.register_module_forward_pre_hook(lambda m, args: seen.append("before")),
        every.register_module_forward_hook(lambda m, args, out: seen.append("after")),
    ):
        layer(cf.ones(1))
    layer(cf.ones(1))
    assert seen == ["before", "own before", "after", "own after", "own before", "own after"]


def test_hooks_on_every_module_replace():
    with every.register_module_forward_pre_hook(lambda m, args: args[0] + 1):
        assert nn.Identity()(cf.ones(1)).item() == 2
    with every.register_module_forward_hook(
        lambda m, args, kwargs, out: out * kwargs["scale"], with_kwargs=True
    ):
        assert Scaled()(cf.ones(1), scale=3.0).item() == 9
    assert nn.Identity()(cf.ones(1)).item() == 1


class Scaled(nn.Module):
    def forward(self, x, scale):
        return x * scale


def test_backward_hooks_on_every_module():
    seen = []
    layers = nn.Sequential(nn.Tanh(), nn.ReLU())
    with (
        every.register_module_full_backward_pre_hook(lambda m, g: seen.append(f"{m} before")),
        every.register_module_full_backward_hook(lambda m, g_in, g_out: (g_in[0] * 2,)),
    ):
        x = cf.ones(1, requires_grad=True)
        layers(x).sum().backward()
    assert seen[1:] == ["ReLU() before", "Tanh() before"]
    assert x.grad.item() == pytest.approx(8 * (1 - cf.tanh(cf.ones(1)).item() ** 2))


def test_compiled_function_notices_a_hook_on_every_module():
    layer = nn.Linear(2, 2)
    step = cf.compile(lambda x: layer(x))
    x = cf.ones(1, 2)
    plain = step(x)
    with every.register_module_forward_hook(lambda m, args, out: out + 1):
        assert_close(step(x), plain + 1)
    assert step(x).tolist() == plain.tolist()
    assert step.captures == 3


def test_compiled_function_notices_what_a_hook_on_every_module_reads():
    layer, cfg = nn.Linear(2, 2), {"shift": 1.0}
    step = cf.compile(lambda x: layer(x))
    x = cf.ones(1, 2)
    plain = step(x)
    with every.register_module_forward_hook(lambda m, args, out: out + cfg["shift"]):
        assert_close(step(x), plain + 1)
        cfg["shift"] = 2.0
        assert_close(step(x), plain + 2)


def test_registration_hooks():
    seen = []
    with (
        every.register_module_parameter_registration_hook(
            lambda m, name, p: seen.append(name) if name == "bias" else nn.Parameter(p.data, False)
        ),
        every.register_module_buffer_registration_hook(lambda m, name, b: seen.append(name)),
        every.register_module_module_registration_hook(
            lambda m, name, child: nn.Tanh() if isinstance(child, nn.ReLU) else None
        ),
    ):
        layer, norm = nn.Linear(2, 2), nn.BatchNorm1d(2, affine=False)
        assert isinstance(nn.Sequential(nn.ReLU())[0], nn.Tanh)
    assert seen == ["bias", "running_mean", "running_var", "num_batches_tracked"]
    assert not layer.weight.requires_grad
    assert isinstance(nn.Sequential(nn.ReLU())[0], nn.ReLU)
    assert norm.running_mean is not None


def test_hooks_that_are_always_called():
    seen = []

    class Failing(nn.Module):
        def forward(self, x):
            raise KeyError("mine")

    failing = Failing()
    failing.register_forward_hook(lambda m, args, out: seen.append("never"))
    failing.register_forward_hook(lambda m, args, out: seen.append(out), always_call=True)
    with pytest.raises(KeyError, match="mine"):
        failing(cf.ones(1))
    assert seen == [None]
    fine = nn.Identity()
    fine.register_forward_hook(lambda m, args, out: seen.append(out.item()), always_call=True)
    fine(cf.ones(1))
    assert seen == [None, 1]


def test_error_of_a_hook_that_is_always_called_hides_no_other():
    layer = nn.Linear(2, 2)
    layer.register_forward_hook(lambda m, args, out: 1 / 0, always_call=True)
    with (
        pytest.warns(UserWarning, match=r"Linear: a forward hook with always_call raised Zero"),
        pytest.raises(ValueError, match=r"linear"),
    ):
        layer(cf.ones(1, 3))


def test_pre_hook_with_kwargs_must_return_both():
    layer = nn.Identity()
    layer.register_forward_pre_hook(lambda m, args, kwargs: args, with_kwargs=True)
    with pytest.raises(TypeError, match=r"Identity: a forward pre-hook with_kwargs must return"):
        layer(cf.ones(1))


# --- on state dicts ----------------------------------------------------------------------------


def test_state_dict_hooks():
    layers, seen = model(), []
    layers.register_state_dict_pre_hook(lambda m, prefix, keep_vars: seen.append(prefix))
    layers[2].register_state_dict_pre_hook(
        lambda m, prefix, keep_vars: seen.append((prefix, keep_vars))
    )

    def renamed(module, state, prefix, metadata):
        state[prefix + "kernel"] = state.pop(prefix + "weight")

    handle = layers[0].register_state_dict_post_hook(renamed)
    assert list(layers.state_dict(keep_vars=True)) == ["0.bias", "0.kernel", "2.weight", "2.bias"]
    assert seen == ["", ("2.", True)]
    handle.remove()
    assert list(layers.state_dict()) == ["0.weight", "0.bias", "2.weight", "2.bias"]


def test_child_that_has_its_own_state_dict():
    class Quiet(nn.Linear):
        def state_dict(self, *, destination=None, prefix="", keep_vars=False):
            return destination

    layers = nn.Sequential(nn.Linear(1, 1), Quiet(1, 1))
    assert list(layers.state_dict()) == ["0.weight", "0.bias"]


def test_load_state_dict_pre_hook_translates_what_is_loaded():
    layers, seen = model(), []

    def old_names(module, state, prefix, metadata, strict, missing, unexpected, errors):
        seen.append((prefix, strict))
        state[prefix + "weight"] = state.pop(prefix + "kernel")

    layers[0].register_load_state_dict_pre_hook(old_names)
    state = {**model().state_dict(), "0.kernel": cf.ones(3, 2)}
    del state["0.weight"]
    given = dict(state)
    assert layers.load_state_dict(state) == ([], [])
    assert state.keys() == given.keys()
    assert layers[0].weight.tolist() == [[1, 1]] * 3
    assert seen == [("0.", True)]


def test_what_is_loaded_must_be_tensors():
    with pytest.raises(
        TypeError, match="load_state_dict: weight is not a tensor: as_tensor: cannot"
    ):
        nn.Linear(1, 1).load_state_dict({"weight": "a", "bias": cf.ones(1)})


def test_error_of_a_load_state_dict_pre_hook():
    layers = model()
    layers.register_load_state_dict_pre_hook(lambda *given: given[-1].append("it is too old"))
    before = layers[0].weight.tolist()
    with pytest.raises(ValueError, match=r"does not fit Sequential: it is too old\."):
        layers.load_state_dict(model().state_dict())
    assert layers[0].weight.tolist() == before


def test_load_state_dict_post_hooks():
    layers, seen = model(), []
    layers.register_load_state_dict_post_hook(lambda m, keys: seen.append(("all", *keys)))
    handle = layers[2].register_load_state_dict_post_hook(
        lambda m, keys: keys.missing_keys.remove("2.bias")
    )
    state = model().state_dict()
    del state["2.bias"]
    assert layers.load_state_dict(state) == ([], [])
    assert seen == [("all", [], [])]
    handle.remove()
    with pytest.raises(ValueError, match=r"2\.bias is missing"):
        layers.load_state_dict(state)


class Counting(nn.Module):
    def __init__(self):
        super().__init__()
        self.scale = nn.Parameter(cf.ones(1))
        self.words = {}

    def forward(self, x):
        return x * self.scale

    def get_extra_state(self):
        return self.words

    def set_extra_state(self, state):
        self.words = state


def test_extra_state(tmp_path):
    layers = nn.Sequential(Counting())
    layers[0].words = {"a": 1, "b": [2.5, "c"]}
    state = layers.state_dict()
    assert list(state) == ["0.scale", "0._extra_state"]
    cf.save(state, tmp_path / "state")
    fresh = nn.Sequential(Counting())
    assert fresh.load_state_dict(cf.load(tmp_path / "state")) == ([], [])
    assert fresh[0].words == layers[0].words
    compiled = cf.compile(fresh)
    assert compiled.state_dict()["0._extra_state"] == layers[0].words
    del state["0._extra_state"]
    assert fresh.load_state_dict(state, strict=False).missing_keys == ["0._extra_state"]
    with pytest.raises(ValueError, match=r"0\._extra_state is missing"):
        fresh.load_state_dict(state)
    with pytest.raises(ValueError, match=r"weight is missing; bias is missing; _extra_state is un"):
        nn.Linear(1, 1).load_state_dict({"_extra_state": 1})


def test_hooks_are_copied_with_the_module():
    layers = nn.Sequential(Counting())
    layers.register_load_state_dict_post_hook(print)
    copied = copy.deepcopy(layers)
    assert list(copied._load_state_dict_post_hooks.values()) == [print]
    assert copied._load_state_dict_post_hooks is not layers._load_state_dict_post_hooks
    assert list(pickle.loads(pickle.dumps(layers))._load_state_dict_post_hooks.values()) == [print]


# --- on optimizers -----------------------------------------------------------------------------


def trained(kind=cf.optim.SGD, **options):
    p = nn.Parameter(cf.ones(2))
    p.grad = cf.ones(2)
    return p, kind([p], lr=0.5, **options)


def test_step_hooks():
    (p, optimizer), seen = trained(), []
    handles = [
        register_optimizer_step_pre_hook(lambda o, args, kwargs: seen.append("before all")),
        register_optimizer_step_post_hook(lambda o, args, kwargs: seen.append("after all")),
        optimizer.register_step_pre_hook(lambda o, args, kwargs: seen.append((o, args, kwargs))),
        optimizer.register_step_post_hook(lambda o, args, kwargs: seen.append(p.tolist())),
    ]
    optimizer.step()
    assert seen == ["before all", (optimizer, (optimizer,), {}), [0.5, 0.5], "after all"]
    for handle in handles:
        handle.remove()
    optimizer.step()
    assert len(seen) == 4
    optimizer.register_step_pre_hook(lambda o, args, kwargs: (args, {"closure": lambda: 7}))
    assert optimizer.step() == 7
    optimizer.register_step_pre_hook(lambda o, args, kwargs: args)
    with pytest.raises(TypeError, match=r"SGD\.step: a pre-hook must return None or \(args, kw"):
        optimizer.step()


def test_arguments_that_are_no_parameters_and_numbers():
    with pytest.raises(TypeError, match=r"SGD: params is Linear; pass .*: model\.parameters\(\)\."):
        cf.optim.SGD(nn.Linear(1, 1), lr=0.1)
    with pytest.raises(TypeError, match=r"Adam: params is int; pass tensors, or dicts with 'par"):
        cf.optim.Adam(3)
    with pytest.raises(TypeError, match=r"SGD: lr is 'fast'; it must be a number\."):
        cf.optim.SGD(nn.Linear(1, 1).parameters(), lr="fast")


def test_step_that_calls_another_has_its_hooks_once():
    class Twice(cf.optim.SGD):
        def step(self, closure=None):
            super().step(closure)
            return super().step(closure)

    (p, optimizer), seen = trained(Twice), []
    optimizer.register_step_post_hook(lambda o, args, kwargs: seen.append(p.tolist()))
    optimizer.step()
    assert seen == [[0, 0]]


def test_step_hooks_of_lbfgs():
    (p, optimizer), seen = trained(cf.optim.LBFGS), []
    optimizer.register_step_post_hook(lambda o, args, kwargs: seen.append(len(args)))

    def closure():
        optimizer.zero_grad()
        loss = (p * p).sum()
        loss.backward()
        return loss

    optimizer.step(closure)
    assert seen == [2]


def test_compiled_step_notices_and_repeats_hooks():
    (p, optimizer) = trained()

    def step():
        p.grad = cf.ones(2)
        optimizer.step()

    compiled = cf.compile(step)
    compiled()
    assert p.tolist() == [0.5, 0.5]

    def halve(o, args, kwargs):
        with cf.no_grad():
            p.mul_(0.5)

    handle = optimizer.register_step_post_hook(halve)
    compiled()
    compiled()
    assert p.tolist() == [-0.25, -0.25]
    handle.remove()
    compiled()
    assert p.tolist() == [-0.75, -0.75]
    with register_optimizer_step_post_hook(halve):
        compiled()
    assert p.tolist() == [-0.625, -0.625]


def test_optimizer_state_dict_hooks():
    (_, optimizer), seen = trained(cf.optim.Adam), []
    optimizer.step()
    optimizer.register_state_dict_pre_hook(lambda o: seen.append("first"))
    optimizer.register_state_dict_pre_hook(lambda o: seen.append("second"), prepend=True)
    optimizer.register_state_dict_post_hook(lambda o, state: state.update(epoch=3))
    optimizer.register_state_dict_post_hook(lambda o, state: {**state, "name": "mine"})
    state = optimizer.state_dict()
    assert seen == ["second", "first"]
    assert (state["epoch"], state["name"]) == (3, "mine")
    _, fresh = trained(cf.optim.Adam)
    fresh.register_load_state_dict_pre_hook(lambda o, given: seen.append(given.pop("epoch")))
    fresh.register_load_state_dict_pre_hook(
        lambda o, given: {**given, "param_groups": [{**given["param_groups"][0], "lr": 0.25}]}
    )
    fresh.register_load_state_dict_post_hook(lambda o: seen.append(o.param_groups[0]["lr"]))
    fresh.load_state_dict(state)
    assert seen[2:] == [3, 0.25]
    assert state["epoch"] == 3
    copied = copy.deepcopy(fresh)
    assert len(copied._load_state_dict_post_hooks) == 1
