"""A Hub on 127.0.0.1 that the real clients talk to: repositories in memory, tokens, and faults on demand."""

import re
import threading
from dataclasses import dataclass, field
from http.server import ThreadingHTTPServer

from loopback_http import Handler
from loopback_repos import Repo, User


@dataclass
class Fault:
    """Goes wrong `times` times: an HTTP status, `cut` in the middle of a request, or `lost`: done, never answered."""

    method: str
    path: str
    what: int | str
    times: int = 1
    headers: dict[str, str] = field(default_factory=dict)


class LoopbackHub:
    """`with LoopbackHub({"token": User("name")}) as hub:`; the server ends with the block."""

    def __init__(self, users: dict[str, User]) -> None:
        self.users = users
        self.repos: dict[tuple[str, str], Repo] = {}
        self.large: dict[str, bytes] = {}
        self.faults: list[Fault] = []
        self.log: list[tuple[str, str, int | str]] = []
        self.unknown: list[str] = []
        self.lock = threading.RLock()
        handler = type("BoundHandler", (Handler,), {"hub": self})
        self.server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
        self.server.daemon_threads = True
        self.thread = threading.Thread(target=self.server.serve_forever, daemon=True)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server.server_address[1]}"

    def __enter__(self) -> "LoopbackHub":
        self.thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.server.shutdown()
        self.server.server_close()
        self.thread.join()

    def model(self, repo_id: str) -> Repo:
        return self.repos["models", repo_id]

    def add(self, kind: str, repo_id: str, files: dict[str, bytes]) -> Repo:
        """A repository that is there before a test begins."""
        repo = self.repos[kind, repo_id] = Repo(repo_id)
        repo.commit("main", dict(files), "put there by the test")
        return repo

    def fail(self, method: str, path: str, what: int | str, times: int = 1, **headers: str) -> None:
        self.faults.append(Fault(method, path, what, times, {k.replace("_", "-"): v for k, v in headers.items()}))

    def take_fault(self, method: str, path: str) -> Fault | None:
        with self.lock:
            for fault in self.faults:
                if fault.times and fault.method == method and re.search(fault.path, path):
                    fault.times -= 1
                    return fault
        return None

    def calls(self, method: str, pattern: str) -> list[int | str]:
        """How the calls to a path were answered."""
        return [result for verb, path, result in self.log if verb == method and re.search(pattern, path)]
