"""The prompts, as text files beside this one, and the fences that keep material apart from instructions.

A file is a Jinja template. Lines such as `=== system ===` and `=== user ===` begin a message; a file without such a
line is one user message. Its placeholders are strict: a value that is not used, and one that is missing, is an error.
"""

from __future__ import annotations

import hashlib
import re
import unicodedata
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache, lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from turnmark.assistant.generators.base import PromptMessage
from turnmark.corpora.errors import RequestError, TurnmarkError

if TYPE_CHECKING:
    from jinja2 import Environment, Template

HERE = Path(__file__).parent

_SECTION = re.compile(r"^=== (system|user|assistant) ===[ \t]*\n", re.MULTILINE)
_COMMENT = re.compile(r"\{#.*?#\}\s*", re.DOTALL)

Role = Literal["system", "user", "assistant"]
Section = tuple[Role, str]


@dataclass(frozen=True)
class Prompt:
    """A prompt as it stands in its file."""

    name: str
    sections: tuple[Section, ...]
    placeholders: frozenset[str]
    sha256: str
    """Of the file's text, comments included: what manifests hold."""

    def render(self, **values: str | bool) -> tuple[PromptMessage, ...]:
        """The messages, with the values put in. What a value says is never read as a template, ours or a model's.

        Raises:
            TurnmarkError: a value is missing, or one is given that the prompt does not use, or filling in fails.
        """
        if self.placeholders != values.keys():
            raise TurnmarkError(f"prompt {self.name!r}: {_difference(self.placeholders, values.keys())}")
        safe = {name: inert(value) if isinstance(value, str) else value for name, value in values.items()}
        try:
            rendered = [(role, _template(text).render(**safe).strip()) for role, text in self.sections]
        except Exception as error:  # a template of somebody's own may do anything that raises
            raise TurnmarkError(f"prompt {self.name!r}: {error}") from error
        return tuple(PromptMessage(role=role, content=text) for role, text in rendered if text)


def load_prompt(name: str, directory: Path | None = None) -> Prompt:
    """The prompt `name`, from `directory` where that has a file `NAME.txt`, else the built-in one.

    Raises:
        RequestError: no such prompt, a broken file, or placeholders that are not those of the built-in one.
    """
    built_in = HERE / f"{name}.txt"
    if name not in prompt_names():
        raise RequestError(f"no prompt is called {name!r}; there are: {', '.join(prompt_names())}")
    own = directory / f"{name}.txt" if directory else None
    if own is None or not own.is_file():
        return read_prompt(name, built_in)
    prompt, expected = read_prompt(name, own), read_prompt(name, built_in).placeholders
    if prompt.placeholders != expected:
        raise RequestError(f"prompt {own}: {_difference(expected, prompt.placeholders)}")
    return prompt


@cache
def prompt_names() -> tuple[str, ...]:
    """The names of the built-in prompts."""
    return tuple(sorted(path.stem for path in HERE.glob("*.txt")))


def prompt_hashes(directory: Path | None = None) -> dict[str, str]:
    """Name -> SHA-256 of every prompt, those of `directory` in place of the built-in ones.

    Raises:
        RequestError: `directory` is none, or holds a `.txt` file that is no prompt of ours.
    """
    if directory is not None:
        if not directory.is_dir():
            raise RequestError(f"prompts {directory}: no such folder")
        strange = sorted(path.name for path in directory.glob("*.txt") if path.stem not in prompt_names())
        if strange:
            names = ", ".join(prompt_names())
            raise RequestError(f"prompts {directory}: {', '.join(strange)} is not used; prompts are called: {names}")
    return {name: load_prompt(name, directory).sha256 for name in prompt_names()}


@cache
def _engine() -> Environment:
    from jinja2 import StrictUndefined
    from jinja2.exceptions import SecurityError
    from jinja2.sandbox import ImmutableSandboxedEnvironment

    class TextOnly(ImmutableSandboxedEnvironment):
        """Sandboxed: a prompt file of somebody else's is text to fill in, not code to run.

        Without products and powers: a template that says 9**9**9 would be computed while it is compiled.
        """

        intercepted_binops = frozenset(("*", "**"))

        def call_binop(self, context: object, operator: str, left: object, right: object) -> object:  # noqa: ARG002
            raise SecurityError(f"{operator} is not for prompts")

    return TextOnly(
        undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True, keep_trailing_newline=True, autoescape=False
    )


@lru_cache(maxsize=64)
def _template(text: str) -> Template:
    """Compiled once: that takes longer than the rest of a turn."""
    return _engine().from_string(text)


