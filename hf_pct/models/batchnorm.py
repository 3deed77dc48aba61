"""BatchNorm after a merge: the statistics of an average network are not the average of the statistics."""

from __future__ import annotations

from collections.abc import Iterable

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.modules.batchnorm import _BatchNorm

from .types import Inputs


def batchnorm_layers(model: nn.Module) -> list[_BatchNorm]:
    """The layers that keep running statistics."""
    return [m for m in model.modules() if isinstance(m, _BatchNorm) and m.track_running_stats]


@torch.no_grad()
def recalibrate(model: nn.Module, batches: Iterable[Inputs]) -> int:
    """Re-estimate running means and variances as plain averages over `batches`; returns how many batches there were.

    Only BatchNorm layers are in training mode, so that dropout stays off. With several processes, each passes its own
    batches and all end with the statistics of everyone's.
    """
    layers = batchnorm_layers(model)
    momenta = [layer.momentum for layer in layers]
    was_training = {module: module.training for module in model.modules()}
    model.eval()
    for layer in layers:
        layer.reset_running_stats()
        layer.momentum = None  # a cumulative average: every batch counts the same
        layer.train()
    count = 0
    try:
        for batch in batches:
            model(**{name: value for name, value in batch.items() if name not in ("labels", "label")})
            count += 1
    finally:
        for layer, momentum in zip(layers, momenta, strict=True):
            layer.momentum = momentum
        for module, training in was_training.items():
            module.training = training
    if layers and count == 0:
        raise ValueError("BatchNorm statistics need at least one batch of training data, got none.")
    if dist.is_available() and dist.is_initialized():
        _average_over_processes(layers)
    return count


def _average_over_processes(layers: list[_BatchNorm]) -> None:
    world = dist.get_world_size()
    for layer in layers:
        mean, variance = layer.running_mean, layer.running_var
        if mean is None or variance is None:
            continue
        second = variance + mean.square()
        for value in (mean, second):
            dist.all_reduce(value)
            value /= world
        variance.copy_(second - mean.square())
