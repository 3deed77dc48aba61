"""The command `hf-pct`: one short function a verb, which parses, calls one library function and returns an exit code.

Exit codes: 0 done or passed, 1 regressed, 2 wrong use, 3 not comparable. Nothing heavy is imported before it is
needed.
"""

import argparse
import os
import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from ._version import __version__
from .cli_arguments import Formatter, add_compare_arguments, add_gate_arguments, add_predict_arguments
from .flips.errors import NotComparableError
from .flips.gate import NOT_COMPARABLE, WRONG_USE
from .flips.predictions import Predictions
from .hub import command as hub
from .merging.command import EXAMPLE as MERGE_EXAMPLE
from .merging.command import add_merge_arguments
from .viz.command import add_page_arguments


def main(argv: Sequence[str] | None = None) -> int:
    """Run one verb. Errors that a person can mend are one message, not a traceback."""
    args = build_parser().parse_args(argv)
    try:
        return args.run(args)
    except NotComparableError as error:
        return _say(args.verb, "not comparable", error, NOT_COMPARABLE)
    except (ValueError, OSError, ModuleNotFoundError) as error:
        return _say(args.verb, "error", error, WRONG_USE)


def _say(verb: str, kind: str, error: Exception, code: int) -> int:
    print(f"hf-pct {verb}: {kind}: {error}", file=sys.stderr)
    return code


def build_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="hf-pct",
        description="Ship the new model without breaking what the old one got right.",
        epilog="Start with `hf-pct demo`, or `hf-pct compare --help`.",
    )
    parser.add_argument("--version", action="version", version=f"hf-pct {__version__}")
    verbs = parser.add_subparsers(dest="verb", required=True, metavar="VERB")
    for name, run, text, example, add_arguments in VERBS:
        sub = verbs.add_parser(
            name, help=text.rstrip("."), description=text, epilog=f"example:\n  {example}", formatter_class=Formatter
        )
        add_arguments(sub)
        sub.set_defaults(run=run)
    return parser


def run_predict(args: argparse.Namespace) -> int:
    from .files import check_can_write

    check_can_write(args.output, args.overwrite)  # before the work, not after it
    predictions = _predict(args, args.model, args.processor, args.revision)
    if _is_main_process():
        predictions.save(args.output, args.overwrite)
        print(f"{predictions!r}\nwritten to {args.output}")
    return 0


def run_compare(args: argparse.Namespace) -> int:
    from .compare_files import check_output_dir, write_comparison
    from .flips.compare import compare

    if len(args.models) > 2:
        return _run_chain(args)
    if args.output_dir:
        check_output_dir(args.output_dir, args.overwrite)
    if args.plots:
        from .viz.plot_style import need_matplotlib

        need_matplotlib()  # before the work, not after it
    old, new, rerun = _sides(args)
    report = compare(
        old,
        new,
        old_rerun=rerun,
        slices=args.slices,
        weight=args.weight,
        cluster=args.cluster,
        allow_partial=args.allow_partial,
        confidence=args.confidence,
        correction=args.correction,
        accuracy_margin=args.accuracy_margin,
    )
    if not _is_main_process():
        return 0
    print(report.to_text())
    if args.output_dir:
        written = write_comparison(args.output_dir, report, old, new, args.overwrite)
        print("\nwritten: " + ", ".join(str(path) for path in written))
    if args.plots:
        from .viz.plots import save_plots

        drawn = save_plots(report, args.plots, overwrite=args.overwrite)
        print("drawn: " + ", ".join(str(path) for path in drawn))
    return 0


def _run_chain(args: argparse.Namespace) -> int:
    """More than two versions: the matrix of NFR between every two, and the rows that flip back and forth."""
    from .compare_files import check_chain_output, read_side, write_chain
    from .flips.chain import compare_chain

    if args.output_dir:
        check_chain_output(args.output_dir, len(args.models), args.overwrite)
    versions = [read_side(each, None, partial(_predict, args, each, None, None)) for each in args.models]
    chain = compare_chain(versions, args.models, allow_partial=args.allow_partial)
    if _is_main_process():
        print(chain.to_markdown())
        if args.output_dir:
            written = write_chain(args.output_dir, chain, versions, args.overwrite)
            print("written: " + ", ".join(str(path) for path in written))
    return 0


def run_gate(args: argparse.Namespace) -> int:
    from dataclasses import asdict, fields

    from .files import check_can_write, write_text
    from .flips.gate import GateConfig, check_gate
    from .flips.gate_output import gate_junit, gate_markdown, gate_text
    from .flips.report import FlipReport

    outputs = [(args.junit, gate_junit), (args.markdown, gate_markdown)]
    for path, _ in outputs:
        if path:
            check_can_write(path, args.overwrite)
    rules = asdict(GateConfig.from_yaml(args.config)) if args.config else {}
    given = {each.name: getattr(args, each.name) for each in fields(GateConfig)}
    config = GateConfig.from_dict(rules | {name: value for name, value in given.items() if value is not None})
    report = FlipReport.load(args.report)
    result = check_gate(report, config)
    print(gate_text(result, report))
    for path, render in outputs:
        if path:
            write_text(path, render(result, report), args.overwrite)
    return result.exit_code


def run_merge(args: argparse.Namespace) -> int:
    from .merging.command import run_merge as merge

    return merge(args)


def run_page(args: argparse.Namespace) -> int:
    from .viz.command import run_page as write

    return write(args)


