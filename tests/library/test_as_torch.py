"""PyTorch programs run as they are, with PyTorch's losses; a program that lacks a name is told."""

from __future__ import annotations

import importlib.util
import json
import re
import subprocess
import sys
import textwrap
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

import contraflow
from contraflow import as_torch

as_torch.uninstall()  # in this process PyTorch is PyTorch

_TEXT = (Path(__file__).parents[1] / "helpers" / "pytorch_programs.txt").read_text()
PROGRAMS = dict(re.findall(r"^===== ([^\n]*)\n(.*?)(?=^=====|\Z)", _TEXT, re.M | re.S))
# The losses that PyTorch 2.13 gives, in float64.
LOSSES = json.loads((Path(__file__).parents[1] / "helpers" / "pytorch_losses.txt").read_text())


@pytest.fixture(autouse=True)
def _no_torch_is_left():
    """`import contraflow.as_torch` has installed it in this process: take that back."""
    as_torch.uninstall()
    yield
    as_torch.uninstall()


def run(folder: Path, text: str, *options: str) -> subprocess.CompletedProcess[str]:
    program = folder / "program.py"
    program.write_text(textwrap.dedent(text))
    command = [sys.executable, "-m", "contraflow.as_torch", *options, str(program), "--seed", "1"]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_programs_have_pytorchs_losses(tmp_path: Path) -> None:
    assert PROGRAMS.keys() == LOSSES.keys()
    parts = [
        f"space = {{'__name__': '__main__'}}\n"
        f"exec({text!r}, space)\n"
        f"found[{name!r}] = space['losses']"
        for name, text in PROGRAMS.items()
    ]
    ending = "import json\nprint(json.dumps(found))"
    done = run(tmp_path, "\n".join(["found = {}", *parts, ending]))
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    for name, losses in LOSSES.items():
        np.testing.assert_allclose(found[name], losses, rtol=1e-9, err_msg=name)


def test_what_a_program_sees(tmp_path: Path) -> None:
    done = run(
        tmp_path,
        """
        import sys
        import torch, torch.nn.functional as F
        from torch.utils.data import DataLoader
        from torch.nn.modules.batchnorm import _BatchNorm
        import contraflow
        assert __name__ == "__main__" and sys.argv[1:] == ["--seed", "1"]
        assert torch.nn is contraflow.nn and F is contraflow.nn.functional
        assert torch.__version__.startswith("2.") and torch.version.cuda is None
        assert contraflow.nn.__spec__.name == "contraflow.nn"
        assert not torch.cuda.is_available() or torch.cuda.device_count() > 0
        assert repr(torch.zeros(2, 0)) == "tensor([], size=(2, 0))"
        print(torch.ones(2).sum().item())
        """,
    )
    assert (done.returncode, done.stdout.strip()) == (0, "2.0"), done.stderr


def test_parts_of_shapes_are_shapes(tmp_path: Path) -> None:
    done = run(
        tmp_path,
        """
        import torch
        x = torch.ones(2, 3, 4)
        assert x.shape[:-1].numel() == 6 and x.size()[1:].numel() == 12 and x.shape[0] == 2
        assert isinstance(x.shape + (5,), torch.Size) and ((5,) + x.shape).numel() == 120
        assert x.view(x.shape[:2].numel(), -1).shape == torch.Size([6, 4])
        print(x.shape, x.shape[1:])

        @torch.compile
        def flat(x):
            return x.reshape(x.shape[:2].numel(), -1), x.shape[:2]

        for _ in range(2):
            print(flat(x)[1])
        """,
    )
    shown = ["torch.Size([2, 3, 4]) torch.Size([3, 4])", *["torch.Size([2, 3])"] * 2]
    assert (done.returncode, done.stdout.splitlines()) == (0, shown), done.stderr
    assert repr(contraflow.ones(2, 3).shape[:1]) == "(2,)"  # of programs of contraflow's own
    as_torch.install()
    assert repr(contraflow.ones(2, 3).shape[:1]) == "torch.Size([2])"
    as_torch.uninstall()
    assert type(contraflow.ones(2, 3).shape[:1]) is tuple


