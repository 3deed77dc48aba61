"""The metric's Space: started as the Hub starts it, in a venv of its own requirements, and asked once."""

import json
import os
import shutil
import socket
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "hf_pct" / "metrics" / "nfr"
PYTHON = ROOT / "build" / "venv-space" / "bin" / "python"
ROWS = ("cat\ndog\nbird\nbird", "cat\ndog\nbird\ncat", "cat\ncat\nbird\nbird")


def test_the_card_names_the_tested_gradio():
    _, front, _ = (FOLDER / "README.md").read_text(encoding="utf-8").split("---\n", 2)
    pins = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    assert f"gradio=={yaml.safe_load(front)['sdk_version']}" in pins


@pytest.fixture(scope="module")
def outside() -> Iterator[socket.socket]:
    """Where every request to another host would arrive, as its proxy."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.setblocking(False)
        yield listener


@pytest.fixture(scope="module")
def space(tmp_path_factory, outside) -> Iterator[str]:
    """The address of the running Space."""
    if not PYTHON.exists():
        pytest.skip("the Space's venv is not there: make setup")
    folder = tmp_path_factory.mktemp("space") / "nfr"
    shutil.copytree(FOLDER, folder, ignore=shutil.ignore_patterns("__pycache__"))
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    proxy = f"http://127.0.0.1:{outside.getsockname()[1]}"
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"} | {
        "GRADIO_ANALYTICS_ENABLED": "False",
        "GRADIO_SERVER_NAME": "127.0.0.1",
        "GRADIO_SERVER_PORT": str(port),
        "HF_HOME": str(folder.parent / "home"),
        "HF_HUB_OFFLINE": "1",
        "HF_EVALUATE_OFFLINE": "1",
        "http_proxy": proxy,
        "https_proxy": proxy,
        "no_proxy": "127.0.0.1",
    }
    log = folder.parent / "log.txt"
    with log.open("w") as output:
        process = subprocess.Popen([PYTHON, "app.py"], cwd=folder, env=environment, stdout=output, stderr=output)
    try:
        address = f"http://127.0.0.1:{port}"
        wait_for(address, process, log)
        yield address
    finally:
        process.terminate()
        process.wait(timeout=30)


def wait_for(address: str, process: subprocess.Popen, log: Path) -> None:
    for _ in range(480):
        assert process.poll() is None, log.read_text()
        try:
            with urllib.request.urlopen(address, timeout=30):
                return
        except urllib.error.URLError:
            time.sleep(0.5)
    raise AssertionError("the Space did not answer: " + log.read_text())


def ask(address: str, *boxes: str) -> tuple[str, str]:
    """The kind of event that ends a question, and what comes with it."""
    body = json.dumps({"data": [*boxes, None]}).encode()
    question = urllib.request.Request(
        f"{address}/gradio_api/call/show", data=body, headers={"Content-Type": "application/json"}
    )
    with urllib.request.urlopen(question, timeout=60) as answer:
        event = json.load(answer)["event_id"]
    with urllib.request.urlopen(f"{address}/gradio_api/call/show/{event}", timeout=60) as stream:
        lines = dict(line.split(": ", 1) for line in stream.read().decode().splitlines() if ": " in line)
    return lines["event"], lines["data"]


def test_the_space_counts_flips_and_calls_nobody(space, outside):
    event, data = ask(space, *ROWS)
    assert event == "complete"
    (flips,) = json.loads(data)
    assert (flips["nfr"], flips["pfr"], flips["negative_flips"]) == (0.25, 0.25, 1)
    with pytest.raises(BlockingIOError):
        outside.accept()


def test_the_space_says_what_is_wrong(space):
    event, data = ask(space, "cat\ndog", "cat\n\ndog", "cat\ndog")
    assert event == "error"
    assert "old_prediction has no label in row 2" in data
