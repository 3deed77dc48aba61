"""What an end means: the exit codes, and the one error that is about the pair and not about a single argument."""

from collections.abc import Iterable

# the exit codes of `hf-pct`; 70 is what BSD calls an internal software error
PASSED, REGRESSED, WRONG_USE, NOT_COMPARABLE, UNFORESEEN = 0, 1, 2, 3, 70


class NotComparableError(ValueError):
    """Two sets of predictions, or a report and a gate, are not about the same rows. `hf-pct` exits with 3 on it.

    Example:
        >>> from hf_pct import NotComparableError, Predictions, compare
        >>> try:
        ...     compare(Predictions([1, 2], ["a", "b"], ["a", "b"]), Predictions([3, 4], ["a", "b"], ["a", "b"]))
        ... except NotComparableError:
        ...     print("these are different rows")
        ...
        these are different rows
    """


def first_five(values: Iterable[object]) -> str:
    """Five examples for an error message, and whether there are more."""
    listed = list(values)
    shown = ", ".join(repr(value) for value in listed[:5])
    return shown + (", ..." if len(listed) > 5 else "")
