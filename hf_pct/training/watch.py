"""The terms of a loss as they go by: their means for the log, and a stop when one of them runs away.

A term is measured against what a model with all-zero logits would pay for it, which training should stay below. The
logit term is quadratic in the logits, so a learning rate that suits cross-entropy can make it explode within a few
steps; going on from there only burns time and overwrites good checkpoints.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import torch
from torch import Tensor


class DivergenceError(RuntimeError):
    """A loss term is no longer finite, or far above what a model that answers nothing pays."""

    def __init__(self, term: str, detail: str, step: int = 0, advice: str = "", checkpoint: str | None = None) -> None:
        self.term, self.detail = term, detail
        kept = (
            f"The last good checkpoint is {checkpoint}."
            if checkpoint
            else "No checkpoint had been written: save_strategy and save_steps decide when one is."
        )
        super().__init__(f"Training diverged at step {step}: the {term!r} term {detail}. {advice} {kept}")


class LossWatch:
    """Collects loss terms by name, averages them between two logs, and raises when one diverges."""

    def __init__(self, limit: float = 20.0, patience: int = 10) -> None:
        self.limit, self.patience = limit, patience
        self._sums: dict[str, float] = {}
        self._steps = 0
        self._above: dict[str, int] = {}
        self._ratio: dict[str, float] = {}
        self._value: dict[str, float] = {}

    def add(self, terms: Mapping[str, Tensor], idle: Mapping[str, Tensor | float]) -> None:
        """Take the terms of one batch; `idle` says what all-zero logits would pay, for the terms that have it."""
        names = list(terms)
        every = [*terms.values(), *(torch.as_tensor(value) for value in idle.values())]
        values = torch.stack([value.detach().float() for value in every]).tolist()  # one wait for the device
        values, costs = values[: len(names)], dict(zip(idle, values[len(names) :], strict=True))
        for name, value in zip(names, values, strict=True):
            self._sums[name] = self._sums.get(name, 0.0) + value
            self._value[name] = value
        self._steps += 1
        if not all(map(math.isfinite, values)):
            raise self._error(names)
        for name in names:
            if name in idle:
                self._ratio[name] = self._value[name] / max(costs[name], 1.0)
                high = self.limit > 0 and self._ratio[name] > self.limit
                self._above[name] = self._above.get(name, 0) + 1 if high else 0
        if any(count >= self.patience for count in self._above.values()):
            raise self._error(names)

    def sane(self, terms: Mapping[str, Tensor], idle: Mapping[str, Tensor | float]) -> bool:
        """Whether no term of a batch is above the limit; weights that give such terms are worth keeping."""
        values = {name: float(value) for name, value in terms.items()}
        if not all(map(math.isfinite, values.values())):
            return False
        return not self.limit or all(values[name] <= self.limit * max(float(idle[name]), 1.0) for name in idle)

    def means(self) -> dict[str, float]:
        """Mean of each term since the last call."""
        means = {name: total / max(self._steps, 1) for name, total in self._sums.items()}
        self._sums, self._steps = {}, 0
        return means

    def _error(self, names: list[str]) -> DivergenceError:
        # when the logits are NaN every term is: the one that was furthest out before is the one that broke them
        broken = [name for name in names if not math.isfinite(self._value[name])] or names
        term = max(broken, key=lambda name: self._ratio.get(name, 0.0))
        value, ratio = self._value[term], self._ratio.get(term)
        if math.isfinite(value):
            return DivergenceError(
                term, f"is {value:.4g}, {ratio:.3g} times what all-zero logits pay, for {self.patience} batches"
            )
        before = "" if ratio is None else f" (a batch before it was {ratio:.3g} times what all-zero logits pay)"
        return DivergenceError(term, f"is {value}{before}")
