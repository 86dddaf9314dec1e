"""Which form each step of the turn takes: one of a table of names, by default as there is a language model or not."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal

from turnmark.corpora.errors import ErrorCollector
from turnmark.corpora.types import Record

Understand = Literal["rules", "llm", "structured"]
Retrieve = Literal["once", "active", "look-ahead"]
Decide = Literal["embedded", "llm"]
Write = Literal["extractive", "llm", "whole"]
Verify = Literal["embedded", "llm"]

FORMS: Mapping[str, Mapping[str, str]] = {
    "understand": {
        "rules": "by rules, in English",
        "llm": "rules; a message that leans on its conversation is put as a question of its own, in one call",
        "structured": "kind, parts and readings too, in one structured call; for large models",
    },
    "retrieve": {
        "once": "one search for the message, and one for each part of it",
        "active": "judges what was found, and searches once more, narrower, for what it does not cover",
        "look-ahead": "active; and a sentence that the model is unsure of becomes a query (FLARE; needs logprobs)",
    },
    "decide": {
        "embedded": "calibrated on scores of the retrieval and on shared words",
        "llm": "one structured call a round: what is covered, what is missing, what the question may mean",
    },
    "answer": {
        "extractive": "sentences of the documents",
        "llm": "each part in a sentence or two from excerpts, beside what the documents say",
        "whole": "all parts in one call, from whole passages and the conversation; for large models",
    },
    "revise": {"rules": "whole sentences and items by code", "llm": "rules where they can; else the whole answer anew"},
    "verify": {
        "embedded": "shared words, numbers, names and embeddings",
        "llm": "claim by claim, in one structured call, and one repair",
    },
}
"""Step -> name of a form -> what it is."""

NEEDS_MODEL = frozenset(("llm", "structured", "whole", "look-ahead"))


class Forms(Record):
    """The form of every step."""

    understand: Understand = "rules"
    retrieve: Retrieve = "active"
    decide: Decide = "embedded"
    answer: Write = "extractive"
    revise: Literal["rules", "llm"] = "rules"
    verify: Verify = "embedded"


def forms_for(model: bool, chosen: Sequence[str] = ()) -> Forms:
    """The forms of a turn.

    Where there is a model it understands, answers and revises; deciding and verifying ask it only when that is chosen,
    since each costs a call more before or after the answer.

    Args:
        model: there is a language model.
        chosen: `STEP=FORM` each.

    Raises:
        RequestError: every one that names no step or no form of it, or needs a model where there is none.
    """
    made: dict[str, str] = {"understand": "llm", "answer": "llm", "revise": "llm"} if model else {}
    errors = ErrorCollector()
    for one in chosen:
        step, _, form = one.partition("=")
        if step not in FORMS:
            errors.add(f"--step {one!r}: no step is called {step!r}; there are: {', '.join(FORMS)}")
        elif form not in FORMS[step]:
            errors.add(f"--step {one!r}: {step} has no form {form!r}; there are: {', '.join(FORMS[step])}")
        elif form in NEEDS_MODEL and not model:
            errors.add(f"--step {one!r}: {form} needs a language model: add --generator")
        else:
            made[step] = form
    errors.raise_all()
    return Forms.model_validate(made)
