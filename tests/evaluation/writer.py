"""A generator that writes a fixed answer to each question, and keeps what it was asked: `python:…writer:writer`."""

from __future__ import annotations

import json
from typing import Any

from turnmark.assistant.llm.calls.protocols import Completion, GeneratorError
from turnmark.assistant.types import Usage

SPEC = "python:tests.evaluation.writer:writer"
ANSWERS = {
    "who made the bell": "A founder in London made it [1].",
    "when was it cast": "It was cast in 1858 [1], and twice [2].", "how tall is the tower": "I don't know.",
    "who owns it now": "The town owns it [1].", "which one": "The old one [1].",
    "what is a bond": "A bond is a loan to a company [1].",
    "is it safe": "It is [1].", "and a dividend": "A dividend is paid [1].\nSteps:\n1. Wait [1].\n2. Cash it [1].",
}  # fmt: skip
MESSAGE = "The user's message:\n"


def asked_in(prompt: str) -> str:
    """The message that a prompt puts to the model, else its last line."""
    _, found, rest = prompt.rpartition(MESSAGE)
    return rest.splitlines()[0] if found else prompt.rstrip().splitlines()[-1]


class Writer:
    """Answers by the question; one that is not in `ANSWERS` fails. Every message is understood as it is."""

    name, context_tokens, reply_tokens = SPEC, 8192, 1024

    def __init__(self) -> None:
        self.prompts: list[str] = []

    def complete(self, messages: Any, schema: Any = None, **_: Any) -> Completion:
        prompt = messages[-1].content
        usage = Usage(calls=1, prompt_tokens=100, completion_tokens=10)
        question = asked_in(prompt)
        if schema is not None:
            understood = {"kind": "question", "leans": False, "rewrite": "", "parts": [], "procedure": False}
            text = json.dumps(understood if "procedure" in str(schema) else {"class": "standalone"})
        else:
            self.prompts.append(prompt)
            if question not in ANSWERS:
                raise GeneratorError("bad_reply", f"nothing to say to {question!r}", usage)
            text = ANSWERS[question]
        return Completion(text=text, finish_reason="stop", usage=usage, model="writer", max_tokens=1024)


WRITERS: list[Writer] = []


def writer() -> Writer:
    """The factory that `--generator` names; the last one made is kept, with what it was asked."""
    WRITERS[:] = [Writer()]
    return WRITERS[0]
