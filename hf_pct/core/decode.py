"""Every file that a user can pass is read here: bounded in size, without doubled keys, and as a declared type.

`read_json(path, Kind, what)` gives an object of the dataclass (or other type) `Kind`, or raises a `ValueError` that
names the file, the place in it, what it holds and what was expected. Nothing is guessed: text is not a number, a
number is not a flag, and NaN and infinity are refused. `what` says in words what the file should be.
"""

import json
import math
import os
import re
from collections.abc import Hashable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, TypeAlias, TypeVar

import msgspec
import yaml

from .._version import __version__
from .errors import NotComparableError
from .versions import install_command

T = TypeVar("T")
JsonObject: TypeAlias = dict[str, Any]  # an object of JSON: plain values by name

MAX_JSON_BYTES = 1 << 30  # an old report with millions of flipped rows has 400 MB
MAX_YAML_BYTES = 1 << 20
MAX_YAML_NODES = 100_000  # with every alias counted as often as it is used
_LARGEST = 1 << 63


def read_json(path: str | os.PathLike, kind: type[T], what: str, limit: int = MAX_JSON_BYTES) -> T:
    """A JSON file as an object of the type `kind`."""
    return convert(load_json(path, what, limit), kind, str(path))


def load_json(path: str | os.PathLike, what: str, limit: int = MAX_JSON_BYTES) -> Any:
    """The plain contents of a JSON file."""
    return parse_json(read_text(path, what, limit), str(path))


def load_yaml(path: str | os.PathLike, what: str) -> object:
    """The plain contents of a YAML file."""
    return parse_yaml(read_text(path, what, MAX_YAML_BYTES), str(path))


def check_format(data: object, name: str, newest: int, what: str, source: str) -> None:
    """Refuse what is not `what` (a flip report, ...) as hf_pct writes it, and what a newer hf_pct wrote."""
    if not isinstance(data, Mapping) or data.get("format") != name:
        raise ValueError(f'{source} is not {what}: expected a JSON object with "format": "{name}".')
    version = data.get("format_version", 0)
    if not isinstance(version, int) or version > newest:
        raise NotComparableError(
            f"{source} is in format {version}, written by hf_pct {data.get('version', '?')}; this hf_pct "
            f"{__version__} reads up to format {newest}. Upgrade: {install_command(upgrade=True)}"
        )


def read_text(path: str | os.PathLike, what: str, limit: int = MAX_YAML_BYTES) -> str:
    """The text of a file of at most `limit` bytes."""
    try:
        with open(path, "rb") as file:
            content = file.read(limit + 1)
    except FileNotFoundError:
        raise FileNotFoundError(f"{path} does not exist, expected {what}.") from None
    except IsADirectoryError:
        raise ValueError(f"{path} is a folder, expected {what}.") from None
    if len(content) > limit:
        raise ValueError(f"{path} is larger than {limit:,} bytes, which is no size for {what}.")
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise ValueError(f"{path} is not text in UTF-8 ({error}), expected {what}.") from error


def parse_json(text: str | bytes, source: str) -> Any:
    """JSON as plain values. `source` names it in errors."""
    try:
        return json.loads(text, object_pairs_hook=_unique_keys)
    except json.JSONDecodeError as error:
        raise ValueError(f"{source} is not a whole JSON file: {error}.") from error
    except RecursionError:
        raise ValueError(f"{source} is nested too deeply to be read.") from None
    except ValueError as error:  # a doubled key, a number with thousands of digits, bytes that are no text
        raise ValueError(f"{source}: {error}") from error


def _unique_keys(pairs: list[tuple[str, object]]) -> JsonObject:
    values = dict(pairs)
    if len(values) < len(pairs):
        seen: set[str] = set()
        doubled = next(key for key, _ in pairs if key in seen or seen.add(key))  # type: ignore[func-returns-value]
        raise ValueError(f"the key {doubled!r} stands twice in one object. Keep the one that is meant.")
    return values


def parse_yaml(text: str, source: str) -> object:
    """YAML as plain values, with doubled keys refused and aliases bounded. `source` names it in errors."""
    try:
        loader = _Loader(text)
        node = loader.get_single_node()
        if node is None:
            return None
        _check_nodes(node)
        return loader.construct_document(node)
    except yaml.YAMLError as error:
        raise ValueError(f"{source} is not YAML: {error}") from error
    except RecursionError:
        raise ValueError(f"{source} is nested too deeply to be read.") from None
    except (ValueError, OverflowError) as error:
        raise ValueError(f"{source}: {error}") from error


