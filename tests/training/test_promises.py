"""What works with `Trainer` works here: its hooks, its settings and its odd rows, beside a method's own term."""

import numpy as np
import pytest
import torch
from torch.nn import functional
from torch.utils.data import WeightedRandomSampler
from training_kit import NAMES, arguments, bert, distance, elodi, texts, tokenizer, trainer, weights
from transformers import DataCollatorWithPadding, EarlyStoppingCallback

from hf_pct import BCWIArguments
from hf_pct.methods import Needs
from hf_pct.methods.losses.focal import FocalDistillation
from hf_pct.training import ELODIArguments, FocalDistillTrainer, PCTArguments
from hf_pct.training.evaluation.contract import contract_score

WEIGHTS = torch.tensor([1.0, 5.0, 1.0, 0.2])


# ---- compute_loss_func


def weighted(outputs, labels, num_items_in_batch=None):
    """A class-weighted loss as people write it for `Trainer`: a sum over the rows that Trainer counts."""
    logits = outputs["logits"] if isinstance(outputs, dict) else outputs.logits
    return functional.cross_entropy(logits, labels, WEIGHTS, reduction="sum") / num_items_in_batch


def test_a_loss_of_ones_own_takes_the_place_of_cross_entropy_beside_the_term(tmp_path):
    run = trainer(tmp_path, compute_loss_func=weighted)
    logits, old, labels = torch.randn(6, 4), torch.randn(6, 4), torch.tensor([0, 1, 2, 3, 1, -100])
    terms = run.loss_terms(logits, {"old": old}, labels)
    expected = functional.cross_entropy(logits, labels, WEIGHTS, reduction="sum") / 5
    torch.testing.assert_close(terms["ce"], expected)
    assert terms["distillation"] > 0


@pytest.mark.parametrize(
    "own", [weighted, lambda outputs, labels, **_: functional.cross_entropy(outputs.logits, labels)]
)
def test_it_does_not_depend_on_how_a_batch_is_accumulated(tmp_path, own):
    trained = []
    for size, steps in ((16, 1), (4, 4)):
        run = trainer(
            tmp_path, model=bert(seed=1), train=texts(32), compute_loss_func=own, per_device_train_batch_size=size,
            gradient_accumulation_steps=steps, optim="sgd", learning_rate=0.1,
        )  # fmt: skip
        run.train()
        trained.append(run.model)
    assert distance(*trained) < 1e-6


def test_without_a_term_it_is_the_stock_trainer_with_that_loss(tmp_path):
    from transformers import Trainer, TrainingArguments

    settings = {"learning_rate": 0.1, "optim": "sgd", "num_train_epochs": 1}
    ours = trainer(tmp_path, model=bert(seed=1), method="none", compute_loss_func=weighted, **settings)
    ours.train()
    known = arguments(tmp_path, **settings).to_dict()
    plain = {name: known[name] for name in TrainingArguments.__dataclass_fields__ if known.get(name) is not None}
    stock = Trainer(
        bert(seed=1), TrainingArguments(**plain), train_dataset=texts(), compute_loss_func=weighted,
        data_collator=DataCollatorWithPadding(tokenizer()),
    )  # fmt: skip
    stock.train()
    assert distance(ours.model, stock.model) < 1e-6


def test_members_are_trained_with_it_too(tmp_path):
    calls = []

    def own(outputs, labels, num_items_in_batch=None):
        calls.append(len(labels))
        return functional.cross_entropy(outputs["logits"], labels)

    run = elodi(tmp_path)
    run.compute_loss_func = own
    run.train_members()
    assert calls


# ---- which checkpoint is the best


