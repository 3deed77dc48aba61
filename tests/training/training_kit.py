"""Tiny models from config, a tokenizer of a few words and data to match: what the training tests are made of."""

from pathlib import Path
from typing import Any

import datasets
import numpy as np
import torch
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import (
    BertConfig,
    BertForSequenceClassification,
    DataCollatorWithPadding,
    PreTrainedTokenizerFast,
    RobertaConfig,
    RobertaForSequenceClassification,
    TimmWrapperConfig,
    TimmWrapperForImageClassification,
)

from hf_pct.training.arguments import ELODIArguments, FocalDistillArguments
from hf_pct.training.elodi import ELODITrainer
from hf_pct.training.focal_distill import FocalDistillTrainer

WORDS = [f"w{number}" for number in range(60)]
NAMES = ["lights", "music", "weather", "alarm"]


def tokenizer(words=tuple(WORDS)) -> PreTrainedTokenizerFast:
    vocabulary = {word: index for index, word in enumerate(["[PAD]", "[UNK]", *words])}
    core = Tokenizer(models.WordLevel(vocabulary, unk_token="[UNK]"))
    core.pre_tokenizer = pre_tokenizers.Whitespace()
    return PreTrainedTokenizerFast(
        tokenizer_object=core, pad_token="[PAD]", unk_token="[UNK]", model_max_length=16, padding_side="right"
    )


def labels_of(names) -> dict[str, Any]:
    return {"id2label": dict(enumerate(names)), "label2id": {name: index for index, name in enumerate(names)}}


def bert(seed: int | None = 0, names=NAMES, dropout=0.0, scale=20.0) -> BertForSequenceClassification:
    """A BERT small enough to train in a moment; its head is scaled up, so that two of them really disagree.

    Without a seed its weights are drawn from wherever torch's generator is, as a `model_init` should.
    """
    if seed is not None:
        torch.manual_seed(seed)
    config = BertConfig(
        vocab_size=len(WORDS) + 2, hidden_size=16, num_hidden_layers=2, num_attention_heads=2, intermediate_size=24,
        max_position_embeddings=32, hidden_dropout_prob=dropout, attention_probs_dropout_prob=dropout,
        **labels_of(names),
    )  # fmt: skip
    model = BertForSequenceClassification(config)
    model.classifier.weight.data.mul_(scale)
    return model


def permuted(model, order) -> BertForSequenceClassification:
    """The same model with its classes in another order."""
    other = bert(names=[NAMES[index] for index in order])
    other.load_state_dict(model.state_dict())
    other.classifier.weight.data = model.classifier.weight.data[order].clone()
    other.classifier.bias.data = model.classifier.bias.data[order].clone()
    return other


def roberta(seed=0, names=NAMES) -> RobertaForSequenceClassification:
    torch.manual_seed(seed)
    config = RobertaConfig(
        vocab_size=len(WORDS) + 2, hidden_size=16, num_hidden_layers=1, num_attention_heads=2, intermediate_size=24,
        max_position_embeddings=40, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0, pad_token_id=0,
        **labels_of(names),
    )  # fmt: skip
    return RobertaForSequenceClassification(config)


def timm_model(architecture="vit_tiny_patch16_224", seed: int | None = 0, names=NAMES, **model_args) -> Any:
    """A timm model in the transformers wrapper, with the initialisation that timm itself would give it."""
    import timm

    if seed is not None:
        torch.manual_seed(seed)
    if architecture.startswith("vit"):
        model_args = {"img_size": 16, "patch_size": 8, "embed_dim": 16, "depth": 2, "num_heads": 2, **model_args}
    wrapper = TimmWrapperForImageClassification(
        TimmWrapperConfig(architecture=architecture, model_args=model_args, **labels_of(names))
    )
    fresh = timm.create_model(architecture, num_classes=len(names), **model_args)
    wrapper.timm_model.load_state_dict(fresh.state_dict())
    return wrapper


