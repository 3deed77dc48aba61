"""Text and image classification behind one face: Auto classes, processor, collating, in one place for both.

Everything that differs between a RoBERTa intent classifier and a timm image model is in this file. The rest of the kit
asks a `LoadedModel` for its `task` and does not know which it is. Several models that answer as one are in
`ensembles/`; here their folder is recognised, and little else is known of them.
"""

import inspect
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from torch import nn
from transformers import (
    AutoConfig,
    AutoImageProcessor,
    AutoModelForImageClassification,
    AutoModelForSequenceClassification,
    AutoTokenizer,
    PreTrainedModel,
)
from transformers.models.auto.modeling_auto import MODEL_FOR_IMAGE_CLASSIFICATION_MAPPING_NAMES

from .revisions import commit_in_cache

ENSEMBLE_FILE = "pct_ensemble.json"
_PICKLED = ("pytorch_model*.bin", "*.pt", "*.pth", "*.ckpt", "*.pkl")


@dataclass(frozen=True)
class TextTask:
    """Sentences, or pairs of sentences, for a sequence classifier."""

    tokenizer: Any
    max_length: int | None = None
    kind = "text"
    usual_columns = ("text", "sentence", "utterance", "query", "utt")

    def prepare(self, values: list[Any]) -> list[dict[str, Any]]:
        """Tokenize texts (or pairs of texts) without padding: each batch is padded to its own longest."""
        pairs = [value if isinstance(value, (tuple, list)) else (value,) for value in values]
        columns = [list(column) for column in zip(*pairs, strict=True)]
        encoded = self.tokenizer(*columns, truncation=True, max_length=self.max_length)
        return [{name: column[row] for name, column in encoded.items()} for row in range(len(values))]

    def collate(self, rows: list[dict[str, Any]]) -> dict[str, torch.Tensor]:
        return dict(self.tokenizer.pad(rows, return_tensors="pt"))

    def cost(self, row: dict[str, Any]) -> int:
        """Rows of a similar cost go into one batch, so that little of it is padding."""
        return len(row["input_ids"])


@dataclass(frozen=True)
class ImageTask:
    """Images for an image classifier; `transform` turns one PIL image into one tensor."""

    transform: Any
    mode: str = "RGB"
    kind = "image"
    usual_columns = ("image", "img")

    def prepare(self, values: list[Any]) -> list[dict[str, Any]]:
        return [{"pixel_values": self.transform(_as_pil(value).convert(self.mode))} for value in values]

    def collate(self, rows: list[dict[str, Any]]) -> dict[str, torch.Tensor]:
        return {"pixel_values": torch.stack([row["pixel_values"] for row in rows])}


Task = TextTask | ImageTask


@dataclass(frozen=True)
class LoadedModel:
    """A model with what it takes to run it. `label_names` is None for a bare module that does not say its classes."""

    model: nn.Module
    task: Task
    processor: Any
    label_names: tuple[str, ...] | None
    name: str | None = None
    revision: str | None = None

    def logits(self, batch: dict[str, torch.Tensor]) -> torch.Tensor:
        """The model's outputs for one collated batch."""
        return ask(self.model, batch)


def load_model(
    model: str | Path | nn.Module,
    *,
    processor: Any = None,
    revision: str | None = None,
    max_length: int | None = None,
    label_names: list[str] | tuple[str, ...] | None = None,
    dtype: torch.dtype = torch.float32,
) -> LoadedModel:
    """A classifier from a Hub id, a folder, or a module: transformers text and image models, timm wrapped or raw.

    An `Ensemble`, or the folder that `save_ensemble` wrote, is a model like any other. Weights are read from
    safetensors only, and code from a repository is never run.

    Args:
        model: a Hub id, a folder, a transformers model, or a timm model.
        processor: the tokenizer or image processor (an object, a Hub id or a folder) when it is not saved with the
            model.
        revision: a branch, tag or commit on the Hub.
        max_length: texts are cut at this many tokens; the tokenizer's own limit by default.
        label_names: the classes in the order of the logits, for a module that does not say them.
        dtype: float32, so that two models differ by their weights and not by rounding.
    """
    if isinstance(model, nn.Module):
        return _wrap_module(model, processor, max_length, label_names)
    name = str(model)
    if (Path(name) / ENSEMBLE_FILE).is_file() and not (Path(name) / "config.json").is_file():
        from .ensembles.folders import load_ensemble

        return load_ensemble(name, processor=processor, max_length=max_length, label_names=label_names, dtype=dtype)
    module, revision, _ = load_weights(name, revision, dtype)
    loaded = _wrap_module(module, processor or name, max_length, label_names, revision)
    return LoadedModel(module, loaded.task, loaded.processor, loaded.label_names, name, revision)


