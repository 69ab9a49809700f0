"""A GPT learns to write, one character at a time, and writes fast by a cache.

The text is made here: sentences about animals, with rules that a reader sees at once. Verbs agree
with their subject (the cat sleeps, two cats sleep), and animals do only what they can (birds fly).
A tenth of the possible sentences never occurs in training, so what the model writes can be judged:
does it follow the rules, and does it write sentences that it has not read?

Writing asks the model for one character after another. Without a cache each character computes the
keys and values of all before it again; with one, a step computes those of a single position. The
cache has a fixed size and the position is a tensor, so one compiled program serves all characters.

    python examples/char_gpt.py            # writes char_gpt.png here
    python examples/char_gpt.py --quick    # few steps
"""

import argparse
import itertools
import random
import time

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt
import numpy as np
from tqdm import trange

import contraflow as cf
from contraflow import nn
from contraflow.nn import functional as F

CONTEXT = 96
WIDTH, HEADS, LAYERS = 96, 4, 3
BATCH = 20
PICTURE = "char_gpt.png"


# --- the text ----------------------------------------------------------------------------------

ANIMALS = {
    "bird": ["fly", "sing", "sleep"],
    "cat": ["sleep", "hunt", "run"],
    "dog": ["run", "bark", "sleep"],
    "duck": ["swim", "fly", "sleep"],
    "fish": ["swim", "hide"],
    "frog": ["swim", "jump", "sing"],
    "horse": ["run", "jump", "sleep"],
    "mouse": ["hide", "run"],
}
PLURALS = {"fish": "fish", "mouse": "mice"}
COLORS = ["black", "brown", "grey", "small", "old", "young"]
PLACES = ["in the house", "near the river", "under the old tree", "behind the barn", "at night"]


def all_sentences() -> list[str]:
    """Everything that can be said by the rules."""
    found = []
    for (animal, verbs), color, place in itertools.product(ANIMALS.items(), COLORS, PLACES):
        for verb in verbs:
            found.append(f"the {color} {animal} {verb}s {place}.")
            for count in ("two", "three"):
                plural = PLURALS.get(animal, animal + "s")
                found.append(f"{count} {color} {plural} {verb} {place}.")
    return found


