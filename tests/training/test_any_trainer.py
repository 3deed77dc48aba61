"""Flips in trainers that are not the kit's: by `compute_metrics`, and by a callback that asks the model itself."""

import numpy as np
import pytest
from datasets import Dataset
from training_kit import NAMES, arguments, bert, texts, tokenizer, trainer
from transformers import (
    DataCollatorWithPadding,
    EarlyStoppingCallback,
    EvalPrediction,
    Trainer,
    TrainerState,
    TrainingArguments,
)

from hf_pct import FlipCallback, Predictions, flip_metrics, predict
from hf_pct.flips.counts import count_flips

RATES = ("eval_nfr", "eval_pfr", "eval_relative_nfr", "eval_old_accuracy", "eval_accuracy")


def stock(folder, rows, **own):
    settings = {"learning_rate": 5e-3, "eval_strategy": "epoch", "num_train_epochs": 2}
    settings |= {name: own.pop(name) for name in list(own) if name in TrainingArguments.__dataclass_fields__}
    known = arguments(folder, **settings).to_dict()
    plain = {name: known[name] for name in TrainingArguments.__dataclass_fields__ if known.get(name) is not None}
    return Trainer(
        bert(seed=1), TrainingArguments(**plain), train_dataset=texts(), eval_dataset=rows,
        data_collator=DataCollatorWithPadding(tokenizer()), processing_class=tokenizer(), **own,
    )  # fmt: skip


def table(model, rows, **options):
    return predict(model, rows, processor=tokenizer(), use_cache=False, **options)


@pytest.mark.parametrize("kind", ["table", "file", "indices", "logits", "model"])
def test_compute_metrics_of_a_stock_trainer_agree_with_the_kits(tmp_path, kind):
    rows, old = texts(40, seed=5), bert(seed=2)
    answers = table(old, rows)
    answers.save(tmp_path / "old.parquet")
    given = {
        "table": answers, "file": tmp_path / "old.parquet", "indices": answers.prediction_codes,
        "logits": answers.logits,
    }  # fmt: skip
    measure = (
        flip_metrics(old_model=old, dataset=rows, processor=tokenizer())
        if kind == "model"
        else flip_metrics(given[kind])
    )
    run = stock(tmp_path / "stock", rows, compute_metrics=measure)
    run.train()
    ours = trainer(tmp_path / "ours", model=run.model, old_model=old, eval_dataset=rows, method="none")
    expected, found = ours.evaluate(), run.evaluate()
    for name in RATES:
        assert found[name] == pytest.approx(expected[name])


def test_compute_metrics_batch_by_batch(tmp_path):
    rows, old = texts(40, seed=5), bert(seed=2)
    answers, seen = table(old, rows), []

    def own(prediction, compute_result=None):
        seen.append(compute_result)
        return {"own": 1.0} if compute_result else {}

    at_once = stock(tmp_path, rows, compute_metrics=flip_metrics(answers)).evaluate()
    run = stock(tmp_path, rows, compute_metrics=flip_metrics(answers, compute_metrics=own), batch_eval_metrics=True)
    for _ in range(2):
        in_batches = run.evaluate()
        assert {name: in_batches[name] for name in RATES} == {name: at_once[name] for name in RATES}
    assert in_batches["eval_own"] == 1.0
    assert seen == [False, False, True] * 2


def test_classes_in_another_order_and_rows_without_labels():
    old = Predictions([0, 1, 2], ["b", "a", "gone"], ["b", "b", "gone"], label_names=["a", "b", "gone"])
    measure = flip_metrics(old, label_names=["b", "a", "gone"])
    logits = np.eye(3)[[1, 1, 2]]
    metrics = measure(EvalPrediction(logits, np.array([0, 1, 2])))
    expected = count_flips(["b", "b", "gone"], ["a", "a", "gone"], ["b", "a", "gone"])
    assert (metrics["nfr"], metrics["pfr"]) == (expected.nfr, expected.pfr)
    assert measure(EvalPrediction(logits, np.array([0, -100, 2])))["nfr"] == 0.5


