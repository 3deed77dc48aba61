"""Sentence templates of a voice assistant, read into small trees from which sentences are drawn.

The notation: `[the]` may be left out, `(on|off)` is one of several, `(a;b)` is both in any order, `<rule>` stands for
another template, `{list}` or `{list:slot}` for a value. White space counts: `light[s]` is one word, `light [s]` two.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise

SlotFiller = Callable[[str, random.Random], str]


@dataclass(frozen=True)
class Text:
    """Words as they stand."""

    words: str


@dataclass(frozen=True)
class Slot:
    """The name of a list; who draws the sentence says what stands there."""

    name: str


@dataclass(frozen=True)
class Rule:
    """The name of another template."""

    name: str


@dataclass(frozen=True)
class Sequence:
    """One part after the other."""

    parts: tuple[Node, ...]


@dataclass(frozen=True)
class Choice:
    """One of the options. An optional part is a choice with an empty option."""

    options: tuple[Node, ...]


@dataclass(frozen=True)
class Permutation:
    """All of the parts, in any order."""

    parts: tuple[Node, ...]


Node = Text | Slot | Rule | Sequence | Choice | Permutation

_CLOSING = {"(": ")", "[": "]"}
_REFERENCE: dict[str, tuple[str, type[Rule] | type[Slot]]] = {"<": (">", Rule), "{": ("}", Slot)}


def parse(template: str) -> Node:
    """The tree of a template; a ValueError that shows the template when its brackets do not match."""
    node, end = _parse_group(template, 0, closing="")
    if end != len(template):
        raise ValueError(f"Template {template!r} closes a bracket at position {end} that it never opened.")
    return node


def _parse_group(template: str, start: int, closing: str) -> tuple[Node, int]:
    """Reads up to `closing` (or to the end); returns the node and the position after what it read."""
    options: list[Node] = []
    parts: list[Node] = []
    separators = set()
    position = start
    while position < len(template) and template[position] not in ")]":
        character = template[position]
        if character in _CLOSING:
            part, position = _parse_group(template, position + 1, _CLOSING[character])
            parts.append(Choice((part, Text(""))) if character == "[" else part)
        elif character in _REFERENCE:
            until, kind = _REFERENCE[character]
            end = template.find(until, position)
            if end < 0:
                raise ValueError(
                    f"Template {template!r} opens {character!r} at position {position} and never closes it."
                )
            parts.append(kind(template[position + 1 : end].partition(":")[0]))
            position = end + 1
        elif character in "|;":
            options.append(Sequence(tuple(parts)))
            parts = []
            separators.add(character)
            position += 1
        else:
            end = position
            while end < len(template) and template[end] not in "()[]<>{}|;":
                end += 1
            if end == position:
                raise ValueError(
                    f"Template {template!r} has {character!r} at position {position}, with nothing to close."
                )
            parts.append(Text(template[position:end]))
            position = end
    if closing:
        if position >= len(template) or template[position] != closing:
            raise ValueError(f"Template {template!r} opens a bracket before position {start} and never closes it.")
        position += 1
    options.append(Sequence(tuple(parts)))
    if len(separators) > 1:
        raise ValueError(f"Template {template!r} mixes '|' and ';' in one bracket; use another bracket inside.")
    if len(options) == 1:
        return options[0], position
    return (Permutation if separators == {";"} else Choice)(tuple(options)), position


class Grammar:
    """Named rules, parsed once, from which sentences of any template are drawn."""

    def __init__(self, rules: dict[str, str]) -> None:
        self.rules = {name: parse(template) for name, template in rules.items()}

    def draw(self, node: Node, fill: SlotFiller, rng: random.Random) -> tuple[str, str]:
        """One sentence, and its pattern: the same words with each value replaced by the name of its list."""
        pieces: list[tuple[str, str]] = []
        self._walk(node, fill, rng, pieces)
        return _tidy("".join(text for text, _ in pieces)), _tidy("".join(pattern for _, pattern in pieces))

    def _walk(self, node: Node, fill: SlotFiller, rng: random.Random, pieces: list[tuple[str, str]]) -> None:
        match node:
            case Text(words):
                pieces.append((words, words))
            case Slot(name):
                pieces.append((fill(name, rng), f"{{{name}}}"))
            case Rule(name):
                if name not in self.rules:
                    raise ValueError(f"Unknown rule <{name}>; the grammar has: {', '.join(sorted(self.rules))}.")
                self._walk(self.rules[name], fill, rng, pieces)
            case Sequence(parts):
                for part in parts:
                    self._walk(part, fill, rng, pieces)
            case Choice(options):
                self._walk(rng.choice(options), fill, rng, pieces)
            case Permutation(parts):
                for part in rng.sample(parts, len(parts)):
                    pieces.append((" ", " "))
                    self._walk(part, fill, rng, pieces)
                pieces.append((" ", " "))


_ARTICLES = {"the", "my", "our"}


def _tidy(sentence: str) -> str:
    """Single blanks, and one article where two rules that each bring their own have met (`the my lights`)."""
    words = sentence.split()
    kept = [word for before, word in pairwise(words) if not (before in _ARTICLES and word in _ARTICLES)]
    return " ".join(words[:1] + kept)
