"""Loops of small calls: a transformer that writes token by token, and a policy that plays.

Both are written once, for a library with PyTorch's names. A call of what they return is one turn: a
text, or an episode and what is learnt from it. A turn returns a number as a tensor and, of a text,
the tensor of all tokens: what must be equal in every library.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np

LAYERS, WIDTH, HEADS, LENGTH, VOCABULARY = 4, 128, 4, 64, 96
STATE, HIDDEN, ACTIONS, PLAYED = 4, 16, 2, 10
GENERATION = (
    f"{LENGTH - 1} tokens, one by one, of a transformer with a cache of keys and values: "
    f"{LAYERS} layers, width {WIDTH}, {HEADS} heads"
)
EPISODE = (
    f"REINFORCE: {PLAYED} states through {STATE}-{HIDDEN}-{ACTIONS}, an action drawn for each, "
    "backward, SGD"
)


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


def token(library: Any, compiled: bool) -> Callable[[], Any]:
    """A function each call of which writes a token of a text; at its end the next one begins."""
    writer = Writer(library)
    write = library.compile(writer.next_token) if compiled else writer.next_token
    places = [library.tensor([i]) for i in range(LENGTH)]
    beginnings = itertools.cycle([library.tensor([i]) for i in range(1, VOCABULARY)])
    text = [next(beginnings)]

    def turn(writer: Writer = writer) -> Any:  # which a compiled method does not keep alive
        if len(text) == LENGTH:
            text[:] = [next(beginnings)]
        with library.no_grad():
            text.append(write(text[-1], places[len(text) - 1]))
        return text[-1]

    return turn


def generation(library: Any, compiled: bool) -> Callable[[], tuple[Any, Any]]:
    """A function each call of which writes a whole text: its last token, and all."""
    write = token(library, compiled)

    def turn() -> tuple[Any, Any]:
        tokens = library.cat([write() for _ in range(LENGTH - 1)])
        return tokens[-1], tokens

    return turn


def episode(library: Any, compiled: bool) -> Callable[[], tuple[Any, None]]:
    """REINFORCE on a pole that falls: a function whose every call plays some steps and learns.

    An action is the largest of the log-probabilities plus noise of a Gumbel distribution, which is
    a draw from them. The noise is NumPy's: so every library plays the same episode.
    """
    random = np.random.default_rng(7)

    def weight(*shape: int) -> Any:
        return library.tensor(random.standard_normal(shape, np.float32) / 4).requires_grad_()

    first, bias, second = weight(HIDDEN, STATE), weight(HIDDEN), weight(ACTIONS, HIDDEN)
    functional = library.nn.functional
    optimizer = library.optim.SGD([first, bias, second], lr=1e-3)

    def choose(state: Any, noise: Any) -> tuple[Any, Any]:
        """An action [1] and the logarithm of its probability [1]."""
        hidden = functional.relu(functional.linear(state, first, bias))
        logarithms = functional.log_softmax(functional.linear(hidden, second), -1)
        action = (logarithms.detach() + noise).argmax(-1, keepdim=True)
        return action, logarithms.gather(-1, action)

    policy = library.compile(choose) if compiled else choose

    def turn() -> tuple[Any, None]:
        pole, logarithms, rewards = np.zeros(STATE, np.float32), [], []
        for noise in random.gumbel(size=(PLAYED, ACTIONS)).astype(np.float32):
            action, logarithm = policy(library.tensor(pole), library.tensor(noise))
            logarithms.append(logarithm)
            pole = 0.9 * pole + np.float32(0.1 * (2 * action.item() - 1))
            rewards.append(1.0 - float(abs(pole[0])))
        returns = library.tensor(np.cumsum(rewards[::-1])[::-1].astype(np.float32))
        optimizer.zero_grad()
        loss = -(library.cat(logarithms) * (returns - returns.mean())).sum()
        loss.backward()
        optimizer.step()
        return loss.detach(), None

    return turn
