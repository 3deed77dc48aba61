"""Small prediction tables for the tests of the measuring room."""

import numpy as np

from hf_pct import Predictions
from hf_pct.flips.predictions import Provenance

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
