"""The committed type stub of the op methods is what the registry gives."""

from contraflow import stubs


def test_the_stub_is_fresh():
    assert stubs.PATH.read_text() == stubs.text(), "run `make stub`"
