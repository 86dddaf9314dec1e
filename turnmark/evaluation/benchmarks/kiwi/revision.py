"""KIWI's revision task (section 2): revise a long answer as an instruction says, with the passages of the turn.

Each turn starts from the recorded previous answer or, with `--chain`, from our own; a language model then also writes
the first answer. As in the paper, the model sees only the previous answer and no earlier turns. The evidence is the
first of these that the data have: the passages recorded for the turn, those recorded for the session, or the five
paragraphs of the companion file most similar to instruction and question (the paper also retrieves five, appendix A.1).
An instruction seeks information if the user ticked so, where the data record it. Models answer at the paper's
temperature unless their spec sets another.

The metrics measure what the revision changed in the previous answer (Table 6). There is no ROUGE against the recorded
revision, even if the user accepted it: that is one of many good revisions, written by another model, and an unchanged
answer is already close to it, so ROUGE would reward doing nothing. A judge says whether the instruction was followed
(`turnmark.evaluation.benchmarks.kiwi.rubrics`).
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from turnmark.assistant.citations.not_stated_mark import write_answer
from turnmark.assistant.llm.calls.protocols import Generator, GeneratorError
from turnmark.assistant.llm.prompts.context_budget import fit_prompt, prompt_room
from turnmark.assistant.llm.prompts.structured_output import merge_roles, write_text
from turnmark.assistant.steps.answer.answer_llm import answer_prompt
from turnmark.assistant.steps.revise.edit_rules import apply_requests
from turnmark.assistant.steps.understand.edit_requests import edit_requests
from turnmark.assistant.types import Understanding, Usage
from turnmark.assistant.wording.reply_texts import NEEDS_MODEL_TEXT
from turnmark.core.errors import ErrorCollector, RequestError
from turnmark.corpora.benchmarks import kiwi
from turnmark.corpora.benchmarks.kiwi import KiwiTurn, Session
from turnmark.corpora.text.segmentation import strip_citations
from turnmark.corpora.types import Message, Passage
from turnmark.evaluation.benchmarks.kiwi.analysis import KiwiAnalyse
from turnmark.evaluation.benchmarks.kiwi.judge_task import KiwiJudge
from turnmark.evaluation.benchmarks.kiwi.kiwi_task import (
    EDIT_METRICS,
    EDITS_AS_WRITTEN,
    EDITS_SHOWN,
    Instruction,
    KiwiTask,
    accepted_answer,
    measure_edits,
)
from turnmark.evaluation.benchmarks.kiwi.rubrics import INSTRUCTION, PREVIOUS, kiwi_rubrics, operations, type_of
from turnmark.evaluation.calls.generator_wrappers import with_temperature
from turnmark.evaluation.prompts import JUDGES
from turnmark.evaluation.records import ContextRef, Metrics, Sample
from turnmark.evaluation.tasks.items import Case, Item
from turnmark.evaluation.tasks.metric import Metric, Value
from turnmark.evaluation.tasks.standard_metrics import answer_words
from turnmark.evaluation.tasks.turn_samples import EarlierTurn, with_title
from turnmark.retrieval.embedding.vector_cache import Embed, cache_by_list
from turnmark.retrieval.search.task_passages import hits_of, ranked_by
from turnmark.retrieval.types import Hit

MAX_SHOWN_PASSAGES = 5
"""Maximum number of passages in the prompt of a revision, and of paragraphs from the companion file."""
TEMPERATURE = 0.7
"""Sampling temperature of the models that revise (section 3.2)."""
FIRST_PROMPT, INFORMATION_PROMPT, REWRITE_PROMPT = "kiwi-first", "kiwi-information", "kiwi-rewrite"
PROMPTS = (FIRST_PROMPT, INFORMATION_PROMPT, REWRITE_PROMPT)
NEEDS_MODEL = "--protocol paper asks a language model by the paper's prompts: add --generator, or leave it out"


@dataclass(frozen=True)
class RewrittenAnswer:
    """An answer that a model or the rules wrote, with its usage and notes."""

    text: str
    usage: Usage
    notes: tuple[str, ...] = ()


def _edits(case: Case) -> Mapping[str, Value]:
    return measure_edits(case.answer, dict(case.more)[PREVIOUS])


class Kiwi(KiwiTask):
    """The task `revise`: each turn of KIWI is a revision to make. The bootstrap resamples the sessions' questions."""

    name = "revise"
    rubrics = staticmethod(kiwi_rubrics)
    metrics: Sequence[Metric[Case]] = (
        Metric(
            names=EDIT_METRICS,
            by=EDITS_AS_WRITTEN,
            measure=_edits,
            without="the previous answer has no word",
            shown=EDITS_SHOWN,
        ),
        answer_words,
    )

    def open_turns(self) -> tuple[tuple[str, ...], list[str]]:
        errors, request = ErrorCollector(), self.request
        self.chain = self.options.chain
        self.protocol, self.sequential = self.options.protocol, self.chain
        self.paper = self.protocol == "paper"
        if self.chain:
            self._check_chain(errors)
        if self.paper and not (request.asks_model or request.scoring):
            errors.add(NEEDS_MODEL)
        if self.paper and request.assistant.steps:
            errors.add("--step is for the steps of the turn, and --protocol paper runs none; give only one of them")
        errors.raise_all()
        notes: list[str] = []
        if self.chain:
            stripped = "" if self.paper else ", its marks stripped"
            notes.append(f"each turn starts from our own previous revision{stripped}")
            if not request.asks_model:
                notes.append("rules write no first answer: sessions begin with the recorded one")
            self.specs = {"chain": "our own answers"}
        if self.paper:
            return PROMPTS, notes
        return ((FIRST_PROMPT,) if self.chain else ()), notes

    def open(self) -> None:
        super().open()
        if self.request.asks_model:
            self.inputs = {**self.inputs, "temperature": f"{TEMPERATURE:g}, unless the spec names one"}

    def warn_of(self, metrics: Metrics) -> Iterator[str]:
        """See `Task.warn_of`. Without a model, most instructions cannot be carried out, and the answer is copied."""
        edits = metrics.get("edit_distance")
        if edits is not None and edits.n and edits.mean == 0:
            yield f"all {edits.n} revisions are copies of the answer before them, and Table 6 describes copies"

    @cached_property
    def _embed(self) -> Embed | None:
        return cache_by_list(self.embed) if self.embed else None

    def _check_chain(self, errors: ErrorCollector) -> None:
        """Record mistakes of `--sample` and `--only` that would leave a chained session with gaps."""
        if self.request.sample is not None:
            errors.add("--sample draws single turns, and a chain needs those before them; use --limit, or --only")
        for name in self.request.only:
            session, _, turn = name.partition("/")
            if not turn.isdecimal() or int(turn) == 0:
                continue
            before = f"{session}/{int(turn) - 1}"
            if before not in self.request.only:
                errors.add(f"--only {name}: a chain needs the turn before it, too: {before}")

    def answer(self, item: Item, generator: Generator | None) -> Sample:
        began = time.perf_counter()
        task: Instruction = item.task
        turn = task.turn
        if generator is not None:
            generator = with_temperature(generator, TEMPERATURE)
        hits = self._evidence(task)
        previous, first_usage = self._previous(item, generator)
        if self.paper:
            revision, hits = self._revise_as_paper(task, generator, previous, hits)
        else:
            revision = self._revise(task, generator, previous, hits)
        changes = operations(previous, revision.text)
        usage_of_role = {"first_answer": first_usage, "revise": revision.usage}
        return Sample(
            id=item.id,
            status="done",
            query=turn.instruction,
            contexts=tuple(ContextRef(document_id=hit.passage.id, score=round(hit.score, 4)) for hit in hits),
            prediction=revision.text,
            turn=turn.turn,
            previous=previous,
            operations=tuple(change.model_dump(mode="json") for change in changes),
            notes=revision.notes,
            usage={role: usage for role, usage in usage_of_role.items() if usage != Usage()},
            timings={"revise": round(time.perf_counter() - began, 4)},
        )

    def _revise(
        self, task: Instruction, generator: Generator | None, previous: str, hits: Sequence[Hit]
    ) -> RewrittenAnswer:
        """Revise by the assistant's model or, without one, by its rules."""
        instruction = task.turn.instruction
        if generator is None:
            text = apply_requests(strip_citations(previous), edit_requests(instruction))
            if not text:
                return RewrittenAnswer(previous, Usage(), (f"left as it was: {NEEDS_MODEL_TEXT}",))
            return RewrittenAnswer(text, Usage())
        history = [Message(role="user", content=task.session.question)]
        prompts = self.assistant.config.prompts
        about = Understanding(kind="revision", rewrite=instruction, sub_questions=(instruction,))
        shown = hits[:MAX_SHOWN_PASSAGES]
        bare = strip_citations(previous)
        prompt, notes = answer_prompt(generator, about, instruction, history, shown, prompts, bare)
        reply, answer = write_answer(generator, prompt, len(shown))
        if reply.note:
            notes = [*notes, reply.note]
        return RewrittenAnswer(answer.text or previous, reply.usage, tuple(notes))

    def _revise_as_paper(
        self, task: Instruction, generator: Generator | None, previous: str, hits: list[Hit]
    ) -> tuple[RewrittenAnswer, list[Hit]]:
        """Revise by the paper's prompts; return the revision and the passages that the model was shown."""
        if generator is None:
            raise RequestError(NEEDS_MODEL)
        turn, best = task.turn, hits[:MAX_SHOWN_PASSAGES]
        seeks = (turn.coarse or type_of(turn.instruction).coarse) == "information-seeking"
        revision = rewrite_as_paper(
            generator, task.session.question, previous, turn.instruction, best, seeks, self.assistant.config.prompts
        )
        if not turn.coarse:
            note = "the data do not say whether it seeks information; rules decide"
            revision = replace(revision, notes=(*revision.notes, note))
        return revision, best if seeks else []

    def _previous(self, item: Item, generator: Generator | None) -> tuple[str, Usage]:
        """Return the answer that a turn starts from, and the usage of writing it."""
        task: Instruction = item.task
        if not self.chain:
            return task.turn.previous, Usage()
        if item.earlier is not None:
            if item.earlier.status != "done" or item.earlier.prediction is None:
                raise EarlierTurn(f"turn {item.after} has no answer to continue from: {item.earlier.reason}")
            return self._shown(item.earlier.prediction), Usage()
        # Only an estimate asks for a later turn without the turns before it; rules write no first answer.
        is_later_turn = task.turn.turn > 0
        if is_later_turn or generator is None:
            return task.turn.previous, Usage()
        question, hits = task.session.question, self._session_hits(task.session)
        first_reply = first_answer(generator, question, hits[:MAX_SHOWN_PASSAGES], self.assistant.config.prompts)
        return self._shown(first_reply.text), first_reply.usage

    def _shown(self, answer: str) -> str:
        """Return our own answer in the form that the next turn sees.

        The paper's models saw citation marks. Our turn does not, since it adds new ones.
        """
        return answer if self.paper else strip_citations(answer)

    def context(self, item: Item, sample: Sample) -> Case:
        """See `Task.context`. Both answers keep their citation marks, because instructions may be about them.

        The previous answer is the recorded one; in a chain, the one in the sample.
        """
        turn: KiwiTurn = item.task.turn
        previous = sample.previous if self.chain and sample.previous is not None else turn.previous
        texts = ((PREVIOUS, previous), (INSTRUCTION, turn.instruction))
        return Case(question=item.task.session.question, answer=sample.prediction or "", more=texts)

    def target(self, item: Item) -> Mapping[str, Any] | None:
        """See `Task.target`: the answer that the user accepted."""
        turn: KiwiTurn = item.task.turn
        accepted = accepted_answer(turn)
        if accepted is None:
            return None
        changes = tuple(operation.model_dump(mode="json") for operation in operations(turn.previous, accepted))
        fields = {"query": turn.instruction, "prediction": accepted, "turn": turn.turn, "previous": turn.previous}
        return {**fields, "operations": changes}

    def _evidence(self, task: Instruction) -> list[Hit]:
        session, turn = task.session, task.turn
        if turn.passages:
            return hits_of(_passages(turn.passages, f"{turn.id}#passage"))
        return self._session_hits(session, turn.instruction)

    def _session_hits(self, session: Session, *queries: str) -> list[Hit]:
        """Return the passages recorded for a session, or the paragraphs of its papers most similar to the queries."""
        if session.passages:
            return hits_of(_passages(session.passages, f"{session.index}#passage"))
        if session.papers is None:
            return []
        paragraphs = _passages(session.papers.paragraphs, f"{session.index}#paragraph")
        return ranked_by(paragraphs, (*queries, session.question), self._embed)[:MAX_SHOWN_PASSAGES]


