"""An ensemble is one model: the mean of its members, whatever asks for it."""

import copy
import json
import shutil
import sys

import numpy as np
import pytest
import torch
from tiny_models import INTENTS, tiny_bert

import hf_pct
from hf_pct import Ensemble
from hf_pct.cli import main
from hf_pct.models.ensembles import AdapterEnsemble, load_ensemble, save_ensemble
from hf_pct.models.fingerprints import weights_fingerprint
from hf_pct.models.identity import model_fingerprint
from hf_pct.models.load import load_model

SENTENCES = ["turn on the light", "stop", "what is the weather today"]


@pytest.fixture(scope="module")
def folders(tmp_path_factory, tokenizer):
    """Three members in one folder; the second orders its classes differently."""
    home = tmp_path_factory.mktemp("members")
    for seed, names in enumerate((INTENTS, INTENTS[::-1], INTENTS)):
        tiny_bert(names, seed).save_pretrained(home / f"seed-{seed}")
        tokenizer.save_pretrained(home / f"seed-{seed}")
    return [home / f"seed-{seed}" for seed in range(3)]


@pytest.fixture
def home(folders, tmp_path):
    """An ensemble of all three as a folder, with its members inside."""
    inside = [shutil.copytree(folder, tmp_path / "ensemble" / folder.name) for folder in folders]
    save_ensemble(tmp_path / "ensemble", inside)
    return tmp_path / "ensemble"


@pytest.fixture
def run(text_dataset, tmp_path):
    def predict(model, **options):
        settings = {"progress": False, "cache_dir": tmp_path / "cache"} | options
        return hf_pct.predict(model, text_dataset, **settings)

    return predict


@pytest.fixture
def batch(tokenizer):
    return dict(tokenizer(SENTENCES, padding=True, return_tensors="pt"))


def by_name(names, logits):
    """Logits with the classes in the order of INTENTS."""
    return logits[:, [list(names).index(name) for name in INTENTS]]


def test_the_mean_of_the_members_by_name(batch, tokenizer):
    orders = (INTENTS, INTENTS[::-1], INTENTS[1:] + INTENTS[:1])
    members = [tiny_bert(names, seed) for seed, names in enumerate(orders)]
    ensemble = Ensemble(members)
    with torch.no_grad():
        expected = sum(by_name(n, m(**batch).logits) for n, m in zip(orders, members, strict=True)) / 3
        torch.testing.assert_close(ensemble(**batch).logits, expected)
        logits = list(ensemble.member_logits(**batch))
    assert ensemble.label_names == tuple(INTENTS)
    assert ensemble.config.id2label == dict(enumerate(INTENTS))
    assert ensemble.config is not members[0].config
    torch.testing.assert_close(torch.stack(logits).mean(0), expected)
    assert load_model(ensemble, processor=tokenizer).label_names == tuple(INTENTS)


def test_temperatures_divide_the_logits(batch):
    members = [tiny_bert(seed=seed) for seed in range(2)]
    with torch.no_grad():
        one, two = (member(**batch).logits for member in members)
        torch.testing.assert_close(Ensemble(members, temperatures=[2.0, 0.5])(**batch).logits, (one / 2 + two * 2) / 2)


def test_gradients_reach_every_member_and_labels_are_left_alone(batch):
    ensemble = Ensemble([tiny_bert(seed=seed) for seed in range(2)])
    ensemble(**batch, labels=torch.tensor([0, 1, 2])).logits.square().sum().backward()
    assert all(member.classifier.weight.grad.abs().sum() > 0 for member in ensemble.members)


