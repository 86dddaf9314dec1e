"""`turnmark synth mtrag`: conversations as MTRAG-S has them (MTRAG section 9, appendix G.1).

A model plays the user from a plan over question types, multi-turn types and answerability; after each of its messages a
search finds passages anew; the model answers from these alone; the answer is checked: whether it is borne out by the
passages, and whether it says that it does not know where, and only where, that is its label. Types are labelled by the
classifier, as the paper has it. The framework that the paper extends (Lee et al., 2024) is its own; the steps that the
paper names are here, prompts and thresholds are ours.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, Literal

from turnmark.corpora.errors import RequestError
from turnmark.corpora.statistics import Sheet, length
from turnmark.corpora.text import strip_citations, words
from turnmark.corpora.types import Message, Passage
from turnmark.evaluation.judging.judgements import Case
from turnmark.evaluation.synth import mtrag_files
from turnmark.evaluation.synth.desk import Declined, Desk, Tools
from turnmark.evaluation.synth.kinds import Exported, Haul, Seed
from turnmark.evaluation.synth.question_types import chances, labels, model
from turnmark.evaluation.synth.records import Corpus, Made
from turnmark.evaluation.synth.rehearsal import Reply
from turnmark.evaluation.synth.source import Source
from turnmark.evaluation.synth.taxonomy import AIMS, FIRST, KINDS, MOST_TURNS, MOST_UNANSWERABLE, TURNS, Flow, Step

FAITHFUL = {"embedded": 0.7, "model": 0.75}
"""The least faithfulness of an answer. 0.7 of the embedded judge keeps 97% of MTRAG's human references to their own
passages and none to those of another conversation (docs/synth.md); that of a model is a choice."""
SHOWN = 5
"""Passages that an answer is written from (the number of MTRAG's retrieval settings)."""
LONGEST_QUESTION, LONGEST_ANSWER = 60, 300
"""Words."""
TEMPERATURES = (0.7, 0.85, 1.0, 1.0)
"""Of the user's messages: one for each that is tried for a turn before the conversation ends. Every further one is
asked for in another way: warmer, of another type, beside those rejected, and from the third on from other passages."""
SURE = 2
"""Messages of a turn after which one is asked for that the passages answer."""
FEWEST = 3
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


class QuestionReply(Reply):
    """What the prompt `mtrag-question` asks for."""

    example: ClassVar[dict[str, Any]] = {"question": "What does it say of that?"}
    tokens: ClassVar[int] = 30
    question: str


class AnswerReply(Reply):
    """What the prompt `mtrag-answer` asks for."""

    example: ClassVar[dict[str, Any]] = {"answer": "It says so.", "answerability": "ANSWERABLE", "passages": [1]}
    tokens: ClassVar[int] = 140
    answer: str
    answerability: Literal["ANSWERABLE", "PARTIAL", "UNANSWERABLE"]
    passages: list[int]


class Conversations:
    """Makes conversations; see the module.

    Args:
        turns: the most turns of one.
    """

    name = "mtrag"
    prompts = ("mtrag-question", "mtrag-answer")
    measures = ("faithfulness", "idk")
    searches = True
    each = 1
    about = (
        "Conversations in the layout of MTRAG-S, made by the method that MTRAG names in section 9 and appendix G.1: "
        "questions by its taxonomy, passages searched anew after every user turn, answers written from these, wrong "
        "answers filtered out, question types labelled by a classifier trained on the human conversations."
    )
    limits = (
        "Question types are the classifier's: its first label is one that a person gave in 57% of held-out questions, "
        "macro F1 .53 (docs/synth.md). It knows nine types of ten: Troubleshooting had too few examples.",
        "Answerability is what the writer of the answer said, held against its own wording; passages that a search did "
        "not find may answer what is labelled UNANSWERABLE.",
        "The passages of a task are those that the answer names, not all that are relevant, so there are no relevance "
        "labels and retrieval cannot be scored.",
        "Synthetic questions are longer and passages repeat more than in human conversations (MTRAG, Table 8), and "
        "models score higher on them (Table 14).",
    )

    def __init__(self, turns: int = MOST_TURNS) -> None:
        if not FEWEST <= turns <= MOST_TURNS:
            raise RequestError(f"--turns {turns}: a number from {FEWEST} to {MOST_TURNS} was expected")
        self.turns = turns

    def options(self) -> Mapping[str, Any]:
        """See `Kind.options`."""
        return {"turns": self.turns}

    def corpus(self, tools: Tools) -> Corpus:
        """See `Kind.corpus`."""
        assert tools.source is not None, "it searches"
        return tools.source.corpus()

    def seeds(self, tools: Tools) -> Sequence[Seed]:
        """A document each; documents come round again, other passages of them first, where more are wanted."""
        assert tools.source is not None, "it searches"
        found = tools.source.drawn(tools.seed)
        rounds = max(1, min(ROUNDS, MOST_SEEDS // max(1, len(found))))
        return [Seed(f"{number:06d}", name) for number, name in enumerate(found * rounds)]

    def make(self, seed: Seed, desk: Desk) -> Haul:
        """See `Kind.make`."""
        haul = Haul(seed)
        turns = _Conversation(seed, desk, self.turns, haul).held()
        if len(turns) < FEWEST and not desk.tools.rehearsing:
            _too_short(haul, turns, seed)
            return haul
        domain = mtrag_files.domain_of(self.corpus(desk.tools).name)
        content = {"conversation": seed.id, "domain": domain, "writer": desk.writer, "turns": turns}
        key = " / ".join(turn["question"] for turn in turns[:3])
        name = f"mtrag-{seed.id}"
        haul.made.append(Made(id=name, seed=seed.id, domain=domain, key=key, content=content, notes=desk.notes))
        return haul

    def export(self, folder: Path, items: Sequence[Made], source: Source | None) -> Exported:
        """See `Kind.export`."""
        return mtrag_files.export(folder, items, source)

    def statistics(self, folder: Path) -> Sequence[Sheet]:
        """Table 8 and the dimensions."""
        return mtrag_files.statistics(folder)


def _too_short(haul: Haul, turns: Sequence[Mapping[str, Any]], seed: Seed) -> None:
    """Take down a conversation that ended too soon, with what there is of it."""
    why = Declined("conversation", f"it ended before its turn {FEWEST}")
    haul.reject(why, document=seed.about, turns=list(turns))


class _Conversation:
    """One conversation in the making."""

    def __init__(self, seed: Seed, desk: Desk, most: int, haul: Haul) -> None:
        self._seed, self._desk, self._haul = seed, desk, haul
        self._chance = seed.random(desk.tools.seed)
        self._flow = Flow(self._chance, model(), most)
        self._history: list[Message] = []
        self._turns: list[dict[str, Any]] = []
        self._passages = self._drawn()

    def _drawn(self) -> list[Passage]:
        """Passages of the document, from a place drawn by chance."""
        passages = self._desk.source.of_document(self._seed.about)
        start = self._chance.randrange(max(1, len(passages) - SHOWN + 1))
        return passages[start : start + SHOWN]

    def held(self) -> list[dict[str, Any]]:
        """The turns that passed."""
        while len(self._turns) < self._flow.turns:
            turn = self._turn(len(self._turns) + 1)
            if turn is None:
                break
            self._turns.append(turn)
            self._history += [
                Message(role="user", content=turn["question"]),
                Message(role="assistant", content=turn["answer"]),
            ]
            self._flow.took(turn["answerability"])
        return self._turns

    def _turn(self, number: int) -> dict[str, Any] | None:
        """A turn that passes; what came before it is kept, however often it is tried."""
        before = self._turns[-1]["question_types"] if self._turns else ()
        rejected: list[str] = []
        kinds: list[str] = []
        for attempt, temperature in enumerate(TEMPERATURES):
            step = self._flow.next(number, before, kinds, answerable=attempt >= SURE)
            kinds.append(step.kind)
            passages = self._passages if attempt < SURE else self._drawn()
            about: dict[str, Any] = {"turn": number, "planned": vars(step), "document": self._seed.about}
            try:
                question = self._question(step, passages, rejected, temperature)
                about["question"] = question
            except Declined as why:
                self._haul.reject(why, **about)
                continue
            for warmth in ANSWERS:
                reply = dict(about)
                try:
                    return self._answered(question, step, reply, warmth)
                except Declined as why:
                    self._haul.reject(why, **reply)
        return None

    def _question(self, step: Step, passages: Sequence[Passage], rejected: list[str], temperature: float) -> str:
        """The user's next message; it joins those that are not to be asked for again, whatever becomes of it."""
        avoid = [*(turn["question"] for turn in self._turns), *rejected]
        reply = self._desk.ask(
            "question", "mtrag-question", QuestionReply, {"avoid": "\n".join(avoid)},
            passages=[passage.indexed_text for passage in passages], history=self._history,
            plain={"kind": KINDS[step.kind], "turn": TURNS.get(step.turn, FIRST), "aim": AIMS[step.aim]},
            temperature=temperature,
        )  # fmt: skip
        question = " ".join(reply.question.split())
        rejected += [question] if question else []
        check = self._desk.check
        check(bool(words(question)), "question", "empty", reply.question)
        check(length(question) <= LONGEST_QUESTION, "question", f"longer than {LONGEST_QUESTION} words", question)
        check(not _SPOKEN_OF.search(question), "question", "speaks of a document that the user has not seen", question)
        check(not self._repeats(question, avoid), "question", "repeats an earlier one", question)
        return question

    def _repeats(self, question: str, before: Sequence[str]) -> bool:
        if not before or self._desk.tools.rehearsing:
            return False
        own, *others = self._desk.tools.embed([question, *before])
        return any(float(own @ other) >= AGAIN for other in others)

    def _answered(self, question: str, step: Step, about: dict[str, Any], temperature: float | None) -> dict[str, Any]:
        """The turn, from passages that are searched for it."""
        found = [hit.passage for hit in self._desk.source.search(question, self._history, SHOWN)]
        self._desk.check(bool(found), "retrieval", "nothing was found")
        texts = [passage.indexed_text for passage in found]
        reply = self._desk.ask(
            "answer", "mtrag-answer", AnswerReply, {"question": question}, passages=texts, history=self._history,
            temperature=temperature,
        )  # fmt: skip
        answer = strip_citations(reply.answer).strip()
        about |= {"answer": answer, "answerability": reply.answerability}
        self._check_answer(answer, reply, len(found))
        used = sorted(set(reply.passages)) if reply.answerability != "UNANSWERABLE" else []
        self._filter(question, answer, reply.answerability, tuple(texts[n - 1] for n in used if n <= len(texts)))
        self._passages = found
        kinds = [] if self._desk.tools.rehearsing else chances([question], self._desk.tools.embed)
        return {
            "question": question,
            "answer": answer,
            "answerability": reply.answerability,
            "question_types": list(labels(kinds[0])) if kinds else [step.kind],
            "multi_turn": step.turn,
            "planned": vars(step),
            "contexts": [
                {"document_id": found[n - 1].id, "title": found[n - 1].title, "text": found[n - 1].text}
                for n in used
                if n <= len(found)
            ],
        }

    def _check_answer(self, answer: str, reply: AnswerReply, shown: int) -> None:
        check, raw = self._desk.check, reply.model_dump_json()
        check(bool(words(answer)), "answer", "empty", raw)
        check(length(answer) <= LONGEST_ANSWER, "answer", f"longer than {LONGEST_ANSWER} words", raw)
        check(all(1 <= n <= shown for n in reply.passages), "answer", "names a passage that there is not", raw)
        grounded = reply.answerability == "UNANSWERABLE" or bool(reply.passages)
        check(grounded, "answer", "names no passage that it rests on", raw)
        more = reply.answerability == "UNANSWERABLE" and self._flow.full
        check(not more, "answer", f"more than {MOST_UNANSWERABLE} are unanswerable", raw)

    def _filter(self, question: str, answer: str, label: str, passages: tuple[str, ...]) -> None:
        """What the paper calls the filter of wrong answers: by faithfulness, and by what it says of its knowledge."""
        case = Case(question=question, answer=answer, history=tuple(self._history), passages=passages)
        check = self._desk.check
        idk = self._desk.judged("idk", "idk", case).label
        fits = {"ANSWERABLE": idk == "no", "PARTIAL": idk != "yes", "UNANSWERABLE": idk == "yes"}[label]
        check(fits, "idk", f"labelled {label}, and the judge hears {idk}", answer)
        if label == "UNANSWERABLE":
            return
        outcome = self._desk.judged("faithfulness", "faithfulness", case)
        least = FAITHFUL["embedded" if self._desk.tools.judge is None else "model"]
        check(outcome.value is not None, "faithfulness", "claims nothing that could be checked", answer)
        check((outcome.value or 0.0) >= least, "faithfulness", f"below {least}", f"{answer}\n\n{outcome.reason}")
