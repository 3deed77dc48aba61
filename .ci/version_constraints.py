"""Print pip constraints: the lower bounds of setup.cfg for `make test-lowest`, and none for `make test-newest`."""

import configparser
import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
BESIDE = {"2.6": "0.21.0"}  # which torchvision belongs to the lowest torch
# Measuring runs with an older pyarrow (the bound in setup.cfg), but the lowest datasets needs this one.
WITH_DATASETS = {"pyarrow": "21.0.0"}
TOOLS = (
    "ruff",
    "mypy",
    "pytest",
    "pytest-timeout",
    "pytest-xdist",
    "hypothesis",
    "selenium",
    "import-linter",
    "mkdocs-material",
    "ipykernel",
    "nbclient",
    "nbformat",
)


def lower_bounds() -> dict[str, str]:
    """Every package that setup.cfg names with a lower bound, and that bound; those of the test tools do not matter."""
    config = configparser.ConfigParser()
    config.read(ROOT / "setup.cfg", encoding="utf-8")
    extras = dict(config["options.extras_require"]).values()
    lines = "\n".join([config["options"]["install_requires"], *extras]).splitlines()
    matches = (re.match(r"\s*([A-Za-z0-9_.-]+)\s*>=\s*([0-9][\w.]*)", line) for line in lines)
    return {match[1]: match[2] for match in matches if match and match[1] not in TOOLS}


def main() -> None:
    which = sys.argv[1]
    if which not in ("lowest", "newest"):
        raise SystemExit(f"got {which!r}, expected lowest or newest")
    chosen = lower_bounds() | WITH_DATASETS if which == "lowest" else {}
    if "torch" in chosen:
        chosen["torchvision"] = BESIDE[chosen["torch"]]
    print("\n".join(f"{name}=={version}" for name, version in sorted(chosen.items())))


if __name__ == "__main__":
    main()
