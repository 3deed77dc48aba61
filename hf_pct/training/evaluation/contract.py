"""Which checkpoint of a run to keep: the fewest flips among those that keep the best accuracy.

Flips alone choose badly: a model that starts from the old one flips least before it has learnt anything. A contract
compares checkpoints by both, as `BCWIMerger` chooses an alpha: first accuracy, up to a margin, then flips.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from accelerate.utils import broadcast_object_list
from transformers.trainer_utils import PREFIX_CHECKPOINT_DIR, SaveStrategy

if TYPE_CHECKING:
    from transformers import TrainerState

    from ..arguments import PCTArguments
    from .metrics import Metrics

METRIC = "contract"


def contract_best(points: Sequence[tuple[float, float]], margin: float) -> int:
    """The place of the best of some (accuracy, NFR): the fewest flips within `margin` of the highest accuracy.

    >>> contract_best([(0.80, 0.01), (0.82, 0.05), (0.83, 0.06)], margin=0.01)
    1
    """
    floor = max(accuracy for accuracy, _ in points) - margin - 1e-12  # accuracies that differ by rounding are the same
    allowed = [place for place, (accuracy, _) in enumerate(points) if accuracy >= floor]
    return min(allowed, key=lambda place: (points[place][1], -points[place][0], place))


def contract_score(
    history: Iterable[Mapping[str, object]], metrics: Mapping[str, float], prefix: str, margin: float
) -> int:
    """How many times a better checkpoint was found so far, this one included; 0 when an earlier one is the best.

    A larger number is a better checkpoint, so `Trainer` and `EarlyStoppingCallback` can go by it as they are.

    >>> seen = [{"eval_accuracy": 0.80, "eval_nfr": 0.00}, {"eval_accuracy": 0.83, "eval_nfr": 0.02}]
    >>> contract_score(seen[:1], seen[1], "eval", margin=0.01)
    2
    >>> contract_score(seen, {"eval_accuracy": 0.79, "eval_nfr": 0.0}, "eval", margin=0.01)
    0
    """
    points = [_point(entry, prefix) for entry in [*history, metrics] if f"{prefix}_nfr" in entry]
    better = [contract_best(points[: place + 1], margin) == place for place in range(len(points))]
    return sum(better) if better[-1] else 0


def _point(entry: Mapping[str, object], prefix: str) -> tuple[float, float]:
    return float(str(entry[f"{prefix}_accuracy"])), float(str(entry[f"{prefix}_nfr"]))


class ContractChoice:
    """A mixin, to be named before `Trainer`: it may go back to a checkpoint that it had passed over.

    Whether a checkpoint keeps the best accuracy of a run is known only when the run has shown it. So each evaluation
    judges every checkpoint that is still on disk again; the start of a run, which no checkpoint holds, is none.
    """

    args: PCTArguments
    state: TrainerState

    def add_contract(self, metrics: Metrics, prefix: str) -> None:
        """Put the score of this evaluation among its metrics, where the best model goes by it."""
        if not (self.args.metric_for_best_model or "").endswith(METRIC) or f"{prefix}_nfr" not in metrics:
            return
        score = contract_score(self._loadable(), metrics, prefix, self.args.contract_margin)
        if score:  # above every score before it, however many checkpoints were deleted meanwhile
            score = max(score, int(self.state.best_metric or 0) + 1)
        metrics[f"{prefix}_{METRIC}"] = broadcast_object_list([score])[0]  # processes may see different disks

    def _determine_best_metric(self, metrics: Metrics, trial: object) -> bool:
        better = super()._determine_best_metric(metrics, trial)  # type: ignore[misc]
        prefix = f"eval_{(self.args.metric_for_best_model or '').removeprefix('eval_')}".removesuffix(f"_{METRIC}")
        kept = [entry for entry in self._loadable() if f"{prefix}_{METRIC}" in entry]
        if kept and not better and f"{prefix}_{METRIC}" in metrics:
            points = [_point(entry, prefix) for entry in [*kept, metrics]]
            best = contract_best(points, self.args.contract_margin)
            if best < len(kept):
                self.state.best_global_step = int(str(kept[best]["step"]))
        return better

    def _loadable(self) -> list[Mapping[str, object]]:
        """The evaluations before this one whose weights could still be taken; all where none are saved."""
        trainer: object = self
        folder = Path(trainer._get_output_dir(trial=getattr(trainer, "_trial", None)))  # type: ignore[attr-defined]
        steps = range(1, self.state.global_step)
        entries = [entry for entry in self.state.log_history if entry.get("step") in steps]
        if self.args.save_strategy == SaveStrategy.NO:
            return entries
        return [entry for entry in entries if (folder / f"{PREFIX_CHECKPOINT_DIR}-{entry['step']}").is_dir()]
