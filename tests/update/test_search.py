"""The search: what is measured, what is dropped, and what an update survives."""

import json
from tempfile import TemporaryDirectory

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from update_kit import TRAINING, tiny_rows, tiny_setting, write_rows

from hf_pct.flips.choice.choose import Candidate
from hf_pct.flips.choice.curve import AlphaCurve
from hf_pct.merging.merger import BCWIMerger
from hf_pct.methods.base import WeightMethod
from hf_pct.methods.registry import find_method
from hf_pct.update import Contract, update
from hf_pct.update import candidates as candidates_module
from hf_pct.update import search as search_module
from hf_pct.update.candidates import make_merger


@pytest.fixture(scope="module")
def setting(tmp_path_factory, tokenizer):
    return tiny_setting(tmp_path_factory.mktemp("search"), tokenizer, (160, 120, 50), seed=1)


def run(setting, output, **options):
    settings = {"training": TRAINING, "progress": False, "candidates_dir": output, **options}
    return update(setting["old"], setting["train"], setting["dev"], **settings)


def test_a_method_that_replaces_a_training_argument_is_tried_whatever_the_user_set(setting, tmp_path):
    training = {**TRAINING, "weight_decay": 0.01}
    result = run(setting, tmp_path, methods=["plain", "prior-weight-decay"], budget=9, training=training)
    assert any(candidate.name.startswith("prior-weight-decay") for candidate in result.candidates)


def test_a_treatment_that_diverges_is_dropped_with_its_reason_and_the_others_go_on(setting, tmp_path, monkeypatch):
    lines = []
    monkeypatch.setattr(find_method("ewc", WeightMethod), "strengths", ({"ewc_weight": 100.0},))
    # steps that are far too large for so strong a pull, and fine without it
    training = {**TRAINING, "optim": "sgd", "learning_rate": 0.1, "max_grad_norm": 0.0, "max_steps": 30}
    result = run(setting, tmp_path, methods=["plain", "ewc"], budget=2, training=training, announce=lines.append)
    assert "diverged at step" in result.dropped["ewc ewc_weight 100"]
    assert [candidate.name for candidate in result.candidates] == ["plain"]
    assert any(line.startswith("ewc ewc_weight 100: dropped, it diverged") for line in lines)


def test_a_plain_training_that_diverges_says_that_the_recipe_is_wrong(setting, tmp_path):
    training = {**TRAINING, "divergence_limit": 1e-9, "max_steps": 12}
    with pytest.raises(ValueError, match="Lower learning_rate"):
        run(setting, tmp_path / "plain", methods=["plain"], training=training)
    with pytest.raises(ValueError, match="No candidate is left to choose from: fd-lm light diverged"):
        run(setting, tmp_path / "light", methods=["fd-lm"], training=training)


def test_soups_are_measured_once_when_their_last_member_is_there(setting, tmp_path, monkeypatch):
    sizes = []
    sweep = candidates_module._sweep
    monkeypatch.setattr(candidates_module, "_sweep", lambda shop, recipes, *rest: (
        sizes.append((recipes[0].family, len(recipes))) or sweep(shop, recipes, *rest)))  # fmt: skip
    result = run(setting, tmp_path, methods=["plain", "fd-lm", "soup"], budget=4)
    assert sizes[:4] == [("fd-lm light", 1), ("plain", 1), ("fd-lm light", 3), ("fd-lm light", 4)]
    assert len(sizes) <= 5, "and the chosen one once more, in finer steps"
    assert "soup of 3 fd-lm light" in {candidate.name for candidate in result.candidates}


def test_all_that_goes_on_lightly_from_the_old_model_is_one_more_soup(setting, tmp_path):
    lines, options = [], {"methods": ["plain", "fd-lm", "soup"], "budget": 2}
    result = run(setting, tmp_path / "work", output_dir=tmp_path / "next", announce=lines.append, **options)
    mixed = result.candidates[-1]
    assert mixed.name == "soup of 1 fd-lm light and 1 plain"
    assert any(f"at no training: {mixed.name}" in line for line in lines)
    assert not mixed.plain, "no yardstick: one of its parts was treated"
    parts = [load_file(folder / "model.safetensors") for folder in mixed.folders]
    with TemporaryDirectory() as scratch:
        rows = result.workshop.prepared(result.workshop.old, result.workshop.data.dev)
        merged = make_merger(result.workshop, mixed.recipes, rows, scratch)
        merged.set_alpha(0.0)
        weights = merged.model.state_dict()
    name = "classifier.weight"
    assert torch.allclose(weights[name], (parts[0][name] + parts[1][name]) / 2)
    names = [entry["name"] for entry in json.loads((tmp_path / "next" / "pct_update.json").read_text())["candidates"]]
    assert names == ["fd-lm light", "plain", mixed.name]


@pytest.mark.parametrize("methods", [["plain", "fd-lm"], ["plain", "soup"]], ids=["no soups", "one family"])
def test_nothing_is_mixed_where_no_soup_is_asked_for_or_one_family_is_there(setting, tmp_path, methods):
    result = run(setting, tmp_path, methods=methods, budget=2)
    assert not [candidate.name for candidate in result.candidates if candidate.name.startswith("soup")]