def load_weights(
    name: str,
    revision: str | None = None,
    dtype: torch.dtype = torch.float32,
    label_names: Sequence[str] | None = None,
) -> tuple[nn.Module, str | None, set[str]]:
    """A transformers model, the commit it is of, and the weights that its files lack or have in another size.

    With `label_names` it gets a head for these classes: what a base model is given before its adapters.
    """
    config = load_config(name, revision)
    revision = commit_in_cache(name, revision) or revision  # weights and tokenizer of the same commit as the config
    _refuse_pickled(Path(name))
    auto: Any = AutoModelForImageClassification if is_image_config(config) else AutoModelForSequenceClassification
    options: dict[str, Any] = {"revision": revision, "use_safetensors": True, "dtype": dtype}
    if label_names is not None:
        config.id2label = dict(enumerate(label_names))
        config.label2id = {label: index for index, label in enumerate(label_names)}
        if hasattr(config, "label_names"):  # timm's wrapper keeps them a second time, and believes these
            config.label_names = list(label_names)
        options |= {"config": config, "ignore_mismatched_sizes": True}
    try:
        module, loading = auto.from_pretrained(name, output_loading_info=True, **options)
    except (OSError, ValueError, SafetensorError) as error:
        raise ValueError(
            f"The weights of {name} cannot be loaded from safetensors: {str(error).splitlines()[0]} Expected a "
            "complete model.safetensors; pickled weights are refused because loading them can run any code."
        ) from error
    other_size = {entry[0] for entry in loading["mismatched_keys"]}
    return module, revision, {*loading["missing_keys"], *other_size}


def stated_labels(model: nn.Module) -> tuple[str, ...] | None:
    """The classes that a model says it has, in the order of its logits."""
    if is_raw_timm(model):
        names = (getattr(model, "pretrained_cfg", None) or {}).get("label_names")
        return tuple(names) if names else None
    names = getattr(getattr(model, "config", None), "id2label", None)
    return tuple(str(names[index]) for index in sorted(names, key=int)) if names else None


def label_names_of(model: nn.Module) -> tuple[str, ...]:
    """The names of a model's classes in the order of its logits, from its config; an error where it has none."""
    names = stated_labels(model.get_base_model() if hasattr(model, "get_base_model") else model)
    if not names:
        raise ValueError(
            f"{type(model).__name__} has no `config.id2label`, so its classes have no names, and they are matched by "
            "name. Set it; a reference may instead be ModelReference(model, label_names=[...], name=...)."
        )
    return names


def accepted_inputs(model: Any) -> set[str]:
    """The inputs that a model's forward names, labels aside; an ensemble also takes what any of its members takes."""
    base = model.get_base_model() if hasattr(model, "get_base_model") else model
    names = set(inspect.signature(base.forward).parameters) - {"labels"}
    members = model.members if hasattr(model, "member_logits") else ()
    return names.union(*(accepted_inputs(member) for member in members))


def ask(model: nn.Module, inputs: Mapping[str, Any]) -> torch.Tensor:
    """A classifier's logits for a batch, which may hold more inputs than its forward names."""
    names = accepted_inputs(model)
    known = {name: value for name, value in inputs.items() if name in names}
    if known:
        return logits_of(model(**known))
    if "pixel_values" in inputs:  # a bare timm model names its input `x`
        return logits_of(model(inputs["pixel_values"]))
    return logits_of(model(**inputs))  # a wrapper that names nothing and passes everything on


def logits_of(outputs: Any) -> torch.Tensor:
    """The logits in whatever a classifier returns."""
    if isinstance(outputs, torch.Tensor):
        return outputs
    if isinstance(outputs, Mapping):
        return outputs["logits"]
    return outputs.logits if hasattr(outputs, "logits") else outputs[0]


def _wrap_module(
    model: nn.Module,
    processor: Any,
    max_length: int | None,
    label_names: list[str] | tuple[str, ...] | None,
    revision: str | None = None,
) -> LoadedModel:
    if hasattr(model, "member_logits"):
        return model.loaded(processor, max_length, label_names)
    config: Any = getattr(model, "config", None)
    if is_raw_timm(model):
        names = label_names or stated_labels(model)
        transform, mode = _timm_transform(model)
        return LoadedModel(model, ImageTask(transform, mode), transform, tuple(names) if names else None)
    if not hasattr(config, "id2label"):
        raise ValueError(
            f"{type(model).__name__} is not a transformers classifier and not a timm model, so it is not known how to "
            "feed it. Pass a Hub id, a folder, a transformers ...ForSequenceClassification or "
            "...ForImageClassification, or timm.create_model(...)."
        )
    names = tuple(label_names or stated_labels(model) or ())
    image = is_image_config(config)
    processor = _load_processor(processor or getattr(config, "_name_or_path", None), image, revision, model)
    task: Task = _image_task(processor) if image else TextTask(processor, _limit(processor, config, max_length))
    name = getattr(config, "_name_or_path", None) or None
    return LoadedModel(model, task, processor, names, name, commit_in_cache(name))


