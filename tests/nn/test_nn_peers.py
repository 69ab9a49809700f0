"""Every module against PyTorch's: constructor, text, state, outputs, gradients, training."""

from __future__ import annotations

import dataclasses
import functools
import inspect
import re
import zlib

import numpy as np
import pytest

import contraflow as cf
from contraflow.tensors.tree import leaves_of

# What PyTorch has to say about its own kernels is not a failure.
pytestmark = [pytest.mark.peers, pytest.mark.filterwarnings("ignore::UserWarning")]


@pytest.fixture(scope="module", autouse=True)
def _peers():
    """PyTorch and its table of modules, imported only when they are compared with."""
    global torch, database, DTYPES, TOLERANCE
    torch = pytest.importorskip(
        "torch", reason="compares with PyTorch, which `make peers` installs"
    )
    table = pytest.importorskip(
        "torch.testing._internal.common_modules",
        reason="PyTorch's table of modules needs expecttest, which `make peers` installs",
    )
    database = {info.module_cls.__name__: info for info in table.module_db}
    DTYPES = {torch.float64: cf.float64, torch.float32: cf.float32}
    TOLERANCE = {torch.float64: 1e-10, torch.float32: 1e-5}


# What PyTorch's table has no arguments for; most of it is compared below.
UNTABLED = {
    "AdaptiveLogSoftmaxWithLoss", "AlphaDropout", "ChannelShuffle", "CompiledModule",
    "CosineSimilarity", "Dropout", "Dropout1d", "Dropout2d", "Dropout3d", "EmbeddingBag",
    "FeatureAlphaDropout", "Flatten", "Fold",
    "Hardsigmoid", "Identity", "MaxUnpool1d", "MaxUnpool2d", "MaxUnpool3d", "Module", "ModuleDict",
    "ModuleList", "PairwiseDistance", "Parameter", "ParameterDict", "ParameterList",
    "PixelShuffle", "PixelUnshuffle", "RNNBase", "RNNCellBase", "RReLU", "Sequential",
    "TransformerDecoder", "TripletMarginLoss", "TripletMarginWithDistanceLoss", "Unflatten",
    "Unfold", "Upsample", "UpsamplingBilinear2d", "UpsamplingNearest2d", "Buffer",
    "LazyBatchNorm1d", "LazyBatchNorm2d", "LazyBatchNorm3d", "LazyInstanceNorm1d",
    "LazyInstanceNorm2d", "LazyInstanceNorm3d", "LazyLinear", "LinearCrossEntropyOptions",
    "UninitializedBuffer", "UninitializedParameter",
}  # fmt: skip
NAMES = sorted(
    name for name in cf.nn.__all__ if inspect.isclass(getattr(cf.nn, name)) and name not in UNTABLED
)


def ours(x):
    """What PyTorch's arguments are here."""
    if isinstance(x, torch.Tensor):
        return cf.tensor(x.detach().numpy(), requires_grad=x.requires_grad)
    if isinstance(x, torch.dtype):
        return DTYPES[x]
    if isinstance(x, (tuple, list)):
        return type(x)(map(ours, x))
    if isinstance(x, dict):
        return {name: ours(value) for name, value in x.items()}
    if isinstance(x, (torch.nn.TransformerEncoderLayer, torch.nn.TransformerDecoderLayer)):
        return layer(x)
    if isinstance(x, torch.nn.Module):
        return getattr(cf.nn, type(x).__name__)()
    if isinstance(x, torch.nn.LinearCrossEntropyOptions):
        return cf.nn.LinearCrossEntropyOptions(**ours(dataclasses.asdict(x)))
    if callable(x):
        return getattr(cf.nn.functional, x.__name__)
    return x


def layer(x):
    attention = x.self_attn
    made = getattr(cf.nn, type(x).__name__)(
        attention.embed_dim, attention.num_heads, x.linear1.out_features, x.dropout.p,
        ours(x.activation), x.norm1.eps, attention.batch_first, x.norm_first,
        x.linear1.bias is not None, dtype=ours(x.linear1.weight.dtype),
    )  # fmt: skip
    return load(made, x)


