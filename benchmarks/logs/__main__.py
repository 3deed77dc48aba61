"""Compares real logs, beside what lm-eval's own comparison would say of them.

    python -m benchmarks.logs work/lm_eval/smollm2 work/lm_eval/smollm2-rounded --filter flexible none

lm-eval's repository has a script, `model_comparator`, that compares two models by an unpaired z test: the difference
of the two means over the root of the sum of their squared standard errors, with a tick where p is above 0.05. The same
numbers are computed here from the same logs.
"""

import argparse
import math
from pathlib import Path

import numpy as np
from scipy import special

from hf_pct import Scores, compare
from hf_pct.flips.render.report import spread
from hf_pct.flips.render.scores import pooled_sentence
from hf_pct.flips.scored.task_report import TaskReport
from hf_pct.flips.tables.readers import ReadOptions


def unpaired_p(old: np.ndarray, new: np.ndarray) -> float:
    """The two-sided p-value of lm-eval's z test, with its standard error of the mean."""
    errors = [side.std(ddof=1) / math.sqrt(len(side)) for side in (old, new)]
    z = (new.mean() - old.mean()) / math.hypot(*errors)
    return float(2 * special.ndtr(-abs(z)))


def comparator_cell(p_value: float, alpha: float = 0.05) -> str:
    """The p-value and `model_comparator`'s verdict: a tick says that it sees no difference."""
    return f"{p_value:.2g} {'✓' if p_value > alpha else '×'}"


def task_scores(table: Scores, task: TaskReport) -> np.ndarray:
    return table.scores[task.metric][table.task_codes == table.task_names.index(task.task)]


def rows(old: Scores, new: Scores, metrics: list[str]) -> list[str]:
    report = compare(old, new, metric=metrics)
    lines = []
    for task in report.tasks:
        unpaired = unpaired_p(task_scores(old, task), task_scores(new, task))
        gain, outcomes = task.gain, task.outcomes
        cells = (
            task.task.removeprefix("local_"),
            task.metric,
            f"{task.rows:,}",
            f"{gain.old_mean:.3f} -> {gain.new_mean:.3f}",
            f"{outcomes['broken']:.0f}",
            f"{outcomes['fixed']:.0f}",
            f"{100 * task.rates['nfr']:.1f} ({spread(task.intervals['nfr'])})",
            comparator_cell(unpaired),
            f"{gain.p_value:.2g}",
            f"{task.p_corrected:.2g}",
            "regressed" if task.regressed else "",
        )
        lines.append(f"| {' | '.join(cells)} |")
    return [*lines, "", pooled_sentence(report)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("old", type=Path)
    parser.add_argument("new", type=Path)
    parser.add_argument("--filter", nargs="+", default=["none"])
    parser.add_argument("--metric", nargs="+", default=["acc_norm", "exact_match"])
    args = parser.parse_args()
    options = ReadOptions(filters=tuple(args.filter), metrics=tuple(args.metric))
    old, new = Scores.load(args.old, options), Scores.load(args.new, options)
    header = ["task", "metric", "rows", "mean", "broken", "fixed", "NFR, %"]
    header += ["model_comparator, p", "paired, p", "worse, Holm", "verdict"]
    for first, second, way in ((old, new, "old to new"), (new, old, "new to old")):
        print(f"\n{way}\n\n| {' | '.join(header)} |\n|{'---|' * len(header)}")
        print("\n".join(rows(first, second, args.metric)))


if __name__ == "__main__":
    main()
