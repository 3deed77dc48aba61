"""Layers whose weights are mixed with the old ones at random in training: the machinery of the method `mixout`.

As in the authors' code, the mask is drawn over the inputs of a layer and shared by its outputs; that makes it one
fused interpolation, and for an embedding one of the looked-up rows only. Biases and normalisation weights have a mask
of their own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn
from torch.nn import functional
from transformers.pytorch_utils import Conv1D

from .base import HeldWeights

# Conv1D is the linear layer of GPT-2, with its weights the other way round
KINDS = (nn.Linear, Conv1D, nn.Conv1d, nn.Conv2d, nn.LayerNorm, nn.GroupNorm, nn.RMSNorm, nn.Embedding)


class Mixout:
    """Puts mixed weights into a model's linear, convolution, normalisation and embedding layers until removed.

    Subclasses of these layers (timm's and ConvNeXt's `LayerNorm2d`, scaled embeddings) keep their own computation. The
    layers keep their parameters and names, so checkpoints are those of the plain model; evaluation is untouched.
    Dropout is off meanwhile, as in the paper.
    """

    def __init__(self, model: nn.Module, old: HeldWeights, probability: float) -> None:
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

    def _mixed_forward(self, module: nn.Module, name: str, old: HeldWeights) -> Callable[..., Tensor] | None:
        # LlamaRMSNorm and its like are no subclasses of torch's
        known = isinstance(module, KINDS) or type(module).__name__.endswith("RMSNorm")
        if not known or getattr(module, "weight", None) is None or not module.weight.requires_grad:
            return None
        if hasattr(module.weight, "to_local"):
            raise ValueError(
                f"mixout needs whole weights, and {name}.weight is spread over processes. Use DDP, or another anchor: "
                "l2_sp_weight and prior_weight_decay work on spread weights."
            )
        plain = module.forward
        if type(module) is nn.Embedding:
            rows = old.beside(f"{name}.weight", module.weight)[0]
            return self._embedding(module, plain, rows)
        weight = self._mixer(module, f"{name}.weight", old)
        bias = self._mixer(module, f"{name}.bias", old)

        def forward(*inputs: object, **named: object) -> Tensor:
            if not module.training:
                return plain(*inputs, **named)
            with _parameters(module, weight=weight(), bias=bias()):
                return plain(*inputs, **named)

        return forward

    def _embedding(self, module: nn.Embedding, plain: Callable, rows: Tensor) -> Callable[..., Tensor]:
        def forward(value: Tensor) -> Tensor:
            if not module.training:
                return plain(value)
            return self._mix(plain(value), functional.embedding(value, rows), self._scale(module.weight[0]))

        return forward

    def _mixer(self, module: nn.Module, name: str, old: HeldWeights) -> Callable[[], Tensor | None]:
        attribute = name.rpartition(".")[2]
        parameter = getattr(module, attribute, None)
        if parameter is None or name not in old.weights:
            return lambda: getattr(module, attribute, None)
        value, rows = old.beside(name, parameter)

        def mixed() -> Tensor:
            current = getattr(module, attribute)
            scale = self._scale(_of_one_output(current, module))
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


def _of_one_output(parameter: Tensor, module: nn.Module) -> Tensor:
    """The entries of a weight that one output reads; a vector as it is."""
    if parameter.ndim == 1:
        return parameter
    return parameter[:, :1] if isinstance(module, Conv1D) else parameter[0]


@contextmanager
def _parameters(module: nn.Module, **values: Tensor | None) -> Iterator[None]:
    """Other tensors in the place of a layer's parameters, for one forward."""
    kept = {name: module._parameters[name] for name in values if name in module._parameters}
    module._parameters.update({name: values[name] for name in kept})
    try:
        yield
    finally:
        module._parameters.update(kept)


def _setter(target: object, name: str, value: object) -> Callable[[], None]:
    return lambda: setattr(target, name, value)


def _deleter(target: object, name: str) -> Callable[[], None]:
    return lambda: delattr(target, name)
