"""Backward on several threads, with the bits of the sequential order.

A node may run when all its consumers have (Kahn). Cotangents are folded in the order of their
consumers' sequence numbers, newest first, which is the order in which they arrive one after the
other: one that comes early waits for its turn. So nothing depends on how threads are scheduled.

Workers run with a copy of the caller's context variables. Hooks run one at a time. An exception in
any worker stops all, and the caller raises it. A worker waits for work, the end or an error, and a
running one announces each of these.
"""

from __future__ import annotations

import contextvars
import functools
import heapq
import threading
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from contraflow import threads, thresholds
from contraflow.graph import engine
from contraflow.graph.cotangent import Cotangent
from contraflow.graph.engine import Pass
from contraflow.operation.context import changed, state
from contraflow.shapes import numel
from contraflow.tensors.methods import method
from contraflow.tensors.node import Edge, Node, nodes_below
from contraflow.tensors.tensor import Tensor

Gift = tuple[int, Cotangent]  # which output it is for, and the cotangent


def order(workers: int, caller: str = "backward") -> Callable[..., Pass] | None:
    """How backward goes through the nodes with this many workers."""
    if isinstance(workers, bool) or not isinstance(workers, int) or workers < 1:
        raise ValueError(f"{caller}: workers is {workers!r}; it must be a positive whole number.")
    return None if workers == 1 else functools.partial(ParallelPass, workers)


@method
def backward(
    self: Tensor,
    gradient: Tensor | None = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    inputs: Tensor | Sequence[Tensor] | None = None,
    workers: int = 1,
) -> None:
    """Accumulate the gradients of this tensor into the `.grad` of its leaves.

    With several `workers`, branches of a large graph run at once; the bits stay the same.

    >>> import contraflow as cf
    >>> x = cf.tensor([1.0, 2.0], requires_grad=True)
    >>> (x * x).sum().backward()
    >>> x.grad
    tensor([2., 4.])
    """
    targets = (inputs,) if isinstance(inputs, Tensor) else inputs
    if targets is not None and not all(isinstance(x, Tensor) for x in targets):
        raise TypeError("backward: inputs must be a tensor or a sequence of tensors.")
    how = order(workers)
    engine.backward((self,), (gradient,), retain_graph, create_graph, targets, how)


class _Arrivals:
    """A node or leaf: what has arrived, which consumers are still expected, and whose turn it is.

    These take the place of the frontier, on which cotangents arrive in one order only.
    """

    def __init__(self, target: Node | Tensor) -> None:
        self.target = target
        self.arrived: list[Any] = [None] * getattr(target, "output_count", 1)
        self.consumers: list[int] = []  # sequence numbers, newest first
        self.turn = 0  # how many of them have been folded in
        self.waiting: dict[int, list[Gift]] = {}
        self.folding = False  # a thread folds, and will take what arrives meanwhile


