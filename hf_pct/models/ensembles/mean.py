"""`Ensemble`: several classifiers that answer as one, with the mean of their logits."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import reduce
from pathlib import Path
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn
from transformers import TimmWrapperConfig
from transformers.modeling_outputs import ImageClassifierOutput, SequenceClassifierOutput

from ...core.labels import align_labels
from ..load.answering import ask
from ..load.kinds import is_image_config
from ..load.single import LoadedModel, load_single
from ..load.tasks import TextTask
from ..types import Processor
from .checks import count_problems, member_problems, raise_problems, read_members

if TYPE_CHECKING:
    from transformers import PretrainedConfig


class Ensemble(nn.Module):
    """The mean of its members' logits, one member after another: the weights of all, the activations of one.

    Members may order their classes differently; the first one's order is the ensemble's. `predict`, `compare` and the
    trainers take an ensemble like any model. Members are only asked: `train()` leaves them as they are.

    Args:
        members: Hub ids, folders, modules or loaded models, two or more.
        temperatures: what each member's logits are divided by before the mean; 1 by default.
        processor: the tokenizer or image processor of all members, where it is not saved with them.
        homogeneous: refuse members of different architectures; `False` takes any that read the same inputs.

    Example:
        >>> from hf_pct import Ensemble
        >>> from transformers import BertConfig, BertForSequenceClassification
        >>> sizes = dict(hidden_size=8, intermediate_size=8, num_hidden_layers=1, num_attention_heads=2)
        >>> config = BertConfig(vocab_size=9, **sizes)
        >>> ensemble = Ensemble([BertForSequenceClassification(config) for _ in range(3)])
        >>> len(ensemble.members), ensemble.label_names
        (3, ('LABEL_0', 'LABEL_1'))
    """

    temperatures: Tensor
    orders: Tensor

    def __init__(
        self,
        members: Sequence[nn.Module | LoadedModel | str | Path],
        *,
        temperatures: Sequence[float] | None = None,
        processor: Processor | None = None,
        homogeneous: bool = True,
    ) -> None:
        super().__init__()
        raise_problems(count_problems(len(members), temperatures))
        read = read_members(members, processor)
        raise_problems(member_problems(read, homogeneous))
        first = read[0]
        if isinstance(processor, str | Path):
            processor = load_single(first.model, processor=processor).processor
        known = [member.processor for member in read if member.processor is not None]
        self.processor = processor if processor is not None else next(iter(known), None)
        self.label_names: tuple[str, ...] = first.label_names or ()
        self.config = config_with_classes(first.model, self.label_names)
        self.members = nn.ModuleList([member.model for member in read])
        self.training = any(member.training for member in self.members)
        # buffers, so that they move with the members and count in the fingerprint
        device = next((parameter.device for parameter in first.model.parameters()), None)
        heat = torch.tensor([1.0] * len(read) if temperatures is None else list(temperatures), device=device)
        places = [align_labels(member.label_names or (), self.label_names).old_index for member in read]
        self.register_buffer("temperatures", heat)
        self.register_buffer("orders", torch.stack([torch.from_numpy(place) for place in places]).to(device))

    def member_logits(self, **inputs: object) -> Iterator[Tensor]:
        """Each member's logits in turn, in the ensemble's order of classes and divided by its temperature."""
        for number, member in enumerate(self.members):
            logits = ask(member, inputs)
            if logits.shape[-1] != len(self.label_names):
                raise ValueError(
                    f"Member {number} gives {logits.shape[-1]} logits, but the classes are {len(self.label_names)}."
                )
            exact = logits.to(torch.promote_types(logits.dtype, torch.float32))  # a mean of bfloat16 would lose bits
            yield exact.index_select(-1, self.orders[number]) / self.temperatures[number]

    def forward(
        self,
        input_ids: Tensor | None = None,
        attention_mask: Tensor | None = None,
        token_type_ids: Tensor | None = None,
        pixel_values: Tensor | None = None,
        **more: object,
    ) -> SequenceClassifierOutput | ImageClassifierOutput:
        """The mean of the members' logits, in `.logits`; each member is given the inputs that it names."""
        usual = {
            "input_ids": input_ids,
            "attention_mask": attention_mask,
            "token_type_ids": token_type_ids,
            "pixel_values": pixel_values,
        }
        inputs = {name: value for name, value in usual.items() if value is not None} | more
        total = reduce(Tensor.add_, self.member_logits(**inputs))
        output = ImageClassifierOutput if is_image_config(self.config) else SequenceClassifierOutput
        return output(logits=total.div_(len(self.members)))

    def train(self, mode: bool = True) -> Ensemble:
        """`eval()` reaches the members; `train()` does not, because nothing is learnt here."""
        self.training = mode
        if not mode:
            self.members.eval()
        return self

    def loaded(
        self,
        processor: Processor | None = None,
        max_length: int | None = None,
        label_names: Sequence[str] | None = None,
    ) -> LoadedModel:
        """The ensemble with what it takes to run it; texts are cut at what every member can take."""
        first = load_single(self.members[0], processor=processor or self.processor, max_length=max_length)
        task = first.task
        if isinstance(task, TextTask):
            others = (
                load_single(member, processor=first.processor, max_length=max_length) for member in self.members[1:]
            )
            limits = [getattr(loaded.task, "max_length", None) for loaded in (first, *others)]
            task = replace(task, max_length=min((limit for limit in limits if limit is not None), default=None))
        names = tuple(label_names or self.label_names)
        return LoadedModel(self, task, first.processor, names, f"ensemble of {len(self.members)}")


def config_with_classes(model: nn.Module, label_names: tuple[str, ...]) -> PretrainedConfig:
    """A copy of a member's config with the ensemble's classes; a bare timm model gets that of the wrapper."""
    config = copy.deepcopy(getattr(model, "config", None))
    if config is None:
        config = TimmWrapperConfig(architecture=(getattr(model, "pretrained_cfg", None) or {}).get("architecture"))
    config.id2label = dict(enumerate(label_names))
    config.label2id = {name: index for index, name in enumerate(label_names)}
    config._name_or_path = ""  # the ensemble is not what the first member was loaded from
    return config
