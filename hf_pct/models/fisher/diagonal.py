"""The diagonal of a classifier's Fisher information: how much each weight matters to what the model answers.

F = mean over samples of (d log p(y | x) / d theta)^2, each sample by itself. The label y is the model's own answer
(`argmax`, the BCWI paper's choice), the right one (`true`), or all of them weighted by their probability
(`expectation`, the true Fisher of Matena and Raffel, 2021; one backward pass per class).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

import torch
import torch.distributed as dist
from torch import Tensor, nn
from tqdm.auto import tqdm

from ..types import Row
from .files import load_fisher as load_fisher
from .files import save_fisher as save_fisher
from .passes import Batch, add_batched, add_by_loop, batch_size, zeros
from .plan import FisherPlan, known_layers_only, make_plan

LABELS = ("argmax", "true", "expectation")
WAYS = ("auto", "hooks", "loop")


def diagonal_fisher(
    model: nn.Module,
    batches: Iterable[Batch],
    *,
    label: str = "argmax",
    way: str = "auto",
    progress: bool = False,
    total: int | None = None,
) -> dict[str, Tensor]:
    """The exact per-sample diagonal Fisher of every trainable parameter, as a mean over all samples.

    `way="auto"` runs whole batches with hooks on the layers where that is exact; the weights of other layers, and only
    they, go through the loop over single samples. Under `torch.distributed`, each process passes its own batches and
    all get the mean over everyone's samples.

    Example:
        >>> import torch
        >>> from transformers import BertConfig, BertForSequenceClassification
        >>> sizes = dict(hidden_size=8, intermediate_size=8, num_hidden_layers=1, num_attention_heads=2)
        >>> config = BertConfig(vocab_size=9, **sizes)
        >>> from hf_pct.merging import diagonal_fisher
        >>> model = BertForSequenceClassification(config)
        >>> fisher = diagonal_fisher(model, [{"input_ids": torch.tensor([[1, 2, 3], [4, 5, 6]])}])
        >>> fisher["classifier.weight"].shape
        torch.Size([2, 8])
    """
    if label not in LABELS or way not in WAYS:
        raise ValueError(f"label={label!r} and way={way!r}, expected label in {LABELS} and way in {WAYS}")
    was_training = model.training
    model.eval()
    totals, plan = zeros(model), known_layers_only(model) if way == "hooks" else None
    if not totals:
        raise ValueError("The model has no trainable parameter, so there is no Fisher to compute.")
    count, device = 0, next(model.parameters()).device
    try:
        with tqdm(total=total, desc="Fisher", unit="sample", disable=not progress) as bar:
            for batch in batches:
                batch = {name: value.to(device) for name, value in batch.items() if isinstance(value, Tensor)}
                size = batch_size(batch)
                if plan is None and way == "auto" and size > 1:  # a single sample shows nothing, and the loop suits it
                    plan = make_plan(model, batch, label)
                _add(model, batch, label, totals, plan)
                count += size
                bar.update(size)
    finally:
        model.train(was_training)
    count = _sum_over_processes(totals, count, device)
    if count == 0:
        raise ValueError("There were no samples to compute the Fisher on, expected at least one.")
    return {name: value.div_(count) for name, value in totals.items()}


def _add(model: nn.Module, batch: Batch, label: str, totals: dict[str, Tensor], plan: FisherPlan | None) -> None:
    rest = totals
    if plan is not None and plan.names:
        served = {name: totals[name] for name in totals if name in plan.names}
        problems = add_batched(model, batch, label, served, plan.served).problems
        if problems:
            listed = [f"{name} {problem}" for name, problem in problems.items()]
            raise ValueError(f"These layers cannot be served in batches, use way='loop': {listed[:5]}")
        rest = {name: value for name, value in totals.items() if name not in plan.names}
    if rest:
        add_by_loop(model, batch, label, rest)


def fisher_batches(
    dataset: Sequence[Row], collate: Callable[[list[Row]], Mapping[str, Tensor]], batch_size: int = 32
) -> Iterator[Mapping[str, Tensor]]:
    """This process's share of a dataset, each sample exactly once over all processes, similar lengths together."""
    rank, world = (dist.get_rank(), dist.get_world_size()) if _distributed() else (0, 1)
    rows = range(len(dataset))
    first = dataset[0] if len(dataset) else {}
    if "input_ids" in first:
        lengths = [len(dataset[i]["input_ids"]) for i in rows]
        rows = sorted(rows, key=lambda i: lengths[i])  # type: ignore[assignment]
    mine = list(rows)[rank::world]
    for start in range(0, len(mine), batch_size):
        yield collate([dataset[i] for i in mine[start : start + batch_size]])


def _distributed() -> bool:
    return dist.is_available() and dist.is_initialized()


def _sum_over_processes(totals: dict[str, Tensor], count: int, device: torch.device) -> int:
    if not _distributed():
        return count
    for name in sorted(totals):
        dist.all_reduce(totals[name])
    counted = torch.tensor(count, device=device)
    dist.all_reduce(counted)
    return int(counted)
