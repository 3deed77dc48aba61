"""Gated fusion: its ends are the two models, thresholds by hand, certificates that hold, and what is refused."""

import numpy as np
import pytest

from hf_pct import NotComparableError, Predictions, compare
from hf_pct.cli import main
from hf_pct.flips.choice.contract import Contract
from hf_pct.policies.fusion import Fusion, fuse

NAMES = ["a", "b", "c", "d"]


def drawn(seed, rows=3000, start=0, names=(NAMES, NAMES)):
    """An old and a better new model whose confidences mean something."""
    rng = np.random.default_rng(seed)
    truth = rng.integers(0, len(names[0]), rows)
    tables = []
    for model, signal in enumerate((2.2, 2.6)):
        logits = rng.normal(size=(rows, len(names[model])))
        logits[np.arange(rows), truth] += signal * rng.uniform(0.2, 1.4, rows)
        ids = np.arange(start, start + rows)
        labels = np.array(names[0])[truth]
        tables.append(Predictions(ids, labels, logits=2.0 * logits, label_names=names[model]))
    return tables


def nfr(old, table):
    return compare(old, table).counts.nfr


@pytest.mark.parametrize("kind", ["surer", "gate"])
def test_the_ends_are_the_two_models(kind):
    old, new = np.random.default_rng(0).normal(size=(2, 50, 4))
    answers = [Fusion(kind, end).log_probabilities(old, new).argmax(-1) for end in (0.0, 1.0)]
    assert (answers[0] == new.argmax(-1)).all()
    assert (answers[1] == old.argmax(-1)).all()


def test_the_simplest_policy_by_hand():
    old, new = np.log([[0.6, 0.4], [0.6, 0.4]]), np.log([[0.25, 0.75], [0.35, 0.65]])
    fusion = Fusion("surer", 0.55)
    assert fusion.threshold == pytest.approx(0.1)
    assert fusion.log_probabilities(old, new).argmax(-1).tolist() == [1, 0], "surer by 0.15, and by 0.05"


def test_a_mixture_is_a_distribution():
    old, new = np.random.default_rng(1).normal(size=(2, 30, 5))
    logs = Fusion("gate", 0.3, (1.5, 0.7), (0.5, -0.4, 0.2, 0.1)).log_probabilities(old, new)
    assert np.exp(logs).sum(-1) == pytest.approx(np.ones(30))


def test_flips_fall_and_the_certificate_holds_on_other_rows():
    old, new = drawn(0)
    decision = fuse(old, new, tuple(drawn(1, start=10_000)), contract=Contract(margin=0.01))
    assert decision.kept
    hotter = [Predictions(t.ids, t.labels, logits=3 * t.logits, label_names=NAMES) for t in drawn(1, start=10_000)]
    again = fuse(*drawn(0), tuple(hotter), contract=Contract(margin=0.01))
    assert again.fusion.temperatures == pytest.approx([3 * value for value in decision.fusion.temperatures], rel=1e-3)
    assert nfr(old, decision.table) < 0.8 * nfr(old, new)
    assert nfr(old, decision.table) <= decision.certificate.nfr_bound + 0.01
    assert decision.table.accuracy > new.accuracy - 0.02
    assert "two forwards per row" in decision.to_text()


def test_a_promise_that_cannot_be_kept_leaves_the_new_model():
    old, new = drawn(3, rows=400)
    decision = fuse(old, new, tuple(drawn(4, 400, 10_000)), contract=Contract(max_nfr=0.0001, margin=0.0))
    assert not decision.kept
    assert (decision.table.predictions == new.predictions).all()
    assert "not certified" in decision.to_text()


def test_added_classes_can_be_answered():
    wide = [*NAMES, "added"]
    old, new = drawn(5, names=(NAMES, wide))
    decision = fuse(old, new, tuple(drawn(6, start=10_000, names=(NAMES, wide))), contract=Contract(margin=0.01))
    assert set(decision.table.label_names) == set(wide)


def test_what_cannot_be_fused_is_refused():
    old, new = drawn(0, rows=100)
    with pytest.raises(NotComparableError, match="never judged on the rows that it learnt from"):
        fuse(old, new, (old, new))
    other = drawn(1, 100, start=500)
    plain = Predictions(old.ids, old.labels, old.predictions)
    with pytest.raises(ValueError, match="the old table: no logits"):
        fuse(plain, new, tuple(other))
    with pytest.raises(NotComparableError):
        fuse(old, drawn(1, 100, start=50)[1], tuple(other))
    with pytest.raises(ValueError, match="kinds="):
        fuse(old, new, tuple(other), kinds=["neural"])
    with pytest.raises(ValueError, match=r"(?s)kind='x'.*strength=2.*temperatures=.*gate="):
        Fusion("x", 2, (0.0, 1.0), (np.nan, 0, 0, 0))


def test_the_command_writes_a_table_that_compare_takes(tmp_path, capsys):
    for name, table in zip(("v1", "v2"), drawn(0), strict=True):
        table.save(tmp_path / f"{name}.parquet")
    (tmp_path / "rows.csv").write_text("id\n" + "\n".join(map(str, range(2000))))
    files = [str(tmp_path / "v1.parquet"), str(tmp_path / "v2.parquet")]
    output = tmp_path / "decided.parquet"
    options = ["--calibration", str(tmp_path / "rows.csv"), "--output", str(output), "--margin", "0.02"]
    assert main(["policy", "fuse", *files, *options]) == 0
    assert "with probability 0.95" in capsys.readouterr().out
    assert len(Predictions.load(output)) == 1000
    assert main(["compare", files[0], str(output), "--allow_partial"]) == 0
    three = [*files, files[1]]
    assert main(["policy", "fuse", *three, *options, "--overwrite"]) == 2
