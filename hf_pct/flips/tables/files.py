"""Reading tables of answers from files of any plain format."""

from collections.abc import Sequence
from pathlib import Path

from .predictions import Predictions
from .readers import PLAIN, read_table
from .readers.options import ReadOptions

READABLE = PLAIN


def read_predictions(path: Path, label_names: Sequence[str] | None = None) -> Predictions:
    """A file of answers as `Predictions`; `label_names` fill in what the file does not say."""
    if not path.is_file():
        what = "is a folder" if path.is_dir() else "does not exist"
        raise FileNotFoundError(f"{path} {what}, expected a file of predictions ({', '.join(READABLE)}).")
    table = read_table(path, ReadOptions(label_names=label_names))
    if not isinstance(table, Predictions):
        raise ValueError(f"{path} holds scores, expected answers with labels. Read it with Scores.load.")
    return table
