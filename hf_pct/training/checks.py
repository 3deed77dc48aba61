"""What a trainer refuses: at the start where that can be known, with the first batch where it cannot."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import torch

from ..flips.metric_names import lower_is_better, needs_old_model
from ..methods.base import IGNORED, OLD, WeightMethod
from ..methods.registry import methods_of
from ..models.types import Inputs, RowSource
from .arguments import PCTArguments
from .evaluation.contract import METRIC as CONTRACT
from .evaluation.metrics import RATES

if TYPE_CHECKING:
    from torch import Tensor, nn

    from .references.part import ReferencePart


def check_single_label(model: nn.Module) -> None:
    """Refuse a model that does not answer with one class."""
    kind = getattr(getattr(model, "config", None), "problem_type", None)
    if kind in ("regression", "multi_label_classification"):
        raise ValueError(
            f"The model's problem_type is {kind!r}, expected single-label classification: flips are about one answer."
        )


def check_labels(inputs: Inputs, classes: int) -> Tensor:
    """The labels of a batch; one without any is refused, and so are labels that are not one class index per row."""
    if "labels" not in inputs:
        raise ValueError(
            f"The batch has no labels, only {', '.join(inputs)}: expected a column 'label' or 'labels' with the "
            "index of each row's class. Rename the column, or let the data collator make it."
        )
    labels = inputs["labels"]
    if labels.ndim != 1 or labels.dtype not in (torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8):
        several = labels.ndim > 1
        single = "true or false" if labels.dtype == torch.bool else "numbers that are not whole"
        what = "several numbers per row (multi-hot or one-hot)" if several else single
        fix = "labels.argmax(-1) makes indices of one-hot rows" if several else "convert the column to integers"
        raise ValueError(
            f"The labels have shape {tuple(labels.shape)} and type {labels.dtype}, {what}: expected one class index "
            f"per row, as integers of shape ({len(labels)},). Flips are about one answer per row; {fix}."
        )
    labels = labels.long()
    outside = labels[(labels >= classes) | ((labels < 0) & (labels != IGNORED))]
    if len(outside):
        raise ValueError(
            f"The labels {sorted(set(outside.tolist()))[:5]} are no classes of the model, which has {classes}: "
            f"expected 0 to {classes - 1}, or {IGNORED} for a row without a label. Give the model a head for every "
            "class (num_labels, id2label), or mend the labels."
        )
    return labels


def check_output(folder: str, models: Iterable[object]) -> None:
    """Refuse to save the new model over an old one: what it broke could no longer be measured."""
    for model in models:
        if isinstance(model, str | Path) and Path(model).is_dir() and Path(model).resolve() == Path(folder).resolve():
            raise ValueError(
                f"output_dir is {folder}, the folder of the old model: the new model would be saved over it, and then "
                "be compared with itself. Choose another output_dir."
            )


def check_references(method: str, weights: Mapping[str, float], named: Mapping[str, object]) -> None:
    """Refuse a method whose references nobody named."""
    missing = [name for name in weights if name not in named]
    if missing:
        example = ", ".join(f"{name!r}: ..." for name in missing)
        raise ValueError(
            f"The method {method} needs the reference {', '.join(map(repr, missing))}: pass references={{{example}}}, "
            "each with a Hub id, a folder or a module."
        )


def check_anchors(args: PCTArguments, old: ReferencePart | None, deepspeed: bool) -> None:
    """Refuse to hold weights near an old model that is not there, or where weights are out of reach."""
    switches = [method.switch() for method in methods_of(WeightMethod).values()]
    if args.anchored and (old is None or old.reference is None or args.old_adapter):
        raise ValueError(
            f"Holding weights near the old model's ({', '.join(switches)}) needs the old model itself: pass "
            "old_model=, a Hub id, a folder or a module of the same architecture."
        )
    if args.anchored and deepspeed:
        raise ValueError(
            "DeepSpeed keeps the weights and gradients that it trains to itself, so they cannot be held near the old "
            f"model's. Use DDP or FSDP2 with {', '.join(switches)}."
        )


def check_metric(args: PCTArguments, versions: Iterable[str], eval_dataset: RowSource | None) -> None:
    """Refuse a best model by flips that no evaluation will report, and warn when it goes by flips alone.

    `versions` are the references that are asked; without an `eval_dataset` what it will report is not known.
    """
    metric, old = args.metric_for_best_model, [name for name in versions if name.split("_")[0] == OLD]
    if needs_old_model(metric) and OLD not in old:
        raise ValueError(
            f"metric_for_best_model={metric!r} is about an old model, and there is none: pass old_model=, or choose "
            "'accuracy' or 'loss'."
        )
    if needs_old_model(metric) and eval_dataset is not None and args.eval_strategy != "no":
        rates = [f"{rate}_{name}".removesuffix(f"_{OLD}") for name in old for rate in RATES]
        sets = [f"{name}_" for name in eval_dataset] if isinstance(eval_dataset, dict) else [""]
        reported = [name + rate for name in sets for rate in (CONTRACT, *rates)]
        if str(metric).removeprefix("eval_") not in reported:
            raise ValueError(
                f"metric_for_best_model={metric!r} is none of the metrics about old models that an evaluation of this "
                f"run reports: {', '.join(reported)}."
            )
    if lower_is_better(metric) and args.load_best_model_at_end:
        warnings.warn(
            f"The best model goes by {metric} alone. A model that starts from the old one flips least before it has "
            "learnt anything; metric_for_best_model='contract' takes the fewest flips among checkpoints that keep the "
            "best accuracy of the run, up to contract_margin.",
            stacklevel=4,
        )