def test_it_is_a_module_like_any_other(batch):
    ensemble = Ensemble([tiny_bert(seed=seed) for seed in range(2)])
    assert not ensemble.training
    ensemble.train()
    assert ensemble.training
    assert not any(member.training for member in ensemble.members)
    ensemble.members[0].train()
    ensemble.eval()
    assert not any(module.training for module in ensemble.modules())
    twin = copy.deepcopy(ensemble).to(torch.float64)
    assert twin.temperatures.dtype == torch.float64
    with torch.no_grad():
        torch.testing.assert_close(twin(**batch).logits.float(), ensemble(**batch).logits)
        half = copy.deepcopy(ensemble).to(torch.float16)
        assert half(**batch).logits.dtype == torch.float32  # the mean itself does not round
    other = Ensemble([tiny_bert(seed=seed) for seed in (7, 8)], temperatures=[2, 3])
    other.load_state_dict(ensemble.state_dict())
    assert torch.equal(other.temperatures, ensemble.temperatures)


def test_each_member_gets_only_what_it_names(batch, tokenizer):
    from transformers import DistilBertConfig, DistilBertForSequenceClassification

    config = DistilBertConfig(
        vocab_size=len(tokenizer), dim=16, n_layers=1, n_heads=2, hidden_dim=16, max_position_embeddings=8,
        id2label=dict(enumerate(INTENTS)), label2id={name: index for index, name in enumerate(INTENTS)},
    )  # fmt: skip
    members = [tiny_bert(), DistilBertForSequenceClassification(config).eval()]
    with pytest.raises(
        ValueError, match=r"member 1 \(Distil\w+\) is a Distil\w+, .* a Bert\w+; pass homogeneous=False"
    ):
        Ensemble(members)
    ensemble = Ensemble(members, homogeneous=False, processor=tokenizer)
    batch["token_type_ids"] = torch.ones_like(batch["input_ids"])
    with torch.no_grad():
        few = {name: batch[name] for name in ("input_ids", "attention_mask")}
        torch.testing.assert_close(
            ensemble(**batch).logits, (members[0](**batch).logits + members[1](**few).logits) / 2
        )
    free = copy.deepcopy(tokenizer)
    free.model_max_length = int(1e30)
    assert load_model(ensemble, processor=free).task.max_length == 8  # what both can take


# ---- predict, compare, folders


def test_memory_folder_and_members_agree(run, folders, home):
    tables = [run(folder) for folder in folders]
    expected = np.mean([by_name(table.label_names, table.logits) for table in tables], axis=0)
    live = run(Ensemble(folders))
    saved = run(home)
    assert live.label_names == saved.label_names == tuple(INTENTS)
    assert live.logits == pytest.approx(expected, abs=1e-6)
    assert saved.logits == pytest.approx(expected, abs=1e-6)
    assert saved.provenance.model == str(home)
    assert live.provenance.model == "ensemble of 3"
    assert saved.provenance.weights == live.provenance.weights == weights_fingerprint(load_ensemble(home).model)


def test_the_file_names_the_members_and_copies_nothing(home, folders, tmp_path):
    record = json.loads((home / "pct_ensemble.json").read_text())
    assert record["members"] == ["./seed-0", "./seed-1", "./seed-2"]
    assert record["format_version"] == 1
    assert record["hf_pct"] == hf_pct.__version__
    moved = home.rename(tmp_path / "moved")
    assert len(load_ensemble(moved).model.members) == 3
    path = save_ensemble(tmp_path / "far", [folders[0], str(folders[1])], [1, 2])
    assert json.loads(path.read_text())["members"] == [str(folders[0]), str(folders[1])]
    assert load_model(tmp_path / "far").model.temperatures.tolist() == [1, 2]
    with pytest.raises(FileExistsError, match="exists and is kept"):
        save_ensemble(tmp_path / "far", folders)
    save_ensemble(tmp_path / "far", folders, overwrite=True)
    assert len(load_model(tmp_path / "far").model.members) == 3


