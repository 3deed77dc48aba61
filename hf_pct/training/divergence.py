"""The terms of a loss during training: their means for the log, and a stop when one of them diverges.

A term is measured against what a model with all-zero logits would pay for it, which training should stay below. The
logit term is quadratic in the logits, so a learning rate that suits cross-entropy can make it explode within a few
steps; training on from there only costs time and overwrites good checkpoints.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from ..models.types import Inputs

if TYPE_CHECKING:
    from accelerate import Accelerator
    from transformers import TrainerState, TrainingArguments


class DivergenceError(RuntimeError, ValueError):
    """A loss term is no longer finite, or far above what a model that answers nothing pays.

    A `ValueError` too: a setting is to be changed, so `hf-pct` exits with 2 and not as on a bug.

    Example:
        >>> from hf_pct.training import DivergenceError
        >>> str(DivergenceError("distillation", "is nan", step=12, advice="Lower the learning rate."))[:56]
        "Training diverged at step 12: the 'distillation' term is"
    """

    def __init__(self, term: str, detail: str, step: int = 0, advice: str = "", checkpoint: str | None = None) -> None:
        self.term, self.detail, self.step = term, detail, step
        kept = (
            f"The last good checkpoint is {checkpoint}."
            if checkpoint
            else "No checkpoint had been written: save_strategy and save_steps decide when one is."
        )
        super().__init__(f"Training diverged at step {step}: the {term!r} term {detail}. {advice} {kept}")


def calmer_steps(learning_rate: float, max_grad_norm: float) -> str:
    """What helps against divergence whatever the method."""
    return (
        f"Lower learning_rate (now {learning_rate:g}) or clip harder with max_grad_norm (now {max_grad_norm:g}, 1.0 "
        "is usual)."
    )


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


class DivergenceStops:
    """A mixin, to be named before `Trainer`: watches its terms, and keeps broken weights from disk.

    The trainer has `_terms(model, inputs)`, `advice(term)` and a `watch`.
    """

    args: TrainingArguments
    state: TrainerState
    accelerator: Accelerator
    model_wrapped: nn.Module
    watch: LossWatch
    _last_batch: Inputs | None = None

    def watch_terms(self, inputs: Inputs, terms: Mapping[str, Tensor], idle: Mapping[str, Tensor]) -> None:
        """Take the terms of one training batch; raises with advice when one of them diverges."""
        self._last_batch = inputs
        try:
            self.watch.add(terms, idle)
        except DivergenceError as error:
            raise self._diverged(error.term, error.detail) from None

    def _diverged(self, term: str, detail: str) -> DivergenceError:
        from transformers.trainer_utils import get_last_checkpoint

        trainer: Any = self
        last = get_last_checkpoint(self.args.output_dir)
        return DivergenceError(term, detail, self.state.global_step, trainer.advice(term), last)

    def log(self, logs: dict[str, float], start_time: float | None = None) -> None:
        if "loss" in logs:
            means = self.watch.means()
            if means:
                gathered = self.accelerator.gather(torch.tensor([list(means.values())], device=self.args.device))
                logs |= {f"loss_{name}": value for name, value in zip(means, gathered.mean(0).tolist(), strict=True)}
        super().log(logs, start_time)  # type: ignore[misc]

    def _save_checkpoint(self, model: nn.Module, trial: object) -> None:
        """A checkpoint that a diverging run would leave behind is not written, so the last good one stays the last."""
        if self.weights_are_good(model):
            super()._save_checkpoint(model, trial)  # type: ignore[misc]

    @property
    def last_term(self) -> str:
        """The term to name when weights broke without one standing out."""
        return "ce"

    def check_weights(self) -> None:
        """Refuse to end a training whose last step broke the weights."""
        if not self.weights_are_good(self.model_wrapped):
            raise self._diverged(self.last_term, "was broken by the last step")

    def weights_are_good(self, model: nn.Module) -> bool:
        """Whether the weights after the last step still give the batch that made it a sane loss, in every process.

        The loss of a step is that of the weights before it, so without this check a step that breaks the weights would
        be saved, and an older good checkpoint deleted for it.
        """
        if self._last_batch is None:
            return True
        training = model.training
        model.eval()
        with torch.no_grad():
            _, terms, idle = self._terms(model, self._last_batch)  # type: ignore[attr-defined]
        model.train(training)
        good = torch.tensor([int(self.watch.sane(terms, idle))], device=self.args.device)
        return bool(self.accelerator.gather(good).all())
