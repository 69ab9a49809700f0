"""Nodes of the autograd graph: typed fields, no closures, so a graph can be walked and printed."""

from __future__ import annotations

import itertools
import weakref
from collections.abc import Callable, Iterable, Sequence
from operator import attrgetter
from typing import TYPE_CHECKING, Any, NamedTuple

from contraflow.dtypes import DType
from contraflow.errors import (
    GradientError,
    GradientShapeError,
    describe,
    describe_spec,
)
from contraflow.operation import core
from contraflow.operation.context import state
from contraflow.operation.gradient_rules import Backward
from contraflow.shapes import Shape
from contraflow.spec import Spec
from contraflow.tensors.hooks import Handle
from contraflow.tensors.source_line import (
    NOWHERE,
    GradientLine,
    Instruction,
    UserLine,
    at,
    location,
)

if TYPE_CHECKING:
    from contraflow.operation.op import Op
    from contraflow.tensors.tensor import Tensor

# Newer nodes have higher numbers, and a node is always newer than what it was computed from:
# descending numbers are an order in which backward may run.
sequence_numbers = itertools.count(1)

# Where a gradient goes: output `index` of a node, or a leaf tensor (index is then 0).
Edge = tuple["Node | Tensor", int]


class Watchers:
    """Hooks, retained gradients and metadata of a node. Most nodes have none."""

    def __init__(self) -> None:
        self.tensor_hooks: dict[int, dict[int, Any]] = {}  # by the index of the output
        self.pre_hooks: dict[int, Any] = {}
        self.post_hooks: dict[int, Any] = {}
        # Outputs whose gradient goes into their `.grad`, once all hooks have run.
        self.retainers: dict[int, weakref.ref[Tensor]] = {}
        self.metadata: dict[str, Any] = {}
        self.pushed = False  # forward mode: residuals too must be functions of the inputs


class Input(NamedTuple):
    """An input of a node: its name, shape and dtype, and where its gradient goes."""

    name: str
    spec: Spec | None  # None for an input that is not a tensor
    source: Node | Tensor | None  # the node that made it, or a leaf; None: no gradient is needed
    output: int  # which output of that node it is


class Form:
    """The fields shared by nodes that apply one op to inputs of the same specs.

    Graphs are long, so these fields are kept here once, and not with each node.
    """

    __slots__ = (
        "input_specs", "indices", "output_count", "op", "backward", "saved", "moves", "made",
        "shortcut",
    )  # fmt: skip

    def __init__(
        self,
        input_specs: Sequence[Spec | None],
        indices: tuple[int, ...],
        output_count: int,
        op: Op | None = None,
        backward: Backward | None = None,
        moves: bool = False,
        made: Sequence[Spec] | None = None,
    ) -> None:
        self.input_specs = input_specs
        self.indices = indices  # which outputs of the targets the inputs are
        self.output_count = output_count
        self.op = op
        self.backward = backward  # the rules of an op, bound for the inputs that need gradients
        # The indices of the values that they name, among the inputs and then the outputs.
        inputs: tuple[int, ...] = () if backward is None else backward.saved_inputs
        outs: tuple[int, ...] = () if backward is None else backward.saved_outs
        self.saved = (*inputs, *(len(indices) + i for i in outs))
        self.moves = moves  # it is an assignment, or a view that shows no element twice
        self.made = made  # the outputs of an op that cannot infer them
        # Whether backward has a shortcut through such nodes, once `Cotangents.advance` knows, or
        # what it keeps for that.
        self.shortcut: Any = False if op is None else None

    def of_outputs(self, indices: tuple[int, ...]) -> Form:
        """The same for inputs that are other outputs of their targets."""
        return Form(
            self.input_specs, indices, self.output_count, self.op, self.backward, self.moves,
            self.made,
        )  # fmt: skip


