"""A block of texts is encoded in steps that are reported, and its values keep their order."""

from __future__ import annotations

from collections.abc import Sequence

from turnmark.core.console import NoProgress
from turnmark.retrieval.components import Encoder
from turnmark.retrieval.encoding_steps import FIRST_STEP_TEXTS, EncodingSteps


class Counted(NoProgress):
    """Keeps the sizes of the steps."""

    def __init__(self) -> None:
        self.steps: list[int] = []

    def advance(self, n: int = 1) -> None:
        self.steps.append(n)


def test_values_keep_the_order_of_the_texts_and_each_step_is_reported() -> None:
    seen: list[list[str]] = []

    def encode(texts: Sequence[str]) -> dict[str, list[bytes]]:
        seen.append(list(texts))
        return {"one": [text.encode() for text in texts], "two": [text.upper().encode() for text in texts]}

    texts = [f"{'long ' * (number % 7)}{number}" for number in range(200)]
    progress = Counted()
    values = EncodingSteps(Encoder(("one", "two"), encode), progress).encode(texts)
    assert values["one"] == [text.encode() for text in texts]
    assert values["two"] == [text.upper().encode() for text in texts]
    assert progress.steps[0] == FIRST_STEP_TEXTS
    assert sum(progress.steps) == 200
    lengths = [len(text) for step in seen for text in step]
    assert lengths == sorted(lengths, reverse=True)
