"""The engine of the papers' tables: cells are named by what they are, computed once, and survive a killed run."""

import json
import math
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from benchmarks.tables.costs import costs
from benchmarks.tables.queue import plan, run_cells, work
from benchmarks.tables.report import chosen_pair, mean_interval, measure, summarise, to_differences, write_report
from benchmarks.tables.specs import CONFIGS, Cell, read_table
from benchmarks.tables.store import ANSWERS, DEV, TEST, Answers, Store, read_answers, write_answers

ROOT = Path(__file__).resolve().parents[2]

TINY = """
title: a toy
paper: nothing
caption: blobs of colour
data: {name: tiny, train: 48, test: 40, dev: 20, seed: 0}
seeds: [1, 2, 3]
recipe: tiny
cells:
  old: {train: none, model: tiny}
  few: {train: none, model: tiny, part: half_classes}
  none: {train: none, model: tiny, seed: 3}
  fd: {train: fd-lm, model: tiny, seed: 3, old: old}
  tuned: {train: none, start: few, seed: 3, keep_head: true}
  elodi: {train: elodi, model: tiny, seed: 9, members: {mean: old, of: 3, take: 2, first: 1}}
  mean: {mean: old, of: 3, take: 2, first: 1}
  merged: {merge: linear, old: few, new: tuned, alpha: contract}
  linear: {merge: linear, old: few, new: tuned, alpha: [0.2, 0.6]}
rows:
  - {name: none, old: old, new: none}
  - {name: fd, old: old, new: fd}
  - {name: elodi, old: mean, new: elodi}
  - {name: tuned, old: few, new: tuned}
  - {name: merged, old: few, new: merged}
  - {name: swept, old: few, new: tuned, sweep: linear}
  - {name: one alpha, old: few, new: linear@0.6, seeds: [1, 2]}
"""


@pytest.fixture
def store(tmp_path):
    return Store(tmp_path / "work", tmp_path / "results")


def tiny_table(folder, text=TINY, quick=False):
    path = folder / "T0.yaml"
    path.write_text(text)
    return read_table(path, quick)


def answers(right, labels=None, classes=2, seconds=1.0):
    """Answers that are right where `right` says so, among two classes."""
    right = np.array(right, dtype=bool)
    labels = np.zeros(len(right), dtype=int) if labels is None else np.array(labels)
    return Answers(np.arange(len(right)), labels, np.where(right, labels, 1 - labels), np.arange(classes), seconds)


def pretend(cell, store):
    """A cell without any training; it counts how often it was asked for."""
    with store.unfinished(cell.id) as folder:
        write_answers(folder / ANSWERS, {(cell.id, TEST): answers([True, False])})
    with (store.work / "asked.txt").open("a") as file:
        file.write(cell.id + "\n")


# ---- specs


def test_the_same_spec_is_the_same_cell():
    one = Cell.of("a", {"seed": 1, "data": {"name": "tiny", "train": 4}})
    two = Cell.of("a", {"data": {"train": 4, "name": "tiny"}, "seed": 1})
    assert one.id == two.id
    assert one.id != Cell.of("a", {"seed": 2, "data": {"name": "tiny", "train": 4}}).id


def test_tables_share_cells_and_pools_share_no_run():
    first, second = (read_table(CONFIGS / f"{name}.yaml") for name in ("T1", "T2"))
    assert {line.pairs[1][0] for line in first.lines} & {line.pairs[1][0] for line in second.lines}
    ensembles = next(line for line in first.lines if line.name.startswith("ensembles"))
    for old, new in ensembles.pairs.values():
        assert not set(first.cells[old].needs) & set(first.cells[new].needs)


@pytest.mark.parametrize(
    "path", sorted(path for path in CONFIGS.glob("*.yaml") if path.stem != "recipes"), ids=lambda path: path.stem
)
def test_every_committed_table_is_complete(path):
    table = read_table(path)
    assert len(table.seeds) >= 3
    assert table.lines
    assert all(set(line.pairs) == set(table.seeds) for line in table.lines if path.stem != "massive")
    order = table.closure(cell for line in table.lines for cell in line.cells())
    assert set(order) == set(table.cells), "a cell that no row needs"
    place = {cell: number for number, cell in enumerate(order)}
    assert all(place[need] < place[cell] for cell in order for need in table.cells[cell].needs)
    assert len(read_table(path, quick=True).cells) < len(table.cells)


