"""ELODI: members from seeds, their mean as the reference, and a student held near it."""

import json
import os
import shutil

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from training_kit import (
    NAMES,
    arguments,
    bert,
    distance,
    elodi,
    images,
    permuted,
    roberta,
    texts,
    timm_model,
    trainer,
    weights,
)
from transformers import TrainerCallback

from hf_pct.methods.loss_modules import FocalDistillationLoss, LogitDifferenceInhibitionLoss
from hf_pct.models.cache import AnswerTable, Layout
from hf_pct.models.ensembles import AdapterEnsemble, Ensemble
from hf_pct.models.run import RowAnswers
from hf_pct.training import ELODIArguments


def member_weights(folder, number):
    return load_file(folder / "members" / str(number) / "model.safetensors")


def batch_of(run, rows=8):
    return run._prepare_inputs(next(iter(run.get_train_dataloader())))


# ---- the whole procedure


def test_members_differ_and_a_run_is_reproducible_from_its_seed(tmp_path):
    runs = {}
    for name, seed in (("first", 7), ("again", 7), ("next", 8)):
        runs[name] = elodi(tmp_path / name, seed=seed, num_members=3)
        runs[name].train()
    members = {name: [member_weights(tmp_path / name, number) for number in range(3)] for name in runs}
    for ours, theirs in zip(members["first"], members["again"], strict=True):
        assert distance(ours, theirs) == 0
    assert distance(runs["first"].model, runs["again"].model) == 0
    everyone = [*members["first"], *members["next"]]
    assert all(distance(a, b) > 1e-3 for i, a in enumerate(everyone) for b in everyone[:i])


def test_the_student_is_nearer_to_the_ensemble_than_a_plain_model_is(tmp_path):
    data = texts(96)
    run = elodi(tmp_path, train=data, num_members=3, num_train_epochs=8)
    run.train()
    ensemble = run.make_ensemble_reference()
    plain = elodi(tmp_path / "plain", train=data, ldi_weight=0.0, num_train_epochs=8)
    plain.train()
    assert not (tmp_path / "plain" / "members").exists()
    batch = batch_of(run)
    inputs = {key: batch[key] for key in ("input_ids", "attention_mask")}
    target = ensemble.logits(inputs)
    gaps = {}
    for name, trained in (("student", run), ("plain", plain)):
        with torch.no_grad():
            gaps[name] = (trained.model.eval()(**inputs).logits - target).square().mean()
    assert gaps["student"] < 0.5 * gaps["plain"]


def test_a_student_that_has_not_learnt_what_its_members_know_is_named_with_what_to_do(tmp_path, caplog):
    data = texts(96)
    known = {"train": data, "eval_dataset": data, "member_epochs": 8, "member_learning_rate": 5e-3}
    run = elodi(tmp_path, learning_rate=1e-7, top_k=2, **known)
    run.train()
    metrics = run.evaluate()
    assert metrics["eval_ensemble_accuracy"] - metrics["eval_accuracy"] > 0.05
    [message] = [record.getMessage() for record in caplog.records if "has not learnt" in record.getMessage()]
    assert f"{metrics['eval_accuracy']:.1%}" in message
    assert f"{metrics['eval_ensemble_accuracy']:.1%}" in message
    assert "Train it longer" in message
    assert "top_k=None, now 2" in message
    assert "student_start='member'" in message
    caplog.clear()
    learnt = elodi(tmp_path, num_train_epochs=8, top_k=None, **known)  # the members are there
    learnt.train()
    metrics = learnt.evaluate()
    assert metrics["eval_ensemble_accuracy"] - metrics["eval_accuracy"] <= 0.05
    assert "has not learnt" not in caplog.text


