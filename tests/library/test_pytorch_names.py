"""Names that are PyTorch's and mean what they mean there: types, questions, settings, paths."""

from __future__ import annotations

import copy
import importlib
import math
import pickle
from pathlib import Path

import numpy as np
import pytest

import contraflow as cf
from contraflow.testing import assert_close


def test_dtypes_have_the_names_of_c() -> None:
    assert cf.float is cf.float32
    assert cf.double is cf.float64
    assert cf.half is cf.float16
    assert (cf.short, cf.int, cf.long) == (cf.int16, cf.int32, cf.int64)
    assert (cf.pi, cf.e, cf.inf, cf.newaxis) == (math.pi, math.e, math.inf, None)
    assert math.isnan(cf.nan)


def test_limits_of_dtypes() -> None:
    assert cf.finfo(cf.float32).eps == np.finfo(np.float32).eps
    assert cf.finfo(cf.bfloat16).max == pytest.approx(3.3895e38, rel=1e-4)
    assert cf.finfo().dtype == "float32"
    floats = (cf.float64, cf.float32, cf.float16, cf.bfloat16)
    assert [cf.finfo(dtype).resolution for dtype in floats] == [1e-15, 1e-6, 1e-3, 1e-2]
    assert (cf.iinfo(cf.uint8).min, cf.iinfo(cf.uint8).max) == (0, 255)
    with pytest.raises(TypeError, match=r"finfo: int64 is not floating-point. Use iinfo"):
        cf.finfo(cf.int64)
    with pytest.raises(TypeError, match="iinfo: float32 is not an integer dtype"):
        cf.iinfo(cf.float32)
    with pytest.raises(TypeError, match="finfo: 3 is not a dtype"):
        cf.finfo(3)


def test_dtypes_are_promoted_as_functions() -> None:
    assert cf.promote_types(cf.uint8, cf.int8) is cf.int16
    assert cf.result_type(cf.ones(2, dtype=cf.int64), 1.0) is cf.float32
    assert cf.result_type(cf.ones(2, dtype=cf.float16), cf.tensor(1.0)) is cf.float16
    assert cf.can_cast(cf.int64, cf.float16)
    assert not cf.can_cast(cf.float32, cf.int64)
    assert cf.can_cast(cf.int8, cf.uint8)
    assert not cf.can_cast(cf.uint8, cf.bool)
    with pytest.raises(TypeError, match="result_type: str is neither a tensor nor a number"):
        cf.result_type("x", 1)


def test_a_shape_counts_its_elements() -> None:
    x = cf.ones(2, 3)
    assert x.shape.numel() == x.T.shape.numel() == x.size().numel() == 6
    assert isinstance(x.shape, cf.Size)
    assert x.shape == (2, 3)
    assert cf.broadcast_shapes((2, 1), 3, (1,)) == (2, 3)
    with pytest.raises(ValueError, match="broadcast_shapes: "):
        cf.broadcast_shapes((2,), (3,))


def test_old_constructors_take_sizes_or_data() -> None:
    assert cf.Tensor(2, 3).shape == (2, 3)
    assert cf.Tensor([2, 3]).tolist() == [2.0, 3.0]
    assert cf.Tensor(cf.ones(4, 5).shape).shape == (4, 5)
    assert cf.Tensor().shape == (0,)
    assert cf.LongTensor([1, 2]).dtype is cf.int64
    assert cf.ones(1, dtype=cf.int8).new(2).dtype is cf.int8
    assert isinstance(cf.ones(1), cf.FloatTensor)
    assert cf.cuda.LongTensor.dtype is cf.int64
    assert not isinstance(cf.ones(1), cf.cuda.FloatTensor)
    if not cf.cuda.is_available():
        for ask in (
            lambda: cf.cuda.FloatTensor(2),
            lambda: cf.ones(1).type("torch.cuda.IntTensor"),
        ):
            with pytest.raises(cf.DeviceError, match="cuda"):
                ask()
    assert not isinstance(cf.ones(1), cf.DoubleTensor)
    with pytest.raises(TypeError, match="Tensor: takes sizes, or one sequence"):
        cf.Tensor(2.5, 3)
    with pytest.raises(TypeError, match="Tensor: takes sizes or data, not dtype"):
        cf.Tensor([1], dtype=cf.int64)


