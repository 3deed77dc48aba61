"""Finished members as what the student is held near: their mean logits, or one model of their mean weights."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader

from ...flips.studies.ensemble import fit_temperature
from ...flips.tables.predictions import Predictions
from ...methods.merges.soup import uniform_soup
from ...models.batchnorm import batchnorm_layers, recalibrate
from ...models.ensembles.mean import Ensemble
from ...models.ensembles.shared_backbone import AdapterEnsemble, load_adapters
from ...models.load import label_names_of, load_weights
from ...models.run import collated, collect, sized
from .student import Student

_SOUP_BATCHES = 64  # enough for running statistics to settle


def join_members(trainer: Student) -> nn.Module:
    """The members of a trainer as one model that answers for all of them."""
    args = trainer.args
    if trainer.user_members:
        return Ensemble(trainer.user_members, homogeneous=args.homogeneous)
    members = trainer.members
    if args.member_kind == "lora":
        return AdapterEnsemble(*load_adapters(str(members.base), members.paths))
    loaded = [load_weights(str(path))[0] for path in members.paths]  # they read what the student reads
    return Ensemble(loaded) if args.combine == "mean" else _soup(trainer, loaded)


def with_adapter(model: nn.Module, rank: int, base: Path) -> nn.Module:
    """A model under a fresh LoRA adapter of its linear layers, with a head of its own; the base is kept once."""
    from peft import LoraConfig, TaskType, get_peft_model

    if not base.exists():
        unfinished = base.with_name(f".{base.name}.unfinished")
        model.save_pretrained(unfinished)
        unfinished.rename(base)
    settings = LoraConfig(
        task_type=TaskType.SEQ_CLS, r=rank, lora_alpha=2 * rank, lora_dropout=0.0, target_modules="all-linear"
    )
    return get_peft_model(model, settings)


def _soup(trainer: Student, members: Sequence[nn.Module]) -> nn.Module:
    """One model with the mean of the members' weights: an ensemble at the price of a single model."""
    soup = members[0]
    soup.load_state_dict(uniform_soup([member.state_dict() for member in members]))
    if batchnorm_layers(soup):
        loader = DataLoader(
            trainer.train_dataset,
            trainer.args.eval_batch_size,
            shuffle=True,
            generator=torch.Generator().manual_seed(trainer.args.seed),
            collate_fn=trainer.data_collator.collate,
        )
        recalibrate(soup, islice(loader, _SOUP_BATCHES))
    return soup.eval()


def calibrated_temperatures(trainer: Student, ensemble: Ensemble) -> Tensor:
    """For each member the temperature at which its confidence fits rows that it was not trained on."""
    rows = sized(trainer.calibration_dataset)
    collate = trainer._get_collator_with_removed_columns(trainer.data_collator)
    batches = collated(rows, collate, trainer.args.eval_batch_size, trainer._prepare_inputs)
    ensemble.to(trainer.args.device).eval()
    answers = collect(lambda inputs: torch.stack(list(ensemble.member_logits(**inputs)), dim=1), batches, len(rows))
    if answers.labels is None:
        raise ValueError("calibration_dataset has no labels, expected a column 'labels' or 'label'.")
    student, names = label_names_of(trainer.model), list(ensemble.label_names)  # labels are in the student's order
    truth = [student[label] for label in answers.labels]
    known = [row for row, name in enumerate(truth) if name in names]
    kept = [truth[row] for row in known]
    by_member = [answers.logits[known, number] for number in range(len(ensemble.temperatures))]
    tables = [Predictions(known, kept, logits=logits, label_names=names) for logits in by_member]
    return torch.tensor([fit_temperature(table) for table in tables])


def check_member_folders(members: Sequence[object]) -> list[str]:
    """What is wrong with members given as folders, one line each."""
    problems = []
    for member in members:
        folder = Path(member) if isinstance(member, str | Path) else None
        if folder is None or not folder.is_dir() or any(folder.glob("*.safetensors")):
            continue
        if any(folder.glob("checkpoint-*")):
            problems.append(
                f"{folder}: this member did not finish, it has checkpoints and no model.safetensors; train it to the "
                "end, or name one of its checkpoints"
            )
    return problems