class ParallelPass(Pass):
    """A pass whose nodes are run by several threads.

    The caller only waits: an interrupt in the code of a condition would leave its lock taken.
    """

    def __init__(self, workers: int, *how: Any) -> None:
        super().__init__(*how)
        self.workers = workers
        self.ends: dict[int, _Arrivals] = {}
        self.news = threading.Condition()  # guards everything below
        self.ready: list[tuple[int, _Arrivals]] = []
        self.left = 0  # nodes that have not run yet
        self.error: BaseException | None = None
        self.hooks = threading.RLock()

    def run(self, starts: Sequence[tuple[Edge, Tensor]]) -> None:
        nodes = nodes_below(edge for edge, _ in starts)[::-1]
        specs = (spec for node in nodes for spec in node.input_specs if spec is not None)
        small = sum(numel(spec.shape) for spec in specs) < thresholds.parallel_backward
        if small or state().context.is_recording:
            super().run(starts)
            return
        self.starts = starts
        if self.targets is not None:
            self.prepare(starts)
        self._count(nodes, starts)
        with changed(grad=self.create_graph, anomaly=False, autocast=None, task=self):
            tasks = [
                threads.start(contextvars.copy_context().run, self._work)
                for _ in range(min(self.workers, len(nodes)))
            ]
            try:
                threads.finish(tasks)
            except KeyboardInterrupt as error:
                self.error = error  # nodes that run end, and no others begin
                threads.finish(tasks)
            if self.error is not None:
                raise self.error
            for end in self.ends.values():
                if not isinstance(end.target, Node) and end.arrived[0] is not None:
                    self.finish_leaf(end.target, end.arrived[0])

    # --- before ---------------------------------------------------------------------------

    def _end(self, target: Node | Tensor) -> _Arrivals:
        if id(target) not in self.ends:
            self.ends[id(target)] = _Arrivals(target)
            self.left += isinstance(target, Node)
        return self.ends[id(target)]

    def _count(self, nodes: Sequence[Node], starts: Sequence[tuple[Edge, Tensor]]) -> None:
        """Note who is to hear from whom, and what can run at once."""
        for edge, seed in starts:
            if self.goes_to(edge):
                self._fold(self._end(edge[0]), [(edge[1], seed)])
        for node in nodes:
            if id(node) not in self.ends or not self.runs(node):
                continue
            targets = {id(e[0]): e[0] for e in node.edges if e is not None and self.goes_to(e)}
            for target in targets.values():
                self._end(target).consumers.append(node.sequence_nr)
        with self.news:
            for end in self.ends.values():
                if not end.consumers:
                    self._announce(end)

    def _fold(self, end: _Arrivals, gifts: Iterable[Gift]) -> None:
        for index, g in gifts:
            held = end.arrived[index]
            end.arrived[index] = g if held is None else self.cotangents.add(held, g)

    # --- running --------------------------------------------------------------------------

    def _announce(self, end: _Arrivals) -> None:
        """All cotangents of a node or leaf are there. Called with `news` held."""
        if isinstance(end.target, Node):
            heapq.heappush(self.ready, (-end.target.sequence_nr, end))
            self.news.notify()

    def _work(self) -> None:
        """Run ready nodes until there are none left, or something went wrong."""
        try:
            while (end := self._next()) is not None:
                self._step(end)
        except BaseException as error:
            with self.news:
                self.error = self.error or error
                self.news.notify_all()

    def _next(self) -> _Arrivals | None:
        with self.news:
            while self.left and not self.ready and self.error is None:
                self.news.wait()
            if not self.left or self.error is not None:
                self.news.notify_all()
                return None
            return heapq.heappop(self.ready)[1]

    def _step(self, end: _Arrivals) -> None:
        """Run one node and hand its gradients on."""
        node = end.target
        assert isinstance(node, Node)
        cotangents, end.arrived = end.arrived, []
        gifts: dict[int, list[Gift]] = {}
        if any(g is not None for g in cotangents):
            for edge, g in self._visit(node, cotangents):
                if self.goes_to(edge):
                    gifts.setdefault(id(edge[0]), []).append((edge[1], g))
        if self.runs(node):
            for key in {id(e[0]) for e in node.edges if e is not None and self.goes_to(e)}:
                self._arrive(self.ends[key], node.sequence_nr, gifts.get(key, []))
        with self.news:
            self.left -= 1
            if not self.left:
                self.news.notify_all()

    def _visit(self, node: Node, cotangents: list[Any]) -> Iterable[tuple[Edge, Cotangent]]:
        if node.watchers is not None:
            with self.hooks:
                return self.visit(node, cotangents)
        return self.visit(node, cotangents)

    def _arrive(self, end: _Arrivals, consumer: int, gifts: list[Gift]) -> None:
        """Take a consumer's gifts, and fold all whose turn has come."""
        with self.news:
            end.waiting[consumer] = gifts
            if end.folding:
                return
            end.folding = True
        while True:
            with self.news:
                if end.turn == len(end.consumers):
                    self._announce(end)
                    return
                due = end.consumers[end.turn]
                if due not in end.waiting:
                    end.folding = False
                    return
                taken = end.waiting.pop(due)
                end.turn += 1
            self._fold(end, taken)