def test_the_command_line_takes_the_folder(home, folders, text_file, tmp_path, capsys):
    out = tmp_path / "out"
    data = ["--dataset", str(text_file), "--no_cache"]
    assert main(["compare", str(folders[0]), str(home), *data, "--output_dir", str(out)]) == 0
    assert "of 120 rows: NFR" in capsys.readouterr().out
    assert main(["predict", str(home), *data, "--output", str(tmp_path / "e.parquet")]) == 0
    table = hf_pct.Predictions.load(tmp_path / "e.parquet")
    assert np.array_equal(table.logits, hf_pct.Predictions.load(out / "new_predictions.parquet").logits)
    shutil.rmtree(home / "seed-1")
    assert main(["predict", str(home), *data, "--output", str(tmp_path / "f.parquet")]) == 2
    assert "seed-1 is not there" in capsys.readouterr().err


def test_the_cache_knows_ensembles(run, home, monkeypatch):
    calls = []
    module = sys.modules["hf_pct.models.predict"]
    loop = module.run
    monkeypatch.setattr(module, "run", lambda *args, **options: calls.append(1) or loop(*args, **options))
    first = run(home)
    assert np.array_equal(run(home).logits, first.logits)
    run(Ensemble([home / f"seed-{seed}" for seed in range(3)]))
    assert len(calls) == 1
    save_ensemble(home, [home / f"seed-{seed}" for seed in range(3)], [1, 1, 2], overwrite=True)
    run(home)
    assert len(calls) == 2


def test_the_fingerprint_is_of_what_the_ensemble_holds():
    def members(*seeds):
        return [tiny_bert(seed=seed) for seed in seeds]

    def prints(ensemble):
        return model_fingerprint(ensemble), weights_fingerprint(ensemble)

    same = prints(Ensemble(members(0, 1)))
    assert prints(Ensemble(members(0, 1))) == same
    for other in (
        Ensemble(members(0, 2)),
        Ensemble(members(0, 1, 2)),
        Ensemble(members(0, 1), temperatures=[1.0, 1.5]),
        Ensemble([tiny_bert(INTENTS), tiny_bert(INTENTS[::-1], 1)]),
    ):
        assert not set(prints(other)) & set(same)
    changed = Ensemble(members(0, 1))
    changed.members[1].config.hidden_act = "relu"  # no weight, and not of the first member
    assert model_fingerprint(changed) != same[0]

    class Mine(type(tiny_bert())):
        pass

    assert model_fingerprint(Ensemble([tiny_bert(), Mine(tiny_bert().config)], homogeneous=False)) is None


def test_a_trainer_takes_it_as_the_old_model(home, text_dataset, tokenizer, tmp_path):
    from transformers import DataCollatorWithPadding

    from hf_pct import FocalDistillArguments, FocalDistillTrainer

    rows = text_dataset.select(range(24))
    rows = rows.map(lambda row: {**tokenizer(row["text"]), "labels": INTENTS.index(row["label"])})
    rows = rows.remove_columns([name for name in text_dataset.column_names if name in rows.column_names])
    losses = []
    for number, old in enumerate((home, Ensemble([home / f"seed-{seed}" for seed in range(3)]), home / "seed-0")):
        args = FocalDistillArguments(
            str(tmp_path / str(number)), use_cpu=True, report_to="none", num_train_epochs=1, save_strategy="no",
            reference="live" if number else "cached", reference_cache_dir=str(tmp_path / "tables"), disable_tqdm=True,
        )  # fmt: skip
        torch.manual_seed(0)
        trainer = FocalDistillTrainer(
            tiny_bert(seed=9),
            args,
            DataCollatorWithPadding(tokenizer),
            rows,
            processing_class=tokenizer,
            old_model=old,
        )
        losses.append(trainer.train().training_loss)
    assert losses[0] == pytest.approx(losses[1], abs=1e-5)
    assert losses[2] != pytest.approx(losses[0], abs=1e-3)


# ---- images


def timm_members(**options):
    import timm

    models = []
    for seed in range(2):
        torch.manual_seed(seed)
        models.append(timm.create_model("test_vit", num_classes=2, pretrained=False, **options).eval())
    return models


