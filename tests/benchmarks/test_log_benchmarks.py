"""The comparison of real logs, on the cuts that the readers are tested with."""

import io
import pickle
import random
from pathlib import Path

import numpy as np
import pytest

from benchmarks.logs.__main__ import comparator_cell, rows, unpaired_p
from benchmarks.logs.chains import METRICS, chrf, line, scored
from benchmarks.logs.coverage import clustered, graded, repeated
from benchmarks.logs.power import flips, unpaired_worse
from benchmarks.logs.quire import apply_edits, slip
from benchmarks.logs.speed import time_logs
from hf_pct import Scores, compare
from hf_pct.flips.tables.readers import ReadOptions

LOGS = Path(__file__).parents[1] / "flips" / "tables" / "readers" / "logs" / "lm_eval"


def test_a_table_of_real_logs():
    old, new = (Scores.load(LOGS / side, ReadOptions(filters=("flexible", "none"))) for side in ("v1", "v2"))
    lines = rows(old, new, ["acc", "exact_match"])
    assert lines[0].startswith("| commonsenseqa | acc | 25 |")
    assert lines[1].startswith("| openbookqa_free | exact_match | 12 |")
    assert "mean over tasks" in lines[-1]


def test_the_unpaired_test_sees_means_only():
    rng = np.random.default_rng(0)
    old, new = flips(0.04, 0.01)(rng, 1000)
    assert unpaired_p(old, new) == pytest.approx(unpaired_p(old, rng.permutation(new)))
    assert unpaired_p(old, new) == pytest.approx(2 * min(unpaired_worse(old, new), 1 - unpaired_worse(old, new)))


def test_the_speed_of_logs_is_a_ratio(tmp_path):
    assert time_logs(tmp_path, 50, 1).median > 0


def test_the_verdict_of_the_unpaired_script_is_a_tick():
    assert comparator_cell(0.5) == "0.5 ✓"
    assert comparator_cell(0.0004) == "0.0004 ×"


def test_a_chain_is_scored_by_exact_match_and_chrf():
    assert chrf("a b", "ab") == 100  # spaces do not count
    assert chrf("abcd", "xyz") == 0
    pairs = [("one", "un"), ("two", "deux"), ("three", "trois"), ("four", "quatre")]
    old = scored("v1", pairs, ["un", "deux", "tres", "quatre"])
    new = scored("v2", pairs, ["un", "dos", "troi", "quatre"])
    lines = [
        line(old, new, compare(old, new, metric=name, right_at=right).tasks[0]) for name, right in METRICS.items()
    ]
    assert lines[0].startswith("| v1 to v2 | exact_match | 4 | 0.750 -> 0.500 | 1 | 0 | 0 | 25.0")
    assert lines[1].startswith("| v1 to v2 | chrf | 4 |")


def test_a_checkpoint_gives_tensors_and_runs_nothing():
    from benchmarks.logs.latin2nqo import TensorUnpickler, merge_symbols

    class Trap:
        def __reduce__(self):
            return print, ("this must not be run",)

    read = TensorUnpickler(io.BytesIO(pickle.dumps({"settings": Trap(), "step": 3}))).load()
    assert read["step"] == 3
    assert read["settings"] is not None
    ranks = {("l", "o"): 0, ("lo", "w</w>"): 1, ("e", "r</w>"): 2}
    assert merge_symbols("low", ranks) == ["low"]
    assert merge_symbols("lower", ranks) == ["lo@@", "w@@", "er"]


def test_a_slip_is_one_word_and_an_edit_takes_it_back():
    sentence = "They said their car was gone, and then it was too late."
    wrong = slip(sentence, random.Random(0)).split()
    places = [place for place, word in enumerate(sentence.split()) if wrong[place] != word]
    assert len(places) == 1
    edits = [f"$REPLACE_{word}" if place in places else "$KEEP" for place, word in enumerate(sentence.split())]
    assert apply_edits(wrong, edits) == sentence
    assert apply_edits(["THE", "the", "end"], ["$CASE_LOWER", "$DELETE", "$APPEND_."]) == "the end."


@pytest.mark.parametrize("draw", [graded(30, 1.0, True), repeated(10, 2, 3, 0.0), clustered(12, 2, 0.5)])
def test_coverage_asks_whether_the_truth_lies_inside(draw):
    outcomes = [draw(np.random.default_rng(seed)) for seed in range(5)]
    assert sum(outcome["mean gain covered"] for outcome in outcomes) >= 3
