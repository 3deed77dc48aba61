"""Which part of a network an entry belongs to, by its name, so that each part can have its own alpha.

The names cover BERT, RoBERTa, DistilBERT, ViT and timm's convolutional networks: `embeddings` (also a convolutional
stem), `layers` and `layers.<n>` (blocks or stages, numbered as in the state dict), `head` (pooler and classifier).
"""

from __future__ import annotations

import re
from collections.abc import Mapping

Alpha = float | Mapping[str, float]

_LAYER = re.compile(r"(?:^|\.)(?:layers?|blocks?|stages?|h|group)[._]?(\d+)\.")
_EMBEDDING = re.compile(r"(?:^|\.)(?:\w*embed\w*|stem|conv_stem|conv1|bn1)(?:\.|$)")
_HEAD = re.compile(
    r"(?:^|\.)(?:classifier|pre_classifier|pooler|score|head|head_norm|fc|fc_norm|last_linear|conv_head|bn2)(?:\.|$)"
)
_OUTPUT = re.compile(r"(?:^|\.)(?:classifier|score|head|fc|last_linear)(?:\.(?:out_proj|fc|l|\d+))?\.(?:weight|bias)$")


def parameter_group(name: str) -> str:
    """`embeddings`, `layers.<n>`, `head` or `other`."""
    layer = _LAYER.search(name)
    if layer:
        return f"layers.{int(layer.group(1))}"
    if _HEAD.search(name):
        return "head"
    return "embeddings" if _EMBEDDING.search(name) else "other"


def is_output_entry(name: str) -> bool:
    """Whether the name is one a classifier gives to its last layer, whose rows are classes."""
    return _LAYER.search(name) is None and _OUTPUT.search(name) is not None


def alpha_of(name: str, alpha: Alpha) -> float:
    """The share of the old model for one entry: the most specific group that the mapping names, then `default`."""
    if not isinstance(alpha, Mapping):
        return float(alpha)
    group = parameter_group(name)
    for key in (group, group.partition(".")[0], "default"):
        if key in alpha:
            return float(alpha[key])
    raise ValueError(
        f"No alpha for {name!r}, which is in group {group!r}; the alphas given are for {sorted(alpha)}. "
        f"Add {group!r} or 'default' to them."
    )


def check_alpha(alpha: Alpha) -> None:
    """Refuse shares outside [0, 1] and group names that do not exist, all of them at once."""
    shares = dict(alpha) if isinstance(alpha, Mapping) else {"": alpha}
    problems = []
    for group, share in shares.items():
        label = f"alpha for {group!r}" if group else "alpha"
        if isinstance(share, bool) or not isinstance(share, int | float) or not 0.0 <= share <= 1.0:
            problems.append(f"{label} is {share!r}, expected a number from 0 (the new model) to 1 (the old model)")
        if group and not re.fullmatch(r"embeddings|layers|layers\.\d+|head|other|default", group):
            problems.append(f"{group!r} is no group: use embeddings, layers, layers.<n>, head, other or default")
    if problems:
        raise ValueError("; ".join(problems))
