import json
import os
import shutil
import struct
import subprocess
import sys

import pytest
import torch
from merging_kit import tiny_bert
from safetensors.torch import load_file, save_file
from transformers import AutoModelForSequenceClassification

from hf_pct.core.errors import NotComparableError
from hf_pct.core.files import OutputError
from hf_pct.merging.checkpoints import read as weight_files
from hf_pct.merging.checkpoints import stream as streaming
from hf_pct.merging.checkpoints.folders import open_checkpoint
from hf_pct.merging.checkpoints.read import Files, file_hash, hash_weights, read_weight_file
from hf_pct.merging.checkpoints.record import MergeRecord
from hf_pct.merging.checkpoints.replay import replay
from hf_pct.merging.checkpoints.stream import merge_checkpoints
from hf_pct.merging.interpolate import interpolate, uniform_soup
from hf_pct.models.fingerprints import weights_fingerprint


def load_folder(folder):
    return {name: value for path in sorted(folder.glob("*.safetensors")) for name, value in load_file(path).items()}


def copied(source, target):
    return shutil.copytree(source, target)


@pytest.fixture(autouse=True)
def small_chunks(monkeypatch):
    """Every tensor of the tiny models spans several pieces."""
    monkeypatch.setattr(weight_files, "CHUNK_BYTES", 256)
    monkeypatch.setattr(streaming, "CHUNK_BYTES", 256)
    monkeypatch.setattr(weight_files.pieces, "__defaults__", (256,))


@pytest.mark.parametrize(("old", "new"), [("old", "new"), ("sharded_old", "new"), ("sharded_old", "sharded_new")])
def test_disk_is_memory(folders, tmp_path, old, new):
    merge_checkpoints(folders / old, folders / new, tmp_path / "out", alpha=0.3)
    expected = interpolate(load_folder(folders / "old"), load_folder(folders / "new"), 0.3)
    merged = load_folder(tmp_path / "out")
    assert merged.keys() == expected.keys()
    assert all(torch.equal(merged[name], expected[name]) for name in merged)
    model = AutoModelForSequenceClassification.from_pretrained(tmp_path / "out")
    assert torch.equal(model.state_dict()["classifier.bias"], expected["classifier.bias"])


@pytest.mark.parametrize("dtype", [torch.float64, torch.float16, torch.bfloat16])
@pytest.mark.parametrize("alpha", [0.0, 0.4, 1.0])
def test_other_dtypes_and_integers(folders, tmp_path, dtype, alpha):
    states = {}
    for name in ("old", "new"):
        copied(folders / name, tmp_path / name)
        states[name] = {k: v.to(dtype) for k, v in load_folder(folders / name).items()}
        states[name]["steps"] = torch.arange(100) + len(name)
        states[name]["empty"] = torch.zeros(0, dtype=dtype)
        save_file(states[name], tmp_path / name / "model.safetensors")
    merge_checkpoints(tmp_path / "old", tmp_path / "new", tmp_path / "out", alpha=alpha)
    expected = interpolate(states["old"], states["new"], alpha)
    merged = load_folder(tmp_path / "out")
    assert all(
        torch.equal(merged[name], expected[name]) and merged[name].dtype == expected[name].dtype for name in expected
    )


def test_soup_and_groups(folders, tmp_path):
    alpha = {"embeddings": 1.0, "head": 0.0, "default": 0.6}
    new = [folders / "new", folders / "new2"]
    merge_checkpoints(folders / "old", new, tmp_path / "out", alpha=alpha, method="soup")
    soup = uniform_soup([load_folder(folder) for folder in new])
    expected = interpolate(load_folder(folders / "old"), soup, alpha)
    merged = load_folder(tmp_path / "out")
    assert all(torch.equal(merged[name], expected[name]) for name in merged)


@pytest.mark.parametrize("fisher_dtype", [torch.float32, torch.float64])
def test_fisher(folders, tmp_path, fisher_dtype):
    old, new = load_folder(folders / "old"), load_folder(folders / "new")
    fisher = {name: torch.rand_like(value).to(fisher_dtype) for name, value in old.items() if "bias" not in name}
    path = tmp_path / "fisher.safetensors"
    save_file(fisher, path)
    merge_checkpoints(
        folders / "old",
        folders / "new",
        tmp_path / "out",
        alpha=0.8,
        method="fisher",
        fisher=tmp_path / "fisher.safetensors",
    )
    expected = interpolate(old, new, 0.8, old_fisher=fisher)
    merged = load_folder(tmp_path / "out")
    assert all(torch.equal(merged[name], expected[name]) for name in merged)


