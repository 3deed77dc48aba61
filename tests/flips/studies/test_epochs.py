"""From a trainer's log to the figure of NFR per epoch."""

import json

import numpy as np
import pytest
from flip_tables import random_pair

from hf_pct import compare
from hf_pct.flips.studies.epochs import per_epoch
from hf_pct.viz.figures.plots import FIGURES, save_plots


def log(sets=("train", "validation"), epochs=3, **further):
    """What a Trainer logs: losses in between, and one entry a set at every epoch."""
    entries = []
    for epoch in range(1, epochs + 1):
        entries.append({"loss": 1.0 / epoch, "epoch": epoch - 0.5, "step": 10 * epoch - 5})
        for at, name in enumerate(sets):
            prefix = f"eval_{name}_" if name else "eval_"
            rates = {"nfr": 0.1 / epoch + 0.01 * at, "relative_nfr": 0.5 / epoch, "accuracy": 0.5 + 0.1 * epoch}
            rates |= {"old_accuracy": 0.6, "pfr": 0.2, "loss": 1.0}
            entry = {f"{prefix}{key}": value for key, value in rates.items()}
            entries.append({**entry, "epoch": float(epoch), "step": 10 * epoch})
    return [*entries, {"train_runtime": 3.0, "epoch": float(epochs)}]


def test_sets_by_name():
    numbers = per_epoch(log())
    assert numbers["epochs"] == [1.0, 2.0, 3.0]
    assert list(numbers["nfr"]) == ["train", "validation"]
    assert numbers["nfr"]["train"] == pytest.approx([0.1, 0.05, 0.1 / 3])
    assert numbers["nfr"]["validation"] == pytest.approx([0.11, 0.06, 0.1 / 3 + 0.01])
    assert numbers["error_rate"]["validation"] == pytest.approx([0.4, 0.3, 0.2])
    assert numbers["relative"] is False
    assert per_epoch(json.loads(json.dumps(log()))) == numbers
    assert list(per_epoch(log(), sets=["validation"])["nfr"]) == ["validation"]
    assert list(per_epoch(log(), sets=["validation", "train"])["nfr"]) == ["validation", "train"]


def test_one_set_without_a_name_and_relative_nfr():
    numbers = per_epoch(log(sets=[""]))
    assert numbers["nfr"] == {"evaluation": pytest.approx([0.1, 0.05, 0.1 / 3])}
    relative = per_epoch(log(), relative=True)
    assert relative["relative"] is True
    assert relative["nfr"]["train"] == pytest.approx([0.5, 0.25, 0.5 / 3])
    assert per_epoch(log(sets=[""]), relative=True)["nfr"] == {"evaluation": pytest.approx([0.5, 0.25, 0.5 / 3])}
    assert list(per_epoch(log(sets=["in_domain_test"]))["nfr"]) == ["in_domain_test"]


def test_the_metrics_of_the_trainers_are_understood():
    from transformers import EvalPrediction

    from hf_pct.training.metrics import FlipMetrics

    old, new, (old_codes, new_codes, labels) = random_pair()
    measure = FlipMetrics(known={"old": np.ones(3, dtype=bool)})
    metrics = measure(EvalPrediction(np.eye(3)[new_codes], (labels, old_codes)))
    history = [{f"eval_validation_{key}": value for key, value in metrics.items()} | {"epoch": 1.0}]
    counts = compare(old, new).counts
    numbers = per_epoch(history)
    assert numbers["nfr"]["validation"] == [counts.nfr]
    assert numbers["error_rate"]["validation"] == pytest.approx([counts.new_error_rate])
    assert per_epoch(history, relative=True)["nfr"]["validation"] == [counts.relative_nfr]


def test_the_first_evaluation_of_an_epoch_counts():
    history = log()
    again = {**history[-2], "eval_validation_nfr": 0.9}
    assert per_epoch([*history, again]) == per_epoch(history)
    before = {"eval_train_nfr": 0.7, "eval_train_accuracy": 0.1}  # before any training: no epoch
    assert per_epoch([before, *history]) == per_epoch(history)


def test_without_accuracy_there_is_no_error_rate():
    history = [{key: value for key, value in entry.items() if key != "eval_train_accuracy"} for entry in log()]
    assert list(per_epoch(history)["error_rate"]) == ["validation"]
    assert per_epoch(history, sets=["train"])["error_rate"] == {}
    FIGURES["nfr_per_epoch"](**per_epoch(history, sets=["train"]))


def test_the_figure_is_drawn_from_a_saved_report(tmp_path):
    numbers = per_epoch(log(), relative=True)
    figure = FIGURES["nfr_per_epoch"](**numbers)
    assert "relative NFR" in figure.axes[0].get_ylabel()
    assert [line.get_label() for line in figure.axes[0].get_lines()] == ["train", "validation"]
    old, new, _ = random_pair()
    saved = compare(old, new).with_figures(nfr_per_epoch=numbers).save(tmp_path / "report.json")
    assert "nfr_per_epoch.png" in {path.name for path in save_plots(saved, tmp_path / "plots")}


def test_bad_logs():
    with pytest.raises(
        ValueError, match=r"No entry of the log has eval_nfr .*\(1 entries\).*eval_dataset=\{'train'.*old_mo"
    ):
        per_epoch([{"loss": 1.0, "epoch": 1.0}])
    with pytest.raises(ValueError, match="No entry of the log has eval_nfr"):
        per_epoch([{"eval_nfr": 0.1}])  # evaluated outside of training
    only_nfr = [{"eval_nfr": 0.1, "epoch": 1.0}]
    with pytest.raises(ValueError, match="No entry of the log has eval_relative_nfr"):
        per_epoch(only_nfr, relative=True)
    with pytest.raises(ValueError, match="No entry of the log has eval_nfr"):
        per_epoch([{"eval_relative_nfr": 0.1, "epoch": 1.0}])
    with pytest.raises(ValueError, match="sets names 'test', expected sets that this log has: 'train', 'validation'"):
        per_epoch(log(), sets=["test", "train"])
    with pytest.raises(ValueError, match="sets names nothing, expected"):
        per_epoch(log(), sets=[])
    late = [*log(), {"eval_test_nfr": 0.1, "epoch": 3.0}]
    with pytest.raises(ValueError, match=r"Not every set has nfr at every epoch; missing: test at 1.0, 2.0\. Choose"):
        per_epoch(late)
    assert per_epoch(late, sets=["train", "validation"]) == per_epoch(log())
    with pytest.raises(ValueError, match=r"The log is a dict, expected a list of dicts: trainer.state.log_history"):
        per_epoch({"log_history": log()})
