"""Search the strength of a method with optuna, for the most accuracy and the fewest negative flips at once.

    python search_update.py fd_lm.yaml --n_trials 20 --old_model ./intents-v1 --model_name_or_path ./intents-v1 \
        --train_file train.jsonl --validation_file dev.jsonl --output_dir ./search

Every trial trains a model with other weights of the method that the YAML file names, and measures it on the validation
rows. Printed are the trials that no other one beats in both. No model is kept: train the one that you choose with
`run_text_update.py` and measure it on rows that the search has not seen. Needs `pip install -e '.[search]'`.
"""

from dataclasses import dataclass, field
from typing import Any

from run_text_update import TextArguments, prepare

from hf_pct.methods.settings import settings_of
from hf_pct.training.script import UpdateArguments, parse_arguments, run_script, update_trainer


@dataclass
class SearchArguments:
    n_trials: int = field(default=20, metadata={"help": "Models that are trained."})
    lowest: float = field(
        default=0.05, metadata={"help": "Weights are searched from this share of their defaults on."}
    )
    highest: float = field(default=2.0, metadata={"help": "And up to this share."})


def search_space(trial: Any, args: UpdateArguments, search: SearchArguments) -> dict[str, float]:
    """The weights of rows that the method has, each on a logarithmic scale around its default."""
    names = ("every_row", "right_rows", "ldi_weight")
    declared = {entry.name: entry for entry in settings_of(type(args.training_method())) if entry.name in names}
    return {
        name: trial.suggest_float(name, search.lowest * entry.default, search.highest * entry.default, log=True)
        for name, entry in declared.items()
    }


def main() -> None:
    data, args, search = parse_arguments([TextArguments, UpdateArguments, SearchArguments])
    if args.old_model is None:
        raise ValueError("Flips need an old model: pass --old_model.")
    args.save_strategy, args.eval_strategy, args.load_best_model_at_end = "no", "no", False
    new_model, settings, _ = prepare(data, args)
    trainer = update_trainer(new_model, args, search=True, **settings)
    runs = trainer.hyperparameter_search(
        hp_space=lambda trial: search_space(trial, args, search),
        compute_objective=lambda metrics: (metrics["eval_accuracy"], metrics["eval_nfr"]),
        direction=["maximize", "minimize"],
        n_trials=search.n_trials,
        backend="optuna",
    )
    if not trainer.is_world_process_zero():
        return
    print(f"{'accuracy':>9} {'NFR':>8}  settings")
    for run in sorted(runs, key=lambda run: run.objective[1]):
        accuracy, nfr = run.objective
        chosen = " ".join(f"--{name} {value:.4g}" for name, value in run.hyperparameters.items())
        print(f"{accuracy:>9.2%} {nfr:>8.2%}  {chosen}")


if __name__ == "__main__":
    run_script(main)
