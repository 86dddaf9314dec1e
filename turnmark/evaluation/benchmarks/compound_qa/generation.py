"""Compound-QA's task (sections 3 and 4): answer several questions asked at once, with or without a context.

Nothing is searched: the contexts come with the data. The settings are

- `decompose` (default): with a language model, a question with a context is answered by the assistant's turn, which has
  that context as evidence, and a closed-book question by a prompt of ours. (The paper's prompt, Table 21, lets the
  model consult the context; ours asks for an answer that rests on it.) Without a model, the turn chooses sentences of
  the context for each part and joins them in the order asked; closed-book questions get "I don't know".
- `vanilla`, `cot`, `few-shot`: one call of a model, in the paper's modes (Tables 21, 22).
- `dialogue`: the sub-questions are asked one per turn (section 5, Figure 3).
- `positions`: each Factual-Statement question of three parts is asked in four orders (Tables 3, 20).

With a model, `dialogue` and `positions` use the prompt of `vanilla`; otherwise they use the assistant's turn.

The questions with and without a context come from different sources; the dimension `context` separates them.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

from turnmark.assistant.llm.calls.protocols import EmptyReply, Generator
from turnmark.assistant.llm.prompts.prompt_files import load_prompt
from turnmark.assistant.llm.prompts.structured_output import WrittenText, write_text
from turnmark.assistant.steps.decide import grade_evidence
from turnmark.assistant.steps.understand.compound_questions import split_questions
from turnmark.assistant.steps.understand.understand_rules import understand
from turnmark.assistant.turn.assistant import Assistant
from turnmark.assistant.types import GROUNDED_DECISIONS, Usage
from turnmark.assistant.wording.refusals import is_refusal
from turnmark.core.errors import ErrorCollector, RequestError
from turnmark.corpora.benchmarks import compound_qa
from turnmark.corpora.benchmarks.compound_qa import CompoundQuestion
from turnmark.corpora.jsonl_rows import Source
from turnmark.corpora.types import Message, Problem, exchange
from turnmark.evaluation.benchmarks.compound_qa import answer_modes
from turnmark.evaluation.benchmarks.compound_qa.answer_modes import DIALOGUE, CompoundCase, compound_metrics
from turnmark.evaluation.benchmarks.compound_qa.options import CompoundOptions
from turnmark.evaluation.benchmarks.compound_qa.rubrics import FIRST, FLIPS, WIN_RATE, compound_rubrics, judged_texts
from turnmark.evaluation.metrics.matching import assign_sentences
from turnmark.evaluation.records import Metrics, Sample, SubAnswer
from turnmark.evaluation.report.finished_runs import first_answers, read_run
from turnmark.evaluation.tasks.items import Item
from turnmark.evaluation.tasks.metric import Metric
from turnmark.evaluation.tasks.standard_metrics import (
    LEAD_METRICS,
    PASSAGE_METRICS,
    REFERENCE_METRICS,
    STYLE_METRICS,
    extra_words,
)
from turnmark.evaluation.tasks.task import Task, choose_domains, data_used, hash_prompts
from turnmark.evaluation.tasks.turn_samples import strip_marks, turn_sample, with_steps
from turnmark.retrieval.embedding.vector_cache import cache_by_text
from turnmark.retrieval.search.task_passages import cut_passages, ranked_by

MAX_FLIPS = 0.5
"""Share of samples whose two orders disagree, from which a judge is no better than the toss of a coin."""
References = Mapping[str, tuple[SubAnswer, ...]]
"""Item id -> its sub-questions with their reference answers."""


def read_references(run: Path) -> tuple[Mapping[str, tuple[SubAnswer, ...]], str]:
    """Read the reference answers of sub-questions from a run of the setting `dialogue` (`--references`).

    Returns:
        Item id -> sub-questions with answers, from the first repeat of each finished sample; and the SHA-256 of
        `predictions.jsonl`.
    """
    flag = f"--references {str(run)!r}"
    try:
        stored = read_run(run)
    except RequestError as error:
        raise RequestError([f"--references: {problem}" for problem in error.problems]) from error
    summary = stored.runs[0].summary if stored.runs and not stored.several else None
    if summary is None or (summary.benchmark, summary.setting) != ("compound-qa", DIALOGUE):
        raise RequestError(f"{flag}: name a run of compound-qa in the setting {DIALOGUE}")
    parts_of_id = {name: sample.sub_answers for name, sample in first_answers(run).items()}
    answers_of_id = {name: parts for name, parts in parts_of_id.items() if any(part.answer.strip() for part in parts)}
    if not answers_of_id:
        raise RequestError(f"{flag}: none of its dialogues has an answer")
    return answers_of_id, hashlib.sha256((run / "predictions.jsonl").read_bytes()).hexdigest()


class CompoundQA(Task):
    """The task of Compound-QA; its questions are streamed from the files.

    The bootstrap resamples contexts, because several questions share one. A closed-book question is its own cluster.
    """

    settings = answer_modes.SETTINGS
    options_type = CompoundOptions
    options: CompoundOptions
    rubrics = staticmethod(compound_rubrics)

    source: Source
    references: References = MappingProxyType({})

    def open(self) -> None:
        errors, request = ErrorCollector(), self.request
        self.source = compound_qa.locate(request.data)
        files = compound_qa.files(self.source.root)
        capabilities = dict.fromkeys(file.capability for file in files)
        self.domains = errors.collect(choose_domains, capabilities, request.domains) or ()
        chosen = [file for file in files if file.capability in self.domains]
        known_types = dict.fromkeys(file.type for file in chosen)
        for name in self.options.types:
            if name not in known_types:
                errors.add(f"--types: no type {name!r} in the data; there are: {', '.join(known_types)}")
        if self.setting in answer_modes.PROMPTS and not request.asks_model and not request.scoring:
            errors.add(
                f"--setting {self.setting}: a language model is asked by a prompt of the paper; add --generator "
                "(without one there are decompose, dialogue and positions)"
            )
        references = None
        if self.options.references is not None:
            references = errors.collect(read_references, self.options.references)
        prompt_names = answer_modes.prompts_of(self.setting) if request.asks_model else ()
        self.inputs = errors.collect(hash_prompts, prompt_names, request.assistant.prompts) or {}
        if references is not None:
            self.references, digest = references
            self.inputs = {"references": digest, **self.inputs}
        errors.raise_all()
        self.data = data_used(self.source, {file.shown: file.path for file in files})
        self.specs = {"types": ", ".join(sorted(set(self.options.types)))} if self.options.types else {}
        of_types = [file for file in chosen if not self.options.types or file.type in self.options.types]
        self._several = len({file.capability for file in of_types}) > 1

    def warn_of(self, metrics: Metrics) -> Iterator[str]:
        """Warn of judges whose verdicts carry no information: they depend on the order, or never decide."""
        flips, first, wins = (metrics.get(f"{WIN_RATE}{part}") for part in (FLIPS, FIRST, ""))
        if flips is not None and flips.n and (flips.mean or 0.0) >= MAX_FLIPS:
            count = round((flips.mean or 0.0) * flips.n)
            yield f"win_rate: the orders disagree on {count} of {flips.n}: no information"
        elif wins is not None and wins.n and wins.mean == 1 and first is not None and not first.n:
            yield f"win_rate: both orders of all {wins.n} are ties: no information"

    def note_items(self, ids: Collection[str]) -> Iterator[str]:
        """See `Task.note_items`: `--references` may lack some of the questions, but not all."""
        if self.options.references is None:
            return
        uncovered = [item_id for item_id in ids if not self._references_of(item_id)]
        flag = f"--references {str(self.options.references)!r}"
        if uncovered and len(uncovered) == len(ids):
            raise RequestError(
                f"{flag}: it has answers to the sub-questions of none of the {len(ids)} questions here (such as "
                f"{uncovered[0]!r}); name a run of the same data in the setting {answer_modes.DIALOGUE}"
            )
        if uncovered:
            yield f"{flag} has no answers to {len(uncovered)} of {len(ids)} questions; these have no sub_win_rate"

    def _references_of(self, item_id: str) -> tuple[SubAnswer, ...]:
        """Return the reference answers in the order asked; empty if there are none that fit."""
        order = self._order(item_id)
        references = self.references.get(self.unit(item_id), ())
        if not order:
            return references
        return tuple(references[part] for part in order) if len(references) == len(order) else ()

    @property
    def metrics(self) -> Sequence[Metric[Any]]:  # type: ignore[override]
        """See `Task.metrics`; `part_coverage` needs the embedder."""
        return (
            *compound_metrics(self.embed, self.setting == answer_modes.POSITIONS),
            *REFERENCE_METRICS,
            *PASSAGE_METRICS,
            *LEAD_METRICS,
            *STYLE_METRICS,
            extra_words,
        )

    def stratum(self, item_id: str) -> str:
        return compound_qa.file_of(item_id)

    def unit(self, item_id: str) -> str:
        """See `Task.unit`: the orders of a question are drawn together."""
        return item_id.rpartition("#")[0] if self.setting == answer_modes.POSITIONS else item_id

    def items(self) -> Iterator[Item | Problem]:
        for task in compound_qa.stream_tasks(self.source.root, self.domains, self.options.types):
            if isinstance(task, Problem):
                yield task
            elif self.setting == answer_modes.POSITIONS:
                yield from answer_modes.in_orders(self._item(task))
            else:
                yield self._item(task)

    def _item(self, task: CompoundQuestion) -> Item:
        labels = {
            "capability": (task.capability,),
            "type": (task.type,),
            "context": ("closed-book" if task.context is None else "with",),
        }
        if self._several:  # the cells of Table 2; with a single capability, they are the cells of the types
            labels["capability+type"] = (f"{task.capability}, {task.type}",)
        return Item(
            task.id,
            task,
            task.capability,
            question=task.question,
            reference=task.reference,
            passages={} if task.context is None else {task.id: ("", task.context)},
            labels=labels,
            cluster=hashlib.sha256((task.context or task.id).encode()).hexdigest()[:16],
        )

    def answer(self, item: Item, generator: Generator | None) -> Sample:
        """See `Task.answer`. An empty reply is a sample like any other: it counts in the mean and loses."""
        began = time.perf_counter()
        try:
            return self._answer(item, generator)
        except EmptyReply as error:
            return _sample(item, item.task, "", "answer", error.usage, began, (f"{answer_modes.EMPTY_REPLY}: {error}",))

    def _answer(self, item: Item, generator: Generator | None) -> Sample:
        task: CompoundQuestion = item.task
        if self.setting == answer_modes.DIALOGUE:
            return self._dialogue(item, task, generator)
        if generator is None:
            return self._turn(item, task.question, apart=True)
        if self.setting == answer_modes.DECOMPOSE and task.context is not None:
            sample = self._turn(item, task.question, generator=generator)
        else:
            sample = self._prompted(item, task, generator)
        if self.embed is None:  # only vectors tell which sentences answer which part
            return sample
        parts = split_questions(task.question)
        text = strip_marks(with_steps(sample.prediction or "", sample.procedure), sample)
        answers = assign_sentences(parts, text, self.embed)
        return sample.model_copy(update={"sub_answers": _sub_answers(parts, answers)})

    def context(self, item: Item, sample: Sample) -> CompoundCase:
        task: CompoundQuestion = item.task
        text = with_steps(sample.prediction or "", sample.procedure)
        order, references = self._order(item.id), self._references_of(item.id)
        turns = sample.sub_answers if self.setting == answer_modes.DIALOGUE else ()
        parts = tuple(part.question for part in turns or references) or split_questions(task.question)
        replies = tuple(part.answer for part in turns)
        reference_answers = tuple(part.answer for part in references)
        return CompoundCase(
            question=task.question,
            answer=strip_marks(text, sample),
            reference=task.reference,
            passages=() if task.context is None else (task.context,),
            more=judged_texts(parts, replies, reference_answers, order),
            raw=text,
            decision=sample.decision,
            parts=parts,
            replies=replies,
            order=order,
        )

    def _order(self, item_id: str) -> tuple[int, ...]:
        """See `answer_modes.order_of`. Only `positions` has orders: in other settings an id may end in `#order1` by
        chance.
        """
        return answer_modes.order_of(item_id) if self.setting == answer_modes.POSITIONS else ()

    def _turn(
        self,
        item: Item,
        question: str,
        history: Sequence[Message] = (),
        generator: Generator | None = None,
        apart: bool = False,
    ) -> Sample:
        """Answer by the assistant's turn, with the context as evidence.

        Without a model, the context is trusted for every part if it is similar enough to the full question.
        """
        embed = cache_by_text(self.embed) if self.embed else None
        parts = replace(self.assistant.parts, generator=generator, embed=embed)
        assistant = Assistant.from_parts(self.assistant.config, parts)
        context = item.task.context
        passages = [] if context is None else cut_passages(item.id, "", context)
        hits = ranked_by(passages, (question,), embed)
        trusted = generator is not None
        if not trusted:
            rewrite = understand(history, question).rewrite
            trusted = grade_evidence((question, rewrite), hits, embed).decision in GROUNDED_DECISIONS
        return turn_sample(assistant, item, history, question, hits, trusted, apart)

    def _prompted(self, item: Item, task: CompoundQuestion, generator: Generator) -> Sample:
        """Ask a model once: by our prompt for closed-book questions (`decompose`), or by one of the paper's
        modes.
        """
        began = time.perf_counter()
        reply: WrittenText | answer_modes.ModeReply
        if self.setting == answer_modes.DECOMPOSE:
            compound_prompt = load_prompt("compound", self.assistant.config.prompts)
            reply = write_text(generator, compound_prompt.render(question=task.question))
            note = ""
            if reply.note is not None:
                note = f"the answer is incomplete: it was ended by {reply.finish_reason}"
        else:
            mode = "vanilla" if self.setting == answer_modes.POSITIONS else str(self.setting)
            prompt = answer_modes.prompt_of(mode, task.question, task.context, self.assistant.config.prompts)
            reply = answer_modes.ask_once(generator, prompt, self.request.assistant.generator)
            note = reply.note or ""
        decision = "unknown" if not reply.note and is_refusal(reply.text) else "answer"
        return _sample(item, task, reply.text, decision, reply.usage, began, (note,) if note else ())

    def _dialogue(self, item: Item, task: CompoundQuestion, generator: Generator | None) -> Sample:
        """Ask one sub-question per turn, each with the turns before it.

        With `--references` they are the sub-questions of that run. Otherwise the rules split the question or, with
        `understand=llm`, the model does (Table 18). Replies are kept as written, including "I don't know": the judge
        grades them, as it grades a reply to the full question.
        """
        began = time.perf_counter()
        usage = Usage()
        parts = tuple(part.question for part in self.references.get(item.id, ()))
        if not parts and generator is not None and "understand=llm" in self.assistant.config.steps:
            parts, usage = answer_modes.split_by_model(generator, task.question, self.assistant.config.prompts)
        parts = parts or split_questions(task.question)
        if generator is None:
            turn_samples = self._turns(item, parts)
            decisions = [turn.decision or "answer" for turn in turn_samples]
            texts = [strip_marks(with_steps(turn.prediction or "", turn.procedure), turn) for turn in turn_samples]
            distinct_notes = dict.fromkeys(note for turn in turn_samples for note in turn.notes)
            notes: tuple[str, ...] = tuple(distinct_notes)
        else:
            first_prompt = answer_modes.prompt_of("vanilla", parts[0], task.context, self.assistant.config.prompts)
            replies = answer_modes.ask_dialogue(generator, first_prompt, parts, self.request.assistant.generator)
            texts = [reply.text for reply in replies]
            decisions = ["unknown" if is_refusal(text) else "answer" for text in texts]
            notes = tuple(f"turn {n}: {reply.note}" for n, reply in enumerate(replies, 1) if reply.note)
            usage = sum((reply.usage for reply in replies), usage)
        grounded = [part_decision in GROUNDED_DECISIONS for part_decision in decisions]
        decision = "answer" if all(grounded) else "partial" if any(grounded) else "unknown"
        sample = _sample(item, task, "\n\n".join(texts).strip(), decision, usage, began, notes)
        return sample.model_copy(update={"sub_answers": _sub_answers(parts, texts)})

    def _turns(self, item: Item, parts: Sequence[str]) -> list[Sample]:
        history: list[Message] = []
        replies: list[Sample] = []
        for part in parts:
            replies.append(self._turn(item, part, history))
            history += exchange(part, strip_marks(replies[-1].prediction or "", replies[-1]))
        return replies


def _sample(
    item: Item, task: CompoundQuestion, text: str, decision: str, usage: Usage, began: float, notes: tuple[str, ...]
) -> Sample:
    return Sample(
        id=item.id,
        status="done",
        domain=item.domain,
        query=task.question,
        prediction=text,
        decision=decision,
        notes=notes,
        usage={"answer": usage} if usage != Usage() else {},
        timings={"answer": round(time.perf_counter() - began, 4)},
    )


def _sub_answers(parts: Sequence[str], answers: Sequence[str]) -> tuple[SubAnswer, ...]:
    return tuple(SubAnswer(question=part, answer=text) for part, text in zip(parts, answers, strict=True))
