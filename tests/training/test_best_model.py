"""Which checkpoint is the best: the contract judges each anew, and a metric that nobody will report is refused."""

import pytest
from training_kit import bert, texts, trainer

from hf_pct.training.evaluation.contract import contract_best


def test_the_best_is_among_those_that_keep_the_highest_accuracy():
    points = [(0.80, 0.01), (0.82, 0.05), (0.83, 0.06)]
    assert [contract_best(points[: seen + 1], 0.01) for seen in range(3)] == [0, 1, 1]
    assert contract_best(points, 0.0) == 2
    assert contract_best(points, 0.5) == 0
    assert contract_best([(0.8, 0.1), (0.8, 0.1)], 0.0) == 0


def run_through(tmp_path, monkeypatch, points, **settings):
    """A run whose evaluations report these accuracies and flips; the start comes first with `eval_on_start`."""
    run = trainer(
        tmp_path, eval_dataset=texts(16, seed=5), eval_strategy="epoch", learning_rate=1e-3,
        metric_for_best_model="contract", contract_margin=0.01,
        **{"save_strategy": "epoch", "load_best_model_at_end": True, **settings},
    )  # fmt: skip
    told, measure = iter(points), run.compute_metrics

    def tell(prediction):
        accuracy, nfr = next(told)
        return {**measure(prediction), "accuracy": accuracy, "nfr": nfr}

    monkeypatch.setattr(run, "compute_metrics", tell)
    run.train()
    return run


def chosen(run):
    return run.state.best_global_step


def test_a_checkpoint_that_was_passed_over_may_be_the_best_in_the_end(tmp_path, monkeypatch):
    # the second has more flips than the first, until the third shows how much accuracy there is to be had
    run = run_through(tmp_path, monkeypatch, [(0.820, 0.01), (0.825, 0.05), (0.835, 0.06)], num_train_epochs=3)
    assert chosen(run) == 6
    assert run.state.best_model_checkpoint.endswith("checkpoint-6")
    assert [entry["eval_contract"] for entry in run.state.log_history if "eval_contract" in entry] == [1, 0, 0]


def test_a_checkpoint_that_was_deleted_is_no_choice(tmp_path, monkeypatch):
    points = [(0.820, 0.01), (0.825, 0.05), (0.826, 0.07), (0.835, 0.06)]
    run = run_through(tmp_path, monkeypatch, points, num_train_epochs=4, save_total_limit=2)
    assert chosen(run) == 12
    assert run.state.best_model_checkpoint.endswith("checkpoint-12")


def test_the_start_of_a_run_is_no_checkpoint(tmp_path, monkeypatch):
    points = [(0.83, 0.0), (0.82, 0.05), (0.825, 0.02)]
    run = run_through(tmp_path, monkeypatch, points, num_train_epochs=2, eval_on_start=True)
    assert chosen(run) == 6


def test_without_checkpoints_the_contract_still_counts(tmp_path, monkeypatch):
    settings = {"save_strategy": "no", "load_best_model_at_end": False, "num_train_epochs": 3}
    run = run_through(tmp_path, monkeypatch, [(0.80, 0.02), (0.80, 0.01), (0.70, 0.0)], **settings)
    assert [entry["eval_contract"] for entry in run.state.log_history if "eval_contract" in entry] == [1, 2, 0]


@pytest.mark.parametrize("metric", ["eval_b_contract", "b_nfr", "eval_a_old_accuracy"])
def test_a_metric_of_one_of_several_sets(tmp_path, metric):
    sets = {"a": texts(20, seed=5), "b": texts(20, seed=6)}
    run = trainer(
        tmp_path, eval_dataset=sets, eval_strategy="epoch", save_strategy="epoch", load_best_model_at_end=True,
        metric_for_best_model=metric,
    )  # fmt: skip
    run.train()
    assert run.state.best_model_checkpoint.endswith("checkpoint-3")


@pytest.mark.parametrize(
    ("metric", "sets", "reported"),
    [
        ("contract", True, "a_contract, a_nfr"), ("eval_c_nfr", True, "b_contract, b_nfr"),
        ("a_nfr", False, "contract, nfr"),
        ("nfr_old_3", False, "nfr_old_1"), ("eval_churn", False, "relative_nfr"),
    ],
)  # fmt: skip
def test_a_metric_that_no_evaluation_reports_is_refused_at_the_start(tmp_path, metric, sets, reported):
    rows = {"a": texts(8, seed=5), "b": texts(8, seed=6)} if sets else texts(8, seed=5)
    options = {"old_model": [bert(seed=2), bert(seed=3)], "eval_dataset": rows, "metric_for_best_model": metric}
    with pytest.raises(ValueError, match=f"is none of the metrics about old models.*{reported}"):
        trainer(tmp_path, eval_strategy="epoch", **options)
    trainer(tmp_path, **options)  # nothing is evaluated
    trainer(tmp_path, eval_strategy="epoch", compute_metrics=lambda prediction: {}, **options)  # it may well be theirs
