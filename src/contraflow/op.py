"""Ops: the one declaration of an operation, the kinds that carry what ops share, and dispatch.

An op is declared by a decorator named after its kind, in `ops/`:

    @elementwise(ref=np.tanh, dtype="float", vjp={"x": lambda g, out: g * (1 - out * out)})
    def tanh(x):
        \"\"\"Hyperbolic tangent.\"\"\"
        return s.tanh(x)

The function's positional parameters are tensors, its keyword-only ones are static. Everything
that must know ops (eager, capture, fusion, tensor methods, stubs, tests) reads `REGISTRY`.

`apply(op, inputs, params)` is how an op is used inside the library; what it does is decided by the
context on top of this thread's stack. Calling the op itself takes PyTorch's signature and
normalises it to that form.
"""

from __future__ import annotations

import inspect
from collections import namedtuple
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import lru_cache
from operator import itemgetter
from typing import Any, NamedTuple

import numpy as np

from contraflow import dtypes
from contraflow import scalar as s
from contraflow.dtypes import DType, bfloat16, bool_, float16, float32, float64, int64
from contraflow.errors import TRANSLATED, GradientError, describe_spec, retold
from contraflow.scalar import Expr, Source
from contraflow.shapes import (
    Shape,
    broadcast_shapes,
    contiguous,
    normalize_dims,
    reduced_shape,
)

# PyTorch's names for the first two tensors of a function; those of `linalg` are matrices.
FIRST_NAMES = (("input", "A"), ("other", "B"))

Params = Mapping[str, Any]
NO_PARAMS: Params = {}


class Spec(NamedTuple):
    """What is known of a value without its data."""

    shape: Shape
    dtype: DType

    def __str__(self) -> str:
        return describe_spec(self.dtype, self.shape)


Given = Spec | bool | int | float

# Specs are kept with every node, so equal ones are one object.
spec_of = lru_cache(maxsize=8192)(Spec)


# --- dispatch ----------------------------------------------------------------------------------


class Context:
    """What applying an op does: run it, record it, push tangents, batch it.

    A context handles what concerns it and passes the rest on to the context `below`.
    """

    below: Context
    first_node = 0  # backward may not reach nodes with lower numbers; see `refuse_node`
    recording = False  # tensors have no values here
    replays = False  # a compiled function may replay its program here, since nothing else listens
    timeline: Any = None  # where programs note how long each of their kernels takes, if anywhere

    def apply(self, op: Op, inputs: tuple[Any, ...], params: Params) -> Any:
        """Apply `op`."""
        return self.below.apply(op, inputs, params)

    def write(self, target: Any, value: Any, op: str, line: Any) -> None:
        """Put the elements of `value` into the memory of `target` and count the write."""
        self.below.write(target, value, op, line)

    def add_to(self, total: Any, value: Any) -> None:
        """Add `value` to `total` in place, which nobody else has seen."""
        total.add_(value)

    def derive(self, node: Any, named: list[Any]) -> list[Any]:
        """Run the rules of an op's node on what they name: the gradient of each input."""
        gradients: list[Any] = node.plan.run(node.op, named, node.params, node.input_specs)
        return gradients

    def leave(self, tensor: Any, what: str) -> None:
        """Data of `tensor` is about to become Python's; a recording refuses."""
        self.below.leave(tensor, what)

    def touch_grad(self, tensor: Any, reading: bool) -> None:
        """The `.grad` of `tensor` is about to be read or set."""
        self.below.touch_grad(tensor, reading)

    def touch_needs(self, tensor: Any) -> None:
        """The `requires_grad` of `tensor` is about to be set."""
        self.below.touch_needs(tensor)

    def draw(self, generator: Any, blocks: int) -> tuple[Any, Any]:
        """Take `blocks` counters of a random generator: its (seed, offset) before, as op inputs."""
        return self.below.draw(generator, blocks)

    def read_generator(self, generator: Any) -> None:
        """The state of a random generator is about to be read."""
        self.below.read_generator(generator)

    def write_generator(self, generator: Any, saved: tuple[int, int]) -> None:
        """The state of a random generator is about to be set."""
        self.below.write_generator(generator, saved)

    def refuse_node(self, node: Any) -> None:
        """Backward has reached a node that is older than `first_node`."""
        self.below.refuse_node(node)

    def read_scalar(self, cell: Any) -> Any:
        """The value of a host scalar."""
        return self.below.read_scalar(cell)

    def write_scalar(self, cell: Any, value: Any) -> None:
        """Set a host scalar."""
        self.below.write_scalar(cell, value)

    def watches(self, tensor: Any) -> bool:
        """Whether forward mode pushes a tangent of `tensor`."""
        return self.below.watches(tensor)

    def push(self, node: Any, inputs: Sequence[Any], outs: Sequence[Any]) -> None:
        """A node that is no op was made: forward mode takes its derivative from its backward."""
        self.below.push(node, inputs, outs)

    def visit_module(self, module: Any) -> None:
        """A module is being called: a recording depends on its structure from now on."""
        self.below.visit_module(module)

    def use_once(self) -> None:
        """What is being recorded holds for this call only; the next is recorded again."""
        self.below.use_once()


