"""Ensembles from tables: their mean, their temperature, their most central member, and what size does."""

from itertools import combinations

import numpy as np
import pytest
from flip_tables import NAMES, drawn_members, member, shuffled, side
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import log_softmax, softmax

from hf_pct import NotComparableError, Predictions, compare, mean_predictions, most_centric
from hf_pct.flips.studies.draws import draw_ensembles, two_sides
from hf_pct.flips.studies.ensemble import fit_temperature
from hf_pct.flips.studies.ensemble_size import nfr_by_ensemble_size
from hf_pct.flips.tables.predictions import Provenance
from hf_pct.viz.figures.plots import FIGURES, save_plots

# the mean


def test_the_mean_is_taken_row_by_row_and_class_by_class():
    first = member([[1, 2, 3], [4, 0, 0]], [0, 1], name="a", ids=["x", "y"], columns={"channel": ["web", "app"]})
    # maybe, no, yes; y before x
    second = member([[8, 2, 6], [9, 3, 0]], [2, 1], name="b", ids=["y", "x"], names=["maybe", "no", "yes"])
    mean = mean_predictions([first, second])
    assert mean.logits.tolist() == [[2.0, 1.0, 6.0], [3.0, 3.0, 4.0]]
    assert mean.ids.to_pylist() == ["x", "y"]
    assert mean.labels.tolist() == ["no", "yes"]
    assert mean.predictions.tolist() == ["maybe", "maybe"]
    assert mean.label_names == tuple(NAMES)
    assert mean.columns["channel"].to_pylist() == ["web", "app"]
    cooled = mean_predictions([first, second], temperatures=[1, 0.5])
    assert cooled.logits.tolist() == [[3.5, 1.0, 10.5], [4.0, 6.0, 8.0]]


def test_it_says_of_what_it_is_the_mean(tmp_path):
    data = {"dataset": "d", "split": "test", "fingerprint": "f"}
    tables = [
        Predictions([0, 1], [0, 1], logits=np.eye(2), label_names=["a", "b"],
                    provenance=Provenance(model=name, weights=weights, **data))
        for name, weights in (("m0", "h0"), ("m1", None))
    ]  # fmt: skip
    mean = Predictions.load(mean_predictions(tables, [1.0, 2.0]).save(tmp_path / "mean.parquet"))
    source = mean.provenance
    assert source.model == "mean of 2: m0, m1"
    assert source.settings == {"mean_of": ["m0", "m1"], "weights": ["h0", None], "temperatures": [1.0, 2.0]}
    assert (source.dataset, source.split, source.fingerprint, source.weights) == ("d", "test", "f", None)
    assert mean_predictions(tables, name="paragon").provenance.model == "paragon"
    unnamed = mean_predictions([member(np.eye(3), [0, 1, 2]) for _ in range(6)]).provenance
    assert unnamed.model == "mean of 6: member 1, member 2, member 3, member 4, ..."
    assert len(unnamed.settings["mean_of"]) == 6


@settings(max_examples=30, deadline=None)
@given(st.integers(1, 4), st.integers(0, 2**16))
def test_neither_the_order_of_members_nor_of_rows_and_classes_matters(count, seed):
    tables = drawn_members(count, seed=seed, rows=12)
    mean = mean_predictions(tables)
    assert mean.logits == pytest.approx(np.mean([table.logits for table in tables], axis=0), abs=1e-6)
    other = mean_predictions([tables[0], *(shuffled(table, seed) for table in reversed(tables[1:]))])
    assert other.logits == pytest.approx(mean.logits, abs=1e-6)
    assert other.predictions.tolist() == mean.predictions.tolist()


def test_one_member_is_itself_and_labels_it_lacks_are_kept():
    alone = Predictions([1, 2], ["no", "sell"], logits=[[1, 0, 0], [0, 2, 0]], label_names=NAMES)
    mean = mean_predictions([alone])
    assert mean.logits.tolist() == alone.logits.tolist()
    assert mean.labels.tolist() == ["no", "sell"]
    masked = member([[-np.inf, 1, 0]], [1])
    assert mean_predictions([masked, member([[5, 3, 0]], [1])]).logits.tolist() == [[-np.inf, 2, 0]]


