"""Archives of data: only plain files that a benchmark wants, never more than was declared, only into our folders."""

from __future__ import annotations

import stat
import struct
import tarfile
import zipfile

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.corpora.packing import COMMIT, MTRAG, TASKS, demo_files, files_below, tarred, zipped
from turnmark.corpora import archives, checking, compound_qa, inscoqa, kiwi, mtrag
from turnmark.corpora.archives import kind_of, unpack, unzipped
from turnmark.corpora.catalog import CATALOG
from turnmark.corpora.errors import RequestError
from turnmark.corpora.fetching import MANIFEST, fetch_archive, folder_of
from turnmark.corpora.home import home

ROW = b'{"_id": "a", "title": "", "text": "hello"}\n'


def test_an_archive_from_github_becomes_the_benchmarks_folder(tmp_path):
    files = demo_files()
    strangers = {"README.md": b"#", "scripts/x.py": b""}
    archive = zipped(tmp_path / "main.zip", files | strangers, "mt-rag-benchmark-main/", COMMIT)
    fetched = fetch_archive(MTRAG, archive)
    assert {**files_below(fetched.folder), MANIFEST: b""} == files | {MANIFEST: b""}
    assert [(origin.where, origin.commit) for origin in fetched.manifest.origins] == [("main.zip", COMMIT)]
    assert {file.url for file in fetched.manifest.files} == {""}
    with pytest.raises(RequestError, match="is there already"):
        fetch_archive(MTRAG, archive)


@pytest.mark.parametrize("mode", ["w", "w:gz", "w:bz2", "w:xz"])
def test_a_tar_file_of_the_repository(tmp_path, mode):
    archive = tarred(
        tmp_path / "main.tar", demo_files() | {"README.md": b"#"}, mode, "IBM-mt-rag-benchmark-0123456/", COMMIT
    )
    paths, commit, _ = unpack(archive, MTRAG, tmp_path / "out")
    assert (set(paths), commit) == (set(demo_files()), COMMIT)
    assert files_below(tmp_path / "out") == demo_files()


@pytest.mark.filterwarnings("ignore:Duplicate name")
@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("../outside", 0), ("a/../../outside", 0), ("/etc/outside", 0), ("C:\\outside", 0), (f"../{TASKS}", 0),
        ("mtragun-human/generation_tasks/reference.jsonl", stat.S_IFLNK | 0o777), ("LICENSE", stat.S_IFIFO | 0o600),
    ],
)  # fmt: skip
def test_what_leads_elsewhere_in_an_archive_is_not_unpacked(tmp_path, name, kind):
    path = zipped(tmp_path / "x.zip", {TASKS: b"{}"})
    with zipfile.ZipFile(path, "a") as archive:
        member = zipfile.ZipInfo(name)
        member.external_attr = kind << 16
        archive.writestr(member, b"/etc/passwd")
    unpack(path, MTRAG, tmp_path / "out")
    assert files_below(tmp_path / "out") == {TASKS: b"{}"}
    tar = tarred(tmp_path / "x.tgz", {TASKS: b"{}"}, "w")
    with tarfile.open(tar, "a") as opened:
        link = tarfile.TarInfo(name)
        link.type, link.linkname = tarfile.SYMTYPE if kind else tarfile.REGTYPE, "/etc/passwd"
        opened.addfile(link)
    root = mtrag.locate(tar).root
    assert files_below(root) == {TASKS: b"{}"}
    assert [*tmp_path.rglob("outside"), *home().rglob("outside")] == []