@dataclass(slots=True)
class State:
    """Everything that is per thread: the contexts and the modes. Never changed, only replaced."""

    context: Context
    grad: bool = True
    inference: bool = False
    anomaly: bool = False  # look for values that are not finite
    task: Any = None  # the backward pass that is running
    region: int = 0  # the checkpointed recomputation that is running, 0 outside
    line: Any = None  # the user's line, once an outer library call has taken it
    saved_hooks: tuple[Any, ...] = ()
    autocast: DType | None = None  # what ops declared for it compute in

    def replaced(self, fields: Mapping[str, Any]) -> State:
        """A copy with other values for some fields."""
        new = State(
            self.context, self.grad, self.inference, self.anomaly, self.task, self.region,
            self.line, self.saved_hooks, self.autocast,
        )  # fmt: skip
        for name, value in fields.items():
            setattr(new, name, value)
        return new


# Threads that never set a state see the default, whose context `set_base_context` installs.
_base = State(Context())
_state: ContextVar[State] = ContextVar("contraflow_state", default=_base)
state = _state.get  # this thread's state


def set_base_context(context: Context) -> None:
    """Install the context at the bottom of every thread's stack."""
    _base.context = context


class changed:
    """Replace fields of this thread's state in a block, and restore them however it ends."""

    __slots__ = ("fields", "token")

    def __init__(self, **fields: Any) -> None:
        self.fields = fields

    def __enter__(self) -> State:
        new = state().replaced(self.fields)
        self.token = _state.set(new)
        return new

    def __exit__(self, *error: object) -> None:
        _state.reset(self.token)


def change(**fields: Any) -> None:
    """Replace fields of this thread's state from now on; a surrounding `changed` still ends."""
    _state.set(state().replaced(fields))


def apply(op: Op, inputs: tuple[Any, ...], params: Params = NO_PARAMS) -> Any:
    """Apply an op in recorded form: tensors and numbers positional, everything static by name."""
    current = state()
    if current.autocast is not None:
        return _apply_autocast(op, inputs, params, current.autocast)
    return current.context.apply(op, inputs, params)


def _apply_autocast(op: Op, inputs: tuple[Any, ...], params: Params, low: DType) -> Any:
    """Apply an op to inputs of the dtype that it declares for autocast; its parts follow it."""
    with changed(autocast=None):
        if op.autocast is not None:
            wanted = low if op.autocast == "low" else float32
            inputs = tuple(
                REGISTRY["to_dtype"](x, dtype=wanted)
                if getattr(x, "dtype", None) in _AUTOCAST and x.dtype is not wanted
                else x
                for x in inputs
            )
        return apply(op, inputs, params)


_AUTOCAST = (float32, float16, bfloat16)  # others stay what they are


# --- dtype rules -------------------------------------------------------------------------------

Types = tuple[tuple[DType | None, ...], tuple[DType, ...]]  # a cast per input, a dtype per output


def _promoted(inputs: Sequence[Given]) -> DType:
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


# --- gradient rules ----------------------------------------------------------------------------


class Rule(NamedTuple):
    """One gradient rule: for which inputs, and which values it names."""

    inputs: tuple[int, ...]
    function: Callable[..., Any]
    names: tuple[str, ...]


class Bound(NamedTuple):
    """A rule, and how its arguments are picked out of all that rules of its op may name."""

    inputs: tuple[int, ...]
    function: Callable[..., Any]
    pick: Callable[[Sequence[Any]], Sequence[Any]]


