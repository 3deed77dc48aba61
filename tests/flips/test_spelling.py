"""Answers that are no labels are not comparable, and the message says what mends it."""

import json

import pytest
from flip_tables import side

from hf_pct import NotComparableError, Predictions, Scores, compare
from hf_pct.cli import main

LABELS = ["card_arrival", "lost_card", "café"] * 40


def rows(answers, **options):
    return Predictions(list(range(len(LABELS))), LABELS, answers, **options)


@pytest.mark.parametrize(
    ("change", "spelling", "cause"),
    [
        (lambda name: name + " ", "'card_arrival '", "by a space"),
        (str.upper, "'CARD_ARRIVAL'", "in case"),
        (str.title, "'Card_Arrival'", "in case"),
        (lambda name: name.replace("é", "e\u0301"), "'café'", "in Unicode form"),
        (lambda name: name.replace("_", "_\u200b"), "\\u200b", "by a space|look alike"),
        (lambda name: f" {name.upper()}", "' CARD_ARRIVAL'", "by a space and in case"),
        (lambda name: name.replace("_", "-"), "'card-arrival'", "between words"),
        (lambda name: name.replace("_", " "), "'card arrival'", "by a space and in what stands between words"),
    ],
)
@pytest.mark.parametrize("broken_side", ["old", "new"])
def test_another_spelling_is_not_comparable(change, spelling, cause, broken_side):
    good, bad = rows(LABELS), rows([change(name) for name in LABELS])
    pair = (bad, good) if broken_side == "old" else (good, bad)
    with pytest.raises(NotComparableError, match=rf"answers of the {broken_side} predictions.*({cause})") as raised:
        compare(*pair)
    assert spelling in str(raised.value)
    assert "--ignore_spelling" in str(raised.value)
    assert compare(*pair, ignore_spelling=True).counts.both_right == len(LABELS)


def test_one_frequent_answer_in_another_spelling():
    answers = [name.replace("lost_card", "Lost_card") for name in LABELS]
    with pytest.raises(NotComparableError, match=r"40 of 120 answers.*'Lost_card' and the label 'lost_card'"):
        compare(rows(answers), rows(LABELS))


@pytest.mark.parametrize("broken_side", ["old", "new"])
def test_indices_beside_names(broken_side):
    names = ["card_arrival", "lost_card", "café"]
    indices = [str(names.index(name)) for name in LABELS]
    good, bad = rows(LABELS), rows(indices)
    pair = (bad, good) if broken_side == "old" else (good, bad)
    with pytest.raises(NotComparableError, match=rf"look like class indices.*--{broken_side}_label_names"):
        compare(*pair)


@pytest.mark.parametrize("index", ["{}", "{}.0", "LABEL_{}"])
@pytest.mark.parametrize("part", [1, 2, 40])
def test_indices_on_some_rows_beside_names_on_others(index, part):
    names = ["card_arrival", "lost_card", "café"]
    answers = [index.format(names.index(name)) if at % part == 0 else name for at, name in enumerate(LABELS)]
    with pytest.raises(NotComparableError, match=rf"{120 // part} of 120 answers.*look like class indices"):
        compare(rows(answers), rows(LABELS))
    if part == 1:  # the option that the message names mends it
        assert compare(rows(answers, label_names=names), rows(LABELS)).counts.both_right == len(LABELS)


def test_one_class_under_another_name():
    answers = ["рrobably_lost" if name == "lost_card" else name for name in LABELS]
    with pytest.raises(NotComparableError, match=r"on 40 rows.*never 'lost_card' itself.*--old_label_names"):
        compare(rows(answers), rows(LABELS))
    known = rows(answers, label_names=["card_arrival", "lost_card", "café", "рrobably_lost"])
    assert compare(known, rows(LABELS)).counts.positive_flips == 40
    some = ["other" if at % 9 == 0 else name for at, name in enumerate(LABELS)]  # a class that no row has
    assert compare(rows(some), rows(LABELS)).counts.positive_flips == 14


def test_numbers_as_free_answers_are_answers():
    labels = [f"city {number}" for number in range(100)]
    answers = ["1912" if number % 10 == 0 else name for number, name in enumerate(labels)]
    old, new = (Predictions(list(range(100)), labels, side) for side in (labels, answers))
    assert compare(old, new).counts.negative_flips == 10


