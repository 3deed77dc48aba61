"""Tiny models from config, built once a session: an old one, and new ones a small step away from it."""

import copy

import pytest
import torch
from transformers import BertConfig, BertForSequenceClassification


def tiny_config(labels=("no", "yes", "maybe"), **options):
    names = dict(enumerate(labels))
    settings = {
        "vocab_size": 50,
        "hidden_size": 16,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "intermediate_size": 24,
        "max_position_embeddings": 20,
        "hidden_dropout_prob": 0.0,
        "attention_probs_dropout_prob": 0.0,
        "initializer_range": 0.3,
        "id2label": names,
        "label2id": {name: i for i, name in names.items()},
    }
    return BertConfig(**{**settings, **options})


def tiny_bert(seed, **options):
    torch.manual_seed(seed)
    return BertForSequenceClassification(tiny_config(**options)).eval()


def nudged(model, seed, size=0.05):
    """A copy a small random step away, as a fine-tuned model is."""
    other = copy.deepcopy(model)
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in other.parameters():
            parameter += size * torch.randn(parameter.shape, generator=generator)
    return other


@pytest.fixture(scope="session")
def old_model():
    return tiny_bert(1)


@pytest.fixture(scope="session")
def new_models(old_model):
    return [nudged(old_model, seed) for seed in (2, 3, 4)]


@pytest.fixture(scope="session")
def folders(tmp_path_factory, old_model, new_models):
    """`old`, `new` and `new2` in one file, `sharded_old` and `sharded_new` in several."""
    root = tmp_path_factory.mktemp("models")
    for name, model in (("old", old_model), ("new", new_models[0]), ("new2", new_models[1])):
        model.save_pretrained(root / name)
    old_model.save_pretrained(root / "sharded_old", max_shard_size="3KB")
    new_models[0].save_pretrained(root / "sharded_new", max_shard_size="5KB")
    return root
