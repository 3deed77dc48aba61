"""What every test needs: no network, one thread, a cache of its own, and tiny models that are built once a session."""

import os

os.environ.update(HF_HUB_OFFLINE="1", HF_DATASETS_OFFLINE="1", HF_EVALUATE_OFFLINE="1", TOKENIZERS_PARALLELISM="false")
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

import subprocess

import numpy as np
import pytest
from hypothesis import HealthCheck, settings
from tiny_models import INTENTS, WORDS, tiny_bert

# A busy machine is no reason to fail, and a failure must come again when the test is run again.
settings.register_profile("hf_pct", deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("hf_pct")


@pytest.fixture(autouse=True, scope="session")
def cache_of_its_own(tmp_path_factory):
    """Tests neither see nor leave anything in a person's caches."""
    os.environ["HF_PCT_CACHE"] = str(tmp_path_factory.mktemp("hf_pct_cache"))


@pytest.fixture
def small_disk(tmp_path):
    """A real disk of 256 KiB, which can be filled; making one needs the rights to mount."""
    disk = tmp_path / "disk"
    disk.mkdir()
    made = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=256k", "tmpfs", str(disk)], capture_output=True)
    if made.returncode:
        pytest.skip("no rights to mount a small disk")
    yield disk
    subprocess.run(["umount", "-l", str(disk)], check=True)


@pytest.fixture(scope="session")
def tokenizer():
    from tokenizers import Tokenizer, models, pre_tokenizers, processors
    from transformers import PreTrainedTokenizerFast

    vocabulary = {word: index for index, word in enumerate(["[PAD]", "[UNK]", "[CLS]", "[SEP]", *WORDS])}
    inner = Tokenizer(models.WordLevel(vocabulary, unk_token="[UNK]"))
    inner.pre_tokenizer = pre_tokenizers.Whitespace()
    inner.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", pair="[CLS] $A [SEP] $B:1 [SEP]:1", special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
    )
    names = {"pad_token": "[PAD]", "unk_token": "[UNK]", "cls_token": "[CLS]", "sep_token": "[SEP]"}
    return PreTrainedTokenizerFast(tokenizer_object=inner, model_max_length=32, **names)


@pytest.fixture(scope="session")
def text_models(tmp_path_factory, tokenizer):
    """Two folders with tiny text classifiers; the new one orders its classes differently."""
    root = tmp_path_factory.mktemp("text_models")
    for name, label_names, seed in (("old", INTENTS, 0), ("new", INTENTS[::-1], 1)):
        tiny_bert(label_names, seed).save_pretrained(root / name)
        tokenizer.save_pretrained(root / name)
    return root / "old", root / "new"


@pytest.fixture(scope="session")
def text_rows():
    rng = np.random.default_rng(0)
    return [
        {
            "id": f"row-{index:03d}",
            "text": " ".join(rng.choice(WORDS, size=rng.integers(2, 12))),
            "label": INTENTS[rng.integers(4)],
            "channel": ["app", "phone"][index % 2],
            "user": f"user-{index // 5}",
            "traffic": float(1 + index % 7),
        }
        for index in range(120)
    ]


@pytest.fixture(scope="session")
def text_dataset(text_rows):
    from datasets import Dataset

    return Dataset.from_list(text_rows)


@pytest.fixture(scope="session")
def text_file(text_rows, tmp_path_factory):
    import json

    path = tmp_path_factory.mktemp("data") / "test.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in text_rows))
    return path
