"""Make a recorded merge again: the same inputs, the same bytes, or an error that says which input has changed."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path

from ...core.errors import NotComparableError
from ...core.fingerprints import same_weights
from ..interpolate import as_rule, not_mergeable, raise_all
from .folders import open_all
from .read import hash_weights, read_weight_file
from .record import MergeInput, MergeRecord
from .stream import merge_checkpoints


def replay(
    config: str | Path,
    output_dir: str | Path,
    *,
    old: str | Path | None = None,
    new: Sequence[str | Path] = (),
    progress: bool = False,
) -> MergeRecord:
    """Merge as a `pct_merge.json` says. `old` and `new` say where the inputs are now, if they have moved."""
    record = MergeRecord.load(config)
    old = old or record.old.path
    sources = list(new) or [source.path for source in record.new]
    heading = f"{config} cannot be made again"
    old_checkpoint, new_checkpoints, problems = open_all(old, sources)
    problems += _record_problems(record)
    if len(sources) != len(record.new):
        problems.append(f"{len(sources)} new models were given, the record has {len(record.new)}")
    if old_checkpoint is None or problems:
        raise not_mergeable(problems, heading)
    files = {file.path.name for file in new_checkpoints[0].files}
    if files != record.output.keys():
        problems.append(
            f"the record has hashes of {sorted(record.output) or 'no output files'}, the merge writes "
            f"{sorted(files)}: whether the same bytes come out cannot be checked"
        )
    recorded = (record.old, *record.new)
    for checkpoint, source in zip((old_checkpoint, *new_checkpoints), recorded, strict=True):
        if source.weights and not same_weights(source.weights, checkpoint.entries.values()):
            now = hash_weights(checkpoint.entries)
            problems.append(f"{checkpoint.folder}: its weights are {now}, the record says {source.weights}")
    if record.fisher is not None:
        problems += _fisher_problems(record.fisher)
    raise_all(problems, heading)
    again = merge_checkpoints(
        old,
        sources,
        output_dir,
        alpha=record.alpha,
        method=as_rule(record.method, record.settings),
        fisher=record.fisher.path if record.fisher else None,
        curve=record.curve,
        selection=record.selection,
        progress=progress,
    )
    changed = sorted(name for name, value in record.output.items() if again.output.get(name) != value)
    if changed:
        shutil.rmtree(output_dir)  # made by this call, and not the model that was asked for
        raise NotComparableError(
            f"{heading}: from the recorded inputs {', '.join(changed)} comes out with other bytes, so nothing was "
            f"kept. The recorded merge was made with {record.versions}, this is {again.versions}"
        )
    return again


def _record_problems(record: MergeRecord) -> list[str]:
    """What the record itself says, or does not say, about being made again."""
    if record.not_replayable:
        return [f"it cannot be replayed, because {record.not_replayable}"]
    unknown = [source.path for source in (record.old, *record.new) if not source.weights]
    if unknown:
        return [f"it cannot be replayed, because it does not record the weights of {', '.join(unknown)}"]
    return []


def _fisher_problems(source: MergeInput) -> list[str]:
    if not Path(source.path).is_file():
        return [f"{source.path}: the Fisher of this merge is not there"]
    file, problems = read_weight_file(Path(source.path))
    if file and not problems and not same_weights(source.weights, file.entries):
        now = hash_weights({entry.name: entry for entry in file.entries})
        problems.append(f"{source.path}: its values are {now}, the record says {source.weights}")
    return problems