def test_everything_wrong_with_a_file_is_said_at_once(tmp_path):
    wrong = TINY.replace("train: fd-lm", "train: fd-xx").replace("seed: 9", "sead: 9").replace("first: 1}}", "}}")
    wrong = wrong.replace("{name: fd, old: old", "{name: fd, against: nothing, old: nobody")
    with pytest.raises(ValueError, match="no row 'nothing' to compare it with") as caught:
        tiny_table(tmp_path, wrong)
    assert "'nobody'" in str(caught.value)
    wrong = wrong.replace("against: nothing, old: nobody", "old: old")
    with pytest.raises(ValueError, match="fd-xx") as caught:
        tiny_table(tmp_path, wrong)
    assert all(word in str(caught.value) for word in ("'sead'", "no 'first'", "expected one of none, naive"))


def test_margins_independent_model_may_be_an_ensemble():
    table = read_table(CONFIGS / "T30.yaml")
    taught = next(line for line in table.lines if "four independent models" in line.name)
    margin = table.cells[taught.pairs[1][1]]
    assert len(margin.spec["independent"]) == 4
    assert set(margin.spec["independent"]) < set(margin.needs)
    assert {table.cells[cell].spec["method"] for cell in margin.spec["independent"]} == {"none"}


def test_a_bad_ensemble_as_independent_model_is_refused(tmp_path):
    text = (CONFIGS / "T30.yaml").read_text(encoding="utf-8").replace("of: 6, take: 4, first: 1", "of: 6, take: 1")
    with pytest.raises(ValueError, match="independent: no 'first'"):
        tiny_table(tmp_path, text)


def test_cells_that_depend_on_themselves_are_refused(tmp_path):
    wrong = TINY.replace("old: {train: none, model: tiny}", "old: {train: fd-lm, model: tiny, old: fd}")
    with pytest.raises(ValueError, match="depend on themselves: old -> fd -> old"):
        tiny_table(tmp_path, wrong)


def test_a_sweep_is_named_by_alpha_and_a_row_may_leave_out_seeds(tmp_path):
    table = tiny_table(tmp_path)
    swept, single = table.lines[-2:]
    assert [sorted(cells) for cells in swept.sweeps.values()] == [[0.2, 0.6]] * 3
    assert list(single.pairs) == [1, 2]
    assert single.pairs[1][1] == swept.sweeps[1][0.6], "the same merge is the same cell"
    assert {table.cells[cell].spec["alpha"] for cell in swept.sweeps[1].values()} == {0.2, 0.6}
    with pytest.raises(ValueError, match="'merged' is no sweep"):
        tiny_table(tmp_path, TINY.replace("sweep: linear", "sweep: merged"))
    with pytest.raises(ValueError, match=r"there is no cell 'linear@0\.7'"):
        tiny_table(tmp_path, TINY.replace("linear@0.6", "linear@0.7"))


# ---- the queue


def test_a_finished_cell_is_not_computed_again(tmp_path, store):
    table = tiny_table(tmp_path)
    for cell in plan(table, store):
        assert work("T0", table.cells[cell], store, pretend) == "done"
    asked = (store.work / "asked.txt").read_text().split()
    assert sorted(asked) == sorted(table.cells)
    assert plan(table, store) == []
    # an answer that is gone is copied from its weights; weights that are gone are made when somebody needs them
    old, fd = table.lines[1].pairs[1]
    path = store.results / "T0.parquet"
    write_answers(path, {key: kept for key, kept in read_answers(path).items() if key[0] != fd})
    assert plan(table, store) == [fd]
    for cell in (old, fd):
        (store.folder(cell) / ANSWERS).unlink()
        store.folder(cell).rmdir()
    assert plan(table, store) == [old, fd]