def test_a_misspelt_second_run_is_no_noise_floor():
    good, bad = rows(LABELS), rows([name.upper() for name in LABELS])
    with pytest.raises(NotComparableError, match="answers of the old_rerun predictions"):
        compare(good, good, old_rerun=bad)
    assert compare(good, good, old_rerun=bad, ignore_spelling=True).noise_floor.nfr == 0


@pytest.mark.parametrize("broken_side", ["old", "new"])
def test_misspelt_answers_beside_scores(broken_side):
    scores = Scores(list(range(len(LABELS))), {"score": [1.0] * len(LABELS)})
    bad = rows([name + " " for name in LABELS])
    pair = (bad, scores) if broken_side == "old" else (scores, bad)
    with pytest.raises(NotComparableError, match=f"answers of the {broken_side} predictions.*by a space"):
        compare(*pair)


def test_names_of_other_classes():
    with pytest.raises(NotComparableError, match="None of the answers of the new predictions are labels"):
        compare(rows(LABELS), rows(["cat"] * len(LABELS)))


def test_two_models_with_one_class_in_two_spellings():
    one = rows(LABELS, label_names=["card_arrival", "lost_card", "café"])
    two = rows(LABELS, label_names=["card_arrival", "lost_card", "café", "Refund"])
    three = rows(LABELS, label_names=["card_arrival", "lost_card", "café", "refund "])
    assert compare(one, two).counts.both_right == len(LABELS)
    with pytest.raises(NotComparableError, match=r"'Refund' and 'refund ', for example"):
        compare(two, three)
    assert compare(two, three, ignore_spelling=True).labels.added == ()


def test_a_model_that_has_both_spellings_means_two_classes():
    labels = ["us"] * 10
    one = side(["US"] * 2 + ["us"] * 8, labels, names=["us", "US"])
    assert compare(one, one).counts.both_right == 8
    never = side(["US"] * 10, labels, names=["us", "US"])
    with pytest.raises(NotComparableError, match="'US' and the label 'us'"):
        compare(never, one)
    both = Predictions([1, 2], ["us", "US"], ["us", "US"])
    assert compare(both, both).counts.both_right == 2
    with pytest.raises(NotComparableError, match="two classes of the data and would become one"):
        compare(both, both, ignore_spelling=True)


def test_a_model_that_is_always_wrong_is_comparable_when_its_classes_are_known():
    labels = ["no"] * 10
    assert compare(side(labels, labels), side(["yes"] * 10, labels)).counts.negative_flips == 10


def test_by_the_command(tmp_path, capsys):
    for name, end in (("old", " "), ("new", "")):
        lines = [f"{number},{label},{label}{end}" for number, label in enumerate(LABELS)]
        (tmp_path / f"{name}.csv").write_text("\n".join(["id,label,prediction", *lines]) + "\n", encoding="utf-8")
    files = ["compare", str(tmp_path / "old.csv"), str(tmp_path / "new.csv")]
    assert main(files) == 3
    assert "'card_arrival ' and the label 'card_arrival'" in capsys.readouterr().err
    assert main([*files, "--ignore_spelling"]) == 0
    assert "breaks 0 and fixes 0 of 120 rows" in capsys.readouterr().out


@pytest.mark.parametrize("column", ["label", "prediction"])
@pytest.mark.parametrize("suffix", ["csv", "jsonl", "parquet"])
@pytest.mark.parametrize("empty", ["", "  ", "\u200b\ufeff"])
def test_empty_cells_are_refused_in_every_format(tmp_path, column, suffix, empty):
    import pyarrow as pa
    import pyarrow.parquet as pq

    table = {"id": ["1", "2"], "label": ["a", "b"], "prediction": ["a", "b"]}
    table[column] = ["a", empty]
    path = tmp_path / f"p.{suffix}"
    if suffix == "parquet":
        pq.write_table(pa.table(table), path)
    elif suffix == "csv":
        lines = [",".join(table), *(",".join(row) for row in zip(*table.values(), strict=True))]
        path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    else:
        path.write_text("".join(json.dumps(dict(zip(table, row, strict=True))) + "\n"
                                for row in zip(*table.values(), strict=True)))  # fmt: skip
    with pytest.raises(ValueError, match=f"1 of 2 rows have an empty {column}"):
        Predictions.load(path)
