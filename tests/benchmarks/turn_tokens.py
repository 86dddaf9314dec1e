"""What a turn that is answered at once costs with tools and without: tokens of its prompts, tool definitions included.

    TURNMARK_DATA=… python -m tests.benchmarks.turn_tokens [COLLECTION] [TURNS]

Asks the first questions of a collection of tests/conversations against an endpoint on loopback that takes every message
as it is and answers at once, with `retrieve=read` and with `retrieve=agent`, and counts the tokens of the requests as
`turnmark.assistant.llm.prompts.context_budget` does. Nothing is sent elsewhere.
"""

from __future__ import annotations

import json
import re
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import islice
from statistics import mean, median
from typing import Any

from tests.conversations.collections import collections_named
from tests.conversations.labels import read_labels
from tests.opened import assistant_over
from tests.servers import Say, ScriptedServer
from turnmark.assistant.llm.prompts.context_budget import count_tokens
from turnmark.retrieval.index.build import build_index

_MATERIAL = {
    "titles": re.compile(r"^Titles of the documents.*?(?=^Conversation so far)", re.MULTILINE | re.DOTALL),
    "sections": re.compile(r"^Sections of the documents:$.*?(?=^The user's message:$)", re.MULTILINE | re.DOTALL),
    "named sections": re.compile(r"^Also found, and only named.*?(?=^Today is)", re.MULTILINE | re.DOTALL),
}


def parts_of(requests: Sequence[Mapping[str, Any]]) -> Counter[str]:
    """The prompt tokens of a turn by what they are for."""
    tokens: Counter[str] = Counter()
    for call, request in zip(("understand", "answer"), requests, strict=True):
        used = count_tokens(json.dumps(request["messages"]))
        text = request["messages"][-1]["content"]
        for name, pattern in _MATERIAL.items():
            found = pattern.search(text)
            if found:
                tokens[name] += count_tokens(json.dumps(found[0]))
                used -= count_tokens(json.dumps(found[0]))
        tokens[f"rules and message of {call}"] = used
        if "tools" in request:
            tokens["definitions of tools"] += count_tokens(json.dumps(request["tools"]))
    return tokens


def tokens_of(index: str, form: str, questions: list[str]) -> list[Counter[str]]:
    """The prompt tokens of each turn."""
    counts = []
    for question in questions:
        with ScriptedServer(Say("{}"), Say("It is so [1].")) as server:
            assistant_over(index, f"openai:tiny@{server.url}", steps=(f"retrieve={form}",)).reply([], question)
        counts.append(parts_of(server.bodies))
    return counts


def main() -> None:
    """Print a line for each form, and what the tools add."""
    [(name, collection)] = collections_named(sys.argv[1:2] or ["clef"]).items()
    index = f"conversations-{name}"
    build_index(collection.documents(), index, include=collection.include, exclude=collection.exclude)
    talks = read_labels(collection.labels)
    questions = list(islice((talk.turn[0].say for talk in talks), int((sys.argv[2:3] or ["20"])[0])))
    counts = {form: tokens_of(index, form, questions) for form in ("read", "agent")}
    for form, turns in counts.items():
        tokens = [turn.total() for turn in turns]
        print(f"{form}: {mean(tokens):,.0f} tokens a turn, median {median(tokens):,.0f}, over {len(tokens)} turns")
        for part in dict.fromkeys(part for turn in turns for part in turn):
            print(f"  {part}: {mean(turn[part] for turn in turns):,.0f}")
    shares = [tools.total() / plain.total() for plain, tools in zip(*counts.values(), strict=True)]
    print(f"with tools / without: mean {mean(shares):.3f}, most {max(shares):.3f}")


if __name__ == "__main__":
    main()