@pytest.mark.parametrize(("alpha", "side"), [(0.0, "new"), (1.0, "old")])
def test_both_ends_are_the_very_bytes(folders, tmp_path, alpha, side):
    merge_checkpoints(folders / "old", folders / "new", tmp_path / "out", alpha=alpha)
    assert (tmp_path / "out/model.safetensors").read_bytes() == (folders / side / "model.safetensors").read_bytes()


def test_added_classes(folders, tmp_path):
    tiny_bert(9, labels=("yes", "other", "maybe", "no")).save_pretrained(tmp_path / "wider")
    record = merge_checkpoints(folders / "old", tmp_path / "wider", tmp_path / "out", alpha=0.5)
    assert record.labels == {"shared": ["yes", "maybe", "no"], "added": ["other"]}
    old, new = load_folder(folders / "old")["classifier.weight"], load_folder(tmp_path / "wider")["classifier.weight"]
    merged = load_folder(tmp_path / "out")["classifier.weight"]
    assert torch.equal(merged[1], new[1])
    torch.testing.assert_close(merged[0], (old[1] + new[0]) / 2)
    torch.testing.assert_close(merged[3], (old[0] + new[3]) / 2)


def test_added_classes_of_a_soup_are_the_soups(folders, tmp_path):
    for seed in (8, 9):
        tiny_bert(seed, labels=("yes", "other", "maybe", "no")).save_pretrained(tmp_path / str(seed))
    wider = [tmp_path / "8", tmp_path / "9"]
    merge_checkpoints(folders / "old", wider, tmp_path / "out", alpha=0.5, method="soup")
    soup = uniform_soup([load_folder(folder) for folder in wider])
    assert torch.equal(load_folder(tmp_path / "out")["classifier.weight"][1], soup["classifier.weight"][1])


def test_record_makes_the_same_bytes_again(folders, tmp_path):
    curve = [{"alpha": 0.4, "nfr": 0.01}]
    merge_checkpoints(folders / "sharded_old", folders / "new", tmp_path / "a", alpha=0.4, curve=curve)
    replay(tmp_path / "a/pct_merge.json", tmp_path / "b")
    names = sorted(path.name for path in (tmp_path / "a").iterdir())
    assert names == sorted(path.name for path in (tmp_path / "b").iterdir())
    assert "config.json" in names
    assert all((tmp_path / "a" / name).read_bytes() == (tmp_path / "b" / name).read_bytes() for name in names)
    record = MergeRecord.load(tmp_path / "a/pct_merge.json")
    assert record.curve == curve
    assert record.output == {"model.safetensors": file_hash(tmp_path / "a/model.safetensors")}
    assert record.versions.keys() >= {"python", "hf_pct", "torch"}


def test_replay_refuses_inputs_that_changed(folders, tmp_path):
    merge_checkpoints(folders / "old", folders / "new", tmp_path / "a", alpha=0.4)
    with pytest.raises(NotComparableError, match=r"new2: its weights are xxh3_128:\w+, the record says xxh3_128"):
        replay(tmp_path / "a/pct_merge.json", tmp_path / "b", new=[folders / "new2"])
    with pytest.raises(NotComparableError, match="2 new models were given, the record has 1"):
        replay(tmp_path / "a/pct_merge.json", tmp_path / "b", new=[folders / "new", folders / "new2"])
    assert not (tmp_path / "b").exists()
    (tmp_path / "c.json").write_text("{}")
    with pytest.raises(ValueError, match="is not a pct_merge"):
        replay(tmp_path / "c.json", tmp_path / "b")
    (tmp_path / "c.json").write_text('{"format_version": 99}')
    with pytest.raises(ValueError, match="format version 99"):
        replay(tmp_path / "c.json", tmp_path / "b")


