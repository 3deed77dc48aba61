"""promptfoo results (`promptfoo eval -o results.json`): one file may hold several providers and prompts.

A test is known by its variables, not by its place in the file. The same test under the same provider and prompt is a
further run of it (`--repeat`).
"""

import json

import msgspec

from ....core.errors import first_five
from ..predictions import Provenance
from ..scores import Scores
from .base import Source, as_text, content_id, one_of, parse_whole, run_numbers
from .options import ReadOptions

NAME = "promptfoo results"


class _Prompt(msgspec.Struct):
    raw: object = None
    label: str | None = None


class _Assertion(msgspec.Struct):
    type: object = None
    value: object = None
    threshold: object = None


class _TestCase(msgspec.Struct):
    vars: dict[str, object] | None = None
    description: str | None = None
    asserts: list[_Assertion] | None = msgspec.field(default=None, name="assert")


class _Test(msgspec.Struct, rename="camel"):
    """One test under one provider and prompt."""

    provider: str | dict[str, object] | None = None
    test_idx: int | None = None
    prompt_idx: int = 0
    vars: dict[str, object] | None = None
    success: bool | None = None
    score: float | None = None
    named_scores: dict[str, float | None] | None = None
    prompt: _Prompt | None = None
    response: dict[str, object] | None = None
    test_case: _TestCase | None = None

    @property
    def is_scored(self) -> bool:
        return self.score is not None and self.success is not None

    @property
    def provider_name(self) -> str:
        if isinstance(self.provider, dict):
            return str(self.provider.get("label") or self.provider.get("id"))
        return str(self.provider)

    @property
    def prompt_name(self) -> str:
        return (self.prompt.label if self.prompt else None) or str(self.prompt_idx)

    def key(self, many_prompts: bool) -> str:
        """The variables of a test; without variables its description, without either its place."""
        case = self.test_case or _TestCase()
        variables = self.vars or case.vars
        key = json.dumps(variables, ensure_ascii=False, sort_keys=True) if variables else ""
        key = " ".join(filter(None, (case.description, key))) or f"test {self.test_idx}"
        return f"prompt {self.prompt_idx}: {key}" if many_prompts else key

    @property
    def expected(self) -> str | None:
        """What the test asserts: a changed assertion makes two scores incomparable."""
        asserts = self.test_case.asserts if self.test_case else None
        return as_text([msgspec.to_builtins(entry) for entry in asserts]) if asserts else None


class _Results(msgspec.Struct):
    results: list[_Test]


class _File(msgspec.Struct):
    results: _Results | list[_Test]


def missing(source: Source) -> str:
    if source.path.is_dir():
        return "it is a folder"
    if not source.start.lstrip().startswith("{"):
        return "it is no JSON object"
    return "" if '"results"' in source.start and _has_tests(source) else "it has no results.results with tests"


def _has_tests(source: Source) -> bool:
    return any(mark in source.start for mark in ('"testIdx"', '"promptIdx"', '"evalId"', '"namedScores"'))


def read(source: Source, options: ReadOptions) -> Scores:
    results = parse_whole(source, _File).results
    tests = results if isinstance(results, list) else results.results
    if not tests:
        raise ValueError(f"{source.path} has no tests in results.results. Run promptfoo eval -o results.json again.")
    providers = list(dict.fromkeys(test.provider_name for test in tests))
    wanted = (options.provider,) if options.provider else ()
    chosen = one_of(wanted, providers, "provider", str(source.path), "--provider (--old_provider, --new_provider)")
    tests = [test for test in tests if test.provider_name == chosen]
    prompts = list(dict.fromkeys(test.prompt_name for test in tests))
    notes = []
    scored = [test for test in tests if test.is_scored]
    if len(scored) < len(tests):
        ids = [test.test_idx for test in tests if not test.is_scored]
        notes.append(f"{len(ids)} tests have no score and are left out (testIdx {first_five(ids)})")
    keys = [content_id(test.key(many_prompts=len(prompts) > 1)) for test in scored]
    runs = run_numbers(keys)
    scores: dict[str, list[float | None]] = {
        "success": [float(bool(test.success)) for test in scored],
        "score": [test.score for test in scored],
    }
    for name in sorted({name for test in scored for name in test.named_scores or {}}):
        values = [(test.named_scores or {}).get(name) for test in scored]
        if all(value is not None for value in values) and name not in scores:
            scores[name] = values
        else:
            notes.append(f"The named score {name} is missing in some tests and is left out.")
    return Scores(
        keys,
        scores,
        labels=[test.expected for test in scored],
        predictions=[as_text((test.response or {}).get("output")) for test in scored],
        texts=[as_text(test.prompt.raw if test.prompt else None) for test in scored],
        repeats=runs if max(runs, default=1) > 1 else None,
        columns={"prompt": [test.prompt_name for test in scored]} if len(prompts) > 1 else None,
        default_metric="success",
        provenance=Provenance(model=chosen),
        notes=notes,
    )
