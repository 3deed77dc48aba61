"""A report of any kind, read from its file and held against the rules: flips, scores, traffic, candidates, chains."""

import os
from typing import TypeAlias

from ..chain import FORMAT as CHAIN_FORMAT
from ..chain import ChainReport
from ..report import FlipReport
from ..scored.dispatch import load_report
from ..scored.report import ScoreReport
from ..scored.rules import check_pair_gate
from ..several.candidates import FORMAT as CANDIDATES_FORMAT
from ..several.candidates import CandidatesReport
from ..several.gate import check_candidates_gate, check_chain_gate
from ..traffic.gate import check_traffic_gate
from ..traffic.report import FORMAT as TRAFFIC_FORMAT
from ..traffic.report import TrafficReport
from .check import GateResult
from .config import GateConfig

AnyReport: TypeAlias = FlipReport | ScoreReport | TrafficReport | CandidatesReport | ChainReport
_KINDS: dict[str, type[TrafficReport] | type[CandidatesReport] | type[ChainReport]] = {
    TRAFFIC_FORMAT: TrafficReport,
    CANDIDATES_FORMAT: CandidatesReport,
    CHAIN_FORMAT: ChainReport,
}


def load_any_report(path: str | os.PathLike) -> AnyReport:
    """The report in a file, of any kind: its first lines say which."""
    if os.path.isfile(path):
        with open(path, "rb") as file:
            start = file.read(300)
        for name, kind in _KINDS.items():
            if f'"{name}"'.encode() in start:
                return kind.load(path)
    return load_report(path)


def check_gate(report: AnyReport, config: GateConfig) -> GateResult:
    """Hold a report of any kind against the rules.

    Example:
        >>> from hf_pct import GateConfig, Predictions, check_gate, compare
        >>> old = Predictions([1, 2], ["yes", "no"], ["yes", "no"])
        >>> new = Predictions([1, 2], ["yes", "no"], ["yes", "yes"])
        >>> check_gate(compare(old, new), GateConfig(max_nfr=0.01)).passed
        False
    """
    if isinstance(report, TrafficReport):
        return check_traffic_gate(report, config)
    if isinstance(report, CandidatesReport):
        return check_candidates_gate(report, config)
    if isinstance(report, ChainReport):
        return check_chain_gate(report, config)
    return check_pair_gate(report, config)
