"""Decide: from an old model, data and a contract to the model to ship, with the proof.

Names are loaded when they are first used, so that a plan can be read without transformers.
"""

import sys
import types
from typing import TYPE_CHECKING, Any

from ..core.lazy import lazy_names

if TYPE_CHECKING:
    from ..flips.choice.contract import Contract as Contract
    from .planning.plan import Plan as Plan
    from .planning.plan import Recipe as Recipe
    from .run import Update as Update
    from .run import update as update

_HOMES = {
    "Contract": "..flips.choice.contract",
    "Plan": "planning.plan",
    "Recipe": "planning.recipes",
    "Update": "run",
    "update": "run",
}

__all__ = sorted(_HOMES)
__getattr__, __dir__ = lazy_names(__name__, _HOMES)


class _Callable(types.ModuleType):
    """`from hf_pct import update; update(...)` calls the function of the same name."""

    def __call__(self, *positional: Any, **options: Any) -> "Update":
        from .run import update

        return update(*positional, **options)


sys.modules[__name__].__class__ = _Callable