def test_bare_timm_models():
    from PIL import Image

    models = timm_members()
    members = [load_model(models[0], label_names=["cat", "dog"]), load_model(models[1], label_names=["dog", "cat"])]
    ensemble = Ensemble(members)
    pixels = torch.randn(3, 3, 160, 160)
    with torch.no_grad():
        expected = (models[0](pixels) + models[1](pixels).flip(1)) / 2
        output = ensemble(pixel_values=pixels)
        torch.testing.assert_close(output.logits, expected)
        assert type(output).__name__ == "ImageClassifierOutput"
        loaded = load_model(ensemble)
        picture = Image.new("RGB", (50, 40), (200, 10, 30))
        inputs = loaded.task.collate(loaded.task.prepare([picture]))
        torch.testing.assert_close(loaded.logits(inputs), ensemble(**inputs).logits)
    assert loaded.label_names == ("cat", "dog")
    assert loaded.task.kind == "image"
    assert model_fingerprint(ensemble) == model_fingerprint(copy.deepcopy(ensemble))
    for model in models:
        model.pretrained_cfg = {**model.pretrained_cfg, "label_names": ["cat", "dog"]}
    assert Ensemble(models).label_names == ("cat", "dog")


def test_image_models_from_folders(tmp_path):
    from transformers import TimmWrapperConfig, TimmWrapperForImageClassification

    labels = {"id2label": {0: "cat", 1: "dog"}, "label2id": {"cat": 0, "dog": 1}}
    for number, raw in enumerate(timm_members()):
        config = TimmWrapperConfig(architecture="test_vit", pretrained_cfg=raw.pretrained_cfg, **labels)
        wrapped = TimmWrapperForImageClassification(config)
        wrapped.timm_model.load_state_dict(raw.state_dict())
        wrapped.save_pretrained(tmp_path / str(number))
    save_ensemble(tmp_path, [tmp_path / "0", tmp_path / "1"])
    loaded = load_model(tmp_path)
    pixels = torch.randn(2, 3, 160, 160)
    with torch.no_grad():
        expected = sum(raw(pixels) for raw in timm_members()) / 2
        torch.testing.assert_close(loaded.logits({"pixel_values": pixels}), expected)
    other = json.loads((tmp_path / "1" / "config.json").read_text())
    other["pretrained_cfg"]["mean"] = [0.1, 0.2, 0.3]
    (tmp_path / "1" / "config.json").write_text(json.dumps(other))
    with pytest.raises(ValueError, match=r"does not read inputs as .* its image processor makes other inputs"):
        load_model(tmp_path)


# ---- adapters


@pytest.fixture
def adapted(tmp_path, tokenizer):
    """A base that has no head, and three adapters with their own heads, saved one by one."""
    peft = pytest.importorskip("peft")
    base = tiny_bert()
    base.bert.save_pretrained(tmp_path / "base")
    tokenizer.save_pretrained(tmp_path / "base")
    for seed in range(3):
        torch.manual_seed(seed)
        config = peft.LoraConfig(
            task_type="SEQ_CLS", r=2 + seed, target_modules=["query", "value"], init_lora_weights=False
        )
        model = peft.get_peft_model(tiny_bert(), config)
        for name, value in model.named_parameters():
            if "modules_to_save" in name:
                value.data.normal_()
        model.save_pretrained(tmp_path / f"adapter-{seed}")
    return tmp_path


ADAPTERS = ["one", "two", "six"]


def with_adapters(folder, names=ADAPTERS):
    """One PEFT model, in training with the first of its adapters."""
    import peft

    first, *others = names
    model = peft.PeftModel.from_pretrained(tiny_bert(), folder / f"adapter-{ADAPTERS.index(first)}", first, True)
    for name in others:
        model.load_adapter(folder / f"adapter-{ADAPTERS.index(name)}", name)
    return model.train()


def alone(folder, number):
    import peft

    return peft.PeftModel.from_pretrained(tiny_bert(), folder / f"adapter-{number}").eval()


