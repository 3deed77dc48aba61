"""What a reader is, and what readers share: looking into a file once, and the text of files in any usual encoding."""

import codecs
import gzip
import hashlib
import json
import zipfile
import zlib
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from io import BufferedReader
from pathlib import Path
from typing import Protocol, TypeVar

import msgspec

from ....core.decode import JsonObject, in_words, parse_json
from ..predictions import Predictions
from ..scores import Scores
from ..unpacked import text_budget
from .options import ReadOptions

T = TypeVar("T")
_HEAD = 1 << 16
_MARKS = ((codecs.BOM_UTF8, "utf-8-sig"), (codecs.BOM_UTF16_LE, "utf-16"), (codecs.BOM_UTF16_BE, "utf-16"))


@dataclass(frozen=True)
class Source:
    """A file or folder as readers look at it: its first bytes are read once."""

    path: Path

    @cached_property
    def head(self) -> bytes:
        """The first bytes, unpacked."""
        if self.path.is_dir():
            return b""
        with self.path.open("rb") as file:
            start = file.read(_HEAD)
        if start[:2] == b"\x1f\x8b":
            with self._opened() as packed:
                return packed.read(_HEAD)
        return start

    @cached_property
    def packed(self) -> bool:
        return not self.path.is_dir() and self._starts(b"\x1f\x8b")

    def _starts(self, mark: bytes) -> bool:
        with self.path.open("rb") as file:
            return file.read(len(mark)) == mark

    @cached_property
    def encoding(self) -> str:
        """UTF-8 unless a byte order mark, or every second byte being zero, says UTF-16."""
        for mark, name in _MARKS:
            if self.head.startswith(mark):
                return name
        sample = self.head[:200]
        if len(sample) >= 4 and sample[1::2].count(0) > len(sample) // 3:
            return "utf-16-le"
        return "utf-16-be" if len(sample) >= 4 and sample[::2].count(0) > len(sample) // 3 else "utf-8"

    @cached_property
    def start(self) -> str:
        """The beginning of a text file; a character that is cut off at the end is left out."""
        return codecs.getincrementaldecoder(self.encoding)("replace").decode(self.head).lstrip("\ufeff")

    @cached_property
    def first_object(self) -> JsonObject | None:
        """The first line as a JSON object, or None."""
        line = self.start.lstrip().split("\n", 1)[0]
        if len(line) >= _HEAD - 8:  # the first line is longer than what was looked at
            line = next(self.lines(), b"").decode("utf-8", "replace")
        try:
            value = json.loads(line)
        except ValueError:
            return None
        return value if isinstance(value, dict) else None

    @property
    def is_zip(self) -> bool:
        return self.path.is_file() and zipfile.is_zipfile(self.path)

    def content(self) -> bytes:
        """All bytes, unpacked; a file that is small on disk and endless in memory is refused."""
        most = text_budget()
        with self._opened() as file:
            content = file.read(most + 1)
        if len(content) > most:
            raise ValueError(_too_large(self.path, most))
        return content

    def text(self) -> str:
        """The whole text."""
        return _decoded(self.content(), self)

    def lines(self) -> Iterator[bytes]:
        """The lines that are not empty, in UTF-8, one at a time."""
        if self.encoding.startswith("utf-16"):
            yield from (line.encode() for line in self.text().split("\n") if line.strip())
            return
        most = text_budget()
        with self._opened() as file:
            for number, line in enumerate(iter(lambda: file.readline(most + 1), b"")):
                if len(line) > most:
                    raise ValueError(_too_large(self.path, most))
                if line.strip():
                    yield line.removeprefix(codecs.BOM_UTF8) if number == 0 else line

    @contextmanager
    def _opened(self) -> Iterator[gzip.GzipFile | BufferedReader]:
        try:
            with gzip.open(self.path, "rb") if self.packed else self.path.open("rb") as file:
                yield file
        except (EOFError, zlib.error, gzip.BadGzipFile) as error:
            raise ValueError(f"{self.path} is not a whole gzip file ({error}). Make it, or copy it, again.") from error


