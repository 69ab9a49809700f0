"""Ops: the one declaration of an operation, and the registry of all of them.

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

Passes and contexts never ask for an op by its name: they ask for the `Traits` of its declaration.
"""

from __future__ import annotations

import functools
import inspect
import os
from collections import namedtuple
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

from contraflow import thresholds
from contraflow.errors import TRANSLATED, hide_frames, retold, with_plain_numbers
from contraflow.operation.binding import REQUIRED, bind_once, binding
from contraflow.operation.context import apply, call_near, other_devices
from contraflow.operation.gradient_rules import Backward, BoundRule, Rule, is_arithmetic, picker
from contraflow.operation.promotion import DTYPE_RULES, Types
from contraflow.operation.public import WITHOUT_EFFECT, written
from contraflow.operation.samples import Failure, Sample
from contraflow.shapes import View
from contraflow.spec import Given, Params, Spec

if TYPE_CHECKING:
    from contraflow.operation.kinds import Kind


# PyTorch's names for the first two tensors of a function; those of `linalg` are matrices.
FIRST_NAMES = (("input", "A"), ("other", "B"))

# NumPy's names for parameters; and arguments that are the same for every function of PyTorch's,
# "" here: `out` is written to, the others have no effect.
OTHER_NAMES = {
    "axis": "dim", "axes": "dims", "keepdims": "keepdim", "out": "",
    **dict.fromkeys(WITHOUT_EFFECT, ""),
}  # fmt: skip


def _parameters(function: Any) -> tuple[tuple[str, ...], str | None, tuple[str, ...]]:
    """The names of a function's positional parameters, of *args, and of its keyword-only ones.

    `inspect.signature` says this too, but takes as long for all ops as everything else they need.
    """
    code = function.__code__
    keywords = code.co_argcount + code.co_kwonlyargcount
    names = code.co_varnames
    variadic = names[keywords] if code.co_flags & inspect.CO_VARARGS else None
    return names[: code.co_argcount], variadic, names[code.co_argcount : keywords]


def _name_code(function: Any, name: str) -> None:
    """Let the code of a function bear the name of its op, by which frames tell what was called."""
    code = function.__code__
    if code.co_name != name:
        function.__code__ = code.replace(co_name=name)


class Traits:
    """The traits of an op, for passes and contexts: fields for a declaration of any kind."""

    linear: bool = False  # in the inputs that have a gradient rule, taken together
    dynamic: bool = False  # the shape of its result depends on values
    silent: bool = False  # its `ref` does no arithmetic, so that NumPy has nothing to warn of
    # The `ref` of this composite gives the bits of its parts in less time. Eager mode runs it
    # on few elements, once the parts have accepted such arguments.
    same_bits: bool = False
    effects: bool = False  # it does more than its results show: it always runs, and in order
    from_user: bool = False  # its gradient rules may read Python state: they run at every backward
    # ("a", "b, c"): its results are zero if `a` is, and if `b` and `c` both are. Where it is not
    # given it follows for linear ops and for contractions.
    zero_if: tuple[str, ...] = ()
    is_sum: bool = False  # of two inputs
    is_copy: bool = False  # the elements of its input, in memory of their own
    is_transfer: bool = False  # the elements of its input, on the device that `device` names
    is_fill: bool = False  # every element is the number that is its first input
    is_padding: bool = False  # its first input among copies of its second, by `pads`
    # Elements of its first input at the coordinates [dims, points...] in its second, of the dims
    # that `dims` names.
    takes_points: bool = False
    along_dim: bool = False  # it goes along the dim that `dim` names, whatever the other dims are
    leading: bool = False  # the leading dims of all its inputs are those of a batch
    distinct: bool = False  # a view that shows no element twice, wherever the elements lie
    several: bool = False  # its results are many views made together, which grad mode protects
    # Eager mode makes no program of this composite: its parameters are never the same, or a part
    # keeps what the backward of the whole would compute again, or it costs nothing as it is.
    by_parts: bool = False
    # An input whose elements are indices that its kernel checks, and the ranges in which they must
    # lie, of the specs of its inputs and its parameters: one range for each coordinate of a point.
    # Where an earlier line of a tape has checked the same indices they are not checked again, so
    # that there are fewer steps that may fail.
    bound: tuple[str, Callable[..., tuple[range, ...]]] | None = None
    # The error, and its text, for an element where a `checked` of the body does not hold. Names in
    # braces stand for parameters. Parameters called `subject` and `code` are what the message is
    # about, and the index that the `checked` has where it does not hold.
    fails: tuple[type[Exception], str] | None = None


