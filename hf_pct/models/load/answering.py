"""How a classifier is asked, and the names of its answers."""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import torch
from torch import nn

from ..types import Inputs, Outputs
from .kinds import is_raw_timm


def stated_labels(model: nn.Module) -> tuple[str, ...] | None:
    """The classes that a model says it has, in the order of its logits."""
    if is_raw_timm(model):
        names = (getattr(model, "pretrained_cfg", None) or {}).get("label_names")
        return tuple(names) if names else None
    names = getattr(getattr(model, "config", None), "id2label", None)
    return tuple(str(names[index]) for index in sorted(names, key=int)) if names else None


def label_names_of(model: nn.Module) -> tuple[str, ...]:
    """The names of a model's classes in the order of its logits, from its config; an error where it has none."""
    names = stated_labels(model.get_base_model() if hasattr(model, "get_base_model") else model)
    if not names:
        raise ValueError(
            f"{type(model).__name__} has no `config.id2label`, so its classes have no names, and they are matched by "
            "name. Set it; an old model's classes may instead be given in the order of its logits, with "
            "old_label_names=[...]."
        )
    return names


def accepted_inputs(model: nn.Module) -> set[str]:
    """The inputs that a model's forward names, labels aside; an ensemble also takes what any of its members takes."""
    base = model.get_base_model() if hasattr(model, "get_base_model") else model
    names = set(inspect.signature(base.forward).parameters) - {"labels"}
    members = model.members if hasattr(model, "member_logits") else ()
    return names.union(*(accepted_inputs(member) for member in members))


def ask(model: nn.Module, inputs: Inputs) -> torch.Tensor:
    """A classifier's logits for a batch, which may hold more inputs than its forward names."""
    names = accepted_inputs(model)
    known = {name: value for name, value in inputs.items() if name in names}
    if not known and "pixel_values" in inputs:  # a bare timm model names its input `x`
        return logits_of(model(inputs["pixel_values"]))
    with explained_padding(model):
        return logits_of(model(**known or inputs))  # a wrapper that names nothing passes everything on


@contextmanager
def explained_padding(model: nn.Module) -> Iterator[None]:
    """Says what to set where a model only says that it has no padding token, or that an index is out of range."""
    try:
        yield
    except IndexError as error:
        if "index out of range" not in str(error):
            raise
        raise ValueError(
            f"{type(model).__name__} was given a token or a position that it has no weights for. Expected the "
            "tokenizer that it was trained with: pass processor (--processor), or save it into the model's folder."
        ) from error
    except ValueError as error:
        if "padding token" not in str(error):
            raise
        raise ValueError(no_padding(model)) from error


def no_padding(model: nn.Module) -> str:
    """What to do about a decoder that cannot tell where a text ends."""
    return (
        f"{type(model).__name__} has no padding token, so it cannot tell where the texts of a batch end. Set one for "
        "the model and its tokenizer and save both: tokenizer.pad_token = tokenizer.eos_token; "
        "model.config.pad_token_id = tokenizer.pad_token_id."
    )


def logits_of(outputs: Outputs) -> torch.Tensor:
    """The logits in whatever a classifier returns."""
    if isinstance(outputs, torch.Tensor):
        return outputs
    if isinstance(outputs, Mapping):
        return outputs["logits"]
    return outputs.logits if hasattr(outputs, "logits") else outputs[0]
