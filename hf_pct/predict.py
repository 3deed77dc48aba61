"""predict: a model over a dataset, on any number of processes, as a table of Predictions.

Batches are formed once, over the whole dataset, rows of similar length together; each process takes every n-th batch.
So the batches, and with them the last bits of the logits, are the same for one process as for eight.
"""

import os
import sys
import types
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import torch
from accelerate import PartialState
from accelerate.utils import broadcast_object_list, gather_object
from safetensors import SafetensorError
from safetensors.numpy import load_file, save_file
from torch import nn
from tqdm.auto import tqdm

from ._version import __version__
from .data import Rows, load_data, read_rows
from .files import write_whole
from .fingerprints import Digest, model_fingerprint, processor_fingerprint, weights_fingerprint
from .flips.errors import first_five
from .flips.predictions import Predictions, Provenance
from .tasks import LoadedModel, load_model

# Tokenizing or decoding a window of rows at a time keeps a million texts, or images, out of memory.
_WINDOW = 4096


def predict(
    model: str | Path | nn.Module,
    dataset: Any,
    *,
    split: str | None = None,
    processor: Any = None,
    revision: str | None = None,
    label_names: Sequence[str] | None = None,
    id_column: str | None = None,
    input_column: str | Sequence[str] | None = None,
    label_column: str | None = None,
    keep_columns: Sequence[str] = (),
    batch_size: int = 32,
    max_length: int | None = None,
    name: str | None = None,
    dataset_name: str | None = None,
    use_cache: bool = True,
    cache_dir: str | Path | None = None,
    progress: bool = True,
) -> Predictions:
    """Run a classifier over a dataset. Under `accelerate launch` the work is shared, and every process gets the table.

    Args:
        model: a Hub id, a folder, a transformers classifier, a timm model or an `Ensemble` of them.
        dataset: a `datasets.Dataset`, rows, columns, a file or folder, or a Hub id (then with `split`).
        split: which split of a dataset that is given by name.
        processor: the tokenizer or image processor, when it is not saved with the model.
        revision: of a model on the Hub.
        label_names: the classes in the order of the logits, for a model that does not say them.
        id_column: by default `id`, `idx`, `guid` or `uid`, else the row number.
        input_column: by default the usual name (`text`, `image`, ...); two names for pairs of sentences.
        label_column: by default the usual name (`label`, ...).
        keep_columns: further columns to keep: slices, weights, clusters, or the text itself.
        batch_size: rows a step.
        max_length: texts are cut at this many tokens.
        name: what to call the model in reports; by default its Hub id or folder.
        dataset_name: what to call the data; by default the name it was given by.
        use_cache: keep the logits, keyed by what the model and the data hold, and use them again.
        cache_dir: where; by default beside the datasets cache.
        progress: show a progress bar.
    """
    if batch_size < 1:
        raise ValueError(f"batch_size is {batch_size}, expected at least 1.")
    names = None if label_names is None else tuple(label_names)
    loaded = load_model(model, processor=processor, revision=revision, max_length=max_length, label_names=names)
    data = load_data(dataset, split=split) if isinstance(dataset, (str, Path)) else dataset
    rows = read_rows(
        data,
        usual_inputs=loaded.task.usual_columns,
        model_names=loaded.label_names,
        id_column=id_column,
        input_column=input_column,
        label_column=label_column,
    )
    classes = _class_names(loaded, rows)
    lacking = [column for column in keep_columns if column not in rows.dataset.column_names]
    if lacking:
        raise ValueError(f"keep_columns names {lacking}, but the dataset has {', '.join(rows.dataset.column_names)}.")
    weights = weights_fingerprint(loaded.model)
    key = model_fingerprint(loaded.model, weights) if use_cache else None
    logits = _cached_logits(loaded, rows, batch_size, key, cache_dir, progress)
    if logits.shape[1] != len(classes):
        raise ValueError(f"The model gives {logits.shape[1]} logits, but there are {len(classes)} label names.")
    provenance = Provenance(
        model=name or loaded.name,
        revision=loaded.revision,
        weights=weights,
        dataset=dataset_name or _dataset_name(dataset, rows),
        split=split or (str(rows.dataset.split) if rows.dataset.split else None),
        fingerprint=rows.fingerprint,
        created=datetime.now(UTC).isoformat(timespec="seconds"),
        versions=_versions(),
        settings={} if max_length is None else {"max_length": max_length},
    )
    table = rows.dataset.select_columns(list(keep_columns)).with_format("arrow")[:] if keep_columns else None
    columns = {} if table is None else {column: table[column] for column in table.column_names}
    return Predictions(
        rows.ids, rows.labels, logits=logits, label_names=classes, columns=columns, provenance=provenance
    )


def default_cache_dir() -> Path:
    """Beside the datasets cache, or where HF_PCT_CACHE says."""
    from datasets import config

    given = os.environ.get("HF_PCT_CACHE")
    return Path(given) if given else Path(config.HF_DATASETS_CACHE).parent / "hf_pct"


