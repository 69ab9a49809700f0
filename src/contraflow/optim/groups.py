"""Parameter groups: an optimizer's hyper-parameters, as users read and change them.

Numbers live in host scalars (`host_scalar.py`), so that a schedule changes the learning rate of a
compiled step without compiling anything; every other change is one of structure, which recordings
notice.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping
from numbers import Integral, Real
from typing import TYPE_CHECKING, Any

from contraflow.tensors.epoch import Structure
from contraflow.tensors.host_scalar import HostScalar
from contraflow.tensors.symbol import is_symbol, symbols_in
from contraflow.tensors.tensor import Tensor

if TYPE_CHECKING:
    from contraflow.optim.optimizer import Optimizer


class ParamGroup(dict[str, Any]):
    """Parameters and their hyper-parameters: a dict whose numbers live in host scalars.

    Reading an entry gives the number, or its symbol while recording. Setting a number where one
    is writes into the same host scalar; any other change is one of structure (`changed_at`).

    >>> group = ParamGroup({"lr": 0.1, "betas": (0.9, 0.999), "nesterov": False})
    >>> group["lr"] = 0.01
    >>> group
    {'lr': 0.01, 'betas': (0.9, 0.999), 'nesterov': False}
    """

    def __init__(self, entries: Mapping[str, Any]) -> None:
        super().__init__()
        self._asked: dict[str, dict[Callable[[Any], Any], Any]] = {}  # answers to questions
        self.changed_at = 0  # the structure epoch of the last change
        self.owner: weakref.ref[Optimizer] | None = None
        self.update(entries)

    def uses(self, name: str) -> bool:
        """Whether a number is nonzero; from now on a change of that is a change of structure."""
        answer: bool = self._ask(name, _is_used)
        return answer

    def fixed(self, name: str) -> Any:
        """A number as a constant: from now on a change of it is a change of structure."""
        return self._ask(name, _itself)

    def _ask(self, name: str, question: Callable[[Any], Any]) -> Any:
        answers = self._asked.setdefault(name, {})
        if question not in answers:
            held = super().__getitem__(name)
            answers[question] = question(held.value if isinstance(held, HostScalar) else held)
        return answers[question]

    @property
    def registered_in(self) -> Optimizer | None:
        """The optimizer whose group it is."""
        return None if self.owner is None else self.owner()

    def restructured(self) -> None:
        """Tell recordings that something else than a number has changed."""
        self.changed_at = Structure.epoch + 1
        Structure.changed()

    def regrouped(self) -> None:
        """The same, and create the state that is missing now."""
        self.restructured()
        owner = self.registered_in
        if owner is not None:
            owner.complete_state(self)

    def __getitem__(self, name: str) -> Any:
        return _read(super().__getitem__(name))

    def __setitem__(self, name: str, value: Any) -> None:
        if name == "params" and not (isinstance(value, Parameters) and value.is_of(self)):
            value = Parameters([value] if isinstance(value, Tensor) else value, self)
        if self._asked.get(name):  # what is answered must be known
            for symbol in symbols_in(value):
                float(symbol)
        fits = name in self and _write(super().get(name), value)
        if not fits:
            super().__setitem__(name, _pack(value))
        asked = self._asked.get(name, {})
        answers = {question: question(value) for question in asked}
        if fits and answers == asked:
            return
        asked.update(answers)
        self.regrouped()

    def __delitem__(self, name: str) -> None:
        super().__delitem__(name)
        self._asked.pop(name, None)
        self.restructured()

    # dict's own methods would hand out the host scalars. That __iter__ is overridden also makes
    # dict(group) and {**group} read through __getitem__.

    def __iter__(self) -> Iterator[str]:
        return super().__iter__()

    def items(self) -> Any:
        return [(name, self[name]) for name in self]

    def values(self) -> Any:
        return [self[name] for name in self]

    def get(self, name: str, default: Any = None) -> Any:
        return _read(super().get(name, default))

    def setdefault(self, name: str, default: Any = None) -> Any:
        if name not in self:
            self[name] = default
        return self[name]

    def update(self, *entries: Any, **named: Any) -> None:
        for name, value in dict(*entries, **named).items():
            self[name] = value

    def pop(self, name: str, *default: Any) -> Any:
        if name not in self and default:
            return default[0]
        value = self[name]
        del self[name]
        return value

    def popitem(self) -> tuple[str, Any]:
        name = next(reversed(self.keys()))
        return name, self.pop(name)

    def clear(self) -> None:
        for name in list(self):
            del self[name]

    def copy(self) -> dict[str, Any]:
        return dict(self.items())

    def __eq__(self, other: object) -> bool:
        return self.copy() == other

    __hash__ = None

    def __or__(self, other: Any) -> Any:
        return self.copy() | other

    def __ror__(self, other: Any) -> Any:
        return other | self.copy()

    def __ior__(self, other: Any) -> Any:
        self.update(other)
        return self

    def __repr__(self) -> str:
        return repr(self.copy())

    def __reduce__(self) -> Any:  # a copy has host scalars of its own
        return ParamGroup, (self.copy(),)


def _is_number(value: Any) -> bool:
    return isinstance(value, Real) and not isinstance(value, bool)


def _is_used(value: Any) -> bool:
    return not _is_number(value) or value != 0


def _itself(value: Any) -> Any:
    return value


def _pack(value: Any) -> Any:
    """A number as a host scalar, a tuple of numbers as several, anything else as it is."""
    if _is_number(value):
        return HostScalar(int(value) if isinstance(value, Integral) else float(value))
    if isinstance(value, tuple) and value and all(map(_is_number, value)):
        return tuple(map(_pack, value))
    return value


def _read(held: Any) -> Any:
    if isinstance(held, HostScalar):
        return held.get()
    if isinstance(held, tuple) and held and isinstance(held[0], HostScalar):
        return tuple(cell.get() for cell in held)
    return held


def _write(held: Any, value: Any) -> bool:
    """Put a value into the host scalars that are there; False if it does not fit them."""
    if isinstance(held, HostScalar):
        if isinstance(value, Tensor):
            held.set(value if value.storage.is_recorded else value.item())
        elif not _is_number(value):
            return False
        elif isinstance(held.value, float):
            held.set(value if is_symbol(value) else float(value))
        elif isinstance(value, Integral):
            held.set(value if is_symbol(value) else int(value))
        else:
            return False
        return True
    if isinstance(held, tuple) and isinstance(value, (tuple, list)) and len(held) == len(value):
        return all(_write(cell, v) for cell, v in zip(held, value))
    return held is value


class Parameters(list[Any]):
    """The parameters of a group: a list that tells its group of every change."""

    def __init__(self, parameters: Iterable[Any], group: ParamGroup) -> None:
        super().__init__(parameters)
        self._group = weakref.ref(group)

    def is_of(self, group: ParamGroup) -> bool:
        """Whether these are the parameters of a group."""
        return self._group() is group

    def _become(self, parameters: list[Any]) -> None:
        list.__setitem__(self, slice(None), parameters)
        group = self._group()
        if group is not None:
            group.regrouped()

    def __reduce__(self) -> Any:  # a group takes its parameters over again
        return list, (list(self),)


class ParamGroups(list[ParamGroup]):
    """The groups of an optimizer. A dict that is put among them becomes a ParamGroup.

    Whatever changes the list is checked first, and then the state of all parameters is complete.
    """

    def __init__(self, groups: Iterable[Any] = (), owner: Optimizer | None = None) -> None:
        super().__init__()
        self._owner = None if owner is None else weakref.ref(owner)
        self._become(list(groups))

    def is_of(self, owner: Optimizer) -> bool:
        """Whether these are the groups of an optimizer."""
        return self._owner is not None and self._owner() is owner

    def _become(self, groups: list[Any]) -> None:
        owner = None if self._owner is None else self._owner()
        if owner is None:
            list.__setitem__(self, slice(None), groups)
            return
        adopted, known = owner.adopt_groups(groups), set(map(id, self))
        list.__setitem__(self, slice(None), adopted)
        for group in adopted:
            if id(group) not in known:
                owner.complete_state(group)
                owner.part_counters(group)
        owner._restructured()

    def __reduce__(self) -> Any:  # an optimizer takes its groups over again
        return list, (list(self),)


def _changing(name: str) -> Callable[..., Any]:
    """A method of lists that changes them, by way of a list that is checked before."""
    change = getattr(list, name)

    def method(self: ParamGroups | Parameters, *args: Any, **kwargs: Any) -> Any:
        items = list(self)
        result = change(items, *args, **kwargs)
        self._become(items)
        return self if result is items else result

    method.__name__, method.__doc__ = name, change.__doc__
    return method


for _name in (
    "__setitem__", "__delitem__", "__iadd__", "append", "extend", "insert", "pop", "remove",
    "clear", "reverse", "sort", "__imul__",
):  # fmt: skip
    setattr(ParamGroups, _name, _changing(_name))
    setattr(Parameters, _name, _changing(_name))
