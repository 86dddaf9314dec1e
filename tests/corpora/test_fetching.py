"""Fetching: complete and checked or not there, gone on with after a cut, and every way a host can misbehave."""

from __future__ import annotations

import hashlib
import json
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from filelock import FileLock

from tests.conftest import DEMO
from tests.corpora.hosting import COMMIT, Handler, Hosting, blob
from tests.corpora.packing import MTRAG, TASKS, demo_files
from turnmark.corpora import kiwi, mtrag
from turnmark.corpora.catalog import CATALOG
from turnmark.corpora.downloading import Downloads, Limits, RemoteFile
from turnmark.corpora.errors import RequestError, TurnmarkError
from turnmark.corpora.fetching import MANIFEST, Fetched, fetch, folder_of, manifest_of
from turnmark.corpora.home import home

KIWI = CATALOG["kiwi"]
NAME = "IBM/mt-rag-benchmark"
QUICK = Limits(attempts=3, pause=0.0, connect=5.0, silence=2.0)


def demo(folder: str) -> dict[str, bytes]:
    """The demo split as a repository, with a file that nobody wants."""
    return demo_files(folder) | {"scripts/setup.py": b"raise SystemExit", "README.md": b"# hello"}


@pytest.fixture
def host() -> Iterator[Hosting]:
    with Hosting({NAME: demo("mt-rag-benchmark")}) as hosting:
        yield hosting


def fetched(host: Hosting, revision: str | None = None, limits: Limits = QUICK) -> Fetched:
    return fetch(MTRAG, revision, hosts=host.hosts, limits=limits, loopback=True)


def staged() -> Path:
    return folder_of(MTRAG).with_name(f".{MTRAG.folder}.part")


def nothing_is_there() -> bool:
    return not folder_of(MTRAG).exists() and not (staged() / TASKS).exists() and manifest_of(MTRAG) is None


def test_what_is_wanted_arrives_and_the_manifest_pins_commit_and_checksums(host):
    outcome = fetched(host)
    assert (outcome.new, outcome.folder) == (True, home() / "data" / "mt-rag-benchmark")
    paths = {path.relative_to(outcome.folder).as_posix() for path in outcome.folder.rglob("*") if path.is_file()}
    files = demo("mt-rag-benchmark")
    assert paths == set(files) - {"scripts/setup.py", "README.md"} | {MANIFEST}
    assert all((outcome.folder / name).read_bytes() == files[name] for name in paths - {MANIFEST})
    assert len(mtrag.load_tasks(mtrag.locate(outcome.folder).root, "mtrag").data) == 67
    assert not staged().exists()

    manifest = outcome.manifest
    assert [(origin.where, origin.commit) for origin in manifest.origins] == [(f"github {NAME}", COMMIT)]
    tasks = next(file for file in manifest.files if file.path == TASKS)
    assert tasks.sha256 == hashlib.sha256(files[TASKS]).hexdigest()
    assert tasks.announced == f"git:{blob(files[TASKS])}"
    assert (tasks.size, COMMIT in tasks.url) == (len(files[TASKS]), True)
    assert any("relevance labels: 2 of 4" in note for note in manifest.notes)
    assert json.loads((folder_of(MTRAG) / MANIFEST).read_text()) == manifest.model_dump(mode="json")


def test_a_second_fetch_asks_for_nothing(host):
    fetched(host)
    before = len(host.asked())
    again = fetched(host)
    assert (again.new, again.mended, len(host.asked())) == (False, (), before)
    assert fetched(host, COMMIT).new is False
    with pytest.raises(RequestError, match="holds commit 0123"):
        fetched(host, "v2")


def test_what_was_changed_or_lost_is_mended_and_the_change_kept(host):
    folder = fetched(host).folder
    (folder / TASKS).write_text("mine")
    (folder / "mtrag-synthetic/generation_tasks/synthetic.jsonl").unlink()
    again = fetched(host)
    assert set(again.mended) == {TASKS, "mtrag-synthetic/generation_tasks/synthetic.jsonl"}
    assert (folder / TASKS).read_bytes() == demo("mt-rag-benchmark")[TASKS]
    assert (folder / f"{TASKS}.before").read_text() == "mine"
    assert fetched(host).mended == ()


