"""The models of an update: the one in service, and what a model that is trained anew starts from."""

from __future__ import annotations

import copy
from typing import Any

import torch
from torch import nn

from ...merging.sides import widened
from ...models.fingerprints import weights_fingerprint
from ...models.heads import parameter_group
from ...models.load import LoadedModel, load_model
from ...models.load.processors import same_processor
from ...models.load.weights import load_weights

_ANY_CLASSES = ("0", "1")  # a head that nobody asks: a base model gets its own when the classes are known


def load_base(name: str) -> LoadedModel:
    """A base model: a classifier, or a pretrained encoder without a head, which gets one for the update's classes."""
    try:
        return load_model(name)
    except ValueError as error:
        try:
            with torch.random.fork_rng(devices=[]):
                torch.manual_seed(0)  # the head that nobody asks is part of what a candidate is known by
                module, revision, missing = load_weights(name, label_names=_ANY_CLASSES)
        except (ValueError, OSError, KeyError):
            raise error from None
        if not missing or any(parameter_group(entry) != "head" for entry in missing):
            raise
        headless = load_model(module, processor=name, label_names=_ANY_CLASSES)
        return LoadedModel(headless.model, headless.task, headless.processor, None, name, revision)


def with_classes(loaded: LoadedModel, names: tuple[str, ...], seed: int) -> nn.Module:
    """A copy of a model with a head for these classes: known ones keep their rows, others start afresh."""
    torch.manual_seed(seed)
    shared = set(loaded.label_names or ()) & set(names)
    if shared and set(loaded.label_names or ()) <= set(names):
        model: Any = widened(loaded.model, names)
    else:
        model = _new_head(loaded, names)
    if hasattr(model.config, "label_names"):  # a timm config that was loaded writes these, and not id2label
        model.config.label_names = list(names)
    return model


def _new_head(loaded: LoadedModel, names: tuple[str, ...]) -> nn.Module:
    """The body of a model under a new head, for a base model that was made for other classes."""
    source: Any = loaded.model
    config = copy.deepcopy(source.config)
    config.id2label, config.label2id = dict(enumerate(names)), {name: i for i, name in enumerate(names)}
    if hasattr(config, "label_names"):
        config.label_names = list(names)
    model = type(source)(config)
    body = {name: value for name, value in source.state_dict().items() if not _is_head(name)}
    model.load_state_dict({**model.state_dict(), **body})
    return model


def same_architecture(old: LoadedModel, base: LoadedModel | None) -> bool:
    """Whether the old model's weights can be a start: the same tensors apart from the head, the same processor."""
    if base is None:
        return True
    shapes = [
        {name: tuple(value.shape) for name, value in loaded.model.state_dict().items() if value.dim() > 1}
        for loaded in (old, base)
    ]
    bodies = [{name: shape for name, shape in side.items() if not _is_head(name)} for side in shapes]
    return bodies[0] == bodies[1] and same_processor(old.processor, base.processor)


def identity(loaded: LoadedModel) -> str:
    """The content of a model: its weights and its classes."""
    return f"{weights_fingerprint(loaded.model)}-{'-'.join(loaded.label_names or ())}"


def _is_head(name: str) -> bool:
    """Whether an entry belongs to the last layers, which depend on the classes."""
    parts = name.split(".")
    return parts[0] in ("classifier", "score", "pre_classifier") or parts[-2:-1] in (["fc"], ["classifier"], ["head"])