def run_demo(args: argparse.Namespace) -> int:
    from .demo.story import run_demo as tell

    return tell(args.output_dir, seed=args.seed, quick=args.quick)


def run_env(args: argparse.Namespace) -> int:
    from .environment import describe_environment

    print(describe_environment())
    return 0


def _sides(args: argparse.Namespace) -> tuple[Predictions, Predictions, Predictions | None]:
    """Old, new and, if given, the second old run: each from a prediction file or by running a model."""
    from .compare_files import read_side

    files, models = (args.old_predictions, args.new_predictions), args.models
    if any(files) == bool(models) or (any(files) and not all(files)) or (models and len(models) < 2):
        raise ValueError(
            f"Got {len(models)} models and {sum(map(bool, files))} prediction files, expected two models (hf-pct "
            "compare OLD NEW --dataset DATA) or two files (--old_predictions a.parquet --new_predictions b.parquet)."
        )
    old, new = models or files

    def side(source: str, label_names: str | None, processor: str | None, revision: str | None) -> Predictions:
        return read_side(source, label_names, lambda: _predict(args, source, processor, revision))

    return (
        side(old, args.old_label_names, args.old_processor, args.old_revision),
        side(new, args.new_label_names, args.new_processor, args.new_revision),
        side(args.old_rerun, args.old_label_names, args.old_processor, None) if args.old_rerun else None,
    )


def _predict(args: argparse.Namespace, model: str, processor: str | None, revision: str | None) -> Predictions:
    if not args.dataset:
        raise ValueError(
            f"{model} is not a prediction file, so it is taken for a model, and a model needs --dataset: a file, a "
            "folder saved by `datasets`, or a Hub id."
        )
    import datasets
    from transformers.utils import logging

    from .data import load_data
    from .predict import predict

    # the one progress bar that a person waits for is that of the prediction
    datasets.disable_progress_bars()
    logging.disable_progress_bar()
    return predict(
        model,
        load_data(args.dataset, split=args.split, config=args.dataset_config),
        processor=processor,
        revision=revision,
        id_column=args.id_column,
        input_column=args.input_column,
        label_column=args.label_column,
        keep_columns=args.keep_columns,
        batch_size=args.batch_size,
        max_length=args.max_length,
        use_cache=not args.no_cache,
        dataset_name=args.dataset,
    )


def _is_main_process() -> bool:
    """Under `accelerate launch` or torchrun only rank 0 prints and writes."""
    return int(os.environ.get("RANK", "0")) == 0


def _demo_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--output_dir", type=Path, default=Path("hf_pct_demo"), help="where to write")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--quick", action="store_true", help="smaller models and less data, to see that it runs")


VERBS = (
    (
        "predict",
        run_predict,
        "Run a model over a dataset and keep its answers as a file.",
        "hf-pct predict ./intent-v1 --dataset test.jsonl --output v1.parquet",
        add_predict_arguments,
    ),
    (
        "compare",
        run_compare,
        "Count the flips between an old and a new model, or between two prediction files.",
        "hf-pct compare ./intent-v1 ./intent-v2 --dataset test.jsonl --output_dir out\n"
        "  hf-pct compare --old_predictions v1.parquet --new_predictions v2.parquet --output_dir out\n"
        "  hf-pct compare v1.parquet v2.parquet v3.parquet --output_dir chain",
        add_compare_arguments,
    ),
    (
        "gate",
        run_gate,
        "Hold a flip report against limits: exit 0 passed, 1 regressed, 2 wrong use, 3 not comparable.",
        "hf-pct gate out/flip_report.json --max_nfr 0.01 --max_nfr_upper 0.015 --max_class_nfr 0.05 "
        "--min_accuracy_gain 0",
        add_gate_arguments,
    ),
    (
        "merge",
        run_merge,
        "Merge a new model back toward the old one: fewer flips, at no cost at training or inference.",
        MERGE_EXAMPLE,
        add_merge_arguments,
    ),
    (
        "page",
        run_page,
        "Write a flip report as one HTML file that can be mailed and opened without a network.",
        "hf-pct page out/flip_report.json -o update.html --gate gate.yaml",
        add_page_arguments,
    ),
    (
        "card",
        hub.run_card,
        "Write the model card of an update from its flip report.",
        hub.CARD_EXAMPLE,
        hub.add_card_arguments,
    ),
    (
        "push",
        hub.run_push,
        "Publish a model on the Hub together with its flips, in one commit.",
        hub.PUSH_EXAMPLE,
        hub.add_push_arguments,
    ),
    (
        "verify",
        hub.run_verify,
        "Predict again with a published update: exit 0 its flips hold, 1 they differ, 3 not comparable.",
        hub.VERIFY_EXAMPLE,
        hub.add_verify_arguments,
    ),
    (
        "push-metric",
        hub.run_push_metric,
        "Publish the `evaluate` metric as a Space.",
        hub.PUSH_METRIC_EXAMPLE,
        hub.add_push_metric_arguments,
    ),
    (
        "demo",
        run_demo,
        "Train a small old and a small new model on real data, compare them and show the report.",
        "hf-pct demo",
        _demo_arguments,
    ),
    (
        "env",
        run_env,
        "Show versions and devices, for a bug report.",
        "hf-pct env",
        lambda parser: None,
    ),
)


if __name__ == "__main__":
    sys.exit(main())
