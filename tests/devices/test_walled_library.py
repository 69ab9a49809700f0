"""Modules and optimizers on the walled device: each program gives what it gives on the cpu, and
leaves its tensors where they are.

Each runs twice: on the walled device while the cpu is the default device, and on the cpu while the
walled one is. So whatever the library makes must lie where its inputs do, in both directions.
"""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from typing import Any

import pytest
from tests.helpers.two_places import drawn, positive, same, small, train, whole
from tests.helpers.walled import opened

import contraflow as cf
import contraflow.nn.functional as F
from contraflow import amp, nn, optim
from contraflow.autograd import grad
from contraflow.nn.utils import parametrizations, rnn
from contraflow.optim import lr_scheduler
from contraflow.tensors.tree import leaves_of
from contraflow.testing import assert_close


@pytest.fixture(autouse=True, scope="module")
def device():
    with opened() as found:
        yield found


# --- modules -------------------------------------------------------------------------------------


def x(*shape: int) -> Callable[[str], cf.Tensor]:
    return lambda place: drawn(place, *shape, requires_grad=True)


def labels(high: int, *shape: int) -> Callable[[str], cf.Tensor]:
    return lambda place: whole(place, high, *shape)


def between(*shape: int) -> Callable[[str], cf.Tensor]:
    return lambda place: positive(drawn(place, *shape, seed=3))


def signs(*shape: int) -> Callable[[str], cf.Tensor]:
    return lambda place: whole(place, 2, *shape) * 2.0 - 1.0


IMAGE, VOLUME, LINE, ROWS = x(2, 4, 6, 6), x(1, 2, 4, 4, 4), x(2, 4, 8), x(3, 4)