def test_a_traceback_begins_in_the_program(tmp_path: Path) -> None:
    done = run(tmp_path, "import torch\n\ndef f():\n    torch.fft.fft\n\nf()\n")
    lines = done.stderr.splitlines()
    assert done.returncode == 1
    assert lines[0] == "Traceback (most recent call last):"
    assert 'program.py", line 6, in <module>' in lines[1]
    assert "runpy" not in done.stderr
    assert "as_torch" not in done.stderr
    assert "fft.fft: there are no Fourier transforms here" in lines[-1]


def test_what_is_absent_is_refused_with_the_line(tmp_path: Path) -> None:
    done = run(tmp_path, "import torch\n\ntorch.stft\n")
    assert "program.py, line 3: stft: there are no Fourier transforms here" in done.stderr
    for text, message in {
        "from torch import sparse_coo_tensor": "there are no sparse tensors here",
        "import torch.export": "it belongs to TorchScript or to PyTorch's own compiler",
        "import torch.nothing_of_the_kind": "it is not there",
    }.items():
        done = run(tmp_path, text)
        assert done.returncode == 1
        assert message in done.stderr


def test_what_packages_ask_when_they_are_imported(tmp_path: Path) -> None:
    done = run(
        tmp_path,
        """
        import importlib.util
        import torch
        import torch._dynamo, torch._custom_ops
        from torch.jit.annotations import List
        from torch.utils._pytree import tree_map
        sizes = {torch.complex64: 8, torch.float8_e4m3fn: 1, torch.uint16: 2, torch.float32: 4}
        assert sizes[torch.ones(1).dtype] == 4 and repr(torch.uint16) == "torch.uint16"
        assert importlib.util.find_spec("torch") is not None
        assert torch.__config__.show() and torch.torch is torch
        torch._C._log_api_usage_once("x")
        for wrong in (
            lambda: torch.ops.load_library("some/where/_C.so"),
            lambda: torch.ops.aten.clone.default(torch.ones(1)),
            lambda: torch.ops.nothing,
            lambda: torch._C.nothing,
            lambda: torch.ones(1, dtype=torch.complex64),
        ):
            try:
                wrong()
            except Exception as error:
                print(type(error).__name__, error)
        """,
    )
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert lines[0] == "OSError load_library: _C.so is compiled for PyTorch itself."
    assert lines[1].endswith(
        "line 14: ops.aten.clone.default: ops of PyTorch's dispatcher are not here. Use the public "
        "function."
    )
    assert lines[2].endswith("ops.nothing: ops of PyTorch's dispatcher are not here.")
    assert lines[3].endswith("_C.nothing: PyTorch's core is not here.")
    assert lines[4].startswith("TypeError ")
    assert "torch.complex64" in lines[4]


def test_names_that_transformers_and_torch_geometric_need(tmp_path: Path) -> None:
    done = run(
        tmp_path,
        """
        import torch
        from torch._dynamo._trace_wrapped_higher_order_op import TransformGetItemToIndex
        from torch._tensor_str import PRINT_OPTS, _tensor_str
        from torch.autograd.profiler import EventList
        from torch.distributed import rpc
        from torch.nn.attention.flex_attention import AuxRequest, _DEFAULT_SPARSE_BLOCK_SIZE
        from torch.optim.lr_scheduler import _LRScheduler
        from torch.optim.optimizer import Optimizer, required
        from torch.utils.data.dataloader import _BaseDataLoaderIter
        assert str(torch.float64) == "torch.float64" and f"{torch.float64}" == "torch.float64"
        assert torch.finfo(torch.float8_e4m3fn).max == 448.0 and torch.finfo().bits == 32
        assert torch.device("meta") != torch.ones(1).device
        assert torch.ones(1).layout == torch.strided and not torch.ones(1).layout != torch.strided
        assert torch.ones(1).layout != torch.sparse_coo
        assert torch.ops.aten.clone.default == torch.ops.aten.clone.default != torch.ops.aten.add
        assert not rpc.is_available() and not hasattr(rpc, "api")
        assert PRINT_OPTS.threshold == 1000 and not hasattr(PRINT_OPTS, "nothing")
        assert _tensor_str(torch.eye(2), 1) == "[[1., 0.],\\n  [0., 1.]]"

        @torch.library.custom_op("mine::cube", mutates_args=())
        def cube(x: torch.Tensor) -> torch.Tensor:
            return torch.from_numpy(x.numpy() ** 3)

        assert torch.ops.mine.cube(torch.full((2,), 2.0)).tolist() == [8.0, 8.0]
        assert torch.ops.mine.cube.default is cube
        def annotated(graph: torch.cuda.CUDAGraph | None) -> torch.cuda.graph: ...
        """,
    )
    assert done.returncode == 0, done.stderr


