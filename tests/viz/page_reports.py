"""Reports for the tests of the page: small ones with nasty text, and long ones."""

from dataclasses import replace

import numpy as np
import pyarrow as pa

from hf_pct import FlipReport, Predictions, compare
from hf_pct.flips.tables.predictions import Provenance

NASTY = "</script><img src=x onerror=\"document.title='owned'\"><!--"
INTENTS = ["alarm_set", "alarm_stop", "music_play", "weather", NASTY]


def small_report(rows: int = 400, seed: int = 0, **options) -> FlipReport:
    """Texts, two slices, confidences, and hostile text as a label, as a text, as a slice value and as a model name."""
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, 5, rows)
    sides = []
    for name, shift in (("old", 1.6), (f"new {NASTY}", 2.0)):
        logits = rng.normal(0, 1, (rows, 5))
        logits[np.arange(rows), labels] += shift
        columns = {
            "text": [
                NASTY if row % 50 == 7 else f"say {INTENTS[labels[row]][:7]} number {row} ünï" for row in range(rows)
            ],
            "channel": [("app", "phone", NASTY)[row % 3] for row in range(rows)],
            "verified": [row % 2 == 0 for row in range(rows)],
            "user": [f"user-{row // 2}" for row in range(rows)],
        }
        ids = [f"row/{row} %" for row in range(rows)]
        source = Provenance(model=name, dataset="tests", versions={"torch": "2.13.0"})
        right = [INTENTS[label] for label in labels]
        sides.append(Predictions(ids, right, logits=logits, label_names=INTENTS, columns=columns, provenance=source))
    return compare(*sides, slices=["channel", "verified"], **options)


def long_report(flips: int) -> FlipReport:
    """A report with this many flipped rows, each with a sentence."""
    rng = np.random.default_rng(0)
    base = small_report()
    names = np.array([f"intent_{number:02d}" for number in range(60)])
    label = rng.integers(0, 60, flips)
    other = (label + rng.integers(1, 60, flips)) % 60
    broken = np.arange(flips) < flips * 0.6
    table = {
        "id": [f"row-{number:06d}" for number in range(flips)],
        "kind": np.where(broken, "negative", "positive").tolist(),
        "label": names[label].tolist(),
        "old_answer": names[np.where(broken, label, other)].tolist(),
        "new_answer": names[np.where(broken, other, label)].tolist(),
        "old_confidence": rng.random(flips).round(6),
        "new_confidence": rng.random(flips).round(6),
        "text": [
            f"sentence number {number} about intent {label[number]} and some more words" for number in range(flips)
        ],
        "channel": rng.choice(["app", "phone", "web"], flips).tolist(),
    }
    return replace(base, flips=pa.table(table), slices={"channel": base.slices["channel"]})


def curve_rows() -> list[dict[str, float]]:
    """An alpha curve as a merge measures it."""
    rows = []
    for step in range(11):
        alpha = step / 10
        accuracy, nfr = 0.83 + 0.02 * (1 - alpha) + 0.01 * alpha * (1 - alpha), 0.028 * (1 - alpha) ** 2
        row = {"alpha": alpha, "accuracy": accuracy, "nfr": nfr, "gain": accuracy - 0.83}
        for name, value in (("accuracy", accuracy), ("nfr", nfr)):
            row |= {f"{name}_low": max(0.0, value - 0.01), f"{name}_high": value + 0.01, f"ensemble_{name}": value}
        rows.append(row)
    return rows


CHAIN = {"versions": ["v1", "v2", "v3"], "nfr": [[0, 0.03, 0.04], [0.02, 0, 0.03], [0.01, 0.02, 0]]}
