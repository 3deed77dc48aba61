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
from .predictions import Predictions

ALMOST_NONE = 0.01  # of a side's answers: fewer that are labels of the data are no answers to it


def check_spelling(old: Predictions, new: Predictions) -> None:
    """Refuse two sides that have one class under two spellings, in their answers or among their classes."""
    _check_answers(old, "old")
    _check_answers(new, "new")
    if old.label_names and new.label_names:
        _check_class_names(old.label_names, new.label_names)


def _check_answers(predictions: Predictions, side: str) -> None:
    """Refuse answers that are the data's labels in another spelling, or in none at all."""
    rows = np.bincount(predictions.prediction_codes, minlength=len(predictions.vocabulary))
    present = np.bincount(predictions.label_codes, minlength=len(predictions.vocabulary)) > 0
    labels = [name for name, is_label in zip(predictions.vocabulary, present, strict=True) if is_label]
    strays = {
        name: int(count)
        for name, count, is_label in zip(predictions.vocabulary, rows, present, strict=True)
        if count and not is_label
    }
    if not strays:
        return
    by_form: dict[str, str] = {}
    for name in labels:
        by_form.setdefault(spelling_form(name), name)
    own = set(predictions.label_names or ())
    # a model that has both spellings as classes of its own means two classes
    twins = {name: by_form[spelling_form(name)] for name in strays if spelling_form(name) in by_form}
    twins = {name: label for name, label in twins.items() if not own >= {name, label}}
    if twins:
        raise NotComparableError(_twin_message(side, twins, strays, len(predictions)))
    answered = 1 - sum(strays.values()) / len(predictions)
    if answered < ALMOST_NONE and predictions.label_names is None:
        raise NotComparableError(_stray_message(side, strays, labels, answered))


def _check_class_names(old_names: Sequence[str], new_names: Sequence[str]) -> None:
    """Refuse two models that have one class under two spellings: it would count as one added and one removed."""
    old_only, new_only = set(old_names) - set(new_names), set(new_names) - set(old_names)
    by_form = {spelling_form(name): name for name in old_only}
    twins = {name: by_form[spelling_form(name)] for name in sorted(new_only) if spelling_form(name) in by_form}
    if twins:
        new, old = next(iter(twins.items()))
        raise NotComparableError(
            f"{len(twins)} classes have another spelling in the new model than in the old one: {quoted(old)} and "
            f"{quoted(new)}, for example. They differ {_difference(old, new)}. {_MEND}"
        )


_MEND = (
    "Correct the file, or pass ignore_spelling (--ignore_spelling) to compare class names without regard to spaces, "
    "case and Unicode form."
)


def _twin_message(side: str, twins: Mapping[str, str], strays: Mapping[str, int], rows: int) -> str:
    answer, label = max(twins.items(), key=lambda pair: strays[pair[0]])
    affected = sum(strays[name] for name in twins)
    return (
        f"{affected} of {rows} answers of the {side} predictions are labels of the data in another spelling: the "
        f"answer {quoted(answer)} and the label {quoted(label)}, for example. They differ "
        f"{_difference(answer, label)}. {_MEND}"
    )


def _stray_message(side: str, strays: Mapping[str, int], labels: Sequence[str], answered: float) -> str:
    answer, label = max(strays, key=lambda name: strays[name]), labels[0]
    few = "None" if answered == 0 else f"Only {answered:.2%}"
    text = (
        f"{few} of the answers of the {side} predictions are labels of the data: the most frequent answer is "
        f"{quoted(answer)}, a label is {quoted(label)}. "
    )
    indices = all(re.fullmatch(r"-?\d+", name) for name in strays)
    if indices and not all(re.fullmatch(r"-?\d+", name) for name in labels):
        return text + (
            "The answers look like class indices where the labels are names: say which names they stand for with "
            f"label_names (--{side}_label_names FILE: a JSON list, the model's config.json, or one name per line)."
        )
    if all(re.fullmatch(r"-?\d+", name) for name in labels):
        return text + (
            "The labels look like class indices where the answers are names: say which names they stand for with "
            f"label_names (--{side}_label_names FILE: a JSON list, the model's config.json, or one name per line)."
        )
    return text + (
        "They are names of other classes, or of another dataset: predict on the data with these labels, or pass the "
        f"model's own classes with label_names (--{side}_label_names FILE) if it has both."
    )


def _difference(one: str, other: str) -> str:
    """The likely cause in words."""
    causes = []
    folded = [spelling_form(name, space=False) for name in (one, other)]
    if folded[0] != folded[1]:
        causes.append("by a space")
    if spelling_form(one, case=False) != spelling_form(other, case=False):
        causes.append("in case")
    if any(unicodedata.normalize("NFKC", name) != name for name in (one, other)):
        causes.append("in Unicode form (composed or decomposed, wide or narrow characters)")
    return " and ".join(causes) or "in characters that look alike"


def spelling_form(name: str, case: bool = True, space: bool = True) -> str:
    """A name without what people and tools change by accident."""
    form = unicodedata.normalize("NFKC", name)
    if space:
        form = " ".join("".join(char for char in form if char.isprintable() or char.isspace()).split())
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
