"""The loss on labels: cross-entropy, or whatever the caller put in its place (`compute_loss_func`)."""

from __future__ import annotations

import copy
from collections.abc import Callable

import torch
from torch import Tensor
from torch.nn import functional

from ..methods.base import IGNORED
from ..models.types import Outputs
from .references.spec import SharedClasses


def label_loss(
    logits: Tensor, labels: Tensor, outputs: Outputs | None, own: Callable[..., Tensor] | None, smoothing: float = 0.0
) -> Tensor:
    """The mean over the labelled rows of this batch; a batch without any costs nothing.

    A caller's own function gets the model's outputs with these logits, the labels, and the number of labelled rows in
    this batch. One that divides a sum by that number, and one that takes a mean, both give the mean that is asked for.
    """
    rows = labels.ne(IGNORED).sum()
    if not bool(rows):
        return logits.sum() * 0.0
    if own is None:
        return functional.cross_entropy(logits, labels, label_smoothing=smoothing)
    return own(_with_logits(outputs, logits), labels, num_items_in_batch=rows)


def _with_logits(outputs: Outputs | None, logits: Tensor) -> Outputs | dict[str, Tensor]:
    """The outputs of a model with other logits in them."""
    if isinstance(outputs, Tensor) or outputs is None:
        return {"logits": logits} if outputs is None else logits
    if isinstance(outputs, tuple):
        return (logits, *outputs[1:])
    changed = copy.copy(outputs)
    changed["logits"] = logits
    return changed


def added_classes(logits: Tensor, shared: SharedClasses | None) -> Tensor:
    """A mask of the classes that the old model lacks; none where there is no old model."""
    if shared is not None:
        return ~shared.known()
    return torch.zeros(logits.shape[-1], dtype=torch.bool, device=logits.device)
