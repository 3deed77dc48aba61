"""Merge two LoRA adapters of one base model: exactly, or re-factored to a given rank with the error told.

What an adapter adds to a weight is s B A, with s = lora_alpha / r. The average of two is alpha s1 B1 A1 + (1 - alpha)
s2 B2 A2: averaging the factors themselves is something else, and wrong. Side by side, [B1 B2] [A1; A2] holds the
average exactly at rank r1 + r2; a thin SVD of that product gives the best approximation at any smaller rank.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from math import sqrt
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

from hf_pct.merging.groups import check_alpha
from hf_pct.merging.interpolate import find_nonfinite, merge_tensor, raise_all
from hf_pct.merging.outputs import output_problems, whole_folder
from hf_pct.merging.record import FILE_NAME, MergeRecord, Source, versions
from hf_pct.merging.weight_files import file_hash

WEIGHTS, CONFIG = "adapter_model.safetensors", "adapter_config.json"
_FACTOR = re.compile(r"^(?P<module>.+)\.lora_(?P<side>[AB])\.weight$")


@dataclass(frozen=True)
class LoraMerge:
    """The rank that was written and what re-factoring cost: |merged - written| / |merged|, in the Frobenius norm."""

    rank: int
    relative_error: float
    module_errors: dict[str, float]


@dataclass(frozen=True)
class _Adapter:
    folder: Path
    config: dict[str, Any]
    factors: dict[str, tuple[Tensor, Tensor]]  # module -> (A, B)
    others: dict[str, Tensor]  # fully trained modules, such as the classifier

    def scale(self, module: str) -> float:
        """lora_alpha / r, or / sqrt(r) for rsLoRA; per-module settings first."""
        rank, alpha = self.factors[module][0].shape[0], self.config["lora_alpha"]
        for pattern, value in (self.config.get("alpha_pattern") or {}).items():
            if re.match(rf"(.*\.)?({pattern})$", module):
                alpha = value
        return alpha / (sqrt(rank) if self.config.get("use_rslora") else rank)


def merge_lora(
    old: str | Path, new: str | Path, output_dir: str | Path, *, alpha: float, rank: int | None = None
) -> LoraMerge:
    """Write the merged adapter; `rank=None` keeps it exact, which takes the sum of both ranks.

    At alpha 0 and 1 the new or the old adapter is written as it is. Modules that were trained whole (the classifier)
    are interpolated.
    """
    check_alpha(alpha)
    if rank is not None and rank < 1:
        raise ValueError(f"rank is {rank}, expected at least 1, or nothing for the exact merge")
    adapters, problems = [], output_problems(Path(output_dir))
    for folder in (old, new):
        adapter, found = _open(Path(folder))
        problems += found
        if adapter is not None:
            adapters.append(adapter)
    if len(adapters) == 2:
        problems += _differences(*adapters)
    raise_all(problems, "These adapters cannot be merged")
    one, two = adapters
    if alpha in (0.0, 1.0):
        same = one if alpha == 1.0 else two
        state, config = load_file(same.folder / WEIGHTS), same.config
        result = LoraMerge(int(same.config["r"]), 0.0, {})
    else:
        state, result = _merge(one, two, alpha, rank)
        config = {**two.config, "r": result.rank, "lora_alpha": result.rank, "use_rslora": False}
        config |= {"rank_pattern": {}, "alpha_pattern": {}}
    _write(Path(output_dir), state, config, result, alpha, (one, two))
    return result


def _merge(old: _Adapter, new: _Adapter, alpha: float, rank: int | None) -> tuple[dict[str, Tensor], LoraMerge]:
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


def _open(folder: Path) -> tuple[_Adapter | None, list[str]]:
    lacking = [name for name in (CONFIG, WEIGHTS) if not (folder / name).is_file()]
    if lacking:
        return None, [f"{folder}: lacks {' and '.join(lacking)}; expected an adapter saved by PEFT as safetensors"]
    config = json.loads((folder / CONFIG).read_text(encoding="utf-8"))
    problems = []
    if config.get("peft_type") != "LORA":
        problems.append(f"{folder}: peft_type is {config.get('peft_type')!r}, expected 'LORA'")
    problems += [
        f"{folder}: {option} changes what the factors mean and is not merged here"
        for option in ("use_dora", "use_qalora", "use_bdlora", "lora_bias", "layer_replication")
        if config.get(option)
    ]
    state = load_file(folder / WEIGHTS)
    problems += [f"{folder}: {line}" for line in find_nonfinite(state, "adapter")]
    sides: dict[str, dict[str, Tensor]] = {}
    others = {}
    for name, value in state.items():
        match = _FACTOR.match(name)
        if match and value.dim() == 2:
            sides.setdefault(match["module"], {})[match["side"]] = value
        elif "lora_" in name:
            problems.append(f"{folder}: {name} of shape {tuple(value.shape)} is not a factor of a linear layer")
        else:
            others[name] = value
    single = [module for module, pair in sides.items() if len(pair) != 2]
    problems += [f"{folder}: {module} has only one of its two factors" for module in single]
    factors = {module: (pair["A"], pair["B"]) for module, pair in sides.items() if len(pair) == 2}
    return _Adapter(folder, config, factors, others), problems


def _differences(old: _Adapter, new: _Adapter) -> list[str]:
    problems = []
    for key in ("base_model_name_or_path", "task_type", "fan_in_fan_out", "bias"):
        if old.config.get(key) != new.config.get(key):
            problems.append(f"{key} differs: {old.config.get(key)!r} and {new.config.get(key)!r}")
    for name in sorted({*old.others, *new.others}):
        shapes = [tuple(side.others[name].shape) if name in side.others else None for side in (old, new)]
        if shapes[0] != shapes[1]:
            problems.append(f"{name}: shape {shapes[0]} in {old.folder}, {shapes[1]} in {new.folder}")
    for module in sorted(old.factors.keys() & new.factors.keys()):
        (a, b), (c, d) = old.factors[module], new.factors[module]
        if a.shape[1] != c.shape[1] or b.shape[0] != d.shape[0]:
            problems.append(f"{module}: {b.shape[0]} x {a.shape[1]} in {old.folder}, {d.shape[0]} x {c.shape[1]}")
    return problems


def _write(
    target: Path,
    state: dict[str, Tensor],
    config: dict[str, Any],
    result: LoraMerge,
    alpha: float,
    adapters: tuple[_Adapter, _Adapter],
) -> None:
    with whole_folder(target) as partial:
        save_file(state, partial / WEIGHTS, metadata={"format": "pt"})
        (partial / CONFIG).write_text(json.dumps(config, indent=2, sort_keys=True) + "\n", encoding="utf-8")
        old, new = (Source(str(a.folder), file_hash(a.folder / WEIGHTS)) for a in adapters)
        record = MergeRecord(
            method="lora",
            alpha=alpha,
            old=old,
            new=(new,),
            selection={"rank": result.rank, "relative_error": result.relative_error},
            output={WEIGHTS: file_hash(partial / WEIGHTS)},
            versions=versions(),
        )
        (partial / FILE_NAME).write_text(record.to_json(), encoding="utf-8")