def test_other_rows_are_refused_and_own_metrics_are_kept():
    old = Predictions([0, 1], ["a", "b"], ["a", "a"], label_names=["a", "b"])
    measure = flip_metrics(old, compute_metrics=lambda prediction: {"own": 1.0, "accuracy": -1.0})
    assert measure(EvalPrediction(np.eye(2), np.array([0, 1]))) | {"own": 1.0, "accuracy": -1.0} == measure(
        EvalPrediction(np.eye(2), np.array([0, 1]))
    )
    with pytest.raises(ValueError, match="2 of 2 labels are not those of the old table"):
        measure(EvalPrediction(np.eye(2), np.array([1, 0])))
    with pytest.raises(ValueError, match="2 old answers and 3 evaluation rows"):
        measure(EvalPrediction(np.eye(3)[:, :2], np.array([0, 1, 0])))
    with pytest.raises(ValueError, match="exactly one of old_predictions and old_model"):
        flip_metrics()
    with pytest.raises(ValueError, match="old_model needs dataset"):
        flip_metrics(old_model=bert())


def test_a_callback_reports_in_a_stock_trainer_and_the_best_model_goes_by_it(tmp_path):
    rows, old = texts(40, seed=5), bert(seed=2)
    flips = FlipCallback(old_model=old, dataset=rows, processor=tokenizer())
    run = stock(
        tmp_path, rows, callbacks=[flips, EarlyStoppingCallback(3)], save_strategy="epoch", num_train_epochs=3,
        metric_for_best_model="eval_nfr", greater_is_better=False, load_best_model_at_end=True,
    )  # fmt: skip
    run.train()
    seen = [entry["eval_nfr"] for entry in run.state.log_history if "eval_nfr" in entry]
    assert len(seen) == 3
    assert run.state.best_metric == min(seen)
    found = run.evaluate()
    expected = count_flips(table(old, rows).predictions, table(run.model, rows).predictions, table(old, rows).labels)
    assert found["eval_nfr"] == pytest.approx(expected.nfr)
    assert found["eval_nfr"] == pytest.approx(min(seen))


@pytest.mark.parametrize("kind", ["names", "indices", "scores"])
def test_a_callback_asks_any_model_by_a_function(kind):
    """As SetFit and TRL call it: `on_evaluate` with the model and a dictionary of metrics."""
    old = Predictions([0, 1, 2], ["a", "b", "b"], ["a", "b", "a"], label_names=["a", "b"])
    answers = {"names": ["b", "b", "b"], "indices": [1, 1, 1], "scores": [[0.1, 0.9]] * 3}[kind]
    flips = FlipCallback(old, answer=lambda model: answers)
    metrics, state = {"eval_loss": 1.0}, TrainerState(global_step=4)
    state.log_history.append({"eval_loss": 1.0, "step": 4})
    flips.on_evaluate(None, state, None, metrics=metrics, model=object())
    assert metrics["eval_nfr"] == pytest.approx(1 / 3)
    assert metrics["eval_pfr"] == pytest.approx(1 / 3)
    assert state.log_history[-1]["eval_nfr"] == metrics["eval_nfr"]
    with pytest.raises(ValueError, match="2 answers to 3 rows"):
        FlipCallback(old, answer=lambda model: ["a", "b"]).on_evaluate(None, state, None, metrics={}, model=object())


def test_what_a_callback_cannot_measure_is_refused():
    with pytest.raises(ValueError, match="Neither dataset nor answer"):
        FlipCallback(Predictions([0], ["a"], ["a"]))
    with pytest.raises(TypeError, match="must be a Predictions table"):
        FlipCallback([0, 1], answer=lambda model: [0, 1])


