"""predict: a model over a dataset, on any number of processes, as a table of Predictions."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime
from functools import partial
from itertools import count
from pathlib import Path

import numpy as np
import pyarrow as pa
import torch
from torch import nn

from .._version import __version__
from ..core.errors import first_five
from ..flips.tables.predictions import Predictions, Provenance
from .cache import SUFFIX, AnswerTable, Layout, default_cache_dir, load_or_compute
from .data import Rows, load_data, read_rows
from .features import feature_width
from .fingerprints import weights_fingerprint
from .identity import cache_key, model_fingerprint, precision, processor_fingerprint
from .load import LoadedModel, load_model
from .load.tasks import pads_unseen
from .revisions import recorded_name
from .run import RowAnswers, RowBatch, Share, collect, device_of, run, watched
from .types import ModelSource, Processor, RowSource

# Tokenizing or decoding a window of rows at a time keeps a million texts, or images, out of memory.
_WINDOW = 4096


def predict(
    model: ModelSource,
    dataset: RowSource,
    *,
    split: str | None = None,
    processor: Processor | None = None,
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
    features: bool = False,
) -> Predictions:
    """Run a classifier over a dataset. Under `accelerate launch` the work is shared, and every process gets the table.

    Args:
        model: a Hub id, a folder (of a model, an adapter or an ensemble), a transformers classifier, a timm model or
            an `Ensemble` of them; or a pipeline, an estimator or a function that answers a list of rows with labels
            or scores. The latter read rows themselves, and their answers are never cached.
        dataset: a `datasets.Dataset`, rows, columns, a file or folder, or a Hub id (then with `split`).
        split: which split of a dataset that is given by name.
        processor: the tokenizer or image processor, when it is not saved with the model.
        revision: of a model on the Hub.
        label_names: the classes in the order of the logits, for a model that does not say them.
        id_column: by default `id`, `idx`, `guid` or `uid`, else the row number.
        input_column: by default the usual name (`text`, `image`, ...); two names for pairs of sentences.
        label_column: by default the usual name (`label`, ...).
        keep_columns: further columns to keep: slices, weights, clusters, or the text itself.
        batch_size: rows per step.
        max_length: texts are cut at this many tokens.
        name: what to call the model in reports; by default its Hub id or folder.
        dataset_name: what to call the data; by default the name it was given by.
        use_cache: keep the answers, keyed by all that they depend on, and use them again. Where that cannot be
            known (code of your own in the model, a transform that is not declared `fixed`), nothing is kept.
        cache_dir: where; by default beside the datasets cache.
        progress: show a progress bar.
        features: also keep what goes into the model's last layer, as a column `features`.

    Example:
        >>> from datasets import Dataset
        >>> from hf_pct import predict
        >>> rows = Dataset.from_dict({"id": [1, 2], "text": ["hello", "good bye"], "label": ["greet", "leave"]})
        >>> table = predict(lambda texts: ["greet" for _ in texts], rows, progress=False)
        >>> table.accuracy
        0.5
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
    lacking = [column for column in keep_columns if column not in rows.dataset.column_names]
    if lacking:
        raise ValueError(f"keep_columns names {lacking}, but the dataset has {', '.join(rows.dataset.column_names)}.")
    table = rows.dataset.select_columns(list(keep_columns)).with_format("arrow")[:] if keep_columns else None
    columns: dict[str, object] = {} if table is None else {column: table[column] for column in table.column_names}
    weights = None
    if isinstance(loaded.model, nn.Module):
        weights = weights_fingerprint(loaded.model)
        classes: tuple[str, ...] | None = _class_names(loaded, rows)
        fingerprint = model_fingerprint(loaded.model, weights) if use_cache else None
        layout = Layout(len(classes or ()), features=feature_width(loaded.model) if features else None)
        kept = _answers(loaded, rows, layout, batch_size, fingerprint, cache_dir, progress)
        answers, is_logits = kept.in_memory("logits"), True
        if features:
            values = kept.in_memory("features")
            columns["features"] = pa.FixedSizeListArray.from_arrays(pa.array(values.reshape(-1)), values.shape[1])
    else:
        if features:
            raise ValueError(
                f"features=True needs a model, and {loaded.name} answers rows with labels or scores only."
            )
        answers = _ask_rows(loaded, rows, batch_size, progress)
        is_logits, classes = answers.ndim == 2, loaded.label_names
        _refuse_other_labels(classes or dict.fromkeys(answers.tolist()), rows)
    provenance = Provenance(
        model=name or loaded.name,
        revision=loaded.revision,
        weights=weights,
        dataset=recorded_name(dataset_name) if dataset_name else _dataset_name(dataset, rows),
        split=split or (str(rows.dataset.split) if rows.dataset.split else None),
        fingerprint=rows.fingerprint,
        created=datetime.now(UTC).isoformat(timespec="seconds"),
        versions=_versions(),
        settings={} if max_length is None else {"max_length": max_length},
    )
    shown = {"logits": answers} if is_logits else {"predictions": answers.tolist()}
    return Predictions(rows.ids, rows.labels, label_names=classes, columns=columns, provenance=provenance, **shown)


