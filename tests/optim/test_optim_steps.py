"""Steps of optimizers: gradients, closures, errors, and state that is saved and loaded."""

from __future__ import annotations

import copy
import math
from collections import Counter

import numpy as np
import pytest
from tests.helpers.update_rules import (
    CASES,
    NAMES,
    START,
    assert_same,
    loss_of,
    parameter,
    trajectory,
)
from tests.helpers.walled import opened

import contraflow as cf
from contraflow.optim import (
    SGD,
    Adadelta,
    Adam,
    AdamW,
    Muon,
    NAdam,
    Optimizer,
    Rprop,
    swa_utils,
)
from contraflow.tensors.epoch import Structure

# --- steps -------------------------------------------------------------------------------------


def test_parameters_without_gradient_are_skipped():
    p, q = (cf.ones(2, requires_grad=True) for _ in range(2))
    optimizer = Adam([p, q], lr=0.1, weight_decay=0.1)
    p.sum().backward()
    optimizer.step()
    assert q.tolist() == [1.0, 1.0]
    assert [optimizer.state[t]["step"].value for t in (p, q)] == [1, 0]
    assert p.is_leaf
    assert p.requires_grad


def test_gradients_accumulate_until_they_are_cleared(mode):
    whole, parts = parameter(3), parameter(3)
    x = cf.tensor([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]])
    optimizers = Adam([whole], lr=0.1), Adam([parts], lr=0.1)

    @cf.compile
    def add(row):
        (parts * parts * row).sum().backward()

    @cf.compile
    def step():
        optimizers[1].step()
        optimizers[1].zero_grad()

    for _ in range(3):
        optimizers[0].zero_grad()
        (whole * whole * x).sum().backward()
        optimizers[0].step()
        for row in x:
            add(row)
        step()
    assert_same(parts.detach().numpy(), whole.detach().numpy(), 1e-6)
    assert parts.grad is None


def test_closure_runs_with_gradients():
    p = cf.ones(2, requires_grad=True)
    optimizer = SGD([p], lr=0.5)

    def closure():
        optimizer.zero_grad()
        loss = (p * p).sum()
        loss.backward()
        return loss

    with cf.no_grad():
        loss = optimizer.step(closure)
    assert loss.item() == 2.0
    assert p.tolist() == [0.0, 0.0]


def test_zero_grad():
    p = cf.ones(2, requires_grad=True)
    optimizer = SGD([p])
    p.sum().backward()
    grad = p.grad
    optimizer.zero_grad(set_to_none=False)
    assert p.grad is grad
    assert grad.tolist() == [0.0, 0.0]
    optimizer.zero_grad()
    assert p.grad is None


def test_all_state_exists_before_the_first_step():
    p = cf.ones(2, requires_grad=True)
    assert set(Adam([p], amsgrad=True).state[p]) == {
        "step", "exp_avg", "exp_avg_sq", "max_exp_avg_sq",
    }  # fmt: skip
    assert set(SGD([p], momentum=0.9).state[p]) == {"momentum_buffer"}
    assert SGD([p]).state_dict()["state"] == {}


@pytest.mark.parametrize("kind", [Adam, NAdam])
def test_numbers_of_a_group_are_recorded_once(kind):
    """However many parameters it has: each further one takes the same lines, on tensors."""

    def lines(count):
        parameters = [parameter(3) for _ in range(count)]
        optimizer = kind(parameters, lr=0.1)

        @cf.compile
        def step():
            for p in parameters:
                p.grad = cf.ones(3)
            optimizer.step()

        step()
        return Counter(line.op.name for line in step.tape.lines if not tensors(step, line))

    def tensors(step, line):
        return any(step.tape.specs[v].shape for v in line.outs)

    assert lines(1) == lines(3) != {}


