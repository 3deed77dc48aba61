"""The diagonal of a classifier's Fisher information: how much each weight matters to what the model answers.

F = mean over samples of (d log p(y | x) / d theta)^2, each sample by itself. The label y is the model's own answer
(`argmax`, the BCWI paper's choice), the right one (`true`), or all of them weighted by their probability
(`expectation`, the true Fisher of Matena and Raffel, 2021; one backward pass per class).
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from safetensors.torch import load_file, save_file
from torch import Tensor, nn
from tqdm.auto import tqdm

from hf_pct.merging.interpolate import scale_fisher
from hf_pct.merging.per_sample import PerSampleSquares, unsupported

logger = logging.getLogger(__name__)

LABELS = ("argmax", "true", "expectation")
WAYS = ("auto", "hooks", "loop")
Batch = Mapping[str, Tensor]


class LayerRunsTwice(ValueError):
    """A sample's gradient of such a layer is a sum over its runs, which hooks see one at a time."""


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

    `way="auto"` uses hooks on the layers where that is exact, and otherwise the loop over single samples. Under
    `torch.distributed`, each process passes its own batches and all get the mean over everyone's samples.
    """
    if label not in LABELS or way not in WAYS:
        raise ValueError(f"label={label!r} and way={way!r}, expected label in {LABELS} and way in {WAYS}")
    was_training = model.training
    model.eval()
    totals = _zeros(model)
    if not totals:
        raise ValueError("The model has no trainable parameter, so there is no Fisher to compute.")
    count, device = 0, next(model.parameters()).device
    try:
        with tqdm(total=total, desc="Fisher", unit="sample", disable=not progress) as bar:
            for batch in batches:
                batch = {name: value.to(device) for name, value in batch.items() if isinstance(value, Tensor)}
                if count == 0 and way == "auto":
                    way = _choose_way(model, batch, label)
                size = _batch_size(batch)
                (_add_by_hooks if way == "hooks" else _add_by_loop)(model, batch, label, totals)
                count += size
                bar.update(size)
    finally:
        model.train(was_training)
    count = _sum_over_processes(totals, count, device)
    if count == 0:
        raise ValueError("There were no samples to compute the Fisher on, expected at least one.")
    return {name: value.div_(count) for name, value in totals.items()}


def fisher_batches(
    dataset: Sequence[Mapping[str, Any]], collate: Callable[[list], Mapping[str, Tensor]], batch_size: int = 32
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


def save_fisher(fisher: Mapping[str, Tensor], path: str | Path) -> None:
    """Write a Fisher scaled to mean 1, as `hf-pct merge --method fisher --fisher FILE` reads it."""
    scaled = {name: value.contiguous().cpu() for name, value in scale_fisher(fisher).items()}
    save_file(scaled, str(path), metadata={"format": "pt", "hf_pct": "diagonal Fisher, mean 1"})


def load_fisher(path: str | Path) -> dict[str, Tensor]:
    return load_file(str(path))


def _choose_way(model: nn.Module, batch: Batch, label: str) -> str:
    """Hooks, if every layer is known and they agree with the loop on two samples of the real data."""
    problems = unsupported(model)
    if not problems:
        two = {name: value[:2] for name, value in batch.items()}
        hooks, loop = _zeros(model), _zeros(model)
        try:
            _add_by_hooks(model, two, label, hooks)
        except LayerRunsTwice as error:
            logger.warning("Fisher by single samples. %s", error)
            return "loop"
        _add_by_loop(model, two, label, loop)
        # the key bias of attention has no gradient but rounding noise: small beside the largest, not beside itself
        noise = 1e-7 * max(float(value.max()) for value in loop.values())
        problems = [name for name in loop if not torch.allclose(hooks[name], loop[name], rtol=1e-3, atol=noise)]
    if problems:
        logger.warning("Fisher by single samples, because of %d parameters: %s", len(problems), problems[:3])
    return "loop" if problems else "hooks"


def _zeros(model: nn.Module) -> dict[str, Tensor]:
    return {n: torch.zeros_like(p, dtype=torch.float32) for n, p in model.named_parameters() if p.requires_grad}


def _add_by_hooks(model: nn.Module, batch: Batch, label: str, totals: dict[str, Tensor]) -> None:
    with PerSampleSquares(model, totals) as squares:
        squares.batch_size = _batch_size(batch)
        for loss, last in _losses(model, batch, label):
            if not loss.requires_grad:
                raise ValueError("The model's logits do not depend on its weights: nothing to differentiate.")
            loss.backward(retain_graph=not last)
        again = [name for name, calls in squares.calls.items() if calls > 1]
        if again:
            raise LayerRunsTwice(f"These layers run more than once a pass, use way='loop': {again[:5]}")


def _add_by_loop(model: nn.Module, batch: Batch, label: str, totals: dict[str, Tensor]) -> None:
    """One sample at a time: the definition, and what the hooks are held against."""
    names = list(totals)
    parameters = dict(model.named_parameters())
    chosen = [parameters[name] for name in names]
    for row in range(_batch_size(batch)):
        one = {name: value[row : row + 1] for name, value in batch.items()}
        for loss, last in _losses(model, one, label):
            gradients = torch.autograd.grad(loss, chosen, retain_graph=not last, allow_unused=True)
            for name, gradient in zip(names, gradients, strict=True):
                if gradient is not None:
                    totals[name].addcmul_(gradient.float(), gradient.float())


def _losses(model: nn.Module, batch: Batch, label: str) -> Iterator[tuple[Tensor, bool]]:
    """The sums whose per-sample gradients are to be squared, and whether it is the last of this forward pass."""
    inputs = {name: value for name, value in batch.items() if name not in ("labels", "label")}
    outputs = model(**inputs)
    logits = (outputs if isinstance(outputs, Tensor) else outputs.logits).float()
    log_probabilities = logits.log_softmax(-1)
    if label == "expectation":
        roots = log_probabilities.detach().div(2).exp()  # the root of p, because the gradient is squared
        for k in range(logits.shape[-1]):
            yield -(roots[:, k] * log_probabilities[:, k]).sum(), k == logits.shape[-1] - 1
        return
    if label == "argmax":
        target = logits.argmax(-1)
    elif "labels" in batch or "label" in batch:
        target = batch["labels"] if "labels" in batch else batch["label"]
    else:
        raise ValueError(f"label='true' needs a column 'labels' in the batches, found {sorted(batch)}")
    yield -log_probabilities.gather(-1, target[:, None]).sum(), True


def _batch_size(batch: Batch) -> int:
    return len(next(iter(batch.values())))


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