SENTENCES = all_sentences()
random.Random(0).shuffle(SENTENCES)
UNREAD = set(SENTENCES[: len(SENTENCES) // 10])
READ = SENTENCES[len(UNREAD) :]
ALPHABET = sorted(set("".join(SENTENCES)) | {"\n"})
CODES = {character: code for code, character in enumerate(ALPHABET)}


def encode(text: str) -> np.ndarray:
    """The codes of a text's characters."""
    return np.array([CODES[character] for character in text])


def decode(codes: np.ndarray) -> str:
    """The text of these codes."""
    return "".join(ALPHABET[code] for code in codes)


# --- the model ---------------------------------------------------------------------------------


class Attention(nn.Module):
    """Causal attention of several heads: [n, t, WIDTH] to the same."""

    def __init__(self) -> None:
        super().__init__()
        self.project = nn.Linear(WIDTH, 3 * WIDTH)
        self.out = nn.Linear(WIDTH, WIDTH)

    def heads(self, x: cf.Tensor) -> tuple[cf.Tensor, ...]:
        """Queries, keys and values, [n, HEADS, t, WIDTH / HEADS] each."""
        n, t, _ = x.shape
        return self.project(x).view(n, t, 3, HEADS, WIDTH // HEADS).permute(2, 0, 3, 1, 4).unbind(0)

    def forward(self, x: cf.Tensor) -> cf.Tensor:
        query, key, value = self.heads(x)
        mixed = F.scaled_dot_product_attention(query, key, value, is_causal=True)
        return self.out(mixed.transpose(1, 2).flatten(2))

    def next(self, x: cf.Tensor, cache: cf.Tensor, position: cf.Tensor) -> cf.Tensor:
        """One position x [n, 1, WIDTH] more; its key and value are written into the cache."""
        query, key, value = self.heads(x)
        cache.index_copy_(3, position, cf.stack([key, value]))
        seen = cf.arange(CONTEXT) <= position
        mixed = F.scaled_dot_product_attention(query, cache[0], cache[1], attn_mask=seen)
        return self.out(mixed.transpose(1, 2).flatten(2))


class Block(nn.Module):
    """Attention and two linear layers, each added to what came in."""

    def __init__(self) -> None:
        super().__init__()
        self.attention = Attention()
        self.norms = nn.ModuleList([nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)])
        self.mlp = nn.Sequential(
            nn.Linear(WIDTH, 4 * WIDTH), nn.GELU(), nn.Linear(4 * WIDTH, WIDTH)
        )

    def forward(self, x: cf.Tensor) -> cf.Tensor:
        x = x + self.attention(self.norms[0](x))
        return x + self.mlp(self.norms[1](x))

    def next(self, x: cf.Tensor, cache: cf.Tensor, position: cf.Tensor) -> cf.Tensor:
        """One position more, with the keys and values of those before it in the cache."""
        x = x + self.attention.next(self.norms[0](x), cache, position)
        return x + self.mlp(self.norms[1](x))


class GPT(nn.Module):
    """Scores of the next character after each: codes [n, t] to [n, t, len(ALPHABET)]."""

    def __init__(self) -> None:
        super().__init__()
        self.characters = nn.Embedding(len(ALPHABET), WIDTH)
        self.positions = nn.Embedding(CONTEXT, WIDTH)
        self.blocks = nn.ModuleList(Block() for _ in range(LAYERS))
        self.norm = nn.LayerNorm(WIDTH)
        self.head = nn.Linear(WIDTH, len(ALPHABET))

    def forward(self, codes: cf.Tensor) -> cf.Tensor:
        x = self.characters(codes) + self.positions(cf.arange(codes.shape[1]))
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x))

    def next(self, code: cf.Tensor, caches: list[cf.Tensor], position: cf.Tensor) -> cf.Tensor:
        """Scores [n, len(ALPHABET)] after one code [n, 1] more, at this position [1]."""
        x = self.characters(code) + self.positions(position)
        for block, cache in zip(self.blocks, caches):
            x = block.next(x, cache, position)
        return self.head(self.norm(x))[:, -1]


# --- training ----------------------------------------------------------------------------------


def train(model: GPT, steps: int) -> list[float]:
    """Train on windows of the text; the loss of each step."""
    text = encode("\n".join(READ) + "\n")
    windows = np.lib.stride_tricks.sliding_window_view(text, CONTEXT + 1)
    # A window begins where a sentence does, as writing will.
    starts = np.flatnonzero(windows[1:, 0] == CODES["\n"]) + 1
    chooser = np.random.default_rng(0)
    optimizer = cf.optim.AdamW(model.parameters(), lr=3e-3, weight_decay=0.01)
    schedule = cf.optim.lr_scheduler.OneCycleLR(
        optimizer, max_lr=4e-3, total_steps=steps, pct_start=0.1
    )

    @cf.compile
    def step(codes: cf.Tensor) -> cf.Tensor:
        optimizer.zero_grad()
        loss = F.cross_entropy(model(codes[:, :-1]).flatten(0, 1), codes[:, 1:].flatten())
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        return loss

    losses = []
    with trange(steps, unit="step") as progress:
        for number in progress:
            losses.append(step(cf.tensor(windows[chooser.choice(starts, BATCH)])).item())
            schedule.step()
            if number % 10 == 9:
                progress.set_postfix(loss=f"{np.mean(losses[-10:]):.3f}")
    return losses


# --- writing -----------------------------------------------------------------------------------


