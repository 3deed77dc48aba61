"""The losses as torch modules, for training loops of your own: `loss(new_logits, reference_logits, labels)`.

Each returns one number, **the mean over all rows of the batch**; a row whose label is `IGNORED` adds nothing but still
counts. The maths is that of the methods in `losses/`.
"""

from __future__ import annotations

import warnings

from torch import Tensor, nn

from ..core.decode import JsonObject
from .base import IGNORED as IGNORED
from .base import Batch, TrainingMethod
from .distances import largest_columns as largest_columns
from .distances import mean_over_rows
from .distances import soft_kl as soft_kl
from .losses.elodi import EnsembleLogitDifferenceInhibition
from .losses.focal import DynamicFocalDistillation, FocalDistillation, FocalDistillationKL, reference_is_surer
from .losses.naive import NaiveReweighting
from .registry import build
from .settings import find_problems, settings_of


class ReferenceLoss(nn.Module):
    """A loss against a reference, averaged over the batch. Subclasses say which method computes it."""

    name = "reference"
    """What the term is called in logs and in errors."""

    settings: tuple[str, ...] = ()
    """Attributes that make up the loss: shown by `repr`, written by `config`."""

    def method(self) -> TrainingMethod:
        """The method with the settings as they are now."""
        raise NotImplementedError

    def forward(
        self, new_logits: Tensor, reference_logits: Tensor, labels: Tensor, reference_right: Tensor | None = None
    ) -> Tensor:
        """Mean loss over the rows.

        `reference_right` says which rows the reference classifies correctly, for a caller who has aligned two label
        spaces and so knows more than these logits show (the reference's answer may be a class that was cut away).
        Without it, the argmax of `reference_logits` decides.
        """
        _check_shapes(new_logits, reference_logits, labels)
        batch = Batch(new_logits, reference_logits, labels, reference_right=reference_right)
        return mean_over_rows(self.method().loss(batch), batch.known)

    def config(self) -> JsonObject:
        """What it takes to build this loss again, for a log or a model card."""
        return {"loss": type(self).__name__, **{name: getattr(self, name) for name in self.settings}}

    def extra_repr(self) -> str:
        return ", ".join(f"{name}={getattr(self, name)!r}" for name in self.settings)


class NaiveReweightingLoss(ReferenceLoss):
    """Cross-entropy on the rows that the reference gets right: the method `naive`.

    Example:
        >>> import torch
        >>> from hf_pct.training import NaiveReweightingLoss
        >>> new, old = torch.tensor([[0.0, 0.0], [0.0, 0.0]]), torch.tensor([[2.0, 0.0], [2.0, 0.0]])
        >>> round(NaiveReweightingLoss()(new, old, labels=torch.tensor([0, 1])).item(), 4)
        0.3466
    """

    name = "naive"

    def method(self) -> TrainingMethod:
        return NaiveReweighting()


class FocalDistillationLoss(ReferenceLoss):
    """Distillation with a weight of `every_row + right_rows * gate` on each row: `kd`, `fd-lm`, `fd-kl`, `fd-dynamic`.

    `distance` is `"lm"` (half the squared difference, averaged over the classes or summed by `class_reduction`) or
    `"kl"` at `temperature`. With `dynamic=True` the gate is open where the reference is surer of the label than the
    new model, else where it is right. `alpha` and `beta` are older names of the two weights.

    Example:
        >>> import torch
        >>> from hf_pct.training import FocalDistillationLoss
        >>> new, old = torch.tensor([[1.0, 0.0]]), torch.tensor([[2.0, 0.0]])
        >>> FocalDistillationLoss(every_row=1, right_rows=5)(new, old, labels=torch.tensor([0])).item()
        1.5
    """

    name = "distillation"
    settings = ("every_row", "right_rows", "distance", "temperature", "dynamic", "class_reduction")

    def __init__(
        self,
        every_row: float = 1.0,
        right_rows: float = 5.0,
        distance: str = "lm",
        temperature: float = 100.0,
        dynamic: bool = False,
        class_reduction: str = "mean",
        *,
        alpha: float | None = None,
        beta: float | None = None,
    ) -> None:
        super().__init__()
        called = _warn_of_older_names({"every_row": ("alpha", alpha), "right_rows": ("beta", beta)})
        self.every_row = every_row if alpha is None else alpha
        self.right_rows = right_rows if beta is None else beta
        self.distance, self.temperature = distance, temperature
        self.dynamic, self.class_reduction = bool(dynamic), class_reduction
        kinds = {**_settings(FocalDistillationKL), **_settings(FocalDistillation)}
        checked = [kinds[name] for name in ("every_row", "right_rows", "temperature", "class_reduction")]
        problems = find_problems(checked, vars(self), called)
        if distance not in ("lm", "kl"):
            problems.append(f"distance={distance!r}: expected one of lm, kl")
        _raise_all("This focal distillation loss cannot be built", problems)

    def method(self) -> TrainingMethod:
        methods: dict[tuple[str, bool], type[TrainingMethod]] = {
            ("kl", False): FocalDistillationKL,
            ("kl", True): DynamicFocalDistillation,
            ("lm", False): FocalDistillation,
            ("lm", True): _DynamicLogits,
        }
        return build(methods[self.distance, self.dynamic], self)


