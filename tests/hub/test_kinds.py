"""Models of other kinds: timm in both formats, merged, trained with the trainers, and adapters."""

import json
import re

import pytest

TIMM = """
import numpy, timm, torch
from PIL import Image
from hf_pct import compare, predict
from hf_pct.hub.publish import push_update

torch.manual_seed(0)
names = ["zero", "one", "two"]
bands = 3 if a.kind == "wrapped" else 1
overlay = {"input_size": (bands, 32, 32), "mean": (0.5,) * bands, "std": (0.25,) * bands}

def fresh(seed):
    torch.manual_seed(seed)
    return timm.create_model("resnet10t", num_classes=3, in_chans=bands, pretrained_cfg_overlay=overlay).eval()

rng = numpy.random.default_rng(0)
rows = [{"id": i, "image": Image.fromarray(rng.integers(0, 255, (32, 32), dtype=numpy.uint8)), "label": names[i % 3]}
        for i in range(24)]
inputs = torch.randn(2, bands, 32, 32)
"""


@pytest.mark.parametrize("kind", ["wrapped", "raw"])
def test_timm_models_are_read_by_timm_and_by_transformers(hub, client, kind):
    found = client.run(
        TIMM
        + """
if a.kind == "wrapped":
    from transformers import TimmWrapperConfig, TimmWrapperForImageClassification
    def wrap(seed):
        inner = fresh(seed)
        config = TimmWrapperConfig(architecture="resnet10t", num_labels=3, model_args={"in_chans": bands},
                                   pretrained_cfg=dict(inner.pretrained_cfg), id2label=dict(enumerate(names)))
        model = TimmWrapperForImageClassification(config).eval()
        model.timm_model.load_state_dict(inner.state_dict())
        return model
    old, new = wrap(0), wrap(1)
    from transformers.models.timm_wrapper.image_processing_timm_wrapper import TimmWrapperImageProcessor
    processor = TimmWrapperImageProcessor(new.config.pretrained_cfg, "resnet10t")
    options, here = {"processor": processor}, new.timm_model
else:
    old, new = fresh(0), fresh(1)
    options, here = {"label_names": names}, new
report = compare(predict(old, rows, **options), predict(new, rows, **options))
done = push_update(new, report, f"org/digits-{a.kind}", license="apache-2.0", label_names=names)
there = timm.create_model(f"hf_hub:org/digits-{a.kind}", pretrained=True).eval()
from transformers import AutoModelForImageClassification
wrapper = AutoModelForImageClassification.from_pretrained(f"org/digits-{a.kind}").eval()
with torch.no_grad():
    expected = here(inputs)
    differences = [(there(inputs) - expected).abs().max().item(),
                   (wrapper(pixel_values=inputs).logits - expected).abs().max().item()]
again = predict(f"org/digits-{a.kind}", rows)
result = {"differences": differences, "labels": list(wrapper.config.id2label.values()), "notes": done.notes,
          "same": again.predictions.tolist() == predict(new, rows, **options).predictions.tolist(),
          "mean": list(timm.data.resolve_model_data_config(there)["mean"])}
""",
        kind=kind,
    )
    assert found["differences"] == pytest.approx([0, 0], abs=1e-6)  # two ways through one network
    assert found["labels"] == ["zero", "one", "two"]
    assert found["same"]
    assert set(found["mean"]) == {0.5}
    assert found["notes"] == []
    repo = hub.model(f"org/digits-{kind}")
    assert set(repo.files) == {".gitattributes", "README.md", "config.json", "flip_report.json", "model.safetensors"}
    card = repo.files["README.md"].decode()
    assert "library_name: timm" in card
    for block in re.findall(r"```python\n(.*?)```", card, re.DOTALL):
        client.run(block)


def test_a_timm_model_without_class_names_is_refused(client):
    answer = client.ask(
        TIMM
        + """
report = compare(predict(fresh(0), rows, label_names=names), predict(fresh(1), rows, label_names=names))
push_update(fresh(1), report, "org/nameless", license="mit")
""",
        kind="raw",
    )
    assert "3 classes and 0 label names" in answer.message


