"""How sure a number of flips makes us: intervals, paired tests and corrections for many comparisons.

`scipy.special` holds the distributions; it loads in a third of the time of `scipy.stats`, and `hf-pct gate` runs on
every commit. All probabilities and rates are fractions.

| module | question |
|---|---|
| `binomial` | between what and what is a rate? |
| `effective` | how many independent rows do weighted or clustered rows amount to? |
| `paired` | does the new model break more than it fixes? |
| `accuracy` | is accuracy kept up to a margin? |
| `clustered` | the same three questions, where rows belong together |
| `candidates` | do two candidates differ? |
| `corrections` | which p-values count when many were looked at? |
"""

from .accuracy import NonInferiority, accuracy_gain_interval, non_inferiority
from .binomial import Interval, check_confidence, clopper_pearson, lower_bound, upper_bound
from .candidates import Difference, paired_bootstrap
from .clustered import (
    MIN_CLUSTERS,
    Clusters,
    clustered_gain,
    clustered_mcnemar,
    clustered_non_inferiority,
    gain_rows,
)
from .corrections import CORRECTIONS, benjamini_hochberg, holm
from .effective import Rate, effective_size, rate_of
from .paired import McNemar, mcnemar, sign_flip

__all__ = [
    "CORRECTIONS",
    "MIN_CLUSTERS",
    "Clusters",
    "Difference",
    "Interval",
    "McNemar",
    "NonInferiority",
    "Rate",
    "accuracy_gain_interval",
    "benjamini_hochberg",
    "check_confidence",
    "clopper_pearson",
    "clustered_gain",
    "clustered_mcnemar",
    "clustered_non_inferiority",
    "effective_size",
    "gain_rows",
    "holm",
    "lower_bound",
    "mcnemar",
    "non_inferiority",
    "paired_bootstrap",
    "rate_of",
    "sign_flip",
    "upper_bound",
]
