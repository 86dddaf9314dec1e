"""`local:`: a real small language model in this process (mark `reader`), and the errors if it is missing."""

from __future__ import annotations

import json
import os
import signal
import struct
import subprocess
import sys
from pathlib import Path

import pytest
from pydantic import BaseModel

from tests.conftest import ROOT, Turnmark
from turnmark.assistant.llm.calls.protocols import GeneratorError, PromptMessage
from turnmark.assistant.llm.calls.reply_normalizer import NormalizedGenerator
from turnmark.assistant.llm.generators.local import LocalGenerator, read_header
from turnmark.assistant.llm.generators.openvino_model import PROMPT_CHUNK_TOKENS
from turnmark.assistant.llm.generators.registry import open_generator
from turnmark.core.errors import RequestError

NAME = "qwen2.5-coder-1.5b"
reader_test = pytest.mark.reader


def asking(text: str, system: str = "You answer in one short sentence.") -> list[PromptMessage]:
    return [PromptMessage(role="system", content=system), PromptMessage(role="user", content=text)]


@pytest.fixture(scope="module")
def reader(reader_path: Path) -> LocalGenerator:
    opened = open_generator(f"local:{reader_path}?seed=5&max_tokens=40")
    assert isinstance(opened, NormalizedGenerator)
    return opened.generator


@pytest.fixture(scope="module")
def passage() -> str:
    """A text of about 1,500 tokens."""
    return (ROOT / "docs" / "documents.md").read_text("utf-8")[:5400]


@reader_test
def test_streamed_pieces_add_up_to_the_text(reader: LocalGenerator):
    pieces: list[str] = []
    reply = reader.complete(asking("Write the word for water in Greek, Japanese and French."), on_text=pieces.append)
    assert len(pieces) > 3
    assert "".join(pieces) == reply.text
    assert "\ufffd" not in reply.text


@reader_test
def test_usage_counts_tokens_of_the_prompt(reader: LocalGenerator):
    messages = asking("What is the capital of France?")
    reply = reader.complete(messages)
    assert "Paris" in reply.text
    assert reply.finish_reason == "stop"
    assert reply.usage.prompt_tokens == len(reader._prompt(messages))


class City(BaseModel):
    name: str
    country: str
    rivers: list[str]


@reader_test
def test_reply_follows_the_schema(reader: LocalGenerator):
    reply = reader.complete(asking("Name the city of the Eiffel tower."), schema=City, max_tokens=120)
    assert City.model_validate_json(reply.text).name == "Paris"


@reader_test
def test_second_question_over_the_same_text_uses_the_cached_prefix(reader: LocalGenerator, passage: str):
    system = f"Answer from this text in one word.\n\n{passage}"
    reader.complete(asking("Which language is it written in?", system), max_tokens=4)
    second = asking("Is anything said about weights?", system)
    reply = reader.complete(second, max_tokens=4)
    assert reply.usage.prompt_tokens > 1200
    assert reply.usage.prompt_tokens - reply.usage.cached_tokens <= 2 * PROMPT_CHUNK_TOKENS
    again = reader.complete(second, max_tokens=4)
    assert again.text == reply.text


@reader_test
def test_refuses_a_prompt_longer_than_the_context(reader_path: Path):
    generator = open_generator(f"local:{reader_path}?context=256")
    assert generator.context_tokens == 256
    with pytest.raises(GeneratorError, match=r"the context of .* \(256 tokens\)"):
        generator.complete(asking("word " * 300))


INTERRUPTED = """
import sys
from turnmark.assistant.llm.calls.protocols import PromptMessage
from turnmark.assistant.llm.generators.registry import open_generator
generator = open_generator(sys.argv[1])
generator.make_ready()
def listen(piece):
    print(len(piece), flush=True)
try:
    generator.complete([PromptMessage(role="user", content="Count from 1 to 1000.")], on_text=listen, max_tokens=3000)
except KeyboardInterrupt:
    print("interrupted", flush=True)
    message = [PromptMessage(role="user", content="What is the capital of France?")]
    print(generator.complete(message, max_tokens=20).text)
"""


