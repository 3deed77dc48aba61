"""One old model, several candidates: a flip report of each on the same rows, and paired differences between them."""

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np

from ..._version import __version__
from ...core.decode import JsonObject, check_format, convert, load_json
from ...core.errors import NotComparableError
from ...core.files import write_text
from ..aligned_rows import AlignedRows
from ..compare import compare
from ..pairing import Pair, pair_predictions
from ..report import FlipReport
from ..report_files import plain, seal
from ..stats import Clusters, Difference, check_confidence, holm, paired_bootstrap
from ..studies.member_tables import check_tables, table_names
from ..tables.predictions import Predictions

FORMAT = "hf_pct.candidates"
FORMAT_VERSION = 1


@dataclass(frozen=True)
class CandidateDifference:
    """`first` minus `second` on the same rows, in NFR and in accuracy; p-values are corrected for all pairs (Holm)."""

    first: str
    second: str
    nfr: Difference
    nfr_p: float
    accuracy: Difference
    accuracy_p: float


@dataclass(frozen=True)
class CandidatesReport:
    """Candidates to replace one old model, on the same rows.

    `reports` has one FlipReport for each, without the flipped rows. Choosing the best of several means looking
    several times: the bounds of every report hold for all candidates together with `confidence`, and the intervals of
    the differences for all pairs together.
    `broken_by_all` counts the rows that every candidate breaks, `broken_by_any` those that at least one does.

    Example:
        >>> from hf_pct import Predictions, compare_several
        >>> old, new = (Predictions([1, 2], ["yes", "no"], answers) for answers in (["yes", "no"], ["yes", "yes"]))
        >>> report = compare_several(old, [old, new], ["same", "new"])
        >>> report.front, report.broken_by_all, report.broken_by_any
        (('same',), 0, 1)
    """

    names: tuple[str, ...]
    reports: tuple[FlipReport, ...]
    differences: tuple[CandidateDifference, ...]
    broken_by_all: int
    broken_by_any: int
    confidence: float = 0.95
    version: str = __version__
    edited: str = ""

    @property
    def old_name(self) -> str:
        """What to call the old model."""
        return self.reports[0].old.model or "old model"

    @property
    def front(self) -> tuple[str, ...]:
        """The candidates that no other beats in both NFR and accuracy, fewest flips first."""
        best, kept = -1.0, []
        for name, report in sorted(self.items(), key=lambda entry: (entry[1].nfr, -entry[1].counts.new_accuracy)):
            if report.counts.new_accuracy > best:
                best = report.counts.new_accuracy
                kept.append(name)
        return tuple(kept)

    def items(self) -> list[tuple[str, FlipReport]]:
        """Names with their reports."""
        return list(zip(self.names, self.reports, strict=True))

    def to_dict(self) -> JsonObject:
        """Plain values. Each report has a seal of its own, and the whole has one over all of them."""
        data: JsonObject = {
            "format": FORMAT,
            "format_version": FORMAT_VERSION,
            "names": list(self.names),
            "confidence": self.confidence,
            "broken_by_all": self.broken_by_all,
            "broken_by_any": self.broken_by_any,
            "differences": [plain(entry) for entry in self.differences],
            "reports": [report.to_dict(flips=False) for report in self.reports],
            "version": self.version,
        }
        return {**data, "seal": _seal(data)}

    @classmethod
    def from_dict(cls, data: Mapping[str, object], source: str = "This") -> "CandidatesReport":
        """The report that `to_dict` described. Refuses what is not one, and what a newer hf_pct wrote."""
        check_format(data, FORMAT, FORMAT_VERSION, "a report of candidates", source)
        written = convert({name: data[name] for name in _Written.__annotations__ if name in data}, _Written, source)
        names = written.names
        if not names or len(set(names)) < len(names) or len(names) != len(written.reports):
            raise NotComparableError(
                f"{source} has {len(names)} names for {len(written.reports)} reports, expected a name of its own for "
                "each of at least one. It was changed or damaged; make it again with hf-pct compare --candidates."
            )
        edited = "" if data.get("seal") == _seal(data) else (
            "The numbers of the candidates were changed after they were written. Make them again with hf-pct compare."
        )  # fmt: skip
        return cls(
            names=tuple(written.names),
            reports=tuple(FlipReport.from_dict(entry) for entry in written.reports),
            differences=tuple(written.differences),
            broken_by_all=written.broken_by_all,
            broken_by_any=written.broken_by_any,
            confidence=written.confidence,
            version=written.version,
            edited=edited,
        )

    def save(self, path: str | os.PathLike, overwrite: bool = False) -> Path:
        """Write the JSON file, whole or not at all."""
        return write_text(path, json.dumps(self.to_dict(), indent=2, ensure_ascii=False) + "\n", overwrite)

    @classmethod
    def load(cls, path: str | os.PathLike) -> "CandidatesReport":
        """Read what `save` or `hf-pct compare --candidates` wrote."""
        data = load_json(path, "candidates.json as `hf-pct compare --candidates` writes it")
        return cls.from_dict(data, str(path))

    def sentence(self) -> str:
        """The candidates in one sentence."""
        from ..render.candidates import candidates_sentence

        return candidates_sentence(self)

    def remarks(self) -> list[str]:
        """What a reader must know before trusting the numbers."""
        from ..render.candidates import candidates_remarks

        return candidates_remarks(self)

    def to_markdown(self) -> str:
        """The table, and the differences between the candidates."""
        from ..render.candidates import candidates_markdown

        return candidates_markdown(self)


