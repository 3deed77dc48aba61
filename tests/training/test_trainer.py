"""What swapping `Trainer` for `FocalDistillTrainer` keeps, and what it adds."""

import numpy as np
import pytest
import torch
from training_kit import (
    arguments,
    bert,
    distance,
    images,
    losses,
    roberta,
    texts,
    timm_model,
    tokenizer,
    trainer,
    weights,
)
from transformers import DataCollatorWithPadding, EarlyStoppingCallback, HfArgumentParser, Trainer, TrainingArguments

from hf_pct.flips.counts import count_flips
from hf_pct.training import FocalDistillArguments, FocalDistillTrainer, PCTArguments, PCTrainer


class Corrected(Trainer):
    """The stock Trainer, told the truth about who divides the loss."""

    loss_is_scaled_for_ga = False

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.model_accepts_loss_kwargs = False  # what transformers 5.0 goes by


DIVIDES = hasattr(Trainer, "loss_is_scaled_for_ga")  # the stock label smoother divides as it says, since then


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_without_weights_it_is_the_stock_trainer(tmp_path, smoothing):
    data, settings = texts(), {"gradient_accumulation_steps": 4, "per_device_train_batch_size": 4}
    ours = trainer(tmp_path, train=data, alpha=0, beta=0, label_smoothing_factor=smoothing, **settings)
    ours.train()
    plain = {**arguments(tmp_path, label_smoothing_factor=smoothing, **settings).to_dict()}
    names = TrainingArguments.__dataclass_fields__
    stock = (Trainer if smoothing and DIVIDES else Corrected)(
        bert(seed=1),
        TrainingArguments(**{name: value for name, value in plain.items() if name in names and value is not None}),
        train_dataset=data,
        data_collator=DataCollatorWithPadding(tokenizer()),
    )
    stock.train()
    assert distance(ours.model, stock.model) < 1e-6
    np.testing.assert_allclose(losses(ours), losses(stock), atol=1e-5)


# Adam divides a wrong scale away, and clipping hides it
PLAIN_SGD = {"optim": "sgd", "learning_rate": 0.1, "max_grad_norm": 1000.0}
MODELS = {"text": (bert, texts), "roberta": (roberta, texts), "vit": (timm_model, images)}


@pytest.mark.parametrize("kind", MODELS)
def test_sixteen_at_once_equals_four_by_four(tmp_path, kind):
    model, data = MODELS[kind]
    trained = []
    for size, steps in ((16, 1), (4, 4)):
        run = trainer(
            tmp_path,
            model=model(seed=1),
            train=data(40),  # the last step has 8 rows: 8 at once, or 4 and 4
            old_model=model(seed=2),
            per_device_train_batch_size=size,
            gradient_accumulation_steps=steps,
            num_train_epochs=2,
            **PLAIN_SGD,
        )
        run.train()
        trained.append(run)
    assert distance(trained[0].model, trained[1].model) < 1e-5
    np.testing.assert_allclose(losses(trained[0]), losses(trained[1]), atol=1e-4)


def test_a_ragged_last_batch_weighs_each_row_the_same(tmp_path):
    trained = []
    for size, steps in ((16, 1), (4, 4)):
        run = trainer(
            tmp_path, train=texts(22), per_device_train_batch_size=size, gradient_accumulation_steps=steps, **PLAIN_SGD
        )  # 6 rows are left: as one batch, or as 4 and 2
        run.train()
        trained.append(run.model)
    assert distance(*trained) < 1e-5


def test_a_resnet_with_frozen_statistics_splits_batches_too(tmp_path):
    trained = []
    for size, steps in ((16, 1), (4, 4)):
        model = timm_model("resnet10t", seed=1)
        for module in model.modules():
            if isinstance(module, torch.nn.BatchNorm2d):
                module.train = lambda mode=True, module=module: module  # stays in evaluation
                module.training = False
        run = trainer(
            tmp_path, model=model, train=images(32, size=32), old_model=timm_model("resnet10t", seed=2),
            per_device_train_batch_size=size, gradient_accumulation_steps=steps, **PLAIN_SGD,
        )  # fmt: skip
        run.train()
        trained.append(run.model)
    assert distance(*trained) < 1e-5


