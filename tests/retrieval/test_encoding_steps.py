"""A block of texts is encoded in steps that are reported, and each value belongs to its content."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

from turnmark.core.console import NoProgress
from turnmark.retrieval.index.encoders import Encoder
from turnmark.retrieval.index.encoding_steps import FIRST_STEP_TEXTS, encode_blocks


class Counted(NoProgress):
    """Keeps the sizes of the steps."""

    def __init__(self) -> None:
        self.steps: list[int] = []

    def advance(self, n: int = 1) -> None:
        self.steps.append(n)


def test_each_value_belongs_to_its_content_and_each_step_is_reported() -> None:
    seen: list[list[str]] = []

    def encode(texts: Sequence[str]) -> dict[str, list[bytes]]:
        seen.append(list(texts))
        return {"one": [text.encode() for text in texts], "two": [text.upper().encode() for text in texts]}

    texts = [f"{'long ' * (number % 7)}{number}" for number in range(200)]
    progress, values = Counted(), dict[str, dict[str, bytes]]()
    block: Any = [(str(number), SimpleNamespace(indexed_text=text)) for number, text in enumerate(texts)]
    for contents, step in encode_blocks([block], Encoder("dense", encode, "", 2), 0, None, progress):
        for key, encoded in step.items():
            values.setdefault(key, {}).update(zip(contents, encoded, strict=True))
    assert values["one"] == {str(number): text.encode() for number, text in enumerate(texts)}
    assert values["two"] == {str(number): text.upper().encode() for number, text in enumerate(texts)}
    assert progress.steps[0] == FIRST_STEP_TEXTS
    assert sum(progress.steps) == 200
    lengths = [len(text) for batch in seen for text in batch]
    assert lengths == sorted(lengths, reverse=True)


def test_the_next_block_is_encoded_for_a_gpu_while_one_is_written() -> None:
    began = threading.Event()

    def encode(texts: Sequence[str]) -> dict[str, list[bytes]]:
        if texts[0] == "second":
            began.set()
        return {"one": [text.encode() for text in texts]}

    blocks: Any = [[(text[0], SimpleNamespace(indexed_text=text))] for text in ("first", "second", "third")]
    written = []
    for contents, values in encode_blocks(blocks, Encoder("dense", encode, "", 1, on_gpu=True), 0, None, NoProgress()):
        assert contents != ["f"] or began.wait(30)
        written.append((contents, values["one"]))
    assert written == [(["f"], [b"first"]), (["s"], [b"second"]), (["t"], [b"third"])]
