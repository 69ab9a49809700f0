"""Scenarios of modules, optimizers and parallel backward, and of what the originals promise."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import numpy as np
from tests.graph import test_parallel
from tests.helpers import update_rules
from tests.helpers.modules import Block
from tests.helpers.scenario import EagerFile, leaf, parameters, plain, tensors, truth, whole
from tests.nn import test_nn, test_nn_layers, test_nn_utils

import contraflow as cf
from contraflow import nn
from contraflow.autograd import grad, saved_tensors_hooks
from contraflow.optim import LBFGS, SGD, Adam, Muon, Optimizer

Tensor = cf.Tensor
F = nn.functional
f32 = cf.float32

# --- modules -------------------------------------------------------------------------------------

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


CRITERIA = (
    nn.CrossEntropyLoss(), nn.CrossEntropyLoss(reduction="sum"),
    nn.CrossEntropyLoss(reduction="none"), nn.CrossEntropyLoss(label_smoothing=0.1),
    nn.CrossEntropyLoss(cf.tensor([1.0, 2.0, 3.0, 4.0, 5.0], dtype=cf.float64)),
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


# --- optimizers ----------------------------------------------------------------------------------

optimizers = EagerFile("test_optim")


def optimized(make: Callable[[list[Tensor]], Optimizer], *shape: int, dtype: Any = f32) -> Any:
    """Steps on a quadratic whose minimum is the argument."""
    p = cf.tensor(np.random.default_rng(2).standard_normal(shape), dtype=dtype, requires_grad=True)
    optimizer = make([p])

    def step(x: Tensor) -> Tensor:
        optimizer.zero_grad()
        loss = ((p - x) * (p - x) * 1.5).sum()
        loss.backward()
        optimizer.step()
        return loss.detach()

    return step, [p, optimizer]


for number, (kind, options) in enumerate(update_rules.CASES):

    def an_optimizer(kind: Any = kind, options: Any = options) -> Any:
        return optimized(lambda ps: kind(ps, **options), 3, 4, dtype=cf.float64)

    an_optimizer.__name__ = f"{kind.__name__} {number}"
    optimizers(
        "trajectory", "trajectory_with_symbolic_scalars", "small_network_learns", plain(3, 4),
        state=True,
    )(an_optimizer)  # fmt: skip

for kind in update_rules.REFERENCES:

    def a_number(kind: Any = kind) -> Any:
        return optimized(lambda ps: kind(ps, lr=0.125), dtype=cf.float64)

    a_number.__name__ = f"{kind.__name__} of a number"
    optimizers("zero_dimensional_and_half_parameters", plain(), state=True)(a_number)


@optimizers(
    "parameters_without_gradient_are_skipped", plain(2, dtype=f32), state=True,
)  # fmt: skip
def a_parameter_without_gradient() -> Any:
    p, q = (cf.ones(2, requires_grad=True) for _ in range(2))
    optimizer = Adam([p, q], lr=0.1, weight_decay=0.1)

    def step(x: Tensor) -> None:
        optimizer.zero_grad()
        (p * x).sum().backward()
        optimizer.step()

    return step, [p, q, optimizer]


@optimizers("closure_runs_with_gradients", plain(2, dtype=f32), state=True)
def a_closure() -> Any:
    p = cf.ones(2, requires_grad=True)
    optimizer = SGD([p], lr=0.25)

    def step(x: Tensor) -> Tensor:
        def closure() -> Tensor:
            optimizer.zero_grad()
            loss = (p * p * x).sum()
            loss.backward()
            return loss

        with cf.no_grad():
            return optimizer.step(closure).detach()

    return step, [p, optimizer]


@optimizers("zero_grad", plain(2, dtype=f32), state=True)
def gradients_of_an_optimizer_set_to_zero() -> Any:
    p = cf.ones(2, requires_grad=True)
    optimizer = SGD([p])

    def step(x: Tensor) -> Tensor:
        (p * x).sum().backward()
        kept = p.grad.clone()
        optimizer.zero_grad(set_to_none=False)
        return kept

    return step, [p]


@optimizers("parameter_put_into_the_list", plain(2, dtype=f32), state=True)
def a_parameter_put_into_the_list() -> Any:
    p, q = (cf.ones(2, requires_grad=True) for _ in range(2))
    optimizer = Adam([p], lr=0.5)
    optimizer.param_groups[0]["params"].append(q)

    def step(x: Tensor) -> None:
        (q * x).sum().backward()
        optimizer.step()

    return step, [p, q, optimizer]


@optimizers("own_optimizer", plain(2), state=True)
def own_optimizer() -> Any:
    class Sign(Optimizer):
        """Steps of a fixed size."""

        def __init__(self, params: Any, lr: float) -> None:
            super().__init__(params, {"lr": lr})

        def update(self, group: Any, updated: Any) -> None:
            for p, g, _ in updated:
                p.sub_(g.sign() * group["lr"])

    return optimized(lambda ps: Sign(ps, 0.25), 2, dtype=cf.float64)


@optimizers("groups_differ_in_their_numbers", plain(2, dtype=f32), state=True)
def groups_of_parameters() -> Any:
    p, q = (cf.ones(2, requires_grad=True) for _ in range(2))
    optimizer = SGD([{"params": [p]}, {"params": [q], "lr": 0.5, "momentum": 0.9}], lr=0.1)

    def step(x: Tensor) -> None:
        optimizer.zero_grad()
        (p * q * x).sum().backward()
        optimizer.step()

    return step, [p, q, optimizer]


@optimizers("numbers_are_written_into_the_same_cell", plain(2), state=True)
def a_learning_rate_that_falls() -> Any:
    step, (p, optimizer) = optimized(lambda ps: Adam(ps, lr=0.1), 2, dtype=cf.float64)

    def with_schedule(x: Tensor) -> Tensor:
        loss = step(x)
        group = optimizer.param_groups[0]
        group["lr"] = group["lr"] * 0.5
        return loss

    return with_schedule, [p, optimizer]


def changed_between_calls(change: Callable[[Optimizer], Any], kind: Any = Adam) -> Any:
    """Steps of which the second comes after a change."""
    step, state = optimized(lambda ps: kind(ps, lr=0.1), 2, dtype=cf.float64)
    return step, state, lambda number: number == 1 and change(state[1])


@optimizers("use_of_a_number_is_structure_once_it_was_asked_for", plain(2), state=True)
def weight_decay_switched_on() -> Any:
    return changed_between_calls(lambda o: o.param_groups[0].update(weight_decay=0.1, lr=0.01))


@optimizers("momentum_switched_on_later", plain(2), state=True)
def momentum_switched_on() -> Any:
    return changed_between_calls(lambda o: o.param_groups[0].update(momentum=0.5), SGD)


@optimizers(
    "load_state_dict_writes_into_what_is_there", "state_dict_round_trip", plain(2), state=True
)
def state_loaded_between_calls() -> Any:
    _, (_, other) = optimized(lambda ps: Adam(ps, lr=0.3), 2, dtype=cf.float64)
    saved = other.state_dict()
    saved["state"][0].update(step=4, exp_avg=cf.ones(2, dtype=cf.float64))
    return changed_between_calls(lambda o: o.load_state_dict(saved))


@optimizers("loading_counters_that_differ", plain(2, dtype=f32), state=True)
def counters_that_differ() -> Any:
    p, q = (cf.ones(2, requires_grad=True) for _ in range(2))
    optimizer = Adam([p, q], lr=0.1)
    saved = copy.deepcopy(optimizer.state_dict())
    saved["state"][0]["step"], saved["state"][1]["step"] = 5, 3

    def step(x: Tensor) -> None:
        optimizer.zero_grad()
        (p * q * x).sum().backward()
        optimizer.step()

    return (
        step, [p, q, optimizer], lambda number: number == 1 and optimizer.load_state_dict(saved)
    )  # fmt: skip


@optimizers(
    "parameters_share_their_counters_until_one_stays_behind", plain(2, dtype=f32), state=True
)
def one_counter_stays_behind() -> Any:
    p, q = (cf.ones(2, requires_grad=True) for _ in range(2))
    optimizer = Adam([p, q], lr=0.1)

    def step(x: Tensor) -> None:
        optimizer.zero_grad()
        (p * q * x).sum().backward()
        optimizer.step()
        q.grad = None
        optimizer.step()

    return step, [p, q, optimizer]


@optimizers("muon", plain(4, 3), state=True, through=cf.bfloat16)
def muon() -> Any:
    return optimized(lambda ps: Muon(ps, lr=0.02), 4, 3, dtype=cf.float64)


@optimizers(
    "lbfgs_finds_the_minimum", plain(3), state=True,
    refuses="its control flow depends on the loss",
)  # fmt: skip
def steps_that_read_values() -> Any:
    p = cf.ones(3, dtype=cf.float64, requires_grad=True)
    optimizer = LBFGS([p], max_iter=2)

    def step(x: Tensor) -> Tensor:
        def closure() -> Tensor:
            optimizer.zero_grad()
            loss = ((p - x) * (p - x)).sum()
            loss.backward()
            return loss

        return optimizer.step(closure).detach()

    return step, [p]


@optimizers("gradient_that_does_not_fit", plain(2, dtype=f32), raises=ValueError, state=True)
def a_gradient_of_another_shape() -> Any:
    p = cf.ones(2, requires_grad=True)
    optimizer = SGD([p])
    p.grad = cf.ones(2)
    p.data = cf.ones(3, dtype=cf.float64)
    return lambda x: optimizer.step(), [p]


# --- parallel backward ---------------------------------------------------------------------------

parallel = EagerFile("test_parallel")

for (seed,) in parameters(test_parallel.test_seed_13_the_bits_equal_sequentials, 1)[:2]:

    def branches(w: Tensor, x: Tensor, seed: int = seed) -> None:
        rng, values = np.random.default_rng(seed), [x]
        for _ in range(30):
            a, b = (values[i] for i in rng.integers(0, len(values), 2))
            kinds = ((a @ w).tanh(), a * b, (a + b).sin(), cf.where(a > 0.0, a, b) * w[0])
            values.append(kinds[rng.integers(4)])
        loss = sum((v * v).mean() for v in values[15:]) + values[-1].split(2)[1].sum()
        loss.backward(workers=4)

    parallel.named(
        f"branches {seed}", "seed_13_the_bits_equal_sequentials", leaf(6, 6), plain(4, 6)
    )(branches)


@parallel("seed_13_leaves_shared_by_branches_accumulate_without_a_race", leaf(64))
def many_branches(x: Tensor) -> None:
    sum((x * float(k)).sum() for k in range(100)).backward(workers=8)


@parallel("seed_13_an_error_surfaces_and_nothing_hangs", leaf(16), raises=KeyError)
def an_error_in_a_branch(x: Tensor) -> None:
    def fail(g: Tensor) -> None:
        raise KeyError("in a branch")

    branches = [(x * float(k)).sin().exp() for k in range(10)]
    branches[3].register_hook(fail)
    sum(b.sum() for b in branches).backward(workers=4)


@parallel("hooks_run_one_at_a_time", leaf(8))
def hooks_in_branches(x: Tensor) -> list[int]:
    seen: list[int] = []
    branches = [(x * float(k)).sin() for k in range(20)]
    for k, branch in enumerate(branches):
        branch.register_hook(lambda g, k=k: seen.append(k) or g * 2.0)
        branch.grad_fn.register_hook(lambda inputs, outputs: (inputs[0] * 3.0,))
    sum(branches).sum().backward(workers=6)
    return seen


@parallel("workers_have_the_callers_state", leaf(1))
def hooks_on_saved_values_of_workers(x: Tensor) -> None:
    with saved_tensors_hooks(lambda t: t * 2.0, lambda t: t):
        sum((x * x * float(k)).sin() for k in range(30)).backward(workers=4)


@parallel("targets_checkpoints_and_several_orders", leaf(6, 6), leaf(6, 6))
def targets_and_checkpoints(v: Tensor, w: Tensor) -> Any:
    h = cf.ones(4, 6, dtype=cf.float64)
    for u in (v, w, v, w):
        h = cf.checkpoint(lambda a, b: cf.dropout((a @ b).tanh(), 0.5), h, u) + h
    middle = h * 2.0
    (middle * middle).sum().backward(inputs=[v, middle], workers=4, create_graph=True)
    first, v.grad = v.grad, None
    (first * first).sum().backward(workers=4)
    return first.detach(), middle.grad.detach()


@parallel("a_root_that_is_a_leaf_and_outputs_nobody_used", leaf(1), leaf(1, 2))
def leaves_as_roots(x: Tensor, z: Tensor) -> Any:
    x.backward(workers=2)
    values, _ = z.max(1)
    values.backward(workers=2)
    y = x * 2.0
    y.backward(inputs=[y], workers=2)
    return y.grad


# --- what the originals promise ------------------------------------------------------------------

flow, rules = EagerFile("test_seed_flow"), EagerFile("test_seed_rules")


@flow("line_02_a_chain_of_20_000_ops", "line_02_a_chain_of_1_000_000_ops", leaf(1))
def chain(x: Tensor) -> Any:
    y = x
    for _ in range(300):
        y = y * 1.0 + 0.5
    return grad(y, x)


@flow("line_11_a_custom_function_names_the_users_line", leaf(2), raises=cf.GradientError)
def a_wrong_custom_function(x: Tensor) -> None:
    class Wrong(cf.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Tensor) -> Tensor:
            return x * 1.0

        @staticmethod
        def backward(ctx: Any, g: Tensor) -> Tensor:
            return g[:1]

    Wrong.apply(x).sum().backward()


@flow("line_13_an_error_in_one_branch_surfaces", leaf(1), raises=ZeroDivisionError)
def a_division_by_zero_in_a_branch(x: Tensor) -> None:
    branches = [(x * float(k)).sin() for k in range(8)]
    branches[2].register_hook(lambda g: 1 / 0)
    sum(branches).backward(workers=4)


for name, function, shapes in (
    (
        "batch_norm", lambda x, w, b: F.batch_norm(x, None, None, w, b, training=True),
        [(5, 3), (3,), (3,)],
    ),
    ("conv2d", lambda x, w, b: F.conv2d(x, w, b), [(1, 2, 5, 5), (3, 2, 3, 3), (3,)]),
):  # fmt: skip
    rules.pure(
        name, "line_04_norms_and_convolutions_have_real_gradients", *(leaf(*s) for s in shapes)
    )(function)

for stride in (2, 3):
    rules.pure(
        f"conv2d with stride {stride}", "line_06_conv2d_whose_stride_does_not_divide_its_input",
        leaf(1, 2, 8, 6), leaf(2, 2, 3, 3),
    )(lambda x, w, stride=stride: F.conv2d(x, w, stride=stride))  # fmt: skip


@rules(
    "line_05_mse_loss_uses_the_incoming_gradient_and_differentiates_its_target", leaf(2), leaf(2)
)
def mean_square(x: Tensor, y: Tensor) -> Any:
    return grad(F.mse_loss(x, y) * 7.0, [x, y])


@rules("line_04_dropout_has_the_gradient_of_its_mask", leaf(100))
def gradient_of_dropout(x: Tensor) -> Any:
    y = F.dropout(x, 0.5, training=True)
    return y.detach(), grad(y.sum(), x)


@EagerFile("test_seed_graph")("line_09_is_recomputing_is_restored", leaf(1), raises=KeyError)
def a_recomputation_that_raises(x: Tensor) -> None:
    seen: list[bool] = []

    def function(v: Tensor) -> Tensor:
        seen.append(cf.is_recomputing())
        if len(seen) == 2:
            raise KeyError
        return v.sin()

    cf.checkpoint(function, x).backward()
