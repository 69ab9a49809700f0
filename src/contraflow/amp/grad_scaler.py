"""GradScaler: losses scaled up, so that small gradients do not vanish in float16.

The scale, and how many steps it has served, are tensors. Eagerly a step with gradients that are
not finite is skipped; in a compiled function, where nothing may depend on values, it is made and
undone: parameters, state and counters go back to what they were by `where`. Whether a counter of
steps has moved is for the device to say then: with an optimizer that counts steps, a compiled step
waits for its device, as an eager one does.
"""

from __future__ import annotations

import weakref
from collections.abc import Mapping
from typing import Any

from contraflow.autograd.modes import no_grad
from contraflow.devices.names import Device
from contraflow.dtypes import float16, float32, int32
from contraflow.errors import GradientError, describe
from contraflow.operation.context import Context, device_of, other_devices, state
from contraflow.ops.creation.data import as_tensor, tensor
from contraflow.ops.elementwise.basic import where
from contraflow.ops.shape.joining import stack
from contraflow.optim.optimizer import Optimizer
from contraflow.tensors.host_scalar import HostScalar
from contraflow.tensors.tensor import Tensor
from contraflow.tensors.tree import leaves_of, map_leaves


class GradScaler:
    """Scales losses up and gradients back down, by a factor that grows until gradients overflow.

    >>> import contraflow as cf
    >>> w = cf.ones(2, requires_grad=True)
    >>> optimizer, scaler = cf.optim.SGD([w], lr=0.5), cf.amp.GradScaler(init_scale=8.0)
    >>> scaler.scale((w * w).sum()).backward()
    >>> w.grad
    tensor([16., 16.])
    >>> scaler.step(optimizer)
    >>> scaler.update()
    >>> w
    tensor([0., 0.], requires_grad=True)
    """

    guarded = ("_found",)  # a recording holds where nothing was unscaled before the call

    def __init__(
        self,
        device: Device | str | None = None,
        init_scale: float = 2.0**16,
        growth_factor: float = 2.0,
        backoff_factor: float = 0.5,
        growth_interval: int = 2000,
        enabled: bool = True,
    ) -> None:
        if not growth_factor > 1:
            raise ValueError(f"GradScaler: growth_factor is {growth_factor}; it must be above 1.")
        if not backoff_factor < 1:
            raise ValueError(f"GradScaler: backoff_factor is {backoff_factor}; it must be below 1.")
        self._enabled = enabled
        self._growth_factor = HostScalar(float(growth_factor))
        self._backoff_factor = HostScalar(float(backoff_factor))
        self._growth_interval = HostScalar(int(growth_interval))
        self._scale = tensor(float(init_scale), dtype=float32, device=device)
        self._growth_tracker = tensor(0, dtype=int32, device=device)
        # Since the last update: whether each optimizer's gradients overflowed, and which stepped.
        self._found: dict[Optimizer, Tensor] = {}
        self._stepped: set[Optimizer] = set()
        self._recorder: weakref.ref[Context] | None = None

    def scale(self, outputs: Any) -> Any:
        """The loss, or all tensors of a structure, times the scale."""
        if not self._enabled:
            return outputs
        if other_devices:
            self._follow(device_of(leaves_of(outputs)))
            scale = self._scale
            return map_leaves(
                lambda x: x * scale.to(x.device) if isinstance(x, Tensor) else x, outputs
            )
        return map_leaves(lambda x: x * self._scale if isinstance(x, Tensor) else x, outputs)

    def _follow(self, device: str | None) -> None:
        """Move the scale to the device of what is scaled."""
        here = self._scale.storage.device
        if device is None or device == here:
            return
        context = state().context
        if context.is_recording:
            raise context.refusal(
                f"GradScaler.scale moves its scale from {here} to {device}",
                f"Make it there: GradScaler({device!r}).",
            )
        self._scale = self._scale.to(device)
        self._growth_tracker = self._growth_tracker.to(device)

    @no_grad()
    def unscale_(self, optimizer: Optimizer) -> None:
        """Divide the gradients by the scale, so that they can be clipped before `step`."""
        if not self._enabled:
            return
        self._follow_context()
        if optimizer in self._stepped:
            raise GradientError("GradScaler.unscale_: step has been called already; call update.")
        if optimizer in self._found:
            raise GradientError(
                "GradScaler.unscale_: the gradients of this optimizer are unscaled already since "
                "the last update."
            )
        grads = [p.grad for group in optimizer.param_groups for p in group["params"]]
        given = [g for g in grads if g is not None]
        for g in given:
            if g.dtype is float16:
                raise ValueError(
                    f"GradScaler.unscale_: {describe(g)} is a gradient in float16, which would "
                    f"lose what scaling keeps. Keep parameters in float32, and use autocast."
                )
        if not given:
            raise ValueError("GradScaler.unscale_: no parameter of this optimizer has a gradient.")
        inverse = 1.0 / self._scale
        self._found[optimizer] = ~stack([g.isfinite().all() for g in given]).all()
        for g in given:
            g.mul_(inverse.to(g.device) if other_devices else inverse)

    @no_grad()
    def step(self, optimizer: Optimizer, *args: Any, **kwargs: Any) -> Any:
        """`optimizer.step()`, unless its gradients overflowed; they are unscaled if need be."""
        if not self._enabled:
            return optimizer.step(*args, **kwargs)
        if args or "closure" in kwargs:
            raise TypeError("GradScaler.step: a closure cannot be used with a scaler.")
        self._follow_context()
        if optimizer in self._stepped:
            raise GradientError("GradScaler.step: called already since the last update.")
        if optimizer not in self._found:
            self.unscale_(optimizer)
        self._stepped.add(optimizer)
        found = self._found[optimizer]
        if state().context.is_recording:
            return self._step_or_undo(optimizer, found, **kwargs)
        return None if found.item() else optimizer.step(**kwargs)

    def _step_or_undo(self, optimizer: Optimizer, overflowed: Tensor, **kwargs: Any) -> Any:
        """Make a step, and put everything back where gradients overflowed."""
        params = [p for group in optimizer.param_groups for p in group["params"]]
        kept = [x for p in params for x in optimizer.state[p].values()]
        tensors = [x for x in (*params, *kept) if isinstance(x, Tensor)]
        counters = dict.fromkeys(x for x in kept if isinstance(x, HostScalar))
        before = [(x, x.detach().clone()) for x in tensors]
        numbers = [(counter, counter.get()) for counter in counters]
        grads = [(p, p.grad) for p in params if p.grad is not None]
        for p, g in grads:
            # That the step follows from the check lets both, and what undoes it, be one kernel.
            p.grad = where(overflowed, 0.0, g)
        result = optimizer.step(**kwargs)
        for p, g in grads:
            p.grad = g
        for x, value in before:
            x.copy_(where(overflowed, value, x))
        for counter, number in numbers:
            counter.set(where(overflowed, number, counter.get()))
        return result

    @no_grad()
    def update(self, new_scale: float | Tensor | None = None) -> None:
        """Shrink the scale after an overflow; grow it after `growth_interval` steps without one."""
        if not self._enabled:
            return
        self._follow_context()
        if new_scale is not None:
            self._scale.copy_(as_tensor(new_scale, dtype=float32, device=self._scale.device))
        else:
            if not self._found:
                raise GradientError(
                    "GradScaler.update: no step was made since the last update. One in a compiled "
                    "function does not count: call unscale_, step and update in one function."
                )
            self._adapt(stack(list(self._found.values())).any())
        self._found, self._stepped = {}, set()

    def _adapt(self, overflowed: Tensor) -> None:
        served = self._growth_tracker + 1
        due = served == self._growth_interval.get()
        larger = self._scale * self._growth_factor.get()
        grown = where(due & larger.isfinite(), larger, self._scale)
        smaller = self._scale * self._backoff_factor.get()
        self._scale.copy_(where(overflowed, smaller, grown))
        self._growth_tracker.copy_(where(overflowed | due, 0, served))

    def _follow_context(self) -> None:
        """Forget what belongs to a recording that has ended; refuse what an eager step has begun.

        The contexts that stand over a recording for a while are part of it.
        """
        context = state().context
        while hasattr(context, "below"):
            context = context.below
        if self._recorder is None:
            if not context.is_recording:
                return
            if self._found:
                raise context.refusal(
                    "GradScaler.unscale_ was called outside of the compiled function that goes on "
                    "with the step",
                    "Call unscale_, step and update in one function.",
                )
        elif context is self._recorder():
            return
        self._recorder = weakref.ref(context) if context.is_recording else None
        self._found, self._stepped = {}, set()

    # --- settings and state ---------------------------------------------------------------

    def is_enabled(self) -> bool:
        """Whether it scales anything."""
        return self._enabled

    def get_scale(self) -> float:
        """The scale as a number; 1 where it is not enabled."""
        scale: float = self._scale.item() if self._enabled else 1.0
        return scale

    def get_growth_factor(self) -> float:
        """The factor by which the scale grows."""
        return self._growth_factor.value

    def set_growth_factor(self, new_factor: float) -> None:
        """Set the factor by which the scale grows."""
        self._growth_factor.set(float(new_factor))

    def get_backoff_factor(self) -> float:
        """The factor by which the scale is multiplied after an overflow."""
        return self._backoff_factor.value

    def set_backoff_factor(self, new_factor: float) -> None:
        """Set the factor by which the scale is multiplied after an overflow."""
        self._backoff_factor.set(float(new_factor))

    def get_growth_interval(self) -> int:
        """After how many steps without an overflow the scale grows."""
        return int(self._growth_interval.value)

    def set_growth_interval(self, new_interval: int) -> None:
        """Set after how many steps without an overflow the scale grows."""
        self._growth_interval.set(int(new_interval))

    def state_dict(self) -> dict[str, Any]:
        """The scale, its factors and its counter, in PyTorch's layout."""
        if not self._enabled:
            return {}
        return {
            "scale": self.get_scale(),
            "growth_factor": self.get_growth_factor(),
            "backoff_factor": self.get_backoff_factor(),
            "growth_interval": self.get_growth_interval(),
            "_growth_tracker": self._growth_tracker.item(),
        }

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Restore a state from `state_dict`."""
        if not self._enabled:
            return
        if not state_dict:
            raise ValueError(
                "GradScaler.load_state_dict: the state is empty: it is from a scaler that was "
                "disabled."
            )
        self._scale.fill_(float(state_dict["scale"]))
        self.set_growth_factor(state_dict["growth_factor"])
        self.set_backoff_factor(state_dict["backoff_factor"])
        self.set_growth_interval(state_dict["growth_interval"])
        self._growth_tracker.fill_(int(state_dict["_growth_tracker"]))