def load(module, theirs):
    keys = module.load_state_dict(ours(dict(theirs.state_dict())))
    assert keys == ([], [])
    return module.train(theirs.training)


def arrays(x):
    return [None if v is None else v.detach().numpy() for v in leaves_of(x)]


def agree(actual, expected, tolerance, what):
    assert (actual is None) == (expected is None), what
    if actual is not None:
        assert actual.dtype == expected.dtype, what
        np.testing.assert_allclose(
            actual, expected, rtol=tolerance, atol=tolerance, err_msg=what, equal_nan=True
        )


def differentiable(tree):
    return [x for x in leaves_of(tree) if hasattr(x, "requires_grad") and x.requires_grad]


def seed_of(text):
    return zlib.crc32(text.encode())


def test_every_module_of_pytorch_is_here_or_absent_for_a_reason():
    theirs = {n for n, v in vars(torch.nn).items() if inspect.isclass(v)}
    legacy = {"Container", "CrossMapLRN2d", "DataParallel", "NLLLoss2d", "SyncBatchNorm"}
    assert {n for n in theirs if not hasattr(cf.nn, n)} == legacy


def test_table_of_pytorch_is_used_whole():
    assert database.keys() == set(NAMES)


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("name", NAMES)
def test_module_agrees(name, dtype):
    torch.manual_seed(seed_of(name))
    info, dtype = database[name], getattr(torch, dtype)
    tolerance = TOLERANCE[dtype]
    if name == "CTCLoss" and dtype is torch.float32:
        # Gradients are exponentials of differences of sums near -100, each rounded to this.
        tolerance += float(np.spacing(np.float32(100)))
    # Of hundreds of samples without modes once is enough.
    for training in (True, False)[name == "LinearCrossEntropyLoss" :]:
        inputs = info.module_inputs_func(
            info, device="cpu", dtype=dtype, requires_grad=True, training=training
        )
        for number, given in enumerate(inputs):
            if given.forward_input is None:
                continue
            what = f"{info.name} {number} {given.desc} training={training}"
            make, call = given.constructor_input, given.forward_input
            options = dict(make.kwargs)
            if "dtype" in inspect.signature(info.module_cls).parameters:
                options.setdefault("dtype", dtype)
            theirs = info.module_cls(*make.args, **options).to(dtype).train(training)
            if name == "CTCLoss":  # where PyTorch's gradient in float32 is off by 1e-4
                theirs.forward = functools.partial(in_float64, theirs.forward)
            mine = getattr(cf.nn, info.module_cls.__name__)(*ours(make.args), **ours(options))
            mine = mine.to(ours(dtype))
            if name.startswith("Lazy"):
                theirs(*call.args)
                mine(*ours(call.args))
            load(mine, theirs)
            compare(mine, theirs, call.args, call.kwargs, tolerance, what)


def in_float64(forward, x, *args):
    """A function of PyTorch computed in float64, whatever dtype it is for."""
    return forward(x.double(), *args).to(x.dtype)


