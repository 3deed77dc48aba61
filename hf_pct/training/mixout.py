"""Mixout: in training, each weight is the old one with probability p (Lee et al., 2020), in place of dropout.

A mixed weight is `w_old + keep / (1 - p) * (w - w_old)`, so its expectation is `w`. As in the authors' code, the mask
is drawn over the inputs of a layer and shared by its outputs; that makes it one fused interpolation, and for an
embedding one of the looked-up rows only. Biases and normalisation weights have a mask of their own.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from .old_weights import OldWeights


class Mixout:
    """Puts mixed weights into a model's linear, convolution, normalisation and embedding layers until removed.

    The layers keep their parameters and names, so checkpoints are those of the plain model; evaluation is untouched.
    Dropout is off meanwhile, as in the paper.
    """

    def __init__(self, model: nn.Module, old: OldWeights, probability: float) -> None:
        self.probability = probability
        self._restore: list[Callable[[], None]] = []
        mixed = 0
        for name, module in model.named_modules():
            if isinstance(module, nn.Dropout):
                self._restore.append(_setter(module, "p", module.p))
                module.p = 0.0
            forward = self._mixed_forward(module, name, old)
            if forward is not None:
                mixed += 1
                self._restore.append(_deleter(module, "forward"))
                module.forward = forward
        if not mixed:
            self.remove()
            raise ValueError(
                "mixout found nothing to mix: no linear, convolution, normalisation or embedding layer is trained. "
                "Train all weights, or use a distillation loss with adapters."
            )

    def remove(self) -> None:
        """Give every layer its own forward, and dropout its rate, back."""
        while self._restore:
            self._restore.pop()()

    def _mixed_forward(self, module: nn.Module, name: str, old: OldWeights) -> Callable[[Tensor], Tensor] | None:
        kinds = (nn.Linear, nn.Conv2d, nn.LayerNorm, nn.Embedding)
        if type(module) not in kinds or module.weight is None or not module.weight.requires_grad:
            return None
        if hasattr(module.weight, "to_local"):
            raise ValueError(
                f"mixout needs whole weights, and {name}.weight is spread over processes. Use DDP, or another anchor: "
                "l2_sp_weight and prior_weight_decay work on spread weights."
            )
        plain = module.forward
        weight = self._mixer(module, f"{name}.weight", old)
        bias = self._mixer(module, f"{name}.bias", old)

        def forward(value: Tensor) -> Tensor:
            if not module.training:
                return plain(value)
            if isinstance(module, nn.Embedding):
                return self._mix(plain(value), functional.embedding(value, old_rows), self._scale(module.weight[0]))
            if isinstance(module, nn.Conv2d):
                return module._conv_forward(value, weight(), bias())
            if isinstance(module, nn.LayerNorm):
                return functional.layer_norm(value, module.normalized_shape, weight(), bias(), module.eps)
            return functional.linear(value, weight(), bias())

        old_rows = old.beside(f"{name}.weight", module.weight)[0] if isinstance(module, nn.Embedding) else None
        return forward

    def _mixer(self, module: Any, name: str, old: OldWeights) -> Callable[[], Tensor | None]:
        attribute = name.rpartition(".")[2]
        parameter = getattr(module, attribute, None)
        if parameter is None or name not in old.weights:
            return lambda: getattr(module, attribute, None)
        value, rows = old.beside(name, parameter)

        def mixed() -> Tensor:
            current = getattr(module, attribute)
            scale = self._scale(current[0] if current.ndim > 1 else current)
            if rows is None:
                return self._mix(current, value, scale)
            scale = scale if current.ndim > 1 else scale[rows]
            return current.index_copy(0, rows, self._mix(current.index_select(0, rows), value, scale))

        return mixed

    def _scale(self, like: Tensor) -> Tensor:
        """keep / (1 - p), one draw for each entry of `like`."""
        share = 1 - self.probability
        return torch.empty_like(like, requires_grad=False).bernoulli_(share).div_(share)

    @staticmethod
    def _mix(current: Tensor, old: Tensor, scale: Tensor) -> Tensor:
        return torch.lerp(old.to(current.dtype), current, scale.to(current.dtype))


def _setter(target: Any, name: str, value: Any) -> Callable[[], None]:
    return lambda: setattr(target, name, value)


def _deleter(target: Any, name: str) -> Callable[[], None]:
    return lambda: delattr(target, name)
