"""`compare_retrieval`: is a new embedding compatible with a gallery that the old model filled? NumPy only."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from ...core.decode import JsonObject
from ...core.errors import NotComparableError
from ..counts import FlipCounts
from ..stats import Interval, accuracy_gain_interval, clopper_pearson
from ..tables.predictions import Predictions
from .embeddings import Embeddings
from .feature_maps import read_feature_map
from .search import DISTANCES, answerable, first_hits

OLD_OLD, NEW_OLD, NEW_NEW = "old-old", "new-old", "new-new"
_MEANING = {OLD_OLD: "the old system", NEW_OLD: "new queries, no backfill", NEW_NEW: "backfilled"}


@dataclass(frozen=True)
class HitFlips:
    """The first hits of one search against the old system's: broken ones, repaired ones, and how sure that is."""

    counts: FlipCounts
    nfr_interval: Interval
    gain_interval: Interval

    @classmethod
    def between(cls, before: np.ndarray, after: np.ndarray, confidence: float) -> HitFlips:
        """From masks of the queries whose first hit is right."""
        broken, fixed = int((before & ~after).sum()), int((~before & after).sum())
        both_right, total = int((before & after).sum()), len(before)
        counts = FlipCounts(both_right, broken, fixed, 0, total - both_right - broken - fixed)
        gain = accuracy_gain_interval(broken, fixed, total, confidence)
        return cls(counts, clopper_pearson(broken, total, confidence), gain)

    def to_dict(self) -> JsonObject:
        return {
            "negative_flips": self.counts.negative_flips,
            "positive_flips": self.counts.positive_flips,
            "nfr": self.counts.nfr,
            "nfr_low": self.nfr_interval.low,
            "nfr_high": self.nfr_interval.high,
            "gain": self.counts.accuracy_gain,
            "gain_low": self.gain_interval.low,
            "gain_high": self.gain_interval.high,
        }


@dataclass(frozen=True)
class RetrievalReport:
    """recall@k of each search, and the flips of first hits against the old system.

    `criterion` is the update criterion of backward-compatible training: new queries on the old gallery find more than
    the old system does. `shown` says whether that is beyond chance on these queries.
    """

    recall: dict[str, dict[int, float]]
    flips: dict[str, HitFlips]
    queries: int
    unanswerable: int
    gallery: int
    widths: tuple[int, int]
    distance: str
    confidence: float
    mapped: bool = False

    @property
    def criterion(self) -> bool:
        return self.flips[NEW_OLD].counts.accuracy_gain > 0

    @property
    def shown(self) -> bool:
        return self.flips[NEW_OLD].gain_interval.low > 0

    def to_dict(self) -> JsonObject:
        return {
            "recall": {name: {str(k): value for k, value in row.items()} for name, row in self.recall.items()},
            "flips": {name: flips.to_dict() for name, flips in self.flips.items()},
            "criterion": self.criterion,
            "shown": self.shown,
            "queries": self.queries,
            "unanswerable": self.unanswerable,
            "gallery": self.gallery,
            "widths": list(self.widths),
            "mapped": self.mapped,
            "distance": self.distance,
            "confidence": self.confidence,
        }

    def to_json(self) -> str:
        return json.dumps(self.to_dict(), indent=2) + "\n"

    def to_text(self) -> str:
        """What a person reads: one line per search, then the criterion."""
        lines = [f"{self.queries} queries, {self.gallery} gallery rows, {self.distance} distance"]
        if self.unanswerable:
            lines.append(f"left out: {self.unanswerable} queries whose class has no other row in the gallery")
        if self.mapped:
            lines.append(
                f"new queries reach the old gallery by a learnt map, {self.widths[1]} to {self.widths[0]} features"
            )
        elif self.widths[0] != self.widths[1]:
            lines.append(f"new queries are cut or padded from {self.widths[1]} to the old gallery's {self.widths[0]}")
        for name, row in self.recall.items():
            rates = "   ".join(f"recall@{k} {100 * value:.2f} %" for k, value in row.items())
            lines.append(f"  {name} ({_MEANING[name]}): {rates}")
            if name in self.flips:
                lines.append(f"    {_describe(self.flips[name])}")
        lines.append(f"update criterion, {NEW_OLD} above {OLD_OLD}: {self._verdict()}")
        return "\n".join(lines)

    def _verdict(self) -> str:
        if not self.criterion:
            return "does not hold"
        return "holds" if self.shown else f"holds here, but not beyond chance at {self.confidence:.0%}"


