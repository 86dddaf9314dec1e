"""Vectors on a real Chroma server in its own process: its contents, and the errors when it is lost."""

from __future__ import annotations

import json
import shutil
import urllib.request
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any, ClassVar

import pytest

from tests.conftest import DEMO
from tests.retrieval.conftest import ChromaProcess, write
from tests.served import free_port
from turnmark.core.errors import RequestError, TurnmarkError
from turnmark.core.home import home
from turnmark.retrieval.index import components
from turnmark.retrieval.index.build import build_index
from turnmark.retrieval.index.components import remove_index, verify_index
from turnmark.retrieval.search.opened_index import open_index
from turnmark.retrieval.search.retriever_factory import build_settings, open_retriever
from turnmark.retrieval.storage.chroma import ChromaVectors
from turnmark.retrieval.storage.server_addresses import ServerLocation
from turnmark.retrieval.types import Query

QUESTIONS = ["how do I descale the kettle", "opening hours of the library", "what does a season ticket cost"]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Return the address of `chroma run` with an empty folder."""
    process = ChromaProcess(tmp_path_factory.mktemp("chroma-server"))
    process.start()
    yield process.url
    process.kill()


def collections(url: str) -> list[str]:
    base = f"{url}/api/v2/tenants/default_tenant/databases/default_database"
    with urllib.request.urlopen(f"{base}/collections?limit=100") as reply:
        return sorted(row["name"] for row in json.load(reply))


@pytest.mark.server
def test_server_returns_the_same_hits_as_files(server, demo_home, in_demo_home):
    """Passages, ranks and scores are the same as with vectors in files."""
    spec = f"chroma+{server}"
    shutil.copytree(demo_home / "indexes" / "demo", demo_home / "indexes" / "on-server")
    assert build_index(DEMO / "documents", "on-server", retriever=spec).embedded == 0
    index, local = open_index("on-server"), open_index("demo")
    note = json.loads((index.files / "chroma" / "server.json").read_text(encoding="utf-8"))
    assert [path.name for path in (index.files / "chroma").iterdir()] == ["server.json"]
    assert collections(server) == [note["name"]]
    assert (index.manifest.server.url, index.manifest.server.name) == (server, "")
    assert verify_index(index) == []
    served, embedded = open_retriever(spec, index), open_retriever("hybrid", local)
    assert served.name == spec
    for text in QUESTIONS:
        kinds = ({}, {"variants": (QUESTIONS[1],)}, {"where": {"path": "handbook/*"}})
        for query in (Query(text=text, **kind) for kind in kinds):
            [served_hits], [local_hits] = (retriever.search([query], 10) for retriever in (served, embedded))
            assert [hit.passage for hit in served_hits] == [hit.passage for hit in local_hits]
            assert [hit.score for hit in served_hits] == pytest.approx([hit.score for hit in local_hits], abs=1e-4)
            assert [list(hit.found) for hit in served_hits] == [list(hit.found) for hit in local_hits]
    # Whatever searches vectors searches them where they are.
    assert open_retriever("dense", index).search([Query(text=QUESTIONS[0])], 3)[0]
    remove_index("on-server")
    assert collections(server) == []


@pytest.mark.server
def test_build_keeps_the_open_state_on_the_server(server, notes, monkeypatch, tmp_path):
    """A build changes nothing that may be open, and removes what only the state before the last one has."""
    spec = f"chroma+{server}"
    build_index(notes, "n", retriever=spec)
    [first] = collections(server)
    with monkeypatch.context() as patch:  # another index of that name, of somebody else
        patch.setenv("TURNMARK_HOME", str(tmp_path / "another"))
        build_index(notes, "n", retriever=spec)
        assert len(collections(server)) == 2
        remove_index("n")
    assert collections(server) == [first]
    assert build_index(notes, "n", retriever=spec).unchanged
    reader = open_retriever("dense", open_index("n"))
    (notes / "bees.md").unlink()
    report = build_index(notes, "n", retriever=spec)
    assert (report.embedded, report.kept, report.removed) == (0, 2, 1)
    assert verify_index(open_index("n")) == []
    assert reader.search([Query(text="bees")], 1)[0][0].passage.document == "bees.md"
    found = open_retriever("dense", open_index("n")).search([Query(text="bees")], 3)[0]
    assert {hit.passage.document for hit in found} == {"boat.md", "bread.md"}
    write(notes, boat="# Boat\n\nOil the hull.\n")
    build_index(notes, "n", retriever=spec)
    assert len(dict(open_index("n").chroma.rows())) == 3, "the passages, and what the last build removed"
    assert verify_index(open_index("n")) == []
    # Back into files: what the server holds goes with the generations.
    build_index(notes, "n")
    assert open_index("n").manifest.server is None
    assert len(collections(server)) == 1
    with pytest.raises(RequestError, match="are in its own folder, not at"):
        open_retriever(spec, open_index("n"))
    remove_index("n")
    assert collections(server) == []


def away() -> str:
    return f"http://127.0.0.1:{free_port()}"


def test_reports_collections_left_on_an_unreachable_server(notes, turnmark):
    build_index(notes, "n")
    url = away()
    folder = open_index("n").files / "chroma"
    folder.mkdir()
    note = ServerLocation(kind="chroma", url=url, name="turnmark-n-g0001-ab")
    (folder / "server.json").write_text(note.model_dump_json(), encoding="utf-8")
    with pytest.raises(TurnmarkError, match="failed: ConnectError"):
        assert open_index("n").chroma
    ran = turnmark("index", "remove", "n")
    assert ran.code == 1
    assert "index 'n' is removed, but the collection that " in ran.err
    assert f"is left on its server: the Chroma server at {url} failed" in ran.err
    assert not (home() / "indexes" / "n").exists()


class Guarded(BaseHTTPRequestHandler):
    """A server that answers heartbeats with the right token, and records the headers of all requests."""

    headers_seen: ClassVar[list[str | None]] = []

    def do_GET(self) -> None:
        type(self).headers_seen.append(self.headers["Authorization"])
        allowed = self.headers["Authorization"] == "Bearer hush-hush"
        body = {"/api/v2/heartbeat": {"nanosecond heartbeat": 1}, "/api/v2/auth/identity": {
            "user_id": "", "tenant": "default_tenant", "databases": ["default_database"]}}  # fmt: skip
        answer = json.dumps(body.get(self.path, {"name": "x", "id": "y", "tenant": "z"}) if allowed else {}).encode()
        self.send_response(200 if allowed else 401)
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    def log_message(self, *args: Any) -> None:
        pass


@pytest.fixture
def guarded() -> Iterator[str]:
    Guarded.headers_seen = []
    server = ThreadingHTTPServer(("127.0.0.1", 0), Guarded)
    Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
    yield f"http://127.0.0.1:{server.server_address[1]}"
    server.shutdown()
    server.server_close()


def test_reads_the_token_from_the_environment(guarded, monkeypatch):
    from turnmark.retrieval.storage.chroma import open_client

    place = ServerLocation(kind="chroma", url=guarded)
    with pytest.raises(TurnmarkError, match=r"401.*; is the token in TURNMARK_CHROMA_TOKEN right"):
        open_client(place)
    monkeypatch.setenv("TURNMARK_CHROMA_TOKEN", "hush-hush")
    assert Guarded.headers_seen == [None]
    open_client(place).close()
    assert set(Guarded.headers_seen[1:]) == {"Bearer hush-hush"}
    assert len(Guarded.headers_seen) > 2


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("chroma+http://me:hush@h:1", "no user and password in an address"),
        ("chroma+http://me:hush@h:1?rerank_depth=3", "no user and password in an address"),
        ("chroma+http://h:1?colection=x&b=9", "has no option 'colection'; it has: b, .*\n.*option b='9'"),
        ("chroma+http://h:99999", "not a URL with a valid host and port"),
        ("chroma+http://h:1/path", "remove 'path'"),
    ],
)
def test_refuses_wrong_specs(spec, message):
    with pytest.raises(RequestError, match=message) as raised:
        build_settings(spec)
    assert "hush" not in str(raised.value)


@pytest.fixture
def chroma(tmp_path: Path) -> Iterator[ChromaProcess]:
    server = ChromaProcess(tmp_path)
    server.start()
    yield server
    server.kill()


@pytest.fixture
def dying(chroma: ChromaProcess, monkeypatch: pytest.MonkeyPatch) -> dict[str, bool]:
    """Kill the server after the first of three pages is stored."""
    add = ChromaVectors.add
    state = {"killed": False}

    def killing(self: ChromaVectors, *args: Any) -> None:
        add(self, *args)
        if not state["killed"]:
            state["killed"] = True
            chroma.kill()

    monkeypatch.setattr(components, "_PAGE", 1)
    monkeypatch.setattr(ChromaVectors, "add", killing)
    return state


@pytest.mark.server
def test_lost_server_is_reported_and_the_same_command_continues(chroma, dying, notes, turnmark):
    spec = f"chroma+{chroma.url}"
    with pytest.raises(TurnmarkError) as raised:
        build_index(notes, "n", retriever=spec)
    message = str(raised.value)
    assert f"the Chroma server at {chroma.url} failed" in message
    with pytest.raises(TurnmarkError, match=f"the Chroma server at {chroma.url} failed: ConnectError"):
        build_index(notes, "new", retriever=spec)
    assert not (home() / "indexes" / "new").exists()
    ran = turnmark("index", "build", notes, "--name", "n", "--retriever", spec)
    assert (ran.code, "ConnectError" in ran.err) == (1, True)
    chroma.start()
    report = build_index(notes, "n", retriever=spec)
    assert (report.embedded, report.kept) == (0, 3)
    assert verify_index(open_index("n")) == []
    remove_index("n")
