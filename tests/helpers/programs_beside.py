"""Small programs that run eagerly and compiled, side by side."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import contraflow as cf

# A program makes functions, each by way of the compiler that it is given, calls them, changes state
# between the calls, and yields what can be seen of it.
Program = Callable[[Callable[[Any], Any]], Iterator[Any]]


def beside(program: Program, records: int | None = None) -> None:
    """Compare what a compiled program yields with what the eager one does.

    `records` is the number of recordings of the functions that it makes, together.
    """
    made = []

    def compiled(function: Any) -> Any:
        made.append(cf.compile(function))
        return made[-1]

    eager = [_plain(seen) for seen in program(lambda function: function)]
    seen = [_plain(seen) for seen in program(compiled)]
    assert len(eager) > 1
    for number, (expected, found) in enumerate(zip(eager, seen, strict=True)):
        assert repr(found) == repr(expected), f"yield {number}: {found}, and eager {expected}"
    if records is not None:
        assert sum(f.captures for f in made) == records


def _plain(x: Any) -> Any:
    if isinstance(x, cf.Tensor):
        return x.detach().tolist()
    return [_plain(item) for item in x] if isinstance(x, (list, tuple)) else x
