"""The demo's text task: which intent does a sentence to a voice assistant have?

Sentences are generated from a real grammar (`sentences.py`), the same ones for the same seed. The splits tell the
story of an update: the new model sees everything that the old one saw, and more; the test set is phrased otherwise
than either.
"""

from __future__ import annotations

import random
from collections import Counter, defaultdict
from collections.abc import Sequence
from itertools import chain, zip_longest
from typing import TYPE_CHECKING

from ..models.quiet import quiet
from ..models.types import Processor
from .packages import minilm_path
from .sentences import IntentGrammar, Sentence

if TYPE_CHECKING:
    from datasets import Dataset, DatasetDict
    from transformers import PreTrainedModel

# Some intents have thousands of sentences, others a dozen: the first are cut, the last left out.
MAX_PER_INTENT = 200
MIN_PER_INTENT = 20
# The share of an intent's patterns that only the test set uses.
TEST_PATTERNS = 0.4


def load_intents(seed: int = 0) -> Dataset:
    """About 7000 sentences of 39 intents, with the columns `id, text, label, domain, pattern`.

    `domain` is the kind of device that a sentence is about, for flips by slice. `pattern` is the sentence with every
    room, device and number replaced by the name of its list: sentences of one pattern differ in nothing else.
    """
    sentences = generate_sentences(seed)
    return _to_dataset(sentences, sorted({sentence.label for sentence in sentences}))


def intent_splits(old_size: int = 400, new_size: int = 500, test_size: int = 1500, seed: int = 0) -> DatasetDict:
    """`old_train`, `new_train` (all of `old_train`, and more) and `test`.

    No pattern is both in `test` and in a training set, so that a model cannot pass by remembering a phrase with
    another room in it. Intents are equally frequent in the training sets.
    """
    from datasets import DatasetDict

    sentences = generate_sentences(seed)
    names = sorted({sentence.label for sentence in sentences})
    train, test = _split_by_pattern(sentences, random.Random(f"{seed}/splits"))
    problems = [
        f"{name} is {size}, expected 1 to {most}"
        for name, size, most in (
            ("new_size", new_size, len(train)),
            ("old_size", old_size, new_size),
            ("test_size", test_size, len(test)),
        )
        if not 1 <= size <= most
    ]
    if problems:
        raise ValueError("These splits cannot be made:\n  " + "\n  ".join(problems))
    parts = {"old_train": train[:old_size], "new_train": train[:new_size], "test": test[:test_size]}
    return DatasetDict({part: _to_dataset(rows, names) for part, rows in parts.items()})


def new_intent_model(label_names: list[str], seed: int = 0) -> tuple[PreTrainedModel, Processor]:
    """The pretrained MiniLM with a fresh head for these intents, and its tokenizer."""
    import torch
    from transformers import AutoModelForSequenceClassification, AutoTokenizer

    folder = str(minilm_path())
    with quiet(), torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)  # the head's initial weights
        model = AutoModelForSequenceClassification.from_pretrained(
            folder,
            id2label=dict(enumerate(label_names)),
            label2id={name: index for index, name in enumerate(label_names)},
        )
        tokenizer = AutoTokenizer.from_pretrained(folder)
    # Half of the weights are word embeddings. A few hundred sentences teach them little; frozen, they cost nothing.
    model.base_model.embeddings.requires_grad_(False)
    return model, tokenizer


def generate_sentences(seed: int = 0) -> list[Sentence]:
    """Every intent's sentences, without the texts that two intents share and the intents that are left with few."""
    grammar = IntentGrammar()
    drawn = chain.from_iterable(grammar.sentences(intent, seed, MAX_PER_INTENT) for intent in sorted(grammar.intents))
    sentences = drop_shared_texts(list(drawn))
    frequency = Counter(sentence.label for sentence in sentences)
    return [sentence for sentence in sentences if frequency[sentence.label] >= MIN_PER_INTENT]


def drop_shared_texts(sentences: Sequence[Sentence]) -> list[Sentence]:
    """Without the texts that have two intents: no model can get both right, and each would count as an error."""
    intents = defaultdict(set)
    for sentence in sentences:
        intents[sentence.text].add(sentence.label)
    return [sentence for sentence in sentences if len(intents[sentence.text]) == 1]


def _split_by_pattern(sentences: Sequence[Sentence], rng: random.Random) -> tuple[list[Sentence], list[Sentence]]:
    """Training rows, the intents in turn, and shuffled test rows."""
    by_intent = defaultdict(list)
    for sentence in sentences:
        by_intent[sentence.label].append(sentence)
    train: list[list[Sentence]] = []
    test: list[Sentence] = []
    held_out: dict[str, bool] = {}  # of every pattern; two intents may share one ("start the {name}")
    for rows in by_intent.values():
        patterns = sorted({row.pattern for row in rows} - set(held_out))
        chosen = set(rng.sample(patterns, round(TEST_PATTERNS * len(patterns))))
        held_out |= {pattern: pattern in chosen for pattern in patterns}
        rng.shuffle(rows)
        train.append([row for row in rows if not held_out[row.pattern]])
        test.extend(row for row in rows if held_out[row.pattern])
    rng.shuffle(test)
    in_turn = chain.from_iterable(zip_longest(*train))
    return [row for row in in_turn if row is not None], test


def _to_dataset(sentences: Sequence[Sentence], names: list[str]) -> Dataset:
    from datasets import ClassLabel, Dataset, Features, Value

    text = Value("string")
    features = {"id": text, "text": text, "label": ClassLabel(names=names), "domain": text, "pattern": text}
    columns = {column: [getattr(sentence, column) for sentence in sentences] for column in features}
    return Dataset.from_dict(columns, features=Features(features))
