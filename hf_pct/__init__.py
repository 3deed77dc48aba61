"""hf_pct: regression-free model updates on the Hugging Face stack.

An update is a pair (old, new), and what matters is the flips between them. Measure them (`count_flips`, `predict`,
`compare`), hold them against limits (`GateConfig`, `check_gate`), reduce them while training (`FocalDistillTrainer`)
or after it (`BCWIMerger`), and publish a model with what it keeps (`push_update`). Names are loaded when they are
first used, so that measuring never waits for torch.
"""

from typing import TYPE_CHECKING

from ._lazy import lazy_names
from ._version import __version__

if TYPE_CHECKING:
    from .ensembles.mean import Ensemble as Ensemble
    from .flips.centric import most_centric as most_centric
    from .flips.chain import compare_chain as compare_chain
    from .flips.compare import compare as compare
    from .flips.compare import compare_candidates as compare_candidates
    from .flips.counts import FlipCounts as FlipCounts
    from .flips.counts import count_flips as count_flips
    from .flips.ensemble import mean_predictions as mean_predictions
    from .flips.errors import NotComparableError as NotComparableError
    from .flips.gate import GateConfig as GateConfig
    from .flips.gate import GateResult as GateResult
    from .flips.gate import check_gate as check_gate
    from .flips.predictions import Predictions as Predictions
    from .flips.report import FlipReport as FlipReport
    from .hub.access import check_write_access as check_write_access
    from .hub.publish import push_update as push_update
    from .hub.verify import verify as verify
    from .merging.args import BCWIArguments as BCWIArguments
    from .merging.merger import BCWIMerger as BCWIMerger
    from .metrics import metric_path as metric_path
    from .predict import predict as predict
    from .training.args import ELODIArguments as ELODIArguments
    from .training.args import FocalDistillArguments as FocalDistillArguments
    from .training.args import PCTArguments as PCTArguments
    from .training.base import PCTrainer as PCTrainer
    from .training.elodi import ELODITrainer as ELODITrainer
    from .training.focal_distill import FocalDistillTrainer as FocalDistillTrainer

# where each public name lives
_HOMES = {
    "Ensemble": "ensembles.mean",
    "most_centric": "flips.centric",
    "compare_chain": "flips.chain",
    "compare": "flips.compare",
    "compare_candidates": "flips.compare",
    "FlipCounts": "flips.counts",
    "count_flips": "flips.counts",
    "mean_predictions": "flips.ensemble",
    "NotComparableError": "flips.errors",
    "GateConfig": "flips.gate",
    "GateResult": "flips.gate",
    "check_gate": "flips.gate",
    "Predictions": "flips.predictions",
    "FlipReport": "flips.report",
    "check_write_access": "hub.access",
    "push_update": "hub.publish",
    "verify": "hub.verify",
    "BCWIArguments": "merging.args",
    "BCWIMerger": "merging.merger",
    "ELODIArguments": "training.args",
    "ELODITrainer": "training.elodi",
    "FocalDistillArguments": "training.args",
    "FocalDistillTrainer": "training.focal_distill",
    "PCTArguments": "training.args",
    "PCTrainer": "training.base",
    "metric_path": "metrics",
    "predict": "predict",
}

__all__ = ["__version__", *sorted(_HOMES)]
__getattr__, __dir__ = lazy_names(__name__, _HOMES)
