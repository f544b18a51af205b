"""A model hub on this machine: the HTTP API that huggingface_hub calls, serving folders, with faults on demand."""

import hashlib
import json
import re
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Self
from urllib.parse import unquote, urlsplit

from huggingface_hub import ModelCard

ID = r"(?P<id>[^/]+(?:/[^/]+)?)"
ROUTES = [
    ("tree", re.compile(rf"/api/models/{ID}/tree/(?P<revision>[^/]+)/?")),
    ("info", re.compile(rf"/api/models/{ID}/revision/(?P<revision>[^/]+)")),
    ("info", re.compile(rf"/api/models/{ID}")),
    ("file", re.compile(rf"/{ID}/resolve/(?P<revision>[^/]+)/(?P<file>.+)")),
]
INFORMATION = "information"
Answer = Callable[[BaseHTTPRequestHandler], None]
TOKEN = "hf_member"  # may read everything
OUTSIDER = "hf_outsider"  # a valid account that was given access to nothing


@dataclass
class Repository:
    """Commits (their files by name), what branches and tags point at, and who may read."""

    commits: dict[str, dict[str, bytes]] = field(default_factory=dict)
    revisions: dict[str, str] = field(default_factory=dict)
    gated: bool = False
    private: bool = False
    declared: dict[str, int] = field(default_factory=dict)  # sizes of files that it lies about
    tampered: dict[str, bytes] = field(default_factory=dict)  # files that it sends in place of those it hashed
    endless: set[str] = field(default_factory=set)  # files that it never stops sending
    # What it answers instead, when asked for a file of that name, or for what it is (INFORMATION).
    answers: dict[str, "Answer"] = field(default_factory=dict)