MODULES: dict[str, tuple[Callable[[], nn.Module], tuple[Callable[[str], cf.Tensor], ...]]] = {
    "AdaptiveAvgPool2d": (lambda: nn.AdaptiveAvgPool2d(4), (IMAGE,)),
    "AdaptiveMaxPool2d": (lambda: nn.AdaptiveMaxPool2d((3, 4), return_indices=True), (IMAGE,)),
    "AlphaDropout": (lambda: nn.AlphaDropout(0.4), (ROWS,)),
    "AvgPool1d": (lambda: nn.AvgPool1d(3, 2, 1, ceil_mode=True), (LINE,)),
    "AvgPool2d": (lambda: nn.AvgPool2d(3, 2, 1, count_include_pad=False), (IMAGE,)),
    "BCELoss": (lambda: nn.BCELoss(), (between(3, 4), between(3, 4))),
    "BCEWithLogitsLoss": (lambda: nn.BCEWithLogitsLoss(), (ROWS, between(3, 4))),
    "BatchNorm1d": (lambda: nn.BatchNorm1d(4), (LINE,)),
    "BatchNorm2d": (lambda: nn.BatchNorm2d(4, momentum=None), (IMAGE,)),
    "Bilinear": (lambda: nn.Bilinear(4, 4, 2), (ROWS, ROWS)),
    "CELU": (lambda: nn.CELU(), (ROWS,)),
    "CTCLoss": (
        lambda: nn.CTCLoss(),
        (lambda p: F.log_softmax(drawn(p, 6, 2, 4, requires_grad=True), -1),
         lambda p: 1 + whole(p, 3, 2, 3), lambda p: cf.tensor([6, 5], device=p),
         lambda p: cf.tensor([3, 2], device=p)),
    ),
    "ChannelShuffle": (lambda: nn.ChannelShuffle(2), (IMAGE,)),
    "CircularPad2d": (lambda: nn.CircularPad2d(2), (IMAGE,)),
    "ConstantPad1d": (lambda: nn.ConstantPad1d((1, 2), 0.5), (LINE,)),
    "Conv1d": (lambda: nn.Conv1d(4, 6, 3, padding="same", padding_mode="reflect"), (LINE,)),
    "Conv2d": (lambda: nn.Conv2d(4, 6, 3, 2, 1, groups=2), (IMAGE,)),
    "Conv3d": (lambda: nn.Conv3d(2, 2, 2), (VOLUME,)),
    "ConvTranspose1d": (lambda: nn.ConvTranspose1d(4, 2, 3, 2, 1), (LINE,)),
    "ConvTranspose2d": (lambda: nn.ConvTranspose2d(4, 2, 2, 2), (x(1, 4, 3, 3),)),
    "CosineEmbeddingLoss": (lambda: nn.CosineEmbeddingLoss(), (ROWS, x(3, 4), signs(3))),
    "CosineSimilarity": (lambda: nn.CosineSimilarity(), (ROWS, ROWS)),
    "CrossEntropyLoss": (
        lambda: nn.CrossEntropyLoss(cf.ones(4), label_smoothing=0.1), (ROWS, labels(4, 3)),
    ),
    "Dropout": (lambda: nn.Dropout(0.4), (ROWS,)),
    "Dropout2d": (lambda: nn.Dropout2d(0.4), (IMAGE,)),
    "ELU": (lambda: nn.ELU(inplace=False), (ROWS,)),
    "Embedding": (lambda: nn.Embedding(5, 3, 0, max_norm=1.0), (labels(5, 2, 3),)),
    "EmbeddingBag": (
        lambda: nn.EmbeddingBag(5, 3), (labels(5, 6), lambda p: cf.tensor([0, 2, 2], device=p)),
    ),
    "EmbeddingBag.max": (lambda: nn.EmbeddingBag(5, 3, mode="max"), (labels(5, 2, 3),)),
    "FeatureAlphaDropout": (lambda: nn.FeatureAlphaDropout(0.4), (IMAGE,)),
    "Flatten": (lambda: nn.Flatten(), (IMAGE,)),
    "Fold": (lambda: nn.Fold((4, 4), 2), (x(1, 8, 9),)),
    "FractionalMaxPool2d": (lambda: nn.FractionalMaxPool2d(2, output_size=3), (IMAGE,)),
    "GELU": (lambda: nn.GELU(), (ROWS,)),
    "GLU": (lambda: nn.GLU(), (ROWS,)),
    "GRU": (lambda: nn.GRU(4, 3, 2, bidirectional=True, dropout=0.3), (x(3, 2, 4),)),
    "GRUCell": (lambda: nn.GRUCell(4, 3), (ROWS,)),
    "GaussianNLLLoss": (lambda: nn.GaussianNLLLoss(full=True), (ROWS, x(3, 4), between(3, 4))),
    "GroupNorm": (lambda: nn.GroupNorm(2, 4), (IMAGE,)),
    "HingeEmbeddingLoss": (lambda: nn.HingeEmbeddingLoss(), (ROWS, signs(3, 4))),
    "HuberLoss": (lambda: nn.HuberLoss(), (ROWS, x(3, 4))),
    "InstanceNorm2d": (
        lambda: nn.InstanceNorm2d(4, affine=True, track_running_stats=True), (IMAGE,),
    ),
    "KLDivLoss": (lambda: nn.KLDivLoss("batchmean"), (ROWS, between(3, 4))),
    "LPPool2d": (lambda: nn.LPPool2d(3, 2), (lambda p: positive(drawn(p, 1, 2, 4, 4)),)),
    "LSTM": (lambda: nn.LSTM(4, 3, proj_size=2, batch_first=True), (x(2, 3, 4),)),
    "LSTMCell": (lambda: nn.LSTMCell(4, 3), (ROWS,)),
    "LayerNorm": (lambda: nn.LayerNorm(4), (ROWS,)),
    "LazyBatchNorm2d": (lambda: nn.LazyBatchNorm2d(), (IMAGE,)),
    "LazyConv2d": (lambda: nn.LazyConv2d(3, 3), (IMAGE,)),
    "LazyLinear": (lambda: nn.LazyLinear(3), (ROWS,)),
    "LeakyReLU": (lambda: nn.LeakyReLU(), (ROWS,)),
    "Linear": (lambda: nn.Linear(4, 3), (ROWS,)),
    "LinearCrossEntropyLoss": (
        lambda: nn.LinearCrossEntropyLoss(4, 5), (ROWS, labels(5, 3)),
    ),
    "LocalResponseNorm": (lambda: nn.LocalResponseNorm(3), (IMAGE,)),
    "MarginRankingLoss": (lambda: nn.MarginRankingLoss(0.1), (x(3), between(3), signs(3))),
    "MaxPool1d": (lambda: nn.MaxPool1d(3, 2, 1), (LINE,)),
    "MaxPool2d": (lambda: nn.MaxPool2d(2, return_indices=True), (IMAGE,)),
    "MaxPool3d": (lambda: nn.MaxPool3d(2), (VOLUME,)),
    "MaxUnpool2d": (
        lambda: nn.MaxUnpool2d(2),
        (x(1, 2, 2, 2), lambda p: F.max_pool2d(drawn(p, 1, 2, 4, 4), 2, return_indices=True)[1]),
    ),
    "MultiLabelMarginLoss": (
        lambda: nn.MultiLabelMarginLoss(),
        (ROWS, lambda p: cf.tensor([[1, 2, -1, 0]] * 3, device=p)),
    ),
    "MultiMarginLoss": (
        lambda: nn.MultiMarginLoss(), (ROWS, labels(4, 3)),
    ),
    "MultiheadAttention": (
        lambda: nn.MultiheadAttention(4, 2, dropout=0.2, bias=True, add_bias_kv=True,
                                      add_zero_attn=True),
        (x(3, 2, 4), x(5, 2, 4), x(5, 2, 4), lambda p: whole(p, 2, 2, 5) > 1),
    ),
    "NLLLoss": (lambda: nn.NLLLoss(ignore_index=1), (ROWS, labels(4, 3))),
    "PReLU": (lambda: nn.PReLU(4), (ROWS,)),
    "PairwiseDistance": (lambda: nn.PairwiseDistance(), (ROWS, between(3, 4))),
    "PixelShuffle": (lambda: nn.PixelShuffle(2), (IMAGE,)),
    "PoissonNLLLoss": (lambda: nn.PoissonNLLLoss(full=True), (ROWS, between(3, 4))),
    "RMSNorm": (lambda: nn.RMSNorm(4), (ROWS,)),
    "RNN": (lambda: nn.RNN(4, 3, nonlinearity="relu"), (x(3, 2, 4),)),
    "RReLU": (lambda: nn.RReLU(), (ROWS,)),
    "ReflectionPad2d": (lambda: nn.ReflectionPad2d(2), (IMAGE,)),
    "ReplicationPad2d": (lambda: nn.ReplicationPad2d(2), (IMAGE,)),
    "SiLU": (lambda: nn.SiLU(), (ROWS,)),
    "SmoothL1Loss": (lambda: nn.SmoothL1Loss(), (ROWS, between(3, 4))),
    "Softmax2d": (lambda: nn.Softmax2d(), (IMAGE,)),
    "SoftMarginLoss": (lambda: nn.SoftMarginLoss(), (ROWS, signs(3, 4))),
    "Threshold": (lambda: nn.Threshold(0.1, 20.0), (ROWS,)),
    "Transformer": (
        lambda: nn.Transformer(4, 2, 1, 1, 8, dropout=0.1), (x(3, 2, 4), x(2, 2, 4)),
    ),
    "TripletMarginLoss": (
        lambda: nn.TripletMarginLoss(swap=True), (ROWS, between(3, 4), labels(2, 3, 4)),
    ),
    "Unfold": (lambda: nn.Unfold(2), (IMAGE,)),
    "Upsample": (
        lambda: nn.Upsample(scale_factor=1.5, mode="bicubic", align_corners=True), (x(1, 1, 4, 4),),
    ),
    "UpsamplingNearest2d": (lambda: nn.UpsamplingNearest2d(scale_factor=2), (IMAGE,)),
}  # fmt: skip


