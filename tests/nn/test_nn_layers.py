"""Containers and layers: what they compute, and that they learn."""

from __future__ import annotations

import inspect

import numpy as np
import pytest
from tests.helpers.modules import close, random

import contraflow as cf
from contraflow import nn
from contraflow.nn import functional as F

pytestmark = pytest.mark.usefixtures("seeded")


# --- containers --------------------------------------------------------------------------------


def test_sequential():
    model = nn.Sequential(nn.Linear(2, 2), nn.ReLU(), nn.Linear(2, 1))
    assert len(model) == 3
    assert isinstance(model[-1], nn.Linear)
    assert isinstance(model[1:], nn.Sequential)
    assert [name for name, _ in model[1:].named_children()] == ["1", "2"]
    assert model[1:][1] is model[2]
    x = cf.tensor(random(3, 2))
    close(model(x), model[2](model[1](model[0](x))).detach().numpy())
    model.append(nn.Tanh())
    model[1] = nn.Sigmoid()
    assert [type(m).__name__ for m in model] == ["Linear", "Sigmoid", "Linear", "Tanh"]
    del model[0]
    assert list(model._modules) == ["0", "1", "2"]
    named = nn.Sequential({"a": nn.Tanh(), "b": nn.ReLU()})
    assert named.a is named[0]
    with pytest.raises(IndexError, match=r"Sequential: index 3 is out of range for 3 modules\."):
        model[3]
    with pytest.raises(TypeError, match=r"Sequential: child 1 is function, not a Module\."):
        nn.Sequential(nn.Tanh(), lambda x: x)


def test_module_list():
    layers = nn.ModuleList([nn.Tanh()])
    layers += [nn.ReLU(), nn.Linear(1, 1)]
    layers.insert(0, nn.Sigmoid())
    assert [type(m).__name__ for m in layers] == ["Sigmoid", "Tanh", "ReLU", "Linear"]
    assert list(layers.state_dict()) == ["3.weight", "3.bias"]
    before = layers._structure
    del layers[1:3]
    assert layers._structure > before
    assert list(layers.state_dict()) == ["1.weight", "1.bias"]
    assert len(layers) == 2
    model = nn.Sequential(nn.Tanh(), nn.ReLU(), nn.Linear(1, 1))
    assert type(model.pop(0)) is nn.Tanh
    assert len(model.pop(slice(0, 1))) == 1
    assert list(model.state_dict()) == ["0.weight", "0.bias"]
    with pytest.raises(TypeError, match=r"ModuleList: child 2 is int, not a Module\."):
        layers.append(3)
    layers.append(None)  # as in PyTorch
    assert len(layers) == 3
    assert layers[2] is None


def test_module_dict():
    branches = nn.ModuleDict({"a": nn.Linear(1, 1)})
    branches["b"] = nn.Tanh()
    assert list(branches) == list(branches.keys()) == ["a", "b"]
    assert "a" in branches
    assert len(branches) == 2
    assert list(branches.values()) == [branches["a"], branches["b"]]
    assert dict(branches.items()) == {"a": branches["a"], "b": branches["b"]}
    before = branches._structure
    del branches["a"]
    assert branches._structure > before
    assert list(branches.parameters()) == []
    branches.clear()
    assert len(branches) == 0


def test_parameter_list_and_dict():
    weights = nn.ParameterList([cf.ones(2), nn.Parameter(cf.zeros(3))])
    weights += [cf.ones(1)]
    assert [tuple(p.shape) for p in weights] == [(2,), (3,), (1,)]
    assert all(isinstance(p, nn.Parameter) for p in weights)
    assert list(weights.state_dict()) == ["0", "1", "2"]
    assert len(weights[1:]) == 2
    before = weights._structure
    weights[-1] = cf.ones(4)
    assert weights._structure > before
    assert weights[2].shape == (4,)
    with pytest.raises(IndexError, match=r"ParameterList: index 3 is out of range for 3 para"):
        weights[3]
    with pytest.raises(TypeError, match="ParameterList: 3 is int, not a tensor"):
        weights.append(5)
    named = nn.ParameterDict({"a": cf.ones(2)})
    named["b"] = nn.Parameter(cf.ones(1))
    assert list(named) == list(named.keys()) == ["a", "b"]
    assert named.a is named["a"]
    assert list(named.state_dict()) == ["a", "b"]
    del named["a"]
    assert "a" not in named
    assert [tuple(p.shape) for p in named.parameters()] == [(1,)]


