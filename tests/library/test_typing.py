"""Type checkers see inside: typical uses pass, misspelt names do not."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

api = pytest.importorskip("mypy.api", reason="make test installs it")

ROOT = Path(__file__).resolve().parents[2]
NODE = ROOT / ".node" / "node_modules" / ".bin"  # where `make pyright` puts it
EXAMPLES = sorted((ROOT / "examples").glob("*.py"))

USES = """
import contraflow as cf
import contraflow.nn.functional as F
from contraflow import nn
from contraflow.utils.data import DataLoader, TensorDataset

x: cf.Tensor = cf.softmax(cf.ones(2, 3), dim=1)
y: cf.Tensor = cf.tanh(x) + cf.zeros(3) * cf.pi
total: cf.Tensor = y.sum(dim=0)


class Model(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(3, 2)

    def forward(self, x: cf.Tensor) -> cf.Tensor:
        out: cf.Tensor = F.relu(self.layer(x))
        return out


model = Model()
optimizer = cf.optim.AdamW(model.parameters(), lr=1e-3, fused=True)
for (batch,) in DataLoader(TensorDataset(x), batch_size=2):
    loss: cf.Tensor = F.cross_entropy(model(batch), cf.tensor([0, 1]))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
with cf.no_grad():
    print(model(x).argmax(dim=1), cf.finfo(cf.float).eps, cf.FloatTensor, cf.hann_window(4))
cf.save(model.state_dict(), "model.safetensors")


@cf.compile
def step(x: cf.Tensor, scale: float = 1.0) -> cf.Tensor:
    loss: cf.Tensor = F.mse_loss(model(x) * scale, cf.zeros(2, 2), reduction="sum")
    return loss


@cf.compile(verify=1)
def twice(x: cf.Tensor) -> tuple[cf.Tensor, int]:
    return x + x, 2


class Trainer:
    @cf.compile
    def step(self, x: cf.Tensor) -> cf.Tensor:
        return x * 2


stepped: cf.Tensor = step(x, scale=2.0)
text: str = step.explain()
both: tuple[cf.Tensor, int] = twice(x)
trained: cf.Tensor = Trainer().step(x)
same: Model = cf.compile(model)
out: cf.Tensor = model(x)
hidden: cf.Tensor = nn.Linear(3, 4)(x)
pooled: cf.Tensor = F.max_pool2d(F.conv2d(cf.ones(1, 1, 4, 4), cf.ones(1, 1, 3, 3)), 2)
dropped: cf.Tensor = F.dropout(x, p=0.5)
layer = nn.Linear(3, 4)
mapped = list(map(layer, [cf.ones(3)]))
recomputed: cf.Tensor = cf.checkpoint(layer, cf.ones(3))
batched = cf.func.vmap(layer)(cf.ones(2, 3))
layer.train().eval().to("cpu").float()
layers = nn.Sequential(layer, nn.ReLU())
for each in layers:
    print(each(cf.ones(3)))
through: cf.Tensor = layers(cf.ones(3))


def summed(x: cf.Tensor) -> cf.Tensor:
    return x.sin().sum()


slope: cf.Tensor = cf.func.grad(summed)(cf.ones(2))
leaf = cf.ones(2, 3, requires_grad=True)
(gradient,) = cf.autograd.grad(summed(leaf), [leaf])
twofold: cf.Tensor = gradient * 2
values, indices = cf.max(cf.ones(2, 3), dim=1)
best = cf.topk(cf.ones(4), 2).values
x[0] = 1
x[:, 1:] += 2
rows: int = x.shape[0]
a, b = x.shape
arithmetic = x @ x.T + 1 - 2 / x[:, :2] ** 2
negative = -x > 0
neither = (negative & ~negative).any().item()
criterion = nn.CrossEntropyLoss()
criterion(layers(x), cf.tensor([0, 1])).backward()
momentum = cf.optim.SGD(layers.parameters(), lr=0.1, momentum=0.9)
schedule = cf.optim.lr_scheduler.StepLR(momentum, 10)
schedule.step()
layers.load_state_dict(layers.state_dict())
array = x.numpy().sum()
moved = x.to(cf.float64).view(-1).unsqueeze(0).expand(2, -1).permute(1, 0).contiguous()
product = cf.einsum("ij,kj->ik", x, x)
size = cf.split(x, 1)[0].size(0)
drawn = cf.distributions.Normal(cf.zeros(2), cf.ones(2)).rsample((3,))
query = cf.ones(1, 2, 4)
attended, weights = nn.MultiheadAttention(4, 2)(query, query, query)
states, (last, cell) = nn.LSTM(3, 4)(cf.ones(5, 1, 3))
generator = cf.Generator().manual_seed(1)
random = cf.randn(2, 3, generator=generator, device="cpu", dtype=cf.float32, requires_grad=True)
with cf.autocast("cpu", dtype=cf.bfloat16):
    print(layer(x))
"""

MISSPELT = """
import contraflow as cf

cf.softmaxx(cf.ones(2))
cf.ones(2).softmaxx()
cf.nn.Linaer(1, 2)
cf.nn.functional.sofmax(cf.ones(2))
cf.optim.Adma


@cf.compile
def step(x: cf.Tensor) -> cf.Tensor:
    return x


step(1, 2)
count: int = step(cf.ones(1))
number: int = cf.nn.Linear(1, 2)(cf.ones(1))
step.explian()
cf.nn.functional.dropout(cf.ones(1), q=0.5)
"""
WRONG = [4, 5, 6, 7, 8, 16, 17, 18, 19, 20]  # its lines


def files_in(folder: Path) -> list[str]:
    (folder / "uses.py").write_text(USES)
    (folder / "misspelt.py").write_text(MISSPELT)
    return [str(folder / "uses.py"), str(folder / "misspelt.py")]


def test_the_uses_run(tmp_path: Path) -> None:
    program, _ = files_in(tmp_path)
    paths = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    asked = [sys.executable, "-W", "error", program]
    done = subprocess.run(
        asked, capture_output=True, text=True, check=False, env=paths, cwd=tmp_path
    )
    assert done.returncode == 0, done.stderr


def test_uses_pass_and_misspelt_names_do_not(tmp_path: Path) -> None:
    files = [*files_in(tmp_path), *map(str, EXAMPLES)]
    found, problems, _ = api.run(
        [
            "--strict",
            "--no-warn-return-any",
            "--ignore-missing-imports",
            f"--cache-dir={tmp_path / 'cache'}",
            *files,
        ]
    )
    assert not problems
    lines = [line for line in found.splitlines() if " error: " in line]
    assert not [line for line in lines if "misspelt.py" not in line], found
    assert sorted({int(line.split(":")[1]) for line in lines}) == WRONG, found


@pytest.mark.slow
def test_pyright_says_the_same(tmp_path: Path) -> None:
    command = shutil.which("pyright") or shutil.which("pyright", path=str(NODE))
    if command is None:
        pytest.skip("pyright is not installed: make pyright, which needs Node.js")
    files = [*files_in(tmp_path), *map(str, EXAMPLES)]
    asked = [command, "--outputjson", "--pythonpath", sys.executable, *files]
    paths = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    done = subprocess.run(asked, capture_output=True, text=True, check=False, env=paths, cwd=ROOT)
    told = json.loads(done.stdout)["generalDiagnostics"]
    errors = [d for d in told if d["severity"] == "error"]
    assert not [d for d in errors if not d["file"].endswith("misspelt.py")]
    assert sorted({d["range"]["start"]["line"] + 1 for d in errors}) == WRONG
