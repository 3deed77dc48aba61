"""The Bayesian update: posteriors against brute force, the three rules by hand, the budget, and what is refused."""

from itertools import pairwise

import numpy as np
import pytest

from hf_pct import NotComparableError, Predictions, compare
from hf_pct.flips.tables.predictions import Provenance
from hf_pct.policies.bayes import bayesian_update
from hf_pct.policies.beliefs import DenseBeliefs, SparseBeliefs
from hf_pct.policies.versions import split_by_ids

NAMES = [f"class {number}" for number in range(4)]


def drawn(rng, rows, accuracies, classes=4, start=0, created=None):
    """Versions of these accuracies on the same rows; wrong answers are any other class."""
    truth = rng.integers(0, classes, rows)
    names = [f"class {number}" for number in range(classes)]
    tables = []
    for number, accuracy in enumerate(accuracies):
        wrong = (truth + rng.integers(1, classes, rows)) % classes
        answers = np.where(rng.random(rows) < accuracy, truth, wrong)
        made = Provenance(model=f"v{number + 1}", created=created[number] if created else None)
        ids = np.arange(start, start + rows)
        tables.append(Predictions(ids, truth, answers, label_names=names, provenance=made))
    return tables


@pytest.mark.parametrize("classes", [2, 3, 7])
def test_sparse_beliefs_are_the_dense_ones(classes):
    rng = np.random.default_rng(classes)
    versions, rows = 3, 200
    answers = rng.integers(0, classes, (versions, rows))
    prior = np.log(rng.dirichlet(np.ones(classes)))
    right = [rng.uniform(0.05, 0.95, classes) for _ in range(versions)]
    confusions = []
    for rates in right:
        matrix = np.tile((1 - rates) / (classes - 1), (classes, 1))
        np.fill_diagonal(matrix, rates)
        confusions.append(np.log(matrix))
    dense, sparse = DenseBeliefs(answers, prior, confusions), SparseBeliefs(answers, prior, right)
    for version in range(versions):
        seen = rng.random(rows) < 0.7
        dense.observe(version, seen)
        sparse.observe(version, seen)
        asked = rng.integers(0, classes, rows)
        assert sparse.entropy() == pytest.approx(dense.entropy(), abs=1e-9)
        assert sparse.log_probability(asked) == pytest.approx(dense.log_probability(asked), abs=1e-9)
        agree = sparse.best() == dense.best()
        gap = np.abs(dense.log_probability(sparse.best()) - dense.log_probability(dense.best()))
        assert (agree | (gap < 1e-9)).all()


def test_a_posterior_by_hand():
    """Two classes, right 9 and 6 times in 10: after "a" and "b" the odds of a are (.9 / .1) (.4 / .6) = 6."""
    answers = np.array([[0], [1]])
    beliefs = SparseBeliefs(answers, np.log([0.5, 0.5]), [np.full(2, 0.9), np.full(2, 0.6)])
    for version in (0, 1):
        beliefs.observe(version, np.array([True]))
    odds = beliefs.log_probability(np.array([0])) - beliefs.log_probability(np.array([1]))
    assert np.exp(odds) == pytest.approx([6.0])


def test_a_cost_ratio_keeps_more_than_the_most_probable_answer_does():
    rng = np.random.default_rng(0)
    accuracies = (0.75, 0.78, 0.8, 0.82)
    calibration, versions = drawn(rng, 2000, accuracies), drawn(rng, 4000, accuracies, start=10_000)
    nfr = {"replace": _cumulative(versions)}
    for name, options in {"map": {"rule": "map"}, "2": {"cost_ratio": 2}, "10": {"cost_ratio": 10}}.items():
        update = bayesian_update(versions, calibration, **options)
        nfr[name] = _cumulative(update.steps)
        assert update.table.accuracy > 0.88, "four witnesses are better than the best of them"
    assert nfr["10"] < nfr["2"] < nfr["map"] < nfr["replace"]


def _cumulative(steps):
    return sum(compare(before, after).nfr for before, after in pairwise(steps))


def test_odds_are_those_of_the_stored_answer():
    """Nothing is changed by a ratio that no odds exceed, and a ratio below 1 is the most probable answer."""
    rng = np.random.default_rng(1)
    calibration, versions = drawn(rng, 500, (0.7, 0.8, 0.9)), drawn(rng, 500, (0.7, 0.8, 0.9), start=1000)
    kept = bayesian_update(versions, calibration, cost_ratio=1e12).table
    assert (kept.predictions == versions[0].predictions).all()
    eager = bayesian_update(versions, calibration, cost_ratio=1e-12).table
    best = bayesian_update(versions, calibration, rule="map").table
    assert (eager.predictions == best.predictions).all()


