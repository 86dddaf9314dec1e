"""MTRAG's generation task (section 6.1) for MTRAG, MTRAG-UN and MTRAG-S. The settings:

- `reference`: answer from the annotators' passages; unanswerable and conversational tasks have none, and a model is
  asked all the same, so that it can refuse or fail to.
- `reference+rag`: the tasks with at most two such passages, filled up to five with retrieved ones in random order.
- `rag`: the assistant searches the corpus; by the paper's protocol it uses five passages.
- `live`: like `rag`, but the earlier turns have the assistant's own replies instead of the recorded ones.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, cast

from turnmark.assistant.llm.calls.protocols import Generator
from turnmark.assistant.llm.prompts.tool_definitions import is_computed
from turnmark.assistant.turn.assistant import Assistant
from turnmark.assistant.types import Usage
from turnmark.core.errors import ErrorCollector, RequestError
from turnmark.core.home import file_sha256
from turnmark.corpora.benchmarks import mtrag
from turnmark.corpora.jsonl_rows import Source
from turnmark.corpora.text.segmentation import strip_citations
from turnmark.corpora.types import Message, Problem, exchange
from turnmark.evaluation.benchmarks.mtrag import data as bench
from turnmark.evaluation.benchmarks.mtrag import setting_passages as shown
from turnmark.evaluation.benchmarks.mtrag.data import NoQuery, QuerySource
from turnmark.evaluation.benchmarks.mtrag.options import MtragOptions
from turnmark.evaluation.benchmarks.mtrag.retrieval import Retrieval, searched_texts
from turnmark.evaluation.benchmarks.mtrag.rubrics import EMBEDDER, mtrag_rubrics, un_rubrics
from turnmark.evaluation.benchmarks.mtrag.setting_passages import MtragTurn
from turnmark.evaluation.calls.cost_estimates import add_usage
from turnmark.evaluation.judging.rubrics import BERT_METRICS
from turnmark.evaluation.metrics.idk_conditioning import unknown_label
from turnmark.evaluation.records import ContextRef, CorpusUsed, Sample
from turnmark.evaluation.scores.score_tally import RankedOutcome
from turnmark.evaluation.storage.corpus_passages import (
    HIDDEN_SUFFIX,
    OFFICIAL_SEARCH,
    CorpusTexts,
    is_official,
    read_recorded_passages,
    samples_file,
)
from turnmark.evaluation.storage.predictions import Answers, check_predictions
from turnmark.evaluation.storage.submission_format import note_submission
from turnmark.evaluation.tasks import standard_metrics
from turnmark.evaluation.tasks.data_notes import problem_notes
from turnmark.evaluation.tasks.items import Case, Item, missing_sample
from turnmark.evaluation.tasks.metric import Metric
from turnmark.evaluation.tasks.request import EvalRequest, TaskOptions
from turnmark.evaluation.tasks.task import Task, choose_domains, hash_prompts
from turnmark.evaluation.tasks.turn_samples import PAPER_TOP_K, EarlierTurn, prompted_sample, turn_sample
from turnmark.retrieval.embedding.embedders import shared_embedder
from turnmark.retrieval.types import Hit, Retriever

if TYPE_CHECKING:
    from turnmark.evaluation.tasks.task import Rubrics

NEEDS_MODEL = "--protocol paper asks a language model by the paper's prompt: add --generator, or leave it out"
LIVE = "live"
"""The setting of `--live`, which exists in no paper."""
SETTINGS = ("reference", *shown.SEARCHING_SETTINGS, LIVE)
MAX_TOPPED_UP_REFERENCES = 2
"""Maximum number of references of a task in `reference+rag` (section 6.1)."""
FEW_REFERENCES = {"references": ("at most two",)}
"""Label of these tasks in all settings: MTRAG Table 5 compares three settings on them, without conversational tasks."""
MAX_PAIR_RANK = 3
"""Rank up to which a relevant passage must be found before it is hidden, so that its pair counts in `hidden.auroc`."""


class Mtrag(Task):
    """The generation task of MTRAG and MTRAG-S."""

    settings = SETTINGS
    options_type = MtragOptions
    options: MtragOptions
    brought = BERT_METRICS
    has_evaluations = True
    rubrics: ClassVar[Rubrics] = staticmethod(mtrag_rubrics)
    prompt: ClassVar[str] = "mtrag-answer"
    asks_back: ClassVar[bool] = False

    _data: bench.MtragData
    _shown: shown.SettingPassages
    _relevant: Mapping[str, tuple[str, ...]] = {}

    def open(self) -> None:
        errors, request = ErrorCollector(), self.request
        self._benchmark = cast(mtrag.Benchmark, request.benchmark)
        self._live = self.setting == LIVE
        self._source_setting = "rag" if self._live else self.setting or SETTINGS[0]
        # Ask by the paper's prompt, without the assistant's turn.
        self.protocol = self.options.protocol
        self._prompted = self.protocol == "paper"
        self.counterfactual = self.options.counterfactual
        self.recorded = self.options.passages is not None
        self.sequential = self._live
        self.metrics: Sequence[Metric[Any]] = (
            *standard_metrics.REFERENCE_METRICS,
            *standard_metrics.LEAD_METRICS,
            *standard_metrics.PASSAGE_METRICS,
            *standard_metrics.STYLE_METRICS,
            standard_metrics.citation_metrics(shared_embedder(EMBEDDER)),
            *(standard_metrics.UNKNOWN_METRICS if self._source_setting == "rag" else ()),
            *(standard_metrics.CLARIFY_METRICS if self.asks_back else ()),
        )
        self._visible_confidence: dict[tuple[str, int], float] = {}
        """(task id, repeat) -> confidence before a relevant passage was hidden."""
        if request.setting is None or request.setting == self.setting:  # an unknown setting has been reported
            self._check_search_flags(errors)
        source = errors.collect(mtrag.locate, request.data)
        loaded = errors.collect(mtrag.load_tasks, source.root, self._benchmark) if source else None
        passages = None
        if not request.scoring:
            passages = shown.recorded_file(self.options, self._benchmark, self._source_setting, source, errors)
        lists = errors.collect(read_recorded_passages, passages) if passages else None
        if source is None or loaded is None:
            if self.options.query:
                errors.collect(bench.check_mode, self.options.query, self._benchmark)
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
        """Record flags that contradict each other or the setting."""
        options = self.options
        if self._source_setting not in shown.SEARCHING_SETTINGS:
            for flag in ("query", "queries", "passages"):
                if getattr(options, flag):
                    errors.add(f"--{flag}: the setting {self.setting} searches for nothing; use --setting rag")
        if self._live and (options.query or options.queries or options.passages or options.protocol == "paper"):
            errors.add("--live asks the assistant itself; leave --query, --queries, --passages and --protocol out")
        if options.counterfactual and self.setting != "rag":
            errors.add("--counterfactual hides passages from the index: it needs --setting rag")
        if options.passages and (options.query or options.queries):
            errors.add("--passages answers from a recorded retrieval, so --query and --queries have no use with it")
        if options.query and options.queries:
            errors.add("--query and --queries name two sources of queries; give only one")

    def _open_passages(
        self,
        source: Source,
        passages: Path | None,
        lists: Mapping[str, Sequence[ContextRef]] | None,
        errors: ErrorCollector,
    ) -> None:
        """Open corpora, queries and recorded passages, and describe them for the manifest.

        Args:
            passages: the file of recorded passages, or None to search.
            lists: its content, or None if the assistant searches, or if the file could not be read.
        """
        request, root = self.request, source.root
        setting_file = mtrag.setting_file(root, self._benchmark, self._source_setting)
        official = passages is not None and setting_file is not None and passages.resolve() == setting_file.resolve()
        searching = self._source_setting in shown.SEARCHING_SETTINGS
        if searching and (request.scoring or (lists is not None and official)):
            self.corpora = bench.available_corpora(root, self.domains)
        elif searching:
            self.corpora = errors.collect(bench.find_corpora, root, self.domains) or {}
        mode = self.options.query or ("file" if self.options.queries else "assistant")
        queries: QuerySource | None = None
        if searching and not request.scoring and not passages and self.options.queries:
            queries = errors.collect(bench.read_query_file, self.options.queries, self._data)
        elif searching and not request.scoring and not passages:
            queries = errors.collect(bench.open_queries, mode, self._data)
        texts = {domain: CorpusTexts(path) for domain, path in self.corpora.items()}
        files: dict[str, Path] = {}
        problems: list[Problem] = []
        if queries is not None:
            files.update(queries.files)
            problems += queries.problems
        if self.options.counterfactual:
            self._relevant, label_files, label_problems = shown.relevant_passages(root, self._benchmark, self.domains)
            files |= label_files
            problems = [*label_problems, *problems]
            if not request.scoring and texts:
                shown.check_hidden(self._data.tasks.values(), self._relevant, texts, errors)
        self._shown = shown.SettingPassages(
            setting=self._source_setting,
            texts=texts,
            queries=queries if mode != "assistant" else None,
            recorded=lists,
            complete=passages is not None and is_official(passages),
        )
        if self._prompted or self._source_setting != "rag" or lists is not None:
            self.passages = PAPER_TOP_K
        corpora_used: dict[str, CorpusUsed] = {}
        if not official:
            corpora_used = {domain: bench.corpus_used(domain, path) for domain, path in self.corpora.items()}
        tasks = {key: task for key, task in self._data.tasks.items() if self._takes(task)}
        notes = problem_notes(problems)
        if queries and queries.fails_without_record and queries.recorded:
            notes += shown.note_lacking(f"--query {mode}: there is no query", queries.recorded, tasks)
        if lists is not None:
            notes += shown.note_unrecorded(lists, tasks, texts, self.options.counterfactual, errors)
        self.notes = (*notes, *bench.corpus_notes(corpora_used))
        self.data, self.corpora_used = self._data.used(files), corpora_used
        self.searched = searching and not request.scoring and lists is None
        if searching and not request.scoring:
            query_spec = mode
            if lists is not None:
                query_spec = "rewrite" if official else "recorded"
            self.specs = {"query": query_spec}
        if official:
            self.specs = {**self.specs, "passages": OFFICIAL_SEARCH}
        user_files = {"queries": self.options.queries, "passages": samples_file(passages) if passages else None}
        checksums = {role: file_sha256(file) for role, file in user_files.items() if file and file.is_file()}
        self.inputs = {**checksums, **self._prompt_hashes(errors)}

    def _prompt_hashes(self, errors: ErrorCollector) -> dict[str, str]:
        if not self._prompted or self.request.scoring:
            return {}
        if not self.request.asks_model:
            errors.add(NEEDS_MODEL)
        if self.request.assistant.steps:
            errors.add("--step is for the steps of the turn, and --protocol paper runs none; give only one of them")
        return errors.collect(hash_prompts, (self.prompt,), self.request.assistant.prompts) or {}

    def _takes(self, task: mtrag.MtragTask) -> bool:
        return self.setting != "reference+rag" or len(task.contexts) <= MAX_TOPPED_UP_REFERENCES

    def _relevant_of(self, task: mtrag.MtragTask) -> frozenset[str]:
        """Return the ids of the passages that are labeled relevant or are references."""
        return frozenset(self._relevant.get(task.id, ())) | {context.document_id for context in task.contexts}

    def items(self) -> Iterator[Item | Problem]:
        """See `Task.items`. With `--counterfactual`, answerable and partial tasks are repeated without their passages.

        The relevant passages of the repeated items are hidden. Like CONVERSATIONAL tasks, the repeated items do not
        count in the headline.
        """
        yield from self._data.problems
        previous_of: dict[str, str] = {}  # conversation -> its previous task
        for task in self._data.tasks.values():
            if not self._takes(task):
                continue
            item = replace(bench.task_item(task, task.domain), task=MtragTurn(task))
            if self._live:
                item = replace(item, after=previous_of.get(task.conversation))
                previous_of[task.conversation] = task.id
            # In the setting `reference+rag` every task has only a few references.
            few_references = len(task.contexts) <= MAX_TOPPED_UP_REFERENCES and self.setting != "reference+rag"
            if self._benchmark == "mtrag" and few_references and item.headline:
                item = replace(item, labels={**item.labels, **FEW_REFERENCES})
            yield item
            hidden = self._relevant_of(task) if self.options.counterfactual else frozenset()
            if hidden and task.answerability in ("ANSWERABLE", "PARTIAL"):
                labels = {"counterfactual": ("hidden",)}
                turn = MtragTurn(task, hidden)
                yield replace(item, id=task.id + HIDDEN_SUFFIX, task=turn, reference="", labels=labels, headline=False)

    @classmethod
    def fit(cls, request: EvalRequest, errors: ErrorCollector) -> EvalRequest:
        """See `Task.fit`. `--live` is a setting."""
        if not cast(MtragOptions, request.options).live:
            return request
        if request.setting not in (None, "rag", LIVE):
            errors.add(
                f"--live is a separate setting and cannot be combined with --setting {request.setting}; "
                "leave one of them out"
            )
        return request.model_copy(update={"setting": LIVE})

    @classmethod
    def options_for(cls, options: TaskOptions, setting: str | None, answers: Answers) -> TaskOptions:
        """See `Task.options_for`. A run with hidden passages is scored as one."""
        if setting == "rag" and any(sample.id.endswith(HIDDEN_SUFFIX) for sample in answers.samples):
            own = {name: value for name, value in dict(options).items() if name in MtragOptions.model_fields}
            return MtragOptions(**{**own, "counterfactual": True})
        return options

    @classmethod
    def read(cls, paths: Sequence[Path], benchmark: str) -> Answers:
        return check_predictions(paths, benchmark, mtrag.domain_of)

    def note_files(self, paths: Sequence[Path]) -> Iterable[str]:
        subtask = {"reference": "B", "rag": "C"}.get(self.setting or "")
        return note_submission(paths, subtask, self._data.tasks) if subtask else ()

    def describe_corpus(self, name: str, corpus: CorpusUsed) -> str:
        return bench.extent_in_words(name, corpus)

    def doubts(self) -> Mapping[str, str]:
        return bench.doubts_of_tasks(self._benchmark, self._data.tasks.values())

    def answer(self, item: Item, generator: Generator | None) -> Sample:
        turn: MtragTurn = item.task
        task, passages = turn.task, self._passages
        retriever = passages.retriever(turn)
        if retriever is not None and passages.queries is None:
            assistant = self._assistant(retriever, generator)
            if self._live:
                return self._answer_live(item, assistant)
            if self._prompted and generator is not None:
                return self._search_and_prompt(item, assistant, generator)
            return turn_sample(assistant, item, task.history, task.question)
        try:
            hits, query = passages.hits(turn, retriever, generator)
        except NoQuery as error:
            # Passages from another query would make these tasks, most of which are unanswerable, differ from the
            # others.
            return missing_sample(item, str(error))
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
    def _passages(self) -> shown.SettingPassages:
        return replace(
            self._shown,
            retrievers=self.retrievers,
            embed=self.embed,
            passages=self.passages or self.assistant.top_k,
        )

    def _assistant(self, retriever: Retriever | None, generator: Generator | None) -> Assistant:
        assistant = self.assistant.using(retriever, generator)
        if self.passages is not None:
            config = assistant.config.model_copy(update={"top_k": self.passages})
            return Assistant.from_parts(config, assistant.parts)
        return assistant

    def _answer_live(self, item: Item, assistant: Assistant) -> Sample:
        """Answer a turn after the assistant's own replies to the earlier turns.

        The earlier turns come from the sample of the previous task. Turns without a task (MTRAG-UN has tasks only for
        last turns) are answered now, and not scored.
        """
        task: mtrag.MtragTask = item.task.task
        history: list[Message] = []
        if item.earlier is not None:
            if item.earlier.status != "done" or item.earlier.prediction is None:
                raise EarlierTurn(f"turn {item.after} has no answer to continue from: {item.earlier.reason}")
            history += item.earlier.history or ()
            history += exchange(item.earlier.query or "", strip_citations(item.earlier.prediction))
        earlier_questions = [message.content for message in task.history if message.role == "user"]
        answered = len(history) // 2
        usage: dict[str, Usage] = {}
        for question in earlier_questions[answered:]:
            reply = assistant.reply(history, question)
            history += exchange(question, strip_citations(reply.answer))
            usage = add_usage(usage, reply.usage)
        sample = turn_sample(assistant, item, history, task.question)
        return sample.model_copy(update={"history": tuple(history), "usage": add_usage(usage, sample.usage)})

    def _search_and_prompt(self, item: Item, assistant: Assistant, generator: Generator) -> Sample:
        """Ask by the paper's prompt, with the passages that the assistant's turn finds."""
        task: mtrag.MtragTask = item.task.task
        findings = assistant.find(task.history, task.question)
        sample = self._prompt(item, findings.hits[:PAPER_TOP_K], generator)
        rewrite = "\n".join(text for text in searched_texts(findings.searches) if text != task.question)
        return sample.model_copy(update={
            "rewrite": rewrite or None,
            "notes": (*findings.notes, *sample.notes),
            "usage": {**findings.usage, **sample.usage},
            "timings": {**findings.timings, **sample.timings},
        })  # fmt: skip

    def _prompt(self, item: Item, hits: Sequence[Hit], generator: Generator) -> Sample:
        texts = [(hit.passage.title, hit.passage.text) for hit in hits]
        sample = prompted_sample(item, self.prompt, texts, generator, self.assistant.config.prompts)
        # Only a judge can tell whether a text asks back, so it must not be recorded as an answer.
        decision = None if self.asks_back else sample.decision
        return sample.model_copy(update={"contexts": tuple(map(shown.ref_of, hits)), "decision": decision})

    def context(self, item: Item, sample: Sample) -> Case:
        turn: MtragTurn = item.task
        case: Case = super().context(item, sample)
        passages = self._shown.texts_of(turn.task, sample)
        known = [ref for ref in sample.contexts if ref.text is not None or not is_computed(ref.document_id)]
        text_of = {ref.document_id: text for ref, text in zip(known, passages or (), strict=False)}
        cited = [text_of[name] for name in sample.cited if name in text_of]
        return replace(
            case,
            cited=tuple(cited) if len(cited) == len(sample.cited) else (),
            history=case.history if sample.history is None else sample.history,
            own_history=sample.history is not None,
            passages=passages,
            answerability="UNANSWERABLE" if turn.hidden else turn.task.answerability,
        )

    def rankings(self, item: Item, sample: Sample) -> Mapping[str, RankedOutcome]:
        """See `Task.rankings`: `unknown.auroc` and, over pairs, `hidden.auroc`; low confidence means unknown.

        A pair is the item with its passages visible and then hidden. It counts once the second is complete.
        """
        turn: MtragTurn = item.task
        if self._source_setting != "rag" or sample.confidence is None or sample.status != "done":
            return {}
        score, key = -sample.confidence, (turn.task.id, sample.repeat)
        if turn.hidden:
            confidence = self._visible_confidence.pop(key, None)
            return {} if confidence is None else {"hidden.auroc": [(False, -confidence), (True, score)]}
        first_passages = {context.document_id for context in sample.contexts[:MAX_PAIR_RANK]}
        if self.options.counterfactual and first_passages & self._relevant_of(turn.task):
            self._visible_confidence[key] = sample.confidence
        positive = unknown_label(turn.task.answerability)
        return {} if positive is None else {"unknown.auroc": (positive, score)}

    def found(self, item: Item) -> Sample:
        if self.setting == "reference" or self._live:
            return super().found(item)
        turn, passages = item.task, self._passages
        retriever = passages.retriever(turn)
        hits: Sequence[Hit]
        try:
            if retriever is not None and passages.queries is None:
                assistant = self._assistant(retriever, None)
                hits = assistant.find(turn.task.history, turn.task.question).hits[: assistant.top_k]
            else:
                hits, _ = passages.hits(turn, retriever, None)
        except NoQuery as error:
            return missing_sample(item, str(error))
        refs = tuple(map(shown.ref_of, hits))
        if passages.recorded is not None:
            refs = passages.with_texts(turn.task, refs)
        return Sample(id=item.id, status="done", domain=item.domain, contexts=refs)


class MtragUn(Mtrag):
    """The generation task of MTRAG-UN: judges also grade clarification, and the prompt mentions it (section 3.3)."""

    rubrics = staticmethod(un_rubrics)
    prompt = "mtrag-un-answer"
    asks_back = True


TASKS = (Mtrag, Retrieval)
UN_TASKS = (MtragUn, Retrieval)
