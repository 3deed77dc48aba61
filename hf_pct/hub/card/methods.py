"""What made a model compatible, in words: the method's tag, one sentence, its settings and whom to cite."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ...core.decode import JsonObject
from ...methods.base import MergeRule, TrainingMethod, WeightMethod
from ...methods.papers import SCHUMANN_2023, YAN_2021
from ...methods.registry import build, methods_of

_ADAPTERS = "The adapter adds the weighted mean of what the old and the new LoRA adapter add"


@dataclass(frozen=True)
class DescribedMethod:
    """How the new model was made. `tag` is empty where nothing is recorded."""

    tag: str = ""
    sentence: str = ""
    citation: str = YAN_2021
    settings: JsonObject = field(default_factory=dict)
    relation: str = "finetune"


def describe_method(training: JsonObject, merge: JsonObject, adapter: bool = False) -> DescribedMethod:
    """The method from `pct_config.json` and `pct_merge.json`; both may be empty."""
    if merge:
        alpha = merge.get("alpha")
        share = "by parts of the network, see below" if isinstance(alpha, Mapping) else f"at alpha {alpha}"
        how, tag, citation = _merged(merge)
        return DescribedMethod(
            tag, f"{how} ({share}; alpha is the old model's share).", citation, _merge_settings(merge), "merge"
        )
    relation = "adapter" if adapter else "finetune"
    if not training:
        return DescribedMethod(relation=relation)
    name, settings = str(training.get("method") or ""), dict(training.get("settings") or {})
    held = [_built(method, settings) for method in methods_of(WeightMethod).values() if settings.get(method.switch())]
    known = methods_of(TrainingMethod).get(name)
    if known is None:
        return DescribedMethod(name, f"Trained with the method {name}.", settings=settings, relation=relation)
    parts = [_built(known, settings), *held]
    return DescribedMethod(
        tag=next((part.tag for part in parts if part.tag), ""),
        sentence=" ".join(part.sentence() for part in parts),
        citation="\n\n".join(dict.fromkeys(part.bibtex for part in parts if part.bibtex)),
        settings=settings,
        relation=relation,
    )


def _built(method: type[TrainingMethod] | type[WeightMethod], settings: JsonObject) -> Any:
    """The method with its recorded settings, or with its defaults where a record has what it does not accept."""
    try:
        return build(method, settings)
    except ValueError:
        return method()


def _merged(merge: JsonObject) -> tuple[str, str, str]:
    """What the merge rule says of itself: a sentence, its tag and whom to cite."""
    name = str(merge.get("method"))
    known = methods_of(MergeRule).get(name)
    if known is None:
        return _ADAPTERS if name == "lora" else "The weights are merged", "bcwi", SCHUMANN_2023
    return build(known, merge.get("settings") or {}).sentence(), known.tag, known.bibtex or SCHUMANN_2023


def _merge_settings(merge: JsonObject) -> JsonObject:
    """What a reader can act on: how, how much, and what was promised; the curve stays in the record."""
    settings: JsonObject = {"method": merge.get("method"), **(merge.get("settings") or {})}
    alpha = merge.get("alpha")
    if isinstance(alpha, Mapping):
        settings |= {f"alpha of {part}": value for part, value in alpha.items()}
    else:
        settings["alpha (share of the old model)"] = alpha
    settings["old model"] = (merge.get("old") or {}).get("path")
    settings["new models"] = ", ".join(str(source.get("path")) for source in merge.get("new") or ())
    selection = merge.get("selection") or {}
    settings |= {name: selection[name] for name in ("reason", "promise") if selection.get(name)}
    return {name: value for name, value in settings.items() if value not in (None, "")}
