"""Raw rows made into inputs by a model's own processor, where two models read inputs differently."""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor

from ...models.load.processors import reads_text, same_processor
from ...models.types import Processor, Row


class RawEncoder:
    """Raw columns of rows to a batch of inputs, by a model's own tokenizer or image processor."""

    def __init__(self, processor: Processor, columns: Sequence[str]) -> None:
        self.processor, self.columns = processor, tuple(columns)
        self.max_length: int | None = None  # the tokenizer's own limit

    def __call__(self, rows: Sequence[Row]) -> dict[str, Tensor]:
        values = [[row[column] for row in rows] for column in self.columns]
        if reads_text(self.processor):
            cut = {"truncation": True, "max_length": self.max_length}
            return dict(self.processor(*values, **cut, padding=True, return_tensors="pt"))
        images = [image.convert("RGB") if hasattr(image, "convert") else image for image in values[0]]
        return dict(self.processor(images=images, return_tensors="pt"))


def own_encoder(
    old: Processor | None, new: Processor | None, columns: Sequence[str] | None, available: Sequence[str]
) -> RawEncoder | None:
    """How the old model reads rows: `None` when as the new one does, else its own processor on raw columns.

    Raises when the two read differently and the rows hold nothing that the old one could be given.
    """
    if columns is None and same_processor(old, new):
        return None
    chosen = (
        list(columns) if columns is not None else [name for name in ("text", "image", "img") if name in available][:1]
    )
    if old is None or not chosen or not set(chosen) <= set(available):
        kind = "tokenizer" if reads_text(new or old) else "image processor"
        chosen_columns = f"reference_columns={list(columns)}" if columns is not None else "no reference_columns"
        raise ValueError(
            f"The old model's {kind} ({type(old).__name__}) does not make the inputs that the new model's "
            f"({type(new).__name__}) makes, or is not known, and the rows hold no raw column for it "
            f"({chosen_columns}, columns {sorted(available)}). Keep the raw column in the dataset and pass "
            "reference_columns=['text'] (or ['image']) with old_processor=AutoTokenizer.from_pretrained(old) (or "
            "AutoImageProcessor); or give the old model's logits as a column 'old_logits'."
        )
    return RawEncoder(old, chosen)
