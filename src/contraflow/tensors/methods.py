"""Attaching methods to tensors: ops of the registry, and functions from higher layers."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

import numpy as np

from contraflow import dtypes
from contraflow.dtypes import DType
from contraflow.errors import (
    PYTORCHS_TENSOR,
    DeviceError,
    describe,
    hide_frames,
    is_pytorchs,
    plain_number,
)
from contraflow.operation import core
from contraflow.operation.context import apply, mixed, state
from contraflow.operation.op import REGISTRY, Op
from contraflow.spec import NO_PARAMS
from contraflow.tensors import writing
from contraflow.tensors.elements import Methods, TensorElements
from contraflow.tensors.source_line import OWNERS
from contraflow.tensors.tensor import Tensor, of_numpy
from contraflow.tensors.writing import check_write, write


def is_written_out(name: str) -> bool:
    """Whether a class of tensors defines a method itself, so that none is made of an op."""
    return name in Tensor.__dict__ or name in TensorElements.__dict__


def _attach(op: Op) -> None:
    """Give Tensor the method, the operators and the in-place method of an op."""
    if not op.internal:
        OWNERS[op.name] = op.name
    if op.method:

        def method(self: Tensor, *args: Any, **kwargs: Any) -> Any:
            try:
                return op(self, *args, **kwargs)
            except Exception as error:
                hide_frames(error)
                raise

        _name(method, op.name, op)
        for name in (op.name, *op.aliases):
            if not is_written_out(name):
                setattr(Methods, name, method)
    for operator in op.operators:
        setattr(Methods, operator, _operator(op, operator))
    if op.inplace:

        def inplace(self: Tensor, *args: Any, **kwargs: Any) -> Tensor:
            if not isinstance(self, Tensor):
                raise TypeError(f"{op.name}_: expected a tensor, not {type(self).__name__}.")
            check_write(self, f"{op.name}_")
            if args and isinstance(args[0], (np.ndarray, np.generic)):
                args = (_operand(args[0], self), *args[1:])
            if op.in_place is not None and not kwargs and op.in_place(self, args):
                return self
            kept = state().grad and _is_kept(op, (self, *args))
            value = op(core.clone(self) if kept else self, *args, **kwargs)
            if value.layout.shape != self.layout.shape:
                raise ValueError(
                    f"{op.name}_: the result {describe(value)} does not fit into {describe(self)}."
                )
            if value.storage.device != self.storage.device:
                raise _mixed_inplace(op, self, (self, *args), kwargs)
            if value.dtype.category > self.dtype.category:
                raise TypeError(
                    f"{op.name}_: the result is {value.dtype} and cannot be written into "
                    f"{describe(self)}."
                )
            return write(self, value, f"{op.name}_", fresh=True)

        _name(inplace, f"{op.name}_", op)
        for name in (op.name, *op.aliases):
            setattr(Methods, f"{name}_", inplace)
        for operator in op.operators:
            if operator in INPLACE_OPERATORS:
                setattr(Methods, INPLACE_OPERATORS[operator], inplace)


def _mixed_inplace(
    op: Op, written: Tensor, args: Sequence[Any], kwargs: Mapping[str, Any]
) -> DeviceError:
    """The error for an operand on whose device the result would lie, and not on that of the tensor
    which is written to."""
    operands = {**dict(zip(op.inputs, args)), **kwargs}
    name, other = next(
        (name, x)
        for name, x in operands.items()
        if isinstance(x, Tensor) and x.storage.device != written.storage.device
    )
    return mixed(f"{op.name}_", {op.inputs[0]: written, name: other}, move=name)


def _is_kept(op: Op, operands: Sequence[Any]) -> bool:
    """Whether the gradient of an in-place op needs what it overwrites, and hence a copy of it."""
    needs = [isinstance(x, Tensor) and x.requires_grad for x in operands]
    if not op.rules:  # a composite: its parts may keep anything
        return any(needs)
    wanted = (rule.inputs for rule in op.rules if op.inputs[0] in rule.names)
    return any(i < len(needs) and needs[i] for inputs in wanted for i in inputs)


F = TypeVar("F", bound=Callable[..., Any])
METHODS: dict[str, Callable[..., Any]] = {}  # functions elsewhere that are not ops


def method(function: F) -> F:
    """Decorator: a function of a tensor is a method of the same name too."""
    METHODS[function.__name__] = function
    setattr(Methods, function.__name__, function)
    return function


def _cast(name: str, dtype: DType) -> Callable[[Tensor], Tensor]:
    def cast(self: Tensor) -> Tensor:
        return self.to(dtype)

    cast.__name__, cast.__qualname__ = name, f"Tensor.{name}"
    cast.__doc__ = (
        f"The values as {dtype}.\n\n>>> import contraflow as cf\n"
        f">>> cf.tensor([0, 1]).{name}().dtype\n{dtype!r}\n"
    )
    return cast


for _writes in (writing.copy_, writing.fill_, writing.zero_):
    method(_writes)

# PyTorch's names for conversions are C's.
for _converts, _target in {
    "float": dtypes.float32, "double": dtypes.float64, "half": dtypes.float16,
    "bfloat16": dtypes.bfloat16, "byte": dtypes.uint8, "char": dtypes.int8, "short": dtypes.int16,
    "int": dtypes.int32, "long": dtypes.int64, "bool": dtypes.bool_,
}.items():  # fmt: skip
    method(_cast(_converts, _target))

_BINARY = ("add", "sub", "mul", "truediv", "floordiv", "mod", "pow")
_BITWISE = ("and", "or", "xor", "lshift", "rshift")
INPLACE_OPERATORS = {f"__{name}__": f"__i{name}__" for name in (*_BINARY, *_BITWISE)}


def _name(function: Callable[..., Any], name: str, op: Op) -> None:
    function.__name__ = name
    function.__qualname__ = f"Tensor.{name}"
    function.__doc__ = op.summary if op.internal else f"{op.summary} See `contraflow.{op.name}`."


def _operator(op: Op, operator: str) -> Callable[..., Any]:
    """A dunder method; reflected ones swap their operands.

    It inlines `apply` to save a stack frame for `user_call`, by which every node of a graph finds
    the user's line.
    """
    if len(op.inputs) == 1:

        def unary(self: Tensor) -> Any:
            current = state()
            if current.autocast is not None:
                return apply(op, (self,))
            return current.context.apply(op, (self,), NO_PARAMS)

        return unary
    reflected = operator in _REFLECTED

    def binary(self: Tensor, other: Any) -> Any:
        if not isinstance(other, _OPERANDS):
            if not isinstance(other, (np.ndarray, np.generic)):
                if is_pytorchs(other):
                    raise TypeError(f"{op.name}: {PYTORCHS_TENSOR}")
                return NotImplemented
            other = _operand(other, self)
        operands = (other, self) if reflected else (self, other)
        try:
            if op.custom_operators:
                return op.call(*operands)
            current = state()
            if current.autocast is not None:
                return apply(op, operands)
            return current.context.apply(op, operands, NO_PARAMS)
        except Exception as error:
            hide_frames(error)
            raise

    return binary


def _operand(x: np.ndarray | np.generic, beside: Tensor) -> Any:
    """A number for a scalar of NumPy's, a tensor where the other one lies for an array; one without
    dims stays on the cpu, whose tensors without dims pass."""
    plain = plain_number(x)
    return of_numpy(x, beside.storage.device if x.ndim else "cpu") if plain is x else plain


_OPERANDS = (Tensor, float, int)
_REFLECTED = {f"__r{name}__" for name in (*_BINARY, *_BITWISE, "matmul")}

REGISTRY.subscribe(_attach)
