"""Every picture is drawn, names its units, touches nothing global, and says what is wrong with its numbers."""

import subprocess
import sys

import numpy as np
import pytest
from page_reports import CHAIN, curve_rows, small_report

from hf_pct.viz.figures.plots import FIGURES, nfr_by_class, save_plots

UNITS = ["%", "count", "fraction", "share", "norm", "unit", "nats", "points", "model", "version", "rank", "(rows)"]
RNG = np.random.default_rng(0)
GRID = {"x": [0.0, 1.0, 2.0], "y": [0.0, 1.0], "nfr": [[0, 0.1, 0.2], [0.1, 0.2, 0.3]]}
NUMBERS = {
    "flip_square": {"counts": dict.fromkeys(("both_right", "negative_flips", "positive_flips", "both_wrong_same"), 9)
                    | {"both_wrong_different": 0}},
    "nfr_by_class": {"groups": small_report().classes},
    "alpha_curve": {"curve": {"curve": curve_rows(), "alpha": 0.4}},
    "accuracy_nfr": {"methods": [{"name": "none", "accuracy": 0.75, "nfr": 0.04, "nfr_low": 0.03, "nfr_high": 0.05},
                                 {"name": "elodi", "accuracy": 0.77, "nfr": 0.02}]},
    "nfr_by_ensemble_size": {"sizes": [1, 2], "nfr": {"a": [0.06, 0.05]}, "error_rate": {"a": [0.3, 0.29]}},
    "displacement_histogram": {"norms": {"m = 1": RNG.random(50), "m = 8": RNG.random(50)},
                               "predicted": {"m = 1": ([0, 1], [0.5, 0.5])}},
    "rank_histogram": {"ranks": {"single": [2, 2, 3, 40]}},
    "uncertainty_histograms": {"values": {"flips": RNG.random(30), "others": RNG.random(90)}},
    "nfr_per_epoch": {"epochs": [1, 2], "nfr": {"train": [0.1, 0.2]}, "error_rate": {"train": [0.4, 0.3]}},
    "landscape": {**GRID, "error_rate": GRID["nfr"], "points": {"old": (0, 0), "new": (1, 0)}},
    "chain_matrix": {"chain": CHAIN},
}  # fmt: skip


@pytest.mark.parametrize("name", FIGURES)
def test_every_figure_is_drawn_with_units(name, tmp_path):
    figure = FIGURES[name](**NUMBERS[name])
    figure.savefig(tmp_path / "figure.png")
    for axes in figure.axes:
        names = [axes.get_ylabel()] if axes.get_label() == "<colorbar>" else [axes.get_xlabel(), axes.get_ylabel()]
        for quantity in names:
            assert any(unit in quantity for unit in UNITS), f"{name} has an axis without a unit: {quantity!r}"


def test_nothing_global_is_touched():
    code = (
        "import matplotlib, sys; settings = lambda: [*map(repr, dict.items(matplotlib.rcParams))]\n"
        "before = settings(); "
        "from hf_pct.viz.figures.plots import FIGURES; FIGURES['rank_histogram']({'a': [2, 3]}); "
        "assert 'matplotlib.pyplot' not in sys.modules and settings() == before; "
        "assert 'torch' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_a_saved_report_alone_gives_its_pictures(tmp_path):
    path = small_report().save(tmp_path / "report.json")
    written = save_plots(path, tmp_path / "plots", formats=("png", "pdf"))
    names = {"flip_square", "nfr_by_class", "flip_uncertainty", "nfr_by_channel", "nfr_by_verified"}
    names |= {"displacement_histogram", "rank_histogram", "uncertainty_histograms"}  # the tables have logits
    assert {file.name for file in written} == {f"{name}.{kind}" for name in names for kind in ("png", "pdf")}
    with pytest.raises(FileExistsError, match="--overwrite"):
        save_plots(path, tmp_path / "plots")
    first = {file: file.read_bytes() for file in written}
    save_plots(path, tmp_path / "plots", formats=("png", "pdf"), overwrite=True)
    assert {file: file.read_bytes() for file in written} == first


def test_every_figure_can_be_drawn_from_a_saved_report_alone(tmp_path):
    """Numbers that a comparison cannot know are added to the report, saved with it, and drawn from the file."""
    added = ("alpha_curve", "accuracy_nfr", "nfr_by_ensemble_size", "nfr_per_epoch", "landscape", "chain_matrix")
    report = small_report().with_figures(**{name: NUMBERS[name] for name in added})
    written = save_plots(report.save(tmp_path / "report.json"), tmp_path / "plots")
    assert {f"{name}.png" for name in FIGURES} <= {file.name for file in written}


def test_further_numbers_are_drawn_beside_it(tmp_path):
    extra = {"rank_histogram": NUMBERS["rank_histogram"]}
    written = save_plots(small_report(), tmp_path, curve=curve_rows(), chain=CHAIN, numbers=extra)
    assert {"alpha_curve.png", "chain_matrix.png", "rank_histogram.png"} <= {file.name for file in written}
    with pytest.raises(ValueError, match=r"Unknown: 'rank', 'gif'.*Known: figures flip_square"):
        save_plots(small_report(), tmp_path / "b", numbers={"rank": {}}, formats=("gif",))


@pytest.mark.parametrize(
    ("name", "arguments", "message"),
    [
        ("nfr_by_class", {"groups": []}, "no class to draw"),
        ("accuracy_nfr", {"methods": [{"name": "a", "nfr": 0.1}]}, "method 0 lacks accuracy"),
        ("nfr_by_ensemble_size", {"sizes": [1, 2], "nfr": {"a": [0.1]}}, "'x': 2, 'a': 1"),
        ("nfr_per_epoch", {"epochs": [], "nfr": {"a": []}}, "at least one"),
        ("displacement_histogram", {"norms": {"a": []}}, "nothing for 'a'"),
        ("displacement_histogram", {"norms": {"a": [1.0]}, "bin_size": 0}, "bin_size is 0"),
        ("rank_histogram", {"ranks": {"a": [0, 1]}}, "ranks that start at 1"),
        ("uncertainty_histograms", {"values": {}}, "an empty mapping"),
        ("landscape", {**GRID, "nfr": [[1, 2]]}, r"shape \(1, 2\), expected \(2, 3\)"),
    ],
)
def test_what_cannot_be_drawn_is_said(name, arguments, message):
    with pytest.raises(ValueError, match=message):
        FIGURES[name](**arguments)


def test_only_classes_with_flips_are_drawn():
    from dataclasses import replace

    groups = small_report().classes
    quiet = [replace(group, name=f"quiet {number}", negative_flips=0, positive_flips=0, nfr=0.0)
             for number, group in enumerate(groups)]  # fmt: skip
    (axes,) = nfr_by_class([*groups, *quiet]).axes
    shown = [label.get_text() for label in axes.get_yticklabels()]
    assert len(shown) == sum(bool(group.negative_flips or group.positive_flips) for group in groups)
    assert not any(text.startswith("quiet") for text in shown)
    assert f"{len(quiet)} without flips are not shown" in axes.get_title(loc="left")
    assert len(nfr_by_class(quiet).axes[0].get_yticklabels()) == len(quiet)  # where nothing flips, that is shown
