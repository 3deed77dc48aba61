"""A Fisher scaled to mean 1, and as a file."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from safetensors.torch import load_file, save_file
from torch import Tensor


def scale_fisher(fisher: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Divide by the mean over all entries together: what matters is how important a weight is beside the others."""
    total = sum(float(value.double().sum()) for value in fisher.values())
    count = sum(value.numel() for value in fisher.values())
    if not total > 0:
        raise ValueError(
            f"The Fisher information sums to {total} over {count} weights, expected a positive number: "
            "was it computed on at least one example, with gradients enabled?"
        )
    return {name: value * (count / total) for name, value in fisher.items()}


def save_fisher(fisher: Mapping[str, Tensor], path: str | Path) -> None:
    """Write a Fisher scaled to mean 1, as `hf-pct merge --method fisher --fisher FILE` reads it.

    Example:
        >>> import torch
        >>> from hf_pct.merging import save_fisher
        >>> save_fisher({"classifier.weight": torch.tensor([1.0, 3.0])}, "fisher.safetensors")
    """
    scaled = {name: value.contiguous().cpu() for name, value in scale_fisher(fisher).items()}
    save_file(scaled, str(path), metadata={"format": "pt", "hf_pct": "diagonal Fisher, mean 1"})


def load_fisher(path: str | Path) -> dict[str, Tensor]:
    return load_file(str(path))
