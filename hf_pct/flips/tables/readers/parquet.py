"""Plain parquet files, our own among them."""

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from ..predictions import Predictions
from ..scores import Scores
from ..unpacked import check_unpacked_size, least_size
from .base import Source
from .options import ReadOptions
from .plain import answers_from_file, table_from_arrow

NAME = "parquet"
MAGIC = b"PAR1"
LARGE = 1 << 27  # unpacked bytes from which only the needed columns are read


def missing(source: Source) -> str:
    if source.path.is_dir():
        return "it is a folder"
    if source.head.startswith(MAGIC) or source.path.suffix == ".parquet":
        return ""
    return "it does not start with PAR1"


def read(source: Source, options: ReadOptions) -> Predictions | Scores:
    try:
        answers = answers_from_file(source.path, options) if _unpacked_bytes(source.path) > LARGE else None
        return answers or table_from_arrow(arrow_table(source), source.path, options)
    except (pa.ArrowException, KeyError, OverflowError) as error:  # pyarrow's own, on bytes that are no table
        raise _damaged(source.path, error) from error


def _unpacked_bytes(path: Path) -> int:
    try:
        return least_size(pq.ParquetFile(path), None)
    except (pa.ArrowException, OSError):
        return 0  # whoever reads it says what is wrong


def arrow_table(source: Source) -> pa.Table:
    """The file as an Arrow table, with labels and answers as codes."""
    path = source.path
    try:
        check_unpacked_size(path)
        return pq.read_table(path, read_dictionary=["label", "prediction", "task"], page_checksum_verification=True)
    except (pa.ArrowException, OSError) as error:
        raise _damaged(path, error) from error


def _damaged(path: Path, error: Exception) -> ValueError:
    said = " ".join(str(error).split())[:200]
    return ValueError(
        f"{path} is not a whole parquet file ({said}). It may be truncated or still being written; make it again, or "
        "copy it again."
    )