@pytest.mark.parametrize("name", MODULES)
def test_module(name, device):
    make, shapes = MODULES[name]

    def program(place: str) -> Any:
        module = make().to(place)
        inputs = [make_input(place) for make_input in shapes]
        before = device.runs + device.uploads, device.downloads
        out = module(*inputs)
        outs = [o for o in leaves_of(out) if o.requires_grad]
        state = [*module.parameters(), *inputs]
        gradients = []
        if outs:
            leaves = [t for t in state if t.is_leaf and t.requires_grad]
            total = sum(o.square().sum() for o in outs)
            gradients = grad(total, leaves, allow_unused=True)
        if place == "cpu":  # nothing is done on the other device, though it is the default one
            assert device.runs + device.uploads == before[0]
        assert device.downloads == before[1]
        return [out, *(g for g in gradients if g is not None), *module.state_dict().values()]

    same(program)


def test_modules_that_are_made_on_a_device_draw_there(device):
    before = device.uploads
    cf.manual_seed(0)
    module = nn.Linear(3, 2, device="walled")
    assert device.uploads == before
    cf.manual_seed(0)
    assert_close(module.weight, nn.Linear(3, 2).weight)


@pytest.mark.parametrize(
    "name",
    ["uniform_", "normal_", "trunc_normal_", "eye_", "orthogonal_", "xavier_uniform_",
     "xavier_normal_", "kaiming_uniform_", "kaiming_normal_", "zeros_", "ones_"],
)  # fmt: skip
def test_initial_values(name):
    same(lambda place: getattr(nn.init, name)(cf.empty(4, 3, device=place)))


