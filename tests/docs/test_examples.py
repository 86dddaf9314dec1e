"""The reading of pages itself: what is taken for an example, and what for none."""

from __future__ import annotations

import pytest

from tests.docs.commandline import Incomplete, parsed
from tests.docs.examples import forms
from tests.docs.pages import Block, commands


def block(*lines: str, language: str = "") -> Block:
    return Block("docs/x.md", 7, lines, language)


@pytest.mark.parametrize(
    ("lines", "kind"),
    [
        (["turnmark list   # Holm's"], "shell"), (["TURNMARK_DATA=… python -m x", "# a word"], "shell"),
        (["[eval]", 'max-failures = "5%"'], "toml"), (['{"a": 1}'], "json"), (["from a import b", "b()"], "python"),
        (["turnmark list", "and more of it"], "unknown"), (["turnmarked list"], "unknown"), (["Some prose"], "unknown"),
    ],
)  # fmt: skip
def test_a_block_is_what_its_lines_begin_with(lines: list[str], kind: str) -> None:
    assert block(*lines).kind == kind


def test_a_line_goes_on_after_a_backslash() -> None:
    lines = block("turnmark eval mtrag \\", "  --limit 2", "", "turnmark list")
    assert list(commands(lines)) == [(7, "turnmark eval mtrag --limit 2"), (10, "turnmark list")]


def test_optional_parts_are_left_out_and_put_in() -> None:
    short, long = forms("x:1", "turnmark chat [--index NAME] [--step STEP=FORM]… [--resume [SESSION]]  # a [b]")
    assert short.words == ("turnmark", "chat")
    assert " ".join(long.words) == "turnmark chat --index NAME --step STEP=FORM --resume SESSION"


def test_quotes_and_what_stands_around_a_command_are_a_shells() -> None:
    (example,) = forms("x:1", "A_B='[1]' turnmark ask - --budget '$5' --json < \"my questions\"  # it's read")
    assert example.words == ("turnmark", "ask", "-", "--budget", "\0" + "5", "--json")
    assert (example.environment, example.stdin, example.program) == ({"A_B": "[1]"}, "my questions", "turnmark")
    (set_before,) = forms("x:1", "export TURNMARK_DATA=…   # the folder")
    assert (set_before.words, set_before.environment) == ((), {"TURNMARK_DATA": "…"})


def test_what_the_command_line_would_refuse_is_refused() -> None:
    assert parsed(["eval", "mtrag", "--limit", "2"])["limit"] == 2
    for words in (["eval", "mtrag", "--limix", "2"], ["evil"], ["doctor", "x"], ["eval", "mtrag", "--limit", "two"]):
        with pytest.raises(ValueError) as raised:
            parsed(words)
        assert not isinstance(raised.value, Incomplete)
    for words in (["eval"], ["index"], ["index", "build", "x", "--name"]):
        with pytest.raises(Incomplete):
            parsed(words)
    assert parsed(["--install-completion"]) == {}, "it is not done"