def test_a_host_that_now_sends_something_else_cannot_mend(host):
    folder = fetched(host).folder
    (folder / TASKS).write_text("mine")
    host.twists[TASKS] = lambda handler, content: handler.plainly(b"x" * len(content))
    digest = hashlib.sha256(demo(MTRAG.folder)[TASKS]).hexdigest()
    with pytest.raises(TurnmarkError, match=f"checksum is not sha256:{digest}"):
        fetched(host)
    assert (folder / TASKS).read_text() == "mine"


@pytest.mark.parametrize("ranges", [True, False])
def test_a_cut_body_is_gone_on_with_or_begun_anew_where_a_host_has_no_ranges(host, ranges):
    def cut(handler: Handler, content: bytes) -> None:
        if not handler.headers.get("Range"):
            handler.send(200, content[:500], length=len(content))
        elif ranges:
            handler.plainly(content)
        else:
            handler.send(200, content)

    host.twists[TASKS] = cut
    assert (fetched(host).folder / TASKS).read_bytes() == demo(MTRAG.folder)[TASKS]
    assert [span for _, span in host.asked(f"/{TASKS}")] == [None, "bytes=500-"]


def test_a_later_command_goes_on_where_the_first_one_ended(host):
    def always_cut(handler: Handler, content: bytes) -> None:
        handler.send(200, content[:1000], length=len(content))

    host.twists[TASKS] = always_cut
    once = QUICK.model_copy(update={"attempts": 1})
    with pytest.raises(TurnmarkError, match="what has arrived is kept") as caught:
        fetched(host, limits=once)
    assert caught.value.exit_code == 1
    assert (staged() / f"{TASKS}.part").stat().st_size == 1000
    assert nothing_is_there()
    del host.twists[TASKS]
    # The branch has moved on meanwhile: what was begun is finished at its own commit.
    host.pages[f"/repos/{NAME}/commits/main"] = (200, b"f" * 40)
    before = len(host.asked())
    assert fetched(host).manifest.origins[0].commit == COMMIT
    later = host.asked()[before:]
    assert not [path for path, _ in later if path.startswith("/repos/")]
    assert [span for path, span in later if path.endswith(TASKS)] == ["bytes=1000-"]


@pytest.mark.parametrize("answer", ["416", "other range", "changed"])
def test_a_part_that_does_not_fit_is_begun_anew(host, answer):
    def twist(handler: Handler, content: bytes) -> None:
        if not handler.headers.get("Range"):
            handler.plainly(content)
        elif answer == "416":
            handler.send(416)
        elif answer == "other range":
            handler.send(206, content, Content_Range=f"bytes 0-{len(content) - 1}/{len(content)}")
        else:
            handler.plainly(content[:-9] + b"something")

    host.twists[TASKS] = lambda handler, content: handler.send(200, content[:700], length=len(content))
    with pytest.raises(TurnmarkError):
        fetched(host, limits=QUICK.model_copy(update={"attempts": 1}))
    assert (staged() / f"{TASKS}.part").stat().st_size == 700
    host.twists[TASKS] = twist
    assert (fetched(host).folder / TASKS).read_bytes() == demo(MTRAG.folder)[TASKS]


def more(handler: Handler, content: bytes) -> None:
    """The whole, and then some, without a length."""
    handler.send_response(200)
    handler.send_header("Connection", "close")
    handler.end_headers()
    handler.wfile.write(content + b"\n" * 5000)
    handler.close_connection = True


def in_circles(handler: Handler, content: bytes) -> None:
    handler.send(302, Location=handler.path)


