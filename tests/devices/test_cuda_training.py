"""Whole models on a GPU: losses follow the CPU's, memory stays flat. Skipped without a GPU."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from benchmarks.models import STEPS, Step
from benchmarks.with_contraflow import functions
from tests.helpers.cuda_device import opened_gpu

import contraflow as cf


@pytest.fixture(autouse=True, scope="module")
def device():
    with opened_gpu("gpu") as found:
        yield found


def training(step: Step, place: str) -> tuple[Any, list[Any]]:
    """A compiled step, and the batches on a device."""
    weights = {k: cf.tensor(v, device=place, requires_grad=True) for k, v in step.weights.items()}
    optimizer = cf.optim.Adam(list(weights.values()), lr=step.learning_rate)

    @cf.compile
    def train(*batch: cf.Tensor) -> cf.Tensor:
        optimizer.zero_grad()
        loss = step.loss(functions, weights, *batch)
        loss.backward()
        optimizer.step()
        return loss.detach()

    return train, [tuple(cf.tensor(x, device=place) for x in batch) for batch in step.batches]


@pytest.mark.parametrize("name", ["small", "mlp", "cnn", "gpt", "lstm"])
def test_losses_follow_the_cpu(name):
    losses = []
    for place in ("cpu", "gpu"):
        train, batches = training(STEPS[name](), place)
        losses.append([train(*batches[k % len(batches)]).item() for k in range(20)])
    np.testing.assert_allclose(losses[1], losses[0], rtol=2e-4)


def test_a_step_moves_nothing_and_memory_stays_flat(device):
    train, batches = training(STEPS["small"](), "gpu")
    for k in range(100):
        train(*batches[k % len(batches)])
    device.synchronize()
    uploads, downloads = device.uploads, device.downloads
    before = device.memory.allocated, device.memory.reserved()
    for k in range(10_000):
        train(*batches[k % len(batches)])
    device.synchronize()
    assert (device.memory.allocated, device.memory.reserved()) == before
    assert (device.uploads, device.downloads) == (uploads, downloads)


def test_two_runs_have_the_same_bits():
    found = []
    for _ in range(2):
        train, batches = training(STEPS["gpt"](), "gpu")
        found.append([train(*batches[k % len(batches)]).item() for k in range(12)])
    assert found[0] == found[1]


@pytest.mark.parametrize("dtype", [cf.float64, cf.float32, cf.float16, cf.bfloat16], ids=str)
@pytest.mark.parametrize("batch", [(), (3,), (2, 3)], ids=str)
def test_products_of_every_layout(dtype, batch):
    random = np.random.default_rng(0)
    tolerance = {"float64": 1e-12, "float32": 2e-5, "float16": 4e-3, "bfloat16": 3e-2}[dtype.name]
    for m, n, k in ((1, 1, 1), (5, 7, 3), (64, 32, 128), (33, 65, 130)):
        a = cf.tensor(random.standard_normal((*batch, m, k)), dtype=dtype)
        b = cf.tensor(random.standard_normal((*batch, k, n)), dtype=dtype)
        expected = (a.double() @ b.double()).numpy()
        for x in (a, a.mT.contiguous().mT):
            for y in (b, b.mT.contiguous().mT):
                found = (x.to("gpu") @ y.to("gpu")).cpu().double().numpy()
                np.testing.assert_allclose(found, expected, rtol=tolerance, atol=tolerance * k**0.5)
        shifted = cf.tensor(random.standard_normal((*batch, m, k + 1)), dtype=dtype)[..., 1:]
        found = (shifted.to("gpu") @ b.to("gpu")).cpu().double().numpy()
        expected = (shifted.double() @ b.double()).numpy()
        np.testing.assert_allclose(found, expected, rtol=tolerance, atol=tolerance * k**0.5)
