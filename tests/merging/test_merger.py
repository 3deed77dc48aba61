import copy
import logging

import numpy as np
import pytest
import timm
import torch
from datasets import Dataset
from merging_kit import nudged, tiny_bert
from transformers import TimmWrapperConfig, TimmWrapperForImageClassification

from hf_pct.core.errors import NotComparableError
from hf_pct.core.fingerprints import hash_folder
from hf_pct.flips.choice.margins import row_margins
from hf_pct.flips.compare import compare
from hf_pct.merging.arguments import BCWIArguments
from hf_pct.merging.checkpoints.record import MergeRecord
from hf_pct.merging.checkpoints.replay import replay
from hf_pct.merging.interpolate import interpolate, uniform_soup
from hf_pct.merging.merger import BCWIMerger
from hf_pct.merging.selection import Contract
from hf_pct.merging.sides import widened
from hf_pct.models.batchnorm import batchnorm_layers, recalibrate
from hf_pct.models.fingerprints import weights_fingerprint


@pytest.fixture(scope="module")
def rows():
    generator = torch.Generator().manual_seed(5)
    ids = torch.randint(1, 50, (60, 8), generator=generator)
    labels = torch.randint(0, 3, (60,), generator=generator)
    mask = torch.ones_like(ids)
    columns = {"input_ids": ids, "attention_mask": mask, "labels": labels}
    return Dataset.from_dict({name: value.tolist() for name, value in columns.items()})


def arguments(tmp_path, **options):
    settings = {"use_cpu": True, "report_to": "none", "disable_tqdm": True, "per_device_eval_batch_size": 16}
    return BCWIArguments(output_dir=str(tmp_path / "out"), **{**settings, **options})


def logits_of(model, rows):
    with torch.no_grad():
        inputs = {name: torch.tensor(list(rows[name])) for name in ("input_ids", "attention_mask")}
        return model.eval()(**inputs).logits.numpy()


def model_with(model, state):
    other = copy.deepcopy(model)
    other.load_state_dict(state)
    return other


def test_sweep_is_the_models_one_by_one(tmp_path, rows, old_model, new_models):
    merger = BCWIMerger(old_model, new_models[:1], arguments(tmp_path, alphas=[0.3, 0.7]), eval_dataset=rows)
    sweep = merger.sweep()
    assert sweep.curve.alphas.tolist() == [0.0, 0.3, 0.7, 1.0]
    old_logits, new_logits = logits_of(old_model, rows), logits_of(new_models[0], rows)
    assert np.array_equal(sweep.old_answers, old_logits.argmax(-1))
    for i, alpha in enumerate(sweep.curve.alphas):
        state = interpolate(old_model.state_dict(), new_models[0].state_dict(), float(alpha))
        assert np.array_equal(sweep.answers[i], logits_of(model_with(old_model, state), rows).argmax(-1))
        mixed = alpha * torch.tensor(old_logits).softmax(-1) + (1 - alpha) * torch.tensor(new_logits).softmax(-1)
        right = mixed.argmax(-1).numpy() == np.array(rows["labels"])
        assert np.array_equal(sweep.ensemble.correct[i], right)
        margins = row_margins(logits_of(model_with(old_model, state), rows), np.array(rows["labels"]))
        if alpha < 1:  # the old model itself is not compared by margins
            assert np.allclose(sweep.curve.margins[i], margins, atol=1e-5)
            assert np.array_equal(sweep.curve.margins[i] > 0, sweep.curve.correct[i])
    table = sweep.table()
    assert table[-1]["nfr"] == 0.0
    assert table[-1]["ensemble_nfr"] == 0.0
    assert "ensemble NFR" in sweep.to_markdown()


