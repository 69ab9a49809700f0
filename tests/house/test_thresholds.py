"""Sizes that decide how something is run are in one module, and a test can set them."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import numpy as np
import pytest

import contraflow as cf
from contraflow import thresholds
from contraflow.testing import assert_close

SOURCE = Path(cf.__file__).parent


def kernels(n: int) -> int:
    """How many kernels a compiled sum of `n` elements has. It is compared with NumPy's."""
    total = cf.compile(lambda x: x.sum())
    x = np.arange(float(n))
    assert_close(total(cf.tensor(x)), x.sum())
    return len(re.findall(r"\b(?:row|column)_\w+", str(total.explain())))


def test_a_fold_is_cut_where_the_threshold_says_and_only_there() -> None:
    whole = kernels(1000)
    with thresholds.using(long_fold=64, fold_part=64):
        assert kernels(1000) > whole
    assert kernels(1000) == whole


def test_a_form_that_a_node_has_had_is_decided_anew() -> None:
    x = cf.ones(2, requires_grad=True)

    def has_shortcut() -> bool:
        y = x * x
        y.sum().backward()
        found: bool = y._node.form.shortcut
        return found

    assert has_shortcut()
    with thresholds.using(bare_arrays=0):
        assert not has_shortcut()
    assert has_shortcut()


def test_an_eager_call_that_has_been_prepared_is_decided_anew() -> None:
    """Values that meet in one element are carried in float64 where they are more than that."""
    values = cf.tensor([2.0**24, *[1.0] * 8])

    def total() -> float:
        return cf.zeros(1).index_add(0, cf.zeros(9, dtype=cf.int64), values).item()

    assert total() == 2.0**24
    with thresholds.using(meeting_values=0):
        assert total() == 2.0**24 + 8
    assert total() == 2.0**24


def test_thresholds_are_restored_after_an_error() -> None:
    before = thresholds.eager_kernel

    @thresholds.using(eager_kernel=1)
    def fail() -> None:
        raise ZeroDivisionError(thresholds.eager_kernel)

    with pytest.raises(ZeroDivisionError, match=r"^1$"):
        fail()
    assert thresholds.eager_kernel == before


def test_blocks_are_nested_and_decorate() -> None:
    @thresholds.using(eager_kernel=1)
    def inside() -> tuple[int, int]:
        with thresholds.using(eager_kernel=2, eager_join=3):
            return thresholds.eager_kernel, thresholds.eager_join

    assert inside() == inside() == (2, 3)
    assert thresholds.eager_kernel > 3


def test_an_unknown_name_is_refused_and_nothing_is_set() -> None:
    before = thresholds.eager_kernel
    with (
        pytest.raises(ValueError, match=r"thresholds: there is no 'eager_kernels'\. Known: bare_"),
        thresholds.using(eager_kernel=1, eager_kernels=1),
    ):
        pass
    assert thresholds.eager_kernel == before


def reads(text: str) -> set[str]:
    """The thresholds that a module reads."""
    return {
        node.attr
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Attribute)
        and isinstance(node.value, ast.Name)
        and node.value.id == "thresholds"
    }


def test_every_threshold_is_read_at_the_time_it_is_needed() -> None:
    """Each by some module, and none by `from contraflow.thresholds import`, which would keep it."""
    texts = [p.read_text(encoding="utf-8") for p in SOURCE.rglob("*.py")]
    assert not [text for text in texts if "from contraflow.thresholds" in text]
    found = set().union(*map(reads, texts)) - {"using", "on_change"}
    assert found == thresholds._NAMES