@dataclass(frozen=True)
class _Written:
    """What the file must hold, of which types."""

    names: list[str]
    confidence: float
    broken_by_all: int
    broken_by_any: int
    differences: list[CandidateDifference]
    reports: list[JsonObject]
    version: str = __version__


def _seal(data: Mapping[str, object]) -> str:
    reports = data.get("reports")
    listed = reports if isinstance(reports, list) else []
    seals = [entry.get("seal") if isinstance(entry, Mapping) else None for entry in listed]
    return seal({**data, "reports": seals})


def compare_several(
    old: Predictions,
    candidates: Sequence[Predictions],
    names: Sequence[str] | None = None,
    *,
    confidence: float = 0.95,
    cluster: str | None = None,
    **options: Any,
) -> CandidatesReport:
    """Compare an old model with every candidate to replace it, and the candidates with each other.

    Args:
        old: the predictions of the model that is in use.
        candidates: the predictions of each candidate, on the same rows.
        names: what to call them; by default what their provenance says.
        confidence: of the bounds of all candidates together.
        cluster: a column whose rows belong together; see `compare`.
        options: further options of `compare`: slices, weight, old_rerun, correction, accuracy_margin, ...

    Example:
        >>> from hf_pct import Predictions, compare_several
        >>> ids, labels = list(range(8)), ["yes"] * 8
        >>> old = Predictions(ids, labels, ["yes"] * 7 + ["no"])
        >>> one = Predictions(ids, labels, ["no"] * 2 + ["yes"] * 6)
        >>> two = Predictions(ids, labels, ["no"] + ["yes"] * 7)
        >>> report = compare_several(old, [one, two], ["one", "two"])
        >>> [result.nfr for result in report.reports], report.front, report.differences[0].nfr.estimate
        ([0.25, 0.125], ('two',), 0.125)
    """
    check_confidence(confidence)
    check_tables(candidates, "candidate")
    if not candidates:
        raise ValueError("There are no candidates, expected at least one beside the old model.")
    if options.pop("allow_partial", False):
        raise ValueError(
            "allow_partial is not for several candidates: each would be judged on other rows. Predict all of them on "
            "the same data, or compare two at a time."
        )
    labels = table_names(candidates, names, "candidate", "candidate ")
    level = joint_confidence(confidence, len(candidates))
    reports = [compare(old, table, confidence=level, cluster=cluster, **options) for table in candidates]
    pairs = [
        pair_predictions(old, table, ignore_spelling=options.get("ignore_spelling", False)) for table in candidates
    ]
    counted = _by_old_row(pairs[0], pairs[0].old_classes_mask())
    groups = None
    if cluster is not None:
        column = AlignedRows(pairs[0], np.ones(len(pairs[0].labels), bool)).arrow(cluster).to_numpy()
        groups = _by_old_row(pairs[0], Clusters.of(column, cluster).codes)[counted]
    right = [_by_old_row(pair, pair.new_answers == pair.labels)[counted] for pair in pairs]
    old_right = _by_old_row(pairs[0], pairs[0].old_answers == pairs[0].labels)[counted]
    broken = [old_right & ~candidate for candidate in right]
    return CandidatesReport(
        names=labels,
        reports=tuple(reports),
        differences=_differences(labels, broken, right, groups, confidence),
        broken_by_all=int(np.logical_and.reduce(broken).sum()),
        broken_by_any=int(np.logical_or.reduce(broken).sum()),
        confidence=confidence,
    )


def joint_confidence(confidence: float, count: int) -> float:
    """The confidence of each of so many bounds, so that all of them hold together with `confidence` (Bonferroni)."""
    return 1 - (1 - confidence) / max(count, 1)


def _by_old_row(pair: Pair, values: np.ndarray) -> np.ndarray:
    """Values of a pair in the order of the old table, which is the same for every candidate."""
    ordered = np.empty_like(values)
    ordered[pair.old_rows] = values
    return ordered


def _differences(
    names: Sequence[str],
    broken: Sequence[np.ndarray],
    right: Sequence[np.ndarray],
    groups: np.ndarray | None,
    confidence: float,
) -> tuple[CandidateDifference, ...]:
    pairs = list(combinations(range(len(names)), 2))
    level = joint_confidence(confidence, len(pairs))
    flips = [paired_bootstrap(broken[i], broken[j], groups, confidence=level) for i, j in pairs]
    gains = [paired_bootstrap(right[i], right[j], groups, confidence=level) for i, j in pairs]
    flip_ps, gain_ps = holm([entry.p_value for entry in flips]), holm([entry.p_value for entry in gains])
    return tuple(
        CandidateDifference(names[i], names[j], flip, float(flip_p), gain, float(gain_p))
        for (i, j), flip, flip_p, gain, gain_p in zip(pairs, flips, flip_ps, gains, gain_ps, strict=True)
    )
