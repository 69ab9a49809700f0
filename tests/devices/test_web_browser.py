"""Bundles in headless Chromium and under Node, by the same module: losses are those of Python."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

import numpy as np
import pytest
from tests.helpers import browser, dawn

ROOT = Path(__file__).resolve().parents[2]
STEPS = 30
# The step of a bundle whose losses were recorded; then what a user may do wrong.
SCRIPT = """
  const losses = [];
  for (let i = 0; i < %d; i++) {
    await step.run();
    losses.push(await step.item("loss"));
  }
  await picture.run();
  const { data, shape } = await picture.read("chances");
  const problems = [];
  for (const wrong of [
    () => step.run({ nothing: 1 }),
    () => step.read("nothing"),
    () => step.write("points", [1, 2, 3]),
    () => step.write("arms", new Array(360).fill(0.5)),
    () => step.write("optimizer.lr", "fast"),
    () => { step.write("arms", new Array(360).fill(7)); return step.run(); },
  ]) {
    try { await wrong(); problems.push("none"); } catch (error) { problems.push(error.message); }
  }
  return { losses, shape, total: data.reduce((a, b) => a + b), lr: await step.read("optimizer.lr"),
           count: await step.read("optimizer.step"), names: [step.inputs, step.results], problems };
"""


@pytest.fixture(scope="module")
def example():
    spec = importlib.util.spec_from_file_location("web_example", ROOT / "examples" / "web.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def losses(example, webgpu):
    """Those of Python, by device."""
    found = {}
    for device in ("cpu", "webgpu"):
        training = example.Training(device)
        found[device] = [training.step()["loss"].item() for _ in range(STEPS + 1)]
    return found


@pytest.fixture(scope="module")
def folder(example, webgpu, tmp_path_factory):
    made = tmp_path_factory.mktemp("web")
    example.build(made)
    return made


def check(found, losses):
    for device in ("cpu", "webgpu"):
        np.testing.assert_allclose(found["losses"], losses[device][1:], rtol=2e-4)
    assert found["shape"] == [96 * 96, 3]
    assert found["total"] == pytest.approx(96 * 96, rel=1e-4)
    assert found["lr"] == 5e-3
    assert found["count"] == STEPS + 1
    assert found["names"] == [[], ["loss"]]
    unknown, unread, shape, dtype, number, index = found["problems"]
    assert unknown.startswith("contraflow: step takes no nothing. It takes nothing; its state is ")
    assert unread.startswith("contraflow: step has no nothing. It has loss, ")
    assert shape == "contraflow: points has shape [360,2], 720 elements, and was given 3."
    assert dtype == "contraflow: arms is int64, of 32 bits here, and 0.5 does not fit."
    assert number == "contraflow: optimizer.lr is a number, float, and was given fast."
    assert index.startswith("cross_entropy: ")
    assert "web.py:" in index


@pytest.mark.slow
def test_in_chromium(folder, losses):
    if browser.path() is None:
        pytest.skip("there is no Chromium: apt-get install chromium")
    with browser.served(folder) as address:
        page = browser.Page(f"{address}/spirals/plan.json")
        try:
            found = page.evaluate(
                "(async () => { const { load } = await import('/spirals/contraflow.js');"
                f"const {{ step, picture }} = await load('/spirals'); {SCRIPT % STEPS} }})()"
            )
        finally:
            page.close()
    check(found, losses)


@pytest.mark.slow
def test_the_page_trains(folder, losses):
    if browser.path() is None:
        pytest.skip("there is no Chromium: apt-get install chromium")
    waits = "new Promise(r => setInterval(() => document.body.dataset.done && r(losses), 50))"
    with browser.served(folder) as address:
        page = browser.Page(f"{address}/?steps={STEPS}")
        try:
            found = page.evaluate(waits)
            assert page.evaluate("document.body.dataset.done") == "yes"
            assert len(page.screenshot()) > 10_000
        finally:
            page.close()
    np.testing.assert_allclose(found, losses["cpu"][1:], rtol=2e-4)


@pytest.mark.slow
def test_under_node(folder, losses):
    if dawn.missing("vulkan"):
        pytest.skip(dawn.missing("vulkan"))
    script = (
        "const { load } = await import(pathToFileURL(`${folder}/contraflow.js`));"
        "const { step, picture } = await load(bundle(folder), { gpu });"
    )
    check(dawn.run(script + SCRIPT % STEPS, folder / "spirals", "vulkan"), losses)
