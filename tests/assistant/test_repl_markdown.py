"""Markdown that streams in: every way of cutting it gives the same screen, and no line is too long."""

from __future__ import annotations

import io
import os
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.cells import cell_len
from rich.console import Console

from turnmark.assistant.repl.markdown import MarkdownStream

GOLDEN = Path(__file__).parent / "golden"

SAMPLE = """\
# Feeding a starter, which is a title that is too long for a narrow terminal

A **bold claim** about 2 * 3 * 4 and *emphasis*, `code [x]`, snake_case_names. [1][2]
See [the guide](https://example.org/guide).

- stir the jar well with a wooden spoon, twice a day, and never with metal
  - or *three* times
- rest

1. Stir the flours into 670 g of the water and leave the dough covered for 40 minutes. [3]
2. Add the salt.
   It goes in last.

> quoted words that go on until they have to wrap somewhere, as they will
> and on

```python
def feed(grams):
    return grams * 2
```

| flour | grams |
|-------|-------|
| rye   | **60** |
| wheat | 40 |

---
红烧肉需要什么？红烧肉需要五花肉、酱油、冰糖和料酒，还有葱姜八角桂皮。 [1]

An unclosed **bold and a lone _ to the end
of averyveryverylongwordthatdoesnotfitanywhereonalineoffortycolumnsatall.
"""


def drawn(pieces: list[str], width: int, color: bool = False) -> str:
    out = io.StringIO()
    system = "truecolor" if color else None
    stream = MarkdownStream(
        Console(file=out, width=width, force_terminal=color, color_system=system, highlight=False)  # type: ignore[arg-type]
    )
    for piece in pieces:
        stream.feed(piece)
    stream.end()
    return out.getvalue()


@pytest.mark.parametrize("width", [40, 80])
def test_a_sample_of_everything(width):
    """TURNMARK_UPDATE_GOLDEN=1 writes it anew."""
    golden = GOLDEN / f"markdown_{width}.txt"
    screen = drawn([SAMPLE], width)
    if os.environ.get("TURNMARK_UPDATE_GOLDEN"):
        golden.write_text(screen, encoding="utf-8")
    assert screen == golden.read_text(encoding="utf-8")


@given(st.lists(st.integers(1, 40), max_size=200), st.sampled_from([40, 80]))
@settings(max_examples=60, deadline=None)
def test_how_it_is_cut_does_not_matter(cuts, width):
    pieces, start = [], 0
    for cut in cuts:
        pieces.append(SAMPLE[start : start + cut])
        start += cut
    assert drawn([*pieces, SAMPLE[start:]], width) == drawn([SAMPLE], width)


TEXTS = st.text(st.sampled_from(list("ab *_`~#>|-+1.)[](){}\\\n\t!:红\x1b\u202e<&é")), max_size=120)


@given(TEXTS, st.integers(1, 7), st.sampled_from([12, 40]))
@settings(max_examples=150, deadline=None)
def test_no_text_breaks_it(text, size, width):
    pieces = [text[start : start + size] for start in range(0, len(text), size)]
    screen = drawn(pieces, width)
    assert "\x1b" not in screen
    assert "\u202e" not in screen
    fenced = "```" in text or "~~~" in text
    assert fenced or all(cell_len(line) <= width for line in screen.split("\n"))
    letters = sorted(char for char in screen if char in "ab红é")
    assert letters == sorted(char for char in text.replace("\x1b[", "") if char in "ab红é") or "\x1b" in text


def test_every_word_of_plain_text_arrives_in_order():
    text = " ".join(f"word{n}" for n in range(500))
    assert drawn([text], 40).split() == text.split()


def test_what_is_certain_is_drawn_at_once():
    out = io.StringIO()
    stream = MarkdownStream(Console(file=out, width=40))
    stream.feed("It is fed wee")
    assert out.getvalue() == "It is fed"
    stream.feed("kly **and")
    assert out.getvalue() == "It is fed weekly"
    stream.feed(" well** now ")
    assert out.getvalue() == "It is fed weekly and well now"


def test_emphasis_is_style_and_not_marks():
    screen = drawn(["some **bold** and `code`"], 80, color=True)
    assert "\x1b[1mbold" in screen
    assert "*" not in screen
    assert "`" not in screen