def test_momentum_switched_on_later():
    p = cf.ones(1, requires_grad=True)
    optimizer = SGD([p], lr=1.0)
    structure = optimizer._structure
    optimizer.param_groups[0]["momentum"] = 0.5
    assert optimizer._structure > structure
    assert optimizer.state[p]["momentum_buffer"].tolist() == [0.0]
    for _ in range(2):
        p.grad = cf.ones(1)
        optimizer.step()
    assert p.tolist() == [1.0 - 1.0 - 1.5]


def test_parameter_put_into_the_list():
    p, q = parameter(), parameter()
    optimizer = Adam([p], lr=0.5)
    optimizer.param_groups[0]["params"].append(q)
    q.sum().backward()
    optimizer.step()
    assert q.tolist() == pytest.approx([0.5, 0.5])


def test_compiled_step_notices_what_is_put_into_the_list():
    p, q = parameter(1), parameter(1)
    optimizer = SGD([p], lr=1.0)

    @cf.compile
    def step():
        optimizer.zero_grad()
        (p.sum() + q.sum()).backward()
        optimizer.step()

    for _ in range(3):
        step()
    optimizer.param_groups[0]["params"].append(q)
    q.grad = None
    for _ in range(3):
        step()
    assert [p.item(), q.item()] == [-5.0, -2.0]
    assert len(copy.deepcopy(optimizer).param_groups[0]["params"]) == 2


def test_own_optimizer():
    class Sign(Optimizer):
        """Steps of a fixed size."""

        def __init__(self, params, lr):
            super().__init__(params, {"lr": lr})

        def update(self, group, updated):
            for p, g, _ in updated:
                p.sub_(g.sign() * group["lr"])

    p = cf.tensor([1.0, -1.0], requires_grad=True)
    optimizer = Sign([p], 0.25)
    (p * p).sum().backward()
    optimizer.step()
    assert p.tolist() == [0.75, -0.75]
    with pytest.raises(NotImplementedError, match="Optimizer: update is not implemented"):
        Optimizer([p], {}).step()


def test_small_network_learns():
    cf.manual_seed(1)
    x = np.random.default_rng(0).uniform(-1, 1, (64, 2)).astype(np.float32)
    y = x[:, :1] * x[:, 1:]
    for kind, lr in ((SGD, 0.2), (Adam, 0.02), (AdamW, 0.02)):
        model = cf.nn.Sequential(cf.nn.Linear(2, 16), cf.nn.Tanh(), cf.nn.Linear(16, 1))
        optimizer = kind(model.parameters(), lr=lr, **({"momentum": 0.9} if kind is SGD else {}))
        losses = []
        for _ in range(150):
            optimizer.zero_grad()
            loss = cf.nn.functional.mse_loss(model(cf.tensor(x)), cf.tensor(y))
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
        assert losses[-1] < 0.3 * losses[0], kind


# --- errors ------------------------------------------------------------------------------------


def twice():
    p = parameter()
    return [{"params": [p]}, {"params": [p]}]


