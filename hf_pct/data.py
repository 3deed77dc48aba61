"""The data a model is measured on: where it is loaded from, and which of its columns are ids, inputs and labels."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from datasets import ClassLabel, Dataset, DatasetDict, Image, IterableDataset, Value, load_dataset, load_from_disk

from .fingerprints import data_fingerprint
from .flips.errors import first_five

_BUILDERS = {".parquet": "parquet", ".csv": "csv", ".json": "json", ".jsonl": "json"}
_ID_COLUMNS = ("id", "idx", "guid", "uid")
_LABEL_COLUMNS = ("label", "labels", "intent", "category", "fine_label")


def load_data(name: str | Path, *, split: str | None = None, config: str | None = None) -> Dataset:
    """A dataset from a file (parquet, CSV, JSON lines), a folder saved by `datasets`, or the Hub."""
    path = Path(name)
    if path.is_file():
        if path.suffix not in _BUILDERS:
            raise ValueError(f"{path} ends in {path.suffix or 'nothing'}, expected one of {', '.join(_BUILDERS)}.")
        return load_dataset(_BUILDERS[path.suffix], data_files=str(path), split=split or "train")
    if (path / "dataset_info.json").is_file() or (path / "dataset_dict.json").is_file():
        return _one_split(load_from_disk(str(path)), split, str(name))
    try:
        return _one_split(load_dataset(str(name), config, split=split), split, str(name))
    except (FileNotFoundError, ConnectionError, OSError) as error:
        raise ValueError(
            f"{name} is not a file, not a folder saved by `datasets`, and not a dataset on the Hub that can be "
            f"reached ({str(error).splitlines()[0]})"
        ) from error


def _one_split(data: Any, split: str | None, name: str) -> Dataset:
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
    """A dataset whose columns are known: one id, one input and one label a row."""

    dataset: Dataset
    ids: list[Any]
    labels: list[str]
    class_names: tuple[str, ...] | None
    input_columns: tuple[str, ...]
    fingerprint: str

    def __len__(self) -> int:
        return len(self.ids)

    def inputs(self, rows: Sequence[int]) -> list[Any]:
        """The inputs of these rows: texts, pairs of texts, or images."""
        batch = self.dataset[list(rows)]
        columns = [batch[name] for name in self.input_columns]
        return list(columns[0]) if len(columns) == 1 else list(zip(*columns, strict=True))


def read_rows(
    dataset: Any,
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
    is_image = "image" in usual_inputs
    found = wanted or (_find(data, None, usual_inputs, "input_column", Image if is_image else "string"),)
    for name in found:
        _require(data, name, "input_column")
    if id_column is None:
        id_column = next((name for name in _ID_COLUMNS if name in data.column_names), None)
    else:
        _require(data, id_column, "id_column")
    raw = data.cast_column(found[0], Image(decode=False)) if is_image else data
    labels, class_names = _name_labels(data, label_column, model_names)
    ids = list(range(len(data))) if id_column is None else list(data[id_column])
    fingerprint = data_fingerprint([ids, *(raw[name] for name in found), labels])
    return Rows(data, ids, labels, class_names, tuple(found), fingerprint)


def as_dataset(dataset: Any) -> Dataset:
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


def _find(data: Dataset, given: str | None, usual: Sequence[str], argument: str, kind: Any) -> str:
    """The column that was named, or the usual one, or the only one of its kind."""
    if given is not None:
        _require(data, given, argument)
        return given
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


def _is_kind(feature: Any, kind: Any) -> bool:
    if kind == "string":
        return isinstance(feature, Value) and feature.dtype in ("string", "large_string")
    return isinstance(feature, kind)


def _require(data: Dataset, name: str, argument: str) -> None:
    if name not in data.column_names:
        raise ValueError(f"{argument} is {name!r}, but the dataset has the columns {', '.join(data.column_names)}.")


def _name_labels(
    data: Dataset, column: str, model_names: Sequence[str] | None
) -> tuple[list[str], tuple[str, ...] | None]:
    feature, values = data.features[column], list(data[column])
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