def test_the_loss_is_the_papers(tmp_path):
    run = elodi(tmp_path, old_model=bert(seed=2), ldi_weight=0.8, lambda_ensemble=0.75, top_k=2)
    new, ensemble, old = (torch.randn(6, 4) for _ in range(3))
    labels = torch.tensor([0, 1, 2, 3, 0, 1])
    terms = run.loss_terms(new, {"ensemble": ensemble, "old": old}, labels)
    loss = LogitDifferenceInhibitionLoss(top_k=2)
    assert terms["ce"] == pytest.approx(0.2 * torch.nn.functional.cross_entropy(new, labels).item())
    assert terms["ldi"] == pytest.approx(0.8 * 0.75 * loss(new, ensemble, labels).item(), rel=1e-6)
    assert terms["ldi_old"] == pytest.approx(0.8 * 0.25 * loss(new, old, labels).item(), rel=1e-6)
    assert list(terms) == ["ce", "ldi", "ldi_old"]


def test_without_an_old_model_all_of_the_weight_is_the_ensembles(tmp_path):
    assert elodi(tmp_path).reference_weights == {"ensemble": 0.8}
    measured = elodi(tmp_path / "measured", old_model=bert(seed=2), lambda_ensemble=1.0)
    assert measured.reference_weights == {"ensemble": 0.8}
    assert set(measured.shared) == {"old", "ensemble"}


def test_evaluation_reports_flips_against_the_old_model_and_how_good_the_ensemble_is(tmp_path):
    held_out = texts(30, seed=5)
    run = elodi(tmp_path, old_model=bert(seed=2), eval_dataset=held_out)
    assert "eval_ensemble_accuracy" not in run.evaluate()  # there are no members yet
    run.train()
    metrics = run.evaluate()
    assert {"eval_nfr", "eval_old_accuracy", "eval_ensemble_accuracy", "eval_accuracy"} <= set(metrics)
    reference = run.make_ensemble_reference()
    rows = run.data_collator.collate([dict(row) for row in held_out.remove_columns("text")])
    answers = reference.logits(rows).argmax(-1)
    assert metrics["eval_ensemble_accuracy"] == pytest.approx((answers == rows["labels"]).float().mean().item())


def test_terms_are_logged_by_name(tmp_path):
    run = elodi(tmp_path, old_model=bert(seed=2))
    run.train()
    logged = [entry for entry in run.state.log_history if "loss" in entry]
    assert all({"loss_ce", "loss_ldi", "loss_ldi_old"} <= set(entry) for entry in logged)


# ---- going on


class Stop(TrainerCallback):
    def __init__(self, step):
        self.step = step

    def on_step_end(self, args, state, control, **kwargs):
        if state.global_step == self.step:
            raise KeyboardInterrupt


def stopped_at(run, number, step):
    """Train, with an interruption in the given step of the given member."""
    plain = run.member_trainer

    def member_trainer(model, args):
        member = plain(model, args)
        if f".{number}.unfinished" in args.output_dir:
            member.add_callback(Stop(step))
        return member

    run.member_trainer = member_trainer
    with pytest.raises(KeyboardInterrupt):
        run.train()


@pytest.mark.parametrize("saving", ["no", "steps"])
def test_a_stopped_run_goes_on_with_the_next_member(tmp_path, saving):
    settings = {"num_members": 4, "save_strategy": saving, "save_steps": 2, "num_train_epochs": 2}
    whole = elodi(tmp_path / "whole", **settings)
    whole.train()
    folder = tmp_path / "stopped"
    stopped_at(elodi(folder, **settings), number=2, step=5)
    found = sorted(path.name for path in (folder / "members").iterdir())
    assert found == [".2.unfinished", "0", "1"]
    times = [(folder / "members" / name / "model.safetensors").stat().st_mtime_ns for name in ("0", "1")]
    steps = []
    again = elodi(folder, **settings)
    plain = again.member_trainer

    def member_trainer(model, args):
        member = plain(model, args)
        member.add_callback(type("Count", (TrainerCallback,), {"on_step_end": lambda *_, **__: steps.append(1)})())
        return member

    again.member_trainer = member_trainer
    again.train()
    assert times == [(folder / "members" / name / "model.safetensors").stat().st_mtime_ns for name in ("0", "1")]
    for number in range(4):
        assert distance(member_weights(folder, number), member_weights(tmp_path / "whole", number)) == 0
    assert distance(again.model, whole.model) == 0
    assert len(steps) == (12 if saving == "no" else 8)  # 6 steps each; from the checkpoint of step 4, two are left
    assert sorted(path.name for path in (folder / "members").iterdir()) == ["0", "1", "2", "3", "pct_ensemble.json"]