def test_bad_members_are_all_named_at_once():
    good = member(np.eye(3), [0, 1, 2], name="good")
    with pytest.raises(ValueError, match="Got 0 members, expected at least 1"):
        mean_predictions([])
    with pytest.raises(ValueError, match="The members are one Predictions, expected a list of Predictions"):
        mean_predictions(good)
    with pytest.raises(ValueError, match=r"The members are a list with str, .*Predictions.load reads one"):
        mean_predictions([good, "a.parquet"])
    with pytest.raises(ValueError, match=r"member 2 \(m\) has no logits; predict it again and keep them") as plain:
        mean_predictions([good, side(NAMES, NAMES)])
    assert not isinstance(plain.value, NotComparableError)
    rows = member(np.eye(3), [0, 1, 2], name="rows", ids=["r0", "r1", "else"])
    labels = member(np.eye(3), [0, 1, 1], name="labels")
    classes = member(np.eye(3), [0, 1, 0], name="classes", names=["no", "yes", "sell"])
    with pytest.raises(NotComparableError) as found:
        mean_predictions([good, rows, labels, classes, side(NAMES, NAMES)])
    text = str(found.value)
    assert text.startswith("The members need the same rows, labels and classes, all of them:")
    for part in (
        "member 2 (rows): against member 1",
        "1 of 3 ids are only in the new: 'else'",
        "member 3 (labels)",
        "1 ids have two different labels: 'r2' (old: maybe, new: yes)",
        "member 4 (classes): other classes than member 1: it lacks 'maybe' and has 'sell' besides",
        "member 5 (m) has no logits",
    ):
        assert part in text
    doubled = member(np.eye(3), [0, 1, 2], ids=["r0", "r0", "r1"])
    with pytest.raises(NotComparableError, match="more than one row") as found:
        mean_predictions([doubled, good])
    assert "member 2" not in str(found.value)  # nothing can be joined to the first, so nothing is said of the rest


@pytest.mark.parametrize("temperatures", [[1.0], [1.0, 0.0], [1.0, -2.0], [np.nan, 1.0], [np.inf, 1.0]])
def test_bad_temperatures(temperatures):
    table = member(np.eye(3), [0, 1, 2])
    expected = "1 temperatures for 2 members" if len(temperatures) == 1 else "expected finite numbers above 0"
    with pytest.raises(ValueError, match=expected):
        mean_predictions([table, table], temperatures)


# temperature


def calibrated(temperature, rows=20_000, seed=0):
    """Labels drawn from softmax(z), and the logits z times a temperature: exactly that much too sure."""
    rng = np.random.default_rng(seed)
    logits = rng.normal(scale=2, size=(rows, 3))
    chances = softmax(logits, axis=-1).cumsum(-1)
    labels = (rng.random((rows, 1)) > chances).sum(-1)
    return member(temperature * logits, labels)


@pytest.mark.parametrize("temperature", [0.2, 1.0, 3.0])
def test_a_known_temperature_is_found_again(temperature):
    table = calibrated(temperature)
    found = fit_temperature(table)
    assert found == pytest.approx(temperature, rel=0.03)

    def cross_entropy(value):
        log_probabilities = log_softmax(table.logits.astype(float) / value, axis=-1)
        return -log_probabilities[np.arange(len(table)), table.label_codes].mean()

    grid = np.geomspace(0.05, 20, 400)
    assert cross_entropy(found) <= min(map(cross_entropy, grid)) + 1e-9


def test_the_temperature_does_not_depend_on_order_or_on_a_constant():
    table = calibrated(2.0, rows=300)
    moved = member(table.logits + np.arange(300)[:, None], table.label_codes)
    assert fit_temperature(shuffled(table)) == pytest.approx(fit_temperature(table), rel=1e-4)
    assert fit_temperature(moved) == pytest.approx(fit_temperature(table), rel=1e-3)  # logits are float32
    masked = np.concatenate([table.logits, np.full((300, 1), -np.inf)], axis=1)
    assert fit_temperature(member(masked, table.label_codes, names=[*NAMES, "never"])) == pytest.approx(
        fit_temperature(table), rel=1e-4
    )