class StandInHub:
    """Use as a context manager; `endpoint` is its address.

    Set `status` to answer everything with that HTTP status, `retry_after` to ask for so many seconds with it, `delay`
    to answer late (seconds); call `stop` to be gone. `aliases` are the names that repositories had before. `requests`
    lists what was asked, as "GET /path". What a `Repository` of `repositories` lies about stands there.
    """

    def __init__(self) -> None:
        self.repositories: dict[str, Repository] = {}
        self.aliases: dict[str, str] = {}
        self.requests: list[str] = []
        self.status: int | None = None
        self.retry_after: int | None = None
        self.delay = 0.0
        self._server = _Server(("127.0.0.1", 0), type("Handler", (_Handler,), {"hub": self}))
        self.endpoint = f"http://127.0.0.1:{self._server.server_port}"

    def __enter__(self) -> Self:
        threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def stop(self) -> None:
        """Be gone: connections are refused from now on."""
        self._server.shutdown()
        self._server.server_close()

    def add(
        self,
        repo_id: str,
        folder: Path,
        *,
        revisions: Sequence[str] = ("main",),
        gated: bool = False,
        private: bool = False,
    ) -> str:
        """Commit the files that `folder` holds now and point `revisions` at the commit, which is returned.

        Adding to a repository again moves those branches and keeps the older commits.
        """
        files = {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}
        repository = self.repositories.setdefault(repo_id, Repository())
        repository.gated, repository.private = gated, private
        history = "".join(repository.commits) + "".join(f"{name}{_digest(files[name])}" for name in sorted(files))
        commit = _digest(history.encode())
        repository.commits[commit] = files
        repository.revisions.update(dict.fromkeys(revisions, commit))
        return commit


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Silence: a client that gave up waiting is what the slow hub is for."""


class _Handler(BaseHTTPRequestHandler):
    hub: StandInHub

    def do_GET(self) -> None:
        self._answer()

    def do_HEAD(self) -> None:
        self._answer()

    def log_message(self, *_: object) -> None:
        pass

    def _answer(self) -> None:
        path = urlsplit(self.path).path
        self.hub.requests.append(f"{self.command} {path}")
        time.sleep(self.hub.delay)
        if self.hub.status is not None:
            return self._error(self.hub.status, "", "the stand-in hub was told to fail")
        for kind, pattern in ROUTES:
            match = pattern.fullmatch(path)
            if match:
                asked = {name: unquote(value) for name, value in match.groupdict().items() if value}
                return self._repository(kind, asked["id"], asked.get("revision", "main"), asked.get("file", ""))
        return self._error(404, "", f"no such address: {path}")

    def _repository(self, kind: str, repo_id: str, revision: str, name: str) -> None:
        token = (self.headers.get("Authorization") or "").removeprefix("Bearer ")
        if token not in ("", TOKEN, OUTSIDER):
            return self._error(401, "", "Invalid credentials in Authorization header")
        repo_id = self.hub.aliases.get(repo_id, repo_id)
        repository = self.hub.repositories.get(repo_id)
        if repository is None or (repository.private and token != TOKEN):
            # As on the public hub: who is not logged in cannot tell a missing repository from a private one.
            return self._error(404 if token else 401, "RepoNotFound", "Repository not found")
        commit = repository.revisions.get(revision, revision)
        files = repository.commits.get(commit)
        if files is None:
            return self._error(404, "RevisionNotFound", f"Invalid rev id: {revision}")
        answer = repository.answers.get(INFORMATION if kind == "info" else name)
        if answer is not None:
            return answer(self)
        if kind == "info":
            return self._json(_information(repo_id, repository, commit))
        if kind == "tree":
            return self._json([_entry(repository, name, content) for name, content in sorted(files.items())])
        if repository.gated and token != TOKEN:
            return self._error(403 if token else 401, "GatedRepo", f"Access to model {repo_id} is restricted")
        if name not in files:
            return self._error(404, "EntryNotFound", "Entry not found")
        etag = _entry(repository, name, files[name])["oid"]
        if name in repository.endless and self.command == "GET":
            return self._endless(etag, commit)
        return self._file(repository.tampered.get(name, files[name]), etag, commit)

    def _endless(self, etag: str, commit: str) -> None:
        self.send_response(200)
        for name, value in {"X-Repo-Commit": commit, "ETag": f'"{etag}"', "Transfer-Encoding": "chunked"}.items():
            self.send_header(name, value)
        self.end_headers()
        while True:  # until the client hangs up
            self.wfile.write(b"10000\r\n" + bytes(0x10000) + b"\r\n")

    def _file(self, content: bytes, etag: str, commit: str) -> None:
        headers = {"X-Repo-Commit": commit, "ETag": f'"{etag}"', "Accept-Ranges": "bytes"}
        asked = re.fullmatch(r"bytes=(\d+)-(\d*)", self.headers.get("Range") or "")
        if asked is None:
            return self._send(200, content, headers)
        first, last = int(asked[1]), min(int(asked[2] or len(content)), len(content) - 1)
        headers["Content-Range"] = f"bytes {first}-{last}/{len(content)}"
        return self._send(206, content[first : last + 1], headers)

    def _json(self, value: object) -> None:
        self._send(200, json.dumps(value).encode(), {"Content-Type": "application/json"})

    def _error(self, status: int, code: str, message: str) -> None:
        headers = {"X-Error-Code": code, "X-Error-Message": message}
        if self.hub.retry_after is not None:
            headers["Retry-After"] = str(self.hub.retry_after)
        self._send(status, json.dumps({"error": message}).encode(), headers)

    def _send(self, status: int, content: bytes, headers: dict[str, str]) -> None:
        self.send_response(status)
        for name, value in {**headers, "Content-Length": str(len(content))}.items():
            if value:
                self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(content)


def _information(repo_id: str, repository: Repository, commit: str) -> dict[str, Any]:
    files = repository.commits[commit]
    card = ModelCard(files["README.md"].decode()).data.to_dict() if "README.md" in files else {}
    return {
        "id": repo_id,
        "sha": commit,
        "private": repository.private,
        "gated": "manual" if repository.gated else False,
        "cardData": card,
        "tags": [],
        "siblings": [_sibling(repository, name, files[name]) for name in sorted(files)],
    }


def _sibling(repository: Repository, name: str, content: bytes) -> dict[str, Any]:
    entry = _entry(repository, name, content)
    return {"rfilename": name, "size": entry["size"], "blobId": entry["oid"], "lfs": entry.get("lfs")}


def _entry(repository: Repository, name: str, content: bytes) -> dict[str, Any]:
    size = repository.declared.get(name, len(content))
    oid = hashlib.sha1(b"blob %d\0" % len(content) + content, usedforsecurity=False).hexdigest()
    entry: dict[str, Any] = {"type": "file", "path": name, "size": size, "oid": oid}
    if name.endswith(".safetensors"):  # large files are kept apart from git, by their sha256
        entry["lfs"] = {"oid": (sha256 := hashlib.sha256(content).hexdigest()), "sha256": sha256, "size": size}
        entry["lfs"]["pointerSize"] = 134
    return entry


def _digest(content: bytes) -> str:
    """40 hex digits, as git's."""
    return hashlib.sha256(content).hexdigest()[:40]
