"""Gated fusion: one answer per row from an old and a new model, after Lai et al. (2023), with a gate on their answers.

    surer   keep the old answer unless the new model's confidence is larger by a threshold
    gate    a mixture of both models' probabilities; a logistic gate on both confidences and on whether the models
            agree says how much of the new one

Probabilities are calibrated by one temperature per model. How much the old model counts is `strength`, from 0 (always
the new model) to 1 (always the old one), and is chosen as alpha is: by a contract, and certified on rows that neither
the gate nor the choice has seen.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass

import numpy as np
from scipy import optimize, special

from ..core.labels import code_table
from ..flips.choice.certify import Certificate, certify_parts, split_rows
from ..flips.choice.choose import Candidate, Choice
from ..flips.choice.contract import Contract
from ..flips.choice.curve import AlphaCurve
from ..flips.studies.ensemble import fit_temperature
from ..flips.tables.predictions import Predictions
from .versions import Versions, align_both, align_versions, cross_fits, decided_provenance, select_rows

KINDS = ("surer", "gate")
STRENGTHS = tuple(float(value) for value in np.linspace(0.0, 1.0, 21))
_SMALL = 1e-6


@dataclass(frozen=True)
class Fusion:
    """The few numbers of a policy; `gate` weighs the new confidence, the old one, agreement, and a bias.

    Example:
        >>> from hf_pct.policies import Fusion
        >>> Fusion("surer", strength=0.5).threshold
        0.0
    """

    kind: str
    strength: float
    temperatures: tuple[float, float] = (1.0, 1.0)
    gate: tuple[float, float, float, float] = (0.0, 0.0, 0.0, 0.0)

    def __post_init__(self) -> None:
        problems = [] if self.kind in KINDS else [f"kind={self.kind!r}: expected one of {', '.join(KINDS)}"]
        if not 0 <= self.strength <= 1:
            problems.append(f"strength={self.strength!r}: expected a number from 0 (new model) to 1 (old model)")
        if len(self.temperatures) != 2 or not all(0 < value < np.inf for value in self.temperatures):
            problems.append(f"temperatures={self.temperatures!r}: expected two finite numbers > 0")
        if len(self.gate) != 4 or not all(np.isfinite(value) for value in self.gate):
            problems.append(f"gate={self.gate!r}: expected four finite numbers")
        if problems:
            raise ValueError("This fusion cannot be made:\n  " + "\n  ".join(problems))

    @property
    def threshold(self) -> float:
        """With `surer`: how much surer the new model must be."""
        return 2 * self.strength - 1

    def log_probabilities(self, old_logits: np.ndarray, new_logits: np.ndarray) -> np.ndarray:
        """The fused log-probabilities of each row. Both models' logits are over the same classes, -inf where a model
        lacks one."""
        old = special.log_softmax(old_logits / self.temperatures[0], axis=-1)
        new = special.log_softmax(new_logits / self.temperatures[1], axis=-1)
        if self.strength in (0.0, 1.0):
            return old if self.strength else new
        if self.kind == "surer":
            surer = np.exp(new.max(-1)) - np.exp(old.max(-1)) > self.threshold
            return np.where(surer[:, None], new, old)
        odds = gate_inputs(old, new) @ np.array(self.gate) + np.log((1 - self.strength) / self.strength)
        return np.logaddexp(old + special.log_expit(-odds)[:, None], new + special.log_expit(odds)[:, None])

    def to_dict(self) -> dict[str, object]:
        return asdict(self)


@dataclass(frozen=True)
class FusionDecision:
    """The decided table, the policy that made it, and what was proved of it on the calibration rows.

    Example:
        >>> from hf_pct import Predictions
        >>> from hf_pct.policies import fuse
        >>> labels, logits = ["a", "b"] * 20, [[2.0, 0.0], [0.0, 2.0]] * 20
        >>> answers = dict(labels=labels, logits=logits, label_names=["a", "b"])
        >>> rows, other = Predictions(list(range(40)), **answers), Predictions(list(range(40, 80)), **answers)
        >>> decision = fuse(rows, rows, calibration=(other, other))
        >>> len(decision.table)
        40
    """

    table: Predictions
    fusion: Fusion
    choice: Choice
    certificate: Certificate

    @property
    def kept(self) -> bool:
        """Whether the contract was kept; if not, the new model's answers stand."""
        return self.choice.best is not None

    def to_text(self) -> str:
        fusion, proved = self.fusion, self.certificate
        what = f"fusion {fusion.kind}, strength of the old model {fusion.strength:.2f}"
        if fusion.kind == "surer":
            what += f" (the new model must be surer by {fusion.threshold:+.2f})"
        rows = f"searched on {proved.rows_searched} calibration rows, proved on {proved.rows_tested} others"
        if not self.kept:
            return f"not certified: {self.choice.reason}\n  {rows}\n  the new model's answers are kept as they are"
        return f"{what}\n  {proved.promise}\n  {rows}\n  cost: two forwards per row, one of each model"


