"""KIWI's revision task (section 2): carry out a writing instruction on a long answer, with the passages at hand.

Each turn starts from the recorded answer before it, whatever we made of the turn before; with `chain`, from ours, and a
language model then writes the first answer, too. Only that one answer is shown, no history, as in the paper.
The evidence is what was retrieved for the turn, else what was retrieved for the session, else the five paragraphs of
the companion file that fit instruction and question best (the paper, too, retrieves five, appendix A.1), else nothing.
Whether an instruction seeks information is what the user ticked, where the data has it. Models answer at the paper's
temperature unless their spec names another.

Measured is what the revision changed (table 6), against the answer before it. There is no ROUGE against the recorded
revision, even where a user accepted it: it is one of many good ones, made by another model, and an answer left as it
was comes close to it anyway, so the figure would reward doing nothing. Whether an instruction was followed is for a
judge to say (`turnmark.evaluation.judging.kiwi`).
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from turnmark.assistant.asking import merge_roles, write_text
from turnmark.assistant.budget import fit_prompt, room_for
from turnmark.assistant.generators.base import Generator, GeneratorError
from turnmark.assistant.steps.requests import edit_request
from turnmark.assistant.steps.revise import TAKES_A_MODEL, apply_request, revise_by_model
from turnmark.assistant.types import Usage
from turnmark.core.errors import ErrorCollector, RequestError, TurnmarkError
from turnmark.corpora import kiwi
from turnmark.corpora.kiwi import Session, Turn
from turnmark.corpora.text import strip_citations
from turnmark.corpora.types import Message, Passage, Problem
from turnmark.evaluation.benchmarks.base import Case, Item, Metric, Value
from turnmark.evaluation.benchmarks.kiwi_analyse import KiwiAnalyse
from turnmark.evaluation.benchmarks.kiwi_judge import KiwiJudge
from turnmark.evaluation.benchmarks.kiwi_turns import (
    EDITS_AS_WRITTEN,
    EDITS_SHOWN,
    Instruction,
    KiwiTask,
    is_good,
    turn_item,
)
from turnmark.evaluation.benchmarks.measures import ANSWER_WORDS
from turnmark.evaluation.benchmarks.turns import titled
from turnmark.evaluation.judging.kiwi import INSTRUCTION, PREVIOUS, kiwi_rubrics, operations, type_of
from turnmark.evaluation.metrics import overlap
from turnmark.evaluation.prompts import JUDGES
from turnmark.evaluation.records import ContextRef, Sample
from turnmark.evaluation.runs.limits import with_temperature
from turnmark.retrieval.task_passages import Embed, by_list, hits_of, ranked_by
from turnmark.retrieval.types import Hit

PARAGRAPHS = 5
"""Paragraphs of the companion file that are evidence, where nothing was recorded."""
TEMPERATURE = 0.7
"""Of the models that revise (section 3.2)."""
FIRST, INFORMATION, REWRITE = "kiwi-first", "kiwi-information", "kiwi-rewrite"
PROMPTS = (FIRST, INFORMATION, REWRITE)
NEEDS_MODEL = "--protocol paper asks a language model by the paper's prompts: add --generator, or leave it out"


@dataclass(frozen=True)
class Rewritten:
    """An answer as a model wrote it, what it took, and what is to be noted."""

    text: str
    usage: Usage
    notes: tuple[str, ...] = ()


class EarlierTurn(TurnmarkError):
    """A turn of a chained session whose earlier turn has no answer to go on from."""


def _edits(case: Case) -> Mapping[str, Value]:
    answer, previous = case.answer, dict(case.more)[PREVIOUS]
    return {
        "length_ratio": overlap.length_ratio(answer, previous),
        "edit_distance": overlap.edit_distance(answer, previous),
        "edit_ratio": overlap.edit_ratio(answer, previous),
    }


class Kiwi(KiwiTask):
    """KIWI's turns, each a revision to make. Intervals resample sessions."""

    name = "revise"
    rubrics = staticmethod(kiwi_rubrics)
    metrics: Sequence[Metric[Case]] = (
        Metric(
            ("length_ratio", "edit_distance", "edit_ratio"),
            EDITS_AS_WRITTEN,
            _edits,
            "the previous answer has no word",
            EDITS_SHOWN,
        ),
        ANSWER_WORDS,
    )

    def open_turns(self) -> tuple[tuple[str, ...], list[str]]:
        errors, request, model = ErrorCollector(), self.request, self.request.asks_model
        # From our own revisions, not from the recorded ones; complete answers by the paper's prompts (`kiwi_turns`).
        self.chain, self.paper = request.chain, request.protocol == "paper"
        if self.chain:
            self._check_chain(errors)
        if self.paper and not (model or request.scoring):
            errors.add(NEEDS_MODEL)
        if self.paper and request.steps:
            errors.add("--step is for the steps of the turn, which --protocol paper does without; give one of them")
        errors.raise_all()
        stripped = "" if self.paper else ", its marks stripped"
        notes = [f"each turn starts from our own revision before it{stripped}"] if self.chain else []
        if self.chain and not model:
            notes.append("rules write no first answer: sessions begin with the recorded one")
        self.specs = {"chain": "our own answers"} if self.chain else {}
        return (PROMPTS if self.paper else (FIRST,) * self.chain), notes

    def open(self) -> None:
        super().open()
        if self.request.asks_model:
            self.inputs = {**self.inputs, "temperature": f"{TEMPERATURE:g}, unless the spec names one"}

    @cached_property
    def _embed(self) -> Embed | None:
        return by_list(self.assistant.embed) if self.assistant.embed else None

    def _check_chain(self, errors: ErrorCollector) -> None:
        """Record what of a selection would break a session that goes on from its own answers."""
        if self.request.sample is not None:
            errors.add("--sample draws single turns, and a chain needs those before them; use --limit, or --only")
        for name in self.request.only:
            session, _, turn = name.partition("/")
            before = f"{session}/{int(turn) - 1}" if turn.isdecimal() and int(turn) else name
            if before not in self.request.only:
                errors.add(f"--only {name}: a chain needs the turn before it, too: {before}")

    def items(self) -> Iterator[Item | Problem]:
        for session in kiwi.stream_sessions(self.source.root):
            if isinstance(session, Problem):
                yield session
                continue
            turn_before: str | None = None
            for turn in session.turns:
                yield turn_item(Instruction(session, turn), after=turn_before)
                turn_before = turn.id if self.chain else None

    def answer(self, item: Item, generator: Generator | None) -> Sample:
        began = time.perf_counter()
        task: Instruction = item.task
        turn = task.turn
        if generator is not None:
            generator = with_temperature(generator, TEMPERATURE)
        hits = self._evidence(task)
        previous, used = self._previous(item, generator)
        if self.paper:
            revision, hits = self._rewritten(task, generator, previous, hits)
        else:
            revision = self._revised(task, generator, previous, hits)
        changes = operations(previous, revision.text)
        roles = {"first_answer": used, "revise": revision.usage}
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
            usage={role: usage for role, usage in roles.items() if usage != Usage()},
            timings={"revise": round(time.perf_counter() - began, 4)},
        )

    def _revised(self, task: Instruction, generator: Generator | None, previous: str, hits: Sequence[Hit]) -> Rewritten:
        instruction = task.turn.instruction
        if generator is None:
            request = edit_request(instruction)
            text = apply_request(strip_citations(previous), request) if request else ""
            return Rewritten(text or previous, Usage(), () if text else (f"left as it was: {TAKES_A_MODEL}",))
        asked, prompts = [Message(role="user", content=task.session.question)], self.assistant.config.prompts
        reply, notes = revise_by_model(generator, asked, previous, instruction, hits[:PARAGRAPHS], prompts)
        return Rewritten(reply.text, reply.usage, (*notes, *([reply.note] if reply.note else [])))

    def _rewritten(
        self, task: Instruction, generator: Generator | None, previous: str, hits: list[Hit]
    ) -> tuple[Rewritten, list[Hit]]:
        """The revision as the paper's prompts ask for it, and the passages that the model was shown."""
        if generator is None:
            raise RequestError(NEEDS_MODEL)
        turn, best = task.turn, hits[:PARAGRAPHS]
        seeks = (turn.coarse or type_of(turn.instruction).coarse) == "information-seeking"
        revision = rewrite_as_paper(
            generator, task.session.question, previous, turn.instruction, best, seeks, self.assistant.config.prompts
        )
        if not turn.coarse:
            note = "the data do not say whether it seeks information: by rules"
            revision = replace(revision, notes=(*revision.notes, note))
        return revision, best if seeks else []

    def _previous(self, item: Item, generator: Generator | None) -> tuple[str, Usage]:
        """The answer that a turn starts from, and what it took to write it."""
        task: Instruction = item.task
        if not self.chain:
            return task.turn.previous, Usage()
        if item.earlier is not None:
            if item.earlier.status != "done" or item.earlier.prediction is None:
                raise EarlierTurn(f"turn {item.after} has no answer to go on from: {item.earlier.reason}")
            return self._shown(item.earlier.prediction), Usage()
        # Only an estimate asks for a later turn by itself; rules write no answer.
        if task.turn.turn or generator is None:
            return task.turn.previous, Usage()
        question, hits = task.session.question, self._of_session(task.session)
        first_reply = first_answer(generator, question, hits[:PARAGRAPHS], self.assistant.config.prompts)
        return self._shown(first_reply.text), first_reply.usage

    def _shown(self, answer: str) -> str:
        """An answer of ours as the next turn sees it: the paper's models saw their marks, our turn numbers its own."""
        return answer if self.paper else strip_citations(answer)

    def context(self, item: Item, sample: Sample) -> Case:
        """See `Task.context`; both answers as written, since instructions may be about citation marks.

        The previous answer is the recorded one, whatever a file of predictions says; in a chain, that of the sample.
        """
        turn: Turn = item.task.turn
        previous = sample.previous if self.chain and sample.previous is not None else turn.previous
        texts = ((PREVIOUS, previous), (INSTRUCTION, turn.instruction))
        return Case(question=item.task.session.question, answer=sample.prediction or "", more=texts)

    def target(self, item: Item) -> Mapping[str, Any] | None:
        """See `Task.target`: the answer that the user accepted."""
        turn: Turn = item.task.turn
        accepted = turn.edit or (turn.answer if is_good(turn.rating) else None)
        if accepted is None:
            return None
        changes = tuple(operation.model_dump(mode="json") for operation in operations(turn.previous, accepted))
        fields = {"query": turn.instruction, "prediction": accepted, "turn": turn.turn, "previous": turn.previous}
        return {**fields, "operations": changes}

    def _evidence(self, task: Instruction) -> list[Hit]:
        session, turn = task.session, task.turn
        if turn.passages:
            return hits_of(_passages(turn.passages, f"{turn.id}#passage"))
        return self._of_session(session, turn.instruction)

    def _of_session(self, session: Session, *queries: str) -> list[Hit]:
        if session.passages:
            return hits_of(_passages(session.passages, f"{session.index}#passage"))
        if session.papers is None:
            return []
        paragraphs = _passages(session.papers.paragraphs, f"{session.index}#paragraph")
        return ranked_by(paragraphs, (*queries, session.question), self._embed)[:PARAGRAPHS]


