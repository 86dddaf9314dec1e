"""A zip or tar file of a repository as `--data`: unpacked once, safely, and then a folder like any other."""

from __future__ import annotations

import io
import json
import tarfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.conftest import DEMO
from tests.corpora.archiving import COMMIT, MTRAG, TASKS, demo_files, packed
from turnmark.corpora import checking, compound_qa, inscoqa, kiwi, mtrag
from turnmark.corpora.archives import kind_of, unpack
from turnmark.corpora.catalog import CATALOG
from turnmark.corpora.errors import RequestError
from turnmark.corpora.home import home


def tarred(path: Path, files: dict[str, bytes], mode: str = "w:gz", top: str = "", comment: str = "") -> Path:
    with tarfile.open(
        path, mode, format=tarfile.PAX_FORMAT, pax_headers={"comment": comment} if comment else {}
    ) as archive:
        for name, content in files.items():
            member = tarfile.TarInfo(top + name)
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    return path


def with_kind(path: Path, kind: bytes, name: str = "mtrag-human/other") -> Path:
    with tarfile.open(path, "w:gz") as archive:
        member = tarfile.TarInfo(TASKS)
        member.size = 2
        archive.addfile(member, io.BytesIO(b"{}"))
        other = tarfile.TarInfo(name)
        other.type, other.linkname = kind, "/etc/passwd"
        archive.addfile(other)
    return path


@pytest.mark.parametrize("mode", ["w", "w:gz", "w:bz2", "w:xz"])
def test_a_tar_file_of_the_repository(tmp_path, mode):
    files = demo_files()
    archive = tarred(tmp_path / "main.tar", files | {"README.md": b"#"}, mode, "IBM-mt-rag-benchmark-0123456/", COMMIT)
    paths, commit, _ = unpack(archive, MTRAG, tmp_path / "out")
    assert (set(paths), commit) == (set(files), COMMIT)
    assert all((tmp_path / "out" / name).read_bytes() == content for name, content in files.items())


@pytest.mark.parametrize(
    ("kind", "name"),
    [
        (tarfile.SYMTYPE, "mtrag-human/link"), (tarfile.LNKTYPE, "mtrag-human/link"), (tarfile.CHRTYPE, "x"),
        (tarfile.FIFOTYPE, "x"), (tarfile.REGTYPE, "../outside"), (tarfile.REGTYPE, "/etc/outside"),
        (tarfile.DIRTYPE, "a/../../outside"), (tarfile.REGTYPE, TASKS),
    ],
)  # fmt: skip
def test_one_member_of_a_tar_file_that_is_not_plain_and_it_is_refused(tmp_path, kind, name):
    archive = with_kind(tmp_path / "x.tgz", kind, name)
    with pytest.raises(RequestError, match="nothing of it was unpacked"):
        mtrag.locate(archive)
    assert [*tmp_path.rglob("outside"), *home().rglob("outside")] == []
    assert [path for path in (home() / "cache").rglob("*") if path.is_file() and path.suffix != ".lock"] == []


def test_a_bomb_in_a_tar_file(tmp_path):
    with pytest.raises(RequestError, match="would have 65,000,000 bytes; at most 64,000,000"):
        unpack(tarred(tmp_path / "x.tgz", {TASKS: b"\0" * 65_000_000}), MTRAG, tmp_path / "out")
    assert not (tmp_path / "out").exists()


@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_no_damage_to_a_tar_file_is_more_than_a_request_error(data, tmp_path_factory):
    folder = tmp_path_factory.mktemp("fuzz")
    archive = tarred(
        folder / "x.tar", {TASKS: b"hello" * 50, "README.md": b"#"}, data.draw(st.sampled_from(["w", "w:gz"]))
    )
    content = bytearray(archive.read_bytes())
    for _ in range(data.draw(st.integers(1, 4))):
        content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    archive.write_bytes(content[: data.draw(st.integers(1, len(content)))])
    try:
        paths, _, _ = unpack(archive, MTRAG, folder / "out")
    except RequestError:
        return
    assert {
        path.relative_to(folder / "out").as_posix() for path in (folder / "out").rglob("*") if path.is_file()
    } == set(paths)


def test_an_archive_is_unpacked_once_and_then_a_folder(tmp_path, monkeypatch):
    archive = packed(tmp_path / "main.zip", demo_files() | {"scripts/x.py": b""}, "mt-rag-benchmark-main/")
    found = mtrag.locate(archive)
    assert (found.demo, found.name) == (False, "mt-rag-benchmark")
    assert found.root.is_relative_to(home() / "cache")
    assert mtrag.load_tasks(found.root, "mtrag").data == mtrag.load_tasks(mtrag.DEMO_ROOT, "mtrag").data
    assert not (found.root / "scripts").exists()
    monkeypatch.setattr("turnmark.corpora.archives.unpack", lambda *_: pytest.fail("unpacked again"))
    assert mtrag.locate(archive) == found


def test_an_archive_that_changed_is_another(tmp_path):
    archive = packed(tmp_path / "main.zip", demo_files())
    before = mtrag.locate(archive).root
    packed(archive, demo_files() | {TASKS: b""})
    after = mtrag.locate(archive).root
    assert before != after
    assert (before / TASKS).read_bytes()
    assert not (after / TASKS).read_bytes()


def test_what_a_file_has_to_be(tmp_path):
    (tmp_path / "x.json").write_text("{}")
    (tmp_path / "cut.tgz").write_bytes(tarred(tmp_path / "y.tgz", demo_files()).read_bytes()[:5000])
    there = packed(tmp_path / "z.zip", {"a": b""})
    for path, locate, message in (
        (tmp_path / "x.json", mtrag.locate, "--data: .* is neither a folder nor a zip or tar archive"),
        (tmp_path / "cut.tgz", mtrag.locate, "--data: .*cut.tgz: not a tar archive that can be read"),
        (there, mtrag.locate, "holds no file of mtrag; expected an archive of https://github.com/IBM/mt-rag-benchmark"),
        (there, compound_qa.locate, "holds no file of compound-qa"),
        (there, kiwi.locate, "--data: kiwi: it comes from .* and .*; put their files into one folder"),
        (there, inscoqa.locate, "--data: inscoqa: no public copy exists"),
    ):
        with pytest.raises(RequestError, match=message):
            locate(path)
    assert [kind_of(tmp_path / name) for name in ("x.json", "cut.tgz", "z.zip", "none")] == [None, "tar", "zip", None]


def test_data_check_of_an_archive(tmp_path, turnmark):
    archive = tarred(tmp_path / "main.tgz", demo_files(), top="mt-rag-benchmark-main/")
    ran = turnmark("data", "check", archive, "--json")
    assert ran.code == 0
    assert list(json.loads(ran.out)["benchmarks"]) == ["mtrag"]
    with pytest.raises(RequestError) as caught:
        checking.check(packed(tmp_path / "z.zip", {"a": b""}))
    assert [problem.partition(":")[0] for problem in caught.value.problems] == [
        "mtrag",
        "inscoqa",
        "compound-qa",
        "kiwi",
    ]


def test_another_benchmark_in_an_archive(tmp_path):
    root = DEMO / CATALOG["compound-qa"].folder
    files = {path.relative_to(root).as_posix(): path.read_bytes() for path in root.rglob("*.jsonl")}
    found = compound_qa.locate(packed(tmp_path / "x.zip", files, "Compound-QA-main/"))
    assert [file.path.name for file in compound_qa.files(found.root)] == [
        file.path.name for file in compound_qa.files(root)
    ]
