"""The comparison of real logs, on the cuts that the readers are tested with."""

from pathlib import Path

import numpy as np
import pytest

from benchmarks.logs.__main__ import rows, unpaired_p
from benchmarks.logs.power import flips, unpaired_worse
from benchmarks.logs.speed import time_logs
from hf_pct import Scores
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
