"""What each way of staying near the old model costs a training step, against a plain `Trainer` step in the same run.

    python -m benchmarks.speed.training            # text: all-MiniLM-L6, sentences of about 14 tokens, batches of 32
    python -m benchmarks.speed.training --quick    # a few steps, to see that it runs
    python -m benchmarks.speed.training --memory   # what each live member adds to the peak, against its weights

All trainers are built first and then take turns, one step each, so that a machine that slows down slows all of them.
Each step is a whole one: batch, forward, backward, clipping, optimizer, callbacks. The number is the median over the
rounds of a method's step over the plain step of the same round; without a GPU it is processor time of this process,
which neighbours on the machine do not change as they change the time on the wall. A live ensemble of m members may
cost m forwards without gradients, which take their turn too, and 5 % of a step. Exits with 1 when a bar is missed.
"""

from __future__ import annotations

import argparse
import random
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import datasets
import numpy as np
import torch
from transformers import (
    AutoModelForSequenceClassification,
    AutoTokenizer,
    DataCollatorWithPadding,
    PrinterCallback,
    Trainer,
    TrainingArguments,
)

from hf_pct.demo.packages import minilm_path
from hf_pct.training import ELODIArguments, ELODITrainer, FocalDistillArguments, FocalDistillTrainer

CLASSES = 60
CLOCK = time.perf_counter if torch.cuda.is_available() else time.process_time
METHODS: dict[str, tuple[dict[str, Any], float]] = {
    "focal distillation, cached": ({"method": "fd-lm", "reference": "cached"}, 1.05),
    "focal distillation, live": ({"method": "fd-lm", "reference": "live"}, 1.35),
    "prior weight decay": ({"method": "none", "prior_weight_decay": 1.0}, 1.05),
    "EWC": ({"method": "none", "ewc_weight": 1.0, "fisher_samples": 64}, 1.15),
    "L2-SP": ({"method": "none", "l2_sp_weight": 1.0}, 1.15),
    "Mixout": ({"method": "none", "mixout": 0.5}, 1.4),
}
LIVE_MEMBERS = 4
ELODI = {"ELODI, cached": "cached", f"ELODI, {LIVE_MEMBERS} live members": "live"}
FORWARD = "one forward without gradients"


def sentences(tokenizer: Any, rows: int) -> datasets.Dataset:
    """Rows of about 14 tokens of common words, each with a class."""
    generator = np.random.default_rng(0)
    words = np.array([word for word in sorted(tokenizer.get_vocab()) if word.isalpha() and len(word) > 2][:3000])
    texts = [" ".join(generator.choice(words, generator.integers(8, 17))) for _ in range(rows)]
    data = datasets.Dataset.from_dict({"text": texts, "labels": generator.integers(0, CLASSES, rows).tolist()})
    return data.map(lambda batch: dict(tokenizer(batch["text"])), batched=True).remove_columns("text")


def classifier() -> Any:
    torch.manual_seed(0)
    return AutoModelForSequenceClassification.from_pretrained(
        minilm_path(), num_labels=CLASSES, use_safetensors=True, dtype=torch.float32
    )


class Forward:
    """A member's forward pass over the next batch: what a live ensemble cannot do without."""

    def __init__(self, model: Any, batches: Any) -> None:
        self.model, self.batches, self.next = model.eval(), batches, iter(())

    def step(self) -> float:
        batch = next(self.next, None)
        if batch is None:
            self.next = iter(self.batches)
            batch = next(self.next)
        start = CLOCK()
        with torch.no_grad():
            self.model(**{name: value for name, value in batch.items() if name != "labels"})
        return CLOCK() - start


class Stepper:
    """A trainer that is run one optimizer step at a time, by pausing it inside its own training loop."""

    def __init__(self, trainer: Trainer) -> None:
        import threading

        self.go, self.done = threading.Semaphore(0), threading.Semaphore(0)
        self.trainer, self.failure = trainer, None
        plain = trainer.get_batch_samples

        def paused(*args: Any, **kwargs: Any) -> Any:
            self.done.release()
            self.go.acquire()
            return plain(*args, **kwargs)

        trainer.get_batch_samples = paused  # called once before each optimizer step
        self.thread = threading.Thread(target=self._run, daemon=True)
        self.thread.start()
        self.done.acquire()

    def _run(self) -> None:
        try:
            self.trainer.train()
        except BaseException as error:  # shown by the main thread
            self.failure = error
        self.done.release()

    def step(self) -> float:
        """One optimizer step; how many seconds it took."""
        start = CLOCK()
        self.go.release()
        self.done.acquire()
        if self.failure is not None:
            raise self.failure
        return CLOCK() - start


def settings(folder: str, batch: int, steps: int) -> dict[str, Any]:
    return {
        "output_dir": folder, "use_cpu": not torch.cuda.is_available(), "per_device_train_batch_size": batch,
        "per_device_eval_batch_size": batch, "max_steps": steps, "learning_rate": 1e-5, "save_strategy": "no",
        "logging_steps": 10**6, "report_to": "none", "disable_tqdm": True, "seed": 0, "divergence_limit": 0.0,
    }  # fmt: skip


