"""A diffusion model learns to write digits out of noise.

Training: take a digit, mix it with noise, and let the network say what the noise was. Writing:
start from noise alone, let the network say which part of it is noise, take a little of that away,
and repeat. The network is told which digit it is to be, so that one can ask for a seven.

The digits are scikit-learn's, of 8 x 8 pixels. A classifier that knows only real digits judges, at
the end, whether the written ones are what was asked for.

    python examples/diffusion.py            # writes diffusion.png here
    python examples/diffusion.py --quick    # a twentieth of the steps
"""

import argparse

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits
from sklearn.svm import SVC
from tqdm import trange

import contraflow as cf
from contraflow import nn
from contraflow.nn import functional as F

LEVELS = 100  # of noise: 0 is a clean picture, LEVELS - 1 nothing but noise
BATCH = 128
WIDTH = 192
PICTURE = "diffusion.png"


# --- noise -------------------------------------------------------------------------------------


def kept_share() -> cf.Tensor:
    """How much of the picture's variance is left at each level [LEVELS]: the cosine schedule."""
    level = cf.linspace(0, 1, LEVELS + 1)[1:]
    return cf.cos(level * cf.pi / 2).square().clamp(1e-3, 1 - 1e-3)


def add_noise(x: cf.Tensor, noise: cf.Tensor, kept: cf.Tensor) -> cf.Tensor:
    """Pictures [n, 64] with noise, of variance 1 in sum, where `kept` [n, 1] is the picture's."""
    return kept.sqrt() * x + (1 - kept).sqrt() * noise


# --- the network -------------------------------------------------------------------------------


class Block(nn.Module):
    """A residual layer that a condition scales and shifts: [n, WIDTH] to the same."""

    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(WIDTH, elementwise_affine=False)
        self.condition = nn.Linear(WIDTH, 2 * WIDTH)
        self.widen = nn.Linear(WIDTH, 2 * WIDTH)
        self.narrow = nn.Linear(2 * WIDTH, WIDTH)

    def forward(self, x: cf.Tensor, condition: cf.Tensor) -> cf.Tensor:
        scale, shift = self.condition(condition).chunk(2, dim=1)
        return x + self.narrow(F.silu(self.widen(self.norm(x) * (1 + scale) + shift)))


class Denoiser(nn.Module):
    """The noise in pictures [n, 64], given its level [n] and the digit [n] that they show."""

    def __init__(self) -> None:
        super().__init__()
        self.level = nn.Embedding(LEVELS, WIDTH)
        self.digit = nn.Embedding(10, WIDTH)
        self.read = nn.Linear(64, WIDTH)
        self.blocks = nn.ModuleList(Block() for _ in range(3))
        self.norm = nn.LayerNorm(WIDTH)
        self.tell = nn.Linear(WIDTH, 64)

    def forward(self, x: cf.Tensor, level: cf.Tensor, digit: cf.Tensor) -> cf.Tensor:
        condition = F.silu(self.level(level) + self.digit(digit))
        x = self.read(x)
        for block in self.blocks:
            x = block(x, condition)
        return self.tell(self.norm(x))


# --- training ----------------------------------------------------------------------------------


def train(
    model: Denoiser, average: nn.Module, data: tuple[cf.Tensor, cf.Tensor], steps: int
) -> list[float]:
    """Let the model guess noise; the loss of each step. `average` gets the mean of its weights."""
    pictures, digits = data
    kept = kept_share()
    optimizer = cf.optim.AdamW(model.parameters(), lr=2e-3)
    schedule = cf.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=2e-3, total_steps=steps)

    # Choosing the batch, drawing noise and averaging weights are part of the compiled step as well:
    # nothing but the loss leaves it.
    @cf.compile
    def step() -> cf.Tensor:
        chosen = cf.randint(len(pictures), (BATCH,))
        level = cf.randint(LEVELS, (BATCH,))
        noise = cf.randn(BATCH, 64)
        noisy = add_noise(pictures[chosen], noise, kept[level].unsqueeze(1))
        optimizer.zero_grad()
        loss = F.mse_loss(model(noisy, level, digits[chosen]), noise)
        loss.backward()
        optimizer.step()
        with cf.no_grad():
            for mean, new in zip(average.parameters(), model.parameters()):
                mean.lerp_(new, 0.005)
        return loss

    losses = []
    with trange(steps, unit="step") as progress:
        for number in progress:
            losses.append(step().item())
            schedule.step()
            if number % 100 == 99:
                progress.set_postfix(loss=f"{np.mean(losses[-100:]):.3f}")
    return losses