def test_inputs_are_left_alone_and_the_live_model_is_one(tmp_path, rows, old_model, new_models):
    before = [{n: v.clone() for n, v in m.state_dict().items()} for m in (old_model, new_models[0])]
    merger = BCWIMerger(old_model, new_models[:1], arguments(tmp_path), eval_dataset=rows)
    places = {name: value.data_ptr() for name, value in merger.model.state_dict().items()}
    merger.sweep()
    assert places == {name: value.data_ptr() for name, value in merger.model.state_dict().items()}
    for model, state in zip((old_model, new_models[0]), before, strict=True):
        assert all(torch.equal(model.state_dict()[name], state[name]) for name in state)


def test_merge_keeps_the_contract_and_saves(tmp_path, rows, old_model, new_models):
    merger = BCWIMerger(old_model, new_models[:1], arguments(tmp_path, margin=0.05), eval_dataset=rows)
    selection = merger.merge()
    assert selection.kept
    state = interpolate(old_model.state_dict(), new_models[0].state_dict(), selection.alpha)
    assert all(torch.equal(merger.model.state_dict()[name], state[name]) for name in state)
    report = compare(merger.predictions(1.0), merger.predictions(selection.alpha))
    assert report.counts.nfr == pytest.approx(selection.nfr)
    merger.save_merged(tmp_path / "saved")
    record = MergeRecord.load(tmp_path / "saved/pct_merge.json")
    assert record.alpha == selection.alpha
    assert len(record.curve) == 11
    assert (tmp_path / "saved/model.safetensors").exists()
    assert record.weights == hash_folder(tmp_path / "saved")[0]
    assert record.old.weights == weights_fingerprint(merger.old_model)
    assert all(source.weights for source in record.new)
    with pytest.raises(NotComparableError, match="cannot be replayed, because"):
        replay(tmp_path / "saved/pct_merge.json", tmp_path / "again")


def test_a_promise_that_cannot_be_kept_is_flagged(tmp_path, rows, old_model, new_models, caplog):
    merger = BCWIMerger(old_model, new_models[:1], arguments(tmp_path, alphas=[0.5]), eval_dataset=rows)
    assert not merger.merge(Contract(target_accuracy=1.0)).kept
    assert merger.alpha == 0.0
    assert "no alpha keeps the promise" in caplog.text


def test_soup_greedy_soup_and_fisher(tmp_path, rows, old_model, new_models):
    soup = BCWIMerger(old_model, new_models, arguments(tmp_path, method="soup"), eval_dataset=rows)
    expected = interpolate(old_model.state_dict(), uniform_soup([m.state_dict() for m in new_models]), 0.4)
    soup.set_alpha(0.4)
    assert all(torch.equal(soup.model.state_dict()[name], expected[name]) for name in expected)

    greedy = BCWIMerger(old_model, new_models, arguments(tmp_path, method="soup", greedy_soup=True), eval_dataset=rows)
    best = max(np.mean(logits_of(m, rows).argmax(-1) == np.array(rows["labels"])) for m in new_models)
    assert greedy.sweep().curve.accuracy[0] >= best

    fisher = BCWIMerger(old_model, new_models[:1], arguments(tmp_path, method="fisher"), eval_dataset=rows)
    assert 0.98 in fisher.args.grid
    fisher.set_alpha(0.5)
    assert not torch.equal(fisher.model.state_dict()["classifier.bias"], expected["classifier.bias"])
    values = torch.cat([value.flatten() for value in fisher.sides.fisher.values()])
    assert values.mean() == pytest.approx(1.0, rel=1e-3)
    fisher.set_alpha(1.0)
    assert all(torch.equal(fisher.model.state_dict()[n], v) for n, v in old_model.state_dict().items())


def test_added_classes_never_answered_by_the_old_model(tmp_path, rows, old_model):
    torch.manual_seed(0)
    wider = nudged(widened(old_model, ["yes", "no", "other", "maybe"]), 3)
    merger = BCWIMerger(old_model, [wider], arguments(tmp_path, method="fisher"), eval_dataset=rows)
    sweep = merger.sweep()
    old = logits_of(old_model, rows).argmax(-1)
    assert np.array_equal(sweep.old_answers, np.array([1, 0, 3])[old])  # no, yes, maybe where the new model has them
    merger.set_alpha(0.5)
    assert torch.equal(merger.model.classifier.weight[2], wider.classifier.weight[2])
    table = merger.predictions(1.0)
    assert table.label_names == ("yes", "no", "maybe")


