"""Displacement by ensemble size, its fit and its prediction; the uncertainty that ensembles give."""

from itertools import combinations

import numpy as np
import pytest
from flip_tables import NAMES, drawn_members, member, shuffled, side
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import chi, entropy, ncx2

from hf_pct import FlipReport, NotComparableError, Predictions, compare
from hf_pct.flips.studies import logit_figures as analysis
from hf_pct.flips.studies.displacement import displacement_by_size
from hf_pct.flips.studies.uncertainty import ensemble_uncertainty, uncertainty_of_flips
from hf_pct.viz.figures.plots import FIGURES, save_plots

SPREAD = 0.7


def test_the_fit_recovers_bias_and_variance_of_normal_members():
    """Trace 3 s^2 on each side, and a shift of (1, -1, 0) whose squared norm is 2."""
    shift = np.array([1.0, -1.0, 0.0])
    old = drawn_members(16, rows=400, spread=SPREAD)
    new = drawn_members(16, seed=1, rows=400, spread=2 * SPREAD, shift=shift)
    report = displacement_by_size(old, new, draws=40)
    assert report.sizes == (1, 2, 4, 8, 16)
    trace = 3 * SPREAD**2 * (1 + 4)
    assert report.expected_bias == pytest.approx(2.0, abs=0.1)
    assert report.expected_variance == pytest.approx(trace, rel=0.05)
    assert report.bias == pytest.approx(2.0, abs=0.15)
    assert report.variance == pytest.approx(trace, rel=0.05)
    assert report.r_squared > 0.995
    assert report.mean_squared_norm == pytest.approx(report.expected_squared_norm, rel=0.05)


def test_two_sets_of_one_recipe_have_no_bias():
    tables = drawn_members(16, rows=400, spread=SPREAD)
    report = displacement_by_size(tables[:8], tables[8:], draws=40)
    assert abs(report.expected_bias) < 0.02 * report.expected_variance
    assert abs(report.bias) < 0.02 * report.variance
    plain = np.mean([table.logits for table in tables[:8]], axis=0) - np.mean(
        [table.logits for table in tables[8:]], axis=0
    )
    # without the correction, the scatter of eight members would have been taken for bias
    assert np.mean(np.sum(plain**2, -1)) == pytest.approx(report.expected_variance / 8, rel=0.1)
    pool = displacement_by_size(tables, tables, draws=40)
    assert pool.expected_bias == 0.0
    assert pool.sizes == (1, 2, 4, 8)
    assert abs(pool.bias) < 0.02 * pool.variance
    assert pool.variance == pytest.approx(2 * 3 * SPREAD**2, rel=0.05)


@settings(max_examples=10, deadline=None)
@given(st.integers(2, 4), st.integers(2, 4), st.integers(0, 2**16), st.sampled_from([1.0, 3.0]))
def test_over_all_draws_measured_and_expected_are_the_same(old_count, new_count, seed, power):
    """An identity of drawing without replacement: it holds for any members, normal or not."""

    def skewed(tables):
        return [member(np.sign(t.logits) * np.abs(t.logits) ** power, t.label_codes) for t in tables]

    old = skewed(drawn_members(old_count, seed=seed, rows=5))
    new = skewed(drawn_members(new_count, seed=seed + 1, rows=5, shift=1.0))
    for sides in ((old, new), (old, old)):
        report = displacement_by_size(*sides, draws=10_000)
        assert report.mean_squared_norm == pytest.approx(report.expected_squared_norm, rel=1e-5, abs=1e-6)


def test_norms_are_those_of_every_drawn_pair_over_common_classes():
    old = drawn_members(2, rows=6)
    new = drawn_members(2, seed=1, rows=6)
    wider = [
        Predictions(t.ids, t.labels.tolist(), logits=np.concatenate([np.full((6, 1), 50.0), t.logits], axis=1),
                    label_names=["added", *NAMES])
        for t in new
    ]  # fmt: skip
    report = displacement_by_size(old, [shuffled(wider[0]), wider[1]])
    by_hand = [np.linalg.norm(n.logits - o.logits, axis=-1) for o in old for n in new]
    assert report.norms["m = 1"] == pytest.approx(np.sort(np.concatenate(by_hand)), abs=1e-4)
    mean = np.linalg.norm(sum(n.logits - o.logits for o, n in zip(old, new, strict=True)) / 2, axis=-1)
    assert report.norms["m = 2"] == pytest.approx(np.sort(mean), abs=1e-4)
    assert (report.classes, report.rows, report.draws) == (3, 6, (4, 1))
    plain = displacement_by_size(old, new)
    assert plain.mean_squared_norm == pytest.approx(report.mean_squared_norm)
    squared = np.mean(np.concatenate(by_hand) ** 2)
    assert plain.mean_squared_norm[0] == pytest.approx(squared, rel=1e-5)
    assert plain.mean_norm[0] == pytest.approx(np.concatenate(by_hand).mean(), rel=1e-5)


