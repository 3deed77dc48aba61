"""BCWIMerger: a Trainer whose model can be put at any alpha between an old and new models."""

from __future__ import annotations

import copy
import logging
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

import datasets
import numpy as np
import torch
from torch import Tensor, nn
from transformers import Trainer
from transformers.trainer import TRAINING_ARGS_NAME

from ..core.files import write_text
from ..core.fingerprints import file_hash
from ..flips.choice.curve import AlphaCurve
from ..flips.choice.margins import row_margins
from ..flips.compare import compare
from ..flips.report import FlipReport
from ..flips.tables.predictions import Predictions, Provenance
from ..hub.trainer_push import PushUpdateMixin, model_origin, new_origin
from ..methods.merges.soup import greedy_soup, uniform_soup
from ..models.batchnorm import batchnorm_layers, recalibrate
from ..models.fingerprints import weights_fingerprint
from ..models.fisher.diagonal import diagonal_fisher, fisher_batches
from ..models.load import ask, label_names_of
from ..models.run import collated, collect, sized
from ..models.types import Inputs
from .arguments import BCWIArguments
from .checkpoints.record import FILE_NAME, MergeInput, MergeRecord, versions
from .head_rows import KeepHeadRows
from .interpolate import check_members
from .selection import Contract, Selection, prior_of, select_alpha
from .sides import MergeSides, Model, as_module, widened
from .sweep import Sweep, ensemble_answers

if TYPE_CHECKING:
    from transformers.trainer_utils import TrainOutput

logger = logging.getLogger(__name__)
Data: TypeAlias = datasets.Dataset | torch.utils.data.Dataset


