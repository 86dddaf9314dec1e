"""The scene in which the commands of the pages are typed: a home with an index and a session, a model, and files."""

from __future__ import annotations

import io
import json
import os
import re
import shutil
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any
from unittest.mock import patch

from tests.conftest import DEMO, Ran
from tests.docs.material import MATERIAL, QUESTIONS, documents
from tests.docs.pages import Example
from tests.docs.tables import PARTS, WORDS
from tests.evaluation.synth.player import PHRASES, Player
from tests.retrieval import tiny
from tests.servers import Say, Scripted, ScriptedServer

PRICES = '[prices."gpt-4o-mini"]\nprompt = 0.15\ncompletion = 0.60\ncurrency = "USD"\n'
TYPED = f"{QUESTIONS}/why\n"
"""Input of a chat."""
PART = {"--limit", "--sample", "--only", "--suite"}
_VARIABLE = re.compile(r"\$([A-Z_]+)")


class Scene:
    """A home and files in which commands run.

    Args:
        root: an empty folder.
        server: the model that the commands ask.
    """

    def __init__(self, root: Path, server: ScriptedServer) -> None:
        self.root, self.server = root, server
        self.material = root / "material"
        for folder in ("user", "home", "material"):
            (root / folder).mkdir()
        self.environment = {
            "HOME": str(root / "user"), "TURNMARK_HOME": str(root / "home"), "NO_COLOR": "1", "COLUMNS": "200",
            "OPENAI_API_KEY": "none", "OPENAI_BASE_URL": server.url, "TURNMARK_DATA": "",
        }  # fmt: skip
        embedder = f"sentence-transformers:{tiny.dense(root / 'tiny')}"
        defaults = f'[defaults]\nretriever = "bm25"\nembedder = "{embedder}"\n'
        (root / "home" / "config.toml").write_text(defaults + PRICES, encoding="utf-8")
        documents(None, root / "user" / "notes")
        self.fine("index", "build", root / "user" / "notes", "--name", "notes")

    def run(
        self, *words: str | Path, folder: Path, stdin: str = "", environment: Mapping[str, str] | None = None
    ) -> Ran:
        """Run `turnmark WORDS` in this process."""
        from turnmark.app import run_command_line

        streams = [io.TextIOWrapper(io.BytesIO(), "utf-8") for _ in range(2)]
        with (
            patch.dict(os.environ, {**self.environment, **(environment or {})}),
            patch.object(sys, "argv", ["turnmark", *map(str, words)]),
            patch.object(sys, "path", [str(folder), *sys.path]),
            patch.multiple(sys, stdin=io.StringIO(stdin), stdout=streams[0], stderr=streams[1]),
            inside(folder),
        ):
            try:
                code = run_command_line()
            except SystemExit as left:
                code = left.code if isinstance(left.code, int) else 70
            for stream in streams:
                stream.flush()
        out, err = (stream.buffer.getvalue().decode() for stream in streams)
        return Ran(code, out, err)

    def fine(self, *words: str | Path, stdin: str = "") -> None:
        """Run a command that the scene itself needs."""
        ran = self.run(*words, folder=self.material, stdin=stdin)
        assert ran.code == 0, f"{words}: {ran.err}"

    def bring(self, name: str, folder: Path) -> None:
        """Put a file or folder into a working folder if it is in `MATERIAL` and not there yet."""
        source = self.material / name
        if name not in MATERIAL or (folder / name).exists():
            return
        if not source.exists():
            source.parent.mkdir(exist_ok=True, parents=True)
            MATERIAL[name](self, source)
        if folder != self.material:
            (folder / name).parent.mkdir(exist_ok=True, parents=True)
            if source.is_dir():
                shutil.copytree(source, folder / name)
            else:
                shutil.copy(source, folder / name)

    def words(self, example: Example, environment: Mapping[str, str]) -> list[str]:
        """Return the words of an example with its placeholders and variables replaced."""
        kind = " ".join(example.words[1:3])
        typed = []
        for before, word in zip(("", *example.words), example.words, strict=False):
            keys = (f"{before} {word}", f"{kind} {word}", word)
            replacement = next((WORDS[key] for key in keys if key in WORDS), word)
            typed += [
                self._filled(part, environment)
                for part in ((replacement,) if isinstance(replacement, str) else replacement)
            ]
        return typed

    def _filled(self, word: str, environment: Mapping[str, str]) -> str:
        word = _VARIABLE.sub(lambda match: environment[match[1]], word)
        for pattern, value in PARTS.items():
            word = re.sub(pattern, value, word)
        if word.startswith("~/"):
            word = str(self.root / "user" / word[2:])
        return word.replace("SERVER", self.server.url).replace("\0", "$")

    def type(self, example: Example, folder: Path, environment: dict[str, str]) -> Ran:
        """Run an example in its working folder, together with the files that it needs.

        Args:
            environment: variables that earlier lines have set; those that this line exports are added.
        """
        own = {name: self._value(name, value) for name, value in example.environment.items()}
        if not example.words:
            environment.update(own)
            return Ran(0, "", "")
        words = self.words(example, {**environment, **own})
        if words[1:2] == ["eval"] and not PART.intersection(words):
            words += ["--limit", "1"]
        for before, word in pairwise(words):
            if before != "--out":
                self.bring(word, folder)
        self.bring("my_retrievers.py", folder)
        if {"kept", "sessions/kept"} & {*words} and not list((self.root / "home" / "sessions").glob("kept*")):
            self.fine("chat", "--index", "notes", stdin=f"{QUESTIONS}/save kept\n")
        stdin = TYPED if "chat" in words[:2] else "a\n" * 6
        if example.stdin:
            self.bring(example.stdin, folder)
            stdin = (folder / example.stdin).read_text("utf-8")
        return self.run(*words[1:], folder=folder, stdin=stdin, environment={**environment, **own})

    def _value(self, name: str, value: str) -> str:
        values = {"TURNMARK_DATA": str(DEMO), "OPENAI_API_KEY": "none", "TURNMARK_CHROMA_TOKEN": "none"}
        return values[name] if value == "…" else self._filled(value, {})


