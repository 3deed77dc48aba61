import json

import numpy as np
import pytest
from flip_tables import NAMES, side

from hf_pct import NotComparableError, compare, compare_chain
from hf_pct.viz.extras import read_chain

LABELS = ["no"] * 6


def versions():
    """Six rows through three versions: kept, broken, fixed, broken and fixed, fixed and broken, never right."""
    right = np.array([[bit == "1" for bit in bits] for bits in ("110110", "101010", "101100")])
    return [side(np.where(row, "no", "yes").tolist(), LABELS) for row in right], right


def test_the_matrix_is_that_of_every_two_versions():
    tables, right = versions()
    chain = compare_chain(tables, ["v1", "v2", "v3"])
    for i in range(3):
        for j in range(3):
            by_hand = 0.0 if i == j else np.mean(right[i] & ~right[j])
            assert chain.nfr[i][j] == pytest.approx(by_hand)
            assert i == j or chain.nfr[i][j] == pytest.approx(compare(tables[i], tables[j]).nfr)
    assert chain.accuracy == pytest.approx(right.mean(1))


def test_rows_that_go_back_and_forth_and_what_once_worked():
    tables, right = versions()
    chain = compare_chain(tables, ["v1", "v2", "v3"])
    restless = [row for row in range(6) if (right[1:, row] != right[:-1, row]).sum() >= 2]
    assert chain.back_and_forth == len(restless) > 0
    assert [row.id for row in chain.examples] == [f"r{row}" for row in restless]
    assert [row.right for row in chain.examples] == [tuple(right[:, row]) for row in restless]
    ever = np.logical_or.accumulate(right, axis=0)
    assert chain.cumulative_nfr == pytest.approx((ever & ~right).mean(1))
    assert chain.cumulative_nfr[0] == 0


def test_the_order_of_rows_and_classes_does_not_matter():
    rng = np.random.default_rng(0)
    labels = rng.choice(NAMES, 80).tolist()
    answers = [rng.choice(NAMES, 80) for _ in range(3)]
    straight = [side(version.tolist(), labels) for version in answers]
    order = rng.permutation(80)
    ids = [f"r{row}" for row in order]
    shuffled = side(answers[1][order].tolist(), np.array(labels)[order].tolist(), ids=ids, names=NAMES[::-1])
    assert compare_chain([straight[0], shuffled, straight[2]]) == compare_chain(straight)


def test_added_classes_are_no_flips_of_versions_that_lacked_them():
    labels = ["no", "sell"]
    old = side(["no", "no"], labels)
    new = side(["no", "sell"], labels, names=[*NAMES, "sell"])
    newest = side(["no", "no"], labels, names=[*NAMES, "sell"])
    chain = compare_chain([old, new, newest])
    assert chain.nfr[0] == (0.0, 0.0, 0.0)
    assert chain.nfr[1][2] == 0.5


def test_it_is_saved_as_the_page_reads_it(tmp_path):
    tables, _ = versions()
    chain = compare_chain(tables)
    assert chain.versions == ("v1 m", "v2 m", "v3 m")  # one name for all: told apart by their number
    read = read_chain(chain.save(tmp_path / "chain.json"))
    assert read.nfr == chain.nfr
    assert json.loads((tmp_path / "chain.json").read_text())["format"] == "hf_pct.chain"
    text = chain.to_markdown()
    assert "| **v1 m** |  | 33.33 % | 33.33 % |" in text
    assert "changed at least twice" in text


def test_bad_chains():
    tables, _ = versions()
    with pytest.raises(ValueError, match="Got 1 versions, expected at least two"):
        compare_chain(tables[:1])
    with pytest.raises(ValueError, match="Got 2 names for 3 versions"):
        compare_chain(tables, ["a", "b"])
    part = side(["no"] * 3, LABELS[:3])
    with pytest.raises(NotComparableError, match="do not have the same rows"):
        compare_chain([tables[0], tables[1], part])
    assert compare_chain([tables[0], tables[1], part], allow_partial=True).rows == 3
