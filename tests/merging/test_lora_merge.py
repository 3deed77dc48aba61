import json

import pytest
import torch
from safetensors.torch import load_file, save_file

from hf_pct.core.errors import NotComparableError
from hf_pct.merging.lora import merge_lora

MODULE = "base_model.model.bert.encoder.layer.0.attention.self.query"


def write_adapter(folder, seed, rank=4, alpha=8, **config):
    generator = torch.Generator().manual_seed(seed)

    def random(*shape):
        return torch.randn(*shape, generator=generator)

    state = {
        f"{MODULE}.lora_A.weight": random(rank, 10),
        f"{MODULE}.lora_B.weight": random(12, rank),
        "base_model.model.classifier.weight": random(3, 10),
    }
    folder.mkdir()
    save_file(state, folder / "adapter_model.safetensors")
    settings = {"peft_type": "LORA", "r": rank, "lora_alpha": alpha, "base_model_name_or_path": "base"}
    (folder / "adapter_config.json").write_text(json.dumps({**settings, **config}))
    return folder


def delta(folder):
    state = load_file(folder / "adapter_model.safetensors")
    config = json.loads((folder / "adapter_config.json").read_text())
    a, b = state[f"{MODULE}.lora_A.weight"], state[f"{MODULE}.lora_B.weight"]
    scale = config["lora_alpha"] / (a.shape[0] ** 0.5 if config.get("use_rslora") else a.shape[0])
    return (scale * b.double() @ a.double()), state["base_model.model.classifier.weight"]


@pytest.fixture
def pair(tmp_path):
    old = write_adapter(tmp_path / "old", 1)
    return old, write_adapter(tmp_path / "new", 2, rank=3, alpha=6, use_rslora=True)


