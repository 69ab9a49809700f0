"""The tiles of AMX: permission for them, and products by many threads and forked children."""

from __future__ import annotations

import ctypes
import subprocess
import sys
import textwrap

import pytest

from contraflow.devices.cpu import jit, tiles


@pytest.fixture(autouse=True)
def forget():
    """The next question is asked anew."""
    tiles.permitted.cache_clear()
    yield
    tiles.permitted.cache_clear()


class Library:
    """The C library of a system that answers so, and notes what it was asked."""

    def __init__(self, answer: int) -> None:
        self.answer, self.asked = answer, []

    def syscall(self, *arguments: int) -> int:
        self.asked.append(arguments)
        return self.answer


@pytest.mark.parametrize("answer", [0, -1])
def test_the_system_is_asked_once(monkeypatch, answer):
    library = Library(answer)
    monkeypatch.setattr(jit, "has_feature", lambda name: True)
    monkeypatch.setattr(sys, "platform", "linux")
    monkeypatch.setattr(tiles.platform, "machine", lambda: "x86_64")
    monkeypatch.setattr(ctypes, "CDLL", lambda name: library)
    assert [tiles.permitted(), tiles.permitted()] == [answer == 0] * 2
    assert library.asked == [(158, 0x1023, 18)]


@pytest.mark.parametrize(
    ("features", "system", "machine"),
    [((), "linux", "x86_64"), (("amx-tile",), "linux", "x86_64"),
     (("amx-tile", "amx-bf16"), "darwin", "x86_64"),
     (("amx-tile", "amx-bf16"), "linux", "aarch64")],
)  # fmt: skip
def test_nothing_is_asked_where_there_are_no_tiles(monkeypatch, features, system, machine):
    library = Library(0)
    monkeypatch.setattr(jit, "has_feature", lambda name: name in features)
    monkeypatch.setattr(sys, "platform", system)
    monkeypatch.setattr(tiles.platform, "machine", lambda: machine)
    monkeypatch.setattr(ctypes, "CDLL", lambda name: library)
    assert not tiles.permitted()
    assert not library.asked


@pytest.mark.skipif(not tiles.permitted(), reason="this machine has no tiles (AMX) that it permits")
def test_threads_and_forked_children_multiply_tiles():
    script = """
        import os, threading
        import numpy as np
        import contraflow as cf
        from contraflow.devices.cpu import vectors
        from contraflow.compiler.kernel import Contraction

        assert vectors.factors_of(Contraction(cf.bfloat16, cf.float32)) == "tiles"
        assert cf.devices.lookup("cpu").description.endswith("amx")
        a, b = (cf.randn(300, 300).to(cf.bfloat16) for _ in range(2))
        exact = a.to(cf.float64) @ b.to(cf.float64)
        bits = []

        def multiply(threads):
            cf.set_num_threads(threads)
            got = cf.compile(cf.matmul)(a, b)
            assert ((got.to(cf.float64) - exact).abs().max() < 0.3).item()
            bits.append(got.to(cf.float32).numpy().tobytes())

        for threads in (1, 2, 3, 5):
            multiply(threads)
        others = [threading.Thread(target=multiply, args=(2,)) for _ in range(3)]
        [x.start() for x in others], [x.join() for x in others]
        child = os.fork()
        if child == 0:
            multiply(1)
            multiply(4)
            os._exit(7 if len(set(bits)) == 1 else 8)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
        multiply(4)
        print(len(bits), len(set(bits)))
    """
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", textwrap.dedent(script)],
        capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert (done.stdout, done.stderr) == ("8 1\n", "")
