"""The members of an ensemble: trained into folders, then joined into what a student is held near."""

from ...core.lazy import lazy_names

_HOMES = {"Members": "train", "RECORD": "train"}

__all__ = sorted(_HOMES)
__getattr__, __dir__ = lazy_names(__name__, _HOMES)
