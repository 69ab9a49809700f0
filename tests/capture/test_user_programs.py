"""Programs as users write them agree with eager: training loops, and Python in its odder forms."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.helpers.state_worlds import code_of, remember

import contraflow as cf

FILE = Path(__file__).with_name("user_programs.txt")


def programs() -> dict[str, Any]:
    text = FILE.read_text()
    names: dict[str, Any] = {"__name__": FILE.stem}
    exec(code_of(text, remember(str(FILE), text)), names)
    return {name: f for name, f in names.items() if inspect.isgeneratorfunction(f)}


PROGRAMS = programs()


@pytest.fixture(autouse=True)
def exact() -> Iterator[None]:
    """Training in float64, so that what differs is not rounding."""
    cf.set_default_dtype(cf.float64)
    yield
    cf.set_default_dtype(cf.float32)


def parts(x: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """What a program yields, taken apart: where, and a number or a text."""
    if isinstance(x, cf.Tensor):
        yield f"{path} is", (x.dtype, x.requires_grad)
        x = x.detach().tolist()
    if isinstance(x, dict):
        x = list(x.items())
    if isinstance(x, (list, tuple, set)):
        yield f"{path} of {type(x).__name__}", len(x)
        for number, item in enumerate(x):
            yield from parts(item, f"{path}[{number}]")
    else:
        yield path, x if isinstance(x, (int, float, str, type(None))) else type(x).__name__


@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.filterwarnings("ignore:.*recorded 8 times")
def test_program(name: str) -> None:
    seen = []
    for compiler in (lambda function: function, cf.compile):
        cf.manual_seed(0)
        seen.append(list(parts(list(PROGRAMS[name](compiler)))))
    eager, compiled = seen
    assert len(eager) >= 5
    for (at, expected), (where, found) in zip(eager, compiled, strict=True):
        assert at == where
        if isinstance(expected, float):
            expected = pytest.approx(expected, rel=1e-6, abs=1e-9, nan_ok=True)
        assert found == expected, at


def test_there_are_programs_of_every_kind() -> None:
    assert len(PROGRAMS) >= 45
