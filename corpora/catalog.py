"""Where the benchmarks live: repository, the files that Turnmark reads, licence, and the most that is taken of each.

No checksum stands here. The hosts publish one for every file at a revision (git's blob id, or the SHA-256 of a large
file), which is asked for when a benchmark is fetched; the SHA-256 of what then arrived is written to its manifest.
Patterns are matched against whole paths in the repository, so nothing else of it is taken.
"""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from turnmark.corpora.errors import RequestError
from turnmark.corpora.types import Record

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


_MTRAG = Origin(
    service="github",
    repository="IBM/mt-rag-benchmark",
    wanted=(
        Wanted(pattern=r"LICENSE", what="the licence", required=False),
        Wanted(pattern=r"mtrag-human/generation_tasks/reference\.jsonl", what="MTRAG's tasks"),
        Wanted(
            pattern=r"mtrag-human/generation_tasks/(reference\+)?RAG\.jsonl",
            what="the passages of MTRAG's other settings",
            count=2,
            required=False,
        ),
        Wanted(
            pattern=r"mtrag-human/retrieval_tasks/[a-z0-9]+/[a-z0-9]+_(lastturn|rewrite|questions)\.jsonl",
            what="MTRAG's recorded queries",
            count=12,
        ),
        Wanted(
            pattern=r"mtrag-human/retrieval_tasks/[a-z0-9]+/qrels/dev\.tsv", what="MTRAG's relevance labels", count=4
        ),
        Wanted(
            pattern=r"mtrag-human/evaluations/[A-Za-z0-9_-]*human_evaluations\.json",
            what="the ratings of people",
            required=False,
        ),
        Wanted(pattern=r"mtragun-human/generation_tasks/reference\.jsonl", what="MTRAG-UN's tasks", required=False),
        Wanted(
            pattern=r"mtragun-human/retrieval_tasks/qrels/[a-z0-9]+\.tsv",
            what="MTRAG-UN's relevance labels",
            count=4,
            required=False,
        ),
        Wanted(pattern=r"mtrag-synthetic/generation_tasks/synthetic\.jsonl", what="MTRAG-S's tasks", required=False),
        Wanted(pattern=r"mtrag-synthetic/evaluations/synthetic\.json", what="MTRAG-S's scored answers", required=False),
        Wanted(pattern=r"corpora/passage_level/[a-z0-9]+\.jsonl(\.zip)?", what="passages", count=4, limit=512 * MB),
    ),
)
_COMPOUND_QA = Origin(
    service="github",
    repository="sustech-nlp/Compound-QA",
    wanted=(
        # One folder is called Knowleage upstream, and a type is written with '_' or with '-'.
        Wanted(
            pattern=r"data/(Understanding|Reasoning|Knowledge|Knowleage)/"
            r"(Understanding|Reasoning|Knowledge|Knowleage)_[A-Za-z_-]+\.jsonl",
            what="questions",
            count=15,
        ),
    ),
)
_KIWI = Origin(
    service="huggingface",
    repository="fangyuan/kiwi",
    wanted=(Wanted(pattern=r"interaction_data_new\.jsonl", what="the sessions"),),
)
_KIWI_PAPERS = Origin(
    service="huggingface",
    repository="fangyuan/longform_sciqa",
    wanted=(Wanted(pattern=r"train\.jsonl", what="the questions' cited papers", required=False, limit=512 * MB),),
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
    found = CATALOG.get(name) or next((entry for entry in CATALOG.values() if name in entry.benchmarks), None)
    if found is None:
        raise RequestError(f"no data is called {name!r}; there are: {', '.join(CATALOG)}")
    if found.why_not:
        raise RequestError(f"{name}: {found.why_not}")
    return found
