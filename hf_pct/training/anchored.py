"""Weights held near the old model's: EWC, L2-SP and prior weight decay here, Mixout in `mixout.py`.

The penalties are quadratic, so their gradient is known in closed form: it is added to `.grad` once an optimizer step,
after the gradients of all batches and processes are in and before they are clipped. That costs one pass over the
weights and no graph. Definitions: Schumann et al., EACL 2024 (the baselines of BCWI); Kirkpatrick et al., 2017 (EWC);
Li et al., 2018 (L2-SP).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from .args import PCTArguments
from .mixout import Mixout
from .old_weights import OldWeights, fisher_of_old

if TYPE_CHECKING:
    from .base import PCTrainer

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
    """All that `args` asks to be held near the old model; does nothing at all when that is nothing."""

    def __init__(self, args: PCTArguments) -> None:
        self.args = args
        self.old: OldWeights | None = None
        self.penalties: list[Anchor] = []
        self.decays: list[Anchor] = []
        self.mixout: Mixout | None = None
        self._value: Tensor | None = None

    def remember(self, trainer: PCTrainer, reference: Any) -> None:
        """Take the old weights, and for EWC their Fisher, while the old model is at hand."""
        self.old = OldWeights.of(reference, trainer.model)
        if self.args.ewc_weight:
            fisher = fisher_of_old(trainer, reference, self.old.weights)
            for value in fisher.values():  # in place: one copy of the weights' size less while training
                value.mul_(2 * self.args.ewc_weight).add_(self.args.l2_sp_weight)
            self.old.strength = fisher

    def bind(self, model: nn.Module) -> None:
        """Pair the tensors that are trained with their old values."""
        if self.old is None:
            return
        self.release()
        old, args = self.old, self.args
        for name, parameter in model.named_parameters():
            if not parameter.requires_grad:
                continue
            value, rows = old.beside(name, parameter)
            if args.ewc_weight or args.l2_sp_weight:
                strength = old.strength_beside(name, parameter) if args.ewc_weight else args.l2_sp_weight
                self.penalties.append(Anchor(parameter, value, rows, strength))
            if args.prior_weight_decay:
                self.decays.append(Anchor(parameter, value, rows))
        if args.mixout:
            self.mixout = Mixout(model, old, args.mixout)

    def add_gradients(self, accelerator: Any) -> None:
        """Add the penalties' gradients, in the scale of mixed precision where there is one."""
        if self.penalties:
            scaler = getattr(accelerator, "scaler", None)
            scale = scaler.get_scale() if scaler is not None and scaler.is_enabled() else 1.0
            self._value = torch.stack([anchor.add_gradient(scale) for anchor in self.penalties]).sum()
            if any(hasattr(anchor.parameter, "to_local") for anchor in self.penalties):  # each process has its part
                self._value = accelerator.reduce(self._value, reduction="sum")

    def decay(self, optimizer: Any) -> None:
        """w -= lr * prior_weight_decay * (w - w_old), after the step; never past the old weights."""
        if self.decays:
            rates = {id(value): group["lr"] for group in optimizer.param_groups for value in group["params"]}
            for anchor in self.decays:
                anchor.decay(min(rates.get(id(anchor.parameter), 0.0) * self.args.prior_weight_decay, 1.0))

    def values(self) -> dict[str, Tensor]:
        """The penalty at the last optimizer step, under the names of what it is made of."""
        names = [name for name, weight in (("ewc", self.args.ewc_weight), ("l2_sp", self.args.l2_sp_weight)) if weight]
        return {} if self._value is None else {"+".join(names): self._value}

    def release(self) -> None:
        """Let the model go back to plain training."""
        self.penalties, self.decays = [], []
        if self.mixout is not None:
            self.mixout.remove()
            self.mixout = None


def build_anchors(args: PCTArguments) -> Anchors:
    """The anchors of a run."""
    return Anchors(args)


def _local(tensor: Any) -> Tensor:
    """This process's part of a tensor that FSDP2 has spread over many."""
    return tensor.to_local() if hasattr(tensor, "to_local") else tensor
