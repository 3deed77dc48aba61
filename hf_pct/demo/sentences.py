"""Sentences of a voice assistant, drawn from the English grammar of the `home-assistant-intents` package.

The grammar leaves some lists to each household (its rooms, its devices, what it listens to); `vocabulary.py` has ours.
"""

from __future__ import annotations

import hashlib
import json
import random
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial

from ..core.decode import JsonObject
from .grammar import Grammar, Node, parse
from .packages import intents_path
from .vocabulary import DEVICES, FREE_TEXT, PLACES


@dataclass(frozen=True)
class Sentence:
    """One row, with the pattern that it was drawn from: its words with each value replaced by the list's name."""

    text: str
    label: str
    domain: str
    pattern: str

    @property
    def id(self) -> str:
        """The same text has the same id in every run, on every machine and in every split."""
        return hashlib.sha256(self.text.encode()).hexdigest()[:12]


class IntentGrammar:
    """The package's grammar with our vocabulary: which lists there are, and what stands in each."""

    def __init__(self) -> None:
        data = json.loads(intents_path("data", "en.json").read_text(encoding="utf-8"))
        about = json.loads(intents_path("intents.json").read_text(encoding="utf-8"))
        self.grammar = Grammar(data["expansion_rules"])
        self.intents: JsonObject = data["intents"]
        self.domains = {name: entry.get("domain", "none") for name, entry in about.items()}
        self.ranges = {name: entry["range"] for name, entry in data["lists"].items() if "range" in entry}
        self.values = {
            name: self._parse_values(entry["values"]) for name, entry in data["lists"].items() if "values" in entry
        }

    @staticmethod
    def _parse_values(values: list[str | dict[str, str]]) -> list[Node]:
        return [parse(value["in"] if isinstance(value, dict) else value) for value in values]

    def fill(self, slot: str, rng: random.Random, domain: str) -> str:
        """A value for a list; `domain` says which devices {name} may be."""
        if slot in self.values:
            return self.grammar.draw(rng.choice(self.values[slot]), partial(self.fill, domain=domain), rng)[0]
        if slot in self.ranges:
            limits = self.ranges[slot]
            return str(rng.randrange(limits["from"], limits["to"] + 1, limits.get("step", 1)))
        words = DEVICES.get(domain) if slot == "name" else PLACES.get(slot) or FREE_TEXT.get(slot)
        if words is None:
            raise ValueError(
                f"The grammar asks for a value of {{{slot}}} (domain {domain}), which neither it nor our vocabulary "
                "lists. This version of home-assistant-intents is newer than hf_pct; install an older one."
            )
        return rng.choice(words)

    def sentences(self, intent: str, seed: int, limit: int) -> Iterator[Sentence]:
        """Distinct sentences of one intent, its templates in turn, until `limit` or until nothing new comes."""
        rng = random.Random(f"{seed}/{intent}")
        templates = [
            (parse(template), _domains(block) or [self._intent_domain(intent)])
            for block in self.intents[intent]["data"]
            for template in block["sentences"]
        ]
        seen: set[str] = set()
        for _ in range(4 * limit // len(templates) + 4):
            rng.shuffle(templates)
            for node, domains in templates:
                domain = rng.choice(domains)
                text, pattern = self.grammar.draw(node, partial(self.fill, domain=domain), rng)
                if text in seen:
                    continue
                seen.add(text)
                yield Sentence(text, intent, domain, pattern)
                if len(seen) == limit:
                    return

    def _intent_domain(self, intent: str) -> str:
        if "Timer" in intent:
            return "timer"
        domain = self.domains.get(intent, "none")
        return "none" if domain == "homeassistant" else domain


def _domains(block: JsonObject) -> list[str]:
    """The kinds of device that a block of templates is about; empty when it does not say."""
    fixed = block.get("slots", {}).get("domain")
    return [fixed] if fixed else list(block.get("requires_context", {}).get("domain", []))
