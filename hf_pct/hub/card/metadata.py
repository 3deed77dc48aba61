"""The card's metadata: what the Hub indexes. Built with huggingface_hub's own classes, so that names stay data."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from huggingface_hub import EvalResult, ModelCardData

from ...core.decode import JsonObject
from ...flips.render.public import public_value
from ...flips.report import FlipReport
from ...models.revisions import commit_in_cache
from ..client.names import hub_id, model_id, one_line
from ..contents import public_merge, read_json
from ..timm_format import is_timm_config
from .methods import DescribedMethod, describe_method

TASKS = ("text-classification", "image-classification")


@dataclass(frozen=True)
class ModelFacts:
    """What the files of a model say about it, without loading it."""

    task: str = "text-classification"
    library: str = "transformers"
    method: DescribedMethod = field(default_factory=DescribedMethod)
    base_models: tuple[str, ...] = ()
    channels: int = 3
    update: JsonObject = field(default_factory=dict)

    @classmethod
    def read(cls, folder: Path, task: str | None = None) -> "ModelFacts":
        """From config.json, adapter_config.json and the kit's own records, each if it is there."""
        config, adapter = read_json(folder, "config.json"), read_json(folder, "adapter_config.json")
        training = public_value(read_json(folder, "pct_config.json"))
        merge = public_merge(read_json(folder, "pct_merge.json"))
        timm = is_timm_config(config)
        named = str((config.get("architectures") or [""])[0])
        image = timm or named.endswith("ForImageClassification")
        if merge:
            sources = [merge["old"], *merge["new"]]
            bases = [model_id(source["path"], source["revision"]) for source in sources]
        elif adapter:
            started = adapter.get("base_model_name_or_path")
            bases = [model_id(started, commit_in_cache(started, adapter.get("revision")))]
        else:
            bases = [model_id(training.get("base_model"), training.get("base_revision"))]
        size = (config.get("pretrained_cfg") or {}).get("input_size") or (3,)
        return cls(
            task=task or TASKS[image],
            library="peft" if adapter else "timm" if timm else "transformers",
            method=describe_method(training, merge, bool(adapter)),
            base_models=tuple(base for base in bases if base),
            channels=int(size[0]),
            update=public_value(read_json(folder, "pct_update.json")),
        )


def card_metadata(
    report: FlipReport,
    repo_id: str,
    facts: ModelFacts,
    *,
    license: JsonObject | None = None,
    base_model: str | Sequence[str] | None = None,
    dataset_revision: str | None = None,
) -> ModelCardData:
    """YAML fields for the card of `repo_id`. What is not known is left out rather than guessed."""
    old = model_id(report.old.model, report.old.revision)
    base_models = [base_model] if isinstance(base_model, str) else list(base_model or ())
    assumed = [old] if old and facts.method.relation != "adapter" else []
    bases = list(dict.fromkeys(base_models or facts.base_models or assumed))
    dataset = hub_id(report.new.dataset)
    libraries = ["timm", "transformers"] if facts.library == "timm" else []
    tags = ["hf-pct", re.sub(r"[^\w.-]+", "-", facts.method.tag).strip("-"), "negative-flips", *libraries]
    extra: JsonObject = {"base_model_relation": facts.method.relation} if bases else {}
    return ModelCardData(
        **{name: value for name, value in (license or {}).items() if value},
        library_name=facts.library,
        pipeline_tag=facts.task,
        base_model=bases[0] if len(bases) == 1 else bases or None,
        datasets=[dataset] if dataset else None,
        metrics=["accuracy"],
        tags=[tag for tag in tags if tag],
        model_name=repo_id.split("/")[-1],
        eval_results=_results(report, facts.task, dataset_revision),
        **extra,
    )


def _results(report: FlipReport, task: str, dataset_revision: str | None) -> list[EvalResult]:
    """Accuracy and the flip rates, each with the data and with the old model that it is measured against."""
    name = one_line(report.new.dataset or "data that was not named")
    against = {"old_model": report.old.model, "old_revision": report.old.revision, "old_weights": report.old.weights}
    arguments = {key: one_line(value) for key, value in against.items() if value}
    data = {"rows": int(report.counts.total), "fingerprint": report.new.fingerprint}
    described = {
        "accuracy": ("accuracy", report.counts.new_accuracy),
        "nfr": ("negative flip rate", report.counts.nfr),
        "pfr": ("positive flip rate", report.counts.pfr),
        "relative_nfr": ("relative negative flip rate", report.counts.relative_nfr),
    }
    return [
        EvalResult(
            task_type=task,
            dataset_type=hub_id(report.new.dataset) or name,
            dataset_name=name,
            dataset_split=one_line(report.new.split) if report.new.split else None,
            dataset_revision=dataset_revision,
            dataset_args={key: value for key, value in data.items() if value},
            metric_type=kind,
            metric_name=title,
            metric_value=round(float(value), 6),
            metric_args=arguments or None,
        )
        for kind, (title, value) in described.items()
    ]
