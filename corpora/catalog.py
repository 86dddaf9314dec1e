"""Where the benchmarks live: repository, the files that Turnmark reads, licence, and the most that is taken of each.

No checksum stands here. The hosts publish one for every file at a revision (git's blob id, or the SHA-256 of a large
file), which is asked for when a benchmark is fetched; the SHA-256 of what then arrived is written to its manifest.
Patterns are matched against whole paths in the repository, so nothing else of it is taken.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Annotated, Literal, TypeVar
from urllib.parse import quote

from pydantic import BaseModel, Field, NonNegativeInt, TypeAdapter, ValidationError

from turnmark.corpora.downloading import Downloads, NotThere, RemoteFile
from turnmark.corpora.errors import RequestError, TurnmarkError
from turnmark.corpora.types import Record

T = TypeVar("T")

MB = 1_000_000


class Wanted(Record):
    """Files of a repository that belong to a benchmark."""

    pattern: str = Field(description="regular expression for the whole path in the repository")
    what: str
    count: int = Field(default=1, description="how many there should be; fewer is a note")
    required: bool = Field(default=True, description="True: with none of them there is nothing to fetch")
    limit: int = Field(default=64 * MB, description="bytes of the largest file that is taken")


class Origin(Record):
    """A repository."""

    service: Literal["github", "huggingface"]
    repository: str = Field(description="owner/name")
    wanted: tuple[Wanted, ...]
    below: str = Field(default="", description="folder inside the benchmark's that its files are put into")

    @property
    def page(self) -> str:
        """Its page, for people."""
        return (
            f"https://github.com/{self.repository}"
            if self.service == "github"
            else f"https://huggingface.co/datasets/{self.repository}"
        )


class Entry(Record):
    """A set of data that can be fetched, or the reason why it cannot."""

    name: str
    benchmarks: tuple[str, ...] = Field(description="what `eval` calls the benchmarks that it serves")
    folder: str = Field(description="its folder: the child of TURNMARK_DATA that the loaders look for")
    licence: str = Field(description="as the authors state it")
    origins: tuple[Origin, ...]
    limit: int = Field(description="bytes of all files together; more is refused")
    why_not: str = Field(default="", description="why it cannot be fetched; empty where it can")


def _files(what: str, pattern: str, count: int = 1, required: bool = True, limit: int = 64 * MB) -> Wanted:
    return Wanted(pattern=pattern, what=what, count=count, required=required, limit=limit)


_TASKS = r"mtrag-human/generation_tasks"
_QUERIES = r"mtrag-human/retrieval_tasks/[a-z0-9]+"
_MTRAG = Origin(
    service="github",
    repository="IBM/mt-rag-benchmark",
    wanted=(
        _files("the licence", r"LICENSE", required=False),
        _files("MTRAG's tasks", rf"{_TASKS}/reference\.jsonl"),
        _files("the passages of MTRAG's other settings", rf"{_TASKS}/(reference\+)?RAG\.jsonl", 2, required=False),
        _files("MTRAG's recorded queries", rf"{_QUERIES}/[a-z0-9]+_(lastturn|rewrite|questions)\.jsonl", 12),
        _files("MTRAG's relevance labels", rf"{_QUERIES}/qrels/dev\.tsv", 4),
        _files(
            "the ratings of people", r"mtrag-human/evaluations/[A-Za-z0-9_-]*human_evaluations\.json", required=False
        ),
        _files("MTRAG-UN's tasks", r"mtragun-human/generation_tasks/reference\.jsonl", required=False),
        _files("MTRAG-UN's relevance labels", r"mtragun-human/retrieval_tasks/qrels/[a-z0-9]+\.tsv", 4, required=False),
        _files("MTRAG-S's tasks", r"mtrag-synthetic/generation_tasks/synthetic\.jsonl", required=False),
        _files("MTRAG-S's scored answers", r"mtrag-synthetic/evaluations/synthetic\.json", required=False),
        _files("passages", r"corpora/passage_level/[a-z0-9]+\.jsonl(\.zip)?", 4, limit=512 * MB),
    ),
)
_CAPABILITY = "(Understanding|Reasoning|Knowledge|Knowleage)"
_COMPOUND_QA = Origin(
    service="github",
    repository="sustech-nlp/Compound-QA",
    # One folder is called Knowleage upstream, and a type is written with '_' or with '-'.
    wanted=(_files("questions", rf"data/{_CAPABILITY}/{_CAPABILITY}_[A-Za-z_-]+\.jsonl", 15),),
)
_KIWI = Origin(
    service="huggingface",
    repository="fangyuan/kiwi",
    wanted=(_files("the sessions", r"interaction_data_new\.jsonl"),),
)
_KIWI_PAPERS = Origin(
    service="huggingface",
    repository="fangyuan/longform_sciqa",
    wanted=(_files("the questions' cited papers", r"train\.jsonl", required=False, limit=512 * MB),),
    below="longform_sciqa",
)

CATALOG: dict[str, Entry] = {
    entry.name: entry
    for entry in (
        Entry(
            name="mtrag",
            benchmarks=("mtrag", "mtrag-un", "mtrag-s"),
            folder="mt-rag-benchmark",
            licence="Apache-2.0",
            origins=(_MTRAG,),
            limit=1000 * MB,
        ),
        Entry(
            name="compound-qa",
            benchmarks=("compound-qa",),
            folder="compound-qa",
            licence="CC BY-SA 4.0 (the paper's word)",
            origins=(_COMPOUND_QA,),
            limit=200 * MB,
        ),
        Entry(
            name="kiwi",
            benchmarks=("kiwi",),
            folder="kiwi",
            licence="MIT (the paper's word)",
            origins=(_KIWI, _KIWI_PAPERS),
            limit=600 * MB,
        ),
        Entry(
            name="inscoqa",
            benchmarks=("inscoqa",),
            folder="inscoqa",
            licence="not published",
            origins=(),
            limit=0,
            why_not="no public copy exists: put a test.jsonl in the schema of docs/data.md into a folder and name it "
            "with --data",
        ),
    )
}


def entry_named(name: str) -> Entry:
    """An entry by its own name, or by that of a benchmark it serves.

    Raises:
        RequestError: there is none, or it cannot be fetched.
    """
    chosen_entry = CATALOG.get(name) or next((entry for entry in CATALOG.values() if name in entry.benchmarks), None)
    if chosen_entry is None:
        raise RequestError(f"no data is called {name!r}; there are: {', '.join(CATALOG)}")
    if chosen_entry.why_not:
        raise RequestError(f"{name}: {chosen_entry.why_not}")
    return chosen_entry


MAX_LISTING = 20_000_000  # bytes
REVISION = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")


class Hosts(Record):
    """Where the hosts are."""

    github_api: str = "https://api.github.com"
    github_raw: str = "https://raw.githubusercontent.com"
    hub: str = "https://huggingface.co"


class Listing(Record):
    """The files of a benchmark in one repository, at one commit."""

    service: str
    repository: str
    commit: str
    files: tuple[RemoteFile, ...]
    notes: tuple[str, ...] = ()


def matching(wanted: Iterable[Wanted], path: str) -> Wanted | None:
    """What a path in the repository is wanted as; None where it is not."""
    return next((item for item in wanted if re.fullmatch(item.pattern, path, re.ASCII)), None)


def shortfalls(origin: Origin, paths: Iterable[str], strict: bool = True) -> list[str]:
    """A note for each kind of files of which there are fewer than there should be.

    Args:
        strict: of one that is needed there must be one.

    Raises:
        TurnmarkError: of one that is needed there is none.
    """
    kinds = [matching(origin.wanted, path) for path in paths]
    lacking = [item.what for item in origin.wanted if strict and item.required and item not in kinds]
    if lacking:
        raise TurnmarkError(f"{origin.repository}: no {', no '.join(lacking)}; the repository's layout has changed")
    return [
        f"{origin.repository}: {item.what}: {kinds.count(item)} of {item.count} files"
        for item in origin.wanted
        if kinds.count(item) < item.count
    ]


def listed(entry: Entry, revision: str, web: Downloads, hosts: Hosts) -> tuple[Listing, ...]:
    """The files of a benchmark, each repository at the commit that `revision` is.

    Raises:
        RequestError: there is no such revision.
        TurnmarkError: the host cannot be asked, its answer cannot be read, or the files are too large.
    """
    listings = tuple(_listing(origin, revision, web, hosts) for origin in entry.origins)
    size = sum(file.size for listing in listings for file in listing.files)
    if size > entry.limit:
        raise TurnmarkError(f"{entry.name}: {size:,} bytes in all; at most {entry.limit:,} are fetched")
    return listings


def _listing(origin: Origin, revision: str, web: Downloads, hosts: Hosts) -> Listing:
    list_files = _github if origin.service == "github" else _hub
    try:
        commit, remote_files = list_files(origin, revision, web, hosts)
    except NotThere as error:
        raise RequestError(f"{origin.repository} has no revision {revision!r}, or is gone ({error})") from error
    below = f"{origin.below}/" if origin.below else ""
    files: list[RemoteFile] = []
    for path, size, checksum, url in remote_files:
        item = matching(origin.wanted, path)
        if item is None:
            continue
        if size > item.limit:
            raise TurnmarkError(f"{origin.repository}: {path} has {size:,} bytes; at most {item.limit:,} are fetched")
        try:
            files.append(RemoteFile(path=below + path, url=url, size=size, checksum=checksum))
        except ValidationError as error:
            raise TurnmarkError(f"{origin.repository}: {path}: {error.errors()[0]['msg']}") from error
    notes = shortfalls(origin, (file.path.removeprefix(below) for file in files))
    return Listing(
        service=origin.service, repository=origin.repository, commit=commit, files=tuple(files), notes=tuple(notes)
    )


Commit = Annotated[str, Field(pattern="^[0-9a-f]{40}$")]
Remote = tuple[str, int, str, str]
"""Path, size, checksum and address of a file."""


class _Large(BaseModel):
    oid: str


class _Row(BaseModel):
    """A file or folder, as either host lists it."""

    path: str
    type: str
    size: NonNegativeInt = 0
    mode: str = ""
    sha: str = ""
    oid: str = ""
    lfs: _Large | None = None


class _Tree(BaseModel):
    tree: list[_Row]
    truncated: bool = False


class _Revision(BaseModel):
    sha: Commit


def _github(origin: Origin, revision: str, web: Downloads, hosts: Hosts) -> tuple[str, Iterator[Remote]]:
    repository = f"{hosts.github_api}/repos/{origin.repository}"
    commit = _asked(web, f"{repository}/commits/{quote(revision)}", _Revision).sha
    url = f"{repository}/git/trees/{commit}?recursive=1"
    listing = _asked(web, url, _Tree)
    if listing.truncated:
        raise TurnmarkError(f"{url}: the list of files is cut; clone {origin.page} and point --data at the clone")
    base = f"{hosts.github_raw}/{origin.repository}/{commit}/"
    # 120000 is a symbolic link: a blob too, but its content is a path.
    plain = (row for row in listing.tree if row.type == "blob" and row.mode in ("100644", "100755"))
    return commit, ((row.path, row.size, f"git:{row.sha}", base + quote(row.path)) for row in plain)


def _hub(origin: Origin, revision: str, web: Downloads, hosts: Hosts) -> tuple[str, Iterator[Remote]]:
    api = f"{hosts.hub}/api/datasets/{origin.repository}"
    commit = _asked(web, f"{api}/revision/{quote(revision)}", _Revision).sha
    rows = _asked(web, f"{api}/tree/{commit}?recursive=true", list[_Row])
    base = f"{hosts.hub}/datasets/{origin.repository}/resolve/{commit}/"
    return commit, (
        (row.path, row.size, f"sha256:{row.lfs.oid}" if row.lfs else f"git:{row.oid}", base + quote(row.path))
        for row in rows
        if row.type == "file"
    )


def _asked(web: Downloads, url: str, kind: type[T]) -> T:
    """A host's reply.

    Raises:
        TurnmarkError: it has another form.
    """
    try:
        return TypeAdapter(kind).validate_json(web.page(url, MAX_LISTING))
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(map(str, first["loc"]))
        raise TurnmarkError(f"{url}: not a reply that can be read ({place}: {first['msg']})") from None
