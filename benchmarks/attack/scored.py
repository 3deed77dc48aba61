"""Scores, other tools' logs, traffic, policies and retrieval: whole files, and the commands that read them damaged."""

import contextlib
import io
import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.attack.case import Case
from benchmarks.attack.mutations import as_json, mutate_bytes, mutate_text, mutate_values
from hf_pct import Predictions
from hf_pct.cli import main as hf_pct

ROWS = 80


class ScoredAttack:
    """Everything that is no table of a classifier's answers on labelled rows."""

    def __init__(self, folder: Path, rng: random.Random) -> None:
        self.folder = folder
        self.rng = rng
        self.sides = {name: self._write_scores(name, wrong) for name, wrong in (("old", 0.05), ("new", 0.5))}
        self.report = self._command_report("scores", ["compare", *self.sides.values()])
        rules = {
            "max_nfr": 0.001, "max_nfr_upper": 0.001, "min_accuracy_gain": 0.5, "max_accuracy_loss": 0.0001,
            "min_score_gain": 0.5, "max_score_loss": 0.0001, "max_dropped": 0.001, "max_regressed_tasks": 0,
        }  # fmt: skip
        whole = self._write("whole_scores.json", as_json(self.report))
        self.score_rules = {name: limit for name, limit in rules.items() if _fails(whole, name, limit)}
        self.traffic = self._write_traffic()
        self.features = self._write_features()
        versions = [str(folder / f"{name}.parquet") for name in ("old", "new", "rerun")]
        self.candidates = self._command_report("candidates", ["compare", *versions, "--candidates"])
        self.kinds: dict[str, tuple[float, Callable[[], Case]]] = {
            "score report": (0.06, self._score_report),
            "score rows": (0.04, self._score_rows),
            "log of lm-eval": (0.03, lambda: self._log("lm-eval", "samples_task_2026-01-01.jsonl", _lm_eval_rows())),
            "log of promptfoo": (0.02, lambda: self._log("promptfoo", "results.json", _promptfoo())),
            "log of deepeval": (0.02, lambda: self._log("deepeval", "test_run.json", _deepeval())),
            "log of inspect": (0.02, lambda: self._log("inspect", "log.json", _inspect())),
            "traffic report": (0.03, self._traffic_report),
            "traffic labels": (0.02, self._traffic_labels),
            "candidates report": (0.03, self._candidates),
            "calibration rows": (0.01, self._calibration),
            "embeddings": (0.01, self._embeddings),
        }

    def _write_scores(self, name: str, wrong: float) -> str:
        rng = np.random.default_rng(len(name) + int(wrong * 100))
        rows = [
            {
                "id": f"r{at}",
                "task": ("sums", "facts")[at % 2],
                "score": float(rng.random() > wrong),
                "text": f"q {at}",
            }
            for at in range(ROWS)
        ]
        path = self.folder / f"scores-{name}.jsonl"
        path.write_text("\n".join(map(json.dumps, rows)))
        return str(path)

    def _command_report(self, name: str, arguments: list[str], output: str = "--output_dir") -> Any:
        """The report that a command writes about whole files."""
        place = self.folder / name
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
            code = hf_pct([*arguments, output, str(place)])
        if code not in (0, 1):
            raise RuntimeError(f"hf-pct {' '.join(arguments)} ended with {code} on whole files")
        path = next(iter(sorted(place.glob("*.json")))) if place.is_dir() else place
        return json.loads(path.read_text(encoding="utf-8"))

    def _score_report(self) -> Case:
        name, limit = self.rng.choice(list(self.score_rules.items()))
        sealed = self.rng.random() < 0.5  # earlier versions wrote no seal
        report = {key: value for key, value in self.report.items() if sealed or key != "seal"}
        times = self.rng.randrange(1, 4) if sealed else 1
        path = self._write("score_report.json", as_json(mutate_values(report, self.rng, times)))
        return Case("score report", ["gate", path, f"--{name}", str(limit)], verdict=1)

    def _score_rows(self) -> Case:
        rows = [json.loads(line) for line in Path(self.sides["new"]).read_text().splitlines()]
        path = self._write("damaged.jsonl", "\n".join(map(as_json, mutate_values(rows, self.rng, 3))))
        return Case("score rows", ["compare", self.sides["old"], path, "--allow_partial"])

    def _log(self, tool: str, name: str, content: Any) -> Case:
        """The same log on both sides, damaged on one."""
        folders = [self.folder / f"{tool}-{side}" for side in ("whole", "damaged")]
        damaged = mutate_values(content, self.rng, self.rng.randrange(1, 4))
        for folder, values in zip(folders, (content, damaged), strict=True):
            folder.mkdir(exist_ok=True)
            lines = isinstance(content, list) and isinstance(values, list)
            text = "\n".join(map(as_json, values)) if lines else as_json(values)
            if values is damaged and self.rng.random() < 0.2:
                text = mutate_text(text, self.rng)
            (folder / name).write_bytes(text.encode("utf-8", "surrogatepass"))
        return Case(f"log of {tool}", ["compare", *(str(folder / name) for folder in folders), "--allow_partial"])

    def _write_traffic(self) -> list[str]:
        rng = np.random.default_rng(3)
        before = rng.integers(0, 3, 400)
        after = np.where(rng.random(400) < 0.2, (before + 1) % 3, before)
        names = ["cancel", "refund", "lost"]
        paths = []
        for name, answers in (("old", before), ("new", after)):
            path = self.folder / f"traffic-{name}.jsonl"
            rows = ({"id": f"t{at}", "prediction": names[answer]} for at, answer in enumerate(answers))
            path.write_text("\n".join(map(json.dumps, rows)))
            paths.append(str(path))
        plan = self.folder / "plan.jsonl"
        with contextlib.redirect_stdout(io.StringIO()):
            hf_pct(["label-plan", *paths, "--labels", "40", "--output", str(plan)])
        self.labels = [json.loads(line) | {"answer": "old"} for line in plan.read_text().splitlines()]
        for row in self.labels:  # every differing row broke
            row["label"] = row["old"] if "old" in row else row["old_answer"]
        filled = self._write("filled.jsonl", "\n".join(map(json.dumps, self.labels)))
        report = self.folder / "traffic.json"
        self.traffic_report = self._command_report(
            report.name, ["traffic", *paths, "--labels", filled], output="--output"
        )
        return paths

    def _traffic_report(self) -> Case:
        path = self._write("damaged_traffic.json", as_json(mutate_values(self.traffic_report, self.rng, 2)))
        return Case("traffic report", ["gate", path, "--max_nfr", "0.01"], verdict=1)

    def _traffic_labels(self) -> Case:
        path = self._write("damaged_labels.jsonl", "\n".join(map(as_json, mutate_values(self.labels, self.rng, 3))))
        return Case("traffic labels", ["traffic", *self.traffic, "--labels", path])

    def _candidates(self) -> Case:
        path = self._write("damaged_candidates.json", as_json(mutate_values(self.candidates, self.rng, 2)))
        return Case("candidates report", ["gate", path, "--max_nfr", "0.001"], verdict=1)

    def _calibration(self) -> Case:
        rows = mutate_values([{"id": at} for at in range(0, 300, 2)], self.rng, 2)
        path = self._write("rows.jsonl", "\n".join(map(as_json, rows)) if isinstance(rows, list) else as_json(rows))
        sides = [str(self.folder / f"{name}.parquet") for name in ("old", "new")]
        decided = ["--output", str(self.folder / "decided.parquet"), "--overwrite"]
        return Case("calibration rows", ["policy", "bayes", *sides, "--calibration", path, *decided])

    def _write_features(self) -> dict[str, Path]:
        rng = np.random.default_rng(5)
        labels = rng.integers(0, 4, 60)
        paths = {}
        for name in ("old_gallery", "old_queries", "new_queries"):
            columns = {"features": (np.eye(4)[labels] + rng.normal(0, 0.3, (60, 4))).tolist()}
            table = Predictions(list(range(60)), labels, labels, label_names=list("abcd"), columns=columns)
            paths[name] = self.folder / f"{name}.parquet"
            table.save(paths[name])
        return paths

    def _embeddings(self) -> Case:
        victim = self.rng.choice(list(self.features))
        damaged = self.folder / "damaged_features.parquet"
        damaged.write_bytes(mutate_bytes(self.features[victim].read_bytes(), self.rng))
        sides = {**self.features, victim: damaged}
        return Case(
            "embeddings", ["retrieval", *(part for key, path in sides.items() for part in (f"--{key}", str(path)))]
        )

    def _write(self, name: str, text: str) -> str:
        path = self.folder / name
        path.write_bytes(text.encode("utf-8", "surrogatepass"))
        return str(path)


