"""The graph as data: walk it, read it, and hook into it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from contraflow.errors import GradientError, bytes_text, describe
from contraflow.graph.saved import Saved, SavedHooks
from contraflow.names import getter
from contraflow.operation.context import state
from contraflow.operation.modes import Mode
from contraflow.spec import Spec
from contraflow.tensors.hooks import Handle
from contraflow.tensors.node import Edge, Node
from contraflow.tensors.tensor import Tensor

__all__ = [
    "Graph",
    "Node",
    "register_multi_grad_hook",
    "registered_hooks",
    "save_on_cpu",
    "saved_tensors_hooks",
]


class saved_tensors_hooks(Mode):
    """Pass each value saved for backward through `pack_hook`, and back when it is needed.

    >>> import contraflow as cf
    >>> x = cf.ones(2, requires_grad=True)
    >>> with cf.autograd.graph.saved_tensors_hooks(lambda t: t.numpy(), cf.tensor):
    ...     y = x.exp().sum()
    >>> y.backward()
    >>> x.grad
    tensor([2.7183, 2.7183])
    """

    def __init__(
        self, pack_hook: Callable[[Tensor], Any], unpack_hook: Callable[[Any], Tensor]
    ) -> None:
        super().__init__()
        self._hooks = SavedHooks(pack_hook, unpack_hook)

    def changes(self) -> dict[str, Any]:
        return {"saved_hooks": (*state().saved_hooks, self._hooks)}


class save_on_cpu(saved_tensors_hooks):
    """Keep values saved for backward on the host until they are needed.

    >>> import contraflow as cf
    >>> x = cf.ones(2, requires_grad=True)
    >>> with save_on_cpu():
    ...     y = x.exp().sum()
    >>> y.backward()
    >>> x.grad
    tensor([2.7183, 2.7183])
    """

    def __init__(self, pin_memory: bool = False, device_type: str = "cuda") -> None:
        super().__init__(
            lambda x: (x.device, x.to("cpu", copy=True)), lambda kept: kept[1].to(kept[0])
        )


class MultiHandle:
    """Removes the hooks that were registered together."""

    def __init__(self, handles: Sequence[Handle]) -> None:
        self._handles = handles

    def remove(self) -> None:
        """Remove them; doing so twice is harmless."""
        for handle in self._handles:
            handle.remove()


def register_multi_grad_hook(
    tensors: Sequence[Tensor], fn: Callable[..., None], *, mode: str = "all"
) -> MultiHandle:
    """Call `fn` once per backward: with all gradients, or, in mode "any", with the first one.

    In mode "all" it gets a list with None for each tensor that this backward does not come to.

    >>> import contraflow as cf
    >>> x, y = (cf.ones(2, requires_grad=True) for _ in range(2))
    >>> handle = register_multi_grad_hook([x, y], lambda grads: print(len(grads)))
    >>> (x * y).sum().backward()
    2
    """
    if mode not in ("all", "any"):
        raise ValueError(f"register_multi_grad_hook: mode is {mode!r}; it must be 'all' or 'any'.")
    tensors = tuple(tensors)
    edges = [t.edge for t in tensors]
    if None in edges:
        missing = describe(tensors[edges.index(None)])
        raise GradientError(f"register_multi_grad_hook: {missing} does not require grad.")
    seen: dict[str, Any] = {"task": None, "grads": {}}

    def listen(number: int, g: Tensor) -> None:
        task = state().task
        if seen["task"] is not task:
            reached = sum(task.reaches(edge) for edge in edges)
            seen.update(task=task, grads={}, left=reached)
        seen["grads"][number] = g
        seen["left"] -= 1
        if mode == "any":
            if len(seen["grads"]) == 1:
                fn(g)
        elif seen["left"] == 0:
            grads = seen["grads"]
            seen.update(task=None, grads={})  # keep no gradient alive
            fn([grads.get(i) for i in range(len(tensors))])

    def hook(number: int) -> Callable[[Tensor], None]:
        return lambda g: listen(number, g)

    return MultiHandle([t.register_hook(hook(i)) for i, t in enumerate(tensors)])


def registered_hooks(x: Any) -> dict[str, tuple[Any, ...]]:
    """The hooks of a tensor, a node, a module or an optimizer, in the order in which they run.

    They are listed by the method that registers them; kinds without hooks are absent.

    >>> import contraflow as cf
    >>> x = cf.ones(2, requires_grad=True)
    >>> handle = x.register_hook(print)
    >>> cf.autograd.graph.registered_hooks(x)
    {'register_hook': (<built-in function print>,)}
    >>> handle.remove()
    >>> cf.autograd.graph.registered_hooks(x)
    {}
    """
    tables: dict[str, Mapping[int, Any] | None]
    if isinstance(x, Tensor):
        node, hooks = x.node, x._hooks
        state().context.read_hooks(x)
        if node is not None:
            watched = node.watchers
            hooks = None if watched is None else watched.tensor_hooks.get(x._index)
        tables = {
            "register_hook": hooks, "register_post_accumulate_grad_hook": x._accumulated_hooks,
        }  # fmt: skip
    elif isinstance(x, Node):
        watched = x.watchers
        tables = {
            "register_prehook": None if watched is None else watched.pre_hooks,
            "register_hook": None if watched is None else watched.post_hooks,
        }
    elif hasattr(x, "hook_tables"):
        tables = x.hook_tables()
    else:
        raise TypeError(
            f"registered_hooks: expected a tensor, a node, a module or an optimizer, not "
            f"{describe(x)}."
        )
    return {kind: tuple(table.values()) for kind, table in tables.items() if table}


class Graph:
    """The graph that a tensor was computed by. Printing it lists the nodes in order of application.

    A line is a node: its inputs, the shape of its result, the user's line, and what it keeps for
    backward with the bytes. `names` gives leaves names, as `dict(model.named_parameters())` does.

    >>> import contraflow as cf
    >>> w = cf.ones(2, 3, requires_grad=True)
    >>> y = cf.ones(4, 2).matmul(w).tanh().sum()
    >>> print(cf.autograd.graph.Graph(y, names={"w": w}))
    graph of float32[]: 3 nodes, 1 leaves, 80 bytes saved
    w  = leaf : float32[2, 3]
    %1 = matmul(float32[4, 2], w) : float32[4, 3] ... saves a 32 bytes
    %2 = tanh(%1) : float32[4, 3] ... saves out 48 bytes
    %3 = sum(%2) : float32[] ...
    """

    def __init__(self, *roots: Tensor, names: Mapping[str, Tensor] | None = None) -> None:
        self.roots = roots
        self.nodes: list[Node] = []  # oldest first
        self.leaves: list[Tensor] = []
        self._specs: dict[tuple[int, int], Spec] = {}
        self._given = {id(t): name for name, t in (names or {}).items()}
        self._walk()
        self._names = {id(n): f"%{i}" for i, n in enumerate(self.nodes, 1)}
        for i, leaf in enumerate(self.leaves):
            self._names[id(leaf)] = self._given.get(id(leaf), f"leaf{i}")

    def _walk(self) -> None:
        found: dict[int, Node | Tensor] = {}
        stack: list[Node | Tensor] = []
        for root in self.roots:
            edge = root.edge
            if edge is None:
                raise GradientError(
                    f"graph: {describe(root)} does not require grad, so it has no graph."
                )
            stack.append(edge[0])
            self._specs[id(edge[0]), edge[1]] = root.spec
        while stack:
            end = stack.pop()
            if id(end) in found:
                continue
            found[id(end)] = end
            if isinstance(end, Node):
                for e, spec in zip(end.edges, end.input_specs):
                    if e is not None:
                        stack.append(e[0])
                        if spec is not None:
                            self._specs[id(e[0]), e[1]] = spec
        self.nodes = [n for n in found.values() if isinstance(n, Node)]
        self.nodes.sort(key=lambda n: n.sequence_nr)
        # In the order in which the nodes name them.
        named = [e[0] for n in self.nodes for e in n.edges if e is not None]
        ends = [*named, *(r.edge[0] for r in self.roots if r.edge is not None)]
        self.leaves = list({id(t): t for t in ends if not isinstance(t, Node)}.values())

    @property
    def saved_bytes(self) -> int:
        """Bytes that the nodes keep for backward; a storage counts once.

        Of a value that a hook has packed away, those of what the hook gave: none in a checkpoint.
        """
        kept: dict[int, int] = {}
        for node in self.nodes:
            for saved in _saved(node).values():
                key = id(saved.memory)
                kept[key] = max(saved.nbytes, kept.get(key, 0))
        return sum(kept.values())

    def _input(self, edge: Edge | None, spec: Spec | None) -> str:
        if edge is None:
            return "·" if spec is None else str(spec)  # a number, or a tensor without gradient
        target, index = edge
        several = isinstance(target, Node) and target.output_count > 1
        return self._names[id(target)] + (f".{index}" if several else "")

    def _result(self, node: Node) -> str:
        found = [self._specs.get((id(node), i)) for i in range(node.output_count)]
        return _listed(["·" if spec is None else str(spec) for spec in found])

    def __iter__(self) -> Iterator[Node]:
        return iter(self.nodes)

    def __len__(self) -> int:
        return len(self.nodes)

    def __str__(self) -> str:
        of = ", ".join(describe(root) for root in self.roots)
        head = f"graph of {of}: {len(self.nodes)} nodes, {len(self.leaves)} leaves, "
        rows = [(self._names[id(t)], f"leaf : {describe(t)}", "", "") for t in self.leaves]
        for node in self.nodes:
            inputs = _listed([*map(self._input, node.edges, node.input_specs)])
            kept = ", ".join(f"{k} {s.size}" for k, s in _saved(node).items())
            rows.append((
                self._names[id(node)],
                f"{node.label}({inputs}) : {self._result(node)}",
                "" if node.line is None else f"at {node.line}",
                f"saves {kept}" if kept else "",
            ))  # fmt: skip
        name, text, line = (max((len(row[i]) for row in rows), default=0) for i in range(3))
        body = [
            f"{row[0]:<{name}} = {row[1]:<{text}}  {row[2]:<{line}}  {row[3]}".rstrip()
            for row in rows
        ]
        return "\n".join([head + bytes_text(self.saved_bytes) + " saved", *body])

    def dot(self) -> str:
        """The graph in graphviz's language."""
        rows = ["digraph contraflow {", '  node [shape=box, fontname="monospace"];']
        for leaf in self.leaves:
            label = f"{self._names[id(leaf)]}\\n{describe(leaf)}"
            rows.append(f'  "{self._names[id(leaf)]}" [label="{quoted(label)}", style=filled];')
        for node in self.nodes:
            line = "" if node.line is None else f"\\n{node.line}"
            kept = sum(s.nbytes for s in _saved(node).values())
            keeps = f"\\nsaves {bytes_text(kept)}" if kept else ""
            label = f"{node.label}\\n{self._result(node)}{line}{keeps}"
            rows.append(f'  "{self._names[id(node)]}" [label="{quoted(label)}"];')
            for e in node.edges:
                if e is not None:
                    rows.append(f'  "{self._names[id(e[0])]}" -> "{self._names[id(node)]}";')
        return "\n".join([*rows, "}"])


def _listed(texts: list[str]) -> str:
    """Some texts, of many the first ones."""
    if len(texts) <= 8:
        return ", ".join(texts)
    return f"{', '.join(texts[:3])}, ... {len(texts)} in all"


def _saved(node: Node) -> dict[str, Saved]:
    """The tensors that a node keeps, without the numbers."""
    return {name: s for name, s in node.saved.items() if isinstance(s, Saved)}


def quoted(label: str) -> str:
    """A label as graphviz takes it between quotes."""
    return label.replace('"', '\\"')


globals()["__getattr__"] = getter(__name__)
