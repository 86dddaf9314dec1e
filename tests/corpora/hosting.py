"""A stand-in for GitHub and Hugging Face on a real socket, with listings, files and misbehavior.

    with Hosting({"IBM/mt-rag-benchmark": {"LICENSE": b"…"}}):
        fetch(CATALOG["mtrag"])

`host.twists[path]` replaces the response for the file at that path. It is a function of the handler and the content.
"""

from __future__ import annotations

import hashlib
import json
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from turnmark.corpora.downloads import data_sets

COMMIT = "0123456789abcdef0123456789abcdef01234567"

Twist = Callable[["Handler", bytes], None]


def blob(content: bytes) -> str:
    """Return the git blob id of a content."""
    return hashlib.sha1(b"blob %d\0" % len(content) + content).hexdigest()


class Handler(BaseHTTPRequestHandler):
    """One request."""

    protocol_version = "HTTP/1.1"
    # Header and body are sent together. Sent separately, each would wait for an acknowledgment.
    wbufsize = 1 << 16
    disable_nagle_algorithm = True
    server: Server

    def log_message(self, *_: Any) -> None:
        """Log nothing."""

    def send(self, status: int, body: bytes = b"", length: int | None = None, **headers: str) -> None:
        """Send a complete reply. `length` overrides its true length."""
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.send_header("Content-Length", str(len(body) if length is None else length))
        self.end_headers()
        self.wfile.write(body)
        if length is not None:
            self.close_connection = True

    def plainly(self, content: bytes) -> None:
        """Send the content."""
        self.send(200, content)

    def do_GET(self) -> None:
        """Answer a request."""
        self.server.requests.append(self.path)
        path = self.path.partition("?")[0]
        if path in self.server.pages:
            self.send(*self.server.pages[path])
            return
        for repository, files in self.server.repositories.items():
            for prefix in (f"/raw/{repository}/{COMMIT}/", f"/datasets/{repository}/resolve/{COMMIT}/"):
                name = path.removeprefix(prefix)
                if name != path and name in files:
                    self.server.twists.get(name, Handler.plainly)(self, files[name])
                    return
        self.send(404)


class Server(ThreadingHTTPServer):
    """The state that the handlers share."""

    daemon_threads = True
    repositories: dict[str, dict[str, bytes]]
    twists: dict[str, Twist]
    pages: dict[str, tuple[int, bytes]]
    requests: list[str]

    def handle_error(self, *_: Any) -> None:
        """Ignore errors: tests disconnect on purpose."""


class Hosting:
    """A host that runs inside a `with` statement, in which fetches are sent to it.

    Args:
        repositories: owner/name -> path -> content.
        large: paths that the hub lists with their SHA-256.

    Attributes:
        pages: path -> status and body, for paths that are not files of a repository.
        twists: path in its repository -> function that answers.
    """

    def __init__(self, repositories: dict[str, dict[str, bytes]], large: tuple[str, ...] = ()) -> None:
        self._server = Server(("127.0.0.1", 0), Handler)
        self._server.repositories, self._server.requests = repositories, []
        self.twists, self.pages = self._server.twists, self._server.pages = {}, {}
        self.url = f"http://localhost:{self._server.server_port}"
        self._patch = pytest.MonkeyPatch()
        for name, files in repositories.items():
            self.list_files(name, files, large)

    def list_files(self, name: str, files: dict[str, bytes], large: tuple[str, ...] = ()) -> None:
        """List these files."""
        tree = [
            {"path": path, "mode": "100644", "type": "blob", "sha": blob(content), "size": len(content)}
            for path, content in files.items()
        ]
        hub = [
            {"type": "file", "path": path, "oid": blob(content), "size": len(content)}
            | ({"lfs": {"oid": hashlib.sha256(content).hexdigest()}} if path in large else {})
            for path, content in files.items()
        ]
        self.pages |= {
            f"/repos/{name}/commits/main": (200, json.dumps({"sha": COMMIT}).encode()),
            f"/repos/{name}/commits/{COMMIT}": (200, json.dumps({"sha": COMMIT}).encode()),
            f"/repos/{name}/git/trees/{COMMIT}": (200, json.dumps({"sha": COMMIT, "tree": tree}).encode()),
            f"/api/datasets/{name}/revision/main": (200, json.dumps({"sha": COMMIT}).encode()),
            f"/api/datasets/{name}/tree/{COMMIT}": (200, json.dumps(hub).encode()),
        }

    def asked(self, name: str = "") -> list[str]:
        """Return the requested paths that end with `name`."""
        return [path for path in self._server.requests if path.partition("?")[0].endswith(name)]

    def __enter__(self) -> Hosting:
        for name, url in (("GITHUB_API", self.url), ("GITHUB_RAW", f"{self.url}/raw"), ("HUB", self.url)):
            self._patch.setattr(data_sets, name, url)
        threading.Thread(target=lambda: self._server.serve_forever(poll_interval=0.01), daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._patch.undo()
        self._server.shutdown()
        self._server.server_close()
