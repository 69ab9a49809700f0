"""The base of all optimizers: parameter groups, state, and what goes around an update.

Hyper-parameters and step counters are host scalars (`hostscalar.py`): Python floats in eager mode,
0-d float64 tensors while a step is being recorded. So an update computes with them as both can
(`beta**step`, `x**0.5`, `choose`), never asks for their value, and a schedule changes the learning
rate of a compiled step without compiling anything. What an update must decide in Python it asks of
`ParamGroup.uses` and `ParamGroup.fixed`, which a recording guards on.

The parameters of a group that have always been updated together share their step counters, so that
what follows from a counter is computed once for all of them.
"""

from __future__ import annotations

import copy
import weakref
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from numbers import Integral, Real
from typing import TYPE_CHECKING, Any, NamedTuple

from contraflow import config, native
from contraflow.autograd.modes import enable_grad, no_grad
from contraflow.compile import compile
from contraflow.dispatch import changed
from contraflow.dispatch import state as thread_state
from contraflow.errors import describe
from contraflow.hooks import Structure
from contraflow.hostscalar import HostScalar, StepScalar
from contraflow.nn.module import clear_gradients
from contraflow.ops.elementwise import where
from contraflow.optim.hooks import (
    HookedOptimizer,
    register_optimizer_step_post_hook,
    register_optimizer_step_pre_hook,
)
from contraflow.storage import user_line
from contraflow.tensor import Tensor

if TYPE_CHECKING:
    from contraflow.capture.compiled import Compiled

__all__ = [
    "Optimizer",
    "ParamGroup",
    "register_optimizer_step_post_hook",
    "register_optimizer_step_pre_hook",
]

State = dict[str, Any]


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
        """Whether a number is other than zero. From now on a change of this is one of structure."""
        answer: bool = self._ask(name, _is_used)
        return answer

    def fixed(self, name: str) -> Any:
        """A number as it is now. From now on every change of it is one of structure."""
        return self._ask(name, _itself)

    def _ask(self, name: str, question: Callable[[Any], Any]) -> Any:
        answers = self._asked.setdefault(name, {})
        if question not in answers:
            held = super().__getitem__(name)
            answers[question] = question(held.value if isinstance(held, HostScalar) else held)
        return answers[question]

    def restructured(self) -> None:
        """Tell recordings that something else than a number has changed."""
        Structure.changed()
        self.changed_at = Structure.epoch

    def __getitem__(self, name: str) -> Any:
        return _read(super().__getitem__(name))

    def __setitem__(self, name: str, value: Any) -> None:
        fits = name in self and _write(super().get(name), value)
        if not fits:
            super().__setitem__(name, _pack(value))
        asked = self._asked.get(name, {})
        answers = {question: question(value) for question in asked}
        if fits and answers == asked:
            return
        asked.update(answers)
        self.restructured()
        owner = self.owner() if self.owner is not None else None
        if owner is not None:
            owner.complete_state(self)

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
            held.set(float(value))
        elif isinstance(value, Integral):
            held.set(int(value))
        else:
            return False
        return True
    if isinstance(held, tuple) and isinstance(value, (tuple, list)) and len(held) == len(value):
        return all(_write(cell, v) for cell, v in zip(held, value))
    return held is value


class Updated(NamedTuple):
    """A parameter about to be updated, with its gradient and its state."""

    parameter: Tensor
    grad: Tensor
    state: State


def together(updated: Sequence[Updated]) -> Iterator[tuple[State, list[Updated]]]:
    """The parameters that share their step counters, which count one more step, with a state."""
    shared: dict[HostScalar, list[Updated]] = {}
    for u in updated:
        shared.setdefault(u.state["step"], []).append(u)
    for step, members in shared.items():
        step.set(step.get() + 1)
        yield members[0].state, members


def choose(condition: Any, a: Any, b: Any) -> Any:
    """`a` or `b`, by a condition on host scalars."""
    if isinstance(condition, Tensor):
        return where(condition, a, b)
    return a if condition else b


def directed(group: ParamGroup, p: Tensor, g: Tensor) -> Tensor:
    """The gradient to go against; weight decay adds to it, or shrinks the parameter at once."""
    if group["maximize"]:
        g = -g
    if group.uses("weight_decay"):
        if group.get("decoupled_weight_decay"):
            p.mul_(1 - group["lr"] * group["weight_decay"])
        else:
            g = g + p * group["weight_decay"]
    return g


