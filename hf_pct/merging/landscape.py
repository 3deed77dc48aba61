"""The plane through old, new and target (after Izmailov et al., 2018): loss, error and NFR around the three models.

It shows why BCWI works for a new model that was trained from the old one (both lie in one valley, and NFR grows slowly
around the old model) and not for a target trained from scratch (a ridge lies between).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn

from ..core.moved import renamed
from .interpolate import mismatches, raise_all
from .sweep import softmax


@dataclass(frozen=True)
class Plane:
    """Points are old + x u + y v, with u toward the new model and v, at a right angle to it, toward the target.

    Both axes are in units of weight distance, so that distances in the picture are distances between models.

    Example:
        >>> import torch
        >>> from hf_pct.merging import Plane
        >>> old, new, target = ({"weight": torch.tensor(point)} for point in ([0.0, 0.0], [3.0, 0.0], [1.0, 2.0]))
        >>> Plane.through(old, new, target).corners["target"]
        (1.0, 2.0)
    """

    old: Mapping[str, Tensor]
    u: Mapping[str, Tensor]
    v: Mapping[str, Tensor]
    corners: dict[str, tuple[float, float]]

    @classmethod
    def through(cls, old: Mapping[str, Tensor], new: Mapping[str, Tensor], target: Mapping[str, Tensor]) -> Plane:
        problems = mismatches(old, new) + mismatches(old, target, "old model", "target model")
        raise_all(problems, "These models span no plane")
        names = [name for name, value in old.items() if value.is_floating_point()]
        u = {name: new[name].float() - old[name].float() for name in names}
        v = {name: target[name].float() - old[name].float() for name in names}
        length = _dot(u, u) ** 0.5
        along = _dot(u, v) / length if length else 0.0
        rest = {name: v[name] - (along / length) * u[name] for name in names} if length else v
        height = _dot(rest, rest) ** 0.5
        if not length or height <= 1e-6 * length:
            raise ValueError(
                f"The three models lie on one line (old to new: {length:.3g}, target off it by {height:.3g}); "
                "expected three different models, the target not between the others"
            )
        corners = {"old": (0.0, 0.0), "new": (length, 0.0), "target": (along, height)}
        return cls(old, {n: u[n] / length for n in names}, {n: rest[n] / height for n in names}, corners)

    @torch.no_grad()
    def write(self, model: nn.Module, x: float, y: float) -> None:
        """Put a live model at (x, y), in place; integer entries stay the old model's."""
        for name, place in model.state_dict().items():
            if name in self.u:
                place.copy_(self.old[name].float() + x * self.u[name] + y * self.v[name])
            else:
                place.copy_(self.old[name])

    def grid(self, points: int = 9, margin: float = 0.25) -> tuple[np.ndarray, np.ndarray]:
        """The x and the y of a regular grid around the three models."""
        axes = []
        for values in zip(*self.corners.values(), strict=True):
            room = margin * (max(values) - min(values))
            axes.append(np.linspace(min(values) - room, max(values) + room, points))
        return axes[0], axes[1]


@dataclass(frozen=True)
class Landscape:
    """`loss[i, j]`, `error[i, j]` and `nfr[i, j]` at (x[j], y[i]); fractions, and the corners of the three models."""

    x: np.ndarray
    y: np.ndarray
    loss: np.ndarray
    error: np.ndarray
    nfr: np.ndarray
    corners: dict[str, tuple[float, float]]

    def to_dict(self) -> dict[str, object]:
        """Everything as lists, ready for JSON."""
        arrays = {name: getattr(self, name).tolist() for name in ("x", "y", "loss", "error", "nfr")}
        return {**arrays, "corners": {name: list(point) for name, point in self.corners.items()}}

    as_dict = renamed("as_dict", to_dict)


def landscape(
    plane: Plane,
    model: nn.Module,
    logits: Callable[[], np.ndarray],
    labels: Sequence[int] | np.ndarray,
    *,
    points: int = 9,
    margin: float = 0.25,
) -> Landscape:
    """Evaluate `model` on a grid of the plane. `logits()` runs the live model over the data, in the labels' order."""
    truth = np.asarray(labels)
    plane.write(model, 0.0, 0.0)
    old_right = logits().argmax(-1) == truth
    x, y = plane.grid(points, margin)
    maps = {name: np.empty((len(y), len(x))) for name in ("loss", "error", "nfr")}
    for i, down in enumerate(y):
        for j, across in enumerate(x):
            plane.write(model, float(across), float(down))
            out = logits()
            right = out.argmax(-1) == truth
            chance = softmax(out)[np.arange(len(truth)), truth]
            maps["loss"][i, j] = -np.log(np.maximum(chance, 1e-12)).mean()
            maps["error"][i, j] = 1 - right.mean()
            maps["nfr"][i, j] = (old_right & ~right).mean()
    return Landscape(x, y, maps["loss"], maps["error"], maps["nfr"], plane.corners)


def _dot(a: Mapping[str, Tensor], b: Mapping[str, Tensor]) -> float:
    return sum(float(torch.sum(a[name].double() * b[name].double())) for name in a)
