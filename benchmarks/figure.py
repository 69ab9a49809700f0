"""Results as a picture: how long each contender takes, our compiled step being 1.

`python -m benchmarks.figure JSON SVG` draws it.
"""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from xml.sax.saxutils import escape

from benchmarks.contender import COMPILED, ENTRIES

COLOURS = (
    "#1b6ca8", "#8fbfe0", "#e4572e", "#f2a65a", "#f7d08a", "#c9ada7", "#6a994e", "#9c89b8",
    "#555555",
)  # fmt: skip
LEFT, WIDTH, RIGHT = 90, 560, 90
BAR, GAP, TOP = 11, 14, 68
TICKS = (0.25, 0.5, 1, 2, 4, 8, 16, 32, 64)


def _text(x: float, y: float, what: str, anchor: str = "start") -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{escape(what)}</text>'


def _bar(x: float, y: float, width: float, colour: str) -> str:
    return f'<rect x="{x:.1f}" y="{y}" width="{width:.1f}" height="{BAR - 2}" fill="{colour}"/>'


def draw(results: dict[str, Any]) -> str:
    """The figure as SVG: logarithmic bars from the left, a group of them per step."""
    times = {
        name: {c: found["seconds"]["median"] for c, found in step["contenders"].items()}
        for name, step in results["steps"].items()
        if COMPILED.name in step["contenders"]
    }
    ratios = {
        step: {c: t / by_contender[COMPILED.name] for c, t in by_contender.items()}
        for step, by_contender in times.items()
    }
    everything = [r for by_contender in ratios.values() for r in by_contender.values()]
    low, high = min([0.5, *everything]) / 1.2, max([2.0, *everything]) * 1.1

    def place(value: float) -> float:
        return LEFT + WIDTH * math.log(value / low) / math.log(high / low)

    shown = [c for c in ENTRIES if any(c in by_contender for by_contender in ratios.values())]
    colours = dict(zip(ENTRIES, COLOURS, strict=True))
    height = TOP + sum(len(b) * BAR + GAP for b in ratios.values()) + 10
    body = [*_legend(shown, colours), *_grid([t for t in TICKS if low < t < high], place, height)]
    y = TOP
    for step, by_contender in ratios.items():
        body.append(_text(LEFT - 8, y + len(by_contender) * BAR / 2 + 4, step, "end"))
        for contender, value in by_contender.items():
            end = place(value)
            body.append(_bar(LEFT, y, end - LEFT, colours[contender]))
            body.append(_text(end + 4, y + BAR - 3, f"{value:.2f}"))
            y += BAR
        y += GAP
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {LEFT + WIDTH + RIGHT} {height}" '
        'font-family="sans-serif" font-size="10">\n'
        '<rect width="100%" height="100%" fill="white"/>\n' + "\n".join(body) + "\n</svg>\n"
    )


def _legend(contenders: list[str], colours: dict[str, str]) -> Iterator[str]:
    yield _text(LEFT, 12, "time of a step, contraflow compiled = 1; shorter is better")
    x, y = LEFT, 20
    for contender in contenders:
        width = 30 + 6 * len(contender)
        if x + width > LEFT + WIDTH + RIGHT:
            x, y = LEFT, y + 14
        yield _bar(x, y, 10, colours[contender])
        yield _text(x + 14, y + 9, contender)
        x += width


def _grid(ticks: list[float], place: Any, height: int) -> Iterator[str]:
    for tick in ticks:
        x = place(tick)
        yield f'<path d="M{x:.1f} {TOP - 6}V{height - 10}" stroke="#ccc"/>'
        yield _text(x, TOP - 9, f"{tick:g}", "middle")


def main() -> None:
    """Draw what a JSON holds."""
    source, target = map(Path, sys.argv[1:])
    target.write_text(draw(json.loads(source.read_text())))


if __name__ == "__main__":
    main()