def test_types_by_name() -> None:
    x = cf.ones(2)
    assert x.type() == "torch.FloatTensor"
    for wanted in (cf.int64, "torch.LongTensor", cf.LongTensor):
        assert x.type(wanted).dtype is cf.int64
    assert cf.nn.Linear(1, 1).type(cf.float64).weight.dtype is cf.float64
    with pytest.raises(TypeError, match="type: 'x' is not a dtype"):
        x.type("x")


def test_questions() -> None:
    x = cf.ones(2, 3)
    assert cf.is_tensor(x)
    assert not cf.is_tensor(1)
    assert cf.is_floating_point(x)
    assert not any((x.is_complex(), x.is_sparse, x.is_quantized, x.is_cuda, x.is_shared()))
    assert x.is_cpu
    assert x.get_device() == -1
    assert (cf.numel(x), x.nelement(), x.ndimension(), x.itemsize) == (6, 6, 2, 4)
    assert x.device == "cpu"
    assert x.device == "cpu"
    assert {x.device: 1}["cpu"] == 1
    assert cf.is_nonzero(cf.tensor(2))
    assert cf.is_same_size(x, cf.zeros(2, 3))
    assert x.mH.shape == x.adjoint().shape == cf.adjoint(x).shape == (3, 2)
    assert x.untyped_storage().data_ptr() == x[0].untyped_storage().data_ptr()
    assert x.untyped_storage().nbytes() == 24


def test_retained_gradients_can_be_asked_for() -> None:
    x = cf.ones(2, requires_grad=True)
    y = x * 2
    assert not y.retains_grad
    y.retain_grad()
    assert y.retains_grad


def test_a_tensor_is_resized_in_place() -> None:
    x = cf.arange(6).reshape(2, 3)
    assert x.resize_(2, 2).tolist() == [[0, 1], [2, 3]]
    assert x.resize_((5,)).tolist() == [0, 1, 2, 3, 0]
    with pytest.raises(cf.GradientError, match=r"resize_: float32.2. requires grad"):
        cf.ones(2, requires_grad=True).resize_(3)
    with pytest.raises(ValueError, match=r"resize_: .* has a negative size"):
        x.resize_(-1)


def test_numpys_names_of_arguments() -> None:
    x = cf.arange(6.0).reshape(2, 3)
    assert_close(cf.sum(x, axis=1, keepdims=True), x.sum(1, keepdim=True))
    assert x.mean(axis=0).shape == (3,)
    assert cf.cat([x, x], axis=1).shape == (2, 6)
    with pytest.raises(TypeError, match="sum: cannot take"):
        x.sum(axes=1)


def test_results_are_written_to_out() -> None:
    x, out = cf.ones(2), cf.zeros(2)
    assert cf.add(x, 1, out=out) is out
    assert out.tolist() == [2.0, 2.0]
    empty = cf.empty(0)
    assert cf.exp(x, out=empty) is empty
    assert empty.shape == (2,)
    values, indices = cf.empty(0), cf.empty(0, dtype=cf.int64)
    cf.max(cf.eye(2), dim=1, out=(values, indices))
    assert indices.tolist() == [0, 1]
    assert cf.ones(2, out=out) is out
    with pytest.raises(ValueError, match=r"add: the result float32.2. does not fit into out"):
        cf.add(x, 1, out=cf.zeros(3))
    with pytest.raises(TypeError, match="add: the result is float32 and cannot be written"):
        cf.add(x, 1, out=cf.zeros(2, dtype=cf.int64))
    with pytest.raises(TypeError, match="max: out must be 2 tensors"):
        cf.max(cf.eye(2), dim=1, out=out)


def test_memory_formats_are_taken_and_have_no_effect() -> None:
    x = cf.ones(1, 2, 3, 4)
    for made in (
        x.contiguous(memory_format=cf.channels_last), x.clone(memory_format=cf.preserve_format),
        x.to(memory_format=cf.channels_last), cf.empty_like(x, memory_format=cf.channels_last),
        cf.zeros(1, 2, 3, 4, layout=cf.strided, pin_memory=True),
    ):  # fmt: skip
        assert made.is_contiguous()
    assert repr(cf.channels_last) == "contraflow.channels_last"


