"""Whether two models read inputs in the same way."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

_PROBE = ["Wake me at 7:30 tomorrow, naïve SHOUTING and under_scores!"]
_PIXELS = (
    "size", "crop_size", "do_resize", "do_center_crop", "do_rescale", "rescale_factor", "do_normalize",
    "image_mean", "image_std", "data_config",
)  # fmt: skip


def reads_text(processor: Any) -> bool:
    """A tokenizer, and not an image processor."""
    return hasattr(processor, "get_vocab")


def same_processor(first: Any, second: Any) -> bool:
    """Whether both make the same inputs of the same row; unknown processors are taken at their word."""
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


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping) or hasattr(value, "items"):
        return {key: _plain(each) for key, each in value.items()}
    return list(value) if isinstance(value, list | tuple) else value
