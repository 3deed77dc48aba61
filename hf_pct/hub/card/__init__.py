"""The model card: what was updated from what, and what that breaks."""

from ...core.lazy import lazy_names

_HOMES = {
    "MAX_CLASSES": "text",
    "TEMPLATE": "text",
    "make_card": "text",
    "verify_command": "text",
}

__all__ = sorted(_HOMES)
__getattr__, __dir__ = lazy_names(__name__, _HOMES)
