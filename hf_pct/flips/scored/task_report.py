"""What the comparison of one task found."""

from dataclasses import dataclass, field

from ..counts import FlipCounts
from ..pairing import Coverage
from ..stats import Interval
from .measures.outcomes import Shift


@dataclass(frozen=True)
class MeanGain:
    """The mean scores and their difference, turned so that more is better; `p_worse` is one-sided.

    `method` says how the p-values were computed, on how many `units` (items or clusters).
    """

    old_mean: float
    new_mean: float
    estimate: float
    interval: Interval
    p_value: float
    p_worse: float
    method: str
    units: int


@dataclass(frozen=True)
class ScoreGroup:
    """The rows of one slice; `p_corrected` is corrected for the number of slices of the same column."""

    name: str
    rows: int
    old_mean: float
    new_mean: float
    gain: float
    negative_flips: float
    positive_flips: float
    dropped: float
    risen: float
    nfr: float
    nfr_low: float
    nfr_high: float
    p_value: float
    p_corrected: float


@dataclass(frozen=True)
class ItemChange:
    """An item whose rate of right runs fell beyond chance."""

    id: str
    old_rate: float
    new_rate: float
    p_corrected: float


@dataclass(frozen=True)
class RepeatedRuns:
    """Items that were run several times: how often, and which of them regressed.

    `floor_items` is how many items regress when the first half of the old runs is held against the second.
    """

    old_runs: int
    new_runs: int
    regressed: list[ItemChange] | None = None
    floor_items: int | None = None


@dataclass(frozen=True)
class ScoreFloor:
    """What changes without an update: the old version against itself, from its repeated runs or from a second file.

    `rates` has the share of rows of each outcome; `gain` how far the mean moves from run to run; `excess_nfr` how much
    more the new version breaks.
    """

    source: str
    rates: dict[str, float]
    gain: float
    excess_nfr: float
    excess_interval: Interval
    p_value: float


@dataclass(frozen=True)
class TaskReport:
    """One task: its metric, its outcomes (counts, fractions with repeated runs), rates with intervals, and tests.

    Rates and their intervals: `nfr` and `pfr` (broken, fixed), `changed` (another answer, still right), `dropped` and
    `risen` (score moved by more than the tolerance, flips included), `old_accuracy` and `new_accuracy` (share right).
    `p_corrected` is `gain.p_worse` corrected for the number of tasks, and `regressed` whether it is below the level.
    """

    task: str
    metric: str
    higher_is_better: bool
    right_at: float | None
    tolerance: float
    rows: int
    outcomes: dict[str, float]
    rates: dict[str, float]
    intervals: dict[str, Interval]
    nfr_upper: float | None
    gain: MeanGain
    regressions: Shift
    gains: Shift
    coverage: Coverage
    changed_prompts: int = 0
    changed_answers: float | None = None
    slices: dict[str, list[ScoreGroup]] = field(default_factory=dict)
    repeats: RepeatedRuns | None = None
    noise_floor: ScoreFloor | None = None
    p_corrected: float = 1.0
    regressed: bool = False

    @property
    def counts(self) -> FlipCounts:
        """The outcomes as counts of flips. Rows that are right on neither side count as wrong in the same way."""
        if self.right_at is None:
            raise ValueError(f"Task {self.task} was compared without saying from which score on a row is right.")
        broken, fixed = self.outcomes["broken"], self.outcomes["fixed"]
        both = self.rates["old_accuracy"] * self.rows - broken
        return FlipCounts(max(both, 0.0), broken, fixed, max(self.rows - both - broken - fixed, 0.0), 0.0)
