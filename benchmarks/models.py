"""The steps that are measured, written once for all libraries.

A step is a loss over named weights, its first weights and its batches as NumPy arrays. The loss is
written with functions that carry PyTorch's names: `f` is the namespace `functions` of the
`with_*` module of a library. To measure another step, write a function that returns a Step and put
it into STEPS; what it is the first to use is added to those namespaces.

A step with a learning rate trains: forward, backward, Adam. One without gives the value and the
gradient with respect to its batch, a single array.

LOOPS are programs of many small calls (`loops.py`), for libraries with PyTorch's names.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from benchmarks import loops, modules

Arrays = dict[str, np.ndarray]
Batches = list[tuple[np.ndarray, ...]]
# float32 sums in another order, five Adam steps later; a step left out shows far above this.
TOLERANCE = 1e-3
# Each activation is rounded by 2 ** -9, and libraries differ in what they fuse, that is where they
# round. In a mean over all tokens most of it cancels: 1e-4 was seen.
BFLOAT16_TOLERANCE = 2e-3
BATCHES = 8  # more than one, so that no library can keep what it computed from an input
CLASSES = 10


@dataclass(frozen=True)
class Step:
    """What is computed; the loss is read after every step."""

    description: str
    weights: Arrays
    batches: Batches
    loss: Callable[..., Any]  # (f, weights by name, *batch) -> 0-d loss
    learning_rate: float | None = 1e-3
    model: Callable[[Any], Any] | None = None  # (nn) -> a module: the same logits as in `loss`
    tolerance: float = TOLERANCE  # the relative difference of values that is rounding

    @property
    def trains(self) -> bool:
        """Whether weights change."""
        return self.learning_rate is not None


@dataclass(frozen=True)
class Loop:
    """A program of small calls; its turns take the place of steps."""

    description: str
    begin: Callable[[Any, bool], Callable[[], tuple[Any, Any]]]  # (library, compiled) -> a turn
    tolerance: float = TOLERANCE
    trains: bool = False  # no batch, so no other size of one


# --- weights and batches -----------------------------------------------------------------------


def _uniform(random: np.random.Generator, inputs: int, *shape: int) -> np.ndarray:
    """Weights as PyTorch draws those of a layer with so many inputs per output."""
    bound = 1 / math.sqrt(inputs)
    return random.uniform(-bound, bound, shape).astype(np.float32)


def _linear(random: np.random.Generator, name: str, inputs: int, outputs: int) -> Arrays:
    return {
        f"{name}.weight": _uniform(random, inputs, outputs, inputs),
        f"{name}.bias": _uniform(random, inputs, outputs),
    }


def _norm(name: str, width: int) -> Arrays:
    return {
        f"{name}.weight": np.ones(width, np.float32),
        f"{name}.bias": np.zeros(width, np.float32),
    }


def _classified(random: np.random.Generator, *shape: int) -> Batches:
    """Batches of normal inputs, each with a class to learn by heart."""
    return [
        (random.standard_normal(shape, np.float32), random.integers(CLASSES, size=shape[0]))
        for _ in range(BATCHES)
    ]


def _apply(f: Any, w: dict[str, Any], name: str, x: Any) -> Any:
    return f.linear(x, w[f"{name}.weight"], w[f"{name}.bias"])


# --- training ----------------------------------------------------------------------------------


def dense(activation: str, sizes: tuple[int, ...], batch: int) -> Step:
    """Linear layers: at small sizes little but overhead, at larger ones products and Adam."""
    random = np.random.default_rng(1)
    weights: Arrays = {}
    for i in range(len(sizes) - 1):
        weights |= _linear(random, f"{i}", sizes[i], sizes[i + 1])
    last = len(sizes) - 2

    def loss(f: Any, w: dict[str, Any], x: Any, target: Any) -> Any:
        for i in range(last):
            x = getattr(f, activation)(_apply(f, w, f"{i}", x))
        return f.cross_entropy(_apply(f, w, f"{last}", x), target)

    widths = "-".join(map(str, sizes))
    description = f"{widths} {activation}, batch {batch}, cross-entropy, Adam"
    model = partial(modules.dense, activation=activation, sizes=sizes)
    return Step(description, weights, _classified(random, batch, sizes[0]), loss, model=model)


def cnn(images: int, side: int) -> Step:
    """Two convolutions with relu and max-pooling, then a linear layer."""
    random = np.random.default_rng(2)
    channels = (3, 32, 64)
    weights: Arrays = {}
    for i in range(2):
        inputs, outputs = channels[i], channels[i + 1]
        weights[f"{i}.weight"] = _uniform(random, 9 * inputs, outputs, inputs, 3, 3)
        weights[f"{i}.bias"] = _uniform(random, 9 * inputs, outputs)
    weights |= _linear(random, "head", channels[2] * (side // 4) ** 2, CLASSES)

    def loss(f: Any, w: dict[str, Any], x: Any, target: Any) -> Any:
        for i in range(2):
            x = f.conv2d(x, w[f"{i}.weight"], w[f"{i}.bias"], padding=1)
            x = f.max_pool2d(f.relu(x), 2)
        return f.cross_entropy(_apply(f, w, "head", x.reshape(x.shape[0], -1)), target)

    description = (
        f"two 3x3 convolutions (3-32-64) with relu and 2x2 max-pool on {images} images "
        f"3x{side}x{side}, linear, cross-entropy, Adam"
    )
    model = partial(modules.cnn, channels=channels, side=side, classes=CLASSES)
    batches = _classified(random, images, 3, side, side)
    return Step(description, weights, batches, loss, model=model)


def resnet18(images: int, side: int) -> Step:
    """ResNet-18 as it is built for small images: no pooling after the first convolution, of 3x3."""
    random = np.random.default_rng(8)
    widths = (64, 64, 64, 128, 128, 256, 256, 512, 512)
    weights: Arrays = {}

    def add(name: str, inputs: int, outputs: int, kernel: int = 3) -> None:
        bound = inputs * kernel**2
        weights[f"{name}.weight"] = _uniform(random, bound, outputs, inputs, kernel, kernel)
        weights.update(_norm(f"{name}_norm", outputs))

    add("stem", 3, widths[0])
    for i, (inputs, outputs) in enumerate(itertools.pairwise(widths)):
        add(f"{i}.first", inputs, outputs)
        add(f"{i}.second", outputs, outputs)
        if inputs != outputs:
            add(f"{i}.short", inputs, outputs, kernel=1)
    weights |= _linear(random, "head", widths[-1], CLASSES)

    def normed(f: Any, w: dict[str, Any], name: str, x: Any, stride: int = 1) -> Any:
        kernel = w[f"{name}.weight"]
        x = f.conv2d(x, kernel, stride=stride, padding=kernel.shape[-1] // 2)
        scale, shift = w[f"{name}_norm.weight"], w[f"{name}_norm.bias"]
        return f.batch_norm(x, None, None, scale, shift, training=True)

    def loss(f: Any, w: dict[str, Any], x: Any, target: Any) -> Any:
        x = f.relu(normed(f, w, "stem", x))
        for i, (inputs, outputs) in enumerate(itertools.pairwise(widths)):
            stride = outputs // inputs
            y = f.relu(normed(f, w, f"{i}.first", x, stride))
            if inputs != outputs:
                x = normed(f, w, f"{i}.short", x, stride)
            x = f.relu(normed(f, w, f"{i}.second", y) + x)
        return f.cross_entropy(_apply(f, w, "head", x.mean((2, 3))), target)

    description = (
        f"ResNet-18 with statistics of the batch on {images} images 3x{side}x{side}, "
        "cross-entropy, Adam"
    )
    model = partial(modules.resnet, widths=widths, classes=CLASSES)
    batches = _classified(random, images, 3, side, side)
    # Adam's first steps are as long for a gradient that is only rounding as for any other. Of
    # 1e-3, four of them would make one rounding another network.
    return Step(description, weights, batches, loss, learning_rate=3e-5, model=model)


def gpt(
    layers: int, width: int, heads: int, tokens: int, batch: int, bfloat16: bool = False
) -> Step:
    """A transformer that predicts the next token, if asked for with activations in bfloat16."""
    vocabulary = 96
    random = np.random.default_rng(3)
    weights: Arrays = {
        "token.weight": 0.02 * random.standard_normal((vocabulary, width), np.float32),
        "place": 0.02 * random.standard_normal((tokens, width), np.float32),
    }
    for i in range(layers):
        weights |= _norm(f"{i}.norm1", width) | _norm(f"{i}.norm2", width)
        weights |= _linear(random, f"{i}.qkv", width, 3 * width)
        weights |= _linear(random, f"{i}.projection", width, width)
        weights |= _linear(random, f"{i}.up", width, 4 * width)
        weights |= _linear(random, f"{i}.down", 4 * width, width)
    weights |= _norm("norm", width) | _linear(random, "head", width, vocabulary)

    def normed(f: Any, w: dict[str, Any], name: str, x: Any) -> Any:
        return f.layer_norm(x, (width,), w[f"{name}.weight"], w[f"{name}.bias"])

    def attend(f: Any, w: dict[str, Any], i: int, x: Any) -> Any:
        qkv = _apply(f, w, f"{i}.qkv", x).reshape(-1, tokens, 3, heads, width // heads)
        q, k, v = (qkv[:, :, j].swapaxes(1, 2) for j in range(3))
        x = f.scaled_dot_product_attention(q, k, v, is_causal=True)
        return _apply(f, w, f"{i}.projection", x.swapaxes(1, 2).reshape(-1, tokens, width))

    def loss(f: Any, w: dict[str, Any], text: Any, target: Any) -> Any:
        if bfloat16:  # weights and Adam's state stay in float32, where a small update is not lost
            w = {name: f.bfloat16(weight) for name, weight in w.items()}
        x = f.embedding(text, w["token.weight"]) + w["place"]
        for i in range(layers):
            x = x + attend(f, w, i, normed(f, w, f"{i}.norm1", x))
            hidden = f.gelu(_apply(f, w, f"{i}.up", normed(f, w, f"{i}.norm2", x)))
            x = x + _apply(f, w, f"{i}.down", hidden)
        logits = _apply(f, w, "head", normed(f, w, "norm", x))
        logits = f.float(logits) if bfloat16 else logits
        return f.cross_entropy(logits.reshape(-1, vocabulary), target.reshape(-1))

    texts = random.integers(vocabulary, size=(BATCHES, batch, tokens + 1))
    description = (
        f"{layers} layers, width {width}, {heads} heads, {tokens} tokens, batch {batch}, "
        f"vocabulary {vocabulary}, cross-entropy, Adam"
    ) + ", activations in bfloat16" * bfloat16
    model = partial(
        modules.gpt, layers=layers, width=width, heads=heads, tokens=tokens, vocabulary=vocabulary
    )
    batches: Batches = [(t[:, :-1].copy(), t[:, 1:].copy()) for t in texts]
    if bfloat16:
        return Step(description, weights, batches, loss, tolerance=BFLOAT16_TOLERANCE)
    return Step(description, weights, batches, loss, model=model)


def lstm(hidden: int, batch: int) -> Step:
    """A recurrent network over a sequence: a long chain of small products."""
    inputs, length = 64, 32
    random = np.random.default_rng(4)
    weights = {
        "rnn.weight_ih_l0": _uniform(random, hidden, 4 * hidden, inputs),
        "rnn.weight_hh_l0": _uniform(random, hidden, 4 * hidden, hidden),
        "rnn.bias_ih_l0": _uniform(random, hidden, 4 * hidden),
        "rnn.bias_hh_l0": _uniform(random, hidden, 4 * hidden),
    }
    weights |= _linear(random, "head", hidden, CLASSES)

    def loss(f: Any, w: dict[str, Any], x: Any, target: Any) -> Any:
        # Of all places at once, which everybody gains from.
        given = f.linear(x, w["rnn.weight_ih_l0"], w["rnn.bias_ih_l0"] + w["rnn.bias_hh_l0"])
        h = c = None
        for t in range(length):
            gates = given[:, t]
            if h is not None:
                gates = gates + h @ w["rnn.weight_hh_l0"].T
            i, forget, cell, out = (gates[:, k * hidden : (k + 1) * hidden] for k in range(4))
            new = f.sigmoid(i) * f.tanh(cell)
            c = new if c is None else f.sigmoid(forget) * c + new
            h = f.sigmoid(out) * f.tanh(c)
        return f.cross_entropy(_apply(f, w, "head", h), target)

    description = f"{inputs}-{hidden} over {length} places, batch {batch}, cross-entropy, Adam"
    model = partial(modules.lstm, inputs=inputs, hidden=hidden, classes=CLASSES)
    return Step(description, weights, _classified(random, batch, length, inputs), loss, model=model)


# --- value and gradient ------------------------------------------------------------------------


def ewise(size: int) -> Step:
    """A chain of elementwise functions: memory and mathematics."""
    random = np.random.default_rng(5)

    def loss(f: Any, w: dict[str, Any], x: Any) -> Any:
        return (f.tanh(x) * f.sigmoid(x) + f.exp(-x * x)).sum()

    batches: Batches = [(random.standard_normal(size, np.float32),) for _ in range(4)]
    description = f"value and gradient of sum(tanh(x) sigmoid(x) + exp(-x x)), {size:,} numbers"
    return Step(description, {}, batches, loss, learning_rate=None)


def chain(length: int) -> Step:
    """What one eager operation and its backward cost."""

    def loss(f: Any, w: dict[str, Any], x: Any) -> Any:
        y = x
        for _ in range(length):
            y = y * x
        return y

    batches: Batches = [(np.array(1 + i / 1e4, np.float32),) for i in range(BATCHES)]
    description = f"{length} multiplications of a scalar and backward, eager"
    return Step(description, {}, batches, loss, learning_rate=None)


STEPS: dict[str, Callable[[], Step]] = {
    "small": partial(dense, "tanh", (64, 64, 64, CLASSES), batch=32),
    "small-large": partial(dense, "tanh", (128, 128, 128, CLASSES), batch=128),
    "mlp": partial(dense, "relu", (784, 512, 512, CLASSES), batch=64),
    "mlp-large": partial(dense, "relu", (784, 1024, 1024, CLASSES), batch=128),
    "cnn": partial(cnn, images=32, side=32),
    "cnn-large": partial(cnn, images=64, side=48),
    "resnet18": partial(resnet18, images=8, side=32),
    "gpt": partial(gpt, layers=4, width=128, heads=4, tokens=64, batch=8),
    "gpt-large": partial(gpt, layers=4, width=256, heads=4, tokens=128, batch=4),
    "gpt-bf16": partial(gpt, layers=4, width=128, heads=4, tokens=64, batch=8, bfloat16=True),
    "ewise": partial(ewise, size=1 << 22),
    "chain": partial(chain, length=1000),
    "lstm": partial(lstm, hidden=128, batch=32),
    "lstm-large": partial(lstm, hidden=256, batch=64),
}
LOOPS: dict[str, Callable[[], Loop]] = {
    "generation": partial(Loop, loops.GENERATION, loops.generation),
    "episode": partial(Loop, loops.EPISODE, loops.episode),
}
WORK: dict[str, Callable[[], Step | Loop]] = {**STEPS, **LOOPS}
EAGER_ONLY = {"chain"}  # compilers would make one operation of it
LARGER = {name for name in STEPS if name.endswith("-large")}
