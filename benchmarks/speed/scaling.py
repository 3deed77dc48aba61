"""Toward more machines: memory by method for two large models, and what a second process is worth here.

    python -m benchmarks.speed.scaling memory         # RoBERTa-large and ViT-L, from the kit's own estimate; seconds
    python -m benchmarks.speed.scaling processes      # one process against two, in turns; minutes

memory     weights, gradients, optimizer, references and anchors in float32, without activations and without sharding.
processes  rows per second of a training step (DDP over gloo, the batch of a process unchanged) and the time for the
           members of an ELODI run (each process its own), with one process and with two; efficiency is the speed-up
           over 2. Two processes on two hyperthreads of one core cannot reach 1.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import torch

from benchmarks.speed.training import classifier, sentences, settings
from hf_pct.training import ELODIArguments, ELODITrainer, FocalDistillArguments, FocalDistillTrainer
from hf_pct.training.memory import estimate_memory

GB = 2**30
METHODS = {
    "no treatment": (FocalDistillArguments, {"method": "none"}, False),
    "focal distillation, cached": (FocalDistillArguments, {}, False),
    "focal distillation, live": (FocalDistillArguments, {}, True),
    "prior weight decay": (FocalDistillArguments, {"method": "none", "prior_weight_decay": 1.0}, False),
    "EWC": (FocalDistillArguments, {"method": "none", "ewc_weight": 1.0}, False),
    "Mixout": (FocalDistillArguments, {"method": "none", "mixout": 0.5}, False),
    "ELODI, 8 members, cached": (ELODIArguments, {}, False),
    "ELODI, 8 members, cached, top 10": (ELODIArguments, {"top_k": 10}, False),
    "ELODI, 8 members, live": (ELODIArguments, {}, True),
    "ELODI, 8 LoRA members, live": (ELODIArguments, {"member_kind": "lora"}, True),
}


def large_models() -> dict[str, int]:
    """Parameters of both models, counted on models without memory."""
    import timm
    from transformers import RobertaConfig, RobertaForSequenceClassification

    config = RobertaConfig(
        vocab_size=50265, hidden_size=1024, num_hidden_layers=24, num_attention_heads=16, intermediate_size=4096,
        max_position_embeddings=514, type_vocab_size=1, num_labels=1000,
    )  # fmt: skip
    with torch.device("meta"):
        models = {
            "RoBERTa-large": RobertaForSequenceClassification(config),
            "ViT-L/16": timm.create_model("vit_large_patch16_224", num_classes=1000),
        }
    return {name: sum(value.numel() for value in model.parameters()) for name, model in models.items()}


def memory_table() -> list[str]:
    counts = large_models()
    lines = [
        f"GB in each process, AdamW, 1000 classes; {', '.join(f'{n}: {c / 1e6:.0f} M' for n, c in counts.items())}",
        "",
        f"| method | {' | '.join(counts)} | of it references | of it old weights | table of 1 M rows, on disk |",
        "|---|---|---|---|---|---|",
    ]
    with tempfile.TemporaryDirectory() as folder:
        for name, (kind, own, live) in METHODS.items():
            args = kind(**{**settings(folder, 32, 1), **own})
            estimates = [estimate_memory(args, n, live=live, rows=10**6, classes=1000) for n in counts.values()]
            first = estimates[0]
            parts = [first.references, first.anchors, first.table]
            cells = [
                *(f"{estimate.total / GB:.1f}" for estimate in estimates),
                *(f"{part / GB:.1f}" for part in parts),
            ]
            lines.append(f"| {name} | {' | '.join(cells)} |")
    return lines


def worker(kind: str, folder: Path, steps: int, batch: int) -> None:
    """One measured training, in each of the processes; the first prints what it found."""
    from transformers import AutoTokenizer, DataCollatorWithPadding

    from hf_pct.demo.packages import minilm_path

    tokenizer = AutoTokenizer.from_pretrained(minilm_path())
    shared = {"train_dataset": sentences(tokenizer, 1024), "data_collator": DataCollatorWithPadding(tokenizer)}
    processes = int(os.environ.get("WORLD_SIZE", 1))
    if kind == "step":
        args = FocalDistillArguments(**settings(str(folder), batch, steps), reference_cache_dir=str(folder / "cache"))
        trainer = FocalDistillTrainer(classifier(), args, old_model=classifier(), **shared)
        trainer.source.prepare()  # the table is not part of a step
        trainer.source.release()
        result = trainer.train()
        rate = steps * batch * processes / result.metrics["train_runtime"]
    else:  # as many rows per step whatever the number of processes, so that members come out the same
        own = {"gradient_accumulation_steps": 2 // processes, "spread_members": True, "num_members": 4}
        args = ELODIArguments(**{**settings(str(folder), batch // 2, steps), **own})
        trainer = ELODITrainer(model_init=classifier, args=args, **shared)
        began = time.perf_counter()
        trainer.train_members()
        rate = 1 / (time.perf_counter() - began)
    if trainer.is_world_process_zero():
        print(f"RATE {json.dumps(rate)}")
    if torch.distributed.is_initialized():
        torch.distributed.destroy_process_group()


def run(kind: str, processes: int, steps: int, batch: int) -> float:
    """A fresh launch; the first process's number."""
    with tempfile.TemporaryDirectory() as folder:
        start = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc_per_node", str(processes)]
        command = [
            "-m",
            "benchmarks.speed.scaling",
            "worker",
            "--kind",
            kind,
            "--folder",
            folder,
            "--steps",
            str(steps),
            "--batch",
            str(batch),
        ]
        environment = {**os.environ, "ACCELERATE_USE_CPU": "true", "OMP_NUM_THREADS": "1"}
        launch = start if processes > 1 else [sys.executable]
        done = subprocess.run([*launch, *command], env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{kind} with {processes} processes failed:\n{done.stderr[-2000:]}")
    return float(next(line.split()[1] for line in done.stdout.splitlines() if line.startswith("RATE")))


def processes_table(rounds: int, steps: int, batch: int) -> list[str]:
    lines = [
        "| work | one process | two processes | speed-up | efficiency | lowest to highest |",
        "|---|---|---|---|---|---|",
    ]
    titles = {"step": ("focal distillation, cached: rows per second", 1), "members": ("4 ELODI members: seconds", -1)}
    for kind, (title, power) in titles.items():
        measured: dict[int, list[float]] = {1: [], 2: []}
        for _ in range(rounds):
            for processes in measured:
                measured[processes].append(run(kind, processes, steps, batch))
        gains = [two / one for one, two in zip(measured[1], measured[2], strict=True)]
        shown = [statistics.median(values) ** power for values in measured.values()]
        gain, ends = statistics.median(gains), f"{min(gains) / 2:.2f} to {max(gains) / 2:.2f}"
        lines.append(f"| {title} | {shown[0]:.1f} | {shown[1]:.1f} | {gain:.2f} | {gain / 2:.2f} | {ends} |")
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("memory", "processes", "worker"))
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--batch", type=int, default=32)
    for hidden in ("--kind", "--folder"):
        parser.add_argument(hidden, help=argparse.SUPPRESS)
    options = parser.parse_args()
    torch.set_num_threads(1)
    if options.what == "worker":
        worker(options.kind, Path(options.folder), options.steps, options.batch)
    else:
        processes = options.what == "processes"
        lines = processes_table(options.rounds, options.steps, options.batch) if processes else memory_table()
        print("\n".join(lines))


if __name__ == "__main__":
    main()
