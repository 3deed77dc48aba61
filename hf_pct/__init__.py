"""hf_pct: regression-free model updates on the Hugging Face stack.

An update is a pair (old, new), and what matters is the flips between them. Measure them (`count_flips`, `predict`,
`compare`), hold them against limits (`GateConfig`, `check_gate`), reduce them while training (`FocalDistillTrainer`)
or after it (`BCWIMerger`), and publish a model with what it keeps (`push_update`). Names are loaded when they are
first used, so that measuring never waits for torch.
"""

from typing import TYPE_CHECKING

from ._version import __version__
from .core.lazy import lazy_names
from .core.moved import serve_old_names

if TYPE_CHECKING:
    from .core.errors import NotComparableError as NotComparableError
    from .flips.chain import compare_chain as compare_chain
    from .flips.compare import compare as compare
    from .flips.compare import compare_candidates as compare_candidates
    from .flips.counts import FlipCounts as FlipCounts
    from .flips.counts import count_flips as count_flips
    from .flips.gate import GateConfig as GateConfig
    from .flips.gate import GateResult as GateResult
    from .flips.gate.reports import check_gate as check_gate
    from .flips.report import FlipReport as FlipReport
    from .flips.retrieval.compare import compare_retrieval as compare_retrieval
    from .flips.scored.report import ScoreReport as ScoreReport
    from .flips.scored.rules import ScoreGateConfig as ScoreGateConfig
    from .flips.several.candidates import CandidatesReport as CandidatesReport
    from .flips.several.candidates import compare_several as compare_several
    from .flips.studies.centric import most_centric as most_centric
    from .flips.studies.ensemble import mean_predictions as mean_predictions
    from .flips.tables.predictions import Predictions as Predictions
    from .flips.tables.scores import Scores as Scores
    from .hub.client.access import check_write_access as check_write_access
    from .hub.publish import push_update as push_update
    from .hub.verify import verify as verify
    from .merging.arguments import BCWIArguments as BCWIArguments
    from .merging.merger import BCWIMerger as BCWIMerger
    from .metrics import metric_path as metric_path
    from .models.ensembles.fused import FusedModel as FusedModel
    from .models.ensembles.mean import Ensemble as Ensemble
    from .models.load.declared import fixed as fixed
    from .models.predict import predict as predict
    from .training.arguments import FocalDistillArguments as FocalDistillArguments
    from .training.arguments import PCTArguments as PCTArguments
    from .training.elodi import ELODIArguments as ELODIArguments
    from .training.elodi import ELODITrainer as ELODITrainer
    from .training.evaluation.any_trainer import FlipCallback as FlipCallback
    from .training.evaluation.any_trainer import flip_metrics as flip_metrics
    from .training.focal_distill import FocalDistillTrainer as FocalDistillTrainer
    from .training.trainer import PCTrainer as PCTrainer

# where each public name lives
_HOMES = {
    "Ensemble": "models.ensembles.mean",
    "FusedModel": "models.ensembles.fused",
    "most_centric": "flips.studies.centric",
    "compare_chain": "flips.chain",
    "compare": "flips.compare",
    "compare_candidates": "flips.compare",
    "compare_retrieval": "flips.retrieval.compare",
    "compare_several": "flips.several.candidates",
    "CandidatesReport": "flips.several.candidates",
    "FlipCounts": "flips.counts",
    "count_flips": "flips.counts",
    "mean_predictions": "flips.studies.ensemble",
    "NotComparableError": "core.errors",
    "GateConfig": "flips.gate",
    "GateResult": "flips.gate",
    "check_gate": "flips.gate.reports",
    "ScoreGateConfig": "flips.scored.rules",
    "Predictions": "flips.tables.predictions",
    "FlipReport": "flips.report",
    "ScoreReport": "flips.scored.report",
    "Scores": "flips.tables.scores",
    "check_write_access": "hub.client.access",
    "push_update": "hub.publish",
    "verify": "hub.verify",
    "BCWIArguments": "merging.arguments",
    "BCWIMerger": "merging.merger",
    "ELODIArguments": "training.elodi",
    "ELODITrainer": "training.elodi",
    "FlipCallback": "training.evaluation.any_trainer",
    "flip_metrics": "training.evaluation.any_trainer",
    "FocalDistillArguments": "training.arguments",
    "FocalDistillTrainer": "training.focal_distill",
    "PCTArguments": "training.arguments",
    "PCTrainer": "training.trainer",
    "fixed": "models.load.declared",
    "metric_path": "metrics",
    "predict": "models.predict",
}

__all__ = ["__version__", *sorted(_HOMES)]
__getattr__, __dir__ = lazy_names(__name__, _HOMES)
serve_old_names()
