"""A stand-in for a language model behind a scripted server: it knows each prompt of a synthesis and says what fits.

    with ScriptedServer(Player()) as server: …

It finds out which prompt it was asked by a phrase of its system message, and takes what it says from the material in
the prompt. `wrong` replaces single replies: a function of the prompt's name and the material, None where the usual
reply will do.
"""

from __future__ import annotations

import json
import re
import threading
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

from tests.servers import Say, Scripted
from turnmark.corpora.text.segmentation import sentences

PHRASES = {
    "mtrag-question": "You play a person who talks",
    "mtrag-answer": "Answer the user's last message from numbered passages",
    "inscoqa-queries": "Propose questions that people would type",
    "inscoqa-filter": "whether each of the queries is fit", "inscoqa-history": "Write the beginning of a conversation",
    "inscoqa-answer": "Answer the last question of a conversation from several instructional documents",
    "inscoqa-procedure": "whether the last answer of a conversation is fit",
    "compound-question": "Write one compound question",
    "compound-filter": "whether a compound question is of a given type",
    "compound-reference": "Answer every part of a compound question",
}  # fmt: skip
_FENCED = re.compile(r"<([a-z_-]+)-([0-9a-f]{12})>\n(.*?)\n</\1-\2>", re.DOTALL)
Wrong = Callable[[str, dict[str, list[str]]], "Scripted | None"]


def material(text: str) -> dict[str, list[str]]:
    """Kind of mark -> the texts between such marks."""
    texts: dict[str, list[str]] = {}
    for kind, _, inner in _FENCED.findall(text):
        texts.setdefault(kind, []).append(inner)
    return texts


def first_sentence(text: str) -> str:
    """The first sentence of a passage that is one, its heading aside."""
    spans = [" ".join(text[start:end].split()) for start, end in sentences(text)]
    complete = [span for span in spans if len(span.split()) > 6 and span.endswith(".")]
    return complete[0] if complete else spans[0]


def one_an_attempt(first: str, faults: Sequence[Wrong]) -> Wrong:
    """The faults, one an attempt after the other; an attempt begins with the prompt `first`. Then none."""
    begun = 0

    def wrong(name: str, parts: dict[str, list[str]]) -> Scripted | None:
        nonlocal begun
        # At the temperature that no further try has, and nothing was said before.
        begun += name == first and not parts.get("user") and parts["temperature"] == ["0.7"]
        return faults[begun - 1](name, parts) if begun <= len(faults) else None

    return wrong


class Player:
    """Answers a request body; see the module."""

    def __init__(self, wrong: Wrong | None = None) -> None:
        self._wrong = wrong
        self._lock = threading.Lock()
        self.asked: Counter[str] = Counter()

    def __call__(self, body: dict[str, Any]) -> Scripted:
        prompt = "\n".join(message["content"] for message in body["messages"])
        name = next((name for name, phrase in PHRASES.items() if phrase in prompt), "unknown")
        parts = material(prompt) | {"temperature": [str(body.get("temperature"))]}
        with self._lock:
            self.asked[name] += 1
        replaced = self._wrong(name, parts) if self._wrong else None
        if replaced is not None:
            return replaced
        return Say(getattr(self, "_" + name.replace("-", "_"))(parts, prompt))

    def _mtrag_question(self, parts: dict[str, list[str]], prompt: str) -> str:
        user_messages = " ".join(parts.get("user", []))
        for passage in reversed(parts["passage"]):
            for start, end in sentences(passage):
                words = re.findall(r"[A-Za-z]{4,}", passage[start:end])[:8]
                question = f"What is known about {' '.join(words)}?"
                if len(words) > 5 and question not in user_messages:
                    return json.dumps({"question": question})
        return json.dumps({"question": "What else is there to know about all of this?"})

    def _mtrag_answer(self, parts: dict[str, list[str]], prompt: str) -> str:
        return json.dumps({
            "answer": first_sentence(parts["passage"][0]), "answerability": "ANSWERABLE", "passages": [1],
        })  # fmt: skip

    def _inscoqa_queries(self, parts: dict[str, list[str]], prompt: str) -> str:
        words = re.findall(r"[A-Za-z]{4,}", parts["document"][0])
        queries = [
            f"How does one {' '.join(words[start : start + 5])}?" for start in (3, 30, 60) if start + 5 <= len(words)
        ]
        return json.dumps({"queries": [{"query": text, "domain": "Gourmet"} for text in queries]})

    def _inscoqa_filter(self, parts: dict[str, list[str]], prompt: str) -> str:
        count = len(parts["queries"][0].splitlines())
        good = {"complete": True, "objective": True, "lasting": True, "instructional": True}
        # The third of a document's queries is a matter of taste.
        verdicts = [{"query": n, **good, "objective": n != 3} for n in range(1, count + 1)]
        return json.dumps({"verdicts": verdicts})

    def _inscoqa_history(self, parts: dict[str, list[str]], prompt: str) -> str:
        rounds = int(re.findall(r"- (\d) rounds", prompt)[0])
        history = [{"question": f"What matters first, {n}?", "reply": "A quiet room."} for n in range(rounds)]
        return json.dumps(
            {"history": history, "question": parts["query"][0].replace("How does one", "And how is one to")}
        )

    def _inscoqa_answer(self, parts: dict[str, list[str]], prompt: str) -> str:
        answer = " Then ".join(first_sentence(text) for text in parts["passage"][:2])
        return json.dumps({"answer": answer, "documents": [1, 2]})

    def _inscoqa_procedure(self, parts: dict[str, list[str]], prompt: str) -> str:
        good = dict.fromkeys(("informative", "inquiry", "instructional", "objective", "steps"), True)
        first, _, second = parts["reply"][0].partition(" Then ")
        return json.dumps({**good, "procedure": [first, second or "Close the lid and wait for an hour."]})

    def _compound_question(self, parts: dict[str, list[str]], prompt: str) -> str:
        thing = " ".join(re.findall(r"[A-Za-z]{4,}", parts["context"][0])[:6])
        questions = {
            "plain facts": f"When was {thing} begun? Who was there, and where did they stay?",
            "why something is so": f"Why did {thing} come about? What followed from it?",
            "two conditions": f"If {thing} were to end, what would follow? If it went on, who would gain by it?",
            "compare two or more": f"How does {thing} differ from the rest? Which of the two is better?",
            "an assessment": f"How well does {thing} work? What are its weak sides? What should be done about it?",
        }
        question = next(text for phrase, text in questions.items() if phrase in prompt)
        return json.dumps({"original": f"What is {thing}?", "question": question})

    def _compound_filter(self, parts: dict[str, list[str]], prompt: str) -> str:
        return json.dumps({"reason": "all of it holds", "fits": True})

    def _compound_reference(self, parts: dict[str, list[str]], prompt: str) -> str:
        return json.dumps({"answer": f"First: {first_sentence(parts['context'][0])} Second, the text does not say."})

    def _unknown(self, parts: dict[str, list[str]], prompt: str) -> str:
        return "?"
