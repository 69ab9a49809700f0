"""Recurrent layers and their cells.

A layer projects the inputs of all time steps at once and then walks through time in Python, so that
a compiled function holds every step. Sequences lie one step after the other as rows: `sizes` says
how many rows a step has, which is less and less in a batch of sequences of different lengths.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from contraflow.devices.names import Device
from contraflow.dtypes import DType
from contraflow.errors import describe
from contraflow.nn import functional as F
from contraflow.nn import init
from contraflow.nn.module import Module
from contraflow.nn.parameter import Parameter
from contraflow.nn.steps import time_steps
from contraflow.nn.utils.rnn import PackedSequence
from contraflow.ops.creation.create import zeros
from contraflow.ops.elementwise.basic import sigmoid, tanh
from contraflow.ops.index.slices import index_select
from contraflow.ops.shape.joining import cat, stack
from contraflow.ops.shape.parts import chunk
from contraflow.ops.shape.view import reshape, transpose
from contraflow.tensors.tensor import Tensor

HiddenState = tuple[Tensor, ...]  # the hidden state, and the cell state of an LSTM
RecurrentStep = Callable[[Tensor, HiddenState, Sequence[Any]], HiddenState]

# --- one step ----------------------------------------------------------------------------------


def _tanh_step(x: Tensor, state: HiddenState, weights: Sequence[Any]) -> HiddenState:
    return (tanh(x + F.linear(state[0], *weights[:2])),)


def _relu_step(x: Tensor, state: HiddenState, weights: Sequence[Any]) -> HiddenState:
    return (F.relu(x + F.linear(state[0], *weights[:2])),)


def _lstm_step(x: Tensor, state: HiddenState, weights: Sequence[Any]) -> HiddenState:
    h, c = state
    i, f, g, o = chunk(x + F.linear(h, *weights[:2]), 4, -1)
    c = sigmoid(f) * c + sigmoid(i) * tanh(g)
    h = sigmoid(o) * tanh(c)
    return (h if len(weights) == 2 else F.linear(h, weights[2])), c


def _gru_step(x: Tensor, state: HiddenState, weights: Sequence[Any]) -> HiddenState:
    (h,) = state
    xr, xz, xn = chunk(x, 3, -1)
    hr, hz, hn = chunk(F.linear(h, *weights[:2]), 3, -1)
    new = tanh(xn + sigmoid(xr + hr) * hn)
    return (new + sigmoid(xz + hz) * (h - new),)


_STEPS: dict[str, RecurrentStep] = {
    "RNN_TANH": _tanh_step, "RNN_RELU": _relu_step, "LSTM": _lstm_step, "GRU": _gru_step,
}  # fmt: skip
_GATES = {"RNN_TANH": 1, "RNN_RELU": 1, "LSTM": 4, "GRU": 3}


def _rnn_mode(name: str, nonlinearity: str) -> str:
    if nonlinearity not in ("tanh", "relu"):
        raise ValueError(f"{name}: nonlinearity is {nonlinearity!r}; it must be 'tanh' or 'relu'.")
    return f"RNN_{nonlinearity.upper()}"


def _draw(module: Module, hidden_size: int) -> None:
    """All parameters uniform within 1 / sqrt(hidden_size)."""
    bound = 1 / math.sqrt(hidden_size) if hidden_size else 0.0
    for parameter in module.parameters():
        init.uniform_(parameter, -bound, bound)


# --- walking through time ----------------------------------------------------------------------


def _walk(
    step: RecurrentStep, rows: Tensor, sizes: Sequence[int], first: HiddenState,
    weights: Sequence[Any], backwards: bool,
) -> tuple[Tensor, HiddenState]:  # fmt: skip
    """The outputs of all steps as rows, and the state that each sequence ends with."""
    steps = time_steps(rows, sizes)
    state = first
    if backwards and sizes[-1] < sizes[0]:
        state = tuple(s[: sizes[-1]] for s in first)
    ended: list[HiddenState] = []
    outs: list[Tensor] = []
    for x in reversed(steps) if backwards else steps:
        count, before = x.shape[0], state[0].shape[0]
        if count < before:  # the shortest sequences are over
            ended.append(tuple(s[count:] for s in state))
            state = tuple(s[:count] for s in state)
        elif count > before:  # backwards, they begin later
            state = tuple(cat([s, f[before:count]]) for s, f in zip(state, first))
        state = step(x, state, weights)
        outs.append(state[0])
    if backwards:
        outs.reverse()
    if ended:
        state = tuple(cat(list(parts)) for parts in zip(state, *reversed(ended)))
    return cat(outs), state


class RNNBase(Module):
    """The base of recurrent layers: the parameters, layers, directions and the order of dims.

    Inputs are [length, n, input_size], or [n, length, input_size] with `batch_first`.

    >>> import contraflow as cf
    >>> layer = cf.nn.RNNBase("GRU", input_size=3, hidden_size=4)
    >>> layer.weight_ih_l0.shape, isinstance(cf.nn.GRU(3, 4), cf.nn.RNNBase)
    ((12, 3), True)
    """

    def __init__(
        self,
        mode: str,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        bias: bool = True,
        batch_first: bool = False,
        dropout: float = 0.0,
        bidirectional: bool = False,
        proj_size: int = 0,
        device: Device | str | None = None,
        dtype: DType | None = None,
    ) -> None:
        super().__init__()
        name = type(self).__name__
        if mode not in _STEPS:
            raise ValueError(f"{name}: mode is {mode!r}; it must be one of {', '.join(_STEPS)}.")
        if hidden_size < 1 or num_layers < 1:
            raise ValueError(
                f"{name}: hidden_size {hidden_size} and num_layers {num_layers} must be at least 1."
            )
        if not 0 <= dropout <= 1:
            raise ValueError(f"{name}: dropout is {dropout}; a probability is between 0 and 1.")
        if proj_size and (mode != "LSTM" or not 0 < proj_size < hidden_size):
            raise ValueError(
                f"{name}: proj_size is {proj_size}; only an LSTM has one, and it must be less than "
                f"hidden_size, {hidden_size}."
            )
        self.mode, self.input_size, self.hidden_size = mode, input_size, hidden_size
        self.num_layers, self.bias, self.batch_first = num_layers, bias, batch_first
        self.dropout, self.bidirectional = float(dropout), bidirectional
        self.proj_size = proj_size
        wide = _GATES[mode] * hidden_size
        out = proj_size or hidden_size
        for layer in range(num_layers):
            size = input_size if layer == 0 else out * len(self._directions)
            shapes: dict[str, tuple[int, ...]]
            shapes = {"weight_ih": (wide, size), "weight_hh": (wide, out)}
            if bias:
                shapes.update(bias_ih=(wide,), bias_hh=(wide,))
            if proj_size:
                shapes.update(weight_hr=(proj_size, hidden_size))
            for direction in self._directions:
                for kind, shape in shapes.items():
                    parameter = Parameter(zeros(shape, device=device, dtype=dtype))
                    self.register_parameter(f"{kind}_l{layer}{direction}", parameter)
        self.reset_parameters()

    @property
    def _directions(self) -> tuple[str, ...]:
        return ("", "_reverse") if self.bidirectional else ("",)

    @property
    def all_weights(self) -> list[list[Parameter]]:
        """The parameters of each layer and direction."""
        return [
            [getattr(self, f"{kind}_l{layer}{direction}") for kind in self._kinds]
            for layer in range(self.num_layers)
            for direction in self._directions
        ]

    @property
    def _kinds(self) -> list[str]:
        kinds = ["weight_ih", "weight_hh"]
        kinds += ["bias_ih", "bias_hh"] if self.bias else []
        return [*kinds, "weight_hr"] if self.proj_size else kinds

    def reset_parameters(self) -> None:
        """Draw the initial values anew: uniform within 1 / sqrt(hidden_size)."""
        _draw(self, self.hidden_size)

    def flatten_parameters(self) -> None:
        """Do nothing, as no other layout suits a kernel better: for compatibility with PyTorch."""

    def _widths(self) -> tuple[int, ...]:
        """The sizes of the hidden state and, of an LSTM, the cell state."""
        out = self.proj_size or self.hidden_size
        return (out, self.hidden_size) if self.mode == "LSTM" else (out,)

    def _states(self, hx: Any, input: Tensor, batch: int | None) -> HiddenState:
        """The initial states [layers * directions, batch, width]; zeros if not given."""
        layers = self.num_layers * len(self._directions)
        lead = (layers,) if batch is None else (layers, batch)
        shapes = [(*lead, width) for width in self._widths()]
        if hx is None:
            states = tuple(zeros(each, device=input.device, dtype=input.dtype) for each in shapes)
        else:
            states = tuple(hx) if self.mode == "LSTM" else (hx,)
        if [s.shape for s in states] != shapes:
            raise ValueError(
                f"{type(self).__name__}: the initial state of {describe(input)} must be "
                f"{' and '.join(str([*each]) for each in shapes)}, got "
                f"{' and '.join(map(describe, states))}."
            )
        return tuple(s[:, None] for s in states) if batch is None else states

    def _check(self, input: Tensor, ranks: tuple[int, ...]) -> None:
        if input.ndim not in ranks or input.shape[-1] != self.input_size:
            lead = "n, t" if self.batch_first else "t, n"
            raise ValueError(
                f"{type(self).__name__}: expected [{lead}, {self.input_size}] or "
                f"[t, {self.input_size}], got {describe(input)}."
            )

    def forward(self, input: Any, hx: Any = None) -> Any:
        if isinstance(input, PackedSequence):
            return self._forward_packed(input, hx)
        self._check(input, (2, 3))
        single = input.ndim == 2
        x: Tensor = input[:, None] if single else input
        if self.batch_first and not single:
            x = transpose(x, 0, 1)
        steps, batch, width = x.shape
        if not steps:
            raise ValueError(f"{type(self).__name__}: {describe(input)} has no time steps.")
        first = self._states(hx, input, None if single else batch)
        rows, states = self._layers(reshape(x, (steps * batch, width)), [batch] * steps, first)
        out = reshape(rows, (steps, batch, rows.shape[1]))
        if single:
            out, states = out[:, 0], tuple(s[:, 0] for s in states)
        elif self.batch_first:
            out = transpose(out, 0, 1)
        return out, (states if self.mode == "LSTM" else states[0])

    def _forward_packed(self, input: PackedSequence, hx: Any) -> Any:
        data, sizes, order, back = input
        self._check(data, (2,))
        first = self._states(hx, data, sizes[0])
        if order is not None and hx is not None:
            first = tuple(index_select(s, 1, order) for s in first)
        rows, states = self._layers(data, list(sizes), first)
        if back is not None:
            states = tuple(index_select(s, 1, back) for s in states)
        return input._replace(data=rows), (states if self.mode == "LSTM" else states[0])

    def _layers(
        self, rows: Tensor, sizes: list[int], first: HiddenState
    ) -> tuple[Tensor, HiddenState]:
        step, directions = _STEPS[self.mode], self._directions
        last: list[HiddenState] = []
        for layer in range(self.num_layers):
            if layer and self.dropout:
                rows = F.dropout(rows, self.dropout, self.training)
            outs = []
            for direction in directions:
                suffix = f"_l{layer}{direction}"
                w_ih, w_hh, b_ih, b_hh, w_hr = (
                    getattr(self, kind + suffix, None)
                    for kind in ("weight_ih", "weight_hh", "bias_ih", "bias_hh", "weight_hr")
                )
                weights = (w_hh, b_hh) if w_hr is None else (w_hh, b_hh, w_hr)
                begin = tuple(s[len(last)] for s in first)
                projected = F.linear(rows, w_ih, b_ih)
                out, end = _walk(step, projected, sizes, begin, weights, bool(direction))
                outs.append(out)
                last.append(end)
            rows = cat(outs, -1) if len(outs) > 1 else outs[0]
        return rows, tuple(stack(list(parts)) for parts in zip(*last))

    def extra_repr(self) -> str:
        text = f"{self.input_size}, {self.hidden_size}"
        for name, plain in (
            ("proj_size", 0), ("num_layers", 1), ("bias", True), ("batch_first", False),
            ("dropout", 0.0), ("bidirectional", False),
        ):  # fmt: skip
            value = getattr(self, name)
            text += "" if value == plain else f", {name}={value}"
        return text


class RNN(RNNBase):
    """h' = tanh(weight_ih x + weight_hh h + biases), step by step: [t, n, i] to [t, n, h].

    >>> import contraflow as cf
    >>> out, h = cf.nn.RNN(4, 3, num_layers=2)(cf.zeros(5, 2, 4))
    >>> out.shape, h.shape
    ((5, 2, 3), (2, 2, 3))
    """

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        nonlinearity: str = "tanh",
        bias: bool = True,
        batch_first: bool = False,
        dropout: float = 0.0,
        bidirectional: bool = False,
        device: Device | str | None = None,
        dtype: DType | None = None,
    ) -> None:
        super().__init__(
            _rnn_mode("RNN", nonlinearity), input_size, hidden_size, num_layers, bias, batch_first,
            dropout, bidirectional, 0, device, dtype,
        )  # fmt: skip
        self.nonlinearity = nonlinearity


class LSTM(RNNBase):
    """Long short-term memory: [t, n, i] and (h, c) to [t, n, h] and (h, c).

    `proj_size` makes the hidden state a product of its own, smaller than the cell state.

    >>> import contraflow as cf
    >>> out, (h, c) = cf.nn.LSTM(4, 3, bidirectional=True)(cf.zeros(5, 2, 4))
    >>> out.shape, h.shape, c.shape
    ((5, 2, 6), (2, 2, 3), (2, 2, 3))
    """

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        bias: bool = True,
        batch_first: bool = False,
        dropout: float = 0.0,
        bidirectional: bool = False,
        proj_size: int = 0,
        device: Device | str | None = None,
        dtype: DType | None = None,
    ) -> None:
        super().__init__(
            "LSTM", input_size, hidden_size, num_layers, bias, batch_first, dropout,
            bidirectional, proj_size, device, dtype,
        )  # fmt: skip


class GRU(RNNBase):
    """Gated recurrent units: [t, n, i] and h to [t, n, h] and h.

    >>> import contraflow as cf
    >>> out, h = cf.nn.GRU(4, 3, batch_first=True)(cf.zeros(2, 5, 4))
    >>> out.shape, h.shape
    ((2, 5, 3), (1, 2, 3))
    """

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        bias: bool = True,
        batch_first: bool = False,
        dropout: float = 0.0,
        bidirectional: bool = False,
        device: Device | str | None = None,
        dtype: DType | None = None,
    ) -> None:
        super().__init__(
            "GRU", input_size, hidden_size, num_layers, bias, batch_first, dropout,
            bidirectional, 0, device, dtype,
        )  # fmt: skip


# --- cells -------------------------------------------------------------------------------------


class RNNCellBase(Module):
    """One step of a recurrent layer: [n, i] and a state to the next state.

    It is the base of RNNCell, GRUCell and LSTMCell.

    >>> import contraflow as cf
    >>> cell = cf.nn.GRUCell(3, 4)
    >>> isinstance(cell, cf.nn.RNNCellBase), cell(cf.ones(2, 3)).shape
    (True, (2, 4))
    """

    mode: str
    nonlinearity: str = "tanh"

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        bias: bool = True,
        device: Device | str | None = None,
        dtype: DType | None = None,
    ) -> None:
        super().__init__()
        self.input_size, self.hidden_size, self.bias = input_size, hidden_size, bias
        wide = _GATES[self.mode] * hidden_size

        def made(*shape: int) -> Parameter:
            return Parameter(zeros(shape, device=device, dtype=dtype))

        self.weight_ih, self.weight_hh = made(wide, input_size), made(wide, hidden_size)
        self.bias_ih = made(wide) if bias else None
        self.bias_hh = made(wide) if bias else None
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw the initial values anew: uniform within 1 / sqrt(hidden_size)."""
        _draw(self, self.hidden_size)

    def forward(self, input: Tensor, hx: Any = None) -> Any:
        name, lead = type(self).__name__, input.shape[:-1]
        if input.ndim not in (1, 2) or input.shape[-1] != self.input_size:
            raise ValueError(
                f"{name}: expected [n, {self.input_size}] or [{self.input_size}], got "
                f"{describe(input)}."
            )
        several = self.mode == "LSTM"
        if hx is None:
            hx = zeros((*lead, self.hidden_size), device=input.device, dtype=input.dtype)
            hx = (hx, hx) if several else hx
        state = tuple(hx) if several else (hx,)
        if any(s.shape != (*lead, self.hidden_size) for s in state):
            raise ValueError(
                f"{name}: the state of {describe(input)} must be {[*lead, self.hidden_size]}, got "
                f"{' and '.join(map(describe, state))}."
            )
        projected = F.linear(input, self.weight_ih, self.bias_ih)
        state = _STEPS[self.mode](projected, state, (self.weight_hh, self.bias_hh))
        return state if several else state[0]

    def extra_repr(self) -> str:
        text = f"{self.input_size}, {self.hidden_size}"
        text += "" if self.bias else ", bias=False"
        return text if self.nonlinearity == "tanh" else f"{text}, nonlinearity={self.nonlinearity}"


