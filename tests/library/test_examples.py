"""The demo and the benchmarks run, as a stranger would run them."""

from __future__ import annotations

import json
import math
import os
import re
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import matplotlib.pyplot as plt
import numpy as np
import pytest
from benchmarks import against, compare, figure, machine, models, report
from benchmarks import run as benchmarks_run
from benchmarks.channel import Child
from benchmarks.contender import ENTRIES
from benchmarks.targets import Target

import contraflow as cf

ROOT = Path(__file__).resolve().parents[2]
DISTRIBUTION = {"median", "q1", "q3", "samples"}


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
def demo_folder(tmp_path_factory):
    return tmp_path_factory.mktemp("demo")


@pytest.fixture(scope="module")
def shown(demo_folder):
    return run(demo_folder, str(ROOT / "examples" / "demo.py"), "--quick")


def test_demo_ends_with_pictures(shown, demo_folder):
    assert shown.splitlines()[-1] == "The pictures are in demo.png."
    assert plt.imread(demo_folder / "demo.png").shape[1] > 1000


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
    assert "compile(step): 1 program," in shown
    saved, overwrote = re.search(
        r"OverwrittenError: exp saved float32\[3\] at demo\.py:(\d+) for its backward, but add_ "
        r"overwrote it at demo\.py:(\d+)\.",
        shown,
    ).groups()
    assert f"  {saved} | y = x.exp()" in shown
    assert f"  {overwrote} | y.add_(1.0)" in shown


@pytest.mark.slow
def test_demo_on_webgpu_follows_the_losses_of_the_cpu(shown, tmp_path):
    if not cf.webgpu.is_available():
        pytest.skip("no WebGPU adapter; Mesa's is in the package mesa-vulkan-drivers")
    there = run(tmp_path, str(ROOT / "examples" / "demo.py"), "--quick", "--device", "webgpu")
    here, found = (
        [float(loss) for loss in re.findall(r"loss (\d+\.\d+)", text)] for text in (shown, there)
    )
    np.testing.assert_allclose(found, here, rtol=0, atol=5e-3)
    assert float(re.search(r"losses\s+(\S+) apart at most", there)[1]) < 1e-4
    assert (tmp_path / "demo.png").exists()


@pytest.mark.slow
def test_demo_in_full(tmp_path):
    shown = run(tmp_path, str(ROOT / "examples" / "demo.py"))
    losses = [float(found) for found in re.findall(r"loss (\d+\.\d+)", shown)]
    assert losses[-1] < 0.6


# A number that each example prints, and where it has to lie after a quick and after a whole run.
TUTORIALS = {
    "char_gpt": (r"(\d+) of \d+ sentences written follow the rules", (0, 99), (30, 99)),
    "diffusion": (r"(\d+\.\d)% of \d00 written digits are what was asked for", (5, 100), (90, 100)),
    "digits_cnn": (r"new digits read rightly \((\d+\.\d)%\)", (60, 100), (98, 100)),
    "dqn": (r"is a shortest one from (\d+) of 70 places", (1, 70), (65, 70)),
    "lora": (r"before, (\d+\.\d)% with 10\.3% of the parameters", (60, 100), (85, 100)),
    "packed_lstm": (r"(\d+\.\d)% of 1000 new waves told apart", (20, 100), (85, 100)),
    "physics": (r"(\d+\.\d\d)% away from the solution", (0, 60), (0, 2)),
    "reinforce": (r"moments at first and for (\d+) at last", (30, 300), (250, 300)),
}


@pytest.mark.parametrize("quick", [True, pytest.param(False, marks=pytest.mark.slow)])
@pytest.mark.parametrize("name", TUTORIALS)
def test_an_example_learns_and_draws(name, quick, tmp_path):
    said = run(tmp_path, str(ROOT / "examples" / f"{name}.py"), *["--quick"] * quick)
    pattern, after_few, after_all = TUTORIALS[name]
    least, most = after_few if quick else after_all
    assert least <= float(re.search(pattern, said)[1]) <= most
    assert said.splitlines()[-1].endswith(f"see {name}.png")
    width, height = plt.imread(tmp_path / f"{name}.png").shape[1::-1]
    assert width > 1000
    assert height > 400


def test_every_example_is_run():
    others = {"demo", "web"}
    assert {path.stem for path in (ROOT / "examples").glob("*.py")} == TUTORIALS.keys() | others