@pytest.mark.parametrize("another", [True, False])
def test_a_half_written_checkpoint_of_a_member_is_passed_over(tmp_path, caplog, another):
    settings = {"num_members": 2, "save_strategy": "steps", "save_steps": 2, "num_train_epochs": 2}
    whole = elodi(tmp_path / "whole", **settings)
    whole.train()
    folder = tmp_path / "stopped"
    stopped_at(elodi(folder, **settings), number=0, step=5)
    (half,) = (folder / "members" / ".0.unfinished").glob("checkpoint-4")
    if another:  # the one before stays until the next is complete
        half = shutil.copytree(half, half.with_name("checkpoint-5"))
    os.truncate(half / "model.safetensors", 1000)
    again = elodi(folder, **settings)
    again.train()
    assert f"{half} is not complete and is passed over" in caplog.text
    assert ("the run starts from the beginning" in caplog.text) == (not another)
    assert distance(member_weights(folder, 0), member_weights(tmp_path / "whole", 0)) == 0
    assert distance(again.model, whole.model) == 0


def test_members_of_another_recipe_are_not_taken_for_this_runs(tmp_path):
    elodi(tmp_path).train()
    with pytest.raises(ValueError, match=r"trained in another way") as caught:
        elodi(tmp_path, learning_rate=1e-4, train=texts(40))
    message = str(caught.value)
    assert "learning_rate was 0.005 and is now 0.0001" in message
    assert "data was" in message
    assert "members=[...]" in message


def test_a_folder_in_the_way_of_a_member_is_left_alone(tmp_path):
    mine = tmp_path / "members" / "0" / "notes.txt"
    mine.parent.mkdir(parents=True)
    mine.write_text("mine")
    with pytest.raises(FileExistsError, match="in the way of a finished member"):
        elodi(tmp_path).train()
    assert mine.read_text() == "mine"


def test_the_record_says_what_a_member_cost(tmp_path):
    elodi(tmp_path).train()
    record = json.loads((tmp_path / "members" / "1" / "pct_member.json").read_text())
    assert record["cost"]["steps"] == 3
    assert record["cost"]["rows"] == 48
    assert record["cost"]["seconds"] > 0


# ---- where the ensemble's logits come from


def test_cached_sparse_and_live_references_train_the_same_student(tmp_path):
    """Two of four classes are kept in the sparse table, and they are all that the loss asks for."""
    first = elodi(tmp_path / "first")
    first.train()
    given = [str(path) for path in first.members.paths]
    models = [bert(seed=None) for _ in given]
    for model, number in zip(models, range(2), strict=True):
        model.load_state_dict(member_weights(tmp_path / "first", number))
    trained = {}
    for name, settings in {
        "live": {"reference": "live", "top_k": 2},
        "sparse": {"reference": "cached", "top_k": 2},
        "sparse without the label": {"reference": "cached", "top_k": 2, "exclude_label": True},
        "live without the label": {"reference": "live", "top_k": 2, "exclude_label": True},
        "dense": {"reference": "cached", "top_k": None},
        "dense live": {"reference": "live", "top_k": None},
    }.items():
        run = elodi(tmp_path / name, model=bert(seed=1), members=models, num_train_epochs=3, **settings)
        run.train()
        assert run.source.live == (settings["reference"] == "live")
        trained[name] = run.model
    for ours, theirs in (("sparse", "live"), ("sparse without the label", "live without the label"),
                         ("dense", "dense live")):  # fmt: skip
        assert distance(trained[ours], trained[theirs]) < 1e-6
    assert distance(trained["sparse"], trained["dense"]) > 1e-4
    assert distance(trained["sparse"], trained["sparse without the label"]) > 1e-4


