"""Merge checkpoints of any size: a few megabytes of each input at a time, in one pass, all or nothing."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from math import isfinite
from pathlib import Path

import torch
import xxhash
from torch import Tensor
from tqdm.auto import tqdm

from ...core.files import check_output_folder, output_problems, whole_folder
from ...core.labels import LabelAlignment
from ...core.model_folder import links_outside
from ...methods.base import MergeRule, TensorPair
from ...methods.merges.tensors import mean_tensor, merge_pair, working
from ...models.heads import align_fisher_rows, align_rows, head_entries
from ..groups import Alpha, alpha_of, check_alpha
from ..interpolate import as_rule, check_members, not_mergeable, raise_all
from .folders import Checkpoint, compare_checkpoints, open_all
from .read import (
    CHUNK_BYTES,
    DTYPES,
    Entry,
    Files,
    WeightFile,
    WeightsHash,
    pieces,
    read_weight_file,
    write_all,
)
from .record import FILE_NAME, CurveTable, MergeInput, MergeRecord, Settings, versions

HEADING = "These checkpoints cannot be merged"


def merge_checkpoints(
    old: str | Path,
    new: str | Path | Sequence[str | Path],
    output_dir: str | Path,
    *,
    alpha: Alpha,
    method: str | MergeRule = "linear",
    fisher: str | Path | None = None,
    curve: CurveTable | None = None,
    selection: Settings | None = None,
    progress: bool = False,
) -> MergeRecord:
    """Write `output_dir`: the new model's folder with merged weights, and `pct_merge.json` with how it was made.

    The output has the new model's files, shards and headers, so alpha = 0 gives exactly its bytes. Nothing appears
    under the final name until everything is written: a full disk or an interrupt leaves no half-written model.

    Example:
        >>> from transformers import BertConfig, BertForSequenceClassification
        >>> sizes = dict(hidden_size=8, intermediate_size=8, num_hidden_layers=1, num_attention_heads=2)
        >>> config = BertConfig(vocab_size=9, **sizes)
        >>> from hf_pct.merging import merge_checkpoints
        >>> for name in ("v1", "v2"):
        ...     BertForSequenceClassification(config).save_pretrained(name)
        ...
        >>> merge_checkpoints("v1", "v2", "merged", alpha=0.3).alpha
        0.3
    """
    folders = [new] if isinstance(new, str | Path) else list(new)
    check_alpha(alpha)
    rule = check_method(method, len(folders), fisher is not None)
    target = Path(output_dir)
    old_checkpoint, new_checkpoints, problems = open_all(old, folders)
    fisher_entries, fisher_problems = _open_fisher(fisher)
    needed = sum(entry.bytes for checkpoint in new_checkpoints[:1] for entry in checkpoint.entries.values())
    problems += fisher_problems
    if old_checkpoint is None or len(new_checkpoints) < len(folders):
        raise not_mergeable(problems + output_problems(target, needed), HEADING)
    match, differences = compare_checkpoints(old_checkpoint, new_checkpoints[0])
    problems += differences + links_outside(new_checkpoints[0].folder, new_checkpoints[0].side_files())
    for other in new_checkpoints[1:]:
        problems += compare_checkpoints(new_checkpoints[0], other)[1]
        if other.label_names != new_checkpoints[0].label_names:
            problems.append(f"{other.folder}: its labels differ from those of {new_checkpoints[0].folder}")
    for name, entry in fisher_entries.items():
        weight = old_checkpoint.entries.get(name)
        if weight is None or weight.shape != entry.shape:
            problems.append(f"{fisher}: {name} of shape {entry.shape} is no weight of {old_checkpoint.folder}")
    raise_all(problems and problems + output_problems(target, needed), HEADING)
    check_output_folder(target, needed)
    merge = _Merge(old_checkpoint, new_checkpoints, fisher_entries, match, alpha, rule)
    with whole_folder(target) as partial:
        merge.write(partial, progress)
        record = MergeRecord(
            method=rule.name,
            settings=rule.settings(),
            alpha=dict(alpha) if isinstance(alpha, dict) else alpha,  # type: ignore[arg-type]
            old=MergeInput(str(old), merge.hashes[0].hexdigest()),
            new=tuple(MergeInput(str(f), h.hexdigest()) for f, h in zip(folders, merge.hashes[1:], strict=False)),
            fisher=MergeInput(str(fisher), merge.hashes[-1].hexdigest()) if fisher is not None else None,
            labels={"shared": list(match.shared), "added": list(match.added)} if match else {},
            curve=curve,
            selection=selection,
            output=merge.output,
            versions=versions(),
            weights=merge.merged.hexdigest(),
        )
        (partial / FILE_NAME).write_text(record.to_json(), encoding="utf-8")
    return record


def check_method(method: str | MergeRule, members: int, has_fisher: bool) -> MergeRule:
    """The merge rule, if it fits what was given."""
    rule = as_rule(method)
    check_members(rule, members)
    if rule.needs.fisher != has_fisher:
        raise ValueError(
            f"method is {rule.name!r} and a Fisher was {'given' if has_fisher else 'not given'}: method 'fisher' "
            "needs the old model's Fisher, and a method that does not need one takes none"
        )
    return rule


class _Merge:
    """One pass over the new model's files; inputs are hashed as they are read."""

    def __init__(
        self,
        old: Checkpoint,
        new: list[Checkpoint],
        fisher: dict[str, Entry],
        match: LabelAlignment | None,
        alpha: Alpha,
        rule: MergeRule,
    ) -> None:
        self.sides = [old.entries, *(member.entries for member in new), fisher]
        self.new, self.match, self.alpha, self.rule = new, match, alpha, rule
        self.heads = set(head_entries(old.shapes, new[0].shapes, match)) if match else set()
        self.hashes = [WeightsHash() for _ in self.sides]
        self.merged = WeightsHash()
        self.buffer = torch.empty(CHUNK_BYTES, dtype=torch.uint8)
        self.output: dict[str, str] = {}
        self.bad: list[str] = []

    def write(self, folder: Path, progress: bool) -> None:
        """Hash the inputs in one thread, merge and write in the other; both spend their time outside Python's lock."""
        total = sum(entry.bytes for entry in self.sides[1].values())
        pieces_of = {source: list(self._plan(source)) for source in self.new[0].files}
        plan = [piece for source in self.new[0].files for piece in pieces_of[source]]
        with (
            Files() as files,
            ThreadPoolExecutor(1) as reader,
            tqdm(total=total, unit="B", unit_scale=True, disable=not progress) as bar,
        ):
            ahead = (reader.submit(self._read, files, *piece) for piece in plan)
            coming = next(ahead, None)
            for source in self.new[0].files:
                digest = xxhash.xxh3_128(source.header)
                with open(folder / source.path.name, "wb", buffering=0) as stream:
                    write_all(stream, torch.frombuffer(bytearray(source.header), dtype=torch.uint8))
                    for entry, offset, length in pieces_of[source]:
                        parts = coming.result() if coming is not None else []
                        coming = next(ahead, None)
                        data = self._merged(entry.name, parts)
                        digest.update(memoryview(data.numpy()))
                        self.merged.add(entry.name, entry.dtype, entry.shape, data.numpy())
                        write_all(stream, data)
                        bar.update(len(data))
                        del parts, data  # they lie in what is forgotten
                        for side in self.sides:
                            if entry.name in side:
                                files.forget(side[entry.name], *_same_piece(side[entry.name], entry, offset, length))
                self.output[source.path.name] = f"xxh3_128:{digest.hexdigest()}"
            raise_all([line for name in self.bad for line in self._blame(files, name)], "These weights are not finite")
        for path in self.new[0].side_files():
            shutil.copyfile(path, folder / path.name)
        index = self.new[0].folder / "model.safetensors.index.json"
        if index.is_file() and len(self.new[0].files) > 1:
            shutil.copyfile(index, folder / index.name)

    def _plan(self, source: WeightFile) -> Iterator[tuple[Entry, int, int]]:
        """(entry, offset, length) in the order of the bytes; a head in another label space is small and goes whole."""
        for entry in source.entries:
            if self._goes_whole(entry.name) or not entry.bytes:
                yield entry, 0, entry.bytes
            else:
                for offset, length in pieces(entry.bytes):
                    yield entry, offset, length

    def _goes_whole(self, name: str) -> bool:
        return name in self.heads or not self.rule.elementwise

    def _read(self, files: Files, entry: Entry, offset: int, length: int) -> list[Tensor]:
        """The same piece of every input that has the entry, hashed, which also brings it from the disk."""
        parts = []
        for side, digest in zip(self.sides, self.hashes, strict=True):
            source = side.get(entry.name)
            if source is None:  # no Fisher for this entry
                continue
            if self._goes_whole(entry.name) or not length:
                whole = files.read(source)
                self._hash(digest, source, whole)
                parts.append(whole)
                continue
            piece = files.typed(source, *_same_piece(source, entry, offset, length))
            self._hash(digest, source, piece)
            parts.append(piece)
        return parts

    @staticmethod
    def _hash(digest: WeightsHash, source: Entry, piece: Tensor) -> None:
        digest.add(source.name, source.dtype, source.shape, piece.reshape(-1).view(torch.uint8).numpy())

    def _merged(self, name: str, parts: list[Tensor]) -> Tensor:
        """The merged bytes of one piece."""
        old, *new = parts[: 1 + len(self.new)]
        fisher = parts[-1] if name in self.sides[-1] else None
        if name in self.heads and self.match is not None:
            new = [mean_tensor(new)]  # added classes are the soup's, not the first member's
            old = align_rows(old, new[0], self.match)
            fisher = None if fisher is None else align_fisher_rows(fisher, self.match)
        merged = self._combine(new, old, fisher, alpha_of(name, self.alpha))
        self._check_finite(name, merged)
        return merged.reshape(-1).view(torch.uint8)

    def _combine(self, new: list[Tensor], old: Tensor, fisher: Tensor | None, alpha: float) -> Tensor:
        start = new[0] if len(new) == 1 else mean_tensor(new)
        out = None
        if start.dtype == torch.float32 and start.numel() * 4 <= CHUNK_BYTES:
            out = self.buffer.view(torch.float32)[: start.numel()].view_as(start)
        return merge_pair(self.rule, TensorPair(old, start, fisher, out=out), alpha)

    def _check_finite(self, name: str, merged: Tensor) -> None:
        """One look at the result covers every input that went into it: NaN and infinity survive interpolation."""
        if not merged.is_floating_point() or not merged.numel() or name in self.bad[-1:]:
            return
        values = working(merged)
        # the sum is quicker than looking at each, and finite if they are, unless it overflows
        if not isfinite(float(values.sum())) and not all(isfinite(float(end)) for end in torch.aminmax(values)):
            self.bad.append(name)

    def _blame(self, files: Files, name: str) -> list[str]:
        """Which input holds the NaN or infinity: read again, only when something is wrong."""
        lines = []
        for side in self.sides:
            if name in side and not bool(torch.isfinite(working(files.read(side[name]))).all()):
                lines.append(f"{name}: NaN or infinite values in {side[name].file}")
        return lines or [f"{name}: the merged values overflow {self.sides[1][name].dtype}"]


def _same_piece(source: Entry, entry: Entry, offset: int, length: int) -> tuple[int, int]:
    """Where the numbers of a piece of `entry` are in another input, whose dtype may be another (a Fisher's)."""
    ours, theirs = DTYPES[entry.dtype].itemsize, DTYPES[source.dtype].itemsize
    return offset // ours * theirs, length // ours * theirs


def _open_fisher(path: str | Path | None) -> tuple[dict[str, Entry], list[str]]:
    if path is None:
        return {}, []
    if not Path(path).is_file():
        return {}, [f"{path}: no such file; expected a Fisher saved by `save_fisher`"]
    file, problems = read_weight_file(Path(path))
    return {entry.name: entry for entry in file.entries} if file else {}, problems
