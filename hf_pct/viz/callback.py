"""A Trainer callback that writes a page: what the training broke and fixed."""

from __future__ import annotations

import os
import traceback
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from transformers import TrainerCallback

from ..core.files import check_can_write
from ..flips.report import FlipReport
from .page.write import write_page

if TYPE_CHECKING:
    from torch import nn
    from transformers import TrainerState


class FlipPageCallback(TrainerCallback):
    """Writes the page when training ends.

    `report_fn` gets the trained model and returns the report:

        old = predict("org/intent-v1", test, keep_columns=["text"])
        page = FlipPageCallback("update.html", lambda model: compare(old, predict(model, test, processor=tokenizer)))
        trainer = FocalDistillTrainer(..., callbacks=[page])

    It is called in every process, because predicting shares the work among them; the main process writes. `options`
    are those of `render_page`. A report that fails after hours of training is a loud warning and not an error: the
    trained model is worth more than its page.
    """

    def __init__(
        self,
        output_file: str | os.PathLike,
        report_fn: Callable[[nn.Module], FlipReport],
        *,
        overwrite: bool = False,
        **options: object,
    ) -> None:
        if not callable(report_fn):
            raise TypeError(f"report_fn is a {type(report_fn).__name__}, expected a function: model -> FlipReport.")
        self.output_file, self.report_fn = Path(output_file), report_fn
        self.overwrite, self.options = overwrite, options

    def on_train_begin(self, args: object, state: TrainerState, control: object, **kwargs: object) -> None:
        if state.is_world_process_zero:
            check_can_write(self.output_file, self.overwrite)  # before the work, not after it

    def on_train_end(
        self, args: object, state: TrainerState, control: object, *, model: nn.Module, **kwargs: object
    ) -> None:
        training = model.training
        model.eval()
        try:
            report = self.report_fn(model)
            if state.is_world_process_zero:
                write_page(self.output_file, report, overwrite=self.overwrite, **self.options)
        except Exception:
            warnings.warn(f"{self.output_file} was not written; training itself is done.\n{traceback.format_exc()}")
        finally:
            model.train(training)
