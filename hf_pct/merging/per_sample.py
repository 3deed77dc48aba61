"""Sums of squared per-sample gradients in batches, by hooks on the layers that hold the weights.

One backward pass of a batch gives, at each layer's output, the gradient of every sample apart. With the layer's input,
that is all that a sample's weight gradient consists of: an outer product for a linear layer, a scatter for an
embedding. The weight gradients of the batch, which would mix the samples, are never computed, so this is faster than a
loop of single samples and gives the same numbers.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

# A block of products stays in the processor's cache between being computed, squared and added.
BLOCK_ELEMENTS = 2**17

Totals = dict[str, Tensor]


def unsupported(model: nn.Module) -> list[str]:
    """The parameters that this way cannot handle: of unknown layers, of subclasses, or shared between layers."""
    owners: dict[int, list[str]] = {}
    problems = []
    for prefix, module in model.named_modules():
        for name, parameter in module.named_parameters(recurse=False):
            full = f"{prefix}.{name}" if prefix else name
            owners.setdefault(id(parameter), []).append(full)
            if _rule_for(module) is None:
                problems.append(f"{full} ({type(module).__name__})")
    return problems + [f"{' = '.join(names)} (shared)" for names in owners.values() if len(names) > 1]


class PerSampleSquares(AbstractContextManager):
    """While open, every backward pass through `model` adds each sample's squared gradients to `totals`.

    The model's weights are frozen meanwhile: their batch gradients are not needed and cost a third of the backward.
    """

    def __init__(self, model: nn.Module, totals: Totals) -> None:
        self.model, self.totals, self.batch_size = model, totals, 0
        self.calls: dict[str, int] = {}
        self._hooks: list[Any] = []
        self._frozen: list[nn.Parameter] = []
        self._inputs: dict[str, Tensor] = {}

    def __enter__(self) -> PerSampleSquares:
        self._frozen = [parameter for parameter in self.model.parameters() if parameter.requires_grad]
        for parameter in self._frozen:
            parameter.requires_grad_(False)
        for prefix, module in self.model.named_modules():
            rule = _rule_for(module)
            if rule is None or next(module.parameters(recurse=False), None) is None:
                continue
            # timm's BatchNormAct2d applies its activation inside: its normalised output is what `drop` sees
            source = module.drop if _is_norm_act(module) else module
            self._hooks.append(module.register_forward_pre_hook(partial(self._keep_input, prefix)))
            self._hooks.append(source.register_forward_hook(partial(self._on_output, prefix, module, rule)))
        return self

    def __exit__(self, *_: object) -> None:
        for hook in self._hooks:
            hook.remove()
        for parameter in self._frozen:
            parameter.requires_grad_(True)
        self._inputs.clear()

    def _keep_input(self, prefix: str, module: nn.Module, inputs: tuple) -> None:
        self._inputs[prefix] = inputs[0].detach()

    def _on_output(
        self, prefix: str, module: nn.Module, rule: Callable, _: nn.Module, __: tuple, output: Tensor
    ) -> Tensor:
        self.calls[prefix] = self.calls.get(prefix, 0) + 1
        if len(output) == 1 < self.batch_size:  # position embeddings: one row for all samples, taken apart here
            output = output.expand(self.batch_size, *output.shape[1:])
        if not output.requires_grad:
            output = output.detach().requires_grad_().clone()  # a clone, so that an in-place activation may follow
        inputs = self._inputs[prefix]
        output.register_hook(lambda gradient: self._add(prefix, module, rule, inputs, gradient.detach()))
        return output

    @torch.no_grad()
    def _add(self, prefix: str, module: nn.Module, rule: Callable, inputs: Tensor, gradient: Tensor) -> None:
        weight = self.totals.get(f"{prefix}.weight" if prefix else "weight")
        bias = self.totals.get(f"{prefix}.bias" if prefix else "bias")
        rule(module, inputs.expand(len(gradient), *inputs.shape[1:]), gradient, weight, bias)


def _linear(module: nn.Linear, inputs: Tensor, gradient: Tensor, weight: Tensor | None, bias: Tensor | None) -> None:
    gradient = gradient.reshape(len(gradient), -1, gradient.shape[-1])
    if weight is not None:
        _add_squared_products(weight, gradient.transpose(1, 2), inputs.reshape(len(inputs), -1, inputs.shape[-1]))
    if bias is not None:
        bias += gradient.sum(1).square().sum(0)


def _conv2d(module: nn.Conv2d, inputs: Tensor, gradient: Tensor, weight: Tensor | None, bias: Tensor | None) -> None:
    size = len(gradient)
    if weight is not None and module.groups == 1:
        columns = F.unfold(inputs, module.kernel_size, module.dilation, module.padding, module.stride)
        _add_squared_products(weight.view(len(weight), -1), gradient.flatten(2), columns.transpose(1, 2))
    elif weight is not None:
        per_sample = torch.nn.grad.conv2d_weight(
            inputs.reshape(1, -1, *inputs.shape[2:]),
            (size * module.out_channels, *module.weight.shape[1:]),
            gradient.reshape(1, -1, *gradient.shape[2:]),
            module.stride,
            module.padding,
            module.dilation,
            size * module.groups,
        )
        weight += per_sample.view(size, *module.weight.shape).square().sum(0)
    if bias is not None:
        bias += gradient.sum((2, 3)).square().sum(0)


def _embedding(module: nn.Embedding, ids: Tensor, gradient: Tensor, weight: Tensor | None, _: Tensor | None) -> None:
    if weight is None:
        return
    size, rows = len(gradient), module.num_embeddings
    flat, width = ids.reshape(size, -1), gradient.shape[-1]
    keys = (flat + rows * torch.arange(size, device=flat.device)[:, None]).reshape(-1)
    unique, place = keys.unique(return_inverse=True)  # a token twice in one sample adds up before it is squared
    sums = torch.zeros(len(unique), width, dtype=gradient.dtype, device=gradient.device)
    sums.index_add_(0, place, gradient.reshape(-1, width))
    tokens = unique % rows
    if module.padding_idx is not None:
        sums[tokens == module.padding_idx] = 0  # autograd gives the padding row no gradient
    weight.index_add_(0, tokens, sums.square_())


def _layer_norm(
    module: nn.LayerNorm, inputs: Tensor, gradient: Tensor, weight: Tensor | None, bias: Tensor | None
) -> None:
    shape = module.normalized_shape
    if weight is not None:
        normal = F.layer_norm(inputs, shape, None, None, module.eps)
        weight += (normal * gradient).reshape(len(gradient), -1, *shape).sum(1).square_().sum(0)
    if bias is not None:
        bias += gradient.reshape(len(gradient), -1, *shape).sum(1).square_().sum(0)


def _batch_norm(
    module: nn.BatchNorm2d, inputs: Tensor, gradient: Tensor, weight: Tensor | None, bias: Tensor | None
) -> None:
    space = tuple(range(2, gradient.dim()))
    if weight is not None:
        normal = F.batch_norm(inputs, module.running_mean, module.running_var, None, None, False, 0.0, module.eps)
        weight += _sum_over(normal * gradient, space).square().sum(0)
    if bias is not None:
        bias += _sum_over(gradient, space).square().sum(0)


def _sum_over(tensor: Tensor, dims: tuple[int, ...]) -> Tensor:
    return tensor.sum(dims) if dims else tensor


def _add_squared_products(total: Tensor, left: Tensor, right: Tensor) -> None:
    """total += sum over samples of (left[i] @ right[i])^2, with left [n, O, T] and right [n, T, I]."""
    if left.shape[2] == 1:
        total.addmm_(left[:, :, 0].square().T, right[:, 0].square())
        return
    left, right = left.contiguous(), right.contiguous()
    rows = max(8, BLOCK_ELEMENTS // right.shape[2])
    buffer = torch.empty(rows, right.shape[2], dtype=right.dtype, device=right.device)
    samples = range(len(left))
    for start in range(0, left.shape[1], rows):
        block = total[start : start + rows]
        product = buffer[: len(block)]
        for i in samples:
            torch.mm(left[i, start : start + rows], right[i], out=product)
            block.addcmul_(product, product)


def _is_norm_act(module: nn.Module) -> bool:
    return type(module).__name__ == "BatchNormAct2d" and isinstance(getattr(module, "drop", None), nn.Module)


def _rule_for(module: nn.Module) -> Callable | None:
    """How to handle a layer; exact types only, because a subclass may compute something else."""
    if _is_norm_act(module) or (type(module) in (nn.BatchNorm1d, nn.BatchNorm2d) and module.running_mean is not None):
        return _batch_norm
    if type(module) is nn.Conv2d:
        return _conv2d if module.padding_mode == "zeros" and not isinstance(module.padding, str) else None
    if type(module) is nn.Embedding:
        plain = module.max_norm is None and not module.scale_grad_by_freq and not module.sparse
        return _embedding if plain else None
    if isinstance(module, nn.Linear) and type(module).__name__ == "Linear":  # timm has one of its own by that name
        return _linear
    return _layer_norm if type(module) is nn.LayerNorm else None
