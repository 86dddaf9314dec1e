"""What a turn costs in processor seconds, without a model and with one behind an endpoint.

    TURNMARK_DATA=… python -m tests.benchmarks.turn_seconds [COLLECTION] [TURNS]

Asks the first question of each conversation of a collection of tests/conversations, in one process, after a question
that loads the model. The endpoint is on loopback, in a process of its own, and answers at once with the same four
sentences; words support none of them, so each is compared with the sentences of all sections. Nothing is sent
elsewhere. The last column compares a turn with its search alone. Processor seconds include all threads of this process.
"""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from itertools import islice
from statistics import median

from tests.conversations.collections import collections_named
from tests.conversations.labels import read_labels
from tests.opened import assistant_over
from tests.servers import Say, ScriptedServer
from turnmark.retrieval.index.build import build_index

ANSWER = (
    "Colleagues usually agree on it with whoever leads them [1]. Nobody needs a form, but somebody has to be told in "
    "advance [2]. Whatever remains lapses later, unless it was promised otherwise [1][3]. Ask around if unsure [2]."
)
TURNS = 20


@contextmanager
def endpoint() -> Iterator[str]:
    """The address of the scripted endpoint, which runs in another process."""
    command = [sys.executable, "-m", "tests.benchmarks.turn_seconds", "serve"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stdin=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            yield process.stdout.readline().strip()
        finally:
            process.terminate()


def serve() -> None:
    """Print the address of the endpoint, and answer until standard input is closed."""

    def answer(body: dict[str, object]) -> Say:
        return Say("{}" if body.get("response_format") else ANSWER)

    with ScriptedServer(answer) as server:
        print(server.url, flush=True)
        sys.stdin.read()


def cpu_seconds(work: Callable[[], object]) -> float:
    """Return the processor seconds of a call."""
    began = time.process_time()
    work()
    return time.process_time() - began


def main() -> None:
    """Print the table."""
    if sys.argv[1:] == ["serve"]:
        serve()
        return
    [(name, collection)] = collections_named(sys.argv[1:2] or ["clef"]).items()
    index = f"conversations-{name}"
    build_index(collection.documents(), index, include=collection.include, exclude=collection.exclude)
    count = int((sys.argv[2:3] or [str(TURNS)])[0])
    questions = list(islice((talk.turn[0].say for talk in read_labels(collection.labels)), count))
    print(f"{len(questions)} questions over {name}, median processor seconds")
    print("| | search alone | turn | turn / search |\n|---|---|---|---|")
    with endpoint() as url:
        for label, generator in (("no model", "extractive"), ("endpoint", f"openai:tiny@{url}")):
            assistant = assistant_over(index, generator)
            assistant.reply([], "What is this about?")
            alone = median(cpu_seconds(partial(assistant.find, [], question)) for question in questions)
            turn = median(cpu_seconds(partial(assistant.reply, [], question)) for question in questions)
            print(f"| {label} | {alone:.2f} | {turn:.2f} | {turn / alone:.1f} |", flush=True)


if __name__ == "__main__":
    main()
