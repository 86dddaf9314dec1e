"""The collections of documents: where they lie, how they are installed, which files are indexed, their labels."""

from __future__ import annotations

import gzip
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
FILES: dict[str, dict[str, str]] = {
    "aprx=2.9.1-1": {
        "doc/aprx/aprx-manual.odt": "2e267d3313b070911f19fb42efe289294240846536b829c205f331b70c83cea4",
    },
    "coco-doc=20060919.0-1": {
        "doc/coco-doc/UserManual.pdf": "170e5c9b15de2d0d6e7bbed634c2bac8b0f525b1c6582721fbe137a95060978e",
    },
    "device-tree-compiler=1.6.1-4+b1": {
        "doc/device-tree-compiler/dtc-paper.pdf.gz": "971732791785cc145bc0924c937caffd3979f54f2820826162207ea3c7f70dc7",
    },
    "libdds-dev=2.9.0-9": {
        "doc/libdds-dev/2014-11 Performance and Benchmarking.docx.gz": (
            "cf9ed116d8b22725e2a9117c6bb51782c698c7ec8258d38e1aa4e0cf27a9f164"
        ),
        "doc/libdds-dev/DLL-dds_x.pdf.gz": "6f3c6ac3f6481481ff883d5c07a5a6b0b8ee1b98b8a23b30493bef1bb5834769",
    },
    "libhyphen-dev=2.8.8-7": {
        "doc/libhyphen-dev/tb87nemeth.pdf.gz": "3a7e2694bd6be59daa73f0389e1e73e1f2b0c4764ff6454dc0e9aff50cd8dfff",
    },
    "mk-configure=0.37.0-2": {
        "doc/mk-configure/presentation.pdf.gz": "7f9e582f6d5bd2a0be9b43f5a7cd098c7b64be7f98fa19100d2220f40df68cb3",
    },
    "nagios-nrpe-server=4.1.0-1+b1": {
        "doc/nagios-nrpe-server/NRPE.odt": "2c124278f0d53182532e1fc522e722c63b353e8605593cbcdd13e5559bb7f7c8",
    },
    "pcb-common=1:4.2.2-1": {
        "doc/pcb-common/refcard.pdf.gz": "9376681134d0d90036d1a80700e6c162d70ee1682c1602fa5896c6fb7e14f78e",
    },
    "python-odf-doc=1.4.2-2": {
        "python-odf/examples/countrystatistics.ods": "223c5108d947b6afce313b8af1c1794bdbe13e065d1aa99078d6a3ae02526ab6",
    },
    "python-py7zr-doc=0.11.3+dfsg-5": {
        "doc/python-py7zr-doc/html/_downloads/95258fe72f1c2ee14b78d021ee45a0e4/Introduction_of_py7zr.odp": (
            "6f046f09c0dd813ae594d33e0895153a976b8ef00b1aa4d61685dfb9212b4757"
        ),
    },
    "r-cran-readxl=1.4.2-1": {
        "../lib/R/site-library/readxl/extdata/deaths.xlsx": (
            "0469b75be78da0ca9b956d81e2338f32fa3f45b00622cef5e6d7a278897eb80a"
        ),
    },
    "r-cran-stringdist=0.9.10-1": {
        "../lib/R/site-library/stringdist/doc/RJournal_6_111-122-2014.pdf": (
            "08bd7270f89cb9112a21fd2e4efdc0cc05facf5784301a866fdb160ebc9b0562"
        ),
    },
    "snmptt=1.5-1": {
        "doc/snmptt/snmptt.epub": "6fe3260b6003730d9614eb43455244ee5165a0d56a8205e4432b0af150ab1625",
    },
    "w1retap-doc=1.4.6-1.1": {
        "doc/w1retap/w1retap.odt": "6c42c5d5c1b8bf5eddef264f5ffa38573eed1c6aa61bb909a88d426252480501",
    },
}
"""Debian package and version: its files below `/usr/share`, and the SHA-256 of each, unpacked if it ends in `.gz`."""
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
        group: the same documents under other labels, `data/GROUP/NAME.toml`.
    """

    name: str
    folder: Callable[[], Path]
    include: tuple[str, ...]
    source: str
    install: str
    exclude: tuple[str, ...] = ()
    suite: str = ""
    group: str = ""

    @property
    def labels(self) -> Path:
        """The label file."""
        if self.suite:
            return data_folder() / self.suite
        return LABELS / self.group / f"{self.name}.toml"

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
        "python -m tests.conversations --fetch hatch  (needs pip and a package index)",
    ),
    Collection(
        "files", lambda: work_folder() / "documents" / "files", ("*.*",),
        "15 PDF and Office files of 14 packages of Debian 12 (bookworm)",
        "python -m tests.conversations --fetch files  (needs apt-get, dpkg-deb and a mirror of bookworm)",
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
GROUPS = {"hard": ("hatch", "recipes", "debian-policy"), "asked": ("hatch", "uptime", "debian-handbook")}
"""Questions that one search hardly answers; those of `asked` are by somebody who had not seen the code."""
FURTHER = {
    f"{group}-{name}": replace(COLLECTIONS[name], suite="", group=group)
    for group, names in GROUPS.items()
    for name in names
}
"""Held only if they are asked for: by name, or all of a group."""


def collections_named(names: Sequence[str]) -> dict[str, Collection]:
    """Collections by name, or by that of their group; RequestError for an unknown name."""
    known = COLLECTIONS | FURTHER
    spread: list[str] = []
    for given in names:
        spread += [f"{given}-{name}" for name in GROUPS[given]] if given in GROUPS else [given]
    if unknown := [name for name in spread if name not in known]:
        names_known = ", ".join((*known, *GROUPS))
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


def fetch_files() -> Path:
    """Download the packages of `FILES`, take the files out of them and check each, if they are not there yet."""
    folder = work_folder() / "documents" / "files"
    if folder.is_dir():
        return folder
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder.parent) as scratch:
        chosen = Path(scratch) / "files"
        chosen.mkdir()
        for package, files in FILES.items():
            unpacked = _unpacked_package(package, Path(scratch))
            for path, sha256 in files.items():
                _copy_checked(unpacked / "usr" / "share" / path, chosen, sha256)
        chosen.rename(folder)
    return folder


def _unpacked_package(package: str, scratch: Path) -> Path:
    """The folder with the content of a package, given as `NAME=VERSION`."""
    name = package.partition("=")[0]
    folder = scratch / name
    folder.mkdir()
    try:
        subprocess.run(["apt-get", "download", "-qq", package], cwd=folder, check=True)
        (archive,) = folder.glob("*.deb")
        subprocess.run(["dpkg-deb", "--extract", archive, folder], check=True)
    except (OSError, ValueError, subprocess.CalledProcessError) as error:
        raise TurnmarkError(f"package {package} could not be downloaded and unpacked: {error}") from error
    return folder


def _copy_checked(source: Path, folder: Path, sha256: str) -> None:
    """Copy a file, decompressed if it ends in `.gz`, and compare its SHA-256."""
    try:
        content = source.read_bytes()
    except OSError as error:
        raise TurnmarkError(f"{source.name} could not be read: {error}") from error
    target = folder / source.name.removesuffix(".gz")
    target.write_bytes(gzip.decompress(content) if source.suffix == ".gz" else content)
    if file_sha256(target) != sha256:
        raise TurnmarkError(f"{target.name}: SHA-256 {file_sha256(target)}, expected {sha256}")


FETCHES: dict[str, Callable[[], Path]] = {"hatch": fetch_hatch, "files": fetch_files}
"""The collections that are downloaded, not installed."""