def test_train_starts_from_the_old_model_and_can_keep_its_rows(tmp_path, rows, old_model):
    options = {"num_train_epochs": 1, "learning_rate": 0.05, "per_device_train_batch_size": 20, "save_strategy": "no"}
    merger = BCWIMerger(
        old_model,
        args=arguments(tmp_path, keep_old_head=True, weight_decay=0.1, logging_strategy="no", **options),
        new_label_names=["no", "yes", "maybe", "other"],
        train_dataset=rows,
        eval_dataset=rows,
    )
    with pytest.raises(ValueError, match="no new model yet"):
        merger.sweep()
    start = {name: value.clone() for name, value in merger.model.state_dict().items()}
    merger.train()
    after = merger.model.state_dict()
    assert torch.equal(after["classifier.weight"][:3], old_model.classifier.weight)
    assert torch.equal(after["classifier.bias"][:3], old_model.classifier.bias)
    assert not torch.equal(after["classifier.weight"][3], start["classifier.weight"][3])
    moved = [name for name in after if not torch.equal(after[name], start[name])]
    assert len(moved) == len(after)
    assert merger.sweep().curve.nfr[-1] == 0.0
    with pytest.raises(ValueError, match="leave them out to train"):
        merger.train()


def test_accumulated_batches_train_the_same(tmp_path, rows, old_model):
    states = []
    for size, steps in ((20, 1), (5, 4)):
        options = {"per_device_train_batch_size": size, "gradient_accumulation_steps": steps, "optim": "sgd"}
        options |= {"max_steps": 3, "learning_rate": 0.1, "save_strategy": "no", "logging_strategy": "no", "seed": 1}
        merger = BCWIMerger(old_model, args=arguments(tmp_path, **options), train_dataset=rows)
        merger.train()
        states.append(merger.model.state_dict())
    for name in states[0]:
        torch.testing.assert_close(states[0][name], states[1][name], rtol=1e-4, atol=1e-6)


def test_models_from_two_basins_are_named(tmp_path, rows, old_model, caplog):
    old_model = copy.deepcopy(old_model)
    usual = int(np.bincount(logits_of(old_model, rows).argmax(-1)).argmax())
    old_model.classifier.bias.data.zero_()[(usual + 1) % 3] = 1e-4  # all that is left midway, where the rest cancels
    teacher = logits_of(old_model, rows).argmax(-1)
    easy = rows.remove_columns("labels").add_column("labels", teacher.tolist())
    easy = easy.select(np.flatnonzero(teacher == usual))
    mirrored = copy.deepcopy(old_model)  # the same function with every sign in the pooler turned round
    with torch.no_grad():
        for parameter in (*mirrored.bert.pooler.parameters(), mirrored.classifier.weight):
            parameter *= -1
    merger = BCWIMerger(old_model, [mirrored], arguments(tmp_path), eval_dataset=easy)
    with caplog.at_level(logging.WARNING):
        sweep = merger.sweep()
    assert sweep.curve.accuracy[0] == sweep.curve.accuracy[-1] == 1.0
    assert "not in one basin" in caplog.text
    assert "not in one basin" in sweep.to_markdown()


def image_model(seed):
    names = {0: "a", 1: "b"}
    config = TimmWrapperConfig(architecture="resnet10t", num_labels=2, id2label=names, model_args={"in_chans": 3})
    model = TimmWrapperForImageClassification(config)
    torch.manual_seed(seed)
    model.timm_model.load_state_dict(timm.create_model("resnet10t", num_classes=2).state_dict())
    return model


