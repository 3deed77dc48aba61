"""The gate on several versions: candidates, of which one may go out, and a chain, whose newest version is judged."""

from collections.abc import Iterable
from dataclasses import dataclass

from ...core.errors import NotComparableError
from ..chain import ChainReport
from ..counts import FlipCounts
from ..gate import GateConfig, GateResult, RuleResult
from ..scored.rules import check_pair_gate
from ..stats import non_inferiority, upper_bound
from .candidates import CandidatesReport, joint_confidence

CHAIN_RULES = (
    "max_nfr", "max_nfr_upper", "max_cumulative_nfr", "min_accuracy_gain", "max_accuracy_loss", "min_rows"
)  # fmt: skip
CHAIN_CONFIDENCE = 0.95
_CLOSE = 1e-9


@dataclass(frozen=True)
class CandidatesResult(GateResult):
    """The verdict on several candidates: passed when at least one of them keeps every rule.

    `results` has every rule of every candidate; `shippable` those that keep all, fewest negative flips first.
    """

    shippable: tuple[str, ...] = ()
    by_candidate: tuple[tuple[str, GateResult], ...] = ()

    @property
    def passed(self) -> bool:
        return bool(self.shippable)

    @property
    def deciding(self) -> tuple[RuleResult, ...]:
        """The rules of the candidate to ship, or those of all when there is none."""
        return dict(self.by_candidate)[self.shippable[0]].results if self.shippable else self.results

    def remarks(self) -> list[str]:
        return [self.headline()]

    def headline(self) -> str:
        if not self.shippable:
            return "REGRESSED: no candidate keeps every rule"
        others = f" ({', '.join(self.shippable[1:])} would too)" if len(self.shippable) > 1 else ""
        return f"PASSED: {self.shippable[0]} keeps every rule with the fewest flips{others}"


def check_candidates_gate(report: CandidatesReport, config: GateConfig) -> CandidatesResult:
    """Hold every candidate against the rules.

    Example:
        >>> from hf_pct import GateConfig, Predictions, check_gate, compare_several
        >>> ids, labels = list(range(8)), ["yes"] * 8
        >>> old = Predictions(ids, labels, ["yes"] * 7 + ["no"])
        >>> one = Predictions(ids, labels, ["no"] * 2 + ["yes"] * 6)
        >>> two = Predictions(ids, labels, ["no"] + ["yes"] * 7)
        >>> report = compare_several(old, [one, two], ["one", "two"])
        >>> check_gate(report, GateConfig(max_nfr=0.2)).headline()
        'PASSED: two keeps every rule with the fewest flips'
    """
    problems = [*_candidate_problems(report)]
    if report.edited or problems:
        raise NotComparableError("\n  ".join([report.edited or "The report contradicts itself:", *problems]))
    judged = tuple((name, check_pair_gate(entry, config)) for name, entry in report.items())
    reports = dict(report.items())
    kept = [name for name, result in judged if result.passed]
    kept.sort(key=lambda name: (reports[name].counts.negative_flips, -reports[name].counts.new_accuracy))
    results = tuple(_named(rule, name) for name, result in judged for rule in result.results)
    return CandidatesResult(results, tuple(kept), judged)


def _named(result: RuleResult, candidate: str) -> RuleResult:
    where = f"{candidate}: {result.where}" if result.where else candidate
    return RuleResult(result.rule, result.value, result.limit, result.passed, where)


def _candidate_problems(report: CandidatesReport) -> Iterable[str]:
    """What in the file does not go together."""
    if not report.reports or len(set(report.names)) < len(report.names) or len(report.names) != len(report.reports):
        yield f"{len(report.names)} names for {len(report.reports)} reports, expected a name of its own for each"
        return
    level = joint_confidence(report.confidence, len(report.reports))
    first = report.reports[0].counts
    for name, entry in report.items():
        counts = entry.counts
        if abs(entry.confidence - level) > _CLOSE:
            yield f"the bounds of {name} are at confidence {entry.confidence}, expected {level} for so many candidates"
        if counts.total != first.total or counts.old_accuracy != first.old_accuracy:
            yield f"{name} was compared on other rows, or with another old model, than {report.names[0]}"


