"""The screen of a turn, completion at the prompt, and Markdown that streams in."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.cells import cell_len
from rich.console import Console

from tests.assistant.exchanges import reply
from tests.assistant.talk import STARTER, Talk
from tests.assistant.terminal import assert_golden
from turnmark.assistant.repl.loop import COMMANDS
from turnmark.assistant.repl.markdown import MarkdownStream
from turnmark.assistant.repl.screen import TurnView
from turnmark.assistant.types import Checks, Event


@pytest.fixture
def talk(home: Path) -> Talk:
    return Talk()


def test_notes_and_rewrites_never_stand_in_the_middle_of_a_line():
    out = io.StringIO()
    view = TurnView(Console(file=out, width=60, force_terminal=True, color_system=None), streaming=True)
    view.on_event(Event(step="understand", text="the whole question"))
    view.on_event(Event(step="answer", delta="It is fed weekly"))
    view.on_event(Event(step="note", text="cut \x1b[2J short"))
    view.on_event(Event(step="answer", delta=" and more"))
    view.stop()
    drawn = out.getvalue().replace("\r\x1b[2K", "<gone>")
    assert "thinking …<gone>→ the whole question\n" in drawn
    assert "It is fed weekly\nnote: cut  short\n" in drawn
    assert "\x1b" not in drawn


def test_an_answer_that_checking_changed_is_drawn_again():
    out = io.StringIO()
    view = TurnView(Console(file=out, width=60, force_terminal=True, color_system=None), streaming=True)
    view.on_event(Event(step="answer", delta="It is fed [1]. It is red [9]."))
    mended = reply("It is fed [1].", "a").model_copy(update={"checks": Checks(grounded=1.0, repaired=True)})
    view.finish(mended)
    drawn = out.getvalue().split("\r\x1b[2K")[-1]
    lines = [line.rstrip() for line in drawn.split("\n")]
    assert lines[:3] == ["It is fed [1]. It is red [9].", "after checking:", "It is fed [1]."]
    assert lines[3] == "  [1] A — a"
    assert lines[4].startswith("answer · grounded 1.00 · 1 source · repaired")


def test_on_a_terminal_that_cannot_move_nothing_does(monkeypatch):
    monkeypatch.setenv("TERM", "dumb")
    out = io.StringIO()
    view = TurnView(Console(file=out, width=60, force_terminal=True), streaming=True)
    view.on_event(Event(step="retrieve", text="3 passages"))
    view.on_event(Event(step="answer", delta="It is **fed** [1]."))
    view.finish(reply("It is **fed** [1].", "a"))
    assert out.getvalue().startswith("It is **fed** [1].\n")
    assert "\x1b" not in out.getvalue()


@pytest.mark.parametrize(
    ("typed", "offered"),
    [
        ("/so", ["/sources"]),
        ("/s", ["/save", "/sessions", "/set", "/sources", "/steps"]),
        ("/rate ", ["bad", "good", "neutral"]), ("/export m", ["markdown", "mtrag"]), ("/index d", ["demo"]),
        ("/set pass", ["passages"]), ("/load k", ["kept"]), ("/sessions d", ["delete"]),
        ("/sessions delete ", ["kept"]), ("/generator ext", ["extractive"]), ("/retriever bm", ["bm25"]),
        ("/rate good so", []), ("/why ", []), ("what is /so", []),
    ],
)  # fmt: skip
def test_completion(talk, typed, offered):
    talk(STARTER)
    talk("/save kept")
    assert completions(talk, typed) == offered


def completions(talk: Talk, typed: str) -> list[str]:
    from prompt_toolkit.completion import CompleteEvent
    from prompt_toolkit.document import Document

    from turnmark.assistant.repl.prompt import ChatCompleter

    completer = ChatCompleter(talk.chat, COMMANDS)
    return [completion.text for completion in completer.get_completions(Document(typed), CompleteEvent())]


def test_completion_of_paths(talk, tmp_path):
    (tmp_path / "notes.jsonl").touch()
    assert completions(talk, f"/export markdown {tmp_path}/no") == ["tes.jsonl"]
    assert completions(talk, f"/generator replay:{tmp_path}/no") == ["tes.jsonl"]


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
    assert_golden(f"markdown_{width}.txt", drawn([SAMPLE], width))


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
