"""Which queries find a gallery row of their class, and how far down the list."""

from __future__ import annotations

import numpy as np

from .embeddings import Embeddings

DISTANCES = ("cosine", "euclidean")
_CELLS = 1 << 24
"""Similarities computed at a time: 64 MB of float32."""


def answerable(queries: Embeddings, gallery: Embeddings) -> np.ndarray:
    """The queries (a mask) with a row of their class in the gallery, itself aside: only these can be answered."""
    classes, codes = np.unique(np.concatenate([gallery.labels, queries.labels]), return_inverse=True)
    counts = np.bincount(codes[: len(gallery)], minlength=len(classes))[codes[len(gallery) :]]
    own = _own_places(queries, gallery)
    itself = (own >= 0) & (gallery.labels[np.maximum(own, 0)] == queries.labels)
    return counts - itself > 0


def first_hits(queries: Embeddings, gallery: Embeddings, distance: str = "cosine") -> np.ndarray:
    """For each query, how many rows of other classes are at least as near as the nearest row of its own class.

    recall@k is the share of queries where this is below k. Ties count against the query, so the order of the gallery
    does not matter, and features that are all equal find nothing. A gallery row with the query's id is left out.
    """
    _classes, codes = np.unique(np.concatenate([gallery.labels, queries.labels]), return_inverse=True)
    gallery_codes, query_codes = codes[: len(gallery)], codes[len(gallery) :]
    own = _own_places(queries, gallery)
    targets = _prepared(gallery.vectors, distance)
    sources = _prepared(queries.fitted_to(gallery.width), distance)
    halved_squares = 0.5 * np.square(targets).sum(1)
    ranks = np.empty(len(queries), dtype=np.int64)
    block = max(1, _CELLS // max(len(gallery), 1))
    for start in range(0, len(queries), block):
        span = slice(start, min(start + block, len(queries)))
        nearness = sources[span] @ targets.T
        if distance == "euclidean":
            nearness -= halved_squares
        lines = np.flatnonzero(own[span] >= 0)
        nearness[lines, own[span][lines]] = -np.inf
        same = gallery_codes[None] == query_codes[span, None]
        best = np.where(same, nearness, -np.inf).max(1)
        ranks[span] = ((nearness >= best[:, None]) & ~same).sum(1)
    return ranks


def _prepared(vectors: np.ndarray, distance: str) -> np.ndarray:
    if distance == "euclidean":
        return vectors
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    return vectors / np.where(lengths > 0, lengths, 1.0)


def _own_places(queries: Embeddings, gallery: Embeddings) -> np.ndarray:
    """The place of each query in the gallery; -1 for one that is not there."""
    order = np.argsort(gallery.ids)
    places = np.minimum(np.searchsorted(gallery.ids[order], queries.ids), len(gallery) - 1)
    return np.where(gallery.ids[order][places] == queries.ids, order[places], -1)
