"""`turnmark synth mtrag`: conversations in the form of MTRAG-S (MTRAG section 9, appendix G.1).

A model plays the user by a plan over question types, multi-turn types and answerability. After each message a search
finds new passages, and the model answers only from these. Two filters check the answer: the passages must support it,
and it must say "I don't know" exactly if its label is UNANSWERABLE. The question type of a turn is the
planned one, because the paper's classifier is not published, and neither is the framework that it extends (Lee et al.,
2024). Prompts and thresholds are ours.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, Literal

from pydantic import BaseModel

from turnmark.core.errors import RequestError
from turnmark.corpora.text.segmentation import count_words, strip_citations, words
from turnmark.corpora.types import Message, Passage, exchange
from turnmark.evaluation.benchmarks.mtrag.question_types import (
    MAX_TURNS,
    MAX_UNANSWERABLE,
    ConversationPlan,
    PlannedTurn,
    instructions,
)
from turnmark.evaluation.judging.embedded_judge import FAITHFULNESS, IDK_METRIC, NoModel, extractive_rubrics
from turnmark.evaluation.synth.synthesis_attempt import EMBEDDER, Attempt, RejectedItem, ReviewedItem, Seed, check
from turnmark.evaluation.synth.synthesis_folder import MIN_DOCUMENT_WORDS, IndexSource, SynthItem, write_rows
from turnmark.evaluation.tasks.items import Case
from turnmark.retrieval.types import section_of

TASKS_FILE = "mtrag-synthetic/generation_tasks/synthetic.jsonl"
CORPORA_FOLDER = "corpora/passage_level"
MIN_FAITHFULNESS = 0.7
"""Minimum faithfulness of an answer by the embedded judge. It accepts 97% of MTRAG's human references with their own
passages and none with those of another conversation (docs/measured.md)."""
PASSAGES_SHOWN = 5
"""Number of passages for an answer, as in MTRAG's retrieval settings."""
MAX_QUESTION_WORDS, MAX_ANSWER_WORDS = 60, 300
"""Maximum number of words in a question and in an answer."""
QUESTION_TEMPERATURES = (0.7, 0.85, 1.0, 1.0)
"""Temperatures of the tries for the user's message of a turn. Each try plans another question type, and from the third
on the message is written from one unused passage. If all tries fail, the conversation ends."""
TRIES_BEFORE_ANSWERABLE = 2
"""Number of failed tries after which an answerable question is planned."""
MIN_TURNS = 2
"""Minimum number of turns in a conversation."""
REPEAT_COSINE = 0.9
"""A question repeats an earlier one of its conversation if their cosine is at least this."""
NOT_ABOUT_DOCUMENTS = ("Opinion", "Non-Question")
"""Question types that single questions do not have, since no passage contains their answer."""
MAX_PASSAGE_WORDS = 1_000
"""Maximum number of words of a passage to ask about; passages of files have at most 256 tokens."""
SUPPORT_CANDIDATES = 10
"""Number of retrieved passages that are checked for further support of an answer."""
MAX_PER_DOCUMENT, MAX_SEEDS = 20, 20_000
"""Maximum number of conversations per document, and approximate maximum number of seeds."""
ANSWER_TEMPERATURES = (None, 0.7)
"""Temperatures of the successive tries to answer a message (None: the generator's own); after the last one, another
message is tried."""
_DOCUMENT_MENTION = re.compile(
    r"\b(?:the|this|these|that|those|provided|given|above) "
    r"(?:passages?|documents?|texts?|excerpts?|articles?|contexts?)\b"
    r"|\baccording to the (?:author|passage|text|document)",
    re.IGNORECASE,
)
_IN_THE_PASSAGE = re.compile(
    r" (?:in|by|from) (?:the|this|these) (?:(?:given|provided|above) )?(?:passages?|documents?|texts?|excerpts?)\b",
    re.IGNORECASE,
)
"""Phrases that are removed from questions; the meaning stays the same."""


class UserMessageReply(BaseModel):
    """The reply that the prompt `mtrag-question` asks for."""

    question: str


class TurnAnswerReply(BaseModel):
    """The reply that the prompt `mtrag-answer` asks for; passages are numbered from 1."""

    answer: str
    answerability: Literal["ANSWERABLE", "PARTIAL", "UNANSWERABLE"]
    passages: list[int]


