"""A scripted Elasticsearch server: writes down what a client sends and answers as the reference documents it."""

from __future__ import annotations

import json
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any
from urllib.parse import unquote, urlsplit


class Elastic:
    """A scripted server: every search finds `answer`."""

    def __init__(self) -> None:
        self.requests: list[tuple[str, str, Any]] = []
        self.headers: list[dict[str, str]] = []
        self.fail: dict[str, tuple[int, Any]] = {}
        self.answer: Any = None
        script = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            disable_nagle_algorithm = True  # as in tests/servers.py

            def _any(self) -> None:
                raw = self.rfile.read(int(self.headers.get("Content-Length") or 0)).decode()
                lines = [json.loads(line) for line in raw.splitlines() if line.strip()]
                url = urlsplit(self.path)
                many = url.path.endswith(("_msearch", "_bulk"))
                script.headers.append({key.lower(): value for key, value in self.headers.items()})
                status, answer = script.reply(self.command, unquote(url.path), lines if many else (lines or [None])[0])
                payload = json.dumps(answer).encode()
                self.send_response(status)
                self.send_header("X-Elastic-Product", "Elasticsearch")
                self.send_header("Content-Type", "application/vnd.elasticsearch+json;compatible-with=9")
                self.send_header("Content-Length", str(len(payload)))
                self.end_headers()
                if self.command != "HEAD":
                    self.wfile.write(payload)

            do_GET = do_POST = do_PUT = do_DELETE = do_HEAD = _any

            def log_message(self, *args: Any) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}"
        Thread(target=self.server.serve_forever, args=(0.02,), daemon=True).start()

    def sent(self, ending: str) -> list[Any]:
        """The bodies of the requests to what ends so."""
        return [body for _, path, body in self.requests if path.endswith(ending)]

    def reply(self, method: str, path: str, body: Any) -> tuple[int, Any]:
        self.requests.append((method, path, body))
        for ending, failure in self.fail.items():
            if path.endswith(ending):
                return failure
        if path == "/":
            return 200, {"name": "node", "version": {"number": "9.1.0"}, "tagline": "You Know, for Search"}
        name, _, action = path.strip("/").partition("/")
        if name == "_msearch" or action == "_msearch":
            return 200, {"took": 1, "responses": [self.answer for _ in body[1::2]]}
        return 400, {"error": {"type": "unexpected", "reason": f"{method} {path}"}}


def result(*hits: tuple[str, float], **changed: Any) -> dict[str, Any]:
    """A search's answer as the reference documents it."""
    listed = [{"_index": "x", "_id": identity, "_score": score} for identity, score in hits]
    shards = {"total": 1, "successful": 1, "skipped": 0, "failed": 0}
    response = {
        "took": 2,
        "timed_out": False,
        "_shards": shards,
        "hits": {"max_score": None, "hits": listed},
        "status": 200,
    }
    return {**response, **changed}