_DEFAULTS = {name: getattr(Traits, name) for name in Traits.__annotations__}


# An example of each op, made from its samples by `make examples`.
EXAMPLES = os.path.join(os.path.dirname(__file__), "examples.txt")


@functools.cache
def _examples() -> dict[str, str]:
    """The examples by the names of ops; an op of a user's has none."""
    with open(EXAMPLES, encoding="utf-8") as file:
        parts = file.read().split("===== ")[1:]
    return dict(part.split("\n", 1) for part in parts)


class Documentation:
    """The docstring of an op, put together where it is asked for: `op.__doc__`, `help(op)`."""

    def __init__(self, of_the_class: str | None) -> None:
        self._of_the_class = of_the_class

    def __get__(self, op: Op | None, owner: type | None = None) -> str | None:
        if op is None:
            return self._of_the_class
        parts = [op.summary or op.name, f"Signature: {op.name}({op.takes()})."]
        if op.aliases:
            parts.append(f"Also: {', '.join(op.aliases)}.")
        example = _examples().get(op.name)
        if example and REGISTRY.get(op.name) is op:
            shapes, _, shown = example.partition("\n")  # those in the example
            parts += [shapes, f">>> import contraflow as cf\n{shown.rstrip()}"]
        return "\n\n".join(parts)


