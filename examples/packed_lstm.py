"""A recurrent network tells the shapes of waves apart, however long they last.

The waves are sines, squares, and sawteeth that rise or fall, of any pitch, with noise, and each is
cut off somewhere. A batch of them is padded to its longest, and a network that reads the padding
would learn from it. `pack_padded_sequence` says where each wave ends: the LSTM stops there, so the
state it ends with has seen all of the wave and nothing else.

    python examples/packed_lstm.py            # writes packed_lstm.png here
    python examples/packed_lstm.py --quick    # few steps
"""

import argparse
from collections.abc import Sequence
from itertools import pairwise

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.ticker import PercentFormatter
from tqdm import trange

import contraflow as cf
from contraflow import nn
from contraflow.nn import functional as F
from contraflow.nn.utils.rnn import pack_padded_sequence, pad_sequence

SHAPES = ("sine", "square", "rising", "falling")
SHORTEST, LONGEST = 8, 64
PICTURE = "packed_lstm.png"


# --- the data ----------------------------------------------------------------------------------


def make_wave(random: np.random.Generator, shape: int, length: int) -> np.ndarray:
    """A wave [length] of this shape, of some pitch, beginning somewhere, with noise."""
    phase = random.random() + np.arange(length) * random.uniform(0.03, 0.08)
    along = phase % 1
    clean = [
        np.sin(2 * np.pi * along),
        np.sign(0.5 - along),
        2 * along - 1,
        1 - 2 * along,
    ][shape]
    return (clean + random.normal(0, 0.1, length)).astype(np.float32)


def make_batch(random: np.random.Generator, lengths: Sequence[int]) -> tuple[cf.Tensor, cf.Tensor]:
    """Padded waves [n, longest, 1] of these lengths, and their shapes [n]."""
    shapes = random.integers(len(SHAPES), size=len(lengths))
    waves = [cf.tensor(make_wave(random, s, n)) for s, n in zip(shapes, lengths)]
    return pad_sequence(waves, batch_first=True).unsqueeze(2), cf.tensor(shapes)


# --- the model ---------------------------------------------------------------------------------


class Listener(nn.Module):
    """Padded waves [n, longest, 1] of these lengths to scores [n, 4]."""

    def __init__(self, width: int = 48) -> None:
        super().__init__()
        self.lstm = nn.LSTM(1, width, num_layers=2, batch_first=True)
        self.head = nn.Linear(width, len(SHAPES))

    def forward(self, waves: cf.Tensor, lengths: Sequence[int]) -> cf.Tensor:
        # Packed, the waves lie one moment after the other, and each moment has only the waves that
        # still last. They need not be sorted: packing sorts them and the LSTM puts them back.
        packed = pack_padded_sequence(waves, lengths, batch_first=True, enforce_sorted=False)
        _, (last, _) = self.lstm(packed)
        return self.head(last[-1])


# --- training ----------------------------------------------------------------------------------


def train(model: Listener, steps: int) -> list[float]:
    """Train the model; the loss of each step."""
    random = np.random.default_rng(0)
    optimizer = cf.optim.AdamW(model.parameters(), lr=5e-3)
    schedule = cf.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=steps)

    # How many waves each moment has follows from the lengths, which are Python numbers: a program
    # is compiled for them. A batch has two waves of each second length, so one program serves all.
    lengths = tuple(range(SHORTEST, LONGEST + 1, 2)) * 2

    @cf.compile
    def step(waves: cf.Tensor, shapes: cf.Tensor) -> cf.Tensor:
        optimizer.zero_grad()
        loss = F.cross_entropy(model(waves, lengths), shapes)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        return loss

    losses = []
    with trange(steps, unit="step") as progress:
        for number in progress:
            losses.append(step(*make_batch(random, lengths)).item())
            schedule.step()
            if number % 10 == 9:
                progress.set_postfix(loss=f"{np.mean(losses[-10:]):.3f}")
    return losses


# --- the picture -------------------------------------------------------------------------------


def draw(
    losses: list[float],
    waves: np.ndarray,
    lengths: np.ndarray,
    shapes: np.ndarray,
    found: np.ndarray,
) -> None:
    """The course of training, accuracy by length, and some waves with what they were taken for."""
    figure = plt.figure(figsize=(12, 6.5), layout="constrained")
    grid = figure.add_gridspec(3, 6, height_ratios=[2, 1, 1])
    left, right = figure.add_subplot(grid[0, :3]), figure.add_subplot(grid[0, 3:])
    left.plot(losses, linewidth=0.8)
    left.set(title="loss of each step", xlabel="step")

    edges = np.linspace(SHORTEST, LONGEST + 1, 9)
    for shape, name in enumerate(SHAPES):
        of_shape = shapes == shape
        bins = [of_shape & (lengths >= a) & (lengths < b) for a, b in pairwise(edges)]
        shares = [(found[chosen] == shape).mean() for chosen in bins]
        right.plot((edges[:-1] + edges[1:]) / 2, shares, marker="o", label=name)
    right.set(title="the longer the wave, the surer", xlabel="length of the wave", ylim=(0, 1.03))
    right.yaxis.set_major_formatter(PercentFormatter(1.0))
    right.legend(loc="lower right")

    for index in range(12):
        axes = figure.add_subplot(grid[1 + index // 6, index % 6])
        color = f"C{found[index]}"
        axes.plot(waves[index, : lengths[index], 0], color=color)
        right_or_not = "" if found[index] == shapes[index] else f", but {SHAPES[shapes[index]]}"
        axes.set_title(SHAPES[found[index]] + right_or_not, size=9)
        axes.set(xlim=(0, LONGEST), ylim=(-1.7, 1.7), xticks=[], yticks=[])
    figure.savefig(PICTURE, dpi=120)


def main() -> None:
    """Train, test, draw."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="few steps")
    quick = parser.parse_args().quick

    cf.manual_seed(0)
    model = Listener()
    losses = train(model, 20 if quick else 300)

    random = np.random.default_rng(1)
    lengths = random.integers(SHORTEST, LONGEST + 1, size=1000).tolist()
    waves, shapes = make_batch(random, lengths)
    with cf.no_grad():
        scores = model(waves, lengths)
        # Padding does not matter: a wave alone, without any, has the scores it has in the batch.
        alone = model(waves[:1, : lengths[0]], lengths[:1])
        cf.testing.assert_close(alone, scores[:1])
    found = scores.argmax(1).numpy()
    draw(losses, waves.numpy(), np.array(lengths), shapes.numpy(), found)
    right = (found == shapes.numpy()).mean()
    print(
        f"{right:.1%} of {len(found)} new waves told apart, of {SHORTEST} to {LONGEST} moments; "
        f"see {PICTURE}"
    )


if __name__ == "__main__":
    main()
