"""Parameter groups of optimizers, and what users change in groups and state."""

from __future__ import annotations

import copy
import json

import numpy as np
import pytest
from tests.helpers.update_rules import Symbolic, parameter

import contraflow as cf
from contraflow.operation.context import changed
from contraflow.optim import (
    LBFGS,
    SGD,
    Adam,
    ParamGroup,
)
from contraflow.tensors.epoch import Structure
from contraflow.tensors.host_scalar import HostScalar

# --- parameter groups --------------------------------------------------------------------------


def test_group_behaves_like_a_dict_of_numbers():
    plain = {"lr": 0.1, "betas": (0.9, 0.99), "nesterov": False, "count": 3, "name": "head"}
    group = ParamGroup(plain)
    assert isinstance(group, dict)
    assert group == plain
    assert dict(group) == {**group} == group.copy() == dict(group.items()) == plain
    assert repr(group) == repr(plain)
    assert json.dumps(group) == json.dumps(plain)
    assert list(group) == list(group.keys()) == list(plain)
    assert group.values() == list(plain.values())
    assert (group.get("lr"), group.get("gone"), group.get("gone", 5)) == (0.1, None, 5)
    assert isinstance(group["count"], int)
    assert group.setdefault("lr", 7.0) == 0.1
    assert group.setdefault("extra", 7.0) == 7.0
    assert group.pop("extra") == 7.0
    assert group.pop("extra", None) is None
    assert group | {"lr": 1.0} == {**plain, "lr": 1.0}
    assert {"lr": 1.0} | group == plain
    group |= {"lr": 0.5}
    assert group["lr"] == 0.5
    assert group.popitem() == ("name", "head")
    del group["betas"]
    assert "betas" not in group
    group.clear()
    assert not group


def test_numbers_are_written_into_the_same_cell():
    group = ParamGroup({"lr": 0.1, "betas": (0.9, 0.99), "flag": False})
    cells = dict.__getitem__(group, "lr"), *dict.__getitem__(group, "betas")
    assert all(isinstance(cell, HostScalar) for cell in cells)
    epoch, changed_at = Structure.epoch, group.changed_at
    group["lr"] = 1
    group["betas"] = [0.5, 0.6]
    group.update(lr=np.float32(0.25), flag=False)
    assert [cell.value for cell in cells] == [0.25, 0.5, 0.6]
    assert isinstance(cells[0].value, float)
    group["lr"] = cf.tensor(0.75)
    assert group["lr"] == 0.75
    assert (Structure.epoch, group.changed_at) == (epoch, changed_at)
    for change in ({"flag": True}, {"new": 1.0}, {"betas": (1.0, 2.0, 3.0)}, {"lr": None}):
        before = group.changed_at
        group.update(change)
        assert group.changed_at > before


def test_use_of_a_number_is_structure_once_it_was_asked_for():
    group = ParamGroup({"weight_decay": 0.0})
    before = group.changed_at
    group["weight_decay"] = 0.1
    assert group.changed_at == before
    assert group.uses("weight_decay")
    group["weight_decay"] = 0.2
    assert group.changed_at == before
    group["weight_decay"] = 0
    assert group.changed_at > before
    assert not group.uses("weight_decay")


def test_none_is_an_entry_too():
    group = ParamGroup({"adjust": None})
    assert group == {"adjust": None}
    group["adjust"] = None
    group["foreach"] = None
    assert "foreach" in group


def test_a_fixed_number_is_structure():
    group = ParamGroup({"ns_steps": 5})
    before = group.changed_at
    assert group.fixed("ns_steps") == 5
    group["ns_steps"] = 5
    assert group.changed_at == before
    group["ns_steps"] = 6
    assert group.changed_at > before
    assert group.fixed("ns_steps") == 6


def test_symbolic_group():
    group = ParamGroup({"lr": 0.1, "betas": (0.9, 0.99)})
    with changed(context=Symbolic()):
        lr, (beta1, _) = group["lr"], group["betas"]
    assert lr.dtype is beta1.dtype is cf.float64
    assert lr.shape == ()


