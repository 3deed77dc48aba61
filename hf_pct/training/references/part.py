"""One reference of a trainer, from what the caller named to logits: of a batch, or of a dataset as a table."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from accelerate import PartialState
from accelerate.utils import gather_object
from torch import Tensor, nn

from ...core.labels import check_label_names
from ...models.cache import SUFFIX, AnswerTable, Layout, check_logits, check_width, default_cache_dir, load_or_compute
from ...models.fingerprints import Digest
from ...models.identity import cache_key, precision, processor_fingerprint, stored_fingerprint
from ...models.load import label_names_of
from ...models.load.declared import collator_is_fixed, is_plain, known_collator, rows_are_fixed
from ...models.load.processors import reads_text, text_limit
from ...models.load.tasks import pads_unseen
from ...models.run import RowAnswers, RowBatch, Share, run, watched
from ...models.types import Inputs, Processor, RowSource
from .context import Context
from .own_processor import RawEncoder, own_encoder
from .rows import FEATURES, INPUTS, LOGITS, ReferenceRows
from .spec import AdapterReference, Reference, ReferenceAnswer, load_reference

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Named:
    """What a caller says about a reference.

    `model` is a Hub id, a folder, a module or a reference; or a function that makes a reference once there is one, and
    returns `None` before. `column` names the dataset column that may hold its logits, `top_k` says that no more than
    its largest logits are needed in training, and `features` that the inputs of its last layer are needed too.
    """

    model: Any = None
    revision: str | None = None
    adapter: str | None = None
    processor: Processor | None = None
    label_names: Sequence[str] | None = None
    column: str | None = None
    top_k: int | None = None
    title: str = field(default="the old model")
    features: bool = False


class ReferencePart:
    """A reference that is loaded when it is first needed, and again if it was released."""

    def __init__(self, context: Context, name: str, named: Named) -> None:
        self.context, self.name, self.named = context, name, named
        self._reference: Reference | None = None
        self._released: str | None = None
        self.encoder: RawEncoder | None = None
        self.label_names = self._find_label_names()

    @property
    def made_later(self) -> bool:
        """Whether what was named is a function that makes the reference when it can."""
        named = self.named.model
        return callable(named) and not isinstance(named, nn.Module) and not hasattr(named, "logits")

    @property
    def reference(self) -> Reference | None:
        named = self.named
        if self._reference is None and named.adapter:
            model = self.context.model()
            self._reference = AdapterReference(model, named.adapter, label_names_of(model))
        elif self._reference is None and self.made_later:
            self._reference = named.model()
        elif self._reference is None and named.model is not None:
            fallback = self.context.processor
            self._reference = load_reference(named.model, named.revision, named.processor, fallback, named.label_names)
            if self._released is not None and self._reference.fingerprint() != self._released:
                raise ValueError(
                    f"{named.model} is no longer the model that this run began with: its files were changed. Keep the "
                    "old model in a folder that nothing writes to."
                )
        return self._reference

    @property
    def loaded_here(self) -> bool:
        """Whether nobody else has this reference, because it was loaded from a name or a folder, or made here."""
        return self.made_later or isinstance(self.named.model, str | Path)

    def release(self) -> None:
        """Free the memory of a reference that was loaded here; one that the caller made stays the caller's."""
        if self.loaded_here and self._reference is not None:
            self._released = self._released or self._reference.fingerprint()
            self._reference = None

    def stamp(self) -> object:
        """What a model that the caller holds contains now, to notice a change; None for one that was loaded here.

        Where that cannot be known it is a new object, which is like nothing before.
        """
        if self._reference is None or self.loaded_here:
            return None
        return self._reference.fingerprint() or object()

    def _find_label_names(self) -> tuple[str, ...] | None:
        if self.named.label_names is not None:
            return check_label_names(self.named.label_names, f"{self.name}_label_names")
        return None if self.reference is None else self.reference.label_names

    def read_raw_columns(self, available: Sequence[str]) -> None:
        """Find out how this reference reads rows: as the new model does, or with its own processor."""
        if not self.made_later and self.reference is not None:
            new, chosen = self.context.processor, self.context.settings.reference_columns
            self.encoder = own_encoder(self.reference.processor, new, chosen, available)
            model = getattr(self.reference, "model", None)
            if self.encoder is not None and isinstance(model, nn.Module) and reads_text(self.encoder.processor):
                self.encoder.max_length = text_limit(self.encoder.processor, model)

    def is_fixed(self, dataset: RowSource) -> bool:
        """Whether this reference is shown the same inputs each time, as far as that is known or declared."""
        return rows_are_fixed(dataset) and (self.encoder is not None or collator_is_fixed(self.context.collator()))

    # ---- answers

    def answer(self, inputs: Inputs) -> ReferenceAnswer | None:
        """The answer to a batch: what it carries, or this reference's answer now."""
        if LOGITS + self.name in inputs:
            return ReferenceAnswer(inputs[LOGITS + self.name], inputs.get(FEATURES + self.name))
        return self.ask(inputs)

    def ask(self, inputs: Inputs) -> ReferenceAnswer | None:
        """This reference's answer now."""
        if self.reference is None:
            return None
        with self.context.autocast():
            own = inputs.get(INPUTS, {}).get(self.name, inputs)
            placed = self.reference.to(self.context.settings.device)
            answer = placed.answer(own) if self.named.features else ReferenceAnswer(placed.logits(own))
        check_width(answer.logits, len(self.label_names or ()), f"The output of {self.named.title}")
        return answer

    def table(self, rows: ReferenceRows, inputs: str | None, training: bool) -> AnswerTable:
        """The answers to every row, from disk if they were computed before for inputs of this identity."""
        width = len(self.label_names or ())
        layout = Layout(width, self.named.top_k if training else None, self._feature_width())
        batches = partial(self._batches, rows)
        path = self._path(inputs, rows, layout)
        settings = self.context.settings
        title = None if settings.disable_tqdm or rows.lines < 20 * settings.eval_batch_size else "Reference logits"

        def fill(share: Share) -> Iterator[RowAnswers]:
            return watched(run(self._ask_now, batches(share)), rows.lines, title, share, in_files=True)

        def check(answers: RowAnswers) -> None:
            check_logits(answers.logits, width, f"The output of {self.named.title}", answers.rows)

        return load_or_compute(path, layout, rows.lines, fill, check=check, must_keep=True)

    def _feature_width(self) -> int | None:
        return self.reference.feature_width() if self.named.features and self.reference is not None else None

    def _ask_now(self, inputs: Inputs) -> Tensor | tuple[Tensor, ...]:
        answer = self.ask(inputs)
        if answer is None:
            raise RuntimeError(f"{self.named.title} was released while it was still needed.")
        return answer.logits if answer.features is None else tuple(answer)

    def _batches(self, rows: ReferenceRows, share: Share) -> Iterator[RowBatch]:
        size = self.context.settings.eval_batch_size
        for number, start in enumerate(range(0, rows.lines, size)):
            if share.takes(number):
                lines = range(start, min(start + size, rows.lines))
                yield RowBatch(lines, self.context.prepare(self.context.collate(rows.fetch_lines(lines))))

    # ---- what a table depends on

    def _path(self, inputs: str | None, rows: ReferenceRows, layout: Layout) -> Path | None:
        """Where the table is kept, or `None` when what it depends on cannot be known."""
        reference = None if self.reference is None else self.reference.fingerprint()
        identity = shared_identity(reference, inputs, self.named.title)
        if identity is None:
            return None
        settings = self.context.settings
        with self.context.autocast():
            rounding = precision(settings.device)
        key = cache_key(
            identity=identity,
            views=[rows.views, rows.seed if rows.views else 0],
            precision=rounding,
            layout=layout.columns,
        )
        chosen = settings.reference_cache_dir
        return (Path(chosen) if chosen is not None else default_cache_dir() / "references") / f"{key}{SUFFIX}"

    def inputs_identity(self, dataset: RowSource, rows: ReferenceRows) -> str | None:
        """The hash of what this reference is shown: the stored rows where that says it all, else the inputs."""
        if not self.is_fixed(dataset):
            return None
        encoder, collator = self.encoder, self.context.collator()
        if is_plain(dataset) and (encoder is not None or known_collator(collator)):
            stored = rows.dataset.select_columns(list(encoder.columns)) if encoder is not None else rows.dataset
            processor = encoder.processor if encoder is not None else getattr(collator, "tokenizer", None)
            size = self.context.settings.eval_batch_size if pads_unseen(processor) else 0
            reading = processor_fingerprint(encoder.processor if encoder is not None else collator)
            content = stored_fingerprint(stored)
            if reading is not None and content is not None:
                cut_at = None if encoder is None else encoder.max_length
                return Digest().add([content, reading, cut_at, size]).hex()
        digest = Digest()
        for batch in self._batches(rows, Share()):
            own = batch.inputs.get(INPUTS, {}).get(self.name, batch.inputs)
            digest.add({key: value for key, value in own.items() if key not in ("labels", "label")})
        return digest.hex()


def shared_identity(reference: str | None, inputs: str | None, what: str) -> list[str] | None:
    """The hashes that a table is named by; `None` when one of them is not known, or not the same in every process.

    Processes that would look for different files must not wait for each other's: a dataset whose `map` could not be
    repeated has other rows in each of them, and each then computes its own table.
    """
    mine = (reference, inputs)
    everywhere = gather_object([mine]) if PartialState().num_processes > 1 else [mine]
    if len({entry[0] for entry in everywhere}) > 1:
        raise ValueError(
            f"{what[0].upper()}{what[1:]} does not have the same weights in all {len(everywhere)} processes. Load the "
            "same checkpoint in each; where a part of it is new, call transformers.set_seed before from_pretrained."
        )
    if len(set(everywhere)) > 1:
        logger.warning(
            "The rows are not the same in all processes: the output of %s is computed by each process for itself, and "
            "is not kept for the next run. Make the dataset once, save it, and load it in every process.",
            what,
        )
        return None
    return None if reference is None or inputs is None else [reference, inputs]
