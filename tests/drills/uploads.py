"""Hostile files that are added on the page of `turnmark serve`: names, archives, sizes, types, HTML and SVG."""

from __future__ import annotations

import io
import itertools
import json
import random
import time
import zipfile
from collections.abc import Iterator
from pathlib import Path

import httpx

from tests.assistant.serving import Server, serving, write_token
from tests.drills.hostile import ESCAPE, HIDDEN, INJECTION, RTL, SCRIPT, word
from tests.drills.tally import Effort, Tally

UPLOADS = 300
BUILD_SECONDS = 600.0
TOKEN = "a-token-for-the-drill"
NAMES = (
    "../../../{}", "/etc/cron.d/{}", "..\\..\\{}", "C:\\Windows\\{}", "....//....//{}", "%2e%2e%2f{}", "~/.ssh/{}",
    "$(touch RAN){}", "`touch RAN`{}", "; touch RAN; {}", "| touch RAN {}", "<img src=x onerror=alert(1)>{}", "a\0b{}",
    "con/{}", ".git/hooks/{}", "node_modules/{}", "__MACOSX/{}", "-rf {}", f"{ESCAPE}{{}}", f"{RTL}{{}}",
    f"{HIDDEN}{{}}", "x" * 400 + "{}", "é" * 200 + "{}", "a/" * 200 + "{}", " {}", "...{}", "\n{}",
    "'; DROP TABLE passages; --{}",
    "{{7*7}}{}", "\ud800{}", "added/added/{}", "manifest.json/{}",
)  # fmt: skip
REFUSED_NAMES = (
    "",
    ".",
    "..",
    "/",
    "\\",
    ".md",
    "run.exe",
    "x.so",
    "x.zip",
    "x.tar.gz",
    "x.html\0.exe",
    "passwd",
)


def drills(effort: Effort) -> Iterator[Tally]:
    """Add files over HTTP while the index is built; then look at the folders and at what clients are shown."""
    folder = effort.folder("uploads")
    home, ran = folder / "home", folder / "RAN"
    (folder / "private.md").write_text("# Private\n\nOUTSIDE-4242 must not be read.\n", encoding="utf-8")
    tally = Tally("hostile uploads")
    token = write_token(folder, TOKEN)
    with serving(home, "--retriever", "bm25", "--token", token, indexes=()) as server:
        server.headers["Authorization"] = f"Bearer {TOKEN}"
        for name, content in itertools.islice(_uploads(ran, random.Random(effort.seed)), UPLOADS):
            with tally.attempt(repr(name)[:80]):
                _add(server, name, content)
        with tally.attempt("without the token"):
            assert httpx.post(f"{server.url}/v1/files?name=x.md", content=b"x").status_code == 401
            assert httpx.delete(f"{server.url}/v1/files?name=x.md").status_code == 401
        with tally.attempt("as a form of another site"):
            for kind in ("text/plain", "multipart/form-data; boundary=x", "application/x-www-form-urlencoded"):
                assert _post(server, "x.md", b"x", kind).status_code == 415
        with tally.attempt("too large"):
            assert _post(server, "large.txt", b"k" * 50_000_001).status_code == 413
        with tally.attempt("the build ends"):
            _wait_for_build(server)
        with tally.attempt("nothing outside"):
            added = [file for file in (home / "added").rglob("*") if file.is_file()]
            assert added
            assert {file.parent for file in added} == {home / "added" / "added"}
            assert not [file.name for file in added if file.name.startswith(".") or file.is_symlink()]
            assert {path.name for path in home.iterdir()} <= {"added", "indexes", "cache"}
            assert {path.name for path in folder.iterdir()} == {"home", "private.md", "token"}
        with tally.attempt("nothing run"):
            assert not ran.exists()
        yield tally
        yield _shown(server)


def _shown(server: Server) -> Tally:
    """Check what clients get: every document as JSON, without files of this machine."""
    tally = Tally("documents of hostile uploads")
    listed = server.get("/v1/documents").json()["data"]
    for one in listed:
        with tally.attempt(one["path"]):
            answer = server.get(f"/v1/document?{httpx.QueryParams(document=one['document'])}")
            assert answer.status_code == 200
            assert answer.headers["content-type"] == "application/json"
            assert answer.headers["x-content-type-options"] == "nosniff"
            assert "script-src 'self'" in answer.headers["content-security-policy"]
            text = answer.json()["text"]
            assert "root:" not in text
            assert "must not be read" not in text
    for name in ("../private.md", "/etc/passwd", "..\\private.md", "added/../../private.md"):
        with tally.attempt(f"why, read and remove {name}"):
            why = server.get(f"/v1/why?{httpx.QueryParams(file=name)}").text
            assert str(Path.cwd()) not in why
            assert "must not be read" not in why
            assert server.get(f"/v1/document?{httpx.QueryParams(document=name)}").status_code == 404
            removed = httpx.delete(f"{server.url}/v1/files?{httpx.QueryParams(name=name)}", headers=server.headers)
            assert removed.status_code == 404
    return tally


