"""Versions and devices, for a bug report."""

import importlib.metadata
import importlib.util
import os
import platform

from ._version import __version__

PACKAGES = (
    "numpy", "scipy", "pyarrow", "torch", "torchvision", "transformers", "datasets", "accelerate", "safetensors",
    "huggingface_hub", "evaluate", "timm", "peft",
)  # fmt: skip


def describe_environment() -> str:
    """One `name: value` a line, to paste into an issue. No paths, no names of machines or people."""
    lines = {
        "hf_pct": __version__,
        "python": platform.python_version(),
        "platform": f"{platform.system()} {platform.release()} {platform.machine()}",
        "processors": str(os.cpu_count()),
    }
    for package in PACKAGES:
        try:
            lines[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            lines[package] = "not installed"
    lines["devices"] = _devices()
    lines["offline"] = ", ".join(name for name in os.environ if name.endswith("_OFFLINE")) or "no"
    width = max(map(len, lines))
    return "\n".join(f"{name + ':':<{width + 1}} {value}" for name, value in lines.items())


def _devices() -> str:
    if importlib.util.find_spec("torch") is None:
        return "unknown, torch is not installed"
    import torch

    found = [torch.cuda.get_device_name(index) for index in range(torch.cuda.device_count())]
    if torch.backends.mps.is_available():
        found.append("mps")
    return ", ".join(found) or f"cpu only, {torch.get_num_threads()} threads"
