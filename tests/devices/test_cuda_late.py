"""Wrong indices on a GPU, which are found after the call has returned. Skipped without a GPU."""

from __future__ import annotations

import pytest
from tests.helpers.cuda_device import opened_gpu

import contraflow as cf
import contraflow.nn.functional as F
from contraflow.testing import assert_close


@pytest.fixture(autouse=True, scope="module")
def device():
    with opened_gpu("gpu") as found:
        yield found


def tokens(*numbers: int) -> cf.Tensor:
    return cf.tensor(numbers, device="gpu")


def test_an_op_that_fails_gives_zeros_and_names_itself(device):
    x = cf.ones(4, 3, device="gpu")
    at = tokens(0, 7)
    found = x[at]
    with pytest.raises(IndexError, match=r"^getitem: index 7 .* at test_cuda_late.py:\d+.$"):
        device.synchronize()
    assert found.tolist() == [[0.0] * 3] * 2
    assert x.sum().item() == 12.0


def training(seed: int):
    cf.manual_seed(seed)
    table, head = cf.nn.Embedding(5, 4).to("gpu"), cf.nn.Linear(4, 5).to("gpu")
    parameters = [*table.parameters(), *head.parameters()]
    optimizer = cf.optim.AdamW(parameters, lr=0.1)

    @cf.compile
    def step(tokens, targets):
        optimizer.zero_grad()
        loss = F.cross_entropy(head(F.dropout(table(tokens), 0.2)), targets)
        loss.backward()
        optimizer.step()
        return loss

    return step, optimizer, parameters


def state(optimizer, parameters):
    moments = [optimizer.state[p] for p in parameters]
    return (
        [p.tolist() for p in parameters],
        [(m["step"].value, m["exp_avg"].tolist()) for m in moments],
        cf.get_rng_state(),
    )


@pytest.mark.parametrize("good_steps", [1, 3, 9])
def test_a_step_that_fails_is_taken_back_with_those_behind_it(device, good_steps):
    step, optimizer, parameters = training(0)
    good = tokens(0, 1, 2), tokens(1, 2, 3)
    bad = tokens(0, 9, 2)
    for _ in range(good_steps):
        step(*good)
    device.synchronize()
    before = state(optimizer, parameters)

    def fail() -> None:
        for _ in range(3):
            step(bad, good[1])
            step(*good)
        device.synchronize()

    with pytest.raises(IndexError, match=r"embedding: index 9 is out of range.* at test_cuda_late"):
        fail()
    assert state(optimizer, parameters) == before
    step(*good)
    device.synchronize()
    other, _, twins = training(0)
    for _ in range(good_steps + 1):
        other(*good)
    for p, q in zip(parameters, twins):
        assert_close(p, q, 0.0, 0.0)


def test_many_steps_without_a_wait(device):
    step, _, _ = training(1)
    losses = [step(tokens(0, 1), tokens(1, 2)) for _ in range(300)]
    assert losses[-1].item() < 0.5 * losses[0].item()
    assert len(device.outcomes.pending._runs) == 0


def test_writing_in_place_waits_for_the_index():
    w = cf.ones(3, 2, device="gpu")
    with pytest.raises(IndexError, match="index 8 is out of range"):
        w[tokens(8)] = 5.0
    assert w.tolist() == [[1.0, 1.0]] * 3


def test_results_of_a_call_that_was_taken_back_are_zeros():
    x = cf.arange(4.0).to("gpu")
    f = cf.compile(lambda at: (x[at] * 2, (x[at] + 1).sum()))
    for _ in range(4):
        before = f(tokens(3))
    failed, behind = f(tokens(5)), f(tokens(2))
    with pytest.raises(IndexError, match="index 5 is out of range"):
        failed[0].tolist()
    for doubled, total in (failed, behind):
        assert doubled.tolist() == [0.0]
        assert total.item() == 0.0
    assert before[0].tolist() == f(tokens(3))[0].tolist() == [6.0]
