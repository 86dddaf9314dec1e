"""KIWI's turns as training, validation and test data (section 5), and the training turns nearest to an instruction.

The paper draws 888, 186 and 186 of its 1,260 turns at random. Turns of one session, and sessions about one question,
then stand on both sides, and an example may show the very answer that is to be judged. `by_question` keeps all turns
about a question on one side.
"""

from __future__ import annotations

import random
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

from turnmark.corpora.errors import RequestError
from turnmark.corpora.kiwi import Rating, Session, Turn, same_question

Part = Literal["train", "validation", "test"]

HELD_OUT, OF = 186, 1260
"""Test turns of the paper, as many as validation turns, and all of its turns."""
NEAREST = 10
"""Examples of the paper's few-shot prompt."""


def is_good(rating: Rating) -> bool:
    """The label that is predicted: neutral and bad count as one."""
    return rating == "good"


def split(sessions: Sequence[Session], seed: int, by_question: bool = False) -> dict[str, Part]:
    """Turn id -> part. Test and validation have 186/1260 of the turns each, at least one; the rest is for training.

    The shares are met exactly where turns are drawn, and as nearly as whole questions allow where these are.

    Args:
        seed: of the draw; the paper names none, so that its very split cannot be had again.
        by_question: all turns of all sessions about a question are in one part.

    Raises:
        RequestError: there are too few turns, or too few questions, for three parts.
    """
    groups: dict[str, list[str]] = {}
    for session in sessions:
        for turn in session.turns:
            key = same_question(session.question) if by_question else turn.id
            groups.setdefault(key, []).append(turn.id)
    if len(groups) < 3:
        what = "questions" if by_question else "turns"
        raise RequestError(f"the data has {len(groups)} {what}, and a split into three parts takes three at least")
    total = sum(map(len, groups.values()))
    most = max(1, round(total * HELD_OUT / OF))
    order = list(groups)
    random.Random(seed).shuffle(order)
    found: dict[str, Part] = {}
    parts: list[Part] = ["test", "validation"]
    taken = 0
    for left, key in zip(range(len(order), 0, -1), order, strict=True):
        if parts and taken and (taken + len(groups[key]) / 2 > most or left <= len(parts)):
            parts.pop(0)
            taken = 0
        found |= dict.fromkeys(groups[key], parts[0] if parts else "train")
        taken += len(groups[key])
    return {turn.id: found[turn.id] for session in sessions for turn in session.turns}


class Examples:
    """Rated turns to show beside one that is to be judged: those whose instructions are nearest to its own.

    Args:
        turns: the training turns, each with its session.
    """

    def __init__(self, turns: Sequence[tuple[Session, Turn]]) -> None:
        from turnmark.retrieval.bm25 import BM25, BM25Settings, build_bm25

        self._turns = tuple(turns)
        settings = BM25Settings()
        with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
            build_bm25((turn.instruction for _, turn in turns), Path(folder), settings)
            self._index = BM25(Path(folder), settings)

    def nearest(self, instruction: str, most: int = NEAREST) -> list[tuple[Session, Turn]]:
        """The nearest by BM25 over the instructions, best first; fewer where fewer share a word with it."""
        return [self._turns[row] for row, _ in self._index.top(instruction, most)]
