"""How each kind of model reads rows: texts, images, sounds, or rows as they are.

A task prepares rows, each by itself, and collates prepared rows to a batch. With `by_cost`, rows of a similar cost go
into one batch, so that little of it is padding.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import torch
from transformers import Wav2Vec2FeatureExtractor

from ...core.decode import JsonObject
from ..fingerprints import encoded_image
from ..types import Processor, Row

if TYPE_CHECKING:
    from PIL.Image import Image
    from transformers import FeatureExtractionMixin, PreTrainedTokenizerBase


@dataclass(frozen=True)
class TextTask:
    """Sentences, or pairs of sentences, for a sequence classifier."""

    tokenizer: PreTrainedTokenizerBase
    max_length: int | None = None
    kind = "text"
    usual_columns = ("text", "sentence", "utterance", "query", "utt")
    by_cost = True

    def prepare(self, values: list[object]) -> list[JsonObject]:
        """Tokenize texts (or pairs of texts) without padding: each batch is padded to its own longest."""
        pairs = [value if isinstance(value, (tuple, list)) else (value,) for value in values]
        columns = [list(column) for column in zip(*pairs, strict=True)]
        encoded = self.tokenizer(*columns, truncation=True, max_length=self.max_length)
        return [{name: column[row] for name, column in encoded.items()} for row in range(len(values))]

    def collate(self, rows: Sequence[Row]) -> dict[str, torch.Tensor]:
        return dict(self.tokenizer.pad(rows, return_tensors="pt"))

    def cost(self, row: Row) -> int:
        return len(row["input_ids"])


def stack_pixels(rows: Sequence[Row]) -> torch.Tensor:
    """A batch of images with the channels last, in which convolutions are faster on a processor."""
    return torch.stack([row["pixel_values"] for row in rows]).contiguous(memory_format=torch.channels_last)


@dataclass(frozen=True)
class ImageTask:
    """Images for an image classifier; `transform` turns one PIL image into one tensor."""

    transform: Callable[[Image], torch.Tensor]
    mode: str = "RGB"
    kind = "image"
    usual_columns = ("image", "img")
    by_cost = False

    def prepare(self, values: list[object]) -> list[JsonObject]:
        return [{"pixel_values": self.transform(_as_pil(value).convert(self.mode))} for value in values]

    def collate(self, rows: Sequence[Row]) -> dict[str, torch.Tensor]:
        return {"pixel_values": stack_pixels(rows)}

    def cost(self, row: Row) -> int:
        return 1


@dataclass(frozen=True)
class AudioTask:
    """Sounds for an audio classifier, at the rate that it was trained with.

    Models that normalise over a whole sound, padding included, take one sound at a time: an answer must not depend on
    its neighbours in a batch.
    """

    extractor: FeatureExtractionMixin
    kind = "audio"
    usual_columns = ("audio", "speech")
    by_cost = False

    @property
    def largest_batch(self) -> int | None:
        """How many sounds may go into one batch, where that is limited."""
        pads_unseen = isinstance(self.extractor, Wav2Vec2FeatureExtractor) and not self.extractor.return_attention_mask
        return 1 if pads_unseen else None

    def prepare(self, values: list[object]) -> list[JsonObject]:
        return [{"sound": self._samples(value)} for value in values]

    def collate(self, rows: Sequence[Row]) -> dict[str, torch.Tensor]:
        sounds = [row["sound"] for row in rows]
        rate = self.extractor.sampling_rate
        return dict(self.extractor(sounds, sampling_rate=rate, padding=True, return_tensors="pt"))

    def cost(self, row: Row) -> int:
        return len(row["sound"])

    def _samples(self, value: object) -> np.ndarray:
        samples, rate = read_sound(value)
        wanted = self.extractor.sampling_rate
        if rate is not None and rate != wanted:
            raise ValueError(
                f"A sound has {rate} samples per second and the model was trained with {wanted}. Resample the data, "
                f"for example dataset.cast_column('audio', datasets.Audio(sampling_rate={wanted})) with torchcodec."
            )
        return samples if samples.ndim == 1 else samples.mean(axis=int(samples.shape[0] > samples.shape[-1]))


@dataclass(frozen=True)
class RowTask:
    """Rows as they are, for a function that reads them itself."""

    kind = "rows"
    usual_columns = (*TextTask.usual_columns, *ImageTask.usual_columns, *AudioTask.usual_columns)
    by_cost = False

    def prepare(self, values: list[object]) -> list[JsonObject]:
        return [{"row": value} for value in values]

    def collate(self, rows: Sequence[Row]) -> JsonObject:
        return {"rows": [row["row"] for row in rows]}

    def cost(self, row: Row) -> int:
        return 1


def pads_unseen(processor: Processor) -> bool:
    """Whether a model is not told which tokens are padding: its answers then depend on their neighbours in a batch."""
    if isinstance(processor, tuple):  # a pair of models that read differently
        return any(map(pads_unseen, processor))
    names = getattr(processor, "model_input_names", ())
    return "input_ids" in names and "attention_mask" not in names


SIDES = ("of_old_", "of_new_")
"""How the inputs of each model of a pair start in a batch, where the two read rows differently."""


@dataclass(frozen=True)
class PairTask:
    """Rows for two models that read them differently: each row is prepared by both, side by side in one batch."""

    old: Task
    new: Task
    by_cost = False

    @property
    def kind(self) -> str:
        return self.new.kind

    @property
    def usual_columns(self) -> tuple[str, ...]:
        return self.new.usual_columns

    @property
    def max_length(self) -> str:
        """Both limits, as part of what an answer depends on."""
        return str([getattr(task, "max_length", None) for task in (self.old, self.new)])

    def prepare(self, values: list[object]) -> list[JsonObject]:
        sides = (task.prepare(values) for task in (self.old, self.new))
        return [dict(zip(SIDES, rows, strict=True)) for rows in zip(*sides, strict=True)]

    def collate(self, rows: Sequence[Row]) -> JsonObject:
        batch: JsonObject = {}
        for side, task in zip(SIDES, (self.old, self.new), strict=True):
            collated = task.collate([row[side] for row in rows])
            batch |= {side + name: value for name, value in collated.items()}
        return batch

    def cost(self, row: Row) -> int:
        return self.old.cost(row[SIDES[0]]) + self.new.cost(row[SIDES[1]])


Task = TextTask | ImageTask | AudioTask | RowTask | PairTask


def read_sound(value: object) -> tuple[np.ndarray, int | None]:
    """Samples and their rate, from samples, a decoded or an encoded sound, a file, or a torchcodec decoder."""
    if hasattr(value, "get_all_samples"):
        decoded = value.get_all_samples()
        return np.asarray(decoded.data, dtype=np.float32), int(decoded.sample_rate)
    if isinstance(value, dict) and value.get("array") is not None:
        return np.asarray(value["array"], dtype=np.float32), value.get("sampling_rate")
    if isinstance(value, dict):
        return _decode_wave(value.get("bytes") or Path(value["path"]).read_bytes())
    if isinstance(value, (str, Path)):
        return _decode_wave(Path(value).read_bytes())
    return np.asarray(value, dtype=np.float32), None


def _decode_wave(content: bytes) -> tuple[np.ndarray, int]:
    """A WAV file of whole numbers, which the standard library reads; other formats need a decoder."""
    import io
    import wave

    try:
        with wave.open(io.BytesIO(content)) as file:
            width, channels, rate = file.getsampwidth(), file.getnchannels(), file.getframerate()
            raw = file.readframes(file.getnframes())
    except (wave.Error, EOFError) as error:
        raise ValueError(
            f"A sound is no WAV file of whole numbers ({error}). Decode it first, into a column of samples, or "
            "convert it to 16-bit WAV."
        ) from error
    if width not in (2, 4):
        raise ValueError(f"A WAV file has {8 * width} bits per sample, expected 16 or 32.")
    samples = np.frombuffer(raw, dtype=f"<i{width}").reshape(-1, channels).mean(axis=1) / float(2 ** (8 * width - 1))
    return samples.astype(np.float32), rate


def _as_pil(value: object) -> Image:
    import PIL.Image

    if isinstance(value, PIL.Image.Image):
        return value
    if isinstance(value, (str, Path)):
        return PIL.Image.open(value)
    if isinstance(value, dict) and "bytes" in value:  # another library wrote the table without saying so
        return PIL.Image.open(BytesIO(encoded_image(value)))
    return PIL.Image.fromarray(np.asarray(value))
