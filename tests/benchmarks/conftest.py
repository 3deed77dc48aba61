"""The benchmarks are programs in a folder, not a package: their modules are found by this path."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "benchmarks"))