def fuse(
    old: Predictions,
    new: Predictions,
    calibration: tuple[Predictions, Predictions],
    *,
    kinds: Sequence[str] = KINDS,
    contract: Contract | None = None,
) -> FusionDecision:
    """Decide each row from the answers of an old and a new model, which must have logits.

    Args:
        old, new: the rows to decide, answered by both models.
        calibration: both models' answers to other, labelled rows. One part fits temperatures, gate and strength, the
            other proves what the contract asks.
        kinds: the policies to choose among.
        contract: what may be lost, as for alpha in merging; by default no accuracy against the new model.

    Example:
        >>> from hf_pct import Predictions
        >>> from hf_pct.policies import fuse
        >>> labels, logits = ["a", "b"] * 20, [[2.0, 0.0], [0.0, 2.0]] * 20
        >>> answers = dict(labels=labels, logits=logits, label_names=["a", "b"])
        >>> rows, other = Predictions(list(range(40)), **answers), Predictions(list(range(40, 80)), **answers)
        >>> fuse(rows, rows, calibration=(other, other)).table.accuracy
        1.0
    """
    contract = contract or Contract()
    unknown = [kind for kind in kinds if kind not in KINDS]
    if unknown or not kinds:
        raise ValueError(f"kinds={list(kinds)!r}: expected some of {', '.join(KINDS)}")
    _check_logits((old, new, *calibration))
    decided, learnt = align_both([old, new], list(calibration))
    logits = _logits(learnt)
    search, proof = split_rows(len(learnt.labels), contract)
    fitted = {kind: _fit_on(kind, learnt, logits, search) for kind in kinds}
    parts = [
        [_candidate(fitted[kind], logits, learnt, rows, plain=kind == kinds[0]) for kind in kinds]
        for rows in (search, proof)
    ]
    choice, certificate = certify_parts(parts[0], parts[1], contract)
    best = choice.best
    chosen = Fusion(kinds[0], 0.0) if best is None else at_strength(fitted[best.candidate], best.alpha)
    return FusionDecision(_decided_table(decided, chosen, contract), chosen, choice, certificate)


def fused_curve(kind: str, old: Predictions, new: Predictions, search: np.ndarray) -> tuple[Fusion, AlphaCurve]:
    """One kind of fusion at every strength over the rows of two tables, and the fusion fitted on the `search` rows.

    No row is judged by numbers that its own label helped to fit: the two halves of the search rows are judged by each
    other's fit, and all other rows by the fit on all search rows.
    """
    _check_logits((old, new))
    versions = align_versions([old, new])
    logits, labels = _logits(versions), versions.labels
    fitted = _fit_on(kind, versions, logits, search)
    right = np.zeros((len(STRENGTHS), len(labels)), bool)
    for learnt, rows in cross_fits(len(labels), search):
        fusion = _fit_on(kind, versions, logits, learnt)
        for number, strength in enumerate(STRENGTHS):
            logs = at_strength(fusion, strength).log_probabilities(logits[0][rows], logits[1][rows])
            right[number, rows] = logs.argmax(-1) == labels[rows]
    return fitted, AlphaCurve(np.array(STRENGTHS), logits[0].argmax(-1) == labels, right)


def _fit_on(kind: str, versions: Versions, logits: Sequence[np.ndarray], rows: np.ndarray) -> Fusion:
    return _fit(kind, [values[rows] for values in logits], versions.labels[rows], _temperatures(versions, rows))


def gate_inputs(old: np.ndarray, new: np.ndarray) -> np.ndarray:
    """What the gate looks at, from calibrated log-probabilities: the new confidence, the old one, agreement, and 1."""
    confidences = [special.logit(np.clip(np.exp(logs.max(-1)), _SMALL, 1 - _SMALL)) for logs in (new, old)]
    agree = (old.argmax(-1) == new.argmax(-1)).astype(float)
    return np.stack([*confidences, agree, np.ones(len(old))], axis=-1)


