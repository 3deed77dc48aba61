"""Squared per-sample gradients of one batch, added to running totals: in one batched pass, or sample by sample."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import torch
from torch import Tensor, nn

from ..load import logits_of
from .per_sample import PerSampleSquares, Served, Totals

Batch = Mapping[str, Tensor]


def add_batched(model: nn.Module, batch: Batch, label: str, totals: Totals, served: Served) -> PerSampleSquares:
    """One forward and backward pass for all samples; what is returned says which layers could not be served."""
    with PerSampleSquares(model, totals, served, batch_size(batch)) as squares:
        for loss, last in _losses(model, batch, label):
            if not loss.requires_grad:
                raise ValueError("The model's logits do not depend on its weights: nothing to differentiate.")
            loss.backward(retain_graph=not last)
    return squares


def zeros(model: nn.Module) -> Totals:
    """A running total for every trainable weight."""
    return {n: torch.zeros_like(p, dtype=torch.float32) for n, p in model.named_parameters() if p.requires_grad}


def add_by_loop(model: nn.Module, batch: Batch, label: str, totals: Totals) -> None:
    """One sample at a time: the definition, and what the hooks are held against."""
    names = list(totals)
    parameters = dict(model.named_parameters())
    chosen = [parameters[name] for name in names]
    for row in range(batch_size(batch)):
        one = {name: value[row : row + 1] for name, value in batch.items()}
        for loss, last in _losses(model, one, label):
            gradients = torch.autograd.grad(loss, chosen, retain_graph=not last, allow_unused=True)
            for name, gradient in zip(names, gradients, strict=True):
                if gradient is not None:
                    totals[name].addcmul_(gradient.float(), gradient.float())


def answers(model: nn.Module, batch: Batch) -> Tensor:
    """The logits for a batch, which may hold labels too."""
    return logits_of(model(**{name: value for name, value in batch.items() if name not in ("labels", "label")}))


def _losses(model: nn.Module, batch: Batch, label: str) -> Iterator[tuple[Tensor, bool]]:
    """The sums whose per-sample gradients are to be squared, and whether it is the last of this forward pass."""
    logits = answers(model, batch).float()
    log_probabilities = logits.log_softmax(-1)
    if label == "expectation":
        roots = log_probabilities.detach().div(2).exp()  # the root of p, because the gradient is squared
        for k in range(logits.shape[-1]):
            yield -(roots[:, k] * log_probabilities[:, k]).sum(), k == logits.shape[-1] - 1
        return
    if label == "argmax":
        target = logits.argmax(-1)
    elif "labels" in batch or "label" in batch:
        target = batch["labels"] if "labels" in batch else batch["label"]
    else:
        raise ValueError(f"label='true' needs a column 'labels' in the batches, found {sorted(batch)}")
    yield -log_probabilities.gather(-1, target[:, None]).sum(), True


def batch_size(batch: Batch) -> int:
    """How many samples a batch has."""
    return len(next(iter(batch.values())))
