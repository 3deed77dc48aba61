"""Make a recorded merge again: the same inputs, the same bytes, or an error that says which input has changed."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from hf_pct.merging.checkpoints import open_all
from hf_pct.merging.interpolate import not_mergeable, raise_all
from hf_pct.merging.record import MergeRecord, Source
from hf_pct.merging.streaming import merge_checkpoints
from hf_pct.merging.weight_files import hash_weights, read_weight_file


def replay(
    config: str | Path,
    output_dir: str | Path,
    *,
    old: str | Path | None = None,
    new: Sequence[str | Path] = (),
    progress: bool = False,
) -> MergeRecord:
    """Merge as a `pct_merge.json` says. `old` and `new` tell where the inputs are now, if they have moved."""
    record = MergeRecord.load(config)
    old = old or record.old.path
    sources = list(new) or [source.path for source in record.new]
    heading = f"{config} cannot be made again"
    old_checkpoint, new_checkpoints, problems = open_all(old, sources)
    if len(sources) != len(record.new):
        problems.append(f"{len(sources)} new models were given, the record has {len(record.new)}")
    if old_checkpoint is None or problems:
        raise not_mergeable(problems, heading)
    recorded = (record.old, *record.new)
    for checkpoint, source in zip((old_checkpoint, *new_checkpoints), recorded, strict=True):
        found = hash_weights(checkpoint.entries)
        if found != source.weights:
            problems.append(f"{checkpoint.folder}: its weights are {found}, the record says {source.weights}")
    if record.fisher is not None:
        problems += _fisher_problems(record.fisher)
    raise_all(problems, heading)
    again = merge_checkpoints(
        old,
        sources,
        output_dir,
        alpha=record.alpha,
        method=record.method,
        fisher=record.fisher.path if record.fisher else None,
        curve=record.curve,
        selection=record.selection,
        progress=progress,
    )
    changed = sorted(name for name, value in record.output.items() if again.output.get(name) != value)
    if changed:
        raise RuntimeError(
            f"{output_dir} was written from the recorded inputs, but {', '.join(changed)} differs from the record: "
            f"it was made with {record.versions}, this is {again.versions}"
        )
    return again


def _fisher_problems(source: Source) -> list[str]:
    if not Path(source.path).is_file():
        return [f"{source.path}: the Fisher of this merge is not there"]
    file, problems = read_weight_file(Path(source.path))
    found = hash_weights({entry.name: entry for entry in file.entries}) if file and not problems else source.weights
    if found != source.weights:
        problems.append(f"{source.path}: its values are {found}, the record says {source.weights}")
    return problems
