"""What a method is: settings, needs, what it computes, and what a card and an error say about it.

Everything that the rest of the kit knows of a method, it asks the object. A method is a frozen dataclass of one of
three kinds:

- `TrainingMethod`: a loss of each row against a reference, beside cross-entropy.
- `WeightMethod`: something that holds weights near the old ones while they are trained, beside any loss.
- `MergeRule`: one tensor from an old and a new one.
"""

from __future__ import annotations

import inspect
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, ClassVar, Protocol

from ..core.decode import JsonObject
from ..core.labels import LabelAlignment
from .settings import find_problems, settings_of

if TYPE_CHECKING:
    from torch import Tensor, nn

OLD = "old"
"""The name of the reference that flips are counted against: the model in service."""

IGNORED = -100
"""Label of a row that has none, or of a class that a reference does not know, as in `torch.nn.functional`."""


@dataclass(frozen=True)
class Needs:
    """What must be available for a method to run.

    Args:
        references: models whose logits come with every batch, by name; `old` is the model in service.
        old_weights: the old model's weights, which must fit the new model's.
        features: the inputs of the last layer, of the new model and of its references; cached like logits.
        head: the references' last layers as they were trained, for features of the new model.
        fisher: the old model's diagonal Fisher information, scaled to a mean of 1.
        members: an ensemble of models trained before, by the trainer itself or given to it.
    """

    references: tuple[str, ...] = ()
    old_weights: bool = False
    features: bool = False
    head: bool = False
    fisher: bool = False
    members: bool = False


class Method(ABC):
    """What all three kinds share. `register` fills in the name, the source and the tag."""

    name: ClassVar[str]
    paper: ClassVar[str]
    bibtex: ClassVar[str]
    tag: ClassVar[str]
    order: ClassVar[int]
    needs: ClassVar[Needs] = Needs()
    strengths: ClassVar[tuple[Mapping[str, float], ...]] = ()
    """Settings worth trying in a search, from light to strong: `({"right_rows": 1.0}, {"right_rows": 5.0})`."""
    replaces: ClassVar[Mapping[str, float]] = {}
    """Training arguments that it takes the place of, with the value that they then must have: `{"weight_decay": 0.0}`.
    A search that tries the method sets them; a person who names it is asked to."""

    def __post_init__(self) -> None:
        problems = self.problems()
        if problems:
            raise ValueError(f"The method {self.name} cannot be built:\n  " + "\n  ".join(problems))

    def problems(self) -> list[str]:
        """What is wrong with the settings, one line each."""
        return find_problems(settings_of(type(self)), self.settings(), {}) + self.conflicts(self)

    @classmethod
    def conflicts(cls, args: object) -> list[str]:
        """Settings that do not go together, one line each; `args` has them as attributes, maybe among others."""
        return []

    def settings(self) -> JsonObject:
        """The settings by name."""
        return {entry.name: getattr(self, entry.name) for entry in settings_of(type(self))}

    def changed_settings(self) -> JsonObject:
        """The settings that differ from their defaults."""
        return {
            entry.name: getattr(self, entry.name)
            for entry in settings_of(type(self))
            if getattr(self, entry.name) != entry.default
        }

    def to_dict(self) -> JsonObject:
        """The name and the settings, for logs and records; `build` makes the same method of them."""
        return {"method": self.name, **self.settings()}

    @classmethod
    def summary(cls) -> str:
        """What the method does in one line: the first of its docstring."""
        return (inspect.getdoc(cls) or "").partition("\n")[0]

    def sentence(self) -> str:
        """What a model card says about a model that was made this way."""
        return f"Made with the method {self.name}."

    def numbers(self) -> str:
        """The numeric settings as `name=value, ...`, for errors that advise to change one."""
        values = ((name, value) for name, value in self.settings().items() if isinstance(value, int | float))
        return ", ".join(f"{name}={value:g}" for name, value in values if not isinstance(value, bool))


class ClassPair(Protocol):
    """Two label spaces side by side: `old_index` and `new_index` are the shared classes in both models' order."""

    alignment: LabelAlignment
    old_index: Tensor
    new_index: Tensor
    shared_of_new: Tensor

    def predictions(self, old_logits: Tensor) -> Tensor:
        """The reference's answers as classes of the new model; -1 for a class that the new model lacks."""
        ...