def _temperatures(learnt: Versions, search: np.ndarray) -> tuple[float, float]:
    """Both models' temperatures on the search rows; rows whose class a model lacks say nothing about it."""
    fitted = []
    for table, rows in zip(learnt.tables, learnt.rows, strict=True):
        places = np.arange(len(table))[rows][search]
        places = places[table.label_codes[places] < len(table.label_names or ())]
        fitted.append(fit_temperature(select_rows(table, places)) if len(places) else 1.0)
    return fitted[0], fitted[1]


def _fit(kind: str, logits: Sequence[np.ndarray], labels: np.ndarray, heat: tuple[float, float]) -> Fusion:
    if kind == "surer":
        return Fusion(kind, 0.5, heat)
    old, new = (special.log_softmax(values / value, axis=-1) for values, value in zip(logits, heat, strict=True))
    right = [logs.argmax(-1) == labels for logs in (old, new)]
    differing = right[0] != right[1]  # only these say which model to trust
    inputs, wants_new = gate_inputs(old, new)[differing], right[1][differing]
    signs = np.where(wants_new, 1.0, -1.0)

    def cost(weights: np.ndarray) -> float:
        return float(-special.log_expit(signs * (inputs @ weights)).sum() + 0.5 * np.square(weights).sum())

    weights = optimize.minimize(cost, np.zeros(4), method="BFGS").x
    return Fusion(kind, 0.5, heat, (float(weights[0]), float(weights[1]), float(weights[2]), float(weights[3])))


def at_strength(fusion: Fusion, strength: float) -> Fusion:
    """The same fusion with another share of the old model."""
    return Fusion(fusion.kind, float(strength), fusion.temperatures, fusion.gate)


def _candidate(
    fusion: Fusion, logits: Sequence[np.ndarray], learnt: Versions, rows: np.ndarray, plain: bool
) -> Candidate:
    labels = learnt.labels[rows]
    old, new = logits[0][rows], logits[1][rows]
    correct = {
        strength: at_strength(fusion, strength).log_probabilities(old, new).argmax(-1) == labels
        for strength in STRENGTHS
    }
    return Candidate(fusion.kind, AlphaCurve.of(old.argmax(-1) == labels, correct), plain=plain)


def _check_logits(tables: Sequence[Predictions]) -> None:
    names = ("the old table", "the new table", "the old calibration table", "the new calibration table")
    lacking = [name for name, table in zip(names, tables, strict=False) if table.logits is None]
    if lacking:
        raise ValueError(
            f"{', '.join(lacking)}: no logits, and fusion looks at confidences. Predict again with hf-pct predict, "
            "which keeps them; policy bayes needs answers alone."
        )


def _logits(versions: Versions) -> list[np.ndarray]:
    """Each version's logits over the classes of all, -inf where a version lacks one."""
    vocabulary = {name: code for code, name in enumerate(versions.names)}
    spread = []
    for table, rows in zip(versions.tables, versions.rows, strict=True):
        values = np.asarray(table.logits, dtype=np.float64)[rows]
        whole = np.full((len(values), len(vocabulary)), -np.inf)
        whole[:, code_table(table.label_names or (), vocabulary)] = values
        spread.append(whole)
    return spread


def fused_table(old: Predictions, new: Predictions, fusion: Fusion) -> Predictions:
    """The answers of a fusion that is known, to rows that both models have answered."""
    _check_logits((old, new))
    return _decided_table(align_versions([old, new]), fusion)


def _decided_table(decided: Versions, fusion: Fusion, contract: Contract | None = None) -> Predictions:
    old, new = decided.tables
    promised = {} if contract is None else {"contract": contract.describe()}
    logs = fusion.log_probabilities(*_logits(decided))
    classes = sorted({code for table in decided.tables for code in code_table(
        table.label_names or (), {name: code for code, name in enumerate(decided.names)})})  # fmt: skip
    vocabulary = np.array(decided.names)
    name = f"fuse({old.provenance.model or 'old'}, {new.provenance.model or 'new'})"
    settings = {"policy": "fuse", **fusion.to_dict(), **promised}
    return Predictions(
        old.ids,
        vocabulary[decided.labels],
        logits=logs[:, classes],
        label_names=[decided.names[code] for code in classes],
        columns=old.columns,
        provenance=decided_provenance(name, decided.tables, settings),
    )