class Optimizer(HookedOptimizer):
    """The base of optimizers. One writes `initial_state` and `update`.

    `params` is an iterable of tensors, or of dicts that each hold "params" and the
    hyper-parameters in which that group differs from `defaults`.
    """

    def __init__(self, params: Iterable[Any], defaults: Mapping[str, Any]) -> None:
        name = type(self).__name__
        if isinstance(params, Tensor):
            raise TypeError(f"{name}: params is one tensor; pass a list: [tensor].")
        if not isinstance(params, Iterable):
            raise TypeError(
                f"{name}: params is {type(params).__name__}; pass tensors, or dicts with 'params'"
                f"{': model.parameters()' if hasattr(params, 'parameters') else ''}."
            )
        super().__init__()
        self.defaults = dict(defaults)
        self.state: defaultdict[Tensor, State] = defaultdict(dict)
        self.param_groups: list[ParamGroup] = []
        given = list(params)
        if not given:
            raise ValueError(
                f"{name}: the list of parameters is empty. A generator such as "
                f"model.parameters() can be used only once."
            )
        if not isinstance(given[0], dict):
            given = [{"params": given}]
        for group in given:
            self.add_param_group(group)

    # --- what an optimizer says of itself --------------------------------------------------

    def initial_state(self, parameter: Tensor, group: ParamGroup) -> State:
        """What is kept for a parameter: tensors, and host scalars for step counters."""
        return {}

    def update(self, group: ParamGroup, updated: list[Updated]) -> None:
        """Write new values into the parameters and their state; runs under no_grad."""
        raise NotImplementedError(f"{type(self).__name__}: update is not written.")

    def check_group(self, group: Mapping[str, Any]) -> None:
        """Refuse hyper-parameters that make no sense."""

    # --- use ------------------------------------------------------------------------------

    def add_param_group(self, param_group: Mapping[str, Any]) -> None:
        """Optimize further parameters, with hyper-parameters of their own."""
        name = type(self).__name__
        if not isinstance(param_group, Mapping) or "params" not in param_group:
            raise TypeError(
                f"{name}: a parameter group is a dict with 'params', not {param_group!r:.60}."
            )
        params = param_group["params"]
        params = [params] if isinstance(params, Tensor) else list(params)
        entries = {"params": params, **self.defaults}
        entries.update((key, value) for key, value in param_group.items() if key != "params")
        number = len(self.param_groups)
        known = {id(p) for group in self.param_groups for p in group["params"]}
        for i, p in enumerate(params):
            which = f"parameter {i} of group {number}"
            if not isinstance(p, Tensor):
                raise TypeError(f"{name}: {which} is {type(p).__name__}, not a tensor.")
            node = p.grad_fn
            if node is not None:
                raise ValueError(
                    f"{name}: {which}, {describe(p)}, was made by {node.name}; only leaves can be "
                    f"optimized. Pass the tensors it was computed from, or p.detach().clone()."
                )
            if id(p) in known:
                raise ValueError(
                    f"{name}: {which}, {describe(p)}, was given before; a parameter belongs in "
                    f"one group, once."
                )
            known.add(id(p))
        self.check_group(entries)
        group = ParamGroup(entries)
        self.param_groups.append(group)
        group.owner = weakref.ref(self)
        self.complete_state(group)

    def __setstate__(self, state: Mapping[str, Any]) -> None:
        """Take over the attributes of a copy, whose groups belong to it."""
        self.__dict__.update(state)
        for group in self.param_groups:
            group.owner = weakref.ref(self)

    @property
    def _structure(self) -> int:
        """Rises with every change that a recording of `step` must notice."""
        return max(self._hooked_at, *(group.changed_at for group in self.param_groups))

    def complete_state(self, group: ParamGroup) -> None:
        """Create the state that is missing: all of it at first, later what a change asks for.

        It happens at once and not in `step`, so that a recording only ever sees finished state.
        """
        for p in group["params"]:
            self.state[p] = {**self.initial_state(p, group), **self.state[p]}
        self._share_counters(group)

    def _share_counters(self, group: ParamGroup) -> None:
        """Let parameters whose counters stand at the same numbers have the same counters."""
        known: dict[Any, dict[str, HostScalar]] = {}
        for p in group["params"]:
            counters = _counters(self.state[p])
            numbers = tuple((name, counter.value) for name, counter in counters.items())
            self.state[p].update(known.setdefault(numbers, counters))

    def _part(self, group: ParamGroup, updated: Sequence[Updated]) -> None:
        """Give parameters that go on alone counters of their own."""
        if len(updated) == len(group["params"]):
            return
        going = {id(u.parameter) for u in updated}
        staying = {
            counter
            for p in group["params"]
            if id(p) not in going
            for counter in _counters(self.state[p]).values()
        }
        twins: dict[HostScalar, HostScalar] = {}
        for u in updated:
            for name, counter in _counters(u.state).items():
                if counter in staying:
                    if counter not in twins:
                        twins[counter] = StepScalar(counter.value)
                        twins[counter].set(counter.get())
                    u.state[name] = twins[counter]
        if twins:
            group.restructured()
            thread_state().context.use_once()  # what it has read of a counter is not its own

    @no_grad()
    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Update all parameters that have a gradient; `closure` computes the loss first."""
        loss = None
        if closure is not None:
            with enable_grad():
                loss = closure()
        thread_state().context.visit_module(self)
        for number, group in enumerate(self.param_groups):
            updated = []
            for i, p in enumerate(group["params"]):
                grad = p.grad
                if grad is None:
                    continue
                alike = grad.shape == p.shape and grad.dtype is p.dtype
                if not alike or grad.storage.device != p.storage.device:
                    raise ValueError(
                        f"{type(self).__name__}.step: parameter {i} of group {number} is "
                        f"{describe(p)}, but its grad is {describe(grad)}. Call zero_grad() after "
                        f"changing a parameter's shape, dtype or device."
                    )
                if p not in self.state:  # it was put into the list itself
                    self.complete_state(group)
                updated.append(Updated(p, grad, self.state[p]))
            self._part(group, updated)
            if self._runs_fused(updated):
                chosen = tuple(i for i, p in enumerate(group["params"]) if p.grad is not None)
                _fused(self, number)(chosen, [u.grad for u in updated])
            elif self._is_ours:
                with changed(line=thread_state().line or user_line()):
                    self.update(group, updated)
            else:
                self.update(group, updated)
        return loss

    @property
    def _is_ours(self) -> bool:
        """Whether `update` is the library's; what somebody else's does has lines of its own."""
        return type(self).__module__.startswith("contraflow.")

    def _runs_fused(self, updated: Sequence[Updated]) -> bool:
        """Whether an update is worth a program, one pass over each parameter.

        An optimizer of somebody else's may do more in `update` than tensors show.
        """
        current = thread_state()
        replays = current.context.replays and not current.anomaly
        native_code = replays and self._is_ours and config.compile_mode == "native"
        return native_code and native.is_large([u.parameter for u in updated], native.SMALL)

    def _update_some(self, number: int, chosen: Sequence[int], grads: Sequence[Tensor]) -> None:
        """Update the chosen parameters of a group."""
        thread_state().context.visit_module(self)
        group = self.param_groups[number]
        params = [group["params"][i] for i in chosen]
        self.update(group, [Updated(p, g, self.state[p]) for p, g in zip(params, grads)])

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Forget the gradients of all parameters, or fill them with zeros."""
        clear_gradients((p for group in self.param_groups for p in group["params"]), set_to_none)

    # --- state ----------------------------------------------------------------------------

    def state_dict(self) -> dict[str, Any]:
        """State and hyper-parameters in PyTorch's layout, parameters numbered in their order."""
        for hook in list(self._state_dict_pre_hooks.values()):
            hook(self)
        numbers = {
            id(p): i
            for i, p in enumerate(p for group in self.param_groups for p in group["params"])
        }
        groups = [
            {
                **{name: value for name, value in group.items() if name != "params"},
                "params": [numbers[id(p)] for p in group["params"]],
            }
            for group in self.param_groups
        ]
        held = {
            numbers[id(p)]: {
                name: value.get() if isinstance(value, HostScalar) else value
                for name, value in entries.items()
            }
            for p, entries in self.state.items()
            if entries
        }
        found: dict[str, Any] = {"state": held, "param_groups": groups}
        for hook in list(self._state_dict_post_hooks.values()):
            replaced = hook(self, found)
            found = found if replaced is None else replaced
        return found

    @no_grad()
    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Take over what `state_dict` gave; tensors are written into those that are there."""
        name = type(self).__name__
        state_dict = dict(state_dict)  # which hooks may change
        for hook in list(self._load_state_dict_pre_hooks.values()):
            replaced = hook(self, state_dict)
            state_dict = state_dict if replaced is None else replaced
        groups = state_dict["param_groups"]
        sizes = [len(group["params"]) for group in groups]
        own = [len(group["params"]) for group in self.param_groups]
        if sizes != own:
            raise ValueError(
                f"{name}.load_state_dict: the state has groups of {sizes} parameters, the "
                f"optimizer of {own}."
            )
        for group, given in zip(self.param_groups, groups):
            for p, number in zip(group["params"], given["params"]):
                for key, value in state_dict["state"].get(number, {}).items():
                    kept = self.state[p].get(key)
                    if isinstance(kept, Tensor) and value is not None and value.shape != kept.shape:
                        raise ValueError(
                            f"{name}.load_state_dict: {key} of parameter {number} is "
                            f"{describe(value)} and should be {describe(kept)}."
                        )
        for group, given in zip(self.param_groups, groups):
            group.update({key: value for key, value in given.items() if key != "params"})
            loaded = [
                {**self.initial_state(p, group), **state_dict["state"].get(number, {})}
                for p, number in zip(group["params"], given["params"])
            ]
            self._load_counters(group, loaded)
            for p, entries in zip(group["params"], loaded):
                for key, value in entries.items():
                    if value is not None:
                        _load(self.state[p], key, value)
        for hook in list(self._load_state_dict_post_hooks.values()):
            hook(self)

    def _load_counters(self, group: ParamGroup, loaded: Sequence[State]) -> None:
        """Part parameters whose counters will stand at different numbers from now on."""
        numbers: dict[HostScalar, Any] = {}
        for p, entries in zip(group["params"], loaded):
            for name, counter in _counters(self.state[p]).items():
                given = entries.get(name, counter)
                number = given.value if isinstance(given, HostScalar) else given
                if numbers.setdefault(counter, number) != number:
                    self.state[p][name] = StepScalar(counter.value)
                    group.restructured()

    def __repr__(self) -> str:
        lines = [f"{type(self).__name__} ("]
        for number, group in enumerate(self.param_groups):
            lines.append(f"Parameter Group {number}")
            lines += [
                f"    {key}: {value}" for key, value in sorted(group.items()) if key != "params"
            ]
        return "\n".join([*lines, ")"])


# Per optimizer, a compiled update for each of its groups.
_programs: weakref.WeakKeyDictionary[Optimizer, dict[int, Compiled]] = weakref.WeakKeyDictionary()


def _fused(optimizer: Optimizer, number: int) -> Compiled:
    """The compiled update of a group. It does not keep the optimizer alive."""
    programs = _programs.setdefault(optimizer, {})
    if number not in programs:
        alive = weakref.ref(optimizer)

        def update(chosen: Sequence[int], grads: Sequence[Tensor]) -> None:
            found = alive()
            assert found is not None
            found._update_some(number, chosen, grads)

        programs[number] = compile(update, name=f"{type(optimizer).__name__}.step")
    return programs[number]


def _counters(state: State) -> dict[str, HostScalar]:
    return {name: value for name, value in state.items() if isinstance(value, HostScalar)}


def _load(held: State, key: str, value: Any) -> None:
    """Write a loaded value into the entry that is there, or make one of it."""
    kept = held.get(key)
    if isinstance(kept, Tensor):
        kept.copy_(value)
    elif isinstance(kept, HostScalar):
        number = value.value if isinstance(value, HostScalar) else value
        kept.set(type(kept.value)(number))
    else:
        held[key] = copy.deepcopy(value)


def check_not_negative(name: str, group: Mapping[str, Any], *keys: str) -> None:
    """Refuse negative hyper-parameters."""
    for key in keys:
        if not isinstance(group[key], (Real, Tensor)):
            raise TypeError(f"{name}: {key} is {group[key]!r}; it must be a number.")
        if not group[key] >= 0:
            raise ValueError(f"{name}: {key} is {group[key]}; it must not be negative.")


def check_betas(name: str, group: Mapping[str, Any]) -> None:
    """Refuse weights of running means that are not two fractions."""
    if len(group["betas"]) != 2 or not all(0 <= beta < 1 for beta in group["betas"]):
        raise ValueError(
            f"{name}: betas are {group['betas']}; they must be two numbers, at least 0 and below 1."
        )