class Backward(NamedTuple):
    """The rules bound for one set of inputs that need gradients, and what they must save."""

    needs: tuple[bool, ...]
    rules: tuple[Bound, ...]
    saved_inputs: tuple[int, ...]  # numbers of the inputs some rule names
    saved_outs: tuple[int, ...]  # numbers of the outputs and residuals some rule names
    recomputes: bool  # some rule names a residual, so all inputs are kept
    plain: bool  # rules name cotangents and saved values only
    arithmetic: bool  # rules only add, subtract, multiply and divide those

    def run(
        self, op: Op, named: list[Any], params: Params, specs: Sequence[Spec | None]
    ) -> list[Any]:
        """The gradient of each input, None where none is needed.

        `named` holds the cotangents, then the saved inputs, then the saved outputs.
        """
        if not self.plain:
            first = op.output_count
            inputs = tuple(named[first : first + len(self.saved_inputs)])
            named = [*named, *(params[name] for name in op.params), *specs]
            named += (inputs, specs, self.needs)
        grads: list[Any] = [None] * len(specs)
        for targets, function, pick in self.rules:
            result = function(*pick(named))
            if len(targets) == 1 and not isinstance(result, (tuple, list)):
                grads[targets[0]] = result
            else:
                _spread(op, result, targets, grads)
        return grads


def _spread(op: Op, result: Any, targets: tuple[int, ...], grads: list[Any]) -> None:
    """Take the several gradients that a rule returned."""
    targets = targets or tuple(range(len(grads)))
    results = result if isinstance(result, (tuple, list)) else (result,)
    if len(results) != len(targets):
        raise GradientError(
            f"backward: the gradient rule of {op.name} returned {len(results)} gradients "
            f"for {len(targets)} inputs."
        )
    for i, grad in zip(targets, results):
        grads[i] = grad


class _Operand:
    """Stands for a tensor while it is found out whether a rule is nothing but arithmetic."""

    def _combined(self, other: object) -> _Operand:
        if not isinstance(other, (_Operand, float, int)):
            raise NotImplementedError
        return _Operand()

    __add__ = __radd__ = __sub__ = __rsub__ = _combined
    __mul__ = __rmul__ = __truediv__ = __rtruediv__ = _combined

    def __neg__(self) -> _Operand:
        return _Operand()

    def __bool__(self) -> bool:
        raise NotImplementedError


def _is_arithmetic(rule: Rule) -> bool:
    """Whether a rule makes one new value by the four operations, which arrays have as well."""
    operands = [_Operand() for _ in rule.names]
    try:
        result = rule.function(*operands)
    except Exception:
        return False  # it does something else with its arguments
    return len(rule.inputs) == 1 and type(result) is _Operand and result not in operands


def _picker(numbers: Sequence[int]) -> Callable[[Sequence[Any]], Sequence[Any]]:
    """A function that takes the elements with these numbers out of a sequence."""
    if len(numbers) > 1:
        return itemgetter(*numbers)
    return lambda named: [named[i] for i in numbers]


@dataclass(frozen=True)
class Sample:
    """Inputs for tests of an op: arrays (or shapes, filled at random) and static parameters."""

    inputs: tuple[Any, ...]
    params: Params = field(default_factory=dict)


class Array(NamedTuple):
    """A random array for a sample: uniform in [low, high), away from `avoid` by 0.05."""

    shape: Shape
    low: float = -2.0
    high: float = 2.0
    dtype: DType = float64
    avoid: tuple[float, ...] = ()

    def make(self, rng: np.random.Generator) -> np.ndarray:
        """Draw it."""
        if self.dtype is bool_:
            return np.asarray(rng.random(self.shape) < 0.5)
        if not self.dtype.is_floating_point:
            drawn = rng.integers(int(self.low), int(self.high), self.shape)
            return np.asarray(drawn, self.dtype.numpy)
        values = rng.uniform(self.low, self.high, self.shape)
        for point in self.avoid:
            near = np.abs(values - point) < 0.05
            values = np.where(near, point + np.where(values < point, -0.1, 0.1), values)
        return np.asarray(values, self.dtype.numpy)


class Failure(NamedTuple):
    """A sample that must fail, with the error's type and a part of its text."""

    inputs: tuple[Any, ...]
    params: Params
    error: type[Exception]
    text: str


REQUIRED = inspect.Parameter.empty  # in place of the default of a parameter that has none


def _parameters(function: Any) -> tuple[tuple[str, ...], str | None, tuple[str, ...]]:
    """The names of a function's positional parameters, of *args, and of its keyword-only ones.

    `inspect.signature` says this too, but takes as long for all ops as everything else they need.
    """
    code = function.__code__
    keywords = code.co_argcount + code.co_kwonlyargcount
    names = code.co_varnames
    variadic = names[keywords] if code.co_flags & inspect.CO_VARARGS else None
    return names[: code.co_argcount], variadic, names[code.co_argcount : keywords]


