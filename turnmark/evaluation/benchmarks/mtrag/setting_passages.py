"""The passages of an MTRAG task: references of the annotators, retrieved passages, or those that a file records."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from turnmark.assistant.llm.calls.protocols import Generator
from turnmark.assistant.llm.prompts.tool_definitions import is_computed
from turnmark.assistant.steps.understand.understand_rules import understand
from turnmark.core.errors import ErrorCollector
from turnmark.corpora.benchmarks import mtrag
from turnmark.corpora.jsonl_rows import Source
from turnmark.corpora.types import Passage, Problem
from turnmark.evaluation.benchmarks.mtrag.data import NoQuery, QuerySource
from turnmark.evaluation.benchmarks.mtrag.options import MtragOptions
from turnmark.evaluation.records import ContextRef, Sample
from turnmark.evaluation.storage.corpus_passages import OFFICIAL, CorpusTexts, HidingRetriever
from turnmark.evaluation.tasks.turn_samples import PAPER_TOP_K
from turnmark.retrieval.embedding.vector_cache import Embed
from turnmark.retrieval.search.task_passages import hits_of, ranked_by
from turnmark.retrieval.types import Hit, Query, Retriever, RetrieverWrapper

SEARCHING_SETTINGS = ("reference+rag", "rag")
"""Settings that show retrieved passages."""
MAX_REFERENCES = 10
"""Maximum number of passages in the setting `reference`; MTRAG-UN has tasks with more."""


@dataclass(frozen=True)
class MtragTurn:
    """An item's task, and the ids of the passages that are hidden from its search (`--counterfactual`)."""

    task: mtrag.MtragTask
    hidden: frozenset[str] = frozenset()


