"""Small programs about tensors, gradients, hooks, views and modules agree with eager."""

from __future__ import annotations

import inspect
from pathlib import Path
from typing import Any

import pytest
from tests.helpers.programs_beside import Program, beside
from tests.helpers.state_worlds import code_of, remember

import contraflow as cf

FILE = Path(__file__).with_name("tensor_programs.txt")

pytestmark = pytest.mark.usefixtures("mode")


def programs() -> dict[str, Program]:
    text = FILE.read_text()
    names: dict[str, Any] = {"__name__": FILE.stem}
    exec(code_of(text, remember(str(FILE), text)), names)
    return {name: f for name, f in names.items() if inspect.isgeneratorfunction(f)}


PROGRAMS = programs()


def test_there_are_programs_of_everything() -> None:
    assert len(PROGRAMS) >= 100


@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.filterwarnings("ignore:.*recorded 8 times")
def test_program(name: str) -> None:
    cf.manual_seed(0)
    random = cf.get_rng_state()

    def program(compile: Any) -> Any:
        cf.set_rng_state(random)
        return PROGRAMS[name](compile)

    beside(program)
