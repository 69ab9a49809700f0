"""Anomaly mode: find the op that made a value which is not finite.

Forward, a context on top of the stack looks at the results of every op, so the first that makes a
NaN or an infinity out of finite inputs is named with the user's line. Backward, the engine looks
at what each rule returns and names the op, with its line of the forward pass.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from contraflow.errors import GradientError, describe
from contraflow.graph.op_node import called
from contraflow.operation.context import Context, change, state
from contraflow.operation.modes import Mode
from contraflow.operation.op import Op
from contraflow.spec import Params
from contraflow.tensors.source_line import at
from contraflow.tensors.tensor import Tensor


class _FiniteContext(Context):
    """Looks at what the contexts below compute."""

    def apply(self, op: Op, inputs: tuple[Any, ...], params: Params) -> Any:
        out = self.below.apply(op, inputs, params)
        # A composite was looked into already, part by part; one that creates was told what.
        told = op.is_composite or op.creates
        if state().anomaly and not told:
            outs = out if isinstance(out, tuple) else (out,)
            wrong = next((o for o in outs if not _is_finite(o)), None)
            if wrong is not None and all(map(_is_finite, _numbers((inputs, params.values())))):
                self._refuse(op, wrong, inputs)
        return out

    def _refuse(self, op: Op, wrong: Tensor, inputs: Iterable[Any]) -> None:
        what = "a NaN" if np.isnan(wrong.fetched()).any() else "an infinity"
        given = ", ".join(describe(x) for x in inputs)
        name, line = called(op)
        raise GradientError(f"{name}: made {what} out of finite values ({given}){at(line)}.")


def _is_finite(x: Any) -> bool:
    if isinstance(x, Tensor):
        exact = not x.dtype.is_floating_point
        return exact or bool(np.isfinite(x.fetched()).all())
    return not isinstance(x, float) or bool(np.isfinite(x))


def _numbers(x: Any) -> Iterable[Any]:
    """The tensors and numbers in nested sequences."""
    if isinstance(x, (str, Tensor)) or not isinstance(x, Iterable):
        yield x
    else:
        for item in x:
            yield from _numbers(item)


def _fields(mode: bool) -> dict[str, Any]:
    context = state().context
    if isinstance(context, _FiniteContext):
        context = context.below
    if mode and context.is_recording:
        raise context.refusal(
            "detect_anomaly looks at values, and there are none while a function is being recorded",
            "Put it around the call of the compiled function.",
        )
    return {"anomaly": mode, "context": _FiniteContext(context) if mode else context}


class detect_anomaly(Mode):
    """Raise an error at the first op that makes a NaN or an infinity out of finite values.

    In backward, the op whose rule made a NaN is named. Both are slow: every value is looked at.

    >>> import contraflow as cf
    >>> with cf.autograd.detect_anomaly():
    ...     cf.zeros(2).log()
    Traceback (most recent call last):
    contraflow.errors.GradientError: log: made an infinity out of finite values (float32[2]) at ...
    """

    def __init__(self, check_nan: bool = True) -> None:
        super().__init__()
        self._check = check_nan

    def changes(self) -> dict[str, Any]:
        return _fields(self._check)


class set_detect_anomaly(detect_anomaly):
    """Turn anomaly detection on or off, from now on or until the end of a with-block.

    >>> import contraflow as cf
    >>> with cf.autograd.set_detect_anomaly(True):
    ...     cf.is_anomaly_enabled()
    True
    """

    def __init__(self, mode: bool, check_nan: bool = True) -> None:
        super().__init__(bool(mode) and check_nan)
        current = state()
        self._before = {"anomaly": current.anomaly, "context": current.context}
        change(**_fields(self._check))

    def __enter__(self) -> Any:
        if self._entered.end is None:
            change(**self._before)  # to which the end of the block returns
        super().__enter__()


def is_anomaly_enabled() -> bool:
    """Whether values that are not finite are being looked for.

    >>> import contraflow as cf
    >>> cf.is_anomaly_enabled()
    False
    """
    return state().anomaly
