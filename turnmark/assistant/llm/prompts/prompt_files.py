"""Load, check and fill in prompts from text files.

A package has its prompts in one or more folders (`PromptFolder`). A file in the user's folder (`--prompts`) replaces
the built-in file of the same name. A file is a Jinja template. Lines such as `=== system ===` and `=== user ===` begin
a message; a file without such a line is one user message. A user's file may use any of the available placeholders. It
is bare unless it explains the marks: material is fenced if the file has the placeholder `tag`, and quoted if it
mentions lines that begin with "> ".
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from turnmark.assistant.llm.calls.protocols import PromptMessage
from turnmark.core.errors import ErrorCollector, RequestError, TurnmarkError, unknown_name
from turnmark.core.untrusted import break_control_marks, fence, fence_tag, one_line, quote_lines
from turnmark.corpora.types import Message

if TYPE_CHECKING:
    from jinja2 import Environment, Template

PROMPTS_FOLDER = Path(__file__).parent
TAG_PLACEHOLDER = "tag"

_SECTION = re.compile(r"^=== (system|user|assistant) ===[ \t]*\n", re.MULTILINE)
_COMMENT = re.compile(r"\{#.*?#\}\s*", re.DOTALL)
_QUOTE_MARK = '"> "'
_SPEAKER_NAMES = {"assistant": "agent"}

PromptRole = Literal["system", "user", "assistant"]
PromptSection = tuple[PromptRole, str]
PromptMessages = tuple[PromptMessage, ...]


@dataclass(frozen=True)
class Prompt:
    """A prompt, read from its file.

    Attributes:
        sections: role and template of each message.
        sha256: hash of the file's text, including comments, for manifests.
        own: whether the file is the user's.
    """

    name: str
    sections: tuple[PromptSection, ...]
    placeholders: frozenset[str]
    sha256: str
    own: bool = False

    @property
    def bare(self) -> bool:
        """Whether the prompt shows material without fences."""
        return self.own and TAG_PLACEHOLDER not in self.placeholders

    def render(self, **values: str | bool) -> PromptMessages:
        """Return the messages with the values filled in. Values are text: neither Jinja nor a chat template reads them.

        A user's prompt may leave values unused.
        """
        if self.own:
            values = {name: value for name, value in values.items() if name in self.placeholders}
        if self.placeholders != values.keys():
            missing = sorted(self.placeholders - values.keys())
            unknown = sorted(values.keys() - self.placeholders)
            raise TurnmarkError(f"prompt {self.name!r}: missing: {missing}; unknown: {unknown}")
        safe: dict[str, str | bool] = {}
        for name, value in values.items():
            safe[name] = break_control_marks(value) if isinstance(value, str) else value
        messages: list[PromptMessage] = []
        try:
            for role, text in self.sections:
                content = _template(text).render(**safe).strip()
                if content:
                    messages.append(PromptMessage(role=role, content=content))
        except Exception as error:  # a user's template may raise anything
            raise TurnmarkError(f"prompt {self.name!r}: {error}") from error
        return tuple(messages)

    def fill(
        self,
        texts: Mapping[str, str | None],
        passages: Sequence[str] = (),
        history: Sequence[Message] = (),
        plain: Mapping[str, str] | None = None,
        question: str | None = None,
    ) -> PromptMessages:
        """Return the messages with all material fenced, or unfenced if the prompt is bare.

        Bare material has the form of MTRAG's official scripts (judge_utils.py): passages one after the other, turns as
        lines that begin with `user: ` and `agent: `.

        Args:
            texts: placeholder -> text from outside or from a model, or None if there are none.
            passages, history: shown if the prompt has these placeholders.
            plain: placeholder -> trusted text.
            question: last message of the placeholder `conversation`, after the history.
        """
        conversation = [*history]
        if question is not None:
            conversation.append(Message(role="user", content=question))
        contents = [text for text in texts.values() if text is not None]
        tag = fence_tag(*contents, *passages, *(turn.content for turn in conversation))
        values = {name: "" if text is None else self.frame(text, name, tag) for name, text in texts.items()}
        if TAG_PLACEHOLDER in self.placeholders:
            values[TAG_PLACEHOLDER] = tag
        if "passages" in self.placeholders:
            values["passages"] = self._passages(passages, tag)
        if "history" in self.placeholders:
            values["history"] = self._turns(history, tag)
        if "conversation" in self.placeholders:
            values["conversation"] = self._turns(conversation, tag)
        return self.render(**values, **(plain or {}))

    def frame(self, text: str, kind: str, tag: str) -> str:
        """Fence a text, unless the prompt is bare."""
        return text if self.bare else fence(text, _FENCE_KINDS.get(kind, kind), tag)

    def quote(self, text: str) -> str:
        """Quote the lines of a text with "> ", unless a user's prompt does not mention such lines."""
        quotes = not self.own or any(_QUOTE_MARK in section for _, section in self.sections)
        return quote_lines(text) if quotes else text

    def quote_fields(self, fields: Mapping[str, str]) -> str:
        """Quote named texts, each on a line "Name: text". Empty texts are left out."""
        lines = [f"{name}: {one_line(text)}" for name, text in fields.items() if text.strip()]
        return self.quote("\n".join(lines)) if lines else ""

    def _passages(self, texts: Sequence[str], tag: str) -> str:
        if self.bare:
            return "\n\n".join(texts)
        lines = (f"[{n}]\n{fence(text, 'passage', tag)}" for n, text in enumerate(texts, 1))
        return "\n\n".join(lines) or "(none were found)"

    def _turns(self, messages: Sequence[Message], tag: str) -> str:
        if self.bare:
            return turn_lines(messages)
        return "\n".join(fence(message.content, message.role, tag) for message in messages)


