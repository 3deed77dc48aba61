"""An ensemble from tables of predictions: the mean of its members' logits, each over its temperature.

The mean of several models flips less than any one of them (Yan et al., section 4.3; Zhao et al., section 3). It is the
standard that a single model is held against, and it needs no model to be measured: the members' tables are enough, and
the mean is a table like any other, to be compared, gated and looked at.
"""

import math
import warnings
from collections.abc import Callable, Sequence

import numpy as np
import pyarrow as pa
from scipy.optimize import minimize_scalar
from scipy.special import logsumexp, softmax

from ..._version import __version__
from ...core.decode import JsonObject
from ...core.errors import first_five
from ..tables.predictions import Predictions, Provenance
from .member_tables import MemberTables, align_members

LOWEST_TEMPERATURE, HIGHEST_TEMPERATURE = 0.01, 100.0


def mean_predictions(
    members: Sequence[Predictions], temperatures: Sequence[float] | None = None, name: str | None = None
) -> Predictions:
    """The ensemble of the members as one table: the mean of their logits, and the answers that follow from it.

    Ids, labels, further columns and the order of rows and classes are those of the first member. One member is allowed
    and gives its own logits over its temperature, so that a loop over ensemble sizes may start at 1.

    Args:
        members: tables with logits on the same rows, of models with the same set of classes in any order.
        temperatures: one per member, as `fit_temperature` finds them: members that are surer than they should be then
            do not outvote the others. By default 1 for all, the plain mean of the papers.
        name: what the ensemble is called in reports; by default the mean of its members' names.

    Example:
        >>> from hf_pct import Predictions, mean_predictions
        >>> names = ["no", "yes"]
        >>> first = Predictions([1, 2], ["yes", "no"], logits=[[0, 1], [0, 1]], label_names=names)
        >>> second = Predictions([1, 2], ["yes", "no"], logits=[[0, 1], [3, 0]], label_names=names)
        >>> mean_predictions([first, second]).logits.tolist()
        [[0.0, 1.0], [1.5, 0.5]]
    """
    aligned = align_members(members)
    problems = [] if temperatures is None else temperature_problems(temperatures, len(aligned))
    if problems:
        raise ValueError(f"Got {'; and '.join(problems)}. fit_temperature finds one for each member.")
    first = aligned.tables[0]
    return Predictions(
        first.ids,
        pa.DictionaryArray.from_arrays(pa.array(first.label_codes), pa.array(first.vocabulary, pa.string())),
        logits=aligned.mean_logits(temperatures=temperatures),
        label_names=aligned.label_names,
        columns=first.columns,
        provenance=_provenance(aligned, temperatures, name),
    )


def fit_temperature(predictions: Predictions) -> float:
    """The temperature T at which softmax(logits / T) fits the labels best, by mean cross-entropy (Guo et al. 2017).

    Above 1 the model is surer than it should be. Fit it on data that neither trained nor selected the model: on
    training data it says how well that was learned by heart. The cross-entropy has one minimum along log T, so that a
    bounded search finds it; where that is beyond T = 0.01 or T = 100, the bound is returned with a warning.
    """
    # as differences from the right class, whose own is then exactly 0; a constant changes no probability
    apart = _apart_from_right(predictions)
    if not apart.any():
        warnings.warn(
            "The logits of each row are all the same, so that no temperature changes anything; taking 1.", stacklevel=2
        )
        return 1.0
    for bound, beyond, reason in _BOUNDS:
        if beyond(_slope(apart, 1 / bound)):
            warnings.warn(
                f"The best temperature is beyond {bound:g}, the bound of the search, which is returned: {reason}",
                stacklevel=2,
            )
            return bound

    def cross_entropy(log_temperature: float) -> float:
        return float(np.mean(logsumexp(apart * math.exp(-log_temperature), axis=-1)))

    bounds = math.log(LOWEST_TEMPERATURE), math.log(HIGHEST_TEMPERATURE)
    return math.exp(minimize_scalar(cross_entropy, bounds=bounds, method="bounded", options={"xatol": 1e-7}).x)


# The cross-entropy is convex in 1 / T: where it still falls at the low bound, or already rises at the high one, its
# minimum is beyond. A search alone would stop somewhere on the plateau, where the cross-entropy rounds to 0.
_BOUNDS: tuple[tuple[float, Callable[[float], bool], str], ...] = (
    (
        LOWEST_TEMPERATURE,
        lambda slope: slope <= 0,
        "the model is right on all rows or nearly so, and would have to be surer still. Fit it on held-out data with "
        "some mistakes in it.",
    ),
    (
        HIGHEST_TEMPERATURE,
        lambda slope: slope >= 0,
        "the logits say nothing about the labels, or the wrong thing. Check that labels and logits belong together.",
    ),
)


def temperature_problems(temperatures: Sequence[float], members: int) -> list[str]:
    """What keeps these from being one temperature for each of so many members."""
    problems = []
    if len(temperatures) != members:
        problems.append(f"{len(temperatures)} temperatures for {members} members, expected one for each")
    wrong = [value for value in temperatures if not (math.isfinite(value) and value > 0)]
    if wrong:
        problems.append(f"temperatures of {first_five(wrong)}, expected finite numbers above 0")
    return problems


def _slope(apart: np.ndarray, inverse: float) -> float:
    """How the mean cross-entropy changes with 1 / T."""
    shares = softmax(apart * inverse, axis=-1)
    return float(np.mean(np.sum(np.where(shares > 0, shares * np.nan_to_num(apart, neginf=0.0), 0.0), axis=-1)))


def _apart_from_right(predictions: Predictions) -> np.ndarray:
    """Each row's logits less that of its label; an error where that cannot be scored."""
    if predictions.logits is None or predictions.label_names is None:
        raise ValueError("The predictions have no logits, which a temperature divides; predict again and keep them.")
    classes, right = len(predictions.label_names), predictions.label_codes
    unknown = np.unique(right[right >= classes])
    if len(unknown):
        names = [predictions.vocabulary[code] for code in unknown]
        raise ValueError(
            f"{int((right >= classes).sum())} of {len(right)} rows have a label that the model lacks: "
            f"{first_five(names)}. Expected labels among its {classes} classes; leave those rows out."
        )
    logits = predictions.logits.astype(np.float64)
    of_label = logits[np.arange(len(right)), right]
    masked = np.flatnonzero(np.isneginf(of_label))
    if len(masked):
        ids = predictions.ids.take(pa.array(masked[:6])).to_pylist()
        raise ValueError(
            f"{len(masked)} of {len(right)} rows have a label whose logit is -inf, which no temperature can change: "
            f"ids {first_five(ids)}. Leave those rows out."
        )
    return logits - of_label[:, None]


def _provenance(members: MemberTables, temperatures: Sequence[float] | None, name: str | None) -> Provenance:
    """Of which members it is the mean; the data is theirs, and there are no weights of its own."""
    source = members.tables[0].provenance
    made: JsonObject = {"mean_of": list(members.names)}
    hashes = [table.provenance.weights for table in members.tables]
    if any(hashes):
        made["weights"] = hashes
    if temperatures is not None:
        made["temperatures"] = [float(value) for value in temperatures]
    shown = ", ".join(members.names[:4]) + (", ..." if len(members) > 4 else "")
    return Provenance(
        model=name or f"mean of {len(members)}: {shown}",
        dataset=source.dataset,
        split=source.split,
        fingerprint=next((t.provenance.fingerprint for t in members.tables if t.provenance.fingerprint), None),
        versions={"hf_pct": __version__},
        settings=made,
    )