def build(folder: Path, batch: int, steps: int, rows: int) -> dict[str, Trainer]:
    tokenizer = AutoTokenizer.from_pretrained(minilm_path())
    shared = {"train_dataset": sentences(tokenizer, rows), "data_collator": DataCollatorWithPadding(tokenizer)}
    plain = settings(str(folder), batch, steps)
    plain.pop("divergence_limit")
    trainers: dict[str, Trainer] = {
        name: Trainer(classifier(), TrainingArguments(**plain), **shared)
        for name in ("no treatment", "no treatment, again")  # how far two of the same come out apart
    }
    old = classifier()
    for name, (own, _) in METHODS.items():
        values = {**settings(str(folder), batch, steps), "reference_cache_dir": str(folder / "cache"), **own}
        trainers[name] = FocalDistillTrainer(classifier(), FocalDistillArguments(**values), old_model=old, **shared)
    members = [classifier() for _ in range(LIVE_MEMBERS)]
    for name, reference in ELODI.items():
        values = {**settings(str(folder), batch, steps), "reference_cache_dir": str(folder / "cache")}
        elodi = ELODIArguments(**values, reference=reference)
        trainers[name] = ELODITrainer(classifier(), elodi, members=members, **shared)
    for trainer in trainers.values():
        trainer.remove_callback(PrinterCallback)
    return trainers


def measure(trainers: dict[str, Trainer], rounds: int, report: Callable[[str], None]) -> dict[str, list[float]]:
    steppers: dict[str, Stepper | Forward] = {}
    for name, trainer in trainers.items():
        steppers[name] = Stepper(trainer)
        report(f"ready: {name}")
    plain = trainers["no treatment"]
    steppers[FORWARD] = Forward(classifier(), plain.get_train_dataloader())
    for stepper in steppers.values():  # the first steps allocate
        stepper.step()
        stepper.step()
    seconds: dict[str, list[float]] = {name: [] for name in steppers}
    order = random.Random(0)
    for _ in range(rounds):  # each round in another order: what ran before leaves the caches as it likes
        for name in order.sample(list(steppers), len(steppers)):
            seconds[name].append(steppers[name].step())
    return seconds


def table(seconds: dict[str, list[float]]) -> Iterator[str]:
    plain = np.array(seconds["no treatment"])
    yield "| method | ms a step | times plain | 25 % to 75 % of rounds | at most | |"
    yield "|---|---|---|---|---|---|"
    for name, values in seconds.items():
        ratios = np.array(values) / plain
        low, middle, high = np.quantile(ratios, [0.25, 0.5, 0.75])
        bar = bar_of(name, float(np.median(np.array(seconds[FORWARD]) / plain)))
        verdict = "" if bar is None else ("met" if middle <= bar else "MISSED")
        shown = "" if bar is None else f"{bar:.2f}"
        middle_ms = statistics.median(values) * 1e3
        yield f"| {name} | {middle_ms:.1f} | {middle:.3f} | {low:.3f} to {high:.3f} | {shown} | {verdict} |"


def bar_of(name: str, forward: float) -> float | None:
    """At most how many plain steps a method may take, when a forward without gradients takes `forward` of one."""
    if name in ELODI:
        return 1.05 + (LIVE_MEMBERS * forward if ELODI[name] == "live" else 0.0)
    return METHODS[name][1] if name in METHODS else None


def peak_with(members: int, batch: int) -> None:
    """Print this process's peak memory, in MB, after three steps with so many live members; and their size."""
    with tempfile.TemporaryDirectory() as folder:
        tokenizer = AutoTokenizer.from_pretrained(minilm_path())
        values = settings(folder, batch, 3)
        trainer = ELODITrainer(
            classifier(),
            ELODIArguments(**values, reference="live"),
            members=[classifier() for _ in range(members)],
            train_dataset=sentences(tokenizer, batch * 4),
            data_collator=DataCollatorWithPadding(tokenizer),
        )
        trainer.train()
    size = sum(value.numel() * value.element_size() for value in trainer.model.parameters())
    print(f"PEAK {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024:.1f} {size / 2**20:.1f}")


def memory(batch: int, few: int = 2, many: int = 6) -> int:
    """Each member more must add its weights to the peak, and not the activations of another forward."""
    peaks = {}
    for members in (few, many):
        command = [
            sys.executable,
            "-m",
            "benchmarks.speed.training",
            "--batch",
            str(batch),
            "--peak_with",
            str(members),
        ]
        printed = subprocess.run(command, capture_output=True, text=True, check=True).stdout
        line = next(line for line in printed.splitlines() if line.startswith("PEAK"))
        peaks[members], size = (float(word) for word in line.split()[1:])
    added = (peaks[many] - peaks[few]) / (many - few)
    print(f"{few} live members peak at {peaks[few]:.0f} MB, {many} at {peaks[many]:.0f} MB: {added:.1f} MB per member")
    print(f"a member's weights are {size:.1f} MB: {added / size:.2f} times them (at most 1.10)")
    return int(added > 1.10 * size)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=60, help="steps that each method takes")
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--memory", action="store_true", help="measure the memory of live members instead of time")
    parser.add_argument("--peak_with", type=int, help=argparse.SUPPRESS)
    options = parser.parse_args()
    rounds = 3 if options.quick else options.rounds
    torch.set_num_threads(options.threads)
    datasets.disable_progress_bars()
    if options.peak_with:
        peak_with(options.peak_with, options.batch)
        return 0
    if options.memory:
        return memory(options.batch)
    steps = rounds + 4
    with tempfile.TemporaryDirectory() as folder:
        trainers = build(Path(folder), options.batch, steps, rows=options.batch * 16)
        seconds = measure(trainers, rounds, lambda line: print(line, file=sys.stderr, flush=True))
    lines = list(table(seconds))
    print("\n".join(lines), flush=True)
    return int(any("MISSED" in line for line in lines))


if __name__ == "__main__":
    sys.exit(main())
