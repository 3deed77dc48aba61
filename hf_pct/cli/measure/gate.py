"""`hf-pct gate`: a report against limits, with an exit code for CI."""

import argparse
from dataclasses import fields

from ..options import add_folder, add_overwrite, add_report

HELP = "Hold a report against limits: exit 0 passed, 1 regressed, 2 wrong use, 3 not comparable."
EXAMPLE = (
    "hf-pct gate out/flip_report.json --max_nfr 0.01 --max_nfr_upper 0.015 --max_class_nfr 0.05 --min_accuracy_gain 0"
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    from ...flips.scored.rules import ScoreGateConfig, parse_tasks

    add_report(parser)
    parser.add_argument("--junit", help="write JUnit XML here")
    parser.add_argument("--markdown", help="write the verdict as Markdown here")
    add_folder(parser)
    add_overwrite(parser)
    rules = parser.add_argument_group("rules (rates are fractions: 0.01 is 1 %)")
    for rule in fields(ScoreGateConfig):
        text = rule.metadata["help"].replace("%", "%%")
        if rule.name == "allow_partial":
            rules.add_argument("--allow_partial", action="store_true", default=None, help=text)
        elif rule.name == "tasks":
            rules.add_argument("--tasks", type=parse_tasks, metavar="JSON", help=text)
        else:
            kind = int if rule.name in ("min_rows", "min_group_rows", "max_regressed_tasks") else float
            rules.add_argument(f"--{rule.name}", type=kind, metavar="N" if kind is int else "RATE", help=text)


def run(args: argparse.Namespace) -> int:
    from ...core.files import check_can_write, keep_inputs, write_text
    from ...flips.gate.reports import check_gate, load_any_report
    from ...flips.render.gate import gate_junit, gate_markdown, gate_text
    from ...flips.report import FlipReport
    from ...flips.scored.rules import ScoreGateConfig

    outputs = [(args.junit, gate_junit), (args.markdown, gate_markdown)]
    keep_inputs((path for path, _ in outputs), [args.report, args.config])
    for path, _ in outputs:
        if path:
            check_can_write(path, args.overwrite)
    rules = {rule.name: getattr(args, rule.name) for rule in fields(ScoreGateConfig)}
    config = ScoreGateConfig.from_dict({name: value for name, value in rules.items() if value is not None})
    report = load_any_report(args.report)
    if args.folder:
        from ...hub.evidence import require_folder

        if not isinstance(report, FlipReport):
            raise ValueError("--folder is for flip reports; other reports do not name one model's weights.")
        require_folder(report, args.folder)
    result = check_gate(report, config)
    print(gate_text(result, report))
    for path, render in outputs:
        if path:
            write_text(path, render(result, report), args.overwrite)
    return result.exit_code
