"""A trained network learns something new by few parameters: LoRA.

A network that reads upright digits is asked to read mirrored ones. Training all of it anew would
change every weight. Low-rank adaptation leaves them as they are and adds to each weight matrix W a
product B A of two thin matrices, which alone are trained:

    y = x (W + B A)^T        W [out, in]  frozen        B [out, rank]        A [rank, in]

`nn.utils.parametrize` puts the sum in place of W, so the model's own code does not change. At the
end the product is added to W for good, or taken away: then the first network is back, bit for bit.

    python examples/lora.py            # writes lora.png here
    python examples/lora.py --quick    # few steps
"""

import argparse
import copy
import math

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
from contraflow.nn.utils import parametrize

PICTURE = "lora.png"
Data = tuple[cf.Tensor, cf.Tensor]  # pictures [n, 64] and labels [n]


# --- adapters ----------------------------------------------------------------------------------


class LowRank(nn.Module):
    """A weight [out, in] plus a product of rank `rank`, which is zero at first."""

    def __init__(self, weight: cf.Tensor, rank: int) -> None:
        super().__init__()
        rows, columns = weight.shape
        self.a = nn.Parameter(cf.randn(rank, columns) / math.sqrt(columns))
        self.b = nn.Parameter(cf.zeros(rows, rank))

    def forward(self, weight: cf.Tensor) -> cf.Tensor:
        return weight + self.b @ self.a


def adapt(model: nn.Module, rank: int) -> list[nn.Parameter]:
    """Freeze a model and give each of its matrices an adapter; the adapters' parameters."""
    model.requires_grad_(False)
    found: list[nn.Parameter] = []
    for layer in [module for module in model.modules() if isinstance(module, nn.Linear)]:
        adapter = LowRank(layer.weight, rank)
        # Unsafe only leaves out a check of shapes: the sum has the shape of the weight.
        parametrize.register_parametrization(layer, "weight", adapter, unsafe=True)
        found += adapter.parameters()
    return found


def remove(model: nn.Module, merge: bool) -> None:
    """Take the adapters away: either they are added to the weights before, or they are lost."""
    for layer in [module for module in model.modules() if isinstance(module, nn.Linear)]:
        parametrize.remove_parametrizations(layer, "weight", leave_parametrized=merge)


# --- the model and its data --------------------------------------------------------------------


def make_model() -> nn.Sequential:
    """Pictures [n, 64] to scores [n, 10]."""
    return nn.Sequential(
        nn.Linear(64, 256), nn.ReLU(), nn.Linear(256, 256), nn.ReLU(), nn.Linear(256, 10)
    )


def load(mirrored: bool) -> tuple[Data, Data]:
    """Digits to train on and digits to test with, upright or mirrored."""
    pictures, labels = load_digits(return_X_y=True)  # [1797, 64] with values from 0 to 16
    x, y = cf.tensor(pictures, dtype=cf.float32) / 16, cf.tensor(labels)
    if mirrored:
        x = x.view(-1, 8, 8).flip(2).flatten(1)
    return (x[:1300], y[:1300]), (x[1300:], y[1300:])


def accuracy(model: nn.Module, data: Data) -> float:
    """The share of pictures that are read rightly."""
    x, y = data
    with cf.no_grad():
        return (model(x).argmax(1) == y).float().mean().item()


def train(
    model: nn.Module, parameters: list[nn.Parameter], data: Data, test: Data, steps: int, name: str
) -> list[float]:
    """Train these parameters of the model; its accuracy on `test` every 10 steps."""
    x, y = data
    optimizer = cf.optim.AdamW(parameters, lr=2e-3, weight_decay=0.0)

    @cf.compile
    def step() -> cf.Tensor:
        chosen = cf.randint(len(x), (64,))
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x[chosen]), y[chosen])
        loss.backward()
        optimizer.step()
        return loss

    shares = [accuracy(model, test)]
    with tqdm(total=steps, unit="step", desc=f"{name:16}") as progress:
        for number in range(1, steps + 1):
            step()
            if number % 10 == 0:
                shares.append(accuracy(model, test))
                progress.set_postfix(test=f"{shares[-1]:.1%}")
            progress.update()
    return shares


# --- the picture -------------------------------------------------------------------------------


def draw(
    courses: dict[str, list[float]], counts: dict[str, int], model: nn.Module, test: Data
) -> None:
    """How fast each way of fine-tuning learns, what it costs, and mirrored digits as read."""
    figure = plt.figure(figsize=(12, 5.5), layout="constrained")
    (above,), (below,) = figure.subfigures(2, 1, squeeze=False, height_ratios=[3, 1])
    left, right = above.subplots(1, 2, width_ratios=[2, 1])
    for name, shares in courses.items():
        left.plot(10 * np.arange(len(shares)), shares, label=name)
    left.set(title="mirrored digits read rightly", xlabel="step", ylim=(0, 1))
    left.yaxis.set_major_formatter(PercentFormatter(1.0))
    left.legend(loc="lower right")

    bars = right.barh(
        list(counts), list(counts.values()), color=[f"C{i}" for i in range(len(counts))]
    )
    right.bar_label(bars, [f"{count:,}" for count in counts.values()], padding=3)
    right.set(title="trained parameters", xscale="log", xlim=(100, 10 * max(counts.values())))
    right.invert_yaxis()

    x, y = test
    with cf.no_grad():
        read = model(x).argmax(1).numpy()
    below.supxlabel("mirrored digits, and as what the adapted network reads them", size=11)
    for axes, picture, label, found in zip(below.subplots(1, 12), x.numpy(), y.numpy(), read):
        axes.imshow(picture.reshape(8, 8), cmap="gray_r")
        axes.set_title(str(found), color="black" if found == label else "firebrick")
        axes.axis("off")
    figure.savefig(PICTURE, dpi=120)


def main() -> None:
    """Train a network, adapt it in three ways, merge, and go back."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="few steps")
    steps = 100 if parser.parse_args().quick else 600

    cf.manual_seed(0)
    upright, upright_test = load(mirrored=False)
    mirrored, mirrored_test = load(mirrored=True)
    base = make_model()
    train(base, list(base.parameters()), upright, upright_test, steps, "upright digits")
    before = accuracy(base, mirrored_test)

    courses, counts, adapted = {}, {}, base  # that of rank 8, in the end
    for rank in (None, 2, 8):
        model = copy.deepcopy(base)
        name = f"LoRA of rank {rank}" if rank else "all weights"
        parameters = adapt(model, rank) if rank else list(model.parameters())
        courses[name] = train(model, parameters, mirrored, mirrored_test, steps, name)
        counts[name] = sum(parameter.numel() for parameter in parameters)
        adapted = model

    # The frozen weights are as they were: without its adapters the model is the first one again.
    restored = copy.deepcopy(adapted)
    remove(restored, merge=False)
    for name, weight in base.state_dict().items():
        assert cf.equal(weight, restored.state_dict()[name])
    # Merged, it has no more parameters than the first one, and is as fast.
    remove(adapted, merge=True)
    assert adapted.state_dict().keys() == base.state_dict().keys()

    draw(courses, counts, adapted, mirrored_test)
    after, share = (
        accuracy(adapted, mirrored_test),
        counts["LoRA of rank 8"] / counts["all weights"],
    )
    print(
        f"mirrored digits read rightly: {before:.1%} before, {after:.1%} with {share:.1%} of the "
        f"parameters trained; see {PICTURE}"
    )


if __name__ == "__main__":
    main()
