"""Folders of models and the records beside them: config, tokenizer, fused pair, ensemble, record of an update."""

import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks.attack.case import Case
from benchmarks.attack.mutations import as_json, mutate_text, mutate_values

WORDS = ["turn", "on", "off", "the", "light", "play", "music"]
LABELS = ["light", "music", "other"]


class ModelAttack:
    """Two tiny text classifiers, whole, and the commands that read their folders damaged."""

    def __init__(self, folder: Path, rng: random.Random) -> None:
        self.folder, self.rng = folder / "models", rng
        self.folder.mkdir()
        self.ready = False
        self.kinds: dict[str, tuple[float, Callable[[], Case]]] = {
            "model config": (0.008, lambda: self._model("config.json")),
            "tokenizer config": (0.004, lambda: self._model("tokenizer_config.json")),
            "fused pair": (0.008, self._fused),
            "ensemble": (0.008, self._ensemble),
            "update record": (0.008, self._update_record),
        }

    def _prepare(self) -> None:
        """Made when first needed: the other kinds of input need no torch."""
        if self.ready:
            return
        from hf_pct.models.ensembles import save_ensemble
        from hf_pct.models.ensembles.fused import save_fused
        from hf_pct.policies.fusion import Fusion

        sides = [self._write_model(name, seed) for name, seed in (("v1", 0), ("v2", 1))]
        for part in ("train", "dev"):
            rows = (
                {"id": f"{part}-{at}", "text": " ".join(self.rng.choices(WORDS, k=6)), "label": LABELS[at % 3]}
                for at in range(24)
            )
            (self.folder / f"{part}.jsonl").write_text("\n".join(map(json.dumps, rows)))
        save_fused(self.folder / "fused", *sides, Fusion("surer", 0.55))
        save_ensemble(self.folder / "ensemble", sides, temperatures=[1.0, 2.0])
        self.ready = True

    def _write_model(self, name: str, seed: int) -> Path:
        import torch
        from tokenizers import Tokenizer, models, pre_tokenizers
        from transformers import BertConfig, BertForSequenceClassification, PreTrainedTokenizerFast

        torch.manual_seed(seed)
        words = ["[PAD]", "[UNK]", *WORDS]
        config = BertConfig(
            vocab_size=len(words), hidden_size=8, num_hidden_layers=1, num_attention_heads=1, intermediate_size=8,
            max_position_embeddings=16, id2label=dict(enumerate(LABELS)),
            label2id={label: at for at, label in enumerate(LABELS)},
        )  # fmt: skip
        BertForSequenceClassification(config).save_pretrained(self.folder / name)
        inner = Tokenizer(models.WordLevel({word: at for at, word in enumerate(words)}, unk_token="[UNK]"))
        inner.pre_tokenizer = pre_tokenizers.Whitespace()
        tokenizer = PreTrainedTokenizerFast(
            tokenizer_object=inner, pad_token="[PAD]", unk_token="[UNK]", model_max_length=16
        )
        tokenizer.save_pretrained(self.folder / name)
        return self.folder / name

    def _predict(self, kind: str, model: Path) -> Case:
        output = str(self.folder / "answers.parquet")
        data = str(self.folder / "dev.jsonl")
        return Case(kind, ["predict", str(model), "--dataset", data, "--output", output, "--overwrite", "--no_cache"])

    def _damage(self, whole: Path, target: Path) -> Path:
        """A damaged copy of a JSON file: mostly other values, sometimes text that is no longer JSON."""
        values: Any = json.loads(whole.read_text(encoding="utf-8"))
        text = as_json(mutate_values(values, self.rng, self.rng.randrange(1, 4)))
        if self.rng.random() < 0.2:
            text = mutate_text(text, self.rng)
        target.write_bytes(text.encode("utf-8", "surrogatepass"))
        return target

    def _model(self, name: str) -> Case:
        self._prepare()
        damaged = self.folder / "damaged"
        damaged.mkdir(exist_ok=True)
        for path in (self.folder / "v2").iterdir():
            (damaged / path.name).write_bytes(path.read_bytes())
        self._damage(self.folder / "v2" / name, damaged / name)
        kind = "model config" if name == "config.json" else "tokenizer config"
        if self.rng.random() < 0.5:
            return self._predict(kind, damaged)
        merged = str(self.folder / f"merged-{self.rng.randrange(10**9)}")
        sides = [str(self.folder / "v1"), str(damaged)]
        return Case(kind, ["merge", *sides, "--alpha", "0.5", "--output_dir", merged, "--quiet"])

    def _folder_of(self, kind: str, name: str, file: str) -> Case:
        self._prepare()
        damaged = self.folder / f"damaged-{name}"
        damaged.mkdir(exist_ok=True)
        self._damage(self.folder / name / file, damaged / file)
        return self._predict(kind, damaged)

    def _fused(self) -> Case:
        return self._folder_of("fused pair", "fused", "pct_fusion.json")

    def _ensemble(self) -> Case:
        return self._folder_of("ensemble", "ensemble", "pct_ensemble.json")

    def _update_record(self) -> Case:
        """Only planned: what is read of a record is read before anything is trained."""
        self._prepare()
        files = {"train_file": "train.jsonl", "validation_file": "dev.jsonl", "old_model": "v1"}
        options = {name: str(self.folder / file) for name, file in files.items()}
        options |= {"budget": 1.0, "seed": 0, "margin": 0.01, "certify": False, "start": "auto", "delta": 0.05}
        options |= {"methods": ["plain"], "num_train_epochs": 1.0, "learning_rate": 5e-5, "allow_two_forwards": False}
        whole = self.folder / "pct_update.json"
        whole.write_text(json.dumps({"kept": True, "options": options}))
        damaged = str(self._damage(whole, self.folder / "damaged_update.json"))
        output = str(self.folder / "updated")
        return Case("update record", ["update", "--config", damaged, "--output_dir", output, "--dry_run", "--quiet"])
