"""How fast logs and tables of scores are read and compared, as ratios within one run.

    python -m benchmarks.logs.speed --rows 100000 --scored_rows 1000000

The bars: two lm-eval logs of 10^5 rows within 3 times the parsing of their JSON; 10^6 scored rows compared within 2
times the reading of them.
"""

import argparse
import json
import tempfile
from pathlib import Path

import numpy as np

from benchmarks.speed.timing import Ratio, interleave, ratio
from hf_pct import Scores, compare

QUESTION = "Question: which of these is the answer to question number {number}, and why would anybody ask?\nAnswer:"


def write_log(path: Path, rows: int, seed: int) -> None:
    """A log as lm-eval writes it for a task of four choices."""
    rng = np.random.default_rng(seed)
    choices = [" the first choice", " the second choice", " the third choice", " the fourth choice"]
    with path.open("w", encoding="utf-8") as file:
        for number, best in enumerate(rng.integers(0, 4, rows).tolist()):
            gold = number % 4
            prompt = QUESTION.format(number=number)
            likelihoods = [[str(-10.5 - (place != best)), "False"] for place in range(4)]
            sample = {
                "doc_id": number,
                "doc": {"question": prompt, "choices": choices, "answer": gold},
                "target": str(gold),
                "arguments": {f"gen_args_{at}": {"arg_0": prompt, "arg_1": choices[at]} for at in range(4)},
                "resps": [[entry] for entry in likelihoods],
                "filtered_resps": likelihoods,
                "filter": "none",
                "metrics": ["acc", "acc_norm"],
                "doc_hash": f"{number:064x}",
                "prompt_hash": f"{number:064x}",
                "target_hash": f"{gold:064x}",
                "acc": float(best == gold),
                "acc_norm": float(best == gold),
            }
            file.write(json.dumps(sample) + "\n")


def time_logs(folder: Path, rows: int, rounds: int) -> Ratio:
    sides = [folder / side / "samples_task_2026-01-01T00-00-00.jsonl" for side in ("old", "new")]
    for seed, path in enumerate(sides):
        path.parent.mkdir()
        write_log(path, rows, seed)

    def parse() -> None:
        for path in sides:
            with path.open(encoding="utf-8") as file:
                for line in file:
                    json.loads(line)

    def both() -> None:
        compare(*(Scores.load(path) for path in sides), metric="acc")

    return ratio(interleave({"parse": parse, "compare": both}, rounds), "compare", "parse")


def time_scores(folder: Path, rows: int, rounds: int, graded: bool) -> Ratio:
    rng = np.random.default_rng(0)
    ids = [f"row-{number:09d}" for number in range(rows)]
    lang = rng.choice(["en", "de", "fr", "it"], rows).tolist()
    for side in ("old", "new"):
        scores = rng.random(rows).round(3) if graded else (rng.random(rows) < 0.8).astype(float)
        Scores(ids, {"f1": scores}, columns={"lang": lang}).save(folder / f"{side}_{graded}.parquet")

    def load() -> list[Scores]:
        return [Scores.load(folder / f"{side}_{graded}.parquet") for side in ("old", "new")]

    old, new = load()
    contestants = {"read": load, "compare": lambda: compare(old, new, right_at=0.5)}
    return ratio(interleave(contestants, rounds), "compare", "read")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=100_000, help="of each lm-eval log")
    parser.add_argument("--scored_rows", type=int, default=1_000_000, help="of each table of scores")
    parser.add_argument("--rounds", type=int, default=5)
    args = parser.parse_args()
    print("| what | beside | ratio | bar |\n|---|---|---|---|")
    with tempfile.TemporaryDirectory() as name:
        logs = time_logs(Path(name), args.rows, args.rounds)
        what = f"two lm-eval logs of {args.rows:,} rows, read and compared"
        print(f"| {what} | parsing their JSON once | {logs} | 3x |")
        for graded in (False, True):
            scores = time_scores(Path(name), args.scored_rows, args.rounds, graded)
            what = f"two tables of {args.scored_rows:,} {'graded' if graded else '0/1'} scores, compared"
            print(f"| {what} | reading them | {scores} | 2x |")


if __name__ == "__main__":
    main()
