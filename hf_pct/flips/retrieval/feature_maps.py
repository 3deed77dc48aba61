"""The linear layer that training may learn beside a model: from its features to those of an old gallery."""

from __future__ import annotations

from pathlib import Path

import numpy as np

FEATURE_MAP = "feature_map.safetensors"
"""The file beside the weights of a model whose training learnt a map (`bct` with `feature_map=linear`)."""


def read_feature_map(path: str | Path, reference: str = "old") -> np.ndarray:
    """The matrix [old width, new width] of a file, or of the file in a model's folder; for the model in service."""
    from safetensors import SafetensorError
    from safetensors.numpy import load_file

    source = Path(path)
    source = source / FEATURE_MAP if source.is_dir() else source
    try:
        stored = load_file(source)
    except (OSError, SafetensorError) as error:
        raise ValueError(
            f"{source} is no map of features: {error}. Expected the {FEATURE_MAP} that training with "
            "feature_map=linear writes."
        ) from None
    key = f"{reference}.weight"
    if key not in stored or stored[key].ndim != 2:
        raise ValueError(f"{source} has {', '.join(stored) or 'nothing'}, expected a matrix {key}.")
    return stored[key].astype(np.float32)
