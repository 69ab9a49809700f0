"""A page that trains a small network in the browser, by the browser's own WebGPU.

The network tells the arms of a spiral apart. Python records its training step and its predictions
once, on device="webgpu", and writes them as files; the page runs them, without Python.

    python examples/web.py                  # writes build/web and serves it
    python examples/web.py --folder site --no-serve
"""

import argparse
import shutil
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import numpy as np

import contraflow as cf
from contraflow import nn
from contraflow.nn import functional as F

ARMS = 3
POINTS = 120  # per arm
SIDE = 96  # of the picture
PAGE = Path(__file__).resolve().parent / "web"


def spirals(seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Points [n, 2] in [-1, 1], and the arm [n] of each."""
    random = np.random.default_rng(seed)
    radius = np.tile(np.linspace(0.05, 0.95, POINTS), ARMS)
    arms = np.repeat(np.arange(ARMS), POINTS)
    angle = 5 * radius + 2 * np.pi / ARMS * arms + random.normal(0, 0.12, arms.size)
    points = radius[:, None] * np.stack([np.cos(angle), np.sin(angle)], axis=1)
    return points.astype(np.float32), arms


class Training:
    """The network, its optimizer and its data, on a device."""

    def __init__(self, device: str = "webgpu") -> None:
        cf.manual_seed(0)
        layers = [nn.Linear(2, 64), nn.Tanh(), nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, ARMS)]
        self.model = nn.Sequential(*layers).to(device)
        self.optimizer = cf.optim.Adam(self.model.parameters(), lr=5e-3)
        points, arms = spirals()
        self.points, self.arms = cf.tensor(points, device=device), cf.tensor(arms, device=device)
        steps = (np.arange(SIDE, dtype=np.float32) + 0.5) * (2 / SIDE) - 1
        grid = np.stack(np.meshgrid(steps, steps), axis=-1).reshape(-1, 2)
        self.grid = cf.tensor(grid, device=device)

    @cf.compile
    def step(self) -> dict[str, cf.Tensor]:
        """Train on all points, each moved a little at random."""
        self.optimizer.zero_grad()
        scores = self.model(self.points + 0.02 * cf.randn_like(self.points))
        loss = F.cross_entropy(scores, self.arms)
        loss.backward()
        self.optimizer.step()
        return {"loss": loss}

    @cf.compile
    def picture(self) -> dict[str, cf.Tensor]:
        """How likely the arms are at each point of a grid."""
        with cf.no_grad():
            return {"chances": self.model(self.grid).softmax(-1)}


def build(folder: Path) -> None:
    """Write the page and its bundle into a folder."""
    training = Training()
    training.step()  # recorded by this call; the page goes on with the second step
    training.picture()
    training.step.export_web(folder / "spirals", training.picture)
    for file in PAGE.iterdir():
        shutil.copy(file, folder)


def main() -> None:
    """Build the page, and serve it unless told otherwise."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--folder", type=Path, default=Path("build/web"))
    parser.add_argument("--port", type=int, default=8000)
    parser.add_argument("--no-serve", action="store_true")
    options = parser.parse_args()
    build(options.folder)
    files = sorted(path for path in options.folder.rglob("*") if path.is_file())
    for path in files:
        print(f"{path.stat().st_size:>9,} bytes  {path}")
    if options.no_serve:
        return
    handler = partial(SimpleHTTPRequestHandler, directory=options.folder)
    with ThreadingHTTPServer(("127.0.0.1", options.port), handler) as server:
        print(f"Open http://127.0.0.1:{server.server_port}/ in a browser with WebGPU; Ctrl-C ends.")
        try:
            server.serve_forever()
        except KeyboardInterrupt:
            print()


if __name__ == "__main__":
    main()
