"""Backward of composites without rules: their parts are recomputed and differentiated.

So a composite is one node of the graph that keeps of its inputs those whose elements the gradients
depend on, and nothing else; its backward is one function of those, which eager mode makes one
program of. Its parts might have kept something else: before such an input is overwritten, the node
gets a copy (`Storage.lend`).
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

from contraflow.graph import engine
from contraflow.graph.saved import apart
from contraflow.operation import core
from contraflow.operation.context import changed, state
from contraflow.operation.gradient_rules import Backward
from contraflow.operation.op import Op
from contraflow.spec import Params, Spec
from contraflow.tensors.tensor import Tensor


class Recomputation(Backward):
    """Runs the body of a composite on what it was given, and goes back through its parts."""

    def run(
        self, op: Op, named: list[Any], params: Params, specs: Sequence[Spec | None]
    ) -> list[Any]:
        """The gradient of each input, None where none is needed."""
        cotangents, given = named[: op.output_count], self._given(named[op.output_count :], specs)
        create_graph = state().grad
        with changed(grad=True):
            # Each at a place of its own, beyond which gradients are not followed.
            inputs = [
                apart(x, x.edge, None) if needed else x for x, needed in zip(given, self.needs)
            ]
            found = op.body(*inputs, **params)
            outs = found if isinstance(found, tuple) else (found,)
            pairs = [
                (out, g)
                for out, g in zip(outs, cotangents)
                if g is not None and isinstance(out, Tensor) and out.requires_grad
            ]
            targets = [x for x, needed in zip(inputs, self.needs) if needed]
            grads = iter(
                engine.grad(
                    [out for out, _ in pairs], targets, [g for _, g in pairs],
                    None, create_graph, allow_unused=True,
                )
            )  # fmt: skip
        return [next(grads) if needed else None for needed in self.needs]

    def _given(self, saved: Sequence[Any], specs: Sequence[Spec | None]) -> list[Any]:
        """All inputs. Those whose elements the gradients do not depend on were not saved."""
        full = core.full
        given = [None if spec is None else full(spec.shape, 0, dtype=spec.dtype) for spec in specs]
        for i, x in zip(self.saved_inputs, saved):
            given[i] = x
        return given


@lru_cache(maxsize=1024)
def recomputation(needs: tuple[bool, ...], saved: tuple[int, ...]) -> Recomputation:
    """The backward of a composite that saves the inputs `saved`, for those marked in `needs`."""
    return Recomputation(needs, (), saved, (), False, False, False)
