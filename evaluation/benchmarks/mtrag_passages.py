"""The passages of an MTRAG task: given by the annotators, found by a retriever, or recorded by an earlier run."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from turnmark.assistant.generators.base import Generator
from turnmark.assistant.steps.understand import understand
from turnmark.core.errors import ErrorCollector
from turnmark.corpora import mtrag
from turnmark.corpora.rows import Source
from turnmark.corpora.types import Passage, Problem
from turnmark.evaluation.benchmarks.mtrag_data import NoQuery, QuerySource
from turnmark.evaluation.benchmarks.turns import PASSAGES
from turnmark.evaluation.records import ContextRef, Sample
from turnmark.evaluation.runs.passages import OFFICIAL, CorpusTexts, Without
from turnmark.evaluation.runs.request import EvalRequest
from turnmark.retrieval.task_passages import Embed, hits_of, ranked_by
from turnmark.retrieval.types import Hit, Query, Retriever, RetrieverWrapper

SEARCHING = ("reference+rag", "rag")
"""Settings that show passages which were found."""
MOST_REFERENCES = 10
"""Passages that the reference setting shows at most: MTRAG-UN has tasks with more."""


@dataclass(frozen=True)
class MtragTurn:
    """An item's task, and what is hidden from the index at it."""

    task: mtrag.Task
    hidden: frozenset[str] = frozenset()


@dataclass(frozen=True)
class Shown:
    """Gives the passages of a setting, for one task after the other.

    Attributes:
        texts: domain -> the corpus's passages by id.
        queries: what is searched for; None: what the assistant's turn searches for.
        recorded: task id -> passages that an earlier run found, instead of searching.
        complete: the recorded lists are the setting's passages, so that `reference+rag` adds nothing to them.
        retrievers: domain -> what searches its corpus.
        embed: see `Assistant`.
        passages: how many are shown, where the turn does not search by itself.
    """

    setting: str
    texts: Mapping[str, CorpusTexts] = field(default_factory=dict)
    queries: QuerySource | None = None
    recorded: Mapping[str, Sequence[ContextRef]] | None = None
    complete: bool = False
    retrievers: Mapping[str, Retriever] = field(default_factory=dict)
    embed: Embed | None = None
    passages: int = PASSAGES

    def retriever(self, turn: MtragTurn) -> Retriever | None:
        """What searches for a task; None if its passages are given or recorded."""
        if self.setting == "reference" or self.recorded is not None:
            return None
        retriever = self.retrievers[turn.task.domain]
        if turn.hidden:
            retriever = Without(retriever, turn.hidden)
        if self.setting == "reference+rag":
            references = self._weighed(turn.task, _references(turn.task))
            retriever = _ToppedUp(retriever, references, turn.task.id)
        return retriever

    def hits(
        self, turn: MtragTurn, retriever: Retriever | None, generator: Generator | None
    ) -> tuple[list[Hit], Query | None]:
        """The passages of the setting, best first, and what was searched for, if anything was."""
        task = turn.task
        if self.setting == "reference":
            return (_references(task) if generator else self._weighed(task, _references(task))), None
        if retriever is None:  # recorded ones are weighed as those of a retriever of ours would be
            return self.listed(turn, lambda hits: self._weighed(task, hits)), None
        assert self.queries is not None, "what the assistant searches for is searched by its turn"
        query = self.queries.query(task.id)
        return retriever.search([query], self.passages)[0], query

    def trusted(self, generator: Generator | None) -> bool:
        """Whether a turn tries passages that it was given, however little they look like the question."""
        # Of recorded ones a model judges for itself if there are no vectors.
        judges_itself = self.recorded is not None and generator is not None and self.embed is None
        return self.setting == "reference" or judges_itself

    def listed(self, turn: MtragTurn, weighed: Callable[[list[Hit]], list[Hit]] = lambda hits: hits) -> list[Hit]:
        task = turn.task
        if task.id not in (self.recorded or {}):
            raise NoQuery("the recorded retrieval has no list for it")
        hits = weighed([Hit(passage=passage, score=ref.score) for ref, passage in self._recorded(turn)])
        if self.setting == "reference+rag" and not self.complete:
            hits = _top_up(weighed(_references(task)), hits, self.passages, task.id)
        return hits

    def texts_of(self, task: mtrag.Task, sample: Sample) -> tuple[str, ...] | None:
        """The texts that the system was given: as its file says, else looked up, else the references.

        None if one of them is not known: an answer is not held against a part of what it rests on. Nor are they known
        if another system's file names no passages: it may have been shown some all the same.
        """
        if not sample.contexts:
            if self.setting == "reference":
                return tuple(context.text for context in task.contexts[:MOST_REFERENCES])
            return None if sample.decision is None else ()
        text_of_id = {context.document_id: context.text for context in task.contexts}
        corpus = self.texts.get(task.domain)
        texts: list[str] = []
        for ref in sample.contexts:
            text = ref.text if ref.text is not None else text_of_id.get(ref.document_id)
            if text is None:
                passage = corpus.get(ref.document_id) if corpus is not None else None
                if passage is None:
                    return None
                text = passage.text
            texts.append(text)
        return tuple(texts)

    def with_texts(self, task: mtrag.Task, contexts: Sequence[ContextRef]) -> tuple[ContextRef, ...]:
        """Recorded passages with the texts that their file gave them: the data need not have these."""
        recorded = {ref.document_id: ref for ref in (self.recorded or {}).get(task.id, ()) if ref.text}
        return tuple(
            ref.model_copy(update={"title": source.title, "text": source.text})
            if (source := recorded.get(ref.document_id)) is not None
            else ref
            for ref in contexts
        )

    def _weighed(self, task: mtrag.Task, hits: list[Hit]) -> list[Hit]:
        """Passages that no retriever of ours found, with their cosines: what the turn decides by."""
        if self.embed is None or not hits:
            return hits
        queries = list(dict.fromkeys((task.question, understand(task.history, task.question).rewrite)))
        ranked = {hit.passage.id: hit for hit in ranked_by([hit.passage for hit in hits], queries, self.embed)}
        return [hit.model_copy(update={"found": ranked[hit.passage.id].found}) for hit in hits]

    def _recorded(self, turn: MtragTurn) -> Iterator[tuple[ContextRef, Passage]]:
        assert self.recorded is not None, "asked for only with --passages"
        texts = self.texts.get(turn.task.domain)
        room = self.passages
        for ref in self.recorded.get(turn.task.id, ()):
            if ref.text is not None:
                passage: Passage | None = _passage(ref.document_id, ref.title or "", ref.text)
            else:
                passage = texts.get(ref.document_id) if texts else None
            if passage is not None and ref.document_id not in turn.hidden and room:
                room -= 1
                yield ref, passage


