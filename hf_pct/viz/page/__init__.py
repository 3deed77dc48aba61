"""One HTML file that shows an update."""

from ...core.lazy import lazy_names

_HOMES = {
    "SCRIPTS": "write",
    "render_page": "write",
    "write_page": "write",
}

__all__ = sorted(_HOMES)
__getattr__, __dir__ = lazy_names(__name__, _HOMES)