def load_config(name: str, revision: str | None = None) -> Any:
    """A model's config from a folder or the Hub; no code from a repository is run."""
    try:
        return AutoConfig.from_pretrained(name, revision=revision)
    except (OSError, ValueError) as error:
        raise ValueError(
            f"{name} is not a folder with a model in it, and not a model on the Hub that can be reached "
            f"({str(error).splitlines()[0]}) Expected a folder with config.json and model.safetensors, or a Hub id."
        ) from error


def _load_processor(processor: Any, image: bool, revision: str | None, model: nn.Module) -> Any:
    if processor is not None and not isinstance(processor, (str, Path)):
        return processor
    kind, auto = ("image processor", AutoImageProcessor) if image else ("tokenizer", AutoTokenizer)
    problem = "none was given"
    if processor:
        try:
            loaded = auto.from_pretrained(str(processor), revision=revision)
            # where no tokenizer is saved, transformers makes an empty one that reads every word as unknown
            if image or len(loaded) > len(loaded.all_special_tokens):
                return loaded
            problem = f"{processor} has none (its vocabulary is empty)"
        except (OSError, ValueError, TypeError, KeyError) as error:
            problem = f"{processor} has none: {(str(error) or type(error).__name__).splitlines()[0]}"
    raise ValueError(
        f"{type(model).__name__} needs its {kind}, and {problem}. Pass processor= (--processor), the {kind} that the "
        "model was trained with, or save it into the model's folder."
    )


def _image_task(processor: Any) -> ImageTask:
    if hasattr(processor, "val_transforms"):  # timm through the wrapper: its own transform, without the detour
        channels = getattr(processor, "data_config", {}).get("input_size", (3,))[0]
        return ImageTask(processor.val_transforms, "L" if channels == 1 else "RGB")
    return ImageTask(lambda image: processor(images=image, return_tensors="pt")["pixel_values"][0])


def _timm_transform(model: nn.Module) -> tuple[Any, str]:
    from timm.data import create_transform, resolve_model_data_config

    settings = resolve_model_data_config(model)
    return create_transform(**settings, is_training=False), "L" if settings["input_size"][0] == 1 else "RGB"


def is_raw_timm(model: Any) -> bool:
    """A timm model as timm makes it, without the transformers wrapper."""
    return hasattr(model, "pretrained_cfg") and not isinstance(model, PreTrainedModel)


def is_image_config(config: Any) -> bool:
    """Whether a config is of an image classifier, and not of a text classifier."""
    named = (getattr(config, "architectures", None) or [""])[0]
    if named.endswith("ForSequenceClassification"):
        return False
    return (
        named.endswith("ForImageClassification") or config.model_type in MODEL_FOR_IMAGE_CLASSIFICATION_MAPPING_NAMES
    )


def _limit(tokenizer: Any, config: Any, asked: int | None) -> int | None:
    """How many tokens a text may have: what was asked for, what the tokenizer says, or what the positions allow."""
    if asked is not None:
        return asked
    stated = getattr(tokenizer, "model_max_length", None)
    if stated is not None and stated < 1_000_000:  # tokenizers without a limit state a huge one
        return int(stated)
    positions = getattr(config, "max_position_embeddings", None)
    # RoBERTa counts positions from the padding index on
    reserved = (getattr(config, "pad_token_id", None) or 0) + 1 if "roberta" in config.model_type else 0
    return None if positions is None else positions - reserved


def _refuse_pickled(folder: Path) -> None:
    if not folder.is_dir() or any(folder.glob("*.safetensors")) or any(folder.glob("*.safetensors.index.json")):
        return
    pickled = sorted(path.name for pattern in _PICKLED for path in folder.glob(pattern))
    if pickled:
        raise ValueError(
            f"{folder} holds pickled weights only ({', '.join(pickled[:5])}); loading a pickle can run any code. "
            "Expected model.safetensors. Convert it once, where you trust it: "
            "AutoModelForSequenceClassification.from_pretrained("
            f"{str(folder)!r}, use_safetensors=False, weights_only=True).save_pretrained({str(folder)!r})"
        )
    raise ValueError(f"{folder} has no weights in it, expected model.safetensors beside config.json.")


def _as_pil(value: Any) -> Any:
    from PIL import Image

    if isinstance(value, Image.Image):
        return value
    if isinstance(value, (str, Path)):
        return Image.open(value)
    return Image.fromarray(value)
