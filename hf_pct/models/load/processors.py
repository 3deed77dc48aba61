"""Tokenizers, image processors and feature extractors: loading them, what they can take, and whether two agree."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from torch import Tensor, nn
from transformers import AutoFeatureExtractor, AutoImageProcessor, AutoTokenizer

from ..types import Processor
from .tasks import AudioTask, ImageTask

if TYPE_CHECKING:
    from PIL.Image import Image
    from transformers import PreTrainedTokenizerBase


class _Loader(Protocol):
    def from_pretrained(self, name: str, /, *, revision: str | None) -> Processor: ...


_LOADERS: dict[str, tuple[str, _Loader]] = {
    "text": ("tokenizer", AutoTokenizer),
    "image": ("image processor", AutoImageProcessor),
    "audio": ("feature extractor", AutoFeatureExtractor),
}
_PROBE = ["Wake me at 7:30 tomorrow, naïve SHOUTING and under_scores!"]
_PIXELS = (
    "size", "crop_size", "do_resize", "do_center_crop", "do_rescale", "rescale_factor", "do_normalize",
    "image_mean", "image_std", "data_config",
)  # fmt: skip


def reads_text(processor: Processor) -> bool:
    """A tokenizer, and not an image processor."""
    return hasattr(processor, "get_vocab")


def same_processor(first: Processor | None, second: Processor | None) -> bool:
    """Whether both make the same inputs of the same row; one that is not known counts as the same."""
    if first is None or second is None or first is second:
        return True
    if reads_text(first) != reads_text(second):
        return False
    if reads_text(first):
        return first.get_vocab() == second.get_vocab() and first(_PROBE)["input_ids"] == second(_PROBE)["input_ids"]
    if not hasattr(first, "to_dict") and not hasattr(second, "to_dict"):
        return str(first) == str(second)  # transforms of a bare timm model, step by step
    return type(first) is type(second) and all(
        _plain(getattr(first, name, None)) == _plain(getattr(second, name, None)) for name in _PIXELS
    )


def _plain(value: object) -> object:
    if isinstance(value, Mapping) or hasattr(value, "items"):
        return {key: _plain(entry) for key, entry in value.items()}
    return list(value) if isinstance(value, list | tuple) else value


def load_processor(processor: Processor, kind: str, revision: str | None, model: nn.Module) -> Processor:
    """The processor that was given, or the one saved in a folder or on the Hub."""
    if processor is not None and not isinstance(processor, (str, Path)):
        return processor
    title, auto = _LOADERS[kind]
    problem = "none was given"
    if processor:
        try:
            loaded = auto.from_pretrained(str(processor), revision=revision)
            # where no tokenizer is saved, transformers makes an empty one that reads every word as unknown
            if kind != "text" or len(loaded) > len(loaded.all_special_tokens):
                return loaded
            problem = f"{processor} has none (its vocabulary is empty)"
        except (OSError, ValueError, TypeError, KeyError, AttributeError) as error:
            problem = f"{processor} has none: {(str(error) or type(error).__name__).splitlines()[0]}"
    raise ValueError(
        f"{type(model).__name__} needs its {title}, and {problem}. Pass processor= (--processor), the {title} that "
        "the model was trained with, or save it into the model's folder."
    )


def image_task(processor: Processor) -> ImageTask:
    """How an image model reads images."""
    if hasattr(processor, "val_transforms"):  # timm through the wrapper: its own transform, without the detour
        channels = getattr(processor, "data_config", {}).get("input_size", (3,))[0]
        return ImageTask(processor.val_transforms, "L" if channels == 1 else "RGB")
    return ImageTask(lambda image: processor(images=image, return_tensors="pt")["pixel_values"][0])


def timm_transform(model: nn.Module) -> tuple[Callable[[Image], Tensor], str]:
    """How a bare timm model reads images, and their colour mode."""
    from timm.data import create_transform, resolve_model_data_config

    settings = resolve_model_data_config(model)
    return create_transform(**settings, is_training=False), "L" if settings["input_size"][0] == 1 else "RGB"


def audio_task(processor: Processor, model: nn.Module) -> AudioTask:
    """How an audio model reads sounds; a processor of sounds and texts lends its half for sounds."""
    extractor = getattr(processor, "feature_extractor", processor)
    if not hasattr(extractor, "sampling_rate"):
        raise ValueError(
            f"{type(model).__name__} is an audio classifier and needs a feature extractor with a sampling_rate, not a "
            f"{type(processor).__name__}. Pass processor=AutoFeatureExtractor.from_pretrained(...)."
        )
    return AudioTask(extractor)


def text_limit(tokenizer: PreTrainedTokenizerBase, model: nn.Module, chosen: int | None = None) -> int | None:
    """How many tokens a text may have: what was chosen, or what both the tokenizer and the model can take."""
    positions = position_limit(model)
    if chosen is not None:
        if positions is not None and chosen > positions:
            raise ValueError(
                f"max_length is {chosen}, but {type(model).__name__} has positions for {positions} tokens. "
                f"Expected at most {positions}."
            )
        return chosen
    stated = getattr(tokenizer, "model_max_length", None)
    if stated is not None and (isinstance(stated, bool) or not isinstance(stated, int | float) or not stated >= 1):
        raise ValueError(f"model_max_length of the tokenizer is {stated!r}, expected a number of tokens, at least 1.")
    if stated is None or stated > 1_000_000:  # tokenizers without a limit state a huge one
        return positions or getattr(getattr(model, "config", None), "max_position_embeddings", None)
    return int(stated) if positions is None else min(int(stated), positions)


def position_limit(model: nn.Module) -> int | None:
    """How many tokens a model has learnt positions for; None for one whose positions are computed."""
    for name, module in model.named_modules():
        last = name.rpartition(".")[2]
        if last in ("position_embeddings", "wpe", "embed_positions", "position_embedding") and isinstance(
            module, nn.Embedding
        ):
            # RoBERTa counts positions from the padding index on, BART and OPT from an offset
            skipped = module.padding_idx + 1 if module.padding_idx is not None else getattr(module, "offset", 0)
            return int(module.num_embeddings) - int(skipped)
    return None
