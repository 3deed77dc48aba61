"""Nothing leaves the machine, one thread a process, and every cache in a folder of its own."""

import datasets
import pytest
import torch


@pytest.fixture(autouse=True)
def _quiet_and_alone(tmp_path_factory, monkeypatch):
    torch.set_num_threads(1)
    datasets.disable_progress_bars()
    monkeypatch.setenv("HF_PCT_CACHE", str(tmp_path_factory.mktemp("hf_pct")))
