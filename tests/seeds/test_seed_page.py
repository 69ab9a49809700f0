"""docs/seeds.md: its lines, its columns, and what `make seeds` leaves alone."""

from __future__ import annotations

from types import SimpleNamespace

from tests.helpers import seeds


def report(test: str, outcome: str, *properties: tuple[str, int]) -> SimpleNamespace:
    return SimpleNamespace(
        nodeid=f"tests/seeds/test_x.py::{test}", when="call", outcome=outcome,
        user_properties=list(properties),
    )  # fmt: skip


def test_the_page_has_a_cell_for_each_line_and_column():
    cells = seeds.read_page(seeds.PAGE.read_text())
    assert set(cells) == {(line, column) for line in seeds.LINES for column in seeds.COLUMNS}
    assert not [place for place, cell in cells.items() if cell == "fails"]


def test_columns_of_devices_that_were_not_tried_stay():
    before = {(3, "cuda, eager"): "works", (3, "cpu, eager"): "fails"}
    collected = seeds.Collect()
    for test, outcome in {
        "test_line_03_broadcast[cpu-eager-pow]": "passed",
        "test_line_03_broadcast[pow-cpu-compiled]": "failed",
        "test_line_03_broadcast[cuda-eager-pow]": "skipped",
    }.items():
        collected.pytest_runtest_logreport(report(test, outcome))
    cells = seeds.read_page(seeds.page(collected, before))
    assert cells[3, "cpu, eager"] == cells[3, "cuda, eager"] == "works"
    assert cells[3, "cpu, compiled"] == "fails"
    assert cells[3, "webgpu, eager"] == "not yet"
    assert cells[4, "cpu, eager"] == ""


def test_a_line_that_was_tried_at_a_smaller_size_says_so():
    collected = seeds.Collect()
    for mode, size in (("eager", 4_000), ("eager", 1_000_000), ("compiled", 64_000)):
        test = f"test_line_02_a_chain[cpu-{mode}-{size}]"
        collected.pytest_runtest_logreport(report(test, "passed", ("size", size)))
    assert collected.cell(2, "cpu, eager") == "works"
    assert collected.cell(2, "cpu, compiled") == "works for 64,000"


def test_devices_can_be_chosen():
    names = ["test_line_01_x[cpu-eager]", "test_line_01_x[walled-eager]", "test_page"]
    items = [SimpleNamespace(nodeid=name) for name in names]
    gone: list[str] = []
    hook = SimpleNamespace(
        pytest_deselected=lambda items: gone.extend(item.nodeid for item in items)
    )
    collected = seeds.Collect(["walled"])
    collected.pytest_collection_modifyitems(SimpleNamespace(hook=hook), items)
    assert [item.nodeid for item in items] == [names[1]]
    assert gone == [names[0], names[2]]