def test_a_temperature_at_a_bound_says_so():
    right = member(np.eye(3), [0, 1, 2])
    with pytest.warns(UserWarning, match=r"beyond 0.01.*right on all rows"):
        assert fit_temperature(right) == pytest.approx(0.01)
    with pytest.warns(UserWarning, match="beyond 0.01"):  # also where the cross-entropy has long been 0
        fit_temperature(member(1000 * np.eye(3), [0, 1, 2]))
    wrong = member(-np.eye(3), [0, 1, 2])
    with pytest.warns(UserWarning, match=r"beyond 100.*say nothing about the labels"):
        assert fit_temperature(wrong) == pytest.approx(100)
    with pytest.warns(UserWarning, match="no temperature changes anything"):
        assert fit_temperature(member(np.ones((2, 3)), [0, 1])) == 1.0


def test_what_no_temperature_fits():
    with pytest.raises(ValueError, match="have no logits"):
        fit_temperature(side(NAMES, NAMES))
    foreign = Predictions([1, 2], ["no", "sell"], logits=np.eye(3)[:2], label_names=NAMES)
    with pytest.raises(ValueError, match="1 of 2 rows have a label that the model lacks: 'sell'"):
        fit_temperature(foreign)
    with pytest.raises(ValueError, match=r"1 of 1 rows have a label whose logit is -inf.*'r0'"):
        fit_temperature(member([[-np.inf, 1, 0]], [0]))


# the most central member


def distance_by_hand(first, second, labels, by):
    total = 0.0
    for one, two, label in zip(first.astype(float), second.astype(float), labels, strict=True):
        if by == "logits":
            total += np.sqrt(sum((a - b) ** 2 for a, b in zip(one - one.mean(), two - two.mean(), strict=True)))
        elif by == "disagreement":
            total += one.argmax() != two.argmax()
        else:
            total += ((one.argmax() == label) != (two.argmax() == label)) / 2
    return total / len(labels)


@pytest.mark.parametrize("by", ["nfr", "disagreement", "logits"])
def test_the_medoid_is_that_of_a_loop_in_any_order(by):
    tables = drawn_members(5, seed=3, rows=60)
    report = most_centric(tables, by)
    labels = tables[0].label_codes
    for i, first in enumerate(tables):
        for j, second in enumerate(tables):
            by_hand = 0.0 if i == j else distance_by_hand(first.logits, second.logits, labels, by)
            assert report.distances[i][j] == pytest.approx(by_hand, abs=1e-9)
    means = [sum(row) / 4 for row in report.distances]
    assert report.mean_distances == pytest.approx(means)
    assert (report.index, report.name) == (int(np.argmin(means)), f"s3.{int(np.argmin(means))}")
    other = most_centric([shuffled(table, seed) for seed, table in enumerate(tables)], by)
    assert other.distances == pytest.approx(np.array(report.distances))
    assert other.index == report.index
    moved = [member(table.logits + at, labels, name=table.provenance.model) for at, table in enumerate(tables)]
    assert most_centric(moved, by).distances == pytest.approx(np.array(report.distances), abs=1e-5)


def test_nfr_between_members_is_that_of_compare():
    tables = drawn_members(3, rows=80)
    report = most_centric(tables)
    both = compare(tables[0], tables[1]).nfr + compare(tables[1], tables[0]).nfr
    assert report.distances[0][1] == pytest.approx(both / 2)
    assert most_centric(tables, "disagreement").distances[0][2] == compare(tables[0], tables[2]).counts.churn


def test_ties_go_to_the_first_and_answers_are_enough():
    labels = ["no", "no", "no", "no"]
    answers = [["no", "no", "no", "yes"], ["yes", "no", "no", "no"], ["no", "yes", "no", "no"]]
    report = most_centric([side(member, labels) for member in answers])
    assert len(set(np.round(report.mean_distances, 12))) == 1
    assert (report.index, report.name) == (0, "member 1 m")
    two = most_centric([side(answers[1], labels, names=None), side(answers[0], labels)], "disagreement")
    assert two.index == 0
    assert two.mean_distances == (0.5, 0.5)