# --- layers ------------------------------------------------------------------------------------


def test_declared_modules_take_what_their_class_says():
    assert str(inspect.signature(nn.ELU)) == "(alpha=1.0, inplace=False)"
    assert nn.Hardtanh(-2.0, max_val=3.0)(cf.tensor([-4.0, 5.0])).tolist() == [-2.0, 3.0]
    with pytest.raises(TypeError, match=r"ELU: got an unexpected keyword argument 'a'\. It takes"):
        nn.ELU(a=1)
    with pytest.raises(TypeError, match="GaussianNLLLoss: too many positional arguments"):
        nn.GaussianNLLLoss(True)
    with pytest.raises(ValueError, match=r"Hardtanh: min_val 1 must be less than max_val 0\."):
        nn.Hardtanh(1, 0)
    loss = nn.CrossEntropyLoss(cf.ones(3))
    assert list(loss.state_dict()) == ["weight"]
    close(loss(input=cf.zeros(2, 3), target=cf.tensor([0, 1])), np.log(3.0))

    class Doubled(nn.ReLU):
        factor: float = 2.0  # no argument: the class does not declare itself anew

        def forward(self, input):
            return super().forward(input) * self.factor

    assert Doubled()(cf.ones(1)).tolist() == [2.0]
    layer = nn.Threshold(0.5, -1.0)
    layer.value = 7.0
    assert layer(cf.tensor([0.0, 1.0])).tolist() == [7.0, 1.0]


def test_the_padding_of_a_convolution_is_checked_when_it_is_made():
    with pytest.raises(ValueError, match="Conv2d: padding is 'smae'; it must be numbers, 'same' o"):
        nn.Conv2d(3, 4, 3, padding="smae")
    with pytest.raises(ValueError, match="Conv1d: padding='same' needs stride 1, not"):
        nn.Conv1d(3, 4, 3, stride=2, padding="same")


def test_padding_layers():
    x = cf.tensor([[[1.0, 2.0, 3.0]]])
    assert nn.ConstantPad1d((1, 0), 9.0)(x).tolist() == [[[9.0, 1.0, 2.0, 3.0]]]
    assert nn.ZeroPad1d(1)(x).tolist() == [[[0.0, 1.0, 2.0, 3.0, 0.0]]]
    assert nn.ReflectionPad1d(2)(x).tolist() == [[[3.0, 2.0, 1.0, 2.0, 3.0, 2.0, 1.0]]]
    assert nn.CircularPad1d((0, 1))(x).tolist() == [[[1.0, 2.0, 3.0, 1.0]]]
    assert nn.ZeroPad1d((-1, 0))(x).tolist() == [[[2.0, 3.0]]]
    with pytest.raises(TypeError, match=r"ZeroPad2d: padding is \(1, 2\); it must be an integer o"):
        nn.ZeroPad2d((1, 2))


def test_embedding_of_a_table():
    rows = cf.tensor([[1.0, 2.0], [3.0, 4.0]])
    table = nn.Embedding.from_pretrained(rows)
    assert not table.weight.requires_grad
    assert table(cf.tensor([1])).tolist() == [[3.0, 4.0]]
    bag = nn.EmbeddingBag.from_pretrained(rows, freeze=False, mode="sum")
    assert bag(cf.tensor([[0, 1]])).tolist() == [[4.0, 6.0]]
    assert bag.weight.requires_grad


# --- recurrent layers and attention ------------------------------------------------------------


