"""What is searched for at a turn of an MTRAG conversation: the query modes (MTRAG section 5.2, and ours)."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import NoReturn

from corpora import mtrag
from corpora.errors import RequestError
from corpora.types import Message, Problem
from evaluation.benchmarks.mtrag_data import RetrievalData
from retrieval.types import Query

RECORDED: Mapping[str, mtrag.Mode] = {"last-turn": "last-turn", "rewrite": "rewrite", "questions": "questions"}
_LAST = re.compile(r"^last-([1-9][0-9]{0,3})$")
MODES = (
    "last-turn, rewrite, questions (the recorded ones), conversation (all turns and answers), last-K (the last K turns "
    "of the user, such as last-3), assistant (what our own turn searches for)"
)
ConversationQuery = Callable[[Sequence[Message], str], Query]


class NoQuery(Exception):
    """There is nothing to search for with this task; the message says why."""


class QuerySource:
    """Gives each task its query in one mode.

    Args:
        mode: the mode in normal form, or `file` for recorded queries from elsewhere.
        recorded: task id -> text, for modes that read it from a file.
        origin: that file's name, for messages.
    """

    def __init__(
        self,
        mode: str,
        tasks: Mapping[str, mtrag.Task],
        recorded: Mapping[str, str] | None = None,
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
        self._assistant: ConversationQuery | None = None

    def query(self, task_id: str) -> Query:
        """The query of a task.

        Raises:
            NoQuery: the file has none, or the task it would be made from is not in the data.
        """
        if self.recorded is not None:
            if task_id not in self.recorded:
                raise NoQuery(f"no query for it in {self._origin}")
            return Query(text=self.recorded[task_id])
        task = self._tasks.get(task_id)
        if task is None:
            raise NoQuery("no task with this id in the data, so there is no conversation to make a query from")
        query = self._made(task)
        if not query.text.strip():
            raise NoQuery("the task's text is empty")
        return query

    def _made(self, task: mtrag.Task) -> Query:
        if self.mode == "assistant":
            if self._assistant is None:
                from assistant.steps.retrieve import conversation_query

                self._assistant = conversation_query
            return self._assistant(task.history, task.question)
        if self.mode == "conversation":
            return Query(text="\n".join([*(message.content for message in task.history), task.question]))
        if self.mode == "last-turn":
            return Query(text=task.question)
        match = _LAST.match(self.mode)
        assert match is not None, "open_queries lets no other mode through"
        asked = [message.content for message in task.history if message.role == "user"] + [task.question]
        return Query(text="\n".join(asked[-int(match[1]) :]))


def check_mode(mode: str, benchmark: mtrag.Benchmark) -> str:
    """The mode, if the benchmark has it.

    Raises:
        RequestError: there is no such mode, or MTRAG-UN was asked for recorded queries that it lacks.
    """
    if mode not in (*RECORDED, "conversation", "assistant") and not _LAST.match(mode):
        raise RequestError(f"--query: no mode is called {mode!r}; there are: {MODES}")
    if benchmark != "mtrag" and mode in ("rewrite", "questions"):
        raise RequestError(
            f"--query {mode}: {benchmark} has no recorded queries; use last-turn, conversation, last-K, assistant, or "
            "--queries FILE with your own"
        )
    return mode


def open_queries(mode: str, data: RetrievalData) -> QuerySource:
    """The queries of a mode for every domain of the data.

    Raises:
        RequestError: no such mode, or a file of recorded queries is missing.
    """
    check_mode(mode, data.benchmark)
    if mode not in RECORDED or data.benchmark != "mtrag":
        if not data.tasks:
            _refuse_without_tasks(mode, data)
        return QuerySource(mode, data.tasks)
    texts: dict[str, str] = {}
    files: dict[str, Path] = {}
    problems: list[Problem] = []
    for domain in data.qrels:
        loaded = mtrag.load_queries(data.source.root, domain, RECORDED[mode])
        texts |= loaded.data
        files[f"queries/{domain}"] = loaded.path
        problems.extend(loaded.problems)
    return QuerySource(mode, data.tasks, texts, f"the recorded {mode} queries", files, problems)


def _refuse_without_tasks(mode: str, data: RetrievalData) -> NoReturn:
    """Always raises: a mode made from conversations needs the tasks, and there are none."""
    loaded = mtrag.load_tasks(data.source.root, data.benchmark)
    first = f"; the first mistake in it: {loaded.problems[0]}" if loaded.problems else ""
    raise RequestError(f"--query {mode}: it is made from conversations, and {loaded.path.name} holds none{first}")


def read_query_file(path: Path, data: RetrievalData | None) -> QuerySource:
    """The queries of a file that was handed in.

    Args:
        data: None where it could not be read: then only the file itself is checked.

    Raises:
        RequestError: it cannot be read, a line of it is wrong, or it has none for any judged task.
    """
    try:
        loaded = mtrag.read_queries(path, path.name)
    except OSError as error:
        raise RequestError(f"--queries {str(path)!r} cannot be read: {error.strerror or error}") from error
    if loaded.problems:
        raise RequestError([f"--queries {problem}" for problem in loaded.problems])
    if data and not any(query in labels for labels in data.qrels.values() for query in loaded.data):
        raise RequestError(f"--queries {path.name}: none of its {len(loaded.data)} ids is a query of the data")
    return QuerySource("file", data.tasks if data else {}, loaded.data, path.name)