def test_the_predicted_density_integrates_to_one_and_fits_normal_members():
    tables = drawn_members(32, rows=300, spread=SPREAD)
    report = displacement_by_size(tables, tables, sizes=[1, 4], draws=40)
    assert set(report.predicted) == set(report.norms) == {"m = 1", "m = 4"}
    for name, size in (("m = 1", 1), ("m = 4", 4)):
        points, density = map(np.array, report.predicted[name])
        assert points[0] >= 0
        assert np.trapezoid(density, points) == pytest.approx(1, abs=5e-3)
        # isotropic normal members: the norm is a chi variable with 3 degrees of freedom
        exact = chi(3, scale=SPREAD * np.sqrt(2 / size))
        assert density == pytest.approx(exact.pdf(points), abs=0.08 * exact.pdf(points).max())
        assert np.trapezoid(points * density, points) == pytest.approx(np.mean(report.norms[name]), rel=0.03)


def test_the_predicted_density_of_two_recipes_is_not_central():
    old, new = (drawn_members(64, seed=seed, rows=200, spread=SPREAD, shift=shift)
                for seed, shift in ((0, 0.0), (1, np.array([3.0, 0, 0]))))  # fmt: skip
    report = displacement_by_size(old, new, sizes=[2], draws=5)
    points, density = map(np.array, report.predicted["m = 2"])
    scale = SPREAD**2 * 2 / 2
    exact = ncx2(3, 9 / scale, scale=scale).pdf(points**2) * 2 * points
    assert density == pytest.approx(exact, abs=0.1 * exact.max())
    assert np.trapezoid(points**2 * density, points) == pytest.approx(report.expected_squared_norm[0], rel=0.03)


def test_members_that_do_not_scatter_have_no_density():
    same = drawn_members(1, rows=10)[0]
    copies = [member(same.logits, same.label_codes) for _ in range(4)]
    report = displacement_by_size(copies, copies)
    assert report.predicted == {}
    assert report.mean_squared_norm == (0.0, 0.0)
    assert (report.bias, report.variance, report.r_squared) == (0.0, 0.0, None)
    FIGURES["displacement_histogram"](**report.figure())
    single = displacement_by_size(copies[:2], copies[2:], sizes=[1])
    assert (single.bias, single.variance, single.r_squared) == (None, None, None)
    assert "Fitted" not in single.to_markdown()


def test_the_histogram_is_drawn_from_a_saved_report(tmp_path):
    tables = drawn_members(8, rows=300)
    report = displacement_by_size(tables, tables)
    assert report == displacement_by_size(tables, tables)
    numbers = report.figure()
    figure = FIGURES["displacement_histogram"](**numbers)
    labels = figure.axes[0].get_legend_handles_labels()[1]
    assert set(labels) == {*report.norms, *(f"{name}, predicted" for name in report.norms)}
    assert len(numbers["norms"]["m = 1"]) == analysis.MOST_POINTS
    saved = compare(tables[0], tables[1]).with_figures(displacement_histogram=numbers).save(tmp_path / "report.json")
    assert FlipReport.load(saved).figures["displacement_histogram"] == numbers
    assert "displacement_histogram.png" in {path.name for path in save_plots(saved, tmp_path / "plots")}
    text = report.to_markdown()
    assert f"| 1 | 20 | {report.mean_norm[0]:.4f} | {report.mean_squared_norm[0]:.4f} |" in text
    assert f"Fitted: {report.bias:.4f} + {report.variance:.4f} / m, R² {report.r_squared:.4f}." in text
    assert report.to_dict()["format"] == "hf_pct.displacement"


@pytest.mark.parametrize(("scale", "expected"), [(0.01, 0.001), (1.0, 0.1), (10.0, 0.5), (1000.0, 100.0)])
def test_bins_suit_the_size_of_the_logits(scale, expected):
    labels = [0, 1]
    tables = [member(scale * np.array([[place, 0, 0], [0, place, 0]]), labels) for place in (0.0, 1.0, 2.0, 2.8)]
    figure = displacement_by_size(tables, tables).figure()
    top = max(map(max, figure["norms"].values()))
    assert figure["bin_size"] == pytest.approx(expected)
    assert 5 <= top / figure["bin_size"] <= 100


def test_thinning_keeps_the_shape():
    values = np.random.default_rng(0).normal(size=5000)
    assert analysis.thin(values[:10]).tolist() == np.sort(values[:10]).tolist()
    kept = analysis.thin(values, 101)
    assert kept == pytest.approx(np.quantile(values, np.linspace(0, 1, 101)), abs=0.05)


def test_bad_sides():
    tables, others = drawn_members(3), drawn_members(3, seed=1)
    with pytest.raises(ValueError, match="Got 1 new members, expected at least 2"):
        displacement_by_size(tables, others[:1])
    with pytest.raises(ValueError, match="sizes holds 4, expected whole numbers from 1 to 3"):
        displacement_by_size(tables, others, sizes=[4])
    logits = tables[0].logits.copy()
    logits[0, 0] = -np.inf
    masked = member(logits, tables[0].label_codes, name="masked")
    with pytest.raises(ValueError, match=r"'masked' hold -inf .*displacement is a difference of logits"):
        displacement_by_size([masked, tables[1]], others)
    foreign = [Predictions(t.ids, t.labels.tolist(), logits=t.logits, label_names=["a", "b", "c"]) for t in others]
    with pytest.raises(NotComparableError, match="no class in common: 'no', 'yes', 'maybe' and 'a', 'b', 'c'"):
        displacement_by_size(tables, foreign)


