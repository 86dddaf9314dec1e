"""Watching a folder. Each test makes real changes and waits until the watch reports them."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import ROOT
from tests.patience import PATIENCE
from tests.retrieval.conftest import write
from tests.retrieval.watching import watching
from turnmark.core.errors import RequestError
from turnmark.retrieval.index import folder_watch as watch_module
from turnmark.retrieval.index import source_reading
from turnmark.retrieval.index.build import BuildReport, build_index
from turnmark.retrieval.index.components import remove_index, verify_index
from turnmark.retrieval.index.folder_watch import FolderWatch, check_watch, describe_changes
from turnmark.retrieval.search.opened_index import list_indexes, open_index
from turnmark.retrieval.storage.passage_store import rows_file

NOTES = {"kettle": "# Kettle\n\nThe kettle is red.\n", "toaster": "# Toaster\n\nThe toaster is blue.\n"}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("TURNMARK_HOME", str(tmp_path / "home"))
    folder = write(tmp_path / "notes", **NOTES)
    build_index(folder, "n", retriever="bm25", exclude=["drafts/**"])
    return folder


def texts() -> dict[str, str]:
    """Return the text of each document of the index on disk."""
    rows: dict[str, str] = {}
    for page in open_index("n").store.pages():
        for _, _, passage in page:
            rows[passage.document] = rows.get(passage.document, "") + passage.text
    return rows


def test_indexes_all_kinds_of_changes(folder):
    with watching("n") as heard:
        (folder / "kettle.md").write_text("# Kettle\n\nThe kettle is green.\n", encoding="utf-8")
        heard.wait_for("n: indexed 1 changed file in ")
        assert "green" in texts()["kettle.md"]
        (folder / "new" / "deep").mkdir(parents=True)
        (folder / "new" / "deep" / "radio.md").write_text("# Radio\n\nThe radio is loud.\n", encoding="utf-8")
        heard.wait_for("n: indexed 1 changed file in ")
        assert "new/deep/radio.md" in texts()
        (folder / "new").rename(folder / "old")
        heard.wait_for("n: indexed 1 changed file, 1 document removed in ")
        assert "old/deep/radio.md" in texts()
        assert "new/deep/radio.md" not in texts()
        (folder / "toaster.md").unlink()
        heard.wait_for("n: 1 document removed in ")
        assert "toaster.md" not in texts()
        (folder / ".gitignore").write_text("old/\n", encoding="utf-8")
        heard.wait_for("n: 1 document removed in ")
        assert texts().keys() == {"kettle.md"}
        shutil.rmtree(folder / "old")
        (folder / ".gitignore").unlink()
        (folder / "drafts").mkdir()
        (folder / "drafts" / "a.md").write_text("# Draft\n\nNobody reads it.\n", encoding="utf-8")
        (folder / "last.md").write_text("# Last\n\nThis is the last one.\n", encoding="utf-8")
        heard.wait_for("n: indexed 1 changed file in ")
        assert texts().keys() == {"kettle.md", "last.md"}
    assert verify_index(open_index("n")) == []


def test_burst_of_changes_is_one_build(folder):
    before = open_index("n").manifest.revision
    with watching("n") as heard:
        (folder / "kettle.md").write_text("# Kettle\n\nThe kettle is black.\n", encoding="utf-8")
        heard.wait_for("indexed 1 changed file")  # the watch has begun
        for number in range(50):
            (folder / f"note{number}.md").write_text(f"# Note {number}\n\nNote number {number}.\n", encoding="utf-8")
        heard.wait_for("n: indexed 50 changed files in ")
    assert open_index("n").manifest.revision == before + 2
    assert len(texts()) == 52


def test_reports_a_failing_file_once_and_retries_it_on_change(folder):
    with watching("n") as heard:
        (folder / "bad.md").write_bytes(b"# Bad\n\n\x00\x01\xff\n")
        heard.wait_for("n: skipped bad.md")
        (folder / "kettle.md").write_text("# Kettle\n\nThe kettle is pink.\n", encoding="utf-8")
        heard.wait_for("n: indexed 1 changed file in ")
        (folder / "bad.md").write_text("# Bad\n\nNow it is good.\n", encoding="utf-8")
        heard.wait_for("n: indexed 1 changed file in ")
    assert sum("skipped" in line for line in heard.all) == 1
    assert "good" in texts()["bad.md"]


@pytest.mark.skipif(sys.platform == "darwin", reason="every name of a file is UTF-8 there")
def test_watch_survives_a_name_that_is_not_utf8(folder):
    with watching("n") as heard:
        (folder / "kettle.md").write_text("# Kettle\n\nThe kettle is pink.\n", encoding="utf-8")
        heard.wait_for("n: indexed 1 changed file in ")  # the watch has begun
        Path(os.fsdecode(os.fsencode(folder) + b"/\xff.md")).write_text("Lamps are green.\n", encoding="utf-8")
        heard.wait_for("the file's name is not valid UTF-8; rename it")
        (folder / "kettle.md").write_text("# Kettle\n\nThe kettle is green.\n", encoding="utf-8")
        heard.wait_for("n: indexed 1 changed file in ")
    assert "green" in texts()["kettle.md"]


def test_watch_survives_an_unreadable_folder(folder):
    """Root can open the folder anyway; for any other user the watch must continue."""
    (folder / "locked").mkdir(mode=0)
    with watching("n") as heard:
        (folder / "kettle.md").write_text("# Kettle\n\nThe kettle is green.\n", encoding="utf-8")
        heard.wait_for("n: indexed 1 changed file in ")
    assert "green" in texts()["kettle.md"]


def test_removed_index_stays_removed(folder):
    with watching("n") as heard:
        (folder / "kettle.md").write_text("# Kettle\n\nThe kettle is pink.\n", encoding="utf-8")
        heard.wait_for("n: indexed 1 changed file in ")  # the watch has begun
        remove_index("n")
        (folder / "kettle.md").write_text("# Kettle\n\nThe kettle is green.\n", encoding="utf-8")
        heard.wait_for("n: the index was removed or built from another folder")
    assert list_indexes() == []


def test_uses_the_settings_of_the_latest_build(folder):
    with watching("n") as heard:
        (folder / "kettle.md").write_text("# Kettle\n\nThe kettle is pink.\n", encoding="utf-8")
        heard.wait_for("n: indexed 1 changed file in ")  # the watch has begun
        build_index(folder, "n", retriever="bm25?k1=1.5", exclude=["toaster.md"])
        (folder / "kettle.md").write_text("# Kettle\n\nThe kettle is green.\n", encoding="utf-8")
        heard.wait_for("n: indexed 1 changed file in ")
    assert set(texts()) == {"kettle.md"}
    assert open_index("n").manifest.bm25.k1 == 1.5


def test_reports_and_retries_a_failed_build(folder):
    with watching("n") as heard:
        kept = {path: path.read_text("utf-8") for path in folder.glob("*.md")}
        for path in kept:
            path.unlink()
        heard.wait_for("n: the build failed and is retried on the next change: there is nothing to index")
        assert texts().keys() == {"kettle.md", "toaster.md"}
        (folder / "kettle.md").write_text("# Kettle\n\nThe kettle is back.\n", encoding="utf-8")
        heard.wait_for("n: indexed 1 changed file, 1 document removed in ")
    assert "back" in texts()["kettle.md"]


def test_retries_a_failed_build_without_a_change(folder, monkeypatch):
    monkeypatch.setattr(watch_module, "RETRY_SECONDS", 0.0)
    real, failures = watch_module.build_again, [OSError("the disk is full")]

    def build(*arguments: object) -> BuildReport:
        if failures:
            raise failures.pop()
        return real(*arguments)

    monkeypatch.setattr(watch_module, "build_again", build)
    (folder / "kettle.md").write_text("# Kettle\n\nThe kettle is tin.\n", encoding="utf-8")
    with watching("n") as heard:
        heard.wait_for("retried on the next change: OSError: the disk is full")
        heard.wait_for("n: indexed 1 changed file in ")
    assert "tin" in texts()["kettle.md"]


@pytest.mark.parametrize("gone", ["deleted", "replaced"])
def test_watches_a_restored_folder_again(folder, gone):
    with watching("n") as heard:
        (folder / "kettle.md").write_text("# Kettle\n\nThe kettle is grey.\n", encoding="utf-8")
        heard.wait_for("indexed 1 changed file")  # the watch has begun
        shutil.rmtree(folder)
        if gone != "replaced":
            heard.wait_for(
                f"n: {folder} is missing; the index is kept, and the folder is watched again when it is back"
            )
        write(folder, kettle="# Kettle\n\nThe kettle is new.\n", toaster=NOTES["toaster"])
        heard.wait_for(f"n: {folder} is back")
        heard.wait_for("n: indexed 1 changed file in ")
        assert "new" in texts()["kettle.md"]
        (folder / "radio.md").write_text("# Radio\n\nThe radio is loud.\n", encoding="utf-8")
        heard.wait_for("n: indexed 1 changed file in ")
    assert texts().keys() == {"kettle.md", "toaster.md", "radio.md"}
    assert sum("is missing" in line for line in heard.all) <= 1
    assert not any("removed" in line or "the build failed" in line for line in heard.all)


def test_folder_removed_during_a_build_loses_no_passage(folder, monkeypatch):
    real, away, left = source_reading.read_file, folder.with_name("elsewhere"), list[Path]()

    def read(path, relative, *more, **named):
        if "lilac" in path.read_text("utf-8") and not left:
            left.append(folder.rename(away))
        return real(path, relative, *more, **named)

    with watching("n") as heard:
        write(folder, kettle="# Kettle\n\nThe kettle is grey.\n")
        heard.wait_for("indexed 1 changed file")
        before = open_index("n").manifest.revision
        monkeypatch.setattr(source_reading, "read_file", read)
        write(folder, kettle="# Kettle\n\nThe kettle is lilac.\n")
        heard.wait_for("is missing")
        assert open_index("n").manifest.revision == before
        assert texts().keys() == {"kettle.md", "toaster.md"}
        assert "grey" in texts()["kettle.md"]
        away.rename(folder)
        heard.wait_for("n: indexed 1 changed file in ")
    assert "lilac" in texts()["kettle.md"]


@pytest.mark.parametrize(
    ("path", "concerns"),
    [
        ("kettle.md", True), ("deep/gone.pdf", True), ("deep", True), (".gitignore", True), ("deep/.gitignore", True),
        (".git/HEAD", False), (".kettle.md.swp", False), ("node_modules/a.md", False), ("../other.md", False),
        ("image.png", False), ("gone.png", True), ("home/indexes/a.md", False),
    ],
)  # fmt: skip
def test_ignores_changes_of_unreadable_files_and_of_the_home(folder, monkeypatch, path, concerns):
    (folder / "image.png").write_bytes(b"x")
    watch = FolderWatch(open_index("n").manifest, print)
    monkeypatch.setenv("TURNMARK_HOME", str(folder / "home"))
    assert watch._concerns(folder / path) is concerns


@pytest.mark.parametrize(
    ("changed", "gone", "expected"),
    [
        (1, 0, "indexed 1 changed file in 1.3 s"), (2, 0, "indexed 2 changed files in 1.3 s"),
        (0, 2, "2 documents removed in 1.3 s"), (2, 1, "indexed 2 changed files, 1 document removed in 1.3 s"),
    ],
)  # fmt: skip
def test_describes_the_changes_of_a_build(changed, gone, expected):
    assert describe_changes(BuildReport("n", changed=changed, gone=gone, seconds=1.31)) == expected


def test_refuses_to_watch_a_file(folder, turnmark):
    with pytest.raises(RequestError, match=r"--watch: .*kettle\.md is not a folder"):
        check_watch(folder / "kettle.md")
    ran = turnmark("index", "build", str(folder / "kettle.md"), "--name", "one", "--watch", "--retriever", "nope")
    assert ran.code == 2
    assert "is not a folder" in ran.err
    assert "nope" in ran.err
    build_index(folder / "kettle.md", "one", retriever="bm25")
    assert "is not a folder" in turnmark("serve", "--index", "one", "--watch").err
    assert "is not a folder" in turnmark("chat", "--index", "one", "--index", "n", "--watch", stdin="").err


# --- a process of its own --------------------------------------------------------------------------------------------


def started(folder: Path, first: str = "") -> subprocess.Popen[str]:
    program = f"{first}\nfrom turnmark.cli import main; main()"
    return subprocess.Popen(
        [sys.executable, "-c", program, "index", "build", str(folder), "--name", "n", "--retriever", "bm25", "--watch"],
        cwd=ROOT, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env=os.environ.copy(),
    )  # fmt: skip


def line_with(process: subprocess.Popen[str], text: str) -> str:
    """Return the next line of a process that contains a text; pytest's timeout is the deadline."""
    assert process.stdout is not None
    seen = []
    for line in process.stdout:
        seen.append(line)
        if text in line:
            return line
    pytest.fail(f"it ended without {text!r}: {''.join(seen)}")


