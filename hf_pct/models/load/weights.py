"""Weights of transformers classifiers, from safetensors only; what a checkpoint lacks is never invented."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import nn
from transformers import (
    AutoConfig,
    AutoModelForAudioClassification,
    AutoModelForImageClassification,
    AutoModelForSequenceClassification,
)
from transformers.utils import cached_file

from ...core.decode import JsonObject
from ...core.errors import first_five
from ...core.model_folder import read_model_config
from ...core.weight_files import INDEX, check_folder_weights, read_index, refuse_weights
from ..revisions import commit_in_cache
from .kinds import architecture_of, kind_of

if TYPE_CHECKING:
    from transformers import PretrainedConfig


_AUTO: dict[str, Any] = {
    "text": AutoModelForSequenceClassification,
    "image": AutoModelForImageClassification,
    "audio": AutoModelForAudioClassification,
}


def load_config(name: str, revision: str | None = None) -> PretrainedConfig:
    """A model's config from a folder or the Hub; no code from a repository is run."""
    if (Path(name) / "config.json").is_file():
        read_model_config(Path(name) / "config.json")
    try:
        return AutoConfig.from_pretrained(name, revision=revision)
    except ImportError:
        raise
    except Exception as error:  # whatever a library says about a file that is not its own work
        raise ValueError(
            f"{name} is not a folder with a model in it, and not a model on the Hub that can be reached "
            f"({_first_line(error)}) Expected a folder with config.json and model.safetensors, or a Hub id."
        ) from error


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
    _check_weight_files(name, revision)
    options: JsonObject = {
        "revision": revision, "use_safetensors": True, "dtype": dtype, "ignore_mismatched_sizes": True,
    }  # fmt: skip
    if label_names is not None:
        config.id2label = dict(enumerate(label_names))
        config.label2id = {label: index for index, label in enumerate(label_names)}
        if hasattr(config, "label_names"):  # timm's wrapper keeps them a second time, and believes these
            config.label_names = list(label_names)
        options["config"] = config
    try:
        module, loading = _AUTO[kind_of(config)].from_pretrained(name, output_loading_info=True, **options)
    except (ImportError, MemoryError):
        raise
    except Exception as error:  # RuntimeError and TypeError among them, where the config asks for what cannot be
        raise ValueError(
            f"The weights of {name} cannot be loaded from safetensors: {_first_line(error)} Expected a complete "
            "model.safetensors that fits its config.json; pickled weights are refused because loading them can run "
            "any code."
        ) from error
    other_size = {entry[0] for entry in loading["mismatched_keys"]}
    if other_size and label_names is None:
        refuse_missing(name, config, other_size)
    return module, revision, {*loading["missing_keys"], *other_size}


def _first_line(error: Exception) -> str:
    return (str(error) or type(error).__name__).strip().splitlines()[0]


def refuse_missing(name: str, config: PretrainedConfig, missing: Collection[str]) -> None:
    """A model whose head (or any other weight) is not in its files would answer with random numbers."""
    trained_as = architecture_of(config)
    other_task = trained_as.endswith("ForTokenClassification")
    if not missing and not other_task:
        return
    lacks = f"has no weights for {first_five(sorted(missing))}" if missing else "answers for each token of a text"
    saved = f" It was saved as {trained_as}." if trained_as else ""
    raise ValueError(
        f"{name} {lacks}, so as a classifier it would answer at random.{saved} Expected a model that was trained "
        "to classify, saved with its head: fine-tune it first, or name the folder of the fine-tuned one."
    )


def _check_weight_files(name: str, revision: str | None) -> None:
    """Before anything is loaded: safetensors only, and no index that leads elsewhere, in a folder or on the Hub."""
    if Path(name).is_dir():
        check_folder_weights(Path(name))
        return
    quietly = {f"_raise_exceptions_for_{what}": False for what in ("missing_entries", "connection_errors")}
    index = cached_file(name, INDEX, revision=revision, **quietly)
    problems: list[str] = []
    if index is not None:
        read_index(Path(index), problems)
    refuse_weights(name, problems)