@dataclass(frozen=True)
class Batch:
    """A batch against one reference. What is built from the fields is computed when a loss first asks for it.

    Args:
        all_logits: the new model's logits over all its classes, shape [rows, classes]; gradients flow through them.
        all_reference: the reference's logits over all its classes, in its own order.
        all_labels: the index of each row's class among the new model's; -100 where a row has none.
        classes: how the two label spaces match; `None` when they are the same.
        name: which reference this is.
        reference_right: the rows that the reference gets right, for a caller who knows; by its answers otherwise.
        features: the input of the new model's last layer, where `Needs.features` asks for it.
        reference_features: the same of the reference.
        reference_head: the reference's last layer, as a function of features of any width, where `Needs.head` asks.
    """

    all_logits: Tensor
    all_reference: Tensor
    all_labels: Tensor
    classes: ClassPair | None = None
    name: str = OLD
    reference_right: Tensor | None = None
    features: Tensor | None = None
    reference_features: Tensor | None = None
    reference_head: Callable[[Tensor], Tensor] | None = None

    @cached_property
    def _matched(self) -> ClassPair | None:
        """The two label spaces, where they differ."""
        return None if self.classes is None or self.classes.alignment.identical else self.classes

    @cached_property
    def logits(self) -> Tensor:
        """The new model's logits over the shared classes."""
        return self.all_logits if self._matched is None else self.all_logits[:, self._matched.new_index]

    @cached_property
    def reference(self) -> Tensor:
        """The reference's logits over the shared classes, in the same order."""
        return self.shared_part(self.all_reference)

    def shared_part(self, reference_logits: Tensor) -> Tensor:
        """Logits in the reference's own order of classes, cut to the shared classes."""
        return reference_logits if self._matched is None else reference_logits[:, self._matched.old_index]

    @cached_property
    def known(self) -> Tensor:
        """The rows whose class the reference knows. The others are averaged in as zeros."""
        if self._matched is None:
            return self.all_labels != IGNORED
        return (self._matched.shared_of_new[self.all_labels.clamp_min(0)] != IGNORED) & (self.all_labels != IGNORED)

    @cached_property
    def labels(self) -> Tensor:
        """The index of each row's class among the shared ones; 0 where it is not known."""
        labels = self.all_labels.clamp_min(0)
        return labels if self._matched is None else self._matched.shared_of_new[labels].clamp_min(0)

    @cached_property
    def reference_columns(self) -> Tensor:
        """The index of each row's class among the reference's; any where it is not known."""
        return self.labels if self._matched is None else self._matched.old_index[self.labels]

    @cached_property
    def right(self) -> Tensor:
        """The rows that the reference gets right: by its whole output, so an answer since removed is wrong."""
        if self.reference_right is not None:
            return self.reference_right & self.known
        answers = (
            self.all_reference.argmax(-1) if self.classes is None else self.classes.predictions(self.all_reference)
        )
        return (answers == self.all_labels) & self.known


@dataclass(frozen=True)
class RunSize:
    """What the memory estimate knows of a run: parameters of both models, how many old ones, and classes."""

    parameters: int
    old_parameters: int
    old_models: int = 1
    classes: int = 0


