"""Merge: weights between an old and a new model, and the alpha that keeps a promise about accuracy and flips.

Names are loaded when they are first used, so that the pure tensor rules never wait for transformers.
"""

from typing import TYPE_CHECKING

from .._lazy import lazy_names

if TYPE_CHECKING:
    from .adapters import merge_lora as merge_lora
    from .alignment import align_model as align_model
    from .args import BCWIArguments as BCWIArguments
    from .curve import Curve as Curve
    from .fisher import diagonal_fisher as diagonal_fisher
    from .fisher import save_fisher as save_fisher
    from .interpolate import uniform_soup as uniform_soup
    from .landscape import Plane as Plane
    from .merger import BCWIMerger as BCWIMerger
    from .selection import Contract as Contract
    from .selection import select_alpha as select_alpha
    from .streaming import merge_checkpoints as merge_checkpoints

# where each public name lives
_HOMES = {
    "merge_lora": "adapters",
    "align_model": "alignment",
    "BCWIArguments": "args",
    "Curve": "curve",
    "diagonal_fisher": "fisher",
    "save_fisher": "fisher",
    "uniform_soup": "interpolate",
    "Plane": "landscape",
    "BCWIMerger": "merger",
    "Contract": "selection",
    "select_alpha": "selection",
    "merge_checkpoints": "streaming",
}

__all__ = sorted(_HOMES)
__getattr__, __dir__ = lazy_names(__name__, _HOMES)