class RNNCell(RNNCellBase):
    """One step of an RNN: [n, i] and h [n, h] to h.

    >>> import contraflow as cf
    >>> layer = cf.nn.RNNCell(4, 3)
    >>> layer(cf.ones(2, 4)).shape
    (2, 3)
    """

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        bias: bool = True,
        nonlinearity: str = "tanh",
        device: Device | str | None = None,
        dtype: DType | None = None,
    ) -> None:
        self.mode = _rnn_mode("RNNCell", nonlinearity)
        super().__init__(input_size, hidden_size, bias, device, dtype)
        self.nonlinearity = nonlinearity


class LSTMCell(RNNCellBase):
    """One step of an LSTM: [n, i] and (h, c), each [n, h], to (h, c).

    >>> import contraflow as cf
    >>> layer = cf.nn.LSTMCell(4, 3)
    >>> [tuple(part.shape) for part in layer(cf.ones(2, 4))]
    [(2, 3), (2, 3)]
    """

    mode = "LSTM"


class GRUCell(RNNCellBase):
    """One step of a GRU: [n, i] and h [n, h] to h.

    >>> import contraflow as cf
    >>> layer = cf.nn.GRUCell(4, 3)
    >>> layer(cf.ones(2, 4)).shape
    (2, 3)
    """

    mode = "GRU"