@pytest.mark.parametrize(
    ("metric", "greater"),
    [
        ("nfr", False), ("eval_nfr", False), ("eval_a_nfr", False), ("nfr_old_1", False),
        ("eval_long_name_relative_nfr_old_2", False), ("pfr", True), ("accuracy", True), ("contract", True),
        ("eval_loss", False),
    ],
)  # fmt: skip
@pytest.mark.parametrize("kind", [PCTArguments, ELODIArguments, BCWIArguments])
def test_lower_is_better_under_every_prefix_and_in_every_class(tmp_path, metric, greater, kind):
    args = kind(str(tmp_path), use_cpu=True, report_to="none", metric_for_best_model=metric)
    assert args.greater_is_better is greater
    chosen = kind(str(tmp_path), use_cpu=True, report_to="none", metric_for_best_model=metric, greater_is_better=True)
    assert chosen.greater_is_better is True


def best_of(tmp_path, **settings):
    run = trainer(
        tmp_path, model=bert(seed=2), old_model=bert(seed=2), eval_dataset=texts(60, seed=5), eval_strategy="epoch",
        save_strategy="epoch", num_train_epochs=4, load_best_model_at_end=True, eval_on_start=True, learning_rate=5e-3,
        method="none", **settings,
    )  # fmt: skip
    run.train()
    return run, [entry for entry in run.state.log_history if "eval_nfr" in entry]


def test_flips_alone_choose_the_model_that_has_learnt_least_and_a_warning_says_so(tmp_path):
    with pytest.warns(UserWarning, match="metric_for_best_model='contract'"):
        run, seen = best_of(tmp_path / "flips", metric_for_best_model="nfr")
    assert run.evaluate()["eval_nfr"] == min(entry["eval_nfr"] for entry in seen[1:])
    run, seen = best_of(tmp_path / "contract", metric_for_best_model="contract", contract_margin=0.02)
    highest = max(entry["eval_accuracy"] for entry in seen)
    allowed = [entry["eval_nfr"] for entry in seen if entry["eval_accuracy"] >= highest - 0.02]
    assert len({entry["eval_accuracy"] for entry in seen}) > 1  # it has learnt something
    chosen = run.evaluate()
    assert chosen["eval_accuracy"] >= highest - 0.02
    assert chosen["eval_nfr"] == pytest.approx(min(allowed))


def test_a_contract_prefers_accuracy_up_to_its_margin_and_then_flips():
    steps = [(0.80, 0.0), (0.83, 0.02), (0.828, 0.01), (0.79, 0.0), (0.85, 0.05), (0.845, 0.06)]
    entries = [{"eval_accuracy": accuracy, "eval_nfr": nfr} for accuracy, nfr in steps]
    scores = [contract_score(entries[:number], entry, "eval", 0.01) for number, entry in enumerate(entries)]
    assert scores == [1, 2, 3, 0, 4, 0]


def test_early_stopping_goes_by_the_contract(tmp_path):
    run = trainer(
        tmp_path, eval_dataset=texts(20, seed=5), eval_strategy="epoch", save_strategy="epoch", num_train_epochs=6,
        load_best_model_at_end=True, metric_for_best_model="contract", learning_rate=0.0,
        callbacks=[EarlyStoppingCallback(early_stopping_patience=2)],
    )  # fmt: skip
    run.train()
    assert run.state.epoch == 3  # the first is the best, and two more bring nothing


@pytest.mark.parametrize("metric", ["nfr", "eval_relative_nfr", "contract"])
def test_flips_without_an_old_model_are_refused_at_the_start(tmp_path, metric):
    with pytest.raises(ValueError, match=f"metric_for_best_model='{metric}' is about an old model, and there is none"):
        trainer(tmp_path, method="none", old_model=None, metric_for_best_model=metric)


# ---- rows and labels


def test_evaluation_rows_without_a_label_are_left_out(tmp_path):
    rows = texts(40, seed=5)
    unlabelled = rows.map(lambda row, index: {"label": -100 if index < 18 else row["label"]}, with_indices=True)
    run = trainer(tmp_path, eval_dataset=unlabelled)
    ours = run.evaluate()
    theirs = trainer(tmp_path, eval_dataset=rows.select(range(18, 40))).evaluate()
    for name in ("eval_nfr", "eval_accuracy", "eval_old_accuracy"):
        assert ours[name] == pytest.approx(theirs[name])
    assert np.isfinite(ours["eval_loss"])


