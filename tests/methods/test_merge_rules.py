"""A merge rule is one file: registered, it works in memory, in place, from disk and on the command line."""

import argparse
from dataclasses import dataclass

import pytest
import torch
from safetensors.torch import load_file, save_file

from hf_pct.cli.change.merge import add_arguments
from hf_pct.hub.card.methods import describe_method
from hf_pct.merging.arguments import BCWIArguments
from hf_pct.merging.checkpoints.replay import replay
from hf_pct.merging.checkpoints.stream import merge_checkpoints
from hf_pct.merging.interpolate import as_rule, interpolate, interpolate_into
from hf_pct.methods import MergeRule, TensorPair, methods_of, register, setting
from hf_pct.methods.merges.tensors import merge_pair
from hf_pct.methods.registry import _METHODS

ALPHAS = (0.0, 0.3, 1.0)


@pytest.fixture
def norms():
    """A rule that is not elementwise and has a setting: the line, brought to the length of the old tensor."""

    @register("keep-norm", paper="nobody", tag="bcwi")
    @dataclass(frozen=True)
    class KeepNorm(MergeRule):
        """The line between both, as long as the old tensor."""

        elementwise = False
        length: float = setting(1.0, "Of the old tensor's length.", above=0)

        def rule(self, pair: TensorPair, alpha: float) -> torch.Tensor:
            line = torch.lerp(pair.new, pair.old, alpha)
            return line * (self.length * pair.old.norm() / line.norm())

    yield KeepNorm
    del _METHODS["keep-norm"]


@pytest.fixture
def states(tmp_path):
    """Two state dicts in several dtypes and their folders; one tensor is longer than a piece of a stream."""
    found = []
    for seed, name in ((1, "old"), (2, "new")):
        generator = torch.Generator().manual_seed(seed)
        state = {
            "long": torch.randn(1100, 1000, generator=generator),
            "half": torch.randn(7, 5, generator=generator).to(torch.float16),
            "brain": torch.randn(9, generator=generator).to(torch.bfloat16),
            "double": torch.randn(4, 3, generator=generator, dtype=torch.float64),
            "count": torch.tensor([seed, 4]),
        }
        (tmp_path / name).mkdir()
        (tmp_path / name / "config.json").write_text("{}")
        save_file(state, tmp_path / name / "model.safetensors")
        found.append(state)
    return found


def same_bits(one, other):
    return one.keys() == other.keys() and all(
        one[name].dtype == other[name].dtype and torch.equal(one[name], other[name]) for name in one
    )


@pytest.mark.parametrize("alpha", ALPHAS)
@pytest.mark.parametrize("method", ["linear", "soup", "fisher", "keep-norm"])
def test_memory_place_and_stream_agree_bit_for_bit(method, alpha, states, norms, tmp_path):
    old, new = states
    rule = as_rule(method)
    fisher = {name: value.double().abs().float() for name, value in old.items() if value.is_floating_point()}
    file = tmp_path / "fisher.safetensors"
    save_file(fisher, file)
    given = {"old_fisher": fisher} if rule.needs.fisher else {}
    memory = interpolate(old, new, alpha, rule=rule, **given)
    place = {name: torch.zeros_like(value) for name, value in new.items()}
    interpolate_into(place, old, new, alpha, rule=rule, **given)
    folders = (tmp_path / "old", tmp_path / "new", tmp_path / "out")
    merge_checkpoints(*folders, alpha=alpha, method=rule, fisher=file if given else None)
    assert same_bits(memory, place)
    assert same_bits(memory, load_file(tmp_path / "out/model.safetensors"))
    if alpha in (0.0, 1.0):
        assert same_bits(memory, {**(old if alpha else new)})
    assert memory["long"].data_ptr() not in (old["long"].data_ptr(), new["long"].data_ptr())


def test_a_new_rule_is_everywhere_with_its_settings(states, norms, tmp_path):
    parser = argparse.ArgumentParser()
    add_arguments(parser)
    args = parser.parse_args(["a", "b", "--output_dir", "c", "--method", "keep-norm", "--length", "3"])
    assert as_rule(args.method, args) == norms(length=3.0)
    assert BCWIArguments(output_dir=str(tmp_path), method="keep-norm", report_to="none").rule == norms()
    with pytest.raises(ValueError, match="length=0: expected"):
        norms(length=0)
    record = merge_checkpoints(
        tmp_path / "old", tmp_path / "new", tmp_path / "out", alpha=0.5, method=norms(length=2.0)
    )
    assert (record.method, record.settings) == ("keep-norm", {"length": 2.0})
    again = replay(tmp_path / "out/pct_merge.json", tmp_path / "again")
    assert again.output == record.output
    with pytest.raises(ValueError, match="'keep-norm' takes one new model, got 2; average them"):
        merge_checkpoints(tmp_path / "old", [tmp_path / "new"] * 2, tmp_path / "o", alpha=0.5, method="keep-norm")
    with pytest.raises(ValueError, match=r"method is 'slerp', expected one of .*linear, soup, fisher"):
        merge_checkpoints(tmp_path / "old", tmp_path / "new", tmp_path / "o", alpha=0.5, method="slerp")


def test_the_card_speaks_with_the_words_of_the_rule(norms):
    merge = {"method": "keep-norm", "alpha": 0.4, "settings": {"length": 2.0}}
    described = describe_method({}, merge)
    assert described.sentence.startswith(norms().sentence() + " (at alpha 0.4;")
    assert (described.tag, described.settings["length"]) == ("bcwi", 2.0)
    assert "LoRA" in describe_method({}, {"method": "lora", "alpha": 0.4}).sentence


def test_settings_are_arguments_and_flags(tmp_path):
    assert BCWIArguments(str(tmp_path), method="fisher", fisher_floor=0.5, report_to="none").rule.fisher_floor == 0.5
    with pytest.raises(ValueError, match="fisher_floor=0: expected"):
        BCWIArguments(str(tmp_path), method="fisher", fisher_floor=0, report_to="none")


def test_rules_say_what_a_card_needs():
    for name, rule in methods_of(MergeRule).items():
        assert all((rule().sentence(), rule.bibtex, rule.tag, rule.summary())), name


def test_ends_are_the_tensors_themselves():
    old, new = torch.ones(3), torch.zeros(3)
    pair = TensorPair(old, new, out=torch.empty(3))
    rule = as_rule("linear")
    assert merge_pair(rule, pair, 1.0) is old
    assert merge_pair(rule, pair, 0.0) is new
    assert merge_pair(rule, pair, 0.5) is pair.out
