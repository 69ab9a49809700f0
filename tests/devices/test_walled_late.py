"""A device on which programs run later: what fails then is reported, and taken back."""

from __future__ import annotations

import pytest
from tests.helpers.walled import AsynchronousDevice, opened

import contraflow as cf
import contraflow.nn.functional as F
from contraflow.testing import assert_close


@pytest.fixture(autouse=True)
def device():
    with opened(AsynchronousDevice) as found:
        yield found


def test_programs_run_when_something_waits(device):
    x = cf.ones(3, device="walled") + 1
    assert device.runs == 0
    assert x.tolist() == [2.0] * 3
    assert device.runs == 2


def test_an_op_that_fails_late_gives_zeros_and_an_error_that_names_it(device):
    x = cf.ones(4, 3, device="walled")
    found = x[cf.tensor([0, 7], device="walled")]
    total = x.sum()
    with pytest.raises(IndexError, match=r"index 7 is out of range"):
        device.synchronize()
    assert found.tolist() == [[0.0] * 3] * 2
    assert total.item() == 12.0


def training(seed: int):
    cf.manual_seed(seed)
    table = cf.nn.Embedding(5, 4).to("walled")
    head = cf.nn.Linear(4, 5).to("walled")
    optimizer = cf.optim.AdamW([*table.parameters(), *head.parameters()], lr=0.1)

    @cf.compile
    def step(tokens, targets):
        optimizer.zero_grad()
        loss = F.cross_entropy(head(F.dropout(table(tokens), 0.2)), targets)
        loss.backward()
        optimizer.step()
        return loss

    return step, optimizer, [*table.parameters(), *head.parameters()]


def tokens(*numbers: int) -> cf.Tensor:
    return cf.tensor(numbers, device="walled")


def state(optimizer, parameters):
    moments = [optimizer.state[p] for p in parameters]
    return (
        [p.tolist() for p in parameters],
        [p._version for p in parameters],
        [p.grad.tolist() for p in parameters],
        [(m["step"].value, m["exp_avg"].tolist()) for m in moments],
        cf.get_rng_state(),
    )


def test_a_step_that_fails_late_is_taken_back_with_those_behind_it(device):
    step, optimizer, parameters = training(0)
    good = tokens(0, 1, 2), tokens(1, 2, 3)
    for _ in range(3):
        step(*good)
    device.synchronize()
    before = state(optimizer, parameters)
    step(tokens(0, 9, 2), good[1])
    step(*good)  # queued behind the one that fails
    step(*good)
    with pytest.raises(IndexError, match=r"embedding: index 9 is out of range.* at test_walled"):
        parameters[0].tolist()
    assert state(optimizer, parameters) == before
    step(*good)
    device.synchronize()

    other, _, twins = training(0)
    for _ in range(4):
        other(*good)
    for p, q in zip(parameters, twins):
        assert_close(p, q, 0.0, 0.0)


def test_the_error_surfaces_in_a_later_call_too(device):
    step, optimizer, parameters = training(1)
    good = tokens(0, 1), tokens(1, 2)
    for _ in range(3):
        step(*good)
    before = state(optimizer, parameters)
    step(tokens(0, 1), tokens(1, 8))
    for _ in range(device.most - len(device.queue)):
        step(*good)
    with pytest.raises(IndexError, match=r"index 8 is out of range"):
        step(*good)
    assert state(optimizer, parameters)[1:] == before[1:]


def test_state_of_python_waits_for_the_program():
    class Counter:
        last = None

    counter = Counter()
    x = cf.ones(4, device="walled")

    @cf.compile
    def f(at):
        counter.last = x[at]
        return counter.last.sum()

    f(tokens(1, 2))
    f(tokens(1, 3))
    kept = counter.last
    with pytest.raises(IndexError, match="index 5 is out of range"):
        f(tokens(1, 5))
    assert counter.last is kept
