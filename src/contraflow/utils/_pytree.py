"""Functions of the leaves of nested containers, under PyTorch's path, which is not public there."""

from __future__ import annotations

from collections import OrderedDict, defaultdict
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple


class TreeSpec(NamedTuple):
    """A container without its leaves: its type, its keys, and the same of what is in it."""

    type: Any  # None for a leaf
    context: Any
    children_specs: tuple[TreeSpec, ...]

    @property
    def num_leaves(self) -> int:
        """The number of leaves."""
        return 1 if self.type is None else sum(c.num_leaves for c in self.children_specs)


LEAF = TreeSpec(None, None, ())

# Classes of programs that are containers: what is in one and its context, and the way back.
_registered: dict[type, tuple[Callable[[Any], Any], Callable[[Any, Any], Any]]] = {}


def register_pytree_node(
    cls: type,
    flatten_fn: Callable[[Any], tuple[Iterable[Any], Any]],
    unflatten_fn: Callable[[Any, Any], Any],
    **kwargs: Any,
) -> None:
    """Let objects of a class be containers: one function takes them apart, one makes them.

    PyTorch's other arguments (names in files, keys of what is inside) have no effect.

    >>> class Pair:
    ...     def __init__(self, a, b):
    ...         self.a, self.b = a, b
    >>> register_pytree_node(Pair, lambda p: ([p.a, p.b], None), lambda ab, _: Pair(*ab))
    >>> tree_map(lambda x: x + 1, Pair(1, 2)).b
    3
    """
    if cls in _registered:
        raise ValueError(f"register_pytree_node: {cls.__name__} is registered already.")
    _registered[cls] = flatten_fn, unflatten_fn


def _dict_flatten(tree: dict[Any, Any]) -> tuple[list[Any], list[Any]]:
    return list(tree.values()), list(tree)


def _dict_flatten_with_keys(tree: dict[Any, Any]) -> tuple[list[Any], list[Any]]:
    """Keys of leaves are not kept, so this is `_dict_flatten`."""
    return _dict_flatten(tree)


def _dict_unflatten(values: Iterable[Any], context: list[Any]) -> dict[Any, Any]:
    return dict(zip(context, values))


def tree_flatten(
    tree: Any, is_leaf: Callable[[Any], bool] | None = None
) -> tuple[list[Any], TreeSpec]:
    """The leaves in order, and what is left of the containers.

    >>> leaves, spec = tree_flatten({"a": 1, "b": (2, [3])})
    >>> leaves
    [1, 2, 3]
    >>> tree_unflatten([4, 5, 6], spec)
    {'a': 4, 'b': (5, [6])}
    """
    kind = type(tree)
    if is_leaf is not None and is_leaf(tree):
        return [tree], LEAF
    children: Iterable[Any]
    context: Any
    if kind in _registered:
        children, context = _registered[kind][0](tree)
    elif kind in (dict, OrderedDict, defaultdict):
        children = tree.values()
        context = (list(tree), tree.default_factory if kind is defaultdict else None)
    elif kind in (list, tuple) or (isinstance(tree, tuple) and hasattr(tree, "_fields")):
        children, context = tree, None
    else:
        return [tree], LEAF
    leaves: list[Any] = []
    specs = []
    for child in children:
        found, spec = tree_flatten(child, is_leaf)
        leaves += found
        specs.append(spec)
    return leaves, TreeSpec(kind, context, tuple(specs))


def tree_unflatten(leaves: Iterable[Any], treespec: TreeSpec) -> Any:
    """The containers with other leaves."""
    return _filled(iter(leaves), treespec)


def _filled(leaves: Any, spec: TreeSpec) -> Any:
    if spec.type is None:
        return next(leaves)
    children = [_filled(leaves, child) for child in spec.children_specs]
    if spec.type in _registered:
        return _registered[spec.type][1](children, spec.context)
    if spec.type in (dict, OrderedDict):
        return spec.type(zip(spec.context[0], children))
    if spec.type is defaultdict:
        return defaultdict(spec.context[1], zip(spec.context[0], children))
    return spec.type(*children) if hasattr(spec.type, "_fields") else spec.type(children)


def tree_leaves(tree: Any, is_leaf: Callable[[Any], bool] | None = None) -> list[Any]:
    """The leaves in order."""
    return tree_flatten(tree, is_leaf)[0]


def tree_map(
    func: Callable[..., Any], tree: Any, *rests: Any, is_leaf: Callable[[Any], bool] | None = None
) -> Any:
    """The same containers, with the results of a function of the leaves."""
    leaves, spec = tree_flatten(tree, is_leaf)
    others = [tree_flatten(rest, is_leaf)[0] for rest in rests]
    return tree_unflatten([func(*each) for each in zip(leaves, *others)], spec)


def tree_map_only(type_or_types: Any, func: Callable[[Any], Any], tree: Any) -> Any:
    """`tree_map` of the leaves that have a type; others stay."""
    return tree_map(lambda x: func(x) if isinstance(x, type_or_types) else x, tree)