def test_a_bomb_is_refused_by_what_it_declares(tmp_path):
    for archive in (
        zipped(tmp_path / "x.zip", {TASKS: b"\0" * 65_000_000}),
        tarred(tmp_path / "x.tgz", {TASKS: b"\0" * 65_000_000}),
    ):
        with pytest.raises(RequestError, match="would have 65,000,000 bytes; at most 64,000,000"):
            unpack(archive, MTRAG, tmp_path / "out")
    small = MTRAG.model_copy(update={"limit": 1_000_000})
    with pytest.raises(RequestError, match="bytes in all; at most 1,000,000"):
        unpack(zipped(tmp_path / "y.zip", {TASKS: b"\0" * 2_000_000}), small, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_a_bomb_that_lies_about_its_size_writes_no_more_than_it_declares(tmp_path):
    archive = zipped(tmp_path / "x.zip", {TASKS: b"\0" * 5_000_000})
    content = archive.read_bytes()
    lying = content.replace(struct.pack("<L", 5_000_000), struct.pack("<L", 10))
    assert lying != content
    archive.write_bytes(lying)
    with pytest.raises(RequestError, match="Bad CRC-32"):
        unpack(archive, MTRAG, tmp_path / "out")
    assert sum(map(len, files_below(tmp_path / "out").values())) <= 10


def test_damage_and_what_is_no_archive(tmp_path):
    archive = zipped(tmp_path / "x.zip", {TASKS: bytes(range(256)) * 400})
    content = bytearray(archive.read_bytes())
    start = content.index(TASKS.encode()) + len(TASKS) + 20
    content[start : start + 40] = b"\xff" * 40
    archive.write_bytes(content)
    # The directory's place, in the archive's last bytes, now lies so that its members begin before the file does.
    content = bytearray(zipped(tmp_path / "w.zip", {TASKS: b"hello" * 50}).read_bytes())
    content[-6] = 255
    (tmp_path / "w.zip").write_bytes(content)
    (tmp_path / "y.zip").write_text("hello")
    empty = zipped(tmp_path / "z.zip", {"a": b""})
    for path, entry, message in (
        (archive, MTRAG, "not a zip archive that can be read"),
        (tmp_path / "w.zip", MTRAG, "not a zip archive that can be read"),
        (tmp_path / "y.zip", MTRAG, "not a zip archive"),
        (tmp_path, MTRAG, "is no file"),
        (empty, MTRAG, "holds no file of mtrag"),
        (archive, CATALOG["kiwi"], "put their files into one folder"),
    ):
        with pytest.raises(RequestError, match=message):
            fetch_archive(entry, path)
    with pytest.raises(RequestError, match="not a zip archive that can be read"):
        unzipped(archive, "reference.jsonl")
    assert not folder_of(MTRAG).exists()


@settings(max_examples=60, deadline=None)
@given(data=st.data(), kind=st.sampled_from(["zip", "w", "w:gz"]))
def test_no_damage_is_more_than_a_request_error(data, kind, tmp_path_factory):
    folder = tmp_path_factory.mktemp("fuzz")
    files = {TASKS: b"hello" * 50, "README.md": b"#"}
    archive = zipped(folder / "x", files, "top/") if kind == "zip" else tarred(folder / "x", files, kind)
    content = bytearray(archive.read_bytes())
    for _ in range(data.draw(st.integers(1, 4))):
        content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    archive.write_bytes(content[: data.draw(st.integers(1, len(content)))])
    try:
        paths, _, _ = unpack(archive, MTRAG, folder / "out")
    except RequestError:
        return
    assert set(files_below(folder)) == {"x", *(f"out/{path}" for path in paths)}


def test_an_archive_is_unpacked_once_and_then_a_folder(tmp_path, monkeypatch):
    archive = zipped(tmp_path / "main.zip", demo_files() | {"scripts/x.py": b""}, "mt-rag-benchmark-main/")
    source = mtrag.locate(archive)
    assert (source.demo, source.name) == (False, "mt-rag-benchmark")
    assert source.root.is_relative_to(home() / "cache")
    assert mtrag.load_tasks(source.root, "mtrag").data == mtrag.load_tasks(mtrag.DEMO_ROOT, "mtrag").data
    assert not (source.root / "scripts").exists()
    with monkeypatch.context() as patch:
        patch.setattr("turnmark.corpora.archives.unpack", lambda *_: pytest.fail("unpacked again"))
        assert mtrag.locate(archive) == source
    zipped(archive, demo_files() | {TASKS: b""})
    assert not (mtrag.locate(archive).root / TASKS).read_bytes()
    assert (source.root / TASKS).read_bytes()


def test_what_a_file_has_to_be(tmp_path):
    (tmp_path / "x.json").write_text("{}")
    (tmp_path / "cut.tgz").write_bytes(tarred(tmp_path / "y.tgz", demo_files()).read_bytes()[:5000])
    empty = zipped(tmp_path / "z.zip", {"a": b""})
    for path, locate, message in (
        (tmp_path / "x.json", mtrag.locate, "--data: .* is neither a folder nor a zip or tar archive"),
        (tmp_path / "cut.tgz", mtrag.locate, "--data: .*cut.tgz: not a tar archive that can be read"),
        (empty, mtrag.locate, "holds no file of mtrag; expected an archive of https://github.com/IBM/mt-rag-benchmark"),
        (empty, compound_qa.locate, "holds no file of compound-qa"),
        (empty, kiwi.locate, "--data: kiwi: it comes from .* and .*; put their files into one folder"),
        (empty, inscoqa.locate, "--data: inscoqa: no public copy exists"),
    ):
        with pytest.raises(RequestError, match=message):
            locate(path)
    assert [kind_of(tmp_path / name) for name in ("x.json", "cut.tgz", "z.zip", "none")] == [None, "tar", "zip", None]
    with pytest.raises(RequestError) as caught:
        checking.check(empty)
    named = [problem.partition(":")[0] for problem in caught.value.problems]
    assert named == ["mtrag", "inscoqa", "compound-qa", "kiwi"]


def test_a_zipped_corpus_is_unpacked_once(tmp_path):
    packed = tmp_path / "corpora/passage_level/govt.jsonl.zip"
    zipped(packed, {"govt.jsonl": ROW, "__MACOSX/._govt.jsonl": b"x"})
    path = mtrag.corpus_path(tmp_path, "govt")
    assert path.read_bytes() == ROW
    assert path.is_relative_to(home())
    path.write_bytes(b"mine")
    assert mtrag.corpus_path(tmp_path, "govt").read_bytes() == b"mine"
    zipped(packed, {"../../../outside/govt.jsonl": ROW * 2})
    assert mtrag.corpus_path(tmp_path, "govt").read_bytes() == ROW * 2
    assert not list(tmp_path.rglob("outside"))


def test_a_corpus_that_cannot_be_used_is_refused_with_its_reason(tmp_path, monkeypatch):
    two = zipped(tmp_path / "two.zip", {"a/govt.jsonl": ROW, "b/govt.jsonl": ROW})
    broken = tmp_path / "broken.zip"
    broken.write_bytes(two.read_bytes()[:40])
    monkeypatch.setattr(archives, "MAX_BYTES", 10)
    for path, message in (
        (two, r"expected one file 'govt\.jsonl' in it, found 2"),
        (broken, "not a zip archive that can be read"),
        (zipped(tmp_path / "big.zip", {"govt.jsonl": ROW}), "would unpack to"),
    ):
        with pytest.raises(RequestError, match=message):
            unzipped(path, "govt.jsonl")
    assert not list(home().rglob("*.jsonl"))
