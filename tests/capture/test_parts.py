"""Compiled functions of parts of larger tensors: one program, unless their place matters."""

from __future__ import annotations

import gc
from typing import Any

import numpy as np
import pytest

import contraflow as cf
from contraflow import nn
from contraflow.testing import assert_close

pytestmark = pytest.mark.usefixtures("mode")


def data(rows: int = 12, columns: int = 3, seed: int = 0) -> cf.Tensor:
    values = np.random.default_rng(seed).normal(size=(rows, columns))
    return cf.tensor(values.astype(np.float32))


def batches(x: cf.Tensor, size: int = 2) -> list[cf.Tensor]:
    return [x[i : i + size] for i in range(0, len(x), size)]


def test_batches_of_one_tensor_are_one_program() -> None:
    w = data(3, 5, seed=1)

    @cf.compile
    def f(x: cf.Tensor) -> cf.Tensor:
        return (x @ w).tanh() * x.sum() + x[:, :1]

    for x in batches(data()):  # whose memory begins anywhere, and not at the lines of a cache
        assert_close(f(x), (x @ w).tanh() * x.sum() + x[:, :1])
    assert f.captures == 1
    f(data(2))  # memory of its own
    assert f.captures == 1


def test_rows_and_numbers_of_a_table() -> None:
    table = cf.arange(40).reshape(10, 4)

    @cf.compile
    def f(row: cf.Tensor, factor: float) -> cf.Tensor:
        return row.flip(0) * factor

    for i in range(10):
        assert f(table[i], i).tolist() == [i * (4 * i + k) for k in (3, 2, 1, 0)]
    assert f.captures <= 2  # an int, and what is counted from it


@pytest.mark.parametrize("kind", [tuple, list, dict])
def test_batches_in_containers(kind: Any) -> None:
    x, y = data(), data(seed=1)

    @cf.compile
    def f(batch: Any) -> cf.Tensor:
        a, b = batch.values() if isinstance(batch, dict) else batch
        return a * b

    for a, b in zip(batches(x), batches(y)):
        batch = {"a": a, "b": b} if kind is dict else kind((a, b))
        assert_close(f(batch), a * b)
    assert f.captures == 1


def test_a_step_of_training() -> None:
    def losses(compiler: Any) -> cf.Tensor:
        cf.manual_seed(0)
        net = nn.Linear(3, 1)
        optimizer = cf.optim.Adam(net.parameters(), lr=0.1)

        def step(x: cf.Tensor, y: cf.Tensor) -> cf.Tensor:
            optimizer.zero_grad()
            loss = (net(x) - y).square().mean()
            loss.backward()
            optimizer.step()
            return loss.detach()

        run = compiler(step)
        pairs = list(zip(batches(data()), batches(data(12, 1, seed=1))))
        found = cf.stack([run(x, y) for x, y in pairs * 2])
        assert compiler is not cf.compile or run.captures <= 2
        return found

    assert_close(losses(cf.compile), losses(lambda f: f))


def test_a_part_that_is_written_is_written_where_it_lies() -> None:
    x = cf.zeros(6)

    @cf.compile
    def fill(part: cf.Tensor, value: float) -> None:
        part.fill_(value)

    before = x._version
    for i in range(3):
        fill(x[2 * i : 2 * i + 2], i + 1.0)
    assert x.tolist() == [1.0, 1.0, 2.0, 2.0, 3.0, 3.0]
    assert x._version == before + 3


def test_a_part_that_is_returned_or_kept_is_itself() -> None:
    x, kept = data(), []

    @cf.compile
    def same(part: cf.Tensor) -> cf.Tensor:
        return part

    @cf.compile
    def row(part: cf.Tensor) -> cf.Tensor:
        return part[0]

    @cf.compile
    def keep(part: cf.Tensor) -> cf.Tensor:
        kept.append(part)
        return part * 2

    @cf.compile
    def fill(batch: dict[str, cf.Tensor]) -> cf.Tensor:
        batch["y"] = batch["x"] * 2
        return batch["y"]

    for part in batches(x):
        assert same(part) is part
        found = row(part)
        found.zero_()
        assert part[0].tolist() == [0.0, 0.0, 0.0]
        keep(part)
        assert kept[-1] is part
        batch = {"x": part}
        assert fill(batch) is batch["y"]


