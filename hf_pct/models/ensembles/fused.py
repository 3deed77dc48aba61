"""`FusedModel`: an old and a new model that answer as one, by a policy. A folder names both and holds no weights."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from transformers.modeling_outputs import SequenceClassifierOutput

from ..._version import __version__
from ...core.decode import check_plain, load_json
from ...core.files import write_text
from ...policies.fusion import KINDS, Fusion
from ..load.answering import ask
from ..load.kinds import FUSION_FILE
from ..load.processors import same_processor
from ..load.single import LoadedModel, load_single
from ..load.tasks import SIDES, PairTask
from ..types import ModelSource, Processor
from .checks import raise_problems, read_members
from .locations import source_of, source_problems, written_as
from .mean import config_with_classes

FORMAT, FORMAT_VERSION = "hf_pct fusion", 1


class FusedModel(nn.Module):
    """Two models and a `Fusion`: every row costs two forwards, one of each model.

    Its logits are the fused log-probabilities over the classes of both models. `predict` and `compare` take it like
    any model; it is only asked, never trained.

    Args:
        old, new: Hub ids, folders, modules or loaded models; each reads rows in its own way.
        fusion: the policy, as `fuse` or `hf-pct policy fuse` found it.
        processor: the tokenizer or image processor of both, where it is not saved with them.

    Example:
        >>> from hf_pct import FusedModel
        >>> from hf_pct.policies import Fusion
        >>> fused = FusedModel("v1", "v2", Fusion("surer", 0.55))
        >>> fused.label_names
        ('weather', 'music', 'light_off', 'light_on')
    """

    numbers: Tensor

    def __init__(self, old: ModelSource, new: ModelSource, fusion: Fusion, processor: Processor | None = None) -> None:
        super().__init__()
        read = read_members([old, new], processor)
        problems = [f"{member.title} does not say its classes" for member in read if not member.label_names]
        raise_problems(problems, "These models cannot be fused")
        self.fusion, self.processor = fusion, processor or read[1].processor or read[0].processor
        alike = same_processor(read[0].processor, read[1].processor)
        self.old_processor = None if alike else read[0].processor
        own, earlier = read[1].label_names or (), read[0].label_names or ()
        self.label_names: tuple[str, ...] = (*own, *(name for name in earlier if name not in own))
        places = {name: column for column, name in enumerate(self.label_names)}
        self.columns = [[places[name] for name in member.label_names or ()] for member in read]
        self.members = nn.ModuleList([member.model for member in read])
        self.config = config_with_classes(read[1].model, self.label_names)
        # a buffer, so that the policy counts in the fingerprint of what was predicted
        values = [float(KINDS.index(fusion.kind)), fusion.strength, *fusion.temperatures, *fusion.gate]
        self.register_buffer("numbers", torch.tensor(values, dtype=torch.float64))

    def member_logits(self, **inputs: object) -> Iterator[np.ndarray]:
        """Each model's logits over the classes of both, -inf where a model lacks one."""
        for side, member, columns in zip(SIDES, self.members, self.columns, strict=True):
            own = {name.removeprefix(side): value for name, value in inputs.items() if name.startswith(side)}
            logits = ask(member, own or inputs).detach().double().cpu().numpy()
            whole = np.full((len(logits), len(self.label_names)), -np.inf)
            whole[:, columns] = logits
            yield whole

    def forward(
        self,
        input_ids: Tensor | None = None,
        attention_mask: Tensor | None = None,
        pixel_values: Tensor | None = None,
        **more: object,
    ) -> SequenceClassifierOutput:
        """The fused log-probabilities, in `.logits`."""
        usual = {"input_ids": input_ids, "attention_mask": attention_mask, "pixel_values": pixel_values}
        old, new = self.member_logits(**{name: value for name, value in usual.items() if value is not None}, **more)
        return SequenceClassifierOutput(logits=torch.from_numpy(self.fusion.log_probabilities(old, new)).float())

    def loaded(
        self,
        processor: Processor | None = None,
        max_length: int | None = None,
        label_names: Sequence[str] | None = None,
    ) -> LoadedModel:
        """The pair with what it takes to run it."""
        first = load_single(self.members[1], processor=processor or self.processor, max_length=max_length)
        names = tuple(label_names or self.label_names)
        if self.old_processor is None or processor is not None:
            return LoadedModel(self, first.task, first.processor, names, "fused pair")
        second = load_single(self.members[0], processor=self.old_processor, max_length=max_length)
        both = (second.processor, first.processor)
        return LoadedModel(self, PairTask(second.task, first.task), both, names, "fused pair")


def save_fused(
    folder: str | Path, old: str | Path, new: str | Path, fusion: Fusion, *, overwrite: bool = False
) -> Path:
    """Write which two models answer as one, and how. Nothing is copied: the models stay where they are."""
    home = Path(folder)
    entries = [written_as(model, home) for model in (old, new)]
    problems = source_problems(home, entries, "models")
    if (home / "config.json").exists():
        problems.append(f"{home} holds a model already (config.json), expected a folder of the pair's own")
    raise_problems(problems, "These models cannot be fused")
    record = {
        "format": FORMAT,
        "format_version": FORMAT_VERSION,
        "old": entries[0],
        "new": entries[1],
        "fusion": fusion.to_dict(),
        "hf_pct": __version__,
    }
    return write_text(home / FUSION_FILE, json.dumps(record, indent=2, ensure_ascii=False) + "\n", overwrite)


def load_fused(
    folder: str | Path, *, processor: Processor | None = None, max_length: int | None = None
) -> LoadedModel:
    """The pair of a folder as one model."""
    home = Path(folder)
    path = home / FUSION_FILE
    record = load_json(path, "a fused pair, as save_fused writes it")
    check_plain(record, str(path))
    if not isinstance(record, dict) or (record.get("format"), record.get("format_version")) != (
        FORMAT,
        FORMAT_VERSION,
    ):
        raise ValueError(f"{path} does not describe a fused pair of format {FORMAT_VERSION}, as save_fused writes it.")
    named = [record.get("old"), record.get("new")]
    entries = [entry for entry in named if isinstance(entry, str)]
    fusion = _fusion(record.get("fusion"), path)
    if len(entries) < 2:
        raise ValueError(f"{path} is damaged: old is {named[0]!r}, new is {named[1]!r}, expected folders or ids.")
    raise_problems(source_problems(home, entries, "models"), f"{path} cannot be loaded")
    old, new = (load_single(source_of(home, entry), processor=processor) for entry in entries)
    pair = FusedModel(old, new, fusion, processor).loaded(processor, max_length)
    return LoadedModel(pair.model, pair.task, pair.processor, pair.label_names, str(folder))


def _fusion(values: Any, path: Path) -> Fusion:
    try:
        return Fusion(
            values["kind"],
            values["strength"],
            tuple(values["temperatures"]),
            tuple(values["gate"]),
        )
    except (TypeError, KeyError, ValueError) as error:
        raise ValueError(
            f"{path} is damaged: fusion is {values!r} ({error}). Write it again with save_fused."
        ) from error
