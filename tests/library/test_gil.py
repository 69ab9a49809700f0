"""Import refuses free-threaded Python whose global interpreter lock is off (simulated here)."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import contraflow

SOURCE = Path(contraflow.__file__).parents[1]
REFUSAL = (
    "contraflow: this Python runs without its global interpreter lock, and contraflow reuses "
    "memory by reference counts, which other threads could change meanwhile. "
    "Start Python with PYTHON_GIL=1 or -X gil=1, or use a build that is not free-threaded."
)

TWICE = """
for _ in range(2):
    try:
        import contraflow.nn
    except ImportError as error:
        print(error)
print(*(name for name in sys.modules if name.startswith(("contraflow", "numpy"))))
"""


def run(is_enabled: bool, program: str) -> str:
    """What a program prints whose interpreter says that its lock is on, or that it is off."""
    answer = f"import sys\nsys._is_gil_enabled = lambda: {is_enabled}\n"
    done = subprocess.run(
        [sys.executable, "-c", answer + program],
        cwd=SOURCE,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_import_refuses_an_interpreter_without_its_lock():
    # The last line is empty: nothing was imported before the refusal, and nothing is left of it.
    assert run(False, TWICE).splitlines() == [REFUSAL, REFUSAL, ""]


def test_a_free_threaded_build_whose_lock_is_on_is_accepted():
    assert run(True, "import contraflow as cf\nprint(cf.ones(2).sum().item())").strip() == "2.0"
