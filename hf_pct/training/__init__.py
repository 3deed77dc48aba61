"""Train: everything that keeps a new model near the old one. Names are loaded when they are first used."""

from importlib import import_module
from typing import Any

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
