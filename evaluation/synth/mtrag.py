"""`turnmark synth mtrag`: conversations as MTRAG-S has them (MTRAG section 9, appendix G.1).

A model plays the user from a plan over question types, multi-turn types and answerability. After each of its messages
a search finds passages anew, and the model answers from these alone. Two filters check the answer: the passages must
support it, and it must say that it does not know exactly where its label says so. A turn's question type is the
planned one, since the paper's classifier is unpublished; so is the framework that it extends (Lee et al., 2024).
Prompts and thresholds are ours.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, ClassVar, Literal

from pydantic import BaseModel

from turnmark.core.errors import RequestError
from turnmark.corpora.text import count_words, strip_citations, words
from turnmark.corpora.types import Message, Passage
from turnmark.evaluation.benchmarks.base import Case
from turnmark.evaluation.judging.extractive import FAITHFULNESS, IDK, NoModel, extractive_rubrics
from turnmark.evaluation.synth.attempt import EMBEDDER, Attempt, Rejected, Seed, check
from turnmark.evaluation.synth.folder import IndexSource, SynthItem, write_rows
from turnmark.evaluation.synth.question_types import (
    MOST_TURNS,
    MOST_UNANSWERABLE,
    ConversationPlan,
    PlannedTurn,
    instructions,
)

TASKS = "mtrag-synthetic/generation_tasks/synthetic.jsonl"
CORPORA = "corpora/passage_level"
FAITHFUL = 0.7
"""The least faithfulness of an answer by the embedded judge: it keeps 97% of MTRAG's human references to their own
passages and none to those of another conversation (docs/measured.md)."""
PASSAGES_SHOWN = 5
"""Passages that an answer is written from (the number of MTRAG's retrieval settings)."""
LONGEST_QUESTION, LONGEST_ANSWER = 60, 300
"""Words."""
TEMPERATURES = (0.7, 0.85, 1.0, 1.0)
"""Of the user's messages: one for each that is tried for a turn before the conversation ends. Every further one is
asked for in another way: warmer, of another type, and from the third on from one passage that was not used yet."""
SURE = 2
"""Messages of a turn after which one is asked for that the passages answer."""
FEWEST = 2
"""Turns of a conversation that is kept."""
AGAIN = 0.9
"""Cosine of two questions of one conversation from which on the second repeats the first."""
ROUNDS, MOST_SEEDS = 20, 20_000
"""Times that each document may start a conversation, of large corpora fewer."""
ANSWERS = (None, 0.7)
"""Temperatures at which a message is answered (None: the generator's own) before another message is tried."""
_SPOKEN_OF = re.compile(
    r"\b(?:the|this|these|that|those|provided|given|above) "
    r"(?:passages?|documents?|texts?|excerpts?|articles?|contexts?)\b"
    r"|\baccording to the (?:author|passage|text|document)",
    re.IGNORECASE,
)
_IN_THE_PASSAGE = re.compile(
    r" (?:in|by|from) (?:the|this|these) (?:(?:given|provided|above) )?(?:passages?|documents?|texts?|excerpts?)\b",
    re.IGNORECASE,
)
"""What a question says just as well without."""


class UserMessageReply(BaseModel):
    """What the prompt `mtrag-question` asks for."""

    question: str


class TurnAnswerReply(BaseModel):
    """What the prompt `mtrag-answer` asks for."""

    answer: str
    answerability: Literal["ANSWERABLE", "PARTIAL", "UNANSWERABLE"]
    passages: list[int]


class Conversations:
    """Makes conversations; see the module.

    Args:
        turns: the most turns of one.
    """

    name: ClassVar[str] = "mtrag"
    prompts: ClassVar[tuple[str, ...]] = ("mtrag-question", "mtrag-answer")
    each: ClassVar[int] = 1

    def __init__(self, turns: int = MOST_TURNS) -> None:
        if not FEWEST <= turns <= MOST_TURNS:
            raise RequestError(f"--turns {turns}: expected a number from {FEWEST} to {MOST_TURNS}")
        self.options = {"turns": turns}
        self.tokens = (2_100 * turns, 130 * turns)

    def seeds(self, source: IndexSource, seed: int) -> Sequence[Seed]:
        """A document each; documents come round again, other passages of them first, where more are wanted."""
        documents = source.drawn(seed)
        rounds = max(1, min(ROUNDS, MOST_SEEDS // max(1, len(documents))))
        return [Seed(f"{number:06d}", name) for number, name in enumerate(documents * rounds)]

    def make(self, attempt: Attempt) -> None:
        """See `Synthesis.make`."""
        turns = _Conversation(attempt, self.options["turns"]).turns_that_pass()
        if len(turns) < FEWEST:
            rejected = Rejected("conversation", f"it ended before its turn {FEWEST}")
            attempt.reject(rejected, document=attempt.seed.start, turns=turns)
            return
        domain = domain_name(attempt.tools.source.corpus().name)
        content = {"conversation": attempt.seed.id, "domain": domain, "writer": attempt.generator.name, "turns": turns}
        key = " / ".join(turn["question"] for turn in turns[:3])
        attempt.keep(f"mtrag-{attempt.seed.id}", key, content, domain)

    def export(self, folder: Path, items: Sequence[SynthItem], source: IndexSource) -> Sequence[str]:
        """Write the tasks, and the corpus in the layout's form so that the setting `rag` can search it."""
        write_rows(folder / TASKS, (row for item in items for row in _rows(item)))
        domains = sorted({domain_name(item.content["domain"]) for item in items})
        files = [TASKS, *(f"{CORPORA}/{domain}.jsonl" for domain in domains)]
        for name in files[1:]:
            if not (folder / name).is_file():
                passages = source.passages()
                rows = (
                    {"_id": entry.id, "id": entry.id, "title": entry.title, "text": entry.text} for entry in passages
                )
                write_rows(folder / name, rows)
        return files


class _Conversation:
    """One conversation in the making."""

    def __init__(self, attempt: Attempt, most_turns: int) -> None:
        self._attempt, self._source = attempt, attempt.tools.source
        rubrics = extractive_rubrics(attempt.tools.embed, EMBEDDER)
        self._judge = {rubric.name: rubric for rubric in rubrics}
        self._plan = ConversationPlan(attempt.random, most_turns)
        self._history: list[Message] = []
        self._turns: list[dict[str, Any]] = []
        self._document = self._source.of_document(attempt.seed.start)
        start = attempt.random.randrange(max(1, len(self._document) - PASSAGES_SHOWN + 1))
        self._passages = self._document[start : start + PASSAGES_SHOWN]
        self._used: set[str] = set()

    def _unused(self) -> list[Passage]:
        """One passage that no answer rests on and no further message was asked from, of the document or the last
        search; else one of the document."""
        unused = [passage for passage in (*self._document, *self._passages) if passage.id not in self._used]
        passage = self._attempt.random.choice(unused or self._document)
        self._used.add(passage.id)
        return [passage]

    def turns_that_pass(self) -> list[dict[str, Any]]:
        """A turn after the other, until one does not pass however it is tried."""
        while len(self._turns) < self._plan.turns:
            turn = self._turn(len(self._turns) + 1)
            if turn is None:
                break
            self._turns.append(turn)
            self._history += [
                Message(role="user", content=turn["question"]),
                Message(role="assistant", content=turn["answer"]),
            ]
            self._plan.record(turn["answerability"])
        return self._turns

    def _turn(self, number: int) -> dict[str, Any] | None:
        """A turn that passes; what came before it is kept, however often it is tried."""
        previous_types = self._turns[-1]["question_types"] if self._turns else ()
        questions = [turn["question"] for turn in self._turns]
        kinds: list[str] = []
        for failures, temperature in enumerate(TEMPERATURES):
            step = self._plan.next(number, previous_types, kinds, answerable=failures >= SURE)
            kinds.append(step.kind)
            passages = self._passages if failures < SURE else self._unused()
            about: dict[str, Any] = {"turn": number, "planned": vars(step), "document": self._attempt.seed.start}
            try:
                question = self._question(step, passages, questions, temperature)
                about["question"] = question
            except Rejected as error:
                self._attempt.reject(error, **about)
                continue
            for warmth in ANSWERS:
                reply = dict(about)
                try:
                    return self._answered(question, step, reply, warmth)
                except Rejected as error:
                    self._attempt.reject(error, **reply)
        return None

    def _question(self, step: PlannedTurn, passages: Sequence[Passage], earlier: list[str], temperature: float) -> str:
        """The user's next message; it joins those that are not to come again, whatever becomes of it.

        These are not in the prompt: a small model copies questions that it must not ask.
        """
        reply = self._attempt.ask(
            "question", "mtrag-question", UserMessageReply, {}, passages=[passage.indexed_text for passage in passages],
            history=self._history, plain=instructions(step), temperature=temperature,
        )  # fmt: skip
        question = _IN_THE_PASSAGE.sub("", " ".join(reply.question.split()))
        check(bool(words(question)), "question", "empty", reply.question)
        check(count_words(question) <= LONGEST_QUESTION, "question", f"longer than {LONGEST_QUESTION} words", question)
        check(not _SPOKEN_OF.search(question), "question", "speaks of a document that the user has not seen", question)
        repeats = self._repeats(question, earlier)
        earlier.append(question)
        check(not repeats, "question", "repeats an earlier one", question)
        return question

    def _repeats(self, question: str, earlier_questions: Sequence[str]) -> bool:
        if not earlier_questions:
            return False
        vector, *earlier = self._attempt.tools.embed([question, *earlier_questions])
        return any(float(vector @ vector_before) >= AGAIN for vector_before in earlier)

    def _answered(
        self, question: str, step: PlannedTurn, about: dict[str, Any], temperature: float | None
    ) -> dict[str, Any]:
        """The turn, from passages that are searched for it."""
        passages = [hit.passage for hit in self._source.search(question, self._history, PASSAGES_SHOWN)]
        check(bool(passages), "retrieval", "nothing was found")
        texts = [passage.indexed_text for passage in passages]
        reply = self._attempt.ask(
            "answer", "mtrag-answer", TurnAnswerReply, {"question": question}, passages=texts, history=self._history,
            temperature=temperature,
        )  # fmt: skip
        answer = strip_citations(reply.answer).strip()
        about |= {"answer": answer, "answerability": reply.answerability}
        self._check_answer(answer, reply, len(passages))
        numbers = sorted(set(reply.passages)) if reply.answerability != "UNANSWERABLE" else []
        grounds = [passages[n - 1] for n in numbers if n <= len(passages)]
        grounding_texts = tuple(passage.indexed_text for passage in grounds)
        self._filter(question, answer, reply.answerability, grounding_texts)
        self._passages = passages
        self._used |= {passage.id for passage in grounds}
        return {
            "question": question,
            "answer": answer,
            "answerability": reply.answerability,
            "question_types": [step.kind],
            "multi_turn": step.turn,
            "planned": vars(step),
            "contexts": [
                {"document_id": passage.id, "title": passage.title, "text": passage.text} for passage in grounds
            ],
        }

    def _check_answer(self, answer: str, reply: TurnAnswerReply, n_passages: int) -> None:
        raw = reply.model_dump_json()
        check(bool(words(answer)), "answer", "empty", raw)
        check(count_words(answer) <= LONGEST_ANSWER, "answer", f"longer than {LONGEST_ANSWER} words", raw)
        check(all(1 <= n <= n_passages for n in reply.passages), "answer", "names a passage that there is not", raw)
        grounded = reply.answerability == "UNANSWERABLE" or bool(reply.passages)
        check(grounded, "answer", "names no passage that it rests on", raw)
        too_many = reply.answerability == "UNANSWERABLE" and self._plan.full
        check(not too_many, "answer", f"more than {MOST_UNANSWERABLE} are unanswerable", raw)

    def _filter(self, question: str, answer: str, label: str, passages: tuple[str, ...]) -> None:
        """What the paper calls the filter of wrong answers: by faithfulness, and by what it says of its knowledge."""
        case = Case(question=question, answer=answer, history=tuple(self._history), passages=passages)
        idk = self._judge[IDK].ask(NoModel(), case, None).label
        fits = {"ANSWERABLE": idk == "no", "PARTIAL": idk != "yes", "UNANSWERABLE": idk == "yes"}[label]
        check(fits, "idk", f"labelled {label}, and the judge hears {idk}", answer)
        if label == "UNANSWERABLE":
            return
        outcome = self._judge[FAITHFULNESS].ask(NoModel(), case, None)
        check(outcome.value is not None, "faithfulness", "claims nothing that could be checked", answer)
        check((outcome.value or 0.0) >= FAITHFUL, "faithfulness", f"below {FAITHFUL}", f"{answer}\n\n{outcome.reason}")


# --- in the layout of MTRAG-S ----------------------------------------------------------------------------------------


def domain_name(index: str) -> str:
    """The domain that an index gives its name to: lower-case letters and digits, as the layout has them."""
    return re.sub(r"[^a-z0-9]", "", index.lower()) or "corpus"


def _rows(item: SynthItem) -> Iterator[dict[str, Any]]:
    """A row for each turn of a conversation, with everything that was said before it."""
    content, turns = item.content, item.content["turns"]
    name = hashlib.sha256(json.dumps([content["conversation"], turns[0]["question"]]).encode()).hexdigest()[:32]
    utterances: list[dict[str, Any]] = []
    for number, turn in enumerate(turns, 1):
        question, answer = (
            {"speaker": speaker, "text": text, "metadata": {"author_type": "model", "author_id": content["writer"]}}
            for speaker, text in (("user", turn["question"]), ("agent", turn["answer"]))
        )
        yield {
            "conversation_id": name,
            "task_id": f"{name}<::>{number}",
            "task_type": "rag",
            "turn": str(number),
            "dataset": f"turnmark synth mtrag, {item.id}",
            "contexts": turn["contexts"],
            "input": [*utterances, question],
            "targets": [answer],
            "Question Type": turn["question_types"],
            "Multi-Turn": [turn["multi_turn"]],
            "Answerability": [turn["answerability"]],
            "Collection": domain_name(content["domain"]),
        }
        utterances += [question, answer]