@pytest.mark.parametrize("name", ["RNN", "LSTM", "GRU"])
def test_recurrent_layer_is_its_cell_step_by_step(name):
    layer = getattr(nn, name)(3, 4)
    cell = getattr(nn, f"{name}Cell")(3, 4)
    cell.load_state_dict({key[:-3]: value for key, value in layer.state_dict().items()})
    x = cf.tensor(random(5, 2, 3))
    out, last = layer(x)
    state = None
    for step in range(5):
        state = cell(x[step], state)
        h = state[0] if name == "LSTM" else state
        close(out[step], h.detach().numpy())
    close(last[0] if name == "LSTM" else last, h.detach().numpy()[None])


def test_recurrent_dropout_and_directions():
    layer = nn.GRU(3, 4, 2, dropout=1.0, bidirectional=True)
    x = cf.tensor(random(5, 2, 3))
    dropped, other = layer(x)[0], layer(x + 1.0)[0]
    assert dropped.tolist() == other.tolist()  # the second layer saw zeros
    layer.eval()
    whole = layer(x)[0]
    changed = x.clone()
    changed[-1] = 9.0
    differs = (layer(changed)[0] != whole).any(dim=1).numpy()
    assert differs.all(), "backwards, the last step reaches all"


def test_recurrent_errors():
    layer = nn.LSTM(3, 4, 2)
    with pytest.raises(
        ValueError, match=r"LSTM: expected \[t, n, 3\] or \[t, 3\], got float32\[5,"
    ):
        layer(cf.zeros(5, 2, 4))
    with pytest.raises(
        ValueError, match=r"the initial state of float32\[5, 2, 3\] must be \[2, 2, 4"
    ):
        layer(cf.zeros(5, 2, 3), (cf.zeros(1, 2, 4), cf.zeros(2, 2, 4)))
    with pytest.raises(ValueError, match="GRU: proj_size is 2; only an LSTM has one"):
        nn.RNNBase.__init__(object.__new__(nn.GRU), "GRU", 3, 4, proj_size=2)
    with pytest.raises(ValueError, match="RNN: nonlinearity is 'elu'; it must be 'tanh' or 'relu'"):
        nn.RNN(3, 4, nonlinearity="elu")
    with pytest.raises(ValueError, match=r"GRUCell: expected \[n, 3\] or \[3\], got float32\[2\]"):
        nn.GRUCell(3, 4)(cf.zeros(2))
    with pytest.raises(ValueError, match=r"lengths \[1, 2\] are not sorted, longest first"):
        nn.utils.rnn.pack_padded_sequence(cf.zeros(2, 2, 1), [1, 2])


def test_packed_sequences_come_back():
    rnn = nn.utils.rnn
    sequences = [cf.tensor(random(n, 2, seed=n)) for n in (2, 4, 1)]
    packed = rnn.pack_sequence(sequences, enforce_sorted=False)
    assert packed.batch_sizes == (3, 2, 1, 1)
    for a, b in zip(rnn.unpack_sequence(packed), sequences, strict=True):
        assert a.tolist() == b.tolist()
    padded, lengths = rnn.pad_packed_sequence(packed, padding_value=-1.0, total_length=6)
    assert padded.shape == (6, 3, 2)
    assert lengths.tolist() == [2, 4, 1]
    assert padded[4:].tolist() == [[[-1.0] * 2] * 3] * 2


def test_compiled_packed_sequence():
    layer = nn.GRU(2, 3)
    sequences = [cf.tensor(random(n, 2, seed=n)) for n in (2, 1)]
    packed = nn.utils.rnn.pack_sequence(sequences)

    def run(packed):
        layer.zero_grad()
        out, h = layer(packed)
        (out.data.sum() + h.sum()).backward()
        return out.data

    expected, grad = run(packed), layer.weight_hh_l0.grad
    close(cf.compile(run)(packed), expected.detach().numpy())
    close(layer.weight_hh_l0.grad, grad.numpy())


