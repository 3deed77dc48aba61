"""POLICIES: one answer per row, decided from the answers of several versions. Nothing is trained but a few numbers.

A policy turns tables of predictions into one table, which `compare`, `gate` and `page` take like any other. What it
learns, it learns on calibration rows, and those are never among the rows that it decides.
"""

from typing import TYPE_CHECKING

from ..core.lazy import lazy_names

if TYPE_CHECKING:
    from .bayes import BayesianUpdate as BayesianUpdate
    from .bayes import bayesian_update as bayesian_update
    from .fusion import Fusion as Fusion
    from .fusion import FusionDecision as FusionDecision
    from .fusion import fuse as fuse
    from .versions import split_by_ids as split_by_ids

_HOMES = {
    "BayesianUpdate": "bayes",
    "bayesian_update": "bayes",
    "Fusion": "fusion",
    "FusionDecision": "fusion",
    "fuse": "fusion",
    "split_by_ids": "versions",
}

__all__ = sorted(_HOMES)
__getattr__, __dir__ = lazy_names(__name__, _HOMES)
