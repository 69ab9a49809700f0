"""The registry matrix: every op, every sample, every check.

A check is a function of an op and a sample that raises AssertionError. It stands in CHECKS under
the name that `known_issues.txt` uses; nothing here names an op, except the tests of the checks
themselves at the end.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.helpers.op_checks import CHECKS, accepts, call, differentiable, samples_of, to_tensor

import contraflow as cf
from contraflow.autograd import grad
from contraflow.expressions import expression as s
from contraflow.operation.kinds import (
    create,
    elementwise,
)
from contraflow.operation.op import REGISTRY, Op
from contraflow.operation.samples import Failure, Sample
from contraflow.tensors.tensor import Tensor
from contraflow.testing import assert_close, is_real, make_inputs

# --- exemptions --------------------------------------------------------------------------------


def read_known_issues(text: str) -> dict[tuple[str, str], str]:
    """(op, check) to reason; a ValueError for a line that is malformed, unknown or repeated."""
    issues: dict[tuple[str, str], str] = {}
    for line in text.splitlines():
        if not line.strip() or line.startswith("#"):
            continue
        name, check, reason = (part.strip() for part in (*line.split(":", 2), "", "")[:3])
        if name not in REGISTRY or check not in CHECKS or not reason:
            raise ValueError(f"known_issues.txt: {line!r} names no op and check, or no reason.")
        if (name, check) in issues:
            raise ValueError(f"known_issues.txt: {line!r} stands there twice.")
        issues[name, check] = reason
    return issues


ISSUES = read_known_issues(Path(__file__).with_name("known_issues.txt").read_text())


def cases() -> Iterator[Any]:
    for op in list(REGISTRY.values()):
        for (i, sample), check in product(enumerate(samples_of(op)), CHECKS):
            if (op.name, check) not in ISSUES:
                yield pytest.param(check, op, sample, id=f"{op.name}-{i}-{check}")


def failure_cases() -> Iterator[Any]:
    for op in list(REGISTRY.values()):
        for i, failure in enumerate(op.failures()):
            yield pytest.param(op, failure, id=f"{op.name}-{i}")


# --- the matrix --------------------------------------------------------------------------------


@pytest.mark.parametrize(("check", "op", "sample"), list(cases()))
def test_op(check: str, op: Op, sample: Sample) -> None:
    CHECKS[check](op, sample)


def unused_issues(issues: Any) -> list[str]:
    """Lines of known_issues.txt whose check passes for every sample."""
    return [
        f"{name}:{check}"
        for name, check in issues
        if not any(fails(CHECKS[check], REGISTRY[name], x) for x in samples_of(REGISTRY[name]))
    ]


def fails(check: Callable[[Op, Sample], None], op: Op, sample: Sample) -> bool:
    try:
        check(op, sample)
    except Exception:
        return True
    return False


def test_known_issues_are_still_there() -> None:
    assert unused_issues(ISSUES) == []


@pytest.mark.parametrize(("op", "failure"), list(failure_cases()))
def test_failure(op: Op, failure: Failure) -> None:
    inputs = make_inputs(Sample(failure.inputs, failure.params))
    tensors = tuple(map(to_tensor, inputs))
    random_state = cf.get_rng_state()
    with pytest.raises(failure.error) as caught:
        call(op, tensors, failure.params)
    both = failure.error is ValueError and type(caught.value) is cf.MismatchError
    assert type(caught.value) is failure.error or both
    assert failure.text in str(caught.value)
    assert cf.get_rng_state() == random_state
    for x, array in zip(tensors, inputs):
        if isinstance(x, Tensor):
            assert x._version == 0
            assert_close(x, array, 0.0, 0.0)


@pytest.mark.parametrize("op", list(REGISTRY.values()), ids=lambda op: op.name)
def test_declaration(op: Op) -> None:
    assert op.summary
    assert op.summary.partition("\n\n    >>> ")[0].strip().endswith(".")
    for sample in samples_of(op):
        assert set(sample.params) <= set(op.params), "a sample names an unknown parameter"
        hash(tuple(p for p in sample.params.values() if not isinstance(p, slice | tuple)))


@pytest.mark.parametrize(
    "op", [op for op in REGISTRY.values() if op.inplace], ids=lambda op: op.name
)
def test_in_place_twin(op: Op) -> None:
    """The in-place method is the op plus a write: same values, same gradients, one more version."""
    sample = samples_of(op)[0]
    inputs, params = make_inputs(sample), sample.params
    if not accepts(op, params):
        pytest.skip("its public signature does not take the recorded form's arguments")
    real = [i for i in differentiable(op, inputs) if is_real(inputs[i])]

    def leaves() -> list[Any]:
        given = [to_tensor(x) for x in inputs]
        return [x.requires_grad_() if i in real else x for i, x in enumerate(given)]

    plain, twins = leaves(), leaves()
    expected = call(op, plain, params)
    target = twins[0].clone()
    rest = dict(zip(op.inputs[1:], twins[1:]))
    with cf.autograd.saved_tensors_hooks(lambda t: t.clone(), lambda t: t):  # keep old values
        result = getattr(target, f"{op.name}_")(**rest, **params)
    assert result is target
    assert target._version == 1
    assert_close(target, expected.to(target.dtype), 0.0, 0.0)
    if not expected.requires_grad:
        return
    weights = cf.tensor(np.linspace(-1.0, 1.0, expected.numel())).reshape(expected.shape)
    found = grad(target, [twins[i] for i in real], weights)
    for g, h in zip(found, grad(expected, [plain[i] for i in real], weights), strict=True):
        assert_close(g, h)


# --- tests of the checks -----------------------------------------------------------------------


@contextmanager
def declared(decorator: Any, body: Callable[..., Any], **fields: Any) -> Iterator[Op]:
    """An op that exists for the length of a block."""
    op = decorator(method=False, **fields)(body)
    try:
        yield op
    finally:
        del REGISTRY[op.name]


def run_checks(op: Op, *names: str) -> None:
    for name in names or CHECKS:
        for sample in samples_of(op):
            CHECKS[name](op, sample)


def broken(x: Any) -> Any:
    """For the tests of the checks."""
    return s.sin(x)


RIGHT: dict[str, Any] = {"ref": np.sin, "dtype": "float", "vjp": {"x": lambda g, x: g * x.cos()}}


def test_checks_pass_a_right_op() -> None:
    with declared(elementwise, broken, **RIGHT) as op:
        run_checks(op)
    assert "broken" not in REGISTRY


@pytest.mark.parametrize(
    ("wrong", "check", "text"),
    [
        ({"vjp": {"x": lambda g, x: -g * x.cos()}}, "rules", "order 1"),
        ({"vjp": {"x": lambda g, x: g * x.cos().detach()}}, "rules", "order 2"),
        ({"vjp": {"x": lambda g, x: -g * x.cos()}}, "transpose", "<g, Jv>"),
        ({"linear": True}, "transpose", "<g, Jv>"),
        ({"ref": np.cos, "vjp": {"x": lambda g, x: -g * x.sin()}}, "body", "differ"),
        ({"dtype": "same"}, "integers", "differ"),
        ({"dtype": lambda x, p: ((None,), (cf.float32,))}, "body", "gives float64, not float32"),
        ({"dtype": "bool"}, "eager", "dtype=contraflow.float64"),
        ({"ref": lambda x: np.sin(x).astype(np.float16)}, "eager", "dtype=contraflow.float16"),
        ({"ref": lambda x: np.sin(x)[..., None]}, "eager", "shape=\\(3, 4, 1\\)"),
    ],
)  # fmt: skip
def test_checks_find_a_broken_op(wrong: dict[str, Any], check: str, text: str) -> None:
    with (
        declared(elementwise, broken, **{**RIGHT, **wrong}) as op,
        pytest.raises(AssertionError, match=text),
    ):
        run_checks(op, check)
    assert "broken" not in REGISTRY


def test_checks_find_a_result_that_shares_memory() -> None:
    def same(x: Any) -> Any:
        """Returns its input."""
        return x

    with (
        declared(elementwise, same, ref=lambda x: x, vjp={"x": lambda g: g}) as op,
        pytest.raises(AssertionError, match="memory shared in secret"),
    ):
        run_checks(op, "eager")


def test_an_op_without_samples_is_refused() -> None:
    def nothing(*, shape: Any, dtype: Any) -> Any:
        """No samples."""

    with (
        declared(create, nothing, ref=np.zeros, dtype="param") as op,
        pytest.raises(ValueError, match="nothing: an op needs samples"),
    ):
        samples_of(op)


@pytest.mark.parametrize(
    "line",
    ["sinn:rules: why", "sin:nothing: why", "sin:rules:", "sin", "sin:rules: a\nsin:rules: b"],
)
def test_a_wrong_line_of_known_issues_is_refused(line: str) -> None:
    with pytest.raises(ValueError, match=r"known_issues\.txt"):
        read_known_issues(line)


def test_a_line_of_known_issues_that_is_not_needed() -> None:
    issues = read_known_issues("# about\n\nsin:rules: because")
    assert issues == {("sin", "rules"): "because"}
    assert unused_issues(issues) == ["sin:rules"]
