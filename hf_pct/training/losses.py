"""Losses that hold a new model near a reference, on logits and labels alone: no model inside, pure torch.

Every loss is a module called as `loss(new_logits, reference_logits, labels)` and returns one number, **the mean over
all rows of the batch**. A row whose label is `IGNORED` (a class that the reference does not know) adds nothing but
still counts in that mean: the mean over 16 rows is then the mean of four means over 4 rows, whatever the rows hold,
and gradient accumulation changes nothing. A batch with no row left gives zero, not an error.

Sources: Yan et al., CVPR 2021 (equations 6 to 9); Xie et al., 2021 (the dynamic gate); Zhao et al., ELODI (logit
difference inhibition).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

IGNORED = -100
"""Label of a row that a reference has no say on, as in `torch.nn.functional.cross_entropy`."""

BLOCK = 64
"""Columns that `largest_columns` looks at together: of 16, 32, 64 and 100 the quickest for 10,000 classes."""


class ReferenceLoss(nn.Module, ABC):
    """A loss of each row against a reference, averaged over the batch. Subclasses write `per_row`."""

    name = "reference"
    """What the term is called in logs, in errors and on a card."""

    asks_right = True
    """Whether the rows' loss depends on where the reference is right; finding out costs a pass over the logits."""

    settings: tuple[str, ...] = ()
    """Attributes that make up the loss: shown by `repr`, written by `config`."""

    def forward(
        self, new_logits: Tensor, reference_logits: Tensor, labels: Tensor, reference_right: Tensor | None = None
    ) -> Tensor:
        """Mean loss over the rows.

        `reference_right` says which rows the reference classifies correctly, for a caller who has aligned two label
        spaces and so knows more than these logits show (the reference's answer may be a class that was cut away).
        Without it, the argmax of `reference_logits` decides.
        """
        _check_shapes(new_logits, reference_logits, labels)
        known = labels != IGNORED
        if not self.asks_right:
            reference_right = known
        elif reference_right is None:
            reference_right = reference_logits.argmax(-1) == labels
        rows = self.per_row(new_logits, reference_logits, labels.clamp_min(0), reference_right & known)
        return torch.where(known, rows, torch.zeros_like(rows)).sum() / max(len(labels), 1)

    @abstractmethod
    def per_row(self, new_logits: Tensor, reference_logits: Tensor, labels: Tensor, reference_right: Tensor) -> Tensor:
        """Loss of each row, shape [N]. Labels of ignored rows are 0 here; their loss is thrown away."""

    def config(self) -> dict[str, Any]:
        """What it takes to build this loss again, for a log or a model card."""
        return {"loss": type(self).__name__, **{name: getattr(self, name) for name in self.settings}}

    def extra_repr(self) -> str:
        return ", ".join(f"{name}={getattr(self, name)!r}" for name in self.settings)


class NaiveReweightingLoss(ReferenceLoss):
    """Cross-entropy on the rows that the reference gets right (Yan et al., eq. 6): their weight becomes 1 + lambda.

    The sum runs over the right rows and is divided by all N rows, as in the paper.
    """

    name = "naive"

    def per_row(self, new_logits: Tensor, reference_logits: Tensor, labels: Tensor, reference_right: Tensor) -> Tensor:
        return functional.cross_entropy(new_logits, labels, reduction="none") * reference_right