def test_attention_masks_and_errors():
    layer = nn.MultiheadAttention(4, 2, batch_first=True)
    x = cf.tensor(random(2, 3, 4))
    causal = nn.Transformer.generate_square_subsequent_mask(3)
    _, weights = layer(x, x, x, attn_mask=causal)
    assert (weights.triu(1) == 0).all()
    padding = cf.tensor([[False, False, True], [False, False, False]])
    out, weights = layer(x, x, x, key_padding_mask=padding, average_attn_weights=False)
    assert weights.shape == (2, 2, 3, 3)
    assert (weights[0, :, :, 2] == 0).all()
    fast, nothing = layer(x, x, x, key_padding_mask=padding, need_weights=False)
    assert nothing is None
    close(fast, out.detach().numpy())
    with pytest.raises(ValueError, match="embed_dim 5 does not divide into 2 heads"):
        nn.MultiheadAttention(5, 2)
    with pytest.raises(
        ValueError, match=r"attn_mask float32\[2, 2\] must be \[3, 3\] or \[4, 3, 3\]"
    ):
        layer(x, x, x, attn_mask=cf.zeros(2, 2))
    with pytest.raises(ValueError, match="is_causal only describes attn_mask"):
        layer(x, x, x, is_causal=True)
    with pytest.raises(
        ValueError, match=r"query float32\[2, 3, 4\], key float32\[1, 3, 4\] and value"
    ):
        layer(x, x[:1], x[:1])
    with pytest.raises(
        ValueError, match="TransformerEncoderLayer: activation is 'elu'; it must be"
    ):
        nn.TransformerEncoderLayer(4, 2, activation="elu")


def test_layers_of_a_transformer_start_alike_and_apart():
    encoder = nn.TransformerEncoder(nn.TransformerEncoderLayer(4, 2, 8), 2)
    first, second = (layer.linear1.weight for layer in encoder.layers)
    assert first is not second
    assert first.tolist() == second.tolist()


def test_ctc_loss():
    certain = cf.tensor([[0.0, 1.0, 0.0], [1.0, 0.0, 0.0], [0.0, 0.0, 1.0]]).log()
    loss = F.ctc_loss(certain, cf.tensor([1, 2]), 3, 2, reduction="none")
    close(loss, 0.0)
    impossible = nn.CTCLoss(zero_infinity=True)(certain, cf.tensor([1, 1]), 2, 2)
    assert impossible.item() == 0.0
    assert nn.CTCLoss()(certain, cf.tensor([1, 1]), 2, 2).item() == np.inf
    log_probs = cf.full((3, 2, 3), 1 / 3).log().requires_grad_(True)
    of_nothing = F.ctc_loss(log_probs, cf.tensor([[1], [1]]), [0, 0], [0, 1], reduction="none")
    assert of_nothing.tolist() == [0.0, np.inf]
    of_nothing[0].backward()
    assert not log_probs.grad.any()
    with pytest.raises(
        ValueError, match=r"ctc_loss: blank 5 is not one of the classes of float32\[3, 1, 3\]"
    ):
        F.ctc_loss(certain, cf.tensor([1]), 3, 1, blank=5)


# --- plain layers ------------------------------------------------------------------------------


def test_linear_and_embedding_compute():
    layer = nn.Linear(4, 2)
    x = random(3, 4)
    weight, bias = (p.detach().numpy() for p in layer.parameters())
    close(layer(cf.tensor(x)), x @ weight.T + bias)
    table = nn.Embedding(5, 3)
    index = np.array([[0, 4], [2, 2]])
    close(table(cf.tensor(index)), table.weight.detach().numpy()[index])


def test_conv_and_pool_shapes():
    images = cf.tensor(random(2, 4, 8, 8))
    assert nn.Conv2d(4, 6, 3, stride=2, padding=1, groups=2)(images).shape == (2, 6, 4, 4)
    assert nn.Conv2d(4, 6, 3, dtype=cf.float64).weight.dtype is cf.float64
    assert nn.MaxPool2d(2)(images).shape == (2, 4, 4, 4)
    assert nn.Flatten()(images).shape == (2, 256)
    with pytest.raises(ValueError, match="Conv2d: 3 input and 4 output channels do not divide"):
        nn.Conv2d(3, 4, 3, groups=2)


