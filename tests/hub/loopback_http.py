"""The endpoints of the loopback Hub: the part of the protocol that the clients use to publish and to download.

Large files (`*.safetensors`) go the LFS way: their bytes first, then a commit that names them.
"""

import base64
import hashlib
import json
import re
import socket
import struct
from http.server import BaseHTTPRequestHandler
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

from loopback_repos import Repo, User, yaml_problems

NAMED = r"(?P<kind>models|datasets|spaces)/(?P<id>[\w.-]+(?:/[\w.-]+)?)"


class Handler(BaseHTTPRequestHandler):
    hub: Any
    protocol_version = "HTTP/1.1"

    def log_message(self, *_: object) -> None:
        pass

    def do_GET(self) -> None:
        self._serve()

    do_HEAD = do_POST = do_PUT = do_GET

    # ---- one request

    def _serve(self) -> None:
        parts = urlsplit(self.path)
        self.route, self.query = unquote(parts.path), parse_qs(parts.query)
        fault = self.hub.take_fault(self.command, self.route)
        size = int(self.headers.get("Content-Length") or 0)
        if fault and fault.what == "cut":
            self.rfile.read(size // 2)
            return self._hang_up("cut")
        if self.headers.get("Transfer-Encoding") == "chunked":
            self.body = self._read_chunks()
        else:
            self.body = self.rfile.read(size)
        if fault and isinstance(fault.what, int):
            return self._answer(fault.what, {"error": f"injected {fault.what}"}, **fault.headers)
        self.lost = fault is not None
        with self.hub.lock:
            self._dispatch()

    def _read_chunks(self) -> bytes:
        body = b""
        while size := int(self.rfile.readline().strip() or b"0", 16):
            body += self.rfile.read(size)
            self.rfile.readline()
        self.rfile.readline()
        return body

    def _hang_up(self, reason: str) -> None:
        self.hub.log.append((self.command, self.route, reason))
        self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.close_connection = True
        self.connection.close()

    def _answer(self, status: int, body: object = None, **headers: str) -> None:
        if getattr(self, "lost", False):
            return self._hang_up("lost")
        self.hub.log.append((self.command, self.route, status))
        content = body if isinstance(body, bytes) else json.dumps(body).encode()
        self.send_response(status)
        if not isinstance(body, bytes):
            self.send_header("Content-Type", "application/json")
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(content)

    def _refuse(self, status: int, code: str, message: str) -> None:
        self._answer(status, {"error": message}, **{"X-Error-Code": code, "X-Error-Message": message})

    # ---- who, what

    def _user(self) -> User | None:
        sent = self.headers.get("Authorization", "")
        return self.hub.users.get(sent.removeprefix("Bearer "))

    def _repo(self, kind: str, repo_id: str, write: bool = False) -> Repo | None:
        """The repository if the token may have it; otherwise the refusal is sent."""
        user, repo = self._user(), self.hub.repos.get((kind, repo_id))
        if self.headers.get("Authorization") and user is None:
            self._answer(401, {"error": "Invalid credentials"}, **{
                "X-Error-Message": "Invalid credentials in Authorization header"})  # fmt: skip
        elif repo is None or (repo.private and not (user and user.may_write(repo_id))):
            self._refuse(404 if user else 401, "RepoNotFound", "Repository not found")
        elif write and not (user and user.may_write(repo_id)):
            message = "You don't have the rights to write to this repository"
            self._answer(403, {"error": message}, **{"X-Error-Message": message})
        else:
            return repo
        return None

    def _dispatch(self) -> None:
        routes = [
            ("GET", r"/api/whoami-v2", self._whoami),
            ("POST", r"/api/repos/create", self._create),
            ("POST", r"/api/validate-yaml", self._validate),
            ("GET", rf"/api/{NAMED}/auth-check(?P<write>/write)?", self._auth_check),
            ("POST", rf"/api/{NAMED}/preupload/(?P<revision>.+)", self._preupload),
            ("POST", rf"/api/{NAMED}/commit/(?P<revision>.+)", self._commit),
            ("POST", rf"/api/{NAMED}/branch/(?P<branch>.+)", self._branch),
            ("POST", rf"/api/{NAMED}/paths-info/(?P<revision>.+)", self._paths),
            ("GET", rf"/api/{NAMED}/discussions", self._discussions),
            ("GET", rf"/api/{NAMED}/tree/(?P<revision>[^/]+)/?(?P<under>.*)", self._tree),
            ("GET", rf"/api/{NAMED}(/revision/(?P<revision>.+))?", self._info),
            ("POST", r"/((?P<kind>datasets|spaces)/)?(?P<id>[\w.-]+/[\w.-]+)\.git/info/lfs/.*", self._batch),
            ("PUT", r"/large/(?P<oid>\w+)", self._put_large),
            ("*", r"/((?P<kind>datasets|spaces)/)?(?P<id>[\w.-]+(/[\w.-]+)?)/resolve/(?P<revision>[^/]+|refs/pr/\d+)"
             r"/(?P<path>.+)", self._resolve),
        ]  # fmt: skip
        for method, pattern, function in routes:
            match = re.fullmatch(pattern, self.route)
            if match and (method == self.command or (method == "*" and self.command in ("GET", "HEAD"))):
                return function(**match.groupdict())
        self.hub.unknown.append(f"{self.command} {self.route}")
        return self._refuse(404, "EntryNotFound", f"no such endpoint: {self.route}")

    # ---- endpoints

    def _whoami(self) -> None:
        user = self._user()
        self._answer(*((200, user.whoami()) if user else (401, {"error": "Invalid credentials"})))

    def _create(self) -> None:
        asked, user = json.loads(self.body), self._user()
        if user is None:
            return self._answer(401, {"error": "Invalid credentials"})
        repo_id = f"{asked.get('organization') or user.name}/{asked['name']}"
        kind = f"{asked.get('type', 'model')}s"
        url = f"{self.hub.url}/{'' if kind == 'models' else kind + '/'}{repo_id}"
        if (kind, repo_id) in self.hub.repos:
            return self._answer(409, {"error": "You already created this repo", "url": url})
        if not user.may_write(repo_id):
            return self._answer(403, {"error": "You don't have the rights to create a repository here"})
        self.hub.repos[kind, repo_id] = Repo(repo_id, asked.get("visibility") == "private", asked.get("sdk"))
        return self._answer(200, {"url": url, "name": repo_id, "id": repo_id})

    def _validate(self) -> None:
        asked = json.loads(self.body)
        problems = yaml_problems(asked["content"], asked["repoType"])
        body = {"errors": [{"message": problem} for problem in problems], "warnings": []}
        self._answer(400 if problems else 200, body)

    def _auth_check(self, kind: str, id: str, write: str | None) -> None:
        if self._repo(kind, id, write=bool(write)):
            self._answer(200, {})

    def _info(self, kind: str, id: str, revision: str | None) -> None:
        if (repo := self._repo(kind, id)) is None:
            return None
        if (oid := repo.resolve(revision or "main")) is None:
            return self._refuse(404, "RevisionNotFound", f"no revision {revision}")
        siblings = [{"rfilename": path} for path in sorted(repo.commits[oid])]
        stamp = "2026-01-01T00:00:00.000Z"
        body = {"_id": id, "id": id, "sha": oid, "private": repo.private, "siblings": siblings, "tags": []}
        body |= {"lastModified": stamp, "createdAt": stamp, "gated": False, "disabled": False}
        return self._answer(200, body)

    def _entry(self, path: str, content: bytes) -> dict:
        entry = {"type": "file", "path": path, "size": len(content), "oid": _oid(content, large=False)}
        return (
            {**entry, "lfs": {"oid": _oid(content), "size": len(content), "pointerSize": 1}} if _large(path) else entry
        )

    def _tree(self, kind: str, id: str, revision: str, under: str) -> None:
        if (repo := self._repo(kind, id)) is None:
            return None
        files = repo.commits[repo.resolve(revision)]
        entries = [self._entry(path, content) for path, content in files.items() if path.startswith(under)]
        folders = {path.rsplit("/", 1)[0] for path in files if "/" in path}
        entries += [{"type": "directory", "path": folder, "oid": "0" * 40, "size": 0} for folder in sorted(folders)]
        return self._answer(200, entries)

    def _paths(self, kind: str, id: str, revision: str) -> None:
        if (repo := self._repo(kind, id)) is None:
            return None
        files = repo.commits[repo.resolve(revision)]
        asked = (
            json.loads(self.body) if "json" in self.headers.get("Content-Type", "") else parse_qs(self.body.decode())
        )
        wanted = asked.get("paths", [])
        return self._answer(200, [self._entry(path, files[path]) for path in wanted if path in files])

    def _preupload(self, kind: str, id: str, revision: str) -> None:
        proposes = "create_pr" in self.query
        if (repo := self._repo(kind, id, write=not proposes)) is None:
            return None
        files = repo.commits.get(repo.resolve(revision) or "", {})
        answers = []
        for file in json.loads(self.body)["files"]:
            path, large = file["path"], _large(file["path"])
            answer = {"path": path, "uploadMode": "lfs" if large else "regular", "shouldIgnore": False}
            if path in files:
                answer["oid"] = _oid(files[path], large)
            answers.append(answer)
        return self._answer(200, {"files": answers})

    def _commit(self, kind: str, id: str, revision: str) -> None:
        proposes, user = "create_pr" in self.query, self._user()
        if (repo := self._repo(kind, id, write=not proposes)) is None:
            return None
        if user is None or user.role != "write":
            return self._answer(403, {"error": "This token may not write"})
        header: dict = {}
        changes: dict[str, bytes | None] = {}
        for line in self.body.splitlines():
            key, value = (item := json.loads(line))["key"], item["value"]
            if key == "header":
                header = value
            elif key == "file":
                changes[value["path"]] = base64.b64decode(value["content"])
            elif key == "lfsFile":
                changes[value["path"]] = self.hub.large[value["oid"]]
            elif key == "deletedFile":
                changes[value["path"]] = None
        if not proposes and header.get("parentCommit") not in (None, repo.resolve(revision)):
            return self._answer(412, {"error": "A commit has happened since. Please refresh and try again."})
        prefix = "" if kind == "models" else f"{kind}/"
        body = {"success": True}
        if proposes:
            oid, number = repo.open_pull_request(changes, header["summary"], user.name)
            body["pullRequestUrl"] = f"{self.hub.url}/{prefix}{id}/discussions/{number}"
        else:
            oid = repo.commit(revision, changes, header["summary"])
        return self._answer(200, {**body, "commitOid": oid, "commitUrl": f"{self.hub.url}/{prefix}{id}/commit/{oid}"})

    def _branch(self, kind: str, id: str, branch: str) -> None:
        if (repo := self._repo(kind, id, write=True)) is None:
            return None
        if branch in repo.branches:
            return self._answer(409, {"error": "Reference already exists"})
        repo.branches[branch] = list(repo.branches["main"])
        return self._answer(200, {})

    def _discussions(self, kind: str, id: str) -> None:
        if (repo := self._repo(kind, id)) is None:
            return None
        listed = [
            {"title": request["title"], "num": request["num"], "author": {"name": request["author"]}, "status": "open",
             "createdAt": "2026-01-01T00:00:00.000Z", "repo": {"name": id, "type": kind[:-1]}, "isPullRequest": True}
            for request in repo.pull_requests
        ]  # fmt: skip
        return self._answer(200, {"discussions": listed, "count": len(listed), "start": 0})

    def _batch(self, kind: str | None, id: str) -> None:
        if self._repo(kind or "models", id, write=True) is None:
            return None
        objects = []
        for entry in json.loads(self.body)["objects"]:
            upload = {"upload": {"href": f"{self.hub.url}/large/{entry['oid']}"}}
            objects.append(entry if entry["oid"] in self.hub.large else {**entry, "actions": upload})
        return self._answer(200, {"transfer": "basic", "objects": objects})

    def _put_large(self, oid: str) -> None:
        if _oid(self.body) != oid:
            return self._answer(400, {"error": "the content is not what was announced"})
        self.hub.large[oid] = self.body
        return self._answer(200, {})

    def _resolve(self, kind: str | None, id: str, revision: str, path: str) -> None:
        if (repo := self._repo(kind or "models", id)) is None:
            return None
        oid = repo.resolve(revision)
        if oid is None:
            return self._refuse(404, "RevisionNotFound", f"no revision {revision}")
        if path not in repo.commits[oid]:
            headers = {"X-Error-Code": "EntryNotFound", "X-Error-Message": "Entry not found", "X-Repo-Commit": oid}
            return self._answer(404, {"error": "no such file"}, **headers)
        content = repo.commits[oid][path]
        return self._answer(200, content, **{"ETag": f'"{_oid(content)}"', "X-Repo-Commit": oid})


def _large(path: str) -> bool:
    return path.endswith(".safetensors")


def _oid(content: bytes, large: bool = True) -> str:
    """The name of a content: SHA-256 for large files, git's own for the others."""
    if large:
        return hashlib.sha256(content).hexdigest()
    return hashlib.sha1(b"blob %d\0" % len(content) + content).hexdigest()
