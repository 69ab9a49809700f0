"""The dtypes of results: PyTorch's promotion, as rules that declarations name."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from contraflow import dtypes
from contraflow.dtypes import DType, bool_, int64
from contraflow.spec import Given, Params, Spec

Types = tuple[tuple[DType | None, ...], tuple[DType, ...]]  # a cast per input, a dtype per output


def _promoted(inputs: Sequence[Given]) -> DType:
    one = {x.dtype if isinstance(x, Spec) else None for x in inputs}
    if len(one) == 1 and None not in one:
        return one.pop()  # type: ignore[return-value]
    full = tuple(x.dtype for x in inputs if isinstance(x, Spec) and x.shape)
    zero = tuple(x.dtype for x in inputs if isinstance(x, Spec) and not x.shape)
    numbers = tuple(dtypes.of_number(x) for x in inputs if not isinstance(x, Spec))
    return dtypes.promote(full, zero, numbers)


def _rule_promote(inputs: Sequence[Given], params: Params) -> Types:
    dtype = _promoted(inputs)
    return (dtype,) * len(inputs), (dtype,)


def _rule_float(inputs: Sequence[Given], params: Params) -> Types:
    dtype = _promoted(inputs)
    if not dtype.is_floating_point:
        dtype = dtypes.get_default_dtype()
    return (dtype,) * len(inputs), (dtype,)


def _rule_bool(inputs: Sequence[Given], params: Params) -> Types:
    return (_promoted(inputs),) * len(inputs), (bool_,)


def _rule_where(inputs: Sequence[Given], params: Params) -> Types:
    dtype = _promoted(inputs[1:])
    return (bool_, dtype, dtype), (dtype,)


def _first(inputs: Sequence[Given]) -> DType:
    return inputs[0].dtype if isinstance(inputs[0], Spec) else dtypes.of_number(inputs[0])


def _rule_same(inputs: Sequence[Given], params: Params) -> Types:
    return (None,) * len(inputs), (_first(inputs),)


def _rule_sum(inputs: Sequence[Given], params: Params) -> Types:
    dtype = _first(inputs)
    dtype = dtype if dtype.is_floating_point else int64
    return (dtype,), (dtype,)


def _rule_index(inputs: Sequence[Given], params: Params) -> Types:
    return (None,) * len(inputs), (int64,)


def _rule_value_index(inputs: Sequence[Given], params: Params) -> Types:
    return (None,) * len(inputs), (_first(inputs), int64)


def _rule_param(inputs: Sequence[Given], params: Params) -> Types:
    return (None,) * len(inputs), (params["dtype"],)


DTYPE_RULES: dict[str, Callable[[Sequence[Given], Params], Types]] = {
    "promote": _rule_promote,
    "float": _rule_float,
    "bool": _rule_bool,
    "where": _rule_where,
    "same": _rule_same,
    "sum": _rule_sum,
    "index": _rule_index,
    "value_index": _rule_value_index,
    "param": _rule_param,
}