def check_chain_gate(chain: ChainReport, config: GateConfig) -> GateResult:
    """Hold the newest version of a chain against the rules: each must hold against every earlier version.

    A user may have skipped any of them. Bounds hold for all earlier versions together with 95 % confidence.
    """
    if chain.edited:
        raise NotComparableError(chain.edited)
    rules = config.rules()
    rules |= {"tasks": None} if getattr(config, "tasks", None) else {}
    if not rules:
        raise ValueError("The gate has no rule, so it would pass anything. Set at least one, such as max_nfr: 0.01.")
    unanswered = [rule for rule in rules if rule not in CHAIN_RULES]
    if unanswered:
        raise NotComparableError(
            f"{', '.join(unanswered)}: a chain cannot answer this. It answers {', '.join(CHAIN_RULES)}; for others "
            "compare two versions (hf-pct compare OLD NEW)."
        )
    if chain.left_out and not config.allow_partial:
        raise NotComparableError(
            f"The chain leaves out {chain.left_out} rows that not every version answered. Predict all versions on the "
            "same data, or set allow_partial (--allow_partial) to judge what there is."
        )
    problems = [*_chain_problems(chain)]
    if problems:
        raise NotComparableError("The chain contradicts itself: " + "; ".join(problems) + ". Make it again.")
    return GateResult(tuple(_check(rule, limit, chain) for rule, limit in rules.items()))


def _chain_problems(chain: ChainReport) -> Iterable[str]:
    size = len(chain.versions)
    lengths = (len(chain.accuracy), len(chain.nfr), len(chain.cumulative_nfr), len(chain.replaced) + 1)
    if size < 2 or any(length != size for length in lengths) or any(len(row) != size for row in chain.nfr):
        yield f"{size} versions, and numbers for {', '.join(map(str, lengths))}"
        return
    for name, row, counts in zip(chain.versions, chain.nfr, chain.replaced, strict=False):
        if not 0 < counts.total <= chain.rows + chain.left_out or abs(row[-1] - counts.nfr) > _CLOSE:
            yield f"NFR against {name} is {row[-1]:.6g}, its counts say {counts.nfr:.6g} of {counts.total} rows"
    if not max(row[-1] for row in chain.nfr) - 1e-6 <= 1 or not 0 <= chain.cumulative_nfr[-1] <= 1:
        yield "a rate is not between 0 and 1"


def _check(rule: str, limit: float, chain: ChainReport) -> RuleResult:
    if rule == "min_rows":
        value, where = float(min(counts.total for counts in chain.replaced)), ""
    elif rule == "max_cumulative_nfr":
        value, where = chain.cumulative_nfr[-1], f"right in some version before {chain.versions[-1]}"
    else:
        measured = [(_measure(rule, counts, len(chain.replaced)), name)
                 for counts, name in zip(chain.replaced, chain.versions, strict=False)]  # fmt: skip
        value, name = min(measured) if rule.startswith("min_") else max(measured)
        where = f"{name} replaced by {chain.versions[-1]}"
    passed = value >= limit if rule.startswith("min_") else value <= limit
    return RuleResult(rule, value, limit, passed, where)


def _measure(rule: str, counts: FlipCounts, earlier: int) -> float:
    level = joint_confidence(CHAIN_CONFIDENCE, earlier)
    if rule == "max_nfr":
        return counts.nfr
    if rule == "max_nfr_upper":
        return upper_bound(counts.negative_flips, counts.total, level)
    if rule == "min_accuracy_gain":
        return counts.accuracy_gain
    bound = non_inferiority(counts.negative_flips, counts.positive_flips, counts.total, 0.0, level).lower_bound
    return max(0.0, -bound)