def test_initial_values_with_arguments():
    same(lambda place: nn.init.sparse_(cf.empty(4, 3, device=place), 0.5))
    same(lambda place: nn.init.dirac_(cf.empty(4, 3, 3, device=place)))
    same(lambda place: nn.init.constant_(cf.empty(4, 3, device=place), 2.0))


def test_sequences():
    def program(place: str) -> Any:
        sequences = [drawn(place, n, 2, seed=n) for n in (3, 1, 4)]
        padded = rnn.pad_sequence(sequences)
        packed = rnn.pack_padded_sequence(padded, [3, 1, 4], enforce_sorted=False)
        module = nn.LSTM(2, 3, bidirectional=True).to(place)
        out, state = module(packed)
        back, lengths = rnn.pad_packed_sequence(out, total_length=5, padding_value=-1.0)
        again = rnn.pack_padded_sequence(padded, lengths, enforce_sorted=False)
        joined = rnn.pack_sequence(sequences, enforce_sorted=False)
        parts = rnn.unpad_sequence(back, lengths)
        gradients = grad(back.sum(), list(module.parameters()))
        return [padded, packed.data, state, back, lengths, again.data, joined.data, parts,
                list(gradients)]  # fmt: skip

    same(program)


def test_attention_masks():
    def program(place: str) -> Any:
        module = nn.MultiheadAttention(4, 2, batch_first=True).to(place)
        x = drawn(place, 2, 3, 4, requires_grad=True)
        causal = nn.Transformer.generate_square_subsequent_mask(3, device=place)
        flags = cf.triu(cf.ones(3, 3, dtype=cf.bool, device=place), 1)
        padding = cf.tensor([[False, False, True]] * 2, device=place)
        outs = [
            module(x, x, x, attn_mask=mask, key_padding_mask=padding)[0] for mask in (causal, flags)
        ]
        outs.append(F.scaled_dot_product_attention(x, x, x, is_causal=True))
        outs.append(F.scaled_dot_product_attention(x, x, x, attn_mask=~flags, dropout_p=0.3))
        layer = nn.TransformerEncoderLayer(4, 2, 8, batch_first=True, norm_first=True).to(place)
        encoder = nn.TransformerEncoder(layer, 2)
        outs.append(encoder(x, src_key_padding_mask=padding))
        return [*outs, *grad(sum(o.sum() for o in outs), [x])]

    same(program)


@pytest.mark.parametrize("kind", ["weight_norm", "spectral_norm", "old_weight_norm"])
def test_parametrized(kind):
    def program(place: str) -> Any:
        module = nn.Linear(4, 3).to(place)
        if kind == "old_weight_norm":
            nn.utils.weight_norm(module)
        else:
            getattr(parametrizations, kind)(module)
        module(drawn(place, 2, 4)).square().sum().backward()
        return [module.weight, [p.grad for p in module.parameters()], module.state_dict()]

    same(program)


def test_adaptive_softmax():
    def program(place: str) -> Any:
        module = nn.AdaptiveLogSoftmaxWithLoss(4, 10, [3, 6], head_bias=True).to(place)
        x = drawn(place, 5, 4)
        return [module.log_prob(x), module.predict(x)]

    same(program)


# --- optimizers ----------------------------------------------------------------------------------

OPTIMIZERS: dict[str, dict[str, Any]] = {
    "ASGD": {}, "Adadelta": {}, "Adagrad": {"lr": 0.1}, "Adam": {"amsgrad": True},
    "AdamW": {"lr": 0.1}, "Adamax": {}, "Lion": {}, "Muon": {}, "NAdam": {}, "RAdam": {},
    "RMSprop": {"momentum": 0.9, "centered": True}, "Rprop": {},
    "SGD": {"lr": 0.1, "momentum": 0.9, "nesterov": True, "weight_decay": 0.1},
}  # fmt: skip


