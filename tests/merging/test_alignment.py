import copy

import numpy as np
import pytest
import torch
from merging_kit import nudged, tiny_bert
from timm.models.resnet import BasicBlock, Bottleneck, ResNet
from torch import nn
from transformers import RobertaConfig, RobertaForSequenceClassification

from hf_pct.merging.interpolate import interpolate
from hf_pct.merging.rebasing.alignment import align_model, align_state, renumber
from hf_pct.merging.rebasing.symmetries import find_groups


def tiny_roberta(seed):
    torch.manual_seed(seed)
    settings = {"vocab_size": 50, "hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 4}
    settings |= {"intermediate_size": 24, "max_position_embeddings": 20, "num_labels": 3, "initializer_range": 0.3}
    return RobertaForSequenceClassification(RobertaConfig(**settings)).eval()


def resnet(name, seed):
    torch.manual_seed(seed)
    block, options = {
        "deep stem": (BasicBlock, {"stem_type": "deep_tiered", "stem_width": 16, "avg_down": True}),
        "basic": (BasicBlock, {}),
        "bottleneck": (Bottleneck, {}),
    }[name]
    model = ResNet(block, (1, 2, 1, 1), num_classes=5, channels=(16, 24, 32, 40), **options).eval()
    for module in model.modules():
        if isinstance(module, nn.BatchNorm2d):
            for value, low, high in ((module.running_mean, -1, 1), (module.running_var, 0.5, 2)):
                value.uniform_(low, high)
            module.weight.data.uniform_(0.5, 1.5)
            module.bias.data.uniform_(-0.5, 0.5)
    return model


def outputs(model):
    torch.manual_seed(0)
    with torch.no_grad():
        if hasattr(model, "config"):
            return model(input_ids=torch.randint(3, 50, (6, 9))).logits
        return model(torch.randn(4, 3, 32, 32))


BUILDERS = {
    "bert": tiny_bert,
    "roberta": tiny_roberta,
    "resnet deep stem": lambda seed: resnet("deep stem", seed),
    "resnet basic": lambda seed: resnet("basic", seed),
    "resnet bottleneck": lambda seed: resnet("bottleneck", seed),
}


def heads_of(model):
    return getattr(getattr(model, "config", None), "num_attention_heads", None)


def shuffled(model, seed=0):
    """The same function with all its units renumbered at random."""
    rng = np.random.default_rng(seed)
    state, heads = model.state_dict(), heads_of(model)
    numbering = {}
    groups = find_groups(state, heads)
    for group in groups:
        size = state[group.places[0][0]].shape[group.places[0][1]]
        numbering[group.name] = rng.permutation(size)
        if group.heads:
            order, width = rng.permutation(group.heads), size // group.heads
            for key in (group.name, f"{group.name} values"):
                numbering[key] = np.concatenate([j * width + rng.permutation(width) for j in order])
    other = copy.deepcopy(model)
    other.load_state_dict(renumber(groups, state, numbering))
    return other


@pytest.mark.parametrize("name", BUILDERS)
def test_renumbering_keeps_the_function(name):
    model = BUILDERS[name](1)
    other = shuffled(model)
    assert any(not torch.equal(a, b) for a, b in zip(model.parameters(), other.parameters(), strict=True))
    expected = outputs(model)
    torch.testing.assert_close(outputs(other), expected, rtol=1e-5, atol=1e-5 * float(expected.abs().max()))


@pytest.mark.parametrize("name", BUILDERS)
def test_aligning_an_independent_model_keeps_its_function_and_brings_it_nearer(name):
    old, new = BUILDERS[name](1), BUILDERS[name](2)
    aligned = align_model(old, new, max_rounds=3)
    expected = outputs(new)
    torch.testing.assert_close(outputs(aligned), expected, rtol=1e-5, atol=1e-5 * float(expected.abs().max()))
    assert distance(old, aligned) < distance(old, new)


@torch.no_grad()
def distance(a, b):
    return sum(float((x - y).square().sum()) for x, y in zip(a.parameters(), b.parameters(), strict=True))


@pytest.mark.parametrize("name", ["bert", "roberta", "resnet deep stem"])
def test_a_shuffled_neighbour_is_found_again(name):
    old = BUILDERS[name](1)
    near = nudged(old, 3, size=0.005)
    aligned = align_model(old, shuffled(near))
    assert all(torch.equal(a, b) for a, b in zip(aligned.parameters(), near.parameters(), strict=True))


def test_merging_after_alignment_works_where_it_did_not():
    old = tiny_bert(1)
    mixed = shuffled(old)
    expected = outputs(old)
    halfway = copy.deepcopy(old)
    halfway.load_state_dict(interpolate(old.state_dict(), mixed.state_dict(), 0.5))
    assert (outputs(halfway) - expected).abs().max() > 0.1
    halfway.load_state_dict(interpolate(old.state_dict(), align_model(old, mixed).state_dict(), 0.5))
    torch.testing.assert_close(outputs(halfway), expected, rtol=1e-5, atol=1e-5)


def test_more_classes_are_no_obstacle():
    old, wider = tiny_bert(1), tiny_bert(2, labels=("a", "b", "c", "d"))
    aligned = align_model(old, wider, max_rounds=2)
    torch.testing.assert_close(outputs(aligned), outputs(wider), rtol=1e-5, atol=1e-5)


def test_what_cannot_be_aligned():
    with pytest.raises(ValueError, match="Alignment knows BERT, RoBERTa and timm ResNets"):
        align_model(nn.Linear(2, 2), nn.Linear(2, 2))
    odd = {**tiny_bert(1).state_dict(), "bert.encoder.layer.0.gate.weight": torch.ones(3)}
    with pytest.raises(ValueError, match=r"does not know what 1 entries.*gate"):
        align_state(odd, odd, 4)
    with pytest.raises(ValueError, match="number of attention heads"):
        align_state(odd, odd)
    with pytest.raises(ValueError, match="cannot be aligned"):
        align_model(tiny_bert(1, intermediate_size=20), tiny_bert(1))
    with pytest.raises(ValueError, match="does not know what"):
        align_model(resnet_with_extra(), resnet_with_extra())


def resnet_with_extra():
    model = resnet("basic", 1)
    model.layer1[0].extra = nn.Linear(2, 2)
    return model