class Node:
    """One applied operation: where gradients of its inputs go, and what its rules need.

    Python's collector looks at every object of a graph, so there are few: one tuple of targets and
    no pairs, and what most nodes do not have is in `watchers`.

    >>> import contraflow as cf
    >>> cf.ones(3, requires_grad=True).exp().grad_fn.name
    'exp'
    """

    __slots__ = (
        "form", "targets", "code", "instruction", "sequence_nr", "done", "watchers", "__weakref__",
    )  # fmt: skip
    hands_over = True  # nothing keeps what its backward makes, so the engine may add to it in place

    def __init__(
        self,
        edges: Sequence[Edge | None],
        input_specs: Sequence[Spec | None],
        output_count: int,
        applied: Instruction | None,
    ) -> None:
        indices = tuple([0 if e is None else e[1] for e in edges])
        self.form = Form(input_specs, indices, output_count)
        self.targets = tuple([None if e is None else e[0] for e in edges])
        self.code, self.instruction = NOWHERE if applied is None else applied[:2]
        self.sequence_nr = next(sequence_numbers)
        self.done = False  # backward has run and was not asked to retain the graph
        self.watchers: Watchers | None = None

    def watched(self) -> Watchers:
        """The watchers, created if there are none yet."""
        if self.watchers is None:
            self.watchers = Watchers()
        return self.watchers

    @property
    def edges(self) -> list[Edge | None]:
        """Where the gradient of each input goes, None where none is needed."""
        pairs = zip(self.targets, self.form.indices)
        return [None if target is None else (target, index) for target, index in pairs]

    @property
    def input_specs(self) -> Sequence[Spec | None]:
        """Shape and dtype of each input that is a tensor."""
        return self.form.input_specs

    @property
    def output_count(self) -> int:
        """The number of outputs of the node."""
        return self.form.output_count

    @property
    def output_specs(self) -> Sequence[Spec | None]:
        """Shape and dtype of each output, None for one that has no gradient or is not known."""
        return [None] * self.output_count

    @property
    def name(self) -> str:
        """The name of the operation that the user applied."""
        return type(self).__name__

    @property
    def label(self) -> str:
        """The name in a listing of nodes, where the parts of a composite are told apart."""
        return self.name

    @property
    def line(self) -> UserLine | None:
        """The user's line that applied the op."""
        return None if self.code is None else UserLine(self.code, self.instruction)

    @property
    def gradient_line(self) -> GradientLine | None:
        """The line of the node, for ops that its gradient rules apply."""
        return None if self.code is None else GradientLine(self.code, self.instruction)

    @property
    def next_functions(self) -> tuple[tuple[Node | Tensor | None, int], ...]:
        """Where the gradients of the inputs go: nodes and indices of outputs, leaves, or None."""
        return tuple((None, 0) if edge is None else edge for edge in self.edges)

    @property
    def inputs(self) -> tuple[Input, ...]:
        """The inputs that it was applied to, as far as the graph knows them: see `Input`.

        >>> import contraflow as cf
        >>> x = cf.ones(2, requires_grad=True)
        >>> [(i.name, str(i.spec), i.source is x) for i in x.exp().grad_fn.inputs]
        [('x', 'float32[2]', True)]
        """
        names = self.input_names
        return tuple(
            Input(name, spec, target, index)
            for name, spec, target, index in zip(
                names, self.input_specs, self.targets, self.form.indices
            )
        )

    @property
    def input_names(self) -> Sequence[str]:
        """The names of the inputs, or their indices where they have no names."""
        return [str(i) for i in range(len(self.targets))]

    @property
    def saved(self) -> dict[str, Any]:
        """The values kept for backward, by name, as they are kept; see `saved_values`."""
        return {}

    @property
    def saved_values(self) -> dict[str, Any]:
        """The values kept for backward, by name: tensors at their places in the graph, and numbers.

        A value that was overwritten since raises what backward would raise. After a backward that
        freed the graph there are none.

        >>> import contraflow as cf
        >>> x = cf.tensor([1.0, 2.0], requires_grad=True)
        >>> x.exp().grad_fn.saved_values
        {'out': tensor([2.7183, 7.3891])}
        """
        return {
            name: kept.get(self) if hasattr(kept, "get") else kept
            for name, kept in self.saved.items()
        }

    @property
    def metadata(self) -> dict[str, Any]:
        """A dict for the user's own data."""
        return self.watched().metadata

    def register_hook(self, hook: Callable[..., Any]) -> Handle:
        """Call `hook(grad_inputs, grad_outputs)` after this node; it may replace grad_inputs."""
        return self._hooked(self.watched().post_hooks, hook)

    def register_prehook(self, hook: Callable[..., Any]) -> Handle:
        """Call `hook(grad_outputs)` before this node; it may replace grad_outputs."""
        return self._hooked(self.watched().pre_hooks, hook)

    def _hooked(self, hooks: dict[int, Any], hook: Callable[..., Any]) -> Handle:
        """Put a hook into one of the tables of its watchers."""
        state().context.touch_hooks(self, hooks)
        return Handle(hooks, hook)

    def backward(self, cotangents: list[Tensor | None]) -> Sequence[Tensor | None]:
        """The gradient of each input, None where none is needed."""
        raise NotImplementedError

    def __call__(self, *cotangents: Tensor | None) -> Any:
        """The gradients of the inputs for the gradients of the outputs; `backward` without a graph.

        Each has the shape of its output, and is cast to its dtype. The result is one tensor for a
        node with one input, else a tuple, with None where no gradient is needed. Nothing is freed
        and no hooks run. With grad enabled the result has a graph.

        >>> import contraflow as cf
        >>> x = cf.tensor([1.0, 2.0], requires_grad=True)
        >>> node = (x * x).grad_fn
        >>> with cf.no_grad():
        ...     node(cf.ones(2))
        (tensor([1., 2.]), tensor([1., 2.]))
        """
        count = self.output_count
        if len(cotangents) != count:
            raise TypeError(
                f"{self.name}: a node with {count} outputs takes as many gradients, not "
                f"{len(cotangents)}."
            )
        given = [self._fitting(g, spec) for g, spec in zip(cotangents, self.output_specs)]
        found = self.backward(given)
        grads = [
            None if g is None or spec is None or target is None else fit(self, g, *spec)
            for g, spec, target in zip(found, self.input_specs, self.targets)
        ]
        return grads[0] if len(grads) == 1 else tuple(grads)

    def _fitting(self, g: Tensor | None, spec: Spec | None) -> Tensor | None:
        """A gradient that a caller gives for an output, cast to the dtype of the output."""
        if g is None:
            return None
        if not hasattr(g, "layout"):
            raise TypeError(f"{self.name}: expected a tensor or None, not {describe(g)}.")
        if spec is None:
            return g
        if g.shape != spec.shape:
            raise GradientShapeError(
                f"{self.name}: {describe(g)} cannot be the gradient of its output {spec}"
                f"{at(self.line)}; it must have that shape.",
                op=self.name, line=location(self.line), shape=g.shape, expected=spec.shape,
            )  # fmt: skip
        return cast(g, spec.dtype)

    def free(self) -> None:
        """Drop what was saved; a second backward through this node is an error then."""

    def __repr__(self) -> str:
        return f"<{self.label} #{self.sequence_nr}{at(self.line)}>"


