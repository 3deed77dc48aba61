"""What must happen at moments that only callbacks see."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from transformers import TrainerCallback

if TYPE_CHECKING:
    from .base import PCTrainer


class TrainerHooks(TrainerCallback):
    """Binds anchors to the model that is trained, decays after each step, and turns cached views with the epochs."""

    def __init__(self, trainer: PCTrainer) -> None:
        self.trainer = trainer

    def on_train_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        self.trainer.anchors.bind(self.trainer.accelerator.unwrap_model(self.trainer.model))

    def on_epoch_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        # on a resumed run the epoch is where it stopped; a whole epoch is a whole number up to rounding
        self.trainer.source.set_epoch(int((state.epoch or 0) + 1e-6))

    def on_optimizer_step(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        self.trainer.anchors.decay(self.trainer.optimizer)

    def on_train_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        self.trainer.anchors.release()
        self.trainer.check_weights()