def test_a_record_that_proves_nothing_is_not_replayed(folders, tmp_path):
    merge_checkpoints(folders / "old", folders / "new", tmp_path / "a", alpha=0.4)
    record = json.loads((tmp_path / "a/pct_merge.json").read_text())
    cases = [
        ({"output": {}}, "hashes of no output files.*cannot be checked"),
        ({"old": {"path": str(folders / "old"), "weights": ""}}, "does not record the weights of"),
        ({"not_replayable": "it was made by hand"}, "cannot be replayed, because it was made by hand"),
        ({"output": {"model.safetensors": "xxh3_128:0"}}, r"model\.safetensors comes out with other bytes"),
    ]
    for change, says in cases:
        (tmp_path / "c.json").write_text(json.dumps(record | change))
        with pytest.raises(NotComparableError, match=says):
            replay(tmp_path / "c.json", tmp_path / "b")
    assert not (tmp_path / "b").exists()


def test_the_record_has_the_hash_by_which_a_report_knows_the_merged_model(folders, tmp_path):
    record = merge_checkpoints(folders / "sharded_old", folders / "new", tmp_path / "a", alpha=0.4)
    load = AutoModelForSequenceClassification.from_pretrained
    assert record.weights == weights_fingerprint(load(tmp_path / "a"))
    assert record.old.weights == weights_fingerprint(load(folders / "old"))
    assert record.new[0].weights == weights_fingerprint(load(folders / "new"))


def test_evidence_about_the_unmerged_model_stays_with_it(folders, tmp_path):
    new = copied(folders / "new", tmp_path / "new")
    evidence = [
        "flip_report.json",
        "flip_report.md",
        "old_predictions.parquet",
        "eval_results.json",
        "pct_config.json",
    ]
    evidence += ["all_results.json", "README.md", "trainer_state.json", "training_args.bin", "notes.txt"]
    reading = ["tokenizer_config.json", "vocab.txt", "preprocessor_config.json", "special_tokens_map.json"]
    for name in (*evidence, *reading):
        (new / name).write_text("{}")
    merge_checkpoints(folders / "old", new, tmp_path / "out", alpha=0.4)
    written = {path.name for path in (tmp_path / "out").iterdir()}
    assert written == {"config.json", "model.safetensors", "pct_merge.json", *reading}


def test_a_link_out_of_the_folder_is_not_followed(folders, tmp_path):
    new = copied(folders / "new", tmp_path / "new")
    (tmp_path / "secret.txt").write_text("secret")
    (new / "inside.txt").write_text("words")
    (new / "vocab.json").symlink_to(new / "inside.txt")
    merge_checkpoints(folders / "old", new, tmp_path / "out", alpha=0.4)
    assert (tmp_path / "out/vocab.json").read_text() == "words"
    (new / "vocab.txt").symlink_to(tmp_path / "secret.txt")
    with pytest.raises(NotComparableError, match=r"vocab\.txt is a link to .*secret\.txt, outside of its folder"):
        merge_checkpoints(folders / "old", new, tmp_path / "again", alpha=0.4)


def test_weights_hash_does_not_depend_on_shards(folders):
    hashes = {hash_weights(open_checkpoint(folders / name)[0].entries) for name in ("old", "sharded_old")}
    assert len(hashes) == 1
    assert hash_weights(open_checkpoint(folders / "new")[0].entries) not in hashes


def test_every_problem_is_listed_at_once(folders, tmp_path):
    copied(folders / "old", tmp_path / "old")
    copied(folders / "new", tmp_path / "new")
    state = load_folder(folders / "old")
    state["extra"] = torch.zeros(2)
    del state["classifier.bias"]
    state["bert.pooler.dense.bias"] = state["bert.pooler.dense.bias"].half()
    state["bert.pooler.dense.weight"] = torch.zeros(3, 3)
    save_file(state, tmp_path / "old/model.safetensors")
    config = json.loads((tmp_path / "old/config.json").read_text())
    config["id2label"] = {"0": "a", "1": "b", "2": "c"}
    config["model_type"] = "roberta"
    (tmp_path / "old/config.json").write_text(json.dumps(config))
    for name, vocabulary in (("old", ["a", "b"]), ("new", ["a", "c"])):
        (tmp_path / name / "vocab.txt").write_text("\n".join(vocabulary))
    (tmp_path / "out").mkdir()
    (tmp_path / "out/mine.txt").write_text("keep")
    with pytest.raises(NotComparableError) as error:
        merge_checkpoints(tmp_path / "old", tmp_path / "new", tmp_path / "out", alpha=0.5)
    for part in (
        "extra: only in",
        "classifier.bias: only in",
        "F16",
        "(3, 3)",
        "model_type differs",
        "share no label name",
        "tokenizers differ in vocab.txt",
        "not empty",
    ):
        assert part in str(error.value), part
    assert (tmp_path / "out/mine.txt").read_text() == "keep"


