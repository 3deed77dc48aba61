"""How large a parquet file becomes in memory, known before it is read: a few kilobytes can hold a billion rows."""

import os
from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

_WIDTHS = {"BOOLEAN": 1, "INT32": 4, "INT64": 8, "INT96": 8, "FLOAT": 4, "DOUBLE": 8}
_SHARE = 0.8  # of the free memory that one table may take
_REFERENCE = 4  # bytes by which a repeated text is named


def check_unpacked_size(path: Path, free: int | None = None, columns: Sequence[str] | None = None) -> None:
    """Refuse a parquet file whose columns (all, or the named ones) would not fit into the free memory.

    One that is no parquet is left to its reader.
    """
    budget = int(_SHARE * (free_memory() if free is None else free))
    try:
        file = pq.ParquetFile(path)
        needed = least_size(file, columns)
        if needed <= budget:
            needed += _repeated_text(path, file, budget, columns)
    except (pa.ArrowException, OSError):
        return
    if needed > budget:
        raise ValueError(
            f"{path} has {os.path.getsize(path):,} bytes and becomes more than {needed:,} in memory, where {budget:,} "
            "may be used: a damaged or hostile file, or one for a larger machine. Leave out columns, or split it."
        )


def least_size(file: pq.ParquetFile, columns: Sequence[str] | None) -> int:
    """What the columns take at least: numbers by their width, texts by what is written or by a reference each."""
    total = 0
    for group in range(file.metadata.num_row_groups):
        row_group = file.metadata.row_group(group)
        for number in range(row_group.num_columns):
            column = row_group.column(number)
            if columns is not None and column.path_in_schema.partition(".")[0] not in columns:
                continue
            width = _WIDTHS.get(column.physical_type, _REFERENCE)
            total += max(column.num_values * width, column.total_uncompressed_size)
    return total


def _repeated_text(path: Path, file: pq.ParquetFile, budget: int, columns: Sequence[str] | None) -> int:
    """What texts take that are written once and repeated; only columns with more values than bytes are looked at."""
    total = 0
    for group in range(file.metadata.num_row_groups):
        row_group = file.metadata.row_group(group)
        for number in range(row_group.num_columns):
            column = row_group.column(number)
            simple = "." not in column.path_in_schema and column.physical_type == "BYTE_ARRAY"
            if columns is not None and column.path_in_schema not in columns:
                continue
            if not simple or column.total_uncompressed_size > _REFERENCE * column.num_values:
                continue
            name = column.path_in_schema
            reader = pq.ParquetFile(path, read_dictionary=[name])
            total += _decoded_bytes(reader.read_row_group(group, columns=[name]).column(0))
            if total > budget:
                return total
    return total


def _decoded_bytes(column: pa.ChunkedArray) -> int:
    """How long the texts of a column are all together, without unpacking them."""
    total = 0
    for chunk in column.chunks:
        if not isinstance(chunk, pa.DictionaryArray):
            total += chunk.nbytes
            continue
        counts = pc.value_counts(chunk.indices.drop_null())
        lengths = pc.binary_length(chunk.dictionary).cast(pa.int64()).take(counts.field("values"))
        total += pc.sum(pc.multiply(lengths, counts.field("counts"))).as_py() or 0
    return total


def text_budget() -> int:
    """How many bytes of text one file may have: it is decoded, and made into a table, beside itself."""
    return free_memory() // 4


def free_memory() -> int:
    """Bytes of memory that can be used now; of a system that does not say, all that it has."""
    try:
        with open("/proc/meminfo", encoding="ascii") as file:
            for line in file:
                if line.startswith("MemAvailable:"):
                    return int(line.split()[1]) * 1024
    except OSError:
        pass
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
