"""The files that a person can hand to `hf-pct`, whole, and the commands that read them."""

import json
import random
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import yaml

from benchmarks.attack.case import Case
from benchmarks.attack.models import ModelAttack
from benchmarks.attack.mutations import as_json, mutate_bytes, mutate_text, mutate_values
from benchmarks.attack.scored import ScoredAttack
from hf_pct import Predictions, compare
from hf_pct.flips.chain import compare_chain
from hf_pct.flips.tables.predictions import METADATA_KEY

NAMES = ["card_arrival", "lost_card", "refund", "exchange_rate"]


class Attack:
    """Whole files in a folder, and seeded streams of cases with one of them damaged."""

    def __init__(self, folder: Path, seed: int = 0) -> None:
        self.folder = folder
        self.rng = random.Random(seed)
        self.old, self.new, self.rerun = self._write_tables()
        self.report = self._write_report()
        self.kinds: dict[str, tuple[float, Callable[[], Case]]] = {
            "report": (0.35, self._report),
            "report of an earlier version": (0.1, self._earlier_report),
            "report text": (0.05, self._report_text),
            "gate": (0.08, self._gate),
            "config": (0.05, self._config),
            "csv": (0.08, lambda: self._table("csv")),
            "jsonl": (0.08, lambda: self._table("jsonl")),
            "parquet": (0.06, self._parquet),
            "metadata": (0.05, self._metadata),
            "label names": (0.03, self._label_names),
            "chain": (0.03, self._chain),
            "curve": (0.02, self._curve),
            "merge record": (0.01, self._record),
            "checkpoint": (0.01, self._checkpoint),
            **ScoredAttack(folder, self.rng).kinds,
            **ModelAttack(folder, self.rng).kinds,
        }

    def cases(self, count: int) -> Iterator[Case]:
        """About `count` cases, every kind by its share."""
        for share, make in self.kinds.values():
            for _ in range(max(1, round(share * count))):
                yield make()

    def _write_tables(self) -> list[Predictions]:
        rng = np.random.default_rng(7)
        labels = rng.integers(0, 4, 300)
        columns = {"channel": ["app", "phone", "web"] * 100, "traffic": (1.0 + rng.random(300)).tolist()}
        tables = []
        for name, wrong in (("old", 0.1), ("new", 0.15), ("rerun", 0.1)):
            answers = np.where(rng.random(300) < wrong, (labels + 1) % 4, labels)
            table = Predictions(list(range(300)), labels, answers, label_names=NAMES, columns=columns)
            table.save(self.folder / f"{name}.parquet")
            tables.append(table)
        return tables

    def _write_report(self) -> dict:
        report = compare(self.old, self.new, old_rerun=self.rerun, weight="traffic")
        path = report.save(self.folder / "whole.json")
        # every rule is set just below what the whole report says, so that its verdict is "regressed"
        self.rules = {
            "max_nfr": report.nfr * 0.999,
            "max_nfr_upper": report.nfr_upper * 0.999,
            "max_class_nfr": max(group.nfr for group in report.classes) * 0.999,
            "max_slice_nfr": max(group.nfr for group in report.slices["channel"]) * 0.999,
            "max_relative_nfr": report.counts.relative_nfr * 0.999,
            "max_excess_nfr": report.noise_floor.excess_nfr * 0.999 if report.noise_floor else 0.0,
            "min_accuracy_gain": report.counts.accuracy_gain + 0.001,
            "max_accuracy_loss": max(0.0, -report.non_inferiority.lower_bound) * 0.999,
            "min_rows": 301,
        }
        self.weighted = {"max_weighted_nfr": report.weighted.counts.nfr * 0.999} if report.weighted else {}
        return json.loads(path.read_text(encoding="utf-8"))

    def _gated(self, kind: str, text: str, rules: dict[str, float]) -> Case:
        path = self._write("report.json", text)
        name, limit = self.rng.choice(list(rules.items()))
        return Case(kind, ["gate", path, f"--{name}", str(limit)], verdict=1)

    def _report(self) -> Case:
        damaged = mutate_values(self.report, self.rng, self.rng.randrange(1, 4))
        return self._gated("report", as_json(damaged), self.rules | self.weighted)

    def _earlier_report(self) -> Case:
        whole = {name: value for name, value in self.report.items() if name != "seal"}
        return self._gated("report of an earlier version", as_json(mutate_values(whole, self.rng)), self.rules)

    def _report_text(self) -> Case:
        damaged = mutate_text(as_json(self.report), self.rng)
        return self._gated("report text", damaged, self.rules | self.weighted)

    def _gate(self) -> Case:
        rules = {"max_nfr": 0.1, "max_class_nfr": 0.5, "min_rows": 10, "min_group_rows": 5, "allow_partial": False}
        if self.rng.random() < 0.5:
            text = mutate_text(yaml.safe_dump(rules), self.rng)
        else:
            text = as_json(mutate_values(rules, self.rng, 2))  # JSON is YAML
        return Case("gate", ["gate", str(self.folder / "whole.json"), "--config", self._write("gate.yaml", text)])

    def _config(self) -> Case:
        options = {"slices": ["channel"], "confidence": 0.9, "allow_partial": True, "correction": "bh"}
        text = mutate_text(yaml.safe_dump(options), self.rng)
        return self._compare("config", "new.parquet", ["--config", self._write("compare.yaml", text)])

    def _compare(self, kind: str, new: str, options: list[str] | None = None) -> Case:
        sides = [str(self.folder / "old.parquet"), str(self.folder / new)]
        return Case(kind, ["compare", *sides, *(options or [])])

    def _table(self, suffix: str) -> Case:
        rows = self.new.to_arrow().drop_columns(["traffic"]).to_pylist()[:60]
        if suffix == "csv":
            lines = [",".join(rows[0]), *(",".join(str(value) for value in row.values()) for row in rows)]
            text = mutate_text("\n".join(lines), self.rng)
        elif self.rng.random() < 0.5:
            text = mutate_text("\n".join(map(json.dumps, rows)), self.rng)
        else:
            text = "\n".join(map(as_json, mutate_values(rows, self.rng, 3)))
        self._write(f"damaged.{suffix}", text)
        return self._compare(suffix, f"damaged.{suffix}", ["--allow_partial"])

    def _parquet(self) -> Case:
        content = mutate_bytes((self.folder / "new.parquet").read_bytes(), self.rng)
        (self.folder / "damaged.parquet").write_bytes(content)
        return self._compare("parquet", "damaged.parquet", ["--allow_partial"])

    def _metadata(self) -> Case:
        table = self.new.to_arrow()
        metadata = json.loads(table.schema.metadata[METADATA_KEY])
        damaged = as_json(mutate_values(metadata, self.rng, 2))
        if self.rng.random() < 0.3:
            damaged = mutate_text(damaged, self.rng)
        kinds = {"id": pa.float64(), "traffic": pa.decimal128(20, 15), "channel": pa.large_binary()}
        name = self.rng.choice(list(kinds))
        if self.rng.random() < 0.5:
            table = table.set_column(
                table.column_names.index(name), name, table.column(name).cast(kinds[name], safe=False)
            )
        encoded = damaged.encode("utf-8", "replace")
        pq.write_table(table.replace_schema_metadata({METADATA_KEY: encoded}), self.folder / "damaged.parquet")
        return self._compare("metadata", "damaged.parquet", ["--allow_partial"])

    def _label_names(self) -> Case:
        if self.rng.random() < 0.5:
            text = as_json(mutate_values({"id2label": {str(at): name for at, name in enumerate(NAMES)}}, self.rng, 2))
        else:
            text = mutate_text(as_json(NAMES), self.rng)
        return self._compare("label names", "new.parquet", ["--new_label_names", self._write("names.json", text)])

    def _page(self, kind: str, option: str, name: str, text: str) -> Case:
        written = [str(self.folder / "whole.json"), "-o", str(self.folder / "page.html"), "--overwrite"]
        return Case(kind, ["page", *written, option, self._write(name, text)])

    def _chain(self) -> Case:
        chain = json.loads(json.dumps(compare_chain([self.old, self.new, self.rerun], ["1", "2", "3"]).to_dict()))
        damaged = as_json(mutate_values(chain, self.rng, 2))
        if self.rng.random() < 0.5:
            return self._page("chain", "--chain", "chain.json", damaged)
        return Case("chain", ["gate", self._write("chain.json", damaged), "--max_nfr", "0.001"], verdict=1)

    def _merge_record(self) -> dict:
        curve = [{"alpha": alpha / 10, "accuracy": 0.9, "nfr": 0.02} for alpha in range(11)]
        source = {"path": "nowhere/model", "weights": "00"}
        record = {"format_version": 1, "method": "linear", "alpha": 0.4, "old": source, "new": [source]}
        return record | {
            "curve": curve,
            "selection": {"alpha": 0.4, "reason": "x"},
            "output": {"model.safetensors": "0"},
        }

    def _curve(self) -> Case:
        return self._page("curve", "--curve", "curve.json", as_json(mutate_values(self._merge_record(), self.rng, 2)))

    def _record(self) -> Case:
        path = self._write("record.json", as_json(mutate_values(self._merge_record(), self.rng, 2)))
        return Case("merge record", ["merge", "--config", path, "--output_dir", str(self.folder / "merged")])

    def _checkpoint(self) -> Case:
        models = [self._model(name) for name in ("model-a", "model-b")]
        victim = self.rng.choice(sorted(models[1].iterdir()))
        victim.write_bytes(mutate_bytes(victim.read_bytes(), self.rng))
        merged = self.folder / f"merged-{self.rng.randrange(10**9)}"
        names = [str(model) for model in models]
        return Case("checkpoint", ["merge", *names, "--alpha", "0.5", "--output_dir", str(merged), "--quiet"])

    def _model(self, name: str) -> Path:
        from safetensors.numpy import save_file

        model = self.folder / name
        model.mkdir(exist_ok=True)
        config = {"model_type": "bert", "architectures": ["BertForSequenceClassification"]}
        config["id2label"] = {str(at): label for at, label in enumerate(NAMES)}
        (model / "config.json").write_text(json.dumps(config))
        shards = {"a.weight": "model-1.safetensors", "classifier.weight": "model-2.safetensors"}
        for tensor, shard in shards.items():
            save_file({tensor: np.ones((4, 3), np.float32)}, str(model / shard), metadata={"format": "pt"})
        (model / "model.safetensors.index.json").write_text(json.dumps({"metadata": {}, "weight_map": shards}))
        return model

    def _write(self, name: str, text: str) -> str:
        path = self.folder / name
        path.write_bytes(text.encode("utf-8", "surrogatepass"))
        return str(path)
