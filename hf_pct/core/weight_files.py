"""safetensors files as they lie on disk: which files a folder's weights are in, and where each tensor's bytes are.

Only headers are read here, and no library for tensors is needed: hashing a checkpoint, or refusing one before it is
loaded, must work where torch is not installed. Weights come from safetensors only, and from inside the folder only.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from pathlib import Path

from .decode import load_json, parse_json

ITEM_BYTES = {
    "F64": 8,
    "F32": 4,
    "F16": 2,
    "BF16": 2,
    "F8_E4M3": 1,
    "F8_E5M2": 1,
    "I64": 8,
    "I32": 4,
    "I16": 2,
    "I8": 1,
    "U64": 8,
    "U32": 4,
    "U16": 2,
    "U8": 1,
    "BOOL": 1,
}
WEIGHTS = "model.safetensors"
ADAPTER = "adapter_model.safetensors"
INDEX = "model.safetensors.index.json"
PICKLED = ("*.bin", "*.pt", "*.pth", "*.ckpt", "*.pkl")


@dataclass(frozen=True)
class Entry:
    """One tensor on disk."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    file: Path
    start: int
    stop: int

    @property
    def bytes(self) -> int:
        return self.stop - self.start


@dataclass(frozen=True)
class WeightFile:
    """One safetensors file: its raw header and its entries in the order of their bytes."""

    path: Path
    header: bytes
    entries: tuple[Entry, ...]


@dataclass(frozen=True)
class FolderWeights:
    """The weights of a folder: its files, and every tensor by name."""

    files: tuple[WeightFile, ...]
    entries: dict[str, Entry]


def read_weight_file(path: Path) -> tuple[WeightFile | None, list[str]]:
    """Read and check a header against the file's real size. Returns the problems instead of stopping at the first."""
    size = path.stat().st_size
    with open(path, "rb") as stream:
        start = stream.read(8)
        length = int.from_bytes(start, "little")
        if len(start) < 8 or 8 + length > size:
            return None, [f"{path}: truncated, {size} bytes are too few for its header"]
        header = stream.read(length)
    data = 8 + length
    try:
        table = parse_json(header, "the header")
        entries = [
            Entry(name, spec["dtype"], tuple(spec["shape"]), path, *(data + int(at) for at in spec["data_offsets"]))
            for name, spec in table.items()
            if name != "__metadata__"
        ]
        entries.sort(key=lambda entry: (entry.start, entry.stop))
        problems = _entry_problems(path, entries, data, size)
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        return None, [f"{path}: not a safetensors file, its header cannot be read ({error})"]
    return WeightFile(path, start + header, tuple(entries)), problems


def _entry_problems(path: Path, entries: list[Entry], data: int, size: int) -> list[str]:
    """Unknown kinds of numbers, a file of another size than promised, and tensors that overlap or leave gaps."""
    problems = [
        f"{path}: {entry.name} has dtype {entry.dtype}; expected one of {sorted(ITEM_BYTES)}"
        for entry in entries
        if entry.dtype not in ITEM_BYTES
    ]
    expected = max((entry.stop for entry in entries), default=data)
    if size != expected:
        what = "truncated" if size < expected else "longer than it should be"
        problems.append(f"{path}: {what}, {size} bytes where its header promises {expected}: copy it again")
    at = data
    for entry in entries:
        item = ITEM_BYTES.get(entry.dtype)
        wrong_size = item is not None and entry.bytes != prod(entry.shape) * item
        if entry.start != at or entry.stop < entry.start or wrong_size:
            problems.append(f"{path}: the bytes of {entry.name} do not fit its shape {entry.shape}: a corrupt header")
        at = entry.stop
    return problems


