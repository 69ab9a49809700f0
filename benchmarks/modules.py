"""The networks of models.py built of `nn` modules, whose parameters have the same names.

`nn` is a library's own module of that name: contraflow's and PyTorch's read alike.
"""

from __future__ import annotations

import itertools
from typing import Any


def dense(nn: Any, activation: str, sizes: tuple[int, ...]) -> Any:
    """Linear layers with an activation between."""
    layers: dict[str, Any] = {}
    for i, (inputs, outputs) in enumerate(itertools.pairwise(sizes)):
        if i:
            layers[f"{activation}{i}"] = {"tanh": nn.Tanh, "relu": nn.ReLU}[activation]()
        layers[f"{i}"] = nn.Linear(inputs, outputs)
    return _sequence(nn, layers)


def cnn(nn: Any, channels: tuple[int, ...], side: int, classes: int) -> Any:
    """Convolutions with relu and max-pooling, then a linear layer."""
    layers: dict[str, Any] = {}
    for i, (inputs, outputs) in enumerate(itertools.pairwise(channels)):
        layers[f"{i}"] = nn.Conv2d(inputs, outputs, 3, padding=1)
        layers[f"relu{i}"] = nn.ReLU()
        layers[f"pool{i}"] = nn.MaxPool2d(2)
        side //= 2
    layers["flatten"] = nn.Flatten()
    layers["head"] = nn.Linear(channels[-1] * side * side, classes)
    return _sequence(nn, layers)


def resnet(nn: Any, widths: tuple[int, ...], classes: int) -> Any:
    """A residual network of blocks with two convolutions: the images shrink where they widen."""

    def convolution(inputs: int, outputs: int, kernel: int = 3) -> Any:
        stride, padding = max(1, outputs // inputs), kernel // 2
        return nn.Conv2d(inputs, outputs, kernel, stride, padding, bias=False)

    def norm(width: int) -> Any:
        return nn.BatchNorm2d(width, track_running_stats=False)

    class Block(nn.Module):  # type: ignore[misc, name-defined]
        def __init__(self, inputs: int, outputs: int) -> None:
            super().__init__()
            self.first, self.first_norm = convolution(inputs, outputs), norm(outputs)
            self.second, self.second_norm = convolution(outputs, outputs), norm(outputs)
            self.short = None
            if inputs != outputs:
                self.short, self.short_norm = convolution(inputs, outputs, 1), norm(outputs)
            self.relu = nn.ReLU()

        def forward(self, x: Any) -> Any:
            y = self.second_norm(self.second(self.relu(self.first_norm(self.first(x)))))
            return self.relu(y + (x if self.short is None else self.short_norm(self.short(x))))

    layers: dict[str, Any] = {}
    layers["stem"] = nn.Conv2d(3, widths[0], 3, padding=1, bias=False)
    layers["stem_norm"], layers["relu"] = norm(widths[0]), nn.ReLU()
    layers |= {f"{i}": Block(*pair) for i, pair in enumerate(itertools.pairwise(widths))}
    layers |= {"pool": nn.AdaptiveAvgPool2d(1), "flatten": nn.Flatten()}
    layers["head"] = nn.Linear(widths[-1], classes)
    return _sequence(nn, layers)


def _sequence(nn: Any, layers: dict[str, Any]) -> Any:
    found = nn.Sequential()
    for name, layer in layers.items():
        found.add_module(name, layer)
    return found


def gpt(nn: Any, layers: int, width: int, heads: int, tokens: int, vocabulary: int) -> Any:
    """A transformer that predicts the next token: logits of every place."""
    attention = nn.functional.scaled_dot_product_attention

    class Block(nn.Module):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
            self.qkv, self.projection = nn.Linear(width, 3 * width), nn.Linear(width, width)
            self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
            self.gelu = nn.GELU()

        def forward(self, x: Any) -> Any:
            qkv = self.qkv(self.norm1(x)).reshape(-1, tokens, 3, heads, width // heads)
            q, k, v = (qkv[:, :, j].swapaxes(1, 2) for j in range(3))
            seen = attention(q, k, v, is_causal=True).swapaxes(1, 2).reshape(-1, tokens, width)
            x = x + self.projection(seen)
            return x + self.down(self.gelu(self.up(self.norm2(x))))

    class Transformer(nn.Module):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.token = nn.Embedding(vocabulary, width)
            self.place = nn.Parameter(self.token.weight.detach()[:1].repeat(tokens, 1))
            for i in range(layers):
                self.add_module(f"{i}", Block())
            self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, vocabulary)

        def forward(self, text: Any) -> Any:
            x = self.token(text) + self.place
            for i in range(layers):
                x = getattr(self, f"{i}")(x)
            return self.head(self.norm(x)).reshape(-1, vocabulary)

    return Transformer()


def lstm(nn: Any, inputs: int, hidden: int, classes: int) -> Any:
    """A recurrent network whose last state is classified."""

    class Recurrent(nn.Module):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.rnn = nn.LSTM(inputs, hidden, batch_first=True)
            self.head = nn.Linear(hidden, classes)

        def forward(self, x: Any) -> Any:
            _, (h, _) = self.rnn(x)
            return self.head(h[0])

    return Recurrent()
