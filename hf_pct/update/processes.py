"""One run on several processes: who writes, who waits, and one answer for all."""

from __future__ import annotations

import torch
from accelerate import PartialState
from accelerate.utils import broadcast_object_list


def _state() -> PartialState:
    """The processes of this run. Without a GPU that must be said, or each of them acts as if it were alone."""
    return PartialState(cpu=not torch.cuda.is_available())


def is_main() -> bool:
    """Whether this process writes files; the only one does when there is no other."""
    return _state().is_main_process


def process_count() -> int:
    return _state().num_processes


def wait() -> None:
    """Wait until every process is here."""
    _state().wait_for_everyone()


def agreed(value: bool) -> bool:
    """The first process's value, in all of them: what they find on disk may differ by a moment."""
    if process_count() == 1:
        return value
    return bool(broadcast_object_list([value])[0])
