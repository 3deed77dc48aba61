"""timm models in one set of files that both timm and transformers read.

timm reads `model.safetensors` with its own bare tensor names and takes architecture, classes and transform from
`config.json`. transformers' wrapper reads the very same (it adds its prefix `timm_model.` when it loads), but saves a
model that was not loaded from such files with the prefix, which timm cannot read. So the weights go up under timm's
names, once, beside a config that serves both.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from ..core.decode import JsonObject, read_json

if TYPE_CHECKING:
    from torch import Tensor, nn


PREFIX = "timm_model."
# where someone else's pretrained weights came from; these weights are others
_SOURCES = ("url", "file", "hf_hub_id", "hf_hub_filename", "source", "state_dict")


def is_timm_config(config: JsonObject) -> bool:
    """Whether a config.json is that of a timm model, as timm or as the wrapper writes it."""
    return config.get("model_type") == "timm_wrapper" or ("architecture" in config and "pretrained_cfg" in config)


def shared_config(config: JsonObject) -> JsonObject:
    """The config with everything that both libraries look for."""
    shared = dict(config)
    pretrained = {key: value for key, value in (shared.get("pretrained_cfg") or {}).items() if key not in _SOURCES}
    pretrained.setdefault("architecture", shared["architecture"])
    if shared.get("label_names"):
        shared.setdefault("num_classes", len(shared["label_names"]))
    if "num_classes" in shared:
        pretrained["num_classes"] = shared["num_classes"]
    return {**shared, "model_type": "timm_wrapper", "pretrained_cfg": pretrained}


def write_timm(folder: Path, target: Path) -> None:
    """A saved timm model, wrapped or not, from `folder` into `target` in the format that both read."""
    from safetensors.torch import load_file

    tensors: dict[str, Tensor] = {}
    for path in sorted(folder.glob("model*.safetensors")):
        tensors |= load_file(path)
    config = read_json(folder / "config.json", JsonObject, "the config of a timm model")
    _write(tensors, shared_config(config), target)


def write_raw_timm(
    model: nn.Module, target: Path, label_names: Sequence[str] | None, model_args: JsonObject | None
) -> None:
    """A timm model in memory. What `timm.create_model` was called with is not recorded in it: see `model_args`."""
    pretrained = {key: value for key, value in dict(model.pretrained_cfg).items() if value is not None}
    names = list(label_names or pretrained.pop("label_names", None) or ())
    if len(names) != model.num_classes:
        raise ValueError(
            f"The timm model has {model.num_classes} classes and {len(names)} label names. Pass label_names, the "
            "classes in the order of the logits, so that whoever loads the model knows what it answers."
        )
    state = model.state_dict()
    arguments = {**_input_channels(pretrained, state), **(model_args or {})}
    config = {
        "architecture": pretrained["architecture"],
        "architectures": ["TimmWrapperForImageClassification"],
        "num_classes": model.num_classes,
        "num_features": model.num_features,
        "label_names": names,
        "pretrained_cfg": pretrained,
        **({"model_args": arguments} if arguments else {}),
    }
    _write(state, shared_config(config), target)


def _input_channels(pretrained: JsonObject, state: Mapping[str, Tensor]) -> dict[str, int]:
    """The one argument that can be read off the weights: grey images, or more bands than three."""
    first = pretrained.get("first_conv")
    weight = state.get(f"{first}.weight") if isinstance(first, str) else None
    return {} if weight is None or weight.ndim < 2 or weight.shape[1] == 3 else {"in_chans": int(weight.shape[1])}


def _write(tensors: Mapping[str, Tensor], config: JsonObject, target: Path) -> None:
    from safetensors.torch import save_file

    bare = {name.removeprefix(PREFIX): tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}
    save_file(bare, target / "model.safetensors", metadata={"format": "pt"})
    (target / "config.json").write_text(json.dumps(config, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