# --- writing -----------------------------------------------------------------------------------


def write(model: nn.Module, digits: cf.Tensor) -> list[np.ndarray]:
    """Pictures [n, 8, 8] of these digits [n], from pure noise to the end, one for each level."""
    kept = kept_share()

    # Compiled once, called for every level: the level is a tensor, so its value may change.
    @cf.compile
    def less_noise(x: cf.Tensor, level: cf.Tensor) -> cf.Tensor:
        noise = model(x, level.expand(len(digits)), digits)
        now = kept[level]
        before = cf.where(level > 0, kept[(level - 1).clamp(min=0)], 1.0)
        clean = ((x - (1 - now).sqrt() * noise) / now.sqrt()).clamp(-1, 1)
        # The part of the noise that stays is moved a little: half of it is drawn anew.
        fresh = 0.5 * ((1 - before) / (1 - now)).sqrt() * (1 - now / before).sqrt()
        rest = (1 - before - fresh.square()).clamp(min=0).sqrt()
        return before.sqrt() * clean + rest * noise + fresh * cf.randn_like(x)

    x, course = cf.randn(len(digits), 64), []
    with cf.no_grad():
        for level in trange(LEVELS - 1, -1, -1, unit="level", desc="writing"):
            x = less_noise(x, cf.tensor(level))
            course.append(x.numpy().reshape(-1, 8, 8).copy())
    return course


# --- the picture -------------------------------------------------------------------------------


def wall(pictures: np.ndarray) -> np.ndarray:
    """One picture of many, [rows, columns, 8, 8], with white lines between them."""
    framed = np.pad(pictures, [(0, 0), (0, 0), (1, 1), (1, 1)], constant_values=-np.inf)
    rows, columns, height, width = framed.shape
    return framed.transpose(0, 2, 1, 3).reshape(rows * height, columns * width)


def draw(losses: list[float], course: list[np.ndarray], digits: np.ndarray) -> None:
    """Written digits, how some came out of noise, and the course of training."""
    figure = plt.figure(figsize=(12, 6), layout="constrained")
    axes = figure.subplot_mosaic([["left", "upper"], ["left", "lower"]])
    left, upper, lower = axes["left"], axes["upper"], axes["lower"]
    chosen = np.stack([np.flatnonzero(digits == digit)[:10] for digit in range(10)], axis=1)
    left.imshow(wall(course[-1][chosen]), cmap="gray_r", vmin=-1, vmax=1)
    left.set(title="asked for 0, 1, ... 9", xticks=[], yticks=[])

    moments = np.linspace(0, LEVELS - 1, 12).astype(int)
    strips = np.stack([course[moment][chosen[0, :6]] for moment in moments], axis=1)
    upper.imshow(wall(strips), cmap="gray_r", vmin=-1.5, vmax=1.5)
    upper.set(title="from noise to a digit", xticks=[], yticks=[])

    smooth = np.convolve(losses, np.ones(50) / 50, mode="valid")
    lower.plot(losses, color="lightgray", linewidth=0.5)
    lower.plot(np.arange(len(smooth)) + 25, smooth)
    lower.set(title="loss of each step, and its mean over 50", xlabel="step", yscale="log")
    figure.savefig(PICTURE, dpi=120)


def main() -> None:
    """Train, write, judge, draw."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="a twentieth of the steps")
    quick = parser.parse_args().quick
    steps = 100 if quick else 3000

    cf.manual_seed(0)
    pictures, labels = load_digits(return_X_y=True)  # [1797, 64] with values from 0 to 16
    data = cf.tensor(pictures, dtype=cf.float32) / 8 - 1, cf.tensor(labels)
    model, average = Denoiser(), Denoiser()
    average.load_state_dict(model.state_dict())
    losses = train(model, average, data, steps)

    asked = np.repeat(np.arange(10), 10 if quick else 20)
    course = write(average, cf.tensor(asked))
    draw(losses, course, asked)

    judge = SVC().fit(data[0].numpy(), labels)
    right = (judge.predict(course[-1].reshape(-1, 64)) == asked).mean()
    print(f"{right:.1%} of {len(asked)} written digits are what was asked for; see {PICTURE}")


if __name__ == "__main__":
    main()