def compute_logits(loaded: LoadedModel, rows: Rows, batch_size: int, progress: bool = True) -> np.ndarray:
    """The model's logits for every row, in the order of the rows, on every process."""
    state = PartialState()
    device = _device(loaded.model, state)
    training = loaded.model.training
    model = loaded.model.to(device).eval()
    indices, outputs = [], []
    bar = tqdm(
        total=len(rows), desc=f"predict {loaded.name or ''}".strip(), unit="row", disable=_quiet(progress, state)
    )
    try:
        with torch.inference_mode():
            for batch in _batches(loaded, rows, batch_size, state.process_index, state.num_processes):
                inputs = {key: value.to(device) for key, value in batch["inputs"].items()}
                outputs.append(loaded.logits(inputs).float().cpu().numpy())
                indices.extend(batch["rows"])
                bar.update(min(len(batch["rows"]) * state.num_processes, len(rows) - bar.n))
    finally:
        bar.close()
        model.train(training)
    part = (indices, np.concatenate(outputs) if outputs else None)
    parts = gather_object([part]) if state.num_processes > 1 else [part]
    width = next(values.shape[1] for _, values in parts if values is not None)
    logits = np.empty((len(rows), width), dtype=np.float32)
    for at, values in parts:
        if values is not None:
            logits[at] = values
    return logits


def _batches(loaded: LoadedModel, rows: Rows, batch_size: int, process: int, processes: int) -> Any:
    """This process's share of the batches. They are the same batches whatever the number of processes."""
    task = loaded.task
    number = 0
    window = max(_WINDOW // batch_size, 1) * batch_size
    for start in range(0, len(rows), window):
        span = range(start, min(start + window, len(rows)))
        prepared = task.prepare(rows.inputs(span)) if task.kind == "text" else None
        if prepared is not None:
            order = sorted(span, key=lambda row: (-task.cost(prepared[row - start]), row))  # type: ignore[union-attr]
        else:
            order = list(span)
        for at in range(0, len(order), batch_size):
            members = order[at : at + batch_size]
            number += 1
            if (number - 1) % processes != process:
                continue
            if prepared is not None:
                features = [prepared[row - start] for row in members]
            else:  # images are decoded only by the process that needs them
                features = task.prepare(rows.inputs(members))
            yield {"rows": members, "inputs": task.collate(features)}


def _cached_logits(
    loaded: LoadedModel,
    rows: Rows,
    batch_size: int,
    fingerprint: str | None,
    cache_dir: str | Path | None,
    progress: bool,
) -> np.ndarray:
    """Logits kept under what the model and the data hold; a model without a fingerprint is run each time."""
    if fingerprint is None:
        return compute_logits(loaded, rows, batch_size, progress)
    state = PartialState()
    key = Digest().add([fingerprint, processor_fingerprint(loaded.processor), rows.fingerprint, __version__])
    key.add(getattr(loaded.task, "max_length", None)).add(list(rows.input_columns))
    path = Path(cache_dir or default_cache_dir()) / "predictions" / f"{key.hex()}.safetensors"
    # One process decides, so that no process waits for another that found the file a moment later.
    found = [_read_cache(path, len(rows)) if state.is_main_process else None]
    if state.num_processes > 1:
        broadcast_object_list(found)
    if found[0] is not None:
        return found[0]
    logits = compute_logits(loaded, rows, batch_size, progress)
    if state.is_main_process and not np.isnan(logits).any():
        with write_whole(path, overwrite=True) as partial:
            save_file({"logits": logits}, partial)
    return logits


def _read_cache(path: Path, rows: int) -> np.ndarray | None:
    try:
        logits = load_file(path)["logits"]
    except (OSError, KeyError, SafetensorError):  # absent, or damaged: it is computed again
        return None
    return logits if logits.ndim == 2 and len(logits) == rows else None


def _class_names(loaded: LoadedModel, rows: Rows) -> tuple[str, ...]:
    """The model's classes; where it has only LABEL_0, LABEL_1, ... the data's names stand in, index for index."""
    names, data_names = loaded.label_names, rows.class_names
    anonymous = names is None or all(name == f"LABEL_{index}" for index, name in enumerate(names))
    if anonymous and data_names is not None and (names is None or len(names) == len(data_names)):
        return data_names
    if names is None:
        raise ValueError("The model does not say its classes, and neither does the data. Pass label_names.")
    present = set(rows.labels)
    if not present & set(names):
        raise ValueError(
            f"None of the data's labels is a class of the model. The data has {first_five(sorted(present))}; the "
            f"model has {first_five(names)}. Set id2label in the model's config, or pass label_names."
        )
    return names


def _dataset_name(given: Any, rows: Rows) -> str | None:
    return str(given) if isinstance(given, (str, Path)) else rows.dataset.info.dataset_name


def _device(model: nn.Module, state: PartialState) -> torch.device:
    """Where accelerate says; a module that someone has put on an accelerator already stays there."""
    first = next(model.parameters(), None)
    return state.device if first is None or first.device.type in ("cpu", "meta") else first.device


def _quiet(progress: bool, state: PartialState) -> bool | None:
    """No bar but on the main process of a terminal: tqdm hides itself on None when the output is a file."""
    return None if progress and state.is_main_process else True


def _versions() -> dict[str, str]:
    import transformers

    return {"hf_pct": __version__, "torch": torch.__version__, "transformers": transformers.__version__}


class _CallablePredict(types.ModuleType):
    """`hf_pct.predict` is a function for users and a module for the import system; this lets it be both."""

    def __call__(self, *args: Any, **kwargs: Any) -> Predictions:
        return predict(*args, **kwargs)


sys.modules[__name__].__class__ = _CallablePredict
