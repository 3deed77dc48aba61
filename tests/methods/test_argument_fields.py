"""Argument classes are made of what methods declare, and older names of settings go on working."""

import dataclasses

import pytest
from transformers import HfArgumentParser

from hf_pct.methods import TrainingMethod, WeightMethod, methods_of
from hf_pct.methods.argument_fields import merge_settings
from hf_pct.methods.settings import Setting, settings_of
from hf_pct.training import ELODIArguments, FocalDistillArguments, PCTArguments
from hf_pct.training.script import UpdateArguments, parse_arguments

OLDER = {
    "alpha": "every_row", "beta": "right_rows", "pc_weight": "reference_weight", "lambda_ensemble": "ensemble_share",
    "margin": "free_difference",
}  # fmt: skip


def plain(folder, kind=ELODIArguments, **settings):
    return kind(str(folder), use_cpu=True, report_to="none", **settings)


def test_every_setting_of_every_method_is_a_flag_with_its_help_and_choices():
    flags = {field.name: field for field in dataclasses.fields(UpdateArguments)}
    for kind in (TrainingMethod, WeightMethod):
        for method in methods_of(kind).values():
            for entry in settings_of(method):
                assert flags[entry.name].metadata["help"]
                assert flags[entry.name].metadata.get("choices") == entry.choices
                assert flags[entry.name].default == entry.default
    assert flags["method"].metadata["choices"] == tuple(methods_of(TrainingMethod))


def test_weights_can_be_held_beside_any_loss_and_losses_need_their_class(tmp_path):
    assert {"ewc_weight", "mixout"} <= {field.name for field in dataclasses.fields(PCTArguments)}
    assert "right_rows" not in {field.name for field in dataclasses.fields(PCTArguments)}
    assert "num_members" not in {field.name for field in dataclasses.fields(FocalDistillArguments)}
    args = plain(tmp_path, FocalDistillArguments, l2_sp_weight=0.5, right_rows=2.0)
    assert [method.name for method in args.weight_methods()] == ["l2-sp"]
    assert args.training_method().right_rows == 2.0


@pytest.mark.parametrize(("older", "name"), OLDER.items())
def test_older_names_are_keywords_attributes_and_flags(tmp_path, older, name):
    with pytest.warns(FutureWarning, match=f"{older} is now called {name}"):
        args = plain(tmp_path, **{older: 0.25})
    assert (getattr(args, name), getattr(args, older)) == (0.25, 0.25)
    setattr(args, older, 0.5)  # as a search over settings does
    assert getattr(args, name) == 0.5
    assert dataclasses.replace(args, **{name: 0.75}).to_dict()[name] == 0.75
    assert older not in args.to_dict()
    for flag in (f"--{older}", f"--{older.replace('_', '-')}"):
        flags = ["--output_dir", str(tmp_path), "--use_cpu", flag, "0.25"]
        (parsed,) = HfArgumentParser(ELODIArguments).parse_args_into_dataclasses(flags)
        assert getattr(parsed, name) == 0.25
        with pytest.warns(FutureWarning, match=f"{older} is now called {name}"):
            parse_arguments([ELODIArguments], flags)


def test_an_older_name_works_in_a_users_subclass(tmp_path):
    @dataclasses.dataclass
    class Own(FocalDistillArguments):
        extra: int = 3

    with pytest.warns(FutureWarning, match="beta is now called right_rows"):
        assert plain(tmp_path, Own, beta=2.0).right_rows == 2.0


def test_both_names_at_once_are_refused(tmp_path):
    with pytest.warns(FutureWarning), pytest.raises(TypeError, match="every_row and alpha, which is its older name"):
        plain(tmp_path, alpha=1.0, every_row=1.0)


def test_a_bad_value_is_named_as_it_was_given(tmp_path):
    with (
        pytest.warns(FutureWarning),
        pytest.raises(ValueError, match=r"alpha=-1: .* \(the setting is now called every"),
    ):
        plain(tmp_path, alpha=-1)


def test_yaml_and_flags_of_scripts_take_older_names(tmp_path):
    path = tmp_path / "old.yaml"
    path.write_text(f"output_dir: {tmp_path}\nuse_cpu: true\nmethod: fd-lm\nalpha: 0.5\nbeta: 2.0\npc_weight: 3.0\n")
    with pytest.warns(FutureWarning) as warned:
        (args,) = parse_arguments([UpdateArguments], [str(path), "--beta=4.0"])
    assert (args.every_row, args.right_rows, args.reference_weight) == (0.5, 4.0, 3.0)
    assert {str(entry.message).split()[2] for entry in warned if "now called" in str(entry.message)} >= {
        "alpha",
        "beta",
    }
    path.write_text("alpha: 0.5\nevery_row: 0.5\n")
    with pytest.warns(FutureWarning), pytest.raises(ValueError, match="which is its older name"):
        parse_arguments([UpdateArguments], [str(path)])


def test_a_default_that_methods_do_not_share_is_each_methods_own():
    merged = merge_settings([Setting("p", float, 1.0, "a"), Setting("p", float, 2.0, "b"), Setting("q", int, 3, "c")])
    assert (merged["p"].default, merged["p"].optional, merged["q"].default) == (None, True, 3)
