"""How long a turn takes without a language model, over 349 recipes: `ask` from a cold start, and a chat that runs.

    TURNMARK_DATA=… python -m tests.benchmarks.turn [RECIPES]

A chat asks of each recipe how it is made and then, as a second turn, something that leans on that. Beside the turn
stands its search alone, in the same run; beside the cold start stands what importing sentence-transformers takes, which
a turn on the torch backend cannot do without. The index is kept under TURNMARK_HOME.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

from tests.benchmarks.pools import middle_and_p95
from turnmark.assistant.assistant import Assistant
from turnmark.assistant.open import open_assistant
from turnmark.assistant.steps.retrieve import conversation_query
from turnmark.corpora.readers import read_source
from turnmark.corpora.types import Document, Message
from turnmark.retrieval.build import build_index
from turnmark.retrieval.index import open_index

NAME = "bench-recipes"
SECOND = (
    "And how long does it take?",
    "Can I leave out the salt?",
    "How many people does it serve, and what goes well with it?",
    "Which of these do I need to buy?",
)
COLD, SECONDS = 6.0, 1.0
"""Goals: seconds of `ask` from a cold start, and of a second turn (95th percentile)."""
STARTS = 3


def cold(command: Sequence[str]) -> float:
    """Seconds that a process takes; the middle of some starts."""
    taken = []
    for _ in range(STARTS):
        began = time.perf_counter()
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        taken.append(time.perf_counter() - began)
    return median(taken)


def talk(assistant: Assistant, titles: Sequence[str]) -> dict[str, list[float]]:
    """What first and second turns take, the searches of the second alone, and its steps."""
    taken: dict[str, list[float]] = {"first turn": [], "second turn": [], "its search alone": []}
    heard: Any = getattr(assistant.retriever, "heard", lambda _: None)
    for number, title in enumerate(titles):
        history: list[Message] = []
        for name, message in (("first turn", f"How do I make {title}?"), ("second turn", SECOND[number % len(SECOND)])):
            began = time.perf_counter()
            reply = assistant.reply(history, message)
            taken[name].append(time.perf_counter() - began)
            if name == "second turn":
                for step, seconds in reply.timings.items():
                    taken.setdefault(f"  {step}", []).append(seconds)
                began = time.perf_counter()
                assert assistant.retriever is not None, "opened over an index"
                assistant.retriever.search([conversation_query(history, f"{message} Tell me.")], assistant.passages)
                taken["its search alone"].append(time.perf_counter() - began)
            history += [Message(role="user", content=message), Message(role="assistant", content=reply.answer)]
            heard(reply.answer)
    return taken


def main(count: int) -> int:
    """Print the table; 1 where a goal is missed."""
    source = Path(os.environ["TURNMARK_DATA"]) / "docs" / "based-cooking"
    build_index(source, NAME)
    titles = [read.title for read in read_source(source) if isinstance(read, Document)][:count]
    command = "from turnmark.evaluation.cli import main; main()"
    asked = [sys.executable, "-c", command, "ask", f"How do I make {titles[0]}?", "--index", NAME]
    start = cold(asked)
    bare = cold([sys.executable, "-c", "import sentence_transformers"])
    backend = getattr(open_index(NAME).embedder, "backend", "torch")
    print(f"embedding on {backend}")
    print(f"ask, from a cold start   {start:5.2f} s   goal {COLD:g} s, ratio {COLD / start:.2f}")
    print(f"importing sentence-transformers alone {bare:5.2f} s   ratio {bare / start:.2f}")
    assistant = open_assistant(NAME)
    assistant.reply([], "warm up the model")
    taken = talk(assistant, titles)
    print(f"\n{len(titles)} chats of two turns over {count} of the recipes")
    for name, seconds in taken.items():
        print(f"  {name:20}{middle_and_p95(seconds)}")
    worst = float(np.percentile(taken["second turn"], 95))
    share = median(taken["its search alone"]) / median(taken["second turn"])
    print(f"  second turn, p95: goal {SECONDS:g} s, ratio {SECONDS / worst:.2f}; its search alone is {share:.2f} of it")
    print(f"\nload of the machine over the last 1, 5 and 15 minutes: {os.getloadavg()}")
    return int(start > COLD or worst > SECONDS)


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]) if len(sys.argv) > 1 else 100))
