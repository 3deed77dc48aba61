"""A classifier head whose classes differ between old and new: rows are matched by label name.

The old model is first written in the new model's label space: rows of shared classes are the old model's, moved to
where the new model keeps that class, and rows of added classes are copies of the new model's. Every merge rule then
leaves the added rows at the new model's values, because both sides agree there.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from hf_pct.labels import LabelAlignment, align_labels
from hf_pct.merging.groups import is_output_entry


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
    """The entries whose first dimension is the classes, by name and by size in both models."""
    old_count, new_count = len(match.old_index) + len(match.removed), len(match.new_index) + len(match.added)
    return [
        name
        for name, shape in new_shapes.items()
        if is_output_entry(name)
        and len(shape) > 0
        and shape[0] == new_count
        and len(old_shapes.get(name, ())) > 0
        and old_shapes[name][0] == old_count
    ]


def align_rows(old: Tensor, new: Tensor, match: LabelAlignment) -> Tensor:
    """The old head entry in the new label space; rows of added classes are the new model's."""
    aligned = new.clone()
    aligned[torch.from_numpy(match.new_index)] = old[torch.from_numpy(match.old_index)].to(new.dtype)
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
    aligned = torch.ones((rows, *fisher.shape[1:]), dtype=fisher.dtype, device=fisher.device)
    aligned[torch.from_numpy(match.new_index)] = fisher[torch.from_numpy(match.old_index)]
    return aligned
