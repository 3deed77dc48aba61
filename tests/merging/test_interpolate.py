import subprocess
import sys

import pytest
import torch

from hf_pct.merging.groups import alpha_of, parameter_group
from hf_pct.merging.interpolate import (
    find_nonfinite,
    interpolate,
    interpolate_into,
    mean_tensor,
    mismatches,
    scale_fisher,
    uniform_soup,
)
from hf_pct.methods.merges.soup import greedy_soup
from hf_pct.models.heads import align_fisher_rows, align_head, match_labels

DTYPES = [torch.float32, torch.float64, torch.float16, torch.bfloat16]


def make_state(seed, dtype=torch.float32):
    generator = torch.Generator().manual_seed(seed)
    return {
        "bert.embeddings.word_embeddings.weight": torch.randn(7, 4, generator=generator).to(dtype),
        "bert.encoder.layer.0.output.dense.weight": torch.randn(4, 4, generator=generator).to(dtype),
        "bn.running_mean": torch.randn(4, generator=generator).to(dtype),
        "bn.num_batches_tracked": torch.tensor(seed),
        "classifier.weight": torch.randn(3, 4, generator=generator).to(dtype),
        "classifier.bias": torch.randn(3, generator=generator).to(dtype),
    }


def make_fisher(seed, state):
    generator = torch.Generator().manual_seed(seed)
    return {n: torch.rand(v.shape, generator=generator) for n, v in state.items() if v.is_floating_point()}


def same_bits(a, b):
    return a.keys() == b.keys() and all(a[n].dtype == b[n].dtype and torch.equal(a[n], b[n]) for n in a)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("method", ["linear", "fisher", "two fishers", "soup", "groups"])
def test_both_ends_are_bit_for_bit(dtype, method):
    old, new = make_state(1, dtype), make_state(2, dtype)
    fishers = {}
    if method == "soup":
        new = uniform_soup([new, make_state(3, dtype)])
    if "fisher" in method:
        fishers["old_fisher"] = {n: f * 1e-30 for n, f in make_fisher(4, old).items()}
    if method == "two fishers":
        fishers["new_fisher"] = {n: torch.zeros_like(f) for n, f in make_fisher(5, old).items()}
    for end, expected in ((0, new), (1, old)):
        alpha = {"default": end} if method == "groups" else end
        merged = interpolate(old, new, alpha, **fishers)
        assert same_bits(merged, expected)
        assert all(merged[n].data_ptr() != expected[n].data_ptr() for n in merged)


@pytest.mark.parametrize("dtype", DTYPES)
def test_linear_is_the_formula_in_float32_and_integers_come_from_new(dtype):
    old, new = make_state(1, dtype), make_state(2, dtype)
    merged = interpolate(old, new, 0.3)
    for name in old:
        if old[name].is_floating_point():
            expected = (0.3 * old[name].double() + 0.7 * new[name].double()).to(dtype)
            torch.testing.assert_close(merged[name], expected, rtol=torch.finfo(dtype).eps, atol=1e-7)
    assert merged["bn.num_batches_tracked"] == 2


def test_where_the_models_agree_the_merge_is_unchanged():
    state = make_state(1)
    other = {n: v.clone() for n, v in state.items()}
    for alpha in (0.1, 0.37, 0.5, 0.9):
        assert same_bits(interpolate(state, other, alpha), state)
        assert same_bits(interpolate(state, other, alpha, old_fisher=make_fisher(9, state)), state)
    assert torch.equal(mean_tensor([state["classifier.weight"]] * 3), state["classifier.weight"])


