"""`load_model`: whatever answers, with what it takes to run it; one model, or several that answer as one."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

from ..types import ModelSource, Processor
from .kinds import ENSEMBLE_FILE, FUSION_FILE
from .single import LoadedModel, load_single


def load_model(
    model: ModelSource,
    *,
    processor: Processor | None = None,
    revision: str | None = None,
    max_length: int | None = None,
    label_names: Sequence[str] | None = None,
    dtype: torch.dtype = torch.float32,
) -> LoadedModel:
    """A classifier from a Hub id, a folder, a module, a pipeline or a function.

    Folders may hold a text, image or audio classifier of transformers, timm wrapped, an adapter, or an ensemble that
    `save_ensemble` wrote. Weights are read from safetensors only, and code from a repository is never run. A
    checkpoint without a trained head is refused: its answers would be random.

    Args:
        model: a Hub id, a folder, a transformers or timm model, an `Ensemble`, or a pipeline, estimator or function
            that answers rows with labels or scores.
        processor: the tokenizer, image processor or feature extractor (an object, a Hub id or a folder) when it is not
            saved with the model.
        revision: a branch, tag or commit on the Hub.
        max_length: texts are cut at this many tokens; what the tokenizer and the model can take by default.
        label_names: the classes in the order of the logits, for a model that does not say them.
        dtype: float32, so that two models differ by their weights and not by rounding.
    """
    options: dict[str, Any] = {"processor": processor, "max_length": max_length, "label_names": label_names}
    options["dtype"] = dtype
    folder = Path(model) if isinstance(model, str | Path) else None
    if folder is not None and not (folder / "config.json").is_file():
        if (folder / ENSEMBLE_FILE).is_file():
            from ..ensembles.folders import load_ensemble

            return load_ensemble(str(folder), **options)
        if (folder / FUSION_FILE).is_file():
            from ..ensembles.fused import load_fused

            return load_fused(str(folder), processor=processor, max_length=max_length)
    return load_single(model, revision=revision, **options)
