"""Whether what labels of differing rows claim is true, by simulation: coverage, verdicts, and labels saved."""

import numpy as np
import pytest

from hf_pct.flips.stats import clopper_pearson
from hf_pct.flips.traffic.estimate import StratumLabels, TrafficLabels
from hf_pct.flips.traffic.sampling import decide, mixture_bounds, sequence_bounds, total_bounds

ROWS = 2000


def population(shares, differ=400):
    counts = [round(differ * share) for share in shares]
    return np.repeat(["old", "new", "neither"], counts)


def labels_of(drawn, differ, **options):
    kinds = {name: int((drawn == name).sum()) for name in ("old", "new", "neither")}
    return TrafficLabels(ROWS, (StratumLabels("(all)", differ, **kinds),), **options)


@pytest.mark.parametrize("shares", [(0.3, 0.5, 0.2), (0.05, 0.9, 0.05)])
@pytest.mark.parametrize("count", [60, 200])
def test_intervals_cover_this_traffic(shares, count):
    rng, people = np.random.default_rng(0), population(shares)
    truth = np.mean(people == "old") * len(people) / ROWS
    gain = (np.sum(people == "new") - np.sum(people == "old")) / ROWS
    covered = np.zeros(4)
    for _ in range(300):
        labels = labels_of(rng.permutation(people)[:count], len(people))
        rate, better = labels.rate("old"), labels.gain()
        covered += [
            rate.interval.low <= truth <= rate.interval.high,
            rate.upper >= truth,
            better.interval.low <= gain <= better.interval.high,
            better.lower <= gain,
        ]
    assert (covered / 300 >= 0.92).all(), covered / 300


def test_intervals_cover_future_traffic():
    rng = np.random.default_rng(1)
    covered = 0
    for _ in range(300):
        differ = rng.binomial(ROWS, 0.05)
        old, new, neither = rng.multinomial(min(60, differ), [0.3, 0.5, 0.2])
        stratum = StratumLabels("(all)", int(differ), int(old), int(new), int(neither))
        interval = TrafficLabels(ROWS, (stratum,), future=True).rate("old").interval
        covered += interval.low <= 0.05 * 0.3 <= interval.high
    assert covered / 300 >= 0.94


def test_stratified_intervals_cover():
    rng = np.random.default_rng(2)
    sizes, chances = np.array([120, 80, 60, 40]), np.array([0.9, 0.05, 0.5, 0.2])
    people = [rng.random(size) < chance for size, chance in zip(sizes, chances, strict=True)]
    truth = sum(part.sum() for part in people) / ROWS
    covered = 0
    for _ in range(300):
        strata = []
        for number, part in enumerate(people):
            drawn = rng.permutation(part)[:15]
            strata.append(StratumLabels(str(number), len(part), int(drawn.sum()), int((~drawn).sum())))
        interval = TrafficLabels(ROWS, tuple(strata)).rate("old").interval
        covered += interval.low <= truth <= interval.high
    assert covered / 300 >= 0.92


@pytest.mark.parametrize("old_right", [10, 120])
def test_a_sequence_covers_at_every_stopping_time(old_right):
    """Somebody looks after every label and stops where it hurts most: 95 times of 100 all intervals are right."""
    rng, differ = np.random.default_rng(3), 300
    people = np.arange(differ) < old_right
    always = future = fixed = 0
    for _ in range(200):
        counts = np.cumsum(rng.permutation(people))
        steps = [*range(1, 30), *range(30, differ, 7)]
        bounds = [sequence_bounds(int(counts[n - 1]), n, differ, 0.05) for n in steps]
        always += all(low <= old_right <= high for low, high in bounds)
        drawn = np.cumsum(rng.random(differ) < old_right / differ)
        rates = [mixture_bounds(int(drawn[n - 1]), n, 0.05) for n in steps]
        future += all(low <= old_right / differ <= high for low, high in rates)
        once = [total_bounds(int(counts[n - 1]), n, differ, 0.025) for n in steps]
        fixed += all(low <= old_right <= high for low, high in once)
    assert always / 200 >= 0.92
    assert future / 200 >= 0.92
    assert fixed < always, "an interval for one look does not stand many looks"


@pytest.mark.parametrize(("limit", "wrong"), [(0.0149, "ship"), (0.0151, "hold back")])
def test_a_verdict_after_every_label_is_rarely_wrong(limit, wrong):
    """30 of 2,000 rows break: 1.5 %. The limit is as near as it can be on either side."""
    rng, people = np.random.default_rng(4), population((0.3, 0.5, 0.2), 100)
    verdicts = [decide(rng.permutation(people), 100, ROWS, limit).verdict for _ in range(300)]
    assert verdicts.count(wrong) / 300 <= 0.05 + 0.02
    assert "label on" not in verdicts, "with every differing row labelled, the verdict is certain"


def test_a_clear_case_is_decided_early_and_churn_alone_may_decide():
    people = population((0.3, 0.5, 0.2), 400)
    rng = np.random.default_rng(5)
    used = [decide(rng.permutation(people), 400, 8000, 0.03).labels_used for _ in range(50)]
    assert np.median(used) < 60
    assert decide([], 100, ROWS, 0.05).verdict == "ship"
    assert decide([], 100, ROWS, 0.04).verdict == "label on"
    assert decide(["unsure"] * 100, 100, ROWS, 0.04).verdict == "label on"


def test_ten_times_fewer_labels_than_labelling_random_rows():
    """At 5 % churn: labels of differing rows against labels of random rows, for an interval of the same width."""
    rng, rows, people = np.random.default_rng(6), 100_000, population((0.3, 0.5, 0.2), 5000)
    kinds = {name: int((rng.permutation(people)[:300] == name).sum()) for name in ("old", "new")}
    labels = TrafficLabels(rows, (StratumLabels("(all)", 5000, **kinds, neither=300 - sum(kinds.values())),))
    interval = labels.rate("old").interval
    needed = labels.random_labels()
    assert needed >= 10 * 300
    random = clopper_pearson(round(0.015 * needed), needed)
    assert random.high - random.low == pytest.approx(interval.high - interval.low, rel=0.15)
    early = clopper_pearson(round(0.015 * 3000), 3000)
    assert early.high - early.low > interval.high - interval.low
