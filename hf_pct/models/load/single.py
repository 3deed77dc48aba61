"""One classifier with what it takes to run it.

The rest of the kit asks a `LoadedModel` for its `task` and does not know whether it is a RoBERTa intent classifier or
a timm image model.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import torch
from torch import nn

from ..revisions import commit_in_cache, recorded_name
from ..types import ModelSource, Processor
from .adapters import is_adapter, load_adapter
from .answering import ask, no_padding, stated_labels
from .callables import answers_rows, load_callable
from .kinds import is_raw_timm, kind_of, refuse_other_problems
from .processors import audio_task, image_task, load_processor, text_limit, timm_transform
from .tasks import ImageTask, Task, TextTask
from .weights import load_weights, refuse_missing

if TYPE_CHECKING:
    from transformers import PretrainedConfig, PreTrainedTokenizerBase


@dataclass(frozen=True)
class LoadedModel:
    """A model with what it takes to run it. `label_names` is None for one that does not say its classes."""

    model: nn.Module
    task: Task
    processor: Processor
    label_names: tuple[str, ...] | None
    name: str | None = None
    revision: str | None = None

    def logits(self, batch: dict[str, torch.Tensor]) -> torch.Tensor:
        """The model's outputs for one collated batch."""
        return ask(self.model, batch)


def load_single(
    model: ModelSource,
    *,
    processor: Processor | None = None,
    revision: str | None = None,
    max_length: int | None = None,
    label_names: Sequence[str] | None = None,
    dtype: torch.dtype = torch.float32,
) -> LoadedModel:
    """`load_model` for anything but the folder of an ensemble; see there."""
    if answers_rows(model):
        answering, task, names = load_callable(model, label_names)
        return LoadedModel(answering, task, None, names, answering.name)
    if isinstance(model, nn.Module):
        return _wrap_module(model, processor, max_length, label_names)
    name = str(model)
    if is_adapter(name, revision):
        module, revision, (reads, of_revision) = load_adapter(name, revision, dtype, label_names)
        loaded = _wrap_module(module, processor or reads, max_length, label_names, of_revision, owned=True)
        return replace(loaded, name=recorded_name(name), revision=revision)
    module, revision, missing = load_weights(name, revision, dtype)
    refuse_missing(name, module.config, missing)
    loaded = _wrap_module(module, processor or name, max_length, label_names, revision, owned=True)
    return replace(loaded, name=recorded_name(name), revision=revision)


def _wrap_module(
    model: nn.Module,
    processor: Processor,
    max_length: int | None,
    label_names: Sequence[str] | None,
    revision: str | None = None,
    owned: bool = False,
) -> LoadedModel:
    """A module with its processor; one that was loaded here (`owned`) may be given the padding that it lacks."""
    if hasattr(model, "member_logits"):
        return model.loaded(processor, max_length, label_names)
    if is_raw_timm(model):
        names = label_names or stated_labels(model)
        transform, mode = timm_transform(model)
        return LoadedModel(model, ImageTask(transform, mode), transform, tuple(names) if names else None)
    config: PretrainedConfig | None = getattr(model, "config", None)
    if not hasattr(config, "id2label"):
        raise ValueError(
            f"{type(model).__name__} is not a transformers classifier and not a timm model, so it is not known how to "
            "feed it. Pass a Hub id, a folder, a transformers ...ForSequenceClassification, "
            "...ForImageClassification or ...ForAudioClassification, timm.create_model(...), or a function that "
            "answers a list of rows."
        )
    name = getattr(config, "_name_or_path", None) or None
    refuse_other_problems(config, name or type(model).__name__)
    kind = kind_of(config)
    processor = load_processor(processor or name, kind, revision, model)
    if kind == "text":
        _give_padding(model, processor, owned)
        task: Task = TextTask(processor, text_limit(processor, model, max_length))
    else:
        task = image_task(processor) if kind == "image" else audio_task(processor, model)
    names = tuple(label_names or stated_labels(model) or ())
    return LoadedModel(model, task, processor, names, name, commit_in_cache(name))


def _give_padding(model: nn.Module, tokenizer: PreTrainedTokenizerBase, owned: bool) -> None:
    """A decoder answers at the last token that is no padding, so it must know which token is."""
    if not hasattr(model, "score") or model.config.pad_token_id is not None:
        return
    if not owned or getattr(tokenizer, "pad_token_id", None) is None:
        raise ValueError(no_padding(model))
    model.config.pad_token_id = tokenizer.pad_token_id