# Constructor arguments, and the shapes of the inputs (a list is of integers).
OTHERS = {
    "AlphaDropout": ((0.3,), (3, 4)), "ChannelShuffle": ((2,), (2, 4, 3, 3)),
    "CosineSimilarity": ((-1,), (3, 4), (3, 4)), "Dropout": ((0.3,), (3, 4)),
    "Dropout1d": ((0.3,), (2, 3, 4)), "Dropout2d": ((0.3,), (2, 3, 4, 4)),
    "Dropout3d": ((0.3,), (2, 3, 4, 4, 4)), "FeatureAlphaDropout": ((0.3,), (2, 3, 4)),
    "EmbeddingBag": ((7, 3, None, 2.0, False, "max"), [[1, 2, 6], [3, 3, 0]]),
    "Flatten": ((0, 1), (2, 3, 4)), "Fold": (((4, 5), (2, 2)), (1, 12, 12)),
    "Hardsigmoid": ((), (3, 4)), "Identity": ((54,), (3, 4)),
    "PairwiseDistance": ((1.0,), (3, 4), (3, 4)), "PixelShuffle": ((2,), (1, 8, 2, 3)),
    "PixelUnshuffle": ((2,), (1, 2, 4, 6)), "RReLU": ((0.1, 0.2), (3, 4)),
    "TripletMarginLoss": ((0.5, 3.0), (3, 4), (3, 4), (3, 4)),
    "TripletMarginWithDistanceLoss": ((), (3, 4), (3, 4), (3, 4)),
    "Unflatten": ((1, (2, 3)), (2, 6)), "Unfold": (((2, 3),), (1, 3, 4, 5)),
    "Upsample": ((None, 2.0, "bicubic"), (1, 2, 3, 4)),
    "UpsamplingBilinear2d": (((5, 6),), (1, 2, 3, 4)),
    "UpsamplingNearest2d": ((None, 2), (1, 2, 3, 4)),
}  # fmt: skip


@pytest.mark.parametrize("name", OTHERS)
def test_other_module_agrees(name):
    torch.manual_seed(seed_of(name))
    args, *shapes = OTHERS[name]
    inputs = [
        torch.tensor(shape)
        if isinstance(shape, list)
        else torch.randn(shape, dtype=torch.float64, requires_grad=True)
        for shape in shapes
    ]
    theirs = getattr(torch.nn, name)(*args).double().eval()  # eval: what is random agrees so
    mine = load(getattr(cf.nn, name)(*args).to(cf.float64), theirs)
    if name == "Hardsigmoid":  # PyTorch's own gradient is by a sixth that was rounded to float32
        theirs.forward = lambda x: torch.nn.functional.hardtanh(x + 3, 0.0, 6.0) / 6
    compare(mine, theirs, inputs, {}, 1e-10, name)


@pytest.mark.parametrize("n", [1, 2, 3])
def test_unpooling_agrees(n):
    x = torch.randn(2, 3, *(4,) * n, dtype=torch.float64, requires_grad=True)
    theirs = getattr(torch.nn, f"MaxUnpool{n}d")(2)
    mine = getattr(cf.nn, f"MaxUnpool{n}d")(2)
    pool = getattr(torch.nn, f"MaxPool{n}d")(2, return_indices=True)
    compare(mine, theirs, pool(x), {}, 1e-10, f"MaxUnpool{n}d")
    compare(mine, theirs, (*pool(x)[:1], pool(x)[1], [5] * n), {}, 1e-10, f"MaxUnpool{n}d sized")


def test_adaptive_softmax_agrees():
    args = (16, 40, [5, 12, 30], 2.0, True)
    theirs = torch.nn.AdaptiveLogSoftmaxWithLoss(*args, dtype=torch.float64)
    mine = load(cf.nn.AdaptiveLogSoftmaxWithLoss(*args, dtype=cf.float64), theirs)
    x = torch.randn(9, 16, dtype=torch.float64, requires_grad=True)
    target = torch.tensor([0, 4, 5, 11, 12, 29, 30, 39, 1])
    compare(mine, theirs, (x, target), {}, 1e-10, "AdaptiveLogSoftmaxWithLoss")
    compare(mine, theirs, (x[0].detach(), target[3]), {}, 1e-10, "without a batch")
    y = ours(x)
    agree(arrays(mine.log_prob(y))[0], arrays(theirs.log_prob(x))[0], 1e-10, "log_prob")
    assert mine.predict(y).tolist() == theirs.predict(x).tolist()