def save_adapters(folder, **changes):
    members = [folder / f"adapter-{number}" for number in range(3)]
    return save_ensemble(
        folder / "e", members, kind="adapters", base=folder / "base", label_names=INTENTS, **changes
    ).parent


def test_adapters_are_what_they_are_alone(adapted, batch):
    model = with_adapters(adapted)
    ensemble = AdapterEnsemble(model, ADAPTERS, temperatures=[1, 2, 4])
    with torch.no_grad():
        single = [alone(adapted, number)(**batch).logits for number in range(3)]
        scaled = list(ensemble.member_logits(**batch))
        torch.testing.assert_close(torch.stack(scaled), torch.stack([single[0], single[1] / 2, single[2] / 4]))
        torch.testing.assert_close(ensemble(**batch).logits, sum(scaled) / 3)
    assert len(list(ensemble.parameters())) == len(list(model.parameters()))  # the backbone is there once
    loaded = load_ensemble(save_adapters(adapted))
    with torch.no_grad():
        torch.testing.assert_close(loaded.logits(batch), sum(single) / 3)
    assert loaded.label_names == tuple(INTENTS)


def test_asking_adapters_changes_nothing(adapted, batch):
    model = with_adapters(adapted)
    model.base_model.model.bert.embeddings.eval()
    ensemble = AdapterEnsemble(model, ["two", "six"])

    def state():
        modes = {name: module.training for name, module in model.named_modules()}
        return modes, {name: value.requires_grad for name, value in model.named_parameters()}, model.active_adapters

    for name, value in model.named_parameters():
        value.requires_grad = ".one." in name  # as a trainer has it; peft 0.18 loads adapters frozen
    before = state()
    assert any(before[1].values())
    ensemble.eval()
    ensemble(**batch)
    ensemble.train()
    next(ensemble.member_logits(**batch))  # and never asked for the others
    with torch.inference_mode():
        ensemble(**batch)
    assert state() == before
    assert model.active_adapter == "one"
    with pytest.raises(AttributeError):
        ensemble(input_ids="not a tensor")
    assert state() == before
    assert copy.deepcopy(ensemble).members[0].model is not model


def test_the_fingerprint_of_adapters_knows_neither_names_nor_order(adapted, run):
    first = load_ensemble(save_adapters(adapted)).model
    again = load_ensemble(adapted / "e").model  # its base has no head, so another random one is made, and replaced
    assert model_fingerprint(first) == model_fingerprint(again) is not None
    model = with_adapters(adapted, names=["six", "one", "two"])
    two = model_fingerprint(AdapterEnsemble(model, ["six", "one"]))
    assert two == model_fingerprint(AdapterEnsemble(model, ["one", "six"]))
    assert two == model_fingerprint(AdapterEnsemble(with_adapters(adapted, names=["one", "six"]), ["one", "six"]))
    assert two != model_fingerprint(AdapterEnsemble(model, ["one", "two"]))
    warm = [AdapterEnsemble(model, names, temperatures=[1, 2]) for names in (["one", "six"], ["six", "one"])]
    assert len({two, *map(model_fingerprint, warm)}) == 3
    for layer in model.modules():
        if isinstance(getattr(layer, "scaling", None), dict):
            layer.scaling["six"] *= 2  # no weight says so
    assert two != model_fingerprint(AdapterEnsemble(model, ["one", "six"]))
    assert np.array_equal(run(adapted / "e").logits, run(adapted / "e").logits)


def test_a_peft_model_with_another_active_adapter_is_another_model(adapted):
    model = with_adapters(adapted)
    before = model_fingerprint(model)
    model.set_adapter("two")
    assert model_fingerprint(model) != before
    model.set_adapter("one")
    assert model_fingerprint(model) == before
    with model.disable_adapter():
        assert model_fingerprint(model) != before