def test_tokenizers_are_compared_by_what_they_do(folders, tmp_path):
    copied(folders / "old", tmp_path / "old")
    copied(folders / "new", tmp_path / "new")
    tokenizer = {"truncation": None, "model": {"vocab": {"a": 0, "b": 1}}}
    (tmp_path / "old/tokenizer.json").write_text(json.dumps(tokenizer))
    (tmp_path / "new/tokenizer.json").write_text(json.dumps({**tokenizer, "truncation": {"max_length": 9}}))
    merge_checkpoints(tmp_path / "old", tmp_path / "new", tmp_path / "fine", alpha=0.5)
    assert (tmp_path / "fine/tokenizer.json").exists()
    (tmp_path / "new/tokenizer.json").write_text(json.dumps({"model": {"vocab": {"a": 1, "b": 0}}}))
    with pytest.raises(NotComparableError, match="tokenizers differ in model"):
        merge_checkpoints(tmp_path / "old", tmp_path / "new", tmp_path / "out", alpha=0.5)


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
@pytest.mark.parametrize("name", ["bert.encoder.layer.0.intermediate.dense.weight", "classifier.bias"])
def test_weights_that_are_not_finite(folders, tmp_path, value, name):
    copied(folders / "new", tmp_path / "new")
    state = load_folder(folders / "new")
    state[name].view(-1)[-1] = value
    save_file(state, tmp_path / "new/model.safetensors")
    with pytest.raises(NotComparableError, match=rf"{name}: NaN or infinite values in .*new.model.safetensors"):
        merge_checkpoints(folders / "old", tmp_path / "new", tmp_path / "out", alpha=0.5)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["new"]


def test_pickled_truncated_and_missing_files(folders, tmp_path):
    pickled, cut, sharded = (tmp_path / name for name in ("pickled", "cut", "sharded"))
    pickled.mkdir()
    torch.save({}, pickled / "pytorch_model.bin")
    copied(folders / "new", cut)
    whole = (cut / "model.safetensors").read_bytes()
    (cut / "model.safetensors").write_bytes(whole[:-7])
    copied(folders / "sharded_new", sharded)
    gone = sorted(sharded.glob("*.safetensors"))[0]
    gone.unlink()
    with pytest.raises(NotComparableError) as error:
        merge_checkpoints(pickled, [cut, sharded, tmp_path / "nowhere"], tmp_path / "out", alpha=0.5, method="soup")
    for part in ("only pickled files", "truncated", f"shard {gone.name} is missing", "no such folder"):
        assert part in str(error.value)
    for broken in (b"", b"\x00" * 4, struct.pack("<Q", 10**12) + b"{}", struct.pack("<Q", 2) + b"xx"):
        (cut / "model.safetensors").write_bytes(broken)
        with pytest.raises(NotComparableError, match=r"truncated|not a safetensors file"):
            merge_checkpoints(folders / "old", cut, tmp_path / "out", alpha=0.5)
    assert not (tmp_path / "out").exists()


def test_a_full_disk_leaves_nothing_behind(folders, tmp_path, monkeypatch):
    calls = []

    def fill_up(stream, buffer):
        calls.append(len(buffer))
        if len(calls) > 20:
            raise OSError(28, "No space left on device")
        stream.write(buffer.numpy())

    monkeypatch.setattr(streaming, "write_all", fill_up)
    with pytest.raises(OSError, match="No space left"):
        merge_checkpoints(folders / "old", folders / "new", tmp_path / "out", alpha=0.5)
    assert list(tmp_path.iterdir()) == []
    monkeypatch.setattr(shutil, "disk_usage", lambda path: shutil._ntuple_diskusage(10, 9, 1))
    with pytest.raises(OutputError, match="1 are free on that disk"):  # no word about the models: exit 2, not 3
        merge_checkpoints(folders / "old", folders / "new", tmp_path / "out", alpha=0.5)