def test_settings_are_kept_and_checked() -> None:
    before = cf.get_float32_matmul_precision()
    cf.set_float32_matmul_precision("high")
    assert cf.get_float32_matmul_precision() == "high"
    cf.set_float32_matmul_precision(before)
    with pytest.raises(ValueError, match="set_float32_matmul_precision: 'fast' is not one of"):
        cf.set_float32_matmul_precision("fast")
    cf.use_deterministic_algorithms(True, warn_only=True)
    assert cf.are_deterministic_algorithms_enabled()
    assert cf.get_deterministic_debug_mode() == 1
    cf.use_deterministic_algorithms(False)
    assert cf.get_deterministic_debug_mode() == 0
    cf.backends.cudnn.benchmark = True
    assert cf.backends.cudnn.benchmark


@pytest.mark.parametrize(
    "path",
    [
        "utils.data", "utils.data.dataset", "utils.data.dataloader", "utils.checkpoint",
        "utils.dlpack", "nn.modules.batchnorm", "nn.modules.utils", "nn.attention",
        "nn.modules.linear_cross_entropy_options",
        "nn.utils.spectral_norm", "optim.swa_utils", "autograd.forward_ad", "backends.cudnn",
        "signal.windows", "jit", "distributed", "nn.parallel",
    ],
)  # fmt: skip
def test_paths_can_be_imported(path: str) -> None:
    if path == "nn.utils.spectral_norm":
        assert callable(cf.nn.utils.spectral_norm)
    else:
        importlib.import_module(f"contraflow.{path}")


def test_paths_lead_to_the_same_things() -> None:
    assert cf.utils.data.DataLoader is cf.data.DataLoader
    assert cf.nn.modules.batchnorm.BatchNorm2d is cf.nn.BatchNorm2d
    assert isinstance(cf.nn.BatchNorm1d(2), cf.nn.modules.batchnorm._BatchNorm)
    assert cf.nn.modules.utils._pair(3) == (3, 3)
    assert cf.nn.modules.utils._pair([1, 2]) == (1, 2)
    with pytest.raises(AttributeError, match="_nothing"):
        cf.nn.modules.conv._nothing  # noqa: B018


def test_variables_and_batched_gradients() -> None:
    x = cf.autograd.Variable(cf.ones(3), requires_grad=True)
    assert isinstance(x, cf.autograd.Variable)
    assert issubclass(cf.nn.Parameter, cf.autograd.Variable)
    assert not isinstance(x.numpy, cf.autograd.Variable)
    assert x.real is x
    assert not hasattr(x, "imag")
    y = x * cf.arange(3.0)
    (rows,) = cf.autograd.grad(y, x, cf.eye(3), is_grads_batched=True)
    assert_close(rows, np.diag([0.0, 1.0, 2.0]).astype(np.float32))
    with pytest.raises(ValueError, match="grad: with is_grads_batched"):
        cf.autograd.grad(x.sum(), x, None, is_grads_batched=True)


def test_forward_mode_by_hand() -> None:
    forward = cf.autograd.forward_ad
    with forward.dual_level():
        x = forward.make_dual(cf.tensor([1.0, 2.0]), cf.tensor([1.0, 0.0]))
        primal, tangent = forward.unpack_dual(x.exp())
        assert_close(tangent, cf.tensor([math.e, 0.0]))
        assert_close(primal, cf.tensor([1.0, 2.0]).exp())
        with pytest.raises(cf.GradientError, match="dual_level: one is open already"):
            forward.dual_level().__enter__()
    with pytest.raises(cf.GradientError, match="make_dual: no dual_level is open"):
        forward.make_dual(cf.ones(1), cf.ones(1))


