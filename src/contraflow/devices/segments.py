"""Segments: how a plan is cut into runs of kernels, with host steps between them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from contraflow.compiler.plan import HostStep, KernelStep, Plan, StepOrigin


class KernelRun(NamedTuple):
    """Kernels of a plan without a host step between them, which a device starts as one."""

    steps: list[KernelStep]
    first: int  # the number of the first one among all kernels of the plan

    @property
    def stop(self) -> int:
        """The number of the kernel behind the last one."""
        return self.first + len(self.steps)

    @property
    def last_risk(self) -> int | None:
        """The number of the last kernel that may find a wrong index; those behind write state."""
        risks = [i for i, step in enumerate(self.steps, self.first) if step.may_fail]
        return risks[-1] if risks else None


def kernel_steps(plan: Plan) -> list[KernelStep]:
    """All kernels of a plan, in order."""
    return [step for step in plan.steps if isinstance(step, KernelStep)]


def step_event(plan: Plan, step: KernelStep | HostStep) -> tuple[str, str, StepOrigin]:
    """The name, the kind and the origin of a step, as a profile notes it."""
    if isinstance(step, HostStep):
        return step.name, "host", plan.origin(step)
    return step.call.kernel.name, "kernel", plan.origin(step)


def segments(plan: Plan) -> Iterator[KernelRun | HostStep]:
    """The steps of a plan in order."""
    steps: list[KernelStep] = []
    first = 0
    for step in plan.steps:
        if isinstance(step, KernelStep):
            steps.append(step)
            continue
        if steps:
            yield KernelRun(steps, first)
        yield step
        first, steps = first + len(steps), []
    if steps:
        yield KernelRun(steps, first)