def test_a_hundred_shards_need_no_hundred_open_files(folders, tmp_path):
    for name in ("old", "new"):
        model = load_file(folders / name / "model.safetensors")
        pieces = {f"{entry}.{row}": part.clone() for entry, value in model.items() for row, part in enumerate(value)}
        groups = [dict(list(pieces.items())[start::100]) for start in range(100)]
        index = {}
        (tmp_path / name).mkdir()
        for number, group in enumerate(groups):
            save_file(group, tmp_path / name / f"model-{number}.safetensors", metadata={"format": "pt"})
            index |= dict.fromkeys(group, f"model-{number}.safetensors")
        (tmp_path / name / "model.safetensors.index.json").write_text(json.dumps({"weight_map": index}))
    code = (
        "import resource, sys; resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))\n"
        "from hf_pct.merging import merge_checkpoints\n"
        "merge_checkpoints('old', 'new', 'out', alpha=0.4)"
    )
    subprocess.run([sys.executable, "-c", code], check=True, cwd=tmp_path)
    assert len(list((tmp_path / "out").glob("*.safetensors"))) == 100
    merge_checkpoints(tmp_path / "old", tmp_path / "new", tmp_path / "again", alpha=0.4)
    for path in (tmp_path / "out").glob("*.safetensors"):
        assert path.read_bytes() == (tmp_path / "again" / path.name).read_bytes()


def test_an_empty_output_folder_is_used_and_a_fisher_must_fit(folders, tmp_path):
    (tmp_path / "out").mkdir()
    merge_checkpoints(folders / "old", folders / "new", tmp_path / "out", alpha=0.5)
    assert (tmp_path / "out/model.safetensors").exists()
    path = tmp_path / "fisher.safetensors"
    save_file({"nothing": torch.ones(3)}, path)
    with pytest.raises(NotComparableError, match="nothing of shape"):
        merge_checkpoints(
            folders / "old",
            folders / "new",
            tmp_path / "o",
            alpha=0.5,
            method="fisher",
            fisher=tmp_path / "fisher.safetensors",
        )


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"alpha": 1.5}, "expected a number from 0"),
        ({"alpha": 0.5, "method": "mean"}, "expected one of linear, soup, fisher"),
        ({"alpha": 0.5, "method": "fisher"}, "needs the old model's Fisher"),
        ({"alpha": 0.5, "new": ["a", "b"]}, "average them with method 'soup'"),
        ({"alpha": 0.5, "new": []}, "no new model"),
    ],
)
def test_wrong_use(folders, tmp_path, options, message):
    new = options.pop("new", folders / "new")
    with pytest.raises(ValueError, match=message):
        merge_checkpoints(folders / "old", new, tmp_path / "out", **options)


def test_a_file_that_is_cut_while_it_is_read(tmp_path):
    path = tmp_path / "model.safetensors"
    save_file({"weight": torch.arange(5000.0)}, path)
    file, problems = read_weight_file(path)
    assert not problems
    with Files() as files:
        assert torch.equal(files.read(file.entries[0]), torch.arange(5000.0))
        os.truncate(path, 1000)
        with pytest.raises(OSError, match="ended while weight was read"):
            files.read(file.entries[0])


def test_numbers_at_an_odd_address_are_read(tmp_path):
    """The library puts large dtypes first; other writers need not."""
    path = tmp_path / "model.safetensors"
    header = json.dumps({
        "flags": {"dtype": "U8", "shape": [3], "data_offsets": [0, 3]},
        "weight": {"dtype": "F32", "shape": [4], "data_offsets": [3, 19]},
    }).encode()  # fmt: skip
    weight = torch.tensor([1.5, -2.0, 3.25, 0.5])
    path.write_bytes(len(header).to_bytes(8, "little") + header + bytes([1, 2, 3]) + weight.numpy().tobytes())
    file, problems = read_weight_file(path)
    assert not problems
    with Files() as files:
        flags, found = (files.read(entry) for entry in file.entries)
    assert flags.tolist() == [1, 2, 3]
    assert torch.equal(found, weight)


def test_mapping_leaves_the_inputs_as_they_were(folders, tmp_path):
    before = {path: path.read_bytes() for name in ("old", "new") for path in (folders / name).glob("*.safetensors")}
    merge_checkpoints(folders / "old", folders / "new", tmp_path / "out", alpha=0.3)
    assert before
    assert all(path.read_bytes() == content for path, content in before.items())