@reader_test
def test_model_can_be_used_again_after_ctrl_c(reader_path: Path):
    process = subprocess.Popen(
        [sys.executable, "-c", INTERRUPTED, f"local:{reader_path}"], stdout=subprocess.PIPE, text=True, cwd=ROOT
    )
    for _ in range(3):
        assert process.stdout.readline().strip().isdigit()
    process.send_signal(signal.SIGINT)
    remaining_lines = process.stdout.read().splitlines()
    assert process.wait() == 0
    assert "interrupted" in remaining_lines[:-1]
    assert "Paris" in remaining_lines[-1]


@reader_test
def test_turn_answers_from_the_documents_with_a_citation(
    reader_path: Path, demo_home: Path, turnmark: Turnmark, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("TURNMARK_HOME", str(demo_home))
    question = "How long does a full freezer hold in a power cut?"
    ran = turnmark("ask", question, "--index", "demo", "--generator", f"local:{reader_path}", "--json")
    assert ran.code == 0, ran.err
    reply = json.loads(ran.out)
    assert reply["decision"] in ("answer", "partial")
    assert "40 hours" in reply["answer"]
    assert [source for source in reply["citations"] if "freezer" in source["text"]]
    assert sum(used["completion_tokens"] for used in reply["usage"].values()) > 0


def gguf(path: Path, *fields: tuple[str, str | int]) -> Path:
    """Write a GGUF file that consists of a header."""
    data = b"GGUF" + struct.pack("<IQQ", 3, 0, len(fields))
    for name, value in fields:
        data += struct.pack("<Q", len(name)) + name.encode()
        if isinstance(value, str):
            data += struct.pack("<IQ", 8, len(value)) + value.encode()
        else:
            data += struct.pack("<II", 4, value)
    path.write_bytes(data)
    return path


@pytest.mark.parametrize("cut", [3, 10, 60, None])
def test_damaged_header_raises_a_readable_error(tmp_path: Path, cut: int | None):
    path = gguf(tmp_path / "m.gguf", ("general.architecture", "llama"), ("llama.context_length", 4096))
    endless = b"GGUF" + struct.pack("<IQQQ", 3, 0, 1, 1 << 60) + b"x" * 64
    path.write_bytes(path.read_bytes()[:cut] if cut else endless)
    with pytest.raises(ValueError, match=r"not a GGUF file|ends early"):
        read_header(path)


def test_error_for_a_missing_model_says_how_to_get_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("TURNMARK_HOME", str(tmp_path))
    with pytest.raises(RequestError, match=f"turnmark model get {NAME}"):
        open_generator(f"local:{NAME}")


def test_reports_all_mistakes_of_a_spec_at_once(tmp_path: Path):
    (tmp_path / "m.gguf").write_bytes(b"something else")
    with pytest.raises(RequestError) as error:
        open_generator(f"local:{tmp_path / 'm.gguf'}?max_tokens=0&nonsense=1")
    for words in ("max_tokens", "'nonsense'", "not a GGUF file"):
        assert words in str(error.value)
    with pytest.raises(RequestError, match="no model and no file is called 'nothing"):
        open_generator("local:nothing.gguf")
    with pytest.raises(RequestError, match=r"no openvino_model\.xml"):
        open_generator(f"local:{tmp_path}")


def test_opening_does_not_load_the_model(tmp_path: Path):
    path = gguf(tmp_path / "m.gguf", ("general.architecture", "llama"), ("llama.context_length", 4096))
    code = f"""
import sys
from turnmark.assistant.llm.generators.registry import open_generator
generator = open_generator("local:{path}")
assert generator.context_tokens == 4096, generator.context_tokens
assert not {{"openvino", "openvino_genai", "torch"}} & set(sys.modules)
"""
    ran = subprocess.run([sys.executable, "-c", code], cwd=ROOT, env=os.environ, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr
