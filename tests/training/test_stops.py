"""A run that cannot work is refused before its first step, and one that breaks stops with a name and a way out."""

import pytest
import torch
from safetensors.torch import load_file
from training_kit import NAMES, arguments, bert, labels_of, roberta, texts, tokenizer, trainer
from transformers import GPT2Config, GPT2ForSequenceClassification, TrainerCallback

from hf_pct.training import DivergenceError, FocalDistillArguments
from hf_pct.training.divergence import LossWatch


def test_no_old_model_and_no_column(tmp_path):
    with pytest.raises(ValueError, match=r"no old model and the training set has no column 'old_logits'.*old_model="):
        trainer(tmp_path, old_model=None)


def test_no_shared_class(tmp_path):
    with pytest.raises(ValueError, match=r"share no class: old 'x', 'y', new 'lights'.*set `id2label`"):
        trainer(tmp_path, old_model=bert(names=["x", "y"]))


def test_a_column_of_the_wrong_width(tmp_path):
    data = texts(8).add_column("old_logits", [[0.0] * 7] * 8)
    with pytest.raises(ValueError, match=r"'old_logits' has 7 logits per row, expected 4.*old_label_names"):
        trainer(tmp_path, train=data, old_model=None)


def test_a_column_with_rows_of_different_lengths(tmp_path):
    data = texts(8).add_column("old_logits", [[0.0] * 4] * 7 + [[0.0] * 3])
    with pytest.raises(ValueError, match="rows of different lengths, expected 4"):
        trainer(tmp_path, train=data, old_model=None)


def test_a_narrower_column_is_fine_when_its_classes_are_named(tmp_path):
    data = texts(16).add_column("old_logits", [[1.0, 0.0]] * 16)
    run = trainer(tmp_path, train=data, old_model=None, old_label_names=NAMES[:2])
    run.train()
    assert run.shared["old"].alignment.added == tuple(NAMES[2:])


def test_nan_in_a_column(tmp_path):
    logits = [[0.0] * 4 for _ in range(8)]
    logits[5][2] = float("nan")
    with pytest.raises(ValueError, match=r"NaN or infinite logits in 1 rows, the first at row 5"):
        trainer(tmp_path, train=texts(8).add_column("old_logits", logits), old_model=None)


def test_an_old_model_that_answers_nan(tmp_path):
    old = bert(seed=2)
    old.classifier.bias.data[0] = float("nan")
    with pytest.raises(ValueError, match="The output of the old model has NaN"):
        trainer(tmp_path, old_model=old).train()
    assert not list((tmp_path / "cache").iterdir())


def test_every_bad_setting_is_named_at_once(tmp_path):
    bad = {"temperature": 0, "alpha": -1, "beta": float("inf"), "pc_weight": -2, "method": "fd", "mixout": 1.0}
    with pytest.raises(ValueError, match="cannot be used") as caught:
        arguments(tmp_path, reference="sometimes", prior_weight_decay=1.0, weight_decay=0.1, **bad)
    for name in (*bad, "reference=", "prior_weight_decay="):
        assert name in str(caught.value)


def test_another_tokenizer_without_raw_text(tmp_path):
    other = tokenizer(("some", "other", "words"))
    data = texts().remove_columns("text")
    with pytest.raises(
        ValueError, match=r"tokenizer .* does not make the inputs.*old_processor=AutoTokenizer"
    ) as caught:
        trainer(tmp_path, train=data, old_model=roberta(), old_processor=other, processing_class=tokenizer())
    assert "reference_columns" in str(caught.value)


def test_another_tokenizer_with_raw_text_is_used_by_itself(tmp_path):
    other = tokenizer(("some", "other", "words"))
    run = trainer(tmp_path, old_model=roberta(), old_processor=other, processing_class=tokenizer())
    assert run.source.old.encoder.columns == ("text",)
    run.train()


def test_an_anchor_without_an_old_model(tmp_path):
    with pytest.raises(ValueError, match=r"ewc_weight, l2_sp_weight.*needs the old model itself"):
        trainer(tmp_path, old_model=None, method="none", l2_sp_weight=1.0)


def test_a_model_for_regression(tmp_path):
    model = bert()
    model.config.problem_type = "regression"
    with pytest.raises(ValueError, match="problem_type is 'regression', expected single-label"):
        trainer(tmp_path, model=model)


def test_an_adapter_that_is_not_loaded(tmp_path):
    with pytest.raises(ValueError, match=r"old_adapter='v1' is not loaded .*model.load_adapter"):
        trainer(tmp_path, old_model=None, old_adapter="v1")


def test_rows_without_labels(tmp_path):
    with pytest.raises(ValueError, match=r"no labels, only .*input_ids.*expected a column 'label' or 'labels'"):
        trainer(tmp_path, train=texts().remove_columns("label")).train()


def test_the_model_itself_is_no_old_model(tmp_path):
    model = bert()
    with pytest.raises(ValueError, match=r"the very model that is trained.*copy.deepcopy"):
        trainer(tmp_path, model=model, old_model=model)


def test_the_new_model_is_not_saved_over_the_old_one(tmp_path):
    for name in ("v1", "v2"):
        bert(seed=2).save_pretrained(tmp_path / name)
        tokenizer().save_pretrained(tmp_path / name)
    for old in (str(tmp_path / "v1"), [tmp_path / "v1", tmp_path / "v2"]):
        with pytest.raises(ValueError, match=r"the folder of the old model: .* compared with itself"):
            trainer(tmp_path, old_model=old, output_dir=str(tmp_path / "v2" / ".." / "v1"))


