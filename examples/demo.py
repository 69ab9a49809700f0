"""A language model learns to write licence text, one character at a time.

It reads the LICENSE file beside this folder, trains for a few hundred compiled steps, and shows
what the model writes before, during and after. Then the same steps run without the compiler, to
see what it changes: the speed, and not the numbers. It ends with a page of pictures, demo.png.

    python examples/demo.py            # about ten seconds
    python examples/demo.py --quick    # a fifth of the steps
    python examples/demo.py --device webgpu
"""

import argparse
import inspect
import io
import re
import statistics
import sys
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt
import numpy as np

import contraflow as cf
from contraflow import nn
from contraflow.nn import functional as F

CONTEXT = 8  # characters the model sees before it guesses the next
WIDTH = 128
BATCH = 128
SAMPLE = 160  # characters to write when asked for a sample

TEXT = " ".join((Path(__file__).resolve().parents[1] / "LICENSE").read_text().split())
ALPHABET = sorted(set(TEXT))
CODES = np.array([ALPHABET.index(character) for character in TEXT])


# --- the model ---------------------------------------------------------------------------------


class Block(nn.Module):
    """Normalize, widen, bend, narrow, and add the result to what came in."""

    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(WIDTH)
        self.widen = nn.Linear(WIDTH, 2 * WIDTH)
        self.dropout = nn.Dropout(0.1)
        self.narrow = nn.Linear(2 * WIDTH, WIDTH)

    def forward(self, x: cf.Tensor) -> cf.Tensor:
        return x + self.narrow(self.dropout(F.gelu(self.widen(self.norm(x)))))


