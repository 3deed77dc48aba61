"""The paper's protocol for added classes: while the new classes are learned, the old classes' rows do not move."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from transformers import TrainerCallback, TrainerControl, TrainerState, TrainingArguments

from ..models.heads import head_entries, match_labels
from ..models.load import label_names_of


class KeepHeadRows(TrainerCallback):
    """Put the old model's rows of the classifier back after every optimizer step.

    Restoring beats masking gradients: momentum and weight decay would still move the rows.
    """

    def __init__(self, old_model: nn.Module) -> None:
        self.old_state = {name: value.detach() for name, value in old_model.state_dict().items()}
        self.old_labels = label_names_of(old_model)
        self.rows: list[tuple[Tensor, Tensor, Tensor]] = []

    def on_train_begin(
        self,
        args: TrainingArguments,
        state: TrainerState,
        control: TrainerControl,
        model: nn.Module = None,
        **_: object,
    ) -> None:
        module = getattr(model, "module", model)
        match = match_labels(self.old_labels, label_names_of(module))
        places = dict(module.named_parameters())
        shapes = ({n: tuple(v.shape) for n, v in side.items()} for side in (self.old_state, places))
        names = head_entries(next(shapes), next(shapes), match)
        if not names:
            raise ValueError("keep_old_head found no classifier with one row per label to keep.")
        old_rows, new_rows = torch.from_numpy(match.old_index), torch.from_numpy(match.new_index)
        self.rows = [
            (places[name].data, new_rows.to(places[name].device), self.old_state[name][old_rows].to(places[name]))
            for name in names
        ]

    def on_optimizer_step(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **_: object
    ) -> None:
        for place, rows, values in self.rows:
            place[rows] = values