def test_entropy_decides_when_a_row_may_change():
    rng = np.random.default_rng(2)
    calibration, versions = drawn(rng, 800, (0.8, 0.8)), drawn(rng, 800, (0.8, 0.8), start=1000)
    update = bayesian_update(versions, calibration, rule="min-entropy", confusion="diagonal")
    same = versions[0].predictions == versions[1].predictions
    changed = update.table.predictions != versions[0].predictions
    assert not changed[~same].any(), "an answer against the first makes the posterior less sure"


def test_the_budget_is_kept_and_goes_to_unsure_rows():
    rng = np.random.default_rng(3)
    calibration, versions = drawn(rng, 800, (0.6, 0.9, 0.9)), drawn(rng, 1000, (0.6, 0.9, 0.9), start=1000)
    whole, part, none = (
        bayesian_update(versions, calibration, rule="map", budget=budget) for budget in (1.0, 0.3, 0.0)
    )
    assert whole.asked == (1000, 1000, 1000)
    assert part.asked == (1000, 300, 300)
    assert none.table.accuracy == versions[0].accuracy
    assert none.table.accuracy < part.table.accuracy < whole.table.accuracy


def test_rows_in_another_order_change_nothing():
    rng = np.random.default_rng(4)
    calibration, versions = drawn(rng, 300, (0.7, 0.8)), drawn(rng, 300, (0.7, 0.8), start=1000)
    order = rng.permutation(300)
    shuffled = Predictions(
        versions[1].ids.take(order), versions[1].labels[order], versions[1].predictions[order], label_names=NAMES
    )
    straight = bayesian_update(versions, calibration).table
    other = bayesian_update([versions[0], shuffled], calibration).table
    assert (straight.predictions == other.predictions).all()


def test_added_classes_can_be_answered():
    """The second version knows a class more; its rows are rows that the first got wrong."""
    rng = np.random.default_rng(5)
    codes = rng.integers(0, 5, 600)
    truth, known = np.array([*NAMES, "more"])[codes], np.array(NAMES)[codes % 4]
    first = [Predictions(np.arange(600) + at, truth, known, label_names=NAMES) for at in (0, 1000)]
    second = [Predictions(np.arange(600) + at, truth, truth, label_names=[*NAMES, "more"]) for at in (0, 1000)]
    update = bayesian_update([first[0], second[0]], [first[1], second[1]], rule="map")
    assert update.table.accuracy == 1.0
    assert update.table.label_names[-1] == "more"


def test_calibration_rows_are_never_judged():
    rng = np.random.default_rng(6)
    tables = drawn(rng, 100, (0.7, 0.8))
    with pytest.raises(NotComparableError, match="100 calibration rows are among the rows to decide: 0, 1, 2"):
        bayesian_update(tables, tables)
    kept, taken = split_by_ids(tables, tables[0].ids[:30])
    assert [len(table) for table in (*kept, *taken)] == [70, 70, 30, 30]
    assert len(bayesian_update(kept, taken).table) == 70
    with pytest.raises(NotComparableError, match="2 of the 3 calibration ids are not in version 1"):
        split_by_ids(tables, drawn(rng, 3, (0.5, 0.5), start=99)[0].ids)


def test_versions_out_of_order_and_other_rows_are_refused():
    rng = np.random.default_rng(7)
    made = ("2026-02-01T00:00:00", "2026-01-01T00:00:00")
    tables = drawn(rng, 50, (0.7, 0.8), created=made)
    with pytest.raises(ValueError, match="Version 2 was predicted before version 1"):
        bayesian_update(tables, drawn(rng, 50, (0.7, 0.8), start=500))
    tables, other = drawn(rng, 50, (0.7, 0.8)), drawn(rng, 50, (0.7, 0.8), start=200)
    with pytest.raises(NotComparableError, match="same rows"):
        bayesian_update([tables[0], other[1]], drawn(rng, 50, (0.7, 0.8), start=500))
    with pytest.raises(ValueError, match="Got 2 versions and 1 calibration tables"):
        bayesian_update(tables, other[:1])


def test_every_wrong_setting_is_named_at_once():
    tables = drawn(np.random.default_rng(8), 10, (0.5, 0.5))
    with pytest.raises(ValueError, match="rule='best'") as caught:
        bayesian_update(
            tables, tables, rule="best", cost_ratio=float("nan"), budget=1.5, confusion="some", smoothing=0
        )
    others = ("cost_ratio=nan", "budget=1.5", "confusion='some'", "smoothing=0")
    assert all(word in str(caught.value) for word in others)