def _too_large(path: Path, most: int) -> str:
    return (
        f"{path} has {path.stat().st_size:,} bytes and unpacks to more than {most:,}, which is more than may be used "
        "here: a damaged or hostile file, or one for a larger machine. Split it, or save it as parquet."
    )


def _decoded(content: bytes, source: Source) -> str:
    try:
        return content.decode(source.encoding).lstrip("\ufeff")
    except UnicodeDecodeError as error:
        raise ValueError(
            f"{source.path} is not text in {source.encoding.upper()} ({error}). Save it as UTF-8."
        ) from error


class Reader(Protocol):
    """One format. `missing` looks at the beginning of a file and says what keeps it from being this format."""

    NAME: str

    def missing(self, source: Source) -> str:
        """Empty when the file is of this format; otherwise what it lacks, in a few words."""

    def read(self, source: Source, options: ReadOptions) -> Predictions | Scores:
        """The file as a table."""


def parse_lines(source: Source) -> Iterator[JsonObject]:
    """JSON objects, one per line and one at a time; an error names the line."""
    decode = msgspec.json.Decoder().decode
    for number, line in enumerate(source.lines(), start=1):
        try:
            value = _parse_leniently(line) if b"NaN" in line or b"Infinity" in line else decode(line)
        except (msgspec.DecodeError, ValueError) as error:
            raise ValueError(
                f"{source.path}, line {number} is not whole JSON: {error}. Make the file again."
            ) from error
        if not isinstance(value, dict):
            raise ValueError(f"{source.path}, line {number} holds {type(value).__name__}, expected a JSON object.")
        yield value


def _parse_leniently(line: bytes) -> object:
    """JSON with NaN and infinity, as Python writes it."""
    return json.loads(line)


def parse_whole(source: Source, kind: type[T]) -> T:
    """The one JSON value of a file as the type that its reader declares."""
    return declared(parse_json(source.text(), str(source.path)), kind, str(source.path))


def declared(value: object, kind: type[T], where: str) -> T:
    """Values of another tool's log as the type that its reader declares; what it does not declare is left out.

    NaN may stand in a log: whether it is a score that is needed shows only later.
    """
    try:
        return msgspec.convert(value, kind)
    except msgspec.ValidationError as error:
        raise ValueError(f"{where}: {in_words(error)} Was it written by another version of its tool?") from error


def numbered(keys: Iterable[str]) -> list[str]:
    """Ids that are unique: the second row with the same content gets `#2`, in the order of the file."""
    seen: dict[str, int] = {}
    ids = []
    for key in keys:
        seen[key] = seen.get(key, 0) + 1
        ids.append(key if seen[key] == 1 else f"{key}#{seen[key]}")
    return ids


def run_numbers(keys: Iterable[str]) -> list[int]:
    """The number of the run of rows with the same content, in the order of the file."""
    seen: dict[str, int] = {}
    numbers = []
    for key in keys:
        seen[key] = seen.get(key, 0) + 1
        numbers.append(seen[key])
    return numbers


def content_id(text: str) -> str:
    """A short id of a content, so that an id neither is long nor shows what was asked."""
    return hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()[:16]


def as_text(value: object) -> str | None:
    """A value of a log as text: what is text already stays as it is."""
    if value is None or isinstance(value, str):
        return value
    return json.dumps(value, ensure_ascii=False, sort_keys=True)


def one_of(wanted: Sequence[str], present: Sequence[str], what: str, where: str, flag: str) -> str:
    """The first wanted name that is present, or the only one; an error names those that there are."""
    if not wanted and len(present) == 1:
        return present[0]
    for name in wanted:
        if name in present:
            return name
    asked = f"no {what} {' or '.join(wanted)}" if wanted else f"{len(present)} {what}s"
    raise ValueError(f"{where} has {asked}; it has: {', '.join(present)}. Choose one with {flag}.")