def read_prompt(name: str, path: Path) -> Prompt:
    """The prompt in a file.

    Raises:
        RequestError: it cannot be read, or is no template that can be compiled.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise RequestError(f"prompt {path}: cannot be read ({error})") from error
    return _parsed(name, path, text)


@lru_cache(maxsize=64)
def _parsed(name: str, path: Path, text: str) -> Prompt:
    from jinja2 import TemplateSyntaxError, meta

    body = _COMMENT.sub("", text)
    first, *bodies = _SECTION.split(body)
    if bodies and first.strip():
        raise RequestError(f"prompt {path}: there is text above its first '=== … ===' line")
    sections: tuple[Section, ...] = tuple(zip(bodies[::2], bodies[1::2], strict=True)) if bodies else (("user", body),)  # type: ignore[arg-type]
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
    return Prompt(name, sections, frozenset(used), hashlib.sha256(text.encode("utf-8")).hexdigest())


def _difference(expected: Iterable[str], placeholders: Iterable[str]) -> str:
    missing, strange = sorted(set(expected) - set(placeholders)), sorted(set(placeholders) - set(expected))
    parts = [f"missing: {', '.join(missing)}"] if missing else []
    return "; ".join(parts + ([f"unknown: {', '.join(strange)}"] if strange else []))


# --- fences ----------------------------------------------------------------------------------------------------------


def fence_tag(*contents: str) -> str:
    """A tag that none of the contents holds, made from all of them: equal prompts have equal tags, which caches need.

    Who writes one document cannot know the tag, since it depends on the question and on all the others. A content that
    holds it in letters that look alike, or with characters without width inside, holds it too.
    """
    tag = ""
    forms = [content.lower() for content in contents] + [_folded(content) for content in contents]
    while not tag or any(tag in content for content in forms):
        digest = hashlib.sha256(tag.encode())
        for content in contents:
            part = content.encode("utf-8", "surrogatepass")
            digest.update(len(part).to_bytes(8, "big") + part)
        tag = digest.hexdigest()[:12]
    return tag


def _folded(text: str) -> str:
    return unicodedata.normalize("NFKC", _WIDTHLESS.sub("", text)).lower()


_WIDTHLESS = re.compile("[\0\xad\u200b-\u200f\u202a-\u202e\u2060-\u206f\ufe00-\ufe0f\ufeff]")


def fence(text: str, kind: str = "text", tag: str | None = None) -> str:
    """`text` between a pair of marks that it cannot close.

    Args:
        kind: what the text is, in the marks: `passage`, `user`, `assistant`.
        tag: the tag of the whole prompt, from `fence_tag` over all that is fenced in it; None: one for this text alone.
    """
    tag = tag or fence_tag(text)
    return f"<{kind}-{tag}>\n{text}\n</{kind}-{tag}>"


def quoted(text: str) -> str:
    """`text` with `> ` before every line of it: no line of it can pass for one of ours, whatever it holds.

    Unlike `fence` it needs no tag, so that prompts that begin alike stay alike: what stands first is read once by
    whoever caches prefixes. A prompt shows its material in one of the two ways, and says which.
    """
    return "\n".join(f"> {line}".rstrip() for line in text.splitlines()) or ">"


# What templates of chat models write around turns. A server reads it as control wherever it stands in a message: where
# one turn ends, who speaks. By family: <|im_start|> (ChatML, Llama 3, Phi, GPT-OSS and most since; DeepSeek with wide
# bars), <|turn> and <turn|>, <start_of_turn> (Gemma), [INST] (Mistral), <<SYS>> (Llama 2), <s>, [CLS], ]~b] (MiniMax).
_NAME = r"[\w▁.:/!\u200b-\u200d\u2060\ufeff-]{1,80}"
_ANGLES = (
    r"s|bos|eos|pad|unk|mask|sop|eop|cls|sep|think|thinking|tools?|tool_calls?|tool_responses?|start_of_turn|end_of_turn|"
    r"start_of_image|end_of_image|end_of_utterance|row_\d+_col_\d+|unused\d{1,5}|extra_id_\d{1,5}|reserved_\w{1,20}|"
    r"SPECIAL_\d{1,5}|seed:\w{1,20}|image|audio|video"
)
_SQUARES = (
    r"INST|SYSTEM_PROMPT|AVAILABLE_TOOLS|TOOL_CALLS|TOOL_RESULTS|TOOL_CONTENT|ARGS|CALL_ID|THINK|IMG|IMG_BREAK|IMG_END|"
    r"PREFIX|SUFFIX|MIDDLE|BOS|EOS|EOT|EOD|CLS|SEP|MASK|PAD|UNK|[gs]?MASK"
)
_CONTROL = re.compile(
    rf"[<＜](?=[|｜]{_NAME}[|｜]?[>＞]|{_NAME}[|｜][>＞]|/?(?:{_ANGLES})>)"
    rf"|<<(?=/?SYS>>)|\[(?=/?(?:{_SQUARES})\])|\](?=~!?b[\]\[])|\[(?=e~\[)"
)


def inert(text: str) -> str:
    """`text` with no control mark of a chat template in it: each gets a space behind its first character.

    The words stay readable, also to a model that is asked about them. NUL becomes U+FFFD, since some servers read a
    text only up to it, and the rest of the prompt would be lost.
    """
    return _CONTROL.sub(lambda mark: f"{mark.group()} ", text.replace("\0", "\ufffd"))