def test_layer_norm():
    x = random(2, 3, 4)
    layer = nn.LayerNorm((3, 4))
    close(layer(cf.tensor(x)).mean(dim=(1, 2)), np.zeros(2))
    close(layer(cf.tensor(x)).var(dim=(1, 2), correction=0), np.ones(2), 1e-3)
    assert list(nn.LayerNorm(4, elementwise_affine=False).parameters()) == []
    assert [n for n, _ in nn.LayerNorm(4, bias=False).named_parameters()] == ["weight"]


def test_activations():
    x = cf.tensor([-1.0, 0.5])
    close(nn.ReLU()(x), [0.0, 0.5])
    close(nn.Sigmoid()(x), 1 / (1 + np.exp([1.0, -0.5])))
    close(nn.SiLU()(x), np.array([-1.0, 0.5]) / (1 + np.exp([1.0, -0.5])))
    close(nn.Tanh()(x), np.tanh([-1.0, 0.5]))
    close(nn.GELU()(x), [-0.15865525, 0.34573123])
    close(nn.Softmax(0)(x).sum(), 1.0)
    y = x.clone()
    assert nn.ReLU(inplace=True)(y) is y
    assert y.tolist() == [0.0, 0.5]


def test_inplace_activation_has_gradients():
    x = cf.tensor([-1.0, 2.0], requires_grad=True)
    y = x * 3.0
    nn.ReLU(inplace=True)(y)
    y.sum().backward()
    assert x.grad.tolist() == [0.0, 3.0]


def test_dropout():
    layer = nn.Dropout(0.25)
    x = cf.ones(4000)
    out = layer(x).numpy()
    assert set(np.unique(out)) == {np.float32(0), np.float32(1 / 0.75)}
    assert abs(out.mean() - 1) < 0.05
    assert layer.eval()(x) is x
    with pytest.raises(ValueError, match=r"Dropout: p is 2; a probability is between 0 and 1\."):
        nn.Dropout(2)


def test_losses():
    logits, target = random(4, 5), np.array([0, 3, 4, 3])
    rows = logits - np.log(np.exp(logits).sum(1, keepdims=True))
    losses = -rows[np.arange(4), target]
    x, t = cf.tensor(logits), cf.tensor(target)
    close(nn.CrossEntropyLoss()(x, t), losses.mean())
    close(nn.CrossEntropyLoss(reduction="sum")(x, t), losses.sum())
    close(nn.CrossEntropyLoss(reduction="none")(x, t), losses)
    close(
        nn.CrossEntropyLoss(label_smoothing=0.1)(x, t),
        (0.9 * losses - 0.1 * rows.mean(1)).mean(),
    )
    weight = np.array([1.0, 2.0, 3.0, 4.0, 5.0], np.float32)
    shares = weight[target]
    close(nn.CrossEntropyLoss(cf.tensor(weight))(x, t), (losses * shares).sum() / shares.sum())
    close(nn.CrossEntropyLoss(ignore_index=3)(x, t), losses[[0, 2]].mean())
    close(F.cross_entropy(x, cf.tensor([0, -100, -100, 3])), losses[[0, 3]].mean())
    close(nn.MSELoss()(x, cf.zeros(4, 5)), (logits**2).mean())
    with pytest.raises(ValueError, match="cross_entropy: reduction is 'max'; it must be 'mean',"):
        F.cross_entropy(x, t, reduction="max")


def test_ignored_targets_have_no_gradient():
    x = cf.tensor(random(2, 3), requires_grad=True)
    F.cross_entropy(x, cf.tensor([1, -100])).backward()
    assert x.grad[1].tolist() == [0.0] * 3
    close(x.grad[0].sum(), 0.0)


# --- batch norm --------------------------------------------------------------------------------


def batches(count):
    return [random(4, 2, 3, 3, seed=i) * (i + 1) + i for i in range(count)]


