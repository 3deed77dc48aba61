"""latin2nqo 001.35 and 001.38: two releases of a model that writes Latin Manding text in N'Ko script, as packaged.

The package `detransliterator` (MIT) holds two fairseq checkpoints and a parallel text. Their tensors are read through
an unpickler that builds nothing else, and put into `M2M100ForConditionalGeneration`, which computes the same layers.
"""

import io
import pickle
import types
import zipfile
from itertools import pairwise
from pathlib import Path

import torch
from transformers import M2M100Config, M2M100ForConditionalGeneration

VERSIONS = ("001.35", "001.38")
_ASSETS = "detransliterator/assets"
_START, _PAD, _END, _UNKNOWN = range(4)
_TENSOR_NAMES = {"_rebuild_tensor_v2", "_rebuild_parameter"}
_DIGITS = {0x07C0 + digit: str(digit) for digit in range(10)}


class _Nothing:
    """What stands for every object of a checkpoint that is no tensor: settings, counters, the optimizer."""

    def __new__(cls, *_: object, **__: object) -> "_Nothing":
        return object.__new__(cls)

    def __init__(self, *_: object, **__: object) -> None:
        pass

    def __setstate__(self, _: object) -> None:
        pass


class TensorUnpickler(pickle.Unpickler):
    """Builds tensors and the dict that holds them; any other name in the file becomes an object without a use."""

    def find_class(self, module: str, name: str) -> type:
        tensors = module == "torch._utils" and name in _TENSOR_NAMES
        if (
            tensors
            or (module == "torch" and name.endswith("Storage"))
            or (module, name) == ("collections", "OrderedDict")
        ):
            return super().find_class(module, name)
        return _Nothing


_READER = types.ModuleType("tensors_only")
_READER.Unpickler = TensorUnpickler
_READER.load = lambda file, **options: TensorUnpickler(file, **options).load()


def clean(text: str) -> str:
    """N'Ko without what only the layout of the file added: marks of direction, quotes, and which digits are used."""
    return " ".join(text.replace("\u200f", "").replace('"', "").translate(_DIGITS).split())


def read_pairs(wheel: Path, rows: int, variant: str = "emk-tonal") -> list[tuple[str, str]]:
    """Evenly spaced lines of the parallel text: Latin with tones, and N'Ko."""
    with zipfile.ZipFile(wheel) as file:
        sides = [
            file.read(f"{_ASSETS}/test_data/diane_parallel_002.{name}").decode().split("\n")
            for name in (variant, "nqo")
        ]
    pairs = [(latin, clean(nko)) for latin, nko in zip(*sides, strict=True) if latin.strip() and nko.strip()]
    return [pairs[number * len(pairs) // rows] for number in range(min(rows, len(pairs)))]


def merge_symbols(word: str, ranks: dict[tuple[str, str], int]) -> list[str]:
    """Byte pair encoding: join the neighbours of the lowest rank until none are left; `@@`: the word goes on."""
    symbols = [*word[:-1], f"{word[-1]}</w>"]
    while len(symbols) > 1:
        known = [pair for pair in pairwise(symbols) if pair in ranks]
        if not known:
            break
        first, second = min(known, key=ranks.__getitem__)
        merged: list[str] = []
        for symbol in symbols:
            if merged and merged[-1] == first and symbol == second:
                merged[-1] = first + second
            else:
                merged.append(symbol)
        symbols = merged
    symbols[-1] = symbols[-1].removesuffix("</w>")
    return [*(f"{symbol}@@" for symbol in symbols[:-1]), symbols[-1]]


class Latin2Nqo:
    """One release. Ids of source pieces stand behind those of target pieces in one table of embeddings."""

    def __init__(self, wheel: Path, version: str) -> None:
        folder = f"{_ASSETS}/latin2nqo_{version}"
        with zipfile.ZipFile(wheel) as file:
            codes = file.read(f"{folder}/data/bpe.code").decode().splitlines()[1:]
            self.source, self.target = (
                _vocabulary(file.read(f"{folder}/data/dict.{side}.txt").decode()) for side in ("roman", "nqo")
            )
            checkpoint = io.BytesIO(file.read(f"{folder}/checkpoints/checkpoint_best.pt"))
        self.ranks = {tuple(line.split()): rank for rank, line in enumerate(codes)}
        self.pieces = list(self.target)
        weights = torch.load(checkpoint, map_location="cpu", weights_only=False, pickle_module=_READER)["model"]
        self.model = _model(weights)

    def encode(self, latin: str) -> list[int]:
        pieces = [piece for word in latin.lower().split() for piece in merge_symbols(word, self.ranks)]
        return [len(self.target) + self.source.get(piece, _UNKNOWN) for piece in pieces] + [len(self.target) + _END]

    @torch.inference_mode()
    def translate(self, lines: list[str], batch: int = 32) -> list[str]:
        """Greedy answers, in the order of the lines."""
        encoded = [self.encode(line) for line in lines]
        answers = [""] * len(lines)
        order = sorted(range(len(lines)), key=lambda row: len(encoded[row]))
        never = [_START, _PAD, *range(len(self.target), self.model.config.vocab_size)]
        for start in range(0, len(order), batch):
            rows = order[start : start + batch]
            width = max(len(encoded[row]) for row in rows)
            ids = torch.tensor([[_PAD] * (width - len(encoded[row])) + encoded[row] for row in rows])
            written = self.model.generate(
                input_ids=ids, attention_mask=(ids != _PAD).long(), max_new_tokens=250, suppress_tokens=never
            )
            for row, tokens in zip(rows, written.tolist(), strict=True):
                kept = (self.pieces[token] for token in tokens if token > _END)
                answers[row] = clean(" ".join(kept).replace("@@ ", ""))
        return answers


def _vocabulary(text: str) -> dict[str, int]:
    pieces = ["<s>", "<pad>", "</s>", "<unk>", *(line.rsplit(" ", 1)[0] for line in text.splitlines())]
    return {piece: number for number, piece in enumerate(pieces)}


def _model(weights: dict[str, torch.Tensor]) -> M2M100ForConditionalGeneration:
    target, source = weights["decoder.embed_tokens.weight"], weights["encoder.embed_tokens.weight"]
    layers = 1 + max(int(name.split(".")[2]) for name in weights if name.startswith("encoder.layers."))
    width, inner = target.shape[1], weights["encoder.layers.0.fc1.weight"].shape[0]
    parts = {"layers": layers, "ffn_dim": inner, "attention_heads": 8, "layerdrop": 0.0}
    sizes = {f"{side}_{name}": value for side in ("encoder", "decoder") for name, value in parts.items()}
    config = M2M100Config(
        vocab_size=len(target) + len(source), d_model=width, scale_embedding=True, activation_function="relu",
        bos_token_id=_START, pad_token_id=_PAD, eos_token_id=_END, decoder_start_token_id=_END, **sizes,
    )  # fmt: skip
    model = M2M100ForConditionalGeneration(config)
    state = {f"model.{name}": value for name, value in weights.items() if "layers." in name or "layer_norm" in name}
    tables = ("model.shared", "model.encoder.embed_tokens", "model.decoder.embed_tokens", "lm_head")
    state |= {f"{name}.weight": torch.cat([target, source]) for name in tables}
    model.load_state_dict(state)  # every name must match
    return model.eval()