class _ToppedUp(RetrieverWrapper):
    """The references among what the retriever finds next to them."""

    def __init__(self, retriever: Retriever, references: list[Hit], seed: str) -> None:
        super().__init__(retriever)
        self._references, self._seed = references, seed

    def search(self, queries: Sequence[Query], k: int) -> list[list[Hit]]:
        lists = super().search(queries, k + len(self._references))
        return [_top_up(self._references, hits, k, self._seed) for hits in lists]


def _top_up(references: list[Hit], hits: Sequence[Hit], passages: int, seed: str) -> list[Hit]:
    """References and finds, shuffled by the task's id: a reference that is always first would give itself away.

    Scores are those of the order, so that whoever sorts by them keeps it.
    """
    ids = {hit.passage.id for hit in references}
    found_of_id = {hit.passage.id: hit.found for hit in hits}
    updated = [hit.model_copy(update={"found": found_of_id.get(hit.passage.id) or hit.found}) for hit in references]
    others = [hit for hit in hits if hit.passage.id not in ids]
    mixed = updated + others[: max(0, passages - len(updated))]
    scores = sorted((hit.score for hit in mixed), reverse=True)
    random.Random(seed).shuffle(mixed)
    return [hit.model_copy(update={"score": score}) for hit, score in zip(mixed, scores, strict=True)]


def _references(task: mtrag.Task) -> list[Hit]:
    contexts = task.contexts[:MOST_REFERENCES]
    return hits_of([_passage(context.document_id, context.title, context.text) for context in contexts])