@dataclass(frozen=True)
class SettingPassages:
    """The passages of the setting for each task.

    Attributes:
        texts: domain -> the passages of its corpus by id.
        queries: the queries to search for, or None if the assistant's turn makes its own queries.
        recorded: task id -> recorded passages, which replace the search, or None to search.
        complete: whether the recorded lists already include the references, so that `reference+rag` adds none.
        retrievers: domain -> retriever of its corpus.
        embed: see `Assistant`.
        passages: number of passages shown if the turn does not search itself.
    """

    setting: str
    texts: Mapping[str, CorpusTexts] = field(default_factory=dict)
    queries: QuerySource | None = None
    recorded: Mapping[str, Sequence[ContextRef]] | None = None
    complete: bool = False
    retrievers: Mapping[str, Retriever] = field(default_factory=dict)
    embed: Embed | None = None
    passages: int = PAPER_TOP_K

    def retriever(self, turn: MtragTurn) -> Retriever | None:
        """Return the retriever for a task, or None if its passages are references or recorded."""
        if self.setting == "reference" or self.recorded is not None:
            return None
        retriever = self.retrievers[turn.task.domain]
        if turn.hidden:
            retriever = HidingRetriever(retriever, turn.hidden)
        if self.setting == "reference+rag":
            references = self._with_cosines(turn.task, _references(turn.task))
            retriever = _ToppedUp(retriever, references, turn.task.id)
        return retriever

    def hits(
        self, turn: MtragTurn, retriever: Retriever | None, generator: Generator | None
    ) -> tuple[list[Hit], Query | None]:
        """Return the passages of the setting, best first, and the query that found them (None: nothing was searched).

        Raises:
            NoQuery: the task has no query, or no recorded list.
        """
        task = turn.task
        if self.setting == "reference":
            references = _references(task)
            return (references if generator else self._with_cosines(task, references)), None
        if retriever is None:  # the turn decides by cosines, which recorded passages lack
            return self.listed(turn, lambda hits: self._with_cosines(task, hits)), None
        assert self.queries is not None, "the assistant's turn searches for its own queries"
        query = self.queries.query(task.id)
        return retriever.search([query], self.passages)[0], query

    def trusted(self, generator: Generator | None) -> bool:
        """Return whether a turn answers from the passages even if they are not similar to the question."""
        # Without vectors, the model alone decides whether recorded passages answer the question.
        model_decides = self.recorded is not None and generator is not None and self.embed is None
        return self.setting == "reference" or model_decides

    def listed(self, turn: MtragTurn, add_cosines: Callable[[list[Hit]], list[Hit]] = lambda hits: hits) -> list[Hit]:
        """Return the recorded passages of a task; in `reference+rag` with its references.

        Raises:
            NoQuery: no list is recorded for the task.
        """
        task = turn.task
        if task.id not in (self.recorded or {}):
            raise NoQuery("the recorded retrieval has no list for it")
        hits = add_cosines([Hit(passage=passage, score=ref.score) for ref, passage in self._recorded_passages(turn)])
        if self.setting == "reference+rag" and not self.complete:
            hits = _top_up(add_cosines(_references(task)), hits, self.passages, task.id)
        return hits

    def texts_of(self, task: mtrag.MtragTask, sample: Sample) -> tuple[str, ...] | None:
        """Return the texts of the passages that the system was given.

        They come from its file, the task's references or the corpus; in `reference`, a sample without passages has the
        references. None if a text is unknown, because a metric over a part of the passages would be wrong. None, too,
        if another system's file names no passages, because the system may still have seen some. A count over
        documents that the answer does not cite is left out.
        """
        if not sample.contexts:
            if self.setting == "reference":
                return tuple(context.text for context in task.contexts[:MAX_REFERENCES])
            return None if sample.decision is None else ()
        text_of_id = {context.document_id: context.text for context in task.contexts}
        corpus = self.texts.get(task.domain)
        texts: list[str] = []
        for ref in sample.contexts:
            text = ref.text if ref.text is not None else text_of_id.get(ref.document_id)
            if text is None and is_computed(ref.document_id):
                continue
            if text is None:
                passage = corpus.get(ref.document_id) if corpus is not None else None
                if passage is None:
                    return None
                text = passage.text
            texts.append(text)
        return tuple(texts)

    def with_texts(self, task: mtrag.MtragTask, contexts: Sequence[ContextRef]) -> tuple[ContextRef, ...]:
        """Add the texts from the recorded file to passages: the data may lack them."""
        recorded = {ref.document_id: ref for ref in (self.recorded or {}).get(task.id, ()) if ref.text}
        return tuple(recorded.get(ref.document_id, ref).model_copy(update={"score": ref.score}) for ref in contexts)

    def _with_cosines(self, task: mtrag.MtragTask, hits: list[Hit]) -> list[Hit]:
        """Add the cosines by which the turn decides to passages that our retrievers did not find."""
        if self.embed is None or not hits:
            return hits
        passages = [hit.passage for hit in hits]
        queries = list(dict.fromkeys((task.question, understand(task.history, task.question).rewrite)))
        ranked = {hit.passage.id: hit for hit in ranked_by(passages, queries, self.embed)}
        return [hit.model_copy(update={"found": ranked[hit.passage.id].found}) for hit in hits]

    def _recorded_passages(self, turn: MtragTurn) -> list[tuple[ContextRef, Passage]]:
        """Return the first recorded passages of a task that have a text and are not hidden."""
        assert self.recorded is not None, "called only with --passages"
        corpus = self.texts.get(turn.task.domain)
        passages: list[tuple[ContextRef, Passage]] = []
        for ref in self.recorded.get(turn.task.id, ()):
            if len(passages) == self.passages:
                break
            if ref.document_id in turn.hidden:
                continue
            if ref.text is not None:
                passage: Passage | None = _passage(ref.document_id, ref.title or "", ref.text)
            else:
                passage = corpus.get(ref.document_id) if corpus else None
            if passage is not None:
                passages.append((ref, passage))
        return passages


class _ToppedUp(RetrieverWrapper):
    """A retriever whose lists contain the references and the best other passages."""

    def __init__(self, retriever: Retriever, references: list[Hit], seed: str) -> None:
        super().__init__(retriever)
        self._references, self._seed = references, seed

    def search(self, queries: Sequence[Query], top_k: int) -> list[list[Hit]]:
        lists = super().search(queries, top_k + len(self._references))
        return [_top_up(self._references, hits, top_k, self._seed) for hits in lists]


def _top_up(references: list[Hit], hits: Sequence[Hit], passages: int, seed: str) -> list[Hit]:
    """Add retrieved passages to the references, in random order, so that references do not always come first.

    The scores are reassigned to fall in the new order, so that sorting by score keeps it.

    Args:
        passages: number of passages in all.
        seed: the random seed, which is the task's id.
    """
    ids = {hit.passage.id for hit in references}
    found_of_id = {hit.passage.id: hit.found for hit in hits}
    mixed = [hit.model_copy(update={"found": found_of_id.get(hit.passage.id) or hit.found}) for hit in references]
    others = [hit for hit in hits if hit.passage.id not in ids]
    mixed += others[: max(0, passages - len(references))]
    scores = sorted((hit.score for hit in mixed), reverse=True)
    random.Random(seed).shuffle(mixed)
    return [hit.model_copy(update={"score": score}) for hit, score in zip(mixed, scores, strict=True)]


def _references(task: mtrag.MtragTask) -> list[Hit]:
    contexts = task.contexts[:MAX_REFERENCES]
    return hits_of([_passage(context.document_id, context.title, context.text) for context in contexts])