@pytest.mark.parametrize("compiled", [False, True], ids=["eager", "compiled"])
@pytest.mark.parametrize("name", OPTIMIZERS)
def test_optimizer(name, compiled, device):
    def program(place: str) -> Any:
        w = nn.Parameter(drawn(place, 3, 2))
        x = drawn(place, 4, 3, seed=1)
        optimizer = getattr(optim, name)([w], **OPTIMIZERS[name])
        schedule = lr_scheduler.ExponentialLR(optimizer, 0.5)

        def step(x: cf.Tensor) -> cf.Tensor:
            optimizer.zero_grad()
            loss = (x @ w).square().sum()
            loss.backward()
            optimizer.step()
            return loss

        run = cf.compile(step) if compiled else step
        losses = []
        before = device.downloads
        for _ in range(3):
            losses.append(run(x))
            schedule.step()
        assert device.downloads == before
        state = [v for v in optimizer.state[w].values() if isinstance(v, cf.Tensor) and v.ndim]
        return [losses, w, state]

    same(program)


@pytest.mark.parametrize("search", [None, "strong_wolfe"])
def test_lbfgs(search):
    def program(place: str) -> Any:
        w = nn.Parameter(drawn(place, 3, 2))
        x, y = drawn(place, 4, 3, seed=1), drawn(place, 4, 2, seed=2)
        optimizer = optim.LBFGS([w], lr=0.5, max_iter=4, line_search_fn=search)

        def closure() -> cf.Tensor:
            optimizer.zero_grad()
            loss = (x @ w - y).square().mean()
            loss.backward()
            return loss

        return [optimizer.step(closure) for _ in range(2)] + [w]

    same(program, 1e-3)


def test_states_cross_devices():
    x = drawn("cpu", 4, 3)
    cf.manual_seed(0)
    here = small("cpu")
    first = optim.Adam(here.parameters(), lr=0.1)
    train(here, first, x)
    there = small("walled")
    second = optim.Adam(there.parameters(), lr=0.1)
    there.load_state_dict(here.state_dict())
    second.load_state_dict(first.state_dict())
    assert {str(t.device) for t in there.state_dict().values()} == {"walled"}
    moments = [v for s in second.state.values() for v in s.values() if isinstance(v, cf.Tensor)]
    assert {str(v.device) for v in moments if v.ndim} == {"walled"}
    found, expected = train(there, second, x.to("walled")), train(here, first, x)
    for a, b in zip(found, expected, strict=True):
        assert_close(a, b, 1e-4, 1e-5)
    # And back, by `Module.to` of a module that has an optimizer with state.
    there.to("cpu")
    assert {str(t.device) for t in there.state_dict().values()} == {"cpu"}
    assert {str(p.grad.device) for p in there.parameters()} == {"cpu"}
    again = small("cpu")
    again.load_state_dict(there.state_dict(), assign=True)
    assert_close(again(x), there(x))


def test_an_optimizer_follows_its_parameters(device):
    x = drawn("cpu", 4, 3)
    cf.manual_seed(0)
    here = small("cpu")
    there = copy.deepcopy(here)
    optimizers = [optim.Adam(m.parameters(), lr=0.1) for m in (here, there)]
    expected = train(here, optimizers[0], x, 3)
    found = train(there, optimizers[1], x, 1)
    there.to("walled")
    found += train(there, optimizers[1], x.to("walled"), 2)
    assert [str(f.device) for f in found] == ["cpu", "walled", "walled"]
    for a, b in zip(found, expected, strict=True):
        assert_close(a, b, 1e-4, 1e-5)


def test_copies_of_modules_and_optimizers():
    def program(place: str) -> Any:
        module = small(place)
        optimizer = optim.Adam(module.parameters(), lr=0.1)
        x = drawn(place, 4, 3)
        train(module, optimizer, x)
        results = []
        for twin, other in (
            copy.deepcopy((module, optimizer)),
            pickle.loads(pickle.dumps((module, optimizer))),
        ):
            results.append(train(twin, other, x))
            results.append(twin.state_dict())
        return results

    same(program)


@pytest.mark.parametrize("kind", ["norm", "value", "infinite", "generator"])
def test_clipped_gradients(kind):
    def program(place: str) -> Any:
        module = small(place)
        module(drawn(place, 4, 3) * 10).square().sum().backward()
        parameters = list(module.parameters())
        found = []
        if kind == "value":
            nn.utils.clip_grad_value_(parameters, 0.1)
        elif kind == "infinite":
            found.append(nn.utils.clip_grad_norm_(parameters, 0.1, float("inf")))
        elif kind == "generator":
            found.append(nn.utils.clip_grad_norm_(module.parameters(), 0.1))
        else:
            found.append(nn.utils.clip_grad_norm_(parameters, 0.1))
        vector = nn.utils.parameters_to_vector(module.parameters())
        nn.utils.vector_to_parameters(vector * 2, module.parameters())
        return [*found, [p.grad for p in parameters], parameters]

    same(program)