# uncertainty


def test_uncertainty_is_that_of_the_mean_probabilities():
    tables = drawn_members(3, rows=20)
    probabilities = [np.exp(t.logits) / np.exp(t.logits).sum(-1, keepdims=True) for t in tables]
    mean = np.mean(probabilities, axis=0)
    others = [tables[0], *(shuffled(table, 1) for table in tables[1:])]
    assert ensemble_uncertainty(others) == pytest.approx(entropy(mean, axis=-1), abs=1e-5)
    divergence = np.mean([entropy(single, mean, axis=-1) for single in probabilities], axis=0)
    assert ensemble_uncertainty(others, "disagreement") == pytest.approx(divergence, abs=1e-5)
    assert ensemble_uncertainty(tables[:1]) == pytest.approx(analysis.entropy(tables[0].logits))


def test_members_that_agree_do_not_disagree():
    unsure = member(np.zeros((2, 3)), [0, 1])
    assert ensemble_uncertainty([unsure, unsure]) == pytest.approx(np.log(3) * np.ones(2))
    assert ensemble_uncertainty([unsure, unsure], "disagreement").tolist() == [0.0, 0.0]
    first, second = member([[50, 0, 0]], [0]), member([[0, 50, 0]], [0])
    assert ensemble_uncertainty([first, second], "disagreement") == pytest.approx([np.log(2)])
    masked = member([[0, 0, -np.inf]], [0])
    assert ensemble_uncertainty([masked, masked]) == pytest.approx([np.log(2)])


def test_flips_by_the_uncertainty_of_an_ensemble(tmp_path):
    old, new, *members = drawn_members(6, rows=600)
    numbers = uncertainty_of_flips(old, shuffled(new), [shuffled(table, 2) for table in members])
    values = ensemble_uncertainty(members)
    old_right, new_right = (table.prediction_codes == table.label_codes for table in (old, new))
    groups = {"negative flips": old_right & ~new_right, "other rows": ~(old_right & ~new_right),
              "kept": old_right & new_right}  # fmt: skip
    assert numbers["values"] == analysis.thinned_by_group(values, groups)
    assert numbers["unit"] == "entropy of the ensemble's mean probabilities, nats"
    assert np.mean(numbers["values"]["negative flips"]) > np.mean(numbers["values"]["kept"])
    figure = FIGURES["uncertainty_histograms"](**numbers)
    assert len(figure.axes[0].get_legend_handles_labels()[1]) == 3
    saved = compare(old, new).with_figures(uncertainty_histograms=numbers).save(tmp_path / "report.json")
    assert "uncertainty_histograms.png" in {path.name for path in save_plots(saved, tmp_path / "plots")}
    kept = uncertainty_of_flips(old, old, members, "disagreement")
    assert set(kept["values"]) == {"other rows", "kept"}
    assert kept["unit"].startswith("mean KL divergence")


def test_bad_uncertainty():
    tables = drawn_members(3)
    with pytest.raises(ValueError, match="kind is 'variance', expected one of 'entropy', 'disagreement'"):
        ensemble_uncertainty(tables, "variance")
    with pytest.raises(ValueError, match="kind is 'variance'"):
        uncertainty_of_flips(*tables[:2], tables, "variance")
    with pytest.raises(ValueError, match="Got 1 members, expected at least 2"):
        ensemble_uncertainty(tables[:1], "disagreement")
    with pytest.raises(ValueError, match="has no logits"):
        ensemble_uncertainty([side(NAMES, NAMES)])
    with pytest.raises(NotComparableError, match=r"member 1 \(s0.0\): against the first table of the other side"):
        uncertainty_of_flips(*tables[:2], drawn_members(2, rows=10))
    foreign = Predictions([1], ["sell"], logits=[[1, 0, 0]], label_names=NAMES)
    wider = Predictions([1], ["sell"], logits=[[1, 0, 0, 0]], label_names=[*NAMES, "sell"])
    with pytest.raises(NotComparableError, match="None of the 1 rows has a label that the old model knows"):
        uncertainty_of_flips(foreign, wider, [wider])


def test_every_pair_is_counted_once():
    tables = drawn_members(4, rows=10)
    report = displacement_by_size(tables, tables, sizes=[2], draws=100)
    assert report.draws == (6,)
    means = {two: np.mean([tables[at].logits for at in two], axis=0) for two in combinations(range(4), 2)}
    norms = [np.linalg.norm(means[a] - means[b], axis=-1) for a in means for b in means if not set(a) & set(b)]
    assert report.norms["m = 2"] == pytest.approx(np.sort(np.concatenate(norms)), abs=1e-4)