def test_every_parameter_moves_and_the_old_model_does_not(tmp_path):
    old = bert(seed=2)
    before_old, run = weights(old), trainer(tmp_path, old_model=old, reference="live")
    before = weights(run.model)
    run.train()
    assert all((before[name] != value).any() for name, value in run.model.named_parameters())
    assert distance(before_old, old) == 0
    assert all(value.grad is None for value in old.parameters())


def test_terms_are_logged_by_name_and_add_up(tmp_path):
    run = trainer(tmp_path)
    run.train()
    entries = [entry for entry in run.state.log_history if "loss" in entry]
    assert len(entries) == 3
    for entry in entries:
        assert entry["loss"] == pytest.approx(entry["loss_ce"] + entry["loss_distillation"], abs=1e-5)


def test_flips_are_reported_at_every_evaluation(tmp_path):
    held_out, old = texts(40, seed=5), bert(seed=2)
    run = trainer(tmp_path, old_model=old, eval_dataset=held_out, eval_strategy="epoch", num_train_epochs=2)
    run.train()
    reported = [entry for entry in run.state.log_history if "eval_nfr" in entry]
    assert len(reported) == 2
    batch = DataCollatorWithPadding(tokenizer())(
        [{key: row[key] for key in ("input_ids", "attention_mask")} for row in held_out]
    )
    with torch.no_grad():
        old_answers, answers = (model.eval()(**batch).logits.argmax(-1).numpy() for model in (old, run.model))
    flips = count_flips(old_answers, answers, np.array(held_out["label"]))
    last = reported[-1]
    assert last["eval_nfr"] == pytest.approx(flips.nfr)
    assert last["eval_pfr"] == pytest.approx(flips.pfr)
    assert last["eval_relative_nfr"] == pytest.approx(flips.relative_nfr)
    assert last["eval_accuracy"] == pytest.approx(flips.new_accuracy)
    assert last["eval_old_accuracy"] == pytest.approx(flips.old_accuracy)


def test_predict_and_own_metrics_see_plain_labels(tmp_path):
    seen = []

    def own(prediction):
        seen.append(prediction.label_ids)
        return {"rows": len(prediction.label_ids), "accuracy": -1.0}

    held_out = texts(20, seed=5)
    run = trainer(tmp_path, compute_metrics=own)
    output = run.predict(held_out)
    assert output.label_ids.tolist() == held_out["label"]
    assert seen[0].tolist() == held_out["label"]
    assert output.metrics["test_rows"] == 20
    assert output.metrics["test_accuracy"] == -1.0
    assert 0 <= output.metrics["test_nfr"] <= 1


def test_several_evaluation_sets_by_name(tmp_path):
    sets = {"a": texts(10, seed=1), "b": texts(12, seed=2)}
    workers = {"dataloader_num_workers": 1, "dataloader_persistent_workers": True}
    metrics = trainer(tmp_path, eval_dataset=sets, **workers).evaluate()
    for name, rows in sets.items():
        alone = trainer(tmp_path, eval_dataset=rows).evaluate()
        assert metrics[f"eval_{name}_nfr"] == pytest.approx(alone["eval_nfr"])
        assert metrics[f"eval_{name}_loss"] == pytest.approx(alone["eval_loss"], rel=1e-5)


def test_metrics_batch_by_batch_are_the_same(tmp_path):
    held_out = texts(40, seed=5)
    at_once = trainer(tmp_path, eval_dataset=held_out).evaluate()
    in_batches = trainer(tmp_path, eval_dataset=held_out, batch_eval_metrics=True).evaluate()
    for name in ("eval_nfr", "eval_pfr", "eval_accuracy"):
        assert at_once[name] == pytest.approx(in_batches[name])


