"""How each known kind of layer turns its inputs and the gradients at its output into squared per-sample gradients.

That is all that a sample's weight gradient consists of: an outer product for a linear layer, a scatter for an
embedding. A rule takes both with one entry per sample in the first dimension, and adds to the totals of weight and
bias.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn import functional as F

# A block of products stays in the processor's cache between being computed, squared and added.
BLOCK_ELEMENTS = 2**17

Rule = Callable[[nn.Module, Tensor, Tensor, Tensor | None, Tensor | None], None]


def _linear(_: nn.Module, inputs: Tensor, gradient: Tensor, weight: Tensor | None, bias: Tensor | None) -> None:
    gradient = gradient.reshape(len(gradient), -1, gradient.shape[-1])
    if weight is not None:
        add_squared_products(weight, gradient.transpose(1, 2), inputs.reshape(len(inputs), -1, inputs.shape[-1]))
    if bias is not None:
        bias += gradient.sum(1).square().sum(0)


def _transposed_linear(
    module: nn.Module, inputs: Tensor, gradient: Tensor, weight: Tensor | None, bias: Tensor | None
) -> None:
    """GPT-2's `Conv1D`: a linear layer that keeps its weight the other way round."""
    _linear(module, inputs, gradient, None if weight is None else weight.T, bias)


def _conv2d(module: nn.Conv2d, inputs: Tensor, gradient: Tensor, weight: Tensor | None, bias: Tensor | None) -> None:
    size = len(gradient)
    if weight is not None and module.groups == 1:
        columns = F.unfold(inputs, module.kernel_size, module.dilation, module.padding, module.stride)
        add_squared_products(weight.view(len(weight), -1), gradient.flatten(2), columns.transpose(1, 2))
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


def add_squared_products(total: Tensor, left: Tensor, right: Tensor) -> None:
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


def is_norm_act(module: nn.Module) -> bool:
    """timm's BatchNormAct2d, which applies its activation inside."""
    return type(module).__name__ == "BatchNormAct2d" and isinstance(getattr(module, "drop", None), nn.Module)


def rule_for(module: nn.Module) -> Rule | None:
    """How to handle a layer; exact types only, because a subclass may compute something else."""
    if is_norm_act(module) or (type(module) in (nn.BatchNorm1d, nn.BatchNorm2d) and module.running_mean is not None):
        return _batch_norm
    if type(module) is nn.Conv2d:
        plain = module.padding_mode == "zeros" and not isinstance(module.padding, str)
        return _conv2d if plain else None
    if type(module) is nn.Embedding:
        plain = module.max_norm is None and not module.scale_grad_by_freq and not module.sparse
        return _embedding if plain else None
    if isinstance(module, nn.Linear) and type(module).__name__ == "Linear":  # timm has one of its own by that name
        return _linear
    if type(module).__name__ == "Conv1D" and type(module).__module__ == "transformers.pytorch_utils":
        return _transposed_linear
    return _layer_norm if type(module) is nn.LayerNorm else None


def adds_tokens(module: nn.Module) -> bool:
    """Whether more tokens are all that several runs of a layer, or several windows of one sample, amount to."""
    known = rule_for(module)
    if known is _layer_norm:
        return len(module.normalized_shape) == 1
    return known in (_linear, _transposed_linear, _embedding)
