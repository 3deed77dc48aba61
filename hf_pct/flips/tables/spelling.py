"""Answers that are no labels: one class under two spellings is found before anything is counted.

A file whose answers read `"card_arrival "` where the data says `"card_arrival"` would show a model that is always
wrong, and nothing that is always wrong can break. That is not an update without flips; it is not comparable.
"""

import copy
import re
import unicodedata
from collections.abc import Collection, Mapping, Sequence

import numpy as np

from ...core.errors import NotComparableError
from ...core.labels import code_table, recode
from ...core.text import quoted
from .encoding import CLASS_INDEX
from .predictions import Predictions

ALMOST_NONE = 0.01  # of a side's answers: fewer that are labels of the data are no answers to it
FREQUENT = 5  # rows: an answer that is given less often says nothing about a whole class
_DASHES = re.compile(r"[_\u2010-\u2015-]")
_BETWEEN = re.compile(r"(?<=[^\W_])[\s_\u2010-\u2015-]+(?=[^\W_])")  # inside a name: "-1" and "1" are two classes


def check_spelling(old: Predictions, new: Predictions) -> None:
    """Refuse two sides that have one class under two spellings, in their answers or among their classes."""
    check_answers(old, "old", "--old_label_names")
    check_answers(new, "new", "--new_label_names")
    if old.label_names and new.label_names:
        _check_class_names(old.label_names, new.label_names)


def check_answers(predictions: Predictions, side: str, option: str) -> None:
    """Refuse answers that are the data's labels in another spelling, by their index, or under another name.

    `side` and `option` are for the message: whose answers they are, and which option gives them label names.
    """
    rows = np.bincount(predictions.prediction_codes, minlength=len(predictions.vocabulary))
    present = np.bincount(predictions.label_codes, minlength=len(predictions.vocabulary)) > 0
    labels = [name for name, is_label in zip(predictions.vocabulary, present, strict=True) if is_label]
    answered = {name: int(count) for name, count in zip(predictions.vocabulary, rows, strict=True) if count}
    strays = {name: count for name, count in answered.items() if name not in set(labels)}
    if not strays:
        return
    by_form: dict[str, str] = {}
    for name in labels:
        by_form.setdefault(spelling_form(name), name)
    twins = {name: by_form[spelling_form(name)] for name in strays if spelling_form(name) in by_form}
    # a model that has both spellings as classes of its own, and answers with both, means two classes
    own = set(predictions.label_names or ())
    twins = {name: label for name, label in twins.items() if not (own >= {name, label} and label in answered)}
    if twins:
        raise NotComparableError(_twin_message(side, twins, strays, len(predictions)))
    if predictions.label_names is not None:
        return
    indices = _indices(strays, labels, len(predictions))
    if indices:
        raise NotComparableError(_index_message(side, option, indices, labels[0], len(predictions)))
    if 1 - sum(strays.values()) / len(predictions) < ALMOST_NONE:
        raise NotComparableError(_stray_message(side, option, strays, labels, len(predictions)))
    renamed = _renamed(predictions, rows, present)
    if renamed:
        raise NotComparableError(_renamed_message(side, option, *renamed))


def _indices(strays: Mapping[str, int], labels: Sequence[str], rows: int) -> dict[str, int]:
    """The answers that are class indices where every label is a name; numbers as free answers are something else."""
    numbers = {name: match for name in strays if (match := CLASS_INDEX.fullmatch(name))}
    every_one = sum(strays[name] for name in numbers) == rows
    if any(CLASS_INDEX.fullmatch(label) for label in labels) or (len(labels) > rows / 2 and not every_one):
        return {}
    return {name: strays[name] for name, match in numbers.items() if every_one or int(match[1]) <= len(labels)}


