"""Names of flip metrics, under whatever prefix and suffix a trainer or an evaluation set gives them."""

import re

# `nfr`, `eval_relative_nfr`, `eval_text_nfr_old_2`, ...
_FLIPS = re.compile(r"(?:^|_)(relative_nfr|nfr|churn)(?:_old_\d+)?$")
_NEEDS_OLD = re.compile(r"(?:^|_)(relative_nfr|nfr|pfr|old_accuracy|churn|contract)(?:_old_\d+)?$")


def lower_is_better(metric: str | None) -> bool:
    """Whether a smaller value of a flip metric is the better one.

    >>> [lower_is_better(name) for name in ("eval_a_nfr", "nfr_old_1", "eval_pfr", "accuracy", None)]
    [True, True, False, False, False]
    """
    return bool(metric and _FLIPS.search(metric))


def needs_old_model(metric: str | None) -> bool:
    """Whether a metric is about an old model, and is missing without one.

    >>> [needs_old_model(name) for name in ("eval_a_nfr", "pfr_old_1", "eval_contract", "eval_loss", None)]
    [True, True, True, False, False]
    """
    return bool(metric and _NEEDS_OLD.search(metric))
