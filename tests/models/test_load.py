import json

import numpy as np
import pytest
import torch
from tiny_models import INTENTS, tiny_bert

from hf_pct.models.load import load_model


def test_a_text_folder(text_models):
    loaded = load_model(text_models[0])
    assert loaded.task.kind == "text"
    assert loaded.label_names == tuple(INTENTS)
    rows = loaded.task.prepare(["turn on the light", "stop"])
    batch = loaded.task.collate(rows)
    assert batch["input_ids"].shape == (2, 6)
    assert loaded.logits(batch).shape == (2, 4)


def test_a_module_with_its_tokenizer(tokenizer):
    loaded = load_model(tiny_bert(), processor=tokenizer, max_length=4)
    assert len(loaded.task.prepare(["turn on the light please"])[0]["input_ids"]) == 4


def test_pairs_of_sentences(tokenizer):
    loaded = load_model(tiny_bert(), processor=tokenizer)
    (row,) = loaded.task.prepare([("turn on", "the light")])
    assert len(row["input_ids"]) == 7


def test_long_texts_are_cut_at_what_the_model_can_take(tokenizer):
    loaded = load_model(tiny_bert(), processor=tokenizer)
    (row,) = loaded.task.prepare(["light " * 100])
    assert len(row["input_ids"]) == 32


def test_roberta_positions_start_after_the_padding(tokenizer):
    import copy

    from transformers import RobertaConfig, RobertaForSequenceClassification

    free = copy.deepcopy(tokenizer)
    free.model_max_length = int(1e30)
    config = RobertaConfig(
        vocab_size=40, hidden_size=8, num_hidden_layers=1, num_attention_heads=1, intermediate_size=8,
        max_position_embeddings=20, pad_token_id=1, num_labels=2, type_vocab_size=2,
    )  # fmt: skip
    loaded = load_model(RobertaForSequenceClassification(config), processor=free)
    assert loaded.task.max_length == 18
    batch = loaded.task.collate(loaded.task.prepare(["light " * 100]))
    assert loaded.logits(batch).shape == (1, 2)


def test_raw_timm_and_wrapped_timm_give_the_same(tmp_path):
    import timm
    from PIL import Image
    from transformers import TimmWrapperConfig, TimmWrapperForImageClassification

    torch.manual_seed(0)
    raw = timm.create_model("test_vit", num_classes=3, pretrained=False).eval()
    config = TimmWrapperConfig(
        architecture="test_vit", num_labels=3, id2label={0: "a", 1: "b", 2: "c"}, label2id={"a": 0, "b": 1, "c": 2},
        pretrained_cfg=raw.pretrained_cfg,
    )  # fmt: skip
    wrapped = TimmWrapperForImageClassification(config)
    wrapped.timm_model.load_state_dict(raw.state_dict())
    wrapped.save_pretrained(tmp_path / "wrapped")
    image = Image.fromarray(np.random.default_rng(0).integers(0, 255, (40, 50, 3), dtype=np.uint8))
    from_folder, from_module = load_model(tmp_path / "wrapped"), load_model(raw, label_names=["a", "b", "c"])
    assert from_folder.label_names == from_module.label_names == ("a", "b", "c")
    outputs = []
    for loaded in (from_folder, from_module):
        assert loaded.task.kind == "image"
        loaded.model.eval()
        with torch.no_grad():
            outputs.append(loaded.logits(loaded.task.collate(loaded.task.prepare([image]))))
    assert torch.allclose(*outputs, atol=1e-5)


def test_a_vit_folder(tmp_path):
    from PIL import Image
    from transformers import ViTConfig, ViTForImageClassification, ViTImageProcessor

    size = {"image_size": 16, "patch_size": 8, "hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 1}
    ViTForImageClassification(ViTConfig(**size, intermediate_size=8, num_labels=2)).save_pretrained(tmp_path)
    ViTImageProcessor(size={"height": 16, "width": 16}).save_pretrained(tmp_path)
    loaded = load_model(tmp_path)
    batch = loaded.task.collate(loaded.task.prepare([Image.new("L", (30, 20)), Image.new("RGBA", (9, 9))]))
    assert batch["pixel_values"].shape == (2, 3, 16, 16)
    assert loaded.logits(batch).shape == (2, 2)


def test_pickled_weights_are_refused(tmp_path, text_models):
    folder = tmp_path / "pickled"
    folder.mkdir()
    (folder / "config.json").write_text((text_models[0] / "config.json").read_text())
    torch.save({}, folder / "pytorch_model.bin")
    with pytest.raises(ValueError, match=r"pickled weights only \(pytorch_model\.bin\).*model\.safetensors.*Convert"):
        load_model(folder)


@pytest.mark.parametrize("shard", ["pytorch_model-1.bin", "../elsewhere/model.safetensors"])
def test_an_index_that_leads_elsewhere_is_refused_before_the_load(tmp_path, tokenizer, monkeypatch, shard):
    folder, elsewhere = tmp_path / "model", tmp_path / "elsewhere"
    tiny_bert().save_pretrained(elsewhere)
    tiny_bert().config.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    torch.save(tiny_bert().state_dict(), folder / "pytorch_model-1.bin")
    index = {"metadata": {}, "weight_map": dict.fromkeys(tiny_bert().state_dict(), shard)}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))
    monkeypatch.setattr(torch, "load", lambda *args, **kwargs: pytest.fail("a pickle was opened"))
    with pytest.raises(ValueError, match=r"cannot be loaded from safetensors: .*the index names"):
        load_model(folder)


def test_a_folder_without_weights(tmp_path, text_models):
    (tmp_path / "config.json").write_text((text_models[0] / "config.json").read_text())
    with pytest.raises(ValueError, match="has no weights in it"):
        load_model(tmp_path)


def test_truncated_weights(tmp_path, text_models, tokenizer):
    tiny_bert().save_pretrained(tmp_path)
    weights = tmp_path / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-100])
    with pytest.raises(ValueError, match="cannot be loaded from safetensors"):
        load_model(tmp_path)


def test_a_name_that_is_nothing():
    with pytest.raises(ValueError, match="not a folder with a model in it, and not a model on the Hub"):
        load_model("nobody/nothing")


def test_a_model_without_its_tokenizer(tmp_path):
    tiny_bert().save_pretrained(tmp_path)
    with pytest.raises(ValueError, match=r"needs its tokenizer.*Pass processor= \(--processor\)"):
        load_model(tmp_path)


def test_an_unknown_module():
    with pytest.raises(ValueError, match="Linear is not a transformers classifier and not a timm model"):
        load_model(torch.nn.Linear(2, 2))


@pytest.mark.parametrize("limit", ["16", [16], True, 0, -5, float("nan")])
def test_a_tokenizers_limit_is_a_number_of_tokens(tokenizer, limit):
    import copy

    damaged = copy.deepcopy(tokenizer)
    damaged.model_max_length = limit
    with pytest.raises(ValueError, match="model_max_length of the tokenizer is"):
        load_model(tiny_bert(), processor=damaged)


def test_tokens_that_the_model_has_no_weights_for(tokenizer):
    import copy

    other = copy.deepcopy(tokenizer)
    other.add_tokens([f"word{number}" for number in range(9)])
    loaded = load_model(tiny_bert(), processor=other)
    batch = loaded.task.collate(loaded.task.prepare(["turn word8"]))
    with pytest.raises(ValueError, match=r"was given a token or a position that it has no weights for.*--processor"):
        loaded.logits(batch)