class Conversations:
    """A synthesis of conversations; see the module.

    Args:
        turns: maximum number of turns per conversation.
    """

    name: ClassVar[str] = "mtrag"
    benchmark: ClassVar[str] = "mtrag-s"
    filters: ClassVar[bool] = False
    prompts: ClassVar[tuple[str, ...]] = ("mtrag-question", "mtrag-answer")
    each: ClassVar[int] = 1

    def __init__(self, turns: int = MAX_TURNS) -> None:
        if not MIN_TURNS <= turns <= MAX_TURNS:
            raise RequestError(f"--turns {turns}: expected a number from {MIN_TURNS} to {MAX_TURNS}")
        self.options: Mapping[str, int] = {"turns": turns}
        self.tokens = (2_100 * turns, 130 * turns)

    def seeds(self, source: IndexSource, seed: int) -> Sequence[Seed]:
        """Return seeds of documents. Documents occur several times; each conversation starts at other passages."""
        documents = source.draw_documents(seed)
        rounds = max(1, min(MAX_PER_DOCUMENT, MAX_SEEDS // max(1, len(documents))))
        return [Seed(f"{number:06d}", name) for number, name in enumerate(documents * rounds)]

    def make(self, attempt: Attempt) -> None:
        """See `Synthesis.make`."""
        document = attempt.tools.source.passages_of(attempt.seed.start)
        turns = _SynthesizedConversation(attempt, self.options["turns"], document).turns_that_pass()
        if len(turns) < MIN_TURNS:
            rejected = RejectedItem("conversation", f"it ended before its turn {MIN_TURNS}")
            attempt.reject(rejected, document=attempt.seed.start, turns=turns)
            return
        domain = domain_name(attempt.tools.source.corpus().name)
        content = {"conversation": attempt.seed.id, "domain": domain, "writer": attempt.generator.name, "turns": turns}
        key = " / ".join(turn["question"] for turn in turns[:3])
        attempt.keep(f"mtrag-{attempt.seed.id}", key, content, domain)

    def review(self, item: SynthItem) -> ReviewedItem:
        """See `Synthesis.review`. The question is that of the last turn; the passages are those of all turns."""
        *earlier, last = item.content["turns"]
        said = [pair for turn in earlier for pair in (("user", turn["question"]), ("assistant", turn["answer"]))]
        passages = tuple(passage for turn in item.content["turns"] for passage in turn["contexts"])
        return ReviewedItem(last["question"], last["answer"], tuple(said), passages)

    def export(self, folder: Path, items: Sequence[SynthItem], source: IndexSource) -> Sequence[str]:
        """Write the tasks in the layout of MTRAG-S, and the corpus, so that the setting `rag` can search it."""
        write_rows(folder / TASKS_FILE, (row for item in items for row in _rows(item)))
        domains = sorted({domain_name(item.content["domain"]) for item in items})
        corpora = [f"{CORPORA_FOLDER}/{domain}.jsonl" for domain in domains]
        for name in corpora:
            if not (folder / name).is_file():
                write_rows(folder / name, map(corpus_row, source.passages()))
        return [TASKS_FILE, *corpora]


class Questions(Conversations):
    """A synthesis of single turns: a question that a given section answers, and its answer from this section.

    The contexts of the turn are the passages of the section, and those retrieved passages that support the answer by
    themselves.
    """

    def __init__(self) -> None:
        self.options = {"turns": 1}
        self.tokens = (2_100, 130)

    def seeds(self, source: IndexSource, seed: int) -> Sequence[Seed]:
        """Return a seed for each passage, taking the documents in turn."""
        document_of = {passage.id: passage.document for passage in source.passages()}
        rank_in_document: Counter[str] = Counter()
        ranked: list[tuple[int, str]] = []
        for name in source.draw_passages(seed, MIN_DOCUMENT_WORDS, MAX_PASSAGE_WORDS):
            document = document_of[name]
            ranked.append((rank_in_document[document], name))
            rank_in_document[document] += 1
        ranked.sort(key=lambda pair: pair[0])
        return [Seed(f"{number:06d}", name) for number, (_, name) in enumerate(ranked[:MAX_SEEDS])]

    def make(self, attempt: Attempt) -> None:
        source = attempt.tools.source
        passage = source.passage(attempt.seed.start)
        document = source.passages_of(passage.document)
        turn = _SynthesizedConversation(attempt, 1, document).question_from(
            section_of(passage, document)[:PASSAGES_SHOWN]
        )
        if turn is None:
            return
        domain = domain_name(source.corpus().name)
        content = {"conversation": attempt.seed.id, "domain": domain, "writer": attempt.generator.name}
        attempt.keep(f"mtrag-{attempt.seed.id}", turn["question"], {**content, "turns": [turn]}, domain)


def corpus_row(passage: Passage) -> dict[str, str]:
    """Return a passage as a row of a BEIR corpus."""
    return {"_id": passage.id, "id": passage.id, "title": passage.title, "text": passage.text}


def _context(passage: Passage) -> dict[str, str]:
    return {"document_id": passage.id, "title": passage.title, "text": passage.text}


class _SynthesizedConversation:
    """A conversation that is made turn by turn.

    Args:
        document: the passages that it starts at.
    """

    def __init__(self, attempt: Attempt, most_turns: int, document: list[Passage]) -> None:
        self._attempt, self._source = attempt, attempt.tools.source
        rubrics = extractive_rubrics(attempt.tools.embed, EMBEDDER)
        self._judge = {rubric.name: rubric for rubric in rubrics}
        self._plan = ConversationPlan(attempt.random, most_turns)
        self._history: list[Message] = []
        self._turns: list[dict[str, Any]] = []
        self._document = document
        start = attempt.random.randrange(max(1, len(self._document) - PASSAGES_SHOWN + 1))
        self._passages = self._document[start : start + PASSAGES_SHOWN]
        self._used: set[str] = set()

    def _unused(self) -> list[Passage]:
        """Choose an unused passage of the document or the last search or, if there is none, any passage of the
        document."""
        unused = [passage for passage in (*self._document, *self._passages) if passage.id not in self._used]
        passage = self._attempt.random.choice(unused or self._document)
        self._used.add(passage.id)
        return [passage]

    def turns_that_pass(self) -> list[dict[str, Any]]:
        """Make turns until the planned number is reached or all tries for a turn have failed."""
        while len(self._turns) < self._plan.turns:
            turn = self._turn(len(self._turns) + 1)
            if turn is None:
                break
            self._turns.append(turn)
            self._history += exchange(turn["question"], turn["answer"])
            self._plan.record(turn["answerability"])
        return self._turns

    def question_from(self, section: Sequence[Passage]) -> dict[str, Any] | None:
        """Make a turn that needs no conversation and that a section answers, or return None if all tries failed."""
        kinds = list(NOT_ABOUT_DOCUMENTS)
        for temperature in QUESTION_TEMPERATURES:
            step = self._plan.next(1, (), kinds, answerable=True)
            kinds.append(step.kind)
            about: dict[str, Any] = {"planned": vars(step), "passage": section[0].id}
            with self._attempt.rejecting(about):
                question = self._question(step, section, [], temperature)
                about["question"] = question
                turn = self._answer(question, step, about, None, section)
                answerable = turn["answerability"] == "ANSWERABLE"
                check(answerable, "answer", "the section does not answer it in full", turn["answer"])
                relevant = [*section, *self._others(question, turn["answer"], section)]
                return turn | {"contexts": [_context(passage) for passage in relevant]}
        return None

    def _others(self, question: str, answer: str, section: Sequence[Passage]) -> Iterator[Passage]:
        """Yield retrieved passages from other sections that also support the answer."""
        ids = {passage.id for passage in section}
        for hit in self._source.search(question, (), SUPPORT_CANDIDATES):
            case = Case(question=question, answer=answer, passages=(hit.passage.indexed_text,))
            if hit.passage.id in ids:
                continue
            if (self._judge[FAITHFULNESS].ask(NoModel(), case, None).value or 0.0) >= MIN_FAITHFULNESS:
                yield hit.passage

    def _turn(self, number: int) -> dict[str, Any] | None:
        """Make a turn that passes the filters, or return None if all tries failed."""
        previous_types = self._turns[-1]["question_types"] if self._turns else ()
        questions = [turn["question"] for turn in self._turns]
        kinds: list[str] = []
        for failures, temperature in enumerate(QUESTION_TEMPERATURES):
            step = self._plan.next(number, previous_types, kinds, answerable=failures >= TRIES_BEFORE_ANSWERABLE)
            kinds.append(step.kind)
            passages = self._passages if failures < TRIES_BEFORE_ANSWERABLE else self._unused()
            about: dict[str, Any] = {"turn": number, "planned": vars(step), "document": self._attempt.seed.start}
            with self._attempt.rejecting(about):
                question = self._question(step, passages, questions, temperature)
                about["question"] = question
                for answer_temperature in ANSWER_TEMPERATURES:
                    about_answer = dict(about)
                    with self._attempt.rejecting(about_answer):
                        return self._answer(question, step, about_answer, answer_temperature)
        return None

    def _question(self, step: PlannedTurn, passages: Sequence[Passage], earlier: list[str], temperature: float) -> str:
        """Write the user's next message.

        Args:
            earlier: the earlier questions, which must not be repeated; gets the new one, even if it is rejected later.
                They are not in the prompt, because a small model copies questions that it must not ask.
        """
        reply = self._attempt.ask(
            "question", "mtrag-question", UserMessageReply, {}, passages=[passage.indexed_text for passage in passages],
            history=self._history, plain=instructions(step), temperature=temperature,
        )  # fmt: skip
        question = _IN_THE_PASSAGE.sub("", " ".join(reply.question.split()))
        check(bool(words(question)), "question", "empty", reply.question)
        check(
            count_words(question) <= MAX_QUESTION_WORDS, "question", f"longer than {MAX_QUESTION_WORDS} words", question
        )
        check(
            not _DOCUMENT_MENTION.search(question),
            "question",
            "speaks of a document that the user has not seen",
            question,
        )
        repeats = self._repeats(question, earlier)
        earlier.append(question)
        check(not repeats, "question", "repeats an earlier one", question)
        return question

    def _repeats(self, question: str, earlier_questions: Sequence[str]) -> bool:
        if not earlier_questions:
            return False
        vector, *earlier_vectors = self._attempt.tools.embed([question, *earlier_questions])
        return any(float(vector @ earlier_vector) >= REPEAT_COSINE for earlier_vector in earlier_vectors)

    def _answer(
        self,
        question: str,
        step: PlannedTurn,
        about: dict[str, Any],
        temperature: float | None,
        section: Sequence[Passage] = (),
    ) -> dict[str, Any]:
        """Search for a question, answer it, and check the answer; return the turn.

        Args:
            about: receives the answer and its label, which a reject records.
            section: passages to answer from without a search.
        """
        passages = list(section)
        if not passages:
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
            "contexts": [_context(passage) for passage in grounds],
        }

    def _check_answer(self, answer: str, reply: TurnAnswerReply, n_passages: int) -> None:
        raw = reply.model_dump_json()
        check(bool(words(answer)), "answer", "empty", raw)
        check(count_words(answer) <= MAX_ANSWER_WORDS, "answer", f"longer than {MAX_ANSWER_WORDS} words", raw)
        check(all(1 <= n <= n_passages for n in reply.passages), "answer", "names a passage that does not exist", raw)
        grounded = reply.answerability == "UNANSWERABLE" or bool(reply.passages)
        check(grounded, "answer", "names no supporting passage", raw)
        too_many = reply.answerability == "UNANSWERABLE" and self._plan.full
        check(not too_many, "answer", f"more than {MAX_UNANSWERABLE} are unanswerable", raw)

    def _filter(self, question: str, answer: str, label: str, passages: tuple[str, ...]) -> None:
        """Reject wrong answers like the paper: the IDK verdict must fit the label, and the answer must be faithful."""
        case = Case(question=question, answer=answer, history=tuple(self._history), passages=passages)
        idk = self._judge[IDK_METRIC].ask(NoModel(), case, None).label
        fits_label = {"ANSWERABLE": idk == "no", "PARTIAL": idk != "yes", "UNANSWERABLE": idk == "yes"}
        check(fits_label[label], "idk", f"labeled {label}, and the judge hears {idk}", answer)
        if label == "UNANSWERABLE":
            return
        outcome = self._judge[FAITHFULNESS].ask(NoModel(), case, None)
        check(outcome.value is not None, "faithfulness", "makes no claim that can be checked", answer)
        check(
            (outcome.value or 0.0) >= MIN_FAITHFULNESS,
            "faithfulness",
            f"below {MIN_FAITHFULNESS}",
            f"{answer}\n\n{outcome.reason}",
        )


# --- the layout of MTRAG-S -------------------------------------------------------------------------------------------


def domain_name(index: str) -> str:
    """Return the domain's name for an index: its lower-case letters and digits."""
    return re.sub(r"[^a-z0-9]", "", index.lower()) or "corpus"


def _rows(item: SynthItem) -> Iterator[dict[str, Any]]:
    content, turns = item.content, item.content["turns"]
    name = hashlib.sha256(json.dumps([content["conversation"], turns[0]["question"]]).encode()).hexdigest()[:32]
    utterances: list[dict[str, Any]] = []
    for number, turn in enumerate(turns, 1):
        metadata = {"author_type": "model", "author_id": content["writer"]}
        question = {"speaker": "user", "text": turn["question"], "metadata": metadata}
        answer = {"speaker": "agent", "text": turn["answer"], "metadata": metadata}
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
