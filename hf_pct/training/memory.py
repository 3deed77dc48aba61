"""How much memory a run needs, from its settings: what is held all through training, apart from activations.

Activations depend on the batch and are the same for every method: references run without gradients, one after another,
and hold no more than one layer's at a time.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass

from ..methods.base import RunSize
from .arguments import PCTArguments

FLOAT = 4  # bytes; mixed precision keeps weights, gradients and optimizer in float32 too

# tensors as large as the weights that an optimizer keeps
_STATES = {"adamw": 2, "adam": 2, "adagrad": 1, "rmsprop": 1, "lion": 1, "adafactor": 0}


@dataclass(frozen=True)
class MemoryEstimate:
    """Bytes in one process without sharding, by what they are for; `table` is on disk and only mapped."""

    weights: int
    gradients: int
    optimizer: int
    references: int
    anchors: int
    table: int

    @property
    def total(self) -> int:
        return self.weights + self.gradients + self.optimizer + self.references + self.anchors

    def to_dict(self) -> dict[str, int]:
        return {**asdict(self), "total": self.total}


def estimate_memory(
    args: PCTArguments,
    parameters: int,
    *,
    old_parameters: int | None = None,
    live: bool = False,
    rows: int = 0,
    classes: int = 0,
) -> MemoryEstimate:
    """What training a model of so many parameters with these settings holds.

    Args:
        args: the settings; a method is what its arguments say.
        parameters: of the new model; all of them are trained.
        old_parameters: of the old model; as the new one when unset.
        live: whether references run beside the new model (`reference="auto"` decides by the data).
        rows: of the training set, for the size of a cached table.
        classes: of the reference, for the same.
    """
    copies = _STATES.get(_family(str(getattr(args.optim, "value", args.optim))))
    if copies is None:
        copies = 1 if "momentum" in (args.optim_args or "") else 0
    old = parameters if old_parameters is None else old_parameters
    method = args.training_method()
    size = RunSize(parameters, old, 1 + len(args.earlier_models or ()), classes)
    held = args.weight_methods()
    copies_of_weights = bool(held) + any(entry.needs.fisher for entry in held)
    return MemoryEstimate(
        weights=parameters * FLOAT,
        gradients=parameters * FLOAT,
        optimizer=parameters * FLOAT * copies,
        references=method.reference_parameters(size) * FLOAT if live else 0,
        anchors=parameters * copies_of_weights * FLOAT,
        table=0 if live else rows * method.table_width(classes) * FLOAT * max(args.cached_views, 1),
    )


def _family(optimizer: str) -> str:
    return next((name for name in sorted(_STATES, key=len, reverse=True) if optimizer.startswith(name)), optimizer)