class FocalDistillationLoss(ReferenceLoss):
    """Distillation with a weight of `alpha + beta * gate` on each row (Yan et al., eq. 7 to 9).

    The gate is 1 where the reference is right. With `dynamic=True` it is 1 where the reference gives the label more
    probability than the new model does, and is taken anew at each step (Xie et al.; their loss is `alpha=0`). Plain
    distillation is `beta=0`.

    Distances between two rows of logits:

    - `"lm"` (eq. 9): half the squared difference, **averaged over the classes**. The paper writes the sum, its code
      takes the mean without the half. The mean is the default here because the sum grows with the number of classes
      and diverges at learning rates at which the mean trains; `class_reduction="sum"` is the paper's.
    - `"kl"` (eq. 8): KL(reference || new) of the softmax at `temperature`, **summed over the classes** as a divergence
      is, times temperature squared so that its gradient keeps its size. With a growing temperature it approaches
      `"lm"` averaged over classes, on logits of zero mean.
    """

    name = "distillation"
    settings = ("alpha", "beta", "distance", "temperature", "dynamic", "class_reduction")

    def __init__(
        self,
        alpha: float = 1.0,
        beta: float = 5.0,
        distance: str = "lm",
        temperature: float = 100.0,
        dynamic: bool = False,
        class_reduction: str = "mean",
    ) -> None:
        super().__init__()
        problems = [
            f"{name}={value!r}: a weight is a finite number >= 0, try {name}={default}"
            for name, value, default in (("alpha", alpha, 1.0), ("beta", beta, 5.0))
            if not 0 <= value < float("inf")
        ]
        if not 0 < temperature < float("inf"):
            problems.append(f"temperature={temperature!r}: expected a finite number > 0, the paper's is 100")
        problems += _one_of("distance", distance, ("lm", "kl")) + _one_of(
            "class_reduction", class_reduction, ("mean", "sum")
        )
        _raise_all("This focal distillation loss cannot be built", problems)
        self.alpha, self.beta, self.temperature = float(alpha), float(beta), float(temperature)
        self.distance, self.dynamic, self.class_reduction = distance, bool(dynamic), class_reduction

    def per_row(self, new_logits: Tensor, reference_logits: Tensor, labels: Tensor, reference_right: Tensor) -> Tensor:
        gate = _more_confident(reference_logits, new_logits, labels) if self.dynamic else reference_right
        # [N] times [N]: with weights of shape [N, 1] this would broadcast to [N, N] and no longer be focal
        weight = self.alpha + self.beta * gate.to(new_logits.dtype)
        if self.distance == "kl":
            return weight * soft_kl(new_logits, reference_logits, self.temperature)
        squared = (new_logits - reference_logits).square()
        return weight * 0.5 * (squared.mean(-1) if self.class_reduction == "mean" else squared.sum(-1))


class LogitDifferenceInhibitionLoss(ReferenceLoss):
    """The p-th power of logit differences over the `top_k` classes of each row (Zhao et al., ELODI).

    Differences up to `margin` are free. The K classes are those with the highest logits of the reference (`eq. 5`) or
    of the new model; they are gathered, so a small K is cheap whatever the number of classes. `exclude_label` leaves
    the true class out, as the paper's released runs do. **Averaged over the K classes**: the paper writes a sum, its
    code takes the mean, and its weight of 0.8 belongs to that mean.

    `top_k=None`, or one that reaches the number of classes, takes every class. That is the default where the paper has
    10: its released code has no working K, and with one that works students had more errors in every table of ours.
    """

    name = "ldi"
    asks_right = False
    settings = ("top_k", "p", "margin", "exclude_label", "top_k_from")

    def __init__(
        self,
        top_k: int | None = None,
        p: float = 2,
        margin: float = 0.0,
        exclude_label: bool = False,
        top_k_from: str = "reference",
    ) -> None:
        super().__init__()
        problems = _one_of("top_k_from", top_k_from, ("reference", "new"))
        if top_k is not None and top_k < 1:
            problems.append(f"top_k={top_k!r}: expected at least 1, or None for every class; the paper's is 10")
        if not 1 <= p < float("inf"):
            problems.append(f"p={p!r}: expected a finite number >= 1, the paper's is 2")
        if not 0 <= margin < float("inf"):
            problems.append(f"margin={margin!r}: expected a finite number >= 0, the paper's is 0")
        _raise_all("This logit difference inhibition loss cannot be built", problems)
        self.top_k, self.p, self.margin = top_k, p, float(margin)
        self.exclude_label, self.top_k_from = bool(exclude_label), top_k_from

    def per_row(self, new_logits: Tensor, reference_logits: Tensor, labels: Tensor, reference_right: Tensor) -> Tensor:
        classes = new_logits.shape[-1]
        available = classes - self.exclude_label
        if available < 1:
            return new_logits.sum(-1) * 0.0
        count = available if self.top_k is None else min(self.top_k, available)
        if count < classes:
            source = (reference_logits if self.top_k_from == "reference" else new_logits).detach()
            if self.exclude_label:
                source = source.scatter(-1, labels.unsqueeze(-1), float("-inf"))
            kept = largest_columns(source, count)
            new_logits, reference_logits = new_logits.gather(-1, kept), reference_logits.gather(-1, kept)
        return self._power(new_logits - reference_logits).mean(-1)

    def _power(self, difference: Tensor) -> Tensor:
        if self.p == 2 and not self.margin:
            return difference.square()
        size = (difference.abs() - self.margin).clamp_min(0) if self.margin else difference.abs()
        return size if self.p == 1 else size.pow(self.p)