# --- benchmarks --------------------------------------------------------------------------------

OURS = ("contraflow compiled", "contraflow eager")


@pytest.fixture(scope="module")
def measured(tmp_path_factory):
    """What a run of two steps and two loops prints, its results, and the figure."""
    path = tmp_path_factory.mktemp("benchmarks") / "out" / "quick.json"
    printed = run(
        path.parent.parent, "-m", "benchmarks.run", "--quick", "--json", str(path),
        "--steps", "small", "chain", "generation", "episode", "--contenders", *OURS,
    )  # fmt: skip
    return printed, json.loads(path.read_text()), path.with_suffix(".svg").read_text()


def test_benchmarks_measure_steps(measured):
    printed, results, _ = measured
    assert results["absent"]["jax jit"] == "left out"
    assert list(results["steps"]) == ["small", "chain", *models.LOOPS]
    small, chain = results["steps"]["small"], results["steps"]["chain"]
    assert set(small["contenders"]) == set(OURS)
    assert set(chain["contenders"]) == {"contraflow eager"}
    assert all(set(results["steps"][name]["contenders"]) == set(OURS) for name in models.LOOPS)
    assert small["ratios"]["eager_over_compiled"]["median"] > 0
    for name, step in results["steps"].items():
        assert step["errors"] == {}
        assert f"{name}: {step['description']}" in printed
        for found in step["contenders"].values():
            assert set(found["seconds"]) == DISTRIBUTION
            assert found["values"][-1] != found["values"][0]
            assert found["cold_s"] > 0
    assert small["contenders"]["contraflow compiled"].keys() >= {"warm_s", "new_size_s", "peak_mb"}


@pytest.mark.parametrize("name", models.LOOPS)
def test_a_loop_does_the_same_eager_and_compiled(measured, name):
    found = measured[1]["steps"][name]["contenders"]
    values = [found[contender]["values"] for contender in OURS]
    np.testing.assert_allclose(*values, rtol=1e-5)
    assert len({tuple(turn) for turn in values[0]}) == compare.CHECKED_STEPS  # no two are alike
    assert "new_size_s" not in found["contraflow compiled"]


@pytest.mark.slow
def test_larger_benchmarks_do_the_same_in_every_way(tmp_path):
    path = tmp_path / "quick.json"
    run(
        tmp_path, "-m", "benchmarks.run", "--quick", "--json", str(path),
        "--steps", "resnet18", "gpt-bf16", "--contenders", *OURS, "contraflow modules",
    )  # fmt: skip
    steps = json.loads(path.read_text())["steps"]
    assert set(steps["resnet18"]["contenders"]) == {*OURS, "contraflow modules"}
    assert set(steps["gpt-bf16"]["contenders"]) == set(OURS)  # its modules would be in float32


def test_benchmarks_measure_the_rest(measured):
    printed, results, _ = measured
    for by_library in results["operations"].values():
        assert set(by_library) == {"contraflow"}
    assert set(results["imports"]) == {"numpy", "contraflow"}
    assert results["long_chain"]["seconds"] > 0
    assert "a quick run" in printed


def test_benchmarks_are_shown(measured):
    _, results, drawn = measured
    assert ElementTree.fromstring(drawn).tag == "{http://www.w3.org/2000/svg}svg"
    table = "\n".join(report.markdown(results))
    assert "| small: first call, cold |" in table
    assert all(f"\n| {name} |" in table for name in results["steps"])
    readme = f"a\n{report.BEGIN}\nold\n{report.END}\nb\n"
    assert report.insert(readme, table) == f"a\n{report.BEGIN}\n{table}\n{report.END}\nb\n"
    with pytest.raises(SystemExit, match=r"not published: .*a quick run"):
        benchmarks_run.publish(results)


def test_a_ratio_is_of_neighbours_in_time():
    # In the second half everybody is four times as slow, and ours took more samples there.
    ours, theirs = [[1.0]] * 4 + [[4.0] * 9] * 5, [[3.0] * 9] * 4 + [[12.0]] * 5
    found = compare.ratios({"contraflow compiled": ours, "jax jit": theirs})
    best = found["best_peer_over_compiled"]
    assert (best["median"], best["q1"], best["q3"], best["of"]) == (3.0, 3.0, 3.0, "jax jit")


