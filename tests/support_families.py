"""Tiny random classifiers of many families, with what reads their inputs: what the support matrix runs over."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
import transformers as hf
from tokenizers import Tokenizer, models, pre_tokenizers

NAMES = ("lights", "music", "weather")
WORDS = [f"w{number}" for number in range(40)]
LABELS = {"id2label": dict(enumerate(NAMES)), "label2id": {name: index for index, name in enumerate(NAMES)}}
VOCABULARY = len(WORDS) + 4
DEEP = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 24}
TEXT = {**DEEP, "vocab_size": VOCABULARY, "max_position_embeddings": 40, "pad_token_id": 0}
DECODER = {**TEXT, "num_key_value_heads": 2, "bos_token_id": 2, "eos_token_id": 3}
IMAGE = {**DEEP, "image_size": 16, "patch_size": 8}
SOUND = {
    **DEEP, "conv_dim": (8, 8), "conv_stride": (4, 4), "conv_kernel": (8, 4), "num_feat_extract_layers": 2,
    "num_conv_pos_embeddings": 4, "num_conv_pos_embedding_groups": 2, "classifier_proj_size": 8, "mask_time_prob": 0.0,
    "vocab_size": 8,
}  # fmt: skip


@dataclass(frozen=True)
class Family:
    """One row of the matrix: its class in transformers or timm, and the smallest settings that make sense."""

    name: str
    kind: str
    config: str
    model: str
    settings: dict[str, Any]

    def make(self, seed: int) -> Any:
        """A model with random weights that do not all answer the same."""
        torch.manual_seed(seed)
        if self.kind == "timm":
            from hf_pct.models.load.timm_models import timm_classifier

            return timm_classifier(self.model, NAMES, 32)[0].eval()
        model = getattr(hf, self.model)(getattr(hf, self.config)(**self.settings, **LABELS))
        for value in model.parameters() if self.kind != "image32" else ():  # convolutions have a sane start
            if value.ndim > 1:
                torch.nn.init.normal_(value, std=0.3)
        return model.eval()

    def processor(self) -> Any:
        """The tokenizer, image processor or feature extractor that goes with it."""
        if self.kind == "timm":
            from hf_pct.models.load.timm_models import timm_classifier

            return timm_classifier(self.model, NAMES, 32)[1]
        return _PROCESSORS[self.kind]()


def word_tokenizer() -> hf.PreTrainedTokenizerFast:
    vocabulary = {word: index for index, word in enumerate(["[PAD]", "[UNK]", "[BOS]", "[EOS]", *WORDS])}
    core = Tokenizer(models.WordLevel(vocabulary, unk_token="[UNK]"))
    core.pre_tokenizer = pre_tokenizers.Whitespace()
    special = {"pad_token": "[PAD]", "unk_token": "[UNK]", "bos_token": "[BOS]", "eos_token": "[EOS]"}
    return hf.PreTrainedTokenizerFast(tokenizer_object=core, model_max_length=16, **special)


def _pictures() -> Any:
    return hf.ViTImageProcessor(size={"height": 16, "width": 16})


_PROCESSORS: dict[str, Callable[[], Any]] = {
    "text": word_tokenizer,
    "image": _pictures,
    "image32": lambda: hf.ViTImageProcessor(size={"height": 32, "width": 32}),
    "audio": lambda: hf.Wav2Vec2FeatureExtractor(sampling_rate=16_000),
}


def _text(name: str, **settings: Any) -> Family:
    return Family(name, "text", f"{name}Config", f"{name}ForSequenceClassification", {**TEXT, **settings})


def _decoder(name: str, **settings: Any) -> Family:
    return Family(name, "text", f"{name}Config", f"{name}ForSequenceClassification", {**DECODER, **settings})


def _image(name: str, **settings: Any) -> Family:
    return Family(name, "image", f"{name}Config", f"{name}ForImageClassification", {**IMAGE, **settings})


def _convolution(name: str, **settings: Any) -> Family:
    return Family(name, "image32", f"{name}Config", f"{name}ForImageClassification", settings)


def _sound(name: str) -> Family:
    return Family(name, "audio", f"{name}Config", f"{name}ForSequenceClassification", SOUND)


FAMILIES = [
    _text("Bert"),
    _text("Roberta"),
    _text("XLMRoberta"),
    Family("DistilBert", "text", "DistilBertConfig", "DistilBertForSequenceClassification", {
        "vocab_size": VOCABULARY, "dim": 16, "n_layers": 2, "n_heads": 2, "hidden_dim": 24,
        "max_position_embeddings": 40,
    }),
    _text("Albert", embedding_size=8),
    _text("Electra", embedding_size=16),
    _text("DebertaV2", relative_attention=True, position_buckets=8, pos_att_type=["p2c", "c2p"]),
    _text("MPNet"),
    _text("ModernBert", cls_token_id=2, sep_token_id=3, bos_token_id=2, eos_token_id=3),
    Family("GPT2", "text", "GPT2Config", "GPT2ForSequenceClassification", {
        "vocab_size": VOCABULARY, "n_embd": 16, "n_layer": 2, "n_head": 2, "n_positions": 40, "pad_token_id": 0,
        "bos_token_id": 2, "eos_token_id": 3,
    }),
    _decoder("Llama"),
    _decoder("Mistral"),
    _decoder("Qwen3", head_dim=8),
    _decoder("Gemma2", head_dim=8),
    Family("OPT", "text", "OPTConfig", "OPTForSequenceClassification", {
        "vocab_size": VOCABULARY, "hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "ffn_dim": 24,
        "max_position_embeddings": 40, "pad_token_id": 0, "bos_token_id": 2, "eos_token_id": 3,
        "word_embed_proj_dim": 16,
    }),
    _image("ViT"),
    _image("DeiT"),
    _image("Beit"),
    _image("Dinov2"),
    Family("Swin", "image32", "SwinConfig", "SwinForImageClassification", {
        "image_size": 32, "patch_size": 4, "embed_dim": 8, "depths": [1, 1], "num_heads": [1, 2], "window_size": 4,
    }),
    _convolution("ConvNext", hidden_sizes=[8, 16], depths=[1, 1], num_stages=2),
    _convolution("ResNet", embedding_size=8, hidden_sizes=[8, 16], depths=[1, 1]),
    Family("Siglip", "image", "SiglipConfig", "SiglipForImageClassification", {
        "text_config": {**TEXT, "vocab_size": VOCABULARY}, "vision_config": IMAGE,
    }),
    Family("timm ResNet", "timm", "", "test_resnet", {}),
    Family("timm ViT", "timm", "", "test_vit", {}),
    _sound("Wav2Vec2"),
    _sound("Hubert"),
    _sound("WavLM"),
]  # fmt: skip
