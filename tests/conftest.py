"""What every test session shares: a kernel cache of its own, and tapes that are verified.

No seed is set here: a test that draws random numbers says from which seed.
"""

from __future__ import annotations

import gc
import os
import sys
import tempfile
from collections.abc import Callable, Iterator

import pytest

# config.py reads the environment when it is first imported.
assert "contraflow" not in sys.modules, "conftest: contraflow was imported before its cache was set"

# Their assertions say what was compared, as those of tests do.
pytest.register_assert_rewrite("tests.helpers")

# The workers of a parallel session inherit the variable, and so share the controller's folder.
_cache: tempfile.TemporaryDirectory[str] | None = None
if "CONTRAFLOW_CACHE_DIR" not in os.environ:
    _cache = tempfile.TemporaryDirectory(prefix="contraflow-tests-", ignore_cleanup_errors=True)
    os.environ["CONTRAFLOW_CACHE_DIR"] = _cache.name

from contraflow import as_torch, config  # noqa: E402
from contraflow.compiler.tape import Tape  # noqa: E402
from contraflow.runtime import executable  # noqa: E402 (with its cache set)


def _verifying(optimize: Callable[[Tape], Tape]) -> Callable[[Tape], Tape]:
    """The passes, between two verified tapes: the library trusts what it records and rewrites."""
    return lambda tape: optimize(tape.verify()).verify()


executable.optimize = _verifying(executable.optimize)

# It refuses to be imported where PyTorch is, which tests marked `peers` import when they are
# collected. In this process PyTorch is PyTorch.
as_torch.uninstall()


@pytest.fixture(params=["interpret", "native"])
def mode(request: pytest.FixtureRequest) -> Iterator[str]:
    """Compiled functions run as they are told: their tapes interpreted, or as native programs."""
    before = config.compile_mode
    config.compile_mode = request.param
    yield request.param
    config.compile_mode = before


def pytest_collection_finish() -> None:
    """Keep a million objects of tests out of each collection of garbage: half a second."""
    gc.collect()
    gc.freeze()


def pytest_unconfigure(config: pytest.Config) -> None:
    if _cache is not None:
        _cache.cleanup()
        os.environ.pop("CONTRAFLOW_CACHE_DIR", None)
