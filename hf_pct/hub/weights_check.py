"""Whether the files that go up are the model that the report speaks of: they are loaded, and their hash compared."""

from pathlib import Path
from typing import Any

from ..flips.report import FlipReport


def fingerprints(model: Any) -> set[str]:
    """The hashes by which a report may know a model: as it is, in float32, and of timm's part alone."""
    from ..fingerprints import weights_fingerprint

    inner = getattr(model, "timm_model", None)
    return {weights_fingerprint(each) for each in (model, inner) if each is not None} | {float32_fingerprint(model)}


def float32_fingerprint(model: Any) -> str:
    """The hash of the weights as `predict` loads them, also of a model that is in memory in less precision."""
    from ..fingerprints import Digest

    digest = Digest()
    for name, tensor in sorted(model.state_dict().items()):
        digest.add(name).add(tensor.float() if tensor.is_floating_point() else tensor)
    return digest.hex()


def check_weights(folder: Path, report: FlipReport, name: str) -> list[str]:
    """Load what will go up and hold it against the report. Returns what could not be checked, to be told."""
    if (folder / "adapter_config.json").is_file():
        return ["The weights of an adapter are not held against the report: its base model is not among the files."]
    from ..tasks import load_model

    model = load_model(folder).model  # that it loads is worth knowing by itself
    if report.new.weights is None:
        return ["The report does not record its weights, so that it speaks of this very model is not proven."]
    found = fingerprints(model)
    if report.new.weights not in found:
        raise ValueError(
            f"The report is about other weights than those of {name}: it records {report.new.weights} for "
            f"{report.new.model or 'the new model'}, the files have {' or '.join(sorted(found))}. Make the report of "
            "the model that is published: hf-pct compare OLD NEW --dataset DATA --output_dir out"
        )
    return []
