"""Retrieval: ranks against brute force, what the criterion says, permutations, and what is refused."""

import json

import numpy as np
import pyarrow as pa
import pytest

from hf_pct import NotComparableError, Predictions, compare_retrieval
from hf_pct.cli import main
from hf_pct.flips.retrieval.embeddings import Embeddings
from hf_pct.flips.retrieval.search import first_hits


def embedded(labels, vectors, start=0, name="rows"):
    ids = np.arange(start, start + len(labels))
    return Embeddings.from_arrays(ids, labels, vectors, name)


def blobs(rng, labels, width, noise):
    """Vectors near the centre of their class; centres are the same for every call."""
    centres = np.random.default_rng(7).normal(size=(5, width))
    return centres[labels] + noise * rng.normal(size=(len(labels), width))


@pytest.fixture
def four():
    """A noisy old model, and a new one that is compatible with it and better."""
    rng = np.random.default_rng(0)
    of_gallery, of_queries = rng.integers(0, 5, 200), rng.integers(0, 5, 300)
    return (
        embedded(of_gallery, blobs(rng, of_gallery, 8, 1.5), 1000),
        embedded(of_queries, blobs(rng, of_queries, 8, 1.5)),
        embedded(of_queries, blobs(rng, of_queries, 8, 0.5)),
        embedded(of_gallery, blobs(rng, of_gallery, 8, 0.5), 1000),
    )


@pytest.mark.parametrize("distance", ["cosine", "euclidean"])
def test_recall_is_what_a_sorted_list_says(four, distance):
    gallery, queries = four[0], four[1]
    ranks = first_hits(queries, gallery, distance)
    for row in range(0, 300, 17):
        query = queries.vectors[row]
        if distance == "cosine":
            near = gallery.vectors @ query / np.linalg.norm(gallery.vectors, axis=1)
        else:
            near = -np.linalg.norm(gallery.vectors - query, axis=1)
        same = gallery.labels[np.argsort(-near)] == queries.labels[row]
        assert ranks[row] == same.argmax()


def test_a_learnt_map_takes_new_queries_to_the_old_gallery(four, tmp_path):
    """New features in a basis of their own find nothing; through the map that undoes it they find what they did."""
    from safetensors.numpy import save_file

    gallery, queries, asked, _backfilled = four
    turn = np.random.default_rng(1).normal(size=(12, 8)).astype(np.float32)  # from 8 features to 12
    turned = embedded(asked.labels.astype(int), asked.vectors @ turn.T)
    back = np.linalg.pinv(turn)
    (tmp_path / "v2").mkdir()
    save_file(
        {"old.weight": np.ascontiguousarray(back, dtype=np.float32)}, tmp_path / "v2" / "feature_map.safetensors"
    )
    plain = compare_retrieval(gallery, queries, asked)
    for feature_map in (back, tmp_path / "v2", tmp_path / "v2" / "feature_map.safetensors"):
        report = compare_retrieval(gallery, queries, turned, feature_map=feature_map)
        assert report.recall["new-old"] == plain.recall["new-old"]
        assert report.to_dict()["mapped"] is True
        assert "by a learnt map, 12 to 8 features" in report.to_text()
    assert compare_retrieval(gallery, queries, turned).recall["new-old"][1] < plain.recall["new-old"][1]


def test_a_map_that_does_not_fit_is_refused(four, tmp_path):
    from safetensors.numpy import save_file

    gallery, queries, asked, _backfilled = four
    with pytest.raises(NotComparableError, match=r"shape \(3, 8\), expected \(8, 8\)"):
        compare_retrieval(gallery, queries, asked, feature_map=np.zeros((3, 8)))
    with pytest.raises(ValueError, match="is no map of features"):
        compare_retrieval(gallery, queries, asked, feature_map=tmp_path)
    save_file({"other.weight": np.eye(8, dtype=np.float32)}, tmp_path / "feature_map.safetensors")
    with pytest.raises(ValueError, match=r"other\.weight, expected a matrix old\.weight"):
        compare_retrieval(gallery, queries, asked, feature_map=tmp_path)


def test_a_compatible_update_holds_the_criterion(four):
    report = compare_retrieval(*four, ks=(1, 3))
    assert report.recall["new-old"][1] > report.recall["old-old"][1]
    assert report.recall["new-new"][1] >= report.recall["new-old"][1]
    assert report.criterion
    assert report.shown
    flips = report.flips["new-old"]
    gain = report.recall["new-old"][1] - report.recall["old-old"][1]
    assert flips.counts.accuracy_gain == pytest.approx(gain)
    assert flips.nfr_interval.low <= flips.counts.nfr <= flips.nfr_interval.high
    assert all(row[1] <= row[3] for row in report.recall.values())
    assert "update criterion, new-old above old-old: holds" in report.to_text()


def test_a_turned_space_is_not_compatible_though_it_is_as_good(four):
    turn = np.linalg.qr(np.random.default_rng(3).normal(size=(8, 8)))[0]
    gallery, queries, better, new_gallery = four
    turned = Embeddings(better.ids, better.labels, better.vectors @ turn)
    moved = Embeddings(new_gallery.ids, new_gallery.labels, (new_gallery.vectors @ turn).astype(np.float32))
    report = compare_retrieval(gallery, queries, turned, moved)
    assert report.recall["new-new"][1] > 0.9
    assert report.recall["new-old"][1] < 0.6
    assert not report.criterion
    assert "does not hold" in report.to_text()


