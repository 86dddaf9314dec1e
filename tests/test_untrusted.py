"""The module for untrusted text: its table says where to use each function, and each does what the table says."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable

import pytest

from turnmark.core import untrusted
from turnmark.core.untrusted import describe_error, escape_cell, escape_markdown_line, excerpt, one_line, redact

HOSTILE = "\x1b[31mred\x1b[0m\u202egnp.exe\x00\nsecond line [1]\t\ud800"


def test_the_table_names_every_function() -> None:
    functions = {
        name
        for name, function in inspect.getmembers(untrusted, inspect.isfunction)
        if function.__module__ == untrusted.__name__ and not name.startswith("_")
    }
    rows = [line for line in (untrusted.__doc__ or "").splitlines() if line.startswith("| ")]
    named = set(re.findall(r"`(\w+)", "\n".join(row.split("|")[2] for row in rows)))
    make_nothing_safe = {"ellipsize", "code_spans", "is_in_code"}
    assert named == functions - make_nothing_safe


@pytest.mark.parametrize("function", [one_line, excerpt, escape_cell, escape_markdown_line])
def test_one_line_without_control_characters(function: Callable[[str], str]) -> None:
    written = function(HOSTILE)
    assert written.isprintable()
    assert "second line" in written


def test_an_error_shows_no_secret(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CORPUS_TOKEN", "hunter22")
    described = describe_error(ValueError("hunter22 refused for https://ada:pw@host\nkey sk-12345678"))
    assert described == "ValueError: *** refused for https://***@host key ***"


def test_redacts_a_secret() -> None:
    assert redact("key=abc123, again abc123", "abc123") == "key=***, again ***"
    assert redact("no secret is set", "") == "no secret is set"
