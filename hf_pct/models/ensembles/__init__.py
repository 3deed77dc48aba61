"""Ensembles: several classifiers that answer as one model. Names are loaded when they are first used."""

from typing import TYPE_CHECKING

from ...core.lazy import lazy_names

if TYPE_CHECKING:
    from .folders import load_ensemble as load_ensemble
    from .folders import save_ensemble as save_ensemble
    from .fused import FusedModel as FusedModel
    from .fused import load_fused as load_fused
    from .fused import save_fused as save_fused
    from .mean import Ensemble as Ensemble
    from .shared_backbone import AdapterEnsemble as AdapterEnsemble

_HOMES = {
    "AdapterEnsemble": "shared_backbone",
    "FusedModel": "fused",
    "load_ensemble": "folders",
    "load_fused": "fused",
    "save_fused": "fused",
    "save_ensemble": "folders",
    "Ensemble": "mean",
}

__all__ = sorted(_HOMES)
__getattr__, __dir__ = lazy_names(__name__, _HOMES)
