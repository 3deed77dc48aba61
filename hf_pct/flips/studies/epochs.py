"""NFR and error rate at every epoch, from what a trainer logged (Yan et al., Fig. 5 and supplement).

The trainers count flips at every evaluation, on every evaluation set that they are given. What they log is a list of
dicts, in `trainer.state.log_history` and in `trainer_state.json`; here it becomes the numbers of one figure, without
torch and long after the training.
"""

from collections.abc import Mapping, Sequence

from ...core.decode import JsonObject
from ...core.errors import first_five

UNNAMED = "evaluation"  # what the one evaluation set is called that was passed without a name


def per_epoch(
    log_history: Sequence[JsonObject], sets: Sequence[str] | None = None, relative: bool = False
) -> JsonObject:
    """The arguments of `viz.plots.nfr_per_epoch`: epochs, and NFR and error rate by evaluation set.

    Args:
        log_history: `trainer.state.log_history`, or that of a `trainer_state.json`. Entries without flips (losses, a
            summary) are passed over. Of several evaluations of a set at one epoch the first counts: a later one is of
            another model, the best one loaded at the end, say.
        sets: which evaluation sets, in this order; by default all that were logged. The one set of a trainer whose
            `eval_dataset` is no dict is called "evaluation".
        relative: relative NFR instead of NFR.

    A set has an error rate where its accuracy was logged at every epoch.
    """
    wanted = "relative_nfr" if relative else "nfr"
    by_set = _read(log_history, wanted)
    if not by_set:
        raise ValueError(
            f"No entry of the log has eval_{wanted} or eval_<set>_{wanted} with an epoch "
            f"({len(log_history)} entries). Flips are logged by the trainers of hf_pct when they know the old model: "
            "pass eval_dataset={'train': ..., 'validation': ...} and old_model=..., and eval_strategy='epoch'."
        )
    chosen = list(by_set) if sets is None else list(sets)
    unknown = [name for name in chosen if name not in by_set]
    if unknown or not chosen:
        raise ValueError(
            f"sets names {first_five(unknown) or 'nothing'}, expected sets that this log has: {first_five(by_set)}."
        )
    epochs = sorted({epoch for name in chosen for epoch in by_set[name]})
    missing = [
        f"{name} at {first_five(epoch for epoch in epochs if epoch not in by_set[name])}"
        for name in chosen
        if len(by_set[name]) < len(epochs)
    ]
    if missing:
        raise ValueError(
            f"Not every set has {wanted} at every epoch; missing: {'; '.join(missing)}. Choose sets that were "
            "evaluated together: sets=[...]."
        )
    accuracies = {name: [by_set[name][epoch][1] for epoch in epochs] for name in chosen}
    return {
        "epochs": epochs,
        "nfr": {name: [by_set[name][epoch][0] for epoch in epochs] for name in chosen},
        "error_rate": {
            name: [1 - accuracy for accuracy in values if accuracy is not None]
            for name, values in accuracies.items()
            if None not in values
        },
        "relative": relative,
    }


def _read(log_history: Sequence[JsonObject], wanted: str) -> dict[str, dict[float, tuple[float, float | None]]]:
    """NFR and, where it was logged, accuracy by set and epoch."""
    if isinstance(log_history, (str, Mapping)) or not all(isinstance(entry, Mapping) for entry in log_history):
        raise ValueError(
            f"The log is a {type(log_history).__name__}, expected a list of dicts: trainer.state.log_history, or "
            "json.load(...)['log_history'] of a trainer_state.json."
        )
    by_set: dict[str, dict[float, tuple[float, float | None]]] = {}
    for entry in log_history:
        for key, rate in entry.items():
            prefix = _prefix(key, wanted)
            if prefix is None or entry.get("epoch") is None:
                continue
            accuracy = entry.get(f"{prefix}accuracy")
            numbers = float(rate), None if accuracy is None else float(accuracy)
            name = prefix.removeprefix("eval_").removesuffix("_") or UNNAMED
            by_set.setdefault(name, {}).setdefault(float(entry["epoch"]), numbers)
    return by_set


def _prefix(key: str, wanted: str) -> str | None:
    """What stands before the metric: eval_ or eval_<set>_; None for other metrics."""
    if not key.startswith("eval_") or not key.endswith(f"_{wanted}"):
        return None
    prefix = key.removesuffix(wanted)
    # eval_train_relative_nfr ends in _nfr too, and is no NFR of a set called train_relative
    return None if wanted == "nfr" and prefix.endswith("_relative_") else prefix
