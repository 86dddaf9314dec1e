"""Where the benchmarks live: repository, the files that Turnmark reads, licence, and the most that is taken of each.

Patterns are matched against full paths in the repository, so nothing else of it is fetched.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Literal

from pydantic import Field

from turnmark.corpora.errors import RequestError, TurnmarkError
from turnmark.corpora.types import Record

MB = 1_000_000


class Wanted(Record):
    """Files of a repository that belong to a benchmark."""

    pattern: str = Field(description="regular expression for the full path in the repository")
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
        host = "https://github.com" if self.service == "github" else "https://huggingface.co/datasets"
        return f"{host}/{self.repository}"

    def wants(self, path: str) -> Wanted | None:
        """What a path in the repository is wanted as; None if it is not."""
        return next((item for item in self.wanted if re.fullmatch(item.pattern, path, re.ASCII)), None)

    def shortfalls(self, paths: Iterable[str]) -> list[str]:
        """A note for each kind of files of which there are fewer than there should be."""
        kinds = [self.wants(path) for path in paths]
        if lacking := [item.what for item in self.wanted if item.required and item not in kinds]:
            raise TurnmarkError(f"{self.repository}: no {', no '.join(lacking)}; the repository's layout has changed")
        return [
            f"{self.repository}: {item.what}: {kinds.count(item)} of {item.count} files"
            for item in self.wanted
            if kinds.count(item) < item.count
        ]


class DataSet(Record):
    """A set of data that can be fetched, or the reason why it cannot."""

    name: str
    benchmarks: tuple[str, ...] = Field(description="what `eval` calls the benchmarks that it serves")
    folder: str = Field(description="its folder: the child of TURNMARK_DATA that the loaders look for")
    licence: str = Field(description="as the authors state it")
    origins: tuple[Origin, ...]
    limit: int = Field(description="bytes of all files together; more is refused")
    why_not: str = Field(default="", description="why it cannot be fetched; empty if it can")


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

CATALOG: dict[str, DataSet] = {
    entry.name: entry
    for entry in (
        DataSet(
            name="mtrag",
            benchmarks=("mtrag", "mtrag-un", "mtrag-s"),
            folder="mt-rag-benchmark",
            licence="Apache-2.0",
            origins=(_MTRAG,),
            limit=1000 * MB,
        ),
        DataSet(
            name="compound-qa",
            benchmarks=("compound-qa",),
            folder="compound-qa",
            licence="CC BY-SA 4.0 (the paper's word)",
            origins=(_COMPOUND_QA,),
            limit=200 * MB,
        ),
        DataSet(
            name="kiwi",
            benchmarks=("kiwi",),
            folder="kiwi",
            licence="MIT (the paper's word)",
            origins=(_KIWI, _KIWI_PAPERS),
            limit=600 * MB,
        ),
        DataSet(
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


def entry_named(name: str) -> DataSet:
    """An entry by its own name, or by that of a benchmark it serves."""
    chosen_entry = CATALOG.get(name) or next((entry for entry in CATALOG.values() if name in entry.benchmarks), None)
    if chosen_entry is None:
        raise RequestError(f"no data is called {name!r}; there are: {', '.join(CATALOG)}")
    if chosen_entry.why_not:
        raise RequestError(f"{name}: {chosen_entry.why_not}")
    return chosen_entry