def test_a_loss_is_a_median_above_the_quartiles_before():
    before = [[1.0, 1.1, 1.2]] * 4
    assert not against.judge(before, [[1.1, 1.15]] * 4)["slower"]
    assert not against.judge(before, [[0.5]] * 4)["slower"]
    lost = against.judge(before, [[1.1, 1.3, 1.3]] * 4)
    assert lost["slower"]
    # The ratio is of neighbours in time: a slow half falls on both.
    drifting = against.judge([[1.0]] * 4 + [[4.0]] * 5, [[2.0]] * 4 + [[8.0]] * 5)
    assert (drifting["ratio"]["q1"], drifting["ratio"]["q3"]) == (2.0, 2.0)
    comparison = {"before": "a", "rows": {"small, eager": lost}}
    shown = {"against": [comparison], "now": "b", "configuration": []}
    shown |= {"machine": machine.describe(), "others_share": 0.0, "quick": False, "errors": []}
    lines = list(against.text(shown))
    assert next(line for line in lines if line.endswith("SLOWER")).startswith("small, eager")
    assert "1 of 1 slower: the median now above the quartiles before" in lines[-1]


@pytest.mark.parametrize(("later", "verdict"), [(1.0, False), (1.5, True)])
def test_what_looks_slower_is_measured_again_and_longer(later, verdict):
    # A thing is measured again for all sides where it looks slower than on one.
    found = against.Comparison((), compare.FULL, quick=False)
    seen = []

    def measure(first: float, name: str) -> None:
        seen.append((name, found.patience))
        now = first if found.patience == 1 else later
        found.keep(name, {"a commit": [[1.0]] * 3, "slow": [[2.0]] * 3, "now": [[now]] * 3})

    found.attempt("a", lambda: measure(1.5, "a"))
    found.attempt("b", lambda: measure(0.9, "b"))
    assert seen == [("a", 1), ("a", against.AGAIN), ("b", 1)]
    for before, slower in (("a commit", verdict), ("slow", False)):
        rows = found.rows[before]
        assert (rows["a"]["slower"], rows["a"]["again"]) == (slower, True)
        assert "again" not in rows["b"]
    assert found.slower() == ["a"] * verdict


needs_git = pytest.mark.skipif(not (ROOT / ".git").exists(), reason="no repository here")


@needs_git
def test_against_a_commit_that_does_not_exist():
    with pytest.raises(SystemExit, match=r"--against: git log: fatal: .*nowhere"):
        against.run(["nowhere"], True, [], [], Path())


@needs_git
@pytest.mark.slow
def test_benchmarks_against_a_commit(tmp_path):
    path = tmp_path / "against.json"
    command = [sys.executable, "-m", "benchmarks.run", "--quick", "--against", "HEAD", "HEAD~1"]
    command += ["--json", str(path), "--steps", "small", "generation", "--contenders", *OURS]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=240)
    results = json.loads(path.read_text())
    assert results["errors"] == [], done.stderr
    both = [comparison["rows"] for comparison in results["against"]]
    rows = both[0]
    modes = {"small, compiled", "small, eager", "small, compiled: first call, cold"}
    modes |= {name.replace("small", "generation") for name in modes}
    assert rows.keys() >= modes | {"small, compiled: new size", "add two scalars", "import"}
    assert both[1].keys() == rows.keys()
    every = [row for rows in both for row in rows.values()]
    assert all(row.keys() == {"before", "now", "ratio", "slower"} for row in every)
    # Two runs of one commit may differ by noise: the status says what the table says.
    assert done.returncode == any(row["slower"] for row in every)
    assert len(re.findall(r"^before: [0-9a-f]{7,} ", done.stdout, re.MULTILINE)) == 2
    assert re.search(r"vectors of \d+ bytes", done.stdout)
    assert all(name in done.stdout for name in rows)


def test_the_figure_has_room_for_every_contender():
    found = {name: {"seconds": {"median": 1.0}} for name in ENTRIES}
    drawn = figure.draw({"steps": {"small": {"contenders": found}}})
    assert all(f">{name}<" in drawn for name in ENTRIES)


README_BLOCKS = re.findall(
    r"```python\n(.*?)```", (ROOT / "README.md").read_text(encoding="utf-8"), re.DOTALL
)