_FENCE_KINDS = {"answer": "reply"}
"""Placeholder -> word in its marks, if they differ."""


def turn_lines(messages: Sequence[Message]) -> str:
    """Format turns as MTRAG's official scripts do, one on each line, after the speaker."""
    return "\n".join(f"{_SPEAKER_NAMES.get(message.role, message.role)}: {message.content}" for message in messages)


@dataclass(frozen=True)
class PromptFolder:
    """The prompts of a package, files `NAME.txt`, which a user's file may replace.

    Attributes:
        folders: folders with the files; a name occurs in one of them.
        users: who uses the prompts, in messages: `the assistant`.
        further: function from a name to placeholders that a user's file may use in addition to the built-in ones.
        fixed: names of prompts that cannot be replaced.
    """

    folders: tuple[Path, ...]
    users: str
    further: Callable[[str], frozenset[str]] = lambda _: frozenset()
    fixed: frozenset[str] = frozenset()

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the built-in prompts."""
        return tuple(sorted(self._files))

    @property
    def _files(self) -> Mapping[str, Path]:
        return _files_in(self.folders)

    @property
    def replaceable(self) -> tuple[str, ...]:
        """The names of the prompts that a user's file may replace."""
        return tuple(name for name in self.names if name not in self.fixed)

    def replaced(self, names: Iterable[str], directory: Path | None) -> tuple[str, ...]:
        """Return the names of the prompts that a file in `directory` replaces."""
        if directory is None:
            return ()
        return tuple(name for name in names if name in self.replaceable and (directory / f"{name}.txt").is_file())

    def load(self, name: str, directory: Path | None = None) -> Prompt:
        """Load a prompt: `NAME.txt` in `directory` if it exists, otherwise the built-in one.

        Raises:
            RequestError: there is no such prompt, or the user's file is wrong.
        """
        file_of_name = self._files
        if name not in file_of_name:
            raise RequestError(unknown_name(f"prompt of {self.users}", name, self.names))
        built_in = read_prompt(name, file_of_name[name])
        if directory is None or not self.replaced([name], directory):
            return built_in
        file = directory / f"{name}.txt"
        prompt = read_prompt(name, file, own=True)
        available = built_in.placeholders | self.further(name)
        problems = []
        unknown = sorted(prompt.placeholders - available)
        if unknown:
            problems.append(f"unknown placeholders: {', '.join(unknown)}")
        if available - {TAG_PLACEHOLDER} and not prompt.placeholders - {TAG_PLACEHOLDER}:
            problems.append("it uses no placeholder, so it would show none of the material")
        if problems:
            raise RequestError(f"prompt {file}: {'; '.join(problems)}; available: {', '.join(sorted(available))}")
        return prompt

    def hashes(self, names: Iterable[str], directory: Path | None = None) -> dict[str, str]:
        """Return name -> SHA-256 of the prompts, with those that `directory` replaces."""
        return {name: self.load(name, directory).sha256 for name in names}