@pytest.mark.parametrize("chunked", [False, True], ids=["whole", "chunked"])
def test_compiled_linear_cross_entropy_agrees(chunked):
    given = {
        "bias": True, "ignore_index": 2, "dtype": torch.float64,
        "weight": torch.linspace(0.5, 2.0, 6, dtype=torch.float64),
    }  # fmt: skip
    if chunked:
        given["options"] = torch.nn.LinearCrossEntropyOptions(batch_chunk_size=4)
    theirs = torch.nn.LinearCrossEntropyLoss(5, 6, **given)
    mine = load(cf.nn.LinearCrossEntropyLoss(5, 6, **ours(given)), theirs)
    x = torch.randn(10, 5, dtype=torch.float64, requires_grad=True)
    target = torch.arange(10) % 6
    y, at = ours(x), ours(target)

    def step(module, x, target):
        loss = module(x, target)
        loss.backward()
        return loss.detach()

    expected = step(theirs, x, target)
    agree(cf.compile(step)(mine, y, at).numpy(), expected.numpy(), 1e-12, "loss")
    for a, b in zip((y, *mine.parameters()), (x, *theirs.parameters()), strict=True):
        agree(a.grad.numpy(), b.grad.numpy(), 1e-12, "gradient")


@pytest.mark.parametrize("compiled", [False, True], ids=["eager", "compiled"])
@pytest.mark.parametrize(
    ("n", "shape", "kernel", "options"),
    [
        (2, (2, 3, 7, 9), (2, 3), {"output_size": (3, 4)}),
        (2, (3, 7, 9), 2, {"output_ratio": (0.5, 0.3)}),
        (3, (2, 2, 6, 7, 8), 2, {"output_size": (3, 1, 4)}),
        (3, (2, 6, 7, 8), (3, 2, 1), {"output_ratio": 0.4}),
    ],
)
def test_fractional_pooling_agrees(n, shape, kernel, options, compiled):
    x = torch.randn(shape, dtype=torch.float64, requires_grad=True)
    planes = shape[:2] if len(shape) == n + 2 else (1, shape[0])
    options = {
        **options,
        "return_indices": True,
        "_random_samples": torch.rand(*planes, n).double(),
    }
    theirs = getattr(torch.nn, f"FractionalMaxPool{n}d")(kernel, **options)
    mine = getattr(cf.nn, f"FractionalMaxPool{n}d")(kernel, **ours(options))
    assert repr(mine) == repr(theirs)
    y = ours(x)

    def run(module, x):
        values, indices = module(x)
        (values * values).sum().backward()
        return values.detach(), indices

    expected = run(theirs, x)
    actual = (cf.compile(run) if compiled else run)(mine, y)
    for a, b in zip(arrays(actual), arrays(expected), strict=True):
        agree(a, b, 1e-12, "fractional")
    agree(y.grad.numpy(), x.grad.numpy(), 1e-12, "gradient")


@pytest.mark.parametrize("name", ["Linear", "BatchNorm1d", "InstanceNorm1d"])
def test_lazy_layer_agrees(name):
    args = (4,) if name == "Linear" else (1e-4,)
    theirs, mine = (getattr(library.nn, f"Lazy{name}")(*args) for library in (torch, cf))
    assert repr(mine) == text(theirs)
    x = torch.randn(2, 3, 5)
    theirs(x)
    mine(ours(x))
    load(mine, theirs)
    compare(mine, theirs, (x,), {}, 1e-5, name)