class Writer(nn.Module):
    """Scores for the next character: contexts [n, CONTEXT] to logits [n, len(ALPHABET)]."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(len(ALPHABET), 24)
        self.mix = nn.Linear(24 * CONTEXT, WIDTH)
        self.first, self.second = Block(), Block()
        self.norm = nn.LayerNorm(WIDTH)
        self.head = nn.Linear(WIDTH, len(ALPHABET))

    def forward(self, context: cf.Tensor) -> cf.Tensor:
        x = self.mix(self.embedding(context).flatten(1))
        x = self.first(x)
        # Keeps nothing for backward and runs again there, with the same dropout.
        x = cf.checkpoint(self.second, x)
        return self.head(self.norm(x))


class Training:
    """A model, its optimizer and its schedule, all following from one seed."""

    def __init__(self, steps: int) -> None:
        cf.manual_seed(0)
        self.model = Writer()
        self.optimizer = cf.optim.AdamW(self.model.parameters(), lr=4e-3)
        self.schedule = cf.optim.lr_scheduler.CosineAnnealingLR(self.optimizer, T_max=steps)

    def step(self, context: cf.Tensor, following: cf.Tensor) -> cf.Tensor:
        """Forward, backward and update: plain eager code, which `cf.compile` takes as it is."""
        self.optimizer.zero_grad()
        loss = F.cross_entropy(self.model(context), following)
        loss.backward()
        self.optimizer.step()
        return loss


def batches() -> Iterator[tuple[cf.Tensor, cf.Tensor]]:
    """Contexts and the characters that follow them, from the same places on every run."""
    windows = np.lib.stride_tricks.sliding_window_view(CODES, CONTEXT + 1)
    random = np.random.default_rng(0)
    while True:
        chosen = windows[random.integers(len(windows), size=BATCH)]
        yield cf.tensor(chosen[:, :-1]), cf.tensor(chosen[:, -1])


def write(model: Writer, length: int = SAMPLE) -> str:
    """Let the model go on from the first characters of the text."""
    random = np.random.default_rng(0)
    codes = list(CODES[:CONTEXT])
    model.eval()
    with cf.no_grad():
        for _ in range(length):
            logits = model(cf.tensor([codes[-CONTEXT:]]))[0]
            # Halving the temperature makes likely characters likelier still.
            chances = F.softmax(logits / 0.5, 0).cpu().numpy().astype(np.float64)
            codes.append(random.choice(len(ALPHABET), p=chances / chances.sum()))
    model.train()
    return "".join(ALPHABET[code] for code in codes[CONTEXT:])


# --- showing it --------------------------------------------------------------------------------


def title(text: str) -> None:
    """A heading as wide as what follows it."""
    print(f"\n--- {text} {'-' * (83 - len(text))}\n")


def sparkline(values: list[float], width: int = 40) -> str:
    """The course of some values as one line of blocks, each the mean of its share."""
    parts = np.array_split(np.array(values), min(width, len(values)))
    means = np.array([part.mean() for part in parts])
    heights = (means - means.min()) / max(np.ptp(means), 1e-9)
    return "".join("▁▂▃▄▅▆▇█"[int(7.99 * height)] for height in heights)


def show_progress(losses: list[float], steps: int) -> None:
    """A line that overwrites itself; where output is no terminal, ten lines in all."""
    done, live = len(losses), sys.stdout.isatty()
    if done % (10 if live else steps // 10) and done != steps:
        return
    recent = statistics.fmean(losses[-20:])
    line = f"step {done:4}/{steps}   loss {recent:.3f}   {sparkline(losses)}"
    print(line, end="\r" if live and done != steps else "\n", flush=True)


def show_sample(when: str, model: Writer) -> None:
    """What the model writes now, on two lines."""
    text, half = write(model), SAMPLE // 2
    print(f"\033[K{when}:" if sys.stdout.isatty() else f"{when}:")
    print(f"    | {text[:half]}\n    | {text[half:]}\n")


# --- the tour ----------------------------------------------------------------------------------


def train(steps: int) -> tuple[list[float], list[float], Any]:
    """Train with the compiled step. The losses, the seconds of each step, and the step."""
    training = Training(steps)
    compiled_step = cf.compile(training.step)
    losses: list[float] = []
    seconds: list[float] = []

    show_sample("before", training.model)
    for context, following in batches():
        start = time.perf_counter()
        losses.append(compiled_step(context, following).item())
        seconds.append(time.perf_counter() - start)
        training.schedule.step()  # writes a number that the compiled step reads
        show_progress(losses, steps)
        if len(losses) == steps // 8:
            show_sample(f"after {len(losses)} steps", training.model)
        if len(losses) == steps:
            break
    show_sample(f"after {steps} steps", training.model)
    return losses, seconds, compiled_step


def compare(losses: list[float], seconds: list[float], repeated: int) -> tuple[float, float]:
    """Repeat the first steps from the same seed, eagerly; the milliseconds of a step of both."""
    training = Training(len(losses))
    largest, eager_seconds = 0.0, []
    for expected, (context, following) in zip(losses[:repeated], batches()):
        start = time.perf_counter()
        loss = training.step(context, following).item()
        eager_seconds.append(time.perf_counter() - start)
        training.schedule.step()
        largest = max(largest, abs(loss - expected))

    eager, compiled = (statistics.median(times) * 1e3 for times in (eager_seconds, seconds))
    print(f"eager       {eager:7.2f} ms a step, the median of {repeated}")
    print(f"compiled    {compiled:7.2f} ms a step, the median of {len(seconds)}")
    print(f"            {eager / compiled:7.1f} times as fast")
    print(f"first call  {seconds[0] * 1e3:7.0f} ms, recording and compiling included")
    print(f"losses      {largest:7.0e} apart at most in {repeated} steps, dropout included")
    return eager, compiled


def explain(compiled_step: Any, rows: int = 12) -> None:
    """The beginning of what a compiled step says of itself."""
    explained = compiled_step.explain().splitlines()
    print("\n".join(explained[:rows]))
    print(f"  ... and {len(explained) - rows} rows more")


def kernel_counts(compiled_step: Any) -> Counter[tuple[str, str]]:
    """How many kernels of each kind a compiled step runs, by the part where they begin."""
    lines, first = inspect.getsourcelines(Training.step)
    parts = {"self.model(": "forward", ".backward()": "backward", ".step()": "optimizer"}
    part_of = {
        str(first + i): part
        for i, line in enumerate(lines)
        for call, part in parts.items()
        if call in line
    }
    rows = re.findall(r"kernel  ([a-z]+)[^:\n]*: [^:\n]*:(\d+)", compiled_step.explain())
    # A line outside of the step is one of the model's.
    return Counter((part_of.get(number, "forward"), kind) for kind, number in rows)


def draw(
    losses: list[float], milliseconds: tuple[float, float], kernels: Counter[tuple[str, str]]
) -> None:
    """The page of pictures: the loss, eager against compiled, and what the compiled step runs."""
    figure, (left, middle, right) = plt.subplots(1, 3, figsize=(14, 4), layout="constrained")
    smooth = np.convolve(losses, np.ones(20) / 20, mode="valid")
    left.plot(losses, color="lightgray", linewidth=0.6)
    left.plot(np.arange(len(smooth)) + 10, smooth)
    left.set(title="loss of each step, and its mean over 20", xlabel="step")

    bars = middle.bar(["eager", "compiled"], milliseconds, color=["C1", "C0"])
    middle.bar_label(bars, [f"{each:.1f} ms" for each in milliseconds])
    middle.set(title="time of a step", ylabel="milliseconds", ylim=(0, 1.15 * max(milliseconds)))

    parts = ["forward", "backward", "optimizer"]
    drawn = np.zeros(len(parts))
    for kind in sorted({kind for _, kind in kernels}):
        counts = np.array([kernels[part, kind] for part in parts])
        right.barh(parts, counts, left=drawn, label=kind)
        drawn += counts
    right.invert_yaxis()
    right.legend()
    right.set(title=f"the compiled step runs {int(drawn.sum())} kernels", xlabel="begun there")
    figure.savefig("demo.png", dpi=120)
    print("The pictures are in demo.png.")


def make_a_mistake() -> None:
    """The gradient of exp is its result, so y is saved, and must not change before backward."""
    x = cf.tensor([0.0, 1.0, 2.0], requires_grad=True)
    y = x.exp()
    y.add_(1.0)
    y.sum().backward()


def show_mistake() -> None:
    """The lines of a wrong function, and what the error says of them."""
    source, first = inspect.getsourcelines(make_a_mistake)
    for number, line in list(enumerate(source, first))[2:]:
        print(f"{number:5} | {line.strip()}")
    try:
        make_a_mistake()
    except cf.GradientError as error:
        print(f"\n{type(error).__name__}: {error}")


def main() -> None:
    """Train, compare, explain, and fail on purpose."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="a fifth of the steps")
    parser.add_argument("--device", default="cpu", help="cpu, cuda or webgpu")
    given = parser.parse_args()
    quick = given.quick
    cf.set_default_device(given.device)
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")  # a terminal without block characters shows "?"
    steps = 160 if quick else 800

    parameters = sum(p.numel() for p in Writer().parameters())
    print(f"A network of {parameters:,} parameters reads the {len(TEXT):,} characters of LICENSE.")
    print(f"It sees {CONTEXT} of them and learns to guess the next, knowing nothing of words.")
    print("Forward, backward and AdamW are ordinary code, compiled into one program by cf.compile.")

    title("training")
    losses, seconds, compiled_step = train(steps)
    title("the same steps without the compiler")
    milliseconds = compare(losses, seconds, repeated=10 if quick else 20)
    title("what the compiled step runs: print(step.explain())")
    explain(compiled_step)
    title("and when you overwrite what backward needs")
    show_mistake()
    title("and in pictures")
    draw(losses, milliseconds, kernel_counts(compiled_step))


if __name__ == "__main__":
    main()
