"""Every public op and module has a docstring with an example, and each example runs."""

from __future__ import annotations

import doctest
import inspect
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.helpers import op_examples

import contraflow as cf
from contraflow.operation.op import EXAMPLES, REGISTRY, Op

PUBLIC = {n: op for n, op in sorted(REGISTRY.items()) if op_examples.public_name(op)}


def test_the_file_of_examples_is_fresh() -> None:
    assert Path(EXAMPLES).read_text(encoding="utf-8") == op_examples.text(), "run `make examples`"


@pytest.mark.parametrize("name", PUBLIC)
def test_the_docstring_of_an_op_says_what_it_takes_and_its_example_runs(name: str) -> None:
    op = PUBLIC[name]
    text = op.__doc__
    assert text.startswith(op.summary)
    assert f"Signature: {name}(" in text
    test = doctest.DocTestParser().get_doctest(text, {}, name, None, 0)
    assert len(test.examples) > 1, "it has no example"
    assert not complaints(test)


def complaints(test: doctest.DocTest) -> str:
    """What doctest says about examples that do not give what they show."""
    options = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
    said: list[str] = []
    doctest.DocTestRunner(optionflags=options).run(test, out=said.append)
    return "".join(said)


def classes() -> Iterator[tuple[str, type]]:
    """The modules of `nn` by name, without the bases of others."""
    for name in dir(cf.nn):
        found = getattr(cf.nn, name)
        if isinstance(found, type) and issubclass(found, cf.nn.Module) and "Base" not in name:
            yield name, found


def test_every_module_has_an_example() -> None:
    without = [name for name, found in classes() if ">>>" not in (found.__doc__ or "")]
    assert not without


def _is_ours(found: Any) -> bool:
    return str(getattr(found, "__module__", "contraflow")).startswith("contraflow")


PLACES = (
    "", "nn", "nn.functional", "nn.init", "nn.utils", "nn.utils.rnn", "optim", "optim.lr_scheduler",
    "linalg", "func", "autograd", "data", "distributions",
)  # fmt: skip


def public() -> Iterator[tuple[str, Any]]:
    """What users call, by its path."""
    for place in PLACES:
        owner: Any = cf
        for part in place.split(".") if place else ():
            owner = getattr(owner, part)
        # Ops are found by `dir`. Elsewhere a module has a list of its names, or those it defines.
        has_ops = place in ("", "nn.functional")
        listed = () if has_ops else getattr(owner, "__all__", ())
        for name in listed or dir(owner):
            found = getattr(owner, name)
            its_own = has_ops or listed or getattr(found, "__module__", "") == owner.__name__
            if (
                callable(found)
                and its_own
                and not name.startswith("_")
                and not name.endswith("_")  # which does in place what the op of that name does
                and not inspect.ismodule(found)
                and name not in ("Op", "getter")  # which a module needs itself
                and _is_ours(found)
            ):
                yield f"{place}.{name}".lstrip("."), found


def test_every_public_callable_has_an_example() -> None:
    found = dict(public())
    without = [path for path, each in found.items() if ">>>" not in (each.__doc__ or "")]
    assert len(found) > 900
    assert not without


def _is_generated(found: Any) -> bool:
    """Whether a class is made by a call, so that pytest does not see its docstring."""
    return isinstance(found, type) and not hasattr(sys.modules[found.__module__], found.__name__)


GENERATED = {path: found for path, found in public() if _is_generated(found)}


@pytest.mark.parametrize("path", GENERATED)
def test_the_example_of_a_generated_class_runs(path: str) -> None:
    found = GENERATED[path]
    space = {found.__name__: found}
    test = doctest.DocTestParser().get_doctest(found.__doc__, space, path, None, 0)
    assert not complaints(test)


def test_docstrings_cost_nothing_before_they_are_read() -> None:
    code = (
        "import contraflow as cf, contraflow.nn\n"
        "from contraflow.operation import op\n"
        "assert op._examples.cache_info().currsize == 0\n"
        "assert '>>> cf.tanh(x)' in cf.tanh.__doc__\n"
        "assert op._examples.cache_info().currsize == 1\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_help_shows_the_docstring(capsys) -> None:
    help(cf.tanh)
    assert ">>> cf.tanh(x)" in capsys.readouterr().out
    assert Op.__doc__.startswith("One operation.")


def test_an_op_of_a_user_has_its_own() -> None:
    @cf.custom_op
    def tanh(x):
        """Mine."""
        return x

    assert tanh.__doc__.startswith("Mine.")
    assert ">>>" not in tanh.__doc__