class _DynamicLogits(FocalDistillation):
    """Logit differences with the gate of `fd-dynamic`."""

    def gate(self, batch: Batch) -> Tensor:
        return reference_is_surer(batch)


class LogitDifferenceInhibitionLoss(ReferenceLoss):
    """The p-th power of logit differences over the `top_k` classes of each row: the loss of the method `elodi`.

    Differences up to `free_difference` are free; `margin` is its older name.

    Example:
        >>> import torch
        >>> from hf_pct.training import LogitDifferenceInhibitionLoss
        >>> new, members = torch.tensor([[1.0, 0.0]]), torch.tensor([[3.0, 0.0]])
        >>> LogitDifferenceInhibitionLoss(p=2)(new, members, labels=torch.tensor([0])).item()
        2.0
    """

    name = "ldi"
    settings = ("top_k", "p", "free_difference", "exclude_label", "top_k_from")

    def __init__(
        self,
        top_k: int | None = None,
        p: float = 2,
        free_difference: float = 0.0,
        exclude_label: bool = False,
        top_k_from: str = "reference",
        *,
        margin: float | None = None,
    ) -> None:
        super().__init__()
        called = _warn_of_older_names({"free_difference": ("margin", margin)})
        self.top_k, self.p = top_k, p
        self.free_difference = free_difference if margin is None else margin
        self.exclude_label, self.top_k_from = bool(exclude_label), top_k_from
        kinds = _settings(EnsembleLogitDifferenceInhibition)
        checked = [kinds[name] for name in ("top_k_from", "top_k", "p", "free_difference")]
        _raise_all("This logit difference inhibition loss cannot be built", find_problems(checked, vars(self), called))

    def method(self) -> TrainingMethod:
        return build(EnsembleLogitDifferenceInhibition, self)


def _settings(method: type[TrainingMethod]) -> JsonObject:
    return {entry.name: entry for entry in settings_of(method)}


def _warn_of_older_names(values: dict[str, tuple[str, object]]) -> dict[str, str]:
    """The older names that a caller used, by the name that they have now."""
    used = {name: older for name, (older, value) in values.items() if value is not None}
    for name, older in used.items():
        warnings.warn(f"{older} is now called {name}.", DeprecationWarning, stacklevel=3)
    return used


def _check_shapes(new_logits: Tensor, reference_logits: Tensor, labels: Tensor) -> None:
    if new_logits.ndim != 2 or reference_logits.shape != new_logits.shape or labels.shape != new_logits.shape[:1]:
        raise ValueError(
            f"Logits and labels do not fit together: new logits {tuple(new_logits.shape)}, reference logits "
            f"{tuple(reference_logits.shape)}, labels {tuple(labels.shape)}. Expected [rows, classes] twice and "
            "[rows]; when the two models know different classes, keep the shared ones in both."
        )


def _raise_all(heading: str, problems: list[str]) -> None:
    if problems:
        raise ValueError(f"{heading}:\n  " + "\n  ".join(problems))
