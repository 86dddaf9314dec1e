"""Spec strings: parsed, written in normal form, parsed again."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from turnmark.core.errors import RequestError
from turnmark.core.specs import Spec, parse_spec

words = st.text(st.characters(codec="utf-8", exclude_categories=["Cs"]), min_size=1, max_size=12)
plain = st.from_regex(r"[A-Za-z0-9/._-]{0,12}", fullmatch=True)


@given(st.from_regex(r"[a-z][a-z0-9-]{0,8}", fullmatch=True), plain, st.dictionaries(words, words, max_size=4))
def test_normal_form_parses_to_the_same_spec(name, argument, options):
    spec = Spec(name, argument, "", options)
    assert parse_spec(str(spec)) == spec
    assert str(parse_spec(str(spec))) == str(spec)


def test_keeps_option_values_exactly():
    assert parse_spec("dense:m?query_prompt=query: ").options == {"query_prompt": "query: "}
    assert parse_spec(" hybrid?rerank=cross:/a+b/c?precision=bf16\n").options == {
        "rerank": "cross:/a+b/c?precision=bf16"
    }
    assert parse_spec("  bm25 \n") == Spec("bm25")
    assert parse_spec("a?b=&c=%20%26").options == {"b": "", "c": " &"}


@pytest.mark.parametrize(
    ("text", "message"),
    [("Upper", "lower case"), ("a?b", "is not an option"), ("a?b=1&b=2", "'b=2' sets an option twice"),
     ("a?=1", "is not an option"), ("a@file:///x", "needs http:// or https://")],
)  # fmt: skip
def test_refuses_invalid_specs(text, message):
    with pytest.raises(RequestError, match=message):
        parse_spec(text)


@pytest.mark.parametrize(
    "text",
    ["chroma+http://me:hush@h?x", "chroma+http://me:hush?&more-hush@h", "chroma+http://h?a=hush&a=hush@h",
     "Chroma+http://me:hush@hush@h", "x/https://me:hu/sh#hush@h/there"],
)  # fmt: skip
def test_messages_hide_passwords_of_specs(text):
    with pytest.raises(RequestError, match=r"://\*\*\*@h|lower case") as raised:
        parse_spec(text)
    assert "hush" not in str(raised.value)
    assert "hu/sh" not in str(raised.value)


@pytest.mark.parametrize(
    "text",
    [
        "openai:m@127.0.0.1:9911", "openai:m@localhost", "openai:org/m@localhost:8000/v1", "openai:m@host.example/v1",
        "openai:m@myserver", "ollama:qwen@192.168.1.4", "vllm:m@//h:1", "openai:m@ftp://h", "panel:mtrag@gateway/v1",
    ],
)  # fmt: skip
def test_address_without_scheme_is_never_ignored(text):
    """It was taken as a part of the model's name, and the question went to the provider."""
    with pytest.raises(RequestError, match="an address needs http:// or https://"):
        parse_spec(text)


@pytest.mark.parametrize(
    "text", ["openai:claude-3-5-sonnet@20240620", "openai:m@latest", "local:/data/a@b/model.gguf", "openai:m@v1.2"]
)
def test_version_of_a_model_and_a_path_are_no_addresses(text):
    assert parse_spec(text).argument == text.partition(":")[2]
