"""What scripts imported before the rooms were built still imports, with a warning that says the new name."""

import json
import subprocess
import sys

SCRIPT = """
import json, sys, warnings
from importlib import import_module

import hf_pct
from hf_pct.core.moved import MOVED

kept = {}
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    for name in MOVED:
        import_module(f"hf_pct.{name}")
said = [str(entry.message) for entry in caught if entry.category is DeprecationWarning]
for module, names in json.loads(sys.argv[1]).items():
    for name in names:
        kept[f"{module}.{name}"] = hasattr(import_module(module), name)
print(json.dumps([MOVED, said, kept]))
"""

# what README, docs and examples imported from modules that have moved since, and names that left their module
USED = {
    "hf_pct.cli_arguments": ["add_predict_arguments", "add_compare_arguments", "add_gate_arguments"],
    "hf_pct.compare_files": ["write_comparison"],
    "hf_pct.data": ["load_data"],
    "hf_pct.ensembles": ["Ensemble", "save_ensemble"],
    "hf_pct.files": ["write_text"],
    "hf_pct.fingerprints": ["model_fingerprint", "processor_fingerprint", "weights_fingerprint"],
    "hf_pct.flips.displacement": ["displacement_by_size"],
    "hf_pct.flips.ensemble": ["mean_predictions"],
    "hf_pct.flips.ensemble_size": ["nfr_by_ensemble_size"],
    "hf_pct.flips.epochs": ["per_epoch"],
    "hf_pct.flips.members": ["Members", "align_members"],
    "hf_pct.flips.prediction_files": ["READABLE", "read_predictions"],
    "hf_pct.flips.predictions": ["Predictions"],
    "hf_pct.flips.uncertainty": ["uncertainty_of_flips"],
    "hf_pct.hub.methods": ["Method", "describe_method"],
    "hf_pct.merging.alignment": ["align_state"],
    "hf_pct.merging.args": ["BCWIArguments"],
    "hf_pct.merging.command": ["add_merge_arguments", "run_merge", "resolve_folder"],
    "hf_pct.merging.curve": ["Curve"],
    "hf_pct.merging.fisher": ["diagonal_fisher", "fisher_batches", "load_fisher", "save_fisher"],
    "hf_pct.merging.interpolate": ["interpolate_into", "scale_fisher", "uniform_soup"],
    "hf_pct.merging.outputs": ["output_problems"],
    "hf_pct.merging.record": ["MergeRecord", "Source"],
    "hf_pct.merging.selection": ["Contract", "select_alpha"],
    "hf_pct.merging.streaming": ["merge_checkpoints"],
    "hf_pct.predict": ["predict"],
    "hf_pct.tasks": ["label_names_of", "load_model", "logits_of"],
    "hf_pct.training.args": ["ELODIArguments", "FocalDistillArguments", "PCTArguments", "TARGETS"],
    "hf_pct.training.base": ["PCTrainer"],
    "hf_pct.training.losses": ["FocalDistillationLoss", "LogitDifferenceInhibitionLoss", "NaiveReweightingLoss"],
    "hf_pct.training.tables": ["check_logits", "column_table", "shared_identity"],
    "hf_pct.training.timm_models": ["timm_classifier"],
    "hf_pct.viz.page": ["write_page"],
    "hf_pct.viz.plots": ["FIGURES", "alpha_curve", "save_plots"],
}


def test_old_modules_import_with_a_warning_and_have_their_names():
    run = subprocess.run([sys.executable, "-c", SCRIPT, json.dumps(USED)], capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr[-3000:]
    moved, said, kept = json.loads(run.stdout.splitlines()[-1])
    assert {f"hf_pct.{name} has moved to hf_pct.{home}." for name, home in moved.items()} <= set(said)
    assert [name for name, there in kept.items() if not there] == []
