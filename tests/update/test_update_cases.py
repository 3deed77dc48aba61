"""What an update tries depends on the case: another tokenizer, added classes, only predictions, two forwards."""

import json

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from tiny_models import INTENTS, WORDS, tiny_bert
from update_kit import TRAINING, tiny_rows, tiny_setting, write_rows

from hf_pct import predict
from hf_pct.flips.choice.prior import ADDED
from hf_pct.models.load import load_model
from hf_pct.update import Contract, update
from hf_pct.update import search as search_module
from hf_pct.update.candidates import ALPHAS, COARSE, right_rows
from hf_pct.update.write import _write_model


@pytest.fixture(scope="module")
def setting(tmp_path_factory, tokenizer):
    return tiny_setting(tmp_path_factory.mktemp("cases"), tokenizer, (140, 100, 60), seed=3)


@pytest.fixture(scope="module")
def other_base(tmp_path_factory, tokenizer):
    """One layer instead of two, and a tokenizer whose words have other numbers: nothing of the old model fits."""
    from tokenizers import Tokenizer, models, pre_tokenizers, processors
    from transformers import BertForSequenceClassification, PreTrainedTokenizerFast

    folder = tmp_path_factory.mktemp("other") / "base"
    words = {word: number for number, word in enumerate(["[PAD]", "[UNK]", "[CLS]", "[SEP]", *reversed(WORDS)])}
    core = Tokenizer(models.WordLevel(words, unk_token="[UNK]"))
    core.pre_tokenizer = pre_tokenizers.Whitespace()
    core.post_processor = processors.TemplateProcessing("[CLS] $A [SEP]", None, [("[CLS]", 2), ("[SEP]", 3)])
    config = tiny_bert().config
    config.num_hidden_layers = 1
    BertForSequenceClassification(config).save_pretrained(folder)
    PreTrainedTokenizerFast(
        tokenizer_object=core, pad_token="[PAD]", unk_token="[UNK]", model_max_length=32
    ).save_pretrained(folder)
    return str(folder)


def run(setting, tmp_path, **options):
    options = {"training": TRAINING, "progress": False, "contract": Contract(margin=0.05)} | options
    old = options.pop("old_model", setting["old"])
    return update(
        old, setting["train"], setting["dev"], test_dataset=setting["test"], output_dir=tmp_path / "new", **options
    )


def test_another_tokenizer_is_distilled_through_the_old_models_own(setting, other_base, tmp_path):
    result = run(setting, tmp_path, base_model=other_base, budget=2)
    names = [candidate.name for candidate in result.candidates]
    assert names == ["plain", "fd-lm medium", "soup of 1 plain and 1 fd-lm medium"]  # the yardstick first
    assert all(candidate.curve.alphas.tolist() == [0.0] for candidate in result.candidates)
    assert "another architecture or tokenizer" in result.plan.to_text()
    distilled = result.candidates[1].folders[0]
    assert load_model(str(distilled)).model.config.num_hidden_layers == 1


def test_trainings_from_the_base_model_are_mixed_where_nothing_can_be_merged(setting, other_base, tmp_path):
    result = run(setting, tmp_path, base_model=other_base, budget=2)
    mixed = result.candidates[-1]
    assert (mixed.name, mixed.mergeable) == ("soup of 1 plain and 1 fd-lm medium", False)
    assert mixed.curve.alphas.tolist() == [0.0]
    starts = [result.workshop.start(recipe).state_dict() for recipe in mixed.recipes]
    assert all(torch.equal(value, starts[1][name]) for name, value in starts[0].items()), "one start, head included"
    folder = tmp_path / "written"
    folder.mkdir()
    _write_model(mixed, 0.0, result.workshop, folder)
    written = load_file(folder / "model.safetensors")
    parts = [load_file(part / "model.safetensors") for part in mixed.folders]
    assert all(torch.allclose(value, (parts[0][name] + parts[1][name]) / 2) for name, value in written.items())
    dev = result.workshop.data.dev
    answers = predict(str(folder), dev.dataset, **result.workshop.data.columns)
    assert np.array_equal(right_rows(answers, dev), mixed.curve.correct[0]), "what was measured is what is written"


def test_the_best_two_are_mixed_even_where_one_is_behind(setting, other_base, tmp_path, monkeypatch):
    monkeypatch.setattr(search_module, "is_dominated", lambda name, *rest: name == "plain")
    result = run(setting, tmp_path, base_model=other_base, budget=2)
    assert result.candidates[-1].name == "soup of 1 plain and 1 fd-lm medium"


def test_a_patient_elodi_student_has_its_members_and_the_old_model(setting, other_base, tmp_path):
    result = run(setting, tmp_path, base_model=other_base, budget=6, methods=["plain", "elodi"])
    assert {candidate.name for candidate in result.candidates} == {"plain", "elodi"}
    assert result.plan.length == 6
    student = json.loads((result.candidates[1].folders[0] / "pct_candidate.json").read_text())
    assert student["length"] == 3
    assert [used["name"] for used in student["uses"]] == ["plain", "member 2", "member 3"]
    too_little = run(setting, tmp_path / "short", base_model=other_base, budget=5, methods=["plain", "elodi"])
    assert [candidate.name for candidate in too_little.candidates] == ["plain"]


