"""What is searched for at a turn of an MTRAG conversation: the query modes (MTRAG section 5.2, and ours)."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from turnmark.assistant.steps.retrieve import conversation_query
from turnmark.assistant.steps.understand_llm import MINIMAL, MINIMAL_SECONDS
from turnmark.corpora import mtrag
from turnmark.corpora.errors import ErrorCollector, RequestError
from turnmark.corpora.rows import RecordedQuery, read_recorded
from turnmark.corpora.types import Problem
from turnmark.evaluation.benchmarks.mtrag_data import MtragData
from turnmark.evaluation.request import EvalRequest
from turnmark.retrieval.types import Query

RECORDED: tuple[mtrag.Mode, ...] = ("last-turn", "rewrite", "questions")
_LAST = re.compile(r"^last-([1-9][0-9]{0,3})$")
FromTask = Callable[[mtrag.Task], Query]


def _assistant(task: mtrag.Task) -> Query:
    return conversation_query(task.history, task.question)


def _conversation(task: mtrag.Task) -> Query:
    return Query(text="\n".join([*(message.content for message in task.history), task.question]))


def _typed(task: mtrag.Task) -> Query:
    """The message as it was typed, in its conversation: what the modes that ask a model add their rewrite to."""
    return Query(text=task.question, history=task.history)


MADE: Mapping[str, FromTask] = {
    "conversation": _conversation,
    "assistant": _assistant,
    MINIMAL: _typed,
}
"""Modes that make their query from the conversation, by name; so do `last-K`, and `last-turn` if no file records it."""
MODES: Mapping[str, str] = {
    "last-turn": "the recorded last message",
    "rewrite": "the recorded rewrite",
    "questions": "the recorded questions up to this one",
    "conversation": "all turns and answers",
    "last-K": "the last K turns of the user, such as last-3",
    "assistant": "what our own turn searches for",
    "minimal": "a language model's rewrite",
}
"""Every mode with what it searches for."""


class NoQuery(Exception):
    """There is nothing to search for with this task; the message says why."""


class QuerySource:
    """Gives each task its query in one mode.

    Args:
        mode: the mode in normal form, or `file` for recorded queries from elsewhere.
        recorded: task id -> what a file says, for modes that read it from one.
        origin: that file's name, for messages.
    """

    def __init__(
        self,
        mode: str,
        tasks: Mapping[str, mtrag.Task],
        recorded: Mapping[str, RecordedQuery] | None = None,
        origin: str = "",
        files: Mapping[str, Path] | None = None,
        problems: Sequence[Problem] = (),
    ) -> None:
        self.mode = mode
        self.recorded = recorded
        self.files = dict(files or {})
        self.problems = tuple(problems)
        self._tasks = tasks
        self._origin = origin

    def query(self, task_id: str) -> Query:
        """The query of a task."""
        if self.recorded is not None:
            if task_id not in self.recorded:
                raise NoQuery(f"no query for it in {self._origin}")
            return self._recorded(self.recorded[task_id], self._tasks.get(task_id))
        task = self._tasks.get(task_id)
        if task is None:
            raise NoQuery("no task with this id in the data, so there is no conversation to make a query from")
        query = self._made(task)
        if not query.text.strip():
            raise NoQuery("the task's text is empty")
        return query

    def _recorded(self, row: RecordedQuery, task: mtrag.Task | None) -> Query:
        """What a file says. With variants its text is the raw message, and the task knows the turns before that."""
        if row.variants is None:
            return Query(text=row.text)
        history = task.history if task else ()
        return Query(text=row.text, history=history, variants=tuple(row.variants.values()))

    def _made(self, task: mtrag.Task) -> Query:
        if self.mode in MADE:
            return MADE[self.mode](task)
        match = _LAST.match(self.mode)
        turns = int(match[1]) if match else 1  # last-turn, where no file records it
        questions = [message.content for message in task.history if message.role == "user"] + [task.question]
        return Query(text="\n".join(questions[-turns:]))


def known_mode(mode: str) -> bool:
    """Whether there is a mode of this name, whatever it needs."""
    return mode in RECORDED or mode in MADE or bool(_LAST.match(mode))


def check_mode(mode: str, benchmark: mtrag.Benchmark, asking: bool = False) -> str:
    """The mode, if the benchmark has it.

    Args:
        asking: modes that ask a language model will do.
    """
    if not known_mode(mode):
        modes = ", ".join(f"{name} ({summary})" for name, summary in MODES.items())
        raise RequestError(f"--query: no mode is called {mode!r}; there are: {modes}")
    if mode == MINIMAL and not asking:
        raise RequestError(
            f"--query {mode}: it is for --task retrieval; where answers are written, the --generator rewrites by itself"
        )
    if benchmark != "mtrag" and mode in ("rewrite", "questions"):
        raise RequestError(
            f"--query {mode}: {benchmark} has no recorded queries; use last-turn, conversation, last-K, assistant, or "
            "--queries FILE with your own"
        )
    return mode


def open_queries(mode: str, data: MtragData, asking: bool = False) -> QuerySource:
    """The queries of a mode for every domain of the data; of one that asks a language model, without its wordings.

    Args:
        asking: as for `check_mode`.
    """
    check_mode(mode, data.benchmark, asking)
    recorded = next((name for name in RECORDED if name == mode), None)
    if recorded is None or data.benchmark != "mtrag":
        if not data.tasks:
            loaded_tasks = mtrag.load_tasks(data.source.root, data.benchmark)
            first = f"; the first mistake in it: {loaded_tasks.problems[0]}" if loaded_tasks.problems else ""
            what = f"it is made from conversations, and {loaded_tasks.path.name} holds none{first}"
            raise RequestError(f"--query {mode}: {what}")
        return QuerySource(mode, data.tasks)
    texts: dict[str, RecordedQuery] = {}
    files: dict[str, Path] = {}
    problems: list[Problem] = []
    for domain in data.qrels:
        loaded = mtrag.load_queries(data.source.root, domain, recorded)
        texts |= {key: RecordedQuery(text=text) for key, text in loaded.data.items()}
        files[f"queries/{domain}"] = loaded.path
        problems.extend(loaded.problems)
    return QuerySource(mode, data.tasks, texts, f"the recorded {mode} queries", files, problems)


def read_query_file(path: Path, data: MtragData | None) -> QuerySource:
    """The queries of a file that was handed in.

    Args:
        data: None where it could not be read: then only the file itself is checked.
    """
    try:
        loaded = read_recorded(path, path.name)
    except OSError as error:
        raise RequestError(f"--queries {str(path)!r} cannot be read: {error.strerror or error}") from error
    if loaded.problems:
        raise RequestError([f"--queries {problem}" for problem in loaded.problems])
    judged = data is not None and any(data.qrels.values())
    if data and judged and not any(query in labels for labels in data.qrels.values() for query in loaded.data):
        raise RequestError(f"--queries {path.name}: none of its {len(loaded.data)} ids is a query of the data")
    return QuerySource("file", data.tasks if data else {}, loaded.data, path.name)


SEARCHING = 300.0
"""Seconds beyond those for the rewrite in which a query must be searched: others may have to be searched before it."""
ALWAYS = ("json", "repair")
"""Prompts that every question for an object may use."""


@dataclass(frozen=True)
class Asking:
    """With what the mode `minimal` asks a model; checked.

    Attributes:
        hashes: prompt -> hash, of those that the mode uses.
        seconds: for the rewrite of one query.
    """

    spec: str
    prompts: Path | None
    hashes: Mapping[str, str]
    seconds: float

    @property
    def deadline(self) -> float:
        """Seconds for a query, the time for searching included."""
        return self.seconds + SEARCHING

    def specs(self) -> dict[str, str]:
        """What of it goes into the manifest: who is asked, and how long is waited."""
        return {
            "generator": self.spec,
            "rewrite": f"within {self.seconds:g} s",
        }


def asking_of(request: EvalRequest, errors: ErrorCollector) -> Asking | None:
    """What a request asks a model for; None where its mode asks none, or the flags name no model that can be."""
    if request.query != MINIMAL:
        return None
    from turnmark.assistant.generators import GENERATORS
    from turnmark.evaluation.prompts import own_prompts

    if not request.asks_model:
        errors.add(f"--query {request.query} asks a language model; name it with --generator, see `turnmark list`")
        return None
    try:
        spec, hashes = str(GENERATORS.check(request.generator)), own_prompts(request.prompts)
    except RequestError:  # reported when the flags are checked
        return None
    return Asking(
        spec=spec,
        prompts=request.prompts,
        hashes={name: hashes[name] for name in ("rewrite", *ALWAYS)},
        seconds=MINIMAL_SECONDS if request.deadline is None else request.deadline,
    )
