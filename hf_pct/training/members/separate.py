"""A trainer inside a trainer: accelerate keeps one state for all its objects in a process, which must be put back."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

import torch.distributed as dist
from accelerate.state import AcceleratorState, GradientState, PartialState

# what tells accelerate that it was launched as one of several processes
_LAUNCHED = (
    "RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "PMI_SIZE", "OMPI_COMM_WORLD_SIZE", "MV2_COMM_WORLD_SIZE",
    "ACCELERATE_USE_FSDP", "ACCELERATE_USE_DEEPSPEED",
)  # fmt: skip


@contextmanager
def separate_state(alone: bool = False) -> Iterator[None]:
    """Trainers made inside do not disturb one that was made outside.

    With `alone` they train as if this process were the only one, each process something else. Nothing inside may then
    talk to the other processes.
    """
    shared = [PartialState._shared_state, AcceleratorState._shared_state, GradientState._shared_state]
    kept = [dict(state) for state in shared]
    launched = {name: os.environ.pop(name) for name in _LAUNCHED if name in os.environ} if alone else {}
    group = dist.group.WORLD if alone and dist.is_available() and dist.is_initialized() else None
    if group is not None:
        dist.group.WORLD = None  # transformers writes models only on rank 0 of whatever group there is
    for state in shared if alone else shared[1:]:
        state.clear()
    try:
        yield
    finally:
        os.environ.update(launched)
        if group is not None:
            dist.group.WORLD = group
        for state, values in zip(shared, kept, strict=True):
            state.clear()
            state.update(values)