@contextmanager
def inside(folder: Path) -> Iterator[None]:
    """Change the working folder for a while."""
    before = Path.cwd()
    os.chdir(folder)
    try:
        yield
    finally:
        os.chdir(before)


_PLAYER = Player()
_LABELS = {"A>>B": "A=B", "good, neutral or bad": "good", "yes, partial or no": "no", "yes or no": "yes"}
"""One of the labels that a prompt offers, by the words of the prompt."""


def speaker(body: dict[str, Any]) -> Scripted:
    """Reply with the text of a synthesis, an object of the requested schema, a verdict, a rating, or an answer."""
    prompt = "\n".join(message["content"] for message in body["messages"])
    if any(phrase in prompt for phrase in PHRASES.values()):
        return _PLAYER(body)
    response_format = body.get("response_format") or {}
    if "json_schema" in response_format:
        schema = response_format["json_schema"]["schema"]
        return Say(json.dumps(smallest(schema, schema)))
    if "Verdict: [[" in prompt:
        return Say(f"It is so.\nVerdict: [[{next(label for says, label in _LABELS.items() if says in prompt)}]]")
    if "Rating: [[" in prompt:
        return Say("Much like it.\nRating: [[7]]")
    return Say("Descale it with vinegar, then rinse it twice. [1]")


def smallest(node: Mapping[str, Any], root: Mapping[str, Any]) -> Any:
    """Return a small value of a JSON schema; lists have one item, or the minimum number."""
    if "$ref" in node:
        return smallest(root["$defs"][node["$ref"].rpartition("/")[2]], root)
    if "const" in node or "enum" in node:
        return node.get("const", (node.get("enum") or [None])[0])
    if "anyOf" in node:
        return smallest(node["anyOf"][0], root)
    kind = node.get("type")
    if kind == "object":
        return {name: smallest(inner, root) for name, inner in node.get("properties", {}).items()}
    if kind == "array":
        return [smallest(node["items"], root)] * max(1, node.get("minItems", 1))
    plain = {"string": "It is so.", "boolean": True, "null": None}
    return plain[kind] if kind in plain else max(1, node.get("minimum", 1))
