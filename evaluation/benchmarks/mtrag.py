"""MTRAG's generation task (section 6.1) in its three settings, for MTRAG, MTRAG-UN and MTRAG-S.

`reference`: the passages that the annotators chose; a task without any (unanswerable, conversational) has none.
`reference+rag`: on tasks with at most two of them, topped up to five with what the retriever finds, shuffled by the
task's id. `rag`: the assistant as it ships, over the corpus; by the paper's protocol five passages. The
conversation before the question is the recorded one, and only in `live` the one that the assistant itself held.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, cast

from turnmark.assistant.assistant import Assistant
from turnmark.assistant.generators.base import Generator
from turnmark.assistant.types import Usage
from turnmark.core.errors import ErrorCollector, RequestError, TurnmarkError
from turnmark.core.home import file_sha256
from turnmark.corpora import mtrag
from turnmark.corpora.rows import Source
from turnmark.corpora.text import strip_citations
from turnmark.corpora.types import Message, Problem
from turnmark.evaluation.benchmarks import measures
from turnmark.evaluation.benchmarks import mtrag_data as bench
from turnmark.evaluation.benchmarks import mtrag_passages as shown
from turnmark.evaluation.benchmarks.base import Case, Item, Metric
from turnmark.evaluation.benchmarks.mtrag_data import NoQuery, QuerySource
from turnmark.evaluation.benchmarks.mtrag_passages import MtragTurn
from turnmark.evaluation.benchmarks.mtrag_retrieval import Retrieval
from turnmark.evaluation.benchmarks.task import Task, choose_domains, hash_prompts
from turnmark.evaluation.benchmarks.turns import PASSAGES, prompted_sample, turn_sample
from turnmark.evaluation.judging.mtrag import mtrag_rubrics, un_rubrics
from turnmark.evaluation.judging.rubrics import BERT
from turnmark.evaluation.metrics.idk import unknown_label
from turnmark.evaluation.records import ContextRef, Sample
from turnmark.evaluation.runs.budget import add_usage
from turnmark.evaluation.runs.passages import HIDDEN, OFFICIAL_SEARCH, CorpusTexts, is_official, recorded, samples_file
from turnmark.evaluation.scores.scoring import missing
from turnmark.evaluation.scores.summary import Ranked
from turnmark.retrieval.types import Hit, Retriever

if TYPE_CHECKING:
    from turnmark.evaluation.benchmarks.task import Rubrics

NEEDS_MODEL = "--protocol paper asks a language model by the paper's prompt: add --generator, or leave it out"
LIVE = "live"
"""The setting of `--live`: as `rag`, in conversations that go on from the assistant's own replies. No paper has it."""
SETTINGS = ("reference", *shown.SEARCHING, LIVE)
TOPPED_UP = 2
"""`reference+rag` is for tasks with so many references at most (section 6.1)."""
FEW_REFERENCES = {"references": ("at most two",)}
"""The label of these tasks in the other settings: MTRAG Table 5 has all three on them, conversational ones left out."""
FIRST = 3
"""A pair is in `hidden.auroc` if a relevant passage was among so many that were found before it was hidden."""


class EarlierTurn(TurnmarkError):
    """A turn of a live conversation whose turn before has no answer to go on from."""


def _exchange(question: str, answer: str) -> tuple[Message, Message]:
    answer = strip_citations(answer)
    return Message(role="user", content=question), Message(role="assistant", content=answer)


