"""Measuring never waits for torch: what is imported is looked up in a fresh interpreter."""

import json
import subprocess
import sys

import numpy as np
import pytest

from hf_pct import Predictions

# pandas is not among them: pyarrow loads it by itself where it is installed
HEAVY = ("torch", "transformers", "evaluate", "datasets", "matplotlib", "sklearn")


def imported_after(code: str, *arguments: str) -> set[str]:
    probe = f"{code}\nimport json, sys\nprint(json.dumps([name for name in {HEAVY!r} if name in sys.modules]))"
    run = subprocess.run([sys.executable, "-c", probe, *arguments], capture_output=True, text=True, check=True)
    return set(json.loads(run.stdout.splitlines()[-1]))


def run_cli(*arguments: str) -> str:
    return f"import sys, hf_pct.cli\ntry:\n    hf_pct.cli.main({list(arguments)!r})\nexcept SystemExit:\n    pass"


@pytest.mark.parametrize(
    "code",
    [
        "import hf_pct",
        "import hf_pct.flips.compare, hf_pct.flips.gate, hf_pct.flips.stats, hf_pct.core.labels",
        "import hf_pct.flips.studies.displacement, hf_pct.flips.studies.uncertainty, hf_pct.flips.studies.epochs\n"
        "from hf_pct import mean_predictions, most_centric",
        "from hf_pct import count_flips, Predictions, compare, FlipReport, GateConfig, check_gate, metric_path",
        run_cli("--help"),
        *(
            run_cli(verb, "--help")
            for verb in (
                "predict",
                "compare",
                "gate",
                "merge",
                "page",
                "card",
                "push",
                "verify",
                "push-metric",
                "demo",
                "env",
            )
        ),
    ],
)
def test_nothing_heavy_is_imported(code):
    assert imported_after(code) == set()


def test_comparing_and_gating_files_never_load_torch(tmp_path):
    rng = np.random.default_rng(0)
    labels = rng.integers(0, 3, 50)
    for name in ("a", "b"):
        predictions = Predictions(list(range(50)), labels, rng.integers(0, 3, 50), label_names=["x", "y", "z"])
        predictions.save(tmp_path / f"{name}.parquet")
    out = tmp_path / "out"
    files = ("--old_predictions", str(tmp_path / "a.parquet"), "--new_predictions", str(tmp_path / "b.parquet"))
    assert imported_after(run_cli("compare", *files, "--output_dir", str(out))) == set()
    assert (out / "flip_report.json").is_file()
    assert imported_after(run_cli("gate", str(out / "flip_report.json"), "--max_nfr", "1")) == set()


def test_public_names_are_there_and_unknown_ones_are_not():
    import hf_pct

    for name in hf_pct.__all__:
        assert getattr(hf_pct, name) is not None
    assert set(dir(hf_pct)) == set(hf_pct.__all__)
    with pytest.raises(AttributeError, match="no attribute 'count_flip'"):
        _ = hf_pct.count_flip


def test_predict_is_a_function_however_it_is_reached():
    check = "assert callable(hf_pct.predict) and callable(hf_pct.predict.predict)"
    imported_after(f"import hf_pct\nfrom hf_pct.predict import predict\n{check}")
    imported_after("import hf_pct\nassert callable(hf_pct.predict)\nfrom hf_pct.predict import predict")
