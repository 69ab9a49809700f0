"""Checks and times the webgpu device on any adapter, in turns with PyTorch on CUDA.

    python -m benchmarks.webgpu [--quick] [--json FILE]
    python -m benchmarks.webgpu --table FILE
    python -m benchmarks.webgpu --first-call STEP

Products, sums and copies by their rates, whole training steps with the loss read, and what a call
costs the host. Values are compared with the cpu's before anything is timed. Where PyTorch sees a
CUDA device it does the same work, in the same rounds: steps eager, and at their best, captured by
hand as a CUDA graph. First calls are made in processes of their own, in which the driver has no
shader in its cache; opening the device there is a row of its own.

On a server without a display the driver of NVIDIA is found by a manifest of its own
(docs/webgpu.md); one is written here if no other is set and the driver's library is there.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from datetime import date
from pathlib import Path
from time import perf_counter, thread_time
from typing import Any

import numpy as np

import contraflow as cf
from benchmarks import cuda, models, with_contraflow
from benchmarks.timing import quartiles
from contraflow import devices
from contraflow.render.clike import wgsl
from contraflow.runtime import eager_programs

try:
    import torch
except ImportError:
    torch = None

STEPS = ("small", "mlp", "gpt")


def find_driver() -> None:
    """Point the loader of Vulkan to NVIDIA's driver where that needs no display."""
    if "VK_DRIVER_FILES" in os.environ or "VK_ICD_FILENAMES" in os.environ:
        return
    try:
        ctypes.CDLL("libEGL_nvidia.so.0")
    except OSError:
        return
    driver = {"library_path": "libEGL_nvidia.so.0", "api_version": "1.3.0"}
    path = Path(tempfile.mkdtemp()) / "nvidia_egl.json"
    path.write_text(json.dumps({"file_format_version": "1.0.0", "ICD": driver}))
    os.environ["VK_DRIVER_FILES"] = str(path)


