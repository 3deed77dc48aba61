"""Tiny models from config, for every test that needs a real one."""

WORDS = ["turn", "on", "off", "the", "light", "music", "play", "stop", "what", "is", "weather", "today", "timer"]
INTENTS = ["light_on", "light_off", "music", "weather"]


def tiny_bert(label_names=INTENTS, seed=0):
    import torch
    from transformers import BertConfig, BertForSequenceClassification

    torch.manual_seed(seed)
    config = BertConfig(
        vocab_size=4 + len(WORDS),
        hidden_size=16,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=32,
        max_position_embeddings=32,
        initializer_range=0.5,
        id2label=dict(enumerate(label_names)),
        label2id={name: index for index, name in enumerate(label_names)},
    )
    return BertForSequenceClassification(config).eval()