def test_an_old_model_whose_files_are_changed_meanwhile(tmp_path):
    bert(seed=2).save_pretrained(tmp_path / "old")
    tokenizer().save_pretrained(tmp_path / "old")
    run = trainer(tmp_path, old_model=str(tmp_path / "old"), eval_dataset=texts(20, seed=5))
    run.train()
    run.evaluate(texts(20, seed=6))  # loaded once more
    run.train()
    bert(seed=9).save_pretrained(tmp_path / "old")
    with pytest.raises(ValueError, match=r"old is no longer the model that this run began with"):
        run.evaluate(texts(20, seed=7))


def test_a_decoder_without_a_padding_token(tmp_path):
    shape = {"vocab_size": 62, "n_embd": 16, "n_layer": 1, "n_head": 2, "n_positions": 32, "eos_token_id": 1}
    decoder = GPT2ForSequenceClassification(GPT2Config(**shape, **labels_of(NAMES)))
    for models in ({"model": decoder}, {"old_model": decoder}):
        with pytest.raises(ValueError, match=r"has no padding token.*tokenizer\.pad_token = tokenizer\.eos_token"):
            trainer(tmp_path, **models).train()


@pytest.mark.parametrize("problem", ["multi_label_classification", "regression"])
def test_an_old_model_for_another_problem(tmp_path, problem):
    old = bert(seed=2)
    old.config.problem_type = problem
    with pytest.raises(ValueError, match=f"problem_type of .* is '{problem}', expected single-label"):
        trainer(tmp_path, old_model=old)


@pytest.mark.parametrize("reference", ["live", "cached"])
def test_fewer_names_than_the_old_model_has_classes(tmp_path, reference):
    with pytest.raises(ValueError, match="output of the old model has 4 logits per row, expected 3"):
        trainer(tmp_path, old_label_names=NAMES[:3], reference=reference).train()


def test_a_folder_that_is_no_model(tmp_path):
    with pytest.raises(ValueError, match="nowhere"):
        trainer(tmp_path, old_model=str(tmp_path / "nowhere"), processing_class=tokenizer())


# ---- divergence


def run_away(tmp_path, **changes):
    settings = {"learning_rate": 1e4, "max_grad_norm": 0.0, "optim": "sgd", "num_train_epochs": 20}
    settings["reference_weight"] = 100.0
    return trainer(tmp_path, **{**settings, **changes})


def test_a_runaway_term_is_named_with_the_setting_to_change(tmp_path):
    with pytest.raises(DivergenceError) as caught:
        run_away(tmp_path).train()
    message = str(caught.value)
    assert caught.value.term == "distillation"
    assert "reference_weight=100" in message
    assert "learning_rate (now 10000)" in message
    assert "max_grad_norm" in message
    assert "No checkpoint had been written" in message


def test_cross_entropy_alone_is_named_when_it_is_alone(tmp_path):
    with pytest.raises(DivergenceError, match="the 'ce' term") as caught:
        run_away(tmp_path, method="none", old_model=None, learning_rate=1e20).train()
    assert "_weight" not in str(caught.value)


def test_the_last_good_checkpoint_is_kept_and_named(tmp_path):
    """The learning rate jumps in step 4: what it leaves is finite, and would replace the checkpoint before it."""
    settings = {
        "save_strategy": "steps",
        "save_steps": 1,
        "save_total_limit": 1,
        "reference_weight": 1.0,
        "learning_rate": 0.0,
    }
    run = run_away(tmp_path, **settings)

    class Jump(TrainerCallback):
        def on_pre_optimizer_step(self, args, state, control, optimizer, **kwargs):
            for group in optimizer.param_groups:
                group["lr"] = 1e10 if state.global_step == 3 else 1e-3

    run.add_callback(Jump)
    with pytest.raises(DivergenceError, match=r"last good checkpoint is .*checkpoint-3\."):
        run.train()
    assert [path.name for path in tmp_path.glob("checkpoint-*")] == ["checkpoint-3"]
    saved = load_file(tmp_path / "checkpoint-3" / "model.safetensors")
    assert max(value.abs().max() for value in saved.values()) < 100


def test_weights_that_break_in_the_last_step_are_not_returned(tmp_path):
    with pytest.raises(DivergenceError, match="at step 1"):
        run_away(tmp_path, max_steps=1, learning_rate=1e30).train()


def test_a_high_start_is_no_divergence():
    watch = LossWatch(limit=20, patience=10)
    for _ in range(9):
        watch.add({"ce": torch.tensor(100.0)}, {"ce": torch.tensor(1.0)})
    watch.add({"ce": torch.tensor(3.0)}, {"ce": torch.tensor(1.0)})
    for _ in range(9):
        watch.add({"ce": torch.tensor(100.0)}, {"ce": torch.tensor(1.0)})
    with pytest.raises(DivergenceError, match=r"100 times what all-zero logits pay, for 10 batches"):
        watch.add({"ce": torch.tensor(100.0)}, {"ce": torch.tensor(1.0)})


def test_a_limit_of_zero_stops_only_at_nan():
    watch = LossWatch(limit=0)
    for _ in range(30):
        watch.add({"ce": torch.tensor(1e9)}, {"ce": torch.tensor(1.0)})
    with pytest.raises(DivergenceError, match="is nan"):
        watch.add({"ce": torch.tensor(float("nan"))}, {"ce": torch.tensor(1.0)})


def test_help_texts_name_the_default_paper_values():
    fields = FocalDistillArguments.__dataclass_fields__
    names = ("every_row", "right_rows", "temperature")
    assert tuple(fields[name].default for name in names) == (1.0, 5.0, 100.0)
