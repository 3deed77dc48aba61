"""The rules that only a report of scores can be held against, and rules by task."""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields

from ...core.decode import JsonObject, convert, parse_json
from ...core.errors import NotComparableError
from ..gate import GateConfig, GateResult
from ..gate import check_gate as check_flip_gate
from ..gate.config import Limits, rule
from ..report import FlipReport
from .report import ScoreReport

ANY_GAIN = Limits("a number")
LOSS = Limits("a number that is not negative", 0)
TASKS = Limits("a whole number that is not negative", 0, whole=True)


@dataclass(frozen=True)
class ScoreGateConfig(GateConfig):
    """What an update may break, for scores: the rules of a flip report, more for graded scores, and rules by task.

    Example:
        >>> from hf_pct import ScoreGateConfig
        >>> config = ScoreGateConfig.from_dict({"max_dropped": 0.1, "tasks": {"gsm8k": {"max_nfr": 0.02}}})
        >>> config.rules(), config.tasks["gsm8k"].rules()
        ({'max_dropped': 0.1}, {'max_nfr': 0.02})
    """

    max_dropped: float | None = rule("limit on the share of rows whose score fell by more than the tolerance")
    min_score_gain: float | None = rule("least gain of the mean score, in its own unit; 0 forbids a loss", ANY_GAIN)
    max_score_loss: float | None = rule("loss of the mean score that its interval must exclude, in its own unit", LOSS)
    max_regressed_items: float | None = rule("limit on the share of items that regressed beyond chance")
    max_regressed_tasks: int | None = rule("number of tasks that may regress; 0 forbids any", TASKS)
    min_mean_gain: float | None = rule("least mean gain over tasks", ANY_GAIN)
    tasks: "Mapping[str, ScoreGateConfig] | None" = field(
        default=None, metadata={"help": "rules by task as JSON; in YAML, rules below the task's name"}
    )

    def rules(self) -> JsonObject:
        """The rules that are set for all tasks."""
        return {name: value for name, value in super().rules().items() if name != "tasks"}

    @classmethod
    def from_dict(cls, values: Mapping[str, object]) -> "ScoreGateConfig":
        """A config from a mapping; unknown names are refused, with the name that was probably meant."""
        own = values.get("tasks")
        if own is not None and not isinstance(own, Mapping):
            raise ValueError(
                f"tasks is {own!r}, expected rules below the name of each task, `gsm8k: {{max_nfr: 0.02}}`."
            )
        config = super().from_dict({name: value for name, value in values.items() if name != "tasks"})
        general = {entry.name: getattr(config, entry.name) for entry in fields(cls)}
        return cls(**(general | {"tasks": own and {name: _task_rules(name, rules) for name, rules in own.items()}}))


def _task_rules(task: str, rules: object) -> ScoreGateConfig:
    if not isinstance(rules, Mapping) or not rules:
        raise ValueError(f"tasks.{task} is {rules!r}, expected rules such as `max_nfr: 0.02`.")
    overall = [name for name in ("tasks", "max_regressed_tasks", "min_mean_gain") if name in rules]
    if overall:
        raise ValueError(f"tasks.{task} has {', '.join(overall)}, which is about all tasks together. Set it above.")
    try:
        return ScoreGateConfig.from_dict(rules)
    except ValueError as error:
        raise ValueError(f"tasks.{task}: {error}") from error


OWN_RULES = tuple(
    entry.name for entry in fields(ScoreGateConfig) if entry.name not in {rule.name for rule in fields(GateConfig)}
)


def parse_tasks(text: str) -> JsonObject:
    """`--tasks '{"gsm8k": {"max_nfr": 0.02}}'`."""
    try:
        return convert(parse_json(text, "--tasks"), JsonObject, "--tasks")
    except ValueError as error:
        raise ValueError(f"{text!r} is no JSON object ({error}), expected {{TASK: {{RULE: NUMBER}}}}") from error


def check_pair_gate(report: FlipReport | ScoreReport, config: GateConfig) -> GateResult:
    """Hold a report of two versions, of answers or of scores, against the rules."""
    if isinstance(report, ScoreReport):
        from .gate import check_score_gate

        scores = config if isinstance(config, ScoreGateConfig) else ScoreGateConfig(**vars(config))
        return check_score_gate(report, scores)
    if isinstance(config, ScoreGateConfig):
        only_scores = [name for name in OWN_RULES if getattr(config, name) is not None]
        if only_scores:
            raise NotComparableError(
                f"{', '.join(only_scores)}: only a report of scores has it, and this is one of answers. Leave it out."
            )
        config = GateConfig(**{entry.name: getattr(config, entry.name) for entry in fields(GateConfig)})
    return check_flip_gate(report, config)