def compare_retrieval(
    old_gallery: Predictions | Embeddings,
    old_queries: Predictions | Embeddings,
    new_queries: Predictions | Embeddings,
    new_gallery: Predictions | Embeddings | None = None,
    *,
    ks: Sequence[int] = (1, 5),
    distance: str = "cosine",
    confidence: float = 0.95,
    feature_map: np.ndarray | str | Path | None = None,
) -> RetrievalReport:
    """What a search finds before the update, with new queries on the old gallery, and after backfilling.

    Args:
        old_gallery: the rows that are searched, embedded by the old model: predictions with features, or `Embeddings`.
        old_queries: the queries embedded by the old model. A query is never its own hit.
        new_queries: the same queries embedded by the new model; of another width, they are cut or padded.
        new_gallery: the same gallery embedded by the new model; left out, the new-new search is not reported.
        ks: the k of recall@k; 1 is always among them.
        distance: "cosine" or "euclidean".
        confidence: of the intervals.
        feature_map: the matrix [old width, new width] through which new queries search the old gallery, or the file or
            model folder that has it, as training with `feature_map="linear"` writes it.

    Example:
        >>> import numpy as np
        >>> from hf_pct import compare_retrieval
        >>> from hf_pct.flips.retrieval.embeddings import Embeddings
        >>> gallery = Embeddings.from_arrays(["a", "b"], ["cat", "dog"], np.eye(2), "gallery")
        >>> queries = Embeddings.from_arrays(["c", "d"], ["cat", "dog"], np.eye(2)[::-1], "queries")
        >>> better = Embeddings.from_arrays(["c", "d"], ["cat", "dog"], np.eye(2), "queries")
        >>> report = compare_retrieval(gallery, queries, better, ks=(1,))
        >>> report.recall["old-old"], report.recall["new-old"], report.criterion
        ({1: 0.0}, {1: 1.0}, True)
    """
    _check_settings(ks, distance, confidence)
    gallery = Embeddings.of(old_gallery, "the old gallery")
    queries = Embeddings.of(old_queries, "the old queries")
    _check_width(queries, gallery)
    asked = Embeddings.of(new_queries, "the new queries").in_order_of(queries)
    mapped = asked if feature_map is None else asked.mapped(_matrix(feature_map), gallery.width)
    searches = {OLD_OLD: (queries, gallery), NEW_OLD: (mapped, gallery)}
    if new_gallery is not None:
        backfilled = Embeddings.of(new_gallery, "the new gallery").in_order_of(gallery)
        _check_width(asked, backfilled)
        searches[NEW_NEW] = (asked, backfilled)
    kept = answerable(queries, gallery)
    if not kept.any():
        raise NotComparableError(
            "No query has a row of its class in the gallery, itself aside, so nothing can be found. Expected queries "
            "and gallery with the same labels."
        )
    ranks = {name: first_hits(*pair, distance)[kept] for name, pair in searches.items()}
    levels = sorted({1, *ks})
    right = ranks[OLD_OLD] < 1
    return RetrievalReport(
        recall={name: {k: float((rank < k).mean()) for k in levels} for name, rank in ranks.items()},
        flips={name: HitFlips.between(right, rank < 1, confidence) for name, rank in ranks.items() if name != OLD_OLD},
        queries=int(kept.sum()),
        unanswerable=int((~kept).sum()),
        gallery=len(gallery),
        widths=(gallery.width, asked.width),
        distance=distance,
        confidence=confidence,
        mapped=feature_map is not None,
    )


def _matrix(feature_map: np.ndarray | str | Path) -> np.ndarray:
    return read_feature_map(feature_map) if isinstance(feature_map, str | Path) else np.asarray(feature_map)


def _describe(flips: HitFlips) -> str:
    counts, level = flips.counts, flips.nfr_interval
    return (
        f"first hits against the old system: {counts.negative_flips} broken, {counts.positive_flips} repaired; NFR "
        f"{100 * counts.nfr:.2f} % [{100 * level.low:.2f}, {100 * level.high:.2f}], gain "
        f"{100 * counts.accuracy_gain:+.2f} [{100 * flips.gain_interval.low:+.2f}, "
        f"{100 * flips.gain_interval.high:+.2f}] points"
    )


def _check_settings(ks: Sequence[int], distance: str, confidence: float) -> None:
    problems = (
        [] if ks and all(k >= 1 and k == int(k) for k in ks) else [f"ks={list(ks)}: expected whole numbers >= 1"]
    )
    if distance not in DISTANCES:
        problems.append(f"distance={distance!r}: expected one of {', '.join(DISTANCES)}")
    if not 0 < confidence < 1:
        problems.append(f"confidence={confidence!r}: expected a fraction between 0 and 1")
    if problems:
        raise ValueError("This retrieval cannot be compared:\n  " + "\n  ".join(problems))


def _check_width(queries: Embeddings, gallery: Embeddings) -> None:
    if queries.width != gallery.width:
        raise NotComparableError(
            f"{queries.name} have {queries.width} features and {gallery.name} has {gallery.width}, but one model made "
            "both. Expected the queries and the gallery of the same version."
        )