def open_weights(folder: Path) -> tuple[FolderWeights | None, list[str]]:
    """Every header of a folder's weights, and every problem; None when there is no weight file to read."""
    problems: list[str] = []
    names, index = _weight_names(folder, problems)
    if not names:
        return None, problems
    files = []
    for name in names:
        file, file_problems = read_weight_file(folder / name)
        problems += file_problems
        if file is not None:
            files.append(file)
    entries: dict[str, Entry] = {}
    for file in files:
        for entry in file.entries:
            if entry.name in entries:
                problems.append(
                    f"{folder}: {entry.name} is in {entries[entry.name].file.name} and in {file.path.name}"
                )
            entries[entry.name] = entry
    read = {file.path.name for file in files}
    problems += [
        f"{folder}: the index places {name} in {shard}, which does not hold it"
        for name, shard in index.items()
        if shard in read and (name not in entries or entries[name].file.name != shard)
    ]
    return FolderWeights(tuple(files), entries), problems


def read_index(path: Path, problems: list[str]) -> dict[str, str]:
    """The shard of every tensor, from an index; only safetensors files beside the index are believed."""
    try:
        index = {str(name): shard for name, shard in load_json(path, "an index of shards")["weight_map"].items()}
        outside = sorted({shard for shard in index.values() if Path(shard).name != shard})
        pickled = sorted({shard for shard in index.values() if not shard.endswith(".safetensors")} - {*outside})
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        problems.append(f"{path}: not an index of shards ({error})")
        return {}
    problems += [f"{path.parent}: the index names {name!r}, which is not a file name" for name in outside]
    problems += [
        f"{path.parent}: the index names {name}, which is not a safetensors file; pickled weights can run code when "
        "loaded. Save the model again with `save_pretrained`, which writes safetensors"
        for name in pickled
    ]
    return {name: shard for name, shard in index.items() if shard not in {*outside, *pickled}}


def _weight_names(folder: Path, problems: list[str]) -> tuple[list[str], dict[str, str]]:
    """The weight files of a folder: one file, or the shards that its index names."""
    if (folder / WEIGHTS).is_file():
        return [WEIGHTS], {}
    if (folder / INDEX).is_file():
        index = read_index(folder / INDEX, problems)
        names = sorted(set(index.values()))
        missing = [name for name in names if not (folder / name).is_file()]
        problems += [f"{folder}: shard {name} is missing" for name in missing]
        return [name for name in names if name not in missing], index
    if (folder / ADAPTER).is_file():
        problems.append(f"{folder}: holds an adapter, not a model; merge adapters with `merge_lora`")
        return [], {}
    pickled = sorted(path.name for pattern in PICKLED for path in folder.glob(pattern))
    only = f"; found only pickled files, which can run code when loaded: {pickled[:5]}" if pickled else ""
    problems.append(
        f"{folder}: no {WEIGHTS}{only}. Load the model where you trust it and save it again with "
        "`save_pretrained`, which writes safetensors"
    )
    return [], {}


def check_folder_weights(folder: Path) -> None:
    """Before a model is loaded: its weights are complete safetensors files inside its folder, or it is refused."""
    if (folder / "adapter_config.json").is_file() and (folder / ADAPTER).is_file():
        refuse_weights(str(folder), read_weight_file(folder / ADAPTER)[1])
        return
    if not any(folder.glob("*.safetensors")) and not (folder / INDEX).is_file():
        pickled = sorted(path.name for pattern in PICKLED for path in folder.glob(pattern))
        if not pickled:
            raise ValueError(f"{folder} has no weights in it, expected {WEIGHTS} beside config.json.")
        raise ValueError(
            f"{folder} holds pickled weights only ({', '.join(pickled[:5])}); loading a pickle can run any code. "
            f"Expected {WEIGHTS}. Convert it once, where you trust it: "
            "AutoModelForSequenceClassification.from_pretrained("
            f"{str(folder)!r}, use_safetensors=False, weights_only=True).save_pretrained({str(folder)!r})"
        )
    refuse_weights(str(folder), open_weights(folder)[1])


def refuse_weights(name: str, problems: list[str]) -> None:
    """Raise what is wrong with a model's weight files, if anything is."""
    if problems:
        raise ValueError(
            f"The weights of {name} cannot be loaded from safetensors: {'; '.join(problems)}. Expected a complete "
            f"{WEIGHTS}; pickled weights are refused because loading them can run any code."
        )