def test_only_rows_of_added_classes(tmp_path):
    names = [*NAMES, "new one"]
    rows = texts(20, seed=5).map(lambda row: {"label": 4})
    run = trainer(tmp_path, model=bert(seed=1, names=names), train=texts(16, classes=5), eval_dataset=rows)
    metrics = run.evaluate()
    assert metrics["eval_added_accuracy"] == metrics["eval_accuracy"]
    assert "eval_nfr" not in metrics


def test_preprocessing_of_logits_sees_plain_labels(tmp_path):
    seen = []

    def preprocess(logits, labels):
        seen.append(labels)
        return logits.argmax(-1)

    rows = texts(30, seed=5)
    metrics = trainer(tmp_path, eval_dataset=rows, preprocess_logits_for_metrics=preprocess).evaluate()
    assert all(isinstance(labels, torch.Tensor) and labels.ndim == 1 for labels in seen)
    assert metrics["eval_nfr"] == pytest.approx(trainer(tmp_path, eval_dataset=rows).evaluate()["eval_nfr"])


def test_a_sampler_reads_the_columns_of_the_training_set(tmp_path):
    class Balanced(FocalDistillTrainer):
        def _get_train_sampler(self, train_dataset=None):
            labels = np.asarray(self.train_dataset["label"])
            assert list(train_dataset["label"]) == labels.tolist()
            return WeightedRandomSampler((labels == 1).astype(float), 16)

    run = trainer(tmp_path, kind=Balanced)
    batch = next(iter(run.get_train_dataloader()))
    assert set(batch["labels"].tolist()) == {1}
    assert "reference_logits_old" in batch
    run.train()


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        ([[1, 0, 0, 0]] * 16, r"shape \(\d+, 4\).*several numbers per row.*argmax"),
        ([0.5] * 16, r"type torch.float32, numbers that are not whole.*convert the column to integers"),
        ([True] * 16, r"type torch.bool, true or false.*convert the column to integers"),
        ([7] * 16, r"labels \[7\] are no classes of the model, which has 4: expected 0 to 3, or -100.*num_labels"),
        ([-1] * 16, r"labels \[-1\] are no classes of the model"),
    ],
)
def test_labels_that_are_not_one_class_index_are_refused(tmp_path, labels, message):
    rows = texts(16).remove_columns("label").add_column("labels", labels)
    with pytest.raises(ValueError, match=message):
        trainer(tmp_path, train=rows).train()


def test_evaluation_labels_outside_the_classes_are_refused_too(tmp_path):
    rows = texts(16).remove_columns("label").add_column("labels", [4] * 16)
    for settings in ({}, {"method": "none", "old_model": None}):
        with pytest.raises(ValueError, match=r"labels \[4\] are no classes of the model, which has 4"):
            trainer(tmp_path, eval_dataset=rows, **settings).evaluate()


def test_labels_of_another_whole_type_and_steps_without_any(tmp_path):
    def collate(rows):
        batch = DataCollatorWithPadding(tokenizer())(rows)
        return {**batch, "labels": batch["labels"].int()}

    rows = texts(48)
    plain, narrow = trainer(tmp_path, train=rows), trainer(tmp_path, train=rows, data_collator=collate)
    plain.train()
    narrow.train()
    assert distance(plain.model, narrow.model) < 1e-6
    unlabelled = trainer(tmp_path, train=rows.map(lambda row: {"label": -100}))
    before = weights(unlabelled.model)
    unlabelled.train()
    assert distance(before, unlabelled.model) == 0


def test_a_stream_cannot_be_cached(tmp_path):
    with pytest.raises(ValueError, match="reference='cached' with a training set that is a stream"):
        trainer(tmp_path, train=texts(16).to_iterable_dataset(), reference="cached", max_steps=1)


# ---- methods and trainers


