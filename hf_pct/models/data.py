"""The data a model is measured on: where it is loaded from, and which of its columns are ids, inputs and labels."""

from __future__ import annotations

import mmap
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from datasets import (
    Audio,
    ClassLabel,
    Dataset,
    DatasetDict,
    Image,
    IterableDataset,
    Value,
    load_dataset,
    load_from_disk,
)
from datasets.exceptions import DatasetsError

from ..core.errors import first_five
from ..flips.tables.readers.jsonl import refuse_null_rows
from ..flips.tables.unpacked import check_unpacked_size
from .fingerprints import data_fingerprint
from .load.declared import is_declared, transform_of
from .types import RowSource

if TYPE_CHECKING:
    from datasets import Dataset


_BUILDERS = {".parquet": "parquet", ".csv": "csv", ".json": "json", ".jsonl": "json"}
_ID_COLUMNS = ("id", "idx", "guid", "uid")
_USUAL_KINDS = {"image": Image, "audio": Audio}
_LABEL_COLUMNS = ("label", "labels", "intent", "category", "fine_label")


def load_data(name: str | Path, *, split: str | None = None, config: str | None = None) -> Dataset:
    """A dataset from a file (parquet, CSV, JSON lines), a folder saved by `datasets`, or the Hub."""
    path = Path(name)
    if path.is_file():
        if path.suffix not in _BUILDERS:
            raise ValueError(f"{path} ends in {path.suffix or 'nothing'}, expected one of {', '.join(_BUILDERS)}.")
        if path.suffix == ".parquet":
            check_unpacked_size(path)
        if not path.stat().st_size:
            raise ValueError(f"{path} is empty: it has no rows, expected at least one.")
        if path.suffix == ".jsonl":
            with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
                refuse_null_rows(content, path)
        try:
            data = load_dataset(_BUILDERS[path.suffix], data_files=str(path), split=split or "train")
        except (DatasetsError, StopIteration) as error:
            raise ValueError(f"{path} cannot be read as {path.suffix[1:]}: {_root_cause(error)}") from error
        return data if split else _without_split(data)
    if (path / "dataset_info.json").is_file() or (path / "dataset_dict.json").is_file():
        return _one_split(load_from_disk(str(path)), split, str(name))
    try:
        return _one_split(load_dataset(str(name), config, split=split), split, str(name))
    except (FileNotFoundError, ConnectionError, OSError) as error:
        raise ValueError(
            f"{name} is not a file, not a folder saved by `datasets`, and not a dataset on the Hub that can be "
            f"reached ({str(error).splitlines()[0]})"
        ) from error


def _root_cause(error: BaseException) -> str:
    """What a library's error comes from, in one line."""
    while error.__cause__ is not None:
        error = error.__cause__
    return str(error).partition("\n")[0] or "it has no rows"


def _without_split(data: Dataset) -> Dataset:
    """A file is no split of anything, whatever `datasets` calls it; reports and cards would repeat that name."""
    return Dataset(data.data, info=data.info, split=None, fingerprint=data._fingerprint)


def _one_split(data: RowSource, split: str | None, name: str) -> Dataset:
    if isinstance(data, DatasetDict):
        if split is None and len(data) == 1:
            return next(iter(data.values()))
        if split not in data:
            raise ValueError(
                f"{name} has the splits {', '.join(data)}; choose one with split (--split), got {split!r}."
            )
        return data[split]
    return data


@dataclass(frozen=True)
class Rows:
    """A dataset whose columns are known: one id, one input and one label per row.

    `transformed` is the same dataset with its transform, where it has one; inputs are then what the transform gives.
    """

    dataset: Dataset
    ids: list[object]
    labels: list[str]
    class_names: tuple[str, ...] | None
    input_columns: tuple[str, ...]
    fingerprint: str
    transformed: Dataset | None = None

    def __len__(self) -> int:
        return len(self.ids)

    @property
    def fixed(self) -> bool:
        """Whether the inputs are the same each time: stored as they are, or by a transform that is declared fixed."""
        return self.transformed is None or is_declared(transform_of(self.transformed))

    def inputs(self, rows: Sequence[int]) -> list[object]:
        """The inputs of these rows: texts, pairs of texts, or images."""
        batch = (self.dataset if self.transformed is None else self.transformed)[list(rows)]
        columns = [batch[name] for name in self.input_columns]
        return list(columns[0]) if len(columns) == 1 else list(zip(*columns, strict=True))


def read_rows(
    dataset: RowSource,
    *,
    usual_inputs: Sequence[str],
    model_names: Sequence[str] | None,
    id_column: str | None = None,
    input_column: str | Sequence[str] | None = None,
    label_column: str | None = None,
) -> Rows:
    """Find the columns, name the labels and hash the content of a dataset.

    Labels that are bare indices are named by the model; `ClassLabel` features and text name themselves.
    """
    data = as_dataset(dataset)
    label_column = _find(data, label_column, _LABEL_COLUMNS, "label_column", ClassLabel)
    wanted = (input_column,) if isinstance(input_column, str) else tuple(input_column or ())
    transformed = dataset if transform_of(dataset) is not None else None
    inputs = wanted or (_find(data, None, usual_inputs, "input_column", _USUAL_KINDS.get(usual_inputs[0], "string")),)
    for name in inputs:
        _require(data, name, "input_column")
    if transformed is not None:
        _require_transformed(transformed, inputs)
    if id_column is None:
        id_column = next((name for name in _ID_COLUMNS if name in data.column_names), None)
    else:
        _require(data, id_column, "id_column")
    labels, class_names = _name_labels(data, label_column, model_names)
    ids = list(range(len(data))) if id_column is None else list(data[id_column][:])
    if transformed is None:
        media = _media_of(data.features[inputs[0]], usual_inputs)
        raw = data if media is None else data.cast_column(inputs[0], media(decode=False))
        data = raw if media is Audio else data  # sounds are decoded by the task, without torchcodec
        columns: list[Iterable[object]] = [_column_of(raw.select_columns(name), name) for name in inputs]
    else:  # what the model is shown is what the transform gives
        columns = [_column_of(transformed, name) for name in inputs]
    fingerprint = data_fingerprint([ids, *columns, labels])
    return Rows(data, ids, labels, class_names, tuple(inputs), fingerprint, transformed)


