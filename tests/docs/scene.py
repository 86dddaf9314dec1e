"""Where the commands of the pages are typed: a home with an index and a session, a model that answers, and files."""

from __future__ import annotations

import io
import os
import re
import shutil
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from unittest.mock import patch

from tests.conftest import DEMO, Ran
from tests.docs.examples import Example
from tests.docs.material import MATERIAL, QUESTIONS, documents
from tests.docs.tables import BEFORE, PARTS, WORDS
from tests.retrieval import tiny
from tests.servers import ScriptedServer

PRICES = '[prices."gpt-4o-mini"]\nprompt = 0.15\ncompletion = 0.60\ncurrency = "USD"\n'
TYPED = f"{QUESTIONS}/why\n"
"""What is typed into a chat."""
PART = {"--limit", "--sample", "--only", "--suite"}
TINY_MODELS = {"CROSS-ENCODER": tiny.cross, "SPARSE-ENCODER": tiny.splade}
"""Model -> what makes it."""
_VARIABLE = re.compile(r"\$([A-Z_]+)")


class Scene:
    """The home, the files, and how a command runs there.

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
        """`turnmark WORDS` in this process."""
        from turnmark.evaluation.app import run_command_line

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
        """A command that the scene itself needs.

        Raises:
            AssertionError: it failed.
        """
        ran = self.run(*words, folder=self.material, stdin=stdin)
        assert ran.code == 0, f"{words}: {ran.err}"

    def inherited(self) -> dict[str, str]:
        """The environment of this process without what names an endpoint or data: for a process of its own."""
        return {name: value for name, value in os.environ.items() if not name.startswith(("TURNMARK_DATA", "OPENAI_"))}

    def bring(self, name: str, folder: Path) -> None:
        """Put a file or folder into a working folder, where it is one that is made and is not there yet."""
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
        """The words of an example with what its placeholders and variables stand for.

        Raises:
            KeyError: a variable that is not set.
        """
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
        for name, make in TINY_MODELS.items():
            if name in word:
                folder = self.root / name.lower()
                word = word.replace(name, str(folder / "model" if folder.exists() else make(folder)))
        address = self.server.url.replace("127.0.0.1", "localhost")
        word = word.replace("ADAPTER", str(self.material))
        return word.replace("SERVER", self.server.url).replace("OTHER", address).replace("\0", "$")

    def type(self, example: Example, folder: Path, environment: dict[str, str]) -> Ran:
        """Run an example in its working folder, with what it presupposes.

        Args:
            environment: what the lines before it have set; those of this line that are exported are added.
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
        for holds, command in BEFORE.items():
            if holds in example.typed:
                self.fine(*(self._filled(word, {}) for word in command))
        self.bring("my_retrievers.py", folder)
        if "kept" in words and not list((self.root / "home" / "sessions").glob("kept*")):
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
    """A working folder, for a while."""
    before = Path.cwd()
    os.chdir(folder)
    try:
        yield
    finally:
        os.chdir(before)