def test_the_order_of_rows_changes_nothing(four):
    rng = np.random.default_rng(1)
    mixed = []
    for rows in four:
        order = rng.permutation(len(rows))
        mixed.append(Embeddings(rows.ids[order], rows.labels[order], rows.vectors[order]))
    assert compare_retrieval(*mixed).to_dict() == compare_retrieval(*four).to_dict()


def test_ties_count_against_the_query():
    rows = embedded(["a", "b", "a", "b"], np.ones((4, 3)))
    report = compare_retrieval(rows, rows, rows, ks=(1, 2, 3))
    assert report.recall["old-old"] == {1: 0.0, 2: 0.0, 3: 1.0}, "two rows of the other class are as near"
    assert not report.criterion, "the same is not better"


def test_a_query_is_never_its_own_hit():
    vectors = np.array([[1.0, 0.0], [0.9, 0.1], [0.0, 1.0]])
    rows = embedded(["a", "b", "a"], vectors)
    report = compare_retrieval(rows, rows, rows)
    assert (report.queries, report.unanswerable) == (2, 1), "b has no other row of its class"
    assert report.recall["old-old"][1] == 0.0
    assert "left out: 1 queries" in report.to_text()


def test_other_widths_are_cut_or_padded(four):
    gallery, queries, better, _ = four
    wider = Embeddings(better.ids, better.labels, np.hstack([better.vectors, np.ones((300, 3), np.float32)]))
    report = compare_retrieval(gallery, queries, wider)
    assert report.recall["new-old"] == compare_retrieval(gallery, queries, better).recall["new-old"]
    assert "cut or padded from 11 to the old gallery's 8" in report.to_text()
    narrow = Embeddings(better.ids, better.labels, better.vectors[:, :6])
    zeros = Embeddings(better.ids, better.labels, better.vectors * (np.arange(8) < 6))
    padded = compare_retrieval(gallery, queries, narrow).recall["new-old"]
    assert padded == compare_retrieval(gallery, queries, zeros).recall["new-old"]


def test_what_cannot_be_compared_is_refused(four):
    gallery, queries, better, _ = four
    with pytest.raises(NotComparableError, match="not the same rows: 2 ids"):
        compare_retrieval(gallery, queries, Embeddings(better.ids[2:], better.labels[2:], better.vectors[2:]))
    with pytest.raises(NotComparableError, match="different labels"):
        compare_retrieval(gallery, queries, Embeddings(better.ids, better.labels[::-1], better.vectors))
    with pytest.raises(NotComparableError, match="one model made both"):
        compare_retrieval(Embeddings(gallery.ids, gallery.labels, gallery.vectors[:, :5]), queries, better)
    strangers = Embeddings(queries.ids, np.full(300, "other"), queries.vectors)
    with pytest.raises(NotComparableError, match="No query has a row of its class"):
        compare_retrieval(gallery, strangers, strangers)
    with pytest.raises(ValueError, match=r"(?s)ks=\[0\].*distance='l1'.*confidence=2"):
        compare_retrieval(gallery, queries, better, ks=(0,), distance="l1", confidence=2)
    with pytest.raises(ValueError, match="hold NaN"):
        compare_retrieval(gallery, queries, Embeddings(better.ids, better.labels, better.vectors * np.nan))
    with pytest.raises(ValueError, match="occur more than once: '0'"):
        Embeddings.from_arrays([0, 0], ["a", "a"], np.eye(2), "rows")
    table = Predictions([1, 2], ["a", "b"], ["a", "b"])
    with pytest.raises(ValueError, match=r"the old gallery has no column 'features'.*features=True"):
        compare_retrieval(table, table, table)


def write(path, rows):
    flat = pa.array(rows.vectors.reshape(-1))
    columns = {"features": pa.FixedSizeListArray.from_arrays(flat, rows.vectors.shape[1])}
    Predictions([int(value) for value in rows.ids], rows.labels, rows.labels, columns=columns).save(path)


def test_the_command_reads_files(four, tmp_path, capsys):
    names = ("old_gallery", "old_queries", "new_queries", "new_gallery")
    options = []
    for name, rows in zip(names, four, strict=True):
        write(tmp_path / f"{name}.parquet", rows)
        options += [f"--{name}", str(tmp_path / f"{name}.parquet")]
    output = tmp_path / "retrieval.json"
    assert main(["retrieval", *options, "--output", str(output), "--require_criterion"]) == 0
    assert "new-old (new queries, no backfill): recall@1" in capsys.readouterr().out
    assert json.loads(output.read_text()) == compare_retrieval(*four).to_dict()
    assert main(["retrieval", *options, "--output", str(output)]) == 2, "what exists is kept"
    swapped = [*options[:2], *options[2:4], "--new_queries", options[3]]
    assert main(["retrieval", *swapped, "--require_criterion"]) == 1, "the same queries are not better"
    other = [*options[:2], *options[2:4], "--new_queries", options[1]]
    assert main(["retrieval", *other]) == 3
