"""Metrics in the shape of an `evaluate` Space: a folder each, loadable by people who do not have this kit.

`evaluate.load(metric_path("nfr"))` loads one from the installed package, without a network. This module does not
import `evaluate`, which takes seconds; the folders do when they are loaded.
"""

from pathlib import Path

_FOLDER = Path(__file__).resolve().parent


def metric_path(name: str = "nfr") -> str:
    """The folder of a metric, for `evaluate.load`.

    Example:
        >>> import evaluate
        >>> from hf_pct import metric_path
        >>> metric = evaluate.load(metric_path("nfr"))
    """
    known = sorted(script.parent.name for script in _FOLDER.glob("*/*.py") if script.stem == script.parent.name)
    if name not in known:
        raise ValueError(f"Unknown metric {name!r}; hf_pct comes with: {', '.join(known)}.")
    return str(_FOLDER / name)
