import json

import pytest
import torch
from safetensors.torch import load_file, save_file

from hf_pct.flips.errors import NotComparableError
from hf_pct.merging.adapters import merge_lora

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
