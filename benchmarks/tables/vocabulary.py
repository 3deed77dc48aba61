"""The words that a table's YAML file may use, and the check that it uses no others."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import yaml

METHODS = ("none", "naive", "kd", "fd-kl", "fd-lm", "fd-dynamic", "bct", "ract", "margin", "elodi")
MERGES = ("linear", "soup", "fisher", "probability", "rebased")
# which parts of the training set a data set can be asked for; the first is all of it
DATA: dict[str, tuple[str, ...]] = {
    "cifar10": ("all", "half_rows", "half_classes"),
    "clinc150": ("all", "half_rows", "half_classes"),
    "massive_rows": ("all", "old"),
    "massive_classes": ("all", "old"),
    "grocery_store": ("all", "half_rows", "half_classes"),
    "tiny": ("all", "half_rows", "half_classes"),
}
MODELS = (
    "resnet10", "resnet18", "resnet26", "lite0", "lite2", "minilm-l6", "minilm-l3", "minilm-l1", "granite", "tiny",
)  # fmt: skip
RECIPES: dict[str, dict[str, Any]] = yaml.safe_load(
    (Path(__file__).resolve().parent / "configs" / "recipes.yaml").read_text(encoding="utf-8")
)
RECIPE_KEYS = (
    "optim", "optim_args", "learning_rate", "weight_decay", "lr_scheduler_type", "warmup_steps", "num_train_epochs",
    "per_device_train_batch_size", "max_grad_norm", "adam_beta1", "adam_beta2", "adam_epsilon",
)  # fmt: skip
SETTINGS = (
    "alpha", "beta", "temperature", "pc_weight", "targets", "ewc_weight", "fisher_samples", "prior_weight_decay",
    "mixout", "l2_sp_weight", "reference_columns", "top_k", "p", "margin", "exclude_label", "ldi_weight",
    "lambda_ensemble", "ensemble_loss", "num_members", "member_kind", "combine", "member_epochs",
    "member_learning_rate", "member_lora_rank", "every_row", "right_rows", "reference_weight", "ensemble_share",
    "free_difference", "added_bias", "independent_weight", "distance", "soft_temperature", "feature_map",
)  # fmt: skip
_TOP = ("title", "paper", "caption", "data", "seeds", "recipe", "cells", "rows")
_TRAIN = (
    "train", "model", "start", "part", "rows", "seed", "old", "independent", "members", "settings", "recipe",
    "drop_rate", "keep_head", "head_seed",
)  # fmt: skip
_POOL = ("mean", "of", "take", "first")
_MERGE = ("merge", "old", "new", "alpha", "part")
_ROW = ("name", "old", "new", "versions", "against", "sweep", "seeds", "policy")
POLICY_RULES = ("replace", "majority", "map", "min-entropy", "cost-ratio")
_POLICY = ("rule", "cost_ratio", "budget")


def check_top(values: Any) -> list[str]:
    """What is wrong with the file as a whole: its keys, its data, its seeds and its rows."""
    if not isinstance(values, dict):
        return [f"it holds a {type(values).__name__}, expected keys: {', '.join(_TOP)}"]
    problems = _unknown("", values, _TOP) + _missing("", values, _TOP)
    if problems:
        return problems
    data = values["data"]
    problems += _unknown("data: ", data, ("name", "train", "test", "dev", "seed", "classes"))
    if "classes" in data and data.get("name") != "clinc150":
        problems.append(f"data: classes is for clinc150, not for {data.get('name')}")
    problems += _one_of("data: name", data.get("name"), DATA) + _one_of("recipe", values["recipe"], RECIPES)
    seeds = values["seeds"]
    if not isinstance(seeds, list) or len(seeds) < 3 or len(set(seeds)) < len(seeds):
        problems.append(f"seeds is {seeds!r}, expected at least 3 different numbers")
    names = [row.get("name") for row in values["rows"]]
    for row in values["rows"]:
        problems += _check_row(row, values["cells"])
        if row.get("against", names[0]) not in names:
            problems.append(f"row {row.get('name')!r}: there is no row {row['against']!r} to compare it with")
    problems += [f"two rows are called {name!r}" for name in sorted({n for n in names if names.count(n) > 1})]
    return problems


def _check_row(row: Mapping[str, Any], templates: Mapping[str, Any]) -> list[str]:
    title = f"row {row.get('name', row)!r}: "
    problems = _unknown(title, row, _ROW) + _missing(title, row, ("name",))
    used = row.get("versions") or [row.get("old"), row.get("new")]
    problems += [f"{title}there is no cell {name!r}" for name in used if not _is_cell(name, templates)]
    if "policy" in row:
        problems += _unknown(f"{title}policy: ", row["policy"], _POLICY)
        problems += _one_of(f"{title}policy: rule", row["policy"].get("rule"), POLICY_RULES)
    if "sweep" in row and not isinstance(_alpha(row["sweep"], templates), list):
        problems.append(f"{title}{row['sweep']!r} is no sweep: expected a merged cell with a list of alphas")
    return problems


def _alpha(name: Any, templates: Mapping[str, Any]) -> Any:
    template = templates.get(name)
    return template.get("alpha") if isinstance(template, dict) else None


def _is_cell(name: Any, templates: Mapping[str, Any]) -> bool:
    """Whether a row may show this: a cell, or one alpha of a sweep, but not a whole sweep."""
    base, _, alpha = str(name).partition("@")
    if not alpha:
        return name in templates and not isinstance(_alpha(name, templates), list)
    return alpha in map(str, _alpha(base, templates) or [])


def check_template(name: str, template: Any, templates: Mapping[str, Any], data: Any) -> list[str]:
    """What is wrong with one cell of the file."""
    title = f"cell {name!r}: "
    kinds = [kind for kind in ("train", "mean", "merge") if isinstance(template, dict) and kind in template]
    if len(kinds) != 1:
        return [f"{title}it is {template!r}, expected exactly one of train, mean and merge"]
    check = {"train": _check_train, "mean": _check_pool, "merge": _check_merge}[kinds[0]]
    problems = check(title, template)
    problems += _one_of(f"{title}part", template.get("part", "all"), DATA.get(data, ("all",)))
    return problems + [f"{title}there is no cell {name!r}" for name in part_of(template) if name not in templates]


def _check_train(title: str, template: Mapping[str, Any]) -> list[str]:
    problems = _unknown(title, template, _TRAIN) + _one_of(f"{title}train", template["train"], METHODS)
    problems += _unknown(f"{title}settings: ", template.get("settings", {}), SETTINGS)
    problems += _unknown(f"{title}recipe: ", template.get("recipe", {}), RECIPE_KEYS)
    if ("model" in template) == ("start" in template):
        problems.append(f"{title}expected either a model to start afresh or a start, the cell to go on from")
    if "model" in template:
        problems += _one_of(f"{title}model", template["model"], MODELS)
    if "members" in template:
        problems += _check_pool(f"{title}members: ", template["members"])
    if template["train"] not in ("none", "elodi") and not template.get("old"):
        problems.append(f"{title}{template['train']} needs an old model: old: <cell>")
    if (template["train"] == "margin") != ("independent" in template):
        problems.append(f"{title}margin, and no other method, needs an untreated new model: independent: <cell>")
    if isinstance(template.get("independent"), dict):
        problems += _check_pool(f"{title}independent: ", template["independent"])
    if not isinstance(template.get("rows", 1), int) or template.get("rows", 1) < 1:
        problems.append(f"{title}rows is {template['rows']!r}, expected how many training rows, the first ones")
    return problems


def _check_pool(title: str, asked: Mapping[str, Any]) -> list[str]:
    problems = _unknown(title, asked, _POOL) + _missing(title, asked, _POOL)
    if not problems and not 1 < asked["take"] <= asked["of"]:
        problems.append(
            f"{title}take {asked['take']} of {asked['of']}, expected at least 2 and no more than there are"
        )
    return problems


def _check_merge(title: str, template: Mapping[str, Any]) -> list[str]:
    problems = _unknown(title, template, _MERGE) + _missing(title, template, ("merge", "old", "new", "alpha"))
    problems += _one_of(f"{title}merge", template["merge"], MERGES)
    alpha = template.get("alpha")
    shares = alpha if isinstance(alpha, list) else [alpha]
    if alpha != "contract" and not all(isinstance(share, int | float) and 0 <= share <= 1 for share in shares):
        problems.append(f"{title}alpha is {alpha!r}, expected a share from 0 to 1, a list of them, or contract")
    return problems


def part_of(template: Mapping[str, Any]) -> list[str]:
    """The templates that one names."""
    named = [template.get(link) for link in ("start", "old", "new", "mean", "independent", "members")]
    named = [value.get("mean") if isinstance(value, dict) else value for value in named]
    return [name for value in named if value for name in (value if isinstance(value, list) else [value])]


def _unknown(title: str, values: Mapping[str, Any], known: Iterable[str]) -> list[str]:
    return [f"{title}unknown key {key!r}, expected some of {', '.join(known)}" for key in values if key not in known]


def _missing(title: str, values: Mapping[str, Any], needed: Iterable[str]) -> list[str]:
    return [f"{title}no {key!r}" for key in needed if key not in values]


def _one_of(title: str, value: Any, choices: Iterable[str]) -> list[str]:
    return [] if value in choices else [f"{title} is {value!r}, expected one of {', '.join(choices)}"]
