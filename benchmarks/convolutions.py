"""Convolutions on the CPU, forward and both gradients, ours beside PyTorch's.

`python -m benchmarks.convolutions --threads 2 --json FILE` runs the convolutions of ResNet-18,
MobileNet and a small UNet, in turns in one process: ours as a compiled function of images that lie
as PyTorch's do by default, PyTorch's with images channels last and contiguous. It prints the least
milliseconds of each, the spread of the rounds and the ratio of the better of PyTorch's to ours. The
JSON has every round. `--parts` takes the forward pass and each gradient by itself, `--only WORD`
the convolutions whose names contain a word, `--quick` one round. CONTRAFLOW_VECTOR_WIDTH sets the
width of our vectors. docs/processors.md has what was measured.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import time
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import torch

import contraflow as cf
from benchmarks import machine
from benchmarks.products import shortest
from contraflow import config
from contraflow.devices.cpu import jit


class Layer(NamedTuple):
    """A convolution: images, channels, side, filters, side of a filter, stride, groups."""

    network: str
    images: int
    channels: int
    side: int
    filters: int
    kernel: int
    stride: int = 1
    groups: int = 1

    @property
    def name(self) -> str:
        """Everything in a word or two."""
        kind = "depthwise " if self.groups > 1 else ""
        step = f" stride {self.stride}" if self.stride > 1 else ""
        return (
            f"{self.network}: {kind}{self.kernel}x{self.kernel}{step} "
            f"{self.images}x{self.channels}x{self.side}x{self.side} to {self.filters}"
        )


def depthwise(images: int, channels: int, side: int, stride: int = 1) -> Layer:
    """A convolution of MobileNet with a filter for each channel."""
    return Layer("mobilenet", images, channels, side, channels, 3, stride, channels)


LAYERS = (
    # ResNet-18 on 224 x 224, then on 32 x 32, where the last images are small.
    Layer("resnet18", 4, 3, 224, 64, 7, 2),
    Layer("resnet18", 4, 64, 56, 64, 3),
    Layer("resnet18", 4, 64, 56, 128, 3, 2),
    Layer("resnet18", 4, 64, 56, 128, 1, 2),
    Layer("resnet18", 4, 128, 28, 128, 3),
    Layer("resnet18", 4, 256, 14, 256, 3),
    Layer("resnet18", 4, 512, 7, 512, 3),
    Layer("resnet18 small", 32, 3, 32, 64, 3),
    Layer("resnet18 small", 32, 64, 32, 64, 3),
    Layer("resnet18 small", 32, 128, 16, 256, 3, 2),
    Layer("resnet18 small", 32, 128, 16, 256, 1, 2),
    Layer("resnet18 small", 32, 256, 8, 256, 3),
    Layer("resnet18 small", 32, 512, 4, 512, 3),
    Layer("mobilenet", 4, 3, 224, 32, 3, 2),
    depthwise(4, 32, 112),
    depthwise(4, 64, 112, 2),
    depthwise(4, 128, 56),
    depthwise(4, 256, 28),
    depthwise(4, 512, 14),
    depthwise(4, 512, 14, 2),
    depthwise(4, 1024, 7),
    Layer("mobilenet", 4, 32, 112, 64, 1),
    Layer("mobilenet", 4, 128, 56, 128, 1),
    Layer("mobilenet", 4, 512, 14, 512, 1),
    Layer("mobilenet", 4, 1024, 7, 1024, 1),
    Layer("unet", 4, 16, 128, 16, 3),
    Layer("unet", 4, 32, 64, 32, 3),
    Layer("unet", 4, 96, 64, 32, 3),
    Layer("unet", 4, 64, 32, 128, 3),
    Layer("unet", 4, 16, 128, 2, 1),
)
PARTS = ("forward", "input", "weight")
ROUNDS, SECONDS = 3, 0.03
PAUSE = 0.012  # threads of a library spin for a while: so long that others wait for them
TOLERANCE = 1e-4  # of the largest element, in float32


def contenders(layer: Layer, part: str) -> dict[str, Callable[[], Any]]:
    """A convolution in both libraries, and an error if ours is another than PyTorch's."""
    pad, (side, kernel, stride) = layer.kernel // 2, layer[3:4] + layer[5:7]
    out = (side + 2 * pad - kernel) // stride + 1
    generator = np.random.default_rng(0)
    shapes = (
        (layer.images, layer.channels, side, side),
        (layer.filters, layer.channels // layer.groups, kernel, kernel),
        (layer.images, layer.filters, out, out),
    )
    arrays = [generator.uniform(-0.5, 0.5, shape).astype(np.float32) for shape in shapes]
    settings = {"stride": stride, "padding": pad, "groups": layer.groups}

    @cf.compile
    def ours(x: Any, weight: Any, g: Any) -> Any:
        y = cf.conv2d(x, weight, **settings)
        if part == "forward":
            return (y,)
        wanted = {"input": (x,), "weight": (weight,)}.get(part, (x, weight))
        found = cf.autograd.grad(y, wanted, g)
        return (y, *found) if part == "all" else found

    def theirs(x: Any, weight: Any, g: Any) -> Any:
        if part in ("forward", "all"):
            y = torch.conv2d(x, weight, **settings)
            if part == "forward":
                return (y,)
        mask = [part in ("input", "all"), part in ("weight", "all"), False]
        found = torch.ops.aten.convolution_backward(
            g, x, weight, None, [stride] * 2, [pad] * 2, [1] * 2, False, [0] * 2, layer.groups, mask
        )
        found = [x for x in found if x is not None]
        return (y, *found) if part == "all" else found

    given = [cf.tensor(array) for array in arrays]
    for tensor in given[:2]:
        tensor.requires_grad_(part != "forward")
    plain = [torch.from_numpy(array) for array in arrays]
    last = [x.to(memory_format=torch.channels_last) for x in plain]
    for found, wanted in zip(ours(*given), theirs(*plain)):
        error = (torch.from_numpy(found.detach().numpy()) - wanted).abs().max() / wanted.abs().max()
        if not error < TOLERANCE:
            raise ValueError(f"{layer.name}, {part}: ours differs by {error:.1e}")
    return {
        "contraflow": lambda: ours(*given),
        "channels last": lambda: theirs(*last),
        "contiguous": lambda: theirs(*plain),
    }


def measure(layer: Layer, part: str, quick: bool) -> dict[str, list[float]]:
    """Milliseconds of each contender in each round."""
    found = contenders(layer, part)
    rounds: dict[str, list[float]] = {name: [] for name in found}
    for _ in range(1 if quick else ROUNDS):
        for name, run in found.items():
            time.sleep(PAUSE)
            rounds[name].append(shortest(run, SECONDS / 3 if quick else SECONDS) * 1e3)
    return rounds


def ratio(found: dict[str, list[float]]) -> float:
    """The better of PyTorch's times, over ours."""
    return min(min(found["channels last"]), min(found["contiguous"])) / min(found["contraflow"])


def spread(found: dict[str, list[float]]) -> float:
    """How much longer the longest of our rounds took than the shortest, as a share."""
    return max(found["contraflow"]) / min(found["contraflow"]) - 1


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--json", metavar="PATH")
    parser.add_argument("--only", default="", metavar="WORD")
    parser.add_argument("--parts", action="store_true")
    parser.add_argument("--quick", action="store_true")
    arguments = parser.parse_args()
    cores = sorted(os.sched_getaffinity(0))[-arguments.threads :]
    os.sched_setaffinity(0, cores)
    torch.set_num_threads(arguments.threads)
    cf.set_num_threads(arguments.threads)
    watch = machine.Watch()
    found: dict[str, dict[str, list[float]]] = {}
    for layer in LAYERS:
        if arguments.only not in layer.name:
            continue
        for part in PARTS if arguments.parts else ("all",):
            name = f"{layer.name}, {part}"
            times = found[name] = measure(layer, part, arguments.quick)
            listed = ", ".join(f"{library} {min(v):.2f}" for library, v in times.items())
            print(
                f"{name}: {listed} ms; ratio {ratio(times):.2f}; spread {spread(times):.0%}",
                flush=True,
            )
    if not found:
        parser.error(f"no convolution has {arguments.only!r} in its name")
    mean = statistics.geometric_mean(map(ratio, found.values()))
    where = machine.describe() | {
        "threads": arguments.threads,
        "vectors": f"{config.vector_bytes or f'up to {jit.vector_bytes()}, by kernel,'} bytes",
        "others": watch.others(),
    }
    print(
        f"{where['cpu']} ({where['cpu_target']}), {arguments.threads} threads, vectors of "
        f"{where['vectors']}, others took {where['others'] or 0:.0%} of the cores: "
        f"geometric mean {mean:.2f}, least {min(map(ratio, found.values())):.2f}"
    )
    if arguments.json:
        with open(arguments.json, "w", encoding="utf-8") as file:
            json.dump({"machine": where, "convolutions": found}, file, indent=1)


if __name__ == "__main__":
    main()