def test_a_sparse_table_is_fifty_times_smaller(tmp_path):
    logits = np.random.default_rng(0).normal(size=(20, 1000)).astype("float32")
    layout = Layout(1000, 10)
    columns = layout.encode(RowAnswers(range(20), logits))
    assert logits.nbytes / sum(column.nbytes for column in columns.values()) == 50
    loss = LogitDifferenceInhibitionLoss(top_k=10)
    new, labels = torch.randn(20, 1000), torch.randint(0, 1000, (20,))
    table = AnswerTable(columns, layout)
    rows = torch.from_numpy(np.stack([table[line] for line in range(20)]))
    assert loss(new, rows, labels) == loss(new, torch.from_numpy(logits), labels)


def test_a_sparse_table_is_not_taken_when_the_student_chooses_the_classes(tmp_path):
    assert elodi(tmp_path, top_k=2).source.parts["ensemble"].named.top_k == 2
    for number, settings in enumerate(({"top_k_from": "new"}, {"top_k": None}, {"ensemble_loss": "kd"})):
        assert elodi(tmp_path / str(number), **settings).source.parts["ensemble"].named.top_k is None


def test_a_cached_run_lets_the_members_go(tmp_path):
    run = elodi(tmp_path)
    run.train()
    assert run.source.parts["ensemble"]._reference is None


def test_images_with_views(tmp_path):
    def model_init():
        return timm_model(seed=None)

    settings = {"train": images(), "remove_unused_columns": False, "model_init": model_init}
    live = elodi(tmp_path / "live", **settings)
    live.train()
    assert live.source.live
    views = elodi(tmp_path / "views", cached_views=2, **settings)
    views.train()
    assert not views.source.live
    assert distance(weights(live.model), weights(views.model)) < 1e-5  # these images have no augmentation


# ---- members that are given


def test_given_members_are_taken_as_they_are(tmp_path):
    models = [bert(seed=seed) for seed in (3, 4)]
    before = [weights(model) for model in models]
    run = elodi(tmp_path, model=bert(seed=1), members=models)
    run.train()
    assert not (tmp_path / "members").exists()
    assert all(distance(model, old) == 0 for model, old in zip(models, before, strict=True))
    reference = run.make_ensemble_reference()
    batch = batch_of(run)
    inputs = {key: batch[key] for key in ("input_ids", "attention_mask")}
    with torch.no_grad():
        mean = torch.stack([model.eval()(**inputs).logits for model in models]).mean(0)
    assert torch.allclose(reference.logits(inputs), mean, atol=1e-6)


def test_members_with_their_classes_in_another_order(tmp_path):
    order = [2, 0, 3, 1]
    plain = [bert(seed=seed) for seed in (3, 4)]
    turned = [permuted(model, order) for model in plain]
    trained = []
    for name, members in (("plain", plain), ("turned", turned), ("mixed", [plain[0], turned[1]])):
        run = elodi(tmp_path / name, model=bert(seed=1), members=members)
        run.train()
        trained.append(run.model)
    assert distance(trained[0], trained[1]) < 1e-5
    assert distance(trained[0], trained[2]) < 1e-5


def test_different_architectures_with_temperatures_from_held_out_rows(tmp_path):
    members = [bert(seed=3, scale=60.0), roberta(seed=4)]
    with pytest.raises(ValueError, match="homogeneous"):
        elodi(tmp_path, model=bert(seed=1), members=members)
    calibration = texts(60, seed=9).remove_columns("text")
    run = elodi(
        tmp_path, model=bert(seed=1), members=members, homogeneous=False, calibration_dataset=calibration,
        eval_dataset=texts(10, seed=5),
    )  # fmt: skip
    run.train()
    assert len(run.temperatures) == 2
    assert run.temperatures[0] > 2  # a head scaled up sixtyfold is far too sure of itself
    reference = run.make_ensemble_reference()
    assert torch.equal(reference.model.temperatures, run.temperatures)