def test_a_failed_cell_is_reported_and_leaves_nothing_behind(tmp_path, store):
    def fail(cell, store):
        with store.unfinished(cell.id) as folder:
            (folder / "half").write_text("written")
            raise RuntimeError("no luck")

    cell = next(iter(tiny_table(tmp_path).cells.values()))
    assert work("T0", cell, store, fail).startswith("RuntimeError: no luck")
    assert not store.has_weights(cell.id)
    assert not list(store.work.glob("*partial"))
    assert work("T0", cell, store, pretend) == "done"


def test_a_killed_run_holds_a_lock_while_it_lives_and_goes_on_after(tmp_path, store):
    cell = next(iter(tiny_table(tmp_path).cells.values()))
    script = (
        f"import sys, time; sys.path.insert(0, {str(ROOT)!r}); from pathlib import Path\n"
        "from benchmarks.tables.store import Store\n"
        f"store = Store(Path({str(store.work)!r}), Path({str(store.results)!r}))\n"
        f"with store.lock({cell.id!r}) as mine, store.unfinished({cell.id!r}):\n"
        "    print(mine, flush=True); time.sleep(60)\n"
    )
    other = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True)
    try:
        assert other.stdout.readline().strip() == "True"
        assert work("T0", cell, store, pretend) == "busy"
        store.sweep()
        assert list(store.work.glob(".*.partial")), "what a living process works on stays"
    finally:
        other.kill()
        other.wait()
        other.stdout.close()
    store.sweep()
    assert not list(store.work.glob(".*.partial"))
    assert work("T0", cell, store, pretend) == "done"


# ---- the report


def test_means_and_intervals_by_hand():
    mean, half = mean_interval([1.0, 2.0, 3.0])
    assert mean == 2.0
    assert half == pytest.approx(4.302653 / math.sqrt(3), rel=1e-6)  # t(0.975, 2) and a deviation of 1
    assert math.isnan(mean_interval([5.0])[1])


def test_the_numbers_of_an_update_by_hand():
    old, new = answers([1, 1, 1, 0, 0]), answers([1, 0, 1, 1, 0])
    numbers = measure(old, new)
    assert numbers["old_error"] == pytest.approx(0.4)
    assert numbers["new_error"] == pytest.approx(0.4)
    assert numbers["nfr"] == pytest.approx(0.2)
    assert numbers["relative_nfr"] == pytest.approx(0.2 / (0.6 * 0.4))


def test_flips_are_counted_on_the_classes_of_the_old_model():
    labels = [0, 0, 1, 1]
    numbers = measure(answers([1, 1, 0, 0], labels, classes=1), answers([1, 0, 1, 0], labels))
    assert (numbers["rows"], numbers["nfr"], numbers["new_error_all"]) == (2.0, 0.5, 0.5)
    assert numbers["nfr_to_added"] == 0.5  # the wrong answer is the class that the old model does not know


def test_different_rows_are_refused():
    with pytest.raises(ValueError, match="different rows"):
        measure(answers([1, 1], [0, 0]), answers([1, 1], [0, 1]))


def test_a_report_counts_the_seeds_that_are_there(tmp_path, store):
    table = tiny_table(tmp_path)
    store.results.mkdir()
    line = table.lines[0]
    for seed, right in ((1, [1, 0, 1, 1]), (2, [0, 0, 1, 1])):
        old, new = line.pairs[seed]
        store.keep("T0", {(old, TEST): answers([1, 1, 1, 0], seconds=10.0)})
        store.keep("T0", {(new, TEST): answers(right, seconds=20.0)})
    entry = summarise(table, store)[0]
    assert entry["seeds"] == [1, 2]
    assert entry["nfr"] == pytest.approx((0.375, 12.706205 * 0.125), rel=1e-5)
    assert entry["seconds"][0] == 30.0
    assert "| none | 2 of 3 |" in write_report(table, store)
    written = json.loads((store.results / "T0.json").read_text())
    assert written["total_seconds"] == 60.0
    assert written["rows"][0]["per_seed"]["2"]["nfr"] == 0.5