def test_without_a_rank_the_merge_is_exact_in_weight_space(pair, tmp_path):
    result = merge_lora(*pair, tmp_path / "out", alpha=0.3)
    (old, old_head), (new, new_head), (merged, head) = (delta(folder) for folder in (*pair, tmp_path / "out"))
    torch.testing.assert_close(merged, 0.3 * old + 0.7 * new, rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(head, 0.3 * old_head + 0.7 * new_head)
    assert result.rank == 7
    assert result.relative_error == 0.0


@pytest.mark.parametrize("rank", [1, 2, 5, 9])
def test_at_a_rank_the_error_is_the_best_possible_and_told(pair, tmp_path, rank):
    result = merge_lora(*pair, tmp_path / "out", alpha=0.5, rank=rank)
    exact = 0.5 * delta(pair[0])[0] + 0.5 * delta(pair[1])[0]
    values = torch.linalg.svdvals(exact)
    best = float(values[rank:].norm() / values.norm())
    measured = float((delta(tmp_path / "out")[0] - exact).norm() / exact.norm())
    assert result.rank == rank
    assert measured == pytest.approx(best, abs=1e-5)
    assert result.relative_error == pytest.approx(best, abs=1e-7)
    assert result.module_errors[MODULE] == result.relative_error


@pytest.mark.parametrize(("alpha", "side"), [(0.0, 1), (1.0, 0)])
def test_both_ends_are_the_adapters_themselves(pair, tmp_path, alpha, side):
    merge_lora(*pair, tmp_path / "out", alpha=alpha)
    merged, expected = (load_file(folder / "adapter_model.safetensors") for folder in (tmp_path / "out", pair[side]))
    assert all(torch.equal(merged[name], expected[name]) for name in expected)


def test_problems_come_together(tmp_path):
    old = write_adapter(tmp_path / "old", 1, base_model_name_or_path="other", use_dora=True)
    new = write_adapter(tmp_path / "new", 2, peft_type="IA3")
    state = load_file(new / "adapter_model.safetensors")
    state["base_model.model.classifier.weight"] = torch.full((4, 10), float("nan"))
    save_file(state, new / "adapter_model.safetensors")
    with pytest.raises(NotComparableError) as error:
        merge_lora(old, new, tmp_path, alpha=0.5)
    for part in (
        "use_dora",
        "expected 'LORA'",
        "base_model_name_or_path differs",
        "shape (3, 10)",
        "NaN",
        "not empty",
    ):
        assert part in str(error.value), part
    with pytest.raises(NotComparableError, match=r"lacks adapter_config\.json and adapter_model\.safetensors"):
        merge_lora(old, tmp_path / "nothing", tmp_path / "out", alpha=0.5)
    with pytest.raises(ValueError, match="rank is 0"):
        merge_lora(old, new, tmp_path / "out", alpha=0.5, rank=0)


def test_peft_loads_it_and_its_outputs_are_those_of_the_averaged_weights(tmp_path):
    peft = pytest.importorskip("peft")
    from merging_kit import tiny_bert

    config = peft.LoraConfig(task_type="SEQ_CLS", r=3, lora_alpha=6, target_modules=["query", "value"])
    states = []
    for seed, name in ((1, "old"), (2, "new")):
        model = peft.get_peft_model(tiny_bert(0), config)
        torch.manual_seed(seed)
        for parameter in (p for p in model.parameters() if p.requires_grad):
            parameter.data.normal_(0, 0.3)
        model.save_pretrained(tmp_path / name)
        states.append(model.merge_and_unload().state_dict())
    merge_lora(tmp_path / "old", tmp_path / "new", tmp_path / "out", alpha=0.25)
    merged = peft.PeftModel.from_pretrained(tiny_bert(0), tmp_path / "out").merge_and_unload().state_dict()
    for name in merged:
        expected = 0.25 * states[0][name] + 0.75 * states[1][name]
        torch.testing.assert_close(merged[name], expected, rtol=1e-4, atol=1e-5)


def peft_pair(root, old_settings, new_settings):
    """Two adapters of one base with their weights merged in, as PEFT itself computes them."""
    peft = pytest.importorskip("peft")
    from merging_kit import tiny_bert

    states = []
    for seed, name, settings in ((1, "old", old_settings), (2, "new", new_settings)):
        config = peft.LoraConfig(task_type="SEQ_CLS", r=3, lora_alpha=6, **settings)
        model = peft.get_peft_model(tiny_bert(0), config)
        torch.manual_seed(seed)
        for parameter in (p for p in model.parameters() if p.requires_grad):
            parameter.data.normal_(0, 0.3)
        model.save_pretrained(root / name)
        states.append(peft.PeftModel.from_pretrained(tiny_bert(0), root / name).merge_and_unload().state_dict())
    return states


def peft_state(folder):
    from merging_kit import tiny_bert
    from peft import PeftModel

    return PeftModel.from_pretrained(tiny_bert(0), folder).merge_and_unload().state_dict()


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ({"target_modules": ["query", "value", "intermediate.dense"]}, {"target_modules": ["query"]}),
        ({"target_modules": ["query"]}, {"target_modules": ["key", "value"]}),
        ({"target_modules": r".*\.(query|key)"}, {"target_modules": ["value"], "layers_to_transform": [1]}),
        ({"target_modules": ["query"]}, {"target_modules": ["query"], "exclude_modules": r".*layer\.0.*"}),
        (
            {"target_modules": ["query", "key"], "modules_to_save": ["classifier"]},
            {"target_modules": ["query"], "rank_pattern": {"layer.1.attention.self.query": 5}},
        ),
    ],
)
@pytest.mark.parametrize("rank", [None, 8])
def test_the_modules_of_both_adapters_travel(tmp_path, old, new, rank):
    one, two = peft_pair(tmp_path, old, new)
    merge_lora(tmp_path / "old", tmp_path / "new", tmp_path / "out", alpha=0.25, rank=rank)
    merged = peft_state(tmp_path / "out")
    for name, value in merged.items():
        torch.testing.assert_close(value, 0.25 * one[name] + 0.75 * two[name], rtol=1e-4, atol=1e-5)


def test_of_two_patterns_that_match_the_first_counts_as_in_peft(tmp_path):
    settings = {"target_modules": ["query", "value"]}
    patterns = {"bert.encoder.layer.0.attention.self.query": 48, "query": 24, r"self\.(query|value)": 12}
    one, two = peft_pair(tmp_path, settings, {**settings, "alpha_pattern": patterns})
    merge_lora(tmp_path / "old", tmp_path / "new", tmp_path / "out", alpha=0.5)
    for name, value in peft_state(tmp_path / "out").items():
        torch.testing.assert_close(value, 0.5 * one[name] + 0.5 * two[name], rtol=1e-4, atol=1e-5)


def test_an_end_keeps_the_files_and_the_tokenizer_comes_along(pair, tmp_path):
    patterns = {"z.query": 1, "a.query": 2}  # their order counts
    config = json.loads((pair[1] / "adapter_config.json").read_text())
    (pair[1] / "adapter_config.json").write_text(json.dumps({**config, "alpha_pattern": patterns}))
    (pair[1] / "tokenizer.json").write_text("{}")
    (pair[1] / "training_args.bin").write_bytes(b"pickled")
    merge_lora(*pair, tmp_path / "out", alpha=0.0)
    for name in ("adapter_config.json", "adapter_model.safetensors", "tokenizer.json"):
        assert (tmp_path / "out" / name).read_bytes() == (pair[1] / name).read_bytes()
    assert not (tmp_path / "out/training_args.bin").exists()


# ---- the names of classes


def named(folder, names):
    (folder / "pct_labels.json").write_text(json.dumps({"label_names": names}))


