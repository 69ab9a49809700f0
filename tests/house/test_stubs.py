"""The committed type stubs are what the registry and the package give."""

import pytest

from contraflow import stubs


@pytest.mark.parametrize("path", stubs.texts(), ids=lambda path: path.name)
def test_the_stub_is_fresh(path):
    assert path.read_text() == stubs.texts()[path], "run `make stub`"