@pytest.mark.server
def test_ctrl_c_stops_the_watch_cleanly(folder):
    process = started(folder)
    line_with(process, "watching")
    (folder / "kettle.md").write_text("# Kettle\n\nThe kettle is gold.\n", encoding="utf-8")
    line_with(process, "n: indexed 1 changed file in ")
    process.send_signal(signal.SIGINT)
    rest, _ = process.communicate(timeout=PATIENCE)
    assert (process.returncode, "Traceback" in rest) == (0, False)
    assert "gold" in texts()["kettle.md"]


@pytest.mark.server
def test_killed_build_loses_nothing(folder):
    # The first build of the watch says "half" when its files are half written, and waits there to be killed.
    first = (
        "import time\n"
        "from turnmark.retrieval.index.generation import Generation\n"
        "real = Generation.add_manifest\n"
        "def half(place, manifest):\n"
        "    if manifest.revision > 1: print('half', flush=True); time.sleep(600)\n"
        "    real(place, manifest)\n"
        "Generation.add_manifest = half\n"
    )
    process = started(folder, first)
    line_with(process, "watching")
    (folder / "kettle.md").write_text("# Kettle\n\nThe kettle is of glass.\n", encoding="utf-8")
    (folder / "radio.md").write_text("# Radio\n\nThe radio is loud.\n", encoding="utf-8")
    line_with(process, "half")
    process.kill()
    process.communicate(timeout=PATIENCE)
    index = open_index("n")
    assert (index.files / rows_file(2)).is_file()
    assert index.manifest.revision == 1
    assert "red" in texts()["kettle.md"]
    assert [row for row, _ in index.bm25.top("kettle", 1)] == [0]
    with watching("n") as heard:
        heard.wait_for("n: indexed 2 changed files in ")
    assert "of glass" in texts()["kettle.md"]
    assert "radio.md" in texts()
    assert verify_index(open_index("n")) == []


