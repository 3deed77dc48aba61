"""Images as normalised tensors in memory, cropped and mirrored at random batch by batch."""

from __future__ import annotations

import io
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional
from torch.utils.data import Dataset

from benchmarks import ROOT
from hf_pct.models.load.tasks import stack_pixels

_DECODED = ROOT / "build" / "tables" / "images"


def read_images(path: Path, size: int) -> tuple[Tensor, np.ndarray, tuple[str, ...]]:
    """Bytes of pixels, labels and class names of a parquet file; decoded once, then kept in build/."""
    import pyarrow.parquet as pq

    table = pq.read_table(path)
    names = class_names(table.schema)
    labels = np.asarray(table["label"])
    kept = _DECODED / f"{path.parent.name}-{path.stem}-{size}.npy"
    if not kept.is_file():
        from PIL import Image

        images = table["image"].to_pylist()
        opened = (Image.open(io.BytesIO(image["bytes"])).convert("RGB") for image in images)
        pixels = np.stack(
            [np.asarray(image if image.size == (size, size) else image.resize((size, size))) for image in opened]
        )
        kept.parent.mkdir(parents=True, exist_ok=True)
        partial = kept.with_suffix(f".{os.getpid()}.npy")
        np.save(partial, pixels)
        partial.rename(kept)
    return torch.from_numpy(np.load(kept)).permute(0, 3, 1, 2), labels, names


def normalised(pixels: Tensor) -> Tensor:
    """From -1 to 1, as float32: the mean and the spread that EfficientNet-Lite was trained with."""
    return pixels.float().div_(127.5).sub_(1.0)


def class_names(schema: Any) -> tuple[str, ...]:
    """The names behind the numbers in the label column, which `datasets` keeps in the file's metadata."""
    from datasets import Features

    return tuple(Features.from_arrow_schema(schema)["label"].names)


class ImageRows(Dataset):
    """Rows with `pixel_values` and `labels`; with `padding`, each is a random crop of the padded image, or its mirror.

    Draws from torch's own generator, which the trainer seeds; the old model sees the view that the new one sees.
    """

    def __init__(self, pixels: Tensor, labels: Sequence[int], padding: int = 0) -> None:
        self.pixels, self.labels, self.padding = pixels, list(labels), padding
        self.inputs_are_fixed = not padding  # what `hf_pct.fixed` declares

    def __len__(self) -> int:
        return len(self.labels)

    def __getitem__(self, index: int) -> dict[str, Any]:
        return self.__getitems__([index])[0]

    def __getitems__(self, indices: Sequence[int]) -> list[dict[str, Any]]:
        batch = self.pixels[torch.as_tensor(indices)]
        if self.padding:
            batch = crop_and_mirror(batch, self.padding)
        return [
            {"pixel_values": pixels, "labels": self.labels[index]}
            for pixels, index in zip(batch, indices, strict=True)
        ]


def crop_and_mirror(batch: Tensor, padding: int) -> Tensor:
    """Each image of a batch shifted by up to `padding` pixels in both directions, and mirrored half of the time."""
    height, width = batch.shape[-2:]
    padded = functional.pad(batch, [padding] * 4)
    tops, lefts = torch.randint(0, 2 * padding + 1, (2, len(batch))).tolist()
    mirrored = torch.rand(len(batch)) < 0.5
    views = torch.stack([
        image[:, top : top + height, left : left + width]
        for image, top, left in zip(padded, tops, lefts, strict=True)
    ])  # fmt: skip
    views[mirrored] = views[mirrored].flip(-1)
    return views


def stack_images(rows: Sequence[dict[str, Any]]) -> dict[str, Tensor]:
    """A batch as the kit makes one."""
    return {"pixel_values": stack_pixels(rows), "labels": torch.tensor([row["labels"] for row in rows])}
