"""A long LLVM IR text as several, which several threads compile at once.

LLVM takes as long for the blocks of a product as for all other kernels of a small step together.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from contraflow import thresholds

_FUNCTION = re.compile(r"^define [^@]*@([\w.]+)\((?:.*\n)+?\}$", re.MULTILINE)
_NAME = re.compile(r"@([\w.]+)")


def divided(entry: str, text: str) -> list[str]:
    """The texts that together define what `text` does, which defines the function `entry`.

    Functions that are named after the entry are defined once, and visible to all. Other internal
    ones may be part of other texts as well, under the same names: each part has copies of those
    that it uses.
    """
    if len(text) <= thresholds.cpu_long_text:
        return [text]
    functions = {found[1]: found[0] for found in _FUNCTION.finditer(text)}
    own = [name for name in functions if name.startswith(entry)]
    lines = _FUNCTION.sub("", text).splitlines()
    constants = {line[1:].split(" ", 1)[0]: line for line in lines if line.startswith("@")}
    others = [line for line in lines if line and not line.startswith("@")]
    copied = constants | {name: functions[name] for name in functions if name not in own}
    found = []
    for names in _shares(functions, own):
        part = [functions[name].replace("define internal", "define", 1) for name in names]
        used = _used(part, copied)
        part += [copied[name] for name in used if name in copied]
        part += [_declaration(functions[name]) for name in own if name in used.difference(names)]
        found.append("\n".join([*part, *others, ""]))
    return found


def _shares(functions: dict[str, str], names: Sequence[str]) -> list[list[str]]:
    """Names of functions in their order, so many together as a text may have."""
    shares: list[list[str]] = []
    length = 0
    for name in names:
        length += len(functions[name])
        if not shares or length > thresholds.cpu_long_text:
            shares.append([])
            length = len(functions[name])
        shares[-1].append(name)
    return shares


def _used(part: Sequence[str], copied: dict[str, str]) -> set[str]:
    """The names in texts, and in what is copied for them."""
    used: set[str] = set()
    waiting = list(part)
    while waiting:
        new = set(_NAME.findall(waiting.pop())) - used
        used |= new
        waiting += [copied[name] for name in sorted(new & copied.keys())]
    return used


def _declaration(function: str) -> str:
    head = function.split("\n", 1)[0].removesuffix(" {")
    return re.sub(r"^define (internal )?", "declare ", head)
