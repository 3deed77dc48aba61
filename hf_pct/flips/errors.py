"""The one error that is about the pair and not about a single argument."""

from collections.abc import Iterable


class NotComparableError(ValueError):
    """Two sets of predictions, or a report and a gate, do not speak of the same rows. `hf-pct` exits with 3 on it."""


def first_five(values: Iterable[object]) -> str:
    """Five examples for an error message, and whether there are more."""
    listed = list(values)
    shown = ", ".join(repr(value) for value in listed[:5])
    return shown + (", ..." if len(listed) > 5 else "")
