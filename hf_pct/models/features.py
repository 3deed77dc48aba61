"""What goes into a classifier's last layer: its features, for transformers and timm models alike."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from .types import Inputs

_LAST_LAYERS = ("classifier", "score", "head", "fc", "last_linear", "projector")
_INSIDE = ("out_proj", "fc", "l")


def last_layer(model: nn.Module) -> nn.Module:
    """The layer that makes logits of features."""
    inner = model.get_base_model() if hasattr(model, "get_base_model") else model
    inner = getattr(inner, "timm_model", inner)
    layer: Any = inner.get_classifier() if hasattr(inner, "get_classifier") else None
    if layer is None:
        layer = next((getattr(inner, name) for name in _LAST_LAYERS if hasattr(inner, name)), None)
    while layer is not None and not hasattr(layer, "weight"):  # a head of several layers: the last of them
        within = next((getattr(layer, name) for name in _INSIDE if hasattr(layer, name)), None)
        children = [child for child in layer.children() if any(True for _ in child.parameters())]
        layer = within if within is not None else (children[-1] if children else None)
    if not isinstance(layer, nn.Module) or not hasattr(layer, "weight"):
        raise ValueError(
            f"The last layer of {type(model).__name__} is not known, so its features cannot be read. Expected one "
            f"named {', '.join(_LAST_LAYERS)}, or timm's get_classifier()."
        )
    return layer


def feature_width(model: nn.Module) -> int:
    """How many features a row has."""
    return int(last_layer(model).weight.shape[1])


class FeatureTap:
    """Keeps what goes into a model's last layer while it is open; with gradients, where the model runs with them.

    >>> with FeatureTap(model) as tap:
    ...     logits = model(**inputs).logits
    ...     features = tap.take(inputs, logits)  # doctest: +SKIP
    """

    def __init__(self, model: nn.Module) -> None:
        if not isinstance(model, nn.Module):
            raise ValueError(f"Features are read inside a model, and {model!r} is a function that gives logits only.")
        self.model, self._seen, self._handle = model, None, None
        self.layer = last_layer(model)

    def __enter__(self) -> FeatureTap:
        self._handle = self.layer.register_forward_pre_hook(self._keep)
        return self

    def __exit__(self, *error: object) -> None:
        if self._handle is not None:
            self._handle.remove()
        self._seen = None

    def _keep(self, layer: nn.Module, inputs: tuple[Tensor, ...]) -> None:
        self._seen = inputs[0]

    def take(self, inputs: Inputs, logits: Tensor) -> Tensor:
        """The features of the batch that just went through the model, one row of numbers per row."""
        seen, self._seen = self._seen, None
        if seen is None:
            raise ValueError(f"{type(self.model).__name__} did not use its last layer, so it has no features to read.")
        if seen.ndim == 4:  # a convolution as the last layer: one pixel, many channels
            seen = seen.flatten(1)
        if seen.ndim == 3:
            seen = seen[torch.arange(len(seen), device=seen.device), self._answering_tokens(inputs, seen)]
        return seen

    def _answering_tokens(self, inputs: Inputs, seen: Tensor) -> Tensor:
        """Which token of a text a decoder answers at: the last one that is no padding."""
        last = torch.full((len(seen),), seen.shape[1] - 1, device=seen.device)
        tokens, padding = inputs.get("input_ids"), getattr(getattr(self.model, "config", None), "pad_token_id", None)
        if tokens is None or padding is None:
            return last
        places = torch.arange(tokens.shape[1], device=seen.device)
        return (places * (tokens != padding)).argmax(-1)
