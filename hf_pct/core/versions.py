"""How people install the kit and its extras, and what is installed: versions and devices, for a bug report."""

import importlib.metadata
import importlib.util
import os
import platform

from .._version import __version__

REPOSITORY = "https://github.com/hf-pct/hf-pct"
RELEASED = False  # change it when a release is on the index
PACKAGES = (
    "numpy", "scipy", "pyarrow", "torch", "torchvision", "transformers", "datasets", "accelerate", "safetensors",
    "huggingface_hub", "evaluate", "timm", "peft",
)  # fmt: skip


def install_command(extra: str | None = None, upgrade: bool = False) -> str:
    """The command that installs the kit, with an extra where a feature needs one.

    >>> install_command("viz")
    "pip install 'hf-pct[viz] @ git+https://github.com/hf-pct/hf-pct'"
    """
    name = f"hf-pct[{extra}]" if extra else "hf-pct"
    source = name if RELEASED else f"{name} @ git+{REPOSITORY}"
    return f"pip install {'--upgrade ' if upgrade else ''}'{source}'"


def missing_extra(feature: str, extra: str) -> str:
    """What to say when a package behind a feature is not installed."""
    return f"{feature} need packages of the extra [{extra}]: {install_command(extra)}"


def describe_environment() -> str:
    """One `name: value` per line, to paste into an issue. No paths, no names of machines or people."""
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

    devices = [torch.cuda.get_device_name(index) for index in range(torch.cuda.device_count())]
    if torch.backends.mps.is_available():
        devices.append("mps")
    return ", ".join(devices) or f"cpu only, {torch.get_num_threads()} threads"
