"""The host prologue: a function of the host scalars, whose text does not depend on sizes."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import contraflow as cf
from contraflow.compiler.tape import Tape
from contraflow.render import python


def test_a_text_is_compiled_once_for_all_sizes(monkeypatch: pytest.MonkeyPatch) -> None:
    texts: list[str] = []
    code = python._code
    monkeypatch.setattr(python, "_code", lambda text: texts.append(text) or code(text))

    @cf.compile
    def scaled(x: cf.Tensor, rate: float) -> cf.Tensor:
        return (x * (1 - rate)).mean() + x.shape[0] * rate

    for size in (3, 5, 8):
        assert scaled(cf.ones(size), 0.25).item() == 0.75 + size * 0.25
    assert len(texts) == 3
    assert len(set(texts)) == 1


def test_numbers_come_as_pythons() -> None:
    numbers: list[Any] = [math.inf, True, 3, np.float32(0.1), -0.0, 1 << 62]
    found = python.prologue(Tape("t"), [], numbers)(())
    assert found == (math.inf, True, 3, float(np.float32(0.1)), 0.0, 1 << 62)
    assert [type(x) for x in found] == [float, bool, int, float, float, int]
    assert math.copysign(1, found[4]) == -1
    assert math.isnan(python.prologue(Tape("t"), [], [math.nan])(())[0])