class Op:
    """One operation. Calling it takes PyTorch's signature; see the module's text."""

    def __init__(
        self,
        kind: Kind,
        body: Callable[..., Any],
        *,
        ref: Callable[..., Any] | None = None,
        vjp: Mapping[str, Callable[..., Any]] | None = None,
        dtype: str | Callable[[Sequence[Given], Params], Types] = "promote",
        outs: tuple[str, ...] = ("out",),
        residuals: tuple[str, ...] = (),
        normalize: Callable[..., dict[str, Any]] | None = None,
        shape: Callable[..., Any] | None = None,
        samples: Callable[[], Iterable[Sample]] | None = None,
        failures: Callable[[], Iterable[Failure]] | None = None,
        method: bool = True,
        inplace: bool = False,
        operators: tuple[str, ...] = (),
        autocast: str | None = None,
        dynamic: bool = False,
        linear: bool = False,
        aliases: tuple[str, ...] = (),
        internal: bool = False,
        **extra: Any,
    ) -> None:
        self.name = body.__name__.rstrip("_")
        self.aliases = aliases  # PyTorch's other names for the same thing
        # A part of other ops: it trusts its arguments, so it is no attribute of the package.
        self.internal = internal
        self.kind = kind
        self.body = body
        self.ref = ref
        self.outs = outs
        self.output_count = len(outs)
        self.results = namedtuple(self.name, outs) if len(outs) > 1 else None
        self.residuals = residuals
        self.normalize = normalize
        self.shape = shape
        self.method, self.inplace, self.operators = method, inplace, operators
        self.autocast, self.dynamic, self.linear = autocast, dynamic, linear
        self.extra = extra
        if isinstance(dtype, str) and dtype not in DTYPE_RULES:
            rules = ", ".join(DTYPE_RULES)
            raise TypeError(f"{self.name}: dtype rule {dtype!r} is unknown. Known: {rules}.")
        self.types = DTYPE_RULES[dtype] if isinstance(dtype, str) else dtype
        # Whether `ref` may run as it is on arrays of one dtype, with no cast before or after.
        self.direct = kind.direct and dtype in ("promote", "float", "bool")
        self.__doc__ = body.__doc__
        self.__name__ = self.name
        self.inputs, self.variadic, keywords = _parameters(body)
        # What an input is when it is not given: None for a tensor, or a number.
        defaults = body.__defaults__ or ()
        self.defaults = dict(zip(self.inputs[len(self.inputs) - len(defaults) :], defaults))
        self.params = {k: (body.__kwdefaults__ or {}).get(k, REQUIRED) for k in keywords}
        self.call: Callable[..., Any] = self.bind
        self.custom = False  # whether `call` is a signature of the op's own
        self.samples = samples or (lambda: kind.samples(self))
        self.failures = failures or (lambda: ())
        self.rules = tuple(self._rule(names, rule) for names, rule in (vjp or {}).items())
        self._backwards: dict[tuple[bool, ...], Backward] = {}
        kind.check(self)

    def _rule(self, inputs: str, function: Callable[..., Any]) -> Rule:
        """Check a rule's names now, so that a misspelt one fails at import."""
        names = _parameters(function)[0]
        cotangents = ("g",) if len(self.outs) == 1 else tuple(f"g_{o}" for o in self.outs)
        specs = {f"{name}_spec" for name in self.inputs}
        known = {*cotangents, *self.outs, *self.residuals, *self.inputs, *self.params, *specs}
        if self.variadic:
            known |= {self.variadic, "specs", "needs"}
        for name in names:
            if name not in known:
                raise TypeError(
                    f"{self.name}: the gradient rule of {inputs!r} names {name!r}, which is "
                    f"neither a cotangent, an input, an output nor a parameter. "
                    f"Known: {', '.join(sorted(known))}."
                )
        if inputs == self.variadic:
            return Rule((), function, names)
        targets = [n.strip() for n in inputs.split(",")]
        for name in targets:
            if name not in self.inputs:
                raise TypeError(
                    f"{self.name}: there is a gradient rule for {name!r}, which is not an input. "
                    f"Inputs: {', '.join(self.inputs)}."
                )
        return Rule(tuple(map(self.inputs.index, targets)), function, names)

    def backward(self, needs: tuple[bool, ...]) -> Backward:
        """The rules for the inputs that need gradients, and the union of what they name."""
        found = self._backwards.get(needs)
        if found is None:
            found = self._backwards[needs] = self._bind_rules(needs)
        return found

    def _bind_rules(self, needs: tuple[bool, ...]) -> Backward:
        rules = tuple(r for r in self.rules if not r.inputs or any(needs[i] for i in r.inputs))
        names = {n for r in rules for n in r.names}
        recomputes = any(n in self.residuals for n in names)
        if self.variadic:
            saved = tuple(range(len(needs))) if self.variadic in names else ()
        else:
            saved = tuple(i for i, n in enumerate(self.inputs) if n in names or recomputes)
        made = self.outs + self.residuals
        outs = tuple(i for i, n in enumerate(made) if n in names)
        # Everything a rule may name, in the order in which `Backward.run` lists it.
        known = ["g"] if len(self.outs) == 1 else [f"g_{o}" for o in self.outs]
        known += [str(i) if self.variadic else self.inputs[i] for i in saved]
        known += [made[i] for i in outs]
        plain = names <= set(known)
        if not plain:
            known += self.params
            specs = range(len(needs)) if self.variadic else self.inputs
            known += [f"{x}_spec" for x in specs]
            known += [self.variadic or "", "specs", "needs"]
        bound = tuple(
            Bound(r.inputs, r.function, _picker([known.index(n) for n in r.names])) for r in rules
        )
        arithmetic = plain and not recomputes and all(map(_is_arithmetic, rules))
        return Backward(needs, bound, saved, outs, recomputes, plain, arithmetic)

    @property
    def differentiable(self) -> bool:
        """Whether some input has a gradient rule."""
        return bool(self.rules)

    def signature(self, call: Callable[..., Any]) -> Callable[..., Any]:
        """Decorator: use `call` as the public signature; it must end in `apply(op, ...)`."""
        self.call, self.custom = call, True
        return call

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if kwargs:
            for names, own in zip(FIRST_NAMES, self.inputs):
                for name in names:
                    if name in kwargs and name not in self.inputs:
                        kwargs[own] = kwargs.pop(name)
        try:
            return self.call(*args, **kwargs)
        except tuple(TRANSLATED) as error:
            raise retold(error, self.name, self.takes, args, kwargs)  # noqa: B904 (it has its cause)

    def takes(self) -> str:
        """The arguments of the public signature, as a message lists them."""
        if self.custom:
            signature = inspect.signature(self.call).replace(
                return_annotation=inspect.Signature.empty
            )
            return ", ".join(
                str(p.replace(annotation=p.empty)) for p in signature.parameters.values()
            )
        defaults = {**dict.fromkeys(self.inputs, REQUIRED), **self.defaults}
        given = {**({self.variadic: REQUIRED} if self.variadic else {}), **defaults}
        return ", ".join(
            name if default is REQUIRED else f"{name}={default!r}"
            for name, default in {**given, **self.params}.items()
        )

    def bind(self, *args: Any, **kwargs: Any) -> Any:
        """The default public signature: tensors first, static parameters by position or name."""
        if self.variadic:
            sequence = args[0] if len(args) and isinstance(args[0], (tuple, list)) else ()
            tensors, rest = tuple(sequence), args[1:]
        else:
            count = len(self.inputs)
            tensors, rest = args[:count], args[count:]
            absent = self.inputs[len(tensors) :]
            if absent:
                given = {**self.defaults, **kwargs}
                missing = ", ".join(name for name in absent if name not in given)
                if missing:
                    raise TypeError(f"{self.name}: missing {missing}.")
                tensors += tuple(given[name] for name in absent)
                kwargs = {k: v for k, v in kwargs.items() if k not in absent}
        if len(rest) > len(self.params):
            raise TypeError(
                f"{self.name}: takes {len(self.inputs) + len(self.params)} arguments, "
                f"got {len(args)}."
            )
        params = dict(self.params)
        names = tuple(self.params)
        params.update(zip(names, rest))
        for name, value in kwargs.items():
            if name not in params or name in names[: len(rest)]:
                problem = "given twice" if name in params else "unknown"
                known = ", ".join((*self.inputs, *names))
                raise TypeError(f"{self.name}: argument {name!r} is {problem}. It takes {known}.")
            params[name] = value
        for name, value in params.items():
            if value is REQUIRED:
                raise TypeError(f"{self.name}: missing {name}.")
            if isinstance(value, list):
                params[name] = tuple(value)
        if self.normalize is not None:
            params.update(self.normalize(*tensors, **params))
        return apply(self, tensors, params)

    def infer(self, inputs: Sequence[Given], params: Params) -> tuple[Spec, ...]:
        """The shapes and dtypes of the results, or the error a wrong input deserves."""
        return self.kind.infer(self, inputs, params)

    def pack(self, outs: tuple[Any, ...]) -> Any:
        """What a caller gets: the one output, or a named tuple of several; no residuals."""
        return outs[0] if self.results is None else self.results(*outs[: len(self.outs)])

    def __repr__(self) -> str:
        return f"<op {self.name}: {self.kind.name}>"