def test_a_method_that_a_trainer_does_not_run_is_refused(tmp_path):
    args = arguments(tmp_path, ELODIArguments)
    with pytest.raises(ValueError, match="method='elodi' is trained by ELODITrainer, not by FocalDistillTrainer"):
        FocalDistillTrainer(bert(), args, train_dataset=texts(), old_model=bert(seed=2))
    with pytest.raises(ValueError, match="method='kd' is trained by FocalDistillTrainer, not by ELODITrainer"):
        elodi(tmp_path, method="kd")
    assert trainer(tmp_path).method == FocalDistillation()


def test_a_method_object_is_trained_with_and_recorded(tmp_path):
    from hf_pct.hub.card.methods import describe_method
    from hf_pct.hub.records import training_record

    run = trainer(tmp_path, method="kd", method_object=FocalDistillation(right_rows=2.0), l2_sp_weight=0.1)
    same = trainer(tmp_path, method="fd-lm", right_rows=2.0, l2_sp_weight=0.1)
    run.train()
    same.train()
    assert distance(run.model, same.model) == 0
    record = training_record(run)
    assert (record["method"], record["settings"]["right_rows"]) == ("fd-lm", 2.0)
    described = describe_method(record, {})
    assert described.tag == "focal-distillation"
    assert "focal distillation" in described.sentence
    assert "L2-SP" in described.sentence
    assert "yan2021positive" in described.citation
    assert "li2018explicit" in described.citation


def test_a_missing_reference_is_named(tmp_path):
    class Two(FocalDistillation):
        def weights(self, names):
            return {"old": 1.0, "other": 1.0}

    with pytest.raises(ValueError, match=r"needs the reference 'other'.*references=\{'other': \.\.\.\}"):
        trainer(tmp_path, method_object=Two())
    run = trainer(tmp_path, method_object=Two(), references={"other": bert(seed=4)})
    run.train()
    assert {"loss_distillation", "loss_distillation_other"} <= set(run.state.log_history[0])


# ---- searches over settings


def test_a_search_tunes_the_settings_of_a_method(tmp_path):
    optuna = pytest.importorskip("optuna")
    from transformers.trainer_utils import HPSearchBackend

    run = trainer(tmp_path, model_init=lambda: bert(seed=1))
    run.hp_search_backend = HPSearchBackend.OPTUNA

    def try_out(**settings):
        run.hp_space = lambda trial: settings
        run.train(trial=optuna.trial.FixedTrial(settings))

    found = {}
    for settings in (
        {"reference_weight": 0.001}, {"reference_weight": 50.0}, {"reference_weight": 1.0, "method": "kd"},
        {"pc_weight": 5.0, "method": "fd-lm"}, {"reference_weight": 1.0, "l2_sp_weight": 3.0},
    ):  # fmt: skip
        try_out(**settings)
        found[str(settings)] = run.state.log_history[0]["loss_distillation"]
        assert run.method.reference_weight == settings.get("reference_weight", settings.get("pc_weight"))
    assert [method.name for method in run.anchors.methods] == ["l2-sp"]
    light, heavy, soft, middle, anchored = found.values()  # the first batch of each trial is the same
    assert heavy / light == pytest.approx(50_000, rel=1e-4)
    assert middle / light == pytest.approx(5_000, rel=1e-4)
    assert anchored / light == pytest.approx(1_000, rel=1e-4)
    assert soft != pytest.approx(anchored, rel=0.1)
    with pytest.raises(ValueError, match=r"reference_weight=-1\.0: expected"):
        try_out(reference_weight=-1.0)


def test_settings_that_are_changed_before_training_count(tmp_path):
    first = {}
    for weight in (0.001, 50.0):
        run = trainer(tmp_path)
        run.args.reference_weight = weight
        run.train()
        first[weight] = run.state.log_history[0]["loss_distillation"]
        assert run.method.reference_weight == weight
    assert first[50.0] / first[0.001] == pytest.approx(50_000, rel=1e-4)
    run.args.method, run.args.l2_sp_weight, run.args.divergence_limit = "none", 3.0, 0.0
    run.train()
    assert "loss_distillation" not in run.state.log_history[0]
    assert "loss_l2_sp" in run.state.log_history[-2]
    assert run.watch.limit == 0
    run.args.reference_weight = -1.0
    with pytest.raises(ValueError, match=r"reference_weight=-1\.0: expected"):
        run.train()


