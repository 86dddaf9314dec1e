"""Getting the one collection that no Debian package holds: a source archive from the package index, pinned."""

from __future__ import annotations

import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

from tests.conversations.collections import HATCH
from tests.conversations.places import work_folder
from turnmark.corpora.errors import TurnmarkError
from turnmark.corpora.home import file_sha256

SHA256 = "ca1aff788f8596b0dd1f8f8dfe776443d2724a86b1976fabaf087406ba3d0713"


def fetch_hatch() -> Path:
    """Download and unpack hatch's source archive, where it is not there yet; its folder.

    Raises:
        TurnmarkError: pip failed, or the archive is not the one that the labels rest on.
    """
    folder = work_folder() / "documents"
    if (folder / HATCH / "docs").is_dir():
        return folder / HATCH
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder) as scratch:
        command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--no-binary", ":all:"]
        try:
            subprocess.run([*command, "--dest", scratch, HATCH.replace("-", "==")], check=True)
        except subprocess.CalledProcessError as error:
            raise TurnmarkError(f"pip could not download {HATCH}: exit code {error.returncode}") from error
        archive = Path(scratch) / f"{HATCH}.tar.gz"
        if file_sha256(archive) != SHA256:
            raise TurnmarkError(f"{archive.name}: SHA-256 {file_sha256(archive)}, expected {SHA256}")
        with tarfile.open(archive) as content:
            content.extractall(scratch, filter="data")
        (Path(scratch) / HATCH).rename(folder / HATCH)
    return folder / HATCH
