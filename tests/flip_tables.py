"""Small prediction tables for the tests of the measuring room."""

import numpy as np

from hf_pct import Predictions
from hf_pct.flips.tables.predictions import Provenance

NAMES = ["no", "yes", "maybe"]


def side(answers, labels, *, names=NAMES, ids=None, columns=None, fingerprint=None, logits=None):
    ids = [f"r{index}" for index in range(len(labels))] if ids is None else ids
    source = Provenance(model="m", fingerprint=fingerprint)
    return Predictions(ids, labels, answers, label_names=names, columns=columns, provenance=source, logits=logits)


def random_pair(seed=0, rows=400, **options):
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, 3, rows)
    old = np.where(rng.random(rows) < 0.8, labels, rng.integers(0, 3, rows))
    new = np.where(rng.random(rows) < 0.6, old, rng.integers(0, 3, rows))
    to_names = np.array(NAMES)
    return (
        side(to_names[old].tolist(), to_names[labels].tolist(), **options),
        side(to_names[new].tolist(), to_names[labels].tolist(), **options),
        (old, new, labels),
    )


def member(logits, labels, *, name=None, names=NAMES, ids=None, **options):
    """One model's table with logits; `labels` are columns of `names`."""
    ids = [f"r{index}" for index in range(len(labels))] if ids is None else ids
    return Predictions(ids, labels, logits=logits, label_names=names, provenance=Provenance(model=name), **options)


def drawn_members(count, seed=0, rows=40, spread=1.0, shift=0.0, names=NAMES):
    """Runs of one recipe: logits that scatter around a mean of their own in each row (same rows for every seed)."""
    fixed = np.random.default_rng(99)
    labels = fixed.integers(0, len(names), rows)
    mean = 2 * np.eye(len(names))[labels] + fixed.normal(size=(rows, len(names))) + shift
    rng = np.random.default_rng(seed)
    noise = spread * rng.normal(size=(count, rows, len(names)))
    return [member(mean + drawn, labels, name=f"s{seed}.{at}", names=names) for at, drawn in enumerate(noise)]


def shuffled(table, seed=0):
    """The same answers with rows and classes in another order."""
    rng = np.random.default_rng(seed)
    rows, columns = rng.permutation(len(table)), rng.permutation(len(table.label_names))
    names = [table.label_names[at] for at in columns]
    ids = [table.ids[int(at)].as_py() for at in rows]
    labels = table.labels[rows].tolist()
    return Predictions(
        ids, labels, logits=table.logits[rows][:, columns], label_names=names, provenance=table.provenance
    )
