"""Alpha, the share of the OLD model in a merge: one number, or one for each part of the network."""

from __future__ import annotations

import re
from collections.abc import Mapping

from ..models.heads import parameter_group as parameter_group

Alpha = float | Mapping[str, float]


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
