"""The demo and the benchmarks run, as a stranger would run them."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
TIMING = {"median_us", "q1_us", "q3_us", "samples"}


def run(folder: Path, *arguments: str) -> str:
    """What a command prints, run in an empty folder; the kernel cache is the session's."""
    paths = os.pathsep.join([str(ROOT), str(ROOT / "src")])
    environment = {**os.environ, "PYTHONPATH": paths, "PYTHONIOENCODING": "utf-8"}
    done = subprocess.run(
        [sys.executable, "-W", "error", *arguments],
        cwd=folder, env=environment, capture_output=True, text=True, encoding="utf-8", timeout=240,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def shown(tmp_path_factory):
    return run(tmp_path_factory.mktemp("demo"), str(ROOT / "examples" / "demo.py"), "--quick")


def test_demo_learns(shown):
    losses = [float(found) for found in re.findall(r"loss (\d+\.\d+)", shown)]
    assert len(losses) == 10
    assert losses[-1] < losses[0] - 1
    samples = re.findall(r"^(before|after \d+ steps):$", shown, re.MULTILINE)
    assert samples == ["before", "after 20 steps", "after 160 steps"]
    assert "the" in shown.split("after 160 steps:")[1].split()


def test_demo_agrees_with_eager(shown):
    difference = re.search(r"losses\s+(\S+) apart at most", shown)
    assert difference
    assert float(difference[1]) < 1e-4


def test_demo_explains_and_fails_on_purpose(shown):
    assert "compile(step): 1 programs" in shown
    saved, overwrote = re.search(
        r"GradientError: exp saved float32\[3\] at demo\.py:(\d+) for its backward, but add_ "
        r"overwrote it at demo\.py:(\d+)\.",
        shown,
    ).groups()
    assert f"  {saved} | y = x.exp()" in shown
    assert f"  {overwrote} | y.add_(1.0)" in shown


@pytest.mark.slow
def test_demo_in_full(tmp_path):
    shown = run(tmp_path, str(ROOT / "examples" / "demo.py"))
    losses = [float(found) for found in re.findall(r"loss (\d+\.\d+)", shown)]
    assert losses[-1] < 0.6


def test_benchmarks_run(tmp_path):
    path = tmp_path / "out" / "quick.json"
    printed = run(tmp_path, "-m", "benchmarks.run", "--quick", "--no-peers", "--json", str(path))
    results = json.loads(path.read_text())
    assert set(results) == {"environment", "absent", "settings", "steps", "operations", "imports"}
    assert set(results["environment"]) == {
        "versions", "system", "cpu", "cpu_target", "cpu_features", "cores", "load_average",
        "threads", "thread_variables",
    }  # fmt: skip
    assert set(results["absent"]) == {"torch", "jax"}
    assert set(results["steps"]) == {"small", "mlp"}
    for name, step in results["steps"].items():
        assert set(step) == {"description", "ratios", "contenders", "first_call"}
        assert step["ratios"]["best_peer"] is None
        assert step["ratios"]["eager_over_compiled"] > 0
        assert set(step["contenders"]) == {"contraflow compiled", "contraflow eager"}
        for timing in step["contenders"].values():
            assert set(timing) == TIMING | {"losses"}
            assert timing["losses"][-1] != timing["losses"][0]
        assert set(step["first_call"]["contraflow compiled"]) == {"cold_s", "warm_s"}
        assert f"{name}: {step['description']}" in printed
    assert all(set(t) == TIMING for by in results["operations"].values() for t in by.values())
    assert {"numpy", "contraflow"} <= set(results["imports"])


@pytest.mark.peers
@pytest.mark.slow
def test_benchmarks_run_with_peers(tmp_path):
    pytest.importorskip("torch", reason="PyTorch is not installed")
    pytest.importorskip("jax", reason="JAX is not installed")
    path = tmp_path / "quick.json"
    run(tmp_path, "-m", "benchmarks.run", "--quick", "--json", str(path))
    results = json.loads(path.read_text())
    assert results["absent"] == {}
    for step in results["steps"].values():
        assert step["ratios"]["best_peer_over_compiled"] > 0
        assert "jax jit" in step["first_call"]