def test_added_classes_are_merged_and_margins_are_kept(setting, tmp_path):
    rows = tiny_rows(300, seed=5, labels=[*INTENTS, "timer"])
    train, dev = write_rows(tmp_path / "t.jsonl", rows[:160]), write_rows(tmp_path / "d.jsonl", rows[160:])
    result = update(
        setting["old"], train, dev, training=TRAINING, progress=False, contract=Contract(margin=0.05), budget=3,
        methods=["plain", "margin"], output_dir=tmp_path / "new",
    )  # fmt: skip
    assert result.plan.case.added_classes == 1
    assert result.model.config.num_labels == len(INTENTS) + 1
    names = [candidate.name for candidate in result.candidates]
    assert names[0] == "plain"
    assert names[1].startswith("margin added_bias")
    assert {*COARSE} - {0.8} <= {*result.candidates[0].curve.alphas} <= {*ALPHAS}, "0.8 only where 0.6 loses nothing"
    assert all(candidate.prior is ADDED for candidate in result.candidates if candidate.mergeable)
    assert len(result.ranked["margin, 25% of the length"]) == 3


def test_two_forwards_are_tried_only_when_allowed(setting, tmp_path):
    never = run(setting, tmp_path / "one", budget=1)
    assert not any(candidate.policy for candidate in never.candidates)
    result = run(
        setting, tmp_path / "two", budget=2, allow_two_forwards=True, contract=Contract(max_nfr=0.5, margin=0.5)
    )
    fused = [candidate for candidate in result.candidates if candidate.policy]
    assert {candidate.policy for candidate in fused} == {"fusion"}
    assert len(fused) == 4
    assert all(np.array_equal(f.curve.old_correct, result.candidates[0].curve.old_correct) for f in fused)


def test_a_fused_pair_is_written_and_answers_as_it_was_measured(setting, other_base, tmp_path):
    from dataclasses import replace

    from hf_pct.update.write import write_update

    result = update(
        setting["old"], setting["train"], setting["dev"], budget=1, allow_two_forwards=True, base_model=other_base,
        training=TRAINING, progress=False, candidates_dir=tmp_path / "candidates", methods=["plain", "fusion"],
    )  # fmt: skip
    point = next(p for p in result.choice.points if p.candidate.startswith("fusion (surer)") and p.alpha == 0.5)
    written = write_update(replace(result, shipped=point), result.workshop, tmp_path / "fused")
    assert (tmp_path / "fused" / "pct_fusion.json").is_file() or (tmp_path / "fused" / "new").is_dir()
    answers = predict(str(tmp_path / "fused"), setting["dev"], progress=False)
    assert len(answers) == 100
    assert written.report.counts.total == 100


@pytest.mark.parametrize("logits", [True, False])
def test_only_predictions_of_the_old_model(setting, other_base, tmp_path, logits):
    from hf_pct import Predictions

    tables = []
    for part in ("train", "dev", "test"):
        table = predict(setting["old"], setting[part], progress=False)
        if not logits:
            table = Predictions(table.ids, table.labels, table.predictions)
        table.save(tmp_path / f"{part}.parquet")
        tables.append(str(tmp_path / f"{part}.parquet"))
    result = run(setting, tmp_path, old_model=None, old_predictions=tables, base_model=other_base, budget=2)
    names = {candidate.name for candidate in result.candidates if not candidate.policy}
    distilled = {"fd-lm medium", "soup of 1 plain and 1 fd-lm medium"}
    assert names == {"plain", *(distilled if logits else ())}
    policies = {candidate.policy for candidate in result.candidates if candidate.policy}
    assert policies == ({"fusion", "bayes"} if logits else {"bayes"})
    assert result.report.counts.total == 60
    if result.chosen.policy:
        assert (tmp_path / "new" / "decided.parquet").is_file()
    with pytest.raises(ValueError, match=r"60 of 60 test rows are not in old_predictions"):
        run(setting, tmp_path / "x", old_model=None, old_predictions=tables[:2], base_model=other_base)
    with pytest.raises(ValueError, match="old_predictions need base_model"):
        run(setting, tmp_path / "x", old_model=None, old_predictions=tables)
    with pytest.raises(ValueError, match="got both, expected one of them"):
        run(setting, tmp_path / "x", old_predictions=tables, base_model=other_base)


def test_a_folder_may_be_called_as_the_kit_calls_its_sides(setting, tmp_path, monkeypatch):
    monkeypatch.chdir(setting["root"])
    result = run(setting, tmp_path, old_model="old", methods=["fd-lm"], training=TRAINING | {"max_steps": 1})
    assert result.report is not None
    assert result.report.old.model == "./old"


def test_a_plan_of_strengths_alone_is_run(setting, tmp_path):
    result = run(setting, tmp_path, budget=2, methods=["mixout"])
    assert not result.plan.recipes
    assert len(result.plan.sweeps) == 1
    assert result.candidates
