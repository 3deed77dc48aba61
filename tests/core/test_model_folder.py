"""A model's folder is something that people hand us: a damaged config is one message, in every command."""

import json
import shutil

import pytest

from hf_pct.cli import main
from hf_pct.core.model_folder import read_model_config


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"id2label": 5}, "id2label: Expected object | null, got int"),
        ({"id2label": ["a", "b"]}, "id2label: Expected object | null, got array"),
        ({"id2label": {"1": "a", "2": "b"}}, "id2label has the keys '1', '2', expected every class index from 0 to 1"),
        ({"architectures": 5}, "architectures: Expected array | null, got int"),
        ({"model_type": 5}, "model_type: Expected str | null, got int"),
        ({"hidden_size": "x"}, "hidden_size"),
        ({"hidden_size": 10**12}, "fits its config.json"),
        ({"vocab_size": -1}, "fits its config.json"),
    ],
)
def test_a_damaged_config_is_one_message(text_models, text_file, tmp_path, capsys, change, message):
    model = tmp_path / "model"
    shutil.copytree(text_models[1], model)
    config = json.loads((model / "config.json").read_text())
    (model / "config.json").write_text(json.dumps(config | change))
    assert main(["predict", str(model), "--dataset", str(text_file), "--output", str(tmp_path / "p.parquet")]) == 2
    assert message in capsys.readouterr().err
    merge = ["merge", str(text_models[0]), str(model), "--alpha", "0.5", "--output_dir", str(tmp_path / "merged")]
    assert main([*merge, "--quiet"]) in (0, 3)  # sizes are in the weights; what names classes is read


@pytest.mark.parametrize("text", ["[]", "5", "null", '"x"', "{", ""])
@pytest.mark.parametrize("name", ["config.json", "tokenizer.json", "tokenizer_config.json"])
def test_files_that_are_no_objects(text_models, text_file, tmp_path, capsys, name, text):
    model = tmp_path / "model"
    shutil.copytree(text_models[1], model)
    (model / name).write_text(text)
    predict = ["predict", str(model), "--dataset", str(text_file), "--output", str(tmp_path / "p.parquet")]
    merge = ["merge", str(text_models[0]), str(model), "--alpha", "0.5", "--output_dir", str(tmp_path / "merged")]
    for command in (predict, [*merge, "--quiet"]):
        assert main(command) in (0, 2, 3)
        assert "unexpected error" not in capsys.readouterr().err


def test_what_is_the_librarys_own_is_left_to_it(tmp_path):
    (tmp_path / "config.json").write_text(
        '{"model_type": "mamba", "time_step_limit": [0.0, Infinity], "id2label": {}}'
    )
    assert read_model_config(tmp_path / "config.json")["model_type"] == "mamba"
