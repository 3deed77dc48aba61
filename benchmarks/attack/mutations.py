"""Ways to damage a file, seeded: plain values, text and bytes."""

import copy
import json
import random
from typing import Any

POOL: tuple[Any, ...] = (
    None, True, False, "", "no", "text", "NaN", float("nan"), float("inf"), -float("inf"), -1, 0, 1, 2, -5, 0.5, 1e308,
    10**30, [], {}, [[]], {"a": 1}, "\ud800", "x\n::error::pwned\n\x1b[2KPASSED: every rule holds", "../../etc/passwd",
)  # fmt: skip


def places(value: Any, path: tuple = ()) -> list[tuple]:
    """The paths of everything inside plain values."""
    if isinstance(value, dict):
        entries = list(value.items())
    elif isinstance(value, list):
        entries = list(enumerate(value[:20]))
    else:
        return []
    inner = [(*path, key) for key, _ in entries]
    return inner + [place for key, entry in entries for place in places(entry, (*path, key))]


def mutate_values(value: Any, rng: random.Random, times: int = 1) -> Any:
    """Plain values with a few of them replaced, removed, scaled, doubled or swapped."""
    changed = copy.deepcopy(value)
    for _ in range(times):
        paths = places(changed)
        if not paths:
            return rng.choice(POOL)
        path = rng.choice(paths)
        parent = changed
        for key in path[:-1]:
            parent = parent[key]
        _mutate_one(parent, path[-1], rng)
    return changed


def _mutate_one(parent: Any, key: Any, rng: random.Random) -> None:
    entry = parent[key]
    how = rng.randrange(6)
    if how == 0 and isinstance(entry, (int, float)) and not isinstance(entry, bool):
        parent[key] = rng.choice([entry * 10, entry / 10, entry + 1, entry - 1, -entry, entry * 0.99])
    elif how == 1:
        del parent[key]
    elif how == 2 and isinstance(parent, list):
        parent.append(copy.deepcopy(entry))
    elif how == 2:
        parent[f"{key}_"] = parent.pop(key)
    elif how == 3:
        other = rng.choice(list(parent) if isinstance(parent, dict) else range(len(parent)))
        parent[key], parent[other] = parent[other], parent[key]
    else:
        parent[key] = copy.deepcopy(rng.choice(POOL))  # a further change must not reach the pool


def mutate_text(text: str, rng: random.Random) -> str:
    """Text with a piece of it cut, doubled, replaced or turned around."""
    if not text:
        return "\x00"
    start = rng.randrange(len(text))
    stop = min(len(text), start + rng.randrange(1, 12))
    piece = text[start:stop]
    middle = rng.choice(["", piece * 2, piece[::-1], rng.choice('0129,:"{}[]\n\t-.&*!%\\\x00é'), "\ufeff", "0", '""'])
    return text[:start] + middle + text[stop:] if rng.random() > 0.1 else text[:start]


def mutate_bytes(content: bytes, rng: random.Random) -> bytes:
    """Bytes with a few of them changed, or the end cut off."""
    damaged = bytearray(content)
    if rng.random() < 0.15:
        return bytes(damaged[: rng.randrange(len(damaged))])
    for _ in range(rng.randrange(1, 6)):
        damaged[rng.randrange(len(damaged))] = rng.randrange(256)
    return bytes(damaged)


def as_json(value: Any) -> str:
    """JSON as a careless tool writes it: with NaN, with half surrogates."""
    return json.dumps(value)
