"""A classifier head whose classes differ between old and new: rows are matched by label name.

The old model is first written in the new model's label space: rows of shared classes are the old model's, moved to
where the new model keeps that class, and rows of added classes are copies of the new model's. Every merge rule then
leaves the added rows at the new model's values, because both sides agree there.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from ..core.labels import LabelAlignment, align_labels

if TYPE_CHECKING:
    from torch import Tensor

# names of BERT, RoBERTa, DistilBERT, ViT and timm's convolutional networks: `embeddings` (also a convolutional stem),
# `layers.<n>` (blocks or stages, numbered as in the state dict), `head` (pooler and classifier)
_LAYER = re.compile(r"(?:^|\.)(?:layers?|blocks?|stages?|h|group)[._]?(\d+)\.")
_EMBEDDING = re.compile(r"(?:^|\.)(?:\w*embed\w*|stem|conv_stem|conv1|bn1)(?:\.|$)")
_HEAD = re.compile(
    r"(?:^|\.)(?:(?:cls_|distillation_|pre_)?classifier(?:_distill)?|head_dist|pooler|score|head|head_norm|fc|fc_norm|last_linear|conv_head|bn2)(?:\.|$)"
)
# DeiT has two heads: cls_classifier and distillation_classifier, or head and head_dist in timm
_OUTPUT = re.compile(
    r"(?:^|\.)(?:(?:cls_|distillation_)?classifier(?:_distill)?|score|head(?:_dist)?|fc|last_linear)"
    r"(?:\.(?:out_proj|fc|l|linear|\d+))?\.(?:weight|bias)$"
)
_LIKE_OUTPUT = re.compile(r"class|head|logit|score", re.IGNORECASE)


def match_labels(old_labels: Sequence[str], new_labels: Sequence[str]) -> LabelAlignment:
    """Match two models' label names for a merge: the new model must know every class of the old one.

    A class that the new model dropped would vanish from the product without a flip being counted, so it is an error.
    """
    match = align_labels(old_labels, new_labels)
    if not match.shared:
        raise ValueError(
            f"the models share no label name: old {list(old_labels)[:5]}, new {list(new_labels)[:5]}; "
            "set the same names in `id2label` of both configs"
        )
    if match.removed:
        raise ValueError(
            f"the new model lacks {len(match.removed)} labels of the old one: {list(match.removed)[:5]}; "
            "expected all of them, plus any added ones"
        )
    return match


def head_entries(
    old_shapes: Mapping[str, Sequence[int]], new_shapes: Mapping[str, Sequence[int]], match: LabelAlignment
) -> list[str]:
    """The entries whose first dimension is the classes, by name and by size in both models: all heads, or an error."""
    old_count, new_count = len(match.old_index) + len(match.removed), len(match.new_index) + len(match.added)
    by_class = [
        name
        for name, shape in new_shapes.items()
        if tuple(shape[:1]) == (new_count,) and tuple(old_shapes.get(name, ())[:1]) == (old_count,)
    ]
    heads = [name for name in by_class if is_output_entry(name)]
    widths = {tuple(new_shapes[name][1:]) for name in heads if len(new_shapes[name]) == 2}
    others = [name for name in by_class if may_be_output_entry(name) and tuple(new_shapes[name][1:]) in widths]
    if others:
        raise ValueError(
            f"the labels differ, and {', '.join(others)} may be a second head beside {heads[0]}: rows of one head "
            "cannot move without those of the other. Give both models the same labels in the same order"
        )
    return heads


def align_rows(old: Tensor, new: Tensor, match: LabelAlignment) -> Tensor:
    """The old head entry in the new label space; rows of added classes are the new model's."""
    aligned = new.clone()
    aligned[match.new_index.tolist()] = old[match.old_index.tolist()].to(new.dtype)
    return aligned


def align_head(old: Mapping[str, Tensor], new: Mapping[str, Tensor], match: LabelAlignment) -> dict[str, Tensor]:
    """The old state dict with its head in the new model's label space; other entries are passed through."""
    if match.identical:
        return dict(old)
    names = head_entries({n: t.shape for n, t in old.items()}, {n: t.shape for n, t in new.items()}, match)
    if not names:
        raise ValueError(
            f"The label names differ ({len(match.shared)} shared, {len(match.added)} added) but no head entry was "
            "found: expected a last layer named classifier, score, head or fc with one row per label."
        )
    return {name: align_rows(value, new[name], match) if name in names else value for name, value in old.items()}


def align_fisher_rows(fisher: Tensor, match: LabelAlignment) -> Tensor:
    """The old model's Fisher of a head entry in the new label space; added rows get 1, the mean after scaling."""
    rows = len(match.new_index) + len(match.added)
    aligned = fisher.new_ones((rows, *fisher.shape[1:]))
    aligned[match.new_index.tolist()] = fisher[match.old_index.tolist()]
    return aligned


def parameter_group(name: str) -> str:
    """`embeddings`, `layers.<n>`, `head` or `other`."""
    layer = _LAYER.search(name)
    if layer:
        return f"layers.{int(layer.group(1))}"
    if _HEAD.search(name):
        return "head"
    return "embeddings" if _EMBEDDING.search(name) else "other"


def is_output_entry(name: str) -> bool:
    """Whether the name is one that a classifier gives to its last layer, whose rows are classes."""
    return _LAYER.search(name) is None and _OUTPUT.search(name) is not None


def may_be_output_entry(name: str) -> bool:
    """Whether a name outside the layers speaks of classes, although it is none that `is_output_entry` knows."""
    return not is_output_entry(name) and _LAYER.search(name) is None and _LIKE_OUTPUT.search(name) is not None
