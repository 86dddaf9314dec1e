"""What is asked for on the command line."""

from __future__ import annotations

from pathlib import Path

from pydantic import Field

from turnmark.assistant.steps.rewrites import SECONDS
from turnmark.corpora.mtrag import Benchmark
from turnmark.corpora.types import Record
from turnmark.retrieval.registry import retriever_to_build


class EvalRequest(Record):
    """`turnmark eval BENCHMARK --task retrieval …`."""

    benchmark: Benchmark
    data: Path | None = None
    domains: tuple[str, ...] = Field(default=(), description="empty: every domain with relevance labels")
    retriever: str = Field(default_factory=retriever_to_build)
    embedder: str = "minilm"
    query: str | None = Field(default=None, description="query mode; None: `assistant`, unless `queries` is given")
    queries: Path | None = Field(default=None, description="a file of recorded queries instead of a mode")
    generator: str = Field(default="extractive", description="asked by the query modes that need a language model")
    prompts: Path | None = Field(default=None, description="folder with prompts of one's own")
    concurrency: int = Field(default=16, description="queries reworded at once")
    deadline: float = Field(default=SECONDS, description="seconds for all wordings of one query")
    max_failures: str | None = Field(default=None, description="a number, or a share such as 5%")
    budget: str | None = Field(default=None, description="tokens, or money")
    limit: int | None = Field(default=None, description="only the first so many queries")
    sample: int | None = Field(default=None, description="so many queries, drawn at random by the seed")
    only: tuple[str, ...] = ()
    seed: int = 0
    out: Path | None = None
    command: str = ""


class ScoreRequest(Record):
    """`turnmark score BENCHMARK --task retrieval --predictions FILE …`."""

    benchmark: Benchmark
    predictions: tuple[Path, ...]
    data: Path | None = None
    domains: tuple[str, ...] = Field(default=(), description="empty: those in which the file answers a query")
    seed: int = 0
    out: Path | None = None
    command: str = ""


class GenerationRequest(Record):
    """`turnmark eval BENCHMARK …` for a task whose answers are written."""

    benchmark: str
    task: str | None = Field(default=None, description="None: the benchmark's first")
    setting: str | None = None
    data: Path | None = None
    domains: tuple[str, ...] = Field(default=(), description="empty: all that are there")
    generator: str = "extractive"
    retriever: str = Field(default_factory=retriever_to_build)
    embedder: str = "minilm"
    query: str | None = None
    queries: Path | None = None
    passages: Path | None = Field(
        default=None, description="a run, a TREC run or official tasks to answer from; `official`"
    )
    counterfactual: bool = False
    protocol: str = Field(default="turn", description="`paper`: the prompts of MTRAG or KIWI, and no turn")
    types: tuple[str, ...] = Field(default=(), description="compound-qa: question types; empty: all that are there")
    chain: bool = Field(default=False, description="kiwi: a turn starts from our own answer to the one before")
    references: Path | None = Field(default=None, description="compound-qa: a run that answers the sub-questions")
    prompts: Path | None = Field(default=None, description="folder with prompts of one's own")
    steps: tuple[str, ...] = Field(default=(), description="STEP=FORM, where a step takes another form than by default")
    judge: tuple[str, ...] = Field(
        default=(), description="specs; take effect by `turnmark.evaluation.judging.mounting.judged`"
    )
    limit: int | None = None
    sample: int | None = None
    only: tuple[str, ...] = ()
    seed: int = 0
    repeat: int = 1
    concurrency: int = 16
    deadline: float = Field(default=300.0, description="seconds for one sample")
    max_failures: str | None = Field(default=None, description="a number, or a share such as 5%")
    budget: str | None = Field(default=None, description="tokens, or money")
    engine: str = Field(default="local", description="takes effect by `turnmark.evaluation.spread.spread`")
    out: Path | None = None
    command: str = ""


class PredictionsRequest(Record):
    """`turnmark score BENCHMARK --predictions FILE …` for answers that are written already."""

    benchmark: str
    task: str | None = Field(default=None, description="None: the benchmark's first")
    predictions: tuple[Path, ...]
    setting: str | None = Field(default=None, description="None: what the file says, else the default")
    data: Path | None = None
    domains: tuple[str, ...] = Field(default=(), description="empty: those in which the file answers a task")
    answered_only: bool = Field(default=False, description="tasks without an answer are left out, and do not fail")
    references: Path | None = Field(default=None, description="compound-qa: a run that answers the sub-questions")
    embedder: str = "minilm"
    judge: tuple[str, ...] = Field(
        default=(), description="specs; take effect by `turnmark.evaluation.judging.mounting.judged`"
    )
    prompts: Path | None = Field(default=None, description="folder with prompts of one's own, for the judges")
    budget: str | None = Field(default=None, description="tokens, or money, for the judges")
    engine: str = Field(default="local", description="takes effect by `turnmark.evaluation.spread.spread`")
    seed: int = 0
    out: Path | None = None
    command: str = ""
