"""The served indexes: an assistant over each, and one over all of them."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping

from turnmark.assistant.config import AssistantConfig
from turnmark.assistant.llm.calls.protocols import Generator
from turnmark.assistant.turn.assistant import Assistant
from turnmark.assistant.turn.reopen import up_to_date
from turnmark.core.errors import ErrorCollector, RequestError, TurnmarkError, unknown_name
from turnmark.core.untrusted import ellipsize, one_line
from turnmark.retrieval.index.index_api import Index
from turnmark.retrieval.search.opened_index import StoredIndex, split_names
from turnmark.retrieval.types import Query

_MAX_NAME_CHARS = 80


class ServedIndexes:
    """The assistants of the served indexes, by index name.

    Args:
        assistants: the assistants of single indexes.
        joint: assistant over all indexes, named after them with commas in between, or None if there is one
            index, or if the indexes cannot be searched together.
    """

    def __init__(self, assistants: Mapping[str, Assistant], joint: Assistant | None = None) -> None:
        self.names = list(assistants)
        self.everything = ",".join(self.names)
        self.assistants = dict(assistants) if joint is None else {**assistants, self.everything: joint}
        self._opening = threading.RLock()

    @property
    def choices(self) -> list[str]:
        """What can be searched: all indexes together if they can be, then each alone."""
        return list(dict.fromkeys(name for name in (self.everything, *self.names) if name in self.assistants))

    def assistant(self, name: str) -> Assistant:
        """Return the assistant of an index, with its newest generation."""
        with self._opening:
            opened = self.assistants[name]
            newest = self._rejoined(opened) if name not in self.names else up_to_date(opened)
            self.assistants[name] = newest
            return newest

    def _rejoined(self, joint: Assistant) -> Assistant:
        """Return the assistant over all indexes, with the newest generation of each.

        It shares their open files. If the newest generations cannot be joined, the older ones are searched.
        """
        singles = [self.index(name) for name in self.names]
        parts = self.parts()
        if joint.index is not None and all(old is new for old, new in zip(joint.index.parts, parts, strict=True)):
            return joint
        try:
            index = Index.join(singles)
            newest = Assistant.from_config(joint.config, index=index, generator=joint.parts.generator)
            if newest.retriever is not None:
                newest.retriever.search([Query(text="first")], 1)
        except TurnmarkError:
            return joint
        return newest

    def parts(self) -> list[StoredIndex]:
        """Return the stored indexes."""
        return [part for name in self.names for part in self.index(name).parts]

    def warm_up(self) -> None:
        """Search every index once, which opens its files."""
        for name in self.choices:
            retriever = self.assistant(name).retriever
            if retriever is not None:
                retriever.search([Query(text="first")], 1)

    def name(self, requested: str) -> str:
        """Return the name of the requested index, or the name of all indexes together if none was requested.

        Raises:
            RequestError: no index has this name, or one must be chosen since they cannot be searched together.
        """
        if (requested or self.everything) in self.assistants:
            return requested or self.everything
        if requested:
            shown = ellipsize(one_line(requested), _MAX_NAME_CHARS)
            raise RequestError(f"index: {unknown_name('index', shown, self.names)}")
        raise RequestError(f"index: these indexes cannot be searched together; choose one of: {', '.join(self.names)}")

    def index(self, name: str) -> Index:
        """Return the index with this name."""
        index = self.assistant(name).index
        assert index is not None, "every served assistant has an index"
        return index


def open_indexes(
    config: AssistantConfig,
    generator: Generator | None,
    errors: ErrorCollector,
    on_problem: Callable[[str], None],
) -> ServedIndexes:
    """Open an assistant over each index of a configuration, and one over all of them if they can be searched together.

    The assistants share one language model. Raise all problems, including those in `errors`.

    Args:
        generator: the opened language model, or None if the configuration names none.
        on_problem: called with the reason if the indexes can be searched only one by one.
    """
    assistants: dict[str, Assistant] = {}
    for name in split_names(config.index):
        single = config.model_copy(update={"index": name})
        assistant = errors.collect(Assistant.from_config, single, generator=generator)
        if assistant is not None:
            assistants[name] = assistant
    errors.raise_all()
    joint: Assistant | None = None
    if len(assistants) > 1:
        try:
            index = Index.join([assistant.index for assistant in assistants.values() if assistant.index is not None])
            joint = Assistant.from_config(
                config.model_copy(update={"index": index.manifest.name}), index=index, generator=generator
            )
        except TurnmarkError as error:
            on_problem(f"{error}\nevery request must name one of them: {', '.join(assistants)}")
    return ServedIndexes(assistants, joint)
