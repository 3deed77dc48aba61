"""What models are trained and merged with: one file per method, found by a registry.

    losses/    terms beside cross-entropy: naive, kd, fd-lm, fd-kl, fd-dynamic, elodi
    weights/   what holds weights near the old ones, beside any loss: EWC, L2-SP, prior weight decay, Mixout
    merges/    rules for one tensor of two models: linear, soup, fisher

`docs/add_a_method.md` adds one. Names are loaded when they are first used, and no module here imports torch at the
top, so that `--help` and model cards can ask the registry at once.
"""

from typing import TYPE_CHECKING

from ..core.lazy import lazy_names

if TYPE_CHECKING:
    from .base import Batch as Batch
    from .base import MergeRule as MergeRule
    from .base import Needs as Needs
    from .base import TensorPair as TensorPair
    from .base import TrainingMethod as TrainingMethod
    from .base import WeightMethod as WeightMethod
    from .registry import build as build
    from .registry import find_method as find_method
    from .registry import methods_of as methods_of
    from .registry import register as register
    from .settings import setting as setting

_HOMES = {
    "Batch": "base",
    "MergeRule": "base",
    "Needs": "base",
    "TensorPair": "base",
    "TrainingMethod": "base",
    "WeightMethod": "base",
    "build": "registry",
    "find_method": "registry",
    "methods_of": "registry",
    "register": "registry",
    "setting": "settings",
}

__all__ = sorted(_HOMES)
__getattr__, __dir__ = lazy_names(__name__, _HOMES)