@pytest.mark.parametrize(("loss", "distance_of"), [("kd", "kl"), ("fd-kl", "kl"), ("fd-lm", "lm")])
def test_other_losses_against_the_ensemble(tmp_path, loss, distance_of):
    run = elodi(tmp_path, ensemble_loss=loss, temperature=5.0)
    new, ensemble, labels = torch.randn(6, 4), torch.randn(6, 4), torch.tensor([0, 1, 2, 3, 0, 1])
    terms = run.loss_terms(new, {"ensemble": ensemble}, labels)
    expected = FocalDistillationLoss(1.0, 0.0 if loss == "kd" else 5.0, distance_of, 5.0)(new, ensemble, labels)
    assert terms["distillation"].item() == pytest.approx(0.8 * expected.item(), rel=1e-6)
    run.train()
    assert "loss_distillation" in run.state.log_history[0]


# ---- cheaper members


def test_a_soup_is_one_model_of_mean_weights_from_one_start(tmp_path):
    run = elodi(tmp_path, combine="soup", num_members=3)
    run.train()
    members = [member_weights(tmp_path, number) for number in range(3)]
    soup = run.make_ensemble_reference().model
    assert not isinstance(soup, Ensemble)
    mean = {name: sum(member[name] for member in members) / 3 for name in members[0]}
    assert distance({name: soup.state_dict()[name] for name in mean}, mean) < 1e-6
    assert distance(members[0], members[1]) > 1e-4


def test_a_soup_of_batchnorm_models_has_statistics_of_its_own(tmp_path):
    def model_init():
        return timm_model("test_resnet", seed=None)

    run = elodi(tmp_path, model_init=model_init, train=images(size=32), remove_unused_columns=False, combine="soup")
    run.train()
    soup = run.make_ensemble_reference().model
    names = [name for name in soup.state_dict() if name.endswith("running_mean")]
    first, second = (member_weights(tmp_path, number) for number in range(2))
    prefix = "" if names[0] in first else "timm_model."  # transformers 5.0 saves a wrapped model without it
    mean = {name: (first[name.removeprefix(prefix)] + second[name.removeprefix(prefix)]) / 2 for name in names}
    assert names
    assert distance({name: soup.state_dict()[name] for name in names}, mean) > 1e-4


def test_lora_members_share_one_backbone(tmp_path):
    pytest.importorskip("peft")
    run = elodi(tmp_path, member_kind="lora", member_lora_rank=2, member_learning_rate=0.05, num_train_epochs=2)
    run.train()
    folder = tmp_path / "members"
    assert sorted(path.name for path in folder.iterdir()) == ["0", "1", "base", "pct_ensemble.json"]
    assert (folder / "0" / "adapter_model.safetensors").is_file()
    model = run.make_ensemble_reference().model
    assert isinstance(model, AdapterEnsemble)
    base = sum(value.numel() for value in bert().parameters())
    assert sum(value.numel() for value in model.parameters()) < 1.5 * base
    batch = batch_of(run)
    first, second = model.member_logits(input_ids=batch["input_ids"], attention_mask=batch["attention_mask"])
    assert (first - second).abs().max() > 1e-4


def test_cycles_go_on_from_the_member_before_and_cost_one_training(tmp_path):
    run = elodi(tmp_path, member_kind="cycles", num_members=2, num_train_epochs=4)
    starts = []
    plain = run.member_trainer
    run.member_trainer = lambda model, args: (starts.append(weights(model)), plain(model, args))[1]
    run.train()
    assert distance(starts[1], member_weights(tmp_path, 0)) == 0
    costs = [json.loads((tmp_path / "members" / name / "pct_member.json").read_text())["cost"] for name in ("0", "1")]
    assert sum(cost["steps"] for cost in costs) == 12  # as many as one training of four epochs


