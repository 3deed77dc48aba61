"""Train: everything that keeps a new model near the old one. Names are loaded when they are first used."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .args import FocalDistillArguments as FocalDistillArguments
    from .args import PCTArguments as PCTArguments
    from .base import PCTrainer as PCTrainer
    from .focal_distill import FocalDistillTrainer as FocalDistillTrainer
    from .losses import FocalDistillationLoss as FocalDistillationLoss
    from .losses import LogitDifferenceInhibitionLoss as LogitDifferenceInhibitionLoss
    from .losses import NaiveReweightingLoss as NaiveReweightingLoss
    from .references import ModelReference as ModelReference
    from .watch import DivergenceError as DivergenceError

_HOME = {
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

__all__ = sorted(_HOME)


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOME[name]}"), name)


def __dir__() -> list[str]:
    return __all__
