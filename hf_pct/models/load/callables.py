"""Anything that answers rows with labels or scores, as a model: a pipeline, an estimator, an endpoint, a function."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from torch import nn

from ...core.decode import JsonObject
from ..types import Inputs
from .kinds import is_raw_timm
from .tasks import RowTask

_ASKED = ("predict_proba", "predict")


def answers_rows(model: object) -> bool:
    """Whether a model is no network to be fed by the kit, but something that takes rows itself."""
    if isinstance(model, nn.Module):  # a CrossEncoder is a network that reads its rows itself
        own = hasattr(model, "predict") and hasattr(model, "tokenizer") and not hasattr(model, "member_logits")
        return own and not is_raw_timm(model)
    return not isinstance(model, str) and (callable(model) or any(hasattr(model, name) for name in _ASKED))


def load_callable(
    model: object, label_names: Sequence[str] | None = None
) -> tuple[RowAnswers, RowTask, tuple[str, ...] | None]:
    """A function of a batch of rows, how rows reach it, and the classes that it says it has."""
    stated = stated_classes(model)
    names = stated if label_names is None else tuple(str(name) for name in label_names)
    if names is not None and stated is not None and sorted(names) == sorted(stated):
        names = stated  # scores come in the order that the model itself names
    return RowAnswers(model, names), RowTask(), names


def stated_classes(model: object) -> tuple[str, ...] | None:
    """The classes that a pipeline (`config.id2label`), scikit-learn (`classes_`) or SetFit (`labels`) names."""
    inner = getattr(model, "model", None)
    names = getattr(getattr(inner, "config", None), "id2label", None)
    if isinstance(names, Mapping) and names:
        return tuple(str(names[index]) for index in sorted(names, key=int))
    classes = getattr(model, "classes_", None)
    if classes is None:
        classes = _in_order_of_head(model, getattr(model, "labels", None))
    if not isinstance(classes, list | tuple | np.ndarray) or len(classes) == 0:
        return None
    return tuple(str(name) for name in classes)


def _in_order_of_head(model: object, labels: Any) -> object:
    """SetFit's labels in the order of its scores: that of its head, which sorts them and knows only those it saw."""
    head = getattr(getattr(model, "model_head", None), "classes_", None)
    if head is None:
        return labels
    return [labels[code] if labels and isinstance(code, int | np.integer) else code for code in head]


class RowAnswers:
    """Asks for the answers to a batch of rows: an array of scores, one column per class, or one label per row."""

    def __init__(self, model: object, label_names: tuple[str, ...] | None) -> None:
        self.model, self.label_names = model, label_names
        self.name: str = getattr(model, "__qualname__", None) or type(model).__name__
        self._ask = _way_to_ask(model)

    def __call__(self, inputs: Inputs) -> np.ndarray:
        rows = inputs["rows"]
        answers = self._ask(rows)
        if isinstance(answers, str | Mapping) or not isinstance(answers, Iterable):
            raise ValueError(
                f"{self.name} answered a list of {len(rows)} rows with a {type(answers).__name__}, expected a list: "
                "a label or the scores of all classes for each row."
            )
        answers = answers.tolist() if hasattr(answers, "tolist") else list(answers)
        if len(answers) != len(rows):
            raise ValueError(f"{self.name} gave {len(answers)} answers to {len(rows)} rows, expected one per row.")
        answers = [_ranked(answer) for answer in answers]
        if all(isinstance(answer, list | tuple) and answer and _is_number(answer[0]) for answer in answers):
            widths = sorted({len(answer) for answer in answers})
            if len(widths) > 1:
                raise ValueError(f"{self.name} gives {widths} scores per row, expected as many for each row.")
            return self._scores(np.asarray(answers, dtype=np.float64))
        if all(isinstance(answer, list | tuple) and answer and isinstance(answer[0], Mapping) for answer in answers):
            return self._named_scores(answers)
        return np.asarray([self._label(answer) for answer in answers], dtype=object)

    def _scores(self, values: np.ndarray) -> np.ndarray:
        if self.label_names is None:
            raise ValueError(
                f"{self.name} gives {values.shape[1]} scores per row and does not say of which classes. Pass "
                "label_names (--label_names), the classes in that order."
            )
        probabilities = (values >= 0).all() and np.allclose(values.sum(axis=1), 1, atol=1e-3)
        with np.errstate(divide="ignore"):  # softmax gives probabilities back from their logarithms
            return np.maximum(np.log(values), -1e4).astype(np.float32) if probabilities else values.astype(np.float32)

    def _named_scores(self, answers: list[list[JsonObject]]) -> np.ndarray:
        """A pipeline's lists of {label, score}: scores where all classes are there, else the best label."""
        names = self.label_names
        tables = [{str(entry["label"]): float(entry["score"]) for entry in answer} for answer in answers]
        if names is not None and all(table.keys() == set(names) for table in tables):
            return self._scores(np.asarray([[table[name] for name in names] for table in tables]))
        return np.asarray([max(table, key=lambda name: table[name]) for table in tables], dtype=object)

    def _label(self, answer: object) -> str:
        """A label as text; a whole number is the index of a class, where the classes are known."""
        if isinstance(answer, Mapping):
            if "label" not in answer:
                raise ValueError(f"{self.name} answers with {', '.join(map(str, answer))}, expected a 'label'.")
            answer = answer["label"]
        if answer is None or answer != answer:  # NaN is what is not itself
            raise ValueError(f"{self.name} has no answer to some rows ({answer}), expected a label for each.")
        if self.label_names is None or isinstance(answer, str) or not _is_number(answer):
            return str(answer)
        if str(answer) in self.label_names:
            return str(answer)
        index = int(answer)  # type: ignore[call-overload]
        if index != answer or not 0 <= index < len(self.label_names):
            raise ValueError(
                f"{self.name} answers {answer!r}, expected one of {len(self.label_names)} class names or their index."
            )
        return self.label_names[index]


def _way_to_ask(model: object) -> Callable[[list[object]], Any]:
    if hasattr(model, "predict_proba"):  # scikit-learn, SetFit
        return model.predict_proba
    if callable(model) and hasattr(model, "preprocess") and hasattr(model, "postprocess"):
        # a pipeline: the scores of all classes
        return lambda rows: model([_pipeline_row(row) for row in rows], top_k=None)
    if callable(model) and not isinstance(model, nn.Module):
        return model
    return model.predict  # type: ignore[union-attr]


def _pipeline_row(row: object) -> object:
    """A pair of sentences, as pipelines take it."""
    return {"text": row[0], "text_pair": row[1]} if isinstance(row, tuple) and len(row) == 2 else row


def _ranked(answer: object) -> object:
    """A zero-shot pipeline's answer as the others give it: a list of {label, score}."""
    if isinstance(answer, Mapping) and {"labels", "scores"} <= answer.keys():
        pairs = zip(answer["labels"], answer["scores"], strict=True)
        return [{"label": label, "score": score} for label, score in pairs]
    return answer


def _is_number(value: object) -> bool:
    return isinstance(value, int | float | np.number) and not isinstance(value, bool)
