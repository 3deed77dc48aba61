"""Methods that ask for features or for a second reference, in a trainer: cached is live, and what is refused."""

import pytest
import torch
from training_kit import NAMES, bert, images, roberta, texts, timm_model, tokenizer, trainer, weights

from hf_pct import Ensemble
from hf_pct.models.ensembles.folders import save_ensemble
from hf_pct.models.features import FeatureTap


@pytest.mark.parametrize("method", ["bct", "ract"])
def test_cached_features_train_as_live_ones(tmp_path, method):
    trained = {}
    for reference in ("live", "cached"):
        run = trainer(tmp_path / reference, method=method, reference=reference, eval_dataset=texts(16, seed=3))
        run.train()
        trained[reference] = weights(run.model)
        metrics = run.evaluate()
        assert "eval_nfr" in metrics
        assert f"loss_{method}" in next(entry for entry in run.state.log_history if "loss" in entry)
    for name, value in trained["live"].items():
        torch.testing.assert_close(value, trained["cached"][name], atol=1e-5, rtol=1e-4)


def old_head_errors(run, head) -> float:
    """The share of training rows that the old head gets wrong on the new model's features."""
    rows = [run.train_dataset[index] for index in range(48)]
    inputs = run.data_collator([{k: v for k, v in row.items() if k != "text"} for row in rows])
    labels = inputs.pop("labels")
    with torch.no_grad(), FeatureTap(run.model.eval()) as tap:
        logits = run.model(**inputs).logits
        return float((head(tap.take(inputs, logits)).argmax(-1) != labels).float().mean())


def test_the_old_head_understands_the_new_features_after_training(tmp_path):
    """With bct the old head gets every training row right from the new features; without it, one row in six wrong."""
    old, errors = bert(seed=2), {}
    for method in ("none", "bct"):
        run = trainer(tmp_path / method, method=method, old_model=old, num_train_epochs=6, learning_rate=5e-3)
        run.train()
        errors[method] = old_head_errors(run, old.classifier)
    assert errors["none"] > 0.1, errors
    assert errors["bct"] == 0, errors


@pytest.mark.parametrize("method", ["bct", "ract"])
def test_timm_models_and_other_widths(tmp_path, method):
    old = timm_model(embed_dim=8, seed=1, names=NAMES[:3])
    run = trainer(
        tmp_path, model=timm_model(), train=images(32), old_model=old, method=method, remove_unused_columns=False
    )
    run.train()
    assert all(torch.isfinite(value).all() for value in weights(run.model).values())


def test_a_bounded_term_far_above_idle_is_no_divergence(tmp_path):
    """Cosines over a temperature of 0.001 cost up to 2000 where features of zero cost 3."""
    run = trainer(tmp_path, method="ract", contrast_temperature=0.001, divergence_limit=2.0, num_train_epochs=4)
    run.train()


def test_another_architecture_has_features_too(tmp_path):
    trainer(tmp_path, model=roberta(), method="ract").train()


def test_margin_distils_from_both(tmp_path):
    old, independent = bert(seed=2, names=NAMES[:3]), bert(seed=3)
    run = trainer(tmp_path, method="margin", old_model=old, references={"independent": independent})
    run.train()
    entry = next(entry for entry in run.state.log_history if "loss" in entry)
    assert {"loss_ce", "loss_margin", "loss_margin_independent"} <= set(entry)
    logits, labels = torch.zeros(2, 4), torch.tensor([0, 3])
    biased, plain = (run.loss_terms(logits, {}, labels, training=training)["ce"] for training in (True, False))
    assert biased > plain, "the bias is there in training only"


def test_the_independent_model_may_be_the_folder_of_an_ensemble(tmp_path):
    members = [bert(seed=3), bert(seed=4)]
    for number, member in enumerate(members):
        member.save_pretrained(tmp_path / f"member{number}")
        tokenizer().save_pretrained(tmp_path / f"member{number}")
    save_ensemble(tmp_path / "several", [tmp_path / "member0", tmp_path / "member1"])
    named = {"method": "margin", "old_model": bert(seed=2, names=NAMES[:3])}
    from_folder = trainer(tmp_path / "a", independent_model=str(tmp_path / "several"), **named)
    from_model = trainer(tmp_path / "b", references={"independent": Ensemble(members)}, **named)
    trained = []
    for run in (from_folder, from_model):
        run.train()
        trained.append(weights(run.model))
    for name, value in trained[0].items():
        torch.testing.assert_close(value, trained[1][name])


@pytest.mark.parametrize("method", ["bct", "ract"])
def test_what_has_no_features_is_refused_before_a_step(tmp_path, method):
    column = texts().add_column("old_logits", [[0.0] * 4] * 48)
    with pytest.raises(ValueError, match="a column of logits holds no features"):
        trainer(tmp_path, train=column, old_model=None, method=method)
    members = Ensemble([bert(seed=3), bert(seed=4)])
    with pytest.raises(ValueError, match=rf"method='{method}' needs features(?s:.*)the old model: The last layer of"):
        trainer(tmp_path, old_model=members, method=method)


def test_an_old_head_with_other_classes_is_refused(tmp_path):
    with pytest.raises(ValueError, match="share no class"):
        trainer(tmp_path, old_model=bert(seed=2, names=["w", "x", "y", "z"]), method="bct")


def test_a_reference_that_was_not_named_is_asked_for(tmp_path):
    with pytest.raises(ValueError, match="needs the reference 'independent'"):
        trainer(tmp_path, method="margin")
