"""The collections of documents: where they lie, how they are installed, and which of their files are indexed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from tests.conversations.places import data_folder, work_folder
from turnmark.corpora.errors import RequestError


@dataclass(frozen=True)
class Collection:
    """Documents that nobody here wrote.

    Args:
        folder: where they lie; called when it is needed, since it may depend on the environment.
        include: globs of the files that are indexed, relative to the folder.
        exclude: globs of files that are not.
        source: what provides them, and the version that the labels rest on.
        install: what a person does to get them.
    """

    name: str
    folder: Callable[[], Path]
    include: tuple[str, ...]
    source: str
    install: str
    exclude: tuple[str, ...] = ()

    def documents(self) -> Path:
        """The folder.

        Raises:
            RequestError: it holds none of the files; the message says how to install them.
        """
        folder = self.folder()
        if not any(any(folder.glob(pattern)) for pattern in self.include):
            raise RequestError(
                f"collection {self.name}: no {' or '.join(self.include)} in {folder}. "
                f"The labels rest on {self.source}; install: {self.install}"
            )
        return folder


def _debian(path: str) -> Callable[[], Path]:
    return lambda: Path("/usr/share") / path


HATCH = "hatch-1.14.1"
_PAGES_OF_TOOLS = ("genindex.html", "search.html", "index.html")

COLLECTIONS = {
    collection.name: collection
    for collection in (
        Collection(
            "debian-policy",
            _debian("doc/debian-policy/policy.html"),
            ("ch-*.html", "ap-*.html"),
            "Debian package debian-policy 4.6.2.0",
            "apt-get install debian-policy",
        ),
        Collection(
            "developers-reference",
            _debian("developers-reference"),
            ("*.html",),
            "Debian package developers-reference 12.18",
            "apt-get install developers-reference",
            exclude=(*_PAGES_OF_TOOLS, "developers-reference.html"),
        ),
        Collection(
            "debian-handbook",
            _debian("doc/debian-handbook/html/en-US"),
            ("*.html",),
            "Debian package debian-handbook 11.20220922",
            "apt-get install debian-handbook",
            exclude=("index.html", "ix*.html"),
        ),
        Collection(
            "recipes",
            lambda: data_folder() / "docs" / "based-cooking",
            ("*.md",),
            "349 recipes of based.cooking, in the project's data",
            "set TURNMARK_DATA to the folder that holds docs/based-cooking",
        ),
        Collection(
            "hatch",
            lambda: work_folder() / "documents" / HATCH / "docs",
            ("**/*.md",),
            "the documentation site in the source archive of hatch 1.14.1 (MkDocs)",
            "python -m tests.conversations --fetch  (needs pip and a package index)",
        ),
    )
}
