"""The models of the tables by name: small timm ResNets, EfficientNet-Lite with ImageNet weights, small encoders."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

# ResNets of one family that differ in depth only, half as wide as usual: 10, 18 and 26 layers
_HALF = {"channels": [32, 64, 128, 256]}
RESNETS: dict[str, tuple[str, dict[str, Any]]] = {
    "resnet10": ("resnet18", {"layers": [1, 1, 1, 1], **_HALF}),
    "resnet18": ("resnet18", {"layers": [2, 2, 2, 2], **_HALF}),
    "resnet26": ("resnet18", {"layers": [3, 3, 3, 3], **_HALF}),
}
LITES = {"lite0": "tf_efficientnet_lite0", "lite2": "tf_efficientnet_lite2"}
# by name: the pretrained weights, and how many of their layers are kept; none: all
ENCODERS = {"minilm-l6": ("minilm-l6", None), "minilm-l3": ("minilm-l3", None), "minilm-l1": ("minilm-l3", 1),
            "granite": ("granite", None)}  # fmt: skip


def fresh_model(name: str, label_names: Sequence[str], drop_rate: float | None = None) -> tuple[Any, Any]:
    """A model by name with a new head for these classes, and its processor. Draws from torch's own generator."""
    if name in ENCODERS:
        return _encoder(name, label_names, drop_rate)
    from hf_pct.models.load.timm_models import timm_classifier

    options = {} if drop_rate is None else {"drop_rate": drop_rate}
    if name == "tiny":
        return timm_classifier("test_resnet", label_names, 16, **options)
    if name in RESNETS:
        architecture, arguments = RESNETS[name]
        return timm_classifier(architecture, label_names, 32, **arguments, **options)
    from benchmarks.tables.inputs.pretrained import lite_weights

    model, processor = timm_classifier(LITES[name], label_names, 128, **options)
    lite_weights(name, model.timm_model)
    return model, processor


def _encoder(name: str, label_names: Sequence[str], drop_rate: float | None) -> tuple[Any, Any]:
    import torch
    from transformers import AutoModelForSequenceClassification, AutoTokenizer

    from benchmarks.tables.inputs.pretrained import encoder_folder

    weights, layers = ENCODERS[name]
    folder = encoder_folder(weights)
    names = dict(enumerate(label_names))
    options: dict[str, Any] = {} if drop_rate is None else {"classifier_dropout": drop_rate}
    options |= {} if layers is None else {"num_hidden_layers": layers}
    model = AutoModelForSequenceClassification.from_pretrained(
        folder, num_labels=len(names), id2label=names, label2id={label: at for at, label in names.items()},
        use_safetensors=True, dtype=torch.float32, **options,
    )  # fmt: skip
    return model, AutoTokenizer.from_pretrained(folder)


def kept_model(folder: Path) -> tuple[Any, Any]:
    """A cell's model and its processor, from its folder."""
    from hf_pct.models.load import load_model

    loaded = load_model(str(folder))
    return loaded.model, loaded.processor
