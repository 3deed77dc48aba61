"""What a trainer must do at moments that only callbacks see."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from accelerate import Accelerator
from torch import nn
from torch.optim import Optimizer
from transformers import TrainerCallback

from .anchors.penalties import Anchors
from .references.feature_parts import FeatureParts
from .references.sources import ReferenceSource

if TYPE_CHECKING:
    from transformers import TrainerState


class HookedTrainer(Protocol):
    """What the hooks use of their trainer."""

    model: nn.Module
    accelerator: Accelerator
    optimizer: Optimizer
    anchors: Anchors
    source: ReferenceSource
    features: FeatureParts

    def check_weights(self) -> None: ...


class TrainerHooks(TrainerCallback):
    """Binds anchors to the model that is trained, decays after each step, and turns cached views with the epochs."""

    def __init__(self, trainer: HookedTrainer) -> None:
        self.trainer = trainer

    def on_train_begin(self, args: object, state: TrainerState, control: object, **kwargs: object) -> None:
        self.trainer.anchors.bind(self.trainer.accelerator.unwrap_model(self.trainer.model))

    def on_epoch_begin(self, args: object, state: TrainerState, control: object, **kwargs: object) -> None:
        # on a resumed run the epoch is where it stopped; a whole epoch is a whole number up to rounding
        self.trainer.source.set_epoch(int((state.epoch or 0) + 1e-6))

    def on_optimizer_step(self, args: object, state: TrainerState, control: object, **kwargs: object) -> None:
        self.trainer.anchors.decay(self.trainer.optimizer)
        self.trainer.features.clear_gradients()  # Trainer clears those of its model only

    def on_train_end(self, args: object, state: TrainerState, control: object, **kwargs: object) -> None:
        self.trainer.anchors.release()
        self.trainer.check_weights()