def test_copies_of_a_group_have_their_own_numbers():
    group = ParamGroup({"lr": 0.1, "params": [cf.ones(1)]})
    for twin in (copy.copy(group), copy.deepcopy(group)):
        assert isinstance(twin, ParamGroup)
        twin["lr"] = 5.0
        assert group["lr"] == 0.1
    assert copy.copy(group)["params"][0] is group["params"][0]
    assert copy.deepcopy(group)["params"][0] is not group["params"][0]


def test_groups_differ_in_their_numbers():
    p, q, r = (cf.ones(1, requires_grad=True) for _ in range(3))
    optimizer = SGD([{"params": p}, {"params": [q], "lr": 0.5}], lr=0.25)
    structure = optimizer._structure
    optimizer.add_param_group({"params": r, "lr": 1.0})
    assert optimizer._structure > structure
    (p + q + r).sum().backward()
    optimizer.step()
    assert [t.item() for t in (p, q, r)] == [0.75, 0.5, 0.0]
    assert list(optimizer.param_groups[1]) == [
        "params", "lr", "momentum", "dampening", "weight_decay", "nesterov", "maximize",
    ]  # fmt: skip
    assert repr(SGD([p], lr=0.1)) == (
        "SGD (\nParameter Group 0\n    dampening: 0.0\n    lr: 0.1\n    maximize: False\n"
        "    momentum: 0.0\n    nesterov: False\n    weight_decay: 0.0\n)"
    )


# --- groups and state that users change --------------------------------------------------------


def _run(compiled, change, kind, size=3, **options):
    """Three steps, a change, three more: the parameters after that."""
    params = [parameter(size), parameter(2)]
    optimizer = kind(params, **options)
    gradients = [cf.linspace(-1.0, 1.0, size), cf.ones(2)]

    def step(*gradients):
        for p, g in zip(params, gradients):
            p.grad = g
        optimizer.step()

    call = cf.compile(step) if compiled else step
    for _ in range(3):
        call(*gradients)
    kept = change(optimizer, params)
    for _ in range(3):
        call(*gradients)
    return [p.tolist() for p in params], kept


def _replaced(optimizer, params):
    optimizer.param_groups[0] = {**optimizer.param_groups[0], "lr": 0.5}


def _lower(optimizer, params):
    optimizer.param_groups[0]["lr"] = 0.5


def _cut(optimizer, params):
    (group,) = optimizer.param_groups
    optimizer.param_groups = [{**group, "params": [p]} for p in params]


def _none(optimizer, params):
    pass


def _counted_anew(optimizer, params):
    for p in params:
        optimizer.state[p]["step"] = 0


def _counted_by_tensors(optimizer, params):
    for p in params:
        optimizer.state[p]["step"] = cf.tensor(0.0)


def _forgotten(optimizer, params):
    for name in list(optimizer.state[params[0]]):
        optimizer.state[params[0]][name] = None


def _emptied(optimizer, params):
    optimizer.state[params[0]] = {}


def _popped(optimizer, params):
    optimizer.state.pop(params[0])


def _all_forgotten(optimizer, params):
    optimizer.state = {}


def _all_cleared(optimizer, params):
    optimizer.state.clear()


def _first_popped(optimizer, params):
    optimizer.param_groups[0]["params"].pop(0)


def _cleared_but_one(optimizer, params):
    listed = optimizer.param_groups[0]["params"]
    listed.clear()
    listed += params[1:]


def _without_the_first(optimizer, params):
    optimizer.param_groups[0]["params"] = params[1:]


