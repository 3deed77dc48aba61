"""Merge: weights between an old and a new model, and the alpha that keeps a promise about accuracy and flips.

Names are loaded when they are first used, so that the pure tensor rules never wait for transformers.
"""

from typing import TYPE_CHECKING

from ..core.lazy import lazy_names

if TYPE_CHECKING:
    from ..flips.choice.curve import AlphaCurve as AlphaCurve
    from ..flips.choice.curve import Curve as Curve
    from ..methods.merges.soup import uniform_soup as uniform_soup
    from ..models.fisher.diagonal import diagonal_fisher as diagonal_fisher
    from ..models.fisher.files import save_fisher as save_fisher
    from .arguments import BCWIArguments as BCWIArguments
    from .checkpoints.stream import merge_checkpoints as merge_checkpoints
    from .landscape import Plane as Plane
    from .lora import merge_lora as merge_lora
    from .merger import BCWIMerger as BCWIMerger
    from .rebasing.alignment import align_model as align_model
    from .selection import Contract as Contract
    from .selection import select_alpha as select_alpha

# where each public name lives
_HOMES = {
    "merge_lora": "lora",
    "align_model": "rebasing.alignment",
    "BCWIArguments": "arguments",
    "Curve": "..flips.choice.curve",
    "AlphaCurve": "..flips.choice.curve",
    "diagonal_fisher": "..models.fisher.diagonal",
    "save_fisher": "..models.fisher.files",
    "uniform_soup": "..methods.merges.soup",
    "Plane": "landscape",
    "BCWIMerger": "merger",
    "Contract": "selection",
    "select_alpha": "selection",
    "merge_checkpoints": "checkpoints.stream",
}

__all__ = sorted(_HOMES)
__getattr__, __dir__ = lazy_names(__name__, _HOMES)
