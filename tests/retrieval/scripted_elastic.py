"""A scripted Elasticsearch server that records requests and answers as the reference documents it."""

from __future__ import annotations

import json
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any
from urllib.parse import unquote, urlsplit


class Elastic:
    """A server whose searches all return `answer`, or fail with `failure`."""

    def __init__(self) -> None:
        self.requests: list[tuple[str, str, Any]] = []
        self.headers: list[dict[str, str]] = []
        self.failure: tuple[int, Any] | None = None
        self.answer: Any = None
        script = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            disable_nagle_algorithm = True  # as in tests/servers.py

            def do_POST(self) -> None:
                raw = self.rfile.read(int(self.headers.get("Content-Length") or 0)).decode()
                body = [json.loads(line) for line in raw.splitlines() if line.strip()]
                script.headers.append({key.lower(): value for key, value in self.headers.items()})
                script.requests.append((self.command, unquote(urlsplit(self.path).path), body))
                answer = {"took": 1, "responses": [script.answer for _ in body[1::2]]}
                status, answer = script.failure or (200, answer)
                payload = json.dumps(answer).encode()
                self.send_response(status)
                self.send_header("X-Elastic-Product", "Elasticsearch")
                self.send_header("Content-Type", "application/vnd.elasticsearch+json;compatible-with=9")
                self.send_header("Content-Length", str(len(payload)))
                self.end_headers()
                self.wfile.write(payload)

            def log_message(self, *args: Any) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}"
        Thread(target=self.server.serve_forever, args=(0.02,), daemon=True).start()

    def sent(self) -> list[Any]:
        """Return the bodies of the searches in the index `there`."""
        return [body for _, path, body in self.requests if path == "/there/_msearch"]


def result(*hits: tuple[str, float], **changed: Any) -> dict[str, Any]:
    """Return the answer to a search as the reference documents it."""
    listed = [{"_index": "x", "_id": identity, "_score": score} for identity, score in hits]
    shards = {"total": 1, "successful": 1, "skipped": 0, "failed": 0}
    found = {"max_score": None, "hits": listed}
    return {"took": 2, "timed_out": False, "_shards": shards, "hits": found, "status": 200, **changed}