class TrainingMethod(Method):
    """A loss beside cross-entropy. Subclasses write `loss`, and `weights` when `old` is not the only reference."""

    needs: ClassVar[Needs] = Needs(references=(OLD,))
    trainer: ClassVar[str] = "FocalDistillTrainer"
    """The public name of the trainer that runs the method."""
    bounded: ClassVar[bool] = False
    """Whether the loss cannot grow without end, as on features of length 1: only NaN is then taken for divergence."""

    @property
    def learns_map(self) -> bool:
        """Whether a linear layer from the new model's features to each reference's is trained beside the model."""
        return False

    @property
    def term(self) -> str:
        """What the loss is called in logs (`loss_<term>`) and in errors."""
        return self.name

    @property
    def label_weight(self) -> float:
        """The weight of cross-entropy."""
        return 1.0

    def references(self) -> Mapping[str, object]:
        """Models beside the old ones whose logits the method needs, by name: Hub ids, folders or modules."""
        return {}

    def weights(self, names: Sequence[str]) -> dict[str, float]:
        """How strongly the model is held near each reference; the first of `names` is the model in service.

        A reference that is left out is there for its flips alone.
        """
        return dict.fromkeys(self.needs.references, 1.0)

    @abstractmethod
    def loss(self, batch: Batch) -> Tensor:
        """One number per row, shape [rows]; the trainer averages over all rows and multiplies by the weight."""

    def label_logits(self, logits: Tensor, added: Tensor) -> Tensor:
        """The logits that cross-entropy sees in training; `added` marks the classes that the old model lacks."""
        return logits

    def largest_logits(self) -> int | None:
        """How many of a reference's largest logits the loss looks at; `None` for all of them."""
        return None

    def advice(self) -> str:
        """What to change when the term diverges; the learning rate is named beside it."""
        return f"Weaken the method (now {self.numbers()})."

    def reference_parameters(self, size: RunSize) -> int:
        """Parameters of the models that run beside the new one when references are live."""
        return size.old_parameters * size.old_models

    def table_width(self, classes: int) -> int:
        """Numbers kept per row when references are cached."""
        return classes

    def sentence(self) -> str:
        return f"Trained with the method {self.name}."


class HeldWeights(Protocol):
    """The old model's weights beside the new model's, as a `WeightMethod` sees them."""

    weights: Mapping[str, Tensor]

    def beside(self, name: str, parameter: Tensor) -> tuple[Tensor, Tensor | None]:
        """The old value of a parameter on its device, and the rows it is for; `None` when it is for all of them."""
        ...


class WeightMethod(Method):
    """Holds weights near the old ones. Off while its first setting is 0; works beside any loss and beside the others.

    Subclasses write one of three: `curvature` (a quadratic penalty), `pull` (a step after the optimizer's), `attach`
    (a change of the model while it is trained).
    """

    needs: ClassVar[Needs] = Needs(old_weights=True)

    @classmethod
    def switch(cls) -> str:
        """The setting that turns the method on."""
        return settings_of(cls)[0].name

    @property
    def active(self) -> bool:
        return bool(getattr(self, self.switch()))

    def curvature(self, fisher: Tensor | None) -> Tensor | float:
        """The penalty is half the sum of this times (w - w_old)^2; `fisher` is there where `needs` asks for it."""
        return 0.0

    def pull(self, rate: float) -> float:
        """The share of the way back to the old weights that a weight goes after a step at this learning rate."""
        return 0.0

    def attach(self, model: nn.Module, old: HeldWeights) -> Callable[[], None] | None:
        """Change how the model computes while it is trained; the function that is returned undoes it."""
        return None

    def sentence(self) -> str:
        return f"Its weights were held near the old model's ({self.name})."


@dataclass(frozen=True)
class TensorPair:
    """One tensor of both models, or the same piece of it, in the precision in which merging computes.

    Args:
        old: the old model's values.
        new: the new model's; with several new models, their mean.
        fisher: how much each value matters to the old model, scaled to a mean of 1; None where that is not known.
        new_fisher: the same of the new model.
        out: where the result may be written, to save memory; a rule may pass it over.
    """

    old: Tensor
    new: Tensor
    fisher: Tensor | None = None
    new_fisher: Tensor | None = None
    out: Tensor | None = None


class MergeRule(Method):
    """How one tensor is made of an old and a new one. `alpha` is the share of the old model.

    Subclasses write `rule`. It is asked only between the ends and only for floating point: alpha 0 and 1 are the new
    and the old model's own tensors, and what cannot be averaged comes from the new model.
    """

    alphas: ClassVar[tuple[float, ...]] = tuple(step / 10 for step in range(11))
    """The shares that a sweep tries."""
    several: ClassVar[bool] = False
    """Whether there may be several new models, whose mean is the new side."""
    elementwise: ClassVar[bool] = True
    """Whether each value depends on the values at its place alone. If not, `rule` always gets whole tensors."""

    @abstractmethod
    def rule(self, pair: TensorPair, alpha: float) -> Tensor:
        """The merged tensor for an alpha between 0 and 1."""

    def sentence(self) -> str:
        return f"The weights are those of the old and of the new model, merged with the rule {self.name}"
