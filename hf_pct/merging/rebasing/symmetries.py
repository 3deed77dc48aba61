"""Which units of a network can be renumbered without changing what it computes: BERT family and timm ResNets.

A `Group` is one set of units with every place where they occur, as (entry, axis). Renumbering all its places alike
leaves the function as it is. Heads of an attention layer have more: heads may be renumbered, and inside a head the
query-key dimensions and the value-output dimensions, each for itself.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from torch import Tensor

Place = tuple[str, int]


@dataclass(frozen=True)
class Group:
    """Units that are renumbered together. With `heads`, `places` are query-key and `value_places` value-output."""

    name: str
    places: tuple[Place, ...]
    heads: int = 0
    value_places: tuple[Place, ...] = field(default=())


def find_groups(state: Mapping[str, Tensor], heads: int | None = None) -> list[Group]:
    """The symmetries of a state dict, by its names; an unknown architecture is an error that lists what is unknown."""
    names = [name for name, value in state.items() if value.dim() > 0]
    if any(".attention.self.query." in name for name in names):
        if not heads:
            raise ValueError("The number of attention heads is needed to align a BERT-family model, got none.")
        return _checked(_bert_groups(names, heads), state)
    if any(re.search(r"(^|\.)layer\d\.\d+\.conv1\.weight$", name) for name in names):
        return _checked(_resnet_groups(state), state)
    raise ValueError(
        f"Alignment knows BERT, RoBERTa and timm ResNets; these entries are of neither: {names[:5]}. Train the new "
        "model from the old one instead: then no alignment is needed."
    )


def _bert_groups(names: list[str], heads: int) -> list[Group]:
    """The hidden stream; per layer the attention heads and the feed-forward units; the pooler's or head's units."""
    stream: list[Place] = []
    groups: dict[str, dict[str, list[Place]]] = {}
    unknown = []
    for name in names:
        kind = _bert_places(name)
        if kind is None:
            unknown.append(name)
            continue
        for group, axis in kind:
            if group == "stream":
                stream.append((name, axis))
            else:
                prefix, part = group.rsplit(":", 1)
                groups.setdefault(prefix, {}).setdefault(part, []).append((name, axis))
    _refuse(unknown)
    result = [Group("stream", tuple(stream))]
    for prefix, parts in groups.items():
        if "qk" in parts:
            result.append(Group(f"{prefix} heads", tuple(parts["qk"]), heads, tuple(parts["vo"])))
        for part in ("ffn", "pooled"):
            if part in parts:
                result.append(Group(f"{prefix} {part}", tuple(parts[part])))
    return result


def _bert_places(name: str) -> list[tuple[str, int]] | None:
    """(group, axis) of one entry; an empty list for entries that hold no units, None for unknown ones."""
    weight, layer = name.endswith(".weight"), re.search(r"\.layer\.(\d+)\.(.+)$", name)
    if layer:
        prefix, rest = f"layer {layer.group(1)}", layer.group(2)
        if re.match(r"attention\.self\.(query|key|value)\.", rest):
            own = "vo" if ".value." in rest else "qk"
            return [(f"{prefix}:{own}", 0)] + ([("stream", 1)] if weight else [])
        if rest.startswith("attention.output.dense."):
            return [("stream", 0)] + ([(f"{prefix}:vo", 1)] if weight else [])
        if rest.startswith("intermediate.dense."):
            return [(f"{prefix}:ffn", 0)] + ([("stream", 1)] if weight else [])
        if rest.startswith("output.dense."):
            return [("stream", 0)] + ([(f"{prefix}:ffn", 1)] if weight else [])
        return [("stream", 0)] if "LayerNorm." in rest else None
    if ".embeddings." in name:
        return [("stream", 0 if "LayerNorm." in name else 1)] if not name.endswith("_ids") else []
    if re.search(r"(pooler|classifier)\.dense\.", name):
        return [("pooler:pooled", 0)] + ([("stream", 1)] if weight else [])
    if re.search(r"classifier(\.out_proj)?\.(weight|bias)$", name):
        return [("pooler:pooled", 1)] if weight else []
    return None


def _resnet_groups(state: Mapping[str, Tensor]) -> list[Group]:
    """One group per residual stream (a stage), one per inner convolution of a block, and those of a deep stem."""
    groups: dict[str, list[Place]] = {}
    done: set[str] = set()
    root = next(name for name in state if name.endswith("fc.weight")).removesuffix("fc.weight")

    def conv(name: str, source: str | None, target: str) -> None:
        groups.setdefault(target, []).append((f"{name}.weight", 0))
        if source is not None:
            groups[source].append((f"{name}.weight", 1))
        if f"{name}.bias" in state:
            groups[target].append((f"{name}.bias", 0))
        done.update((f"{name}.weight", f"{name}.bias"))

    def norm(name: str, target: str) -> None:
        for part in ("weight", "bias", "running_mean", "running_var"):
            groups[target].append((f"{name}.{part}", 0))
            done.add(f"{name}.{part}")

    stem = sorted({n.split(".")[-2] for n in state if re.match(rf"{re.escape(root)}conv1\.\d+\.weight$", n)}, key=int)
    if stem:  # a deep stem: convolution, norm, convolution, norm, convolution
        current: str | None = None
        for at in stem:
            if state[f"{root}conv1.{at}.weight"].dim() == 4:
                last = at == stem[-1]
                conv(f"{root}conv1.{at}", current, "stream" if last else f"stem {at}")
                current = "stream" if last else f"stem {at}"
            elif current is not None:
                norm(f"{root}conv1.{at}", current)
    else:
        conv(f"{root}conv1", None, "stream")
    norm(f"{root}bn1", "stream")
    stream = "stream"
    for block in _blocks(state, root):
        inner = sorted(n.split(".")[-2] for n in state if re.match(rf"{re.escape(block)}\.conv\d\.weight$", n))
        short = [n for n in state if re.match(rf"{re.escape(block)}\.downsample\.\d+\.weight$", n)]
        output = block if short else stream
        source = stream
        for i, name in enumerate(inner):
            target = output if i == len(inner) - 1 else f"{block} {name}"
            conv(f"{block}.{name}", source, target)
            norm(f"{block}.{name.replace('conv', 'bn')}", target)
            source = target
        for name in short:
            layer = name.removesuffix(".weight")
            conv(layer, stream, output) if state[name].dim() == 4 else norm(layer, output)
        stream = output
    groups[stream].append((f"{root}fc.weight", 1))
    done.update((f"{root}fc.weight", f"{root}fc.bias"))
    _refuse([name for name, value in state.items() if value.dim() > 0 and name not in done])
    return [Group(name, tuple(places)) for name, places in groups.items()]


def _blocks(state: Mapping[str, Tensor], root: str) -> list[str]:
    blocks = {match.group(0) for name in state if (match := re.match(rf"{re.escape(root)}layer(\d)\.(\d+)", name))}
    return sorted(blocks, key=lambda block: [int(part) for part in re.findall(r"\d+", block.removeprefix(root))])


def _checked(groups: list[Group], state: Mapping[str, Tensor]) -> list[Group]:
    """Grouped convolutions and shared heads have the right names and the wrong sizes."""
    uneven = []
    for group in groups:
        for places in (group.places, group.value_places):
            sizes = {state[name].shape[axis] for name, axis in places}
            uneven += [name for name, _ in places] if len(sizes) > 1 else []
    _refuse(uneven)
    return groups


def _refuse(unknown: list[str]) -> None:
    if unknown:
        raise ValueError(
            f"Alignment does not know what {len(unknown)} entries of this model do, so it cannot promise to keep its "
            f"function: {unknown[:5]}"
        )