def write(model: GPT, samples: int) -> tuple[np.ndarray, np.ndarray]:
    """Codes [samples, CONTEXT] by the cache, and the seconds of each character [CONTEXT - 1]."""
    shape = (2, samples, HEADS, CONTEXT, WIDTH // HEADS)
    caches = [cf.zeros(shape) for _ in range(LAYERS)]

    @cf.compile
    def next_code(code: cf.Tensor, position: cf.Tensor) -> cf.Tensor:
        chances = model.next(code, caches, position).softmax(-1)
        return cf.multinomial(chances, 1)

    code = cf.full((samples, 1), CODES["\n"])
    codes, seconds = [code.numpy()], []
    with cf.no_grad():
        for position in trange(CONTEXT - 1, unit="character", desc="writing"):
            start = time.perf_counter()
            code = next_code(code, cf.tensor([position]))
            codes.append(code.numpy())
            seconds.append(time.perf_counter() - start)
    return np.concatenate(codes, axis=1), np.array(seconds)


def write_without_cache(model: GPT, samples: int) -> np.ndarray:
    """The seconds of each character [CONTEXT - 1] where the model reads all before it again."""
    codes, seconds = cf.full((samples, 1), CODES["\n"]), []
    with cf.no_grad():
        for _ in trange(CONTEXT - 1, unit="character", desc="without a cache"):
            start = time.perf_counter()
            following = cf.multinomial(model(codes)[:, -1].softmax(-1), 1)
            codes = cf.cat([codes, following], dim=1)
            seconds.append(time.perf_counter() - start)
    return np.array(seconds)


def check_cache(model: GPT, codes: cf.Tensor) -> float:
    """By how much the scores of codes [n, t] with the cache differ from those without, at most."""
    with cf.no_grad():
        caches = [cf.zeros(2, len(codes), HEADS, CONTEXT, WIDTH // HEADS) for _ in range(LAYERS)]
        steps = [
            model.next(codes[:, i : i + 1], caches, cf.tensor([i])) for i in range(codes.shape[1])
        ]
        return (cf.stack(steps, dim=1) - model(codes)).abs().max().item()


# --- the picture -------------------------------------------------------------------------------


def draw(losses: list[float], cached: np.ndarray, plain: np.ndarray, lines: list[str]) -> None:
    """The course of training, the time of a character, and what the model writes."""
    figure, (left, middle, right) = plt.subplots(
        1, 3, figsize=(15, 4.2), layout="constrained", width_ratios=[1, 1, 1.3]
    )
    left.plot(losses)
    left.set(title="loss of a character", xlabel="step", yscale="log")

    middle.plot(plain * 1e3, label="all read again")
    middle.plot(cached * 1e3, label="with a cache, compiled")
    middle.set(title="time of each character", xlabel="characters before it", ylabel="milliseconds")
    # The first call compiles, and would hide all others.
    middle.set(yscale="log", ylim=(np.min(cached) * 500, np.max(plain[5:]) * 1e4))
    middle.legend()

    kinds = {"C2": "not read before", "C0": "read before", "C3": "against the rules"}
    for row, line in enumerate(lines[:13]):
        color = "C2" if line in UNREAD else "C0" if line in SENTENCES else "C3"
        right.text(0.02, 0.95 - 0.07 * row, line, color=color, family="monospace", size=9)
    for column, (color, meaning) in enumerate(kinds.items()):
        right.text(0.02 + 0.33 * column, 0.02, meaning, color=color, weight="bold", size=9)
    right.set(title="what it writes")
    right.axis("off")
    figure.savefig(PICTURE, dpi=120)


def main() -> None:
    """Train, write, judge, draw."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="few steps")
    quick = parser.parse_args().quick

    cf.manual_seed(0)
    model = GPT()
    print(f"{sum(p.numel() for p in model.parameters()):,} parameters read {len(READ)} sentences.")
    losses = train(model, 20 if quick else 500)
    codes, cached = write(model, 8 if quick else 24)
    plain = write_without_cache(model, 8 if quick else 24)
    assert check_cache(model, cf.tensor(codes[:2, :16])) < 1e-3

    # The last line of each sample may not be complete.
    lines = [line for row in codes for line in decode(row).split("\n")[1:-1]]
    valid = [line for line in lines if line in SENTENCES]
    unread = len(set(valid) & UNREAD)
    draw(losses, cached, plain, lines)
    ratio = np.median(plain) / np.median(cached)
    print(f"With its cache the model writes {ratio:.0f} times as fast.")
    print(
        f"{len(valid)} of {len(lines)} sentences written follow the rules, {unread} of which were "
        f"never read; see {PICTURE}"
    )


if __name__ == "__main__":
    main()
