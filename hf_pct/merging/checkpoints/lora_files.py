"""A LoRA adapter as PEFT saved it: factors by module, how strongly each counts, and what keeps two from merging."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from math import sqrt
from pathlib import Path
from typing import TypeAlias

from safetensors.torch import load_file
from torch import Tensor

from ...core.decode import load_json
from ..interpolate import find_nonfinite

WEIGHTS, CONFIG = "adapter_model.safetensors", "adapter_config.json"
PREFIX = "base_model.model."  # what PEFT writes before the base model's own names
Setting: TypeAlias = "str | int | float | bool | list[str] | dict[str, float] | None"
Factors = dict[str, tuple[Tensor, Tensor]]  # module -> (A, B)

_FACTOR = re.compile(r"^(?P<module>.+)\.lora_(?P<side>[AB])\.weight$")
# settings under which the weight that an adapter adds is not (scale * B A)
_OTHER_MEANING = (
    "use_dora", "use_qalora", "use_bdlora", "lora_bias", "layer_replication", "alora_invocation_tokens",
    "target_parameters", "trainable_token_indices", "kasa_config", "arrow_config", "monteclora_config",
)  # fmt: skip
# starts that also change the base model's weights whenever the adapter is loaded, by its rank and modules
_CHANGES_BASE = ("pissa", "corda", "olora", "mica", "loftq", "orthogonal", "lora_ga")


@dataclass(frozen=True)
class LoraAdapter:
    """`others` are modules that were trained whole, such as the classifier."""

    folder: Path
    config: dict[str, Setting]
    factors: Factors
    others: dict[str, Tensor]

    def scale(self, module: str) -> float:
        """lora_alpha / r, or / sqrt(r) for rsLoRA. Of several patterns that match, the first counts, as in PEFT."""
        rank = self.factors[module][0].shape[0]
        patterns = self.config.get("alpha_pattern")
        patterns = patterns if isinstance(patterns, dict) else {}
        name = module.removeprefix(PREFIX)
        matching = (value for pattern, value in patterns.items() if re.match(rf"(.*\.)?({pattern})$", name))
        alpha = next(matching, self.config["lora_alpha"])
        return float(alpha) / (sqrt(rank) if self.config.get("use_rslora") else rank)  # type: ignore[arg-type]

    def names(self, key: str) -> list[str]:
        """A setting that lists modules; a single name, or none, as a list."""
        value = self.config.get(key)
        return [value] if isinstance(value, str) else list(value) if isinstance(value, list) else []


def is_adapter_folder(folder: str | Path) -> bool:
    """Whether a folder holds an adapter and no model."""
    folder = Path(folder)
    return (folder / CONFIG).is_file() and not (folder / "config.json").is_file()


def open_adapter(folder: Path) -> tuple[LoraAdapter | None, list[str]]:
    """Read an adapter. Returns every problem; the adapter is None when one of its files is missing or unreadable."""
    lacking = [name for name in (CONFIG, WEIGHTS) if not (folder / name).is_file()]
    if lacking:
        return None, [f"{folder}: lacks {' and '.join(lacking)}; expected an adapter saved by PEFT as safetensors"]
    try:
        config = load_json(folder / CONFIG, "an adapter's config")
        state = load_file(folder / WEIGHTS)
    except Exception as error:  # safetensors and json raise errors of their own; all mean that a file is damaged
        return None, [f"{folder}: its files cannot be read ({str(error).splitlines()[0]}); save the adapter again"]
    problems = [f"{folder}: {line}" for line in (*_setting_problems(config), *find_nonfinite(state, "adapter"))]
    factors, others, unknown = _split(state)
    if not factors:
        unknown.append("has no LoRA factors, expected at least one pair lora_A and lora_B")
    return LoraAdapter(folder, config, factors, others), problems + [f"{folder}: {line}" for line in unknown]


def _setting_problems(config: Mapping[str, Setting]) -> list[str]:
    problems = []
    if config.get("peft_type") != "LORA":
        problems.append(f"peft_type is {config.get('peft_type')!r}, expected 'LORA'")
    problems += [
        f"{option} changes what the factors mean and is not merged here"
        for option in _OTHER_MEANING
        if config.get(option)
    ]
    start = config.get("init_lora_weights")
    if isinstance(start, str) and start.lower().startswith(_CHANGES_BASE):
        problems.append(
            f"init_lora_weights={start!r} changes the base model's weights when the adapter is loaded; convert it to "
            "a plain LoRA first (PEFT: save_pretrained(path_initial_model_for_weight_conversion=...))"
        )
    return problems


def _split(state: Mapping[str, Tensor]) -> tuple[Factors, dict[str, Tensor], list[str]]:
    """Factors by module, modules that were trained whole, and what is neither."""
    sides: dict[str, dict[str, Tensor]] = {}
    others, problems = {}, []
    for name, value in state.items():
        match = _FACTOR.match(name)
        if match and value.dim() == 2:
            sides.setdefault(match["module"], {})[match["side"]] = value
        elif "lora_" in name:
            problems.append(f"{name} of shape {tuple(value.shape)} is not a factor of a linear layer")
        else:
            others[name] = value
    problems += [f"{module} has only one of its two factors" for module, pair in sides.items() if len(pair) != 2]
    return {module: (pair["A"], pair["B"]) for module, pair in sides.items() if len(pair) == 2}, others, problems


def adapter_differences(old: LoraAdapter, new: LoraAdapter) -> list[str]:
    """Everything that keeps two adapters from being merged. Adapters of different modules are no problem."""
    problems = []
    for key in ("base_model_name_or_path", "revision", "task_type", "fan_in_fan_out", "bias"):
        if old.config.get(key) != new.config.get(key):
            problems.append(f"{key} differs: {old.config.get(key)!r} and {new.config.get(key)!r}")
    for name in sorted({*old.others, *new.others}):
        holders = [adapter for adapter in (old, new) if name in adapter.others]
        if len(holders) == 1:
            problems.append(
                f"{name}: trained whole in {holders[0].folder} only, and the value that the other model has is not in "
                "its adapter; train both with the same modules_to_save"
            )
        elif old.others[name].shape != new.others[name].shape:
            shapes = [tuple(adapter.others[name].shape) for adapter in (old, new)]
            problems.append(f"{name}: shape {shapes[0]} in {old.folder}, {shapes[1]} in {new.folder}")
    for module in sorted(old.factors.keys() & new.factors.keys()):
        (a, b), (c, d) = old.factors[module], new.factors[module]
        if a.shape[1] != c.shape[1] or b.shape[0] != d.shape[0]:
            problems.append(f"{module}: {b.shape[0]} x {a.shape[1]} in {old.folder}, {d.shape[0]} x {c.shape[1]}")
    for one, other in ((old, new), (new, old)):
        whole = {name.rpartition(".")[0] for name in one.others}
        problems += [
            f"{module}: trained whole in {one.folder} and by factors in {other.folder}"
            for module in sorted(whole & other.factors.keys())
        ]
    return problems


def merged_settings(old: LoraAdapter, new: LoraAdapter, rank: int) -> dict[str, Setting]:
    """The config of the merged adapter: the new one's, for the modules of both, all at one rank and scale 1."""
    config: dict[str, Setting] = {**new.config, "r": rank, "lora_alpha": rank, "use_rslora": False}
    config |= {"rank_pattern": {}, "alpha_pattern": {}}
    if old.factors.keys() != new.factors.keys():
        # by their full names: patterns and layer numbers of one adapter say nothing about the other's modules
        both = sorted({module.removeprefix(PREFIX) for module in (*old.factors, *new.factors)})
        config |= {"target_modules": both, "exclude_modules": None, "layers_to_transform": None}
        config |= {"layers_pattern": None}
    whole = sorted({*old.names("modules_to_save"), *new.names("modules_to_save")})
    if whole:
        config["modules_to_save"] = whole
    return config
