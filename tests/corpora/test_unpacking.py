"""Archives of a repository: only plain files inside it, only the wanted ones, never more than was declared."""

from __future__ import annotations

import stat
import struct
import zipfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.corpora.archiving import COMMIT, MTRAG, TASKS, demo_files, packed
from turnmark.corpora import archives
from turnmark.corpora.archives import unpack
from turnmark.corpora.catalog import CATALOG
from turnmark.corpora.errors import RequestError
from turnmark.corpora.fetching import MANIFEST, fetch_archive, folder_of, manifest_of
from turnmark.corpora.home import home


def test_an_archive_from_github(tmp_path):
    files = demo_files()
    archive = packed(
        tmp_path / "main.zip", files | {"README.md": b"#", "scripts/x.py": b""}, "mt-rag-benchmark-main/", COMMIT
    )
    found = fetch_archive(MTRAG, archive)
    there = {path.relative_to(found.folder).as_posix() for path in found.folder.rglob("*") if path.is_file()}
    assert there == set(files) | {MANIFEST}
    assert (found.folder / TASKS).read_bytes() == files[TASKS]
    assert [(origin.where, origin.commit) for origin in found.manifest.origins] == [("main.zip", COMMIT)]
    assert {file.url for file in found.manifest.files} == {""}
    with pytest.raises(RequestError, match="is there already"):
        fetch_archive(MTRAG, archive)


def test_part_of_a_clone_without_a_folder_on_top_and_without_a_commit(tmp_path):
    files = {name: content for name, content in demo_files().items() if name.startswith("mtragun-human")}
    found = fetch_archive(MTRAG, packed(tmp_path / "x.zip", files, comment="hello"))
    assert found.manifest.origins[0].commit == ""
    assert any("MTRAG's tasks: 0 of 1" in note for note in found.manifest.notes)


def with_member(path: Path, name: str, kind: int = 0, files: dict[str, bytes] | None = None) -> Path:
    with zipfile.ZipFile(path, "w") as archive:
        for wanted, content in ({TASKS: b"{}"} if files is None else files).items():
            archive.writestr(wanted, content)
        member = zipfile.ZipInfo("replaced")
        member.filename = name
        member.external_attr = kind << 16
        archive.writestr(member, b"/etc/passwd")
    return path


@pytest.mark.filterwarnings("ignore:Duplicate name")
@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("../outside", 0), ("a/../../outside", 0), ("/etc/outside", 0), ("C:\\outside", 0), ("a\\..\\b", 0),
        ("mtrag-human/link", stat.S_IFLNK | 0o777), ("mtrag-human/device", stat.S_IFCHR | 0o600),
        ("mtrag-human/pipe", stat.S_IFIFO | 0o600), (TASKS, 0), ("./x", 0), ("a//b", 0), ("x" * 600, 0),
    ],
)  # fmt: skip
def test_one_member_that_is_not_plain_and_the_archive_is_refused(tmp_path, name, kind):
    archive = with_member(tmp_path / "x.zip", name, kind)
    with pytest.raises(RequestError, match="nothing of it was unpacked") as caught:
        fetch_archive(MTRAG, archive)
    assert any(
        "leads out" in line or "is a link" in line or "twice" in line or "is empty" in line
        for line in caught.value.problems
    )
    assert not folder_of(MTRAG).exists()
    assert manifest_of(MTRAG) is None
    assert [*tmp_path.rglob("outside"), *home().rglob("outside")] == []
    assert not list((home() / "data").glob(".*unpacked"))


def test_many_bad_members_are_named_up_to_twenty(tmp_path):
    archive = packed(tmp_path / "x.zip", {f"../{number}": b"" for number in range(30)})
    with pytest.raises(RequestError) as caught:
        fetch_archive(MTRAG, archive)
    assert len(caught.value.problems) == 22
    assert "10 more members" in caught.value.problems[20]


def test_a_bomb_is_refused_by_what_it_declares(tmp_path):
    archive = packed(tmp_path / "x.zip", {TASKS: b"\0" * 65_000_000})
    assert archive.stat().st_size < 100_000
    with pytest.raises(RequestError, match="would have 65,000,000 bytes; at most 64,000,000"):
        fetch_archive(MTRAG, archive)
    small = MTRAG.model_copy(update={"limit": 1_000_000})
    with pytest.raises(RequestError, match="bytes in all; at most 1,000,000"):
        unpack(packed(tmp_path / "y.zip", {TASKS: b"\0" * 2_000_000}), small, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_a_bomb_that_lies_about_its_size_writes_no_more_than_it_declares(tmp_path):
    archive = packed(tmp_path / "x.zip", {TASKS: b"\0" * 5_000_000})
    content = archive.read_bytes()
    lied = content.replace(struct.pack("<L", 5_000_000), struct.pack("<L", 10))
    assert lied != content
    archive.write_bytes(lied)
    with pytest.raises(RequestError, match="Bad CRC-32"):
        unpack(archive, MTRAG, tmp_path / "out")
    assert sum(path.stat().st_size for path in (tmp_path / "out").rglob("*") if path.is_file()) <= 10


def test_damage_and_what_is_no_archive(tmp_path):
    archive = packed(tmp_path / "x.zip", {TASKS: bytes(range(256)) * 400})
    content = bytearray(archive.read_bytes())
    at = content.index(TASKS.encode()) + len(TASKS) + 20
    content[at : at + 40] = b"\xff" * 40
    archive.write_bytes(content)
    with pytest.raises(RequestError, match="not a zip archive that can be read"):
        fetch_archive(MTRAG, archive)
    with pytest.raises(RequestError, match="not a zip archive that can be read"):
        archives.unzipped(archive, "reference.jsonl")
    # The directory's place, in the archive's last bytes, now lies so that its members begin before the file does.
    content = bytearray(packed(tmp_path / "w.zip", {TASKS: b"hello" * 50}).read_bytes())
    content[-6] = 255
    (tmp_path / "w.zip").write_bytes(content)
    with pytest.raises(RequestError, match="not a zip archive that can be read"):
        fetch_archive(MTRAG, tmp_path / "w.zip")
    (tmp_path / "y.zip").write_text("hello")
    for path, message in ((tmp_path / "y.zip", "not a zip archive"), (tmp_path, "is no file")):
        with pytest.raises(RequestError, match=message):
            fetch_archive(MTRAG, path)
    with pytest.raises(RequestError, match="holds no file of mtrag"):
        fetch_archive(MTRAG, packed(tmp_path / "z.zip", {"a": b""}))
    with pytest.raises(RequestError, match="put their files into one folder"):
        fetch_archive(CATALOG["kiwi"], archive)
    assert not folder_of(MTRAG).exists()


@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_no_damage_is_more_than_a_request_error(data, tmp_path_factory):
    folder = tmp_path_factory.mktemp("fuzz")
    archive = packed(folder / "x.zip", {TASKS: b"hello" * 50, "README.md": b"#"}, "top/")
    content = bytearray(archive.read_bytes())
    for _ in range(data.draw(st.integers(1, 4))):
        content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    archive.write_bytes(content)
    try:
        paths, _, _ = unpack(archive, MTRAG, folder / "out")
    except RequestError:
        return
    assert {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()} == {
        "x.zip",
        *(f"out/{path}" for path in paths),
    }
