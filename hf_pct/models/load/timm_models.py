"""timm models as transformers classifiers, ready to be trained from scratch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from transformers import TimmWrapperForImageClassification, TimmWrapperImageProcessor


def timm_classifier(
    architecture: str, label_names: Sequence[str], image_size: int | None = None, **model_args: object
) -> tuple[TimmWrapperForImageClassification, TimmWrapperImageProcessor]:
    """A timm model behind the transformers wrapper with **timm's own** initial weights, and its image processor.

    The wrapper re-initialises what timm has set up (zero-initialised residual scales become one), from which deep
    networks train worse; so the weights of a fresh timm model are copied over it. Draws from torch's global generator.
    """
    import timm
    from timm.data import resolve_data_config
    from transformers import TimmWrapperConfig, TimmWrapperForImageClassification, TimmWrapperImageProcessor

    if not timm.is_model(architecture):
        alike = timm.list_models(f"*{architecture.split('_')[0]}*")[:5]
        raise ValueError(f"timm has no architecture {architecture!r}; close ones: {', '.join(alike) or 'none'}.")
    fresh = timm.create_model(architecture, num_classes=len(label_names), **model_args)
    reading = {**fresh.pretrained_cfg, **resolve_data_config(model=fresh)}
    if image_size is not None:
        reading |= {"input_size": (reading["input_size"][0], image_size, image_size), "crop_pct": 1.0}
    kept = ("input_size", "interpolation", "mean", "std", "crop_pct", "crop_mode")
    config = TimmWrapperConfig(
        architecture=architecture,
        id2label=dict(enumerate(label_names)),
        label2id={name: index for index, name in enumerate(label_names)},
        model_args=model_args,
        pretrained_cfg={key: reading[key] for key in kept if key in reading},
    )
    model = TimmWrapperForImageClassification(config)
    model.timm_model.load_state_dict(fresh.state_dict())
    return model, TimmWrapperImageProcessor(config.pretrained_cfg, architecture=architecture)