class Registry(dict[str, Op]):
    """All ops by name. Listeners hear of each op, those already there included."""

    def __init__(self) -> None:
        super().__init__()
        self._listeners: list[Callable[[Op], None]] = []
        self._aliases: dict[str, Op] = {}

    def find(self, name: str) -> Op | None:
        """The op with this name, or this other name of PyTorch's."""
        return self.get(name) or self._aliases.get(name)

    def add(self, op: Op) -> None:
        """Register an op under its name, which must be free."""
        for name in (op.name, *op.aliases):
            if self.find(name) is not None:
                raise ValueError(f"op {name!r} is declared already.")
        self[op.name] = op
        self._aliases.update(dict.fromkeys(op.aliases, op))
        for listener in self._listeners:
            listener(op)

    def subscribe(self, listener: Callable[[Op], None]) -> None:
        """Call `listener` for every op, now and later."""
        self._listeners.append(listener)
        for op in self.values():
            listener(op)


REGISTRY = Registry()


LINEAR = s.leaf("axis", int64, "linear")  # the element's row-major number in the output
REDUCED = s.leaf("axis", int64, "reduced")  # its row-major number within the reduced dims


# --- kinds -------------------------------------------------------------------------------------


class Kind:
    """What ops of one sort share. `lowering` says how fusion treats a line of this kind:

    map        a scalar expression per output point       (kind.expression)
    reduce     a fold over some dims of the input         (op.extra: combine, identity)
    contract   two specs to one                           (kind.labels)
    opaque     no kernel yet: the line runs `ref` on the host
    view, composite   never reach a tape: views fold into reads, composites into their parts
    """

    name = "kind"
    lowering = "opaque"
    indexes = False  # the body reads its arguments at positions of its own
    direct = False  # `ref` gives the right dtype by itself where all inputs have one
    required: tuple[str, ...] = ("ref", "shape")  # fields a declaration must have
    # Further fields it may have; the tests read the first two: which directions an input admits.
    optional: tuple[str, ...] = ("symmetric", "triangular")

    def check(self, op: Op) -> None:
        """Refuse a declaration that lacks something this kind needs, or that has a typing error."""
        given = {"ref": op.ref, "shape": op.shape, **op.extra}
        for name in self.required:
            if given.get(name) is None:
                raise TypeError(f"{op.name}: an op of kind {self.name} needs {name}=.")
        for name in op.extra:
            if name not in self.required + self.optional:
                known = ", ".join(sorted({*_FIELDS, *self.required, *self.optional}))
                raise TypeError(
                    f"{op.name}: an op of kind {self.name} has no field {name!r}. Known: {known}."
                )

    def infer(self, op: Op, inputs: Sequence[Given], params: Params) -> tuple[Spec, ...]:
        """Shapes by the op's `shape=` function, dtypes by its rule."""
        assert op.shape is not None, op
        shapes = op.shape(*inputs, **params)
        if isinstance(shapes, tuple) and (not shapes or not isinstance(shapes[0], tuple)):
            shapes = (shapes,)
        return tuple(map(Spec, shapes, op.types(inputs, params)[1]))

    def samples(self, op: Op) -> Iterable[Sample]:
        """Default samples; an op that has none must declare its own."""
        return ()

    def expression(
        self, op: Op, inputs: Sequence[Given], params: Params, sources: Sequence[Any]
    ) -> tuple[Expr, ...]:
        """The scalar meaning at the current point; for kinds lowered to maps."""
        raise NotImplementedError(op)