def test_adapters_that_cannot_answer(adapted, batch):
    model = with_adapters(adapted)
    with pytest.raises(
        ValueError, match=r"adapter 'x' is not loaded, the model has 'one', 'two', 'six'.*\n.*'two' is listed more"
    ):
        AdapterEnsemble(model, ["two", "x", "two"])
    with pytest.raises(ValueError, match="BertForSequenceClassification is no PEFT model"):
        AdapterEnsemble(tiny_bert(), ["one", "two"])
    with pytest.raises(ValueError, match="1 member, expected at least 2"):
        AdapterEnsemble(model, ["one"])
    ensemble = AdapterEnsemble(model, ["one", "two"])
    with model.disable_adapter(), pytest.raises(ValueError, match="adapters are disabled"):
        ensemble(**batch)
    model.merge_adapter(["one"])
    with pytest.raises(ValueError, match=r"merged into its weights: call model\.unmerge_adapter"):
        ensemble(**batch)


def test_adapter_folders_that_cannot_answer(adapted, tokenizer):
    from safetensors.torch import load_file, save_file

    home = save_adapters(adapted)
    weights = adapted / "adapter-1" / "adapter_model.safetensors"
    state = load_file(weights)
    save_file({name: value for name, value in state.items() if "classifier" not in name}, weights)
    with pytest.raises(ValueError, match=r"adapter-1 has no classifier\.bias, classifier\.weight and neither has its"):
        load_model(home)
    weights.rename(weights.with_suffix(".bin"))
    with pytest.raises(ValueError, match=r"adapter-1 is unfinished: it lacks adapter_model\.safetensors"):
        load_model(home)
    save_file(state, weights)
    tokenizer.save_pretrained(adapted / "adapter-0")
    load_model(home)
    other = copy.deepcopy(tokenizer)
    other.add_tokens(["lamp"])
    other.save_pretrained(adapted / "adapter-2")
    with pytest.raises(ValueError, match=r"adapter-2 does not read inputs as .*adapter-0 does"):
        load_model(home)


# ---- what is refused


@pytest.mark.parametrize(
    ("count", "options", "message"),
    [
        (0, {}, "0 members, expected at least 2"),
        (1, {"temperatures": [1, 2]}, r"1 member, expected at least 2\n  2 temperatures for 1 members"),
        (2, {"temperatures": [0.0, float("nan")]}, r"temperatures of 0\.0, nan, expected finite numbers above 0"),
        (2, {"temperatures": [1.0, -1.0]}, r"temperatures of -1\.0, expected"),
    ],
)
def test_bad_calls(count, options, message):
    with pytest.raises(ValueError, match=rf"(?s)cannot be one ensemble:\n.*{message}"):
        Ensemble([tiny_bert(seed=seed) for seed in range(count)], **options)


def wide_bert():
    config = copy.deepcopy(tiny_bert().config)
    config.intermediate_size = 8
    return type(tiny_bert())(config)


def test_members_that_do_not_fit_are_named_all_at_once(folders, tokenizer, tmp_path):
    other = copy.deepcopy(tokenizer)
    other.add_tokens(["lamp"])
    members = [
        load_model(folders[0]),
        tiny_bert(["light_on", "light_off", "music", "timer"]),
        wide_bert(),
        load_model(tiny_bert(), processor=other),
    ]
    with pytest.raises(ValueError, match="cannot be one ensemble") as caught:
        Ensemble(members)
    lines = str(caught.value).splitlines()[1:]
    assert len(lines) == 3
    assert (
        "member 1 (BertForSequenceClassification) lacks 'weather' and also has 'timer', against member 0" in lines[0]
    )
    assert "member 2" in lines[1]
    assert "of shape (8,)" in lines[1]
    assert "pass homogeneous=False" in lines[1]
    assert "its tokenizer makes other inputs of the same row" in lines[2]
    bad = tiny_bert()
    torch.nn.init.constant_(bad.classifier.bias, float("nan"))
    with pytest.raises(ValueError, match=r"has NaN or infinity in classifier\.bias"):
        Ensemble([tiny_bert(), bad])
    with pytest.raises(
        ValueError, match=r"(?s)member 0: \S+nowhere is not a folder.*member 1: it is a dict, expected"
    ):
        Ensemble([tmp_path / "nowhere", {}])
    with pytest.raises(ValueError, match=r"member 0: it is an ensemble itself\. List its members"):
        Ensemble([Ensemble([tiny_bert(), tiny_bert()]), tiny_bert()])
    with pytest.raises(ValueError, match=r"member 0 \(\w+\) does not say its classes.*load_model"):
        Ensemble([torch.nn.Linear(2, 2), tiny_bert()])
    with pytest.raises(ValueError, match=r"the classes of member 1 .*'a' more than once"):
        Ensemble([tiny_bert(), tiny_bert(["a", "a", "b", "c"])])
    with pytest.raises(ValueError, match="needs its tokenizer"):
        load_model(Ensemble([tiny_bert(), tiny_bert()]))


