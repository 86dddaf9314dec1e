"""Files are taken from unpacked Debian packages, and each is compared with its SHA-256."""

from __future__ import annotations

import gzip
import hashlib
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.conversations import packages
from turnmark.core.errors import TurnmarkError

PAGE, MANUAL = b"<img src='images/a.png'>", b"%PDF-1.4"


def sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


@pytest.fixture
def scratch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Put a package with a page, its picture and a compressed manual where downloads are unpacked."""
    if shutil.which("dpkg-deb") is None:
        pytest.skip("needs dpkg-deb")
    share = tmp_path / "package" / "usr" / "share" / "doc" / "demo"
    (share / "html" / "images").mkdir(parents=True)
    (share / "html" / "index.html").write_bytes(PAGE)
    (share / "html" / "images" / "a.png").write_bytes(b"png")
    (share / "manual.pdf.gz").write_bytes(gzip.compress(MANUAL))
    control = tmp_path / "package" / "DEBIAN" / "control"
    control.parent.mkdir()
    control.write_text("Package: demo\nVersion: 1\nArchitecture: all\nMaintainer: a <a@example.org>\nDescription: a\n")
    run = subprocess.run

    def downloaded(command: list[str], *, cwd: Path | None = None, check: bool) -> subprocess.CompletedProcess[bytes]:
        if command[0] == "apt-get":
            command = ["dpkg-deb", "--build", str(tmp_path / "package"), "demo.deb"]
        return run(command, cwd=cwd, check=check, stdout=subprocess.DEVNULL)

    monkeypatch.setattr(packages.subprocess, "run", downloaded)
    (tmp_path / "scratch").mkdir()
    return tmp_path / "scratch"


def test_keeps_the_folders_of_pictures_and_decompresses(scratch: Path) -> None:
    files = {
        "doc/demo/html/./index.html": sha256(PAGE),
        "doc/demo/html/./images/a.png": sha256(b"png"),
        "doc/demo/manual.pdf.gz": sha256(MANUAL),
    }
    folder = packages.take_files({"demo=1": files}, scratch)
    taken = {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    assert taken == {"index.html": PAGE, "images/a.png": b"png", "manual.pdf": MANUAL}


def test_refuses_a_file_that_differs(scratch: Path) -> None:
    with pytest.raises(TurnmarkError, match=r"manual\.pdf: SHA-256"):
        packages.take_files({"demo=1": {"doc/demo/manual.pdf.gz": sha256(PAGE)}}, scratch)
