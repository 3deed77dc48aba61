"""A method declares its settings once; the registry finds it, builds it and refuses what it does not accept."""

import subprocess
import sys
from dataclasses import dataclass

import pytest

from hf_pct.methods import MergeRule, TrainingMethod, WeightMethod, build, find_method, methods_of, setting
from hf_pct.methods.settings import Setting, settings_of


@dataclass(frozen=True)
class Sample(TrainingMethod):
    """Stay near.

    The rest is for readers of the code.
    """

    name = "sample"

    every_row: float = setting(1.0, "Weight of every row.", at_least=0, paper=1, aliases=("alpha",))
    share: float = setting(0.5, "A share.", at_least=0, at_most=1)
    chance: float = setting(0.0, "A probability.", at_least=0, below=1)
    top_k: int | None = setting(None, "How many classes.", at_least=1)
    kind: str = setting("mean", "How.", choices=("mean", "sum"))
    flag: bool = setting(False, "Whether.")
    names: list[str] | None = setting(None, "Which.")

    def loss(self, batch):
        return batch.logits.sum(-1)


def test_what_is_declared_is_what_is_known():
    first = settings_of(Sample)[0]
    assert (first.name, first.type, first.default, first.help) == ("every_row", float, 1.0, "Weight of every row.")
    assert (first.aliases, first.paper) == (("alpha",), 1)
    assert Sample.summary() == "Stay near."
    assert Sample(2.0).to_dict()["every_row"] == 2.0


@pytest.mark.parametrize(
    ("name", "good", "bad", "expected"),
    [
        ("every_row", [0, 3.5], [-1, float("nan"), float("inf"), "1", True, None], "a finite number >= 0"),
        ("share", [0, 1], [-0.1, 1.1], r"a finite number in \[0, 1\]"),
        ("chance", [0, 0.9], [1.0, -0.1], r"a finite number in \[0, 1\)"),
        ("top_k", [None, 1], [0, 1.5, "ten"], "a whole number >= 1, or none"),
        ("kind", ["sum"], ["median", None], "one of mean, sum"),
        ("flag", [True], ["no", 1, None], "true or false"),
        ("names", [None, ["a"], ()], ["a", 3], "a list, or none"),
    ],
)
def test_values_are_checked_when_a_method_is_built(name, good, bad, expected):
    for value in good:
        Sample(**{name: value})
    for value in bad:
        with pytest.raises(ValueError, match=f"{name}={value!r}: expected {expected}".replace("(", r"\(")):
            Sample(**{name: value})


def test_every_problem_is_named_at_once():
    with pytest.raises(ValueError, match=r"every_row=-1: .*the paper's is 1\n.*share=2.*\n.*kind='no'"):
        Sample(every_row=-1, share=2, kind="no")


def test_an_older_name_stays_in_the_message():
    problem = Setting("every_row", float, 1.0, "", at_least=0).problem(-1, called="alpha")
    assert problem == "alpha=-1: expected a finite number >= 0 (the setting is now called every_row)"


def test_settings_come_from_mappings_and_from_objects_and_others_are_passed_over():
    class Arguments:
        every_row, top_k, learning_rate = 3.0, 10, 1e-3

    assert build(Sample, Arguments()) == build(Sample, {"every_row": 3.0, "top_k": 10, "other": 1})
    assert build(Sample, {"every_row": None}) == Sample()  # unset, and the method needs a value


def test_names_are_found_by_kind_and_unknown_ones_are_listed():
    for kind in (TrainingMethod, WeightMethod, MergeRule):
        for name, method in methods_of(kind).items():
            assert find_method(name, kind) is method
    with pytest.raises(ValueError, match="method='nothing': expected one of"):
        find_method("nothing", TrainingMethod)


def test_the_registry_answers_without_torch():
    code = (
        "import sys\nfrom hf_pct.methods import *\nfor kind in (TrainingMethod, WeightMethod, MergeRule):\n"
        "    methods_of(kind)\nsys.exit('torch' in sys.modules or 'transformers' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
