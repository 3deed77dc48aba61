"""Tokens, and the process with the real clients that the tests send code to."""

import json
import os
import subprocess
import sys
import textwrap
from pathlib import Path
from types import SimpleNamespace

from loopback_hub import LoopbackHub

HERE = Path(__file__).parent
WRITE, READ, OTHER = "hf_write", "hf_read", "hf_other"
OLD_CARD = "---\nlicense: mit\nlanguage: en   # kept as it is\ntags: [intents]\n---\n\n# The old model\n"


class Client:
    """The worker process; `run` sends code and returns what it set `result` to."""

    def __init__(self, hub: LoopbackHub, home: Path) -> None:
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("HF_", "HUGGING"))}
        self.environment = {
            **kept,
            "HF_ENDPOINT": hub.url,
            "HF_HOME": str(home),
            "HF_PCT_CACHE": str(home / "hf_pct"),
            "HF_HUB_DISABLE_XET": "1",
            "HF_HUB_DISABLE_TELEMETRY": "1",
            "HF_HUB_DISABLE_PROGRESS_BARS": "1",
            "HF_UPDATE_DOWNLOAD_COUNTS": "0",
            "NO_PROXY": "127.0.0.1",
            "no_proxy": "127.0.0.1",
            "OMP_NUM_THREADS": "1",
            "TOKENIZERS_PARALLELISM": "false",
        }
        self.process = subprocess.Popen(
            [sys.executable, str(HERE / "client_worker.py")],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=self.environment, cwd=home,
        )  # fmt: skip

    def ask(self, code: str, token: str = WRITE, **arguments: object) -> SimpleNamespace:
        values = {name: str(value) if isinstance(value, Path) else value for name, value in arguments.items()}
        line = json.dumps({"code": textwrap.dedent(code), "token": token, "arguments": values})
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()
        answer = json.loads(self.process.stdout.readline())
        return SimpleNamespace(**{"error": None, "result": None, **answer})

    def run(self, code: str, token: str = WRITE, **arguments: object):
        answer = self.ask(code, token, **arguments)
        assert answer.error is None, answer.traceback
        return answer.result

    def cli(self, verb: str, *arguments: object, token: str = WRITE) -> tuple[int, str]:
        answer = self.ask("result = cli(*a.arguments)", token, arguments=[verb, *map(str, arguments)])
        assert answer.error is None, answer.traceback
        return answer.result, answer.out

    def close(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.close()
        try:
            self.process.wait(20)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


def folder_bytes(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()}