class Op(Traits):
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
        aliases: tuple[str, ...] = (),
        internal: bool = False,
        **extra: Any,
    ) -> None:
        self.name = self.__name__ = body.__name__.rstrip("_")
        self.summary = body.__doc__
        self.aliases = aliases  # PyTorch's other names for the same thing
        # A part of other ops: it trusts its arguments, so it is not an attribute of the package.
        self.internal = internal
        self.kind = kind
        self.body = body
        self.ref = ref
        self.outs = outs
        self.output_count = len(outs)
        if len(outs) == 1:
            self.results = None
        self.residuals = residuals
        self.normalize = normalize
        self.shape = shape
        self.method, self.inplace, self.operators = method, inplace, operators
        self.autocast = autocast
        self._set_traits(extra)
        self._set_types(dtype)
        self._set_parameters(body)
        self.samples = samples or (lambda: kind.samples(self))
        self.failures = failures or (lambda: ())
        self.rules = tuple(self._rule(names, rule) for names, rule in (vjp or {}).items())
        self._vanishing = self._vanishing_inputs(self.zero_if)
        self._backwards: dict[tuple[bool, ...], Backward] = {}
        kind.check(self)

    @cached_property
    def results(self) -> Callable[..., Any] | None:
        """The named tuple of several results, made when it is first needed: that takes a while."""
        return namedtuple(self.name, self.outs)

    def _set_traits(self, given: dict[str, Any]) -> None:
        """Traits, as declared or by default, and those that follow from the kind."""
        self.__dict__.update(_DEFAULTS)  # of the instance, which is faster to read
        for name in Traits.__annotations__.keys() & given.keys():
            setattr(self, name, given.pop(name))
        self.extra = given
        kind, lowering = self.kind, self.kind.lowering
        self.is_view, self.is_assign = lowering == "view", lowering == "assign"
        self.is_composite, self.is_contraction = lowering == "composite", lowering == "contract"
        self.is_opaque = lowering == "opaque"
        # The kernel that a device must have, or else the parts of the op are recorded.
        self.own_kernel = lowering if kind.expands else None
        self.is_elementwise, self.is_reduction = kind.name == "elementwise", lowering == "reduce"
        self.creates = kind.creates  # out of numbers and positions, random numbers too
        self.is_create = kind.name == "create"  # it is told its dtype, and draws no numbers
        # More than a loop over elements: it is not done twice to save memory.
        self.is_costly = lowering in ("contract", "attention", "scatter", "scan", "sort", "opaque")
        self.along_dim |= lowering in ("scan", "sort")
        # Whether shapes and dtypes of inputs and parameters alone say those of the outputs.
        self.infers = not self.dynamic and not self.is_composite

    def _set_types(self, dtype: str | Callable[[Sequence[Given], Params], Types]) -> None:
        """The rule for dtypes, by its name or as a function."""
        if isinstance(dtype, str) and dtype not in DTYPE_RULES:
            rules = ", ".join(DTYPE_RULES)
            raise TypeError(f"{self.name}: dtype rule {dtype!r} is unknown. Known: {rules}.")
        self.types = DTYPE_RULES[dtype] if isinstance(dtype, str) else dtype
        # Whether `ref` may run as it is on arrays of one dtype, with no cast before or after.
        self.direct = self.kind.direct and dtype in ("promote", "float", "bool")
        # Whether specs of results depend on the types of numbers among the inputs, not on values.
        self.by_type = self.kind.creates or (isinstance(dtype, str) and self.kind.direct)

    def _set_parameters(self, body: Callable[..., Any]) -> None:
        """Inputs and static parameters, with their defaults, from the signature of the body."""
        self.inputs, self.variadic, keywords = _parameters(body)
        # Whether eager mode may run it as a program. NumPy joins parts one after the other, where a
        # kernel looks for each element's part.
        self.has_kernel = not self.is_opaque and not self.dynamic and not self.variadic
        # The default of an input: None for a tensor, or a number.
        defaults = body.__defaults__ or ()
        self.defaults = dict(zip(self.inputs[len(self.inputs) - len(defaults) :], defaults))
        self.params = {k: (body.__kwdefaults__ or {}).get(k, REQUIRED) for k in keywords}
        # Whether the parameters are those of a View of the first input, as if it were contiguous.
        self.gives_view = tuple(self.params) == View._fields
        _name_code(body, self.name)
        # The default public signature: tensors first, static parameters by position or name.
        self.bind: Callable[..., Any] = self._bind_variadic if self.variadic else self._bind_first
        self.call = self.bind
        self._uses = 0  # of `_bind_first`
        self.custom = False  # whether `call` is a signature of the op's own
        self.custom_operators = False  # and whether operators need it
        self.has_shortcut = False  # whether `call` is one, see `shortcut`
        # Tells of a tensor and the arguments of the in-place method whether it has written them,
        # which it does where nothing has to be recorded and only a part of the tensor changes.
        self.in_place: Callable[[Any, tuple[Any, ...]], bool] | None = None

    def _vanishing_inputs(self, zero_if: tuple[str, ...]) -> tuple[tuple[int, ...], ...]:
        """The inputs that make the results zero if all of a row are; an empty row means all."""
        if not zero_if and self.kind.bilinear:
            zero_if = self.inputs
        if zero_if:
            rows = [[name.strip() for name in names.split(",")] for names in zero_if]
            for name in (name for row in rows for name in row):
                if name not in self.inputs:
                    raise TypeError(
                        f"{self.name}: zero_if names {name!r}, which is not an input. "
                        f"Inputs: {', '.join(self.inputs)}."
                    )
            return tuple(tuple(map(self.inputs.index, row)) for row in rows)
        # The other inputs of a linear op say where elements lie, or are weights.
        return (tuple(i for rule in self.rules for i in rule.inputs),) if self.linear else ()

    def vanishes(self, zero: Sequence[bool]) -> bool:
        """Whether the results are zero, whatever the other inputs are, where those marked are."""
        return any(all(zero[i] for i in row) if row else all(zero) for row in self._vanishing)

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
            BoundRule(r.inputs, r.function, picker([known.index(n) for n in r.names]))
            for r in rules
        )
        arithmetic = plain and len(made) == 1 and all(map(is_arithmetic, rules))
        return Backward(needs, bound, saved, outs, recomputes, plain, arithmetic)

    @property
    def differentiable(self) -> bool:
        """Whether some input has a gradient rule."""
        return bool(self.rules)

    def signature(self, call: Callable[..., Any]) -> Callable[..., Any]:
        """Decorator: use `call` as the public signature; it must end in `apply(op, ...)`.

        One that adds keywords to the inputs is for functions and methods: operators, which have no
        keywords, apply the op itself.
        """
        _name_code(call, self.name)
        self.call, self.custom = call, True
        self.custom_operators = not getattr(call, "__kwdefaults__", None)
        return call

    def shortcut(self, call: Callable[..., Any]) -> Callable[..., Any]:
        """Decorator: `call` is asked first, and has the results of some calls in less time. It
        takes any arguments, and gives those that it does not know to `op.bind`."""
        _name_code(call, self.name)
        self.call, self.has_shortcut = call, True
        return call

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if kwargs:
            for names, own in zip(FIRST_NAMES, self.inputs):
                for name in names:
                    if name in kwargs and name not in self.inputs:
                        kwargs[own] = kwargs.pop(name)
            if not kwargs.keys().isdisjoint(OTHER_NAMES):
                own_names = self._own_names(kwargs)
                if own_names.keys() != kwargs.keys():
                    return written(self.name, kwargs.get("out"), self(*args, **own_names))
        try:
            # Else `apply` looks where the tensors lie; what makes views makes no tensors.
            if other_devices and self.custom and not self.is_view:
                return call_near(self.call, args, kwargs)
            return self.call(*args, **kwargs)
        except tuple(TRANSLATED) as error:
            plain = with_plain_numbers(error, args, kwargs)
            if plain is not None:
                return self(*plain[0], **plain[1])
            told = retold(error, self.name, self.takes, args, kwargs)
            if told is error:
                hide_frames(error)
                raise
            raise told  # noqa: B904 (it has its cause)

    def _own_names(self, kwargs: dict[str, Any]) -> dict[str, Any]:
        """Keyword arguments under the names of this op, without those that are not its business."""
        known = {*self.inputs, *self.params}
        return {
            name if name in known else own: value
            for name, value in kwargs.items()
            if name in known or (own := OTHER_NAMES.get(name, name))
        }

    def arguments(self) -> dict[str, Any]:
        """Inputs and parameters with their defaults, REQUIRED in place of one that is not there."""
        several = {self.variadic: REQUIRED} if self.variadic else {}
        return {**several, **dict.fromkeys(self.inputs, REQUIRED), **self.defaults, **self.params}

    @property
    def __signature__(self) -> inspect.Signature:
        """The public parameters, for `inspect.signature` and the tools that use it."""
        if self.custom:
            return inspect.signature(self.call)
        kinds = inspect.Parameter
        late = False  # a parameter that is needed comes by name after one that is not
        found: list[inspect.Parameter] = []
        for name, default in self.arguments().items():
            late |= default is not REQUIRED
            kind = kinds.KEYWORD_ONLY if late and default is REQUIRED else None
            if found and found[-1].kind is kinds.KEYWORD_ONLY:
                kind = kinds.KEYWORD_ONLY
            found.append(kinds(name, kind or kinds.POSITIONAL_OR_KEYWORD, default=default))
        return inspect.Signature(found)

    def takes(self) -> str:
        """The arguments of the public signature, as a message lists them."""
        if self.custom:
            signature = inspect.signature(self.call).replace(
                return_annotation=inspect.Signature.empty
            )
            return ", ".join(
                str(p.replace(annotation=p.empty)) for p in signature.parameters.values()
            )
        return ", ".join(
            name if default is REQUIRED else f"{name}={default!r}"
            for name, default in self.arguments().items()
        )

    def _bind_first(self, *args: Any, **kwargs: Any) -> Any:
        """The default public signature. A function is written for an op that is used often: that
        takes as long as many uses without one, and a recording makes a few."""
        self._uses += 1
        bound = bind_once(self, args, kwargs) if self._uses < thresholds.written_signature else None
        if bound is not None:
            return apply(self, *bound)
        self.bind = binding(self)
        if not self.custom and not self.has_shortcut:
            self.call = self.bind
        return self.bind(*args, **kwargs)

    def _bind_variadic(self, *args: Any, **kwargs: Any) -> Any:
        """The same of an op that takes a sequence of tensors."""
        sequence = args[0] if len(args) and isinstance(args[0], (tuple, list)) else ()
        tensors, rest = tuple(sequence), args[1:]
        if len(rest) > len(self.params):
            raise TypeError(f"{self.name}: takes {len(self.params)} arguments, got {len(args)}.")
        params = dict(self.params)
        names = tuple(self.params)
        params.update(zip(names, rest))
        for name, value in kwargs.items():
            if name not in params or name in names[: len(rest)]:
                problem = "given twice" if name in params else "unknown"
                known = ", ".join(names)
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
        """The result for the caller: one output, or a named tuple of several; no residuals."""
        return outs[0] if self.results is None else self.results(*outs[: len(self.outs)])

    def __repr__(self) -> str:
        return f"<op {self.name}: {self.kind.name}>"


class Registry(dict[str, Op]):
    """All ops by name. Listeners are called with each op, those already declared included."""

    def __init__(self) -> None:
        super().__init__()
        self._listeners: list[Callable[[Op], None]] = []
        self._aliases: dict[str, Op] = {}

    def find(self, name: str) -> Op | None:
        """The op with this name, or this other name of PyTorch's."""
        return self.get(name) or self._aliases.get(name)

    def add(self, op: Op) -> None:
        """Register an op under its name, which must be free.

        It is when the same module has declared it in an import that was interrupted: Python then
        runs the module again, with other globals.
        """
        for name in (op.name, *op.aliases):
            found = self.find(name)
            if found is None:
                continue
            ours, theirs = op.body, found.body
            if ours.__module__ != theirs.__module__ or ours.__globals__ is theirs.__globals__:
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
Op.__doc__ = Documentation(Op.__doc__)  # type: ignore[assignment]
