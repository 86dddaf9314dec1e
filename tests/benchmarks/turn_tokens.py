"""What a turn that is answered at once costs with tools and without: tokens of its prompts, tool definitions included.

    TURNMARK_DATA=… python -m tests.benchmarks.turn_tokens [COLLECTION] [TURNS]

Asks the first questions of a collection of tests/conversations against an endpoint on loopback that takes every message
as it is and answers at once, with `retrieve=read` and with `retrieve=agent`, and counts the tokens of the requests as
`turnmark.assistant.budget` does. Nothing is sent elsewhere.
"""

from __future__ import annotations

import json
import sys
from itertools import islice
from statistics import mean, median

from tests.conversations.collections import collections_named
from tests.conversations.labels import read_labels
from tests.opened import assistant_over
from tests.servers import Say, ScriptedServer
from turnmark.assistant.budget import count_tokens
from turnmark.retrieval.build import build_index


def tokens_of(index: str, form: str, questions: list[str]) -> list[int]:
    """The prompt tokens of each turn, all its calls together."""
    counts = []
    for question in questions:
        with ScriptedServer(Say("{}"), Say("It is so [1].")) as server:
            assistant_over(index, f"openai:tiny@{server.url}", steps=(f"retrieve={form}",)).reply([], question)
        sent = [[body["messages"], body.get("tools", [])] for body in server.bodies]
        counts.append(sum(count_tokens(json.dumps(part)) for request in sent for part in request if part))
    return counts


def main() -> None:
    """Print a line for each form, and what the tools add."""
    [(name, collection)] = collections_named(sys.argv[1:2] or ["clef"]).items()
    index = f"conversations-{name}"
    build_index(collection.documents(), index, include=collection.include, exclude=collection.exclude)
    talks = read_labels(collection.labels)
    questions = list(islice((talk.turn[0].say for talk in talks), int((sys.argv[2:3] or ["20"])[0])))
    counts = {form: tokens_of(index, form, questions) for form in ("read", "agent")}
    for form, tokens in counts.items():
        print(f"{form}: {mean(tokens):,.0f} tokens a turn, median {median(tokens):,.0f}, over {len(tokens)} turns")
    shares = [with_tools / without for without, with_tools in zip(*counts.values(), strict=True)]
    print(f"with tools / without: mean {mean(shares):.3f}, most {max(shares):.3f}")


if __name__ == "__main__":
    main()
