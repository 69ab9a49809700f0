"""Every public op, function and module has a docstring with an example, and each example runs."""

from __future__ import annotations

import doctest
import functools
import inspect
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.helpers import documented, op_examples, op_table

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


def test_every_public_callable_has_an_example() -> None:
    found = dict(documented.public())
    without = [path for path, each in found.items() if ">>>" not in (each.__doc__ or "")]
    assert len(found) > 1000
    assert not without


def test_every_method_of_tensors_has_an_example_or_names_the_op_that_has_it() -> None:
    found = dict(documented.methods())
    assert len(found) > 530
    without = []
    for name, method in found.items():
        text = method.__doc__ or ""
        named = re.search(r"See `contraflow\.([\w.]+)`\.", text)
        path = named[1].split(".") if named else []
        op = functools.reduce(getattr, path, cf) if named else None
        if ">>>" not in (text if named is None else op.__doc__):
            without.append(name)
    assert not without


def test_the_examples_of_generated_methods_run() -> None:
    """pytest sees those that are written out."""
    for name, method in documented.methods():
        function = method.fget if isinstance(method, property) else inspect.unwrap(method)
        space = vars(sys.modules[function.__module__]).copy()
        test = doctest.DocTestParser().get_doctest(method.__doc__, space, name, None, 0)
        assert not complaints(test), name


@pytest.mark.parametrize("name", PUBLIC)
def test_the_docstring_of_an_op_states_the_shapes_of_its_example(name: str) -> None:
    assert re.search(r"^Shapes: .+ to .+\.$", PUBLIC[name].__doc__, re.M)


def test_the_page_says_how_many_have_an_example() -> None:
    page = op_table.PAGE.read_text().replace("\n", " ")
    assert documented.counted() in page, "run `make ops`"


def _is_generated(found: Any) -> bool:
    """Whether a class is made by a call, so that pytest does not see its docstring."""
    return isinstance(found, type) and not hasattr(sys.modules[found.__module__], found.__name__)


GENERATED = {path: found for path, found in documented.public() if _is_generated(found)}


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