def texts(rows=48, seed=0, classes=4, tokenized=True) -> datasets.Dataset:
    """Sentences whose class shows in some of their words."""
    generator = np.random.default_rng(seed)
    labels = generator.integers(0, classes, rows)
    sentences = []
    for label in labels:
        own = generator.choice(WORDS[label * 5 : label * 5 + 5], 2)
        noise = generator.choice(WORDS[30:], generator.integers(1, 6))
        sentences.append(" ".join([*own, *noise]))
    data = datasets.Dataset.from_dict({"text": sentences, "label": labels.tolist()})
    return data.map(lambda batch: dict(tokenizer()(batch["text"])), batched=True) if tokenized else data


def images(rows=48, seed=0, size=16, classes=4) -> datasets.Dataset:
    generator = np.random.default_rng(seed)
    labels = generator.integers(0, classes, rows)
    pixels = generator.normal(size=(rows, 3, size, size)).astype("float32")
    pixels[np.arange(rows), 0, labels * 2] += 2.0
    data = datasets.Dataset.from_dict({"pixel_values": pixels.tolist(), "labels": labels.tolist()})
    return data.with_format("torch")


def arguments(folder: Path | str, kind: type = FocalDistillArguments, **changes: Any) -> Any:
    settings = {
        "output_dir": str(folder), "use_cpu": True, "report_to": "none", "per_device_train_batch_size": 16,
        "per_device_eval_batch_size": 16, "num_train_epochs": 1, "learning_rate": 1e-2, "save_strategy": "no",
        "logging_steps": 1, "disable_tqdm": True, "seed": 7, "lr_scheduler_type": "constant",
        "reference_cache_dir": str(Path(folder) / "cache"), **changes,
    }  # fmt: skip
    return kind(**settings)


def elodi(folder: Path | str, model_init=None, train=None, model=None, **changes: Any) -> ELODITrainer:
    """A text trainer with two members that takes a moment; keyword arguments it does not know are settings."""
    own = {
        name: changes.pop(name)
        for name in ("eval_dataset", "members", "old_model", "calibration_dataset", "callbacks", "data_collator")
        if name in changes
    }  # fmt: skip
    train = texts() if train is None else train
    if "input_ids" in (getattr(train, "column_names", None) or []):
        own.setdefault("data_collator", DataCollatorWithPadding(tokenizer()))
    if model is None:
        own["model_init"] = model_init or (lambda: bert(seed=None, scale=1.0))
    settings = {"num_members": 2, "learning_rate": 5e-3, **changes}
    args = arguments(folder, ELODIArguments, **settings)
    return ELODITrainer(model, args, train_dataset=train, **own)


def trainer(
    folder: Path | str,
    model=None,
    train=None,
    old_model="default",
    kind: type[FocalDistillTrainer] = FocalDistillTrainer,
    method_object=None,
    **changes: Any,
) -> FocalDistillTrainer:
    """A text trainer with an old model, unless told otherwise; keyword arguments it does not know are settings."""
    own = {
        name: changes.pop(name)
        for name in ("eval_dataset", "compute_metrics", "callbacks", "old_processor", "old_label_names",
                     "data_collator", "processing_class", "compute_loss_func", "preprocess_logits_for_metrics",
                     "references", "model_init")
        if name in changes
    }  # fmt: skip
    train = texts() if train is None else train
    if "input_ids" in (getattr(train, "column_names", None) or []):
        own.setdefault("data_collator", DataCollatorWithPadding(tokenizer()))
    return kind(
        bert(seed=1) if model is None and "model_init" not in own else model,
        arguments(folder, **changes),
        train_dataset=train,
        old_model=bert(seed=2) if isinstance(old_model, str) and old_model == "default" else old_model,
        method=method_object,
        **own,
    )


def weights(model) -> dict[str, torch.Tensor]:
    return {name: value.detach().clone() for name, value in model.state_dict().items()}


def distance(first, second) -> float:
    """The largest difference between two sets of weights."""
    first, second = (value if isinstance(value, dict) else weights(value) for value in (first, second))
    assert first.keys() == second.keys()
    return max((first[name].double() - second[name].double()).abs().max().item() for name in first)


def losses(trained) -> list[float]:
    return [entry["loss"] for entry in trained.state.log_history if "loss" in entry]
