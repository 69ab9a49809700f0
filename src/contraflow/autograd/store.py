"""A store of gradients: a mapping from tensor to gradient that leaves `.grad` alone."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, MutableMapping
from typing import Any

from contraflow.errors import GradientShapeError, describe
from contraflow.operation.context import state
from contraflow.tensors.node import Edge, Node
from contraflow.tensors.storage import serials
from contraflow.tensors.tensor import Tensor

# A gradient is asked for by a tensor or by a place in the graph. A node stands for its first
# output; each of several outputs is a pair of node and number.
GradientKey = Tensor | Node | Edge


class Gradients(MutableMapping[Any, Tensor]):
    """A mapping from tensors to gradients; a tensor is found by its place in the graph.

    A leaf stands for itself. A computed tensor is found by the node that made it, which is what the
    store keeps and lists: `store[h]` and `store[h.grad_fn]` are the same.

    >>> import contraflow as cf
    >>> w = cf.tensor([1.0, 2.0], requires_grad=True)
    >>> store = cf.autograd.Gradients()
    >>> for batch in (cf.ones(2), cf.full((2,), 3.0)):
    ...     found = cf.autograd.gradients((w * batch).sum(), into=store)
    >>> store[w]
    tensor([4., 4.])
    >>> (store + store)[w]
    tensor([8., 8.])
    >>> store.clear()
    >>> len(store)
    0
    """

    __slots__ = ("_held", "serial")

    def __init__(self, pairs: Mapping[Any, Tensor] | Iterable[tuple[Any, Tensor]] = ()) -> None:
        self.serial = next(serials)  # what was made before a recording is from outside
        self._held: dict[tuple[int, int], tuple[GradientKey, Tensor]] = {}
        self.update(pairs)

    def __getitem__(self, key: GradientKey) -> Tensor:
        found = self._held.get(_place(key)[0])
        if found is None:
            raise KeyError(self._missing(key))
        return found[1]

    def _missing(self, key: Any) -> str:
        what = repr(key) if isinstance(key, (Node, tuple)) else describe(key)
        if any(isinstance(end, (Node, tuple)) for end in self):
            return f"{what} is not a tensor that the loss was computed from"
        return (
            f"{what} is not a leaf that the loss was computed from; gradients(loss, all=True) "
            f"has every tensor"
        )

    def __setitem__(self, key: GradientKey, gradient: Tensor) -> None:
        place, end = _place(key)
        _check(key, gradient)
        state().context.touch_store(self)
        self._held[place] = end, gradient

    def __delitem__(self, key: GradientKey) -> None:
        place = _place(key)[0]
        if place not in self._held:
            raise KeyError(self._missing(key))
        state().context.touch_store(self)
        del self._held[place]

    def __contains__(self, key: object) -> bool:
        return isinstance(key, (Tensor, Node, tuple)) and _place(key)[0] in self._held

    def __iter__(self) -> Iterator[Any]:
        return (end for end, _ in self._held.values())

    def __len__(self) -> int:
        return len(self._held)

    def accumulate(self, key: GradientKey, gradient: Tensor) -> None:
        """Add a gradient to the one that is held, in memory of its own.

        >>> import contraflow as cf
        >>> w = cf.ones(2, requires_grad=True)
        >>> store = cf.autograd.Gradients({w: cf.ones(2)})
        >>> store.accumulate(w, cf.full((2,), 3.0))
        >>> store[w]
        tensor([4., 4.])
        """
        place, end = _place(key)
        _check(key, gradient)
        state().context.touch_store(self)
        held = self._held.get(place)
        self._held[place] = end, gradient if held is None else held[1] + gradient

    def __iadd__(self, other: Mapping[Any, Tensor]) -> Gradients:
        for key, gradient in other.items():
            self.accumulate(key, gradient)
        return self

    def __add__(self, other: Mapping[Any, Tensor]) -> Gradients:
        if not isinstance(other, Mapping):
            return NotImplemented
        made = Gradients(self)
        made += other
        return made

    def copy(self) -> Gradients:
        """Another store of the same gradients."""
        return Gradients(self)

    def __eq__(self, other: object) -> bool:
        return self is other

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"Gradients({', '.join(map(_describe, self))})"


def _place(key: Any) -> tuple[tuple[int, int], GradientKey]:
    """The place under which a gradient is held, and the tensor, node or edge that is listed."""
    if isinstance(key, Tensor):
        target, index = key.edge or (key, 0)
    elif isinstance(key, Node):
        target, index = key, 0
    elif isinstance(key, tuple) and len(key) == 2 and isinstance(key[0], (Node, Tensor)):
        target, index = key
    else:
        raise TypeError(f"Gradients: expected a tensor or a node, not {describe(key)}.")
    several = isinstance(target, Node) and target.output_count > 1
    return (id(target), index), (target, index) if several else target


def _check(key: GradientKey, gradient: Any) -> None:
    if not isinstance(gradient, Tensor):
        raise TypeError(f"Gradients: a gradient must be a tensor, not {describe(gradient)}.")
    if isinstance(key, Tensor) and key.shape != gradient.shape:
        raise GradientShapeError(
            f"Gradients: {describe(gradient)} cannot be the gradient of {describe(key)}.",
            op="Gradients",
            shape=gradient.shape,
            expected=key.shape,
        )


def _describe(end: GradientKey) -> str:
    if isinstance(end, tuple):
        return f"{end[0]!r} {end[1]}"
    return repr(end) if isinstance(end, Node) else describe(end)