class _Loader(yaml.SafeLoader):
    """Plain values only; 1e-3 is a number, as in YAML 1.2."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, object]:
        seen: set[Hashable] = set()
        for key_node, _ in node.value:
            if key_node.tag == "tag:yaml.org,2002:merge":
                continue  # what `<<` brings in may be overridden
            key = self.construct_object(key_node, deep=True)
            if not isinstance(key, Hashable):
                raise ValueError(f"line {key_node.start_mark.line + 1} has a key that is no text.")
            if key in seen:
                line = key_node.start_mark.line + 1
                raise ValueError(f"the key {key!r} stands twice (line {line}). Keep the one that is meant.")
            seen.add(key)
        return super().construct_mapping(node, deep)


_Loader.add_implicit_resolver("tag:yaml.org,2002:float", re.compile(r"^[-+]?\d+[eE][-+]?\d+$"), list("-+0123456789"))


def _check_nodes(root: yaml.Node) -> None:
    """Refuse a document that is small on disk and endless in memory: aliases of aliases, or of themselves."""
    sizes: dict[int, int] = {}
    open_nodes: set[int] = set()

    def size(node: yaml.Node) -> int:
        if id(node) in open_nodes:
            raise ValueError("an alias (*) stands inside the very thing that it repeats. Write the values out.")
        if id(node) not in sizes:
            open_nodes.add(id(node))
            sizes[id(node)] = 1 + sum(size(child) for child in _children(node))
            open_nodes.discard(id(node))
        if sizes[id(node)] > MAX_YAML_NODES:
            raise ValueError(f"it holds more than {MAX_YAML_NODES:,} values, aliases (*) counted in full.")
        return sizes[id(node)]

    size(root)


def _children(node: yaml.Node) -> Iterator[yaml.Node]:
    if isinstance(node, yaml.MappingNode):
        for pair in node.value:
            yield from pair
    elif isinstance(node, yaml.SequenceNode):
        yield from node.value


def convert(value: object, kind: type[T], source: str) -> T:
    """Plain values as an object of the type `kind`; wrong types and bad numbers are named with their place."""
    check_plain(value, source)
    try:
        return msgspec.convert(value, kind)
    except msgspec.ValidationError as error:
        raise ValueError(f"{source}: {in_words(error)}") from error
    except (ValueError, TypeError) as error:  # raised by the dataclass itself
        raise ValueError(f"{source}: {error}") from error


def in_words(error: msgspec.ValidationError) -> str:
    """msgspec's message with the place first: `classes[3].rows: Expected int, got str.`"""
    text, _, place = str(error).replace("`", "").partition(" - at ")
    place = place.replace("key in $", "$ (a key)").removeprefix("$.").removeprefix("$")
    return f"{place}: {text}." if place else f"{text}."


def check_plain(value: object, source: str) -> None:
    """Refuse NaN, infinities, numbers beyond 64 bits and half surrogate pairs anywhere in plain values."""
    waiting: list[tuple[object, str]] = [(value, "")]
    while waiting:
        container, place = waiting.pop()
        entries: Iterable[tuple[str, object]]
        if isinstance(container, dict):
            entries = ((f".{key}", entry) for key, entry in container.items())
        elif isinstance(container, (list, tuple)):
            entries = ((f"[{number}]", entry) for number, entry in enumerate(container))
        else:
            entries = (("", container),)
        for name, entry in entries:
            if isinstance(entry, (dict, list, tuple)):
                waiting.append((entry, place + name))
            elif isinstance(entry, (int, float, str)):
                problem = _scalar_problem(entry)
                if problem:
                    raise ValueError(f"{source}: {(place + name).lstrip('.') or 'the file'} is {problem}.")


def _scalar_problem(value: int | float | str) -> str:
    if isinstance(value, float) and not math.isfinite(value):
        return f"{value}, expected a finite number"
    if isinstance(value, int) and not -_LARGEST <= value < _LARGEST:
        return "a whole number of more than 64 bits"
    if isinstance(value, str) and not value.isascii() and any("\ud800" <= char <= "\udfff" for char in value):
        return "text with half a surrogate pair, which is no Unicode text"
    return ""


def resolve_beside(path: str | os.PathLike, name: str, what: str) -> Path:
    """The file that `path` names as lying beside it; a name that leads out of the folder is refused."""
    folder = Path(path).parent
    if not name or Path(name).is_absolute() or ".." in Path(name).parts:
        raise ValueError(f"{path} names {name!r} as {what}, expected the name of a file in the same folder.")
    return folder / name