@pytest.mark.parametrize("show", [lambda x: x[1:], lambda x: x.detach(), lambda x: x.mul_(2)[:1]])
def test_a_view_of_a_part_is_one_of_the_whole(show: Any) -> None:
    f = cf.compile(show)
    for compiled, eager in zip(batches(x := data()), batches(y := data())):
        found, expected = f(compiled), show(eager)
        assert found.storage is x.storage
        assert (found.layout, found.tolist()) == (expected.layout, expected.tolist())
    assert x.tolist() == y.tolist()


def test_parts_that_share_memory_with_others() -> None:
    x = cf.zeros(6)

    @cf.compile
    def add(a: cf.Tensor, b: cf.Tensor) -> cf.Tensor:
        a.add_(1.0)
        return b * 2

    assert add(x[0:3], x[1:4]).tolist() == [2.0, 2.0, 0.0]
    assert add(x[0:3], x[3:6]).tolist() == [0.0, 0.0, 0.0]
    assert x.tolist() == [2.0, 2.0, 2.0, 0.0, 0.0, 0.0]

    @cf.compile
    def through(part: cf.Tensor) -> cf.Tensor:
        x.add_(1.0)
        return part * 2

    for i in range(3):
        before = x[i].item()
        assert through(x[i : i + 1]).item() == 2 * (before + 1)

    y = cf.zeros(6)
    read = cf.compile(lambda part: y * part)  # which knows memory that comes as an argument later
    assert read(x[4:5]).tolist() == [0.0] * 6
    y.fill_(3.0)
    assert read(y[1:2]).tolist() == [9.0] * 6


def test_the_place_of_a_part_is_known_to_those_who_ask() -> None:
    x = data()
    offset = cf.compile(lambda part: part * part.storage_offset())
    strided = cf.compile(lambda part: part.as_strided((2,), (1,), part.storage_offset() + 1))
    for part in batches(x):
        assert_close(offset(part), part * part.storage_offset())
        assert_close(strided(part), part.reshape(-1)[1:3])


def test_an_overwritten_part_is_noticed_by_backward() -> None:
    x, w = data(), data(2, 3, seed=1).requires_grad_()
    f = cf.compile(lambda part: (part * w * w).sum())
    for part in batches(x)[:3]:
        loss = f(part)
        loss.backward()
        assert_close(w.grad, 2 * part * w.detach())
        w.grad = None
    loss = f(x[0:2])
    x.mul_(2.0)
    with pytest.raises(cf.GradientError, match="overwrote"):
        loss.backward()


def test_a_part_that_requires_grad_has_its_gradient() -> None:
    x = data().requires_grad_()
    f = cf.compile(lambda part: (part * part).sum())
    for part in batches(x):
        f(part).backward()
    assert_close(x.grad, 2 * x.detach())


def test_parts_keep_the_whole_as_long_as_they_are_needed() -> None:
    w = data(2, 3, seed=1).requires_grad_()
    f = cf.compile(lambda part: (part * w * w).sum())
    for seed in range(4):
        x = data(seed=seed)
        part, expected = x[4:6], 2 * x[4:6].numpy().copy() * w.detach().numpy()
        loss = f(part)
        del x, part
        gc.collect()
        cf.ones(12, 3) * 7.0  # memory that is free is used again
        loss.backward()
        assert_close(w.grad, expected)
        w.grad = None


def test_attributes_of_the_user_s_stay() -> None:
    x = data()
    f = cf.compile(lambda part: part * part.scale)
    for k, part in enumerate(batches(x)):
        part.scale = float(k)
        assert_close(f(part), part * k)


def test_what_is_printed_is_printed_once(capsys: pytest.CaptureFixture[str]) -> None:
    @cf.compile
    def f(part: cf.Tensor) -> cf.Tensor:
        print("recording")
        return part

    f(data()[2:4])
    assert capsys.readouterr().out == "recording\n"
