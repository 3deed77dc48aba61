"""One reference of a trainer, from what the caller named to logits: of a batch, or of a dataset as a table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from torch import Tensor, nn

from ..labels import check_label_names
from ..tasks import label_names_of
from .processors import RawEncoder, own_encoder
from .references import AdapterReference, Reference, load_reference
from .rows import INPUTS, LOGITS, ReferenceRows, Table
from .tables import Layout, describe_collator, load_or_compute, shared_identity, table_dir, table_name

if TYPE_CHECKING:
    from .base import PCTrainer


@dataclass(frozen=True)
class Named:
    """What a caller says about a reference.

    `model` is a Hub id, a folder, a module or a reference; or a function that makes a reference once there is one, and
    returns `None` before. `column` names the dataset column that may hold its logits, and `top_k` says that no more
    than its largest logits are needed in training.
    """

    model: Any = None
    revision: str | None = None
    adapter: str | None = None
    processor: Any = None
    label_names: Sequence[str] | None = None
    column: str | None = None
    top_k: int | None = None
    title: str = field(default="the old model")


class ReferencePart:
    """A reference that is loaded when it is first needed, and again if it was let go."""

    def __init__(self, trainer: PCTrainer, name: str, named: Named) -> None:
        self.trainer, self.name, self.named = trainer, name, named
        self._reference: Reference | None = None
        self.encoder: RawEncoder | None = None
        self.label_names = self._find_label_names()

    @property
    def made_later(self) -> bool:
        """Whether what was named is a function that makes the reference when it can."""
        named = self.named.model
        return callable(named) and not isinstance(named, nn.Module) and not hasattr(named, "logits")

    @property
    def reference(self) -> Reference | None:
        named, new = self.named, self.trainer.processing_class
        if self._reference is None and named.adapter:
            names = label_names_of(self.trainer.model)
            self._reference = AdapterReference(self.trainer.model, named.adapter, names)
        elif self._reference is None and self.made_later:
            self._reference = named.model()
        elif self._reference is None and named.model is not None:
            self._reference = load_reference(named.model, named.revision, named.processor, new)
        return self._reference

    def let_go(self) -> None:
        """Free the memory of a reference that was loaded here; one that the caller made stays the caller's."""
        if not isinstance(self.named.model, nn.Module):
            self._reference = None

    def _find_label_names(self) -> tuple[str, ...] | None:
        if self.named.label_names is not None:
            return check_label_names(self.named.label_names, f"{self.name}_label_names")
        return None if self.reference is None else self.reference.label_names

    def read_raw_columns(self, available: Sequence[str]) -> None:
        """Find out how this reference reads rows: as the new model does, or with its own processor."""
        if not self.made_later and self.reference is not None:
            new, chosen = self.trainer.processing_class, self.trainer.args.reference_columns
            self.encoder = own_encoder(self.reference.processor, new, chosen, available)

    # ---- logits

    def logits(self, inputs: Mapping[str, Any]) -> Tensor | None:
        """Logits of a batch: those it carries, or this reference's answer now."""
        key = LOGITS + self.name
        return inputs[key] if key in inputs else self.ask(inputs)

    def ask(self, inputs: Mapping[str, Any]) -> Tensor | None:
        reference = self.reference
        if reference is None:
            return None
        with self.trainer.accelerator.autocast():
            own = inputs.get(INPUTS, {}).get(self.name, inputs)
            return reference.to(self.trainer.args.device).logits(own)

    def table(self, dataset: Any, rows: ReferenceRows, training: bool) -> Table:
        """The logits of every row, from disk if they were computed before."""
        layout = Layout(len(self.label_names or ()), self.named.top_k if training else None)
        path, args, what = self._path(dataset, rows, layout), self.trainer.args, f"The output of {self.named.title}"
        return load_or_compute(
            path, rows, layout, self._of_rows, args.eval_batch_size, what, progress=not args.disable_tqdm
        )

    def _of_rows(self, rows: list[Mapping[str, Any]]) -> Tensor:
        collate = self.trainer._get_collator_with_removed_columns(self.trainer.data_collator)
        logits = self.ask(self.trainer._prepare_inputs(collate(rows)))
        if logits is None:
            raise RuntimeError(f"{self.named.title} was let go while it was still needed.")
        return logits

    def _path(self, dataset: Any, rows: ReferenceRows, layout: Layout) -> Any:
        """Where the table is kept, or `None` when what it depends on cannot be told from outside."""
        collator = self.trainer.data_collator
        parts = shared_identity(
            self.reference.fingerprint() if self.reference is not None else None,
            getattr(dataset, "_fingerprint", None),
            self.encoder.describe() if self.encoder else describe_collator(getattr(collator, "collate", collator)),
            self.named.title,
        )
        if parts is None:
            return None
        kept = (layout.top_k,) if layout.sparse else ()
        return table_dir(self.trainer.args.reference_cache_dir) / table_name(
            *parts, rows.views, rows.seed if rows.views else 0, *kept
        )
