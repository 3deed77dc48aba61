"""What can be one ensemble: the members as they were given, and everything that keeps them from answering together."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from torch import Tensor, nn

from ...core.labels import align_labels, check_label_names
from ...flips.studies.ensemble import temperature_problems
from ..load.answering import stated_labels
from ..load.kinds import is_raw_timm
from ..load.processors import reads_text, same_processor
from ..load.single import LoadedModel, load_single
from ..types import Processor


@dataclass(frozen=True)
class Member:
    """One member, before it is known whether it fits; what it does not say is None."""

    model: nn.Module
    label_names: tuple[str, ...] | None
    processor: Processor
    title: str


def raise_problems(problems: Sequence[str], what: str = "These models cannot be one ensemble") -> None:
    """Every problem in one error."""
    if problems:
        raise ValueError(f"{what}:\n  " + "\n  ".join(problems))


def count_problems(count: int, temperatures: Sequence[float] | None) -> list[str]:
    """What can be said before any model is loaded."""
    problems = [] if count > 1 else [f"{count} member{'s' * (count != 1)}, expected at least 2"]
    return problems if temperatures is None else problems + temperature_problems(temperatures, count)


def read_members(members: Sequence[object], processor: Processor) -> list[Member]:
    """Load what is given by name; an error names every member that cannot be loaded."""
    loaded, problems = [], []
    for number, source in enumerate(members):
        try:
            loaded.append(_read(number, source, processor))
        except ValueError as error:
            problems.append(f"member {number}: {error}")
    raise_problems(problems)
    return loaded


def _read(number: int, source: object, processor: Processor) -> Member:
    if hasattr(source, "member_logits") or hasattr(getattr(source, "model", None), "member_logits"):
        raise ValueError("it is an ensemble itself. List its members instead.")
    if isinstance(source, str | Path):
        source = load_single(source, processor=processor)
    elif isinstance(source, nn.Module) and is_raw_timm(source):
        source = load_single(source)  # a bare timm model says how it reads images
    if isinstance(source, LoadedModel):
        title = source.name or type(source.model).__name__
        return Member(source.model, source.label_names, source.processor, f"member {number} ({title})")
    if not isinstance(source, nn.Module):
        raise ValueError(f"it is a {type(source).__name__}, expected a folder, a Hub id, a module or a LoadedModel.")
    title = getattr(source, "title", type(source).__name__)
    return Member(source, stated_labels(source), None, f"member {number} ({title})")


def member_problems(members: Sequence[Member], homogeneous: bool) -> list[str]:
    """Why these members cannot be averaged, one line each."""
    problems = []
    for member in members:
        problems += _own_problems(member)
    if problems:
        return problems  # without names there is nothing to match
    first = members[0]
    for other in members[1:]:
        problems += _class_problems(first, other)
        if homogeneous:
            problems += _shape_problems(first, other)
        if not same_processor(first.processor, other.processor):
            kind = "tokenizer" if reads_text(first.processor) else "image processor"
            problems.append(
                f"{other.title} does not read inputs as {first.title} does: its {kind} makes other inputs of the same "
                "row. Average their prediction files instead"
            )
    return problems


def _own_problems(member: Member) -> list[str]:
    if not member.label_names:
        return [
            f"{member.title} does not say its classes. Set config.id2label, or give "
            "hf_pct.models.load.load_model(model, label_names=[...]) as the member"
        ]
    try:
        check_label_names(member.label_names, f"the classes of {member.title}")
    except ValueError as error:
        return [str(error)]
    own = getattr(member.model, "weights_in_use", member.model.named_parameters)
    bad = next((name for name, value in _real(own()) if not bool(value.isfinite().all())), None)
    return [f"{member.title} has NaN or infinity in {bad}"] if bad else []


def _class_problems(first: Member, other: Member) -> list[str]:
    labels = align_labels(first.label_names or (), other.label_names or ())
    differences = [
        f"{verb} {', '.join(map(repr, names[:5]))}{' and more' * (len(names) > 5)}"
        for verb, names in (("lacks", labels.removed), ("also has", labels.added))
        if names
    ]
    return [f"{other.title} {' and '.join(differences)}, against {first.title}"] if differences else []


def _shape_problems(first: Member, other: Member) -> list[str]:
    advice = "pass homogeneous=False to average different architectures"
    if type(first.model) is not type(other.model):
        kinds = type(other.model).__name__, type(first.model).__name__
        return [f"{other.title} is a {kinds[0]}, {first.title} a {kinds[1]}; {advice}"]
    if len(first.label_names or ()) != len(other.label_names or ()):
        return []  # then the heads differ, which is said already
    shapes = [
        {name: tuple(value.shape) for name, value in member.model.named_parameters()} for member in (first, other)
    ]
    for name in sorted({*shapes[0], *shapes[1]}):
        here, there = (side.get(name) for side in shapes)
        if here != there:
            return [f"{other.title} has {name} of shape {there}, {first.title} of {here}; {advice}"]
    return []


def _real(parameters: Iterable[tuple[str, Tensor]]) -> Iterable[tuple[str, Tensor]]:
    return ((name, value) for name, value in parameters if value.is_floating_point() and not value.is_meta)