@pytest.mark.parametrize(
    ("twist", "message"),
    [
        (more, "more came than the"),
        (lambda handler, content: handler.send(200, content + b"more"), "more came than the"),
        (lambda handler, content: handler.plainly(b"x" * len(content)), "the checksum is not git:"),
        (lambda handler, _: handler.send(403, X_RateLimit_Remaining="0"), "403: its limit for this"),
        (lambda handler, _: handler.send(404), "404: there is no such file"),
        (lambda handler, _: handler.send(302, Location="http://example.org/x"), "example.org/x, which is not https"),
        (lambda handler, _: handler.send(302, Location="file:///etc/passwd"), "which is not https"),
        (in_circles, "more than 5 redirects"),
    ],
)  # fmt: skip
def test_what_is_refused_is_refused_at_once_and_leaves_nothing(host, twist, message):
    host.twists[TASKS] = twist
    with pytest.raises(TurnmarkError, match=message):
        fetched(host)
    assert nothing_is_there()
    assert not (staged() / f"{TASKS}.part").exists()
    assert len(host.asked(f"/{TASKS}")) == (6 if twist is in_circles else 1)


@pytest.mark.parametrize("status", [429, 500, 503])
def test_a_busy_host_is_asked_again_and_given_up_where_it_stays_so(host, status):
    statuses = [status, status]

    def busy(handler: Handler, content: bytes) -> None:
        handler.send(statuses.pop(), Retry_After="0") if statuses else handler.plainly(content)

    host.twists[TASKS] = lambda handler, content: handler.send(status, Retry_After="0")
    with pytest.raises(TurnmarkError, match=rf"answered {status} \(tried 3 times\)"):
        fetched(host)
    assert len(host.asked(f"/{TASKS}")) == 3
    host.twists[TASKS] = busy
    assert fetched(host).new


def test_silence_ends(host):
    def silent(handler: Handler, content: bytes) -> None:
        handler.send_response(200)
        handler.send_header("Content-Length", str(len(content)))
        handler.end_headers()
        handler.wfile.flush()
        time.sleep(0.6)
        handler.close_connection = True

    host.twists[TASKS] = silent
    with pytest.raises(TurnmarkError, match="timed out"):
        fetched(host, limits=Limits(attempts=1, silence=0.2))


@pytest.mark.parametrize(
    "url", ["http://example.org/x", "ftp://localhost/x", "file:///etc/passwd", "http://10.0.0.1/x"]
)
def test_only_https_and_loopback_only_where_a_test_says_so(url, tmp_path):
    remote = RemoteFile(path="x", url=url, size=1, checksum="git:" + "0" * 40)
    for loopback in (False, True):
        with Downloads(QUICK, loopback) as web, pytest.raises(TurnmarkError, match="not https; refused"):
            web.file(remote, tmp_path / "x")
    with Hosting({NAME: demo(MTRAG.folder)}) as host, pytest.raises(TurnmarkError, match="not https; refused"):
        fetch(MTRAG, hosts=host.hosts, limits=QUICK)
    assert not host.asked()


def test_over_https_and_a_certificate_that_does_not_hold(tmp_path, monkeypatch):
    key, certificate, combined = (tmp_path / name for name in ("key.pem", "certificate.pem", "both.pem"))
    ran = subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-keyout",
         key, "-out", certificate, "-days", "2", "-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost"],
        capture_output=True, check=False,
    )  # fmt: skip
    assert ran.returncode == 0, ran.stderr
    combined.write_bytes(key.read_bytes() + certificate.read_bytes())
    monkeypatch.setenv("NO_PROXY", "localhost,127.0.0.1")
    with Hosting({NAME: demo(MTRAG.folder)}, certificate=combined) as host:
        with pytest.raises(TurnmarkError, match="certificate does not hold"):
            fetch(MTRAG, hosts=host.hosts, limits=QUICK)
        assert not host.asked()
        monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
        assert fetch(MTRAG, hosts=host.hosts, limits=QUICK).new


def tree(*rows: object, **more: object) -> tuple[int, bytes]:
    return 200, json.dumps({"tree": list(rows), **more}).encode()


ROW = {"path": TASKS, "mode": "100644", "type": "blob", "sha": "0" * 40, "size": 3}


