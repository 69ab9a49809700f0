"""Attention as a kernel, on a device whose limits name it: the same numbers as by its parts."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests.helpers.walled import opened

import contraflow as cf
import contraflow.nn.functional as F
from contraflow import func, nn
from contraflow.autograd import grad
from contraflow.testing import assert_close


@pytest.fixture(autouse=True, scope="module")
def device():
    with opened() as found:
        yield found


def drawn(seed: int, *shape: int) -> cf.Tensor:
    values = np.random.default_rng(seed).standard_normal(shape)
    return cf.tensor(values, dtype=cf.float64)


def heads(projection: cf.Tensor) -> tuple[cf.Tensor, ...]:
    """Queries, keys and values [b, h, t, d] where a projection [b, t, 3, h, d] has left them."""
    return tuple(x.transpose(1, 2) for x in projection.unbind(2))


def attend(projection: cf.Tensor) -> cf.Tensor:
    return F.scaled_dot_product_attention(*heads(projection), is_causal=True)


def step(projection: cf.Tensor) -> tuple[cf.Tensor, cf.Tensor]:
    out = attend(projection)
    (g,) = grad((out * out).sum(), [projection])
    return out, g


@pytest.mark.parametrize("compiled", [False, True], ids=["eager", "compiled"])
def test_gradients_are_those_of_the_parts(compiled: bool) -> None:
    projection = drawn(1, 2, 37, 3, 4, 5)
    expected = step(projection.requires_grad_())
    run = cf.compile(step) if compiled else step
    for out, wanted in zip(run(projection.detach().to("walled").requires_grad_()), expected):
        assert out.device.type == "walled"
        assert_close(out.cpu(), wanted)


def test_a_step_reads_heads_where_they_lie_and_stores_no_weights() -> None:
    projection = drawn(2, 2, 70, 3, 4, 5).to("walled").requires_grad_()
    compiled = cf.compile(step)
    compiled(projection)
    kernels = [name.split("_")[:2] for name in compiled.kernels]
    found = [part for kind, part in kernels if kind == "attention"]
    assert found == ["out", "all"]
    # What is there beside them: sums of g * out, and gradients put side by side.
    assert not any(name.startswith("contraction") for name in compiled.kernels)
    program = compiled.programs[-1].executable
    assert all(spec.shape.count(70) < 2 for spec in program.tape.specs.values())


def test_double_backward() -> None:
    def twice(x: cf.Tensor) -> Any:
        (g,) = grad(attend(x).square().sum(), [x], create_graph=True)
        return grad(g.square().sum(), [x])[0]

    x = drawn(3, 1, 5, 3, 2, 4)
    expected = twice(x.requires_grad_())
    assert_close(twice(x.detach().to("walled").requires_grad_()).cpu(), expected)


def test_forward_mode_and_vmap() -> None:
    x, tangent = drawn(4, 3, 5, 3, 2, 4), drawn(5, 3, 5, 3, 2, 4)
    expected = func.jvp(attend, (x,), (tangent,))
    found = func.jvp(attend, (x.to("walled"),), (tangent.to("walled"),))
    for out, wanted in zip(found, expected):
        assert_close(out.cpu(), wanted)

    def of_one(projection: cf.Tensor) -> cf.Tensor:
        return attend(projection.unsqueeze(0))[0]

    assert_close(func.vmap(of_one)(x.to("walled")).cpu(), attend(x))


def test_shapes_that_broadcast_and_heads_that_share() -> None:
    q, k = drawn(6, 2, 4, 3, 5), drawn(7, 2, 6, 5)
    for given, options in (
        ((q, k[:, None], k[:, None]), {}),
        ((q, drawn(8, 2, 2, 6, 5), drawn(9, 2, 2, 6, 7)), {"enable_gqa": True}),
    ):
        expected = F.scaled_dot_product_attention(*given, **options)
        there = [x.to("walled") for x in given]
        assert_close(F.scaled_dot_product_attention(*there, **options).cpu(), expected)


def test_masks_dropout_and_no_keys_take_the_parts() -> None:
    q, k = drawn(10, 2, 3, 4), drawn(11, 2, 5, 4)
    mask = cf.tensor(np.eye(3, 5) == 1)
    expected = F.scaled_dot_product_attention(q, k, k, mask)
    run = cf.compile(lambda q, k, mask: F.scaled_dot_product_attention(q, k, k, mask))
    assert_close(run(*(x.to("walled") for x in (q, k, mask))).cpu(), expected)
    assert not any(name.startswith("attention") for name in run.kernels)
    empty = F.scaled_dot_product_attention(q.to("walled"), *[k[:, :0].to("walled")] * 2)
    assert_close(empty.cpu(), F.scaled_dot_product_attention(q, *[k[:, :0]] * 2))


def test_modules_train_alike() -> None:
    def losses(device: str) -> list[float]:
        cf.manual_seed(0)
        model = nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, batch_first=True).to(device)
        optimizer = cf.optim.SGD(model.parameters(), lr=0.1)
        x = drawn(12, 2, 6, 8).float().to(device)
        found = []
        for _ in range(3):
            optimizer.zero_grad()
            loss = model(x).square().mean()
            loss.backward()
            optimizer.step()
            found.append(loss.item())
        return found

    np.testing.assert_allclose(losses("walled"), losses("cpu"), rtol=1e-5)
