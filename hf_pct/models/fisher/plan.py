"""Which weights a batched pass serves exactly, found out on two samples of the real data."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property, partial

import torch
from torch import Tensor, nn

from .layers import is_norm_act, rule_for
from .passes import Batch, add_batched, add_by_loop, answers, zeros
from .per_sample import (
    PerSampleSquares,
    Served,
    Totals,
    candidate_layers,
    full_name,
    layer_parameters,
    shared_parameters,
    unsupported,
)

logger = logging.getLogger(__name__)
# what a model raises when its layers get one row per sample where it expected one for all
_BROKEN_PASS = (RuntimeError, ValueError, IndexError, TypeError, AssertionError)


@dataclass(frozen=True)
class FisherPlan:
    """What a batched pass is asked for, and the weights that it gives exactly; all others need the loop."""

    served: Served
    names: frozenset[str]


def known_layers_only(model: nn.Module) -> FisherPlan:
    """Every layer that has a rule, without a trial; a weight of another layer is refused by name."""
    problems = unsupported(model)
    if problems:
        raise ValueError(f"{len(problems)} weights cannot be served by rules, use way='auto': {problems[:3]}")
    layers = frozenset(candidate_layers(model))
    return FisherPlan(Served(layers, {}, layers), frozenset(zeros(model)))


def make_plan(model: nn.Module, batch: Batch, label: str) -> FisherPlan:
    """Try every layer and every bare weight on two samples, and keep what agrees with the loop."""
    trial = _Trial(model, {name: value[:2] for name, value in batch.items()}, label)
    layers, names = trial.layers()
    bare = trial.bare_weights(layers, names)
    plan = FisherPlan(Served(layers.layers, bare, layers.spread), names | bare.keys())
    rest = [name for name in trial.expected if name not in plan.names]
    if rest:
        logger.warning("Fisher by single samples for %d of %d weights: %s", len(rest), len(trial.expected), rest[:3])
    return plan


class _Trial:
    """Two samples, and what the loop gives for them."""

    def __init__(self, model: nn.Module, two: Batch, label: str) -> None:
        self.model, self.two, self.label = model, two, label
        self.expected = zeros(model)
        add_by_loop(model, two, label, self.expected)
        # the key bias of attention has no gradient but rounding noise: small beside the largest, not beside itself
        self.noise = 1e-7 * max(float(value.max()) for value in self.expected.values())
        self.shared = {name for names in shared_parameters(model) for name in names}

    def layers(self) -> tuple[Served, frozenset[str]]:
        """The layers that can be served, and their weights that come out right."""
        layers = candidate_layers(self.model)
        embeddings = frozenset(prefix for prefix, module in layers.items() if isinstance(module, nn.Embedding))
        for spread in (frozenset(layers), embeddings, frozenset[str]()):
            # a model may not bear one row per sample where a layer gave one for all: DeBERTa's relative positions
            trial = self._run(Served(frozenset(layers), {}, spread), self._weights(layers))
            if trial is None:
                continue
            totals, both = trial
            kept = {prefix: module for prefix, module in layers.items() if self._grows(prefix, both, spread)}
            right = {name for name in self._weights(kept) if self._agrees(name, totals)}
            useful = frozenset(prefix for prefix in kept if right & layer_parameters(prefix, kept[prefix]).keys())
            return Served(useful, {}, spread), frozenset(right)
        return Served(frozenset(), {}, frozenset()), frozenset()

    def _grows(self, prefix: str, both: PerSampleSquares, spread: frozenset[str]) -> bool:
        """Whether a layer was served and returns twice as many rows for two samples as for one.

        A table of relative positions has the same length for any batch, which two samples may happen to divide.
        """
        if prefix in both.problems:
            return False
        one = self._one_sample_rows.get(prefix, 0)
        return both.rows.get(prefix, 0) == 2 * one or (one == 1 and prefix in spread)

    @cached_property
    def _one_sample_rows(self) -> dict[str, int]:
        """How many rows each layer returns for a single sample."""
        rows: dict[str, int] = {}

        def count(prefix: str, _: nn.Module, __: tuple[object, ...], output: object) -> None:
            value = output[0] if isinstance(output, tuple) and output else output
            rows[prefix] = len(value) if isinstance(value, Tensor) and value.dim() else 0

        hooks = [
            (module.drop if is_norm_act(module) else module).register_forward_hook(partial(count, prefix))
            for prefix, module in candidate_layers(self.model).items()
        ]
        with torch.no_grad():
            answers(self.model, {name: value[:1] for name, value in self.two.items()})
        for hook in hooks:
            hook.remove()
        return rows

    def _weights(self, layers: dict[str, nn.Module]) -> list[str]:
        names = [name for prefix, module in layers.items() for name in layer_parameters(prefix, module)]
        return [name for name in names if name in self.expected and name not in self.shared]

    def bare_weights(self, layers: Served, names: frozenset[str]) -> dict[str, tuple[int, ...]]:
        """Weights outside any layer that may have a copy per sample, with the shape that works."""
        kinds = list(self._kinds())
        usual = {name: shapes[0] for bare, shapes in kinds for name in bare}
        if self._work(layers, usual, names):
            return usual
        chosen: dict[str, tuple[int, ...]] = {}
        for bare, shapes in kinds:  # one kind after the other, each beside those that work
            tried = (dict.fromkeys(bare, shape) for shape in shapes)
            chosen |= next((one for one in tried if self._work(layers, chosen | one, names)), {})
        return chosen

    def _work(self, layers: Served, bare: dict[str, tuple[int, ...]], names: frozenset[str]) -> bool:
        """Whether the layers and these copies in one pass give what the loop gives."""
        if not bare:
            return True
        trial = self._run(Served(layers.layers, bare, layers.spread), names | bare.keys())
        return trial is not None and all(self._agrees(name, trial[0]) for name in trial[0])

    def _kinds(self) -> Iterator[tuple[list[str], list[tuple[int, ...]]]]:
        """Bare weights of one kind (the same name, shape and type of module) with the shapes that a copy may have."""
        layers = candidate_layers(self.model)
        inside = {name for prefix, module in layers.items() for name in layer_parameters(prefix, module)}
        kinds: dict[tuple[str, str, tuple[int, ...]], list[str]] = {}
        for prefix, module in self.model.named_modules():
            for own, value in module.named_parameters(recurse=False):
                name = full_name(prefix, own)
                if rule_for(module) is None and name in self.expected and name not in self.shared | inside:
                    kinds.setdefault((type(module).__name__, own, tuple(value.shape)), []).append(name)
        for (_, _, shape), names in kinds.items():
            yield names, copy_shapes(shape)

    def _run(self, served: Served, names: Iterable[str]) -> tuple[Totals, PerSampleSquares] | None:
        """Totals of a batched pass and how it went; None when the model cannot run like this."""
        totals = {name: torch.zeros_like(self.expected[name]) for name in names}
        try:
            return totals, add_batched(self.model, self.two, self.label, totals, served)
        except _BROKEN_PASS as error:
            logger.debug("A batched pass failed: %s", error)
            return None

    def _agrees(self, name: str, totals: dict[str, Tensor]) -> bool:
        one, other = totals[name], self.expected[name]
        if not one.any():  # never reached: small is not zero then
            return not other.any()
        return torch.allclose(one, other, rtol=1e-3, atol=self.noise)


def copy_shapes(shape: tuple[int, ...]) -> list[tuple[int, ...]]:
    """The shapes that one sample's copy of a bare weight may have, most usual first.

    A class token [1, 1, D] or positions [1, N, D] have a place for the batch; a scale [D] is multiplied with tokens or
    with pixels; anything else gets a new first dimension.
    """
    if len(shape) == 1:
        return [(1, *shape), (1, 1, *shape)]
    return [shape[1:], shape] if shape[:1] == (1,) else [shape]