def _passage(name: str, title: str, text: str) -> Passage:
    return Passage(id=name, document=name, title=title, text=text, start=0, end=len(text))


def ref_of(hit: Hit) -> ContextRef:
    return ContextRef(document_id=hit.passage.id, score=round(hit.score, 4))


# --- what is known of them before anything is answered ---------------------------------------------------------------


def recorded_file(
    request: EvalRequest, name: mtrag.Benchmark, setting: str, source: Source | None, errors: ErrorCollector
) -> Path | None:
    """The recorded passages that are answered from; of the clone's own file if it is asked for.

    The paper's protocol takes that file if it is there and no other source of passages is named.
    """
    official = request.passages is not None and str(request.passages) == OFFICIAL
    if request.passages is not None and not official:
        return request.passages
    file = mtrag.setting_file(source.root, name, setting) if source is not None else None
    if official and source is not None and file is None and setting in SEARCHING:
        errors.add(
            f"--passages {OFFICIAL}: expected {mtrag.setting_file_name(name, setting)} in {str(source.root)!r}; point "
            f"--data at a clone of {mtrag.REPOSITORY} that has it, or name a file"
        )
    return file if official or (request.protocol == "paper" and not request.query and not request.queries) else None


def relevant_passages(
    root: Path, name: mtrag.Benchmark, domains: Sequence[str]
) -> tuple[dict[str, tuple[str, ...]], dict[str, Path], list[Problem]]:
    """Passages labelled relevant by task; the files that were read for them; what cannot be read there."""
    passages: dict[str, tuple[str, ...]] = {}
    files: dict[str, Path] = {}
    problems: list[Problem] = []
    labelled = mtrag.retrieval_domains(root, name)
    for domain in filter(labelled.__contains__, domains):
        loaded = mtrag.load_qrels(root, name, domain)
        files[f"qrels/{domain}"] = loaded.path
        problems += loaded.problems
        for query, grades in loaded.data.items():
            passages[query] = tuple(passage for passage, grade in grades.items() if grade > 0)
    return passages, files, problems


def check_hidden(
    tasks: Iterable[mtrag.Task],
    relevant: Mapping[str, tuple[str, ...]],
    texts: Mapping[str, CorpusTexts],
    errors: ErrorCollector,
) -> None:
    """MTRAG-S, for one, names passages of FiQA by hashes that no corpus has: nothing could be hidden."""
    for task in tasks:
        names = (*relevant.get(task.id, ()), *(context.document_id for context in task.contexts))
        if any(name in texts.get(task.domain, ()) for name in names):
            return
    errors.add("--counterfactual: no passage of the tasks is in the corpora under its id, so none can be hidden")


def note_unrecorded(
    lists: Mapping[str, Sequence[ContextRef]],
    tasks: Mapping[str, mtrag.Task],
    texts: Mapping[str, CorpusTexts],
    hiding: bool,
    errors: ErrorCollector,
) -> list[str]:
    """Tasks without a list, and recorded passages whose text is not known; lists of other tasks are a mistake."""
    if lists.keys().isdisjoint(tasks):
        errors.add(f"--passages: none of its {len(lists)} queries is a task of the data")
        return []
    notes = note_lacking("--passages: there is no list", lists, tasks)
    refs = [
        (ref, task.domain) for key, task in tasks.items() for ref in lists.get(key, ())[: None if hiding else PASSAGES]
    ]
    unknown = sum(ref.text is None and ref.document_id not in texts.get(domain, ()) for ref, domain in refs)
    what = f"{unknown} of {len(refs)} passages are not in the corpora here; the next ones of their lists replace them"
    return [*notes, *([f"--passages: {what}"] if unknown else [])]


def note_lacking(what: str, known: Collection[str], tasks: Mapping[str, mtrag.Task]) -> list[str]:
    """How many tasks have nothing recorded, and their labels: most of those without an answer."""
    lacking = [task for key, task in tasks.items() if key not in known]
    counts = sorted(Counter(task.answerability or "no label" for task in lacking).items())
    labels = ", ".join(f"{label} {count}" for label, count in counts)
    return [f"{what} for {len(lacking)} of {len(tasks)} tasks ({labels}); they fail"] if lacking else []