@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize(
    ("change", "same"),
    [
        (_first_popped, _without_the_first), (_cleared_but_one, _without_the_first),
        (_replaced, _lower), (_cut, _none), (_counted_anew, _counted_by_tensors),
        (_forgotten, _emptied), (_forgotten, _popped), (_all_forgotten, _all_cleared),
    ],
)  # fmt: skip
def test_what_users_put_in_place_of_groups_and_state(change, same, compiled):
    assert _run(compiled, change, Adam, lr=0.1) == _run(False, same, Adam, lr=0.1)
    if change not in (_counted_anew, _cut):
        options = {"lr": 0.1, "momentum": 0.9, "dampening": 0.5}
        assert _run(compiled, change, SGD, **options) == _run(False, same, SGD, **options)


def test_a_counter_that_begins_anew():
    p = parameter(3)
    optimizer = Adam([p, parameter(2)], lr=0.1)
    p.grad = cf.ones(3)
    optimizer.step()
    optimizer.state[p].update(step=0, exp_avg=cf.zeros(3), exp_avg_sq=cf.zeros(3))
    before = p.tolist()
    optimizer.step()
    assert optimizer.state[p]["step"].value == 1
    np.testing.assert_allclose(p.detach(), np.array(before) - 0.1, atol=1e-6)
    assert optimizer.state_dict()["state"][1]["step"] == 0


@pytest.mark.parametrize("compiled", [False, True])
def test_counters_are_numbers_to_those_who_read_them(compiled):
    p = parameter(3)
    optimizer = Adam([p], lr=0.1)
    seen = []

    def train():
        p.grad = cf.ones(3)
        optimizer.step()

    step = cf.compile(train) if compiled else train
    for _ in range(3):
        step()
        counter = optimizer.state[p]["step"]
        seen.append([
            counter.item(), float(counter), int(counter), counter == 3, counter > 1, bool(counter),
            counter + 1, 1 - counter, 2**counter, 0.5 * counter, 7 // counter,
        ])  # fmt: skip
    assert seen == [
        [n, n, n, n == 3, n > 1, True, n + 1, 1 - n, 2**n, 0.5 * n, 7 // n] for n in (1, 2, 3)
    ]
    assert {counter: "found"}[counter] == "found"
    assert counter != copy.deepcopy(counter), "places are told apart"


def test_a_compiled_function_computes_with_a_counter():
    p = parameter(3)
    optimizer = Adam([p], lr=0.1)

    @cf.compile
    def warm():
        p.grad = cf.ones(3)
        optimizer.step()
        return p.detach() * 0 + 0.5 * optimizer.state[p]["step"]

    assert [warm().tolist() for _ in range(3)] == [[0.5 * n] * 3 for n in (1, 2, 3)]
    assert warm.captures == 1


def test_momentum_that_is_none_begins_with_the_next_gradient():
    p = parameter(3)
    optimizer = SGD([p], lr=1.0, momentum=0.9, dampening=0.5)
    for _ in range(2):
        p.grad = cf.ones(3)
        optimizer.step()
    optimizer.state[p]["momentum_buffer"] = None
    before = p.tolist()
    optimizer.step()
    # The first gradient is not damped.
    np.testing.assert_allclose(p.detach(), np.array(before) - 1.0, atol=1e-6)


def test_groups_are_checked_before_they_are_taken_over():
    p = parameter(3)
    optimizer = Adam([p])
    with pytest.raises(ValueError, match=r"Adam: parameter 0 of group 1, float32\[3\], was given"):
        optimizer.param_groups.append({"params": [p]})
    with pytest.raises(TypeError, match="Adam: a parameter group is a dict with 'params', not 3"):
        optimizer.param_groups[0] = 3
    assert len(optimizer.param_groups) == 1
    optimizer.param_groups += [{"params": [parameter(2)], "lr": 0.5}]
    assert optimizer.param_groups[1]["betas"] == (0.9, 0.999)
    assert optimizer.param_groups.pop()["lr"] == 0.5
    alone = LBFGS([p])
    with pytest.raises(ValueError, match="LBFGS: there can be one parameter group only"):
        alone.param_groups.append({"params": [parameter(2)]})
