"""What an update may not lose: the contract that a choice keeps, or openly does not keep."""

from __future__ import annotations

from dataclasses import dataclass, fields

DEFAULT_RISK = 0.5
_STRICT = ("delta", "search_share", "confidence", "risk")


@dataclass(frozen=True)
class Contract:
    """What the chosen model must keep. Rates are fractions.

    Accuracy first, the default: of the candidates that lose at most `margin` against the yardstick, the one with the
    fewest negative flips. Flips first, with `max_nfr`: of the candidates within it, the most accurate one; with both,
    both must hold.

    Args:
        margin: accuracy that may be lost against the yardstick. Unset: 0, or with `max_nfr` no condition at all.
        target_accuracy: the lower end of a target model's accuracy interval; replaces the yardstick and the margin.
        confidence: a level such as 0.95 asks for a paired test on the rows (against the yardstick) or for the upper
            confidence bound of NFR (with `max_nfr`) instead of the fitted curve.
        max_nfr: the negative flips allowed.
        certify: split the rows, search on one part, prove on the other; the promise then holds with probability
            1 - delta however many candidates were searched.
        delta: the risk that the certificate is wrong.
        search_share: the part of the rows that the search may look at.
        seed: of the split.
        allow_old: whether alpha = 1, which is no update at all, may be chosen.
        risk: the chance of a broken promise that a choice may take, by the curve fitted to the rows: 0.5, or 0.2 where
            margins are known, unless you give another. None compares what was measured, noise and all.
        exchange: little may be lost for little: the expected loss is at most `exchange * margin * saved ** 2`, where
            `saved` is the share of the yardstick's negative flips that are gone. For rows without margins.
        yardstick: the name of the candidate that accuracy is held against; unset, the most accurate plain one.

    Example:
        >>> from hf_pct.merging import AlphaCurve, Contract, select_alpha
        >>> curve = AlphaCurve.of([True, True, False], {0.0: [True, False, True], 0.5: [True, True, True]})
        >>> select_alpha(curve, Contract(max_nfr=0.0, risk=None)).alpha
        0.5
    """

    margin: float | None = None
    target_accuracy: float | None = None
    confidence: float | None = None
    max_nfr: float | None = None
    certify: bool = False
    delta: float = 0.05
    search_share: float = 0.5
    seed: int = 0
    allow_old: bool = False
    risk: float | None = DEFAULT_RISK
    exchange: float = 5.0
    yardstick: str | None = None

    def __post_init__(self) -> None:
        problems = []
        for name in ("margin", "target_accuracy", "max_nfr", *_STRICT):
            value = getattr(self, name)
            strict = name in _STRICT
            if value is not None and not (0 < value < 1 if strict else 0 <= value <= 1):
                problems.append(f"{name} is {value}, expected a fraction {'between' if strict else 'from'} 0 and 1")
        if not self.exchange >= 0:
            problems.append(f"exchange is {self.exchange}, expected 0 or more")
        if self.target_accuracy is not None and self.margin:
            problems.append(
                f"target_accuracy {self.target_accuracy} and margin {self.margin} contradict each other: a target is "
                "an accuracy to reach, a margin is held against the yardstick; give one of them"
            )
        if self.target_accuracy is not None and self.yardstick is not None:
            problems.append(
                f"target_accuracy {self.target_accuracy} and yardstick {self.yardstick!r} contradict each other: "
                "give one of them"
            )
        if problems:
            raise ValueError("This contract cannot be kept: " + "; ".join(problems))

    @property
    def accuracy_matters(self) -> bool:
        """Whether accuracy is a condition; with `max_nfr` alone it is what is maximised."""
        return self.max_nfr is None or self.margin is not None or self.target_accuracy is not None

    @property
    def allowed_loss(self) -> float:
        return self.margin or 0.0

    @property
    def fitted(self) -> bool:
        """Whether candidates are judged by the fitted curve."""
        return self.risk is not None and self.confidence is None

    def describe(self, yardstick: str = "the new model") -> str:
        """The contract in words."""
        parts = [] if self.max_nfr is None else [f"NFR <= {self.max_nfr:.4f}"]
        how = f" (tested at {self.confidence:.0%})" if self.confidence else ""
        if self.target_accuracy is not None:
            parts.append(f"accuracy >= {self.target_accuracy:.4f}, the target's lower bound")
        elif self.accuracy_matters:
            parts.append(f"accuracy at most {self.allowed_loss:.4f} below {yardstick}{how}")
        return " and ".join(parts)

    def to_dict(self) -> dict[str, float | str | bool | None]:
        return {field.name: getattr(self, field.name) for field in fields(self)}


def describe(contract: Contract) -> str:
    """The contract in words."""
    return contract.describe()
