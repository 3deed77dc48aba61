"""What kind of classifier a config or a module is."""

from __future__ import annotations

from typing import TYPE_CHECKING

from transformers import PreTrainedModel
from transformers.models.auto.modeling_auto import (
    MODEL_FOR_AUDIO_CLASSIFICATION_MAPPING_NAMES,
    MODEL_FOR_IMAGE_CLASSIFICATION_MAPPING_NAMES,
    MODEL_FOR_SEQUENCE_CLASSIFICATION_MAPPING_NAMES,
)

if TYPE_CHECKING:
    from torch import nn
    from transformers import PretrainedConfig

ENSEMBLE_FILE = "pct_ensemble.json"
"""The file that makes a folder an ensemble."""
FUSION_FILE = "pct_fusion.json"
"""The file that makes a folder an old and a new model that answer together."""


def is_raw_timm(model: nn.Module) -> bool:
    """A timm model as timm makes it, without the transformers wrapper."""
    return hasattr(model, "pretrained_cfg") and not isinstance(model, PreTrainedModel)


def kind_of(config: PretrainedConfig) -> str:
    """`text`, `image` or `audio`: by the class that the config names, or else by its type of model."""
    named = architecture_of(config)
    kind: str = getattr(config, "model_type", "")
    if named.endswith("ForImageClassification"):
        return "image"
    if named.endswith("ForAudioClassification"):
        return "audio"
    if named.endswith("ForSequenceClassification") and kind in MODEL_FOR_SEQUENCE_CLASSIFICATION_MAPPING_NAMES:
        return "text"  # Wav2Vec2ForSequenceClassification is none of the text classifiers
    if kind in MODEL_FOR_IMAGE_CLASSIFICATION_MAPPING_NAMES:
        return "image"
    audio = kind in MODEL_FOR_AUDIO_CLASSIFICATION_MAPPING_NAMES
    return "audio" if audio and kind not in MODEL_FOR_SEQUENCE_CLASSIFICATION_MAPPING_NAMES else "text"


def architecture_of(config: PretrainedConfig) -> str:
    """The class that a config was saved from."""
    return (getattr(config, "architectures", None) or [""])[0]


def is_image_config(config: PretrainedConfig) -> bool:
    """Whether a config is of an image classifier."""
    return kind_of(config) == "image"


def refuse_other_problems(config: PretrainedConfig | None, name: str) -> None:
    """Only models with one right answer per row can be measured by flips."""
    problem = getattr(config, "problem_type", None)
    if problem in ("regression", "multi_label_classification"):
        raise ValueError(
            f"The problem_type of {name} is {problem!r}, expected single-label classification: a flip is about the "
            "one answer of a row. Compare tables of scores per row instead (`hf-pct compare` takes them)."
        )