def _passages(texts: Sequence[kiwi.Passage], document: str) -> list[Passage]:
    """Passages of the data as ours, one after the other in one document; ids count from 1, since the data has none."""
    passages: list[Passage] = []
    start = 0
    for number, source in enumerate(texts, 1):
        end = start + len(source.text)
        name = f"{document}-{number}"
        passages.append(Passage(id=name, document=document, title=source.title, text=source.text, start=start, end=end))
        start = end
    return passages


# --- as the paper has it (section 2.2, appendix A.1): the complete answer is written anew, by plain prompts ----------


def first_answer(generator: Generator, question: str, hits: Sequence[Hit], prompts: Path | None = None) -> Rewritten:
    """The answer that a session begins with, from the passages found for the question."""
    return _reply(generator, FIRST, {"question": question}, hits, prompts)


def rewrite_as_paper(
    generator: Generator,
    question: str,
    previous: str,
    instruction: str,
    hits: Sequence[Hit],
    seeks_information: bool,
    prompts: Path | None = None,
) -> Rewritten:
    """The answer revised as instructed, written anew; the reply is taken as it is.

    An instruction that seeks information takes two calls: what the passages say to it, then the answer with that put
    in. Any other takes one.

    Args:
        hits: passages for the instruction, best first; shown only where it seeks information.
        prompts: folder with prompts of one's own.
    """
    texts = {"previous": previous, "instruction": instruction}
    if not seeks_information:
        return _reply(generator, REWRITE, {"question": question, **texts, "information": ""}, (), prompts)
    summary = _reply(generator, INFORMATION, texts, hits, prompts)
    try:
        texts |= {"question": question, "information": summary.text}
        rewrite = _reply(generator, REWRITE, texts, (), prompts)
    except GeneratorError as error:
        raise GeneratorError(error.kind, str(error), summary.usage + error.usage) from error
    return Rewritten(rewrite.text, summary.usage + rewrite.usage, (*summary.notes, *rewrite.notes))


def _reply(
    generator: Generator, name: str, texts: Mapping[str, str], hits: Sequence[Hit], prompts: Path | None
) -> Rewritten:
    prompt = JUDGES.load(name, prompts)
    shown = "Paper title: {}\nPassage: {}".format if prompt.bare else titled  # bare as in the paper (appendix A.1)
    passages = [shown(hit.passage.title, hit.passage.text) for hit in hits]
    filled = {key: text or None for key, text in texts.items()}
    fitted = fit_prompt(prompt, room_for(generator), filled, passages)
    if fitted is None:
        reason = f"question, answer and instruction do not fit into the context of {generator.name}"
        raise GeneratorError("bad_request", reason)
    reply = write_text(generator, merge_roles(fitted.messages))
    return Rewritten(reply.text, reply.usage, (*fitted.notes, *([reply.note] if reply.note else [])))


TASKS = (Kiwi, KiwiJudge, KiwiAnalyse)