def largest_columns(values: Tensor, count: int) -> Tensor:
    """Columns of the `count` largest values of each row, in no order.

    With 10,000 classes `topk` alone took two thirds of the loss's time and ate up what a small K saves. The `count`
    largest values lie in the `count` blocks with the largest maxima, which are quickly found, so where there are many
    blocks only those are searched.
    """
    columns = values.shape[-1]
    whole = columns - columns % BLOCK
    if whole < 4 * count * BLOCK:
        return values.topk(count, dim=-1, sorted=False).indices
    maxima = values[:, :whole].unflatten(-1, (-1, BLOCK)).amax(-1)
    blocks = maxima.topk(count, dim=-1, sorted=False).indices
    within = torch.arange(BLOCK, device=values.device)
    searched = (blocks.unsqueeze(-1) * BLOCK + within).flatten(1)
    rest = torch.arange(whole, columns, device=values.device).expand(len(values), -1)
    searched = torch.cat([searched, rest], dim=-1)
    return searched.gather(-1, values.gather(-1, searched).topk(count, dim=-1, sorted=False).indices)


def soft_kl(new_logits: Tensor, reference_logits: Tensor, temperature: float) -> Tensor:
    """temperature² · KL(reference || new) of each row, both softened by `temperature`.

    Worked out in float64 where the device has it: at a temperature of 100 the two distributions are nearly uniform,
    and their divergence is a small difference of numbers that float32 can no longer tell apart.
    """
    precise = torch.float32 if new_logits.device.type == "mps" else torch.float64
    new = functional.log_softmax(new_logits.to(precise) / temperature, dim=-1)
    reference = functional.log_softmax(reference_logits.to(precise) / temperature, dim=-1)
    divergence = (reference.exp() * (reference - new)).sum(-1)
    return (divergence * temperature**2).to(new_logits.dtype)


def _more_confident(reference_logits: Tensor, new_logits: Tensor, labels: Tensor) -> Tensor:
    """Rows where the reference gives the label more probability than the new model does. No gradient flows here."""
    index = labels.unsqueeze(-1)
    reference = functional.log_softmax(reference_logits.detach(), dim=-1).gather(-1, index)
    new = functional.log_softmax(new_logits.detach(), dim=-1).gather(-1, index)
    return (reference > new).squeeze(-1)


def _check_shapes(new_logits: Tensor, reference_logits: Tensor, labels: Tensor) -> None:
    if new_logits.ndim != 2 or reference_logits.shape != new_logits.shape or labels.shape != new_logits.shape[:1]:
        raise ValueError(
            f"Logits and labels do not fit together: new logits {tuple(new_logits.shape)}, reference logits "
            f"{tuple(reference_logits.shape)}, labels {tuple(labels.shape)}. Expected [rows, classes] twice and "
            "[rows]; when the two models know different classes, keep the shared ones in both."
        )


def _one_of(name: str, value: Any, choices: tuple[str, ...]) -> list[str]:
    return [] if value in choices else [f"{name}={value!r}: expected one of {', '.join(map(repr, choices))}"]


def _raise_all(what: str, problems: list[str]) -> None:
    if problems:
        raise ValueError(f"{what}:\n  " + "\n  ".join(problems))
