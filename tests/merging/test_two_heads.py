"""Models with two heads: with permuted labels the rows of both move, or the merge is refused."""

import copy

import pytest
import timm
import torch
from torch import nn
from transformers import DeiTConfig, DeiTForImageClassificationWithTeacher

from hf_pct.core.labels import align_labels
from hf_pct.merging.arguments import BCWIArguments
from hf_pct.merging.checkpoints.stream import merge_checkpoints
from hf_pct.merging.merger import BCWIMerger
from hf_pct.models.heads import align_head, head_entries

NAMES, ORDER = ("a", "b", "c"), (2, 0, 1)


def deit(names=NAMES):
    torch.manual_seed(0)
    sizes = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 24}
    labels = {"id2label": dict(enumerate(names)), "label2id": {name: i for i, name in enumerate(names)}}
    config = DeiTConfig(image_size=16, patch_size=8, **sizes, **labels)
    return DeiTForImageClassificationWithTeacher(config).eval()


def permuted(model):
    """The same model with its classes in another order, in both heads."""
    other = deit([NAMES[i] for i in ORDER])
    state = copy.deepcopy(model.state_dict())
    for name in state:
        if "classifier" in name:
            state[name] = state[name][list(ORDER)]
    other.load_state_dict(state)
    return other


def test_both_heads_of_deit_move(tmp_path):
    old = deit()
    new = permuted(old)
    rows = [{"pixel_values": torch.randn(3, 16, 16), "labels": i % 3} for i in range(4)]
    args = BCWIArguments(output_dir=str(tmp_path), use_cpu=True, report_to="none", disable_tqdm=True)
    merger = BCWIMerger(old, [new], args, eval_dataset=rows)
    merger.set_alpha(0.5)
    for name, value in merger.model.state_dict().items():
        torch.testing.assert_close(value, new.state_dict()[name])
    for name, model in (("old", old), ("new", new)):
        model.save_pretrained(tmp_path / name)
    merge_checkpoints(tmp_path / "old", tmp_path / "new", tmp_path / "out", alpha=0.5)
    merged = DeiTForImageClassificationWithTeacher.from_pretrained(tmp_path / "out").state_dict()
    for name, value in merged.items():
        torch.testing.assert_close(value, new.state_dict()[name])


def test_both_heads_of_timm_are_known():
    model = timm.create_model("deit_tiny_distilled_patch16_224", num_classes=3, depth=1, embed_dim=16, num_heads=2)
    shapes = {name: tuple(value.shape) for name, value in model.state_dict().items()}
    found = head_entries(shapes, shapes, align_labels(NAMES, ("c", "a", "b")))
    assert found == ["head.weight", "head.bias", "head_dist.weight", "head_dist.bias"]


def test_an_unknown_second_head_is_refused():
    model = nn.ModuleDict({"classifier": nn.Linear(8, 3), "auxiliary_class_layer": nn.Linear(8, 3)})
    state = model.state_dict()
    with pytest.raises(ValueError, match=r"auxiliary_class_layer\.weight may be a second head beside classifier"):
        align_head(state, state, align_labels(NAMES, ("c", "a", "b")))
    assert align_head(state, state, align_labels(NAMES, NAMES)) == dict(state)