def test_a_cross_encoder_of_sentence_transformers(tmp_path):
    sentence_transformers = pytest.importorskip("sentence_transformers")
    from sentence_transformers.cross_encoder import CrossEncoderTrainer, CrossEncoderTrainingArguments
    from sentence_transformers.cross_encoder.losses import CrossEntropyLoss

    bert(seed=1).save_pretrained(tmp_path / "start")
    tokenizer().save_pretrained(tmp_path / "start")
    model = sentence_transformers.CrossEncoder(str(tmp_path / "start"), num_labels=len(NAMES))
    raw = texts(24, seed=5, tokenized=False)
    pairs = [(text, "w1") for text in raw["text"]]
    labels = [NAMES[label] for label in raw["label"]]
    old = Predictions(list(range(24)), labels, labels, label_names=NAMES)  # an old model that is always right
    train = Dataset.from_dict({"first": raw["text"], "second": ["w1"] * 24, "label": raw["label"]})
    args = CrossEncoderTrainingArguments(
        str(tmp_path / "out"), num_train_epochs=1, eval_strategy="epoch", use_cpu=True, report_to="none", seed=7
    )
    run = CrossEncoderTrainer(
        model, args, train_dataset=train, eval_dataset=train, loss=CrossEntropyLoss(model),
        callbacks=[FlipCallback(old, answer=lambda encoder: encoder.predict(pairs, show_progress_bar=False))],
    )  # fmt: skip
    run.train()
    metrics = run.evaluate()
    right = model.predict(pairs, show_progress_bar=False).argmax(-1) == np.array(raw["label"])
    assert metrics["eval_nfr"] == pytest.approx(1 - right.mean())


def table_of_texts(rows):
    """Texts, and an old model that is always right about them."""
    raw = texts(rows, seed=5, tokenized=False)
    labels = [NAMES[label] for label in raw["label"]]
    return raw, Predictions(list(range(rows)), labels, labels, label_names=NAMES)


def test_setfit(tmp_path):
    setfit = pytest.importorskip("setfit")
    from sklearn.linear_model import LogisticRegression

    bert(seed=1).save_pretrained(tmp_path / "start")
    tokenizer().save_pretrained(tmp_path / "start")
    model = setfit.SetFitModel.from_pretrained(str(tmp_path / "start"), labels=NAMES)
    raw, old = table_of_texts(16)
    asked = []

    def answer(body):
        asked.append(body)
        if len(asked) == 1:
            return None
        embeddings = body.encode(list(raw["text"]), show_progress_bar=False)
        return LogisticRegression().fit(embeddings, raw["label"]).predict(embeddings)

    args = setfit.TrainingArguments(
        str(tmp_path / "out"), max_steps=4, batch_size=8, eval_strategy="steps", eval_steps=2, report_to="none"
    )
    rows = Dataset.from_dict({"text": raw["text"], "label": raw["label"]})
    flips = FlipCallback(old, answer=answer)
    seen = []
    flips_on_evaluate = flips.on_evaluate

    def on_evaluate(args, state, control, **kwargs):
        flips_on_evaluate(args, state, control, **kwargs)
        seen.append(dict(kwargs["metrics"]))

    flips.on_evaluate = on_evaluate
    setfit.Trainer(model=model, args=args, train_dataset=rows, eval_dataset=rows, callbacks=[flips]).train()
    assert "eval_nfr" not in seen[0]
    assert 0 <= seen[1]["eval_nfr"] == pytest.approx(1 - seen[1]["eval_accuracy"])


def test_a_trainer_of_trl(tmp_path):
    trl = pytest.importorskip("trl")
    raw, old = table_of_texts(16)
    rows = Dataset.from_dict({"chosen": raw["text"], "rejected": list(reversed(raw["text"]))})
    model, reader = bert(seed=1, names=["reward"]), tokenizer()
    reader.eos_token = reader.sep_token or reader.pad_token
    args = trl.RewardConfig(
        str(tmp_path), max_steps=2, eval_strategy="steps", eval_steps=2, use_cpu=True, report_to="none", bf16=False
    )
    run = trl.RewardTrainer(
        model, args, train_dataset=rows, eval_dataset=rows, processing_class=reader,
        callbacks=[FlipCallback(old, answer=lambda reward: [NAMES[0]] * 16)],
    )  # fmt: skip
    run.train()
    wrong = sum(label != 0 for label in raw["label"]) / 16
    assert [entry["eval_nfr"] for entry in run.state.log_history if "eval_nfr" in entry] == [pytest.approx(wrong)]