def test_ensembles() -> None:
    models = [cf.nn.Linear(2, 1) for _ in range(3)]
    parameters, buffers = cf.func.stack_module_state(models)
    x = cf.ones(4, 2)

    def call(given, rest, x):
        return cf.func.functional_call(models[0], (given, rest), (x,))

    found = cf.vmap(call, in_dims=(0, 0, None))(parameters, buffers, x)
    assert_close(found, cf.stack([model(x) for model in models]))
    with pytest.raises(ValueError, match="stack_module_state: there are no modules"):
        cf.func.stack_module_state([])


def test_a_module_is_compiled_in_place_and_copied() -> None:
    model = cf.nn.Sequential(cf.nn.Linear(2, 3), cf.nn.Tanh())
    x = cf.ones(4, 2)
    expected = model(x)
    model.compile()
    assert isinstance(model, cf.nn.Sequential)
    assert_close(model(x), expected)
    assert_close(model(x), expected)
    assert list(model.state_dict()) == ["0.weight", "0.bias"]
    for other in (copy.deepcopy(model), pickle.loads(pickle.dumps(model))):
        assert_close(other(x), expected)
        assert type(other).__name__ == "Sequential"
    model(x).sum().backward()
    assert model[0].weight.grad is not None


def test_compile_takes_what_pytorchs_does() -> None:
    @cf.compile(mode="max-autotune", fullgraph=True, dynamic=False)
    def double(x):
        return x + x

    assert double(cf.ones(1)).item() == 2.0
    plain = cf.compile(lambda x: x + 1, disable=True)
    assert plain(cf.ones(1)).item() == 2.0
    assert not cf.compiler.is_compiling()


def test_windows_are_numpys() -> None:
    for name in ("hann", "hamming", "blackman", "bartlett"):
        window = getattr(cf.signal.windows, name)
        wanted = {"hann": np.hanning}.get(name) or getattr(np, name)
        assert_close(window(7, dtype=cf.float64), wanted(7))
        periodic = getattr(cf, f"{name}_window")(6, dtype=cf.float64)
        assert_close(periodic, wanted(7)[:6])
    assert_close(cf.signal.windows.kaiser(9, beta=5.0, dtype=cf.float64), np.kaiser(9, 5.0))
    assert cf.hann_window(1).tolist() == [1.0]
    assert cf.hann_window(0).shape == (0,)
    with pytest.raises(ValueError, match="gaussian: std is 0; it must be positive"):
        cf.signal.windows.gaussian(3, std=0)
    with pytest.raises(
        TypeError, match=r"hann: int64 is not a floating-point dtype|general_cosine"
    ):
        cf.signal.windows.hann(3, dtype=cf.int64)


def test_bessel_functions_are_numpys() -> None:
    x = np.concatenate([np.linspace(-30.0, 30.0, 61), [0.0, 8.0, 300.0, 1e-8]])
    assert_close(cf.special.i0(cf.tensor(x)), np.i0(x))
    assert_close(cf.special.i0e(cf.tensor(x)), np.i0(x) * np.exp(-np.abs(x)))


def test_buffers_and_arrays() -> None:
    memory = bytearray(np.arange(4, dtype=np.int32).tobytes())
    x = cf.frombuffer(memory, dtype=cf.int32, count=2, offset=4)
    assert x.tolist() == [1, 2]
    x.fill_(7)
    assert np.frombuffer(memory, np.int32).tolist() == [0, 7, 7, 3]
    with pytest.raises(ValueError, match="frombuffer: offset 99 is not within the 16 bytes"):
        cf.frombuffer(memory, dtype=cf.int32, offset=99)
    with pytest.raises(ValueError, match="are not a whole number of int32 elements"):
        cf.frombuffer(memory, dtype=cf.int32, offset=1)
    array = np.zeros(2)
    assert np.shares_memory(cf.asarray(array).numpy(), array)
    assert not np.shares_memory(cf.asarray(array, copy=True).numpy(), array)
    with pytest.raises(ValueError, match="asarray: list must be copied, and copy is False"):
        cf.asarray([1.0], copy=False)
    assert cf.empty_strided((2, 3), (1, 2)).stride() == (1, 2)
    assert cf.range(1, 2, 0.5).tolist() == [1.0, 1.5, 2.0]


