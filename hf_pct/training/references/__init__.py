"""What a trainer holds a new model near: other models' logits, live or as tables."""

from ...core.lazy import lazy_names

_HOMES = {
    "AdapterReference": "spec",
    "ModelReference": "spec",
    "Reference": "spec",
    "SharedClasses": "spec",
    "load_reference": "spec",
    "old_versions": "spec",
}

__all__ = sorted(_HOMES)
__getattr__, __dir__ = lazy_names(__name__, _HOMES)
