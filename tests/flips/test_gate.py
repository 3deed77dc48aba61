import xml.etree.ElementTree as ElementTree

import pytest
from flip_tables import side

from hf_pct import GateConfig, NotComparableError, check_gate, compare
from hf_pct.flips.render.gate import gate_junit, gate_markdown, gate_text

LABELS = ["no"] * 100 + ["yes"] * 100


@pytest.fixture(scope="module")
def report():
    """200 rows, 4 broken (all of class yes, all on the phone), 2 fixed."""
    old = ["no"] * 98 + ["yes"] * 2 + ["yes"] * 100
    new = ["no"] * 100 + ["no"] * 4 + ["yes"] * 96
    columns = {"channel": ["app"] * 100 + ["phone"] * 100, "traffic": [1.0] * 200}
    rerun = side(old, LABELS)
    return compare(side(old, LABELS, columns=columns), side(new, LABELS), old_rerun=rerun, weight="traffic")


def verdict(report, **rules):
    return check_gate(report, GateConfig(**rules))


@pytest.mark.parametrize(
    ("rule", "passes", "fails", "found"),
    [
        ("max_nfr", 0.02, 0.0199, 0.02),
        ("max_nfr_upper", 0.05, 0.04, None),
        ("max_class_nfr", 0.04, 0.03, 0.04),
        ("max_slice_nfr", 0.04, 0.03, 0.04),
        ("max_relative_nfr", 1.02, 1.0, None),
        ("max_excess_nfr", 0.02, 0.01, 0.02),
        ("max_weighted_nfr", 0.0201, 0.0199, 0.02),
        ("min_accuracy_gain", -0.01, 0.0, -0.01),
        ("max_accuracy_loss", 0.05, 0.01, None),
        ("min_rows", 200, 201, 200),
    ],
)
def test_each_rule_passes_and_fails_at_its_limit(report, rule, passes, fails, found):
    good, bad = verdict(report, **{rule: passes}), verdict(report, **{rule: fails})
    assert (good.passed, good.exit_code) == (True, 0)
    assert (bad.passed, bad.exit_code) == (False, 1)
    if found is not None:
        assert good.results[0].value == pytest.approx(found)
    assert bad.results[0].margin < 0 <= good.results[0].margin


def test_one_failed_rule_is_enough_and_the_others_are_still_shown(report):
    result = verdict(report, max_nfr=0.5, max_class_nfr=0.01, min_accuracy_gain=-1)
    assert [rule.passed for rule in result.results] == [True, False, True]
    assert not result.passed
    text = gate_text(result, report)
    assert "FAIL  max_class_nfr" in text
    assert "4.00 %, at most 1.00 % allowed: 3.00 points outside  (yes: 4 of 100 rows)" in text
    assert "REGRESSED: max_class_nfr" in text
    assert text.count("\n") < 24  # one screen


def test_small_classes_can_be_left_unjudged(report):
    assert not verdict(report, max_class_nfr=0.01, min_group_rows=100).passed
    with pytest.raises(
        NotComparableError, match=r"no class has 101 rows \(the largest has 100\), so it judges nothing"
    ):
        verdict(report, max_class_nfr=0.01, min_group_rows=101)


def test_markdown_and_junit(report):
    result = verdict(report, max_nfr=0.01, min_rows=10)
    assert "❌ | `max_nfr` | 2.00 % | 1.00 %" in gate_markdown(result, report)
    tree = ElementTree.fromstring(gate_junit(result, report))
    suite = tree.find("testsuite")
    assert (suite.get("tests"), suite.get("failures")) == ("2", "1")
    assert suite.find("testcase[@name='max_nfr']/failure").get("message").startswith("2.00 %, at most 1.00 % allowed")
    assert suite.find("testcase[@name='min_rows']/failure") is None


def test_names_cannot_break_the_xml():
    bad = 'a<b>&"\x07'
    labels = [bad] * 5
    report = compare(side(labels, labels, names=[bad, "no"]), side(["no"] * 5, labels, names=[bad, "no"]))
    junit = gate_junit(verdict(report, max_class_nfr=0.1), report)
    assert "a<b>&" in ElementTree.fromstring(junit).find(".//failure").text


def test_a_gate_without_rules_is_refused(report):
    with pytest.raises(ValueError, match="no rule, so it would pass anything"):
        check_gate(report, GateConfig())


def test_a_partial_report_is_not_comparable():
    old, new = side(["no", "no"], ["no", "no"]), side(["no"], ["no"])
    report = compare(old, new, allow_partial=True)
    with pytest.raises(NotComparableError, match="compares only 1 rows and leaves out 1"):
        verdict(report, max_nfr=0.5)
    assert verdict(report, max_nfr=0.5, allow_partial=True).passed


@pytest.mark.parametrize(
    ("rule", "message"),
    [("max_slice_nfr", "no slices"), ("max_excess_nfr", "no noise floor"), ("max_weighted_nfr", "no weight")],
)
def test_rules_that_the_report_cannot_answer(rule, message):
    plain = compare(side(LABELS, LABELS), side(LABELS, LABELS))
    with pytest.raises(NotComparableError, match=message):
        verdict(plain, **{rule: 0.1})


def test_rules_from_yaml(tmp_path):
    path = tmp_path / "gate.yaml"
    path.write_text("max_nfr: 0.01\nmin_accuracy_gain: 0\nallow_partial: true\n")
    assert GateConfig.from_yaml(path) == GateConfig(max_nfr=0.01, min_accuracy_gain=0, allow_partial=True)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("max_nrf: 0.01\n", r"'max_nrf' \(did you mean max_nfr\?\)"),
        ("- 1\n", "holds list, expected lines such as"),
        ("max_nfr: [\n", "is not YAML"),
        ("max_nfr: lots\n", "max_nfr is 'lots', expected a number"),
        (
            "max_nfr: 1.5\nmin_accuracy_gain: 5\n",
            r"max_nfr is 1\.5, expected a fraction.*(\n).*min_accuracy_gain is 5",
        ),
        ("min_rows: 0\n", "min_rows is 0, expected at least 1"),
        ("min_group_rows: 0\n", "min_group_rows is 0"),
        ("max_relative_nfr: -1\n", "max_relative_nfr is -1"),
    ],
)
def test_bad_rules(tmp_path, content, message):
    path = tmp_path / "gate.yaml"
    path.write_text(content)
    with pytest.raises(ValueError, match=message):
        GateConfig.from_yaml(path)


def test_a_missing_rule_file(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"gate\.yaml does not exist, expected a YAML file"):
        GateConfig.from_yaml(tmp_path / "gate.yaml")