ERRORS = {
    "empty": (
        lambda: SGD([]), ValueError,
        "SGD: the list of parameters is empty. A generator such as model.parameters() can be used "
        "only once, and layers that a module keeps in a plain list are not among its own: use "
        "ModuleList.",
    ),
    "one tensor": (
        lambda: SGD(parameter()), TypeError, "SGD: params is one tensor; pass a list: [tensor].",
    ),
    "no tensor": (
        lambda: SGD([1.0]), TypeError, "SGD: parameter 0 of group 0 is float, not a tensor.",
    ),
    "no dict": (
        lambda: SGD([{"lr": 1.0}]), TypeError,
        "SGD: a parameter group is a dict with 'params', not {'lr': 1.0}.",
    ),
    "two groups": (
        lambda: Adam(twice()), ValueError,
        "Adam: parameter 0 of group 1, float32[2], was given before; a parameter belongs in one "
        "group, once.",
    ),
    "non-leaf": (
        lambda: AdamW([parameter(3) * 2.0]), ValueError,
        "AdamW: parameter 0 of group 0, float32[3], was made by mul; only leaves can be "
        "optimized. Pass the tensors it was computed from, or p.detach().clone().",
    ),
    "negative rate": (
        lambda: SGD([parameter()], lr=-1.0), ValueError,
        "SGD: lr is -1.0; it must not be negative.",
    ),
    "NaN": (
        lambda: Adam([parameter()], eps=math.nan), ValueError,
        "Adam: eps is nan; it must not be negative.",
    ),
    "not a matrix": (
        lambda: Muon([parameter(2, 2), parameter(3)]), ValueError,
        "Muon: float32[3] is not a matrix. Give it to another optimizer, AdamW for instance.",
    ),
    "adjustment": (
        lambda: Muon([parameter(2, 2)], adjust_lr_fn="none"), ValueError,
        "Muon: adjust_lr_fn is 'none'; it must be one of None, 'original', 'match_rms_adamw'.",
    ),
    "coefficients": (
        lambda: Muon([parameter(2, 2)], ns_coefficients=(1.0, 2.0)), ValueError,
        "Muon: ns_coefficients are (1.0, 2.0); they must be three numbers.",
    ),
    "rho": (
        lambda: Adadelta([parameter()], rho=1.5), ValueError,
        "Adadelta: rho is 1.5; it must be from 0 to 1.",
    ),
    "etas": (
        lambda: Rprop([parameter()], etas=(0.5, 0.9)), ValueError,
        "Rprop: etas are (0.5, 0.9); the first must be between 0 and 1, the second above 1.",
    ),
    "betas": (
        lambda: Adam([parameter()], betas=(0.9, 1.0)), ValueError,
        "Adam: betas are (0.9, 1.0); they must be two numbers, at least 0 and below 1.",
    ),
    "nesterov": (
        lambda: SGD([parameter()], nesterov=True), ValueError,
        "SGD: nesterov needs a momentum and no dampening, not momentum=0.0 and dampening=0.0.",
    ),
}  # fmt: skip


@pytest.mark.parametrize(("make", "error", "text"), ERRORS.values(), ids=ERRORS.keys())
def test_errors(make, error, text):
    with pytest.raises(error) as caught:
        make()
    assert str(caught.value) == text


def test_gradient_that_does_not_fit():
    p = parameter()
    optimizer = SGD([p])
    p.grad = cf.ones(2)
    p.data = cf.ones(3, dtype=cf.float64)
    with pytest.raises(ValueError, match="step") as caught:
        optimizer.step()
    assert str(caught.value) == (
        "SGD.step: parameter 0 of group 0 is float64[3], but its grad is float32[2]. Call "
        "zero_grad() after changing a parameter's shape, dtype or device."
    )


def test_gradient_on_another_device():
    with opened():
        p = parameter()
        words = r"grad: tensor is float32\[2\] on cpu and gradient is float32\[2\] on walled at "
        with pytest.raises(cf.DeviceError, match=words):
            p.grad = cf.ones(2, device="walled")
        p.grad = cf.ones(2)
        p.data = p.data.to("walled")
        with pytest.raises(ValueError, match=r"is float32\[2\] on walled, but its grad is float32"):
            SGD([p]).step()
        assert p.tolist() == [1.0, 1.0]


# --- state -------------------------------------------------------------------------------------


@pytest.mark.parametrize(("kind", "options"), CASES, ids=NAMES)
def test_state_dict_round_trip(kind, options):
    expected = trajectory(kind, options, 6)[-1]
    p = cf.tensor(START.astype(np.float32), requires_grad=True)
    optimizer = kind([p], **options)
    for i in range(6):
        if i == 3:
            saved = copy.deepcopy(optimizer.state_dict())
            p = p.detach().clone().requires_grad_()
            optimizer = kind([p], **({"lr": 9.0} if "lr" in options else {}))
            optimizer.load_state_dict(saved)
        optimizer.zero_grad()
        loss_of(p).backward()
        optimizer.step()
    assert p.detach().numpy().tolist() == expected.tolist()


