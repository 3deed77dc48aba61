"""Ensembles: several classifiers that answer as one model. Names are loaded when they are first used."""

from typing import TYPE_CHECKING

from .._lazy import lazy_names

if TYPE_CHECKING:
    from .adapters import AdapterEnsemble as AdapterEnsemble
    from .folders import load_ensemble as load_ensemble
    from .folders import save_ensemble as save_ensemble
    from .mean import Ensemble as Ensemble

_HOMES = {
    "AdapterEnsemble": "adapters",
    "load_ensemble": "folders",
    "save_ensemble": "folders",
    "Ensemble": "mean",
}

__all__ = sorted(_HOMES)
__getattr__, __dir__ = lazy_names(__name__, _HOMES)