def test_counts_have_their_means() -> None:
    cf.manual_seed(0)
    rates = cf.tensor([0.0, 0.5, 4.0, 700.0], dtype=cf.float64).expand(4000, 4)
    drawn = cf.poisson(rates)
    error = 5 * (rates[0] / 4000).sqrt() + 1e-12
    assert bool(((drawn.mean(0) - rates[0]).abs() <= error).all())
    assert bool(((drawn.var(0) - rates[0]).abs() <= 0.15 * rates[0] + 1e-12).all())
    trials = cf.binomial(cf.full((4000,), 10.0), cf.full((4000,), 0.3))
    assert trials.mean().item() == pytest.approx(3.0, abs=0.15)
    with pytest.raises(ValueError, match=r"poisson: .* has invalid elements; a rate is positive"):
        cf.poisson(cf.tensor([-1.0]))


def test_numbers_taken_apart() -> None:
    x = np.array([0.0, 1.0, -3.0, 0.1, 8.0, 7.999999, 1e-30, np.inf])
    fraction, exponent = cf.frexp(cf.tensor(x))
    wanted = np.frexp(x)
    assert_close(fraction, wanted[0])
    assert exponent.tolist()[:-1] == wanted[1].tolist()[:-1]
    for dtype, kind in (
        (cf.float64, np.float64),
        (cf.float32, np.float32),
        (cf.float16, np.float16),
    ):
        limits = np.finfo(kind)
        extremes = [
            limits.max,
            limits.tiny,
            limits.tiny / 2,
            limits.smallest_subnormal,
            -limits.tiny / 4,
        ]
        given = np.array(extremes, kind)
        for take_apart in (cf.frexp, cf.compile(lambda x: tuple(cf.frexp(x)))):
            fraction, exponent = take_apart(cf.tensor(given, dtype=dtype))
            assert fraction.tolist() == np.frexp(given)[0].tolist()
            assert exponent.tolist() == np.frexp(given)[1].tolist()
    (slope,) = cf.gradient(cf.tensor([1.0, 4.0, 9.0, 16.0]), spacing=2.0)
    assert_close(slope, np.gradient(np.array([1.0, 4, 9, 16]), 2.0).astype(np.float32))
    assert cf.unravel_index(cf.tensor([5, 2]), (2, 3))[1].tolist() == [2, 2]


def test_the_generator_takes_a_device_and_forks() -> None:
    generator = cf.Generator(device="cpu").manual_seed(3)
    assert generator.initial_seed() == 3
    assert generator.device == "cpu"
    assert cf.Generator("cpu").initial_seed() == 0
    cf.manual_seed(1)
    with cf.random.fork_rng():
        inside = cf.rand(2)
    assert_close(cf.rand(2), inside)
    assert cf.initial_seed() == 1


def test_the_state_of_the_generator_is_moved_and_saved_as_a_tensor_is(tmp_path: Path) -> None:
    cf.manual_seed(5)
    cf.save({"rng": cf.get_rng_state()}, tmp_path / "a.safetensors")
    first = cf.rand(2)
    saved = cf.load(tmp_path / "a.safetensors")["rng"]
    cf.set_rng_state(saved.cpu().clone())
    assert_close(cf.rand(2), first)
    with pytest.raises(TypeError, match=r"set_rng_state: uint8\[5056\] .* PyTorch's generator"):
        cf.set_rng_state(cf.zeros(5056, dtype=cf.uint8))


def test_containers_are_close_member_by_member() -> None:
    x, y = cf.ones(2), cf.zeros(3)
    assert_close([x, {"a": y, "b": 1.0}], (x, {"b": 1.0 + 1e-9, "a": y}))
    with pytest.raises(AssertionError, match=r"1 of 2 elements .* It is at \['a'\]\. .* \[1\]\."):
        assert_close([x, {"a": x}], [x, {"a": cf.tensor([1.0, 2.0])}])
    with pytest.raises(AssertionError, match="only one has 'b'"):
        assert_close({"a": x}, {"a": x, "b": x})
    with pytest.raises(AssertionError, match="the lengths 1 and 2 differ"):
        assert_close([x], [x, x])
    with pytest.raises(AssertionError, match=r"^mine$"):
        assert_close([x], [x + 1], msg="mine")