def _ask_rows(loaded: LoadedModel, rows: Rows, batch_size: int, progress: bool) -> np.ndarray:
    """The answers of a function that reads rows itself: scores, or one label per row."""
    batches = partial(_batches, loaded, rows, batch_size)
    answers = collect(loaded.model, batches, len(rows), progress=f"predict {loaded.name}" if progress else None).logits
    if answers.ndim == 2 and answers.shape[1] != len(loaded.label_names or ()):
        raise ValueError(
            f"{loaded.name} gives {answers.shape[1]} scores, but there are {len(loaded.label_names or ())} label "
            "names."
        )
    return answers


def _answers(
    loaded: LoadedModel,
    rows: Rows,
    layout: Layout,
    batch_size: int,
    fingerprint: str | None,
    cache_dir: str | Path | None,
    progress: bool,
) -> AnswerTable:
    """Answers kept under what the model, its processor and the rows hold; where one is not known, nothing is kept."""
    key = cache_key(
        model=fingerprint,
        processor=processor_fingerprint(loaded.processor),
        rows=rows.fingerprint if rows.fixed else None,
        columns=rows.input_columns,
        max_length=str(getattr(loaded.task, "max_length", None)),
        batch_size=batch_size if pads_unseen(loaded.processor) else 0,
        precision=precision(device_of(loaded.model)),
        layout=layout.columns,
    )
    path = None if key is None else Path(cache_dir or default_cache_dir()) / "predictions" / f"{key}{SUFFIX}"
    title = f"predict {loaded.name or ''}".strip() if progress else None

    def fill(share: Share) -> Iterator[RowAnswers]:
        answers = run(loaded.model, _batches(loaded, rows, batch_size, share), features=layout.features is not None)
        return watched(answers, len(rows), title, share)

    def check(answers: RowAnswers) -> None:
        if answers.logits.shape[1] != layout.width:
            raise ValueError(
                f"The model gives {answers.logits.shape[1]} logits, but there are {layout.width} label names."
            )

    return load_or_compute(path, layout, len(rows), fill, check=check, together=True)


def _batches(loaded: LoadedModel, rows: Rows, batch_size: int, share: Share) -> Iterator[RowBatch]:
    """A process's share of the batches. They are the same batches whatever the number of processes."""
    task = loaded.task
    numbers = count()
    batch_size = getattr(task, "largest_batch", None) or batch_size
    window = max(_WINDOW // batch_size, 1) * batch_size
    for start in range(0, len(rows), window):
        span = range(start, min(start + window, len(rows)))
        prepared = task.prepare(rows.inputs(span)) if task.by_cost else None
        order = list(span)
        if prepared is not None:
            order.sort(key=lambda row: (-task.cost(prepared[row - start]), row))
        for at in range(0, len(order), batch_size):
            members = order[at : at + batch_size]
            if not share.takes(next(numbers)):
                continue
            # images are decoded only by the process that needs them
            ready = task.prepare(rows.inputs(members)) if prepared is None else [prepared[r - start] for r in members]
            yield RowBatch(members, task.collate(ready))


def _class_names(loaded: LoadedModel, rows: Rows) -> tuple[str, ...]:
    """The model's classes; where it has only LABEL_0, LABEL_1, ... the data's names stand in, index for index."""
    names, data_names = loaded.label_names, rows.class_names
    anonymous = names is None or all(name == f"LABEL_{index}" for index, name in enumerate(names))
    if anonymous and data_names is not None and (names is None or len(names) == len(data_names)):
        return data_names
    if names is None:
        raise ValueError("The model does not say its classes, and neither does the data. Pass label_names.")
    _refuse_other_labels(names, rows)
    return names


def _refuse_other_labels(names: Iterable[str], rows: Rows) -> None:
    """A model none of whose classes is in the data would be wrong everywhere, and so would never be broken."""
    present, names = set(rows.labels), list(names)
    if not present.intersection(names):
        raise ValueError(
            f"None of the data's labels is a class of the model. The data has {first_five(sorted(present))}; the "
            f"model has {first_five(names)}. Set id2label in the model's config, or pass label_names."
        )


def _dataset_name(dataset: RowSource | str | None, rows: Rows) -> str | None:
    return recorded_name(dataset) if isinstance(dataset, (str, Path)) else rows.dataset.info.dataset_name


def _versions() -> dict[str, str]:
    import transformers

    return {"hf_pct": __version__, "torch": torch.__version__, "transformers": transformers.__version__}
