"""A tiny text update: an old model trained for a moment, and rows that a bag of words can tell apart."""

import json
import random

from tiny_models import INTENTS, WORDS, tiny_bert

SIGNS = {
    "light_on": ["turn", "on"],
    "light_off": ["turn", "off"],
    "music": ["play", "music"],
    "weather": ["what", "weather"],
}


def tiny_rows(count, seed, labels=INTENTS):
    """Sentences of six words, two of which say the intent; no sentence twice."""
    rng, rows = random.Random(seed), {}
    while len(rows) < count:
        label = labels[len(rows) % len(labels)]
        words = [*SIGNS.get(label, ["timer", "stop"]), *rng.choices(WORDS, k=4)]
        rng.shuffle(words)
        rows.setdefault(" ".join(words), label)
    numbered = enumerate(rows.items())
    return [{"id": f"{seed}-{number}", "text": text, "label": label} for number, (text, label) in numbered]


def write_rows(path, rows):
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return str(path)


def save_tiny(folder, tokenizer, **options):
    tiny_bert(**options).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return str(folder)