def test_a_family_that_is_behind_is_not_mixed_in(setting, tmp_path, monkeypatch):
    monkeypatch.setattr(search_module, "is_dominated", lambda name, *rest: name == "fd-lm light")
    result = run(setting, tmp_path, methods=["plain", "fd-lm", "soup"], budget=2)
    assert [candidate.name for candidate in result.candidates] == ["fd-lm light", "plain"]


def test_alphas_that_surely_lose_too_much_are_not_measured_unless_rows_must_prove(setting, tmp_path, monkeypatch):
    monkeypatch.setattr(candidates_module, "_lost_for_sure", lambda merged, unmerged, allowed: True)
    short = run(setting, tmp_path / "short", budget=1).candidates[0].curve.alphas.tolist()
    contract = Contract(margin=0.02, max_nfr=0.5, certify=True)
    whole = run(setting, tmp_path / "whole", budget=1, contract=contract).candidates[0].curve.alphas.tolist()
    assert short == [0.0, 0.1, 1.0], "the closer look beside alpha 0 is one step"
    assert whole == list(candidates_module.ALPHAS)


def test_alphas_are_measured_in_coarse_steps_and_finely_beside_the_choice(setting, tmp_path, monkeypatch):
    asked = []
    logits_at = BCWIMerger.logits_at
    monkeypatch.setattr(BCWIMerger, "logits_at", lambda self, alpha, *rest: (
        asked.append(alpha) or logits_at(self, alpha, *rest)))  # fmt: skip
    monkeypatch.setattr(candidates_module, "_is_last", lambda alpha, right, allowed: alpha >= 0.6)
    result = run(setting, tmp_path, methods=["plain", "fd-lm"], budget=2, contract=Contract(margin=0.05))
    first, other = (candidate.curve.alphas.tolist() for candidate in result.candidates)
    coarse = [0.0, 0.2, 0.4, 0.6, 1.0]
    assert sorted([first == coarse, other == coarse]) == [False, True]
    finer = sorted({*first, *other} - set(coarse))
    assert asked == [*coarse[:-1], *coarse[:-1], 0.0, *finer]
    assert any(np.isclose(result.shipped.alpha, [alpha - 0.1, alpha, alpha + 0.1]).any() for alpha in finer)
    again = run(setting, tmp_path, methods=["plain", "fd-lm"], budget=2, contract=Contract(margin=0.05))
    assert asked == [*coarse[:-1], *coarse[:-1], 0.0, *finer], "answers are kept"
    assert again.shipped == result.shipped


def test_a_loss_is_sure_when_rows_prove_it():
    unmerged = np.ones(500, bool)
    assert not candidates_module._lost_for_sure(unmerged, unmerged, 0.005)
    assert not candidates_module._lost_for_sure(np.arange(500) >= 10, unmerged, 0.005), "2 points may be noise"
    assert candidates_module._lost_for_sure(np.arange(500) >= 50, unmerged, 0.005)


def test_a_candidate_is_dropped_only_when_it_is_surely_behind():
    rows = np.arange(500)
    old = rows < 400
    plain = old & (rows >= 8) | (rows >= 480)  # 8 flips, 20 rows mended
    alphas = {0.0: plain, 0.5: old & (rows >= 4) | (rows >= 488)}

    def worse_by(count):
        lost = (rows >= 100) & (rows < 100 + count)  # rows that both models had right
        return AlphaCurve.of(old, {alpha: right & ~lost for alpha, right in alphas.items()})

    yardstick = Candidate("plain", AlphaCurve.of(old, alphas), plain=True)
    for count, dropped in ((4, False), (60, True)):
        listed = [yardstick, Candidate("treated", worse_by(count))]
        assert candidates_module.is_dominated("treated", listed, Contract(margin=0.005)) is dropped
        assert not candidates_module.is_dominated("plain", listed, Contract(margin=0.005))


def test_late_alphas_are_measured_only_where_nothing_is_lost_on_the_way():
    unmerged, worse = np.ones(500, bool), np.arange(500) >= 1
    last = candidates_module._is_last
    assert not last(0.5, {0.0: unmerged, 0.5: worse}, 0.005), "half of the way is not late"
    assert last(0.6, {0.0: unmerged, 0.6: worse}, 0.005)
    assert not last(0.6, {0.0: unmerged, 0.6: unmerged}, 0.005)
    assert last(0.1, {0.0: unmerged, 0.1: np.arange(500) >= 50}, 0.005)


def test_rows_of_added_classes_begin_alike_so_that_their_soup_is_a_mean(setting, tmp_path, tokenizer):
    added = [{**row, "label": "added"} for row in tiny_rows(30, seed=9)]
    train = write_rows(tmp_path / "train.jsonl", [*tiny_rows(60, seed=8), *added])
    result = update(
        setting["old"], train, setting["dev"], budget=3, training={**TRAINING, "max_steps": 1, "learning_rate": 1e-12},
        contract=Contract(margin=0.02), candidates_dir=tmp_path / "work", progress=False, methods=["fd-lm", "soup"],
    )  # fmt: skip
    soup = next(candidate for candidate in result.candidates if candidate.name.startswith("soup"))
    heads = [result.workshop.start(recipe).classifier.weight for recipe in soup.recipes]
    assert len({recipe.seed for recipe in soup.recipes}) == len(heads) > 1
    assert all(torch.equal(head, heads[0]) for head in heads)
