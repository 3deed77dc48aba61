"""Tiny classifiers of many families, and a batch that each of them takes."""

import torch
import transformers

TEXT = {
    "vocab_size": 60, "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 48,
    "max_position_embeddings": 40, "num_labels": 3, "pad_token_id": 0,
}  # fmt: skip
IMAGE = {
    "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 48, "image_size": 32,
    "patch_size": 8, "num_labels": 3,
}  # fmt: skip
RELATIVE = {"relative_attention": True, "pos_att_type": ["p2c", "c2p"]}
SWIN = {"image_size": 32, "patch_size": 4, "embed_dim": 16, "depths": [2, 2], "num_heads": [2, 4], "window_size": 4}
CONVNEXT = {"hidden_sizes": [16, 32], "depths": [1, 2], "num_stages": 2, "layer_scale_init_value": 0.5}
GPT2 = {"vocab_size": 60, "n_embd": 32, "n_layer": 2, "n_head": 4, "n_positions": 40, "pad_token_id": 0}

# family -> (class, config, settings, whether every weight is served in batches)
FAMILIES = {
    "deberta-v2": ("DebertaV2ForSequenceClassification", "DebertaV2Config",
                   {**TEXT, **RELATIVE, "share_att_key": True, "position_buckets": 8, "norm_rel_ebd": "layer_norm",
                    "position_biased_input": False}, False),
    "deberta": ("DebertaForSequenceClassification", "DebertaConfig", {**TEXT, **RELATIVE}, False),
    "albert": ("AlbertForSequenceClassification", "AlbertConfig", {**TEXT, "embedding_size": 16}, False),
    "gpt2": ("GPT2ForSequenceClassification", "GPT2Config", {**GPT2, "num_labels": 3}, True),
    "llama": ("LlamaForSequenceClassification", "LlamaConfig", TEXT, True),
    "vit": ("ViTForImageClassification", "ViTConfig", IMAGE, True),
    "deit": ("DeiTForImageClassificationWithTeacher", "DeiTConfig", IMAGE, True),
    "beit": ("BeitForImageClassification", "BeitConfig", {**IMAGE, "use_mean_pooling": True}, True),
    "dinov2": ("Dinov2ForImageClassification", "Dinov2Config", IMAGE, True),
    "siglip": ("SiglipForImageClassification", "SiglipConfig", {"vision_config": IMAGE, "num_labels": 3}, True),
    "clip": ("CLIPForImageClassification", "CLIPConfig", {"vision_config": IMAGE, "num_labels": 3}, True),
    "swin": ("SwinForImageClassification", "SwinConfig", {**SWIN, "num_labels": 3}, False),
    "convnext": ("ConvNextForImageClassification", "ConvNextConfig", {**CONVNEXT, "num_labels": 3}, True),
}  # fmt: skip


def make_family(name, samples=6):
    """The model, its batch, and whether every weight is served in batches."""
    model_class, config_class, settings, served = FAMILIES[name]
    torch.manual_seed(0)
    model = getattr(transformers, model_class)(getattr(transformers, config_class)(**settings)).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter += 0.05 * torch.randn_like(parameter)
    if "Sequence" not in model_class:
        return model, {"pixel_values": torch.randn(samples, 3, 32, 32)}, served
    ids = torch.randint(1, 60, (samples, 9))
    mask = torch.ones_like(ids)
    ids[0, 6:], mask[0, 6:] = 0, 0
    return model, {"input_ids": ids, "attention_mask": mask}, served