def _uploads(ran: Path, chance: random.Random) -> Iterator[tuple[str, bytes]]:
    """Yield names with contents, in any combination; the names that are refused come first."""
    yield from ((name, b"# Kettle\n") for name in REFUSED_NAMES)
    contents = _contents(ran)
    while True:
        suffix, content = chance.choice(contents)
        yield chance.choice(NAMES).format(f"{chance.randrange(40)}{suffix}"), content


def _contents(ran: Path) -> list[tuple[str, bytes]]:
    """Return contents with their suffix; some would make the file `ran` if they were run."""
    act, drawing = f"__import__('pathlib').Path({str(ran)!r}).touch()", 'xmlns="http://www.w3.org/2000/svg"'
    notebook = {"cells": [{"cell_type": "code", "source": [act], "outputs": [], "metadata": {}}], "nbformat": 4}
    texts = {
        ".md": f"# Kettle {SCRIPT}\n\nIt is red. {INJECTION} {ESCAPE}\n\n[x](javascript:x) ![x](file:///etc/passwd)\n",
        ".html": f"<title>{SCRIPT}</title><meta http-equiv=refresh content='0;url=file:///etc'><p>Kettle {SCRIPT}",
        ".svg": f"<svg {drawing} onload='alert(1)'><script>alert(1)</script><foreignObject>{SCRIPT}</foreignObject>"
        "<text>kettle</text><image href='file:///etc/passwd'/></svg>",
        ".py": f"{act}\n",
        ".sh": f"touch {ran}\n",
        ".js": f"require('fs').writeFileSync({str(ran)!r}, '')\n",
        ".tex": f"\\immediate\\write18{{touch {ran}}}\\input{{/etc/passwd}} The kettle hums.\n",
        ".rst": "Kettle\n======\n\n.. include:: /etc/passwd\n.. raw:: html\n   :file: /etc/passwd\n",
        ".org": "#+INCLUDE: /etc/passwd\n* Kettle\n",
        ".csv": f"kettle,=cmd|'/C touch {ran}'!A0\n1,=HYPERLINK(\"http://x\")\n",
        ".ipynb": json.dumps({**notebook, "metadata": {}, "nbformat_minor": 5}),
        ".eml": f"Subject: Kettle {SCRIPT}\nContent-Type: text/html\n\n{SCRIPT}<p>kettle</p>\n",
        ".jsonl": '{"_id": "../../x", "text": "kettle", "title": "<script>"}\n',
        ".txt": "kettle " * 100_000,
        ".rtf": "{\\rtf1 " + "{" * 5_000,
    }
    made = [(suffix, text.encode("utf-8", "surrogatepass")) for suffix, text in texts.items()]
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        archive.writestr("../../RAN", "x")
        archive.writestr("/etc/cron.d/x", "x")
    entity = word('<!DOCTYPE d [<!ENTITY x SYSTEM "file:///etc/passwd">]>', "&x;")
    binary = [
        (".docx", entity),
        (".docx", word("", "", bomb=True)),
        (".pdf", b"%PDF-1.7\n1 0 obj<</Launch(x)>>"),
        (".xlsx", b"\0"),
    ]
    return [*made, *binary, *((suffix, packed.getvalue()) for suffix in (".docx", ".epub", ".odt", ".xlsx", ".pptx"))]


def _post(server: Server, name: str, content: bytes, kind: str = "application/octet-stream") -> httpx.Response:
    query = httpx.QueryParams(name=name.encode("utf-8", "replace").decode())
    headers = {**server.headers, "Content-Type": kind}
    return httpx.post(f"{server.url}/v1/files?{query}", content=content, headers=headers, timeout=60)


def _add(server: Server, name: str, content: bytes) -> None:
    """Add a file; it is stored under a plain name, or refused."""
    answer = _post(server, name, content)
    if name in REFUSED_NAMES:
        assert answer.status_code == 415, answer.text
        return
    assert answer.status_code == 201, answer.text
    stored = answer.json()["name"]
    assert not set(stored) & set("/\\\0\n<>|;`$'\"")
    assert not stored.startswith(".")
    assert len(stored.encode()) < 200


def _wait_for_build(server: Server) -> None:
    ends = time.monotonic() + BUILD_SECONDS
    while (state := server.get("/v1/build").json())["state"] == "building":
        assert time.monotonic() < ends, state
        time.sleep(1)
    assert state["state"] == "idle", state
