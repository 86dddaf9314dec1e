"""Drawing of a turn: quotations, streamed Markdown, sources and checks; completion at the prompt."""

from __future__ import annotations

import io
import re
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.cells import cell_len
from rich.console import Console

from tests.assistant.exchanges import reply
from tests.assistant.terminal import assert_golden, screen_of
from turnmark.assistant.config import AssistantConfig
from turnmark.assistant.repl import screen
from turnmark.assistant.repl.chat_commands import COMMANDS, trace_lines
from turnmark.assistant.repl.screen import MAX_UNSUPPORTED_LINES, MarkdownStream, TurnView, check_lines, show_answer
from turnmark.assistant.sessions.conversation import Exchange
from turnmark.assistant.types import (
    Checks,
    Event,
    Judgment,
    Search,
    SearchHit,
    SubQuestion,
    ToolUse,
    Trace,
    Understanding,
    Usage,
)

QUOTED = reply(
    "I am not sure this answers it. The nearest I found:\n\n"
    "Borrowing › How long  \n"
    "Hand tools are lent for two weeks. **Machines go back after two days,** and can be renewed once, by mail, if "
    "nobody waits for them. [1]\n\n"
    "Prices  \n- hand tools: £5\n- **machines: £20** [2]\n\nI found nothing about the saw.",
    "borrowing › How long", "prices",
    decision="partial", timings={"retrieve": 0.1, "answer": 0.12},
    sub_questions=(SubQuestion(text="How long?", answered=True), SubQuestion(text="Which saw?", answered=False)),
)  # fmt: skip
SAMPLE = """\
# Feeding a starter, which is a title that is too long for a narrow terminal

A **bold claim** about 2 * 3 * 4 and *emphasis*, `code [x]`, snake_case_names. [1][2]
See [the guide](https://example.org/guide), <b>not</b> ![a picture](https://example.org/x.png) &#x202e;.

- stir the jar well with a wooden spoon, twice a day, and never with metal
  - or *three* times
- rest

1. Stir the flours into 670 g of the water and leave the dough covered for 40 minutes. [2]
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

[1]: https://example.org/hidden

An unclosed **bold and a lone _ to the end
of averyveryverylongwordthatdoesnotfitanywhereonalineoffortycolumnsatall.
"""
WRITTEN = reply(SAMPLE, "starters › Feeding", "bread", checks=Checks(unsupported=("It goes in last.",)))


@pytest.mark.parametrize("every", [0, 100])
def test_draws_turns_on_a_terminal(every, monkeypatch):
    """Draws a quotation, a streamed answer, and an answer that checking changed. No status line remains."""
    monkeypatch.setattr("turnmark.assistant.repl.screen.REDRAW_SECONDS", every)
    out = io.StringIO()
    console = Console(file=out, width=40, height=50, force_terminal=True, color_system="standard", highlight=False)
    with TurnView(console, streaming=False) as view:
        view.on_event(Event(step="understand", text="the question in full"))
        view.on_event(Event(step="retrieve", text="search: borrow saw", detail={"tool": "search"}))
        found = {"tool": "search", "found": "2 sections"}
        view.on_event(Event(step="retrieve", text="search: borrow saw → 2 sections [3] [4]", detail=found))
        view.finish(QUOTED)
    with TurnView(console, streaming=True) as view:
        for start in range(0, len(SAMPLE), 7):
            view.on_event(Event(step="answer", delta=SAMPLE[start : start + 7]))
        view.finish(WRITTEN)
    with TurnView(console, streaming=True) as view:
        view.on_event(Event(step="answer", delta="It is fed [1]. It"))
        view.on_event(Event(step="note", text="cut \x1b[2J short"))
        view.on_event(Event(step="answer", delta=" is red [9]."))
        view.finish(reply("It is fed [1].", "a"))
    raw = out.getvalue()
    assert all(f"\x1b[2m{text}" in raw for text in ("thinking …", "search: borrow saw"))
    assert "search: borrow saw → 2 sections [3] [4]" in raw
    assert "\x1b[1mMachines go back after" in raw
    assert "\x1b[2J" not in raw
    assert_golden("turns.txt", screen_of(raw, 40) + "\n")


def test_why_shows_the_whole_trace():
    trace = Trace(
        forms={"retrieve": "agent"},
        understanding=Understanding(rewrite="", sub_questions=("a", "b"), standalone=False, wants_procedure=True),
        searches=(
            Search(why="the message", query="how long", variants=("loan period", "due \x1b[2Jdate"), part=0,
                   hits=(SearchHit(id="borrow\n-1", title="B", score=7.25, similarity=0.5),)),
            Search(why="what was missing", query="which saw"),
        ),
        calls=(
            ToolUse(tool="search", asked="saw \x1b[2J", found="2 sections [3] [4]"),
            ToolUse(tool="search", asked="circular saw", found="nothing"),
            ToolUse(tool="grep", asked="saw", found="3 times in 2 sections of 2 of 40 documents [5]", round=2),
        ),
        judgement=Judgment(decision="partial", confidence=0.62, reason="the model says so"),
    )  # fmt: skip
    exchange = Exchange(
        turn=1, at="", kind="ask", question="How long, and which saw?", rating="bad", comment="short", edit="x",
        config=AssistantConfig(index="demo", generator="openai:m", top_k=3, steps=("retrieve=agent",)),
        reply=QUOTED.model_copy(
            update={"trace": trace, "rewrite": "How long may it be kept?", "notes": ("cut",),
                    "checks": Checks(grounded=0.5, unsupported=("It is red.",)),
                    "usage": {"answer": Usage(calls=2, prompt_tokens=900, cached_tokens=800, completion_tokens=40)}}
        ),
    )  # fmt: skip
    assert_golden("why.txt", "\n".join(trace_lines(exchange)) + "\n")


