"""Connectionist temporal classification: the loss of a labelling without an alignment."""

from __future__ import annotations

import math
from typing import Any

from contraflow.errors import describe
from contraflow.nn.steps import time_steps
from contraflow.operation.context import state
from contraflow.operation.public import public
from contraflow.ops.creation.create import arange, full
from contraflow.ops.creation.data import as_tensor
from contraflow.ops.elementwise.arithmetic import clamp_min
from contraflow.ops.elementwise.basic import exp, where
from contraflow.ops.elementwise.mathematics import logaddexp
from contraflow.ops.index.gather import gather
from contraflow.ops.nn.alignment import IMPOSSIBLE, alignment_step
from contraflow.ops.reduction.order import cumsum
from contraflow.ops.reduction.reduce import mean, sum_
from contraflow.ops.shape.arrange import pad
from contraflow.ops.shape.joining import cat, stack
from contraflow.ops.shape.parts import unbind
from contraflow.ops.shape.view import expand, reshape
from contraflow.tensors.tensor import Tensor


@public
def ctc_loss(
    log_probs: Tensor,
    targets: Tensor,
    input_lengths: Any,
    target_lengths: Any,
    blank: int = 0,
    reduction: str = "mean",
    zero_infinity: bool = False,
) -> Tensor:
    """-log of the probability of all alignments of a labelling (Graves et al., 2006).

    Log probabilities [t, n, classes] and labels [n, s], or all labels in one row; without a batch
    [t, classes] and [s]. "mean" divides by the lengths of the targets first. As in PyTorch the
    gradient is that of log probabilities which log_softmax made.

    >>> import contraflow as cf
    >>> log_probs = cf.zeros(4, 1, 3).log_softmax(2)
    >>> cf.nn.functional.ctc_loss(log_probs, cf.tensor([[1, 2]]), cf.tensor([4]), cf.tensor([2]))
    tensor(0.8432)
    """
    if reduction not in ("none", "mean", "sum"):
        raise ValueError(
            f"ctc_loss: reduction is {reduction!r}; it must be 'mean', 'sum' or 'none'."
        )
    single = log_probs.ndim == 2
    if single:
        log_probs, targets = log_probs[:, None], targets[None]
    _, batch, classes = log_probs.shape
    if not 0 <= blank < classes:
        raise ValueError(
            f"ctc_loss: blank {blank} is not one of the classes of {describe(log_probs)}."
        )
    device = log_probs.storage.device
    targets = targets.to(device)  # labels and lengths of the cpu pass, as indices do
    in_a_row = targets.ndim == 1
    counted = _numbers(target_lengths)
    if in_a_row and counted is not None and sum(counted) != targets.shape[0]:
        raise ValueError(
            f"ctc_loss: target_lengths add up to {sum(counted)}, but the targets are "
            f"{describe(targets)}."
        )
    lengths = _checked("input_lengths", input_lengths, log_probs.shape[0], device)
    labels = _checked("target_lengths", target_lengths, targets.shape[0 if in_a_row else 1], device)
    if lengths.shape != (batch,) or labels.shape != (batch,):
        raise ValueError(
            f"ctc_loss: {describe(log_probs)} needs {batch} input_lengths and target_lengths, got "
            f"{describe(lengths)} and {describe(labels)}."
        )
    if in_a_row:
        longest = _longest(labels) if counted is None else max(counted, default=0)
        targets = _in_rows(targets, labels, longest)
    loss = _surprise(log_probs, _extended(targets, labels, blank), lengths, labels, blank)
    if zero_infinity:
        loss = where(loss == math.inf, 0.0, loss)
    if reduction == "mean":
        loss = mean(loss / clamp_min(labels, 1).to(loss.dtype))
    elif reduction == "sum":
        loss = sum_(loss)
    return loss[0] if single and reduction == "none" else loss


def _numbers(lengths: Any) -> list[int] | None:
    """The lengths, None where only a program will know them, or another device."""
    if not isinstance(lengths, Tensor):
        return list(map(int, lengths if isinstance(lengths, (tuple, list)) else [lengths]))
    known = not lengths.storage.is_recorded and not state().context.is_recording
    known = known and lengths.storage.device == "cpu"
    return reshape(lengths, (-1,)).tolist() if known else None


def _checked(name: str, given: Any, most: int, device: str) -> Tensor:
    """Lengths from 0 to `most`; those that are not known yet are checked when they are read."""
    for value in _numbers(given) or ():
        if not 0 <= value <= most:
            raise ValueError(f"ctc_loss: {name} holds {value}; it must be from 0 to {most}.")
    found: Tensor = gather(arange(most + 1), 0, reshape(as_tensor(given).to(device), (-1,)))
    return found


def _longest(labels: Tensor) -> int:
    """The longest of labels that lie one after the other, by their lengths."""
    context = state().context
    if context.is_recording:
        raise context.refusal(
            "ctc_loss needs the longest of target_lengths, since the targets lie in one row",
            "Pass target_lengths as a tuple of numbers, or targets of shape [n, s].",
        )
    return int(labels.max().item()) if labels.shape[0] else 0


def _in_rows(targets: Tensor, labels: Tensor, longest: int) -> Tensor:
    """Labels that lie one after the other, as [n, s]."""
    starts = cumsum(labels, 0) - labels
    at = starts[:, None] + arange(longest)
    last = max(0, targets.shape[0] - 1)
    return targets[where(at > last, last, at)] if targets.shape[0] else at


def _extended(targets: Tensor, labels: Tensor, blank: int) -> Tensor:
    """The labels [n, s] with blanks around each: [n, 2 s + 1]."""
    batch, width = targets.shape
    targets = where(arange(width) < labels[:, None], targets, blank)
    blanks = full((batch, width), blank, dtype=targets.dtype)
    pairs = reshape(stack([blanks, targets], 2), (batch, 2 * width))
    out: Tensor = cat([pairs, full((batch, 1), blank, dtype=targets.dtype)], 1)
    return out


def _surprise(
    log_probs: Tensor, extended: Tensor, lengths: Tensor, labels: Tensor, blank: int
) -> Tensor:
    """-log of the probability that the labels come out, for each sample: the forward recursion."""
    steps, batch, _ = log_probs.shape
    width = extended.shape[1]
    at = expand(extended[None], (steps, batch, width))
    emitted = time_steps(reshape(gather(log_probs, 2, at), (steps * batch, width)), [batch] * steps)
    place = arange(width)
    # A label may follow another one without a blank between them, unless it is the same.
    before = pad(extended, (2, -2), "constant", blank) if width > 2 else extended
    skips = (extended != blank) & (extended != before) & (place > 1)
    alpha = where(place < 2, emitted[0], IMPOSSIBLE)
    inside = arange(steps)[:, None] < lengths
    for emission, running in zip(emitted[1:], unbind(inside)[1:]):
        alpha = alignment_step(alpha, emission, skips, running)
    end = 2 * labels[:, None]
    final = gather(alpha, 1, end)[:, 0]
    other = gather(alpha, 1, clamp_min(end - 1, 0))[:, 0]
    total = logaddexp(final, where(labels > 0, other, IMPOSSIBLE))
    # No labels come out of no input for certain, and labels never.
    total = where(lengths > 0, total, where(labels > 0, IMPOSSIBLE, 0.0))
    # Adds nothing but the gradient of the normalisation, which PyTorch's kernel includes.
    mass = sum_(where(inside[..., None], exp(log_probs), 0.0), dim=(0, 2))
    out: Tensor = where(total > IMPOSSIBLE / 2, mass - mass.detach() - total, math.inf)
    return out
