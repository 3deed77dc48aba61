"""Merge two LoRA adapters of one base model: exactly, or at a given rank with the error reported.

What an adapter adds to a weight is s B A, with s = lora_alpha / r. The average of two is alpha s1 B1 A1 + (1 - alpha)
s2 B2 A2: averaging the factors themselves is something else, and wrong. Side by side, [B1 B2] [A1; A2] holds the
average exactly at rank r1 + r2; a thin SVD of that product gives the best approximation at any smaller rank. A module
that only one adapter has is added with that adapter's share, because the other adds nothing there.
"""

from __future__ import annotations

import json
import shutil
from dataclasses import dataclass
from math import sqrt
from pathlib import Path

import torch
from safetensors.torch import save_file
from torch import Tensor

from ..core.files import check_output_folder, output_problems, whole_folder
from ..core.fingerprints import file_hash, hash_file_weights
from ..core.model_folder import links_outside, side_files
from ..models.load.adapters import save_labels
from .checkpoints.lora_files import CONFIG, WEIGHTS, LoraAdapter, adapter_differences, merged_settings, open_adapter
from .checkpoints.lora_files import is_adapter_folder as is_adapter_folder
from .checkpoints.lora_labels import class_names, in_label_space
from .checkpoints.record import FILE_NAME, CurveTable, MergeInput, MergeRecord, Settings, versions
from .groups import check_alpha
from .interpolate import merge_tensor, raise_all


@dataclass(frozen=True)
class LoraMerge:
    """The rank that was written and what re-factoring cost: |merged - written| / |merged|, in the Frobenius norm."""

    rank: int
    relative_error: float
    module_errors: dict[str, float]


def merge_lora(
    old: str | Path,
    new: str | Path,
    output_dir: str | Path,
    *,
    alpha: float,
    rank: int | None = None,
    curve: CurveTable | None = None,
    selection: Settings | None = None,
) -> LoraMerge:
    """Write the merged adapter; `rank=None` keeps it exact, which takes the sum of both ranks.

    At alpha 0 and 1 the new or the old adapter is written as it is. Modules that were trained whole (the classifier)
    are interpolated; where the adapters say their classes (`pct_labels.json`), its rows are matched by their names.

    Example:
        >>> from hf_pct.merging import merge_lora
        >>> merge_lora("adapter-v1", "adapter-v2", "adapter-merged", alpha=0.3).rank  # the sum of both ranks: exact
        4
    """
    check_alpha(alpha)
    if rank is not None and rank < 1:
        raise ValueError(f"rank is {rank}, expected at least 1, or nothing for the exact merge")
    target = Path(output_dir)
    adapters: list[LoraAdapter] = []
    problems: list[str] = []
    for folder in (old, new):
        adapter, lines = open_adapter(Path(folder))
        problems += lines
        if adapter is not None:
            adapters.append(adapter)
    names: list[list[str]] = []
    if len(adapters) == 2:
        names, lines = class_names(*adapters)
        if names and not lines:
            adapters[0], lines = in_label_space(adapters[0], adapters[1], names)
        problems += lines or adapter_differences(*adapters)
        problems += links_outside(adapters[1].folder, side_files(adapters[1].folder))
    raise_all(problems and problems + output_problems(target), "These adapters cannot be merged")
    check_output_folder(target)
    with whole_folder(target) as partial:
        result = _write(partial, adapters[0], adapters[1], alpha, rank)
        if names:
            save_labels(partial, names[0] if alpha == 1.0 else names[1])
        cost = {"rank": result.rank, "relative_error": result.relative_error}
        record = _record(partial, adapters, alpha, curve, {**(selection or {}), **cost})
        (partial / FILE_NAME).write_text(record.to_json(), encoding="utf-8")
    return result


