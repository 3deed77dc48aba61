"""Small tables of scores for the tests."""

import numpy as np

from hf_pct import Scores
from hf_pct.flips.tables.predictions import Provenance


def scored(values, *, ids=None, metric="acc", model="m", **options):
    ids = [f"r{index}" for index in range(len(values))] if ids is None else ids
    return Scores(ids, {metric: values}, provenance=Provenance(model=model), **options)


def random_scores(seed=0, rows=300, right=0.7, graded=False, **options):
    rng = np.random.default_rng(seed)
    values = rng.random(rows) if graded else (rng.random(rows) < right).astype(float)
    return scored(values.tolist(), **options)


def repeated(seed, rates, runs, **options):
    """Every item run several times, right with its own chance."""
    rng = np.random.default_rng(seed)
    values = (rng.random((len(rates), runs)) < np.asarray(rates)[:, None]).astype(float)
    ids = np.repeat([f"r{index}" for index in range(len(rates))], runs).tolist()
    return scored(values.ravel().tolist(), ids=ids, repeats=np.tile(np.arange(runs), len(rates)), **options)