def test_state_dict_layout():
    p, q = parameter(), parameter(3)
    optimizer = Adam([{"params": [p]}, {"params": [q], "lr": 0.5}])
    p.sum().backward()
    optimizer.step()
    saved = optimizer.state_dict()
    assert saved["param_groups"][1] == {
        "lr": 0.5, "betas": (0.9, 0.999), "eps": 1e-8, "weight_decay": 0.0, "amsgrad": False,
        "maximize": False, "decoupled_weight_decay": False, "params": [1],
    }  # fmt: skip
    assert saved["state"][0]["step"] == 1
    assert type(saved["state"][0]["step"]) is int
    assert saved["state"][1]["exp_avg"].shape == (3,)


def test_load_state_dict_writes_into_what_is_there():
    p = parameter()
    optimizer = Adam([p], lr=0.1)
    before = optimizer._structure, Structure.epoch, optimizer.state[p]["exp_avg"]
    saved = copy.deepcopy(optimizer.state_dict())
    saved["state"][0].update(step=np.float32(4), exp_avg=cf.ones(2))
    saved["param_groups"][0]["lr"] = 0.5
    optimizer.load_state_dict(saved)
    assert (optimizer._structure, Structure.epoch, optimizer.state[p]["exp_avg"]) == before
    assert optimizer.state[p]["exp_avg"].tolist() == [1.0, 1.0]
    assert optimizer.state[p]["step"].value == 4
    assert optimizer.param_groups[0]["lr"] == 0.5
    optimizer.load_state_dict({**saved, "state": {}})
    assert optimizer.state[p]["exp_avg"].tolist() == [0.0, 0.0]
    assert optimizer.state[p]["step"].value == 0


def test_load_state_dict_errors():
    optimizer = Adam([parameter()])
    saved = optimizer.state_dict()
    with pytest.raises(ValueError, match=r"Adam\.load_state_dict: the state has groups of \[1\]"):
        Adam([parameter(), parameter()]).load_state_dict(saved)
    with pytest.raises(ValueError, match=r"exp_avg of parameter 0 is float32\[2\] and should be f"):
        Adam([parameter(3)]).load_state_dict(saved)


def test_deepcopy_with_its_model():
    model = cf.nn.Linear(2, 1)
    optimizer = Adam(model.parameters(), lr=0.1)
    twin, twin_optimizer = copy.deepcopy((model, optimizer))
    twin_optimizer.param_groups[0]["amsgrad"] = True
    assert "max_exp_avg_sq" in twin_optimizer.state[twin.weight]
    twin(cf.ones(1, 2)).sum().backward()
    twin_optimizer.step()
    assert twin_optimizer.state[twin.weight]["step"].value == 1
    assert optimizer.state[model.weight]["step"].value == 0
    assert model.weight.tolist() != twin.weight.tolist()


@pytest.mark.parametrize("use_buffers", [False, True])
@pytest.mark.parametrize("kind", ["mean of all", "exponential", "exponential, of all"])
def test_averages_are_taken_inside_a_compiled_step(kind, use_buffers):
    """The first states are copied, which a recording cannot ask the counter for."""
    given = {
        "mean of all": {},
        "exponential": {"avg_fn": swa_utils.get_ema_avg_fn(0.8)},
        "exponential, of all": {"multi_avg_fn": swa_utils.get_ema_multi_avg_fn(0.8)},
    }[kind]

    def averages(compiled):
        cf.manual_seed(0)
        model = cf.nn.Sequential(cf.nn.Linear(3, 3), cf.nn.BatchNorm1d(3))
        averaged = swa_utils.AveragedModel(model, use_buffers=use_buffers, **given)
        optimizer = SGD(model.parameters(), lr=0.1)

        def step(x):
            optimizer.zero_grad()
            (model(x) ** 3).sum().backward()
            optimizer.step()
            averaged.update_parameters(model)

        step = cf.compile(step) if compiled else step
        for _ in range(4):
            step(cf.randn(4, 3))
        return averaged.state_dict()

    expected = averages(False)
    for name, found in averages(True).items():
        cf.testing.assert_close(found, expected[name])
