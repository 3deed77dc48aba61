"""Sums of squared per-sample gradients in batches, by hooks on the layers that hold the weights.

One backward pass of a batch gives, at each layer's output, the gradient of every sample apart; with the layer's input
that decides the sample's weight gradient. The weight gradients of the batch, which would mix the samples, are never
computed, so this is faster than a loop of single samples and gives the same numbers. A layer without a rule is run
again by itself, sample by sample. A weight outside any layer (a class token) gets a copy per sample.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode
from torch.utils.hooks import RemovableHandle

from .layers import adds_tokens, is_norm_act, rule_for

Totals = dict[str, Tensor]
Arguments = tuple[tuple[object, ...], dict[str, object]]


@dataclass(frozen=True)
class Served:
    """What one batched pass may serve.

    `bare` gives the shape of one sample's copy of a weight outside any layer. `spread` lists the layers whose output
    may be one row for all samples, such as position embeddings: each sample gets its own.
    """

    layers: frozenset[str]
    bare: Mapping[str, tuple[int, ...]]
    spread: frozenset[str]


def candidate_layers(model: nn.Module) -> dict[str, nn.Module]:
    """Modules with weights of their own that can be served: known ones, ones without parts, and torch's attention."""
    layers: dict[str, nn.Module] = {}
    inside: tuple[str, ...] = ()
    for prefix, module in model.named_modules():
        if next(module.parameters(recurse=False), None) is None or (inside and prefix.startswith(inside)):
            continue
        attention = isinstance(module, nn.MultiheadAttention)
        if attention:  # it uses the weights of its parts without running them
            inside = (*inside, f"{prefix}.")
        if attention or rule_for(module) is not None or not any(module.children()):
            layers[prefix] = module
    return layers


def layer_parameters(prefix: str, module: nn.Module) -> dict[str, nn.Parameter]:
    """The weights that a layer serves, by their names in the model."""
    whole = isinstance(module, nn.MultiheadAttention)
    return {full_name(prefix, name): value for name, value in module.named_parameters(recurse=whole)}


def full_name(prefix: str, name: str) -> str:
    return f"{prefix}.{name}" if prefix else name


def shared_parameters(model: nn.Module) -> list[list[str]]:
    """The names of weights that several modules hold together."""
    owners: dict[int, list[str]] = {}
    for prefix, module in model.named_modules():
        for name, parameter in module.named_parameters(recurse=False):
            owners.setdefault(id(parameter), []).append(full_name(prefix, name))
    return [names for names in owners.values() if len(names) > 1]


def unsupported(model: nn.Module) -> list[str]:
    """The weights for which no layer has a rule of its own, and those that are shared between layers."""
    problems = [
        f"{full_name(prefix, name)} ({type(module).__name__})"
        for prefix, module in model.named_modules()
        for name, _ in module.named_parameters(recurse=False)
        if rule_for(module) is None
    ]
    return problems + [f"{' = '.join(names)} (shared)" for names in shared_parameters(model)]


