"""Whether a report belongs to the model in a folder.

Weights are compared by their content hash. The files are hashed as they lie on disk, without torch; only where that
hash is another one is the model loaded, because a library may rename the tensors of old files when it loads them.
"""

from pathlib import Path

from ..core.errors import NotComparableError
from ..core.fingerprints import same_weights
from ..core.weight_files import ADAPTER, open_weights
from ..flips.report import FlipReport

# a folder with one of these is a model only together with others: an adapter, an ensemble, a fused pair
_NAMES_OTHERS = (ADAPTER, "pct_ensemble.json", "pct_fusion.json")
_AGAIN = "Make the report of this very model: hf-pct compare OLD NEW --dataset DATA --output_dir out"


def check_folder(report: FlipReport, folder: str | Path, name: str = "") -> list[str]:
    """Raise when a report's new model is not the one in the folder. Returns what could not be checked, to be shown."""
    home, recorded = Path(folder), report.new.weights
    if not home.is_dir():
        raise ValueError(f"{home} is not a folder. Expected the folder of the report's new model.")
    if recorded is None:
        return ["The report does not record its weights, so it is not proven to be about this very model."]
    if any((home / file).is_file() for file in _NAMES_OTHERS):
        loaded = _hash_when_loaded(home)
        if loaded is None:
            return [f"{name or home} names models that cannot be loaded here, so it is not compared with the report."]
        same = recorded == loaded
        if not same and (home / ADAPTER).is_file():  # its base may be here in another precision, or another commit
            return [
                f"The report is not proven to be about the adapter {name or home}: with its base it has other weights."
            ]
    else:
        weights, problems = open_weights(home)
        if weights is None or problems:
            return [f"The weights of {name or home} cannot be compared with the report: {'; '.join(problems)}."]
        same = same_weights(recorded, weights.entries.values()) or recorded == _hash_when_loaded(home)
    if not same:
        raise NotComparableError(
            f"The report is about other weights than those of {name or home}: it records {recorded} for "
            f"{report.new.model or 'the new model'}, and the files have another hash. {_AGAIN}"
        )
    return []


def check_loads(report: FlipReport, folder: Path, name: str) -> list[str]:
    """What goes up must load, and must be the report's new model. Returns what could not be checked, to be shown."""
    if not (folder / ADAPTER).is_file():
        from ..models.load import load_model

        load_model(folder)
    try:
        return check_folder(report, folder, name)
    except NotComparableError as error:
        raise ValueError(str(error)) from error  # the wrong file was given: nothing is judged here


def require_folder(report: FlipReport, folder: str | Path) -> None:
    """The same for a verdict: what cannot be compared is not judged."""
    notes = check_folder(report, folder)
    if notes:
        raise NotComparableError(" ".join([*notes, _AGAIN]))


def _hash_when_loaded(folder: Path) -> str | None:
    """The content hash of the model that a library makes of the files; None where it cannot be loaded."""
    try:
        from ..models.fingerprints import weights_fingerprint
        from ..models.load import load_model

        return weights_fingerprint(load_model(folder, processor=object()).model)
    except (ImportError, ValueError, OSError, AttributeError):
        return None