def test_the_best_model_has_the_fewest_negative_flips(tmp_path):
    run = trainer(
        tmp_path, eval_dataset=texts(60, seed=5), eval_strategy="epoch", save_strategy="epoch", num_train_epochs=4,
        metric_for_best_model="nfr", load_best_model_at_end=True, callbacks=[EarlyStoppingCallback(2)],
    )  # fmt: skip
    assert run.args.greater_is_better is False
    run.train()
    seen = [entry["eval_nfr"] for entry in run.state.log_history if "eval_nfr" in entry]
    assert run.state.best_metric == min(seen)
    assert run.evaluate()["eval_nfr"] == pytest.approx(min(seen))


@pytest.mark.parametrize("method", ["naive", "kd", "fd-kl", "fd-lm", "fd-dynamic"])
def test_every_method_trains(tmp_path, method):
    run = trainer(tmp_path, method=method)
    before = weights(run.model)
    run.train()
    assert distance(before, run.model) > 0
    assert np.isfinite(losses(run)).all()


def test_method_none_needs_no_old_model(tmp_path):
    run = trainer(tmp_path, method="none", old_model=None, eval_dataset=texts(10, seed=5))
    run.train()
    assert "eval_nfr" not in run.evaluate()
    assert run.evaluate()["eval_accuracy"] >= 0


def test_the_base_trainer_reports_flips_of_plain_training(tmp_path):
    settings = {name: value for name, value in arguments(tmp_path).to_dict().items() if value is not None}
    known = {name: settings[name] for name in PCTArguments.__dataclass_fields__ if name in settings}
    run = PCTrainer(
        bert(seed=1), PCTArguments(**known), train_dataset=texts(), eval_dataset=texts(20, seed=5),
        data_collator=DataCollatorWithPadding(tokenizer()), old_model=bert(seed=2),
    )  # fmt: skip
    run.train()
    assert "eval_nfr" in run.evaluate()
    assert all("loss_distillation" not in entry for entry in run.state.log_history)


def test_resumed_equals_unbroken(tmp_path):
    settings = {"save_strategy": "steps", "save_steps": 2, "num_train_epochs": 2, "train": texts(48)}
    whole = trainer(tmp_path / "a", model=bert(seed=1, dropout=0.1), **settings)
    whole.train()
    resumed = trainer(tmp_path / "a", model=bert(seed=3, dropout=0.1), **settings)
    resumed.train(resume_from_checkpoint=str(tmp_path / "a" / "checkpoint-4"))
    assert distance(whole.model, resumed.model) < 1e-7
    np.testing.assert_allclose(losses(resumed)[-2:], losses(whole)[-2:], rtol=1e-6)
    for checkpoint in sorted((tmp_path / "a").glob("checkpoint-*"))[1:]:  # killed while it was written
        (checkpoint / "optimizer.pt").write_bytes(b"PK half")
    again = trainer(tmp_path / "a", model=bert(seed=3, dropout=0.1), **settings)
    again.train(resume_from_checkpoint=True)
    assert distance(whole.model, again.model) < 1e-7


def test_settings_come_from_a_command_line(tmp_path):
    (args,) = HfArgumentParser(FocalDistillArguments).parse_args_into_dataclasses(
        ["--output_dir", str(tmp_path), "--old_model", "org/v1", "--method", "fd-kl", "--beta", "10", "--use_cpu"]
    )
    assert (args.old_model, args.method, args.beta, args.alpha, args.pc_weight) == ("org/v1", "fd-kl", 10.0, 1.0, 1.0)
    helps = [field.metadata.get("help") for field in FocalDistillArguments.__dataclass_fields__.values()]
    assert all(helps[len(TrainingArguments.__dataclass_fields__) :])


def test_plain_arguments_are_refused(tmp_path):
    with pytest.raises(TypeError, match="args is TrainingArguments, expected FocalDistillArguments"):
        FocalDistillTrainer(bert(), TrainingArguments(output_dir=str(tmp_path), use_cpu=True))
