"""How much so many rows can show: against simulation, and against what the bounds themselves say."""

import numpy as np
import pytest
from flip_tables import side
from score_tables import scored

from hf_pct import compare
from hf_pct.cli import main
from hf_pct.flips import power, stats


@pytest.mark.parametrize(("rows", "nfr", "drop"), [(300, 0.02, 0.03), (500, 0.0, 0.015), (1000, 0.1, 0.05)])
def test_power_is_what_simulated_tests_show(rows, nfr, drop):
    rng = np.random.default_rng(0)
    draws = rng.multinomial(rows, [nfr + drop, nfr, 1 - 2 * nfr - drop], size=2000)
    shown = np.mean([stats.mcnemar(int(lost), int(won), "worse").exact <= 0.05 for lost, won, _ in draws])
    assert power.power_of(rows, nfr + drop, nfr) == pytest.approx(shown, abs=0.035)


def test_many_rows_are_quick_and_continue_the_exact_numbers():
    few, many = power.power_of(19_900, 0.055, 0.045), power.power_of(20_100, 0.055, 0.045)
    assert many == pytest.approx(few, abs=0.02)
    assert 0 < power.detectable_drop(10**8, 0.03) < 1e-4


def test_the_detectable_drop_is_shown_and_a_smaller_one_is_not():
    drop = power.detectable_drop(500, 0.02)
    assert power.power_of(500, 0.02 + drop, 0.02) >= 0.8
    assert power.power_of(500, 0.02 + 0.9 * drop, 0.02) < 0.8
    assert power.detectable_drop(2000, 0.02) < drop < power.detectable_drop(500, 0.1)
    assert power.detectable_drop(3, 0.0) is None


def test_rows_for_a_drop_and_for_a_promise():
    rows = power.rows_to_show(0.01, 0.02)
    assert power.power_of(rows, 0.03, 0.02) >= 0.8
    assert power.detectable_drop(rows, 0.02) == pytest.approx(0.01, rel=0.05)
    assert power.rows_to_promise(0.01) == 299
    assert stats.upper_bound(0, 299) <= 0.01 < stats.upper_bound(0, 298)
    assert power.rows_to_promise(0.01, 0.02) is None


def test_it_is_printed_with_every_comparison():
    labels = ["no"] * 400
    report = compare(side(labels, labels), side(["yes"] * 4 + ["no"] * 396, labels))
    sentence = "the smallest loss of accuracy shown in 80% of cases is"
    assert sentence in report.to_text()
    assert sentence in report.to_markdown()
    clustered = compare(
        side(labels, labels, columns={"user": [index // 20 for index in range(400)]}),
        side(["yes"] * 20 + ["no"] * 380, labels),
        cluster="user",
    )
    plain = compare(side(labels, labels), side(["yes"] * 20 + ["no"] * 380, labels))
    points = [float(text.to_text().split(sentence)[1].split("points")[0]) for text in (clustered, plain)]
    assert points[0] > points[1], "fewer effective rows show less"


def test_it_is_printed_with_every_comparison_of_scores():
    report = compare(scored([1.0] * 40), scored([0.0] * 4 + [1.0] * 36))
    sentence = "the smallest drop of the mean shown in 80% of cases is 0."
    assert sentence in report.to_text()
    assert sentence in report.to_markdown()


def test_a_mean_score_that_drops_by_so_much_is_shown():
    rng = np.random.default_rng(0)
    shown, drop = 0, None
    for _ in range(400):
        differences = rng.normal(-0.05 if drop is None else -drop, 0.3, 200)
        reach = 1.96 * differences.std(ddof=1) / np.sqrt(200)
        found = power.detectable_mean_drop(stats.Interval(-reach, reach, 0.95))
        drop = found if drop is None else drop
        shown += stats.sign_flip(-differences, "worse", resamples=500).exact < 0.05
    assert shown / 400 == pytest.approx(0.8, abs=0.09)


def test_the_command(capsys):
    assert main(["power", "--rows", "500", "--nfr", "0.02"]) == 0
    printed = capsys.readouterr().out
    assert "500 rows" in printed
    assert "3.06 points" in printed
    assert "NFR < 0.60 %" in printed
    assert main(["power", "--drop", "0.01", "--nfr", "0.02", "--max_nfr", "0.03"]) == 0
    assert "rows" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "expected --rows, --drop or --max_nfr"),
        (["--rows", "0"], "rows is 0, expected at least 1"),
        (["--rows", "10", "--nfr", "2"], "nfr is 2.0, expected a fraction"),
        (["--rows", "10", "--power", "80"], "power is 80.0"),
        (["--drop", "1.5"], "drop is 1.5"),
        (["--max_nfr", "5"], "max_nfr is 5.0"),
        (["--max_nfr", "0.01", "--nfr", "nan"], "nfr is nan, expected a fraction"),
        (["--max_nfr", "0.01", "--confidence", "95"], "confidence is 95.0"),
        (["--drop", "0.01", "--confidence", "95"], "confidence is 95.0"),
    ],
)
def test_bad_input(arguments, message, capsys):
    assert main(["power", *arguments]) == 2
    assert message in capsys.readouterr().err