class BCWIMerger(PushUpdateMixin, Trainer):
    """Backward-compatible weight interpolation (Schumann et al., 2023) with the Trainer's own evaluation loop.

    With `new_models` it merges them with the old one. Without, `train()` fine-tunes a copy of the old model first, as
    the paper does; `new_label_names` gives that copy more classes than the old model has. One live model is evaluated
    at every alpha: its weights are overwritten in place, nothing is loaded or copied per alpha.

    Example:
        >>> from hf_pct import BCWIArguments, BCWIMerger
        >>> args = BCWIArguments("merged", margin=0.01, report_to="none", disable_tqdm=True)
        >>> merger = BCWIMerger("v1", ["v2"], args, eval_dataset=test, processing_class=tokenizer)
        >>> 0 <= merger.merge().alpha <= 1
        True
    """

    # a model's own loss is a mean over its batch: accumulated batches must be averaged by the Trainer
    loss_is_scaled_for_ga = False
    model_accepts_loss_kwargs = False
    args: BCWIArguments

    def __init__(
        self,
        old_model: Model,
        new_models: Sequence[Model] | None = None,
        args: BCWIArguments | None = None,
        *,
        new_label_names: Sequence[str] | None = None,
        **options: object,
    ) -> None:
        args = args or BCWIArguments(output_dir="merged")
        self.old_model = as_module(old_model).eval()
        self.sources = [_name(model) for model in (old_model, *(new_models or ()))]
        news = [as_module(model) for model in new_models or ()]
        self.source_hashes = [weights_fingerprint(model) for model in (self.old_model, *news)]
        self.rule = args.rule
        check_members(self.rule, max(1, len(news)))
        if args.align == "permutation":
            from .rebasing.alignment import align_model

            news = [align_model(self.old_model, model) for model in news]
        if news:
            live = copy.deepcopy(news[0])
        else:
            live = widened(self.old_model, new_label_names or label_names_of(self.old_model))
        super().__init__(live, args, **options)
        self.model_accepts_loss_kwargs = False
        self.new_states: list[dict[str, Tensor]] = [dict(model.state_dict()) for model in news]
        self.alpha: float | None = None
        self.last_sweep: Sweep | None = None
        self.selection: Selection | None = None
        self.raw_fisher: dict[str, Tensor] | None = None  # the old model's, in its own label space, not yet scaled
        self._sides: MergeSides | None = None
        if args.keep_old_head:
            self.add_callback(KeepHeadRows(self.old_model))

    # ---- the two sides

    def train(self, resume_from_checkpoint: str | bool | None = None, *args: object, **kwargs: object) -> TrainOutput:
        """Fine-tune from the old model; the result is the new side of the merge."""
        if self.new_states:
            raise ValueError("train() starts from the old model, but new_models were given: leave them out to train.")
        result = super().train(resume_from_checkpoint, *args, **kwargs)
        state = self.accelerator.unwrap_model(self.model).state_dict()
        self.new_states = [{name: value.detach().clone() for name, value in state.items()}]
        self.sources = [self.sources[0], "trained from the old model"]
        self.source_hashes = [self.source_hashes[0], weights_fingerprint(self.accelerator.unwrap_model(self.model))]
        return result

    @property
    def sides(self) -> MergeSides:
        """Old and new weights, checked; the soup and the Fisher are made on first use."""
        if self._sides is None:
            if not self.new_states:
                raise ValueError("There is no new model yet: pass new_models, or call train() first.")
            sides = MergeSides.of(self.old_model, self.model, self.new_states[0])
            if len(self.new_states) > 1:
                sides.new = self._soup()
            if self.rule.needs.fisher:
                self.raw_fisher = self.raw_fisher or self._old_fisher()
                sides.set_fisher(self.raw_fisher)
            sides.to(self.args.device)
            self._sides = sides
        return self._sides

    def _soup(self) -> dict[str, Tensor]:
        if not self.args.greedy_soup:
            return uniform_soup(self.new_states)

        def score(state: Mapping[str, Tensor]) -> float:
            self.model.load_state_dict(state)
            logits, labels = self._logits()
            return float((logits.argmax(-1) == labels).mean())

        soup = greedy_soup(self.new_states, score)
        logger.info("Greedy soup kept members %s, development accuracy %.4f", soup.kept, soup.score)
        return soup.state

    def _old_fisher(self) -> dict[str, Tensor]:
        dataset = self.train_dataset if self.train_dataset is not None else self.eval_dataset
        rows = self._some_rows(dataset, self.args.fisher_samples)
        batches = fisher_batches(rows, self.data_collator, self.args.per_device_eval_batch_size)
        old = self.old_model.to(self.args.device)
        quiet = self.args.disable_tqdm or not self.is_world_process_zero()
        return diagonal_fisher(old, batches, label=self.args.fisher_label, progress=not quiet, total=len(rows))

    def _some_rows(self, dataset: Data | None, count: int | None) -> Data:
        """A fixed random part of a dataset, with the columns that the model takes."""
        if dataset is None:
            raise ValueError("This needs data: pass train_dataset (or eval_dataset) to BCWIMerger.")
        if count is not None and count < len(dataset):
            chosen = np.random.default_rng(0).permutation(len(dataset))[:count].tolist()
            dataset = (
                dataset.select(chosen) if hasattr(dataset, "select") else torch.utils.data.Subset(dataset, chosen)
            )
        if isinstance(dataset, datasets.Dataset) and self.args.remove_unused_columns:
            dataset = self._remove_unused_columns(dataset, description="merging")
        return dataset

    # ---- one alpha

    def set_alpha(self, alpha: float, recalibrated: bool | None = None) -> None:
        """Put the live model at `alpha`; BatchNorm statistics are re-estimated wherever weights were averaged."""
        self.sides.write(self.model, alpha, self.rule)
        self.alpha = alpha
        if (self.recalibrates if recalibrated is None else recalibrated) and self.averages(alpha):
            rows = self._some_rows(self.train_dataset, self.args.recalibration_samples)
            recalibrate(self.model, map(self._prepare_inputs, self.get_test_dataloader(rows)))

    def averages(self, alpha: float) -> bool:
        """Whether the weights at `alpha` are a mean of several models' weights: a soup's are at alpha 0 too."""
        return 0 < alpha < 1 or (alpha == 0 and len(self.new_states) > 1)

    @property
    def recalibrates(self) -> bool:
        """Whether merged models get new BatchNorm statistics; asks for training data when they need them."""
        wanted = self.args.recalibrate
        if wanted is None:
            wanted = bool(batchnorm_layers(self.model))
        if wanted and self.train_dataset is None:
            raise ValueError(
                "The model has BatchNorm layers, whose statistics need training data after a merge: "
                "pass train_dataset, or recalibrate=False to leave them interpolated."
            )
        return wanted

    def _logits(self, dataset: Data | None = None) -> tuple[np.ndarray, np.ndarray]:
        """The live model over the development data, each process its share of it."""
        chosen = self.eval_dataset[dataset] if isinstance(dataset, str) else dataset
        rows = sized(self._some_rows(self.eval_dataset if chosen is None else chosen, None))
        collate = self._get_collator_with_removed_columns(self.data_collator)
        batches = collated(rows, collate, self.args.eval_batch_size, self._prepare_inputs)
        self.model.eval()

        def answer(inputs: Inputs) -> Tensor:
            with self.compute_loss_context_manager():
                return ask(self.model, inputs)

        answers = collect(answer, batches, len(rows), progress=None if self.args.disable_tqdm else "Sweep")
        if answers.labels is None:
            raise ValueError("The evaluation data has no labels, expected a column 'labels' or 'label'.")
        return answers.logits, answers.labels

    def logits_at(self, alpha: float, dataset: Data | None = None) -> tuple[np.ndarray, np.ndarray]:
        """Logits and labels at one alpha."""
        self.set_alpha(alpha)
        return self._logits(dataset)

    # ---- the sweep and the choice

    def sweep(self, dataset: Data | None = None) -> Sweep:
        """Evaluate every alpha of the grid, and the probability ensemble from both ends' logits at no further cost."""
        logits: dict[float, np.ndarray] = {}
        margins: dict[float, np.ndarray] = {}
        plain: dict[float, np.ndarray] = {}
        labels = np.empty(0)
        for alpha in self.args.grid:
            self.set_alpha(alpha, recalibrated=False)
            answers, labels = self._logits(dataset)
            if self.recalibrates:
                plain[alpha] = answers.argmax(-1) == labels
                if self.averages(alpha):
                    answers, labels = self.logits_at(alpha, dataset)
            if alpha < 1:
                margins[alpha] = row_margins(answers, labels)
            logits[alpha] = answers if alpha in (0.0, 1.0) else answers.argmax(-1)
        old, new = self._without_added(logits[1.0]), logits[0.0]
        answers_at = {a: value.argmax(-1) if value.ndim == 2 else value for a, value in logits.items()}
        old_right = old.argmax(-1) == labels
        curve = AlphaCurve.of(old_right, {a: answer == labels for a, answer in answers_at.items()}, margins)
        ensemble = AlphaCurve.of(old_right, {a: ensemble_answers(old, new, a) == labels for a in self.args.grid})
        plain_curve = AlphaCurve.of(old_right, plain) if plain else None
        stacked = np.stack([answers_at[float(a)] for a in curve.alphas])
        self.last_sweep = Sweep(curve, ensemble, labels, stacked, old.argmax(-1), plain_curve, self._notes(curve))
        return self.last_sweep

    def _without_added(self, logits: np.ndarray) -> np.ndarray:
        """The old model's logits in the new label space: it cannot answer with a class that it does not have."""
        added = np.setdiff1d(np.arange(logits.shape[-1]), self.sides.match.new_index)
        masked = logits.copy()
        masked[:, added] = -np.inf
        return masked

    def _notes(self, curve: AlphaCurve) -> list[str]:
        if curve.barrier <= self.args.barrier_limit:
            return []
        note = (
            f"Accuracy at alpha 0.5 is {100 * curve.barrier:.1f} points below the line between the old and the new "
            "model: they are not in one basin, and merging them does not work as the paper describes. Train the new "
            "model from the old one, or try align='permutation'."
        )
        logger.warning(note)
        return [note]

    def select(self, contract: Contract | None = None) -> Selection:
        """Choose an alpha by contract (that of the arguments by default), from the last sweep or a new one."""
        sweep = self.last_sweep or self.sweep()
        prior = prior_of(self.args.method, bool(self.sides.match.added), bool(batchnorm_layers(self.model)))
        self.selection = select_alpha(sweep.curve, contract or self.args.contract(), prior)
        if not self.selection.kept:
            logger.warning(self.selection.reason)
        return self.selection

    def merge(self, contract: Contract | None = None) -> Selection:
        """Select, and leave the live model at the chosen alpha, ready for `save_model` or `save_merged`."""
        selection = self.select(contract)
        self.set_alpha(selection.alpha)
        return selection

    def predictions(
        self, alpha: float, dataset: Data | None = None, ids: Sequence[str | int] | None = None
    ) -> Predictions:
        """The model at `alpha` over a dataset as a table: `compare(merger.predictions(1.0), merger.predictions(0.4))`.

        At alpha = 1 this is the old model itself, without the classes that it did not have.
        """
        logits, labels = self.logits_at(alpha, dataset)
        data = dataset if dataset is not None else self.eval_dataset
        if ids is None:
            columns = getattr(data, "column_names", None) or []
            ids = list(data["id"]) if "id" in columns else list(range(len(labels)))
        names = list(label_names_of(self.model))
        truth = [names[int(label)] for label in labels]
        if alpha == 1.0:
            kept = np.sort(self.sides.match.new_index)
            logits, names = logits[:, kept], [names[i] for i in kept]
        origin = Provenance(model=f"merged, alpha {alpha}", settings={"alpha": alpha, "method": self.args.method})
        return Predictions(ids, truth, logits=logits, label_names=names, provenance=origin)

    def save_merged(self, output_dir: str | Path | None = None) -> Path:
        """The live model as a folder with `pct_merge.json`; `merge_checkpoints` writes bytes that can be remade."""
        folder = Path(output_dir or self.args.output_dir)
        if self.alpha is None:
            raise ValueError("The model is not at any alpha yet: call merge() or set_alpha() first.")
        self.save_model(str(folder))
        if self.is_world_process_zero():
            self.write_records(folder)
            # Trainer pickles its arguments beside the weights; what made this model is in pct_merge.json
            (folder / TRAINING_ARGS_NAME).unlink(missing_ok=True)
        return folder

    # ---- publishing

    def make_flip_report(self) -> FlipReport:
        """The flips at the alpha that the model is at, against the old model, on the evaluation data."""
        alpha = self.alpha
        if alpha is None:
            raise ValueError("The model is not at any alpha yet: call merge() or set_alpha() before push_to_hub().")
        old, new = self.predictions(1.0), self.predictions(alpha)  # the last leaves the model where it was
        new.provenance = new_origin(self.accelerator.unwrap_model(self.model), new.provenance.settings)
        old.provenance = model_origin(self.old_model)
        return compare(old, new)

    def write_records(self, folder: Path) -> None:
        """`pct_merge.json` beside the weights: how this model was made."""
        if self.alpha is None:
            raise ValueError("The model is not at any alpha yet: call merge() or set_alpha() first.")
        old, *new = (MergeInput(*pair) for pair in zip(self.sources, self.source_hashes, strict=True))
        record = MergeRecord(
            method=self.rule.name,
            settings=self.rule.settings(),
            alpha=self.alpha,
            old=old,
            new=tuple(new),
            curve=self.last_sweep.table() if self.last_sweep else None,
            selection=self.selection.to_dict() if self.selection else None,
            output={path.name: file_hash(path) for path in sorted(folder.glob("model*.safetensors"))},
            versions=versions(),
            weights=weights_fingerprint(self.accelerator.unwrap_model(self.model)),
            not_replayable=self._not_replayable(),
        )
        write_text(folder / FILE_NAME, record.to_json(), overwrite=True)

    def _not_replayable(self) -> str:
        """Why the files cannot be made again from the sources, byte for byte."""
        if self.sources[1:] == ["trained from the old model"]:
            return "its new model was trained in memory and is not kept"
        if self.args.align:
            return f"its new model was aligned with the old one ({self.args.align}) before the merge"
        if self.alpha is not None and self.averages(self.alpha) and self.recalibrates:
            return "its BatchNorm statistics were estimated from data after the merge"
        return "it was merged in memory; hf-pct merge, and merge_checkpoints, write merges that can be replayed"


def _name(model: Model) -> str:
    if isinstance(model, nn.Module):
        return str(getattr(getattr(model, "config", None), "_name_or_path", "") or type(model).__name__)
    return str(model)
