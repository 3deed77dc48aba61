"""Which checkpoint a run goes on from: the last one that is complete.

A run that was killed while it wrote a checkpoint leaves half of one behind, and the trainer of transformers takes the
folder with the highest number. Here each is looked at first; what is damaged is named and passed over.
"""

from __future__ import annotations

import json
import logging
import re
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from .weight_files import ADAPTER, INDEX, WEIGHTS, open_weights, read_weight_file

if TYPE_CHECKING:
    from transformers.trainer_utils import TrainOutput

logger = logging.getLogger(__name__)
_NAME = re.compile(r"checkpoint-(\d+)")
_PICKLED_STATES = ("optimizer.pt", "scheduler.pt", "scaler.pt", "rng_state*.pth")


def last_complete_checkpoint(folder: str | Path) -> str | None:
    """The newest complete checkpoint of a run, or None; a warning names those that are not complete."""
    home = Path(folder)
    numbered = [(int(match[1]), path) for path in home.glob("checkpoint-*") if (match := _NAME.fullmatch(path.name))]
    for _, path in sorted(numbered, reverse=True):
        problems = checkpoint_problems(path)
        if not problems:
            logger.info("The run goes on from %s", path)
            return str(path)
        logger.warning("%s is not complete and is passed over: %s.", path, "; ".join(problems))
    if numbered:
        logger.warning("No checkpoint in %s is complete: the run starts from the beginning.", home)
    return None


def checkpoint_problems(checkpoint: Path) -> list[str]:
    """Why a run cannot go on from a checkpoint; empty when it is complete."""
    problems = []
    try:
        state = json.loads((checkpoint / "trainer_state.json").read_text(encoding="utf-8"))
        if not isinstance(state, dict) or "global_step" not in state:
            problems.append("trainer_state.json does not say the step")
    except (OSError, ValueError) as error:
        problems.append(f"trainer_state.json cannot be read ({type(error).__name__})")
    if any((checkpoint / name).is_file() for name in (WEIGHTS, INDEX)):
        problems += open_weights(checkpoint)[1]
    elif (checkpoint / ADAPTER).is_file():
        problems += read_weight_file(checkpoint / ADAPTER)[1]
    elif not any(path.is_dir() for path in checkpoint.iterdir()):  # sharded training keeps its weights in folders
        problems.append(f"it has no {WEIGHTS}")
    states = [path for pattern in _PICKLED_STATES for path in sorted(checkpoint.glob(pattern))]
    return problems + [f"{path.name} is damaged" for path in states if not _is_whole_zip(path)]


def _is_whole_zip(path: Path) -> bool:
    """torch saves zip archives, whose table of contents is at their end and whose parts have checksums."""
    try:
        with zipfile.ZipFile(path) as archive:
            return archive.testzip() is None
    except (OSError, ValueError, zipfile.BadZipFile, EOFError):
        return False


def resume_from(chosen: str | bool | None, output_dir: str | Path | None) -> str | bool | None:
    """What `resume_from_checkpoint` means: `True` is the last complete checkpoint, a path must be a complete one."""
    if chosen is True and output_dir is not None:
        return last_complete_checkpoint(output_dir) if any(Path(output_dir).glob("checkpoint-*")) else True
    if isinstance(chosen, str) and Path(chosen).is_dir():
        problems = checkpoint_problems(Path(chosen))
        if problems:
            before = last_complete_checkpoint(Path(chosen).parent)
            raise ValueError(
                f"{chosen} cannot be gone on from: {'; '.join(problems)}. "
                + (f"The last complete checkpoint is {before}." if before else "There is no complete one beside it.")
            )
    return chosen


class _HasOutputFolder(Protocol):
    output_dir: str | None


class ResumeMixin:
    """A mixin, to be named before `Trainer`: a run goes on from a complete checkpoint only."""

    args: _HasOutputFolder

    def train(self, resume_from_checkpoint: str | bool | None = None, *args: object, **kwargs: object) -> TrainOutput:
        """`Trainer.train`; `True` goes on from the last checkpoint that is complete, not from half of one."""
        chosen = resume_from(resume_from_checkpoint, self.args.output_dir)
        return super().train(chosen, *args, **kwargs)  # type: ignore[misc]
