"""Train: everything that keeps a new model near the old one. Names are loaded when they are first used."""

from typing import TYPE_CHECKING

from .._lazy import lazy_names

if TYPE_CHECKING:
    from .args import ELODIArguments as ELODIArguments
    from .args import FocalDistillArguments as FocalDistillArguments
    from .args import PCTArguments as PCTArguments
    from .base import PCTrainer as PCTrainer
    from .elodi import ELODITrainer as ELODITrainer
    from .focal_distill import FocalDistillTrainer as FocalDistillTrainer
    from .losses import FocalDistillationLoss as FocalDistillationLoss
    from .losses import LogitDifferenceInhibitionLoss as LogitDifferenceInhibitionLoss
    from .losses import NaiveReweightingLoss as NaiveReweightingLoss
    from .references import ModelReference as ModelReference
    from .watch import DivergenceError as DivergenceError

_HOMES = {
    "ELODIArguments": "args",
    "ELODITrainer": "elodi",
    "FocalDistillArguments": "args",
    "PCTArguments": "args",
    "PCTrainer": "base",
    "FocalDistillTrainer": "focal_distill",
    "FocalDistillationLoss": "losses",
    "LogitDifferenceInhibitionLoss": "losses",
    "NaiveReweightingLoss": "losses",
    "ModelReference": "references",
    "DivergenceError": "watch",
}

__all__ = sorted(_HOMES)
__getattr__, __dir__ = lazy_names(__name__, _HOMES)
