"""What the tests of the engine share: short leaves, exact refusals, and a count of storages."""

from __future__ import annotations

import gc
import inspect
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import contraflow as cf
from contraflow.operation.op import REGISTRY
from contraflow.tensors.node import Node
from contraflow.tensors.storage import Storage
from contraflow.tensors.tensor import Tensor


def place(marker: str) -> str:
    """`file:line` of the line, in the caller's file, that ends in the comment `# marker`."""
    frame = inspect.currentframe()
    assert frame is not None
    assert frame.f_back is not None
    path = Path(frame.f_back.f_code.co_filename)
    lines = path.read_text().splitlines()
    (found,) = [i for i, text in enumerate(lines, 1) if text.endswith(f"# {marker}")]
    return f"{path.name}:{found}"


def leaf(*values: float) -> Tensor:
    return cf.tensor(list(values), dtype=cf.float64, requires_grad=True)


def nodes_below(t: Tensor) -> Iterator[Node]:
    """Every node that the gradient of `t` may reach; some come more than once."""
    stack = [t.grad_fn]
    while stack:
        node = stack.pop()
        assert node is not None
        yield node
        stack.extend(e[0] for e in node.next_functions if e and isinstance(e[0], Node))


@contextmanager
def refused(error: type[Exception], *parts: str) -> Iterator[None]:
    """The block raises `error` with exactly this text, given in parts."""
    with pytest.raises(error) as caught:
        yield
    # Errors of backward that are told apart are subclasses; test_graph_errors.py looks at those.
    told_apart = error is cf.GradientError
    both = error is ValueError and type(caught.value) is cf.MismatchError
    assert type(caught.value) is error or told_apart or both
    assert str(caught.value) == "".join(parts)


# The two fixtures, declared as such by the test files that use them.


def without_collector() -> Iterator[None]:
    """Reference counts alone must free everything."""
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def storages(monkeypatch: pytest.MonkeyPatch) -> Counter:
    """A count of the storages made from now on."""
    return Counter(monkeypatch)


class Counter:
    """Counts the storages that are alive, those of at least `size` elements."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, size: int = 2) -> None:
        self.live: weakref.WeakSet[Storage] = weakref.WeakSet()
        self.peak = 0
        make, of_array, of_buffer = Storage.__init__, Tensor.of_array, Tensor.of_buffer

        def count(storage: Storage, data: Any) -> None:
            if data is not None and data.size >= size:
                self.live.add(storage)
                self.peak = max(self.peak, len(self.live))

        def counted(storage: Storage, data: Any, device: str = "cpu") -> None:
            make(storage, data, device)
            count(storage, data)

        def counted_of_array(array: np.ndarray) -> Tensor:  # which makes its storage itself
            t = of_array(array)
            count(t.storage, array)
            return t

        def counted_of_buffer(buffer: Any, device: str) -> Tensor:  # as this does
            t = of_buffer(buffer, device)
            count(t.storage, buffer)
            return t

        monkeypatch.setattr(Storage, "__init__", counted)
        monkeypatch.setattr(Tensor, "of_array", staticmethod(counted_of_array))
        monkeypatch.setattr(Tensor, "of_buffer", staticmethod(counted_of_buffer))

    def restart(self) -> int:
        """Forget the peak; how many are alive now."""
        self.peak = len(self.live)
        return self.peak


@contextmanager
def temporary(decorator: Any, body: Callable[..., Any], **fields: Any) -> Iterator[Any]:
    op = decorator(method=False, **fields)(body)
    try:
        yield op
    finally:
        del REGISTRY[op.name]


def fields_of(node: Node) -> list[Any]:
    """The values of all fields of a node."""
    names = (name for kind in type(node).__mro__ for name in getattr(kind, "__slots__", ()))
    return [getattr(node, name) for name in names if name != "__weakref__"]