@pytest.fixture
def read(folder: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Build an index of files that count as settled; return the list of files that are read from then on."""
    monkeypatch.setattr(source_reading, "SETTLED_NS", 0)
    build_index(folder, "n", retriever="bm25", verify=True)
    paths: list[str] = []
    real = source_reading.read_file
    monkeypatch.setattr(source_reading, "read_file", lambda path, relative, *more, **named: (
        paths.append(relative), *real(path, relative, *more, **named))[1:])  # fmt: skip
    return paths


def test_does_not_read_unchanged_files_again(folder, read, monkeypatch):
    assert build_index(folder, "n", retriever="bm25").unchanged
    (folder / "kettle.md").write_text("# Kettle\n\nThe kettle is old.\n", encoding="utf-8")
    report = build_index(folder, "n", retriever="bm25")
    assert read == ["kettle.md"]
    assert (report.changed, report.gone, report.documents) == (1, 0, 2)
    assert "blue" in texts()["toaster.md"]
    # A file that was just written may be written again within the same tick of the clock.
    monkeypatch.setattr(source_reading, "SETTLED_NS", 10**12)
    (folder / "kettle.md").write_text("# Kettle\n\nThe kettle is new.\n", encoding="utf-8")
    for _ in range(2):
        build_index(folder, "n", retriever="bm25")
    assert read == ["kettle.md"] * 3


def test_verify_reads_every_file(folder, read):
    assert build_index(folder, "n", retriever="bm25", verify=True).unchanged
    assert read == ["kettle.md", "toaster.md"]


def test_reads_a_file_with_another_text_of_the_same_size_and_time(folder, read):
    """Such a file is a backup that was restored, or a copy with the time of its original."""
    status = (folder / "kettle.md").stat()
    backup = folder.parent / "backup"
    backup.write_text("# Kettle\n\nThe kettle is wet.\n", encoding="utf-8")
    os.utime(backup, ns=(status.st_atime_ns, status.st_mtime_ns))
    backup.rename(folder / "kettle.md")
    assert build_index(folder, "n", retriever="bm25").changed == 1
    assert "wet" in texts()["kettle.md"]
    assert read == ["kettle.md"]


def test_files_in_a_folder_that_cannot_be_opened_stay(folder, monkeypatch):
    write(folder / "locked", safe="# Safe\n\nThe code is 7781.\n")
    build_index(folder, "n", retriever="bm25")
    real = os.scandir

    def refusing(path):
        if Path(path).name == "locked":
            raise PermissionError(13, "Permission denied")
        return real(path)

    monkeypatch.setattr(os, "scandir", refusing)
    (folder / "kettle.md").unlink()
    report = build_index(folder, "n", retriever="bm25")
    assert texts().keys() == {"locked/safe.md", "toaster.md"}
    assert [str(problem) for problem in report.problems] == ["locked: the folder cannot be opened (Permission denied)"]
    monkeypatch.undo()


@pytest.mark.parametrize("name", ["chunking.py", "readers/pandoc.lua"])
def test_reads_files_again_after_a_change_of_the_readers(tmp_path, monkeypatch, name):
    from turnmark.corpora.readers import fingerprint

    here = Path(fingerprint.__file__).parents[1]
    copied = shutil.copytree(here, tmp_path / "corpora", ignore=shutil.ignore_patterns("demo", "__pycache__"))
    monkeypatch.setattr(fingerprint, "__file__", str(copied / "readers/fingerprint.py"))
    before = fingerprint.readers_mark.__wrapped__()
    assert fingerprint.readers_mark.__wrapped__() == before
    (copied / name).write_text((copied / name).read_text("utf-8") + "\n", encoding="utf-8")
    assert fingerprint.readers_mark.__wrapped__() != before
