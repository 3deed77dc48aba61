"""TrafficReport: what two models' answers to unlabelled traffic show, and what the labels of some of them prove."""

import json
import math
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path

from ..._version import __version__
from ...core.decode import JsonObject, check_format, convert, load_json
from ...core.errors import NotComparableError
from ...core.files import write_text
from ..stats import Interval, clopper_pearson
from .differences import Traffic
from .estimate import Estimate, TrafficLabels
from .labels import FilledLabels, count_strata
from .sampling import SequentialVerdict, decide

FORMAT = "hf_pct.traffic_report"
FORMAT_VERSION = 1


@dataclass(frozen=True)
class TrafficReport:
    """Counts only: every rate and bound is computed from them when asked for.

    Without `labels` there is churn and nothing more. `verdict` is there when a limit was to be decided after every
    label.
    """

    rows: int
    differ: int
    confidence: float = 0.95
    pairs: list[tuple[str, str, int]] = field(default_factory=list)
    labels: TrafficLabels | None = None
    verdict: SequentialVerdict | None = None
    old_model: str | None = None
    new_model: str | None = None
    left_out: int = 0
    notes: list[str] = field(default_factory=list)
    version: str = __version__

    def __post_init__(self) -> None:
        problems = []
        if not 0 <= self.differ <= self.rows or self.rows < 1:
            problems.append(f"{self.differ} of {self.rows} rows differ")
        if self.labels and (self.labels.rows, self.labels.differ) != (self.rows, self.differ):
            problems.append(
                f"the labels are about {self.labels.differ} of {self.labels.rows} rows, the report about "
                f"{self.differ} of {self.rows}"
            )
        if problems:
            raise ValueError(f"The counts of this traffic report do not fit: {'; '.join(problems)}.")

    @property
    def churn(self) -> float:
        return self.differ / self.rows

    def churn_interval(self) -> Interval:
        """Where the churn of future traffic lies; that of this traffic is known exactly."""
        return clopper_pearson(self.differ, self.rows, self.confidence)

    def _labelled(self) -> TrafficLabels:
        if self.labels is None:
            raise NotComparableError(
                "The traffic report has no labels, so it knows churn and not who is right. Label some of the "
                "differing rows: hf-pct label-plan, then hf-pct traffic --labels."
            )
        return self.labels

    @property
    def nfr(self) -> Estimate:
        return self._labelled().rate("old")

    @property
    def pfr(self) -> Estimate:
        return self._labelled().rate("new")

    @property
    def gain(self) -> Estimate:
        return self._labelled().gain()

    def to_dict(self) -> JsonObject:
        """Plain values: the counts, and for readers the numbers that follow from them."""
        data = {"format": FORMAT, "format_version": FORMAT_VERSION, **asdict(self), "churn": self.churn}
        if self.labels is not None:
            data["estimates"] = {name: asdict(getattr(self, name)) for name in ("nfr", "pfr", "gain")}
        return data

    @classmethod
    def from_dict(cls, data: Mapping[str, object], source: str = "the report") -> "TrafficReport":
        """The report that `to_dict` described; what follows from the counts is computed again."""
        check_format(data, FORMAT, FORMAT_VERSION, "a traffic report", source)
        fields = {name: data[name] for name in cls.__dataclass_fields__ if name in data}
        report = convert(fields, cls, source)
        report._check_written(data, source)
        return report

    def _check_written(self, data: Mapping[str, object], source: str) -> None:
        """Refuse a file whose numbers for readers are not those that follow from its counts."""
        computed = json.loads(json.dumps(self.to_dict()))
        for name in ("churn", "estimates"):
            if name in data and not _near(data[name], computed.get(name)):
                raise ValueError(
                    f"{source}: {name} is not what follows from its counts, so one of them was changed. Make the "
                    "report again with hf-pct traffic."
                )

    def save(self, path: str | os.PathLike, overwrite: bool = False) -> Path:
        """Write the JSON file, whole or not at all."""
        return write_text(path, json.dumps(self.to_dict(), indent=2, ensure_ascii=False) + "\n", overwrite)

    @classmethod
    def load(cls, path: str | os.PathLike) -> "TrafficReport":
        """Read a report written by `save` or by `hf-pct traffic`."""
        return cls.from_dict(load_json(path, "a traffic report (JSON) as hf-pct traffic writes it"), str(path))

    def remarks(self) -> list[str]:
        """What a reader must know before trusting the numbers."""
        left_out = f"PARTIAL: {self.left_out:,} rows that only one side answered were left out."
        return [*([left_out] if self.left_out else []), *self.notes]

    def sentence(self) -> str:
        """The traffic in one sentence."""
        from ..render.traffic import traffic_sentence

        return traffic_sentence(self)

    def to_text(self) -> str:
        """A screenful for a terminal."""
        from ..render.traffic import traffic_text

        return traffic_text(self)


def _near(written: object, computed: object) -> bool:
    """Whether plain values are alike up to rounding."""
    if isinstance(written, dict) and isinstance(computed, dict):
        return written.keys() == computed.keys() and all(_near(written[key], computed[key]) for key in written)
    if isinstance(written, (int, float)) and isinstance(computed, (int, float)):
        return math.isclose(written, computed, rel_tol=1e-6, abs_tol=1e-9)
    return written == computed


def traffic_report(
    traffic: Traffic,
    filled: FilledLabels | None = None,
    *,
    confidence: float = 0.95,
    future: bool = False,
    max_nfr: float | None = None,
) -> TrafficReport:
    """Put a comparison of answers and the labels of some of them into one report.

    Args:
        traffic: two models' answers, as `compare_traffic` joins them.
        filled: labels of differing rows, as `read_labels` reads them.
        confidence: of every interval and bound.
        future: estimate rates of future traffic from the same source, not of these very rows.
        max_nfr: decide after every label whether NFR is at most this; the labels up to the first gap are used.
    """
    labels, verdict, notes = None, None, list(filled.notes) if filled else []
    if max_nfr is not None:
        if future:
            raise ValueError(
                "A verdict after every label is about this traffic; future and max_nfr exclude each other."
            )
        used = filled.before_the_first_gap() if filled else ()
        count_strata(used, traffic)  # refuses strata that do not fit
        verdict = decide((label.right for label in used), traffic.differ, traffic.rows, max_nfr, confidence)
        used = used[: verdict.labels_used]
    elif filled:
        used = filled.labels
    else:
        used = ()
    if used:
        strata = count_strata(used, traffic)
        labels = TrafficLabels(traffic.rows, strata, confidence, future, sequential=max_nfr is not None)
    return TrafficReport(
        rows=traffic.rows,
        differ=traffic.differ,
        confidence=confidence,
        pairs=[(old, new, count) for (old, new), count in traffic.pairs()],
        labels=labels,
        verdict=verdict,
        old_model=traffic.old_model,
        new_model=traffic.new_model,
        left_out=traffic.left_out,
        notes=notes,
    )