@pytest.mark.parametrize("separate", [False, True])
def test_attention_as_a_function_agrees(separate):
    def given(*shape):
        return torch.randn(*shape, dtype=torch.float64, requires_grad=True)

    q, k, v = given(4, 3, 8), given(5, 3, 6 if separate else 8), given(5, 3, 7 if separate else 8)
    weights = (given(8, 8), given(8, 6), given(8, 7)) if separate else (None, None, None)
    padding = torch.zeros(3, 5, dtype=torch.bool)
    padding[1, 3:] = True
    call = {
        "embed_dim_to_check": 8, "num_heads": 2, "in_proj_bias": given(24), "dropout_p": 0.3,
        "in_proj_weight": None if separate else given(24, 8), "add_zero_attn": True,
        "bias_k": given(1, 1, 8), "bias_v": given(1, 1, 8), "out_proj_weight": given(8, 8),
        "out_proj_bias": given(8), "training": False, "key_padding_mask": padding,
        "attn_mask": given(6, 4, 5), "use_separate_proj_weight": separate,
        "q_proj_weight": weights[0], "k_proj_weight": weights[1], "v_proj_weight": weights[2],
        "average_attn_weights": False,
    }  # fmt: skip
    statics = {
        "bias_k": None,
        "bias_v": None,
        "static_k": given(6, 5, 4),
        "static_v": given(6, 5, 4),
    }
    for changed in ({}, {"need_weights": False}, statics):
        options = {**call, **changed}
        mine = ours((q, k, v)), ours(options)
        totals = []
        for library, (args, kwargs) in ((torch, ((q, k, v), options)), (cf, mine)):
            outs = library.nn.functional.multi_head_attention_forward(*args, **kwargs)
            leaves = leaves_of(outs)
            totals.append((leaves, sum((x * x).sum() for x in leaves if x is not None)))
            totals[-1][1].backward()
        for a, b in zip(arrays(totals[1][0]), arrays(totals[0][0]), strict=True):
            agree(a, b, 1e-10, str(changed))
        for a, b in zip(differentiable(mine), differentiable(((q, k, v), options)), strict=True):
            if b.grad is not None:
                agree(a.grad.numpy(), b.grad.numpy(), 1e-10, str(changed))
                b.grad = None


def test_decoder_and_masks_agree():
    options = {"dtype": torch.float64, "dropout": 0.0, "norm_first": True}
    block = torch.nn.TransformerDecoderLayer(8, 2, 16, **options)
    norm = torch.nn.LayerNorm(8, dtype=torch.float64)
    theirs = torch.nn.TransformerDecoder(block, 2, norm)
    mine = cf.nn.TransformerDecoder(layer(block), 2, cf.nn.LayerNorm(8, dtype=cf.float64))
    load(mine, theirs)
    target, memory = (torch.randn(n, 3, 8, dtype=torch.float64, requires_grad=True) for n in (4, 5))
    mask = torch.nn.Transformer.generate_square_subsequent_mask(4, dtype=torch.float64)
    padding = torch.zeros(3, 5, dtype=torch.bool)
    padding[1, 3:] = True
    assert cf.nn.Transformer.generate_square_subsequent_mask(4).tolist() == mask.tolist()
    given = {"tgt_mask": mask, "memory_key_padding_mask": padding}
    compare(mine, theirs, (target, memory), given, 1e-10, "TransformerDecoder")


@pytest.mark.parametrize("batch_first", [False, True])
@pytest.mark.parametrize("name", ["RNN", "LSTM", "GRU"])
def test_packed_sequences_agree(name, batch_first):
    theirs = getattr(torch.nn, name)(
        3, 4, 2, bidirectional=True, batch_first=batch_first, dtype=torch.float64
    )
    mine = getattr(cf.nn, name)(3, 4, 2, bidirectional=True, batch_first=batch_first)
    load(mine.to(cf.float64), theirs)
    x = torch.randn(5, 3, 3, dtype=torch.float64, requires_grad=True)
    if batch_first:
        x = x.transpose(0, 1).detach().requires_grad_()
    y = ours(x)
    outs = []
    for module, given, rnn in ((theirs, x, torch.nn.utils.rnn), (mine, y, cf.nn.utils.rnn)):
        packed = rnn.pack_padded_sequence(given, [2, 5, 3], batch_first, enforce_sorted=False)
        out, state = module(packed)
        padded, lengths = rnn.pad_packed_sequence(out, batch_first, padding_value=3.0)
        assert lengths.tolist() == [2, 5, 3]
        outs.append((padded, state))
        (padded * padded).sum().backward()
    for a, b in zip(arrays(outs[1]), arrays(outs[0]), strict=True):
        agree(a, b, 1e-10, name)
    agree(y.grad.numpy(), x.grad.numpy(), 1e-10, name)


# --- training ----------------------------------------------------------------------------------


