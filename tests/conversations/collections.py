"""The collections of documents: where they lie, how they are installed, which files are indexed, their labels."""

from __future__ import annotations

import os
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from turnmark.core.errors import RequestError, TurnmarkError
from turnmark.core.home import file_sha256

ROOT = Path(__file__).parents[2]
LABELS = Path(__file__).parent / "data"
HATCH = "hatch-1.14.1"
HATCH_SHA256 = "ca1aff788f8596b0dd1f8f8dfe776443d2724a86b1976fabaf087406ba3d0713"
_PAGES_OF_TOOLS = ("genindex.html", "search.html", "index.html")


def work_folder() -> Path:
    """`TURNMARK_CONVERSATIONS`, else `.conversations` in the repository: unpacked documents, indexes, replies."""
    return Path(os.environ.get("TURNMARK_CONVERSATIONS") or ROOT / ".conversations").expanduser()


def data_folder() -> Path:
    """`TURNMARK_DATA`, else `../shared/data` next to the repository."""
    return Path(os.environ.get("TURNMARK_DATA") or ROOT.parent / "shared" / "data").expanduser()


@dataclass(frozen=True)
class Collection:
    """Documents that nobody here wrote.

    Args:
        folder: where they are; called when it is needed, since it may depend on the environment.
        include: globs of the files that are indexed, relative to the folder.
        exclude: globs of files that are not.
        source: what provides them, and the version that the labels rest on.
        install: what a person does to get them.
        suite: a label file among the project's data; "": `data/NAME.toml` in this folder.
        hard: the same documents under other labels, `data/hard/NAME.toml`: questions that one search hardly answers.
    """

    name: str
    folder: Callable[[], Path]
    include: tuple[str, ...]
    source: str
    install: str
    exclude: tuple[str, ...] = ()
    suite: str = ""
    hard: bool = False

    @property
    def labels(self) -> Path:
        """The label file."""
        if self.suite:
            return data_folder() / self.suite
        return LABELS / ("hard" if self.hard else "") / f"{self.name}.toml"

    def documents(self) -> Path:
        """The folder."""
        folder = self.folder()
        if not any(any(folder.glob(pattern)) for pattern in self.include):
            raise RequestError(
                f"collection {self.name}: no {' or '.join(self.include)} in {folder}. "
                f"The labels rest on {self.source}; install: {self.install}"
            )
        return folder


def _debian(path: str) -> Callable[[], Path]:
    return lambda: Path("/usr/share") / path


def _data(path: str) -> Callable[[], Path]:
    return lambda: data_folder() / path


_SET = "set TURNMARK_DATA to the folder that holds docs and conversations"
_HTML, _MARKDOWN = ("*.html",), ("**/*.md",)
_ALL = (
    Collection(
        "debian-policy", _debian("doc/debian-policy/policy.html"), ("ch-*.html", "ap-*.html"),
        "Debian package debian-policy 4.6.2.0", "apt-get install debian-policy",
    ),
    Collection(
        "developers-reference", _debian("developers-reference"), _HTML,
        "Debian package developers-reference 12.18", "apt-get install developers-reference",
        exclude=(*_PAGES_OF_TOOLS, "developers-reference.html"),
    ),
    Collection(
        "debian-handbook", _debian("doc/debian-handbook/html/en-US"), _HTML,
        "Debian package debian-handbook 11.20220922", "apt-get install debian-handbook",
        exclude=("index.html", "ix*.html"),
    ),
    Collection(
        "installation-guide", _debian("doc/installation-guide-amd64/en"), ("ch*.html", "ap*.html"),
        "Debian package installation-guide-amd64 20230508+deb12u1", "apt-get install installation-guide-amd64",
    ),
    Collection("recipes", _data("docs/based-cooking"), ("*.md",), "349 recipes of based.cooking", _SET),
    Collection(
        "hatch", lambda: work_folder() / "documents" / HATCH / "docs", _MARKDOWN,
        "the documentation site in the source archive of hatch 1.14.1 (MkDocs)",
        "python -m tests.conversations --fetch  (needs pip and a package index)",
    ),
    Collection(
        "clef", _data("docs/clef-handbook"), _MARKDOWN, "the employee handbook of Clef", _SET,
        suite="conversations/clef_suite.json",
    ),
    Collection(
        "uptime", _data("docs/uptime-kuma-wiki"), _MARKDOWN, "the wiki of Uptime Kuma", _SET,
        suite="conversations/uptime_suite.json",
    ),
)  # fmt: skip
COLLECTIONS = {collection.name: collection for collection in _ALL}
HARD = {
    f"hard-{name}": replace(COLLECTIONS[name], suite="", hard=True) for name in ("hatch", "recipes", "debian-policy")
}
"""Held only if they are asked for: by name, or all as `hard`."""


def collections_named(names: Sequence[str]) -> dict[str, Collection]:
    """Collections by name, `hard` standing for all of `HARD`; RequestError for an unknown name."""
    known = COLLECTIONS | HARD
    spread = [name for given in names for name in (HARD if given == "hard" else (given,))]
    if unknown := [name for name in spread if name not in known]:
        names_known = ", ".join((*known, "hard"))
        raise RequestError([f"unknown collection {name!r}; there are: {names_known}" for name in unknown])
    return {name: known[name] for name in spread}


def fetch_hatch() -> Path:
    """Download and unpack hatch's source archive, if it is not there yet; its folder."""
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
        if file_sha256(archive) != HATCH_SHA256:
            raise TurnmarkError(f"{archive.name}: SHA-256 {file_sha256(archive)}, expected {HATCH_SHA256}")
        with tarfile.open(archive) as content:
            content.extractall(scratch, filter="data")
        (Path(scratch) / HATCH).rename(folder / HATCH)
    return folder / HATCH