def _media_of(feature: object, usual: Sequence[str]) -> type | None:
    """Image or Audio, where the input is one; None for texts and for sounds that are columns of samples."""
    if isinstance(feature, Image | Audio):
        return type(feature)
    return Image if usual[0] == "image" else None  # a column of paths


def _column_of(dataset: Dataset, name: str, window: int = 1024) -> Iterator[object]:
    """The values of a column, read in windows: one by one `datasets` takes several times as long."""
    for start in range(0, len(dataset), window):
        yield from dataset[start : start + window][name]


def _require_transformed(dataset: Dataset, inputs: Sequence[str]) -> None:
    """A transform that leaves nothing to feed to the model's own processor is refused, not ignored."""
    available = list(dataset[0])
    if lacking := [name for name in inputs if name not in available]:
        raise ValueError(
            f"The dataset's transform gives {', '.join(available)} and not {', '.join(lacking)}. The model is fed "
            "through its own processor, which needs the raw input. Pass the dataset without the transform "
            "(dataset.with_format(None)), or a transform that keeps the input column."
        )


def as_dataset(dataset: RowSource) -> Dataset:
    """A map-style `datasets.Dataset` from one, from a list of dicts, a dict of columns or a pandas frame."""
    if isinstance(dataset, (str, Path)):
        dataset = load_data(dataset)
    if isinstance(dataset, IterableDataset):
        raise ValueError(
            "The dataset is a stream (IterableDataset); rows are needed by number. Load it without streaming."
        )
    if isinstance(dataset, DatasetDict):
        raise ValueError(
            f"The dataset has the splits {', '.join(dataset)}; pass one of them, such as dataset['test']."
        )
    if isinstance(dataset, Dataset):
        data = dataset.with_format(None)
    elif isinstance(dataset, list):
        data = Dataset.from_list(dataset)
    elif isinstance(dataset, dict):
        data = Dataset.from_dict(dataset)
    elif hasattr(dataset, "iloc"):
        data = Dataset.from_pandas(dataset, preserve_index=False)
    else:
        raise ValueError(f"The dataset is a {type(dataset).__name__}, expected a datasets.Dataset, rows or columns.")
    if not len(data):
        raise ValueError("The dataset has no rows, expected at least one.")
    return data


def _find(
    data: Dataset, chosen: str | None, usual: Sequence[str], argument: str, kind: str | type | tuple[type, ...]
) -> str:
    """The column that was named, or the usual one, or the only one of its kind."""
    if chosen is not None:
        _require(data, chosen, argument)
        return chosen
    for name in usual:
        if name in data.column_names:
            return name
    alike = [name for name, feature in data.features.items() if _is_kind(feature, kind)]
    if len(alike) == 1:
        return alike[0]
    raise ValueError(
        f"No column is named {' or '.join(usual)}, and which one to use is not clear. Found: "
        f"{', '.join(data.column_names)}. Say it with {argument} (--{argument})."
    )


def _is_kind(feature: object, kind: str | type | tuple[type, ...]) -> bool:
    if isinstance(kind, str):
        return isinstance(feature, Value) and feature.dtype in ("string", "large_string")
    return isinstance(feature, kind)


def _require(data: Dataset, name: str, argument: str) -> None:
    if name not in data.column_names:
        raise ValueError(f"{argument} is {name!r}, but the dataset has the columns {', '.join(data.column_names)}.")


def _name_labels(
    data: Dataset, column: str, model_names: Sequence[str] | None
) -> tuple[list[str], tuple[str, ...] | None]:
    feature, values = data.features[column], list(data[column][:])
    missing = sum(value is None or value == -1 for value in values)
    if missing:
        raise ValueError(f"{missing} of {len(values)} rows have no label in {column!r}. Flips need the right answers.")
    if isinstance(feature, ClassLabel):
        return [feature.names[value] for value in values], tuple(feature.names)
    if all(isinstance(value, str) for value in values):
        return values, None
    if not all(isinstance(value, int) for value in values):
        raise ValueError(
            f"The column {column!r} holds {feature}, expected class names or class indices. Say which column has the "
            "labels with label_column (--label_column)."
        )
    if model_names is None:
        raise ValueError(
            f"The labels in {column!r} are bare indices and the model has no label names. Pass label_names."
        )
    outside = sorted({value for value in values if not 0 <= value < len(model_names)})
    if outside:
        raise ValueError(
            f"The labels {first_five(outside)} in {column!r} are not indices of the model's {len(model_names)} "
            "classes. Give the dataset a ClassLabel feature or names, so that labels are matched by name."
        )
    return [model_names[value] for value in values], None