class Mtrag(Task):
    """The generation task of MTRAG and MTRAG-S."""

    settings = SETTINGS
    flags = ("query", "queries", "passages", "counterfactual")
    brought = BERT
    rubrics: ClassVar[Rubrics] = staticmethod(mtrag_rubrics)
    prompt: ClassVar[str] = "mtrag-answer"
    asks_back: ClassVar[bool] = False

    _data: bench.MtragData
    _shown: shown.Shown
    _relevant: Mapping[str, tuple[str, ...]] = {}

    def open(self) -> None:
        errors, request = ErrorCollector(), self.request
        self._benchmark, self._live = cast(mtrag.Benchmark, request.benchmark), self.setting == LIVE
        self._where = "rag" if self._live else self.setting or SETTINGS[0]
        # By the paper's prompt, without the assistant's turn.
        self._prompted = request.protocol == "paper"
        self.metrics: Sequence[Metric[Any]] = (
            *measures.REFERENCE_METRICS,
            *measures.LEAD_METRICS,
            *measures.PASSAGE_METRICS,
            *measures.STYLE_METRICS,
            *(measures.UNKNOWN_METRICS if self._where == "rag" else ()),
            *(measures.CLARIFY_METRICS if self.asks_back else ()),
        )
        self._sure: dict[tuple[str, int], float] = {}  # confidence if a relevant passage was among the first
        if request.setting is None or request.setting == self.setting:  # else what is meant is not known
            self._check_search_flags(errors)
        source = errors.collect(mtrag.locate, request.data)
        loaded = errors.collect(mtrag.load_tasks, source.root, self._benchmark) if source else None
        passages = (
            None if request.scoring else shown.recorded_file(request, self._benchmark, self._where, source, errors)
        )
        lists = errors.collect(recorded, passages) if passages else None
        if source is None or loaded is None:
            if request.query:
                errors.collect(bench.check_mode, request.query, self._benchmark)
            raise RequestError(errors.problems)
        known = sorted({task.domain for task in loaded.data.values()})
        self.domains = errors.collect(choose_domains, known, request.domains) or ()
        self._data = bench.MtragData(
            benchmark=self._benchmark,
            source=source,
            tasks={key: task for key, task in loaded.data.items() if task.domain in self.domains},
            qrels={key: {} for key in self.domains},
            problems=loaded.problems,
            files={"tasks": loaded.path},
        )
        self._open_passages(source, passages, lists, errors)
        errors.raise_all()

    def _check_search_flags(self, errors: ErrorCollector) -> None:
        request = self.request
        if self._where not in shown.SEARCHING:
            for flag in ("query", "queries", "passages"):
                if getattr(request, flag):
                    errors.add(f"--{flag}: the setting {self.setting} searches for nothing; use --setting rag")
        if self._live and (request.query or request.queries or request.passages or request.protocol == "paper"):
            errors.add("--live asks the assistant itself; leave --query, --queries, --passages and --protocol out")
        if request.counterfactual and self.setting != "rag":
            errors.add("--counterfactual hides passages from the index: it needs --setting rag")
        if request.passages and (request.query or request.queries):
            errors.add("--passages answers from a recorded retrieval, so --query and --queries have no use with it")
        if request.query and request.queries:
            errors.add("--query and --queries name two sources of queries; give one of them")

    def _open_passages(
        self,
        source: Source,
        passages: Path | None,
        lists: Mapping[str, Sequence[ContextRef]] | None,
        errors: ErrorCollector,
    ) -> None:
        request, root = self.request, source.root
        setting_file = mtrag.setting_file(root, self._benchmark, self._where)
        official = passages is not None and setting_file is not None and passages.resolve() == setting_file.resolve()
        searching = self._where in shown.SEARCHING
        if searching and (request.scoring or (lists is not None and official)):
            self.corpora = bench.corpora_there(root, self.domains)
        elif searching:
            self.corpora = errors.collect(bench.find_corpora, root, self.domains) or {}
        mode = request.query or ("file" if request.queries else "assistant")
        queries: QuerySource | None = None
        if searching and not request.scoring and not passages and request.queries:
            queries = errors.collect(bench.read_query_file, request.queries, self._data)
        elif searching and not request.scoring and not passages:
            queries = errors.collect(bench.open_queries, mode, self._data)
        texts = {domain: CorpusTexts(path) for domain, path in self.corpora.items()}
        files, problems = dict(queries.files) if queries else {}, list(queries.problems) if queries else []
        if request.counterfactual:
            self._relevant, read, unread = shown.relevant_passages(root, self._benchmark, self.domains)
            files, problems = {**files, **read}, [*unread, *problems]
            if not request.scoring and texts:
                shown.check_hidden(self._data.tasks.values(), self._relevant, texts, errors)
        self._shown = shown.Shown(
            setting=self._where,
            texts=texts,
            queries=queries if mode != "assistant" else None,
            recorded=lists,
            complete=passages is not None and is_official(passages),
        )
        if self._prompted or self._where != "rag" or lists is not None:
            self.passages = PASSAGES
        used = {} if official else {domain: bench.corpus_used(domain, path) for domain, path in self.corpora.items()}
        tasks = {key: task for key, task in self._data.tasks.items() if self._takes(task)}
        recorded = queries.recorded if queries and queries.fails_without_record else None
        self.notes = (
            *bench.problem_notes(problems),
            *(shown.note_lacking(f"--query {mode}: there is no query", recorded, tasks) if recorded else ()),
            *(shown.note_unrecorded(lists, tasks, texts, request.counterfactual, errors) if lists is not None else ()),
            *bench.corpus_notes(used),
        )
        self.data, self.corpora_used = self._data.used(files), used
        self.searched = searching and not request.scoring and lists is None
        if searching and not request.scoring:
            self.specs = {"query": mode if lists is None else "rewrite" if official else "recorded"}
        if official:
            self.specs = {**self.specs, "passages": OFFICIAL_SEARCH}
        given = {"queries": request.queries, "passages": samples_file(passages) if passages else None}
        files_given = {name: file_sha256(file) for name, file in given.items() if file and file.is_file()}
        self.inputs = {**files_given, **self._prompt_hashes(errors)}

    def _prompt_hashes(self, errors: ErrorCollector) -> dict[str, str]:
        if not self._prompted or self.request.scoring:
            return {}
        if not self.request.asks_model:
            errors.add(NEEDS_MODEL)
        if self.request.steps:
            errors.add("--step is for the steps of the turn, which --protocol paper does without; give one of them")
        return errors.collect(hash_prompts, (self.prompt,), self.request.prompts) or {}

    def _takes(self, task: mtrag.Task, setting: str | None = None) -> bool:
        return (setting or self.setting) != "reference+rag" or len(task.contexts) <= TOPPED_UP

    def _relevant_of(self, task: mtrag.Task) -> frozenset[str]:
        return frozenset(self._relevant.get(task.id, ())) | {context.document_id for context in task.contexts}

    def items(self) -> Iterator[Item | Problem]:
        """See `Task.items`. With `--counterfactual` answerable and partial tasks are there once more.

        Their relevant passages are hidden then. These items stay out of the headline, as CONVERSATIONAL ones do.
        """
        yield from self._data.problems
        before: dict[str, str] = {}  # conversation -> its task before
        for task in self._data.tasks.values():
            if not self._takes(task):
                continue
            item = replace(bench.task_item(task, task.domain), task=MtragTurn(task))
            if self._live:
                item = replace(item, after=before.get(task.conversation))
                before[task.conversation] = task.id
            # In the setting `reference+rag` there are no other tasks.
            few = self._benchmark == "mtrag" and self.setting != "reference+rag" and self._takes(task, "reference+rag")
            yield replace(item, labels={**item.labels, **FEW_REFERENCES}) if few and item.headline else item
            hidden = self._relevant_of(task) if self.request.counterfactual else frozenset()
            if hidden and task.answerability in ("ANSWERABLE", "PARTIAL"):
                labels = {"counterfactual": ("hidden",)}
                turn = MtragTurn(task, hidden)
                yield replace(item, id=task.id + HIDDEN, task=turn, reference="", labels=labels, headline=False)

    def answer(self, item: Item, generator: Generator | None) -> Sample:
        turn: MtragTurn = item.task
        task, passages = turn.task, self._passages
        retriever = passages.retriever(turn)
        if retriever is not None and passages.queries is None:
            assistant = self._assistant(retriever, generator)
            if self._live:
                return self._answer_live(item, assistant)
            if self._prompted and generator is not None:
                return self._prompt_with_findings(item, assistant, generator)
            return turn_sample(assistant, item, task.history, task.question)
        try:
            hits, query = passages.hits(turn, retriever, generator)
        except NoQuery as error:
            # With other passages than asked for, only these tasks, the unanswerable ones, would differ from the rest.
            return missing(item, str(error))
        if self._prompted and generator is not None:
            sample = self._prompt(item, hits, generator)
        else:
            assistant, trusted = self._assistant(None, generator), passages.trusted(generator)
            sample = turn_sample(assistant, item, task.history, task.question, hits, trusted)
        if passages.recorded is not None:
            sample = sample.model_copy(update={"contexts": passages.with_texts(task, sample.contexts)})
        if query is None:
            return sample
        searched = "\n".join(text for text in (query.text, *query.variants) if text != task.question)
        return sample.model_copy(update={"rewrite": searched or None})

    @property
    def _passages(self) -> shown.Shown:
        return replace(
            self._shown,
            retrievers=self.retrievers,
            embed=self.assistant.embed,
            passages=self.passages or self.assistant.passages,
        )

    def _assistant(self, retriever: Retriever | None, generator: Generator | None) -> Assistant:
        assistant = self.assistant.using(retriever, generator)
        if self.passages is not None:
            config = assistant.config.model_copy(update={"passages": self.passages})
            return Assistant(config, retriever=retriever, generator=generator, embed=assistant.embed)
        return assistant

    def _answer_live(self, item: Item, assistant: Assistant) -> Sample:
        """Answer a turn of a conversation that goes on from the assistant's own replies.

        The turns before it are those of its sample before; what has none (MTRAG-UN has the last turns alone) is asked
        now, and not scored.
        """
        task: mtrag.Task = item.task.task
        history: list[Message] = []
        if item.earlier is not None:
            if item.earlier.status != "done" or item.earlier.prediction is None:
                raise EarlierTurn(f"turn {item.after} has no answer to go on from: {item.earlier.reason}")
            history += item.earlier.history or ()
            history += _exchange(item.earlier.query or "", item.earlier.prediction)
        asked = [message.content for message in task.history if message.role == "user"]
        usage: dict[str, Usage] = {}
        for question in asked[len(history) // 2 :]:
            reply = assistant.reply(history, question)
            history += _exchange(question, reply.answer)
            usage = add_usage(usage, reply.usage)
        sample = turn_sample(assistant, item, history, task.question)
        return sample.model_copy(update={"history": tuple(history), "usage": add_usage(usage, sample.usage)})

    def _prompt_with_findings(self, item: Item, assistant: Assistant, generator: Generator) -> Sample:
        """By the paper's prompt, over what the assistant's turn finds."""
        task: mtrag.Task = item.task.task
        findings = assistant.find(task.history, task.question)
        sample = self._prompt(item, findings.hits[:PASSAGES], generator)
        texts = (text for search in findings.searches for text in (search.query, *search.variants))
        rewrite = "\n".join(text for text in dict.fromkeys(texts) if text != task.question)
        return sample.model_copy(update={
            "rewrite": rewrite or None,
            "notes": (*findings.notes, *sample.notes),
            "usage": {**findings.usage, **sample.usage},
            "timings": {**findings.timings, **sample.timings},
        })  # fmt: skip

    def _prompt(self, item: Item, hits: Sequence[Hit], generator: Generator) -> Sample:
        texts = [(hit.passage.title, hit.passage.text) for hit in hits]
        sample = prompted_sample(item, self.prompt, texts, generator, self.assistant.config.prompts)
        # Whether a text asks back is for a judge to say, and not to be taken for an answer until then.
        decision = None if self.asks_back else sample.decision
        return sample.model_copy(update={"contexts": tuple(map(shown.ref_of, hits)), "decision": decision})

    def context(self, item: Item, sample: Sample) -> Case:
        turn: MtragTurn = item.task
        case: Case = super().context(item, sample)
        return replace(
            case,
            history=case.history if sample.history is None else sample.history,
            passages=self._shown.texts_of(turn.task, sample),
            answerability="UNANSWERABLE" if turn.hidden else turn.task.answerability,
        )

    def rankings(self, item: Item, sample: Sample) -> Mapping[str, Ranked]:
        """See `Task.rankings`: `unknown.auroc` and, over pairs, `hidden.auroc`; low confidence means unknown.

        A pair takes part with its second half, so that none is there alone.
        """
        turn: MtragTurn = item.task
        if self._where != "rag" or sample.confidence is None or sample.status != "done":
            return {}
        score, key = -sample.confidence, (turn.task.id, sample.repeat)
        if turn.hidden:
            confidence = self._sure.pop(key, None)
            return {} if confidence is None else {"hidden.auroc": [(False, -confidence), (True, score)]}
        first = {context.document_id for context in sample.contexts[:FIRST]}
        if self.request.counterfactual and first & self._relevant_of(turn.task):
            self._sure[key] = sample.confidence
        positive = unknown_label(turn.task.answerability)
        return {} if positive is None else {"unknown.auroc": (positive, score)}

    def target(self, item: Item) -> Mapping[str, Any] | None:
        """See `Task.target`: with the recorded passages of the setting."""
        fields = super().target(item)
        if fields is None or self.setting == "reference" or self._shown.recorded is None:
            return fields
        passages, task = self._passages, item.task.task
        with suppress(NoQuery):  # without a list nothing says what was shown
            fields = {
                **fields,
                "contexts": passages.with_texts(task, list(map(shown.ref_of, passages.listed(item.task)))),
            }
        return fields


class MtragUn(Mtrag):
    """MTRAG-UN: judges also say whether a reply asks back, and the prompt has a sentence on that (section 3.3)."""

    rubrics = staticmethod(un_rubrics)
    prompt = "mtrag-un-answer"
    asks_back = True


TASKS = (Mtrag, Retrieval)
UN_TASKS = (MtragUn, Retrieval)
