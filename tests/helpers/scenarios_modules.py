"""Scenarios of modules."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import numpy as np
from tests.helpers.modules import Block
from tests.helpers.scenario import EagerFile, leaf, parameters, plain, tensors, truth, whole
from tests.nn import test_nn, test_nn_layers, test_nn_utils

import contraflow as cf
from contraflow import nn
from contraflow.autograd import grad

Tensor = cf.Tensor
F = nn.functional
f32 = cf.float32

modules = EagerFile("test_nn")


def trained(model: nn.Module) -> tuple[Callable[..., Any], list[Any]]:
    """A forward and a backward through a module, whose gradients accumulate."""

    def step(*args: Tensor) -> Any:
        outs = list(tensors(model(*args)))
        sum((out * out).sum() for out in outs).backward()
        return [out.detach() for out in outs]

    return step, [model]


@modules("parameter_is_a_leaf_that_shares_memory", plain(2, dtype=f32), state=True)
def a_parameter_and_its_data() -> Any:
    data = cf.zeros(2)
    p = nn.Parameter(data)

    def step(x: Tensor) -> Tensor:
        with cf.no_grad():
            p.add_(x)
        (p * p).sum().backward()
        return data * 1.0

    return step, [data, p]


@modules("writing_a_buffer_with_an_operator_is_no_change_of_structure", plain(2, 3, dtype=f32),
         state=True)  # fmt: skip
def a_buffer_written_with_an_operator() -> Any:
    block = Block()

    def step(x: Tensor) -> Tensor:
        block.offset += x[0]
        out = block(x)
        out.sum().backward()
        return out.detach()

    return step, [block]


@modules("hooks_see_and_replace", plain(2, 3, dtype=f32), state=True)
def module_hooks() -> Any:
    layer = nn.Linear(3, 3)
    layer.register_forward_pre_hook(lambda module, args: (args[0] + 1.0,))
    layer.register_forward_hook(lambda module, args, out: out * 2.0 + args[0])
    return trained(layer)


@modules("train_eval_and_apply", plain(4, 3, dtype=f32), state=True)
def training_switched_inside() -> Any:
    model = nn.Sequential(nn.Linear(3, 3), nn.BatchNorm1d(3), nn.Dropout(0.5))

    def step(x: Tensor) -> Any:
        first = model.train()(x).detach()
        second = model.eval()(x).detach()
        return first, second, [m.training for m in model.modules()]

    return step, [model]


@modules("requires_grad_and_zero_grad", plain(2, 3, dtype=f32), state=True)
def gradients_set_to_zero() -> Any:
    block = Block()

    def step(x: Tensor) -> Any:
        block.zero_grad(set_to_none=False)
        block(x).sum().backward()
        kept = block.scale.grad.clone()
        block.zero_grad()
        block(x * 2.0).sum().backward()
        return kept

    return step, [block]


@modules("zero_grad_lets_go_of_the_graph", plain(2, dtype=f32), state=True)
def gradients_with_a_graph_set_to_zero() -> Any:
    layer = nn.Module()
    layer.p = p = nn.Parameter(cf.ones(2))

    def step(x: Tensor) -> Any:
        layer.zero_grad()
        (p * p * p * x).sum().backward(create_graph=True)
        second = grad(p.grad.sum(), p)
        layer.zero_grad(set_to_none=False)
        return second, p.grad.requires_grad

    return step, [layer]


@modules("state_dict_round_trip", plain(2, 3, dtype=f32), state=True)
def state_loaded_inside() -> Any:
    first, second = Block(), Block()

    def step(x: Tensor) -> Any:
        second.load_state_dict(first.state_dict())
        with cf.no_grad():
            first.scale.mul_(0.5)
        return second(x).detach(), first(x).detach()

    return step, [first, second]


MODULES: dict[str, tuple[str, Any, Any]] = {
    "Sequential": (
        "sequential", lambda: nn.Sequential(nn.Linear(2, 2), nn.ReLU(), nn.Linear(2, 1)),
        plain(3, 2, dtype=f32),
    ),
    "Linear": ("linear_and_embedding_compute", lambda: nn.Linear(4, 2), plain(3, 4, dtype=f32)),
    "Embedding": ("linear_and_embedding_compute", lambda: nn.Embedding(5, 3), whole(5, 2, 2)),
    "Conv2d": (
        "conv_and_pool_shapes", lambda: nn.Conv2d(4, 6, 3, stride=2, padding=1, groups=2),
        plain(2, 4, 8, 8, dtype=f32),
    ),
    "MaxPool2d": (
        "conv_and_pool_shapes", lambda: nn.Sequential(nn.MaxPool2d(2), nn.Flatten()),
        leaf(2, 4, 8, 8, dtype=f32),
    ),
    "LayerNorm": ("layer_norm", lambda: nn.LayerNorm((3, 4)), plain(2, 3, 4, dtype=f32)),
    "Dropout": ("dropout", lambda: nn.Sequential(nn.Linear(8, 8), nn.Dropout(0.25)),
                plain(4, 8, dtype=f32)),
    "padding": (
        "padding_layers",
        lambda: nn.Sequential(nn.ZeroPad1d(1), nn.ReflectionPad1d(2), nn.CircularPad1d((0, 1))),
        leaf(2, 2, 3),
    ),
    "Hardtanh": (
        "declared_modules_take_what_their_class_says",
        lambda: nn.Sequential(nn.Hardtanh(-0.5, max_val=0.5), nn.Threshold(0.1, -1.0)), leaf(6),
    ),
    "EmbeddingBag": (
        "embedding_of_a_table", lambda: nn.EmbeddingBag(5, 3, mode="sum"), whole(5, 2, 3)
    ),
    **{
        name: (
            "recurrent_layer_is_its_cell_step_by_step", lambda name=name: getattr(nn, name)(2, 3),
            plain(2, 2, 2, dtype=f32),
        )
        for name in ("RNN", "LSTM", "GRU")
    },
    "deep RNN": (
        "recurrent_dropout_and_directions",
        lambda: nn.RNN(2, 2, 2, dropout=0.5, bidirectional=True), plain(2, 2, 2, dtype=f32),
    ),
    "TransformerEncoder": (
        "layers_of_a_transformer_start_alike_and_apart",
        lambda: nn.TransformerEncoder(nn.TransformerEncoderLayer(4, 2, 8), 1),
        plain(3, 2, 4, dtype=f32),
    ),
    "spectral norm": (
        "spectral_norm", lambda: nn.utils.parametrizations.spectral_norm(nn.Linear(4, 5)),
        plain(2, 4, dtype=f32),
    ),
    **{
        f"weight norm {number}": (
            "weight_norm", lambda apply=apply: apply(nn.Linear(3, 2)), plain(4, 3, dtype=f32)
        )
        for number, (apply,) in enumerate(parameters(test_nn_utils.test_weight_norm))
    },
    "BatchNorm2d": (
        "batch_norm_gradient_goes_through_the_statistics",
        lambda: nn.BatchNorm2d(2, dtype=cf.float64), leaf(3, 2, 2, 2),
    ),
    "BatchNorm2d without history": (
        "batch_norm_without_history_and_errors",
        lambda: nn.BatchNorm2d(2, affine=False, track_running_stats=False).eval(),
        leaf(3, 2, 2, 2),
    ),
}  # fmt: skip
for name, (covered, make, argument) in MODULES.items():

    def a_module(make: Any = make) -> Any:
        return trained(make())

    a_module.__name__ = name
    modules(covered, argument, state=True)(a_module)


for (momentum,) in parameters(test_nn_layers.test_batch_norm_keeps_statistics):

    def statistics(momentum: Any = momentum) -> Any:
        layer = nn.BatchNorm2d(2, momentum=momentum)
        return trained(layer)

    statistics.__name__ = f"statistics with momentum {momentum}"
    modules("batch_norm_keeps_statistics", plain(4, 2, 3, 3, dtype=f32), state=True)(statistics)


ACTIVATIONS = (nn.ReLU(), nn.Sigmoid(), nn.SiLU(), nn.Tanh(), nn.GELU(), nn.Softmax(0))
IN_PLACE = nn.ReLU(inplace=True)


@modules("activations", leaf(4))
def activations(x: Tensor) -> Any:
    outs = [layer(x) for layer in ACTIVATIONS]
    sum((out * float(i + 1)).sum() for i, out in enumerate(outs)).backward()
    return [out.detach() for out in outs]


@modules("activations", plain(4))
def activation_in_place(x: Tensor) -> Tensor:
    return IN_PLACE(x)


@modules("inplace_activation_has_gradients", leaf(4))
def activation_of_a_result_in_place(x: Tensor) -> None:
    y = x * 3.0
    IN_PLACE(y)
    y.sum().backward()


@modules("dropout", plain(4), state=True)
def dropout_in_eval() -> Any:
    layer = nn.Dropout(0.25).eval()
    return lambda x: (layer(x), layer(x) * 2.0), [layer]


WEIGHTS = cf.tensor([1.0, 2.0, 3.0, 4.0, 5.0], dtype=cf.float64)
CRITERIA = (
    nn.CrossEntropyLoss(), nn.CrossEntropyLoss(reduction="sum"),
    nn.CrossEntropyLoss(reduction="none"), nn.CrossEntropyLoss(label_smoothing=0.1),
    lambda x, target: F.cross_entropy(x, target, WEIGHTS.to(x.device)),
    nn.CrossEntropyLoss(ignore_index=3), lambda x, target: F.mse_loss(x, target[:, None] * 1.0),
)  # fmt: skip


@modules("losses", leaf(4, 5), whole(5, 4))
def losses(x: Tensor, target: Tensor) -> Any:
    found = [criterion(x, target) for criterion in CRITERIA]
    sum((loss * float(i + 1)).sum() for i, loss in enumerate(found)).backward()
    return [loss.detach() for loss in found]


@modules("losses", leaf(4, 5), whole(5, 4), raises=ValueError)
def unknown_reduction(x: Tensor, target: Tensor) -> Any:
    return F.cross_entropy(x, target, reduction="max")


@modules("ignored_targets_have_no_gradient", leaf(2, 3))
def ignored_targets(x: Tensor) -> None:
    F.cross_entropy(x, cf.tensor([1, -100])).backward()


@modules("batch_norm_without_history_and_errors", plain(1, 2, 1, 1, dtype=f32), raises=ValueError,
         state=True)  # fmt: skip
def statistics_of_one_value() -> Any:
    layer = nn.BatchNorm2d(2)
    return layer, [layer]


@modules("other_initial_values", "uniform_distributions", state=True)
def initial_values() -> Any:
    p, table = nn.Parameter(cf.zeros(2)), cf.zeros(20, 30)
    draws = (
        nn.init.xavier_uniform_, nn.init.kaiming_uniform_, nn.init.normal_, nn.init.uniform_,
    )  # fmt: skip

    def step() -> Any:
        found = [draw(table).clone() for draw in draws]
        nn.init.constant_(p, 3.0)
        return found, nn.init.ones_(table) * 1.0

    return step, [p, table]


@modules("initial_values_repeat_with_the_seed", state=True)
def a_layer_made_inside() -> Any:
    def step() -> Any:
        layer = nn.Linear(4, 4)
        return [p.detach() for p in layer.parameters()]

    return step, []


def convolution_network() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(1, 4, 3, padding=1, bias=False), nn.BatchNorm2d(4), nn.ReLU(), nn.MaxPool2d(2),
        nn.Flatten(), nn.Dropout(0.1), nn.Linear(16, 2),
    )  # fmt: skip


@modules(
    "small_convolution_network_learns", "structure_is_kept_by_training",
    plain(8, 1, 4, 4, dtype=f32), whole(2, 8), state=True,
)  # fmt: skip
def small_convolution_network() -> Any:
    model, criterion = convolution_network(), nn.CrossEntropyLoss()
    optimizer = cf.optim.AdamW(model.parameters(), lr=0.02)

    def step(x: Tensor, target: Tensor) -> Tensor:
        optimizer.zero_grad()
        loss = criterion(model(x), target)
        loss.backward()
        optimizer.step()
        return loss.detach()

    return step, [model, optimizer]


@modules("hooks_with_keywords_and_order", plain(2, 3), state=True)
def module_hooks_with_keywords() -> Any:
    layer = nn.Identity()
    layer.register_forward_hook(lambda m, args, out: out * 2.0)
    layer.register_forward_hook(lambda m, args, out: out + 1.0, prepend=True)
    layer.register_forward_pre_hook(
        lambda m, args, kwargs: (args, {"input": kwargs["input"] + 1}), with_kwargs=True
    )
    return lambda x: layer(input=x), [layer]


@modules("attention_masks_and_errors", plain(2, 3, 4, dtype=f32), truth(2, 2), state=True)
def attention() -> Any:
    layer = nn.MultiheadAttention(4, 2, batch_first=True)
    causal = nn.Transformer.generate_square_subsequent_mask(3)

    def step(x: Tensor, ignored: Tensor) -> Any:
        padding = cf.cat([cf.zeros(2, 1, dtype=cf.bool), ignored], 1)
        out, weights = layer(x, x, x, key_padding_mask=padding, average_attn_weights=False)
        fast, _ = layer(x, x, x, attn_mask=causal, need_weights=False)
        (out * fast).sum().backward()
        return out.detach(), weights.detach(), fast.detach()

    return step, [layer]


@modules(
    "compiled_packed_sequence", "packed_sequences_come_back", leaf(2, 2), leaf(1, 2), state=True
)
def packed_sequences() -> Any:
    layer, rnn = nn.GRU(2, 3, dtype=cf.float64), nn.utils.rnn

    def step(*sequences: Tensor) -> Any:
        out, last = layer(rnn.pack_sequence(sequences))
        (out.data.sum() + (last * last).sum()).backward()
        return rnn.pad_packed_sequence(out, padding_value=-1.0)[0].detach()

    return step, [layer]


@modules("ctc_loss", leaf(4, 3))
def ctc_loss(x: Tensor) -> Tensor:
    loss = F.ctc_loss(cf.log_softmax(x, 1), cf.tensor([1, 2]), 4, 2, reduction="none")
    loss.sum().backward()
    return loss.detach()


@modules("parameter_list_and_dict", plain(2), state=True)
def lists_of_parameters() -> Any:
    weights = nn.ParameterList([cf.ones(2, dtype=cf.float64), cf.zeros(2, dtype=cf.float64)])
    named = nn.ParameterDict({"a": cf.ones(2, dtype=cf.float64)})

    def step(x: Tensor) -> None:
        (sum(p * x for p in weights) * named["a"]).sum().backward()

    return step, [weights, named]


@modules("clipping", plain(3), state=True)
def clipped_gradients() -> Any:
    p, q = (cf.ones(3, dtype=cf.float64, requires_grad=True) for _ in range(2))

    def step(x: Tensor) -> Any:
        p.grad = q.grad = None
        (p * x * 3.0 + q * q * x).sum().backward()
        found = nn.utils.clip_grad_norm_([p, q], 1.0), nn.utils.clip_grad_norm_([q], 0.3, np.inf)
        nn.utils.clip_grad_value_([p], 0.2)
        return found

    return step, [p, q]


@modules("parameters_as_a_vector", plain(6, dtype=f32), state=True)
def parameters_from_a_vector() -> Any:
    model = nn.Linear(2, 2)

    def step(x: Tensor) -> Tensor:
        vector = nn.utils.parameters_to_vector(model.parameters()).detach()
        nn.utils.vector_to_parameters(vector * x, model.parameters())
        return vector

    return step, [model]


@modules("normal_distributions", "structured_initial_values", state=True)
def other_initial_values() -> Any:
    table = cf.zeros(4, 6)
    draws = (nn.init.xavier_normal_, nn.init.kaiming_normal_, nn.init.trunc_normal_, nn.init.eye_)
    return lambda: [draw(table).clone() for draw in draws], [table]


@modules("module_list", "module_dict", plain(2, 3, dtype=f32), state=True)
def containers() -> Any:
    class Branches(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layers = nn.ModuleList([nn.Linear(3, 3), nn.Tanh()])
            self.named = nn.ModuleDict({"a": nn.Linear(3, 2), "b": nn.Linear(3, 2)})

        def forward(self, x: Tensor) -> Tensor:
            for layer in self.layers:
                x = layer(x)
            return sum(branch(x) for branch in self.named.values())

    return trained(Branches())


for name in sorted(test_nn.CHANGES.keys() - {"parameter to None", "deletion"}):

    def a_changed_module(name: str = name) -> Any:
        block = Block()

        def change(number: int) -> None:
            if number == 1:
                test_nn.CHANGES[name](block)

        def step(x: Tensor) -> Tensor:
            block.zero_grad()
            out = block(x)
            out.sum().backward()
            return out.detach()

        return step, [block], change

    a_changed_module.__name__ = f"changed between calls, {name}"
    modules("structure_is_raised_by", plain(2, 3, dtype=f32), state=True)(a_changed_module)


@modules("structure_is_raised_by_removing_a_hook_once", plain(2, 3, dtype=f32), state=True)
def a_module_hook_removed_between_calls() -> Any:
    layer = nn.Linear(3, 3)
    handle = layer.register_forward_hook(lambda module, args, out: out * 2.0)
    return lambda x: layer(x).detach(), [layer], lambda number: number == 1 and handle.remove()


@modules("structure_is_raised_for_children_by_eval", plain(2, 3, dtype=f32), state=True)
def children_switched_between_calls() -> Any:
    model = nn.Sequential(nn.Linear(3, 3), nn.Sequential(nn.Dropout(0.5)))
    return lambda x: model(x).detach(), [model], lambda number: model.train(number == 0)


@modules("to_converts_in_place", plain(2, 1, 4, 4), state=True)
def a_module_converted_between_calls() -> Any:
    step, state = trained(nn.Sequential(nn.Conv2d(1, 2, 3), nn.BatchNorm2d(2)))
    return step, state, lambda number: number == 1 and state[0].to(cf.float64)


@modules("deepcopy_is_independent_and_keeps_sharing", plain(2, 3, dtype=f32), state=True)
def a_copied_module() -> Any:
    block = Block()
    twin = copy.deepcopy(block)
    step, _ = trained(twin)
    return step, [block, twin]
