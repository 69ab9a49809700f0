"""Optimizer state: values kept for each parameter, as users read and change them.

Counters are host scalars and running means are tensors that recordings know. So a value that is put
in their place becomes one too: a number makes another counter; None, or deleting an entry, lets it
begin anew. It happens at once, so that a recording only ever sees finished state.
"""

from __future__ import annotations

import weakref
from collections import defaultdict
from collections.abc import Mapping, MutableMapping
from typing import TYPE_CHECKING, Any

from contraflow.tensors.host_scalar import HostScalar, StepScalar
from contraflow.tensors.tensor import Tensor

if TYPE_CHECKING:
    from contraflow.optim.optimizer import Optimizer

OptimizerState = dict[str, Any]


class ParameterState(OptimizerState):
    """The state of one parameter. Compiled functions observe what users read and write of it.

    >>> import contraflow as cf
    >>> w = cf.ones(2, requires_grad=True)
    >>> optimizer = cf.optim.Adam([w])
    >>> optimizer.state[w]["step"] = 10
    >>> optimizer.state[w]["exp_avg"] = None
    >>> optimizer.state[w]["step"], optimizer.state[w]["exp_avg"]
    (StepScalar(10), tensor([0., 0.]))
    """

    keeps_for_users = True

    def __init__(self, owner: Optimizer, parameter: Tensor) -> None:
        super().__init__()
        self._initial: frozenset[str] = frozenset()  # the names of what an optimizer begins with
        self._owner, self._parameter = weakref.ref(owner), parameter

    def become(self, entries: OptimizerState, initial: OptimizerState) -> None:
        """Hold these entries, of which an optimizer begins with the initial ones."""
        self._initial = frozenset(initial)
        dict.clear(self)
        dict.update(self, entries)

    def __setitem__(self, name: str, value: Any) -> None:
        held = self.get(name)
        owner = self._owner()
        if name not in self._initial or owner is None or value is held:
            super().__setitem__(name, value)
        elif value is None:
            owner.begin_anew(self._parameter, name)
        else:
            super().__setitem__(name, as_counter(held, value))
            if isinstance(held, (HostScalar, Tensor)):
                owner._parted = True
                owner._restructured()

    def __delitem__(self, name: str) -> None:
        owner = self._owner()
        if name in self and name in self._initial and owner is not None:
            owner.begin_anew(self._parameter, name)
        else:
            super().__delitem__(name)

    def clear(self) -> None:
        for name in list(self):
            self.pop(name, None)

    pop, popitem = MutableMapping.pop, MutableMapping.popitem
    update, setdefault = MutableMapping.update, MutableMapping.setdefault

    def __ior__(self, other: Any) -> Any:  # type: ignore[misc]
        self.update(other)
        return self

    def __reduce__(self) -> Any:  # an optimizer takes its state over again
        return dict, (dict(self),)


def as_counter(held: Any, value: Any) -> Any:
    """A value that is put in the place of a counter, as a counter of its own."""
    if not isinstance(held, HostScalar) or isinstance(value, HostScalar):
        return value
    number = value.item() if isinstance(value, Tensor) else value
    return StepScalar(type(held.value)(number))


class States(defaultdict[Tensor, OptimizerState]):
    """The state of all parameters; those of an optimizer always have their initial entries."""

    def __init__(self, states: Mapping[Tensor, OptimizerState], owner: Optimizer) -> None:
        super().__init__(dict)
        self._owner = weakref.ref(owner)
        for parameter, entries in states.items():
            super().__setitem__(parameter, entries)

    def is_of(self, owner: Optimizer) -> bool:
        """Whether this is the state of an optimizer."""
        return self._owner() is owner

    def __setitem__(self, parameter: Tensor, entries: OptimizerState) -> None:
        super().__setitem__(parameter, entries)
        owner = self._owner()
        if owner is not None and not isinstance(entries, ParameterState):
            owner.begin_anew(parameter)

    def __delitem__(self, parameter: Tensor) -> None:
        super().__delitem__(parameter)
        owner = self._owner()
        if owner is not None:
            owner.begin_anew(parameter)

    def clear(self) -> None:
        for parameter in list(self):
            del self[parameter]

    pop, popitem, update = MutableMapping.pop, MutableMapping.popitem, MutableMapping.update

    def __ior__(self, other: Any) -> Any:  # type: ignore[misc]
        self.update(other)
        return self

    def __reduce__(self) -> Any:
        return dict, (dict(self),)
