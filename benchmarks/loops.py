"""Loops of small calls: a transformer that writes token by token, and a policy that plays.

Both are written once, for a library with PyTorch's names. A call of what they return is one turn:
a token, or a step of the environment with its share of the learning.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

LAYERS, WIDTH, HEADS, LENGTH, VOCABULARY = 4, 128, 4, 64, 96


class Writer:
    """A GPT with a cache of keys and values of a fixed length, which writes its likeliest token."""

    def __init__(self, library: Any) -> None:
        self._library = library
        random = np.random.default_rng(6)

        def weight(*shape: int) -> Any:
            return library.tensor(0.02 * random.standard_normal(shape, np.float32))

        self._tokens, self._places = weight(VOCABULARY, WIDTH), weight(LENGTH, WIDTH)
        self._head = weight(VOCABULARY, WIDTH)
        sizes = ((3 * WIDTH, WIDTH), (WIDTH, WIDTH), (4 * WIDTH, WIDTH), (WIDTH, 4 * WIDTH))
        self._blocks = [[weight(*size) for size in sizes] for _ in range(LAYERS)]
        shape = (LAYERS, 2, HEADS, LENGTH, WIDTH // HEADS)
        self._cache = library.zeros(*shape)
        self._steps = library.arange(LENGTH)

    def next_token(self, token: Any, place: Any) -> Any:
        """The token [1] after `token` [1], which stands at `place` [1], a tensor."""
        functional = self._library.nn.functional
        x = functional.embedding(token, self._tokens) + self._places[place]
        seen = self._steps <= place
        for number, (qkv, projection, up, down) in enumerate(self._blocks):
            parts = functional.linear(functional.layer_norm(x, (WIDTH,)), qkv)
            q, k, v = parts.reshape(3, HEADS, 1, WIDTH // HEADS).unbind()
            keys, values = self._cache[number, 0], self._cache[number, 1]
            keys.index_copy_(1, place, k)
            values.index_copy_(1, place, v)
            found = functional.scaled_dot_product_attention(q, keys, values, attn_mask=seen)
            x = x + functional.linear(found.reshape(1, WIDTH), projection)
            hidden = functional.gelu(functional.linear(functional.layer_norm(x, (WIDTH,)), up))
            x = x + functional.linear(hidden, down)
        scores = functional.linear(functional.layer_norm(x, (WIDTH,)), self._head)
        return scores.argmax(-1)


def generation(library: Any, compiled: bool) -> Callable[[], Any]:
    """A function each call of which writes the next token of a text; at its end it begins again."""
    writer = Writer(library)
    write = library.compile(writer.next_token) if compiled else writer.next_token
    places = [library.tensor([i]) for i in range(LENGTH)]
    text = [library.tensor([1])]

    def turn(writer: Writer = writer) -> Any:  # which a compiled method does not keep alive
        with library.no_grad():
            text.append(write(text[-1], places[len(text) - 1]))
        if len(text) == LENGTH:
            del text[1:]
        return text[-1]

    return turn


def episode(library: Any) -> Callable[[], None]:
    """REINFORCE on a pole that falls: a function whose every call plays ten steps and learns."""
    random = np.random.default_rng(7)

    def weight(*shape: int) -> Any:
        return library.tensor(random.standard_normal(shape, np.float32) / 4).requires_grad_()

    first, bias, second = weight(16, 4), weight(16), weight(2, 16)
    functional = library.nn.functional
    optimizer = library.optim.SGD([first, bias, second], lr=1e-3)

    def turn() -> None:
        pole, log_probabilities, rewards = np.zeros(4, np.float32), [], []
        for _ in range(10):
            hidden = functional.relu(functional.linear(library.tensor(pole), first, bias))
            chances = functional.softmax(functional.linear(hidden, second), -1)
            action = library.multinomial(chances, 1).item()
            log_probabilities.append(chances[action].log())
            pole = 0.9 * pole + np.float32(0.1 * (2 * action - 1))
            rewards.append(1.0 - float(abs(pole[0])))
        returns = library.tensor(np.cumsum(rewards[::-1])[::-1].copy()).float()
        optimizer.zero_grad()
        loss = -(library.stack(log_probabilities) * (returns - returns.mean())).sum()
        loss.backward()
        optimizer.step()

    return turn