@pytest.fixture(scope="module")
def merged(client, update, tmp_path_factory):
    folder = tmp_path_factory.mktemp("merge")
    client.run(
        """
        from hf_pct import compare, predict
        from hf_pct.merging.streaming import merge_checkpoints
        merge_checkpoints(a.old, a.new, a.folder + "/merged", alpha=0.5)
        old = predict("org/intent-v1", "org/intents", split="test", revision=a.commit)
        compare(old, predict(a.folder + "/merged", "org/intents", split="test")).save(a.folder + "/flip_report.json")
        """,
        old=update.old, new=update.new, folder=folder, commit=update.old_commit,
    )  # fmt: skip
    return folder


def test_merge_push_verify(hub, client, update, merged):
    code, out = client.cli(
        "push", merged / "merged", "--repo_id", "org/merged", "--report", merged / "flip_report.json",
        "--base_model", "org/intent-v1",
    )  # fmt: skip
    assert code == 0, out
    repo = hub.model("org/merged")
    record = json.loads(repo.files["pct_merge.json"])
    assert (record["alpha"], record["old"]["path"]) == (0.5, "old")
    card = repo.files["README.md"].decode()
    assert "base_model_relation: merge" in card
    assert "- bcwi" in card
    assert "schumann2023backward" in card
    assert "at alpha 0.5" in card
    assert client.cli("verify", "org/merged")[0] == 0
    code, out = client.cli("push", update.new, "--repo_id", "org/merged", "--report", update.report, "--replace_card")
    assert code == 0, out
    assert "pct_merge.json" not in repo.files  # of the other model
    assert "Taken away in the same commit" in out


def test_a_trainer_pushes_the_model_with_its_flips(hub, client, update, tmp_path):
    found = client.run(
        """
        from datasets import load_dataset
        from transformers import AutoModelForSequenceClassification, AutoTokenizer
        from hf_pct import FocalDistillArguments, FocalDistillTrainer

        tokenizer = AutoTokenizer.from_pretrained(a.new)
        model = AutoModelForSequenceClassification.from_pretrained(a.new)
        rows = load_dataset("org/intents", split="test")
        rows = rows.map(lambda row: {**tokenizer(row["text"]), "labels": model.config.label2id[row["label"]]},
                        remove_columns=["label"])
        args = FocalDistillArguments(
            a.out, num_train_epochs=1, beta=2.0, learning_rate=1e-3, use_cpu=True, report_to="none",
            save_strategy="epoch", push_to_hub=True, hub_model_id="org/trained", disable_tqdm=True,
            old_model="org/intent-v1")
        trainer = FocalDistillTrainer(model, args, train_dataset=rows, eval_dataset=rows, processing_class=tokenizer)
        trainer.train()
        evaluated = trainer.evaluate()
        done = trainer.push_to_hub(dataset="org/intents", dataset_split="test")
        result = {"nfr": evaluated["eval_nfr"], "notes": done.notes}
        """,
        new=update.new,
        out=tmp_path / "out",
    )
    assert found["notes"] == []
    repo = hub.model("org/trained")
    report = json.loads(repo.files["flip_report.json"])
    assert report["nfr"] == pytest.approx(found["nfr"])
    assert report["old"]["model"] == "org/intent-v1"
    assert report["old"]["revision"] == update.old_commit
    record = json.loads(repo.files["pct_config.json"])
    assert record["method"] == "fd-lm"
    assert record["settings"]["right_rows"] == 2.0
    assert not {"output_dir", "hub_token", "hub_model_id"} & set(record["settings"])
    card = repo.files["README.md"].decode()
    assert "- focal-distillation" in card
    assert "| right_rows | 2.0 |" in card
    assert "training_args.bin" not in repo.files
    assert len(repo.branches["main"]) == 2  # checkpoints did not go up on the way
    assert client.cli("verify", "org/trained")[0] == 0