def test_a_dtype_is_spelt_as_pytorch_spells_it(tmp_path: Path) -> None:
    done = run(
        tmp_path,
        """
        import torch

        x = torch.ones(1, dtype=torch.float16)
        print(str(x.dtype), f"{x.dtype}", repr(x.dtype), [x.dtype], x)
        try:
            x @ torch.ones(2)
        except ValueError as error:
            print(error)
        """,
    )
    first, second = done.stdout.splitlines()
    spelt = "torch.float16"
    assert first == f"{spelt} {spelt} {spelt} [{spelt}] tensor([1.], dtype={spelt})"
    assert second.startswith("matmul: ")
    assert " float16[1] by float32[2]" in second


def test_the_dtypes_are_contraflows_again_after_it() -> None:
    assert str(contraflow.float32) == "float32"
    as_torch.install()
    assert str(contraflow.float32) == "torch.float32"
    as_torch.uninstall()
    assert str(contraflow.float32) == "float32"


def test_safetensors_saves_and_loads(tmp_path: Path) -> None:
    pytest.importorskip("safetensors", reason="make test installs it")
    done = run(
        tmp_path,
        f"""
        import torch
        from safetensors.torch import load_file, load_model, save_file, save_model
        path = {str(tmp_path / "model.safetensors")!r}
        state = torch.nn.Linear(3, 2).state_dict()
        save_file(state, path)
        assert all(torch.equal(state[name], x) for name, x in load_file(path).items())
        first, second = torch.nn.Linear(3, 2), torch.nn.Linear(3, 2)
        save_model(first, path)
        assert load_model(second, path) == (set(), [])
        assert torch.equal(first.weight, second.weight)
        """,
    )
    assert done.returncode == 0, done.stderr