def test_a_student_may_go_on_from_the_first_of_its_members(tmp_path):
    still = {"learning_rate": 0.0, "member_learning_rate": 5e-3, "num_members": 3, "num_train_epochs": 1}
    run = elodi(tmp_path, student_start="member", **still)
    run.train()
    assert distance(run.model, member_weights(tmp_path, 0)) == 0
    assert all(distance(member_weights(tmp_path, 0), member_weights(tmp_path, number)) > 1e-3 for number in (1, 2))
    fresh = elodi(tmp_path, **still)  # the same members, which do not depend on where the student starts
    fresh.train()
    assert distance(fresh.model, member_weights(tmp_path, 0)) > 1e-3
    moving = elodi(tmp_path / "moving", student_start="member", num_members=2)
    moving.train()
    assert distance(moving.model, member_weights(tmp_path / "moving", 0)) > 0


# ---- what cannot be


def test_every_bad_setting_is_named_at_once(tmp_path):
    bad = {
        "num_members": 1, "top_k": 0, "ldi_weight": 1.5, "lambda_ensemble": -0.1, "p": 0.5, "margin": -1.0,
        "ensemble_loss": "mse", "member_kind": "twins", "combine": "vote", "top_k_from": "old", "member_epochs": 0,
        "member_lora_rank": 0, "method": "fd", "student_start": "old",
    }  # fmt: skip
    with pytest.raises(ValueError, match="cannot be used") as caught:
        arguments(tmp_path, ELODIArguments, **bad)
    for name in bad:
        assert f"{name}=" in str(caught.value)


def test_settings_that_do_not_go_together(tmp_path):
    with pytest.raises(ValueError, match="a member starts where the one before it ended"):
        arguments(tmp_path, ELODIArguments, spread_members=True, member_kind="cycles")
    with pytest.raises(ValueError, match="the backbone is shared already"):
        arguments(tmp_path, ELODIArguments, combine="soup", member_kind="lora")
    with pytest.raises(ValueError, match="an adapter is no model to go on from"):
        arguments(tmp_path, ELODIArguments, student_start="member", member_kind="lora")
    with pytest.raises(ValueError, match="pass the one to go on from as the model"):
        elodi(tmp_path, model=bert(), members=[bert(seed=3), bert(seed=4)], student_start="member")


def test_a_model_where_model_init_is_needed(tmp_path):
    with pytest.raises(ValueError, match=r"pass model_init=.*or members=\[\.\.\.\]"):
        elodi(tmp_path, model=bert())


def test_one_member(tmp_path):
    with pytest.raises(ValueError, match="members has 1, expected at least 2"):
        elodi(tmp_path, model=bert(), members=[bert(seed=3)])


def test_members_with_other_classes(tmp_path):
    with pytest.raises(ValueError, match="lacks 'alarm' and also has 'other'"):
        elodi(tmp_path, model=bert(), members=[bert(seed=3), bert(seed=4, names=[*NAMES[:3], "other"])])
    others = [bert(seed=seed, names=[*NAMES[:3], "other"]) for seed in (3, 4)]
    with pytest.raises(ValueError, match=r"members' classes are not the student's.*'other'.*'alarm'"):
        elodi(tmp_path, model=bert(), members=others)


def test_a_member_that_did_not_finish(tmp_path):
    (tmp_path / "half" / "checkpoint-3").mkdir(parents=True)
    with pytest.raises(ValueError, match=r"half: this member did not finish"):
        elodi(tmp_path, model=bert(), members=[str(tmp_path / "half"), bert(seed=3)])


def test_other_arguments(tmp_path):
    from hf_pct.training.elodi import ELODITrainer

    with pytest.raises(TypeError, match="expected ELODIArguments"):
        ELODITrainer(model_init=bert, args=arguments(tmp_path))


# ---- several old models