@pytest.mark.parametrize("alpha", [0.2, 0.5, 0.98])
def test_fisher_is_the_papers_formula(alpha):
    old, new = make_state(1), make_state(2)
    f, g = make_fisher(3, old), make_fisher(4, old)
    one_sided = interpolate(old, new, alpha, old_fisher=f)
    two_sided = interpolate(old, new, alpha, old_fisher=f, new_fisher=g)
    for name in f:
        o, n, a, b = old[name].double(), new[name].double(), f[name].double(), g[name].double()
        expected = (alpha * a * o + (1 - alpha) * n) / (alpha * a + 1 - alpha)
        torch.testing.assert_close(one_sided[name].double(), expected, rtol=1e-5, atol=1e-6)
        expected = (alpha * a * o + (1 - alpha) * b * n) / (alpha * a + (1 - alpha) * b)
        torch.testing.assert_close(two_sided[name].double(), expected, rtol=1e-5, atol=1e-6)


def test_constant_fisher_is_linear_and_zero_fishers_give_no_nan():
    old, new = make_state(1), make_state(2)
    ones = {n: torch.ones_like(v) for n, v in make_fisher(3, old).items()}
    zeros = {n: torch.zeros_like(v) for n, v in ones.items()}
    linear = interpolate(old, new, 0.4)
    for merged in (
        interpolate(old, new, 0.4, old_fisher=ones),
        interpolate(old, new, 0.4, old_fisher=zeros, new_fisher=zeros),
    ):
        for name in linear:
            torch.testing.assert_close(merged[name], linear[name])


def test_scale_fisher_has_mean_one_over_all_entries():
    scaled = scale_fisher({"a": torch.full((10,), 2.0), "b": torch.zeros(30)})
    assert scaled["a"][0] == pytest.approx(4.0)
    with pytest.raises(ValueError, match=r"sums to 0\.0"):
        scale_fisher({"a": torch.zeros(3)})


def test_soup_is_the_mean_and_does_not_depend_on_the_order():
    members = [make_state(s) for s in range(4)]
    soup, back = uniform_soup(members), uniform_soup(members[::-1])
    expected = torch.stack([m["classifier.weight"] for m in members]).mean(0)
    torch.testing.assert_close(soup["classifier.weight"], expected)
    torch.testing.assert_close(soup["classifier.weight"], back["classifier.weight"])
    assert same_bits(uniform_soup(members[:1]), members[0])
    with pytest.raises(ValueError, match="at least one model"):
        uniform_soup([])


def test_greedy_soup_keeps_only_members_that_help():
    members = [{"w": torch.tensor([value])} for value in (0.0, 2.0, 50.0)]
    soup = greedy_soup(members, score=lambda state: -abs(float(state["w"]) - 1.0))
    assert soup.kept == (0, 1)
    assert soup.state["w"] == 1.0
    assert soup.score == 0.0


def test_tied_weights_stay_tied():
    old, new = make_state(1), make_state(2)
    for state in (old, new):
        state["decoder.weight"] = state["bert.embeddings.word_embeddings.weight"]
    merged = interpolate(old, new, 0.5)
    assert merged["decoder.weight"] is merged["bert.embeddings.word_embeddings.weight"]
    old["decoder.weight"] = old["decoder.weight"].clone()
    assert interpolate(old, new, 0.5)["decoder.weight"] is not merged["bert.embeddings.word_embeddings.weight"]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("with_fisher", [False, True])
def test_in_place_is_the_same(dtype, with_fisher):
    old, new = make_state(1, dtype), make_state(2, dtype)
    fishers = {"old_fisher": make_fisher(3, old)} if with_fisher else {}
    target = {n: torch.zeros_like(v) for n, v in new.items()}
    places = {n: v.data_ptr() for n, v in target.items()}
    for alpha in (0.0, 0.3, 0.7, 1.0, {"embeddings": 1.0, "default": 0.2}):
        interpolate_into(target, old, new, alpha, **fishers)
        assert same_bits(target, interpolate(old, new, alpha, **fishers))
    assert places == {n: v.data_ptr() for n, v in target.items()}