def fit(node: Node, g: Tensor, shape: Shape, dtype: DType) -> Tensor:
    """Sum a cotangent to its input's shape (what broadcasting needs) and cast it."""
    layout = getattr(g, "layout", None)
    if layout is None:
        raise GradientError(
            f"backward: the gradient rule of {node.name} returned {describe(g)}, not a tensor."
        )
    if layout.shape != shape:
        lead = len(g.shape) - len(shape)
        dims = tuple(range(lead)) + tuple(
            lead + i for i, n in enumerate(shape) if n == 1 and lead >= 0 and g.shape[lead + i] != 1
        )
        kept = g.shape[lead:] if lead >= 0 else ()
        if lead < 0 or any(n not in (1, m) for n, m in zip(shape, kept)):
            raise GradientShapeError(
                f"backward: the gradient rule of {node.name} gave {describe(g)} for an input "
                f"{describe_spec(dtype, shape)}.",
                op=node.name, line=location(node.line), shape=g.shape, expected=shape,
            )  # fmt: skip
        g = core.sum(g, dim=dims, keepdim=True)
        if lead:
            g = core.reshape(g, shape)
    return cast(g, dtype)


def cast(g: Tensor, dtype: DType) -> Tensor:
    """A cotangent in the dtype of what it belongs to."""
    return g if g.dtype is dtype else core.to_dtype(g, dtype=dtype)


def below(edges: Iterable[Edge], first: int = 0) -> list[Node | Tensor]:
    """The nodes since number `first`, and the leaves, that edges lead to: each once."""
    found: dict[int, Node | Tensor] = {}
    stack: list[Node | Tensor | None] = [target for target, _ in edges]
    while stack:
        end = stack.pop()
        key = id(end)
        if key in found or end is None:
            continue
        if isinstance(end, Node):
            if end.sequence_nr < first:
                continue
            stack += end.targets
        found[key] = end
    return list(found.values())


def nodes_below(edges: Iterable[Edge], first: int = 0) -> list[Node]:
    """The nodes among them, oldest first."""
    nodes = [end for end in below(edges, first) if isinstance(end, Node)]
    return sorted(nodes, key=attrgetter("sequence_nr"))