def _renamed(predictions: Predictions, rows: np.ndarray, present: np.ndarray) -> tuple[str, str, int] | None:
    """An answer that takes the place of a label: given on most rows of that label, which itself is never given."""
    candidates = np.flatnonzero((rows >= FREQUENT) & ~present)
    if not len(candidates):
        return None
    of_label = np.bincount(predictions.label_codes, minlength=len(predictions.vocabulary))
    here = np.isin(predictions.prediction_codes, candidates)
    answers, labels = predictions.prediction_codes[here], predictions.label_codes[here]
    for code in candidates.tolist():
        by_label = np.bincount(labels[answers == code], minlength=len(of_label))
        label = int(by_label.argmax())
        most = by_label[label] > max(of_label[label] / 2, FREQUENT - 1)
        if most and rows[label] < ALMOST_NONE * of_label[label]:
            return predictions.vocabulary[code], predictions.vocabulary[label], int(rows[code])
    return None


def _check_class_names(old_names: Sequence[str], new_names: Sequence[str]) -> None:
    """Refuse two models that have one class under two spellings: it would count as one added and one removed."""
    twins = _twins(old_names, new_names)
    if twins:
        new, old = next(iter(twins.items()))
        raise NotComparableError(
            f"{len(twins)} classes have another spelling in the new model than in the old one: {quoted(old)} and "
            f"{quoted(new)}, for example. They differ {_difference(old, new)}. {_MEND}"
        )


def _twins(old_names: Collection[str], new_names: Collection[str]) -> dict[str, str]:
    """Names that only the new side has, each with one that only the old side has and that differs in spelling only."""
    old_only, new_only = set(old_names) - set(new_names), set(new_names) - set(old_names)
    by_form = {spelling_form(name): name for name in old_only}
    return {name: by_form[spelling_form(name)] for name in sorted(new_only) if spelling_form(name) in by_form}


def check_unlabelled(old: Mapping[str, int], new: Mapping[str, int]) -> None:
    """The same for answers without labels, by how often each is given: free texts, given once, are left alone."""
    frequent = [{name for name, rows in side.items() if rows >= FREQUENT} for side in (old, new)]
    for answer, before in _twins(old, new).items():
        if answer in frequent[1] and before in frequent[0]:
            raise NotComparableError(
                f"The new answers have another spelling than the old ones: {quoted(before)} and {quoted(answer)}, for "
                f"example. They differ {_difference(before, answer)}, and every such row would count as changed. "
                "Correct one of the files."
            )
    numbers = [all(CLASS_INDEX.fullmatch(name) for name in names) for names in frequent]
    if all(frequent) and numbers[0] != numbers[1]:
        raise NotComparableError(
            "One side answers with class indices and the other with names: the old answers have "
            f"{quoted(min(frequent[0]))}, the new ones {quoted(min(frequent[1]))}. Write the names into both files."
        )


_MEND = (
    "Correct the file, or pass ignore_spelling (--ignore_spelling) to compare class names without regard to spaces, "
    "hyphens, case and Unicode form."
)


def _twin_message(side: str, twins: Mapping[str, str], strays: Mapping[str, int], rows: int) -> str:
    answer, label = max(twins.items(), key=lambda pair: strays[pair[0]])
    affected = sum(strays[name] for name in twins)
    return (
        f"{affected} of {rows} answers of the {side} predictions are labels of the data in another spelling: the "
        f"answer {quoted(answer)} and the label {quoted(label)}, for example. They differ "
        f"{_difference(answer, label)}. {_MEND}"
    )


def _index_message(side: str, option: str, indices: Mapping[str, int], label: str, rows: int) -> str:
    answer = max(indices, key=lambda name: indices[name])
    return (
        f"{sum(indices.values())} of {rows} answers of the {side} predictions look like class indices where the "
        f"labels are names: the answer {quoted(answer)} and the label {quoted(label)}, for example. "
        f"{_say_names(option)} A file that holds indices and names must be corrected first."
    )


def _stray_message(side: str, option: str, strays: Mapping[str, int], labels: Sequence[str], rows: int) -> str:
    answer, label = max(strays, key=lambda name: strays[name]), labels[0]
    answered = 1 - sum(strays.values()) / rows
    few = "None" if answered == 0 else f"Only {answered:.2%}"
    text = (
        f"{few} of the answers of the {side} predictions are labels of the data: the most frequent answer is "
        f"{quoted(answer)}, a label is {quoted(label)}. "
    )
    if all(CLASS_INDEX.fullmatch(name) for name in labels):
        return text + f"The labels look like class indices where the answers are names. {_say_names(option)}"
    return text + f"They are names of other classes, or of another dataset. {_own_names(option)}"