def sequences(library, name, **options):
    """A recurrent layer or a transformer, and a linear layer that reads its last step."""
    nn = library.nn

    class Sequences(nn.Module):
        def __init__(self):
            super().__init__()
            first = {"batch_first": True, **options}
            if name == "TransformerEncoder":
                block = nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, **first)
                self.body = nn.TransformerEncoder(block, 2, enable_nested_tensor=False)
            else:
                self.body = getattr(nn, name)(8, 8, 2, bidirectional=name == "LSTM", **first)
            self.head = nn.Linear(16 if name == "LSTM" else 8, 3, **options)

        def forward(self, x):
            out = self.body(x)
            return self.head((out[0] if isinstance(out, tuple) else out)[:, -1])

    return Sequences()


def mlp(library, name, **options):
    nn = library.nn
    return nn.Sequential(
        nn.Linear(8, 16, **options), nn.ReLU(), nn.Linear(16, 16, **options), nn.GELU(),
        nn.Linear(16, 3, **options),
    )  # fmt: skip


def cnn(library, name, **options):
    nn = library.nn
    return nn.Sequential(
        nn.Conv2d(3, 6, 3, padding=1, bias=False, **options), nn.BatchNorm2d(6, **options),
        nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(6, 8, 3, stride=2, groups=2, **options),
        nn.BatchNorm2d(8, **options), nn.SiLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(),
        nn.Linear(8, 3, **options),
    )  # fmt: skip


