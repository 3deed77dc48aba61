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
TRAINING = {"num_train_epochs": 1, "learning_rate": 1e-3, "per_device_train_batch_size": 16}


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


def tiny_setting(root, tokenizer, counts, seed):
    """An old model, and as many training, development and test rows as `counts` says, all in the folder `root`."""
    setting, rows = {"root": root, "old": save_tiny(root / "old", tokenizer)}, iter(tiny_rows(sum(counts), seed))
    for name, count in zip(("train", "dev", "test"), counts, strict=True):
        setting[name] = write_rows(root / f"{name}.jsonl", [next(rows) for _ in range(count)])
    return setting
