"""`hf-pct merge --alpha auto`: sweep, choose by contract, then write the chosen merge from the files themselves."""

from __future__ import annotations

import argparse
import os
import tempfile
from pathlib import Path

import torch

from ...core.decode import JsonObject
from ...core.files import check_output_folder, whole_folder
from ...merging.arguments import BCWIArguments
from ...merging.checkpoints.stream import merge_checkpoints
from ...merging.interpolate import as_rule
from ...merging.lora import is_adapter_folder, merge_lora
from ...merging.merger import BCWIMerger
from ...merging.selection import Selection
from ...merging.sides import plain_weights
from ...models.batchnorm import batchnorm_layers
from ...models.data import Rows, load_data, read_rows
from ...models.fisher.files import load_fisher, save_fisher
from ...models.load import LoadedModel, load_model
from ...models.load.inputs import Collator, model_rows
from ...models.revisions import resolve_folder
from ...models.types import RowSource


def merge_automatically(args: argparse.Namespace) -> int:
    """Exit code 0, or 1 when no alpha keeps the promise and the new model is written unmerged."""
    old_folder, *new_folders = (resolve_folder(model) for model in args.models)
    weights = sum(path.stat().st_size for path in Path(new_folders[0]).glob("*.safetensors"))
    check_output_folder(args.output_dir, weights)  # before the sweep, not after it
    loaded = load_model(new_folders[0], max_length=args.max_length)
    data = load_data(args.dataset, split=args.split, config=args.dataset_config)
    rows = _by_length(model_rows(loaded, _read(args, loaded, data)))
    training = None
    if args.train_dataset:
        training = _by_length(model_rows(loaded, _read(args, loaded, load_data(args.train_dataset))))
    with tempfile.TemporaryDirectory() as scratch:
        settings = _settings(args, scratch, training is not None or not batchnorm_layers(loaded.model))
        merger = BCWIMerger(
            old_folder,
            [plain_weights(loaded.model), *new_folders[1:]],
            settings,
            eval_dataset=rows,
            train_dataset=training,
            data_collator=Collator(loaded),
        )
        merger.raw_fisher = load_fisher(args.fisher) if args.fisher else None
        selection = _choose(merger, args)
        code = _write(merger, selection, args, old_folder, new_folders)
    return code


def _settings(args: argparse.Namespace, scratch: str, can_recalibrate: bool) -> BCWIArguments:
    if not can_recalibrate:
        print("The model has BatchNorm layers and no --train_dataset was given: their statistics are interpolated.")
    return BCWIArguments(
        output_dir=scratch,
        method=args.method,
        **as_rule(args.method, args).settings(),
        alphas=args.alphas if args.alpha == "auto" else [args.alpha],
        fisher_label=args.fisher_label,
        recalibrate=None if can_recalibrate else False,
        align=args.align,
        margin=args.margin,
        target_accuracy=args.target_accuracy,
        test_confidence=args.test_confidence,
        risk=args.risk or None,
        max_nfr=args.max_nfr,
        certify=args.certify,
        delta=args.delta,
        per_device_eval_batch_size=args.batch_size,
        remove_unused_columns=False,
        use_cpu=not torch.cuda.is_available(),
        disable_tqdm=args.quiet,
        report_to="none",
    )


def _choose(merger: BCWIMerger, args: argparse.Namespace) -> Selection:
    sweep = merger.sweep()
    if _is_main():
        print(sweep.to_markdown())
    if args.alpha == "auto":
        return merger.select()
    i = sweep.curve.index(args.alpha)
    accuracy, nfr = float(sweep.curve.accuracy[i]), float(sweep.curve.nfr[i])
    return Selection(args.alpha, True, "given on the command line", accuracy, nfr, rows_searched=sweep.curve.total)


def _write(merger: BCWIMerger, selection: Selection, args: argparse.Namespace, old: str, new: list[str]) -> int:
    """From the files, tensor by tensor, so that `--config` can make it again; from memory where that is impossible."""
    if not _is_main():
        return 0 if selection.kept else 1
    averaged = merger.averages(selection.alpha)
    table = merger.last_sweep.table() if merger.last_sweep else None
    if is_adapter_folder(new[0]):
        merge_lora(
            old, new[0], args.output_dir, alpha=selection.alpha, rank=args.rank, curve=table,
            selection=selection.as_dict(),
        )  # fmt: skip
    elif (
        merger.args.align or (averaged and merger.recalibrates) or (args.method == "soup" and merger.args.greedy_soup)
    ):
        merger.set_alpha(selection.alpha)
        with whole_folder(args.output_dir) as partial:
            merger.save_merged(partial)
            _save_processor(new[0], partial)
    else:
        fisher = _fisher_file(merger, args)
        merge_checkpoints(
            old, new, args.output_dir, alpha=selection.alpha, method=merger.rule, fisher=fisher, curve=table,
            selection=selection.to_dict(), progress=not args.quiet,
        )  # fmt: skip
    print(f"\nalpha {selection.alpha} (share of the old model): {selection.reason}")
    print(f"accuracy {100 * selection.accuracy:.2f} %, NFR {100 * selection.nfr:.2f} % on {args.dataset}")
    if selection.promise:
        print(f"certified on {selection.rows_tested} rows that the search did not see: {selection.promise}")
    print(f"written to {args.output_dir}")
    return 0 if selection.kept else 1


def _fisher_file(merger: BCWIMerger, args: argparse.Namespace) -> Path | None:
    """The Fisher as a file beside the output, because making the merge again needs it."""
    if not merger.rule.needs.fisher or args.fisher:
        return args.fisher
    path = args.output_dir.with_name(args.output_dir.name + "-fisher.safetensors")
    path.parent.mkdir(parents=True, exist_ok=True)
    save_fisher(merger.raw_fisher or {}, path)
    return path


def _save_processor(source: str, folder: Path) -> None:
    from ...merging.checkpoints.folders import open_checkpoint

    checkpoint, _ = open_checkpoint(source)
    for path in checkpoint.side_files() if checkpoint else []:
        if not (folder / path.name).exists():
            (folder / path.name).write_bytes(path.read_bytes())


def _read(args: argparse.Namespace, loaded: LoadedModel, data: RowSource) -> Rows:
    return read_rows(
        data,
        usual_inputs=loaded.task.usual_columns,
        model_names=loaded.label_names,
        id_column=args.id_column,
        input_column=args.input_column,
        label_column=args.label_column,
    )


def _by_length(rows: list[JsonObject]) -> list[JsonObject]:
    """Similar lengths together, so that little of a batch is padding."""
    return sorted(rows, key=lambda row: len(row["input_ids"])) if "input_ids" in rows[0] else rows


def _is_main() -> bool:
    return int(os.environ.get("RANK", "0")) == 0