# The fields that ops of every kind have.
_FIELDS = tuple(
    p.name for p in inspect.signature(Op).parameters.values() if p.kind is p.KEYWORD_ONLY
)

_CATEGORIES = {dtypes.BOOL: "bool", dtypes.INT: "integer", dtypes.FLOAT: "floating-point"}


def _check_categories(op: Op, inputs: Sequence[Given], takes: Sequence[int]) -> None:
    """Refuse tensors, and floats, of a category that the op does not take."""
    for x in inputs:
        dtype = x.dtype if isinstance(x, Spec) else dtypes.of_number(x)
        if dtype.category not in takes and (isinstance(x, Spec) or dtype.is_floating_point):
            if tuple(takes) == (dtypes.FLOAT,):
                raise TypeError(f"{op.name}: {x} is not floating-point. Use x.float().")
            names = " and ".join(_CATEGORIES[category] for category in takes)
            raise TypeError(f"{op.name}: {x} is {dtype}; it takes {names} tensors.")


class Elementwise(Kind):
    """Scalars to a scalar, broadcasting. `takes` may name the categories of dtypes it accepts.

    `fails` is the error, and its text, for an element where a `checked` of the body does not hold.
    """

    required = ("ref",)
    optional = (*Kind.optional, "domain", "avoid", "sample_dtype", "takes", "fails")

    name = "elementwise"
    lowering = "map"
    direct = True

    def infer(self, op: Op, inputs: Sequence[Given], params: Params) -> tuple[Spec, ...]:
        if "takes" in op.extra:
            _check_categories(op, inputs, op.extra["takes"])
        shapes = [x.shape for x in inputs if isinstance(x, Spec)]
        shape = broadcast_shapes(op.name, shapes) if shapes else ()
        return tuple(Spec(shape, d) for d in op.types(inputs, params)[1])

    def samples(self, op: Op) -> Iterable[Sample]:
        low, high = op.extra.get("domain", (-2.0, 2.0))
        avoid = tuple(op.extra.get("avoid", ()))
        dtype = op.extra.get("sample_dtype", float64)

        def array(*shape: int) -> Array:
            return Array(shape, low, high, dtype, avoid)

        n = len(op.inputs)
        yield Sample((array(3, 4),) * n)
        yield Sample((array(),) * n)
        yield Sample((array(2, 0),) * n)
        if n >= 2:
            yield Sample((array(2, 3, 4), array(3, 1)) + (array(4),) * (n - 2))

    def expression(
        self, op: Op, inputs: Sequence[Given], params: Params, sources: Sequence[Any]
    ) -> tuple[Expr, ...]:
        out = op.body(*sources, **params)
        return out if isinstance(out, tuple) else (out,)


