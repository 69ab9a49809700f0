"""Indices that an earlier line has checked are not checked again, and reach no other memory."""

from __future__ import annotations

import pytest
from tests.helpers.walled import opened

import contraflow as cf
from contraflow import nn


def trained(place: str, rows: int = 7) -> tuple[nn.Embedding, cf.Tensor, object]:
    table = nn.Embedding(rows, 3).to(place)
    optimizer = cf.optim.SGD(table.parameters(), lr=0.5)

    @cf.compile
    def step(tokens: cf.Tensor) -> cf.Tensor:
        optimizer.zero_grad()
        loss = table(tokens).square().sum()
        loss.backward()
        optimizer.step()
        return loss

    return table, table.weight.detach().cpu().clone(), step


@pytest.mark.parametrize("place", ["cpu", "walled"])
def test_the_gradient_of_a_table_does_not_check_what_the_table_has(place):
    with opened():
        table, weight, step = trained(place)
        tokens = cf.tensor([1, 2, 2, 6], device=place)
        step(tokens)
        plan = step.programs[-1].executable.plan
        assert [s.may_fail for s in plan.steps].count(True) == 1
        assert plan.steps[0].may_fail
        count = cf.tensor([0.0, 1.0, 2.0, 0.0, 0.0, 0.0, 1.0]).reshape(7, 1)
        expected = weight - 0.5 * 2 * weight * count
        assert cf.allclose(table.weight.detach().cpu(), expected)
        for wrong in ([1, 2, 9, 6], [-1, 2, 1, 6], [1 << 40, -(1 << 40), 0, 0]):
            with pytest.raises(IndexError, match=r"embedding: index .* is out of range for size 7"):
                step(cf.tensor(wrong, device=place)).item()
            assert cf.allclose(table.weight.detach().cpu(), expected)


def test_other_indices_and_other_bounds_are_checked():
    table, other = nn.Embedding(5, 2), nn.Embedding(4, 2)

    @cf.compile
    def gradients(first: cf.Tensor, second: cf.Tensor) -> object:
        loss = table(first).square().sum() + other(second).square().sum()
        return cf.autograd.grad(loss, [table.weight, other.weight])

    gradients(cf.tensor([0, 1]), cf.tensor([2, 3]))
    with pytest.raises(IndexError, match="embedding: index 4 is out of range for size 4"):
        gradients(cf.tensor([0, 4]), cf.tensor([2, 4]))
    with pytest.raises(IndexError, match="embedding: index 5 is out of range for size 5"):
        gradients(cf.tensor([0, 5]), cf.tensor([2, 3]))


def test_a_backward_of_its_own_checks():
    table = nn.Embedding(5, 2)
    compiled = cf.compile(table)
    compiled(cf.tensor([0, 4])).sum().backward()
    assert table.weight.grad.tolist() == [
        [1.0, 1.0],
        [0.0, 0.0],
        [0.0, 0.0],
        [0.0, 0.0],
        [1.0, 1.0],
    ]


@pytest.mark.parametrize("dim", [0, 1])
def test_the_gradient_of_a_gather_does_not_check_what_the_gather_has(dim):
    @cf.compile
    def gradient(x: cf.Tensor, index: cf.Tensor) -> cf.Tensor:
        return cf.autograd.grad(x.gather(dim, index).square().sum(), x)[0]

    x = cf.arange(12.0).reshape(3, 4).requires_grad_()
    index = cf.tensor([[0, 2], [2, 1]])
    picked = cf.zeros(3, 4).scatter_add(dim, index, cf.ones(2, 2))
    assert gradient(x, index).tolist() == (2 * x.detach() * picked).tolist()
    plan = gradient.programs[-1].executable.plan
    assert [s.may_fail for s in plan.steps].count(True) == 1
    with pytest.raises(IndexError, match=r"gather: index 9 is out of range for size"):
        gradient(x, cf.tensor([[0, 9], [2, 1]]))


INDEXED = {
    "rows": (lambda x, at: x[at], "index 9 is out of range for dim 0 with size 3"),
    "columns": (lambda x, at: x[:, at], "index 9 is out of range for dim 1 with size 4"),
    "points": (lambda x, at: x[at, at], "getitem: index 9 is out of range"),
}


@pytest.mark.parametrize("form", INDEXED)
def test_the_gradient_of_an_index_does_not_check_what_the_index_has(form):
    picked, message = INDEXED[form]

    def gradient(x: cf.Tensor, at: cf.Tensor) -> cf.Tensor:
        return cf.autograd.grad(picked(x, at).square().sum(), x)[0]

    compiled = cf.compile(gradient)
    x = cf.arange(12.0).reshape(3, 4).requires_grad_()
    at = cf.tensor([0, -1, 2, -1])
    assert compiled(x, at).tolist() == gradient(x, at).tolist()
    plan = compiled.programs[-1].executable.plan
    assert [s.may_fail for s in plan.steps].count(True) == 1
    with pytest.raises(IndexError, match=message):
        compiled(x, cf.tensor([0, 9, 1, 1]))
