"""What runs the methods that hold weights near the old model's (`hf_pct/methods/weights/`) inside a training.

The penalties are quadratic, so their gradient is known in closed form: it is added to `.grad` once per optimizer step,
after the gradients of all batches and processes are in and before they are clipped. That costs one pass over the
weights and no graph.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from accelerate import Accelerator
from torch import Tensor, nn
from torch.optim import Optimizer

from ...methods.base import WeightMethod
from ..references.context import Context
from .old_weights import OldWeights, fisher_of_old

_BLOCK = 1 << 16  # on a CPU a block of the four tensors stays in the cache, and memory is read once


@dataclass
class Anchor:
    """One trained tensor beside its old values; `rows` are the rows held, all of them when it is `None`.

    `strength` is the curvature of the penalty: its value is half the sum of strength * (w - w_old)^2.
    """

    parameter: nn.Parameter
    old: Tensor
    rows: Tensor | None = None
    strength: Tensor | float = 0.0

    def __post_init__(self) -> None:
        """Leave out rows without strength: most of a vocabulary never occurs, and its Fisher is exactly zero."""
        if not isinstance(self.strength, Tensor) or self.strength.ndim < 2:
            return
        used = self.strength.flatten(1).any(1).nonzero().squeeze(1)
        if len(used) < 0.8 * len(self.strength):
            self.rows = used if self.rows is None else self.rows[used]
            self.old, self.strength = self.old[used], self.strength[used]

    def add_gradient(self, scale: float) -> Tensor:
        """Add the penalty's gradient, times `scale`, to the parameter's; returns the penalty."""
        weight = _local(self.parameter.detach())
        if self.parameter.grad is None:
            self.parameter.grad = torch.zeros_like(self.parameter)
        grad = _local(self.parameter.grad)
        if self.rows is not None:
            difference = weight.index_select(0, self.rows).sub_(self.old)
            pull = difference * self.strength
            grad.index_add_(0, self.rows, pull, alpha=scale)
            return 0.5 * torch.dot(difference.flatten(), pull.flatten())
        size = (
            _BLOCK
            if weight.device.type == "cpu" and weight.is_contiguous() and grad.is_contiguous()
            else weight.numel()
        )
        total = weight.new_zeros(())
        strength = self.strength.reshape(-1) if isinstance(self.strength, Tensor) else self.strength
        flat_weight, flat_old, flat_grad = weight.reshape(-1), self.old.reshape(-1), grad.view(-1)
        for start in range(0, weight.numel(), max(size, 1)):
            block = slice(start, start + size)
            difference = flat_weight[block] - flat_old[block]
            pull = difference * (strength[block] if isinstance(strength, Tensor) else strength)
            flat_grad[block].add_(pull, alpha=scale)
            total += torch.dot(difference, pull)
        return 0.5 * total

    def decay(self, share: float) -> None:
        """Move the parameter by `share` of the way to its old value."""
        weight = _local(self.parameter.detach())
        if self.rows is None:
            weight.lerp_(self.old, share)
        else:
            weight.index_copy_(0, self.rows, weight.index_select(0, self.rows).lerp_(self.old, share))


class Anchors:
    """All that holds a model's weights near the old ones; does nothing at all when that is nothing."""

    def __init__(self, methods: Sequence[WeightMethod]) -> None:
        self.methods = list(methods)
        self.old: OldWeights | None = None
        self.penalties: list[Anchor] = []
        self.decays: list[Anchor] = []
        self._undo: list[Callable[[], None]] = []
        self._value: Tensor | None = None

    def remember(self, context: Context, reference: Any) -> None:
        """Take the old weights, and their Fisher where it is needed, while the old model is loaded."""
        self.old = OldWeights.of(reference, context.model())
        if any(method.needs.fisher for method in self.methods):
            samples = next(getattr(method, "fisher_samples", None) for method in self.methods if method.needs.fisher)
            fisher = fisher_of_old(context, reference, self.old.weights, samples)
            for name in list(fisher):  # one by one: the Fisher is freed as the strengths take its place
                self.old.strength[name] = self._curvature(fisher.pop(name))

    def _curvature(self, fisher: Tensor | None) -> Tensor | float:
        return sum((method.curvature(fisher) for method in self.methods), start=0.0)

    @property
    def _penalized(self) -> list[WeightMethod]:
        return [method for method in self.methods if type(method).curvature is not WeightMethod.curvature]

    def bind(self, model: nn.Module) -> None:
        """Pair the tensors that are trained with their old values."""
        if self.old is None:
            return
        self.release()
        decayed = any(type(method).pull is not WeightMethod.pull for method in self.methods)
        for name, parameter in model.named_parameters():
            if not parameter.requires_grad:
                continue
            value, rows = self.old.beside(name, parameter)
            if self._penalized:
                own = self.old.strength_beside(name, parameter)
                strength = self._curvature(None) if own is None else own
                self.penalties.append(Anchor(parameter, value, rows, strength))
            if decayed:
                self.decays.append(Anchor(parameter, value, rows))
        for method in self.methods:
            undo = method.attach(model, self.old)
            if undo is not None:
                self._undo.append(undo)

    def add_gradients(self, accelerator: Accelerator) -> None:
        """Add the penalties' gradients, in the scale of mixed precision where there is one."""
        if self.penalties:
            scaler = getattr(accelerator, "scaler", None)
            scale = scaler.get_scale() if scaler is not None and scaler.is_enabled() else 1.0
            self._value = torch.stack([anchor.add_gradient(scale) for anchor in self.penalties]).sum()
            if any(hasattr(anchor.parameter, "to_local") for anchor in self.penalties):  # each process has its part
                self._value = accelerator.reduce(self._value, reduction="sum")

    def decay(self, optimizer: Optimizer) -> None:
        """Move weights toward the old ones after a step, as far as the methods say."""
        if self.decays:
            rates = {id(value): group["lr"] for group in optimizer.param_groups for value in group["params"]}
            for anchor in self.decays:
                rate = rates.get(id(anchor.parameter), 0.0)
                for method in self.methods:
                    share = method.pull(rate)
                    if share:
                        anchor.decay(share)

    def values(self) -> dict[str, Tensor]:
        """The penalty at the last optimizer step, under the names of what it is made of."""
        names = [method.switch().removesuffix("_weight") for method in self._penalized]
        return {} if self._value is None else {"+".join(names): self._value}

    def release(self) -> None:
        """Return the model to plain training."""
        self.penalties, self.decays = [], []
        while self._undo:
            self._undo.pop()()


def _local(tensor: Tensor) -> Tensor:
    """This process's part of a tensor that FSDP2 has spread over many."""
    return tensor.to_local() if hasattr(tensor, "to_local") else tensor
