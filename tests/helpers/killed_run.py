"""A training run that goes on from its file: killed at any moment and started again, it ends alike.

`python -m tests.helpers.killed_run FILE STEPS` prints a line per step, and a digest at the end.
"""

from __future__ import annotations

import hashlib
import sys
from pathlib import Path

import contraflow as cf
from contraflow import nn
from contraflow.nn import functional as F


def run(file: Path, steps: int) -> str:
    cf.manual_seed(3)
    model = nn.Sequential(
        nn.Linear(4, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Dropout(0.3), nn.Linear(16, 2)
    )
    optimizer = cf.optim.AdamW(model.parameters(), lr=1e-2)
    scheduler = cf.optim.lr_scheduler.MultiStepLR(optimizer, [3, 9])
    data = cf.data.TensorDataset(cf.randn(32, 4), cf.randn(32, 2))
    step = 0
    if file.exists():
        saved = cf.load(file)
        model.load_state_dict(saved["model"])
        optimizer.load_state_dict(saved["optimizer"])
        scheduler.load_state_dict(saved["scheduler"])
        cf.set_rng_state(saved["random"])
        step = saved["step"]
    while step < steps:
        for x, y in cf.data.DataLoader(data, batch_size=8, shuffle=True):
            optimizer.zero_grad()
            F.mse_loss(model(x), y).backward()
            optimizer.step()
        scheduler.step()
        step += 1
        state = {
            "model": model,
            "optimizer": optimizer,
            "scheduler": scheduler,
            "random": cf.get_rng_state(),
            "step": step,
        }
        cf.save(state, file)
        print(step, flush=True)
    digest = hashlib.sha256(repr(optimizer.param_groups[0]["lr"]).encode())
    for tensor in model.state_dict().values():
        digest.update(tensor.numpy().tobytes())
    return digest.hexdigest()


if __name__ == "__main__":
    print(run(Path(sys.argv[1]), int(sys.argv[2])))