def names_of(folder):
    return json.loads((folder / "pct_labels.json").read_text())["label_names"]


def head(folder):
    return load_file(folder / "adapter_model.safetensors")["base_model.model.classifier.weight"]


def test_rows_of_the_classifier_are_matched_by_name(pair, tmp_path):
    named(pair[0], ["a", "b", "c"])
    named(pair[1], ["c", "a", "b"])
    merge_lora(*pair, tmp_path / "out", alpha=0.3)
    torch.testing.assert_close(head(tmp_path / "out"), 0.3 * head(pair[0])[[2, 0, 1]] + 0.7 * head(pair[1]))
    assert names_of(tmp_path / "out") == ["c", "a", "b"]
    for alpha, side in ((0.0, 1), (1.0, 0)):  # an end is that adapter as it is, with its own order
        merge_lora(*pair, tmp_path / f"end{side}", alpha=alpha)
        assert torch.equal(head(tmp_path / f"end{side}"), head(pair[side]))
        assert names_of(tmp_path / f"end{side}") == names_of(pair[side])


def test_an_added_class_keeps_the_new_row(pair, tmp_path):
    state = load_file(pair[1] / "adapter_model.safetensors")
    state["base_model.model.classifier.weight"] = torch.randn(4, 10)
    save_file(state, pair[1] / "adapter_model.safetensors")
    named(pair[0], ["a", "b", "c"])
    named(pair[1], ["new", "a", "b", "c"])
    merge_lora(*pair, tmp_path / "out", alpha=0.5)
    assert torch.equal(head(tmp_path / "out")[0], head(pair[1])[0])
    torch.testing.assert_close(head(tmp_path / "out")[1:], 0.5 * head(pair[0]) + 0.5 * head(pair[1])[1:])


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        (["a", "b", "c"], ["x", "y", "z"], "share no label name"),
        (["a", "b", "c"], ["a", "b", "x"], "lacks 1 labels of the old one"),
        (["a", "b", "c"], None, "does not say its classes, and its base cannot be read"),
    ],
)
def test_classes_that_cannot_be_matched_are_refused(pair, tmp_path, old, new, said):
    named(pair[0], old)
    if new is not None:
        named(pair[1], new)
    with pytest.raises(NotComparableError, match=rf"{said}.*pct_labels\.json"):
        merge_lora(*pair, tmp_path / "out", alpha=0.5)


def test_a_base_says_the_classes_of_an_adapter_that_does_not(tmp_path):
    from merging_kit import tiny_bert

    tiny_bert(0).save_pretrained(tmp_path / "base")
    own = list(tiny_bert(0).config.id2label.values())
    pair = [
        write_adapter(tmp_path / name, 1, base_model_name_or_path=str(tmp_path / "base")) for name in ("old", "new")
    ]
    named(pair[0], own[::-1])
    merge_lora(*pair, tmp_path / "out", alpha=0.5)
    torch.testing.assert_close(head(tmp_path / "out"), (head(pair[0]).flip(0) + head(pair[1])) / 2)
    assert names_of(tmp_path / "out") == own


def test_a_classifier_trained_by_factors_cannot_be_reordered(pair, tmp_path):
    for folder in pair:
        state = load_file(folder / "adapter_model.safetensors")
        del state["base_model.model.classifier.weight"]
        state["base_model.model.classifier.lora_A.weight"] = torch.randn(2, 10)
        state["base_model.model.classifier.lora_B.weight"] = torch.randn(3, 2)
        save_file(state, folder / "adapter_model.safetensors")
    named(pair[0], ["a", "b", "c"])
    named(pair[1], ["b", "a", "c"])
    with pytest.raises(NotComparableError, match="classifier was trained by factors"):
        merge_lora(*pair, tmp_path / "out", alpha=0.5)
    named(pair[1], ["a", "b", "c"])
    merge_lora(*pair, tmp_path / "out", alpha=0.5)


def test_what_the_factors_do_not_say_is_refused(tmp_path):
    old = write_adapter(tmp_path / "old", 1, init_lora_weights="pissa_niter_4")
    new = write_adapter(tmp_path / "new", 2)
    state = load_file(new / "adapter_model.safetensors")
    del state["base_model.model.classifier.weight"]
    save_file(state, new / "adapter_model.safetensors")
    with pytest.raises(NotComparableError) as error:
        merge_lora(old, new, tmp_path / "out", alpha=0.5)
    assert "init_lora_weights='pissa_niter_4'" in str(error.value)
    assert "trained whole in" in str(error.value)
    (new / "adapter_model.safetensors").write_bytes(b"cut")
    with pytest.raises(NotComparableError, match="cannot be read"):
        merge_lora(old, new, tmp_path / "out", alpha=0.5)
