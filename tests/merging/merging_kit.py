"""Tiny models from config, an old one and steps away from it, for all tests of merging."""

import copy

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