# --- Markdown --------------------------------------------------------------------------------------------------------


def drawn(pieces: list[str], width: int) -> str:
    out = io.StringIO()
    stream = MarkdownStream(Console(file=out, width=width, highlight=False))
    for piece in pieces:
        stream.feed(piece)
    stream.end()
    return out.getvalue()


@given(st.lists(st.integers(1, 40), max_size=200), st.sampled_from([40, 80]))
@settings(max_examples=25, deadline=None)
def test_streamed_markdown_does_not_depend_on_the_pieces(cuts, width):
    pieces, start = [], 0
    for cut in cuts:
        pieces.append(SAMPLE[start : start + cut])
        start += cut
    assert drawn([*pieces, SAMPLE[start:]], width) == drawn([SAMPLE], width)


def test_long_paragraph_is_not_parsed_at_every_word(monkeypatch):
    parsed = []
    monkeypatch.setattr(screen, "_block_starts", lambda text: parsed.append(text) or iter(()))
    drawn(["word "] * 2000, 80)
    assert parsed == []


TEXTS = st.text(st.sampled_from(list("ab *_`~#>|-+1.)[](){}\\\n\t!:红\x1b\u202e<&é")), max_size=120)


@given(TEXTS, st.integers(1, 7), st.sampled_from([12, 40]))
@settings(max_examples=150, deadline=None)
def test_any_text_can_be_drawn(text, size, width):
    screen = drawn([text[start : start + size] for start in range(0, len(text), size)], width)
    assert "\x1b" not in screen
    assert "\u202e" not in screen
    if not any(fence in text for fence in ("```", "~~~")):  # the terminal wraps code
        assert all(cell_len(line) <= width for line in screen.split("\n"))


@pytest.mark.parametrize(
    "text",
    ["Run:\n\n```sh\nLINE\n```\n", "1. Run:\n\n   ```\n   LINE\n   ```\n\n2. Wait.\n", "> ```\n> LINE\n> ```\n",
     "- One:\n  - Two:\n\n    ```\n    LINE\n    ```\n"],
    ids=["alone", "in a list", "in a quotation", "in a nested list"],
)  # fmt: skip
def test_a_long_line_of_code_can_be_copied_whole(text):
    line = "docker run --rm " + " ".join(f"--env NAME{n}=value" for n in range(20))
    shown = drawn([text.replace("LINE", line)], 40)
    assert line in shown
    assert drawn(["A long paragraph of many words that does not fit on one line.\n"], 40).count("\n") == 2


def test_answer_is_drawn_as_markdown_on_a_terminal_and_plain_on_a_pipe():
    reply = QUOTED.model_copy(update={"answer": "Use **soap**.", "citations": ()})
    for terminal, expected in ((True, "Use soap."), (False, "Use **soap**.")):
        out = io.StringIO()
        show_answer(Console(file=out, force_terminal=terminal, width=80, color_system=None), reply)
        assert expected in re.sub(r"\x1b\[\d*m", "", out.getvalue())


@pytest.mark.parametrize(
    ("count", "ending"),
    [
        (0, ""),
        (3, "Sentence 2."),
        (4, "not in the documents: 1 more sentence"),
        (120, "not in the documents: 117 more sentences"),
    ],
)
def test_few_unsupported_sentences_are_shown_and_the_others_counted(count, ending):
    lines = check_lines(reply("Text.", checks=Checks(unsupported=tuple(f"Sentence {n}." for n in range(count)))))
    assert len(lines) == min(count, MAX_UNSUPPORTED_LINES + 1)
    assert "".join(lines[-1:]).endswith(ending)


# --- the prompt ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("typed", "offered"),
    [
        ("/s", ["/save", "/sessions"]), ("/re", ["/resume", "/retriever", "/retry", "/revise"]),
        ("/rate ", ["bad", "good", "neutral"]),
        ("/export m", ["markdown", "mtrag"]), ("/export markdown {}/no", ["tes.jsonl"]), ("/index d", ["demo"]),
        ("/generator ext", ["extractive"]), ("/retriever bm", ["bm25"]), ("/retriever de", ["default", "dense"]),
        ("/rate good so", []), ("/why ", []), ("what is /so", []),
    ],
)  # fmt: skip
def test_completes_commands_and_arguments(home: Path, tmp_path: Path, typed: str, offered: list[str]) -> None:
    from prompt_toolkit.completion import CompleteEvent
    from prompt_toolkit.document import Document

    from turnmark.assistant.repl.chat_loop import ChatCompleter

    (tmp_path / "notes.jsonl").touch()
    completions = ChatCompleter(COMMANDS).get_completions(Document(typed.format(tmp_path)), CompleteEvent())
    assert [completion.text for completion in completions] == offered