def test_an_old_model_that_is_named_before_training_is_the_one_that_counts(tmp_path):
    for seed in (2, 9):
        bert(seed=seed).save_pretrained(tmp_path / str(seed))
        tokenizer().save_pretrained(tmp_path / str(seed))
    rows = texts(40, seed=5)
    run = trainer(tmp_path, old_model=None, method="none", processing_class=tokenizer(), eval_dataset=rows)
    run.args.old_model, run.args.method = str(tmp_path / "9"), "fd-lm"
    run.train()
    same = trainer(tmp_path, old_model=bert(seed=9), eval_dataset=rows)
    same.train()
    assert distance(run.model, same.model) < 1e-6
    assert run.evaluate()["eval_nfr"] == same.evaluate()["eval_nfr"]


def test_a_search_with_optuna_from_a_model_init(tmp_path):
    pytest.importorskip("optuna")
    starts = []

    def new_model():
        starts.append(None)
        return bert(seed=1)

    run = trainer(tmp_path, model_init=new_model, eval_dataset=texts(40, seed=5))
    values = iter([0.0, 4.0, 0.0])
    terms = []
    best = run.hyperparameter_search(
        hp_space=lambda trial: {"reference_weight": trial.suggest_float("reference_weight", 0.0, 4.0)},
        compute_objective=lambda metrics: (terms.append(run.method.reference_weight), metrics["eval_nfr"])[1],
        direction="minimize", n_trials=3, backend="optuna", sampler=fixed_sampler(values),
    )  # fmt: skip
    assert terms == [0.0, 4.0, 0.0]
    assert len(starts) >= 4
    assert best.objective >= 0


def test_a_search_over_students_trains_their_members_once(tmp_path):
    pytest.importorskip("optuna")
    run, weights_tried, trained = elodi(tmp_path, eval_dataset=texts(20, seed=5)), [], []
    train_members = run.members.train
    run.members.train = lambda: (
        trained.append(sorted(path.name for path in tmp_path.glob("members/*"))) or train_members()
    )
    run.hyperparameter_search(
        hp_space=lambda trial: {"ldi_weight": trial.suggest_float("ldi_weight", 0.1, 0.9)},
        compute_objective=lambda metrics: (weights_tried.append(run.method.ldi_weight), metrics["eval_accuracy"])[1],
        direction="maximize", n_trials=2, backend="optuna", sampler=fixed_sampler(iter([0.2, 0.7])),
    )  # fmt: skip
    assert weights_tried == [0.2, 0.7]
    assert [names[:2] for names in trained] == [[], ["0", "1"]]


def fixed_sampler(values):
    """A sampler of optuna that suggests these values."""
    import optuna

    class Fixed(optuna.samplers.RandomSampler):
        def sample_independent(self, study, trial, name, distribution):
            return next(values)

    return Fixed(seed=0)


# ---- features


@pytest.mark.parametrize("reference", ["live", "cached"])
def test_a_method_gets_features_of_both_models_and_the_old_head(tmp_path, reference):
    seen = []

    class Nearer(FocalDistillation):
        needs = Needs(references=("old",), features=True, head=True)

        def loss(self, batch):
            if batch.features.requires_grad:
                seen.append(batch)
            return (batch.features - batch.reference_features).square().mean(-1)

    old = bert(seed=2)
    run = trainer(tmp_path, method_object=Nearer(), old_model=old, reference=reference, eval_dataset=texts(16, seed=5))
    before = run.evaluate()["eval_loss"]
    run.train()
    batch = seen[0]
    assert batch.features.shape == batch.reference_features.shape
    torch.testing.assert_close(batch.reference_head(batch.reference_features), batch.all_reference)
    torch.testing.assert_close(batch.reference_head.weight, old.classifier.weight)
    assert not batch.reference_head.weight.requires_grad
    assert run.evaluate()["eval_loss"] < before