def test_a_model_on_two_devices():
    cf.manual_seed(0)
    first, second = nn.Linear(3, 3), nn.Linear(3, 2)
    whole_model = copy.deepcopy(nn.Sequential(first, second))
    second.to("walled")
    x = drawn("cpu", 4, 3)
    models = [
        (lambda x: second(first(x).to("walled")), [*first.parameters(), *second.parameters()]),
        (whole_model, list(whole_model.parameters())),
    ]
    results = []
    for model, parameters in models:
        optimizer = optim.Adam(parameters, lr=0.1)
        scaler = amp.GradScaler(init_scale=4.0)
        for _ in range(2):
            optimizer.zero_grad()
            scaler.scale(model(x).square().sum()).backward()
            scaler.unscale_(optimizer)
            norm = nn.utils.clip_grad_norm_(parameters, 0.5)
            scaler.step(optimizer)
            scaler.update()
        results.append([norm, *parameters])
    assert [str(p.device) for p in results[0]] == ["cpu"] * 3 + ["walled"] * 2
    for found, expected in zip(*results, strict=True):
        assert_close(found, expected, 1e-4, 1e-5)


# --- amp -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("compiled", [False, True], ids=["eager", "compiled"])
def test_scaled_gradients(compiled):
    def program(place: str) -> Any:
        module = nn.Linear(3, 2).to(place)
        optimizer = optim.SGD(module.parameters(), lr=0.1)
        scaler = amp.GradScaler(place, init_scale=1024.0, growth_interval=2)

        def step(x: cf.Tensor) -> cf.Tensor:
            optimizer.zero_grad()
            with amp.autocast("cpu", dtype=cf.bfloat16):
                loss = module(x).square().mean()
            scaler.scale(loss).backward()
            scaler.unscale_(optimizer)
            nn.utils.clip_grad_norm_(module.parameters(), 1.0)
            scaler.step(optimizer)
            scaler.update()
            return loss

        run = cf.compile(step) if compiled else step
        x = drawn(place, 4, 3)
        losses = [run(x), run(x), run(x * float("inf")), run(x)]
        saved = scaler.state_dict()
        scaler.load_state_dict(saved)
        return [losses[:2], losses[3], module.state_dict(), scaler._scale, scaler._growth_tracker,
                saved]  # fmt: skip

    same(program, 1e-2, 1e-2)


def test_a_scaler_moves_to_the_device_of_the_loss(device):
    w = cf.ones(2, device="walled", requires_grad=True)
    optimizer, scaler = optim.SGD([w], lr=0.5), amp.GradScaler(init_scale=8.0)
    scaler.scale((w * w).sum()).backward()
    assert_close(w.grad, cf.full((2,), 16.0))
    before = device.downloads
    scaler.step(optimizer)
    scaler.update()
    assert device.downloads == before + 1  # whether something overflowed
    assert str(scaler._scale.device) == "walled"
    other = amp.GradScaler("cpu")
    with pytest.raises(cf.CaptureError, match=r"Make it there: GradScaler\('walled'\)"):
        cf.compile(lambda: other.scale((w * w).sum()))()


@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize("use_buffers", [False, True])
def test_averages_of_a_model_lie_where_it_lies(use_buffers, compiled):
    def program(place: str) -> Any:
        cf.manual_seed(0)
        model = nn.Sequential(nn.Linear(3, 3), nn.BatchNorm1d(3)).to(place)
        there = place if compiled else None  # a counter of the cpu is not written in a program
        averaged = optim.swa_utils.AveragedModel(model, there, use_buffers=use_buffers)
        optimizer = optim.SGD(model.parameters(), lr=0.1)
        take = cf.compile(lambda: averaged.update_parameters(model), enabled=compiled)
        for _ in range(3):
            optimizer.zero_grad()
            (model(drawn(place, 4, 3)) ** 3).sum().backward()
            optimizer.step()
            take()
        return [averaged.module.state_dict(), averaged(drawn(place, 4, 3))]

    same(program)
