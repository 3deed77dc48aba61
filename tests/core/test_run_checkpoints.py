"""A run goes on from the last checkpoint that is complete, whatever a kill left of a later one."""

import json
import logging
import zipfile

import numpy as np
import pytest
from safetensors.numpy import save_file

from hf_pct.core.run_checkpoints import ResumeMixin, checkpoint_problems, last_complete_checkpoint


def checkpoint(run, step, weights="model.safetensors"):
    folder = run / f"checkpoint-{step}"
    folder.mkdir(parents=True)
    save_file({"weight": np.arange(50, dtype=np.float32)}, folder / weights)
    (folder / "trainer_state.json").write_text(json.dumps({"global_step": step}))
    for name in ("optimizer.pt", "scheduler.pt", "rng_state.pth"):
        with zipfile.ZipFile(folder / name, "w") as archive:
            archive.writestr("data.pkl", b"x" * 1000)
    return folder


def cut(path):
    path.write_bytes(path.read_bytes()[:-20])


def zero(path):
    path.write_bytes(b"\0" * path.stat().st_size)


@pytest.mark.parametrize("damage", [cut, zero, lambda path: path.unlink()])
@pytest.mark.parametrize("name", ["model.safetensors", "trainer_state.json", "optimizer.pt", "rng_state.pth"])
def test_a_half_written_checkpoint_is_passed_over_and_named(tmp_path, caplog, name, damage):
    before, last = checkpoint(tmp_path, 9), checkpoint(tmp_path, 10)
    assert last_complete_checkpoint(tmp_path) == str(last)
    damage(last / name)
    if not (last / name).exists() and name.endswith((".pt", ".pth")):  # a run may be told not to save these
        assert last_complete_checkpoint(tmp_path) == str(last)
        return
    assert last_complete_checkpoint(tmp_path) == str(before)
    assert f"{last} is not complete and is passed over" in caplog.text


def test_without_a_complete_one_the_run_starts_anew_and_says_so(tmp_path, caplog):
    assert last_complete_checkpoint(tmp_path / "nowhere") is None
    assert caplog.text == ""
    (tmp_path / "checkpoint-5").mkdir()
    assert last_complete_checkpoint(tmp_path) is None
    assert "the run starts from the beginning" in caplog.text


def test_adapters_and_sharded_training_are_complete_in_their_own_way(tmp_path):
    adapter = checkpoint(tmp_path, 1, "adapter_model.safetensors")
    assert checkpoint_problems(adapter) == []
    cut(adapter / "adapter_model.safetensors")
    assert "truncated" in checkpoint_problems(adapter)[0]
    sharded = checkpoint(tmp_path, 2)
    (sharded / "model.safetensors").unlink()
    assert checkpoint_problems(sharded) == ["it has no model.safetensors"]
    (sharded / "pytorch_model_fsdp_0").mkdir()
    assert checkpoint_problems(sharded) == []


class Plain:
    """What `Trainer.train` would be called with."""

    def train(self, resume_from_checkpoint=None, trial=None):
        return resume_from_checkpoint, trial


class Resuming(ResumeMixin, Plain):
    def __init__(self, output_dir):
        self.args = type("Args", (), {"output_dir": str(output_dir)})


def test_a_trainer_resumes_from_it(tmp_path, caplog):
    caplog.set_level(logging.INFO)
    before, last = checkpoint(tmp_path, 1), checkpoint(tmp_path, 2)
    trainer = Resuming(tmp_path)
    assert trainer.train() == (None, None)
    assert trainer.train(resume_from_checkpoint=True) == (str(last), None)
    cut(last / "model.safetensors")
    assert trainer.train(True, trial="t") == (str(before), "t")
    with pytest.raises(ValueError, match=r"cannot be gone on from: .*truncated.* The last complete checkpoint is"):
        trainer.train(str(last))
    assert trainer.train(str(before)) == (str(before), None)
    assert Resuming(tmp_path / "empty").train(True) == (True, None)  # transformers says that there is none