@pytest.mark.parametrize(
    ("page", "message"),
    [
        ((200, b"<html>"), "not a reply that can be read"), ((200, b"[]"), "not a reply that can be read"),
        ((200, b"[" * 100_000), "not a reply that can be read"), (tree("x"), r"not a reply .*tree\.0"),
        (tree(ROW, truncated=True), "is cut"), (tree(ROW | {"size": -1}), r"not a reply .*tree\.0\.size"),
        (tree(ROW | {"path": 7}), r"not a reply .*tree\.0\.path"),
        (tree(ROW | {"sha": "zz"}), "neither sha256: nor git:"), (tree(ROW | {"size": 10**12}), "at most 64,000,000"),
        (tree(ROW | {"mode": "120000"}), "no MTRAG's tasks, no"), (tree(ROW), "no MTRAG's recorded queries, no"),
        (tree(ROW | {"path": f"../{TASKS}"}), "no MTRAG's tasks, no"),
        (tree(ROW | {"path": f"/{TASKS}"}), "no MTRAG's tasks, no .*layout has changed"),
        ((200, b" " * 20_000_001), "longer than"), ((401, b""), "answered 401"),
    ],
)  # fmt: skip
def test_a_listing_that_cannot_be_used(host, page, message):
    host.pages[f"/repos/{NAME}/git/trees/{COMMIT}"] = page
    with pytest.raises(TurnmarkError, match=message):
        fetched(host)
    assert not host.asked(f"/{TASKS}")


def test_a_revision_that_is_none(host):
    with pytest.raises(RequestError, match="has no revision 'v9'"):
        fetched(host, "v9")
    for bad in ("../x", "", "a b", "a/b", "-x", "x" * 101):
        with pytest.raises(RequestError, match="a branch, tag or commit"):
            fetched(host, bad)
    host.pages[f"/repos/{NAME}/commits/main"] = (200, b"not a commit")
    with pytest.raises(TurnmarkError, match="not a reply that can be read"):
        fetched(host)


def test_a_folder_that_is_not_ours_is_left_alone(host):
    folder_of(MTRAG).mkdir(parents=True)
    (folder_of(MTRAG) / "mine").write_text("mine")
    with pytest.raises(RequestError, match="was not fetched by Turnmark"):
        fetched(host)
    assert not host.asked()
    (folder_of(MTRAG) / MANIFEST).write_text("{}")
    with pytest.raises(TurnmarkError, match="cannot be read"):
        fetched(host)
    assert (folder_of(MTRAG) / "mine").read_text() == "mine"


def test_one_at_a_time(host):
    (home() / "data").mkdir(parents=True)
    with (
        FileLock(home() / "data" / ".mt-rag-benchmark.lock"),
        pytest.raises(TurnmarkError, match="another command is fetching it"),
    ):
        fetched(host)


def test_two_repositories_of_the_hub_and_the_large_file_by_its_sha256():
    files = demo("kiwi")
    sessions, papers = files["interaction_data_new.jsonl"], files["longform_sciqa.jsonl"]
    repositories = {
        "fangyuan/kiwi": {"interaction_data_new.jsonl": sessions},
        "fangyuan/longform_sciqa": {"train.jsonl": papers, "README.md": b""},
    }
    with Hosting(repositories, large=("interaction_data_new.jsonl",)) as host:
        host.twists["interaction_data_new.jsonl"] = lambda handler, content: handler.send(302, Location="/cdn/xyz")
        host.pages["/cdn/xyz"] = (200, sessions)
        outcome = fetch(KIWI, hosts=host.hosts, limits=QUICK, loopback=True)
    files_told = [(file.announced.partition(":")[0], file.path) for file in outcome.manifest.files]
    assert files_told == [("sha256", "interaction_data_new.jsonl"), ("git", "longform_sciqa/train.jsonl")]
    loaded = kiwi.load_sessions(kiwi.locate(outcome.folder).root)
    assert loaded.data == kiwi.load_sessions(DEMO / "kiwi").data