def test_the_central_report_is_readable_and_plain():
    report = most_centric(drawn_members(3))
    data = report.to_dict()
    assert (data["format"], data["by"], data["name"]) == ("hf_pct.centric", "nfr", report.name)
    text = report.to_markdown()
    assert f"on 40 rows: {report.name}" in text
    assert f"| **s0.0** |  | {100 * report.distances[0][1]:.2f} % |" in text
    assert "mean L2 distance" in most_centric(drawn_members(3), "logits").to_markdown()


def test_bad_central_members():
    tables = drawn_members(2)
    with pytest.raises(ValueError, match="by is 'l2', expected one of 'nfr', 'disagreement', 'logits'"):
        most_centric(tables, "l2")
    with pytest.raises(ValueError, match="Got 1 members, expected at least 2"):
        most_centric(tables[:1])
    with pytest.raises(ValueError, match="has no logits"):
        most_centric([side(NAMES, NAMES), side(NAMES, NAMES)], "logits")
    with pytest.raises(ValueError, match=r"'member 1' hold -inf.*distances are between logits"):
        most_centric([member([[-np.inf, 1, 0]], [1]), member([[0, 1, 0]], [1])], "logits")
    foreign = [Predictions([1], ["sell"], logits=[[1, 0, 0]], label_names=NAMES) for _ in range(2)]
    with pytest.raises(NotComparableError, match=r"None of the 1 rows .*disagreement"):
        most_centric(foreign)
    assert most_centric(foreign, "disagreement").mean_distances == (0.0, 0.0)


# drawing, and NFR by size


def test_from_one_pool_the_two_sides_have_no_common_member():
    pool = drawn_members(7)
    for given_pool in (pool, pool[::-1], list(pool)):
        sides = two_sides(pool, given_pool)
        assert sides.one_pool
        assert sides.most == 3
        for size, pairs in draw_ensembles(sides, None, 30, seed=1).items():
            assert len(set(pairs)) == len(pairs) == 30
            for old, new in pairs:
                assert len(old) == len(new) == size
                assert len({*old, *new}) == 2 * size


def test_all_pairs_are_taken_when_they_are_few():
    pool, others = drawn_members(4), drawn_members(3, seed=1)
    one = draw_ensembles(two_sides(pool, pool), [2, 1], 12, seed=0)
    assert list(one) == [1, 2]
    assert sorted(one[1]) == [((i,), (j,)) for i in range(4) for j in range(4) if i != j]
    assert len(one[2]) == 6
    two = draw_ensembles(two_sides(pool, others), [2], 18, seed=0)[2]
    assert sorted(two) == sorted((old, new) for old in combinations(range(4), 2) for new in combinations(range(3), 2))


def test_draws_are_those_of_the_seed_whatever_else_is_asked():
    sides = two_sides(drawn_members(9), drawn_members(9, seed=1))
    plan = draw_ensembles(sides, None, 10, seed=5)
    assert list(plan) == [1, 2, 4, 8, 9]
    assert [len(pairs) for pairs in plan.values()] == [10, 10, 10, 10, 1]
    assert draw_ensembles(sides, [4], 10, seed=5)[4] == plan[4]
    assert draw_ensembles(sides, [4], 10, seed=6)[4] != plan[4]


def test_rates_are_those_of_comparing_the_means():
    old, new = drawn_members(3), drawn_members(3, seed=1, shift=np.array([1.0, 0, 0]))
    new[1] = shuffled(new[1])
    report = nfr_by_ensemble_size(old, new, draws=9)
    assert report.sizes == (1, 2, 3)
    assert report.draws == (9, 9, 1)
    for at, size in enumerate(report.sizes):
        counts = [
            compare(mean_predictions(one), mean_predictions(two)).counts
            for one in combinations(old, size)
            for two in combinations(new, size)
        ]
        for name in ("nfr", "old_error_rate", "new_error_rate"):
            rates = [getattr(count, name) for count in counts]
            assert getattr(report, name)[at] == pytest.approx(np.mean(rates))
            assert getattr(report, f"{name}_std")[at] == pytest.approx(np.std(rates, ddof=1) if len(rates) > 1 else 0)


