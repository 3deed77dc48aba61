import numpy as np
import pytest
from flip_tables import NAMES, side

from hf_pct import FlipReport, compare
from hf_pct.core.labels import align_labels
from hf_pct.flips.studies import logit_figures as analysis


def test_displacement_is_measured_class_by_class():
    old, new = np.array([[1.0, 2.0, 9.0]]), np.array([[5.0, 2.0, 4.0]])
    classes = align_labels(["a", "b", "gone"], ["added", "b", "a"])
    assert analysis.displacement_norms(old, new, classes) == pytest.approx([3.0])  # b: 2 -> 2, a: 1 -> 4


def test_ranks_start_at_the_models_own_answer():
    logits = np.array([[0.1, 0.9, 0.5], [3.0, 2.0, 1.0]])
    assert analysis.answer_ranks(logits, np.array([1, 2])).tolist() == [1, 3]


def test_entropy():
    logits = np.array([[0.0, 0.0, 0.0, 0.0], [0.0, -np.inf, -np.inf, -np.inf], [100.0, 0.0, 0.0, 0.0]])
    assert analysis.entropy(logits) == pytest.approx([np.log(4), 0.0, 0.0], abs=1e-12)


def tables(rows=1000):
    rng = np.random.default_rng(0)
    labels = rng.integers(0, 3, rows)
    old = rng.normal(size=(rows, 3)) + 3 * np.eye(3)[labels]
    new = old + rng.normal(size=(rows, 3))
    names = np.array(NAMES)[labels].tolist()
    return side(None, names, logits=old), side(None, names, logits=new), (labels, old.astype(np.float32), new)


def test_a_report_of_two_tables_with_logits_holds_the_figures(tmp_path):
    old, new, (labels, old_logits, new_logits) = tables()
    report = compare(old, new)
    assert set(report.figures) == {"displacement_histogram", "uncertainty_histograms", "rank_histogram"}
    broken = (old_logits.argmax(-1) == labels) & (new_logits.argmax(-1) != labels)
    norms = report.figures["displacement_histogram"]["norms"]
    assert len(norms["negative flips"]) == broken.sum()
    assert len(norms["other rows"]) == analysis.MOST_POINTS
    plain = np.linalg.norm(new_logits - old_logits, axis=-1)[~broken]
    assert np.median(norms["other rows"]) == pytest.approx(np.median(plain), abs=0.02)
    assert min(report.figures["rank_histogram"]["ranks"]["negative flips"]) >= 2
    loaded = FlipReport.load(report.save(tmp_path / "r.json"))
    assert loaded.figures == report.figures
    # rows in another order change nothing
    order = np.random.default_rng(1).permutation(1000)
    shuffled = side(
        None,
        new.labels[order].tolist(),
        logits=new.logits[order],
        ids=np.array(new.ids.to_pylist())[order].tolist(),
    )
    assert compare(old, shuffled).figures == report.figures


def test_no_logits_no_figures():
    labels = ["no", "yes"]
    assert compare(side(labels, labels), side(labels, labels)).figures == {}


def test_further_figures_travel_with_the_report(tmp_path):
    old, new, _ = tables(50)
    epochs = {"epochs": [1, 2], "nfr": {"validation": [0.04, 0.03]}}
    report = compare(old, new).with_figures(nfr_per_epoch=epochs)
    loaded = FlipReport.load(report.save(tmp_path / "r.json"))
    assert loaded.figures["nfr_per_epoch"] == epochs
    assert "rank_histogram" in loaded.figures
