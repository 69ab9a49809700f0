"""A convolutional network learns to read handwritten digits.

The digits are scikit-learn's: 1,797 pictures of 8 x 8 pixels. A quarter of them is kept aside, and
the network never trains on it. Forward, backward and AdamW are one compiled step, and every picture
is moved by up to a pixel before the network sees it, so that it learns shapes and not places.

    pip install 'contraflow[examples]'
    python examples/digits_cnn.py            # writes digits_cnn.png here
    python examples/digits_cnn.py --quick    # two epochs
"""

import argparse

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.ticker import PercentFormatter
from sklearn.datasets import load_digits
from tqdm import tqdm

import contraflow as cf
from contraflow import nn
from contraflow.nn import functional as F

PICTURE = "digits_cnn.png"


# --- the data ----------------------------------------------------------------------------------


def load() -> tuple[cf.data.Subset, cf.data.Subset]:
    """Pictures [1, 8, 8] of values from 0 to 1 with their labels: to train on, and to test with."""
    pictures, labels = load_digits(return_X_y=True)  # [1797, 64] with values from 0 to 16
    x = cf.tensor(pictures, dtype=cf.float32).view(-1, 1, 8, 8) / 16
    everything = cf.data.TensorDataset(x, cf.tensor(labels))
    train, test = cf.data.random_split(everything, [0.75, 0.25])
    return train, test


def shifted(x: cf.Tensor) -> cf.Tensor:
    """Pictures [n, 1, 8, 8], all moved by up to a pixel in each direction."""
    rows, columns = cf.randint(3, (2, 1)) + cf.arange(8)
    return F.pad(x, (1, 1, 1, 1))[:, :, rows][:, :, :, columns]


# --- the model ---------------------------------------------------------------------------------


def block(before: int, after: int) -> nn.Sequential:
    """Two convolutions and a pooling: [n, before, s, s] to [n, after, s / 2, s / 2]."""
    return nn.Sequential(
        nn.Conv2d(before, after, 3, padding=1, bias=False),
        nn.BatchNorm2d(after),
        nn.ReLU(),
        nn.Conv2d(after, after, 3, padding=1, bias=False),
        nn.BatchNorm2d(after),
        nn.ReLU(),
        nn.MaxPool2d(2),
    )


def make_model() -> nn.Sequential:
    """Pictures [n, 1, 8, 8] to scores [n, 10]."""
    return nn.Sequential(
        block(1, 16),
        block(16, 32),
        nn.Flatten(),
        nn.Dropout(0.2),
        nn.Linear(32 * 2 * 2, 10),
    )


# --- training ----------------------------------------------------------------------------------


def train(
    model: nn.Module, data: cf.data.Subset, test: cf.data.Subset, epochs: int
) -> tuple[list[float], list[float]]:
    """Train the model; the loss of each step, and the share read rightly after each epoch."""
    loader = cf.data.DataLoader(data, batch_size=64, shuffle=True, drop_last=True)
    optimizer = cf.optim.AdamW(model.parameters(), lr=3e-3)
    schedule = cf.optim.lr_scheduler.OneCycleLR(
        optimizer, max_lr=1e-2, total_steps=epochs * len(loader)
    )

    # The decorator is all that compiling takes. The first call records what the function does and
    # compiles it; the others run that program, with other pictures, another learning rate and other
    # random numbers.
    @cf.compile
    def step(x: cf.Tensor, y: cf.Tensor) -> cf.Tensor:
        optimizer.zero_grad()
        loss = F.cross_entropy(model(shifted(x)), y)
        loss.backward()
        optimizer.step()
        return loss

    losses, shares = [], []
    with tqdm(total=epochs * len(loader), unit="step") as progress:
        for _ in range(epochs):
            model.train()
            for x, y in loader:
                losses.append(step(x, y).item())
                schedule.step()
                progress.update()
            predicted, written = predict(model, test)
            shares.append(float((predicted == written).mean()))
            progress.set_postfix(loss=f"{losses[-1]:.3f}", test=f"{shares[-1]:.1%}")
    return losses, shares


def predict(model: nn.Module, data: cf.data.Subset) -> tuple[np.ndarray, np.ndarray]:
    """What the model reads in each picture, and what is written there."""
    x, y = next(iter(cf.data.DataLoader(data, batch_size=len(data))))
    model.eval()
    with cf.no_grad():
        return model(x).argmax(dim=1).numpy(), y.numpy()


# --- the picture -------------------------------------------------------------------------------


def draw(
    losses: list[float],
    shares: list[float],
    test: cf.data.Subset,
    predicted: np.ndarray,
    written: np.ndarray,
) -> None:
    """The course of training, what is taken for what, and the hardest pictures."""
    figure = plt.figure(figsize=(11, 6), layout="constrained")
    grid = figure.add_gridspec(2, 12, height_ratios=[3, 1])
    left, middle, right = (figure.add_subplot(grid[0, 4 * i : 4 * i + 4]) for i in range(3))

    left.plot(losses, linewidth=0.8)
    left.set(title="loss of each step", xlabel="step", yscale="log")

    middle.plot(range(1, len(shares) + 1), shares, marker=".")
    middle.set(title=f"read rightly: {shares[-1]:.1%} at the end", xlabel="epoch")
    middle.yaxis.set_major_formatter(PercentFormatter(1.0))

    counts = np.zeros((10, 10), dtype=int)
    np.add.at(counts, (written, predicted), 1)
    right.imshow(np.where(counts > 0, counts, np.nan), cmap="Blues", vmin=0)
    for row, column in zip(*counts.nonzero()):
        color = "white" if row == column else "firebrick"
        right.text(
            column, row, str(counts[row, column]), ha="center", va="center", color=color, size=8
        )
    right.set(title="what was read as what", xlabel="read", ylabel="written")
    right.set(xticks=range(10), yticks=range(10))

    # Mistakes first, and right ones where there are not enough mistakes.
    order = np.argsort(predicted == written, kind="stable")[:12]
    for column, index in enumerate(order):
        axes = figure.add_subplot(grid[1, column])
        axes.imshow(test[int(index)][0][0].numpy(), cmap="gray_r")
        color = "black" if predicted[index] == written[index] else "firebrick"
        axes.set_title(f"{written[index]} read as {predicted[index]}", size=9, color=color)
        axes.axis("off")
    figure.savefig(PICTURE, dpi=120)


def main() -> None:
    """Train, test, draw."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="two epochs")
    epochs = 2 if parser.parse_args().quick else 30

    cf.manual_seed(0)
    data, test = load()
    model = make_model()
    print(model.summary(cf.zeros(1, 1, 8, 8)))
    losses, shares = train(model, data, test, epochs)
    predicted, written = predict(model, test)
    draw(losses, shares, test, predicted, written)
    right = int((predicted == written).sum())
    print(
        f"{right} of {len(test)} new digits read rightly ({right / len(test):.1%}); see {PICTURE}"
    )


if __name__ == "__main__":
    main()
