"""Train: everything that keeps a new model near the old one. Names are loaded when they are first used."""

from typing import TYPE_CHECKING

from ..core.lazy import lazy_names

if TYPE_CHECKING:
    from ..methods.loss_modules import FocalDistillationLoss as FocalDistillationLoss
    from ..methods.loss_modules import LogitDifferenceInhibitionLoss as LogitDifferenceInhibitionLoss
    from ..methods.loss_modules import NaiveReweightingLoss as NaiveReweightingLoss
    from .arguments import FocalDistillArguments as FocalDistillArguments
    from .arguments import PCTArguments as PCTArguments
    from .divergence import DivergenceError as DivergenceError
    from .elodi import ELODIArguments as ELODIArguments
    from .elodi import ELODITrainer as ELODITrainer
    from .evaluation.any_trainer import FlipCallback as FlipCallback
    from .evaluation.any_trainer import flip_metrics as flip_metrics
    from .focal_distill import FocalDistillTrainer as FocalDistillTrainer
    from .references.spec import ModelReference as ModelReference
    from .trainer import PCTrainer as PCTrainer

_HOMES = {
    "ELODIArguments": "elodi",
    "ELODITrainer": "elodi",
    "FocalDistillArguments": "arguments",
    "PCTArguments": "arguments",
    "PCTrainer": "trainer",
    "FocalDistillTrainer": "focal_distill",
    "FocalDistillationLoss": "..methods.loss_modules",
    "LogitDifferenceInhibitionLoss": "..methods.loss_modules",
    "NaiveReweightingLoss": "..methods.loss_modules",
    "FlipCallback": "evaluation.any_trainer",
    "flip_metrics": "evaluation.any_trainer",
    "ModelReference": "references.spec",
    "DivergenceError": "divergence",
}

__all__ = sorted(_HOMES)
__getattr__, __dir__ = lazy_names(__name__, _HOMES)