def _passages(texts: Sequence[kiwi.PaperPassage], document: str) -> list[Passage]:
    """Convert passages of the data to passages of one document, numbered from 1, since the data have no ids."""
    passages: list[Passage] = []
    start = 0
    for number, source in enumerate(texts, 1):
        end = start + len(source.text)
        name = f"{document}-{number}"
        passages.append(Passage(id=name, document=document, title=source.title, text=source.text, start=start, end=end))
        start = end
    return passages


# --- the paper's way (section 2.2, appendix A.1): the complete answer is rewritten, with plain prompts ----------------


def first_answer(
    generator: Generator, question: str, hits: Sequence[Hit], prompts: Path | None = None
) -> RewrittenAnswer:
    """Write the first answer of a session from the passages found for its question."""
    return _ask(generator, FIRST_PROMPT, {"question": question}, hits, prompts)


def rewrite_as_paper(
    generator: Generator,
    question: str,
    previous: str,
    instruction: str,
    hits: Sequence[Hit],
    seeks_information: bool,
    prompts: Path | None = None,
) -> RewrittenAnswer:
    """Write the complete revised answer; the reply is not post-processed.

    An instruction that seeks information takes two calls: the first summarizes what the passages say about it, the
    second puts that into the answer. Any other instruction takes one call.

    Args:
        hits: passages for the instruction, best first; shown only if it seeks information.
        prompts: folder with the user's own prompts.
    """
    texts = {"previous": previous, "instruction": instruction}
    if not seeks_information:
        return _ask(generator, REWRITE_PROMPT, {"question": question, **texts, "information": ""}, (), prompts)
    summary = _ask(generator, INFORMATION_PROMPT, texts, hits, prompts)
    try:
        texts |= {"question": question, "information": summary.text}
        rewrite = _ask(generator, REWRITE_PROMPT, texts, (), prompts)
    except GeneratorError as error:
        raise GeneratorError(error.kind, str(error), summary.usage + error.usage) from error
    return RewrittenAnswer(rewrite.text, summary.usage + rewrite.usage, (*summary.notes, *rewrite.notes))


def _ask(
    generator: Generator, name: str, texts: Mapping[str, str], hits: Sequence[Hit], prompts: Path | None
) -> RewrittenAnswer:
    prompt = JUDGES.load(name, prompts)
    # A bare prompt shows passages in the form of the paper (appendix A.1).
    format_passage = "Paper title: {}\nPassage: {}".format if prompt.bare else with_title
    passages = [format_passage(hit.passage.title, hit.passage.text) for hit in hits]
    nonempty_texts = {key: text or None for key, text in texts.items()}
    fitted = fit_prompt(prompt, prompt_room(generator), nonempty_texts, passages)
    if fitted is None:
        reason = f"question, answer and instruction do not fit into the context of {generator.name}"
        raise GeneratorError("bad_request", reason)
    reply = write_text(generator, merge_roles(fitted.messages))
    notes = (*fitted.notes, reply.note) if reply.note else fitted.notes
    return RewrittenAnswer(reply.text, reply.usage, tuple(notes))


TASKS = (Kiwi, KiwiJudge, KiwiAnalyse)