def test_a_head_that_is_not_as_wide_as_the_names(batch):
    ensemble = Ensemble([tiny_bert(), tiny_bert()])
    ensemble.members[1].classifier = torch.nn.Linear(16, 6)
    with pytest.raises(ValueError, match="Member 1 gives 6 logits, but the classes are 4"):
        ensemble(**batch)


def test_folders_that_cannot_be_saved(folders, tmp_path):
    with pytest.raises(ValueError, match=r"(?s)kind is 'soup'.*nowhere is not a folder.*gone is not there"):
        save_ensemble(tmp_path / "e", ["org/nowhere", tmp_path / "gone"], kind="soup")
    with pytest.raises(ValueError, match="kind is 'adapters' and base is None, expected a base"):
        save_ensemble(tmp_path / "e", folders, kind="adapters")
    with pytest.raises(ValueError, match=r"(?s)2 temperatures for 3 members.*holds a model already"):
        save_ensemble(folders[0], folders, [1, 2])
    assert not (tmp_path / "e").exists()
    save_ensemble(tmp_path / "e", folders)
    with pytest.raises(ValueError, match="e is an ensemble itself"):
        save_ensemble(tmp_path / "f", [tmp_path / "e", folders[0]])


def test_folders_that_cannot_be_loaded(home):
    path = home / "pct_ensemble.json"
    record = json.loads(path.read_text())
    for changes, message in (
        ({"format_version": 2, "hf_pct": "9.1"}, r"format version 2, this hf_pct \(.*\) reads 1: install .*\(9\.1\)"),
        ({"format": "recipe"}, "does not describe an ensemble"),
        ({"members": "seed-0", "temperatures": ["hot"]}, "is damaged: members is 'seed-0', temperatures is"),
        ({"kind": "soup"}, "damaged: kind is 'soup'"),
        ({"members": ["./seed-0"]}, "1 member, expected at least 2"),
        ({"members": ["./seed-0", ".", "org/nothing"]}, r"(?s)cannot be loaded:.*itself.*org/nothing is not a folder"),
    ):
        path.write_text(json.dumps(record | changes))
        with pytest.raises(ValueError, match=message):
            load_model(home)
    path.write_text("{")
    with pytest.raises(ValueError, match="is not a whole JSON file"):
        load_model(home)
    path.write_text(json.dumps(record))
    (home / "seed-0" / "model.safetensors").unlink()
    shutil.rmtree(home / "seed-2")
    with pytest.raises(
        ValueError, match=r"(?s)seed-0 is unfinished: it lacks model\.safetensors.*seed-2 is not there"
    ):
        load_model(home)
    (home / "seed-0" / "model.safetensors.index.json").write_text('{"weight_map": {"a": "one.safetensors"}}')
    with pytest.raises(ValueError, match=r"it lacks one\.safetensors"):
        load_model(home)
    (home / "seed-0" / "model.safetensors.index.json").write_text("[]")
    with pytest.raises(ValueError, match=r"index\.json does not say where the weights are"):
        load_model(home)
