"""Negative flip rate: what an update of a classifier breaks.

This file stands alone: it needs NumPy, `datasets` and `evaluate`, so that it works as a Space.
"""

import datasets
import evaluate
import numpy as np

_DESCRIPTION = """
The negative flip rate (NFR) of a model update is the share of rows that the old model got right and the new model gets
wrong. Two models with the same accuracy can disagree on many rows; the users of the old one notice every row that
broke.
"""

_KWARGS_DESCRIPTION = """
Args:
    predictions: the new model's labels, one per row: all integers or all strings.
    references: the right labels, of the same kind.
    old_predictions: the old model's labels, of the same kind.
    sample_weight (optional, `compute` only): how much each row counts, in the order in which the rows were added.
Returns:
    nfr: share of the rows that were right and are wrong now.
    pfr: share of the rows that were wrong and are right now.
    relative_nfr: nfr divided by old_accuracy * new_error_rate, its value if the two models were independent; 0.0 when
        that is 0.
    old_accuracy, new_accuracy, old_error_rate, new_error_rate: of each model alone.
    nfi: share of the new model's errors that are new; 0.0 when it makes none.
    btc: share of what the old model got right that is still right; 1.0 when the old model is never right.
    bec: share of the new model's errors that the old one made too; 1.0 when the new model makes none.
    churn: share of the rows whose answer changed.
    both_right, negative_flips, positive_flips, both_wrong_same, both_wrong_different, total: the counts (sums of
        weights when sample_weight is given).
Examples:
    >>> nfr = evaluate.load("./nfr")
    >>> results = nfr.compute(references=[0, 1, 1, 0], old_predictions=[0, 1, 0, 1], predictions=[0, 0, 1, 1])
    >>> results["nfr"], results["pfr"], results["new_accuracy"] - results["old_accuracy"]
    (0.25, 0.25, 0.0)
"""

_CITATION = """
@inproceedings{yan2021positive,
  title     = {Positive-Congruent Training: Towards Regression-Free Model Updates},
  author    = {Yan, Sijie and Xiong, Yuanjun and Kundu, Kaustav and Yang, Shuo and Deng, Siqi and Wang, Meng and
               Xia, Wei and Soatto, Stefano},
  booktitle = {Proceedings of the IEEE/CVF Conference on Computer Vision and Pattern Recognition (CVPR)},
  year      = {2021}
}
"""

_INPUTS = ("predictions", "references", "old_predictions")


class Nfr(evaluate.Metric):
    """The negative flip rate with the counts behind it."""

    def _info(self):
        # Text comes first: evaluate would turn the strings "1" and "01" into the integer 1.
        kinds = ("string", "int64")
        return evaluate.MetricInfo(
            description=_DESCRIPTION,
            citation=_CITATION,
            inputs_description=_KWARGS_DESCRIPTION,
            features=[datasets.Features({name: datasets.Value(kind) for name in _INPUTS}) for kind in kinds],
            reference_urls=["https://arxiv.org/abs/2011.09161"],
        )

    def add_batch(self, *, predictions=None, references=None, old_predictions=None):
        """Add a batch of rows."""
        columns = _columns({"predictions": predictions, "references": references, "old_predictions": old_predictions})
        self._check_kind(columns)
        self._store(columns)

    def add(self, *, prediction=None, reference=None, old_predictions=None):
        """Add one row."""
        row = {"predictions": prediction, "references": reference, "old_predictions": old_predictions}
        self.add_batch(**{name: None if value is None else [value] for name, value in row.items()})

    def compute(self, *, predictions=None, references=None, old_predictions=None, sample_weight=None):
        """Compute the flips of the rows given here, or of the rows added before."""
        batch = {"predictions": predictions, "references": references, "old_predictions": old_predictions}
        columns = {} if all(values is None for values in batch.values()) else _columns(batch)
        self._check_kind(columns)
        rows = len(self) + len(columns.get("references", ()))
        if rows == 0:
            raise ValueError(
                f"There is nothing to compute: no rows were given or added. Pass {', '.join(_INPUTS)} with one label "
                "per row to compute, or call add_batch before it."
            )
        weights = None if sample_weight is None else _weights(sample_weight, rows)
        self._store(columns)  # everything is checked by now: a call that fails adds no rows
        return super().compute(sample_weight=weights)

    def _store(self, columns):
        if columns and len(columns["references"]):
            super().add_batch(**{name: column.tolist() for name, column in columns.items()})

    def _check_kind(self, columns):
        """All columns of one batch, and all batches, must be integers or all be text."""
        kinds = {
            name: "text" if column.dtype.kind == "U" else "integers" for name, column in columns.items() if len(column)
        }
        if self.writer is not None:
            stored = self.selected_feature_format["references"].dtype
            kinds["the rows added before"] = "text" if stored == "string" else "integers"
        if len(set(kinds.values())) > 1:
            seen = ", ".join(f"{name}: {kind}" for name, kind in kinds.items())
            raise ValueError(f"Labels of different kinds cannot be compared ({seen}). Map indices to names first.")

    def _compute(self, predictions, references, old_predictions, sample_weight=None):
        new, truth, old = np.asarray(predictions), np.asarray(references), np.asarray(old_predictions)
        old_right, new_right, same = old == truth, new == truth, old == new
        masks = {
            "both_right": old_right & new_right,
            "negative_flips": old_right & ~new_right,
            "positive_flips": ~old_right & new_right,
            "both_wrong_same": ~old_right & same,
            "both_wrong_different": ~old_right & ~new_right & ~same,
        }
        if sample_weight is None:
            counts = {name: int(mask.sum()) for name, mask in masks.items()}
        else:
            counts = {name: float(sample_weight[mask].sum()) for name, mask in masks.items()}
        return _results(counts)