def _passage(name: str, title: str, text: str) -> Passage:
    return Passage(id=name, document=name, title=title, text=text, start=0, end=len(text))


def ref_of(hit: Hit) -> ContextRef:
    return ContextRef(document_id=hit.passage.id, score=round(hit.score, 4))


# --- checks before a run ---------------------------------------------------------------------------------------------


def recorded_file(
    options: MtragOptions, name: mtrag.Benchmark, setting: str, source: Source | None, errors: ErrorCollector
) -> Path | None:
    """Return the file of recorded passages: that of `--passages`, or the official one in the clone, or None to search.

    The paper's protocol uses the official file if it exists and no other source of passages is named.
    """
    official = options.passages is not None and str(options.passages) == OFFICIAL
    if options.passages is not None and not official:
        return options.passages
    file = mtrag.setting_file(source.root, name, setting) if source is not None else None
    if official and source is not None and file is None and setting in SEARCHING_SETTINGS:
        errors.add(
            f"--passages {OFFICIAL}: expected {mtrag.setting_file_name(name, setting)} in {str(source.root)!r}; point "
            f"--data at a clone of {mtrag.REPOSITORY} that has it, or name a file"
        )
    by_protocol = options.protocol == "paper" and not options.query and not options.queries
    return file if official or by_protocol else None


def relevant_passages(
    root: Path, name: mtrag.Benchmark, domains: Sequence[str]
) -> tuple[dict[str, tuple[str, ...]], dict[str, Path], list[Problem]]:
    """Read the relevance labels.

    Returns:
        Task id -> relevant passages; role -> file that was read; rows that cannot be read.
    """
    passages: dict[str, tuple[str, ...]] = {}
    files: dict[str, Path] = {}
    problems: list[Problem] = []
    labeled_domains = mtrag.retrieval_domains(root, name)
    for domain in domains:
        if domain not in labeled_domains:
            continue
        loaded = mtrag.load_qrels(root, name, domain)
        files[f"qrels/{domain}"] = loaded.path
        problems += loaded.problems
        for query, grades in loaded.data.items():
            passages[query] = tuple(passage for passage, grade in grades.items() if grade > 0)
    return passages, files, problems


def check_hidden(
    tasks: Iterable[mtrag.MtragTask],
    relevant: Mapping[str, tuple[str, ...]],
    texts: Mapping[str, CorpusTexts],
    errors: ErrorCollector,
) -> None:
    """Record an error if no relevant passage is in the corpora, so that nothing could be hidden.

    MTRAG-S, for example, names passages of FiQA by hashes that no corpus has.
    """
    for task in tasks:
        names = (*relevant.get(task.id, ()), *(context.document_id for context in task.contexts))
        if any(name in texts.get(task.domain, ()) for name in names):
            return
    errors.add("--counterfactual: no passage of the tasks is in the corpora under its id, so none can be hidden")


def note_unrecorded(
    lists: Mapping[str, Sequence[ContextRef]],
    tasks: Mapping[str, mtrag.MtragTask],
    texts: Mapping[str, CorpusTexts],
    hiding: bool,
    errors: ErrorCollector,
) -> list[str]:
    """Return notes on tasks without a recorded list and on recorded passages without a text.

    It is an error if no list is for a task of the data.

    Args:
        hiding: whether relevant passages are hidden, so that all passages of a list may be needed.
    """
    if lists.keys().isdisjoint(tasks):
        errors.add(f"--passages: none of its {len(lists)} queries is a task of the data")
        return []
    notes = note_lacking("--passages: there is no list", lists, tasks)
    total = unknown = 0
    for key, task in tasks.items():
        known_ids = texts.get(task.domain, ())
        refs = lists.get(key, ())
        for ref in refs if hiding else refs[:PAPER_TOP_K]:
            total += 1
            unknown += ref.text is None and ref.document_id not in known_ids
    if unknown:
        notes.append(
            f"--passages: {unknown} of {total} passages are not in the corpora here; the next ones of their lists "
            "replace them"
        )
    return notes


def note_lacking(what: str, known: Collection[str], tasks: Mapping[str, mtrag.MtragTask]) -> list[str]:
    """Return a note with the number of tasks without a record, by answerability; most of them are unanswerable."""
    lacking = [task for key, task in tasks.items() if key not in known]
    if not lacking:
        return []
    counts = sorted(Counter(task.answerability or "no label" for task in lacking).items())
    labels = ", ".join(f"{label} {count}" for label, count in counts)
    return [f"{what} for {len(lacking)} of {len(tasks)} tasks ({labels}); they fail"]
