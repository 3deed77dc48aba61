"""The classes of two adapters, matched by name: an adapter's config does not say them, a file beside it does."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from ...models.heads import align_head, is_output_entry, match_labels
from ...models.load.adapters import LABELS_FILE, adapter_labels, saved_labels
from .lora_files import LoraAdapter


def class_names(old: LoraAdapter, new: LoraAdapter) -> tuple[list[list[str]], list[str]]:
    """The classes of the old and of the new adapter, and what is wrong with them.

    There are none where neither adapter says its classes: both then have the order of their common base.
    """
    folders = [old.folder, new.folder]
    if all(saved_labels(folder) is None for folder in folders):
        return [], []
    names = [adapter_labels(folder) for folder in folders]
    silent = [str(folder) for folder, known in zip(folders, names, strict=True) if known is None]
    if silent:
        return [], [
            f"{silent[0]} does not say its classes, and its base cannot be read: write them to {LABELS_FILE} beside "
            'it, as {"label_names": [...]} in the order of its logits'
        ]
    return [list(known or ()) for known in names], []


def in_label_space(
    old: LoraAdapter, new: LoraAdapter, names: Sequence[Sequence[str]]
) -> tuple[LoraAdapter, list[str]]:
    """The old adapter with its classifier's rows where the new one keeps those classes; or what is in the way."""
    try:
        match = match_labels(*names)
        if match.identical:
            return old, []
        by_factors = [name for name in (*old.factors, *new.factors) if is_output_entry(f"{name}.weight")]
        if by_factors:
            return old, [f"the classes differ and {by_factors[0]} was trained by factors, whose rows cannot be moved"]
        return replace(old, others=align_head(old.others, new.others, match)), []
    except ValueError as error:
        return old, [f"{error}. An adapter's classes are in {LABELS_FILE}, or in the config of its base"]