def test_a_check_runs_nothing_and_lists_what_is_missing(tmp_path: Path) -> None:
    program = """
        import torch
        import torch.nn as nn
        from torch import fft as transforms
        import torch.nn.functional as F
        raise SystemExit("it was run")
        nn.Linear(1, 1)
        F.softmax(torch.stft(x))
        torch.optim.AdamW
        transforms.rfft
    """
    file = tmp_path / "program.py"
    file.write_text(textwrap.dedent(program))
    command = [sys.executable, "-m", "contraflow.as_torch", "--check", str(file)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert f"{file}:8: torch.stft: there are no Fourier transforms" in done.stdout
    assert f"{file}:10: torch.fft.rfft: there are no Fourier transforms" in done.stdout
    assert done.stdout.endswith("8 names of PyTorch's are used, 2 of them missing.\n")
    file.write_text("import torch\ntorch.ones(2)\n")
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (
        0,
        "1 names of PyTorch's are used, 0 of them missing.\n",
    )


def test_a_check_names_methods_that_tensors_lack(tmp_path: Path) -> None:
    program = """
        import numpy as np
        import scipy.linalg
        import torch
        x = torch.eye(3)
        y = x.to_sparse() + torch.relu(x).view(3, 3).stft(2)
        w, v = x.T.symeig()
        np.linalg.svd(x.numpy()), scipy.linalg.lu(x), np.histogram(x)
        {}.values(), "".index("a"), open(0).name, x.numpy().imag, slice(3).indices(4)
        x.qr_of_mine, x.sparse, x.histograms

        class Solver(torch.nn.Module):
            lu: int = 0
            def solve(self, x): return self.qr, x.dense_dim
            def __init__(self): self.qr = 1; self.solve(self.lu)
    """
    file = tmp_path / "program.py"
    file.write_text(textwrap.dedent(program))
    command = [sys.executable, "-m", "contraflow.as_torch", "--check", str(file)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    *rows, last = done.stdout.splitlines()
    assert done.returncode == 1, done.stderr
    found = {tuple(row.removeprefix(f"{file}:").split(": ")[:2]) for row in rows}
    assert found == {
        ("6", ".to_sparse, if of a tensor"),
        ("6", ".stft, if of a tensor"),
        ("7", ".symeig, if of a tensor"),
        ("14", ".dense_dim, if of a tensor"),
    }
    assert any("there are no sparse tensors here. Use dense ones" in row for row in rows)
    assert last.endswith("0 of them missing; 4 more names may be one of a tensor that is missing.")


def test_imports_of_every_form_are_found() -> None:
    text = "import torch as t, torch.nn\nfrom torch.optim import SGD as S\nt.a.b(torch.c)\nS.d\n"
    found = {use.path for use in as_torch.uses(text, "x.py")}
    assert found == {"nn", "optim.SGD", "a.b", "c", "optim.SGD.d"}


def test_pytorch_that_is_there_already_is_not_replaced(monkeypatch) -> None:
    monkeypatch.setitem(sys.modules, "torch", sys)
    with pytest.raises(ImportError, match="as_torch: PyTorch itself is imported already"):
        as_torch.install()


def test_pytorch_itself_stays_imported(monkeypatch) -> None:
    theirs = {name: ModuleType(name) for name in ("torch", "torch.nn")}
    for name, module in theirs.items():
        monkeypatch.setitem(sys.modules, name, module)
    as_torch.uninstall()
    assert all(sys.modules[name] is module for name, module in theirs.items())


def test_einops_takes_contraflows_tensors(tmp_path: Path) -> None:
    pytest.importorskip("einops", reason="einops is not among what the tests install")
    done = run(
        tmp_path,
        """
        import torch
        from einops import rearrange, reduce
        x = torch.arange(24.0, requires_grad=True).reshape(2, 3, 4)
        y = reduce(rearrange(x, "a b c -> (a b) c"), "n c -> c", "mean")
        assert torch.is_tensor(y) and y.requires_grad
        print(y.tolist())
        """,
    )
    assert done.stdout.strip() == "[10.0, 11.0, 12.0, 13.0]", done.stderr


def test_tensorboardx_takes_contraflows_tensors(tmp_path: Path) -> None:
    pytest.importorskip("tensorboardX", reason="a package of the dev extra")
    program = """
        import sys

        if "late" in sys.argv:
            import tensorboardX
            import contraflow.as_torch
        import torch
        from tensorboardX import SummaryWriter

        loss = torch.randn(3, requires_grad=True).sum()
        with SummaryWriter({folder!r}) as writer:
            writer.add_scalar("loss", loss, 0)
            writer.add_scalars("several", {{"a": torch.tensor(1.0)}}, 0)
            writer.add_histogram("weights", torch.randn(9, requires_grad=True), 0)
            writer.add_image("image", torch.rand(3, 8, 8), 0)
            writer.add_embedding(torch.rand(4, 3))
            writer.add_hparams({{"lr": 0.1}}, {{"metric": torch.tensor(1.0)}})
        """
    done = run(tmp_path, program.format(folder=str(tmp_path / "first")))
    assert done.returncode == 0, done.stderr
    text = b"".join(file.read_bytes() for file in (tmp_path / "first").glob("events*"))
    assert all(name in text for name in (b"loss", b"weights", b"image"))
    if importlib.util.find_spec("torch") is not None:
        return  # tensorboardX imports PyTorch where it is installed, and then it is too late
    late = textwrap.dedent(program.format(folder=str(tmp_path / "second")))
    command = [sys.executable, "-c", late, "late"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_a_loss_of_a_programs_own(tmp_path: Path) -> None:
    done = run(
        tmp_path,
        """
        import torch
        from torch import nn
        from torch.nn import functional as F
        from torch.nn.modules.loss import _Loss, _WeightedLoss

        class Focal(_Loss):
            def __init__(self, gamma=2.0, size_average=None, reduce=None, reduction="mean"):
                super().__init__(size_average, reduce, reduction)
                self.gamma = gamma

            def forward(self, x, y):
                loss = F.cross_entropy(x, y, reduction="none")
                loss = (1 - torch.exp(-loss)) ** self.gamma * loss
                return loss.sum() if self.reduction == "sum" else loss.mean()

        class Smooth(_WeightedLoss):
            def __init__(self, weight=None, reduction="mean", smoothing=0.1):
                super().__init__(weight=weight, reduction=reduction)
                self.smoothing = smoothing

            def forward(self, x, y):
                return F.cross_entropy(
                    x, y, self.weight, reduction=self.reduction, label_smoothing=self.smoothing
                )

        x, y = torch.tensor([[1.0, 2.0, 0.5], [0.1, 0.2, 3.0]]), torch.tensor([0, 2])
        print(Focal()(x, y), Focal(reduction="sum")(x, y), Focal(size_average=False)(x, y))
        print(Smooth(torch.tensor([1.0, 2.0, 3.0]))(x, y), list(Smooth(torch.ones(3)).state_dict()))
        print(isinstance(nn.NLLLoss(), _WeightedLoss), isinstance(nn.MSELoss(), _WeightedLoss))
        print(Focal())
        """,
    )
    assert done.stdout.splitlines() == [  # as PyTorch prints them
        "tensor(0.4333) tensor(0.8666) tensor(0.8666)",
        "tensor(0.5488) ['weight']",
        "True False",
        "Focal()",
    ], done.stderr


def test_an_error_shows_the_lines_of_the_program_alone(tmp_path: Path) -> None:
    done = run(
        tmp_path,
        """
        import torch

        torch.optim.SGD([], lr=0.1)
        """,
    )
    shown = done.stderr.splitlines()
    assert [line.split(", line")[1] for line in shown if "File" in line] == [" 4, in <module>"]
    assert shown[-1].startswith("ValueError: SGD: the list of parameters is empty.")


def test_batch_norms_of_a_programs_own_check_their_inputs(tmp_path: Path) -> None:
    done = run(
        tmp_path,
        """
        import torch
        from torch.nn.modules.batchnorm import _BatchNorm

        class OfSequences(_BatchNorm):
            def _check_input_dim(self, input):
                if input.dim() != 3:
                    raise ValueError(f"expected 3 dims, not {input.dim()}")

        class OfImages(torch.nn.BatchNorm2d):
            def forward(self, input):
                self._check_input_dim(input)
                return super().forward(input)

        print(OfSequences(2)(torch.ones(2, 2, 3)).shape, OfImages(2)(torch.ones(2, 2, 3, 3)).shape)
        OfSequences(2)(torch.ones(2, 2))
        """,
    )
    assert done.stdout == "torch.Size([2, 2, 3]) torch.Size([2, 2, 3, 3])\n", done.stderr
    assert "ValueError: expected 3 dims, not 2" in done.stderr


def test_dtypes_may_be_pythons_types() -> None:
    made = [contraflow.zeros(2, dtype=kind) for kind in (float, int, bool)]  # type: ignore[call-overload]
    assert [x.dtype for x in made] == [contraflow.float64, contraflow.int64, contraflow.bool]
    x = contraflow.ones(2)
    assert contraflow.tensor([1], dtype=float).dtype is contraflow.float64  # type: ignore[arg-type]
    assert (x.to(int).dtype, x.to(dtype=bool).dtype) == (contraflow.int64, contraflow.bool)


def test_formats_are_spelt_as_in_pytorch(tmp_path: Path) -> None:
    done = run(
        tmp_path,
        """
        import torch

        torch._dynamo.reset()
        print(torch.strided, torch.sparse_coo, torch.channels_last)
        """,
    )
    assert done.stdout == "torch.strided torch.sparse_coo torch.channels_last\n", done.stderr
    assert repr(contraflow.strided) == "contraflow.strided"


def test_an_import_of_an_absent_name_says_why(tmp_path: Path) -> None:
    done = run(tmp_path, "from torch.linalg import ldl_solve")
    assert done.returncode == 1
    assert re.search(r"ModuleNotFoundError: torch.linalg.ldl_solve: it is", done.stderr)
    optional = "try:\n    from torch.linalg import ldl_solve\nexcept ImportError:\n    print('out')"
    assert run(tmp_path, optional).stdout == "out\n"


def test_fourier_transforms_can_be_imported_and_are_refused_when_called(tmp_path: Path) -> None:
    done = run(tmp_path, "import torch\nfrom torch.fft import fftn, fftfreq\nfftn(torch.ones(2))")
    assert done.returncode == 1
    last = done.stderr.splitlines()[-1]
    assert "program.py, line 3: fft.fftn: there are no Fourier transforms here. Use NumPy's" in last
    as_torch.install()
    exec("from torch.fft import fftn")
    as_torch.uninstall()
    assert not hasattr(contraflow.fft, "fftn")
    assert "contraflow.fft.fftn" not in sys.modules


def test_names_that_gpytorch_peft_kornia_and_diffusers_need(tmp_path: Path) -> None:
    done = run(
        tmp_path,
        """
        import torch
        from torch._subclasses.fake_tensor import is_fake
        from torch.distributions.utils import _standard_normal
        from torch.fx.experimental.proxy_tensor import get_proxy_mode
        from torch.nn.init import _calculate_correct_fan
        from torch.overrides import TorchFunctionMode, has_torch_function, is_tensor_like
        assert not is_fake(torch.ones(1)) and get_proxy_mode() is None
        assert _standard_normal((2, 3), torch.float64, "cpu").dtype == torch.float64
        assert _calculate_correct_fan(torch.ones(4, 3), "fan_in") == 3
        assert _calculate_correct_fan(torch.ones(4, 3), "fan_out") == 4
        assert not has_torch_function((torch.ones(1),)) and is_tensor_like(torch.ones(1))
        assert not torch._C._are_functorch_transforms_active()
        class Mode(TorchFunctionMode): ...
        assert torch.Stream is torch.cuda.Stream and torch.Event is torch.cuda.Event
        out = torch.empty(2, 2), torch.empty((), dtype=torch.int32)
        factor, info = torch.linalg.cholesky_ex(4 * torch.eye(2), out=out)
        assert factor is out[0] and out[0].tolist() == [[2, 0], [0, 2]] and info.item() == 0

        class Older(torch.nn.Linear):
            def __init__(self):
                super().__init__(1, 1, bias=False)
                self._register_load_state_dict_pre_hook(self.rename)

            def rename(self, state_dict, prefix, *others):
                state_dict[prefix + "weight"] = state_dict.pop(prefix + "w")

        older = Older()
        older.load_state_dict({"w": torch.full((1, 1), 3.0)})
        assert older.weight.item() == 3
        older._register_load_state_dict_pre_hook(lambda m, *o: print(m is older), with_module=True)
        older.load_state_dict({"w": torch.ones(1, 1)})
        try:
            Mode()
        except TypeError as error:
            print(error)
        """,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == [
        "True",
        "TorchFunctionMode: there is no mode that takes functions over here. See docs/names.md.",
    ]


def test_names_are_imported_from_pytorchs_core(tmp_path: Path) -> None:
    done = run(
        tmp_path,
        """
        import torch
        from torch._C import DisableTorchFunctionSubclass  # as torchvision does
        from torch.types import _device, _dtype, _size
        import torch._C as core
        assert (_device, _dtype) == (torch.device, torch.dtype)
        with DisableTorchFunctionSubclass():
            print(torch.ones(2).sum().item())
        assert core is torch._C
        try:
            from torch._C import _VariableFunctions
        except ImportError as error:
            print(error)
        """,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("2.0\ncannot import name '_VariableFunctions' from 'torch._C'")