@pytest.mark.parametrize(
    ("name", "group"),
    [
        ("bert.embeddings.LayerNorm.weight", "embeddings"),
        ("roberta.encoder.layer.11.attention.self.query.weight", "layers.11"),
        ("distilbert.transformer.layer.2.ffn.lin1.bias", "layers.2"),
        ("bert.pooler.dense.weight", "head"),
        ("classifier.out_proj.bias", "head"),
        ("timm_model.conv1.weight", "embeddings"),
        ("timm_model.layer3.0.conv1.weight", "layers.3"),
        ("timm_model.blocks.4.1.bn1.running_var", "layers.4"),
        ("timm_model.fc.weight", "head"),
        ("vit.layernorm.weight", "other"),
    ],
)
def test_groups_by_name(name, group):
    assert parameter_group(name) == group


def test_alphas_by_group():
    old, new = make_state(1), make_state(2)
    merged = interpolate(old, new, {"embeddings": 1.0, "layers": 0.5, "head": 0.0, "other": 0.0})
    assert torch.equal(merged["classifier.weight"], new["classifier.weight"])
    name = "bert.embeddings.word_embeddings.weight"
    assert torch.equal(merged[name], old[name])
    assert alpha_of("encoder.layer.3.x", {"layers": 0.1, "layers.3": 0.9}) == 0.9
    with pytest.raises(ValueError, match=r"No alpha for 'classifier\.bias'"):
        alpha_of("classifier.bias", {"layers": 0.1})


@pytest.mark.parametrize("alpha", [-0.1, 1.5, float("nan"), "0.4", True, {"head": 2.0}, {"heads": 0.2}])
def test_bad_alphas_are_refused(alpha):
    with pytest.raises(ValueError, match=r"alpha|no group"):
        interpolate(make_state(1), make_state(2), alpha)


def test_every_mismatch_is_listed_at_once():
    old, new = make_state(1), make_state(2)
    del old["classifier.bias"]
    old["extra"] = torch.zeros(1)
    old["bn.running_mean"] = old["bn.running_mean"].half()
    old["classifier.weight"] = torch.zeros(5, 4)
    assert len(mismatches(old, new)) == 4
    with pytest.raises(ValueError, match="cannot be merged") as error:
        interpolate(old, new, 0.5)
    for part in ("extra: only in the old", "classifier.bias: only in the new", "torch.float16", "(5, 4)"):
        assert part in str(error.value)


def test_nan_and_infinity_are_found():
    state = make_state(1)
    state["classifier.bias"][0] = float("nan")
    state["classifier.weight"][0, 0] = float("inf")
    assert len(find_nonfinite(state, "old model")) == 2


def test_added_and_reordered_classes_are_matched_by_name():
    old, new = make_state(1), make_state(2)
    new["classifier.weight"], new["classifier.bias"] = torch.randn(5, 4), torch.randn(5)
    match = match_labels(["a", "b", "c"], ["b", "added", "a", "added2", "c"])
    aligned = align_head(old, new, match)
    for alpha in (0.0, 0.4, 1.0):
        merged = interpolate(aligned, new, alpha)["classifier.weight"]
        for row, old_row in ((0, 1), (2, 0), (4, 2)):
            expected = alpha * old["classifier.weight"][old_row] + (1 - alpha) * new["classifier.weight"][row]
            torch.testing.assert_close(merged[row], expected)
        assert torch.equal(merged[[1, 3]], new["classifier.weight"][[1, 3]])
    fisher = align_fisher_rows(torch.tensor([2.0, 3.0, 4.0]), match)
    assert fisher.tolist() == [3.0, 1.0, 2.0, 1.0, 4.0]


def test_labels_that_cannot_be_matched():
    with pytest.raises(ValueError, match="share no label name"):
        match_labels(["a", "b"], ["c"])
    with pytest.raises(ValueError, match="lacks 1 labels"):
        match_labels(["a", "b"], ["b", "c"])
    with pytest.raises(ValueError, match="'a' more than once"):
        match_labels(["a", "a"], ["a"])
    with pytest.raises(ValueError, match="no head entry"):
        align_head({"x": torch.zeros(2)}, {"x": torch.zeros(2)}, match_labels(["a", "b"], ["b", "a"]))


def test_never_imports_transformers():
    code = "import sys, hf_pct.merging.interpolate; sys.exit('transformers' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