def test_larger_ensembles_flip_less():
    pool = drawn_members(16, rows=400)
    report = nfr_by_ensemble_size(pool, pool)
    assert report.sizes == (1, 2, 4, 8)
    assert list(report.nfr) == sorted(report.nfr, reverse=True)
    assert report.nfr[0] > 1.5 * report.nfr[-1] > 0
    assert nfr_by_ensemble_size(pool, pool) == report
    assert nfr_by_ensemble_size(pool, pool, seed=1).nfr != report.nfr


def test_rows_of_added_classes_cannot_flip():
    labels = ["no", "yes", "sell"]
    old = [Predictions([0, 1, 2], labels, logits=np.eye(3), label_names=NAMES) for _ in range(2)]
    logits = np.eye(4)[[0, 0, 1]]
    new = [Predictions([0, 1, 2], labels, logits=logits, label_names=[*NAMES, "sell"]) for _ in range(2)]
    report = nfr_by_ensemble_size(old, new)
    assert report.rows == 2
    assert report.nfr == (0.5, 0.5) == (compare(old[0], new[0]).nfr,) * 2


def test_the_figure_is_drawn_from_a_saved_report(tmp_path):
    pool = drawn_members(6)
    report = nfr_by_ensemble_size(pool, pool)
    numbers = report.figure()
    figure = FIGURES["nfr_by_ensemble_size"](**numbers)
    lines = [line for axes in figure.axes for line in axes.get_lines()]
    assert [line.get_label() for line in lines] == ["old to new", "old", "new"]
    assert lines[0].get_ydata() == pytest.approx([100 * rate for rate in report.nfr])
    assert set(report.figure("one pool")["error_rate"]) == {"old, one pool", "new, one pool"}
    saved = compare(pool[0], pool[1]).with_figures(nfr_by_ensemble_size=numbers).save(tmp_path / "report.json")
    written = save_plots(saved, tmp_path / "plots")
    assert "nfr_by_ensemble_size.png" in {path.name for path in written}
    text = report.to_markdown()
    assert "drawn from one pool of 6 models, without a common member" in text
    assert f"| 1 | 20 | {100 * report.nfr[0]:.2f} % ± {100 * report.nfr_std[0]:.2f} |" in text
    assert report.to_dict()["format"] == "hf_pct.ensemble_size"
    two = nfr_by_ensemble_size(pool[:1], pool[1:])
    assert "drawn from 1 old and 5 new members" in two.to_markdown()


def test_bad_sizes_and_sides():
    pool, others = drawn_members(5), drawn_members(2, seed=1)
    everything = (
        r"holds 0, 3, 1.5, .* from 1 to 2, half of the pool of 5; .* a size twice; draws is 0, .*; seed is -1, "
    )
    with pytest.raises(ValueError, match=everything):
        nfr_by_ensemble_size(pool, pool, sizes=[0, 1, 1, 3, 1.5], draws=0, seed=-1)
    with pytest.raises(
        ValueError, match="an empty list, expected whole numbers from 1 to 2, the members of the small"
    ):
        nfr_by_ensemble_size(pool, others, sizes=[])
    with pytest.raises(ValueError, match="3 tables are among the 5 old and the 3 new members"):
        nfr_by_ensemble_size(pool, pool[:3])
    with pytest.raises(ValueError, match="1 tables stand more than once on a side"):
        nfr_by_ensemble_size(pool, [*others, others[0]])
    with pytest.raises(ValueError, match="Got 1 members, expected at least 2"):
        nfr_by_ensemble_size(pool[:1], pool[:1])
    with pytest.raises(ValueError, match="Got 0 new members, expected at least 1"):
        nfr_by_ensemble_size(pool, [])
    with pytest.raises(ValueError, match="The old members are one Predictions"):
        nfr_by_ensemble_size(pool[0], pool)
    short = drawn_members(1, rows=10)
    with pytest.raises(NotComparableError, match=r"new member 1 \(s0.0\): against the first table of the other side"):
        nfr_by_ensemble_size(pool, short)
    foreign = [Predictions([1], ["sell"], logits=[[1, 0, 0]], label_names=NAMES) for _ in range(2)]
    with pytest.raises(NotComparableError, match="None of the 1 rows has a label that the old members know"):
        nfr_by_ensemble_size(foreign, foreign)
