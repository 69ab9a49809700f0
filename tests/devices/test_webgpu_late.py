"""Wrong indices in compiled functions on the webgpu device, found after the call has returned."""

from __future__ import annotations

from typing import Any

import pytest

import contraflow as cf
import contraflow.nn.functional as F
from contraflow.testing import assert_close

pytestmark = pytest.mark.usefixtures("webgpu")


def tokens(*numbers: int) -> cf.Tensor:
    return cf.tensor(numbers, device="webgpu")


def training(seed: int) -> tuple[Any, Any, Any]:
    cf.manual_seed(seed)
    table, head = cf.nn.Embedding(5, 4).to("webgpu"), cf.nn.Linear(4, 5).to("webgpu")
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


def state(optimizer: Any, parameters: Any) -> Any:
    moments = [optimizer.state[p] for p in parameters]
    return (
        [p.tolist() for p in parameters],
        [p.grad.tolist() for p in parameters],
        [(m["step"].value, m["exp_avg"].tolist()) for m in moments],
        cf.get_rng_state(),
    )


@pytest.mark.parametrize("good_steps", [1, 3, 9])
def test_a_step_that_fails_is_taken_back_with_those_behind_it(webgpu, good_steps):
    step, optimizer, parameters = training(0)
    good = tokens(0, 1, 2), tokens(1, 2, 3)
    bad = tokens(0, 9, 2)
    for _ in range(good_steps):
        step(*good)
    webgpu.synchronize()
    before = state(optimizer, parameters)

    def fail() -> None:
        for _ in range(3):
            step(bad, good[1])
            step(*good)
        webgpu.synchronize()

    text = r"embedding: index 9 is out of range.* at test_webgpu_late"
    with pytest.raises(IndexError, match=text):
        fail()
    assert state(optimizer, parameters) == before
    step(*good)
    webgpu.synchronize()
    other, _, twins = training(0)
    for _ in range(good_steps + 1):
        other(*good)
    for p, q in zip(parameters, twins):
        assert_close(p, q)


def test_the_last_of_several_risks_takes_back_what_lies_before_it(webgpu):
    """The target is wrong, which is found when the embedding was read already."""
    step, optimizer, parameters = training(1)
    good = tokens(0, 1, 2), tokens(1, 2, 3)
    for _ in range(3):
        step(*good).item()
    before = state(optimizer, parameters)
    loss = step(good[0], tokens(1, 2, 7))
    with pytest.raises(IndexError, match=r"index 7 is out of range"):
        loss.item()
    assert state(optimizer, parameters) == before


def test_a_call_does_not_wait_for_its_outcome(webgpu, monkeypatch):
    step, _, _ = training(2)
    good = tokens(0, 1, 2), tokens(1, 2, 3)
    for _ in range(3):
        step(*good)
    webgpu.synchronize()
    reads = []
    read = webgpu.calls.read
    monkeypatch.setattr(webgpu.calls, "read", lambda *given: (reads.append(1), read(*given)))
    for _ in range(5):
        loss = step(*good)
    assert not reads
    loss.item()
    assert len(reads) == 1


def test_many_calls_are_waited_for_now_and_then(webgpu):
    table = cf.arange(12.0, device="webgpu").reshape(4, 3)
    rows = cf.compile(lambda at: table[at].sum())
    for i in range(200):
        found = rows(tokens(i % 4))
        assert len(webgpu.outcomes.pending) <= webgpu.outcomes.MOST
    assert found.item() == table[3].sum().item()


def test_an_eager_op_behind_a_call_that_failed(webgpu):
    table = cf.arange(12.0, device="webgpu").reshape(4, 3)
    total = cf.zeros(3, device="webgpu")

    @cf.compile
    def add(at):
        total.add_(table[at].sum(0))

    add(tokens(0, 1))
    webgpu.synchronize()
    add(tokens(0, 4))
    add(tokens(2, 2))
    with pytest.raises(IndexError, match=r"index 4 is out of range"):
        table[tokens(3)]
    assert total.tolist() == [3.0, 5.0, 7.0]
    assert table[tokens(3)].tolist() == [[9.0, 10.0, 11.0]]
    add(tokens(3))
    assert total.tolist() == [12.0, 15.0, 18.0]


def test_results_of_a_call_that_was_taken_back_are_zeros(webgpu):
    x = cf.arange(4.0).to("webgpu")
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