def test_batchnorm_is_recalibrated_and_both_accuracies_are_shown(tmp_path):
    torch.manual_seed(0)
    images = [{"pixel_values": torch.randn(3, 32, 32) * 2 + 1, "labels": i % 2} for i in range(24)]
    old, new = image_model(1), image_model(2)
    recalibrate(old, [{"pixel_values": torch.stack([row["pixel_values"] for row in images])}])
    options = {"alphas": [0.5], "remove_unused_columns": False, "barrier_limit": 1.0}
    with pytest.raises(ValueError, match="pass train_dataset"):
        BCWIMerger(old, [new], arguments(tmp_path, **options), eval_dataset=images).sweep()
    merger = BCWIMerger(old, [new], arguments(tmp_path, **options), eval_dataset=images, train_dataset=images)
    sweep = merger.sweep()
    assert "accuracy_without_recalibration" in sweep.table()[1]
    merger.set_alpha(0.5, recalibrated=False)
    interpolated = merger.model.timm_model.bn1.running_mean.clone()
    merger.set_alpha(0.5)
    assert not torch.allclose(interpolated, merger.model.timm_model.bn1.running_mean)
    assert all(layer.momentum is not None and not layer.training for layer in batchnorm_layers(merger.model.eval()))
    merger.set_alpha(1.0)
    assert all(torch.equal(merger.model.state_dict()[n], v) for n, v in old.state_dict().items())


def test_a_soup_gets_its_own_batchnorm_statistics_unmerged_too(tmp_path):
    torch.manual_seed(0)
    images = [{"pixel_values": torch.randn(3, 32, 32) * 2 + 1, "labels": i % 2} for i in range(24)]
    args = arguments(tmp_path, alphas=[0.5], remove_unused_columns=False, method="soup")
    soup = BCWIMerger(
        image_model(0), [image_model(1), image_model(2)], args, eval_dataset=images, train_dataset=images
    )
    soup.set_alpha(0.0, recalibrated=False)
    averaged = soup.model.timm_model.bn1.running_mean.clone()
    soup.set_alpha(0.0)
    assert not torch.allclose(averaged, soup.model.timm_model.bn1.running_mean)
    one = BCWIMerger(image_model(0), [image_model(1)], args, eval_dataset=images, train_dataset=images)
    one.set_alpha(0.0)
    assert all(torch.equal(one.model.state_dict()[n], v) for n, v in image_model(1).state_dict().items())


def test_recalibration_is_the_plain_average_of_the_batches():
    layer = torch.nn.BatchNorm1d(4)
    model = torch.nn.Sequential()
    model.add_module("bn", layer)
    model.forward = lambda x: layer(x)
    batches = [{"x": torch.randn(10, 4) + i} for i in range(3)]
    assert recalibrate(model, batches) == 3
    expected = torch.stack([batch["x"].mean(0) for batch in batches]).mean(0)
    torch.testing.assert_close(layer.running_mean, expected)


def test_bad_input(tmp_path, rows, old_model, new_models):
    with pytest.raises(ValueError, match=r"(?s)method is 'slerp'.*align is 'sort'.*alphas hold 2.*max_nfr is 7"):
        arguments(tmp_path, method="slerp", align="sort", alphas=[2], max_nfr=7)
    with pytest.raises(ValueError, match="takes one new model, got 3"):
        BCWIMerger(old_model, new_models, arguments(tmp_path))
    broken = copy.deepcopy(new_models[0])
    broken.classifier.bias.data[0] = float("nan")
    with pytest.raises(ValueError, match="1 NaN or infinite values in the new model"):
        BCWIMerger(old_model, [broken], arguments(tmp_path), eval_dataset=rows).sweep()
    deeper = tiny_bert(1, num_hidden_layers=3)
    with pytest.raises(ValueError, match=r"layer\.2.*only in the new model"):
        BCWIMerger(old_model, [deeper], arguments(tmp_path), eval_dataset=rows).sweep()