def _write(target: Path, old: LoraAdapter, new: LoraAdapter, alpha: float, rank: int | None) -> LoraMerge:
    if alpha in (0.0, 1.0):  # the files as they are
        whole = old if alpha == 1.0 else new
        for name in (WEIGHTS, CONFIG):
            shutil.copyfile(whole.folder / name, target / name)
        ranks = [a.shape[0] for a, _ in whole.factors.values()]
        result = LoraMerge(max(ranks, default=0), 0.0, {})
    else:
        state, result = _merge(old, new, alpha, rank)
        save_file(state, target / WEIGHTS, metadata={"format": "pt"})
        settings = json.dumps(merged_settings(old, new, result.rank), indent=2, sort_keys=True)
        (target / CONFIG).write_text(settings + "\n", encoding="utf-8")
    for path in side_files(new.folder):
        if path.name != CONFIG:
            shutil.copyfile(path, target / path.name)
    return result


def _record(
    folder: Path,
    adapters: list[LoraAdapter],
    alpha: float,
    curve: CurveTable | None,
    selection: Settings,
) -> MergeRecord:
    old, new = (MergeInput(str(adapter.folder), hash_file_weights(adapter.folder / WEIGHTS)) for adapter in adapters)
    return MergeRecord(
        method="lora",
        alpha=alpha,
        old=old,
        new=(new,),
        curve=curve,
        selection=selection,
        output={WEIGHTS: file_hash(folder / WEIGHTS)},
        versions=versions(),
        weights=hash_file_weights(folder / WEIGHTS),
        not_replayable="adapters are merged by merge_lora, which has no replay",
    )


def _merge(old: LoraAdapter, new: LoraAdapter, alpha: float, rank: int | None) -> tuple[dict[str, Tensor], LoraMerge]:
    modules = sorted({*old.factors, *new.factors})
    pairs = {}
    for module in modules:
        parts = [
            (adapter.factors[module][0].double(), share * adapter.scale(module) * adapter.factors[module][1].double())
            for adapter, share in ((old, alpha), (new, 1 - alpha))
            if module in adapter.factors
        ]
        pairs[module] = (torch.cat([a for a, _ in parts]), torch.cat([b for _, b in parts], dim=1))
    width = rank or max(a.shape[0] for a, _ in pairs.values())
    state, errors, lost, whole = {}, {}, 0.0, 0.0
    for module, (a, b) in pairs.items():
        a, b, dropped, total = _at_rank(a, b, width)
        errors[module] = sqrt(dropped / total) if total else 0.0
        lost, whole = lost + dropped, whole + total
        dtype = (new if module in new.factors else old).factors[module][0].dtype
        state[f"{module}.lora_A.weight"] = a.to(dtype).contiguous()
        state[f"{module}.lora_B.weight"] = b.to(dtype).contiguous()
    for name, value in new.others.items():
        state[name] = merge_tensor(old.others[name], value, alpha)
    return state, LoraMerge(width, sqrt(lost / whole) if whole else 0.0, errors)


def _at_rank(a: Tensor, b: Tensor, rank: int) -> tuple[Tensor, Tensor, float, float]:
    """b @ a with factors of exactly `rank`, the squared norm that was dropped, and the squared norm of the product.

    The SVD is of the small core between two QR factors, never of the full weight.
    """
    left, left_core = torch.linalg.qr(b)
    right, right_core = torch.linalg.qr(a.T)
    u, s, v = torch.linalg.svd(left_core @ right_core.T)
    total = float(s.square().sum())
    if a.shape[0] <= rank:  # enough room: keep the factors as they are, padded with zeros
        extra = rank - a.shape[0]
        return torch.nn.functional.pad(a, (0, 0, 0, extra)), torch.nn.functional.pad(b, (0, extra)), 0.0, total
    root = s[:rank].sqrt()
    new_b = (left @ u[:, : len(s)])[:, :rank] * root
    new_a = root[:, None] * (right @ v.T[:, : len(s)]).T[:rank]
    return new_a, new_b, float(s[rank:].square().sum()), total