def check_prompts(directory: Path | None, *folders: PromptFolder) -> None:
    """Check every file of a user's folder, and raise all mistakes as one error."""
    if directory is None:
        return
    errors = ErrorCollector()
    if not directory.is_dir():
        errors.add(f"--prompts {directory}: no such folder")
    files = sorted(directory.glob("*.txt"))
    unused = [path.name for path in files if not any(path.stem in folder.replaceable for folder in folders)]
    if unused:
        names = "; ".join(f"the prompts of {folder.users} are {', '.join(folder.replaceable)}" for folder in folders)
        errors.add(f"prompts {directory}: {', '.join(unused)} is not used; {names}")
    for path in files:
        for folder in folders:
            if path.stem in folder.replaceable:
                errors.collect(folder.load, path.stem, directory)
    errors.raise_all()


ASSISTANT_PROMPTS = PromptFolder((PROMPTS_FOLDER,), "the assistant", fixed=frozenset(("describe", "json", "repair")))


def load_prompt(name: str, directory: Path | None = None) -> Prompt:
    """Load a prompt of the assistant; see `PromptFolder.load`."""
    return ASSISTANT_PROMPTS.load(name, directory)


@cache
def _files_in(folders: tuple[Path, ...]) -> Mapping[str, Path]:
    return {path.stem: path for folder in folders for path in folder.glob("*.txt")}


@cache
def _engine() -> Environment:
    from jinja2 import StrictUndefined
    from jinja2.exceptions import SecurityError
    from jinja2.sandbox import ImmutableSandboxedEnvironment

    class TextOnly(ImmutableSandboxedEnvironment):
        """A sandbox for prompt files from other people, which must not run code.

        Multiplication and powers are forbidden: 9**9**9 in a template would be computed when it is compiled.
        """

        intercepted_binops = frozenset(("*", "**"))

        def call_binop(self, context: object, operator: str, left: object, right: object) -> object:  # noqa: ARG002
            raise SecurityError(f"{operator} is not for prompts")

    return TextOnly(
        undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True, keep_trailing_newline=True, autoescape=False
    )


@lru_cache(maxsize=64)
def _template(text: str) -> Template:
    """Compile a template; cached, since compiling takes longer than the rest of a turn."""
    return _engine().from_string(text)


def read_prompt(name: str, path: Path, own: bool = False) -> Prompt:
    """Read a prompt from a file.

    Raises:
        RequestError: the file cannot be read, or is no valid template.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise RequestError(f"prompt {path}: cannot be read ({error})") from error
    return _parse_prompt(name, path, text, own)


@lru_cache(maxsize=128)
def _parse_prompt(name: str, path: Path, text: str, own: bool) -> Prompt:
    from jinja2 import TemplateSyntaxError, meta

    body = _COMMENT.sub("", text)
    first, *bodies = _SECTION.split(body)
    if bodies and first.strip():
        raise RequestError(f"prompt {path}: there is text above its first '=== … ===' line")
    sections: tuple[PromptSection, ...] = (("user", body),)
    if bodies:
        sections = tuple(zip(bodies[::2], bodies[1::2], strict=True))  # type: ignore[arg-type]
    used: set[str] = set()
    for _, section in sections:
        try:
            used |= meta.find_undeclared_variables(_engine().parse(section))
            _template(section)
        except TemplateSyntaxError as error:
            raise RequestError(f"prompt {path}: {error.message} (line {error.lineno} of its section)") from error
        except (RecursionError, MemoryError):
            raise RequestError(f"prompt {path}: it is nested too deeply") from None
        except (ValueError, SyntaxError, ArithmeticError) as error:
            raise RequestError(f"prompt {path}: it cannot be compiled ({error})") from error
    return Prompt(name, sections, frozenset(used), hashlib.sha256(text.encode("utf-8")).hexdigest(), own)