def _renamed_message(side: str, option: str, answer: str, label: str, rows: int) -> str:
    return (
        f"The {side} predictions answer {quoted(answer)} on {rows} rows, most of those with the label "
        f"{quoted(label)}, and never {quoted(label)} itself: one class under two names. {_own_names(option)}"
    )


def _say_names(option: str) -> str:
    how = f"({option} FILE: a JSON list, the model's config.json, or one name per line)"
    return f"Say which names they stand for with label_names {how}."


def _own_names(option: str) -> str:
    advice = "Correct the file, or predict on the data with these labels"
    return f"{advice}; if the model has both as classes, pass its own with label_names ({option} FILE)."


def _difference(one: str, other: str) -> str:
    """The likely cause in words."""
    causes = []
    plain = [unicodedata.normalize("NFKC", name) for name in (one, other)]
    spaces, marks = (
        [[char for char in name if wanted(char)] for name in plain]
        for wanted in (lambda char: char.isspace() or not char.isprintable(), _DASHES.fullmatch)
    )
    if spaces[0] != spaces[1]:
        causes.append("by a space")
    if marks[0] != marks[1]:
        causes.append("in what stands between words (- or _)")
    if spelling_form(one, case=False) != spelling_form(other, case=False):
        causes.append("in case")
    if any(unicodedata.normalize("NFKC", name) != name for name in (one, other)):
        causes.append("in Unicode form (composed or decomposed, wide or narrow characters)")
    return " and ".join(causes) or "in characters that look alike"


def spelling_form(name: str, case: bool = True, space: bool = True) -> str:
    """A name without what people and tools change by accident; `lost-card` and `lost_card` are one."""
    form = unicodedata.normalize("NFKC", name)
    if space:
        form = "".join(char for char in form if char.isprintable() or char.isspace())
        form = " ".join(_BETWEEN.sub(" ", form).split())
    return unicodedata.normalize("NFKC", form.casefold()) if case else form


def respell(old: Predictions, new: Predictions) -> tuple[Predictions, Predictions]:
    """Both sides with class names in the spelling of the data's labels, wherever only the spelling differs."""
    labels = {name for side in (old, new) for name in _label_spellings(side)}
    spelling: dict[str, str] = {}
    for name in sorted(labels):
        first = spelling.setdefault(spelling_form(name), name)
        both = any({first, name} <= set(_label_spellings(side)) for side in (old, new))
        if first != name and both:
            raise NotComparableError(
                f"The labels {quoted(first)} and {quoted(name)} differ {_difference(first, name)}; they are two "
                "classes of the data and would become one. Leave ignore_spelling (--ignore_spelling) out."
            )
    return _respelled(old, spelling), _respelled(new, spelling)


def _label_spellings(predictions: Predictions) -> Collection[str]:
    present = np.unique(predictions.label_codes)
    return [predictions.vocabulary[code] for code in present.tolist()]


def _respelled(predictions: Predictions, spelling: dict[str, str]) -> Predictions:
    def name_of(name: str) -> str:
        return spelling.setdefault(spelling_form(name), name)

    changed = copy.copy(predictions)
    vocabulary: dict[str, int] = {}
    if predictions.label_names is not None:
        changed.label_names = tuple(name_of(name) for name in predictions.label_names)
        if len(set(changed.label_names)) < len(changed.label_names):
            raise NotComparableError(
                "Two classes of a model differ in nothing but spelling and would become one. Leave ignore_spelling "
                "(--ignore_spelling) out."
            )
    codes = code_table((name_of(name) for name in predictions.vocabulary), vocabulary)
    changed.vocabulary = tuple(vocabulary)
    changed.label_codes = recode(predictions.label_codes, codes)
    changed.prediction_codes = recode(predictions.prediction_codes, codes)
    return changed
