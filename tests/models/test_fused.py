"""A fused pair as a model: the same answers as the policy on tables, from objects and from a folder."""

import json

import numpy as np
import pytest
from tiny_models import INTENTS, tiny_bert

import hf_pct
from hf_pct.models.ensembles import FusedModel, save_fused
from hf_pct.policies.fusion import Fusion

GATE = Fusion("gate", 0.4, (1.3, 0.8), (0.7, -0.6, 0.1, 0.05))


@pytest.fixture
def predict(text_dataset, tmp_path):
    def run(model, **options):
        return hf_pct.predict(model, text_dataset, progress=False, cache_dir=tmp_path / "cache", **options)

    return run


@pytest.mark.parametrize("fusion", [GATE, Fusion("surer", 0.52)])
def test_the_model_answers_as_the_policy_does(predict, text_models, tmp_path, fusion):
    folder = tmp_path / "fused"
    save_fused(folder, text_models[0], text_models[1], fusion)
    table, old, new = predict(folder), predict(text_models[0]), predict(text_models[1])
    order = [old.label_names.index(name) for name in new.label_names]
    logs = fusion.log_probabilities(old.logits[:, order].astype(float), new.logits.astype(float))
    assert table.label_names == new.label_names
    assert table.logits == pytest.approx(logs, abs=1e-4)


def test_the_ends_are_the_models_and_are_cached_apart(predict, text_models, tmp_path):
    answers = []
    for strength in (0.0, 1.0):
        save_fused(tmp_path / f"at_{strength}", text_models[0], text_models[1], Fusion("surer", strength))
        answers.append(predict(tmp_path / f"at_{strength}").predictions)
    assert (answers[0] == predict(text_models[1]).predictions).all()
    assert (answers[1] == predict(text_models[0]).predictions).all()


def test_added_classes_come_from_the_model_that_knows_them(predict, tokenizer):
    old, new = tiny_bert(INTENTS[:-1], 0), tiny_bert(INTENTS, 1)
    table = predict(FusedModel(old, new, GATE, processor=tokenizer))
    assert set(table.label_names) == set(INTENTS)
    assert np.exp(table.logits).sum(-1) == pytest.approx(np.ones(len(table)), abs=1e-4)


def test_damaged_folders_are_refused(text_models, tmp_path):
    with pytest.raises(ValueError, match="is not there"):
        save_fused(tmp_path / "pair", tmp_path / "nothing", text_models[1], GATE)
    path = save_fused(tmp_path / "pair", text_models[0], text_models[1], GATE)
    good = json.loads(path.read_text())
    for change, message in (
        ({"fusion": {"kind": "gate"}}, "is damaged: fusion is"),
        ({"fusion": good["fusion"] | {"strength": 7}}, "strength=7"),
        ({"old": 3}, "is damaged: old is 3"),
        ({"format_version": 9}, "does not describe a fused pair of format 1"),
    ):
        path.write_text(json.dumps(good | change))
        with pytest.raises(ValueError, match=message):
            hf_pct.models.load.load_model(str(tmp_path / "pair"))
