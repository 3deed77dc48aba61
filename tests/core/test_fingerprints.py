"""One model has one hash: in memory, on disk, in shards, in half precision, inside timm's wrapper, in old records."""

import hashlib
import json

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file
from tiny_models import tiny_bert

from hf_pct.core.fingerprints import as_float32, hash_folder, is_earlier_report_hash, same_weights
from hf_pct.core.weight_files import open_weights
from hf_pct.models.fingerprints import state_fingerprint, weights_fingerprint
from hf_pct.models.load import load_model


def saved(model, folder, **options):
    model.save_pretrained(folder, **options)
    return folder


def hash_of(folder):
    digest, problems = hash_folder(folder)
    assert problems == []
    return digest


def entries(folder):
    return open_weights(folder)[0].entries.values()


def test_memory_files_and_shards_have_one_hash(tmp_path):
    model = tiny_bert()
    whole, shards = saved(model, tmp_path / "one"), saved(model, tmp_path / "many", max_shard_size="2KB")
    assert len(list(shards.glob("*.safetensors"))) > 3
    assert hash_of(whole) == hash_of(shards) == weights_fingerprint(model)
    assert hash_of(whole) != hash_of(saved(tiny_bert(seed=1), tmp_path / "other"))


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float64])
def test_the_hash_is_of_the_values_as_they_are_loaded(tmp_path, dtype):
    model = tiny_bert().to(dtype)
    folder = saved(model, tmp_path / "model")
    loaded = load_model(folder, processor=object()).model
    assert loaded.dtype == torch.float32
    assert hash_of(folder) == weights_fingerprint(loaded) == weights_fingerprint(model)


@pytest.mark.parametrize(("name", "dtype"), [("F8_E4M3", torch.float8_e4m3fn), ("F8_E5M2", torch.float8_e5m2)])
def test_every_number_of_eight_bits_is_read_as_torch_reads_it(name, dtype):
    codes = np.arange(256, dtype=np.uint8)
    ours, theirs = as_float32(name, codes), torch.from_numpy(codes).view(dtype).float().numpy()
    np.testing.assert_array_equal(ours, theirs)


def test_tied_weights_count_once_as_they_are_saved(tmp_path):
    from transformers import BartConfig, BartForSequenceClassification

    sizes = {f"{side}_{what}": 1 for side in ("encoder", "decoder") for what in ("layers", "attention_heads")}
    sizes |= {"encoder_ffn_dim": 8, "decoder_ffn_dim": 8, "d_model": 8, "vocab_size": 11}
    model = BartForSequenceClassification(BartConfig(**sizes, max_position_embeddings=16))
    assert model.all_tied_weights_keys
    assert hash_of(saved(model, tmp_path / "bart")) == weights_fingerprint(model)


def test_timm_alone_and_in_its_wrapper_are_one_model(tmp_path):
    inner = tiny_bert().state_dict()
    assert state_fingerprint({f"timm_model.{name}": value for name, value in inner.items()}) == state_fingerprint(
        inner
    )


def test_names_shapes_and_kinds_count():
    base = {"a": torch.zeros(2, 3), "b": torch.zeros(4, dtype=torch.int64)}
    others = [
        {"a": base["b"], "b": base["a"]},
        base | {"a": torch.zeros(3, 2)},
        base | {"b": torch.zeros(8, dtype=torch.int32)},
        base | {"c": torch.zeros(0)},
        {"a": base["a"]},
    ]
    assert len({state_fingerprint(state) for state in [base, *others]}) == 6


def test_hashes_of_earlier_versions_are_recognised(tmp_path):
    model = tiny_bert()
    folder, half = saved(model, tmp_path / "full"), saved(tiny_bert().bfloat16(), tmp_path / "half")
    digest = hashlib.blake2b(digest_size=16)  # written as the reports of 0.1 had it
    for name, tensor in sorted(model.state_dict().items()):
        shape = "".join(f"int:{len(str(size))}:{size}" for size in tensor.shape)
        count = str(tensor.dim())
        start = f"str:{len(name)}:{name}str:13:torch.float32{shape}list:{len(count)}:{count}"
        digest.update(f"{start}tensor:{tensor.numel() * 4}:".encode() + tensor.numpy().tobytes())
    assert is_earlier_report_hash(digest.hexdigest())
    assert same_weights(digest.hexdigest(), entries(folder))
    assert not same_weights(digest.hexdigest(), entries(half))
    assert not is_earlier_report_hash(hash_of(folder))
    assert not same_weights("0" * 32, entries(folder))
    assert not same_weights("", entries(folder))


def test_a_changed_number_changes_the_hash_and_a_damaged_folder_has_none(tmp_path):
    folder = saved(tiny_bert(), tmp_path / "model")
    before, path = hash_of(folder), folder / "model.safetensors"
    state = load_file(path)
    state["classifier.bias"][0] += 1e-6
    save_file(state, path, metadata={"format": "pt"})
    assert hash_of(folder) != before
    path.write_bytes(path.read_bytes()[:-1])
    digest, problems = hash_folder(folder)
    assert digest is None
    assert "truncated" in problems[0]


@pytest.mark.parametrize(
    ("shard", "says"),
    [("pytorch_model.bin", "not a safetensors file"), ("../w.safetensors", "not a file name"), (7, "index of shards")],
)
def test_an_index_leads_neither_to_pickles_nor_out_of_the_folder(tmp_path, shard, says):
    (tmp_path / "model.safetensors.index.json").write_text(json.dumps({"weight_map": {"a": shard}}))
    digest, problems = hash_folder(tmp_path)
    assert digest is None
    assert says in problems[0]