def test_differences_are_taken_seed_by_seed(tmp_path, store):
    table = tiny_table(tmp_path)
    store.results.mkdir()
    for seed, (none, fd) in {1: ([0, 0, 1, 1], [1, 0, 1, 1]), 2: ([0, 1, 1, 1], [1, 1, 1, 1])}.items():
        for line, right in zip(table.lines, (none, fd), strict=False):
            old, new = line.pairs[seed]
            store.keep("T0", {(old, TEST): answers([1, 1, 1, 1])})
            store.keep("T0", {(new, TEST): answers(right)})
    entries = summarise(table, store)
    assert entries[0]["nfr"][1] > 0.1, "the rows differ from seed to seed"
    lines = to_differences(entries, "none").splitlines()
    assert "| fd | -25.00 ± 0.00 | -25.00 ± 0.00 |" in lines, "their difference does not"
    assert "| tuned | - | - |" in lines
    assert [entry["nfr_change"] for entry in entries[:2]] == [None, (-0.25, 0.0)]
    with pytest.raises(SystemExit, match="no row 'nobody': expected one of 'none', 'fd'"):
        to_differences(entries, "nobody")


def test_a_shared_cell_costs_the_first_table_alone(tmp_path, store):
    first, second = tiny_table(tmp_path), tiny_table(tmp_path, TINY.replace("seed: 9", "seed: 8"))
    store.results.mkdir()
    for table in (first, second):
        for cell in table.cells:
            store.keep("T0", {(cell, TEST): answers([1, 1], seconds=60.0)})
    shared = len(first.cells.keys() & second.cells.keys())
    assert 0 < shared < len(second.cells)
    count, alone, after = costs([first, second], store).splitlines()[-1].split(" | ")[2:]
    assert count == f"{len(second.cells)} of {len(second.cells)}"
    assert alone == f"{len(second.cells) / 2:.0f}"
    assert after.rstrip(" |") == f"{(len(second.cells) - shared) / 2:.0f}"


def test_a_swept_row_shows_the_alpha_that_development_rows_choose(tmp_path, store):
    line = next(line for line in tiny_table(tmp_path).lines if line.name == "swept")
    old, new = line.pairs[1]
    few, many = line.sweeps[1][0.2], line.sweeps[1][0.6]
    right = np.arange(400) < 300
    moved = np.where(np.arange(400) % 20 == 0, ~right, right)  # as many gains as a quarter of its losses
    far = np.where(np.arange(400) % 2 == 0, ~right, right)
    parts = {old: right, new: moved, few: right, many: far}
    store.keep("T0", {(cell, DEV): answers(values) for cell, values in parts.items()})
    assert chosen_pair(line, 1, store) == (old, few), "no flips, and no less accurate than the new model"
    assert chosen_pair(line, 2, store) == line.pairs[2], "nothing was measured there"


# ---- all of it


def test_cells_run_in_processes_of_their_own_in_the_right_order(tmp_path, store):
    table = tiny_table(tmp_path)
    said = []
    assert run_cells(table, store, pretend, processes=2, say=said.append) == {}
    assert len(said) == len(table.cells)
    asked = (store.work / "asked.txt").read_text().split()
    assert all(asked.index(need) < asked.index(cell) for cell in asked for need in table.cells[cell].needs)


def test_a_table_from_training_to_report(tmp_path, store):
    from benchmarks.tables.cells import run_cell

    table = tiny_table(tmp_path, quick=True)
    assert {work("T0", table.cells[cell], store, run_cell) for cell in plan(table, store)} == {"done"}
    assert plan(table, store) == []
    entries = {entry["name"]: entry for entry in summarise(table, store)}
    assert all(entry["seeds"] == [1] and entry["seconds"][0] > 0 for entry in entries.values())
    assert entries["tuned"]["added_classes"]
    assert 0 <= entries["merged"]["per_seed"][1]["alpha"] <= 1
