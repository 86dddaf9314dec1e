"""Run `index build` again and again, killing it at random moments. Prints how many runs were killed before their end.

    python -m tests.retrieval.kill_build SOURCE NAME TIMES SEED

The libraries are imported once and each build runs in a fork, before any thread was started: importing would take most
of the time otherwise.
"""

from __future__ import annotations

import os
import random
import signal
import sys
import time

import chromadb  # noqa: F401

from turnmark.corpora.errors import RequestError
from turnmark.evaluation.cli import main
from turnmark.retrieval.index import open_index
from turnmark.retrieval.models import openvino_installed

if not openvino_installed():
    import sentence_transformers  # noqa: F401


def one_build(source: str, name: str, wait: float) -> bool:
    """Start a build, kill it `wait` seconds after it began to read; True if it had not ended by itself."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.dup2(writer, 2)
        sys.argv = ["turnmark", "index", "build", source, "--name", name]
        main()
        os._exit(0)
    os.close(writer)
    with os.fdopen(reader, encoding="utf-8") as messages:
        while (line := messages.readline()) and not line.startswith("reading"):
            pass
        time.sleep(wait)
        os.kill(child, signal.SIGKILL)
        _, status = os.waitpid(child, 0)
    return os.WIFSIGNALED(status)


def run(source: str, name: str, times: int, seed: int) -> int:
    """Kill `times` builds; after each, there is a whole index or none."""
    pick = random.Random(seed)
    killed = 0
    with open(source, encoding="utf-8") as rows:
        expected = sum(1 for _ in rows)
    for _ in range(times):
        killed += one_build(source, name, pick.uniform(0, 2.5))
        try:
            passages = open_index(name).manifest.passages
        except RequestError as error:
            if "interrupted" not in str(error):
                raise
        else:
            assert passages == expected
    return killed


if __name__ == "__main__":
    sys.stdout.write(str(run(sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4]))))
