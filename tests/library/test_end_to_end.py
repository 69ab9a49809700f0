"""A whole network trains the same eagerly, interpreted and compiled: losses, gradients, state.

Embedding, convolution, pooling, layer norm, dropout, a checkpointed block, an in-place update, a
hook, cross-entropy, Adam and a learning-rate schedule, for thirty steps.
"""

from typing import Any, NamedTuple

import numpy as np
import pytest

import contraflow as cf
from contraflow import config, nn, optim
from contraflow.nn import functional as F

STEPS = 30


class Network(nn.Module):
    """Eight tokens seen as an image, then a residual block."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(11, 8)
        self.convolution = nn.Conv2d(1, 4, 3, padding=1)
        self.norm = nn.LayerNorm(32)
        self.dropout = nn.Dropout(0.2)
        self.hidden = nn.Linear(32, 32)
        self.head = nn.Linear(32, 5)

    def block(self, h: cf.Tensor) -> cf.Tensor:
        return F.gelu(self.hidden(self.dropout(self.norm(h))))

    def forward(self, tokens: cf.Tensor, gain: cf.Tensor) -> cf.Tensor:
        n = tokens.shape[0]
        image = self.embedding(tokens).reshape(n, 1, 8, 8)
        features = F.max_pool2d(F.relu(self.convolution(image)), 2).flatten(2).mean(2)
        h = (features.reshape(n, 4, 1) * gain).reshape(n, 32)
        h = h * 1.0
        h[:, 0] = h[:, 1].tanh()
        h = h + cf.checkpoint(self.block, h)
        return self.head(h)


class Run(NamedTuple):
    """What a training run leaves behind."""

    losses: list[float]
    parameters: list[np.ndarray]
    gradients: list[np.ndarray]
    state: list[np.ndarray]
    rates: list[float]
    random: tuple[int, int]
    step: Any


def batches() -> list[tuple[cf.Tensor, cf.Tensor, cf.Tensor]]:
    rng = np.random.default_rng(0)
    return [
        (
            cf.tensor(rng.integers(0, 11, (6, 8))),
            cf.tensor(rng.standard_normal((6, 4, 8)).astype(np.float32)),
            cf.tensor(rng.integers(0, 5, 6)),
        )
        for _ in range(STEPS)
    ]


def train(mode: str, monkeypatch: pytest.MonkeyPatch) -> Run:
    monkeypatch.setattr(config, "compile_mode", mode)
    # The interpreter computes with NumPy, and so does eager mode then, however large a call is.
    monkeypatch.setattr(config, "eager_kernels", False)
    cf.manual_seed(3)
    model = Network()
    optimizer = optim.Adam(model.parameters(), lr=1e-2)
    schedule = optim.lr_scheduler.StepLR(optimizer, step_size=10, gamma=0.5)

    @cf.compile
    def step(tokens: cf.Tensor, gain: cf.Tensor, target: cf.Tensor) -> cf.Tensor:
        optimizer.zero_grad()
        logits = model(tokens, gain)
        logits.register_hook(lambda g: g * 0.5)
        loss = F.cross_entropy(logits, target)
        loss.backward()
        with cf.no_grad():
            model.head.bias.mul_(0.99)  # an update of the user's own, inside the step
        optimizer.step()
        return loss

    losses, rates = [], []
    for batch in batches():
        losses.append(step(*batch).item())
        rates.append(optimizer.param_groups[0]["lr"])
        schedule.step()
    parameters = list(model.parameters())
    moments = [
        optimizer.state[p][name].numpy().copy()
        for p in parameters
        for name in ("exp_avg", "exp_avg_sq")
    ]
    return Run(
        losses,
        [p.detach().numpy().copy() for p in parameters],
        [p.grad.numpy().copy() for p in parameters if p.grad is not None],
        moments,
        rates,
        cf.get_rng_state(),
        step,
    )


@pytest.fixture(scope="module")
def eager() -> Run:
    with pytest.MonkeyPatch.context() as patch:
        return train("off", patch)


def test_the_interpreter_trains_bit_for_bit_like_eager(eager, monkeypatch):
    run = train("interpret", monkeypatch)
    assert run.losses == eager.losses
    assert run.random == eager.random
    assert run.rates == eager.rates
    for name in ("parameters", "gradients", "state"):
        for a, b in zip(getattr(run, name), getattr(eager, name), strict=True):
            np.testing.assert_array_equal(a, b)
    assert run.step.captures == 1


def test_native_code_trains_like_eager(eager, monkeypatch):
    run = train("native", monkeypatch)
    assert run.step.captures == 1
    assert run.random == eager.random
    assert run.rates == eager.rates
    np.testing.assert_allclose(run.losses, eager.losses, rtol=2e-5)
    for name in ("parameters", "gradients", "state"):
        for a, b in zip(getattr(run, name), getattr(eager, name), strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-3, atol=1e-5)


def test_the_runs_learn_something(eager):
    assert len(eager.gradients) == len(eager.parameters) == 9
    assert any(abs(g).max() > 1e-4 for g in eager.gradients)
    assert eager.losses[0] != eager.losses[-1]
    assert eager.rates[0] == 4 * eager.rates[-1]


def test_the_tape_shows_the_recomputation(eager, monkeypatch):
    run = train("interpret", monkeypatch)
    text = run.step.tape.text()
    assert "region 1" in text
    assert "keep_mask" in text
    assert "assign" in text


class Blocks(nn.Module):
    """Transformer blocks without dropout, and a head."""

    def __init__(self, layers: int) -> None:
        super().__init__()
        self.blocks = nn.ModuleList(
            nn.TransformerEncoderLayer(8, 2, 16, 0.0, F.gelu, batch_first=True, norm_first=True)
            for _ in range(layers)
        )
        self.head = nn.Linear(8, 5)

    def forward(self, x: cf.Tensor) -> cf.Tensor:
        for block in self.blocks:
            x = block(x)
        return self.head(x)


def kernels_of_a_step(layers: int) -> set[str]:
    """The kernels of a training step of so many layers."""
    model = Blocks(layers)
    optimizer = optim.Adam(model.parameters())

    @cf.compile
    def step(x: cf.Tensor, target: cf.Tensor) -> cf.Tensor:
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x).flatten(0, 1), target.flatten())
        loss.backward()
        optimizer.step()
        return loss.detach()

    step(cf.randn(2, 3, 8), cf.randint(0, 5, (2, 3)))
    return set(step.kernels)


@pytest.mark.skipif(config.compile_mode != "native", reason="asks for native kernels")
def test_layers_share_their_kernels() -> None:
    few = kernels_of_a_step(4)
    assert len(few) > 10
    assert kernels_of_a_step(48) == few


@pytest.mark.skipif(config.compile_mode != "native", reason="asks for native kernels")
def test_batches_of_several_sizes_share_kernels_that_pad() -> None:
    found = set()
    for images in (4, 6, 9):
        padded = cf.compile(lambda x: F.pad(x, (1, 1, 2, 0)))
        padded(cf.randn(images, 3, 8, 8))
        found.update(padded.kernels)
    assert len(found) == 1