class PerSampleSquares(AbstractContextManager["PerSampleSquares"]):
    """While open, every backward pass through `model` adds each sample's squared gradients to `totals`.

    The model's weights are frozen meanwhile: their batch gradients are not needed and cost a third of the backward.
    `problems` says which layers could not be served in the pass, and why; `rows` how long their outputs were.
    """

    def __init__(self, model: nn.Module, totals: Totals, served: Served, batch_size: int) -> None:
        self.model, self.totals, self.served, self.batch_size = model, totals, served, batch_size
        self.problems: dict[str, str] = {}
        self.rows: dict[str, int] = {}
        self._calls: dict[str, int] = {}
        self._hooks: list[RemovableHandle] = []
        self._frozen: list[nn.Parameter] = []
        self._replaced: list[tuple[nn.Module, str, nn.Parameter]] = []
        self._inputs: dict[str, Arguments] = {}
        self._repeats = _AlreadyRepeated(batch_size)

    def __enter__(self) -> PerSampleSquares:
        self._frozen = [parameter for parameter in self.model.parameters() if parameter.requires_grad]
        for parameter in self._frozen:
            parameter.requires_grad_(False)
        for prefix, module in self.model.named_modules():
            if prefix in self.served.layers:
                # timm's BatchNormAct2d applies its activation inside: its normalised output is what `drop` sees
                source = module.drop if is_norm_act(module) else module
                keep, watch = partial(self._keep_input, prefix), partial(self._on_output, prefix, module)
                self._hooks.append(module.register_forward_pre_hook(keep, with_kwargs=True))
                self._hooks.append(source.register_forward_hook(watch))
        for name, shape in self.served.bare.items():
            self._copy(name, shape)
        if self.served.bare:
            self._repeats.__enter__()
        return self

    def __exit__(self, *_: object) -> None:
        if self.served.bare:
            self._repeats.__exit__(None, None, None)
        for hook in self._hooks:
            hook.remove()
        for module, name, parameter in self._replaced:
            module._parameters[name] = parameter
        for parameter in self._frozen:
            parameter.requires_grad_(True)
        self._inputs.clear()

    def _copy(self, name: str, shape: tuple[int, ...]) -> None:
        """Put a copy per sample in the place of one weight; its gradient is then per sample too."""
        prefix, _, own = name.rpartition(".")
        module = self.model.get_submodule(prefix)
        parameter = module._parameters[own]
        assert parameter is not None
        copies = parameter.detach().reshape(1, *shape).expand(self.batch_size, *shape).requires_grad_()
        copies.register_hook(partial(self._add_copies, name))
        self._repeats.copies.append(copies)
        self._replaced.append((module, own, parameter))
        module._parameters[own] = copies

    def _add_copies(self, name: str, gradient: Tensor) -> None:
        self.totals[name] += gradient.detach().square().sum(0).reshape(self.totals[name].shape)

    def _keep_input(
        self, prefix: str, module: nn.Module, inputs: tuple[object, ...], named: dict[str, object]
    ) -> None:
        self._inputs[prefix] = inputs, named

    def _on_output(
        self, prefix: str, module: nn.Module, _: nn.Module, __: tuple[object, ...], output: Tensor | tuple[object, ...]
    ) -> Tensor | tuple[object, ...] | None:
        value = output[0] if isinstance(output, tuple) and output else output
        self._calls[prefix] = self._calls.get(prefix, 0) + 1
        problem = self._problem(prefix, module, value)
        if problem or not isinstance(value, Tensor):
            self.problems[prefix] = problem
            return None
        if len(value) == 1 < self.batch_size:
            value = value.expand(self.batch_size, *value.shape[1:])
        if not value.requires_grad:
            value = value.detach().requires_grad_().clone()  # a clone, so that an in-place activation may follow
        value.register_hook(partial(self._add, prefix, module, self._inputs[prefix]))
        return (value, *output[1:]) if isinstance(output, tuple) else value

    def _problem(self, prefix: str, module: nn.Module, value: object) -> str:
        """Why the samples cannot be separated at this output; nothing when they can."""
        if self._calls[prefix] > 1:
            return "runs more than once per pass"
        if not isinstance(value, Tensor) or value.dim() == 0:
            return "does not return a tensor"
        rows, size = len(value), self.batch_size
        self.rows[prefix] = rows
        if rows == 1 < size and prefix in self.served.spread:
            return ""
        windows = rows % size == 0 and adds_tokens(module)  # windows of one image, one after the other
        return "" if rows == size or (rows > 1 and windows) else f"returns {rows} rows for {size} samples"

    @torch.no_grad()
    def _add(self, prefix: str, module: nn.Module, arguments: Arguments, gradient: Tensor) -> None:
        gradient = _by_sample(gradient.detach(), self.batch_size)
        rule = rule_for(module)
        if rule is None:
            self._run_again(prefix, module, arguments, gradient)
            return
        positional, named = arguments
        inputs = next(value for value in (*positional, *named.values()) if isinstance(value, Tensor))
        weight, bias = (self.totals.get(full_name(prefix, name)) for name in ("weight", "bias"))
        rule(module, _by_sample(inputs.detach(), self.batch_size), gradient, weight, bias)

    def _run_again(self, prefix: str, module: nn.Module, arguments: Arguments, gradient: Tensor) -> None:
        """A layer without a rule: by itself, sample by sample, from the inputs that it had."""
        mine = {name: value for name, value in layer_parameters(prefix, module).items() if name in self.totals}
        if not mine:
            return
        positional, named = arguments
        for value in mine.values():
            value.requires_grad_(True)
        for row in range(self.batch_size):
            with torch.enable_grad():
                inputs = [_one_sample(value, row, self.batch_size) for value in positional]
                options = {key: _one_sample(value, row, self.batch_size) for key, value in named.items()}
                output = module.forward(*inputs, **options)
                value = output[0] if isinstance(output, tuple) else output
                gradients = torch.autograd.grad(value, list(mine.values()), gradient[row : row + 1], allow_unused=True)
            for name, single in zip(mine, gradients, strict=True):
                if single is not None:
                    self.totals[name].addcmul_(single.float(), single.float())
        for value in mine.values():
            value.requires_grad_(False)


class _AlreadyRepeated(TorchFunctionMode):
    """A model that repeats a weight for each sample (SigLIP's probe) gets the copies that are there already."""

    def __init__(self, batch_size: int) -> None:
        super().__init__()
        self.batch_size = batch_size
        self.copies: list[Tensor] = []

    def __torch_function__(
        self, func: Callable, types: object, args: Sequence = (), kwargs: dict | None = None
    ) -> object:
        if func is Tensor.repeat and any(args[0] is copies for copies in self.copies):
            times = torch.Size(args[1]) if isinstance(args[1], Sequence) else torch.Size(args[1:])
            if times[0] == self.batch_size and times.numel() == self.batch_size:
                return args[0]
        return func(*args, **(kwargs or {}))


def _by_sample(value: Tensor, size: int) -> Tensor:
    """One entry per sample in the first dimension: one row is repeated, windows of a sample are put together."""
    if len(value) == size:
        return value
    if len(value) == 1:
        return value.expand(size, *value.shape[1:])
    if value.dim() == 1:
        return value.reshape(size, -1)
    return value.reshape(size, -1, *(value.shape[2:] or value.shape[-1:]))


def _one_sample(value: object, row: int, size: int) -> object:
    if isinstance(value, Tensor):
        tensor: Tensor = value.detach()
        return tensor[row : row + 1] if tensor.dim() and len(tensor) == size else tensor
    return value
