"""Reports and verdicts as text for people and for CI servers; the page is found by name when one is asked for."""

from collections.abc import Callable

from ...core.lazy import lazy_names

# the page knows reports and not the other way round: only `to_html` of a report asks for it
render_page: Callable[..., str]
_HOMES = {"render_page": "...viz.page.write"}

__all__ = sorted(_HOMES)
__getattr__, __dir__ = lazy_names(__name__, _HOMES)
