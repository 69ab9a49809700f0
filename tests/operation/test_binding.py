"""The default public signature of ops: bound once without a function, then by a written one."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests.helpers.op_checks import samples_of

import contraflow as cf
from contraflow import thresholds
from contraflow.operation import op as declarations
from contraflow.operation.binding import bind_once, binding
from contraflow.operation.context import Context, changed
from contraflow.operation.op import REGISTRY, Op
from contraflow.testing import make_inputs

FIXED = {op.name: op for op in REGISTRY.values() if not op.variadic}


class Applied(Context):
    """Gives what an op is applied to."""

    def apply(self, op: Op, inputs: tuple[Any, ...], params: Any) -> Any:
        return inputs, params


def as_written(op: Op, *args: Any, **kwargs: Any) -> Any:
    with changed(context=Applied()):
        return binding(op)(*args, **kwargs)


@pytest.mark.parametrize("name", sorted(FIXED))
def test_the_first_use_binds_as_the_written_function_does(name: str) -> None:
    op = FIXED[name]
    for sample in samples_of(op):
        given = [cf.tensor(x) if isinstance(x, np.ndarray) else x for x in make_inputs(sample)]
        params = {k: list(v) if type(v) is tuple else v for k, v in sample.params.items()}
        ways: list[tuple[list[Any], dict[str, Any]]] = [
            (given, params),
            ([], {**dict(zip(op.inputs, given)), **params}),
        ]
        if len(given) == len(op.inputs) and all(p in params for p in op.params):
            ways.append(([*given, *(params[p] for p in op.params)], {}))
        for args, kwargs in ways:
            found = bind_once(op, args, kwargs)
            assert found is not None
            inputs, bound = as_written(op, *args, **kwargs)
            assert len(found[0]) == len(inputs)
            assert all(a is b for a, b in zip(found[0], inputs))
            assert list(found[1]) == list(bound)
            assert repr(found[1]) == repr(bound)


def test_arguments_that_do_not_fit_are_for_the_written_function() -> None:
    x = cf.ones(2)
    assert bind_once(cf.tanh, (), {}) is None
    assert bind_once(cf.tanh, (x, x), {}) is None
    assert bind_once(cf.tanh, (x,), {"x": x}) is None
    assert bind_once(cf.tanh, (x,), {"other": x}) is None


def test_a_function_is_written_for_an_op_that_is_used_often(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    op, written = FIXED["tanh"], []
    for name in ("bind", "call"):
        monkeypatch.setattr(op, name, op._bind_first)
    monkeypatch.setattr(op, "_uses", 0)
    monkeypatch.setattr(thresholds, "written_signature", 3)
    monkeypatch.setattr(declarations, "binding", lambda op: written.append(op) or binding(op))
    x = cf.ones(2)
    counts = []
    for _ in range(4):
        assert op(x).tolist() == np.tanh(np.ones(2, np.float32)).tolist()
        counts.append(len(written))
    assert counts == [0, 0, 1, 1]
    assert op.call is op.bind