def test_chain_radial_and_full_targets(tmp_path):
    versions = [bert(seed=seed) for seed in (2, 3, 4)]
    found = {}
    for targets in ("chain", "radial", "full"):
        run = trainer(tmp_path, old_model=versions, targets=targets, pc_weight=3.0)
        found[targets] = run.reference_weights
        run.train()
    assert found["chain"] == {"old": 3.0}
    assert found["radial"] == {"old_1": 3.0}
    assert found["full"] == {"old": 1.0, "old_1": 1.0, "old_2": 1.0}


def test_a_chain_of_one_is_one_old_model_and_the_newest_is_the_one_in_service(tmp_path):
    versions = [bert(seed=seed) for seed in (2, 3)]
    held_out = texts(40, seed=5)
    alone = trainer(tmp_path, old_model=versions[1], eval_dataset=held_out)
    chain = trainer(tmp_path, old_model=versions, eval_dataset=held_out)
    first = trainer(tmp_path, old_model=versions[0], method="none", eval_dataset=held_out)
    for run in (alone, chain):
        run.train()
    assert distance(alone.model, chain.model) < 1e-6
    ours, theirs = chain.evaluate(), alone.evaluate()
    assert ours["eval_nfr"] == theirs["eval_nfr"]
    first.model.load_state_dict(chain.model.state_dict())
    assert ours["eval_nfr_old_1"] == first.evaluate()["eval_nfr"]


def test_a_full_target_is_the_mean_of_the_terms(tmp_path):
    run = trainer(tmp_path, old_model=[bert(seed=2), bert(seed=3)], targets="full")
    new, first, second = (torch.randn(5, 4) for _ in range(3))
    labels = torch.tensor([0, 1, 2, 3, 0])
    terms = run.loss_terms(new, {"old": second, "old_1": first}, labels)
    loss = FocalDistillationLoss()
    assert terms["distillation"] == pytest.approx(loss(new, second, labels).item() / 2, rel=1e-6)
    assert terms["distillation_old_1"] == pytest.approx(loss(new, first, labels).item() / 2, rel=1e-6)


def test_earlier_models_without_one_in_service(tmp_path):
    with pytest.raises(ValueError, match=r"earlier_models=\['v0'\] without old_model"):
        trainer(tmp_path, old_model=None, earlier_models=["v0"])


def test_temperatures_do_not_depend_on_the_order_of_the_members_classes(tmp_path):
    plain = [bert(seed=seed, scale=60.0) for seed in (3, 4)]
    data = texts(60, seed=9).remove_columns("text")
    with torch.no_grad():
        logits = [plain[0].eval()(input_ids=torch.tensor([row["input_ids"]])).logits[0] for row in data]
    answers = [int(row.argmax()) if number % 4 else number % 3 for number, row in enumerate(logits)]  # mostly right
    calibration = data.remove_columns("label").add_column("label", answers)
    found = []
    for name, members in (("plain", plain), ("turned", [permuted(model, [2, 0, 3, 1]) for model in plain])):
        run = elodi(tmp_path / name, model=bert(seed=1), members=members, calibration_dataset=calibration)
        run.train()
        found.append(run.temperatures)
    assert 0.1 < found[0][0] < 50
    assert torch.allclose(*found, rtol=1e-3)


def test_temperatures_go_into_the_folder_of_the_members(tmp_path):
    run = elodi(tmp_path, calibration_dataset=texts(60, seed=9).remove_columns("text"))
    run.train()
    saved = json.loads((tmp_path / "members" / "pct_ensemble.json").read_text())
    assert saved["temperatures"] == pytest.approx(run.temperatures.tolist())
    with pytest.raises(ValueError, match="calibration_dataset with combine='soup'"):
        elodi(tmp_path / "soup", calibration_dataset=texts(10), combine="soup")


def test_members_hold_nothing_pickled(tmp_path):
    elodi(tmp_path).train()
    assert not list((tmp_path / "members").rglob("*.bin"))
