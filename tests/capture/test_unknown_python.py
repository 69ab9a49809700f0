"""On a Python whose code is not known, compiled functions notice the variables that they read."""

from __future__ import annotations

import subprocess
import sys
import warnings
from collections.abc import Iterator
from typing import Any

import pytest

import contraflow as cf
from contraflow import nn
from contraflow.capture.observing import ahead, session
from contraflow.capture.rewriting import rewrite
from contraflow.testing import assert_close

scale = 2.0
count = 0


@pytest.fixture(autouse=True)
def unknown(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(rewrite, "KNOWN", False)
    monkeypatch.setattr(ahead, "_warned", [True])
    yield
    assert session._swapped == [None]


def test_it_warns_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ahead, "_warned", [False])
    with pytest.warns(UserWarning, match="compile: cpython") as warned:
        cf.compile(lambda x: x + 1)(cf.ones(2))
    version = f"{sys.version_info[0]}.{sys.version_info[1]}"
    assert [str(warning.message) for warning in warned] == [
        f"compile: cpython {version} is not one of those whose code can be observed, CPython 3.11 "
        f"to 3.13, so that only globals and closure variables that a compiled function itself "
        f"reads are noticed when they change. Pass other state as arguments, or compare the first "
        f"n calls with eager: cf.compile(f, verify=n)."
    ]
    assert warned[0].filename == __file__
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        f = cf.compile(lambda x: x + 2)
        f(cf.ones(2))
    assert f.explain().splitlines()[-1] == (
        "not observed: this Python is not known, so that only globals and closure variables that "
        "a compiled function itself reads are noticed"
    )


def test_globals_are_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    f = cf.compile(lambda x: x * scale)
    nested = cf.compile(lambda x: sum([(lambda: x * scale)() for _ in range(2)]))
    for value in (2.0, 3.0, 4.0):
        monkeypatch.setitem(globals(), "scale", value)
        for _ in range(4):
            assert f(cf.ones(1)).item() == value
            assert nested(cf.ones(1)).item() == 2 * value
    assert (f.captures, nested.captures) == (3, 3)
    monkeypatch.delitem(globals(), "scale")
    with pytest.raises(NameError, match="scale"):
        f(cf.ones(1))


def test_closure_variables_are_noticed() -> None:
    w, factor = cf.ones(1), 1.0

    def f(x: cf.Tensor) -> cf.Tensor:
        return x * w * factor

    compiled = cf.compile(f)
    for changed in ((cf.full((1,), 2.0), 3.0), (cf.full((1,), 5.0), 3.0), (w, 4.0)):
        w, factor = changed
        for _ in range(4):
            assert compiled(cf.ones(1)).item() == w.item() * factor


def test_what_is_written_is_noticed_as_a_change() -> None:
    def f(x: cf.Tensor) -> cf.Tensor:
        global count
        count += 1
        return x * count

    compiled = cf.compile(f)
    for k in range(1, 5):
        assert compiled(cf.ones(1)).item() == k
        assert count == k


def test_a_training_step() -> None:
    def losses(compiler: Any) -> cf.Tensor:
        cf.manual_seed(0)
        net = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Dropout(0.5), nn.Linear(4, 1))
        optimizer = cf.optim.AdamW(net.parameters(), lr=0.1)

        def step(x: cf.Tensor) -> cf.Tensor:
            optimizer.zero_grad()
            loss = net(x).square().mean()
            loss.backward()
            optimizer.step()
            return loss.detach()

        run = compiler(step)
        found = [run(cf.ones(2, 3)) for _ in range(4)]
        net.eval()
        return cf.stack([*found, run(cf.ones(2, 3))])

    assert_close(losses(cf.compile), losses(lambda f: f))


IMPORT = """
import opcode, sys
import llvmlite.binding, numpy, ml_dtypes
opcode.opmap = {name.replace("E", "3"): number for name, number in opcode.opmap.items()}
known, sys.version_info = sys.version_info, (3, 97, 0, "final", 0)
from contraflow.capture.rewriting import bytecode, rewrite
sys.version_info = known
assert not rewrite.KNOWN
import warnings
import contraflow as cf
with warnings.catch_warnings(record=True) as warned:
    warnings.simplefilter("always")
    f = cf.compile(lambda x: x * k)
    for k in (1.0, 2.0, 2.0):
        assert f(cf.ones(1)).item() == k
assert len(warned) == 1, warned
"""


def test_it_can_be_imported_where_no_instruction_is_known() -> None:
    done = subprocess.run([sys.executable, "-c", IMPORT], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