class Reduction(Kind):
    """A fold over some dims. The body gives what an element contributes; `combine` folds.

    `REDUCED` in the body is the element's index within the reduced dims.
    """

    required = ("ref", "combine")
    optional = (*Kind.optional, "identity", "start")

    name = "reduction"
    lowering = "reduce"

    def infer(self, op: Op, inputs: Sequence[Given], params: Params) -> tuple[Spec, ...]:
        (x,) = inputs
        assert isinstance(x, Spec)
        dims = normalize_dims(op.name, params["dim"], len(x.shape))
        if op.extra.get("identity") is None and any(x.shape[d] == 0 for d in dims):
            raise ValueError(f"{op.name}: {x} has no elements along dim {dims} and no identity.")
        shape = reduced_shape(x.shape, dims, params["keepdim"])
        return tuple(Spec(shape, d) for d in op.types(inputs, params)[1])

    def samples(self, op: Op) -> Iterable[Sample]:
        x = Array((3, 4, 2))
        yield Sample((x,), {"dim": (1,), "keepdim": False})
        yield Sample((x,), {"dim": (0,), "keepdim": True})
        yield Sample((x,), {"dim": (0, 2), "keepdim": False})
        yield Sample((x,), {"dim": (0, 1, 2), "keepdim": False})
        yield Sample((Array(()),), {"dim": (), "keepdim": False})
        if op.extra.get("identity") is not None:
            yield Sample((Array((2, 0)),), {"dim": (1,), "keepdim": False})

    def fold(self, op: Op, x: Expr) -> tuple[tuple[Expr, ...], ...]:
        """(values, combine, identity) of the reduction of an element `x`."""
        out = op.body(x, **op.params)
        values = out if isinstance(out, tuple) else (out,)
        left = tuple(s.leaf("left", v.dtype, i) for i, v in enumerate(values))
        right = tuple(s.leaf("right", v.dtype, i) for i, v in enumerate(values))
        combined = op.extra["combine"](*left, *right)
        combine = combined if isinstance(combined, tuple) else (combined,)
        given = op.extra.get("start", op.extra.get("identity"))
        start = given(x.dtype) if callable(given) else given
        starts = start if isinstance(start, tuple) else (start,)
        identity = tuple(s.const(v, e.dtype) for v, e in zip(starts, values))
        return values, combine, identity


class Viewing(Kind):
    """View to View: no data moves. The body gives the new View of a View."""

    required = ()
    optional = (*Kind.optional, "several")

    name = "view"
    lowering = "view"

    def infer(self, op: Op, inputs: Sequence[Given], params: Params) -> tuple[Spec, ...]:
        x = inputs[0]
        assert isinstance(x, Spec)
        view = op.body(contiguous(x.shape), **params)
        return (Spec(view.shape, x.dtype),)


