"""What is known of an update before its development rows are looked at.

Merging a new model back toward the old one takes back its flips, the negative ones sooner than the positive ones. Over
data sets, merge rules, near and far old models, one law describes how:

    odds(a negative flip is undone at alpha) = exp(centre + gap / 2) * odds(alpha) ^ negative_steepness
    odds(a positive flip is undone at alpha) = exp(centre - gap / 2) * odds(alpha) ^ positive_steepness

For linear merges of encoders the gap and the centre are much alike: this is what a few hundred noisy rows can lean on.
Other models, such as ResNets on noisy images, may obey another law, so one update in ten is a surprise, of which the
same numbers are only known `surprise_width` times as roughly; the rows say which it is. How many positive flips an
update has per negative one differs far more between updates, so its prior has heavy tails: rows that say "the old
model is far behind" are believed.

The numbers were fitted by `python -m benchmarks.selection --fit` on data sets other than MASSIVE, on which the rule is
judged.
"""

from __future__ import annotations

from dataclasses import dataclass, replace


@dataclass(frozen=True)
class Prior:
    """Location and scale of every unknown; rates are fractions. The law's numbers are normal, or normal and wider.

    Args:
        centre: of the two laws, on the logit scale.
        gap: between the two laws, on the logit scale.
        negative_steepness: natural logarithm of the first law's exponent.
        positive_steepness: natural logarithm of the second law's exponent.
        gain_ratio: natural logarithm of the unmerged model's positive flips per negative flip, shape and scale of a
            Gamma: an update is made to improve.
        surprise: the share of updates of which little of that kind is known: their ratio may be anything.
        surprise_width: how many times as wide the law's numbers are for a surprise.
        middle: accuracy that the middle of the curve gains on rows that do not flip between its ends.
        middle_flips: negative flips that only the middle has, on rows that both ends get right: the usual rate, and
            the rate of the updates that are a surprise, each the mean of a Gamma of shape one half.
        base_gain: accuracy of a candidate's unmerged model minus the yardstick's.
        base_degrees: degrees of freedom of `base_gain`, a Student t; few are heavy tails: a treatment may fail by far.
    """

    centre: tuple[float, float] = (-0.38, 0.23)
    gap: tuple[float, float] = (0.92, 0.39)
    negative_steepness: tuple[float, float] = (-0.04, 0.15)
    positive_steepness: tuple[float, float] = (0.14, 0.1)
    gain_ratio: tuple[float, float] = (2.0, 0.98)
    surprise: float = 0.1
    surprise_width: float = 2.5
    middle: tuple[float, float] = (0.001, 0.001)
    middle_flips: tuple[float, float] = (0.0004, 0.01)
    base_gain: tuple[float, float] = (0.0, 0.004)
    base_degrees: float = 3.0


LINEAR = Prior()
ADDED = replace(LINEAR, centre=(-0.13, 0.23), gap=(1.48, 0.39), positive_steepness=(0.62, 0.15))
"""For merges in which the new model has added classes: their rows, all of them improvements, hold out up to some
alpha, because the rows of the head are not merged, and are then lost together. Fitted on intents added to CLINC150."""

UNKNOWN = 0.9
"""The share of surprises among models with BatchNorm: the laws were fitted on encoders, and ResNets obey others."""


def linear_prior(added_classes: bool = False, batchnorm: bool = False) -> Prior:
    """What is known of a linear merge or a soup, by what the models are."""
    law = ADDED if added_classes else LINEAR
    return replace(law, surprise=UNKNOWN) if batchnorm else law


WARPED = replace(LINEAR, centre=(0.2, 0.6), negative_steepness=(-0.2, 0.4), positive_steepness=(-0.2, 0.4))
"""For merges in which alpha is not itself the progress: by a Fisher, by probabilities, by groups."""

APART = replace(LINEAR, base_gain=(0.0, 0.025))
"""For a model that was not trained from the old one: treatments then move accuracy by points (T2, T9, T10, T26)."""