def _fails(report: str, rule: str, limit: float) -> bool:
    """Whether the whole report does not keep this rule: only then can a damaged one be greener."""
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        return hf_pct(["gate", report, f"--{rule}", str(limit)]) == 1


def _lm_eval_rows() -> list[dict[str, Any]]:
    return [
        {
            "doc_id": at, "doc": {"question": f"q{at}"}, "target": str(at), "filter": "none",
            "metrics": ["exact_match"], "arguments": {"gen_args_0": {"arg_0": f"q{at}", "arg_1": {}}},
            "resps": [[str(at)]], "filtered_resps": [str(at)], "doc_hash": f"d{at}",
            "prompt_hash": f"p{at}", "target_hash": f"t{at}", "exact_match": 1.0,
        }
        for at in range(12)
    ]  # fmt: skip


def _promptfoo() -> dict[str, Any]:
    tests = [
        {
            "testIdx": at, "promptIdx": 0, "vars": {"q": f"question {at}"}, "success": at % 3 > 0, "score": 1.0,
            "namedScores": {}, "provider": {"id": "echo"}, "prompt": {"raw": f"question {at}", "label": "p"},
            "response": {"output": "out"}, "testCase": {"assert": [{"type": "equals", "value": "out"}]},
        }
        for at in range(8)
    ]  # fmt: skip
    return {"evalId": "e", "results": {"version": 3, "results": tests}, "config": {}}


def _deepeval() -> dict[str, Any]:
    cases = [
        {
            "input": f"q{at}", "actualOutput": "a", "expectedOutput": "b", "success": at > 2,
            "metricsData": [{"name": "Faithfulness", "score": at / 8, "threshold": 0.3, "success": at > 2}],
        }
        for at in range(8)
    ]  # fmt: skip
    return {"testRunData": {"testFile": "t.py", "testCases": cases}}


def _inspect() -> dict[str, Any]:
    samples = [
        {
            "id": at, "epoch": 1, "input": f"q{at}", "target": "yes", "metadata": {},
            "output": {"model": "m", "choices": [], "completion": "yes"}, "messages": [],
            "scores": {"match": {"value": "C" if at % 2 else "I", "answer": "yes"}},
        }
        for at in range(8)
    ]  # fmt: skip
    task = {"task": "t", "task_version": 0, "created": "2026-01-01T00:00:00+00:00", "model": "m", "dataset": {}}
    return {
        "version": 2,
        "status": "success",
        "eval": task,
        "plan": {},
        "results": {},
        "stats": {},
        "samples": samples,
    }
