"""One case of the attack."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Case:
    """One command line on a damaged file. `verdict` is what the whole file gives; None where it is not held."""

    kind: str
    arguments: list[str]
    verdict: int | None = None