class Index(Kind):
    """Output position to source element; may load integers. The body gets `at` and sources.

    `body(at, *sources, **params)` where `at` holds the output coordinates and each source reads
    by `x[coordinates]`, or `x.where(valid, coordinates)`.
    """

    required = ("ref", "shape", "source")

    lowering = "map"
    indexes = True

    def __init__(self, name: str) -> None:
        self.name = name

    def expression(
        self, op: Op, inputs: Sequence[Given], params: Params, sources: Sequence[Any]
    ) -> tuple[Expr, ...]:
        shape = self.infer(op, inputs, params)[0].shape
        at = tuple(s.axis(k) for k in range(len(shape)))
        given = [
            Source(i, x.shape, x.dtype.compute) if isinstance(x, Spec) else sources[i]
            for i, x in enumerate(inputs)
        ]
        return (op.extra["source"](at, *given, **params),)


class Creating(Kind):
    """Scalars and the element's position to a value: constants, ranges, random numbers.

    `LINEAR` in the body is the element's row-major number. The `shape` parameter is the shape.
    """

    required = ("ref",)

    lowering = "map"

    def __init__(self, name: str) -> None:
        self.name = name

    def infer(self, op: Op, inputs: Sequence[Given], params: Params) -> tuple[Spec, ...]:
        return (Spec(params["shape"], op.types(inputs, params)[1][0]),)

    def expression(
        self, op: Op, inputs: Sequence[Given], params: Params, sources: Sequence[Any]
    ) -> tuple[Expr, ...]:
        return (op.body(*sources, **params),)


class Contracting(Kind):
    """Two operands, labelled per dim, to a third: `labels` gives the three label strings."""

    required = ("ref", "labels")

    name = "contraction"
    lowering = "contract"

    def labels(self, op: Op, inputs: Sequence[Given], params: Params) -> tuple[str, str, str]:
        """One letter per dim of a, b and the result; `_` is a dim of size one that broadcasts."""
        labels: tuple[str, str, str] = op.extra["labels"](*inputs, **params)
        return labels

    def infer(self, op: Op, inputs: Sequence[Given], params: Params) -> tuple[Spec, ...]:
        a, b = inputs
        assert isinstance(a, Spec)
        assert isinstance(b, Spec)
        sizes: dict[str, int] = {}
        left, right, out = self.labels(op, inputs, params)
        for letters, shape in ((left, a.shape), (right, b.shape)):
            for letter, n in zip(letters, shape):
                if sizes.setdefault(letter, n) != n and letter != "_":
                    raise ValueError(
                        f"{op.name}: cannot contract {a} with {b} as {left},{right}->{out}: "
                        f"{letter} is {sizes[letter]} and {n}."
                    )
        return (Spec(tuple(sizes[c] for c in out), op.types(inputs, params)[1][0]),)


class Assigning(Kind):
    """The base with the elements of one region replaced; lowered to a store into that region."""

    name = "assign"
    lowering = "assign"


class Opaque(Kind):
    """An op without a generated kernel: it runs its `ref`, in a program too."""

    def __init__(self, name: str) -> None:
        self.name = name


class Composite(Kind):
    """Ordinary Python over ops. With `vjp` it is one Node; without, its parts are recorded.

    With `by_parts` eager mode makes no program of the whole, whose parameters are never the same.
    """

    required = ("ref",)
    optional = (
        *Kind.optional, "floating", "several", "by_parts", "resolve", "write_points", "fitted",
    )  # fmt: skip

    name = "composite"
    lowering = "composite"

    def infer(self, op: Op, inputs: Sequence[Given], params: Params) -> tuple[Spec, ...]:
        raise NotImplementedError(f"{op.name} is made of other ops; only those are inferred")


def _declare(kind: Kind) -> Callable[..., Callable[[Callable[..., Any]], Op]]:
    """The decorator of one kind: `@elementwise(ref=..., vjp=...)`."""

    def decorator(**fields: Any) -> Callable[[Callable[..., Any]], Op]:
        def declare(body: Callable[..., Any]) -> Op:
            op = Op(kind, body, **fields)
            REGISTRY.add(op)
            return op

        return declare

    return decorator


elementwise = _declare(Elementwise())
reduction = _declare(Reduction())
view = _declare(Viewing())
index = _declare(Index("index"))
window = _declare(Index("window"))
create = _declare(Creating("create"))
random = _declare(Creating("random"))
assigning = _declare(Assigning())
contraction = _declare(Contracting())
scan = _declare(Opaque("scan"))
sort = _declare(Opaque("sort"))
host = _declare(Opaque("host"))
opaque = _declare(Opaque("opaque"))
composite = _declare(Composite())