@pytest.mark.parametrize("momentum", [0.1, None])
def test_batch_norm_keeps_statistics(momentum):
    layer = nn.BatchNorm2d(2, momentum=momentum)
    mean, var = np.zeros(2), np.ones(2)
    for i, x in enumerate(batches(4)):
        out = layer(cf.tensor(x))
        centre, spread = x.mean((0, 2, 3)), x.var((0, 2, 3))
        expected = (x - centre.reshape(1, 2, 1, 1)) / np.sqrt(spread.reshape(1, 2, 1, 1) + 1e-5)
        close(out, expected, 1e-4)
        step = 1 / (i + 1) if momentum is None else momentum
        mean += step * (centre - mean)
        var += step * (spread * 36 / 35 - var)
        close(layer.running_mean, mean)
        close(layer.running_var, var)
    assert layer.num_batches_tracked.item() == 4
    assert layer.num_batches_tracked.dtype is cf.int64
    assert layer.num_batches_tracked.shape == ()
    x = random(1, 2, 1, 1)
    layer.eval()
    close(
        layer(cf.tensor(x)),
        (x - mean.reshape(1, 2, 1, 1)) / np.sqrt(var.reshape(1, 2, 1, 1) + 1e-5),
        1e-4,
    )
    assert layer.num_batches_tracked.item() == 4
    assert list(layer.state_dict()) == [
        "weight", "bias", "running_mean", "running_var", "num_batches_tracked",
    ]  # fmt: skip
    layer.reset_parameters()
    assert layer.num_batches_tracked.item() == 0
    assert layer.running_var.tolist() == [1.0, 1.0]


def test_batch_norm_gradient_goes_through_the_statistics():
    layer = nn.BatchNorm2d(2, dtype=cf.float64)
    x = cf.tensor(random(3, 2, 2, 2).astype(np.float64), requires_grad=True)
    g = cf.tensor(random(3, 2, 2, 2, seed=1).astype(np.float64))
    (layer(x) * g).sum().backward()
    direction = random(3, 2, 2, 2, seed=2).astype(np.float64)

    def value(step):
        return (layer(cf.tensor(x.detach().numpy() + step * direction)) * g).sum().item()

    slope = (value(1e-5) - value(-1e-5)) / 2e-5
    close((x.grad * cf.tensor(direction)).sum(), slope, 1e-6)
    assert not layer.running_mean.requires_grad


def test_batch_norm_without_history_and_errors():
    layer = nn.BatchNorm2d(2, affine=False, track_running_stats=False).eval()
    assert list(layer.state_dict()) == []
    close(layer(cf.tensor(batches(1)[0])).mean(), 0.0)
    with pytest.raises(ValueError, match=r"batch_norm: float32\[1, 2, 1, 1\] has 1 value per ch"):
        nn.BatchNorm2d(2)(cf.ones(1, 2, 1, 1))
    with pytest.raises(ValueError, match=r"expected \[n, 2, h, w\], got float32\[1, 3, 4, 4\]"):
        nn.BatchNorm2d(2)(cf.ones(1, 3, 4, 4))
    with pytest.raises(ValueError, match="batch_norm: outside training it needs running_mean and"):
        F.batch_norm(cf.ones(1, 2, 1, 1), None, None)


# --- training ----------------------------------------------------------------------------------


def test_small_convolution_network_learns():
    model = nn.Sequential(
        nn.Conv2d(1, 4, 3, padding=1), nn.BatchNorm2d(4), nn.ReLU(), nn.MaxPool2d(2),
        nn.Flatten(), nn.Dropout(0.1), nn.Linear(16, 2),
    )  # fmt: skip
    x = random(32, 1, 4, 4)
    target = (x.mean((1, 2, 3)) > 0).astype(np.int64)
    optimizer = cf.optim.AdamW(model.parameters(), lr=0.02)
    criterion = nn.CrossEntropyLoss()
    losses = []
    for _ in range(40):
        optimizer.zero_grad()
        loss = criterion(model(cf.tensor(x)), cf.tensor(target))
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < 0.4 * losses[0]


# --- PyTorch -----------------------------------------------------------------------------------