def _results(counts):
    """The rates that follow from the five counts, then the counts."""
    both_right, negative, positive, wrong_same, wrong_different = counts.values()
    total = sum(counts.values())
    nfr = negative / total
    old_accuracy = (both_right + negative) / total
    new_error_rate = (negative + wrong_same + wrong_different) / total
    independent = old_accuracy * new_error_rate
    nfi = nfr / new_error_rate if new_error_rate else 0.0
    return {
        "nfr": nfr,
        "pfr": positive / total,
        "relative_nfr": nfr / independent if independent else 0.0,
        "old_accuracy": old_accuracy,
        "new_accuracy": (both_right + positive) / total,
        "old_error_rate": (positive + wrong_same + wrong_different) / total,
        "new_error_rate": new_error_rate,
        "nfi": nfi,
        "btc": 1.0 - nfr / old_accuracy if old_accuracy else 1.0,
        "bec": 1.0 - nfi,
        "churn": (negative + positive + wrong_different) / total,
        **counts,
        "total": total,
    }


def _columns(batch):
    """The inputs as arrays of one length; a ValueError that names the input that is missing or of another length."""
    missing = [name for name, values in batch.items() if values is None]
    if missing:
        raise ValueError(
            f"Inputs are missing: {', '.join(missing)}. Expected {', '.join(_INPUTS)}, one label per row."
        )
    columns = {name: _labels(values, name) for name, values in batch.items()}
    if len({len(column) for column in columns.values()}) > 1:
        lengths = ", ".join(f"{name}: {len(column)}" for name, column in columns.items())
        raise ValueError(f"Every input must have one label per row, but the lengths differ ({lengths}).")
    return columns


def _labels(values, name):
    """One input as an array of integers or of text; logits, probabilities and missing labels are refused."""
    if isinstance(values, (str, bytes)) or not hasattr(values, "__len__"):
        raise ValueError(f"{name} is of type {type(values).__name__}, expected a list or an array, one label per row.")
    if hasattr(values, "detach"):  # a torch tensor, on whatever device
        values = values.detach().cpu().numpy()
    if not isinstance(values, np.ndarray):
        # as objects first: NumPy would quietly make text of a list in which numbers and text are mixed
        values = np.array(list(values) if not hasattr(values, "__array__") else values, dtype=object)
    if values.ndim != 1:
        raise ValueError(
            f"{name} has shape {values.shape}, expected one label per row, shape (n,). For logits pass the argmax."
        )
    if values.dtype.kind == "O":
        values = _from_objects(values, name)
    if values.dtype.kind == "f" and not (np.isfinite(values).all() and (values == np.trunc(values)).all()):
        raise ValueError(
            f"{name} holds fractions or NaN, expected class indices or names. For scores or probabilities pass the "
            "argmax."
        )
    if values.dtype.kind in "iubf":
        return values.astype(np.int64)
    if values.dtype.kind in "UT":
        return values.astype(np.str_)
    raise ValueError(f"{name} has dtype {values.dtype}, expected integers or text (class indices or class names).")


def _from_objects(values, name):
    kinds = {type(value) for value in values.tolist()}
    if all(issubclass(kind, str) for kind in kinds):
        return values.astype(np.str_)
    if all(issubclass(kind, (int, float, np.number, np.bool_)) for kind in kinds):
        return values.astype(np.float64 if any(issubclass(kind, (float, np.floating)) for kind in kinds) else np.int64)
    names = ", ".join(sorted(kind.__name__ for kind in kinds))
    raise ValueError(f"{name} holds values of type {names}, expected only integers or only text, one label per row.")


def _weights(values, rows):
    """One weight per row, finite and not negative."""
    weights = np.asarray(values, dtype=np.float64)
    if weights.shape != (rows,):
        raise ValueError(f"sample_weight has shape {weights.shape}, expected one weight per row, shape ({rows},).")
    if not np.isfinite(weights).all() or (weights < 0).any() or not weights.any():
        raise ValueError("sample_weight must be finite, not negative, and not zero everywhere.")
    return weights