def test_a_trainer_without_write_rights_stops_before_training(client, update, tmp_path):
    answer = client.ask(
        """
        from transformers import AutoModelForSequenceClassification
        from hf_pct import PCTArguments, PCTrainer

        model = AutoModelForSequenceClassification.from_pretrained(a.new)
        PCTrainer(model, PCTArguments(a.out, push_to_hub=True, hub_model_id="org/x", use_cpu=True))
        """,
        token="hf_read",
        new=update.new,
        out=tmp_path,
    )
    assert answer.error == "HubError"
    assert "may only read" in answer.message


def test_a_merger_pushes_the_model_with_its_flips(hub, client, update, tmp_path):
    client.run(
        """
        from datasets import load_dataset
        from transformers import AutoModelForSequenceClassification, AutoTokenizer
        from hf_pct import BCWIArguments, BCWIMerger

        tokenizer = AutoTokenizer.from_pretrained(a.new)
        model = AutoModelForSequenceClassification.from_pretrained(a.new)
        rows = load_dataset("org/intents", split="test")
        rows = rows.map(lambda row: {**tokenizer(row["text"]), "labels": model.config.label2id[row["label"]]},
                        remove_columns=["label", "user", "channel", "traffic", "text"])
        args = BCWIArguments(a.out, hub_model_id="org/merger", push_to_hub=True, use_cpu=True, report_to="none",
                             disable_tqdm=True)
        merger = BCWIMerger("org/intent-v1", [a.new], args, eval_dataset=rows, processing_class=tokenizer)
        merger.set_alpha(0.5)
        merger.push_to_hub(dataset="org/intents", dataset_split="test")
        """,
        new=update.new,
        out=tmp_path / "out",
    )
    repo = hub.model("org/merger")
    assert json.loads(repo.files["pct_merge.json"])["alpha"] == 0.5
    assert "base_model_relation: merge" in repo.files["README.md"].decode()
    code, out = client.cli("verify", "org/merger")
    assert code == 0, out


def test_an_adapter(hub, client, update, tmp_path):
    pytest.importorskip("peft")
    notes, names, logits, of_commit = client.run(
        """
        import numpy
        from peft import LoraConfig, get_peft_model
        from transformers import AutoModelForSequenceClassification, AutoTokenizer
        from hf_pct import predict
        from hf_pct.hub.publish import push_update
        model = AutoModelForSequenceClassification.from_pretrained("org/intent-v1")
        model.config.id2label = {i: f"class {i}" for i in model.config.id2label}  # classes that its base does not say
        settings = LoraConfig(task_type="SEQ_CLS", r=2, target_modules=["query"], init_lora_weights=False)
        adapted = get_peft_model(model, settings)
        tokenizer = AutoTokenizer.from_pretrained("org/intent-v1")
        notes = push_update(adapted, a.report, "org/adapter", processor=tokenizer).notes
        rows = [{"text": "turn on the light", "label": "class 0"}, {"text": "stop", "label": "class 1"}]
        options = {"progress": False, "use_cache": False}
        loaded, live = predict("org/adapter", rows, **options), predict(adapted, rows, processor=tokenizer, **options)
        same = bool(numpy.allclose(loaded.logits, live.logits, atol=1e-4))
        result = notes, list(loaded.label_names), same, loaded.provenance.revision
        """,
        report=update.report,
    )
    assert any("adapter" in note for note in notes)
    assert names == [f"class {number}" for number in range(len(names))]
    assert logits
    assert re.fullmatch("[0-9a-f]{40}", of_commit)
    repo = hub.model("org/adapter")
    files = {"adapter_config.json", "adapter_model.safetensors", "pct_labels.json", "tokenizer.json"}
    assert files <= set(repo.files)
    card = repo.files["README.md"].decode()
    assert "library_name: peft" in card
    assert "base_model: org/intent-v1" in card
    assert "base_model_relation: adapter" in card