@pytest.mark.parametrize("number", range(len(README_BLOCKS)))
def test_readme_examples_run(number, tmp_path):
    program = tmp_path / "program.py"
    program.write_text(README_BLOCKS[number], encoding="utf-8")
    first = run(tmp_path, str(program))
    assert re.search(r"^\d+ \d+\.\d+$", first, re.MULTILINE)
    right = re.search(r"([\d.]+)% of the unseen digits are read|(\d+) of 179 right", first)
    assert float(right[1] or 0) > 85 or int(right[2] or 0) > 150
    if "cf.save" in README_BLOCKS[number]:  # it goes on from its file, where nothing is left to do
        again = run(tmp_path, str(program))
        assert again.splitlines()[-1] == first.splitlines()[-1]
        assert not re.search(r"^\d+ \d+\.\d+$", again, re.MULTILINE)


def test_readme_has_a_place_for_results():
    report.insert((ROOT / "README.md").read_text(encoding="utf-8"), "")


def serving(body):
    """A child whose handler `burst` has this body."""
    code = f"import os, time\nfrom benchmarks import channel\ndef burst(*_): {body}\n"
    return Child("other", "-c", code + "channel.serve({'burst': burst})")


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("os._exit(3)", "other: ended with status 3: it said nothing"),
        ("os.write(2, b'out of memory'); os._exit(1)", "other: ended with status 1: out of memory"),
        ("time.sleep(60)", "other: no answer to 'burst' within 2 s"),
        ("raise OSError('no disk')", "other: OSError: no disk"),
    ],
    ids=["dies", "complains", "hangs", "raises"],
)
def test_benchmarks_go_on_without_a_child_that_fails(body, message):
    timeout = 2 if "within 2 s" in message else 60
    settings = compare.Settings(rounds=2, burst_seconds=0, pause_seconds=0, burst_timeout=timeout)
    errors = {}
    with serving(body) as bad, serving("print('noise'); return [0.5, 0.25]") as good:
        children = {"other": bad, "good": good}
        good.ask("burst", timeout=60)  # it has to have started, to answer in time
        bursts = compare.alternate(children, settings, errors)
    assert bursts == {"good": [[0.5, 0.25]] * 2}
    assert errors == {"other": message}
    assert list(children) == ["good"]


def test_benchmarks_notice_who_computes_something_else():
    right = [[2.0], [1.5]]
    values = {
        "a": right,
        "b": [[2.0], [1.5001]],
        "idle": [[2.0], [2.0]],
        "nan": [[2.0], [math.nan]],
    }
    errors = compare.mismatches({k: v for k, v in values.items() if k != "nan"})
    assert errors == {"idle": "idle: step 1 gave [2.0], where most have [1.5001]"}
    assert "nan" in compare.mismatches(values)
    close = {"a": right, "b": [[2.0], [1.503]]}
    assert "b" in compare.mismatches({**close, "c": right})
    assert compare.mismatches({**close, "c": right}, models.STEPS["gpt-bf16"]().tolerance) == {}


def test_targets_say_by_how_much_they_are_missed():
    assert Target("t", 2.0, 1.2, 1.5).state == "met, and the aim"
    assert Target("t", 1.3, 1.2, 1.5).state == "met, not the aim"
    assert Target("t", 0.6, 1.2, 1.5).state == "missed by 2.00x"
    assert Target("t", 0.5, 0.25, at_least=False).state == "missed by 2.00x"
    assert Target("t", None, 1.2).state == "not measured"


@pytest.mark.peers
@pytest.mark.slow
def test_benchmarks_run_with_peers(tmp_path):
    pytest.importorskip("torch", reason="PyTorch is not installed")
    pytest.importorskip("jax", reason="JAX is not installed")
    path = tmp_path / "quick.json"
    run(
        tmp_path, "-m", "benchmarks.run", "--quick", "--json", str(path),
        "--steps", "small", "chain", *models.LOOPS, "--contenders", *OURS, "torch eager", "jax jit",
    )  # fmt: skip
    results = json.loads(path.read_text())
    assert results["steps"]["small"]["ratios"]["best_peer_over_compiled"]["median"] > 0
    for name in ("chain", *models.LOOPS):
        assert results["steps"][name]["ratios"]["torch_eager_over_eager"]["median"] > 0
    assert results["steps"]["small"]["contenders"]["jax jit"]["warm_s"] > 0
