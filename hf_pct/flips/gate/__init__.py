"""The gate: thresholds on a FlipReport, a verdict, and an exit code for CI."""

from ...core.errors import NOT_COMPARABLE, PASSED, REGRESSED, WRONG_USE
from .check import GateResult, RuleResult, check_gate
from .config import GateConfig

__all__ = [
    "NOT_COMPARABLE",
    "PASSED",
    "REGRESSED",
    "WRONG_USE",
    "GateConfig",
    "GateResult",
    "RuleResult",
    "check_gate",
]