class Bench:
    """The rows that were measured."""

    def __init__(self, quick: bool) -> None:
        self.rounds, self.quick = 3 if quick else 15, quick
        self.device: Any = devices.lookup("webgpu")
        self.cuda = torch is not None and torch.cuda.is_available()
        self.rows: list[dict[str, Any]] = []

    def alternate(
        self, name: str, unit: str, scale: float, ours: Callable[[], Any],
        theirs: Callable[[], Any] | None, repeats: int,
    ) -> None:  # fmt: skip
        """Time two functions in turns; `scale` turns a duration into what the row shows."""

        def once(function: Callable[[], Any], wait: Callable[[], Any]) -> float:
            wait()
            start = perf_counter()
            for _ in range(repeats):
                function()
            wait()
            return (perf_counter() - start) / repeats

        sides = {"webgpu": (ours, self.device.synchronize)}
        if self.cuda and theirs is not None:
            sides["torch cuda"] = (theirs, torch.cuda.synchronize)
        times: dict[str, list[float]] = {side: [] for side in sides}
        for function, wait in sides.values():
            once(function, wait)
        for _ in range(self.rounds):
            for side, (function, wait) in sides.items():
                times[side].append(once(function, wait))
        shown = {
            side: quartiles([scale / t if scale > 0 else t * -scale for t in found])
            for side, found in times.items()
        }
        ratio = None
        if len(times) == 2:
            pairs = zip(times["torch cuda"], times["webgpu"])
            ratio = quartiles([theirs / ours for theirs, ours in pairs])
        self.show({"name": name, "unit": unit, **shown, "speed beside torch": ratio})

    def show(self, row: dict[str, Any]) -> None:
        """Print a row, and keep it."""
        self.rows.append(row)
        parts = []
        for key, found in row.items():
            if isinstance(found, dict):
                parts.append(f"{key} {found['median']:.4g} ({found['q1']:.4g}-{found['q3']:.4g})")
            elif isinstance(found, float):
                parts.append(f"{key} {found:.4g}")
        print(f"{row['name']} [{row.get('unit', '')}]: {', '.join(parts)}", flush=True)

    # --- what is measured -----------------------------------------------------------------

    def products(self) -> None:
        """Matrices of float32."""
        sizes = (256,) if self.quick else (1024, 2048, 4096)
        for n in sizes:
            rng = np.random.default_rng(n)
            arrays = [rng.standard_normal((n, n)).astype(np.float32) for _ in range(2)]
            a, b = (cf.tensor(x, device="webgpu") for x in arrays)
            rows = slice(0, 8)
            wanted = arrays[0][rows].astype(np.float64) @ arrays[1].astype(np.float64)
            error = np.abs((a @ b).numpy(force=True)[rows] - wanted).max()
            assert error < 1e-4 * n**0.5, f"matmul {n}: error {error}"
            there = [torch.tensor(x, device="cuda") for x in arrays] if self.cuda else None
            theirs = None if there is None else (lambda there=there: there[0] @ there[1])
            name = f"matmul {n}^3 float32"
            self.alternate(
                name, "TFLOP/s", 2e-12 * n**3, lambda a=a, b=b: a @ b, theirs, max(1, 4096 // n)
            )
        bias = np.linspace(-1, 1, n, dtype=np.float32)
        self.with_epilogue(arrays[0], arrays[1], bias)

    def with_epilogue(self, *arrays: np.ndarray) -> None:
        """A product with a bias and an activation, compiled."""
        n = len(arrays[2])
        dense = cf.compile(lambda x, w, b: cf.nn.functional.gelu(x @ w + b))
        ours = [cf.tensor(x, device="webgpu") for x in arrays]
        rows = slice(0, 8)
        wanted = dense(*(cf.tensor(x) for x in (arrays[0][rows], *arrays[1:]))).numpy()
        found = dense(*ours).numpy(force=True)[rows]
        np.testing.assert_allclose(found, wanted, atol=1e-4 * n**0.5)
        x, w, b = (torch.tensor(x, device="cuda") if self.cuda else None for x in arrays)
        self.alternate(
            f"gelu(x @ w + b), {n}^3 float32, compiled", "TFLOP/s", 2e-12 * n**3,
            lambda: dense(*ours), lambda: torch.nn.functional.gelu(torch.addmm(b, x, w)), 2,
        )  # fmt: skip

    def bandwidth(self) -> None:
        """Sums, elementwise and along everything."""
        n = 1 << 16 if self.quick else 1 << 26
        x = np.random.default_rng(1).standard_normal(n).astype(np.float32)
        a, b = cf.tensor(x, device="webgpu"), cf.tensor(x[::-1].copy(), device="webgpu")
        np.testing.assert_allclose((a + b).numpy(force=True), x + x[::-1], rtol=1e-6, atol=1e-6)
        np.testing.assert_allclose(a.square().sum().item(), np.square(x, dtype=float).sum(), 1e-5)
        p = q = None
        if self.cuda:
            p, q = (torch.tensor(y, device="cuda") for y in (x, x[::-1].copy()))
        self.alternate("x + y", "GB/s", 12e-9 * n, lambda: a + b, lambda: p + q, 8)
        self.alternate("copy", "GB/s", 8e-9 * n, lambda: a.clone(), lambda: p.clone(), 8)
        self.alternate("sum", "GB/s", 4e-9 * n, lambda: a.sum(), lambda: p.sum(), 32)
        rows = 64 if self.quick else 8192
        c = a[: rows * 1024].reshape(rows, 1024)
        r = p[: rows * 1024].reshape(rows, 1024) if self.cuda else None
        self.alternate(
            "softmax of rows of 1024", "GB/s", 8e-9 * rows * 1024,
            lambda: c.softmax(1), lambda: r.softmax(1), 64,
        )  # fmt: skip

    def bodies(self) -> None:
        """The bodies of large calls beside the ordinary ones: whether they pay on this adapter."""
        n, side = (1 << 20, 512) if self.quick else (1 << 26, 4096)
        x, y = (cf.ones(n, device="webgpu") for _ in range(2))
        a, b = (cf.ones(side, side, device="webgpu") for _ in range(2))
        short = x.reshape(-1, 1024)[:8192]
        for name, threshold, function, scale, repeats in (
            ("x + y", "WIDE_MAP_GROUPS", lambda: x + y, 12e-9 * n, 8),
            (f"matmul {side}^3", "BUSY_GROUPS", lambda: a @ b, 2e-12 * side**3, 2),
            (
                "softmax of rows of 1024",
                "ROW_GROUPS",
                lambda: short.softmax(1),
                8e-9 * short.numel(),
                64,
            ),
        ):
            kept = getattr(wgsl, threshold)
            found: dict[str, list[float]] = {"for large calls": [], "for small ones": []}
            for _ in range(self.rounds + 1):
                for way, least in zip(found, (0, 1 << 60)):
                    setattr(wgsl, threshold, least)
                    eager_programs.forget()
                    function()
                    self.device.synchronize()
                    start = perf_counter()
                    for _ in range(repeats):
                        function()
                    self.device.synchronize()
                    found[way].append(scale * repeats / (perf_counter() - start))
            setattr(wgsl, threshold, kept)
            rates = {way: quartiles(rows[1:]) for way, rows in found.items()}
            self.show({"name": f"{name}, bodies", "unit": "GB/s or TFLOP/s", **rates})

    def steps(self) -> None:
        """Whole training steps, with the loss read."""
        for name in STEPS[:1] if self.quick else STEPS:
            step = models.STEPS[name]()
            found = {}
            for place in ("cpu", "webgpu"):
                cf.set_default_device(place)
                contender = with_contraflow.make(step, "compiled")
                found[place] = contender, [contender.values(i) for i in range(6)]
            cf.set_default_device(None)
            np.testing.assert_allclose(found["webgpu"][1], found["cpu"][1], rtol=2e-3)
            opening, first = cold_call(name)
            if name == STEPS[0]:
                self.show({"name": "opening the device", "unit": "s", "webgpu": opening})
            self.show({"name": f"{name}, first call", "unit": "s", "webgpu": first})
            ours, numbers = found["webgpu"][0], iter(range(10**9))
            for mode in ("eager", "captured") if self.cuda else ("",):
                self.alternate(
                    f"{name}, compiled; torch {mode}", "ms", -1e3,
                    lambda ours=ours, numbers=numbers: ours.turn(next(numbers)),
                    torch_step(step, mode, numbers) if mode else None, 20,
                )  # fmt: skip

    def count_dispatches(self, function: Callable[[], Any]) -> int:
        """How many kernels a function runs."""
        counted: list[int] = []
        enqueue = self.device.enqueue

        def noted(items: Any, *rest: Any) -> None:
            counted.append(len(items))
            enqueue(items, *rest)

        self.device.enqueue = noted
        try:
            function()
        finally:
            del self.device.enqueue
        return sum(counted)

    def host(self) -> None:
        """Processor time of calls."""
        x, y = (cf.randn(64, 64, device="webgpu") for _ in range(2))

        @cf.compile
        def chain(z: cf.Tensor) -> cf.Tensor:
            for _ in range(64):
                z = (z + y).sum(1, keepdim=True) * y
            return z

        chain(x)
        kernels = self.count_dispatches(lambda: chain(x))
        for name, function, count in (
            ("eager x + y", lambda: x + y, 1),
            ("eager x * 2", lambda: x * 2.0, 1),
            ("replay, per dispatch", lambda: chain(x), kernels),
        ):
            times = []
            for _ in range(self.rounds):
                self.device.synchronize()
                start = thread_time()
                for _ in range(200 // count + 1):
                    function()
                times.append((thread_time() - start) / (200 // count + 1) / count * 1e6)
            self.show({"name": name, "unit": "us of host time", "webgpu": quartiles(times)})
        scalar = cf.ones((), device="webgpu")
        p = torch.ones((), device="cuda") if self.cuda else None
        self.alternate("read 4 bytes", "us", -1e6, lambda: scalar.item(), lambda: p.item(), 100)


def torch_step(step: models.Step, mode: str, numbers: Iterator[int]) -> Callable[[], Any]:
    """A function that runs the next step in PyTorch on CUDA, and reads the loss."""
    contender = cuda.torchs(step, mode)
    contender.begin(6)
    return lambda: contender.read(contender.run(next(numbers)))


def cold_call(name: str) -> tuple[float, float]:
    """`first_call` of a step in a process of its own, where no shader is cached."""
    with tempfile.TemporaryDirectory() as empty:
        folders = {"HOME": empty, "XDG_CACHE_HOME": empty}
        caches = {"__GL_SHADER_DISK_CACHE": "0", "MESA_SHADER_CACHE_DISABLE": "true"}
        found = subprocess.run(
            [sys.executable, "-m", "benchmarks.webgpu", "--first-call", name],
            env={**os.environ, **folders, **caches}, stdout=subprocess.PIPE, text=True, check=True,
        )  # fmt: skip
    opening, first = map(float, found.stdout.split()[-2:])
    return opening, first


def first_call(name: str) -> tuple[float, float]:
    """Seconds that it takes to open the device, and then to the first loss of a step."""
    step = models.STEPS[name]()
    start = perf_counter()
    devices.lookup("webgpu")
    opened = perf_counter()
    cf.set_default_device("webgpu")
    with_contraflow.make(step, "compiled").values(0)
    return opened - start, perf_counter() - opened


def table(rows: list[dict[str, Any]]) -> str:
    """What was measured, as a table of Markdown."""

    def rounded(x: float) -> str:
        return f"{x:.0f}" if x >= 100 else f"{x:.3g}"

    def shown(found: Any) -> str:
        if not isinstance(found, dict):
            return "" if found is None else rounded(found)
        return f"{rounded(found['median'])} ({rounded(found['q1'])}-{rounded(found['q3'])})"

    lines = ["| | webgpu | PyTorch, CUDA | speed beside PyTorch |", "| --- | --- | --- | --- |"]
    for row in rows:
        if "webgpu" in row:
            cells = (row["webgpu"], row.get("torch cuda"), row.get("speed beside torch"))
            lines.append(f"| {row['name']}, {row['unit']} | {' | '.join(map(shown, cells))} |")
    return "\n".join(lines)


def main() -> None:
    """Measure everything, or show what was measured."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="small sizes, for software adapters")
    parser.add_argument("--json", type=Path, help="where the figures are written")
    parser.add_argument("--table", type=Path, help="show figures that were written before")
    parser.add_argument("--first-call", metavar="STEP", help="seconds of one, and nothing else")
    given = parser.parse_args()
    if given.table:
        print(table(json.loads(given.table.read_text())["rows"]))
        return
    find_driver()
    if given.first_call:
        print(*first_call(given.first_call))
        return
    if torch is not None:
        torch.backends.cuda.matmul.allow_tf32 = False
    bench = Bench(given.quick)
    print(f"adapter: {bench.device.description}; calls: {type(bench.device.calls).__name__}")
    if bench.cuda:
        print(f"PyTorch {torch.__version__} on {torch.cuda.get_device_name()}")
    bench.host()
    bench.products()
    bench.bandwidth()
    bench.bodies()
    bench.steps()
    if given.json:
        found = {
            "adapter": bench.device.description,
            "driver": bench.device.adapter.info["description"],
            "torch": torch.__version__ if bench.cuda else None,
            "rounds": bench.rounds,
            "date": date.today().isoformat(),
            "rows": bench.rows,
        }
        given.json.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