@pytest.mark.peers
def test_layers_agree_with_pytorch():
    torch = pytest.importorskip(
        "torch", reason="compares with PyTorch, which `make peers` installs"
    )
    x = random(4, 3, 6, 6)
    pairs = [
        (nn.Conv2d(3, 6, 3, 2, 1), torch.nn.Conv2d(3, 6, 3, 2, 1)),
        (nn.BatchNorm2d(3), torch.nn.BatchNorm2d(3)),
        (nn.BatchNorm2d(3, momentum=None), torch.nn.BatchNorm2d(3, momentum=None)),
        (nn.LayerNorm((6, 6)), torch.nn.LayerNorm((6, 6))),
        (nn.GroupNorm(3, 3), torch.nn.GroupNorm(3, 3)),
        (nn.InstanceNorm2d(3), torch.nn.InstanceNorm2d(3)),
        (nn.ConvTranspose2d(3, 4, 3, 2, 1, 1), torch.nn.ConvTranspose2d(3, 4, 3, 2, 1, 1)),
        (nn.AvgPool2d(3, 2, 1), torch.nn.AvgPool2d(3, 2, 1)),
        (nn.AdaptiveAvgPool2d((4, 3)), torch.nn.AdaptiveAvgPool2d((4, 3))),
        (nn.AdaptiveMaxPool2d(4), torch.nn.AdaptiveMaxPool2d(4)),
        (nn.Linear(6, 2), torch.nn.Linear(6, 2)),
        (nn.MaxPool2d(3, 2, 1), torch.nn.MaxPool2d(3, 2, 1)),
        (nn.GELU("tanh"), torch.nn.GELU("tanh")),
    ]
    for ours, theirs in pairs:
        # PyTorch 2.14 prints `bias=` for norms, which earlier ones do not.
        printed = repr(theirs)
        for flag in (True, False):
            printed = printed.replace(f"affine={flag}, bias={flag}", f"affine={flag}")
        assert repr(ours) == printed
        assert list(ours.state_dict()) == list(theirs.state_dict())
        for mine, other in zip(ours.parameters(), theirs.parameters()):
            other.data = torch.tensor(mine.detach().numpy())
        for _ in range(2):
            a, b = cf.tensor(x, requires_grad=True), torch.tensor(x, requires_grad=True)
            (ours(a) ** 2).sum().backward()
            (theirs(b) ** 2).sum().backward()
            close(a.grad, b.grad.numpy(), 1e-3)
        for mine, other in zip(ours.buffers(), theirs.buffers()):
            close(mine, other.numpy())


@pytest.mark.parametrize("compiled", [False, True])
def test_plain_means_of_all_batches_have_the_digits_of_the_averages(compiled):
    layer = nn.BatchNorm1d(2, momentum=None).double()
    call = cf.compile(layer) if compiled else layer
    batches = np.random.default_rng(0).standard_normal((3, 5, 2))
    for batch in batches:
        call(cf.tensor(batch))
    np.testing.assert_allclose(layer.running_mean, batches.mean((0, 1)), 1e-13)
    np.testing.assert_allclose(layer.running_var, batches.var(1, ddof=1).mean(0), 1e-13)


@pytest.mark.parametrize("compiled", [False, True])
def test_tracking_may_be_turned_off_and_on(compiled):
    layer = nn.BatchNorm1d(2)
    call = cf.compile(layer) if compiled else layer
    x = cf.tensor([[0.0, 1.0], [4.0, 3.0]])
    seen = []
    for tracked in (True, False, False, True):
        layer.track_running_stats = tracked
        close(call(x), np.array([[-1.0, -1.0], [1.0, 1.0]]), 1e-4)
        seen.append(layer.num_batches_tracked.item())
        assert (layer.running_mean[0].item() != 0.0) is True
    assert seen == [1, 1, 1, 2]
    close(layer.running_mean, np.array([2.0, 2.0]) * (1 - 0.9**2))
    layer.eval()
    layer.track_running_stats = False  # outside training it reads the history that is there
    close(call(x)[0], (np.array([0.0, 1.0]) - 0.38) / np.sqrt(layer.running_var.numpy() + 1e-5))