def gpt(library, name, **options):
    """Two blocks of causal attention; the embedding of the tokens is the head too."""
    nn, F = library.nn, library.nn.functional

    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.norm1, self.norm2 = (nn.LayerNorm(16, **options) for _ in range(2))
            self.project = nn.Linear(16, 48, **options)
            self.merge = nn.Linear(16, 16, **options)
            self.widen, self.narrow = nn.Linear(16, 64, **options), nn.Linear(64, 16, **options)

        def forward(self, x):
            n, length, width = x.shape
            parts = self.project(self.norm1(x)).chunk(3, -1)
            q, k, v = (part.reshape(n, length, 4, width // 4).transpose(1, 2) for part in parts)
            attended = F.scaled_dot_product_attention(q, k, v, is_causal=True)
            x = x + self.merge(attended.transpose(1, 2).reshape(n, length, width))
            return x + self.narrow(F.gelu(self.widen(self.norm2(x))))

    class Gpt(nn.Module):
        def __init__(self):
            super().__init__()
            self.tokens, self.places = (
                nn.Embedding(11, 16, **options),
                nn.Embedding(7, 16, **options),
            )
            self.blocks = nn.ModuleList(Block() for _ in range(2))
            self.norm = nn.LayerNorm(16, **options)
            self.head = nn.Linear(16, 11, bias=False, **options)
            self.head.weight = self.tokens.weight

        def forward(self, x):
            x = self.tokens(x) + self.places(library.arange(x.shape[1]))
            for block in self.blocks:
                x = block(x)
            return self.head(self.norm(x)).flatten(0, 1)

    return Gpt()


# A model, the shape of its inputs, and its optimizer with arguments.
TRAINED = {
    "mlp": (mlp, (6, 8), "SGD", {"lr": 0.1, "momentum": 0.9, "nesterov": True}),
    "cnn": (cnn, (6, 3, 8, 8), "SGD", {"lr": 0.1, "momentum": 0.9, "weight_decay": 1e-3}),
    "gpt": (gpt, (2, 7), "AdamW", {"lr": 0.01, "betas": (0.9, 0.95), "weight_decay": 0.1}),
    **{
        name: (sequences, (6, 5, 8), "Adam", {"lr": 0.01})
        for name in ("LSTM", "GRU", "RNN", "TransformerEncoder")
    },
}


def trainer(library, model, name):
    _, _, optimizer, options = TRAINED[name]
    optimizer = getattr(library.optim, optimizer)(model.parameters(), **options)

    def step(x, target):
        optimizer.zero_grad()
        loss = library.nn.functional.cross_entropy(model(x), target)
        loss.backward()
        library.nn.utils.clip_grad_norm_(model.parameters(), 0.5)
        optimizer.step()
        return loss

    return step


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("compiled", [False, True], ids=["eager", "compiled"])
@pytest.mark.parametrize("name", TRAINED)
def test_training_follows_pytorch(name, compiled, dtype):
    torch.manual_seed(1)
    make, shape, *_ = TRAINED[name]
    theirs = make(torch, name, dtype=getattr(torch, dtype))
    mine = load(make(cf, name, dtype=getattr(cf, dtype)), theirs)
    x, target = torch.randn(shape, dtype=getattr(torch, dtype)), torch.arange(shape[0]) % 3
    if name == "gpt":
        x, target = torch.randint(11, shape), torch.randint(11, shape).flatten()
    step = trainer(cf, mine, name)
    step = cf.compile(step) if compiled else step
    expected = losses(torch, theirs, trainer(torch, theirs, name), x, target)
    actual = losses(cf, mine, step, ours(x), ours(target))
    np.testing.assert_allclose(actual, expected, rtol={"float64": 1e-8, "float32": 1e-4}[dtype])
    assert expected[-1] < expected[0]


def losses(library, model, step, x, target):
    """Those of 20 steps, and the one in evaluation behind them."""
    found = [step(x, target).item() for _ in range(20)]
    return [*found, library.nn.functional.cross_entropy(model.eval()(x), target).item()]


def compare(mine, theirs, args, kwargs, tolerance, what):
    """Outputs, gradients of inputs and parameters, and buffers afterwards."""
    assert repr(mine) == text(theirs), what
    args, kwargs = clean(args), clean(kwargs)
    my_args, my_kwargs = ours(args), ours(kwargs)
    expected, actual = theirs(*args, **kwargs), mine(*my_args, **my_kwargs)
    for a, b in zip(arrays(actual), arrays(expected), strict=True):
        agree(a, b, tolerance, what)
    cotangents = [np.cos(np.arange(x.numel())).reshape(x.shape) for x in differentiable(expected)]
    totals = []
    for tree, tensor in ((expected, torch.tensor), (actual, cf.tensor)):
        pairs = list(zip(differentiable(tree), cotangents, strict=True))
        if not pairs:
            return
        totals.append(sum((x * tensor(g).to(x.dtype)).sum() for x, g in pairs))
    for total in totals:
        total.backward()
    mine_and_theirs = [
        (differentiable((my_args, my_kwargs)), differentiable((args, kwargs))),
        (list(mine.parameters()), list(theirs.parameters())),
    ]
    for my_leaves, their_leaves in mine_and_theirs:
        for a, b in zip(my_leaves, their_leaves, strict=True):
            # Where nothing flows PyTorch has zeros or nothing, as its kernels happen to do.
            mine_grad = np.zeros(a.shape) if a.grad is None else a.grad.numpy()
            their_grad = np.zeros(b.shape) if b.grad is None else b.grad.numpy()
            scale = max(1.0, np.abs(np.nan_to_num(their_grad)).max(initial=0.0))
            agree(
                np.asarray(mine_grad, np.float64), np.asarray(their_grad, np.float64),
                tolerance * scale, f"{what}: gradient",
            )  # fmt: skip
    for a, b in zip(mine.buffers(), theirs.buffers(), strict=True):
        agree(a.numpy(), b.numpy(), tolerance, f"{what}: buffer")


def text(module):
    """PyTorch's text, less what differs between its versions."""
    printed = repr(module).replace("NonDynamicallyQuantizableLinear", "Linear")
    # 2.13 prints `bias=` for norms, which earlier ones do not.
    return re.sub(r"(affine=\w+), bias=\w+", r"\1", printed)


def clean(tree):
    """Leaves of their own, so that gradients are those of one call."""
    if isinstance(tree, torch.Tensor):
        return tree.detach().clone().requires_grad_(tree.requires_grad)
    if isinstance(tree, (tuple, list)):
        return type(tree)(map(clean, tree))
    if isinstance(tree, dict):
        return {name: clean(value) for name, value in tree.items()}
    return tree
