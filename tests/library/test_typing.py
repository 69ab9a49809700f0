"""Type checkers see inside: typical uses pass, misspelt names do not."""

from __future__ import annotations

from pathlib import Path

import pytest

api = pytest.importorskip("mypy.api", reason="make test installs it")

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
"""

MISSPELT = """
import contraflow as cf

cf.softmaxx(cf.ones(2))
cf.ones(2).softmaxx()
cf.nn.Linaer(1, 2)
cf.nn.functional.sofmax(cf.ones(2))
cf.optim.Adma
"""


def test_uses_pass_and_misspelt_names_do_not(tmp_path: Path) -> None:
    (tmp_path / "uses.py").write_text(USES)
    (tmp_path / "misspelt.py").write_text(MISSPELT)
    files = [str(tmp_path / "uses.py"), str(tmp_path / "misspelt.py")]
    found, problems, _ = api.run(["--strict", f"--cache-dir={tmp_path / 'cache'}", *files])
    assert not problems
    lines = [line for line in found.splitlines() if str(tmp_path) in line]
    assert not [line for line in lines if "uses.py" in line]
    assert sorted(int(line.split(":")[1]) for line in lines) == [4, 5, 6, 7, 8], found
