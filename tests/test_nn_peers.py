"""Every module against PyTorch's: constructor, text, state, outputs, gradients, training."""

from __future__ import annotations

import inspect
import re
import zlib

import numpy as np
import pytest

import contraflow as cf
from contraflow.structure import leaves_of

# What PyTorch has to say about its own kernels is no failure.
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


# Random, lazy, or newer than what they are made of.
ABSENT = {"FractionalMaxPool2d", "FractionalMaxPool3d", "LinearCrossEntropyLoss"}


# What PyTorch's table has no arguments for; most of it is compared below.
UNTABLED = {
    "AlphaDropout", "ChannelShuffle", "CompiledModule", "CosineSimilarity", "Dropout", "Dropout1d",
    "Dropout2d", "Dropout3d", "EmbeddingBag", "FeatureAlphaDropout", "Flatten", "Fold",
    "Hardsigmoid", "Identity", "MaxUnpool1d", "MaxUnpool2d", "MaxUnpool3d", "Module", "ModuleDict",
    "ModuleList", "PairwiseDistance", "Parameter", "ParameterDict", "ParameterList",
    "PixelShuffle", "PixelUnshuffle", "RNNBase", "RNNCellBase", "RReLU", "Sequential",
    "TransformerDecoder", "TripletMarginLoss", "TripletMarginWithDistanceLoss", "Unflatten",
    "Unfold", "Upsample", "UpsamplingBilinear2d", "UpsamplingNearest2d", "Buffer",
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
    theirs = {n for n in theirs if not n.startswith(("Lazy", "Uninitialized"))}
    legacy = {"Container", "CrossMapLRN2d", "DataParallel", "NLLLoss2d", "SyncBatchNorm"}
    later = {"AdaptiveLogSoftmaxWithLoss", "LinearCrossEntropyOptions"}
    assert {n for n in theirs if not hasattr(cf.nn, n)} == ABSENT | legacy | later


def test_table_of_pytorch_is_used_whole():
    found = {name for name in database if not name.startswith("Lazy")}
    assert found - ABSENT == set(NAMES)


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("name", NAMES)
def test_module_agrees(name, dtype):
    torch.manual_seed(seed_of(name))
    info, dtype = database[name], getattr(torch, dtype)
    tolerance = TOLERANCE[dtype]
    if name == "CTCLoss" and dtype is torch.float32:
        tolerance = 2e-4  # of the exponentials of sums near -100, which float32 holds to 1e-5
    for training in (True, False):
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
            mine = getattr(cf.nn, info.module_cls.__name__)(*ours(make.args), **ours(options))
            load(mine.to(ours(dtype)), theirs)
            compare(mine, theirs, call.args, call.kwargs, tolerance, what)


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
    # PyTorch's gradient of hardsigmoid is by a sixth that was rounded to float32.
    compare(mine, theirs, inputs, {}, 1e-8 if name == "Hardsigmoid" else 1e-10, name)


@pytest.mark.parametrize("n", [1, 2, 3])
def test_unpooling_agrees(n):
    x = torch.randn(2, 3, *(4,) * n, dtype=torch.float64, requires_grad=True)
    theirs = getattr(torch.nn, f"MaxUnpool{n}d")(2)
    mine = getattr(cf.nn, f"MaxUnpool{n}d")(2)
    pool = getattr(torch.nn, f"MaxPool{n}d")(2, return_indices=True)
    compare(mine, theirs, pool(x), {}, 1e-10, f"MaxUnpool{n}d")
    compare(mine, theirs, (*pool(x)[:1], pool(x)[1], [5] * n), {}, 1e-10, f"MaxUnpool{n}d sized")


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


class Sequences:
    """A recurrent layer or a transformer, and a linear layer that reads its last step."""

    def __init__(self, library, dtype, name):
        self.library, self.name = library, name
        options = {"batch_first": True, "dtype": dtype}
        if name == "TransformerEncoder":
            block = library.nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, **options)
            nested = {"enable_nested_tensor": False}
            self.body = library.nn.TransformerEncoder(block, 2, **nested)
        else:
            self.body = getattr(library.nn, name)(8, 8, 2, bidirectional=name == "LSTM", **options)
        width = 16 if name == "LSTM" else 8
        self.head = library.nn.Linear(width, 3, dtype=dtype)
        parameters = [*self.body.parameters(), *self.head.parameters()]
        self.optimizer = library.optim.Adam(parameters, lr=0.01)

    def step(self, x, target):
        self.optimizer.zero_grad()
        out = self.body(x)
        out = out[0] if isinstance(out, tuple) else out
        loss = self.library.nn.functional.cross_entropy(self.head(out[:, -1]), target)
        loss.backward()
        parameters = [*self.body.parameters(), *self.head.parameters()]
        self.library.nn.utils.clip_grad_norm_(parameters, 0.5)
        self.optimizer.step()
        return loss


@pytest.mark.parametrize("compiled", [False, True], ids=["eager", "compiled"])
@pytest.mark.parametrize("name", ["LSTM", "GRU", "RNN", "TransformerEncoder"])
def test_training_follows_pytorch(name, compiled):
    torch.manual_seed(1)
    theirs, mine = Sequences(torch, torch.float64, name), Sequences(cf, cf.float64, name)
    load(mine.body, theirs.body)
    load(mine.head, theirs.head)
    x, target = torch.randn(6, 5, 8, dtype=torch.float64), torch.arange(6) % 3
    expected = [theirs.step(x, target).item() for _ in range(20)]
    step = cf.compile(mine.step) if compiled else mine.step
    y, t = ours(x), ours(target)
    actual = [step(y, t).item() for _ in range(20)]
    np.testing.assert_allclose(actual, expected, rtol=1e-8)
    assert expected[-1] < expected[0]


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
